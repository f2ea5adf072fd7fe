/* The SQL tables "counters" and "steps". Their rows are collected and sorted by time when a
 * statement first uses them, because they exist only inside of activities. */
#include "export/export.h"
#include "export/sql_impl.h"
#include "trace/model/steps.h"

/* ---- counters -------------------------------------------------------------------------------- */

enum { C_TIME, C_TRACK, C_PROCESS, C_NAME, C_SERIES, C_UNIT, C_VALUE, C_ROW, C_COUNT };

static const ke_sql_column counter_columns[] = {
    [C_TIME] = {"time_ns", "INTEGER", "ns since the Unix epoch", KE_SQL_SCAN, false},
    [C_TRACK] = {"track", "INTEGER", "tracks.track", KE_SQL_INDEX_MANY, false},
    [C_PROCESS] = {"process", "INTEGER", "processes.process", KE_SQL_INDEX_MANY, false},
    [C_NAME] = {"name", "TEXT", "of the counter", KE_SQL_INDEX_MANY, false},
    [C_SERIES] = {"series", "TEXT", "one counter may have several", KE_SQL_SCAN, false},
    [C_UNIT] = {"unit", "TEXT", "NULL: none", KE_SQL_SCAN, false},
    [C_VALUE] = {"value", "", "the sample", KE_SQL_SCAN, false},
    [C_ROW] = {"row", "INTEGER", "activities.row", KE_SQL_INDEX_FEW, false},
};

static bool is_text_sample(uint32_t type) { return type >= KINETO_ARG_STRING; }

/* A sample of one series; texts are interned, since series repeat. False: out of memory. */
static bool append_sample(ke_sql *sql, const kineto_activity *a, const kineto_arg *arg)
{
    ke_sql_sample s = {.time_ns = a->start_ns,
                       .row = a->row,
                       .number = (uint32_t)sql->samples.count,
                       .series = kb_intern_id(&sql->sample_texts, arg->key),
                       .type = arg->type};
    s.u = arg->u;
    if (is_text_sample(arg->type))
        s.text = kb_intern_id(&sql->sample_texts, arg->text);
    bool ok = s.series != KB_INTERN_NONE && (!is_text_sample(s.type) || s.text != KB_INTERN_NONE);
    return ok && sql->samples.count < UINT32_MAX && kb_vec_push(&sql->samples, s);
}

/* Every arg of a counter is a series. False: out of memory. */
static bool append_counter(ke_sql *sql, kineto_row row)
{
    kineto_args_iterator it;
    kineto_activity a;
    kineto_arg arg;
    bool ok = true;
    kineto_trace_get(sql->trace, row, &a);
    kineto_args_begin(sql->trace, row, &it);
    while (ok && kineto_args_next(&it, &arg))
        ok = append_sample(sql, &a, &arg);
    return ok;
}

static int compare_sample_times(const void *left, const void *right)
{
    const ke_sql_sample *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* All samples of the trace, sorted by time. False: out of memory; the next statement tries
 * again. */
static bool collect_samples(ke_sql *sql)
{
    if (sql->has_samples)
        return true;
    bool ok = true;
    for (uint32_t i = 0; ok && i < kt_block_count(sql->trace); i++) {
        const kt_block *b = kt_block_at(sql->trace, i);
        for (uint32_t k = 0; ok && k < b->count; k++)
            if (b->form[k] == KINETO_FORM_COUNTER)
                ok = append_counter(sql, i * KT_BLOCK_ROWS + k);
    }
    if (!ok)
        ke_sql_samples_free(sql);
    else if (sql->samples.count)
        qsort(sql->samples.data, sql->samples.count, sizeof *sql->samples.data,
              compare_sample_times);
    sql->has_samples = ok;
    return ok;
}

static uint64_t count_samples(const ke_sql *sql) { return sql->samples.count; }

static int64_t sample_time_of(const ke_sql *sql, uint32_t row)
{
    return sql->samples.data[row].time_ns;
}

static void put_sample_value(const ke_sql *sql, const ke_sql_sample *s, sqlite3_context *out)
{
    kineto_arg arg = {.type = s->type};
    if (is_text_sample(s->type))
        arg.text = kb_intern_get(&sql->sample_texts, s->text);
    else
        arg.u = s->u;
    ke_sql_put_arg(out, &arg);
}

/* Unit and series are parts of the arg's key. */
static void put_sample_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    const ke_sql_sample *s = &sql->samples.data[row];
    kineto_activity a;
    kineto_track t;
    kineto_string series, unit;
    kineto_trace_get(sql->trace, s->row, &a);
    kineto_trace_track(sql->trace, a.track, &t);
    ke_split_unit(kb_intern_get(&sql->sample_texts, s->series), &series, &unit);
    switch (column) {
    case C_TIME:
        ke_sql_put_int(out, s->time_ns);
        break;
    case C_TRACK:
        ke_sql_put_int(out, a.track);
        break;
    case C_PROCESS:
        ke_sql_put_int(out, t.process);
        break;
    case C_NAME:
        ke_sql_put(out, a.name);
        break;
    case C_SERIES:
        ke_sql_put(out, series);
        break;
    case C_UNIT:
        ke_sql_put_text(out, unit);
        break;
    case C_VALUE:
        put_sample_value(sql, s, out);
        break;
    default:
        ke_sql_put_int(out, s->row);
    }
}

static bool sample_key_of(const ke_sql *sql, uint32_t row, int column, uint64_t *key)
{
    kineto_activity a;
    kineto_track t;
    kineto_trace_get(sql->trace, sql->samples.data[row].row, &a);
    kineto_trace_track(sql->trace, a.track, &t);
    *key = column == C_TRACK     ? a.track
           : column == C_PROCESS ? t.process
           : column == C_NAME    ? a.name_id
                                 : a.row;
    return true;
}

static bool key_of_counter_name(ke_sql *sql, int column, kineto_string text, uint64_t *key)
{
    uint32_t id;
    (void)column;
    bool found = ke_sql_find_string(sql, text, &id);
    *key = id;
    return found;
}

static const ke_sql_ops sample_ops = {.prepare = collect_samples,
                                      .rows = count_samples,
                                      .cell = put_sample_cell,
                                      .key = sample_key_of,
                                      .key_of_text = key_of_counter_name,
                                      .time_column = C_TIME,
                                      .time = sample_time_of};
const ke_sql_table ke_sql_counters = {"counters", "samples: one line for each series of each",
                                      counter_columns, C_COUNT, &sample_ops};

/* ---- steps ----------------------------------------------------------------------------------- */

enum { S_STEP, S_START, S_END, S_DUR, S_TRACK, S_PROCESS, S_ROW, S_COUNT };

static const ke_sql_column step_columns[] = {
    [S_STEP] = {"step", "INTEGER", "its number", KE_SQL_INDEX_FEW, false},
    [S_START] = {"start_ns", "INTEGER", "ns since the Unix epoch", KE_SQL_SCAN, false},
    [S_END] = {"end_ns", "INTEGER", "ns since the Unix epoch", KE_SQL_SCAN, false},
    [S_DUR] = {"dur_ns", "INTEGER", "end_ns - start_ns", KE_SQL_SCAN, false},
    [S_TRACK] = {"track", "INTEGER", "tracks.track", KE_SQL_SCAN, false},
    [S_PROCESS] = {"process", "INTEGER", "processes.process", KE_SQL_SCAN, false},
    [S_ROW] = {"row", "INTEGER", "activities.row", KE_SQL_INDEX_FEW, false},
};

static int compare_step_starts(const void *left, const void *right)
{
    const ke_sql_step_row *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Steps by the same rules as in analyses. Numbers that SQLite's integers do not hold are left
 * out. */
static bool collect_steps(ke_sql *sql)
{
    if (sql->has_steps)
        return true;
    kt_step_list list;
    bool ok = kt_step_list_make(sql->trace, NULL, true, &list);
    for (size_t i = 0; ok && i < list.rows.count; i++) {
        const kt_step_row *s = &list.rows.data[i];
        ke_sql_step_row step = {s->start_ns, (int64_t)s->number, s->row};
        ok = s->number >= INT64_MAX || kb_vec_push(&sql->steps, step);
    }
    kt_step_list_free(&list);
    if (!ok)
        kb_vec_free(&sql->steps);
    else if (sql->steps.count)
        qsort(sql->steps.data, sql->steps.count, sizeof *sql->steps.data, compare_step_starts);
    sql->has_steps = ok;
    return ok;
}

static uint64_t count_sql_steps(const ke_sql *sql) { return sql->steps.count; }

static int64_t step_time_of(const ke_sql *sql, uint32_t row)
{
    return sql->steps.data[row].start_ns;
}

static void put_step_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    const ke_sql_step_row *s = &sql->steps.data[row];
    kineto_activity a;
    kineto_track t;
    kineto_trace_get(sql->trace, s->row, &a);
    kineto_trace_track(sql->trace, a.track, &t);
    switch (column) {
    case S_STEP:
        ke_sql_put_int(out, s->number);
        break;
    case S_START:
        ke_sql_put_int(out, a.start_ns);
        break;
    case S_END:
        ke_sql_put_int(out, a.end_ns);
        break;
    case S_DUR:
        ke_sql_put_int(out, kb_length_ns(a.start_ns, a.end_ns));
        break;
    case S_TRACK:
        ke_sql_put_int(out, a.track);
        break;
    case S_PROCESS:
        ke_sql_put_int(out, t.process);
        break;
    default:
        ke_sql_put_int(out, s->row);
    }
}

static bool step_key_of(const ke_sql *sql, uint32_t row, int column, uint64_t *key)
{
    const ke_sql_step_row *s = &sql->steps.data[row];
    *key = column == S_STEP ? (uint64_t)s->number : s->row;
    return true;
}

static const ke_sql_ops step_ops = {.prepare = collect_steps,
                                    .rows = count_sql_steps,
                                    .cell = put_step_cell,
                                    .key = step_key_of,
                                    .time_column = S_START,
                                    .time = step_time_of};
const ke_sql_table ke_sql_steps = {"steps", "iterations: ProfilerStep#N, or steps of a server", step_columns,
                                   S_COUNT, &step_ops};

void ke_sql_samples_free(ke_sql *sql)
{
    kb_vec_free(&sql->samples);
    kb_intern_free(&sql->sample_texts);
    sql->sample_texts = (kb_intern){0};
    kb_vec_free(&sql->steps);
}

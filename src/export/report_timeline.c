/* The timeline of the report, in a format that a browser decodes quickly: a JSON header with its
 * length in 4 bytes before it, then columns of varints (deltas, zigzag where they may be negative),
 * then the samples of counters. report/data.js reads it. */
#include "export/cpu_rows.h"
#include "export/report.h"
#include "trace/model/steps.h"

#include <math.h>

typedef KB_VEC(uint8_t) bytes;
/* Columns by position. START: delta to the latest start so far; LINK: delta to the position of the
 * launch, plus 1; ids: delta to the last id, plus 1; 0 means none. */
enum { START, DUR, NAME, KIND, DEPTH, ROW, LINK, EXTERNAL, CORRELATION, COLUMNS };
static const char *const column_names[COLUMNS] = {
    "start", "dur", "name", "kind", "depth", "row", "link", "external", "correlation"};

/* A series of samples: times are varint deltas, values are doubles of 8 bytes. */
typedef struct series {
    uint32_t process, name;
    kineto_string key;
    int64_t last_ns;
    uint64_t count;
    bytes times, values;
} series;

typedef struct timeline_writer {
    const ke_timeline *t;
    kb_sink *sink;
    int64_t origin_ns;
    uint64_t last_external, last_correlation;
    bytes columns[COLUMNS];
    /* By string id: its number in the page; UINT32_MAX: not used yet. */
    uint32_t *string_of;
    KB_VEC(uint32_t) strings;
    uint64_t *position_of; /* by row */
    uint16_t *depth_of; /* by row */
    uint32_t *track_depths;
    KB_VEC(series) series;
    kb_map series_of;
    kb_arena keys;
    bool out_of_memory;
} timeline_writer;

#define LINES 4000u /* lines of a track, at most; deeper rows are drawn in the last one */

/* ---- numbers --------------------------------------------------------------------------------- */

/* LEB128, at most 10 bytes. */
static void append_varint(timeline_writer *w, bytes *to, uint64_t v)
{
    if (!kb_vec_reserve(to, to->count + 10)) {
        w->out_of_memory = true;
        return;
    }
    for (; v > 127; v >>= 7)
        to->data[to->count++] = (uint8_t)(v | 128);
    to->data[to->count++] = (uint8_t)v;
}

/* Maps small negative numbers to small positive ones. */
static uint64_t zigzag_encode(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }

/* Clamps to 0: rows that start before the origin of their column would need a sign. */
static uint64_t ns_since(int64_t ns, int64_t before)
{
    return ns > before ? (uint64_t)ns - (uint64_t)before : 0;
}

static const kt_block *block_of_row(const timeline_writer *w, kineto_row row)
{
    return kt_block_at(w->t->trace, row / KT_BLOCK_ROWS);
}

/* ---- rows of the timeline and their order ---------------------------------------------------- */

/* Counters are drawn as curves, not as boxes. */
static bool is_timeline_row(const kineto_trace *t, kineto_row row)
{
    return kt_block_at(t, row / KT_BLOCK_ROWS)->form[row % KT_BLOCK_ROWS] != KINETO_FORM_COUNTER;
}

/* Track by track in the order of rows of each track, which is that of time. */
kineto_status ke_timeline_create(const kineto_trace *trace, ke_timeline *out, kineto_error *err)
{
    *out = (ke_timeline){.trace = trace};
    out->rows = malloc((kineto_trace_count(trace) + 1) * sizeof *out->rows);
    for (uint32_t i = 0; out->rows && i < kineto_trace_track_count(trace); i++) {
        kineto_track track;
        kineto_trace_track(trace, i, &track);
        const kineto_row *rows = kineto_trace_track_rows(trace, i);
        if (!rows && track.count)
            return kb_fail_memory(err, NULL);
        for (uint64_t j = 0; j < track.count; j++)
            if (is_timeline_row(trace, rows[j]))
                out->rows[out->count++] = rows[j];
    }
    return out->rows ? KINETO_OK : kb_fail_memory(err, NULL);
}

void ke_timeline_free(ke_timeline *timeline)
{
    free(timeline->rows);
    *timeline = (ke_timeline){0};
}

/* ---- lines of a track ------------------------------------------------------------------------ */

/* The open rows of each lane of a track, as a stack of positions relative to the track's first. */
typedef struct open_rows {
    uint64_t *top;   /* by lane: position + 1; 0: nothing is open */
    uint64_t *below; /* by position: the stack below it */
} open_rows;

static int64_t end_of_row(const kineto_trace *t, kineto_row row)
{
    return kt_block_at(t, row / KT_BLOCK_ROWS)->end_ns[row % KT_BLOCK_ROWS];
}

static int64_t start_of_row(const kineto_trace *t, kineto_row row)
{
    return kt_block_at(t, row / KT_BLOCK_ROWS)->start_ns[row % KT_BLOCK_ROWS];
}

/* Pops the rows of the lane that have ended and pushes row i. Returns its depth in its lane. */
static uint32_t push_open_row(const timeline_writer *w, open_rows *open, const kineto_row *rows,
                              uint64_t i, uint32_t lane)
{
    const kineto_trace *t = w->t->trace;
    uint64_t top = open->top[lane];
    while (top && end_of_row(t, rows[top - 1]) <= start_of_row(t, rows[i]))
        top = open->below[top - 1];
    open->below[i] = top;
    open->top[lane] = end_of_row(t, rows[i]) > start_of_row(t, rows[i]) ? i + 1 : top;
    return top ? w->depth_of[rows[top - 1]] + 1u : 0;
}

/* Turns the heights of lanes into their first lines: lanes are drawn one below the other. Returns
 * the number of lines. */
static uint32_t assign_lane_lines(uint32_t *heights, uint32_t lanes)
{
    uint32_t line = 0;
    for (uint32_t lane = 0; lane <= lanes; lane++) {
        uint32_t height = heights[lane];
        heights[lane] = line;
        line = KB_MIN(line + height, LINES);
    }
    return line;
}

/* Computes the line of each row of a track and appends the column DEPTH. Returns the number of
 * lines. */
static uint32_t write_depth_column(timeline_writer *w, uint64_t first, uint64_t count,
                                   uint32_t lanes)
{
    const kineto_row *rows = w->t->rows + first;
    open_rows open = {calloc((size_t)lanes + 1, sizeof *open.top),
                      malloc((count + 1) * sizeof *open.below)};
    uint32_t *deepest = calloc((size_t)lanes + 1, sizeof *deepest), line = 0;
    bool ok = open.top && open.below && deepest;
    w->out_of_memory |= !ok;
    for (uint64_t i = 0; ok && i < count; i++) {
        uint32_t lane = KB_MIN(kineto_trace_lane(w->t->trace, rows[i]), lanes);
        uint32_t depth = push_open_row(w, &open, rows, i, lane);
        w->depth_of[rows[i]] = (uint16_t)KB_MIN(depth, LINES - 1);
        deepest[lane] = KB_MAX(deepest[lane], w->depth_of[rows[i]] + 1u);
    }
    if (ok)
        line = assign_lane_lines(deepest, lanes);
    for (uint64_t i = 0; ok && i < count; i++) {
        uint32_t lane = KB_MIN(kineto_trace_lane(w->t->trace, rows[i]), lanes);
        append_varint(w, &w->columns[DEPTH],
                      KB_MIN(deepest[lane] + w->depth_of[rows[i]], LINES - 1));
    }
    free(open.top);
    free(open.below);
    free(deepest);
    return line;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Numbers strings in the order of their first use, so that frequent ones get short varints. */
static uint32_t page_string_number(timeline_writer *w, uint32_t id)
{
    if (w->string_of[id] == UINT32_MAX) {
        w->string_of[id] = (uint32_t)w->strings.count;
        w->out_of_memory |= !kb_vec_push(&w->strings, id);
    }
    return w->string_of[id];
}

/* The distance to the launch, zigzag-encoded, plus 1; 0: there is none on the timeline. */
static uint64_t launch_link(const timeline_writer *w, kineto_row row, uint64_t position)
{
    kineto_row call = kineto_trace_launch(w->t->trace, row);
    if (call == KINETO_NO_ROW || w->position_of[call] == UINT64_MAX)
        return 0;
    return 1 + zigzag_encode((int64_t)(w->position_of[call] - position));
}

/* Ids of neighbours are close, so deltas are short. */
static void append_id_delta(timeline_writer *w, uint32_t column, uint64_t id, uint64_t *last)
{
    append_varint(w, &w->columns[column], id ? 1 + zigzag_encode((int64_t)(id - *last)) : 0);
    *last = id ? id : *last;
}

/* `before_ns` is the latest start so far of the track, `before` the previous row. */
static void append_timeline_row(timeline_writer *w, uint64_t position, int64_t before_ns,
                                kineto_row before)
{
    KB_ASSERT(position < w->t->count);
    kineto_row row = w->t->rows[position];
    const kt_block *b = block_of_row(w, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    append_varint(w, &w->columns[START], ns_since(b->start_ns[i], before_ns));
    append_varint(w, &w->columns[DUR], ns_since(b->end_ns[i], b->start_ns[i]));
    append_varint(w, &w->columns[NAME], page_string_number(w, b->name[i]));
    append_varint(w, &w->columns[KIND], b->kind[i]);
    append_varint(w, &w->columns[ROW], zigzag_encode((int64_t)row - (int64_t)before));
    append_varint(w, &w->columns[LINK], launch_link(w, row, position));
    append_id_delta(w, EXTERNAL, b->external_id[i], &w->last_external);
    append_id_delta(w, CORRELATION, b->correlation_id[i], &w->last_correlation);
}

static void append_timeline_rows(timeline_writer *w, uint64_t first, uint64_t count)
{
    int64_t before_ns = w->origin_ns;
    for (uint64_t position = first; position < first + count && !w->out_of_memory; position++) {
        append_timeline_row(w, position, before_ns, position ? w->t->rows[position - 1] : 0);
        kineto_row row = w->t->rows[position];
        before_ns = KB_MAX(before_ns, block_of_row(w, row)->start_ns[row % KT_BLOCK_ROWS]);
    }
}

/* ---- counters -------------------------------------------------------------------------------- */

/* Counters of one name may be on several tracks of a process: each has its own times, so each is a
 * series. */
static series *find_or_add_series(timeline_writer *w, const kineto_track *track, uint32_t index,
                                  uint32_t name, kineto_string key)
{
    uint64_t parts[] = {index, name, kb_hash(key.data, key.size)};
    bool created;
    uint64_t *at =
        kb_map_insert(&w->series_of, kb_hash(parts, sizeof parts), w->series.count, &created);
    if (at && created) {
        char *copy = kb_arena_copy(&w->keys, key.data, key.size);
        series fresh = {.process = track->process,
                        .name = name,
                        .key = {copy, key.size},
                        .last_ns = w->origin_ns};
        if (!copy || !kb_vec_push(&w->series, fresh))
            at = NULL;
    }
    w->out_of_memory |= !at;
    return at ? &w->series.data[*at] : NULL;
}

/* Appends the finite numbers of a counter to their series. */
static void append_samples_of_row(timeline_writer *w, kineto_row row, const kineto_track *track)
{
    const kt_block *b = block_of_row(w, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    kineto_args_iterator it;
    kineto_arg arg;
    double value;
    for (kineto_args_begin(w->t->trace, row, &it);
         kineto_args_next(&it, &arg) && !w->out_of_memory;) {
        bool is = kt_arg_number(&arg, &value) && isfinite(value);
        series *s = is ? find_or_add_series(w, track, b->track[i], b->name[i], arg.key) : NULL;
        uint64_t raw;
        if (!s)
            continue;
        append_varint(w, &s->times, ns_since(b->start_ns[i], s->last_ns));
        s->last_ns = KB_MAX(s->last_ns, b->start_ns[i]);
        memcpy(&raw, &value, sizeof raw);
        for (uint32_t k = 0; k < 8; k++)
            w->out_of_memory |= !kb_vec_push(&s->values, (uint8_t)(raw >> 8 * k));
        s->count++;
    }
}

static void collect_counters(timeline_writer *w)
{
    const kineto_trace *t = w->t->trace;
    for (uint32_t i = 0; i < kineto_trace_track_count(t) && !w->out_of_memory; i++) {
        kineto_track track;
        kineto_trace_track(t, i, &track);
        const kineto_row *rows = kineto_trace_track_rows(t, i);
        for (uint64_t j = 0; rows && j < track.count; j++)
            if (!is_timeline_row(t, rows[j]))
                append_samples_of_row(w, rows[j], &track);
    }
}

/* ---- the header ------------------------------------------------------------------------------ */

static void put_timeline_processes(const timeline_writer *w, kb_json *j)
{
    const kineto_trace *t = w->t->trace;
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        ke_label label = ke_process_label(t, i);
        kineto_trace_process(t, i, &p);
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", (kineto_string){label.text, label.size});
        kb_json_put_int(j, "rank", p.rank);
        kb_json_put_bool(j, "device", p.is_device);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Types that the page draws alike share a name. */
static void put_timeline_track(timeline_writer *w, kb_json *j, uint32_t index, uint64_t first,
                               uint64_t count)
{
    static const char *const types[] = {"thread", "stream", "counter", "other", "other"};
    static const char *const shows[] = {"", "state", "samples"};
    kineto_track track;
    uint32_t tid;
    ke_cpu_row_type type = ke_cpu_track(w->t->trace, index, &tid);
    kineto_trace_track(w->t->trace, index, &track);
    /* States come first of a thread, and have its name. */
    ke_label label = type == KE_CPU_ROW_STATE ? ke_cpu_thread_label(w->t->trace, index)
                                              : ke_track_label(w->t->trace, index);
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", (kineto_string){label.text, label.size});
    if (type != KE_CPU_ROW_NONE)
        kb_json_put_string(j, "shows", kb_string(shows[type]));
    if (type != KE_CPU_ROW_NONE || track.type == KINETO_TRACK_THREAD)
        kb_json_put_int(j, "thread", type != KE_CPU_ROW_NONE ? (int64_t)tid : track.id);
    kb_json_put_uint(j, "process", track.process);
    kb_json_put_string(j, "type", kb_string(types[KB_MIN(track.type, 4u)]));
    kb_json_put_uint(j, "first", first);
    kb_json_put_uint(j, "count", count);
    kb_json_put_uint(j, "depths", w->track_depths[index]);
    kb_json_object_end(j);
}

/* The rows of a track are consecutive in the timeline: how many from `first` on. */
static uint64_t count_track_run(const timeline_writer *w, uint64_t first, uint32_t track)
{
    uint64_t at = first;
    while (at < w->t->count &&
           block_of_row(w, w->t->rows[at])->track[w->t->rows[at] % KT_BLOCK_ROWS] == track)
        at++;
    return at - first;
}

static void put_timeline_tracks(timeline_writer *w, kb_json *j)
{
    uint64_t first = 0;
    kb_json_key_z(j, "tracks");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_track_count(w->t->trace); i++) {
        uint64_t count = count_track_run(w, first, i);
        if (count)
            put_timeline_track(w, j, i, first, count);
        first += count;
    }
    kb_json_array_end(j);
}

/* Strings in the order of their numbers in the page, and the names of kinds. */
static void put_timeline_strings(const timeline_writer *w, kb_json *j)
{
    kb_json_key_z(j, "strings");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->strings.count; i++)
        kb_json_string(j, kineto_trace_string(w->t->trace, w->strings.data[i]));
    kb_json_array_end(j);
    kb_json_key_z(j, "kinds");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < KINETO_KIND_COUNT; i++)
        kb_json_string_z(j, kineto_kind_name(i));
    kb_json_array_end(j);
}

static int32_t rank_of_track(const kineto_trace *t, uint32_t track_index)
{
    kineto_track track;
    kineto_process process;
    kineto_trace_track(t, track_index, &track);
    kineto_trace_process(t, track.process, &process);
    return process.rank;
}

/* Steps with their rank, for the ruler and for links. */
static void put_timeline_steps(timeline_writer *w, kb_json *j)
{
    const kineto_trace *t = w->t->trace;
    kt_step_list list;
    w->out_of_memory |= !kt_step_list_make(t, w->t->step_pattern, true, &list);
    kb_json_key_z(j, "steps");
    kb_json_array_begin(j);
    for (uint64_t position = 0; position < w->t->count && list.rows.count; position++) {
        kineto_row row = w->t->rows[position];
        const kt_block *b = block_of_row(w, row);
        uint32_t i = row % KT_BLOCK_ROWS;
        kineto_string name = kineto_trace_string(t, b->name[i]);
        if (!kt_step_list_find(&list, row, b->name[i]))
            continue;
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", name);
        kb_json_put_int(j, "rank", rank_of_track(t, b->track[i]));
        kb_json_put_uint(j, "start", ns_since(b->start_ns[i], w->origin_ns));
        kb_json_put_uint(j, "dur", ns_since(b->end_ns[i], b->start_ns[i]));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kt_step_list_free(&list);
}

/* Names, counts and sizes of the series, whose data follows the columns. */
static void put_series_headers(const timeline_writer *w, kb_json *j)
{
    kb_json_key_z(j, "counters");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->series.count; i++) {
        const series *s = &w->series.data[i];
        char name[300];
        kineto_string of = kb_utf8_cut(kineto_trace_string(w->t->trace, s->name), 140);
        kineto_string key = kb_utf8_cut(s->key, 140);
        int n = snprintf(name, sizeof name, "%.*s: %.*s", (int)of.size, of.data, (int)key.size,
                         key.data);
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", (kineto_string){name, (size_t)n});
        kb_json_put_uint(j, "process", s->process);
        kb_json_put_uint(j, "count", s->count);
        kb_json_put_uint(j, "time_bytes", s->times.count);
        kb_json_put_uint(j, "value_bytes", s->values.count);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void put_column_headers(const timeline_writer *w, kb_json *j)
{
    kb_json_key_z(j, "columns");
    kb_json_array_begin(j);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kb_string(column_names[c]));
        kb_json_put_uint(j, "bytes", w->columns[c].count);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void put_timeline_header(timeline_writer *w, kb_json *j)
{
    char origin[24];
    snprintf(origin, sizeof origin, "%lld", (long long)w->origin_ns);
    kb_json_object_begin(j);
    kb_json_put_string(j, "origin_ns", kb_string(origin));
    kb_json_put_uint(j, "rows", w->t->count);
    kb_json_put_uint(j, "args_rows", KE_ARGS_ROWS);
    put_timeline_strings(w, j);
    put_timeline_processes(w, j);
    put_timeline_tracks(w, j);
    put_timeline_steps(w, j);
    put_series_headers(w, j);
    put_column_headers(w, j);
    kb_json_object_end(j);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void find_time_origin(timeline_writer *w)
{
    const kineto_trace *t = w->t->trace;
    w->origin_ns = INT64_MAX;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        w->origin_ns = KB_MIN(w->origin_ns, block_of_row(w, row)->start_ns[row % KT_BLOCK_ROWS]);
    if (w->origin_ns == INT64_MAX)
        w->origin_ns = 0;
}

/* Allocates the maps. False: out of memory; free_timeline_writer frees them. */
static bool prepare_timeline_writer(timeline_writer *w)
{
    const kineto_trace *t = w->t->trace;
    size_t rows = (size_t)kineto_trace_count(t), strings = kineto_trace_string_count(t);
    w->string_of = malloc((strings + 1) * sizeof *w->string_of);
    w->position_of = malloc((rows + 1) * sizeof *w->position_of);
    w->depth_of = calloc(rows + 1, sizeof *w->depth_of);
    w->track_depths = calloc((size_t)kineto_trace_track_count(t) + 1, sizeof *w->track_depths);
    if (!w->string_of || !w->position_of || !w->depth_of || !w->track_depths)
        return false;
    memset(w->string_of, 0xff, (strings + 1) * sizeof *w->string_of);
    memset(w->position_of, 0xff, (rows + 1) * sizeof *w->position_of);
    for (uint64_t position = 0; position < w->t->count; position++)
        w->position_of[w->t->rows[position]] = position;
    find_time_origin(w);
    return true;
}

static void fill_columns(timeline_writer *w)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < kineto_trace_track_count(w->t->trace) && !w->out_of_memory; i++) {
        kineto_track track;
        uint64_t count = count_track_run(w, first, i);
        kineto_trace_track(w->t->trace, i, &track);
        w->track_depths[i] = write_depth_column(w, first, count, track.lane_count);
        append_timeline_rows(w, first, count);
        first += count;
    }
    collect_counters(w);
}

/* The header has the sizes of the columns, so it is written after they are filled, into memory
 * first. */
static kineto_status write_timeline_data(timeline_writer *w, kineto_error *err)
{
    kb_sink *head;
    char *text = NULL;
    size_t size = 0;
    kb_json j;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &head, err);
    if (status)
        return status;
    kb_json_init(&j, head);
    put_timeline_header(w, &j);
    status = kb_sink_take(head, &text, &size, err);
    kb_sink_abort(head);
    if (!status && size > UINT32_MAX) {
        free(text);
        status = kb_fail(err, KINETO_E_LIMIT, "the names of the trace exceed 4 GiB");
    }
    if (status)
        return status;
    uint8_t length[4] = {(uint8_t)size, (uint8_t)(size >> 8), (uint8_t)(size >> 16),
                         (uint8_t)(size >> 24)};
    kb_sink_write(w->sink, length, sizeof length);
    kb_sink_write(w->sink, text, size);
    free(text);
    for (uint32_t c = 0; c < COLUMNS; c++)
        kb_sink_write(w->sink, w->columns[c].data, w->columns[c].count);
    for (size_t i = 0; i < w->series.count; i++) {
        kb_sink_write(w->sink, w->series.data[i].times.data, w->series.data[i].times.count);
        kb_sink_write(w->sink, w->series.data[i].values.data, w->series.data[i].values.count);
    }
    return KINETO_OK;
}

static void free_timeline_writer(timeline_writer *w)
{
    for (uint32_t c = 0; c < COLUMNS; c++)
        kb_vec_free(&w->columns[c]);
    for (size_t i = 0; i < w->series.count; i++) {
        kb_vec_free(&w->series.data[i].times);
        kb_vec_free(&w->series.data[i].values);
    }
    kb_vec_free(&w->series);
    kb_map_free(&w->series_of);
    kb_arena_free(&w->keys);
    kb_vec_free(&w->strings);
    free(w->string_of);
    free(w->position_of);
    free(w->depth_of);
    free(w->track_depths);
}

kineto_status ke_put_timeline(const ke_timeline *timeline, kb_sink *sink, kineto_error *err)
{
    timeline_writer w = {.t = timeline, .sink = sink};
    kineto_status status = KINETO_OK;
    if (prepare_timeline_writer(&w))
        fill_columns(&w);
    else
        w.out_of_memory = true;
    status = w.out_of_memory ? kb_fail_memory(err, NULL)
                             : write_timeline_data(&w, err);
    free_timeline_writer(&w);
    return status;
}

/* Rows without args are null, so that the page finds those of a place by its index. */
kineto_status ke_put_timeline_args(const ke_timeline *timeline, uint64_t first, kb_sink *sink,
                                   kineto_error *err)
{
    ke_text text = {0};
    uint64_t replaced = 0, end = KB_MIN(first + KE_ARGS_ROWS, timeline->count);
    bool ok = true;
    for (uint64_t position = first; ok && position < end; position++) {
        ok = ke_args_json(timeline->trace, timeline->rows[position], &text, &replaced);
        kb_sink_write(sink, position == first ? "[" : ",", 1);
        if (ok && text.count)
            kb_sink_write(sink, text.data, text.count);
        else
            kb_sink_write(sink, "null", 4);
    }
    kb_sink_write(sink, "]", 1);
    kb_vec_free(&text);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* Tables of facts: making and filling them. */
#include "analyze/tables/table.h"

#include <math.h>

/* ---- columns as tables.def writes them ---------------------------------------------------------------- */

static const struct {
    const char *name, *title, *columns;
    uint32_t flags;
} specs[KA_TABLE_COUNT] = {
#define X(name, title, flags, columns) {#name, title, columns, flags},
#include "analyze/tables/tables.def"
#undef X
};

static uint8_t type_of(char letter)
{
    return letter == 't'   ? KINETO_CELL_TEXT
           : letter == 'i' ? KINETO_CELL_INT
           : letter == 'u' ? KINETO_CELL_NS
                           : KINETO_CELL_NUMBER;
}

static uint8_t merge_of(char letter)
{
    static const char letters[] = {
        [KA_KEY] = ' ',  [KA_SUM] = '+',     [KA_MIN] = '<',  [KA_MAX] = '>',
        [KA_MEAN] = '~', [KA_PERCENT] = '%', [KA_FIRST] = '!'};
    for (size_t i = 0; i < sizeof letters; i++)
        if (letters[i] == letter)
            return (uint8_t)i;
    return KA_KEY;
}

static uint8_t column_named(const ka_table *t, const char *name, size_t size)
{
    uint8_t c = 0;
    while (c < t->column_count && !kb_string_equal(t->columns[c].name, (kineto_string){name, size}))
        c++;
    return c;
}

/* "name:type[merge[column]]" with a space or the end behind. */
static const char *read_column(ka_table *t, const char *at)
{
    const char *colon = strchr(at, ':'), *end = colon + strcspn(colon, " ");
    ka_column *c = &t->columns[t->column_count++];
    *c = (ka_column){.name = {at, (size_t)(colon - at)}, .type = type_of(colon[1])};
    if (colon + 2 < end)
        c->merge = merge_of(colon[2]);
    if (colon + 3 < end)
        c->of = column_named(t, colon + 3, (size_t)(end - colon - 3));
    return end + strspn(end, " ");
}

static void table_init(ka_table *t, ka_table_id id, const char *no_streams)
{
    t->id = id;
    t->no_streams = no_streams;
    for (const char *at = specs[id].columns; *at;)
        at = read_column(t, at);
}

kineto_status ka_facts_create(kineto_analysis **out, kineto_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        table_init(&(*out)->tables[i], (ka_table_id)i, (*out)->no_streams);
    return KINETO_OK;
}

void kineto_analysis_release(kineto_analysis *a)
{
    for (uint32_t i = 0; a && i < KA_TABLE_COUNT; i++) {
        kb_vec_free(&a->tables[i].cells);
        kb_vec_free(&a->tables[i].shifts);
        kb_intern_free(&a->tables[i].texts);
    }
    if (a)
        kb_vec_free(&a->seen);
    free(a);
}

uint32_t ka_table_flags(ka_table_id id) { return specs[id].flags; }
const char *ka_table_name(ka_table_id id) { return specs[id].name; }

ka_table *ka_table_of(kineto_analysis *a, ka_table_id id)
{
    return a->tables[id].wanted ? &a->tables[id] : NULL;
}

uint64_t ka_table_rows(const ka_table *t) { return t->cells.count / t->column_count; }

/* ---- cells ---------------------------------------------------------------------------------------------- */

static void put(ka_table *t, ka_cell cell)
{
    t->no_memory |= !kb_vec_push(&t->cells, cell);
    t->at = t->at + 1 == t->column_count ? 0 : t->at + 1;
}

void ka_put_int(ka_table *t, int64_t v) { put(t, (ka_cell){.i = v}); }
void ka_put_ns(ka_table *t, int64_t ns) { put(t, (ka_cell){.i = ns}); }
void ka_put_number(ka_table *t, double v) { put(t, (ka_cell){.d = v}); }

void ka_put_text(ka_table *t, kineto_string s)
{
    uint32_t id = kb_intern_id(&t->texts, s);
    t->no_memory |= id == KB_INTERN_NONE;
    put(t, (ka_cell){.i = id});
}

void ka_put_none(ka_table *t)
{
    put(t, t->columns[t->at].type == KINETO_CELL_NUMBER ? (ka_cell){.d = (double)NAN}
                                                        : (ka_cell){.i = KA_NO_INT});
}

bool ka_is_none(const ka_table *t, uint32_t column, ka_cell cell)
{
    return t->columns[column].type == KINETO_CELL_NUMBER ? isnan(cell.d) : cell.i == KA_NO_INT;
}

void ka_note(ka_table *t, const char *fmt, ...)
{
    va_list args;
    if (!t || t->note[0])
        return;
    va_start(args, fmt);
    (void)kb_vsnprintf(t->note, sizeof t->note, fmt, args);
    va_end(args);
}

void ka_note_also(ka_table *t, const char *fmt, ...)
{
    va_list args;
    size_t used = strlen(t->note);
    if (used)
        used += (size_t)kb_snprintf(t->note + used, sizeof t->note - used, "; ");
    if (used >= sizeof t->note)
        return;
    va_start(args, fmt);
    (void)kb_vsnprintf(t->note + used, sizeof t->note - used, fmt, args);
    va_end(args);
}

void ka_note_no_device(ka_table *t)
{
    if (t && t->no_streams[0])
        ka_note(t, "%s", t->no_streams);
    ka_note(t, "no device activity in the trace: nothing ran on a device, or no source recorded it "
               "('ckineto doctor' tells which there are)");
}

/* ---- looking at them ----------------------------------------------------------------------------------------- */

uint32_t kineto_fact_table_count(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        n += !(specs[i].flags & (KA_HIDDEN | KA_DIFF));
    return n;
}

/* KA_TABLE_COUNT past the end. */
static uint32_t not_hidden(uint32_t index)
{
    uint32_t i = 0;
    while (i < KA_TABLE_COUNT && ((specs[i].flags & (KA_HIDDEN | KA_DIFF)) || index-- != 0))
        i++;
    return i;
}

const char *kineto_fact_table_name(uint32_t index)
{
    uint32_t i = not_hidden(index);
    return i < KA_TABLE_COUNT ? specs[i].name : NULL;
}

bool kineto_fact_table_is_series(uint32_t index)
{
    uint32_t i = not_hidden(index);
    return i < KA_TABLE_COUNT && specs[i].flags & KA_SERIES;
}

uint32_t kineto_analysis_count(const kineto_analysis *a) { return a ? a->shown_count : 0; }

static const ka_table *shown(const kineto_analysis *a, uint32_t table)
{
    return a && table < a->shown_count ? &a->tables[a->shown[table]] : NULL;
}

bool kineto_analysis_table(const kineto_analysis *a, uint32_t table, kineto_fact_table *out)
{
    const ka_table *t = shown(a, table);
    *out = (kineto_fact_table){0};
    if (!t)
        return false;
    *out = (kineto_fact_table){.name = specs[t->id].name,
                               .title = specs[t->id].title,
                               .column_count = t->column_count,
                               .row_count = ka_table_rows(t),
                               .note = kb_string(t->note)};
    return true;
}

bool kineto_analysis_column(const kineto_analysis *a, uint32_t table, uint32_t column,
                            kineto_fact_column *out)
{
    const ka_table *t = shown(a, table);
    *out = (kineto_fact_column){0};
    if (!t || column >= t->column_count)
        return false;
    *out = (kineto_fact_column){t->columns[column].name, t->columns[column].type};
    return true;
}

bool kineto_analysis_fact(const kineto_analysis *a, uint32_t table, uint64_t row, uint32_t column,
                          kineto_fact *out)
{
    const ka_table *t = shown(a, table);
    *out = (kineto_fact){0};
    if (!t || column >= t->column_count || row >= ka_table_rows(t))
        return false;
    ka_cell cell = ka_cell_at(t, row, column);
    out->type = t->columns[column].type;
    out->is_none = ka_is_none(t, column, cell);
    if (out->is_none)
        return true;
    if (out->type == KINETO_CELL_TEXT)
        out->text = ka_text_at(t, row, column);
    else if (out->type == KINETO_CELL_NUMBER)
        out->d = cell.d;
    else
        out->i = cell.i;
    return true;
}

uint32_t kineto_analysis_find(const kineto_analysis *a, const char *name)
{
    for (uint32_t i = 0; a && i < a->shown_count; i++)
        if (strcmp(specs[a->shown[i]].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* Tables of facts: their descriptors, how analyses fill them, and the public functions that read
 * them. A table belongs to one analysis, which runs on one thread, until all have ended: there are
 * no locks. Failed allocations set no_memory, which kineto_analysis_run checks at the end. */
#include "analyze/tables/table.h"

#include <math.h>

/* ---- descriptors ----------------------------------------------------------------------------- */

#define TEXT         .type = KINETO_CELL_TEXT, .unit = KA_UNIT_TEXT
#define INT          .type = KINETO_CELL_INT, .unit = KA_UNIT_NONE
#define BYTES        .type = KINETO_CELL_INT, .unit = KA_UNIT_BYTES
#define NS           .type = KINETO_CELL_NS, .unit = KA_UNIT_US
#define AT           NS, .is_moment = true
#define NUMBER       .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_NONE
#define US           .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_US
#define PERCENT      .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_PERCENT
#define GBPS         .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_GBPS
#define TFLOPS       .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_TFLOPS
#define FLOP         .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_FLOP
#define BYTES_NUMBER .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_BYTES
#define JOULES       .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_JOULES
#define WATTS        .type = KINETO_CELL_NUMBER, .unit = KA_UNIT_WATTS

#define SUM                  .merge = KA_SUM
#define SMALLEST             .merge = KA_MIN
#define LARGEST              .merge = KA_MAX
#define FIRST                .merge = KA_FIRST
#define MEAN(table, column)  .merge = KA_MEAN, .of = KA_COL_##table##_##column
#define SHARE(table, column) .merge = KA_PERCENT, .of = KA_COL_##table##_##column
#define WEIGHT(number)       .weight = (number)
#define WHOLE_DEVICE_FIRST   .is_whole_first = true

#define TABLE(id, ...) static const ka_column columns_of_##id[] = {
#define COLUMN(table, column, ...) {.name = {#column, sizeof #column - 1}, __VA_ARGS__},
#define END_TABLE(id)                                                                              \
    };                                                                                             \
    _Static_assert(KA_COLUMNS_OF_##id <= KA_MAX_COLUMNS, #id " has too many columns");
#include "analyze/tables/tables.def"

#define IN(id, number) .section = KA_SECTION_##id, .place = (number)
#define NO_SECTION     .section = KA_SECTION_NONE
#define TABLE(id, made_by, table_flags, where, heading, text, link)                                \
    {.name = #id,                                                                                  \
     .title = (heading),                                                                           \
     .definition = (text),                                                                         \
     .page = (link),                                                                               \
     .flags = (table_flags),                                                                       \
     .column_count = KA_COLUMNS_OF_##id,                                                           \
     .columns = columns_of_##id,                                                                   \
     where},
static const ka_table_spec specs[KA_TABLE_COUNT] = {
#include "analyze/tables/tables.def"
};

const ka_table_spec *ka_table_spec_of(ka_table_id id)
{
    KB_ASSERT(id < KA_TABLE_COUNT);
    return &specs[id];
}

uint32_t ka_table_flags(ka_table_id id) { return ka_table_spec_of(id)->flags; }
const char *ka_table_name(ka_table_id id) { return ka_table_spec_of(id)->name; }

ka_table_set ka_tables_with(uint32_t flags)
{
    ka_table_set set = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        set |= specs[i].flags & flags ? KA_TABLE_BIT(i) : 0;
    return set;
}

const char *ka_unit_name(ka_unit unit)
{
    static const char *const names[] = {
        [KA_UNIT_TEXT] = "text",      [KA_UNIT_NONE] = "number",  [KA_UNIT_US] = "us",
        [KA_UNIT_PERCENT] = "%",      [KA_UNIT_GBPS] = "GB/s",    [KA_UNIT_TFLOPS] = "TFLOP/s",
        [KA_UNIT_FLOP] = "FLOP",      [KA_UNIT_BYTES] = "bytes",  [KA_UNIT_JOULES] = "J",
        [KA_UNIT_WATTS] = "W"};
    KB_ASSERT(unit < KB_COUNT(names));
    return names[unit];
}

const char *ka_section_name(ka_section section)
{
    static const char *const names[] = {"",
#define X(id) #id,
                                        KA_SECTIONS(X)
#undef X
    };
    KB_ASSERT(section < KA_SECTION_COUNT);
    return names[section];
}

uint32_t ka_fact_column(const ka_table *t, const char *name)
{
    uint32_t i = 0;
    while (i < t->column_count && !kb_string_equal(t->columns[i].name, kb_string(name)))
        i++;
    KB_ASSERT(i < t->column_count);
    return i;
}

ka_table *ka_table_of(kineto_analysis *a, ka_table_id id)
{
    KB_ASSERT(id < KA_TABLE_COUNT);
    return a->tables[id].wanted ? &a->tables[id] : NULL;
}

uint64_t ka_table_rows(const ka_table *t)
{
    KB_ASSERT(t->column_count > 0);
    return t->cells.count / t->column_count;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Appends to the row that is being written; `at` wraps to 0 with its last cell. A failure is
 * remembered, so that analyses need not check each call. */
static void append_cell(ka_table *t, ka_cell cell)
{
    KB_ASSERT(t->wanted && t->at < t->column_count);
    t->no_memory |= !kb_vec_push(&t->cells, cell);
    t->at = t->at + 1 == t->column_count ? 0 : t->at + 1;
}

/* The type of the column that the next cell belongs to. */
static uint8_t next_type(const ka_table *t) { return t->columns[t->at].type; }

void ka_put_int(ka_table *t, int64_t v)
{
    KB_ASSERT(next_type(t) == KINETO_CELL_INT);
    append_cell(t, (ka_cell){.i = v});
}

void ka_put_ns(ka_table *t, int64_t ns)
{
    KB_ASSERT(next_type(t) == KINETO_CELL_NS);
    append_cell(t, (ka_cell){.i = ns});
}

void ka_put_number(ka_table *t, double v)
{
    KB_ASSERT(next_type(t) == KINETO_CELL_NUMBER);
    append_cell(t, (ka_cell){.d = v});
}

void ka_put_text(ka_table *t, kineto_string s)
{
    KB_ASSERT(next_type(t) == KINETO_CELL_TEXT);
    uint32_t id = kb_intern_id(&t->texts, s);
    t->no_memory |= id == KB_INTERN_NONE;
    append_cell(t, (ka_cell){.i = id});
}

void ka_put_none(ka_table *t)
{
    append_cell(t, next_type(t) == KINETO_CELL_NUMBER ? (ka_cell){.d = (double)NAN}
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
    ka_note(t, "no device activity in the trace: nothing ran on a device, or no source recorded "
               "it ('ckineto doctor' lists the sources)");
}

/* ---- public access --------------------------------------------------------------------------- */

uint32_t kineto_fact_table_count(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        n += !(specs[i].flags & (KA_HIDDEN | KA_DIFF));
    return n;
}

/* The id of the index-th table that can be requested; KA_TABLE_COUNT past the end. */
static uint32_t find_public_table(uint32_t index)
{
    uint32_t i = 0;
    while (i < KA_TABLE_COUNT && ((specs[i].flags & (KA_HIDDEN | KA_DIFF)) || index-- != 0))
        i++;
    return i;
}

const char *kineto_fact_table_name(uint32_t index)
{
    uint32_t i = find_public_table(index);
    return i < KA_TABLE_COUNT ? specs[i].name : NULL;
}

bool kineto_fact_table_is_series(uint32_t index)
{
    uint32_t i = find_public_table(index);
    return i < KA_TABLE_COUNT && specs[i].flags & KA_PER_EVENT;
}

uint32_t kineto_analysis_table_count(const kineto_analysis *a) { return a ? a->shown_count : 0; }

const ka_table *ka_shown_table(const kineto_analysis *a, uint32_t index)
{
    return a && index < a->shown_count ? &a->tables[a->shown[index]] : NULL;
}

bool kineto_analysis_table(const kineto_analysis *a, uint32_t table, kineto_fact_table *out)
{
    const ka_table *t = ka_shown_table(a, table);
    if (!out)
        return false;
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
    const ka_table *t = ka_shown_table(a, table);
    if (!out)
        return false;
    *out = (kineto_fact_column){0};
    if (!t || column >= t->column_count)
        return false;
    *out = (kineto_fact_column){t->columns[column].name, t->columns[column].type};
    return true;
}

int64_t ka_trace_begin(const kineto_analysis *a, int64_t rank)
{
    for (size_t i = 0; i < a->seen.count; i++)
        if (a->seen.data[i].rank == rank)
            return a->seen.data[i].start_ns;
    return INT64_MIN;
}

bool ka_fact_get(const ka_table *t, uint64_t row, uint32_t column, kineto_fact *out)
{
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

bool kineto_analysis_fact(const kineto_analysis *a, uint32_t table, uint64_t row, uint32_t column,
                          kineto_fact *out)
{
    return out && ka_fact_get(ka_shown_table(a, table), row, column, out);
}

uint32_t kineto_analysis_find_table(const kineto_analysis *a, const char *name)
{
    for (uint32_t i = 0; a && name && i < a->shown_count; i++)
        if (strcmp(specs[a->shown[i]].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* A section of the overview: rows of a table of facts with the same keys become one row, and the
 * largest rows are kept. */
#include "analyze/overview/overview.h"

#include <math.h>

/* Sums of one output over the rows of a group. */
typedef struct tally {
    double sum;
    double most;
    int64_t least;
    uint64_t values; /* rows that have a value */
} tally;

/* Rows with equal keys. */
typedef struct group {
    uint64_t first; /* its first row, which has the keys */
    uint64_t rows;
    tally outputs[KA_MAX_OUTPUTS];
    double order;   /* what sorts; equal for ranks of a synchronous step */
    uint32_t place; /* of its rank, by what others wait for */
    bool repeats;   /* the same step of a rank that comes later */
} group;

/* A section that is being made. */
typedef struct maker {
    const kineto_overview *o;
    const ka_section_spec *spec;
    const ka_table *from;
    uint32_t outputs;
    uint32_t columns[KA_MAX_OUTPUTS]; /* of `from` */
    int32_t order;                    /* the output that sorts rows; -1: none */
    int32_t counted;                  /* the output with the number of calls; -1: none */
    KB_VEC(group) groups;
    kb_map by_keys; /* hash of the keys → index of groups, and one; equal hashes are compared */
    double whole;   /* sum of the output that sorts */
    bool no_memory;
} maker;

static bool is_key(ka_output_kind kind) { return kind == KA_OUT_KEY || kind == KA_OUT_RANK; }

/* Is the output a column of this overview? Ranks are named where there are several. */
static bool is_shown(const kineto_overview *o, const ka_output *output)
{
    if (output->kind == KA_OUT_CUT)
        return ka_coverage_has_cut(&o->coverage);
    if (output->kind == KA_OUT_TYPICAL)
        return o->coverage.traces.count < 2;
    return output->kind != KA_OUT_RANK || o->coverage.rank_count > 1;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Does the row have what the section is about? */
static bool is_selected(const maker *m, uint64_t row)
{
    if (!m->spec->filter)
        return true;
    uint32_t column = ka_fact_column(m->from, m->spec->filter);
    if (m->from->columns[column].type == KINETO_CELL_TEXT)
        return kb_string_equal(ka_text_at(m->from, row, column), kb_string(m->spec->is));
    return ka_cell_at(m->from, row, column).i == strtoll(m->spec->is, NULL, 10);
}

static bool has_equal_keys(const maker *m, uint64_t a, uint64_t b)
{
    for (uint32_t i = 0; i < m->outputs; i++)
        if (is_key(m->spec->outputs[i].kind) &&
            ka_cell_at(m->from, a, m->columns[i]).i != ka_cell_at(m->from, b, m->columns[i]).i)
            return false;
    return true;
}

/* Of the keys; texts count by their number in the table. */
static uint64_t hash_keys(const maker *m, uint64_t row)
{
    uint64_t hash = kb_hash_secret();
    for (uint32_t i = 0; i < m->outputs; i++)
        if (is_key(m->spec->outputs[i].kind)) {
            int64_t key = ka_cell_at(m->from, row, m->columns[i]).i;
            hash = kb_hash_seeded(hash, &key, sizeof key);
        }
    return hash;
}

/* The group of a row, made if it is the first of its keys; NULL: out of memory. Another group with
 * the same hash is stepped over by looking for the next number. */
static group *find_group(maker *m, uint64_t row)
{
    for (uint64_t hash = hash_keys(m, row);; hash++) {
        bool is_new;
        uint64_t *index = kb_map_insert(&m->by_keys, hash, m->groups.count, &is_new);
        if (!index)
            return NULL;
        if (is_new && !kb_vec_push(&m->groups, (group){.first = row}))
            return NULL;
        group *g = &m->groups.data[*index];
        if (is_new || has_equal_keys(m, g->first, row))
            return g;
    }
}

static double read_number(const ka_table *t, uint32_t column, ka_cell cell)
{
    return t->columns[column].type == KINETO_CELL_NUMBER ? cell.d : (double)cell.i;
}

/* The time since the trace of the row's rank began. */
static int64_t find_offset_ns(const maker *m, uint64_t row, int64_t at_ns)
{
    int64_t rank = 0;
    for (uint32_t i = 0; i < m->outputs; i++)
        if (m->spec->outputs[i].kind == KA_OUT_RANK)
            rank = ka_cell_at(m->from, row, m->columns[i]).i;
    return kb_length_ns(ka_overview_origin(m->o, rank), at_ns);
}

static void add_cell(const maker *m, uint64_t row, uint32_t output, group *g)
{
    tally *t = &g->outputs[output];
    uint32_t column = m->columns[output];
    ka_cell cell = ka_cell_at(m->from, row, column);
    if (ka_is_none(m->from, column, cell))
        return;
    double number = read_number(m->from, column, cell);
    if (m->spec->outputs[output].kind == KA_OUT_AT) {
        int64_t at_ns = find_offset_ns(m, row, cell.i);
        t->least = t->values ? KB_MIN(t->least, at_ns) : at_ns;
    }
    t->sum += number;
    t->most = t->values ? KB_MAX(t->most, number) : number;
    t->values++;
}

static void add_row(maker *m, uint64_t row)
{
    group *g = find_group(m, row);
    if (!g) {
        m->no_memory = true;
        return;
    }
    g->rows++;
    for (uint32_t i = 0; i < m->outputs; i++)
        if (m->spec->outputs[i].column && !is_key(m->spec->outputs[i].kind) &&
            m->spec->outputs[i].kind != KA_OUT_CUT)
            add_cell(m, row, i, g);
}

/* ---- the section ----------------------------------------------------------------------------- */

/* The largest first; without an order as they come. */
static int compare_groups(const void *left, const void *right, void *context)
{
    const group *a = left, *b = right;
    const maker *m = context;
    if (a->repeats != b->repeats)
        return a->repeats ? 1 : -1;
    if (a->order != b->order)
        return a->order < b->order ? 1 : -1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (m->order >= 0 && a->outputs[m->order].sum != b->outputs[m->order].sum)
        return a->outputs[m->order].sum < b->outputs[m->order].sum ? 1 : -1;
    return (a->first > b->first) - (a->first < b->first);
}

static uint32_t find_source_column(const ka_table *t, const ka_output *output)
{
    return output->column ? ka_fact_column(t, output->column) : 0;
}

/* Finds the columns of the section in its table of facts. */
static void choose_columns(maker *m)
{
    m->order = m->counted = -1;
    for (; m->outputs < KA_MAX_OUTPUTS && m->spec->outputs[m->outputs].name; m->outputs++) {
        const ka_output *output = &m->spec->outputs[m->outputs];
        int32_t index = (int32_t)m->outputs;
        m->columns[index] = find_source_column(m->from, output);
        if (output->kind == KA_OUT_SUM && m->order < 0)
            m->order = index;
        if ((output->kind == KA_OUT_COUNT || output->kind == KA_OUT_ROWS) && m->counted < 0)
            m->counted = index;
    }
}

/* The type and unit of a column, by what is put into it. */
static ka_column describe_column(const maker *m, uint32_t output)
{
    const ka_output *o = &m->spec->outputs[output];
    ka_column column = {.name = kb_string(o->name), .type = KINETO_CELL_NS, .unit = KA_UNIT_US};
    if (o->kind == KA_OUT_CUT) {
        column.type = KINETO_CELL_TEXT;
        column.unit = KA_UNIT_TEXT;
    } else if (is_key(o->kind)) {
        column.type = m->from->columns[m->columns[output]].type;
        column.unit = column.type == KINETO_CELL_TEXT ? KA_UNIT_TEXT : KA_UNIT_NONE;
    } else if (o->kind == KA_OUT_COUNT || o->kind == KA_OUT_ROWS) {
        column.type = KINETO_CELL_INT;
        column.unit = KA_UNIT_NONE;
    } else if (o->kind == KA_OUT_SHARE || o->kind == KA_OUT_PART || o->kind == KA_OUT_VALUE) {
        column.type = KINETO_CELL_NUMBER;
        column.unit = KA_UNIT_PERCENT;
    }
    column.is_moment = o->kind == KA_OUT_AT;
    return column;
}

/* A sum of times as a cell; such sums may be larger than any time. */
static int64_t round_ns(double ns)
{
    return ns >= 0x1p63 ? INT64_MAX : ns > -0x1p63 ? (int64_t)ns : INT64_MIN + 1;
}

/* The mean of a time: the first sum divided by the first count. */
static void put_mean(const maker *m, const group *g, ka_table *to)
{
    KB_ASSERT(m->order >= 0 && m->counted >= 0);
    bool of_rows = m->spec->outputs[m->counted].kind == KA_OUT_ROWS;
    double count = of_rows ? (double)g->rows : g->outputs[m->counted].sum;
    if (count > 0)
        ka_put_ns(to, round_ns(g->outputs[m->order].sum / count));
    else
        ka_put_none(to);
}

static void put_percent(double part, double whole, ka_table *to)
{
    if (whole > 0)
        ka_put_number(to, 100 * part / whole);
    else
        ka_put_none(to);
}

static void put_key(const maker *m, const group *g, uint32_t output, ka_table *to)
{
    ka_cell cell = ka_cell_at(m->from, g->first, m->columns[output]);
    if (m->from->columns[m->columns[output]].type != KINETO_CELL_TEXT)
        ka_put_int(to, cell.i);
    else if (ka_is_none(m->from, m->columns[output], cell))
        ka_put_none(to);
    else
        ka_put_text(to, ka_text_at(m->from, g->first, m->columns[output]));
}

static void put_output(const maker *m, const group *g, uint32_t output, ka_table *to)
{
    const tally *t = &g->outputs[output];
    switch (m->spec->outputs[output].kind) {
    case KA_OUT_KEY:
    case KA_OUT_RANK: put_key(m, g, output, to); break;
    case KA_OUT_CUT:
        ka_put_text(to, kb_string(ka_coverage_is_cut(&m->o->coverage,
                                                     ka_cell_at(m->from, g->first, m->columns[output]).i)
                                      ? "cut off"
                                      : ""));
        break;
    case KA_OUT_AT: ka_put_ns(to, t->least); break;
    case KA_OUT_COUNT: ka_put_int(to, round_ns(t->sum)); break;
    case KA_OUT_ROWS: ka_put_int(to, (int64_t)g->rows); break;
    case KA_OUT_SUM: ka_put_ns(to, round_ns(t->sum)); break;
    case KA_OUT_LONGEST: ka_put_ns(to, round_ns(t->most)); break;
    case KA_OUT_TYPICAL: ka_put_ns(to, round_ns(1000 * t->sum)); break;
    case KA_OUT_MEAN: put_mean(m, g, to); break;
    case KA_OUT_SHARE: put_percent(g->outputs[m->order].sum, m->whole, to); break;
    case KA_OUT_PART: put_percent(t->sum, g->outputs[m->order].sum, to); break;
    case KA_OUT_VALUE:
        if (t->values)
            ka_put_number(to, t->sum / (double)t->values);
        else
            ka_put_none(to);
        break;
    }
}

/* ---- ranks of one step ----------------------------------------------------------------------- */

#define NEARLY 0.98 /* of the longest */

/* The keys but the rank. */
static uint64_t hash_step(const maker *m, const group *g)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < m->outputs; i++)
        if (m->spec->outputs[i].kind == KA_OUT_KEY) {
            int64_t key = ka_cell_at(m->from, g->first, m->columns[i]).i;
            hash = kb_hash_seeded(hash, &key, sizeof key);
        }
    return hash;
}

static void place_rank(const maker *m, const ka_rank_places *places, group *g)
{
    for (uint32_t i = 0; i < m->outputs; i++)
        if (m->spec->outputs[i].kind == KA_OUT_RANK)
            g->place = ka_place_of_rank(places, ka_cell_at(m->from, g->first, m->columns[i]).i);
}

static bool comes_before(const group *a, const group *b)
{
    return a->order > b->order || (a->order == b->order && a->place < b->place);
}

/* The first one of each step, by its keys. */
static void find_firsts(maker *m, kb_map *first)
{
    for (size_t i = 0; i < m->groups.count && !m->no_memory; i++) {
        uint64_t *at = kb_map_insert(first, hash_step(m, &m->groups.data[i]), i, NULL);
        m->no_memory |= !at;
        if (at && comes_before(&m->groups.data[i], &m->groups.data[*at]))
            *at = i;
    }
}

/* Ranks that wait for one another end their steps together: those that are about as long as the longest one count as
 * long, so that the one comes first that makes the others wait. It stands for its step. */
static void place_ranks(maker *m)
{
    ka_rank_places places;
    kb_map longest = {0}, first = {0}; /* of a step → index of groups */
    m->no_memory |= !ka_find_rank_places(m->o, &places);
    for (size_t i = 0; i < m->groups.count; i++)
        place_rank(m, &places, &m->groups.data[i]);
    if (places.count)
        find_firsts(m, &longest);
    for (size_t i = 0; i < m->groups.count && places.count && !m->no_memory; i++) {
        group *g = &m->groups.data[i];
        double most = m->groups.data[*kb_map_find(&longest, hash_step(m, g))].outputs[m->order].sum;
        g->order = g->order >= NEARLY * most ? most : g->order;
    }
    if (places.count && !m->spec->of_ranks)
        find_firsts(m, &first);
    for (size_t i = 0; i < m->groups.count && first.count && !m->no_memory; i++) {
        const group *one = &m->groups.data[*kb_map_find(&first, hash_step(m, &m->groups.data[i]))];
        m->groups.data[i].repeats = one != &m->groups.data[i] && m->groups.data[i].order == one->order;
    }
    kb_map_free(&longest);
    kb_map_free(&first);
    ka_rank_places_free(&places);
}

/* Adds up all rows of the table of facts; the groups are in order then. */
static void make_groups(maker *m)
{
    choose_columns(m);
    for (uint64_t row = 0; row < ka_table_rows(m->from) && !m->no_memory; row++)
        if (is_selected(m, row))
            add_row(m, row);
    for (size_t i = 0; m->order >= 0 && i < m->groups.count; i++) {
        m->groups.data[i].order = m->groups.data[i].outputs[m->order].sum;
        m->whole += m->groups.data[i].order;
    }
    if (m->order >= 0 && m->spec->source == KA_TABLE_steps)
        place_ranks(m);
    if (m->groups.count)
        qsort_r(m->groups.data, m->groups.count, sizeof *m->groups.data, compare_groups, m);
}

/* Rows without any time are not shown, where rows are sorted by it. */
static bool has_time(const maker *m, uint64_t row)
{
    return m->order < 0 || m->groups.data[row].outputs[m->order].sum > 0;
}

static void put_groups(maker *m, ka_overview_section *out)
{
    ka_table *t = &out->table;
    uint64_t rows = 0;
    while (rows < KB_MIN(m->groups.count, (size_t)KA_OVERVIEW_ROWS) && has_time(m, rows))
        rows++;
    *out = (ka_overview_section){.spec = m->spec, .left_out = m->groups.count - rows};
    t->id = m->spec->source;
    t->wanted = t->shown = true;
    t->columns = out->columns;
    for (uint32_t i = 0; i < m->outputs; i++)
        if (is_shown(m->o, &m->spec->outputs[i]))
            out->columns[t->column_count++] = describe_column(m, i);
    for (uint64_t row = 0; row < rows; row++)
        for (uint32_t i = 0; i < m->outputs; i++)
            if (is_shown(m->o, &m->spec->outputs[i]))
                put_output(m, &m->groups.data[row], i, t);
}

/* False: the section has no row. */
static bool make_section(kineto_overview *o, const ka_section_spec *spec, ka_overview_section *out)
{
    maker m = {.o = o, .spec = spec, .from = &o->facts->tables[spec->source]};
    if (ka_table_rows(m.from))
        make_groups(&m);
    bool any = m.groups.count > 0 && !(m.order >= 0 && !(m.whole > 0));
    if (any)
        put_groups(&m, out);
    o->no_memory |= m.no_memory || (any && out->table.no_memory);
    kb_map_free(&m.by_keys);
    kb_vec_free(&m.groups);
    return any;
}

/* Steps of programs without operators and devices are in one part as a whole: their ranges say more. */
static bool has_parts_of_steps(const kineto_overview *o)
{
    const ka_table *t = &o->facts->tables[KA_TABLE_steps];
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        if (ka_cell_at(t, row, KA_COL_steps_dur_us).i != ka_cell_at(t, row, KA_COL_steps_other_us).i)
            return true;
    return false;
}

/* Without steps their table has one row, of all of the trace. */
static bool is_possible(const kineto_overview *o, const ka_section_spec *spec)
{
    uint32_t steps;
    (void)kineto_findings_mean_step_ns(o->found, &steps);
    bool has_steps = steps && (!*o->repeated_steps || has_parts_of_steps(o));
    return (!spec->of_ranks || o->coverage.rank_count > 1) && (spec->source != KA_TABLE_steps || has_steps);
}

bool ka_overview_fill(kineto_overview *o, uint32_t slot, ka_overview_section *out)
{
    const ka_section_spec *spec;
    for (uint32_t i = 0; (spec = ka_section_spec_of(i)) != NULL; i++)
        if (spec->slot == slot && is_possible(o, spec) && make_section(o, spec, out))
            return true;
    return false;
}

void ka_overview_section_free(ka_overview_section *s)
{
    kb_vec_free(&s->table.cells);
    kb_intern_free(&s->table.texts);
    s->spec = NULL;
}

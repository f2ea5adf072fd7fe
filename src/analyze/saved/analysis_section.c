/* Tables of facts as bytes. Each has its length, so that unknown ones are skipped. Columns are written one after the
 * other: whole numbers as differences from the row before, others with 8 bytes. */
#include "analyze/saved/analysis_section.h"

#include <math.h>

/* ---- writing --------------------------------------------------------------------------------- */

static void write_column(ka_byte_writer *w, const ka_table *t, uint32_t column)
{
    uint64_t before = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        ka_cell cell = ka_cell_at(t, row, column);
        uint64_t bits = (uint64_t)cell.i;
        if (t->columns[column].type == KINETO_CELL_NUMBER) {
            memcpy(&bits, &cell.d, sizeof bits);
            ka_write_fixed(w, bits, 8);
            continue;
        }
        ka_write_signed(w, (int64_t)(bits - before));
        before = bits;
    }
}

static void write_table(ka_byte_writer *w, const ka_table *t)
{
    ka_write_text(w, kb_string(t->note));
    ka_write_varint(w, t->column_count);
    for (uint32_t c = 0; c < t->column_count; c++) {
        ka_write_text(w, t->columns[c].name);
        ka_write_varint(w, t->columns[c].type);
    }
    ka_write_varint(w, t->texts.strings.count);
    for (size_t i = 0; i < t->texts.strings.count; i++)
        ka_write_text(w, t->texts.strings.data[i]);
    ka_write_varint(w, ka_table_rows(t));
    for (uint32_t c = 0; c < t->column_count; c++)
        write_column(w, t, c);
}

static void write_seen(ka_byte_writer *w, const kineto_analysis *a)
{
    ka_write_varint(w, a->seen.count);
    for (size_t i = 0; i < a->seen.count; i++) {
        ka_write_signed(w, a->seen.data[i].rank);
        ka_write_signed(w, a->seen.data[i].start_ns);
        ka_write_varint(w, a->seen.data[i].device);
    }
}

static uint32_t count_tables(ka_table_set tables)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        count += (uint32_t)(tables >> i & 1);
    return count;
}

void ka_write_analysis(ka_byte_writer *w, const kineto_analysis *a, ka_table_set tables)
{
    write_seen(w, a);
    ka_write_text(w, kb_string(a->no_streams));
    ka_write_varint(w, count_tables(tables));
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++) {
        ka_byte_writer one = {.no_memory = false};
        if (!(tables >> i & 1))
            continue;
        write_table(&one, &a->tables[i]);
        ka_write_text(w, kb_string(ka_table_name((ka_table_id)i)));
        ka_write_varint(w, one.bytes.count);
        ka_write_bytes(w, one.bytes.data, one.bytes.count);
        w->no_memory |= one.no_memory;
        ka_byte_writer_free(&one);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* How the columns of a saved table stand in the table: UINT32_MAX: it has none such. */
typedef struct column_map {
    uint32_t count, to[KA_MAX_COLUMNS * 4];
    uint8_t type[KA_MAX_COLUMNS * 4];
} column_map;

static uint32_t find_column(const ka_table *t, kineto_string name, uint64_t type)
{
    for (uint32_t c = 0; c < t->column_count; c++)
        if (t->columns[c].type == type && kb_string_equal(t->columns[c].name, name))
            return c;
    return UINT32_MAX;
}

static void read_columns(ka_byte_reader *r, const ka_table *t, column_map *map)
{
    uint64_t count = ka_read_count(r, 2);
    r->is_bad |= count > KB_COUNT(map->to);
    map->count = r->is_bad ? 0 : (uint32_t)count;
    for (uint32_t c = 0; c < map->count; c++) {
        kineto_string name = ka_read_text(r);
        uint64_t type = ka_read_varint(r);
        r->is_bad |= type > UINT8_MAX;
        map->type[c] = (uint8_t)type;
        map->to[c] = find_column(t, name, type);
    }
}

/* Ids stay: the table has no texts yet. */
static bool read_texts(ka_byte_reader *r, ka_table *t)
{
    uint64_t count = ka_read_count(r, 1);
    for (uint64_t i = 0; i < count && !r->is_bad; i++) {
        uint32_t id = kb_intern_id(&t->texts, ka_read_text(r));
        if (id == KB_INTERN_NONE)
            return false;
        r->is_bad |= id != i; /* a text twice */
    }
    return true;
}

static bool fill_empty_rows(ka_table *t, uint64_t rows)
{
    uint64_t count = rows * t->column_count;
    if (!kb_vec_reserve(&t->cells, count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        ka_cell none = {.i = KA_NO_INT};
        if (t->columns[i % t->column_count].type == KINETO_CELL_NUMBER)
            none.d = (double)NAN;
        t->cells.data[i] = none;
    }
    t->cells.count = count;
    return true;
}

static void read_column(ka_byte_reader *r, ka_table *t, uint64_t rows, uint32_t to, uint8_t type)
{
    uint64_t before = 0;
    for (uint64_t row = 0; row < rows && !r->is_bad; row++) {
        ka_cell cell = {.i = 0};
        if (type == KINETO_CELL_NUMBER) {
            uint64_t bits = ka_read_fixed(r, 8);
            memcpy(&cell.d, &bits, sizeof bits);
        } else {
            before += (uint64_t)ka_read_signed(r);
            cell.i = (int64_t)before;
        }
        bool is_text = type == KINETO_CELL_TEXT && cell.i != KA_NO_INT;
        r->is_bad |= is_text && (cell.i < 0 || (uint64_t)cell.i >= KB_MAX(t->texts.strings.count, (size_t)1));
        if (to != UINT32_MAX && !r->is_bad)
            t->cells.data[row * t->column_count + to] = cell;
    }
}

static bool read_table(ka_byte_reader *r, ka_table *t)
{
    column_map map;
    kineto_string note = ka_read_text(r);
    snprintf(t->note, sizeof t->note, "%.*s", (int)KB_MIN(note.size, sizeof t->note - 1), note.data);
    read_columns(r, t, &map);
    if (!read_texts(r, t))
        return false;
    uint64_t rows = ka_read_count(r, KB_MAX(map.count, 1u));
    if (r->is_bad || !fill_empty_rows(t, rows))
        return false;
    for (uint32_t c = 0; c < map.count; c++)
        read_column(r, t, rows, map.to[c], map.type[c]);
    return !r->is_bad;
}

static bool find_saved_table(kineto_string name, uint32_t *id)
{
    for (*id = 0; *id < KA_TABLE_COUNT; ++*id)
        if (kb_string_is(name, ka_table_name((ka_table_id)*id)))
            return true;
    return false;
}

static bool read_seen(ka_byte_reader *r, kineto_analysis *a)
{
    uint64_t count = ka_read_count(r, 3);
    for (uint64_t i = 0; i < count; i++) {
        ka_seen seen = {.rank = ka_read_signed(r)};
        seen.start_ns = ka_read_signed(r);
        seen.device = ka_read_varint(r) != 0;
        if (a && !kb_vec_push(&a->seen, seen))
            return false;
    }
    return true;
}

/* @param a  NULL: only which tables there are. */
static bool read_analysis(ka_byte_reader *r, kineto_analysis *a, ka_table_set *found)
{
    *found = 0;
    if (!read_seen(r, a))
        return false;
    kineto_string no_streams = ka_read_text(r);
    if (a)
        snprintf(a->no_streams, sizeof a->no_streams, "%.*s",
                 (int)KB_MIN(no_streams.size, sizeof a->no_streams - 1), no_streams.data);
    uint64_t count = ka_read_count(r, 2);
    for (uint64_t i = 0; i < count && !r->is_bad; i++) {
        uint32_t id;
        bool is_known = find_saved_table(ka_read_text(r), &id);
        size_t size = (size_t)ka_read_varint(r);
        const uint8_t *bytes = ka_read_bytes(r, size);
        if (!bytes || !is_known || *found >> id & 1)
            continue;
        *found |= KA_TABLE_BIT(id);
        ka_byte_reader one = ka_read_from(bytes, size);
        bool ok = !a || !a->tables[id].wanted || read_table(&one, &a->tables[id]);
        r->is_bad |= one.is_bad;
        if (!ok)
            return false;
    }
    return !r->is_bad;
}

bool ka_read_analysis(ka_byte_reader *r, kineto_analysis *a, ka_table_set *loaded)
{
    return read_analysis(r, a, loaded);
}

ka_table_set ka_list_saved_tables(ka_byte_reader *r)
{
    ka_table_set found;
    (void)read_analysis(r, NULL, &found);
    return found;
}

/* Indices of SQL tables: rows by the value of a column, and ids of strings by their bytes. Both are
 * made at first use, because most queries need neither. */
#include "export/sql_impl.h"

void ke_sql_index_free(ke_sql_index *index)
{
    if (!index)
        return;
    kb_map_free(&index->groups);
    free(index->first);
    free(index->rows);
    free(index);
}

/* Counting sort, first pass: the group of each row into group[], and the sums of the groups' sizes
 * into first[]. False: out of memory. */
static bool count_groups(ke_sql_index *index, const ke_sql_source *s, int column, uint32_t *group,
                         uint64_t rows)
{
    KB_VEC(uint64_t) counts = {0};
    bool ok = kb_vec_push(&counts, 0) && kb_vec_push(&counts, 0);
    for (uint64_t row = 0; row < rows && ok; row++) {
        uint64_t key;
        uint32_t g = 0;
        if (s->table->ops->key(s->sql, (uint32_t)row, column, &key)) {
            bool created = false;
            uint64_t *at = kb_map_insert(&index->groups, key, counts.count - 1, &created);
            ok = at && (!created || kb_vec_push(&counts, 0));
            g = ok ? (uint32_t)*at : 0;
        }
        group[row] = g;
        if (ok)
            counts.data[g + 1]++;
    }
    for (size_t i = 1; i < counts.count; i++)
        counts.data[i] += counts.data[i - 1];
    index->first = counts.data;
    return ok;
}

/* Second pass: places the rows in their order of time. Each first[] moves to the end of its group,
 * which is the begin of the next one, so they are shifted back afterwards. */
static void place_rows(ke_sql_index *index, const uint32_t *order, const uint32_t *group,
                       uint64_t rows)
{
    size_t groups = index->groups.count + 1;
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t row = order ? order[i] : (uint32_t)i;
        index->rows[index->first[group[row]]++] = row;
    }
    for (size_t i = groups; i > 0; i--)
        index->first[i] = index->first[i - 1];
    KB_ASSERT(index->first[groups] == rows);
    index->first[0] = 0;
}

static ke_sql_index *make_index(const ke_sql_source *s, int column)
{
    const ke_sql_ops *ops = s->table->ops;
    uint64_t rows = ops->rows(s->sql);
    const uint32_t *order = ops->order ? ops->order(s->sql) : NULL;
    uint32_t *group = malloc((rows + 1) * sizeof *group);
    ke_sql_index *index = calloc(1, sizeof *index);
    if (index)
        index->rows = malloc((rows + 1) * sizeof *index->rows);
    bool ok = group && index && index->rows && (order || !ops->order || !rows) &&
              count_groups(index, s, column, group, rows);
    if (ok)
        place_rows(index, order, group, rows);
    free(group);
    if (!ok)
        ke_sql_index_free(index);
    return ok ? index : NULL;
}

const ke_sql_index *ke_sql_index_of(ke_sql_source *source, int column)
{
    if (!source->indexes)
        source->indexes = calloc(source->table->count, sizeof *source->indexes);
    if (source->indexes && !source->indexes[column])
        source->indexes[column] = make_index(source, column);
    return source->indexes ? source->indexes[column] : NULL;
}

const uint32_t *ke_sql_rows_of(const ke_sql_index *index, uint64_t key, uint64_t *count)
{
    const uint64_t *group = kb_map_find(&index->groups, key);
    *count = group ? index->first[*group + 1] - index->first[*group] : 0;
    return group ? index->rows + index->first[*group] : index->rows;
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Chains strings with equal hashes, so that each is compared by its bytes. False: out of memory. */
static bool make_string_index(ke_sql *sql)
{
    uint32_t count = kineto_trace_string_count(sql->trace);
    sql->next_string = calloc(count + UINT64_C(1), sizeof *sql->next_string);
    for (uint32_t id = 0; id < count && sql->next_string; id++) {
        kineto_string s = kineto_trace_string(sql->trace, id);
        uint64_t *at = kb_map_insert(&sql->strings, kb_hash(s.data, s.size), 0, NULL);
        if (!at) {
            kb_map_free(&sql->strings);
            free(sql->next_string);
            sql->strings = (kb_map){0};
            sql->next_string = NULL;
        } else {
            sql->next_string[id] = (uint32_t)*at;
            *at = id + UINT64_C(1);
        }
    }
    return sql->next_string != NULL;
}

bool ke_sql_find_string(ke_sql *sql, kineto_string text, uint32_t *id)
{
    if (!sql->next_string && !make_string_index(sql)) {
        /* Without memory for the index the strings are searched one by one. */
        for (*id = 0; *id < kineto_trace_string_count(sql->trace); ++*id)
            if (kb_string_equal(kineto_trace_string(sql->trace, *id), text))
                return true;
        return false;
    }
    const uint64_t *at = kb_map_find(&sql->strings, kb_hash(text.data, text.size));
    for (uint32_t next = at ? (uint32_t)*at : 0; next; next = sql->next_string[*id]) {
        *id = next - 1;
        if (kb_string_equal(kineto_trace_string(sql->trace, *id), text))
            return true;
    }
    return false;
}

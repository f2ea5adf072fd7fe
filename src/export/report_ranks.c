/* The member `rank_map` of the report's summary: ranks by time, and the critical path across them. Its size is bounded:
 * ranks share rows, and a path of many parts is thinned out. docs/reference/report.md has the members. */
#include "analyze/ranks/rank_cells.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_path.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/tables/table.h"
#include "export/report.h"

#define MAX_ROWS   256u
#define COLUMNS    240u
#define MAX_PARTS  4000u
#define MAX_CLOCKS 64u

static const char levels[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* A row of cells is a text with a letter for each. */
static void put_cells(const ka_rank_cells *c, ka_cell_kind kind, const char *name, kb_json *j)
{
    char text[COLUMNS];
    kb_json_key_z(j, name);
    kb_json_array_begin(j);
    for (uint32_t row = 0; row < c->row_count; row++) {
        for (uint32_t i = 0; i < COLUMNS; i++)
            text[i] = levels[(uint32_t)(c->shares[kind][(size_t)row * COLUMNS + i] * 63 + 0.5)];
        kb_json_string(j, (kineto_string){text, COLUMNS});
    }
    kb_json_array_end(j);
}

static void put_row_ranks(const ka_rank_model *m, const ka_rank_cells *c, kb_json *j)
{
    kb_json_put_int(j, "length_ns", c->end_ns - c->start_ns);
    kb_json_put_uint(j, "columns", COLUMNS);
    kb_json_key_z(j, "ranks");
    kb_json_array_begin(j);
    for (uint32_t r = 0; r < m->rank_count; r++)
        kb_json_int(j, m->facts[r]->rank);
    kb_json_array_end(j);
    kb_json_put_uint(j, "ranks_per_row", c->ranks_per_row);
}

/* ---- the path -------------------------------------------------------------------------------- */

static void put_part(const ka_rank_model *m, const ka_rank_path *p, const ka_path_part *part, int64_t end_ns, kb_json *j)
{
    uint32_t step = ka_model_row(m, part->row)->step;
    kb_json_array_begin(j);
    kb_json_uint(j, part->rank);
    kb_json_string_z(j, ka_path_kind_name(part->kind));
    kb_json_int(j, end_ns - p->start_ns);
    kb_json_int(j, part->group == KA_NONE ? -1 : (int64_t)part->group);
    kb_json_int(j, step == UINT32_MAX ? -1 : (int64_t)step);
    kb_json_int(j, part->is_ambiguous);
    kb_json_array_end(j);
}

/* Of many parts the longest one of each slice of time. */
static void put_path(const ka_rank_model *m, const ka_rank_path *p, kb_json *j)
{
    int64_t slice = p->parts.count > MAX_PARTS ? (p->end_ns - p->start_ns) / MAX_PARTS + 1 : 0;
    const ka_path_part *longest = NULL;
    kb_json_key_z(j, "path");
    kb_json_array_begin(j);
    for (size_t i = 0; i < p->parts.count; i++) {
        const ka_path_part *part = &p->parts.data[i], *next = part + 1;
        if (!longest || part->end_ns - part->start_ns > longest->end_ns - longest->start_ns)
            longest = part;
        bool is_last = i + 1 == p->parts.count;
        if (!slice || is_last || (part->end_ns - p->start_ns) / slice != (next->end_ns - p->start_ns) / slice) {
            put_part(m, p, longest, part->end_ns, j);
            longest = NULL;
        }
    }
    kb_json_array_end(j);
}

/* Names of the groups on the path, by index. */
static void put_groups(const ka_rank_model *m, const ka_path_shares *s, kb_json *j)
{
    kb_json_key_z(j, "groups");
    kb_json_object_begin(j);
    for (uint32_t i = 0; i < m->groups.count; i++) {
        const ka_rank_group *g = &m->groups.data[i];
        char key[16];
        if (!ka_sum_path(&s->group[i]))
            continue;
        kb_snprintf(key, sizeof key, "%u", i);
        kb_json_key_z(j, key);
        kb_json_array_begin(j);
        kb_json_string(j, g->name);
        kb_json_string(j, g->description);
        kb_json_array_end(j);
    }
    kb_json_object_end(j);
}

/* Groups whose transfers make the run longer, and which ranks they join. */
static void put_slow_groups(const ka_rank_view *v, kb_json *j)
{
    kb_json_key_z(j, "slow_groups");
    kb_json_array_begin(j);
    for (size_t i = 0; i < v->causes.list.count; i++) {
        const ka_rank_cause *c = &v->causes.list.data[i];
        if (c->group == KA_NONE)
            continue;
        const ka_rank_model *m = &v->model;
        kb_json_object_begin(j);
        kb_json_put_uint(j, "group", c->group);
        kb_json_put_string(j, "name", c->clock == KA_NONE ? m->groups.data[c->group].name : kb_string(ka_name_link(m, c).s));
        kb_json_put_int(j, "saved_ns", c->saved_ns);
        kb_json_key_z(j, "ranks");
        kb_json_array_begin(j);
        for (uint32_t r = 0; r < m->rank_count; r++)
            if (ka_is_rank_of_link(m, c, r))
                kb_json_uint(j, r);
        kb_json_array_end(j);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static void put_clocks(const ka_rank_model *m, kb_json *j)
{
    double most = 0;
    for (size_t i = 0; i < m->clocks.count; i++)
        most = kb_max_double(most, m->clocks.data[i].bar_ns);
    kb_json_put_string(j, "refused", kb_string(m->refused));
    kb_json_put_uint(j, "hosts", m->clocks.count);
    kb_json_put_int(j, "bar_ns", (int64_t)most);
    kb_json_key_z(j, "clocks");
    kb_json_array_begin(j);
    for (size_t i = 0; i < m->clocks.count && i < MAX_CLOCKS && !m->refused[0]; i++) {
        const ka_rank_clock *c = &m->clocks.data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "host", c->host);
        kb_json_put_int(j, "offset_ns", (int64_t)c->offset_ns);
        kb_json_put_int(j, "bar_ns", (int64_t)c->bar_ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool has_joined(const ka_rank_model *m)
{
    for (size_t i = 0; i < m->instances.count; i++)
        if (m->instances.data[i].flags & (KA_INSTANCE_WHOLE | KA_INSTANCE_PART))
            return true;
    return false;
}

static void put_view(const ka_rank_view *v, kb_json *j)
{
    ka_rank_cells cells;
    ka_rank_path path;
    ka_path_shares shares = {0};
    const ka_rank_model *m = &v->model;
    char absent[200] = "";
    (void)ka_say_absent(v, absent, sizeof absent);
    bool ok = ka_make_rank_cells(m, MAX_ROWS, COLUMNS, &cells);
    ok = ka_find_rank_path(m, &path) && ok;
    ok = ok && ka_share_rank_path(m, &path, &shares);
    if (ok) {
        kb_json_object_begin(j);
        put_clocks(m, j);
        kb_json_put_string(j, "absent", kb_string(absent));
        put_row_ranks(m, &cells, j);
        put_cells(&cells, KA_CELLS_WAITING, "waiting", j);
        put_cells(&cells, KA_CELLS_LATE, "late", j);
        put_path(m, &path, j);
        put_groups(m, &shares, j);
        put_slow_groups(v, j);
        kb_json_object_end(j);
    } else {
        kb_json_null(j);
    }
    ka_path_shares_free(&shares);
    ka_rank_path_free(&path);
    ka_rank_cells_free(&cells);
}

void ke_put_rank_map(kb_json *j, const kineto_analysis *facts)
{
    const ka_rank_view *v = facts ? ka_view_several_ranks(facts->ranks) : NULL;
    kb_json_key_z(j, "rank_map");
    if (v && has_joined(&v->model))
        put_view(v, j);
    else
        kb_json_null(j);
}

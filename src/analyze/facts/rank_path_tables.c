/* The tables rank_path and rank_path_series: the critical path across ranks (ranks/rank_path.h). */
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_path.h"
#include "analyze/ranks/rank_set.h"

/* NULL: the table stays empty, with a note. */
static const ka_rank_view *find_path_for(kineto_analysis *a, ka_table *t, ka_rank_path *p)
{
    const ka_rank_view *v = ka_compare_rows_for(a, t);
    char absent[200];
    *p = (ka_rank_path){0};
    if (!v)
        return NULL;
    if (v->model.refused[0])
        ka_note(t, "no path across ranks: the clocks of hosts cannot be aligned: %s", v->model.refused);
    t->no_memory |= !ka_find_rank_path(&v->model, p);
    if (!p->parts.count)
        ka_note(t, "no path across ranks: no rank has collectives");
    else if (ka_say_absent(v, absent, sizeof absent))
        ka_note(t, "%s", absent);
    return v;
}

typedef struct share_writer {
    const ka_rank_model *m;
    int64_t length_ns;
    ka_table *t;
} share_writer;

static void put_share(const share_writer *w, const char *of, int64_t rank, uint32_t ranks, uint32_t group,
                      const ka_path_share *s)
{
    ka_table *t = w->t;
    int64_t ns = ka_sum_path(s);
    if (!ns)
        return;
    ka_put_text(t, kb_string(of));
    ka_put_int(t, rank);
    ka_put_int(t, ranks);
    ka_put_text(t, group == KA_NONE ? (kineto_string){"", 0} : w->m->groups.data[group].name);
    ka_put_text(t, group == KA_NONE ? (kineto_string){"", 0} : w->m->groups.data[group].description);
    ka_put_ns(t, ns);
    ka_put_number(t, ka_percent((double)ns, (double)w->length_ns));
    for (size_t i = 0; i < KA_PATH_KINDS; i++)
        ka_put_ns(t, s->ns[i]);
    ka_put_int(t, s->hops);
    ka_put_int(t, s->ambiguous);
}

/* A role is named by its first rank. */
static void put_role(const share_writer *w, uint32_t role, const ka_path_share *s)
{
    const ka_rank_model *m = w->m;
    int64_t first = KA_NO_INT;
    uint32_t count = 0;
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->role[r] == role) {
            first = count++ ? first : m->facts[r]->rank;
        }
    put_share(w, "role", first, count, KA_NONE, s);
}

void ka_reduce_rank_path(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_path);
    ka_rank_path p;
    ka_path_shares s;
    const ka_rank_view *v = find_path_for(a, t, &p);
    if (!v)
        return;
    const ka_rank_model *m = &v->model;
    share_writer w = {m, p.end_ns - p.start_ns, t};
    if (ka_share_rank_path(m, &p, &s)) {
        put_share(&w, "run", KA_NO_INT, m->rank_count, KA_NONE, &s.run);
        for (uint32_t i = 0; s.role_count > 1 && i < s.role_count; i++)
            put_role(&w, i, &s.role[i]);
        for (uint32_t i = 0; i < m->groups.count; i++)
            put_share(&w, "group", KA_NO_INT, m->groups.data[i].size, i, &s.group[i]);
        for (uint32_t i = 0; i < m->rank_count; i++)
            put_share(&w, "rank", m->facts[i]->rank, 1, KA_NONE, &s.rank[i]);
    } else {
        t->no_memory = true;
    }
    ka_path_shares_free(&s);
    ka_rank_path_free(&p);
}

void ka_reduce_rank_path_series(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_path_series);
    ka_rank_path p;
    const ka_rank_view *v = find_path_for(a, t, &p);
    for (size_t i = 0; i < p.parts.count; i++) {
        const ka_path_part *part = &p.parts.data[i];
        const ka_rank_model *m = &v->model;
        const ka_comm *c = ka_model_row(m, part->row);
        ka_put_int(t, m->facts[part->rank]->rank);
        ka_put_text(t, kb_string(ka_path_kind_name(part->kind)));
        ka_put_text(t, part->group == KA_NONE ? (kineto_string){"", 0} : m->groups.data[part->group].name);
        ka_put_int(t, c->step == UINT32_MAX ? KA_NO_INT : c->step);
        ka_put_ns(t, part->start_ns - p.start_ns);
        ka_put_ns(t, part->end_ns - p.start_ns);
        ka_put_ns(t, part->end_ns - part->start_ns);
        ka_put_int(t, part->is_ambiguous);
    }
    ka_rank_path_free(&p);
}

/* The tables rank_skew_kinds, rank_skew, rank_skew_ranks and rank_skew_series: waiting and transfer of collectives (ranks/rank_skew.h). */
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_path.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/rank_skew.h"

static void put_group(const ka_rank_model *m, uint32_t group, bool with_kind, ka_table *t)
{
    const ka_rank_group *g = group == KA_NONE ? NULL : &m->groups.data[group];
    ka_put_text(t, g ? g->name : (kineto_string){"", 0});
    if (with_kind)
        ka_put_text(t, g ? g->description : (kineto_string){"", 0});
}

/* What the rows are of, if not of everything. */
static void note_skew(const ka_rank_view *v, bool is_empty, ka_table *t)
{
    const ka_rank_model *m = &v->model;
    char absent[200];
    if (m->refused[0])
        ka_note(t, "only groups within one host: the clocks of hosts cannot be aligned: %s", m->refused);
    else if (is_empty)
        ka_note(t, "no collective has rows on several ranks");
    else if (ka_say_absent(v, absent, sizeof absent))
        ka_note(t, "%s", absent);
}

static void put_skew(const ka_skew *s, ka_table *t)
{
    ka_put_ns(t, s->wait_ns);
    ka_put_ns(t, s->transfer_ns);
    ka_put_ns(t, s->late_ns);
    ka_put_ns(t, s->queued_ns);
}

static void put_of_step(int64_t ns, uint32_t steps, ka_table *t)
{
    if (steps)
        ka_put_number(t, (double)ns / 1000 / steps);
    else
        ka_put_none(t);
}

static void put_group_skew(const ka_rank_model *m, const ka_skew_sum *g, ka_table *t)
{
    if (g->groups) {
        ka_put_text(t, m->groups.data[g->group].description);
        ka_put_int(t, g->groups);
    } else {
        put_group(m, g->group, true, t);
    }
    ka_put_int(t, m->groups.data[g->group].size);
    ka_put_int(t, g->instances);
    ka_put_text(t, kb_string(ka_name_skew(g)));
    put_skew(&g->times, t);
    put_of_step(g->times.wait_ns, g->steps, t);
    put_of_step(g->times.transfer_ns, g->steps, t);
    ka_put_int(t, g->ambiguous);
    ka_put_int(t, g->last_rank == KA_NONE ? KA_NO_INT : m->facts[g->last_rank]->rank);
    if (!g->groups)
        ka_put_number(t, ka_percent(g->last_count, g->instances));
}

static void put_rank_skew(const ka_rank_model *m, const ka_skew_sum *r, ka_table *t)
{
    put_group(m, r->group, true, t);
    ka_put_int(t, m->facts[r->rank]->rank);
    ka_put_int(t, r->instances);
    put_skew(&r->times, t);
    ka_put_int(t, r->last);
    ka_put_int(t, r->ambiguous);
}

static void reduce_sums(kineto_analysis *a, ka_table *t)
{
    const ka_rank_view *v = ka_compare_rows_for(a, t);
    ka_rank_skews s;
    if (!v)
        return;
    t->no_memory |= !ka_find_rank_skews(&v->model, &s);
    for (size_t i = 0; t->id == KA_TABLE_rank_skew_kinds && i < s.kinds.count; i++)
        put_group_skew(&v->model, &s.kinds.data[i], t);
    for (size_t i = 0; t->id == KA_TABLE_rank_skew && i < s.groups.count; i++)
        put_group_skew(&v->model, &s.groups.data[i], t);
    for (size_t i = 0; t->id == KA_TABLE_rank_skew_ranks && i < s.ranks.count; i++)
        put_rank_skew(&v->model, &s.ranks.data[i], t);
    note_skew(v, !s.groups.count, t);
    ka_rank_skews_free(&s);
}

void ka_reduce_rank_skew_kinds(kineto_analysis *a) { reduce_sums(a, ka_table_of(a, KA_TABLE_rank_skew_kinds)); }

void ka_reduce_rank_skew(kineto_analysis *a) { reduce_sums(a, ka_table_of(a, KA_TABLE_rank_skew)); }

void ka_reduce_rank_skew_ranks(kineto_analysis *a) { reduce_sums(a, ka_table_of(a, KA_TABLE_rank_skew_ranks)); }

typedef struct row_writer {
    const ka_rank_model *m;
    int64_t begin_ns; /* of the run */
    ka_table *t;
} row_writer;

static bool put_row_skew(void *context, const ka_row_skew *s)
{
    const row_writer *w = context;
    const ka_rank_model *m = w->m;
    const ka_instance *x = &m->instances.data[s->instance];
    ka_table *t = w->t;
    put_group(m, x->group, false, t);
    ka_put_int(t, x->sequence);
    ka_put_text(t, ka_collective_op_name(ka_model_row(m, s->row)->op));
    ka_put_int(t, x->step == UINT32_MAX ? KA_NO_INT : x->step);
    ka_put_int(t, m->facts[m->rank_of[s->row]]->rank);
    ka_put_ns(t, ka_model_row(m, s->row)->start_ns);
    ka_put_ns(t, m->refused[0] ? KA_NO_INT : ka_add_ns(s->start_ns, -w->begin_ns));
    put_skew(&s->times, t);
    ka_put_int(t, s->is_last);
    ka_put_int(t, s->is_ambiguous);
    return !t->no_memory;
}

void ka_reduce_rank_skew_series(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_skew_series);
    const ka_rank_view *v = ka_compare_rows_for(a, t);
    if (!v)
        return;
    row_writer w = {.m = &v->model, .t = t};
    int64_t end_ns;
    (void)ka_find_run_window(&v->model, &w.begin_ns, &end_ns);
    t->no_memory |= !ka_visit_row_skews(&v->model, put_row_skew, &w);
    note_skew(v, !t->cells.count, t);
}

/* The tables rank_causes, rank_clocks and rank_damage: what comparing ranks finds (analyze/ranks). */
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"

#include <math.h>

kineto_status ka_analyze_rank_marks(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_marks);
    ka_rank_facts *facts;
    kineto_status status = ka_rank_facts_create(s, &facts, err);
    if (status)
        return status;
    ka_put_int(t, s->rank);
    ka_put_int(t, (int64_t)facts->rows.count - 1);
    return ka_rank_set_put(&a->ranks, facts) ? KINETO_OK : kb_fail_memory(err, NULL);
}

const ka_rank_view *ka_compare_ranks_for(kineto_analysis *a, ka_table *t)
{
    t->cells.count = 0;
    t->note[0] = '\0';
    if (!a->ranks || a->ranks->ranks.count < 2) {
        ka_note(t, "one rank cannot be compared: name the traces of several");
        return NULL;
    }
    const ka_rank_view *view = ka_rank_set_view(a->ranks);
    t->no_memory |= !view;
    return view;
}

const ka_rank_view *ka_compare_rows_for(kineto_analysis *a, ka_table *t)
{
    const ka_rank_view *view = ka_compare_ranks_for(a, t);
    if (!view || view->window_count < 2)
        return view;
    ka_note(t, "not made of runs that do not fit into memory: analyze fewer steps, or a part of the ranks");
    return NULL;
}

#define MAX_NOTED 3u

static void put_cause(const ka_rank_view *v, const ka_rank_cause *c, ka_table *t)
{
    ka_put_text(t, kb_string(ka_cause_kind_name(c->kind)));
    ka_put_int(t, c->rank == KA_NONE ? KA_NO_INT : v->model.facts[c->rank]->rank);
    ka_put_text(t, c->group == KA_NONE || c->clock != KA_NONE ? (kineto_string){"", 0} : v->model.groups.data[c->group].name);
    ka_put_text(t, c->group == KA_NONE ? (kineto_string){"", 0} : kb_string(ka_list_link_ranks(&v->model, c).s));
    ka_put_text(t, kb_string(ka_name_hosts(&v->model, c).s));
    ka_put_int(t, c->rank == KA_NONE || v->model.facts[c->rank]->device < 0 ? KA_NO_INT : v->model.facts[c->rank]->device);
    ka_put_int(t, c->step == UINT32_MAX ? KA_NO_INT : c->step);
    ka_put_ns(t, c->saved_ns);
    ka_put_number(t, ka_percent((double)c->saved_ns, (double)v->causes.length_ns));
    ka_put_ns(t, c->excess_ns);
    if (v->causes.steps) {
        ka_put_number(t, (double)c->saved_ns / 1000 / v->causes.steps);
        ka_put_int(t, c->leads);
        ka_put_int(t, v->causes.steps);
        return;
    }
    for (int i = 0; i < 3; i++)
        ka_put_none(t);
}

/* "rank 21 (host node005, GPU 5) as its peers: -2.7 ms a step"; whether it is so in all steps. */
static void note_cause(const ka_rank_view *v, const ka_rank_cause *c, ka_table *t)
{
    char of[200];
    uint32_t steps = v->causes.steps;
    if (c->group != KA_NONE)
        kb_snprintf(of, sizeof of, "%s as %s", ka_name_link(&v->model, c).s, c->clock == KA_NONE ? "groups of its kind" : "other links");
    else
        kb_snprintf(of, sizeof of, "%s as its peers", ka_name_rank(&v->model, c->rank).s);
    if (c->kind == KA_CAUSE_STEP || !steps)
        ka_note_also(t, "%s: -%s", of, kb_duration(c->saved_ns).s);
    else
        ka_note_also(t, "%s: -%s a step; it leads in %u of %u steps%s", of, kb_duration(c->saved_ns / steps).s, c->leads,
                     steps, 2 * c->leads < steps ? " only" : "");
}

/* No cause was found: but was each link compared with another one? */
static void note_no_cause(const ka_rank_view *v, ka_table *t)
{
    char lone[300];
    if (ka_say_lone_links(v, lone, sizeof lone))
        ka_note(t, "no rank makes the run longer by more than noise; %s", lone);
    else
        ka_note(t, "no rank and no link makes the run longer by more than noise");
}

/* Is the rank a cause already, on its own host? */
static bool is_cause(const ka_rank_causes *causes, uint32_t rank)
{
    for (size_t i = 0; i < causes->list.count; i++)
        if (causes->list.data[i].rank == rank)
            return true;
    return false;
}

void ka_note_refused(const ka_rank_view *v, ka_table *t)
{
    const ka_rank_causes *c = &v->causes;
    if (!v->is_compared)
        ka_note(t, "%s", ka_explain_unmatched(v));
    else if (c->refused[0])
        ka_note(t, "%s", c->refused);
    else if (v->model.refused[0])
        ka_note(t, "clocks of hosts cannot be aligned: %s", v->model.refused);
    if (c->longest_excess_ns > 0 && !is_cause(c, c->longest_rank))
        ka_note_also(t, "by durations alone rank %lld computes %s longer than its like, which costs the run as much or less",
                     (long long)v->model.facts[c->longest_rank]->rank, kb_duration(c->longest_excess_ns).s);
}

void ka_reduce_rank_causes(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_causes);
    const ka_rank_view *v = ka_compare_ranks_for(a, t);
    for (size_t i = 0; v && i < v->causes.list.count; i++)
        put_cause(v, &v->causes.list.data[i], t);
    for (size_t i = 0; v && i < v->causes.list.count && i < MAX_NOTED; i++)
        note_cause(v, &v->causes.list.data[i], t);
    if (v)
        ka_note_refused(v, t);
    if (v && !t->note[0] && !v->causes.list.count)
        note_no_cause(v, t);
}

void ka_reduce_rank_clocks(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_clocks);
    const ka_rank_view *v = ka_compare_ranks_for(a, t);
    for (size_t i = 0; v && i < v->model.clocks.count; i++) {
        const ka_rank_clock *c = &v->model.clocks.data[i];
        bool is_known = !c->is_left_out && !v->model.refused[0];
        ka_put_text(t, c->host);
        ka_put_int(t, c->rank_count);
        ka_put_number(t, is_known ? c->offset_ns / 1000 : (double)NAN);
        ka_put_number(t, is_known ? c->drift * 1e6 : (double)NAN);
        ka_put_number(t, is_known ? c->bar_ns / 1000 : (double)NAN);
        if (c->is_left_out && !v->model.refused[0] && !t->note[0])
            ka_note(t, "left out: %s has no collective in common with most others", ka_name_clock(&v->model, (uint32_t)i).s);
    }
    if (v && v->model.refused[0])
        ka_note(t, "%s", v->model.refused);
}

static kineto_string name_of_group(const ka_rank_model *m, uint32_t group)
{
    return group == KA_NONE ? (kineto_string){"", 0} : m->groups.data[group].name;
}

static bool is_same_damage(const ka_rank_model *m, const ka_rank_damage *a, const ka_rank_model *n, const ka_rank_damage *b)
{
    return a->kind == b->kind && a->rank == b->rank && kb_string_equal(name_of_group(m, a->group), name_of_group(n, b->group));
}

static bool has_damage(const ka_rank_damages *list, const ka_rank_model *m, const ka_rank_model *n, const ka_rank_damage *b)
{
    for (size_t i = 0; i < list->count; i++)
        if (is_same_damage(m, &list->data[i], n, b))
            return true;
    return false;
}

static void put_damage(const ka_rank_model *m, const ka_rank_damage *d, const char *source, ka_table *t)
{
    ka_put_text(t, kb_string(ka_damage_name(d->kind)));
    ka_put_int(t, d->rank);
    ka_put_text(t, name_of_group(m, d->group));
    ka_put_int(t, d->sequence == KA_NO_SEQUENCE ? KA_NO_INT : d->sequence);
    ka_put_int(t, d->count);
    ka_put_text(t, kb_string(source));
}

/* What dumps show besides, and whether both sources agree. */
static void put_damage_of_dumps(const ka_rank_view *v, ka_table *t)
{
    bool differ = false;
    for (size_t i = 0; i < v->damage.count; i++)
        differ |= !has_damage(&v->in_dumps, &v->dumps, &v->model, &v->damage.data[i]);
    for (size_t i = 0; i < v->in_dumps.count; i++)
        if (!has_damage(&v->damage, &v->model, &v->dumps, &v->in_dumps.data[i])) {
            put_damage(&v->dumps, &v->in_dumps.data[i], "dump", t);
            differ = true;
        }
    if (differ)
        ka_note(t, "traces and flight recorder dumps differ: what one source lacks may lie outside its window");
}

void ka_reduce_rank_damage(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_damage);
    const ka_rank_view *v = ka_compare_ranks_for(a, t);
    if (!v)
        return;
    for (size_t i = 0; i < v->damage.count; i++) {
        const ka_rank_damage *d = &v->damage.data[i];
        bool both = v->dumps.rank_count && has_damage(&v->in_dumps, &v->dumps, &v->model, d);
        put_damage(&v->model, d, both ? "both" : v->is_of_dumps ? "dump" : "trace", t);
    }
    if (v->dumps.rank_count)
        put_damage_of_dumps(v, t);
    if (!ka_table_rows(t))
        ka_note(t, "all ranks are there, and call the same collectives");
}

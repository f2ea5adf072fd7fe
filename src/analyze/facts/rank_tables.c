/* The tables rank_causes, rank_clocks and rank_damage: what comparing ranks finds (analyze/ranks). */
#include "analyze/facts/analyses.h"
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

/* The comparison for a table that is made anew. NULL: it stays empty, with a note. */
static const ka_rank_view *compare_for(kineto_analysis *a, ka_table *t)
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

static void put_cause(const ka_rank_view *v, const ka_rank_cause *c, ka_table *t)
{
    static const char *const kinds[] = {"device", "host", "link", "step"};
    ka_put_text(t, kb_string(kinds[c->kind]));
    ka_put_int(t, c->rank == KA_NONE ? KA_NO_INT : v->model.facts[c->rank]->rank);
    ka_put_text(t, c->group == KA_NONE ? (kineto_string){"", 0} : v->model.groups.data[c->group].name);
    ka_put_int(t, c->step == UINT32_MAX ? KA_NO_INT : c->step);
    ka_put_ns(t, c->saved_ns);
    ka_put_number(t, ka_percent((double)c->saved_ns, (double)v->causes.length_ns));
    ka_put_ns(t, c->excess_ns);
}

void ka_reduce_rank_causes(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_causes);
    const ka_rank_view *v = compare_for(a, t);
    for (size_t i = 0; v && i < v->causes.list.count; i++)
        put_cause(v, &v->causes.list.data[i], t);
    if (v && v->causes.refused[0])
        ka_note(t, "%s", v->causes.refused);
    else if (v && v->model.refused[0])
        ka_note(t, "clocks of hosts cannot be aligned: %s", v->model.refused);
    else if (v && !v->causes.list.count)
        ka_note(t, "no rank and no link makes the run longer by more than noise");
}

void ka_reduce_rank_clocks(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_clocks);
    const ka_rank_view *v = compare_for(a, t);
    for (size_t i = 0; v && i < v->model.clocks.count; i++) {
        const ka_rank_clock *c = &v->model.clocks.data[i];
        ka_put_text(t, c->host);
        ka_put_int(t, c->rank_count);
        ka_put_number(t, c->is_left_out ? (double)NAN : c->offset_ns / 1000);
        ka_put_number(t, c->is_left_out ? (double)NAN : c->drift * 1e6);
        ka_put_number(t, c->is_left_out ? (double)NAN : c->bar_ns / 1000);
        if (c->is_left_out && !v->model.refused[0] && !t->note[0])
            ka_note(t, "left out: host %.*s has no collective in common with most others", (int)KB_MIN(c->host.size, (size_t)60),
                    c->host.data);
    }
    if (v && v->model.refused[0])
        ka_note(t, "%s", v->model.refused);
}

void ka_reduce_rank_damage(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_rank_damage);
    const ka_rank_view *v = compare_for(a, t);
    for (size_t i = 0; v && i < v->damage.count; i++) {
        const ka_rank_damage *d = &v->damage.data[i];
        ka_put_text(t, kb_string(ka_damage_name(d->kind)));
        ka_put_int(t, d->rank);
        ka_put_text(t, d->group == KA_NONE ? (kineto_string){"", 0} : v->model.groups.data[d->group].name);
        ka_put_int(t, d->sequence == KA_NO_SEQUENCE ? KA_NO_INT : d->sequence);
        ka_put_int(t, d->count);
    }
    if (v && !v->damage.count)
        ka_note(t, "all ranks are there, and call the same collectives");
}

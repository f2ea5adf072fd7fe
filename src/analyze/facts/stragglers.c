/* The table stragglers: ranks that make the others wait. Exact: those causes of rank_causes that are ranks, with what
 * comparing ranks (analyze/ranks) knows of them. Definitions of other tools score collectives by a rule of their own
 * (score_stragglers), from the hidden table straggler_marks. */
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/rank_skew.h"

/* ---- ranks that are causes ------------------------------------------------------------------- */

/* Arrivals of a rank at the collectives of all its groups. */
typedef struct arrivals {
    uint64_t instances, last;
    int64_t wait_ns;
} arrivals;

/* All 0 if the rank has no collective that can be compared. */
static arrivals sum_arrivals(const ka_rank_skews *s, uint32_t rank)
{
    arrivals sum = {0};
    for (size_t i = 0; i < s->ranks.count; i++) {
        const ka_skew_sum *r = &s->ranks.data[i];
        if (r->rank != rank)
            continue;
        sum.instances += r->instances;
        sum.last += r->last;
        sum.wait_ns = ka_add_ns(sum.wait_ns, r->times.wait_ns);
    }
    return sum;
}

/* Roles are named by their first rank. */
static int64_t name_role(const ka_rank_model *m, uint32_t rank)
{
    uint32_t first = 0;
    while (m->role[first] != m->role[rank])
        first++;
    return m->facts[first]->rank;
}

/* An empty cell where the number is not known. */
static void put_number_if(ka_table *t, bool is_known, double number)
{
    if (is_known)
        ka_put_number(t, number);
    else
        ka_put_none(t);
}

/* A row. @param c  a cause that is a rank. @param skews  empty if the rows of the run are not in memory. */
static void put_straggler(const ka_rank_view *v, const ka_rank_cause *c, const ka_rank_skews *skews, ka_table *t)
{
    arrivals at = sum_arrivals(skews, c->rank);
    double steps = v->causes.steps;
    ka_put_int(t, v->model.facts[c->rank]->rank);
    ka_put_number(t, ka_percent((double)c->saved_ns, (double)v->causes.length_ns));
    ka_put_int(t, name_role(&v->model, c->rank));
    ka_put_text(t, ka_host_of_rank(&v->model, c->rank));
    ka_put_text(t, kb_string(ka_cause_kind_name(c->kind)));
    ka_put_ns(t, c->saved_ns);
    put_number_if(t, steps > 0, ka_us(c->saved_ns) / steps);
    ka_put_number(t, ka_cause_confidence(v));
    put_number_if(t, at.instances && steps > 0, ka_us(at.wait_ns) / steps);
    put_number_if(t, at.instances, ka_percent((double)at.last, (double)at.instances));
}

/* Why there is no row, or what is not compared. */
static void note_stragglers(const ka_rank_view *v, ka_table *t)
{
    ka_note_refused(v, t);
    if (t->note[0] || ka_table_rows(t))
        return;
    if (v->causes.list.count)
        ka_note(t, "no rank makes the run longer by more than noise; a link does (rank_causes)");
    else
        ka_note(t, "no rank makes the run longer by more than noise");
}

/* Rows are in the order of causes: what saves most is first. */
static void put_stragglers(kineto_analysis *a, ka_table *t)
{
    ka_rank_skews skews = {0};
    const ka_rank_view *v = ka_compare_ranks_for(a, t);
    if (!v)
        return;
    if (v->window_count < 2)
        t->no_memory |= !ka_find_rank_skews(&v->model, &skews);
    for (size_t i = 0; i < v->causes.list.count; i++)
        if (v->causes.list.data[i].rank != KA_NONE)
            put_straggler(v, &v->causes.list.data[i], &skews, t);
    note_stragglers(v, t);
    ka_rank_skews_free(&skews);
}

/* ---- definitions of other tools: one rank ----------------------------------------------------- */

/* Of a rank, in us; 0 without steps. */
static double mean_step_us(const ka_dataset *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->step_count; i++)
        sum += ka_us(kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
    return s->step_count ? sum / s->step_count : 0;
}

/* Table straggler_marks: the collectives of this rank that the definitions compare; none for exact ones. */
kineto_status ka_analyze_stragglers(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_straggler_marks);
    double step_us = mean_step_us(s);
    (void)err;
    for (uint32_t i = 0; s->definitions->is_straggler_mark && i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (!s->definitions->is_straggler_mark(s, w))
            continue;
        ka_put_int(t, s->rank);
        ka_put_int(t, s->streams[w->stream].id);
        ka_put_int(t, w->step < 0 ? -1 : (int64_t)KB_MIN(s->steps[w->step].number, INT64_MAX));
        ka_put_text(t, ka_name(s, w->name));
        ka_put_ns(t, w->start_ns);
        ka_put_ns(t, ka_work_ns(w));
        ka_put_number(t, step_us);
    }
    return KINETO_OK;
}

/* ---- definitions of other tools: all ranks ---------------------------------------------------- */

static int compare_scored_ranks(const void *left, const void *right)
{
    return KB_COMPARE(((const ka_rank_score *)left)->rank, ((const ka_rank_score *)right)->rank);
}

/* A rank once, whose traces came apart, too. */
static void sort_ranks(ka_straggler_scores *c)
{
    size_t kept = 0;
    ka_rank_score *r = c->ranks.data;
    if (c->ranks.count)
        qsort(r, c->ranks.count, sizeof *r, compare_scored_ranks);
    for (size_t i = 0; i < c->ranks.count; i++)
        if (!kept || r[kept - 1].rank != r[i].rank)
            r[kept++] = r[i];
    c->ranks.count = kept;
}

/* Rows are in the order of traces' addition, so those of a trace are together. */
static void collect_marks(ka_straggler_scores *c, const ka_table *t)
{
    double sum = 0;
    for (uint64_t r = 0; r < ka_table_rows(t) && !c->no_memory; r++) {
        ka_straggler_mark m = {.rank = ka_cell_at(t, r, KA_COL_straggler_marks_rank).i,
                               .stream = ka_cell_at(t, r, KA_COL_straggler_marks_stream).i,
                               .step = ka_cell_at(t, r, KA_COL_straggler_marks_step).i,
                               .name = ka_cell_at(t, r, KA_COL_straggler_marks_name).i,
                               .start_ns = ka_cell_at(t, r, KA_COL_straggler_marks_start_us).i,
                               .dur_ns = ka_cell_at(t, r, KA_COL_straggler_marks_dur_us).i};
        c->no_memory |= !kb_vec_push(&c->marks, m);
        if (r && m.rank == ka_cell_at(t, r - 1, KA_COL_straggler_marks_rank).i)
            continue;
        c->no_memory |= !kb_vec_push(&c->ranks, ((ka_rank_score){m.rank, 0}));
        sum += ka_cell_at(t, r, KA_COL_straggler_marks_step_us).d;
    }
    c->mean_step_us = c->ranks.count ? sum / (double)c->ranks.count : 0;
    sort_ranks(c);
}

/* In the order of the definitions, which know nothing else of a rank. */
static void put_scores(const ka_straggler_scores *c, ka_table *t)
{
    static const kineto_string no_text = {"", 0};
    for (size_t i = 0; i < c->ranks.count; i++) {
        ka_put_int(t, c->ranks.data[i].rank);
        ka_put_number(t, c->ranks.data[i].score);
        ka_put_none(t);
        ka_put_text(t, no_text);
        ka_put_text(t, no_text);
        for (uint32_t column = KA_COL_stragglers_saved_us; column < t->column_count; column++)
            ka_put_none(t);
    }
}

/* What these definitions compare may be fewer collectives than there are. */
static void score_by_definitions(kineto_analysis *a, ka_table *t)
{
    const ka_definitions *d = ka_definitions_of(a->definitions);
    const ka_table *marks = ka_table_of(a, KA_TABLE_straggler_marks);
    ka_straggler_scores c = {0};
    collect_marks(&c, marks);
    if (!marks->cells.count) {
        ka_note(t, "%s", d->no_straggler_marks);
    } else if (c.ranks.count < 2) {
        ka_note(t, "one rank cannot be compared: name the traces of several");
        ka_note_ranks(a, marks, t);
    } else if (!c.no_memory) {
        d->score_stragglers(&c);
        ka_note_ranks(a, marks, t);
        put_scores(&c, t);
    }
    t->no_memory |= c.no_memory;
    kb_vec_free(&c.marks);
    kb_vec_free(&c.ranks);
}

void ka_reduce_stragglers(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_stragglers);
    t->cells.count = 0;
    t->note[0] = '\0';
    if (ka_definitions_of(a->definitions)->score_stragglers)
        score_by_definitions(a, t);
    else
        put_stragglers(a, t);
}

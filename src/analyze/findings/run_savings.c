/* Findings of several ranks of one run: what they save of the run, which cause across ranks explains them, and their order.
 *
 * Ranks wait for each other, so the run is only as much shorter as the least affected rank of a role would be; more of it only
 * where the comparison of ranks (analyze/ranks) says that the run waits for a rank, and then by no more than that rank costs it.
 * Ranks of different roles do different work: the role that saves most counts. Where ranks are not compared, the savings of
 * the worst rank stay. */
#include "analyze/findings/finding.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"

#define NO_RANK_SAVINGS INT64_MIN

/* Of one finding. */
typedef struct run_savings {
    const ka_rank_view *v;
    int64_t *own_ns;   /* by index of a rank, per step; NO_RANK_SAVINGS: it lacks the finding */
    int64_t *least_ns; /* by role, which are fewer than ranks */
    uint32_t steps;
} run_savings;

/* Without a device the comparison names only ranks that are late by much more than shared processors make them: then no cause
 * does not mean that the run waits for no rank. */
static bool is_conclusive(const ka_rank_view *v) { return v->causes.list.count || !v->model.facts[0]->on_host; }

/* NULL: ranks are not compared, or the comparison refuses to name causes. */
static const ka_rank_view *find_view(const kineto_findings *f)
{
    const ka_rank_view *v = f->across ? ka_view_several_ranks(f->across->ranks) : NULL;
    bool is_usable = v && v->is_compared && !v->model.refused[0] && !v->causes.refused[0] && is_conclusive(v);
    return is_usable ? v : NULL;
}

/* ---- causes ---------------------------------------------------------------------------------- */

/* Does a cause cost time of the kind that the rule saves? */
static bool is_of_kind(const ka_rank_cause *c, const ka_found *x)
{
    static const uint32_t saves[] = {[KA_CAUSE_DEVICE] = KA_SAVES_DEVICE,
                                     [KA_CAUSE_HOST] = KA_SAVES_HOST,
                                     [KA_CAUSE_LINK] = KA_SAVES_EXCHANGE,
                                     [KA_CAUSE_STEP] = KA_SAVES_HOST | KA_SAVES_DEVICE | KA_SAVES_EXCHANGE};
    return (ka_finding_spec_of(x->rule)->saves & saves[c->kind]) != 0;
}

/* Is it the slow rank, or a rank at an end of the slow link? */
static bool is_rank_of_cause(const ka_rank_view *v, const ka_rank_cause *c, uint32_t rank)
{
    return c->rank == KA_NONE ? ka_is_rank_of_link(&v->model, c, rank) : c->rank == rank;
}

/* The number at the end of the name of a step, "ProfilerStep#13"; UINT32_MAX: there is none. */
static uint32_t read_step_number(kineto_string name)
{
    uint64_t number = 0, unit = 1;
    size_t at = name.size;
    for (; at && unit <= 1000000000 && name.data[at - 1] >= '0' && name.data[at - 1] <= '9'; unit *= 10)
        number += unit * (uint64_t)(name.data[--at] - '0');
    return unit == 1 || number >= UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

/* Is its worst step the one in which the rank is slow? */
static bool is_same_slow_step(const ka_rank_cause *c, const ka_found *x)
{
    const ka_evidence *worst = x->evidence.data;
    for (size_t i = 0; i < x->evidence.count; i++)
        worst = x->evidence.data[i].weight_ns > worst->weight_ns ? &x->evidence.data[i] : worst;
    return c->kind == KA_CAUSE_STEP && x->rule == KA_FIND_slow_steps && worst && read_step_number(worst->name) == c->step;
}

/* Is what the other finding saves, at least in part, what the cause costs? */
static bool does_cause_explain(const ka_rank_view *v, const ka_found *cause, const ka_found *x)
{
    if (!cause->cause || x->cause || x->comes_first)
        return false;
    const ka_rank_cause *c = &v->causes.list.data[cause->cause - 1];
    uint32_t rank = ka_find_rank_index(&v->model, x->rank);
    return is_same_slow_step(c, x) || (rank != KA_NONE && is_of_kind(c, x) && is_rank_of_cause(v, c, rank));
}

/* ---- savings --------------------------------------------------------------------------------- */

static void set_own(run_savings *s, int32_t rank, int64_t ns)
{
    uint32_t index = ka_find_rank_index(&s->v->model, rank);
    if (index != KA_NONE)
        s->own_ns[index] = ns;
}

/* Ranks that lack the finding save nothing, unless some rank lacks the data for it. */
static void fill_own(run_savings *s, const ka_found *x, bool is_known)
{
    const ka_rank_model *m = &s->v->model;
    for (uint32_t r = 0; r < m->rank_count; r++)
        s->own_ns[r] = is_known && !m->is_stranger[r] ? 0 : NO_RANK_SAVINGS;
    if (!x->by_rank.count)
        set_own(s, x->rank, x->own_savings_ns);
    for (size_t i = 0; i < x->by_rank.count; i++)
        set_own(s, x->by_rank.data[i].rank, x->by_rank.data[i].ns);
}

/* The least of each role; returns the largest of these. */
static int64_t find_common_savings(run_savings *s)
{
    const ka_rank_model *m = &s->v->model;
    int64_t most = 0;
    for (uint32_t r = 0; r < m->rank_count; r++)
        s->least_ns[r] = INT64_MAX;
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (s->own_ns[r] != NO_RANK_SAVINGS)
            s->least_ns[m->role[r]] = KB_MIN(s->least_ns[m->role[r]], s->own_ns[r]);
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (s->least_ns[r] != INT64_MAX)
            most = KB_MAX(most, s->least_ns[r]);
    return most;
}

static int64_t find_run_savings(run_savings *s, const ka_found *x)
{
    int64_t most = find_common_savings(s);
    for (size_t i = 0; i < s->v->causes.list.count; i++) {
        const ka_rank_cause *c = &s->v->causes.list.data[i];
        for (uint32_t r = 0; is_of_kind(c, x) && r < s->v->model.rank_count; r++) {
            if (s->own_ns[r] == NO_RANK_SAVINGS || !is_rank_of_cause(s->v, c, r))
                continue;
            int64_t least = s->least_ns[s->v->model.role[r]];
            most = KB_MAX(most, least + KB_MIN(s->own_ns[r] - least, c->saved_ns / (int64_t)s->steps));
        }
    }
    return most;
}

/* Per step of the run. */
static void set_run_savings(const kineto_findings *f, run_savings *s, ka_found *x)
{
    bool is_known = !(f->partly_skipped >> x->rule & 1);
    if (x->rank_count != KB_MAX(x->by_rank.count, (size_t)1) || ka_find_rank_index(&s->v->model, x->rank) == KA_NONE)
        return;
    fill_own(s, x, is_known);
    x->step_savings_ns = find_run_savings(s, x);
    x->is_of_run = true;
    x->step_savings_pct = KB_MIN(100, ka_percent((double)x->step_savings_ns, (double)ka_finding_baseline_ns(f, x)));
}

/* Ranks may have been added since. */
static void reset_savings(kineto_findings *f)
{
    for (size_t i = 0; i < f->found.count; i++) {
        ka_found *x = &f->found.data[i];
        if (!x->is_of_run)
            continue;
        x->is_of_run = false;
        x->step_savings_ns = x->own_savings_ns;
        x->step_savings_pct = KB_MIN(100, ka_percent((double)x->own_savings_ns, (double)x->baseline_ns));
    }
}

bool ka_set_run_savings(kineto_findings *f)
{
    const ka_rank_view *v = NULL;
    reset_savings(f);
    for (size_t i = 0; i < f->found.count && !v; i++)
        if (f->found.data[i].saved_ns != KA_NO_SAVINGS && !f->found.data[i].cause && !(v = find_view(f)))
            return true;
    if (!v)
        return true;
    run_savings s = {.v = v, .steps = KB_MAX(v->causes.steps, 1u)};
    f->run_ns = v->causes.length_ns;
    f->run_steps = s.steps;
    s.own_ns = malloc(2 * (size_t)v->model.rank_count * sizeof *s.own_ns);
    if (!s.own_ns)
        return false;
    s.least_ns = s.own_ns + v->model.rank_count;
    for (size_t i = 0; i < f->found.count; i++) {
        ka_found *x = &f->found.data[i];
        if (x->saved_ns != KA_NO_SAVINGS && !(ka_finding_spec_of(x->rule)->needs & KA_NEEDS_RANKS))
            set_run_savings(f, &s, x);
    }
    free(s.own_ns);
    return true;
}

/* ---- order ----------------------------------------------------------------------------------- */

#define SURE       0.75 /* causes with less confidence stay where their savings put them */
#define MIN_OF_ALL 0.25 /* of what the explained finding saves: below that, it is more than a symptom */

static bool is_put_before(const ka_rank_view *v, const ka_found *cause, const ka_found *x)
{
    return cause->confidence >= SURE && does_cause_explain(v, cause, x) &&
           (double)cause->step_savings_ns >= MIN_OF_ALL * (double)x->step_savings_ns;
}

/* Moves one from `at` to a place before. */
static void move_forward(kineto_findings *f, size_t at, size_t to)
{
    ka_found x = f->found.data[at];
    memmove(&f->found.data[to + 1], &f->found.data[to], (at - to) * sizeof x);
    f->found.data[to] = x;
}

void ka_put_causes_first(kineto_findings *f)
{
    const ka_rank_view *v = NULL;
    for (size_t i = 0; i < f->found.count; i++) {
        if (!f->found.data[i].cause || (!v && !(v = find_view(f))))
            continue;
        size_t to = i;
        for (size_t k = 0; k < f->found.count; k++) {
            if (!does_cause_explain(v, &f->found.data[i], &f->found.data[k]))
                continue;
            bool saves = f->found.data[i].saved_ns != KA_NO_SAVINGS && f->found.data[k].saved_ns != KA_NO_SAVINGS;
            f->found.data[i].overlaps |= saves;
            f->found.data[k].overlaps |= saves;
            to = k < to && is_put_before(v, &f->found.data[i], &f->found.data[k]) ? k : to;
        }
        move_forward(f, i, to);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

int64_t ka_finding_baseline_ns(const kineto_findings *f, const ka_found *x)
{
    bool is_of_run = x->is_of_run && !x->whole_ns && f->run_ns > 0;
    return is_of_run ? f->run_ns / (int64_t)f->run_steps : x->baseline_ns;
}

kineto_string ka_finding_label(const kineto_findings *f, uint32_t index)
{
    if (index >= f->found.count)
        return (kineto_string){"", 0};
    const ka_found *x = &f->found.data[index];
    return x->label.size ? x->label : x->subject;
}

bool ka_finding_rank_savings(const kineto_findings *f, uint32_t index, int64_t *ns)
{
    const ka_found *x = index < f->found.count ? &f->found.data[index] : NULL;
    *ns = x ? x->own_savings_ns : 0;
    return x && x->is_of_run;
}

int64_t ka_finding_run_ns(const kineto_findings *f, uint32_t index)
{
    const ka_found *x = index < f->found.count ? &f->found.data[index] : NULL;
    return x && (x->cause || (x->is_of_run && !x->whole_ns)) ? f->run_ns : 0;
}

/* The table steps: the time of each step by role (kernel, copy, ..., nothing). Each moment
 * counts for the first role in their order, so that the parts add up to the step. Work of
 * devices belongs to the step that launched it. */
#include "analyze/facts/analyses.h"

/* Moments of steps that no earlier role was busy in, role by role. */
typedef struct shares {
    ka_spans of[KA_ROLE_COUNT], rest;
} shares;

static void shares_free(shares *s)
{
    for (uint32_t i = 0; i < KA_ROLE_COUNT; i++)
        kb_vec_free(&s->of[i]);
    kb_vec_free(&s->rest);
}

static bool steps_of(const ka_attribution *v, size_t team, ka_spans *out)
{
    for (size_t i = 0; i < v->windows.count; i++) {
        const ka_window *w = &v->windows.data[i];
        if (ka_in_team(v, team, w) && !kb_vec_push(out, (ka_span){w->start_ns, w->end_ns}))
            return false;
    }
    ka_spans_unite(out);
    return true;
}

/* Gives each moment of the team's steps to the first role that was busy: `left` shrinks role
 * by role. False: out of memory. */
static bool share_out(const ka_attribution *v, size_t team, shares *s)
{
    const ka_spans *roles = ka_team_roles(v, team);
    ka_spans left = {0}, next = {0};
    bool ok = steps_of(v, team, &left);
    for (uint32_t i = 0; i < KA_ROLE_COUNT && ok; i++) {
        ok =
            ka_spans_both(&left, &roles[i], &s->of[i]) && ka_spans_without(&left, &roles[i], &next);
        ka_spans swap = left;
        left = next;
        next = swap;
    }
    s->rest = left;
    kb_vec_free(&next);
    return ok;
}

/* `cursors` has one position per list of spans; windows must come in the order of time. */
static void put_window(const ka_attribution *v, const ka_window *w, const shares *s,
                       size_t *cursors, ka_table *t)
{
    kb_text name = ka_window_name(v, w);
    ka_put_int(t, v->dataset->rank);
    ka_put_text(t, kb_string(name.s));
    ka_put_ns(t, w->start_ns);
    ka_put_ns(t, kb_length_ns(w->start_ns, w->end_ns));
    for (uint32_t i = 0; i < KA_ROLE_COUNT; i++)
        ka_put_ns(t, ka_spans_within(&s->of[i], w->start_ns, w->end_ns, &cursors[i]));
    ka_put_ns(t, ka_spans_within(&s->rest, w->start_ns, w->end_ns, &cursors[KA_ROLE_COUNT]));
}

static bool put_team(const ka_attribution *v, size_t team, ka_table *t)
{
    shares parts = {0};
    size_t cursors[KA_ROLE_COUNT + 1] = {0};
    bool ok = share_out(v, team, &parts);
    for (size_t i = 0; i < v->windows.count && ok; i++)
        if (ka_in_team(v, team, &v->windows.data[i]))
            put_window(v, &v->windows.data[i], &parts, cursors, t);
    shares_free(&parts);
    return ok;
}

/* Do windows of this table (host and devices) add up to another time than the steps of the
 * host? Then a note explains the two lengths of one step. */
static bool differ_from_host(const ka_dataset *s, const ka_attribution *v)
{
    int64_t windows_ns = 0, steps_ns = 0;
    for (size_t i = 0; i < v->windows.count; i++)
        windows_ns = ka_add_ns(
            windows_ns, kb_length_ns(v->windows.data[i].start_ns, v->windows.data[i].end_ns));
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE)
            steps_ns = ka_add_ns(steps_ns, kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
    return windows_ns != steps_ns;
}

/* Table steps: a row for each window, by team of processes where several have steps. */
kineto_status ka_analyze_steps(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_steps);
    ka_attribution v;
    kineto_status status = ka_attribution_get(s, KA_ATTRIBUTION_ROLES, &v, err);
    for (size_t team = 0; !status && team < ka_team_count(&v); team++)
        if (!put_team(&v, team, t))
            status = kb_fail_memory(err, NULL);
    kineto_string name = ka_repeated_step_name(s);
    if (!v.windows.count)
        ka_note(t, "nothing in the trace has a duration");
    else if (!v.has_steps)
        ka_note(t, "the trace has no steps (ranges with names like %s): all of it is one",
                s->options->step_pattern ? s->options->step_pattern : "ProfilerStep#3");
    else if (differ_from_host(s, &v))
        ka_note(t, "here a step lasts until its last work on devices has ended, and the next "
                   "begins there; step_statistics has what it took on the host");
    if (v.has_steps && name.size)
        ka_note_also(t, "steps are the ranges named '%.*s'", (int)KB_MIN(name.size, (size_t)60), name.data);
    return status;
}

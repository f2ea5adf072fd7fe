/* Where the time of each step went: given to what is first in the order of roles, so that parts add
 * up to the step. Work of devices that a step launched belongs to it. */
#include "analyze/view.h"

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

static bool steps_of(const ka_view *v, ka_spans *out)
{
    for (size_t i = 0; i < v->windows.count; i++)
        if (!kb_vec_push(out, (ka_span){v->windows.data[i].start_ns, v->windows.data[i].end_ns}))
            return false;
    ka_spans_unite(out);
    return true;
}

static bool share_out(const ka_view *v, shares *s)
{
    ka_spans left = {0}, next = {0};
    bool ok = steps_of(v, &left);
    for (uint32_t i = 0; i < KA_ROLE_COUNT && ok; i++) {
        ok = ka_spans_both(&left, &v->roles[i], &s->of[i]) &&
             ka_spans_without(&left, &v->roles[i], &next);
        ka_spans swap = left;
        left = next;
        next = swap;
    }
    s->rest = left;
    kb_vec_free(&next);
    return ok;
}

static void put_window(const ka_view *v, const ka_window *w, const shares *s, size_t *cursors,
                       ka_table *t)
{
    kb_text name = ka_window_name(v, w);
    ka_put_int(t, v->scope->rank);
    ka_put_text(t, kb_string(name.s));
    ka_put_ns(t, w->start_ns);
    ka_put_ns(t, kb_length_ns(w->start_ns, w->end_ns));
    for (uint32_t i = 0; i < KA_ROLE_COUNT; i++)
        ka_put_ns(t, ka_spans_within(&s->of[i], w->start_ns, w->end_ns, &cursors[i]));
    ka_put_ns(t, ka_spans_within(&s->rest, w->start_ns, w->end_ns, &cursors[KA_ROLE_COUNT]));
}

kineto_status ka_analyze_steps(const ka_scope *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_steps);
    ka_view v;
    shares parts = {0};
    size_t cursors[KA_ROLE_COUNT + 1] = {0};
    kineto_status status = ka_view_get(s, KA_VIEW_ROLES, &v, err);
    if (!status && !share_out(&v, &parts))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    for (size_t i = 0; i < v.windows.count && !status; i++)
        put_window(&v, &v.windows.data[i], &parts, cursors, t);
    if (!v.windows.count)
        ka_note(t, "nothing in the trace has a duration");
    else if (!v.has_steps)
        ka_note(t, "the trace has no steps (ranges with names like ProfilerStep#3): all of it is "
                   "one");
    shares_free(&parts);
    return status;
}

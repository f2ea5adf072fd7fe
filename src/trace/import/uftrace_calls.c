/* Matches the entries and exits of functions that uftrace recorded; see uftrace_calls.h.
 *
 * A record has the depth of its function, so that the stack is right again after records are missing:
 * functions that were left by longjmp, or by executing another program, have no exits; those that a
 * child of fork() inherits have no entries. */
#include "trace/import/uftrace_calls.h"
#include "trace/from_recording/build_watched.h"

#define MAX_DEPTH  65536u
#define DEPTH_MASK 1023u /* records have the last ten bits */

kineto_status kt_uftrace_create(kt_uftrace_calls *u, kineto_error *err)
{
    *u = (kt_uftrace_calls){.first_ns = UINT64_MAX, .track = KT_NONE};
    return kt_timeline_create(&u->timeline, err);
}

void kt_uftrace_free(kt_uftrace_calls *u)
{
    kt_timeline_free(&u->timeline);
    kb_map_free(&u->last_of_track);
    kb_vec_free(&u->open);
    kb_vec_free(&u->unfinished);
    kb_vec_free(&u->events);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void append_call(kt_uftrace_calls *u, const kt_uftrace_call *call, uint64_t end_ns, uint32_t flags)
{
    kt_build_state *s = u->timeline.s;
    kt_row row = {.kind = KINETO_KIND_USER_ANNOTATION,
                  .form = KINETO_FORM_SLICE,
                  .flags = KT_WRITER(1) | flags,
                  .name = call->name,
                  .track = call->track};
    if (call->name && kt_build_place(s, call->start_ns, KB_MAX(end_ns, call->start_ns), false, &row))
        (void)kt_append(s->b, &row);
}

void kt_uftrace_mark(kt_uftrace_calls *u, uint32_t name, uint64_t time_ns)
{
    kt_build_state *s = u->timeline.s;
    kt_row row = {.kind = KINETO_KIND_CPU_INSTANT_EVENT,
                  .form = KINETO_FORM_INSTANT,
                  .flags = KT_WRITER(1),
                  .name = name,
                  .track = u->track};
    if (u->thread && kt_build_place(s, time_ns, time_ns, false, &row))
        (void)kt_append(s->b, &row);
}

static void extend_track(kt_uftrace_calls *u, uint32_t track, uint64_t time_ns)
{
    uint64_t *last = kb_map_insert(&u->last_of_track, track, time_ns, NULL);
    u->timeline.s->out_of_memory |= !last;
    if (last)
        *last = KB_MAX(*last, time_ns);
    u->first_ns = KB_MIN(u->first_ns, time_ns);
    u->last_ns = KB_MAX(u->last_ns, time_ns);
}

/* ---- the stack of one thread ----------------------------------------------------------------- */

/* Functions that have not returned at the end of a thread's records: their end is known when the
 * scheduler's events are. */
static void put_aside_open_calls(kt_uftrace_calls *u)
{
    for (size_t i = 0; i < u->open.count; i++)
        u->timeline.s->out_of_memory |= !kb_vec_push(&u->unfinished, u->open.data[i]);
    u->open.count = 0;
}

void kt_uftrace_select(kt_uftrace_calls *u, kt_timeline_thread *thread)
{
    kt_build_state *s = u->timeline.s;
    if (u->thread == thread)
        return;
    put_aside_open_calls(u);
    u->thread = thread;
    s->here_thread = thread->index;
    s->here = kt_timeline_process_of(&u->timeline, thread)->index;
    u->track = kt_build_thread_track(s);
}

/* Ends the innermost function without its exit. */
static void abandon_call(kt_uftrace_calls *u, uint64_t time_ns)
{
    const kt_uftrace_call *call = &u->open.data[--u->open.count];
    u->abandoned += call->name != 0;
    append_call(u, call, time_ns, KINETO_ACTIVITY_OPEN_END);
}

static void push_call(kt_uftrace_calls *u, uint32_t name, uint64_t time_ns)
{
    kt_uftrace_call call = {name, u->track, time_ns};
    if (u->open.count >= MAX_DEPTH)
        u->too_deep++;
    else
        u->timeline.s->out_of_memory |= !kb_vec_push(&u->open, call);
}

/* Makes `depth` functions enclose what the record reports: ends those that are gone, and adds unknown
 * ones, which were entered before the first record. */
static void adjust_depth(kt_uftrace_calls *u, uint32_t depth, uint64_t time_ns)
{
    uint32_t extra = ((uint32_t)u->open.count - depth) & DEPTH_MASK;
    if (extra <= u->open.count)
        for (; extra; extra--)
            abandon_call(u, time_ns);
    while (((u->open.count ^ depth) & DEPTH_MASK) != 0 && u->open.count < MAX_DEPTH &&
           !u->timeline.s->out_of_memory)
        push_call(u, 0, time_ns);
}

void kt_uftrace_enter(kt_uftrace_calls *u, uint32_t name, uint32_t depth, uint64_t time_ns)
{
    extend_track(u, u->track, time_ns);
    adjust_depth(u, depth, time_ns);
    push_call(u, name, time_ns);
}

void kt_uftrace_leave(kt_uftrace_calls *u, uint32_t name, uint32_t depth, uint64_t time_ns)
{
    extend_track(u, u->track, time_ns);
    adjust_depth(u, depth + 1, time_ns);
    if (!u->open.count)
        return;
    kt_uftrace_call *call = &u->open.data[u->open.count - 1];
    if (call->name && call->name != name) { /* setjmp() returns once more, or records were lost */
        u->without_begin++;
        abandon_call(u, time_ns);
        return;
    }
    uint32_t flags = call->name ? 0 : KINETO_ACTIVITY_OPEN_START;
    call->name = name;
    append_call(u, call, time_ns, flags);
    u->open.count--;
}

/* ---- events ---------------------------------------------------------------------------------- */

void kt_uftrace_add_event(kt_uftrace_calls *u, kt_uftrace_event event)
{
    u->timeline.has_states |= event.what <= KT_UFTRACE_SWITCH_IN;
    u->timeline.s->out_of_memory |= !kb_vec_push(&u->events, event);
}

static int compare_uftrace_events(const void *left, const void *right)
{
    const kt_uftrace_event *a = left, *b = right;
    return a->time_ns != b->time_ns ? KB_COMPARE(a->time_ns, b->time_ns)
                                    : KB_COMPARE((int)a->what, (int)b->what);
}

static void apply_uftrace_event(kt_uftrace_calls *u, const kt_uftrace_event *e)
{
    kt_timeline *t = &u->timeline;
    kt_timeline_thread *thread = kt_timeline_known_thread(t, e->tid);
    if (!thread) /* without functions: of uftrace itself, or of an untraced program */
        return;
    extend_track(u, t->s->threads.data[thread->index].track, e->time_ns);
    switch (e->what) {
    case KT_UFTRACE_SWITCH_IN:
        kt_timeline_switch_in(thread, e->cpu, e->time_ns);
        break;
    case KT_UFTRACE_SWITCH_OUT:
    case KT_UFTRACE_PREEMPTED:
        kt_timeline_switch_out(t, thread, e->what == KT_UFTRACE_PREEMPTED, e->time_ns);
        break;
    case KT_UFTRACE_NAME:
        kt_timeline_name(t, thread, e->name, false, e->time_ns);
        break;
    case KT_UFTRACE_EXIT:
        kt_timeline_exit(t, e->tid, e->time_ns);
    }
}

static void apply_uftrace_events(kt_uftrace_calls *u)
{
    if (u->events.count)
        qsort(u->events.data, u->events.count, sizeof *u->events.data, compare_uftrace_events);
    for (size_t i = 0; i < u->events.count && !u->timeline.s->out_of_memory; i++)
        apply_uftrace_event(u, &u->events.data[i]);
}

/* ---- the end --------------------------------------------------------------------------------- */

void kt_uftrace_count(kt_uftrace_calls *u, const char *reason, uint64_t count, bool is_loss)
{
    if (count)
        kt_ledger_add(u->timeline.s->b, kb_string("uftrace"), kb_string(reason), count, is_loss,
                      kb_string(""));
}

static void append_unfinished_calls(kt_uftrace_calls *u)
{
    for (size_t i = u->unfinished.count; i-- > 0;) {
        const kt_uftrace_call *call = &u->unfinished.data[i];
        const uint64_t *last = kb_map_find(&u->last_of_track, call->track);
        append_call(u, call, last ? *last : u->last_ns, KINETO_ACTIVITY_OPEN_END);
    }
}

void kt_uftrace_finish(kt_uftrace_calls *u)
{
    kt_build_state *s = u->timeline.s;
    put_aside_open_calls(u);
    apply_uftrace_events(u);
    append_unfinished_calls(u);
    kt_timeline_finish(&u->timeline, u->last_ns);
    kt_build_thread_states(s);
    kt_build_name_threads(s);
    if (u->first_ns <= u->last_ns)
        kt_window(s->b, (int64_t)u->first_ns, (int64_t)u->last_ns);
    kt_uftrace_count(u, "functions deeper than 65536 calls", u->too_deep, true);
    kt_uftrace_count(u, "end without a begin", u->without_begin, true);
    kt_uftrace_count(u, "functions left without an exit (longjmp, exec)", u->abandoned, false);
    kt_uftrace_count(u, "records lost by uftrace", u->lost, true);
}

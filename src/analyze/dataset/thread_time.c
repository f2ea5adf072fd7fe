/* Walks over the states of one thread in a part of time; blocked time in a recorded call is that call's. */
#include "analyze/dataset/thread_time.h"

typedef struct state_walk {
    const ka_watched *w;
    const ka_blocking_calls *calls;
    uint32_t process;
    int64_t thread_id;
    ka_state_use *use;
    void *context;
} state_walk;

static void use_part(const state_walk *x, const char *words, int64_t start_ns, int64_t end_ns)
{
    if (end_ns > start_ns)
        x->use(x->context, kb_string(words), kb_length_ns(start_ns, end_ns));
}

/* Time in recorded calls is theirs, the rest has the words that are given. */
static void use_blocked(const state_walk *x, const char *words, int64_t start_ns, int64_t end_ns)
{
    size_t i = ka_blocking_call_after(x->calls, x->process, x->thread_id, start_ns);
    int64_t at = start_ns;
    for (; at < end_ns && ka_blocking_call_is_of(x->calls, i, x->process, x->thread_id); i++) {
        const ka_blocking_call *call = &x->calls->list.data[i];
        int64_t from = KB_MAX(call->start_ns, at), to = KB_MIN(call->end_ns, end_ns);
        if (from >= end_ns)
            break;
        if (to <= from)
            continue;
        use_part(x, words, at, from);
        use_part(x, ka_blocking_call_words(x->w->trace, call->row).s, from, to);
        at = to;
    }
    use_part(x, words, at, end_ns);
}

/* One state, or a part of it. */
static void use_state(const state_walk *x, const ka_state *state, int64_t start_ns, int64_t end_ns)
{
    if (state->state != KA_STATE_BLOCKED) {
        use_part(x, ka_state_name((ka_state_kind)state->state), start_ns, end_ns);
        return;
    }
    kb_text words = ka_blocked_words(ka_watched_text(x->w, state->in));
    use_blocked(x, words.s, start_ns, end_ns);
}

void ka_thread_time(const ka_watched *w, const ka_blocking_calls *calls, uint32_t process, int64_t thread_id,
                    int64_t start_ns, int64_t end_ns, ka_state_use *use, void *context)
{
    state_walk x = {w, calls, process, thread_id, use, context};
    uint32_t watched = ka_watched_find(w, process, thread_id);
    const ka_watched_thread *t = watched == UINT32_MAX ? NULL : &w->threads.data[watched];
    uint32_t i = t ? ka_watched_state_after(w, watched, start_ns) : 0;
    int64_t at = start_ns;
    for (; t && i < t->first + t->count && at < end_ns; i++) {
        const ka_state *state = &w->states.data[i];
        int64_t from = KB_MIN(KB_MAX(state->start_ns, at), end_ns),
                to = KB_MIN(KB_MAX(state->end_ns, from), end_ns);
        use_blocked(&x, KA_STATE_UNKNOWN, at, from);
        use_state(&x, state, from, to);
        at = to;
    }
    use_blocked(&x, KA_STATE_UNKNOWN, at, end_ns);
}

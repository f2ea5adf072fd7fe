/* Devices that are idle because the thread that launches their work had no CPU, or was blocked, by its
 * states. The reasons of idle time (idle_named) do not say this: a thread that is in an operator may stand
 * still there. */
#include "analyze/facts/idle.h"
#include "analyze/findings/find_work.h"

#define MIN_PERCENT 5.0 /* of the time of all steps */

enum { WITHOUT_CPU, IS_BLOCKED, CAUSES };

/* Idle time of devices up to launches, by cause, and the function or lock with the most of it. */
typedef struct idle_causes {
    ka_finder *f;
    ka_idleness idle;
    int64_t ns[CAUSES];
    uint64_t gaps[CAUSES];
    int64_t gap_ns[CAUSES]; /* of the gap under way … */
    kb_text words[CAUSES];  /* … and its longest state */
    int64_t words_ns[CAUSES];
    ka_found *found[CAUSES]; /* set in the second walk, which shows the gaps */
} idle_causes;

static void add_state_part(void *context, kineto_string words, int64_t ns)
{
    idle_causes *x = context;
    bool is_waiting = kb_string_equal(words, kb_string(ka_state_name(KA_STATE_WAITING)));
    if (!is_waiting && !kb_string_starts_with(words, "blocked") &&
        !kb_string_starts_with(words, "waiting for lock"))
        return;
    uint32_t cause = is_waiting ? WITHOUT_CPU : IS_BLOCKED;
    x->gap_ns[cause] = ka_add_ns(x->gap_ns[cause], ns);
    if (ns <= x->words_ns[cause])
        return;
    x->words_ns[cause] = ns;
    x->words[cause] = ka_short_name(words);
}

static bool add_gap_states(void *context, const ka_gap *gap)
{
    idle_causes *x = context;
    if (!gap->whole || !ka_is_in_steps(x->f, x->f->s->work[gap->after].step))
        return true;
    memset(x->gap_ns, 0, sizeof x->gap_ns);
    memset(x->words_ns, 0, sizeof x->words_ns);
    ka_gap_states(&x->idle, gap, add_state_part, x);
    for (uint32_t i = 0; i < CAUSES; i++) {
        x->ns[i] = ka_add_ns(x->ns[i], x->gap_ns[i]);
        x->gaps[i] += x->gap_ns[i] > 0;
        if (x->found[i] && x->gap_ns[i])
            ka_show_span(x->f, x->found[i], gap->start_ns, gap->end_ns, x->gap_ns[i],
                         "before %s: the launching thread was %s for %s",
                         ka_short_name(ka_name(x->f->s, x->f->s->work[gap->after].name)).s,
                         x->words[i].s, kb_duration(x->words_ns[i]).s);
    }
    return !x->f->no_memory;
}

static ka_found *open_idle_cause(idle_causes *x, uint32_t cause)
{
    int64_t ns = x->ns[cause] / KB_MAX(x->f->device_count, 1u);
    if (!ka_is_significant(x->f, ns, MIN_PERCENT))
        return NULL;
    ka_found *found =
        ka_open_finding(x->f, ns, 0.5, kb_string(cause == WITHOUT_CPU ? "no CPU" : "blocked"));
    if (!found)
        return NULL;
    found->count = x->gaps[cause];
    ka_say(x->f, found,
           "%llu times a device is idle while the thread that launches its next work %s: %s in all, %.1f "
           "%% of the time",
           (unsigned long long)x->gaps[cause],
           cause == WITHOUT_CPU ? "waits for a CPU" : "is blocked", kb_duration(ns).s,
           ka_share(x->f, ns));
    if (cause == IS_BLOCKED)
        ka_advise(x->f, found,
                  "Keep files, locks and sleep out of the thread that launches work; 'ckineto record "
                  "--off-cpu' and 'ckineto record --waits -- PROGRAM' say in which function it is blocked, "
                  "and for which lock");
    return found;
}

/* The first walk adds up, the second one shows the gaps of findings. */
void ka_find_host_not_running(ka_finder *f)
{
    idle_causes x = {.f = f};
    kineto_error err = {0};
    uint32_t count = 0;
    bool ok = ka_idleness_make(&x.idle, f->s, &err) == KINETO_OK &&
              ka_idleness_walk(&x.idle, add_gap_states, NULL, &x);
    for (uint32_t i = 0; ok && i < CAUSES; i++)
        count += open_idle_cause(&x, i) != NULL;
    size_t first = f->out->found.count - count;
    for (size_t k = first; ok && k < f->out->found.count; k++)
        x.found[kb_string_equal(f->out->found.data[k].subject, kb_string("blocked")) ? IS_BLOCKED
                                                                                    : WITHOUT_CPU] =
            &f->out->found.data[k];
    if (ok && count)
        ok = ka_idleness_walk(&x.idle, add_gap_states, NULL, &x);
    f->no_memory |= !ok;
    ka_idleness_free(&x.idle);
}

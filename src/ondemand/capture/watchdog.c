/* Automatic dumps of the ring of this process: when a step was slow, or no step begins any more.
 * The thread of the program detects a slow step and rings the control thread; everything else
 * happens there. The control thread sleeps until it is rung, or until the time at which the current
 * step would count as a hang. */
#include "ondemand/capture/ring.h"

#include <sched.h>
#include <time.h>


/* Shared by the program's threads and the control thread. Static, because a thread may still read
 * it while the watchdog is destroyed. */
static struct {
    uint32_t on;       /* atomic: the watchdog is active */
    uint32_t visitors; /* atomic: threads within ko_watchdog_step; destroying waits for 0 */
    uint32_t busy;     /* atomic: a thread is counting its step; others skip theirs */
    double factor;     /* 0: slow steps are not detected */
    uint64_t hang_ns;  /* 0: hangs are not detected */
    uint64_t pause_ns; /* minimum time between dumps of slow steps: the length of the ring */
    ko_listener *listener;
    ko_usual usual;     /* of the thread that is busy */
    uint64_t last_step; /* atomic */
    uint64_t last_ns;   /* atomic: when the last step began; 0: none has */
    uint32_t waiting;   /* atomic: the control thread must be rung at the next step */
    uint64_t quiet_ns;  /* atomic: slow steps before this time are ignored */
    /* The slow step to dump; valid while `slow` is 1: then only the control thread accesses it. */
    uint32_t slow; /* atomic */
    uint64_t slow_step, slow_ns, slow_usual_ns;
} watch;

/* ---- the usual length ------------------------------------------------------------------------ */

static void sorted_remove(uint64_t *sorted, uint32_t count, uint64_t value)
{
    uint32_t at = 0;
    while (at + 1 < count && sorted[at] != value)
        at++;
    memmove(sorted + at, sorted + at + 1, (count - at - 1) * sizeof *sorted);
}

/* The array has room for one more. */
static void sorted_insert(uint64_t *sorted, uint32_t count, uint64_t value)
{
    KB_ASSERT(count < KO_USUAL_STEPS);
    uint32_t at = count;
    for (; at > 0 && sorted[at - 1] > value; at--)
        sorted[at] = sorted[at - 1];
    sorted[at] = value;
}

bool ko_usual_is_slow(ko_usual *u, double factor, uint64_t ns, uint64_t *usual_ns)
{
    uint32_t count = (uint32_t)KB_MIN(u->count, (uint64_t)KO_USUAL_STEPS);
    *usual_ns = u->count >= KO_USUAL_WARMUP ? u->sorted[count / 2] : 0;
    bool slow = *usual_ns > 0 && (double)ns >= factor * (double)*usual_ns;
    if (count == KO_USUAL_STEPS) {
        sorted_remove(u->sorted, count, u->ns[u->count % KO_USUAL_STEPS]);
        count--;
    }
    sorted_insert(u->sorted, count, ns);
    u->ns[u->count++ % KO_USUAL_STEPS] = ns;
    return slow;
}

/* ---- in the program's step ------------------------------------------------------------------- */

static void report_slow_step(ko_controller *c, uint64_t step, uint64_t ns, uint64_t usual_ns)
{
    KB_ASSERT(!kb_load_relaxed(&watch.slow) && kb_load_relaxed(&watch.busy));
    watch.slow_step = step;
    watch.slow_ns = ns;
    watch.slow_usual_ns = usual_ns;
    kb_store_release(&watch.slow, 1u);
    ko_listener_ring(watch.listener, c);
}

/* `step` begins now, so the previous one has ended. */
static void count_step(ko_controller *c, uint64_t step, uint64_t at_ns)
{
    uint64_t last = kb_load_relaxed(&watch.last_ns), usual;
    bool next = last && step == kb_load_relaxed(&watch.last_step) + 1 && at_ns >= last;
    kb_store_relaxed(&watch.last_step, step);
    kb_store_release(&watch.last_ns, at_ns);
    if (watch.factor > 0 && next &&
        ko_usual_is_slow(&watch.usual, watch.factor, at_ns - last, &usual) &&
        at_ns >= kb_load_relaxed(&watch.quiet_ns) && !kb_load_acquire(&watch.slow))
        report_slow_step(c, step - 1, at_ns - last, usual);
    uint32_t waits = 1;
    if (kb_load_relaxed(&watch.waiting) && kb_cas_acqrel(&watch.waiting, &waits, 0u))
        ko_listener_ring(watch.listener, c);
}

/* Pairs with destroy_watchdog: announce the visit, full fence, read `on`. Destroying clears `on`,
 * fence, reads `visitors`. So either the visit sees `on` cleared, or destroying waits for it. */
void ko_watchdog_step(ko_controller *c, uint64_t step)
{
    uint32_t idle = 0;
    if (KINETO_LIKELY(!kb_load_relaxed(&watch.on)))
        return;
    (void)kb_add_acqrel(&watch.visitors, 1u);
    kb_fence_seqcst();
    if (kb_load_acquire(&watch.on) && kb_cas_acqrel(&watch.busy, &idle, 1u)) {
        count_step(c, step, kb_monotonic_ns());
        kb_store_release(&watch.busy, 0u);
    }
    KB_ASSERT(kb_load_relaxed(&watch.visitors) > 0);
    (void)kb_add_acqrel(&watch.visitors, (uint32_t)-1);
}

/* ---- on the control thread ------------------------------------------------------------------- */

typedef struct watchdog {
    ko_listener listener;
    uint32_t dumps, most;
    bool told_most;
    bool hung; /* this hang has its dump */
} watchdog;

/* False: the limit of automatic dumps is reached, which is logged once. */
static bool may_dump_ring(watchdog *w)
{
    if (w->dumps < w->most)
        return true;
    if (!w->told_most)
        kb_log(KINETO_LOG_WARNING,
               "ring: %u automatic dumps were written; no more will be (dumps= of CKINETO_RING)",
               w->most);
    w->told_most = true;
    return false;
}

static void count_ring_dump(watchdog *w, kineto_status status, const kineto_error *why)
{
    if (status == KINETO_OK)
        w->dumps++;
    else
        kb_log(KINETO_LOG_WARNING, "ring: no dump: %s", why->message);
}

/* On the control thread: requests the dump, then clears `slow`, so that the next slow step can
 * be reported. */
static void dump_slow_step(watchdog *w, ko_controller *c, uint64_t at_ns)
{
    kineto_error why;
    if (!kb_load_acquire(&watch.slow))
        return;
    if (may_dump_ring(w)) {
        kineto_status status = ko_controller_dump_because(
            c, &why, "slow step %llu: %s, usually %s", (unsigned long long)watch.slow_step,
            kb_duration((int64_t)watch.slow_ns).s, kb_duration((int64_t)watch.slow_usual_ns).s);
        count_ring_dump(w, status, &why);
        kb_store_relaxed(&watch.quiet_ns, at_ns + watch.pause_ns);
    } else {
        kb_store_relaxed(&watch.quiet_ns, UINT64_MAX);
    }
    kb_store_release(&watch.slow, 0u);
}

/* Has the next step ring the control thread. A step that began meanwhile is detected here. @return
 * wake_ns. */
static uint64_t request_step_wakeup(uint64_t seen_ns)
{
    kb_store_release(&watch.waiting, 1u);
    kb_fence_seqcst();
    return kb_load_acquire(&watch.last_ns) != seen_ns ? 0 : UINT64_MAX;
}

#define BUSY_NS UINT64_C(100000000)

/* Requests a dump of a hang. False: the ring is being written; to be retried, since each hang gets
 * a dump. */
static bool dump_hang(watchdog *w, ko_controller *c, uint64_t last_ns, uint64_t at_ns)
{
    kineto_error why;
    kineto_status status = ko_controller_dump_because(
        c, &why, "no step for %s since step %llu began", kb_duration((int64_t)(at_ns - last_ns)).s,
        (unsigned long long)kb_load_relaxed(&watch.last_step));
    if (status == KINETO_E_BUSY)
        return false;
    count_ring_dump(w, status, &why);
    /* The hanging step will also be slow: no second dump for it. */
    kb_store_relaxed(&watch.quiet_ns, at_ns + watch.pause_ns);
    return true;
}

/* Handles a hang and sets wake_ns: to the exact time at which the current step would be a hang. */
static void check_hang(watchdog *w, ko_controller *c, uint64_t at_ns)
{
    uint64_t last = kb_load_acquire(&watch.last_ns);
    if (!watch.hang_ns)
        return;
    if (last == 0) {
        w->listener.wake_ns = request_step_wakeup(last);
        return;
    }
    bool over_due = at_ns >= last && at_ns - last >= watch.hang_ns;
    if (over_due && !w->hung && may_dump_ring(w) && !dump_hang(w, c, last, at_ns)) {
        w->listener.wake_ns = at_ns + BUSY_NS;
        return;
    }
    w->hung = over_due;
    w->listener.wake_ns = over_due ? request_step_wakeup(last) : last + watch.hang_ns;
}

static void turn_watchdog(ko_listener *l, ko_controller *c, uint64_t monotonic_ns)
{
    watchdog *w = (watchdog *)l;
    dump_slow_step(w, c, monotonic_ns);
    check_hang(w, c, monotonic_ns);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void destroy_watchdog(ko_listener *l)
{
    kb_store_release(&watch.on, 0u);
    kb_fence_seqcst();
    while (kb_load_acquire(&watch.visitors))
        sched_yield();
    free(l);
}

/* Threads of the parent that were within ko_watchdog_step do not exist in the child. */
static void reset_watchdog_in_child(ko_listener *l)
{
    (void)l;
    kb_store_relaxed(&watch.on, 0u);
    kb_store_relaxed(&watch.visitors, 0u);
    kb_store_relaxed(&watch.busy, 0u);
}

/* All fields are set before `on` is, with release order. */
static void begin_watch(const kineto_control_options *o, ko_listener *l)
{
    watch.factor = o->dump_on_slow_step;
    watch.hang_ns = (uint64_t)(o->dump_on_hang_seconds * (double)KB_SECOND_NS);
    watch.pause_ns = (uint64_t)(o->ring_seconds * (double)KB_SECOND_NS);
    watch.listener = l;
    watch.usual = (ko_usual){{0}, {0}, 0};
    kb_store_relaxed(&watch.last_step, UINT64_C(0));
    kb_store_relaxed(&watch.last_ns, UINT64_C(0));
    kb_store_relaxed(&watch.waiting, watch.hang_ns ? 1u : 0u);
    kb_store_relaxed(&watch.quiet_ns, UINT64_C(0));
    kb_store_relaxed(&watch.slow, 0u);
    kb_store_release(&watch.on, 1u);
}

ko_listener *ko_watchdog_create(const kineto_control_options *o, kineto_error *err)
{
    if (err)
        err->code = KINETO_OK;
    if (!(o->dump_on_slow_step > 0) && !(o->dump_on_hang_seconds > 0))
        return NULL;
    if (kb_load_acquire(&watch.on)) {
        kb_fail(err, KINETO_E_STATE, "this process has a watchdog already");
        return NULL;
    }
    watchdog *w = calloc(1, sizeof *w);
    if (!w) {
        kb_fail_memory(err, "watchdog");
        return NULL;
    }
    w->most = o->dump_limit ? o->dump_limit : KO_MAX_AUTOMATIC_DUMPS;
    w->listener = (ko_listener){.name = "watchdog",
                                .fd = -1,
                                .wake_ns = UINT64_MAX,
                                .turn = turn_watchdog,
                                .forked = reset_watchdog_in_child,
                                .destroy = destroy_watchdog};
    begin_watch(o, &w->listener);
    return &w->listener;
}

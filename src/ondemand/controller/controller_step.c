/* The program's steps, and the controller's lock, for which a step must never wait.
 *
 * A step stores its time in a slot. If a request goes by iteration, it then tries the lock. If it
 * gets the lock, it gives the machine all steps that the machine has not seen. If another thread
 * holds the lock, that thread does so before it releases it, and checks again afterwards. Both
 * sides have a full fence between their write (slot; unlock) and their read (try lock; slots), so
 * at least one of them sees the other: no step is lost, and none waits.
 *
 * A slot is a seqlock: number is 0 while it is written, then step + 1. */
#include "ondemand/controller/controller_impl.h"

#define MAX_AT_ONCE 256u /* steps that one thread replays for others, to bound its delay */
#define POLL_MIN_NS INT64_C(1000000)
#define POLL_MAX_NS INT64_C(50000000)
#define SAME_CLOCK_NS                                                                              \
    INT64_C(1000000000) /* a step that is further back means that the clock was set */

/* ---- times ----------------------------------------------------------------------------------- */

/* The time of step n, counted from 0. False: not written yet, or overwritten. */
static bool read_step_slot(ko_controller *c, uint64_t n, int64_t *begin_ns)
{
    ko_step_slot *slot = &c->slots[n % KO_STEPS];
    if (kb_load_acquire(&slot->number) != n + 1)
        return false;
    *begin_ns = kb_load_acquire(&slot->begin_ns);
    return kb_load_relaxed(&slot->number) == n + 1;
}

static void write_step_slot(ko_controller *c, uint64_t n, int64_t begin_ns)
{
    ko_step_slot *slot = &c->slots[n % KO_STEPS];
    kb_store_relaxed(&slot->number, 0);
    kb_store_release(&slot->begin_ns,
                     begin_ns); /* a reader that sees this time does not see the old number */
    kb_store_release(&slot->number, n + 1);
}

/* For a step whose slot was overwritten: the oldest known time of a later step. */
static int64_t oldest_known_step_time(ko_controller *c, uint64_t n, uint64_t count)
{
    int64_t begin_ns;
    uint64_t oldest = count > KO_STEPS ? count - KO_STEPS : 0;
    for (uint64_t i = KB_MAX(n, oldest); i < count; i++)
        if (read_step_slot(c, i, &begin_ns))
            return begin_ns;
    return ko_now_ns();
}

/* ---- replay ---------------------------------------------------------------------------------- */

/* No request goes by iteration: steps are only counted. */
static void skip_steps(ko_controller *c, uint64_t count)
{
    KB_ASSERT(!kb_load_relaxed(&c->by_iteration) || c->driver.steps);
    kb_store_relaxed(&c->seen, count);
    if (count > 0)
        c->machine.iteration = (int64_t)(count - 1);
}

/* Steps of two threads may be slightly out of order, and a step may have read the clock before
 * another event that was applied first. The machine must not mistake that for a clock that was set
 * back. */
static void replay_step(ko_controller *c, int64_t begin_ns)
{
    int64_t last_ns = c->machine.last_ns;
    if (c->machine.state == KO_ONDEMAND_COLLECT && begin_ns < last_ns &&
        kb_length_ns(begin_ns, last_ns) < SAME_CLOCK_NS)
        begin_ns = last_ns;
    if (begin_ns < c->ready_ns)
        (void)ko_ondemand_postpone(&c->machine);
    KB_ASSERT(c->driver.steps || c->seen < kb_load_relaxed(&c->steps));
    kb_store_relaxed(&c->seen, c->seen + 1);
    (void)ko_apply_event(c, KO_EVENT_STEP, begin_ns, NULL, NULL);
}

void ko_steps_replay(ko_controller *c)
{
    if (c->driver.steps)
        return;
    for (uint32_t i = 0; i < MAX_AT_ONCE; i++) {
        uint64_t count = kb_load_acquire(&c->steps), n = c->seen;
        int64_t begin_ns;
        if (!c->by_iteration) {
            skip_steps(c, count);
            return;
        }
        if (n >= count)
            return;
        if (!read_step_slot(c, n, &begin_ns)) {
            if (count - n <= KO_STEPS) /* the step that is writing it will call this, too */
                return;
            begin_ns = oldest_known_step_time(c, n, count);
        }
        replay_step(c, begin_ns);
    }
}

/* Is there a step that could be given to the machine? */
static bool has_unseen_step(ko_controller *c)
{
    uint64_t n = kb_load_relaxed(&c->seen), count = kb_load_acquire(&c->steps);
    int64_t begin_ns;
    if (!kb_load_relaxed(&c->by_iteration) || c->driver.steps || n >= count)
        return false;
    return count - n > KO_STEPS || read_step_slot(c, n, &begin_ns);
}

/* ---- steps that the driver counts ------------------------------------------------------------ */

/* The average length of the steps whose times are known. */
static void estimate_step_length(ko_controller *c, uint64_t count, const int64_t *times_ns)
{
    uint64_t known = KB_MIN(count, KO_STEPS);
    if (known < 2)
        return;
    int64_t last_ns = times_ns[(count - 1) % KO_STEPS];
    c->last_step_ns = last_ns;
    c->step_length_ns =
        kb_length_ns(times_ns[(count - known) % KO_STEPS], last_ns) / (int64_t)(known - 1);
}

void ko_steps_poll(ko_controller *c)
{
    int64_t times_ns[KO_STEPS] = {0};
    if (!c->driver.steps)
        return;
    uint64_t count = c->driver.steps(c->driver.context, times_ns);
    estimate_step_length(c, count, times_ns);
    if (!c->by_iteration || count < c->seen) {
        skip_steps(c, count);
        return;
    }
    uint64_t oldest = count > KO_STEPS ? count - KO_STEPS : 0;
    while (c->seen < count && c->by_iteration)
        replay_step(c, times_ns[KB_MAX(c->seen, oldest) % KO_STEPS]);
    if (!c->by_iteration)
        skip_steps(c, count);
}

/* Steps until the machine has an action due. */
static int64_t steps_until_action(const ko_ondemand *m)
{
    int64_t lead = KB_MAX(m->request.warmup_iterations, 1);
    if (m->state == KO_ONDEMAND_COLLECT)
        return kb_length_ns(m->iteration, m->end_iteration);
    return kb_length_ns(m->iteration, m->start_iteration) -
           (m->state == KO_ONDEMAND_PENDING ? lead : 0);
}

int64_t ko_steps_poll_ns(const ko_controller *c, int64_t now_ns)
{
    if (!c->driver.steps || !c->by_iteration)
        return INT64_MAX;
    int64_t left = KB_MIN(KB_MAX(steps_until_action(&c->machine), 1), 1 << 20);
    int64_t length_ns = KB_MIN(KB_MAX(c->step_length_ns, 0), POLL_MAX_NS);
    int64_t ahead_ns = left * length_ns - kb_length_ns(c->last_step_ns, now_ns);
    /* Poll halfway to the expected time; if it has passed, ever less often. */
    int64_t wait_ns = ahead_ns > 0 ? ahead_ns / 2 : -(ahead_ns / 16);
    return now_ns + KB_MIN(KB_MAX(wait_ns, POLL_MIN_NS), POLL_MAX_NS);
}

/* ---- the lock -------------------------------------------------------------------------------- */

void ko_controller_lock(ko_controller *c) { pthread_mutex_lock(&c->lock); }

/* Releases the lock. True: a step arrived after the last replay. */
static bool release_lock(ko_controller *c)
{
    ko_steps_replay(c);
    if (ko_due_ns(c) < c->planned_ns) {
        c->planned_ns = INT64_MIN; /* once is enough */
        ko_controller_wake(c);
    }
    pthread_mutex_unlock(&c->lock);
    kb_fence_seqcst();
    return has_unseen_step(c);
}

void ko_controller_unlock(ko_controller *c)
{
    bool more = release_lock(c);
    for (uint32_t i = 0; more && i < 4; i++) {
        if (pthread_mutex_trylock(&c->lock) != 0) {
            more = false; /* the thread that has it will see the step */
            break;
        }
        more = release_lock(c);
    }
    if (more) /* steps arrive faster than they are replayed: leave the rest to the owner's thread */
        ko_controller_wake(c);
    ko_notes_deliver(&c->notes);
}

void ko_controller_step(ko_controller *c, int64_t now_ns)
{
    write_step_slot(c, kb_add_acqrel(&c->steps, 1), now_ns);
    kb_fence_seqcst();
    if (KINETO_LIKELY(!kb_load_relaxed(&c->by_iteration)))
        return;
    if (pthread_mutex_trylock(&c->lock) == 0)
        ko_controller_unlock(c);
}

/* On-demand tracing: what follows from a request, the time and the program's steps. The table of
 * docs/on-demand.md is this file. Every call first goes on to what is due by the clock, then takes
 * its event: a late call gives the same windows as one in time. */
#include "ondemand/controller/state_machine.h"

#include <inttypes.h>

/* What holds where a request says nothing (docs/on-demand-config.md). */
#define USUAL_DURATION_NS INT64_C(500000000)
#define USUAL_WARMUP_NS   INT64_C(5000000000)
#define USUAL_SNAPSHOT_NS INT64_C(1000000000)

/* ---- numbers and texts ------------------------------------------------------------------------- */

/* Times may be anything; sums stop at what a number holds. */
static int64_t add(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static int64_t given_or(int64_t value, int64_t otherwise) { return value < 0 ? otherwise : value; }

static int64_t duration_of(const ko_request *r)
{
    return r->memory_snapshot ? given_or(r->memory_snapshot_ns, USUAL_SNAPSHOT_NS)
                              : given_or(r->duration_ns, USUAL_DURATION_NS);
}

static int64_t warmup_of(const ko_request *r)
{
    return r->memory_snapshot ? 0 : given_or(r->warmup_ns, USUAL_WARMUP_NS);
}

/* The next multiple; `at` is not negative. */
static int64_t round_up(int64_t at, int64_t multiple)
{
    if (multiple <= 1 || at % multiple == 0)
        return at;
    return add(at, multiple - at % multiple);
}

/* One more sentence; what does not fit is cut. */
static void say(ko_ondemand_answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(ko_ondemand_answer *a, const char *fmt, ...)
{
    size_t used = strlen(a->reason), room = sizeof a->reason;
    va_list args;
    if (used > 0)
        used += (size_t)snprintf(a->reason + used, room - used, "; ");
    if (used >= room)
        return;
    va_start(args, fmt);
    (void)vsnprintf(a->reason + used, room - used, fmt, args);
    va_end(args);
}

static void refuse(ko_ondemand_answer *a, const char *why)
{
    a->actions |= KO_ACT_REFUSE;
    snprintf(a->reason, sizeof a->reason, "%s", why);
}

const char *ko_ondemand_state_name(uint32_t state)
{
    static const char *const names[] = {"wait",    "pending", "warm-up",
                                        "collect", "process", "snapshot"};
    return state < KB_COUNT(names) ? names[state] : "unknown";
}

/* ---- from state to state ----------------------------------------------------------------------- */

static void prepare(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    m->state = KO_ONDEMAND_WARMUP;
    a->actions |= KO_ACT_PREPARE;
    if (m->by_iteration)
        return;
    /* Nothing was recorded before now, whatever was asked for. */
    m->start_ns = KB_MAX(m->start_ns, now);
    m->end_ns = add(m->start_ns, duration_of(&m->request));
}

/* How long a window may last. By iteration, without a duration, each step gives it more time. */
static int64_t longest_of(const ko_ondemand *m)
{
    bool unbounded = m->by_iteration && m->request.duration_ns < 0;
    return unbounded ? KO_ONDEMAND_STALL_NS : duration_of(&m->request);
}

static void open_window(ko_ondemand *m, ko_ondemand_state state, uint32_t action, int64_t from,
                        int64_t now, ko_ondemand_answer *a)
{
    m->state = state;
    m->window_start_ns = m->start_ns = from;
    m->end_ns = add(from, longest_of(m));
    m->last_ns = now;
    m->behind_ns = 0;
    a->actions |= action;
}

static void start(ko_ondemand *m, int64_t from, int64_t now, ko_ondemand_answer *a)
{
    open_window(m, KO_ONDEMAND_COLLECT, KO_ACT_START, from, now, a);
}

/* There is nothing to warm up. */
static void start_snapshot(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    open_window(m, KO_ONDEMAND_SNAPSHOT, KO_ACT_SNAPSHOT_START, KB_MAX(m->start_ns, now), now, a);
}

/* The window ends, and what is in it is written. */
static void stop(ko_ondemand *m, int64_t at, ko_ondemand_answer *a)
{
    bool snapshot = m->state == KO_ONDEMAND_SNAPSHOT;
    m->window_end_ns = at;
    m->state = KO_ONDEMAND_PROCESS;
    a->actions |= snapshot ? KO_ACT_SNAPSHOT_STOP : KO_ACT_STOP | KO_ACT_WRITE;
}

/* Nothing of it remains. What this very answer was going to begin does not begin. */
static void drop(ko_ondemand *m, ko_ondemand_answer *a)
{
    const uint32_t first = KO_ACT_PREPARE | KO_ACT_SNAPSHOT_START;
    bool begun = m->state != KO_ONDEMAND_PENDING && (a->actions & first) == 0;
    a->actions &= ~(first | KO_ACT_START | KO_ACT_STOP | KO_ACT_WRITE | KO_ACT_SNAPSHOT_STOP);
    if (begun)
        a->actions |= KO_ACT_DROP;
    m->state = KO_ONDEMAND_WAIT;
}

/* The program stopped stepping before its window: what it does instead is what people will want to
 * see. */
static void go_by_time(ko_ondemand *m, ko_ondemand_answer *a)
{
    bool warm = m->state == KO_ONDEMAND_WARMUP;
    m->by_iteration = false;
    m->start_ns = add(m->end_ns, warm ? 0 : warmup_of(&m->request));
    m->end_ns = add(m->start_ns, duration_of(&m->request));
    say(a, "the program made no step for %" PRId64 " s: traced by time instead",
        KO_ONDEMAND_STALL_NS / INT64_C(1000000000));
}

/* ---- time ---------------------------------------------------------------------------------------- */

/* When a pending request by time has something to do. */
static int64_t prepare_at(const ko_ondemand *m)
{
    if (m->request.memory_snapshot)
        return m->start_ns;
    return add(m->start_ns, -KB_MAX(warmup_of(&m->request), KO_ONDEMAND_ARM_NS));
}

/* When time alone moves it on. */
static int64_t due(const ko_ondemand *m)
{
    switch (m->state) {
    case KO_ONDEMAND_PENDING:
        return m->by_iteration ? m->end_ns : prepare_at(m);
    case KO_ONDEMAND_WARMUP:
        return m->by_iteration ? m->end_ns : m->start_ns;
    case KO_ONDEMAND_COLLECT:
    case KO_ONDEMAND_SNAPSHOT:
        return m->end_ns;
    default:
        return INT64_MAX;
    }
}

static void stop_by_time(ko_ondemand *m, ko_ondemand_answer *a)
{
    if (m->by_iteration)
        say(a, "ended by its time, %" PRId64 " iterations before its end",
            kb_length_ns(m->iteration, m->end_iteration));
    stop(m, m->end_ns, a);
}

/* One transition that is due. False: none is. */
static bool pass(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    if (m->state == KO_ONDEMAND_WAIT || m->state == KO_ONDEMAND_PROCESS || now < due(m))
        return false;
    if (m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT)
        stop_by_time(m, a);
    else if (m->by_iteration)
        go_by_time(m, a);
    else if (m->state == KO_ONDEMAND_WARMUP)
        start(m, m->start_ns, now, a);
    else if (m->request.memory_snapshot)
        start_snapshot(m, now, a);
    else
        prepare(m, now, a);
    return true;
}

static void pass_time(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    while (pass(m, now, a))
        ;
}

/* The clock was set back before the window: a start time that was asked for stays that of the
 * clock, all else is so long after the request. */
static void set_back(ko_ondemand *m, int64_t by)
{
    if (!m->by_iteration && m->request.start_time_ns > 0)
        return;
    m->start_ns = add(m->start_ns, -by);
    m->end_ns = add(m->end_ns, -by);
}

/* The time to go by. Within a window it does not go backwards, so that the window has its length.
 */
static int64_t time_of(ko_ondemand *m, int64_t now)
{
    bool inside = m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT;
    bool before = m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP;
    int64_t time = inside ? add(now, m->behind_ns) : now;
    if (inside && time < m->last_ns) {
        m->behind_ns = kb_length_ns(now, m->last_ns);
        time = m->last_ns;
    } else if (before && time < m->last_ns) {
        set_back(m, kb_length_ns(time, m->last_ns));
    }
    m->last_ns = time;
    return time;
}

static int64_t wake_at(const ko_ondemand *m)
{
    int64_t at = due(m);
    bool inside = m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT;
    return inside && at != INT64_MAX ? add(at, -m->behind_ns) : at;
}

/* ---- requests ------------------------------------------------------------------------------------ */

bool ko_ondemand_can_accept(const ko_ondemand *m, const char **why)
{
    static const char *const reasons[] = {
        [KO_ONDEMAND_WAIT] = NULL,
        [KO_ONDEMAND_PENDING] = "pending: another request has not begun yet",
        [KO_ONDEMAND_WARMUP] = "busy: another request warms up",
        [KO_ONDEMAND_COLLECT] = "busy: another request is being recorded",
        [KO_ONDEMAND_PROCESS] = "busy: the trace of another request is being written",
        [KO_ONDEMAND_SNAPSHOT] = "busy: a memory snapshot is being taken",
    };
    const char *reason = m->state < KB_COUNT(reasons) ? reasons[m->state] : "busy";
    if (m->preempted)
        reason = "busy: the program itself is profiling";
    if (why)
        *why = reason;
    return !reason;
}

/* Iterations alone mean the next ones; with a start time they need a start iteration, too. */
static bool wants_iterations(const ko_request *r)
{
    bool has_start = r->start_iteration >= 0 || r->start_iteration_roundup > 0;
    return !r->memory_snapshot && r->iterations > 0 && (has_start || r->start_time_ns <= 0);
}

static bool start_time_fits(const ko_request *r, int64_t now, ko_ondemand_answer *a)
{
    int64_t ahead = kb_length_ns(now, r->start_time_ns);
    char why[160];
    if (r->start_time_ns <= 0 || (ahead >= 0 && ahead <= KO_ONDEMAND_MOST_AHEAD_NS))
        return true;
    if (ahead < 0)
        snprintf(why, sizeof why, "too late: its start time was %s ago",
                 kb_duration(ahead == INT64_MIN ? INT64_MAX : -ahead).s);
    else
        snprintf(why, sizeof why, "its start time is %s ahead; is it in ms since 1970?",
                 kb_duration(ahead).s);
    refuse(a, why);
    return false;
}

static void plan_time(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    const ko_request *r = &m->request;
    int64_t warmup = warmup_of(r);
    m->start_ns = r->start_time_ns > 0 ? r->start_time_ns : add(now, warmup);
    m->end_ns = add(m->start_ns, duration_of(r));
    int64_t left = kb_length_ns(now, m->start_ns);
    if (r->start_time_ns > 0 && left < warmup)
        say(a, "late: warms up %s instead of %s", kb_duration(left).s, kb_duration(warmup).s);
}

/* The first iteration that can be recorded whole is the next one. */
static int64_t first_iteration(const ko_ondemand *m, ko_ondemand_answer *a)
{
    const ko_request *r = &m->request;
    int64_t next = add(m->iteration, 1), warmup = given_or(r->warmup_iterations, 0);
    bool rounded = r->start_iteration_roundup > 1;
    if (r->start_iteration < next && !rounded) {
        int64_t at = add(next, warmup);
        if (r->start_iteration > 0)
            say(a, "late: iteration %" PRId64 " is past, begins at %" PRId64, r->start_iteration,
                at);
        return at;
    }
    /* Others round to the same multiple: better less warm-up than another multiple. */
    int64_t at = round_up(KB_MAX(r->start_iteration, next), r->start_iteration_roundup);
    int64_t left = kb_length_ns(next, at);
    if (left < warmup)
        say(a, "late: warms up %" PRId64 " iterations instead of %" PRId64, left, warmup);
    return at;
}

/* Getting ready takes time that would be that of the first iteration: one iteration before at the
 * latest. */
static bool warms_up_now(const ko_ondemand *m)
{
    int64_t lead = KB_MAX(given_or(m->request.warmup_iterations, 0), 1);
    return m->iteration >= add(m->start_iteration, -lead);
}

bool ko_ondemand_put_off(ko_ondemand *m)
{
    const ko_request *r = &m->request;
    bool any = r->start_iteration_roundup <= 1 && r->start_iteration != m->start_iteration;
    if (!m->by_iteration || m->state != KO_ONDEMAND_WARMUP || !any ||
        add(m->iteration, 1) < m->start_iteration)
        return false;
    m->start_iteration = add(m->iteration, 2);
    m->end_iteration = add(m->start_iteration, r->iterations);
    return true;
}

static void plan_iterations(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    m->request.start_time_ns = 0; /* the iteration counts */
    m->start_iteration = first_iteration(m, a);
    m->end_iteration = add(m->start_iteration, m->request.iterations);
    m->start_ns = now;
    m->end_ns = add(now, KO_ONDEMAND_STALL_NS);
    if (warms_up_now(m))
        prepare(m, now, a);
}

static void take(ko_ondemand *m, const ko_request *r, int64_t now, ko_ondemand_answer *a)
{
    const char *why;
    bool iterations = wants_iterations(r), steps = m->iteration >= 0;
    if (!ko_ondemand_can_accept(m, &why)) {
        refuse(a, why);
        return;
    }
    if (!r->enabled && !r->memory_snapshot) {
        refuse(a, "it asks for no trace (ACTIVITIES_ENABLED)");
        return;
    }
    if (!(iterations && steps) && !start_time_fits(r, now, a))
        return;
    m->request = *r;
    m->by_iteration = iterations && steps;
    m->state = KO_ONDEMAND_PENDING;
    m->window_start_ns = m->window_end_ns = 0;
    a->actions |= KO_ACT_ACCEPT;
    if (iterations && !steps)
        say(a, "the program never said step: traced for %s instead of %" PRId64 " iterations",
            kb_duration(duration_of(r)).s, r->iterations);
    if (m->by_iteration)
        plan_iterations(m, now, a);
    else
        plan_time(m, now, a);
}

/* ---- events ------------------------------------------------------------------------------------ */

static void another_iteration(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    m->iteration = add(m->iteration, 1);
    if (!m->by_iteration)
        return;
    if (m->state == KO_ONDEMAND_PENDING && warms_up_now(m))
        prepare(m, now, a);
    if (m->state == KO_ONDEMAND_WARMUP && m->iteration >= m->start_iteration)
        start(m, now, now, a);
    else if (m->state == KO_ONDEMAND_COLLECT && m->iteration >= m->end_iteration)
        stop(m, now, a);
    else if (m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP ||
             (m->state == KO_ONDEMAND_COLLECT && m->request.duration_ns < 0))
        m->end_ns = add(now, KO_ONDEMAND_STALL_NS);
}

static void cancel(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    bool inside = m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT;
    bool before = m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP;
    if (inside && (a->actions & (KO_ACT_PREPARE | KO_ACT_SNAPSHOT_START)) == 0) {
        stop(m, now, a);
        say(a, "cancelled: written up to here");
    } else if (inside || before) {
        drop(m, a);
        say(a, "cancelled before it began");
    }
}

/* A trace that is being written needs nothing that the program's own profile wants. */
static void preempt(ko_ondemand *m, ko_ondemand_answer *a)
{
    m->preempted = true;
    if (m->state == KO_ONDEMAND_WAIT || m->state == KO_ONDEMAND_PROCESS)
        return;
    drop(m, a);
    say(a, "dropped: the program itself began to profile");
}

static void processed(ko_ondemand *m, const ko_ondemand_answer *a)
{
    /* Not of what only now is to be written. */
    if (m->state == KO_ONDEMAND_PROCESS && !(a->actions & (KO_ACT_WRITE | KO_ACT_SNAPSHOT_STOP)))
        m->state = KO_ONDEMAND_WAIT;
}

static void failed(ko_ondemand *m, ko_ondemand_answer *a)
{
    if (m->state == KO_ONDEMAND_WAIT || m->state == KO_ONDEMAND_PENDING)
        return;
    drop(m, a);
    say(a, "could not be started: nothing is written");
}

static void take_event(ko_ondemand *m, ko_ondemand_event event, int64_t now,
                       const ko_request *request, ko_ondemand_answer *a)
{
    switch (event) {
    case KO_EVENT_REQUEST:
        if (request)
            take(m, request, now, a);
        break;
    case KO_EVENT_STEP:
        another_iteration(m, now, a);
        break;
    case KO_EVENT_CANCEL:
        cancel(m, now, a);
        break;
    case KO_EVENT_PREEMPT:
        preempt(m, a);
        break;
    case KO_EVENT_RELEASE:
        m->preempted = false;
        break;
    case KO_EVENT_PROCESSED:
        processed(m, a);
        break;
    case KO_EVENT_FAILED:
        failed(m, a);
        break;
    case KO_EVENT_TICK:
        break;
    }
}

void ko_ondemand_init(ko_ondemand *m)
{
    memset(m, 0, sizeof *m);
    m->iteration = -1;
    m->last_ns = INT64_MIN;
}

ko_ondemand_answer ko_ondemand_step(ko_ondemand *m, ko_ondemand_event event, int64_t now_ns,
                                    const ko_request *request)
{
    ko_ondemand_answer a = {0};
    int64_t now = time_of(m, now_ns);
    pass_time(m, now, &a);
    take_event(m, event, now, request, &a);
    pass_time(m, now, &a);
    a.wake_ns = wake_at(m);
    return a;
}

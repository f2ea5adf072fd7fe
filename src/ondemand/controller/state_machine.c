/* The state machine of on-demand tracing; docs/how-to/on-demand.md has the same as a table. Every
 * call first passes all transitions that are due by the clock, and then handles its event: a late
 * call gives the same windows as one in time. Pure: no clock, no allocation, no locks. */
#include "ondemand/controller/state_machine.h"

#include <inttypes.h>

/* Defaults of keys that a request does not give (docs/reference/requests.md). */
#define USUAL_DURATION_NS INT64_C(500000000)
#define USUAL_WARMUP_NS   INT64_C(5000000000)
#define USUAL_SNAPSHOT_NS INT64_C(1000000000)

/* ---- numbers and texts ----------------------------------------------------------------------- */

/* Times come from requests and may have any value: sums saturate. */
static int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static int64_t value_or_default(int64_t value, int64_t otherwise)
{
    return value < 0 ? otherwise : value;
}

static int64_t request_duration_ns(const ko_request *r)
{
    return r->memory_snapshot ? value_or_default(r->memory_snapshot_ns, USUAL_SNAPSHOT_NS)
                              : value_or_default(r->duration_ns, USUAL_DURATION_NS);
}

static int64_t request_warmup_ns(const ko_request *r)
{
    return r->memory_snapshot ? 0 : value_or_default(r->warmup_ns, USUAL_WARMUP_NS);
}

/* The next multiple; `at` is not negative. */
static int64_t round_up_to_multiple(int64_t at, int64_t multiple)
{
    if (multiple <= 1 || at % multiple == 0)
        return at;
    return add_saturated(at, multiple - at % multiple);
}

/* Appends a clause to the reason; truncated to what fits. */
static void append_reason(ko_ondemand_answer *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void append_reason(ko_ondemand_answer *a, const char *fmt, ...)
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

/* Replaces the reason: the request changes nothing else. */
static void refuse_request(ko_ondemand_answer *a, const char *why)
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

/* ---- transitions ----------------------------------------------------------------------------- */

static void prepare_window(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    KB_ASSERT(m->state == KO_ONDEMAND_PENDING);
    m->state = KO_ONDEMAND_WARMUP;
    a->actions |= KO_ACT_PREPARE;
    if (m->by_iteration)
        return;
    /* Nothing was recorded before now, whatever start was requested. */
    m->start_ns = KB_MAX(m->start_ns, now);
    m->end_ns = add_saturated(m->start_ns, request_duration_ns(&m->request));
}

/* The maximum length of a window. By iteration without a duration, each step extends it. */
static int64_t longest_window_ns(const ko_ondemand *m)
{
    bool unbounded = m->by_iteration && m->request.duration_ns < 0;
    return unbounded ? KO_ONDEMAND_STALL_NS : request_duration_ns(&m->request);
}

/* Enters COLLECT or SNAPSHOT; the window begins at `from`, not when the action is carried out. */
static void open_window(ko_ondemand *m, ko_ondemand_state state, uint32_t action, int64_t from,
                        int64_t now, ko_ondemand_answer *a)
{
    KB_ASSERT(state == KO_ONDEMAND_COLLECT ? m->state == KO_ONDEMAND_WARMUP
                                           : m->state == KO_ONDEMAND_PENDING);
    m->state = state;
    m->window_start_ns = m->start_ns = from;
    m->end_ns = add_saturated(from, longest_window_ns(m));
    m->last_ns = now;
    m->behind_ns = 0;
    a->actions |= action;
}

static void start_window_at(ko_ondemand *m, int64_t from, int64_t now, ko_ondemand_answer *a)
{
    open_window(m, KO_ONDEMAND_COLLECT, KO_ACT_START, from, now, a);
}

/* Snapshots have no warm-up. */
static void start_snapshot_window(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    open_window(m, KO_ONDEMAND_SNAPSHOT, KO_ACT_SNAPSHOT_START, KB_MAX(m->start_ns, now), now, a);
}

/* The window ends at `at`, and its trace is to be written. */
static void stop_window_at(ko_ondemand *m, int64_t at, ko_ondemand_answer *a)
{
    KB_ASSERT(m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT);
    bool snapshot = m->state == KO_ONDEMAND_SNAPSHOT;
    m->window_end_ns = at;
    m->state = KO_ONDEMAND_PROCESS;
    a->actions |= snapshot ? KO_ACT_SNAPSHOT_STOP : KO_ACT_STOP | KO_ACT_WRITE;
}

/* Drops the request without a trace. Actions of this same answer that would begin it are removed.
 */
static void drop_request(ko_ondemand *m, ko_ondemand_answer *a)
{
    KB_ASSERT(m->state != KO_ONDEMAND_WAIT);
    const uint32_t first = KO_ACT_PREPARE | KO_ACT_SNAPSHOT_START;
    bool begun = m->state != KO_ONDEMAND_PENDING && (a->actions & first) == 0;
    a->actions &= ~(first | KO_ACT_START | KO_ACT_STOP | KO_ACT_WRITE | KO_ACT_SNAPSHOT_STOP);
    if (begun)
        a->actions |= KO_ACT_DROP;
    m->state = KO_ONDEMAND_WAIT;
    KB_ASSERT(!(a->actions & (first | KO_ACT_WRITE)));
}

/* The program stopped stepping before the window began: it is traced by time instead, which shows
 * what it is doing. */
static void switch_to_time(ko_ondemand *m, ko_ondemand_answer *a)
{
    bool warm = m->state == KO_ONDEMAND_WARMUP;
    KB_ASSERT(m->by_iteration && (warm || m->state == KO_ONDEMAND_PENDING));
    m->by_iteration = false;
    m->start_ns = add_saturated(m->end_ns, warm ? 0 : request_warmup_ns(&m->request));
    m->end_ns = add_saturated(m->start_ns, request_duration_ns(&m->request));
    append_reason(a, "the program made no step for %" PRId64 " s: traced by time instead",
                  KO_ONDEMAND_STALL_NS / INT64_C(1000000000));
}

/* ---- time ------------------------------------------------------------------------------------ */

/* When a pending request by time must be prepared. */
static int64_t prepare_time(const ko_ondemand *m)
{
    if (m->request.memory_snapshot)
        return m->start_ns;
    return add_saturated(m->start_ns, -KB_MAX(request_warmup_ns(&m->request), KO_ONDEMAND_ARM_NS));
}

/* When the clock alone causes the next transition; INT64_MAX: never. */
static int64_t next_due_ns(const ko_ondemand *m)
{
    switch (m->state) {
    case KO_ONDEMAND_PENDING:
        return m->by_iteration ? m->end_ns : prepare_time(m);
    case KO_ONDEMAND_WARMUP:
        return m->by_iteration ? m->end_ns : m->start_ns;
    case KO_ONDEMAND_COLLECT:
    case KO_ONDEMAND_SNAPSHOT:
        return m->end_ns;
    default:
        return INT64_MAX;
    }
}

static void stop_window_by_time(ko_ondemand *m, ko_ondemand_answer *a)
{
    if (m->by_iteration)
        append_reason(a, "ended by its time, %" PRId64 " iterations before its end",
                      kb_length_ns(m->iteration, m->end_iteration));
    stop_window_at(m, m->end_ns, a);
}

/* Passes one transition that is due. False: none is. */
static bool pass_due_transition(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    if (m->state == KO_ONDEMAND_WAIT || m->state == KO_ONDEMAND_PROCESS || now < next_due_ns(m))
        return false;
    if (m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT)
        stop_window_by_time(m, a);
    else if (m->by_iteration)
        switch_to_time(m, a);
    else if (m->state == KO_ONDEMAND_WARMUP)
        start_window_at(m, m->start_ns, now, a);
    else if (m->request.memory_snapshot)
        start_snapshot_window(m, now, a);
    else
        prepare_window(m, now, a);
    return true;
}

static void pass_all_due(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    while (pass_due_transition(m, now, a))
        ;
}

/* The clock was set back before the window. A requested start time refers to the clock and stays;
 * all other times are relative to the request and move along. */
static void shift_back(ko_ondemand *m, int64_t by)
{
    if (!m->by_iteration && m->request.start_time_ns > 0)
        return;
    m->start_ns = add_saturated(m->start_ns, -by);
    m->end_ns = add_saturated(m->end_ns, -by);
}

/* The machine's time. Within a window it never goes backwards, so that the window keeps its length.
 */
static int64_t machine_time(ko_ondemand *m, int64_t now)
{
    bool inside = m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT;
    bool before = m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP;
    int64_t time = inside ? add_saturated(now, m->behind_ns) : now;
    if (inside && time < m->last_ns) {
        m->behind_ns = kb_length_ns(now, m->last_ns);
        time = m->last_ns;
    } else if (before && time < m->last_ns) {
        shift_back(m, kb_length_ns(time, m->last_ns));
    }
    m->last_ns = time;
    return time;
}

static int64_t wake_time(const ko_ondemand *m)
{
    int64_t at = next_due_ns(m);
    bool inside = m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT;
    return inside && at != INT64_MAX ? add_saturated(at, -m->behind_ns) : at;
}

/* ---- requests -------------------------------------------------------------------------------- */

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

/* Is it a request by iteration? Iterations alone mean the next ones; together with a start time
 * they count only if a start iteration is given as well. */
static bool wants_iterations(const ko_request *r)
{
    bool has_start = r->start_iteration >= 0 || r->start_iteration_roundup > 0;
    return !r->memory_snapshot && r->iterations > 0 && (has_start || r->start_time_ns <= 0);
}

/* Refuses start times in the past or too far ahead. */
static bool start_time_fits(const ko_request *r, int64_t now, ko_ondemand_answer *a)
{
    int64_t ahead = kb_length_ns(now, r->start_time_ns);
    char why[160];
    if (r->start_time_ns <= 0 || (ahead >= 0 && ahead <= KO_ONDEMAND_MAX_AHEAD_NS))
        return true;
    if (ahead < 0)
        snprintf(why, sizeof why, "too late: its start time was %s ago",
                 kb_duration(ahead == INT64_MIN ? INT64_MAX : -ahead).s);
    else
        snprintf(why, sizeof why, "its start time is %s ahead; is it in ms since 1970?",
                 kb_duration(ahead).s);
    refuse_request(a, why);
    return false;
}

/* Start and end of a new request by time. A start too close for the warm-up shortens it. */
static void plan_by_time(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    const ko_request *r = &m->request;
    int64_t warmup = request_warmup_ns(r);
    m->start_ns = r->start_time_ns > 0 ? r->start_time_ns : add_saturated(now, warmup);
    m->end_ns = add_saturated(m->start_ns, request_duration_ns(r));
    int64_t left = kb_length_ns(now, m->start_ns);
    if (r->start_time_ns > 0 && left < warmup)
        append_reason(a, "late: warms up %s instead of %s", kb_duration(left).s,
                      kb_duration(warmup).s);
}

/* The first iteration of the window: the earliest that can be recorded whole is the next one. */
static int64_t first_iteration(const ko_ondemand *m, ko_ondemand_answer *a)
{
    const ko_request *r = &m->request;
    int64_t next = add_saturated(m->iteration, 1),
            warmup = value_or_default(r->warmup_iterations, 0);
    bool rounded = r->start_iteration_roundup > 1;
    if (r->start_iteration < next && !rounded) {
        int64_t at = add_saturated(next, warmup);
        if (r->start_iteration > 0)
            append_reason(a, "late: iteration %" PRId64 " is past, begins at %" PRId64,
                          r->start_iteration, at);
        return at;
    }
    /* Other processes round to the same multiple: less warm-up is better than a different multiple.
     */
    int64_t at = round_up_to_multiple(KB_MAX(r->start_iteration, next), r->start_iteration_roundup);
    int64_t left = kb_length_ns(next, at);
    if (left < warmup)
        append_reason(a, "late: warms up %" PRId64 " iterations instead of %" PRId64, left, warmup);
    return at;
}

/* Preparing takes time, which must not fall into the first iteration: at least one iteration
 * earlier. */
static bool warms_up_now(const ko_ondemand *m)
{
    int64_t lead = KB_MAX(value_or_default(m->request.warmup_iterations, 0), 1);
    return m->iteration >= add_saturated(m->start_iteration, -lead);
}

bool ko_ondemand_postpone(ko_ondemand *m)
{
    const ko_request *r = &m->request;
    bool any = r->start_iteration_roundup <= 1 && r->start_iteration != m->start_iteration;
    if (!m->by_iteration || m->state != KO_ONDEMAND_WARMUP || !any ||
        add_saturated(m->iteration, 1) < m->start_iteration)
        return false;
    KB_ASSERT(m->iteration >= 0);
    m->start_iteration = add_saturated(m->iteration, 2);
    m->end_iteration = add_saturated(m->start_iteration, r->iterations);
    return true;
}

/* Start and end of a new request by iteration; end_ns is the time by which a step must come. */
static void plan_iterations(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    m->request.start_time_ns = 0; /* the iteration counts */
    m->start_iteration = first_iteration(m, a);
    m->end_iteration = add_saturated(m->start_iteration, m->request.iterations);
    m->start_ns = now;
    m->end_ns = add_saturated(now, KO_ONDEMAND_STALL_NS);
    if (warms_up_now(m))
        prepare_window(m, now, a);
}

/* WAIT → PENDING, and on to WARMUP if the first iteration is near; or refuses. */
static void take_request(ko_ondemand *m, const ko_request *r, int64_t now, ko_ondemand_answer *a)
{
    const char *why;
    bool iterations = wants_iterations(r), steps = m->iteration >= 0;
    if (!ko_ondemand_can_accept(m, &why)) {
        refuse_request(a, why);
        return;
    }
    if (!r->enabled && !r->memory_snapshot) {
        refuse_request(a, "it requests no trace (ACTIVITIES_ENABLED)");
        return;
    }
    if (!(iterations && steps) && !start_time_fits(r, now, a))
        return;
    KB_ASSERT(m->state == KO_ONDEMAND_WAIT && !m->preempted);
    m->request = *r;
    m->by_iteration = iterations && steps;
    m->state = KO_ONDEMAND_PENDING;
    m->window_start_ns = m->window_end_ns = 0;
    a->actions |= KO_ACT_ACCEPT;
    if (iterations && !steps)
        append_reason(a,
                      "the program has not reported a step: traced for %s instead of %" PRId64
                      " iterations",
                      kb_duration(request_duration_ns(r)).s, r->iterations);
    if (m->by_iteration)
        plan_iterations(m, now, a);
    else
        plan_by_time(m, now, a);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void count_iteration(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    m->iteration = add_saturated(m->iteration, 1);
    if (!m->by_iteration)
        return;
    if (m->state == KO_ONDEMAND_PENDING && warms_up_now(m))
        prepare_window(m, now, a);
    if (m->state == KO_ONDEMAND_WARMUP && m->iteration >= m->start_iteration)
        start_window_at(m, now, now, a);
    else if (m->state == KO_ONDEMAND_COLLECT && m->iteration >= m->end_iteration)
        stop_window_at(m, now, a);
    else if (m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP ||
             (m->state == KO_ONDEMAND_COLLECT && m->request.duration_ns < 0))
        m->end_ns = add_saturated(now, KO_ONDEMAND_STALL_NS);
}

/* A window that has begun is written up to now; one that has not is dropped. Also if it would
 * begin in this very answer. */
static void cancel_request(ko_ondemand *m, int64_t now, ko_ondemand_answer *a)
{
    bool inside = m->state == KO_ONDEMAND_COLLECT || m->state == KO_ONDEMAND_SNAPSHOT;
    bool before = m->state == KO_ONDEMAND_PENDING || m->state == KO_ONDEMAND_WARMUP;
    if (inside && (a->actions & (KO_ACT_PREPARE | KO_ACT_SNAPSHOT_START)) == 0) {
        stop_window_at(m, now, a);
        append_reason(a, "cancelled: written up to here");
    } else if (inside || before) {
        drop_request(m, a);
        append_reason(a, "cancelled before it began");
    }
}

/* A trace that is being written does not conflict with the program's own profile. */
static void preempt_request(ko_ondemand *m, ko_ondemand_answer *a)
{
    m->preempted = true;
    if (m->state == KO_ONDEMAND_WAIT || m->state == KO_ONDEMAND_PROCESS)
        return;
    drop_request(m, a);
    append_reason(a, "dropped: the program itself began to profile");
}

/* PROCESS → WAIT. */
static void finish_processing(ko_ondemand *m, const ko_ondemand_answer *a)
{
    /* The event cannot belong to a trace whose writing begins with this very answer. */
    if (m->state == KO_ONDEMAND_PROCESS && !(a->actions & (KO_ACT_WRITE | KO_ACT_SNAPSHOT_STOP)))
        m->state = KO_ONDEMAND_WAIT;
}

static void handle_failure(ko_ondemand *m, ko_ondemand_answer *a)
{
    if (m->state == KO_ONDEMAND_WAIT || m->state == KO_ONDEMAND_PENDING)
        return;
    drop_request(m, a);
    append_reason(a, "could not be started: nothing is written");
}

static void handle_event(ko_ondemand *m, ko_ondemand_event event, int64_t now,
                         const ko_request *request, ko_ondemand_answer *a)
{
    switch (event) {
    case KO_EVENT_REQUEST:
        if (request)
            take_request(m, request, now, a);
        break;
    case KO_EVENT_STEP:
        count_iteration(m, now, a);
        break;
    case KO_EVENT_CANCEL:
        cancel_request(m, now, a);
        break;
    case KO_EVENT_PREEMPT:
        preempt_request(m, a);
        break;
    case KO_EVENT_RELEASE:
        m->preempted = false;
        break;
    case KO_EVENT_PROCESSED:
        finish_processing(m, a);
        break;
    case KO_EVENT_FAILED:
        handle_failure(m, a);
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
    int64_t now = machine_time(m, now_ns);
    pass_all_due(m, now, &a);
    handle_event(m, event, now, request, &a);
    pass_all_due(m, now, &a);
    KB_ASSERT(m->state != KO_ONDEMAND_COLLECT || now < m->end_ns);
    a.wake_ns = wake_time(m);
    return a;
}

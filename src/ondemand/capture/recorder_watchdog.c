/* Automatic dumps of a recorder's ring: when a step of the program was slow, or no step begins any
 * more. The recorder reads the step times in the control page, so the programs have no extra work.
 */
#include "ondemand/capture/recorder.h"
#include "ondemand/capture/ring.h"

#include <time.h>

#define LOOK_NS                                                                                    \
    UINT64_C(100000000) /* the last 64 step times are known, so shorter steps are seen as well */

typedef struct watchdog {
    ko_listener listener; /* first */
    ks_collector *collector;
    double slow_step;
    int64_t hang_ns, pause_ns;
    ko_usual usual;
    uint64_t seen;    /* steps that began */
    uint32_t pid;     /* whose */
    int64_t quiet_ns; /* slow steps that began earlier are ignored */
    bool hung;        /* this hang has its dump */
    uint32_t dumps;
} watchdog;

/* After each attempt: no further slow steps for the length of the ring, whose records the dump
 * holds. */
static void count_recorder_dump(watchdog *w, kineto_status status, const kineto_error *why)
{
    w->quiet_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME) + w->pause_ns;
    if (status == KINETO_OK)
        w->dumps++;
    else
        kb_log(KINETO_LOG_WARNING, "ring: no dump: %s", why->message);
    if (w->dumps == KO_MAX_AUTOMATIC_DUMPS)
        kb_log(KINETO_LOG_WARNING, "ring: %u automatic dumps were written; no more will be",
               KO_MAX_AUTOMATIC_DUMPS);
}

static bool may_dump_recorder(const watchdog *w) { return w->dumps < KO_MAX_AUTOMATIC_DUMPS; }

/* Requests a dump if step `n` was slow. */
static void check_step(watchdog *w, ko_controller *c, uint64_t n, int64_t begin_ns, int64_t end_ns)
{
    kineto_error why;
    uint64_t usual, ns = end_ns > begin_ns ? (uint64_t)(end_ns - begin_ns) : 0;
    if (!ko_usual_is_slow(&w->usual, w->slow_step, ns, &usual) || begin_ns < w->quiet_ns ||
        !may_dump_recorder(w))
        return;
    kineto_status status =
        ko_controller_dump_because(c, &why, "slow step %llu: %s, usually %s", (unsigned long long)n,
                                   kb_duration((int64_t)ns).s, kb_duration((int64_t)usual).s);
    count_recorder_dump(w, status, &why);
}

/* Checks the steps that ended since the last turn, as far as their times are known. */
static void check_steps(watchdog *w, ko_controller *c, uint64_t count,
                        const int64_t times_ns[KF_STEP_TIMES])
{
    uint64_t known = count > KF_STEP_TIMES ? count - KF_STEP_TIMES : 0;
    uint64_t from = KB_MAX(w->seen ? w->seen - 1 : 0, known);
    for (uint64_t n = from; n + 1 < count; n++)
        check_step(w, c, n, times_ns[n % KF_STEP_TIMES], times_ns[(n + 1) % KF_STEP_TIMES]);
}

/* Requests one dump per hang; `hung` is reset by the next step. */
static void check_for_hang(watchdog *w, ko_controller *c, uint64_t count, int64_t last_ns)
{
    int64_t since = kb_length_ns(last_ns, (int64_t)kb_clock_ns(CLOCK_REALTIME));
    bool hangs = since >= w->hang_ns;
    kineto_error why;
    if (hangs && !w->hung && may_dump_recorder(w)) {
        kineto_status status =
            ko_controller_dump_because(c, &why, "no step for %s since step %llu began",
                                       kb_duration(since).s, (unsigned long long)(count - 1));
        if (status == KINETO_E_BUSY) /* the ring is being written: retry in the next turn */
            return;
        count_recorder_dump(w, status, &why);
    }
    w->hung = hangs;
}

/* Runs every LOOK_NS. Starts over when another process is the one that steps. */
static void turn_recorder_watchdog(ko_listener *l, ko_controller *c, uint64_t now_ns)
{
    watchdog *w = (watchdog *)l;
    int64_t times_ns[KF_STEP_TIMES];
    uint32_t pid;
    l->wake_ns = now_ns + LOOK_NS;
    uint64_t count = ks_collector_steps(w->collector, times_ns, &pid);
    if (pid != w->pid || count < w->seen) { /* another process */
        memset(&w->usual, 0, sizeof w->usual);
        w->seen = 0;
        w->pid = pid;
    }
    if (count == 0)
        return;
    if (w->slow_step > 0)
        check_steps(w, c, count, times_ns);
    w->seen = count;
    if (w->hang_ns > 0)
        check_for_hang(w, c, count, times_ns[(count - 1) % KF_STEP_TIMES]);
}

static void destroy_recorder_watchdog(ko_listener *l) { free(l); }

ko_listener *ko_recorder_watchdog_create(const ko_recorder_options *options, kineto_error *err)
{
    if (!options->ring_ns || (options->slow_step <= 0 && !options->hang_ns))
        return NULL;
    watchdog *w = calloc(1, sizeof *w);
    if (!w) {
        kb_fail_memory(err, "watchdog");
        return NULL;
    }
    w->collector = options->collector;
    w->slow_step = options->slow_step;
    w->hang_ns = (int64_t)options->hang_ns;
    w->pause_ns = (int64_t)options->ring_ns;
    w->listener = (ko_listener){.name = "watchdog",
                                .fd = -1,
                                .wake_ns = 0,
                                .turn = turn_recorder_watchdog,
                                .destroy = destroy_recorder_watchdog};
    return &w->listener;
}

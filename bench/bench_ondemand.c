/* Benchmark of on-demand tracing: the cost of being traceable, and the delay until a trace begins:
 *
 *   first event  from a request over the control socket to the first event of its trace: 50 requests
 *                without warm-up to a process that records a range every few microseconds
 *   idle         processor time of a process that listens on its socket and polls a daemon that does
 *                not run, in per cent of one processor
 *   same time    8 such processes with a request for the same start time: from the first of their
 *                windows to the last one, and of their first events; a busy thread each
 *   step         kineto_profiler_step in a process that listens; floor: in one that does not
 *
 * usage: bench_ondemand [idle seconds (20)]. Results without a floor have nothing to be compared
 * with. On a busy machine a thread may not run at all while it is traced: then its trace has no
 * event and is ignored. */
#include "bench.h"

#include "ondemand/wire/control_wire.h"

#include <ckineto/control.h>
#include <ckineto/profiler.h>
#include <ckineto/record.h>
#include <ckineto/trace.h>

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUESTS   50
#define PROCESSES  8
#define RANGE_NS   5000
#define PATIENCE_S 60

static const char *directory;

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_ondemand: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

/* ---- a traceable process ------------------------------------------------------------------------- */

KINETO_SITE(busy_range, KINETO_KIND_CPU_OP, "busy");

static void *record_ranges(void *unused)
{
    (void)unused;
    for (;;) {
        kineto_range r = kineto_range_begin(&busy_range);
        double until = bench_clock_ns(CLOCK_MONOTONIC) + RANGE_NS;
        while (bench_clock_ns(CLOCK_MONOTONIC) < until)
            ;
        kineto_range_end(r);
    }
    return NULL;
}

static _Noreturn void run_traceable(bool works)
{
    kineto_error err;
    kineto_control_options o;
    kineto_control_options_init(&o);
    pthread_t thread;
    o.socket = true;
    o.daemon = !works;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (kineto_control_start(&o, &err))
        exit_with_error("control", &err);
    if (works && pthread_create(&thread, NULL, record_ranges, NULL) != 0)
        exit_with_error("thread", NULL);
    for (;;)
        pause();
}

static pid_t start_traceable(const char *how)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/proc/self/exe", "bench_ondemand", how, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void end_process(pid_t pid)
{
    kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* ---- requests ------------------------------------------------------------------------------------ */

static ko_control_peer *connect_to(pid_t pid)
{
    kineto_error err;
    ko_control_peer *peer;
    for (int tries = 0; tries < PATIENCE_S * 100; tries++) {
        if (ko_control_connect((uint32_t)pid, &peer, &err) == KINETO_OK)
            return peer;
        usleep(10000);
    }
    exit_with_error("connect", &err);
    return NULL;
}

static void send_request(ko_control_peer *peer, const char *text)
{
    kineto_error err;
    if (ko_control_send(peer, "trace", kb_string(text), &err))
        exit_with_error("send", &err);
}

/* Wait until the trace of this request is written. */
static void wait_written(ko_control_peer *peer, ko_control_answer *a)
{
    kineto_error err;
    for (;;) {
        struct pollfd p = {.fd = ko_control_fd(peer), .events = POLLIN};
        kineto_status status = ko_control_receive(peer, a, &err);
        if (status == KINETO_E_BUSY && poll(&p, 1, PATIENCE_S * 1000) == 1)
            continue;
        if (status)
            exit_with_error("receive", &err);
        if (strcmp(a->verb, "written") == 0)
            return;
        if (strcmp(a->verb, "refused") == 0 || strcmp(a->verb, "failed") == 0)
            exit_with_error(a->text, NULL);
    }
}

/* Read a trace: when its window began, and the first event that began within. */
static void read_trace_start(const char *path, int64_t *window_ns, int64_t *first_ns)
{
    kineto_error err;
    kineto_trace *trace;
    kineto_activity a;
    int64_t end_ns;
    if (kineto_trace_open(path, &trace, &err))
        exit_with_error("open", &err);
    kineto_trace_window(trace, window_ns, &end_ns);
    *first_ns = INT64_MAX;
    for (kineto_row i = 0; i < kineto_trace_count(trace); i++) {
        kineto_trace_get(trace, i, &a);
        if (a.kind == KINETO_KIND_CPU_OP)
            *first_ns = KB_MIN(*first_ns, a.start_ns);
    }
    kineto_trace_release(trace);
    unlink(path);
}

/* ---- first event --------------------------------------------------------------------------------- */

static void measure_first_event(void)
{
    bench_series events = {.count = 0};
    ko_control_answer answer;
    char text[512];
    pid_t pid = start_traceable("busy");
    ko_control_peer *peer = connect_to(pid);
    snprintf(text, sizeof text,
             "ACTIVITIES_DURATION_MSECS=20\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
             "ACTIVITIES_LOG_FILE=%s/first.json\n",
             directory);
    usleep(100000);
    for (int i = 0; i < REQUESTS; i++) {
        int64_t asked_ns = (int64_t)bench_clock_ns(CLOCK_REALTIME), window_ns, first_ns;
        send_request(peer, text);
        wait_written(peer, &answer);
        read_trace_start(answer.path, &window_ns, &first_ns);
        if (first_ns < INT64_MAX)
            bench_add(&events, (double)(first_ns - asked_ns) / 1e6);
        if (i == 0 && events.count)
            bench_line("ondemand.first_event.cold", events.values[0], "ms", 0, 1);
    }
    ko_control_close(peer);
    end_process(pid);
    bench_line("ondemand.first_event.median", bench_quantile(&events, 0.5), "ms", 0, 1);
    bench_line("ondemand.first_event.max", bench_quantile(&events, 1), "ms", 0, 1);
}

/* ---- idle ---------------------------------------------------------------------------------------- */

static double processor_ns(pid_t pid)
{
    clockid_t clock;
    if (clock_getcpuclockid(pid, &clock) != 0)
        exit_with_error("processor clock", NULL);
    return bench_clock_ns(clock);
}

static void measure_idle(unsigned seconds)
{
    pid_t pid = start_traceable("idle");
    ko_control_close(connect_to(pid));
    usleep(500000);
    double begin_ns = processor_ns(pid);
    sleep(seconds);
    double spent_ns = processor_ns(pid) - begin_ns;
    end_process(pid);
    bench_line("ondemand.idle", spent_ns / ((double)seconds * 1e9) * 100, "%", 0, 1);
}

/* ---- at the same time ---------------------------------------------------------------------------- */

static void measure_same_time(void)
{
    bench_series windows = {.count = 0}, events = {.count = 0};
    pid_t pids[PROCESSES];
    ko_control_peer *peers[PROCESSES];
    char text[512];
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = start_traceable("busy");
    for (int i = 0; i < PROCESSES; i++)
        peers[i] = connect_to(pids[i]);
    int64_t at_ms = (int64_t)(bench_clock_ns(CLOCK_REALTIME) / 1e6) + 1000;
    snprintf(text, sizeof text,
             "PROFILE_START_TIME=%" PRId64 "\nACTIVITIES_DURATION_MSECS=200\n"
             "ACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_LOG_FILE=%s/same.json\n",
             at_ms, directory);
    for (int i = 0; i < PROCESSES; i++)
        send_request(peers[i], text);
    for (int i = 0; i < PROCESSES; i++) {
        ko_control_answer answer;
        int64_t window_ns, first_ns;
        wait_written(peers[i], &answer);
        read_trace_start(answer.path, &window_ns, &first_ns);
        bench_add(&windows, (double)(window_ns - at_ms * 1000000) / 1e6);
        if (first_ns < INT64_MAX)
            bench_add(&events, (double)(first_ns - at_ms * 1000000) / 1e6);
        ko_control_close(peers[i]);
        end_process(pids[i]);
    }
    bench_line("ondemand.same_time.windows",
               bench_quantile(&windows, 1) - bench_quantile(&windows, 0), "ms", 0, 1);
    bench_line("ondemand.same_time.events", bench_quantile(&events, 1) - bench_quantile(&events, 0),
               "ms", 0, 1);
}

/* ---- steps --------------------------------------------------------------------------------------- */

#define STEPS  200000
#define ROUNDS 15

static double step_ns(void)
{
    double begin = bench_thread_ns();
    for (int i = 0; i < STEPS; i++)
        kineto_profiler_step();
    return (bench_thread_ns() - begin) / STEPS;
}

static void measure_steps(void)
{
    bench_series on = {.count = 0}, off = {.count = 0};
    kineto_control_options o;
    kineto_control_options_init(&o);
    kineto_error err;
    o.socket = true;
    for (int i = 0; i < ROUNDS; i++) {
        bench_add(&off, step_ns());
        if (kineto_control_start(&o, &err))
            exit_with_error("control", &err);
        bench_add(&on, step_ns());
        kineto_control_stop();
    }
    bench_print("ondemand.step", "ns", &on, &off);
}

int main(int argc, char **argv)
{
    char made[] = "/tmp/ckineto-bench-XXXXXX";
    if (argc == 2 && strcmp(argv[1], "busy") == 0)
        run_traceable(true);
    if (argc == 2 && strcmp(argv[1], "idle") == 0)
        run_traceable(false);
    if (!(directory = mkdtemp(made)))
        exit_with_error("directory", NULL);
    setenv("XDG_RUNTIME_DIR", directory, 1);
    setenv("KINETO_IPC_SOCKET_DIR", directory, 1);
    setenv("KINETO_ONDEMAND_TRACE_DIR", directory, 1);
    setenv("KINETO_LOG_LEVEL", "4", 1);
    measure_first_event();
    measure_same_time();
    measure_steps();
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    measure_idle(seconds ? seconds : 20);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}

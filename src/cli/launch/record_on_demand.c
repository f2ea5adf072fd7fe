/* ckineto record --on-demand and --ring: the program runs, and clients request traces of it. The
 * controller's loop (src/ondemand) waits for requests, for full chunks and for the end of the
 * program; a second thread wakes it when programs with sessions of their own change the buffer. */
#include "cli/summary/summary.h"
#include "cli/launch/record_on_demand.h"
#include "cli/launch/record_result.h"
#include "cli/print.h"
#include "ondemand/process/process.h"
#include "ondemand/wire/control_wire.h"
#include "ondemand/capture/recorder.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RING_MB     16384u
#define MAX_SECONDS     86400.0
#define MAX_FACTOR      1e6
#define DUMP_RETRY_NS   INT64_C(10000000)
#define DUMP_TIMEOUT_NS KB_MINUTE_NS

/* ---- options --------------------------------------------------------------------------------- */

bool kc_on_demand_wanted(const kc_on_demand_options *o) { return o->on_demand.given || o->ring; }

/* "1.5", optionally followed by `unit`. */
static kineto_status parse_bounded_number(const char *name, const char *text, double min,
                                          double max, const char *unit, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end != text && *end && strcmp(end, unit) == 0)
        end += strlen(unit);
    if (end == text || *end || !(v >= min && v <= max))
        return kc_usage_error("record", "--%s is a number from %g to %g, not '%s'", name, min, max,
                              text);
    *out = v;
    return KINETO_OK;
}

/* 0 if the text is NULL. */
static kineto_status parse_seconds_ns(const char *name, const char *text, uint64_t *ns)
{
    double seconds;
    *ns = 0;
    if (!text)
        return KINETO_OK;
    kineto_status status = parse_bounded_number(name, text, 0.01, MAX_SECONDS, "s", &seconds);
    if (status == KINETO_OK)
        *ns = (uint64_t)(seconds * (double)KB_SECOND_NS);
    return status;
}

static ko_settings request_sources;

/* The words of CKINETO_CONTROL. In the environment a mistake is skipped with a warning; here it is
 * an error. */
static kineto_status check_source_word(const char *word)
{
    static const char signal[] = "signal=", file[] = "file=";
    kineto_error err;
    int number;
    if (strncmp(word, signal, sizeof signal - 1) == 0)
        return ko_signal_parse(word + sizeof signal - 1, &number, &err) == KINETO_OK
                   ? KINETO_OK
                   : kc_usage_error("record", "--on-demand: %s", err.message);
    size_t path = strncmp(word, file, sizeof file - 1) == 0 ? strlen(word + sizeof file - 1) : 0;
    if (path >= sizeof request_sources.file)
        return kc_usage_error("record", "--on-demand: the path of file= is too long");
    if (path || strcmp(word, "socket") == 0 || strcmp(word, "daemon") == 0 ||
        strcmp(word, "signal") == 0)
        return KINETO_OK;
    return kc_usage_error("record",
                          "--on-demand: unknown source '%s'; known are socket, daemon, signal, "
                          "signal=NAME, file=PATH",
                          word);
}

/* Words separated by commas. */
static kineto_status check_source_list(const char *list)
{
    kineto_status status = KINETO_OK;
    for (const char *at = list; at && !status; at = strchr(at, ',')) {
        at += *at == ',';
        char *word = strndup(at, strcspn(at, ","));
        status = word ? check_source_word(word) : kc_usage_error("record", "out of memory");
        free(word);
    }
    return status;
}

/* Combinations of options that exclude each other, and the sources. */
static kineto_status check_on_demand_options(const kc_on_demand_options *o)
{
    if (!o->ring && (o->slow_step || o->hang || o->crash || kc_option_given(&o->ring_mb)))
        return kc_usage_error("record",
                              "--on-slow-step, --on-hang, --on-crash and --ring-mb need --ring");
    if (!o->ring && o->on_demand.given && o->output)
        return kc_usage_error(
            "record", "--output cannot be used with --on-demand: each request names its file");
    if (o->ring_mb < 1 || o->ring_mb > MAX_RING_MB)
        return kc_usage_error("record", "--ring-mb is from 1 to %u", MAX_RING_MB);
    return o->on_demand.text ? check_source_list(o->on_demand.text) : KINETO_OK;
}

/* Raw data is written next to traces of requests. */
static const char *choose_spool_path(void)
{
    static char path[KS_PATH_BYTES];
    const char *directory = kb_setting("KINETO_ONDEMAND_TRACE_DIR");
    snprintf(path, sizeof path, "%s/ckineto-on-demand.json", directory ? directory : "/tmp");
    return path;
}

/* The ring replaces the buffer: its size becomes that of the buffer. */
kineto_status kc_on_demand_parse(const kc_on_demand_options *o, ks_collector_options *c)
{
    uint64_t hang_ns;
    double factor;
    kineto_status status = check_on_demand_options(o);
    c->on_demand = true;
    if (!o->output)
        c->output_path = choose_spool_path();
    if (status == KINETO_OK)
        status = parse_seconds_ns("ring", o->ring, &c->ring_ns);
    if (status == KINETO_OK)
        status = parse_seconds_ns("on-hang", o->hang, &hang_ns);
    if (status == KINETO_OK && o->slow_step)
        status = parse_bounded_number("on-slow-step", o->slow_step, 1, MAX_FACTOR, "x", &factor);
    if (status == KINETO_OK && o->ring)
        c->buffer_bytes = (size_t)o->ring_mb << 20;
    return status;
}

/* ---- sources of requests --------------------------------------------------------------------- */

/* The signal that requests traces must not end this process before a listener is installed. The
 * program is started with the original signal mask. */
static void hold_signal(int sig, bool held)
{
    sigset_t set;
    sigemptyset(&set);
    if (sig && sigaddset(&set, sig) == 0)
        (void)pthread_sigmask(held ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

/* Sources come from --on-demand or, without a list, from the environment, with the control socket
 * in addition. The signal is held from here until its listener exists. */
kineto_status kc_on_demand_prepare(const kc_on_demand_options *o, kineto_error *err)
{
    char directory[KO_REQUEST_PATH_BYTES];
    const char *list = o->on_demand.text;
    if (list && setenv("CKINETO_CONTROL", list, 1) != 0)
        return kb_fail_os(err, errno, "cannot set CKINETO_CONTROL");
    ko_environment_add(&request_sources);
    if (list)
        request_sources.options.daemon = strstr(list, "daemon") != NULL;
    else
        request_sources.options.socket = true;
    hold_signal(request_sources.options.signal, true);
    (void)unsetenv("CKINETO_CONTROL");
    if (request_sources.options.daemon)
        (void)unsetenv("KINETO_USE_DAEMON");
    kineto_error why;
    if (request_sources.options.socket && ko_control_directory(true, directory, &why)) {
        kc_complain("record: %s; traces cannot be requested by 'ckineto trigger'", why.message);
        request_sources.options.socket = false;
    }
    return KINETO_OK;
}

/* ---- the loop's parts ------------------------------------------------------------------------ */

typedef struct on_demand_host {
    const kc_on_demand_options *options;
    ks_collector *collector;
    kc_child *child;
    ko_recorder_options recorder_options;
    ko_recorder *recorder;
    ko_controller *controller;
    pthread_t follower; /* of windows */
    bool follows, over; /* over: atomic */
    /* atomic: something could not be written */
    bool failed;
} on_demand_host;

typedef struct end_listener {
    ko_listener listener; /* first */
    kc_child *child;
} end_listener;

static void reap_on_event(ko_listener *l, ko_controller *c, uint64_t now_ns)
{
    (void)c;
    (void)now_ns;
    kc_child_reap(((end_listener *)l)->child, l->fd);
}

static void free_end_listener(ko_listener *l)
{
    close(l->fd);
    free(l);
}

/* A listener that ends the loop with the program. */
static kineto_status add_end_listener(on_demand_host *h, kineto_error *err)
{
    end_listener *e = calloc(1, sizeof *e);
    int fd = e ? kc_child_signals(err) : -1;
    if (fd < 0) {
        free(e);
        return e ? err->code : kb_fail_memory(err, NULL);
    }
    e->child = h->child;
    e->listener = (ko_listener){.name = "the program's end",
                                .fd = fd,
                                .events = POLLIN,
                                .wake_ns = UINT64_MAX,
                                .turn = reap_on_event,
                                .destroy = free_end_listener};
    ko_controller_listen(h->controller, &e->listener);
    return KINETO_OK;
}

static uint32_t list_child_pids(void *context, uint32_t *pids, uint32_t room)
{
    const on_demand_host *h = context;
    return ks_children_pids((uint32_t)h->child->pid, pids, room);
}

/* A source that does not work is reported; the other sources and the program continue. */
static void add_listener(on_demand_host *h, ko_listener *l, const kineto_error *err)
{
    if (l)
        ko_controller_listen(h->controller, l);
    else
        kc_complain("record: %s", err->message);
}

/* A listener for each source of requests, and the watchdog of the ring. */
static void add_request_listeners(on_demand_host *h)
{
    kineto_error err = {0};
    if (request_sources.options.socket) {
        ko_listener *l = ko_control_socket_create(kb_os_pid(), &err);
        if (l)
            ko_control_socket_set_pids(l, list_child_pids, h);
        add_listener(h, l, &err);
    }
    if (request_sources.options.daemon) {
        ko_listener *l = ko_dyno_listener_create(request_sources.poll_interval_ns, &err);
        if (l)
            ko_dyno_listener_for(l, (uint32_t)h->child->pid);
        add_listener(h, l, &err);
    }
    if (request_sources.options.signal)
        add_listener(h, ko_signal_listener_create(request_sources.options.signal, &err), &err);
    if (request_sources.file[0])
        add_listener(h, ko_file_listener_create(request_sources.file, &err), &err);
    err = (kineto_error){0};
    ko_listener *l = ko_recorder_watchdog_create(&h->recorder_options, &err);
    if (l || err.code)
        add_listener(h, l, &err);
}

/* May be called on any thread. */
static void report_stage(void *context, const ko_stage_note *note)
{
    on_demand_host *h = context;
    if (note->stage == KO_STAGE_FAILED)
        kb_store_relaxed(&h->failed, true);
    if (note->stage == KO_STAGE_FAILED)
        kc_complain("record: a requested trace could not be written: %s", note->text);
    else if (note->stage == KO_STAGE_WRITTEN && !h->options->quiet)
        kc_complain("%s%sa trace is in %s (%s)", note->text, note->text[0] ? ": " : "", note->path,
                    kb_bytes(note->bytes).s);
    else
        kb_log(KINETO_LOG_INFO, "request %llu: %s%s%s", (unsigned long long)note->ticket,
               ko_stage_name(note->stage), note->text[0] ? ": " : "", note->text);
}

/* Programs may start sessions of their own in our buffer, whose chunks must be collected then. */
static void *watch_windows(void *context)
{
    on_demand_host *h = context;
    for (uint32_t seen = 0; !kb_load_acquire(&h->over);) {
        seen = ks_collector_wait_change(h->collector, seen);
        ko_controller_wake(h->controller);
    }
    return NULL;
}

/* Wake the thread, which then sees `over`, and wait for it. */
static void stop_watching_windows(on_demand_host *h)
{
    kb_store_release(&h->over, true);
    if (!h->follows)
        return;
    ks_collector_wake(h->collector);
    (void)pthread_join(h->follower, NULL);
}

/* With the command that writes the ring; 'ckineto ps' shows the same pid. */
static void report_ring_size(const kc_on_demand_options *o)
{
    char next[80] = "";
    if (request_sources.options.socket)
        snprintf(next, sizeof next, "; next: ckineto trigger --pid %lld --dump --wait", (long long)getpid());
    kc_complain("record: the ring has %llu MiB (--ring-mb) for the last %s seconds%s", (unsigned long long)o->ring_mb,
                o->ring, next);
}

/* Recorder, controller, listeners, then the thread that watches the buffer. What was created before
 * a failure is freed by finish_host. */
static kineto_status start_host(on_demand_host *h, kineto_error *err)
{
    const kc_on_demand_options *o = h->options;
    ko_driver driver;
    ko_controller_options c = {.pid = (uint32_t)h->child->pid,
                               .host = "recorder",
                               .ring = o->ring != NULL,
                               .dump_path = o->output};
    h->recorder_options = (ko_recorder_options){.collector = h->collector, .kinds = o->kinds};
    (void)parse_seconds_ns("ring", o->ring, &h->recorder_options.ring_ns);
    (void)parse_seconds_ns("on-hang", o->hang, &h->recorder_options.hang_ns);
    if (o->slow_step)
        h->recorder_options.slow_step = strtod(o->slow_step, NULL);
    kineto_status status = ko_recorder_create(&h->recorder_options, &h->recorder, err);
    if (status)
        return status;
    ko_recorder_driver(h->recorder, &driver);
    status = ko_controller_create(&c, &driver, &h->controller, err);
    if (status)
        return status;
    (void)ko_controller_watch(h->controller, report_stage, h);
    if (o->ring && !o->quiet)
        report_ring_size(o);
    status = add_end_listener(h, err);
    if (status)
        return status;
    add_request_listeners(h);
    hold_signal(request_sources.options.signal, false);
    int failed = kb_thread_start(&h->follower, watch_windows, h);
    h->follows = failed == 0;
    return failed ? kb_fail_os(err, failed, "cannot start a thread") : KINETO_OK;
}

/* ---- the end --------------------------------------------------------------------------------- */

static kineto_status dump_with_reason(on_demand_host *h, kineto_error *err)
{
    char reason[KC_CHILD_END_BYTES];
    kc_child_describe_end(h->child, reason);
    return ko_controller_dump_because(h->controller, err, "%s", reason);
}

/* Another dump may be running: retry until it is done. */
static void dump_after_crash(on_demand_host *h)
{
    kineto_error err;
    uint64_t until = kb_monotonic_ns() + DUMP_TIMEOUT_NS;
    kineto_status status;
    while ((status = dump_with_reason(h, &err)) == KINETO_E_BUSY && kb_monotonic_ns() < until)
        ko_controller_turn(h->controller, DUMP_RETRY_NS);
    if (status)
        kc_complain("record: the ring could not be written: %s", err.message);
    h->failed |= status != KINETO_OK;
}

/* Where the trace is, its length, and its losses. */
static void report_ring_trace(const on_demand_host *h, const kineto_trace *trace)
{
    const kc_on_demand_options *o = h->options;
    uint64_t count = kineto_trace_count(trace), lost = kineto_trace_lost(trace);
    bool any = ks_collector_has_recorded(h->collector);
    kc_complain("a trace of the program's end is in %s: %s %s of the last %s seconds%s", o->output,
                kc_count(count).s, kc_noun(count, "activity", "activities"), o->ring,
                count ? ""
                : any ? "; its earlier activities need a longer --ring"
                      : "; the program used nothing that ckineto or a plug-in records");
    kc_ring_print(trace, "ckineto: the ring: ", stderr);
    if (lost)
        kc_complain("%s more %s missing; see 'ckineto info %s'", kc_count(lost).s,
                    kc_noun(lost, "event is", "events are"), o->output);
}

/* With --output: build a trace from the ring after the program has ended. */
static void write_final_ring(on_demand_host *h)
{
    kineto_error err;
    kineto_trace *trace = NULL;
    ks_window_cut cut = {0};
    kc_record_note_end(h->collector, h->child);
    kineto_status status = ks_ring_build(h->collector, &cut, &trace, &err);
    if (status == KINETO_OK)
        status = kineto_trace_save(trace, h->options->output, &err);
    if (status)
        kc_complain("record: %s", err.message);
    else if (!h->options->quiet)
        report_ring_trace(h, trace);
    h->failed |= status != KINETO_OK;
    kineto_trace_release(trace);
}

/* In this order: end the buffer, the watching thread, the last dumps, the controller, the recorder.
 */
static void finish_host(on_demand_host *h)
{
    ks_collector_program_ended(h->collector);
    stop_watching_windows(h);
    bool killed = WIFSIGNALED(h->child->status);
    if (killed && h->options->crash && !h->options->output && h->controller) {
        dump_after_crash(h);
    }
    ko_controller_destroy(h->controller);
    if (h->options->ring && h->options->output)
        write_final_ring(h);
    ko_recorder_destroy(h->recorder);
}

/* The program runs on without on-demand tracing. */
static void wait_without_requests(on_demand_host *h)
{
    while (!h->child->done)
        kc_child_wait(h->child, kb_min_u64(ks_collector_poll(h->collector), KB_SECOND_NS));
}

/* If the host cannot be started, the program still runs to its end. */
bool kc_on_demand_run(const kc_on_demand_options *o, ks_collector *c, kc_child *child)
{
    kineto_error err = {0};
    on_demand_host h = {.options = o, .collector = c, .child = child};
    ks_collector_follow(c, (uint32_t)child->pid);
    if (start_host(&h, &err)) {
        kc_complain("record: traces cannot be requested: %s", err.message);
        h.failed = true;
        wait_without_requests(&h);
    }
    while (!child->done)
        ko_controller_turn(h.controller, (int64_t)ks_collector_poll(c));
    finish_host(&h);
    return h.failed;
}

/* This very program, asked for traces of itself: what is recorded, from when to when, by whom, and
 * what keeps it from happening. Traces come through an output of the test's own. */
#include "../unit/unit.h"

#include "base/base.h"
#include "record/record.h"
#include "session/session.h"
#include "../helpers/sessions.h"
#include <ckineto/control.h>
#include <ckineto/host.h>
#include <ckineto/profiler.h>

#include <inttypes.h>
#include <sys/wait.h>
#include <time.h>

#define MS         INT64_C(1000000)
#define PATIENCE_S 60
#define NO_WARMUP  "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"
#define TO_US      "ACTIVITIES_LOG_FILE=probe:here\n"

static kineto_error err;
static char directory[256];

static int64_t now_ns(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }
static void sleep_ms(long ms) { usleep((useconds_t)ms * 1000); }

/* ---- what comes of it ---------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t came;
    kineto_trace *trace; /* the last one */
    kineto_stage last;   /* of the newest ticket */
    uint64_t ticket;
    int64_t collect_ns, process_ns;
    char text[256];
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};

static void on_stage(const kineto_stage_event *e, void *user)
{
    (void)user;
    pthread_mutex_lock(&seen.lock);
    seen.last = e->stage;
    seen.ticket = e->ticket;
    if (e->stage == KINETO_STAGE_COLLECT)
        seen.collect_ns = e->time_ns;
    if (e->stage == KINETO_STAGE_PROCESS)
        seen.process_ns = e->time_ns;
    if (e->text[0])
        snprintf(seen.text, sizeof seen.text, "%s", e->text);
    pthread_cond_broadcast(&seen.came);
    pthread_mutex_unlock(&seen.lock);
}

static bool is_end(kineto_stage stage)
{
    return stage == KINETO_STAGE_WRITTEN || stage == KINETO_STAGE_FAILED ||
           stage == KINETO_STAGE_CANCELLED;
}

static void wait_for(uint64_t ticket, kineto_stage stage)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&seen.lock);
    while (seen.ticket != ticket || (seen.last != stage && !is_end(seen.last)))
        assert_int_equal(pthread_cond_timedwait(&seen.came, &seen.lock, &limit), 0);
    kineto_stage last = seen.last;
    pthread_mutex_unlock(&seen.lock);
    if (last != stage)
        fail_msg("%s instead of %s: %s", kineto_stage_name(last), kineto_stage_name(stage),
                 seen.text);
}

static kineto_status receive(const kineto_trace *trace, const char *url, void *user,
                             kineto_error *e)
{
    (void)url;
    (void)user;
    (void)e;
    pthread_mutex_lock(&seen.lock);
    kineto_trace_release(seen.trace);
    seen.trace = kineto_trace_retain(trace);
    pthread_mutex_unlock(&seen.lock);
    return KINETO_OK;
}

static uint64_t request(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static uint64_t request(const char *fmt, ...)
{
    char text[1024];
    uint64_t ticket = 0;
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (kineto_control_request(text, &ticket, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return ticket;
}

/* ---- what there is to record --------------------------------------------------------------------- */

KINETO_SITE(work_site, KINETO_KIND_CPU_OP, "work");
KINETO_SITE(mark_site, KINETO_KIND_USER_ANNOTATION, "mark");
KINETO_SITE(long_site, KINETO_KIND_CPU_OP, "long");

static bool over;      /* atomic */
static uint32_t loops; /* atomic */

/* Ranges without rest, within one that began long ago. */
static void *work(void *unused)
{
    (void)unused;
    kineto_range outer = 0;
    while (!kb_load_relaxed(&over)) {
        if (!outer)
            outer = kineto_range_begin(&long_site);
        kineto_range r = kineto_range_begin(&work_site);
        struct timespec pause = {0, 50000};
        nanosleep(&pause, NULL);
        kineto_range_end(r);
        kineto_range_end(kineto_range_begin(&mark_site));
        kb_add_relaxed(&loops, 1u);
    }
    kineto_range_end(outer);
    return NULL;
}

static pthread_t worker;

static void wait_loops(uint32_t count)
{
    uint32_t from = kb_load_relaxed(&loops);
    for (int i = 0; i < PATIENCE_S * 1000 && kb_load_relaxed(&loops) - from < count; i++)
        sleep_ms(1);
}

static void work_begin(void)
{
    kb_store_relaxed(&over, false);
    assert_int_equal(pthread_create(&worker, NULL, work, NULL), 0);
    wait_loops(1);
}

static void work_end(void)
{
    kb_store_relaxed(&over, true);
    pthread_join(worker, NULL);
}

static uint64_t count_named(const kineto_trace *t, const char *name)
{
    uint64_t count = 0;
    kineto_activity a;
    for (kineto_row i = 0; i < kineto_trace_count(t); i++) {
        kineto_trace_get(t, i, &a);
        count += kb_string_equal(a.name, kb_string(name));
    }
    return count;
}

static void nothing_is_lost(const kineto_trace *t)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (line.is_loss)
            fail_msg("%.*s: %.*s: %" PRIu64 " (%.*s)", (int)line.source.size, line.source.data,
                     (int)line.reason.size, line.reason.data, line.count, (int)line.detail.size,
                     line.detail.data);
    }
}

/* Exactly then, if recording began early, which the ledger says. A machine may be so busy that it
 * did not. */
static void began_at(const kineto_trace *t, int64_t asked_ns)
{
    int64_t start_ns, end_ns;
    kineto_ledger_line line;
    kineto_string said = {"", 0};
    kineto_trace_window(t, &start_ns, &end_ns);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (kb_string_equal(line.source, kb_string("on demand")))
            said = line.detail;
    }
    assert_true(said.size > 0);
    assert_true(start_ns >= asked_ns);
    if (memmem(said.data, said.size, "before the window", 17))
        assert_int_equal(start_ns, asked_ns);
}

/* ---- windows --------------------------------------------------------------------------------------- */

static void all_lie_within(const kineto_trace *t, int64_t start_ns, int64_t end_ns)
{
    kineto_activity a;
    for (kineto_row i = 0; i < kineto_trace_count(t); i++) {
        kineto_trace_get(t, i, &a);
        assert_true(a.start_ns >= start_ns && a.end_ns <= end_ns);
        if (a.flags & KINETO_ACTIVITY_OPEN_START)
            assert_int_equal(a.start_ns, start_ns);
        if (a.flags & KINETO_ACTIVITY_OPEN_END)
            assert_int_equal(a.end_ns, end_ns);
    }
}

static void a_window_begins_and_ends_exactly_when_it_was_asked_to(void **state)
{
    (void)state;
    int64_t start_ns, end_ns, at_ms = now_ns() / MS + 250;
    work_begin();
    uint64_t ticket = request(
        "PROFILE_START_TIME=%" PRId64 "\nACTIVITIES_DURATION_MSECS=60\n" NO_WARMUP TO_US, at_ms);
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    work_end();
    kineto_trace_window(seen.trace, &start_ns, &end_ns);
    began_at(seen.trace, at_ms * MS);
    assert_int_equal(end_ns, (at_ms + 60) * MS);
    assert_int_equal(seen.collect_ns, at_ms * MS);
    assert_int_equal(seen.process_ns, end_ns);
    nothing_is_lost(seen.trace);
    assert_true(count_named(seen.trace, "long") <= 1);
    all_lie_within(seen.trace, start_ns, end_ns);
}

static void what_is_asked_for_is_recorded_and_nothing_else(void **state)
{
    (void)state;
    work_begin();
    uint64_t ticket = request("ACTIVITIES_DURATION_SECS=600\nACTIVITY_TYPES=user_annotation\n"
                              "REQUEST_TRACE_ID=it's \"me\"\n" NO_WARMUP TO_US);
    wait_for(ticket, KINETO_STAGE_COLLECT);
    wait_loops(5);
    kineto_control_cancel();
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    work_end();
    assert_true(count_named(seen.trace, "mark") > 0);
    assert_int_equal(count_named(seen.trace, "work"), 0);
    kineto_string key, value;
    bool found = false;
    for (uint32_t i = 0; i < kineto_trace_metadata_count(seen.trace); i++) {
        kineto_trace_metadata(seen.trace, i, &key, &value);
        found |= kb_string_equal(key, kb_string("trace_id"));
    }
    assert_true(found);
}

static void a_window_that_is_cancelled_is_written(void **state)
{
    (void)state;
    int64_t start_ns, end_ns;
    work_begin();
    uint64_t ticket = request("ACTIVITIES_DURATION_SECS=600\n" NO_WARMUP TO_US);
    wait_for(ticket, KINETO_STAGE_COLLECT);
    wait_loops(5);
    kineto_control_cancel();
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    work_end();
    kineto_trace_window(seen.trace, &start_ns, &end_ns);
    assert_true(end_ns - start_ns < PATIENCE_S * 1000 * MS);
    assert_true(count_named(seen.trace, "work") > 0);
}

static void iterations_are_whole(void **state)
{
    (void)state;
    kineto_activity a;
    uint32_t steps = 0;
    for (int i = 0; i < 3; i++)
        kineto_profiler_step();
    uint64_t ticket = request("ACTIVITIES_ITERATIONS=3\n" TO_US);
    for (int i = 0; i < 8; i++) {
        sleep_ms(3);
        kineto_profiler_step();
    }
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    for (kineto_row i = 0; i < kineto_trace_count(seen.trace); i++) {
        kineto_trace_get(seen.trace, i, &a);
        if (!kb_string_starts_with(a.name, "ProfilerStep#"))
            continue;
        steps++;
        assert_int_equal(a.flags & (KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END), 0);
    }
    assert_int_equal(steps, 3);
}

/* A process that has been there for days: its first session's clock and the wall clock are seconds
 * apart by now. Windows are times of the wall clock. */
static void windows_go_by_the_wall_clock_of_today(void **state)
{
    (void)state;
    int64_t start_ns, end_ns;
    kb_clock_snapshot *first = &kineto_rt_pool()->control->snapshots[0];
    first->realtime_ns -= 3000 * MS;
    work_begin();
    int64_t at_ms = now_ns() / MS + 150;
    uint64_t ticket = request(
        "PROFILE_START_TIME=%" PRId64 "\nACTIVITIES_DURATION_MSECS=40\n" NO_WARMUP TO_US, at_ms);
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    work_end();
    first->realtime_ns += 3000 * MS;
    kineto_trace_window(seen.trace, &start_ns, &end_ns);
    began_at(seen.trace, at_ms * MS);
    assert_int_equal(end_ns, (at_ms + 40) * MS);
    all_lie_within(seen.trace, start_ns, end_ns);
}

/* Recording begins early; a thread that records much meanwhile must not fill the buffer. */
static void what_comes_before_the_window_takes_no_room(void **state)
{
    (void)state;
    kineto_session_options options;
    kineto_session *s;
    kineto_trace *t;
    ks_extras extras = {.armed = true, .grows = true};
    kineto_session_options_init(&options);
    options.buffer_bytes = (size_t)1 << 20;
    assert_int_equal(ks_session_prepare(&options, &extras, &s, &err), KINETO_OK);
    assert_int_equal(kineto_session_start(s, &err), KINETO_OK);
    for (int i = 0; i < 1000000; i++)
        kineto_range_end(kineto_range_begin(&work_site));
    int64_t start_ns = now_ns();
    ks_session_keep(s, start_ns, 0);
    for (int i = 0; i < 1000; i++)
        kineto_range_end(kineto_range_begin(&mark_site));
    assert_int_equal(ks_session_end(s, &err), KINETO_OK);
    assert_int_equal(ks_session_end(s, &err), KINETO_E_STATE);
    ks_session_extras(s)->from_ns = start_ns;
    kineto_range_end(kineto_range_begin(&mark_site)); /* too late */
    assert_int_equal(kineto_session_stop(s, &t, &err), KINETO_OK);
    assert_int_equal(count_named(t, "mark"), 1000);
    nothing_is_lost(t);
    kineto_trace_release(t);
    kineto_session_destroy(s);
}

/* ---- devices --------------------------------------------------------------------------------------- */

static struct {
    uint32_t created, started, stopped;
    const KinetoPlugin_TraceBuilder *builder; /* atomic */
    char config[256];
} device;

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    snprintf(p->pProfilerName, p->profilerNameMaxLen, "test device");
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    p->pSupportedActivityTypes[1] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME;
    return 0;
}
static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    device.created++;
    snprintf(device.config, sizeof device.config, "%s", p->pCustomConfig);
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)&device;
    return 0;
}
static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    device.started++;
    kb_store_release(&device.builder, p->pLiveBuilder);
    return 0;
}
static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    device.stopped++;
    return 0;
}
static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    (void)p;
    return 0;
}
static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    kb_store_release(&device.builder, (const KinetoPlugin_TraceBuilder *)NULL);
    return 0;
}
static const KinetoPlugin_ProfilerInterface calls = {.unpaddedStructSize = sizeof calls,
                                                     .profilerQuery = query,
                                                     .profilerCreate = create,
                                                     .profilerDestroy = destroy,
                                                     .profilerStart = start,
                                                     .profilerStop = stop,
                                                     .profilerProcessEvents = process};

static void kernel(void)
{
    const KinetoPlugin_TraceBuilder *b = kb_load_acquire(&device.builder);
    if (!b)
        return;
    int64_t ticks = (int64_t)b->hostTicks(b->pTraceBuilderHandle);
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                  .startTimeUtcNs = ticks,
                  .endTimeUtcNs = ticks + 10,
                  .resourceId = 7},
        .clock = KINETO_PLUGIN_CLOCK_TICKS,
        .nameSize = 6,
        .pName = "kernel"};
    (void)b->emit(b->pTraceBuilderHandle, &a);
}

/* Kernels come all the time; those before the window are in no trace, and the device is not stopped
 * and started again when the window begins. */
static void devices_warm_up_and_go_on(void **state)
{
    (void)state;
    int64_t start_ns, end_ns, at_ms = now_ns() / MS + 300;
    kineto_activity a;
    memset(&device, 0, sizeof device);
    assert_int_equal(kineto_privateuse1_register(&calls), KINETO_OK);
    uint64_t ticket = request("PROFILE_START_TIME=%" PRId64 "\nACTIVITIES_DURATION_MSECS=60\n"
                              "CUSTOM_CONFIG=color=blue\n" TO_US,
                              at_ms);
    wait_for(ticket, KINETO_STAGE_WARMUP);
    assert_int_equal(device.started, 1);
    uint32_t warm = 0;
    for (; now_ns() < (at_ms + 80) * MS; warm++) {
        kernel();
        usleep(200);
    }
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
    assert_int_equal(device.created, 1);
    assert_int_equal(device.stopped, 1);
    assert_non_null(strstr(device.config, "color=blue"));
    kineto_trace_window(seen.trace, &start_ns, &end_ns);
    uint64_t kernels = count_named(seen.trace, "kernel");
    assert_true(kernels < warm);
    for (kineto_row i = 0; i < kineto_trace_count(seen.trace); i++) {
        kineto_trace_get(seen.trace, i, &a);
        assert_true(a.end_ns >= start_ns && a.start_ns <= end_ns);
    }
}

/* ---- the front end --------------------------------------------------------------------------------- */

static uint64_t shown;
static void on_ready(const kineto_trace *trace, void *user)
{
    (void)user;
    shown += kineto_trace_count(trace);
}

static void who_drives_profilers_on_demand_sees_the_trace(void **state)
{
    (void)state;
    shown = 0;
    work_begin();
    kineto_ondemand_set_ready(on_ready, NULL);
    uint64_t ticket = request("ACTIVITIES_DURATION_MSECS=30\n" NO_WARMUP TO_US);
    wait_for(ticket, KINETO_STAGE_COLLECT);
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_KINETO);
    /* No other may end it. */
    assert_int_equal(kineto_profiler_disable(NULL, NULL), KINETO_E_STATE);
    assert_int_equal(kineto_ondemand_stop(NULL), KINETO_E_STATE);
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    kineto_ondemand_set_ready(NULL, NULL);
    work_end();
    assert_int_equal(shown, kineto_trace_count(seen.trace));
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_NONE);
}

static void a_profile_of_the_program_itself_comes_first(void **state)
{
    (void)state;
    kineto_profiler_config c;
    kineto_profiler_result *r;
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO);
    uint64_t ticket = request("ACTIVITIES_DURATION_SECS=600\n" NO_WARMUP TO_US);
    wait_for(ticket, KINETO_STAGE_COLLECT);
    assert_int_equal(kineto_profiler_enable(&c, KINETO_ACTIVITY_SET(CPU), 0, &err), KINETO_OK);
    wait_for(ticket, KINETO_STAGE_CANCELLED);
    assert_int_equal(kineto_control_request(NO_WARMUP TO_US, NULL, &err), KINETO_E_BUSY);
    assert_int_equal(kineto_profiler_disable(&r, &err), KINETO_OK);
    kineto_profiler_result_release(r);
    /* A session is only another window. */
    kineto_session *s;
    assert_int_equal(begin_session(NULL, &s, &err), KINETO_OK);
    ticket = request("ACTIVITIES_DURATION_MSECS=20\n" NO_WARMUP TO_US);
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    assert_int_equal(end_session(s, NULL, &err), KINETO_OK);
}

/* ---- begin and end ----------------------------------------------------------------------------------- */

static void what_cannot_be_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    kineto_control_options o;
    kineto_control_options_init(&o);
    assert_int_equal(kineto_control_request(NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_control_request("ACTIVITIES_ENABLED=maybe\n", NULL, &err),
                     KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "line 1"));
    o.size = 1;
    assert_int_equal(kineto_control_start(&o, &err), KINETO_E_ARGUMENT);
    o.size = sizeof o;
    o.ring_seconds = -1;
    assert_int_equal(kineto_control_start(&o, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_control_dump(NULL, &err), KINETO_E_STATE);
    kineto_control_cancel();
    assert_false(kineto_control_running());
    kineto_control_stop();
    kineto_control_stop();
    assert_int_equal(kineto_control_start(NULL, &err), KINETO_OK); /* no process is named */
    assert_false(kineto_control_running());
}

static void it_listens_until_it_is_stopped(void **state)
{
    (void)state;
    char path[300];
    kineto_control_options o;
    kineto_control_options_init(&o);
    snprintf(path, sizeof path, "%s/ckineto/%d.sock", directory, (int)getpid());
    o.socket = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kineto_control_start(&o, &err), KINETO_OK);
        assert_true(kineto_control_running());
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(kineto_control_start(&o, &err), KINETO_E_STATE);
        if (i == 1) { /* it waits, and never comes */
            uint64_t ticket =
                request("PROFILE_START_TIME=%" PRId64 "\n" TO_US, now_ns() / MS + 600000);
            wait_for(ticket, KINETO_STAGE_ACCEPTED);
        }
        kineto_control_stop();
        assert_false(kineto_control_running());
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_int_equal(seen.last, KINETO_STAGE_CANCELLED);
}

/* ---- forks ------------------------------------------------------------------------------------------- */

static kineto_status be_slow(const kineto_trace *trace, const char *url, void *user,
                             kineto_error *e)
{
    (void)trace;
    (void)url;
    (void)user;
    (void)e;
    sleep_ms(150);
    return KINETO_OK;
}

/* The child begins anew, whatever its parent's threads were at. */
static void child(void)
{
    char path[300];
    alarm(PATIENCE_S);
    snprintf(path, sizeof path, "%s/ckineto/%d.sock", directory, (int)getpid());
    if (access(path, F_OK) == 0)
        _exit(1);
    kineto_profiler_step();
    if (!kineto_control_running() || access(path, F_OK) != 0)
        _exit(2);
    seen.trace = NULL;
    pthread_mutex_init(&seen.lock, NULL);
    pthread_cond_init(&seen.came, NULL);
    uint64_t ticket = 0;
    if (kineto_control_request("ACTIVITIES_DURATION_MSECS=20\n" NO_WARMUP TO_US, &ticket, &err))
        _exit(3);
    wait_for(ticket, KINETO_STAGE_WRITTEN);
    kineto_control_stop();
    _exit(seen.trace ? 0 : 4);
}

static void children_of_a_fork_are_asked_for_themselves(void **state)
{
    (void)state;
    int status;
    HAS_ONE_THREAD(); /* it does not allow for threads of a fork's child */
    kineto_control_options o;
    kineto_control_options_init(&o);
    o.socket = true;
    assert_int_equal(kineto_output_register("slow", be_slow, NULL, false, &err), KINETO_OK);
    assert_int_equal(kineto_control_start(&o, &err), KINETO_OK);
    static const struct {
        int length_ms;
        kineto_stage stage; /* when to fork */
    } rounds[] = {
        {100, KINETO_STAGE_COLLECT}, {1, KINETO_STAGE_PROCESS}, {1, KINETO_STAGE_WRITTEN}};
    for (size_t i = 0; i < KB_COUNT(rounds); i++) {
        uint64_t ticket =
            request("ACTIVITIES_DURATION_MSECS=%d\n" NO_WARMUP "ACTIVITIES_LOG_FILE=slow:here\n",
                    rounds[i].length_ms);
        wait_for(ticket, rounds[i].stage);
        pid_t pid = fork();
        if (pid == 0)
            child();
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        wait_for(ticket, KINETO_STAGE_WRITTEN);
    }
    kineto_control_stop();
    kineto_output_unregister("slow");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_begins_and_ends_exactly_when_it_was_asked_to),
        cmocka_unit_test(what_is_asked_for_is_recorded_and_nothing_else),
        cmocka_unit_test(a_window_that_is_cancelled_is_written),
        cmocka_unit_test(iterations_are_whole),
        cmocka_unit_test(windows_go_by_the_wall_clock_of_today),
        cmocka_unit_test(what_comes_before_the_window_takes_no_room),
        cmocka_unit_test(devices_warm_up_and_go_on),
        cmocka_unit_test(who_drives_profilers_on_demand_sees_the_trace),
        cmocka_unit_test(a_profile_of_the_program_itself_comes_first),
        cmocka_unit_test(what_cannot_be_is_refused_and_changes_nothing),
        cmocka_unit_test(it_listens_until_it_is_stopped),
        cmocka_unit_test(children_of_a_fork_are_asked_for_themselves),
    };
    if (!make_directory(directory, sizeof directory))
        return 1;
    setenv("XDG_RUNTIME_DIR", directory, 1);
    setenv("KINETO_IPC_SOCKET_DIR", directory, 1);
    setenv("KINETO_CONFIG", "/nonexistent", 1);
    setenv("KINETO_LOG_LEVEL", "4", 1);
    unsetenv("KINETO_USE_DAEMON");
    unsetenv("CKINETO_CONTROL");
    if (kineto_output_register("probe", receive, NULL, false, NULL) ||
        kineto_control_add_observer(on_stage, NULL, NULL))
        return 1;
    int failed = RUN_TESTS(tests);
    kineto_control_stop();
    kineto_trace_release(seen.trace);
    char path[300];
    snprintf(path, sizeof path, "%s/ckineto", directory);
    (void)rmdir(path);
    (void)rmdir(directory);
    return failed;
}

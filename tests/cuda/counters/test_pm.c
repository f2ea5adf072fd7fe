/* PM sampling, against a stand-in for CUPTI's and a host that stores what it receives. */
#include "../../unit/unit.h"

#include "fake_host.h"
#include "fake_pm.h"
#include "pm.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>

#define SET     "PM sampling"
#define SM      "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
#define DRAM    "dramc__read_bytes.sum"
#define STEP_NS INT64_C(1000000)

static fake_pm *control;
static char why[CP_TEXT_BYTES];

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void use_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *version = dlsym(library, "cuptiGetVersion"), *found = dlsym(library, FAKE_PM_SYMBOL);
    assert_non_null(version);
    memcpy(&cp_cupti.get_version, &version, sizeof version);
    if (found)
        control = found;
}

static int fresh(void **state)
{
    (void)state;
    use_library(FAKE_PM_LIBRARY);
    memset((void *)control, 0, sizeof *control);
    control->step_ns = STEP_NS;
    cuda_new(2);
    host_new();
    why[0] = '\0';
    return 0;
}

static cp_options metrics(const char *names)
{
    cp_options o = {.types = UINT64_C(1) << KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                    .pm_interval_us = 1000};
    snprintf(o.pm_metrics, sizeof o.pm_metrics, "%s", names);
    return o;
}

/* Samples of a GPU that has been working for `count` intervals, in a clock. */
static void fill(clockid_t id, long long count)
{
    control->first_ns = clock_ns(id);
    control->step_ns = 1000; /* so that they lie within the session */
    control->available = count;
}

static void start(fake_host *host, const char *names)
{
    cp_options options = metrics(names);
    if (!cp_pm_start(&options, &host->builder, why))
        fail_msg("%s", why);
}

static void stop(void)
{
    cp_pm_stop();
    assert_int_equal(control->wrong, 0);
    assert_int_equal(control->hosts, 0);
    assert_int_equal(control->samplers, 0);
    assert_int_equal(control->running, 0);
}

static void refused(fake_host *host, const char *names, const char *part)
{
    cp_options options = metrics(names);
    assert_false(cp_pm_start(&options, &host->builder, why));
    if (!strstr(why, part))
        fail_msg("'%s' does not say '%s'", why, part);
    stop();
}

/* ---- samples -------------------------------------------------------------------------------------- */

static void each_metric_is_a_series_with_its_unit(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, SM ", " DRAM ",,sys__cycles_elapsed.avg.per_second,dram__bytes.sum.per_second," SM);
    fill(CLOCK_REALTIME, 10);
    host_wait(SET, 0, 9);
    stop();
    const host_set *set = host_find(SET, 0);
    static const char *const units[] = {"%", "bytes", "Hz", "bytes/s"};
    assert_int_equal(set->series_count, CP_COUNT(units)); /* SM once */
    assert_string_equal(set->series[0], SM);
    for (size_t i = 0; i < CP_COUNT(units); i++)
        assert_string_equal(set->units[i], units[i]);
    assert_int_equal(set->value_type, KINETO_PLUGIN_VALUE_DOUBLE);
    assert_int_equal(set->type, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER);
    assert_int_equal(host->line_count, 0);
}

static void all_samples_but_the_first_arrive_once_and_in_order(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, SM "," DRAM);
    fill(CLOCK_REALTIME, 5000);
    int64_t first = control->first_ns;
    host_wait(SET, 0, 4999);
    stop();
    const host_set *set = host_find(SET, 0);
    assert_int_equal(set->samples, 4999);
    assert_int_equal(host->requested, 4999);
    assert_int_equal(set->backwards, 0);
    assert_true(set->first_time == first + 1000 && set->last_time == first + 4999 * 1000);
    assert_true(set->first[0] == 100 && set->first[1] == 101);
    assert_true(set->last[0] == 499900 && set->last[1] == 499901);
}

static void what_is_left_at_stop_is_decoded(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options options = metrics(SM);
    options.pm_interval_us = 60000000; /* the thread looks, and then not for a while */
    assert_true(cp_pm_start(&options, &host->builder, why));
    for (int i = 0; i < 20000 && !control->calls[FAKE_PM_decode]; i++)
        usleep(1000);
    fill(CLOCK_REALTIME, 3000);
    stop();
    assert_int_equal(host_samples(SET, 0), 2999);
    assert_int_equal(host->line_count, 0);
}

static void a_buffer_without_end_does_not_hold_up_stop(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, SM);
    control->endless = 1;
    fill(CLOCK_REALTIME, 1024);
    stop();
    assert_non_null(host_line_of("PM samples not decoded"));
}

static void an_overrun_of_the_buffer_is_said(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, SM);
    control->overflow = 1;
    fill(CLOCK_REALTIME, 100);
    host_wait(SET, 0, 99);
    stop();
    assert_true(host_line_of("PM samples overwritten")->is_loss);
    assert_int_equal(host_samples(SET, 0), 99);
}

static void the_interval_and_the_device_are_as_asked(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options options = metrics(SM);
    options.pm_device = 1;
    options.pm_interval_us = 250;
    assert_true(cp_pm_start(&options, &host->builder, why));
    stop();
    assert_int_equal(control->device, 1);
    assert_int_equal(control->interval, 250000);
    assert_int_equal(control->trigger, CP_PM_TRIGGER_TIME);
    assert_int_equal(control->append, CP_PM_KEEP_LATEST);
    assert_non_null(host_find(SET, 1));
}

static void older_gpus_count_in_cycles(void **state)
{
    (void)state;
    static const struct {
        int32_t major, minor, trigger, append;
    } cases[] = {{7, 5, CP_PM_TRIGGER_SYSTEM_CLOCK, CP_PM_KEEP_OLDEST},
                 {8, 0, CP_PM_TRIGGER_SYSTEM_CLOCK, CP_PM_KEEP_LATEST},
                 {8, 6, CP_PM_TRIGGER_TIME, CP_PM_KEEP_LATEST}};
    for (size_t i = 0; i < CP_COUNT(cases); i++) {
        fake_host *host = host_new();
        cuda.device[0].major = cases[i].major;
        cuda.device[0].minor = cases[i].minor;
        start(host, SM);
        stop();
        assert_int_equal(control->trigger, cases[i].trigger);
        assert_int_equal(control->append, cases[i].append);
        assert_int_equal(host_line_of("PM sampling by cycles") != NULL,
                         cases[i].trigger == CP_PM_TRIGGER_SYSTEM_CLOCK);
    }
}

/* ---- the clock ------------------------------------------------------------------------------------ */

static int32_t clock_used(int64_t first)
{
    fake_host *host = host_new();
    use_library(FAKE_PM_LIBRARY);
    start(host, SM);
    control->first_ns = first;
    control->step_ns = 1000;
    control->available = 10;
    host_wait(SET, 0, 9);
    stop();
    return host_find(SET, 0)->clock;
}

static void the_clock_of_the_samples_is_found(void **state)
{
    (void)state;
    fake_host *host = host_new();
    assert_int_equal(clock_used(clock_ns(CLOCK_REALTIME)), KINETO_PLUGIN_CLOCK_UTC);
    assert_int_equal(clock_used((int64_t)host->builder.hostTicks(NULL)), KINETO_PLUGIN_CLOCK_TICKS);
    int32_t raw = clock_used(clock_ns(CLOCK_MONOTONIC_RAW));
    assert_true(raw == KINETO_PLUGIN_CLOCK_MONOTONIC_RAW || raw == KINETO_PLUGIN_CLOCK_MONOTONIC);
    assert_int_equal(host->clock_samples, 0);
    /* what has yet to come was not sampled */
    int64_t later = clock_ns(CLOCK_REALTIME) + INT64_C(3600000000000);
    assert_int_equal(clock_used(later), KINETO_PLUGIN_CLOCK_DEVICE);
}

static void an_unknown_clock_is_fitted_and_reported(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, SM);
    control->first_ns = INT64_C(1234567890123);
    control->step_ns = 1000;
    for (uint64_t round = 1; round <= 3; round++) {
        control->available = 10;
        host_wait(SET, 0, 10 * round - 1);
    }
    stop();
    assert_int_equal(host_find(SET, 0)->clock, KINETO_PLUGIN_CLOCK_DEVICE);
    assert_true(host->clock_samples >= 3);
    assert_int_equal(host->moved, host->clock_samples);
    assert_int_equal(host->narrow, 0);
    assert_non_null(host_line_of("clock of PM samples"));
}

static void times_that_make_no_sense_are_counted(void **state)
{
    (void)state;
    static const long long firsts[] = {0, -5000, INT64_MIN};
    for (size_t i = 0; i < CP_COUNT(firsts); i++) {
        fake_host *host = host_new();
        start(host, SM);
        control->first_ns = firsts[i];
        control->step_ns = 0;
        control->available = 4;
        for (int k = 0; k < 20000 && control->available; k++)
            usleep(1000);
        stop();
        assert_int_equal(host_line_of("PM samples without values")->count, 4);
    }
}

/* ---- refusals ------------------------------------------------------------------------------------- */

static void nothing_happens_where_it_is_not_asked_for(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options off = metrics(""), other_kinds = metrics(SM);
    other_kinds.types = 1u << KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    assert_true(cp_pm_start(&off, &host->builder, why));
    assert_true(cp_pm_start(&other_kinds, &host->builder, why));
    stop();
    assert_int_equal(control->calls[FAKE_PM_initialize], 0);
    assert_int_equal(host->set_count, 0);
}

static void what_cannot_be_sampled_is_explained(void **state)
{
    (void)state;
    fake_host *host = host_new();
    refused(host, SM ",no__such.avg", "no metric 'no__such.avg'");
    refused(host, " , ,", "names no metric");
    control->passes = 3;
    refused(host, SM "," DRAM, "3 passes");
    control->passes = 0;
    cuda.device[0].major = 7;
    refused(host, SM, "7.5 is needed");
    cuda.devices = 0;
    refused(host, SM, "no device 0");
    cuda_new(1);
    host->set_room = 0;
    refused(host, SM, "no space");
    host->builder.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, emit);
    refused(host, SM, "too old");
}

static void too_many_metrics_are_refused(void **state)
{
    (void)state;
    char names[512] = "";
    for (int i = 0; i <= KINETO_PLUGIN_MAX_SERIES; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "m%d,", i);
    refused(host_new(), names, "use at most 64");
}

static void a_cupti_without_pm_sampling_is_distinguished_from_one_with(void **state)
{
    (void)state;
    use_library(OLD_CUPTI_LIBRARY);
    refused(host_new(), SM, "CUDA 12.6 or later");
    cp_cupti.get_version = NULL;
    refused(host_new(), SM, "CUDA 12.6 or later");
}

static void results_of_cupti_become_sentences(void **state)
{
    (void)state;
    static const struct {
        cp_result result;
        const char *part;
    } cases[] = {{CP_ERROR_INSUFFICIENT_PRIVILEGES, "NVreg_RestrictProfilingToAdminUsers=0"},
                 {CP_ERROR_INVALID_OPERATION, "another tool"},
                 {CP_ERROR_HARDWARE_BUSY, "another profiler"},
                 {CP_ERROR_MIG_DEVICE_NOT_SUPPORTED, "MIG"},
                 {CP_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED, "virtual GPU"},
                 {CP_ERROR_INVALID_CHIP_NAME, "newer CUDA"},
                 {CP_ERROR_UNKNOWN, "(enable): "}};
    for (size_t i = 0; i < CP_COUNT(cases); i++) {
        control->fails[FAKE_PM_enable] = cases[i].result;
        refused(host_new(), SM, cases[i].part);
    }
}

/* The calls that end something, and those of decoding, cannot be refused at the start. */
static bool is_of_start(int call)
{
    return call != FAKE_PM_host_deinitialize && call != FAKE_PM_metric && call != FAKE_PM_stop &&
           call != FAKE_PM_disable && call != FAKE_PM_decode && call != FAKE_PM_image_info &&
           call != FAKE_PM_sample && call != FAKE_PM_evaluate;
}

static void each_call_may_fail(void **state)
{
    (void)state;
    for (int call = 0; call < FAKE_PM_CALLS; call++) {
        fresh(NULL);
        fake_host *host = host_new();
        cp_options options = metrics(SM);
        control->fails[call] = CP_ERROR_UNKNOWN;
        assert_int_equal(cp_pm_start(&options, &host->builder, why), !is_of_start(call));
        assert_int_equal(why[0] != '\0', is_of_start(call));
        if (!is_of_start(call))
            fill(CLOCK_REALTIME, 10);
        stop();
        if (call == FAKE_PM_decode || call == FAKE_PM_image_info)
            assert_non_null(host_line_of("PM sampling ended early"));
        if (call == FAKE_PM_sample || call == FAKE_PM_evaluate)
            assert_int_equal(host_line_of("PM samples without values")->count, 10);
    }
}

static void sampling_begins_when_the_program_has_started_cuda(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cuda.result = 3; /* not initialized */
    start(host, SM);
    usleep(20000);
    assert_int_equal(control->calls[FAKE_PM_initialize], 0);
    cuda.result = 0;
    for (int i = 0; i < 20000 && !control->running; i++)
        usleep(1000);
    fill(CLOCK_REALTIME, 10);
    host_wait(SET, 0, 9);
    stop();
    assert_int_equal(host_samples(SET, 0), 9);
    assert_int_equal(host->line_count, 0);
}

static void what_is_refused_later_stands_in_the_ledger(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cuda.result = 3;
    start(host, SM);
    stop();
    assert_non_null(strstr(host_line_of("no PM sampling")->detail, "did not initialise CUDA"));
    for (int call = 0; call < FAKE_PM_CALLS; call++) {
        if (!is_of_start(call))
            continue;
        fresh(NULL);
        host = host_new();
        control->fails[call] = CP_ERROR_INSUFFICIENT_PRIVILEGES;
        cuda.result = 3;
        start(host, SM);
        cuda.result = 0;
        for (int i = 0; i < 20000 && !control->calls[call]; i++)
            usleep(1000);
        stop();
        assert_non_null(strstr(host_line_of("no PM sampling")->detail, "NVreg"));
    }
}

/* ---- life ----------------------------------------------------------------------------------------- */

static void a_hundred_sessions_leave_no_files(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        fake_host *host = host_new();
        cp_options options = metrics(SM);
        start(host, SM);
        assert_false(cp_pm_start(&options, &host->builder, why));
        stop();
        stop(); /* one too many does no harm */
    }
    assert_int_equal(control->calls[FAKE_PM_enable], 100);
}

static void a_fork_leaves_sampling_to_the_parent(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, SM);
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        int before = control->calls[FAKE_PM_stop] + control->calls[FAKE_PM_disable];
        cp_pm_stop();
        _exit(control->calls[FAKE_PM_stop] + control->calls[FAKE_PM_disable] != before);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fill(CLOCK_REALTIME, 10);
    host_wait(SET, 0, 9);
    stop();
    assert_int_equal(host_samples(SET, 0), 9);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {
        T(each_metric_is_a_series_with_its_unit),
        T(all_samples_but_the_first_arrive_once_and_in_order),
        T(what_is_left_at_stop_is_decoded),
        T(a_buffer_without_end_does_not_hold_up_stop),
        T(an_overrun_of_the_buffer_is_said),
        T(the_interval_and_the_device_are_as_asked),
        T(older_gpus_count_in_cycles),
        T(the_clock_of_the_samples_is_found),
        T(an_unknown_clock_is_fitted_and_reported),
        T(times_that_make_no_sense_are_counted),
        T(nothing_happens_where_it_is_not_asked_for),
        T(what_cannot_be_sampled_is_explained),
        T(too_many_metrics_are_refused),
        T(a_cupti_without_pm_sampling_is_distinguished_from_one_with),
        T(results_of_cupti_become_sentences),
        T(each_call_may_fail),
        T(sampling_begins_when_the_program_has_started_cuda),
        T(what_is_refused_later_stands_in_the_ledger),
        T(a_hundred_sessions_leave_no_files),
        T(a_fork_leaves_sampling_to_the_parent),
    };
    return RUN_TESTS(tests);
}

/* Power and such, against a stand-in for NVML and a host that stores what it receives. */
#include "../../unit/unit.h"

#include "fake_host.h"
#include "fake_nvml.h"
#include "nvml.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static fake_nvml *control;
static char why[CP_TEXT_BYTES];

static cp_options every(uint32_t ms)
{
    return (cp_options){.types = UINT64_C(1) << KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                        .nvml_interval_ms = ms};
}

static int fresh(void **state)
{
    (void)state;
    void *library = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    control = dlsym(library, FAKE_NVML_SYMBOL);
    assert_non_null(control);
    memset((void *)control, 0, sizeof *control);
    control->gpus = FAKE_GPUS;
    setenv("CKINETO_NVML_LIBRARY", FAKE_NVML_LIBRARY, 1);
    cuda_new(FAKE_GPUS);
    host_new();
    why[0] = '\0';
    return 0;
}

static void start(fake_host *host, uint32_t ms)
{
    cp_options options = every(ms);
    if (!cp_nvml_start(&options, &host->builder, why))
        fail_msg("%s", why);
}

static void run_for(fake_host *host, const char *set, int32_t device, uint64_t samples)
{
    start(host, 1);
    host_wait(set, device, samples);
    cp_nvml_stop();
    assert_int_equal(control->users, 0);
}

/* ---- starting ------------------------------------------------------------------------------------- */

/* First of all: once a library is open it stays. */
static void a_library_that_cannot_be_opened_is_named(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options options = every(1);
    setenv("CKINETO_NVML_LIBRARY", "/nowhere/libnvidia-ml.so.1", 1);
    assert_false(cp_nvml_start(&options, &host->builder, why));
    assert_non_null(strstr(why, "CKINETO_NVML_LIBRARY"));
    assert_non_null(strstr(why, "/nowhere/libnvidia-ml.so.1"));
    setenv("CKINETO_NVML_LIBRARY", NOT_NVML_LIBRARY, 1);
    assert_false(cp_nvml_start(&options, &host->builder, why));
    assert_non_null(strstr(why, "nvmlInit_v2"));
    cp_nvml_stop();
    assert_int_equal(host->set_count, 0);
}

static void nothing_happens_where_it_is_not_asked_for(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options off = every(0), other_kinds = every(1);
    other_kinds.types = 1u << KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    assert_true(cp_nvml_start(&off, &host->builder, why));
    assert_true(cp_nvml_start(&other_kinds, &host->builder, why));
    cp_nvml_stop();
    assert_int_equal(control->calls[FAKE_NVML_init], 0);
    assert_int_equal(host_lines(), 0);
}

static void what_init_says_becomes_a_sentence(void **state)
{
    (void)state;
    static const struct {
        int result;
        const char *part;
    } cases[] = {{CP_NVML_NO_PERMISSION, "permission"},
                 {CP_NVML_DRIVER_NOT_LOADED, "not loaded"},
                 {CP_NVML_VERSION_MISMATCH, "different versions"},
                 {CP_NVML_OPERATING_SYSTEM, "container"},
                 {CP_NVML_LIBRARY_NOT_FOUND, "reinstall"},
                 {CP_NVML_UNKNOWN, "Unknown Error"}};
    fake_host *host = host_new();
    cp_options options = every(1);
    for (size_t i = 0; i < CP_COUNT(cases); i++) {
        control->fails[FAKE_NVML_init] = cases[i].result;
        assert_false(cp_nvml_start(&options, &host->builder, why));
        assert_non_null(strstr(why, cases[i].part));
        cp_nvml_stop();
    }
    assert_int_equal(control->users, 0);
    assert_int_equal(control->calls[FAKE_NVML_shutdown], 0);
}

static void an_old_host_is_reported(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options options = every(1);
    host->builder.unpaddedStructSize =
        KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, registerCounters);
    assert_false(cp_nvml_start(&options, &host->builder, why));
    assert_non_null(strstr(why, "too old"));
    /* One without a ledger is new enough, and ledger lines for it are dropped. */
    host->builder.unpaddedStructSize =
        KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addCounterSamples);
    control->fails[FAKE_NVML_energy] = CP_NVML_NOT_SUPPORTED;
    run_for(host, "GPU power", 0, 1);
    assert_int_equal(host_lines(), 0);
    assert_true(host_samples("GPU power", 0) >= 1);
}

static void a_second_start_is_refused_and_leaves_the_first(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_options options = every(1);
    start(host, 1);
    assert_false(cp_nvml_start(&options, &host->builder, why));
    host_wait("GPU power", 0, 1);
    cp_nvml_stop();
    assert_int_equal(control->calls[FAKE_NVML_init], 1);
    assert_int_equal(control->users, 0);
}

/* ---- values --------------------------------------------------------------------------------------- */

static void series_is(const char *name, int32_t device, const char *series, const char *unit,
                      double v)
{
    const host_set *set = host_find(name, device);
    assert_non_null(set);
    int i = host_series(set, series);
    assert_true(i >= 0);
    assert_string_equal(set->units[i], unit);
    assert_true(set->last[i] == v);
}

static void every_gpu_has_its_counters_with_units(void **state)
{
    (void)state;
    fake_host *host = host_new();
    run_for(host, "GPU energy", 2, 5);
    assert_int_equal(host->set_count, FAKE_GPUS * CP_NVML_SETS);
    for (int n = 0; n < FAKE_GPUS; n++) {
        series_is("GPU power", n, "power", "W", 100.5 + n);
        series_is("GPU power", n, "power limit", "W", 700);
        series_is("GPU clocks", n, "SM clock", "MHz", 1010 + n);
        series_is("GPU clocks", n, "memory clock", "MHz", 1020 + n);
        series_is("GPU clocks", n, "graphics clock", "MHz", 1000 + n);
        series_is("GPU utilization", n, "GPU busy", "%", 90 + n);
        series_is("GPU utilization", n, "memory busy", "%", 40);
        series_is("GPU memory", n, "memory used", "bytes", 1ull << 30);
        series_is("GPU memory", n, "memory free", "bytes", 79ull << 30);
        series_is("GPU temperature", n, "temperature", "C", 55 + n);
        series_is("GPU slowdown", n, "slow for power", "", 1);
        series_is("GPU slowdown", n, "slow for heat", "", 0);
    }
    assert_int_equal(host_lines(), 0);
    uint64_t samples = 0;
    for (uint32_t i = 0; i < host->set_count; i++) {
        assert_int_equal(host->sets[i].type, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER);
        samples += host->sets[i].samples;
    }
    assert_int_equal(host->requested, samples);
}

static void energy_only_grows(void **state)
{
    (void)state;
    fake_host *host = host_new();
    run_for(host, "GPU energy", 1, 40);
    const host_set *set = host_find("GPU energy", 1);
    assert_string_equal(set->units[0], "J");
    assert_true(set->first[0] >= 1000 && set->last[0] > set->first[0]);
}

static void times_are_host_ticks_inside_the_session(void **state)
{
    (void)state;
    fake_host *host = host_new();
    int64_t before = (int64_t)host->builder.hostTicks(NULL);
    run_for(host, "GPU power", 0, 3);
    int64_t after = (int64_t)host->builder.hostTicks(NULL);
    for (uint32_t i = 0; i < host->set_count; i++) {
        const host_set *set = &host->sets[i];
        assert_int_equal(set->clock, KINETO_PLUGIN_CLOCK_TICKS);
        assert_true(set->first_time > before && set->last_time < after);
        assert_int_equal(set->backwards, 0);
    }
}

static void samples_go_to_the_host_in_batches(void **state)
{
    (void)state;
    fake_host *host = host_new();
    run_for(host, "GPU slowdown", 2, 96);
    uint64_t samples = 0;
    for (uint32_t i = 0; i < host->set_count; i++)
        samples += host->sets[i].samples;
    assert_true(host->batches * 2 < samples);
}

static void even_the_shortest_session_has_a_sample(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, 3600000);
    cp_nvml_stop();
    assert_true(host_samples("GPU energy", 0) >= 1);
}

/* ---- which GPU is which --------------------------------------------------------------------------- */

static void gpus_have_the_numbers_that_cuda_gives_them(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cuda_new(2); /* as with CUDA_VISIBLE_DEVICES=2,0 */
    snprintf(cuda.device[0].uuid, sizeof cuda.device[0].uuid, FAKE_UUID_FORMAT, 2u);
    snprintf(cuda.device[1].uuid, sizeof cuda.device[1].uuid, FAKE_UUID_FORMAT, 0u);
    run_for(host, "GPU power", 1, 1);
    assert_int_equal(host->set_count, 2 * CP_NVML_SETS);
    series_is("GPU temperature", 0, "temperature", "C", 57);
    series_is("GPU temperature", 1, "temperature", "C", 55);
}

static void an_instance_has_the_counters_of_its_gpu_once(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cuda_new(2);
    for (int i = 0; i < 2; i++) /* the driver says GPU- of instances, too */
        snprintf(cuda.device[i].uuid, sizeof cuda.device[i].uuid,
                 "GPU-%08x-1111-2222-3333-444444444449", 1u);
    run_for(host, "GPU power", 0, 1);
    assert_int_equal(host->set_count, CP_NVML_SETS);
    series_is("GPU temperature", 0, "temperature", "C", 56);
    assert_non_null(host_line_of("counters of whole GPUs"));
}

static void without_cuda_the_numbers_are_those_of_nvml(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cp_driver.device_count = NULL;
    run_for(host, "GPU power", 2, 1);
    assert_int_equal(host->set_count, FAKE_GPUS * CP_NVML_SETS);
    assert_non_null(host_line_of("GPUs numbered by NVML"));
}

static void sampling_begins_when_the_program_has_started_cuda(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cuda.result = 3; /* not initialized */
    start(host, 1);
    usleep(20000);
    assert_int_equal(control->calls[FAKE_NVML_power], 0);
    cuda.result = 0;
    host_wait("GPU power", 0, 1);
    cp_nvml_stop();
    assert_true(host_samples("GPU power", 0) >= 1);

    host = host_new();
    cuda.result = 3;
    start(host, 1);
    cp_nvml_stop();
    assert_int_equal(host->set_count, 0);
    assert_non_null(host_line_of("no counters of GPUs"));
}

static void a_program_without_gpus_of_nvml_is_reported(void **state)
{
    (void)state;
    fake_host *host = host_new();
    control->gpus = 0;
    start(host, 1);
    cp_nvml_stop();
    assert_non_null(host_line_of("no counters of GPUs"));
}

/* ---- failures ------------------------------------------------------------------------------------- */

static void what_a_gpu_cannot_measure_is_left_out_and_said_once(void **state)
{
    (void)state;
    fake_host *host = host_new();
    control->fails[FAKE_NVML_energy] = CP_NVML_NOT_SUPPORTED;
    control->fails[FAKE_NVML_power_limit] = CP_NVML_NOT_SUPPORTED;
    cuda_new(1);
    run_for(host, "GPU power", 0, 10);
    assert_null(host_find("GPU energy", 0));
    const host_set *power = host_find("GPU power", 0);
    assert_int_equal(power->series_count, 1);
    assert_true(power->last[0] == 100.5);
    assert_int_equal(host_lines(), 1);
    const host_line *line = host_line_of("not measured by the GPU");
    assert_non_null(strstr(line->detail, "energy, power limit;"));
    assert_false(line->is_loss);
}

static void a_series_stands_under_its_name_where_others_are_missing(void **state)
{
    (void)state;
    fake_host *host = host_new();
    control->fails[FAKE_NVML_power] = CP_NVML_NOT_SUPPORTED;
    run_for(host, "GPU power", 0, 40);
    series_is("GPU power", 0, "power limit", "W", 700);
    assert_int_equal(host_find("GPU power", 0)->series_count, 1);
    assert_true(host_find("GPU power", 0)->first[0] == 700);
}

static void each_call_may_fail_from_the_start(void **state)
{
    (void)state;
    for (int call = 0; call < FAKE_NVML_CALLS; call++) {
        fake_host *host;
        fresh(NULL);
        host = host_new();
        control->fails[call] = CP_NVML_UNKNOWN;
        cp_options options = every(1);
        bool started = cp_nvml_start(&options, &host->builder, why);
        assert_int_equal(started, call != FAKE_NVML_init);
        if (started && call != FAKE_NVML_device_count && call != FAKE_NVML_device_at &&
            call != FAKE_NVML_uuid)
            host_wait("GPU clocks", 0, call == FAKE_NVML_clock ? 0 : 1);
        cp_nvml_stop();
        assert_int_equal(control->users, 0);
        if (call >= FAKE_NVML_power)
            assert_non_null(host_line_of("not measured by the GPU"));
    }
}

static void readings_that_fail_later_are_counted(void **state)
{
    (void)state;
    for (int call = FAKE_NVML_power; call < FAKE_NVML_CALLS; call++) {
        fresh(NULL);
        cuda_new(1);
        fake_host *host = host_new();
        control->fails[call] = CP_NVML_UNKNOWN;
        control->fails_from[call] = 9;
        start(host, 1);
        for (int i = 0; i < 20000 && control->calls[call] < 30; i++)
            usleep(1000);
        cp_nvml_stop();
        const host_line *line = host_line_of("readings that failed");
        assert_non_null(line);
        assert_true(line->is_loss && line->count >= 5);
        assert_non_null(strstr(line->detail, "Unknown Error"));
        assert_true(host_samples(call == FAKE_NVML_power ? "GPU energy" : "GPU power", 0) > 0);
    }
}

static void a_gpu_that_is_lost_is_left_alone_and_the_others_go_on(void **state)
{
    (void)state;
    fake_host *host = host_new();
    cuda_new(1);
    control->fails[FAKE_NVML_energy] = CP_NVML_GPU_IS_LOST;
    control->fails_from[FAKE_NVML_energy] = 5;
    start(host, 1);
    for (int i = 0; i < 20000 && control->calls[FAKE_NVML_energy] < 8; i++)
        usleep(1000);
    usleep(20000);
    assert_int_equal(control->calls[FAKE_NVML_energy], 8);
    cp_nvml_stop();
    assert_int_equal(host_line_of("readings that failed")->count, 3);
    assert_non_null(strstr(host_line_of("readings that failed")->detail, "does not answer"));
}

static void rows_that_find_no_room_are_said(void **state)
{
    (void)state;
    fake_host *host = host_new();
    host->set_room = FAKE_GPUS;
    run_for(host, "GPU energy", 0, 1);
    assert_int_equal(host_line_of("no room for rows of counters")->count,
                     FAKE_GPUS * (CP_NVML_SETS - 1));
    assert_true(host_samples("GPU energy", 2) > 0); /* what matters most was first */
}

static void readings_slower_than_the_interval_are_skipped_and_said(void **state)
{
    (void)state;
    fake_host *host = host_new();
    control->delay_us = 5000;
    cuda_new(1);
    run_for(host, "GPU power", 0, 5);
    const host_line *line = host_line_of("readings left out");
    assert_non_null(line);
    assert_false(line->is_loss);
}

/* ---- life ----------------------------------------------------------------------------------------- */

static void a_hundred_sessions_leave_no_files(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        start(host_new(), 1);
        if (i % 3 == 0)
            usleep(2000);
        cp_nvml_stop();
        cp_nvml_stop(); /* one too many does no harm */
    }
    assert_int_equal(control->calls[FAKE_NVML_init], 100);
    assert_int_equal(control->users, 0);
}

static volatile sig_atomic_t other_thread;
static pthread_t main_thread;
static void on_signal(int number)
{
    (void)number;
    if (!pthread_equal(pthread_self(), main_thread))
        other_thread = 1;
}

static void signals_of_the_program_do_not_reach_the_thread(void **state)
{
    (void)state;
    fake_host *host = host_new();
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigset_t usr1, old;
    main_thread = pthread_self();
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigaction(SIGUSR1, &action, &before);
    start(host, 1);
    pthread_sigmask(SIG_BLOCK, &usr1, &old); /* the other thread would have to take it */
    kill(getpid(), SIGUSR1);
    host_wait("GPU power", 0, 40);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    cp_nvml_stop();
    sigaction(SIGUSR1, &before, NULL);
    assert_int_equal(other_thread, 0);
}

/* What the child of a fork may do: nothing, stop, or sample itself. */
static int child(int what)
{
    fake_host *host = host_new();
    cp_options options = every(1);
    alarm(60);
    if (what >= 1)
        cp_nvml_stop();
    if (what == 1)
        return host_lines() || host->set_count;
    if (what >= 2 && !cp_nvml_start(&options, &host->builder, why))
        return 2;
    if (what >= 2) {
        host_wait("GPU power", 0, 1);
        cp_nvml_stop();
        return host_samples("GPU power", 0) == 0;
    }
    return 0;
}

static void a_fork_leaves_the_sampler_to_the_parent(void **state)
{
    (void)state;
    fake_host *host = host_new();
    start(host, 1);
    host_wait("GPU power", 0, 1);
    for (int what = 0; what < FEWER(3, THREAD_SANITIZED ? 2 : 3); what++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(what));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    uint64_t samples = host_samples("GPU power", 0);
    host_wait("GPU power", 0, samples + 1);
    cp_nvml_stop();
    assert_true(host_samples("GPU power", 0) > samples);
    assert_int_equal(control->users, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, fresh)
    const struct CMUnitTest tests[] = {
        T(a_library_that_cannot_be_opened_is_named),
        T(nothing_happens_where_it_is_not_asked_for),
        T(what_init_says_becomes_a_sentence),
        T(an_old_host_is_reported),
        T(a_second_start_is_refused_and_leaves_the_first),
        T(every_gpu_has_its_counters_with_units),
        T(energy_only_grows),
        T(times_are_host_ticks_inside_the_session),
        T(samples_go_to_the_host_in_batches),
        T(even_the_shortest_session_has_a_sample),
        T(gpus_have_the_numbers_that_cuda_gives_them),
        T(an_instance_has_the_counters_of_its_gpu_once),
        T(without_cuda_the_numbers_are_those_of_nvml),
        T(sampling_begins_when_the_program_has_started_cuda),
        T(a_program_without_gpus_of_nvml_is_reported),
        T(what_a_gpu_cannot_measure_is_left_out_and_said_once),
        T(a_series_stands_under_its_name_where_others_are_missing),
        T(each_call_may_fail_from_the_start),
        T(readings_that_fail_later_are_counted),
        T(a_gpu_that_is_lost_is_left_alone_and_the_others_go_on),
        T(rows_that_find_no_room_are_said),
        T(readings_slower_than_the_interval_are_skipped_and_said),
        T(a_hundred_sessions_leave_no_files),
        T(signals_of_the_program_do_not_reach_the_thread),
        T(a_fork_leaves_the_sampler_to_the_parent),
    };
    return RUN_TESTS(tests);
}

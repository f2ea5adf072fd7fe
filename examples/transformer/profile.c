/* The profiler around the training loop: its schedule, the trace of each cycle, and the reports at
 * the end, all with the public interface kineto_profile_run. */
#include "profile.h"
#include "device.h"

#include <ckineto/profile_run.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static profile_options options;
static profile_totals totals;
static kineto_profile_run *profile;
static char trace_path[1024];

/* Prints the error of a failed call. */
static bool check_status(kineto_status status, const kineto_error *err)
{
    if (status != KINETO_OK)
        fprintf(stderr, "transformer: %s\n", err->message);
    return status == KINETO_OK;
}

/* ---- a cycle --------------------------------------------------------------------------------- */

static uint64_t get_peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_maxrss;
}

/* Operators of a trace, to compare with the number that ran. */
static uint64_t count_operators(const kineto_trace *trace)
{
    uint64_t count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(trace); row++) {
        kineto_activity a;
        kineto_trace_get(trace, row, &a);
        count += a.kind == KINETO_KIND_CPU_OP && a.form == KINETO_FORM_SLICE && a.name.size > 6 &&
                 memcmp(a.name.data, "aten::", 6) == 0;
    }
    return count;
}

static kineto_status save_trace(kineto_error *err)
{
    kineto_tensorboard where = {sizeof where, options.directory, NULL, true};
    return kineto_profile_run_save_tensorboard(profile, &where, trace_path, sizeof trace_path, err);
}

/* Called at the end of each cycle, while the trace exists. */
static kineto_status on_cycle_ready(kineto_profile_run *p, void *user, kineto_error *err)
{
    const kineto_trace *trace = kineto_profiler_result_trace(kineto_profile_run_result(p));
    (void)user;
    totals.operators += count_operators(trace);
    totals.lost += kineto_trace_lost(trace);
    if (++totals.cycles <= 3)
        totals.peak_kib_early = get_peak_kib();
    return options.directory && options.each_cycle ? save_trace(err) : KINETO_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* All that PyTorch's profile() records when every option is on. */
bool profile_start(const profile_options *given)
{
    kineto_error err;
    kineto_profiler_config config;
    kineto_schedule schedule;
    kineto_schedule_init(&schedule);
    kineto_profile_run_options o;
    kineto_profile_run_options_init(&o);
    options = *given;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    config.report_input_shapes = true;
    config.profile_memory = true;
    config.with_stack = options.stacks;
    config.with_flops = true;
    config.with_modules = true;
    config.record_tensor_ids = true;
    config.buffer_bytes = (size_t)options.buffer_mib << 20;
    config.experimental.profile_all_threads = true; /* backward has a thread of its own */
    schedule.wait = options.wait;
    schedule.warmup = options.warmup;
    schedule.active = options.active;
    schedule.repeat = options.repeat;
    o.config = &config;
    o.schedule = &schedule;
    o.on_trace_ready = on_cycle_ready;
    return check_status(kineto_profile_run_create(&o, &profile, &err), &err) &&
           check_status(kineto_profile_run_start(profile, &err), &err);
}

bool profile_step(void)
{
    kineto_error err;
    return !profile || check_status(kineto_profile_run_step(profile, &err), &err);
}

bool profile_is_recording(void)
{
    return profile && kineto_profile_run_current_action(profile) >= KINETO_ACTION_RECORD;
}

bool profile_stop(void)
{
    kineto_error err;
    return !profile || check_status(kineto_profile_run_stop(profile, &err), &err);
}

void profile_close(void)
{
    kineto_profile_run_destroy(profile);
    profile = NULL;
}

profile_totals profile_get_totals(void)
{
    totals.peak_kib = get_peak_kib();
    return totals;
}

/* ---- reports --------------------------------------------------------------------------------- */

typedef struct file {
    const char *name, *about;
} file;

static const char *make_path(char *path, size_t bytes, const char *name)
{
    snprintf(path, bytes, "%s/%s", options.directory, name);
    return path;
}

/* Prints the first rows of a table and writes all of it to a file. */
static bool write_table(const kineto_averages *averages, const char *sort_by, const char *header,
                        const char *name, uint32_t with_memory)
{
    kineto_error err;
    char path[1024];
    kineto_table_options t = {.size = sizeof t,
                              .sort_by = sort_by,
                              .header = header,
                              .row_limit = 12,
                              .max_name_width = 42,
                              .memory = with_memory};
    fflush(stdout);
    if (!check_status(kineto_averages_save(averages, &t, "-", &err), &err))
        return false;
    t.row_limit = -1;
    return check_status(
        kineto_averages_save(averages, &t, make_path(path, sizeof path, name), &err), &err);
}

/* Time and memory by operator, and device time if there is a device. */
static bool write_tables(void)
{
    kineto_error err;
    kineto_averages *averages;
    if (!check_status(kineto_profile_run_key_averages(profile, NULL, &averages, &err), &err))
        return false;
    bool good = write_table(averages, "self_cpu_time_total", "Host time by operator",
                            "table-time.txt", KINETO_NO) &&
                write_table(averages,
                            device_is_sim() ? "self_device_memory_usage" : "self_cpu_memory_usage",
                            "Memory by operator", "table-memory.txt", KINETO_YES);
    if (good && device_is_sim())
        good = write_table(averages, "self_device_time_total", "Device time by operator",
                           "table-device.txt", KINETO_NO);
    kineto_averages_destroy(averages);
    return good;
}

/* Folded stacks of self CPU time, for flame graphs. */
static bool write_stacks(void)
{
    kineto_error err;
    kineto_function_events *events;
    char path[1024];
    kineto_stacks_options s = {.size = sizeof s, .merge = true, .functions = true};
    if (!check_status(kineto_profile_run_events(profile, &events, &err), &err))
        return false;
    kineto_status status =
        kineto_stacks_save(events, &s, make_path(path, sizeof path, "stacks.folded"), NULL, &err);
    kineto_function_events_destroy(events);
    return check_status(status, &err);
}

/* Memory over time in all three formats. */
static bool write_memory(void)
{
    static const char *const names[] = {"memory.html", "memory.json", "memory.raw.json.gz"};
    kineto_error err;
    char path[1024];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!check_status(kineto_profile_run_export_memory_timeline(
                              profile, make_path(path, sizeof path, names[i]), NULL, &err),
                          &err))
            return false;
    return true;
}

/* Says which file is for which tool. */
static void list_files(void)
{
    static const file files[] = {
        {"memory.html", "memory over time: open it in a browser"},
        {"stacks.folded", "self CPU time by call stack: speedscope.app, flamegraph.pl"},
        {"execution_trace.json", "the operators as a graph, in Chakra's schema"},
        {"table-time.txt", "the whole table"},
    };
    printf("\n  %s\n      the trace: open it in ui.perfetto.dev\n", trace_path);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (options.stacks || i != 1)
            printf("  %s/%s\n      %s\n", options.directory, files[i].name, files[i].about);
}

/* Reports are made from the last cycle. */
bool profile_report(void)
{
    kineto_error err;
    char path[1024];
    if (!profile || !options.directory)
        return true;
    if (!kineto_profile_run_result(profile)) {
        fprintf(stderr, "transformer: the run ended before a cycle of the profiler; use more "
                        "--steps, or less --wait and --active\n");
        return false;
    }
    if (!options.each_cycle && !check_status(save_trace(&err), &err))
        return false;
    if (!write_tables() || (options.stacks && !write_stacks()) || !write_memory())
        return false;
    if (!check_status(kineto_profile_run_export_execution_trace(
                          profile, make_path(path, sizeof path, "execution_trace.json"), &err),
                      &err))
        return false;
    list_files();
    return true;
}

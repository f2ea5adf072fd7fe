/* ckineto record: run a program, collect what it and its children record, and write the trace.
 *
 * What prevents recording does not prevent the program from running: without room for the recording
 * it runs unrecorded, and a trace that cannot be written leaves the raw recording for `ckineto
 * recover`. */
#include "cli/cli.h"
#include "cli/launch/energy.h"
#include "cli/launch/environment.h"
#include "cli/launch/job.h"
#include "cli/launch/perf_maps.h"
#include "cli/launch/plugins.h"
#include "cli/launch/record_live.h"
#include "cli/launch/record_on_demand.h"
#include "cli/launch/record_result.h"
#include "cli/launch/waits.h"
#include "cli/launch/watch.h"
#include "cli/style.h"
#include "cli/summary/summary.h"
#include "export/export.h"
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *output, *activities, *policy, *log_file, *plugin_config, *budget, *mpi = "auto";
static const char *python_only;
static uint64_t buffer_mb = KS_DEFAULT_BUFFER_BYTES >> 20, keep_mb = 256,
                log_level = KINETO_LOG_WARNING;
static kc_optional_size memory = {false, UINT64_C(512) << 10};
static kc_waits waits = {.threshold_us = KC_WAITS_DEFAULT_US};
static uint64_t running_pid;
static const char *seconds;
static const char *verb = "record"; /* for messages */
static kc_record_live live;
static bool preload, no_plugins, no_summary, quiet, verbose, wait_children, no_torch, no_shapes;
static bool python, python_perf, roctx, openmp;
static bool uses_mpi; /* by --mpi, or as it seems */
static kc_texts plugin_files;
static kc_plugins plugins;
static kc_watch watch;
static kc_energy energy;
static kc_on_demand_options on_demand_options = {.ring_mb = 64};

static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE",
     "the trace (trace.json), in the format of its name: .json.gz or any\n"
     "of 'ckineto convert'; one that exists becomes NAME.old;\n"
     "missing directories are created.\n"
     "{rank} in it is the rank that mpirun, srun or torchrun has set"},
    {"kinds", 'a', KC_TEXT, &activities, "KIND[,...]",
     "kinds of activities to record; also 'all', and 'default', which\n"
     "includes gpu_pm_counter and the kinds that plug-ins announce"},
    KC_ALIAS_OPTION("activities", "kinds"),
    {"buffer-mb", 'b', KC_NUMBER, &buffer_mb, "N",
     "memory for data that is not yet copied to disk (64)"},
    {"policy", 'p', KC_TEXT, &policy, "NAME",
     "stream: keep everything (the default); oldest: keep the first\n"
     "--keep-mb; ring: keep the last --keep-mb"},
    {"keep-mb", 'k', KC_NUMBER, &keep_mb, "N",
     "size that oldest and ring keep of the recording (256)"},
    {"memory", 0, KC_OPTIONAL_SIZE, &memory, "[=BYTES]",
     "record malloc and free: on average one allocation per BYTES\n"
     "(512K), with exact totals; 1: every allocation"},
    {"roctx", 0, KC_FLAG, &roctx, NULL,
     "record ROCTX also where ROCm is not installed in /opt/rocm, and of\n"
     "programs that open its library by name"},
    {"openmp", 0, KC_FLAG, &openmp, NULL,
     "record OpenMP also in programs and libraries compiled by GCC\n"
     "(libgomp); LLVM's and Intel's runtimes are recorded without it"},
    {"waits", 0, KC_OPTIONAL_TEXT, &waits.option, "[=US]",
     "record calls in which threads wait for locks, files, sockets, time or\n"
     "processes for US microseconds (20) or longer"},
    {"plugin", 0, KC_TEXTS, &plugin_files, "FILE[,rev=R]",
     "load a plug-in into the program (repeatable). R is the\n"
     "revision of an old interface: early, a or b"},
    {"plugin-config", 0, KC_TEXT, &plugin_config, "TEXT",
     "settings for plug-ins, see their documentation"},
    {"no-plugins", 0, KC_FLAG, &no_plugins, NULL,
     "do not load plug-ins of KINETO_PLUGIN_LIB_DIR_PATH and of the\n"
     "installation"},
    {"python", 0, KC_FLAG, &python, NULL,
     "record all functions of Python programs, and those in C that they\n"
     "call (about 100 ns for each call)"},
    {"python-only", 0, KC_TEXT, &python_only, "LIST",
     "record the functions of these packages and modules only, and the\n"
     "functions in C that they call; __main__: the program's own file"},
    {"python-perf", 0, KC_FLAG, &python_perf, NULL,
     "name Python functions in sampled stacks (Python 3.12 and newer;\n"
     "slows down every call a little: PYTHONPERFSUPPORT)"},
    {"cpu", 0, KC_TEXT, &watch.option, "HZ",
     "sample call stacks HZ times for each second of CPU time (99), and\n"
     "record when threads run, wait for a CPU or are blocked; 0: only\n"
     "these states; off: neither"},
    {"cpu-timers", 0, KC_OPTIONAL_TEXT, &watch.timers_option, "[=always]",
     "where perf_event_open is refused, for example in containers: sample by\n"
     "timers of the program's threads, whose signals interrupt it; always:\n"
     "also where it is allowed"},
    {"off-cpu", 0, KC_FLAG, &watch.off_cpu, NULL,
     "record where threads are when they get blocked (CAP_PERFMON)"},
    {"page-faults", 0, KC_FLAG, &watch.page_faults, NULL,
     "record where memory is touched that the kernel has to map first, or\n"
     "to read"},
    {"energy", 0, KC_FLAG, &energy.is_wanted, NULL,
     "record the energy of the processors, by their own counters (RAPL);\n"
     "needs root or CAP_PERFMON"},
    {"pid", 0, KC_NUMBER, &running_pid, "PID",
     "watch a program that runs already, and what it has started, in place\n"
     "of PROGRAM: threads and CPU samples, until it ends or Ctrl-C"},
    {"live", 0, KC_FLAG, &live.is_wanted, NULL,
     "show once a second what the program does; its output is shown at\n"
     "the end (see also ckineto top)"},
    {"seconds", 0, KC_TEXT, &seconds, "N", "with --pid: for so long at most"},
    {"mpi", 0, KC_TEXT, &mpi, "on|off|auto",
     "record calls of MPI; auto (the default): of programs that mpirun\n"
     "starts or whose file needs an MPI library"},
    {"no-shapes", 0, KC_FLAG, &no_shapes, NULL,
     "do not record sizes, types and values of operators' inputs"},
    {"no-torch", 0, KC_FLAG, &no_torch, NULL,
     "do not enter Python programs: no operators of PyTorch, no modules"},
    {"preload", 0, KC_FLAG, &preload, NULL,
     "load the recorder into the program with LD_PRELOAD; implied by\n"
     "plug-ins, --memory, --waits and --openmp, not needed by others"},
    {"wait-children", 0, KC_FLAG, &wait_children, NULL,
     "record until all descendants of the program have ended, too;\n"
     "SIGTERM ends the waiting"},
    {"on-demand", 0, KC_OPTIONAL_TEXT, &on_demand_options.on_demand, "[=SOURCES]",
     "record only on request (see ckineto trigger): SOURCES are socket\n"
     "(the default), daemon, signal[=NAME], file=PATH"},
    {"ring", 0, KC_TEXT, &on_demand_options.ring, "SECONDS",
     "record continuously, keep the last SECONDS in memory, and write\n"
     "them on request (ckineto trigger --dump); with -o also at the end"},
    {"ring-mb", 0, KC_NUMBER, &on_demand_options.ring_mb, "N", "memory for the ring (64)"},
    {"on-slow-step", 0, KC_TEXT, &on_demand_options.slow_step, "FACTOR",
     "write the ring when a step takes FACTOR times the usual: 1.5x"},
    {"on-hang", 0, KC_TEXT, &on_demand_options.hang, "SECONDS",
     "write the ring when no step begins for SECONDS"},
    {"on-crash", 0, KC_FLAG, &on_demand_options.crash, NULL,
     "write the ring when a signal kills the program"},
    {"budget", 0, KC_TEXT, &budget, "PERCENT",
     "share of the program's CPU time for recording (1%); above it,\n"
     "events are dropped in a fixed order, and counted in the ledger"},
    {"log", 0, KC_TEXT, &log_file, "FILE", "append messages to FILE instead of the terminal"},
    {"log-level", 0, KC_NUMBER, &log_level, "N",
     "0 verbose, 1 info, 2 warning (the default), 3 stage, 4 error, 5 none"},
    {"no-summary", 0, KC_FLAG, &no_summary, NULL, "do not show the tables at the end"},
    KC_QUIET_OPTION(quiet),
    KC_COLOR_OPTION,
    KC_VERBOSE_OPTION(verbose, "all rows of the tables at the end, and the whole ledger: losses, costs"),
};
static const kc_options options = {
    "record",
    "[options] (-- PROGRAM [ARGUMENTS] | --pid PID)",
    "Run PROGRAM and record its timeline, its children's, and that of the devices\n"
    "they use, into a trace that ui.perfetto.dev and Chrome's DevTools open.\n"
    "The exit status is the program's (128 + N if signal N killed it), also if it\n"
    "ran unrecorded because there was no room for the recording; 125 if the options\n"
    "are wrong or the trace could not be written, 126 if PROGRAM cannot be run,\n"
    "127 if it was not found.",
    "ckineto record -- python3 train.py\n"
    "ckineto record --memory --waits -o trace.json.gz -- ./server --port 80",
    option_list,
    KB_COUNT(option_list),
    true};

/* ---- options --------------------------------------------------------------------------------- */

/* --policy; --keep-mb alone implies "oldest". */
static kineto_status parse_buffer_policy(ks_policy *out)
{
    static const char *const names[] = {"stream", "oldest", "ring"};
    const char *name = policy ? policy : kc_option_given(&keep_mb) ? "oldest" : "stream";
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (ks_policy)i;
        if (*out == KS_POLICY_STREAM && kc_option_given(&keep_mb))
            return kc_usage_error(verb, "--keep-mb needs --policy oldest or ring");
        return KINETO_OK;
    }
    return kc_usage_error(verb, "--policy is stream, oldest or ring, not '%s'", name);
}

/* Ranges of all numeric options. */
static kineto_status check_record_numbers(void)
{
    enum { MAX_MB = 16384 };
    const uint64_t MAX_SAMPLING_BYTES = UINT64_C(1) << 40;
    if (buffer_mb < 1 || buffer_mb > MAX_MB)
        return kc_usage_error(verb, "--buffer-mb is from 1 to %d", MAX_MB);
    if (on_demand_options.ring && kc_option_given(&buffer_mb))
        return kc_usage_error(verb, "--buffer-mb cannot be used with --ring; use --ring-mb");
    if (keep_mb < 1 || keep_mb > UINT64_MAX >> 20)
        return kc_usage_error(verb, "--keep-mb is from 1 to %llu",
                              (unsigned long long)(UINT64_MAX >> 20));
    if (log_level > KINETO_LOG_OFF)
        return kc_usage_error(verb, "--log-level is from 0 to %d", KINETO_LOG_OFF);
    if (memory.bytes > MAX_SAMPLING_BYTES)
        return kc_usage_error(verb, "--memory is at most 1T");
    if (plugin_config && strlen(plugin_config) > KS_CONFIG_BYTES - 1)
        return kc_usage_error(verb, "--plugin-config has %u bytes at most",
                              KS_CONFIG_BYTES - 1);
    return KINETO_OK;
}

/* "1%", "0.5". */
static kineto_status parse_cpu_budget(double *ppm)
{
    const double MIN = 0.01, MAX = 100, PPM_PER_PERCENT = 1e4;
    char *end;
    if (!budget)
        return KINETO_OK;
    double percent = strtod(budget, &end);
    end += *end == '%';
    if (end == budget || *end || !(percent >= MIN && percent <= MAX))
        return kc_usage_error(verb, "--budget is a percentage from %g to %g, not '%s'", MIN,
                              MAX, budget);
    *ppm = percent * PPM_PER_PERCENT;
    return KINETO_OK;
}

/* Kinds of plug-ins are known only after the plug-ins were probed. */
static kineto_status parse_record_kinds(uint64_t *kinds)
{
    kineto_error err;
    char own[256];
    uint64_t announced = KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER) | kc_plugins_kinds(&plugins);
    announced |= uses_mpi ? KINETO_KIND_BIT(KINETO_KIND_COLLECTIVE_COMM) : 0;
    bool ok = !activities || kineto_kinds_parse(activities, kinds, &err) == KINETO_OK;
    if (ok && (!activities || kb_string_contains(kb_string(activities), "default")))
        *kinds |= announced;
    if (ok)
        return KINETO_OK;
    kc_plugins_own_names(&plugins, own, sizeof own);
    return kc_usage_error(verb, "--kinds: %s%s%s", err.message,
                          own[0] ? "; kinds of plug-ins here: " : "", own);
}

/* Find and probe plug-ins, and register the kinds of those that work. */
static kineto_status load_record_plugins(void)
{
    kineto_error err;
    kineto_status status = kc_plugins_for_record(&plugins, &plugin_files, no_plugins, &err);
    if (status)
        kc_complain("%s: %s", verb, err.message);
    else
        kc_plugins_announce(&plugins);
    return status;
}

/* Options that need --ring are checked with it. */
static bool are_ring_options_given(void)
{
    return kc_on_demand_wanted(&on_demand_options) || on_demand_options.slow_step ||
           on_demand_options.hang || on_demand_options.crash ||
           kc_option_given(&on_demand_options.ring_mb);
}

/* -1: keep the level of the environment. */
static int get_given_log_level(void) { return kc_option_given(&log_level) ? (int)log_level : -1; }

/* A directory of ranks gets no other files. */
static bool keeps_old = true;

/* The output's name for this rank. Without a name of the user's, ranks of a job do not overwrite each
 * other's trace; tables are printed by one of them. */
static kineto_status choose_record_output(kineto_error *err)
{
    static char path[PATH_MAX];
    bool is_one_of_many = kc_job_size() > 1 && kc_job_rank() >= 0;
    no_summary = no_summary || (is_one_of_many && kc_job_rank() > 0);
    if (!output)
        output = is_one_of_many ? "trace-rank" KC_RANK_PLACEHOLDER ".json" : "trace.json";
    else if (is_one_of_many && !strstr(output, KC_RANK_PLACEHOLDER) && kc_job_rank() == 0)
        kc_complain("record: warning: all %lld ranks write to the same file; name it by rank: -o "
                    "'rank" KC_RANK_PLACEHOLDER ".json'",
                    (long long)kc_job_size());
    keeps_old = !strstr(output, KC_RANK_PLACEHOLDER);
    if (keeps_old)
        return KINETO_OK;
    kineto_status status = kc_job_expand_path(output, path, err);
    output = path;
    return status;
}

static kineto_status parse_mpi_option(const char *program)
{
    static const char *const values[] = {"on", "off", "auto"};
    for (size_t i = 0; i < KB_COUNT(values); i++)
        if (strcmp(mpi, values[i]) == 0) {
            uses_mpi = i == 0 || (i == 2 && program && kc_job_uses_mpi(program));
            return KINETO_OK;
        }
    return kc_usage_error(verb, "--mpi is on, off or auto, not '%s'", mpi);
}

/* The order matters: plug-ins must be loaded before kinds are parsed. */
static kineto_status parse_record_options(ks_collector_options *c, const char *program)
{
    kineto_error err;
    c->kinds = KINETO_KINDS_DEFAULT;
    on_demand_options.quiet = quiet;
    bool is_named = output != NULL;
    if (choose_record_output(&err))
        return kc_usage_error(verb, "-o: %s", err.message);
    on_demand_options.output = is_named ? output : NULL;
    c->output_path = output;
    c->custom_config = plugin_config;
    c->wants = KF_WANT_USUAL | (no_shapes ? 0 : KF_WANT_INPUTS | KF_WANT_VALUES);
    const char *torch = getenv("CKINETO_TORCH");
    c->python_left_out = no_torch || (torch && strcmp(torch, "0") == 0);
    python |= python_only != NULL;
    c->python_functions = python;
    if (python && no_torch)
        return kc_usage_error(verb,
                              "--python cannot be used with --no-torch, which does not enter "
                              "Python programs");
    if (parse_mpi_option(program) || check_record_numbers() || kc_watch_parse(&watch) || kc_energy_parse(&energy, verb) ||
        parse_buffer_policy(&c->policy) || parse_cpu_budget(&c->cost_limit_ppm) ||
        kc_waits_parse(&waits, verb))
        return KINETO_E_ARGUMENT;
    if (python_only && !kc_is_module_list(python_only))
        return kc_usage_error(verb,
                              "--python-only: '%s' is not a list of names of modules, for example "
                              "numpy,my_package.models",
                              python_only);
    watch.max_cost_ppm = c->cost_limit_ppm / 2; /* the other half is for the other sources */
    c->buffer_bytes = (size_t)buffer_mb << 20;
    if (are_ring_options_given() && kc_on_demand_parse(&on_demand_options, c))
        return KINETO_E_ARGUMENT;
    if ((c->output_path == output ? kc_record_prepare_output(output, quiet, &err)
                                  : kc_record_check_output(c->output_path, &err)))
        return kc_usage_error(verb, "%s", err.message);
    if (kb_log_configure(get_given_log_level(), log_file, &err))
        return kc_usage_error(verb, "--log: %s", err.message);
    c->keep_bytes = keep_mb << 20;
    kineto_status status = load_record_plugins();
    if (status == KINETO_OK)
        status = parse_record_kinds(&c->kinds);
    if (memory.given)
        c->kinds |= KINETO_KIND_BIT(KINETO_KIND_MEMORY);
    if (waits.option.given)
        c->kinds |= KINETO_KIND_BIT(KINETO_KIND_BLOCKING_CALL);
    if (energy.is_wanted)
        c->kinds |= KINETO_KIND_BIT(KINETO_KIND_COUNTER);
    on_demand_options.kinds = c->kinds;
    return status;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* A source that could not enter the program: a ledger line that counts nothing as lost, and a
 * message for --log-level info. */
static void note_failed_entry(void *context, const char *source, const char *reason,
                              const char *detail)
{
    ks_collector_note(context, source, reason, 1, false, detail);
    kb_log(KINETO_LOG_INFO, "%s: %s: %s", source, reason, detail);
}

/* The same without a message: kc_plugins_report prints its own. */
static void note_failed_plugin(void *context, const char *source, const char *reason,
                               const char *detail)
{
    ks_collector_note(context, source, reason, 1, false, detail);
}

/* The command line as a JSON array in the header of the trace. */
static void add_command_metadata(ks_collector *c, char **argv)
{
    kb_sink *sink;
    char *text;
    size_t bytes;
    kineto_error err;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, &err))
        return;
    kb_json json;
    kb_json_init(&json, sink);
    kb_json_array_begin(&json);
    for (char **a = argv; *a; a++)
        kb_json_string_z(&json, *a);
    kb_json_array_end(&json);
    if (kb_sink_take(sink, &text, &bytes, &err) == KINETO_OK) {
        ks_collector_metadata(c, "command", text);
        free(text);
    }
    kb_sink_abort(sink);
}

/* Summaries scale sampled events by this number. */
static void add_sampling_metadata(ks_collector *c, uint64_t bytes)
{
    char number[32], detail[160];
    snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
    ks_collector_metadata(c, "ckineto_memory_sampling_bytes", number);
    snprintf(detail, sizeof detail,
             bytes > 1 ? "of s bytes is recorded with the chance 1 - exp(-s / %s); totals count all"
                       : "every allocation is recorded",
             number);
    ks_collector_note(c, "memory", "mean bytes between sampled allocations", bytes, false, detail);
}

/* A line that is overwritten needs a terminal to which the program does not write. */
static bool is_progress_wanted(void)
{
    return !quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
}

/* At most once per second: duration, bytes and lost events. */
static void show_record_progress(const ks_collector *c, uint64_t started_ns)
{
    static uint64_t shown_s;
    uint64_t s = (kb_monotonic_ns() - started_ns) / 1000000000u;
    if (s == shown_s)
        return;
    shown_s = s;
    ks_collector_stats stats;
    ks_collector_stats_get(c, &stats);
    fprintf(stderr, "\rrecording %llu s, %s, %s dropped\033[K", (unsigned long long)s,
            kb_bytes(stats.bytes).s, kc_count(stats.lost).s);
}

/* Called when the child has ended, before it is reaped: the collector must know before the pid
 * is reused. */
static void handle_program_end(void *context, pid_t pid)
{
    ks_collector_program_ends(context, (uint32_t)pid);
}

/* Empties the buffer while the program runs. The collector says how long the next wait may
 * take. */
static void collect_until_done(ks_collector *c, kc_child *child, uint64_t length_ns)
{
    bool progress = !live.view && (is_progress_wanted() || (child->is_attached && !quiet &&
                                                       isatty(STDERR_FILENO)));
    uint64_t started_ns = kb_monotonic_ns();
    for (uint64_t passed_ns = 0; !child->done && passed_ns < length_ns;) {
        uint64_t wait_ns = kb_min_u64(ks_collector_poll(c), length_ns - passed_ns);
        uint64_t view_ns = live.view ? kc_record_live_show(&live, c, child) : wait_ns;
        wait_ns = KB_MIN(wait_ns, view_ns);
        if (child->is_attached)
            wait_ns = KB_MIN(wait_ns, (uint64_t)KB_SECOND_NS / 4); /* its end sends no signal */
        kc_child_wait(child, wait_ns);
        if (progress)
            show_record_progress(c, started_ns);
        passed_ns = kb_monotonic_ns() - started_ns;
    }
    if (progress)
        fputs("\r\033[K", stderr);
    kc_record_live_close(&live);
}

/* ENOENT for an existing file means that its interpreter is missing. */
static int choose_exec_status(const char *program, const kineto_error *err)
{
    bool missing = err->os_error == ENOENT || err->os_error == ENOTDIR;
    bool present = strchr(program, '/') && access(program, F_OK) == 0;
    return missing && !present ? KC_EXIT_NOT_FOUND : KC_EXIT_NOT_EXECUTABLE;
}

/* For a script in place of a program. */
static void suggest_interpreter(const char *program, const kineto_error *err)
{
    const char *ending = strrchr(program, '.');
    if (err->os_error == EACCES && ending && strcmp(ending, ".py") == 0)
        kc_complain("it is not executable; run it with Python: ckineto record -- python3 %s",
                    program);
    if (err->os_error == ENOENT && program[strspn(program, "0123456789KMG.")] == '\0')
        kc_complain("values of --waits and --memory follow '=': --waits=%s", program);
}

static int write_trace(ks_collector *c, const kc_child *child, char *const *program, bool *keep)
{
    kc_record_report report = {.output = output,
                               .quiet = quiet,
                               .no_summary = no_summary,
                               .verbose = verbose,
                               .keeps_old = keeps_old,
                               .memory = memory.given,
                               .python = python,
                               .is_attached = child->is_attached,
                               .remedies = watch.remedies,
                               .program = program,
                               .plugins = &plugins};
    return kc_record_write(&report, c, &live.whole, child, keep);
}

/* Set the environment of the program; sources that cannot enter it are noted in the ledger. */
static kineto_status prepare_program(ks_collector *c, uint64_t kinds, kineto_error *err)
{
    char *environment = kc_plugins_environment(&plugins);
    if (!environment)
        return kb_fail_memory(err, NULL);
    kc_entry_options entry = {.pool_path = ks_collector_pool_path(c),
                              .log_file = log_file,
                              .log_level = get_given_log_level(),
                              .preload = preload,
                              .python = !no_torch,
                              .python_functions = python,
                              .openmp = openmp,
                              .python_only = python_only,
                              .memory = memory.given,
                              .memory_bytes = KB_MAX(memory.bytes, 1),
                              .roctx = roctx,
                              .mpi = uses_mpi,
                              .mpi_required = uses_mpi && strcmp(mpi, "on") == 0,
                              .waits = waits.option.given,
                              .waits_us = waits.threshold_us,
                              .plugins = environment,
                              .plugins_required = plugin_files.count != 0};
    kc_plugins_report(&plugins, note_failed_plugin, c);
    kineto_status status = kc_watch_prepare_timers(&watch, kinds, &entry.timers_path, err);
    if (status == KINETO_OK)
        status = kc_enter(&entry, note_failed_entry, c, err);
    if (status == KINETO_OK && python_perf)
        status = kc_perf_maps_request(err);
    if (status == KINETO_OK && memory.given)
        add_sampling_metadata(c, entry.memory_bytes);
    kc_waits_note(&waits, c);
    free(environment);
    return status;
}

/* @return the exit status of the program, or the reason why it did not start. */
static int run_unrecorded(char **argv, kc_child *child, const char *why, kineto_error *err)
{
    kc_complain("record: %s; the program runs unrecorded", why);
    (void)unsetenv("CKINETO_SESSION");
    kineto_status status = kc_child_start(argv, child, err);
    if (status)
        return child->done ? choose_exec_status(argv[0], err) : KC_EXIT_OWN_FAILURE;
    err->code = KINETO_OK;
    while (!child->done)
        kc_child_wait(child, UINT64_C(1000000000));
    if (!quiet)
        kc_record_report_end(child, false);
    return kc_child_exit_status(child);
}

/* Runs one recording. The collector exists from before the program starts until its trace is
 * written. If it cannot be created or started, the program runs unrecorded; other failures
 * before the start end the command. Returns the exit status. */
static int record_program(const ks_collector_options *collector_options, char **argv)
{
    ks_collector *c = NULL;
    kineto_error err = {0};
    kc_child child = {.with_children = wait_children, .output_fd = -1};
    bool keep = false;
    int result = KC_EXIT_OWN_FAILURE;
    kc_prepare_signals();
    kineto_status status = ks_collector_create(collector_options, &c, &err);
    if (status)
        goto unrecorded;
    add_command_metadata(c, argv);
    status = prepare_program(c, collector_options->kinds, &err);
    if (status == KINETO_OK && kc_on_demand_wanted(&on_demand_options))
        status = kc_on_demand_prepare(&on_demand_options, &err);
    if (status)
        goto done;
    if (ks_collector_start(c, &err))
        goto unrecorded;
    if (live.is_wanted)
        status = kc_record_live_start(&live, c, collector_options, argv[0], &err);
    if (status)
        goto done;
    kc_watch_prepare(&watch, c, collector_options->kinds, &child);
    child.output_fd = live.view ? kc_record_live_open_output() : -1;
    kc_energy_start(&energy, c);
    status = kc_child_start(argv, &child, &err);
    if (status) {
        result = child.done ? choose_exec_status(argv[0], &err) : KC_EXIT_OWN_FAILURE;
        goto done;
    }
    child.ending = handle_program_end;
    child.context = c;
    if (kc_on_demand_wanted(&on_demand_options)) {
        bool failed = kc_on_demand_run(&on_demand_options, c, &child);
        if (!quiet)
            kc_record_report_end(&child, false);
        result = failed ? KC_EXIT_OWN_FAILURE : kc_child_exit_status(&child);
        goto done;
    }
    ks_collector_follow(c, (uint32_t)child.pid);
    if (live.view)
        ks_collector_account(c, (uint32_t)child.pid);
    collect_until_done(c, &child, UINT64_MAX);
    kc_watch_finish(&watch);
    kc_energy_finish(&energy, c);
    result = live.is_top ? kc_child_exit_status(&child) : write_trace(c, &child, argv, &keep);
    goto done;
unrecorded:
    ks_collector_destroy(c, false);
    c = NULL;
    kineto_error why = err;
    result = run_unrecorded(argv, &child, why.message, &err);
    status = err.code;
done:
    if (status)
        kc_complain("%s: %s", verb, err.message);
    if (status && child.done)
        suggest_interpreter(argv[0], &err);
    kc_watch_finish(&watch);
    kc_energy_finish(&energy, c);
    kc_record_live_close(&live);
    kc_record_live_show_output(child.output_fd);
    ks_collector_destroy(c, keep);
    return result;
}

/* ---- a program that runs already ------------------------------------------------------------- */

/* Nothing can be loaded into it, and its output is not ours. */
static kineto_status check_running_options(int operands, uint64_t *length_ns)
{
    char *end;
    double length = seconds ? strtod(seconds, &end) : 0;
    if (operands)
        return kc_usage_error(verb, "--pid is in place of a program");
    if (running_pid == 0 || running_pid > INT32_MAX)
        return kc_usage_error(verb, "--pid is the number of a process");
    if (kc_on_demand_wanted(&on_demand_options) || preload || memory.given || waits.option.given ||
        python || watch.timers_option.given || plugin_files.count)
        return kc_usage_error(verb,
                              "nothing can be loaded into a program that runs: with --pid only "
                              "--cpu, --off-cpu, --page-faults, --energy, --budget and options of the output can be used; "
                              "to trace a process that has ckineto in it: ckineto trigger --pid");
    if (seconds && (end == seconds || *end || !(length > 0 && length <= 1e6)))
        return kc_usage_error(verb, "--seconds is a number above 0, not '%s'", seconds);
    *length_ns = seconds ? (uint64_t)(length * KB_SECOND_NS) : UINT64_MAX;
    return KINETO_OK;
}

static const char *name_running_program(void)
{
    static char name[64];
    size_t size = kb_os_process_name((uint32_t)running_pid, name, sizeof name - 24);
    snprintf(name + size, sizeof name - size, " (%llu)", (unsigned long long)running_pid);
    return name;
}

static int record_running(const ks_collector_options *collector_options, uint64_t length_ns)
{
    ks_collector *c = NULL;
    kineto_error err = {0};
    kc_child program;
    bool keep = false;
    int result = KC_EXIT_OWN_FAILURE;
    kc_prepare_signals();
    kineto_status status = kc_child_attach((uint32_t)running_pid, &program, &err);
    if (status == KINETO_OK)
        status = ks_collector_create(collector_options, &c, &err);
    if (status == KINETO_OK)
        ks_collector_account(c, (uint32_t)running_pid);
    if (status == KINETO_OK)
        status = ks_collector_start(c, &err);
    if (status == KINETO_OK)
        status = kc_watch_attach(&watch, c, collector_options->kinds, (uint32_t)running_pid, &err);
    if (status == KINETO_OK && live.is_wanted)
        status = kc_record_live_start(&live, c, collector_options, name_running_program(), &err);
    if (status == KINETO_OK) {
        kc_energy_start(&energy, c);
        collect_until_done(c, &program, length_ns);
        kc_watch_finish(&watch);
        kc_energy_finish(&energy, c);
        program.done = true;
        result = live.is_top ? 0 : write_trace(c, &program, NULL, &keep);
    } else {
        kc_complain("%s: %s", verb, err.message);
    }
    kc_watch_finish(&watch);
    kc_record_live_close(&live);
    ks_collector_destroy(c, keep);
    return result;
}

/* All mistakes end with KC_EXIT_OWN_FAILURE, because the statuses 1 and 2 belong to the program.
 * @return -1: the help was printed; else the exit status. */
static int run_recording(const kc_options *of_verb, int argc, char **argv)
{
    int operands;
    uint64_t length_ns = 0;
    ks_collector_options collector_options = {0};
    kineto_status status = kc_parse_options(of_verb, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout(verb, 0);
    bool is_running = kc_option_given(&running_pid);
    if (status == KINETO_OK && is_running)
        status = check_running_options(operands, &length_ns);
    else if (status == KINETO_OK && seconds)
        status = kc_usage_error(verb, "--seconds needs --pid");
    if (status == KINETO_OK && !is_running && operands == 0)
        status = kc_usage_error(verb, "no program given: ckineto %s -- PROGRAM", verb);
    if (status == KINETO_OK)
        status = parse_record_options(&collector_options, is_running ? NULL : argv[1]);
    if (status == KINETO_OK && live.is_wanted)
        status = kc_record_live_parse(&live, verb, is_running, &collector_options, &watch);
    int result = status       ? KC_EXIT_OWN_FAILURE
                 : is_running ? record_running(&collector_options, length_ns)
                              : record_program(&collector_options, argv + 1);
    kc_plugins_free(&plugins);
    return result;
}

int kc_record(int argc, char **argv) { return run_recording(&options, argc, argv); }

/* ---- top ------------------------------------------------------------------------------------- */

static const kc_option top_list[] = {
    {"pid", 'p', KC_NUMBER, &running_pid, "PID", "a program that runs already, and what it has started"},
    {"interval", 'i', KC_TEXT, &live.interval, "SECONDS", "between two screens (1)"},
    {"sort", 's', KC_TEXT, &live.sort_key, "KEY", "threads by: running (the default), waiting, blocked, name"},
    {"batch", 'B', KC_FLAG, &live.options.is_batch, NULL,
     "print plain text to the standard output, without a terminal"},
    {"screens", 'n', KC_NUMBER, &live.options.screens, "N", "end after N screens"},
    {"cpu", 0, KC_TEXT, &watch.option, "HZ", "samples for each second of CPU time (99); 0: none"},
    {"cpu-timers", 0, KC_OPTIONAL_TEXT, &watch.timers_option, "[=always]",
     "sample by timers of the program's threads, as of ckineto record"},
    {"off-cpu", 0, KC_FLAG, &watch.off_cpu, NULL,
     "record where threads are when they get blocked (CAP_PERFMON)"},
    {"kinds", 'a', KC_TEXT, &activities, "KIND[,...]", "kinds of activities to show"},
    KC_ALIAS_OPTION("activities", "kinds"),
    {"no-torch", 0, KC_FLAG, &no_torch, NULL, "do not enter Python programs"},
    {"plugin", 0, KC_TEXTS, &plugin_files, "FILE[,rev=R]", "load a plug-in into the program (repeatable)"},
};
static const kc_options top_options = {
    "top",
    "[options] (-- PROGRAM [ARGUMENTS] | --pid PID)",
    "Show once a second what a program does: its threads and their states, the functions\n"
    "that use the CPU, ranges and calls, devices, counters. Nothing is stopped, and no trace is\n"
    "written (ckineto record --live does both). Keys: q ends it, with the program that it has\n"
    "started; space pauses, s sorts the threads, t sorts functions by their time with callees.\n"
    "The output of the program is shown at the end.",
    "ckineto top -- ./server --port 80\n"
    "ckineto top --pid 4711",
    top_list,
    KB_COUNT(top_list),
    true};

int kc_top(int argc, char **argv)
{
    live.is_top = live.is_wanted = true;
    verb = top_options.verb;
    quiet = true;
    output = "/dev/null";
    return run_recording(&top_options, argc, argv);
}

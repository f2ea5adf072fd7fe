/* ckineto record: run a program, collect what it and its children record, write the trace. */
#include "cli/cli.h"
#include "cli/plugins.h"
#include "cli/record.h"
#include "export/export.h"
#include "session/session.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *output, *activities, *policy, *log_file, *plugin_config, *budget;
static uint64_t buffer_mb = KS_BUFFER_BYTES >> 20, keep_mb = 256, log_level = KINETO_LOG_WARNING;
static kc_optional_size memory = {false, UINT64_C(512) << 10};
static bool preload, no_plugins, no_summary, quiet, wait_children, no_torch, no_shapes, python;
static kc_texts plugin_files;
static kc_plugins plugins;
static kc_host_options host = {.ring_mb = 64};

static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE",
     "the trace (trace.json), in the format of its name: .json.gz or any\n"
     "of 'ckineto convert'; replaced if it exists, once it is complete"},
    {"activities", 'a', KC_TEXT, &activities, "LIST",
     "kinds to record, separated by commas; also 'all', and 'default', which\n"
     "includes gpu_pm_counter and the kinds that plug-ins announce"},
    {"buffer-mb", 'b', KC_NUMBER, &buffer_mb, "N",
     "memory for what is not yet copied to disk (64)"},
    {"policy", 'p', KC_TEXT, &policy, "NAME",
     "stream: keep everything (the default); oldest: keep the first\n"
     "--keep-mb; ring: keep the last --keep-mb"},
    {"keep-mb", 'k', KC_NUMBER, &keep_mb, "N", "what oldest and ring keep of the recording (256)"},
    {"memory", 0, KC_OPTIONAL_SIZE, &memory, "[=BYTES]",
     "record malloc and free: one allocation in BYTES on the average\n"
     "(512K), with exact totals; 1: every one"},
    {"plugin", 0, KC_TEXTS, &plugin_files, "FILE[,rev=R]",
     "load a plug-in into the program; may be repeated. R is the\n"
     "revision of the interface if it is an old one: early, a or b"},
    {"plugin-config", 0, KC_TEXT, &plugin_config, "TEXT",
     "settings for plug-ins, see their documents"},
    {"no-plugins", 0, KC_FLAG, &no_plugins, NULL,
     "leave out those of KINETO_PLUGIN_LIB_DIR_PATH and of the\n"
     "installation"},
    {"python", 0, KC_FLAG, &python, NULL,
     "record Python functions, too (about 100 ns for each call)"},
    {"no-shapes", 0, KC_FLAG, &no_shapes, NULL,
     "leave out sizes, types and values of operators' inputs"},
    {"no-torch", 0, KC_FLAG, &no_torch, NULL,
     "stay out of Python programs: no operators of PyTorch, no modules"},
    {"preload", 0, KC_FLAG, &preload, NULL,
     "load the recorder into the program with LD_PRELOAD, as is done\n"
     "for plug-ins and --memory; no other source needs it"},
    {"wait-children", 0, KC_FLAG, &wait_children, NULL,
     "go on until all that the program started has ended, too; SIGTERM\n"
     "ends that"},
    {"on-demand", 0, KC_OPTIONAL_TEXT, &host.on_demand, "[=SOURCES]",
     "record nothing until somebody asks (see ckineto trigger): SOURCES\n"
     "are socket (the default), daemon, signal[=NAME], file=PATH"},
    {"ring", 0, KC_TEXT, &host.ring, "SECONDS",
     "always record, keep the last SECONDS in memory, and write them\n"
     "when somebody asks (ckineto trigger --dump); with -o at the end, too"},
    {"ring-mb", 0, KC_NUMBER, &host.ring_mb, "N", "memory for the ring (64)"},
    {"on-slow-step", 0, KC_TEXT, &host.slow_step, "FACTOR",
     "write the ring when a step takes this many times the usual: 1.5x"},
    {"on-hang", 0, KC_TEXT, &host.hang, "SECONDS",
     "write the ring when no step begins for this long"},
    {"on-crash", 0, KC_FLAG, &host.crash, NULL, "write the ring when a signal kills the program"},
    {"budget", 0, KC_TEXT, &budget, "PERCENT",
     "of the program's CPU time that recording may take (1%); what is\n"
     "too much is left out in a fixed order, and told in the ledger"},
    {"log", 0, KC_TEXT, &log_file, "FILE", "append messages to FILE instead of the terminal"},
    {"log-level", 0, KC_NUMBER, &log_level, "N",
     "0 verbose, 1 info, 2 warning (the default), 3 stage, 4 error, 5 none"},
    {"no-summary", 0, KC_FLAG, &no_summary, NULL, "do not show the tables at the end"},
    {"quiet", 'q', KC_FLAG, &quiet, NULL, "say nothing unless something fails"},
};
static const kc_options options = {
    "record",
    "[options] -- PROGRAM [ARGUMENTS]",
    "Run PROGRAM and record its timeline, its children's, and that of the devices\n"
    "they use, into a trace that ui.perfetto.dev and Chrome's DevTools open.\n"
    "The exit status is the program's (128 + N if signal N killed it), also if it\n"
    "ran unrecorded since there was no room for the recording; 125 if the options\n"
    "are wrong or the trace could not be written, 126 if PROGRAM cannot be run,\n"
    "127 if it was not found.",
    option_list,
    KB_COUNT(option_list),
    true};

/* ---- before ------------------------------------------------------------------------------------ */

/* A mistake in the output's name must show before the program runs, not after. */
static kineto_status check_output(const char *path, kineto_error *err)
{
    struct stat st;
    char directory[KS_PATH_BYTES];
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is a directory: name a file", path);
    kineto_status status = ke_check_path(path, err);
    if (status || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return status; /* /dev/null, say: nothing is made beside it */
    const char *slash = strrchr(path, '/');
    int n = slash ? (int)KB_MAX(slash - path, 1) : 1;
    snprintf(directory, sizeof directory, "%.*s", n, slash ? path : ".");
    if (stat(directory, &st) != 0)
        return kb_fail_os(err, errno, "cannot write to '%s'", directory);
    if (!S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is not a directory", directory);
    if (access(directory, W_OK) != 0)
        return kb_fail_os(err, errno, "cannot write to '%s'", directory);
    return KINETO_OK;
}

static kineto_status parse_policy(ks_policy *out)
{
    static const char *const names[] = {"stream", "oldest", "ring"};
    const char *name = policy ? policy : kc_given(&keep_mb) ? "oldest" : "stream";
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        *out = (ks_policy)i;
        if (*out == KS_POLICY_STREAM && kc_given(&keep_mb))
            return kc_usage_error("record", "--keep-mb needs --policy oldest or ring");
        return KINETO_OK;
    }
    return kc_usage_error("record", "--policy is stream, oldest or ring, not '%s'", name);
}

static kineto_status check_numbers(void)
{
    enum { MOST_MB = 16384 };
    const uint64_t MOST_SAMPLING_BYTES = UINT64_C(1) << 40;
    if (buffer_mb < 1 || buffer_mb > MOST_MB)
        return kc_usage_error("record", "--buffer-mb is from 1 to %d", MOST_MB);
    if (host.ring && kc_given(&buffer_mb))
        return kc_usage_error("record", "--buffer-mb means nothing with --ring: say --ring-mb");
    if (keep_mb < 1 || keep_mb > UINT64_MAX >> 20)
        return kc_usage_error("record", "--keep-mb is from 1 to %llu",
                              (unsigned long long)(UINT64_MAX >> 20));
    if (log_level > KINETO_LOG_OFF)
        return kc_usage_error("record", "--log-level is from 0 to %d", KINETO_LOG_OFF);
    if (memory.bytes > MOST_SAMPLING_BYTES)
        return kc_usage_error("record", "--memory is at most 1T");
    if (plugin_config && strlen(plugin_config) > KS_CONFIG_BYTES - 1)
        return kc_usage_error("record", "--plugin-config has %u bytes at most",
                              KS_CONFIG_BYTES - 1);
    return KINETO_OK;
}

/* "1%", "0.5". */
static kineto_status parse_budget(double *ppm)
{
    const double LEAST = 0.01, MOST = 100, PPM_PER_PERCENT = 1e4;
    char *end;
    if (!budget)
        return KINETO_OK;
    double percent = strtod(budget, &end);
    end += *end == '%';
    if (end == budget || *end || !(percent >= LEAST && percent <= MOST))
        return kc_usage_error("record", "--budget is a percentage from %g to %g, not '%s'", LEAST,
                              MOST, budget);
    *ppm = percent * PPM_PER_PERCENT;
    return KINETO_OK;
}

/* Kinds may be plug-ins' own: those are known when the plug-ins were tried. */
static kineto_status parse_kinds(uint64_t *kinds)
{
    kineto_error err;
    char own[256];
    uint64_t announced = KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER) | kc_plugins_kinds(&plugins);
    bool ok = !activities || kineto_kinds_parse(activities, kinds, &err) == KINETO_OK;
    if (ok && (!activities || kb_string_holds(kb_string(activities), "default")))
        *kinds |= announced;
    if (ok)
        return KINETO_OK;
    kc_plugins_own_names(&plugins, own, sizeof own);
    return kc_usage_error("record", "--activities: %s%s%s", err.message,
                          own[0] ? "; kinds of plug-ins here: " : "", own);
}

static kineto_status find_plugins(void)
{
    kineto_error err;
    kineto_status status = kc_plugins_for_record(&plugins, &plugin_files, no_plugins, &err);
    if (status)
        kc_complain("record: %s", err.message);
    else
        kc_plugins_announce(&plugins);
    return status;
}

/* What needs --ring is refused by it where there is none. */
static bool host_is_wanted(void)
{
    return kc_host_wanted(&host) || host.slow_step || host.hang || host.crash ||
           kc_given(&host.ring_mb);
}

/* -1: as the environment says. */
static int given_log_level(void) { return kc_given(&log_level) ? (int)log_level : -1; }

static kineto_status read_options(ks_collector_options *c)
{
    kineto_error err;
    c->kinds = KINETO_KINDS_DEFAULT;
    host.output = output;
    host.quiet = quiet;
    if (!output)
        output = "trace.json";
    c->output_path = output;
    c->custom_config = plugin_config;
    c->wants = KF_WANT_USUAL | (no_shapes ? 0 : KF_WANT_INPUTS | KF_WANT_VALUES);
    const char *torch = getenv("CKINETO_TORCH");
    c->python_left_out = no_torch || (torch && strcmp(torch, "0") == 0);
    if (python && no_torch)
        return kc_usage_error("record", "--python records Python programs, and --no-torch stays out of them: "
                                        "leave one of them out");
    if (check_numbers() || parse_policy(&c->policy) || parse_budget(&c->budget_ppm))
        return KINETO_E_ARGUMENT;
    c->buffer_bytes = (size_t)buffer_mb << 20;
    if (host_is_wanted() && kc_host_read(&host, c))
        return KINETO_E_ARGUMENT;
    if (check_output(c->output_path, &err))
        return kc_usage_error("record", "%s", err.message);
    if (kb_log_configure(given_log_level(), log_file, &err))
        return kc_usage_error("record", "--log: %s", err.message);
    c->keep_bytes = keep_mb << 20;
    kineto_status status = find_plugins();
    if (status == KINETO_OK)
        status = parse_kinds(&c->kinds);
    if (memory.given)
        c->kinds |= KINETO_KIND_BIT(KINETO_KIND_MEMORY);
    host.kinds = c->kinds;
    return status;
}

/* ---- while ------------------------------------------------------------------------------------- */

static void note_entry(void *context, const char *source, const char *reason, const char *detail)
{
    ks_collector_note(context, source, reason, 1, false, detail);
    kb_log(KINETO_LOG_INFO, "%s: %s: %s", source, reason, detail);
}

static void note_plugin(void *context, const char *source, const char *reason, const char *detail)
{
    ks_collector_note(context, source, reason, 1, false, detail);
}

static void add_command(ks_collector *c, char **argv)
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

/* Summaries scale what was sampled by this number. */
static void add_sampling(ks_collector *c, uint64_t bytes)
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

/* A line that is written over and over is for a terminal that nobody else writes to. */
static bool progress_wanted(void)
{
    return !quiet && isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
}

static void show_progress(const ks_collector *c, uint64_t started_ns)
{
    static uint64_t shown_s;
    uint64_t s = (kb_clock_ns(CLOCK_MONOTONIC) - started_ns) / 1000000000u;
    if (s == shown_s)
        return;
    shown_s = s;
    ks_collector_stats stats;
    ks_collector_stats_get(c, &stats);
    fprintf(stderr, "\rrecording %llu s, %s, %s dropped\033[K", (unsigned long long)s,
            kc_bytes(stats.bytes).s, kc_count(stats.lost).s);
}

static void program_ends(void *context, pid_t pid)
{
    ks_collector_program_ends(context, (uint32_t)pid);
}

static void collect_until_done(ks_collector *c, kc_child *child)
{
    bool progress = progress_wanted();
    uint64_t started_ns = kb_clock_ns(CLOCK_MONOTONIC);
    ks_collector_follow(c, (uint32_t)child->pid);
    while (!child->done) {
        kc_child_wait(child, ks_collector_poll(c));
        if (progress)
            show_progress(c, started_ns);
    }
    if (progress)
        fputs("\r\033[K", stderr);
}

/* A file that is there but whose interpreter is missing was found, in a way. */
static int exec_failure_status(const char *program, const kineto_error *err)
{
    bool missing = err->os_error == ENOENT || err->os_error == ENOTDIR;
    bool present = strchr(program, '/') && access(program, F_OK) == 0;
    return missing && !present ? KC_EXIT_NOT_FOUND : KC_EXIT_NOT_EXECUTABLE;
}

/* Scripts that are given where a program is expected. */
static void tell_interpreter(const char *program, const kineto_error *err)
{
    const char *ending = strrchr(program, '.');
    if (err->os_error == EACCES && ending && strcmp(ending, ".py") == 0)
        kc_complain("it is not executable; run it with Python: ckineto record -- python3 %s", program);
}

/* ---- after ------------------------------------------------------------------------------------- */

static void tell_how_it_ended(const kc_child *child, bool one_trace)
{
    char text[KC_CHILD_END_BYTES];
    kc_child_describe_end(child, text);
    if (child->status)
        fprintf(stderr, "ckineto: %s%s\n", text,
                WIFSIGNALED(child->status) && one_trace
                    ? "; the trace holds what was recorded up to then"
                    : "");
}

void kc_record_note_end(ks_collector *c, const kc_child *child)
{
    char text[KC_CHILD_END_BYTES], json[6 * KC_CHILD_END_BYTES + 3];
    kc_child_describe_end(child, text);
    *kb_json_escape(json, kb_string(text), NULL) = 0;
    ks_collector_metadata(c, "ckineto_dump_reason", json);
}

/* Only if it was asked for: a program may have memory events of its own. */
static void tell_memory(const kineto_trace *trace)
{
    kc_memory m;
    kineto_error err;
    if (!memory.given || kc_memory_make(trace, &m, &err))
        return;
    kc_memory_print(&m, trace, stderr);
    kc_memory_free(&m);
}

/* What we, and viewers of traces, read. */
static bool is_chrome(const char *path)
{
    kb_compression compression;
    bool needs_file;
    const char *format = ke_format_of_ending(path, &compression, &needs_file);
    return format && strcmp(format, "chrome") == 0;
}

static void tell_nothing(const kineto_trace *trace)
{
    const char *reason = "the program used nothing that ckineto or a plug-in records.\n"
                         "  'ckineto doctor' says what can be recorded here.";
    if (ks_children_could_not(trace))
        reason = "the ledger above names the processes, and the reasons.";
    else if (kt_ledger_has(trace, "PyTorch", NULL) || kt_ledger_has(trace, "Python functions", NULL))
        reason = "the lines of PyTorch and Python above say why.";
    else if (python && kt_ledger_has(trace, KC_NO_PYTHON, NULL))
        reason = "--python needs ckineto's Python package: see the ledger above.";
    else if (python)
        reason = "--python records programs that import PyTorch, and none did.\n"
                 "  Other programs import ckineto: see docs/reference/stacks.md.";
    fprintf(stderr, "\n  Nothing was recorded: %s\n", reason);
}

static void tell_result(const kineto_trace *trace)
{
    kc_summary s;
    kineto_error err;
    fputs("ckineto: ", stderr);
    if (kc_summary_make(trace, &s, &err)) {
        fprintf(stderr, "no summary: %s\n", err.message);
    } else if (no_summary) {
        fprintf(stderr, "%s %s\n", kc_count(s.activities).s,
                kc_noun(s.activities, "activity", "activities"));
    } else {
        kc_summary_print(&s, trace, stderr);
        tell_memory(trace);
        if (s.activities == 0)
            tell_nothing(trace);
        fputc('\n', stderr);
    }
    kc_summary_free(&s);
    bool reads_back = is_chrome(output);
    kc_print(stderr, "ckineto: the trace is in %s%s\n", output,
            reads_back ? "; open it in ui.perfetto.dev or Chrome's DevTools (Performance)," : "");
    if (reads_back)
        kc_print(stderr, "         or try: ckineto info %s\n", output);
}

static void tell_rescue(ks_collector *c, const kc_child *child, const char *why)
{
    ks_collector_stats stats;
    kc_complain("record: %s", why);
    ks_collector_stats_get(c, &stats);
    bool is_whole = ks_collector_find_spool(c) || stats.bytes == 0;
    if (!is_whole)
        kc_complain("%s: removed while recording: the %s that it held are lost",
                    ks_collector_spool_path(c), kc_bytes(stats.bytes).s);
    kc_complain("the %s is not lost. Once the reason is gone, run:\n"
                "  ckineto recover -o FILE.json --remove %s",
                is_whole ? "recording" : "rest", ks_collector_pool_path(c));
    if (child->status)
        tell_how_it_ended(child, true);
}

/* ---- where the trace goes ------------------------------------------------------------------------- */

/* The n-th place besides the one that was asked for: the directory of that, if it has another name by now,
 * then those for temporary files and where we are. There the name says whose it is. */
static bool place_elsewhere(ks_collector *c, uint32_t n, char path[KS_PATH_BYTES])
{
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
    const char *places[] = {NULL, kb_setting("TMPDIR"), ".", "/tmp"};
    if (n > 0 && places[n]) {
        int size = snprintf(path, KS_PATH_BYTES, "%s/ckineto-%u-%s", places[n], kb_os_pid(), name);
        return size > 0 && (size_t)size < KS_PATH_BYTES && access(path, F_OK) != 0;
    }
    if (n > 0 || !ks_collector_find_spool(c))
        return false;
    const char *spool = ks_collector_spool_path(c);
    int size = snprintf(path, KS_PATH_BYTES, "%.*s%s", (int)(strrchr(spool, '/') + 1 - spool), spool,
                        name);
    return size > 0 && (size_t)size < KS_PATH_BYTES;
}

/* A directory that was there when the program was started may be gone or another one by now. */
static kineto_status save_elsewhere(ks_collector *c, const kineto_trace *trace, kineto_error *why)
{
    enum { PLACES = 4 };
    static char path[KS_PATH_BYTES];
    kineto_error err;
    for (uint32_t n = 0; n < PLACES; n++)
        if (place_elsewhere(c, n, path) && kineto_trace_save(trace, path, &err) == KINETO_OK) {
            kc_complain("record: %s; the trace is in %s", why->message, path);
            output = path;
            return KINETO_OK;
        }
    return why->code;
}

/* Other failures, a full disk say, leave the raw recording where it is. */
static kineto_status save(ks_collector *c, const kineto_trace *trace, kineto_error *err)
{
    kineto_error ignored;
    kineto_status status = kineto_trace_save(trace, output, err);
    return status && check_output(output, &ignored) ? save_elsewhere(c, trace, err) : status;
}

/* Build and write. Returns the exit status; *keep: the raw recording is still needed. */
static int write_trace(ks_collector *c, const kc_child *child, bool *keep)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    ks_collector_stats stats;
    if (WIFSIGNALED(child->status))
        kc_record_note_end(c, child);
    kineto_status status = ks_collector_finish(c, &trace, &err);
    if (status == KINETO_OK)
        status = save(c, trace, &err);
    if (status) {
        *keep = true;
        tell_rescue(c, child, err.message);
    } else if (!quiet) {
        tell_how_it_ended(child, true);
        ks_collector_stats_get(c, &stats);
        if (stats.spool_failed)
            kc_complain("warning: %s", stats.spool_error);
        tell_result(trace);
    }
    kineto_trace_release(trace);
    return status ? KC_EXIT_OWN_FAILURE : kc_child_exit_status(child);
}

static kineto_status enter(ks_collector *c, kineto_error *err)
{
    char *environment = kc_plugins_environment(&plugins);
    if (!environment)
        return kb_fail(err, KINETO_E_MEMORY, "out of memory");
    kc_entry_options entry = {.pool_path = ks_collector_pool_path(c),
                              .log_file = log_file,
                              .log_level = given_log_level(),
                              .preload = preload,
                              .python = !no_torch,
                              .python_functions = python,
                              .memory = memory.given,
                              .memory_bytes = KB_MAX(memory.bytes, 1),
                              .plugins = environment,
                              .plugins_required = plugin_files.count != 0};
    kc_plugins_tell(&plugins, note_plugin, c);
    kineto_status status = kc_enter(&entry, note_entry, c, err);
    if (status == KINETO_OK && memory.given)
        add_sampling(c, entry.memory_bytes);
    free(environment);
    return status;
}

/* What keeps us from recording is no reason not to run the program. Its exit status, or why it did not
 * start. */
static int run_unrecorded(char **argv, kc_child *child, const char *why, kineto_error *err)
{
    kc_complain("record: %s; the program runs without being recorded", why);
    (void)unsetenv("CKINETO_SESSION");
    kineto_status status = kc_child_start(argv, child, err);
    if (status)
        return child->done ? exec_failure_status(argv[0], err) : KC_EXIT_OWN_FAILURE;
    err->code = KINETO_OK;
    while (!child->done)
        kc_child_wait(child, UINT64_C(1000000000));
    if (!quiet)
        tell_how_it_ended(child, false);
    return kc_child_exit_status(child);
}

static int record(const ks_collector_options *collector_options, char **argv)
{
    ks_collector *c = NULL;
    kineto_error err = {0};
    kc_child child = {.with_children = wait_children};
    bool keep = false;
    int result = KC_EXIT_OWN_FAILURE;
    kc_signals_prepare();
    kineto_status status = ks_collector_create(collector_options, &c, &err);
    if (status)
        goto unrecorded;
    add_command(c, argv);
    status = enter(c, &err);
    if (status == KINETO_OK && kc_host_wanted(&host))
        status = kc_host_enter(&host, &err);
    if (status)
        goto done;
    if (ks_collector_start(c, &err))
        goto unrecorded;
    status = kc_child_start(argv, &child, &err);
    if (status) {
        result = child.done ? exec_failure_status(argv[0], &err) : KC_EXIT_OWN_FAILURE;
        goto done;
    }
    child.ending = program_ends;
    child.context = c;
    if (kc_host_wanted(&host)) {
        bool failed = kc_host_run(&host, c, &child);
        if (!quiet)
            tell_how_it_ended(&child, false);
        result = failed ? KC_EXIT_OWN_FAILURE : kc_child_exit_status(&child);
        goto done;
    }
    collect_until_done(c, &child);
    result = write_trace(c, &child, &keep);
    goto done;
unrecorded:
    ks_collector_destroy(c, false);
    c = NULL;
    kineto_error why = err;
    result = run_unrecorded(argv, &child, why.message, &err);
    status = err.code;
done:
    if (status)
        kc_complain("record: %s", err.message);
    if (status && child.done)
        tell_interpreter(argv[0], &err);
    ks_collector_destroy(c, keep);
    return result;
}

int kc_record(int argc, char **argv)
{
    int operands;
    ks_collector_options collector_options = {0};
    bool of_running = argc > 1 && strncmp(argv[1], "--pid", 5) == 0;
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("record", 0);
    if (status && of_running)
        kc_complain("a program that is running is asked: ckineto trigger --pid PID");
    if (status == KINETO_OK && operands == 0)
        status = kc_usage_error("record", "name the program to run: ckineto record -- PROGRAM");
    if (status == KINETO_OK)
        status = read_options(&collector_options);
    int result = status ? KC_EXIT_OWN_FAILURE : record(&collector_options, argv + 1);
    kc_plugins_free(&plugins);
    return result;
}

/* ckineto trigger: request traces of running programs. This file parses and checks the options into
 * one kc_request; src/cli/ondemand does the rest. */
#include "cli/cli.h"
#include "cli/ondemand/traceable.h"
#include "cli/ondemand/trigger.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define VERB             "trigger"
#define DEFAULT_DISCOVER "12"

static kc_texts pid_texts, set;
static const char *job, *start_time, *activities, *out, *host, *hosts, *slurm, *token_file,
    *socket_directory, *discover;
static bool all, dump, cancel, separately, shapes, memory, stack, flops, modules;
static uint64_t duration_ms = KC_NOT_GIVEN, iterations = KC_NOT_GIVEN,
                start_iteration = KC_NOT_GIVEN, roundup = KC_NOT_GIVEN, warmup_ms = KC_NOT_GIVEN,
                warmup_iterations = KC_NOT_GIVEN, snapshot_ms = KC_NOT_GIVEN, limit = 1000, port,
                retry = 2;
static kc_optional_text wait_text;

static const kc_option option_list[] = {
    {"pid", 'p', KC_TEXTS, &pid_texts, "PID[,…]", "these processes and their descendants"},
    {"job", 'j', KC_TEXT, &job, "ID", "processes with this SLURM_JOB_ID"},
    {"all", 0, KC_FLAG, &all, NULL, "every traceable process"},
    {"duration-ms", 'd', KC_NUMBER, &duration_ms, "N",
     "trace for N ms (500); with --iterations: at most"},
    {"iterations", 'i', KC_NUMBER, &iterations, "N", "trace N iterations"},
    {"start-iteration", 0, KC_NUMBER, &start_iteration, "N", "begin with iteration N (the next)"},
    {"roundup", 0, KC_NUMBER, &roundup, "N", "begin with a multiple of N, the same everywhere"},
    {"start-time", 0, KC_TEXT, &start_time, "TIME",
     "begin at TIME in all processes: +SECONDS from now, or seconds\n"
     "or milliseconds since 1970"},
    {"separately", 0, KC_FLAG, &separately, NULL,
     "begin in each process as soon as it can; by default several\n"
     "processes that are traced by time begin together"},
    {"warmup", 0, KC_NUMBER, &warmup_ms, "MS",
     "let devices warm up this long, in whole seconds (0; 5000 for\n"
     "processes that poll Dynolog's socket)"},
    {"warmup-iterations", 0, KC_NUMBER, &warmup_iterations, "N", "the same by iteration (0)"},
    {"kinds", 'a', KC_TEXT, &activities, "KIND[,...]", "kinds of activities to record"},
    KC_ALIAS_OPTION("activities", "kinds"),
    {"output", 'o', KC_TEXT, &out, "FILE",
     "the trace (trace.json); the pid of each process is inserted:\n"
     "trace_1234.json"},
    KC_ALIAS_OPTION("out", "output"),
    {"shapes", 0, KC_FLAG, &shapes, NULL, "record shapes of operators' inputs"},
    {"memory", 0, KC_FLAG, &memory, NULL, "record allocations of operators"},
    {"stack", 0, KC_FLAG, &stack, NULL, "record call stacks"},
    {"flops", 0, KC_FLAG, &flops, NULL, "record numbers of floating point operations"},
    {"modules", 0, KC_FLAG, &modules, NULL, "record the modules of operators"},
    {"memory-snapshot", 0, KC_NUMBER, &snapshot_ms, "MS",
     "a snapshot of memory in place of a trace"},
    {"set", 0, KC_TEXTS, &set, "KEY=VALUE", "a further setting of the request (repeatable)"},
    {"wait", 'w', KC_OPTIONAL_TEXT, &wait_text, "[=SECONDS]",
     "wait until every trace is complete, move it to -o, and count\n"
     "its activities: an empty trace is a failure"},
    {"retry", 0, KC_NUMBER, &retry, "N",
     "with --wait: repeat the request up to N times (2) if a trace has\n"
     "no activities; the process may have been loading its libraries.\n"
     "Unless N is 0, also wait for a named daemon, or for any process\n"
     "with --all, that is not there yet"},
    {"dump", 0, KC_FLAG, &dump, NULL, "request the ring: the time before now"},
    {"cancel", 0, KC_FLAG, &cancel, NULL, "end running traces; what was recorded is written"},
    {"limit", 'n', KC_NUMBER, &limit, "N", "request at most N traces on each host (1000)"},
    {"discover", 0, KC_TEXT, &discover, "SECONDS", "wait this long for processes to poll (12)"},
    {"host", 'H', KC_TEXT, &host, "HOST[:PORT]", "the daemon (127.0.0.1:1778)"},
    {"hosts", 0, KC_TEXT, &hosts, "LIST", "daemons of many hosts: a,b:1778 or @FILE"},
    {"slurm", 0, KC_TEXT, &slurm, "JOB", "the hosts and processes of a Slurm job"},
    {"port", 0, KC_NUMBER, &port, "N", "port of daemons that are named without one (1778)"},
    {"token-file", 't', KC_TEXT, &token_file, "FILE", "the secret that the daemons require"},
    {"socket-dir", 0, KC_TEXT, &socket_directory, "DIR",
     "directory of Dynolog's socket (KINETO_IPC_SOCKET_DIR; else an\n"
     "abstract socket)"},
    {"json", 0, KC_JSON, &kc_json_path, "[=FILE]",
     "write JSON instead of text, to FILE or the standard output"},
};
static const kc_options options = {
    VERB,
    "[options] --pid PID… | --job ID | --all | --hosts LIST | --slurm JOB",
    "Request traces of running programs. Programs that are linked with ckineto or run under\n"
    "'ckineto record --on-demand' are reached by their control sockets, others, for example\n"
    "PyTorch, through a daemon ('ckineto daemon', dynologd). If no daemon runs, this command\n"
    "acts as one: programs with KINETO_USE_DAEMON in their environment poll every 5 s.\n"
    "'ckineto ps' lists traceable processes.",
    "ckineto trigger --pid 1234 --duration-ms 500 --wait -o trace.json\n"
    "ckineto trigger --all --dump --wait",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- the command line ------------------------------------------------------------------------ */

/* "1234,1235": append to the pids of the request. */
static kineto_status parse_pid_list(kc_request *request, const char *list)
{
    for (const char *at = list; *at;) {
        char *end;
        errno = 0;
        unsigned long pid = strtoul(at, &end, 10);
        if (errno || end == at || !kb_is_digit(*at) || pid == 0 || pid > INT32_MAX ||
            (*end && *end != ','))
            return kc_usage_error(VERB, "--pid needs pids, for example 1234,1235, not '%s'", list);
        if (!kb_vec_push(&request->pids, (int32_t)pid))
            return kc_usage_error(VERB, "out of memory");
        at = *end ? end + 1 : end;
    }
    return KINETO_OK;
}

/* From --pid and from operands. */
static kineto_status parse_pids(kc_request *request, char **operands, int count)
{
    kineto_status status = KINETO_OK;
    for (size_t i = 0; status == KINETO_OK && i < pid_texts.count; i++)
        status = parse_pid_list(request, pid_texts.data[i]);
    for (int i = 0; status == KINETO_OK && i < count; i++)
        status = parse_pid_list(request, operands[i]);
    return status;
}

/* --job: the SLURM_JOB_ID. */
static kineto_status parse_job(kc_request *request)
{
    char *end;
    if (!job)
        return KINETO_OK;
    errno = 0;
    request->job = strtoll(job, &end, 10);
    request->has_job = true;
    return errno || end == job || *end
               ? kc_usage_error(VERB, "--job needs a number, the SLURM_JOB_ID, not '%s'", job)
               : KINETO_OK;
}

/* "+SECONDS" from now; or a time since 1970, in seconds or, if the number is large, in
 * milliseconds. */
static kineto_status parse_start_time(kc_request *request)
{
    const double MIN_MS = 1e11; /* smaller numbers are seconds */
    char *end;
    if (!start_time)
        return KINETO_OK;
    bool from_now = start_time[0] == '+';
    const char *digits = start_time + from_now;
    double value = strtod(digits, &end);
    bool number = end != digits && !*end && kb_is_digit(digits[0]);
    double seconds = value < MIN_MS || from_now ? value : value / 1e3;
    if (!number || seconds > MIN_MS / 20)
        return kc_usage_error(VERB, "--start-time is +SECONDS, or a time since 1970, not '%s'",
                              start_time);
    request->start_ns = (int64_t)(seconds * 1e9);
    if (from_now)
        request->start_ns += (int64_t)kb_clock_ns(CLOCK_REALTIME);
    request->start_ns -= request->start_ns % (int64_t)KC_MS_NS; /* the resolution of a request */
    return KINETO_OK;
}

/* A number of seconds, with a fraction, in nanoseconds. */
static kineto_status parse_seconds(const char *option, const char *text, uint64_t *out_ns)
{
    const double MAX_SECONDS = 1e9;
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (*end || end == text || !(seconds >= 0) || seconds > MAX_SECONDS)
        return kc_usage_error(VERB, "--%s needs a number of seconds, not '%s'", option, text);
    *out_ns = (uint64_t)(seconds * 1e9);
    return KINETO_OK;
}

/* --discover and --wait. */
static kineto_status parse_waits(kc_request *request)
{
    kineto_status status =
        parse_seconds("discover", discover ? discover : DEFAULT_DISCOVER, &request->discover_ns);
    request->has_discover = discover != NULL;
    request->has_wait = wait_text.given;
    if (status == KINETO_OK && wait_text.text)
        status = parse_seconds("wait", wait_text.text, &request->wait_ns);
    return status;
}

/* Ranges of all numeric options. */
static kineto_status check_trigger_numbers(void)
{
    const struct {
        const char *name;
        uint64_t value, min;
    } numbers[] = {{"duration-ms", duration_ms, 1},
                   {"iterations", iterations, 1},
                   {"start-iteration", start_iteration, 0},
                   {"roundup", roundup, 0},
                   {"warmup", warmup_ms, 0},
                   {"warmup-iterations", warmup_iterations, 0},
                   {"memory-snapshot", snapshot_ms, 1},
                   {"retry", retry, 0},
                   {"limit", limit, 1}};
    for (size_t i = 0; i < KB_COUNT(numbers); i++)
        if (numbers[i].value != KC_NOT_GIVEN &&
            (numbers[i].value < numbers[i].min || numbers[i].value > INT32_MAX))
            return kc_usage_error(VERB, "--%s is from %llu to %d", numbers[i].name,
                                  (unsigned long long)numbers[i].min, INT32_MAX);
    if (port > UINT16_MAX)
        return kc_usage_error(VERB, "--port is from 1 to %d", UINT16_MAX);
    return KINETO_OK;
}

/* A name of this host means its daemon and the other ways to reach its processes; other hosts are
 * reached only through their daemons. */
static kineto_status parse_host(kc_request *request)
{
    ko_rpc_daemon d = {0};
    kineto_error err;
    if (host && kc_daemon_parse(request, host, &d, &err) != KINETO_OK)
        return kc_usage_error(VERB, "--host: %s", err.message);
    request->remote = hosts || slurm || (host && !kc_is_local_host(d.host));
    return KINETO_OK;
}

/* Combinations of options that exclude each other. */
static kineto_status check_trigger_options(const kc_request *request)
{
    bool by_iteration = iterations != KC_NOT_GIVEN;
    int targets = (request->pids.count > 0) + request->has_job + all;
    if (dump + cancel + (snapshot_ms != KC_NOT_GIVEN) + by_iteration > 1)
        return kc_usage_error(
            VERB, "one of --iterations, --memory-snapshot, --dump and --cancel at a time");
    if (targets > 1)
        return kc_usage_error(VERB, "one of --pid, --job and --all at a time");
    if (!by_iteration && (start_iteration != KC_NOT_GIVEN || roundup != KC_NOT_GIVEN))
        return kc_usage_error(VERB, "--start-iteration and --roundup need --iterations");
    if (by_iteration && start_time)
        return kc_usage_error(VERB, "--start-time cannot be used with --iterations; use --roundup");
    if ((host != NULL) + (hosts != NULL) + (slurm != NULL) > 1)
        return kc_usage_error(VERB, "one of --host, --hosts and --slurm at a time");
    if (request->remote && (dump || cancel))
        return kc_usage_error(VERB,
                              "--dump and --cancel reach only processes of this host, by their "
                              "control sockets");
    if (slurm && targets)
        return kc_usage_error(VERB,
                              "--slurm selects processes itself; omit --pid, --job and --all");
    return KINETO_OK;
}

/* With a list of traceable processes. */
static kineto_status report_missing_target(const kc_request *request)
{
    kc_usage_error(VERB, "no process given, for example --pid PID, --job ID or --all");
    kc_print_traceable(request, stderr);
    return KINETO_E_ARGUMENT;
}

/* --output as an absolute path, or the default name. */
static kineto_status parse_output(kc_request *request)
{
    kineto_error err = {0};
    request->has_out = out != NULL;
    /* The directory of another host need not exist here. */
    if (request->remote && out && out[0] == '/' && strlen(out) < sizeof request->out)
        memcpy(request->out, out, strlen(out) + 1);
    else if (kc_absolute_path(out ? out : kc_default_name(request), request->out, &err) !=
             KINETO_OK)
        return kc_usage_error(VERB, "--output: %s", err.message);
    return KINETO_OK;
}

/* Options that need no parsing. */
static void copy_trigger_options(kc_request *request)
{
    request->all = all;
    request->dump = dump;
    request->cancel = cancel;
    request->separately = separately;
    request->json = kc_json_path != NULL;
    request->duration_ms = duration_ms;
    request->iterations = iterations;
    request->start_iteration = start_iteration;
    request->roundup = roundup;
    request->warmup_ms = warmup_ms;
    request->warmup_iterations = warmup_iterations;
    request->snapshot_ms = snapshot_ms;
    request->activities = activities;
    request->shapes = shapes;
    request->memory = memory;
    request->stack = stack;
    request->flops = flops;
    request->modules = modules;
    request->set = set;
    request->limit = limit;
    request->retry = retry;
    request->host = host;
    request->hosts = hosts;
    request->slurm = slurm;
    request->port = (uint16_t)port;
    request->socket_directory =
        socket_directory ? socket_directory : kb_setting("KINETO_IPC_SOCKET_DIR");
    snprintf(request->group, sizeof request->group, "%llx%x",
             (unsigned long long)kb_clock_ns(CLOCK_REALTIME), (unsigned)getpid());
}

/* All options into one request. The first mistake is reported. */
static kineto_status parse_request(kc_request *request, char **operands, int count)
{
    kineto_error err;
    kineto_status status = check_trigger_numbers();
    copy_trigger_options(request);
    if (status == KINETO_OK)
        status = parse_pids(request, operands, count);
    if (status == KINETO_OK)
        status = parse_job(request);
    if (status == KINETO_OK)
        status = parse_host(request);
    if (status == KINETO_OK)
        status = check_trigger_options(request);
    if (status == KINETO_OK)
        status = parse_start_time(request);
    if (status == KINETO_OK)
        status = parse_waits(request);
    if (status == KINETO_OK)
        status = kc_read_token(VERB, token_file, request->token);
    if (status == KINETO_OK)
        status = parse_output(request);
    if (status == KINETO_OK && kc_request_check(request, &err) != KINETO_OK)
        status = kc_usage_error(VERB, "%s", err.message);
    if (status == KINETO_OK && !request->pids.count && !request->has_job && !all && !hosts &&
        !slurm)
        status = report_missing_target(request);
    return status;
}

int kc_trigger(int argc, char **argv)
{
    static kc_request request;
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status)
        return status == KINETO_E_NOT_FOUND ? 0 : KC_EXIT_USAGE;
    if (parse_request(&request, argv + 1, operands) != KINETO_OK)
        status = KINETO_E_ARGUMENT;
    int result = status           ? KC_EXIT_USAGE
                 : request.remote ? kc_trigger_fleet(&request)
                                  : kc_trigger_local(&request);
    kb_vec_free(&request.pids);
    return result;
}

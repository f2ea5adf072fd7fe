/* ckineto daemon: serves requests for traces. Processes poll it over Dynolog's socket, and dyno and
 * `ckineto trigger` send it requests over TCP. Both are served by ondemand/dyno_daemon.c; this file
 * is the process around it: options, signals, the pid file and the background. */
#include "cli/cli.h"
#include "cli/metrics.h"
#include "cli/ondemand/daemon_process.h"
#include "cli/ondemand/traceable.h"
#include "ondemand/dynolog/dyno.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const char *listen_at = "127.0.0.1", *token_file, *socket_directory, *log_file, *pid_file;
static const char *metrics_target;
static uint64_t log_level = UINT64_MAX, metrics_seconds = 15;
static bool no_rpc, background;
static const kc_option option_list[] = {
    {"listen", 'l', KC_TEXT, &listen_at, "HOST:PORT",
     "accept requests there (127.0.0.1:1778); port 0: any free port;\n"
     "an address that other hosts can reach needs a token"},
    {"token-file", 't', KC_TEXT, &token_file, "FILE",
     "requests must contain the secret in the first line of FILE,\n"
     "which only its owner may read (0600)"},
    {"no-rpc", 0, KC_FLAG, &no_rpc, NULL, "accept no requests over TCP: only list processes"},
    {"socket-dir", 'd', KC_TEXT, &socket_directory, "DIR",
     "serve processes through sockets in DIR, which they must have as\n"
     "KINETO_IPC_SOCKET_DIR=DIR; else through abstract sockets"},
    {"metrics", 0, KC_TEXT, &metrics_target, "PORT|FILE",
     "write numbers of all rings of this user for Prometheus: serve them\n"
     "at http://127.0.0.1:PORT/metrics, or replace FILE"},
    {"metrics-seconds", 0, KC_NUMBER, &metrics_seconds, "N", "read the rings every N seconds (15)"},
    {"log", 0, KC_TEXT, &log_file, "FILE", "append messages to FILE instead of the terminal"},
    {"log-level", 0, KC_NUMBER, &log_level, "N",
     "0 verbose, 1 info, 2 warning (the default), 3 stage, 4 error,\n5 none"},
    {"pid-file", 0, KC_TEXT, &pid_file, "FILE", "write the pid to FILE, and remove it at the end"},
    {"background", 'b', KC_FLAG, &background, NULL,
     "move to the background once everything is ready"},
};
static const kc_options options = {
    "daemon",
    "[options]",
    "Serve processes that are traced on demand: processes with KINETO_USE_DAEMON set, with\n"
    "stock PyTorch or with ckineto, poll this daemon, and 'ckineto trigger' and dyno send it\n"
    "requests. SIGTERM or SIGINT ends it.",
    "ckineto daemon --background --pid-file ~/ckineto.pid",
    option_list,
    KB_COUNT(option_list),
    false,
};

/* ---- the command line ------------------------------------------------------------------------ */

/* Options after parsing. `serve` points into `at` and `token`, so it must not be copied. */
typedef struct daemon_plan {
    ko_rpc_daemon at;
    char token[KO_RPC_TOKEN_BYTES];
    ko_dyno_daemon_options serve;
} daemon_plan;

/* Address, token and socket directory. A mistake is reported. */
static kineto_status parse_daemon_options(daemon_plan *p)
{
    kineto_error err;
    if (ko_rpc_parse_address(listen_at, &p->at, &err) != KINETO_OK)
        return kc_usage_error("daemon", "--listen: %s", err.message);
    kineto_status status = kc_read_token("daemon", token_file, p->token);
    if (status)
        return status;
    p->serve = (ko_dyno_daemon_options){
        .directory = socket_directory ? socket_directory : kb_setting("KINETO_IPC_SOCKET_DIR"),
        .host = *p->at.host ? p->at.host : NULL,
        .port = p->at.port,
        .no_rpc = no_rpc,
        .token = token_file ? p->token : NULL};
    return KINETO_OK;
}

/* One line with both addresses, the port as it was chosen: scripts wait for it. */
static void print_ready_line(const ko_dyno_daemon *d, const daemon_plan *p, uint16_t metrics_port)
{
    const char *directory = p->serve.directory;
    bool is_ipv6 = strchr(p->at.host, ':') != NULL;
    printf("ckineto daemon: processes of %s at %s%s", geteuid() == 0 ? "all users" : "this user",
           directory ? directory : "@", directory ? "/" KO_DYNO_DAEMON : KO_DYNO_DAEMON);
    if (!no_rpc)
        printf(", requests%s at %s%s%s:%u", p->serve.token ? " with the token" : "",
               is_ipv6 ? "[" : "", p->serve.host ? p->serve.host : "127.0.0.1", is_ipv6 ? "]" : "",
               ko_dyno_daemon_port(d));
    if (metrics_port)
        printf(", metrics at http://127.0.0.1:%u/metrics", metrics_port);
    putchar('\n');
    fflush(stdout);
}

/* ---- serving --------------------------------------------------------------------------------- */

/* A signal that nohup or a shell has set to be ignored would still arrive through a descriptor. */
static bool is_signal_ignored(int signal)
{
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* A descriptor for the signals that end the daemon; they are blocked from here on. */
static kineto_status open_end_signals(int *fd, kineto_error *err)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < KB_COUNT(ends); i++)
        if (ends[i] == SIGTERM || !is_signal_ignored(ends[i]))
            sigaddset(&set, ends[i]);
    *fd = -1;
    if (sigprocmask(SIG_BLOCK, &set, NULL) == 0)
        *fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? KINETO_OK : kb_fail_os(err, errno, "cannot receive signals");
}

/* The daemon returns whenever the descriptor of the signals is readable. */
static kineto_status serve_until_signal(ko_dyno_daemon *d, int signals, kineto_error *err)
{
    struct signalfd_siginfo info;
    kineto_status status = KINETO_OK;
    while (status == KINETO_OK && read(signals, &info, sizeof info) <= 0)
        status = ko_dyno_daemon_run(d, -1, signals, err);
    return status;
}

/* The pid file is written before the line that announces readiness, so that a script which waits
 * for the line finds it. */
static kineto_status run_daemon(const daemon_plan *p, ko_dyno_daemon *d, int signals, int pid_fd,
                                kineto_error *err)
{
    int waits = -1;
    kc_metrics metrics = {.directory = ""};
    kineto_status status = background ? kc_background_begin(&waits, err) : KINETO_OK;
    if (status == KINETO_OK)
        status = kc_pid_file_write(pid_fd, pid_file, err);
    if (status == KINETO_OK && metrics_target)
        status = kc_metrics_start(&metrics, metrics_target, metrics_seconds, err);
    if (status == KINETO_OK)
        print_ready_line(d, p, metrics.port);
    if (status == KINETO_OK && background)
        status = kc_background_ready(waits, err);
    if (status == KINETO_OK)
        status = serve_until_signal(d, signals, err);
    kc_metrics_stop(&metrics);
    return status;
}

/* Signals are blocked and the pid file is locked before the daemon binds its names, so that a
 * second daemon with the same file changes nothing. */
static kineto_status open_and_run_daemon(const daemon_plan *p, kineto_error *err)
{
    ko_dyno_daemon *d = NULL;
    int pid_fd = -1, signals = -1;
    kineto_status status = open_end_signals(&signals, err);
    if (status == KINETO_OK && pid_file)
        status = kc_pid_file_open(pid_file, &pid_fd, err);
    if (status == KINETO_OK)
        status = ko_dyno_daemon_create(&p->serve, &d, err);
    if (status == KINETO_OK)
        status = run_daemon(p, d, signals, pid_fd, err);
    ko_dyno_daemon_destroy(d);
    kc_pid_file_close(pid_fd, pid_file);
    if (signals >= 0)
        close(signals);
    return status;
}

/* Returns when a signal has ended the daemon, or it could not begin to serve. */
int kc_daemon(int argc, char **argv)
{
    static daemon_plan p;
    int operands;
    kineto_error err = {0};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("daemon", 0);
    if (status == KINETO_OK && operands)
        status = kc_usage_error("daemon", "unexpected operand '%s'", argv[1]);
    if (status == KINETO_OK && (metrics_seconds < 1 || metrics_seconds > 86400))
        status = kc_usage_error("daemon", "--metrics-seconds is from 1 to 86400");
    if (status == KINETO_OK && log_level != UINT64_MAX && log_level > KINETO_LOG_OFF)
        status = kc_usage_error("daemon", "--log-level is from 0 to %d", KINETO_LOG_OFF);
    if (status == KINETO_OK &&
        kb_log_configure(log_level == UINT64_MAX ? -1 : (int)log_level, log_file, &err))
        status = kc_usage_error("daemon", "--log: %s", err.message);
    if (status == KINETO_OK)
        status = parse_daemon_options(&p);
    if (status)
        return KC_EXIT_USAGE;
    status = open_and_run_daemon(&p, &err);
    if (status)
        kc_complain("daemon: %s", err.message);
    return kc_exit_of(status, status != KINETO_E_ARGUMENT);
}

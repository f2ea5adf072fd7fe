/* ckineto view: serve the report to a browser, or the trace to the Perfetto UI. The documents are
 * written to a temporary directory of this process, which is removed at the end; until the server
 * runs, a thread waits for signals and removes it. */
#include "cli/report/report.h"
#include "cli/report/serve.h"
#include "cli/open_many.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERFETTO      "https://ui.perfetto.dev"
#define PERFETTO_PORT 9001u /* the only port that it fetches from */

static bool perfetto, open_browser, no_open;
static uint64_t port;
static const kc_option option_list[] = {
    {"perfetto", 0, KC_FLAG, &perfetto, NULL,
     "serve the trace to the Perfetto UI, which fetches it from this\nmachine, port 9001"},
    {"port", 'p', KC_NUMBER, &port, "N",
     "serve the report on this port of 127.0.0.1 (any free one)"},
    {"no-open", 0, KC_FLAG, &no_open, NULL, "only print the address"},
    {"open", 0, KC_FLAG, &open_browser, NULL,
     "open it in the default browser (xdg-open) also where no desktop is\nfound"},
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "view",
    "TRACE... [options]",
    "Serve the report of a trace, and the trace, on 127.0.0.1, under a random path, until\n"
    "Ctrl-C, and open it in a browser if there is a desktop. Nothing leaves this machine.",
    "ckineto view trace.json\n"
    "ckineto view --perfetto trace.json",
    option_list,
    KB_COUNT(option_list),
    false};

/* The documents, in a directory that is removed at the end. */
typedef struct view_work {
    /* that end the command */
    sigset_t signals;
    pthread_t watcher;
    /* the trace could be read */
    bool is_read;
    /* protects `directory` while the signal thread runs */
    pthread_mutex_t lock;
    bool is_watched;
    char directory[256], report[300], trace[300];
    char paths[2][128];
    kc_document documents[2];
} view_work;

/* A directory of this user in TMPDIR or /tmp. Locked, because the signal thread removes it. */
static kineto_status make_view_directory(view_work *v, kineto_error *err)
{
    const char *base = kb_setting("TMPDIR");
    int why = 0;
    pthread_mutex_lock(&v->lock);
    int n = snprintf(v->directory, sizeof v->directory, "%s/ckineto-view-XXXXXX",
                     base && *base ? base : "/tmp");
    if ((size_t)n >= sizeof v->directory || kb_os_make_own_temporary(v->directory) != 0) {
        why = (size_t)n >= sizeof v->directory ? ENAMETOOLONG : errno;
        v->directory[0] = '\0';
    }
    pthread_mutex_unlock(&v->lock);
    if (why)
        return kb_fail_os(err, why, "cannot make a directory in $TMPDIR or /tmp");
    snprintf(v->report, sizeof v->report, "%s/report.html", v->directory);
    snprintf(v->trace, sizeof v->trace, "%s/trace.json.gz", v->directory);
    return KINETO_OK;
}

/* Only files are created there. */
static void unlink_directory_entries(const char *path)
{
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        unlinkat(dirfd(directory), entry->d_name, 0); /* "." and ".." stay */
    if (directory)
        closedir(directory);
}

/* A file may be created there meanwhile, under a temporary name: retry. */
static void remove_view_directory(const view_work *v)
{
    enum { TRIES = 100 };
    if (!v->directory[0])
        return;
    for (int i = 0; i < TRIES; i++) {
        unlink_directory_entries(v->directory);
        if (rmdir(v->directory) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
            return;
    }
}

/* ---- signals before the server runs ---------------------------------------------------------- */

/* Ends the signal thread; signals that it has not received stay pending for the server. */
#define STOP_SIGNAL SIGUSR2

/* A thread: remove the directory and exit on the first signal. */
static void *await_end_signal(void *context)
{
    view_work *v = context;
    int signal;
    if (sigwait(&v->signals, &signal) == 0 && signal != STOP_SIGNAL) {
        pthread_mutex_lock(&v->lock); /* never unlocked: no directory may be made any more */
        remove_view_directory(v);
        _exit(128 + signal);
    }
    return NULL;
}

/* Before the directory exists and before other threads start, so that all threads block the
 * signals. */
static kineto_status start_signal_thread(view_work *v, kineto_error *err)
{
    sigemptyset(&v->signals);
    sigaddset(&v->signals, SIGINT);
    sigaddset(&v->signals, SIGTERM);
    sigaddset(&v->signals, SIGHUP);
    sigaddset(&v->signals, STOP_SIGNAL);
    pthread_sigmask(SIG_BLOCK, &v->signals, NULL);
    int why = pthread_create(&v->watcher, NULL, await_end_signal, v);
    v->is_watched = why == 0;
    return why ? kb_fail_os(err, why, "cannot make a thread") : KINETO_OK;
}

/* The signals stay blocked: the server receives them. */
static void stop_signal_thread(view_work *v)
{
    if (!v->is_watched)
        return;
    pthread_kill(v->watcher, STOP_SIGNAL);
    pthread_join(v->watcher, NULL);
    v->is_watched = false;
}

/* All files as one compressed trace. */
static kineto_status save_view_trace(view_work *v, char *const *paths, int count, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_status status = kc_open_traces(paths, count, -1, &trace, err);
    v->is_read = !status;
    if (!status)
        status = kineto_trace_save(trace, v->trace, err);
    kineto_trace_release(trace);
    return status;
}

/* The report at "/TOKEN/", and the trace below it. Only the Perfetto UI may read the trace across
 * origins. */
static void fill_documents(view_work *v, const char *token)
{
    snprintf(v->paths[0], sizeof v->paths[0], "/%s/", token);
    snprintf(v->paths[1], sizeof v->paths[1], "/%s/trace.json.gz", token);
    v->documents[0] = (kc_document){v->paths[0], "text/html; charset=utf-8", v->report, NULL};
    v->documents[1] =
        (kc_document){v->paths[1], "application/gzip", v->trace, perfetto ? PERFETTO : NULL};
}

/* Is somebody there to see a browser? Not in scripts, and not on machines without a display. */
static bool has_desktop(void)
{
    return isatty(STDOUT_FILENO) && (kb_setting("DISPLAY") || kb_setting("WAYLAND_DISPLAY"));
}

/* Fork twice, so that the browser is not our child and is not waited for. */
static void open_in_browser(const view_work *v, const char *url)
{
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            signal(SIGPIPE, SIG_DFL);
            sigprocmask(SIG_UNBLOCK, &v->signals, NULL);
            execlp("xdg-open", "xdg-open", url, (char *)NULL);
            kc_complain("view: xdg-open was not found; open the address yourself");
        }
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* If the address cannot be printed, no client can connect: an error. */
static kineto_status print_address(const kc_server *server, const view_work *v, kineto_error *err)
{
    char url[400];
    if (perfetto)
        snprintf(url, sizeof url, PERFETTO "/#!/?url=http://127.0.0.1:%u%s", server->port,
                 v->paths[1]);
    else
        snprintf(url, sizeof url, "http://127.0.0.1:%u%s", server->port, v->paths[0]);
    printf("%s\nCtrl-C stops serving it.\n", url);
    if (fflush(stdout) != 0)
        return kb_fail_os(err, errno, "cannot print the address");
    if (open_browser || (!no_open && has_desktop()))
        open_in_browser(v, url);
    return KINETO_OK;
}

/* A port that is in use is an error with advice. */
static kineto_status listen_on_port(kc_server *server, kineto_error *err)
{
    kineto_status status = kc_server_open(server, (uint16_t)(perfetto ? PERFETTO_PORT : port), err);
    if (status == KINETO_E_BUSY)
        return kb_fail(err, status, "port %u of 127.0.0.1 is in use by another program; end it%s",
                       perfetto ? PERFETTO_PORT : (unsigned)port,
                       perfetto ? ", because the Perfetto UI fetches from no other port"
                                : ", or choose another with --port");
    return status;
}

static bool is_any_stdin(char *const *paths, int count)
{
    bool is = false;
    for (int i = 0; i < count; i++)
        is |= strcmp(paths[i], "-") == 0;
    return is;
}

/* The page is made from the files; for standard input, which can be read only once, from the saved
 * trace. */
static kineto_status write_documents(view_work *v, char *const *paths, int count, kineto_error *err)
{
    char *made = v->trace;
    bool once = is_any_stdin(paths, count);
    kc_report_page page = {.paths = once ? &made : paths,
                           .count = once ? 1 : count,
                           .analyze = {.size = sizeof page.analyze},
                           .is_read = &v->is_read};
    kineto_status status = save_view_trace(v, paths, count, err);
    return status || perfetto ? status : kc_report_save_page(&page, v->report, err);
}

/* Listen first, so that a port in use is reported before the report is made; then make the
 * documents and serve them. */
static kineto_status serve_view(view_work *v, char *const *paths, int count, kineto_error *err)
{
    char token[33];
    kc_server server = {.documents = v->documents, .count = KB_COUNT(v->documents)};
    kineto_status status = kc_server_make_token(token, err);
    if (!status)
        status = listen_on_port(&server, err);
    if (status)
        return status;
    status = start_signal_thread(v, err);
    if (!status)
        status = make_view_directory(v, err);
    if (!status)
        status = write_documents(v, paths, count, err);
    if (!status) {
        fill_documents(v, token);
        stop_signal_thread(v);
        status = print_address(&server, v, err);
    }
    stop_signal_thread(v);
    if (!status)
        status = kc_server_run(&server, err);
    kc_server_close(&server);
    return status;
}

int kc_view(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    view_work v = {.lock = PTHREAD_MUTEX_INITIALIZER, .is_read = true};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("view", 0);
    if (!status && !operands)
        status = kc_usage_error("view", "no trace given");
    if (!status && port > 65535)
        status = kc_usage_error("view", "--port is from 0 to 65535");
    if (!status && perfetto && port && port != PERFETTO_PORT)
        status = kc_usage_error("view", "the Perfetto UI fetches from port 9001 only");
    if (status)
        return KC_EXIT_USAGE;
    status = serve_view(&v, argv + 1, operands, &err);
    remove_view_directory(&v);
    if (status)
        kc_complain("view: %s", err.message);
    if (status)
        return kc_exit_of(status, v.is_read);
    return kc_finish_stdout("view", 0);
}

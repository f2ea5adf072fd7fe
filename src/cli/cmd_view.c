/* ckineto view: the report in a browser, or the trace in the Perfetto UI. */
#include "cli/report/report.h"
#include "cli/report/serve.h"
#include "cli/several.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PERFETTO      "https://ui.perfetto.dev"
#define PERFETTO_PORT 9001u /* the only one it reads from */

static bool perfetto, open_browser;
static uint64_t port;
static const kc_option option_list[] = {
    {"perfetto", 0, KC_FLAG, &perfetto, NULL,
     "hand the trace to the Perfetto UI: the page there fetches it from this\nmachine, port 9001"},
    {"port", 'p', KC_NUMBER, &port, "N",
     "serve the report on this port of 127.0.0.1 (any free one)"},
    {"open", 0, KC_FLAG, &open_browser, NULL, "open it in the default browser (xdg-open)"},
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "view",
    "TRACE... [options]",
    "Serve the report of a trace on 127.0.0.1, behind a path that nobody can guess, until\n"
    "Ctrl-C; the trace itself is there too. Nothing leaves this machine.",
    option_list,
    KB_COUNT(option_list),
    false};

/* What is served lies in a directory of its own, which goes with us. */
typedef struct view {
    sigset_t signals; /* that end us */
    pthread_t watcher;
    bool is_read;         /* the trace could be */
    pthread_mutex_t lock; /* of `directory`, while there is a watcher */
    bool is_watched;
    char directory[256], report[300], trace[300];
    char paths[2][128];
    kc_document documents[2];
} view;

static kineto_status make_directory(view *v, kineto_error *err)
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

static void empty_directory(const char *path)
{
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        unlinkat(dirfd(directory), entry->d_name, 0); /* "." and ".." stay */
    if (directory)
        closedir(directory);
}

/* Also while a file is being made there, which begins under another name. */
static void remove_all(const view *v)
{
    enum { TRIES = 100 };
    if (!v->directory[0])
        return;
    for (int i = 0; i < TRIES; i++) {
        empty_directory(v->directory);
        if (rmdir(v->directory) == 0 || (errno != ENOTEMPTY && errno != EEXIST))
            return;
    }
}

/* ---- being told to stop before serving has begun, which ends by itself ----------------------- */

#define ENOUGH SIGUSR2 /* for the watcher: a signal that it has not taken waits for the server */

static void *watch(void *context)
{
    view *v = context;
    int signal;
    if (sigwait(&v->signals, &signal) == 0 && signal != ENOUGH) {
        pthread_mutex_lock(&v->lock); /* for good */
        remove_all(v);
        _exit(128 + signal);
    }
    return NULL;
}

/* Before there is anything to remove, and before any other thread. */
static kineto_status begin_watching(view *v, kineto_error *err)
{
    sigemptyset(&v->signals);
    sigaddset(&v->signals, SIGINT);
    sigaddset(&v->signals, SIGTERM);
    sigaddset(&v->signals, SIGHUP);
    sigaddset(&v->signals, ENOUGH);
    pthread_sigmask(SIG_BLOCK, &v->signals, NULL);
    int why = pthread_create(&v->watcher, NULL, watch, v);
    v->is_watched = why == 0;
    return why ? kb_fail_os(err, why, "cannot make a thread") : KINETO_OK;
}

/* The signals stay blocked: the server takes them. */
static void end_watching(view *v)
{
    if (!v->is_watched)
        return;
    pthread_kill(v->watcher, ENOUGH);
    pthread_join(v->watcher, NULL);
    v->is_watched = false;
}

static kineto_status make_trace(view *v, char *const *paths, int count, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_status status = kc_open_traces(paths, count, -1, &trace, err);
    v->is_read = !status;
    if (!status)
        status = kineto_trace_save(trace, v->trace, err);
    kineto_trace_release(trace);
    return status;
}

static void list_documents(view *v, const char *token)
{
    snprintf(v->paths[0], sizeof v->paths[0], "/%s/", token);
    snprintf(v->paths[1], sizeof v->paths[1], "/%s/trace.json.gz", token);
    v->documents[0] = (kc_document){v->paths[0], "text/html; charset=utf-8", v->report, NULL};
    v->documents[1] =
        (kc_document){v->paths[1], "application/gzip", v->trace, perfetto ? PERFETTO : NULL};
}

static void run_browser(const view *v, const char *url)
{
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            signal(SIGPIPE, SIG_DFL);
            sigprocmask(SIG_UNBLOCK, &v->signals, NULL);
            execlp("xdg-open", "xdg-open", url, (char *)NULL);
            kc_complain("view: there is no xdg-open: open the address yourself");
        }
        _exit(0);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

/* Without the address nobody could come: a closed standard output ends it. */
static kineto_status announce(const kc_server *server, const view *v, kineto_error *err)
{
    char url[400];
    if (perfetto)
        snprintf(url, sizeof url, PERFETTO "/#!/?url=http://127.0.0.1:%u%s", server->port,
                 v->paths[1]);
    else
        snprintf(url, sizeof url, "http://127.0.0.1:%u%s", server->port, v->paths[0]);
    printf("%s\nCtrl-C stops serving it.\n", url);
    if (fflush(stdout) != 0)
        return kb_fail_os(err, errno, "cannot say where it is served");
    if (open_browser)
        run_browser(v, url);
    return KINETO_OK;
}

static kineto_status listen_on(kc_server *server, kineto_error *err)
{
    kineto_status status = kc_server_open(server, (uint16_t)(perfetto ? PERFETTO_PORT : port), err);
    if (status == KINETO_E_BUSY)
        return kb_fail(err, status, "another program has port %u of 127.0.0.1: end it%s",
                       perfetto ? PERFETTO_PORT : (unsigned)port,
                       perfetto ? "; the Perfetto UI fetches from no other"
                                : ", or choose another with --port");
    return status;
}

static bool is_stream(char *const *paths, int count)
{
    bool is = false;
    for (int i = 0; i < count; i++)
        is |= strcmp(paths[i], "-") == 0;
    return is;
}

/* The page is made of the files; of what comes through a pipe, once, it is made of the trace. */
static kineto_status make_documents(view *v, char *const *paths, int count, kineto_error *err)
{
    char *made = v->trace;
    bool once = is_stream(paths, count);
    kc_report_page page = {.paths = once ? &made : paths,
                    .count = once ? 1 : count,
                    .analyze = {.size = sizeof page.analyze},
                    .is_read = &v->is_read};
    kineto_status status = make_trace(v, paths, count, err);
    return status || perfetto ? status : kc_report_save_page(&page, v->report, err);
}

static kineto_status show(view *v, char *const *paths, int count, kineto_error *err)
{
    char token[33];
    kc_server server = {.documents = v->documents, .count = KB_COUNT(v->documents)};
    kineto_status status = kc_server_make_token(token, err);
    if (!status)
        status = listen_on(&server, err);
    if (status)
        return status;
    status = begin_watching(v, err);
    if (!status)
        status = make_directory(v, err);
    if (!status)
        status = make_documents(v, paths, count, err);
    if (!status) {
        list_documents(v, token);
        end_watching(v);
        status = announce(&server, v, err);
    }
    end_watching(v);
    if (!status)
        status = kc_server_run(&server, err);
    kc_server_close(&server);
    return status;
}

int kc_view(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    view v = {.lock = PTHREAD_MUTEX_INITIALIZER, .is_read = true};
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("view", 0);
    if (!status && !operands)
        status = kc_usage_error("view", "name the trace to look at");
    if (!status && port > 65535)
        status = kc_usage_error("view", "--port is at most 65535");
    if (!status && perfetto && port && port != PERFETTO_PORT)
        status = kc_usage_error("view", "the Perfetto UI fetches from port 9001 only");
    if (status)
        return KC_EXIT_USAGE;
    status = show(&v, argv + 1, operands, &err);
    remove_all(&v);
    if (status)
        kc_complain("view: %s", err.message);
    if (status)
        return kc_exit_of(status, v.is_read);
    return kc_finish_stdout("view", 0);
}

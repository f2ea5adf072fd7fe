/* A program with CUDA that records itself: sessions PLUGIN DIRECTORY WAY. Each session's trace is
 * DIRECTORY/N.json. */
#include "client.h"
#include "../../helpers/sessions.h"

#include <ckineto/host.h>
#include <ckineto/record.h>
#include <ckineto/session.h>
#include <ckineto/trace.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *directory, *plugin;
static int number;

static void need(kineto_status status, const kineto_error *err)
{
    if (status == KINETO_OK)
        return;
    fprintf(stderr, "sessions: %s\n", err->message);
    fflush(stdout);
    _exit(3);
}

static void add(const char *way, const char *n)
{
    char *arguments[] = {(char *)(uintptr_t)way, (char *)(uintptr_t)n};
    client_run(2, arguments);
}

static kineto_session *begin(void)
{
    kineto_error err = {0};
    kineto_session *session;
    need(begin_session(NULL, &session, &err), &err);
    return session;
}

static void save(kineto_trace *trace)
{
    kineto_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/%d.json", directory, number++);
    need(kineto_trace_save(trace, path, &err), &err);
    kineto_trace_release(trace);
}

static void end(kineto_session *session)
{
    kineto_error err = {0};
    kineto_trace *trace;
    need(end_session(session, &trace, &err), &err);
    save(trace);
}

/* ---- ways ----------------------------------------------------------------------------------- */

static void two(void)
{
    kineto_session *session = begin();
    add("add", "3");
    end(session);
    add("add", "2"); /* not recorded */
    session = begin();
    add("add", "4");
    end(session);
}

/* As the seat of PyTorch does: CUPTI is on before the session starts, and work until then is not in it. */
static void warm_up(void)
{
    kineto_error err = {0};
    kineto_session *session;
    need(kineto_session_create(NULL, &session, &err), &err);
    for (int round = 0; round < 2; round++) {
        kineto_trace *trace;
        need(kineto_session_warm_up(session, &err), &err);
        add("add", "3");
        need(kineto_session_start(session, &err), &err);
        add("add", "2");
        need(kineto_session_stop(session, &trace, &err), &err);
        save(trace);
    }
    kineto_session_destroy(session);
}

static void overlap(void)
{
    kineto_session *first = begin();
    add("add", "1");
    kineto_session *second = begin();
    add("add", "2");
    end(first);
    add("add", "4");
    end(second);
}

static void toggle(void)
{
    kineto_error err = {0};
    kineto_session *session = begin();
    add("add", "2");
    need(kineto_session_pause(session, true, &err), &err);
    add("add", "5");
    need(kineto_session_pause(session, false, &err), &err);
    add("add", "1");
    end(session);
}

static void snapshot(void)
{
    kineto_error err = {0};
    kineto_trace *trace;
    kineto_session *session = begin();
    add("add", "2");
    need(kineto_session_snapshot(session, &trace, &err), &err);
    save(trace);
    add("add", "3");
    end(session);
}

/* Work that is complete after the session that it was launched in; then another one. */
static void late(void)
{
    kineto_session *session = begin();
    add("exit", "3");
    end(session);
    usleep(50000);
    session = begin();
    add("add", "2");
    end(session);
}

static void reset(void)
{
    kineto_session *session = begin();
    add("reset", "3");
    end(session);
    add("reset", "1");
    session = begin();
    add("reset", "2");
    end(session);
}

static void operators(void)
{
    kineto_session *session = begin();
    kineto_correlation_push(71);
    add("add", "1");
    kineto_correlation_push(72);
    add("graph", "1");
    kineto_correlation_pop();
    add("add", "1");
    kineto_correlation_pop();
    add("add", "1");
    end(session);
}

/* What is pushed and popped in a pause counts when it is over. */
static void paused_operators(void)
{
    kineto_error err = {0};
    kineto_session *session = begin();
    kineto_correlation_push(71);
    add("launch", "1");
    need(kineto_session_pause(session, true, &err), &err);
    kineto_correlation_push(72);
    need(kineto_session_pause(session, false, &err), &err);
    add("launch", "1");
    need(kineto_session_pause(session, true, &err), &err);
    kineto_correlation_pop();
    need(kineto_session_pause(session, false, &err), &err);
    add("launch", "1");
    need(kineto_session_pause(session, true, &err), &err);
    kineto_correlation_pop();
    need(kineto_session_pause(session, false, &err), &err);
    add("launch", "1");
    end(session);
}

static void loaded_again(void)
{
    kineto_error err = {0};
    need(kineto_plugin_unload(plugin, &err), &err);
    need(kineto_plugin_load(plugin, NULL, &err), &err);
    two();
}

/* A child that is forked between two sessions records itself. */
static void fork_between(void)
{
    int status = 0;
    kineto_session *session = begin();
    add("add", "2");
    end(session);
    pid_t pid = fork();
    if (pid == 0) {
        kineto_error err = {0};
        kineto_trace *trace;
        session = begin();
        need(end_session(session, &trace, &err), &err);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        _exit(9);
}

/* Sessions come and go while threads work. */
static atomic_bool enough;
static void *always(void *unused)
{
    (void)unused;
    while (!enough)
        add("threads", "1");
    return NULL;
}

static void busy(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, always, NULL) != 0)
        _exit(9);
    for (int i = 0; i < 4; i++) {
        kineto_session *session = begin();
        usleep(20000);
        end(session);
    }
    enough = true;
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"two", two},
    {"overlap", overlap},
    {"toggle", toggle},
    {"snapshot", snapshot},
    {"warm_up", warm_up},
    {"late", late},
    {"reset", reset},
    {"operators", operators},
    {"busy", busy},
    {"paused_operators", paused_operators},
    {"fork_between", fork_between},
    {"loaded_again", loaded_again},
};

int main(int argc, char **argv)
{
    kineto_error err = {0};
    if (argc != 4)
        return 99;
    plugin = argv[1];
    directory = argv[2];
    need(kineto_plugin_load(plugin, NULL, &err), &err);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].name, argv[3]) == 0)
            ways[i].run();
    printf("sum %lu\n", client_sum);
    return 0;
}

/* A program whose threads get names from the system, not from the library. Each records a range that is
 * called like the name that its row ought to have; "nothing" ought to have none.
 *
 *   named_threads exit          all of them, and exit() while one goes on
 *   named_threads self FILE     the same, recorded by the program itself
 *   named_threads kill MS       one thread that goes on for so long until the process kills itself */
#include <ckineto/record.h>
#include <ckineto/session.h>
#include <ckineto/trace.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

KINETO_SITE(range, KINETO_KIND_USER_ANNOTATION, "range");

static pthread_barrier_t both;

static void record_range(const char *name)
{
    kineto_props props = {.size = sizeof props, .name = name};
    kineto_range r = kineto_range_begin_props(&range, &props);
    kineto_range_end(r);
}

static void *be_short(void *name)
{
    prctl(PR_SET_NAME, name);
    record_range(name);
    return NULL;
}

static void *be_renamed(void *name)
{
    prctl(PR_SET_NAME, "before");
    record_range(name);
    prctl(PR_SET_NAME, name);
    return NULL;
}

static void *be_given(void *name)
{
    kineto_thread_set_name(name);
    prctl(PR_SET_NAME, "not this one");
    record_range(name);
    return NULL;
}

static void *be_nameless(void *name)
{
    record_range(name);
    return NULL;
}

static void *go_on(void *name)
{
    (void)be_short(name);
    pthread_barrier_wait(&both);
    for (;;)
        pause();
    return NULL;
}

static void run(void *(*main_of)(void *), const char *name)
{
    pthread_t id;
    if (pthread_create(&id, NULL, main_of, (void *)(uintptr_t)name) == 0)
        pthread_join(id, NULL);
}

static void start(const char *name)
{
    pthread_t id;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&id, NULL, go_on, (void *)(uintptr_t)name) == 0)
        pthread_barrier_wait(&both);
}

static void run_child(int quick)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (!quick)
            (void)be_short((void *)(uintptr_t) "child_first");
        run(be_short, quick ? "quick_worker" : "child_worker");
        if (quick)
            _exit(0);
        exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void run_all(void)
{
    run(be_short, "short");
    run(be_renamed, "renamed");
    run(be_given, "given");
    run(be_nameless, "nothing");
    prctl(PR_SET_NAME, "first_thread");
    record_range("first_thread");
    run(be_nameless, "nothing");
    start("goes_on");
}

static int record_itself(const char *path)
{
    kineto_session_options options;
    kineto_session *session;
    kineto_trace *trace;
    kineto_error err;
    kineto_session_options_init(&options);
    if (kineto_session_create(&options, &session, &err) || kineto_session_start(session, &err))
        return 1;
    run_all();
    if (kineto_session_stop(session, &trace, &err) || kineto_trace_save(trace, path, &err))
        return 1;
    kineto_trace_release(trace);
    kineto_session_destroy(session);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "self") == 0)
        return record_itself(argv[2]);
    if (argc > 2) {
        start("goes_on");
        usleep((useconds_t)atol(argv[2]) * 1000);
        raise(SIGKILL);
    }
    run_child(0);
    run_child(1);
    run_all();
    exit(0);
}

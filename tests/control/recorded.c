/* A program that knows nothing of traces but its ranges: what an on-demand recorder records.
 *
 * usage: control_recorded [options] MS
 *   -p US       an iteration each so often (1000)
 *   -s          each iteration is a step
 *   -c N        N children do the same as the program itself
 *   -d PLUGIN   each iteration uses the software accelerator, which that file is
 *   -l N MS     iteration N lasts so long
 *   -h N        iteration N never ends
 *   -n NAME     the name of the first thread; -t NAME: another thread of that name records once and waits
 *   -k N        kill itself with SIGKILL in iteration N; -v N: with SIGSEGV
 * It says "ready" after its first iteration, and runs for MS, or until it is killed. */
#include <ckineto/record.h>

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

KINETO_SITE(outer, KINETO_KIND_USER_ANNOTATION, "outer");
KINETO_SITE_ARGS(inner, KINETO_KIND_CPU_OP, "inner", {"i", KINETO_ARG_INT});

typedef int launch_call(uint32_t, const char *, uint32_t, void (*)(void *, uint32_t), void *);
typedef void synchronize_call(uint32_t);

static long period_us = 1000, children, slow = -1, slow_ms, hang = -1, sigkill = -1, sigsegv = -1;
static int steps;
static launch_call *launch;
static synchronize_call *synchronize;

static void device_find(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (library) {
        *(void **)&launch = dlsym(library, "sim_launch");
        *(void **)&synchronize = dlsym(library, "sim_synchronize");
    }
    if (!launch || !synchronize) {
        fprintf(stderr, "%s: no accelerator: %s\n", path, dlerror());
        exit(3);
    }
}

static void nothing(void *args, uint32_t item)
{
    (void)args;
    (void)item;
}

static void *run_named(void *name)
{
    prctl(PR_SET_NAME, name);
    kineto_range_end(kineto_range_begin(&outer));
    for (;;)
        pause();
    return NULL;
}

static void start_thread(char *name)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_named, name) != 0)
        exit(3);
}

static void options(int argc, char **argv)
{
    for (int i = 1; i < argc - 1; i++) {
        long number = strtol(argv[i + 1], NULL, 10);
        switch (argv[i][1]) {
        case 's':
            steps = 1;
            continue;
        case 'p':
            period_us = number;
            break;
        case 'c':
            children = number;
            break;
        case 'd':
            device_find(argv[i + 1]);
            break;
        case 'l':
            slow = number;
            slow_ms = strtol(argv[++i + 1], NULL, 10);
            break;
        case 'n':
            prctl(PR_SET_NAME, argv[i + 1]);
            break;
        case 't':
            start_thread(argv[i + 1]);
            break;
        case 'h':
            hang = number;
            break;
        case 'k':
            sigkill = number;
            break;
        case 'v':
            sigsegv = number;
            break;
        default:
            exit(2);
        }
        i++;
    }
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_us(long us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static void iteration(long i)
{
    if (steps)
        kineto_step_mark();
    kineto_range o = kineto_range_begin(&outer);
    kineto_value value = {.i = i};
    kineto_range r = kineto_range_begin_args(&inner, &value);
    if (launch && launch(0, "work", 1, nothing, NULL) == 0)
        synchronize(0);
    if (i == slow)
        sleep_us(slow_ms * 1000);
    while (i == hang)
        sleep_us(1000000);
    if (i == sigkill)
        raise(SIGKILL);
    if (i == sigsegv) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    kineto_range_end(r);
    kineto_range_end(o);
}

static void run(int64_t until_ms, int is_child)
{
    for (long i = 0; now_ms() < until_ms; i++) {
        iteration(i);
        if (i == 0 && !is_child) {
            puts("ready");
            fflush(stdout);
        }
        sleep_us(period_us);
    }
}

int main(int argc, char **argv)
{
    options(argc, argv);
    int64_t until_ms = now_ms() + strtol(argv[argc - 1], NULL, 10);
    for (long i = 0; i < children; i++)
        if (fork() == 0) {
            run(until_ms, 1);
            _exit(0);
        }
    run(until_ms, 0);
    while (wait(NULL) > 0)
        ;
    return 0;
}

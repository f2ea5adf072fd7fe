/* A program to be traced on demand: steps with operators and ranges, until it is told to end.
 *
 * usage: control_target [options]
 *   --step-ms MS   how long a step takes (10); it sleeps, but for its operators
 *   --steps N      end after so many steps; --seconds S: after so long; else it never ends
 *   --no-step      never say kineto_profiler_step
 *   --ops N        operators of a step (4), with shapes, each with a range inside
 *   --threads N    threads that record a range each millisecond
 *   --busy N       threads that record ranges without rest
 *   --slow N MS    step N takes so long; --hang N: step N never ends
 *   --crash N      raise SIGSEGV in step N; --abort N: abort
 * It says "ready PID" when it begins and "done STEPS" when it ends by itself. */
#include <ckineto/function.h>
#include <ckineto/profiler.h>
#include <ckineto/record.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct target {
    long step_ms, steps, seconds, ops, threads, busy;
    long slow_step, slow_ms, hang_step, crash_step, abort_step;
    bool no_step;
} target;

static volatile sig_atomic_t over;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&t, &t) != 0 && !over)
        ;
}

/* ---- what it does -------------------------------------------------------------------------------- */

KINETO_OPERATOR(mm, "aten::mm");
KINETO_SITE_ARGS(inner, KINETO_KIND_CPU_OP, "inner", {"i", KINETO_ARG_INT});
KINETO_SITE(tick, KINETO_KIND_USER_ANNOTATION, "tick");
KINETO_SITE(busy_range, KINETO_KIND_CPU_OP, "busy");

static void operate(long i)
{
    static const int64_t sizes[] = {8, 8};
    kineto_tensor a = {.sizes = sizes, .rank = 2, .dtype = KINETO_DTYPE_FLOAT};
    kineto_input inputs[] = {kineto_input_tensor(&a), kineto_input_tensor(&a)};
    kineto_function f;
    kineto_function_begin(&f, &mm, inputs, 2);
    kineto_value value = {.i = i};
    kineto_range r = kineto_range_begin_args(&inner, &value);
    kineto_range_end(r);
    kineto_function_end(&f);
}

static void *leisurely(void *unused)
{
    (void)unused;
    while (!over) {
        kineto_range r = kineto_range_begin(&tick);
        sleep_ms(1);
        kineto_range_end(r);
    }
    return NULL;
}

static void *restless(void *unused)
{
    (void)unused;
    while (!over)
        kineto_range_end(kineto_range_begin(&busy_range));
    return NULL;
}

static void threads_start(void *(*run)(void *), long count)
{
    pthread_t thread;
    for (long i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, run, NULL) == 0)
            pthread_detach(thread);
}

static void step(const target *t, long n)
{
    char name[64];
    (void)snprintf(name, sizeof name, "ProfilerStep#%ld", n);
    KINETO_FUNCTION_SITE(step_site, KINETO_SCOPE_USER_SCOPE, "step");
    kineto_function_info info = KINETO_FUNCTION_INFO_INIT;
    info.name = name;
    kineto_function f;
    kineto_function_begin_info(&f, &step_site, &info);
    for (long i = 0; i < t->ops; i++)
        operate(i);
    sleep_ms(n == t->slow_step ? t->slow_ms : t->step_ms);
    if (n == t->hang_step)
        while (!over)
            pause();
    if (n == t->crash_step)
        raise(SIGSEGV);
    if (n == t->abort_step)
        abort();
    kineto_function_end(&f);
    if (!t->no_step)
        kineto_profiler_step();
}

/* ---- the rest -------------------------------------------------------------------------------------- */

static void options_read(target *t, int argc, char **argv)
{
    const struct {
        const char *name;
        long *first, *second;
    } options[] = {{"--step-ms", &t->step_ms, NULL},       {"--steps", &t->steps, NULL},
                   {"--seconds", &t->seconds, NULL},       {"--ops", &t->ops, NULL},
                   {"--threads", &t->threads, NULL},       {"--busy", &t->busy, NULL},
                   {"--slow", &t->slow_step, &t->slow_ms}, {"--hang", &t->hang_step, NULL},
                   {"--crash", &t->crash_step, NULL},      {"--abort", &t->abort_step, NULL}};
    for (int i = 1; i < argc; i++) {
        bool known = strcmp(argv[i], "--no-step") == 0;
        t->no_step |= known;
        for (size_t k = 0; k < sizeof options / sizeof *options && !known; k++) {
            int more = options[k].second ? 2 : 1;
            if (strcmp(argv[i], options[k].name) != 0 || i + more >= argc)
                continue;
            *options[k].first = strtol(argv[++i], NULL, 10);
            if (options[k].second)
                *options[k].second = strtol(argv[++i], NULL, 10);
            known = true;
        }
        if (!known) {
            fprintf(stderr, "%s: '%s' is no option, or lacks a number\n", argv[0], argv[i]);
            exit(2);
        }
    }
}

static void end(int signal)
{
    (void)signal;
    over = 1;
}

int main(int argc, char **argv)
{
    target t = {.step_ms = 10,
                .ops = 4,
                .slow_step = -1,
                .hang_step = -1,
                .crash_step = -1,
                .abort_step = -1};
    options_read(&t, argc, argv);
    signal(SIGTERM, end);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    threads_start(leisurely, t.threads);
    threads_start(restless, t.busy);
    int64_t until_ms = now_ms() + t.seconds * 1000;
    long n = 0;
    while (!over && (!t.steps || n < t.steps) && (!t.seconds || now_ms() < until_ms))
        step(&t, n++);
    printf("done %ld\n", n);
    return 0;
}

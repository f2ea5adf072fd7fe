/* The work of the stress test: threads and processes that record, and sessions that come and go. */
#include "stress.h"
#include "../helpers/sessions.h"

#include <ckineto/function.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

shared *totals;

KINETO_SITE(site_plain, KINETO_KIND_CPU_OP, "plain");
KINETO_SITE_ARGS(site_args, KINETO_KIND_CPU_OP, "args", {"n", KINETO_ARG_INT},
                 {"d", KINETO_ARG_DOUBLE}, {"s", KINETO_ARG_STRING});
KINETO_SITE_ARGS(site_ints, KINETO_KIND_CPU_OP, "ints", {"list", KINETO_ARG_INTS});
KINETO_SITE(site_level, KINETO_KIND_USER_ANNOTATION, "level");
KINETO_SITE(site_mark, KINETO_KIND_CPU_INSTANT_EVENT, "mark");
KINETO_OPERATOR(site_operator, "operator");
KINETO_SITE_ARGS(site_count, KINETO_KIND_COUNTER, "count", {"value", KINETO_ARG_INT});

static void count_calls(uint64_t n) { __atomic_fetch_add(&totals->calls, n, __ATOMIC_RELAXED); }

/* ---- things to record ---------------------------------------------------------------------------- */

static uint64_t do_plain(uint64_t random)
{
    (void)random;
    kineto_range_end(kineto_range_begin(&site_plain));
    return 1;
}

static uint64_t do_args(uint64_t random)
{
    static const char text[] = "some text that is cut somewhere, as a real one would be";
    kineto_value v[] = {{.i = (int64_t)random}, {.d = 1.5}, {.s = text + random % sizeof text}};
    kineto_range r = kineto_range_begin_args(&site_args, v);
    kineto_range_end(r);
    return 1;
}

static uint64_t do_ints(uint64_t random)
{
    static int64_t numbers[900];
    kineto_ints ints = {numbers, random % 900};
    kineto_value v = {.ints = &ints};
    kineto_range_end(kineto_range_begin_args(&site_ints, &v));
    return 1;
}

static uint64_t do_name(uint64_t random)
{
    char name[700];
    memset(name, 'n', sizeof name);
    kineto_props props = {.size = sizeof props, .name = name, .name_size = 1 + random % 699};
    kineto_range_end(kineto_range_begin_props(&site_plain, &props));
    return 1;
}

static uint64_t do_levels(uint64_t random)
{
    kineto_range r[300];
    uint64_t depth = 1 + random % (random & 1024 ? 300 : 10);
    for (uint64_t i = 0; i < depth; i++)
        r[i] = kineto_range_begin(&site_level);
    for (uint64_t i = depth; i > 0; i--) /* some are closed by the outermost one, if there is one */
        if (i == 1 || !r[0] || random >> (i % 60) & 1)
            kineto_range_end(r[i - 1]);
    return depth;
}

static uint64_t do_instant(uint64_t random)
{
    (void)random;
    kineto_instant_mark(&site_mark, NULL);
    return 1;
}

static uint64_t do_counter(uint64_t random)
{
    kineto_value v = {.i = (int64_t)random};
    kineto_counter_sample(&site_count, &v);
    return 1;
}

/* With inputs of few words or many, by the short way or the long one. */
static uint64_t do_operator(uint64_t random)
{
    const int64_t sizes[] = {(int64_t)(random % 70000), 3, 5, 7, 11};
    kineto_tensor t = {.sizes = sizes, .rank = (uint32_t)(random >> 20) % 6};
    kineto_input in[12];
    for (int i = 0; i < 12; i++)
        in[i] = kineto_input_tensor(&t);
    kineto_function_info info;
    kineto_function_info_init(&info);
    kineto_function f;
    info.inputs = in;
    info.input_count = (uint32_t)(random >> 24) % 13;
    info.sequence_number = (int64_t)(random >> 40);
    info.stack = random >> 30 & 1 ? "inner;outer;" : NULL;
    if (random >> 31 & 1)
        kineto_function_begin_info(&f, &site_operator, &info);
    else
        kineto_function_begin(&f, &site_operator, in, info.input_count);
    kineto_function_end(&f);
    return 1;
}

void work(uint64_t *random, uint64_t amount, bool leave_open)
{
    static uint64_t (*const things[])(uint64_t) = {do_plain,  do_plain,    do_plain,   do_args,
                                                   do_ints,   do_name,     do_instant, do_counter,
                                                   do_levels, do_operator, do_operator};
    uint64_t calls = 0;
    for (uint64_t i = 0; i < amount; i++) {
        uint64_t r = next_random(random);
        kineto_range outer = r & 64 ? kineto_range_begin(&site_level) : 0;
        calls += (r & 64) != 0;
        calls += things[r % (sizeof things / sizeof things[0])](r >> 8);
        kineto_range_end(outer);
        if (r >> 56 == 0)
            sched_yield();
    }
    for (int i = 0; leave_open && i < 3; i++, calls++)
        (void)kineto_range_begin(&site_level);
    count_calls(calls);
}

/* ---- threads and processes ------------------------------------------------------------------------- */

typedef struct job {
    uint64_t random;
    bool may_fork;
    int generation;
} job;

static uint32_t running;

/* Works, and becomes its own child now and then. */
static void child(uint64_t *random)
{
    uint64_t how = 0;
    for (int generation = 0; generation < 3; generation++) {
        how = next_random(random);
        work(random, how % 300, false);
        if (generation == 2 || (how >> 20 & 1))
            break;
        __atomic_fetch_add(&totals->forks, 1, __ATOMIC_RELAXED);
        pid_t pid = fork();
        if (pid != 0) {
            (void)waitpid(pid, NULL, 0);
            break;
        }
    }
    if (how >> 21 & 1)
        execl("/bin/true", "true", (char *)NULL);
    _exit(0);
}

static void *thread(void *argument);

static bool start(job first, pthread_t *id)
{
    job *j = malloc(sizeof *j);
    if (!j)
        return false;
    *j = first;
    __atomic_fetch_add(&totals->threads, 1, __ATOMIC_RELAXED);
    if (pthread_create(id, NULL, thread, j) == 0)
        return true;
    free(j);
    return false;
}

static void fork_one(job *j)
{
    __atomic_fetch_add(&totals->forks, 1, __ATOMIC_RELAXED);
    uint64_t random = next_random(&j->random);
    pid_t pid = fork();
    if (pid == 0)
        child(&random);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void *thread(void *argument)
{
    job *j = argument;
    pthread_t other;
    uint64_t r = next_random(&j->random);
    work(&j->random, r % 3000, false);
    job next = {next_random(&j->random), j->may_fork, j->generation + 1};
    bool started = j->generation < 4 && (r >> 32 & 1) && start(next, &other);
    if (j->may_fork && (r >> 33 & 3) == 0)
        fork_one(j);
    work(&j->random, r >> 40 & 1023, r >> 34 & 1);
    if (started)
        pthread_join(other, NULL);
    free(j);
    return NULL;
}

/* Sessions whose traces are not checked in detail, over and inside of each other. */
static void *sessions(void *argument)
{
    uint64_t random = *(const uint64_t *)argument;
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
        uint64_t r = next_random(&random);
        kineto_session_options options;
        kineto_session *s;
        kineto_trace *t = NULL;
        kineto_session_options_init(&options);
        options.kinds = r & 1 ? KINETO_KINDS_ALL : KINETO_KIND_BIT(KINETO_KIND_CPU_OP);
        options.buffer_bytes = (size_t)65536 << (r >> 1 & 3);
        options.retention = r >> 3 & 1;
        options.threads = r >> 4 & 1;
        if (begin_session(&options, &s, NULL))
            continue;
        __atomic_fetch_add(&totals->sessions, 1, __ATOMIC_RELAXED);
        usleep((useconds_t)(r >> 5 & 4095));
        if (r >> 20 & 1 && kineto_session_snapshot(s, &t, NULL) == KINETO_OK)
            kineto_trace_release(t);
        t = NULL;
        if (end_session(s, r >> 21 & 1 ? &t : NULL, NULL) == KINETO_OK)
            kineto_trace_release(t);
    }
    return NULL;
}

void round_of_work(uint64_t seed, bool may_fork, bool with_sessions)
{
    enum { FIRST = 8, SESSIONS = 2 };
    pthread_t threads[FIRST], others[SESSIONS];
    uint64_t seeds[SESSIONS];
    bool started[FIRST];
    __atomic_store_n(&running, 1, __ATOMIC_RELEASE);
    for (uint64_t i = 0; i < FIRST; i++)
        started[i] = start((job){seed + i, may_fork, 0}, &threads[i]);
    for (int i = 0; i < SESSIONS && with_sessions; i++) {
        seeds[i] = seed + 1000 + (uint64_t)i;
        CHECK(pthread_create(&others[i], NULL, sessions, &seeds[i]) == 0);
    }
    for (uint64_t i = 0; i < FIRST; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
    __atomic_store_n(&running, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < SESSIONS && with_sessions; i++)
        pthread_join(others[i], NULL);
}

/* Benchmark of recording: begin+end pairs through the shared library into a warm pool
 * that another process drains. The floor is two reads of the clock and a 32-byte store. */
#include "bench.h"

#include "record/record.h"
#include "session/session.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAIRS  100000L
#define ROUNDS 150 /* spread over seconds: a neighbour on the machine is not busy all the time */

KINETO_SITE(site_plain, KINETO_KIND_CPU_OP, "pair");
KINETO_SITE_ARGS(site_2args, KINETO_KIND_CPU_OP, "pair2", {"m", KINETO_ARG_INT},
                 {"n", KINETO_ARG_INT});
KINETO_SITE_ARGS(site_4args, KINETO_KIND_CPU_OP, "pair4", {"a", KINETO_ARG_INT},
                 {"b", KINETO_ARG_INT}, {"c", KINETO_ARG_INT}, {"d", KINETO_ARG_INT});
KINETO_SITE_ARGS(site_8args, KINETO_KIND_CPU_OP, "pair8", {"a", KINETO_ARG_INT},
                 {"b", KINETO_ARG_INT}, {"c", KINETO_ARG_INT}, {"d", KINETO_ARG_INT},
                 {"e", KINETO_ARG_DOUBLE}, {"f", KINETO_ARG_DOUBLE}, {"g", KINETO_ARG_UINT},
                 {"h", KINETO_ARG_BOOL});
KINETO_SITE_ARGS(site_shapes, KINETO_KIND_CPU_OP, "shapes", {"Input Dims", KINETO_ARG_SHAPES});

/* ---- what is timed ---------------------------------------------------------------------------- */

static uint64_t floor_buffer[4];

static void run_floor(void)
{
    for (long i = 0; i < PAIRS; i++) {
        floor_buffer[0] = kb_ticks_hw();
        floor_buffer[1] = (uint64_t)i;
        BENCH_BARRIER();
        floor_buffer[2] = kb_ticks_hw();
        floor_buffer[3] = (uint64_t)i;
        BENCH_BARRIER();
    }
}

static void run_pair(void)
{
    for (long i = 0; i < PAIRS; i++)
        kineto_range_end(kineto_range_begin(&site_plain));
}

static void run_disabled(void)
{
    for (long i = 0; i < PAIRS; i++) {
        kineto_range r = kineto_range_begin(&site_plain);
        BENCH_BARRIER();
        kineto_range_end(r);
        BENCH_BARRIER();
    }
}

static void run_args(kineto_site *site)
{
    kineto_value values[8] = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};
    for (long i = 0; i < PAIRS; i++) {
        values[0].i = i;
        kineto_range_end(kineto_range_begin_args(site, values));
    }
}
static void run_2args(void) { run_args(&site_2args); }
static void run_4args(void) { run_args(&site_4args); }
static void run_8args(void) { run_args(&site_8args); }

static void run_3shapes(void)
{
    int64_t dims[7] = {8, 3, 224, 224, 64, 64, 7};
    kineto_shape shapes[3] = {{dims, 4}, {dims + 4, 2}, {dims + 6, 1}};
    kineto_shapes list = {shapes, 3};
    kineto_value value = {.shapes = &list};
    for (long i = 0; i < PAIRS; i++) {
        dims[0] = i;
        kineto_range_end(kineto_range_begin_args(&site_shapes, &value));
    }
}

static double time_ns(void (*run)(void))
{
    double start = bench_thread_ns();
    run();
    return (bench_thread_ns() - start) / (double)PAIRS;
}

static double time_floor(void) { return time_ns(run_floor); }

/* All subjects in turn within each round, so that each meets the quiet moments. */
typedef struct contender {
    const char *name;
    void (*run)(void);
} contender;

static void compare_contenders(const contender *subjects, int count)
{
    static bench_series own[8], floor;
    memset(own, 0, sizeof own);
    memset(&floor, 0, sizeof floor);
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_floor());
        for (int i = 0; i < count; i++)
            bench_add(&own[i], time_ns(subjects[i].run));
    }
    for (int i = 0; i < count; i++)
        bench_print(subjects[i].name, "ns/pair", &own[i], &floor);
}

/* Producer and drainer on processors of their own, where there are two: a drainer that waits for
 * the producer's lets the pool grow cold, and then it is memory that is measured. */
static void pin_to_cpu(long cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(cpu % sysconf(_SC_NPROCESSORS_ONLN)), &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

/* Three that want two processors: the kernel shares them out. */
static void restore_affinity(void)
{
    cpu_set_t all;
    memset(&all, 0xff, sizeof all);
    (void)sched_setaffinity(0, sizeof all, &all);
}

/* ---- two threads ------------------------------------------------------------------------------- */

static pthread_barrier_t gather;

static void *pair_thread(void *out)
{
    bench_series *series = out;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&gather);
        bench_add(series, time_ns(run_pair));
    }
    return NULL;
}

static void compare_two_threads(void)
{
    bench_series own[2] = {{.count = 0}, {.count = 0}}, floor = {0};
    pthread_t other;
    pthread_barrier_init(&gather, NULL, 2);
    restore_affinity();
    bench_add(&floor, time_floor());
    if (pthread_create(&other, NULL, pair_thread, &own[1]))
        return;
    pair_thread(&own[0]);
    pthread_join(other, NULL);
    for (int round = 0; round < ROUNDS; round++)
        bench_add(&floor, time_floor());
    bench_print("range_pair_2threads", "ns/pair",
                bench_min(&own[0]) > bench_min(&own[1]) ? &own[0] : &own[1], &floor);
}

/* ---- collector ----------------------------------------------------------------------------------- */

static uint64_t words_in_pool(const kf_pool *pool)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        words += kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
    return words;
}

/* Frees full chunks as a collector does, without keeping them. */
static pid_t drainer_start(const kf_pool *pool)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    static uint64_t copy[KF_CHUNK_WORDS];
    while (getppid() == parent) {
        bool idle = true;
        for (uint32_t i = 0; i < pool->chunk_count; i++)
            if (kf_chunk_state_of(&pool->descriptors[i]) == KF_CHUNK_SEALED) {
                memcpy(copy, kf_pool_chunk(pool, i), pool->descriptors[i].used * 8u);
                (void)kf_chunk_free(pool, i, kf_chunk_claim_of(pool, i));
                idle = false;
            }
        if (idle)
            usleep(50);
    }
    _exit(0);
}

static uint64_t count_losses(const kf_pool *pool)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < KF_REASON_COUNT; r++)
        if (kf_reason_is_drop(r))
            sum += pool->control->counters[KF_SOURCE_API][r];
    return sum;
}

/* In a process of its own, so that no page of the pool has been touched by it. */
static void compare_cold(const char *pool_path)
{
    kineto_error err;
    bench_series subject = {0}, floor = {0};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (kineto_rt_attach(pool_path, &err))
            _exit(1);
        bench_add(&floor, time_floor());
        bench_add(&subject, time_ns(run_pair));
        for (int i = 0; i < 4; i++)
            bench_add(&floor, time_floor());
        bench_print("range_pair_cold", "ns/pair", &subject, &floor);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void bytes_per(const char *name, const kf_pool *pool, void (*run)(void), double floor)
{
    uint64_t before = words_in_pool(pool);
    run();
    bench_line(name, (double)(words_in_pool(pool) - before) * 8 / (double)PAIRS, "bytes", floor, 1);
}

/* What the collector pays per pair: copying out to a file, clearing, freeing. Floor: one memcpy. */
static void time_drain(ks_collector *collector, const kf_pool *pool)
{
    bench_series subject = {0}, floor = {0};
    static char from[24 * PAIRS], to[24 * PAIRS];
    memset(from, 1, sizeof from);
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_thread_ns();
        memcpy(to, from, sizeof to);
        __asm__ volatile("" ::"r"(to) : "memory");
        bench_add(&floor, (bench_thread_ns() - start) / (double)PAIRS);
        while (words_in_pool(pool) > KF_CHUNK_WORDS * 2)
            (void)ks_collector_poll(collector);
        run_pair();
        start = bench_thread_ns();
        (void)ks_collector_poll(collector);
        bench_add(&subject, (bench_thread_ns() - start) / (double)PAIRS);
    }
    bench_print("drain", "ns/pair", &subject, &floor);
}

static void exit_with_error(const kineto_error *err)
{
    fprintf(stderr, "bench_record: %s\n", err->message);
    exit(1);
}

int main(void)
{
    kineto_error err = {0};
    ks_collector *collector = NULL;
    ks_collector_options options = {.kinds = KINETO_KINDS_DEFAULT,
                                    .buffer_bytes = 16u << 20,
                                    .output_path = "/dev/shm/ckineto-bench.json"};
    static const contender disabled[] = {{"range_disabled", run_disabled}};
    static const contender enabled[] = {{"range_pair", run_pair},
                                        {"range_pair_2args", run_2args},
                                        {"range_pair_8args", run_8args},
                                        {"range_pair_3shapes", run_3shapes}};
    compare_contenders(disabled, 1);
    if (ks_collector_create(&options, &collector, &err) || ks_collector_start(collector, &err))
        exit_with_error(&err);
    compare_cold(ks_collector_pool_path(collector));
    if (kineto_rt_attach(ks_collector_pool_path(collector), &err))
        exit_with_error(&err);
    const kf_pool *pool = kineto_rt_pool();
    time_drain(collector, pool);
    bytes_per("bytes_per_pair", pool, run_pair, 32);
    (void)ks_collector_poll(collector);
    bytes_per("bytes_per_pair_4args", pool, run_4args, 80);
    (void)ks_collector_poll(collector);
    uint64_t lost = count_losses(pool);
    pin_to_cpu(0);
    pid_t drainer = drainer_start(pool);
    pin_to_cpu(1);
    run_pair(); /* warm */
    compare_contenders(enabled, 4);
    kill(drainer, SIGKILL);
    waitpid(drainer, NULL, 0);
    restore_affinity();
    drainer = drainer_start(pool);
    compare_two_threads();
    bench_line("range_lost", (double)(count_losses(pool) - lost), "events", 0, 1);
    kill(drainer, SIGKILL);
    waitpid(drainer, NULL, 0);
    ks_collector_destroy(collector, false);
    return 0;
}

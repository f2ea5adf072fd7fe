/* Benchmark of a begin and an end, recorded by ckineto and by its peers, in turn within each round
 * of one process: two reads of the clock with a store (the floor), a ckineto range into a ring, the
 * same while no session records, a line of JSON printed under a lock (as small tracers do), and
 * LTTng-UST if it was installed at compile time and a session of it records.
 *
 *     bench_peers                 one JSON line per result
 *     bench_peers --save TRACE    processor time of writing that trace, once it is open */
#include "bench.h"
#include "../../tests/helpers/sessions.h"

#include <ckineto/ckineto.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <ckineto/function.h>

#ifndef PEERS_LTTNG
#define PEERS_LTTNG 0 /* it is not installed */
#endif
#if PEERS_LTTNG
bool lttng_pair_enabled(void);
void lttng_pairs(long count);
#endif

enum { PAIRS = 20000, ROUNDS = 60, SAVES = 5, RING_BYTES = 8 << 20 };

KINETO_SITE(pair_site, KINETO_KIND_CPU_OP, "pair");
KINETO_SITE_ARGS(number_site, KINETO_KIND_CPU_OP, "pair", {"n", KINETO_ARG_INT});

/* ---- timed functions ------------------------------------------------------------------------------ */

static uint64_t floor_buffer[4];

static uint64_t read_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_nsec;
#endif
}

static void run_floor(void)
{
    for (long i = 0; i < PAIRS; i++) {
        floor_buffer[0] = read_ticks();
        floor_buffer[1] = (uint64_t)i;
        BENCH_BARRIER();
        floor_buffer[2] = read_ticks();
        floor_buffer[3] = (uint64_t)i;
        BENCH_BARRIER();
    }
}

static void run_ours(void)
{
    for (long i = 0; i < PAIRS; i++) {
        kineto_range range = kineto_range_begin(&pair_site);
        BENCH_BARRIER();
        kineto_range_end(range);
        BENCH_BARRIER();
    }
}

static void run_ours_number(void)
{
    for (long i = 0; i < PAIRS; i++) {
        kineto_value value = {.i = i};
        kineto_range range = kineto_range_begin_args(&number_site, &value);
        BENCH_BARRIER();
        kineto_range_end(range);
        BENCH_BARRIER();
    }
}

static void run_function(void)
{
    for (long i = 0; i < PAIRS; i++) {
        KINETO_FUNCTION("pair");
        BENCH_BARRIER();
    }
}

/* The text that a ckineto range becomes in the trace, written at once. */
static FILE *json_file;
static pthread_mutex_t json_lock = PTHREAD_MUTEX_INITIALIZER;

static void json_event(char phase, const char *name)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    pthread_mutex_lock(&json_lock);
    fprintf(json_file,
            "{\"ph\":\"%c\",\"cat\":\"cpu_op\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%lld.%"
            "03ld},\n",
            phase, name, 1, 1, (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000, t.tv_nsec % 1000);
    pthread_mutex_unlock(&json_lock);
}

static void run_json(void)
{
    rewind(json_file);
    for (long i = 0; i < PAIRS; i++) {
        json_event('B', "pair");
        json_event('E', "pair");
    }
}

#if PEERS_LTTNG
static void run_lttng(void) { lttng_pairs(PAIRS); }
#endif

/* ---- rounds -------------------------------------------------------------------------------------- */

typedef struct subject {
    const char *name;
    void (*run)(void);
    bench_series times;
} subject;

static double time_ns(void (*run)(void))
{
    double start = bench_thread_ns();
    run();
    return (bench_thread_ns() - start) / PAIRS;
}

static void compare_subjects(subject *subjects, size_t count)
{
    bench_series floor = {0};
    for (size_t i = 0; i < count; i++)
        subjects[i].run(); /* warm */
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_ns(run_floor));
        for (size_t i = 0; i < count; i++)
            bench_add(&subjects[i].times, time_ns(subjects[i].run));
    }
    for (size_t i = 0; i < count; i++)
        bench_print(subjects[i].name, "ns/pair", &subjects[i].times, &floor);
}

static int print_error(const kineto_error *err)
{
    fprintf(stderr, "bench_peers: %s\n", err->message);
    return 1;
}

static int measure_recording(void)
{
    static subject off[] = {{"ours_off", run_ours, {{0}, 0}}};
    static subject on[] = {
        {"ours", run_ours, {{0}, 0}},
        {"ours_number", run_ours_number, {{0}, 0}},
        {"ours_function", run_function, {{0}, 0}},
        {"json_under_a_lock", run_json, {{0}, 0}},
#if PEERS_LTTNG
        {"lttng_number", run_lttng, {{0}, 0}},
#endif
    };
    size_t count = sizeof on / sizeof *on;
#if PEERS_LTTNG
    if (!lttng_pair_enabled()) {
        fprintf(stderr,
                "bench_peers: LTTng skipped: no session records it (see bench/peers/run.py)\n");
        count--;
    }
#endif
    kineto_error err;
    kineto_session *session;
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.retention = KINETO_RETAIN_NEWEST;
    options.buffer_bytes = RING_BYTES;
    json_file = fopen("/dev/shm/ckineto-bench-peers.json", "w");
    if (!json_file)
        return 1;
    compare_subjects(off, 1);
    if (begin_session(&options, &session, &err) != KINETO_OK)
        return print_error(&err);
    compare_subjects(on, count);
    kineto_session_destroy(session);
    fclose(json_file);
    return unlink("/dev/shm/ckineto-bench-peers.json");
}

/* ---- writing ------------------------------------------------------------------------------------- */

static int measure_saving(const char *path)
{
    static const char out[] = "/dev/shm/ckineto-bench-peers-out.json";
    kineto_error err;
    kineto_trace *trace;
    bench_series times = {0}, floor = {0};
    if (kineto_trace_open(path, &trace, &err) != KINETO_OK)
        return print_error(&err);
    for (int i = 0; i < SAVES; i++) {
        double start = bench_process_ns();
        if (kineto_trace_save(trace, out, &err) != KINETO_OK)
            return print_error(&err);
        bench_add(&times, (bench_process_ns() - start) / 1e9);
    }
    bench_print("ours_save", "s", &times, &floor);
    kineto_trace_release(trace);
    return unlink(out);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--save") == 0)
        return measure_saving(argv[2]);
    return measure_recording();
}

/* Benchmark of a flight recorder while no trace is requested:
 *
 *   step_off         kineto_step_mark, nothing is recorded
 *   step_ring        … with a ring: each iteration becomes a range
 *   step_watched     … with a ring, and detection of slow steps and hangs
 *   range_pair_ring  begin+end of a range into a ring that is full: old events are overwritten
 *
 * The floor of steps is a reading of the clock and four stores; that of the pair is the same pair
 * into a buffer with room, in the same run. range_pair_off is the pair while no session records. */
#include "bench.h"

#include "base/base.h"
#include "../tests/helpers/sessions.h"

#include <ckineto/control.h>
#include <ckineto/record.h>
#include <ckineto/session.h>

#define CALLS      20000L
#define PAIRS      20000L
#define ROUNDS     100
#define RING_BYTES ((size_t)16 << 20)
#define ROOM_BYTES ((size_t)16 << 20) /* for PAIRS of 24 bytes, many times */

KINETO_SITE(pair, KINETO_KIND_CPU_OP, "pair");

static uint64_t floor_buffer[4];

static void run_floor(void)
{
    for (long i = 0; i < CALLS; i++) {
        floor_buffer[0] = kb_ticks_hw();
        floor_buffer[1] = (uint64_t)i;
        floor_buffer[2] = (uint64_t)i;
        floor_buffer[3] = (uint64_t)i;
        BENCH_BARRIER();
    }
}

static void run_steps(void)
{
    for (long i = 0; i < CALLS; i++)
        kineto_step_mark();
}

static void run_pairs(void)
{
    for (long i = 0; i < PAIRS; i++) {
        kineto_range_end(kineto_range_begin(&pair));
        BENCH_BARRIER();
    }
}

static double time_ns(void (*run)(void), long calls)
{
    double start = bench_thread_ns();
    run();
    return (bench_thread_ns() - start) / (double)calls;
}

static void exit_with_error(const kineto_error *err)
{
    fprintf(stderr, "bench_ring: %s\n", err->message);
    exit(1);
}

static void measure_steps(const char *name)
{
    bench_series own = {.count = 0}, floor = {.count = 0};
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, time_ns(run_floor, CALLS));
        bench_add(&own, time_ns(run_steps, CALLS));
    }
    bench_print(name, "ns/step", &own, &floor);
}

static void ring_start(double slow, double hang)
{
    kineto_error err;
    kineto_control_options o;
    kineto_control_options_init(&o);
    o.ring_seconds = 1;
    o.ring_bytes = RING_BYTES;
    o.ring_kinds = KINETO_KINDS_DEFAULT;
    o.dump_on_slow_step = slow;
    o.dump_on_hang_seconds = hang;
    if (kineto_control_start(&o, &err))
        exit_with_error(&err);
}

static void fill_ring(void)
{
    for (size_t i = 0; i < 2 * RING_BYTES / ((size_t)PAIRS * 24); i++)
        run_pairs();
}

/* A session for each round, so that there is room; the ring is another one, of a process that has
 * nothing else. */
static void measure_pairs(void)
{
    bench_series ring = {.count = 0}, room = {.count = 0}, off = {.count = 0};
    kineto_error err;
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.buffer_bytes = ROOM_BYTES;
    for (int round = 0; round < ROUNDS; round++) {
        kineto_session *s;
        bench_add(&off, time_ns(run_pairs, PAIRS));
        if (begin_session(&o, &s, &err))
            exit_with_error(&err);
        run_pairs(); /* warm */
        bench_add(&room, time_ns(run_pairs, PAIRS));
        if (end_session(s, NULL, &err))
            exit_with_error(&err);
    }
    ring_start(0, 0);
    fill_ring();
    for (int round = 0; round < ROUNDS; round++)
        bench_add(&ring, time_ns(run_pairs, PAIRS));
    kineto_control_stop();
    bench_print("range_pair_ring", "ns/pair", &ring, &room);
    bench_line("range_pair_off", bench_min(&off), "ns/pair", 0, bench_spread(&off));
}

int main(void)
{
    unsetenv("CKINETO_RING");
    unsetenv("CKINETO_CONTROL");
    measure_steps("step_off");
    ring_start(0, 0);
    measure_steps("step_ring");
    kineto_control_stop();
    ring_start(1e6, 3600);
    measure_steps("step_watched");
    kineto_control_stop();
    measure_pairs();
    return 0;
}

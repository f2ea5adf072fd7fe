/* Shared by all benchmarks: CPU clocks, series of repetitions, and the JSON line of a result.
 *
 * A subject and its floor are measured in turn within each repetition of one process; the minimum
 * is reported, the ratio is minimum by minimum, and spread is median / minimum of the subject.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_MAX_ROUNDS 256

typedef struct bench_series {
    double values[BENCH_MAX_ROUNDS];
    int count;
} bench_series;

static inline double bench_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static inline double bench_thread_ns(void) { return bench_clock_ns(CLOCK_THREAD_CPUTIME_ID); }
static inline double bench_process_ns(void) { return bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

static inline void bench_add(bench_series *s, double value)
{
    if (s->count < BENCH_MAX_ROUNDS)
        s->values[s->count++] = value;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double bench_quantile(const bench_series *s, double q)
{
    bench_series sorted = *s;
    if (s->count == 0)
        return 0;
    qsort(sorted.values, (size_t)sorted.count, sizeof *sorted.values, bench_compare);
    return sorted.values[(int)(q * (sorted.count - 1))];
}
static inline double bench_min(const bench_series *s) { return bench_quantile(s, 0); }
static inline double bench_spread(const bench_series *s)
{
    double min = bench_min(s);
    return min > 0 ? bench_quantile(s, 0.5) / min : 1;
}

static inline void bench_line(const char *name, double value, const char *unit, double floor,
                              double spread)
{
    printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"%s\",\"floor\":%.3f,\"ratio\":%.3f,"
           "\"spread\":%.3f}\n",
           name, value, unit, floor, floor > 0 ? value / floor : 0, spread);
    fflush(stdout);
}

static inline void bench_print(const char *name, const char *unit, const bench_series *subject,
                               const bench_series *floor)
{
    bench_line(name, bench_min(subject), unit, bench_min(floor), bench_spread(subject));
}

/* Keeps the compiler from removing or merging measured code. */
#define BENCH_BARRIER() __asm__ volatile("" ::: "memory")

/* Run a command line and read the number it prints; negative when it failed. */
static inline double bench_run_command(const char *command)
{
    double number = -1;
    FILE *out = popen(command, "r");
    if (!out)
        return -1;
    if (fscanf(out, "%lf", &number) != 1)
        number = -1;
    return pclose(out) == 0 ? number : -1;
}

#endif

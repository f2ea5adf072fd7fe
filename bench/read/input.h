/* Shared by bench_read and its peers: the input in memory, and the result that each one prints. */
#ifndef READ_INPUT_H
#define READ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define READ_PADDING 4096u /* readable bytes after the text */

/* JSON text: the mapped file, or the inflated text of a .gz file. */
typedef struct read_input {
    const char *text;
    size_t size, mapped;
} read_input;

/* @return false after it has printed the reason. */
bool read_input_open(const char *path, read_input *input);

/* Inflate without keeping anything: the floor of reading .gz. @return bytes of text, 0: failed. */
uint64_t read_input_inflate_only(const char *path);

/* Result and cost of one measurement: one line on standard output. */
typedef struct read_result {
    double wall_ns, cpu_ns;
    uint64_t events, slices, anonymous_bytes;
    uint64_t check; /* of the values that were read; keeps them from being optimised away */
} read_result;

static inline double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void read_begin(read_result *r)
{
    r->wall_ns = read_clock(CLOCK_MONOTONIC);
    r->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* Present resident memory without mapped files. */
static inline uint64_t read_anonymous_bytes(const char *statm)
{
    unsigned long size = 0, resident = 0, shared = 0;
    FILE *file = fopen(statm, "re");
    if (!file)
        return 0;
    int found = fscanf(file, "%lu %lu %lu", &size, &resident, &shared);
    fclose(file);
    return found == 3 ? (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static inline void read_end(read_result *r)
{
    r->wall_ns = read_clock(CLOCK_MONOTONIC) - r->wall_ns;
    r->cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID) - r->cpu_ns;
    r->anonymous_bytes = read_anonymous_bytes("/proc/self/statm");
    printf("%.0f %.0f %llu %llu %llu %llu\n", r->wall_ns, r->cpu_ns, (unsigned long long)r->events,
           (unsigned long long)r->slices, (unsigned long long)r->anonymous_bytes,
           (unsigned long long)r->check);
}

#ifdef __cplusplus
}
#endif
#endif

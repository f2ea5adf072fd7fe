/* A program that reports to NVTX and ITT at once: ranges of two NVTX domains and of ITT on one thread, which
 * begin and end in any order (but the innermost of its kind first), by a seed.
 *
 * Prints for each name "name count least most": how many ranges, and bounds of the sum of their lengths in ns,
 * from readings of the clock around the calls. While another range ends, one that crosses it may be between
 * two pieces. */
#include "static_part.h"

#include "../nvtx/emitter.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { STACKS = 3, DEPTH = 8, NAMES = 20, RANGES = 600 };

static emitter nvtx;
static cn_handle domains[STACKS - 1];
static ci_domain *itt_domain;

typedef struct open_range {
    uint64_t before_begin, after_begin, gaps_ns;
    int name;
} open_range;

static open_range stacks[STACKS][DEPTH];
static int depths[STACKS];
static struct {
    uint64_t count;
    int64_t least_ns, most_ns;
} sums[STACKS][NAMES];

static uint64_t read_clock_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void begin_range(int stack, int name)
{
    static const char *const kinds[STACKS] = {"first", "second", "itt"};
    char text[32];
    snprintf(text, sizeof text, "%s %d", kinds[stack], name);
    open_range *r = &stacks[stack][depths[stack]++];
    *r = (open_range){.name = name, .before_begin = read_clock_ns()};
    if (stack < STACKS - 1) {
        cn_attributes a = message(text);
        (void)domain_push(&nvtx, domains[stack], &a);
    } else {
        itt_task_begin(itt_domain, no_id, no_id, itt_string_handle_create(text));
    }
    r->after_begin = read_clock_ns();
}

static void end_range(int stack)
{
    const open_range *r = &stacks[stack][--depths[stack]];
    uint64_t before = read_clock_ns();
    if (stack < STACKS - 1)
        (void)domain_pop(&nvtx, domains[stack]);
    else
        itt_task_end(itt_domain);
    uint64_t after = read_clock_ns();
    sums[stack][r->name].count++;
    sums[stack][r->name].least_ns += (int64_t)(before - r->after_begin) - (int64_t)r->gaps_ns;
    sums[stack][r->name].most_ns += (int64_t)(after - r->before_begin);
    for (int other = 0; other < STACKS; other++)
        for (int i = 0; i < depths[other]; i++)
            stacks[other][i].gaps_ns += after - before;
}

static int load_nvtx(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void *entry = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    emitter_initialize initialize;
    memcpy(&initialize, &entry, sizeof initialize);
    return initialize && emitter_init(&nvtx, initialize);
}

int main(int argc, char **argv)
{
    uint32_t seed = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    if (!load_nvtx() || !itt_load(getenv("INTEL_LIBITTNOTIFY64")))
        return 3;
    domains[0] = domain_create(&nvtx, "A");
    domains[1] = domain_create(&nvtx, "B");
    itt_domain = itt_domain_create("C");
    for (int begun = 0, open = 0; begun < RANGES || open;) {
        seed = seed * 1664525u + 1013904223u;
        int stack = (int)(seed >> 16) % STACKS;
        if (seed >> 31 && begun < RANGES && depths[stack] < DEPTH) {
            begin_range(stack, begun++ % NAMES);
            open++;
        } else if (!(seed >> 31) && depths[stack]) {
            end_range(stack);
            open--;
        }
    }
    static const char *const kinds[STACKS] = {"first", "second", "itt"};
    for (int s = 0; s < STACKS; s++)
        for (int n = 0; n < NAMES; n++)
            if (sums[s][n].count)
                printf("%s %d,%llu,%lld,%lld\n", kinds[s], n, (unsigned long long)sums[s][n].count,
                       (long long)sums[s][n].least_ns, (long long)sums[s][n].most_ns);
    return 0;
}

/* A program that a budget is for: short operators all the time, some longer ones, annotations.
 *   busy MILLISECONDS [WORK]   WORK: multiplications of one short operator (60: some 100 ns)
 * Prints how many of each began, and the CPU time that it took. */
#include <ckineto/record.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

KINETO_SITE(phase, KINETO_KIND_USER_ANNOTATION, "phase");
KINETO_SITE(brief, KINETO_KIND_CPU_OP, "brief");
KINETO_SITE_ARGS(longer, KINETO_KIND_CPU_OP, "longer", {"n", KINETO_ARG_INT});

#define BRIEF_EACH  1000 /* of a phase */
#define LONGER_WORK 30000

static volatile uint64_t result;

static void work(long count)
{
    uint64_t x = result | 1;
    for (long i = 0; i < count; i++)
        x = (x ^ x >> 29) * UINT64_C(0x9e3779b97f4a7c15);
    result = x;
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    uint64_t ms = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    long each = argc > 2 ? strtol(argv[2], NULL, 10) : 60;
    uint64_t phases = 0, begun = clock_ns(CLOCK_MONOTONIC);
    while (clock_ns(CLOCK_MONOTONIC) - begun < ms * 1000000u) {
        kineto_range p = kineto_range_begin(&phase);
        for (int i = 0; i < BRIEF_EACH; i++) {
            kineto_range r = kineto_range_begin(&brief);
            work(each);
            kineto_range_end(r);
        }
        kineto_value n = {.i = (int64_t)phases};
        kineto_range r = kineto_range_begin_args(&longer, &n);
        work(LONGER_WORK);
        kineto_range_end(r);
        kineto_range_end(p);
        phases++;
    }
    printf("phases %llu brief %llu longer %llu cpu_ns %llu\n", (unsigned long long)phases,
           (unsigned long long)phases * BRIEF_EACH, (unsigned long long)phases,
           (unsigned long long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}

/* A program whose time is in functions that the compiler inlines, one into the other. test_inlined.py knows
 * their names. Argument: milliseconds of CPU time. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define INLINED static inline __attribute__((always_inline))

static volatile uint64_t sink;

INLINED uint64_t mix_bits(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

INLINED uint64_t mix_rounds(uint64_t x, int rounds)
{
    for (int i = 0; i < rounds; i++)
        x = mix_bits(x + (uint64_t)i);
    return x;
}

__attribute__((noinline)) static uint64_t call_mixing(uint64_t x)
{
    return mix_rounds(x, 200000) + 1;
}

static double cpu_ms(void) { return 1000.0 * (double)clock() / CLOCKS_PER_SEC; }

INLINED void run_for(double ms)
{
    double end = cpu_ms() + ms;
    while (cpu_ms() < end)
        sink = call_mixing(sink);
}

int main(int argc, char **argv)
{
    run_for(argc > 1 ? atof(argv[1]) : 100);
    printf("%llu\n", (unsigned long long)sink);
    return 0;
}

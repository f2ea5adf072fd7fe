/* A program that allocates and frees: prints nanoseconds of its CPU per pair of malloc and free.
 *   malloc_pairs PAIRS [THREADS]
 * Blocks of 16 to 1039 bytes, 64 of them alive at a time; no tables, no system calls. */
#include "../bench.h"

#include <pthread.h>
#include <stdint.h>

#define ALIVE        64u
#define MAX_THREADS 64

static uint64_t pairs;

static void *run_pairs(void *argument)
{
    void *blocks[ALIVE] = {NULL};
    uint64_t random = 1 + (uint64_t)(uintptr_t)argument;
    for (uint64_t i = 0; i < pairs; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        void **slot = &blocks[random >> 58];
        free(*slot);
        *slot = malloc(16 + (random >> 40 & 1023));
        *(volatile char *)*slot = 0;
    }
    for (uint32_t i = 0; i < ALIVE; i++)
        free(blocks[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];
    static char numbers[MAX_THREADS]; /* their addresses differ */
    int count = argc > 2 ? atoi(argv[2]) : 0;
    pairs = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    if (pairs == 0 || count < 0 || count > MAX_THREADS)
        return 2;
    uint64_t wanted = pairs;
    pairs = wanted / 10 + 1; /* warm-up of the allocator */
    (void)run_pairs(NULL);
    pairs = wanted;
    double start = bench_process_ns();
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run_pairs, &numbers[i]) != 0)
            return 1;
    for (int i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    if (count == 0)
        (void)run_pairs(NULL);
    printf("%.3f\n", (bench_process_ns() - start) / (double)pairs / (count ? count : 1));
    return 0;
}

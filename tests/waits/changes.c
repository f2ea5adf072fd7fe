/* A program whose parts can be made slower one by one, for comparisons of two runs:
 *   changes SPINS HOLD_US SLEEP_S
 * Two threads take turns with a lock, which is held for HOLD_US; the first thread computes SPINS millions
 * of rounds in `slow_part`, as many as 40 in `other_part`, and sleeps once for SLEEP_S seconds. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t sink;
static long spins, hold_us, sleep_s;

__attribute__((noinline)) static void slow_part(void)
{
    for (long i = 0; i < spins * 1000000; i++)
        sink = sink * 31 + 7;
}

__attribute__((noinline)) static void other_part(void)
{
    for (long i = 0; i < 40 * 1000000L; i++)
        sink = sink * 29 + 3;
}

static void *take_turns(void *unused)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&shared_lock);
        usleep((useconds_t)hold_us);
        pthread_mutex_unlock(&shared_lock);
        usleep(100);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    spins = argc > 1 ? atol(argv[1]) : 0;
    hold_us = argc > 2 ? atol(argv[2]) : 0;
    sleep_s = argc > 3 ? atol(argv[3]) : 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, take_turns, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    slow_part();
    other_part();
    if (sleep_s)
        sleep((unsigned)sleep_s);
    return 0;
}

/* lock_pairs PAIRS [THREADS]: prints the nanoseconds of CPU time of a pthread_mutex_lock and its
 * unlock that nobody contends. Each thread has a mutex of its own. With a second thread libc cannot
 * use the shortcuts of programs with one. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 8

static long pairs;

static void *run_pairs(void *out)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct timespec begin, end;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin))
        return NULL;
    for (long i = 0; i < pairs; i++) {
        (void)pthread_mutex_lock(&mutex);
        (void)pthread_mutex_unlock(&mutex);
    }
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end))
        return NULL;
    *(double *)out = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MAX_THREADS];
    double ns[MAX_THREADS] = {0}, sum = 0;
    pairs = argc > 1 ? atol(argv[1]) : 10000000;
    int count = argc > 2 ? atoi(argv[2]) : 1, started = 0;
    if (pairs < 1 || count < 1 || count > MAX_THREADS)
        return 2;
    if (count == 1)
        (void)run_pairs(&ns[0]);
    for (; count > 1 && started < count; started++)
        if (pthread_create(&threads[started], NULL, run_pairs, &ns[started]))
            return 1;
    for (int i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < count; i++)
        sum += ns[i];
    printf("%.3f\n", sum / count / (double)pairs);
    return 0;
}

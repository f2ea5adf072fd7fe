/* A program for other profilers: two threads with functions of known shares, one of which sleeps. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static volatile double sink;

__attribute__((noinline)) static double spend_most(int n)
{
    double x = 0;
    for (int i = 0; i < n; i++)
        x += i * 0.5 / (x + 1);
    return x;
}

__attribute__((noinline)) static double spend_some(int n)
{
    double x = 0;
    for (int i = 0; i < n; i++)
        x += i * 0.25 / (x + 2);
    return x;
}

__attribute__((noinline)) static void run_round(int n)
{
    sink += spend_most(3 * n);
    sink += spend_some(n);
}

static void *run_worker(void *rounds)
{
    for (int i = 0; i < *(int *)rounds; i++)
        run_round(50000);
    return NULL;
}

int main(int count, char **arguments)
{
    int rounds = count > 1 ? atoi(arguments[1]) : 60;
    pthread_t worker;
    pthread_create(&worker, NULL, run_worker, &rounds);
    for (int i = 0; i < rounds / 2; i++) {
        struct timespec pause = {0, 500000};
        run_round(50000);
        nanosleep(&pause, NULL);
    }
    pthread_join(worker, NULL);
    return 0;
}

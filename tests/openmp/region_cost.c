/* Prints the time of an empty parallel region in ns: the fastest of many batches. region_cost [THREADS] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BATCHES 300
#define BATCH   200

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    double best = 1e12;
    long sum = 0;
    for (int b = 0; b < BATCHES; b++) {
        double from = now_ns();
        for (int i = 0; i < BATCH; i++) {
#pragma omp parallel num_threads(threads) reduction(+ : sum)
            sum += i;
        }
        double each = (now_ns() - from) / BATCH;
        best = each < best ? each : best;
    }
    printf("%.0f\n", best);
    return sum == 0;
}

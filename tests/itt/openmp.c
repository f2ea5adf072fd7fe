/* A program of OpenMP's: a parallel loop N times with two threads, and ten barriers. Prints N. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 10, loops = 0;
    double sum = 0;
    for (int i = 0; i < n; i++) {
#pragma omp parallel for reduction(+ : sum) num_threads(2)
        for (int k = 0; k < 1000; k++)
            sum += k;
        loops += sum > 0;
    }
#pragma omp parallel num_threads(2)
    for (int i = 0; i < 10; i++) {
#pragma omp barrier
    }
    printf("%d\n", loops);
    return 0;
}

/* Two regions: in the first one thread has four times the work of the others, in the second all have the same.
 * Prints what the threads waited at the barrier of the first one, in us. */
#include <omp.h>
#include <stdio.h>

static double work(int n)
{
    volatile double x = 0;
    for (int i = 0; i < n; i++)
        x += i * 0.5;
    return x;
}

int main(void)
{
    double sum = 0, waited = 0;
    for (int r = 0; r < 20; r++) {
#pragma omp parallel reduction(+ : sum, waited)
        {
            sum += work(omp_get_thread_num() == 0 ? 800000 : 200000);
            double from = omp_get_wtime();
#pragma omp barrier
            waited += omp_get_wtime() - from;
        }
#pragma omp parallel reduction(+ : sum)
        sum += work(100000);
    }
    printf("%.1f\n", waited * 1e6);
    return sum == 0;
}

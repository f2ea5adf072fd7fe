/* What a call costs: pairs of MPI_Isend and MPI_Irecv to the process itself with a wait, and reductions of
 * one rank. Prints nanoseconds of CPU time for each call, the smallest of several rounds. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

enum { ROUNDS = 7 };

static void run_messages(int count)
{
    int a = 1, b = 0;
    MPI_Request r[2];
    for (int i = 0; i < count; i++) {
        MPI_Irecv(&b, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[0]);
        MPI_Isend(&a, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &r[1]);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
}

static void run_reductions(int count)
{
    double x = 1, y;
    for (int i = 0; i < count; i++)
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double measure(void (*run)(int), int count, int calls)
{
    double best = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_ns();
        run(count);
        double ns = (now_ns() - start) / count / calls;
        best = ns < best ? ns : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 100000;
    MPI_Init(&argc, &argv);
    printf("%.1f ", measure(run_messages, count, 3));
    printf("%.1f\n", measure(run_reductions, count, 1));
    MPI_Finalize();
    return 0;
}

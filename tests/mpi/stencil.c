/* An MPI program with ranks that wait for one another: stencil PROGRAM PLANT RANK STEP
 *   PROGRAM  ring: halos of a ring (MPI_Irecv, MPI_Isend, MPI_Waitall) and a sum of all ranks in each step
 *            groups: two communicators with a sum each, and a sum of all at the end of a step
 *            sendrecv: MPI_Sendrecv along the ring, and MPI_Iallreduce, which is waited for later
 *   PLANT    none; sleep=MS and compute=FACTOR of RANK in each step; step=MS of RANK in STEP */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { STEPS = 40, HALO = 4096 };
static const double step_s = 0.004; /* processor time of a rank in a step */

static int rank, size;
static double here[HALO], there[HALO], left[HALO], right[HALO];

static double processor_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void compute(double seconds)
{
    double until = processor_time() + seconds;
    while (processor_time() < until)
        for (int i = 1; i + 1 < HALO; i++)
            there[i] = 0.25 * (here[i - 1] + 2 * here[i] + here[i + 1]);
}

static void pause_ms(double ms)
{
    struct timespec t = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};
    nanosleep(&t, NULL);
}

static void do_work(const char *plant, int is_planted, int is_step)
{
    double value = strchr(plant, '=') ? atof(strchr(plant, '=') + 1) : 0;
    compute(step_s * (is_planted && !strncmp(plant, "compute", 7) ? value : 1));
    if (is_planted && (!strncmp(plant, "sleep", 5) || (is_step && !strncmp(plant, "step", 4))))
        pause_ms(value);
}

static void exchange_halos(void)
{
    MPI_Request requests[4];
    int before = (rank + size - 1) % size, after = (rank + 1) % size;
    MPI_Irecv(left, HALO, MPI_DOUBLE, before, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(right, HALO, MPI_DOUBLE, after, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(here, HALO, MPI_DOUBLE, after, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(there, HALO, MPI_DOUBLE, before, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

static void run_step(const char *program, const char *plant, int is_planted, int is_step, MPI_Comm part)
{
    double sum = 0, mine = here[7];
    MPI_Request request;
    do_work(plant, is_planted, is_step);
    if (!strcmp(program, "ring")) {
        exchange_halos();
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    } else if (!strcmp(program, "groups")) {
        for (int i = 0; i < 3; i++)
            MPI_Allreduce(here, there, 64, MPI_DOUBLE, MPI_MAX, part);
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    } else {
        MPI_Sendrecv(here, 256, MPI_DOUBLE, (rank + 1) % size, 3, left, 256, MPI_DOUBLE, (rank + size - 1) % size, 3,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Iallreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
        compute(step_s / 4);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    here[7] = sum / size;
}

int main(int count, char **words)
{
    MPI_Comm part;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count != 5) {
        fprintf(stderr, "usage: stencil PROGRAM PLANT RANK STEP\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank / ((size + 1) / 2), rank, &part);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < STEPS; step++)
        run_step(words[1], words[2], rank == atoi(words[3]), step == atoi(words[4]), part);
    MPI_Finalize();
    return 0;
}

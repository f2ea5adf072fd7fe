/* Threads that exchange messages at the same time, each on a communicator of its own: libraries give the
 * handle of a completed request to the next one, whichever thread makes it. Every other receive is for any
 * rank. */
#include <mpi.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 8, MESSAGES = 50 };
static int rank;
static MPI_Comm comms[THREADS];

static void *run(void *which)
{
    MPI_Comm comm = comms[(long)which];
    MPI_Request requests[2 * MESSAGES];
    int in[MESSAGES], out[MESSAGES];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MESSAGES; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? 1 - rank : MPI_ANY_SOURCE, i, comm, &requests[i]);
        for (int i = 0; i < MESSAGES; i++) {
            out[i] = i + round;
            MPI_Isend(&out[i], 1, MPI_INT, 1 - rank, i, comm, &requests[MESSAGES + i]);
        }
        MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MESSAGES; i++)
            if (in[i] != i + round)
                abort();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (long i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < THREADS && provided == MPI_THREAD_MULTIPLE; i++)
        pthread_join(threads[i], NULL);
    printf("%d\n", provided == MPI_THREAD_MULTIPLE ? THREADS * ROUNDS * MESSAGES : 0);
    MPI_Finalize();
    return 0;
}

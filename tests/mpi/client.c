/* An MPI program that counts what it does: all kinds of calls that the source reads arguments of. At its end
 * each rank prints one line of JSON with its own counts, by name of the function. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* ---- counts ---------------------------------------------------------------------------------- */

enum { MAX_NAMES = 64 };
static struct {
    const char *name;
    long count, bytes;
} counted[MAX_NAMES];

static void count(const char *name, long bytes)
{
    int i = 0;
    while (i < MAX_NAMES - 1 && counted[i].name && strcmp(counted[i].name, name) != 0)
        i++;
    counted[i].name = name;
    counted[i].count++;
    counted[i].bytes += bytes;
}
#define DO(call, bytes)                                                                            \
    do {                                                                                           \
        if ((call) != MPI_SUCCESS)                                                                 \
            abort();                                                                               \
        char *name = strdup(#call);                                                                \
        name[strcspn(name, "(")] = '\0';                                                           \
        count(name, bytes);                                                                        \
    } while (0)

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void run_collectives(MPI_Comm comm)
{
    int me, n;
    double x[64], sum[64], *all = calloc(64 * 64, sizeof *all);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    for (int i = 0; i < 64; i++)
        x[i] = me + i;
    DO(MPI_Barrier(comm), 0);
    DO(MPI_Bcast(x, 8, MPI_DOUBLE, 0, comm), 64);
    DO(MPI_Allreduce(x, sum, 4, MPI_DOUBLE, MPI_SUM, comm), 32);
    check(sum[1] == n, "MPI_Allreduce");
    DO(MPI_Allreduce(MPI_IN_PLACE, sum, 2, MPI_DOUBLE, MPI_MAX, comm), 16);
    DO(MPI_Reduce(x, sum, 3, MPI_DOUBLE, MPI_MIN, n - 1, comm), 24);
    DO(MPI_Gather(x, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, comm), me ? 16 : 16 * n);
    DO(MPI_Allgather(x, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, comm), 16 * n);
    DO(MPI_Scatter(all, 1, MPI_DOUBLE, x, 1, MPI_DOUBLE, 0, comm), me ? 8 : 8 * n);
    DO(MPI_Alltoall(all, 2, MPI_DOUBLE, all + 2048, 2, MPI_DOUBLE, comm), 16 * n);
    MPI_Request request;
    DO(MPI_Iallreduce(x, sum, 1, MPI_DOUBLE, MPI_SUM, comm, &request), 8);
    DO(MPI_Wait(&request, MPI_STATUS_IGNORE), 0);
    free(all);
}

/* A ring, by each kind of call. */
static void run_messages(MPI_Comm comm)
{
    int me, n, a[16] = {0}, b[16] = {0};
    MPI_Request requests[8];
    MPI_Status status;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n);
    int to = (me + 1) % n, from = (me + n - 1) % n;
    a[0] = me;
    if (me % 2 == 0) {
        DO(MPI_Send(a, 4, MPI_INT, to, 7, comm), 16);
        DO(MPI_Recv(b, 16, MPI_INT, from, 7, comm, &status), 16);
    } else {
        DO(MPI_Recv(b, 16, MPI_INT, from, 7, comm, MPI_STATUS_IGNORE), 16);
        DO(MPI_Send(a, 4, MPI_INT, to, 7, comm), 16);
    }
    check(b[0] == from, "MPI_Recv");
    /* Any rank and any tag, completed together and ignored. */
    DO(MPI_Irecv(b, 4, MPI_INT, MPI_ANY_SOURCE, 9, comm, &requests[0]), 16);
    DO(MPI_Irecv(b + 4, 4, MPI_INT, from, 10, comm, &requests[1]), 16);
    DO(MPI_Isend(a, 4, MPI_INT, to, 9, comm, &requests[2]), 16);
    DO(MPI_Issend(a, 4, MPI_INT, to, 10, comm, &requests[3]), 16);
    DO(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE), 0);
    check(b[0] == from && b[4] == from, "MPI_Waitall");
    DO(MPI_Sendrecv(a, 1, MPI_INT, to, 11, b, 16, MPI_INT, from, MPI_ANY_TAG, comm,
                    MPI_STATUS_IGNORE),
       4);
    check(b[0] == from, "MPI_Sendrecv");
    /* To nobody. */
    DO(MPI_Sendrecv(a, 1, MPI_INT, MPI_PROC_NULL, 12, b, 1, MPI_INT, MPI_PROC_NULL, 12, comm,
                    &status),
       4);
    /* Persistent. */
    DO(MPI_Recv_init(b, 4, MPI_INT, from, 13, comm, &requests[0]), 0);
    DO(MPI_Send_init(a, 4, MPI_INT, to, 13, comm, &requests[1]), 0);
    for (int i = 0; i < 3; i++) {
        DO(MPI_Startall(2, requests), 0);
        DO(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), 0);
    }
    DO(MPI_Request_free(&requests[0]), 0);
    DO(MPI_Request_free(&requests[1]), 0);
    /* Tests, until there is something. */
    int flag = 0;
    DO(MPI_Irecv(b, 4, MPI_INT, from, 14, comm, &requests[0]), 16);
    DO(MPI_Isend(a, 4, MPI_INT, to, 14, comm, &requests[1]), 16);
    while (!flag)
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    count("MPI_Test", 0);
    DO(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), 0);
    /* A matched message. */
    MPI_Message message;
    DO(MPI_Isend(a, 3, MPI_INT, to, 15, comm, &requests[0]), 12);
    DO(MPI_Mprobe(from, MPI_ANY_TAG, comm, &message, MPI_STATUS_IGNORE), 0);
    DO(MPI_Mrecv(b, 4, MPI_INT, &message, MPI_STATUS_IGNORE), 12);
    DO(MPI_Wait(&requests[0], &status), 0);
}

static void run_file(const char *path)
{
    MPI_File file;
    char text[64];
    memset(text, 'a' + rank, sizeof text);
    DO(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file),
       0);
    DO(MPI_File_write_at_all(file, 64 * rank, text, 64, MPI_CHAR, MPI_STATUS_IGNORE), 64);
    DO(MPI_File_close(&file), 0);
}

/* Rank 0 comes late to a receive, to a send and to a collective. */
static void run_late(long delay_us)
{
    int x = rank;
    if (rank == 0)
        usleep((useconds_t)delay_us);
    DO(MPI_Barrier(MPI_COMM_WORLD), 0);
    if (rank == 0) {
        usleep((useconds_t)delay_us);
        DO(MPI_Send(&x, 1, MPI_INT, 1, 20, MPI_COMM_WORLD), 4);
        usleep((useconds_t)delay_us);
        DO(MPI_Recv(&x, 1, MPI_INT, 1, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE), 4);
    } else if (rank == 1) {
        DO(MPI_Recv(&x, 1, MPI_INT, 0, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE), 4);
        DO(MPI_Ssend(&x, 1, MPI_INT, 0, 21, MPI_COMM_WORLD), 4);
    }
}

static void print_counts(void)
{
    char line[4096];
    int at = snprintf(line, sizeof line, "{\"rank\":%d,\"size\":%d,\"counts\":{", rank, size);
    for (int i = 0; i < MAX_NAMES && counted[i].name; i++)
        at += snprintf(line + at, sizeof line - (size_t)at, "%s\"%s\":[%ld,%ld]", i ? "," : "",
                       counted[i].name, counted[i].count, counted[i].bytes);
    snprintf(line + at, sizeof line - (size_t)at, "}}\n");
    fputs(line, stdout);
    fflush(stdout);
}

/* client FILE DELAY_US */
int main(int argc, char **argv)
{
    MPI_Comm half, again;
    DO(MPI_Init(&argc, &argv), 0);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    DO(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half), 0);
    DO(MPI_Comm_dup(MPI_COMM_WORLD, &again), 0);
    run_collectives(MPI_COMM_WORLD);
    run_collectives(half);
    run_messages(MPI_COMM_WORLD);
    run_messages(again);
    if (argc > 1 && *argv[1])
        run_file(argv[1]);
    if (argc > 2 && size > 1)
        run_late(atol(argv[2]));
    DO(MPI_Comm_free(&half), 0);
    DO(MPI_Comm_free(&again), 0);
    count("MPI_Finalize", 0);
    print_counts();
    return MPI_Finalize();
}

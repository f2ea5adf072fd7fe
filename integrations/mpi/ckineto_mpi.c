/* ckineto-mpi: facts of many traces and the comparison of their ranks in one MPI job.
 *
 * Process r of n runs `ckineto facts --shard r/n`, and the first one `ckineto reduce` when all are done.
 * The commands are programs of their own: a trace that crashes one costs the job nothing, and this
 * program needs no library but MPI, whose versions differ in their ABI. Facts that are there already
 * are kept, so a job that was killed goes on where it was when it is started again. */
#include <errno.h>
#include <mpi.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_INCOMPLETE = 3, EXIT_USAGE = 2, EXIT_NOT_FOUND = 127, EXIT_OF_SIGNAL = 128 };

extern char **environ;

typedef struct options {
    const char *output, *facts, *command;
    char **rest; /* of the command line: traces, and options of `ckineto facts` */
    int rest_count;
    bool help;
} options;

static void print_usage(FILE *out)
{
    fputs("Usage: mpirun -n N ckineto-mpi [options] TRACE...\n\n"
          "Make facts of traces on all processes of an MPI job, and compare the ranks. Directories are searched.\n\n"
          "  -o FILE      the result (run.ckrun)\n"
          "  --facts DIR  where facts are kept (FILE without .ckrun, with .facts)\n"
          "  --help       print this\n\n"
          "Other options are those of 'ckineto facts'. CKINETO is the path of the command, if it is not in PATH.\n\n"
          "Example:\n"
          "  srun -n 64 ckineto-mpi -o run.ckrun /shared/run && ckineto analyze run.ckrun\n",
          out);
}

/* False: an option lacks its value. */
static bool parse_options(int argc, char **argv, options *o)
{
    *o = (options){.output = "run.ckrun", .command = getenv("CKINETO"), .rest = argv + 1};
    if (!o->command || !*o->command)
        o->command = "ckineto";
    for (int i = 1; i < argc; i++) {
        bool is_output = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0;
        if (strcmp(argv[i], "--help") == 0)
            o->help = true;
        if (!is_output && strcmp(argv[i], "--facts") != 0) {
            argv[1 + o->rest_count++] = argv[i];
            continue;
        }
        if (i + 1 == argc)
            return false;
        *(is_output ? &o->output : &o->facts) = argv[++i];
    }
    return true;
}

/* "run.ckrun" keeps its facts in "run.facts". NULL: out of memory. */
static char *name_facts(const char *output)
{
    static const char suffix[] = ".ckrun", folder[] = ".facts";
    size_t size = strlen(output);
    if (size > strlen(suffix) && strcmp(output + size - strlen(suffix), suffix) == 0)
        size -= strlen(suffix);
    char *name = malloc(size + sizeof folder);
    if (name) {
        memcpy(name, output, size);
        memcpy(name + size, folder, sizeof folder);
    }
    return name;
}

/* Status of a program as a shell would say it. */
static int run_program(char *const *argv)
{
    pid_t pid;
    int status, failed = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (failed) {
        fprintf(stderr, "ckineto-mpi: %s: %s; set CKINETO to the path of the command\n", argv[0], strerror(failed));
        return EXIT_NOT_FOUND;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_USAGE;
    return WIFSIGNALED(status) ? EXIT_OF_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

static int make_facts(const options *o, int process, int process_count)
{
    char shard[32];
    const char *first[] = {o->command, "facts", "--shard", shard, "-o", o->facts};
    size_t count = sizeof first / sizeof *first;
    char **argv = calloc(count + (size_t)o->rest_count + 1, sizeof *argv);
    if (!argv)
        return EXIT_USAGE;
    snprintf(shard, sizeof shard, "%d/%d", process, process_count);
    memcpy(argv, first, sizeof first);
    memcpy(argv + count, o->rest, (size_t)o->rest_count * sizeof *argv);
    int status = run_program(argv);
    free(argv);
    return status;
}

static int reduce_facts(const options *o)
{
    const char *argv[] = {o->command, "reduce", o->facts, "-o", o->output, NULL};
    char *copy[sizeof argv / sizeof *argv];
    memcpy(copy, argv, sizeof argv);
    return run_program(copy);
}

/* Most MPI libraries wait at full speed, which the processes that still work would have to share. */
static void wait_for_all(void)
{
    MPI_Request request;
    int is_done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_done)
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
}

/* The exit status, equal on all processes. */
static int run_job(const options *o, int process, int process_count)
{
    int status = make_facts(o, process, process_count), worst;
    if (status && status != EXIT_INCOMPLETE)
        fprintf(stderr, "ckineto-mpi: process %d: ckineto facts ended with %d; its traces are missing\n", process, status);
    wait_for_all();
    MPI_Allreduce(&status, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    status = process == 0 ? reduce_facts(o) : 0;
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return status ? status : worst > EXIT_INCOMPLETE ? EXIT_INCOMPLETE : worst;
}

int main(int argc, char **argv)
{
    options o;
    int process, process_count, status = EXIT_USAGE;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &process_count);
    bool is_understood = parse_options(argc, argv, &o) && (o.help || o.rest_count);
    if (!is_understood || o.help) {
        if (process == 0)
            print_usage(is_understood ? stdout : stderr);
        status = is_understood ? 0 : EXIT_USAGE;
    } else {
        char *facts = o.facts ? NULL : name_facts(o.output);
        o.facts = o.facts ? o.facts : facts;
        if (o.facts)
            status = run_job(&o, process, process_count);
        free(facts);
    }
    MPI_Finalize();
    return process == 0 ? status : 0;
}

/* Benchmark of the allocator hook in a program that only calls malloc and free: loaded while no
 * session records, recorded with the default sampling, and with every allocation recorded. The
 * program times itself; its runs alternate with plain ones. */
#include "bench.h"

#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 9
#define TRACE  "/dev/shm/ckineto-bench-memory.json"

typedef struct way {
    const char *name, *before, *pairs; /* before: prefix of the program's command line */
    bench_series with, without;
} way;

static double run_program(const char *before, const char *program, const char *pairs)
{
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command, "%s %s %s", before, program, pairs);
    return bench_run_command(command);
}

static int measure_way(way *w, const char *program)
{
    for (int round = 0; round < ROUNDS; round++) {
        double plain = run_program("", program, w->pairs);
        double ours = run_program(w->before, program, w->pairs);
        if (plain < 0 || ours < 0) {
            fprintf(stderr, "bench_memory: '%s %s' did not run\n", w->before, program);
            return 1;
        }
        bench_add(&w->without, plain);
        bench_add(&w->with, ours);
    }
    bench_print(w->name, "ns/pair", &w->with, &w->without);
    return 0;
}

int main(void)
{
    char self[PATH_MAX], program[PATH_MAX + 64], loaded[2 * PATH_MAX], usual[2 * PATH_MAX],
        every[2 * PATH_MAX], library[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return 1;
    self[n] = 0;
    const char *bin = dirname(self);
    snprintf(library, sizeof library, "%s/../lib/ckineto/libckineto-memory.so", bin);
    if (access(library, R_OK) != 0) {
        fprintf(stderr, "bench_memory: skipped, no %s\n", library);
        return 77;
    }
    snprintf(program, sizeof program, "%s/malloc_pairs", bin);
    snprintf(loaded, sizeof loaded, "LD_PRELOAD=%s", library);
    snprintf(usual, sizeof usual, "%s/ckineto record --quiet --memory -o " TRACE " --", bin);
    snprintf(every, sizeof every,
             "%s/ckineto record --quiet --memory=1 --buffer-mb 512 -o " TRACE " --", bin);
    static way ways[3] = {{.name = "memory_hook_nobody_records", .pairs = "10000000"},
                          {.name = "memory_hook_sampled", .pairs = "10000000"},
                          {.name = "memory_hook_every_allocation", .pairs = "1000000"}};
    ways[0].before = loaded;
    ways[1].before = usual;
    ways[2].before = every;
    int failed = 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !failed; i++)
        failed = measure_way(&ways[i], program);
    unlink(TRACE);
    return failed;
}

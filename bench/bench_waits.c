/* Benchmark of the hooks for calls that wait, in programs that do nothing else: locks that are free,
 * with the library loaded and recorded, and reads that are counted only or recorded. The program
 * times itself; its runs alternate with plain ones, and pairs of runs are compared. */
#include "bench.h"

#include <libgen.h>
#include <limits.h>
#include <unistd.h>

#define PAIRS_OF_RUNS 9
#define WAITS_TRACE   "/dev/shm/ckineto-bench-waits.json"

typedef struct wait_way {
    const char *name, *options, *arguments; /* options of record; NULL: only loaded */
    bench_series with, without, more;
} wait_way;

static double run_wait_calls(const char *before, const char *bin, const char *arguments)
{
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command, "%s %s/wait_calls %s", before, bin, arguments);
    return bench_run_command(command);
}

static int measure_wait_way(wait_way *w, const char *bin, const char *library)
{
    char before[3 * PATH_MAX];
    if (w->options)
        snprintf(before, sizeof before, "%s/ckineto record --quiet --cpu off %s -o " WAITS_TRACE " --",
                 bin, w->options);
    else
        snprintf(before, sizeof before, "LD_PRELOAD=%s", library);
    for (int round = 0; round < PAIRS_OF_RUNS; round++) {
        double plain = run_wait_calls("", bin, w->arguments);
        double ours = run_wait_calls(before, bin, w->arguments);
        if (plain < 0 || ours < 0) {
            fprintf(stderr, "bench_waits: '%s wait_calls %s' did not run\n", before, w->arguments);
            return 1;
        }
        bench_add(&w->without, plain);
        bench_add(&w->with, ours);
        bench_add(&w->more, ours - plain);
    }
    bench_print(w->name, "ns/call", &w->with, &w->without);
    char name[64];
    snprintf(name, sizeof name, "%s_more", w->name);
    bench_line(name, bench_quantile(&w->more, 0.5), "ns/call", 0, 1);
    return 0;
}

int main(void)
{
    static wait_way ways[] = {
        {.name = "waits_lock_loaded", .arguments = "lock 20000000"},
        {.name = "waits_lock", .options = "--waits", .arguments = "lock 20000000"},
        {.name = "waits_lock_2_threads", .options = "--waits", .arguments = "lock 20000000 2"},
        {.name = "waits_read_counted", .options = "--waits=1000000", .arguments = "read 1000000"},
        {.name = "waits_read_recorded", .options = "--waits=0", .arguments = "read 100000"},
    };
    char self[PATH_MAX], library[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    int failed = 0;
    if (n < 0)
        return 1;
    self[n] = 0;
    const char *bin = dirname(self);
    snprintf(library, sizeof library, "%s/../lib/ckineto/libckineto-waits.so", bin);
    if (access(library, R_OK) != 0) {
        fprintf(stderr, "bench_waits: skipped, no %s\n", library);
        return 77;
    }
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !failed; i++)
        failed = measure_wait_way(&ways[i], bin, library);
    unlink(WAITS_TRACE);
    return failed;
}

/* Benchmark of `ckineto record` for a Vulkan program that is bound by its dispatches: the program times its own
 * loop; runs with and without the recorder alternate. The number in the result's name is how
 * often each dispatch changes its items. */
#include "bench.h"

#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS     7
#define DISPATCHES 200.0 /* in a submission */

static int measure(const char *bin, int submissions, int height)
{
    char plain[PATH_MAX + 96], recorded[3 * PATH_MAX], name[64];
    bench_series with = {.count = 0}, without = {.count = 0};
    snprintf(plain, sizeof plain, "%s/vulkan_client time_batch %d %d", bin, submissions, height);
    snprintf(recorded, sizeof recorded,
             "%s/ckineto record --quiet --cpu off -o /dev/shm/ckineto-bench.json -- %s", bin, plain);
    snprintf(name, sizeof name, "record_overhead_vulkan_%d", height);
    for (int round = 0; round < ROUNDS; round++) {
        double a = bench_run_command(plain), b = bench_run_command(recorded);
        if (a < 0 || b < 0) {
            fprintf(stderr, "bench_vulkan: skipped, no Vulkan device or no client\n");
            return 77;
        }
        bench_add(&without, a / DISPATCHES / submissions);
        bench_add(&with, b / DISPATCHES / submissions);
    }
    bench_print(name, "ns/dispatch", &with, &without);
    return 0;
}

int main(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return 1;
    self[n] = 0;
    const char *bin = dirname(self);
    int status = measure(bin, 40, 1);
    if (status == 0)
        status = measure(bin, 3, 1000);
    unlink("/dev/shm/ckineto-bench.json");
    return status;
}

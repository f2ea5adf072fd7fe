/* Benchmark of `ckineto record` for a program with many short OpenCL calls: the program times its
 * own loop; runs with and without the recorder alternate. */
#include "bench.h"

#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 9
#define CALLS  "20000"

int main(void)
{
    char self[PATH_MAX], plain[PATH_MAX + 64], recorded[3 * PATH_MAX];
    bench_series with = {.count = 0}, without = {.count = 0};
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return 1;
    self[n] = 0;
    const char *bin = dirname(self);
    snprintf(plain, sizeof plain, "%s/ocl_calls " CALLS, bin);
    snprintf(recorded, sizeof recorded,
             "%s/ckineto record --quiet -o /dev/shm/ckineto-bench.json -- %s", bin, plain);
    for (int round = 0; round < ROUNDS; round++) {
        double a = bench_run_command(plain), b = bench_run_command(recorded);
        if (a < 0 || b < 0) {
            fprintf(stderr, "bench_opencl: skipped, no OpenCL device or no recorder\n");
            return 77;
        }
        bench_add(&without, a / atof(CALLS));
        bench_add(&with, b / atof(CALLS));
    }
    bench_print("record_overhead_opencl", "ns/call", &with, &without);
    unlink("/dev/shm/ckineto-bench.json");
    return 0;
}

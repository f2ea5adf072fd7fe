/* Benchmark of one reading of a thread's counters, with the counters that this machine has. The
 * floor is a system call that does nothing. */
#include "bench.h"
#include "record/perf.h"

#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 21
#define CALLS  5000

static void measure_counters(const char *const *names, size_t count)
{
    kr_perf_plan plan;
    kr_perf_thread thread;
    kr_perf_values values;
    kineto_error err = {.message = ""};
    bench_series ours = {.count = 0}, call = {.count = 0};
    if (kr_perf_prepare(names, count, &plan, &err, &err) != KINETO_OK ||
        kr_perf_open(&thread, &plan, &err) != KINETO_OK) {
        fprintf(stderr, "%s: not measured: %s\n", names[0], err.message);
        return;
    }
    if (err.message[0])
        fprintf(stderr, "%s\n", err.message);
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_thread_ns();
        for (int i = 0; i < CALLS; i++)
            syscall(SYS_getppid);
        double middle = bench_thread_ns();
        for (int i = 0; i < CALLS; i++) {
            kr_perf_read(&thread, &values);
            BENCH_BARRIER();
        }
        bench_add(&call, (middle - start) / CALLS);
        bench_add(&ours, (bench_thread_ns() - middle) / CALLS);
    }
    char name[64];
    snprintf(name, sizeof name, "perf_read_%s_and_%zu_more%s", names[0], count - 1,
             thread.in_user ? "_rdpmc" : "");
    bench_print(name, "ns/reading", &ours, &call);
    kr_perf_close(&thread);
}

int main(void)
{
    static const char *const hardware[] = {"cycles", "instructions"};
    static const char *const kernel[] = {"task-clock", "page-faults", "context-switches"};
    measure_counters(hardware, KB_COUNT(hardware));
    measure_counters(kernel, KB_COUNT(kernel));
    return 0;
}

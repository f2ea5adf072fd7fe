/* Benchmark of analyses of a trace that is open: all of them, each by itself, and their growth.
 *
 *   bench_analyze [--json] [--runs N] [--growth] [FILE…]
 *
 * Without a file, a trace of a million events is generated; with --growth, traces of half a million
 * to eight. It reports CPU time of the process, the best of --runs. "first" is the first analysis
 * of a trace, which also sorts and links its rows, in memory that is new to the process:
 * fresh_memory_of_first is the time to touch as much new memory. The floor is one pass that reads
 * every row's start and end. */
#include "bench.h"

#include <ckineto/analyze.h>

#include <libgen.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int runs = 3;
static bool growth;

static void exit_with_error(const char *what, const char *why)
{
    fprintf(stderr, "bench_analyze: %s: %s\n", what, why);
    exit(1);
}

static double time_row_scan(const kineto_trace *trace)
{
    static volatile int64_t sum;
    kineto_activity a;
    double begin = bench_process_ns();
    for (uint64_t row = 0; row < kineto_trace_count(trace); row++) {
        kineto_trace_get(trace, (kineto_row)row, &a);
        sum += a.end_ns - a.start_ns;
    }
    return bench_process_ns() - begin;
}

static double time_analysis(const kineto_trace *trace, const char *tables, bool series)
{
    kineto_error err = {0};
    kineto_analysis *facts;
    kineto_analysis_options o = {.size = sizeof o, .tables = tables, .series = series};
    double begin = bench_process_ns();
    if (kineto_analysis_run(trace, &o, &facts, &err))
        exit_with_error(tables ? tables : "all", err.message);
    double time = bench_process_ns() - begin;
    kineto_analysis_destroy(facts);
    return time;
}

static size_t peak_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (size_t)use.ru_maxrss * 1024;
}

/* Time to touch `bytes` of new memory (page faults), which is part of every first analysis. */
static double time_page_faults(size_t bytes)
{
    double begin = bench_process_ns();
    char *fresh = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED)
        return 0;
    madvise(fresh, bytes + 1, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096)
        ((volatile char *)fresh)[at] = 1;
    munmap(fresh, bytes + 1);
    return bench_process_ns() - begin;
}

/* All tables except the critical path, which is timed by itself. */
static void list_tables(char *list, size_t size, bool series)
{
    size_t n = 0;
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++) {
        const char *name = kineto_fact_table_name(i);
        if (strncmp(name, "critical_path", 13) != 0 && (series || !kineto_fact_table_is_series(i)))
            n += (size_t)snprintf(list + n, size - n, "%s%s", n ? "," : "", name);
    }
}

static void print_result(const char *name, double ns, uint64_t events, double floor)
{
    bench_line(name, ns / (double)events, "ns/event", floor / (double)events, 1);
}

static void measure_trace(const char *path)
{
    kineto_trace *trace;
    kineto_error err = {0};
    static char list[4096], longer[4096];
    double best = 0, floor = 0, begin = bench_process_ns();
    if (kineto_trace_open(path, &trace, &err))
        exit_with_error(path, err.message);
    double load = bench_process_ns() - begin;
    uint64_t events = kineto_trace_count(trace);
    list_tables(list, sizeof list, false);
    list_tables(longer, sizeof longer, true);
    size_t loaded = peak_bytes();
    double first = time_analysis(trace, list, false);
    size_t peak = peak_bytes();
    double fresh = time_page_faults(peak - loaded);
    for (int i = 0; i < runs; i++) {
        double time = time_analysis(trace, list, false), seen = time_row_scan(trace);
        best = i && best < time ? best : time;
        floor = i && floor < seen ? floor : seen;
    }
    printf("# %s: %llu events\n", path, (unsigned long long)events);
    print_result("load", load, events, floor);
    print_result("analyze_first", first, events, floor);
    print_result("analyze_again", best, events, floor);
    print_result("fresh_memory_of_first", fresh, events, floor);
    if (!growth)
        print_result("analyze_with_series", time_analysis(trace, longer, true), events, floor);
    bench_line("analyze_first_in_all", first / 1e6, "ms", floor / 1e6, 1);
    bench_line("peak", (double)peak / (double)events, "bytes/event", 0, 1);
    for (uint32_t i = 0; !growth && i < kineto_fact_table_count(); i++) {
        const char *name = kineto_fact_table_name(i);
        print_result(name, time_analysis(trace, name, true), events, floor);
    }
    kineto_trace_release(trace);
}

/* Measure in a child process, so that its memory peak is that of one trace. */
static void measure_apart(const char *path)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        measure_trace(path);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status)
        exit_with_error(path, "could not be measured");
}

static void make_and_measure(const char *self, uint64_t events)
{
    char path[] = "/tmp/bench_analyze-XXXXXX", directory[4096], command[9000];
    int fd = mkstemp(path);
    if (fd < 0)
        exit_with_error(path, "cannot be made");
    close(fd);
    snprintf(directory, sizeof directory, "%s", self);
    snprintf(command, sizeof command, "'%s/gen_trace' --events %llu --layout torch2 --out %s",
             dirname(directory), (unsigned long long)events, path);
    if (system(command))
        exit_with_error(command, "failed");
    measure_apart(path);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {500000, 1000000, 2000000, 4000000, 8000000};
    int files = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--growth") == 0)
            growth = true;
        else if (strcmp(argv[i], "--json") != 0) {
            measure_apart(argv[i]);
            files++;
        }
    }
    if (files)
        return 0;
    if (!growth)
        make_and_measure(argv[0], 1000000);
    for (size_t i = 0; growth && i < sizeof sizes / sizeof sizes[0]; i++)
        make_and_measure(argv[0], sizes[i]);
    return 0;
}

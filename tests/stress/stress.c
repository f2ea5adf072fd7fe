/* Threads × forks × exits × sessions for some seconds: `stress threads|fork|collector SECONDS
 * [SEED]`. After each round the rows of the trace and the losses in its ledger must add up to the
 * calls that were made, and every row must be sound. */
#include "stress.h"

#include "session/session.h"
#include "../helpers/sessions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- checking -------------------------------------------------------------------------------------- */

static void print_ledger(const kineto_trace *trace)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line l;
        kineto_trace_ledger(trace, i, &l);
        fprintf(stderr, "  %.*s: %.*s: %llu%s\n", (int)l.source.size, l.source.data,
                (int)l.reason.size, l.reason.data, (unsigned long long)l.count,
                l.is_loss ? " lost" : "");
    }
}

static void check_row(const kineto_trace *trace, kineto_row row)
{
    kineto_activity a, p;
    kineto_trace_get(trace, row, &a);
    CHECK(a.end_ns >= a.start_ns);
    CHECK(a.name.size > 0 && a.name.data[0] != '?'); /* no site was lost */
    kineto_row parent = kineto_trace_parent(trace, row);
    if (parent == KINETO_NO_ROW)
        return;
    kineto_trace_get(trace, parent, &p);
    CHECK(p.track == a.track);
    CHECK(p.start_ns <= a.start_ns && a.end_ns <= p.end_ns);
}

void check_trace(const kineto_trace *trace, uint64_t calls_before)
{
    uint64_t calls = __atomic_load_n(&totals->calls, __ATOMIC_RELAXED) - calls_before;
    uint64_t rows = kineto_trace_count(trace), lost = kineto_trace_lost(trace);
    if (rows + lost != calls) {
        fprintf(stderr, "%llu calls, but %llu rows and %llu lost\n", (unsigned long long)calls,
                (unsigned long long)rows, (unsigned long long)lost);
        print_ledger(trace);
        abort();
    }
    for (kineto_row row = 0; row < rows; row++)
        check_row(trace, row);
    for (uint32_t i = 0; i < kineto_trace_track_count(trace); i++) {
        kineto_track track;
        kineto_trace_track(trace, i, &track);
        CHECK(track.type != KINETO_TRACK_THREAD || track.lane_count <= 1); /* all nest */
    }
}

/* ---- the modes -------------------------------------------------------------------------------------- */

static uint64_t one_round(uint64_t seed, bool may_fork)
{
    kineto_session_options options;
    kineto_session *s;
    kineto_trace *t;
    kineto_error err;
    uint64_t random = seed, r = next_random(&random);
    uint64_t before = __atomic_load_n(&totals->calls, __ATOMIC_RELAXED);
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_ALL;
    options.operators = seed % 2 ? KINETO_OPERATORS_INPUTS : 0;
    options.buffer_bytes = (size_t)65536 << (r % 11);
    options.retention = r >> 8 & 1;
    if (begin_session(&options, &s, &err)) {
        fprintf(stderr, "no session: %s\n", err.message);
        abort();
    }
    round_of_work(seed, may_fork, r >> 9 & 1);
    if (end_session(s, &t, &err)) {
        fprintf(stderr, "no trace: %s\n", err.message);
        abort();
    }
    check_trace(t, before);
    uint64_t lost = kineto_trace_lost(t);
    kineto_trace_release(t);
    return lost;
}

static void in_process(double seconds, uint64_t seed, bool may_fork)
{
    uint64_t rounds = 0, lost = 0;
    for (double end = now_seconds() + seconds; now_seconds() < end; rounds++)
        lost += one_round(seed + rounds * 10000, may_fork);
    printf("%llu rounds, %llu calls, %llu of them lost and counted, %llu threads, %llu forks, %llu "
           "more sessions\n",
           (unsigned long long)rounds, (unsigned long long)totals->calls, (unsigned long long)lost,
           (unsigned long long)totals->threads, (unsigned long long)totals->forks,
           (unsigned long long)totals->sessions);
}

/* Rounds in a program that this one records from outside; it has sessions of its own besides. */
static void worker(double seconds, uint64_t seed)
{
    for (double end = now_seconds() + seconds; now_seconds() < end; seed += 10000)
        round_of_work(seed, false, seed >> 4 & 1);
}

static void in_collector(const char *self, double seconds, uint64_t seed, const char *counters)
{
    char directory[] = "/tmp/ckineto-stress-XXXXXX", output[64], text[2][32];
    kineto_error err = {0};
    kineto_trace *t = NULL;
    ks_collector *c = NULL;
    int status = 0;
    CHECK(mkdtemp(directory));
    snprintf(output, sizeof output, "%s/t.json", directory);
    ks_collector_options options = {.kinds = KINETO_KINDS_ALL,
                                    .buffer_bytes = (size_t)1 << (20 + seed % 6),
                                    .output_path = output};
    CHECK(ks_collector_create(&options, &c, &err) == KINETO_OK);
    CHECK(ks_collector_start(c, &err) == KINETO_OK);
    snprintf(text[0], sizeof text[0], "%f", seconds);
    snprintf(text[1], sizeof text[1], "%llu", (unsigned long long)seed);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("CKINETO_SESSION", ks_collector_pool_path(c), 1);
        execl(self, self, "worker", text[0], text[1], counters, (char *)NULL);
        _exit(127);
    }
    while (waitpid(pid, &status, WNOHANG) == 0)
        usleep((useconds_t)(ks_collector_poll(c) / 1000));
    if (ks_collector_finish(c, &t, &err)) {
        fprintf(stderr, "no trace: %s\n", err.message);
        abort();
    }
    ks_collector_destroy(c, false);
    CHECK(rmdir(directory) == 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_trace(t, 0);
    printf("%llu calls, %llu of them lost and counted, %llu threads, %llu sessions inside\n",
           (unsigned long long)totals->calls, (unsigned long long)kineto_trace_lost(t),
           (unsigned long long)totals->threads, (unsigned long long)totals->sessions);
    kineto_trace_release(t);
}

/* The counters, in a file for the sake of the worker. */
static shared *map_totals(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    close(fd);
    return p;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    double seconds = argc > 2 ? atof(argv[2]) : 3;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : (uint64_t)time(NULL) * 1000;
    char path[64];
    snprintf(path, sizeof path, "/tmp/ckineto-stress-%d", (int)getpid());
    if (strcmp(mode, "worker") == 0 && argc > 4) {
        totals = map_totals(argv[4], O_RDWR);
        worker(seconds, seed);
        return 0;
    }
    totals = map_totals(path, O_RDWR | O_CREAT | O_EXCL);
    if (strcmp(mode, "collector") != 0)
        unlink(path);
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    if (strcmp(mode, "threads") == 0)
        in_process(seconds, seed, false);
    else if (strcmp(mode, "fork") == 0)
        in_process(seconds, seed, true);
    else if (strcmp(mode, "collector") == 0)
        in_collector("/proc/self/exe", seconds, seed, path);
    else
        fprintf(stderr, "usage: stress threads|fork|collector SECONDS [SEED]\n");
    unlink(path);
    return totals->threads ? 0 : 2;
}

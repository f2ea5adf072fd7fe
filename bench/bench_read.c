/* Benchmark of reading traces: speed and memory, compared with a parser that only visits the fields
 * (simdjson on demand) and one that builds a tree (simdjson DOM). Each measurement is a fresh
 * process, page faults included.
 *
 *   bench_read [--json] [--best] [--runs N] [--cpus LIST] [--events N] [FILE…]
 *
 * Without a file, traces of --events events of two layouts are generated. The contenders take
 * turns, and the median (--best: the best) of --runs is reported; files are in the page cache. CPU
 * counts are set by affinity, as taskset does. */
#include "bench.h"
#include "read/input.h"

#include <ckineto/trace.h>

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- timed functions, run in a child process ------------------------------------------------------------------ */

static void exit_with_error(const char *message)
{
    fprintf(stderr, "bench_read: %s\n", message);
    exit(1);
}

static void read_every_byte(const char *path, read_result *r)
{
    read_input in;
    if (!read_input_open(path, &in))
        exit(1);
    for (size_t i = 0; i + 8 <= in.size; i += 8) {
        uint64_t word;
        memcpy(&word, in.text + i, 8);
        r->check += word;
    }
}

static void inflate_only(const char *path, read_result *r)
{
    r->check = read_input_inflate_only(path);
    if (!r->check)
        exit(1);
}

static kineto_trace *open_trace(const char *path, read_result *r)
{
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    if (kineto_trace_open(path, &trace, &err))
        exit_with_error(err.message);
    r->events = kineto_trace_count(trace);
    return trace;
}

static void open_only(const char *path, read_result *r) { (void)open_trace(path, r); }

/* Use every derived column once, since they are built on first use. Callers do it for a few rows of
 * each track, so that the building is measured and not millions of calls. */
static void use_row(const kineto_trace *trace, kineto_row row, read_result *r)
{
    r->check += kineto_trace_parent(trace, row) + (uint64_t)kineto_trace_self_ns(trace, row) +
                kineto_trace_lane(trace, row) + kineto_trace_launch(trace, row) +
                kineto_trace_launched(trace, row);
}

static void open_and_derive(const char *path, read_result *r)
{
    kineto_trace *trace = open_trace(path, r);
    const kineto_row *order = kineto_trace_time_order(trace);
    r->check += order && r->events ? order[r->events - 1] : 0;
    for (uint32_t i = 0; i < kineto_trace_track_count(trace); i++) {
        kineto_track track;
        kineto_trace_track(trace, i, &track);
        const kineto_row *rows = kineto_trace_track_rows(trace, i);
        r->check += track.lane_count;
        if (rows && track.count)
            use_row(trace, rows[0], r);
    }
    for (uint64_t row = 0; row < r->events; row += 4096)
        use_row(trace, (kineto_row)row, r);
    for (uint64_t i = 0; i < kineto_trace_flow_count(trace); i += 4096) {
        kineto_flow flow;
        kineto_trace_flow(trace, i, &flow);
        r->check += flow.from;
    }
}

/* ---- the contenders -------------------------------------------------------------------------------- */

typedef struct contender {
    const char *key, *title;
    void (*run)(const char *, read_result *); /* NULL: a peer program */
    bool ours, packed_only, plain_only;
} contender;

static const contender contenders[] = {
    {"bytes", "read every byte", read_every_byte, false, false, true},
    {"inflate", "inflate only", inflate_only, false, true, false},
    {"ondemand", "simdjson on demand, fields only", NULL, false, false, false},
    {"dom", "simdjson DOM", NULL, false, false, false},
    {"open", "ckineto open", open_only, true, false, false},
    {"derived", "ckineto open, order, parents, lanes, links", open_and_derive, true, false, false},
};
#define CONTENDERS  (sizeof contenders / sizeof *contenders)
#define MAX_COLUMNS 4

typedef struct measure {
    bench_series wall, cpu;
    uint64_t events, slices, anonymous_bytes, peak_anonymous_bytes, peak_bytes;
} measure;

static struct {
    bool json, best;
    int runs;
    int cpus[MAX_COLUMNS];
    int cpu_columns;
    uint64_t events;
    char directory[4096]; /* of this program and of those that it starts */
    char self[4096];
} options = {.runs = 5};

static cpu_set_t allowed;

/* Restrict this process to the last n processors that it may use: the first ones serve
 * interrupts. */
static void set_cpu_count(int n)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t cpu = CPU_SETSIZE; cpu-- > 0 && n > 0;)
        if (CPU_ISSET(cpu, &allowed)) {
            CPU_SET(cpu, &set);
            n--;
        }
    (void)sched_setaffinity(0, sizeof set, &set);
}

static void exec_contender(const contender *c, int cpus, const char *file, int out)
{
    char peer[4200];
    snprintf(peer, sizeof peer, "%s/peer_simdjson", options.directory);
    set_cpu_count(cpus);
    dup2(out, 1);
    if (c->run)
        execl(options.self, "bench_read", "--child", c->key, file, (char *)NULL);
    else
        execl(peer, "peer_simdjson", c->key, file, (char *)NULL);
    _exit(126);
}

/* Wait for a child and return the peak of its anonymous memory, sampled every 0.5 ms. The sampling
 * disturbs the child, so it is not timed in the same run. */
static uint64_t wait_and_sample_memory(pid_t pid, int *status, struct rusage *usage)
{
    char statm[64];
    uint64_t peak = 0;
    snprintf(statm, sizeof statm, "/proc/%d/statm", (int)pid);
    while (wait4(pid, status, WNOHANG, usage) == 0) {
        uint64_t now = read_anonymous_bytes(statm);
        peak = now > peak ? now : peak;
        usleep(500);
    }
    return peak;
}

static bool measure_once(const contender *c, int cpus, const char *file, bool memory, measure *m)
{
    int pipe_ends[2], status = 0;
    struct rusage usage = {0};
    unsigned long long events, slices, anonymous, check;
    double wall, cpu;
    if (pipe(pipe_ends))
        exit_with_error(strerror(errno));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        exec_contender(c, cpus, file, pipe_ends[1]);
    close(pipe_ends[1]);
    FILE *from = fdopen(pipe_ends[0], "r");
    if (pid < 0 || !from)
        exit_with_error(strerror(errno));
    if (memory)
        m->peak_anonymous_bytes = wait_and_sample_memory(pid, &status, &usage);
    else
        wait4(pid, &status, 0, &usage);
    int found = fscanf(from, "%lf %lf %llu %llu %llu %llu", &wall, &cpu, &events, &slices,
                       &anonymous, &check);
    fclose(from);
    if (!WIFEXITED(status) || WEXITSTATUS(status) || found != 6)
        return false;
    m->events = events;
    m->slices = slices;
    m->anonymous_bytes = anonymous;
    m->peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    if (!memory) {
        bench_add(&m->wall, wall);
        bench_add(&m->cpu, cpu);
    }
    return true;
}

/* ---- the file -------------------------------------------------------------------------------------- */

typedef struct subject {
    const char *path;
    char label[256];
    bool packed;
    uint64_t text_bytes, events;
    measure results[CONTENDERS][MAX_COLUMNS];
    bool failed[CONTENDERS];
} subject;

static uint64_t count_events(const read_input *in)
{
    static const char mark[] = "\"ph\":";
    uint64_t count = 0;
    const char *at = in->text, *end = in->text + in->size;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1)) != NULL) {
        count++;
        at += sizeof mark - 1;
    }
    return count;
}

/* Count bytes and events of a file, in a child process so that this one stays small. It also brings
 * the file into the page cache. */
static void count_subject(subject *s)
{
    int ends[2];
    uint64_t found[2] = {0, 0};
    size_t length = strlen(s->path);
    s->packed = length > 3 && strcmp(s->path + length - 3, ".gz") == 0;
    if (pipe(ends))
        exit_with_error(strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        read_input in;
        if (!read_input_open(s->path, &in))
            _exit(1);
        found[0] = in.size;
        found[1] = count_events(&in);
        _exit(write(ends[1], found, sizeof found) != (ssize_t)sizeof found);
    }
    close(ends[1]);
    if (read(ends[0], found, sizeof found) != (ssize_t)sizeof found)
        exit(1);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    s->text_bytes = found[0];
    s->events = found[1];
}

static bool can_run_contender(const subject *s, size_t i, int column)
{
    const contender *c = &contenders[i];
    char peer[4200];
    snprintf(peer, sizeof peer, "%s/peer_simdjson", options.directory);
    if (s->failed[i] || (column > 0 && !c->ours) || (s->packed ? c->plain_only : c->packed_only))
        return false;
    return c->run || access(peer, X_OK) == 0;
}

static void measure_all(subject *s)
{
    for (int round = 0; round <= options.runs; round++) /* the last one measures memory */
        for (size_t i = 0; i < CONTENDERS; i++)
            for (int column = 0; column < options.cpu_columns; column++)
                if (can_run_contender(s, i, column) &&
                    !measure_once(&contenders[i], options.cpus[column], s->path,
                                  round == options.runs, &s->results[i][column]))
                    s->failed[i] = true;
}

/* Warn if ckineto or simdjson did not read the whole file. */
static void compare_counts(const subject *s)
{
    const measure *peer = &s->results[2][0];
    if (peer->wall.count && peer->events != s->events)
        fprintf(stderr, "bench_read: %s: simdjson found %llu events, the text has %llu\n", s->path,
                (unsigned long long)peer->events, (unsigned long long)s->events);
    if (peer->wall.count && s->results[4][0].wall.count && s->results[4][0].events < peer->slices)
        fprintf(stderr, "bench_read: %s: %llu slices, but only %llu activities were read\n",
                s->path, (unsigned long long)peer->slices,
                (unsigned long long)s->results[4][0].events);
}

/* ---- results ----------------------------------------------------------------------------------------- */

/* The median, or with --best the minimum. */
static double get_typical_ns(const bench_series *s)
{
    return bench_quantile(s, options.best ? 0 : 0.5);
}

static double divide_by_events(const subject *s, uint64_t bytes)
{
    return s->events ? (double)bytes / (double)s->events : 0;
}

/* Bytes per nanosecond are GB/s. */
static double compute_rate(const subject *s, const measure *m)
{
    double wall = get_typical_ns(&m->wall);
    return wall > 0 ? (double)s->text_bytes / wall : 0;
}

static void print_json(const subject *s, size_t i, int column)
{
    const measure *m = &s->results[i][column];
    double peer = compute_rate(s, &s->results[2][0]), own = compute_rate(s, m);
    printf("{\"name\":\"read_%s_%s_%dcpu\",\"value\":%.3f,\"unit\":\"GB/"
           "s\",\"floor\":%.3f,\"ratio\":%.3f,"
           "\"spread\":%.3f,\"best\":%.3f,\"wall_s\":%.4f,\"cpu_s\":%.4f,\"events\":%llu,\"text_"
           "bytes\":%llu,"
           "\"resident_bytes_per_event\":%.1f,\"peak_bytes_per_event\":%.1f,\"peak_rss_bytes\":%"
           "llu}\n",
           contenders[i].key, s->label, options.cpus[column], own, peer, peer > 0 ? own / peer : 0,
           bench_spread(&m->wall), (double)s->text_bytes / bench_min(&m->wall),
           get_typical_ns(&m->wall) / 1e9, get_typical_ns(&m->cpu) / 1e9,
           (unsigned long long)s->events, (unsigned long long)s->text_bytes, divide_by_events(s, m->anonymous_bytes),
           divide_by_events(s, m->peak_anonymous_bytes), (unsigned long long)m->peak_bytes);
}

/* Print value / other; blank if one of them was not measured. */
static void print_ratio(double value, double other)
{
    if (value > 0 && other > 0)
        printf(" %8.2f", value / other);
    else
        printf(" %8s", "");
}

static void print_row(const subject *s, size_t i, int column)
{
    const measure *m = &s->results[i][column], *peer = &s->results[2][0];
    double wall = get_typical_ns(&m->wall), cpu = get_typical_ns(&m->cpu);
    printf("  %-43s %4d %7.3f %6.2f", contenders[i].title, options.cpus[column], wall / 1e9,
           compute_rate(s, m));
    print_ratio(get_typical_ns(&peer->wall), wall);
    print_ratio(column ? get_typical_ns(&s->results[i][0].wall) : 0, wall);
    printf(" %7.3f", cpu / 1e9);
    print_ratio(get_typical_ns(&peer->cpu), cpu);
    printf(" %8.1f %8.1f %8.0f\n", divide_by_events(s, m->anonymous_bytes),
           divide_by_events(s, m->peak_anonymous_bytes), (double)m->peak_bytes / 1e6);
}

static void print_subject(const subject *s)
{
    if (!options.json) {
        printf("%s: %.1f MB of JSON, %llu events, %.0f bytes each; %s of %d\n", s->path,
               (double)s->text_bytes / 1e6, (unsigned long long)s->events,
               divide_by_events(s, s->text_bytes), options.best ? "best" : "median", options.runs);
        printf("  %-43s %4s %7s %6s %8s %8s %7s %8s %8s %8s %8s\n", "", "cpus", "wall s", "GB/s",
               "/ondemd", "/1 cpu", "cpu s", "/ondemd", "B/event", "at peak", "peak MB");
    }
    for (size_t i = 0; i < CONTENDERS; i++)
        for (int column = 0; column < options.cpu_columns; column++)
            if (s->results[i][column].wall.count) {
                if (options.json)
                    print_json(s, i, column);
                else
                    print_row(s, i, column);
            } else if (s->failed[i] && column == 0) {
                fprintf(stderr, "bench_read: %s: %s failed\n", s->path, contenders[i].title);
            }
    fflush(stdout);
}

static bool run_subject(const char *path, const char *label)
{
    subject *s = calloc(1, sizeof *s);
    if (!s)
        exit_with_error("out of memory");
    s->path = path;
    snprintf(s->label, sizeof s->label, "%s", label);
    for (char *c = s->label; *c; c++) /* it goes into JSON */
        *c = *c == '"' || *c == '\\' || (unsigned char)*c < ' ' ? '_' : *c;
    count_subject(s);
    measure_all(s);
    compare_counts(s);
    print_subject(s);
    bool ok = !s->failed[4] && !s->failed[5];
    free(s);
    return ok;
}

/* ---- generated traces ------------------------------------------------------------------------------ */

static bool generate_trace(const char *layout, const char *path)
{
    char generator[4200], events[32];
    snprintf(generator, sizeof generator, "%s/gen_trace", options.directory);
    snprintf(events, sizeof events, "%llu", (unsigned long long)options.events);
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr))
            execl(generator, "gen_trace", "--events", events, "--layout", layout, "--out", path,
                  (char *)NULL);
        _exit(126);
    }
    waitpid(pid, &status, 0);
    return status == 0;
}

/* Compress a file with gzip -1, as other tools do. */
static bool compress_file(const char *path)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0) {
        execlp("gzip", "gzip", "-k", "-f", "-1", path, (char *)NULL);
        _exit(126);
    }
    waitpid(pid, &status, 0);
    return status == 0;
}

static bool run_generated(void)
{
    static const char *const layouts[] = {"torch1.13", "torch2"};
    const char *temporary = getenv("TMPDIR");
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        char path[4096], packed[4100], label[64];
        snprintf(path, sizeof path, "%s/bench-read-%d.json", temporary ? temporary : "/tmp",
                 (int)getpid());
        snprintf(packed, sizeof packed, "%s.gz", path);
        if (!generate_trace(layouts[i], path))
            exit_with_error("gen_trace failed; it must be in the folder of this program");
        ok = run_subject(path, layouts[i]) && ok;
        snprintf(label, sizeof label, "%s_gz", layouts[i]);
        if (i == 0 && compress_file(path))
            ok = run_subject(packed, label) && ok;
        unlink(path);
        unlink(packed);
    }
    return ok;
}

/* ---- the command ------------------------------------------------------------------------------------- */

static void exit_with_usage(void)
{
    fputs("usage: bench_read [--json] [--best] [--runs N] [--cpus 1,2] [--events N] [FILE…]\n",
          stderr);
    exit(2);
}

static int run_child(const char *key, const char *file)
{
    for (size_t i = 0; i < CONTENDERS; i++)
        if (contenders[i].run && strcmp(contenders[i].key, key) == 0) {
            read_result r = {0};
            read_begin(&r);
            contenders[i].run(file, &r);
            read_end(&r);
            fflush(stdout);
            _exit(0); /* nothing is freed: the process ends */
        }
    return 2;
}

static void default_cpus(void)
{
    int available = CPU_COUNT(&allowed);
    options.cpus[0] = 1;
    options.cpu_columns = 1;
    if (available > 1)
        options.cpus[options.cpu_columns++] = 2;
    if (available > 4)
        options.cpus[options.cpu_columns++] = available;
}

static void parse_cpus(const char *list)
{
    char *end;
    for (options.cpu_columns = 0; options.cpu_columns < MAX_COLUMNS; list = end + 1) {
        long n = strtol(list, &end, 10);
        if (end == list || n < 1 || n > CPU_COUNT(&allowed))
            exit_with_usage();
        options.cpus[options.cpu_columns++] = (int)n;
        if (*end != ',')
            break;
    }
    if (*end)
        exit_with_usage();
}

static long parse_number(const char *text, long least, long most)
{
    char *end;
    long value = text ? strtol(text, &end, 10) : -1;
    if (!text || *end || value < least || value > most)
        exit_with_usage();
    return value;
}

static int parse_options(int argc, char **argv)
{
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++)
        if (strcmp(argv[i], "--json") == 0)
            options.json = true;
        else if (strcmp(argv[i], "--best") == 0)
            options.best = true;
        else if (strcmp(argv[i], "--runs") == 0)
            options.runs = (int)parse_number(argv[++i], 1, BENCH_MAX_ROUNDS);
        else if (strcmp(argv[i], "--events") == 0)
            options.events = (uint64_t)parse_number(argv[++i], 200, 1000000000);
        else if (strcmp(argv[i], "--cpus") == 0 && i + 1 < argc)
            parse_cpus(argv[++i]);
        else
            exit_with_usage();
    return i;
}

static void find_self(void)
{
    ssize_t size = readlink("/proc/self/exe", options.self, sizeof options.self - 1);
    if (size <= 0)
        exit_with_error("/proc/self/exe cannot be read");
    options.self[size] = 0;
    memcpy(options.directory, options.self, (size_t)size + 1);
    *strrchr(options.directory, '/') = 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--child") == 0)
        return run_child(argv[2], argv[3]);
    options.events = 1000000;
    find_self();
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    default_cpus();
    int first = parse_options(argc, argv);
    bool ok = first < argc || run_generated();
    for (int i = first; i < argc; i++) {
        const char *name = strrchr(argv[i], '/');
        ok = run_subject(argv[i], name ? name + 1 : argv[i]) && ok;
    }
    return ok ? 0 : 1;
}

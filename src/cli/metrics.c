/* Metrics of programs with a ring (CKINETO_RING, `ckineto record --ring`). A process of its own dumps each ring with
 * `ckineto trigger --dump`, so that a program that does not answer cannot stop the daemon; another one serves the
 * file. Numbers are those of the ring: the last seconds of the program. docs/how-to/on-demand.md has the list. */
#include "cli/metrics.h"
#include "cli/diff/diff.h"
#include "cli/ondemand/traceable.h"
#include "cli/report/serve.h"

#include <ckineto/trace.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define TABLES "steps,gpu_summary,idle_named"

/* ---- text of Prometheus ----------------------------------------------------------------------- */

typedef enum family {
    FAMILY_UP,
    FAMILY_WINDOW,
    FAMILY_STEPS,
    FAMILY_STEP_MEAN,
    FAMILY_STEP_MAX,
    FAMILY_BUSY,
    FAMILY_IDLE,
    FAMILY_LOST,
    FAMILY_COUNT
} family;

static const struct {
    const char *name, *help;
} families[FAMILY_COUNT] = {
    [FAMILY_UP] = {"ckineto_up", "1 if the ring of the process was read, else 0"},
    [FAMILY_WINDOW] = {"ckineto_window_seconds", "time that the ring holds"},
    [FAMILY_STEPS] = {"ckineto_steps", "steps in the ring"},
    [FAMILY_STEP_MEAN] = {"ckineto_step_seconds", "mean duration of steps in the ring"},
    [FAMILY_STEP_MAX] = {"ckineto_step_max_seconds", "longest step in the ring"},
    [FAMILY_BUSY] = {"ckineto_device_busy_ratio", "share of the time in which a kernel ran"},
    [FAMILY_IDLE] = {"ckineto_device_idle_seconds", "idle time of the device in the ring by its reason"},
    [FAMILY_LOST] = {"ckineto_lost_events", "events of the ring that were lost"},
};

/* Samples of each family, and the process that they are of. */
typedef struct exposition {
    FILE *out[FAMILY_COUNT];
    char *text[FAMILY_COUNT];
    size_t size[FAMILY_COUNT];
    const kc_process *process;
} exposition;

static void put_label(FILE *out, const char *key, kineto_string value)
{
    fprintf(out, "%s=\"", key);
    for (size_t i = 0; i < value.size; i++) {
        char c = value.data[i];
        if (c == '\n')
            fputs("\\n", out);
        else
            fprintf(out, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
    }
    fputc('"', out);
}

/* Recorders are called "ckineto: PROGRAM". */
static kineto_string program_of(const kc_process *p)
{
    static const char prefix[] = "ckineto: ";
    bool is_recorder = strncmp(p->name, prefix, sizeof prefix - 1) == 0;
    return kb_string(p->name + (is_recorder ? sizeof prefix - 1 : 0));
}

/* A sample of the process. @param device  negative: none. @param reason  NULL: none. */
static void put_sample(exposition *e, family of, int64_t device, const kineto_string *reason, double value)
{
    FILE *out = e->out[of];
    if (!isfinite(value))
        return;
    fprintf(out, "%s{pid=\"%lld\",", families[of].name, (long long)e->process->pid);
    put_label(out, "process", program_of(e->process));
    if (device >= 0)
        fprintf(out, ",device=\"%lld\"", (long long)device);
    if (reason) {
        fputc(',', out);
        put_label(out, "reason", *reason);
    }
    char number[40];
    (void)kb_snprintf(number, sizeof number, "%.9g", value);
    fprintf(out, "} %s\n", number);
}

/* ---- one ring --------------------------------------------------------------------------------- */

/* Cells of times are integers in ns. */
static void put_steps(exposition *e, const kineto_analysis *a)
{
    uint32_t t = kineto_analysis_find_table(a, "steps");
    uint64_t rows = kc_fact_rows(a, t), steps = 0;
    double sum_ns = 0, max_ns = 0;
    for (uint64_t row = 0; row < rows; row++) {
        double ns = kc_fact_number(a, t, row, "dur_us");
        if (!isfinite(ns) || !kc_fact_text(a, t, row, "step").size)
            continue;
        steps++;
        sum_ns += ns;
        max_ns = fmax(max_ns, ns);
    }
    put_sample(e, FAMILY_STEPS, -1, NULL, (double)steps);
    if (!steps)
        return;
    put_sample(e, FAMILY_STEP_MEAN, -1, NULL, sum_ns / 1e9 / (double)steps);
    put_sample(e, FAMILY_STEP_MAX, -1, NULL, max_ns / 1e9);
}

static void put_devices(exposition *e, const kineto_analysis *a)
{
    uint32_t summary = kineto_analysis_find_table(a, "gpu_summary"),
             idle = kineto_analysis_find_table(a, "idle_named");
    for (uint64_t row = 0; row < kc_fact_rows(a, summary); row++)
        put_sample(e, FAMILY_BUSY, (int64_t)kc_fact_number(a, summary, row, "gpu"), NULL,
                   kc_fact_number(a, summary, row, "utilization_pct") / 100);
    for (uint64_t row = 0; row < kc_fact_rows(a, idle); row++) {
        kineto_string reason = kc_fact_text(a, idle, row, "reason");
        if (kc_fact_number(a, idle, row, "stream") < 0) /* the whole device */
            put_sample(e, FAMILY_IDLE, (int64_t)kc_fact_number(a, idle, row, "device"), &reason,
                       kc_fact_number(a, idle, row, "idle_us") / 1e9);
    }
}

/* The numbers of a dump. False: it cannot be read. */
static bool put_trace(exposition *e, const char *path)
{
    kineto_analysis_options o = {.size = sizeof o, .tables = TABLES};
    kineto_trace *trace = NULL;
    kineto_analysis *a = NULL;
    int64_t start_ns = 0, end_ns = 0;
    bool ok = kineto_trace_open(path, &trace, NULL) == KINETO_OK &&
              kineto_analysis_run(trace, &o, &a, NULL) == KINETO_OK;
    if (ok) {
        kineto_trace_window(trace, &start_ns, &end_ns);
        put_sample(e, FAMILY_WINDOW, -1, NULL, (double)(end_ns - start_ns) / 1e9);
        put_sample(e, FAMILY_LOST, -1, NULL, (double)kineto_trace_lost(trace));
        put_steps(e, a);
        put_devices(e, a);
    }
    kineto_analysis_destroy(a);
    kineto_trace_release(trace);
    return ok;
}

/* Runs `ckineto trigger --dump` for a process, without output. */
static bool dump_ring(int64_t pid, const char *path)
{
    char self[PATH_MAX], number[24];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    posix_spawn_file_actions_t streams;
    pid_t child = 0;
    int status = -1;
    if (size < 0 || posix_spawn_file_actions_init(&streams))
        return false;
    self[size] = '\0';
    (void)snprintf(number, sizeof number, "%lld", (long long)pid);
    char *const argv[] = {self, (char[]){"trigger"}, (char[]){"--pid"}, number, (char[]){"--dump"},
                          (char[]){"--wait=10"}, (char[]){"--retry"}, (char[]){"0"}, (char[]){"-o"},
                          (char *)(uintptr_t)path, NULL};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)posix_spawn_file_actions_addopen(&streams, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
    if (posix_spawn(&child, self, &streams, NULL, argv, environ) == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    (void)posix_spawn_file_actions_destroy(&streams);
    return status == 0;
}

/* ---- files ------------------------------------------------------------------------------------ */

/* The first file of the directory whose name begins so; trigger adds the pid of the program to the name.
 * False: there is none. */
static bool find_file(const char *directory, const char *prefix, char path[PATH_MAX])
{
    DIR *d = opendir(directory);
    bool found = false;
    for (struct dirent *entry; d && !found && (entry = readdir(d)) != NULL;) {
        found = entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
        if (found)
            (void)snprintf(path, PATH_MAX, "%s/%s", directory, entry->d_name);
    }
    if (d)
        (void)closedir(d);
    return found;
}

static void remove_files(const char *directory, const char *prefix)
{
    char path[PATH_MAX];
    while (find_file(directory, prefix, path) && unlink(path) == 0)
        ;
}

/* ---- all rings -------------------------------------------------------------------------------- */

/* All families with at least one sample; the file appears complete. */
static void write_exposition(exposition *e, const char *path)
{
    char *temporary = NULL;
    FILE *file = asprintf(&temporary, "%s.tmp", path) < 0 ? NULL : fopen(temporary, "w");
    for (uint32_t i = 0; i < FAMILY_COUNT; i++) {
        (void)fclose(e->out[i]);
        if (file && e->size[i])
            fprintf(file, "# HELP %s %s\n# TYPE %s gauge\n%s", families[i].name, families[i].help,
                    families[i].name, e->text[i]);
        free(e->text[i]);
    }
    if (file && fclose(file) == 0)
        (void)rename(temporary, path);
    free(temporary);
}

/* False: out of memory. */
static bool open_exposition(exposition *e)
{
    for (uint32_t i = 0; i < FAMILY_COUNT; i++) {
        e->out[i] = open_memstream(&e->text[i], &e->size[i]);
        if (e->out[i])
            continue;
        while (i--) {
            (void)fclose(e->out[i]);
            free(e->text[i]);
        }
        return false;
    }
    return true;
}

/* Dumps all rings, one after the other, and writes their numbers. */
static void collect_metrics(const char *directory, const char *path)
{
    kc_traceable found = {.daemon = ""};
    exposition e = {.process = NULL};
    char asked[128], trace[PATH_MAX];
    (void)snprintf(asked, sizeof asked, "%s/ring.json", directory);
    if (!open_exposition(&e))
        return;
    (void)kc_traceable_add_sockets(&found, NULL);
    for (size_t i = 0; i < found.processes.count; i++) {
        const kc_process *p = &found.processes.data[i];
        if (!p->has_socket || !p->ring)
            continue;
        e.process = p;
        bool is_read = p->answers && dump_ring(p->pid, asked) && find_file(directory, "ring", trace) &&
                       put_trace(&e, trace);
        put_sample(&e, FAMILY_UP, -1, NULL, is_read);
        remove_files(directory, "ring");
    }
    kc_traceable_free(&found);
    write_exposition(&e, path);
}

/* ---- processes -------------------------------------------------------------------------------- */

/* A child that ends with the daemon. Signals of the daemon are blocked there, and are usual here. */
static pid_t fork_with_daemon(void)
{
    pid_t daemon = getpid(), child = fork();
    sigset_t none;
    if (child != 0)
        return child;
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() != daemon) /* it ended before */
        _exit(0);
    return 0;
}

static _Noreturn void run_collector(const char *directory, const char *path, uint64_t seconds)
{
    for (;;) {
        collect_metrics(directory, path);
        (void)sleep((unsigned)seconds);
    }
}

/* The collector, and for a port the server. */
static kineto_status fork_metrics(kc_metrics *m, const char *path, kc_server *server, uint64_t seconds,
                                  kineto_error *err)
{
    fflush(NULL);
    m->collector = fork_with_daemon();
    if (m->collector == 0)
        run_collector(m->directory, path, seconds);
    if (m->collector > 0 && server) {
        m->server = fork_with_daemon();
        if (m->server == 0)
            _exit(kc_server_run(server, NULL) != KINETO_OK);
    }
    return m->collector < 0 || m->server < 0 ? kb_fail_os(err, errno, "start a process for --metrics") : KINETO_OK;
}

/* All digits: a port. */
static bool parse_port(const char *target, uint16_t *port)
{
    char *end;
    unsigned long number = strtoul(target, &end, 10);
    *port = (uint16_t)number;
    return kb_is_digit(target[0]) && !*end && number <= UINT16_MAX;
}

kineto_status kc_metrics_start(kc_metrics *m, const char *target, uint64_t seconds, kineto_error *err)
{
    char path[128];
    uint16_t port = 0;
    kc_server server = {.listener = -1};
    kineto_status status = KINETO_OK;
    bool is_port = parse_port(target, &port);
    (void)snprintf(m->directory, sizeof m->directory, "/tmp/ckineto-metrics-XXXXXX");
    if (!mkdtemp(m->directory)) {
        m->directory[0] = '\0';
        return kb_fail_os(err, errno, "make a directory for --metrics");
    }
    (void)snprintf(path, sizeof path, "%s/metrics.txt", m->directory);
    const kc_document document = {.path = "/metrics", .type = "text/plain; version=0.0.4; charset=utf-8", .file = path};
    if (is_port) {
        server.documents = &document;
        server.count = 1;
        status = kc_server_open(&server, port, err);
    }
    if (!status)
        status = fork_metrics(m, is_port ? path : target, is_port ? &server : NULL, seconds, err);
    m->port = status ? 0 : server.port;
    if (is_port)
        kc_server_close(&server);
    return status;
}

void kc_metrics_stop(kc_metrics *m)
{
    const pid_t children[] = {m->collector, m->server};
    for (size_t i = 0; i < KB_COUNT(children); i++)
        if (children[i] > 0 && kill(children[i], SIGTERM) == 0)
            (void)waitpid(children[i], NULL, 0);
    if (!m->directory[0])
        return;
    remove_files(m->directory, "");
    (void)rmdir(m->directory);
}

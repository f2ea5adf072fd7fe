/* A program to be traced on demand: steps with operators and ranges, until it is stopped.
 *
 * usage: control_target [options]
 *   --step-ms MS   how long a step takes (10); it sleeps, but for its operators
 *   --steps N      end after N steps; --seconds S: after S seconds; otherwise it never ends
 *   --no-step      never say kineto_profiler_step
 *   --leave        the main thread leaves by pthread_exit, another one does it all
 *   --ops N        operators of a step (4), with shapes, each with a range inside
 *   --threads N    threads that record a range each millisecond
 *   --busy N       threads that record ranges without rest; --spin N: that only keep busy
 *   --slow N MS    step N takes so long; --hang N: step N never ends
 *   --crash N      raise SIGSEGV in step N; --abort N: abort
 *   --stdin        do what lines of standard input say; end at its end
 * It says "ready PID" when it begins and "done STEPS" when it ends by itself, and for each stage of
 * a trace "stage PID TICKET NAME TIME_NS BYTES PATH TEXT", "-" for what is empty.
 *
 * Lines of standard input; "; " stands for the end of a line of a request:
 *   request KEY=VALUE; …   kineto_control_request; says "request STATUS TICKET MESSAGE"
 *   start socket daemon file=PATH ring=SECONDS   kineto_control_start; says "start STATUS MESSAGE"
 *   stop, cancel, running  says "stopped MS", "cancelled", "running 0" or 1
 *   dump PATH              kineto_control_dump; says "dump STATUS MESSAGE"
 *   profile MS             a profile of the program itself; says "profiled STATUS EVENTS"
 *   steps                  says "steps COUNT", of those that began
 *   swap PATH              closes all descriptors but the standard ones, and opens the file in
 *                          their places; says "swapped"
 *   fork                   a child goes on as its parent does, without its threads; says "forked
 *                          PID"; fork twice: its child goes on, and it ends at once
 *   exit N, _exit N        at once */
#include <ckineto/control.h>
#include <ckineto/function.h>
#include <ckineto/profiler.h>
#include <ckineto/record.h>

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct target {
    long step_ms, steps, seconds, ops, threads, busy, spin;
    long slow_step, slow_ms, hang_step, crash_step, abort_step;
    bool no_step, from_stdin, leave;
} target;

static bool over;       /* atomic */
static int fork_wanted; /* atomic: 1, or 2: the child does so again at once, and ends */

static bool is_over(void) { return __atomic_load_n(&over, __ATOMIC_RELAXED); }

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    while (ms > 0 && nanosleep(&t, &t) != 0 && !is_over())
        ;
}

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    char line[4096];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    size_t size = (size_t)n < sizeof line - 1 ? (size_t)n : sizeof line - 2;
    line[size++] = '\n';
    (void)!write(STDOUT_FILENO, line, size); /* whole, even if others write */
}

static const char *or_dash(const char *text) { return text[0] ? text : "-"; }

static void on_stage(const kineto_stage_event *e, void *user)
{
    (void)user;
    say("stage %d %" PRIu64 " %s %" PRId64 " %" PRIu64 " %s %s", (int)getpid(), e->ticket,
        kineto_stage_name(e->stage), e->time_ns, e->bytes, or_dash(e->path), or_dash(e->text));
}

/* ---- what it does -------------------------------------------------------------------------------- */

KINETO_OPERATOR(mm, "aten::mm");
KINETO_SITE_ARGS(inner, KINETO_KIND_CPU_OP, "inner", {"i", KINETO_ARG_INT});
KINETO_SITE(tick, KINETO_KIND_USER_ANNOTATION, "tick");
KINETO_SITE(busy_range, KINETO_KIND_CPU_OP, "busy");

static void operate(long i)
{
    static const int64_t sizes[] = {8, 8};
    kineto_tensor a = {.sizes = sizes, .rank = 2, .dtype = KINETO_DTYPE_FLOAT};
    kineto_input inputs[] = {kineto_input_tensor(&a), kineto_input_tensor(&a)};
    kineto_function f;
    kineto_function_begin(&f, &mm, inputs, 2);
    kineto_value value = {.i = i};
    kineto_range r = kineto_range_begin_args(&inner, &value);
    kineto_range_end(r);
    kineto_function_end(&f);
}

static void *leisurely(void *unused)
{
    (void)unused;
    while (!is_over()) {
        kineto_range r = kineto_range_begin(&tick);
        sleep_ms(1);
        kineto_range_end(r);
    }
    return NULL;
}

static void *restless(void *unused)
{
    (void)unused;
    while (!is_over())
        kineto_range_end(kineto_range_begin(&busy_range));
    return NULL;
}

static void *spinning(void *unused)
{
    (void)unused;
    while (!is_over())
        ;
    return NULL;
}

static void threads_start(void *(*run)(void *), long count)
{
    pthread_t thread;
    for (long i = 0; i < count; i++)
        if (pthread_create(&thread, NULL, run, NULL) == 0)
            pthread_detach(thread);
}

static void step(const target *t, long n)
{
    char name[64];
    (void)snprintf(name, sizeof name, "iteration %ld", n);
    KINETO_FUNCTION_SITE(step_site, KINETO_SCOPE_USER_SCOPE, "iteration");
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.name = name;
    kineto_function f;
    if (!t->no_step)
        kineto_profiler_step();
    kineto_function_begin_info(&f, &step_site, &info);
    for (long i = 0; i < t->ops; i++)
        operate(i);
    sleep_ms(n == t->slow_step ? t->slow_ms : t->step_ms);
    if (n == t->hang_step)
        while (!is_over())
            pause();
    if (n == t->crash_step)
        raise(SIGSEGV);
    if (n == t->abort_step)
        abort();
    kineto_function_end(&f);
}

/* ---- its commands ---------------------------------------------------------------------------- */

static void request(char *text)
{
    uint64_t ticket = 0;
    kineto_error err = {.code = KINETO_OK};
    for (char *at = text; (at = strstr(at, "; ")) != NULL;)
        memcpy(at, "\n ", 2);
    kineto_status status = kineto_control_request(text, &ticket, &err);
    say("request %d %" PRIu64 " %s", status, ticket, status ? err.message : "");
}

static void start(char *words)
{
    kineto_error err = {.code = KINETO_OK};
    kineto_control_options o;
    kineto_control_options_init(&o);
    for (char *rest = NULL, *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        o.socket |= strcmp(word, "socket") == 0;
        o.daemon |= strcmp(word, "daemon") == 0;
        if (strncmp(word, "file=", 5) == 0)
            o.trigger_file = word + 5;
        if (strncmp(word, "ring=", 5) == 0)
            o.ring_seconds = strtod(word + 5, NULL);
    }
    kineto_status status = kineto_control_start(&o, &err);
    say("start %d %s", status, status ? err.message : "");
}

static void stop(void)
{
    int64_t begin_ms = now_ms();
    kineto_control_stop();
    say("stopped %" PRId64, now_ms() - begin_ms);
}

static void dump(const char *path)
{
    kineto_error err = {.code = KINETO_OK};
    kineto_status status = kineto_control_dump(path[0] ? path : NULL, &err);
    say("dump %d %s", status, status ? err.message : "");
}

static void profile(long ms)
{
    kineto_profiler_config c;
    kineto_profiler_result *r = NULL;
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO);
    c.experimental.profile_all_threads = true;
    kineto_status status = kineto_profiler_enable(&c, KINETO_ACTIVITY_SET(CPU), 0, NULL);
    sleep_ms(ms);
    if (!status)
        status = kineto_profiler_disable(&r, NULL);
    say("profiled %d %" PRIu64, status, r ? kineto_profiler_result_event_count(r) : 0);
    kineto_profiler_result_release(r);
}

static void swap(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        exit(3);
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
        if (fd != file && syscall(SYS_close, fd) == 0) /* no race to the thread sanitizer */
            (void)syscall(SYS_dup3, file, fd, 0);
    say("swapped");
}

static void obey(char *line)
{
    char *rest = strchr(line, ' ');
    rest = rest ? rest + 1 : line + strlen(line);
    if (strncmp(line, "request ", 8) == 0)
        request(rest);
    else if (strncmp(line, "start", 5) == 0)
        start(rest);
    else if (strcmp(line, "stop") == 0)
        stop();
    else if (strcmp(line, "cancel") == 0) {
        kineto_control_cancel();
        say("cancelled");
    } else if (strcmp(line, "running") == 0)
        say("running %d", kineto_control_running());
    else if (strncmp(line, "dump", 4) == 0)
        dump(rest);
    else if (strncmp(line, "profile ", 8) == 0)
        profile(strtol(rest, NULL, 10));
    else if (strncmp(line, "swap ", 5) == 0)
        swap(rest);
    else if (strcmp(line, "steps") == 0)
        say("steps %" PRIu64, kineto_profiler_step_count());
    else if (strncmp(line, "fork", 4) == 0)
        __atomic_store_n(&fork_wanted, strcmp(rest, "twice") == 0 ? 2 : 1, __ATOMIC_RELEASE);
    else if (strncmp(line, "exit ", 5) == 0)
        exit((int)strtol(rest, NULL, 10));
    else if (strncmp(line, "_exit ", 6) == 0)
        _exit((int)strtol(rest, NULL, 10));
    else
        say("unknown %s", line);
}

static void *obeying(void *unused)
{
    char line[2048];
    (void)unused;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        obey(line);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    return NULL;
}

/* ---- the rest -------------------------------------------------------------------------------------- */

static void options_read(target *t, int argc, char **argv)
{
    const struct {
        const char *name;
        long *first, *second;
    } options[] = {
        {"--step-ms", &t->step_ms, NULL},  {"--steps", &t->steps, NULL},
        {"--seconds", &t->seconds, NULL},  {"--ops", &t->ops, NULL},
        {"--threads", &t->threads, NULL},  {"--busy", &t->busy, NULL},
        {"--spin", &t->spin, NULL},        {"--slow", &t->slow_step, &t->slow_ms},
        {"--hang", &t->hang_step, NULL},   {"--crash", &t->crash_step, NULL},
        {"--abort", &t->abort_step, NULL},
    };
    for (int i = 1; i < argc; i++) {
        bool no_step = strcmp(argv[i], "--no-step") == 0;
        bool from_stdin = strcmp(argv[i], "--stdin") == 0;
        bool leave = strcmp(argv[i], "--leave") == 0, known = no_step || from_stdin || leave;
        t->leave |= leave;
        t->no_step |= no_step;
        t->from_stdin |= from_stdin;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            int more = options[k].second ? 2 : 1;
            if (strcmp(argv[i], options[k].name) != 0 || i + more >= argc)
                continue;
            *options[k].first = strtol(argv[++i], NULL, 10);
            if (options[k].second)
                *options[k].second = strtol(argv[++i], NULL, 10);
            known = true;
            break;
        }
        if (!known) {
            fprintf(stderr, "%s: unknown option '%s', or its number is missing\n", argv[0], argv[i]);
            exit(2);
        }
    }
}

static void end(int signal)
{
    (void)signal;
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
}

static void fork_now(void)
{
    bool twice = __atomic_exchange_n(&fork_wanted, 0, __ATOMIC_ACQ_REL) == 2;
    pid_t child = fork();
    if (child > 0 && twice)
        (void)waitpid(child, NULL, 0);
    if (child == 0 && twice && (child = fork()) > 0) {
        say("forked %d", (int)child);
        _exit(0);
    }
    if (child > 0 && !twice)
        say("forked %d", (int)child);
}

/* Until it is stopped, or has done its work. */
static void *work(void *options)
{
    const target *t = options;
    int64_t until_ms = now_ms() + t->seconds * 1000;
    long n = 0;
    while (!is_over() && (!t->steps || n < t->steps) && (!t->seconds || now_ms() < until_ms)) {
        step(t, n++);
        if (__atomic_load_n(&fork_wanted, __ATOMIC_ACQUIRE))
            fork_now();
    }
    say("done %ld", n);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t worker;
    static target t = {.step_ms = 10,
                       .ops = 4,
                       .slow_step = -1,
                       .hang_step = -1,
                       .crash_step = -1,
                       .abort_step = -1};
    options_read(&t, argc, argv);
    signal(SIGTERM, end);
    (void)kineto_control_add_observer(on_stage, NULL, NULL);
    say("ready %d", (int)getpid());
    threads_start(leisurely, t.threads);
    threads_start(restless, t.busy);
    threads_start(spinning, t.spin);
    threads_start(obeying, t.from_stdin);
    if (t.leave && pthread_create(&worker, NULL, work, &t) == 0)
        pthread_exit(NULL);
    (void)work(&t);
    return 0;
}

/* What the tests of weaknesses look at from outside: a program that records itself, each time in
 * one way that is ordinary for programs and was found to break profilers.
 *
 *     weaknesses_program WAY FILE
 *
 * The trace is written to FILE; some ways print what they measured. 1: it did not go as it must. */
#include <ckineto/ckineto.h>
#include "../helpers/sessions.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

KINETO_SITE(plain, KINETO_KIND_CPU_OP, "plain");
KINETO_SITE_ARGS(four, KINETO_KIND_CPU_OP, "four", {"a", KINETO_ARG_INT}, {"b", KINETO_ARG_INT},
                 {"c", KINETO_ARG_INT}, {"d", KINETO_ARG_INT});

static kineto_session *begin(size_t buffer_bytes)
{
    kineto_session_options options;
    kineto_session *session;
    kineto_error err;
    kineto_session_options_init(&options);
    options.buffer_bytes = buffer_bytes;
    options.kinds = KINETO_KINDS_ALL;
    if (begin_session(&options, &session, &err) != KINETO_OK) {
        fprintf(stderr, "no session: %s\n", err.message);
        exit(1);
    }
    return session;
}

static kineto_trace *end(kineto_session *session)
{
    kineto_trace *trace;
    kineto_error err;
    if (end_session(session, &trace, &err) != KINETO_OK) {
        fprintf(stderr, "no trace: %s\n", err.message);
        exit(1);
    }
    return trace;
}

static int save(kineto_trace *trace, const char *path)
{
    kineto_error err;
    kineto_status status = kineto_trace_save(trace, path, &err);
    if (status != KINETO_OK)
        fprintf(stderr, "%s\n", err.message);
    kineto_trace_release(trace);
    return status != KINETO_OK;
}

static void pairs(long count)
{
    for (long i = 0; i < count; i++) {
        kineto_value values[4] = {{.i = i}, {.i = 2}, {.i = 3}, {.i = 4}};
        kineto_range_end(kineto_range_begin_args(&four, values));
    }
}

/* ---- texts, ids and numbers --------------------------------------------------------------------- */

KINETO_SITE_ARGS(texts_site, KINETO_KIND_CPU_OP, "mod\xc3\xa8le::forward",
                 {"quoted", KINETO_ARG_STRING}, {"Call stack", KINETO_ARG_STRING},
                 {"path", KINETO_ARG_STRING});
KINETO_SITE(instant_site, KINETO_KIND_CPU_INSTANT_EVENT, "say \"now\"");
KINETO_SITE(path_site, KINETO_KIND_CPU_OP, "C:\\a\\b.py\nnext");
KINETO_SITE(bytes_site, KINETO_KIND_CPU_OP, "\xff no text");
KINETO_SITE_ARGS(counter_site, KINETO_KIND_COUNTER, "loss", {"nan", KINETO_ARG_DOUBLE},
                 {"inf", KINETO_ARG_DOUBLE}, {"one", KINETO_ARG_DOUBLE});

static int texts(const char *path)
{
    kineto_session *session = begin(0);
    kineto_value values[3] = {
        {.s = "a \"b\" \\\" c"}, {.s = "f(1)\n\tg(2)\x01"}, {.s = "D:\\x\\y"}};
    kineto_range_end(kineto_range_begin_args(&texts_site, values));
    kineto_range_end(kineto_range_begin(&path_site));
    kineto_range_end(kineto_range_begin(&bytes_site));
    kineto_instant_mark(&instant_site, NULL);
    kineto_value numbers[3] = {{.d = NAN}, {.d = INFINITY}, {.d = 1}};
    kineto_counter_sample(&counter_site, numbers);
    kineto_metadata_add("user \"key\"", "{\"said\": \"a \\\"quote\\\" and \\\\ more\"}");
    kineto_thread_set_name("main \"thread\"\t1");
    return save(end(session), path);
}

KINETO_SITE_ARGS(ids_site, KINETO_KIND_CPU_OP, "ids", {"External id", KINETO_ARG_INT},
                 {"correlation", KINETO_ARG_INT});

static int ids(const char *path)
{
    kineto_session *session = begin(0);
    kineto_value values[2] = {{.i = 5}, {.i = 6}};
    kineto_props props = {.size = sizeof props, .values = values};
    props.external_id = (UINT64_C(1) << 63) + 1;
    props.correlation_id = UINT64_MAX;
    kineto_range_end(kineto_range_begin_props(&ids_site, &props));
    return save(end(session), path);
}

/* ---- what one session leaves to the next --------------------------------------------------------- */

static void *named_thread(void *name)
{
    if (name)
        kineto_thread_set_name(name);
    kineto_range_end(kineto_range_begin(&plain));
    return NULL;
}

static void run_thread(const char *name)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, named_thread, (void *)(uintptr_t)name) == 0)
        pthread_join(thread, NULL);
}

static int sessions(const char *path)
{
    kineto_session *session = begin(0);
    kineto_metadata_add("of the first", "1");
    run_thread("thread of the first");
    kineto_trace_release(end(session));
    session = begin(0);
    run_thread(NULL);
    run_thread("thread of the second");
    return save(end(session), path);
}

static int nothing(const char *path) { return save(end(begin(0)), path); }

/* ---- memory -------------------------------------------------------------------------------------- */

static long peak_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Far more than the buffer holds: KB that the peak grew by while it was recorded. */
static int bounded(const char *path)
{
    enum { BUFFER_BYTES = 2 << 20, PAIRS = 500000 };
    kineto_session *session = begin(BUFFER_BYTES);
    long before = peak_kb();
    pairs(PAIRS);
    printf("%ld\n", peak_kb() - before);
    return save(end(session), path);
}

/* Calls of the allocator, counted in front of the C library's. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
static unsigned long allocations;

void *malloc(size_t bytes)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(old, bytes);
}

/* Allocations while recording, and while writing, of as many events. */
static int allocate(const char *path)
{
    enum { PAIRS = 50000 };
    kineto_session *session = begin(0);
    pairs(1);
    unsigned long start = allocations;
    pairs(PAIRS);
    unsigned long recorded = allocations - start;
    kineto_trace *trace = end(session);
    start = allocations;
    int failed = save(trace, path);
    printf("%d %lu %lu\n", PAIRS, recorded, allocations - start);
    return failed;
}

/* ---- who waits for whom -------------------------------------------------------------------------- */

/* From here on any system call but the end of the process ends it. */
static bool forbid_system_calls(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Recording enters the kernel never: the child is killed if it does. */
static int calm(const char *path)
{
    enum { PAIRS = 20000 };
    kineto_session *session = begin(0);
    pid_t child = fork();
    if (child == 0) {
        pairs(1); /* a process asks once who it is */
        if (!forbid_system_calls())
            _exit(SKIPPED);
        pairs(PAIRS);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        return 1;
    kineto_trace *trace = end(session);
    printf("%llu\n", (unsigned long long)kineto_trace_count(trace));
    int failed = save(trace, path);
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return WEXITSTATUS(status);
    return failed || !WIFEXITED(status);
}

typedef struct saving {
    kineto_trace *trace;
    const char *path;
    int failed;
    int over;
} saving;

static void *save_thread(void *argument)
{
    saving *s = argument;
    s->failed = save(s->trace, s->path);
    __atomic_store_n(&s->over, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Threads that say something about themselves while a trace is written: how often before it is. */
static int meanwhile(const char *path)
{
    enum { PAIRS = 100000 };
    kineto_session *session = begin(0);
    pairs(PAIRS);
    saving s = {end(session), path, 0, 0};
    session = begin(0);
    pthread_t thread;
    if (pthread_create(&thread, NULL, save_thread, &s) != 0)
        return 1;
    unsigned long said = 0;
    while (!__atomic_load_n(&s.over, __ATOMIC_ACQUIRE)) {
        kineto_thread_set_name("told while another writes");
        pairs(1);
        said++;
    }
    pthread_join(thread, NULL);
    kineto_trace_release(end(session));
    printf("%lu\n", said);
    return s.failed;
}

/* ---- switches ------------------------------------------------------------------------------------ */

static int profile_one(const char *path)
{
    static const int64_t sizes[] = {2, 3};
    kineto_tensor tensor = {
        .sizes = sizes, .rank = 2, .device_index = -1, .id = 41, .storage_id = 42};
    kineto_profiler_config config;
    kineto_profiler_result *result = NULL;
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    config.report_input_shapes = true;
    if (kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, NULL) != KINETO_OK)
        return 1;
    {
        KINETO_FUNCTION("aten::add", kineto_input_tensor(&tensor), kineto_input_int(7));
    }
    int failed = kineto_profiler_disable(&result, NULL) != KINETO_OK ||
                 kineto_profiler_result_save(result, path, NULL) != KINETO_OK;
    kineto_profiler_result_release(result);
    return failed;
}

/* Switches of the process: how they are at first, whether they can be read back, and with FILE what
 * profilers do about two of them. */
static int switches(const char *path)
{
    static const struct {
        void (*set)(bool on);
        bool (*get)(void);
        bool at_first, then;
    } all[] = {
        {kineto_profiler_set_record_concrete_inputs, kineto_profiler_get_record_concrete_inputs,
         true, false},
        {kineto_profiler_set_fwd_bwd, kineto_profiler_get_fwd_bwd, true, true},
        {kineto_profiler_set_cuda_sync, kineto_profiler_get_cuda_sync, false, false},
        {kineto_profiler_set_record_tensor_ids, kineto_profiler_get_record_tensor_ids, false, true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool good = all[i].get() == all[i].at_first;
        all[i].set(!all[i].at_first);
        good = good && all[i].get() != all[i].at_first;
        all[i].set(all[i].then);
        if (!good || all[i].get() != all[i].then)
            return 1;
    }
    return profile_one(path);
}

/* ---- on demand ----------------------------------------------------------------------------------- */

/* Goes on until FILE is there; CKINETO_CONTROL says whom it listens to meanwhile. */
static int wait_for(const char *path)
{
    enum { TURNS = 2000, TURN_US = 10000 };
    puts("listening");
    fflush(stdout);
    for (int i = 0; i < TURNS && access(path, F_OK) != 0; i++) {
        pairs(1);
        usleep(TURN_US);
    }
    return access(path, F_OK) != 0;
}

/* ---- which --------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int (*run)(const char *path);
} ways[] = {
    {"texts", texts},       {"ids", ids},
    {"sessions", sessions}, {"nothing", nothing},
    {"bounded", bounded},   {"allocate", allocate},
    {"calm", calm},         {"meanwhile", meanwhile},
    {"switches", switches}, {"wait", wait_for},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            return ways[i].run(argv[2]);
    fprintf(stderr, "usage: weaknesses_program WAY FILE\n");
    return 2;
}

/* Counters of a thread: names, what they count with whatever this machine has, and what is said
 * where it refuses, in every way that a kernel or container can. */
#include "record/perf.h"
#include "record/record.h"
#include "session/session.h"

#include <ckineto/function.h>

#include "unit.h"
#include "../helpers/sessions.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static volatile uint64_t sink;
static void work(int turns)
{
    for (int i = 0; i < turns; i++)
        sink += (uint64_t)i * 7;
}

static void touch_pages(size_t pages)
{
    size_t bytes = pages * 4096;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    madvise(p, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < pages; i++)
        p[i * 4096] = 1;
    munmap(p, bytes);
}

static void prepared(const char *const *names, size_t count, kr_perf_plan *plan)
{
    kineto_error err = {.message = ""};
    if (kr_perf_prepare(names, count, plan, NULL, &err) != KINETO_OK)
        fail_msg("%s", err.message);
}

static void opened(kr_perf_thread *t, const kr_perf_plan *plan)
{
    kineto_error err = {.message = ""};
    if (kr_perf_open(t, plan, &err) != KINETO_OK)
        fail_msg("%s", err.message);
}

static int descriptors(void)
{
    int count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

/* ---- the kernel that others have ------------------------------------------------------------- */

static int refuse_with, refuse_from; /* which errno, from which call on */
static int calls;
static bool only_hardware;
static int refuse(struct perf_event_attr *attr, int group)
{
    (void)group;
    if (calls++ >= refuse_from && (!only_hardware || attr->type == PERF_TYPE_HARDWARE)) {
        errno = refuse_with;
        return -1;
    }
    return dup(0); /* reads nothing that is a counter, and may be closed */
}

static int without_test_hook(void **state)
{
    (void)state;
    kr_perf_open_instead = NULL;
    only_hardware = false;
    refuse_from = calls = 0;
    return 0;
}

static void names_are_checked(void **state)
{
    (void)state;
    static const char *const unknown[] = {"cycles", "cyclops"};
    static const char *const twice[] = {"task-clock", "task-clock"};
    static const char *const many[] = {"cycles", "instructions", "pagefaults", "task-clock",
                                       "page-faults"};
    static const char *const none[] = {NULL};
    kr_perf_plan plan;
    kineto_error err;
    assert_int_equal(kr_perf_prepare(unknown, 2, &plan, NULL, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "Unsupported profiler event name: \"cyclops\""));
    assert_int_equal(kr_perf_prepare(twice, 2, &plan, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kr_perf_prepare(many, 5, &plan, NULL, &err), KINETO_E_LIMIT);
    assert_int_equal(kr_perf_prepare(many, 0, &plan, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kr_perf_prepare(NULL, 1, &plan, NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kr_perf_prepare(none, 1, &plan, NULL, &err), KINETO_E_ARGUMENT);
}

static void what_is_refused_is_explained(void **state)
{
    (void)state;
    static const char *const hardware[] = {"cycles", "instructions"};
    static const struct {
        int error;
        kineto_status status;
        const char *text;
    } cases[] = {
        {EACCES, KINETO_E_PERMISSION, "perf_event_paranoid"},
        {EPERM, KINETO_E_PERMISSION, "perf_event_paranoid"},
        {ENOSYS, KINETO_E_UNSUPPORTED, "seccomp"},
        {ENOENT, KINETO_E_UNSUPPORTED, "virtual machine"},
        {EOPNOTSUPP, KINETO_E_UNSUPPORTED, "virtual machine"},
        {EMFILE, KINETO_E_LIMIT, "ulimit"},
        {EBUSY, KINETO_E_BUSY, "busy"},
    };
    kr_perf_open_instead = refuse;
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        kr_perf_plan plan;
        kineto_error err;
        refuse_with = cases[i].error;
        calls = 0;
        assert_int_equal(kr_perf_prepare(hardware, 2, &plan, NULL, &err), cases[i].status);
        assert_non_null(strstr(err.message, "cycles, instructions: "));
        if (!strstr(err.message, cases[i].text) && cases[i].error != EBUSY)
            fail_msg("%s", err.message);
        assert_null(kr_perf_name(&plan, 0));
    }
}

static void what_stands_in_has_another_name(void **state)
{
    (void)state;
    static const char *const names[] = {"cycles", "pagefaults", "task-clock", "context-switches"};
    int before = descriptors();
    kr_perf_plan plan;
    kr_perf_thread t;
    kr_perf_values begin, end;
    kineto_error absent = {.message = ""}, err = {.message = ""};
    kr_perf_open_instead = refuse;
    refuse_with = EPERM;
    assert_int_equal(kr_perf_prepare(names, 4, &plan, &absent, &err), KINETO_OK);
    assert_int_equal(absent.code, KINETO_E_PERMISSION);
    assert_int_equal(err.message[0], '\0');
    assert_null(kr_perf_name(&plan, 0));
    assert_string_equal(kr_perf_name(&plan, 1), "pagefaults (getrusage)");
    assert_string_equal(kr_perf_name(&plan, 2), "task-clock (thread clock)");
    assert_string_equal(kr_perf_name(&plan, 3), "context-switches (getrusage)");
    assert_null(kr_perf_name(&plan, 4));
    opened(&t, &plan);
    kr_perf_read(&t, &begin);
    touch_pages(50);
    work(100000);
    sched_yield();
    kr_perf_read(&t, &end);
    kr_perf_since(&begin, &end);
    assert_int_equal(end.counted_ns, end.wanted_ns);
    assert_int_equal(end.value[0], 0);
    assert_true(end.value[1] >= 50);
    assert_true(end.value[2] > 0);
    kr_perf_close(&t);
    kr_perf_close(&t);
    assert_int_equal(descriptors(), before);
}

static void a_machine_without_counters_still_has_the_kernels(void **state)
{
    (void)state;
    static const char *const names[] = {"cycles", "page-faults"};
    kr_perf_plan plan;
    kineto_error absent = {.message = ""};
    kr_perf_open_instead = refuse;
    refuse_with = ENOENT;
    only_hardware = true;
    assert_int_equal(kr_perf_prepare(names, 2, &plan, &absent, NULL), KINETO_OK);
    assert_non_null(strstr(absent.message, "cycles: not counted by this processor"));
    assert_int_equal(plan.source[0], KR_PERF_NONE);
    assert_int_equal(plan.source[1], KR_PERF_KERNEL);
    assert_string_equal(kr_perf_name(&plan, 1), "page-faults");
}

static void a_thread_that_gets_no_counters_leaves_nothing_open(void **state)
{
    (void)state;
    static const char *const names[] = {"cycles", "instructions", "pagefaults"};
    int before = descriptors();
    kr_perf_plan plan;
    kr_perf_thread t;
    kr_perf_open_instead = refuse;
    refuse_with = EMFILE;
    for (int good = 3; good < 6; good++) {
        kineto_error err;
        calls = 0;
        refuse_from = good;
        assert_int_equal(kr_perf_prepare(names, 3, &plan, NULL, &err), KINETO_OK);
        assert_int_equal(kr_perf_open(&t, &plan, &err), KINETO_E_LIMIT);
        assert_int_equal(t.leader, 0);
        assert_int_equal(descriptors(), before);
    }
    kr_perf_values v;
    kr_perf_read(&t, &v); /* nothing, and no harm */
    assert_int_equal(v.value[0], 0);
}

/* A container's profile as the kernel enforces it: only in a child, for good. */
static int child_of_a_container(uint32_t answer)
{
    static const char *const names[] = {"cycles", "page-faults"};
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {KB_COUNT(filter), filter};
    kr_perf_plan plan;
    kr_perf_thread t;
    kr_perf_values begin, end;
    kineto_error absent = {.message = ""};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 77;
    if (kr_perf_prepare(names, 2, &plan, &absent, NULL) != KINETO_OK ||
        kr_perf_open(&t, &plan, NULL) != KINETO_OK || !strstr(absent.message, "seccomp"))
        return 1;
    kr_perf_read(&t, &begin);
    touch_pages(30);
    kr_perf_read(&t, &end);
    kr_perf_since(&begin, &end);
    return end.value[1] >= 30 && strcmp(kr_perf_name(&plan, 1), "page-faults (getrusage)") == 0 ? 0
                                                                                                : 2;
}

static void a_container_that_forbids_it_is_named(void **state)
{
    (void)state;
    static const uint32_t answers[] = {EPERM, ENOSYS};
    char paranoid[16] = "";
    read_whole("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof paranoid);
    if (atoi(paranoid) > 2)
        skip(); /* then that is what is named */
    for (size_t i = 0; i < KB_COUNT(answers); i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(child_of_a_container(answers[i]));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            skip();
        assert_int_equal(status, 0);
    }
}

/* ---- this machine ---------------------------------------------------------------------------- */

static void faults_and_time_grow_with_what_is_done(void **state)
{
    (void)state;
    static const char *const names[] = {"page-faults", "task-clock", "minor-faults",
                                        "major-faults"};
    kr_perf_plan plan;
    kr_perf_thread t;
    kr_perf_values begin, inner, inner_end, end;
    prepared(names, 4, &plan);
    opened(&t, &plan);
    kr_perf_read(&t, &begin);
    touch_pages(20);
    kr_perf_read(&t, &inner); /* an operator inside */
    touch_pages(100);
    work(200000);
    kr_perf_read(&t, &inner_end);
    touch_pages(20);
    kr_perf_read(&t, &end);
    kr_perf_since(&inner, &inner_end);
    kr_perf_since(&begin, &end);
    assert_true(inner_end.value[0] >= 100);
    assert_true(inner_end.value[2] >= 100);
    assert_true(end.value[0] >= inner_end.value[0] + 40);
    assert_true(end.value[1] >= inner_end.value[1]);
    assert_true(inner_end.value[1] > 0);
    kr_perf_close(&t);
}

static void instructions_grow_with_what_is_done(void **state)
{
    (void)state;
    static const char *const names[] = {"instructions", "cycles"};
    kr_perf_plan plan;
    kr_perf_thread t;
    kineto_error err;
    if (kr_perf_prepare(names, 2, &plan, NULL, &err) != KINETO_OK) {
        print_message("skipped: %s\n", err.message);
        skip();
    }
    opened(&t, &plan);
    kr_perf_values few, many, end;
    kr_perf_read(&t, &few);
    work(1000);
    kr_perf_read(&t, &many);
    work(100000);
    kr_perf_read(&t, &end);
    kr_perf_since(&many, &end);
    kr_perf_since(&few, &many);
    for (uint32_t i = 0; i < 2; i++) {
        if (kr_perf_name(&plan, i))
            assert_true(end.value[i] > 10 * many.value[i]);
    }
    kr_perf_close(&t);
}

static void *in_thread(void *plan)
{
    kr_perf_thread t;
    kr_perf_values begin, end;
    opened(&t, plan);
    kr_perf_read(&t, &begin);
    touch_pages(10);
    kr_perf_read(&t, &end);
    kr_perf_since(&begin, &end);
    kr_perf_close(&t);
    return (void *)(uintptr_t)end.value[0];
}

static void threads_count_for_themselves(void **state)
{
    (void)state;
    static const char *const names[] = {"page-faults"};
    kr_perf_plan plan;
    kr_perf_thread t;
    kr_perf_values begin, end;
    pthread_t thread;
    void *in_other;
    prepared(names, 1, &plan);
    opened(&t, &plan);
    pthread_create(&thread, NULL, in_thread, &plan);
    kr_perf_read(&t, &begin);
    touch_pages(3000);
    kr_perf_read(&t, &end);
    pthread_join(thread, &in_other);
    kr_perf_since(&begin, &end);
    assert_true(end.value[0] >= 3000);
    assert_true((uintptr_t)in_other >= 10 && (uintptr_t)in_other < 2000);
    kr_perf_close(&t);
}

static void reading_leaves_errno_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"task-clock"};
    kr_perf_plan plan;
    kr_perf_thread t;
    kr_perf_values v;
    prepared(names, 1, &plan);
    opened(&t, &plan);
    errno = 4711;
    kr_perf_read(&t, &v);
    assert_int_equal(errno, 4711);
    kr_perf_close(&t);
}

/* ---- sharing --------------------------------------------------------------------------------- */

static void time_that_others_had_the_counters_is_reported(void **state)
{
    (void)state;
    kr_perf_values begin = {.value = {10, 20}, .wanted_ns = 100, .counted_ns = 90};
    kr_perf_values end = {.value = {15, 18}, .wanted_ns = 200, .counted_ns = 190}, other = end;
    kr_perf_since(&begin, &end);
    assert_int_equal(end.counted_ns, end.wanted_ns);
    assert_int_equal(end.value[0], 5);
    assert_int_equal(end.value[1], 0); /* never below nothing */
    assert_int_equal(end.wanted_ns, 100);
    other.counted_ns = 150;
    kr_perf_since(&begin, &other);
    assert_int_equal(other.value[0], 5); /* as counted, not scaled up */
    assert_int_equal(other.counted_ns, 60);
}

/* A counter that grows by 1000 with each reading; others have it for two fifths of the time. */
static int open_shared(struct perf_event_attr *attr, int group)
{
    (void)attr, (void)group;
    int file = memfd_create("counter", MFD_CLOEXEC);
    for (uint64_t i = 1; i <= 16; i++) {
        const uint64_t reading[3 + KR_PERF_MAX] = {1, 100 * i, 60 * i, 1000 * i};
        assert_int_equal(write(file, reading, sizeof reading), sizeof reading);
    }
    lseek(file, 0, SEEK_SET);
    return file;
}

static kineto_status counted_from_now(const char *name, kineto_error *err)
{
    kr_perf_plan plan;
    kineto_status status = kineto_rt_counters_prepare(&name, 1, &plan, NULL, err);
    return status ? status : kineto_rt_counters_begin(&plan, err);
}

static void operators_say_for_how_much_of_their_time_was_counted(void **state)
{
    (void)state;
    KINETO_OPERATOR(site, "counted");
    const char *const names[] = {"task-clock"};
    kineto_session *session;
    kineto_trace *t;
    kineto_function f;
    kineto_arg arg;
    kr_perf_open_instead = open_shared;
    assert_int_equal(counted_from_now(names[0], NULL), KINETO_OK);
    assert_int_equal(ks_session_prepare(NULL, &(ks_extras){.counters = true}, &session, NULL),
                     KINETO_OK);
    assert_int_equal(kineto_session_start(session, NULL), KINETO_OK);
    kineto_function_begin(&f, &site, NULL, 0);
    kineto_function_end(&f);
    assert_int_equal(end_session(session, &t, NULL), KINETO_OK);
    kineto_rt_counters_end();
    assert_int_equal(kineto_trace_count(t), 1);
    assert_true(kineto_args_find(t, 0, "task-clock", &arg));
    assert_int_equal(arg.u, 1000);
    assert_true(kineto_args_find(t, 0, "counted share", &arg));
    assert_int_equal(arg.type, KINETO_ARG_DOUBLE);
    assert_true(arg.d > 0.599 && arg.d < 0.601);
    kineto_trace_release(t);
}

/* What the one operator of a session with this counter says of both. */
static kineto_trace *counted_once(const char *name, const char **note)
{
    KINETO_OPERATOR(site, "counted once");
    kineto_session *session;
    kineto_trace *t;
    kineto_function f;
    assert_int_equal(counted_from_now(name, NULL), KINETO_OK);
    assert_int_equal(ks_session_prepare(NULL, &(ks_extras){.counters = true}, &session, NULL),
                     KINETO_OK);
    assert_int_equal(kineto_session_start(session, NULL), KINETO_OK);
    errno = 1234;
    kineto_function_begin(&f, &site, NULL, 0);
    kineto_function_end(&f);
    assert_int_equal(errno, 1234);
    assert_int_equal(end_session(session, &t, NULL), KINETO_OK);
    kineto_rt_counters_end();
    assert_int_equal(kineto_trace_count(t), 1);
    *note = NULL;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (memmem(line.source.data, line.source.size, "counters", 8))
            *note = line.reason.data;
    }
    return t;
}

static void a_thread_counts_what_the_session_of_now_asked_for(void **state)
{
    (void)state;
    kineto_arg arg;
    const char *note, *const names[] = {"context-switches", "task-clock", "context-switches"};
    for (int i = 0; i < 3; i++) {
        kineto_trace *t = counted_once(names[i], &note);
        assert_int_equal(kineto_args_find(t, 0, "task-clock", &arg) ||
                             kineto_args_find(t, 0, "task-clock (thread clock)", &arg),
                         i == 1);
        assert_int_equal(kineto_args_find(t, 0, "context-switches", &arg) ||
                             kineto_args_find(t, 0, "context-switches (getrusage)", &arg),
                         i != 1);
        assert_null(note);
        kineto_trace_release(t);
    }
}

static void a_thread_that_cannot_count_is_in_the_ledger(void **state)
{
    (void)state;
    kineto_arg arg;
    const char *note;
    kr_perf_open_instead = refuse;
    refuse_with = EMFILE;
    calls = 0;
    refuse_from = 1; /* the first one finds out what there is */
    kineto_trace *t = counted_once("task-clock", &note);
    assert_false(kineto_args_find(t, 0, "task-clock", &arg));
    assert_non_null(note);
    assert_memory_equal(note, "a thread could not count", 24);
    kineto_trace_release(t);
    calls = 0;
    t = counted_once("task-clock", &note); /* tries again, and reports it again */
    assert_non_null(note);
    kineto_trace_release(t);
    kr_perf_open_instead = NULL;
    t = counted_once("context-switches", &note);
    assert_null(note);
    kineto_trace_release(t);
}

static void what_is_counted_stays_while_a_session_counts(void **state)
{
    (void)state;
    const char *const names[] = {"task-clock", "context-switches"};
    kr_perf_plan other;
    kineto_error err = {0};
    assert_int_equal(counted_from_now(names[0], NULL), KINETO_OK);
    assert_int_equal(counted_from_now(names[0], NULL), KINETO_OK);
    kineto_rt_counters_end();
    assert_int_equal(kineto_rt_counters_prepare(names + 1, 1, &other, NULL, NULL), KINETO_OK);
    assert_int_equal(kineto_rt_counters_begin(&other, &err), KINETO_E_BUSY);
    assert_non_null(strstr(err.message, "stop it first"));
    kineto_rt_counters_end();
    assert_int_equal(kineto_rt_counters_begin(&other, NULL), KINETO_OK);
    kineto_rt_counters_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(names_are_checked, without_test_hook),
        cmocka_unit_test_teardown(what_is_refused_is_explained, without_test_hook),
        cmocka_unit_test_teardown(what_stands_in_has_another_name, without_test_hook),
        cmocka_unit_test_teardown(a_machine_without_counters_still_has_the_kernels,
                                  without_test_hook),
        cmocka_unit_test_teardown(a_thread_that_gets_no_counters_leaves_nothing_open,
                                  without_test_hook),
        cmocka_unit_test(a_container_that_forbids_it_is_named),
        cmocka_unit_test(faults_and_time_grow_with_what_is_done),
        cmocka_unit_test(instructions_grow_with_what_is_done),
        cmocka_unit_test(threads_count_for_themselves),
        cmocka_unit_test(reading_leaves_errno_alone),
        cmocka_unit_test(time_that_others_had_the_counters_is_reported),
        cmocka_unit_test(a_thread_counts_what_the_session_of_now_asked_for),
        cmocka_unit_test(what_is_counted_stays_while_a_session_counts),
        cmocka_unit_test_teardown(a_thread_that_cannot_count_is_in_the_ledger, without_test_hook),
        cmocka_unit_test_teardown(operators_say_for_how_much_of_their_time_was_counted,
                                  without_test_hook),
    };
    return RUN_TESTS(tests);
}

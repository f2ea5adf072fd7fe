/* Child processes of every kind: what they record is in the parent's trace, under their own pid,
 * and what they do with the parent's ranges does no harm. */
#include "unit.h"

#include "../helpers/recording.h"
#include "record/record.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

KINETO_SITE_ARGS(site_parent, KINETO_KIND_CPU_OP, "parent", {"n", KINETO_ARG_INT});
KINETO_SITE_ARGS(site_child, KINETO_KIND_CPU_OP, "child", {"n", KINETO_ARG_INT});
KINETO_SITE(site_outer, KINETO_KIND_USER_ANNOTATION, "outer");

static void record_numbers(kineto_site *site, int count)
{
    for (int n = 0; n < count; n++) {
        kineto_value v = {.i = n};
        kineto_range_end(kineto_range_begin_args(site, &v));
    }
}

static void check_child(const kineto_trace *t, pid_t pid, int count)
{
    int64_t next = 0;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_process p = process_of(t, r);
        if (p.pid != pid)
            continue;
        assert_text(row_at(t, r).name, "child");
        assert_int_equal(arg_of(t, r, "n").i, next++);
        assert_int_equal(p.ppid, getpid());
        assert_true(p.name.size > 0);
        assert_false(p.is_device);
        assert_int_equal(track_of(t, r).id, pid);
    }
    assert_int_equal(next, count);
}

static void children_that_exit_are_in_the_trace(void **state)
{
    (void)state;
    enum { CHILDREN = 10, COUNT = 200 };
    pid_t pids[CHILDREN];
    kineto_session *s = record();
    record_numbers(&site_parent, COUNT);
    for (int i = 0; i < CHILDREN; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            record_numbers(&site_child, COUNT);
            _exit(i);
        }
    }
    for (int i = 0; i < CHILDREN; i++)
        assert_exit(pids[i], i);
    record_numbers(&site_parent, COUNT);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "parent", getpid()), 2 * COUNT);
    assert_int_equal(kineto_trace_count(t), (CHILDREN + 2) * COUNT);
    for (int i = 0; i < CHILDREN; i++)
        check_child(t, pids[i], COUNT);
    kineto_trace_release(t);
}

static void a_child_killed_while_recording_leaves_what_it_recorded(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0) {
        record_numbers(&site_child, 1000);
        (void)!write(ready[1], "x", 1);
        (void)kineto_range_begin(&site_outer);
        for (;;)
            pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_lost(t), 0);
    assert_int_equal(count_of_pid(t, "child", pid), 1000);
    kineto_trace_release(t);
    close(ready[0]);
    close(ready[1]);
}

/* The parent's open ranges are not the child's: its ends are ignored. */
static void a_fork_inside_a_range_leaves_the_range_to_the_parent(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_range outer = kineto_range_begin(&site_outer);
    kineto_range inner = kineto_range_begin(&site_outer);
    pid_t pid = fork();
    if (pid == 0) {
        kineto_range_end(inner);
        kineto_range_end(outer);
        record_numbers(&site_child, 5);
        kineto_range_end(inner);
        kineto_range_end(outer);
        record_numbers(&site_child, 5);
        _exit(0);
    }
    assert_exit(pid, 0);
    record_numbers(&site_parent, 5);
    kineto_range_end(inner);
    kineto_range_end(outer);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "outer", getpid()), 2);
    assert_int_equal(count_of_pid(t, "outer", pid), 0);
    assert_int_equal(count_of_pid(t, "child", pid), 10);
    kineto_row parent = kineto_trace_parent(t, find_nth(t, "parent", 0).row);
    assert_text(row_at(t, parent).name, "outer");
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(find_nth(t, "outer", i).flags, 0);
    assert_true(kineto_trace_parent(t, find_nth(t, "child", 0).row) == KINETO_NO_ROW);
    kineto_trace_release(t);
}

static void children_of_children_are_in_the_trace(void **state)
{
    (void)state;
    pid_t *pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    kineto_session *s = record();
    pid_t first = fork();
    if (first == 0) {
        for (int depth = 0; depth < 4; depth++) {
            record_numbers(&site_child, 10 + depth);
            pid_t pid = fork();
            if (pid != 0) {
                pids[depth] = pid;
                int status = 1;
                waitpid(pid, &status, 0);
                _exit(WEXITSTATUS(status));
            }
        }
        record_numbers(&site_child, 14);
        _exit(0);
    }
    assert_exit(first, 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "child", first), 10);
    for (int depth = 0; depth < 4; depth++)
        assert_int_equal(count_of_pid(t, "child", pids[depth]), 11 + depth);
    kineto_trace_release(t);
    munmap(pids, 4096);
}

#if defined(__SANITIZE_THREAD__) /* whose runtime does not know of such children */
static void raw_clones_are_children_like_others(void **state)
{
    (void)state;
    skip();
}
#else
#if defined(__s390__) /* which wants the stack first */
static pid_t raw_clone(void) { return (pid_t)syscall(SYS_clone, 0, SIGCHLD, 0, 0, 0); }
#else
static pid_t raw_clone(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
#endif
#if defined(SYS_fork)
static pid_t raw_fork(void) { return (pid_t)syscall(SYS_fork); }
#else /* arm64 has no such call */
static pid_t raw_fork(void) { return raw_clone(); }
#endif

static int clone_body(void *argument)
{
    record_numbers(&site_child, *(int *)argument);
    _exit(7);
}

/* Nothing but the kernel knows of these: no fork handler of libc runs. */
static void raw_clones_are_children_like_others(void **state)
{
    (void)state;
    pid_t (*const calls[])(void) = {raw_fork, raw_clone};
    pid_t pids[3];
    int count = 60;
    kineto_session *s = record();
    record_numbers(&site_parent, 10);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        pids[i] = calls[i]();
        if (pids[i] == 0) {
            record_numbers(&site_child, count);
            _exit(7);
        }
        assert_exit(pids[i], 7);
    }
    char *stack = malloc(1 << 18);
    pids[2] = clone(clone_body, stack + (1 << 18), SIGCHLD, &count);
    assert_exit(pids[2], 7);
    free(stack);
    record_numbers(&site_parent, 10);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "parent", getpid()), 20);
    for (size_t i = 0; i < COUNT_OF(pids); i++)
        check_child(t, pids[i], count);
    kineto_trace_release(t);
}
#endif

/* ---- exec ---------------------------------------------------------------------------------------- */

static void children_that_exec_leave_what_they_recorded(void **state)
{
    (void)state;
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0) {
        record_numbers(&site_child, 300);
        execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
        _exit(127);
    }
    assert_exit(pid, 5);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    check_child(t, pid, 300);
    kineto_trace_release(t);
}

static void vfork_and_spawn_disturb_nothing(void **state)
{
    (void)state;
    static char sh[] = "sh", c[] = "-c", script[] = "exit 3";
    char *const argv[] = {sh, c, script, NULL};
    kineto_session *s = record();
    for (volatile int i = 0; i < 20; i++) {
        volatile kineto_range outer = kineto_range_begin(&site_outer);
        pid_t pid = vfork();
        if (pid == 0) {
            execv("/bin/sh", argv);
            _exit(127);
        }
        record_numbers(&site_parent, 10);
        assert_exit(pid, 3);
        assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
        record_numbers(&site_parent, 10);
        assert_exit(pid, 3);
        kineto_range_end(outer);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "outer", getpid()), 20);
    assert_int_equal(count_of_pid(t, "parent", getpid()), 400);
    assert_int_equal(kineto_trace_count(t), 420);
    kineto_trace_release(t);
}

/* ---- sessions of children ------------------------------------------------------------------------ */

/* Both record on one pool: each sees its own, the parent also what its child did. */
static int session_in_child(uint32_t retention)
{
    kineto_session_options options;
    kineto_session *s;
    kineto_trace *t;
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_ALL;
    options.buffer_bytes = 65536;
    options.retention = retention;
    if (begin_session(&options, &s, NULL))
        return 10;
    record_numbers(&site_child, 20000);
    if (end_session(s, &t, NULL))
        return 11;
    uint64_t rows = kineto_trace_count(t), lost = kineto_trace_lost(t);
    int64_t last = rows ? arg_of(t, rows - 1, "n").i : -1;
    for (kineto_row r = 0; r < rows; r++)
        if (process_of(t, r).pid != getpid())
            return 12;
    kineto_trace_release(t);
    if (rows + lost != 20000)
        return 13;
    return retention == KINETO_RETAIN_NEWEST && lost == 0 && last != 19999 ? 14 : 0;
}

static void a_child_may_have_its_own_session(void **state)
{
    (void)state;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 16u << 20, KINETO_RETAIN_OLDEST);
    record_numbers(&site_parent, 1000);
    pid_t pid = fork();
    if (pid == 0)
        _exit(session_in_child(KINETO_RETAIN_OLDEST));
    record_numbers(&site_parent, 1000);
    assert_exit(pid, 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "parent", getpid()), 2000);
    assert_int_equal(count_of_pid(t, "child", pid), 20000);
    kineto_trace_release(t);
}

static void a_childs_ring_does_not_overwrite_the_parents_events(void **state)
{
    (void)state;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 8 * 16384, KINETO_RETAIN_OLDEST);
    record_numbers(&site_parent, 3000);
    pid_t pid = fork();
    if (pid == 0)
        _exit(session_in_child(KINETO_RETAIN_NEWEST));
    assert_exit(pid, 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_of_pid(t, "parent", getpid()), 3000);
    assert_int_equal(ledger(t, "program", "overwritten in the ring"), 0);
    kineto_trace_release(t);
}

/* A parent's ring goes on turning after a child's session came and went. */
static void a_childs_session_leaves_the_parents_ring_a_ring(void **state)
{
    (void)state;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 8 * 16384, KINETO_RETAIN_NEWEST);
    pid_t pid = fork();
    if (pid == 0)
        _exit(session_in_child(KINETO_RETAIN_NEWEST));
    assert_exit(pid, 0);
    record_numbers(&site_parent, 50000);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(ledger(t, "program", "buffer full"), 0);
    uint64_t kept = count_of_pid(t, "parent", getpid());
    assert_true(kept > 1000);
    assert_int_equal(arg_of(t, find_nth(t, "parent", kept - 1).row, "n").i, 49999);
    kineto_trace_release(t);
}

/* The parent's session is not the child's to stop; destroying its copy does no harm. */
static void a_child_cannot_stop_the_parents_session(void **state)
{
    (void)state;
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0) {
        kineto_trace *t = NULL;
        kineto_error err;
        if (kineto_session_stop(s, &t, &err) != KINETO_E_STATE || t || !err.message[0])
            _exit(1);
        kineto_session_destroy(s);
        record_numbers(&site_child, 10);
        _exit(0);
    }
    assert_exit(pid, 0);
    record_numbers(&site_parent, 10);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 20);
    kineto_trace_release(t);
}

static void names_are_those_of_each_process(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_process_set_name("the parent");
    record_numbers(&site_parent, 1);
    pid_t pid = fork();
    if (pid == 0) {
        kineto_process_set_name("the child");
        kineto_thread_set_name("child thread");
        record_numbers(&site_child, 1);
        _exit(0);
    }
    assert_exit(pid, 0);
    kineto_trace *t = finish(s);
    assert_text(process_of(t, find_only(t, "parent").row).name, "the parent");
    assert_text(process_of(t, find_only(t, "child").row).name, "the child");
    kineto_trace_release(t);
}

/* A process that forks all the time does not use up the buffer of a session that stays open: what
 * the dead left is given back when a session looks. */
static void chunks_of_the_dead_are_given_back(void **state)
{
    (void)state;
    enum { CHILDREN = 40 };
    kineto_session *s = session_of(KINETO_KINDS_ALL, 16 * 16384, KINETO_RETAIN_NEWEST);
    pid_t pid = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pid = fork();
        if (pid == 0) {
            record_numbers(&site_child, 10);
            _exit(0);
        }
        assert_exit(pid, 0);
        kineto_trace_release(snapshot(s));
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(ledger(t, "program", "buffer full"), 0);
    assert_int_equal(count_of_pid(t, "child", pid), 10);
    assert_int_equal(kineto_trace_count(t) + kineto_trace_lost(t), CHILDREN * 10);
    kineto_trace_release(t);
}

/* The recording for a child that died with a session open ends once a session ends. */
static void a_session_that_a_child_did_not_live_to_end_ends_with_the_parents(void **state)
{
    (void)state;
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0) {
        (void)record();
        _exit(0);
    }
    assert_exit(pid, 0);
    kineto_trace_release(finish(s));
    assert_int_equal(kineto_rt_pool()->control->gate, 0);
    assert_int_equal(kineto_rt_pool()->control->chunk_limit, 0);
}

/* The first record of a process, and of a thread, asks the system for this and that. */
static int errno_of_first_records(int resource, rlim_t most)
{
    struct rlimit limit = {most, most};
    if (setrlimit(resource, &limit) != 0)
        return 77;
    errno = 1234;
    record_numbers(&site_child, 1);
    if (errno == 1234)
        kineto_step_mark();
    return errno == 1234 ? 0 : 1;
}

static void errno_stays_where_the_system_refuses_what_a_first_record_needs(void **state)
{
    (void)state;
    static const struct {
        int resource;
        rlim_t most;
    } limits[] = {{RLIMIT_NOFILE, 0}, {RLIMIT_AS, 65536}};
    kineto_session *s = record();
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(errno_of_first_records(limits[i].resource, limits[i].most));
        assert_exit(pid, 0);
    }
    kineto_trace *t = finish(s);
    assert_int_equal(ledger(t, "program", "no memory for what a thread writes with"), 1);
    assert_int_equal(kineto_trace_lost(t), 1);
    kineto_trace_release(t);
}

static void record_in_handler(int sig)
{
    (void)sig;
    record_numbers(&site_child, 1);
}

/* On a stack of what SIGSTKSZ has always been, below which there is nothing: the kernel puts up to
 * half of it there itself. */
static int record_first_on_a_small_stack(void)
{
    enum { STACK = 8192, GUARD = 4096 };
    struct sigaction action = {.sa_handler = record_in_handler, .sa_flags = SA_ONSTACK};
    char *memory =
        mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = memory + GUARD, .ss_size = STACK};
    if (memory == MAP_FAILED || mprotect(memory, GUARD, PROT_NONE) != 0 ||
        sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
        return 77;
    raise(SIGUSR1);
    return 0;
}

static void a_childs_first_record_may_be_in_a_handler_with_a_small_stack(void **state)
{
    (void)state;
#if !defined(__OPTIMIZE__)
    skip();
#endif
    if (SANITIZED || sysconf(_SC_MINSIGSTKSZ) > 4096)
        skip();
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0)
        _exit(record_first_on_a_small_stack());
    assert_exit(pid, 0);
    kineto_trace *t = finish(s);
    check_child(t, pid, 1);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_that_exit_are_in_the_trace),
        cmocka_unit_test(a_child_killed_while_recording_leaves_what_it_recorded),
        cmocka_unit_test(a_fork_inside_a_range_leaves_the_range_to_the_parent),
        cmocka_unit_test(children_of_children_are_in_the_trace),
        cmocka_unit_test(raw_clones_are_children_like_others),
        cmocka_unit_test(children_that_exec_leave_what_they_recorded),
        cmocka_unit_test(vfork_and_spawn_disturb_nothing),
        cmocka_unit_test(a_child_may_have_its_own_session),
        cmocka_unit_test(a_childs_ring_does_not_overwrite_the_parents_events),
        cmocka_unit_test(a_childs_session_leaves_the_parents_ring_a_ring),
        cmocka_unit_test(a_child_cannot_stop_the_parents_session),
        cmocka_unit_test(a_session_that_a_child_did_not_live_to_end_ends_with_the_parents),
        cmocka_unit_test(names_are_those_of_each_process),
        cmocka_unit_test(errno_stays_where_the_system_refuses_what_a_first_record_needs),
        cmocka_unit_test(a_childs_first_record_may_be_in_a_handler_with_a_small_stack),
        cmocka_unit_test(chunks_of_the_dead_are_given_back),
    };
    return RUN_TESTS(tests);
}

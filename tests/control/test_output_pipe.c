/* Outputs that other processes read: descriptors, commands, and what the program registered. */
#include "output_fixture.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define LARGE_BYTES (1u << 20) /* more than a pipe holds */

static uint64_t written;

static kineto_status write_to(const char *url)
{
    err = (kineto_error){0};
    return ko_output_write(sample, KO_FROM_ARGUMENT, url, &written, &err);
}

/* Many bytes to a command; @param error  may be NULL. */
static kineto_status pour(const char *url, kineto_error *error)
{
    static const char bytes[65536];
    kb_sink *sink;
    kineto_status status = ko_output_open(KO_FROM_ARGUMENT, url, &sink, error);
    if (status != KINETO_OK)
        return status;
    for (size_t i = 0; i < LARGE_BYTES; i += sizeof bytes)
        kb_sink_write(sink, bytes, sizeof bytes);
    return kb_sink_close(sink, error);
}

/* ---- descriptors ----------------------------------------------------------------------------------- */

static void a_descriptor_is_written_and_stays_open(void **state)
{
    (void)state;
    path p = at("%s/x.json", outside);
    int fd = open(p.s, O_CREAT | O_WRONLY | O_CLOEXEC, 0600), before = open_descriptors();
    assert_works(write_to(at("fd:%d", fd).s));
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), written);
    close(fd);
    assert_is_sample(p.s);
    unlink(p.s);
}

static void only_descriptors_that_can_be_written_will_do(void **state)
{
    (void)state;
    static const char *const none[] = {"fd:",   "fd:-1",          "fd:x", "fd:3x",
                                       "fd: 3", "fd:99999999999", "fd:+3"};
    for (size_t i = 0; i < KB_COUNT(none); i++)
        assert_fails(write_to(none[i]), KINETO_E_ARGUMENT, "the number of a descriptor");
    assert_fails(write_to("fd:987"), KINETO_E_ARGUMENT, "not open");
    assert_fails(ko_output_check(KO_FROM_ARGUMENT, "fd:987", &err), KINETO_E_ARGUMENT, "not open");
    int fd = open(SAMPLE, O_RDONLY | O_CLOEXEC);
    assert_fails(write_to(at("fd:%d", fd).s), KINETO_E_ARGUMENT, "for writing");
    close(fd);
}

static void *drain(void *argument)
{
    static char bytes[4096];
    int fd = *(int *)argument;
    static uint64_t got;
    got = 0;
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        got += (uint64_t)n;
    return &got;
}

/* Pipes and sockets, blocking or not, with a slow reader or none. */
static void others_that_read_get_everything_or_it_is_said(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        int ends[2];
        pthread_t thread;
        void *got;
        int flags = O_CLOEXEC | (kind & 1 ? O_NONBLOCK : 0);
        assert_int_equal(kind < 2 ? pipe2(ends, flags)
                                  : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                         0);
        if (kind == 1)
            (void)fcntl(ends[0], F_SETFL, 0); /* the reader waits */
        assert_int_equal(kb_thread_start(&thread, drain, &ends[0]), 0);
        assert_works(pour(at("fd:%d", ends[1]).s, &err));
        close(ends[1]);
        pthread_join(thread, &got);
        assert_int_equal(*(uint64_t *)got, LARGE_BYTES);
        close(ends[0]);
    }
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    assert_fails(pour(at("fd:%d", ends[1]).s, &err), KINETO_E_IO, "closed");
    close(ends[1]);
}

/* ---- commands ---------------------------------------------------------------------------------------- */

static void a_command_reads_the_trace(void **state)
{
    (void)state;
    path p = at("%s/x.json", outside);
    assert_works(write_to(at("exec:cat > %s", p.s).s));
    assert_int_equal(size_of(p.s), written);
    assert_is_sample(p.s);
    assert_works(kineto_output_save(sample, at("exec:cat > %s; true", p.s).s, &err));
    assert_works(pour("exec:cat > /dev/null", &err));
    unlink(p.s);
}

static void a_command_that_fails_is_an_error_with_its_status(void **state)
{
    (void)state;
    assert_fails(write_to("exec:cat > /dev/null; exit 3"), KINETO_E_IO, "ended with status 3");
    assert_fails(write_to("exec:/no/such/command 2> /dev/null"), KINETO_E_IO, "status 127");
    assert_fails(write_to("exec:cat > /dev/null; kill -9 $$"), KINETO_E_IO, "signal 9");
    assert_fails(pour("exec:exit 3", &err), KINETO_E_IO, "status 3");
    assert_fails(pour("exec:true", &err), KINETO_E_IO, "closed before everything was read");
}

/* The program's files, settings and signals are its own. */
static void a_command_inherits_nothing_of_ours(void **state)
{
    (void)state;
    char text[8192];
    path p = at("%s/out", outside);
    sigset_t all, before;
    int fd = open("/dev/null", O_RDONLY);
    assert_int_equal(fcntl(fd, F_DUPFD, 200), 200);
    setenv("CKINETO_CONTROL", "1", 1);
    setenv("KINETO_USE_DAEMON", "1", 1);
    setenv("PLAIN", "kept", 1);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    kineto_status status = write_to(
        at("exec:{ cat > /dev/null; env; ls /proc/self/fd; grep Sig /proc/self/status; } > %s", p.s)
            .s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(fd);
    close(200);
    unsetenv("CKINETO_CONTROL");
    unsetenv("KINETO_USE_DAEMON");
    assert_works(status);
    assert_true(read_whole(p.s, text, sizeof text) > 0);
    assert_non_null(strstr(text, "PLAIN=kept\n"));
    assert_null(strstr(text, "\nCKINETO_"));
    assert_null(strstr(text, "KINETO_USE_DAEMON"));
    assert_null(strstr(text, "\n200\n"));
    assert_non_null(strstr(text, "SigBlk:\t0000000000000000"));
    unlink(p.s);
}

typedef struct patient {
    const char *url;
    bool much;
    kineto_error error;
    kineto_status status;
    uint64_t took_ns;
} patient;

static void *wait_for(void *argument)
{
    patient *p = argument;
    uint64_t from_ns = kb_clock_ns(CLOCK_MONOTONIC);
    if (p->much)
        p->status = pour(p->url, &p->error);
    else
        p->status = ko_output_write(sample, KO_FROM_ARGUMENT, p->url, NULL, &p->error);
    p->took_ns = kb_clock_ns(CLOCK_MONOTONIC) - from_ns;
    return NULL;
}

static void commands_that_do_not_read_or_end_are_killed(void **state)
{
    (void)state;
    char sleeper[600], number[32];
    path mark = at("%s/mark", outside);
    snprintf(sleeper, sizeof sleeper, "exec:sleep 100 & echo $! > %s; sleep 100", mark.s);
    patient all[] = {{.url = "exec:sleep 100", .much = true},
                     {.url = "exec:cat > /dev/null; sleep 100"},
                     {.url = sleeper}};
    static const char *const says[] = {"has taken nothing for 1 s", "did not end within 1 s",
                                       "did not end within 1 s"};
    pthread_t threads[KB_COUNT(all)];
    setenv("CKINETO_EXEC_TIMEOUT", "1", 1);
    for (size_t i = 0; i < KB_COUNT(all); i++)
        assert_int_equal(kb_thread_start(&threads[i], wait_for, &all[i]), 0);
    for (size_t i = 0; i < KB_COUNT(all); i++) {
        pthread_join(threads[i], NULL);
        err = all[i].error;
        assert_fails(all[i].status, KINETO_E_IO, says[i]);
        assert_true(all[i].took_ns < UINT64_C(30000000000));
    }
    unsetenv("CKINETO_EXEC_TIMEOUT");
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
    assert_int_equal(errno, ECHILD);
    assert_true(read_whole(mark.s, number, sizeof number) > 0);
    uint32_t background = (uint32_t)atoi(number);
    while (kb_os_alive(background, kb_os_start_time(background))) /* what it left in the background */
        usleep(1000);
    unlink(mark.s);
}

static void a_command_never_takes_half_for_all(void **state)
{
    (void)state;
    kb_sink *sink;
    path p = at("%s/whole", outside);
    assert_works(
        ko_output_open(KO_FROM_ARGUMENT, at("exec:cat > /dev/null; touch %s", p.s).s, &sink, &err));
    kb_sink_write(sink, "half", 4);
    kb_sink_abort(sink);
    assert_int_equal(access(p.s, F_OK), -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* In a child: programs without standard streams, and such that leave their children to the system.
 */
static void programs_of_all_kinds_can_run_one(void **state)
{
    (void)state;
    path p = at("%s/x.json", outside);
    for (int kind = 0; kind < 2; kind++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            if (kind == 0)
                for (int fd = 0; fd < 3; fd++)
                    close(fd);
            else
                (void)signal(SIGCHLD, SIG_IGN);
            (void)signal(SIGPIPE, SIG_DFL);
            bool good = write_to(at("exec:cat > %s", p.s).s) == KINETO_OK && size_of(p.s) > 0;
            bool bad = pour("exec:exec 0<&-; exit 0", &err) == KINETO_E_IO;
            _exit(good && bad ? 0 : 1);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_is_sample(p.s);
        unlink(p.s);
    }
}

static void a_child_that_lives_on_does_not_hold_up_a_command(void **state)
{
    (void)state;
    kb_sink *sink;
    setenv("CKINETO_EXEC_TIMEOUT", "10", 1);
    assert_works(ko_output_open(KO_FROM_ARGUMENT, "exec:cat > /dev/null", &sink, &err));
    kb_sink_write(sink, "trace", 5);
    pid_t pid = fork();
    if (pid == 0)
        for (;;)
            pause();
    kineto_status status = kb_sink_close(sink, &err);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unsetenv("CKINETO_EXEC_TIMEOUT");
    assert_works(status);
}

/* @return whether `file` has what was written to `url`, and nothing else. */
static bool is_kept_clean(ko_request_source source, const char *url, const char *file)
{
    char text[64];
    kb_sink *sink;
    if (ko_output_open(source, url, &sink, &err) != KINETO_OK)
        return false;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (write(fd, "noise", 5) >= 0)
            return false;
    kb_sink_write(sink, "trace", 5);
    kb_sink_flush(sink);
    return kb_sink_close(sink, &err) == KINETO_OK && read_whole(file, text, sizeof text) == 5 &&
           memcmp(text, "trace", 5) == 0;
}

/* What it prints goes nowhere, as it wants, and not into the trace. */
static void a_program_without_standard_streams_prints_into_nothing_of_ours(void **state)
{
    (void)state;
    int status;
    path plain = at("%s/a", outside), asked = at("%s/b", allowed), own = at("%s/c", outside);
    int fd = open(own.s, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i <= STDERR_FILENO; i++)
            close(i);
        bool clean = is_kept_clean(KO_FROM_ARGUMENT, plain.s, plain.s);
        bool clean_asked = is_kept_clean(KO_FROM_REQUEST, asked.s, asked.s);
        bool clean_own = is_kept_clean(KO_FROM_ARGUMENT, at("fd:%d", fd).s, own.s);
        _exit((clean ? 0 : 1) | (clean_asked ? 0 : 2) | (clean_own ? 0 : 4));
    }
    close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    unlink(plain.s);
    unlink(asked.s);
    unlink(own.s);
}

/* ---- what was registered ------------------------------------------------------------------------------- */

typedef struct taken {
    char url[200];
    uint64_t rows;
    uint32_t calls;
    kineto_status answer;
    bool leave, wait;
    bool inside, go_on; /* atomic */
} taken;

static kineto_status take(const kineto_trace *trace, const char *url, void *user,
                          kineto_error *error)
{
    taken *t = user;
    kb_store_release(&t->inside, true);
    while (t->wait && !kb_load_acquire(&t->go_on))
        usleep(100);
    snprintf(t->url, sizeof t->url, "%s", url);
    t->rows = kineto_trace_count(trace);
    t->calls++;
    if (t->leave)
        kineto_output_unregister("s3");
    if (t->answer == KINETO_E_IO)
        kb_fail(error, KINETO_E_IO, "the bucket has a hole");
    kb_store_release(&t->inside, false);
    return t->answer;
}

static void what_is_registered_receives_the_trace(void **state)
{
    (void)state;
    taken t = {.calls = 0};
    assert_works(kineto_output_register("S3", take, &t, true, &err));
    assert_works(kineto_output_save(sample, "s3://bucket/x.json", &err));
    assert_string_equal(t.url, "s3://bucket/x.json");
    assert_int_equal(t.rows, kineto_trace_count(sample));
    assert_works(ko_output_write(sample, KO_FROM_REQUEST, "S3:y", &written, &err));
    assert_int_equal(t.calls, 2);
    t.answer = KINETO_E_IO;
    assert_fails(write_to("s3:x"), KINETO_E_IO, "the bucket has a hole");
    t.answer = KINETO_E_BUSY;
    assert_fails(write_to("s3:x"), KINETO_E_BUSY, "the output 's3' failed");
    assert_int_equal(ko_output_write(sample, KO_FROM_REQUEST, "s3:x", NULL, NULL), KINETO_E_BUSY);
    kb_sink *sink;
    assert_fails(ko_output_open(KO_FROM_ARGUMENT, "s3:x", &sink, &err), KINETO_E_UNSUPPORTED,
                 "supports traces only");
    kineto_output_unregister("s3");
    assert_fails(write_to("s3:x"), KINETO_E_ARGUMENT, "protocol 's3' is not registered");
}

static void names_of_protocols_are_checked_and_counted(void **state)
{
    (void)state;
    static const char *const bad[] = {"",  "a/b", "a b",
                                      "ä", "a:",  "a2345678901234567890123456789012"};
    static const char *const there[] = {"file", "FD", "Exec"};
    taken t = {.calls = 0};
    err = (kineto_error){0};
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        assert_fails(kineto_output_register(bad[i], take, &t, true, &err), KINETO_E_ARGUMENT, "");
    for (size_t i = 0; i < KB_COUNT(there); i++)
        assert_fails(kineto_output_register(there[i], take, &t, true, &err), KINETO_E_STATE,
                     "already registered");
    assert_fails(kineto_output_register(NULL, take, &t, true, &err), KINETO_E_ARGUMENT, "");
    assert_fails(kineto_output_register("x", NULL, &t, true, &err), KINETO_E_ARGUMENT, "");
    for (int i = 0; i < 16; i++)
        assert_works(kineto_output_register(at("p%d", i).s, take, &t, true, &err));
    assert_fails(kineto_output_register("p3", take, &t, true, &err), KINETO_E_STATE, "'p3'");
    assert_fails(kineto_output_register("p16", take, &t, true, &err), KINETO_E_LIMIT, "16");
    for (int i = 0; i < 16; i++)
        kineto_output_unregister(at("P%d", i).s);
    kineto_output_unregister("p3");
    kineto_output_unregister(NULL);
    assert_works(kineto_output_register("p16", take, &t, true, &err));
    kineto_output_unregister("p16");
}

static void *save(void *argument)
{
    (void)argument;
    assert_int_equal(kineto_output_save(sample, "s3:x", NULL), KINETO_OK);
    return NULL;
}

static void *let_go_on(void *argument)
{
    taken *t = argument;
    usleep(20000);
    kb_store_release(&t->go_on, true);
    return NULL;
}

/* After it is unregistered nothing of it is touched any more. */
static void to_unregister_waits_for_calls(void **state)
{
    (void)state;
    taken t = {.wait = true};
    pthread_t thread, other;
    assert_works(kineto_output_register("s3", take, &t, false, &err));
    assert_int_equal(kb_thread_start(&thread, save, NULL), 0);
    while (!kb_load_acquire(&t.inside))
        usleep(100);
    assert_int_equal(kb_thread_start(&other, let_go_on, &t), 0);
    kineto_output_unregister("s3");
    assert_false(kb_load_acquire(&t.inside));
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    assert_int_equal(t.calls, 1);
    taken leaving = {.leave = true};
    assert_works(kineto_output_register("s3", take, &leaving, false, &err));
    assert_works(write_to("s3:x")); /* it unregisters itself */
    assert_int_equal(write_to("s3:x"), KINETO_E_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_is_written_and_stays_open),
        cmocka_unit_test(only_descriptors_that_can_be_written_will_do),
        cmocka_unit_test(others_that_read_get_everything_or_it_is_said),
        cmocka_unit_test(a_command_reads_the_trace),
        cmocka_unit_test(a_command_that_fails_is_an_error_with_its_status),
        cmocka_unit_test(a_command_inherits_nothing_of_ours),
        cmocka_unit_test(commands_that_do_not_read_or_end_are_killed),
        cmocka_unit_test(a_command_never_takes_half_for_all),
        cmocka_unit_test(programs_of_all_kinds_can_run_one),
        cmocka_unit_test(a_child_that_lives_on_does_not_hold_up_a_command),
        cmocka_unit_test(a_program_without_standard_streams_prints_into_nothing_of_ours),
        cmocka_unit_test(what_is_registered_receives_the_trace),
        cmocka_unit_test(names_of_protocols_are_checked_and_counted),
        cmocka_unit_test(to_unregister_waits_for_calls),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

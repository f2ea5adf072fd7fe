/* Code of others in a child process: crash, hang, exit and floods are outcomes, and nothing stays.
 */
#include "unit/unit.h"

#include "plugincheck/isolate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static unsigned count_fds(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static kv_outcome run(const kv_isolation *how, kv_isolated *function, void *context)
{
    kv_outcome o;
    kineto_error err = {0};
    unsigned before = count_fds();
    assert_int_equal(kv_isolate(how, function, context, &o, &err), KINETO_OK);
    assert_int_equal(count_fds(), before);
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, living or dead */
    assert_int_equal(errno, ECHILD);
    return o;
}

static void write_text(void *context, int to)
{
    kv_isolated_write(to, context, strlen(context));
    printf("out");
    fprintf(stderr, "err");
}

static void data_and_text_arrive(void **state)
{
    (void)state;
    char text[] = "forty-two", buf[64];
    kv_isolation how = {.max_text_bytes = 100};
    kv_outcome o = run(&how, write_text, text);
    assert_int_equal(o.ending, KV_RETURNED);
    assert_string_equal(o.data, "forty-two");
    assert_int_equal(o.data_bytes, 9);
    assert_int_equal(o.text_bytes, 6);
    assert_non_null(strstr(o.text, "out"));
    assert_non_null(strstr(o.text, "err"));
    assert_false(o.data_cut || o.text_cut);
    assert_string_equal(kv_outcome_text(&o, &how, buf, sizeof buf), "ok");
    kv_outcome_free(&o);
    o = run(NULL, write_text, text);
    assert_int_equal(o.text_bytes, 0);
    assert_string_equal(o.text, "");
    kv_outcome_free(&o);
}

static void crash(void *context, int to)
{
    kv_isolated_write(to, "before", 6);
    raise(*(int *)context);
}

static void a_crash_is_an_outcome_with_what_was_written_before(void **state)
{
    (void)state;
    int signals[] = {SIGSEGV, SIGABRT, SIGKILL, SIGPIPE};
    for (size_t i = 0; i < KB_COUNT(signals); i++) {
        char buf[64];
        kv_outcome o = run(NULL, crash, &signals[i]);
        assert_int_equal(o.ending, KV_KILLED);
        assert_int_equal(o.code, signals[i]);
        assert_string_equal(o.data, "before");
        assert_non_null(strstr(kv_outcome_text(&o, NULL, buf, sizeof buf), "signal "));
        kv_outcome_free(&o);
    }
}

static void leave(void *context, int to)
{
    (void)to;
    exit(*(int *)context);
}

static void exit_is_not_a_return(void **state)
{
    (void)state;
    int codes[] = {0, 3};
    for (size_t i = 0; i < KB_COUNT(codes); i++) {
        kv_outcome o = run(NULL, leave, &codes[i]);
        assert_int_equal(o.ending, KV_EXITED);
        assert_int_equal(o.code, codes[i]);
        kv_outcome_free(&o);
    }
}

static void hang(void *context, int to)
{
    if (fork() == 0) { /* holds the pipes, too */
        kv_isolated_write(*(int *)context, "x", 1);
        pause();
    }
    kv_isolated_write(to, "before", 6);
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

static void a_hang_is_ended_with_all_its_children(void **state)
{
    (void)state;
    int ends[2];
    char buf[64], byte;
    assert_int_equal(pipe(ends), 0);
    kv_isolation how = {.limit_ms = 200};
    kv_outcome o = run(&how, hang, &ends[1]);
    assert_int_equal(o.ending, KV_TIMED_OUT);
    assert_string_equal(o.data, "before");
    assert_string_equal(kv_outcome_text(&o, &how, buf, sizeof buf), "no answer within 0.2 s");
    kv_outcome_free(&o);
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* the grandchild is gone: end of file */
    close(ends[0]);
}

static void fork_and_return(void *context, int to)
{
    if (fork() == 0)
        for (;;)
            pause();
    kv_isolated_write(to, "y", 1);
    (void)context;
}

static void what_a_child_leaves_running_does_not_hold_us(void **state)
{
    (void)state;
    kv_outcome o = run(NULL, fork_and_return, NULL);
    assert_int_equal(o.ending, KV_RETURNED);
    assert_string_equal(o.data, "y");
    kv_outcome_free(&o);
}

static void flood(void *context, int to)
{
    char block[4096];
    memset(block, 'z', sizeof block);
    for (int i = 0; i < 1000; i++) {
        kv_isolated_write(to, block, sizeof block);
        kv_isolated_write(STDOUT_FILENO, block, sizeof block);
    }
    (void)context;
}

static void floods_are_cut(void **state)
{
    (void)state;
    kv_isolation how = {.max_data_bytes = 10000, .max_text_bytes = 77};
    kv_outcome o = run(&how, flood, NULL);
    assert_int_equal(o.ending, KV_RETURNED);
    assert_true(o.data_cut && o.text_cut);
    assert_int_equal(o.data_bytes, 10000);
    assert_int_equal(o.text_bytes, 77);
    assert_int_equal(strlen(o.data), 10000);
    kv_outcome_free(&o);
}

static void look_around(void *context, int to)
{
    char byte;
    sigset_t blocked;
    struct sigaction action;
    bool fine = read(STDIN_FILENO, &byte, 1) == 0;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    fine = fine && !sigismember(&blocked, SIGTERM) && sigaction(SIGINT, NULL, &action) == 0 &&
           action.sa_handler == SIG_DFL && getpgrp() == getpid();
    kv_isolated_write(to, fine ? "1" : "0", 1);
    (void)context;
}

static void the_child_starts_clean(void **state)
{
    (void)state;
    sigset_t block, old;
    sigemptyset(&block);
    sigaddset(&block, SIGTERM);
    sigprocmask(SIG_BLOCK, &block, &old);
    signal(SIGINT, SIG_IGN);
    kv_outcome o = run(NULL, look_around, NULL);
    assert_string_equal(o.data, "1");
    kv_outcome_free(&o);
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_and_text_arrive),
        cmocka_unit_test(a_crash_is_an_outcome_with_what_was_written_before),
        cmocka_unit_test(exit_is_not_a_return),
        cmocka_unit_test(a_hang_is_ended_with_all_its_children),
        cmocka_unit_test(what_a_child_leaves_running_does_not_hold_us),
        cmocka_unit_test(floods_are_cut),
        cmocka_unit_test(the_child_starts_clean),
    };
    return RUN_TESTS(tests);
}

/* Programs recorded from outside, by a collector in this process. */
#include "unit/unit.h"

#include "helpers/recording.h"

#include "session/session.h"

typedef struct fixture {
    ks_collector *collector;
    char directory[256], output[300];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_non_null(make_directory(f->directory, sizeof f->directory));
    snprintf(f->output, sizeof f->output, "%s/t.json", f->directory);
    ks_collector_options options = {
        .kinds = KINETO_KINDS_ALL, .buffer_bytes = 4u << 20, .output_path = f->output};
    kineto_error err = {0};
    if (ks_collector_create(&options, &f->collector, &err))
        fail_msg("%s", err.message);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ks_collector_destroy(f->collector, false);
    assert_int_equal(rmdir(f->directory), 0);
    free(f);
    return 0;
}

/* Run a program under the collector; its exit status must be 0. */
static kineto_trace *run(fixture *f, char *const argv[], const char *preload, pid_t *pid)
{
    kineto_trace *t = NULL;
    kineto_error err = {0};
    int status = 0;
    assert_int_equal(ks_collector_start(f->collector, &err), KINETO_OK);
    *pid = fork();
    if (*pid == 0) {
        setenv("CKINETO_SESSION", ks_collector_pool_path(f->collector), 1);
        if (preload)
            setenv("LD_PRELOAD", preload, 1);
        execv(argv[0], argv);
        _exit(127);
    }
    assert_true(*pid > 0);
    while (waitpid(*pid, &status, WNOHANG) == 0)
        usleep((useconds_t)(ks_collector_poll(f->collector) / 1000));
    if (ks_collector_finish(f->collector, &t, &err))
        fail_msg("%s", err.message);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("'%s' ended with %#x", argv[0], status);
    return t;
}

static void check_both_copies(const kineto_trace *t, pid_t pid, uint64_t count)
{
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_of_pid(t, "own", pid), count);
    assert_int_equal(count_of_pid(t, "work of a", pid), count);
    assert_int_equal(count_of_pid(t, "inner of a", pid), count);
    assert_int_equal(kineto_trace_count(t), 3 * count);
    /* one process and one thread, although two producers wrote */
    assert_int_equal(kineto_trace_process_count(t), 1);
    assert_int_equal(kineto_trace_track_count(t), 1);
    int64_t own = 0, lib = 0;
    const kineto_row *order = kineto_trace_time_order(t);
    for (uint64_t i = 0; i < kineto_trace_count(t); i++) {
        kineto_activity a = row_at(t, order[i]);
        if (text_is(a.name, "own")) {
            assert_int_equal(arg_of(t, a.row, "n").i, own++);
        } else if (text_is(a.name, "work of a")) {
            assert_int_equal(arg_of(t, a.row, "n in a").i, lib++);
            assert_text(row_at(t, kineto_trace_parent(t, a.row)).name, "own");
        }
    }
}

static void a_static_copy_next_to_a_shared_one_both_arrive(void **state)
{
    static char program[] = STATIC_COPY, lib[] = LIB_A, count[] = "30000";
    char *const argv[] = {program, lib, count, NULL};
    pid_t pid;
    kineto_trace *t = run(*state, argv, NULL, &pid);
    check_both_copies(t, pid, 30000);
    kineto_trace_release(t);
}

static void a_static_copy_next_to_a_preloaded_one_both_arrive(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)state;
    skip(); /* the sanitizers want to be loaded first */
#else
    static char program[] = STATIC_COPY, count[] = "100";
    static char none[] = "/nonexistent";
    char *const argv[] = {program, none, count, NULL};
    pid_t pid;
    kineto_trace *t = run(*state, argv, LIB_A, &pid);
    check_both_copies(t, pid, 100);
    kineto_trace_release(t);
#endif
}

/* Its own session holds what happened in it, ours everything; much of it went through the spool
 * before the program asked for its trace. */
static void a_program_that_records_itself_and_its_recorder_both_get_a_trace(void **state)
{
    static char program[] = SELF;
    static const char *const counts[] = {"1", "1000", "60000"};
    fixture *f = *state;
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        char count[16];
        snprintf(count, sizeof count, "%s", counts[i]);
        char *const argv[] = {program, count, NULL};
        pid_t pid;
        uint64_t n = strtoull(count, NULL, 10);
        kineto_trace *t = run(f, argv, NULL, &pid);
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(count_of_pid(t, "range", pid), 3 * n);
        assert_int_equal(kineto_trace_count(t), 4 * n);
        kineto_trace_release(t);
        if (i + 1 == COUNT_OF(counts))
            break;
        tear_down(state);
        set_up(state);
        f = *state;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_static_copy_next_to_a_shared_one_both_arrive, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_static_copy_next_to_a_preloaded_one_both_arrive, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_program_that_records_itself_and_its_recorder_both_get_a_trace, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}

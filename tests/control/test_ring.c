/* The ring: what it is asked for, what a dump holds, and who asks for dumps by itself; iterations
 * and windows that go by them. */
#include "../unit/unit.h"

#include "../helpers/recording.h"
#include "ondemand/capture/ring.h"
#include "record/record.h"
#include "session/session.h"

#include <ckineto/control.h>
#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#define MS   INT64_C(1000000)
#define HANG 20000 /* ms: a test that waits so long has failed */

KINETO_SITE(work, KINETO_KIND_CPU_OP, "work");

static char folder[300];

static void sleep_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * MS};
    nanosleep(&t, NULL);
}

static void do_work(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        kineto_range_end(kineto_range_begin(&work));
}

static void empty_folder(void)
{
    DIR *d = opendir(folder);
    char path[700];
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
}

/* How many files lie there; `path` receives one of them. */
static uint32_t files(char *path, size_t bytes)
{
    uint32_t count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".json") && !strstr(e->d_name, ".tmp") && e->d_name[0] != '.') {
            snprintf(path, bytes, "%s/%s", folder, e->d_name);
            count++;
        }
    closedir(d);
    return count;
}

static kineto_trace *read_trace(const char *path)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    if (kineto_trace_open(path, &trace, &err))
        fail_msg("%s: %s", path, err.message);
    return trace;
}

/* The trace of the only dump there will be. */
static kineto_trace *wait_for_dump(void)
{
    char path[700];
    for (int i = 0; i < HANG && files(path, sizeof path) == 0; i += 2)
        sleep_ms(2);
    assert_int_equal(files(path, sizeof path), 1);
    return read_trace(path);
}

static kineto_string metadata(const kineto_trace *trace, const char *key)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_string k, v;
        kineto_trace_metadata(trace, i, &k, &v);
        if (text_is(k, key))
            return v;
    }
    return (kineto_string){"", 0};
}

static bool contains(kineto_string text, const char *part)
{
    return memmem(text.data, text.size, part, strlen(part)) != NULL;
}

static kineto_control_options ring_of(double seconds)
{
    kineto_control_options o;
    kineto_control_options_init(&o);
    o.ring_seconds = seconds;
    o.ring_bytes = 1 << 20;
    o.ring_kinds = KINETO_KINDS_DEFAULT;
    return o;
}

static void start(const kineto_control_options *o)
{
    kineto_error err = {0};
    empty_folder();
    if (kineto_control_start(o, &err))
        fail_msg("%s", err.message);
}

/* ---- what it is asked for ---- */

static void the_words_of_the_setting_are_read(void **state)
{
    (void)state;
    kineto_control_options o;
    kineto_control_options_init(&o);
    kineto_error err;
    const char *text = "seconds=2.5,mb=8,kinds=cpu_op+runtime,crash,slow-step=1.5x,hang=60,"
                       "dumps=3,path=/a,b=c";
    assert_int_equal(ko_ring_parse(text, &o, &err), KINETO_OK);
    assert_true(o.ring_seconds == 2.5 && o.dump_on_slow_step == 1.5 && o.dump_on_crash);
    assert_true(o.dump_on_hang_seconds == 60);
    assert_int_equal(o.ring_bytes, 8u << 20);
    assert_int_equal(o.dump_limit, 3);
    assert_int_equal(o.ring_kinds,
                     KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_RUNTIME));
    assert_string_equal(o.dump_path, "/a,b=c");
    kineto_control_options_init(&o);
    assert_int_equal(ko_ring_parse("1", &o, &err), KINETO_OK);
    assert_true(o.ring_seconds == KO_RING_SECONDS);
    o.ring_seconds = 0;
    assert_int_equal(ko_ring_parse("0", &o, &err), KINETO_OK);
    assert_true(o.ring_seconds == 0);
}

static void words_that_make_no_sense_are_named_and_change_nothing(void **state)
{
    (void)state;
    static const char *const wrong[] = {"seconds=",      "seconds=-1",    "seconds=nan", "mb=0.1",
                                        "kinds=nothing", "slow-step=0.9", "hang=x",      "what",
                                        "dumps=1.5",     "path=",         "seconds=1e9", "crash=1"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        kineto_control_options o, before;
        kineto_control_options_init(&o);
        before = o;
        kineto_error err = {0};
        assert_int_equal(ko_ring_parse(wrong[i], &o, &err), KINETO_E_ARGUMENT);
        assert_non_null(strstr(err.message, "ring:"));
        assert_memory_equal(&o, &before, sizeof o);
    }
    kineto_control_options o;
    kineto_control_options_init(&o);
    o.dump_on_crash = true;
    assert_int_equal(kineto_control_start(&o, NULL), KINETO_E_ARGUMENT);
    o = ring_of(1);
    o.dump_on_slow_step = 0.5;
    assert_int_equal(kineto_control_start(&o, NULL), KINETO_E_ARGUMENT);
}

/* ---- what is usual ---- */

static void a_step_is_slow_by_the_median_of_those_before(void **state)
{
    (void)state;
    ko_usual u = {{0}, {0}, 0};
    uint64_t usual = 1, seed = 1;
    for (uint32_t i = 0; i < KO_USUAL_WARMUP; i++) {
        assert_false(ko_usual_is_slow(&u, 1.5, i == 0 ? 1000000 : 100, &usual));
        assert_int_equal(usual, 0);
    }
    assert_false(ko_usual_is_slow(&u, 1.5, 149, &usual));
    assert_int_equal(usual, 100); /* the first one does not count for much */
    assert_true(ko_usual_is_slow(&u, 1.5, 150, &usual));
    for (uint32_t i = 0; i < 1000; i++) { /* against a plain count of what is smaller */
        uint64_t ns = next_random(&seed) % 1000, below = 0;
        uint32_t count = (uint32_t)(u.count < KO_USUAL_STEPS ? u.count : KO_USUAL_STEPS);
        uint64_t last[KO_USUAL_STEPS];
        memcpy(last, u.ns, sizeof last);
        (void)ko_usual_is_slow(&u, 2, ns, &usual);
        for (uint32_t k = 0; k < count; k++)
            below += last[k] < usual;
        assert_true(below <= count / 2);
    }
}

/* ---- dumps ---- */

static void a_dump_holds_the_newest_and_recording_goes_on(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(0.5);
    char path[700];
    start(&o);
    KINETO_SITE(early, KINETO_KIND_CPU_OP, "early");
    KINETO_SITE(late, KINETO_KIND_CPU_OP, "late");
    kineto_range_end(kineto_range_begin(&early));
    sleep_ms(600);
    kineto_range_end(kineto_range_begin(&late));
    assert_int_equal(kineto_control_dump(NULL, NULL), KINETO_OK);
    kineto_trace *t = wait_for_dump();
    assert_int_equal(count_named(t, "early"), 0);
    assert_int_equal(count_named(t, "late"), 1);
    assert_true(contains(metadata(t, "ckineto_dump_reason"), "asked for"));
    assert_true(contains(metadata(t, "ckineto_ring"), "0.5"));
    kineto_trace_release(t);
    (void)files(path, sizeof path);
    unlink(path);
    kineto_range_end(kineto_range_begin(&late));
    assert_int_equal(kineto_control_dump(NULL, NULL), KINETO_OK);
    t = wait_for_dump();
    assert_true(count_named(t, "late") >= 1);
    kineto_trace_release(t);
    kineto_control_stop();
    assert_int_equal(kineto_control_dump(NULL, NULL), KINETO_E_STATE);
}

/* Overwritten events are counted by periods of 1/512 of the ring's length. The work here takes
 * several of them. */
static void what_had_to_make_room_is_said(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(20);
    uint64_t done = 0, began_ns = kb_monotonic_ns();
    start(&o);
    while (done < 400000 || kb_monotonic_ns() - began_ns < 200 * KB_MILLISECOND_NS) {
        do_work(1000);
        done += 1000;
    }
    assert_int_equal(kineto_control_dump(NULL, NULL), KINETO_OK);
    kineto_trace *t = wait_for_dump();
    uint64_t kept = count_named(t, "work");
    assert_true(kept > 10000 && kept < done);
    assert_int_equal(ledger(t, "ring", "shorter than asked for"), 1);
    assert_int_equal(ledger(t, "program", "overwritten in the ring") + kept, done);
    kineto_trace_release(t);
    kineto_control_stop();
}

/* What was overwritten is older than what was asked for: nothing of that is lost. */
static void what_is_older_than_the_ring_is_not_a_loss(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(0.4);
    start(&o);
    do_work(400000);
    sleep_ms(450);
    do_work(10);
    assert_int_equal(kineto_control_dump(NULL, NULL), KINETO_OK);
    kineto_trace *t = wait_for_dump();
    assert_int_equal(count_named(t, "work"), 10);
    assert_int_equal(ledger(t, "ring", "shorter than asked for"), 0);
    assert_nothing_lost(t);
    kineto_trace_release(t);
    kineto_control_stop();
}

/* How long the longest of some short steps is here and now: a busy machine sleeps longer. */
static int64_t longest_of_steps_ms(int steps)
{
    uint64_t longest_ns = 0;
    for (int i = 0; i < steps; i++) {
        kineto_step_mark();
        uint64_t begin_ns = kb_clock_ns(CLOCK_MONOTONIC);
        sleep_ms(10);
        uint64_t ns = kb_clock_ns(CLOCK_MONOTONIC) - begin_ns;
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return (int64_t)longest_ns / MS + 1;
}

static void a_slow_step_is_dumped_once(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(60);
    o.dump_on_slow_step = 30;
    start(&o);
    int64_t slow_ms = 40 * longest_of_steps_ms(10);
    do_work(1);
    sleep_ms(slow_ms);
    for (int i = 0; i < 3; i++) {
        kineto_step_mark();
        sleep_ms(i == 1 ? slow_ms : 10); /* the second one is within the ring's time */
    }
    kineto_trace *t = wait_for_dump();
    kineto_string why = metadata(t, "ckineto_dump_reason");
    assert_true(contains(why, "slow step") && contains(why, "usually"));
    assert_int_equal(count_named(t, "work"), 1);
    kineto_trace_release(t);
    sleep_ms(20);
    kineto_control_stop();
    char path[700];
    assert_int_equal(files(path, sizeof path), 1);
}

static void a_hang_is_dumped_once(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(5);
    o.dump_on_hang_seconds = 0.1;
    start(&o);
    sleep_ms(150); /* no step yet: no hang */
    char path[700];
    assert_int_equal(files(path, sizeof path), 0);
    kineto_step_mark();
    do_work(1);
    kineto_trace *t = wait_for_dump();
    assert_true(contains(metadata(t, "ckineto_dump_reason"), "no step for"));
    assert_int_equal(count_named(t, "work"), 1);
    kineto_trace_release(t);
    sleep_ms(250);
    assert_int_equal(files(path, sizeof path), 1);
    empty_folder();
    kineto_step_mark(); /* it goes on, and hangs again */
    kineto_trace_release(wait_for_dump());
    kineto_control_stop();
}

static void a_hang_while_the_ring_is_written_is_dumped_afterwards(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(5);
    char busy[400];
    kineto_error err;
    o.dump_on_hang_seconds = 0.1;
    start(&o);
    kineto_step_mark();
    do_work(1);
    snprintf(busy, sizeof busy, "exec:sleep 0.5; cat > %s/first", folder);
    assert_int_equal(kineto_control_dump(busy, &err), KINETO_OK);
    kineto_trace *t = wait_for_dump();
    assert_true(contains(metadata(t, "ckineto_dump_reason"), "no step for"));
    kineto_trace_release(t);
    kineto_control_stop();
}

static void there_are_no_more_dumps_than_asked_for(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(5);
    char path[700];
    o.dump_on_hang_seconds = 0.03;
    o.dump_limit = 2;
    start(&o);
    for (int i = 0, more = 3; i < HANG && more > 0; i += 60) {
        kineto_step_mark();
        sleep_ms(60);
        more -= files(path, sizeof path) == 2;
    }
    kineto_control_stop();
    assert_int_equal(files(path, sizeof path), 2);
}

/* A child that goes on with what its parent did; the parent's goes on, too. */
static void a_child_gets_a_ring_of_its_own(void **state)
{
    (void)state;
    kineto_control_options o = ring_of(5);
    char path[700], name[40];
    int status;
    if (THREAD_SANITIZED)
        skip(); /* it has no threads in a fork's child */
    start(&o);
    pid_t pid = fork();
    if (pid == 0) {
        bool written = false;
        kineto_step_mark();
        for (int i = 0; i < HANG && !written; i += 5) {
            do_work(1);
            sleep_ms(5);
            written = kineto_control_dump(NULL, NULL) == KINETO_OK;
        }
        _exit(written ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    snprintf(name, sizeof name, "_%d_1.json", (int)pid);
    assert_int_equal(files(path, sizeof path), 1);
    assert_non_null(strstr(path, name));
    empty_folder();
    do_work(1);
    assert_int_equal(kineto_control_dump(NULL, NULL), KINETO_OK);
    kineto_trace_release(wait_for_dump());
    kineto_control_stop();
}

/* ---- iterations ---- */

static const kf_steps *own_steps(void)
{
    return kf_steps_of(kineto_rt_pool()->control, kb_os_pid());
}

static void an_iteration_becomes_a_range_when_it_is_over(void **state)
{
    (void)state;
    char first[40], second[40];
    uint64_t n = kineto_rt_steps(NULL);
    snprintf(first, sizeof first, "ProfilerStep#%llu", (unsigned long long)n);
    snprintf(second, sizeof second, "ProfilerStep#%llu", (unsigned long long)n + 1);
    kineto_session *s = record();
    kineto_step_mark();
    kineto_range inside = kineto_range_begin(&work);
    kineto_step_mark(); /* ranges of the program may cross iterations */
    kineto_range_end(inside);
    kineto_step_mark();
    kineto_trace *t = finish(s);
    kineto_activity a = find_only(t, first), b = find_only(t, second);
    assert_int_equal(a.end_ns, b.start_ns);
    assert_int_equal(a.kind, KINETO_KIND_USER_ANNOTATION);
    assert_int_equal(find_only(t, "work").track, a.track);
    assert_nothing_lost(t);
    kineto_trace_release(t);
    uint64_t ticks[KF_STEP_TIMES];
    assert_int_equal(kf_steps_read(own_steps(), ticks), n + 3);
    assert_true(ticks[(n + 2) % KF_STEP_TIMES] > ticks[(n + 1) % KF_STEP_TIMES]);
}

/* Only what begins in one of these iterations is recorded, by the program alone. */
static void a_window_by_iteration_begins_and_ends_in_the_program(void **state)
{
    (void)state;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 4u << 20, KINETO_RETAIN_OLDEST);
    kf_control *control = kineto_rt_pool()->control;
    uint32_t slot = 0;
    while (control->windows[slot].state != KF_WINDOW_OPEN)
        slot++;
    uint64_t n = kineto_rt_steps(NULL);
    kf_window_limit(control, slot, kb_os_pid(), n + 2, n + 4);
    for (uint64_t i = 0; i < 6; i++) {
        kineto_step_mark();
        assert_int_equal(kineto_enabled(KINETO_KIND_CPU_OP), i == 2 || i == 3);
        do_work(1);
    }
    assert_int_equal(control->windows[slot].step_state, KF_STEPS_OVER);
    assert_int_equal(control->step_limits, 0);
    uint64_t ticks[KF_STEP_TIMES];
    (void)kineto_rt_steps(ticks);
    assert_int_equal(control->windows[slot].from_ticks, ticks[(n + 2) % KF_STEP_TIMES]);
    assert_int_equal(control->windows[slot].until_ticks, ticks[(n + 4) % KF_STEP_TIMES]);
    kineto_trace *t = finish(s);
    char name[40];
    uint64_t marked = 0;
    for (uint64_t i = 0; i < 6; i++) {
        snprintf(name, sizeof name, "ProfilerStep#%llu", (unsigned long long)(n + i));
        assert_int_equal(count_named(t, name), i == 2 || i == 3);
        marked += count_named(t, name);
    }
    assert_int_equal(marked, 2);
    assert_int_equal(count_named(t, "work"), 2);
    kineto_trace_release(t);
}

static void iterations_that_were_missed_give_an_empty_window(void **state)
{
    (void)state;
    kineto_session *s = record();
    kf_control *control = kineto_rt_pool()->control;
    uint64_t n = kineto_rt_steps(NULL);
    kf_window_limit(control, 0, kb_os_pid() + 1, 0, 1); /* another process's */
    kineto_step_mark();
    assert_int_equal(control->windows[0].step_state, KF_STEPS_WAITING);
    kf_window_limit(control, 0, kb_os_pid(), 0, n);
    kineto_step_mark();
    assert_int_equal(control->windows[0].step_state, KF_STEPS_OVER);
    assert_int_equal(control->windows[0].from_ticks, control->windows[0].until_ticks);
    assert_int_equal(control->step_limits, 0);
    kineto_trace_release(finish(s));
}

static void a_child_counts_its_own_iterations(void **state)
{
    (void)state;
    kineto_step_mark();
    pid_t pid = fork();
    if (pid == 0) {
        kineto_step_mark();
        bool fine = kineto_rt_steps(NULL) == 1 && own_steps() && own_steps()->count == 1;
        _exit(fine ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void the_count_begins_before_there_is_a_pool(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0) { /* the first test: no session has been made yet */
        bool fine = kineto_rt_pool() == NULL;
        kineto_step_mark();
        kineto_step_mark();
        kineto_session *s = record();
        kineto_step_mark();
        uint64_t ticks[KF_STEP_TIMES];
        fine = fine && kf_steps_read(own_steps(), ticks) == 3 && ticks[0] && ticks[0] <= ticks[1];
        kineto_trace_release(finish(s));
        _exit(fine ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- snapshots of memory ---- */

static void a_snapshot_of_memory_is_a_file_like_the_others(void **state)
{
    (void)state;
    char path[400], text[4096];
    uint64_t bytes = 0;
    kineto_error err = {0};
    empty_folder();
    snprintf(path, sizeof path, "%s/memory.json", folder);
    assert_int_equal(ko_snapshot_start(NULL, &err), KINETO_OK);
    kineto_memory_event e = {.size = sizeof e, .address = 4096, .bytes = 123457};
    kineto_memory_report(&e);
    if (ko_snapshot_stop(KO_FROM_ARGUMENT, path, &bytes, &err))
        fail_msg("%s", err.message);
    size_t n = read_whole(path, text, sizeof text - 1);
    text[n] = '\0';
    assert_int_equal(n, bytes);
    assert_non_null(strstr(text, "123457"));
    assert_int_equal(ko_snapshot_stop(KO_FROM_ARGUMENT, path, &bytes, &err), KINETO_E_STATE);
    assert_int_equal(ko_snapshot_start(NULL, &err), KINETO_OK);
    ko_snapshot_drop();
    ko_snapshot_drop();
    assert_int_equal(ko_snapshot_start(NULL, &err), KINETO_OK);
    assert_int_equal(ko_snapshot_stop(KO_FROM_REQUEST, "/etc/memory.json", &bytes, &err),
                     KINETO_E_PERMISSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_begins_before_there_is_a_pool),
        cmocka_unit_test(the_words_of_the_setting_are_read),
        cmocka_unit_test(words_that_make_no_sense_are_named_and_change_nothing),
        cmocka_unit_test(a_step_is_slow_by_the_median_of_those_before),
        cmocka_unit_test(a_dump_holds_the_newest_and_recording_goes_on),
        cmocka_unit_test(what_had_to_make_room_is_said),
        cmocka_unit_test(what_is_older_than_the_ring_is_not_a_loss),
        cmocka_unit_test(a_slow_step_is_dumped_once),
        cmocka_unit_test(a_hang_is_dumped_once),
        cmocka_unit_test(a_hang_while_the_ring_is_written_is_dumped_afterwards),
        cmocka_unit_test(there_are_no_more_dumps_than_asked_for),
        cmocka_unit_test(a_child_gets_a_ring_of_its_own),
        cmocka_unit_test(an_iteration_becomes_a_range_when_it_is_over),
        cmocka_unit_test(a_window_by_iteration_begins_and_ends_in_the_program),
        cmocka_unit_test(iterations_that_were_missed_give_an_empty_window),
        cmocka_unit_test(a_child_counts_its_own_iterations),
        cmocka_unit_test(a_snapshot_of_memory_is_a_file_like_the_others),
    };
    unsetenv("CKINETO_RING");
    unsetenv("CKINETO_CONTROL");
    if (!make_directory(folder, sizeof folder))
        return 77;
    setenv("KINETO_ONDEMAND_TRACE_DIR", folder, 1);
    int failed = RUN_TESTS(tests);
    empty_folder();
    rmdir(folder);
    return failed;
}

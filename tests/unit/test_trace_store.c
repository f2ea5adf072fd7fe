/* Memory with a limit: what was put there stays, the limit is kept, a full file is not a failure,
 * and a trace that was opened with a limit is the same as without. */
#include "trace/model/store.h"
#include "trace/trace.h"

#include "unit.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { MIB = 1 << 20, REGIONS = 6 };

static kt_store *store_of(uint64_t limit_bytes)
{
    kt_store *s;
    kineto_error err = {.message = ""};
    if (kt_store_create(limit_bytes, &s, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return s;
}

static void fill(uint64_t *words, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        words[i] = seed + i;
}

static bool is_filled(const uint64_t *words, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        if (words[i] != seed + i)
            return false;
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_keeps_what_is_in_it(void **state)
{
    (void)state;
    enum { WORDS = 2 * MIB / 8 };
    kt_store *s = store_of(1); /* whatever is resident is too much */
    uint64_t *regions[REGIONS];
    for (size_t i = 0; i < REGIONS; i++) {
        regions[i] = kt_store_alloc(s, WORDS * sizeof(uint64_t));
        assert_non_null(regions[i]);
        fill(regions[i], WORDS, i * 1000);
        kt_store_check(s);
    }
    kt_store_free(s, regions[2]);
    regions[2] = kt_store_zeroed(s, WORDS * sizeof(uint64_t));
    for (size_t i = 0; i < WORDS; i++)
        assert_int_equal(regions[2][i], 0);
    fill(regions[2], WORDS, 2000);
    regions[4] = kt_store_resize(s, regions[4], MIB * 2, MIB * 5);
    kt_store_check(s);
    for (size_t i = 0; i < REGIONS; i++)
        assert_true(is_filled(regions[i], WORDS, i * 1000));
    for (size_t i = 0; i < REGIONS; i++)
        kt_store_free(s, regions[i]);
    kt_store_release(s);
}

static void vectors_grow_from_the_heap_into_the_file(void **state)
{
    (void)state;
    struct {
        uint64_t *data;
        size_t count, capacity;
    } v = {0};
    kt_store *s = store_of(1);
    for (uint64_t i = 0; i < MIB; i++)
        assert_true(kt_store_push(s, &v, i));
    assert_true(is_filled(v.data, MIB, 0));
    kt_store_free(s, v.data);
    kt_store_release(s);
}

static void without_a_store_it_is_the_heap(void **state)
{
    (void)state;
    char *p = kt_store_alloc(NULL, 0);
    assert_non_null(p);
    p = kt_store_resize(NULL, p, 0, MIB);
    memset(p, 1, MIB);
    kt_store_free(NULL, p);
    kt_store_free(NULL, NULL);
    kt_store_check(NULL);
    kt_store_release(NULL);
}

/* Run it in a child, which exits with 0 if all was well. */
static void in_a_child(int (*run)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("the child ended with %#x", (unsigned)status);
}

static int use_a_file_that_may_not_grow(void)
{
    struct rlimit limit = {MIB, MIB};
    kt_store *s;
    if (setrlimit(RLIMIT_FSIZE, &limit) || kt_store_create(1, &s, NULL) != KINETO_OK)
        return 1;
    uint64_t *words = kt_store_alloc(s, 4 * MIB);
    if (!words)
        return 2;
    fill(words, 4 * MIB / 8, 7);
    kt_store_check(s);
    bool good = is_filled(words, 4 * MIB / 8, 7);
    kt_store_free(s, words);
    kt_store_release(s);
    return good ? 0 : 3;
}

static void a_file_without_room_is_not_a_failure(void **state)
{
    (void)state;
    in_a_child(use_a_file_that_may_not_grow);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
    (void)state;
    const char *before = getenv("TMPDIR");
    char *copy = before ? strdup(before) : NULL;
    kt_store *s;
    kineto_error err = {.message = ""};
    setenv("TMPDIR", "/does/not/exist", 1);
    assert_int_not_equal(kt_store_create(1, &s, &err), KINETO_OK);
    assert_null(s);
    assert_non_null(strstr(err.message, "/does/not/exist"));
    if (copy)
        setenv("TMPDIR", copy, 1);
    else
        unsetenv("TMPDIR");
    free(copy);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static char directory[200], file[300];

static void write_event(FILE *f, unsigned i)
{
    fprintf(f,
            "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"operator number %u\",\"pid\":%u,\"tid\":%u,",
            i % 3 ? "cuda_runtime" : "kernel", i % 500, i % 2, i % 5);
    fprintf(f, "\"ts\":%u.%03u,\"dur\":%u,\"args\":{\"External id\":%u,\"correlation\":%u,", i ^ 5,
            i % 1000, i % 77, i, i / 3 + 1);
    fprintf(f, "\"stream\":7,\"grid\":[%u,1,1],\"what\":\"%050u\"}},\n", i % 64, i);
    if (i % 3 == 0)
        fprintf(
            f, "{\"ph\":\"%c\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":%u.%03u,\"cat\":\"ac2g\"},\n",
            i % 2 ? 's' : 'f', i / 6, i % 2, i % 5, i ^ 5, i % 1000);
}

static void write_trace(unsigned count)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    fputs("{\"traceEvents\":[\n", f);
    for (unsigned i = 0; i < count; i++)
        write_event(f, i);
    fputs("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"one\"}}]}\n", f);
    assert_int_equal(fclose(f), 0);
}

static uint64_t mixed(uint64_t sum, uint64_t value) { return (sum ^ value) * 0x9e3779b97f4a7c15u; }

/* Of everything that derives from the rows. */
static uint64_t sum_of(const kineto_trace *t)
{
    const kineto_row *order = kineto_trace_time_order(t);
    uint64_t sum = kineto_trace_flow_count(t);
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        kineto_string args = kt_args_text(t, row);
        sum = mixed(sum, (uint64_t)a.start_ns + (uint64_t)a.end_ns + a.name_id + a.correlation_id);
        sum = mixed(sum, order[row] + (uint64_t)kineto_trace_parent(t, row));
        sum = mixed(sum, (uint64_t)kineto_trace_self_ns(t, row) + kineto_trace_lane(t, row));
        sum = mixed(sum, (uint64_t)kineto_trace_launch(t, row) + kineto_trace_launched(t, row));
        sum = mixed(sum, args.size > 20 ? (uint64_t)args.data[20] + args.size : 0);
    }
    return sum;
}

static kineto_trace *open_with(uint64_t memory_bytes)
{
    kineto_open_options o = {.size = sizeof o, .threads = 2, .memory_bytes = memory_bytes};
    kineto_trace *t;
    kineto_error err = {.message = ""};
    if (kineto_trace_open_with(file, &o, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return t;
}

static void a_trace_with_a_limit_is_the_same(void **state)
{
    (void)state;
    write_trace(FEWER(70000, 25000));
    kineto_trace *t = open_with(0), *u = open_with(1), *part;
    assert_int_equal(kineto_trace_count(t), kineto_trace_count(u));
    assert_true(sum_of(t) == sum_of(u));
    kineto_selection how = {.size = sizeof how, .name = "number 1"};
    uint64_t sums[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kineto_trace_select(i ? t : u, &how, &part, NULL), KINETO_OK);
        sums[i] = sum_of(part);
        kineto_trace_release(i ? t : u); /* the selection outlives it */
        assert_true(sum_of(part) == sums[i]);
        kineto_trace_release(part);
    }
    assert_true(sums[0] == sums[1]);
}

static uint64_t peak_bytes(void)
{
    static char text[8192];
    read_whole("/proc/self/status", text, sizeof text);
    const char *line = strstr(text, "VmHWM:");
    return line ? strtoull(line + 6, NULL, 10) * 1024 : 0;
}

static kineto_trace *inherited;
static uint64_t inherited_sum;

/* It reads what its parent has, builds what is derived for itself, and lets go of it. */
static int use_an_inherited_trace(void)
{
    bool same = sum_of(inherited) == inherited_sum;
    kineto_trace_release(inherited);
    return same ? 0 : 1;
}

static void a_child_does_not_disturb_its_parent(void **state)
{
    (void)state;
    write_trace(FEWER(70000, 25000));
    kineto_trace *t = open_with(1);
    inherited_sum = sum_of(t);
    kineto_trace_release(t);
    inherited = open_with(1); /* nothing is derived yet */
    in_a_child(use_an_inherited_trace);
    assert_true(sum_of(inherited) == inherited_sum);
    in_a_child(use_an_inherited_trace);
    assert_true(sum_of(inherited) == inherited_sum);
    kineto_trace_release(inherited);
}

enum { LIMIT = 8 * MIB };

static int open_ten_times_the_limit(void)
{
    kineto_trace *t = open_with(LIMIT);
    bool is_large = kineto_trace_text_bytes(t) >= 10 * (uint64_t)LIMIT;
    sum_of(t);
    kineto_trace_release(t);
    uint64_t peak = peak_bytes();
    if (peak > LIMIT + KINETO_MEMORY_SLACK_BYTES)
        fprintf(stderr, "%llu MiB at the peak\n", (unsigned long long)peak / MIB);
    return is_large ? peak > LIMIT + KINETO_MEMORY_SLACK_BYTES : 2;
}

static void a_trace_of_ten_times_the_limit_stays_within_it(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* their own memory counts as ours */
#endif
    write_trace(380000);
    in_a_child(open_ten_times_the_limit);
}

static int set_up(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof directory))
        return -1;
    snprintf(file, sizeof file, "%s/t.json", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_keeps_what_is_in_it),
        cmocka_unit_test(vectors_grow_from_the_heap_into_the_file),
        cmocka_unit_test(without_a_store_it_is_the_heap),
        cmocka_unit_test(a_file_without_room_is_not_a_failure),
        cmocka_unit_test(a_directory_that_is_not_there_is_named),
        cmocka_unit_test(a_trace_with_a_limit_is_the_same),
        cmocka_unit_test(a_child_does_not_disturb_its_parent),
        cmocka_unit_test(a_trace_of_ten_times_the_limit_stays_within_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* Device times of operators, on a device that is a script: its clock goes by 100 ns with each
 * event, and it fails on request. */
#include "unit/unit.h"

#include "profiler/fallback.h"

#include <pthread.h>

typedef struct event {
    int64_t at_ns;
} event;

static struct {
    int64_t now_ns;
    int64_t live, made, synchronized; /* events that are not released yet, all */
    int64_t fail_record_at;           /* the event that fails; 0: none */
    bool fail_elapsed, backwards;
} device;

static kineto_status record(void *context, int32_t *number, void **out, int64_t *cpu_ns,
                            kineto_error *err)
{
    (void)cpu_ns;
    assert_ptr_equal(context, &device);
    int64_t n = __atomic_add_fetch(&device.made, 1, __ATOMIC_RELAXED);
    if (n == device.fail_record_at) {
        *out = (void *)16; /* must not be released */
        return kb_fail(err, KINETO_E_PLUGIN, "no event");
    }
    event *e = malloc(sizeof *e);
    e->at_ns = __atomic_add_fetch(&device.now_ns, 100, __ATOMIC_RELAXED);
    __atomic_add_fetch(&device.live, 1, __ATOMIC_RELAXED);
    *out = e;
    if (number)
        *number = 2;
    return KINETO_OK;
}
static kineto_status elapsed_ns(void *context, void *start, void *end, int64_t *ns,
                                kineto_error *err)
{
    (void)context;
    if (device.fail_elapsed)
        return kb_fail(err, KINETO_E_PLUGIN, "no time");
    *ns = ((event *)end)->at_ns - ((event *)start)->at_ns;
    if (device.backwards)
        *ns = -*ns;
    return KINETO_OK;
}
static void release_event(void *context, void *e)
{
    (void)context;
    assert_ptr_not_equal(e, (void *)16);
    __atomic_sub_fetch(&device.live, 1, __ATOMIC_RELAXED);
    free(e);
}
static kineto_status synchronize(void *context, kineto_error *err)
{
    (void)context, (void)err;
    device.synchronized++;
    return KINETO_OK;
}

static int set_up(void **state)
{
    (void)state;
    memset(&device, 0, sizeof device);
    kineto_stubs s;
    kineto_stubs_init(&s);
    s.context = &device;
    s.record = record;
    s.elapsed_ns = elapsed_ns;
    s.release_event = release_event;
    s.synchronize = synchronize;
    return kineto_stubs_register(KINETO_STUBS_CUDA, &s, NULL);
}
static int tear_down(void **state)
{
    (void)state;
    return device.live != 0 || kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL) != KINETO_OK;
}

static kp_fallback *opened(uint64_t max_ops)
{
    kp_fallback *f = NULL;
    assert_int_equal(kp_fallback_open(KINETO_STUBS_CUDA, max_ops, &f, NULL), KINETO_OK);
    return f;
}

/* Counts balance, and no operator is in two of them. */
static kp_fallback_counts balanced(const kp_fallback *f)
{
    kp_fallback_counts c = kp_fallback_count(f);
    assert_int_equal(c.begun,
                     c.dropped + c.failed_record + c.unfinished + c.failed_elapsed + c.timed);
    return c;
}

static void nested_operators_have_their_own_times(void **state)
{
    (void)state;
    kp_fallback *f = opened(1000);
    int64_t ns = 0;
    int32_t number = 0;
    void *outer = kp_fallback_begin(f, 20);
    void *inner = kp_fallback_begin(f, 10);
    kp_fallback_end(f, inner);
    kp_fallback_end(f, outer);
    assert_false(kp_fallback_find(f, 10, &ns, &number)); /* not yet */
    assert_int_equal(kp_fallback_finish(f, NULL), KINETO_OK);
    assert_int_equal(device.synchronized, 1);
    assert_true(kp_fallback_find(f, 10, &ns, &number));
    assert_int_equal(ns, 100);
    assert_int_equal(number, 2);
    assert_true(kp_fallback_find(f, 20, &ns, NULL));
    assert_int_equal(ns, 300);
    assert_true(kp_fallback_find(f, 20, NULL, NULL));
    assert_false(kp_fallback_find(f, 11, &ns, NULL));
    assert_int_equal(balanced(f).timed, 2);
    kp_fallback_close(f);
}

static void what_fails_is_counted_and_released(void **state)
{
    (void)state;
    for (int64_t failing = 1; failing <= 4; failing++) {
        kp_fallback *f = opened(1000);
        device.made = 0;
        device.fail_record_at = failing;
        void *a = kp_fallback_begin(f, 1), *b = kp_fallback_begin(f, 2);
        kp_fallback_end(f, b);
        kp_fallback_end(f, a);
        (void)kp_fallback_finish(f, NULL);
        assert_int_equal(balanced(f).failed_record, 1);
        assert_int_equal(balanced(f).timed, 1);
        kp_fallback_close(f);
        assert_int_equal(device.live, 0);
    }
    device.fail_record_at = 0;
    for (int way = 0; way < 2; way++) {
        kp_fallback *f = opened(1000);
        device.fail_elapsed = way == 0;
        device.backwards = way == 1;
        kp_fallback_end(f, kp_fallback_begin(f, 1));
        (void)kp_fallback_finish(f, NULL);
        assert_int_equal(balanced(f).failed_elapsed, 1);
        assert_false(kp_fallback_find(f, 1, NULL, NULL));
        kp_fallback_close(f);
    }
}

static void operators_that_do_not_end_are_unfinished(void **state)
{
    (void)state;
    kp_fallback *f = opened(1000);
    void *open = kp_fallback_begin(f, 1);
    kp_fallback_end(f, kp_fallback_begin(f, 2));
    kp_fallback_end(f, NULL);
    (void)kp_fallback_finish(f, NULL);
    int64_t made = device.made;
    kp_fallback_end(f, open); /* too late */
    assert_null(kp_fallback_begin(f, 3));
    assert_int_equal(device.made, made);
    assert_int_equal(balanced(f).unfinished, 1);
    (void)kp_fallback_finish(f, NULL);
    assert_int_equal(balanced(f).begun, 2);
    kp_fallback_close(f);
}

static void an_operator_ends_once(void **state)
{
    (void)state;
    kp_fallback *f = opened(10);
    void *a = kp_fallback_begin(f, 1);
    kp_fallback_end(f, a);
    kp_fallback_end(f, a);
    assert_int_equal(device.made, 2);
    kp_fallback_close(f); /* finishes by itself */
    kp_fallback_close(NULL);
}

static void room_is_limited(void **state)
{
    (void)state;
    const uint64_t limits[] = {0, 1, 31, 32, 33, 1000};
    for (size_t i = 0; i < KB_COUNT(limits); i++) {
        kp_fallback *f = opened(limits[i]);
        for (uint64_t id = 1; id <= 2000; id++)
            kp_fallback_end(f, kp_fallback_begin(f, id));
        (void)kp_fallback_finish(f, NULL);
        assert_int_equal(balanced(f).timed, limits[i]);
        assert_int_equal(balanced(f).dropped, 2000 - limits[i]);
        assert_int_equal(kp_fallback_find(f, limits[i] + 1, NULL, NULL), false);
        kp_fallback_close(f);
    }
}

/* Two profilers at once: a thread goes back and forth between them. */
static void stores_do_not_mix(void **state)
{
    (void)state;
    kp_fallback *a = opened(4000), *b = opened(4000);
    for (uint64_t id = 1; id <= 1000; id++) {
        void *in_a = kp_fallback_begin(a, id), *in_b = kp_fallback_begin(b, 5000 + id);
        kp_fallback_end(b, in_b);
        kp_fallback_end(a, in_a);
    }
    kp_fallback_close(b);
    kp_fallback *c = opened(10); /* perhaps where b was */
    kp_fallback_end(c, kp_fallback_begin(c, 7));
    (void)kp_fallback_finish(a, NULL);
    (void)kp_fallback_finish(c, NULL);
    assert_int_equal(balanced(a).timed, 1000);
    assert_int_equal(balanced(c).timed, 1);
    assert_false(kp_fallback_find(a, 5001, NULL, NULL));
    kp_fallback_close(a);
    kp_fallback_close(c);
}

enum { THREADS = 8, OPS = 5000 };
static kp_fallback *shared;
static void *passed[THREADS][OPS];

static void *begin_many(void *which)
{
    uint64_t t = (uint64_t)(uintptr_t)which;
    for (uint64_t i = 0; i < OPS; i++) {
        void *op = kp_fallback_begin(shared, t * OPS + i + 1);
        if (i % 3 == 0) /* ended by another thread */
            passed[t][i] = op;
        else
            kp_fallback_end(shared, op);
    }
    return NULL;
}

static void threads_lose_nothing(void **state)
{
    (void)state;
    shared = opened(THREADS * OPS + THREADS * 512);
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, begin_many, (void *)t), 0);
    for (int t = 0; t < THREADS; t++)
        (void)pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < OPS; i++)
            kp_fallback_end(shared, passed[t][i]);
    (void)kp_fallback_finish(shared, NULL);
    assert_int_equal(balanced(shared).timed, THREADS * OPS);
    for (uint64_t id = 1; id <= THREADS * OPS; id++) {
        int64_t ns = 0;
        assert_true(kp_fallback_find(shared, id, &ns, NULL));
        assert_true(ns > 0 && ns % 100 == 0);
    }
    kp_fallback_close(shared);
}

static void *one_op(void *unused)
{
    kp_fallback_end(shared, kp_fallback_begin(shared, 1));
    return unused;
}

/* Room is taken by chunks: threads that come and go take over what those before them left. */
static void many_short_threads_fit(void **state)
{
    (void)state;
    shared = opened(64 * 32);
    for (int i = 0; i < 500; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, one_op, NULL), 0);
        (void)pthread_join(thread, NULL);
    }
    (void)kp_fallback_finish(shared, NULL);
    assert_int_equal(balanced(shared).timed, 500);
    kp_fallback_close(shared);
}

KINETO_OPERATOR(outer_site, "aten::outer");
KINETO_OPERATOR(inner_site, "aten::inner");

static void *run_operators(void *times)
{
    for (int i = 0; i < 1000; i++) {
        kineto_function outer, inner;
        kineto_function_begin(&outer, &outer_site, NULL, 0);
        kineto_function_begin(&inner, &inner_site, NULL, 0);
        ((uint64_t *)times)[i] = kineto_function_id(&inner);
        kineto_function_end(&inner);
        kineto_function_end(&outer);
    }
    return NULL;
}

/* As a profiler uses it: by a callback, removed while an operator still runs. */
static void *remove_within(void *callback)
{
    kineto_function late;
    kineto_function_begin(&late, &outer_site, NULL, 0);
    kineto_status removed = kineto_function_remove(*(kineto_callback *)callback);
    kineto_function_end(&late);
    return removed == KINETO_OK ? callback : NULL;
}

static void operators_of_threads_are_timed_by_their_ids(void **state)
{
    (void)state;
    static uint64_t ids[2][1000];
    pthread_t threads[3];
    kineto_callback callback = 0;
    void *removed = NULL;
    kp_fallback *f = opened(100000);
    kineto_function_callback c = kp_fallback_callback(f, 0);
    assert_int_equal(kineto_function_add_global(&c, &callback, NULL), KINETO_OK);
    for (int t = 0; t < 2; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, run_operators, ids[t]), 0);
    (void)pthread_join(threads[0], NULL);
    assert_int_equal(pthread_create(&threads[2], NULL, remove_within, &callback), 0);
    (void)pthread_join(threads[2], &removed);
    assert_non_null(removed);
    (void)kp_fallback_finish(f, NULL);
    for (int i = 0; i < 1000; i++) {
        int64_t ns = 0;
        assert_true(kp_fallback_find(f, ids[0][i], &ns, NULL));
        assert_true(ns >= 100);
    }
    assert_true(balanced(f).unfinished >= 1);
    kp_fallback_close(f);
    (void)pthread_join(threads[1], NULL);
}

static void without_a_device_there_is_a_status(void **state)
{
    (void)state;
    kp_fallback *f = NULL;
    kineto_error err;
    assert_int_equal(kp_fallback_open(KINETO_STUBS_PRIVATEUSE1, 10, &f, &err), KINETO_E_STATE);
    assert_string_equal(err.message, "PrivateUse1 used in profiler but not enabled.");
    assert_int_equal(kp_fallback_open(99, 10, &f, &err), KINETO_E_ARGUMENT);
    assert_null(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(nested_operators_have_their_own_times),
        TEST(what_fails_is_counted_and_released),
        TEST(operators_that_do_not_end_are_unfinished),
        TEST(an_operator_ends_once),
        TEST(room_is_limited),
        TEST(stores_do_not_mix),
        TEST(threads_lose_nothing),
        TEST(many_short_threads_fit),
        TEST(operators_of_threads_are_timed_by_their_ids),
        TEST(without_a_device_there_is_a_status),
    };
    return RUN_TESTS(tests);
}

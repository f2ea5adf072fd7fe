/* The ITT source in this process: many threads at once, and what careless programs pass. */
#include "unit/unit.h"

#include "helpers/recording.h"
#include "itt.h"
#include "static_part.h"

void __itt_api_init(ci_global *global, int groups);

static ci_domain *domain;

static int begin(void **state)
{
    (void)state;
    __itt_api_init(&itt_global, -1);
    domain = itt_domain_create("library");
    return domain ? 0 : -1;
}

/* ---- many threads ------------------------------------------------------------------------------ */

#define THREADS 6
#define ROUNDS  200

static atomic_int arrived;

static void *report(void *which)
{
    static const char *const names[] = {"task", "other task"};
    ci_id mine = make_id((uintptr_t)which + 1, 1),
          next = make_id(((uintptr_t)which + 1) % THREADS + 1, 1);
    int64_t number = 1;
    char text[32];
    int event = itt_event_create("event", 5);
    void *counter = itt_counter_create("shared", "library");
    itt_task_begin_overlapped(domain, mine, no_id, itt_string_handle_create("overlapped"));
    atomic_fetch_add(&arrived, 1);
    while (atomic_load(&arrived) < THREADS)
        sched_yield();
    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(text, sizeof text, "domain %d", i % 20);
        ci_domain *own = itt_domain_create(text);
        itt_task_begin(own, mine, no_id, itt_string_handle_create(names[i % 2]));
        itt_metadata_add(own, no_id, itt_string_handle_create(text), CI_TYPE_S64, 1, &number);
        itt_counter_inc(counter);
        itt_event_start(event);
        itt_event_end(event);
        itt_task_end(own);
        itt_sync_create(text, "lock", text, 0);
        itt_sync_prepare(text);
        itt_sync_acquired(text);
        itt_sync_destroy(text);
    }
    itt_task_end_overlapped(domain, next); /* another thread's */
    return NULL;
}

static void threads_report_at_once(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    kineto_session *session = record();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, report, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "task"), THREADS * ROUNDS / 2);
    assert_int_equal(count_named(trace, "other task"), THREADS * ROUNDS / 2);
    assert_int_equal(count_named(trace, "event"), THREADS * ROUNDS);
    assert_int_equal(count_named(trace, "overlapped"), THREADS);
    assert_int_equal(count_named(trace, "library: shared"), THREADS * ROUNDS);
    kineto_trace_release(trace);
}

/* ---- careless programs ------------------------------------------------------------------------- */

static void null_is_no_crash(void **state)
{
    (void)state;
    kineto_session *session = record();
    assert_non_null(itt_domain_create(NULL));
    assert_non_null(itt_string_handle_create(NULL));
    itt_task_begin(NULL, no_id, no_id, NULL);
    itt_task_end(NULL);
    itt_task_begin(domain, no_id, no_id, NULL);
    itt_metadata_add(domain, no_id, NULL, CI_TYPE_S64, 1, &(int64_t){1});
    itt_metadata_add(domain, no_id, itt_string_handle_create("key"), CI_TYPE_S64, 1, NULL);
    itt_metadata_str_add(domain, no_id, itt_string_handle_create("key"), NULL, 5);
    itt_formatted_metadata_add(domain, NULL);
    itt_task_end(domain);
    itt_frame_begin_v3(NULL, NULL);
    itt_frame_end_v3(NULL, NULL);
    itt_frame_submit_v3(domain, NULL, 0, 0);
    itt_frame_submit_v3(domain, NULL, UINT64_MAX, UINT64_MAX);
    itt_marker(NULL, no_id, NULL, 0);
    itt_event_start(0);
    itt_event_end(-1);
    itt_event_start(1 << 30);
    itt_mark(1 << 30, NULL);
    itt_event_start(itt_event_create(NULL, 7));
    itt_counter_inc(NULL);
    itt_counter_inc(domain); /* no counter */
    itt_counter_set_value(itt_counter_create(NULL, NULL), NULL);
    itt_sync_prepare(NULL);
    itt_sync_acquired(NULL);
    itt_sync_create(NULL, NULL, NULL, 0);
    itt_histogram_submit(NULL, 1, NULL, NULL);
    itt_thread_set_name(NULL);
    itt_region_end(domain, make_id(77, 77));
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "task"), 2); /* without a name of its own */
    kineto_trace_release(trace);
}

static void a_foreign_structure_does_nothing(void **state)
{
    (void)state;
    ci_global other = itt_global;
    void *before = (void *)(uintptr_t)itt_task_begin;
    other.version_major = 4;
    itt_task_begin = NULL;
    __itt_api_init(&other, -1);
    assert_null(itt_task_begin);
    other.version_major = 3;
    other.version_build = 20101001;
    __itt_api_init(&other, -1);
    assert_null(itt_task_begin);
    other = itt_global;
    other.magic[0] = 0;
    __itt_api_init(&other, -1);
    __itt_api_init(NULL, -1);
    assert_null(itt_task_begin);
    __itt_api_init(&itt_global, 2); /* groups that none of the functions belongs to */
    assert_null(itt_task_begin);
    __itt_api_init(&itt_global, 1);
    assert_ptr_equal((void *)(uintptr_t)itt_task_begin, before);
}

static void more_strings_than_are_kept_share_one(void **state)
{
    (void)state;
    char text[32];
    const ci_string *last = NULL;
    for (unsigned i = 0; i < CN_MAX_NAMES + 10; i++) {
        (void)snprintf(text, sizeof text, "string %u", i);
        last = itt_string_handle_create(text);
        assert_non_null(last);
    }
    assert_string_equal(last->text, "(other names)");
    kineto_session *session = record();
    itt_task_begin(domain, no_id, no_id, (ci_string *)(uintptr_t)last);
    itt_task_end(domain);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "(other names)"), 1);
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_report_at_once),
        cmocka_unit_test(null_is_no_crash),
        cmocka_unit_test(a_foreign_structure_does_nothing),
        cmocka_unit_test(more_strings_than_are_kept_share_one),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}

/* What the OpenMP source records of constructs that do not come as they should: begun before a session,
 * left open, too many at once, ended late on another thread. */
#include "openmp.h"

#include "unit/unit.h"

#include "helpers/recording.h"

/* Rows of a construct: their names have the place in the program. */
static uint64_t count_constructs(const kineto_trace *t, const char *name)
{
    uint64_t n = 0;
    size_t size = strlen(name);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a = row_at(t, r);
        n += a.kind == KINETO_KIND_OPENMP && a.name.size >= size &&
             memcmp(a.name.data, name, size) == 0 && (a.name.size == size || a.name.data[size] == ' ');
    }
    return n;
}

static kineto_activity find_construct(const kineto_trace *t, const char *name)
{
    size_t size = strlen(name);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a = row_at(t, r);
        if (a.kind == KINETO_KIND_OPENMP && a.name.size >= size &&
            memcmp(a.name.data, name, size) == 0)
            return a;
    }
    fail_msg("no construct %s", name);
    return (kineto_activity){0};
}

/* An address of code in this program. */
static uintptr_t code_here(void) { return (uintptr_t)&count_constructs + 1; }

static void nothing_is_recorded_without_a_session(void **state)
{
    (void)state;
    assert_null(ct_begin_region(code_here(), 2));
    ct_begin_implicit_task(NULL, 2, 0);
    ct_open_construct(CT_BARRIER, 0, code_here());
    ct_close_construct(CT_BARRIER, 0);
    ct_end_implicit_task();
    assert_int_equal(ct_create_task(code_here()), 0);
}

static void a_region_has_its_constructs(void **state)
{
    (void)state;
    kineto_session *s = record();
    ct_region *r = ct_begin_region(code_here(), 3);
    assert_non_null(r);
    ct_begin_implicit_task(r, 1, 0);
    uint64_t task = ct_create_task(code_here());
    assert_true(task & 1);
    assert_int_equal(ct_code_of_task(task), code_here());
    ct_open_construct(CT_LOCK, 7, code_here());
    ct_open_construct(CT_LOCK, 8, code_here());
    ct_close_construct(CT_LOCK, 7); /* not the innermost one */
    ct_open_construct(CT_TASK, task, code_here());
    ct_close_construct(CT_TASK, task);
    ct_close_construct(CT_LOCK, 8);
    ct_end_implicit_task();
    ct_end_region(r);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    kineto_activity region = find_construct(t, "omp parallel");
    assert_int_equal(arg_of(t, region.row, "requested").u, 3);
    assert_int_equal(arg_of(t, region.row, "threads").u, 1);
    assert_int_equal(count_constructs(t, "omp lock"), 2);
    kineto_activity found = find_construct(t, "omp task");
    assert_int_equal(arg_of(t, found.row, "task").u, task);
    assert_int_equal(arg_of(t, found.row, "region").u, arg_of(t, region.row, "region").u);
    assert_int_equal(kineto_trace_parent(t, find_construct(t, "omp implicit task").row), region.row);
    assert_int_equal(count_named(t, "omp task created"), 1);
    kineto_trace_release(t);
}

/* A session that begins within a region has what begins and ends in it, and later regions as a whole. */
static void constructs_from_before_a_session_are_not_recorded(void **state)
{
    (void)state;
    kineto_session *first = record();
    ct_region *outer = ct_begin_region(code_here(), 1);
    ct_begin_implicit_task(outer, 1, 0);
    ct_open_construct(CT_SINGLE, 0, code_here());
    kineto_trace_release(finish(first));
    ct_open_construct(CT_SINGLE, 0, code_here()); /* while nothing records */
    kineto_session *s = record();
    ct_close_construct(CT_SINGLE, 0);
    ct_open_construct(CT_BARRIER, 0, code_here());
    ct_close_construct(CT_BARRIER, 0);
    ct_begin_implicit_task(NULL, 1, 0); /* of a region that was not recorded */
    ct_end_implicit_task();
    ct_close_construct(CT_BARRIER, 0); /* none is open */
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_constructs(t, "omp single"), 0);
    assert_int_equal(count_constructs(t, "omp implicit task"), 0);
    assert_int_equal(count_constructs(t, "omp barrier"), 1);
    kineto_trace_release(t);
    ct_close_construct(CT_SINGLE, 0);
    ct_end_implicit_task();
    ct_end_region(outer);
    assert_int_equal(ct_this_thread->count, 0);
}

static void constructs_that_are_left_end_with_their_implicit_task(void **state)
{
    (void)state;
    kineto_session *s = record();
    ct_region *r = ct_begin_region(code_here(), 1);
    ct_begin_implicit_task(r, 1, 0);
    ct_open_construct(CT_LOOP, 0, code_here()); /* cancelled: it has no end */
    ct_end_implicit_task();
    ct_end_region(r);
    kineto_trace *t = finish(s);
    assert_int_equal(ct_this_thread->count, 0);
    assert_int_equal(count_constructs(t, "omp implicit task"), 1);
    kineto_trace_release(t);
}

/* The end of a loop whose begin is not reported must not end that of an outer region. */
static void an_end_finds_the_begin_in_its_own_region(void **state)
{
    (void)state;
    kineto_session *s = record();
    ct_region *outer = ct_begin_region(code_here(), 1);
    ct_begin_implicit_task(outer, 1, 0);
    ct_open_construct(CT_LOOP, 0, code_here());
    ct_region *inner = ct_begin_region(code_here(), 1);
    ct_begin_implicit_task(inner, 1, 0);
    ct_close_construct(CT_LOOP, 0);
    assert_int_equal(ct_this_thread->count, 3);
    ct_end_implicit_task();
    ct_end_region(inner);
    ct_close_construct(CT_LOOP, 0);
    ct_end_implicit_task();
    ct_end_region(outer);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_constructs(t, "omp for"), 1);
    assert_int_equal(count_constructs(t, "omp parallel"), 2);
    kineto_trace_release(t);
}

static void what_is_too_much_is_counted(void **state)
{
    (void)state;
    kineto_session *s = record();
    ct_region *kept[CT_MAX_REGIONS];
    for (uint32_t i = 0; i < CT_MAX_REGIONS; i++) {
        kept[i] = ct_begin_region(code_here(), 1);
        assert_non_null(kept[i]);
    }
    assert_null(ct_begin_region(code_here(), 1));
    for (uint32_t i = CT_MAX_REGIONS; i > 0; i--)
        ct_end_region(kept[i - 1]);
    for (uint32_t i = 0; i < CT_MAX_OPEN + 3; i++)
        ct_open_construct(CT_LOCK, i + 1, code_here());
    for (uint32_t i = CT_MAX_OPEN + 3; i > 0; i--)
        ct_close_construct(CT_LOCK, i);
    kineto_trace *t = finish(s);
    assert_int_equal(count_constructs(t, "omp lock"), CT_MAX_OPEN);
    assert_true(ledger(t, "openmp", "constructs nested too deeply") >= 2);
    assert_int_equal(ledger(t, "openmp", "regions begun while too many are being left"), 1);
    kineto_trace_release(t);
}

/* ---- a worker -------------------------------------------------------------------------------- */

typedef struct team {
    ct_region *region;
    pthread_barrier_t began, ended;
} team;

/* A worker that leaves the region's last barrier long after the region has ended. */
static void *run_worker(void *context)
{
    team *x = context;
    ct_begin_implicit_task(x->region, 2, 1);
    ct_open_construct(CT_IMPLICIT_BARRIER, 0, 0);
    (void)pthread_barrier_wait(&x->began);
    (void)pthread_barrier_wait(&x->ended);
    ct_close_construct(CT_IMPLICIT_BARRIER, 0);
    ct_end_implicit_task();
    return NULL;
}

static void workers_end_with_their_region(void **state)
{
    (void)state;
    team x;
    pthread_t worker;
    kineto_session *s = record();
    (void)pthread_barrier_init(&x.began, NULL, 2);
    (void)pthread_barrier_init(&x.ended, NULL, 2);
    x.region = ct_begin_region(code_here(), 2);
    ct_begin_implicit_task(x.region, 2, 0);
    assert_int_equal(pthread_create(&worker, NULL, run_worker, &x), 0);
    (void)pthread_barrier_wait(&x.began);
    ct_end_implicit_task();
    ct_end_region(x.region);
    usleep(1000);
    (void)pthread_barrier_wait(&x.ended);
    (void)pthread_join(worker, NULL);
    assert_int_equal(atomic_load(&x.region->users), 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    kineto_activity region = find_construct(t, "omp parallel");
    kineto_activity wait = find_construct(t, "omp implicit barrier");
    assert_int_equal(count_constructs(t, "omp implicit task"), 2);
    assert_true(wait.start_ns >= region.start_ns && wait.end_ns <= region.end_ns);
    assert_int_not_equal(wait.track, region.track);
    kineto_trace_release(t);
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void a_child_closes_what_its_parent_opened(void **state)
{
    (void)state;
    int status = 1;
    kineto_session *s = record();
    ct_region *r = ct_begin_region(code_here(), 1);
    ct_begin_implicit_task(r, 1, 0);
    ct_open_construct(CT_CRITICAL, 0, code_here());
    pid_t child = fork();
    ct_close_construct(CT_CRITICAL, 0);
    ct_end_implicit_task();
    ct_end_region(r);
    if (child == 0)
        _exit(ct_this_thread->count != 0 || atomic_load(&r->users) != 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_constructs(t, "omp critical"), 1);
    assert_int_equal(count_constructs(t, "omp parallel"), 1);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_without_a_session),
        cmocka_unit_test(a_region_has_its_constructs),
        cmocka_unit_test(constructs_from_before_a_session_are_not_recorded),
        cmocka_unit_test(constructs_that_are_left_end_with_their_implicit_task),
        cmocka_unit_test(an_end_finds_the_begin_in_its_own_region),
        cmocka_unit_test(what_is_too_much_is_counted),
        cmocka_unit_test(workers_end_with_their_region),
        cmocka_unit_test(a_child_closes_what_its_parent_opened),
    };
    return RUN_TESTS(tests);
}

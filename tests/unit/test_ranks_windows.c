/* The comparison of ranks whose rows are read in parts finds what it finds with all rows in memory. */
#include "unit.h"

#include "../../bench/ranks/rank_rows.c"

#include "analyze/ranks/rank_windows.h"

#define SLOW 13u
#define RANKS 32u

static const rank_job slow_job = {.ranks = RANKS, .steps = 12, .rows_of_step = 40, .work_ns = 100000, .transfer_ns = 20000,
                                  .slow_rank = SLOW, .slow_share = 0.1};

/* In windows of about so many bytes; 0: all at once. */
static void compare(const rank_job *job, size_t bytes, bool in_memory, ka_rank_view *v)
{
    rank_generator of[RANKS];
    ka_rank_source sources[RANKS];
    ka_rank_facts *facts[RANKS] = {0};
    kineto_error err = {0};
    rank_generators_start(job, of, sources);
    for (uint32_t r = 0; in_memory && r < job->ranks; r++) {
        facts[r] = rank_generator_facts(&of[r]);
        assert_non_null(facts[r]);
        sources[r] = ka_rank_source_of(facts[r]);
    }
    assert_int_equal(ka_compare_ranks(sources, job->ranks, bytes, v, &err), KINETO_OK);
    for (uint32_t r = 0; in_memory && r < job->ranks; r++) {
        v->model.facts[r] = NULL; /* is gone */
        kb_vec_free(&facts[r]->rows);
        free(facts[r]);
    }
    rank_generators_free(of, job->ranks);
}

static void expect_slow_rank(const ka_rank_view *v, const rank_job *job)
{
    int64_t gain = rank_job_gain_ns(job);
    assert_string_equal(v->model.refused, "");
    assert_string_equal(v->causes.refused, "");
    assert_int_equal(v->causes.list.count, 1);
    assert_int_equal(v->causes.list.data[0].kind, KA_CAUSE_DEVICE);
    assert_int_equal(v->causes.list.data[0].rank, SLOW);
    assert_true(llabs(v->causes.list.data[0].saved_ns - gain) < gain / 20);
    assert_int_equal(v->damage.count, 0);
}

static void reading_finds_what_memory_has(void **state)
{
    (void)state;
    ka_rank_view memory, read;
    compare(&slow_job, 0, true, &memory);
    compare(&slow_job, 0, false, &read);
    expect_slow_rank(&memory, &slow_job);
    assert_int_equal(memory.window_count, 1);
    assert_int_equal(read.window_count, 1);
    assert_int_equal(memory.causes.list.data[0].saved_ns, read.causes.list.data[0].saved_ns);
    assert_int_equal(memory.causes.list.data[0].excess_ns, read.causes.list.data[0].excess_ns);
    assert_memory_equal(&memory.model.clocks.data[3].offset_ns, &read.model.clocks.data[3].offset_ns, sizeof(double));
    ka_rank_view_free(&memory);
    ka_rank_view_free(&read);
}

/* Windows of whole steps, and of parts of steps: what is saved in one shows at the end of another. */
static void windows_find_the_same(void **state)
{
    (void)state;
    rank_job long_steps = slow_job;
    long_steps.steps = 4;
    long_steps.rows_of_step = 150;
    ka_rank_view v;
    compare(&slow_job, (size_t)RANKS * 100 * 400, false, &v);
    assert_true(v.window_count > 3);
    expect_slow_rank(&v, &slow_job);
    ka_rank_view_free(&v);
    compare(&long_steps, (size_t)RANKS * 70 * 400, true, &v);
    assert_true(v.window_count > 6);
    expect_slow_rank(&v, &long_steps);
    ka_rank_view_free(&v);
}

/* Without a device, work is the host's. What is certain is found in each window, from three steps on. */
static void hosts_are_found_in_windows(void **state)
{
    (void)state;
    rank_job job = slow_job;
    job.on_host = true;
    ka_rank_view v;
    for (size_t rows = 0; rows < 300; rows += 170) {
        compare(&job, (size_t)RANKS * rows * 400, false, &v);
        assert_true(rows ? v.window_count > 2 : v.window_count == 1);
        assert_int_equal(v.causes.list.count, 1);
        assert_int_equal(v.causes.list.data[0].kind, KA_CAUSE_HOST);
        assert_int_equal(v.causes.list.data[0].rank, SLOW);
        assert_true(v.causes.list.data[0].saved_ns > rank_job_gain_ns(&job) / 2);
        ka_rank_view_free(&v);
    }
    job.slow_rank = KA_NONE;
    compare(&job, (size_t)RANKS * 170 * 400, false, &v);
    assert_int_equal(v.causes.list.count, 0);
    ka_rank_view_free(&v);
}

static void healthy_runs_have_no_cause(void **state)
{
    (void)state;
    rank_job job = slow_job;
    job.slow_rank = KA_NONE;
    for (size_t bytes = 0; bytes < 2000000; bytes += 900000) {
        ka_rank_view v;
        compare(&job, bytes, false, &v);
        assert_int_equal(v.causes.list.count, 0);
        assert_int_equal(v.damage.count, 0);
        assert_true(v.is_compared && !v.is_by_order);
        ka_rank_view_free(&v);
    }
}

static kineto_status fail_to_read(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err)
{
    (void)context, (void)lane, (void)first, (void)count, (void)out;
    return kb_fail(err, KINETO_E_IO, "rank3.facts: cannot be read");
}

static void failures_of_a_source_are_returned(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 1000000; bytes += 900000) {
        rank_generator of[RANKS];
        ka_rank_source sources[RANKS];
        ka_rank_view v;
        kineto_error err = {0};
        rank_generators_start(&slow_job, of, sources);
        sources[3].read = fail_to_read;
        assert_int_equal(ka_compare_ranks(sources, RANKS, bytes, &v, &err), KINETO_E_IO);
        assert_string_equal(err.message, "rank3.facts: cannot be read");
        ka_rank_view_free(&v);
        rank_generators_free(of, RANKS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_finds_what_memory_has),
        cmocka_unit_test(windows_find_the_same),
        cmocka_unit_test(hosts_are_found_in_windows),
        cmocka_unit_test(healthy_runs_have_no_cause),
        cmocka_unit_test(failures_of_a_source_are_returned),
    };
    return RUN_TESTS(tests);
}

/* The overview through its public functions: headline, key numbers and tables of a trace that was built for it, alone
 * and as one of two ranks. */
#include "analyzing.h"
#include "unit.h"

#include <ckineto/export.h>
#include <sys/stat.h>
#include <unistd.h>
#include <ckineto/overview.h>

enum { STEPS = 3 };

/* Steps of a millisecond, each with a kernel of 400 us. */
static kineto_trace *make_training(void)
{
    maker m = make();
    for (uint32_t i = 0; i < STEPS; i++) {
        double at = 1000.0 * i;
        char step[32];
        snprintf(step, sizeof step, "ProfilerStep#%u", i);
        put_range(&m, step, at, at + 1000);
        put_call(&m, "cudaLaunchKernel", at + 2, at + 5, i + 1);
        put_kernel(&m, m.stream, "gemm", at + 100, at + 500, i + 1);
    }
    return finish(m.b);
}

static kineto_overview *make_overview_of(kineto_trace *t, int32_t rank)
{
    kineto_overview *o;
    kineto_analysis_options options;
    kineto_error err = {0};
    kineto_analysis_options_init(&options);
    options.rank = &rank;
    assert_int_equal(kineto_overview_create(t, &options, &o, &err), KINETO_OK);
    return o;
}

/* The cell of a table's first row in this column. */
static kineto_fact first_of(kineto_overview *o, const char *table, const char *column)
{
    kineto_fact_table info;
    kineto_fact_column c;
    kineto_fact f = {.is_none = true};
    for (uint32_t i = 0; kineto_overview_table(o, i, &info); i++)
        for (uint32_t k = 0; strcmp(info.name, table) == 0 && kineto_overview_column(o, i, k, &c); k++)
            if (kb_string_equal(c.name, kb_string(column)))
                assert_true(kineto_overview_fact(o, i, 0, k, &f));
    assert_false(f.is_none);
    return f;
}

static void headline_tiles_and_tables_agree(void **state)
{
    (void)state;
    kineto_trace *t = make_training();
    kineto_overview *o = make_overview_of(t, 0);
    kineto_trace_release(t);
    assert_non_null(strstr(kineto_overview_headline(o), "3 steps of 1.000 ms."));
    kineto_overview_tile tile;
    assert_true(kineto_overview_tile_get(o, 0, &tile));
    assert_string_equal(tile.label, "Step time");
    assert_string_equal(tile.value, "1.000 ms");
    assert_false(kineto_overview_tile_get(o, 9, &tile));
    assert_int_equal(first_of(o, "kernels", "calls").i, STEPS);
    assert_int_equal(first_of(o, "kernels", "total_us").i, STEPS * 400000);
    assert_int_equal(first_of(o, "steps", "with_its_work_us").i, 1000000);
    assert_int_equal(kineto_overview_rows_left_out(o, 0), 0);
    assert_non_null(kineto_overview_findings(o));
    assert_non_null(kineto_overview_facts(o));
    char path[] = "/tmp/ckineto-overview-XXXXXX";
    int fd = mkstemp(path);
    struct stat info;
    assert_int_equal(kineto_overview_save_json(o, true, path, NULL), KINETO_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_in_range(info.st_size, 100, 4096);
    close(fd);
    unlink(path);
    kineto_overview_destroy(o);
}

static void tables_are_sums_of_ranks(void **state)
{
    (void)state;
    kineto_trace *t = make_training();
    kineto_overview *o = make_overview_of(t, 0), *second = make_overview_of(t, 1);
    kineto_trace_release(t);
    assert_int_equal(first_of(o, "kernels", "calls").i, STEPS); /* is made anew after an addition */
    assert_int_equal(kineto_overview_add(o, second, NULL), KINETO_OK);
    kineto_overview_destroy(second);
    assert_non_null(strstr(kineto_overview_headline(o), "2 ranks"));
    assert_int_equal(first_of(o, "kernels", "calls").i, 2 * STEPS);
    kineto_overview_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(headline_tiles_and_tables_agree),
                                       cmocka_unit_test(tables_are_sums_of_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

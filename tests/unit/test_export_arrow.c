/* Arrow's C stream, as a consumer that trusts nothing walks it: layout, values, and who frees what.
 */
#include "export/export.h"
#include "trace/trace.h"
#include <ckineto/arrow.h>

#include "building.h"

#define BASE INT64_C(1700000000000000000)

static kineto_row add(kt_builder *b, const char *name, int64_t start, int64_t end, uint64_t id)
{
    kt_row row = {.start_ns = start,
                  .end_ns = end,
                  .name = kt_string(b, kb_string(name)),
                  .track = kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_THREAD, 7),
                  .kind = KINETO_KIND_RUNTIME,
                  .correlation_id = id};
    return kt_append(b, &row);
}

/* Takes the trace: readers of the stream must not need it any more. */
static void open_stream(kineto_trace *t, const char *table, struct ArrowArrayStream *out)
{
    kineto_error err = {.message = ""};
    if (kineto_trace_arrow_stream(t, table, out, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kineto_trace_release(t);
}

/* ---- walking --------------------------------------------------------------------------------- */

static bool is_text(const char *format)
{
    return strcmp(format, "u") == 0 || strcmp(format, "U") == 0;
}

static int64_t offset_at(const struct ArrowSchema *s, const struct ArrowArray *a, int64_t i)
{
    return s->format[0] == 'U' ? ((const int64_t *)a->buffers[1])[i]
                               : ((const int32_t *)a->buffers[1])[i];
}

static bool is_valid(const struct ArrowArray *a, int64_t i)
{
    const uint8_t *bits = a->buffers[0];
    return !bits || bits[i / 8] >> i % 8 & 1;
}

static void check_texts(const struct ArrowSchema *s, const struct ArrowArray *a)
{
    assert_int_equal(a->n_buffers, 3);
    assert_non_null(a->buffers[1]);
    assert_non_null(a->buffers[2]);
    for (int64_t i = 0; i < a->length; i++) {
        int64_t from = offset_at(s, a, i), to = offset_at(s, a, i + 1);
        assert_true(0 <= from && from <= to);
        assert_true(kb_utf8_valid_prefix((const char *)a->buffers[2] + from, (size_t)(to - from)) ==
                    (size_t)(to - from));
    }
}

static uint64_t index_at(const struct ArrowSchema *s, const struct ArrowArray *a, int64_t i)
{
    switch (s->format[0]) {
    case 'C':
        return ((const uint8_t *)a->buffers[1])[i];
    case 'S':
        return ((const uint16_t *)a->buffers[1])[i];
    default:
        return ((const uint32_t *)a->buffers[1])[i];
    }
}

static void check_column(const struct ArrowSchema *s, const struct ArrowArray *a, int64_t rows)
{
    int64_t nulls = 0;
    assert_int_equal(a->length, rows);
    assert_int_equal(a->offset, 0);
    assert_int_equal(a->n_children, 0);
    for (int64_t i = 0; i < rows; i++)
        nulls += !is_valid(a, i);
    assert_int_equal(nulls, a->null_count);
    assert_true(nulls == 0 || (s->flags & ARROW_FLAG_NULLABLE));
    assert_true(!s->dictionary == !a->dictionary);
    if (is_text(s->format)) {
        check_texts(s, a);
        return;
    }
    assert_int_equal(a->n_buffers, 2);
    assert_non_null(a->buffers[1]);
    if (!s->dictionary)
        return;
    check_texts(s->dictionary, a->dictionary);
    for (int64_t i = 0; i < rows; i++)
        assert_true(index_at(s, a, i) < (uint64_t)a->dictionary->length);
}

static void check_batch(const struct ArrowSchema *s, const struct ArrowArray *a)
{
    assert_string_equal(s->format, "+s");
    assert_int_equal(s->n_children, a->n_children);
    assert_int_equal(a->n_buffers, 1);
    assert_null(a->buffers[0]);
    for (int64_t i = 0; i < a->n_children; i++)
        check_column(s->children[i], a->children[i], a->length);
}

static int64_t column(const struct ArrowSchema *s, const char *name)
{
    for (int64_t i = 0; i < s->n_children; i++)
        if (strcmp(s->children[i]->name, name) == 0)
            return i;
    fail_msg("no column %s", name);
    return -1;
}

/* A table read whole: one batch, or none. */
typedef struct table {
    struct ArrowSchema schema;
    struct ArrowArray batch;
} table;

static table read_table(kineto_trace *t, const char *name)
{
    struct ArrowArrayStream stream;
    struct ArrowArray end;
    table all;
    open_stream(t, name, &stream);
    assert_int_equal(stream.get_schema(&stream, &all.schema), 0);
    assert_int_equal(stream.get_next(&stream, &all.batch), 0);
    if (all.batch.release) {
        assert_int_equal(stream.get_next(&stream, &end), 0);
        assert_null(end.release);
        check_batch(&all.schema, &all.batch);
    }
    assert_null(stream.get_last_error(&stream));
    stream.release(&stream);
    assert_null(stream.release);
    return all;
}

static void release_table(table *all)
{
    if (all->batch.release)
        all->batch.release(&all->batch);
    all->schema.release(&all->schema);
    assert_null(all->schema.release);
}

static int64_t number(const table *all, const char *name, int64_t i)
{
    return ((const int64_t *)all->batch.children[column(&all->schema, name)]->buffers[1])[i];
}

static uint32_t small(const table *all, const char *name, int64_t i)
{
    return ((const uint32_t *)all->batch.children[column(&all->schema, name)]->buffers[1])[i];
}

static void assert_value(const table *all, const char *name, int64_t i, const char *wanted)
{
    const struct ArrowSchema *s = all->schema.children[column(&all->schema, name)];
    const struct ArrowArray *a = all->batch.children[column(&all->schema, name)];
    if (s->dictionary) {
        i = (int64_t)index_at(s, a, i);
        s = s->dictionary;
        a = a->dictionary;
    }
    if (!wanted) {
        assert_false(is_valid(a, i));
        return;
    }
    assert_true(is_valid(a, i));
    int64_t from = offset_at(s, a, i), to = offset_at(s, a, i + 1);
    assert_int_equal(to - from, strlen(wanted));
    assert_memory_equal((const char *)a->buffers[2] + from, wanted, strlen(wanted));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void activities_have_their_columns(void **state)
{
    (void)state;
    kt_builder *b = builder();
    for (int i = 0; i < 20; i++) {
        if (i % 3 == 0)
            kt_args_put_int(b, kt_string(b, kb_string("n")), i);
        add(b, i % 2 ? "odd" : "even", BASE + i, BASE + 3 * i, (uint64_t)i);
    }
    table t = read_table(finish(b), "activities");
    assert_int_equal(t.batch.length, 20);
    for (int64_t i = 0; i < 20; i++) {
        char args[32];
        snprintf(args, sizeof args, "{\"n\":%d}", (int)i);
        assert_int_equal(small(&t, "row", i), i);
        assert_int_equal(number(&t, "start_ns", i), BASE + i);
        assert_int_equal(number(&t, "dur_ns", i), 2 * i);
        assert_int_equal(number(&t, "correlation", i), i);
        assert_value(&t, "name", i, i % 2 ? "odd" : "even");
        assert_value(&t, "kind", i, "runtime");
        assert_value(&t, "form", i, "slice");
        assert_value(&t, "args", i, i % 3 ? NULL : args);
    }
    release_table(&t);
}

static void events_are_activities_without_arguments(void **state)
{
    (void)state;
    kt_builder *b = builder();
    add(b, "one", BASE, BASE + 1, 0);
    table t = read_table(finish(b), "events");
    assert_int_equal(t.schema.n_children, 13);
    assert_int_equal(t.batch.n_children, 13);
    release_table(&t);
}

static void columns_of_the_trace_are_not_copied(void **state)
{
    (void)state;
    kt_builder *b = builder();
    add(b, "one", BASE, BASE + 1, 0);
    kineto_trace *trace = kineto_trace_retain(finish(b));
    table t = read_table(trace, "events");
    const struct ArrowArray *start = t.batch.children[column(&t.schema, "start_ns")];
    assert_ptr_equal(start->buffers[1], kt_block_at(trace, 0)->start_ns);
    kineto_trace_release(trace);
    assert_int_equal(number(&t, "start_ns", 0), BASE); /* the batch keeps it alive */
    release_table(&t);
}

static void counters_are_one_row_for_each_number(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kt_args_put_double(b, kt_string(b, kb_string("power [W]")), 1.5);
    kt_args_put_int(b, kt_string(b, kb_string("hot")), -4);
    kt_args_put_string(b, kt_string(b, kb_string("no")), kb_string("x"));
    kt_row row = {.start_ns = BASE,
                  .end_ns = BASE,
                  .name = kt_string(b, kb_string("board")),
                  .track = kt_track(b, kt_process(b, true, 0, 0), KINETO_TRACK_COUNTER, 0),
                  .kind = KINETO_KIND_COUNTER,
                  .form = KINETO_FORM_COUNTER};
    kt_append(b, &row);
    table t = read_table(finish(b), "counters");
    const double *values = t.batch.children[column(&t.schema, "value")]->buffers[1];
    assert_int_equal(t.batch.length, 2);
    assert_value(&t, "name", 0, "board");
    assert_value(&t, "series", 0, "power");
    assert_value(&t, "unit", 0, "W");
    assert_value(&t, "unit", 1, NULL);
    assert_true(values[0] == 1.5 && values[1] == -4);
    release_table(&t);
}

static void the_small_tables_say_what_the_trace_says(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_row from = add(b, "a\xff", BASE, BASE + 1, 0);
    kineto_process set = {.name = kb_string("train"), .rank = 3};
    kt_process_set(b, kt_process(b, false, 100, 0), &set);
    kt_process(b, true, 1, 0);
    kt_flow(b, KINETO_FLOW_USER, 4, from, true);
    kt_ledger_add(b, kb_string("program"), kb_string("full"), 7, true, kb_string(""));
    kt_metadata(b, kb_string("k"), kb_string("[1]"));
    kineto_trace *trace = finish(b);
    table t = read_table(kineto_trace_retain(trace), "processes");
    assert_int_equal(t.batch.length, 2);
    assert_value(&t, "name", 0, "train");
    assert_int_equal(small(&t, "rank", 0), 3);
    assert_false(is_valid(t.batch.children[column(&t.schema, "rank")], 1));
    assert_int_equal(*(const uint8_t *)t.batch.children[1]->buffers[1] & 3, 2);
    release_table(&t);
    t = read_table(kineto_trace_retain(trace), "tracks");
    assert_value(&t, "type", 0, "thread");
    assert_int_equal(number(&t, "id", 0), 7);
    release_table(&t);
    t = read_table(kineto_trace_retain(trace), "flows");
    assert_value(&t, "type", 0, "user");
    assert_int_equal(small(&t, "from_row", 0), from);
    assert_false(is_valid(t.batch.children[column(&t.schema, "to_row")], 0));
    release_table(&t);
    t = read_table(kineto_trace_retain(trace), "ledger");
    assert_value(&t, "source", 0, "program");
    assert_int_equal(number(&t, "count", 0), 7);
    release_table(&t);
    t = read_table(kineto_trace_retain(trace), "activities");
    assert_value(&t, "name", 0, "a\xef\xbf\xbd");
    release_table(&t);
    t = read_table(trace, "metadata");
    assert_value(&t, "value", 0, "[1]");
    release_table(&t);
}

static void an_empty_trace_has_schemas_and_no_batches(void **state)
{
    (void)state;
    static const char *const names[] = {"activities", "events", "counters", "tracks",
                                        "processes",  "flows",  "ledger",   "metadata"};
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        table t = read_table(finish(builder()), names[i]);
        assert_true(t.schema.n_children > 0);
        assert_null(t.batch.release);
        release_table(&t);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void batches_are_blocks_and_outlive_the_stream(void **state)
{
    (void)state;
    enum { ROWS = KT_BLOCK_ROWS + 10 };
    kt_builder *b = builder();
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray batches[3];
    for (int64_t i = 0; i < ROWS; i++)
        add(b, "x", BASE + i, BASE + i, 0);
    open_stream(finish(b), "events", &stream);
    assert_int_equal(stream.get_schema(&stream, &schema), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stream.get_next(&stream, &batches[i]), 0);
    stream.release(&stream);
    assert_int_equal(batches[0].length, KT_BLOCK_ROWS);
    assert_int_equal(batches[1].length, 10);
    assert_null(batches[2].release);
    batches[0].release(&batches[0]);
    check_batch(&schema, &batches[1]);
    const uint32_t *rows = batches[1].children[0]->buffers[1];
    assert_int_equal(rows[9], ROWS - 1);
    batches[1].release(&batches[1]);
    schema.release(&schema);
}

static void moved_columns_live_on_their_own(void **state)
{
    (void)state;
    kt_builder *b = builder();
    add(b, "moved", BASE, BASE + 1, 0);
    table t = read_table(finish(b), "events");
    int64_t name = column(&t.schema, "name"), start = column(&t.schema, "start_ns");
    struct ArrowArray array = *t.batch.children[name], times = *t.batch.children[start];
    struct ArrowSchema schema = *t.schema.children[name];
    t.batch.children[name]->release = NULL;
    t.batch.children[start]->release = NULL;
    t.schema.children[name]->release = NULL;
    t.batch.release(&t.batch);
    t.schema.release(&t.schema);
    assert_null(t.batch.release);
    check_column(&schema, &array, 1);
    assert_int_equal(*(const int64_t *)times.buffers[1], BASE);
    struct ArrowArray texts = *array.dictionary;
    array.dictionary->release = NULL;
    array.release(&array);
    check_texts(schema.dictionary, &texts);
    texts.release(&texts);
    times.release(&times);
    schema.release(&schema);
}

static void a_stream_may_be_dropped_before_its_end(void **state)
{
    (void)state;
    kt_builder *b = builder();
    struct ArrowArrayStream stream, moved;
    struct ArrowSchema one, two;
    add(b, "x", BASE, BASE, 0);
    open_stream(finish(b), "activities", &stream);
    moved = stream;
    stream.release = NULL;
    assert_int_equal(moved.get_schema(&moved, &one), 0);
    assert_int_equal(moved.get_schema(&moved, &two), 0);
    moved.release(&moved);
    one.release(&one);
    two.release(&two);
}

static void an_unknown_table_is_refused_with_the_names_of_the_known_ones(void **state)
{
    (void)state;
    kineto_trace *t = finish(builder());
    struct ArrowArrayStream stream;
    kineto_error err;
    assert_int_equal(kineto_trace_arrow_stream(t, "rows", &stream, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "\"rows\""));
    assert_non_null(strstr(err.message, "activities, events, counters"));
    assert_null(stream.release);
    assert_int_equal(kineto_trace_arrow_stream(NULL, "flows", &stream, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_trace_arrow_stream(t, "flows", NULL, &err), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activities_have_their_columns),
        cmocka_unit_test(events_are_activities_without_arguments),
        cmocka_unit_test(columns_of_the_trace_are_not_copied),
        cmocka_unit_test(counters_are_one_row_for_each_number),
        cmocka_unit_test(the_small_tables_say_what_the_trace_says),
        cmocka_unit_test(an_empty_trace_has_schemas_and_no_batches),
        cmocka_unit_test(batches_are_blocks_and_outlive_the_stream),
        cmocka_unit_test(moved_columns_live_on_their_own),
        cmocka_unit_test(a_stream_may_be_dropped_before_its_end),
        cmocka_unit_test(an_unknown_table_is_refused_with_the_names_of_the_known_ones),
    };
    return RUN_TESTS(tests);
}

/* Function events: which activities they are, who called whom, whose device work and memory is. */
#include "building.h"

#include <ckineto/summary.h>

typedef struct scene {
    kt_builder *b;
    uint32_t process, thread, other, stream;
} scene;

static scene make_scene(void)
{
    scene s = {.b = builder()};
    s.process = kt_process(s.b, false, 100, 0);
    s.thread = kt_track(s.b, s.process, KINETO_TRACK_THREAD, 1);
    s.other = kt_track(s.b, s.process, KINETO_TRACK_THREAD, 2);
    s.stream = kt_track(s.b, kt_process(s.b, true, 3, 0), KINETO_TRACK_STREAM, 7);
    return s;
}

static kt_row row_of(scene *s, const char *name, uint32_t track, int64_t start, int64_t end)
{
    return (kt_row){.start_ns = start,
                    .end_ns = end,
                    .name = kt_string(s->b, kb_string(name)),
                    .track = track,
                    .kind = KINETO_KIND_CPU_OP,
                    .form = KINETO_FORM_SLICE};
}

static kineto_row add(scene *s, const char *name, int64_t start, int64_t end)
{
    kt_row row = row_of(s, name, s->thread, start, end);
    return kt_append(s->b, &row);
}

static void add_kind(scene *s, const char *name, uint32_t track, int64_t start, int64_t end,
                     uint32_t kind, uint64_t external, uint64_t correlation)
{
    kt_row row = row_of(s, name, track, start, end);
    row.kind = kind;
    row.external_id = external;
    row.correlation_id = correlation;
    kt_append(s->b, &row);
}

static void add_memory(scene *s, uint32_t track, int64_t at, int64_t bytes, int64_t device)
{
    kt_row row = row_of(s, "[memory]", track, at, at);
    row.kind = KINETO_KIND_MEMORY;
    row.form = KINETO_FORM_INSTANT;
    kt_args_put_int(s->b, kt_string(s->b, kb_string("Bytes")), bytes);
    kt_args_put_int(s->b, kt_string(s->b, kb_string("Device Type")), device);
    kt_append(s->b, &row);
}

static kineto_function_events *events_of(scene *s, bool as_torch)
{
    kineto_trace *t = finish(s->b);
    kineto_function_events *e;
    kineto_function_events_options o = {.size = sizeof o, .as_torch = as_torch};
    assert_int_equal(kineto_function_events_create(t, &o, &e, NULL), KINETO_OK);
    kineto_trace_release(t); /* the events keep it */
    return e;
}

/* The event of this name, the n-th of them. */
static kineto_function_event find(const kineto_function_events *e, const char *name, unsigned n)
{
    kineto_function_event v;
    for (uint32_t i = 0; i < kineto_function_events_count(e); i++) {
        kineto_function_events_get(e, i, &v);
        if (kb_string_equal(v.name, kb_string(name)) && n-- == 0)
            return v;
    }
    fail_msg("no event '%s'", name);
    return v;
}

static void name_is(const kineto_function_events *e, uint32_t index, const char *name)
{
    kineto_function_event v;
    kineto_function_events_get(e, index, &v);
    assert_int_equal(v.name.size, strlen(name));
    assert_memory_equal(v.name.data, name, v.name.size);
}

/* ---- the tree -------------------------------------------------------------------------------- */

static void own_time_is_what_callees_leave(void **state)
{
    (void)state;
    scene s = make_scene();
    add(&s, "a", 0, 100);
    add(&s, "b", 10, 40);
    add(&s, "c", 20, 30);
    add(&s, "d", 40, 90);
    kineto_function_events *e = events_of(&s, false);
    assert_int_equal(kineto_function_events_count(e), 4);
    kineto_function_event a = find(e, "a", 0), b = find(e, "b", 0);
    assert_int_equal(a.cpu_time_total_ns, 100);
    assert_int_equal(a.self_cpu_time_total_ns, 20);
    assert_int_equal(b.self_cpu_time_total_ns, 20);
    assert_int_equal(a.parent, KINETO_NO_EVENT);
    name_is(e, a.first_child, "b");
    name_is(e, b.next_sibling, "d");
    name_is(e, b.first_child, "c");
    name_is(e, b.parent, "a");
    kineto_function_events_destroy(e);
}

static void what_overlaps_in_part_is_not_a_callee(void **state)
{
    (void)state;
    scene s = make_scene();
    add(&s, "outer", 0, 100);
    add(&s, "first", 10, 50);
    add(&s, "late", 40, 60);    /* ends after first: its caller is outer */
    add(&s, "beyond", 90, 120); /* ends after outer: without parent */
    add(&s, "touches", 120, 120);
    kineto_function_events *e = events_of(&s, false);
    kineto_function_event late = find(e, "late", 0);
    name_is(e, late.parent, "outer");
    assert_int_equal(find(e, "beyond", 0).parent, KINETO_NO_EVENT);
    assert_int_equal(find(e, "touches", 0).parent, KINETO_NO_EVENT);
    assert_int_equal(find(e, "outer", 0).self_cpu_time_total_ns, 100 - 40 - 20);
    kineto_function_events_destroy(e);
}

static void other_threads_do_not_nest(void **state)
{
    (void)state;
    scene s = make_scene();
    add(&s, "here", 0, 100);
    kt_row there = row_of(&s, "there", s.other, 10, 20);
    kt_append(s.b, &there);
    kineto_function_events *e = events_of(&s, false);
    assert_int_equal(find(e, "there", 0).parent, KINETO_NO_EVENT);
    assert_int_equal(find(e, "here", 0).self_cpu_time_total_ns, 100);
    kineto_function_events_destroy(e);
}

static void double_names_are_one_function(void **state)
{
    (void)state;
    scene s = make_scene();
    add(&s, "same", 0, 100);
    add(&s, "same", 10, 90);
    add(&s, "same", 20, 80);
    add(&s, "inner", 30, 40);
    add(&s, "inner", 50, 60);
    add(&s, "two", 200, 300); /* called itself twice: both stay */
    add(&s, "two", 210, 220);
    add(&s, "two", 230, 240);
    kineto_function_events *e = events_of(&s, false);
    assert_int_equal(kineto_function_events_count(e), 6);
    kineto_function_event same = find(e, "same", 0), inner = find(e, "inner", 1);
    assert_int_equal(same.cpu_time_total_ns, 100);
    assert_int_equal(same.self_cpu_time_total_ns, 80);
    name_is(e, inner.parent, "same");
    assert_int_equal(find(e, "two", 0).self_cpu_time_total_ns, 80);
    kineto_function_events_destroy(e);
}

static void steps_have_one_name_and_overloads_are_apart(void **state)
{
    (void)state;
    scene s = make_scene();
    add_kind(&s, "ProfilerStep#12", s.thread, 0, 10, KINETO_KIND_USER_ANNOTATION, 0, 0);
    add(&s, "aten::add.Tensor", 20, 30);
    add(&s, "aten::add", 40, 50);
    add(&s, "not.an overload", 60, 70);
    kineto_function_events *e = events_of(&s, false);
    kineto_function_event step = find(e, "ProfilerStep*", 0), op = find(e, "aten::add", 0);
    assert_int_equal(step.trace_name.size, strlen("ProfilerStep#12"));
    assert_true(step.flags & KINETO_FUNCTION_ANNOTATION);
    assert_true(kb_string_equal(op.overload, kb_string("Tensor")));
    assert_int_equal(find(e, "aten::add", 1).overload.size, 0);
    find(e, "not.an overload", 0);
    kineto_function_events_destroy(e);
}

static void what_pytorch_never_shows_is_left_out(void **state)
{
    (void)state;
    scene s = make_scene();
    add(&s, "aten::is_leaf", 0, 10);
    add(&s, "profiler::_record_function_enter_new", 20, 30);
    kt_row instant = row_of(&s, "a mark", s.thread, 40, 40);
    instant.form = KINETO_FORM_INSTANT;
    instant.kind = KINETO_KIND_CPU_INSTANT_EVENT;
    kt_append(s.b, &instant);
    kt_row counter = row_of(&s, "power", s.thread, 50, 50);
    counter.form = KINETO_FORM_COUNTER;
    counter.kind = KINETO_KIND_COUNTER;
    kt_append(s.b, &counter);
    instant.name = kt_string(s.b, kb_string("[OutOfMemory]"));
    kt_append(s.b, &instant);
    kineto_function_events *e = events_of(&s, false);
    assert_int_equal(kineto_function_events_count(e), 1);
    name_is(e, 0, "[OutOfMemory]");
    kineto_function_events_destroy(e);
}

static void asynchronous_ones_have_no_own_time(void **state)
{
    (void)state;
    scene s = make_scene();
    kt_row row = row_of(&s, "async", s.thread, 0, 100);
    row.form = KINETO_FORM_ASYNC;
    row.async_id = 5;
    kt_append(s.b, &row);
    add(&s, "inside", 10, 20);
    kineto_function_events *e = events_of(&s, false);
    kineto_function_event async = find(e, "async", 0);
    assert_true(async.flags & KINETO_FUNCTION_ASYNC);
    assert_int_equal(async.cpu_time_total_ns, 100);
    assert_int_equal(async.self_cpu_time_total_ns, 0);
    assert_int_equal(find(e, "inside", 0).parent, KINETO_NO_EVENT);
    kineto_function_events_destroy(e);
}

/* ---- device work ----------------------------------------------------------------------------- */

static void device_scene(scene *s)
{
    add_kind(s, "step", s->thread, 0, 1000, KINETO_KIND_USER_ANNOTATION, 1, 0);
    add_kind(s, "outer", s->thread, 10, 500, KINETO_KIND_CPU_OP, 2, 0);
    add_kind(s, "inner", s->thread, 20, 400, KINETO_KIND_CPU_OP, 3, 0);
    add_kind(s, "launch", s->thread, 30, 40, KINETO_KIND_RUNTIME, 3, 77);
    add_kind(s, "launch", s->thread, 410, 420, KINETO_KIND_RUNTIME, 0, 78);
    add_kind(s, "launch", s->thread, 2000, 2010, KINETO_KIND_RUNTIME, 0, 79);
    add_kind(s, "k1", s->stream, 50, 150, KINETO_KIND_CONCURRENT_KERNEL, 3, 77);
    add_kind(s, "k2", s->stream, 430, 480, KINETO_KIND_CONCURRENT_KERNEL, 0, 78);
    add_kind(s, "k3", s->stream, 2020, 2030, KINETO_KIND_GPU_MEMCPY, 0, 79);
    add_kind(s, "step", s->stream, 50, 480, KINETO_KIND_GPU_USER_ANNOTATION, 1, 0);
}

static void device_work_belongs_to_who_caused_it(void **state)
{
    (void)state;
    scene s = make_scene();
    device_scene(&s);
    kineto_function_events *e = events_of(&s, false);
    kineto_function_event inner = find(e, "inner", 0), outer = find(e, "outer", 0);
    assert_int_equal(inner.device_time_total_ns, 100); /* by external id */
    assert_int_equal(outer.device_time_total_ns, 150); /* and by its launch */
    assert_int_equal(outer.self_device_time_total_ns, 50);
    assert_int_equal(find(e, "step", 0).device_time_total_ns, 150);
    assert_int_equal(find(e, "step", 0).self_device_time_total_ns, 0);
    assert_int_equal(find(e, "launch", 2).self_device_time_total_ns, 10); /* nothing is around it */
    kineto_function_event k1 = find(e, "k1", 0);
    name_is(e, inner.kernel, "k1");
    name_is(e, k1.parent, "inner");
    assert_int_equal(k1.kernel, KINETO_NO_EVENT);
    assert_int_equal(k1.device_index, 3);
    assert_int_equal(k1.cpu_time_total_ns, 0);
    assert_int_equal(k1.self_device_time_total_ns, 100);
    assert_true(find(e, "step", 1).flags & KINETO_FUNCTION_DEVICE);
    kineto_function_events_destroy(e);
}

static void as_torch_counts_what_it_receives(void **state)
{
    (void)state;
    scene s = make_scene();
    device_scene(&s);
    kineto_function_events *e = events_of(&s, true);
    assert_int_equal(find(e, "outer", 0).device_time_total_ns, 100); /* k2 names no operator */
    /* what the device did for the annotation, and the kernel in it once more */
    assert_int_equal(find(e, "step", 0).device_time_total_ns, 430 + 100);
    assert_int_equal(find(e, "step", 0).self_device_time_total_ns, 430);
    kineto_function_events_destroy(e);
}

static void device_work_of_a_folded_function_moves_to_its_caller(void **state)
{
    (void)state;
    scene s = make_scene();
    add_kind(&s, "same", s.thread, 0, 100, KINETO_KIND_CPU_OP, 1, 0);
    add_kind(&s, "same", s.thread, 10, 90, KINETO_KIND_CPU_OP, 2, 0);
    add_kind(&s, "k", s.stream, 20, 30, KINETO_KIND_CONCURRENT_KERNEL, 2, 0);
    kineto_function_events *e = events_of(&s, false);
    assert_int_equal(kineto_function_events_count(e), 2);
    kineto_function_event same = find(e, "same", 0);
    assert_int_equal(same.self_device_time_total_ns, 10);
    name_is(e, same.kernel, "k");
    kineto_function_events_destroy(e);
}

static bool elapsed(uint64_t id, int64_t *ns, void *user)
{
    ++*(int *)user;
    *ns = (int64_t)id * 100;
    return id != 3;
}

static void device_times_measured_from_the_host_are_legacy(void **state)
{
    (void)state;
    int calls = 0;
    scene s = make_scene();
    add_kind(&s, "outer", s.thread, 0, 100, KINETO_KIND_CPU_OP, 5, 0);
    add_kind(&s, "inner", s.thread, 10, 90, KINETO_KIND_CPU_OP, 2, 0);
    add_kind(&s, "failed", s.thread, 20, 30, KINETO_KIND_CPU_OP, 3, 0);
    kineto_trace *t = finish(s.b);
    kineto_function_events *e;
    kineto_function_events_options o = {
        .size = sizeof o, .device_type = 20, .device_elapsed = elapsed, .user = &calls};
    assert_int_equal(kineto_function_events_create(t, &o, &e, NULL), KINETO_OK);
    assert_int_equal(calls, 3);
    assert_string_equal(kineto_function_events_device(e), "privateuse1");
    kineto_function_event outer = find(e, "outer", 0);
    assert_true(outer.flags & KINETO_FUNCTION_LEGACY);
    assert_int_equal(outer.device_time_total_ns, 500);
    assert_int_equal(outer.self_device_time_total_ns, 300);
    assert_false(find(e, "failed", 0).flags & KINETO_FUNCTION_LEGACY);
    kineto_averages *a;
    char *text;
    assert_int_equal(kineto_averages_create(e, NULL, &a, NULL), KINETO_OK);
    assert_int_equal(kineto_averages_text(a, NULL, &text, NULL, NULL), KINETO_OK);
    assert_non_null(strstr(text, "Self PRIVATEUSE1 time total: 0.500us"));
    free(text);
    kineto_averages_destroy(a);
    kineto_function_events_destroy(e);
    kineto_trace_release(t);
}

static void ids_may_be_far_apart(void **state)
{
    (void)state;
    scene s = make_scene();
    add_kind(&s, "a", s.thread, 0, 100, KINETO_KIND_CPU_OP, 1, 0);
    add_kind(&s, "b", s.thread, 200, 300, KINETO_KIND_CPU_OP, UINT64_MAX, 0);
    add_kind(&s, "k", s.stream, 0, 10, KINETO_KIND_CONCURRENT_KERNEL, UINT64_MAX, 0);
    add_kind(&s, "l", s.stream, 20, 30, KINETO_KIND_CONCURRENT_KERNEL, 1, 0);
    add_kind(&s, "m", s.stream, 40, 50, KINETO_KIND_CONCURRENT_KERNEL, 77, 0); /* without owner */
    kineto_function_events *e = events_of(&s, false);
    name_is(e, find(e, "k", 0).parent, "b");
    name_is(e, find(e, "l", 0).parent, "a");
    assert_int_equal(find(e, "m", 0).parent, KINETO_NO_EVENT);
    kineto_function_events_destroy(e);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_scene(scene *s)
{
    add(s, "outer", 0, 100);
    add(s, "inner", 10, 50);
    kt_row beside = row_of(s, "beside", s->other, 5, 60);
    kt_append(s->b, &beside);
    add_memory(s, s->thread, 20, 1000, 0);
    add_memory(s, s->other, 30, 64, 0);
    add_memory(s, s->thread, 70, -200, 0);
    add_memory(s, s->thread, 80, 4096, 1);
    add_memory(s, s->thread, 500, 7, 0); /* outside of all */
    add_memory(s, s->other, 90, 11, 0);  /* outer runs, on another thread */
    add_memory(s, s->thread, 100, 5, 2); /* at the very end; MKLDNN is the host's */
}

static void memory_belongs_to_thread_and_time(void **state)
{
    (void)state;
    scene s = make_scene();
    memory_scene(&s);
    kineto_function_events *e = events_of(&s, false);
    kineto_function_event outer = find(e, "outer", 0), inner = find(e, "inner", 0);
    assert_int_equal(outer.cpu_memory_usage, 805);
    assert_int_equal(outer.self_cpu_memory_usage, -195);
    assert_int_equal(outer.device_memory_usage, 4096);
    assert_int_equal(outer.self_device_memory_usage, 4096);
    assert_int_equal(inner.cpu_memory_usage, 1000);
    assert_int_equal(find(e, "beside", 0).cpu_memory_usage, 64);
    assert_int_equal(kineto_function_events_count(e), 5);
    assert_int_equal(find(e, "[memory]", 0).cpu_memory_usage, 11);
    assert_int_equal(find(e, "[memory]", 1).cpu_memory_usage, 7);
    assert_true(find(e, "[memory]", 1).flags & KINETO_FUNCTION_MEMORY);
    kineto_function_events_destroy(e);
}

static void memory_as_torch_belongs_to_time_only(void **state)
{
    (void)state;
    scene s = make_scene();
    memory_scene(&s);
    kineto_function_events *e = events_of(&s, true);
    assert_int_equal(find(e, "outer", 0).cpu_memory_usage, 1000 + 64 - 200 + 11 + 5);
    assert_int_equal(find(e, "inner", 0).cpu_memory_usage, 1064);
    assert_int_equal(find(e, "beside", 0).cpu_memory_usage, 1064);
    assert_int_equal(kineto_function_events_count(e), 4);
    kineto_function_events_destroy(e);
}

/* Against the slow way: every function looks at every record. */
static void memory_equals_the_slow_way(void **state)
{
    (void)state;
    enum { FUNCTIONS = 300, RECORDS = 500 };
    struct {
        int64_t start, end;
        uint32_t thread;
    } f[FUNCTIONS];
    uint64_t seed = 7;
    int64_t at[RECORDS], bytes[RECORDS];
    uint32_t thread[RECORDS];
    scene s = make_scene();
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[16];
        f[i].start = (int64_t)(next_random(&seed) % 1000);
        f[i].end = f[i].start + (int64_t)(next_random(&seed) % 300);
        f[i].thread = next_random(&seed) & 1 ? s.thread : s.other;
        snprintf(name, sizeof name, "f%d", i);
        kt_row row = row_of(&s, name, f[i].thread, f[i].start, f[i].end);
        kt_append(s.b, &row);
    }
    for (int i = 0; i < RECORDS; i++) {
        at[i] = (int64_t)(next_random(&seed) % 1400);
        bytes[i] = (int64_t)(next_random(&seed) % 1000) - 500;
        thread[i] = next_random(&seed) & 1 ? s.thread : s.other;
        add_memory(&s, thread[i], at[i], bytes[i], 0);
    }
    kineto_function_events *e = events_of(&s, false);
    for (int i = 0; i < FUNCTIONS; i++) {
        char name[16];
        int64_t sum = 0;
        snprintf(name, sizeof name, "f%d", i);
        for (int m = 0; m < RECORDS; m++)
            if (thread[m] == f[i].thread && at[m] >= f[i].start && at[m] <= f[i].end)
                sum += bytes[m];
        assert_int_equal(find(e, name, 0).cpu_memory_usage, sum);
    }
    kineto_function_events_destroy(e);
}

/* ---- what must not break it ------------------------------------------------------------------- */

static void times_at_the_ends_of_what_a_number_holds(void **state)
{
    (void)state;
    scene s = make_scene();
    add(&s, "all", INT64_MIN, INT64_MAX);
    add(&s, "half", INT64_MIN, 0);
    add(&s, "half", 0, INT64_MAX);
    add_memory(&s, s.thread, INT64_MAX, INT64_MAX, 0);
    add_memory(&s, s.thread, INT64_MIN, INT64_MAX, 0);
    kineto_function_events *e = events_of(&s, false);
    kineto_averages *a;
    assert_int_equal(kineto_averages_create(e, NULL, &a, NULL), KINETO_OK);
    assert_int_equal(find(e, "all", 0).cpu_time_total_ns, INT64_MAX);
    char *text;
    assert_int_equal(kineto_averages_text(a, NULL, &text, NULL, NULL), KINETO_OK);
    free(text);
    kineto_averages_destroy(a);
    kineto_function_events_destroy(e);
}

static void wrong_calls_are_statuses(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    kineto_function_events *e = (void *)1;
    kineto_averages *a = (void *)1;
    kineto_function_event v;
    kineto_average row;
    double value;
    assert_int_equal(kineto_function_events_create(NULL, NULL, &e, &err), KINETO_E_ARGUMENT);
    assert_null(e);
    assert_true(err.message[0]);
    assert_int_equal(kineto_averages_create(NULL, NULL, &a, &err), KINETO_E_ARGUMENT);
    assert_null(a);
    kineto_function_events_destroy(NULL);
    kineto_averages_destroy(NULL);
    kineto_function_events_get(NULL, 0, &v);
    kineto_averages_get(NULL, 3, &row);
    kineto_averages_total(NULL, &row);
    assert_int_equal(row.count, 0);
    assert_int_equal(kineto_averages_frame(NULL, 0, 0).size, 0);
    assert_int_equal(kineto_averages_value(NULL, 0, "count", &value, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_averages_save(NULL, NULL, "-", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_stacks_save(NULL, NULL, "-", NULL, &err), KINETO_E_ARGUMENT);
}

static void nothing_changes_by_asking(void **state)
{
    (void)state;
    scene s = make_scene();
    device_scene(&s);
    memory_scene(&s);
    kineto_function_events *e = events_of(&s, false);
    char *texts[3];
    for (int i = 0; i < 3; i++) {
        kineto_averages *a;
        kineto_averages_options o = {.size = sizeof o, .group_by_shape = i == 1};
        kineto_table_options t = {.size = sizeof t, .top_level_events_only = i == 1};
        assert_int_equal(kineto_averages_create(e, &o, &a, NULL), KINETO_OK);
        assert_int_equal(kineto_averages_text(a, &t, &texts[i], NULL, NULL), KINETO_OK);
        kineto_averages_destroy(a);
    }
    assert_string_equal(texts[0], texts[2]);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
    kineto_function_events_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_time_is_what_callees_leave),
        cmocka_unit_test(what_overlaps_in_part_is_not_a_callee),
        cmocka_unit_test(other_threads_do_not_nest),
        cmocka_unit_test(double_names_are_one_function),
        cmocka_unit_test(steps_have_one_name_and_overloads_are_apart),
        cmocka_unit_test(what_pytorch_never_shows_is_left_out),
        cmocka_unit_test(asynchronous_ones_have_no_own_time),
        cmocka_unit_test(device_work_belongs_to_who_caused_it),
        cmocka_unit_test(as_torch_counts_what_it_receives),
        cmocka_unit_test(device_work_of_a_folded_function_moves_to_its_caller),
        cmocka_unit_test(device_times_measured_from_the_host_are_legacy),
        cmocka_unit_test(ids_may_be_far_apart),
        cmocka_unit_test(memory_belongs_to_thread_and_time),
        cmocka_unit_test(memory_as_torch_belongs_to_time_only),
        cmocka_unit_test(memory_equals_the_slow_way),
        cmocka_unit_test(times_at_the_ends_of_what_a_number_holds),
        cmocka_unit_test(wrong_calls_are_statuses),
        cmocka_unit_test(nothing_changes_by_asking),
    };
    return RUN_TESTS(tests);
}

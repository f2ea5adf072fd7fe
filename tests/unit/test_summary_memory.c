/* Memory over time: allocations and releases joined by address, in PyTorch's forms and as a page.
 */
#include "building.h"

#include <ckineto/summary.h>

typedef struct scene {
    kt_builder *b;
    uint32_t thread;
    kineto_function_events *events;
    char directory[256], path[320], text[200000];
    kineto_memory_timeline_result result;
} scene;

static scene *make_scene(void)
{
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->b = builder();
    s->thread = kt_track(s->b, kt_process(s->b, false, 100, 0), KINETO_TRACK_THREAD, 1);
    assert_non_null(make_directory(s->directory, sizeof s->directory));
    return s;
}

static void add_op(scene *s, const char *name, int64_t start, int64_t end)
{
    kt_row row = {.start_ns = start,
                  .end_ns = end,
                  .name = kt_string(s->b, kb_string(name)),
                  .track = s->thread,
                  .kind = KINETO_KIND_CPU_OP};
    kt_append(s->b, &row);
}

static void put(scene *s, const char *key, int64_t value)
{
    kt_args_put_int(s->b, kt_string(s->b, kb_string(key)), value);
}

static void add_memory(scene *s, int64_t at, int64_t address, int64_t bytes, int64_t type,
                       int64_t index)
{
    kt_row row = {.start_ns = at,
                  .end_ns = at,
                  .name = kt_string(s->b, kb_string("[memory]")),
                  .track = s->thread,
                  .kind = KINETO_KIND_MEMORY,
                  .form = KINETO_FORM_INSTANT};
    put(s, "Bytes", bytes);
    if (address)
        put(s, "Addr", address);
    put(s, "Device Type", type);
    put(s, "Device Id", index);
    kt_append(s->b, &row);
}

static kineto_status save(scene *s, const char *name, const char *device, kineto_error *err)
{
    if (!s->events) {
        kineto_trace *t = finish(s->b);
        assert_int_equal(kineto_function_events_create(t, NULL, &s->events, NULL), KINETO_OK);
        kineto_trace_release(t);
    }
    kineto_memory_timeline_options o = {.size = sizeof o, .device = device, .title = "<A & B>"};
    s->result = (kineto_memory_timeline_result){.size = sizeof s->result};
    snprintf(s->path, sizeof s->path, "%s/%s", s->directory, name);
    kineto_status status = kineto_memory_timeline_save(s->events, &o, s->path, &s->result, err);
    s->text[read_whole(s->path, s->text, sizeof s->text)] = '\0';
    unlink(s->path);
    return status;
}

static void save_is(scene *s, const char *name, const char *expected)
{
    kineto_error err = {.message = ""};
    if (save(s, name, NULL, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_string_equal(s->text, expected);
}

static void done(scene *s)
{
    kineto_function_events_destroy(s->events);
    rmdir(s->directory);
    free(s);
}

static void what_came_goes_with_its_size(void **state)
{
    (void)state;
    scene *s = make_scene();
    add_memory(s, 1000, 0xa, 100, 0, -1);
    add_memory(s, 1500, 0xb, 50, 0, -1);
    add_memory(s, 2500, 0xa, -1, 0, -1);  /* it says less than it is */
    add_memory(s, 4000, 0xc, -30, 0, -1); /* was there before */
    save_is(
        s, "m.raw.json",
        "[\n[-1,1,30,7],\n[1000,2,100,7],\n[1500,2,50,7],\n[2500,4,-100,7],\n[4000,4,-30,7]]\n");
    assert_int_equal(s->result.peak_bytes, 180);
    assert_int_equal(s->result.peak_ns, 1500);
    assert_int_equal(s->result.end_bytes, 50);
    assert_int_equal(s->result.allocations, 2);
    assert_int_equal(s->result.releases, 2);
    assert_int_equal(s->result.unknown_releases, 1);
    assert_string_equal(s->result.device, "cpu");
    save_is(s, "m.json",
            "[[1,1,2,4],\n[\n[0,0,0,0,0,0,0,0,30],\n[0,0,0,0,0,0,0,0,180],\n[0,0,0,0,0,0,0,0,80],\n"
            "[0,0,0,0,0,0,0,0,50]]]\n");
    done(s);
}

static void an_address_may_come_again(void **state)
{
    (void)state;
    scene *s = make_scene();
    add_memory(s, 1, 0xa, 100, 0, -1);
    add_memory(s, 2, 0xa, -100, 0, -1);
    add_memory(s, 3, 0xa, 7, 0, -1);
    add_memory(s, 4, 0xa, 9, 0, -1); /* its release was lost */
    save_is(s, "m.raw.json",
            "[\n[1,2,100,7],\n[2,4,-100,7],\n[3,2,7,7],\n[4,4,-7,7],\n[4,2,9,7]]\n");
    assert_int_equal(s->result.end_bytes, 9);
    assert_int_equal(s->result.peak_bytes, 100);
    done(s);
}

static void without_addresses_the_sum_stays_above_zero(void **state)
{
    (void)state;
    scene *s = make_scene();
    add_memory(s, 1, 0, -40, 0, -1);
    add_memory(s, 2, 0, 100, 0, -1);
    add_memory(s, 3, 0, -90, 0, -1);
    save_is(s, "m.raw.json", "[\n[-1,1,40,7],\n[1,4,-40,7],\n[2,2,100,7],\n[3,4,-90,7]]\n");
    assert_int_equal(s->result.end_bytes, 10);
    assert_int_equal(s->result.unknown_releases, 0);
    done(s);
}

static void a_sample_is_scaled_up(void **state)
{
    (void)state;
    scene *s = make_scene();
    kt_metadata(s->b, kb_string("ckineto_memory_sampling_bytes"), kb_string("1000"));
    add_op(s, "op", 0, 10);
    add_memory(s, 1, 0xa, 1000, 0, -1);
    add_memory(s, 2, 0xb, 1, 0, -1);
    add_memory(s, 3, 0xc, 100000, 0, -1);
    add_memory(s, 4, 0xc, -100000, 0, -1);
    add_memory(s, 5, 0xd, 1000, 1, 0); /* not of malloc */
    assert_int_equal(save(s, "m.raw.json", "cpu", NULL), KINETO_OK);
    /* 1000 / (1 - exp(-1)), 1 / (1 - exp(-1/1000)) */
    assert_string_equal(s->text, "[\n[1,2,1582,7],\n[2,2,1001,7],\n[3,2,100000,3],\n"
                                 "[4,4,-100000,3]]\n");
    kineto_function_event op;
    kineto_function_events_get(s->events, 0, &op);
    assert_int_equal(op.cpu_memory_usage, 1582 + 1001);
    assert_int_equal(op.device_memory_usage, 1000);
    done(s);
}

static void devices_are_apart(void **state)
{
    (void)state;
    kineto_error err;
    scene *s = make_scene();
    add_memory(s, 1, 0xa, 1, 0, -1);
    add_memory(s, 2, 0xa, 20, 1, 0);
    add_memory(s, 3, 0xa, 300, 1, 1);
    assert_int_equal(save(s, "m.json", NULL, NULL), KINETO_OK); /* the first device */
    assert_string_equal(s->result.device, "cuda:0");
    assert_int_equal(s->result.end_bytes, 20);
    assert_int_equal(save(s, "m.json", "cuda:1", NULL), KINETO_OK);
    assert_int_equal(s->result.end_bytes, 300);
    assert_int_equal(save(s, "m.json", "1:1", NULL), KINETO_OK);
    assert_int_equal(s->result.end_bytes, 300);
    assert_int_equal(save(s, "m.json", "cpu", NULL), KINETO_OK);
    assert_int_equal(s->result.end_bytes, 1);
    assert_int_equal(save(s, "m.json", "xpu", &err), KINETO_E_NOT_FOUND);
    static const char *const bad[] = {"", "gpu", ":", "cuda:", "cuda:x", "cuda:1x", "1x", "-1"};
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        assert_int_equal(save(s, "m.json", bad[i], &err), KINETO_E_ARGUMENT);
    assert_int_equal(save(s, "m.txt", NULL, &err), KINETO_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, ".raw.json"));
    done(s);
}

static void the_page_says_who_allocated(void **state)
{
    (void)state;
    scene *s = make_scene();
    add_op(s, "outer", 0, 100);
    add_op(s, "<inner>", 10, 50);
    add_memory(s, 20, 0xa, 4096, 0, -1);
    add_memory(s, 60, 0xb, 1024, 0, -1);
    add_memory(s, 50, 0xd, 10, 0, -1); /* at the end of inner, which it belongs to */
    add_memory(s, 500, 0xc, 512, 0, -1);
    assert_int_equal(save(s, "m.html", NULL, NULL), KINETO_OK);
    assert_non_null(strstr(s->text, "&#60;A &#38; B&#62;</h1>"));
    assert_non_null(strstr(s->text, "<td>&#60;inner&#62;</td><td>4.01 KB</td>"));
    assert_non_null(strstr(s->text, "<td>outer</td><td>1.00 KB</td>"));
    assert_non_null(strstr(s->text, "outside of functions)</td><td>512 B</td>"));
    assert_null(strstr(s->text, "<inner>"));
    done(s);
}

static void many_functions_and_extreme_times_fit_on_a_page(void **state)
{
    (void)state;
    scene *s = make_scene();
    uint64_t seed = 3;
    add_memory(s, INT64_MIN, 1, INT64_MAX, 0, -1);
    add_memory(s, INT64_MAX, 2, INT64_MAX, 0, -1);
    add_memory(s, 0, 3, INT64_MIN + 1, 0, -1);
    add_memory(s, 0, 3, INT64_MIN, 0, -1);
    add_memory(s, 0, 3, 0, 0, -1);
    for (int i = 0; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        add_op(s, name, i * 10, i * 10 + 9);
        add_memory(s, i * 10 + 5, 100 + i, (int64_t)(next_random(&seed) % 10000) + 1, 0, -1);
        if (i & 1)
            add_memory(s, i * 10 + 6, 100 + i, -1, 0, -1);
    }
    assert_int_equal(save(s, "m.html", NULL, NULL), KINETO_OK);
    assert_int_equal(save(s, "m.raw.json", NULL, NULL), KINETO_OK);
    assert_int_equal(save(s, "m.json", NULL, NULL), KINETO_OK);
    done(s);
}

static void add_numbered(scene *s, const char *name, int64_t start, int64_t end, int64_t sequence,
                         int64_t forward_thread)
{
    put(s, "Sequence number", sequence);
    put(s, "Fwd thread id", forward_thread);
    add_op(s, name, start, end);
}

static void add_annotation(scene *s, const char *name, int64_t start, int64_t end)
{
    kt_row row = {.start_ns = start,
                  .end_ns = end,
                  .name = kt_string(s->b, kb_string(name)),
                  .track = s->thread,
                  .kind = KINETO_KIND_USER_ANNOTATION};
    kt_append(s->b, &row);
}

/* A step as frameworks make it: a is an activation, d the engine's, g a gradient, t scratch. */
static void categories_follow_from_where_memory_came_and_went(void **state)
{
    (void)state;
    scene *s = make_scene();
    add_annotation(s, "forward", 0, 99); /* annotations are no operators */
    add_numbered(s, "aten::mm", 10, 50, 1, 0);
    add_op(s, "inner", 20, 40); /* without a number, in one that has it */
    add_memory(s, 25, 0xa, 1, 0, -1);
    add_memory(s, 30, 0x7, 2, 0, -1);
    add_memory(s, 45, 0x7, -2, 0, -1);
    add_op(s, "aten::randn", 60, 70);
    add_memory(s, 65, 0xe, 4, 0, -1);
    add_op(s, "autograd::engine::evaluate_function: MmBackward0", 100, 200);
    add_numbered(s, "MmBackward0", 110, 150, 1, 1);
    add_memory(s, 120, 0xd, 8, 0, -1);
    add_memory(s, 130, 0x6, 16, 0, -1);
    add_numbered(s, "AddBackward0", 210, 250, 0, 1);
    add_memory(s, 220, 0xd, -8, 0, -1);
    add_memory(s, 230, 0xa, -1, 0, -1);
    add_memory(s, 300, 0x6, -16, 0, -1);
    save_is(s, "m.raw.json",
            "[\n[25,2,1,4],\n[30,2,2,3],\n[45,4,-2,3],\n[65,2,4,7],\n[120,2,8,6],\n[130,2,16,5],\n"
            "[220,4,-8,6],\n[230,4,-1,4],\n[300,4,-16,5]]\n");
    save_is(s, "m.json", "[[0],\n[\n[0,0,0,0,0,0,0,0,4]]]\n");
    done(s);
}

static void a_program_says_what_it_knows(void **state)
{
    (void)state;
    scene *s = make_scene();
    static const kineto_memory_rule rules[] = {{"init", KINETO_MEMORY_PARAMETER},
                                               {"bias", KINETO_MEMORY_UNKNOWN},
                                               {"walk", KINETO_MEMORY_ACTIVATION}};
    kineto_memory_timeline_options o = {
        .size = sizeof o, .rules = rules, .rule_count = 3, .by_category = true};
    add_annotation(s, "init", 0, 100);
    add_memory(s, 10, 0xa, 1, 0, -1); /* stays */
    add_memory(s, 20, 0xb, 2, 0, -1); /* does not */
    add_annotation(s, "bias", 30, 60);
    add_memory(s, 40, 0xc, 4, 0, -1); /* the innermost rule */
    add_memory(s, 50, 0xb, -2, 0, -1);
    add_annotation(s, "walk", 200, 300);
    add_memory(s, 210, 0xd, 8, 0, -1);
    add_memory(s, 220, 0xd, -8, 0, -1);
    add_memory(s, 400, 0xa, -1, 0, -1);
    kineto_trace *t = finish(s->b);
    assert_int_equal(kineto_function_events_create(t, NULL, &s->events, NULL), KINETO_OK);
    kineto_trace_release(t);
    snprintf(s->path, sizeof s->path, "%s/m.raw.json", s->directory);
    assert_int_equal(kineto_memory_timeline_save(s->events, &o, s->path, NULL, NULL), KINETO_OK);
    read_whole(s->path, s->text, sizeof s->text);
    unlink(s->path);
    assert_string_equal(s->text,
                        "[\n[10,2,1,0],\n[20,2,2,3],\n[40,2,4,7],\n[50,4,-2,3],\n[210,2,8,4],\n"
                        "[220,4,-8,4],\n[400,4,-1,0]]\n");
    snprintf(s->path, sizeof s->path, "%s/m.html", s->directory);
    assert_int_equal(kineto_memory_timeline_save(s->events, &o, s->path, NULL, NULL), KINETO_OK);
    read_whole(s->path, s->text, sizeof s->text);
    unlink(s->path);
    assert_non_null(strstr(s->text, "<td>activation</td><td>8 B</td>"));
    assert_non_null(strstr(s->text, "<td>parameter</td><td>1 B</td>"));
    assert_null(strstr(s->text, "(others)"));
    kineto_memory_rule bad = {"x", KINETO_MEMORY_CATEGORY_COUNT};
    o.rules = &bad;
    o.rule_count = 1;
    assert_int_equal(kineto_memory_timeline_save(s->events, &o, s->path, NULL, NULL),
                     KINETO_E_ARGUMENT);
    bad = (kineto_memory_rule){NULL, 0};
    assert_int_equal(kineto_memory_timeline_save(s->events, &o, s->path, NULL, NULL),
                     KINETO_E_ARGUMENT);
    o.rules = NULL;
    assert_int_equal(kineto_memory_timeline_save(s->events, &o, s->path, NULL, NULL),
                     KINETO_E_ARGUMENT);
    done(s);
}

static void categories_have_names(void **state)
{
    (void)state;
    uint32_t category = 99;
    for (uint32_t i = 0; i < KINETO_MEMORY_CATEGORY_COUNT; i++) {
        assert_true(kineto_memory_category_parse(kineto_memory_category_name(i), &category));
        assert_int_equal(category, i);
    }
    assert_true(kineto_memory_category_parse("GRADIENT", &category));
    assert_int_equal(category, 5);
    assert_false(kineto_memory_category_parse("", &category));
    assert_false(kineto_memory_category_parse(NULL, &category));
    assert_string_equal(kineto_memory_category_name(8), "unknown");
}

static void wrong_calls_are_statuses(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    assert_int_equal(kineto_memory_timeline_save(NULL, NULL, "m.json", NULL, &err),
                     KINETO_E_ARGUMENT);
    scene *s = make_scene();
    add_op(s, "op", 0, 10);
    assert_int_equal(save(s, "m.json", NULL, &err), KINETO_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "memory"));
    done(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_goes_with_its_size),
        cmocka_unit_test(an_address_may_come_again),
        cmocka_unit_test(without_addresses_the_sum_stays_above_zero),
        cmocka_unit_test(a_sample_is_scaled_up),
        cmocka_unit_test(devices_are_apart),
        cmocka_unit_test(the_page_says_who_allocated),
        cmocka_unit_test(many_functions_and_extreme_times_fit_on_a_page),
        cmocka_unit_test(categories_follow_from_where_memory_came_and_went),
        cmocka_unit_test(a_program_says_what_it_knows),
        cmocka_unit_test(categories_have_names),
        cmocka_unit_test(wrong_calls_are_statuses),
    };
    return RUN_TESTS(tests);
}

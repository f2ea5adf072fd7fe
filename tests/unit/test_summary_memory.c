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
    kineto_function_events_release(s->events);
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
    assert_string_equal(s->text, "[\n[1,2,1582,7],\n[2,2,1001,7],\n[3,2,100000,7],\n"
                                 "[4,4,-100000,7]]\n");
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
        cmocka_unit_test(wrong_calls_are_statuses),
    };
    return RUN_TESTS(tests);
}

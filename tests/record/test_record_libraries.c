/* Libraries that come and go while they are recorded. */
#include "unit/unit.h"

#include "helpers/recording.h"

#include <dlfcn.h>

typedef void (*record_call)(int64_t);

static record_call open_library(const char *path, void **lib)
{
    record_call call = NULL;
    *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*lib)
        fail_msg("%s", dlerror());
    *(void **)&call = dlsym(*lib, "lib_record");
    assert_non_null(call);
    return call;
}

/* The second library lies where the first one lay, its sites included. */
static void names_are_right_after_a_library_was_closed(void **state)
{
    (void)state;
    enum { ROUNDS = 30 };
    const char *const paths[] = {LIB_A, LIB_B};
    record_call calls[2] = {NULL, NULL};
    int same_place = 0;
    kineto_session *s = record();
    for (int i = 0; i < ROUNDS; i++) {
        void *lib;
        record_call call = open_library(paths[i & 1], &lib);
        calls[i & 1] = call;
        same_place += calls[0] == calls[1];
        call(i);
        assert_int_equal(dlclose(lib), 0);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    if (!same_place)
        print_message("[ the system never put the second library in the place of the first ]\n");
    assert_int_equal(kineto_trace_count(t), 2 * ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        const char *const names[] = {"work of a", "work of b"};
        const char *const inner[] = {"inner of a", "inner of b"};
        const char *const keys[] = {"n in a", "n in b"};
        kineto_activity a = find_nth(t, names[i & 1], (uint64_t)i / 2);
        assert_int_equal(arg_of(t, a.row, keys[i & 1]).i, i);
        kineto_activity b = find_nth(t, inner[i & 1], (uint64_t)i / 2);
        assert_int_equal(kineto_trace_parent(t, b.row), a.row);
    }
    kineto_trace_release(t);
}

/* A library that is closed while one of its ranges is open, and whose sites no longer exist when
 * the trace is built. */
static void a_closed_librarys_events_stay_readable(void **state)
{
    (void)state;
    KINETO_SITE(outer, KINETO_KIND_USER_ANNOTATION, "outer");
    void *lib;
    kineto_session *s = record();
    kineto_range r = kineto_range_begin(&outer);
    record_call call = open_library(LIB_A, &lib);
    for (int i = 0; i < 5000; i++) /* several chunks */
        call(i);
    dlclose(lib);
    kineto_range_end(r);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "work of a"), 5000);
    assert_int_equal(count_named(t, "inner of a"), 5000);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_right_after_a_library_was_closed),
        cmocka_unit_test(a_closed_librarys_events_stay_readable),
    };
    return RUN_TESTS(tests);
}

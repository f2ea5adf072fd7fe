/* Operators recorded with native stacks: the first frame is what called the operator, whichever way
 * it was begun, and however often. */
#include <ckineto/function.h>

#include "unit.h"

#include "../helpers/recording.h"

KINETO_OPERATOR(site, "stacked");

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define KEEP() __asm__ volatile("" ::: "memory") /* no tail call */

static NOINLINE void starts_an_operator(void)
{
    kineto_function f;
    kineto_function_start(&f, &site, NULL, 0);
    kineto_function_finish(&f);
    KEEP();
}

static NOINLINE void starts_with_info(void)
{
    kineto_function f;
    kineto_function_info info = KINETO_FUNCTION_INFO_INIT;
    kineto_function_start_info(&f, &site, &info);
    kineto_function_finish(&f);
    KEEP();
}

static NOINLINE void calls_in_turn(void (*operator)(void))
{
    operator();
    KEEP();
}

static kineto_session *record_stacks(void)
{
    kineto_session_options options;
    kineto_session *session = NULL;
    kineto_error err = {0};
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_ALL;
    options.operators = KINETO_OPERATORS_STACK;
    if (kineto_session_begin(&options, &session, &err))
        fail_msg("no session: %s", err.message);
    return session;
}

/* Frame number `index` of a row's stack ends with the function's name. */
static bool frame_is(const kineto_trace *t, kineto_row row, uint32_t index, const char *function)
{
    kineto_arg arg;
    if (!kineto_args_find(t, row, "Call stack", &arg))
        return false;
    const char *at = arg.text.data, *end = at + arg.text.size, *stop = NULL;
    for (uint32_t i = 0; i <= index; i++) {
        at = stop ? stop + 1 : at;
        stop = at < end ? memchr(at, ';', (size_t)(end - at)) : NULL;
        if (!stop)
            return false;
    }
    size_t size = strlen(function);
    return (size_t)(stop - at) >= size && memcmp(stop - size, function, size) == 0;
}

static void check(void (*operator)(void), const char *name)
{
    kineto_session *session = record_stacks();
    for (int i = 0; i < 5; i++)
        calls_in_turn(operator);
    kineto_trace *t = finish(session);
    assert_int_equal(kineto_trace_count(t), 5);
    for (kineto_row row = 0; row < 5; row++) {
        kineto_arg arg;
        if (!frame_is(t, row, 0, name) || !frame_is(t, row, 1, "calls_in_turn")) {
            bool has = kineto_args_find(t, row, "Call stack", &arg);
            fail_msg("row %u: %.*s", row, has ? (int)arg.text.size : 4,
                     has ? arg.text.data : "none");
        }
    }
    kineto_trace_release(t);
}

static void the_caller_is_the_first_frame(void **state)
{
    (void)state;
    check(starts_an_operator, "starts_an_operator");
}

static void the_caller_with_info_is_the_first_frame(void **state)
{
    (void)state;
    check(starts_with_info, "starts_with_info");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_is_the_first_frame),
        cmocka_unit_test(the_caller_with_info_is_the_first_frame),
    };
    return RUN_TESTS(tests);
}

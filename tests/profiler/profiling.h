/* What tests of the front end share: profilers that must work, events by name. Include after
 * unit.h. */
#ifndef TESTS_PROFILING_H
#define TESTS_PROFILING_H

#include "helpers/recording.h"

#include <ckineto/profiler.h>

#include <time.h>

#define ONLY(name) KINETO_ACTIVITY_SET(name)

static inline kineto_profiler_config config_of(kineto_profiler_state state)
{
    kineto_profiler_config c;
    kineto_profiler_config_init(&c, state);
    c.buffer_bytes = (size_t)4 << 20;
    return c;
}

static inline void enable_with(const kineto_profiler_config *c, uint32_t activities)
{
    kineto_error err = {0};
    if (kineto_profiler_enable(c, activities, 0, &err))
        fail_msg("no profiler: %s", err.message);
}

/* KINETO, of the host, nothing special. */
static inline void enable_plain(void)
{
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    enable_with(&c, ONLY(CPU));
}

static inline kineto_profiler_result *disabled(void)
{
    kineto_error err = {0};
    kineto_profiler_result *r = NULL;
    if (kineto_profiler_disable(&r, &err))
        fail_msg("no result: %s", err.message);
    assert_non_null(r);
    return r;
}

static inline const kineto_trace *trace_of(const kineto_profiler_result *r)
{
    const kineto_trace *t = kineto_profiler_result_trace(r);
    assert_non_null(t);
    verify(t);
    return t;
}

static inline uint64_t events_named(const kineto_profiler_result *r, const char *name)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(r); i++) {
        kineto_event e;
        assert_true(kineto_profiler_result_event(r, i, &e));
        n += text_is(e.activity.name, name);
    }
    return n;
}

/* The n-th by start, from 0. */
static inline kineto_event event_nth(const kineto_profiler_result *r, const char *name, uint64_t n)
{
    kineto_event e = {0};
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(r); i++) {
        assert_true(kineto_profiler_result_event(r, i, &e));
        if (text_is(e.activity.name, name) && n-- == 0)
            return e;
    }
    fail_msg("the result has no (further) event named '%s'", name);
    return e;
}

static inline kineto_event event_named(const kineto_profiler_result *r, const char *name)
{
    uint64_t n = events_named(r, name);
    if (n != 1)
        fail_msg("%llu events are named '%s'", (unsigned long long)n, name);
    return event_nth(r, name, 0);
}

/* An operator of this name, with nothing. */
static inline uint64_t run_op(const char *name)
{
    kineto_function f;
    kineto_site *site = kineto_function_site(name, NULL, KINETO_SCOPE_FUNCTION);
    assert_non_null(site);
    kineto_function_begin(&f, site, NULL, 0);
    uint64_t id = kineto_function_id(&f);
    kineto_function_end(&f);
    return id;
}

static inline void run_op_with(const char *name, const kineto_function_info *info)
{
    kineto_function f;
    kineto_site *site = kineto_function_site(name, NULL, KINETO_SCOPE_FUNCTION);
    assert_non_null(site);
    kineto_function_begin_info(&f, site, info);
    kineto_function_end(&f);
}

static inline void run_scoped(const char *name, kineto_scope scope)
{
    kineto_function f;
    kineto_site *site = kineto_function_site(name, NULL, scope);
    assert_non_null(site);
    kineto_function_begin(&f, site, NULL, 0);
    kineto_function_end(&f);
}

static inline int64_t now_realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Run it on a thread of its own, to its end. */
static inline void *on_thread(void *(*body)(void *), void *argument)
{
    void *result = NULL;
    assert_int_equal(pthread_join(start_thread(body, argument), &result), 0);
    return result;
}

/* The call, with `err` at its end, must fail so: expect(KINETO_E_STATE, "running", f(x, &err)). */
#define expect(status, text, ...)                                                                  \
    do {                                                                                           \
        kineto_error err = {0};                                                                    \
        int got_ = (int)(__VA_ARGS__);                                                             \
        if (got_ != (int)(status))                                                                 \
            fail_msg("line %d: %s, not %s: %s", __LINE__, kineto_status_name((kineto_status)got_), \
                     kineto_status_name(status), err.message);                                     \
        if (!strstr(err.message, text))                                                            \
            fail_msg("line %d: '%s' lacks '%s'", __LINE__, err.message, text);                     \
    } while (0)

/* After whatever a test did: nothing is left enabled. */
static inline int nothing_runs(void **state)
{
    (void)state;
    int left = 0;
    while (kineto_profiler_disable(NULL, NULL) == KINETO_OK)
        left++;
    return left != 0 || kineto_profiler_enabled() || kineto_profiler_is_enabled_in_main_thread();
}
#define ROW(test) cmocka_unit_test_teardown(test, nothing_runs)

#endif

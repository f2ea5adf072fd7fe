/* Helpers for tests of operators: sessions that record them, and their arguments as JSON texts.
 * Include after unit.h and recording.h. */
#ifndef TESTS_FUNCTION_H
#define TESTS_FUNCTION_H

#include <ckineto/function.h>
#include "../helpers/sessions.h"

#define ALL_INPUTS (KINETO_OPERATORS_INPUTS | KINETO_OPERATORS_VALUES)

static inline kineto_session *session_with(const kineto_session_options *options)
{
    kineto_session *session = NULL;
    kineto_error err = {0};
    if (begin_session(options, &session, &err))
        fail_msg("no session: %s", err.message);
    return session;
}

/* Operators of all threads, and what of them. */
static inline kineto_session *operators(uint32_t what)
{
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.kinds = KINETO_KINDS_ALL;
    o.buffer_bytes = 2u << 20;
    o.operators = what;
    return session_with(&o);
}

static inline void run(kineto_site *site, const kineto_input *inputs, size_t count)
{
    kineto_function f;
    kineto_function_begin(&f, site, inputs, count);
    kineto_function_end(&f);
}

static inline void run_info(kineto_site *site, const kineto_function_info *info)
{
    kineto_function f;
    kineto_function_begin_info(&f, site, info);
    kineto_function_end(&f);
}

static inline bool has_arg(const kineto_trace *trace, kineto_row row, const char *key)
{
    kineto_arg arg;
    return kineto_args_find(trace, row, key, &arg);
}

#define expect_no_arg(trace, row, key)                                                             \
    do {                                                                                           \
        if (has_arg((trace), (row), (key)))                                                        \
            fail_msg("row %llu has '%s'", (unsigned long long)(row), (key));                       \
    } while (0)

/* The text of an argument: of JSON, lists and strings. */
#define expect_text(trace, row, key, expected)                                                     \
    do {                                                                                           \
        kineto_arg arg_ = arg_of((trace), (row), (key));                                           \
        if (!text_is(arg_.text, (expected)))                                                       \
            fail_msg("%s of row %llu is %.*s, not %s", (key), (unsigned long long)(row),           \
                     (int)(arg_.text.size > 3000 ? 3000 : arg_.text.size), arg_.text.data,         \
                     (expected));                                                                  \
    } while (0)

#define expect_int(trace, row, key, expected)                                                      \
    do {                                                                                           \
        kineto_arg arg_ = arg_of((trace), (row), (key));                                           \
        assert_true(arg_.type == KINETO_ARG_INT || arg_.type == KINETO_ARG_UINT);                  \
        if (arg_.i != (int64_t)(expected))                                                         \
            fail_msg("%s of row %llu is %lld", (key), (unsigned long long)(row),                   \
                     (long long)arg_.i);                                                           \
    } while (0)

/* The four arguments that inputs become; NULL: must not be there. */
static inline void expect_inputs(const kineto_trace *trace, kineto_row row, const char *dims,
                                 const char *strides, const char *types, const char *values)
{
    static const char *const keys[] = {"Input Dims", "Input Strides", "Input type",
                                       "Concrete Inputs"};
    const char *texts[] = {dims, strides, types, values};
    for (int i = 0; i < 4; i++) {
        if (texts[i])
            expect_text(trace, row, keys[i], texts[i]);
        else
            expect_no_arg(trace, row, keys[i]);
    }
}

/* ---- a text that grows ---- */

typedef struct growing {
    char *s;
    size_t n, room;
} growing;

static inline void put_bytes(growing *g, const char *bytes, size_t n)
{
    if (g->n + n + 1 > g->room) {
        g->room = (g->n + n + 1) * 2;
        g->s = realloc(g->s, g->room);
        assert_non_null(g->s);
    }
    memcpy(g->s + g->n, bytes, n);
    g->n += n;
    g->s[g->n] = '\0';
}

static inline void put_text(growing *g, const char *text) { put_bytes(g, text, strlen(text)); }
static inline void put_int(growing *g, int64_t v)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)v);
    put_text(g, text);
}
static inline void clear_text(growing *g)
{
    g->n = 0;
    put_text(g, "");
}
static inline void put_ints(growing *g, const int64_t *v, size_t count, const char *between)
{
    put_text(g, "[");
    for (size_t i = 0; i < count; i++) {
        put_text(g, i ? between : "");
        put_int(g, v[i]);
    }
    put_text(g, "]");
}

#endif

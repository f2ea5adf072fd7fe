/* For tests that make a trace row by row. */
#ifndef CKINETO_TESTS_BUILDING_H
#define CKINETO_TESTS_BUILDING_H

#include "trace/trace.h"

#include "unit.h"

static inline kt_builder *builder(void)
{
    kt_builder *b;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    return b;
}

static inline kineto_trace *finish(kt_builder *b)
{
    kineto_trace *t;
    kineto_error err = {.message = ""};
    if (kt_builder_finish(b, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kt_builder_destroy(b);
    return t;
}

#endif

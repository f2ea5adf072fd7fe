/* A library with sites of its own, compiled twice under two names: what lies at one place in the
 * one lies there in the other as well. */
#include <ckineto/record.h>

KINETO_SITE_ARGS(site_work, KINETO_KIND_CPU_OP, "work of " LIB_NAME,
                 {"n in " LIB_NAME, KINETO_ARG_INT});
KINETO_SITE(site_inner, KINETO_KIND_CPU_OP, "inner of " LIB_NAME);

KINETO_API void lib_record(int64_t n);

KINETO_API void lib_record(int64_t n)
{
    kineto_value v = {.i = n};
    kineto_range r = kineto_range_begin_args(&site_work, &v);
    kineto_range_end(kineto_range_begin(&site_inner));
    kineto_range_end(r);
}

/* For tests that make a small trace and look into tables of facts. */
#ifndef CKINETO_TESTS_ANALYZING_H
#define CKINETO_TESTS_ANALYZING_H

#include "building.h"

#include <ckineto/analyze.h>

typedef struct maker {
    kt_builder *b;
    uint32_t device, thread, second_thread, stream, other;
} maker;

#define EPOCH INT64_C(1700000000000000000)

static inline maker make(void)
{
    maker m = {.b = builder()};
    uint32_t host = kt_process(m.b, false, 10, 0);
    m.device = kt_process(m.b, true, 0, 0);
    m.thread = kt_track(m.b, host, KINETO_TRACK_THREAD, 11);
    m.second_thread = kt_track(m.b, host, KINETO_TRACK_THREAD, 12);
    m.stream = kt_track(m.b, m.device, KINETO_TRACK_STREAM, 7);
    m.other = kt_track(m.b, m.device, KINETO_TRACK_STREAM, 20);
    return m;
}

/* From and to in microseconds. */
static inline void put_row(maker *m, uint32_t track, uint32_t kind, const char *name, double from,
                           double to, uint64_t correlation)
{
    kt_row row = {.start_ns = EPOCH + (int64_t)(from * 1000),
                  .end_ns = EPOCH + (int64_t)(to * 1000),
                  .name = kt_string(m->b, kb_string(name)),
                  .track = track,
                  .kind = kind,
                  .correlation_id = correlation};
    (void)kt_append(m->b, &row);
}

static inline void put_op(maker *m, const char *name, double from, double to)
{
    put_row(m, m->thread, KINETO_KIND_CPU_OP, name, from, to, 0);
}

static inline void put_range(maker *m, const char *name, double from, double to)
{
    put_row(m, m->thread, KINETO_KIND_USER_ANNOTATION, name, from, to, 0);
}

static inline void put_call(maker *m, const char *name, double from, double to, uint64_t id)
{
    put_row(m, m->thread, KINETO_KIND_RUNTIME, name, from, to, id);
}

static inline void put_kernel(maker *m, uint32_t track, const char *name, double from, double to,
                              uint64_t id)
{
    put_row(m, track, KINETO_KIND_CONCURRENT_KERNEL, name, from, to, id);
}

/* An argument of the next row. */
static inline void put_text(maker *m, const char *key, const char *text)
{
    kt_args_put_string(m->b, kt_string(m->b, kb_string(key)), kb_string(text));
}
static inline void put_json(maker *m, const char *key, const char *json)
{
    kt_args_put_json(m->b, kt_string(m->b, kb_string(key)), KINETO_ARG_JSON, kb_string(json));
}
static inline void put_number(maker *m, const char *key, int64_t v)
{
    kt_args_put_int(m->b, kt_string(m->b, kb_string(key)), v);
}

/* Releases the trace. */
static inline kineto_analysis *analyzed(kineto_trace *trace, const char *tables)
{
    kineto_analysis_options o = {.size = sizeof o, .tables = tables};
    kineto_analysis *facts = NULL;
    kineto_error err = {.message = ""};
    if (kineto_analysis_run(trace, &o, &facts, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    kineto_trace_release(trace);
    return facts;
}

static inline uint64_t rows_of(const kineto_analysis *facts, const char *table)
{
    kineto_fact_table t;
    assert_true(kineto_analysis_table(facts, kineto_analysis_find_table(facts, table), &t));
    return t.row_count;
}

static inline kineto_fact cell(const kineto_analysis *facts, const char *table, uint64_t row,
                               const char *column)
{
    uint32_t at = kineto_analysis_find_table(facts, table), c = 0;
    kineto_fact_column info;
    kineto_fact fact;
    while (kineto_analysis_column(facts, at, c, &info) &&
           !kb_string_equal(info.name, kb_string(column)))
        c++;
    if (!kineto_analysis_fact(facts, at, row, c, &fact))
        fail_msg("%s has no row %llu, or no column %s", table, (unsigned long long)row, column);
    return fact;
}

static inline bool cell_is(const kineto_analysis *facts, const char *table, uint64_t row,
                           const char *column, const char *text)
{
    return kb_string_equal(cell(facts, table, row, column).text, kb_string(text));
}

static inline bool notes(const kineto_analysis *facts, const char *table, const char *part)
{
    kineto_fact_table t;
    assert_true(kineto_analysis_table(facts, kineto_analysis_find_table(facts, table), &t));
    return t.note.size && memmem(t.note.data, t.note.size, part, strlen(part)) != NULL;
}

#endif

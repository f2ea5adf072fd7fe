/* Benchmark of summaries: the list of function events with its tree, memory and device work;
 * groups; the table. The floor is one pass over the activities of the trace. Times are of 1 M
 * operators. */
#include "bench.h"

#include "base/base.h"
#include "trace/trace.h"

#include <ckineto/summary.h>

#include <malloc.h>

#define OPERATORS 1000000
#define ROUNDS    5

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_summary: %s: %s\n", what, err->message);
    exit(1);
}

typedef struct making {
    kt_builder *b;
    uint32_t threads[4], stream, names[40], memory, dims, type, bytes, device;
    uint64_t id;
} making;

static void append_activity(making *m, uint32_t track, uint32_t name, uint32_t kind, int64_t start,
                            int64_t end)
{
    kt_row row = {.start_ns = start,
                  .end_ns = end,
                  .name = name,
                  .track = track,
                  .kind = kind,
                  .form = KINETO_FORM_SLICE,
                  .external_id = m->id};
    kt_append(m->b, &row);
}

static void put_memory(making *m, uint32_t track, int64_t at, int64_t bytes)
{
    kt_row row = {.start_ns = at,
                  .end_ns = at,
                  .name = m->memory,
                  .track = track,
                  .kind = KINETO_KIND_MEMORY,
                  .form = KINETO_FORM_INSTANT};
    kt_args_put_int(m->b, m->bytes, bytes);
    kt_args_put_int(m->b, m->device, 0);
    kt_append(m->b, &row);
}

/* Four operators in each other, an allocation and a release, one kernel. */
static void put_nest(making *m, long i)
{
    uint32_t track = m->threads[i & 3];
    int64_t at = i / 4 * 100000;
    for (uint32_t depth = 0; depth < 4; depth++) {
        m->id++;
        kt_args_put_json(m->b, m->dims, KINETO_ARG_JSON, kb_string("[[64,128],[128,32],[]]"));
        kt_args_put_json(m->b, m->type, KINETO_ARG_JSON,
                         kb_string("[\"float\",\"float\",\"Scalar\"]"));
        append_activity(m, track, m->names[(i + depth * 10) % 40], KINETO_KIND_CPU_OP,
                        at + depth * 1000, at + 90000 - depth * 1000);
    }
    put_memory(m, track, at + 5000, 8192);
    put_memory(m, track, at + 6000, -8192);
    append_activity(m, m->stream, m->names[i % 7], KINETO_KIND_CONCURRENT_KERNEL, i * 20000,
                    i * 20000 + 15000);
}

static kineto_trace *make_trace(void)
{
    making m = {0};
    kineto_error err;
    kineto_trace *t;
    if (kt_builder_create(&m.b, &err))
        exit_with_error("builder", &err);
    uint32_t process = kt_process(m.b, false, 1, 0);
    for (int i = 0; i < 4; i++)
        m.threads[i] = kt_track(m.b, process, KINETO_TRACK_THREAD, i + 1);
    m.stream = kt_track(m.b, kt_process(m.b, true, 0, 0), KINETO_TRACK_STREAM, 7);
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "aten::operator_%d", i);
        m.names[i] = kt_string(m.b, kb_string(name));
    }
    m.memory = kt_string(m.b, kb_string("[memory]"));
    m.dims = kt_string(m.b, kb_string("Input Dims"));
    m.type = kt_string(m.b, kb_string("Input type"));
    m.bytes = kt_string(m.b, kb_string("Bytes"));
    m.device = kt_string(m.b, kb_string("Device Type"));
    for (long i = 0; i < OPERATORS / 4; i++)
        put_nest(&m, i);
    if (kt_builder_finish(m.b, &t, &err))
        exit_with_error("builder", &err);
    kt_builder_destroy(m.b);
    (void)kineto_trace_time_order(t); /* is the trace's own, and is there once */
    return t;
}

static double floor_ms(const kineto_trace *t)
{
    double begin = bench_process_ns();
    int64_t sum = 0;
    for (uint64_t row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, (kineto_row)row, &a);
        sum += a.end_ns - a.start_ns;
    }
    __asm__ volatile("" : : "r"(sum));
    return (bench_process_ns() - begin) / 1e6;
}

static size_t in_use(void) { return mallinfo2().uordblks + mallinfo2().hblkhd; }

static kineto_function_events *time_event_list(const kineto_trace *t, bench_series *s)
{
    kineto_error err;
    kineto_function_events *events;
    double begin = bench_process_ns();
    if (kineto_function_events_create(t, NULL, &events, &err))
        exit_with_error("events", &err);
    bench_add(s, (bench_process_ns() - begin) / 1e6);
    return events;
}

static void time_groups(kineto_function_events *events, bool by_shape, bench_series *s)
{
    kineto_error err;
    kineto_averages *averages;
    char *text;
    kineto_averages_options o = {.size = sizeof o, .group_by_shape = by_shape};
    kineto_table_options t = {.size = sizeof t, .sort_by = "self_cpu_time_total"};
    double begin = bench_process_ns();
    if (kineto_averages_create(events, &o, &averages, &err) ||
        kineto_averages_text(averages, &t, &text, NULL, &err))
        exit_with_error("averages", &err);
    bench_add(s, (bench_process_ns() - begin) / 1e6);
    free(text);
    kineto_averages_destroy(averages);
}

int main(void)
{
    kineto_trace *t = make_trace();
    bench_series floor = {.count = 0}, lists = {.count = 0}, groups = {.count = 0};
    bench_series shapes = {.count = 0};
    double bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&floor, floor_ms(t));
        size_t before = in_use();
        kineto_function_events *events = time_event_list(t, &lists);
        bytes = (double)(in_use() - before) / kineto_function_events_count(events);
        time_groups(events, false, &groups);
        time_groups(events, true, &shapes);
        kineto_function_events_destroy(events);
    }
    bench_print("summary_events_1m", "ms", &lists, &floor);
    bench_print("summary_table_1m", "ms", &groups, &floor);
    bench_print("summary_table_by_shape_1m", "ms", &shapes, &floor);
    bench_line("summary_event_bytes", bytes, "bytes", 0, 1);
    kineto_trace_release(t);
    return 0;
}

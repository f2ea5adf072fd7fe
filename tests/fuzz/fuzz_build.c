/* A trace from any recording: no crash, and every row of it is sound. */
#include "recording.h"
#include "trace/trace.h"

#define TICKS UINT64_C(1000000000000)

static void check(bool right)
{
    if (!right)
        abort();
}

static kf_control *make_control(void)
{
    kf_control *c = calloc(1, sizeof *c);
    for (uint32_t i = 0; c && i < 3; i++) {
        int64_t ns = (int64_t)i * 1000000000;
        c->snapshots[i] = (kb_clock_snapshot){.ticks = TICKS + (uint64_t)ns,
                                              .monotonic_ns = ns,
                                              .monotonic_raw_ns = ns,
                                              .boottime_ns = ns,
                                              .realtime_ns = INT64_C(1700000000000000000) + ns};
    }
    if (!c)
        return NULL;
    c->snapshot_count = 3;
    (void)kf_own_kind_add(c->own_kinds, kb_string("own_copy"), KINETO_KIND_GPU_MEMCPY, true);
    (void)kf_own_kind_add(c->own_kinds, kb_string("own_counter"), KINETO_KIND_GPU_PM_COUNTER,
                          false);
    return c;
}

/* Arguments whose text is JSON. */
static bool is_json(uint32_t type)
{
    return type == KINETO_ARG_INTS || type == KINETO_ARG_STRINGS || type == KINETO_ARG_SHAPES ||
           type == KINETO_ARG_JSON;
}

static void walk(const kineto_trace *t)
{
    kineto_activity a;
    kineto_args_iterator it;
    kineto_arg arg;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_trace_get(t, r, &a);
        check(a.end_ns >= a.start_ns && a.track < kineto_trace_track_count(t));
        check((uint64_t)a.end_ns - (uint64_t)a.start_ns <= INT64_MAX);
        check(kineto_trace_self_ns(t, r) >= 0);
        check(a.kind < KINETO_KIND_COUNT);
        kineto_args_begin(t, r, &it);
        uint64_t args = 0;
        while (kineto_args_next(&it, &arg)) {
            check(arg.type > 0 && arg.type < KINETO_ARG_TYPE_COUNT);
            check(!is_json(arg.type) || kb_json_valid(arg.text));
            args++;
        }
        kt_args packed = kt_args_of(t, kt_block_at(t, r / KT_BLOCK_ROWS), r % KT_BLOCK_ROWS);
        kt_arg one = {0};
        while (kt_args_step(&packed, &one))
            args--;
        check(args == 0);
        kineto_row parent = kineto_trace_parent(t, r);
        check(parent == KINETO_NO_ROW || parent < kineto_trace_count(t));
    }
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_flow flow;
        kineto_trace_flow(t, i, &flow);
        check(flow.from == KINETO_NO_ROW || flow.from < kineto_trace_count(t));
        check(flow.to == KINETO_NO_ROW || flow.to < kineto_trace_count(t));
    }
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        kineto_trace_process(t, i, &p);
        check(p.properties_json.size == 0 || kb_json_valid(p.properties_json));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_recording r;
    kf_control *control = make_control();
    kineto_trace *t = NULL;
    const kt_build_thread_span span = {.tid = 10};
    if (control && fuzz_open(&r, data, size)) {
        kt_build_options o = {.kinds = r.options & 1 ? KINETO_KINDS_DEFAULT : KINETO_KINDS_ALL,
                              .start_ticks = r.options & 2 ? TICKS + 10 : 0,
                              .end_ticks = r.options & 4 ? TICKS + 1000 : 0,
                              .threads = r.options & 8 ? &span : NULL,
                              .thread_count = 1,
                              .wants = r.wants,
                              .overloads = (r.options & 32) != 0,
                              .no_links = (r.options & 64) != 0,
                              .clip_open = (r.options & 16) != 0};
        kineto_status status = kt_build(&r.input, control, &o, &t, NULL);
        check(status == KINETO_OK || status == KINETO_E_MEMORY);
        if (t)
            walk(t);
        kineto_trace_release(t);
        fuzz_close(&r);
    }
    free(control);
    return 0;
}

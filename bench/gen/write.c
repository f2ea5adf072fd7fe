/* Writes events as libkineto of an era does: its keys and their order, its blanks and line breaks,
 * its spelling of times and of threads. */
#include "gen/write.h"

const int64_t gen_thread_ids[GEN_THREADS] = {PID, 25556, 4890};
const int gen_stream_ids[GEN_STREAMS] = {7, 27, 25, 23};

/* ---- arrows -------------------------------------------------------------------------------------- */

typedef struct arrow {
    uint64_t id;
    bool ends, on_stream;
    int place; /* thread, or id of the stream */
    int64_t ns;
    bool of_backward;
} arrow;

static void put_arrow(gen_writer *w, const arrow *a)
{
    begin_event(w);
    put_z(w, a->ends ? "\"ph\": \"f\", \"id\": " : "\"ph\": \"s\", \"id\": ");
    put_uint(w, a->id);
    LITERAL(w, ", ");
    if (a->on_stream) {
        put_stream(w, a->place);
    } else { /* a number in every layout */
        LITERAL(w, "\"pid\": ");
        put_uint(w, PID);
        LITERAL(w, ", \"tid\": ");
        put_int(w, gen_thread_ids[a->place]);
    }
    LITERAL(w, ", \"ts\": ");
    put_time(w, a->ns);
    if (a->of_backward)
        LITERAL(w, ",\n    \"cat\": \"fwdbwd\", \"name\": \"fwdbwd\"");
    else if (w->layout == GEN_TORCH1_8)
        LITERAL(w, ",\n    \"cat\": \"async\", \"name\": \"launch\"");
    else
        LITERAL(w, ",\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"");
    if (a->ends)
        LITERAL(w, ", \"bp\": \"e\"");
    LITERAL(w, "\n  },\n");
}

/* ---- host rows ----------------------------------------------------------------------------------- */

static void put_index(gen_writer *w)
{
    LITERAL(w, "\"Ev Idx\": ");
    put_uint(w, w->index++);
}

static void put_inputs(gen_writer *w, const gen_event *e)
{
    const gen_inputs *inputs = &w->names->inputs[e->shape % GEN_INPUTS];
    if (w->layout == GEN_TORCH2) {
        LITERAL(w, "\"Concrete Inputs\": [");
        put_text(w, inputs->concrete);
        LITERAL(w, "], \"Input type\": [");
        put_text(w, inputs->types);
        LITERAL(w, "], \"Input Dims\": [");
        put_text(w, inputs->dims);
    } else {
        LITERAL(w, "\"Input Dims\": [");
        put_text(w, inputs->dims);
        LITERAL(w, "], \"Input type\": [");
        put_text(w, inputs->types);
    }
    *w->at++ = ']';
}

static void put_sequence(gen_writer *w, const gen_event *e)
{
    uint64_t forward_thread = e->thread == GEN_AUTOGRAD;
    if (w->layout == GEN_TORCH2) {
        LITERAL(w, "\"Sequence number\": ");
        put_int(w, e->sequence);
        LITERAL(w, ", \"Fwd thread id\": ");
        put_uint(w, forward_thread);
    } else {
        LITERAL(w, "\"Fwd thread id\": ");
        put_uint(w, forward_thread);
        LITERAL(w, ", \"Sequence number\": ");
        put_int(w, e->sequence);
    }
}

static void put_stack(gen_writer *w, const gen_event *e)
{
    if (e->thread != GEN_MAIN)
        return;
    LITERAL(w, ", \"Call stack\": \"");
    put_text(w, w->names->stacks[e->shape % GEN_STACKS]);
    *w->at++ = '"';
}

static void args_first(gen_writer *w, const gen_event *e)
{
    const gen_inputs *inputs = &w->names->inputs[e->shape % GEN_INPUTS];
    LITERAL(w, "\"Device\": ");
    put_uint(w, PID);
    LITERAL(w, ", \"External id\": ");
    put_uint(w, e->external);
    LITERAL(w, ",\n      \"Trace name\": \"" PROFILER
               "\", \"Trace iteration\": 0 ,\n      \"Input Dims\": [");
    put_text(w, inputs->dims);
    *w->at++ = ']';
    put_stack(w, e);
    LITERAL(w, ", \"Input type\": [");
    put_text(w, inputs->types);
    *w->at++ = ']';
    if (e->sequence >= 0) {
        LITERAL(w, ", ");
        put_sequence(w, e);
    }
}

static void args_middle(gen_writer *w, const gen_event *e)
{
    LITERAL(w, "\"External id\": ");
    put_uint(w, e->external);
    *w->at++ = ',';
    put_index(w);
    if (e->kind == GEN_OPERATOR && e->name != w->names->pad) {
        LITERAL(w, ", ");
        put_inputs(w, e);
    }
    if (e->sequence >= 0) {
        LITERAL(w, ", ");
        put_sequence(w, e);
    }
}

static void args_newest(gen_writer *w, const gen_event *e)
{
    LITERAL(w, "\"External id\": ");
    put_uint(w, e->external);
    LITERAL(w, ",\"Record function id\": ");
    put_uint(w, e->external - 140);
    LITERAL(w, ", ");
    if (e->sequence >= 0) {
        put_sequence(w, e);
        LITERAL(w, ", ");
    }
    if (e->kind == GEN_OPERATOR) {
        put_inputs(w, e);
        LITERAL(w, ", ");
    }
    put_index(w);
}

static void put_step_name(gen_writer *w, const gen_step *step)
{
    LITERAL(w, "ProfilerStep#");
    put_uint(w, step->number);
}

static gen_text name_of(gen_writer *w, const gen_step *step, uint32_t name, char *space)
{
    if (name != UINT32_MAX)
        return w->names->texts[name];
    char *at = w->at; /* written in place, then taken back */
    put_step_name(w, step);
    gen_text text = {space, (uint32_t)(w->at - at)};
    memcpy(space, at, text.size);
    w->at = at;
    return text;
}

static void put_operator(gen_writer *w, const gen_step *step, const gen_event *e)
{
    static const char *const categories[3][2] = {
        {"Operator", "Operator"}, {"cpu_op", "user_annotation"}, {"cpu_op", "user_annotation"}};
    char space[64];
    begin_row(w, categories[w->layout][e->kind == GEN_ANNOTATION],
              name_of(w, step, e->name, space));
    put_thread(w, e->thread);
    put_span(w, e->start_ns, e->end_ns);
    if (w->layout == GEN_TORCH1_8)
        args_first(w, e);
    else if (w->layout == GEN_TORCH1_13)
        args_middle(w, e);
    else
        args_newest(w, e);
    end_row(w);
    if (e->flow)
        put_arrow(w, &(arrow){e->flow, e->flow_ends, false, e->thread, e->start_ns, true});
}

static void put_frame(gen_writer *w, const gen_event *e)
{
    begin_row(w, "python_function", w->names->texts[e->name]);
    put_thread(w, e->thread);
    put_span(w, e->start_ns, e->end_ns);
    LITERAL(w, "\"Python parent id\": ");
    if (e->parent)
        put_uint(w, e->parent);
    else
        LITERAL(w, "null");
    LITERAL(w, ", \"Python id\": ");
    put_uint(w, e->work);
    if (e->kind == GEN_MODULE) {
        LITERAL(w, ", \"Python module id\": ");
        put_uint(w, e->name % 12);
    }
    LITERAL(w, ", ");
    put_index(w);
    end_row(w);
}

static void put_memory(gen_writer *w, const gen_event *e)
{
    begin_event(w);
    if (w->layout == GEN_TORCH1_8)
        LITERAL(w, "\"ph\": \"i\", \"s\": \"t\", \"name\": \"[memory]\",\n    ");
    else
        LITERAL(w, "\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": "
                   "\"[memory]\",\n    ");
    LITERAL(w, "\"pid\": ");
    put_uint(w, PID);
    LITERAL(w, ", \"tid\": ");
    put_int(w, gen_thread_ids[e->thread]);
    LITERAL(w, ",\n    \"ts\": ");
    put_time(w, e->start_ns);
    LITERAL(w, ",\n    \"args\": {\n      ");
    if (w->layout == GEN_TORCH1_8) {
        LITERAL(w, "\"Device Type\": 0, \"Device Id\": -1, \"Bytes\": ");
        put_int(w, e->bytes);
    } else {
        LITERAL(w, "\"Total Reserved\": 21474836480, \"Total Allocated\": ");
        put_int(w, e->work_start_ns);
        LITERAL(w, ", \"Bytes\": ");
        put_int(w, e->bytes);
        LITERAL(w, ", \"Addr\": ");
        put_uint(w, UINT64_C(139911372800000) + (uint64_t)e->work * 512);
        LITERAL(w, ", \"Device Id\": 0, \"Device Type\": 1, ");
        put_index(w);
    }
    end_row(w);
}

void gen_write_host(gen_writer *w, const gen_step *step, int thread)
{
    for (uint32_t i = 0; i < step->host.count; i++) {
        const gen_event *e = &step->host.data[i];
        if (thread >= 0 && e->thread != thread)
            continue;
        if (e->kind == GEN_FRAME || e->kind == GEN_MODULE)
            put_frame(w, e);
        else if (e->kind != GEN_MEMORY)
            put_operator(w, step, e);
        else if (w->layout != GEN_TORCH1_8)
            put_memory(w, e);
    }
}

void gen_write_memory(gen_writer *w, const gen_step *step)
{
    for (uint32_t i = 0; i < step->host.count; i++)
        if (step->host.data[i].kind == GEN_MEMORY)
            put_memory(w, &step->host.data[i]);
}

/* ---- device rows and calls ----------------------------------------------------------------------- */

static void put_external(gen_writer *w, uint64_t id)
{
    LITERAL(w, "\"External id\": ");
    put_uint(w, id);
    next_line(w);
}

static void put_correlation(gen_writer *w, const gen_event *e, int stream)
{
    LITERAL(w, "\"stream\": ");
    put_int(w, stream);
    LITERAL(w, ", \"correlation\": ");
    put_uint(w, e->correlation);
    if (w->layout == GEN_TORCH1_8) {
        LITERAL(w, ", \"external id\": ");
        put_uint(w, e->external);
    }
}

static void put_three(gen_writer *w, const char *key, uint32_t a, uint32_t b)
{
    put_z(w, key);
    put_uint(w, a);
    LITERAL(w, ", ");
    put_uint(w, b);
    LITERAL(w, ", 1]");
}

static void put_collective(gen_writer *w, const gen_event *e)
{
    uint64_t elements = (uint64_t)e->bytes + 1024;
    LITERAL(w, ", \"Collective name\": \"allreduce\", \"In msg nelems\": ");
    put_uint(w, elements);
    LITERAL(w, ", \"Out msg nelems\": ");
    put_uint(w, elements);
    LITERAL(w, ", \"Group size\": 8, \"dtype\": \"Float\", \"In split size\": \"[]\", \"Out split "
               "size\": \"[]\", "
               "\"Process Group Name\": \"0\", \"Process Group Description\": \"default_pg\", "
               "\"Process Group Ranks\": \"[0, 1, 2, 3, 4, 5, 6, 7]\"");
}

static void kernel_args(gen_writer *w, const gen_event *e)
{
    uint32_t blocks = 1 + (e->shape & 8191), warps = 1 + (e->work % 16), sms = 108;
    int decimals = w->layout == GEN_TORCH2 ? 6 : 8;
    if (w->layout != GEN_TORCH1_8)
        put_external(w, e->external);
    LITERAL(w, "\"queued\": 0, \"device\": 0, \"context\": 1");
    next_line(w);
    put_correlation(w, e, gen_stream_ids[e->stream]);
    next_line(w);
    LITERAL(w, "\"registers per thread\": ");
    put_uint(w, 16 + e->work % 30 * 8);
    next_line(w);
    LITERAL(w, "\"shared memory\": ");
    put_uint(w, e->work % 3 ? 0 : (e->work % 97) * 1024);
    next_line(w);
    LITERAL(w, "\"blocks per SM\": ");
    put_ratio(w, blocks, sms, decimals);
    next_line(w);
    LITERAL(w, "\"warps per SM\": ");
    put_ratio(w, (uint64_t)blocks * warps, sms, decimals);
    next_line(w);
    put_three(w, "\"grid\": [", blocks, 1);
    next_line(w);
    put_three(w, "\"block\": [", warps * 32, 1);
    next_line(w);
    LITERAL(w, "\"est. achieved occupancy %\": ");
    put_uint(w, e->shape % 101);
    if (e->family == GEN_NCCL && w->layout == GEN_TORCH2)
        put_collective(w, e);
}

static void copy_args(gen_writer *w, const gen_event *e)
{
    if (w->layout != GEN_TORCH1_8)
        put_external(w, e->external);
    LITERAL(w, "\"device\": 0, \"context\": 1");
    next_line(w);
    put_correlation(w, e, gen_stream_ids[e->stream]);
    next_line(w);
    LITERAL(w, "\"bytes\": ");
    put_int(w, e->bytes);
    LITERAL(w, ", \"memory bandwidth (GB/s)\": ");
    put_ratio(w, (uint64_t)e->bytes, (uint64_t)(e->work_end_ns - e->work_start_ns), 16);
}

static void put_work(gen_writer *w, const gen_event *e)
{
    static const char *const categories[2][3] = {{"Kernel", "Memcpy", "Memset"},
                                                 {"kernel", "gpu_memcpy", "gpu_memset"}};
    int which = e->family == GEN_MEMCPY ? 1 : e->family == GEN_MEMSET ? 2 : 0;
    begin_row(w, categories[w->layout != GEN_TORCH1_8][which], w->names->texts[e->work]);
    put_stream(w, gen_stream_ids[e->stream]);
    put_span(w, e->work_start_ns, e->work_end_ns);
    if (which)
        copy_args(w, e);
    else
        kernel_args(w, e);
    end_row(w);
    put_arrow(w, &(arrow){e->correlation, true, true, gen_stream_ids[e->stream], e->work_start_ns,
                          false});
}

static void put_call(gen_writer *w, const gen_event *e)
{
    const gen_runtime_call *call = &gen_runtime[e->name];
    begin_row(w, w->layout == GEN_TORCH1_8 ? "Runtime" : "cuda_runtime", literal_text(call->name));
    put_thread(w, e->thread);
    put_span(w, e->start_ns, e->end_ns);
    if (w->layout != GEN_TORCH1_8)
        put_external(w, e->external);
    LITERAL(w, "\"cbid\": ");
    put_uint(w, call->cbid);
    LITERAL(w, ", \"correlation\": ");
    put_uint(w, e->correlation);
    if (w->layout == GEN_TORCH1_8) {
        LITERAL(w, ",\n      \"external id\": ");
        put_uint(w, e->external);
        LITERAL(w, ", \"external ts\": ");
        put_time(w, e->start_ns - 3000);
    }
    end_row(w);
    if (w->layout != GEN_TORCH1_8 ||
        e->kind == GEN_LAUNCH) /* calls without work end an arrow, too */
        put_arrow(w, &(arrow){e->correlation, e->kind == GEN_RUNTIME, false, e->thread, e->start_ns,
                              false});
}

static void put_wait(gen_writer *w, const gen_event *e)
{
    bool on_stream = e->stream == GEN_WAITING;
    const char *name = on_stream ? "Stream Wait Event" : "Context Sync";
    int row = on_stream ? gen_stream_ids[GEN_COLLECTIVE] : -1;
    begin_row(w, "cuda_sync", literal_text(name));
    put_stream(w, on_stream ? gen_stream_ids[GEN_WAITING] : -1);
    put_span(w, e->work_start_ns, e->work_end_ns);
    put_external(w, e->external);
    LITERAL(w, "\"cuda_sync_kind\": \"");
    put_z(w, name);
    *w->at++ = '"';
    if (on_stream) {
        LITERAL(w, ", \"wait_on_stream\": 7, \"wait_on_cuda_event_record_corr_id\": ");
        put_uint(w, e->correlation - 1);
        LITERAL(w, ", \"wait_on_cuda_event_id\": 12");
    }
    next_line(w);
    if (row < 0 && w->layout == GEN_TORCH1_13) {
        LITERAL(w, "\"stream\": 4294967295, \"correlation\": ");
        put_uint(w, e->correlation);
    } else {
        put_correlation(w, e, row);
    }
    next_line(w);
    LITERAL(w, "\"device\": 0, \"context\": 1");
    end_row(w);
    put_arrow(w, &(arrow){e->correlation, true, true, on_stream ? gen_stream_ids[GEN_WAITING] : -1,
                          e->work_start_ns, false});
}

void gen_write_device(gen_writer *w, const gen_step *step)
{
    for (uint32_t i = 0; i < step->device.count; i++) {
        const gen_event *e = &step->device.data[i];
        if (e->kind == GEN_LAUNCH)
            put_work(w, e);
        else if (e->kind == GEN_SYNC && w->layout != GEN_TORCH1_8)
            put_wait(w, e);
        put_call(w, e);
    }
}

/* Annotations on the device that cover a step's work on the two busiest streams. */
void gen_write_device_annotations(gen_writer *w, const gen_step *step)
{
    static const int streams[] = {GEN_COMPUTE, GEN_COLLECTIVE};
    for (int i = 0; i < 2; i++) {
        int stream = streams[i];
        int64_t first = step->first_ns[stream], last = step->last_ns[stream];
        char space[64];
        if (!first)
            first = last = step->start_ns + 2;
        begin_row(w, "gpu_user_annotation", name_of(w, step, UINT32_MAX, space));
        put_stream(w, gen_stream_ids[stream]);
        put_span(w, first - 1, last + 1);
        LITERAL(w, "\"External id\": ");
        put_uint(w, 1024);
        end_row(w);
    }
}

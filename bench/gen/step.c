/* Simulates a step of a training program: threads call operators, operators launch work on streams.
 *
 * Each thread has a clock of its own that only advances, so its rows nest; each stream runs its
 * work in order, after the launch. At the end of a step the host waits for the streams. */
#include "gen/gen.h"

#include <stdlib.h>
#include <string.h>

const gen_runtime_call gen_runtime[] = {
    {"cudaLaunchKernel", 211},
    {"cudaLaunchKernelExC", 430},
    {"cudaMemcpyAsync", 41},
    {"cudaMemsetAsync", 51},
    {"cudaDeviceSynchronize", 165},
    {"cudaStreamSynchronize", 131},
    {"cudaStreamWaitEvent", 147},
    /* calls that launch no work */
    {"cudaEventQuery", 138},
    {"cudaEventRecord", 135},
    {"cudaStreamIsCapturing", 317},
    {"cudaStreamGetPriority", 262},
    {"cudaPeekAtLastError", 11},
    {"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 276},
    {"cudaFuncSetAttribute", 273},
    {"cudaDeviceGetStreamPriorityRange", 205},
    {"cudaPointerGetAttributes", 200},
    {"cudaStreamGetCaptureInfo", 389},
    {"cudaHostAlloc", 29}};
enum {
    LAUNCH,
    LAUNCH_EX,
    MEMCPY_ASYNC,
    MEMSET_ASYNC,
    DEVICE_SYNC,
    STREAM_SYNC,
    WAIT_EVENT,
    IDLE_FIRST,
    IDLE_COUNT = 10,
    HOST_ALLOC = IDLE_FIRST + IDLE_COUNT
};

/* Frequencies that differ between the layouts, in thousandths. */
typedef struct mix {
    uint32_t launches;    /* for each place that can launch */
    uint32_t idle_calls;  /* calls that start nothing, for each launch */
    uint32_t memory;      /* events for each allocation */
    uint32_t python;      /* of operators called from Python, those with frames */
    uint32_t call_events; /* JSON events of a call that starts nothing */
    uint32_t waits;       /* of steps' collectives, those with a wait on the stream */
    bool arrows, device_annotations;
} mix;
static const mix mixes[] = {
    [GEN_TORCH1_8] = {1600, 350, 2200, 0, 1, 0, false, false},
    [GEN_TORCH1_13] = {900, 2500, 0, 0, 2, 1000, true, false},
    [GEN_TORCH2] = {850, 1700, 400, 1000, 2, 1000, true, true},
};

#define TEMPLATE_EVENTS 170u /* more than any operator with all it calls leads to */

/* ---- events ------------------------------------------------------------------------------------ */

static gen_event *push_event(gen_step *s, gen_list *list, gen_kind kind, int thread, uint32_t name)
{
    static gen_event nowhere;
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? list->capacity * 2 : 4096;
        gen_event *data = realloc(list->data, capacity * sizeof *data);
        if (!data) {
            s->failed = true;
            return &nowhere;
        }
        list->data = data;
        list->capacity = capacity;
    }
    gen_event *e = &list->data[list->count++];
    *e = (gen_event){.kind = (uint8_t)kind,
                     .thread = (uint8_t)thread,
                     .name = name,
                     .sequence = -1,
                     .start_ns = s->now_ns[thread],
                     .end_ns = s->now_ns[thread]};
    return e;
}

/* thousandths / 1000 as a count, rounded up or down at random so that the mean is right. */
static uint32_t draw_count(gen_step *s, uint32_t thousandths)
{
    return thousandths / 1000 + gen_chance(&s->random, thousandths % 1000);
}

static int64_t some_ns(gen_step *s, uint32_t least, uint32_t more)
{
    return (int64_t)(least + gen_below(&s->random, more));
}

static uint32_t open_row(gen_step *s, gen_kind kind, int thread, uint32_t name)
{
    gen_event *e = push_event(s, &s->host, kind, thread, name);
    e->external = ++s->external;
    e->shape = (uint32_t)(name * 37 + gen_skewed(&s->random, 24));
    s->now_ns[thread] += some_ns(s, 300, 1400);
    s->events++;
    return s->host.count ? s->host.count - 1 : 0;
}

static void close_row(gen_step *s, int thread, uint32_t row)
{
    s->now_ns[thread] += some_ns(s, 150, 700);
    if (!s->failed)
        s->host.data[row].end_ns = s->now_ns[thread];
    s->now_ns[thread] += some_ns(s, 100, 400);
}

static void add_memory_event(gen_step *s, int thread, int64_t bytes)
{
    gen_event *e = push_event(s, &s->host, GEN_MEMORY, thread, 0);
    e->bytes = bytes;
    e->work = gen_below(&s->random, 1u << 24);
    e->work_start_ns = s->allocated += bytes;
    s->now_ns[thread] += some_ns(s, 50, 400);
    s->events++;
}

/* Allocations, and the releases of earlier ones. */
static void run_allocations(gen_step *s, int thread)
{
    for (uint32_t i = draw_count(s, mixes[s->layout].memory); i > 0; i--) {
        int64_t bytes = 512 << gen_below(&s->random, 14);
        bool released = s->allocated > bytes && gen_chance(&s->random, 480);
        add_memory_event(s, thread, released ? -bytes : bytes);
    }
}

/* ---- calls of the runtime, and work on streams -------------------------------------------------- */

static gen_event *add_call(gen_step *s, gen_kind kind, int thread, uint32_t name)
{
    gen_event *e = push_event(s, &s->device, kind, thread, name);
    s->correlation += 1 + gen_below(&s->random, 8);
    e->correlation = s->correlation;
    e->external = s->external;
    return e;
}

static void idle_call(gen_step *s, int thread, uint32_t name)
{
    gen_event *e = add_call(s, GEN_RUNTIME, thread, name);
    e->end_ns = s->now_ns[thread] += some_ns(s, 400, 2600);
    s->now_ns[thread] += some_ns(s, 100, 500);
    s->events += mixes[s->layout].call_events;
}

static void occupy_stream(gen_step *s, gen_event *e, int stream, int64_t duration_ns)
{
    int64_t start = e->start_ns + some_ns(s, 4500, 3500), after = s->free_ns[stream] + 900;
    e->stream = (uint8_t)stream;
    e->work_start_ns = start > after ? start : after;
    e->work_end_ns = e->work_start_ns + duration_ns;
    s->free_ns[stream] = e->work_end_ns;
    s->last_ns[stream] = e->work_end_ns;
    if (!s->first_ns[stream])
        s->first_ns[stream] = e->work_start_ns;
}

/* Most kernels are short; few take long. */
static int64_t duration_ns(gen_step *s, gen_family family)
{
    static const uint32_t longest_us[GEN_FAMILIES] = {90, 60, 420, 500, 130, 900, 60, 12};
    uint32_t us = gen_skewed(&s->random, longest_us[family]);
    return (int64_t)us * 1000 + 1200 + gen_below(&s->random, 1500);
}

static void launch_work(gen_step *s, int thread, gen_family family)
{
    static const uint8_t call_of[GEN_FAMILIES] = {
        [GEN_NCCL] = LAUNCH_EX, [GEN_MEMCPY] = MEMCPY_ASYNC, [GEN_MEMSET] = MEMSET_ASYNC};
    const gen_names *n = s->names;
    gen_range kernels = n->kernels[family];
    for (uint32_t i = draw_count(s, mixes[s->layout].idle_calls); i > 0; i--)
        idle_call(s, thread, IDLE_FIRST + gen_below(&s->random, IDLE_COUNT));
    gen_event *e = add_call(s, GEN_LAUNCH, thread, call_of[family]);
    e->family = (uint8_t)family;
    e->work = kernels.first + gen_skewed(&s->random, kernels.count);
    e->shape = gen_below(&s->random, 1u << 16);
    e->bytes = gen_below(&s->random, 4096);
    e->bytes <<= gen_below(&s->random, 12);
    int stream = family == GEN_NCCL                           ? GEN_COLLECTIVE
                 : family == GEN_MEMCPY && thread == GEN_MAIN ? GEN_COPY
                                                              : GEN_COMPUTE;
    occupy_stream(s, e, stream, duration_ns(s, family));
    e->end_ns = s->now_ns[thread] += some_ns(s, 2600, 6000);
    s->now_ns[thread] += some_ns(s, 200, 900);
    s->events += 4; /* call, work, both ends of the arrow */
}

static void wait_device(gen_step *s)
{
    gen_event *e = add_call(s, GEN_SYNC, GEN_MAIN, DEVICE_SYNC);
    int64_t last = s->now_ns[GEN_MAIN] + 2000;
    for (int i = 0; i < GEN_STREAMS; i++)
        last = last > s->free_ns[i] ? last : s->free_ns[i];
    e->work_start_ns = e->start_ns + 700;
    e->work_end_ns = last + 300;
    e->end_ns = s->now_ns[GEN_MAIN] = last + 1500;
    s->now_ns[GEN_MAIN] += 500;
    s->events += s->layout == GEN_TORCH1_8 ? 1 : 4;
}

static void wait_event(gen_step *s, int thread)
{
    if (!gen_chance(&s->random, mixes[s->layout].waits))
        return;
    gen_event *e = add_call(s, GEN_SYNC, thread, WAIT_EVENT);
    occupy_stream(s, e, GEN_WAITING, 1000);
    e->end_ns = s->now_ns[thread] += some_ns(s, 900, 900);
    s->now_ns[thread] += 200;
    s->events += 4;
}

/* ---- operators ----------------------------------------------------------------------------------- */

static void run_list(gen_step *s, int thread, int32_t node, int64_t sequence);

static uint32_t run_node(gen_step *s, int thread, const gen_node *node, int64_t sequence)
{
    uint32_t row = open_row(s, GEN_OPERATOR, thread, node->name);
    if (!s->failed)
        s->host.data[row].sequence = sequence;
    if (node->allocates)
        run_allocations(s, thread);
    run_list(s, thread, node->child, -1);
    for (int i = 0; i < node->launch_count; i++)
        for (uint32_t k = draw_count(s, mixes[s->layout].launches); k > 0; k--)
            launch_work(s, thread, (gen_family)node->launches[i]);
    close_row(s, thread, row);
    return row;
}

static void run_list(gen_step *s, int thread, int32_t node, int64_t sequence)
{
    for (; node >= 0; node = s->names->nodes[node].next)
        run_node(s, thread, &s->names->nodes[node], sequence);
}

static uint32_t open_frame(gen_step *s, gen_kind kind, uint32_t name)
{
    uint32_t row = open_row(s, kind, GEN_MAIN, name);
    if (s->failed)
        return row;
    s->external--; /* frames have no external id */
    s->host.data[row].parent = s->python_parent;
    s->host.data[row].work = s->python_parent = ++s->python;
    return row;
}

static void close_frame(gen_step *s, uint32_t row)
{
    if (!s->failed)
        s->python_parent = s->host.data[row].parent;
    close_row(s, GEN_MAIN, row);
}

static uint32_t pick_call(gen_step *s)
{
    uint32_t at = gen_below(&s->random, s->names->weight_sum), i = 0;
    while (i + 1 < s->names->call_count && at >= s->names->calls[i].weight)
        at -= s->names->calls[i++].weight;
    return i;
}

static void forward_one(gen_step *s)
{
    const gen_names *n = s->names;
    uint32_t which = pick_call(s), frames[5], open = 0;
    const gen_call *c = &n->calls[which];
    if (gen_chance(&s->random, mixes[s->layout].python)) {
        uint32_t module = n->modules.first + which * 12 + gen_below(&s->random, 12);
        frames[open++] =
            open_frame(s, GEN_FRAME, n->frames.first + gen_skewed(&s->random, n->frames.count));
        frames[open++] = open_frame(s, GEN_MODULE, module);
        frames[open++] = open_frame(s, GEN_FRAME, n->frames.first + gen_below(&s->random, 2));
        frames[open++] = open_frame(s, GEN_FRAME, c->function);
        frames[open++] =
            open_frame(s, GEN_FRAME, n->builtins.first + gen_below(&s->random, n->builtins.count));
    }
    uint32_t row = run_node(s, GEN_MAIN, &n->nodes[c->forward], ++s->sequence);
    if (s->forward_count < sizeof s->forward / sizeof *s->forward) {
        s->forward[s->forward_count] = row;
        s->forward_call[s->forward_count++] = (uint8_t)which;
    }
    while (open)
        close_frame(s, frames[--open]);
}

static bool has_budget(const gen_step *s, uint64_t limit)
{
    return s->events + TEMPLATE_EVENTS < limit;
}

static void run_forward(gen_step *s, uint64_t limit)
{
    const gen_names *n = s->names;
    uint32_t all = open_row(s, GEN_ANNOTATION, GEN_MAIN, n->forward);
    while (has_budget(s, limit) && !s->failed) {
        bool annotated = gen_chance(&s->random, 120);
        uint32_t row = 0,
                 name = n->annotations.first + gen_skewed(&s->random, n->annotations.count);
        if (annotated)
            row = open_row(s, GEN_ANNOTATION, GEN_MAIN, name);
        for (uint32_t i = gen_below(&s->random, 8); i > 0 && has_budget(s, limit); i--)
            forward_one(s);
        if (annotated)
            close_row(s, GEN_MAIN, row);
        forward_one(s);
    }
    close_row(s, GEN_MAIN, all);
}

static void all_reduce(gen_step *s)
{
    uint32_t outer = open_row(s, GEN_OPERATOR, GEN_AUTOGRAD, s->names->bucket);
    wait_event(s, GEN_AUTOGRAD);
    run_list(s, GEN_AUTOGRAD, s->names->all_reduce, -1);
    close_row(s, GEN_AUTOGRAD, outer);
}

static void backward_one(gen_step *s, uint32_t forward_row, const gen_call *c)
{
    int64_t sequence = s->host.data[forward_row].sequence;
    uint32_t evaluate = open_row(s, GEN_OPERATOR, GEN_AUTOGRAD, c->evaluate);
    uint32_t row = open_row(s, GEN_OPERATOR, GEN_AUTOGRAD, c->gradient);
    if (s->failed)
        return;
    s->host.data[evaluate].sequence = s->host.data[row].sequence = sequence;
    if (mixes[s->layout].arrows) {
        s->host.data[forward_row].flow = s->host.data[row].flow = ++s->flow;
        s->host.data[row].flow_ends = true;
        s->events += 2;
    }
    run_list(s, GEN_AUTOGRAD, c->backward, -1);
    close_row(s, GEN_AUTOGRAD, row);
    close_row(s, GEN_AUTOGRAD, evaluate);
    if (gen_chance(&s->random, 300))
        run_list(s, GEN_AUTOGRAD, s->names->accumulate, -1);
    if (gen_chance(&s->random, 15))
        all_reduce(s);
}

/* The main thread waits inside its annotation while the autograd thread works. */
static void run_backward(gen_step *s, uint64_t limit)
{
    uint32_t row = open_row(s, GEN_ANNOTATION, GEN_MAIN, s->names->backward);
    s->now_ns[GEN_AUTOGRAD] = s->now_ns[GEN_MAIN] + 21000;
    while (s->forward_count && has_budget(s, limit) && !s->failed) {
        s->forward_count--;
        backward_one(s, s->forward[s->forward_count],
                     &s->names->calls[s->forward_call[s->forward_count]]);
    }
    s->now_ns[GEN_MAIN] = s->now_ns[GEN_AUTOGRAD] + 9000;
    close_row(s, GEN_MAIN, row);
}

static void run_optimizer(gen_step *s, uint64_t limit)
{
    uint32_t row = open_row(s, GEN_ANNOTATION, GEN_MAIN, s->names->optimizer_step);
    while (has_budget(s, limit) && !s->failed)
        run_list(s, GEN_MAIN, s->names->optimizer, -1);
    close_row(s, GEN_MAIN, row);
    row = open_row(s, GEN_ANNOTATION, GEN_MAIN, s->names->zero_grad);
    close_row(s, GEN_MAIN, row);
}

static void load_batch(gen_step *s, uint64_t limit)
{
    uint32_t row = open_row(s, GEN_ANNOTATION, GEN_MAIN, s->names->next_batch);
    close_row(s, GEN_MAIN, row);
    if (s->now_ns[GEN_LOADER] < s->start_ns)
        s->now_ns[GEN_LOADER] = s->start_ns;
    while (has_budget(s, limit) && !s->failed) {
        run_list(s, GEN_MAIN, s->names->copy_in, -1);
        run_list(s, GEN_LOADER, s->names->pin, -1);
        idle_call(s, GEN_LOADER, HOST_ALLOC);
        s->now_ns[GEN_LOADER] += some_ns(s, 20000, 60000);
    }
}

/* ---- the step ------------------------------------------------------------------------------------ */

static void begin_step(gen_step *s)
{
    s->host.count = s->device.count = s->forward_count = 0;
    s->events = mixes[s->layout].device_annotations ? 2 : 0;
    s->start_ns = s->now_ns[GEN_MAIN];
    memset(s->first_ns, 0, sizeof s->first_ns);
    memset(s->last_ns, 0, sizeof s->last_ns);
    s->number++;
}

void gen_step_run(gen_step *s, uint64_t budget)
{
    begin_step(s);
    uint64_t rest = budget > s->events ? budget - s->events : 0;
    s->budget = budget;
    uint32_t step = open_row(s, GEN_ANNOTATION, GEN_MAIN, UINT32_MAX);
    load_batch(s, rest * 2 / 100);
    run_forward(s, rest * 46 / 100);
    run_backward(s, rest * 90 / 100);
    run_optimizer(s, rest - rest / 50);
    wait_device(s);
    while (s->events < budget && !s->failed) { /* leaves, up to the very count */
        uint32_t row = open_row(s, GEN_OPERATOR, GEN_MAIN, s->names->pad);
        close_row(s, GEN_MAIN, row);
    }
    close_row(s, GEN_MAIN, step);
    s->now_ns[GEN_MAIN] += 15000;
}

void gen_step_init(gen_step *s, const gen_names *names, gen_layout layout, uint64_t seed)
{
    gen_list host = s->host, device = s->device; /* their memory is used again */
    *s = (gen_step){.names = names,
                    .layout = layout,
                    .random = {seed},
                    .host = host,
                    .device = device,
                    .correlation = 34400,
                    .external = 1024,
                    .sequence = 1900,
                    .number = 11,
                    .allocated = INT64_C(3) << 30};
    for (int i = 0; i < GEN_THREADS; i++)
        s->now_ns[i] = GEN_START_NS + 900000 + i * 1000;
}

void gen_step_free(gen_step *s)
{
    free(s->host.data);
    free(s->device.data);
    s->host = s->device = (gen_list){.data = NULL};
}

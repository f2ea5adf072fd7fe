/* Function events: the activities of a trace that are functions, in the order of starts, with views
 * of them. The columns are allocated here; function_memory.c then attributes memory and
 * function_tree.c links callers and device work. */
#include "analyze/summary/summary.h"
#include "trace/bytes/json_value.h"

/* How a row is used. In event_selector.use, with the device flag in bit 4. */
enum { ROW_IGNORED = 0, ROW_FUNCTION = 1, ROW_MEMORY = 2, ROW_OUT_OF_MEMORY = 3 };

/* The state while rows are selected; `count` and `devices` decide which columns are allocated. */
typedef struct event_selector {
    kineto_function_events *e;
    const kineto_trace *t;
    uint8_t *use; /* by row */
    uint64_t count, devices;
    uint32_t last_category, device_track;
    uint64_t sampling_bytes;
    const char *step_pattern;
    ka_memory_record_list memory; /* in the order of rows */
} event_selector;

/* ---- which rows ------------------------------------------------------------------------------ */

#define DEVICE_KINDS                                                                               \
    (KINETO_KIND_BIT(KINETO_KIND_GPU_USER_ANNOTATION) | KINETO_KIND_BIT(KINETO_KIND_GPU_MEMCPY) |  \
     KINETO_KIND_BIT(KINETO_KIND_GPU_MEMSET) | KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL) |    \
     KINETO_KIND_BIT(KINETO_KIND_CUDA_SYNC) | KINETO_KIND_BIT(KINETO_KIND_CUDA_EVENT) |            \
     KINETO_KIND_BIT(KINETO_KIND_CUDA_PROFILER_RANGE) | KINETO_KIND_BIT(KINETO_KIND_MTIA_INSIGHT))
#define NON_FUNCTION_KINDS                                                                         \
    (KINETO_KIND_BIT(KINETO_KIND_EXTERNAL_CORRELATION) | KINETO_KIND_BIT(KINETO_KIND_COUNTER) |    \
     KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER) | KINETO_KIND_BIT(KINETO_KIND_THREAD_STATE) |    \
     KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE))
#define HIDEABLE_KINDS                                                                             \
    (DEVICE_KINDS | KINETO_KIND_BIT(KINETO_KIND_RUNTIME) | KINETO_KIND_BIT(KINETO_KIND_DRIVER))

static bool has_kind(uint64_t mask, uint32_t kind)
{
    return kind < KINETO_KIND_COUNT && mask >> kind & 1;
}

/* True for activities that a vendor's library ran for itself, which libkineto marks with "hidden":
 * 1. */
static bool is_hidden(const kineto_trace *t, const kineto_activity *a)
{
    if (!has_kind(HIDEABLE_KINDS, a->kind) || !kt_is_from_file(t))
        return false;
    kineto_arg arg;
    int64_t number;
    return kt_may_have_member(kt_args_text(t, a->row), "hidden") &&
           kineto_args_find(t, a->row, "hidden", &arg) &&
           (arg.type == KINETO_ARG_BOOL ? arg.u == 1 : kt_arg_whole(&arg, &number) && number == 1);
}

/* One of ROW_…. Memory rows become events unless a function uses them. */
static int classify_row(const kineto_trace *t, const kineto_activity *a)
{
    if (a->kind == KINETO_KIND_MEMORY)
        return ROW_MEMORY;
    if (a->form == KINETO_FORM_INSTANT)
        return kb_string_equal(a->name, kb_string("[OutOfMemory]")) ? ROW_OUT_OF_MEMORY
                                                                    : ROW_IGNORED;
    if (a->form == KINETO_FORM_COUNTER || has_kind(NON_FUNCTION_KINDS, a->kind) ||
        kt_row_is_summary(t, a->row) || ka_is_hidden_operator(a->name) || is_hidden(t, a))
        return ROW_IGNORED;
    return ROW_FUNCTION;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Adds a memory row to the list for function_memory.c. Host sizes are scaled if only a sample was
 * recorded; the device's allocator reports everything. */
static bool append_memory_record(event_selector *p, kineto_row row, bool is_failure)
{
    ka_memory_record m = {.row = row};
    if (is_failure) /* nothing was allocated */
        return kb_vec_push(&p->memory, m);
    ka_memory_args args;
    ka_memory_args_read(p->t, row, &args);
    m.bytes = args.bytes;
    m.on_device = !ka_is_host_memory(args.device_type);
    if (!m.on_device)
        m.bytes = ka_memory_scaled(p->sampling_bytes, m.bytes);
    return kb_vec_push(&p->memory, m);
}

/* ---- selecting ------------------------------------------------------------------------------- */

/* True if the row is device work. Remembers the device's name and track at the first sight of
 * them. */
static bool note_row_device(event_selector *p, const kineto_activity *a)
{
    if (a->category != p->last_category && !p->e->device_name) {
        p->last_category = a->category;
        p->e->device_name =
            ka_device_name_of(kineto_trace_string(p->t, a->category), &p->e->device_type);
    }
    int64_t index;
    bool on_device = a->kind != KINETO_KIND_CPU_OP && kt_track_device(p->t, a->track, &index);
    if (on_device)
        p->device_track = a->track;
    return has_kind(DEVICE_KINDS, a->kind) || on_device;
}

/* Decides about all rows and collects names and memory. In the order of rows, so that each part of
 * a compressed file is decompressed once. False: out of memory. */
static bool select_rows(event_selector *p)
{
    uint64_t rows = kineto_trace_count(p->t);
    p->last_category = p->device_track = UINT32_MAX;
    p->sampling_bytes = ka_memory_sampling(p->t);
    for (kineto_row row = 0; row < rows; row++) {
        kineto_activity a;
        kineto_trace_get(p->t, row, &a);
        int use = classify_row(p->t, &a);
        if (use == ROW_IGNORED)
            continue;
        bool device = use == ROW_FUNCTION && note_row_device(p, &a);
        p->use[row] = (uint8_t)(use | device << 4);
        p->count++;
        p->devices += device;
        if (!ka_summary_names_add(&p->e->names, p->t, a.name_id, a.kind, p->step_pattern) ||
            (use >= ROW_MEMORY && !append_memory_record(p, row, use == ROW_OUT_OF_MEMORY)))
            return false;
    }
    return true;
}

/* Allocates all columns for `count` events; links and flags are not initialised. False: out of
 * memory, what was allocated is freed with the events. */
static bool allocate_event_columns(kineto_function_events *e, uint64_t count, bool devices,
                                   bool memory)
{
    size_t words = ka_column_bytes(count, sizeof(uint32_t)),
           times = ka_column_bytes(count, sizeof(int64_t));
    uint32_t **const columns[] = {&e->row,         &e->track,        &e->name,  &e->parent,
                                  &e->first_child, &e->next_sibling, &e->kernel};
    bool ok = true;
    for (size_t i = 0; i < KB_COUNT(columns); i++)
        ok &= (*columns[i] = malloc(words)) != NULL;
    ok &= (e->start_ns = malloc(times)) != NULL && (e->end_ns = malloc(times)) != NULL;
    ok &= (e->flags = malloc(ka_column_bytes(count, 1))) != NULL;
    ok &= (e->kind = malloc(ka_column_bytes(count, 1))) != NULL;
    if (devices)
        ok &= (e->device_ns = calloc(KB_MAX(count, 1u), sizeof *e->device_ns)) != NULL;
    if (memory) {
        ok &= (e->cpu_bytes = calloc(KB_MAX(count, 1u), sizeof *e->cpu_bytes)) != NULL;
        ok &= (e->device_bytes = calloc(KB_MAX(count, 1u), sizeof *e->device_bytes)) != NULL;
    }
    return ok;
}

static uint8_t make_event_flags(const kineto_activity *a, uint8_t use)
{
    unsigned flags = 0;
    if (use >> 4)
        flags |= KINETO_FUNCTION_DEVICE;
    if ((use & 15) >= ROW_MEMORY)
        flags |= KINETO_FUNCTION_MEMORY;
    if (a->form == KINETO_FORM_ASYNC)
        flags |= KINETO_FUNCTION_ASYNC;
    if (a->kind == KINETO_KIND_USER_ANNOTATION || a->kind == KINETO_KIND_GPU_USER_ANNOTATION)
        flags |= KINETO_FUNCTION_ANNOTATION;
    if (a->kind == KINETO_KIND_PYTHON_FUNCTION)
        flags |= KINETO_FUNCTION_PYTHON;
    return (uint8_t)flags;
}

/* Copies the selected rows into the columns, in the order of starts. False: out of memory. */
static bool fill_event_columns(event_selector *p)
{
    kineto_function_events *e = p->e;
    const kineto_row *order = kineto_trace_time_order(p->t);
    uint64_t rows = kineto_trace_count(p->t);
    for (uint64_t i = 0; order && i < rows; i++) {
        uint8_t use = p->use[order[i]];
        if (!use)
            continue;
        kineto_activity a;
        kineto_trace_get(p->t, order[i], &a);
        KB_ASSERT(e->count < p->count);
        uint32_t at = e->count++;
        e->row[at] = order[i];
        e->start_ns[at] = a.start_ns;
        e->end_ns[at] = (use & 15) >= ROW_MEMORY ? a.start_ns : a.end_ns;
        e->track[at] = a.track;
        e->name[at] = a.name_id;
        e->flags[at] = make_event_flags(&a, use);
        e->kind[at] = (uint8_t)a.kind;
    }
    return order != NULL || !rows;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* True for files that this library did not record: ours have clock snapshots. */
static bool is_pytorch_file(const kineto_trace *t)
{
    return kt_is_from_file(t) && !kineto_trace_snapshot_count(t);
}

/* The device's name by the label of its process, "NPU 0", or by XLA's name, "/device:TPU:1"; NULL:
 * unknown. */
static const char *find_device_name_of_process(const kineto_trace *t, uint32_t track,
                                               uint32_t *type)
{
    static const char mark[] = "/device:";
    kineto_track view;
    kineto_process process;
    kineto_trace_track(t, track, &view);
    kineto_trace_process(t, view.process, &process);
    const char *found = ka_device_name_of(process.label, type),
               *at = memmem(process.name.data, process.name.size, mark, sizeof mark - 1);
    if (found || !at)
        return found;
    return ka_device_name_of(
        kb_string_skip(process.name, (size_t)(at - process.name.data) + sizeof mark - 1), type);
}

/* The requested device, else that of its process, else that of the runtime's categories. PyTorch
 * files without any of these are from CUDA or from HIP, which PyTorch calls CUDA. */
static void choose_device_name(kineto_function_events *e, uint32_t requested,
                               const event_selector *p)
{
    const char *by_process =
        p->device_track == UINT32_MAX
            ? NULL
            : find_device_name_of_process(p->t, p->device_track, &e->device_type);
    e->device_name = by_process ? by_process : e->device_name;
    if (ka_device_type_name(requested)) {
        e->device_name = ka_device_type_name(requested);
        e->device_type = requested;
    } else if (!e->device_name) {
        bool is_cuda = p->devices > 0 && is_pytorch_file(e->trace);
        e->device_name = is_cuda ? "cuda" : "device";
        e->device_type = is_cuda ? KINETO_DEVICE_CUDA : KINETO_DEVICE_PRIVATEUSE1;
    }
}

/* All steps in their order: select, allocate, fill, attribute memory, build the tree. False: out of
 * memory. */
static bool compute_events(kineto_function_events *e, event_selector *p,
                           const kineto_function_events_options *options)
{
    bool devices;
    p->use = calloc(KB_MAX(kineto_trace_count(p->t), 1u), 1);
    if (!p->use || !ka_summary_names_create(&e->names, p->t) || !select_rows(p))
        return false;
    devices = p->devices > 0 || options->device_elapsed;
    if (!allocate_event_columns(e, p->count, devices, p->memory.count > 0) ||
        !fill_event_columns(p))
        return false;
    choose_device_name(e, options->device_type, p);
    return ka_attribute_memory(e, &p->memory) && ka_build_call_tree(e, options);
}

kineto_status kineto_function_events_create(const kineto_trace *trace,
                                            const kineto_function_events_options *options,
                                            kineto_function_events **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, __func__, "trace, out", trace, out);
    kineto_function_events_options all = {.size = sizeof all};
    kineto_status status =
        kb_options_read(&all, sizeof all, options, "kineto_function_events_options", err);
    if (status)
        return status;
    kineto_function_events *e = calloc(1, sizeof *e);
    if (!e)
        return kb_fail_memory(err, "functions of a trace");
    e->references = 1;
    e->trace = kineto_trace_retain(trace);
    e->as_torch = all.as_torch;
    event_selector p = {.e = e, .t = trace, .step_pattern = all.step_pattern};
    bool ok = compute_events(e, &p, &all);
    free(p.use);
    kb_vec_free(&p.memory);
    if (!ok) {
        kineto_function_events_destroy(e);
        return kb_fail_memory(err, "functions of a trace");
    }
    *out = e;
    return KINETO_OK;
}

void ka_events_retain(kineto_function_events *e)
{
    __atomic_add_fetch(&e->references, 1, __ATOMIC_RELAXED);
}

void kineto_function_events_destroy(kineto_function_events *e)
{
    if (!e || __atomic_sub_fetch(&e->references, 1, __ATOMIC_ACQ_REL))
        return;
    void *const columns[] = {e->row,          e->track,  e->name,      e->parent,
                             e->first_child,  e->kernel, e->start_ns,  e->end_ns,
                             e->next_sibling, e->flags,  e->device_ns, e->cpu_bytes,
                             e->device_bytes, e->kind,   e->shared_ns};
    for (size_t i = 0; i < KB_COUNT(columns); i++)
        free(columns[i]);
    ka_summary_names_free(&e->names);
    kineto_trace_release(e->trace);
    free(e);
}

/* ---- views ----------------------------------------------------------------------------------- */

uint32_t kineto_function_events_count(const kineto_function_events *events)
{
    return events ? events->count : 0;
}

const char *kineto_function_events_device(const kineto_function_events *events)
{
    return events ? events->device_name : "device";
}

void ka_event_sums_get(const kineto_function_events *e, uint32_t i, ka_event_sums *out)
{
    KB_ASSERT(i < e->count);
    bool device = e->flags[i] & KINETO_FUNCTION_DEVICE, async = e->flags[i] & KINETO_FUNCTION_ASYNC;
    *out = (ka_event_sums){.cpu_ns = device ? 0 : ka_event_length_ns(e, i),
                           .device_ns = e->device_ns ? e->device_ns[i] : 0,
                           .cpu_bytes = e->cpu_bytes ? e->cpu_bytes[i] : 0,
                           .device_bytes = e->device_bytes ? e->device_bytes[i] : 0};
    if (device)
        out->self_device_ns = out->device_ns;
    if (device || async)
        return;
    out->self_cpu_ns =
        ka_add_saturated(out->cpu_ns, e->shared_ns && !e->as_torch ? e->shared_ns[i] : 0);
    out->self_device_ns = out->device_ns;
    out->self_cpu_bytes = out->cpu_bytes;
    out->self_device_bytes = out->device_bytes;
    for (uint32_t c = e->first_child[i]; c != KINETO_NO_EVENT; c = e->next_sibling[c]) {
        out->self_cpu_ns = ka_subtract_saturated(out->self_cpu_ns, ka_event_length_ns(e, c));
        if (e->device_ns)
            out->self_device_ns = ka_subtract_saturated(out->self_device_ns, e->device_ns[c]);
        if (e->cpu_bytes) {
            out->self_cpu_bytes = ka_subtract_saturated(out->self_cpu_bytes, e->cpu_bytes[c]);
            out->self_device_bytes =
                ka_subtract_saturated(out->self_device_bytes, e->device_bytes[c]);
        }
    }
}

/* Device work has no children; the columns hold other links for it. */
static void copy_event_links(const kineto_function_events *e, uint32_t i,
                             kineto_function_event *out)
{
    bool device = out->flags & KINETO_FUNCTION_DEVICE;
    out->parent = e->parent[i];
    out->first_child = device ? KINETO_NO_EVENT : e->first_child[i];
    out->next_sibling = device ? KINETO_NO_EVENT : e->next_sibling[i];
    out->kernel = e->kernel[i];
    if (device) {
        out->device_type = e->device_type;
        kt_track_device(e->trace, out->track, &out->device_index);
    }
}

bool kineto_function_events_get(const kineto_function_events *events, uint32_t index,
                                kineto_function_event *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (!events || index >= events->count)
        return false;
    ka_event_sums sums;
    ka_event_sums_get(events, index, &sums);
    *out = (kineto_function_event){
        .row = events->row[index],
        .flags = events->flags[index],
        .track = events->track[index],
        .name = ka_event_name_key(events, index),
        .overload =
            kb_intern_get(&events->names.texts, events->names.overload[events->name[index]]),
        .trace_name = kineto_trace_string(events->trace, events->name[index]),
        .start_ns = events->start_ns[index],
        .end_ns = events->end_ns[index],
        .cpu_time_total_ns = sums.cpu_ns,
        .self_cpu_time_total_ns = sums.self_cpu_ns,
        .device_time_total_ns = sums.device_ns,
        .self_device_time_total_ns = sums.self_device_ns,
        .cpu_memory_usage = sums.cpu_bytes,
        .self_cpu_memory_usage = sums.self_cpu_bytes,
        .device_memory_usage = sums.device_bytes,
        .self_device_memory_usage = sums.self_device_bytes};
    copy_event_links(events, index, out);
    return true;
}

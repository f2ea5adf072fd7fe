/* Accessors of events under PyTorch's names for them (torch._C._autograd._KinetoEvent). A value
 * comes from a column of the row, or from its arguments under the keys that PyTorch writes. Pure
 * reads: any thread. */
#include "analyze/summary/flops.h"
#include "profiler/fallback.h"
#include "profiler/profiler.h"
#include "trace/bytes/json_value.h"

/* ---- an event -------------------------------------------------------------------------------- */

/* The event of a caller; an empty one for NULL. */
static const kineto_event *get_event(const kineto_event *e)
{
    static const kineto_event none = {.row = KINETO_NO_ROW, .activity.name = {"", 0}};
    return e ? e : &none;
}

/* ---- arguments ------------------------------------------------------------------------------- */

/* An argument of the event's row. False: the event is empty or has no such argument. */
static bool find_event_arg(const kineto_event *e, const char *key, kineto_arg *arg)
{
    e = get_event(e);
    return e->trace && kineto_args_find(e->trace, e->row, key, arg);
}

/* A text, list or object argument as it stands in the trace; empty: none. */
static kineto_string get_text_arg(const kineto_event *e, const char *key)
{
    kineto_arg arg;
    return find_event_arg(e, key, &arg) && arg.type >= KINETO_ARG_STRING ? arg.text
                                                                         : (kineto_string){"", 0};
}

/* A whole-number argument, or `absent`. */
static int64_t get_int_arg(const kineto_event *e, const char *key, int64_t absent)
{
    kineto_arg arg;
    int64_t number;
    return find_event_arg(e, key, &arg) && kt_arg_whole(&arg, &number) ? number : absent;
}

static bool is_json_list(kineto_string text) { return text.size && text.data[0] == '['; }

bool kineto_event_extra_meta(const kineto_event *e, const char *key, kineto_arg *out)
{
    return find_event_arg(e, key, out);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* The number that the recorder gave a thread, from the header's "ckineto_threads": {"pid/tid":
 * number, …}; 0: unknown. */
static uint64_t find_thread_number(const kineto_trace *t, int64_t pid, int64_t tid)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%lld/%lld", (long long)pid, (long long)tid);
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string key, value;
        kineto_trace_metadata(t, i, &key, &value);
        if (!kb_string_equal(key, kb_string("ckineto_threads")))
            continue;
        int64_t number;
        return kt_value_whole(kt_member_of(value, wanted), &number) && number > 0 ? (uint64_t)number
                                                                                  : 0;
    }
    return 0;
}

/* Process and track of an event. True if the track is a thread; else `tid` is a stream or another
 * id. */
static bool get_track_thread(const kineto_event *e, int64_t *pid, int64_t *tid)
{
    e = get_event(e);
    kineto_track track;
    kineto_process process;
    if (!e->trace)
        return false;
    kineto_trace_track(e->trace, e->activity.track, &track);
    kineto_trace_process(e->trace, track.process, &process);
    *pid = process.pid;
    *tid = track.id;
    return track.type == KINETO_TRACK_THREAD;
}

/* The host event that stands for `e`: the launch of device work, else `e` itself. */
static bool get_host_event(const kineto_event *e, kineto_event *out)
{
    e = get_event(e);
    kineto_row launch = e->trace ? kineto_trace_launch(e->trace, e->row) : KINETO_NO_ROW;
    if (launch == KINETO_NO_ROW) {
        *out = *e;
        return true;
    }
    return kineto_event_of(e->trace, launch, out);
}

uint64_t kineto_event_start_thread_id(const kineto_event *e)
{
    e = get_event(e);
    kineto_event host;
    int64_t pid = 0, tid, start = get_int_arg(e, "Start thread", 0);
    bool is_thread = get_host_event(e, &host) && get_track_thread(&host, &pid, &tid);
    if (start)
        return find_thread_number(e->trace, pid, start);
    return is_thread ? find_thread_number(e->trace, pid, tid) : 0;
}

uint64_t kineto_event_end_thread_id(const kineto_event *e)
{
    int64_t pid = 0, tid = 0, end = get_int_arg(e, "End thread", 0);
    (void)get_track_thread(e, &pid, &tid);
    return end ? find_thread_number(e->trace, pid, end) : kineto_event_start_thread_id(e);
}

uint64_t kineto_event_fwd_thread_id(const kineto_event *e)
{
    return (uint64_t)get_int_arg(e, "Fwd thread id", 0);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

uint32_t kineto_event_activity_type(const kineto_event *e) { return get_event(e)->activity.kind; }

kineto_string kineto_event_shapes(const kineto_event *e) { return get_text_arg(e, "Input Dims"); }
bool kineto_event_has_shapes(const kineto_event *e) { return is_json_list(kineto_event_shapes(e)); }
kineto_string kineto_event_strides(const kineto_event *e)
{
    return get_text_arg(e, "Input Strides");
}
kineto_string kineto_event_dtypes(const kineto_event *e) { return get_text_arg(e, "Input type"); }
bool kineto_event_has_types(const kineto_event *e) { return is_json_list(kineto_event_dtypes(e)); }

kineto_string kineto_event_concrete_inputs(const kineto_event *e)
{
    return get_text_arg(e, "Concrete Inputs");
}
bool kineto_event_has_concrete_inputs(const kineto_event *e)
{
    return is_json_list(kineto_event_concrete_inputs(e));
}

/* Keys that the profiler itself writes for an operator; all others are the program's keyword
 * inputs. */
static bool is_own_key(kineto_string key)
{
    static const char *const own[] = {"Ev Idx",           "Record function id",
                                      "Sequence number",  "Fwd thread id",
                                      "Input Dims",       "Input Strides",
                                      "Input type",       "Concrete Inputs",
                                      "Input Tensors",    "Output Dims",
                                      "Output Strides",   "Output type",
                                      "Concrete Outputs", "Output Tensors",
                                      "Call stack",       "Module Hierarchy",
                                      "Debug handle",     "Backend",
                                      "Start thread",     "End thread",
                                      "Native stack",     "Python id",
                                      "Python parent id", "Python module id",
                                      "Python thread",    "CallFrom",
                                      "Collective name",  "hidden"};
    return kb_string_is_one_of(key, own, KB_COUNT(own));
}

static bool is_counter_name(kineto_string name);

bool kineto_event_kwinput(const kineto_event *e, uint32_t n, kineto_arg *out)
{
    e = get_event(e);
    kineto_args_iterator it;
    bool is_operator = e->trace && (e->activity.kind == KINETO_KIND_CPU_OP ||
                                    e->activity.kind == KINETO_KIND_USER_ANNOTATION);
    if (!is_operator)
        return false;
    kineto_args_begin(e->trace, e->row, &it);
    while (kineto_args_next(&it, out))
        if (!is_own_key(out->key) && !is_counter_name(out->key) && n-- == 0)
            return true;
    return false;
}

bool kineto_event_has_kwinputs(const kineto_event *e)
{
    kineto_arg arg;
    return kineto_event_kwinput(e, 0, &arg);
}

bool kineto_event_is_hidden(const kineto_event *e)
{
    kineto_arg arg;
    if (!find_event_arg(e, "hidden", &arg))
        return false;
    return arg.type == KINETO_ARG_STRING ? kb_string_equal(arg.text, kb_string("1")) : arg.u == 1;
}

uint64_t kineto_event_flops(const kineto_event *e)
{
    e = get_event(e);
    uint64_t flops = 0;
    if (e->trace)
        (void)ka_flops(e->trace, e->row, &flops);
    return flops;
}

/* ---- identity of an event -------------------------------------------------------------------- */

int64_t kineto_event_sequence_nr(const kineto_event *e)
{
    return get_int_arg(e, "Sequence number", -1);
}

kineto_string kineto_event_stack(const kineto_event *e) { return get_text_arg(e, "Call stack"); }
bool kineto_event_has_stack(const kineto_event *e) { return kineto_event_stack(e).size != 0; }

kineto_scope kineto_event_scope(const kineto_event *e)
{
    e = get_event(e);
    kineto_scope scope = KINETO_ACTIVITY_SCOPE(e->activity.flags);
    if (scope != KINETO_SCOPE_FUNCTION)
        return scope;
    if (e->activity.kind == KINETO_KIND_USER_ANNOTATION)
        return KINETO_SCOPE_USER_SCOPE;
    /* Files have no scope, but only backward functions have the thread of a forward one. */
    return kineto_event_fwd_thread_id(e) ? KINETO_SCOPE_BACKWARD_FUNCTION : scope;
}

kineto_string kineto_event_module_hierarchy(const kineto_event *e)
{
    return get_text_arg(e, "Module Hierarchy");
}
bool kineto_event_has_module_hierarchy(const kineto_event *e)
{
    return kineto_event_module_hierarchy(e).size != 0;
}

int64_t kineto_event_debug_handle(const kineto_event *e)
{
    return get_int_arg(e, "Debug handle", -1);
}

/* Position of the dot in "aten::add.Tensor", after which the overload's name begins; 0: it has
 * none. */
static size_t find_overload(const kineto_event *e)
{
    e = get_event(e);
    kineto_string name = e->activity.name;
    if (e->activity.kind != KINETO_KIND_CPU_OP || !name.size || !kb_string_contains(name, "::"))
        return 0;
    const char *dot = memrchr(name.data, '.', name.size);
    if (!dot || dot == name.data || dot + 1 == name.data + name.size)
        return 0;
    return memchr(dot, ':', (size_t)(name.data + name.size - dot)) ? 0 : (size_t)(dot - name.data);
}

kineto_string kineto_event_name(const kineto_event *e)
{
    e = get_event(e);
    size_t at = find_overload(e);
    return at ? (kineto_string){e->activity.name.data, at} : e->activity.name;
}

kineto_string kineto_event_overload_name(const kineto_event *e)
{
    e = get_event(e);
    size_t at = find_overload(e);
    return at ? (kineto_string){e->activity.name.data + at + 1, e->activity.name.size - at - 1}
              : (kineto_string){"", 0};
}

/* ---- devices and times ----------------------------------------------------------------------- */

static bool is_memory_event(const kineto_event *e)
{
    kineto_arg arg;
    e = get_event(e);
    return e->activity.form == KINETO_FORM_INSTANT && find_event_arg(e, "Device Type", &arg);
}

/* The device type of a category such as "xpu_runtime"; 0: the category names no vendor. */
static uint32_t parse_device_category(const kineto_event *e)
{
    e = get_event(e);
    static const struct {
        const char *prefix;
        uint32_t type;
    } vendors[] = {{"xpu", KINETO_DEVICE_XPU},
                   {"mtia", KINETO_DEVICE_MTIA},
                   {"hpu", KINETO_DEVICE_HPU},
                   {"privateuse1", KINETO_DEVICE_PRIVATEUSE1}};
    kineto_string category = kineto_trace_string(e->trace, e->activity.category);
    for (size_t i = 0; i < KB_COUNT(vendors); i++) {
        size_t n = strlen(vendors[i].prefix);
        if (category.size >= n && memcmp(category.data, vendors[i].prefix, n) == 0)
            return vendors[i].type;
    }
    return 0;
}

/* Kernels of all vendors have the same category, so that the launch decides; CUDA if neither names
 * a vendor. */
static uint32_t find_device_type(const kineto_event *e)
{
    kineto_event host;
    uint32_t type = parse_device_category(e);
    if (!type && get_host_event(e, &host))
        type = parse_device_category(&host);
    return type ? type : KINETO_DEVICE_CUDA;
}

uint32_t kineto_event_device_type(const kineto_event *e)
{
    e = get_event(e);
    kineto_track track;
    if (!e->trace)
        return KINETO_DEVICE_CPU;
    if (is_memory_event(e))
        return (uint32_t)get_int_arg(e, "Device Type", 0);
    kineto_trace_track(e->trace, e->activity.track, &track);
    return track.type == KINETO_TRACK_STREAM ? find_device_type(e) : KINETO_DEVICE_CPU;
}

int64_t kineto_event_device_index(const kineto_event *e)
{
    int64_t pid = 0, tid;
    if (is_memory_event(e))
        return get_int_arg(e, "Device Id", -1);
    (void)get_track_thread(e, &pid, &tid);
    return pid;
}

int64_t kineto_event_nbytes(const kineto_event *e) { return get_int_arg(e, "Bytes", 0); }
int64_t kineto_event_start_ns(const kineto_event *e) { return get_event(e)->activity.start_ns; }
int64_t kineto_event_end_ns(const kineto_event *e) { return get_event(e)->activity.end_ns; }
int64_t kineto_event_duration_ns(const kineto_event *e)
{
    e = get_event(e);
    return kb_length_ns(e->activity.start_ns, e->activity.end_ns);
}

bool kineto_event_is_async(const kineto_event *e)
{
    return get_event(e)->activity.form == KINETO_FORM_ASYNC;
}

uint64_t kineto_event_correlation_id(const kineto_event *e)
{
    e = get_event(e);
    return e->activity.correlation_id ? e->activity.correlation_id : e->activity.external_id;
}

uint64_t kineto_event_linked_correlation_id(const kineto_event *e)
{
    e = get_event(e);
    kineto_event host;
    bool is_device = kineto_event_device_type(e) != KINETO_DEVICE_CPU;
    if (!is_device)
        return 0;
    if (e->activity.external_id)
        return e->activity.external_id;
    return get_host_event(e, &host) ? host.activity.external_id : 0;
}

uint64_t kineto_event_external_id(const kineto_event *e) { return get_event(e)->activity.external_id; }

int64_t kineto_event_device_resource_id(const kineto_event *e)
{
    int64_t pid, tid = 0;
    (void)get_track_thread(e, &pid, &tid);
    return tid;
}

kineto_string kineto_event_backend(const kineto_event *e) { return get_text_arg(e, "Backend"); }

bool kineto_event_is_python_function(const kineto_event *e)
{
    return get_event(e)->activity.kind == KINETO_KIND_PYTHON_FUNCTION;
}

bool kineto_event_is_user_annotation(const kineto_event *e)
{
    e = get_event(e);
    return e->activity.kind == KINETO_KIND_USER_ANNOTATION ||
           e->activity.kind == KINETO_KIND_GPU_USER_ANNOTATION;
}

/* ---- fallbacks, counters --------------------------------------------------------------------- */

/* The device time that a fallback measured, if it measured on this type of device; -1: none, as in
 * PyTorch. */
static int64_t get_elapsed_us(const kineto_event *e, uint32_t device)
{
    e = get_event(e);
    int64_t ns;
    const kineto_profiler_result *r = e->result;
    if (!r || !r->fallback || r->fallback_device != device || !e->activity.external_id ||
        !kp_fallback_find(r->fallback, e->activity.external_id, &ns, NULL))
        return -1;
    return ns / 1000;
}

int64_t kineto_event_cuda_elapsed_us(const kineto_event *e)
{
    return get_elapsed_us(e, KINETO_DEVICE_CUDA);
}

int64_t kineto_event_privateuse1_elapsed_us(const kineto_event *e)
{
    return get_elapsed_us(e, KINETO_DEVICE_PRIVATEUSE1);
}

/* True for the counters of docs/reference/stacks.md and numbered repetitions of them ("cycles 2"). */
static bool is_counter_name(kineto_string name)
{
    static const char *const names[] = {
        "cycles",       "instructions",     "pagefaults",    "backend-stall-cycles",
        "task-clock",   "page-faults",      "minor-faults",  "frontend-stall-cycles",
        "major-faults", "context-switches", "cpu-migrations"};
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        size_t n = strlen(names[i]);
        if (name.size >= n && memcmp(name.data, names[i], n) == 0 &&
            (name.size == n || name.data[n] == ' '))
            return true;
    }
    return false;
}

bool kineto_event_perf_counter(const kineto_event *e, uint32_t n, kineto_string *name,
                               uint64_t *value)
{
    e = get_event(e);
    kineto_args_iterator it;
    kineto_arg arg;
    if (!e->trace || !name || !value)
        return false;
    kineto_args_begin(e->trace, e->row, &it);
    while (kineto_args_next(&it, &arg)) {
        if (arg.type > KINETO_ARG_UINT || !is_counter_name(arg.key) || n-- != 0)
            continue;
        *name = arg.key;
        *value = arg.u;
        return true;
    }
    return false;
}

/* ---- arguments as JSON ----------------------------------------------------------------------- */

/* An argument as a member of a JSON object; lists and objects are JSON already. */
static void write_arg_member(kb_json *j, const kineto_arg *arg)
{
    kb_json_key(j, arg->key);
    switch (arg->type) {
    case KINETO_ARG_INT:
        kb_json_int(j, arg->i);
        return;
    case KINETO_ARG_UINT:
        kb_json_uint(j, arg->u);
        return;
    case KINETO_ARG_DOUBLE:
        kb_json_double(j, arg->d);
        return;
    case KINETO_ARG_BOOL:
        kb_json_bool(j, arg->u != 0);
        return;
    case KINETO_ARG_STRING:
        kb_json_string(j, arg->text);
        return;
    default:
        kb_json_raw(j, arg->text);
    }
}

char *kineto_event_metadata_json(const kineto_event *e)
{
    e = get_event(e);
    kineto_args_iterator it;
    kineto_arg arg;
    if (!e->trace || (e->result && !e->result->exposes_metadata))
        return calloc(1, 1);
    kb_sink *sink = NULL;
    char *text = NULL;
    size_t bytes;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL))
        return NULL;
    kb_json j;
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    kineto_args_begin(e->trace, e->row, &it);
    while (kineto_args_next(&it, &arg))
        write_arg_member(&j, &arg);
    kb_json_object_end(&j);
    (void)kb_sink_take(sink, &text, &bytes, NULL);
    (void)kb_sink_close(sink, NULL);
    return text;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* The first flow that starts or ends at the event. A result has a map for that; without one all
 * flows are searched. */
static bool find_event_flow(const kineto_event *e, kineto_flow *out)
{
    e = get_event(e);
    uint64_t count = e->trace ? kineto_trace_flow_count(e->trace) : 0, at;
    if (e->result)
        return kp_result_flow(e->result, e->row, out);
    for (at = 0; at < count; at++) {
        kineto_trace_flow(e->trace, at, out);
        if (out->from == e->row || out->to == e->row)
            return true;
    }
    return false;
}

uint64_t kineto_event_flow_id(const kineto_event *e)
{
    kineto_flow f;
    return find_event_flow(e, &f) ? f.id : 0;
}

uint32_t kineto_event_flow_type(const kineto_event *e)
{
    kineto_flow f;
    return find_event_flow(e, &f) ? f.type : 0;
}

bool kineto_event_flow_start(const kineto_event *e)
{
    kineto_flow f;
    return find_event_flow(e, &f) && f.from == e->row;
}

/* ---- Python ---------------------------------------------------------------------------------- */

int64_t kineto_event_python_id(const kineto_event *e) { return get_int_arg(e, "Python id", -1); }
int64_t kineto_event_python_parent_id(const kineto_event *e)
{
    return get_int_arg(e, "Python parent id", -1);
}
int64_t kineto_event_python_module_id(const kineto_event *e)
{
    return get_int_arg(e, "Python module id", -1);
}

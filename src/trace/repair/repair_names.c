/* Names of members that the format defines, and the values that readers accept for them. Where the
 * name of a known member follows, the value before it has certainly ended. */
#include "trace/bytes/json_text.h"
#include "trace/repair/repair_impl.h"

/* clang-format off */
static const char *const header_names[] = {
    "traceEvents", "schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds",
    "distributedInfo", "traceName", "record_shapes", "with_stack", "with_flops", "with_modules",
    "profile_memory", "trace_id", "host_name", "username", "cupti_version", "cuda_runtime_version",
    "cuda_driver_version", "hip_runtime_version", "hip_driver_version", "rocprofiler-sdk_version",
    "otherData", "stackFrames", "systemTraceEvents", "samples", "metadata",
    "controllerTraceDataKey", "ckineto"};
/* clang-format on */

/* clang-format off */
static const char *const event_names[] = {
    "ph", "name", "cat", "pid", "tid", "ts", "dur", "args", "id", "id2", "bp", "s", "sf", "stack",
    "tts", "tdur", "esf", "estack", "cname", "scope", "bind_id", "flow_in", "flow_out"};
/* clang-format on */

/* clang-format off */
static const char *const args_names[] = {
    "External id", "external id", "External ID", "correlation", "Ev Idx", "cbid", "Call stack",
    "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "Output Dims", "Output type",
    "Sequence number", "Fwd thread id", "Record function id", "Module Hierarchy", "Python id",
    "Python parent id", "Python module id", "Python thread", "Profiler Event Index", "Trace name",
    "Trace iteration", "Backend", "CallFrom", "Addr", "Bytes", "Total Allocated", "Total Reserved",
    "Device Type", "Device Id", "queued", "device", "context", "stream", "registers per thread",
    "shared memory", "blocks per SM", "warps per SM", "grid", "block", "est. achieved occupancy %",
    "occupancy", "graph id", "graph node id", "priority", "channel", "channel_type", "bytes",
    "memory bandwidth (GB/s)", "fromDevice", "inDevice", "toDevice", "cuda_sync_kind",
    "wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id", "event_id",
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "In split size",
    "Out split size", "Process Group Name", "Process Group Description", "Process Group Ranks",
    "Global rank start", "Global rank stride", "Input Tensors start", "Output Tensors start",
    "Dst Rank", "Src Rank", "Seq", "Comms Id", "Op count", "finished", "kernel_file", "kernel_hash",
    "kernel_backend", "arguments lost"};
/* clang-format on */

int kt_known_member(kt_level level, kineto_string key)
{
    static const struct {
        const char *const *names;
        size_t count;
    } tables[] = {[KT_LEVEL_HEADER] = {header_names, KB_COUNT(header_names)},
                  [KT_LEVEL_EVENT] = {event_names, KB_COUNT(event_names)},
                  [KT_LEVEL_ARGS] = {args_names, KB_COUNT(args_names)},
                  [KT_LEVEL_INNER] = {NULL, 0}};
    char room[KT_PLAIN_KEY_BYTES];
    key = kt_json_plain_key(key, room);
    for (size_t i = 0; i < tables[level].count; i++)
        if (kb_string_equal(key, kb_string(tables[level].names[i])))
            return (int)i;
    return -1;
}

/* A process or thread: a number, or a text of limited size. */
static bool is_place_value(kineto_string value)
{
    int64_t number;
    return kt_json_is_string(value) ? value.size <= 1024 : kt_json_int(value, &number);
}

static bool is_time_value(kineto_string value, int ts_shift)
{
    int64_t ns;
    return kt_json_scaled(value, ts_shift, &ns);
}

static bool begins_number(kineto_string value)
{
    return value.size && memchr("-0123456789", value.data[0], 11) != NULL;
}

static bool key_equals(kineto_string key, const char *name)
{
    return kb_string_equal(key, kb_string(name));
}

static bool is_place_key(kineto_string key)
{
    return key_equals(key, "pid") || key_equals(key, "tid");
}
static bool is_time_key(kineto_string key)
{
    return key_equals(key, "ts") || key_equals(key, "dur");
}

bool kt_fix_odd_place(kineto_string key, kineto_string value, kineto_string *whole)
{
    *whole = (kineto_string){"", 0};
    char c = value.data[0];
    if (!is_place_key(key) || !(c == '-' || kb_is_digit(c)) || is_place_value(value))
        return false;
    const char *point = memchr(value.data, '.', value.size), *end = value.data + value.size;
    kineto_string before = {value.data, point ? (size_t)(point - value.data) : 0};
    while (point && end[-1] == '0')
        end--;
    if (point && end == point + 1 && is_place_value(before))
        *whole = before;
    return true;
}

bool kt_fix_fits(kineto_string key, kineto_string value, int ts_shift)
{
    bool text = kt_json_is_string(value);
    if (is_place_key(key))
        return is_place_value(value);
    if (key_equals(key, "dur") && text) /* "nan", as repair writes NaN */
        return kt_json_is_not_finite(kt_json_inside(value));
    if (is_time_key(key))
        return is_time_value(value, ts_shift);
    if (key_equals(key, "args") || key_equals(key, "id2"))
        return value.data[0] == '{';
    if (key_equals(key, "id") || key_equals(key, "bind_id"))
        return text || begins_number(value) || value.data[0] == 'n';
    return text || !(key_equals(key, "cat") || key_equals(key, "name"));
}

bool kt_fix_too_large(kineto_string key, kineto_string value, int ts_shift)
{
    if (kt_json_is_string(value))
        value = kt_json_inside(value);
    return is_time_key(key) && begins_number(value) && kb_json_valid(value) &&
           !is_time_value(value, ts_shift);
}

bool kt_fix_is_unquoted(kineto_string key, kineto_string value)
{
    return (key_equals(key, "cat") || key_equals(key, "name")) && begins_number(value);
}

/* A single byte above ASCII is not UTF-8; the U+FFFD that replaces it is not a phase. */
char kt_fix_phase(kineto_string value)
{
    char room[KT_PLAIN_KEY_BYTES];
    if (!kt_json_is_string(value))
        return '\0';
    kineto_string phase = kt_json_plain_key(kt_json_inside(value), room);
    return phase.size == 1 && !(phase.data[0] & 0x80) ? phase.data[0] : '\0';
}

kineto_string kt_fix_quoted_time(kineto_string key, kineto_string value)
{
    if (!is_time_key(key) || !kt_json_is_string(value))
        return (kineto_string){"", 0};
    kineto_string inside = kt_json_inside(value);
    return is_time_value(inside, 0) && kb_json_valid(inside) ? inside : (kineto_string){"", 0};
}

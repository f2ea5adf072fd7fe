/* Decides what each event of a perf.data file is for; see perf_events.h. */
#include "trace/import/perf_events.h"

#define MAX_PAIRS 65536u

/* The better an event measures CPU time, the higher. */
typedef enum time_class { CLASS_NONE, CLASS_INSTRUCTIONS, CLASS_CYCLES, CLASS_CLOCK } time_class;

static bool name_contains(const kt_perf_attr *a, const char *part)
{
    return kb_string_contains(a->name, part);
}

static time_class classify_time(const kt_perf_attr *a)
{
    uint32_t number = (uint32_t)a->config; /* the upper half is the unit of a hybrid processor */
    if (a->type == PERF_TYPE_SOFTWARE)
        return a->config == PERF_COUNT_SW_CPU_CLOCK || a->config == PERF_COUNT_SW_TASK_CLOCK
                   ? CLASS_CLOCK
                   : CLASS_NONE;
    if (a->type == PERF_TYPE_TRACEPOINT || a->type == PERF_TYPE_BREAKPOINT)
        return CLASS_NONE;
    if (a->type == PERF_TYPE_HARDWARE && number == PERF_COUNT_HW_INSTRUCTIONS)
        return CLASS_INSTRUCTIONS;
    if (a->type == PERF_TYPE_HARDWARE)
        return number == PERF_COUNT_HW_CPU_CYCLES || number == PERF_COUNT_HW_REF_CPU_CYCLES
                   ? CLASS_CYCLES
                   : CLASS_NONE;
    if (name_contains(a, "stall") || name_contains(a, "miss"))
        return CLASS_NONE;
    if (name_contains(a, "cycles") || name_contains(a, "ibs_op"))
        return CLASS_CYCLES;
    return name_contains(a, "instructions") ? CLASS_INSTRUCTIONS : CLASS_NONE;
}

static bool is_switch_tracepoint(const kt_perf_attr *a)
{
    return a->type == PERF_TYPE_TRACEPOINT && kb_string_starts_with(a->name, "sched:sched_switch");
}

static bool is_waking_tracepoint(const kt_perf_attr *a)
{
    return a->type == PERF_TYPE_TRACEPOINT && (kb_string_starts_with(a->name, "sched:sched_waking") ||
                                               kb_string_starts_with(a->name, "sched:sched_wakeup"));
}

static bool is_switch_counter(const kt_perf_attr *a)
{
    return a->type == PERF_TYPE_SOFTWARE && a->config == PERF_COUNT_SW_CONTEXT_SWITCHES;
}

/* ---- which events measure CPU time ----------------------------------------------------------- */

static void count_samples(const kt_perf_file *file, kt_perf_events *events)
{
    kt_perf_sample sample;
    for (size_t i = 0; i < file->records.count; i++) {
        const uint8_t *at = file->records.data[i].at;
        if (kt_perf_header(at).type != PERF_RECORD_SAMPLE || !kt_perf_sample_read(file, at, &sample))
            continue;
        events->of_attr[sample.attr].samples++;
        events->samples++;
    }
}

/* The first of the best class; with it the same event of other units of a hybrid processor. */
static void choose_time_events(const kt_perf_file *file, kt_perf_events *events)
{
    time_class best = CLASS_NONE;
    const kt_perf_attr *first = NULL;
    for (size_t i = 0; i < file->attrs.count; i++) {
        time_class c = classify_time(&file->attrs.data[i]);
        if (c > best && events->of_attr[i].samples) {
            best = c;
            first = &file->attrs.data[i];
        }
    }
    for (size_t i = 0; first && i < file->attrs.count; i++) {
        const kt_perf_attr *a = &file->attrs.data[i];
        bool is_other_unit = a->type != first->type || a->config >> 32 != first->config >> 32;
        if (classify_time(a) != best || (a != first && (best == CLASS_CLOCK || !is_other_unit)))
            continue;
        events->of_attr[i].role = KT_PERF_CPU_TIME;
        events->of_attr[i].ns_per_unit = 1.0;
        events->of_attr[i].is_estimated = best != CLASS_CLOCK;
        events->has_cpu_time = true;
    }
}

/* ---- the time of a cycle --------------------------------------------------------------------- */

/* The median of (time since the thread's last sample) / period. While a thread runs it is the time of a
 * unit; longer times, in which it did not run, are fewer. 0: unknown. */
static double estimate_unit(const kt_perf_file *file, size_t attr, double *ratios)
{
    kb_map last = {0};
    size_t count = 0;
    kt_perf_sample sample;
    for (size_t i = 0; i < file->records.count && count < MAX_PAIRS; i++) {
        const uint8_t *at = file->records.data[i].at;
        if (kt_perf_header(at).type != PERF_RECORD_SAMPLE ||
            !kt_perf_sample_read(file, at, &sample) || sample.attr != attr)
            continue;
        uint64_t *before = kb_map_insert(&last, sample.tid, 0, NULL);
        if (before && *before && sample.period && sample.time_ns > *before)
            ratios[count++] = (double)(sample.time_ns - *before) / (double)sample.period;
        if (before)
            *before = sample.time_ns;
    }
    kb_map_free(&last);
    qsort(ratios, count, sizeof *ratios, kb_compare_doubles);
    return count ? ratios[count / 2] : 0.0;
}

static bool estimate_units(const kt_perf_file *file, kt_perf_events *events)
{
    double *ratios = NULL;
    for (size_t i = 0; i < file->attrs.count; i++) {
        kt_perf_event *e = &events->of_attr[i];
        if (e->role != KT_PERF_CPU_TIME || !e->is_estimated)
            continue;
        if (!ratios && !(ratios = malloc(MAX_PAIRS * sizeof *ratios)))
            return false;
        e->ns_per_unit = estimate_unit(file, i, ratios);
    }
    free(ratios);
    return true;
}

/* ---- switches -------------------------------------------------------------------------------- */

/* The offset of a field in the text that describes a tracepoint: "field:… prev_pid;\toffset:24;". */
static void find_field(kineto_string format, const char *name, uint32_t *offset)
{
    const char *at = format.size == 0 ? NULL : memmem(format.data, format.size, name, strlen(name));
    const char *end = format.data + format.size;
    uint32_t value = 0;
    if (!at || end - at < 40)
        return;
    at += strlen(name); /* with its tab and "offset:" */
    if (!kb_is_digit(*at))
        return;
    for (int digits = 0; kb_is_digit(*at) && digits < 6; digits++)
        value = value * 10 + (uint32_t)(*at++ - '0');
    *offset = value;
}

/* The text that describes a tracepoint. `begin` is its first line. Empty: there is none. */
static kineto_string find_format(const kt_perf_file *file, const char *begin)
{
    kineto_string formats = file->features[KT_PERF_TRACING_DATA];
    const char *at = formats.size ? memmem(formats.data, formats.size, begin, strlen(begin)) : NULL;
    if (!at)
        return (kineto_string){"", 0};
    size_t left = (size_t)(formats.data + formats.size - at);
    const char *next = memmem(at + 1, left - 1, "\nname: ", 7);
    return (kineto_string){at, next ? (size_t)(next - at) : KB_MIN(left, (size_t)4096)};
}

static kt_perf_sched_switch find_switch_layout(const kt_perf_file *file)
{
    kt_perf_sched_switch layout = {24, 32, 56, 24}; /* as it has been since Linux 2.6.33 */
    kineto_string format = find_format(file, "name: sched_switch\n");
    find_field(format, "prev_pid;\toffset:", &layout.prev_pid);
    find_field(format, "prev_state;\toffset:", &layout.prev_state);
    find_field(format, "next_pid;\toffset:", &layout.next_pid);
    find_field(find_format(file, "name: sched_waking\n"), " pid;\toffset:", &layout.woken_pid);
    return layout;
}

bool kt_perf_sched_waking_read(const kt_perf_events *events, const kt_perf_sample *sample,
                               uint32_t *tid)
{
    uint32_t at = events->sched_switch.woken_pid;
    if (!sample->raw || sample->raw_bytes < sizeof *tid || at > sample->raw_bytes - sizeof *tid)
        return false;
    memcpy(tid, sample->raw + at, sizeof *tid);
    return true;
}

bool kt_perf_sched_switch_read(const kt_perf_events *events, const kt_perf_sample *sample,
                               uint32_t *prev_tid, uint32_t *next_tid, bool *is_preempted)
{
    /* Bits of the state above these say that the thread was preempted. */
    enum { STATE_BITS = 0xff };
    const kt_perf_sched_switch *layout = &events->sched_switch;
    uint32_t last = KB_MAX(KB_MAX(layout->prev_pid, layout->next_pid), layout->prev_state);
    uint64_t state;
    if (!sample->raw || sample->raw_bytes < sizeof state ||
        last > sample->raw_bytes - sizeof state)
        return false;
    memcpy(prev_tid, sample->raw + layout->prev_pid, sizeof *prev_tid);
    memcpy(next_tid, sample->raw + layout->next_pid, sizeof *next_tid);
    memcpy(&state, sample->raw + layout->prev_state, sizeof state);
    *is_preempted = (state & STATE_BITS) == 0;
    return true;
}

static void find_switch_events(const kt_perf_file *file, kt_perf_events *events)
{
    for (size_t i = 0; i < file->attrs.count; i++) {
        const kt_perf_attr *a = &file->attrs.data[i];
        events->has_switches |= a->has_switches;
        if (is_switch_counter(a))
            events->of_attr[i].role = KT_PERF_SWITCH_STACK;
        if (is_waking_tracepoint(a))
            events->of_attr[i].role = KT_PERF_SCHED_WAKING;
    }
    for (size_t i = 0; i < file->attrs.count; i++) {
        if (!is_switch_tracepoint(&file->attrs.data[i]))
            continue;
        events->by_tracepoint |= !events->has_switches;
        events->of_attr[i].role = events->by_tracepoint ? KT_PERF_SCHED_SWITCH
                                                        : KT_PERF_SWITCH_STACK;
    }
    events->sched_switch = find_switch_layout(file);
    events->has_switches |= events->by_tracepoint;
}

/* ---- all ------------------------------------------------------------------------------------- */

bool kt_perf_events_read(const kt_perf_file *file, kt_perf_events *out)
{
    *out = (kt_perf_events){.of_attr = calloc(file->attrs.count + 1, sizeof *out->of_attr)};
    if (!out->of_attr)
        return false;
    count_samples(file, out);
    choose_time_events(file, out);
    find_switch_events(file, out);
    return estimate_units(file, out);
}

void kt_perf_events_free(kt_perf_events *events) { free(events->of_attr); }

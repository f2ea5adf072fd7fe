/* Memory events of a trace, summarised: for each process and device the allocated bytes, the peak,
 * and estimates if the events are a sample. */
#include "analyze/summary/summary.h"
#include "cli/style.h"
#include "cli/summary/summary.h"

/* ---- collecting ------------------------------------------------------------------------------ */

/* Found through a hash; equal hashes are resolved by probing. NULL: out of memory. */
static kc_memory_device *find_memory_device(kc_memory *m, uint32_t process, const ka_memory_args *e)
{
    uint64_t identity[3] = {process, (uint64_t)e->device_type, (uint64_t)e->device_index};
    for (uint64_t hash = kb_hash(identity, sizeof identity);; hash++) {
        bool created = false;
        uint64_t *at = kb_map_insert(&m->by_key, hash, m->devices.count, &created);
        if (!at)
            return NULL;
        if (created) {
            kc_memory_device p = {
                .process = process, .device_type = e->device_type, .device = e->device_index};
            return kb_vec_push(&m->devices, p) ? &m->devices.data[m->devices.count - 1] : NULL;
        }
        kc_memory_device *p = &m->devices.data[*at];
        if (p->process == process && p->device_type == e->device_type &&
            p->device == e->device_index)
            return p;
    }
}

/* Negative sizes are releases. The weight of a sampled event is what it represents. */
static void add_memory_event(const kc_memory *m, kc_memory_device *p, const ka_memory_args *e)
{
    uint64_t bytes = e->bytes < 0 ? 0 - (uint64_t)e->bytes : (uint64_t)e->bytes;
    double weight = ka_memory_weight(m->sampling_bytes, bytes);
    if (e->bytes < 0) {
        p->releases++;
        p->released_bytes += (double)bytes;
        p->releases_estimate += weight;
        p->released_bytes_estimate += weight * (double)bytes;
    } else {
        p->allocations++;
        p->allocated_bytes += (double)bytes;
        p->allocations_estimate += weight;
        p->allocated_bytes_estimate += weight * (double)bytes;
        p->largest_bytes = KB_MAX(p->largest_bytes, bytes);
    }
    if (!e->has_total)
        return;
    p->has_totals = true;
    p->last_total_bytes = e->total_bytes;
    p->peak_bytes = KB_MAX(p->peak_bytes, e->total_bytes);
}

/* In order of time, so that the last total is the latest. */
kineto_status kc_memory_make(const kineto_trace *trace, kc_memory *out, kineto_error *err)
{
    uint64_t count = kineto_trace_count(trace);
    memset(out, 0, sizeof *out);
    out->sampling_bytes = ka_memory_sampling(trace);
    const kineto_row *order = kineto_trace_time_order(trace);
    bool ok = order || !count;
    for (uint64_t i = 0; i < count && ok; i++) {
        kineto_activity a;
        kineto_track track;
        kineto_trace_get(trace, order[i], &a);
        if (a.kind != KINETO_KIND_MEMORY)
            continue;
        ka_memory_args e;
        ka_memory_args_read(trace, order[i], &e);
        if (!e.has_bytes)
            continue;
        kineto_trace_track(trace, a.track, &track);
        kc_memory_device *p = find_memory_device(out, track.process, &e);
        ok = p != NULL;
        if (p)
            add_memory_event(out, p, &e);
    }
    kb_map_free(&out->by_key);
    if (ok)
        return KINETO_OK;
    kc_memory_free(out);
    return kb_fail_memory(err, NULL);
}

void kc_memory_free(kc_memory *m)
{
    kb_vec_free(&m->devices);
    kb_map_free(&m->by_key);
}

/* ---- showing --------------------------------------------------------------------------------- */

/* Names of c10::DeviceType, as far as PyTorch profiles them. */
static const char *get_device_name(int64_t type)
{
    static const struct {
        int64_t type;
        const char *name;
    } names[] = {{0, "CPU"},  {1, "CUDA"}, {6, "HIP"},   {12, "XPU"},
                 {13, "MPS"}, {15, "HPU"}, {19, "MTIA"}, {20, "PrivateUse1"}};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (names[i].type == type)
            return names[i].name;
    return "device";
}

/* Saturating. */
static uint64_t round_to_count(double value)
{
    return value < 0x1p63 ? (uint64_t)(value + 0.5) : UINT64_MAX;
}

/* "-" if no event has totals. */
static kb_text format_total(const kc_memory_device *p, int64_t bytes)
{
    return p->has_totals ? kb_bytes((uint64_t)KB_MAX(bytes, 0)) : (kb_text){"-"};
}

/* Estimates, and the number of samples if the events are a sample. */
static void print_memory_device(const kc_memory *m, const kc_memory_device *p,
                                const kineto_trace *trace, FILE *out)
{
    char where[120], number[24] = "", device[24] = "";
    kineto_process process;
    kineto_trace_process(trace, p->process, &process);
    if (p->device >= 0)
        snprintf(device, sizeof device, " %lld", (long long)p->device);
    if (!kt_process_text_of(trace, p->process).data)
        snprintf(number, sizeof number, "%lld ", (long long)process.pid);
    snprintf(where, sizeof where, "%s%.*s, %s%s", number,
             (int)KB_MIN(process.name.size, (size_t)40), process.name.data,
             get_device_name(p->device_type), device);
    fputs("  ", out);
    kc_put_name(out, kb_string(where), 28);
    fprintf(out, " %12s %12s", format_total(p, p->peak_bytes).s,
            format_total(p, p->last_total_bytes).s);
    fprintf(out, " %12s %14s", kc_count(round_to_count(p->allocations_estimate)).s,
            kb_bytes(round_to_count(p->allocated_bytes_estimate)).s);
    fprintf(out, " %12s", kc_count(round_to_count(p->releases_estimate)).s);
    if (m->sampling_bytes > 1)
        fprintf(out, " %10s", kc_count(p->allocations + p->releases).s);
    fputc('\n', out);
}

#define MAX_DEVICES 32u

/* Estimates if the events are a sample; nothing without memory events. */
void kc_memory_print(const kc_memory *m, const kineto_trace *trace, FILE *out)
{
    bool sampled = m->sampling_bytes > 1;
    size_t count = kc_count_shown(m->devices.count, MAX_DEVICES);
    if (count == 0)
        return;
    fputs("\n  ", out);
    kc_put_styled(out, KC_BOLD, "%-28s %12s %12s %12s %14s %12s%s",
                  sampled ? "memory (a sample, scaled up)" : "memory", "peak", "at the end", "allocations", "of",
                  "releases", sampled ? "    samples" : "");
    fputc('\n', out);
    for (size_t i = 0; i < count; i++)
        print_memory_device(m, &m->devices.data[i], trace, out);
    if (count < m->devices.count)
        kc_put_more(out, m->devices.count - count);
}

/* Both the recorded sums and the estimates. */
void kc_memory_json(const kc_memory *m, const kineto_trace *trace, kb_json *j)
{
    kb_json_put_uint(j, "memory_sampling_bytes", m->sampling_bytes);
    kb_json_key_z(j, "memory");
    kb_json_array_begin(j);
    for (size_t i = 0; i < m->devices.count; i++) {
        const kc_memory_device *p = &m->devices.data[i];
        kineto_process process;
        kineto_trace_process(trace, p->process, &process);
        kb_json_object_begin(j);
        kb_json_put_string(j, "process", process.name);
        kb_json_put_int(j, "device_type", p->device_type);
        kb_json_put_int(j, "device", p->device);
        kb_json_put_uint(j, "allocations", p->allocations);
        kb_json_put_double(j, "allocated_bytes", p->allocated_bytes);
        kb_json_put_double(j, "allocations_estimate", p->allocations_estimate);
        kb_json_put_double(j, "allocated_bytes_estimate", p->allocated_bytes_estimate);
        kb_json_put_uint(j, "releases", p->releases);
        kb_json_put_double(j, "released_bytes", p->released_bytes);
        kb_json_put_double(j, "releases_estimate", p->releases_estimate);
        kb_json_put_double(j, "released_bytes_estimate", p->released_bytes_estimate);
        kb_json_put_uint(j, "largest_bytes", p->largest_bytes);
        if (p->has_totals) {
            kb_json_put_int(j, "peak_bytes", p->peak_bytes);
            kb_json_put_int(j, "last_total_bytes", p->last_total_bytes);
        }
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Activities of kernels, and of graphs as a whole. Values that are the same for all launches of a
 * configuration are registered with the host as one set (value_sets.c); only the rest is sent with each
 * launch. */
#include "layouts.h"

#include "cuda.h"

#include <stdio.h>

/* ---- the set of a launch configuration ------------------------------------------------------- */

/* Words of the key. Those from DEVICE to SHARED_DYNAMIC are adjacent in a record and copied at
 * once. */
enum {
    FLAGS = 1,
    REGISTERS,
    DEVICE,
    CONTEXT,
    STREAM,
    GRID,
    BLOCK = GRID + 3,
    SHARED_STATIC = BLOCK + 3,
    SHARED_DYNAMIC,
    CHANNEL,
    CHANNEL_TYPE,
    CLUSTER,
    PRIORITY = CLUSTER + 3,
    KEY_WORDS
};
enum { WAS_QUEUED = 1, IN_GRAPH = 2 };
_Static_assert(KEY_WORDS <= sizeof(cp_set_key) / sizeof(uint32_t), "a key holds all words");

/* The key of a kernel's set: everything that is the same for equal launches. */
static cp_set_key make_kernel_key(const cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version;
    cp_set_key key = {{[0] = CP_SET_KERNEL,
                       [REGISTERS] = cp_kernel_registers(version, record),
                       [CHANNEL] = cp_kernel_channel(version, record),
                       [CHANNEL_TYPE] = cp_kernel_channel_type(version, record),
                       [CLUSTER] = cp_kernel_cluster_x(version, record),
                       [CLUSTER + 1] = cp_kernel_cluster_y(version, record),
                       [CLUSTER + 2] = cp_kernel_cluster_z(version, record),
                       [PRIORITY] = (uint32_t)cp_kernel_priority(version, record)}};
    memcpy(&key.words[DEVICE], record + CP_KERNEL_PLACE_AT,
           (SHARED_DYNAMIC - DEVICE + 1) * sizeof key.words[0]);
    if (cp_kernel_queued(version, record))
        key.words[FLAGS] |= WAS_QUEUED;
    if (cp_kernel_graph(version, record) || cp_kernel_graph_node(version, record))
        key.words[FLAGS] |= IN_GRAPH;
    return key;
}

static uint64_t multiply_xyz(const uint32_t *xyz) { return (uint64_t)xyz[0] * xyz[1] * xyz[2]; }

static void copy_xyz(const uint32_t *xyz, int64_t *out)
{
    for (int i = 0; i < 3; i++)
        out[i] = (int32_t)xyz[i];
}

/* ---- occupancy ------------------------------------------------------------------------------- */

/* Writes "WARPS|REGS", in Kineto's format. */
static void write_limit_names(const cp_occupancy *o, char *text, size_t size)
{
    const struct {
        bool is;
        const char *word;
    } all[] = {{o->by_warps, "WARPS"},
               {o->by_registers, "REGS"},
               {o->by_shared, "SMEM"},
               {o->by_blocks, "BLOCKS"}};
    size_t n = 0;
    snprintf(text, size, "none");
    for (size_t i = 0; i < CP_COUNT(all); i++)
        if (all[i].is)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? "|" : "", all[i].word);
}

/* Kineto's object "occupancy". The number of barriers of a kernel is unknown, so that their limit
 * is written as none. Returns the length; 0: it does not fit. */
static size_t write_occupancy_json(const cp_occupancy *o, char *json, size_t size)
{
    char limits[40];
    write_limit_names(o, limits, sizeof limits);
    int n =
        snprintf(json, size,
                 "{\"activeBlocksPerMultiprocessor\": %u, \"limitingFactors\": \"%s\", "
                 "\"blockLimitRegs\": %u, \"blockLimitSharedMem\": %u, \"blockLimitWarps\": %u, "
                 "\"blockLimitBlocks\": %u, \"blockLimitBarriers\": %d, "
                 "\"allocatedRegistersPerBlock\": %u, \"allocatedSharedMemPerBlock\": %u}",
                 o->blocks_per_sm, limits, o->limit_registers, o->limit_shared, o->limit_warps,
                 o->limit_blocks, INT32_MAX, o->registers_per_block, o->shared_per_block);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

/* False: the device or the launch is not supported. */
static bool compute_occupancy(const cp_set_key *key, uint32_t sm_count, cp_occupancy *out)
{
    const uint32_t *w = key->words;
    uint64_t threads = multiply_xyz(&w[BLOCK]);
    if (threads == 0 || threads > 65536)
        return false;
    cp_launch launch = {.device = w[DEVICE],
                        .registers_per_thread = w[REGISTERS],
                        .threads_per_block = (uint32_t)threads,
                        .shared_static_bytes = w[SHARED_STATIC],
                        .shared_dynamic_bytes = w[SHARED_DYNAMIC],
                        .block_count = multiply_xyz(&w[GRID]),
                        .sm_count = sm_count};
    return cp_occupancy_of(cp_device_of(w[DEVICE]), &launch, out);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Values of the launch configuration, in Kineto's order. */
static void describe_launch_values(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                                   cp_set_scratch *scratch)
{
    const uint32_t *w = key->words;
    uint32_t green_sms = cp_green_context_sms(d, w[CONTEXT]);
    cp_occupancy o;
    bool has_occupancy = compute_occupancy(key, green_sms, &o);
    if (green_sms)
        cp_value_uint(out, "green context SMs", green_sms);
    cp_value_uint(out, "registers per thread", w[REGISTERS]);
    cp_value_uint(out, "shared memory", (uint64_t)w[SHARED_STATIC] + w[SHARED_DYNAMIC]);
    if (has_occupancy) {
        cp_value_double(out, "blocks per SM", o.blocks_each);
        cp_value_double(out, "warps per SM", o.warps_each);
    }
    copy_xyz(&w[GRID], scratch->grid);
    copy_xyz(&w[BLOCK], scratch->block);
    cp_value_bytes(out, "grid", KINETO_PLUGIN_VALUE_INTS, scratch->grid, 3);
    cp_value_bytes(out, "block", KINETO_PLUGIN_VALUE_INTS, scratch->block, 3);
    if (!has_occupancy)
        return;
    cp_value_uint(out, "est. achieved occupancy %", o.estimated_percent);
    size_t size = write_occupancy_json(&o, scratch->json, sizeof scratch->json);
    cp_value_bytes(out, "occupancy", KINETO_PLUGIN_VALUE_JSON, scratch->json, size);
}

/* All values of a launch configuration. Which exist depends on CUPTI's version, as in Kineto. */
static void describe_kernel_set(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                                cp_set_scratch *scratch)
{
    const uint32_t *w = key->words;
    if (!(w[FLAGS] & WAS_QUEUED))
        cp_value_uint(out, "queued", 0);
    cp_value_uint(out, "device", w[DEVICE]);
    cp_value_uint(out, "context", w[CONTEXT]);
    cp_value_uint(out, "stream", w[STREAM]);
    describe_launch_values(d, key, out, scratch);
    if (d->version >= 14 && !(w[FLAGS] & IN_GRAPH)) {
        cp_value_uint(out, "graph id", 0);
        cp_value_uint(out, "graph node id", 0);
    }
    if (d->version >= 130100)
        cp_value_int(out, "priority", (int32_t)w[PRIORITY]);
    if (d->version >= 17) {
        cp_value_uint(out, "channel", w[CHANNEL]);
        cp_value_uint(out, "channel_type", w[CHANNEL_TYPE]);
    }
    if (multiply_xyz(&w[CLUSTER]) > 1) {
        copy_xyz(&w[CLUSTER], scratch->cluster);
        cp_value_bytes(out, "cluster", KINETO_PLUGIN_VALUE_INTS, scratch->cluster, 3);
    }
}

/* Values that differ from launch to launch. */
static void add_launch_values(const cp_decoder *d, const cp_set_key *key, const uint8_t *record,
                              cp_values *v)
{
    if (key->words[FLAGS] & WAS_QUEUED && d->clock != KINETO_PLUGIN_CLOCK_TICKS)
        cp_value_uint(v, "queued", cp_kernel_queued(d->version, record) / 1000); /* us, as Kineto */
    if (key->words[FLAGS] & IN_GRAPH) {
        cp_value_uint(v, "graph id", cp_kernel_graph(d->version, record));
        cp_value_uint(v, "graph node id", cp_kernel_graph_node(d->version, record));
    }
}

void cp_read_kernel(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, device = cp_kernel_device(version, record),
             stream = cp_kernel_stream(version, record);
    KinetoPlugin_Activity a;
    cp_values v;
    cp_set_scratch scratch;
    cp_syncs_note_work(d, cp_kernel_context(version, record), device, stream);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL) ||
        !cp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                           cp_kernel_start(version, record), cp_kernel_end(version, record)))
        return;
    cp_set_key key = make_kernel_key(d, record);
    cp_text name = cp_names_kernel(d->names, cp_kernel_name(version, record));
    v.count = 0;
    a.metadataSet = cp_get_value_set(d, &key, describe_kernel_set, &v, &scratch);
    add_launch_values(d, &key, record, &v);
    cp_place_activity(d, &a, device, stream, cp_kernel_correlation(version, record));
    a.pName = name.data;
    a.nameSize = name.size;
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, CP_KIND_CONCURRENT_KERNEL, &a);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

enum { GRAPH_ID = 1, GRAPH_DEVICE, GRAPH_CONTEXT, GRAPH_STREAM };

static void describe_graph_set(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                               cp_set_scratch *scratch)
{
    (void)d;
    (void)scratch;
    cp_value_uint(out, "device", key->words[GRAPH_DEVICE]);
    cp_value_uint(out, "context", key->words[GRAPH_CONTEXT]);
    cp_value_uint(out, "stream", key->words[GRAPH_STREAM]);
    cp_value_uint(out, "graph id", key->words[GRAPH_ID]);
}

/* INT32_MAX stands for work of the host, with which a graph may begin; its end may be on a device
 * nevertheless. */
static uint32_t find_graph_device(const cp_decoder *d, const uint8_t *record)
{
    uint32_t begin = cp_graph_device(d->version, record),
             end = cp_graph_end_device(d->version, record);
    if (begin != INT32_MAX)
        return begin;
    return end != INT32_MAX ? end : 0;
}

void cp_read_graph(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version, stream = cp_graph_stream(version, record),
             device = find_graph_device(d, record);
    cp_set_key key = {{[0] = CP_SET_GRAPH,
                       [GRAPH_ID] = cp_graph_graph(version, record),
                       [GRAPH_DEVICE] = device,
                       [GRAPH_CONTEXT] = cp_graph_context(version, record),
                       [GRAPH_STREAM] = stream}};
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    cp_set_scratch scratch;
    char name[40];
    cp_syncs_note_work(d, key.words[GRAPH_CONTEXT], device, stream);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL) ||
        !cp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                           cp_graph_start(version, record), cp_graph_end(version, record)))
        return;
    a.metadataSet = cp_get_value_set(d, &key, describe_graph_set, &v, &scratch);
    cp_place_activity(d, &a, device, stream, cp_graph_correlation(version, record));
    a.pName = name;
    a.nameSize = (uint32_t)snprintf(name, sizeof name, "CUDA graph %u", key.words[GRAPH_ID]);
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, CP_KIND_GRAPH_TRACE, &a);
}

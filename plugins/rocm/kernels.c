/* Activities of kernels, with the names and values that CUDA's have. Values that are the same for all
 * launches of a configuration are registered with the host as one set. */
#include "rocm.h"

/* Words of the key of a launch configuration. */
enum { DEVICE = 1, STREAM, FLAGS, REGISTERS, SCALAR, LOCAL, PRIVATE, GRID, BLOCK = GRID + 3, KEY_END = BLOCK + 3 };
enum { KNOWN_SYMBOL = 1, IN_GRAPH = 2 };
_Static_assert(KEY_END <= sizeof(cp_set_key) / sizeof(uint32_t), "a key holds all words");

/* The SDK counts work-items; CUDA, and Kineto for HIP, count groups. */
static uint32_t count_groups(uint32_t items, uint32_t group)
{
    return group ? (uint32_t)(((uint64_t)items + group - 1) / group) : items;
}

/* Everything that is the same for equal launches. */
static cp_set_key make_launch_key(const rp_kernel_record *k, const rp_symbol *symbol, int32_t device,
                                  uint32_t stream, bool in_graph)
{
    cp_set_key key = {{[0] = RP_SET_KERNEL,
                       [DEVICE] = (uint32_t)device,
                       [STREAM] = stream,
                       [FLAGS] = (symbol ? KNOWN_SYMBOL : 0u) | (in_graph ? IN_GRAPH : 0u),
                       [REGISTERS] = symbol ? symbol->vector_registers : 0,
                       [SCALAR] = symbol ? symbol->scalar_registers : 0,
                       [LOCAL] = k->group_bytes,
                       [PRIVATE] = k->private_bytes}};
    for (size_t i = 0; i < 3; i++) {
        key.words[GRID + i] = count_groups(k->grid[i], k->block[i]);
        key.words[BLOCK + i] = k->block[i];
    }
    return key;
}

typedef struct launch_scratch {
    int64_t grid[3], block[3];
} launch_scratch;

/* Values of the launch configuration, in Kineto's order. */
static void describe_launch(const cp_set_key *key, cp_values *out, launch_scratch *scratch)
{
    const uint32_t *w = key->words;
    cp_value_int(out, "device", (int32_t)w[DEVICE]);
    cp_value_uint(out, "stream", w[STREAM]);
    if (w[FLAGS] & KNOWN_SYMBOL) {
        cp_value_uint(out, "registers per thread", w[REGISTERS]);
        cp_value_uint(out, "scalar registers", w[SCALAR]);
    }
    cp_value_uint(out, "shared memory", w[LOCAL]);
    cp_value_uint(out, "private memory per thread", w[PRIVATE]);
    for (size_t i = 0; i < 3; i++) {
        scratch->grid[i] = w[GRID + i];
        scratch->block[i] = w[BLOCK + i];
    }
    cp_value_bytes(out, "grid", KINETO_PLUGIN_VALUE_INTS, scratch->grid, 3);
    cp_value_bytes(out, "block", KINETO_PLUGIN_VALUE_INTS, scratch->block, 3);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* One launch of a graph: its kernels have the id of the launch, and become parts of the graph. SDKs that
 * do not report launches of graphs have the kernels alone. */
void rp_read_graph(rp_decoder *d, const rp_record *record)
{
    const rp_graph_tail *t = rp_tail(d, record, sizeof *t);
    if (!t)
        return;
    size_t i = record->internal % RP_GRAPHS;
    d->graphs[i].launch = record->internal;
    d->graphs[i].graph = t->graph;
}

/* The graph that this launch is of; 0: none that is known. */
static uint64_t find_graph(const rp_decoder *d, const rp_record *record)
{
    size_t i = record->internal % RP_GRAPHS;
    return record->internal && d->graphs[i].launch == record->internal ? d->graphs[i].graph : 0;
}

/* ---- one kernel ------------------------------------------------------------------------------ */

/* The number of a device; one that the SDK does not list is counted, and is -1. */
static int32_t number_device(rp_decoder *d, uint64_t agent_id)
{
    const rp_device *device = rp_device_of(agent_id);
    d->tally[RP_TALLY_NO_DEVICE] += !device;
    return device ? device->id : -1;
}

/* Values that differ between launches of one configuration are sent with each: here the graph alone. */
void rp_read_kernel(rp_decoder *d, const rp_record *record)
{
    static const rp_text no_name = {"(unknown kernel)", 16};
    const rp_kernel_record *k = (const void *)record;
    KinetoPlugin_Activity a;
    if (record->size < sizeof *k) {
        d->tally[RP_TALLY_CUT_SHORT]++;
        return;
    }
    if (!rp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL) ||
        !rp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, k->start, k->end))
        return;
    const rp_symbol *symbol = rp_symbols_get(k->kernel);
    const rp_text *name = symbol && symbol->name.size ? &symbol->name : &no_name;
    int32_t device = number_device(d, k->agent_id);
    uint32_t stream = rp_stream_of(d, k->queue);
    uint64_t graph = find_graph(d, record);
    cp_set_key key = make_launch_key(k, symbol, device, stream, graph != 0);
    cp_values v;
    launch_scratch scratch;
    v.count = 0;
    d->tally[RP_TALLY_NO_NAME] += name == &no_name;
    a.metadataSet = cp_sets_find(d->sets, &key);
    if (!a.metadataSet) {
        describe_launch(&key, &v, &scratch);
        a.metadataSet = cp_sets_add(d->sets, d->builder, &key, &v);
    }
    if (graph)
        cp_value_uint(&v, "graph id", graph);
    rp_place_activity(&a, device, stream, record);
    a.pName = name->data;
    a.nameSize = name->size;
    rp_deliver_activity(d, &a, &v);
}

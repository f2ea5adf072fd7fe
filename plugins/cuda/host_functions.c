/* Functions of the program that a stream or a graph runs on the CPU (cudaLaunchHostFunc,
 * cudaStreamAddCallback, host nodes of graphs): the stream waits for them. */
#include "layouts.h"

#include "cuda.h"

#include <string.h>

/* Both kinds of record. */
typedef struct host_function {
    uint32_t kind; /* CP_KIND_… */
    uint32_t device, context, stream, correlation, thread;
    uint64_t start, end;
    uint32_t graph; /* 0: it is not of a graph */
    uint64_t node;
} host_function;

static void describe_host_function(const host_function *f, cp_values *v)
{
    static const char kind[] = "Host Function Sync";
    cp_value_bytes(v, "cuda_sync_kind", KINETO_PLUGIN_VALUE_STRING, kind, sizeof kind - 1);
    cp_value_uint(v, "stream", f->stream);
    cp_value_uint(v, "device", f->device);
    cp_value_uint(v, "context", f->context);
    cp_value_uint(v, "host thread", f->thread);
    if (!f->graph && !f->node)
        return;
    cp_value_uint(v, "graph id", f->graph);
    cp_value_uint(v, "graph node id", f->node);
}

/* The name has "Sync" in it since HTA takes other names on streams for kernels. */
static void deliver_host_function(cp_decoder *d, const host_function *f)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC) ||
        !cp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC, f->start, f->end))
        return;
    describe_host_function(f, &v);
    cp_place_activity(d, &a, f->device, f->stream, f->correlation);
    a.pName = "Host Function Sync";
    a.nameSize = (uint32_t)strlen(a.pName);
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, f->kind, &a);
}

void cp_read_host_launch(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version;
    host_function f = {.kind = CP_KIND_HOST_LAUNCH,
                       .device = cp_host_launch_device(version, record),
                       .context = cp_host_launch_context(version, record),
                       .stream = cp_host_launch_stream(version, record),
                       .correlation = cp_host_launch_correlation(version, record),
                       .thread = cp_host_launch_thread(version, record),
                       .start = cp_host_launch_start(version, record),
                       .end = cp_host_launch_end(version, record)};
    deliver_host_function(d, &f);
}

void cp_read_host_node(cp_decoder *d, const uint8_t *record)
{
    uint32_t version = d->version;
    host_function f = {.kind = CP_KIND_GRAPH_HOST_NODE,
                       .device = cp_host_node_device(version, record),
                       .context = cp_host_node_context(version, record),
                       .stream = cp_host_node_stream(version, record),
                       .correlation = cp_host_node_correlation(version, record),
                       .thread = cp_host_node_thread(version, record),
                       .start = cp_host_node_start(version, record),
                       .end = cp_host_node_end(version, record),
                       .graph = cp_host_node_graph(version, record),
                       .node = cp_host_node_node(version, record)};
    deliver_host_function(d, &f);
}

/* ---- green contexts -------------------------------------------------------------------------- */

/* The newest replaces the oldest when the table is full. */
void cp_read_green_context(cp_decoder *d, const uint8_t *record)
{
    cp_green *g = &d->green[d->green_count++ % CP_MAX_GREEN];
    g->context = cp_green_context(d->version, record);
    g->sm_count = cp_green_sm_count(d->version, record);
    cp_syncs_note_context(d, g->context, cp_green_device(d->version, record));
}

uint32_t cp_green_context_sms(const cp_decoder *d, uint32_t context)
{
    for (uint32_t i = 0; i < d->green_count && i < CP_MAX_GREEN; i++)
        if (d->green[i].context == context)
            return d->green[i].sm_count;
    return 0;
}

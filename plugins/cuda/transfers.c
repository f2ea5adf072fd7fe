/* Activities of copies and memsets, with Kineto's names and values ("Memcpy HtoD (Pageable ->
 * Device)"). */
#include "layouts.h"

#include "cuda.h"

#include <stdio.h>

/* ---- names ----------------------------------------------------------------------------------- */

/* CUpti_ActivityMemcpyKind: H host, D device, A array, P peer. */
static const char *get_copy_kind_name(uint32_t kind)
{
    static const char *const words[] = {NULL,   "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                        "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
    return kind < CP_COUNT(words) && words[kind] ? words[kind] : "<unknown>";
}

const char *cp_memory_kind(uint32_t kind)
{
    static const char *const words[] = {"Unknown", "Pageable", "Pinned",        "Device",
                                        "Array",   "Managed",  "Device Static", "Managed Static"};
    return kind < CP_COUNT(words) ? words[kind] : "Unrecognized";
}

/* There are few different names: each is formatted once. */
static cp_text get_copy_name(cp_decoder *d, uint32_t kind, uint32_t from, uint32_t to)
{
    bool has_slot = kind < 16 && from < 8 && to < 8;
    cp_text *known = has_slot ? cp_get_name_slot(d->names, kind * 64 + from * 8 + to) : NULL;
    char text[80];
    if (known && known->data)
        return *known;
    snprintf(text, sizeof text, "Memcpy %s (%s -> %s)", get_copy_kind_name(kind),
             cp_memory_kind(from), cp_memory_kind(to));
    cp_text name = cp_names_copy(d->names, text);
    if (known)
        *known = name;
    return name;
}

/* Its slots come after those of copies; unknown kinds of memory share one. */
static cp_text get_memset_name(cp_decoder *d, uint32_t memory)
{
    char text[48];
    cp_text *known = cp_get_name_slot(d->names, 1024 + (memory < 8 ? memory : 8));
    if (!known->data) {
        snprintf(text, sizeof text, "Memset (%s)", cp_memory_kind(memory));
        *known = cp_names_copy(d->names, text);
    }
    return *known;
}

/* ---- common values --------------------------------------------------------------------------- */

typedef struct transfer_values {
    uint32_t device, context, stream, correlation, graph, channel, channel_type;
    uint64_t bytes, start, end, graph_node;
} transfer_values;

/* The values of a record of any of the three kinds, whose accessors have the same names. */
#define TRANSFER_OF(kind, d, record)                                                               \
    {                                                                                              \
        .device = cp_##kind##_device((d)->version, record),                                        \
        .context = cp_##kind##_context((d)->version, record),                                      \
        .stream = cp_##kind##_stream((d)->version, record),                                        \
        .correlation = cp_##kind##_correlation((d)->version, record),                              \
        .graph = cp_##kind##_graph((d)->version, record),                                          \
        .channel = cp_##kind##_channel((d)->version, record),                                      \
        .channel_type = cp_##kind##_channel_type((d)->version, record),                            \
        .bytes = cp_##kind##_bytes((d)->version, record),                                          \
        .start = cp_##kind##_start((d)->version, record),                                          \
        .end = cp_##kind##_end((d)->version, record),                                              \
        .graph_node = cp_##kind##_graph_node((d)->version, record),                                \
    }

/* The words of a key of a value set; peer copies have four more. */
enum { DEVICE = 1, CONTEXT, STREAM, CHANNEL, CHANNEL_TYPE, IN_GRAPH };
enum { FROM_DEVICE = IN_GRAPH + 1, FROM_CONTEXT, TO_DEVICE, TO_CONTEXT };

/* The key of the set of values that all transfers of a stream share. */
static cp_set_key make_transfer_key(uint32_t set, const transfer_values *t)
{
    return (cp_set_key){{[0] = set,
                         [DEVICE] = t->device,
                         [CONTEXT] = t->context,
                         [STREAM] = t->stream,
                         [CHANNEL] = t->channel,
                         [CHANNEL_TYPE] = t->channel_type,
                         [IN_GRAPH] = t->graph || t->graph_node}};
}

/* The values after device and context; which ones exist depends on the layout version of CUPTI. */
static void describe_transfer_end(const cp_decoder *d, const cp_set_key *key, cp_values *out)
{
    cp_value_uint(out, "stream", key->words[STREAM]);
    if (d->version >= 14 && !key->words[IN_GRAPH]) {
        cp_value_uint(out, "graph id", 0);
        cp_value_uint(out, "graph node id", 0);
    }
    if (d->version < 17)
        return;
    cp_value_uint(out, "channel", key->words[CHANNEL]);
    cp_value_uint(out, "channel_type", key->words[CHANNEL_TYPE]);
}

static void describe_transfer(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                              cp_set_scratch *scratch)
{
    (void)scratch;
    cp_value_uint(out, "device", key->words[DEVICE]);
    cp_value_uint(out, "context", key->words[CONTEXT]);
    describe_transfer_end(d, key, out);
}

/* Copies between devices: the source, the device that copies, and the destination. */
static void describe_peer_copy(const cp_decoder *d, const cp_set_key *key, cp_values *out,
                               cp_set_scratch *scratch)
{
    (void)scratch;
    cp_value_uint(out, "fromDevice", key->words[FROM_DEVICE]);
    cp_value_uint(out, "inDevice", key->words[DEVICE]);
    cp_value_uint(out, "toDevice", key->words[TO_DEVICE]);
    cp_value_uint(out, "fromContext", key->words[FROM_CONTEXT]);
    cp_value_uint(out, "inContext", key->words[CONTEXT]);
    cp_value_uint(out, "toContext", key->words[TO_CONTEXT]);
    describe_transfer_end(d, key, out);
}

/* Delivers a transfer with its size and bandwidth. */
static void deliver_transfer(cp_decoder *d, uint32_t kind, int32_t type, const transfer_values *t,
                             const cp_set_key *key, cp_text name)
{
    KinetoPlugin_Activity a;
    cp_values v = {.count = 0};
    cp_set_scratch scratch;
    if (!cp_begin_activity(d, &a, type, t->start, t->end))
        return;
    a.metadataSet = cp_get_value_set(
        d, key, kind == CP_KIND_MEMCPY2 ? describe_peer_copy : describe_transfer, &v, &scratch);
    cp_value_uint(&v, "bytes", t->bytes);
    if (t->end > t->start)
        cp_value_double(&v, "memory bandwidth (GB/s)",
                        (double)t->bytes / ((double)(t->end - t->start) * d->ns_each));
    if (key->words[IN_GRAPH]) {
        cp_value_uint(&v, "graph id", t->graph);
        cp_value_uint(&v, "graph node id", t->graph_node);
    }
    cp_place_activity(d, &a, t->device, t->stream, t->correlation);
    a.pName = name.data;
    a.nameSize = name.size;
    a.pMetadata = v.items;
    a.metadataCount = v.count;
    cp_deliver_activity(d, kind, &a);
}

/* ---- records ---------------------------------------------------------------------------------
 * Each one notes the work for synchronisations first (syncs.c): that is needed even if transfers
 * are not recorded. */

void cp_read_memcpy(cp_decoder *d, const uint8_t *record)
{
    const transfer_values t = TRANSFER_OF(memcpy, d, record);
    cp_syncs_note_work(d, t.context, t.device, t.stream);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY))
        return;
    cp_set_key key = make_transfer_key(CP_SET_MEMCPY, &t);
    cp_text name = get_copy_name(d, cp_memcpy_copy_kind(d->version, record),
                                 cp_memcpy_from_kind(d->version, record),
                                 cp_memcpy_to_kind(d->version, record));
    deliver_transfer(d, CP_KIND_MEMCPY, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, &t, &key,
                     name);
}

void cp_read_memcpy2(cp_decoder *d, const uint8_t *record)
{
    const transfer_values t = TRANSFER_OF(memcpy2, d, record);
    cp_syncs_note_work(d, t.context, t.device, t.stream);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY))
        return;
    cp_set_key key = make_transfer_key(CP_SET_MEMCPY2, &t);
    key.words[FROM_DEVICE] = cp_memcpy2_from_device(d->version, record);
    key.words[FROM_CONTEXT] = cp_memcpy2_from_context(d->version, record);
    key.words[TO_DEVICE] = cp_memcpy2_to_device(d->version, record);
    key.words[TO_CONTEXT] = cp_memcpy2_to_context(d->version, record);
    cp_text name = get_copy_name(d, cp_memcpy2_copy_kind(d->version, record),
                                 cp_memcpy2_from_kind(d->version, record),
                                 cp_memcpy2_to_kind(d->version, record));
    deliver_transfer(d, CP_KIND_MEMCPY2, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, &t, &key,
                     name);
}

void cp_read_memset(cp_decoder *d, const uint8_t *record)
{
    const transfer_values t = TRANSFER_OF(memset, d, record);
    cp_syncs_note_work(d, t.context, t.device, t.stream);
    if (!cp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET))
        return;
    cp_set_key key = make_transfer_key(CP_SET_MEMSET, &t);
    cp_text name = get_memset_name(d, cp_memset_memory_kind(d->version, record));
    deliver_transfer(d, CP_KIND_MEMSET, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET, &t, &key,
                     name);
}

/* Activities of copies and fills, with the names and values that Kineto gives them. */
#include "xpu.h"

#include <stdio.h>

enum { DEVICE = 1, CONTEXT, SYCL_QUEUE = CONTEXT + 2, QUEUE = SYCL_QUEUE + 2, CALL = QUEUE + 2,
       PEER = CALL + 2, KEY_END };
_Static_assert(KEY_END <= sizeof(cp_set_key) / sizeof(uint32_t), "a key holds all words");
#define NO_PEER UINT32_MAX

/* What copies and fills have in common. */
typedef struct transfer {
    int32_t device;
    uint32_t peer; /* the device that the copy goes to, if it is another one; else NO_PEER */
    const void *queue, *context;
    const char *call;
    uint64_t operation, start, end, bytes;
    uint32_t correlation, stream;
} transfer;

static void describe_transfer(const cp_set_key *key, const transfer *t, cp_values *out,
                              char context[24], char queue[24])
{
    if (t->call)
        cp_value_bytes(out, "l0 call", KINETO_PLUGIN_VALUE_STRING, t->call, strlen(t->call));
    cp_value_int(out, "device", t->device);
    xp_value_handle(out, "context", xp_get_key(key, CONTEXT), context);
    cp_value_uint(out, "sycl queue", t->stream);
    xp_value_handle(out, "l0 queue", xp_get_key(key, QUEUE), queue);
    if (t->peer != NO_PEER) {
        cp_value_int(out, "fromDevice", t->device);
        cp_value_uint(out, "toDevice", t->peer);
    }
}

static cp_set_key make_transfer_key(const transfer *t)
{
    cp_set_key key = {{XP_SET_TRANSFER, [DEVICE] = (uint32_t)t->device, [PEER] = t->peer}};
    xp_put_key(&key, CONTEXT, (uintptr_t)t->context);
    xp_put_key(&key, SYCL_QUEUE, t->stream);
    xp_put_key(&key, QUEUE, (uintptr_t)t->queue);
    xp_put_key(&key, CALL, xp_hash_text(t->call));
    return key;
}

/* One value is misspelled in Kineto, and readers of its traces look for it. */
static void deliver_transfer(xp_decoder *d, KinetoPlugin_Activity *a, const transfer *t,
                             const char *name)
{
    char context[24], queue[24];
    cp_set_key key = make_transfer_key(t);
    cp_values v;
    v.count = 0;
    a->metadataSet = cp_sets_find(d->sets, &key);
    if (!a->metadataSet) {
        describe_transfer(&key, t, &v, context, queue);
        a->metadataSet = cp_sets_add(d->sets, d->builder, &key, &v);
    }
    cp_value_uint(&v, "memory opration id", t->operation);
    cp_value_uint(&v, "bytes", t->bytes);
    if (t->end > t->start)
        cp_value_double(&v, "memory bandwidth (GB/s)", (double)t->bytes / (double)(t->end - t->start));
    a->pName = name;
    a->nameSize = (uint32_t)strlen(name);
    xp_place_on_device(d, a, t->device, t->stream, t->correlation);
    xp_deliver_activity(d, a, &v);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* pti_view_memory_type, as PTI spells it. */
static const char *get_memory_name(uint32_t type)
{
    static const char *const names[] = {"MEMORY(Unknown)", "HOST", "DEVICE", "SHARED"};
    return type < CP_COUNT(names) ? names[type] : "INVALID";
}

#define MAX_NAME_BYTES 96u

/* pti_view_memcpy_type: four times the source's type and that of the destination. */
static void write_copy_name(uint32_t type, uint32_t from, uint32_t to, char name[MAX_NAME_BYTES])
{
    static const char letters[] = "MHDS";
    char word[] = "M2M";
    if (type < 16) {
        word[0] = letters[type / 4];
        word[2] = letters[type % 4];
    }
    snprintf(name, MAX_NAME_BYTES, "Memcpy %s (%s -> %s)", type < 16 ? word : "INVALID",
             get_memory_name(from), get_memory_name(to));
}

/* ---- records --------------------------------------------------------------------------------- */

void xp_read_copy(xp_decoder *d, const xp_copy_record *r)
{
    KinetoPlugin_Activity a;
    char name[MAX_NAME_BYTES];
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, r->start, r->end))
        return;
    transfer t = {.device = xp_device_of(d, r->uuid), .peer = NO_PEER, .queue = r->queue,
                  .context = r->context, .call = r->name, .operation = r->operation, .start = r->start,
                  .end = r->end, .bytes = r->bytes, .stream = xp_stream_of(d, r->sycl_queue, r->queue),
                  .correlation = r->correlation};
    write_copy_name(r->type, r->from, r->to, name);
    deliver_transfer(d, &a, &t, name);
}

/* Kineto does not record these. They are shown with the source. */
void xp_read_p2p(xp_decoder *d, const xp_p2p_record *r)
{
    KinetoPlugin_Activity a;
    char name[MAX_NAME_BYTES];
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, r->start, r->end))
        return;
    transfer t = {.device = xp_device_of(d, r->from_uuid),
                  .peer = (uint32_t)xp_device_of(d, r->to_uuid), .queue = r->queue,
                  .context = r->context, .call = r->name, .operation = r->operation, .start = r->start,
                  .end = r->end, .bytes = r->bytes, .stream = xp_stream_of(d, r->sycl_queue, r->queue),
                  .correlation = r->correlation};
    write_copy_name(r->type, r->from, r->to, name);
    deliver_transfer(d, &a, &t, name);
}

void xp_read_fill(xp_decoder *d, const xp_fill_record *r)
{
    KinetoPlugin_Activity a;
    char name[MAX_NAME_BYTES];
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET, r->start, r->end))
        return;
    transfer t = {.device = xp_device_of(d, r->uuid), .peer = NO_PEER, .queue = r->queue,
                  .context = r->context, .call = r->name, .operation = r->operation, .start = r->start,
                  .end = r->end, .bytes = r->bytes, .stream = xp_stream_of_fill(d, r->sycl_queue, r->queue),
                  .correlation = r->correlation};
    snprintf(name, sizeof name, "Memset (%llu -> %s)", (unsigned long long)r->value,
             get_memory_name(r->type));
    deliver_transfer(d, &a, &t, name);
}

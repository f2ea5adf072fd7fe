/* Activities of copies, with Kineto's names and values: "Memcpy HtoD (Host -> Device)". The SDK reports
 * no queue of a copy; as in Kineto they are on stream 0 of their device. It has no records of memsets:
 * HIP fills memory with kernels. */
#include "rocm.h"

static const struct copy_name {
    const char *name, *kind;
} copy_names[] = {{"Memcpy <unknown> (? -> ?)", "<unknown>"},
                  [RP_COPY_HTOH] = {"Memcpy HtoH (Host -> Host)", "HtoH"},
                  [RP_COPY_HTOD] = {"Memcpy HtoD (Host -> Device)", "HtoD"},
                  [RP_COPY_DTOH] = {"Memcpy DtoH (Device -> Host)", "DtoH"},
                  [RP_COPY_DTOD] = {"Memcpy DtoD (Device -> Device)", "DtoD"}};

static void describe_copy(int32_t device, uint32_t from, uint32_t to, const char *kind, cp_values *out)
{
    cp_value_int(out, "device", device);
    cp_value_uint(out, "stream", 0);
    cp_value_bytes(out, "kind", KINETO_PLUGIN_VALUE_STRING, kind, strlen(kind));
    if (from != to) { /* between GPUs */
        cp_value_uint(out, "fromDevice", from);
        cp_value_uint(out, "toDevice", to);
    }
}

/* The GPU that a copy is shown with: its destination, else its source. */
static const rp_device *find_copy_device(rp_decoder *d, const rp_device *from, const rp_device *to)
{
    const rp_device *device = to ? to : from ? from : rp_device_at(0);
    d->tally[RP_TALLY_NO_DEVICE] += !device;
    return device;
}

enum { DEVICE = 1, KIND, FROM, TO };

/* Sets the values that copies of a kind between two devices share. */
static void add_copy_set(rp_decoder *d, KinetoPlugin_Activity *a, const cp_set_key *key, cp_values *v)
{
    a->metadataSet = cp_sets_find(d->sets, key);
    if (a->metadataSet)
        return;
    describe_copy((int32_t)key->words[DEVICE], key->words[FROM], key->words[TO],
                  copy_names[key->words[KIND]].kind, v);
    a->metadataSet = cp_sets_add(d->sets, d->builder, key, v);
}

void rp_read_copy(rp_decoder *d, const rp_record *record)
{
    const rp_copy_record *c = (const void *)record;
    KinetoPlugin_Activity a;
    if (record->size < sizeof *c) {
        d->tally[RP_TALLY_CUT_SHORT]++;
        return;
    }
    if (!rp_wants(d, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY) ||
        !rp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY, c->start, c->end))
        return;
    uint32_t kind = (uint32_t)record->operation < CP_COUNT(copy_names) ? (uint32_t)record->operation : 0;
    const rp_device *from = rp_device_of(c->from_agent), *to = rp_device_of(c->to_agent),
                    *device = find_copy_device(d, from, to);
    bool between = from && to && from != to;
    cp_set_key key = {{RP_SET_COPY, [DEVICE] = device ? (uint32_t)device->id : UINT32_MAX, [KIND] = kind,
                       [FROM] = between ? (uint32_t)from->id : 0,
                       [TO] = between ? (uint32_t)to->id : 0}};
    cp_values v = {.count = 0};
    add_copy_set(d, &a, &key, &v);
    cp_value_uint(&v, "bytes", c->bytes);
    if (c->end > c->start)
        cp_value_double(&v, "memory bandwidth (GB/s)", (double)c->bytes / (double)(c->end - c->start));
    rp_place_activity(&a, (int32_t)key.words[DEVICE], 0, record);
    a.pName = copy_names[kind].name;
    a.nameSize = (uint32_t)strlen(a.pName);
    rp_deliver_activity(d, &a, &v);
}

/* Turns the results of an ended submission into activities. Values that many activities share, such as the
 * sizes of a kernel, are sent to the host once (registerMetadataSet).
 *
 * The device's lock is held throughout, and that of the physical device, whose clock the times are in; the
 * builder does not block. What a session does not want is not counted as requested. */
#include "vulkan.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_METADATA 8u

typedef struct value_list {
    KinetoPlugin_Metadata items[MAX_METADATA];
    uint32_t count;
    int64_t grid[3], block[3];
} value_list;

/* What the commands of a submission have in common. */
typedef struct delivery {
    const KinetoPlugin_TraceBuilder *builder;
    vl_device *device;
    const vl_queue *queue;
    const vl_submission *submission;
    int32_t clock;
    uint32_t bits;
    int64_t first_ns, last_ns; /* of all its timestamps */
    bool has_times;
    uint64_t requested, no_times, no_clock;
} delivery;

void vl_emit(const KinetoPlugin_TraceBuilder *builder, const KinetoPlugin_Activity *activity)
{
    (void)builder->emit(builder->pTraceBuilderHandle, activity);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* MAX_METADATA covers all that an activity has. */
static KinetoPlugin_Metadata *append_value(value_list *v, const char *key, int32_t type)
{
    KinetoPlugin_Metadata *item = &v->items[v->count++];

    *item = (KinetoPlugin_Metadata){.pKey = key, .valueType = type, .count = 1};
    return item;
}

static void append_sizes(value_list *v, const char *key, int64_t *to, const uint32_t *sizes)
{
    KinetoPlugin_Metadata *item = append_value(v, key, KINETO_PLUGIN_VALUE_INTS);

    for (int i = 0; i < 3; i++)
        to[i] = sizes[i];
    item->pointer = to;
    item->count = 3;
}

/* The values that a set has; without a set each activity has them. */
static void append_shared_values(value_list *v, const vl_device *device, const vl_set_key *key)
{
    append_value(v, "device", KINETO_PLUGIN_VALUE_INT)->i = device->gpu->index;
    append_value(v, "stream", KINETO_PLUGIN_VALUE_INT)->i = key->queue;
    if (key->has_grid)
        append_sizes(v, "grid", v->grid, key->grid);
    if (key->has_block)
        append_sizes(v, "block", v->block, key->block);
}

static uint32_t hash_set_key(const vl_set_key *key)
{
    const uint32_t words[] = {(uint32_t)key->queue, key->grid[0],  key->grid[1], key->grid[2],
                              key->block[0],        key->block[1], key->block[2]};
    uint64_t h = 0;

    for (size_t i = 0; i < VL_COUNT(words); i++)
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32) % VL_SET_SLOTS;
}

/* Sets belong to a session: numbers of an older one are not valid any more. */
static bool is_same_set(const vl_set_slot *slot, const vl_set_key *key, uint32_t session)
{
    const vl_set_key *k = &slot->key;

    return slot->session == session && k->queue == key->queue && k->has_grid == key->has_grid &&
           k->has_block == key->has_block && memcmp(k->grid, key->grid, sizeof k->grid) == 0 &&
           memcmp(k->block, key->block, sizeof k->block) == 0;
}

/* The number of the set of the activity's shared values; 0: they are appended to the list instead. */
static uint32_t share_values(const delivery *d, const vl_set_key *key, value_list *v)
{
    const KinetoPlugin_TraceBuilder *b = d->builder;
    vl_set_slot *slot = &d->device->sets[hash_set_key(key)];
    uint32_t session = d->submission->session, set = 0;

    if (is_same_set(slot, key, session))
        return slot->set;
    append_shared_values(v, d->device, key);
    if (!KINETO_PLUGIN_HAS(b, KinetoPlugin_TraceBuilder, registerMetadataSet) ||
        b->registerMetadataSet(b->pTraceBuilderHandle, v->items, v->count, &set) != 0 || set == 0)
        return 0;
    *slot = (vl_set_slot){*key, session, set};
    v->count = 0;
    return set;
}

static void append_bytes(value_list *v, uint64_t bytes, int64_t duration_ns)
{
    append_value(v, "bytes", KINETO_PLUGIN_VALUE_UINT)->u = bytes;
    if (duration_ns > 0)
        append_value(v, "memory bandwidth (GB/s)", KINETO_PLUGIN_VALUE_DOUBLE)->d =
            (double)bytes / (double)duration_ns;
}

/* ---- activities ------------------------------------------------------------------------------ */

/* Hands the activity to the host, which copies it. */
static void emit_values(const delivery *d, int32_t type, const char *name, int64_t start,
                        int64_t end, int32_t clock, uint32_t set, const value_list *v)
{
    KinetoPlugin_Activity activity = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, metadataSet),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = type,
                  .startTimeUtcNs = start,
                  .endTimeUtcNs = end,
                  .eventId = d->submission->correlation_id,
                  .deviceId = d->device->gpu->index,
                  .resourceId = d->queue->number},
        .clock = clock,
        .nameSize = (uint32_t)strlen(name),
        .pName = name,
        .flowType = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU,
        .flowId = d->submission->correlation_id,
        .metadataCount = v->count,
        .pMetadata = v->items,
        .metadataSet = set,
    };

    vl_emit(d->builder, &activity);
}

static void make_set_key(const delivery *d, const vl_command *c, vl_set_key *key)
{
    *key = (vl_set_key){
        .queue = d->queue->number, .has_grid = c->has_grid, .has_block = c->has_block};
    if (c->has_grid)
        memcpy(key->grid, c->grid, sizeof key->grid);
    if (c->has_block)
        memcpy(key->block, c->block, sizeof key->block);
}

/* An end before the start becomes a duration of 0 with a note. */
static void emit_command(const delivery *d, const vl_command *c, int64_t start, int64_t end)
{
    bool bad = end < start;
    vl_set_key key;
    value_list v = {.count = 0};

    if (bad)
        end = start;
    make_set_key(d, c, &key);
    uint32_t set = share_values(d, &key, &v);
    if (c->bytes)
        append_bytes(&v, c->bytes, end - start);
    if (bad)
        append_value(&v, "bad timestamps", KINETO_PLUGIN_VALUE_BOOL)->u = 1;
    emit_values(d, c->type, c->name, start, end, d->clock, set, &v);
}

static void note_times(delivery *d, int64_t start, int64_t end)
{
    if (!d->has_times) {
        /* Before the first activity, so that its clock is known. */
        vl_clock_sample(d->builder, d->device, end, d->submission->submit_ticks, d->bits);
        d->first_ns = start;
        d->last_ns = end;
    }
    d->has_times = true;
    d->first_ns = start < d->first_ns ? start : d->first_ns;
    d->last_ns = end > d->last_ns ? end : d->last_ns;
}

/* Counts what it cannot deliver. */
static void deliver_command(delivery *d, const vl_command *c, uint64_t from, uint64_t to)
{
    if (!vl_session_wants(c->type))
        return;
    d->requested++;
    if (from == 0 && to == 0) {
        d->no_times++;
    } else if (d->clock < 0) {
        d->no_clock++;
    } else {
        int64_t start = vl_clock_ns(d->device->gpu, from, d->bits);
        int64_t end = vl_clock_ns(d->device->gpu, to, d->bits);
        note_times(d, start, end);
        emit_command(d, c, start, end);
    }
}

static void deliver_chunk(delivery *d, const vl_chunk *chunk)
{
    for (uint32_t i = 0; i < chunk->used; i++)
        deliver_command(d, &chunk->commands[i], chunk->results[2 * i], chunk->results[2 * i + 1]);
}

/* ---- commands without timestamps ------------------------------------------------------------- */

static void count_overwritten(const vl_buffer *buffer, vl_untimed *u)
{
    for (const vl_chunk *chunk = buffer->chunks; chunk; chunk = chunk->next) {
        for (uint32_t i = 0; i < chunk->used; i++) {
            const vl_command *c = &chunk->commands[i];
            u->kernels += c->type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
            u->copies += c->type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY;
            u->fills += c->type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET;
            u->name = c->name;
        }
    }
}

/* The kind of what matters most. */
static int32_t choose_type(const vl_untimed *u)
{
    if (u->kernels)
        return KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL;
    return u->copies ? KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY
                     : KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET;
}

/* One activity for all of them, from the submission until its end was seen. */
static void deliver_untimed(delivery *d, const vl_untimed *u)
{
    static const char by_host[] = "host";
    uint32_t total = u->kernels + u->copies + u->fills;
    int32_t type = choose_type(u);
    char name[64];
    value_list v = {.count = 0};

    if (total == 0 || !vl_session_wants(type))
        return;
    snprintf(name, sizeof name, "%u commands", total);
    append_value(&v, "device", KINETO_PLUGIN_VALUE_INT)->i = d->device->gpu->index;
    append_value(&v, "stream", KINETO_PLUGIN_VALUE_INT)->i = d->queue->number;
    if (u->kernels)
        append_value(&v, "kernels", KINETO_PLUGIN_VALUE_INT)->i = u->kernels;
    KinetoPlugin_Metadata *timing = append_value(&v, "timing", KINETO_PLUGIN_VALUE_STRING);
    timing->pointer = by_host;
    timing->count = sizeof by_host - 1;
    d->requested++;
    vl_count_host_times(total);
    emit_values(d, type, total == 1 ? u->name : name, d->submission->submit_ns,
                vl_now_ns(CLOCK_MONOTONIC), KINETO_PLUGIN_CLOCK_MONOTONIC, 0, &v);
}

/* ---- submissions ----------------------------------------------------------------------------- */

static void deliver_items(delivery *d, vl_untimed *untimed)
{
    const vl_submission *s = d->submission;

    for (uint32_t i = 0; i < s->count; i++) {
        const vl_buffer *buffer = s->items[i].buffer;
        vl_untimed_add(untimed, &buffer->untimed);
        if (s->items[i].is_overwritten) {
            count_overwritten(buffer, untimed);
            continue;
        }
        for (const vl_chunk *chunk = buffer->chunks; chunk; chunk = chunk->next)
            deliver_chunk(d, chunk);
    }
}

void vl_deliver(const KinetoPlugin_TraceBuilder *builder, vl_device *device, const vl_queue *queue,
                const vl_submission *s)
{
    vl_gpu *gpu = device->gpu;
    vl_untimed untimed = {0};
    delivery d = {.builder = builder,
                  .device = device,
                  .queue = queue,
                  .submission = s,
                  .bits = vl_family_bits(device, queue->family)};

    pthread_mutex_lock(&gpu->lock);
    d.clock = vl_clock_number(builder, device);
    deliver_items(&d, &untimed);
    deliver_untimed(&d, &untimed);
    vl_count_requested(builder, d.requested);
    vl_count_lost(builder, VL_LOSS_NO_TIMES, d.no_times);
    vl_count_lost(builder, VL_LOSS_NO_CLOCK, d.no_clock);
    if (s->has_links && d.has_times)
        vl_links_resolve(builder, device, s, d.first_ns, d.last_ns, d.clock);
    pthread_mutex_unlock(&gpu->lock);
}

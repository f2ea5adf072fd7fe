/* The builder that plug-ins deliver through: events become DEVICE records in the pool at once, so
 * that they survive whatever happens to the program. Everything given is copied. */
#include "record/host.h"

typedef KinetoPlugin_TraceBuilderHandle handle;

static int refuse(const kr_builder *b, kf_reason reason)
{
    kr_count(b->source, reason, 1);
    return 1;
}

/* ---- writing one event ----------------------------------------------------------------------- */

#define KR_DEVICE_WORDS 6u
#define KR_LAST_CLOCK   15

static bool device_write(kr_cursor *c, const kr_builder *b, const kr_pending *p)
{
    uint32_t words = KR_DEVICE_WORDS + (p->external_id ? 1 : 0) + p->loose_words;
    uint64_t *at = kr_room(c, words);
    if (!at)
        return false;
    uint64_t *out = at + KR_DEVICE_WORDS;
    uint32_t props =
        (p->external_id ? KF_DEVICE_EXTERNAL : 0) | (p->loose_words ? KF_DEVICE_LOOSE : 0);
    at[1] = (uint64_t)p->start;
    at[2] = (uint64_t)p->end;
    at[3] = p->correlation_id;
    at[4] = (uint32_t)p->device | (uint64_t)(uint32_t)p->resource << 32;
    at[5] = p->flow_id | (uint64_t)(p->flow_type & 0xff) << 32 | (uint64_t)p->flow_start << 40 |
            (uint64_t)b->source << 48;
    if (p->external_id)
        *out++ = p->external_id;
    memcpy(out, p->loose, p->loose_words * sizeof *p->loose);
    kr_commit(c, at, kf_header(KF_DEVICE, words, p->kind | p->clock << 6 | props << 10, p->name_id),
              words);
    return true;
}

static int event_write(kr_builder *b, const kr_pending *p)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return 1;
    c->source = b->source; /* what finds no room is this plug-in's loss */
    bool written = device_write(c, b, p);
    c->source = KF_SOURCE_API;
    kr_leave(c);
    if (written)
        kr_count(b->source, KF_REASON_DELIVERED, 1);
    return !written;
}

/* Check and take over an event. False: counted. */
static bool event_accept(kr_builder *b, const KinetoPlugin_ProfileEvent *e, kr_pending *p)
{
    int kind = e && KINETO_PLUGIN_HAS(e, KinetoPlugin_ProfileEvent, resourceId)
                   ? kb_kind_from_plugin(e->eventType)
                   : -1;
    if (kind < 0) {
        kr_count(b->source, KF_REASON_BAD_EVENT, 1);
        return false;
    }
    if (!(b->kinds & KINETO_KIND_BIT(kind))) {
        kr_count(b->source, KF_REASON_WRONG_KIND, 1);
        return false;
    }
    p->kind = (uint32_t)kind;
    p->clock = KINETO_PLUGIN_CLOCK_UTC;
    p->start = e->startTimeUtcNs;
    p->end = e->endTimeUtcNs;
    p->correlation_id = (uint64_t)e->eventId;
    p->external_id = 0;
    p->device = e->deviceId;
    p->resource = e->resourceId;
    p->flow_type = p->flow_id = 0;
    p->flow_start = false;
    p->name_id = 0;
    p->loose_words = 0;
    return true;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool metadata_valid(const KinetoPlugin_Metadata *m)
{
    bool by_pointer = m->valueType >= KINETO_PLUGIN_VALUE_STRING;
    return m->pKey && m->valueType >= KINETO_PLUGIN_VALUE_INT &&
           m->valueType <= KINETO_PLUGIN_VALUE_JSON && (!by_pointer || m->pointer || !m->count);
}

static uint64_t *value_write(uint64_t *at, const uint64_t *limit, const KinetoPlugin_Metadata *m)
{
    switch (m->valueType) {
    case KINETO_PLUGIN_VALUE_STRING:
    case KINETO_PLUGIN_VALUE_JSON:
        return kr_text_write(at, limit, m->pointer ? m->pointer : "", m->count, KF_MAX_STRING);
    case KINETO_PLUGIN_VALUE_INTS:
        return kr_ints_write(at, limit, m->pointer, m->count);
    case KINETO_PLUGIN_VALUE_STRINGS:
        return kr_strings_write(at, limit, m->pointer, m->count);
    default:
        if (at >= limit)
            return NULL;
        *at = m->u;
        return at + 1;
    }
}

static bool loose_add(kr_builder *b, kr_pending *p, const KinetoPlugin_Metadata *m)
{
    if (!metadata_valid(m)) {
        kr_count(b->source, KF_REASON_BAD_EVENT, 1);
        return false;
    }
    uint64_t *at = p->loose + p->loose_words, *limit = p->loose + KR_LOOSE_WORDS;
    uint64_t *end = at < limit ? value_write(at + 1, limit, m) : NULL;
    uint32_t key = end ? kr_intern(m->pKey, strlen(m->pKey)) : 0;
    if (!key) {
        kr_count(b->source, KF_REASON_TRUNCATED_TEXT, 1);
        return false;
    }
    *at = key | (uint64_t)(uint32_t)m->valueType << 32;
    p->loose_words += (uint32_t)(end - at);
    return true;
}

/* ---- whole events ---------------------------------------------------------------------------- */

static int emit(handle *b, const KinetoPlugin_Activity *a)
{
    if (!b || !kb_load_acquire(&b->open))
        return 1;
    if (!a || !KINETO_PLUGIN_HAS(a, KinetoPlugin_Activity, pMetadata) || a->clock < 0 ||
        a->clock > KR_LAST_CLOCK)
        return refuse(b, KF_REASON_BAD_EVENT);
    kb_store_relaxed(&b->live, 1u);
    kr_pending p;
    if (!event_accept(b, &a->event, &p))
        return 1;
    p.clock = (uint32_t)a->clock;
    p.external_id = a->externalId;
    p.flow_type = (uint32_t)a->flowType;
    p.flow_id = a->flowId;
    p.flow_start = a->flowIsStart != 0;
    p.name_id = a->pName ? kr_intern(a->pName, a->nameSize) : 0;
    for (uint32_t i = 0; i < a->metadataCount && a->pMetadata; i++)
        (void)loose_add(b, &p, &a->pMetadata[i]);
    return event_write(b, &p);
}

/* ---- events in steps ------------------------------------------------------------------------- */

static void pending_flush(kr_builder *b, kr_pending *p)
{
    if (p->tid && !p->dropped)
        (void)event_write(b, p);
    p->tid = 0;
}

/* The calling thread's slot; made, or taken from another thread (whose event is written) when
 * `create`. Call with the lock held. */
static kr_pending *pending_of(kr_builder *b, uint32_t tid, bool create)
{
    for (uint32_t i = 0; i < KR_MAX_PENDING; i++)
        if (b->pending[i] && b->pending[i]->tid == tid)
            return b->pending[i];
    for (uint32_t i = 0; create && i < KR_MAX_PENDING; i++) {
        if (!b->pending[i])
            b->pending[i] = kb_os_map(sizeof(kr_pending));
        if (b->pending[i] && !b->pending[i]->tid)
            return b->pending[i];
    }
    if (!create || !b->pending[tid % KR_MAX_PENDING])
        return NULL;
    pending_flush(b, b->pending[tid % KR_MAX_PENDING]);
    return b->pending[tid % KR_MAX_PENDING];
}

static int add_event(handle *b, const KinetoPlugin_ProfileEvent *e)
{
    if (!b || !kb_load_acquire(&b->open))
        return 1;
    uint32_t tid = (uint32_t)kr_identity();
    int result = 1;
    if (!kr_lock_take(&b->lock))
        return 1;
    kr_pending *p = pending_of(b, tid, true);
    if (p) {
        pending_flush(b, p);
        p->dropped = !event_accept(b, e, p);
        p->tid = tid;
        result = p->dropped;
    } else {
        kr_count(b->source, KF_REASON_NO_ROOM, 1);
    }
    kb_lock_drop(&b->lock);
    return result;
}

/* What setLast… and addLast… do to the pending event. Returns 0 when done. */
typedef int (*kr_change)(kr_builder *b, kr_pending *p, const void *a, const void *extra);

static int change_last(kr_builder *b, kr_change change, const void *a, const void *extra)
{
    if (!b || !a || !kb_load_acquire(&b->open))
        return 1;
    if (!kr_lock_take(&b->lock))
        return 1;
    kr_pending *p = pending_of(b, (uint32_t)kr_identity(), false);
    int result = p ? (p->dropped ? 0 : change(b, p, a, extra)) : refuse(b, KF_REASON_BAD_EVENT);
    kb_lock_drop(&b->lock);
    return result;
}

static int change_name(kr_builder *b, kr_pending *p, const void *a, const void *extra)
{
    (void)b, (void)extra;
    p->name_id = kr_intern(a, strlen(a));
    return p->name_id == 0;
}

static int change_flow(kr_builder *b, kr_pending *p, const void *a, const void *extra)
{
    (void)extra;
    const KinetoPlugin_ProfileEventFlow *flow = a;
    if (!KINETO_PLUGIN_HAS(flow, KinetoPlugin_ProfileEventFlow, isStartPoint))
        return refuse(b, KF_REASON_BAD_EVENT);
    p->flow_type = (uint32_t)flow->flowType;
    p->flow_id = flow->flowId;
    p->flow_start = flow->isStartPoint;
    return 0;
}

/* JSON text of an integer in its only spelling, so that writing it back gives the same text. */
static bool plain_integer(const char *s, int64_t *out)
{
    const char *digits = s + (*s == '-');
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > 18 || digits[n] || (*digits == '0' && (n > 1 || digits != s)))
        return false;
    *out = strtoll(s, NULL, 10);
    return true;
}

static int change_metadata(kr_builder *b, kr_pending *p, const void *a, const void *extra)
{
    const char *value = extra;
    if (!value)
        return refuse(b, KF_REASON_BAD_EVENT);
    KinetoPlugin_Metadata m = {.pKey = a, .valueType = KINETO_PLUGIN_VALUE_JSON};
    if (plain_integer(value, &m.i)) {
        m.valueType = KINETO_PLUGIN_VALUE_INT;
    } else {
        m.pointer = value;
        m.count = (uint32_t)strlen(value);
    }
    return !loose_add(b, p, &m);
}

static int set_last_name(handle *b, const char *name)
{
    return change_last(b, change_name, name, NULL);
}
static int set_last_flow(handle *b, const KinetoPlugin_ProfileEventFlow *flow)
{
    return change_last(b, change_flow, flow, NULL);
}
static int add_last_metadata(handle *b, const char *key, const char *value)
{
    return change_last(b, change_metadata, key, value);
}

/* ---- devices, clocks, header ----------------------------------------------------------------- */

static int dictionary_put(kr_builder *b, kf_entry_type type, const kf_part *parts, uint32_t count)
{
    const kf_pool *pool = kr_pool_get();
    if (pool && kf_dictionary_add(pool, type, parts, count))
        return 0;
    return refuse(b, KF_REASON_DICTIONARY_FULL);
}

static int add_device_info(handle *b, const KinetoPlugin_ProfileDeviceInfo *info)
{
    if (!b || !kb_load_acquire(&b->open))
        return 1;
    if (!info || !KINETO_PLUGIN_HAS(info, KinetoPlugin_ProfileDeviceInfo, pLabel))
        return refuse(b, KF_REASON_BAD_EVENT);
    kf_device_entry entry = {kineto_rt_process(), b->source, info->deviceId, info->sortIndex};
    kineto_string name = kb_string(info->pName), label = kb_string(info->pLabel);
    uint32_t name_size = (uint32_t)name.size, label_size = (uint32_t)label.size;
    kf_part parts[] = {{&entry, sizeof entry},
                       {&name_size, sizeof name_size},
                       {name.data, name_size},
                       {&label_size, sizeof label_size},
                       {label.data, label_size}};
    return dictionary_put(b, KF_ENTRY_DEVICE, parts, KB_COUNT(parts));
}

static int add_resource_info(handle *b, const KinetoPlugin_ProfileResourceInfo *info)
{
    if (!b || !kb_load_acquire(&b->open))
        return 1;
    if (!info || !KINETO_PLUGIN_HAS(info, KinetoPlugin_ProfileResourceInfo, pName))
        return refuse(b, KF_REASON_BAD_EVENT);
    kf_resource_entry entry = {kineto_rt_process(), b->source,          info->deviceId,
                               info->resourceId,    info->displayOrder, 0};
    kineto_string name = kb_string(info->pName);
    uint32_t name_size = (uint32_t)name.size;
    kf_part parts[] = {
        {&entry, sizeof entry}, {&name_size, sizeof name_size}, {name.data, name_size}};
    return dictionary_put(b, KF_ENTRY_RESOURCE, parts, KB_COUNT(parts));
}

static int add_device_properties(handle *b, int64_t device, const KinetoPlugin_Metadata *list,
                                 size_t count)
{
    if (!b || !kb_load_acquire(&b->open))
        return 1;
    if (!list && count)
        return refuse(b, KF_REASON_BAD_EVENT);
    kr_pending *p = kb_os_map(sizeof *p);
    if (!p)
        return 1;
    for (size_t i = 0; i < count; i++)
        (void)loose_add(b, p, &list[i]);
    kf_device_entry entry = {kineto_rt_process(), b->source, device, 0};
    kf_part parts[] = {{&entry, sizeof entry}, {p->loose, p->loose_words * sizeof *p->loose}};
    int result = dictionary_put(b, KF_ENTRY_DEVICE_PROPS, parts, KB_COUNT(parts));
    kb_os_unmap(p, sizeof *p);
    return result;
}

/* Numbers of this process: clocks are told apart by (process, number). A profiler that announces
 * its clock in every session gets the same number; a fork's child has to say it again. */
typedef struct kr_clock {
    uint32_t source, process;
    bool taken;
    char name[47]; /* what tells them apart: its beginning */
} kr_clock;

/* Its number, KR_LAST_CLOCK + 1 when there is none left. */
static uint32_t clock_find(const kr_clock *clocks, uint32_t source, const char *name)
{
    uint32_t n = KINETO_PLUGIN_CLOCK_DEVICE;
    while (n <= KR_LAST_CLOCK && clocks[n].taken &&
           (clocks[n].source != source ||
            strncmp(clocks[n].name, name, sizeof clocks[n].name - 1) != 0))
        n++;
    return n;
}

static int clock_announce(kr_builder *b, kr_clock *clock, uint32_t number, const char *name)
{
    kf_clock_entry entry = {kineto_rt_process(), number};
    uint32_t size = (uint32_t)strlen(name);
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {name, size}};
    if (clock->taken && clock->process == entry.process)
        return 0;
    if (dictionary_put(b, KF_ENTRY_CLOCK, parts, KB_COUNT(parts)))
        return 1;
    *clock = (kr_clock){.source = b->source, .process = entry.process, .taken = true};
    memcpy(clock->name, name, KB_MIN(size, sizeof clock->name - 1));
    return 0;
}

static int register_clock(handle *b, const char *name, int32_t *clock)
{
    static kr_clock clocks[KR_LAST_CLOCK + 1];
    static kb_lock lock;
    if (!b || !clock || !kb_load_acquire(&b->open) || !kr_lock_take(&lock))
        return 1;
    const char *text = name ? name : "";
    uint32_t number = clock_find(clocks, b->source, text);
    int result = number > KR_LAST_CLOCK || clock_announce(b, &clocks[number], number, text);
    if (!result)
        *clock = (int32_t)number;
    kb_lock_drop(&lock);
    return result;
}

static int add_clock_sample(handle *b, int32_t clock, int64_t device_time, uint64_t before,
                            uint64_t after)
{
    if (!b || clock < KINETO_PLUGIN_CLOCK_DEVICE || clock > KR_LAST_CLOCK || !kb_load_acquire(&b->open))
        return 1;
    kr_cursor *c = kr_cursor_enter();
    uint64_t *at = c ? kr_room(c, 4) : NULL;
    if (at) {
        at[1] = before;
        at[2] = after;
        at[3] = (uint64_t)device_time;
        kr_commit(c, at, kf_header(KF_CLOCK_SAMPLE, 4, 0, (uint32_t)clock), 4);
    }
    if (c)
        kr_leave(c);
    return at == NULL;
}

static uint64_t host_ticks(handle *b)
{
    (void)b;
    return kb_ticks(kb_ticks_clock());
}

static int add_counts(handle *b, const KinetoPlugin_Counts *counts)
{
    if (!b || !counts || !KINETO_PLUGIN_HAS(counts, KinetoPlugin_Counts, dropped))
        return 1;
    /* Accepted at any time: a late count is better than a wrong ledger. */
    if (counts->requested)
        kr_count(b->source, KF_REASON_REQUESTED, counts->requested);
    if (counts->dropped)
        kr_count(b->source, KF_REASON_SOURCE_DROPPED, counts->dropped);
    return 0;
}

static int add_header_metadata(handle *b, const char *key, const char *value)
{
    if (!b || !key || !value || !kb_load_acquire(&b->open))
        return 1;
    return kineto_metadata_add(key, value) != KINETO_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

void kr_builder_init(kr_builder *b, uint32_t source)
{
    memset(b, 0, sizeof *b);
    b->source = source;
    b->table = (KinetoPlugin_TraceBuilder){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addHeaderMetadata),
        .pTraceBuilderHandle = b,
        .addEvent = add_event,
        .setLastEventName = set_last_name,
        .setLastEventFlow = set_last_flow,
        .addLastEventMetadata = add_last_metadata,
        .addDeviceInfo = add_device_info,
        .addResourceInfo = add_resource_info,
        .emit = emit,
        .addDeviceProperties = add_device_properties,
        .registerClock = register_clock,
        .addClockSample = add_clock_sample,
        .hostTicks = host_ticks,
        .addCounts = add_counts,
        .addHeaderMetadata = add_header_metadata};
}

void kr_builder_open(kr_builder *b, uint64_t kinds)
{
    b->kinds = kinds;
    b->live = 0;
    kb_store_release(&b->open, 1u);
}

void kr_builder_close(kr_builder *b)
{
    (void)kr_lock_take(&b->lock);
    for (uint32_t i = 0; i < KR_MAX_PENDING; i++)
        if (b->pending[i])
            pending_flush(b, b->pending[i]);
    kb_lock_drop(&b->lock);
    kb_store_release(&b->open, 0u);
}

void kr_builder_free(kr_builder *b)
{
    for (uint32_t i = 0; i < KR_MAX_PENDING; i++) {
        if (b->pending[i])
            kb_os_unmap(b->pending[i], sizeof(kr_pending));
        b->pending[i] = NULL;
    }
}

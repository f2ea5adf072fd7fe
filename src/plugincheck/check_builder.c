/* The builder of the checking host: checks every event as it is delivered, and stores it for the
 * checks of the whole session (check_events.c). One lock protects all stored data, because plug-ins
 * deliver from threads of their own. setLast… and addLast… refer to the last event of the calling
 * thread, which is thread-local. */
#include "plugincheck/check_builder.h"

#include <pthread.h>
#include <unistd.h>

#define BUILDER_MAGIC    UINT64_C(0x6b632d6275696c64)
#define MAX_METADATA     1000u
#define MAX_STRUCT_BYTES 4096u
#define LARGER_BYTES     32u  /* added by a later version */
#define LARGER_FILL      0xa5 /* content of the added bytes */

static const char *const call_names[KV_CALL_COUNT] = {
    [KV_CALL_NONE] = "",
    [KV_CALL_addEvent] = "addEvent",
    [KV_CALL_setLastEventName] = "setLastEventName",
    [KV_CALL_setLastEventFlow] = "setLastEventFlow",
    [KV_CALL_addLastEventMetadata] = "addLastEventMetadata",
    [KV_CALL_addLastEventValues] = "addLastEventValues",
    [KV_CALL_setLastEventIds] = "setLastEventIds",
    [KV_CALL_emit] = "emit",
    [KV_CALL_addDeviceInfo] = "addDeviceInfo",
    [KV_CALL_addResourceInfo] = "addResourceInfo",
    [KV_CALL_addDeviceProperties] = "addDeviceProperties",
    [KV_CALL_addHeaderMetadata] = "addHeaderMetadata",
    [KV_CALL_registerClock] = "registerClock",
    [KV_CALL_addClockSample] = "addClockSample",
    [KV_CALL_registerCounters] = "registerCounters",
    [KV_CALL_addCounterSamples] = "addCounterSamples",
    [KV_CALL_registerMetadataSet] = "registerMetadataSet",
    [KV_CALL_addLedgerLine] = "addLedgerLine",
    [KV_CALL_addCounts] = "addCounts",
};

const char *kv_builder_call(uint32_t number)
{
    return number < KV_CALL_COUNT ? call_names[number] : "";
}

static pthread_mutex_t seen_lock =
    PTHREAD_MUTEX_INITIALIZER; /* protects kv_seen and the tables of kv_check */
/* receives faults of wrong handles */
static kv_check *current_check;
/* the newest handles: after the session, and live */
static const kv_builder *recent_handles[2];

/* The last event of this thread, to which setLast… and addLast… refer. */
static _Thread_local struct {
    /* of the builder; 0: none */
    uint32_t serial;
    /* NULL: the store was full, or the event was rejected */
    kv_event *event;
    kv_keys keys;
} last_event;

/* ---- entering -------------------------------------------------------------------------------- */

/* False, and a fault, if the handle is not one of ours. Compares with the newest handles first,
 * because copying from memory of unknown origin is slow. */
static bool is_own_handle(const handle *b, kv_call which)
{
    kv_builder copy = {0};
    if (b && (b == recent_handles[0] || b == recent_handles[1]))
        return true;
    if (kv_copy_in(&copy, b, sizeof copy) && copy.magic == BUILDER_MAGIC)
        return true;
    kv_fault(current_check, KV_RULE_BUILDER_HANDLE, "%s received a handle that is not its own",
             call_names[which]);
    return false;
}

kv_builder *kv_builder_enter_always(handle *b, kv_call which)
{
    if (!is_own_handle(b, which))
        return NULL;
    pthread_mutex_lock(&seen_lock);
    current_check->site->builder_call = which;
    return b;
}

/* Locked on success only. A call after the end of the builder is a fault of builder.after-end. */
kv_builder *kv_builder_enter(handle *b, kv_call which)
{
    if (!is_own_handle(b, which))
        return NULL;
    pthread_mutex_lock(&seen_lock);
    if (b->open) {
        current_check->site->builder_call = which;
        return b;
    }
    kv_fault(current_check, KV_RULE_BUILDER_AFTER_END, "%s was called after %s had returned",
             call_names[which], b->live ? "stop" : "processEvents");
    pthread_mutex_unlock(&seen_lock);
    return NULL;
}

int kv_builder_leave(int result)
{
    current_check->site->builder_call = KV_CALL_NONE;
    pthread_mutex_unlock(&seen_lock);
    return result;
}

/* For measuring costs: events are counted, not checked. */
static bool is_quick(const kv_builder *b) { return b->check->session->quick; }

/* The size is the first member of every struct of the interface, and is read first. */
bool kv_copy_struct(kv_builder *b, void *to, const void *from, size_t min, const char *type)
{
    size_t size = 0;
    bool readable = kv_copy_in(&size, from, sizeof size);
    if (readable && size >= min && size <= MAX_STRUCT_BYTES && kv_copy_in(to, from, min))
        return true;
    if (readable)
        kv_fault(b->check, KV_RULE_SIZE_FILLED, "%s states %zu bytes, but needs %zu", type, size,
                 min);
    else
        kv_fault(b->check, KV_RULE_SIZE_FILLED, "%s cannot be read", type);
    return false;
}

/* ---- events ---------------------------------------------------------------------------------- */

bool kv_type_enabled(const kv_session *s, int32_t type)
{
    for (size_t i = 0; i < s->kind_count; i++)
        if (s->kinds[i] == type)
            return true;
    return false;
}

/* Stored events never move, so that last_event can point to one. */
kv_event *kv_event_store(kv_seen *seen, const kv_event *e)
{
    if (seen->stored_count == KV_MAX_EVENTS)
        return NULL;
    KB_ASSERT(seen->stored_count < KV_MAX_EVENTS);
    kv_event *stored = &seen->events[seen->stored_count++];
    *stored = *e;
    return stored;
}

/* Whether the clock is known. */
static void check_event_clock(kv_builder *b, const kv_event *e)
{
    if (e->clock < KINETO_PLUGIN_CLOCK_UTC || e->clock >= KV_MAX_CLOCKS ||
        (e->clock >= KINETO_PLUGIN_CLOCK_DEVICE && !b->check->clock_names[e->clock][0]))
        kv_fault(b->check, KV_RULE_TIME_MONOTONIC_CLOCK,
                 "an event uses clock %d, which is not registered", e->clock);
}

/* Count and store an event of an enabled kind. It becomes the last event of this thread even if it
 * is rejected. NULL: rejected, or the store is full; seen->refused counts only rejections. */
static kv_event *add_checked_event(kv_builder *b, const KinetoPlugin_ProfileEvent *p, int32_t clock)
{
    char text[64];
    kv_seen *seen = kv_builder_seen(b);
    last_event.serial = b->serial;
    last_event.event = NULL;
    last_event.keys.count = 0;
    if (!kv_type_enabled(b->check->session, p->eventType)) {
        kv_fault(b->check, KV_RULE_KINDS_ONLY_ENABLED, "an event of kind %s, which is not enabled",
                 kv_type_text(b->check, p->eventType, text, sizeof text));
        seen->refused++;
        return NULL;
    }
    kv_event e = {.type = p->eventType,
                  .clock = clock,
                  .device = p->deviceId,
                  .resource = p->resourceId,
                  .start = p->startTimeUtcNs,
                  .end = p->endTimeUtcNs,
                  .event_id = p->eventId};
    check_event_clock(b, &e);
    seen->event_count++;
    seen->live_count += b->live;
    return last_event.event = kv_event_store(seen, &e);
}

/* A rejected event is the last one of the thread, too, so that setLast… after it is no further
 * fault. */
static int builder_add_event(handle *h, const KinetoPlugin_ProfileEvent *event)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addEvent);
    KinetoPlugin_ProfileEvent copy;
    if (!b)
        return 1;
    if (is_quick(b)) {
        kv_builder_seen(b)->event_count++;
        last_event.serial = b->serial;
        return kv_builder_leave(0);
    }
    if (!kv_copy_struct(b, &copy, event, SIZE(ProfileEvent, resourceId), "ProfileEvent")) {
        kv_builder_seen(b)->refused++;
        last_event.serial = b->serial; /* setLast… may follow */
        last_event.event = NULL;
        last_event.keys.count = 0;
        return kv_builder_leave(1);
    }
    uint64_t refused = kv_builder_seen(b)->refused;
    (void)add_checked_event(b, &copy, KINETO_PLUGIN_CLOCK_UTC);
    return kv_builder_leave(kv_builder_seen(b)->refused != refused);
}

/* Enter the builder if the last event of this thread belongs to it. NULL, and a fault, otherwise.
 */
static kv_builder *enter_for_last_event(handle *h, kv_call which)
{
    kv_builder *b = kv_builder_enter(h, which);
    if (!b || last_event.serial == b->serial)
        return b;
    kv_fault(b->check, KV_RULE_BUILDER_THREAD, "%s on a thread that added no event to this builder",
             call_names[which]);
    (void)kv_builder_leave(1);
    return NULL;
}

/* The beginning of a name that can be read, for messages. */
static void keep_event_name(kv_event *e, const char *name, size_t bytes)
{
    e->named = true; /* even if the name is bad: that has a fault of its own */
    if (name && bytes != SIZE_MAX && kv_readable(name, bytes))
        snprintf(e->name, sizeof e->name, "%.*s", (int)KB_MIN(bytes, sizeof e->name - 1), name);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* A name is readable, not empty, and its size does not count the NUL. */
static bool check_event_name(kv_builder *b, const char *name, size_t bytes)
{
    if (bytes == SIZE_MAX || bytes > KV_MAX_TEXT || (name && !kv_readable(name, bytes)))
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "a name cannot be read, or has no end");
    else if (bytes == 0 || !name)
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "a name is empty");
    else if (name[bytes - 1] == 0)
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "nameSize counts the terminating NUL");
    else
        return true;
    return false;
}

/* buf receives a copy, which may be cut. */
bool kv_label_valid(const char *text, char *buf, size_t size)
{
    size_t n = kv_text_size(text, KV_MAX_KEY);
    if (n == SIZE_MAX || n == 0 || kb_utf8_valid_prefix(text, n) != n)
        return false;
    snprintf(buf, size, "%s", text);
    return true;
}

/* Keys are compared by hash. After KV_MAX_KEYS keys duplicates are no longer detected. */
bool kv_key_valid(kv_builder *b, kv_keys *keys, const char *key)
{
    char text[64];
    size_t n = kv_text_size(key, KV_MAX_KEY);
    if (n == SIZE_MAX || n == 0 || kb_utf8_valid_prefix(key, n) != n) {
        kv_fault(b->check, KV_RULE_META_KEYS, "a key is %s",
                 n == 0          ? "empty"
                 : n == SIZE_MAX ? "unreadable, or has no end"
                                 : "not UTF-8");
        return false;
    }
    uint64_t hash = kb_hash(key, n);
    for (uint32_t i = 0; i < keys->count; i++)
        if (keys->hashes[i] == hash) {
            kv_fault(b->check, KV_RULE_META_KEYS, "the key \"%s\" comes twice in an event",
                     kv_quote(key, text, sizeof text));
            return false;
        }
    if (keys->count < KV_MAX_KEYS)
        keys->hashes[keys->count++] = hash;
    return true;
}

/* The text is parsed completely. */
bool kv_json_valid(kv_builder *b, const char *key, const char *value, size_t bytes)
{
    char name[48], text[64];
    if (bytes != SIZE_MAX && bytes <= KV_MAX_TEXT && kv_readable(value, bytes) && value &&
        kb_json_valid((kineto_string){value, bytes}))
        return true;
    kv_fault(b->check, KV_RULE_META_JSON, "the value of \"%s\" is not JSON: %s",
             kv_quote(key, name, sizeof name), kv_quote(value, text, sizeof text));
    return false;
}

/* An array of pointers to NUL-terminated texts. */
static bool are_strings_readable(const char *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *text;
        if (!kv_copy_in(&text, list + i, sizeof text) ||
            kv_text_size(text, KV_MAX_TEXT) == SIZE_MAX)
            return false;
    }
    return true;
}

/* False: the type is unknown, or the value cannot be read. */
static bool is_typed_value_readable(const KinetoPlugin_Metadata *m)
{
    switch (m->valueType) {
    case KINETO_PLUGIN_VALUE_INT:
    case KINETO_PLUGIN_VALUE_UINT:
    case KINETO_PLUGIN_VALUE_DOUBLE:
    case KINETO_PLUGIN_VALUE_BOOL:
        return true;
    case KINETO_PLUGIN_VALUE_STRING:
        return m->count <= KV_MAX_TEXT && kv_readable(m->pointer, m->count);
    case KINETO_PLUGIN_VALUE_INTS:
        return m->count <= KV_MAX_TEXT && kv_readable(m->pointer, m->count * sizeof(int64_t));
    case KINETO_PLUGIN_VALUE_STRINGS:
        return m->count <= KV_MAX_TEXT && are_strings_readable(m->pointer, m->count);
    default:
        return false;
    }
}

/* Checks at most MAX_METADATA values, but counts all. */
bool kv_metadata_valid(kv_builder *b, kv_keys *keys, const KinetoPlugin_Metadata *list,
                       size_t count)
{
    bool fine = true;
    char name[48];
    for (size_t i = 0; i < KB_MIN(count, MAX_METADATA); i++) {
        KinetoPlugin_Metadata m;
        if (!kv_copy_in(&m, &list[i], sizeof m)) {
            kv_fault(b->check, KV_RULE_META_JSON, "%zu typed values cannot be read", count);
            return false;
        }
        fine &= kv_key_valid(b, keys, m.pKey);
        if (m.valueType == KINETO_PLUGIN_VALUE_JSON) {
            fine &= kv_json_valid(b, m.pKey, m.pointer, m.count);
        } else if (!is_typed_value_readable(&m)) {
            kv_fault(b->check, KV_RULE_META_JSON,
                     "the value of \"%s\" has type %d and cannot be read",
                     kv_quote(m.pKey, name, sizeof name), m.valueType);
            fine = false;
        }
    }
    kv_builder_seen(b)->metadata_count += count;
    return fine;
}

/* ---- the last event of a thread -------------------------------------------------------------- */

/* The event counts as named even if the name is bad. */
static int builder_set_name(handle *h, const char *name)
{
    kv_builder *b = enter_for_last_event(h, KV_CALL_setLastEventName);
    if (!b)
        return 1;
    if (is_quick(b))
        return kv_builder_leave(0);
    if (last_event.event)
        keep_event_name(last_event.event, name, kv_text_size(name, KV_MAX_TEXT));
    return kv_builder_leave(!check_event_name(b, name, kv_text_size(name, KV_MAX_TEXT)));
}

/* The type is a known one, and the start flag 0 or 1. */
static bool check_flow(kv_builder *b, int32_t type, uint32_t start)
{
    if (type > KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_INVALID &&
        type < KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_COUNT && start <= 1)
        return true;
    kv_fault(b->check, KV_RULE_FLOW_ENDS, "a flow of type %d, start %u", type, start);
    return false;
}

/* Also counts flows of events that were not stored. */
static void store_flow(kv_builder *b, int32_t type, uint32_t id, bool start)
{
    kv_builder_seen(b)->flow_count++;
    if (!last_event.event)
        return;
    last_event.event->flow_type = type;
    last_event.event->flow_id = id;
    last_event.event->flow_start = start;
}

/* One flow per event; a later one replaces it. */
static int builder_set_flow(handle *h, const KinetoPlugin_ProfileEventFlow *flow)
{
    kv_builder *b = enter_for_last_event(h, KV_CALL_setLastEventFlow);
    KinetoPlugin_ProfileEventFlow copy;
    uint8_t start;
    if (!b)
        return 1;
    if (is_quick(b))
        return kv_builder_leave(0);
    if (!kv_copy_struct(b, &copy, flow, SIZE(ProfileEventFlow, isStartPoint), "ProfileEventFlow"))
        return kv_builder_leave(1);
    memcpy(&start, &copy.isStartPoint, sizeof start);
    if (!check_flow(b, copy.flowType, start))
        return kv_builder_leave(1);
    store_flow(b, copy.flowType, copy.flowId, start);
    return kv_builder_leave(0);
}

/* Hosts accept a value that is not JSON, so the result is 0. */
static int builder_add_metadata(handle *h, const char *key, const char *value)
{
    kv_builder *b = enter_for_last_event(h, KV_CALL_addLastEventMetadata);
    if (!b)
        return 1;
    if (is_quick(b))
        return kv_builder_leave(0);
    kv_builder_seen(b)->metadata_count++;
    (void)kv_key_valid(b, &last_event.keys, key);
    (void)kv_json_valid(b, key, value, kv_text_size(value, KV_MAX_TEXT));
    return kv_builder_leave(!key || !value); /* hosts accept it, and quote the value */
}

static int builder_add_values(handle *h, const KinetoPlugin_Metadata *list, size_t count)
{
    kv_builder *b = enter_for_last_event(h, KV_CALL_addLastEventValues);
    if (!b)
        return 1;
    return kv_builder_leave(!is_quick(b) && !kv_metadata_valid(b, &last_event.keys, list, count));
}

/* Ids are checked when the session is over. */
static int builder_set_ids(handle *h, uint64_t correlation_id, uint64_t external_id)
{
    kv_builder *b = enter_for_last_event(h, KV_CALL_setLastEventIds);
    if (!b)
        return 1;
    if (last_event.event && !is_quick(b)) {
        last_event.event->event_id = (int64_t)correlation_id;
        last_event.event->external_id = external_id;
    }
    return kv_builder_leave(0);
}

/* The set of metadata that an activity references: its keys are the first of the event. False, and
 * a fault: the set is not registered. */
static bool check_value_set(kv_builder *b, const KinetoPlugin_Activity *activity, size_t size)
{
    KinetoPlugin_Activity a;
    if (size < SIZE(Activity, metadataSet))
        return true;
    if (!kv_copy_in(&a, activity, SIZE(Activity, metadataSet))) {
        kv_fault(b->check, KV_RULE_SIZE_FILLED,
                 "Activity cannot be read up to the size that it states");
        return false;
    }
    if (a.metadataSet > b->check->value_set_count) {
        kv_fault(b->check, KV_RULE_META_KEYS,
                 "an event references set %u, which was not registered in this session",
                 a.metadataSet);
        return false;
    }
    if (a.metadataSet)
        last_event.keys = b->check->value_sets[a.metadataSet - 1].keys;
    return true;
}

/* A complete event in one call; setLast… does not refer to it. */
static int builder_emit(handle *h, const KinetoPlugin_Activity *activity)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_emit);
    KinetoPlugin_Activity a;
    if (!b)
        return 1;
    if (is_quick(b)) {
        kv_builder_seen(b)->event_count++;
        kv_builder_seen(b)->live_count += b->live;
        return kv_builder_leave(0);
    }
    if (!kv_copy_struct(b, &a, activity, SIZE(Activity, pMetadata), "Activity") ||
        a.event.unpaddedStructSize < SIZE(ProfileEvent, resourceId)) {
        kv_fault(b->check, KV_RULE_SIZE_FILLED,
                 "Activity, or the event in it, states a wrong size");
        kv_builder_seen(b)->refused++;
        return kv_builder_leave(1);
    }
    uint64_t refused = kv_builder_seen(b)->refused;
    kv_event *e = add_checked_event(b, &a.event, a.clock);
    if (e) {
        keep_event_name(e, a.pName, a.nameSize);
        e->external_id = a.externalId;
    }
    bool fine = kv_builder_seen(b)->refused == refused;
    if (fine) {
        fine = check_event_name(b, a.pName, a.nameSize);
        fine &= check_value_set(b, activity, a.unpaddedStructSize);
        fine &= kv_metadata_valid(b, &last_event.keys, a.pMetadata, a.metadataCount);
        if (a.flowType && check_flow(b, a.flowType, a.flowIsStart))
            store_flow(b, a.flowType, a.flowId, a.flowIsStart);
    }
    last_event.serial = 0; /* setLast… does not refer to emitted events */
    return kv_builder_leave(!fine);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_todays_members(KinetoPlugin_TraceBuilder *t)
{
    t->emit = builder_emit;
    t->setLastEventIds = builder_set_ids;
    t->addLastEventValues = builder_add_values;
    kv_announce_fill_today(t);
}

/* The table and its handle are guarded memory that is never freed: the plug-in may keep both. */
const KinetoPlugin_TraceBuilder *kv_builder_new(kv_session *s, bool live, kv_builder **out)
{
    size_t today = SIZE(TraceBuilder, addLedgerLine), bytes = today;
    kv_check *k = s->k;
    if (s->version == KV_HOST_REVISION_B || s->version == KV_HOST_REVISION_0)
        bytes = SIZE(TraceBuilder, addResourceInfo);
    if (s->version == KV_HOST_LARGER)
        bytes = today + LARGER_BYTES;
    KinetoPlugin_TraceBuilder *table = kv_guard_new(bytes, "KinetoPlugin_TraceBuilder", true);
    kv_builder *b =
        kv_guard_new(sizeof *b, "KinetoPlugin_TraceBuilderHandle, which is opaque", true);
    current_check = k;
    *b = (kv_builder){BUILDER_MAGIC, k, ++k->builders, true, live};
    table->unpaddedStructSize = bytes;
    table->pTraceBuilderHandle = b;
    table->addEvent = builder_add_event;
    table->setLastEventName = builder_set_name;
    table->setLastEventFlow = builder_set_flow;
    table->addLastEventMetadata = builder_add_metadata;
    kv_announce_fill(table);
    if (bytes >= today)
        fill_todays_members(table);
    if (bytes > today)
        memset((char *)table + today, LARGER_FILL, bytes - today);
    recent_handles[live] = b;
    if (live)
        k->value_set_count = 0;
    *out = b;
    return table;
}

void kv_builder_end(kv_builder *b)
{
    pthread_mutex_lock(&seen_lock);
    KB_ASSERT(b->magic == BUILDER_MAGIC);
    b->open = false;
    pthread_mutex_unlock(&seen_lock);
}

/* The builder of the checking host: looks at every event that a plug-in delivers, and keeps what is
 * needed to look at the session as a whole when it is over. */
#include "plugincheck/check_builder.h"

#include <pthread.h>
#include <unistd.h>

#define BUILDER_MAGIC UINT64_C(0x6b632d6275696c64)
#define MOST_METADATA 1000u

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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that was seen */
static kv_check *checking;                               /* who hears of a wrong handle */
static const kv_builder *given[2];                       /* handles that were given out last */

/* The event that setLast… is about on this thread. */
static _Thread_local struct {
    uint32_t serial; /* of the builder; 0: none */
    kv_event *event; /* NULL: there was no room for it, or it was refused */
    kv_keys keys;
} last;

/* ---- entering ----------------------------------------------------------------------------------- */

static bool handle_right(const handle *b, kv_call which)
{
    kv_builder copy = {0};
    if (b && (b == given[0] || b == given[1]))
        return true;
    if (kv_copy_in(&copy, b, sizeof copy) && copy.magic == BUILDER_MAGIC)
        return true;
    kv_fault(checking, KV_RULE_BUILDER_HANDLE, "%s got a handle that is not its own",
             call_names[which]);
    return false;
}

kv_builder *kv_builder_enter_always(handle *b, kv_call which)
{
    if (!handle_right(b, which))
        return NULL;
    pthread_mutex_lock(&lock);
    checking->where->inner = which;
    return b;
}

kv_builder *kv_builder_enter(handle *b, kv_call which)
{
    if (!handle_right(b, which))
        return NULL;
    pthread_mutex_lock(&lock);
    if (b->open) {
        checking->where->inner = which;
        return b;
    }
    kv_fault(checking, KV_RULE_BUILDER_AFTER_END, "%s was called after %s had returned",
             call_names[which], b->live ? "stop" : "processEvents");
    pthread_mutex_unlock(&lock);
    return NULL;
}

int kv_builder_leave(int result)
{
    checking->where->inner = KV_CALL_NONE;
    pthread_mutex_unlock(&lock);
    return result;
}

static bool quick(const kv_builder *b) { return b->check->session->quick; }

/* A struct of the plug-in: into `to`, as much as it must have. */
bool kv_take(kv_builder *b, void *to, const void *from, size_t least, const char *type)
{
    size_t size = 0;
    bool readable = kv_copy_in(&size, from, sizeof size);
    if (readable && size >= least && size <= 4096 && kv_copy_in(to, from, least))
        return true;
    if (readable)
        kv_fault(b->check, KV_RULE_SIZE_FILLED, "%s states %zu bytes, but needs %zu", type, size,
                 least);
    else
        kv_fault(b->check, KV_RULE_SIZE_FILLED, "%s cannot be read", type);
    return false;
}

/* ---- events ------------------------------------------------------------------------------------- */

bool kv_type_enabled(const kv_session *s, int32_t type)
{
    for (size_t i = 0; i < s->kind_count; i++)
        if (s->kinds[i] == type)
            return true;
    return false;
}

kv_event *kv_event_store(kv_seen *seen, const kv_event *e)
{
    if (seen->stored_count == KV_MAX_EVENTS)
        return NULL;
    kv_event *stored = &seen->events[seen->stored_count++];
    *stored = *e;
    return stored;
}

static void check_times(kv_builder *b, const kv_event *e)
{
    if (e->end < e->start)
        kv_fault(b->check, KV_RULE_TIME_ORDER, "an event ends %lld before it begins",
                 (long long)((uint64_t)e->start - (uint64_t)e->end));
    if (e->clock < KINETO_PLUGIN_CLOCK_UTC || e->clock >= KV_CLOCKS ||
        (e->clock >= KINETO_PLUGIN_CLOCK_DEVICE && !b->check->clock_names[e->clock][0]))
        kv_fault(b->check, KV_RULE_TIME_MONOTONIC_CLOCK,
                 "an event is in clock %d, which nobody registered", e->clock);
}

/* NULL: refused. The event is the thread's last one in any case. */
static kv_event *event_add(kv_builder *b, const KinetoPlugin_ProfileEvent *p, int32_t clock)
{
    char text[64];
    kv_seen *seen = kv_seen_by(b);
    last.serial = b->serial;
    last.event = NULL;
    last.keys.count = 0;
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
    check_times(b, &e);
    seen->event_count++;
    seen->live_count += b->live;
    return last.event = kv_event_store(seen, &e);
}

static int add_event(handle *h, const KinetoPlugin_ProfileEvent *event)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addEvent);
    KinetoPlugin_ProfileEvent copy;
    if (!b)
        return 1;
    if (quick(b)) {
        kv_seen_by(b)->event_count++;
        last.serial = b->serial;
        return kv_builder_leave(0);
    }
    if (!kv_take(b, &copy, event, SIZE(ProfileEvent, resourceId), "ProfileEvent")) {
        kv_seen_by(b)->refused++;
        last.serial = b->serial; /* setLast… may follow */
        last.event = NULL;
        last.keys.count = 0;
        return kv_builder_leave(1);
    }
    uint64_t refused = kv_seen_by(b)->refused;
    (void)event_add(b, &copy, KINETO_PLUGIN_CLOCK_UTC);
    return kv_builder_leave(kv_seen_by(b)->refused != refused);
}

/* The builder with the lock held, where this thread has an event to go on about. */
static kv_builder *enter_last(handle *h, kv_call which)
{
    kv_builder *b = kv_builder_enter(h, which);
    if (!b || last.serial == b->serial)
        return b;
    kv_fault(b->check, KV_RULE_BUILDER_THREAD, "%s on a thread that added no event to this builder",
             call_names[which]);
    (void)kv_builder_leave(1);
    return NULL;
}

/* ---- text --------------------------------------------------------------------------------------- */

static bool name_fine(kv_builder *b, const char *name, size_t bytes)
{
    if (bytes == SIZE_MAX || bytes > KV_LONGEST_TEXT || (name && !kv_readable(name, bytes)))
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "a name cannot be read, or has no end");
    else if (bytes == 0 || !name)
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "a name is empty");
    else if (name[bytes - 1] == 0)
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "nameSize counts the terminating NUL");
    else
        return true;
    return false;
}

/* Text that names something of the plug-in's own: a device, a clock, a counter. */
bool kv_label_fine(const char *text, char *buf, size_t size)
{
    size_t n = kv_text_size(text, KV_LONGEST_KEY);
    if (n == SIZE_MAX || n == 0 || kb_utf8_valid_prefix(text, n) != n)
        return false;
    snprintf(buf, size, "%s", text);
    return true;
}

bool kv_key_fine(kv_builder *b, kv_keys *keys, const char *key)
{
    char text[64];
    size_t n = kv_text_size(key, KV_LONGEST_KEY);
    if (n == SIZE_MAX || n == 0 || kb_utf8_valid_prefix(key, n) != n) {
        kv_fault(b->check, KV_RULE_META_KEYS, "a key is %s",
                 n == 0          ? "empty"
                 : n == SIZE_MAX ? "unreadable, or has no end"
                                 : "no UTF-8");
        return false;
    }
    uint64_t hash = kb_hash(key, n);
    for (uint32_t i = 0; i < keys->count; i++)
        if (keys->hashes[i] == hash) {
            kv_fault(b->check, KV_RULE_META_KEYS, "the key \"%s\" comes twice in an event",
                     kv_quote(key, text, sizeof text));
            return false;
        }
    if (keys->count < KV_KEYS)
        keys->hashes[keys->count++] = hash;
    return true;
}

bool kv_json_fine(kv_builder *b, const char *key, const char *value, size_t bytes)
{
    char name[48], text[64];
    if (bytes != SIZE_MAX && bytes <= KV_LONGEST_TEXT && kv_readable(value, bytes) && value &&
        kb_json_valid((kineto_string){value, bytes}))
        return true;
    kv_fault(b->check, KV_RULE_META_JSON, "the value of \"%s\" is no JSON: %s",
             kv_quote(key, name, sizeof name), kv_quote(value, text, sizeof text));
    return false;
}

static bool strings_fine(const char *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *text;
        if (!kv_copy_in(&text, list + i, sizeof text) ||
            kv_text_size(text, KV_LONGEST_TEXT) == SIZE_MAX)
            return false;
    }
    return true;
}

static bool typed_value_fine(const KinetoPlugin_Metadata *m)
{
    switch (m->valueType) {
    case KINETO_PLUGIN_VALUE_INT:
    case KINETO_PLUGIN_VALUE_UINT:
    case KINETO_PLUGIN_VALUE_DOUBLE:
    case KINETO_PLUGIN_VALUE_BOOL:
        return true;
    case KINETO_PLUGIN_VALUE_STRING:
        return m->count <= KV_LONGEST_TEXT && kv_readable(m->pointer, m->count);
    case KINETO_PLUGIN_VALUE_INTS:
        return m->count <= KV_LONGEST_TEXT && kv_readable(m->pointer, m->count * sizeof(int64_t));
    case KINETO_PLUGIN_VALUE_STRINGS:
        return m->count <= KV_LONGEST_TEXT && strings_fine(m->pointer, m->count);
    default:
        return false;
    }
}

bool kv_metadata_fine(kv_builder *b, kv_keys *keys, const KinetoPlugin_Metadata *list, size_t count)
{
    bool fine = true;
    char name[48];
    for (size_t i = 0; i < KB_MIN(count, MOST_METADATA); i++) {
        KinetoPlugin_Metadata m;
        if (!kv_copy_in(&m, &list[i], sizeof m)) {
            kv_fault(b->check, KV_RULE_META_JSON, "%zu typed values cannot be read", count);
            return false;
        }
        fine &= kv_key_fine(b, keys, m.pKey);
        if (m.valueType == KINETO_PLUGIN_VALUE_JSON) {
            fine &= kv_json_fine(b, m.pKey, m.pointer, m.count);
        } else if (!typed_value_fine(&m)) {
            kv_fault(b->check, KV_RULE_META_JSON,
                     "the value of \"%s\" has type %d and cannot be read",
                     kv_quote(m.pKey, name, sizeof name), m.valueType);
            fine = false;
        }
    }
    kv_seen_by(b)->metadata_count += count;
    return fine;
}

/* ---- what is said about the last event -------------------------------------------------------------- */

static int set_last_name(handle *h, const char *name)
{
    kv_builder *b = enter_last(h, KV_CALL_setLastEventName);
    if (!b)
        return 1;
    if (quick(b))
        return kv_builder_leave(0);
    if (last.event)
        last.event->named = true; /* well or badly */
    return kv_builder_leave(!name_fine(b, name, kv_text_size(name, KV_LONGEST_TEXT)));
}

static bool flow_fine(kv_builder *b, int32_t type, uint32_t start)
{
    if (type > KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_INVALID &&
        type < KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_COUNT && start <= 1)
        return true;
    kv_fault(b->check, KV_RULE_FLOW_ENDS, "a flow of type %d, start %u", type, start);
    return false;
}

static void flow_note(kv_builder *b, int32_t type, uint32_t id, bool start)
{
    kv_seen_by(b)->flow_count++;
    if (!last.event)
        return;
    last.event->flow_type = type;
    last.event->flow_id = id;
    last.event->flow_start = start;
}

static int set_last_flow(handle *h, const KinetoPlugin_ProfileEventFlow *flow)
{
    kv_builder *b = enter_last(h, KV_CALL_setLastEventFlow);
    KinetoPlugin_ProfileEventFlow copy;
    uint8_t start;
    if (!b)
        return 1;
    if (quick(b))
        return kv_builder_leave(0);
    if (!kv_take(b, &copy, flow, SIZE(ProfileEventFlow, isStartPoint), "ProfileEventFlow"))
        return kv_builder_leave(1);
    memcpy(&start, &copy.isStartPoint, sizeof start);
    if (!flow_fine(b, copy.flowType, start))
        return kv_builder_leave(1);
    flow_note(b, copy.flowType, copy.flowId, start);
    return kv_builder_leave(0);
}

static int add_last_metadata(handle *h, const char *key, const char *value)
{
    kv_builder *b = enter_last(h, KV_CALL_addLastEventMetadata);
    if (!b)
        return 1;
    if (quick(b))
        return kv_builder_leave(0);
    kv_seen_by(b)->metadata_count++;
    (void)kv_key_fine(b, &last.keys, key);
    (void)kv_json_fine(b, key, value, kv_text_size(value, KV_LONGEST_TEXT));
    return kv_builder_leave(!key || !value); /* hosts take it, and quote it */
}

static int add_last_values(handle *h, const KinetoPlugin_Metadata *list, size_t count)
{
    kv_builder *b = enter_last(h, KV_CALL_addLastEventValues);
    if (!b)
        return 1;
    return kv_builder_leave(!quick(b) && !kv_metadata_fine(b, &last.keys, list, count));
}

static int set_last_ids(handle *h, uint64_t correlation_id, uint64_t external_id)
{
    kv_builder *b = enter_last(h, KV_CALL_setLastEventIds);
    if (!b)
        return 1;
    if (last.event && !quick(b)) {
        last.event->event_id = (int64_t)correlation_id;
        last.event->external_id = external_id;
    }
    return kv_builder_leave(0);
}

/* Its keys come first; a number that is none of this session is refused. */
static bool value_set_fine(kv_builder *b, const KinetoPlugin_Activity *activity, size_t size)
{
    KinetoPlugin_Activity a;
    if (size < SIZE(Activity, metadataSet))
        return true;
    if (!kv_copy_in(&a, activity, SIZE(Activity, metadataSet))) {
        kv_fault(b->check, KV_RULE_SIZE_FILLED, "Activity cannot be read as far as it says");
        return false;
    }
    if (a.metadataSet > b->check->value_set_count) {
        kv_fault(b->check, KV_RULE_META_KEYS,
                 "an event names set %u, which nobody registered in this session", a.metadataSet);
        return false;
    }
    if (a.metadataSet)
        last.keys = b->check->value_sets[a.metadataSet - 1].keys;
    return true;
}

static int emit(handle *h, const KinetoPlugin_Activity *activity)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_emit);
    KinetoPlugin_Activity a;
    if (!b)
        return 1;
    if (quick(b)) {
        kv_seen_by(b)->event_count++;
        kv_seen_by(b)->live_count += b->live;
        return kv_builder_leave(0);
    }
    if (!kv_take(b, &a, activity, SIZE(Activity, pMetadata), "Activity") ||
        a.event.unpaddedStructSize < SIZE(ProfileEvent, resourceId)) {
        kv_fault(b->check, KV_RULE_SIZE_FILLED,
                 "Activity, or the event in it, states no right size");
        kv_seen_by(b)->refused++;
        return kv_builder_leave(1);
    }
    uint64_t refused = kv_seen_by(b)->refused;
    kv_event *e = event_add(b, &a.event, a.clock);
    if (e) {
        e->named = true;
        e->external_id = a.externalId;
    }
    bool fine = kv_seen_by(b)->refused == refused;
    if (fine) {
        fine = name_fine(b, a.pName, a.nameSize);
        fine &= value_set_fine(b, activity, a.unpaddedStructSize);
        fine &= kv_metadata_fine(b, &last.keys, a.pMetadata, a.metadataCount);
        if (a.flowType && flow_fine(b, a.flowType, a.flowIsStart))
            flow_note(b, a.flowType, a.flowId, a.flowIsStart);
    }
    last.serial = 0; /* setLast… is not about this one */
    return kv_builder_leave(!fine);
}

/* ---- life ----------------------------------------------------------------------------------------------- */

static void fill_today(KinetoPlugin_TraceBuilder *t)
{
    t->emit = emit;
    t->setLastEventIds = set_last_ids;
    t->addLastEventValues = add_last_values;
    kv_announce_init_today(t);
}

const KinetoPlugin_TraceBuilder *kv_builder_new(kv_session *s, bool live, kv_builder **out)
{
    size_t today = SIZE(TraceBuilder, addLedgerLine), bytes = today;
    kv_check *k = s->k;
    if (s->size == KV_SIZE_REVISION_B || s->size == KV_SIZE_REVISION_0)
        bytes = SIZE(TraceBuilder, addResourceInfo);
    if (s->size == KV_SIZE_LARGER)
        bytes = today + 32;
    KinetoPlugin_TraceBuilder *table = kv_guard_new(bytes, "KinetoPlugin_TraceBuilder", true);
    kv_builder *b =
        kv_guard_new(sizeof *b, "KinetoPlugin_TraceBuilderHandle, which is opaque", true);
    checking = k;
    *b = (kv_builder){BUILDER_MAGIC, k, ++k->builders, true, live};
    table->unpaddedStructSize = bytes;
    table->pTraceBuilderHandle = b;
    table->addEvent = add_event;
    table->setLastEventName = set_last_name;
    table->setLastEventFlow = set_last_flow;
    table->addLastEventMetadata = add_last_metadata;
    kv_announce_init(table);
    if (bytes >= today)
        fill_today(table);
    if (bytes > today)
        memset((char *)table + today, 0xa5, bytes - today);
    given[live] = b;
    if (live)
        k->value_set_count = 0;
    *out = b;
    return table;
}

void kv_builder_end(kv_builder *b)
{
    pthread_mutex_lock(&lock);
    b->open = false;
    pthread_mutex_unlock(&lock);
}

/* The builder of the checking host: looks at everything a plug-in delivers, and keeps what is needed to
 * look at the session as a whole when it is over. */
#include "cli/check.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#define BUILDER_MAGIC  UINT64_C(0x6b632d6275696c64)
#define LONGEST_TEXT   ((size_t)1 << 20)
#define LONGEST_KEY    ((size_t)1000)
#define MOST_METADATA  1000u
#define KEYS           32u
#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

typedef KinetoPlugin_TraceBuilderHandle handle;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that was seen */
static kc_check *checking;                               /* who hears of a wrong handle */

/* Keys that an event has, as hashes. */
typedef struct key_list {
    uint32_t count;
    uint64_t hashes[KEYS];
} key_list;

/* The event that setLast… is about on this thread. */
static _Thread_local struct {
    uint32_t serial; /* of the builder; 0: none */
    kc_event *event; /* NULL: there was no room for it, or it was refused */
    key_list keys;
} last;

/* ---- entering ----------------------------------------------------------------------------------- */

/* The builder with the lock held, or NULL: refuse the call. */
static kc_builder *enter(handle *b, const char *call)
{
    kc_builder copy = {0};
    if (!kc_copy_in(&copy, b, sizeof copy) || copy.magic != BUILDER_MAGIC) {
        kc_fault(checking, KC_RULE_BUILDER_HANDLE, "%s got a handle that is not its own", call);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (b->open) {
        snprintf(checking->where->inner, sizeof checking->where->inner, "%s", call);
        return b;
    }
    kc_fault(checking, KC_RULE_BUILDER_AFTER_END, "%s was called after %s had returned", call,
             b->live ? "stop" : "processEvents");
    pthread_mutex_unlock(&lock);
    return NULL;
}

static int leave(int result)
{
    checking->where->inner[0] = 0;
    pthread_mutex_unlock(&lock);
    return result;
}

static kc_seen *seen_by(const kc_builder *b) { return b->check->seen; }
static bool quick(const kc_builder *b) { return b->check->session->quick; }

/* A struct of the plug-in: into `to`, as much as it must have. */
static bool take(kc_builder *b, void *to, const void *from, size_t least, const char *type)
{
    size_t size = 0;
    bool readable = kc_copy_in(&size, from, sizeof size);
    if (readable && size >= least && size <= 4096 && kc_copy_in(to, from, least))
        return true;
    if (readable)
        kc_fault(b->check, KC_RULE_SIZE_FILLED, "%s states %zu bytes, but needs %zu", type, size,
                 least);
    else
        kc_fault(b->check, KC_RULE_SIZE_FILLED, "%s cannot be read", type);
    return false;
}

/* ---- events ------------------------------------------------------------------------------------- */

static bool type_enabled(const kc_session *s, int32_t type)
{
    for (size_t i = 0; i < s->kind_count; i++)
        if (s->kinds[i] == type)
            return true;
    return false;
}

static kc_event *event_store(kc_seen *seen, const kc_event *e)
{
    if (seen->stored_count == KC_MAX_EVENTS) {
        seen->full = true;
        return NULL;
    }
    kc_event *stored = &seen->events[seen->stored_count++];
    *stored = *e;
    return stored;
}

static void check_times(kc_builder *b, const kc_event *e)
{
    if (e->end < e->start)
        kc_fault(b->check, KC_RULE_TIME_ORDER, "an event ends %lld before it begins",
                 (long long)((uint64_t)e->start - (uint64_t)e->end));
    if (e->clock < KINETO_PLUGIN_CLOCK_UTC || e->clock >= KC_CLOCKS ||
        (e->clock >= KINETO_PLUGIN_CLOCK_DEVICE && !b->check->clock_names[e->clock][0]))
        kc_fault(b->check, KC_RULE_TIME_MONOTONIC_CLOCK,
                 "an event is in clock %d, which nobody registered", e->clock);
}

/* NULL: refused. The event is the thread's last one in any case. */
static kc_event *event_add(kc_builder *b, const KinetoPlugin_ProfileEvent *p, int32_t clock)
{
    char text[64];
    kc_seen *seen = seen_by(b);
    last.serial = b->serial;
    last.event = NULL;
    last.keys.count = 0;
    if (!type_enabled(b->check->session, p->eventType)) {
        kc_fault(b->check, KC_RULE_KINDS_ONLY_ENABLED, "an event of kind %s, which is not enabled",
                 kc_type_text(b->check, p->eventType, text, sizeof text));
        seen->refused++;
        return NULL;
    }
    kc_event e = {.type = p->eventType,
                  .clock = clock,
                  .device = p->deviceId,
                  .resource = p->resourceId,
                  .start = p->startTimeUtcNs,
                  .end = p->endTimeUtcNs,
                  .event_id = p->eventId};
    check_times(b, &e);
    seen->event_count++;
    seen->live_count += b->live;
    return last.event = event_store(seen, &e);
}

static int add_event(handle *h, const KinetoPlugin_ProfileEvent *event)
{
    kc_builder *b = enter(h, "addEvent");
    KinetoPlugin_ProfileEvent copy;
    if (!b)
        return 1;
    if (quick(b)) {
        seen_by(b)->event_count++;
        last.serial = b->serial;
        return leave(0);
    }
    if (!take(b, &copy, event, SIZE(ProfileEvent, resourceId), "ProfileEvent")) {
        seen_by(b)->refused++;
        return leave(1);
    }
    uint64_t refused = seen_by(b)->refused;
    (void)event_add(b, &copy, KINETO_PLUGIN_CLOCK_UTC);
    return leave(seen_by(b)->refused != refused);
}

/* The builder with the lock held, where this thread has an event to go on about. */
static kc_builder *enter_last(handle *h, const char *call)
{
    kc_builder *b = enter(h, call);
    if (!b || last.serial == b->serial)
        return b;
    kc_fault(b->check, KC_RULE_BUILDER_THREAD,
             "%s on a thread that added no event to this builder", call);
    (void)leave(1);
    return NULL;
}

/* ---- text --------------------------------------------------------------------------------------- */

static bool name_fine(kc_builder *b, const char *name, size_t bytes)
{
    if (bytes == SIZE_MAX || bytes > LONGEST_TEXT || (name && !kc_readable(name, bytes)))
        kc_fault(b->check, KC_RULE_NAMES_TEXT, "a name cannot be read, or has no end");
    else if (bytes == 0 || !name)
        kc_fault(b->check, KC_RULE_NAMES_TEXT, "a name is empty");
    else if (name[bytes - 1] == 0)
        kc_fault(b->check, KC_RULE_NAMES_TEXT, "nameSize counts the terminating NUL");
    else
        return true;
    return false;
}

/* Text that names something of the plug-in's own: a device, a clock, a counter. */
static bool label_fine(const char *text, char *buf, size_t size)
{
    size_t n = kc_text_size(text, LONGEST_KEY);
    if (n == SIZE_MAX || n == 0 || kb_utf8_valid_prefix(text, n) != n)
        return false;
    snprintf(buf, size, "%s", text);
    return true;
}

static bool key_fine(kc_builder *b, key_list *keys, const char *key)
{
    char text[64];
    size_t n = kc_text_size(key, LONGEST_KEY);
    if (n == SIZE_MAX || n == 0 || kb_utf8_valid_prefix(key, n) != n) {
        kc_fault(b->check, KC_RULE_META_KEYS, "a key is %s",
                 n == 0          ? "empty"
                 : n == SIZE_MAX ? "unreadable, or has no end"
                                 : "no UTF-8");
        return false;
    }
    uint64_t hash = kb_hash(key, n);
    for (uint32_t i = 0; i < keys->count; i++)
        if (keys->hashes[i] == hash) {
            kc_fault(b->check, KC_RULE_META_KEYS, "the key \"%s\" comes twice in an event",
                     kc_quote(key, text, sizeof text));
            return false;
        }
    if (keys->count < KEYS)
        keys->hashes[keys->count++] = hash;
    return true;
}

static bool json_fine(kc_builder *b, const char *key, const char *value, size_t bytes)
{
    char name[48], text[64];
    if (bytes != SIZE_MAX && bytes <= LONGEST_TEXT && kc_readable(value, bytes) && value &&
        kb_json_valid((kineto_string){value, bytes}))
        return true;
    kc_fault(b->check, KC_RULE_META_JSON, "the value of \"%s\" is no JSON: %s",
             kc_quote(key, name, sizeof name), kc_quote(value, text, sizeof text));
    return false;
}

static bool strings_fine(const char *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *text;
        if (!kc_copy_in(&text, list + i, sizeof text) ||
            kc_text_size(text, LONGEST_TEXT) == SIZE_MAX)
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
        return m->count <= LONGEST_TEXT && kc_readable(m->pointer, m->count);
    case KINETO_PLUGIN_VALUE_INTS:
        return m->count <= LONGEST_TEXT && kc_readable(m->pointer, m->count * sizeof(int64_t));
    case KINETO_PLUGIN_VALUE_STRINGS:
        return m->count <= LONGEST_TEXT && strings_fine(m->pointer, m->count);
    default:
        return false;
    }
}

static bool metadata_fine(kc_builder *b, key_list *keys, const KinetoPlugin_Metadata *list,
                          size_t count)
{
    bool fine = true;
    char name[48];
    for (size_t i = 0; i < KB_MIN(count, MOST_METADATA); i++) {
        KinetoPlugin_Metadata m;
        if (!kc_copy_in(&m, &list[i], sizeof m)) {
            kc_fault(b->check, KC_RULE_META_JSON, "%zu typed values cannot be read", count);
            return false;
        }
        fine &= key_fine(b, keys, m.pKey);
        if (m.valueType == KINETO_PLUGIN_VALUE_JSON) {
            fine &= json_fine(b, m.pKey, m.pointer, m.count);
        } else if (!typed_value_fine(&m)) {
            kc_fault(b->check, KC_RULE_META_JSON, "the value of \"%s\" has type %d and cannot be read",
                     kc_quote(m.pKey, name, sizeof name), m.valueType);
            fine = false;
        }
    }
    seen_by(b)->metadata_count += count;
    return fine;
}

/* ---- what is said about the last event -------------------------------------------------------------- */

static int set_last_name(handle *h, const char *name)
{
    kc_builder *b = enter_last(h, "setLastEventName");
    if (!b)
        return 1;
    if (quick(b))
        return leave(0);
    if (last.event)
        last.event->named = true; /* well or badly */
    return leave(!name_fine(b, name, kc_text_size(name, LONGEST_TEXT)));
}

static bool flow_fine(kc_builder *b, int32_t type, uint32_t start)
{
    if (type > KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_INVALID &&
        type < KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_COUNT && start <= 1)
        return true;
    kc_fault(b->check, KC_RULE_FLOW_ENDS, "a flow of type %d, start %u", type, start);
    return false;
}

static void flow_note(kc_builder *b, int32_t type, uint32_t id, bool start)
{
    seen_by(b)->flow_count++;
    if (!last.event)
        return;
    last.event->flow_type = type;
    last.event->flow_id = id;
    last.event->flow_start = start;
}

static int set_last_flow(handle *h, const KinetoPlugin_ProfileEventFlow *flow)
{
    kc_builder *b = enter_last(h, "setLastEventFlow");
    KinetoPlugin_ProfileEventFlow copy;
    uint8_t start;
    if (!b)
        return 1;
    if (quick(b))
        return leave(0);
    if (!take(b, &copy, flow, SIZE(ProfileEventFlow, isStartPoint), "ProfileEventFlow"))
        return leave(1);
    memcpy(&start, &copy.isStartPoint, sizeof start);
    if (!flow_fine(b, copy.flowType, start))
        return leave(1);
    flow_note(b, copy.flowType, copy.flowId, start);
    return leave(0);
}

static int add_last_metadata(handle *h, const char *key, const char *value)
{
    kc_builder *b = enter_last(h, "addLastEventMetadata");
    if (!b)
        return 1;
    if (quick(b))
        return leave(0);
    seen_by(b)->metadata_count++;
    bool fine = key_fine(b, &last.keys, key);
    fine &= json_fine(b, key, value, kc_text_size(value, LONGEST_TEXT));
    return leave(!fine);
}

static int add_last_values(handle *h, const KinetoPlugin_Metadata *list, size_t count)
{
    kc_builder *b = enter_last(h, "addLastEventValues");
    if (!b)
        return 1;
    return leave(!quick(b) && !metadata_fine(b, &last.keys, list, count));
}

static int set_last_ids(handle *h, uint64_t correlation_id, uint64_t external_id)
{
    kc_builder *b = enter_last(h, "setLastEventIds");
    if (!b)
        return 1;
    if (last.event && !quick(b)) {
        last.event->event_id = (int64_t)correlation_id;
        last.event->external_id = external_id;
    }
    return leave(0);
}

static int emit(handle *h, const KinetoPlugin_Activity *activity)
{
    kc_builder *b = enter(h, "emit");
    KinetoPlugin_Activity a;
    if (!b)
        return 1;
    if (quick(b)) {
        seen_by(b)->event_count++;
        seen_by(b)->live_count += b->live;
        return leave(0);
    }
    if (!take(b, &a, activity, SIZE(Activity, pMetadata), "Activity") ||
        a.event.unpaddedStructSize < SIZE(ProfileEvent, resourceId)) {
        kc_fault(b->check, KC_RULE_SIZE_FILLED, "Activity, or the event in it, states no right size");
        seen_by(b)->refused++;
        return leave(1);
    }
    uint64_t refused = seen_by(b)->refused;
    kc_event *e = event_add(b, &a.event, a.clock);
    if (e) {
        e->named = true;
        e->external_id = a.externalId;
    }
    bool fine = seen_by(b)->refused == refused;
    if (fine) {
        fine = name_fine(b, a.pName, a.nameSize);
        fine &= metadata_fine(b, &last.keys, a.pMetadata, a.metadataCount);
        if (a.flowType && flow_fine(b, a.flowType, a.flowIsStart))
            flow_note(b, a.flowType, a.flowId, a.flowIsStart);
    }
    last.serial = 0; /* setLast… is not about this one */
    return leave(!fine);
}

/* ---- rows, header ------------------------------------------------------------------------------------- */

static int row_add(kc_builder *b, const char *name, kc_row row)
{
    char text[64];
    kc_seen *seen = seen_by(b);
    if (!label_fine(name, text, sizeof text)) {
        kc_fault(b->check, KC_RULE_ROWS_ANNOUNCED, "%s %lld is announced without a name of text",
                 row.is_device ? "device" : "resource",
                 row.is_device ? (long long)row.device : (long long)row.resource);
        return 1;
    }
    if (seen->row_count < KC_MAX_ROWS)
        seen->rows[seen->row_count++] = row;
    return 0;
}

static int add_device_info(handle *h, const KinetoPlugin_ProfileDeviceInfo *info)
{
    kc_builder *b = enter(h, "addDeviceInfo");
    KinetoPlugin_ProfileDeviceInfo copy;
    if (!b)
        return 1;
    if (!take(b, &copy, info, SIZE(ProfileDeviceInfo, pLabel), "ProfileDeviceInfo"))
        return leave(1);
    if (copy.pLabel && kc_text_size(copy.pLabel, LONGEST_KEY) == SIZE_MAX)
        kc_fault(b->check, KC_RULE_ROWS_ANNOUNCED, "the label of device %lld cannot be read",
                 (long long)copy.deviceId);
    return leave(row_add(b, copy.pName, (kc_row){.device = copy.deviceId, .is_device = true}));
}

static int add_resource_info(handle *h, const KinetoPlugin_ProfileResourceInfo *info)
{
    kc_builder *b = enter(h, "addResourceInfo");
    KinetoPlugin_ProfileResourceInfo copy;
    if (!b)
        return 1;
    if (!take(b, &copy, info, SIZE(ProfileResourceInfo, pName), "ProfileResourceInfo"))
        return leave(1);
    return leave(
        row_add(b, copy.pName, (kc_row){.device = copy.deviceId, .resource = copy.resourceId}));
}

static int add_device_properties(handle *h, int64_t device, const KinetoPlugin_Metadata *list,
                                 size_t count)
{
    kc_builder *b = enter(h, "addDeviceProperties");
    key_list keys = {0};
    (void)device;
    return b ? leave(!metadata_fine(b, &keys, list, count)) : 1;
}

static int add_header_metadata(handle *h, const char *key, const char *value)
{
    kc_builder *b = enter(h, "addHeaderMetadata");
    if (!b)
        return 1;
    key_list keys = {0};
    bool fine = key_fine(b, &keys, key);
    fine &= json_fine(b, key, value, kc_text_size(value, LONGEST_TEXT));
    return leave(!fine);
}

/* ---- clocks and counts ---------------------------------------------------------------------------------- */

static int register_clock(handle *h, const char *name, int32_t *clock)
{
    kc_builder *b = enter(h, "registerClock");
    char text[64];
    if (!b)
        return 1;
    if (!clock || !label_fine(name, text, sizeof text)) {
        kc_fault(b->check, KC_RULE_TIME_MONOTONIC_CLOCK, "a clock is registered without a name");
        return leave(1);
    }
    int32_t n = KINETO_PLUGIN_CLOCK_DEVICE;
    char(*names)[64] = b->check->clock_names;
    while (n < KC_CLOCKS && names[n][0] && strcmp(names[n], text) != 0)
        n++;
    if (n == KC_CLOCKS)
        return leave(1);
    memcpy(names[n], text, sizeof text);
    *clock = n;
    return leave(0);
}

static int add_clock_sample(handle *h, int32_t clock, int64_t device, uint64_t before,
                            uint64_t after)
{
    kc_builder *b = enter(h, "addClockSample");
    if (!b)
        return 1;
    kc_seen *seen = seen_by(b);
    kc_rule rule = KC_RULE_TIME_MONOTONIC_CLOCK;
    uint64_t now = kb_ticks(kb_ticks_clock());
    bool known = clock >= KINETO_PLUGIN_CLOCK_DEVICE && clock < KC_CLOCKS &&
                 b->check->clock_names[clock][0];
    if (!known)
        kc_fault(b->check, rule, "a sample of clock %d, which nobody registered", clock);
    else if (after < before)
        kc_fault(b->check, rule, "a sample whose host ticks go back by %llu",
                 (unsigned long long)(before - after));
    else if (after > now || before == 0)
        kc_fault(b->check, rule, "a sample whose ticks are not of hostTicks");
    else if (seen->sample_count < KC_MAX_SAMPLES)
        seen->samples[seen->sample_count++] = (kc_sample){clock, device, before, after};
    return leave(!known || after < before);
}

static uint64_t host_ticks(handle *h)
{
    kc_builder *b = enter(h, "hostTicks");
    if (b)
        (void)leave(0);
    return kb_ticks(kb_ticks_clock());
}

/* Taken at any time: a late count is better than a wrong one. */
static int add_counts(handle *h, const KinetoPlugin_Counts *counts)
{
    kc_builder builder = {0};
    KinetoPlugin_Counts copy;
    if (!kc_copy_in(&builder, h, sizeof builder) || builder.magic != BUILDER_MAGIC) {
        kc_fault(checking, KC_RULE_BUILDER_HANDLE, "addCounts got a handle that is not its own");
        return 1;
    }
    pthread_mutex_lock(&lock);
    bool fine = take(h, &copy, counts, SIZE(Counts, dropped), "Counts");
    if (fine) {
        seen_by(h)->requested += copy.requested;
        seen_by(h)->dropped += copy.dropped;
    }
    return leave(!fine);
}

/* ---- counters ------------------------------------------------------------------------------------------- */

/* What is wrong with it; NULL: nothing. */
static const char *set_lack(const kc_builder *b, const KinetoPlugin_CounterSet *set)
{
    char text[64];
    if (!label_fine(set->pName, text, sizeof text))
        return "has no name";
    if (kc_type_like(b->check, set->eventType) != KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER)
        return "is of a kind that is not like gpu_pm_counter";
    if (set->valueType < KINETO_PLUGIN_VALUE_INT || set->valueType > KINETO_PLUGIN_VALUE_DOUBLE)
        return "has values that are no numbers";
    if (set->seriesCount < 1 || set->seriesCount > KINETO_PLUGIN_MAX_SERIES)
        return "has no series, or too many";
    for (uint32_t i = 0; i < set->seriesCount; i++) {
        const char *name = NULL, *unit = NULL;
        if (!kc_copy_in(&name, &set->pSeriesNames[i], sizeof name) ||
            !label_fine(name, text, sizeof text))
            return "has a series without a name";
        if (set->pUnits && (!kc_copy_in(&unit, &set->pUnits[i], sizeof unit) ||
                            (unit && kc_text_size(unit, LONGEST_KEY) == SIZE_MAX)))
            return "has a unit that cannot be read";
    }
    return NULL;
}

static size_t set_find(const kc_check *k, const char *name, const KinetoPlugin_CounterSet *set)
{
    size_t i = 0;
    while (i < k->set_count &&
           (strcmp(k->sets[i].name, name) != 0 || k->sets[i].device != set->deviceId ||
            k->sets[i].type != set->eventType || k->sets[i].series != set->seriesCount))
        i++;
    return i;
}

static int register_counters(handle *h, const KinetoPlugin_CounterSet *set, int32_t *number)
{
    kc_builder *b = enter(h, "registerCounters");
    KinetoPlugin_CounterSet copy;
    char name[64];
    if (!b)
        return 1;
    if (!take(b, &copy, set, SIZE(CounterSet, pUnits), "CounterSet"))
        return leave(1);
    const char *lack = number ? set_lack(b, &copy) : "gets no number";
    if (lack) {
        kc_fault(b->check, KC_RULE_COUNTERS_SAMPLES, "a set of counters %s", lack);
        return leave(1);
    }
    if (!type_enabled(b->check->session, copy.eventType))
        return leave(1);
    (void)label_fine(copy.pName, name, sizeof name);
    size_t i = set_find(b->check, name, &copy);
    if (i == KC_MAX_SETS)
        return leave(1);
    if (i == b->check->set_count) {
        kc_set fresh = {.type = copy.eventType, .device = copy.deviceId, .value_type = copy.valueType,
                        .series = copy.seriesCount};
        memcpy(fresh.name, name, sizeof name);
        b->check->sets[b->check->set_count++] = fresh;
    }
    *number = (int32_t)i;
    return leave(0);
}

/* One time and its values. */
static bool sample_fine(kc_builder *b, kc_set *set, int32_t clock, int64_t time, const void *values)
{
    if (set->sampled && time < set->last_time) {
        kc_fault(b->check, KC_RULE_COUNTERS_SAMPLES, "times of \"%s\" go back by %lld", set->name,
                 (long long)((uint64_t)set->last_time - (uint64_t)time));
        return false;
    }
    set->sampled = true;
    set->last_time = time;
    for (uint32_t i = 0; i < set->series && set->value_type == KINETO_PLUGIN_VALUE_DOUBLE; i++) {
        double value;
        memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
        if (!isfinite(value)) {
            kc_fault(b->check, KC_RULE_COUNTERS_SAMPLES, "a value of \"%s\" is no number", set->name);
            return false;
        }
    }
    kc_event e = {.type = set->type, .clock = clock, .device = set->device, .start = time,
                  .end = time, .named = true, .sample = true};
    (void)event_store(seen_by(b), &e);
    return true;
}

static int add_counter_samples(handle *h, const KinetoPlugin_CounterSamples *samples)
{
    kc_builder *b = enter(h, "addCounterSamples");
    KinetoPlugin_CounterSamples copy;
    if (!b)
        return 1;
    if (!take(b, &copy, samples, SIZE(CounterSamples, pValues), "CounterSamples"))
        return leave(1);
    kc_check *k = b->check;
    bool known = copy.set >= 0 && (size_t)copy.set < k->set_count;
    size_t row = known ? k->sets[copy.set].series * sizeof(int64_t) : 0;
    if (!known || copy.clock < 0 || copy.clock >= KC_CLOCKS || copy.count > KC_MAX_EVENTS ||
        !kc_readable(copy.pTimes, copy.count * sizeof(int64_t)) ||
        !kc_readable(copy.pValues, copy.count * row)) {
        kc_fault(k, KC_RULE_COUNTERS_SAMPLES, "%zu samples of set %d, clock %d cannot be read",
                 copy.count, copy.set, copy.clock);
        return leave(1);
    }
    if (!type_enabled(k->session, k->sets[copy.set].type)) {
        kc_fault(k, KC_RULE_KINDS_ONLY_ENABLED, "samples of \"%s\", whose kind is not enabled",
                 k->sets[copy.set].name);
        return leave(1);
    }
    bool fine = true;
    for (size_t i = 0; i < copy.count && fine; i++)
        fine = sample_fine(b, &k->sets[copy.set], copy.clock, copy.pTimes[i],
                           (const char *)copy.pValues + i * row);
    seen_by(b)->counter_count += copy.count;
    return leave(!fine);
}

/* ---- life ----------------------------------------------------------------------------------------------- */

static void fill_today(KinetoPlugin_TraceBuilder *t)
{
    t->emit = emit;
    t->addDeviceProperties = add_device_properties;
    t->registerClock = register_clock;
    t->addClockSample = add_clock_sample;
    t->hostTicks = host_ticks;
    t->addCounts = add_counts;
    t->addHeaderMetadata = add_header_metadata;
    t->setLastEventIds = set_last_ids;
    t->addLastEventValues = add_last_values;
    t->registerCounters = register_counters;
    t->addCounterSamples = add_counter_samples;
}

const KinetoPlugin_TraceBuilder *kc_builder_new(kc_session *s, bool live, kc_builder **out)
{
    size_t today = SIZE(TraceBuilder, addCounterSamples), bytes = today;
    kc_check *k = s->k;
    if (s->size == KC_SIZE_REVISION_B || s->size == KC_SIZE_REVISION_0)
        bytes = SIZE(TraceBuilder, addResourceInfo);
    if (s->size == KC_SIZE_LARGER)
        bytes = today + 32;
    KinetoPlugin_TraceBuilder *table = kc_guard_new(bytes, "KinetoPlugin_TraceBuilder", true);
    kc_builder *b = kc_guard_new(sizeof *b, "KinetoPlugin_TraceBuilderHandle, which is opaque", true);
    checking = k;
    *b = (kc_builder){BUILDER_MAGIC, k, ++k->builders, true, live};
    table->unpaddedStructSize = bytes;
    table->pTraceBuilderHandle = b;
    table->addEvent = add_event;
    table->setLastEventName = set_last_name;
    table->setLastEventFlow = set_last_flow;
    table->addLastEventMetadata = add_last_metadata;
    table->addDeviceInfo = add_device_info;
    table->addResourceInfo = add_resource_info;
    if (bytes >= today)
        fill_today(table);
    if (bytes > today)
        memset((char *)table + today, 0xa5, bytes - today);
    *out = b;
    return table;
}

void kc_builder_end(kc_builder *b)
{
    pthread_mutex_lock(&lock);
    b->open = false;
    pthread_mutex_unlock(&lock);
}

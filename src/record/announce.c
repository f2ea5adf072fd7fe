/* Announcements of plug-ins, that is everything that is not an event: devices and their queues,
 * clocks, counters, the header. They become dictionary entries (layouts: kf_…_entry in format.h);
 * samples of clocks and counters become records. Each function of the table is a wrapper that
 * enters the builder (kr_builder_enter) and leaves it. */
#include "record/announce.h"

typedef KinetoPlugin_TraceBuilderHandle handle;

#define KR_HASH_SEED UINT64_C(0xcbf29ce484222325)

static int add_dictionary_entry(const kr_builder *b, kf_entry_type type, const kf_part *parts,
                                uint32_t count)
{
    const kf_pool *pool = kr_pool_get();
    if (pool && kf_dictionary_add(pool, type, parts, count))
        return 0;
    return kr_refuse(b, KF_REASON_DICTIONARY_FULL);
}

/* ---- announcing once -------------------------------------------------------------------------
 * The dictionary only grows, and plug-ins announce the same in every session: an announcement is
 * written again only when it has changed. */

static uint64_t extend_hash(uint64_t hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_parts(const kf_part *parts, uint32_t count)
{
    uint64_t hash = KR_HASH_SEED;
    for (uint32_t i = 0; i < count; i++)
        hash = extend_hash(hash, parts[i].data, parts[i].bytes);
    return hash;
}

/* The slot of this key, or a free one for it; NULL: neither, then it is announced each time. With
 * the builder's lock. */
static kr_announced *find_announcement(kr_builder *b, uint64_t key)
{
    for (uint64_t i = 0; i < 8; i++) {
        kr_announced *last = &b->announced[(key + i) % KR_MAX_ANNOUNCED];
        if (last->key == key || last->key == 0)
            return last;
    }
    return NULL;
}

/* Add the entry about (type, device, resource), unless it equals the last one about it. */
static int announce_if_changed(kr_builder *b, kf_entry_type type, int64_t device, int32_t resource,
                               const kf_part *parts, uint32_t count)
{
    int64_t about[] = {(int64_t)type, device, resource};
    uint64_t key = extend_hash(KR_HASH_SEED, about, sizeof about) | 1,
             content = hash_parts(parts, count);
    KB_ASSERT(type > KF_ENTRY_NONE && type < KF_ENTRY_TYPE_COUNT);
    if (!kr_lock_take(&b->lock))
        return add_dictionary_entry(b, type, parts, count);
    kr_announced *last = find_announcement(b, key);
    bool known = last && last->key == key && last->content == content;
    int result = known ? 0 : add_dictionary_entry(b, type, parts, count);
    if (last && !result)
        *last = (kr_announced){key, content};
    kb_lock_drop(&b->lock);
    return result;
}

/* ---- devices --------------------------------------------------------------------------------- */

static int announce_device(kr_builder *b, const KinetoPlugin_ProfileDeviceInfo *info)
{
    if (!info || !KINETO_PLUGIN_HAS(info, KinetoPlugin_ProfileDeviceInfo, pLabel))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    kf_device_entry entry = {kineto_rt_process(), b->source, info->deviceId, info->sortIndex};
    kineto_string name = kb_string(info->pName), label = kb_string(info->pLabel);
    uint32_t name_size = (uint32_t)name.size, label_size = (uint32_t)label.size;
    kf_part parts[] = {{&entry, sizeof entry},
                       {&name_size, sizeof name_size},
                       {name.data, name_size},
                       {&label_size, sizeof label_size},
                       {label.data, label_size}};
    return announce_if_changed(b, KF_ENTRY_DEVICE, info->deviceId, 0, parts, KB_COUNT(parts));
}

static int add_device_info(handle *b, const KinetoPlugin_ProfileDeviceInfo *info)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = announce_device(b, info);
    kr_plugin_exit(c);
    return result;
}

static int announce_resource(kr_builder *b, const KinetoPlugin_ProfileResourceInfo *info)
{
    if (!info || !KINETO_PLUGIN_HAS(info, KinetoPlugin_ProfileResourceInfo, pName))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    kf_resource_entry entry = {kineto_rt_process(), b->source,          info->deviceId,
                               info->resourceId,    info->displayOrder, 0};
    kineto_string name = kb_string(info->pName);
    uint32_t name_size = (uint32_t)name.size;
    kf_part parts[] = {
        {&entry, sizeof entry}, {&name_size, sizeof name_size}, {name.data, name_size}};
    return announce_if_changed(b, KF_ENTRY_RESOURCE, info->deviceId, info->resourceId, parts,
                               KB_COUNT(parts));
}

static int add_resource_info(handle *b, const KinetoPlugin_ProfileResourceInfo *info)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = announce_resource(b, info);
    kr_plugin_exit(c);
    return result;
}

static int announce_device_properties(kr_builder *b, int64_t device,
                                      const KinetoPlugin_Metadata *list, size_t count)
{
    if (!list && count)
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    kr_pending *p = kb_os_map(sizeof *p);
    if (!p)
        return 1;
    for (size_t i = 0; i < count; i++)
        (void)kr_loose_add(b, p, &list[i]);
    kf_device_entry entry = {kineto_rt_process(), b->source, device, 0};
    kf_part parts[] = {{&entry, sizeof entry}, {p->loose, p->loose_words * sizeof *p->loose}};
    int result = announce_if_changed(b, KF_ENTRY_DEVICE_PROPS, device, 0, parts, KB_COUNT(parts));
    kb_os_unmap(p, sizeof *p);
    return result;
}

static int add_device_properties(handle *b, int64_t device, const KinetoPlugin_Metadata *list,
                                 size_t count)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = announce_device_properties(b, device, list, count);
    kr_plugin_exit(c);
    return result;
}

/* ---- clocks ----------------------------------------------------------------------------------- */

/* Clocks are identified by (process, number). A profiler that announces its clock in every session
 * gets the same number; a fork's child has to announce it again. */
typedef struct kr_clock {
    uint32_t source, process;
    bool taken;
    char name[47]; /* its beginning, by which clocks of one source are distinguished */
} kr_clock;

static kr_clock clocks[KR_LAST_CLOCK + 1];

/* The number of this clock or a free one; KR_LAST_CLOCK + 1 when no number is left. */
static uint32_t find_clock_number(uint32_t source, const char *name)
{
    uint32_t n = KINETO_PLUGIN_CLOCK_DEVICE;
    while (n <= KR_LAST_CLOCK && clocks[n].taken &&
           (clocks[n].source != source ||
            strncmp(clocks[n].name, name, sizeof clocks[n].name - 1) != 0))
        n++;
    return n;
}

static int announce_clock(kr_builder *b, kr_clock *clock, uint32_t number, const char *name)
{
    kf_clock_entry entry = {kineto_rt_process(), number};
    uint32_t size = (uint32_t)strlen(name);
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {name, size}};
    if (clock->taken && clock->process == entry.process)
        return 0;
    if (add_dictionary_entry(b, KF_ENTRY_CLOCK, parts, KB_COUNT(parts)))
        return 1;
    memcpy(clock->name, name, KB_MIN(size, sizeof clock->name - 1));
    clock->process = entry.process;
    kb_store_relaxed(&clock->source, b->source);
    kb_store_release(&clock->taken, true); /* add_clock_sample reads without the lock */
    return 0;
}

static int assign_clock_number(kr_builder *b, const char *name, int32_t *clock)
{
    static kb_lock lock;
    if (!clock || !kr_lock_take(&lock))
        return 1;
    const char *text = name ? name : "";
    uint32_t number = find_clock_number(b->source, text);
    int result = number > KR_LAST_CLOCK || announce_clock(b, &clocks[number], number, text);
    if (!result)
        *clock = (int32_t)number;
    kb_lock_drop(&lock);
    return result;
}

static int register_clock(handle *b, const char *name, int32_t *clock)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = assign_clock_number(b, name, clock);
    kr_plugin_exit(c);
    return result;
}

/* A record of `words` words on the calling thread's cursor; `payload` has those after the header.
 * False: no room (counted for the builder's source). */
static bool write_builder_record(const kr_builder *b, uint64_t header, uint32_t words,
                                 const uint64_t *payload)
{
    kr_cursor *c = kr_cursor_enter();
    if (!c)
        return false;
    KB_ASSERT(kf_header_words(header) == words);
    c->source = b->source;
    uint64_t *at = kr_room(c, words);
    c->source = KF_SOURCE_API;
    for (uint32_t i = 1; at && i < words; i++)
        at[i] = payload[i - 1];
    if (at)
        kr_commit(c, at, header, words);
    kr_leave(c);
    return at != NULL;
}

/* Samples shift all events of a clock, so only the source that announced it may add some. */
static bool is_own_clock(const kr_builder *b, int32_t clock)
{
    return clock >= KINETO_PLUGIN_CLOCK_DEVICE && clock <= KR_LAST_CLOCK &&
           kb_load_acquire(&clocks[clock].taken) &&
           kb_load_relaxed(&clocks[clock].source) == b->source;
}

static int add_clock_sample(handle *b, int32_t clock, int64_t device_time, uint64_t before,
                            uint64_t after)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    uint64_t payload[] = {before, after, (uint64_t)device_time};
    int result;
    if (!is_own_clock(b, clock) || after < before)
        result = kr_refuse(b, KF_REASON_BAD_EVENT);
    else
        result =
            !write_builder_record(b, kf_header(KF_CLOCK_SAMPLE, 4, 0, (uint32_t)clock), 4, payload);
    kr_plugin_exit(c);
    return result;
}

static uint64_t read_host_ticks(handle *b)
{
    (void)b;
    return kb_ticks(kb_ticks_clock());
}

/* ---- counters -------------------------------------------------------------------------------- */

#define KR_SERIES_NAME 256u

static uint64_t extend_hash_with_text(uint64_t hash, const char *text)
{
    return extend_hash(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static uint64_t hash_counter_set(const KinetoPlugin_CounterSet *set)
{
    int32_t numbers[] = {set->eventType, set->deviceId, set->valueType};
    uint64_t hash = extend_hash(KR_HASH_SEED, numbers, sizeof numbers);
    hash = extend_hash_with_text(hash, set->pName);
    for (uint32_t i = 0; i < set->seriesCount; i++) {
        hash = extend_hash_with_text(hash, set->pSeriesNames[i]);
        hash = extend_hash_with_text(hash, set->pUnits ? set->pUnits[i] : NULL);
    }
    return hash;
}

static bool is_counter_set_valid(const KinetoPlugin_CounterSet *set)
{
    bool whole =
        set && KINETO_PLUGIN_HAS(set, KinetoPlugin_CounterSet, pUnits) && set->pName &&
        set->pSeriesNames && set->seriesCount > 0 && set->seriesCount <= KINETO_PLUGIN_MAX_SERIES &&
        set->valueType >= KINETO_PLUGIN_VALUE_INT && set->valueType <= KINETO_PLUGIN_VALUE_DOUBLE;
    for (uint32_t i = 0; whole && i < set->seriesCount; i++)
        whole = set->pSeriesNames[i] != NULL;
    return whole;
}

/* The series' name with its unit, cut to KR_SERIES_NAME - 1 bytes: "power [W]". @return its
 * size. */
static uint32_t format_series_name(char *out, const KinetoPlugin_CounterSet *set, uint32_t i)
{
    const char *unit = set->pUnits ? set->pUnits[i] : NULL;
    int n = unit && *unit ? snprintf(out, KR_SERIES_NAME, "%s [%s]", set->pSeriesNames[i], unit)
                          : snprintf(out, KR_SERIES_NAME, "%s", set->pSeriesNames[i]);
    return KB_MIN((uint32_t)n, KR_SERIES_NAME - 1);
}

/* Add the set as a site whose arguments are the series. 0: the dictionary is full (counted). */
static uint32_t announce_counter_set(kr_builder *b, const KinetoPlugin_CounterSet *set)
{
    const kf_pool *pool = kr_pool_get();
    kf_site_entry entry = {KINETO_KIND_GPU_PM_COUNTER, 0, (uint8_t)set->seriesCount, 0};
    uint8_t types[KINETO_PLUGIN_MAX_SERIES];
    uint32_t sizes[KINETO_PLUGIN_MAX_SERIES + 1], n = 2;
    char names[KINETO_PLUGIN_MAX_SERIES][KR_SERIES_NAME];
    kf_part parts[2 * KINETO_PLUGIN_MAX_SERIES + 4] = {{&entry, sizeof entry},
                                                       {types, set->seriesCount}};
    sizes[0] = (uint32_t)strlen(set->pName);
    parts[n++] = (kf_part){&sizes[0], sizeof sizes[0]};
    parts[n++] = (kf_part){set->pName, sizes[0]};
    for (uint32_t i = 0; i < set->seriesCount; i++) {
        types[i] = (uint8_t)set->valueType;
        sizes[i + 1] = format_series_name(names[i], set, i);
        parts[n++] = (kf_part){&sizes[i + 1], sizeof sizes[0]};
        parts[n++] = (kf_part){names[i], sizes[i + 1]};
    }
    uint32_t site = pool ? kf_dictionary_add(pool, KF_ENTRY_SITE, parts, n) : 0;
    if (!site)
        (void)kr_refuse(b, KF_REASON_DICTIONARY_FULL);
    return site;
}

/* The slot of a registered set, or a free one; KR_MAX_SETS: neither. With the builder's lock. */
static uint32_t find_counter_slot(const kr_builder *b, uint64_t hash)
{
    uint32_t i = 0;
    while (i < KR_MAX_SETS && b->sets[i].site && b->sets[i].hash != hash)
        i++;
    return i;
}

/* Is it the neutral kind of counters, or a plug-in's own kind that is like it? */
static bool is_counter_kind(uint8_t kind)
{
    const kf_own_kind *own = kf_own_kind_at(kineto_rt_own_kinds(), kind);
    return (own ? own->like : kind) == KINETO_KIND_GPU_PM_COUNTER;
}

static int assign_counter_slot(kr_builder *b, const KinetoPlugin_CounterSet *set, int32_t *number)
{
    if (!number || !is_counter_set_valid(set))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    uint32_t index = kr_type_index(b->revision, set->eventType);
    if (index >= KR_MAX_TYPES || !b->known[index] ||
        !is_counter_kind((uint8_t)(b->known[index] - 1)))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    if (!kr_lock_take(&b->lock))
        return 1;
    uint64_t hash = hash_counter_set(set);
    uint32_t slot = find_counter_slot(b, hash);
    bool known = slot < KR_MAX_SETS && b->sets[slot].site;
    uint32_t site = known || slot == KR_MAX_SETS ? 0 : announce_counter_set(b, set);
    if (site) {
        b->sets[slot] = (kr_set){.series_count = set->seriesCount,
                                 .device = set->deviceId,
                                 .type_index = index,
                                 .hash = hash};
        kb_store_release(&b->sets[slot].site, site); /* samplers read without the lock */
    }
    kb_lock_drop(&b->lock);
    if (!site && !known)
        return slot == KR_MAX_SETS ? kr_refuse(b, KF_REASON_DICTIONARY_FULL) : 1;
    *number = (int32_t)slot;
    return 0;
}

static int register_counters(handle *b, const KinetoPlugin_CounterSet *set, int32_t *number)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result = assign_counter_slot(b, set, number);
    kr_plugin_exit(c);
    return result;
}

static int write_counter_samples(const kr_builder *b, const kr_set *set,
                                 const KinetoPlugin_CounterSamples *s, uint8_t kind)
{
    KB_ASSERT(set->site && set->series_count <= KINETO_PLUGIN_MAX_SERIES);
    uint32_t series = set->series_count, words = 6 + series;
    uint32_t aux = kf_device_aux(kind, (uint32_t)s->clock, KF_DEVICE_SITE);
    uint64_t payload[5 + KINETO_PLUGIN_MAX_SERIES],
        header = kf_header(KF_DEVICE, words, aux, set->site);
    const uint64_t *values = s->pValues;
    size_t written = 0;
    payload[2] = 0;
    payload[3] = kf_pair((uint32_t)set->device, 0);
    payload[4] = kf_device_word(0, 0, false, b->source, b->spelling_of[set->type_index]);
    for (size_t i = 0; i < s->count; i++, values += series) {
        payload[0] = payload[1] = (uint64_t)s->pTimes[i];
        memcpy(payload + 5, values, series * sizeof *values);
        written += write_builder_record(b, header, words, payload);
    }
    if (written)
        kr_count(b->source, KF_REASON_DELIVERED, written);
    return written != s->count;
}

static int accept_counter_samples(kr_builder *b, const KinetoPlugin_CounterSamples *s)
{
    if (!s || !KINETO_PLUGIN_HAS(s, KinetoPlugin_CounterSamples, pValues) || s->set < 0 ||
        (uint32_t)s->set >= KR_MAX_SETS || s->clock < 0 || s->clock > KR_LAST_CLOCK ||
        (s->count && (!s->pTimes || !s->pValues)))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    const kr_set *set = &b->sets[s->set];
    if (!kb_load_acquire(&set->site))
        return kr_refuse(b, KF_REASON_BAD_EVENT);
    uint8_t kind = kr_builder_kind(b, set->type_index);
    if (kind != 0xff)
        return write_counter_samples(b, set, s, kind);
    if (s->count > 1) /* kr_builder_kind has counted one */
        kr_count(b->source, KF_REASON_WRONG_KIND, s->count - 1);
    return 1;
}

static int add_counter_samples(handle *b, const KinetoPlugin_CounterSamples *s)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_LATE);
    if (!c)
        return 1;
    int result = accept_counter_samples(b, s);
    kb_store_relaxed(&b->live, 1u);
    kr_plugin_exit(c);
    return result;
}

/* ---- ledger and header ----------------------------------------------------------------------- */

static int add_counts(handle *b, const KinetoPlugin_Counts *counts)
{
    if (!b || !counts || !KINETO_PLUGIN_HAS(counts, KinetoPlugin_Counts, dropped))
        return 1;
    /* Accepted at any time: a late count is better than a wrong ledger. */
    uint32_t source = kb_load_relaxed(&b->source);
    if (counts->requested)
        kr_count(source, KF_REASON_REQUESTED, counts->requested);
    if (counts->dropped)
        kr_count(source, KF_REASON_SOURCE_DROPPED, counts->dropped);
    return 0;
}

static int announce_header_metadata(kr_builder *b, const char *key, const char *value)
{
    uint64_t about = extend_hash_with_text(extend_hash_with_text(KR_HASH_SEED, "header"), key) | 1;
    uint64_t content = extend_hash_with_text(KR_HASH_SEED + kineto_rt_process(), value);
    bool locked = kr_lock_take(&b->lock);
    kr_announced *last = locked ? find_announcement(b, about) : NULL;
    bool known = last && last->key == about && last->content == content;
    int result = known ? 0 : kineto_process_set_metadata(key, value) != KINETO_OK;
    if (last && !result)
        *last = (kr_announced){about, content};
    if (locked)
        kb_lock_drop(&b->lock);
    return result;
}

static int add_header_metadata(handle *b, const char *key, const char *value)
{
    kr_cursor *c = kr_builder_enter(b, KF_REASON_PLUGIN_ERROR);
    if (!c)
        return 1;
    int result =
        key && value ? announce_header_metadata(b, key, value) : kr_refuse(b, KF_REASON_BAD_EVENT);
    kr_plugin_exit(c);
    return result;
}

void kr_announce_init(KinetoPlugin_TraceBuilder *table)
{
    table->addDeviceInfo = add_device_info;
    table->addResourceInfo = add_resource_info;
    table->addDeviceProperties = add_device_properties;
    table->registerClock = register_clock;
    table->addClockSample = add_clock_sample;
    table->hostTicks = read_host_ticks;
    table->addCounts = add_counts;
    table->addHeaderMetadata = add_header_metadata;
    table->registerCounters = register_counters;
    table->addCounterSamples = add_counter_samples;
    table->registerMetadataSet = kr_register_metadata_set;
    table->addLedgerLine = kr_add_ledger_line;
}

/* The members of the checking builder that do not deliver events: rows, header entries, clocks,
 * counts, counters, sets of metadata and ledger lines. Each enters the builder, checks its
 * arguments, stores what later checks need, and leaves. */
#include "plugincheck/check_builder.h"

#include <math.h>

/* ---- rows, header ---------------------------------------------------------------------------- */

/* 0 on success: the result of the builder's function. */
static int store_row(kv_builder *b, const char *name, kv_row row)
{
    char text[64];
    kv_seen *seen = kv_builder_seen(b);
    if (!kv_label_valid(name, text, sizeof text)) {
        kv_fault(b->check, KV_RULE_ROWS_ANNOUNCED, "%s %lld is announced without a readable name",
                 row.is_device ? "device" : "resource",
                 row.is_device ? (long long)row.device : (long long)row.resource);
        return 1;
    }
    if (seen->row_count < KV_MAX_ROWS)
        seen->rows[seen->row_count++] = row;
    return 0;
}

/* The label is optional, but must be readable. */
static int builder_add_device(handle *h, const KinetoPlugin_ProfileDeviceInfo *info)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addDeviceInfo);
    KinetoPlugin_ProfileDeviceInfo copy;
    if (!b)
        return 1;
    if (!kv_copy_struct(b, &copy, info, SIZE(ProfileDeviceInfo, pLabel), "ProfileDeviceInfo"))
        return kv_builder_leave(1);
    if (copy.pLabel && kv_text_size(copy.pLabel, KV_MAX_KEY) == SIZE_MAX)
        kv_fault(b->check, KV_RULE_ROWS_ANNOUNCED, "the label of device %lld cannot be read",
                 (long long)copy.deviceId);
    return kv_builder_leave(
        store_row(b, copy.pName, (kv_row){.device = copy.deviceId, .is_device = true}));
}

static int builder_add_resource(handle *h, const KinetoPlugin_ProfileResourceInfo *info)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addResourceInfo);
    KinetoPlugin_ProfileResourceInfo copy;
    if (!b)
        return 1;
    if (!kv_copy_struct(b, &copy, info, SIZE(ProfileResourceInfo, pName), "ProfileResourceInfo"))
        return kv_builder_leave(1);
    return kv_builder_leave(
        store_row(b, copy.pName, (kv_row){.device = copy.deviceId, .resource = copy.resourceId}));
}

static int builder_add_properties(handle *h, int64_t device, const KinetoPlugin_Metadata *list,
                                  size_t count)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addDeviceProperties);
    kv_keys keys = {0};
    (void)device;
    return b ? kv_builder_leave(!kv_metadata_valid(b, &keys, list, count)) : 1;
}

/* The value must be JSON. */
static int builder_add_header(handle *h, const char *key, const char *value)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addHeaderMetadata);
    if (!b)
        return 1;
    kv_keys keys = {0};
    (void)kv_key_valid(b, &keys, key);
    (void)kv_json_valid(b, key, value, kv_text_size(value, KV_MAX_TEXT));
    return kv_builder_leave(!key || !value);
}

/* ---- clocks and counts ----------------------------------------------------------------------- */

/* The same name gets the same number. */
static int builder_register_clock(handle *h, const char *name, int32_t *clock)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_registerClock);
    char text[64];
    if (!b)
        return 1;
    if (!clock || !kv_label_valid(name, text, sizeof text)) {
        kv_fault(b->check, KV_RULE_TIME_MONOTONIC_CLOCK, "a clock is registered without a name");
        return kv_builder_leave(1);
    }
    int32_t n = KINETO_PLUGIN_CLOCK_DEVICE;
    char(*names)[64] = b->check->clock_names;
    while (n < KV_MAX_CLOCKS && names[n][0] && strcmp(names[n], text) != 0)
        n++;
    if (n == KV_MAX_CLOCKS)
        return kv_builder_leave(1);
    memcpy(names[n], text, sizeof text);
    *clock = n;
    return kv_builder_leave(0);
}

/* Ticks must be in order and not in the future. */
static int builder_add_clock_sample(handle *h, int32_t clock, int64_t device, uint64_t before,
                                    uint64_t after)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addClockSample);
    if (!b)
        return 1;
    kv_seen *seen = kv_builder_seen(b);
    kv_rule rule = KV_RULE_TIME_MONOTONIC_CLOCK;
    uint64_t now = kb_ticks(kb_ticks_clock());
    bool known = clock >= KINETO_PLUGIN_CLOCK_DEVICE && clock < KV_MAX_CLOCKS &&
                 b->check->clock_names[clock][0];
    if (!known)
        kv_fault(b->check, rule, "a sample of clock %d, which is not registered", clock);
    else if (after < before)
        kv_fault(b->check, rule, "a sample whose host ticks go back by %llu",
                 (unsigned long long)(before - after));
    else if (after > now || before == 0)
        kv_fault(b->check, rule, "a sample whose ticks are not from hostTicks");
    else if (seen->sample_count < KV_MAX_SAMPLES)
        seen->samples[seen->sample_count++] = (kv_clock_sample){clock, device, before, after};
    return kv_builder_leave(!known || after < before);
}

/* Valid at any time and with any handle. */
static uint64_t builder_host_ticks(handle *unused)
{
    (void)unused;
    return kb_ticks(kb_ticks_clock());
}

/* Accepted after the end of the builder, too: a late count is better than a wrong one. */
static int builder_add_counts(handle *h, const KinetoPlugin_Counts *counts)
{
    KinetoPlugin_Counts copy;
    kv_builder *b = kv_builder_enter_always(h, KV_CALL_addCounts);
    if (!b)
        return 1;
    bool fine = kv_copy_struct(b, &copy, counts, SIZE(Counts, dropped), "Counts");
    if (fine) {
        kv_builder_seen(b)->requested += copy.requested;
        kv_builder_seen(b)->dropped += copy.dropped;
    }
    return kv_builder_leave(!fine);
}

/* ---- counters -------------------------------------------------------------------------------- */

/* A description of what is wrong with a set of counters; NULL: nothing. */
static const char *find_set_fault(const kv_builder *b, const KinetoPlugin_CounterSet *set)
{
    char text[64];
    if (!kv_label_valid(set->pName, text, sizeof text))
        return "has no name";
    if (kv_type_like(b->check, set->eventType) != KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER)
        return "is of a kind that is not like gpu_pm_counter";
    if (set->valueType < KINETO_PLUGIN_VALUE_INT || set->valueType > KINETO_PLUGIN_VALUE_DOUBLE)
        return "has values that are not numbers";
    if (set->seriesCount < 1 || set->seriesCount > KINETO_PLUGIN_MAX_SERIES)
        return "has no series, or too many";
    for (uint32_t i = 0; i < set->seriesCount; i++) {
        const char *name = NULL, *unit = NULL;
        if (!kv_copy_in(&name, &set->pSeriesNames[i], sizeof name) ||
            !kv_label_valid(name, text, sizeof text))
            return "has a series without a name";
        if (set->pUnits && (!kv_copy_in(&unit, &set->pUnits[i], sizeof unit) ||
                            (unit && kv_text_size(unit, KV_MAX_KEY) == SIZE_MAX)))
            return "has a unit that cannot be read";
    }
    return NULL;
}

/* The index of an equal set; set_count: none. */
static size_t find_counter_set(const kv_check *k, const char *name,
                               const KinetoPlugin_CounterSet *set)
{
    size_t i = 0;
    while (i < k->set_count &&
           (strcmp(k->sets[i].name, name) != 0 || k->sets[i].device != set->deviceId ||
            k->sets[i].type != set->eventType || k->sets[i].series != set->seriesCount))
        i++;
    return i;
}

/* Sets of disabled kinds are refused without a fault, as hosts do. */
static int builder_register_counters(handle *h, const KinetoPlugin_CounterSet *set, int32_t *number)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_registerCounters);
    KinetoPlugin_CounterSet copy;
    char name[64];
    if (!b)
        return 1;
    if (!kv_copy_struct(b, &copy, set, SIZE(CounterSet, pUnits), "CounterSet"))
        return kv_builder_leave(1);
    const char *fault = number ? find_set_fault(b, &copy) : "has no place for its number";
    if (fault) {
        kv_fault(b->check, KV_RULE_COUNTERS_SAMPLES, "a set of counters %s", fault);
        return kv_builder_leave(1);
    }
    if (!kv_type_enabled(b->check->session, copy.eventType))
        return kv_builder_leave(1);
    (void)kv_label_valid(copy.pName, name, sizeof name);
    size_t i = find_counter_set(b->check, name, &copy);
    if (i == KV_MAX_SETS)
        return kv_builder_leave(1);
    if (i == b->check->set_count) {
        kv_set fresh = {.type = copy.eventType,
                        .device = copy.deviceId,
                        .value_type = copy.valueType,
                        .series = copy.seriesCount};
        memcpy(fresh.name, name, sizeof name);
        b->check->sets[b->check->set_count++] = fresh;
    }
    *number = (int32_t)i;
    return kv_builder_leave(0);
}

/* Integers are always finite. */
static bool are_values_finite(const kv_set *set, const void *values)
{
    for (uint32_t i = 0; i < set->series && set->value_type == KINETO_PLUGIN_VALUE_DOUBLE; i++) {
        double value;
        memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return false;
    }
    return true;
}

/* One time and its values, stored as an event without duration. Samplers on several threads may
 * overtake each other between two calls, but not within one, so times must not decrease in a call.
 */
static bool store_counter_sample(kv_builder *b, const kv_set *set, int32_t clock,
                                 const int64_t *times, size_t i, const void *values)
{
    if (i && times[i] < times[i - 1]) {
        kv_fault(b->check, KV_RULE_COUNTERS_SAMPLES, "times of \"%s\" go back by %lld in a call",
                 set->name, (long long)((uint64_t)times[i - 1] - (uint64_t)times[i]));
        return false;
    }
    if (!are_values_finite(set, values)) {
        kv_fault(b->check, KV_RULE_COUNTERS_SAMPLES, "a value of \"%s\" is not a finite number",
                 set->name);
        return false;
    }
    kv_event e = {.type = set->type,
                  .clock = clock,
                  .device = set->device,
                  .start = times[i],
                  .end = times[i],
                  .named = true,
                  .sample = true};
    (void)kv_event_store(kv_builder_seen(b), &e);
    return true;
}

/* Checks the arrays before the samples are read. */
static int builder_add_counter_samples(handle *h, const KinetoPlugin_CounterSamples *samples)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addCounterSamples);
    KinetoPlugin_CounterSamples copy;
    if (!b)
        return 1;
    if (!kv_copy_struct(b, &copy, samples, SIZE(CounterSamples, pValues), "CounterSamples"))
        return kv_builder_leave(1);
    kv_check *k = b->check;
    bool known = copy.set >= 0 && (size_t)copy.set < k->set_count;
    size_t row = known ? k->sets[copy.set].series * sizeof(int64_t) : 0;
    if (!known || copy.clock < 0 || copy.clock >= KV_MAX_CLOCKS || copy.count > KV_MAX_EVENTS ||
        !kv_readable(copy.pTimes, copy.count * sizeof(int64_t)) ||
        !kv_readable(copy.pValues, copy.count * row)) {
        kv_fault(k, KV_RULE_COUNTERS_SAMPLES, "%zu samples of set %d, clock %d cannot be read",
                 copy.count, copy.set, copy.clock);
        return kv_builder_leave(1);
    }
    if (!kv_type_enabled(k->session, k->sets[copy.set].type)) {
        kv_fault(k, KV_RULE_KINDS_ONLY_ENABLED, "samples of \"%s\", whose kind is not enabled",
                 k->sets[copy.set].name);
        return kv_builder_leave(1);
    }
    bool fine = true;
    for (size_t i = 0; i < copy.count && fine; i++)
        fine = store_counter_sample(b, &k->sets[copy.set], copy.clock, copy.pTimes, i,
                                    (const char *)copy.pValues + i * row);
    kv_builder_seen(b)->counter_count += copy.count;
    return kv_builder_leave(!fine);
}

/* ---- sets of metadata, lines of the ledger --------------------------------------------------- */

/* A hash of key, type and value; the value must have passed kv_metadata_valid. */
static uint64_t hash_value(const KinetoPlugin_Metadata *m)
{
    uint64_t hash = kb_hash(m->pKey, strlen(m->pKey)) ^ (uint64_t)(uint32_t)m->valueType << 32;
    size_t item = m->valueType == KINETO_PLUGIN_VALUE_INTS ? sizeof(int64_t) : 1;
    if (m->valueType < KINETO_PLUGIN_VALUE_STRING)
        return hash * 31 + kb_hash(&m->u, sizeof m->u);
    if (m->valueType != KINETO_PLUGIN_VALUE_STRINGS)
        return hash * 31 + kb_hash(m->pointer, m->count * item);
    const char *const *texts = m->pointer;
    for (uint32_t i = 0; i < m->count; i++)
        hash = hash * 31 + kb_hash(texts[i], strlen(texts[i]) + 1);
    return hash;
}

/* Equal sets get the same number. */
static int builder_register_metadata_set(handle *h, const KinetoPlugin_Metadata *list, size_t count,
                                         uint32_t *number)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_registerMetadataSet);
    kv_value_set set = {.hash = count};
    if (!b)
        return 1;
    if (!list || !count || !number) {
        kv_fault(b->check, KV_RULE_META_KEYS,
                 "a set of metadata is empty, or has no place for its number");
        return kv_builder_leave(1);
    }
    kv_check *k = b->check;
    KB_ASSERT(k->value_set_count <= KV_MAX_VALUE_SETS);
    if (!kv_metadata_valid(b, &set.keys, list, count))
        return kv_builder_leave(1);
    for (size_t i = 0; i < count; i++)
        set.hash = set.hash * 31 + hash_value(&list[i]);
    uint32_t i = 0;
    while (i < k->value_set_count && k->value_sets[i].hash != set.hash)
        i++;
    if (i == KV_MAX_VALUE_SETS)
        return kv_builder_leave(1);
    if (i == k->value_set_count)
        k->value_sets[k->value_set_count++] = set;
    *number = i + 1;
    return kv_builder_leave(0);
}

static int builder_add_ledger_line(handle *h, const char *reason, uint64_t count, int32_t is_loss,
                                   const char *detail)
{
    kv_builder *b = kv_builder_enter(h, KV_CALL_addLedgerLine);
    char text[64];
    (void)count;
    (void)is_loss;
    if (!b)
        return 1;
    bool fine = kv_label_valid(reason, text, sizeof text) &&
                (!detail || kv_text_size(detail, KV_MAX_TEXT) != SIZE_MAX);
    if (!fine)
        kv_fault(b->check, KV_RULE_NAMES_TEXT, "a ledger line has no readable reason");
    return kv_builder_leave(!fine);
}

/* ---- the table ------------------------------------------------------------------------------- */

void kv_announce_fill(KinetoPlugin_TraceBuilder *table)
{
    table->addDeviceInfo = builder_add_device;
    table->addResourceInfo = builder_add_resource;
}

/* Old hosts have no such members: their structs end before. */
void kv_announce_fill_today(KinetoPlugin_TraceBuilder *table)
{
    table->addDeviceProperties = builder_add_properties;
    table->registerClock = builder_register_clock;
    table->addClockSample = builder_add_clock_sample;
    table->hostTicks = builder_host_ticks;
    table->addCounts = builder_add_counts;
    table->addHeaderMetadata = builder_add_header;
    table->registerCounters = builder_register_counters;
    table->addCounterSamples = builder_add_counter_samples;
    table->registerMetadataSet = builder_register_metadata_set;
    table->addLedgerLine = builder_add_ledger_line;
}

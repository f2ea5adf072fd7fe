/* What plug-ins say to the checking builder that is not an event: rows, the header, clocks, counts,
 * counters. */
#include "cli/check_builder.h"

#include <math.h>

/* ---- rows, header ------------------------------------------------------------------------------------- */

static int row_add(kc_builder *b, const char *name, kc_row row)
{
    char text[64];
    kc_seen *seen = kc_seen_by(b);
    if (!kc_label_fine(name, text, sizeof text)) {
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
    kc_builder *b = kc_builder_enter(h, KC_CALL_addDeviceInfo);
    KinetoPlugin_ProfileDeviceInfo copy;
    if (!b)
        return 1;
    if (!kc_take(b, &copy, info, SIZE(ProfileDeviceInfo, pLabel), "ProfileDeviceInfo"))
        return kc_builder_leave(1);
    if (copy.pLabel && kc_text_size(copy.pLabel, KC_LONGEST_KEY) == SIZE_MAX)
        kc_fault(b->check, KC_RULE_ROWS_ANNOUNCED, "the label of device %lld cannot be read",
                 (long long)copy.deviceId);
    return kc_builder_leave(
        row_add(b, copy.pName, (kc_row){.device = copy.deviceId, .is_device = true}));
}

static int add_resource_info(handle *h, const KinetoPlugin_ProfileResourceInfo *info)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_addResourceInfo);
    KinetoPlugin_ProfileResourceInfo copy;
    if (!b)
        return 1;
    if (!kc_take(b, &copy, info, SIZE(ProfileResourceInfo, pName), "ProfileResourceInfo"))
        return kc_builder_leave(1);
    return kc_builder_leave(
        row_add(b, copy.pName, (kc_row){.device = copy.deviceId, .resource = copy.resourceId}));
}

static int add_device_properties(handle *h, int64_t device, const KinetoPlugin_Metadata *list,
                                 size_t count)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_addDeviceProperties);
    kc_keys keys = {0};
    (void)device;
    return b ? kc_builder_leave(!kc_metadata_fine(b, &keys, list, count)) : 1;
}

static int add_header_metadata(handle *h, const char *key, const char *value)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_addHeaderMetadata);
    if (!b)
        return 1;
    kc_keys keys = {0};
    (void)kc_key_fine(b, &keys, key);
    (void)kc_json_fine(b, key, value, kc_text_size(value, KC_LONGEST_TEXT));
    return kc_builder_leave(!key || !value);
}

/* ---- clocks and counts ---------------------------------------------------------------------------------- */

static int register_clock(handle *h, const char *name, int32_t *clock)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_registerClock);
    char text[64];
    if (!b)
        return 1;
    if (!clock || !kc_label_fine(name, text, sizeof text)) {
        kc_fault(b->check, KC_RULE_TIME_MONOTONIC_CLOCK, "a clock is registered without a name");
        return kc_builder_leave(1);
    }
    int32_t n = KINETO_PLUGIN_CLOCK_DEVICE;
    char(*names)[64] = b->check->clock_names;
    while (n < KC_CLOCKS && names[n][0] && strcmp(names[n], text) != 0)
        n++;
    if (n == KC_CLOCKS)
        return kc_builder_leave(1);
    memcpy(names[n], text, sizeof text);
    *clock = n;
    return kc_builder_leave(0);
}

static int add_clock_sample(handle *h, int32_t clock, int64_t device, uint64_t before,
                            uint64_t after)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_addClockSample);
    if (!b)
        return 1;
    kc_seen *seen = kc_seen_by(b);
    kc_rule rule = KC_RULE_TIME_MONOTONIC_CLOCK;
    uint64_t now = kb_ticks(kb_ticks_clock());
    bool known =
        clock >= KINETO_PLUGIN_CLOCK_DEVICE && clock < KC_CLOCKS && b->check->clock_names[clock][0];
    if (!known)
        kc_fault(b->check, rule, "a sample of clock %d, which nobody registered", clock);
    else if (after < before)
        kc_fault(b->check, rule, "a sample whose host ticks go back by %llu",
                 (unsigned long long)(before - after));
    else if (after > now || before == 0)
        kc_fault(b->check, rule, "a sample whose ticks are not of hostTicks");
    else if (seen->sample_count < KC_MAX_SAMPLES)
        seen->samples[seen->sample_count++] = (kc_sample){clock, device, before, after};
    return kc_builder_leave(!known || after < before);
}

/* At any time, with any handle. */
static uint64_t host_ticks(handle *unused)
{
    (void)unused;
    return kb_ticks(kb_ticks_clock());
}

/* Taken at any time: a late count is better than a wrong one. */
static int add_counts(handle *h, const KinetoPlugin_Counts *counts)
{
    KinetoPlugin_Counts copy;
    kc_builder *b = kc_builder_enter_always(h, KC_CALL_addCounts);
    if (!b)
        return 1;
    bool fine = kc_take(b, &copy, counts, SIZE(Counts, dropped), "Counts");
    if (fine) {
        kc_seen_by(b)->requested += copy.requested;
        kc_seen_by(b)->dropped += copy.dropped;
    }
    return kc_builder_leave(!fine);
}

/* ---- counters ------------------------------------------------------------------------------------------- */

/* What is wrong with it; NULL: nothing. */
static const char *set_lack(const kc_builder *b, const KinetoPlugin_CounterSet *set)
{
    char text[64];
    if (!kc_label_fine(set->pName, text, sizeof text))
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
            !kc_label_fine(name, text, sizeof text))
            return "has a series without a name";
        if (set->pUnits && (!kc_copy_in(&unit, &set->pUnits[i], sizeof unit) ||
                            (unit && kc_text_size(unit, KC_LONGEST_KEY) == SIZE_MAX)))
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
    kc_builder *b = kc_builder_enter(h, KC_CALL_registerCounters);
    KinetoPlugin_CounterSet copy;
    char name[64];
    if (!b)
        return 1;
    if (!kc_take(b, &copy, set, SIZE(CounterSet, pUnits), "CounterSet"))
        return kc_builder_leave(1);
    const char *lack = number ? set_lack(b, &copy) : "gets no number";
    if (lack) {
        kc_fault(b->check, KC_RULE_COUNTERS_SAMPLES, "a set of counters %s", lack);
        return kc_builder_leave(1);
    }
    if (!kc_type_enabled(b->check->session, copy.eventType))
        return kc_builder_leave(1);
    (void)kc_label_fine(copy.pName, name, sizeof name);
    size_t i = set_find(b->check, name, &copy);
    if (i == KC_MAX_SETS)
        return kc_builder_leave(1);
    if (i == b->check->set_count) {
        kc_set fresh = {.type = copy.eventType,
                        .device = copy.deviceId,
                        .value_type = copy.valueType,
                        .series = copy.seriesCount};
        memcpy(fresh.name, name, sizeof name);
        b->check->sets[b->check->set_count++] = fresh;
    }
    *number = (int32_t)i;
    return kc_builder_leave(0);
}

static bool values_finite(const kc_set *set, const void *values)
{
    for (uint32_t i = 0; i < set->series && set->value_type == KINETO_PLUGIN_VALUE_DOUBLE; i++) {
        double value;
        memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
        if (!isfinite(value))
            return false;
    }
    return true;
}

/* One time and its values. Samplers on several threads may overtake each other between two calls,
 * but not within one. */
static bool sample_fine(kc_builder *b, const kc_set *set, int32_t clock, const int64_t *times,
                        size_t i, const void *values)
{
    if (i && times[i] < times[i - 1]) {
        kc_fault(b->check, KC_RULE_COUNTERS_SAMPLES, "times of \"%s\" go back by %lld in a call",
                 set->name, (long long)((uint64_t)times[i - 1] - (uint64_t)times[i]));
        return false;
    }
    if (!values_finite(set, values)) {
        kc_fault(b->check, KC_RULE_COUNTERS_SAMPLES, "a value of \"%s\" is no number", set->name);
        return false;
    }
    kc_event e = {.type = set->type,
                  .clock = clock,
                  .device = set->device,
                  .start = times[i],
                  .end = times[i],
                  .named = true,
                  .sample = true};
    (void)kc_event_store(kc_seen_by(b), &e);
    return true;
}

static int add_counter_samples(handle *h, const KinetoPlugin_CounterSamples *samples)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_addCounterSamples);
    KinetoPlugin_CounterSamples copy;
    if (!b)
        return 1;
    if (!kc_take(b, &copy, samples, SIZE(CounterSamples, pValues), "CounterSamples"))
        return kc_builder_leave(1);
    kc_check *k = b->check;
    bool known = copy.set >= 0 && (size_t)copy.set < k->set_count;
    size_t row = known ? k->sets[copy.set].series * sizeof(int64_t) : 0;
    if (!known || copy.clock < 0 || copy.clock >= KC_CLOCKS || copy.count > KC_MAX_EVENTS ||
        !kc_readable(copy.pTimes, copy.count * sizeof(int64_t)) ||
        !kc_readable(copy.pValues, copy.count * row)) {
        kc_fault(k, KC_RULE_COUNTERS_SAMPLES, "%zu samples of set %d, clock %d cannot be read",
                 copy.count, copy.set, copy.clock);
        return kc_builder_leave(1);
    }
    if (!kc_type_enabled(k->session, k->sets[copy.set].type)) {
        kc_fault(k, KC_RULE_KINDS_ONLY_ENABLED, "samples of \"%s\", whose kind is not enabled",
                 k->sets[copy.set].name);
        return kc_builder_leave(1);
    }
    bool fine = true;
    for (size_t i = 0; i < copy.count && fine; i++)
        fine = sample_fine(b, &k->sets[copy.set], copy.clock, copy.pTimes, i,
                           (const char *)copy.pValues + i * row);
    kc_seen_by(b)->counter_count += copy.count;
    return kc_builder_leave(!fine);
}

/* ---- sets of metadata, lines of the ledger --------------------------------------------------------- */

/* Of values that were found to be fine. */
static uint64_t value_hash(const KinetoPlugin_Metadata *m)
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

static int register_metadata_set(handle *h, const KinetoPlugin_Metadata *list, size_t count,
                                 uint32_t *number)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_registerMetadataSet);
    kc_value_set set = {.hash = count};
    if (!b)
        return 1;
    if (!list || !count || !number) {
        kc_fault(b->check, KC_RULE_META_KEYS, "a set of metadata is empty, or gets no number");
        return kc_builder_leave(1);
    }
    kc_check *k = b->check;
    if (!kc_metadata_fine(b, &set.keys, list, count))
        return kc_builder_leave(1);
    for (size_t i = 0; i < count; i++)
        set.hash = set.hash * 31 + value_hash(&list[i]);
    uint32_t i = 0;
    while (i < k->value_set_count && k->value_sets[i].hash != set.hash)
        i++;
    if (i == KC_MAX_VALUE_SETS)
        return kc_builder_leave(1);
    if (i == k->value_set_count)
        k->value_sets[k->value_set_count++] = set;
    *number = i + 1;
    return kc_builder_leave(0);
}

static int add_ledger_line(handle *h, const char *reason, uint64_t count, int32_t is_loss,
                           const char *detail)
{
    kc_builder *b = kc_builder_enter(h, KC_CALL_addLedgerLine);
    char text[64];
    (void)count;
    (void)is_loss;
    if (!b)
        return 1;
    bool fine = kc_label_fine(reason, text, sizeof text) &&
                (!detail || kc_text_size(detail, KC_LONGEST_TEXT) != SIZE_MAX);
    if (!fine)
        kc_fault(b->check, KC_RULE_NAMES_TEXT, "a line of the ledger has no reason that is text");
    return kc_builder_leave(!fine);
}

/* ---- all of them ---------------------------------------------------------------------------------- */

void kc_announce_init(KinetoPlugin_TraceBuilder *table)
{
    table->addDeviceInfo = add_device_info;
    table->addResourceInfo = add_resource_info;
}

void kc_announce_init_today(KinetoPlugin_TraceBuilder *table)
{
    table->addDeviceProperties = add_device_properties;
    table->registerClock = register_clock;
    table->addClockSample = add_clock_sample;
    table->hostTicks = host_ticks;
    table->addCounts = add_counts;
    table->addHeaderMetadata = add_header_metadata;
    table->registerCounters = register_counters;
    table->addCounterSamples = add_counter_samples;
    table->registerMetadataSet = register_metadata_set;
    table->addLedgerLine = add_ledger_line;
}

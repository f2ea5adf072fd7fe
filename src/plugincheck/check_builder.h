/* Inside of the checking builder: what its two files share. */
#ifndef KV_CHECK_BUILDER_H
#define KV_CHECK_BUILDER_H

#include "plugincheck/check.h"

#define KV_LONGEST_TEXT  ((size_t)1 << 20)
#define KV_LONGEST_KEY   ((size_t)1000)
#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

typedef KinetoPlugin_TraceBuilderHandle handle;

/* Where a plug-in is, is noted as a number: that costs nothing. */
typedef enum kv_call {
    KV_CALL_NONE,
    KV_CALL_addEvent,
    KV_CALL_setLastEventName,
    KV_CALL_setLastEventFlow,
    KV_CALL_addLastEventMetadata,
    KV_CALL_addLastEventValues,
    KV_CALL_setLastEventIds,
    KV_CALL_emit,
    KV_CALL_addDeviceInfo,
    KV_CALL_addResourceInfo,
    KV_CALL_addDeviceProperties,
    KV_CALL_addHeaderMetadata,
    KV_CALL_registerClock,
    KV_CALL_addClockSample,
    KV_CALL_registerCounters,
    KV_CALL_addCounterSamples,
    KV_CALL_registerMetadataSet,
    KV_CALL_addLedgerLine,
    KV_CALL_addCounts,
    KV_CALL_COUNT
} kv_call;

/** The builder, alone with it until kv_builder_leave; NULL: refuse the call (its fault is booked).
 */
kv_builder *kv_builder_enter(handle *b, kv_call which);
/** The same, also when its time is over. */
kv_builder *kv_builder_enter_always(handle *b, kv_call which);
/** Returns `result`. */
int kv_builder_leave(int result);
static inline kv_seen *kv_seen_by(const kv_builder *b) { return b->check->seen; }

/** A struct of the plug-in: into `to`, the `least` that it must have. False: booked. */
bool kv_take(kv_builder *b, void *to, const void *from, size_t least, const char *type);
/** Text that names something: a device, a clock, a counter. */
bool kv_label_fine(const char *text, char *buf, size_t size);
bool kv_key_fine(kv_builder *b, kv_keys *keys, const char *key);
bool kv_json_fine(kv_builder *b, const char *key, const char *value, size_t bytes);
bool kv_metadata_fine(kv_builder *b, kv_keys *keys, const KinetoPlugin_Metadata *list,
                      size_t count);
bool kv_type_enabled(const kv_session *s, int32_t type);
/** NULL: there is no room. */
kv_event *kv_event_store(kv_seen *seen, const kv_event *e);

/* check_announce.c: the members that announce rows, clocks, counters and header entries. */
void kv_announce_init(KinetoPlugin_TraceBuilder *table);
void kv_announce_init_today(KinetoPlugin_TraceBuilder *table);
#endif

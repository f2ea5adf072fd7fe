/* Inside of the checking builder: what its two files share. */
#ifndef KC_CHECK_BUILDER_H
#define KC_CHECK_BUILDER_H

#include "cli/check.h"

#define KC_LONGEST_TEXT  ((size_t)1 << 20)
#define KC_LONGEST_KEY   ((size_t)1000)
#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

typedef KinetoPlugin_TraceBuilderHandle handle;

/* Where a plug-in is, is noted as a number: that costs nothing. */
typedef enum kc_call {
    KC_CALL_NONE,
    KC_CALL_addEvent,
    KC_CALL_setLastEventName,
    KC_CALL_setLastEventFlow,
    KC_CALL_addLastEventMetadata,
    KC_CALL_addLastEventValues,
    KC_CALL_setLastEventIds,
    KC_CALL_emit,
    KC_CALL_addDeviceInfo,
    KC_CALL_addResourceInfo,
    KC_CALL_addDeviceProperties,
    KC_CALL_addHeaderMetadata,
    KC_CALL_registerClock,
    KC_CALL_addClockSample,
    KC_CALL_registerCounters,
    KC_CALL_addCounterSamples,
    KC_CALL_registerMetadataSet,
    KC_CALL_addLedgerLine,
    KC_CALL_addCounts,
    KC_CALL_COUNT
} kc_call;

/** The builder, alone with it until kc_builder_leave; NULL: refuse the call (its fault is booked).
 */
kc_builder *kc_builder_enter(handle *b, kc_call which);
/** The same, also when its time is over. */
kc_builder *kc_builder_enter_always(handle *b, kc_call which);
/** Returns `result`. */
int kc_builder_leave(int result);
static inline kc_seen *kc_seen_by(const kc_builder *b) { return b->check->seen; }

/** A struct of the plug-in: into `to`, the `least` that it must have. False: booked. */
bool kc_take(kc_builder *b, void *to, const void *from, size_t least, const char *type);
/** Text that names something: a device, a clock, a counter. */
bool kc_label_fine(const char *text, char *buf, size_t size);
bool kc_key_fine(kc_builder *b, kc_keys *keys, const char *key);
bool kc_json_fine(kc_builder *b, const char *key, const char *value, size_t bytes);
bool kc_metadata_fine(kc_builder *b, kc_keys *keys, const KinetoPlugin_Metadata *list,
                      size_t count);
bool kc_type_enabled(const kc_session *s, int32_t type);
/** NULL: there is no room. */
kc_event *kc_event_store(kc_seen *seen, const kc_event *e);

/* check_announce.c: the members that announce rows, clocks, counters and header entries. */
void kc_announce_init(KinetoPlugin_TraceBuilder *table);
void kc_announce_init_today(KinetoPlugin_TraceBuilder *table);
#endif

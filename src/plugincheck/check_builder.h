/* Inside of the checking builder: what check_builder.c (events) and check_announce.c (everything
 * else) share. Threads of the plug-in call the builder at any time: kv_builder_enter locks the data
 * of the session, and kv_builder_leave unlocks it. */
#ifndef KV_CHECK_BUILDER_H
#define KV_CHECK_BUILDER_H

#include "plugincheck/check_host.h"

#define KV_MAX_TEXT      ((size_t)1 << 20)
#define KV_MAX_KEY       ((size_t)1000)
#define SIZE(type, last) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last)

typedef KinetoPlugin_TraceBuilderHandle handle;

/* Functions of the builder. The running one is stored as a number in the crash site, which is
 * cheap. */
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

/** Check the handle and lock. NULL, unlocked and with a fault reported: the call must return 1. */
kv_builder *kv_builder_enter(handle *b, kv_call which);
/** The same, but accepts a builder that was ended. */
kv_builder *kv_builder_enter_always(handle *b, kv_call which);
/** Unlock. @return `result`. */
int kv_builder_leave(int result);
static inline kv_seen *kv_builder_seen(const kv_builder *b) { return b->check->seen; }

/** Copy a struct of the plug-in into `to`: its first `min` bytes, which it must have. False, and a
 *  fault: it cannot be read, or states a smaller size. */
bool kv_copy_struct(kv_builder *b, void *to, const void *from, size_t min, const char *type);
/** A label of a device, clock or counter: not empty, UTF-8. @param buf  receives a cut copy. */
bool kv_label_valid(const char *text, char *buf, size_t size);
bool kv_key_valid(kv_builder *b, kv_keys *keys, const char *key);
bool kv_json_valid(kv_builder *b, const char *key, const char *value, size_t bytes);
bool kv_metadata_valid(kv_builder *b, kv_keys *keys, const KinetoPlugin_Metadata *list,
                       size_t count);
bool kv_type_enabled(const kv_session *s, int32_t type);
/** NULL: the store is full. */
kv_event *kv_event_store(kv_seen *seen, const kv_event *e);

/* check_announce.c: fill the members that announce rows, clocks, counters and header entries: those
 * of all versions, and those that today's version added. */
void kv_announce_fill(KinetoPlugin_TraceBuilder *table);
void kv_announce_fill_today(KinetoPlugin_TraceBuilder *table);
#endif

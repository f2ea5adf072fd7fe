/* The host that checks: it loads a plug-in, calls its functions as hosts of several versions would,
 * and stores what the plug-in delivers. All of it runs in the child process of a scenario. Only the
 * builder (check_builder.c) is called from threads of the plug-in; it locks kv_seen. */
#ifndef KV_CHECK_HOST_H
#define KV_CHECK_HOST_H

#include "base/device_clock_line.h"
#include "plugincheck/check_guard.h"
#include "plugincheck/check_notes.h"
#include <ckineto/plugin.h>

#define KV_MAX_KINDS      64u
#define KV_MAX_EVENTS     ((size_t)1 << 18)
#define KV_MAX_SAMPLES    ((size_t)1 << 14)
#define KV_MAX_ROWS       ((size_t)1 << 12)
#define KV_MAX_PUSHED     64u
#define KV_MAX_CLOCKS     16
#define KV_MAX_SETS       64
#define KV_MAX_KEYS       32u
#define KV_MAX_VALUE_SETS 256u

/* The version of the interface that the host has: it determines the sizes of all structs. */
typedef enum kv_host_version {
    KV_HOST_TODAY,
    KV_HOST_LARGER, /* a later version, with longer structs */
    KV_HOST_REVISION_B,
    KV_HOST_REVISION_0
} kv_host_version;

/* A profiler that the plug-in registered. */
typedef struct kv_profiler {
    const KinetoPlugin_ProfilerInterface *functions;
    char name[32], vendor[32];
    int32_t kinds[KV_MAX_KINDS];
    size_t kind_count;
} kv_profiler;

/* What is kept of an event until the session is over. */
typedef struct kv_event {
    int32_t type, clock, device, resource, flow_type;
    uint32_t flow_id;
    int64_t start, end, event_id;
    uint64_t external_id;
    bool flow_start, named;
    bool sample; /* of a counter */
    char name[32]; /* its beginning */
} kv_event;

/* A sample of a device clock: host ticks before and after reading it. */
typedef struct kv_clock_sample {
    int32_t clock;
    int64_t device;
    uint64_t before, after;
} kv_clock_sample;

/* An announced device or queue. */
typedef struct kv_row {
    int64_t device;
    int32_t resource;
    bool is_device;
} kv_row;

/* A registered set of counters. */
typedef struct kv_set {
    char name[64];
    int32_t type, device, value_type;
    uint32_t series;
} kv_set;

/* Hashes of the keys that an event has. */
typedef struct kv_keys {
    uint32_t count;
    uint64_t hashes[KV_MAX_KEYS];
} kv_keys;

/* A set of metadata that events may reference by its number. */
typedef struct kv_value_set {
    uint64_t hash; /* of the whole set */
    kv_keys keys;
} kv_value_set;

/* Everything that was delivered in one session. The counts include what exceeded the arrays. */
typedef struct kv_seen {
    uint64_t event_count, counter_count;
    /* events that were rejected because of a fault */
    uint64_t refused;
    /* used entries of the arrays */
    uint64_t sample_count, row_count, stored_count;
    uint64_t requested, dropped;
    uint64_t live_count, flow_count, metadata_count;
    kv_event events[KV_MAX_EVENTS];
    kv_clock_sample samples[KV_MAX_SAMPLES];
    kv_row rows[KV_MAX_ROWS];
} kv_seen;

/* One builder that the plug-in received. Never freed: the plug-in may keep and use it too late. */
struct KinetoPlugin_TraceBuilderHandle {
    uint64_t magic;
    kv_check *check;
    uint32_t serial;
    bool open, live;
};
typedef KinetoPlugin_TraceBuilderHandle kv_builder;

/* Maps times of a device clock to the host's. */
typedef struct kv_line {
    bool usable;
    kb_clock_line line;
} kv_line;

typedef struct kv_session {
    kv_check *k;
    kv_profiler *p;
    kv_host_version version;
    /* for measuring costs: events are only counted */
    bool quick;
    KinetoPlugin_ProfilerHandle *handle;
    int32_t kinds[KV_MAX_KINDS];
    size_t kind_count;
    const KinetoPlugin_TraceBuilder *live;
    kv_builder *live_handle;
    kb_clock_snapshot before, after;
    kb_clock_fit fit;
    kv_line lines[KV_MAX_CLOCKS];
    uint64_t pushed[KV_MAX_PUSHED];
    size_t pushed_count;
    /* in the last call of the plug-in */
    uint64_t spent_ns;
} kv_session;

struct kv_check {
    const char *path;
    int to; /* pipe for notes */
    kv_crash_site *site;
    uint64_t fault_counts[KV_RULE_COUNT];
    kv_host_version version;
    void *library;
    KinetoPlugin_exerciseFn exercise;
    int exercise_result;
    kv_profiler profilers[KV_MAX_PROFILERS];
    size_t profiler_count, refused_profilers;
    char own_names[KV_MAX_KINDS][40];
    int32_t own_like[KV_MAX_KINDS];
    size_t own_count;
    char clock_names[KV_MAX_CLOCKS][64];
    kv_set sets[KV_MAX_SETS];
    size_t set_count;
    /* of this session; set N is at index N - 1 */
    kv_value_set value_sets[KV_MAX_VALUE_SETS];
    uint32_t value_set_count;
    uint32_t builders;
    /* the current one, for the builder */
    kv_session *session;
    kv_seen *seen;
};

/* ---- check_host.c ---------------------------------------------------------------------------- */
/** Prepare guarded memory and the store of a child. False: no memory. */
bool kv_check_init(kv_check *k, const char *path, int to, kv_crash_site *site);
/** Load the plug-in and let it register with a host of this version.
 *  @param strict  resolve all symbols at once, and report a failed registration. */
bool kv_load(kv_check *k, kv_host_version version, bool strict);
/** The same, and query every profiler. False: the plug-in rejects such a host (reported for
 * `rule`). */
bool kv_load_and_query(kv_check *k, kv_host_version version, kv_rule rule);
/** Fill name and kinds of a profiler, without verdicts. 0 on success. */
int kv_query(kv_check *k, kv_profiler *p);
/** Make the device work; false: the plug-in has no function for it, or the function failed. */
bool kv_exercise(kv_check *k, uint32_t count);
const char *kv_why_no_events(const kv_check *k);

/** Initialise a session with all kinds of the profiler; it is not created yet. */
void kv_session_init(kv_session *s, kv_check *k, kv_profiler *p, kv_host_version version);
/* The calls of a session. They return the plug-in's result: 0 is success. */
int kv_create(kv_session *s);
int kv_start(kv_session *s);
int kv_stop(kv_session *s);
int kv_process(kv_session *s);
int kv_destroy(kv_session *s);
int kv_toggle(kv_session *s, bool on);
/** 0 where the profiler has no such function. @param user  the user's ids. */
int kv_push(kv_session *s, bool user, uint64_t id);
int kv_pop(kv_session *s, bool user);
/** "profilerStart returned 3: text of the plug-in". */
const char *kv_failure(kv_session *s, const char *call, int result, char *buf, size_t size);
/** create, start, exercise, stop, process, destroy; the first failure is a fault of `rule`.
 *  @param events  receives the number of events; may be NULL. */
bool kv_run_session(kv_session *s, kv_rule rule, uint32_t exercise, uint64_t *events);
/** "6 kernel". */
const char *kv_type_text(const kv_check *k, int32_t type, char *buf, size_t size);
/** The published kind that a kind of the plug-in resembles; published kinds are returned as they
 * are. */
int32_t kv_type_like(const kv_check *k, int32_t type);

/* ---- check_builder.c ------------------------------------------------------------------------- */
const KinetoPlugin_TraceBuilder *kv_builder_new(kv_session *s, bool live, kv_builder **handle);
void kv_builder_end(kv_builder *b);
/** Name of a function of the builder; "": none. */
const char *kv_builder_call(uint32_t number);

/* ---- check_events.c: checks of a finished session -------------------------------------------- */
/** Report faults of times, clocks, flows, ids, rows and counts. */
void kv_check_events(kv_session *s);
/** Report the rules of events: those with matching events hold, the others were not tested. */
void kv_report_event_rules(kv_check *k);
/** The number of events that were delivered more than once, all members equal. */
uint64_t kv_count_duplicates(kv_check *k);
/** Convert a time to UTC nanoseconds. False: the clock has no usable samples. */
bool kv_utc_ns(const kv_session *s, int32_t clock, int64_t time, int64_t *ns);
#endif

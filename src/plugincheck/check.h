/* Inside of `ckineto plugin check`: rules, the host that only checks, and what runs against it. All
 * but the report runs in a child process for each scenario (isolate.h). */
#ifndef KV_CHECK_H
#define KV_CHECK_H

#include "base/base.h"
#include "base/clock_line.h"
#include <ckineto/plugin.h>

/* ---- check_rules.c ------------------------------------------------------------------------------ */
typedef enum kv_rule {
#define X(name, id, text, hint) KV_RULE_##name,
#include "plugincheck/check_rules.def"
#undef X
    KV_RULE_COUNT
} kv_rule;

typedef struct kv_rule_row {
    const char *id, *text, *hint;
} kv_rule_row;
extern const kv_rule_row kv_rules[KV_RULE_COUNT];
/** KV_RULE_COUNT: there is none of this id. */
kv_rule kv_rule_find(const char *id);
#define KV_RULE_BIT(rule) (UINT64_C(1) << (unsigned)(rule))

/* ---- check_book.c: what a child tells its parent ------------------------------------------------- */
typedef enum kv_word {
    KV_WORD_FAULT = 1,
    KV_WORD_OK,
    KV_WORD_UNTESTED,
    KV_WORD_MEASURED,
    KV_WORD_PROFILER,
    KV_WORD_DONE /* of a scenario that ends the process itself */
} kv_word;

/* One message; of fixed size, so that a child that dies leaves whole ones. */
typedef struct kv_note {
    uint32_t magic, word, rule;
    uint32_t again; /* FAULT: not the first of this rule */
    double ns;      /* MEASURED */
    char text[232];
} kv_note;
#define KV_NOTE_MAGIC 0x63686b31u

/* Shared with the parent, so that it knows where a child was when it crashed or hung. */
typedef struct kv_where {
    uint32_t rule;     /* what a crash is a fault of */
    char profiler[32]; /* empty: the library itself */
    char call[64];     /* function of the plug-in; empty: none */
    uint32_t inner;    /* function of ours that it had called: kv_builder_call */
    char guard[96];    /* what it read behind, if that was the crash */
} kv_where;

typedef struct kv_check kv_check;
void kv_fault(kv_check *k, kv_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** The rule was tested, and if no fault was found it holds; the text may be "". */
void kv_ok(kv_check *k, kv_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
void kv_untested(kv_check *k, kv_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
void kv_measured(kv_check *k, kv_rule rule, double ns, const char *what);
void kv_tell(kv_check *k, kv_word word, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** From here on a crash is a fault of this rule. */
void kv_at(kv_check *k, kv_rule rule);
/** A function of the plug-in is entered or, with "", left. */
void kv_calling(kv_check *k, const char *call);

/* ---- check_guard.c: memory with an end ------------------------------------------------------------- */
/** Reserve the pages and watch for reads behind them. False: no memory. */
bool kv_guard_init(kv_where *where);
#define KV_NO_MEMORY 99 /* exit status of a child without memory */
/** `bytes` whose end, rounded up to 8, is the end of what can be read; zeroed; `what` is static
 * text. One of a ring: used again after 64 more, or 192 if it is one to keep. Never NULL. */
void *kv_guard_new(size_t bytes, const char *what, bool keep);
/** From now on nothing of it can be touched. */
void kv_guard_close(void *p, size_t bytes);
/** Copy from memory of the plug-in; false: it cannot be read. */
bool kv_copy_in(void *to, const void *from, size_t bytes);
bool kv_readable(const void *from, size_t bytes);
/** Bytes up to NUL; SIZE_MAX: it cannot be read, or there is none among `most`. */
size_t kv_text_size(const char *text, size_t most);
/** Into buf, cut and fit for a message. */
const char *kv_quote(const char *text, char *buf, size_t size);

/* ---- check_host.c ------------------------------------------------------------------------------- */
#define KV_MAX_PROFILERS 8u
#define KV_MAX_KINDS     64u
#define KV_MAX_EVENTS    ((size_t)1 << 18)
#define KV_MAX_SAMPLES   ((size_t)1 << 14)
#define KV_MAX_ROWS      ((size_t)1 << 12)
#define KV_MAX_PUSHED    64u
#define KV_CLOCKS        16
#define KV_MAX_SETS      64

/* The hosts that are played. */
typedef enum kv_size {
    KV_SIZE_TODAY,
    KV_SIZE_LARGER,
    KV_SIZE_REVISION_B,
    KV_SIZE_REVISION_0
} kv_size;

typedef struct kv_checked {
    const KinetoPlugin_ProfilerInterface *functions;
    char name[32], vendor[32];
    int32_t kinds[KV_MAX_KINDS];
    size_t kind_count;
} kv_checked;

/* Of an event, what is looked at when the session is over. */
typedef struct kv_event {
    int32_t type, clock, device, resource, flow_type;
    uint32_t flow_id;
    int64_t start, end, event_id;
    uint64_t external_id;
    bool flow_start, named;
    bool sample; /* of a counter */
} kv_event;

typedef struct kv_sample {
    int32_t clock;
    int64_t device;
    uint64_t before, after;
} kv_sample;

typedef struct kv_row {
    int64_t device;
    int32_t resource;
    bool is_device;
} kv_row;

typedef struct kv_set {
    char name[64];
    int32_t type, device, value_type;
    uint32_t series;
} kv_set;

/* Keys that an event has, as hashes. */
#define KV_KEYS 32u
typedef struct kv_keys {
    uint32_t count;
    uint64_t hashes[KV_KEYS];
} kv_keys;

/* A set of metadata that events may name by its number. */
#define KV_MAX_VALUE_SETS 256u
typedef struct kv_value_set {
    uint64_t hash; /* of all in it */
    kv_keys keys;
} kv_value_set;

/* All that was delivered in one session. */
typedef struct kv_seen {
    uint64_t event_count, counter_count; /* all, also those for which there was no room */
    uint64_t refused;                    /* events that were not taken, because of a fault */
    uint64_t sample_count, row_count, stored_count;
    uint64_t requested, dropped;
    uint64_t live_count, flow_count, metadata_count;
    kv_event events[KV_MAX_EVENTS];
    kv_sample samples[KV_MAX_SAMPLES];
    kv_row rows[KV_MAX_ROWS];
} kv_seen;

/* One builder that a plug-in was given. Never freed: it may be kept and used too late. */
struct KinetoPlugin_TraceBuilderHandle {
    uint64_t magic;
    kv_check *check;
    uint32_t serial;
    bool open, live;
};
typedef KinetoPlugin_TraceBuilderHandle kv_builder;

/* Where times of a device clock lie on the host's. */
typedef struct kv_line {
    bool usable;
    kb_clock_line line;
} kv_line;

typedef struct kv_session {
    kv_check *k;
    kv_checked *p;
    kv_size size;
    bool quick; /* for measuring: events are only counted */
    KinetoPlugin_ProfilerHandle *handle;
    int32_t kinds[KV_MAX_KINDS];
    size_t kind_count;
    const KinetoPlugin_TraceBuilder *live;
    kv_builder *live_handle;
    kb_clock_snapshot before, after;
    kb_clock_fit fit;
    kv_line lines[KV_CLOCKS];
    uint64_t pushed[KV_MAX_PUSHED];
    size_t pushed_count;
    uint64_t spent_ns; /* in the last call of the plug-in */
} kv_session;

struct kv_check {
    const char *path;
    int to; /* notes */
    kv_where *where;
    uint64_t told_faults[KV_RULE_COUNT];
    kv_size size;
    void *library;
    KinetoPlugin_exerciseFn exercise;
    int exercise_result;
    kv_checked profilers[KV_MAX_PROFILERS];
    size_t profiler_count, refused_profilers;
    char own_names[KV_MAX_KINDS][40];
    int32_t own_like[KV_MAX_KINDS];
    size_t own_count;
    char clock_names[KV_CLOCKS][64];
    kv_set sets[KV_MAX_SETS];
    size_t set_count;
    kv_value_set value_sets[KV_MAX_VALUE_SETS]; /* of this session; the number is 1 + the place */
    uint32_t value_set_count;
    uint32_t builders;
    kv_session *session; /* the one that runs, for the builder */
    kv_seen *seen;
};

/** What the child has: maps and a host. False: no memory. */
bool kv_check_init(kv_check *k, const char *path, int to, kv_where *where);
/** Open and register, as a host of this size. */
bool kv_load(kv_check *k, kv_size size, bool strict);
/** The same, and ask every profiler what it is; false: it refuses such a host (untested: `rule`).
 */
bool kv_load_and_query(kv_check *k, kv_size size, kv_rule rule);
/** Fill name and kinds of a profiler, quietly. 0 on success. */
int kv_query(kv_check *k, kv_checked *p);
/** Make the device work; false: there is no function for it, or it failed (untested, with why). */
bool kv_exercise(kv_check *k, uint32_t count);
const char *kv_why_no_events(const kv_check *k);

/** A session with all kinds of the profiler, not yet created. */
void kv_session_init(kv_session *s, kv_check *k, kv_checked *p, kv_size size);
int kv_create(kv_session *s);
int kv_start(kv_session *s);
int kv_stop(kv_session *s);
int kv_process(kv_session *s);
int kv_destroy(kv_session *s);
int kv_toggle(kv_session *s, bool on);
/** 0 where the profiler has none. User: the user's ids. */
int kv_push(kv_session *s, bool user, uint64_t id);
int kv_pop(kv_session *s, bool user);
/** "profilerStart returned 3: text". */
const char *kv_failure(kv_session *s, const char *call, int result, char *buf, size_t size);
/** create, start, exercise, stop, process, destroy; the first failure is a fault of `rule`.
 *  *events may be NULL. */
bool kv_whole_session(kv_session *s, kv_rule rule, uint32_t exercise, uint64_t *events);
/** "6 kernel". */
const char *kv_type_text(const kv_check *k, int32_t type, char *buf, size_t size);
/** The published kind that a kind resembles; itself if it is one. */
int32_t kv_type_like(const kv_check *k, int32_t type);

/* ---- check_builder.c ------------------------------------------------------------------------------ */
const KinetoPlugin_TraceBuilder *kv_builder_new(kv_session *s, bool live, kv_builder **handle);
void kv_builder_end(kv_builder *b);
/** Name of a function of the builder; "": none. */
const char *kv_builder_call(uint32_t number);

/* ---- check_events.c: what is looked at when a session is over ----------------------------------------- */
/** Book the faults of times, clocks, flows, ids, rows and counts. */
void kv_look(kv_session *s);
/** The rules of events that had something to look at hold; the others were not tested. */
void kv_look_verdicts(kv_check *k, const kv_session *s);
/** How many events were delivered more than once, with all that is known of them. */
uint64_t kv_look_twice(kv_check *k);
/** UTC ns of a time. False: that clock cannot be read. */
bool kv_utc_ns(const kv_session *s, int32_t clock, int64_t time, int64_t *ns);

/* ---- scenarios ----------------------------------------------------------------------------------- */
typedef struct kv_scenario {
    const char *name;
    void (*run)(kv_check *k);
    uint64_t rules;     /* whose verdicts it gives; others may fail, too */
    bool needs_session; /* runs if an ordinary session works */
} kv_scenario;
extern const kv_scenario kv_scenarios[];
extern const size_t kv_scenario_count;

/* check_life.c: what scenarios are made of. */
/** Load as a host of today, and run for each profiler. */
void kv_for_each(kv_check *k, kv_rule rule, void (*run)(kv_check *k, kv_checked *p));
/** A session that is created; false: it could not be, a fault of `rule`. */
bool kv_begin(kv_check *k, kv_session *s, kv_checked *p, kv_rule rule);
/** A result that is not 0 is a fault of `rule`. */
void kv_expect(kv_session *s, kv_rule rule, const char *call, int result);
/** Does an ordinary session still work? Then the rule holds. */
void kv_afterwards(kv_check *k, kv_checked *p, kv_rule rule);

void kv_scene_load(kv_check *k);
void kv_scene_query(kv_check *k);
void kv_scene_session(kv_check *k);
void kv_scene_create_kinds(kv_check *k);
void kv_scene_start_twice(kv_check *k);
void kv_scene_stop_unstarted(kv_check *k);
void kv_scene_process_before_stop(kv_check *k);
void kv_scene_destroy_only(kv_check *k);
void kv_scene_restart(kv_check *k);
void kv_scene_larger(kv_check *k);
void kv_scene_revision_b(kv_check *k);
void kv_scene_revision_0(kv_check *k);
void kv_scene_short(kv_check *k);
void kv_scene_each_kind(kv_check *k);
void kv_scene_toggle(kv_check *k);
void kv_scene_push_pop(kv_check *k);
void kv_scene_elsewhere(kv_check *k);
void kv_scene_empty(kv_check *k);
void kv_scene_long(kv_check *k);
void kv_scene_error_text(kv_check *k);
void kv_scene_leaks(kv_check *k);
void kv_scene_unload(kv_check *k);
void kv_scene_costs(kv_check *k);

/* ---- check_report.c ------------------------------------------------------------------------------- */
typedef enum kv_state {
    KV_STATE_UNTESTED,
    KV_STATE_OK,
    KV_STATE_FAILED,
    KV_STATE_MEASURED
} kv_state;

typedef struct kv_result {
    kv_state state;
    bool told; /* by a scenario: else it was not tested */
    uint64_t faults;
    double ns;
    char seen[400];
} kv_result;

typedef struct kv_check_report {
    const char *path;
    kv_result results[KV_RULE_COUNT];
    uint64_t shown; /* rules */
    bool blocked;   /* one of these could not be tested: what it needs does not work */
    char profilers[KV_MAX_PROFILERS][232];
    size_t profiler_count;
    uint32_t ok, failed, untested;
} kv_check_report;

void kv_check_report_count(kv_check_report *r);
void kv_check_report_print(const kv_check_report *r);
kineto_status kv_check_report_json(const kv_check_report *r, kineto_error *err);
/* ---- check_torch.c ------------------------------------------------------------------------------ */
/** Check the plug-in in a process with PyTorch. @param python  the interpreter; "": python3 of the PATH.
 *  @return the exit status of the command. */
int kv_check_torch(const char *python, const char *plugin, bool as_json, uint32_t limit_ms);
#endif

/* Inside of `ckineto plugin check`: rules, the host that only checks, and what runs against it. All
 * but the report runs in a child process for each scenario (isolate.h). */
#ifndef KC_CHECK_H
#define KC_CHECK_H

#include "base/base.h"
#include "base/clock_line.h"
#include <ckineto/plugin.h>

/* ---- check_rules.c ------------------------------------------------------------------------------ */
typedef enum kc_rule {
#define X(name, id, text, hint) KC_RULE_##name,
#include "cli/check_rules.def"
#undef X
    KC_RULE_COUNT
} kc_rule;

typedef struct kc_rule_row {
    const char *id, *text, *hint;
} kc_rule_row;
extern const kc_rule_row kc_rules[KC_RULE_COUNT];
/** KC_RULE_COUNT: there is none of this id. */
kc_rule kc_rule_find(const char *id);
#define KC_RULE_BIT(rule) (UINT64_C(1) << (unsigned)(rule))

/* ---- check_book.c: what a child tells its parent ------------------------------------------------- */
typedef enum kc_word {
    KC_WORD_FAULT = 1,
    KC_WORD_OK,
    KC_WORD_UNTESTED,
    KC_WORD_MEASURED,
    KC_WORD_PROFILER,
    KC_WORD_DONE /* of a scenario that ends the process itself */
} kc_word;

/* One message; of fixed size, so that a child that dies leaves whole ones. */
typedef struct kc_note {
    uint32_t magic, word, rule;
    uint32_t again; /* FAULT: not the first of this rule */
    double ns;      /* MEASURED */
    char text[232];
} kc_note;
#define KC_NOTE_MAGIC 0x63686b31u

/* Shared with the parent, so that it knows where a child was when it crashed or hung. */
typedef struct kc_where {
    uint32_t rule;     /* what a crash is a fault of */
    char profiler[32]; /* empty: the library itself */
    char call[64];     /* function of the plug-in; empty: none */
    uint32_t inner;    /* function of ours that it had called: kc_builder_call */
    char guard[96];    /* what it read behind, if that was the crash */
} kc_where;

typedef struct kc_check kc_check;
void kc_fault(kc_check *k, kc_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** The rule was tested, and if no fault was found it holds; the text may be "". */
void kc_ok(kc_check *k, kc_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
void kc_untested(kc_check *k, kc_rule rule, const char *fmt, ...) KINETO_PRINTF(3, 4);
void kc_measured(kc_check *k, kc_rule rule, double ns, const char *what);
void kc_tell(kc_check *k, kc_word word, const char *fmt, ...) KINETO_PRINTF(3, 4);
/** From here on a crash is a fault of this rule. */
void kc_at(kc_check *k, kc_rule rule);
/** A function of the plug-in is entered or, with "", left. */
void kc_calling(kc_check *k, const char *call);

/* ---- check_guard.c: memory with an end ------------------------------------------------------------- */
/** Reserve the pages and watch for reads behind them. False: no memory. */
bool kc_guard_init(kc_where *where);
#define KC_NO_MEMORY 99 /* exit status of a child without memory */
/** `bytes` whose end, rounded up to 8, is the end of what can be read; zeroed; `what` is static
 * text. One of a ring: used again after 64 more, or 192 if it is one to keep. Never NULL. */
void *kc_guard_new(size_t bytes, const char *what, bool keep);
/** From now on nothing of it can be touched. */
void kc_guard_close(void *p, size_t bytes);
/** Copy from memory of the plug-in; false: it cannot be read. */
bool kc_copy_in(void *to, const void *from, size_t bytes);
bool kc_readable(const void *from, size_t bytes);
/** Bytes up to NUL; SIZE_MAX: it cannot be read, or there is none among `most`. */
size_t kc_text_size(const char *text, size_t most);
/** Into buf, cut and fit for a message. */
const char *kc_quote(const char *text, char *buf, size_t size);

/* ---- check_host.c ------------------------------------------------------------------------------- */
#define KC_MAX_PROFILERS 8u
#define KC_MAX_KINDS     64u
#define KC_MAX_EVENTS    ((size_t)1 << 18)
#define KC_MAX_SAMPLES   ((size_t)1 << 14)
#define KC_MAX_ROWS      ((size_t)1 << 12)
#define KC_MAX_PUSHED    64u
#define KC_CLOCKS        16
#define KC_MAX_SETS      64

/* The hosts that are played. */
typedef enum kc_size {
    KC_SIZE_TODAY,
    KC_SIZE_LARGER,
    KC_SIZE_REVISION_B,
    KC_SIZE_REVISION_0
} kc_size;

typedef struct kc_checked {
    const KinetoPlugin_ProfilerInterface *functions;
    char name[32], vendor[32];
    int32_t kinds[KC_MAX_KINDS];
    size_t kind_count;
} kc_checked;

/* Of an event, what is looked at when the session is over. */
typedef struct kc_event {
    int32_t type, clock, device, resource, flow_type;
    uint32_t flow_id;
    int64_t start, end, event_id;
    uint64_t external_id;
    bool flow_start, named;
    bool sample; /* of a counter */
} kc_event;

typedef struct kc_sample {
    int32_t clock;
    int64_t device;
    uint64_t before, after;
} kc_sample;

typedef struct kc_row {
    int64_t device;
    int32_t resource;
    bool is_device;
} kc_row;

typedef struct kc_set {
    char name[64];
    int32_t type, device, value_type;
    uint32_t series;
} kc_set;

/* Keys that an event has, as hashes. */
#define KC_KEYS 32u
typedef struct kc_keys {
    uint32_t count;
    uint64_t hashes[KC_KEYS];
} kc_keys;

/* A set of metadata that events may name by its number. */
#define KC_MAX_VALUE_SETS 256u
typedef struct kc_value_set {
    uint64_t hash; /* of all in it */
    kc_keys keys;
} kc_value_set;

/* All that was delivered in one session. */
typedef struct kc_seen {
    uint64_t event_count, counter_count; /* all, also those for which there was no room */
    uint64_t refused;                    /* events that were not taken, because of a fault */
    uint64_t sample_count, row_count, stored_count;
    uint64_t requested, dropped;
    uint64_t live_count, flow_count, metadata_count;
    kc_event events[KC_MAX_EVENTS];
    kc_sample samples[KC_MAX_SAMPLES];
    kc_row rows[KC_MAX_ROWS];
} kc_seen;

/* One builder that a plug-in was given. Never freed: it may be kept and used too late. */
struct KinetoPlugin_TraceBuilderHandle {
    uint64_t magic;
    kc_check *check;
    uint32_t serial;
    bool open, live;
};
typedef KinetoPlugin_TraceBuilderHandle kc_builder;

/* Where times of a device clock lie on the host's. */
typedef struct kc_line {
    bool usable;
    kb_clock_line line;
} kc_line;

typedef struct kc_session {
    kc_check *k;
    kc_checked *p;
    kc_size size;
    bool quick; /* for measuring: events are only counted */
    KinetoPlugin_ProfilerHandle *handle;
    int32_t kinds[KC_MAX_KINDS];
    size_t kind_count;
    const KinetoPlugin_TraceBuilder *live;
    kc_builder *live_handle;
    kb_clock_snapshot before, after;
    kb_clock_fit fit;
    kc_line lines[KC_CLOCKS];
    uint64_t pushed[KC_MAX_PUSHED];
    size_t pushed_count;
    uint64_t spent_ns; /* in the last call of the plug-in */
} kc_session;

struct kc_check {
    const char *path;
    int to; /* notes */
    kc_where *where;
    uint64_t told_faults[KC_RULE_COUNT];
    kc_size size;
    void *library;
    KinetoPlugin_exerciseFn exercise;
    int exercise_result;
    kc_checked profilers[KC_MAX_PROFILERS];
    size_t profiler_count, refused_profilers;
    char own_names[KC_MAX_KINDS][40];
    int32_t own_like[KC_MAX_KINDS];
    size_t own_count;
    char clock_names[KC_CLOCKS][64];
    kc_set sets[KC_MAX_SETS];
    size_t set_count;
    kc_value_set value_sets[KC_MAX_VALUE_SETS]; /* of this session; the number is 1 + the place */
    uint32_t value_set_count;
    uint32_t builders;
    kc_session *session; /* the one that runs, for the builder */
    kc_seen *seen;
};

/** What the child has: maps and a host. False: no memory. */
bool kc_check_init(kc_check *k, const char *path, int to, kc_where *where);
/** Open and register, as a host of this size. */
bool kc_load(kc_check *k, kc_size size, bool strict);
/** The same, and ask every profiler what it is; false: it refuses such a host (untested: `rule`).
 */
bool kc_load_and_query(kc_check *k, kc_size size, kc_rule rule);
/** Fill name and kinds of a profiler, quietly. 0 on success. */
int kc_query(kc_check *k, kc_checked *p);
/** Make the device work; false: there is no function for it, or it failed (untested, with why). */
bool kc_exercise(kc_check *k, uint32_t count);
const char *kc_why_no_events(const kc_check *k);

/** A session with all kinds of the profiler, not yet created. */
void kc_session_init(kc_session *s, kc_check *k, kc_checked *p, kc_size size);
int kc_create(kc_session *s);
int kc_start(kc_session *s);
int kc_stop(kc_session *s);
int kc_process(kc_session *s);
int kc_destroy(kc_session *s);
int kc_toggle(kc_session *s, bool on);
/** 0 where the profiler has none. User: the user's ids. */
int kc_push(kc_session *s, bool user, uint64_t id);
int kc_pop(kc_session *s, bool user);
/** "profilerStart returned 3: text". */
const char *kc_failure(kc_session *s, const char *call, int result, char *buf, size_t size);
/** create, start, exercise, stop, process, destroy; the first failure is a fault of `rule`.
 *  *events may be NULL. */
bool kc_whole_session(kc_session *s, kc_rule rule, uint32_t exercise, uint64_t *events);
/** "6 kernel". */
const char *kc_type_text(const kc_check *k, int32_t type, char *buf, size_t size);
/** The published kind that a kind resembles; itself if it is one. */
int32_t kc_type_like(const kc_check *k, int32_t type);

/* ---- check_builder.c ------------------------------------------------------------------------------ */
const KinetoPlugin_TraceBuilder *kc_builder_new(kc_session *s, bool live, kc_builder **handle);
void kc_builder_end(kc_builder *b);
/** Name of a function of the builder; "": none. */
const char *kc_builder_call(uint32_t number);

/* ---- check_events.c: what is looked at when a session is over ----------------------------------------- */
/** Book the faults of times, clocks, flows, ids, rows and counts. */
void kc_look(kc_session *s);
/** The rules of events that had something to look at hold; the others were not tested. */
void kc_look_verdicts(kc_check *k, const kc_session *s);
/** How many events were delivered more than once, with all that is known of them. */
uint64_t kc_look_twice(kc_check *k);
/** UTC ns of a time. False: that clock cannot be read. */
bool kc_utc_ns(const kc_session *s, int32_t clock, int64_t time, int64_t *ns);

/* ---- scenarios ----------------------------------------------------------------------------------- */
typedef struct kc_scenario {
    const char *name;
    void (*run)(kc_check *k);
    uint64_t rules;     /* whose verdicts it gives; others may fail, too */
    bool needs_session; /* runs if an ordinary session works */
} kc_scenario;
extern const kc_scenario kc_scenarios[];
extern const size_t kc_scenario_count;

/* check_life.c: what scenarios are made of. */
/** Load as a host of today, and run for each profiler. */
void kc_for_each(kc_check *k, kc_rule rule, void (*run)(kc_check *k, kc_checked *p));
/** A session that is created; false: it could not be, a fault of `rule`. */
bool kc_begin(kc_check *k, kc_session *s, kc_checked *p, kc_rule rule);
/** A result that is not 0 is a fault of `rule`. */
void kc_expect(kc_session *s, kc_rule rule, const char *call, int result);
/** Does an ordinary session still work? Then the rule holds. */
void kc_afterwards(kc_check *k, kc_checked *p, kc_rule rule);

void kc_scene_load(kc_check *k);
void kc_scene_query(kc_check *k);
void kc_scene_session(kc_check *k);
void kc_scene_create_kinds(kc_check *k);
void kc_scene_start_twice(kc_check *k);
void kc_scene_stop_unstarted(kc_check *k);
void kc_scene_process_before_stop(kc_check *k);
void kc_scene_destroy_only(kc_check *k);
void kc_scene_restart(kc_check *k);
void kc_scene_larger(kc_check *k);
void kc_scene_revision_b(kc_check *k);
void kc_scene_revision_0(kc_check *k);
void kc_scene_short(kc_check *k);
void kc_scene_each_kind(kc_check *k);
void kc_scene_toggle(kc_check *k);
void kc_scene_push_pop(kc_check *k);
void kc_scene_elsewhere(kc_check *k);
void kc_scene_empty(kc_check *k);
void kc_scene_long(kc_check *k);
void kc_scene_error_text(kc_check *k);
void kc_scene_leaks(kc_check *k);
void kc_scene_unload(kc_check *k);
void kc_scene_costs(kc_check *k);

/* ---- check_report.c ------------------------------------------------------------------------------- */
typedef enum kc_state {
    KC_STATE_UNTESTED,
    KC_STATE_OK,
    KC_STATE_FAILED,
    KC_STATE_MEASURED
} kc_state;

typedef struct kc_result {
    kc_state state;
    bool told; /* by a scenario: else it was not tested */
    uint64_t faults;
    double ns;
    char seen[400];
} kc_result;

typedef struct kc_check_report {
    const char *path;
    kc_result results[KC_RULE_COUNT];
    uint64_t shown; /* rules */
    bool blocked;   /* one of these could not be tested: what it needs does not work */
    char profilers[KC_MAX_PROFILERS][232];
    size_t profiler_count;
    uint32_t ok, failed, untested;
} kc_check_report;

void kc_check_report_count(kc_check_report *r);
void kc_check_report_print(const kc_check_report *r);
kineto_status kc_check_report_json(const kc_check_report *r, kineto_error *err);
/* ---- check_torch.c ------------------------------------------------------------------------------ */
/** Check the plug-in in a process with PyTorch. @param python  the interpreter; "": python3 of the PATH.
 *  @return the exit status of the command. */
int kc_check_torch(const char *python, const char *plugin, bool as_json, uint32_t limit_ms);
#endif

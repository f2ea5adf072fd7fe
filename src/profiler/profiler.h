/* Inside of the front end: profilers, their results, and what its files share. */
#ifndef KP_PROFILER_H
#define KP_PROFILER_H

#include "base/base.h"
#include "record/record.h"
#include "session/session.h"
#include "trace/trace.h"
#include <ckineto/profiler.h>

struct kp_emission;
struct kp_fallback;

/* ---- config.c ----------------------------------------------------------------------------------- */

/** A copy of a config that owns its texts. */
typedef struct kp_config {
    kineto_profiler_config values;
    kb_arena arena;
} kp_config;
/** Read a config of any size. KINETO_E_ARGUMENT, KINETO_E_MEMORY. */
kineto_status kp_config_copy(const kineto_profiler_config *from, kp_config *out, kineto_error *err);
void kp_config_free(kp_config *config);
/** Has a caller's config a size?  Then what fits in is written, and the size stays the caller's. */
kineto_status kp_config_sized(const kineto_profiler_config *out, kineto_error *err);
void kp_config_give(const kineto_profiler_config *all, kineto_profiler_config *out);

/** Does a state record into a session? */
bool kp_state_records(uint32_t state);
kineto_active_profiler kp_state_active(uint32_t state);
/** What a session is to be asked for. */
void kp_session_options(const kineto_profiler_config *config, uint32_t activities, uint32_t scopes,
                        kineto_session_options *out);

/* ---- result.c ----------------------------------------------------------------------------------- */

/* Parents and children, by row. */
typedef struct kp_tree {
    kineto_row *parent, *first_child, *next_sibling, *roots;
    uint64_t root_count;
} kp_tree;

struct kineto_profiler_result {
    uint32_t references;
    kineto_trace *trace;
    bool exposes_metadata, trace_only;
    struct kp_fallback *fallback; /* device times of operators; NULL */
    uint32_t fallback_device;     /* kineto_device_type */
    kb_lock lock;                 /* of what is built on first use */
    kp_tree *tree;
    kb_map flow_of_row;
    uint32_t has_flows; /* flow_of_row is filled */
};
/** The first arrow that starts or ends at a row. */
bool kp_result_flow(const kineto_profiler_result *result, kineto_row row, kineto_flow *out);
/** @param trace  becomes the result's; NULL: an empty one. NULL: out of memory. */
kineto_profiler_result *kp_result_create(kineto_trace *trace);

/* ---- profiler.c --------------------------------------------------------------------------------- */

#define KP_MEMBERS 1024u

/* By what one sees whether a thread has ended. */
typedef struct kp_life {
    uint64_t start_time; /* 0: not known */
    uint32_t tid;
} kp_life;

struct kineto_profiler {
    kp_config config;
    uint32_t activities, scopes;
    bool records, global; /* global: of all threads */
    bool running, last;   /* last: it ends with this stop */
    bool stuck;           /* a thread does not come out of a callback */
    bool counts;          /* holds the counters of the process */
    kr_perf_plan counters; /* count 0: none are asked for */
    kineto_session *session;
    struct kp_emission *emission;
    struct kp_fallback *fallback;
    kineto_callback callback;       /* that shows operators to the emission or the fallback */
    kineto_function_callback marks; /* theirs */
    uint64_t members[KP_MEMBERS];   /* numbers of the threads that take part */
    kp_life lives[KP_MEMBERS];      /* theirs */
    uint32_t member_count;
    kb_lock lock;  /* of members */
    bool observed; /* the PrivateUse1 observer was told */
    kineto_post_process post;
    void *post_user;
    /* for enable.c */
    struct kineto_profiler *next;
    uint64_t owner; /* number of the thread that enabled it */
    bool orphan;    /* which has ended */
    uint32_t preempts_pid; /* it keeps windows on demand out, in this process */
};
/** What only windows on demand ask for. */
typedef struct kp_more {
    uint64_t kinds;    /* mask, in place of what the activities stand for */
    const char *lines; /* for plug-ins, KEY=VALUE with their ends; "" */
} kp_more;
/** kineto_profiler_create; `more` NULL: just that. */
kineto_status kp_profiler_create(const kineto_profiler_config *config, uint32_t activities,
                                 uint32_t scopes, const kp_more *more, kineto_profiler **out,
                                 kineto_error *err);

/* ---- memory_profile.c ----------------------------------------------------------------------------- */

/** kineto_memory_profile_export, to where somebody else says. */
kineto_status kp_memory_profile_write(kb_sink *sink, kineto_error *err);

/* ---- window.c: what a controller records on demand ------------------------------------------------ */

/** Prepare a window of all threads, in state KINETO_ONDEMAND. Its memory grows (ks_sessions_grow). */
kineto_status kp_window_prepare(const kineto_profiler_config *config, const kp_more *more,
                                kineto_profiler **out, kineto_error *err);
/** Record; what lies before kp_window_keep is overwritten. KINETO_E_STATE while a profiler of the
 *  program records. */
kineto_status kp_window_start(kineto_profiler *p, kineto_error *err);
/** @param start_ticks  the same; 0: not known. */
void kp_window_keep(kineto_profiler *p, int64_t start_ns, uint64_t start_ticks);
/** Record no more. Cheap. */
typedef struct kp_window_cut {
    int64_t start_ns, end_ns;
    uint64_t start_ticks, end_ticks; /* the same; 0: not known */
} kp_window_cut;
kineto_status kp_window_end(kineto_profiler *p, const kp_window_cut *cut, kineto_error *err);
/** The trace of what lies within these times, which who called kineto_ondemand_set_ready gets to see.
 *  @param header  more keys; @param notes  lines of the ledger; NULL. */
typedef struct kp_window_texts {
    const kt_build_header *header;
    uint32_t header_count;
    const kt_build_note *notes;
    uint32_t note_count;
} kp_window_texts;
kineto_status kp_window_build(kineto_profiler *p, const kp_window_texts *texts, kineto_trace **out,
                              kineto_error *err);
/** Without a trace. NULL is fine. */
void kp_window_drop(kineto_profiler *p);
/** Whom kineto_profiler_type and its kin see; NULL: nobody (enable.c). */
void kp_window_show(kineto_profiler *p);
void kp_ondemand_hand_over(const kineto_trace *trace); /* enable.c */

/** Profilers of the program keep windows out. The hook is told when the first one begins and the last
 *  one ends, with a lock held under which it may not profile. If some run already it is told at once. */
typedef void kp_preempt_hook(bool begins);
void kp_preempt_listen(kp_preempt_hook *hook);
/** One begins, ends. */
void kp_preempt(kineto_profiler *p, bool begins);

/** How many of those that run want garbage collections. */
extern uint32_t kp_gc_wishes;

#endif

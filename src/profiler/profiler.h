/* Internal interface of src/profiler: profilers by handle, their configs and results, memory
 * profiles, and the windows that src/ondemand records. A profiler is a session (src/session), or
 * callbacks that show operators to a tool or a device, or both. Functions without a remark may be
 * called by any thread, one at a time for each object. */
#ifndef KP_PROFILER_H
#define KP_PROFILER_H

#include "base/base.h"
#include "record/record.h"
#include "session/session.h"
#include "trace/trace.h"
#include <ckineto/profiler.h>

struct kp_emission;
struct kp_fallback;

/* ---- config.c -------------------------------------------------------------------------------- */

/** A copy of a config that owns its texts. */
typedef struct kp_config {
    kineto_profiler_config values;
    kb_arena arena;
} kp_config;
/** Copy and check a config of a program of any version, whose size may differ from ours. On failure
 * `out` holds nothing. KINETO_E_ARGUMENT, KINETO_E_MEMORY, KINETO_E_UNSUPPORTED. */
kineto_status kp_config_copy(const kineto_profiler_config *from, kp_config *out, kineto_error *err);
void kp_config_free(kp_config *config);
/** Writes the members that fit into a config that states its size; the size stays the caller's. */
void kp_config_write(const kineto_profiler_config *all, kineto_profiler_config *out);

/** Does a state record into a session? */
bool kp_state_records(uint32_t state);
kineto_active_profiler kp_state_active(uint32_t state);
/** The options of the session that records what a config requests. */
void kp_session_options(const kineto_profiler_config *config, uint32_t activities, uint32_t scopes,
                        kineto_session_options *out);

/* ---- result.c -------------------------------------------------------------------------------- */

/* Parents and children, by row. */
typedef struct kp_tree {
    kineto_row *parent, *first_child, *next_sibling, *roots;
    uint64_t root_count;
} kp_tree;

struct kineto_profiler_result {
    /* Owners; atomic. The last one frees the result. */
    uint32_t references;
    kineto_trace *trace;
    /* Members of the experimental config that change what accessors show. */
    bool exposes_metadata, trace_only;
    struct kp_fallback *fallback; /* device times of operators; NULL */
    uint32_t fallback_device;     /* kineto_device_type */
    /* Guards what is built on first use: the tree and the map of flows. Readers load `tree` and
     * `has_flows` with acquire and skip the lock once they are set. */
    kb_lock lock;
    kp_tree *tree;
    kb_map flow_of_row;
    /* 1 once flow_of_row is filled; atomic. */
    uint32_t has_flows;
};
/** The first arrow that starts or ends at a row. */
bool kp_result_flow(const kineto_profiler_result *result, kineto_row row, kineto_flow *out);
/** @param trace  becomes the result's; NULL: an empty one. NULL: out of memory. */
kineto_profiler_result *kp_result_create(kineto_trace *trace);

/* ---- profiler.c ------------------------------------------------------------------------------ */

/* Threads that may join one profiler. */
#define KP_MEMBERS 1024u

/* Identifies a thread beyond reuse of its id, to see whether it has ended. */
typedef struct kp_thread_identity {
    uint64_t start_time; /* 0: not known */
    uint32_t tid;
} kp_thread_identity;

struct kineto_profiler {
    kp_config config;
    uint32_t activities, scopes;
    bool records; /* it has a session */
    bool global;  /* of all threads */
    bool running; /* between a successful start and stop */
    bool last;    /* it is destroyed after this stop: the session may free its memory */
    /* A thread does not return from a callback: nothing that callbacks use may be freed, ever. */
    bool stuck;
    /* Holds the counters of the process. */
    bool counts;
    /* Count 0: none are asked for. */
    kr_perf_plan counters;
    kineto_session *session;
    struct kp_emission *emission;
    struct kp_fallback *fallback;
    /* Registered for all threads; calls `marks` for operators of member threads. */
    kineto_callback callback;
    /* The callback of the emission or of the fallback. */
    kineto_function_callback marks;
    /* Numbers of the threads that take part. Written under `lock`; read by callbacks without it, so
     * that an entry is written before member_count is raised. */
    uint64_t members[KP_MEMBERS];
    /* Of the same threads, to find those that have ended. */
    kp_thread_identity identities[KP_MEMBERS];
    uint32_t member_count; /* atomic */
    kb_lock lock;          /* of members, identities, member_count */
    /* The PrivateUse1 observer was enabled and must be disabled. */
    bool observed;
    kineto_post_process post;
    void *post_user;
    /* Of registry.c: the list that it is in, guarded by the registry's lock. */
    struct kineto_profiler *next;
    /* Number of the thread that enabled it. */
    uint64_t owner;
    /* The owner thread has ended. */
    bool orphan;
    /* The process in which it keeps on-demand windows out; 0: it does not. */
    uint32_t preempts_pid;
};
/** Options that only on-demand windows have. */
typedef struct kp_window_request {
    /* Mask, in place of what the activities stand for. */
    uint64_t kinds;
    /* For plug-ins, KEY=VALUE with their ends; "". */
    const char *lines;
} kp_window_request;
/** kineto_profiler_create with the options of a window; `more` may be NULL. */
kineto_status kp_profiler_create(const kineto_profiler_config *config, uint32_t activities,
                                 uint32_t scopes, const kp_window_request *more, kineto_profiler **out,
                                 kineto_error *err);

/* ---- memory_profile.c ------------------------------------------------------------------------ */

/** kineto_memory_profile_export to a sink that the caller opens and closes. */
kineto_status kp_memory_profile_write(kb_sink *sink, kineto_error *err);

/* ---- ondemand_window.c: what a controller records on demand ------------------------------------------- */

/** Prepare a window of all threads, in state KINETO_ONDEMAND. Its memory grows (ks_sessions_grow).
 * `config` must not be NULL; the state in it is ignored. */
kineto_status kp_window_prepare(const kineto_profiler_config *config, const kp_window_request *more,
                                kineto_profiler **out, kineto_error *err);
/** Record into a ring: until kp_window_keep_from the oldest events are overwritten. KINETO_E_STATE while
 * a profiler of the program records. */
kineto_status kp_window_start(kineto_profiler *p, kineto_error *err);
/** Overwrite nothing that is newer than `start_ns` from now on. @param start_ticks the same moment
 * in ticks of the recording clock; 0: not known. */
void kp_window_keep_from(kineto_profiler *p, int64_t start_ns, uint64_t start_ticks);
/** The part of the recording that becomes the trace. */
typedef struct kp_window_range {
    int64_t start_ns, end_ns;
    uint64_t start_ticks, end_ticks; /* the same; 0: not known */
} kp_window_range;
/** Stop recording. Cheap: the trace is built later, by kp_window_build. */
kineto_status kp_window_end(kineto_profiler *p, const kp_window_range *cut, kineto_error *err);
/** Texts that the controller adds to a trace: keys of the header and lines of the ledger. */
typedef struct kp_window_annotations {
    const kt_build_header *header;
    uint32_t header_count;
    const kt_build_note *notes;
    uint32_t note_count;
} kp_window_annotations;
/** Build the trace of the recorded window, within the times of kp_window_end. The function of
 * kineto_ondemand_set_ready sees it first. @param texts may be NULL. *out belongs to the caller;
 * NULL after a failure. */
kineto_status kp_window_build(kineto_profiler *p, const kp_window_annotations *texts, kineto_trace **out,
                              kineto_error *err);
/** Destroy a window without building a trace. NULL is ignored. */
void kp_window_destroy(kineto_profiler *p);
/** Set the window that kineto_profiler_type and kineto_profiler_config_get report while no profiler
 * of the program is enabled; NULL: none (registry.c). */
void kp_window_set_reported(kineto_profiler *p);
/** Pass a trace to the function of kineto_ondemand_set_ready, if one is set (registry.c). */
void kp_ondemand_pass_trace(const kineto_trace *trace);

/** Profilers of the program keep windows out. The hook is called when the first one starts and when
 * the last one ends, with a lock held under which it must not profile; and at once if some run
 * already. NULL removes it. */
typedef void kp_preempt_hook(bool begins);
void kp_preempt_set_hook(kp_preempt_hook *hook);
/** A profiler starts (`begins`) or ends. Windows themselves do not count. */
void kp_preempt_windows(kineto_profiler *p, bool begins);

/** Running profilers that record garbage collections; atomic. */
extern uint32_t kp_gc_requests;

#endif

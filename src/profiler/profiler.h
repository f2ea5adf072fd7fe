/* Inside of the front end: profilers, their results, and what its files share. */
#ifndef KP_PROFILER_H
#define KP_PROFILER_H

#include "base/base.h"
#include "session/session.h"
#include "trace/trace.h"
#include <ckineto/profiler.h>

struct kp_emission;
struct kp_fallback;

/** Who takes a lock. */
static inline uint64_t kp_self(void) { return (uint64_t)kb_os_pid() << 32 | kb_os_tid(); }

/* ---- config.c ----------------------------------------------------------------------------------- */

/** A copy of a config that owns its texts. */
typedef struct kp_config {
    kineto_profiler_config values;
    kb_arena arena;
} kp_config;
/** Read a config of any size. KINETO_E_ARGUMENT, KINETO_E_MEMORY. */
kineto_status kp_config_copy(const kineto_profiler_config *from, kp_config *out, kineto_error *err);
void kp_config_free(kp_config *config);

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

struct kineto_profiler {
    kp_config config;
    uint32_t activities, scopes;
    bool records, global; /* global: of all threads */
    bool running, last;   /* last: it ends with this stop */
    bool stuck;           /* a thread does not come out of a callback */
    kineto_session *session;
    struct kp_emission *emission;
    struct kp_fallback *fallback;
    kineto_callback callback;       /* that shows operators to the emission or the fallback */
    kineto_function_callback marks; /* theirs */
    uint64_t members[KP_MEMBERS];   /* numbers of the threads that take part */
    uint32_t member_count;
    kb_lock lock;  /* of members */
    bool observed; /* the PrivateUse1 observer was told */
    kineto_post_process post;
    void *post_user;
    /* for enable.c */
    struct kineto_profiler *next;
    uint64_t owner; /* number of the thread that enabled it */
};

/** How many of those that run want garbage collections. */
extern uint32_t kp_gc_wishes;

#endif

/* Profilers of plug-ins, the builders through which they deliver events, and what the files of the
 * record folder that serve plug-ins share: host, builder, announce, sets, lines, types, listen,
 * loader, quiesce, follow, privateuse1.
 *
 * Order of locks: PrivateUse1's, then the host's, then a builder's. The loader's lock is never held
 * while code of a plug-in or of the host runs. */
#ifndef KR_HOST_H
#define KR_HOST_H

#include "record/encode.h"
#include <ckineto/host.h>
#include <ckineto/plugin.h>

#define KR_MAX_PROFILERS (KF_MAX_SOURCES - 1u)
#define KR_MAX_TYPES     64u
#define KR_MAX_SETS      64u
#define KR_MAX_ANNOUNCED 256u
#define KR_NAME_MAX      31u /* what hosts of this interface have always passed, without the NUL */
#define KR_LOOSE_WORDS   (KF_MAX_RECORD_WORDS - 16u)
#define KR_KEY_HINTS     16u

/* The published revisions of the interface, which cannot be distinguished at run time. */
typedef enum kr_revision { KR_REVISION_B = 0, KR_REVISION_A = 1, KR_REVISION_EARLY = 2 } kr_revision;

/* The registrant of profilers: the program (file 0), or a library that the loader opened. */
struct KinetoPlugin_RegistryHandle {
    kr_revision revision;
    uint32_t file; /* the loader's number of the library; 0: none */
    char error[256 + 32]; /* why the last registration failed; under the host's lock */
};
/** Fill a registry that registers in the name of `registrant`. Both must stay valid as long as the
 *  library is loaded. */
void kr_registry_init(KinetoPlugin_Registry *registry, KinetoPlugin_RegistryHandle *registrant);

/* ---- types.c: the plug-in's numbers of kinds -------------------------------------------------- */

/* Index of a plug-in's number: 0..31 as they are, own kinds from 32 on. UINT32_MAX: none. */
uint32_t kr_type_index(kr_revision revision, int32_t type);
/** Kind of an index in this recording; 0xff: none. Own kinds are announced in the pool here. */
uint8_t kr_type_kind(uint32_t index);
/** 1 + row of kb_kind_aliases for the category, 0: the kind's own name. `vendor` may be "". */
uint8_t kr_type_spelling(uint32_t index, const char *vendor);
/** Implements registerActivityTypes. */
int kr_types_register(KinetoPlugin_RegisterActivityTypes_Params *params);
/** The process has a pool now: copy the kinds that were announced before into its table. */
void kr_types_adopted(void);

/* ---- builder.c -------------------------------------------------------------------------------- */

/* A name that was interned before, by its address: found again without hashing its bytes. */
typedef struct kr_name_hint {
    const char *data;
    size_t bytes;
    uint32_t id;
} kr_name_hint;
#define KR_NAME_HINTS 256u /* in pairs; a power of two */

/* The event that setLast… and addLast… change: one per builder and thread that uses them. A free
 * one (owner 0) is claimed by compare-and-swap; only the owner's thread changes the rest, until the
 * builder is closed and all threads are outside. */
typedef struct kr_pending {
    struct kr_pending *next; /* of the builder; never changes */
    uint64_t owner;          /* pid:32|tid:32; 0: free for any thread */
    bool filled, dropped;    /* dropped: refused, but setLast… may follow */
    bool flow_start;
    uint8_t kind, clock, spelling;
    uint32_t name_id, flow_type, flow_id, set;
    int64_t start, end;
    uint64_t correlation_id, external_id;
    int32_t device, resource;
    uint32_t loose_words, loose_count;
    uint32_t key_hints[KR_KEY_HINTS]; /* string id of the n-th key of the last event */
    kr_name_hint name_hints[KR_NAME_HINTS];
    uint64_t loose[KR_LOOSE_WORDS];
} kr_pending;

/* A set of counters: a site of the dictionary. */
typedef struct kr_set {
    uint32_t site; /* 0: free */
    uint32_t series_count;
    int32_t device;
    uint32_t type_index;
    uint64_t hash; /* of everything that was announced */
} kr_set;

/* The last announcement about a device or queue, so that an unchanged one is not repeated. */
typedef struct kr_announced {
    uint64_t key, content; /* hashes; key 0: free */
} kr_announced;

typedef struct kr_value_sets kr_value_sets; /* sets.c */
typedef struct kr_lines kr_lines;           /* lines.c */

struct KinetoPlugin_TraceBuilderHandle {
    uint32_t source; /* index of the ledger counters; stays valid after the session */
    uint32_t open;   /* calls are accepted; 0 → 1 in kr_builder_open, 1 → 0 in kr_builder_close */
    uint32_t live;   /* has delivered during the session */
    uint32_t late;   /* was called after the end of the session, which is logged once */
    const char *name;
    kr_revision revision;
    uint8_t kind_of[KR_MAX_TYPES];     /* by type index: 1 + kind if enabled, else 0 */
    uint8_t known[KR_MAX_TYPES];       /* by type index: 1 + kind, enabled or not; 0: no kind */
    uint8_t spelling_of[KR_MAX_TYPES];
    kr_pending *pending;
    kb_lock lock; /* guards what follows */
    kr_value_sets *value_sets; /* NULL until there are some; read without the lock */
    kr_lines *lines;
    kr_set sets[KR_MAX_SETS];
    kr_announced announced[KR_MAX_ANNOUNCED];
    KinetoPlugin_TraceBuilder table;
};
typedef struct KinetoPlugin_TraceBuilderHandle kr_builder;

void kr_builder_init(kr_builder *b, const char *name, uint32_t source, kr_revision revision);
void kr_builder_open(kr_builder *b);
/** Refuse calls from now on, wait until none is in progress, write what is pending. False: a call
 *  did not return in time; what its thread had pending is lost. */
bool kr_builder_close(kr_builder *b);
/** The calling thread ends: write what it has pending. */
void kr_builder_thread_exit(kr_builder *b);
void kr_builder_free(kr_builder *b);

/* ---- quiesce.c: which threads are inside a plug-in, its calls of the host, or a callback -------- */

/* 1: the kernel has no membarrier, so entering threads make a fence themselves. */
extern uint32_t kr_plugin_fences;
/** Mark the thread as inside. @return the cursor for kr_plugin_exit; NULL if this thread cannot
 *  enter (a signal handler, no memory). Branches rather than sums: a sum would depend on the store
 *  of the call before. */
KB_INLINE kr_cursor *kr_plugin_enter(void)
{
    kr_cursor *c = kr_me;
    if (KINETO_UNLIKELY(c->busy | !KR_IN_USE(c))) {
        c = kr_cursor_slow();
        if (!c)
            return NULL;
    }
    if (KINETO_UNLIKELY(c->in_plugin))
        c->in_plugin_nested++;
    else
        kb_store_relaxed(&c->in_plugin, (uint8_t)1);
    if (KINETO_UNLIKELY(kb_load_relaxed(&kr_plugin_fences)))
        kb_fence_seqcst();
    kb_signal_fence();
    return c;
}
KB_INLINE void kr_plugin_exit(kr_cursor *c)
{
    KB_ASSERT(!KR_IN_USE(c) || c->in_plugin);
    if (KINETO_UNLIKELY(c->in_plugin_nested))
        c->in_plugin_nested--;
    else
        kb_store_release(&c->in_plugin, (uint8_t)0);
}
/** Once before the first kr_wait_quiescent. */
void kr_quiesce_init(void);
/** Wait until all other threads that are inside have left; false: one has not within limit_ms. A
 *  thread that enters meanwhile sees what the caller stored before, so it is not waited for. */
bool kr_wait_quiescent(uint32_t limit_ms);
#define KR_PLUGIN_TIMEOUT_MS 1000u /* for plug-ins */

/* ---- listen.c: profilers that receive correlation ids; under the host's lock ------------------- */
void kr_listen(const KinetoPlugin_ProfilerInterface *calls, KinetoPlugin_ProfilerHandle *handle,
               uint32_t source);
/** False: a thread did not return from the profiler in time. */
bool kr_unlisten(const KinetoPlugin_ProfilerInterface *calls);

/* ---- host.c ------------------------------------------------------------------------------------ */

/** Withdraw all profilers of a library. @return how many; UINT32_MAX: none, because this thread is
 *  inside a call of the host. */
uint32_t kr_host_withdraw_file(uint32_t file);
/** Describe the n-th profiler (state, name, vendor, kinds, types; not the path); *file receives the
 *  number of its library. False: there are fewer. */
bool kr_host_profiler(uint32_t n, kineto_plugin_info *info, uint32_t *file);
/** Has it a session of this process now (created and not yet destroyed)? */
bool kr_host_in_session(const KinetoPlugin_ProfilerInterface *profiler);

/** Does the interface have the functions that every profiler must have? */
static inline bool kr_interface_is_whole(const KinetoPlugin_ProfilerInterface *i)
{
    return i && KINETO_PLUGIN_HAS(i, KinetoPlugin_ProfilerInterface, profilerProcessEvents) &&
           i->profilerCreate && i->profilerDestroy && i->profilerQuery && i->profilerStart &&
           i->profilerStop && i->profilerProcessEvents;
}

/** kineto_rt_profilers_update, or with `collect` kineto_rt_profilers_collect. False: not done,
 *  because the process ends. */
bool kr_host_follow(bool collect);

/* ---- follow.c ---------------------------------------------------------------------------------- */

/** Called when a profiler was registered: in a process that an on-demand recorder watches, start
 *  the thread that follows its windows. Again in a fork's child. */
void kr_follow_start(void);

/* ---- privateuse1.c ----------------------------------------------------------------------------- */

/** Sessions may have ended: a profiler that was registered meanwhile replaces its predecessor.
 *  Cheap if there is none. Called at the end of every update of profilers, without the host's
 *  lock. */
void kr_privateuse1_settle(void);

/* ---- attach.c ---------------------------------------------------------------------------------- */

/** Add a line to the ledger for the windows that include `ticks`; 0: for all. False: no room. */
bool kr_note(const char *source, const char *reason, uint64_t count, bool is_loss,
             const char *detail, uint64_t ticks);

/* ---- loader.c ---------------------------------------------------------------------------------- */

/** In a process that attached to a recorder: load what it named in CKINETO_PLUGINS. */
void kr_loader_attached(void);

/* ---- open_control.c ---- */
/** Open libckineto if the program was linked with this library alone and its environment makes it
 *  traceable on demand. */
void kr_control_open(void);
#endif

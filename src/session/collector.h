/* Internals of the collector, shared by collector.c (copies chunks out), windows.c (on-demand
 * windows and the ring) and running_thread_names.c.
 *
 * Threads: the polling thread owns the collector. Traces of windows and ring dumps are built on
 * other threads meanwhile; what these share with the polling thread is guarded by `lock`. */
#ifndef KS_COLLECTOR_H
#define KS_COLLECTOR_H

#include "session/self_cost.h"
#include "session/session.h"

#include <stddef.h>

#define KS_WINDOWS 4u

typedef struct ks_thread_names ks_thread_names;

/* A chunk to copy out. last_ticks: when it was sealed; of a chunk whose owner died, when that was
 * detected. */
typedef struct ks_pending {
    ks_spool_chunk chunk;
    uint64_t last_ticks;
    /* claim word with which it is freed; fails if a ring writer has reclaimed the chunk */
    uint64_t claim;
} ks_pending;

/* One window of an on-demand collector, from when devices get ready until its trace is built. */
struct ks_window {
    bool used;
    /* windows of the control page: of devices, of all kinds; UINT32_MAX: none */
    uint32_t warm, slot;
    uint64_t kinds;
    uint32_t wants;
    uint64_t kept_from; /* ticks; UINT64_MAX: nothing is kept yet */
    uint64_t opened_ticks, closed_ticks;
    uint64_t from_ticks, until_ticks; /* when iterations began it and ended it; 0: by time */
    uint64_t counters[KF_MAX_SOURCES][KF_REASON_SLOTS]; /* when it was opened: the pool's go on */
    ks_account account;                                 /* since it was opened */
    ks_cost cost;                                       /* until it was stopped */
    ks_cost_limit budget;                                   /* then */
    uint64_t lasted_ns;
};

struct ks_collector {
    ks_collector_options options;
    kf_pool pool;
    uint8_t head[offsetof(kf_control, custom_config)]; /* of its control page: never changes */
    ks_spool *spool;
    uint32_t window;
    uint64_t start_ticks, end_ticks;
    uint32_t dictionary_at; /* words that are in the spool */
    bool keep_is_full;      /* OLDEST: nothing more is kept */
    bool dictionary_holes;  /* stepped over entries that were not committed */
    uint64_t dictionary_stuck_ns;
    kb_map start_times; /* of attached processes, by pid */
    uint64_t interval_ns, next_scan_ns, next_sweep_ns, next_second_ns, spool_retry_ns;
    uint64_t kept_bytes, spool_failures;
    uint64_t program_ns;        /* CPU of the program alone, when it had ended; 0: not known */
    uint32_t in_use;            /* chunks, counted by the last pass */
    KB_VEC(ks_pending) pending; /* found by one pass */
    ks_children *children;
    ks_thread_names *thread_names; /* NULL: out of memory, names are not read */
    ks_account account;
    ks_cost_limit budget;
    uint64_t next_budget_ns;
    char spool_error[256];
    char pool_path[KS_PATH_BYTES], spool_path[KS_PATH_BYTES];

    /* on_demand */
    pthread_mutex_t lock; /* around what follows, up to the blank line */
    ks_window windows[KS_WINDOWS];
    uint32_t readers;     /* of the spool, besides those of windows */
    uint64_t first_ticks; /* of the recording */
    uint64_t ring_counters[KF_MAX_SOURCES][KF_REASON_SLOTS];
    bool over; /* the program has ended */

    uint64_t pass_from, pass_young; /* ticks, of this pass: see ks_window_wants */
    bool pass_ring;                 /* some ring is open: chunks stay until writers reclaim them */
    double ticks_per_ns;
    bool spool_is_used;
    uint32_t step_pid; /* whose iterations count */
    uint64_t next_steps_ns;
};

/* ---- collector.c ----------------------------------------------------------------------------- */
/** One pass over chunks: those that the map of free chunks shows in use, or `all`.
 *  @param taken  receives the number of chunks to copy out. @return false: copying failed. */
bool ks_collector_drain(ks_collector *c, bool all, uint32_t *taken);
void ks_collector_clock(ks_collector *c);

/* ---- running_thread_names.c. All but `create` do nothing with NULL ----------------------------------- */
ks_thread_names *ks_thread_names_create(void);
void ks_thread_names_destroy(ks_thread_names *n);
/** What /proc/PID/task/TID/stat says of the owner of a chunk (pid << 32 | tid). threads: any. */
void ks_thread_names_note(ks_thread_names *n, const kf_pool *pool, uint64_t owner,
                          const char *stat);
/** Read the names of all threads that have chunks. threads: any. */
void ks_thread_names_read(ks_thread_names *n, const kf_pool *pool);
/** The same, and write what is not written yet: a trace is built next. threads: any. */
void ks_thread_names_finish(ks_thread_names *n, const kf_pool *pool);

/* ---- windows.c ------------------------------------------------------------------------------- */
kineto_status ks_windows_init(ks_collector *c, kineto_error *err);
void ks_windows_free(ks_collector *c);
kineto_status ks_windows_start(ks_collector *c, kineto_error *err);
/** Before a pass: determine what windows need now. False: nothing. */
bool ks_windows_update(ks_collector *c);
/** Does any window need this chunk, so that it has to be copied out? */
bool ks_window_wants(const ks_collector *c, uint64_t last_ticks);
/** A chunk that no window needs: leave it in the ring, or free it once it is older than any window
 *  that could be opening now. */
void ks_window_skip_chunk(ks_collector *c, const ks_pending *p);
/** Housekeeping while nothing is recorded, or only the ring. @return nanoseconds after which to
 *  call again. */
uint64_t ks_windows_idle(ks_collector *c);
#endif

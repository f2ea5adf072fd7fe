/* Interface of the session room, for its own files and for the rooms to its right: sessions of the
 * program, collecting from a pool, reading what was collected, recovering the files of a recorder
 * that died. Functions may be called by any thread unless they say otherwise; a collector belongs
 * to the thread that polls it.
 */
#ifndef KS_SESSION_H
#define KS_SESSION_H

#include "base/base.h"
#include "format/format.h"
#include "session/defaults.h"
#include "trace/trace.h"
#include <ckineto/session.h>

/** Create a session and start it. @param out  NULL on failure. */
kineto_status ks_session_record(const kineto_session_options *options, kineto_session **out,
                                kineto_error *err);
/** Stop a session and destroy it, whatever is returned. */
kineto_status ks_session_finish(kineto_session *session, kineto_trace **out, kineto_error *err);


/* ---- session.c: requirements of the front end beyond the public options ---------------------- */
typedef struct ks_extras {
    bool no_privateuse1; /* prepare without forwarding the PrivateUse1 profiler */
    bool counters;       /* of operators: between kineto_rt_counters_begin and _end */
    bool adjust_steps;   /* see kt_build_options */
    bool no_links;       /* do not link forward to backward operators */
    bool last;           /* the next stop is final: memory is given back while the trace grows */
    void (*post)(void *context, int64_t debug_handle, kt_build_post *post);
    void *post_context;
    const char *metadata[8]; /* keys that the header has, with the value 1 */
    uint32_t metadata_count;
    const kt_build_header *header; /* more keys, with their values */
    uint32_t header_count;
    const kt_build_note *notes; /* lines of the ledger */
    uint32_t note_count;
    int64_t from_ns, until_ns;        /* cut the trace there, ns since 1970; 0: no limit */
    uint64_t from_ticks, until_ticks; /* the same limits where ticks are known; 0: they are not */
    bool armed;                       /* records may be overwritten until ks_session_keep */
    bool grows;                       /* little memory at first, more with ks_sessions_grow */
} ks_extras;
/** kineto_session_create with these extras, which are copied; what they point to is borrowed until
 *  the trace is built. */
kineto_status ks_session_prepare(const kineto_session_options *options, const ks_extras *extras,
                                 kineto_session **out, kineto_error *err);
/** The extras of a session, to be changed before the next stop or snapshot. */
ks_extras *ks_session_extras(kineto_session *session);
/** Of a session that is armed: what was recorded from start_ns on is kept. Cheap. threads: any.
 *  @param start_ticks  the same; 0: not known. */
void ks_session_keep(kineto_session *session, int64_t start_ns, uint64_t start_ticks);
/** When it was started, ns since 1970. */
int64_t ks_session_started_ns(const kineto_session *session);
/** The cheap first part of kineto_session_stop, which then builds the trace up to now, whenever it
 *  is called. KINETO_E_STATE if it does not record. threads: any, one at a time. */
kineto_status ks_session_end(kineto_session *session, kineto_error *err);
/** Prefault more memory for sessions that grow, up to `bytes`, without holding the lock.
 *  @return whether there is more to do. threads: any. */
bool ks_sessions_grow(size_t bytes);
/** Set the function that is called whenever a session is prepared; NULL: none. There is one hook.
 */
void ks_session_hook(void (*hook)(void));

typedef struct ks_spool ks_spool;

/* ---- input.c: recorded chunks as input of the decoder -------------------------------------------
 * Chunks from a spool, from a pool, or both: a chunk that is in both is taken once. */
typedef struct ks_input {
    kf_input input;
    /* A copy of the control page: the pool's if there is one. forgotten_ticks and EVICTED describe
     * the chunks that were copied from the pool. */
    kf_control *control;
    uint64_t lapped; /* of EVICTED: events that were overwritten while the pool was copied */
    struct ks_input_state *state;
} ks_input;

/** @param spool_path  NULL: no spool.
 *  @param pool        NULL: no pool. Its committed records are copied now, so that it may go on.
 *  @return KINETO_E_FORMAT if the file is not a spool or belongs to another pool, KINETO_E_IO … */
kineto_status ks_input_open(const char *spool_path, const kf_pool *pool, ks_input **out,
                            kineto_error *err);
/** The same with the spool that is being written, even if it was renamed or removed. */
kineto_status ks_input_open_written(const ks_spool *spool, const kf_pool *pool, ks_input **out,
                                    kineto_error *err);
/** The same while threads go on overwriting their oldest records: copied from the newest chunk
 *  backwards, and again if even that one was overwritten meanwhile.
 *  @param written  in place of spool_path, or NULL.
 *  @param now      ticks: the input ends there. Of what was written later it may have parts only.
 */
kineto_status ks_input_open_ring(const char *spool_path, const ks_spool *written,
                                 const kf_pool *pool, ks_input **out, uint64_t *now,
                                 kineto_error *err);
/** Events in the chunks that the spool holds, see KF_REASON_IN_SPOOL. Reads them all. */
uint64_t ks_input_spool_events(ks_input *input);
void ks_input_close(ks_input *input);
/** Read the header of a spool, checked. */
kineto_status ks_spool_header(const char *path, kf_spool_header *header, kineto_error *err);
/** Copy the committed words of a chunk that may be in use; returns how many. They are valid only if
 *  the serial of the chunk is the same before and after the copy. */
uint32_t ks_chunk_copy(uint64_t *to, const uint64_t *chunk);
/** Ticks of the newest clock snapshot; 0: there is none. What is open in a pool was open then. */
uint64_t ks_newest_snapshot(const kf_pool *pool);
/** Copy whole words that others may be writing. */
void ks_words_copy(void *to, const void *from, size_t bytes);

/* ---- spool.c: writing a spool ---------------------------------------------------------------- */

/** Create the file (0600, must not exist).
 *  @param ring_chunks  0: grow; else keep the newest that many chunks. */
kineto_status ks_spool_create(const char *path, const kf_pool *pool, const char *pool_path,
                              uint64_t ring_chunks, ks_spool **out, kineto_error *err);
/** One chunk's words; in a ring that is full, `evict` is called first with the words that are about
 *  to be lost. On failure the file is as it was. */
typedef struct ks_spool_chunk {
    const uint64_t *words;
    uint32_t count, index, serial;
} ks_spool_chunk;
typedef void ks_spool_evict(void *context, const uint64_t *words, uint32_t count);
kineto_status ks_spool_chunks(ks_spool *s, const ks_spool_chunk *chunks, uint32_t count,
                              ks_spool_evict *evict, void *context, kineto_error *err);
kineto_status ks_spool_dictionary(ks_spool *s, const uint64_t *dictionary, uint32_t first,
                                  uint32_t words, kineto_error *err);
kineto_status ks_spool_control(ks_spool *s, const kf_control *control, kineto_error *err);
/** Truncate it to its head. No reader may be using it. */
kineto_status ks_spool_reset(ks_spool *s, kineto_error *err);
uint64_t ks_spool_bytes(const ks_spool *s);
int ks_spool_descriptor(const ks_spool *s);
/** Its path when it was last found. */
const char *ks_spool_path(const ks_spool *s);
/** Does the file still have a name? If its directory was renamed, `path` receives the new path.
 *  False: it was removed, and exists only as long as it is open. */
bool ks_spool_find(ks_spool *s, char path[KS_PATH_BYTES]);
/** Closes; the file stays. NULL is fine. */
void ks_spool_close(ks_spool *s);

/* ---- pool_file.c: files of pools ------------------------------------------------------------- */
/** Create, reserve and lay out a pool file in the first directory that can hold it. */
kineto_status ks_pool_file_create(size_t buffer_bytes, size_t dictionary_bytes,
                                  char path[KS_PATH_BYTES], kf_pool *pool, kineto_error *err);
/** Directories where pool files may lie: the n-th, false past the last. */
bool ks_pool_directory(uint32_t n, char *buf, size_t size);
/** Does this file name have the form of a pool of this user? */
bool ks_pool_file_name(const char *name);

/* ---- pool_reader.c: the pool of this process as input of the decoder ------------------------- */
typedef struct ks_pool_reader ks_pool_reader;
/** Fill in `input` for the first `chunks` chunks.
 *  @param last  no thread records into the pool any more and no other reader needs it: memory is
 *               given back to the system as soon as it was read.
 *  @return NULL: out of memory. */
ks_pool_reader *ks_pool_reader_create(const kf_pool *pool, uint32_t chunks, bool last,
                                      kf_input *input);
/** NULL is fine. */
void ks_pool_reader_destroy(ks_pool_reader *r);

/* ---- pool_entries.c: entries of a pool's dictionary ------------------------------------------ */
/** Called for each process that attached, and with `watched` for those that are watched from outside. @param name  of its program, possibly empty.
 *  @return whether to go on. */
typedef bool ks_process_visit(void *context, const kf_process_entry *p, kineto_string name);
void ks_pool_processes(const kf_pool *pool, bool watched, ks_process_visit *visit, void *context);

/* ---- process_image.c: why a process does not show its program -------------------------------- */
typedef enum ks_rights {
    KS_RIGHTS_UNKNOWN, /* it has ended, for example */
    KS_RIGHTS_RAISED,  /* set-uid, set-gid or file capabilities */
    KS_RIGHTS_OTHER_USER,
    KS_RIGHTS_CLOSED /* of this user: a program file without read permission, PR_SET_DUMPABLE */
} ks_rights;
ks_rights ks_process_rights(uint32_t pid);

/* ---- children.c: the processes below the recorded one ---------------------------------------- */
typedef struct ks_children ks_children;
struct ks_collector_options;
/** @param options    what the command does with Python processes.
 *  @param pool_path  the buffer that processes attach to; pool_bytes: its size.
 *  @return NULL: out of memory. */
ks_children *ks_children_create(uint32_t root_pid, const struct ks_collector_options *options,
                                const char *pool_path, uint64_t pool_bytes);
/** A process attached: it is sampled from now on, wherever in the process tree it is. */
void ks_children_attached(ks_children *c, uint32_t pid);
/** Sample the process tree once; cheap enough for ten times a second. */
void ks_children_sample(ks_children *c);
/** The root and its living descendants. @return number of pids written, at most `room`. */
uint32_t ks_children_pids(uint32_t root_pid, uint32_t *pids, uint32_t room);
/** One ledger entry per reason for processes that never attached, and one for those still running.
 *  @param ticks  0; or the time of the entry while the recording goes on: then running processes
 *                are not reported. */
void ks_children_report(const ks_children *c, const kf_pool *pool, uint64_t ticks);
/** A ledger line for steps that had begun but not ended: only finished steps become ranges. */
void ks_pool_note_steps(const kf_pool *pool);
/** A ledger line for processes that lived only between two samples, if CPU time shows that there
 *  were any. @param waited_ns  CPU time of all children that the program and its descendants waited
 *  for. */
void ks_children_report_unseen(const ks_children *c, const kf_pool *pool, uint64_t waited_ns);
void ks_children_destroy(ks_children *c);
/** Does the ledger list processes that could not be recorded, or were excluded? */
bool ks_children_has_unrecorded(const kineto_trace *trace);

/* ---- collector.c: the recorder's side of a recording ----------------------------------------- */
typedef enum ks_policy {
    KS_POLICY_STREAM = 0, /* keep everything */
    KS_POLICY_OLDEST = 1, /* keep the first keep_bytes */
    KS_POLICY_RING = 2    /* keep the last keep_bytes */
} ks_policy;

typedef struct ks_collector_options {
    uint64_t kinds;
    size_t buffer_bytes; /* 0: KS_DEFAULT_BUFFER_BYTES */
    uint64_t keep_bytes; /* OLDEST and RING */
    ks_policy policy;
    const char *output_path;   /* the spool is created in the same directory */
    const char *custom_config; /* for plug-ins, < KS_CONFIG_BYTES; NULL: none */
    uint32_t wants;            /* of operators: KF_WANT_…; 0: KF_WANT_USUAL */
    bool python_left_out;      /* for the ledger: nothing attaches to Python programs */
    bool python_functions;     /* for the ledger: every Python program attaches */
    bool on_demand;            /* records only while a window is open: see windows.c. The policy and
                       keep_bytes are for each window */
    /* cost limit in millionths of the programs' CPU time, see self_cost.h; 0: none */
    double cost_limit_ppm;
    /* on_demand: always record, and keep in the buffer what is younger; 0: do not */
    uint64_t ring_ns;
} ks_collector_options;

typedef struct ks_collector_stats {
    uint64_t bytes;    /* copied out so far */
    uint64_t lost;     /* events, by the counters of the pool */
    bool spool_failed; /* for example, the disk is full: copying out is suspended */
    char spool_error[256];
} ks_collector_stats;

typedef struct ks_collector ks_collector;

kineto_status ks_collector_create(const ks_collector_options *options, ks_collector **out,
                                  kineto_error *err);
/** Open the gate: what happens from here on is recorded. */
kineto_status ks_collector_start(ks_collector *c, kineto_error *err);
/** The recorded process, for the ledger's account of its children. */
void ks_collector_follow(ks_collector *c, uint32_t pid);
/** A process that is watched without being a child: its CPU time counts as the program's. */
void ks_collector_account(ks_collector *c, uint32_t pid);
/** The recorded process has ended, and has not been waited for yet. */
void ks_collector_program_ends(ks_collector *c, uint32_t pid);
/** Copy out full chunks. @return nanoseconds after which to call again. */
uint64_t ks_collector_poll(ks_collector *c);
/** Close the gate, copy out the rest, build the trace. The files stay until destroy. */
kineto_status ks_collector_finish(ks_collector *c, kineto_trace **out, kineto_error *err);
/** Put a line into the ledger of this recording. */
void ks_collector_note(ks_collector *c, const char *source, const char *reason, uint64_t count,
                       bool is_loss, const char *detail);
/** Put a key and a JSON value into the header of the trace. */
void ks_collector_metadata(ks_collector *c, const char *key, const char *json_value);
void ks_pool_metadata(const kf_pool *pool, const char *key, const char *json_value);
/** Job name, version and attempt of the environment, if it has them: into the header of all traces
 *  of a pool. */
void ks_pool_put_job(const kf_pool *pool);
/** The same ledger, for any holder of the pool. */
void ks_pool_note(const kf_pool *pool, const char *source, const char *reason, uint64_t count,
                  bool is_loss, const char *detail);
/** A line for the windows that reach `ticks`; 0: for all. */
void ks_pool_note_at(const kf_pool *pool, const char *source, const char *reason, uint64_t count,
                     bool is_loss, const char *detail, uint64_t ticks);
void ks_collector_stats_get(const ks_collector *c, ks_collector_stats *out);
/** Has any thread written into the buffer since the recording began? */
bool ks_collector_has_recorded(const ks_collector *c);
/** The buffer, for a source of the recorder itself. Valid until destroy. */
const kf_pool *ks_collector_pool(const ks_collector *c);
const char *ks_collector_pool_path(const ks_collector *c);
const char *ks_collector_spool_path(const ks_collector *c);
/** See ks_spool_find; `recover` finds it, too, from then on. */
bool ks_collector_find_spool(ks_collector *c);
/** @param keep_files  leave pool and spool for `recover`. NULL collector is fine. */
void ks_collector_destroy(ks_collector *c, bool keep_files);

/* ---- windows.c: recordings that come and go, with ks_collector_options.on_demand ----------------
 * Those that open and stop belong to the thread that polls; what takes time (build, dump) may run
 * on another one meanwhile. */
typedef struct ks_window ks_window;
typedef struct ks_window_options {
    uint64_t kinds;
    uint32_t wants;            /* KF_WANT_… */
    const char *custom_config; /* for plug-ins, < KS_CONFIG_BYTES; "": what the collector has */
} ks_window_options;
/** Devices begin to record; their records are discarded until the window is armed.
 *  @return KINETO_E_LIMIT: too many windows are in use. */
kineto_status ks_window_prepare(ks_collector *c, const ks_window_options *options, ks_window **out,
                                kineto_error *err);
/** From here on everything is kept. After ks_window_limit: as far as iterations have not begun it.
 */
kineto_status ks_window_arm(ks_collector *c, ks_window *w, kineto_error *err);
/** Everything is kept from when iteration `from` of process `pid` begins until iteration `until`
 *  does. */
kineto_status ks_window_limit(ks_collector *c, ks_window *w, uint32_t pid, uint64_t from,
                              uint64_t until, kineto_error *err);
/** Record no more; what was recorded stays. */
void ks_window_stop(ks_collector *c, ks_window *w);
/** What lies in [from_ns, until_ns], Unix ns, or between its iterations; after stop. Waits for
 *  sources that still hand over, a few seconds at most. threads: any. */
typedef struct ks_window_cut {
    int64_t from_ns, until_ns;
    const kt_build_header *header;
    uint32_t header_count, note_count;
    const kt_build_note *notes; /* of windows */
    bool is_quick; /* without what takes long to find: inlined functions */
} ks_window_cut;
kineto_status ks_window_build(ks_collector *c, ks_window *w, const ks_window_cut *cut,
                              kineto_trace **out, kineto_error *err);
/** End the window; its chunks may be freed. NULL is fine. threads: any. */
void ks_window_release(ks_collector *c, ks_window *w);
/** What the ring holds of the last ring_ns, in [from_ns, until_ns] of the cut if they are given.
 *  Recording goes on. threads: any. */
kineto_status ks_ring_build(ks_collector *c, const ks_window_cut *cut, kineto_trace **out,
                            kineto_error *err);
/** Sleep until a window of the pool changes (also a program's own one) or ks_collector_wake is
 *  called; then poll. @param seen  the previous return value. threads: any. */
uint32_t ks_collector_wait_change(const ks_collector *c, uint32_t seen);
void ks_collector_wake(const ks_collector *c);
/** The program has ended: what its sources have not handed over, they never will. */
void ks_collector_program_ended(ks_collector *c);
/** Iterations of the program that began (of the first of its processes that steps), and when the
 *  last 64 of them did (Unix ns, at index i % 64). *pid receives whose, 0: no process has stepped
 *  yet. */
uint64_t ks_collector_steps(ks_collector *c, int64_t times_ns[KF_STEP_TIMES], uint32_t *pid);

/* ---- recover.c: recordings of recorders that died -------------------------------------------- */
typedef struct ks_orphan {
    char pool_path[KS_PATH_BYTES], spool_path[KS_PATH_BYTES], output_path[KS_PATH_BYTES];
    char program[64];  /* of the first process that attached; may be empty */
    char problem[256]; /* why the pool cannot be read; "": it can */
    uint32_t recorder_pid;
    bool recorder_alive;
    uint64_t bytes;      /* of the pool, in memory mostly, and of the spool */
    int64_t age_seconds; /* since the last write to either */
} ks_orphan;

/** Call back for each pool file in the known directories; stops when the callback returns false. */
typedef bool ks_orphan_visit(void *context, const ks_orphan *orphan);
void ks_orphans_each(ks_orphan_visit *visit, void *context);
/** Build the trace of a pool or a spool, whichever `path` is, with the other one if it is there. */
kineto_status ks_recover(const char *path, bool force, ks_orphan *what, kineto_trace **out,
                         kineto_error *err);
#endif

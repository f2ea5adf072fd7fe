/* The ring of a process: it always records and keeps the newest records. They are dumped on
 * request, when a step is slow, when no step begins any more, and when the process crashes. */
#ifndef KO_RING_H
#define KO_RING_H

#include "base/guarded_fd.h"
#include "format/format.h"
#include "ondemand/controller/controller.h"
#include <ckineto/control.h>

#define KO_RING_SECONDS        30.0 /* default length */
#define KO_RING_BYTES          ((size_t)64 << 20)
#define KO_RING_MAX_SECONDS    86400.0
#define KO_MAX_AUTOMATIC_DUMPS 10u /* default limit for the life of the process */

/* ---- ring.c ---------------------------------------------------------------------------------- */
/** Parse CKINETO_RING ("1",
 * "seconds=30,mb=64,kinds=cpu_op+kernel,crash,slow-step=1.5,hang=60,path=…") over the
 * options. dump_path then points into `text`. "0" and "" change nothing.
 *  @return KINETO_E_ARGUMENT with the word that is wrong; the options are as they were. */
kineto_status ko_ring_parse(const char *text, kineto_control_options *options, kineto_error *err);
/** KINETO_E_ARGUMENT for numbers out of range. */
kineto_status ko_ring_check(const kineto_control_options *options, kineto_error *err);
/** Begin to record, with ring_seconds > 0. KINETO_E_STATE if it does already. */
kineto_status ko_ring_start(const kineto_control_options *options, kineto_error *err);
/** Stop recording; waits for a dump that is being built. Without effect if the ring is off. */
void ko_ring_stop(void);
/** ko_driver.dump; the context is not used. */
kineto_status ko_ring_dump(void *context, ko_request_source source, const char *path,
                           const char *reason, uint64_t *bytes, kineto_error *err);
/** The driver's can_dump: KINETO_E_STATE until ko_ring_start is done. threads: any. */
kineto_status ko_ring_can_dump(void *context, kineto_error *err);

/* ---- watchdog.c ------------------------------------------------------------------------------ */
/** A listener that requests dumps by dump_on_slow_step and dump_on_hang_seconds. One per process.
 *  NULL without an error: the options enable neither. */
ko_listener *ko_watchdog_create(const kineto_control_options *options, kineto_error *err);
/** An iteration of the program began (kineto_rt_step_hook). threads: any; hot: one clock reading
 *  and arithmetic, unless the iteration was slow; no effect without a watchdog. */
void ko_watchdog_step(ko_controller *c, uint64_t step);

/* The usual length of a step: the median of the last KO_USUAL_STEPS. */
#define KO_USUAL_STEPS  31u
#define KO_USUAL_WARMUP 8u /* steps before the median is used */
typedef struct ko_usual {
    uint64_t ns[KO_USUAL_STEPS]; /* in the order of steps, at index count % KO_USUAL_STEPS */
    uint64_t sorted[KO_USUAL_STEPS];
    uint64_t count;
} ko_usual;
/** Is a step of this length at least `factor` times the usual one? Afterwards it is added to the
 *  history.
 *  @param usual_ns  receives the median before that; 0: not known yet. */
bool ko_usual_is_slow(ko_usual *u, double factor, uint64_t ns, uint64_t *usual_ns);

/* ---- crash_handler.c --------------------------------------------------------------------------------- */
/** Install signal handlers that write the ring's memory when the process crashes, to the path of a
 *  dump with ".ckpool" appended. Existing handlers of the program run afterwards. Call after
 *  ko_ring_start; no effect if a recorder owns the pool. The directory is opened now. */
kineto_status ko_crash_arm(const kineto_control_options *options, kineto_error *err);
/** Give the calling thread an alternate signal stack if it has none, for stack overflows. It stays
 *  with the thread. */
void ko_crash_stack(void);
/** Restore the signals whose handler is still ours. Without effect if not armed. */
void ko_crash_disarm(void);

/* ---- crash_file.c: async-signal-safe, except ko_crash_file_open ------------------------------ */
typedef struct ko_crash_file {
    kb_guarded_fd directory;                    /* O_PATH */
    kb_guarded_fd spare;                        /* reserves a descriptor for the file */
    char path[KO_REQUEST_PATH_BYTES + 16]; /* of the file; before writing, without its number */
    char trace_path
        [KO_REQUEST_PATH_BYTES]; /* recorded in the file: where recover writes the trace */
    uint32_t name_at, number_at;
    uint64_t kinds, from_ticks, ring_ns;
    uint32_t process; /* its entry in the dictionary */
    uint64_t bytes;   /* written */
} ko_crash_file;
kineto_status ko_crash_file_open(const kineto_control_options *options, ko_crash_file *f,
                                 kineto_error *err);
/** Close its descriptors, if they are still ours. */
void ko_crash_file_close(ko_crash_file *f);
/** Write the pool. Recording should be stopped. @param reason  as JSON. @return 0 or an errno; a
 *  part may have been written nevertheless: *made. */
int ko_crash_file_write(ko_crash_file *f, const kf_pool *pool, kineto_string reason, bool *made);

/* ---- snapshot.c: for drivers ----------------------------------------------------------------- */
kineto_status ko_snapshot_start(const ko_request *request, kineto_error *err);
/** Writes to `path`, safely. */
kineto_status ko_snapshot_stop(ko_request_source source, const char *path, uint64_t *bytes,
                               kineto_error *err);
void ko_snapshot_drop(void);
#endif

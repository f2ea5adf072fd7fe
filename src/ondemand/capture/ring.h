/* The ring of a process: it always records, keeps the newest, and hands that out when asked, when a
 * step is slow, when there is none any more, and when the process crashes. */
#ifndef KO_RING_H
#define KO_RING_H

#include "base/owned.h"
#include "format/format.h"
#include "ondemand/controller/controller.h"
#include <ckineto/control.h>

#define KO_RING_SECONDS        30.0 /* if only the ring is asked for */
#define KO_RING_BYTES          ((size_t)64 << 20)
#define KO_RING_MAX_SECONDS    86400.0
#define KO_MAX_AUTOMATIC_DUMPS 10u /* that nobody asked for, in the life of the process */

/* ---- ring.c --------------------------------------------------------------------------------------- */
/** Read CKINETO_RING ("1",
 * "seconds=30,mb=64,kinds=cpu_op+kernel,crash,slow-step=1.5,hang=60,path=…") over what the options
 * say. dump_path then points into `text`. "0" and "" say nothing.
 *  @return KINETO_E_ARGUMENT with the word that is wrong; the options are as they were. */
kineto_status ko_ring_parse(const char *text, kineto_control_options *options, kineto_error *err);
/** KINETO_E_ARGUMENT for numbers that make no sense. */
kineto_status ko_ring_check(const kineto_control_options *options, kineto_error *err);
/** Begin to record, with ring_seconds > 0. KINETO_E_STATE if it does already. */
kineto_status ko_ring_start(const kineto_control_options *options, kineto_error *err);
/** Waits for a dump that is being built. Nothing if there is no ring. */
void ko_ring_stop(void);
/** The driver's `dump`; the context is not looked at. */
kineto_status ko_ring_dump(void *context, ko_request_source source, const char *path,
                           const char *reason, uint64_t *bytes, kineto_error *err);

/* ---- watchdog.c ----------------------------------------------------------------------------------- */
/** Asks for dumps by itself, as dump_on_slow_step and dump_on_hang_seconds say. One per process.
 *  NULL without an error: the options ask for neither. */
ko_listener *ko_watchdog_create(const kineto_control_options *options, kineto_error *err);
/** An iteration of the controller's program began: for whoever hears of it first
 * (kineto_rt_step_hook). threads: any; hot: a clock reading and arithmetic, unless the iteration
 * was slow; nothing if there is no watchdog. */
void ko_watchdog_step(ko_controller *c, uint64_t step);

/* How long a step usually takes: the median of the last KO_USUAL_STEPS. */
#define KO_USUAL_STEPS  31u
#define KO_USUAL_WARMUP 8u /* steps before it is worth anything */
typedef struct ko_usual {
    uint64_t ns[KO_USUAL_STEPS]; /* in the order of steps, at index count % KO_USUAL_STEPS */
    uint64_t sorted[KO_USUAL_STEPS];
    uint64_t count;
} ko_usual;
/** Is a step of this length `factor` times what is usual, or more? Then it counts among them.
 *  @param usual_ns  receives what is usual without it; 0: not known yet. */
bool ko_usual_is_slow(ko_usual *u, double factor, uint64_t ns, uint64_t *usual_ns);

/* ---- crash.c -------------------------------------------------------------------------------------- */
/** Write the ring, as it lies in memory, when the process crashes: to the path of a dump with
 * ".ckpool" at its end. Handlers of the program that are there run after ours. After ko_ring_start;
 * nothing if a recorder outside holds what is recorded. The directory is opened now. */
kineto_status ko_crash_arm(const kineto_control_options *options, kineto_error *err);
/** The calling thread, the first one above all, gets a stack for signals if it has none: it may
 * have run out of its own. It stays with the thread. */
void ko_crash_stack(void);
/** Gives signals back whose handler still is ours. Nothing if it is not armed. */
void ko_crash_disarm(void);

/* ---- crash_file.c: async-signal-safe, but for _open ----------------------------------------------- */
typedef struct ko_crash_file {
    kb_owned directory;                     /* O_PATH */
    kb_owned spare;                         /* its number is the file's when there is no other */
    char path[KO_REQUEST_PATH_BYTES + 16];  /* where it went to; at first without a number */
    char trace_path[KO_REQUEST_PATH_BYTES]; /* for whoever makes the trace */
    uint32_t name_at, number_at;
    uint64_t kinds, from_ticks, ring_ns;
    uint32_t process; /* its entry in the dictionary */
    uint64_t bytes;   /* written */
} ko_crash_file;
kineto_status ko_crash_file_open(const kineto_control_options *options, ko_crash_file *f,
                                 kineto_error *err);
/** Unless the program has closed its descriptors: other files have those numbers then. */
void ko_crash_file_close(ko_crash_file *f);
/** The reason as JSON. Others should have stopped recording. @return 0 or an errno; then what found
 * room is there nevertheless, unless *made is false. */
int ko_crash_file_write(ko_crash_file *f, const kf_pool *pool, kineto_string reason, bool *made);

/* ---- snapshot.c: for drivers ------------------------------------------------------------------------ */
kineto_status ko_snapshot_start(const ko_request *request, kineto_error *err);
/** Writes to `path`, safely. */
kineto_status ko_snapshot_stop(ko_request_source source, const char *path, uint64_t *bytes,
                               kineto_error *err);
void ko_snapshot_drop(void);
#endif

/* The host of the state machine (state_machine.h): feeds it events from listeners, the program's
 * steps and the clock, and has a driver carry out its actions. There is one in a traceable process,
 * or one in a recorder, for the programs below it.
 *
 *     listeners (Dynolog, control socket, signal, trigger file) ──▶ controller ──▶ driver
 *                                                                      │
 *                                     watchers (control socket, log, the program) ◀── stages
 *
 * Threads: ko_controller_turn belongs to one thread, the owner. Functions marked "any" may be
 * called by any thread at any time. The driver is called with the controller's lock held, except
 * for `write`, `snapshot_stop` and `dump`, which run on a short-lived thread of their own.
 * ko_controller_step never blocks. */
#ifndef KO_CONTROLLER_H
#define KO_CONTROLLER_H

#include "ondemand/controller/state_machine.h"

typedef struct ko_controller ko_controller;

/* ---- the driver: what records ---------------------------------------------------------------- */
typedef struct ko_driver {
    void *context;
    /** Prepare buffers and devices; devices begin to warm up, their records are discarded. */
    kineto_status (*prepare)(void *context, const ko_request *request, kineto_error *err);
    /** After prepare, for requests by iteration: the window reaches from the beginning of one
     *  iteration to that of another, and the programs begin and end it themselves, however late
     *  `arm` and `stop` come. NULL: `arm` and `stop` decide. */
    kineto_status (*limit)(void *context, int64_t from_step, int64_t until_step, kineto_error *err);
    /** Record everything from now on; records before the window are cut away later. By time it is
     *  called KO_ONDEMAND_ARM_NS before the window, by iteration in the step in which the window
     *  begins. */
    kineto_status (*arm)(void *context, kineto_error *err);
    /** The window has begun; for clients. May be NULL. */
    void (*started)(void *context, int64_t start_ns);
    /** Stop recording; keep the records of the window (ns since 1970) for `write`. Must be cheap:
     *  it may be called in a step of the program. */
    kineto_status (*stop)(void *context, int64_t start_ns, int64_t end_ns, kineto_error *err);
    /** Build the trace and write it to `path`, safely (see output.h). @param bytes  receives its
     * size. Called once after `stop`. */
    kineto_status (*write)(void *context, const ko_request *request, ko_request_source source,
                           const char *path, uint64_t *bytes, kineto_error *err);
    /** Discard the request under way. Also called after a failed call. */
    void (*drop)(void *context);
    /** Memory snapshots; NULL: not possible here. stop writes to `path`. */
    kineto_status (*snapshot_start)(void *context, const ko_request *request, kineto_error *err);
    kineto_status (*snapshot_stop)(void *context, const ko_request *request,
                                   ko_request_source source, const char *path, uint64_t *bytes,
                                   kineto_error *err);
    /** Write the contents of the ring; NULL: no ring. Recording goes on.
     *  @param reason  for the trace (ckineto_dump_reason); "": requested. */
    kineto_status (*dump)(void *context, ko_request_source source, const char *path,
                          const char *reason, uint64_t *bytes, kineto_error *err);
    /** Does the ring record now? Called with the controller's lock. NULL: always. */
    kineto_status (*can_dump)(void *context, kineto_error *err);
    /** Where the driver counts steps (a recorder's programs): returns how many began, and when the
     *  last 64 did (ns since 1970, at index step % 64). NULL: ko_controller_step is called. */
    uint64_t (*steps)(void *context, int64_t times_ns[64]);
} ko_driver;

/* ---- stages, which watchers are notified of -------------------------------------------------- */
typedef enum ko_stage {
    KO_STAGE_ACCEPTED = 0, /* text: deviations from the request, or ""; path: destination */
    KO_STAGE_REFUSED = 1,  /* text: why */
    KO_STAGE_WARMUP = 2,
    KO_STAGE_COLLECT = 3,  /* time_ns: of the window's begin */
    KO_STAGE_PROCESS = 4,  /* time_ns: of its end */
    KO_STAGE_WRITTEN = 5,  /* path, bytes. Final, as are the next two */
    KO_STAGE_FAILED = 6,   /* text: why */
    KO_STAGE_CANCELLED = 7 /* text: by whom */
} ko_stage;
const char *ko_stage_name(uint32_t stage); /* "accepted", "warm-up" … */

typedef struct ko_stage_note {
    uint64_t ticket; /* of the request */
    uint32_t stage;  /* ko_stage */
    int64_t time_ns;
    const char *trace_id, *group_id;
    const char *text, *path;
    uint64_t bytes;
} ko_stage_note;
/** Called on any thread, without the controller's lock, in order for each ticket. Must not block,
 *  and must not make requests. */
typedef void ko_watch(void *context, const ko_stage_note *note);

/* ---- listeners: where requests come from ----------------------------------------------------- */
/* A source that the loop polls. `fd` may be an epoll descriptor for many others; -1: only the time.
 * It is read anew after each turn, in which it may change. */
typedef struct ko_listener ko_listener;
struct ko_listener {
    const char *name; /* for messages: "Dynolog", "control socket" */
    int fd;
    short events;     /* of poll(2) */
    uint64_t wake_ns; /* CLOCK_MONOTONIC; UINT64_MAX: only when fd is ready, or it is rung */
    bool rung;        /* atomic: see ko_listener_ring */
    /** Called when fd is ready, at wake_ns, when rung, or when the program may have closed
     *  descriptors. Calls ko_controller_request. Never blocks and never fails: problems are logged
     *  once and retried. */
    void (*turn)(ko_listener *l, ko_controller *c, uint64_t monotonic_ns);
    /** In a fork's child, before destroy: close inherited sockets without notifying the peers. May
     *  be NULL. */
    void (*forked)(ko_listener *l);
    void (*destroy)(ko_listener *l);
};
/** Give it a turn. threads: any. */
void ko_listener_ring(ko_listener *l, ko_controller *c);

/* ---- the controller -------------------------------------------------------------------------- */
typedef struct ko_controller_options {
    uint32_t pid;          /* of the traced process: goes into file names */
    const char *host;      /* what `status` calls it: "process", "recorder" */
    bool ring;             /* dumps may be requested */
    const char *dump_path; /* default path of dumps; pid and number are inserted; NULL: built-in.
                                Borrowed until destroyed */
    uint64_t iterations;   /* that the program began before now */
} ko_controller_options;
kineto_status ko_controller_create(const ko_controller_options *options, const ko_driver *driver,
                                   ko_controller **out, kineto_error *err);
/** Takes ownership of the listener. threads: owner, before the first turn. */
void ko_controller_listen(ko_controller *c, ko_listener *listener);
/** threads: any. False: the table of 16 watchers is full. */
bool ko_controller_watch(ko_controller *c, ko_watch *watch, void *context);
/** Afterwards the watcher is not called any more, unless this is called by the watcher itself. */
void ko_controller_unwatch(ko_controller *c, ko_watch *watch, void *context);

/** Request a trace by a configuration text. threads: any, but not from a watcher.
 *  @param ticket  receives the number that identifies it in notes for watchers; may be NULL.
 *  @return KINETO_OK: accepted. KINETO_E_ARGUMENT, KINETO_E_PERMISSION, KINETO_E_BUSY with the
 *           reason, of which watchers are notified, too. Nothing has changed then. */
kineto_status ko_controller_request(ko_controller *c, kineto_string text, ko_request_source source,
                                    uint64_t *ticket, kineto_error *err);
/** Request a dump of the ring. `text` may contain ACTIVITIES_LOG_FILE. threads: any. */
kineto_status ko_controller_dump(ko_controller *c, kineto_string text, ko_request_source source,
                                 uint64_t *ticket, kineto_error *err);
/** An automatic dump, with a reason that goes into the dump. threads: any. */
kineto_status ko_controller_dump_because(ko_controller *c, kineto_error *err, const char *fmt, ...)
    KINETO_PRINTF(3, 4);
/** End the request under way; what was collected is written. @param by  for notes. threads: any. */
void ko_controller_cancel(ko_controller *c, const char *by);
/** A profile by the program itself begins or ends; calls nest. threads: any. */
void ko_controller_preempt(ko_controller *c, bool begins);
/** Another iteration began. threads: any; hot: a few atomics unless a request goes by iteration. */
void ko_controller_step(ko_controller *c, int64_t now_ns);
bool ko_controller_can_accept(ko_controller *c, const char **why);
typedef struct ko_controller_status {
    uint32_t pid, state; /* ko_ondemand_state */
    const char *host;
    int64_t iteration;        /* -1: the program has not reported a step */
    uint64_t ticket;          /* of the request under way; 0: none */
    int64_t start_ns, end_ns; /* of its window; 0: not known yet */
    bool by_iteration, ring, preempted;
    uint64_t traces; /* written so far */
} ko_controller_status;
void ko_controller_get_status(ko_controller *c, ko_controller_status *out);

/** Wait for listeners and the clock, at most wait_ns (negative: 10 s), and handle what is due.
 *  threads: owner. */
void ko_controller_turn(ko_controller *c, int64_t wait_ns);
/** Make turn return. threads: any. */
void ko_controller_wake(ko_controller *c);
/** Cancels, waits until traces are written, gives each listener a last turn to report that
 *  (requests are refused by then), and destroys it. No other thread may be using the controller.
 *  NULL is fine. */
void ko_controller_destroy(ko_controller *c);
/** In a fork's child: frees what it can, without notifying peers or waiting. The driver is not
 *  called. */
void ko_controller_forked(ko_controller *c);
#endif

/* The host of the state machine (ondemand.h): brings it events from its listeners, the program's
 * steps and the clock, and has a driver carry out what it answers. One in a process that can be
 * asked for traces, or one in a recorder, for the programs below it.
 *
 *     listeners (Dynolog, control socket, signal, trigger file) ──▶ controller ──▶ driver
 *                                                                      │
 *                                     watchers (control socket, log, the program) ◀── stages
 *
 * Threads: `turn` belongs to one thread; what is marked "any" may be called by any other, also while
 * it turns. The driver is called with the controller's lock held, but for `write` and `dump`, which
 * run on a short-lived thread of their own. Nothing here blocks a thread that calls `step`. */
#ifndef KO_CONTROLLER_H
#define KO_CONTROLLER_H

#include "ondemand/controller/state_machine.h"

typedef struct ko_controller ko_controller;

/* ---- the driver: what records ------------------------------------------------------------------ */
typedef struct ko_driver {
    void *context;
    /** Get buffers and devices ready; devices begin to warm up. What is recorded is thrown away. */
    kineto_status (*prepare)(void *context, const ko_request *request, kineto_error *err);
    /** With `steps`, after prepare: the window reaches from the beginning of one iteration to that of
     *  another, and the programs begin and end it themselves, however late `arm` and `stop` come. NULL:
     *  it goes by those. */
    kineto_status (*limit)(void *context, int64_t from_step, int64_t until_step, kineto_error *err);
    /** Record everything from here on; what lies before the window is cut away later. By time this
     *  comes KO_ONDEMAND_ARM_NS before the window, by iteration in the step in which it begins. */
    kineto_status (*arm)(void *context, kineto_error *err);
    /** The window has begun (a client wants to know); may be NULL. */
    void (*started)(void *context, int64_t start_ns);
    /** Record no more; keep what lies in the window, ns since 1970, for `write`. Cheap: it may be
     *  called in a step of the program. */
    kineto_status (*stop)(void *context, int64_t start_ns, int64_t end_ns, kineto_error *err);
    /** Build the trace and write it to `path`, safely (see output.h). @param bytes  receives its
     * size. Called once after `stop`. */
    kineto_status (*write)(void *context, const ko_request *request, ko_request_source source,
                           const char *path, uint64_t *bytes, kineto_error *err);
    /** Forget what was begun. After a failed call, too. */
    void (*drop)(void *context);
    /** Memory snapshots; NULL: not possible here. stop writes to `path`. */
    kineto_status (*snapshot_start)(void *context, const ko_request *request, kineto_error *err);
    kineto_status (*snapshot_stop)(void *context, const ko_request *request,
                                   ko_request_source source, const char *path, uint64_t *bytes,
                                   kineto_error *err);
    /** Write what the ring holds of the last while; NULL: there is no ring. Recording goes on.
     *  @param reason  why (ckineto_dump_reason); "": it was asked for. */
    kineto_status (*dump)(void *context, ko_request_source source, const char *path,
                          const char *reason, uint64_t *bytes, kineto_error *err);
    /** When steps are counted by somebody else (a recorder's programs): how many, and when the last
     *  64 began (ns since 1970, at index step % 64). NULL: ko_controller_step is called. */
    uint64_t (*steps)(void *context, int64_t times_ns[64]);
} ko_driver;

/* ---- stages: what watchers hear ------------------------------------------------------------------ */
typedef enum ko_stage {
    KO_STAGE_ACCEPTED = 0, /* text: what is done otherwise than was asked, or ""; path: where to */
    KO_STAGE_REFUSED = 1,  /* text: why */
    KO_STAGE_WARMUP = 2,
    KO_STAGE_COLLECT = 3,  /* time_ns: of the window's begin */
    KO_STAGE_PROCESS = 4,  /* time_ns: of its end */
    KO_STAGE_WRITTEN = 5,  /* path, bytes. The last one of a request, as are the next two */
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
/** Called on any thread, without the controller's lock, in order for each ticket. Must not block. */
typedef void ko_watch(void *context, const ko_stage_note *note);

/* ---- listeners: where requests come from --------------------------------------------------------- */
/* What the loop polls. `fd` may be an epoll descriptor with many behind it; -1: only the time. A
 * listener looks at its own fd again after each turn: it may change. */
typedef struct ko_listener ko_listener;
struct ko_listener {
    const char *name; /* for messages: "Dynolog", "control socket" */
    int fd;
    short events;     /* of poll(2) */
    uint64_t wake_ns; /* CLOCK_MONOTONIC; UINT64_MAX: only when fd is ready, or it was rung */
    bool rung;        /* atomic: see ko_listener_ring */
    /** It is ready, or it is time, or the program may have closed its descriptors. Calls
     *  ko_controller_request. Never blocks, never fails: it says what is wrong once, in the log, and
     *  tries again later. */
    void (*turn)(ko_listener *l, ko_controller *c, uint64_t monotonic_ns);
    /** In a fork's child, before destroy: forget the parent's sockets without a word to the other
     *  side; NULL. */
    void (*forked)(ko_listener *l);
    void (*destroy)(ko_listener *l);
};
/** Give it a turn. threads: any. */
void ko_listener_ring(ko_listener *l, ko_controller *c);

/* ---- the controller -------------------------------------------------------------------------------- */
typedef struct ko_controller_options {
    uint32_t pid;          /* whose traces: goes into their names */
    const char *host;      /* what `status` calls it: "process", "recorder" */
    bool ring;             /* the driver's dump may be asked for */
    const char *dump_path; /* of dumps that name none, PID and number go in; NULL: the usual one.
                                Borrowed until destroyed */
    uint64_t iterations;   /* that the program began before */
} ko_controller_options;
kineto_status ko_controller_create(const ko_controller_options *options, const ko_driver *driver,
                                   ko_controller **out, kineto_error *err);
/** Takes the listener. Owner, before the first turn. */
void ko_controller_listen(ko_controller *c, ko_listener *listener);
/** threads: any. False: there are 16 already. */
bool ko_controller_watch(ko_controller *c, ko_watch *watch, void *context);
/** When it returns, the watcher is not being called any more, unless it is the caller. */
void ko_controller_unwatch(ko_controller *c, ko_watch *watch, void *context);

/** A text asks for a trace. threads: any, but no watcher.
 *  @param ticket  receives the number under which watchers hear of it; may be NULL.
 *  @return KINETO_OK: accepted. KINETO_E_ARGUMENT, KINETO_E_PERMISSION, KINETO_E_BUSY with the reason, which
 *          watchers hear, too. Nothing has changed then. */
kineto_status ko_controller_request(ko_controller *c, kineto_string text, ko_request_source source,
                                    uint64_t *ticket, kineto_error *err);
/** What the ring holds, now. `text` may have ACTIVITIES_LOG_FILE. threads: any. */
kineto_status ko_controller_dump(ko_controller *c, kineto_string text, ko_request_source source,
                                 uint64_t *ticket, kineto_error *err);
/** The same for a reason, which the dump says of itself, where nobody asked. threads: any. */
kineto_status ko_controller_dump_because(ko_controller *c, kineto_error *err, const char *fmt, ...)
    KINETO_PRINTF(3, 4);
/** End what is under way: what was collected is written. threads: any. */
void ko_controller_cancel(ko_controller *c, const char *by);
/** The program's own profile begins, ends; counted. threads: any. */
void ko_controller_preempt(ko_controller *c, bool begins);
/** Another iteration began. threads: any; hot: a few atomics unless a request goes by iteration. */
void ko_controller_step(ko_controller *c, int64_t now_ns);
bool ko_controller_can_accept(ko_controller *c, const char **why);
typedef struct ko_controller_status {
    uint32_t pid, state; /* ko_ondemand_state */
    const char *host;
    int64_t iteration;        /* -1: the program never said step */
    uint64_t ticket;          /* of what is under way; 0: nothing */
    int64_t start_ns, end_ns; /* of its window; 0: not known yet */
    bool by_iteration, ring, preempted;
    uint64_t traces; /* written so far */
} ko_controller_status;
void ko_controller_get_status(ko_controller *c, ko_controller_status *out);

/** Wait for listeners and the clock, at most wait_ns (negative: 10 s), and do what is due.
 *  threads: owner. */
void ko_controller_turn(ko_controller *c, int64_t wait_ns);
/** Make turn return. threads: any. */
void ko_controller_wake(ko_controller *c);
/** Cancels, waits for what is being written, gives each listener a last turn to say so (requests are
 *  refused then), and destroys it. No other thread may be using it any more. NULL is fine. */
void ko_controller_destroy(ko_controller *c);
/** In a fork's child: frees what it can without a word to anybody. Waits for nothing; the driver is not
 *  called. */
void ko_controller_forked(ko_controller *c);
#endif

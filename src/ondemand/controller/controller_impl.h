/* Internals of the controller. One lock guards the machine and calls of the driver. Before a thread
 * releases it, it replays the steps of the program that arrived meanwhile; afterwards it delivers
 * the notes for watchers. So no step and no note waits for a particular thread to run.
 *
 *     controller.c           the object, and queries
 *     controller_request.c   texts become requests
 *     controller_act.c       events to the machine, its actions to the driver
 *     controller_step.c      the program's steps; the lock
 *     controller_work.c      threads that write
 *     controller_notes.c     watchers
 *     controller_loop.c      waiting */
#ifndef KO_CONTROLLER_IMPL_H
#define KO_CONTROLLER_IMPL_H

#include "ondemand/controller/controller.h"
#include "ondemand/support/wake.h"

#include <time.h>

#define KO_MAX_LISTENERS 8u
#define KO_MAX_WATCHERS  16u
#define KO_STEPS         64u /* capacity for times of steps that the machine has not seen */
#define KO_NOTE_BYTES    512u
#define KO_REASON_BYTES  256u

/* ---- controller_notes.c ---------------------------------------------------------------------- */
typedef struct ko_note {
    struct ko_note *next;
    ko_stage_note note; /* its texts are below */
    char trace_id[KO_REQUEST_ID_BYTES], group_id[KO_REQUEST_ID_BYTES];
    char text[KO_NOTE_BYTES], path[KO_REQUEST_PATH_BYTES];
} ko_note;

typedef struct ko_notes {
    pthread_mutex_t lock;
    pthread_cond_t heard; /* a note was delivered */
    ko_note *first, **last;
    uint32_t count;
    struct {
        ko_watch *watch;
        void *context;
    } watchers[KO_MAX_WATCHERS];
    bool delivering;
    uint64_t delivered; /* number of notes so far */
    pthread_t deliverer;
} ko_notes;

bool ko_notes_init(ko_notes *n);
/** Queue a copy. Refusals are dropped while too many notes are waiting. */
void ko_notes_put(ko_notes *n, const ko_stage_note *note);
/** Deliver all waiting notes in order, unless another thread is doing so. */
void ko_notes_deliver(ko_notes *n);
/** Free the waiting notes. */
void ko_notes_forget(ko_notes *n);
void ko_notes_free(ko_notes *n);

/* ---- controller_request.c -------------------------------------------------------------------- */
/* A text on its way to a request. */
typedef struct ko_intake {
    ko_request request;
    ko_request_source source; /* of the path: determines its permissions */
    char path[KO_REQUEST_PATH_BYTES];
    uint64_t ticket;
    uint32_t unknown_count;
    kb_text unknown;
    char reason[KO_REASON_BYTES]; /* of an automatic dump */
} ko_intake;

/** Read the configuration file if it changed. threads: holds intake_lock, or is the only one. */
void ko_request_load_file(ko_controller *c);

/* ---- controller_work.c ----------------------------------------------------------------------- */
typedef enum ko_job_kind { KO_JOB_WRITE = 0, KO_JOB_SNAPSHOT = 1, KO_JOB_DUMP = 2 } ko_job_kind;
typedef struct ko_job {
    struct ko_job *next;
    ko_controller *controller;
    pthread_t thread;
    ko_job_kind kind;
    ko_intake what;
    bool done; /* atomic: the thread is about to end */
} ko_job;

/** Start a thread for it. threads: holds the lock. */
kineto_status ko_job_start(ko_controller *c, ko_job_kind kind, const ko_intake *what,
                           kineto_error *err);
/** Wait for those that have ended; `all`: for all of them. threads: does not hold the lock. */
void ko_jobs_join(ko_controller *c, bool all);

/* ---- controller_loop.c ----------------------------------------------------------------------- */
/** What turn waits with. threads: owner. */
kineto_status ko_waiting_open(ko_controller *c, kineto_error *err);
void ko_waiting_close(ko_controller *c);

/* ---- the controller -------------------------------------------------------------------------- */
typedef struct ko_step_slot {
    uint64_t number; /* atomic: the step's, from 1; 0: being written */
    int64_t begin_ns;
} ko_step_slot;

struct ko_controller {
    /* Lock-free part: written by threads that step, see controller_step.c. */
    uint64_t steps;    /* atomic: how many began */
    bool by_iteration; /* atomic: the machine needs each step */
    ko_step_slot slots[KO_STEPS];

    /* Set once. */
    ko_controller_options options;
    char host[64];
    ko_driver driver;
    ko_listener *listeners[KO_MAX_LISTENERS];
    uint32_t listener_count;

    /* What turn waits with; the program may close it, and it is opened again then. */
    pthread_mutex_t wake_lock; /* between waking threads and the owner reopening it */
    ko_wake wake;
    int timer_fd;               /* used by the owner only, down to `blind` */
    struct timespec timer_mark; /* by which it is known */
    int64_t timer_ns;           /* what it is set to */
    uint64_t look_until_ns;     /* check often until then: it was closed recently */
    bool blind;                 /* it could not be reopened, which was logged */

    /* Texts become requests one after the other. */
    pthread_mutex_t intake_lock;
    ko_config_file file;
    ko_request base; /* what the file says */

    /* Under the lock. */
    pthread_mutex_t lock;
    ko_ondemand machine;
    int64_t wake_ns;   /* of its last answer */
    bool armed;        /* the driver records */
    int64_t ready_ns;  /* when the driver was prepared */
    bool closing;      /* no more requests */
    ko_intake current; /* of the one under way; its request is the machine's */
    const char *by;    /* origin of the cancel event that is being applied */
    uint64_t seen;     /* steps given to the machine; written under the lock, read by any thread */
    int64_t step_length_ns, last_step_ns; /* where the driver counts steps */
    uint64_t last_ticket, traces, dumps;
    uint32_t preemptions;
    bool dumping;
    ko_job *jobs;
    int64_t planned_ns; /* until when turn waits; INT64_MIN: it does not wait */

    ko_notes notes;
};

/** Now, as the machine counts. */
static inline int64_t ko_now_ns(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }

/* ---- controller_step.c: the lock and the steps ----------------------------------------------- */
void ko_controller_lock(ko_controller *c);
/** Replays steps, wakes the owner if it would wait too long, releases the lock, delivers notes. */
void ko_controller_unlock(ko_controller *c);
/** Give the machine the steps that it has not seen. threads: holds the lock. */
void ko_steps_replay(ko_controller *c);
/** The same where the driver counts steps: queries it. */
void ko_steps_poll(ko_controller *c);
/** When to query the driver's steps again; INT64_MAX: only after another event. */
int64_t ko_steps_poll_ns(const ko_controller *c, int64_t now_ns);

/* ---- controller_act.c: threads: holds the lock ----------------------------------------------- */
/** Feed the machine an event and carry out its actions. @param in  with KO_EVENT_REQUEST.
 *  @return with KO_EVENT_REQUEST, whether it was accepted; KINETO_OK else. */
kineto_status ko_apply_event(ko_controller *c, ko_ondemand_event event, int64_t now_ns,
                             const ko_intake *in, kineto_error *err);
/** Handle what is due by the clock. */
void ko_tick(ko_controller *c);
/** When that is next; INT64_MAX: never. */
int64_t ko_due_ns(const ko_controller *c);
/** Queue a note. @param text, path  may be NULL. */
void ko_post_stage(ko_controller *c, const ko_intake *of, ko_stage stage, int64_t time_ns,
                   const char *text, const char *path, uint64_t bytes);
#endif

/* The state machine of on-demand tracing: a pure function of state, event and time to a new state
 * and actions. Its host (controller.c, or a test) feeds it events, carries out the actions, and
 * calls again at `wake_ns` at the latest. Nothing here reads a clock, allocates or blocks.
 *
 *     WAIT ──request──▶ PENDING ──▶ WARMUP ──▶ COLLECT ──▶ PROCESS ──processed──▶ WAIT
 *                          └──────────────────▶ SNAPSHOT ─────┘
 *
 * Cancelling, preemption and failures lead back to WAIT, or to PROCESS where records exist. */
#ifndef KO_ONDEMAND_H
#define KO_ONDEMAND_H

#include "ondemand/request/request.h"

typedef enum ko_ondemand_state {
    KO_ONDEMAND_WAIT = 0,    /* for a request */
    KO_ONDEMAND_PENDING = 1, /* a request is accepted, its start is not due yet */
    KO_ONDEMAND_WARMUP = 2,  /* devices record, their records are discarded */
    KO_ONDEMAND_COLLECT = 3,
    KO_ONDEMAND_PROCESS = 4, /* the trace is built and written */
    KO_ONDEMAND_SNAPSHOT = 5 /* of memory */
} ko_ondemand_state;
const char *ko_ondemand_state_name(uint32_t state);

typedef enum ko_ondemand_event {
    KO_EVENT_TICK = 0,      /* time has passed */
    KO_EVENT_REQUEST = 1,   /* `request`: complete */
    KO_EVENT_STEP = 2,      /* the program began another iteration */
    KO_EVENT_CANCEL = 3,    /* by the user, or the process ends: what was collected is written */
    KO_EVENT_PREEMPT = 4,   /* a profile by the program itself begins: the request under way is
                             dropped. A switch: the host counts nested profiles */
    KO_EVENT_RELEASE = 5,   /* … and is over */
    KO_EVENT_PROCESSED = 6, /* the host has written the trace, or failed */
    KO_EVENT_FAILED = 7     /* preparing or starting failed */
} ko_ondemand_event;

enum {                    /* actions, as bits, to be carried out in this order */
       KO_ACT_REFUSE = 1, /* the new request, for `reason`; the one under way goes on */
       KO_ACT_ACCEPT = 2,
       KO_ACT_PREPARE = 4, /* get buffers and devices ready, begin to warm up */
       KO_ACT_DROP = 8,    /* end the warm-up, window or snapshot without a trace */
       KO_ACT_START =
           16,           /* the window begins: at `window_start_ns`, not when this is carried out */
       KO_ACT_STOP = 32, /* … ends: at `window_end_ns` */
       KO_ACT_WRITE = 64, /* build and write; then KO_EVENT_PROCESSED */
       KO_ACT_SNAPSHOT_START = 128,
       KO_ACT_SNAPSHOT_STOP = 256 /* … and write it; then KO_EVENT_PROCESSED */
};

typedef struct ko_ondemand {
    uint32_t state;     /* ko_ondemand_state */
    ko_request request; /* of the one under way */
    bool by_iteration;
    bool preempted;    /* by the program itself: requests are refused as busy */
    int64_t iteration; /* -1: the program has not reported a step */
    int64_t start_iteration, end_iteration; /* by_iteration */
    int64_t start_ns, end_ns;               /* of the window; by_iteration: end_ns bounds it, too */
    int64_t window_start_ns, window_end_ns; /* once begun, ended */
    int64_t last_ns;                        /* of the last call, never backwards within a window */
    int64_t behind_ns;                      /* how far the clock was set back during the window */
} ko_ondemand;

/* By time: sources are armed this long before the window, also without a warm-up. */
#define KO_ONDEMAND_ARM_NS INT64_C(100000000)
/* By iteration: after this long without a step, the program is assumed to have stopped stepping. */
#define KO_ONDEMAND_STALL_NS INT64_C(600000000000)
/* Start times further ahead are mistakes (microseconds instead of milliseconds), and would block
 * all other requests. */
#define KO_ONDEMAND_MAX_AHEAD_NS INT64_C(86400000000000)

typedef struct ko_ondemand_answer {
    uint32_t actions;
    int64_t wake_ns;  /* call again then at the latest; INT64_MAX: only with an event */
    char reason[160]; /* why it was refused, or how it deviates from the request; often empty */
} ko_ondemand_answer;

void ko_ondemand_init(ko_ondemand *m);
/** @param now_ns   ns since 1970.
 *  @param request  with KO_EVENT_REQUEST, else NULL.
 *  Rules, where libkineto does otherwise (reference: docs/how-to/on-demand.md): a start time is met
 * exactly; a request that is too late to warm up warms up less and says so, it is not refused
 * unless its start is past; by iteration the duration is a second bound, so that a program that
 * stops stepping gets its trace; a request while another one is pending or under way is refused
 * with the reason, and the one under way is unchanged; a step that crosses the end stops at that
 * step's beginning. */
ko_ondemand_answer ko_ondemand_step(ko_ondemand *m, ko_ondemand_event event, int64_t now_ns,
                                    const ko_request *request);
/** By iteration: the next iteration begins, or began, before the host was ready. Unless the request
 *  names this very iteration, or a multiple (which several processes have in common), the window
 *  moves by one iteration. To be called before that step. @return whether it moved. */
bool ko_ondemand_postpone(ko_ondemand *m);
/** Would a request be accepted now? If not, *why: "busy …", "pending …". */
bool ko_ondemand_can_accept(const ko_ondemand *m, const char **why);
#endif

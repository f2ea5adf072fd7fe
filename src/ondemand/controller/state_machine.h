/* The state machine of on-demand tracing: a pure function of state, event and time to a new state
 * and actions. Who hosts it (the control thread of a process, a collector, a test) brings events,
 * carries out actions, and calls again at the latest at `wake_ns`. Nothing here reads a clock,
 * allocates or blocks. */
#ifndef KO_ONDEMAND_H
#define KO_ONDEMAND_H

#include "ondemand/request/request.h"

typedef enum ko_ondemand_state {
    KO_ONDEMAND_WAIT = 0,    /* for a request */
    KO_ONDEMAND_PENDING = 1, /* has one that does not begin yet */
    KO_ONDEMAND_WARMUP = 2,  /* devices record, what they record is thrown away */
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
    KO_EVENT_PREEMPT = 4,   /* a profile by the program itself begins: what is under way is dropped.
                               A switch: the host counts several */
    KO_EVENT_RELEASE = 5,   /* … and is over */
    KO_EVENT_PROCESSED = 6, /* the host has written the trace, or failed */
    KO_EVENT_FAILED = 7     /* preparing or starting failed */
} ko_ondemand_event;

enum {                    /* actions, bits, to be done in this order */
       KO_ACT_REFUSE = 1, /* the request; `reason` says why. What is under way goes on */
       KO_ACT_ACCEPT = 2,
       KO_ACT_PREPARE = 4, /* get buffers and devices ready, begin to warm up */
       KO_ACT_DROP = 8,    /* end what was begun (warm-up, window, snapshot) without a trace */
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
    int64_t iteration; /* -1: the program never said step */
    int64_t start_iteration, end_iteration; /* by_iteration */
    int64_t start_ns, end_ns;               /* of the window; by_iteration: end_ns bounds it, too */
    int64_t window_start_ns, window_end_ns; /* once begun, ended */
    int64_t last_ns;                        /* of the last call, never backwards within a window */
    int64_t behind_ns;                      /* how far the clock was set back within a window */
} ko_ondemand;

/* By time, what is recorded from is got ready this long before, without a warm-up, too. */
#define KO_ONDEMAND_ARM_NS INT64_C(100000000)
/* By iteration: without a step for so long, the program has stopped stepping. */
#define KO_ONDEMAND_STALL_NS INT64_C(600000000000)
/* Start times further ahead are mistakes (microseconds for milliseconds), and would keep all others
 * out. */
#define KO_ONDEMAND_MOST_AHEAD_NS INT64_C(86400000000000)

typedef struct ko_ondemand_answer {
    uint32_t actions;
    int64_t wake_ns;  /* call again then at the latest; INT64_MAX: only with an event */
    char reason[160]; /* why not, or what is done otherwise than was asked; often empty */
} ko_ondemand_answer;

void ko_ondemand_init(ko_ondemand *m);
/** @param now_ns   ns since 1970.
 *  @param request  with KO_EVENT_REQUEST, else NULL.
 *  Rules, where libkineto does otherwise (reference: docs/on-demand.md): a start time is met
 * exactly; a request that is too late to warm up warms up less and says so, it is not refused
 * unless its start is past; by iteration the duration is a second bound, so that a program that
 * stops stepping gets its trace; a request while another one is pending or under way is refused
 * with the reason, and the one under way is unchanged; a step that crosses the end stops at that
 * step's beginning. */
ko_ondemand_answer ko_ondemand_step(ko_ondemand *m, ko_ondemand_event event, int64_t now_ns,
                                    const ko_request *request);
/** By iteration: the next iteration begins, or began, before the host was ready for it. If nobody asked
 *  for this very one (or for a multiple, which processes have in common), the window moves on by one.
 *  To be called before that step. */
bool ko_ondemand_put_off(ko_ondemand *m);
/** Would a request be taken now? Else why not: "busy …", "pending …". */
bool ko_ondemand_can_accept(const ko_ondemand *m, const char **why);
#endif

/** @file
 *  Which steps of a long run to record: some are skipped, then cycles of waiting, warming up and
 *  recording. Pure functions of the schedule and the step; whoever records follows them. In the
 *  words of torch.profiler.schedule, whose steps get the same actions from it.
 *
 *      kineto_schedule s = KINETO_SCHEDULE_INIT;
 *      s.wait = 1; s.warmup = 1; s.active = 3; s.repeat = 2;
 *
 *      step     0    1      2      3         4          5    6 …
 *             none warmup record record record+save  none …
 */
#ifndef CKINETO_SCHEDULE_H
#define CKINETO_SCHEDULE_H

#include <ckineto/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What to do in a step. */
typedef enum kineto_action {
    KINETO_ACTION_NONE = 0,
    KINETO_ACTION_WARMUP = 1, /**< collect, to have the first costs behind, but keep nothing */
    KINETO_ACTION_RECORD = 2,
    KINETO_ACTION_RECORD_AND_SAVE = 3, /**< the last of a cycle: its trace is handed over */
    KINETO_ACTION_COUNT = 4
} kineto_action;

/** Start from KINETO_SCHEDULE_INIT: every step is a cycle. Numbers of steps. In place of a
 *  schedule, NULL stands for recording all steps as one. */
typedef struct kineto_schedule {
    size_t size;                   /**< sizeof(kineto_schedule) */
    uint64_t skip_first;           /**< before the first cycle */
    uint64_t wait, warmup, active; /**< make up a cycle; active > 0 */
    uint64_t repeat;               /**< cycles; 0: no end */
    /** Not 0: the first cycle does not wait. Then too `repeat` counts steps from where that wait
     *  would have begun, as PyTorch does. */
    uint64_t skip_first_wait;
} kineto_schedule;
#define KINETO_SCHEDULE_INIT                                                                       \
    {                                                                                              \
        sizeof(kineto_schedule), 0, 0, 0, 1, 0, 0                                                  \
    }

/** Is the schedule possible? *warning (may be NULL) receives a sentence about what is possible but
 *  hardly meant, static storage, or NULL.
 *  @return KINETO_E_ARGUMENT: nothing would be recorded, or a cycle is longer than a number holds.
 *  threads: any. */
KINETO_API kineto_status kineto_schedule_check(const kineto_schedule *schedule,
                                               const char **warning, kineto_error *err);

/** What to do in a step, counted from 0. NONE for a schedule that is not possible. threads: hot. */
KINETO_API kineto_action kineto_schedule_action(const kineto_schedule *schedule, uint64_t step);

/** What is to be called between two steps. */
typedef enum kineto_call {
    KINETO_CALL_PREPARE = 0, /**< get everything ready to record */
    KINETO_CALL_START = 1,   /**< from here on it is recorded */
    KINETO_CALL_STOP = 2,    /**< until here; what was recorded is there if READY follows */
    KINETO_CALL_READY = 3,   /**< hand the trace over */
    /** The schedule is wrong, see kineto_call_warning. What an incomplete cycle recorded is lost.
     */
    KINETO_CALL_WARN_WARMUP_THEN_NONE = 4,
    KINETO_CALL_WARN_RECORD_THEN_NONE = 5,
    KINETO_CALL_WARN_RECORD_THEN_WARMUP = 6,
    KINETO_CALL_COUNT = 7
} kineto_call;

/** Stands for the next action where there is none: recording ends. */
#define KINETO_ACTION_END KINETO_ACTION_COUNT
/** Most calls of one transition. */
#define KINETO_TRANSITION_CALLS 4

/** What to call, in order, when a step with action `previous` is over and one with action `next`
 *  begins, or the run ends (KINETO_ACTION_END). Before the first step the action is NONE.
 *  @return how many calls there are; 0 also for actions that are none. threads: hot. */
KINETO_API uint32_t kineto_schedule_transition(kineto_action previous, kineto_action next,
                                               kineto_call calls[KINETO_TRANSITION_CALLS]);
/** The sentence of a call that warns, NULL of others. Static storage. threads: hot. */
KINETO_API const char *kineto_call_warning(kineto_call call);

#ifdef __cplusplus
}
#endif
#endif

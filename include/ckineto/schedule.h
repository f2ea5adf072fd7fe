/** @file
 *  Which steps of a long run to record: some are skipped, then cycles of waiting, warming up and recording follow.
 *  Pure functions of the schedule and the step number, with the same results as torch.profiler.schedule.
 *
 *      kineto_schedule s;
 *      kineto_schedule_init(&s);
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
    KINETO_ACTION_WARMUP = 1, /**< collect, so that first-time costs are paid, and discard */
    KINETO_ACTION_RECORD = 2,
    KINETO_ACTION_RECORD_AND_SAVE = 3, /**< the last step of a cycle: its trace is delivered */
    KINETO_ACTION_COUNT = 4
} kineto_action;

/** Numbers of steps. Start from kineto_schedule_init: every step is a cycle. Where a schedule is expected, NULL
 *  records all steps as one cycle. */
typedef struct kineto_schedule {
    size_t size;                   /**< sizeof(kineto_schedule) */
    uint64_t skip_first;           /**< before the first cycle */
    uint64_t wait, warmup, active; /**< make up a cycle; active > 0 */
    uint64_t repeat;               /**< cycles; 0: no end */
    /** Not 0: the first cycle does not wait. Then too `repeat` counts steps from where that wait
     *  would have begun, as PyTorch does. */
    uint64_t skip_first_wait;
} kineto_schedule;

/** Every step is a cycle of its own: active is 1, the rest zero. threads: hot. */
static inline void kineto_schedule_init(kineto_schedule *out)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->active = 1;
}

/** Validate a schedule.
 *  @param schedule  NULL: always record.
 *  @param warning   receives a sentence about a valid but unusual schedule (static storage), or NULL. May be NULL.
 *  @return KINETO_E_ARGUMENT: no step would be recorded, or the length of a cycle overflows.
 *  threads: any. */
KINETO_API kineto_status kineto_schedule_check(const kineto_schedule *schedule,
                                               const char **warning, kineto_error *err);

/** The action of a step, counted from 0. NONE for an invalid schedule.
 *  @param schedule  NULL: always record. threads: hot. */
KINETO_API kineto_action kineto_schedule_action(const kineto_schedule *schedule, uint64_t step);

/** What a profiler does between two steps. */
typedef enum kineto_call {
    KINETO_CALL_PREPARE = 0, /**< create the profiler */
    KINETO_CALL_START = 1,   /**< start recording */
    KINETO_CALL_STOP = 2,    /**< stop recording; the trace is kept if READY follows */
    KINETO_CALL_READY = 3,   /**< deliver the trace */
    /** Invalid order of actions, see kineto_call_warning. The recording of an incomplete cycle is lost. */
    KINETO_CALL_WARN_WARMUP_THEN_NONE = 4,
    KINETO_CALL_WARN_RECORD_THEN_NONE = 5,
    KINETO_CALL_WARN_RECORD_THEN_WARMUP = 6,
    KINETO_CALL_COUNT = 7
} kineto_call;

/** As the next action: the run ends. */
#define KINETO_ACTION_END KINETO_ACTION_COUNT
/** Maximum number of calls of one transition. */
#define KINETO_TRANSITION_CALLS 4

/** The calls, in order, between a step with action `previous` and a step with action `next`, or the end of the
 *  run (KINETO_ACTION_END). Before the first step the action is NONE.
 *  @return the number of calls; 0 also for unknown actions. threads: hot. */
KINETO_API uint32_t kineto_schedule_transition(kineto_action previous, kineto_action next,
                                               kineto_call calls[KINETO_TRANSITION_CALLS]);
/** The message of a KINETO_CALL_WARN_…, NULL for other calls. Static storage. threads: hot. */
KINETO_API const char *kineto_call_warning(kineto_call call);

#ifdef __cplusplus
}
#endif

#define CKINETO_SCHEDULE_DECLARED
#include <ckineto/deprecated.h>
#endif

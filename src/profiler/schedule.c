/* Schedules: which steps to record, and the calls to make between two of them. The arithmetic and
 * the table of transitions are those of torch.profiler.schedule and torch.profiler.profile; tests
 * compare them. Pure functions without state. */
#include "base/base.h"

#include <ckineto/schedule.h>

/* A schedule in this version's form; the caller's may be of an earlier or later version. */
static kineto_status read_schedule(const kineto_schedule *schedule, kineto_schedule *s,
                                   kineto_error *err)
{
    kineto_schedule_init(s);
    return kb_options_read(s, sizeof *s, schedule, "schedule, see kineto_schedule_init", err);
}

/* Steps of one cycle. False: more than a number holds. */
static bool cycle_length(const kineto_schedule *s, uint64_t *length)
{
    return !__builtin_add_overflow(s->wait, s->warmup, length) &&
           !__builtin_add_overflow(*length, s->active, length);
}

kineto_status kineto_schedule_check(const kineto_schedule *schedule, const char **warning,
                                    kineto_error *err)
{
    uint64_t length;
    kineto_schedule s;
    if (warning)
        *warning = NULL;
    if (!schedule)
        return KINETO_OK;
    kineto_status status = read_schedule(schedule, &s, err);
    if (status)
        return status;
    if (schedule->size < offsetof(kineto_schedule, repeat))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "schedule: its size is not set; begin with kineto_schedule_init");
    if (s.active == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "schedule: active is 0; nothing would be recorded");
    if (!cycle_length(&s, &length))
        return kb_fail(err, KINETO_E_ARGUMENT, "schedule: wait + warmup + active overflows");
    if (s.warmup == 0 && warning)
        *warning = "the schedule has no warm-up: the first steps of each cycle also show what "
                   "starting to record costs";
    return KINETO_OK;
}

kineto_action kineto_schedule_action(const kineto_schedule *schedule, uint64_t step)
{
    uint64_t length;
    kineto_schedule s;
    if (!schedule)
        return KINETO_ACTION_RECORD;
    if (kineto_schedule_check(schedule, NULL, NULL) || read_schedule(schedule, &s, NULL))
        return KINETO_ACTION_NONE;
    if (!cycle_length(&s, &length) || step < s.skip_first)
        return KINETO_ACTION_NONE;
    step -= s.skip_first;
    /* Cycle and position of step + wait, without computing that sum: it may overflow. */
    uint64_t shift = s.skip_first_wait ? s.wait : 0, cycle = step / length, at = step % length;
    if (at >= length - shift) {
        at -= length - shift;
        cycle++;
    } else {
        at += shift;
    }
    if (s.repeat > 0 && cycle >= s.repeat)
        return KINETO_ACTION_NONE;
    if (at < s.wait)
        return KINETO_ACTION_NONE;
    if (at - s.wait < s.warmup)
        return KINETO_ACTION_WARMUP;
    return at < length - 1 ? KINETO_ACTION_RECORD : KINETO_ACTION_RECORD_AND_SAVE;
}

/* ---- transitions ----------------------------------------------------------------------------- */

/* Entries are a call's number plus 1, so that 0 ends a row. */
#define PREPARE (KINETO_CALL_PREPARE + 1)
#define START   (KINETO_CALL_START + 1)
#define STOP    (KINETO_CALL_STOP + 1)
#define READY   (KINETO_CALL_READY + 1)
#define WARN(x) (KINETO_CALL_WARN_##x + 1)

/* Indexed by the action of the step that ends and of the one that begins: none, warm-up, record,
 * record and save, and the end of the profile. A pair without an entry needs no call. */
typedef uint8_t call_row[KINETO_TRANSITION_CALLS];
enum { N = KINETO_ACTION_NONE, W, R, S, END };
static const call_row transitions[KINETO_ACTION_COUNT][KINETO_ACTION_COUNT + 1] = {
    [N] = {[W] = {PREPARE}, [R] = {PREPARE, START}, [S] = {PREPARE, START}},
    [W] = {[N] = {WARN(WARMUP_THEN_NONE), START, STOP},
           [R] = {START},
           [S] = {START},
           [END] = {START, STOP}},
    [R] = {[N] = {WARN(RECORD_THEN_NONE), STOP},
           [W] = {WARN(RECORD_THEN_WARMUP), STOP},
           [END] = {STOP, READY}},
    [S] = {[N] = {STOP, READY},
           [W] = {STOP, READY, PREPARE},
           [R] = {STOP, READY, PREPARE, START},
           [S] = {STOP, READY, PREPARE, START},
           [END] = {STOP, READY}},
};

uint32_t kineto_schedule_transition(kineto_action previous, kineto_action next,
                                    kineto_call calls[KINETO_TRANSITION_CALLS])
{
    uint32_t n = 0;
    if (!calls || (unsigned)previous >= KINETO_ACTION_COUNT || (unsigned)next > KINETO_ACTION_END)
        return 0;
    /* The calls of one transition, terminated by 0 unless it is full. */
    const uint8_t *row = transitions[previous][next];
    while (n < KINETO_TRANSITION_CALLS && row[n]) {
        calls[n] = (kineto_call)(row[n] - 1);
        n++;
    }
    return n;
}

const char *kineto_call_warning(kineto_call call)
{
    switch (call) {
    case KINETO_CALL_WARN_WARMUP_THEN_NONE:
        return "Incorrect schedule: WARMUP followed by NONE";
    case KINETO_CALL_WARN_RECORD_THEN_NONE:
        return "Incorrect schedule: RECORD followed by NONE";
    case KINETO_CALL_WARN_RECORD_THEN_WARMUP:
        return "Incorrect schedule: RECORD followed by WARMUP";
    default:
        return NULL;
    }
}

/* The cost limit of a recording (option --budget, docs/reference/self-cost.md): a controller with
 * levels, each of which drops more events. The level goes up while the recording costs more than
 * the limit, and down when the remaining allowance covers the cost of trying the lower level. Pure
 * functions of their arguments; collector.c measures the cost and publishes the level to writers.
 */
#include "session/self_cost.h"

#define MIN_CPU     (2 * KB_MILLISECOND_NS) /* of the programs: below that the share is noise */
#define NEWEST      0.5               /* weight of the last measurement in the moving average */
#define MUCH        8.0               /* times the limit: go up two levels at once */
#define TOO_MUCH    32.0              /* times the limit: go up four levels */
#define WORTH       0.25 /* share of the limit that dropping events must be able to save */
#define ROOM        0.5  /* go down only below this share of the limit */
#define FIRST_HOLD  KB_SECOND_NS
#define MAX_HOLD    (64 * KB_SECOND_NS)
#define PROBE_NS    (150 * KB_MILLISECOND_NS) /* time it takes to detect that a level is too low */
#define BUSY_BYTES  (4 * KF_CHUNK_BYTES)

#define K(kind) KINETO_KIND_BIT(KINETO_KIND_##kind)
#define CALLS   (K(RUNTIME) | K(DRIVER) | K(MEMORY) | K(PYTHON_FUNCTION))
#define HOST    (CALLS | K(CPU_OP) | K(CPU_INSTANT_EVENT) | K(COUNTER))
#define STACKS  (KF_WANT_STACK | KF_WANT_COUNTERS | KF_WANT_BOTH)
#define DETAILS (STACKS | KF_WANT_INPUTS | KF_WANT_VALUES | KF_WANT_IDS | KF_WANT_TEXTS)

const ks_level ks_levels[KS_LEVELS] = {
    {"nothing", 0, 0, 0, 0},
    {"native call stacks and hardware counters of operators", 0, STACKS, 0, 0},
    {"inputs, values, ids and texts of operators", 0, DETAILS, 0, 0},
    {"frequent operators and functions that are very short", 0, DETAILS,
     K(CPU_OP) | K(PYTHON_FUNCTION) | K(RUNTIME) | K(DRIVER), 0.25},
    {"calls of runtimes and drivers, memory, Python functions; frequent short operators", CALLS,
     DETAILS, K(CPU_OP), 4},
    {"operators, instants and counters", HOST, DETAILS, 0, 0},
};

/* ---- periods --------------------------------------------------------------------------------- */

/* Ends the current period and begins one for the new level. When the table is full, the two oldest
 * periods are merged. */
static void add_period(ks_cost_limit *b, uint64_t now_ns)
{
    if (b->period_count && b->periods[b->period_count - 1].until_ns == 0)
        b->periods[b->period_count - 1].until_ns = now_ns;
    if (b->level == 0)
        return;
    if (b->period_count == KS_PERIODS) {
        b->periods[0].until_ns = b->periods[1].until_ns;
        b->periods[0].level = KB_MAX(b->periods[0].level, b->periods[1].level);
        memmove(&b->periods[1], &b->periods[2], (KS_PERIODS - 2) * sizeof *b->periods);
        b->period_count--;
    }
    KB_ASSERT(b->period_count < KS_PERIODS);
    b->periods[b->period_count++] = (ks_period){b->level, now_ns, 0};
}

static void set_level(ks_cost_limit *b, uint32_t level, uint64_t now_ns)
{
    KB_ASSERT(level < KS_LEVELS && level != b->level && now_ns >= b->since_ns);
    b->level = level;
    b->since_ns = now_ns;
    add_period(b, now_ns);
}

void ks_cost_limit_end(ks_cost_limit *b, uint64_t now_ns)
{
    if (b->period_count && b->periods[b->period_count - 1].until_ns == 0)
        b->periods[b->period_count - 1].until_ns = now_ns;
}

/* ---- evaluating ------------------------------------------------------------------------------ */

/* What was measured since the last evaluation. */
typedef struct interval {
    double program_ns, own_ns;    /* CPU time of the programs; without the recorder's part in it */
    double cost_ns, droppable_ns; /* of recording; the part that dropping events can reduce */
    double elapsed_ns;
} interval;

/* Droppable: records in the programs, and the recorder while it copies much. */
static interval measure_interval(const ks_cost_limit *b, uint64_t now_ns, const ks_cost *c,
                                 uint64_t bytes)
{
    double recorder = (double)(c->recorder_ns - b->last.recorder_ns);
    double hooks = (double)(ks_cost_hooks(c) - ks_cost_hooks(&b->last));
    double fixed = (double)(c->fixed_ns - b->last.fixed_ns);
    double program = (double)c->program_ns - (double)b->last.program_ns;
    double own = (double)ks_cost_own(c) - (double)ks_cost_own(&b->last);
    bool busy = bytes - b->last_bytes >= BUSY_BYTES;
    return (interval){.program_ns = program,
                      .own_ns = KB_MAX(own, KB_MAX(program / KS_MIN_OWN_SHARE, 1.0)),
                      .cost_ns = hooks + recorder,
                      .droppable_ns = hooks - fixed + (busy ? recorder : 0),
                      .elapsed_ns = (double)(now_ns - b->last_ns)};
}

static uint64_t tally_events(const ks_tally *t)
{
    return t->records[KF_BEGIN] + t->records[KF_INSTANT] + t->records[KF_COUNTER] +
           t->records[KF_MEMORY] + t->throttled;
}

/* Estimates the events of kinds whose gate is closed, which no program counts: from their rate
 * before. */
static void count_closed(ks_cost_limit *b, const interval *l, double events)
{
    if (ks_levels[b->level].kinds == 0) {
        b->events_per_ns = (b->events_per_ns + events / l->own_ns) / 2;
        return;
    }
    b->closed_ns += (uint64_t)l->elapsed_ns;
    b->left_out_events += KB_MAX(b->events_per_ns * l->own_ns - events, 0.0);
}

/* Two or four levels at once if the limit is exceeded by far. @return whether it changed. */
static bool raise_level(ks_cost_limit *b, uint64_t now_ns, double droppable_ppm)
{
    if (b->share_ppm <= b->ppm || droppable_ppm < b->ppm * WORTH || b->level + 1 == KS_LEVELS)
        return false;
    double times = b->share_ppm / b->ppm;
    uint32_t level = b->level + (times > TOO_MUCH ? 4 : times > MUCH ? 2 : 1);
    bool was_tried = b->last_down_ns && now_ns - b->last_down_ns < 2 * KB_SECOND_NS;
    if (was_tried)
        b->hold_ns = KB_MIN(2 * b->hold_ns, MAX_HOLD);
    b->last_down_ns = 0;
    level = KB_MIN(level, KS_LEVELS - 1);
    for (uint32_t i = b->level + 1; i < level; i++) /* skipped levels: assume the current cost */
        b->share_at[i] = KB_MAX(b->share_at[i], b->share_ppm);
    set_level(b, level, now_ns);
    return true;
}

/* The remaining allowance must cover the lower level, at the cost that it had last time, for
 * PROBE_NS. */
static bool lower_level(ks_cost_limit *b, uint64_t now_ns, const ks_cost *cost, const interval *l)
{
    if (b->level == 0 || now_ns - b->since_ns < b->hold_ns || b->share_ppm > b->ppm * ROOM)
        return false;
    double left_ns = b->ppm * 1e-6 * (double)ks_cost_own(cost) -
                     (double)(ks_cost_hooks(cost) + cost->recorder_ns);
    double own_rate = l->own_ns / l->elapsed_ns;
    double probe_ns = b->share_at[b->level - 1] * 1e-6 * own_rate * (double)PROBE_NS;
    if (left_ns < probe_ns)
        return false;
    b->last_down_ns = now_ns;
    set_level(b, b->level - 1, now_ns);
    return true;
}

bool ks_cost_limit_update(ks_cost_limit *b, uint64_t now_ns, const ks_cost *cost, const ks_tally *tally)
{
    interval l = measure_interval(b, now_ns, cost, tally->bytes);
    if (l.program_ns < (double)MIN_CPU || now_ns <= b->last_ns)
        return false;
    if (!b->hold_ns)
        b->hold_ns = FIRST_HOLD;
    double ppm = 1e6 * l.cost_ns / l.own_ns;
    b->share_ppm = b->share_ppm * (1 - NEWEST) + ppm * NEWEST;
    b->share_at[b->level] = b->share_ppm;
    count_closed(b, &l, (double)(tally_events(tally) - b->last_events));
    bool changed =
        raise_level(b, now_ns, 1e6 * l.droppable_ns / l.own_ns) || lower_level(b, now_ns, cost, &l);
    if (changed) /* chunks under way still have the old cost */
        b->share_ppm = KB_MIN(b->share_ppm, b->ppm);
    b->last = *cost;
    b->last_ns = now_ns;
    b->last_bytes = tally->bytes;
    b->last_events = tally_events(tally);
    return changed;
}

/* Ranges shorter than (cost of a range / limit) exceed the limit by themselves; `shortness` scales
 * that threshold by level. */
void ks_cost_limit_throttle(const ks_cost_limit *b, uint32_t pair, kf_throttle *out)
{
    const ks_level *level = &ks_levels[b->level];
    double ticks = level->shortness * (double)pair / KF_UNIT_PARTS * 1e6 / b->ppm;
    *out = (kf_throttle){.kinds = level->kinds,
                         .wants = level->wants,
                         .mute = level->mute,
                         .short_ticks = ticks < (double)UINT32_MAX ? (uint32_t)ticks : UINT32_MAX,
                         .epoch = (uint32_t)(b->since_ns / KB_MILLISECOND_NS)};
}

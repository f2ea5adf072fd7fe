/* The cost of recording to the program. What one record takes is measured once, when a process
 * attaches; work that is slow enough is timed each time (kr_cost_add). The collector counts records
 * and combines both (session/cost_account.c, docs/reference/self-cost.md). */
#include "record/encode.h"

#define ROUNDS 7u
#define EACH   16u /* records of a round: all of it takes some microseconds */
/* Among a program's own work, and into memory that another process used last, a record takes half
 * as much again as in this loop: see docs/reference/self-cost.md. */
#define COLD_PART 2u

KINETO_SITE(plain_site, KINETO_KIND_CPU_OP, "");
KINETO_SITE_ARGS(args_site, KINETO_KIND_CPU_OP, "", {"a", KINETO_ARG_INT}, {"b", KINETO_ARG_INT},
                 {"c", KINETO_ARG_INT}, {"d", KINETO_ARG_INT});
#define ARGS 4u

static void run_pairs(void)
{
    for (uint32_t i = 0; i < EACH; i++)
        kineto_record_end(kineto_record_begin(&plain_site));
}

static void run_pairs_with_args(void)
{
    const kineto_value values[ARGS] = {{.i = 1}, {.i = 2}, {.i = 3}, {.i = 4}};
    for (uint32_t i = 0; i < EACH; i++)
        kineto_record_end(kineto_record_begin_args(&args_site, values));
}

static void run_singles(void)
{
    for (uint32_t i = 0; i < EACH; i++)
        kineto_record_instant(&plain_site, NULL);
}

static int compare_durations(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return KB_COMPARE(*a, *b);
}

/* The cost of one call of what `run` does EACH times, in parts of a tick (KF_UNIT_PARTS). The
 * median of some rounds, the first of which meets cold caches. `words` is room for one round. */
static uint32_t measure_unit_cost(kr_cursor *c, void (*run)(void), uint64_t *words, uint32_t count)
{
    uint64_t took[ROUNDS];
    for (uint32_t i = 0; i < ROUNDS; i++) {
        c->at = words;
        c->limit = words + count;
        uint64_t begun = kr_ticks(c);
        run();
        took[i] = kr_ticks(c) - begun;
    }
    qsort(took, ROUNDS, sizeof *took, compare_durations);
    uint64_t parts = took[ROUNDS / 2] * KF_UNIT_PARTS / EACH;
    return (uint32_t)KB_MIN(parts + parts / COLD_PART, (uint64_t)UINT32_MAX);
}

/* A throttled range costs the call and the lookup, but no clock reading: a fifth of a range. */
#define MUTED_PART 5u

/* Runs the calls that programs make, on a cursor of its own that writes into a local array. The
 * gate is still closed, so that signal handlers do not record meanwhile. */
void kr_cost_calibrate(kf_control *control)
{
    uint64_t words[EACH * (3 + ARGS) + 8];
    KB_ASSERT(!kr_pool_get());
    kr_cursor *mine = kr_me, c;
    memset(&c, 0, sizeof c);
    c.in_use = 1;
    c.chunk = KR_NO_CHUNK;
    c.base = words;
    c.ticks_clock = kb_ticks_clock();
    c.tsc = c.ticks_clock != KB_TICKS_MONOTONIC_RAW;
    plain_site.id = args_site.id = 1; /* never looked up */
    args_site.flags = KR_SITE_FIXED;
    c.epoch = kr_epoch_of(kr_ticks(&c));
    kr_me = &c;
    uint32_t pair = measure_unit_cost(&c, run_pairs, words, KB_COUNT(words));
    uint32_t args = measure_unit_cost(&c, run_pairs_with_args, words, KB_COUNT(words));
    uint32_t single = measure_unit_cost(&c, run_singles, words, KB_COUNT(words));
    kr_me = mine;
    kb_store_relaxed(&control->unit_costs[KF_UNIT_PAIR], pair);
    kb_store_relaxed(&control->unit_costs[KF_UNIT_SINGLE], single);
    kb_store_relaxed(&control->unit_costs[KF_UNIT_WORD], args > pair ? (args - pair) / ARGS : 0);
    kb_store_relaxed(&control->unit_costs[KF_UNIT_MUTED], pair / MUTED_PART);
}

void kr_cost_add(kf_cost what, uint64_t ticks, uint64_t calls)
{
    const kf_pool *pool = kr_pool_get();
    if (!pool)
        return;
    kb_add_relaxed(&pool->control->cost_ticks[what], ticks);
    kb_add_relaxed(&pool->control->cost_calls[what], calls);
}

uint64_t kineto_overhead_begin(void)
{
    return kineto_enabled_any() ? kb_ticks(kb_ticks_clock()) : 0;
}

void kineto_overhead_end(uint64_t begun)
{
    if (begun)
        kr_cost_add(KF_COST_SOURCE, kb_ticks(kb_ticks_clock()) - begun, 1);
}

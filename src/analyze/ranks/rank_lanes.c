/* Runs one half of some work on a thread of its own.
 *
 * A thread is started for each call and joined at its end: with some thousand rows this is a small part of the work, and
 * no thread is left that a fork, or the end of the program, would have to stop. The halves share no data that either of
 * them writes, so that nothing is locked, and results are the same as those of one thread. */
#include "analyze/ranks/rank_lanes.h"

#include <sys/mman.h>

#define MIN_ROWS 2048u /* starting a thread takes as long as some of these */

/* What the second thread does; lives on the stack of the caller, which waits for it. */
typedef struct lane_part {
    ka_lane_work work;
    void *context;
    uint32_t first, end;
} lane_part;

static void *run_second_lane(void *argument)
{
    const lane_part *p = argument;
    p->work(p->context, 1, p->first, p->end);
    return NULL;
}

void ka_run_lanes(ka_lane_work work, void *context, uint32_t count, size_t rows)
{
    lane_part second = {work, context, count / KA_LANES, count};
    pthread_t thread;
    bool is_split = count >= KA_LANES && rows >= MIN_ROWS && kb_os_cpus() > 1 &&
                    kb_thread_start(&thread, run_second_lane, &second) == 0;
    work(context, 0, 0, is_split ? second.first : count);
    if (is_split)
        pthread_join(thread, NULL);
}

typedef struct two_sides {
    ka_side_work work[KA_LANES];
    void *context;
} two_sides;

/* A ka_lane_work: one of the sides, or one after the other. */
static void run_sides(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    const two_sides *s = context;
    (void)lane;
    for (uint32_t i = first; i < end; i++)
        s->work[i](s->context);
}

void ka_run_both(ka_side_work first, ka_side_work second, void *context, size_t rows)
{
    two_sides s = {.work = {first, second}, .context = context};
    ka_run_lanes(run_sides, &s, KA_LANES, rows);
}

void *ka_allocate_large(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    if (bytes < 4 * page)
        return malloc(bytes);
    void *memory = aligned_alloc(page, (bytes + page - 1) / page * page);
    if (memory)
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

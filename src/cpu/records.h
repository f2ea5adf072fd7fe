/* Records about the threads of watched programs: what the sources of this room write into the pool.
 * One thread uses them. */
#ifndef KU_RECORDS_H
#define KU_RECORDS_H

#include "cpu/watched.h"

typedef struct ku_records {
    ku_watched watched;
    ku_writer writer;
    uint64_t kinds; /* wanted of THREAD_STATE and CPU_SAMPLE */
} ku_records;

/** Does anybody record this kind now? */
bool ku_is_wanted(const ku_records *r, kineto_kind kind);
/** The thread has had a CPU since t->on_ticks; it has none any more. Without on_ticks: nothing.
 *  @param flags  KF_RUN_… */
void ku_write_run(ku_records *r, ku_thread *t, uint64_t end_ticks, uint32_t flags);
/** The thread has ended, or is not watched any more. @param flags  KF_LIFE_… */
void ku_write_life(ku_records *r, ku_thread *t, uint64_t end_ticks, uint32_t flags);
/** The thread executes another program: what it did before is of the old one, and ends here. Before ku_watched_exec. */
void ku_write_exec(ku_records *r, ku_thread *t, uint64_t ticks);
/* A stack to be written: the first `kernel` of its addresses are of the kernel. */
typedef struct ku_stack {
    const uint64_t *frames;
    uint32_t count, kernel;
    uint32_t cpu, flags; /* KF_SAMPLE_… */
    uint64_t cpu_ns;
} ku_stack;

/** False: there is no room, which is counted. */
bool ku_write_stack(ku_records *r, ku_thread *t, uint64_t ticks, const ku_stack *stack);
/** What all threads have done until then, although it goes on: for readers that do not wait for its end. */
void ku_write_progress(ku_records *r, uint64_t until_ticks);
/** All threads that have not ended: what they do is open. */
void ku_write_open_threads(ku_records *r);
#endif

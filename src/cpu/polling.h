/* Thread states where the kernel's events are not allowed (events.h): from the counters that /proc
 * has of each thread, read again and again. */
#ifndef KU_POLLING_H
#define KU_POLLING_H

#include "cpu/records.h"

typedef struct ku_polling {
    ku_records *records;
    uint32_t pid;     /* the program; what it starts is polled, too */
    bool at_exec;     /* it is a process of this one that has not executed the program yet */
    uint32_t passes;
} ku_polling;

/** Can threads be polled here? */
bool ku_polling_is_possible(void);
/** Read all threads, and write what they did since the last pass.
 *  @return nanoseconds until the next pass: KU_POLLING_MS, more where there are many threads. */
uint64_t ku_polling_pass(ku_polling *p);
/** The thread of a sample, which is read at once if no pass has met it. NULL: out of memory.
 *  @param ticks  of the sample: one that has ended meanwhile was there at that time. */
ku_thread *ku_polling_meet(ku_polling *p, uint32_t pid, uint32_t tid, uint64_t ticks);
#endif

/* Calls in which a thread was blocked, thread by thread, and what they waited for in words: rows of kind
 * blocking_call, which --waits records, waits of OpenMP, calls of MPI, and collectives. */
#ifndef KA_BLOCKING_CALLS_H
#define KA_BLOCKING_CALLS_H

#include "trace/trace.h"

typedef struct ka_blocking_call {
    int64_t start_ns, end_ns;
    int64_t thread_id;
    kineto_row row;
    uint32_t process;
} ka_blocking_call;

typedef struct ka_blocking_calls {
    KB_VEC(ka_blocking_call) list; /* by (process, thread_id, start) */
} ka_blocking_calls;

/** Fills *out, to be freed in any case. False: out of memory. */
bool ka_blocking_calls_make(const kineto_trace *trace, ka_blocking_calls *out);
void ka_blocking_calls_free(ka_blocking_calls *calls);
/** Index of the first call of a thread that ends after a moment; that of another thread, or past the end:
 *  there is none. */
size_t ka_blocking_call_after(const ka_blocking_calls *calls, uint32_t process, int64_t thread_id,
                              int64_t ns);
static inline bool ka_blocking_call_is_of(const ka_blocking_calls *calls, size_t i, uint32_t process,
                                          int64_t thread_id)
{
    return i < calls->list.count && calls->list.data[i].process == process &&
           calls->list.data[i].thread_id == thread_id;
}
/** Which thread held the lock that the call waited for; -1: it waits for none, or that is not known. */
int64_t ka_blocking_call_holder(const kineto_trace *trace, kineto_row row);
/** The variable at an address, which the source writes into the header for each process; "": it has no name, as on the
 *  heap. */
kineto_string ka_lock_name(const kineto_trace *trace, uint32_t process, uint64_t address);
/** "waiting for lock 0x5581 held by thread 42", "blocked in fsync". */
kb_text ka_blocking_call_words(const kineto_trace *trace, kineto_row row);
/** "blocked in fsync"; "blocked" without a function. */
kb_text ka_blocked_words(kineto_string function);
#endif

/* What a thread did in a part of time, in words: it was running, waited for a CPU, or was blocked, in which
 * function or for which lock. By its states and its recorded blocking calls. */
#ifndef KA_THREAD_TIME_H
#define KA_THREAD_TIME_H

#include "analyze/dataset/blocking_calls.h"
#include "analyze/dataset/watched_threads.h"

/** The words for time in which neither a state nor a blocking call was recorded. */
#define KA_STATE_UNKNOWN "(not recorded)"

/** Called for each part, in the order of time. */
typedef void ka_state_use(void *context, kineto_string words, int64_t ns);
/** Parts of [start_ns, end_ns), which add up to all of it. Linear in the states and calls in it. */
void ka_thread_time(const ka_watched *w, const ka_blocking_calls *calls, uint32_t process, int64_t thread_id,
                    int64_t start_ns, int64_t end_ns, ka_state_use *use, void *context);
#endif

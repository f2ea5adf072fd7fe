/* What rules about watched threads share: the threads that compute, and how many of them could run at
 * once. These rules are for programs without devices; in the others the devices set the pace. */
#ifndef KA_FIND_THREADS_H
#define KA_FIND_THREADS_H

#include "analyze/findings/finding.h"

/** A thread is active if it runs, or waits for a CPU, in this much of its life. Threads that only wait for
 *  work change no finding. */
#define KA_ACTIVE_PERCENT 10.0
#define KA_LASTING_PERCENT 10.0
/** Programs that used less CPU time have no findings about threads. */
#define KA_MIN_CPU_NS INT64_C(100000000)

typedef struct ka_active {
    const ka_watched *w;
    uint8_t *threads; /* by index of threads: is it active? */
    uint32_t count;
    uint32_t cpus;    /* that active threads ran on: at least so many are there; 0: not known, of counters */
    bool is_counted;  /* the states come from counters, so that they do not begin and end when they did */
    int64_t whole_ns; /* of all watched threads, the first start to the last end */
    ka_load load;     /* of active threads */
} ka_active;
/** Fills *a, to be freed in any case. False: the rule finds nothing in this trace, or out of memory.
 *  @param marked  see ka_load_make; may be NULL.
 *  @param also    by index of threads: these count as active, however little they run, and so does a program
 *                 that uses little CPU time; NULL: none.
 *  @param lasting only threads that lived for KA_LASTING_PERCENT of the time, or are of the process with the most
 *                 CPU time: not those of shells and launchers that end at once. */
bool ka_active_make(ka_finder *f, const uint8_t *marked, const uint8_t *also, bool lasting, ka_active *a);
void ka_active_free(ka_active *a);
/** Watched threads of a program without devices; NULL: none, or out of memory. */
const ka_watched *ka_watched_of(ka_finder *f);
static inline int64_t ka_watched_span_ns(const ka_watched *w)
{
    return kb_length_ns(w->start_ns, w->end_ns);
}
/** Open a finding whose savings are a part of the lives of all threads. */
ka_found *ka_open_thread_finding(ka_finder *f, const ka_watched *w, int64_t saved_ns,
                                 double confidence, const char *subject);
/** Time within which a state function of threads is true: how long, and what would be saved. */
static inline int64_t ka_load_length_ns(const ka_load *load, size_t i)
{
    return i + 1 < load->points.count
               ? kb_length_ns(load->points.data[i].ns, load->points.data[i + 1].ns)
               : 0;
}
#endif

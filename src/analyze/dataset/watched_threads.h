/* Threads that a recorder watched from outside (rows of kinds thread_state and cpu_sample): their
 * states in the order of time, and the functions that their samples were in. The one place where
 * these rows are added up: analyses, findings and the summary of `record` and `info` read it. */
#ifndef KA_WATCHED_THREADS_H
#define KA_WATCHED_THREADS_H

#include "trace/trace.h"

/** States of a thread; the names of the rows. */
#define KA_STATES(X)                                                                               \
    X(RUNNING, "running")                                                                          \
    X(WAITING, "waiting for a CPU")                                                                \
    X(BLOCKED, "blocked")
#define X(name, text) KA_STATE_##name,
typedef enum ka_state_kind { KA_STATES(X) KA_STATE_COUNT } ka_state_kind;
#undef X
const char *ka_state_name(ka_state_kind state);

/** A row of kind thread_state. */
typedef struct ka_state {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t in; /* blocked: id in ka_watched.texts of the function; 0: not recorded */
    int32_t cpu; /* running; -1: not recorded */
    uint8_t state;
} ka_state;

typedef struct ka_watched_thread {
    uint32_t process, track; /* of its states; without any, of its samples */
    int64_t id;              /* -1: not known */
    kineto_string name;      /* "thread 42 (worker)" */
    uint32_t first, count;   /* of states, by start */
    int64_t ns[KA_STATE_COUNT], longest_ns[KA_STATE_COUNT];
    uint64_t times[KA_STATE_COUNT];
    uint64_t samples;
} ka_watched_thread;

/** Shares of fewer samples say little: they are not given. */
#define KA_MIN_SAMPLES 50u

/** CPU time that samples stand for. Own time is that of a range without what it called. The samples of a
 *  thread with states stand for no more than it was running: a sample at the end of each period stands for
 *  all of it, though the thread may have run for less. */
typedef struct ka_sampled {
    uint32_t name;   /* string id of the trace */
    uint32_t module; /* id in ka_watched.texts; 0: not recorded */
    uint32_t thread; /* index of threads */
    uint64_t samples;          /* in it and in what it called; */
    int64_t own_samples;       /* in itself */
    int64_t self_ns, total_ns; /* total: a function inside itself counts once */
    int64_t longest_ns;        /* the range that stands for the most CPU time, … */
    kineto_row row;            /* … and its row */
} ka_sampled;

/** Time that threads were blocked in a function (record --off-cpu). */
typedef struct ka_blocked {
    uint32_t function; /* id in ka_watched.texts */
    uint32_t thread;
    uint64_t count;
    int64_t ns, longest_ns;
} ka_blocked;

typedef struct ka_watched {
    const kineto_trace *trace;
    KB_VEC(ka_watched_thread) threads; /* in the order of tracks */
    KB_VEC(ka_state) states;           /* thread by thread */
    KB_VEC(ka_sampled) functions;      /* of one thread each … */
    KB_VEC(ka_sampled) of_all;         /* … and of all; the most own time first */
    KB_VEC(ka_blocked) blocked;        /* of one thread each … */
    KB_VEC(ka_blocked) blocked_of_all; /* … and of all; the longest first */
    kb_intern texts;
    int64_t start_ns, end_ns; /* first start and last end of states and samples */
    int64_t sampled_ns;       /* CPU time that all samples stand for, as functions have it */
    uint64_t samples;
    uint32_t cpus; /* that threads ran on; 0: not recorded */
} ka_watched;

/** Fills *out, which is to be freed in any case. False: out of memory. */
bool ka_watched_make(const kineto_trace *trace, ka_watched *out);
void ka_watched_free(ka_watched *w);
static inline kineto_string ka_watched_text(const ka_watched *w, uint32_t id)
{
    return kb_intern_get(&w->texts, id);
}
static inline int64_t ka_watched_life_ns(const ka_watched_thread *t)
{
    return t->ns[KA_STATE_RUNNING] + t->ns[KA_STATE_WAITING] + t->ns[KA_STATE_BLOCKED];
}
/** Is a sampled function of the kernel, or the kernel as a whole? */
bool ka_is_in_kernel(const ka_watched *w, const ka_sampled *s);
/** The id in "thread 42 …"; -1: there is none. */
int64_t ka_watched_id(kineto_string name);
/** The id of the thread that a track is of, by the names of the track, or as the trace has it; -1. */
int64_t ka_watched_track_id(const kineto_trace *trace, uint32_t track);
/** Index of a thread by its process and id; UINT32_MAX: it was not watched. */
uint32_t ka_watched_find(const ka_watched *w, uint32_t process, int64_t id);
/** Index in `states` of the first state of a thread that ends after a moment; may be one past its
 *  last. */
uint32_t ka_watched_state_after(const ka_watched *w, uint32_t thread, int64_t ns);

/* ---- thread_load.c: how many threads were running, or could have been, over time ------------- */
typedef struct ka_load_point {
    int64_t ns;                /* from here to the next point … */
    uint32_t running, waiting; /* … so many threads were running, and waiting for a CPU, */
    uint32_t blocked;          /* and in states that were marked */
    int64_t ran_ns;            /* sum of the running times of all threads before this point */
} ka_load_point;
typedef struct ka_load {
    KB_VEC(ka_load_point) points; /* by time; the last one has no thread */
} ka_load;
/** Of the threads for which chosen[index] is not 0; NULL: of all.
 *  @param marked  by index of states: blocked states that count, not 0; NULL: none.
 *  @return false: out of memory; free it in any case. */
bool ka_load_make(const ka_watched *w, const uint8_t *chosen, const uint8_t *marked, ka_load *out);
void ka_load_free(ka_load *load);
/** Sum of the running times of all threads within [start_ns, end_ns). */
int64_t ka_load_ran_ns(const ka_load *load, int64_t start_ns, int64_t end_ns);
#endif

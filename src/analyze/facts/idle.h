/* Why devices were idle: what the files of this analysis share. docs/reference/analyze.md defines
 * it. */
#ifndef KA_IDLE_H
#define KA_IDLE_H

#include "analyze/facts/analyses.h"
#include "analyze/dataset/thread_time.h"
#include "analyze/dataset/sums.h"

/** What an idle device, or stream, waited for. */
#define KA_IDLE_MAP(X)                                                                             \
    X(SYNCHRONIZING, "synchronizing")                                                              \
    X(DATA_LOADER, "data_loader")                                                                  \
    X(BETWEEN_OPERATORS, "between_operators")                                                      \
    X(IN_OPERATOR, "in_operator")                                                                  \
    X(IN_RUNTIME, "in_runtime") /* a call that neither launches nor waits */                       \
    X(LAUNCHING, "launching")                                                                      \
    X(FULL_QUEUE, "full_queue")                                                                    \
    X(PROFILER_OVERHEAD, "profiler_overhead")                                                      \
    X(OTHER_STREAM, "other_stream")                                                                \
    X(OTHER_RANK, "other_rank")                                                                    \
    X(UNRECORDED_WORK, "unrecorded_work")                                                          \
    X(DEVICE_LATENCY, "device_latency")                                                            \
    X(UNKNOWN, "unknown")
#define KA_X(name, ...) KA_IDLE_##name,
typedef enum ka_idle { KA_IDLE_MAP(KA_X) KA_IDLE_COUNT } ka_idle;
#undef KA_X
/** Sets of reasons. */
#define KA_IDLE_BIT(reason) (UINT32_C(1) << KA_IDLE_##reason)

/* Beginning work that may begin takes a device this long at most: a shorter wait is latency of
 * the device, a longer one needs a reason. */
#define KA_LATENCY_NS INT64_C(30000)
/* A stream of CUDA takes no more launches than 1024, of which two may be under way: from 1022
 * waiting launches on, a launching call is taken to wait for room. */
#define KA_FULL_QUEUE 1022u

/* ---- idle_host.c: what threads of the host did ----------------------------------------------- */

/** Until the next piece begins. */
typedef struct ka_piece {
    int64_t start_ns;
    uint32_t slice; /* the innermost; KA_NONE: outside of all */
    uint8_t reason;
} ka_piece;

/* Sums by reason of all pieces before one, from the second piece on: the first piece begins at
 * INT64_MIN, and has no length that could be added. */
typedef struct ka_before {
    int64_t ns[KA_IDLE_COUNT];
} ka_before;

/** Pieces of all of time: the first begins at INT64_MIN. */
typedef struct ka_host {
    KB_VEC(ka_piece) pieces;
    KB_VEC(ka_before) before; /* of each KA_HOST_BLOCK-th piece */
    size_t near;              /* the piece that was looked for last */
    bool made;
} ka_host;
#define KA_HOST_BLOCK 32u

/** How work was launched. */
typedef struct ka_launch {
    int64_t called_ns;   /* its call began; 0 without one */
    int64_t queued_ns;   /* launched by then; INT64_MAX: not known */
    uint32_t thread;     /* of its call; KA_NONE: that is not known */
    uint32_t place, run; /* place in its launch, and how much of that is in the stream */
    bool in_graph;
    bool is_first; /* of what its call launched */
} ka_launch;

/* Launches of one stream. `count` is how many there are in all; `launched` and `started`
 * remember the results of the last query (how many had been launched, and had begun, by then),
 * from which the search for the next one sets out. */
typedef struct ka_queue {
    uint32_t count, launched, started;
} ka_queue;

/* Activity of all host threads, and launches of all work. The pieces of a thread are made when
 * they are first needed (ka_hosts_of); `budget` bounds the copies of pieces that fill the
 * holes of other threads, so that memory stays linear in the ranges of the trace. */
typedef struct ka_hosts {
    const ka_dataset *s;
    ka_host *of;          /* by thread */
    uint32_t *fallback;   /* by thread: the thread that counts where this one is in no range */
    uint8_t *classes;        /* by name: its class; see idle_host.c */
    ka_spans overhead;    /* of the profiler */
    ka_launch *launches;  /* by work */
    int64_t *launched_ns; /* of each stream, sorted: moments of launches … */
    int64_t *started_ns;  /* … and of the starts of what they launched */
    ka_queue *queues;     /* by stream */
    size_t budget;        /* pieces that may still be copied from other threads */
    bool launches_known;  /* of any work */
} ka_hosts;

bool ka_hosts_make(ka_hosts *h, const ka_dataset *s);
void ka_hosts_free(ka_hosts *h);
/** What a thread did; NULL: out of memory. */
ka_host *ka_hosts_of(ka_hosts *h, uint32_t thread);
/** Index of the piece a moment is in: found soon if it is near the last one. */
size_t ka_host_at(ka_host *host, int64_t ns);
static inline int64_t ka_piece_end(const ka_host *host, size_t i)
{
    return i + 1 < host->pieces.count ? host->pieces.data[i + 1].start_ns : INT64_MAX;
}
/** Adds what [start, end) consists of. */
void ka_host_add(ka_host *host, int64_t start_ns, int64_t end_ns, int64_t *sums);

/* ---- idle_launches.c: how work came to its device -------------------------------------------- */

/** Fills what of `h` is about launches. */
bool ka_launches_find(ka_hosts *h);
/** Launches that had not begun at a moment; were they as many as a stream takes? */
uint32_t ka_hosts_waiting(const ka_hosts *h, uint32_t stream, int64_t ns);
bool ka_hosts_fill_queue(const ka_hosts *h, uint32_t stream, int64_t ns);
/** Does the call wait until what it launched is done? */
bool ka_call_blocks(const ka_dataset *s, uint32_t slice);

/* ---- idle_gaps.c: gaps, and what they consist of --------------------------------------------- */

/* A time in which a stream, or with `whole` a device, ran nothing that was recorded, between
 * two pieces of work. `ns` has its parts by reason, which add up to its length. */
typedef struct ka_gap {
    int64_t start_ns, end_ns;
    uint32_t before, after; /* work */
    uint32_t device;        /* index */
    bool whole;             /* all of the device was idle, not only the stream of `after` */
    int64_t ns[KA_IDLE_COUNT];
} ka_gap;

/** An end of work, for finding what a stream waited for. */
typedef struct ka_end {
    int64_t ns;
    uint32_t work;
} ka_end;

/** Time of a stream that a graph took without a record of what it did: up to the start of `after`.
 */
typedef struct ka_unrecorded {
    int64_t start_ns, end_ns;
    uint32_t after; /* work */
} ka_unrecorded;

/* A device of one process row. `busy` and `communicating` are unions over all of its streams;
 * `unrecorded` is the time in which a graph ran work without a record and no recorded work
 * ran. */
typedef struct ka_device {
    uint32_t process;
    int64_t id;
    ka_sums busy, communicating, unrecorded;
    KB_VEC(ka_end) ends;          /* in order */
    KB_VEC(ka_unrecorded) graphs; /* by start */
} ka_device;

/** How long a gap at one place of a graph was, over all its launches. */
typedef struct ka_recurrence {
    uint64_t count;
    int64_t least_ns, most_ns;
} ka_recurrence;

/* All that is needed to explain gaps of a dataset. The maps lead to indexes of `recurrences`:
 * from a place in a graph (place_key of idle_gaps.c), and from the work after a gap at such a
 * place. */
typedef struct ka_idleness {
    const ka_dataset *s;
    ka_hosts hosts;
    KB_VEC(ka_device) devices;
    uint32_t *device_of; /* by stream */
    kb_map recurring;    /* of a place in a graph → index of recurrences … */
    kb_map recurring_at; /* … and of the work after a gap there */
    KB_VEC(ka_recurrence) recurrences;
    const ka_watched *watched; /* threads of the host, by their states … */
    ka_blocking_calls blocking; /* … and the calls in which they were blocked */
} ka_idleness;

/** @return KINETO_E_MEMORY. To be freed, also on failure. */
kineto_status ka_idleness_make(ka_idleness *idle, const ka_dataset *s, kineto_error *err);
void ka_idleness_free(ka_idleness *idle);
/** Calls `use` for each gap: of each stream, then of each device. False from it stops. */
typedef bool ka_gap_use(void *context, const ka_gap *gap);
/** A part of a gap. */
typedef void ka_part_use(void *context, uint32_t slice, ka_idle reason, int64_t ns);
/** `part`, which may be NULL, is called for the parts of a gap of a device before `use`. */
bool ka_idleness_walk(ka_idleness *idle, ka_gap_use *use, ka_part_use *part, void *context);
bool ka_gap_parts(ka_idleness *idle, const ka_gap *gap, ka_part_use *use, void *context);
/** How long the gap before this work of a graph was each time; NULL: nothing is known. */
const ka_recurrence *ka_recurrence_of(const ka_idleness *idle, uint32_t after);
/** How many ends of work there are up to a moment: the index of the first one after it. */
size_t ka_ends_until(const ka_device *d, int64_t ns);
/** The work of another stream that ended last before `ns`, not before `from_ns`; KA_NONE. */
uint32_t ka_released_by(const ka_idleness *idle, const ka_gap *gap, int64_t from_ns, int64_t ns);

/** The work of a graph before which most of the gap's unrecorded time was; KA_NONE. */
uint32_t ka_gap_graph(const ka_idleness *idle, const ka_gap *gap);

/* ---- idle_evidence.c ------------------------------------------------------------------------- */
ka_idle ka_gap_reason(const ka_gap *gap);
/** A sentence that says what was seen, into `text`. @return its size. */
size_t ka_gap_evidence(ka_idleness *idle, const ka_gap *gap, char *text, size_t room);
const char *ka_idle_name(ka_idle reason);
/** The reason with this name; KA_IDLE_UNKNOWN where no reason has it. */
ka_idle ka_idle_of(kineto_string name);

/* ---- idle_states.c: states of the launching thread ------------------------------------------- */
/** Calls `use` for each part of a gap before the launch of its next work: what the launching thread was
 *  doing, in words. Nothing if the launch was not recorded. */
void ka_gap_states(ka_idleness *idle, const ka_gap *gap, ka_state_use *use, void *context);

static inline bool ka_has_host_states(const ka_idleness *idle)
{
    return idle->watched->states.count || idle->blocking.list.count;
}
/** Idle time of one device while the launching thread was in one state. */
typedef struct ka_idle_state {
    uint32_t device, words; /* index; id of words */
    uint64_t count;         /* gaps */
    int64_t ns, longest_ns;
} ka_idle_state;
typedef struct ka_idle_states ka_idle_states;
/** NULL: out of memory. */
ka_idle_states *ka_idle_states_create(void);
/** False: out of memory. */
bool ka_idle_states_add(ka_idle_states *x, ka_idleness *idle, const ka_gap *gap);
void ka_idle_states_put(const ka_idle_states *x, const ka_idleness *idle, ka_table *t);
void ka_idle_states_destroy(ka_idle_states *x);
#endif

/* The critical path of a rank: moments of the host and the device as a graph, what each had to wait
 * for as its edges, the longest way through it, and how long it would be if parts took another
 * time.
 *
 * A moment comes at the latest of what it waits for: time(node) = max over edges (time(src) + ns).
 * Every node but the first has an edge for which that is exactly what was recorded. */
#ifndef KA_CRITICAL_H
#define KA_CRITICAL_H

#include "analyze/facts/analyses.h"

/** What the time of an edge is: X(NAME, "word"). Definitions with a graph of their own number further
 *  classes, and types of edges, from KA_PATH_CLASS_COUNT and KA_EDGE_TYPE_COUNT on. */
#define KA_PATH_CLASSES(X)                                                                         \
    X(OPERATOR, "host_operator")                                                                   \
    X(CALL, "host_call") /* of a runtime or driver */                                              \
    X(PYTHON, "host_python")                                                                       \
    X(BETWEEN, "host_between") /* between operators: not recorded */                               \
    X(DATA, "data_loading")                                                                        \
    X(OVERHEAD, "profiler_overhead")                                                               \
    X(COMPUTE, "device_compute")                                                                   \
    X(COMMUNICATION, "device_communication")                                                       \
    X(COPY, "device_copy")                                                                         \
    X(DEVICE, "device_other")                                                                      \
    X(GAP, "kernel_gap")          /* from one work to the next of the stream */                    \
    X(LAUNCH, "launch_delay")     /* from the launch to the work */                                \
    X(STREAM_WAIT, "stream_wait") /* from the end of what another stream waited for */             \
    X(RETURN, "sync_return")   /* from the end of work to that of the call that waited for it */   \
    X(HAND_OVER, "hand_over")  /* from a thread to another */                                      \
    X(EARLIER, "earlier_work") /* before the window */                                             \
    X(START, "not_explained")  /* it is not known what it waited for */                            \
    X(NO_CPU, "host_waiting_for_cpu") /* host time in which the thread had no CPU … */             \
    X(BLOCKED, "host_blocked")        /* … or was blocked: of no edge, a part of theirs */
typedef enum ka_path_class {
#define X(name, word) KA_PATH_##name,
    KA_PATH_CLASSES(X)
#undef X
        KA_PATH_CLASS_COUNT
} ka_path_class;
#define KA_MAX_PATH_CLASSES 32u /* with those of definitions */

/** What made the edge: X(NAME, "word"). */
#define KA_EDGE_TYPES(X)                                                                           \
    X(HOST, "host")     /* one moment of a thread to the next */                                   \
    X(WORK, "work")     /* its start to its end */                                                 \
    X(STREAM, "stream") /* work to the next one of the stream */                                   \
    X(LAUNCH, "launch")                                                                            \
    X(WAIT, "wait")                   /* work of one stream to work of another, as recorded … */ \
    X(WAIT_INFERRED, "wait_inferred") /* … or inferred from times */                             \
    X(SYNC, "sync") /* work to the end of the call that waited for it: recorded … */             \
    X(SYNC_INFERRED, "sync_inferred")                                                              \
    X(FULL_QUEUE, "full_queue") /* work to the end of a launch that found no place in the queue */ \
    X(HAND_OVER, "hand_over")                                                                      \
    X(START, "start") /* the beginning of the window to it */
typedef enum ka_edge_type {
#define X(name, word) KA_EDGE_##name,
    KA_EDGE_TYPES(X)
#undef X
        KA_EDGE_TYPE_COUNT
} ka_edge_type;

enum { KA_OF_NOTHING, KA_OF_SLICE, KA_OF_WORK };

/** A moment: a slice or work begins or ends. The first one is the beginning of the window. */
typedef struct ka_node {
    int64_t ns;
    uint32_t index; /* of slices or work */
    uint8_t of;     /* KA_OF_… */
    bool is_end;
    bool may_be_last; /* a path may end there: not with a thread that only waits */
} ka_node;

typedef struct ka_edge {
    uint32_t src, dst;
    int64_t ns;
    uint32_t owner; /* whose time it is: index of slices or work */
    uint8_t of;     /* KA_OF_…: what `owner` is */
    uint8_t type, class;
    bool on_path;
} ka_edge;

/** A step of the window, by its moments. */
typedef struct ka_path_step {
    uint32_t start, end; /* nodes */
} ka_path_step;

typedef struct ka_path {
    const ka_dataset *s;
    int64_t start_ns, end_ns; /* of the window */
    uint32_t window_thread;   /* of the range that is the window; KA_NONE */
    bool has_steps;           /* some thread of the dataset has */
    /* Once finished: nodes in an order in which each follows what it waits for, edges by dst. */
    KB_VEC(ka_node) nodes;
    KB_VEC(ka_edge) edges;
    uint32_t *first_edge;   /* by node, and one past the last */
    int64_t *time, *latest; /* by node, since the first one: when it comes; when it might come
                               without making all of it longer */
    uint32_t start, last;   /* nodes the path begins and ends at */
    int64_t length_ns;
    KB_VEC(ka_path_step) steps;
    /* Only until it is finished: */
    uint32_t *start_of, *end_of; /* nodes of slices; KA_NONE */
    uint32_t *work_start;        /* node of work; its end is the next one. KA_NONE */
    uint32_t host_nodes;         /* nodes 1 … are of the host; edge n - 1 leads to node n … */
    uint32_t *watched_of;        /* by thread of the dataset: index of watched threads; KA_NONE. NULL: no
                                    thread was watched */
    bool no_memory;              /* sticks */
} ka_path;

/** Which part of a dataset. */
typedef struct ka_path_window {
    const char *annotation; /* range whose name holds this; NULL: all of the dataset */
    uint32_t instance;
} ka_path_window;

/** By the dataset's definitions. @param path  to be freed with ka_path_free, also on failure.
 *  @return KINETO_E_NOT_FOUND without such a range, or with nothing in it. */
kineto_status ka_path_create(const ka_dataset *s, const ka_path_window *window, ka_path *path,
                             kineto_error *err);
void ka_path_free(ka_path *path);

/** critical_states.c: how long the thread of a host edge was in each state meanwhile. What is not known counts as
 *  running. False: it has no time of a watched thread. */
bool ka_path_split(const ka_path *p, const ka_edge *e, int64_t ns[KA_STATE_COUNT]);
/** Time on the path by class; of edges of the host, time without a CPU and blocked are classes of their own. */
void ka_path_class_sums(const ka_path *p, int64_t sums[KA_MAX_PATH_CLASSES]);
/** Fills watched_of. False: out of memory. */
bool ka_path_find_watched(ka_path *p);

/** Classes 0 … count-1 of a path, and their names; "" past the end. */
uint32_t ka_path_class_count(const ka_path *path);
const char *ka_path_class_name(const ka_path *path, uint32_t class);
const char *ka_edge_type_name(const ka_path *path, uint32_t type);

/* ---- among the files of the critical path ---- */
/** critical_graph.c: the nodes of all that is in the window, and the edges of host threads. */
void ka_path_add_nodes(ka_path *p);
/** Room for start_of … work_start, all KA_NONE. */
bool ka_path_reserve(ka_path *p);
static inline void ka_path_edge(ka_path *p, ka_edge edge)
{
    p->no_memory |= !kb_vec_push(&p->edges, edge);
}
/** Bring nodes and edges in order, compute times, latest times and the path. */
kineto_status ka_path_finish(ka_path *p, kineto_error *err);
/** Times of all nodes. @param weights  by edge; NULL: as recorded. */
void ka_path_times(const ka_path *p, const int64_t *weights, int64_t *times);
/** The latest of these times that a path may end at. */
int64_t ka_path_length(const ka_path *p, const int64_t *times);

/** critical_edges.c: what work and calls waited for. */
void ka_path_add_device(ka_path *p);
/** critical_sync.c: waits that were recorded (cuda_sync rows). */
typedef struct ka_sync_wait {
    uint32_t work, source; /* indexes of work: `work` waited for `source` */
} ka_sync_wait;
typedef struct ka_sync_call {
    uint32_t call, stream; /* slice; stream it waited for, KA_NONE: all */
    uint32_t source;       /* work it waited for; KA_NONE: the last of the stream */
} ka_sync_call;
typedef struct ka_syncs {
    KB_VEC(ka_sync_wait) waits; /* by work */
    KB_VEC(ka_sync_call) calls; /* by call */
} ka_syncs;
bool ka_syncs_find(const ka_dataset *s, ka_syncs *out);
void ka_syncs_free(ka_syncs *syncs);
/** Index in work of the last one of the stream that was launched before; KA_NONE. */
uint32_t ka_launched_before(const ka_dataset *s, uint32_t stream, int64_t ns);
static inline int64_t ka_launch_ns(const ka_dataset *s, uint32_t work)
{
    uint32_t call = s->work[work].call;
    return call == KA_NONE ? s->work[work].start_ns : s->slices[call].start_ns;
}
/** critical_threads.c: threads that wait for another one. */
void ka_path_add_hand_over(ka_path *p);
/** critical_overlay.c: the trace with its path in it. */
kineto_status ka_path_overlay(const ka_path *p, kineto_trace **out, kineto_error *err);
/** what_if.c: the length with other weights. */
kineto_status ka_what_if(const ka_path *p, const kineto_what_if_scale *scales, size_t count,
                         kineto_what_if_result *result, kineto_error *err);
#endif

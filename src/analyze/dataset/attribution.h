/* Attribution: a layer over a dataset that says whom time belongs to. Device work is attributed to
 * operators (as trees, inclusive and exclusive), busy time of host and devices to roles, and both to
 * the windows of steps. The tables of steps, operators, kernels, memory and communication are made
 * from it.
 *
 * The exact attribution (attribution_fill.c) is derived from the dataset. Other definitions may build
 * theirs from the trace, with other operators than the dataset has slices; hence rows here refer to
 * rows of the trace. ka_op copies start and end of its row, which searches by time compare; work does
 * not, its times are read through ka_row_span. */
#ifndef KA_ATTRIBUTION_H
#define KA_ATTRIBUTION_H

#include "analyze/dataset/arg_lookup.h"
#include "analyze/dataset/dataset.h"
#include "analyze/dataset/known_names.h"

/** The role that a moment of a step is attributed to: the first of these that was busy. */
typedef enum ka_role {
    KA_ROLE_KERNEL,
    KA_ROLE_MEMCPY,
    KA_ROLE_MEMSET,
    KA_ROLE_COMMUNICATION,
    KA_ROLE_RUNTIME,
    KA_ROLE_DATALOADER,
    KA_ROLE_CPU,
    KA_ROLE_COUNT
} ka_role;

/** A call of an operator. In the order of (thread, start, longer first), so its callees follow it. */
typedef struct ka_op {
    int64_t start_ns, end_ns;
    int64_t host_self_ns;
    int64_t device_ns, device_self_ns; /* launched by it and its callees; by itself */
    int64_t tensor_ns, tensor_self_ns; /* of device_ns, device_self_ns: kernels on tensor cores */
    kineto_row row;
    uint32_t name, track;
    uint32_t thread; /* operators of one thread are adjacent, by start */
    uint32_t parent; /* index of ops; KA_NONE: outermost */
    uint32_t next;   /* first one after its callees */
    bool shown;      /* tables of operators list it */
    bool merged;     /* it counts as its parent */
} ka_op;

/** Work of a device and the operator that launched it. */
typedef struct ka_attributed_work {
    kineto_row row;
    int64_t device; /* -1: not known */
    uint32_t op;    /* index of ops; KA_NONE: not known */
    uint8_t kind;   /* kineto_kind, as the definitions see it */
    bool tensor;    /* it uses tensor cores */
    bool unlisted;  /* tables of kernels by operator leave it out */
} ka_attributed_work;

/** A part of a collective, as ranks compare it. */
typedef struct ka_communication {
    int64_t start_ns, end_ns, bytes;
    kineto_string name; /* borrowed from the trace */
    kineto_string group; /* the communicator, if only some ranks take part; else empty */
    int64_t ranks;       /* that take part; 0: all */
    uint32_t window;    /* index of windows; KA_NONE */
    uint32_t part;      /* 0; rising in further parts of the same collective, which follow */
} ka_communication;

/** The span of a step: from its start, or where the window before it in its process ends, until the
 *  last work that it launched ended. */
typedef struct ka_window {
    int64_t start_ns, end_ns;
    uint64_t number;
    uint32_t process;
} ka_window;

/** Busy times of one process, where several processes have steps, which then overlap. */
typedef struct ka_team {
    uint32_t process;
    ka_spans roles[KA_ROLE_COUNT];
} ka_team;

typedef KB_VEC(ka_op) ka_op_list;
typedef KB_VEC(ka_attributed_work) ka_attributed_work_list;
typedef KB_VEC(ka_communication) ka_communication_list;
typedef KB_VEC(ka_window) ka_window_list;

typedef struct ka_attribution {
    const ka_dataset *dataset;
    ka_op_list ops;
    ka_attributed_work_list work; /* by start */
    ka_spans roles[KA_ROLE_COUNT];
    ka_communication_list communication; /* by start */
    ka_window_list windows;              /* never empty, unless the trace is; by start */
    KB_VEC(ka_team) teams;               /* empty, unless several processes have steps */
    bool has_steps;
    struct ka_operator_calls *inputs; /* see ka_operator_calls_get */
    struct ka_attribution
        *before; /* the one with fewer parts that it replaces; others may still read it */
} ka_attribution;

/* The parts of an attribution; windows are always there. */
#define KA_ATTRIBUTION_OPERATORS           1u
#define KA_ATTRIBUTION_WORK          2u /* `op` with KA_ATTRIBUTION_OPERATORS */
#define KA_ATTRIBUTION_ROLES         4u
#define KA_ATTRIBUTION_COMMUNICATION 8u
#define KA_ATTRIBUTION_CALLS         16u /* of ka_operator_calls */
#define KA_ATTRIBUTION_FLOPS         32u

/** The attribution of a dataset, which owns it. Made once for all analyses, again only if some need more
 *  parts; immutable. threads: any.
 *  @param parts        needed by the caller; it may have more.
 *  @param attribution  set to a shallow copy, to be used as long as the dataset. */
kineto_status ka_attribution_get(const ka_dataset *s, uint32_t parts, ka_attribution *attribution,
                          kineto_error *err);
/** The parts that the wanted tables need. */
uint32_t ka_attribution_parts(kineto_analysis *a);
void ka_attribution_destroy(ka_attribution *attribution);
/** Teams, or 1: windows and roles of all processes belong together. */
static inline size_t ka_team_count(const ka_attribution *v) { return v->teams.count ? v->teams.count : 1; }
static inline bool ka_in_team(const ka_attribution *v, size_t team, const ka_window *w)
{
    return !v->teams.count || v->teams.data[team].process == w->process;
}
static inline const ka_spans *ka_team_roles(const ka_attribution *v, size_t team)
{
    return v->teams.count ? v->teams.data[team].roles : v->roles;
}
/** The end of the last window. */
int64_t ka_attribution_end_ns(const ka_attribution *v);
/** Name of a window: the number of its step, or "all". */
kb_text ka_window_name(const ka_attribution *v, const ka_window *w);
/** Add device_ns and tensor_ns of callees to their callers, and set `next`. */
void ka_ops_add_up(ka_op_list *ops);

/** attribution_fill.c: ka_definitions.fill_attribution of the exact definitions. */
bool ka_attribution_fill(ka_attribution *v, uint32_t parts);

/* ---- calls of operators and their inputs (operator_calls.c) ---- */
/** Calls with the same name, input sizes and stack share an id in `calls`. Its key, as bytes: the string id
 *  of the name, the id of the stack in `stacks`, then the text of the sizes. */
#define KA_CALL_HEAD (2 * sizeof(uint32_t))
typedef struct ka_operator_calls {
    pthread_mutex_t lock;
    uint32_t parts;     /* KA_ATTRIBUTION_CALLS, KA_ATTRIBUTION_FLOPS */
    kb_intern calls;    /* ids in the order of the first call of each; 0: no call */
    kb_intern stacks;   /* as the file has them; 0: none */
    uint32_t *call_of;  /* by row: the call id of an operator; 0 of other rows */
    uint64_t *flops;    /* by row, with those of its callees; 0: not known */
    uint64_t *unusable; /* bits by row: there is a formula, but its inputs do not suffice */
    bool made, no_memory;
} ka_operator_calls;
/** Made on the first call, of the parts that the wanted tables need; immutable then. With
 *  ka_definitions.calls_of_shown_operators `v` must have its operators. NULL: out of memory. threads:
 *  any. */
const ka_operator_calls *ka_operator_calls_get(const ka_attribution *v);
ka_operator_calls *ka_inputs_create(uint32_t parts);
void ka_inputs_free(ka_operator_calls *in);
static inline void ka_call_names(const ka_operator_calls *in, uint32_t call, uint32_t *name,
                                 uint32_t *stack)
{
    const char *key = kb_intern_get(&in->calls, call).data;
    memcpy(name, key, sizeof *name);
    memcpy(stack, key + sizeof *name, sizeof *stack);
}
static inline kineto_string ka_call_shapes(const ka_operator_calls *in, uint32_t call)
{
    kineto_string key = kb_intern_get(&in->calls, call);
    return (kineto_string){key.data + KA_CALL_HEAD, key.size - KA_CALL_HEAD};
}
#endif

/* The calls by which a process communicates without a device: collectives and messages of gloo, calls of
 * MPI. Between them the host computes; in them it waits until the others have come. */
#ifndef KA_HOST_CALLS_H
#define KA_HOST_CALLS_H

#include "analyze/ranks/rank_facts.h"

/** Waits shorter than this are none: what was waited for was there already. */
#define KA_MIN_HOST_WAIT_NS 20000

/** One collective, or one direction of a message. Times are of the trace. */
typedef struct ka_host_call {
    int64_t issued_ns;          /* when the program called it */
    int64_t start_ns, end_ns;   /* of its execution, perhaps on another thread */
    int64_t waited_from_ns, waited_to_ns; /* meanwhile the program did nothing but wait for its end; INT64_MAX,
                                             INT64_MIN: it did not */
    uint64_t elements;          /* 0: not known */
    uint32_t thread;            /* that executed it, if not the one that called it; KA_NONE */
    uint32_t group, sequence;   /* index of groups of the facts, KA_NONE; KA_NO_SEQUENCE: to be counted */
    uint32_t nth;               /* set by ka_map_host: in the order of the list */
    uint8_t op, flags;          /* KA_COMM_PART, KA_COMM_BY_ORDER, KA_COMM_NUMBERED */
} ka_host_call;

/** Work of the program that is recorded by itself. */
typedef struct ka_host_operator {
    int64_t start_ns, end_ns;
    uint32_t name; /* string id */
} ka_host_operator;

typedef struct ka_host_calls {
    const ka_dataset *s;
    ka_rank_facts *out;          /* texts and groups go there */
    KB_VEC(ka_host_call) list;   /* by issued_ns once sorted; parts follow their call */
    KB_VEC(ka_host_operator) operators; /* outermost ones, of the program's own threads */
    ka_spans apart;              /* on these threads: calls that hand work to another thread, and may lose the processor to it */
    kb_map group_at;             /* id → index of groups */
    bool no_memory;
} ka_host_calls;

/** Index of the group, the same for the same id. */
uint32_t ka_keep_host_group(ka_host_calls *h, const ka_comm_group *g);
uint32_t ka_keep_host_text(ka_host_calls *h, kineto_string text);
void ka_put_host_call(ka_host_calls *h, const ka_host_call *c);

/** gloo_calls.c: annotations of PyTorch ("gloo:all_reduce"). mpi_calls.c: calls that ckineto recorded. Both put
 *  nothing if there are none. */
void ka_list_gloo_calls(ka_host_calls *h);
void ka_list_mpi_calls(ka_host_calls *h);
/** host_pieces.c: sets host_ns of the rows, if there are operators and steps. Sorts the operators, and adds the waits of
 *  the program to `apart`. False: out of memory. */
bool ka_measure_typical_work(ka_host_calls *h, const ka_spans *waits);
/** rank_map_host.c: puts the rows of a rank without collectives on a device, and none if it has no calls
 *  either. False: out of memory. */
bool ka_map_host(const ka_dataset *s, ka_rank_facts *out);
#endif

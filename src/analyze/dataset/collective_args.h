/* What a collective says of itself: kind, size, group, sequence number. It stands in the arguments of
 * the kernel or, in traces before these had them, of the operator that launched it
 * (record_param_comms), or in its annotation ("nccl:all_reduce"). */
#ifndef KA_COLLECTIVE_ARGS_H
#define KA_COLLECTIVE_ARGS_H

#include "analyze/dataset/dataset.h"

typedef enum ka_collective_op {
    KA_OP_OTHER,
    KA_OP_ALL_REDUCE,
    KA_OP_ALL_GATHER,
    KA_OP_REDUCE_SCATTER,
    KA_OP_ALL_TO_ALL,
    KA_OP_BROADCAST,
    KA_OP_BARRIER,
    KA_OP_REDUCE,
    KA_OP_SCATTER,
    KA_OP_GATHER,
    KA_OP_SEND_RECV, /* both, or which of them is not known */
    KA_OP_SEND,
    KA_OP_RECV,
    KA_OP_COUNT
} ka_collective_op;

/** Between two ranks: the last of the operations. */
static inline bool ka_is_message(uint32_t op) { return op >= KA_OP_SEND_RECV && op < KA_OP_COUNT; }

/** A number that the trace does not have. */
#define KA_UNKNOWN_NUMBER INT64_MIN
typedef struct ka_collective_args {
    uint32_t name, group, description, members, dtype; /* of the reader's texts; 0: not known */
    int64_t sequence, ranks, in, out, bytes;           /* KA_UNKNOWN_NUMBER */
    int64_t source, destination;                       /* ranks in the world */
    ka_collective_op op;
} ka_collective_args;

/** Reads the arguments of one dataset's collectives. threads: one. */
typedef struct ka_collective_reader {
    const ka_dataset *s;
    kb_intern texts; /* id 0 is the empty text */
    kb_map starters; /* external id → slice of what started a collective; filled when first needed */
    bool starters_made, no_memory;
} ka_collective_reader;

void ka_collective_reader_create(ka_collective_reader *r, const ka_dataset *s);
void ka_collective_reader_free(ka_collective_reader *r);
/** Of a kernel; of a call of MPI, or an annotation. Out of memory sets r->no_memory. */
ka_collective_args ka_read_collective(ka_collective_reader *r, const ka_work *w);
ka_collective_args ka_read_collective_call(ka_collective_reader *r, const ka_slice *call);
/** The messages that one kernel sends and receives together: those of the ranges on its thread since the launch
 *  before. @return how many, at most `room`; 0: it is no message, or its ranges do not say. */
uint32_t ka_read_messages(ka_collective_reader *r, const ka_work *w, ka_collective_args *out, uint32_t room);
kineto_string ka_collective_op_name(ka_collective_op op);
/** By a name as frameworks, MPI and NCCL's kernels have it. */
ka_collective_op ka_collective_op_of(kineto_string name);
#endif

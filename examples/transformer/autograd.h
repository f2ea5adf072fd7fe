/* Gradients: operators that run forward leave nodes on a tape; another thread walks it back. */
#ifndef TRANSFORMER_AUTOGRAD_H
#define TRANSFORMER_AUTOGRAD_H

#include "tensor.h"

enum { MAX_INPUTS = 3, MAX_SAVED = 4, MAX_OUTPUTS = 3, MAX_MODULES = 96 };

struct node;
/* From the gradients of the outputs (NULL: none) those of the inputs, to be owned by the caller. */
typedef void (*node_backward)(struct node *n, tensor *const *outputs, tensor **inputs);

typedef struct node_type {
    kineto_site *frame, *function;
    node_backward backward;
} node_type;

typedef struct edge {
    struct node *node; /* NULL: to a leaf, or nowhere */
    uint32_t output;
    tensor *leaf;
} edge;

typedef struct node {
    const node_type *type;
    int64_t sequence;
    uint64_t forward_thread;
    char modules[MAX_MODULES];
    uint32_t input_count, output_count;
    edge inputs[MAX_INPUTS];
    tensor *grads[MAX_OUTPUTS];
    tensor *saved[MAX_SAVED];
    int64_t sizes[MAX_RANK]; /* of the input, or what else it needs */
    uint32_t rank;
    double value;
} node;

/* Define what a node is called and does. */
#define NODE_TYPE(var, name, backward)                                                             \
    KINETO_FUNCTION_SITE(var##_frame, KINETO_SCOPE_FUNCTION,                                       \
                         "autograd::engine::evaluate_function: " name);                            \
    KINETO_FUNCTION_SITE(var##_site, KINETO_SCOPE_BACKWARD_FUNCTION, name);                        \
    static const node_type var = {&var##_frame, &var##_site, backward}

/* A node for what was computed from the inputs; NULL if nobody wants gradients. */
node *grad_node(const node_type *type, tensor *const *inputs, uint32_t count);
/* This came out of it. */
void grad_output(node *n, tensor *output, uint32_t index);
void grad_save(node *n, uint32_t index, tensor *x);

/* Switch for the calling thread; returns what it was. */
bool grad_enable(bool on);
/* Number of the next node of this thread; -1 while none are made. */
int64_t grad_next_sequence(void);

/* Compute the gradients of all leaves that went into a scalar, on the engine's thread; return when
 * they are there. The tape is empty then. */
void grad_backward(tensor *loss);
/* How wide the tape is. */
size_t grad_tape_length(void);
/* Ends the thread. */
void grad_shutdown(void);

#endif

/* Automatic differentiation: operators of the forward pass append nodes to a tape; the engine's
 * thread walks it back. One tape for the program: only one thread may run forward at a time. */
#ifndef TRANSFORMER_AUTOGRAD_H
#define TRANSFORMER_AUTOGRAD_H

#include "tensor.h"

enum { MAX_INPUTS = 3, MAX_SAVED = 4, MAX_OUTPUTS = 3, MAX_MODULES = 96 };

struct node;
/* Computes the gradients of the inputs, which the caller owns, from those of the outputs (NULL:
 * none). */
typedef void (*node_backward)(struct node *n, tensor *const *outputs, tensor **inputs);

typedef struct node_type {
    kineto_site *frame, *function;
    node_backward backward;
} node_type;

typedef struct edge {
    /* NULL: the input is a leaf, or needs no gradient. */
    struct node *node;
    uint32_t output;
    tensor *leaf;
} edge;

/* One operator of the forward pass, with the tensors that its gradient needs. */
typedef struct node {
    const node_type *type;
    int64_t sequence;
    uint64_t forward_thread;
    char modules[MAX_MODULES];
    uint32_t input_count, output_count;
    edge inputs[MAX_INPUTS];
    tensor *grads[MAX_OUTPUTS];
    tensor *saved[MAX_SAVED];
    /* Of the input, or other numbers that the gradient needs. */
    int64_t sizes[MAX_RANK];
    uint32_t rank;
    double value;
} node;

/* Define a type of nodes: the names that profilers show, and the gradient function. */
#define NODE_TYPE(var, name, backward)                                                             \
    KINETO_FUNCTION_SITE(var##_frame, KINETO_SCOPE_FUNCTION,                                       \
                         "autograd::engine::evaluate_function: " name);                            \
    KINETO_FUNCTION_SITE(var##_site, KINETO_SCOPE_BACKWARD_FUNCTION, name);                        \
    static const node_type var = {&var##_frame, &var##_site, backward}

/* A node for the result of the inputs; NULL if none of them requires a gradient. */
node *grad_node(const node_type *type, tensor *const *inputs, uint32_t count);
/* Declare an output of a node. */
void grad_output(node *n, tensor *output, uint32_t index);
/* Keep a tensor for the gradient function. */
void grad_save(node *n, uint32_t index, tensor *x);

/* Enable or disable the tape for the calling thread; returns the previous state. */
bool grad_enable(bool on);
/* Sequence number of the next node of this thread; -1 while the tape is disabled. */
int64_t grad_next_sequence(void);

/* Compute the gradients of all leaves of a scalar on the engine's thread, and wait for it. The tape
 * is empty afterwards. */
void grad_backward(tensor *loss);
/* Number of nodes on the tape. */
size_t grad_tape_length(void);
/* End the engine's thread and free the tape. */
void grad_shutdown(void);

#endif

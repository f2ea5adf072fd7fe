/* The tape of the forward pass, the engine that walks it back, and the thread on which it runs, as
 * PyTorch's autograd engine does: profiles show backward functions on a thread of their own, linked
 * to their forward operators by sequence numbers. */
#include "autograd.h"
#include "ops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tape -------------------------------------------------------------------------------- */

static node **tape;
static size_t tape_length, tape_room;
static _Thread_local bool disabled;
static _Thread_local int64_t next_sequence;

bool grad_enable(bool on)
{
    bool was = !disabled;
    disabled = !on;
    return was;
}

int64_t grad_next_sequence(void) { return disabled ? -1 : next_sequence; }

size_t grad_tape_length(void) { return tape_length; }

/* The tape only grows during a forward pass. */
static void append_node(node *n)
{
    if (tape_length == tape_room) {
        tape_room = tape_room ? 2 * tape_room : 256;
        node **larger = realloc(tape, tape_room * sizeof(node *));
        if (!larger) {
            fprintf(stderr, "transformer: out of memory\n");
            exit(1);
        }
        tape = larger;
    }
    tape[tape_length++] = n;
}

/* Also links the node to those that computed its inputs. */
node *grad_node(const node_type *type, tensor *const *inputs, uint32_t count)
{
    bool wanted = false;
    for (uint32_t i = 0; i < count; i++)
        wanted |= inputs[i]->requires_grad;
    if (disabled || !wanted)
        return NULL;
    node *n = zeroed(1, sizeof *n);
    n->type = type;
    n->sequence = next_sequence++;
    n->forward_thread = kineto_function_thread_id();
    snprintf(n->modules, sizeof n->modules, "%s", module_path());
    n->input_count = count;
    for (uint32_t i = 0; i < count; i++) {
        tensor *x = inputs[i];
        if (x->grad_node)
            n->inputs[i] = (edge){x->grad_node, x->grad_output, NULL};
        else if (x->requires_grad)
            n->inputs[i].leaf = tensor_retain(x);
    }
    append_node(n);
    return n;
}

/* The tensor keeps a pointer to the node, which the tape owns until the backward pass has run. */
void grad_output(node *n, tensor *output, uint32_t index)
{
    if (!n)
        return;
    output->requires_grad = true;
    output->grad_node = n;
    output->grad_output = index;
    n->output_count = index + 1 > n->output_count ? index + 1 : n->output_count;
}

void grad_save(node *n, uint32_t index, tensor *x)
{
    if (n)
        n->saved[index] = tensor_retain(x);
}

/* Releases what a node holds. Called as soon as it has run, so that memory shrinks during the
 * backward pass. */
static void clear_node(node *n)
{
    for (uint32_t i = 0; i < MAX_OUTPUTS; i++) {
        tensor_release(n->grads[i]);
        n->grads[i] = NULL;
    }
    for (uint32_t i = 0; i < MAX_SAVED; i++) {
        tensor_release(n->saved[i]);
        n->saved[i] = NULL;
    }
    for (uint32_t i = 0; i < MAX_INPUTS; i++) {
        tensor_release(n->inputs[i].leaf);
        n->inputs[i].leaf = NULL;
    }
}

/* ---- the engine ------------------------------------------------------------------------------ */

/* The information that profilers get about a backward function: its inputs are the gradients, and
 * the sequence number links it to its forward operator. */
static kineto_function_info make_function_info(const node *n, kineto_input *inputs)
{
    kineto_function_info info;
    kineto_function_info_init(&info);
    for (uint32_t i = 0; i < n->output_count; i++)
        inputs[i] = in_tensor(n->grads[i]);
    info.inputs = inputs;
    info.input_count = n->output_count;
    info.sequence_number = n->sequence;
    info.forward_thread_id = n->forward_thread;
    info.modules = n->modules[0] ? n->modules : NULL;
    return info;
}

/* Sets the gradient of a leaf or adds to it. Takes ownership of `grad`. */
static void accumulate_leaf_grad(tensor *leaf, tensor *grad)
{
    NODE_TYPE(accumulate_grad, "torch::autograd::AccumulateGrad", NULL);
    kineto_function frame, function;
    const kineto_input input = in_tensor(grad);
    kineto_function_begin(&frame, accumulate_grad.frame, NULL, 0);
    kineto_function_begin(&function, accumulate_grad.function, &input, 1);
    if (leaf->grad)
        leaf->grad = then(leaf->grad, op_add(leaf->grad, grad));
    else
        leaf->grad = op_detach(grad);
    tensor_release(grad);
    kineto_function_end(&function);
    kineto_function_end(&frame);
}

/* Adds a gradient to the node or leaf that an edge leads to. Takes ownership of `grad`. */
static void pass_gradient(const edge *to, tensor *grad)
{
    if (to->leaf) {
        accumulate_leaf_grad(to->leaf, grad);
    } else if (to->node) {
        tensor **place = &to->node->grads[to->output];
        tensor *sum = *place ? op_add(*place, grad) : tensor_retain(grad);
        tensor_release(*place);
        tensor_release(grad);
        *place = sum;
    } else {
        tensor_release(grad);
    }
}

/* True if a gradient has arrived at the node: others do not contribute to the loss. */
static bool is_reached(const node *n)
{
    for (uint32_t i = 0; i < n->output_count; i++)
        if (n->grads[i])
            return true;
    return false;
}

/* Runs the gradient function of a node within the ranges that PyTorch shows for it. */
static void evaluate_node(node *n)
{
    tensor *grads[MAX_INPUTS] = {NULL};
    kineto_input inputs[MAX_OUTPUTS];
    kineto_function_info info = make_function_info(n, inputs);
    kineto_function frame, function;
    kineto_function_begin(&frame, n->type->frame, NULL, 0);
    kineto_function_begin_info(&function, n->type->function, &info);
    n->type->backward(n, n->grads, grads);
    kineto_function_end(&function);
    for (uint32_t i = 0; i < n->input_count; i++)
        if (grads[i] && !n->inputs[i].leaf)
            pass_gradient(&n->inputs[i], grads[i]);
    kineto_function_end(&frame);
    for (uint32_t i = 0; i < n->input_count; i++)
        if (grads[i] && n->inputs[i].leaf)
            pass_gradient(&n->inputs[i], grads[i]);
}

/* Evaluates all nodes from the last to the first: a node depends only on earlier ones. */
static void walk_tape(void)
{
    for (size_t i = tape_length; i-- > 0;) {
        if (is_reached(tape[i]))
            evaluate_node(tape[i]);
        clear_node(tape[i]);
    }
    for (size_t i = 0; i < tape_length; i++)
        free(tape[i]);
    tape_length = 0;
}

/* ---- its thread ------------------------------------------------------------------------------ */

static pthread_t engine;
static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t engine_changed = PTHREAD_COND_INITIALIZER;
static enum { ENGINE_ABSENT, ENGINE_IDLE, ENGINE_BUSY, ENGINE_ENDING } engine_state;

/* The engine's thread: waits for work, walks the tape, and reports back. */
static void *run_engine(void *unused)
{
    (void)unused;
    kineto_thread_set_name("autograd");
    grad_enable(false);
    pthread_mutex_lock(&engine_lock);
    while (engine_state != ENGINE_ENDING) {
        if (engine_state != ENGINE_BUSY) {
            pthread_cond_wait(&engine_changed, &engine_lock);
            continue;
        }
        pthread_mutex_unlock(&engine_lock);
        walk_tape();
        pthread_mutex_lock(&engine_lock);
        engine_state = ENGINE_IDLE;
        pthread_cond_broadcast(&engine_changed);
    }
    pthread_mutex_unlock(&engine_lock);
    return NULL;
}

/* Starts the thread at the first call. The main thread only waits, so that the tape needs no
 * lock. */
void grad_backward(tensor *loss)
{
    bool was = grad_enable(false);
    if (!loss->grad_node) {
        grad_enable(was);
        return;
    }
    loss->grad_node->grads[loss->grad_output] = op_ones_like(loss);
    pthread_mutex_lock(&engine_lock);
    if (engine_state == ENGINE_ABSENT && pthread_create(&engine, NULL, run_engine, NULL)) {
        fprintf(stderr, "transformer: cannot start the autograd thread\n");
        exit(1);
    }
    engine_state = ENGINE_BUSY;
    pthread_cond_broadcast(&engine_changed);
    while (engine_state == ENGINE_BUSY)
        pthread_cond_wait(&engine_changed, &engine_lock);
    pthread_mutex_unlock(&engine_lock);
    loss->grad_node = NULL;
    grad_enable(was);
}

/* Nodes that were never walked are freed as well. */
void grad_shutdown(void)
{
    pthread_mutex_lock(&engine_lock);
    bool is_running = engine_state != ENGINE_ABSENT;
    engine_state = ENGINE_ENDING;
    pthread_cond_broadcast(&engine_changed);
    pthread_mutex_unlock(&engine_lock);
    if (is_running)
        pthread_join(engine, NULL);
    for (size_t i = 0; i < tape_length; i++) {
        clear_node(tape[i]);
        free(tape[i]);
    }
    free(tape);
    tape = NULL;
    tape_length = tape_room = 0;
    engine_state = ENGINE_ABSENT;
}

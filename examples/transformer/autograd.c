/* The tape, the engine that walks it back, and the thread on which that happens. */
#include "autograd.h"
#include "ops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the tape ---------------------------------------------------------------------------------- */

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

static void append(node *n)
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
    append(n);
    return n;
}

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

/* What it holds goes as soon as it has run, so that memory falls on the way back. */
static void node_clear(node *n)
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

/* ---- the engine -------------------------------------------------------------------------------- */

static kineto_function_info info_of(const node *n, kineto_input *inputs)
{
    kineto_function_info info = KINETO_FUNCTION_INFO_INIT;
    for (uint32_t i = 0; i < n->output_count; i++)
        inputs[i] = in_tensor(n->grads[i]);
    info.inputs = inputs;
    info.input_count = n->output_count;
    info.sequence_number = n->sequence;
    info.forward_thread_id = n->forward_thread;
    info.modules = n->modules[0] ? n->modules : NULL;
    return info;
}

/* The gradient of a leaf is taken over, or added to what is there. */
static void accumulate(tensor *leaf, tensor *grad)
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

static void pass_on(const edge *to, tensor *grad)
{
    if (to->leaf) {
        accumulate(to->leaf, grad);
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

static bool is_reached(const node *n)
{
    for (uint32_t i = 0; i < n->output_count; i++)
        if (n->grads[i])
            return true;
    return false;
}

static void evaluate(node *n)
{
    tensor *grads[MAX_INPUTS] = {NULL};
    kineto_input inputs[MAX_OUTPUTS];
    kineto_function_info info = info_of(n, inputs);
    kineto_function frame, function;
    kineto_function_begin(&frame, n->type->frame, NULL, 0);
    kineto_function_begin_info(&function, n->type->function, &info);
    n->type->backward(n, n->grads, grads);
    kineto_function_end(&function);
    for (uint32_t i = 0; i < n->input_count; i++)
        if (grads[i] && !n->inputs[i].leaf)
            pass_on(&n->inputs[i], grads[i]);
    kineto_function_end(&frame);
    for (uint32_t i = 0; i < n->input_count; i++)
        if (grads[i] && n->inputs[i].leaf)
            pass_on(&n->inputs[i], grads[i]);
}

/* Nodes depend only on those before them. */
static void walk(void)
{
    for (size_t i = tape_length; i-- > 0;) {
        if (is_reached(tape[i]))
            evaluate(tape[i]);
        node_clear(tape[i]);
    }
    for (size_t i = 0; i < tape_length; i++)
        free(tape[i]);
    tape_length = 0;
}

/* ---- its thread -------------------------------------------------------------------------------- */

static pthread_t engine;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static enum { ABSENT, IDLE, BUSY, ENDING } state;

static void *serve(void *unused)
{
    (void)unused;
    kineto_thread_set_name("autograd");
    grad_enable(false);
    pthread_mutex_lock(&lock);
    while (state != ENDING) {
        if (state != BUSY) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        walk();
        pthread_mutex_lock(&lock);
        state = IDLE;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void grad_backward(tensor *loss)
{
    bool was = grad_enable(false);
    if (!loss->grad_node) {
        grad_enable(was);
        return;
    }
    loss->grad_node->grads[loss->grad_output] = op_ones_like(loss);
    pthread_mutex_lock(&lock);
    if (state == ABSENT && pthread_create(&engine, NULL, serve, NULL)) {
        fprintf(stderr, "transformer: there is no thread to be had\n");
        exit(1);
    }
    state = BUSY;
    pthread_cond_broadcast(&changed);
    while (state == BUSY)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    loss->grad_node = NULL;
    grad_enable(was);
}

void grad_shutdown(void)
{
    pthread_mutex_lock(&lock);
    bool runs = state != ABSENT;
    state = ENDING;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (runs)
        pthread_join(engine, NULL);
    for (size_t i = 0; i < tape_length; i++) {
        node_clear(tape[i]);
        free(tape[i]);
    }
    free(tape);
    tape = NULL;
    tape_length = tape_room = 0;
    state = ABSENT;
}

/* Callbacks of operators that show each as a range to an emitter. */
#include "profiler/emit.h"

#define KP_RANGE_BYTES     4096u /* of a range's text; more is cut off */
#define KP_RANGE_PRODUCERS 128u  /* that one range names */
#define KP_PRODUCER_PLACES 16384u
#define KP_PRODUCER_TRIES  8u

/* Which operator made a tensor. A thread that finds a place in use by another one goes on without:
 * then the producer is unknown. */
typedef struct producer_place {
    uint32_t busy; /* atomic */
    int32_t output;
    uint64_t tensor, op_id;
} producer_place;

struct kp_emission {
    const kp_emitter *emitter;
    bool shapes, with_text;
    producer_place *producers; /* KP_PRODUCER_PLACES, if shapes are said */
};

/* ---- who made what --------------------------------------------------------------------------- */

/* A tensor stands in one of few places; the last of these is taken from another one at need, so
 * that old tensors are forgotten and nothing grows. */
static void producer_set(kp_emission *e, uint64_t tensor, kp_producer by)
{
    uint64_t hash = kb_hash(&tensor, sizeof tensor);
    for (uint32_t i = 0; i < KP_PRODUCER_TRIES; i++) {
        producer_place *p = &e->producers[(hash + i) % KP_PRODUCER_PLACES];
        if (kb_exchange_acqrel(&p->busy, 1))
            return;
        bool mine = p->tensor == tensor || p->tensor == 0 || i == KP_PRODUCER_TRIES - 1;
        if (mine) {
            p->tensor = tensor;
            p->op_id = by.op_id;
            p->output = by.output;
        }
        kb_store_release(&p->busy, 0);
        if (mine)
            return;
    }
}

static kp_producer producer_of(kp_emission *e, uint64_t tensor)
{
    kp_producer found = {0, -1};
    uint64_t hash = kb_hash(&tensor, sizeof tensor);
    for (uint32_t i = 0; tensor && i < KP_PRODUCER_TRIES; i++) {
        producer_place *p = &e->producers[(hash + i) % KP_PRODUCER_PLACES];
        if (kb_exchange_acqrel(&p->busy, 1))
            break;
        bool last = p->tensor == tensor || p->tensor == 0;
        if (p->tensor == tensor)
            found = (kp_producer){p->op_id, p->output};
        kb_store_release(&p->busy, 0);
        if (last)
            break;
    }
    return found;
}

/* What tells a tensor from another: its id, else the memory that it views. */
static uint64_t tensor_key(const kineto_tensor *t)
{
    if (!t)
        return 0;
    return t->id ? t->id : t->storage_id;
}

static uint32_t producers_of(kp_emission *e, const kineto_function_view *f, kp_producer *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->input_count; i++) {
        const kineto_input *in = &f->inputs[i];
        uint32_t count = in->type == KINETO_INPUT_TENSORS && in->tensor ? in->count : 0;
        if (count == 0 && n < KP_RANGE_PRODUCERS)
            out[n++] = producer_of(e, in->type == KINETO_INPUT_TENSOR ? tensor_key(in->tensor) : 0);
        for (uint32_t k = 0; k < count && n < KP_RANGE_PRODUCERS; k++)
            out[n++] = producer_of(e, tensor_key(&in->tensor[k]));
    }
    return n;
}

static void remember_outputs(kp_emission *e, const kineto_function_view *f)
{
    for (uint32_t i = 0; f->outputs && i < f->output_count; i++) {
        const kineto_input *out = &f->outputs[i];
        uint64_t key = out->type == KINETO_INPUT_TENSOR ? tensor_key(out->tensor) : 0;
        if (key)
            producer_set(e, key, (kp_producer){f->id, (int32_t)i});
    }
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Ranges of a tool belong to threads: what may end on another one is shown as a moment. */
static void *show(const kp_emission *e, const kineto_function_view *f, const char *text)
{
    if (!f->is_async)
        return e->emitter->push(text) ? (void *)(uintptr_t)e : NULL;
    e->emitter->mark(text);
    return NULL;
}

static void *enter(const kineto_function_view *f, void *user)
{
    kp_emission *e = user;
    if (!e->with_text)
        return show(e, f, f->name);
    char text[KP_RANGE_BYTES];
    kp_producer producers[KP_RANGE_PRODUCERS];
    kp_range_info info = {.name = f->name, .sequence_number = f->sequence_number, .op_id = f->id};
    if (e->shapes && f->inputs) {
        info.inputs = f->inputs;
        info.input_count = f->input_count;
        info.producers = producers;
        info.producer_count = producers_of(e, f, producers);
    }
    (void)kp_range_text(text, sizeof text, &info);
    return show(e, f, text);
}

/* What the tool was not told of is not ended: before it was opened, or while it was off. */
static void leave(const kineto_function_view *f, void *context, void *user)
{
    kp_emission *e = user;
    if (context)
        e->emitter->pop();
    if (e->shapes)
        remember_outputs(e, f);
}

kineto_status kp_emission_open(const kp_emitter *emitter, bool shapes, kp_emission **out,
                               kineto_error *err)
{
    kineto_status status = emitter->open(err);
    if (status != KINETO_OK)
        return status;
    kp_emission *e = calloc(1, sizeof *e);
    if (!e)
        return kb_fail(err, KINETO_E_MEMORY, "%s: out of memory", emitter->name);
    e->emitter = emitter;
    e->with_text = emitter != &kp_itt_emitter; /* names of tasks are kept: they must be few */
    e->shapes = shapes && e->with_text;
    e->producers = e->shapes ? calloc(KP_PRODUCER_PLACES, sizeof *e->producers) : NULL;
    if (e->shapes && !e->producers) {
        free(e);
        return kb_fail(err, KINETO_E_MEMORY, "%s: out of memory", emitter->name);
    }
    *out = e;
    return KINETO_OK;
}

kineto_function_callback kp_emission_callback(kp_emission *emission, uint32_t scopes)
{
    kineto_function_callback c = KINETO_FUNCTION_CALLBACK_INIT;
    c.enter = enter;
    c.exit = leave;
    c.user = emission;
    c.scopes = scopes;
    c.needs_ids = emission->with_text;
    c.needs_inputs = c.needs_outputs = emission->shapes;
    return c;
}

void kp_emission_free(kp_emission *emission)
{
    if (emission)
        free(emission->producers);
    free(emission);
}

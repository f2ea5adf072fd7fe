/* Callbacks of operators that show each as a range to an emitter (emit.h). With shapes the text
 * also names the operators that produced the inputs, which a table of recent tensors remembers. */
#include "profiler/emit.h"

/* Bytes of a range's text; the rest is cut off. */
#define KP_RANGE_BYTES 4096u
/* Producers that one range names. */
#define KP_RANGE_PRODUCERS 128u
/* Size of the table of tensors, and slots that are tried for one of them. */
#define KP_PRODUCER_SLOTS 16384u
#define KP_PRODUCER_TRIES 8u

/* The operator that produced a tensor. `busy` is a try-lock: a thread that finds the slot locked
 * does not wait, and the producer stays unknown. */
typedef struct producer_slot {
    uint32_t busy; /* atomic */
    int32_t output;
    uint64_t tensor, op_id;
} producer_slot;

struct kp_emission {
    const kp_emitter *emitter;
    bool shapes, with_text;
    producer_slot *producers; /* KP_PRODUCER_SLOTS of them; NULL without shapes */
};

/* ---- producers of tensors -------------------------------------------------------------------- */

/* Stores the producer of a tensor in one of KP_PRODUCER_TRIES slots. If all are used the last one
 * is overwritten: old tensors are forgotten and the table never grows. */
static void remember_producer(kp_emission *e, uint64_t tensor, kp_producer by)
{
    KB_ASSERT(tensor && e->producers);
    uint64_t hash = kb_hash(&tensor, sizeof tensor);
    for (uint32_t i = 0; i < KP_PRODUCER_TRIES; i++) {
        producer_slot *p = &e->producers[(hash + i) % KP_PRODUCER_SLOTS];
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

/* The producer of a tensor; {0, -1}: unknown. */
static kp_producer find_producer(kp_emission *e, uint64_t tensor)
{
    kp_producer found = {0, -1};
    uint64_t hash = kb_hash(&tensor, sizeof tensor);
    for (uint32_t i = 0; tensor && i < KP_PRODUCER_TRIES; i++) {
        producer_slot *p = &e->producers[(hash + i) % KP_PRODUCER_SLOTS];
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

/* Identifies a tensor: its id, else the memory that it views; 0: neither is known. */
static uint64_t tensor_key(const kineto_tensor *t)
{
    if (!t)
        return 0;
    return t->id ? t->id : t->storage_id;
}

/* The producers of all input tensors, in the order of kp_range_text; returns their number. */
static uint32_t collect_producers(kp_emission *e, const kineto_function_view *f, kp_producer *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->input_count; i++) {
        const kineto_input *in = &f->inputs[i];
        uint32_t count = in->type == KINETO_INPUT_TENSORS && in->tensor ? in->count : 0;
        if (count == 0 && n < KP_RANGE_PRODUCERS)
            out[n++] =
                find_producer(e, in->type == KINETO_INPUT_TENSOR ? tensor_key(in->tensor) : 0);
        for (uint32_t k = 0; k < count && n < KP_RANGE_PRODUCERS; k++)
            out[n++] = find_producer(e, tensor_key(&in->tensor[k]));
    }
    return n;
}

static void remember_outputs(kp_emission *e, const kineto_function_view *f)
{
    for (uint32_t i = 0; f->outputs && i < f->output_count; i++) {
        const kineto_input *out = &f->outputs[i];
        uint64_t key = out->type == KINETO_INPUT_TENSOR ? tensor_key(out->tensor) : 0;
        if (key)
            remember_producer(e, key, (kp_producer){f->id, (int32_t)i});
    }
}

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Shows one operator. Returns a non-NULL context if a range was pushed. Ranges belong to threads:
 * an operator that may end on another thread is shown as a moment. */
static void *emit_range(const kp_emission *e, const kineto_function_view *f, const char *text)
{
    if (!f->is_async)
        return e->emitter->push(text) ? (void *)(uintptr_t)e : NULL;
    e->emitter->mark(text);
    return NULL;
}

static void *on_emitted_enter(const kineto_function_view *f, void *user)
{
    kp_emission *e = user;
    if (!e->with_text)
        return emit_range(e, f, f->name);
    char text[KP_RANGE_BYTES];
    kp_producer producers[KP_RANGE_PRODUCERS];
    kp_range_info info = {.name = f->name, .sequence_number = f->sequence_number, .op_id = f->id};
    if (e->shapes && f->inputs) {
        info.inputs = f->inputs;
        info.input_count = f->input_count;
        info.producers = producers;
        info.producer_count = collect_producers(e, f, producers);
    }
    (void)kp_range_text(text, sizeof text, &info);
    return emit_range(e, f, text);
}

/* Without a context nothing was pushed at the begin, so nothing is popped. */
static void on_emitted_exit(const kineto_function_view *f, void *context, void *user)
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
    e->with_text = emitter != &kp_itt_emitter; /* ITT keeps each name forever */
    e->shapes = shapes && e->with_text;
    e->producers = e->shapes ? calloc(KP_PRODUCER_SLOTS, sizeof *e->producers) : NULL;
    if (e->shapes && !e->producers) {
        free(e);
        return kb_fail(err, KINETO_E_MEMORY, "%s: out of memory", emitter->name);
    }
    *out = e;
    return KINETO_OK;
}

kineto_function_callback kp_emission_callback(kp_emission *emission, uint32_t scopes)
{
    kineto_function_callback c;
    kineto_function_callback_init(&c);
    c.enter = on_emitted_enter;
    c.exit = on_emitted_exit;
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

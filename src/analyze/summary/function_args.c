/* What arguments say about function events: shapes of inputs, stacks, FLOPs. One walk over all. */
#include "analyze/summary/flops.h"
#include "analyze/summary/summary.h"
#include "trace/bytes/json_value.h"

/* ---- stacks: chains of frames, each there once ----------------------------------------------- */

bool ka_stacks_create(ka_stacks *s)
{
    return kb_intern_id(&s->texts, kb_string("")) == 0 &&
           kb_vec_push(&s->frames, (ka_stack_frame){0, 0, 0});
}

void ka_stacks_free(ka_stacks *s)
{
    kb_intern_free(&s->texts);
    kb_vec_free(&s->frames);
    kb_map_free(&s->by_key);
}

uint32_t ka_stacks_push(ka_stacks *s, uint32_t parent, uint32_t text)
{
    bool created;
    uint64_t *frame =
        kb_map_insert(&s->by_key, (uint64_t)parent << 32 | text, s->frames.count, &created);
    if (!frame || s->frames.count >= UINT32_MAX)
        return UINT32_MAX;
    uint32_t found = (uint32_t)*frame;
    if (created &&
        !kb_vec_push(&s->frames, (ka_stack_frame){parent, text, s->frames.data[parent].depth + 1}))
        return UINT32_MAX;
    return found;
}

/* Frames of the machinery of backward and of PyTorch's own tests say nothing. */
bool ka_is_shown_frame(kineto_string frame)
{
    static const char *const hidden[][2] = {{"autograd/__init__", "_make_grads"},
                                            {"autograd/__init__", "backward"},
                                            {"torch/tensor", "backward"},
                                            {"_internal/common_utils", "prof_callable"},
                                            {"_internal/common_utils", "prof_func_call"},
                                            {"_internal/common_utils", "prof_meth_call"}};
    for (size_t i = 0; i < KB_COUNT(hidden); i++)
        if (kb_string_holds(frame, hidden[i][0]) && kb_string_holds(frame, hidden[i][1]))
            return false;
    return true;
}

/* "inner;outer;": read from the end, so that outer frames are shared. */
static uint32_t stack_of_text(ka_stacks *s, kineto_string text)
{
    uint32_t at = 0;
    size_t end = text.size;
    while (end && text.data[end - 1] == ';')
        end--;
    while (end && at != UINT32_MAX) {
        size_t start = end;
        while (start && text.data[start - 1] != ';')
            start--;
        kineto_string frame = {text.data + start, end - start};
        end = start ? start - 1 : 0;
        if (!frame.size || !ka_is_shown_frame(frame))
            continue;
        uint32_t id = kb_intern_id(&s->texts, frame);
        at = id == KB_INTERN_NONE ? UINT32_MAX : ka_stacks_push(s, at, id);
    }
    return at;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* "[[2,3],[[1],[2]]]" as PyTorch groups and prints it, "[[2, 3], []]": of lists of tensors it only
 * knows that they are there. At most twice as long. */
static size_t shapes_text(kineto_string json, char *out)
{
    kt_items items = kt_items_of(json);
    kineto_string item;
    size_t used = 0;
    if (!items.is_list)
        return kt_sizes_text(json, out);
    out[used++] = '[';
    while (kt_items_next(&items, &item)) {
        if (used > 1)
            used = (size_t)((char *)memcpy(out + used, ", ", 2) + 2 - out);
        bool of_tensors = kt_value_is_list(item) && kt_value_is_list(kt_item_at(item, 0));
        used += kt_sizes_text(of_tensors ? kb_string("[]") : item, out + used);
    }
    out[used++] = ']';
    return used;
}

static uint32_t shapes_id(kb_intern *texts, kineto_string json)
{
    char small[512], *text = json.size * 2 <= sizeof small ? small : malloc(json.size * 2);
    if (!text)
        return KB_INTERN_NONE;
    uint32_t id = kb_intern_id(texts, (kineto_string){text, shapes_text(json, text)});
    if (text != small)
        free(text);
    return id;
}

/* ---- the walk -------------------------------------------------------------------------------- */

typedef struct reading {
    const kineto_function_events *e;
    ka_event_arguments *out;
    uint32_t no_shapes;
    kb_intern stack_texts; /* whole texts, and by their ids the frames */
    KB_VEC(uint32_t) stack_of_text;
} reading;

static bool read_stack(reading *r, uint32_t event, kineto_string text)
{
    uint32_t id = kb_intern_id(&r->stack_texts, text);
    if (id == KB_INTERN_NONE)
        return false;
    while (r->stack_of_text.count <= id) { /* ids are dense, and the first one is "" */
        kineto_string next = kb_intern_get(&r->stack_texts, (uint32_t)r->stack_of_text.count);
        uint32_t stack = stack_of_text(&r->out->stacks, next);
        if (!kb_vec_push(&r->stack_of_text, stack))
            return false;
    }
    r->out->stack[event] = r->stack_of_text.data[id];
    return r->out->stack[event] != UINT32_MAX;
}

static int64_t number_of(const kineto_arg *arg, int64_t otherwise)
{
    int64_t number;
    return kt_arg_whole(arg, &number) ? number : otherwise;
}

static bool read_arg(reading *r, uint32_t event, const kineto_arg *arg)
{
    ka_event_arguments *out = r->out;
    if (out->shapes && arg->type >= KINETO_ARG_STRING &&
        (kb_string_equal(arg->key, kb_string("Input Dims")) ||
         kb_string_equal(arg->key, kb_string("Input dims")))) {
        out->shapes[event] = shapes_id(&out->shape_texts, arg->text);
        return out->shapes[event] != KB_INTERN_NONE;
    }
    if (!out->stack)
        return true;
    if (kb_string_equal(arg->key, kb_string("Call stack")) && arg->type == KINETO_ARG_STRING)
        return read_stack(r, event, arg->text);
    if (kb_string_equal(arg->key, kb_string("Sequence number")))
        out->sequence[event] = number_of(arg, -1);
    else if (kb_string_equal(arg->key, kb_string("Fwd thread id")))
        out->forward[event] = (uint32_t)number_of(arg, 0);
    return true;
}

static bool read_event(reading *r, uint32_t event)
{
    const kineto_function_events *e = r->e;
    kineto_args_iterator it;
    kineto_arg arg;
    if (r->out->shapes || r->out->stack) {
        kineto_args_begin(e->trace, e->row[event], &it);
        while (kineto_args_next(&it, &arg))
            if (!read_arg(r, event, &arg))
                return false;
    }
    if (r->out->flops && e->kind[event] == KINETO_KIND_CPU_OP)
        (void)ka_flops(e->trace, e->row[event], &r->out->flops[event]); /* else it stays 0 */
    return true;
}

/* In the order of rows, in which arguments in compressed files are had cheaply. */
static bool read_all(reading *r)
{
    const kineto_function_events *e = r->e;
    uint64_t rows = kineto_trace_count(e->trace);
    uint32_t *event_of = malloc(ka_column_bytes(rows, sizeof *event_of));
    if (!event_of)
        return false;
    memset(event_of, 0xff, ka_column_bytes(rows, sizeof *event_of));
    for (uint32_t i = 0; i < e->count; i++)
        event_of[e->row[i]] = i;
    bool ok = true;
    for (uint64_t row = 0; ok && row < rows; row++)
        if (event_of[row] != UINT32_MAX)
            ok = read_event(r, event_of[row]);
    free(event_of);
    return ok;
}

static bool allocate(reading *r)
{
    ka_event_arguments *out = r->out;
    size_t count = KB_MAX(r->e->count, 1u);
    if (out->want & KA_WANT_SHAPES) {
        r->no_shapes = kb_intern_id(&out->shape_texts, kb_string("[]"));
        out->shapes = malloc(count * sizeof *out->shapes);
        for (size_t i = 0; out->shapes && i < count; i++)
            out->shapes[i] = r->no_shapes;
        if (!out->shapes || r->no_shapes == KB_INTERN_NONE)
            return false;
    }
    if (out->want & KA_WANT_FLOPS && !(out->flops = calloc(count, sizeof *out->flops)))
        return false;
    if (!(out->want & KA_WANT_STACKS))
        return true;
    out->stack = calloc(count, sizeof *out->stack);
    out->sequence = malloc(count * sizeof *out->sequence);
    out->forward = calloc(count, sizeof *out->forward);
    if (!out->stack || !out->sequence || !out->forward)
        return false;
    memset(out->sequence, 0xff, count * sizeof *out->sequence);
    return ka_stacks_create(&out->stacks);
}

static bool make_stacks(const kineto_function_events *e, ka_event_arguments *out)
{
    if (!out->stack)
        return true;
    if (!e->as_torch && out->stacks.frames.count == 1 && !ka_stacks_from_python(e, out))
        return false;
    bool ok = out->stacks.frames.count == 1 || ka_stacks_from_forward(e, out);
    free(out->sequence);
    free(out->forward);
    out->sequence = NULL;
    out->forward = NULL;
    return ok;
}

kineto_status ka_event_arguments_read(const kineto_function_events *e, uint32_t want,
                                      ka_event_arguments *out, kineto_error *err)
{
    *out = (ka_event_arguments){.want = want};
    reading r = {.e = e, .out = out};
    bool ok = !want || (allocate(&r) && read_all(&r) && make_stacks(e, out));
    kb_intern_free(&r.stack_texts);
    kb_vec_free(&r.stack_of_text);
    if (ok)
        return KINETO_OK;
    ka_event_arguments_free(out);
    return kb_fail(err, KINETO_E_MEMORY, "no memory for the arguments of functions");
}

void ka_event_arguments_free(ka_event_arguments *a)
{
    kb_intern_free(&a->shape_texts);
    ka_stacks_free(&a->stacks);
    free(a->shapes);
    free(a->stack);
    free(a->flops);
    free(a->sequence);
    free(a->forward);
    memset(a, 0, sizeof *a);
}

/* Arguments of function events: shapes of inputs, call stacks and FLOPs, read in one pass over the
 * rows. Shapes and stacks are interned, so that grouping compares numbers. */
#include "analyze/summary/flops.h"
#include "analyze/summary/summary.h"
#include "trace/bytes/json_value.h"

/* ---- stacks: chains of interned frames ------------------------------------------------------- */

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
    KB_ASSERT(parent < s->frames.count);
    uint32_t found = (uint32_t)*frame;
    if (created &&
        !kb_vec_push(&s->frames, (ka_stack_frame){parent, text, s->frames.data[parent].depth + 1}))
        return UINT32_MAX;
    return found;
}

/* False for frames of the backward machinery and of PyTorch's own tests, which PyTorch hides. */
bool ka_is_shown_frame(kineto_string frame)
{
    static const char *const hidden[][2] = {{"autograd/__init__", "_make_grads"},
                                            {"autograd/__init__", "backward"},
                                            {"torch/tensor", "backward"},
                                            {"_internal/common_utils", "prof_callable"},
                                            {"_internal/common_utils", "prof_func_call"},
                                            {"_internal/common_utils", "prof_meth_call"}};
    for (size_t i = 0; i < KB_COUNT(hidden); i++)
        if (kb_string_contains(frame, hidden[i][0]) && kb_string_contains(frame, hidden[i][1]))
            return false;
    return true;
}

/* Parses "inner;outer;" from the end, so that stacks share their outer frames. UINT32_MAX: out of
 * memory. */
static uint32_t parse_stack(ka_stacks *s, kineto_string text)
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

/* Writes "[[2,3],[[1],[2]]]" as PyTorch groups and prints it, "[[2, 3], []]": it does not show the
 * sizes of lists of tensors. The result is at most twice as long. */
static size_t format_shapes(kineto_string json, char *out)
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

/* Id of the formatted shapes; KB_INTERN_NONE: out of memory. */
static uint32_t intern_shapes(kb_intern *texts, kineto_string json)
{
    char small[512], *text = json.size * 2 <= sizeof small ? small : malloc(json.size * 2);
    if (!text)
        return KB_INTERN_NONE;
    uint32_t id = kb_intern_id(texts, (kineto_string){text, format_shapes(json, text)});
    if (text != small)
        free(text);
    return id;
}

/* ---- the pass over all rows ------------------------------------------------------------------ */

/* The state of the pass. */
typedef struct args_reader {
    const kineto_function_events *e;
    ka_event_arguments *out;
    uint32_t no_shapes; /* id of "[]" */
    /* Whole texts of stacks, and by their ids the parsed stack: most texts occur often. */
    kb_intern stack_texts;
    KB_VEC(uint32_t) stack_of_text;
} args_reader;

/* Parses each different text of a stack once. */
static bool read_stack_arg(args_reader *r, uint32_t event, kineto_string text)
{
    uint32_t id = kb_intern_id(&r->stack_texts, text);
    if (id == KB_INTERN_NONE)
        return false;
    while (r->stack_of_text.count <= id) { /* ids are dense, and the first one is "" */
        kineto_string next = kb_intern_get(&r->stack_texts, (uint32_t)r->stack_of_text.count);
        uint32_t stack = parse_stack(&r->out->stacks, next);
        if (!kb_vec_push(&r->stack_of_text, stack))
            return false;
    }
    r->out->stack[event] = r->stack_of_text.data[id];
    return r->out->stack[event] != UINT32_MAX;
}

static int64_t whole_number_or(const kineto_arg *arg, int64_t otherwise)
{
    int64_t number;
    return kt_arg_whole(arg, &number) ? number : otherwise;
}

/* Stores one argument if its column is wanted. False: out of memory. */
static bool read_event_arg(args_reader *r, uint32_t event, const kineto_arg *arg)
{
    ka_event_arguments *out = r->out;
    if (out->shapes && arg->type >= KINETO_ARG_STRING &&
        (kb_string_equal(arg->key, kb_string("Input Dims")) ||
         kb_string_equal(arg->key, kb_string("Input dims")))) {
        out->shapes[event] = intern_shapes(&out->shape_texts, arg->text);
        return out->shapes[event] != KB_INTERN_NONE;
    }
    if (!out->stack)
        return true;
    if (kb_string_equal(arg->key, kb_string("Call stack")) && arg->type == KINETO_ARG_STRING)
        return read_stack_arg(r, event, arg->text);
    if (kb_string_equal(arg->key, kb_string("Sequence number")))
        out->sequence[event] = whole_number_or(arg, -1);
    else if (kb_string_equal(arg->key, kb_string("Fwd thread id")))
        out->forward[event] = (uint32_t)whole_number_or(arg, 0);
    return true;
}

static bool read_event_args(args_reader *r, uint32_t event)
{
    const kineto_function_events *e = r->e;
    kineto_args_iterator it;
    kineto_arg arg;
    if (r->out->shapes || r->out->stack) {
        kineto_args_begin(e->trace, e->row[event], &it);
        while (kineto_args_next(&it, &arg))
            if (!read_event_arg(r, event, &arg))
                return false;
    }
    if (r->out->flops && e->kind[event] == KINETO_KIND_CPU_OP)
        (void)ka_flops(e->trace, e->row[event], &r->out->flops[event]); /* 0 if unknown */
    return true;
}

/* Reads in the order of rows, so that each part of a compressed file is decompressed once. */
static bool read_all_args(args_reader *r)
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
            ok = read_event_args(r, event_of[row]);
    free(event_of);
    return ok;
}

/* Allocates the wanted columns with the value of an event that has no such argument. */
static bool allocate_arg_columns(args_reader *r)
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

/* Fills in stacks that the trace does not contain (function_stacks.c) and frees what only that
 * needed. */
static bool complete_stacks(const kineto_function_events *e, ka_event_arguments *out)
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
    args_reader r = {.e = e, .out = out};
    bool ok = !want || (allocate_arg_columns(&r) && read_all_args(&r) && complete_stacks(e, out));
    kb_intern_free(&r.stack_texts);
    kb_vec_free(&r.stack_of_text);
    if (ok)
        return KINETO_OK;
    ka_event_arguments_free(out);
    return kb_fail_memory(err, "arguments of functions");
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

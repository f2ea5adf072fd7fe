/* Calls of operators: which of them have the same name, input sizes and stack, and the FLOPs of
 * each, from one walk over the arguments of each row. Sizes and stacks are interned, and
 * formulas are evaluated once for each distinct call, because programs repeat the same calls in
 * every step. */
#include "analyze/dataset/attribution.h"

#include "analyze/summary/flops.h"

#define STACK_FRAMES 8u /* of Python's functions, where the trace has no text of a stack */

/* The order of keys. */
enum { DIMS, OLD_DIMS, STACK, VALUES, TEXTS };

typedef struct counted {
    uint64_t flops;
    uint8_t answer; /* ka_flops_result; 0: not yet */
} counted;
typedef KB_VEC(counted) counted_list;

typedef struct reading {
    const ka_dataset *s;
    ka_operator_calls *in;
    bool calls, flops;          /* which of them are wanted */
    uint64_t *rows;             /* bits by row: operators to read */
    uint8_t *inputs;            /* by name: 1 + ka_flops_needs; 0: not known yet */
    const ka_flops_rule **rule; /* by name */
    KB_VEC(uint8_t) key;        /* of a call */
    counted_list by_call;       /* of formulas that need sizes only */
    kb_intern values;           /* a call, and what values its inputs had */
    counted_list by_values;     /* by id in it */
    kb_map frames;
    kineto_row last_python; /* … and its stack */
    uint32_t last_stack;
    bool has_python, has_dims;
} reading;

/* ---- stacks --------------------------------------------------------------------------------- */

/* Id of a stack as the file has it; 0: none. */
static uint32_t stack_text(reading *r, kineto_string raw)
{
    uint32_t id = raw.size ? kb_intern_id(&r->in->stacks, raw) : 0;
    r->in->no_memory |= id == KB_INTERN_NONE;
    return id;
}

/* The innermost function of Python around a row. */
static kineto_row python_around(const kineto_trace *t, kineto_row row)
{
    kineto_row p = kineto_trace_parent(t, row);
    while (p != KINETO_NO_ROW && kt_block_at(t, p / KT_BLOCK_ROWS)->kind[p % KT_BLOCK_ROWS] !=
                                     KINETO_KIND_PYTHON_FUNCTION)
        p = kineto_trace_parent(t, p);
    return p;
}

/* Id of a stack of Python functions, innermost first; names are cut at 255 bytes. The text is
 * only built for new stacks. */
static uint32_t stack_of_names(reading *r, const uint32_t *names, uint32_t count)
{
    char text[STACK_FRAMES * 256];
    size_t n = 0;
    bool created;
    uint64_t *id = kb_map_insert(&r->frames, kb_hash(names, count * sizeof *names), 0, &created);
    for (uint32_t i = 0; id && created && i < count; i++) {
        kineto_string name = kineto_trace_string(r->s->trace, names[i]);
        size_t size = KB_MIN(name.size, (size_t)255);
        memcpy(text + n, name.data, size);
        n += size;
        text[n++] = ';';
    }
    if (id && created)
        *id = kb_intern_id(&r->in->stacks, (kineto_string){text, n ? n - 1 : 0});
    r->in->no_memory |= !id || *id == KB_INTERN_NONE;
    return id ? (uint32_t)*id : 0;
}

/* As PyTorch writes stacks. Operators that follow one another are mostly called by the same
 * function. */
static uint32_t python_stack(reading *r, kineto_row row)
{
    const kineto_trace *t = r->s->trace;
    uint32_t names[STACK_FRAMES], count = 0;
    kineto_row innermost = python_around(t, row);
    if (innermost == KINETO_NO_ROW || innermost == r->last_python)
        return innermost == KINETO_NO_ROW ? 0 : r->last_stack;
    for (kineto_row p = innermost; p != KINETO_NO_ROW && count < STACK_FRAMES;
         p = python_around(t, p))
        names[count++] = kt_block_at(t, p / KT_BLOCK_ROWS)->name[p % KT_BLOCK_ROWS];
    r->last_python = innermost;
    return r->last_stack = stack_of_names(r, names, count);
}

/* The recorded stack, else that of the Python functions around the row. */
static uint32_t stack_of(reading *r, kineto_row row, kineto_string raw)
{
    uint32_t stack = stack_text(r, raw);
    return !stack && r->has_python ? python_stack(r, row) : stack;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* A text after two numbers, in one piece; lists of sizes in one spelling. */
static kineto_string build_call_key(reading *r, uint32_t a, uint32_t b, kineto_string text,
                                    bool sizes)
{
    if (!kb_vec_reserve(&r->key, KA_CALL_HEAD + 2 * text.size)) {
        r->in->no_memory = true;
        return (kineto_string){"", 0};
    }
    char *out = (char *)r->key.data + KA_CALL_HEAD;
    memcpy(r->key.data, &a, sizeof a);
    memcpy(r->key.data + sizeof a, &b, sizeof b);
    if (text.size && !sizes)
        memcpy(out, text.data, text.size);
    size_t size = sizes ? kt_sizes_text(text, out) : text.size;
    return (kineto_string){(const char *)r->key.data, KA_CALL_HEAD + size};
}

/* Id of a call by name, stack and sizes. */
static uint32_t find_call(reading *r, uint32_t name, uint32_t stack, kineto_string shapes)
{
    uint32_t id = kb_intern_id(&r->in->calls, build_call_key(r, name, stack, shapes, true));
    r->in->no_memory |= id == KB_INTERN_NONE;
    return id;
}

/* ---- FLOPs ---------------------------------------------------------------------------------- */

/* What a formula for this operator needs to read, computed once per name. */
static ka_flops_needs flops_input_of(reading *r, uint32_t name)
{
    uint8_t *known = &r->inputs[name];
    if (!*known)
        *known = (uint8_t)(1 + ka_flops_needs_of(ka_name(r->s, name), &r->rule[name]));
    return (ka_flops_needs)(*known - 1);
}

/* The cached result of an id; grows the list. NULL: out of memory. */
static counted *counted_of(reading *r, counted_list *list, uint32_t id)
{
    static const counted none;
    if (id == KB_INTERN_NONE || !kb_vec_reserve(list, (size_t)id + 1)) {
        r->in->no_memory = true;
        return NULL;
    }
    while (list->count <= id)
        list->data[list->count++] = none;
    return &list->data[id];
}

/* Formulas need sizes, some also values: calls with equal ones are evaluated once. */
static ka_flops_result count_once(reading *r, uint32_t name, uint32_t call,
                                  const kineto_string *texts, uint64_t *flops)
{
    bool by_values = texts[VALUES].size > 0;
    uint32_t id = by_values
                      ? kb_intern_id(&r->values, build_call_key(r, call, 0, texts[VALUES], false))
                      : call;
    counted *c = counted_of(r, by_values ? &r->by_values : &r->by_call, id);
    if (!c)
        return KA_FLOPS_UNKNOWN;
    if (!c->answer)
        c->answer = (uint8_t)ka_flops_texts(r->rule[name], texts[DIMS], texts[VALUES], &c->flops);
    *flops = c->flops;
    return (ka_flops_result)c->answer;
}

static void set_bit(uint64_t *bits, size_t i) { bits[i / 64] |= UINT64_C(1) << i % 64; }

/* FLOPs of one row, or its `unusable` bit. */
static void put_flops(reading *r, kineto_row row, uint32_t name, uint32_t call,
                      const kineto_string *texts)
{
    uint64_t flops = 0;
    ka_flops_needs needs = flops_input_of(r, name);
    ka_flops_result answer = KA_FLOPS_UNKNOWN;
    if (needs == KA_FLOPS_NEEDS_ROW)
        answer = ka_flops_row(r->s->trace, row, &flops);
    else if (needs != KA_FLOPS_NEEDS_NOTHING)
        answer = count_once(r, name, call, texts, &flops);
    if (flops)
        r->in->flops[row] = flops;
    if (answer == KA_FLOPS_UNUSABLE)
        set_bit(r->in->unusable, row);
}

/* ---- rows ----------------------------------------------------------------------------------- */

#define SIZES KA_KEY("Input Dims"), KA_KEY("Input dims"), KA_KEY("Call stack")
static const ka_keys sizes = {STACK + 1, {'I', 'C', 'I', 'C'}, {SIZES}},
                     sizes_and_values = {
                         TEXTS, {'I', 'C', 'I', 'C'}, {SIZES, KA_KEY("Concrete Inputs")}};

/* Reads the arguments of one operator and stores its call id and FLOPs. */
static void read_row(reading *r, kineto_row row, uint32_t name)
{
    ka_flops_needs needs = r->flops ? flops_input_of(r, name) : KA_FLOPS_NEEDS_NOTHING;
    kineto_string texts[TEXTS] = {[VALUES] = {"", 0}};
    if (!r->calls && needs == KA_FLOPS_NEEDS_NOTHING)
        return;
    ka_arg_texts(r->s->trace, row, needs == KA_FLOPS_NEEDS_VALUES ? &sizes_and_values : &sizes, texts);
    r->has_dims |= texts[DIMS].size > 0;
    kineto_string shapes = r->has_dims ? texts[DIMS] : texts[OLD_DIMS]; /* none has both */
    bool with_stack = r->calls && !r->s->definitions->calls_of_shown_operators;
    uint32_t stack = with_stack ? stack_of(r, row, texts[STACK]) : 0;
    uint32_t call = find_call(r, name, stack, shapes);
    if (r->calls)
        r->in->call_of[row] = call;
    if (needs != KA_FLOPS_NEEDS_NOTHING && !r->in->no_memory)
        put_flops(r, row, name, call, texts);
}

/* In the order of rows, so that each part of a compressed file is inflated once. */
static void read_rows(reading *r)
{
    const kineto_trace *t = r->s->trace;
    size_t words = ((size_t)kineto_trace_count(t) + 63) / 64;
    for (size_t w = 0; w < words && !r->in->no_memory; w++)
        for (uint64_t bits = r->rows[w]; bits; bits &= bits - 1) {
            kineto_row row = (kineto_row)(w * 64 + (size_t)__builtin_ctzll(bits));
            read_row(r, row, kt_block_at(t, row / KT_BLOCK_ROWS)->name[row % KT_BLOCK_ROWS]);
        }
}

/* Marks the rows of operators in the dataset. */
static void mark_slices(reading *r)
{
    for (uint32_t i = 0; i < r->s->slice_count; i++) {
        uint8_t kind = r->s->slices[i].kind;
        r->has_python |= kind == KINETO_KIND_PYTHON_FUNCTION;
        if (kind == KINETO_KIND_CPU_OP)
            set_bit(r->rows, r->s->slices[i].row);
    }
}

/* Calls of the operators that the tree shows, which may be other rows than those of kind cpu_op. FLOPs are
 * counted of the latter, in a pass of their own. */
static void read_shown_calls(reading *r, const ka_op_list *ops)
{
    bool flops = r->flops;
    for (uint32_t i = 0; i < ops->count; i++)
        if (ops->data[i].shown)
            set_bit(r->rows, ops->data[i].row);
    r->flops = false;
    read_rows(r);
    memset(r->rows, 0,
           (size_t)kineto_trace_count(r->s->trace) / 64 * sizeof *r->rows + sizeof *r->rows);
    r->flops = flops;
    r->calls = false;
}

/* Arrays by row are only as large as the parts need. Id 0 is reserved for none. */
static bool allocate_call_arrays(reading *r)
{
    size_t rows = (size_t)kineto_trace_count(r->s->trace) + 1, words = rows / 64 + 1,
           names = (size_t)r->s->name_count + 1;
    r->rows = calloc(words, sizeof *r->rows);
    r->inputs = calloc(names, sizeof *r->inputs);
    r->rule = calloc(names, sizeof *r->rule);
    r->in->call_of = kb_array_zeroed(r->calls ? rows : 1, sizeof *r->in->call_of);
    r->in->flops = kb_array_zeroed(r->flops ? rows : 1, sizeof *r->in->flops);
    r->in->unusable = calloc(r->flops ? words : 1, sizeof *r->in->unusable);
    return r->rows && r->inputs && r->rule && r->in->call_of && r->in->flops && r->in->unusable &&
           kb_intern_id(&r->in->calls, kb_string("")) == 0 &&
           kb_intern_id(&r->in->stacks, kb_string("")) == 0;
}

static void reading_free(reading *r)
{
    free(r->rows);
    free(r->inputs);
    free(r->rule);
    kb_vec_free(&r->key);
    kb_intern_free(&r->values);
    kb_vec_free(&r->by_call);
    kb_vec_free(&r->by_values);
    kb_map_free(&r->frames);
}

/* ---- all of it ------------------------------------------------------------------------------ */

ka_operator_calls *ka_inputs_create(uint32_t parts)
{
    ka_operator_calls *in = calloc(1, sizeof *in);
    if (!in)
        return NULL;
    pthread_mutex_init(&in->lock, NULL);
    in->parts = parts;
    return in;
}

void ka_inputs_free(ka_operator_calls *in)
{
    if (!in)
        return;
    kb_intern_free(&in->calls);
    kb_intern_free(&in->stacks);
    free(in->call_of);
    free(in->flops);
    free(in->unusable);
    pthread_mutex_destroy(&in->lock);
    free(in);
}

/* Fills all arrays. With calls of shown operators these are read first, then FLOPs by the
 * dataset's operators. */
static void read_operator_calls(ka_operator_calls *in, const ka_attribution *v)
{
    reading r = {.s = v->dataset,
                 .in = in,
                 .calls = in->parts & KA_ATTRIBUTION_CALLS,
                 .flops = in->parts & KA_ATTRIBUTION_FLOPS,
                 .last_python = KINETO_NO_ROW};
    in->no_memory |= !allocate_call_arrays(&r);
    if (!in->no_memory && r.calls && r.s->definitions->calls_of_shown_operators)
        read_shown_calls(&r, &v->ops);
    if (!in->no_memory && (r.calls || r.flops)) {
        mark_slices(&r);
        read_rows(&r);
    }
    if (!in->no_memory && r.flops)
        in->no_memory |= !ka_flops_around(v->dataset->trace, in->flops, in->unusable);
    reading_free(&r);
}

const ka_operator_calls *ka_operator_calls_get(const ka_attribution *v)
{
    ka_operator_calls *in = v->inputs;
    pthread_mutex_lock(&in->lock);
    if (!in->made)
        read_operator_calls(in, v);
    in->made = true;
    pthread_mutex_unlock(&in->lock);
    return in->no_memory ? NULL : in;
}

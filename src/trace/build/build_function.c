/* Operators of a recording: inputs become the args that PyTorch writes. Programs call few operators
 * with few shapes many times over: the texts of a set of inputs are made once. */
#include "trace/build/build.h"

/* PyTorch writes lists of tensors up to this length. */
#define TENSOR_LIST_MAX 30u

static const char *const dtype_names[KINETO_DTYPE_COUNT] = {
#define KINETO_X(name, value, text, bytes) [value] = (text),
    KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
};

/* ---- text ------------------------------------------------------------------------------------ */

static char *room(kt_build_state *s, size_t bytes)
{
    if (!kb_vec_reserve(&s->text, s->text.count + bytes)) {
        s->out_of_memory = true;
        return NULL;
    }
    return s->text.data + s->text.count;
}

static void put_chars(kt_build_state *s, const char *chars)
{
    size_t n = strlen(chars);
    char *at = room(s, n);
    if (at) {
        memcpy(at, chars, n);
        s->text.count += n;
    }
}

static void put_number(kt_build_state *s, int64_t number)
{
    char *at = room(s, 24);
    if (at)
        s->text.count = (size_t)(kb_json_format_int(at, number) - s->text.data);
}

/* As PyTorch has it: "1." and "0.5", nan, inf. */
static void put_double(kt_build_state *s, uint64_t word)
{
    double d;
    memcpy(&d, &word, sizeof d);
    if (d != d) {
        put_chars(s, "nan");
    } else if (d - d != 0) {
        put_chars(s, d < 0 ? "-inf" : "inf");
    } else {
        char *at = room(s, 48);
        if (!at)
            return;
        char *end = kb_json_format_double(at, d);
        if (end - at > 2 && end[-1] == '0' && end[-2] == '.')
            end--;
        else if (!memchr(at, '.', (size_t)(end - at)) && !memchr(at, 'e', (size_t)(end - at)))
            *end++ = '.';
        s->text.count = (size_t)(end - s->text.data);
    }
}

static void put_dims(kt_build_state *s, const kf_input_item *t, const uint64_t *words)
{
    put_chars(s, "[");
    for (uint32_t k = 0; k < t->count; k++) {
        if (k)
            put_chars(s, ",");
        put_number(s, kf_input_size(t, words, k));
    }
    put_chars(s, "]");
}

/* Those of a contiguous tensor follow from its sizes. */
static void put_strides(kt_build_state *s, const kf_input_item *t)
{
    uint64_t strides[KF_MAX_RANK], step = 1;
    if (t->strides) {
        put_dims(s, t, t->strides);
        return;
    }
    uint32_t rank = KB_MIN(t->count, KF_MAX_RANK);
    for (uint32_t k = rank; k-- > 0;) {
        int64_t size = kf_input_size(t, t->sizes, k);
        strides[k] = step;
        step *= size > 1 ? (uint64_t)size : 1;
    }
    put_chars(s, "[");
    for (uint32_t k = 0; k < rank; k++) {
        if (k)
            put_chars(s, ",");
        put_number(s, (int64_t)strides[k]);
    }
    put_chars(s, "]");
}

/* ---- what is said of one input --------------------------------------------------------------- */

typedef enum what { DIMS, STRIDES, TYPE, VALUE } what;

static void put_tensor(kt_build_state *s, const kf_input_item *t, what w)
{
    bool defined = t->type == KINETO_INPUT_TENSOR;
    if (w == DIMS && defined)
        put_dims(s, t, t->sizes);
    else if (w == STRIDES && defined)
        put_strides(s, t);
    else
        put_chars(s, "[]");
}

static const char *type_name(const kf_input_item *item)
{
    switch (item->type) {
    case KINETO_INPUT_TENSOR:
        return item->dtype < KINETO_DTYPE_COUNT ? dtype_names[item->dtype] : "";
    case KINETO_INPUT_TENSORS:
        return "TensorList";
    case KINETO_INPUT_INT:
    case KINETO_INPUT_DOUBLE:
    case KINETO_INPUT_BOOL:
        return "Scalar";
    case KINETO_INPUT_INTS:
    case KINETO_INPUT_DOUBLES:
    case KINETO_INPUT_BOOLS:
        return "ScalarList";
    default:
        return "";
    }
}

static void put_scalar(kt_build_state *s, uint32_t type, uint64_t word)
{
    if (type == KINETO_INPUT_DOUBLE || type == KINETO_INPUT_DOUBLES)
        put_double(s, word);
    else if (type == KINETO_INPUT_BOOL || type == KINETO_INPUT_BOOLS)
        put_chars(s, word ? "True" : "False");
    else
        put_number(s, (int64_t)word);
}

static bool is_list(uint32_t type)
{
    return type == KINETO_INPUT_INTS || type == KINETO_INPUT_DOUBLES || type == KINETO_INPUT_BOOLS;
}

static void put_value(kt_build_state *s, const kf_input_item *item)
{
    bool list = is_list(item->type);
    put_chars(s, "\"");
    if (list && !(item->flags & KF_INPUT_UNSAID)) {
        put_chars(s, "[");
        for (uint32_t k = 0; k < item->count; k++) {
            if (k)
                put_chars(s, ", ");
            put_scalar(s, item->type, item->values[k]);
        }
        put_chars(s, "]");
    } else if (!list && item->values) {
        put_scalar(s, item->type, item->values[0]);
    }
    put_chars(s, "\"");
}

/* The tensors of a list have been checked to be there; they are taken whatever is written. */
static void put_tensors(kt_build_state *s, const kf_input_item *list, const uint64_t **at,
                        const uint64_t *end, what w)
{
    bool sizes = w == DIMS || w == STRIDES, said = list->count <= TENSOR_LIST_MAX;
    kf_input_item tensor;
    if (sizes)
        put_chars(s, "[");
    for (uint32_t k = 0; k < list->count && kf_input_next(at, end, &tensor); k++) {
        if (!sizes || !said)
            continue;
        if (k)
            put_chars(s, ",");
        put_tensor(s, &tensor, w);
    }
    if (sizes)
        put_chars(s, "]");
    else
        put_chars(s, w == TYPE ? "\"TensorList\"" : "\"\"");
}

static void put_item(kt_build_state *s, const kf_input_item *item, what w)
{
    if (w == TYPE) {
        put_chars(s, "\"");
        put_chars(s, type_name(item));
        put_chars(s, "\"");
    } else if (w == VALUE) {
        put_value(s, item);
    } else {
        put_tensor(s, item, w);
    }
}

/* ---- what is said of all --------------------------------------------------------------------- */

static uint32_t text_of(kt_build_state *s, const uint64_t *at, const uint64_t *end, uint32_t count,
                        what w)
{
    kf_input_item item;
    s->text.count = 0;
    put_chars(s, "[");
    for (uint32_t i = 0; i < count && kf_input_next(&at, end, &item); i++) {
        if (i)
            put_chars(s, ",");
        if (item.type == KINETO_INPUT_TENSORS && !(item.flags & KF_INPUT_UNSAID))
            put_tensors(s, &item, &at, end, w);
        else
            put_item(s, &item, w);
    }
    put_chars(s, "]");
    return kt_string(s->b, (kineto_string){s->text.data, s->text.count});
}

static const char *const output_keys[] = {"Output Dims", "Output Strides", "Output type",
                                          "Concrete Outputs"};
static const char *const input_keys[] = {"Input Dims", "Input Strides", "Input type",
                                         "Concrete Inputs"};

/* The words of inputs without ids, which differ each time. */
static const uint64_t *words_without_ids(kt_build_state *s, const kf_function *f, uint32_t *count)
{
    const uint64_t *at = f->inputs, *end = at + f->input_words;
    kf_input_item item;
    *count = f->input_words;
    if (!(f->parts & KF_FUNCTION_IDS))
        return at;
    s->words.count = *count = 0;
    if (!kb_vec_reserve(&s->words, f->input_words)) {
        s->out_of_memory = true;
        return at;
    }
    for (const uint64_t *from = at; kf_input_next(&at, end, &item); from = at) {
        size_t n = (size_t)(at - from) - (item.ids ? 3 : 0);
        memcpy(s->words.data + s->words.count, from, n * sizeof *from);
        s->words.count += n;
    }
    *count = (uint32_t)s->words.count;
    return s->words.data;
}

/* They come from a recording: are they what their number says? Lists hold tensors, not lists. */
static bool inputs_are_whole(const kf_function *f)
{
    const uint64_t *at = f->inputs, *end = at + f->input_words;
    kf_input_item item;
    for (uint32_t left = f->input_count; left; left--) {
        if (!kf_input_next(&at, end, &item))
            return false;
        bool list = item.type == KINETO_INPUT_TENSORS && !(item.flags & KF_INPUT_UNSAID);
        for (uint32_t k = 0; list && k < item.count; k++) {
            kf_input_item tensor;
            if (!kf_input_next(&at, end, &tensor) || tensor.type == KINETO_INPUT_TENSORS)
                return false;
        }
    }
    return at == end;
}

static void pack_shared(uint8_t *at, uint32_t key, kineto_arg_type type, uint32_t text)
{
    memcpy(at, &key, sizeof key);
    at[4] = (uint8_t)(type | KT_ARG_SHARED);
    memcpy(at + KT_ARG_HEAD, &text, sizeof text);
}

static void entry_fill(kt_build_state *s, kt_build_inputs *entry, const kf_function *f,
                       const char *const *keys)
{
    const uint64_t *end = f->inputs + f->input_words;
    entry->broken = !inputs_are_whole(f);
    for (what w = DIMS; w <= VALUE && !entry->broken; w++)
        pack_shared(entry->packed + w * KT_SHARED_BYTES, kt_string(s->b, kb_string(keys[w])),
                    w == TYPE || w == VALUE ? KINETO_ARG_STRINGS : KINETO_ARG_JSON,
                    text_of(s, f->inputs, end, f->input_count, w));
}

/* A set of inputs that was not met before: its texts. */
static kt_build_inputs *entry_make(kt_build_state *s, const kf_function *f, uint64_t hash,
                                   const uint64_t *words, uint32_t count, const char *const *keys)
{
    uint64_t *copy = kb_arena_alloc(&s->arena, (count + 1) * sizeof *copy, sizeof *copy);
    kt_build_inputs entry = {.hash = hash, .words = copy, .word_count = count};
    if (!copy || !kb_vec_push(&s->inputs, entry)) {
        s->out_of_memory = true;
        return NULL;
    }
    if (count) /* else there may be no words at all */
        memcpy(copy, words, count * sizeof *copy);
    kt_build_inputs *made = &s->inputs.data[s->inputs.count - 1];
    entry_fill(s, made, f, keys);
    return made;
}

static uint64_t words_hash(const uint64_t *words, uint32_t count, uint64_t seed)
{
    uint64_t hash = seed;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static kt_build_inputs *entry_find(kt_build_state *s, const kf_function *f, const char *const *keys)
{
    uint32_t count;
    const uint64_t *words = words_without_ids(s, f, &count);
    uint64_t hash = words_hash(words, count, f->input_count + (keys == input_keys ? 1u : 1001u));
    for (;; hash++) {
        bool created;
        uint64_t *slot = kb_map_insert(&s->inputs_of_hash, hash, s->inputs.count, &created);
        if (!slot) {
            s->out_of_memory = true;
            return NULL;
        }
        if (created)
            return entry_make(s, f, hash, words, count, keys);
        if (*slot >= s->inputs.count)
            return NULL;
        kt_build_inputs *known = &s->inputs.data[*slot];
        if (known->word_count == count &&
            (!count || memcmp(known->words, words, count * sizeof *known->words) == 0))
            return known;
    }
}

static void put_inputs(kt_build_state *s, const kf_function *f, const char *const *keys,
                       uint32_t *flags)
{
    const kt_build_inputs *entry = entry_find(s, f, keys);
    size_t bytes = (f->parts & KF_FUNCTION_VALUES ? 4 : 3) * KT_SHARED_BYTES;
    kt_builder *b = s->b;
    if (!entry || entry->broken) {
        *flags |= KINETO_ACTIVITY_ARGS_LOST;
        return;
    }
    if (!kb_vec_reserve(&b->staged, b->staged.count + bytes)) {
        s->out_of_memory = true;
        return;
    }
    memcpy(b->staged.data + b->staged.count, entry->packed, bytes);
    b->staged.count += bytes;
    b->staged_form = KT_ARGS_PACKED;
}

/* [[tensor, storage, offset], …] in the order of the inputs; lists contribute each of theirs. */
static void put_ids(kt_build_state *s, const kf_function *f, const char *key)
{
    if (!(f->parts & KF_FUNCTION_IDS))
        return;
    const uint64_t *at = f->inputs, *end = at + f->input_words;
    kf_input_item item;
    bool first = true;
    s->text.count = 0;
    put_chars(s, "[");
    while (kf_input_next(&at, end, &item)) {
        if (!item.ids)
            continue;
        put_chars(s, first ? "[" : ",[");
        for (uint32_t k = 0; k < 3; k++) {
            if (k)
                put_chars(s, ",");
            put_number(s, (int64_t)item.ids[k]);
        }
        put_chars(s, "]");
        first = false;
    }
    put_chars(s, "]");
    if (!first)
        kt_args_put_json(s->b, kt_string(s->b, kb_string(key)), KINETO_ARG_JSON,
                         (kineto_string){s->text.data, s->text.count});
}

/* ---- the row --------------------------------------------------------------------------------- */

static void put_number_arg(kt_build_state *s, uint32_t *key, const char *name, uint64_t value)
{
    if (!*key)
        *key = kt_string(s->b, kb_string(name));
    kt_args_put_number(s->b, *key, value);
}

/* The node of the autograd graph that an operator of the engine evaluates is told by the first
 * operator inside of it, which ends before. */
static bool evaluates_node(const kf_event *e)
{
    static const char prefix[] = "autograd::engine::evaluate_function: ";
    return e->site->scope == KINETO_SCOPE_FUNCTION && e->name.size >= sizeof prefix - 1 &&
           memcmp(e->name.data, prefix, sizeof prefix - 1) == 0;
}

static void adopt_node(kt_build_state *s, const kf_event *e, kf_function *f)
{
    kt_build_thread *t = &s->threads.data[s->here_thread];
    if (e->site->scope == KINETO_SCOPE_BACKWARD_FUNCTION && f->sequence >= 0) {
        t->node_sequence = f->sequence;
        t->node_forward = f->forward_thread;
        t->node_start = e->start;
        t->has_node = true;
    } else if (f->sequence < 0 && t->has_node && t->node_start >= e->start && evaluates_node(e)) {
        f->sequence = t->node_sequence;
        f->forward_thread = t->node_forward;
        f->parts |= KF_FUNCTION_FORWARD;
        t->has_node = false;
    }
}

static void keep_node(kt_build_state *s, const kf_function *f)
{
    bool backward = f->forward_thread != 0;
    kt_build_node node = {.sequence = (uint64_t)f->sequence,
                          .thread = backward ? f->forward_thread : f->thread,
                          .process = s->here,
                          .row = (kineto_row)s->b->trace->count,
                          .backward = backward};
    s->out_of_memory |= !kb_vec_push(&s->nodes, node);
}

/* Another session may have wanted it: stacks and modules are one wish, keywords another. */
static bool is_unwanted(const kt_build_state *s, uint32_t key)
{
    const kt_build_keys *k = &s->function_keys;
    bool text = key == k->call_stack || key == k->modules;
    return !(s->options.wants & (text ? KF_WANT_TEXTS : KF_WANT_INPUTS));
}

static void put_loose(kt_build_state *s, const kf_function *f, const kf_event *e, uint32_t *flags)
{
    kf_event loose = {.args = {f->args, f->arg_words, NULL}, .source = e->source};
    kt_build_keys *k = &s->function_keys;
    k->call_stack = kt_string(s->b, kb_string("Call stack"));
    k->modules = kt_string(s->b, kb_string("Module Hierarchy"));
    s->leave_out = is_unwanted;
    kt_build_put_args(s, &loose, flags);
    s->leave_out = NULL;
}

static void put_shared_text(kt_build_state *s, const char *key, kineto_string text)
{
    kt_args_put_shared(s->b, kt_string(s->b, kb_string(key)), KINETO_ARG_STRING,
                       kt_string(s->b, text));
}

/* Was it handed in with the operator? */
static bool has_key(const kt_build_state *s, uint32_t key)
{
    for (size_t i = 0; i < s->keys.count; i++)
        if (s->keys.data[i] == key)
            return true;
    return false;
}

static void put_told(kt_build_state *s, const char *key, kineto_string text)
{
    if (text.size && !has_key(s, kt_string(s->b, kb_string(key))))
        put_shared_text(s, key, text);
}

/* @return they say its call stack. */
static bool post_args(kt_build_state *s, int64_t debug_handle)
{
    kt_build_post *p = &s->post;
    if (!s->options.post)
        return false;
    p->stack.count = p->modules.count = 0;
    s->options.post(s->options.post_context, debug_handle, p);
    s->out_of_memory |= p->out_of_memory;
    put_told(s, "Call stack", (kineto_string){p->stack.data, p->stack.count});
    put_told(s, "Module Hierarchy", (kineto_string){p->modules.data, p->modules.count});
    return p->stack.count != 0;
}

/* The native one, unless the program says its own; or beside it. */
static void put_stack(kt_build_state *s, const kf_function *f, bool told)
{
    kt_symbols *symbols = s->processes.data[s->here].symbols;
    if (!f->stack_count || !(s->options.wants & KF_WANT_STACK) || !symbols)
        return;
    told = told || has_key(s, kt_string(s->b, kb_string("Call stack")));
    if (told && !(s->options.wants & KF_WANT_BOTH))
        return;
    kineto_string text = kt_symbols_stack(symbols, f->stack, f->stack_count);
    if (text.size)
        put_shared_text(s, told ? "Native stack" : "Call stack", text);
}

static bool is_step(kineto_string name)
{
    static const char prefix[] = "ProfilerStep#";
    return name.size >= sizeof prefix - 1 && memcmp(name.data, prefix, sizeof prefix - 1) == 0;
}

/* A thread's number, for who reads the trace: "Fwd thread id" is one. */
static void note_thread(kt_build_state *s, uint32_t number)
{
    if (number)
        s->threads.data[s->here_thread].number = number;
}

void kt_build_thread_numbers(kt_build_state *s)
{
    bool first = true;
    s->text.count = 0;
    put_chars(s, "{");
    for (size_t i = 0; i < s->threads.count; i++) {
        const kt_build_thread *t = &s->threads.data[i];
        if (t->track == KT_NONE || !t->number)
            continue;
        put_chars(s, first ? "\"" : ",\"");
        put_number(s, s->processes.data[t->process].pid);
        put_chars(s, "/");
        put_number(s, t->tid);
        put_chars(s, "\":");
        put_number(s, t->number);
        first = false;
    }
    put_chars(s, "}");
    if (!first)
        kt_metadata(s->b, kb_string("ckineto_threads"),
                    (kineto_string){s->text.data, s->text.count});
}

void kt_build_function(kt_build_state *s, const kf_event *e, kt_row *row)
{
    kf_function f = kf_function_read(e->function);
    uint32_t wants = s->options.wants;
    kt_build_keys *keys = &s->function_keys;
    row->flags |= (uint32_t)(e->site->scope & 15) << KINETO_ACTIVITY_SCOPE_SHIFT;
    s->keys.count = 0;
    adopt_node(s, e, &f);
    note_thread(s, f.thread);
    put_number_arg(s, &keys->event, "Ev Idx", s->b->trace->count);
    put_number_arg(s, &keys->function_id, "Record function id", e->external_id);
    if (f.sequence >= 0) {
        put_number_arg(s, &keys->sequence, "Sequence number", (uint64_t)f.sequence);
        put_number_arg(s, &keys->forward_thread, "Fwd thread id", f.forward_thread);
        if (e->form == KF_FORM_RANGE)
            keep_node(s, &f);
    }
    if (f.debug_handle != -1)
        kt_args_put_int(s->b, kt_string(s->b, kb_string("Debug handle")), f.debug_handle);
    if (e->form == KF_FORM_ASYNC && e->tid) /* its track is none of a thread */
        kt_args_put_number(s->b, kt_string(s->b, kb_string("Start thread")), e->tid);
    if (e->form == KF_FORM_ASYNC && e->end_tid && e->end_tid != e->tid)
        kt_args_put_number(s->b, kt_string(s->b, kb_string("End thread")), e->end_tid);
    if ((f.parts & KF_FUNCTION_INPUTS) && (wants & KF_WANT_INPUTS)) {
        if (!(wants & KF_WANT_VALUES))
            f.parts &= ~KF_FUNCTION_VALUES;
        put_inputs(s, &f, input_keys, &row->flags);
        if (wants & KF_WANT_IDS)
            put_ids(s, &f, "Input Tensors");
    }
    if (e->outputs && (wants & KF_WANT_IDS)) {
        kf_function out = kf_function_read(e->outputs);
        put_inputs(s, &out, output_keys, &row->flags);
        put_ids(s, &out, "Output Tensors");
    }
    if (f.args && (wants & (KF_WANT_TEXTS | KF_WANT_INPUTS)))
        put_loose(s, &f, e, &row->flags);
    put_stack(s, &f, post_args(s, f.debug_handle));
    if (s->options.adjust_steps && is_step(e->name))
        s->out_of_memory |= !kb_vec_push(&s->steps, (kineto_row)s->b->trace->count);
    if (f.parts & KF_FUNCTION_CUT)
        row->flags |= KINETO_ACTIVITY_ARGS_LOST;
}

/* What a backend ran as a whole and reported afterwards. */
void kt_build_backend(kt_build_state *s, const kf_event *e)
{
    kf_args_iterator it;
    kf_arg arg;
    int64_t debug_handle = -1;
    if (!s->options.post)
        return;
    if (e->args.words)
        kf_args_begin(&it, &e->args, s->input);
    else
        s->keys.count = 0;
    while (e->args.words && kf_args_next(&it, &arg))
        if (arg.type == KINETO_ARG_INT && kb_string_equal(arg.name, kb_string("Debug handle")))
            debug_handle = (int64_t)arg.value[0];
    (void)post_args(s, debug_handle);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A step begins just after the function of Python around it. Rows of a thread are in the order of
 * their ends: what encloses a step comes soon after it. */
static void adjust_step(kineto_trace *t, kineto_row step)
{
    int64_t start = kt_start(t, step);
    for (uint64_t row = (uint64_t)step + 1; row < t->count; row++) {
        kineto_row r = (kineto_row)row;
        if (kt_row_track(t, r) != kt_row_track(t, step) ||
            kt_kind(t, r) != KINETO_KIND_PYTHON_FUNCTION || kt_start(t, r) > start ||
            kt_form(t, r) != KINETO_FORM_SLICE)
            continue;
        kt_block *block = t->blocks.data[step / KT_BLOCK_ROWS];
        int64_t adjusted = KB_MIN(kt_start(t, r) + 1, start);
        block->start_ns[step % KT_BLOCK_ROWS] = adjusted;
        block->min_start_ns = KB_MIN(block->min_start_ns, adjusted);
        return;
    }
}

void kt_build_steps(kt_build_state *s)
{
    for (size_t i = 0; i < s->steps.count; i++)
        adjust_step(s->b->trace, s->steps.data[i]);
}

/* ---- forward and backward -------------------------------------------------------------------- */

static int compare_nodes(const void *a, const void *b)
{
    const kt_build_node *x = a, *y = b;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row; /* rows of a thread are in the order of ends */
}

static bool same_node(const kt_build_node *a, const kt_build_node *b)
{
    return a->process == b->process && a->thread == b->thread && a->sequence == b->sequence;
}

/* Of forward operators with a number the one that starts last is meant: the innermost. Each is
 * linked to one backward operator, the first that ends after it. */
static void link_group(kt_build_state *s, const kt_build_node *node, size_t count)
{
    const kineto_trace *t = s->b->trace;
    const kt_build_node *forward = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!node[i].backward) {
            if (!forward || kt_start(t, node[i].row) > kt_start(t, forward->row))
                forward = &node[i];
        } else if (forward) {
            uint64_t id = ++s->node_links;
            kt_flow(s->b, KINETO_FLOW_FWD_BWD, id, forward->row, true);
            kt_flow(s->b, KINETO_FLOW_FWD_BWD, id, node[i].row, false);
            forward = NULL;
        }
    }
}

/* A backward operator of another thread may have been read before its forward one. */
static int compare_ends(const kineto_trace *t, const kt_build_node *a, const kt_build_node *b)
{
    int64_t x = kt_end(t, a->row), y = kt_end(t, b->row);
    return x < y ? -1 : x > y;
}

static void sort_group(const kineto_trace *t, kt_build_node *node, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        kt_build_node moved = node[i];
        size_t k = i;
        for (; k > 0 && compare_ends(t, &node[k - 1], &moved) > 0; k--)
            node[k] = node[k - 1];
        node[k] = moved;
    }
}

void kt_build_nodes(kt_build_state *s)
{
    if (!s->nodes.count)
        return;
    qsort(s->nodes.data, s->nodes.count, sizeof *s->nodes.data, compare_nodes);
    for (size_t first = 0, next; first < s->nodes.count; first = next) {
        kt_build_node *group = &s->nodes.data[first];
        for (next = first + 1; next < s->nodes.count && same_node(group, &s->nodes.data[next]);)
            next++;
        sort_group(s->b->trace, group, next - first);
        link_group(s, group, next - first);
    }
    kb_vec_free(&s->nodes);
}

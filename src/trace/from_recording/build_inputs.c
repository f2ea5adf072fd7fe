/* Inputs and outputs of operators as the args that PyTorch writes ("Input Dims", "Input
 * type", "Concrete Inputs", …). Programs call few operators with few shapes many times, so
 * the texts for equal inputs are made once: a map from the recorded words to string ids,
 * with a guess of the next entry that avoids most searches. */
#include "trace/from_recording/build.h"

/* PyTorch writes lists of tensors up to this length. */
#define TENSOR_LIST_MAX 30u

static const char *const dtype_names[KINETO_DTYPE_COUNT] = {
#define KINETO_X(name, value, text, bytes) [value] = (text),
    KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
};

/* Appends a number as PyTorch spells it: "1." and "0.5", nan, inf. */
static void append_double(kt_build_state *s, uint64_t word)
{
    double d;
    memcpy(&d, &word, sizeof d);
    if (d != d) {
        kt_build_append(s, "nan");
    } else if (d - d != 0) {
        kt_build_append(s, d < 0 ? "-inf" : "inf");
    } else {
        char *at = kt_build_reserve(s, 48);
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

/* Appends sizes or strides of a tensor. */
static void append_dims(kt_build_state *s, const kf_input_item *t, const uint64_t *words)
{
    kt_build_append(s, "[");
    for (uint32_t k = 0; k < t->count; k++) {
        if (k)
            kt_build_append(s, ",");
        kt_build_append_int(s, kf_input_size(t, words, k));
    }
    kt_build_append(s, "]");
}

/* Appends the strides of a tensor. Those of a contiguous one are not recorded: they follow
 * from its sizes. */
static void append_strides(kt_build_state *s, const kf_input_item *t)
{
    uint64_t strides[KF_MAX_RANK], step = 1;
    if (t->strides) {
        append_dims(s, t, t->strides);
        return;
    }
    uint32_t rank = KB_MIN(t->count, KF_MAX_RANK);
    for (uint32_t k = rank; k-- > 0;) {
        int64_t size = kf_input_size(t, t->sizes, k);
        strides[k] = step;
        step *= size > 1 ? (uint64_t)size : 1;
    }
    kt_build_append(s, "[");
    for (uint32_t k = 0; k < rank; k++) {
        if (k)
            kt_build_append(s, ",");
        kt_build_append_int(s, (int64_t)strides[k]);
    }
    kt_build_append(s, "]");
}

/* ---- one input ------------------------------------------------------------------------------- */

/* The four lists of PyTorch. */
typedef enum what { DIMS, STRIDES, TYPE, VALUE } what;

/* Appends sizes or strides; [] for an undefined tensor and for other types of inputs. */
static void append_tensor(kt_build_state *s, const kf_input_item *t, what w)
{
    bool defined = t->type == KINETO_INPUT_TENSOR;
    if (w == DIMS && defined)
        append_dims(s, t, t->sizes);
    else if (w == STRIDES && defined)
        append_strides(s, t);
    else
        kt_build_append(s, "[]");
}

/* PyTorch's name of the type of an input. */
static const char *input_type_name(const kf_input_item *item)
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

static void append_scalar(kt_build_state *s, uint32_t type, uint64_t word)
{
    if (type == KINETO_INPUT_DOUBLE || type == KINETO_INPUT_DOUBLES)
        append_double(s, word);
    else if (type == KINETO_INPUT_BOOL || type == KINETO_INPUT_BOOLS)
        kt_build_append(s, word ? "True" : "False");
    else
        kt_build_append_int(s, (int64_t)word);
}

static bool is_scalar_list(uint32_t type)
{
    return type == KINETO_INPUT_INTS || type == KINETO_INPUT_DOUBLES || type == KINETO_INPUT_BOOLS;
}

/* Appends the concrete value of a scalar or list, in quotes; "" for other inputs. */
static void append_concrete_value(kt_build_state *s, const kf_input_item *item)
{
    bool list = is_scalar_list(item->type);
    kt_build_append(s, "\"");
    if (list && !(item->flags & KF_INPUT_NOT_RECORDED)) {
        kt_build_append(s, "[");
        for (uint32_t k = 0; k < item->count; k++) {
            if (k)
                kt_build_append(s, ", ");
            append_scalar(s, item->type, item->values[k]);
        }
        kt_build_append(s, "]");
    } else if (!list && item->values) {
        append_scalar(s, item->type, item->values[0]);
    }
    kt_build_append(s, "\"");
}

/* Appends an item for a list of tensors, and moves *at past all of them, which
 * inputs_are_whole has checked. Lists longer than TENSOR_LIST_MAX are empty, as in PyTorch. */
static void append_tensor_list(kt_build_state *s, const kf_input_item *list, const uint64_t **at,
                               const uint64_t *end, what w)
{
    bool sizes = w == DIMS || w == STRIDES, is_written = list->count <= TENSOR_LIST_MAX;
    kf_input_item tensor;
    if (sizes)
        kt_build_append(s, "[");
    for (uint32_t k = 0; k < list->count && kf_input_next(at, end, &tensor); k++) {
        if (!sizes || !is_written)
            continue;
        if (k)
            kt_build_append(s, ",");
        append_tensor(s, &tensor, w);
    }
    if (sizes)
        kt_build_append(s, "]");
    else
        kt_build_append(s, w == TYPE ? "\"TensorList\"" : "\"\"");
}

static void append_input_item(kt_build_state *s, const kf_input_item *item, what w)
{
    if (w == TYPE) {
        kt_build_append(s, "\"");
        kt_build_append(s, input_type_name(item));
        kt_build_append(s, "\"");
    } else if (w == VALUE) {
        append_concrete_value(s, item);
    } else {
        append_tensor(s, item, w);
    }
}

/* ---- all inputs ------------------------------------------------------------------------------ */

/* String id of one of the four lists for `count` inputs. */
static uint32_t intern_inputs_list(kt_build_state *s, const uint64_t *at, const uint64_t *end,
                                   uint32_t count, what w)
{
    kf_input_item item;
    s->text.count = 0;
    kt_build_append(s, "[");
    for (uint32_t i = 0; i < count && kf_input_next(&at, end, &item); i++) {
        if (i)
            kt_build_append(s, ",");
        if (item.type == KINETO_INPUT_TENSORS && !(item.flags & KF_INPUT_NOT_RECORDED))
            append_tensor_list(s, &item, &at, end, w);
        else
            append_input_item(s, &item, w);
    }
    kt_build_append(s, "]");
    return kt_string(s->b, (kineto_string){s->text.data, s->text.count});
}

static const char *const output_keys[] = {"Output Dims", "Output Strides", "Output type",
                                          "Concrete Outputs"};
static const char *const input_keys[] = {"Input Dims", "Input Strides", "Input type",
                                         "Concrete Inputs"};

/* The words of the inputs without the ids of tensors, which differ in each call. Valid
 * until the next call. */
static const uint64_t *copy_words_without_ids(kt_build_state *s, const kf_function *f,
                                              uint32_t *count)
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

/* True if the recorded words are well-formed: as many inputs as stated, and lists of
 * tensors without lists. */
static bool are_inputs_well_formed(const kf_function *f)
{
    const uint64_t *at = f->inputs, *end = at + f->input_words;
    kf_input_item item;
    for (uint32_t left = f->input_count; left; left--) {
        if (!kf_input_next(&at, end, &item))
            return false;
        bool list = item.type == KINETO_INPUT_TENSORS && !(item.flags & KF_INPUT_NOT_RECORDED);
        for (uint32_t k = 0; list && k < item.count; k++) {
            kf_input_item tensor;
            if (!kf_input_next(&at, end, &tensor) || tensor.type == KINETO_INPUT_TENSORS)
                return false;
        }
    }
    return at == end;
}

static void pack_shared_arg(uint8_t *at, uint32_t key, kineto_arg_type type, uint32_t text)
{
    memcpy(at, &key, sizeof key);
    at[4] = (uint8_t)(type | KT_ARG_SHARED);
    memcpy(at + KT_ARG_HEAD, &text, sizeof text);
}

/* Makes the texts of an entry, and packs them as args. */
static void fill_inputs_entry(kt_build_state *s, kt_build_inputs *entry, const kf_function *f,
                              const char *const *keys)
{
    const uint64_t *end = f->inputs + f->input_words;
    entry->broken = !are_inputs_well_formed(f);
    for (what w = DIMS; w <= VALUE && !entry->broken; w++)
        pack_shared_arg(entry->packed + w * KT_SHARED_BYTES, kt_string(s->b, kb_string(keys[w])),
                        w == TYPE || w == VALUE ? KINETO_ARG_STRINGS : KINETO_ARG_JSON,
                        intern_inputs_list(s, f->inputs, end, f->input_count, w));
}

/* The key of an entry that is searched. */
typedef struct wanted {
    const kf_function *f;
    const char *const *keys;
    const uint64_t *words; /* without ids */
    uint32_t count, what;
} wanted;

/* Adds a new entry; NULL: out of memory. */
static kt_build_inputs *add_inputs_entry(kt_build_state *s, const wanted *w)
{
    uint64_t *copy = kb_arena_alloc(&s->arena, (w->count + 1) * sizeof *copy, sizeof *copy);
    kt_build_inputs entry = {.words = copy, .word_count = w->count, .what = w->what};
    if (!copy || !kb_vec_push(&s->inputs, entry)) {
        s->out_of_memory = true;
        return NULL;
    }
    if (w->count) /* else there may be no words at all */
        memcpy(copy, w->words, w->count * sizeof *copy);
    KB_ASSERT(s->inputs.count <= UINT32_MAX);
    kt_build_inputs *made = &s->inputs.data[s->inputs.count - 1];
    fill_inputs_entry(s, made, w->f, w->keys);
    return made;
}

static bool is_inputs_entry(const kt_build_inputs *known, const wanted *w)
{
    return known->word_count == w->count && known->what == w->what &&
           (!w->count || memcmp(known->words, w->words, w->count * sizeof *known->words) == 0);
}

static uint64_t hash_words(const uint64_t *words, uint32_t count, uint64_t seed)
{
    uint64_t hash = seed;
    for (uint32_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* The entry with this key, which is added if it is new; NULL: out of memory. */
static kt_build_inputs *find_or_add_inputs_entry(kt_build_state *s, const wanted *w)
{
    for (uint64_t hash = hash_words(w->words, w->count, w->what);; hash++) {
        bool created;
        uint64_t *slot = kb_map_insert(&s->inputs_of_hash, hash, s->inputs.count, &created);
        if (!slot) {
            s->out_of_memory = true;
            return NULL;
        }
        if (created)
            return add_inputs_entry(s, w);
        if (*slot >= s->inputs.count)
            return NULL;
        if (is_inputs_entry(&s->inputs.data[*slot], w))
            return &s->inputs.data[*slot];
    }
}

/* The entry of an operator's inputs. Programs repeat themselves: the entry that followed
 * the last one before is tried first. NULL: out of memory. */
static kt_build_inputs *find_inputs_entry(kt_build_state *s, const kf_function *f,
                                          const char *const *keys)
{
    wanted w = {.f = f, .keys = keys};
    w.words = copy_words_without_ids(s, f, &w.count);
    w.what = f->input_count << 1 | (keys == output_keys);
    kt_build_inputs *last = s->inputs.count ? &s->inputs.data[s->last_inputs] : NULL;
    KB_ASSERT(!last || (s->last_inputs < s->inputs.count && last->next < s->inputs.count));
    kt_build_inputs *found = last ? &s->inputs.data[last->next] : NULL;
    if (!found || !is_inputs_entry(found, &w)) {
        found = find_or_add_inputs_entry(s, &w);
        if (!found)
            return NULL;
        s->inputs.data[s->last_inputs].next = (uint32_t)(found - s->inputs.data);
    }
    s->last_inputs = (uint32_t)(found - s->inputs.data);
    return found;
}

/* Stages the args of an operator's inputs. An operator without inputs has no lists, as in
 * PyTorch's traces. */
static void stage_inputs_entry(kt_build_state *s, const kf_function *f, const char *const *keys,
                               uint32_t *flags)
{
    if (f->input_count == 0 && f->input_words == 0)
        return;
    const kt_build_inputs *entry = find_inputs_entry(s, f, keys);
    kt_builder *b = s->b;
    if (!entry || entry->broken) {
        *flags |= KINETO_ACTIVITY_ARGS_LOST;
        return;
    }
    if (!kb_vec_reserve(&b->staged, b->staged.count + sizeof entry->packed)) {
        s->out_of_memory = true;
        return;
    }
    memcpy(b->staged.data + b->staged.count, entry->packed, sizeof entry->packed);
    b->staged.count += (f->parts & KF_FUNCTION_VALUES ? 4 : 3) * KT_SHARED_BYTES;
    b->staged_form = KT_ARGS_PACKED;
}

/* Stages the ids of tensors: [[tensor, storage, offset], …] in the order of the inputs and
 * of their lists. */
static void stage_tensor_ids(kt_build_state *s, const kf_function *f, const char *key)
{
    if (!(f->parts & KF_FUNCTION_IDS))
        return;
    const uint64_t *at = f->inputs, *end = at + f->input_words;
    kf_input_item item;
    bool first = true;
    s->text.count = 0;
    kt_build_append(s, "[");
    while (kf_input_next(&at, end, &item)) {
        if (!item.ids)
            continue;
        kt_build_append(s, first ? "[" : ",[");
        for (uint32_t k = 0; k < 3; k++) {
            if (k)
                kt_build_append(s, ",");
            kt_build_append_int(s, (int64_t)item.ids[k]);
        }
        kt_build_append(s, "]");
        first = false;
    }
    kt_build_append(s, "]");
    if (!first)
        kt_args_put_json(s->b, kt_string(s->b, kb_string(key)), KINETO_ARG_JSON,
                         (kineto_string){s->text.data, s->text.count});
}

void kt_build_stage_inputs(kt_build_state *s, const kf_function *f, bool outputs, uint32_t *flags)
{
    stage_inputs_entry(s, f, outputs ? output_keys : input_keys, flags);
    if (s->options.wants & KF_WANT_IDS)
        stage_tensor_ids(s, f, outputs ? "Output Tensors" : "Input Tensors");
}

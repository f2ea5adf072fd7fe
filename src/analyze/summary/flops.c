/* FLOPs of calls and of rows of a trace. A function that the user registered for an operator comes
 * before the rule of the table. The inputs of a row are parsed from its arguments into buffers on
 * the stack, since there are many rows. */
#include "analyze/summary/flops.h"
#include "trace/bytes/json_value.h"

/* ---- registered functions -------------------------------------------------------------------- */

typedef struct user_function {
    struct user_function *next;
    kineto_flops_function function;
    void *user;
    char op[];
} user_function;

/* Guards the list. User functions run with the lock held for reading, so they must not register;
 * read_depth detects that. */
static pthread_rwlock_t registry_lock = PTHREAD_RWLOCK_INITIALIZER;
static user_function *user_functions;
static uint32_t function_count;           /* atomic; usually 0, which saves the lock */
static _Thread_local uint32_t read_depth; /* times that this thread locked for reading */

/* The link that points to the entry, or the one at the end of the list. The caller holds the
 * lock. */
static user_function **find_link(kineto_string op)
{
    user_function **link = &user_functions;
    while (*link && !kb_string_equal(kb_string((*link)->op), op))
        link = &(*link)->next;
    return link;
}

kineto_status kineto_flops_register(const char *op, kineto_flops_function function, void *user)
{
    if (!op || !*op || !function)
        return KINETO_E_ARGUMENT;
    if (read_depth)
        return KINETO_E_STATE;
    size_t size = strlen(op) + 1;
    user_function *entry = malloc(sizeof *entry + size);
    if (!entry)
        return KINETO_E_MEMORY;
    memcpy(entry->op, op, size);
    entry->function = function;
    entry->user = user;
    pthread_rwlock_wrlock(&registry_lock);
    user_function **link = find_link(kb_string(op)), *old = *link;
    entry->next = old ? old->next : NULL;
    *link = entry;
    if (!old)
        kb_store_release(&function_count, function_count + 1);
    pthread_rwlock_unlock(&registry_lock);
    free(old);
    return KINETO_OK;
}

kineto_status kineto_flops_unregister(const char *op)
{
    if (!op || !*op)
        return KINETO_E_ARGUMENT;
    if (read_depth)
        return KINETO_E_STATE;
    pthread_rwlock_wrlock(&registry_lock);
    user_function **link = find_link(kb_string(op)), *old = *link;
    if (old) {
        *link = old->next;
        kb_store_release(&function_count, function_count - 1);
    }
    pthread_rwlock_unlock(&registry_lock);
    free(old);
    return old ? KINETO_OK : KINETO_E_NOT_FOUND;
}

/* A user function may call kineto_flops_count for another operator: its thread then holds the lock
 * already. */
static void lock_for_reading(void)
{
    if (read_depth++ == 0)
        pthread_rwlock_rdlock(&registry_lock);
}

static void unlock_after_reading(void)
{
    KB_ASSERT(read_depth);
    if (--read_depth == 0)
        pthread_rwlock_unlock(&registry_lock);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* "aten::add.Tensor" is an overload of "aten::add". */
static kineto_string strip_overload(kineto_string op)
{
    for (size_t i = op.size; i-- > 0;)
        if (op.data[i] == ':')
            break;
        else if (op.data[i] == '.')
            return (kineto_string){op.data, i};
    return op;
}

/* The user's function for an operator, or for its name without the overload. Locked for reading. */
static user_function *find_user_function(kineto_string op)
{
    KB_ASSERT(read_depth);
    user_function *entry = *find_link(op);
    return entry ? entry : *find_link(strip_overload(op));
}

static const ka_flops_rule *find_flops_rule(kineto_string op)
{
    const ka_flops_rule *rule = ka_flops_rule_find(op);
    return rule ? rule : ka_flops_rule_find(strip_overload(op));
}

/* A formula that fails may have written a part of the number. */
static ka_flops_result make_flops_result(bool counted, uint64_t *flops)
{
    if (!counted)
        *flops = 0;
    return counted ? KA_FLOPS_COUNTED : KA_FLOPS_UNUSABLE;
}

/* Where inputs come from: the caller, or a row, which is only parsed once its operator is known. */
typedef struct input_source {
    const kineto_flops_inputs *inputs;
    const kineto_trace *trace;
    kineto_row row;
} input_source;

static ka_flops_result count_flops(const ka_flops_rule *rule, const user_function *own,
                                   const input_source *from, uint64_t *flops);

/* UNKNOWN if no function is registered for the operator. */
static ka_flops_result count_by_user_function(kineto_string op, const input_source *from,
                                              uint64_t *flops)
{
    if (!kb_load_acquire(&function_count))
        return KA_FLOPS_UNKNOWN;
    lock_for_reading();
    user_function *own = find_user_function(op);
    ka_flops_result answer = own ? count_flops(NULL, own, from, flops) : KA_FLOPS_UNKNOWN;
    unlock_after_reading();
    return answer;
}

kineto_status kineto_flops_count(const char *op, const kineto_flops_inputs *inputs, uint64_t *flops)
{
    if (!flops)
        return KINETO_E_ARGUMENT;
    *flops = 0;
    if (!op || !inputs || inputs->size < sizeof *inputs || (inputs->count && !inputs->data))
        return KINETO_E_ARGUMENT;
    input_source from = {.inputs = inputs};
    ka_flops_result answer = count_by_user_function(kb_string(op), &from, flops);
    if (answer == KA_FLOPS_UNKNOWN) {
        const ka_flops_rule *rule = find_flops_rule(kb_string(op));
        if (!rule)
            return KINETO_E_NOT_FOUND;
        answer = count_flops(rule, NULL, &from, flops);
    }
    return answer == KA_FLOPS_COUNTED ? KINETO_OK : KINETO_E_ARGUMENT;
}

/* ---- inputs of a row ------------------------------------------------------------------------- */

#define MAX_INPUTS     64u
#define MAX_SIZES      512u  /* sizes of all inputs together; strides have as many more */
#define MAX_TEXT_BYTES 4096u /* of values that have JSON escapes */

/* The inputs of one row. Inputs beyond the limits count as unknown. */
typedef struct row_inputs {
    kineto_flops_input items[MAX_INPUTS];
    int64_t sizes[2 * MAX_SIZES];
    char text[MAX_TEXT_BYTES];
    uint32_t count, size_count;
    size_t text_bytes;
} row_inputs;

/* Parses "[2, 3]" into r->sizes. False for anything else, such as the nested list of a tensor
 * list. */
static bool parse_sizes(kineto_string raw, row_inputs *r, const int64_t **at, uint32_t *count)
{
    kt_items items = kt_items_of(raw);
    kineto_string item;
    uint32_t n = 0;
    int64_t *to = r->sizes + r->size_count;
    while (kt_items_next(&items, &item))
        if (r->size_count + n >= KB_COUNT(r->sizes) || !kt_value_whole(item, &to[n++]))
            return false;
    if (!kt_items_are_over(&items))
        return false;
    r->size_count += n;
    KB_ASSERT(r->size_count <= KB_COUNT(r->sizes));
    *at = to;
    *count = n;
    return true;
}

/* A JSON value as a text; decoded into r->text if it has escapes, empty if that is full. */
static kineto_string decode_input_text(kineto_string raw, row_inputs *r)
{
    bool escaped = kt_json_is_string(raw) && memchr(raw.data, '\\', raw.size);
    if (escaped && raw.size > MAX_TEXT_BYTES - r->text_bytes)
        return (kineto_string){"", 0};
    kineto_string text = kt_value_text(raw, r->text + r->text_bytes);
    r->text_bytes += escaped ? text.size : 0;
    return text;
}

enum { DIMS, STRIDES, TYPES, VALUES, LISTS };
#define KEY(text) {text, sizeof(text) - 1}
static const kineto_string list_keys[LISTS] = {KEY("Input Dims"), KEY("Input Strides"),
                                               KEY("Input type"), KEY("Concrete Inputs")};

/* Stores one item of one of the lists in input `index`, which may be the first mention of it. */
static void parse_input_item(row_inputs *r, int list, uint32_t index, kineto_string raw)
{
    kineto_flops_input *item = &r->items[index];
    const int64_t *at;
    uint32_t count;
    KB_ASSERT(index <= r->count && index < MAX_INPUTS);
    if (index >= r->count)
        r->items[r->count++] = (kineto_flops_input){.rank = 0};
    switch (list) {
    case DIMS:
        parse_sizes(raw, r, &item->dims, &item->rank);
        break;
    case STRIDES:
        if (item->dims && parse_sizes(raw, r, &at, &count) && count == item->rank)
            item->strides = at;
        break;
    case TYPES:
        item->dtype = decode_input_text(raw, r);
        break;
    default:
        item->concrete = decode_input_text(raw, r);
    }
}

static void parse_input_list(row_inputs *r, int list, kineto_string json)
{
    kt_items items = kt_items_of(json);
    kineto_string raw;
    for (uint32_t i = 0; i < MAX_INPUTS && kt_items_next(&items, &raw); i++)
        parse_input_item(r, list, i, raw);
}

/* Parses the lists whose bits are set in `wanted`. False if there are no shapes. */
static bool parse_input_lists(const kineto_string *texts, uint32_t wanted, row_inputs *r)
{
    if (!texts[DIMS].size)
        return false;
    r->count = r->size_count = 0;
    r->text_bytes = 0;
    for (int i = 0; i < LISTS; i++)
        if (texts[i].size && (wanted >> i & 1))
            parse_input_list(r, i, texts[i]);
    return true;
}

/* parse_input_lists for the arguments of a row. */
static bool read_row_inputs(const kineto_trace *trace, kineto_row row, uint32_t wanted,
                            row_inputs *r)
{
    kineto_string texts[LISTS] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(trace, row, &it);
    while (kineto_args_next(&it, &arg))
        for (int i = 0; i < LISTS; i++)
            if (arg.type > KINETO_ARG_STRING && kb_string_equal(arg.key, list_keys[i]))
                texts[i] = arg.text;
    return parse_input_lists(texts, wanted, r);
}

/* The lists that a rule needs: all need sizes, convolutions also values. Without a rule all lists:
 * a user function may read any. */
static uint32_t needed_lists(const ka_flops_rule *rule)
{
    bool sizes_only = rule && rule->count != ka_flops_conv && rule->count != ka_flops_conv_backward;
    return sizes_only ? 1u << DIMS : rule ? 1u << DIMS | 1u << VALUES : (1u << LISTS) - 1;
}

/* Counts by the rule, or by the user function if rule is NULL. */
static ka_flops_result count_flops(const ka_flops_rule *rule, const user_function *own,
                                   const input_source *from, uint64_t *flops)
{
    KB_ASSERT(!rule != !own);
    row_inputs r;
    kineto_flops_inputs of_row, none = {sizeof none, 0, NULL};
    const kineto_flops_inputs *in = from->inputs;
    *flops = 0;
    if (!in && read_row_inputs(from->trace, from->row, needed_lists(rule), &r)) {
        of_row = (kineto_flops_inputs){sizeof of_row, r.count, r.items};
        in = &of_row;
    } else if (!in) {
        if (rule)
            return KA_FLOPS_UNUSABLE;
        in = &none;
    }
    return make_flops_result(
        rule ? rule->count(rule, in, flops) : own->function(in, flops, own->user), flops);
}

ka_flops_result ka_flops_row(const kineto_trace *trace, kineto_row row, uint64_t *flops)
{
    kineto_activity a;
    *flops = 0;
    kineto_trace_get(trace, row, &a);
    input_source from = {.trace = trace, .row = row};
    ka_flops_result answer = count_by_user_function(a.name, &from, flops);
    if (answer != KA_FLOPS_UNKNOWN)
        return answer;
    const ka_flops_rule *rule = find_flops_rule(a.name);
    return rule ? count_flops(rule, NULL, &from, flops) : KA_FLOPS_UNKNOWN;
}

/* ---- inputs that were extracted already ------------------------------------------------------ */

static bool has_user_function(kineto_string op)
{
    if (!kb_load_acquire(&function_count))
        return false;
    lock_for_reading();
    bool is = find_user_function(op) != NULL;
    unlock_after_reading();
    return is;
}

ka_flops_needs ka_flops_needs_of(kineto_string op, const ka_flops_rule **rule)
{
    *rule = NULL;
    if (has_user_function(op))
        return KA_FLOPS_NEEDS_ROW;
    *rule = find_flops_rule(op);
    if (!*rule)
        return KA_FLOPS_NEEDS_NOTHING;
    return needed_lists(*rule) >> VALUES & 1 ? KA_FLOPS_NEEDS_VALUES : KA_FLOPS_NEEDS_SIZES;
}

ka_flops_result ka_flops_texts(const ka_flops_rule *rule, kineto_string dims, kineto_string values,
                               uint64_t *flops)
{
    row_inputs r;
    kineto_string texts[LISTS] = {[DIMS] = dims, [VALUES] = values};
    *flops = 0;
    if (!parse_input_lists(texts, needed_lists(rule), &r))
        return KA_FLOPS_UNUSABLE;
    kineto_flops_inputs in = {sizeof in, r.count, r.items};
    return make_flops_result(rule->count(rule, &in, flops), flops);
}

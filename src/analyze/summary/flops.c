/* FLOPs of calls and of rows of a trace: functions that users registered, then the table. */
#include "analyze/summary/flops.h"
#include "trace/bytes/json_value.h"

/* ---- registered functions -------------------------------------------------------------------- */

typedef struct registered {
    struct registered *next;
    kineto_flops_function function;
    void *user;
    char op[];
} registered;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static registered *functions;
static uint32_t function_count;       /* read without the lock: mostly it is 0 */
static _Thread_local uint32_t inside; /* this thread holds the lock for reading */

/* The link that points to the entry, or to the end of the list. */
static registered **link_of(kineto_string op)
{
    registered **link = &functions;
    while (*link && !kb_string_equal(kb_string((*link)->op), op))
        link = &(*link)->next;
    return link;
}

kineto_status kineto_flops_register(const char *op, kineto_flops_function function, void *user)
{
    if (!op || !*op || !function)
        return KINETO_E_ARGUMENT;
    if (inside)
        return KINETO_E_STATE;
    size_t size = strlen(op) + 1;
    registered *entry = malloc(sizeof *entry + size);
    if (!entry)
        return KINETO_E_MEMORY;
    memcpy(entry->op, op, size);
    entry->function = function;
    entry->user = user;
    pthread_rwlock_wrlock(&lock);
    registered **link = link_of(kb_string(op)), *old = *link;
    entry->next = old ? old->next : NULL;
    *link = entry;
    if (!old)
        kb_store_release(&function_count, function_count + 1);
    pthread_rwlock_unlock(&lock);
    free(old);
    return KINETO_OK;
}

kineto_status kineto_flops_unregister(const char *op)
{
    if (!op || !*op)
        return KINETO_E_ARGUMENT;
    if (inside)
        return KINETO_E_STATE;
    pthread_rwlock_wrlock(&lock);
    registered **link = link_of(kb_string(op)), *old = *link;
    if (old) {
        *link = old->next;
        kb_store_release(&function_count, function_count - 1);
    }
    pthread_rwlock_unlock(&lock);
    free(old);
    return old ? KINETO_OK : KINETO_E_NOT_FOUND;
}

/* A function may ask for other operators; its thread has the lock then. */
static void read_begin(void)
{
    if (inside++ == 0)
        pthread_rwlock_rdlock(&lock);
}

static void read_end(void)
{
    if (--inside == 0)
        pthread_rwlock_unlock(&lock);
}

/* ---- one call -------------------------------------------------------------------------------- */

/* "aten::add.Tensor" is an overload of "aten::add". */
static kineto_string without_overload(kineto_string op)
{
    for (size_t i = op.size; i-- > 0;)
        if (op.data[i] == ':')
            break;
        else if (op.data[i] == '.')
            return (kineto_string){op.data, i};
    return op;
}

/* With the lock held for reading. */
static registered *registered_find(kineto_string op)
{
    registered *entry = *link_of(op);
    return entry ? entry : *link_of(without_overload(op));
}

static const ka_flops_rule *rule_find(kineto_string op)
{
    const ka_flops_rule *rule = ka_flops_rule_find(op);
    return rule ? rule : ka_flops_rule_find(without_overload(op));
}

static ka_flops_result checked(bool counted, uint64_t *flops)
{
    if (!counted)
        *flops = 0;
    return counted ? KA_FLOPS_COUNTED : KA_FLOPS_UNUSABLE;
}

/* Inputs come from the caller, or out of a row when somebody knows its operator. */
typedef struct inputs_source {
    const kineto_flops_inputs *inputs;
    const kineto_trace *trace;
    kineto_row row;
} inputs_source;

static ka_flops_result count(const ka_flops_rule *rule, const registered *own,
                             const inputs_source *from, uint64_t *flops);

static ka_flops_result count_registered(kineto_string op, const inputs_source *from,
                                        uint64_t *flops)
{
    if (!kb_load_acquire(&function_count))
        return KA_FLOPS_UNKNOWN;
    read_begin();
    registered *own = registered_find(op);
    ka_flops_result answer = own ? count(NULL, own, from, flops) : KA_FLOPS_UNKNOWN;
    read_end();
    return answer;
}

kineto_status kineto_flops(const char *op, const kineto_flops_inputs *inputs, uint64_t *flops)
{
    if (!flops)
        return KINETO_E_ARGUMENT;
    *flops = 0;
    if (!op || !inputs || inputs->size < sizeof *inputs || (inputs->count && !inputs->data))
        return KINETO_E_ARGUMENT;
    inputs_source from = {.inputs = inputs};
    ka_flops_result answer = count_registered(kb_string(op), &from, flops);
    if (answer == KA_FLOPS_UNKNOWN) {
        const ka_flops_rule *rule = rule_find(kb_string(op));
        if (!rule)
            return KINETO_E_NOT_FOUND;
        answer = count(rule, NULL, &from, flops);
    }
    return answer == KA_FLOPS_COUNTED ? KINETO_OK : KINETO_E_ARGUMENT;
}

/* ---- inputs of a row ------------------------------------------------------------------------- */

#define MAX_INPUTS     64u
#define MAX_SIZES      512u  /* of all inputs together, and as many strides */
#define MAX_TEXT_BYTES 4096u /* of values that are written with escapes */

/* Inputs past these limits are as if they were unknown; on the stack, since rows are many. */
typedef struct row_inputs {
    kineto_flops_input items[MAX_INPUTS];
    int64_t sizes[2 * MAX_SIZES];
    char text[MAX_TEXT_BYTES];
    uint32_t count, size_count;
    size_t text_bytes;
} row_inputs;

/* "[2, 3]" into numbers; false for anything else, as the nested list of a list of tensors. */
static bool read_sizes(kineto_string raw, row_inputs *r, const int64_t **at, uint32_t *count)
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
    *at = to;
    *count = n;
    return true;
}

/* A value as a text. */
static kineto_string read_text(kineto_string raw, row_inputs *r)
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

static void read_item(row_inputs *r, int list, uint32_t index, kineto_string raw)
{
    kineto_flops_input *item = &r->items[index];
    const int64_t *at;
    uint32_t count;
    if (index >= r->count)
        r->items[r->count++] = (kineto_flops_input){.rank = 0};
    switch (list) {
    case DIMS:
        read_sizes(raw, r, &item->dims, &item->rank);
        break;
    case STRIDES:
        if (item->dims && read_sizes(raw, r, &at, &count) && count == item->rank)
            item->strides = at;
        break;
    case TYPES:
        item->dtype = read_text(raw, r);
        break;
    default:
        item->concrete = read_text(raw, r);
    }
}

static void read_list(row_inputs *r, int list, kineto_string json)
{
    kt_items items = kt_items_of(json);
    kineto_string raw;
    for (uint32_t i = 0; i < MAX_INPUTS && kt_items_next(&items, &raw); i++)
        read_item(r, list, i, raw);
}

/* `wanted`: bits of lists. False if nothing is said of shapes. */
static bool read_lists(const kineto_string *texts, uint32_t wanted, row_inputs *r)
{
    if (!texts[DIMS].size)
        return false;
    r->count = r->size_count = 0;
    r->text_bytes = 0;
    for (int i = 0; i < LISTS; i++)
        if (texts[i].size && (wanted >> i & 1))
            read_list(r, i, texts[i]);
    return true;
}

static bool read_inputs(const kineto_trace *trace, kineto_row row, uint32_t wanted, row_inputs *r)
{
    kineto_string texts[LISTS] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(trace, row, &it);
    while (kineto_args_next(&it, &arg))
        for (int i = 0; i < LISTS; i++)
            if (arg.type > KINETO_ARG_STRING && kb_string_equal(arg.key, list_keys[i]))
                texts[i] = arg.text;
    return read_lists(texts, wanted, r);
}

/* Formulas of the table look at sizes, and some at values. */
static uint32_t lists_of(const ka_flops_rule *rule)
{
    bool sizes_only = rule && rule->count != ka_flops_conv && rule->count != ka_flops_conv_backward;
    return sizes_only ? 1u << DIMS : rule ? 1u << DIMS | 1u << VALUES : (1u << LISTS) - 1;
}

static ka_flops_result count(const ka_flops_rule *rule, const registered *own,
                             const inputs_source *from, uint64_t *flops)
{
    row_inputs r;
    kineto_flops_inputs of_row, none = {sizeof none, 0, NULL};
    const kineto_flops_inputs *in = from->inputs;
    *flops = 0;
    if (!in && read_inputs(from->trace, from->row, lists_of(rule), &r)) {
        of_row = (kineto_flops_inputs){sizeof of_row, r.count, r.items};
        in = &of_row;
    } else if (!in) {
        if (rule)
            return KA_FLOPS_UNUSABLE;
        in = &none;
    }
    return checked(rule ? rule->count(rule, in, flops) : own->function(in, flops, own->user),
                   flops);
}

ka_flops_result ka_flops_row(const kineto_trace *trace, kineto_row row, uint64_t *flops)
{
    kineto_activity a;
    *flops = 0;
    kineto_trace_get(trace, row, &a);
    inputs_source from = {.trace = trace, .row = row};
    ka_flops_result answer = count_registered(a.name, &from, flops);
    if (answer != KA_FLOPS_UNKNOWN)
        return answer;
    const ka_flops_rule *rule = rule_find(a.name);
    return rule ? count(rule, NULL, &from, flops) : KA_FLOPS_UNKNOWN;
}

/* ---- inputs that are at hand ----------------------------------------------------------------- */

static bool is_registered(kineto_string op)
{
    if (!kb_load_acquire(&function_count))
        return false;
    read_begin();
    bool is = registered_find(op) != NULL;
    read_end();
    return is;
}

ka_flops_needs ka_flops_needs_of(kineto_string op, const ka_flops_rule **rule)
{
    *rule = NULL;
    if (is_registered(op))
        return KA_FLOPS_NEEDS_ROW;
    *rule = rule_find(op);
    if (!*rule)
        return KA_FLOPS_NEEDS_NOTHING;
    return lists_of(*rule) >> VALUES & 1 ? KA_FLOPS_NEEDS_VALUES : KA_FLOPS_NEEDS_SIZES;
}

ka_flops_result ka_flops_texts(const ka_flops_rule *rule, kineto_string dims, kineto_string values,
                               uint64_t *flops)
{
    row_inputs r;
    kineto_string texts[LISTS] = {[DIMS] = dims, [VALUES] = values};
    *flops = 0;
    if (!read_lists(texts, lists_of(rule), &r))
        return KA_FLOPS_UNUSABLE;
    kineto_flops_inputs in = {sizeof in, r.count, r.items};
    return checked(rule->count(rule, &in, flops), flops);
}

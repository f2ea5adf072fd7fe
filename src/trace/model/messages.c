/* Messages between processes: reading their ids from the arguments of rows, and joining both sides. */
#include "trace/model/messages.h"

#include "trace/bytes/json_value.h"

/* Arguments with ids: one number, or a list. */
static const struct {
    const char *key;
    bool is_received;
} message_keys[] = {
    {"Message out", false}, {"Messages out", false}, {"Message in", true}, {"Messages in", true}};

/* Index of message_keys; KB_COUNT: another argument. Most keys differ in the first letters. */
static size_t find_message_key(kineto_string key)
{
    size_t i = 0;
    if (key.size < 10 || memcmp(key.data, "Message", 7) != 0)
        return KB_COUNT(message_keys);
    while (i < KB_COUNT(message_keys) && !kb_string_equal(key, kb_string(message_keys[i].key)))
        i++;
    return i;
}

static bool visit_message_list(kineto_string list, bool is_received, kt_message_visitor *visit,
                               void *context)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    int64_t id;
    while (kt_items_next(&items, &item))
        if (kt_value_whole(item, &id) && id > 0 && !visit(context, id, is_received))
            return false;
    return true;
}

bool kt_visit_messages(const kineto_trace *t, kineto_row row, kt_message_visitor *visit,
                       void *context)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(t, row, &it);
    while (kineto_args_next(&it, &arg)) {
        size_t key = find_message_key(arg.key);
        if (key == KB_COUNT(message_keys))
            continue;
        bool is_received = message_keys[key].is_received;
        bool is_number = arg.type == KINETO_ARG_INT || arg.type == KINETO_ARG_UINT;
        bool goes_on = is_number ? arg.i <= 0 || visit(context, arg.i, is_received)
                                 : visit_message_list(arg.text, is_received, visit, context);
        if (!goes_on)
            return false;
    }
    return true;
}

typedef struct listing {
    kt_message_ends *out;
    kt_message_end end;
} listing;

static bool append_message_end(void *context, int64_t id, bool is_received)
{
    listing *l = context;
    l->end.id = id;
    l->end.is_received = is_received;
    return kb_vec_push(l->out, l->end);
}

bool kt_list_messages(const kineto_trace *t, kineto_row first, uint32_t part, kt_message_ends *out)
{
    listing l = {.out = out, .end = {.part = part}};
    for (size_t k = 0; k < t->blocks.count; k++) {
        const kt_block *block = t->blocks.data[k];
        for (uint32_t i = 0; i < block->count; i++) {
            kineto_row row = (kineto_row)(k * KT_BLOCK_ROWS + i);
            l.end.row = first + row;
            if (block->kind[i] == KINETO_KIND_MPI &&
                !kt_visit_messages(t, row, append_message_end, &l))
                return false;
        }
    }
    return true;
}

/* By id, the sender first. */
static int compare_message_ends(const void *left, const void *right)
{
    const kt_message_end *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->is_received != b->is_received)
        return a->is_received ? 1 : -1;
    return (a->row > b->row) - (a->row < b->row);
}

void kt_join_messages(kt_message_ends *ends, kt_message_joiner *join, void *context)
{
    const kt_message_end *e = ends->data;
    if (ends->count)
        qsort(ends->data, ends->count, sizeof *ends->data, compare_message_ends);
    for (size_t i = 0, next; i < ends->count; i = next) {
        for (next = i + 1; next < ends->count && e[next].id == e[i].id;)
            next++;
        if (next - i == 2 && !e[i].is_received && e[i + 1].is_received)
            join(context, &e[i], &e[i + 1]);
    }
}

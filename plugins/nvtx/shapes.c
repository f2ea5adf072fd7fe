/* Shapes: which arguments an event has. Events with the same arguments share one description, which
 * is created at their first use and never freed. Lookup takes no lock; adding does. */
#include "nvtx.h"

#include <stdio.h>

#define SIMPLE_SHAPES 256u
#define MAX_NAME      256u

cn_shape cn_plain = {
    .site = {0, KINETO_KIND_USER_ANNOTATION, KINETO_SCOPE_FUNCTION, 0, 0, "NVTX", NULL}};

static _Atomic(cn_shape *) shapes[CN_MAX_SHAPES] = {&cn_plain};
static atomic_uint shape_count = 1;
/* Shapes without binary payloads are indexed by their flags, the others by hash. */
static _Atomic(cn_shape *) simple_shapes[SIMPLE_SHAPES], shape_table[2 * CN_MAX_SHAPES];

const cn_shape *cn_shape_at(uint32_t index)
{
    return index < atomic_load_explicit(&shape_count, memory_order_acquire)
               ? atomic_load_explicit(&shapes[index], memory_order_acquire)
               : NULL;
}

/* Schemas are compared by address: each exists once. */
static bool is_same_key(const cn_key *a, const cn_key *b)
{
    if (a->flags != b->flags || a->payload_count != b->payload_count)
        return false;
    for (uint32_t i = 0; i < a->payload_count; i++)
        if (a->payloads[i] != b->payloads[i])
            return false;
    return true;
}

static uint32_t hash_shape_key(const cn_key *key)
{
    uint64_t hash = key->flags;
    for (uint32_t i = 0; i < key->payload_count; i++)
        hash = (hash ^ (uintptr_t)key->payloads[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 40);
}

/* ---- descriptions of arguments --------------------------------------------------------------- */

typedef struct arg_list {
    kineto_arg_desc args[KINETO_SITE_MAX_ARGS];
    uint32_t count, left_out;
} arg_list;

/* Adds one argument, or counts it as left out. */
static void describe_arg(arg_list *l, const char *name, uint32_t type)
{
    if (l->count <
        KINETO_SITE_MAX_ARGS) /* each value needs one, even without memory for its name */
        l->args[l->count++] = (kineto_arg_desc){name ? name : "payload", type};
    else
        l->left_out++;
}

/* A permanent copy of "prefix.name", or "prefix.number" for a field without a name; NULL: no
 * memory. */
static const char *join_arg_name(const char *prefix, const char *name, uint32_t number)
{
    char text[MAX_NAME];
    const char *dot = prefix && *prefix ? "." : "";
    if (!prefix)
        prefix = "";
    int size = name && *name ? snprintf(text, sizeof text, "%s%s%s", prefix, dot, name)
                             : snprintf(text, sizeof text, "%s%s%u", prefix, dot, number);
    char *kept = size > 0 ? cn_alloc_permanent(strlen(text) + 1) : NULL;
    return kept ? memcpy(kept, text, strlen(text) + 1) : NULL;
}

/* Describes the arguments of a payload, in the order in which payload.c reads them. */
static void describe_payload_args(arg_list *l, const char *prefix, const cn_schema *schema)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        const cn_field *field = &schema->fields[i];
        const char *name = schema->count == 1 && !field->name ? prefix : NULL;
        if (field->class == CN_CLASS_NONE || field->is_message)
            continue;
        if (!name)
            name = join_arg_name(prefix, field->name, i);
        uint32_t type = cn_field_arg_type(field);
        if (type)
            describe_arg(l, name, type);
        else
            describe_payload_args(l, name, field->nested);
    }
}

/* Describes the arguments from an event's attributes, in the order of CN_HAS_… . */
static void describe_attribute_args(arg_list *l, uint32_t flags)
{
    static const uint8_t payload_types[] = {[CN_PAYLOAD_UINT64] = KINETO_ARG_UINT,
                                            [CN_PAYLOAD_INT64] = KINETO_ARG_INT,
                                            [CN_PAYLOAD_DOUBLE] = KINETO_ARG_DOUBLE,
                                            [CN_PAYLOAD_UINT32] = KINETO_ARG_UINT,
                                            [CN_PAYLOAD_INT32] = KINETO_ARG_INT,
                                            [CN_PAYLOAD_FLOAT] = KINETO_ARG_DOUBLE,
                                            [CN_PAYLOAD_FLOAT + 1] = 0};
    if (flags & CN_HAS_DOMAIN)
        describe_arg(l, "domain", KINETO_ARG_STRING);
    if (flags & CN_HAS_CATEGORY)
        describe_arg(l, "category", KINETO_ARG_UINT);
    if (flags & CN_HAS_CATEGORY_NAME)
        describe_arg(l, "category", KINETO_ARG_STRING);
    if (flags & CN_HAS_COLOR)
        describe_arg(l, "color", KINETO_ARG_UINT);
    if (flags & CN_HAS_CONTINUED)
        describe_arg(l, "continued", KINETO_ARG_BOOL);
    uint32_t payload = flags >> CN_PAYLOAD_SHIFT & 7;
    if (payload)
        describe_arg(l, "payload", payload_types[payload]);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* NULL: no memory. The caller holds the lock. */
static cn_shape *create_shape(const cn_key *key, uint32_t index)
{
    arg_list l = {.count = 0};
    describe_attribute_args(&l, key->flags);
    for (uint32_t i = 0; i < key->payload_count; i++) {
        const char *name = key->payloads[i]->name;
        describe_payload_args(&l, name ? name : "payload", key->payloads[i]);
    }
    cn_shape *shape = cn_alloc_permanent(sizeof *shape + l.count * sizeof *l.args);
    if (!shape)
        return NULL;
    *shape = (cn_shape){.key = *key, .index = index, .left_out = l.left_out};
    shape->site = (kineto_site){.kind = KINETO_KIND_USER_ANNOTATION,
                                .arg_count = (uint8_t)l.count,
                                .name = "NVTX",
                                .args = shape->args};
    memcpy(shape->args, l.args, l.count * sizeof *l.args);
    for (uint32_t i = 0; i < l.count; i++)
        shape->bytes += (uint32_t)strlen(l.args[i].name) + 5u;
    return shape;
}

/* The slot of a key, or the free one where it belongs. The table is twice as large as the limit. */
static _Atomic(cn_shape *) *find_shape_slot(const cn_key *key)
{
    if (!key->payload_count)
        return &simple_shapes[key->flags % SIMPLE_SHAPES];
    for (uint32_t i = hash_shape_key(key) % CN_COUNT(shape_table);;
         i = (i + 1) % CN_COUNT(shape_table)) {
        const cn_shape *shape = atomic_load_explicit(&shape_table[i], memory_order_acquire);
        if (!shape || is_same_key(&shape->key, key))
            return &shape_table[i];
    }
}

/* NULL: the limit is reached, or the lock is not available. Stored last in its slot, which
 * publishes it. */
static CN_NOINLINE const cn_shape *add_shape(const cn_key *key)
{
    if (atomic_load(&shape_count) >= CN_MAX_SHAPES || !cn_tables_lock())
        return NULL;
    _Atomic(cn_shape *) *slot = find_shape_slot(key);
    cn_shape *shape = atomic_load(slot);
    uint32_t index = atomic_load(&shape_count);
    if (!shape && index < CN_MAX_SHAPES && (shape = create_shape(key, index))) {
        atomic_store_explicit(&shapes[index], shape, memory_order_release);
        atomic_store_explicit(&shape_count, index + 1, memory_order_release);
        atomic_store_explicit(slot, shape, memory_order_release);
    }
    cn_tables_unlock();
    return shape;
}

const cn_shape *cn_shape_get(const cn_key *key)
{
    if (!key->flags && !key->payload_count)
        return &cn_plain;
    const cn_shape *shape = atomic_load_explicit(find_shape_slot(key), memory_order_acquire);
    return CN_LIKELY(shape != NULL) ? shape : add_shape(key);
}

/* Shapes: which arguments an event has. Events with the same arguments share one description, which
 * is created at their first use and never freed. Lookup takes no lock; adding does. */
#include "annotations.h"

cn_shape cn_plain = {
    .site = {0, KINETO_KIND_USER_ANNOTATION, KINETO_SCOPE_FUNCTION, 0, 0, "annotation", NULL}};

static _Atomic(cn_shape *) shapes[CN_MAX_SHAPES] = {&cn_plain};
static atomic_uint shape_count = 1;
/* Shapes without payload descriptions are indexed by their flags, the others by hash. */
_Atomic(cn_shape *) cn_simple_shapes[CN_SIMPLE_SHAPES] = {&cn_plain};
static _Atomic(cn_shape *) shape_table[2 * CN_MAX_SHAPES];

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

void cn_describe_arg(cn_arg_list *l, const char *name, uint32_t type)
{
    if (l->count <
        KINETO_SITE_MAX_ARGS) /* each value needs one, even without memory for its name */
        l->args[l->count++] = (kineto_arg_desc){name ? name : "payload", type};
    else
        l->left_out++;
}

/* Describes the arguments from an event's attributes, in the order of CN_HAS_… . */
static void describe_attribute_args(cn_arg_list *l, uint32_t flags)
{
    if (flags & CN_HAS_DOMAIN)
        cn_describe_arg(l, "domain", KINETO_ARG_STRING);
    if (flags & CN_HAS_CATEGORY)
        cn_describe_arg(l, "category", KINETO_ARG_UINT);
    if (flags & CN_HAS_CATEGORY_NAME)
        cn_describe_arg(l, "category", KINETO_ARG_STRING);
    if (flags & CN_HAS_COLOR)
        cn_describe_arg(l, "color", KINETO_ARG_UINT);
    if (flags & CN_HAS_CONTINUED)
        cn_describe_arg(l, "continued", KINETO_ARG_BOOL);
    uint32_t payload = flags >> CN_PAYLOAD_SHIFT & 7;
    if (payload)
        cn_describe_arg(l, "payload", payload);
    if (flags & CN_HAS_ID) {
        cn_describe_arg(l, "id", KINETO_ARG_UINT);
        cn_describe_arg(l, "id extra", KINETO_ARG_UINT);
    }
    if (flags & CN_HAS_PARENT) {
        cn_describe_arg(l, "parent", KINETO_ARG_UINT);
        cn_describe_arg(l, "parent extra", KINETO_ARG_UINT);
    }
    if (flags & CN_HAS_FRAME)
        cn_describe_arg(l, "frame", KINETO_ARG_UINT);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* NULL: no memory. The caller holds the lock. */
static cn_shape *create_shape(const cn_key *key, uint32_t index)
{
    cn_arg_list l = {.count = 0};
    describe_attribute_args(&l, key->flags);
    for (uint32_t i = 0; i < key->payload_count && cn_this_source.describe_payload; i++)
        cn_this_source.describe_payload(&l, key->payloads[i]);
    cn_shape *shape = cn_alloc_permanent(sizeof *shape + l.count * sizeof *l.args);
    if (!shape)
        return NULL;
    *shape = (cn_shape){.key = *key, .index = index, .left_out = l.left_out};
    shape->site = (kineto_site){.kind = KINETO_KIND_USER_ANNOTATION,
                                .arg_count = (uint8_t)l.count,
                                .name = cn_this_source.site_name,
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
        return &cn_simple_shapes[key->flags];
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

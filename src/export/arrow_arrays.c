/* Schemas and arrays of Arrow's C data interface. A consumer may move and release every array on
 * its own, so each one has a node with its own memory and a reference to the shared part. */
#include "export/arrow.h"

/* Private data of an array: its buffers and children, and the reference. */
typedef struct array_node {
    ke_arrow_shared *shared;
    void *owned[3];
    const void *buffers[3];
    struct ArrowArray *children; /* of a struct: storage of the children's arrays */
    struct ArrowArray **child_pointers;
    struct ArrowArray dictionary;
} array_node;

/* Private data of a schema: storage of its children. */
typedef struct schema_node {
    struct ArrowSchema *children;
    struct ArrowSchema **child_pointers;
    struct ArrowSchema dictionary;
} schema_node;

static ke_arrow_shared *retain_arrow_shared(ke_arrow_shared *s)
{
    kb_add_relaxed(&s->references, 1);
    return s;
}

/* The last release frees: acquire and release order make all earlier uses by other threads
 * visible. */
void ke_arrow_release(ke_arrow_shared *s)
{
    if (kb_add_acqrel(&s->references, UINT32_MAX) != 1)
        return;
    for (size_t i = 0; i < KB_COUNT(s->dictionaries); i++)
        ke_arrow_column_free(&s->dictionaries[i]);
    kineto_trace_release(s->trace);
    free(s);
}

/* ---- schemas --------------------------------------------------------------------------------- */

static void release_arrow_schema(struct ArrowSchema *schema)
{
    schema_node *node = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release)
            schema->children[i]->release(schema->children[i]);
    if (schema->dictionary && schema->dictionary->release)
        schema->dictionary->release(schema->dictionary);
    free(node->children);
    free(node->child_pointers);
    free(node);
    schema->release = NULL;
}

/* `format` and `name` must outlive the schema: they are string literals, or of the static table. */
static schema_node *begin_arrow_schema(struct ArrowSchema *out, const char *format,
                                       const char *name)
{
    schema_node *node = calloc(1, sizeof *node);
    *out = (struct ArrowSchema){.format = format, .name = name, .private_data = node};
    if (node)
        out->release = release_arrow_schema;
    return node;
}

static bool make_arrow_column_schema(const ke_arrow_shared *s, const ke_arrow_spec *spec,
                                     struct ArrowSchema *out)
{
    schema_node *node = begin_arrow_schema(out, spec->format, spec->name);
    if (!node)
        return false;
    out->flags = spec->nullable ? ARROW_FLAG_NULLABLE : 0;
    if (spec->dictionary == KE_ARROW_NO_DICTIONARY)
        return true;
    out->dictionary = &node->dictionary;
    return begin_arrow_schema(&node->dictionary, s->text_format[spec->dictionary], "") != NULL;
}

bool ke_arrow_make_schema(const ke_arrow_shared *s, struct ArrowSchema *out)
{
    uint32_t count = s->table->column_count;
    schema_node *node = begin_arrow_schema(out, "+s", "");
    if (!node)
        return false;
    node->children = calloc(count, sizeof *node->children);
    node->child_pointers = calloc(count, sizeof *node->child_pointers);
    bool ok = node->children && node->child_pointers;
    out->children = node->child_pointers;
    for (uint32_t i = 0; ok && i < count; i++) {
        node->child_pointers[i] = &node->children[i];
        out->n_children = i + 1;
        ok = make_arrow_column_schema(s, &s->table->columns[i], &node->children[i]);
    }
    if (!ok)
        out->release(out);
    return ok;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

static void release_arrow_array(struct ArrowArray *array)
{
    array_node *node = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release)
            array->children[i]->release(array->children[i]);
    if (array->dictionary && array->dictionary->release)
        array->dictionary->release(array->dictionary);
    for (size_t i = 0; i < KB_COUNT(node->owned); i++)
        free(node->owned[i]);
    free(node->children);
    free(node->child_pointers);
    ke_arrow_release(node->shared);
    free(node);
    array->release = NULL;
}

/* An array without buffers and a reference of its own; NULL: out of memory, and *out is
 * released. */
static array_node *begin_arrow_array(ke_arrow_shared *s, struct ArrowArray *out, int64_t length)
{
    array_node *node = calloc(1, sizeof *node);
    *out = (struct ArrowArray){.length = length, .private_data = node};
    if (!node)
        return NULL;
    node->shared = retain_arrow_shared(s);
    out->buffers = node->buffers;
    out->release = release_arrow_array;
    return node;
}

/* A dictionary's memory stays with the shared part. */
static bool make_dictionary_array(ke_arrow_shared *s, uint32_t which, struct ArrowArray *out)
{
    const ke_arrow_column *c = &s->dictionaries[which];
    array_node *node = begin_arrow_array(s, out, c->count);
    if (!node)
        return false;
    out->n_buffers = 3;
    node->buffers[1] = c->offsets.data;
    node->buffers[2] = c->values.data ? c->values.data : "";
    return true;
}

/* Moves the memory of a column into the array's node. Borrowed values stay the trace's, which the
 * node keeps alive. */
static void take_column_memory(array_node *node, struct ArrowArray *out, ke_arrow_column *c,
                               bool text)
{
    static const int64_t no_offsets[1];
    const void *values = c->borrowed ? c->borrowed : c->values.data;
    KB_ASSERT(!c->borrowed || !c->values.data);
    node->owned[0] = c->validity.data;
    node->owned[1] = c->values.data;
    node->owned[2] = c->offsets.data;
    out->null_count = c->nulls;
    out->n_buffers = text ? 3 : 2;
    node->buffers[0] = c->validity.data;
    if (text)
        node->buffers[1] = c->offsets.data ? (const void *)c->offsets.data : no_offsets;
    node->buffers[text ? 2 : 1] = values ? values : "";
    *c = (ke_arrow_column){.count = 0};
}

static bool make_column_array(ke_arrow_shared *s, const ke_arrow_spec *spec, ke_arrow_column *c,
                              struct ArrowArray *out)
{
    array_node *node = begin_arrow_array(s, out, c->count);
    if (!node)
        return false;
    take_column_memory(node, out, c, spec->format[0] == 'u' || spec->format[0] == 'U');
    if (spec->dictionary == KE_ARROW_NO_DICTIONARY)
        return true;
    out->dictionary = &node->dictionary;
    return make_dictionary_array(s, spec->dictionary, &node->dictionary);
}

bool ke_arrow_make_array(ke_arrow_shared *s, ke_arrow_batch *b, struct ArrowArray *out)
{
    uint32_t count = s->table->column_count;
    array_node *node = begin_arrow_array(s, out, b->count);
    if (!node)
        return false;
    out->n_buffers = 1;
    node->children = calloc(count, sizeof *node->children);
    node->child_pointers = calloc(count, sizeof *node->child_pointers);
    bool ok = node->children && node->child_pointers;
    out->children = node->child_pointers;
    for (uint32_t i = 0; ok && i < count; i++) {
        node->child_pointers[i] = &node->children[i];
        out->n_children = i + 1;
        ok = make_column_array(s, &s->table->columns[i], &b->columns[i], &node->children[i]);
    }
    if (!ok)
        out->release(out);
    return ok;
}

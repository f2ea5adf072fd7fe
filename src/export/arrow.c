/* kineto_trace_arrow_stream: Arrow's C stream interface over the tables of a trace. A consumer may
 * use it from any one thread at a time; arrays outlive the stream, because each holds a reference
 * to the shared part. */
#include "export/arrow.h"

#include <errno.h>

typedef struct arrow_stream {
    ke_arrow_shared *shared;
    uint64_t next;
    bool done;
    const char *error;
} arrow_stream;

/* ---- dictionaries ---------------------------------------------------------------------------- */

/* Appends a text to a dictionary; its index is the number of texts before it. */
static bool add_dictionary_text(ke_arrow_shared *s, uint32_t which, kineto_string text)
{
    ke_arrow_column *c = &s->dictionaries[which];
    c->count++;
    return ke_arrow_append_text(c, text, s->text_format[which][0] == 'U');
}

/* Categories that rows use; Arrow's indices need all entries below the largest one. */
static uint32_t count_categories(const kineto_trace *trace)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < kt_block_count(trace); i++) {
        const kt_block *k = kt_block_at(trace, i);
        for (uint32_t row = 0; row < k->count; row++)
            count = KB_MAX(count, k->category[row] + 1u);
    }
    return count;
}

/* 32-bit offsets suffice unless the texts, of which invalid bytes take three times their size, are
 * larger. */
static const char *string_offset_format(const kineto_trace *trace)
{
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < kineto_trace_string_count(trace); id++)
        bytes += kineto_trace_string(trace, id).size;
    return bytes > INT32_MAX / 3 ? "U" : "u";
}

static bool build_arrow_dictionaries(ke_arrow_shared *s)
{
    bool ok = true;
    s->text_format[KE_ARROW_STRINGS] = string_offset_format(s->trace);
    for (uint32_t id = 0; ok && id < kineto_trace_string_count(s->trace); id++)
        ok = add_dictionary_text(s, KE_ARROW_STRINGS, kineto_trace_string(s->trace, id));
    uint32_t categories = count_categories(s->trace);
    for (uint32_t i = 0; ok && i < categories; i++)
        ok = add_dictionary_text(s, KE_ARROW_CATEGORIES, kt_category_string(s->trace, (uint16_t)i));
    for (uint32_t i = 0; ok && i < KINETO_KIND_COUNT; i++)
        ok = add_dictionary_text(s, KE_ARROW_KINDS, kb_string(kineto_kind_name(i)));
    for (uint32_t i = 0; ok && i <= KINETO_FORM_COUNTER; i++)
        ok = add_dictionary_text(s, KE_ARROW_FORMS, kb_string(ke_form_name(i)));
    return ok;
}

static ke_arrow_shared *make_arrow_shared(const kineto_trace *trace, const ke_arrow_table *table)
{
    ke_arrow_shared *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->references = 1;
    s->table = table;
    s->trace = kineto_trace_retain(trace);
    for (size_t i = 0; i < KB_COUNT(s->text_format); i++)
        s->text_format[i] = "u";
    if (table->dictionaries && !build_arrow_dictionaries(s)) {
        ke_arrow_release(s);
        return NULL;
    }
    return s;
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int fail_arrow_stream(arrow_stream *s, const char *sentence)
{
    s->error = sentence;
    return ENOMEM;
}

static int get_stream_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    arrow_stream *s = self->private_data;
    s->error = NULL;
    return ke_arrow_make_schema(s->shared, out) ? 0
                                                : fail_arrow_stream(s, "no memory for a schema");
}

/* Returns 0 or an errno value, as Arrow's interface wants. A failed batch can be requested
 * again. */
static int get_next_batch(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    arrow_stream *s = self->private_data;
    uint64_t next = s->next;
    memset(out, 0, sizeof *out);
    s->error = NULL;
    if (s->done)
        return 0; /* a released array marks the end of the stream */
    ke_arrow_batch b = {.shared = s->shared, .trace = s->shared->trace};
    bool done = true;
    s->shared->table->fill(&b, &next, &done);
    bool ok = !b.failed && (b.count == 0 || ke_arrow_make_array(s->shared, &b, out));
    for (uint32_t i = 0; i < KE_ARROW_MAX_COLUMNS; i++)
        ke_arrow_column_free(&b.columns[i]);
    kb_vec_free(&b.text);
    if (!ok)
        return fail_arrow_stream(s, "no memory for a batch");
    s->next = next;
    s->done = done || b.count == 0;
    return 0;
}

static const char *get_stream_error(struct ArrowArrayStream *self)
{
    return ((const arrow_stream *)self->private_data)->error;
}

static void release_stream(struct ArrowArrayStream *self)
{
    arrow_stream *s = self->private_data;
    ke_arrow_release(s->shared);
    free(s);
    self->release = NULL;
}

static kineto_status fail_unknown_table(const char *wanted, kineto_error *err)
{
    char known[256] = "";
    const ke_arrow_table *t;
    for (size_t i = 0; (t = ke_arrow_table_at(i)); i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", t->name);
    }
    return kb_fail(err, KINETO_E_ARGUMENT, "unknown table \"%s\"; the tables of a trace are %s",
                   wanted, known);
}

kineto_status kineto_trace_arrow_stream(const kineto_trace *trace, const char *table,
                                        struct ArrowArrayStream *out, kineto_error *err)
{
    const ke_arrow_table *t = NULL;
    size_t i = 0;
    if (!trace || !table || !out)
        return kb_fail_null(err, __func__, "trace, table, out", trace, table, out);
    memset(out, 0, sizeof *out);
    while ((t = ke_arrow_table_at(i++)) && strcmp(t->name, table) != 0) {
    }
    if (!t)
        return fail_unknown_table(table, err);
    arrow_stream *s = calloc(1, sizeof *s);
    ke_arrow_shared *shared = s ? make_arrow_shared(trace, t) : NULL;
    if (!shared) {
        free(s);
        return kb_fail_memory(err, "dictionaries of an Arrow stream");
    }
    s->shared = shared;
    *out = (struct ArrowArrayStream){get_stream_schema, get_next_batch, get_stream_error,
                                     release_stream, s};
    return KINETO_OK;
}

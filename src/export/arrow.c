/* Arrow's C stream over the tables of a trace. */
#include "export/arrow.h"

#include <errno.h>

typedef struct stream {
    ke_arrow_shared *shared;
    uint64_t next;
    bool done;
    const char *error;
} stream;

/* ---- dictionaries ------------------------------------------------------------------------------ */

static bool add(ke_arrow_shared *s, uint32_t which, kineto_string text)
{
    ke_arrow_column *c = &s->dictionaries[which];
    c->count++;
    return ke_arrow_append_text(c, text, s->text_format[which][0] == 'U');
}

static uint32_t category_count(const kineto_trace *trace)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < kt_block_count(trace); i++) {
        const kt_block *k = kt_block_at(trace, i);
        for (uint32_t row = 0; row < k->count; row++)
            count = KB_MAX(count, k->category[row] + 1u);
    }
    return count;
}

/* Offsets of 32 bits will do unless texts, the invalid ones three times as long, are more. */
static const char *format_for(const kineto_trace *trace)
{
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < kineto_trace_string_count(trace); id++)
        bytes += kineto_trace_string(trace, id).size;
    return bytes > INT32_MAX / 3 ? "U" : "u";
}

static bool make_dictionaries(ke_arrow_shared *s)
{
    bool ok = true;
    s->text_format[KE_ARROW_STRINGS] = format_for(s->trace);
    for (uint32_t id = 0; ok && id < kineto_trace_string_count(s->trace); id++)
        ok = add(s, KE_ARROW_STRINGS, kineto_trace_string(s->trace, id));
    uint32_t categories = category_count(s->trace);
    for (uint32_t i = 0; ok && i < categories; i++)
        ok = add(s, KE_ARROW_CATEGORIES, kt_category_string(s->trace, (uint16_t)i));
    for (uint32_t i = 0; ok && i < KINETO_KIND_COUNT; i++)
        ok = add(s, KE_ARROW_KINDS, kb_string(kineto_kind_name(i)));
    for (uint32_t i = 0; ok && i <= KINETO_FORM_COUNTER; i++)
        ok = add(s, KE_ARROW_FORMS, kb_string(ke_form_name(i)));
    return ok;
}

static ke_arrow_shared *make_shared(const kineto_trace *trace, const ke_arrow_table *table)
{
    ke_arrow_shared *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->references = 1;
    s->table = table;
    s->trace = kineto_trace_retain(trace);
    for (size_t i = 0; i < KB_COUNT(s->text_format); i++)
        s->text_format[i] = "u";
    if (table->dictionaries && !make_dictionaries(s)) {
        ke_arrow_release(s);
        return NULL;
    }
    return s;
}

/* ---- the stream -------------------------------------------------------------------------------- */

static int fail(stream *s, const char *sentence)
{
    s->error = sentence;
    return ENOMEM;
}

static int get_schema(struct ArrowArrayStream *self, struct ArrowSchema *out)
{
    stream *s = self->private_data;
    s->error = NULL;
    return ke_arrow_make_schema(s->shared, out) ? 0 : fail(s, "no memory for a schema");
}

static int get_next(struct ArrowArrayStream *self, struct ArrowArray *out)
{
    stream *s = self->private_data;
    uint64_t next = s->next;
    memset(out, 0, sizeof *out);
    s->error = NULL;
    if (s->done)
        return 0; /* released: the end */
    ke_arrow_batch b = {.shared = s->shared, .trace = s->shared->trace};
    bool done = true;
    s->shared->table->fill(&b, &next, &done);
    bool ok = !b.failed && (b.count == 0 || ke_arrow_make_array(s->shared, &b, out));
    for (uint32_t i = 0; i < KE_ARROW_MOST_COLUMNS; i++)
        ke_arrow_column_free(&b.columns[i]);
    kb_vec_free(&b.text);
    if (!ok)
        return fail(s, "no memory for a batch");
    s->next = next;
    s->done = done || b.count == 0;
    return 0;
}

static const char *get_last_error(struct ArrowArrayStream *self)
{
    return ((const stream *)self->private_data)->error;
}

static void release(struct ArrowArrayStream *self)
{
    stream *s = self->private_data;
    ke_arrow_release(s->shared);
    free(s);
    self->release = NULL;
}

static kineto_status fail_table(const char *wanted, kineto_error *err)
{
    char known[256] = "";
    const ke_arrow_table *t;
    for (size_t i = 0; (t = ke_arrow_table_at(i)); i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", t->name);
    }
    return kb_fail(err, KINETO_E_ARGUMENT, "there is no table \"%s\" of a trace: it is one of %s",
                   wanted, known);
}

kineto_status kineto_trace_arrow_stream(const kineto_trace *trace, const char *table,
                                        struct ArrowArrayStream *out, kineto_error *err)
{
    const ke_arrow_table *t = NULL;
    size_t i = 0;
    if (!trace || !table || !out)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "an Arrow stream needs a trace, a table and a place");
    memset(out, 0, sizeof *out);
    while ((t = ke_arrow_table_at(i++)) && strcmp(t->name, table) != 0) {
    }
    if (!t)
        return fail_table(table, err);
    stream *s = calloc(1, sizeof *s);
    ke_arrow_shared *shared = s ? make_shared(trace, t) : NULL;
    if (!shared) {
        free(s);
        return kb_fail(err, KINETO_E_MEMORY, "no memory for the texts of a trace");
    }
    s->shared = shared;
    *out = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release, s};
    return KINETO_OK;
}

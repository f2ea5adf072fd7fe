/* Sinks: a buffer, perhaps a compressor, and a target (a file, memory, nothing). Errors are sticky:
 * after the first one everything is ignored, and close reports it. */
#include "base/sink_impl.h"

typedef struct sink {
    kb_sink head; /* first, so that a kb_sink is a sink */
    char *buffer;
    kb_compressor *compressor; /* NULL: none */
    const kb_target_ops *ops;
    void *target;
    uint64_t flushed_bytes;
    uint64_t put_bytes; /* after compression */
    kineto_error error; /* code is KINETO_OK while nothing failed */
} sink;

/* Fits a second-level cache, and is large enough that a system call per buffer does not matter. */
enum { BUFFER_BYTES = 256 * 1024 };

static sink *sink_of(kb_sink *s) { return (sink *)s; }
static const sink *sink_of_const(const kb_sink *s) { return (const sink *)s; }

/* ---- buffer -----------------------------------------------------------------------------------
 */

static kineto_status put_to_target(void *of, const char *data, size_t bytes, kineto_error *err)
{
    sink *s = of;
    s->put_bytes += bytes;
    return s->ops->put(s->target, data, bytes, err);
}

/* Pass bytes to the compressor or to the target; `last` ends the compressed stream. */
static void compress_or_put(sink *s, const char *data, size_t bytes, bool last)
{
    s->flushed_bytes += bytes;
    if (s->error.code != KINETO_OK)
        return;
    kineto_status status = KINETO_OK;
    if (s->compressor)
        status = kb_compressor_run(s->compressor, data, bytes, last, put_to_target, s, &s->error);
    else if (bytes > 0)
        status = put_to_target(s, data, bytes, &s->error);
    s->error.code = status;
}

char *kb_sink_flush(kb_sink *head)
{
    sink *s = sink_of(head);
    KB_ASSERT(head->at >= s->buffer && head->at <= head->end);
    size_t bytes = (size_t)(head->at - s->buffer);
    head->at = s->buffer;
    if (bytes > 0)
        compress_or_put(s, s->buffer, bytes, false);
    return head->at;
}

void kb_sink_write_slow(kb_sink *head, const void *data, size_t bytes)
{
    kb_sink_flush(head);
    if (bytes >= BUFFER_BYTES) {
        compress_or_put(sink_of(head), data, bytes, false);
        return;
    }
    memcpy(head->at, data, bytes);
    head->at += bytes;
}

uint64_t kb_sink_bytes(const kb_sink *head)
{
    const sink *s = sink_of_const(head);
    return s->flushed_bytes + (uint64_t)(head->at - s->buffer);
}

static void write_to(void *to, const char *bytes, size_t size) { kb_sink_write(to, bytes, size); }

void kb_sink_write_xml(kb_sink *s, kineto_string text) { kb_xml_put(text, write_to, s); }

bool kb_sink_failed(const kb_sink *head) { return sink_of_const(head)->error.code != KINETO_OK; }

void kb_sink_fail(kb_sink *head, kineto_status code, const char *fmt, ...)
{
    sink *s = sink_of(head);
    if (s->error.code != KINETO_OK)
        return;
    char text[sizeof(s->error.message)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    kb_fail(&s->error, code, "%s", text);
}

/* ---- life -------------------------------------------------------------------------------------
 */

kineto_status kb_sink_over(const kb_target_ops *ops, void *target, kb_compression c, kb_sink **out,
                           kineto_error *err)
{
    kineto_status status;
    sink *s = calloc(1, sizeof(*s));
    if (!s || !(s->buffer = malloc(BUFFER_BYTES))) {
        status = kb_fail_memory(err, "output buffer");
        goto failed;
    }
    if (c != KB_COMPRESS_NONE) {
        status = kb_compressor_open(c, &s->compressor, err);
        if (status != KINETO_OK)
            goto failed;
    }
    s->ops = ops;
    s->target = target;
    s->head.at = s->buffer;
    s->head.end = s->buffer + BUFFER_BYTES;
    *out = &s->head;
    return KINETO_OK;
failed:
    if (s)
        free(s->buffer);
    free(s);
    ops->drop(target);
    *out = NULL;
    return status;
}

static void free_sink(sink *s)
{
    s->ops->drop(s->target);
    if (s->compressor)
        kb_compressor_close(s->compressor);
    free(s->buffer);
    free(s);
}

/* Write everything to the target, including the end of the compressed stream. */
static void finish_stream(sink *s)
{
    kb_sink_flush(&s->head);
    if (s->compressor)
        compress_or_put(s, "", 0, true);
}

kineto_status kb_sink_close_counted(kb_sink *head, uint64_t *written, kineto_error *err)
{
    *written = 0;
    if (!head)
        return KINETO_OK;
    sink *s = sink_of(head);
    finish_stream(s);
    *written = s->put_bytes;
    if (s->error.code == KINETO_OK)
        s->error.code = s->ops->finish(s->target, &s->error);
    kineto_status status = s->error.code;
    if (status != KINETO_OK && err)
        *err = s->error;
    free_sink(s);
    return status;
}

kineto_status kb_sink_close(kb_sink *head, kineto_error *err)
{
    uint64_t written;
    return kb_sink_close_counted(head, &written, err);
}

void kb_sink_abort(kb_sink *head)
{
    if (head)
        free_sink(sink_of(head));
}

/* ---- discarding -------------------------------------------------------------------------------
 */

static kineto_status discard_put(void *target, const char *data, size_t bytes, kineto_error *err)
{
    (void)target, (void)data, (void)bytes, (void)err;
    return KINETO_OK;
}
static kineto_status discard_finish(void *target, kineto_error *err)
{
    (void)target, (void)err;
    return KINETO_OK;
}
static void discard_drop(void *target) { (void)target; }

kineto_status kb_sink_open_discard(kb_sink **out, kineto_error *err)
{
    static const kb_target_ops ops = {discard_put, discard_finish, discard_drop};
    return kb_sink_over(&ops, NULL, KB_COMPRESS_NONE, out, err);
}

/* ---- memory -----------------------------------------------------------------------------------
 */

typedef KB_VEC(char) memory;

static kineto_status memory_put(void *target, const char *data, size_t bytes, kineto_error *err)
{
    memory *m = target;
    if (bytes >= SIZE_MAX - m->count || !kb_vec_reserve(m, m->count + bytes + 1))
        return kb_fail(err, KINETO_E_MEMORY, "out of memory after %zu bytes of output", m->count);
    memcpy(m->data + m->count, data, bytes);
    m->count += bytes;
    return KINETO_OK;
}
static void memory_drop(void *target)
{
    memory *m = target;
    kb_vec_free(m);
    free(m);
}
static const kb_target_ops memory_ops = {memory_put, discard_finish, memory_drop};

kineto_status kb_sink_open_memory(kb_compression c, kb_sink **out, kineto_error *err)
{
    memory *m = calloc(1, sizeof(*m));
    *out = NULL;
    if (!m)
        return kb_fail_memory(err, "output buffer");
    return kb_sink_over(&memory_ops, m, c, out, err);
}

kineto_status kb_sink_take(kb_sink *head, char **data, size_t *bytes, kineto_error *err)
{
    sink *s = sink_of(head);
    memory *m = s->target;
    *data = NULL;
    *bytes = 0;
    if (s->ops != &memory_ops)
        return kb_fail(err, KINETO_E_STATE, "only a memory sink can be taken from");
    finish_stream(s);
    if (s->error.code == KINETO_OK)
        s->error.code = memory_put(m, "", 0, &s->error); /* so that there is room for the NUL */
    if (s->error.code != KINETO_OK) {
        if (err)
            *err = s->error;
        return s->error.code;
    }
    m->data[m->count] = '\0';
    *data = m->data;
    *bytes = m->count;
    *m = (memory){0};
    return KINETO_OK;
}

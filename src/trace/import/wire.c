/* JSON text of values of protocol buffers; see wire.h. */
#include "trace/import/wire.h"

/* Room for more text; NULL: out of memory, or too long. */
static char *reserve_text(kt_json_text *j, size_t bytes)
{
    j->is_too_long |= bytes > KT_JSON_TEXT_BYTES || j->text.count > KT_JSON_TEXT_BYTES;
    if (j->is_too_long)
        return NULL;
    if (!kb_vec_reserve(&j->text, j->text.count + bytes)) {
        j->no_memory = true;
        return NULL;
    }
    return j->text.data + j->text.count;
}

static void end_text(kt_json_text *j, const char *end) { j->text.count = (size_t)(end - j->text.data); }

/* Text that is JSON already: a bracket, a word, a value that was checked. */
void kt_json_text_put(kt_json_text *j, kineto_string raw)
{
    char *to = reserve_text(j, raw.size + 1);
    if (!to)
        return;
    if (raw.size)
        memcpy(to, raw.data, raw.size);
    end_text(j, to + raw.size);
}

/* Escaped, in quotes; invalid UTF-8 is replaced. */
void kt_json_text_string(kt_json_text *j, kineto_string text)
{
    uint64_t replaced = 0;
    char *to = text.size < SIZE_MAX / 8 ? reserve_text(j, 6 * text.size + 2) : NULL;
    if (to)
        end_text(j, kb_json_escape(to, text, &replaced));
}

/* At most 20 digits and a sign. */
void kt_json_text_int(kt_json_text *j, int64_t n)
{
    char *to = reserve_text(j, 24);
    if (to)
        end_text(j, kb_json_format_int(to, n));
}

/* The same without a sign. */
void kt_json_text_uint(kt_json_text *j, uint64_t n)
{
    char *to = reserve_text(j, 24);
    if (to)
        end_text(j, kb_json_format_uint(to, n));
}

/* JSON has no number for NaN and infinities: they are texts, as in all of ckineto's JSON. */
void kt_json_text_double(kt_json_text *j, double n)
{
    char *to = reserve_text(j, 40);
    if (!to)
        return;
    if (n - n == 0)
        end_text(j, kb_json_format_double(to, n));
    else
        kt_json_text_string(j, kb_string(n != n ? "nan" : n > 0 ? "inf" : "-inf"));
}

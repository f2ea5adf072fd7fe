/* The JSON writer: owns commas, colons and nesting. Output is compact; depth is bounded, and what
 * nests deeper makes the sink fail instead of the file being wrong. */
#include "base/base.h"

#define MAX_DEPTH 64u

/* Bits of state[depth]. */
enum { HAS_ITEMS = 1, AFTER_KEY = 2, NEWLINE = 4 };

/* Enough for any number, "}" or "," here. */
enum { SHORT_BYTES = 64 };

void kb_json_init(kb_json *j, kb_sink *sink) { *j = (kb_json){.sink = sink}; }

static uint8_t *state_of(kb_json *j) { return &j->state[KB_MIN(j->depth, MAX_DEPTH)]; }

/* Write what separates the last token from the next item. @return where the item goes, with room
 * for SHORT_BYTES. */
static char *begin_item(kb_json *j)
{
    char *out = kb_sink_reserve(j->sink, SHORT_BYTES + 2);
    uint8_t *state = state_of(j);
    if (*state & AFTER_KEY) {
        *state &= (uint8_t)~AFTER_KEY;
        return out;
    }
    if (*state & HAS_ITEMS)
        *out++ = ',';
    if (*state & NEWLINE)
        *out++ = '\n';
    *state = HAS_ITEMS;
    return out;
}

static void end_item(kb_json *j, const char *end)
{
    kb_sink_advance(j->sink, (size_t)(end - j->sink->at));
}

static void open_container(kb_json *j, char bracket)
{
    char *out = begin_item(j);
    *out++ = bracket;
    end_item(j, out);
    if (j->depth++ >= MAX_DEPTH)
        kb_sink_fail(j->sink, KINETO_E_LIMIT, "JSON nested deeper than %u levels", MAX_DEPTH);
    *state_of(j) = 0;
}

static void close_container(kb_json *j, char bracket)
{
    char *out = kb_sink_reserve(j->sink, SHORT_BYTES);
    if (*state_of(j) & NEWLINE)
        *out++ = '\n';
    *out++ = bracket;
    end_item(j, out);
    if (j->depth > 0)
        j->depth--;
}

void kb_json_object_begin(kb_json *j) { open_container(j, '{'); }
void kb_json_object_end(kb_json *j) { close_container(j, '}'); }
void kb_json_array_begin(kb_json *j) { open_container(j, '['); }
void kb_json_array_end(kb_json *j) { close_container(j, ']'); }

/* Between items, so it waits for the comma of the next one. */
void kb_json_newline(kb_json *j) { *state_of(j) |= NEWLINE; }

/* ---- strings ----------------------------------------------------------------------------------
 */

/* Where a long string may be cut: not inside a sequence. A fourth continuation byte in a row
 * belongs to no sequence that began before it. */
static size_t cut_at(kineto_string s, size_t at)
{
    size_t back = at;
    while (at - back < 3 && ((unsigned char)s.data[back] & 0xc0) == 0x80)
        back--;
    return ((unsigned char)s.data[back] & 0xc0) == 0x80 ? at : back;
}

/* With quotes. Long strings go piece by piece, so that memory stays bounded. */
static void write_string(kb_json *j, kineto_string s)
{
    enum { PIECE_BYTES = 8192 };
    kb_sink_write(j->sink, "\"", 1);
    while (s.size > 0) {
        size_t piece = s.size > PIECE_BYTES ? cut_at(s, PIECE_BYTES) : s.size;
        char *out = kb_sink_reserve(j->sink, 6 * piece);
        char *end = kb_json_escape_body(out, (kineto_string){s.data, piece}, &j->replaced_bytes);
        kb_sink_advance(j->sink, (size_t)(end - out));
        s.data += piece;
        s.size -= piece;
    }
    kb_sink_write(j->sink, "\"", 1);
}

void kb_json_string(kb_json *j, kineto_string s)
{
    end_item(j, begin_item(j));
    write_string(j, s);
}

void kb_json_string_z(kb_json *j, const char *s) { kb_json_string(j, kb_string(s)); }

void kb_json_key(kb_json *j, kineto_string key)
{
    kb_json_string(j, key);
    kb_sink_write(j->sink, ":", 1);
    *state_of(j) |= AFTER_KEY;
}

void kb_json_key_z(kb_json *j, const char *key) { kb_json_key(j, kb_string(key)); }

/* ---- other values -----------------------------------------------------------------------------
 */

void kb_json_int(kb_json *j, int64_t v) { end_item(j, kb_json_format_int(begin_item(j), v)); }

void kb_json_uint(kb_json *j, uint64_t v) { end_item(j, kb_json_format_uint(begin_item(j), v)); }

void kb_json_double(kb_json *j, double v) { end_item(j, kb_json_format_double(begin_item(j), v)); }

void kb_json_us(kb_json *j, int64_t ns) { end_item(j, kb_json_format_us(begin_item(j), ns)); }

void kb_json_raw(kb_json *j, kineto_string value)
{
    end_item(j, begin_item(j));
    kb_sink_write(j->sink, value.data, value.size);
}

void kb_json_bool(kb_json *j, bool v) { kb_json_raw(j, kb_string(v ? "true" : "false")); }

void kb_json_null(kb_json *j) { kb_json_raw(j, kb_string("null")); }

void kb_json_put_int(kb_json *j, const char *key, int64_t value)
{
    kb_json_key_z(j, key);
    kb_json_int(j, value);
}

void kb_json_put_uint(kb_json *j, const char *key, uint64_t value)
{
    kb_json_key_z(j, key);
    kb_json_uint(j, value);
}

void kb_json_put_double(kb_json *j, const char *key, double value)
{
    kb_json_key_z(j, key);
    kb_json_double(j, value);
}

void kb_json_put_us(kb_json *j, const char *key, int64_t ns)
{
    kb_json_key_z(j, key);
    kb_json_us(j, ns);
}

void kb_json_put_bool(kb_json *j, const char *key, bool value)
{
    kb_json_key_z(j, key);
    kb_json_bool(j, value);
}

void kb_json_put_string(kb_json *j, const char *key, kineto_string value)
{
    kb_json_key_z(j, key);
    kb_json_string(j, value);
}

void kb_json_document_begin(kb_json *j, const char *schema)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "schema", kb_string(schema));
}

/* The fast path of the Perfetto writer: one pass over the args into a buffer that is large enough
 * in any case, with lengths of one byte that are widened if necessary. Anything unusual (a text
 * that is new in this sequence, escapes, bytes that are not UTF-8, exponents, deep nesting) makes
 * it return without having written; then the general path writes the same event. */
#include "export/perfetto.h"

#define MAX_ARGS_BYTES 4096u
#define MAX_FLOWS      64u
#define MAX_DEPTH      6u
/* Enough for any event of this path: args grow to at most eight times their size. */
#define ROOM (512u + MAX_FLOWS * 12u + MAX_ARGS_BYTES * 8u)

#define TAG(field, wire) ((char)((field) << 3 | (wire)))

/* ---- fields ---------------------------------------------------------------------------------- */

static inline char *put_varint_field(char *out, uint32_t field, uint64_t v)
{
    *out++ = TAG(field, KE_WIRE_VARINT);
    return ke_proto_put_varint(out, v);
}

/* Fills in the length of the message whose length byte is at `length`, and moves the message if the
 * length needs more bytes. Returns the new end. */
static inline char *close_message(char *length, char *out)
{
    size_t bytes = (size_t)(out - length - 1);
    if (KINETO_LIKELY(bytes < 0x80)) {
        *length = (char)bytes;
        return out;
    }
    char text[10];
    size_t need = (size_t)(ke_proto_put_varint(text, bytes) - text);
    memmove(length + need, length + 1, bytes);
    memcpy(length, text, need);
    return out + need - 1;
}

static inline char *put_double_value(char *out, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    *out++ = TAG(KE_PF_VALUE_DOUBLE, KE_WIRE_FIXED64);
    for (int i = 0; i < 8; i++)
        *out++ = (char)(bits >> 8 * i);
    return out;
}

/* NULL: the bytes are not UTF-8. */
static inline char *put_utf8_field(char *out, uint32_t field, const char *data, size_t size)
{
    if (kb_utf8_valid_prefix(data, size) != size)
        return NULL;
    *out++ = TAG(field, KE_WIRE_BYTES);
    out = ke_proto_put_varint(out, size);
    memcpy(out, data, size);
    return out + size;
}

static inline bool have_same_bytes(const char *a, const char *b, size_t size)
{
    uint64_t x, y;
    size_t at = 0;
    for (; size - at >= sizeof x; at += sizeof x) {
        memcpy(&x, a + at, sizeof x);
        memcpy(&y, b + at, sizeof y);
        if (x != y)
            return false;
    }
    for (; at < size; at++)
        if (a[at] != b[at])
            return false;
    return true;
}

/* The number of a text in this sequence; 0: it is not interned yet. */
static inline uint32_t interned_number(const ke_perfetto *w, const ke_pf_ids *ids, uint32_t index)
{
    if (index >= ids->given.count || ids->given.data[index] >> 32 != w->sequence)
        return 0;
    return (uint32_t)ids->given.data[index];
}

/* Begins an annotation; NULL: its key is not interned yet. *length: the byte for close_message. */
static inline char *open_annotation(const ke_perfetto *w, char *out, uint32_t index, char **length)
{
    uint32_t number = interned_number(w, &w->keys, index);
    if (KINETO_UNLIKELY(!number))
        return NULL;
    *out++ = TAG(KE_PF_EVENT_ANNOTATION, KE_WIRE_BYTES);
    *length = out++;
    return put_varint_field(out, KE_PF_VALUE_KEY, number);
}

/* ---- packed args ----------------------------------------------------------------------------- */

static inline char *put_packed_value(char *out, const kt_arg *arg)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        return put_varint_field(out, KE_PF_VALUE_INT, (uint64_t)arg->i);
    case KINETO_ARG_UINT:
        return put_varint_field(out, KE_PF_VALUE_UINT, arg->u);
    case KINETO_ARG_DOUBLE:
        return put_double_value(out, arg->d);
    case KINETO_ARG_BOOL:
        return put_varint_field(out, KE_PF_VALUE_BOOL, arg->u != 0);
    case KINETO_ARG_STRING:
        return ke_pf_is_word(arg->text)
                   ? NULL
                   : put_utf8_field(out, KE_PF_VALUE_STRING, arg->text.data, arg->text.size);
    default:
        return NULL;
    }
}

/* `room`: bytes of shared texts that still fit, because args do not count them. */
static char *put_packed_fast(const ke_perfetto *w, char *out, const kt_block *b, uint32_t i)
{
    kt_args args = kt_args_of(w->trace, b, i);
    kt_arg arg = {0};
    size_t room = MAX_ARGS_BYTES - kt_args_bytes(&args);
    while (kt_args_step(&args, &arg)) {
        char *length;
        if (arg.shared && arg.text.size > room)
            return NULL;
        room -= arg.shared ? arg.text.size : 0;
        out = open_annotation(w, out, 2 * arg.key, &length);
        if (!out || !(out = put_packed_value(out, &arg)))
            return NULL;
        out = close_message(length, out);
    }
    return out;
}

/* ---- verbatim args --------------------------------------------------------------------------- */

/* A position in a JSON text. */
typedef struct json_cursor {
    const char *at, *end;
} json_cursor;

/* The next character that is not white space; '\0' at the end. */
static inline char peek_token(json_cursor *p)
{
    while (p->at < p->end &&
           (unsigned char)*p->at <= ' ') /* valid JSON has no other control characters here */
        p->at++;
    return p->at < p->end ? *p->at : '\0';
}

/* Skips bytes that are neither a quote nor a backslash, eight at a time; may stop before the first
 * of them. */
static inline const char *skip_plain_bytes(const char *at, const char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    for (uint64_t word; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
        uint64_t found =
            ((quote - ones) & ~quote & highs) | ((backslash - ones) & ~backslash & highs);
        if (found && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
            return at + __builtin_ctzll(found) / 8;
        if (found)
            break;
    }
    return at;
}

/* A string without escapes; false: it has some. */
static inline bool take_plain_string(json_cursor *p, kineto_string *text)
{
    if (peek_token(p) != '"')
        return false;
    const char *begin = p->at + 1;
    p->at = skip_plain_bytes(begin, p->end);
    while (p->at < p->end && *p->at != '"' && *p->at != '\\')
        p->at++;
    *text = (kineto_string){begin, (size_t)(p->at - begin)};
    return p->at < p->end && *p->at++ == '"';
}

static inline bool take_literal(json_cursor *p, const char *word, size_t size)
{
    if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size) != 0)
        return false;
    p->at += size;
    return true;
}

/* Appends digits to `value`, which has *digits of them already. */
static inline uint64_t accumulate_digits(json_cursor *p, uint64_t value, unsigned *digits)
{
    for (; p->at < p->end && kb_is_digit(*p->at); p->at++, ++*digits)
        value = value * 10 + (uint64_t)(*p->at - '0');
    return value;
}

/* Integers of up to 18 digits, and decimals of up to 15, which are exact as a quotient; else
 * NULL. */
static inline char *put_number_fast(char *out, json_cursor *p)
{
    bool negative = *p->at == '-';
    unsigned digits = 0, whole;
    p->at += negative;
    uint64_t value = accumulate_digits(p, 0, &digits);
    whole = digits;
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        value = accumulate_digits(p, value, &digits);
    }
    bool integer = digits == whole && p->at[-1] != '.';
    if (!whole || digits > (integer ? 18 : 15) || p->at == p->end || (*p->at | 32) == 'e')
        return NULL;
    if (integer)
        return put_varint_field(out, KE_PF_VALUE_INT, negative ? 0 - value : value);
    double d = (double)value / ke_pf_powers[digits - whole];
    return put_double_value(out, negative ? -d : d);
}

static char *put_value_fast(char *out, json_cursor *p, uint32_t depth);

/* After an item: true if another one follows. *ok false: neither a comma nor the bracket. */
static inline bool take_separator(json_cursor *p, char close, bool *ok)
{
    char c = peek_token(p);
    *ok = c == ',' || c == close;
    p->at += *ok;
    return c == ',';
}

/* Lists and objects item by item, up to MAX_DEPTH. */
static char *put_items_fast(char *out, json_cursor *p, uint32_t depth)
{
    const char *begin = p->at;
    char open = *p->at++, close = open == '[' ? ']' : '}';
    bool ok = depth < MAX_DEPTH;
    if (ok && peek_token(p) == close) /* empty: written as a text, like null */
        return put_utf8_field(out, KE_PF_VALUE_STRING, begin, (size_t)(++p->at - begin));
    for (bool any = ok; any; any = ok && take_separator(p, close, &ok)) {
        kineto_string key;
        *out++ = TAG(open == '[' ? KE_PF_VALUE_ITEM : KE_PF_VALUE_ENTRY, KE_WIRE_BYTES);
        char *length = out++;
        if (open == '{') {
            if (!take_plain_string(p, &key) || peek_token(p) != ':')
                return NULL;
            p->at++;
            out = put_utf8_field(out, KE_PF_VALUE_KEY_TEXT, key.data, key.size);
        }
        if (!out || !(out = put_value_fast(out, p, depth + 1)))
            return NULL;
        out = close_message(length, out);
    }
    return ok ? out : NULL;
}

static char *put_value_fast(char *out, json_cursor *p, uint32_t depth)
{
    kineto_string text;
    switch (peek_token(p)) {
    case '"':
        return take_plain_string(p, &text) && !ke_pf_is_word(text)
                   ? put_utf8_field(out, KE_PF_VALUE_STRING, text.data, text.size)
                   : NULL;
    case 't':
        return take_literal(p, "true", 4) ? put_varint_field(out, KE_PF_VALUE_BOOL, 1) : NULL;
    case 'f':
        return take_literal(p, "false", 5) ? put_varint_field(out, KE_PF_VALUE_BOOL, 0) : NULL;
    case 'n':
        return take_literal(p, "null", 4) ? put_utf8_field(out, KE_PF_VALUE_STRING, "null", 4)
                                          : NULL;
    case '[':
    case '{':
        return put_items_fast(out, p, depth);
    case '\0':
        return NULL;
    default:
        return put_number_fast(out, p);
    }
}

/* Skips the value of a key that repeats a column if it is a plain id. */
static inline bool skip_plain_id(json_cursor *p)
{
    unsigned digits = 0;
    peek_token(p);
    accumulate_digits(p, 0, &digits);
    char after_id = peek_token(p);
    return digits > 0 && digits < 18 && (after_id == ',' || after_id == '}');
}

/* Skips the expected key with its quotes; false: another key follows. */
static inline bool take_expected_key(json_cursor *p, const ke_pf_slot *slot)
{
    size_t size = slot->raw.size;
    if (peek_token(p) != '"' || (size_t)(p->end - p->at) < size + 2 || p->at[size + 1] != '"' ||
        !have_same_bytes(p->at + 1, slot->raw.data, size))
        return false;
    p->at += size + 2;
    return true;
}

/* The slot of the next key; NULL: it has none. *after holds the prediction, which is corrected. */
static inline const ke_pf_slot *slot_of_next_key(const ke_perfetto *w, json_cursor *p,
                                                 uint8_t *after)
{
    kineto_string key;
    const ke_pf_slot *slot = &w->slots[*after];
    if (KINETO_LIKELY(slot->index && take_expected_key(p, slot)))
        return slot;
    if (!take_plain_string(p, &key))
        return NULL;
    slot = ke_pf_slot_of(w, key);
    if (KINETO_UNLIKELY(!slot->index || !kb_string_equal(slot->raw, key)))
        return NULL;
    *after = (uint8_t)(slot - w->slots);
    return slot;
}

static inline char *put_member_fast(ke_perfetto *w, char *out, json_cursor *p, uint8_t **after,
                                    uint8_t *after_slots)
{
    char *length;
    const ke_pf_slot *slot = slot_of_next_key(w, p, *after);
    if (!slot || peek_token(p) != ':')
        return NULL;
    p->at++;
    *after = &after_slots[slot - w->slots];
    if (slot->column != KE_PF_NO_COLUMN)
        return slot->column == KE_PF_ID_COLUMN && skip_plain_id(p) ? out : NULL;
    out = open_annotation(w, out, slot->index, &length);
    if (!out || !(out = put_value_fast(out, p, 0)))
        return NULL;
    return close_message(length, out);
}

/* The members of verbatim args. Escapes and unknown keys end the fast path. */
static char *put_verbatim_fast(ke_perfetto *w, char *out, kineto_string text, uint32_t kind)
{
    json_cursor p = {text.data, text.data + text.size};
    uint8_t *after_slots = w->slot_after[KB_MIN(kind, KINETO_KIND_COUNT - 1u)];
    uint8_t *after = &after_slots[KE_PF_SLOTS];
    bool ok = true;
    if (peek_token(&p) != '{')
        return NULL;
    p.at++;
    for (bool any = peek_token(&p) != '}'; any; any = ok && take_separator(&p, '}', &ok))
        if (!(out = put_member_fast(w, out, &p, &after, after_slots)))
            return NULL;
    return ok ? out : NULL;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* NULL if the column's key is not interned in this sequence yet. */
static inline char *put_column_fast(const ke_perfetto *w, char *out, uint32_t key, uint64_t value)
{
    char *length;
    out = open_annotation(w, out, KE_PF_OWN_INDEX(key), &length);
    return out ? close_message(length, put_varint_field(out, KE_PF_VALUE_UINT, value)) : NULL;
}

static char *put_args_fast_path(ke_perfetto *w, char *out, const kt_block *b, uint32_t i,
                                kineto_row row)
{
    kt_args_form form = kt_args_form_of(b, i);
    if (b->external_id[i])
        out = put_column_fast(w, out, KE_PF_OWN_EXTERNAL, b->external_id[i]);
    if (out && b->correlation_id[i])
        out = put_column_fast(w, out, KE_PF_OWN_CORRELATION, b->correlation_id[i]);
    if (!out || form == KT_ARGS_NONE)
        return out;
    if (form == KT_ARGS_PACKED) {
        kt_args args = kt_args_of(w->trace, b, i);
        bool fits = kt_args_bytes(&args) <= MAX_ARGS_BYTES;
        return fits ? put_packed_fast(w, out, b, i) : NULL;
    }
    kineto_string text = kt_args_text(w->trace, row);
    return text.size <= MAX_ARGS_BYTES ? put_verbatim_fast(w, out, text, b->kind[i]) : NULL;
}

static inline char *put_flows_fast(const ke_perfetto *w, char *out, kineto_row row)
{
    uint32_t first = w->flow_first[row], end = w->flow_first[row + 1];
    if (end - first > MAX_FLOWS)
        return NULL;
    for (; first < end; first++) {
        uint64_t flow = w->flow_ends[first], number = ke_pf_flow_number(w, flow);
        uint32_t field = flow & 1 ? KE_PF_EVENT_FLOW_END : KE_PF_EVENT_FLOW;
        out = ke_proto_put_varint(out, (uint64_t)field << 3 | KE_WIRE_FIXED64);
        for (int i = 0; i < 8; i++)
            *out++ = (char)(number >> 8 * i);
    }
    return out;
}

/* Nothing is committed before the end: w->packets.count moves only if everything succeeded. */
bool ke_pf_put_fast(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row, uint32_t type)
{
    uint32_t name = interned_number(w, &w->names, b->name[i]);
    uint32_t category = interned_number(w, &w->categories, b->category[i]);
    bool plain = b->form[i] != KINETO_FORM_ASYNC && !(b->flags[i] & 0xff) && ke_pf_has_usual_kind(w, b, i);
    if (!name || !category || !plain || !ke_proto_reserve(&w->packets, ROOM))
        return false;
    char *packet = w->packets.data + w->packets.count + 1, *out = packet + 1;
    int64_t time = ke_pf_time(b->start_ns[i]);
    packet[-1] = TAG(KE_PF_TRACE_PACKET, KE_WIRE_BYTES);
    out = put_varint_field(out, KE_PF_PACKET_TIMESTAMP, (uint64_t)time - (uint64_t)w->last_ns);
    out = put_varint_field(out, KE_PF_PACKET_SEQUENCE, w->sequence);
    out = put_varint_field(out, KE_PF_PACKET_FLAGS, KE_PF_STATE_NEEDED);
    *out++ = TAG(KE_PF_PACKET_TRACK_EVENT, KE_WIRE_BYTES);
    char *event = out++;
    out = put_varint_field(out, KE_PF_EVENT_TYPE, type);
    out = put_varint_field(out, KE_PF_EVENT_NAME, name);
    out = put_varint_field(out, KE_PF_EVENT_CATEGORY, category);
    out = put_args_fast_path(w, out, b, i, row);
    if (out && w->flow_first)
        out = put_flows_fast(w, out, row);
    if (!out)
        return false;
    out = close_message(packet, close_message(event, out));
    KB_ASSERT((size_t)(out - w->packets.data) - w->packets.count <= ROOM);
    w->packets.count = (size_t)(out - w->packets.data);
    w->last_ns = time;
    return true;
}

/* The fast way for events: one pass over the args into room that surely is large enough, with
 * lengths of one byte that are widened when they need more. Whatever is not plain (a text seen for
 * the first time in this sequence, escapes, bytes that are no UTF-8, exponents, deep nesting) makes
 * it give up: then nothing was written, and the careful way says the same thing. */
#include "export/perfetto.h"

#define MOST_ARGS_BYTES 4096u
#define MOST_FLOWS      64u
#define MOST_DEPTH      6u
/* Bytes of an event besides its args. An argument grows to at most eight times its size. */
#define ROOM (512u + MOST_FLOWS * 12u + MOST_ARGS_BYTES * 8u)

#define TAG(field, wire) ((char)((field) << 3 | (wire)))

/* ---- small parts ------------------------------------------------------------------------------- */

static inline char *put_small(char *out, uint32_t field, uint64_t v)
{
    *out++ = TAG(field, KE_WIRE_VARINT);
    return ke_proto_put_varint(out, v);
}

/* Fill in the length of the message whose length byte is at `length`. */
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

static inline char *put_double(char *out, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    *out++ = TAG(KE_PF_VALUE_DOUBLE, KE_WIRE_FIXED64);
    for (int i = 0; i < 8; i++)
        *out++ = (char)(bits >> 8 * i);
    return out;
}

/* NULL: these bytes need care. */
static inline char *put_text(char *out, uint32_t field, const char *data, size_t size)
{
    if (kb_utf8_valid_prefix(data, size) != size)
        return NULL;
    *out++ = TAG(field, KE_WIRE_BYTES);
    out = ke_proto_put_varint(out, size);
    memcpy(out, data, size);
    return out + size;
}

static inline bool same_bytes(const char *a, const char *b, size_t size)
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

/* Number of a text in this sequence; 0: it has none yet. */
static inline uint32_t known(const ke_perfetto *w, const ke_pf_ids *ids, uint32_t index)
{
    if (index >= ids->given.count || ids->given.data[index] >> 32 != w->sequence)
        return 0;
    return (uint32_t)ids->given.data[index];
}

/* The beginning of an annotation. NULL: its key is new. */
static inline char *open_annotation(const ke_perfetto *w, char *out, uint32_t index, char **length)
{
    uint32_t number = known(w, &w->keys, index);
    if (KINETO_UNLIKELY(!number))
        return NULL;
    *out++ = TAG(KE_PF_EVENT_ANNOTATION, KE_WIRE_BYTES);
    *length = out++;
    return put_small(out, KE_PF_VALUE_KEY, number);
}

/* ---- packed args ------------------------------------------------------------------------------- */

static inline char *put_packed_value(char *out, const kt_arg *arg)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        return put_small(out, KE_PF_VALUE_INT, (uint64_t)arg->i);
    case KINETO_ARG_UINT:
        return put_small(out, KE_PF_VALUE_UINT, arg->u);
    case KINETO_ARG_DOUBLE:
        return put_double(out, arg->d);
    case KINETO_ARG_BOOL:
        return put_small(out, KE_PF_VALUE_BOOL, arg->u != 0);
    case KINETO_ARG_STRING:
        return put_text(out, KE_PF_VALUE_STRING, arg->text.data, arg->text.size);
    default:
        return NULL;
    }
}

static char *put_packed(const ke_perfetto *w, char *out, const kt_block *b, uint32_t i)
{
    kt_args args = kt_args_of(w->trace, b, i);
    kt_arg arg = {0};
    size_t room = MOST_ARGS_BYTES - kt_args_bytes(&args);
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

/* ---- verbatim args ----------------------------------------------------------------------------- */

/* A place in a JSON text. */
typedef struct place {
    const char *at, *end;
} place;

/* The next character that is no white space; '\0' at the end. */
static inline char peek(place *p)
{
    while (p->at < p->end &&
           (unsigned char)*p->at <= ' ') /* the text is valid: no other controls */
        p->at++;
    return p->at < p->end ? *p->at : '\0';
}

/* To the quote or backslash that comes first, or near it: what is stepped over is neither. */
static inline const char *skip_plain(const char *at, const char *end)
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

/* A string without escapes: its text. */
static inline bool take_string(place *p, kineto_string *text)
{
    if (peek(p) != '"')
        return false;
    const char *begin = p->at + 1;
    p->at = skip_plain(begin, p->end);
    while (p->at < p->end && *p->at != '"' && *p->at != '\\')
        p->at++;
    *text = (kineto_string){begin, (size_t)(p->at - begin)};
    return p->at < p->end && *p->at++ == '"';
}

static inline bool take_word(place *p, const char *word, size_t size)
{
    if ((size_t)(p->end - p->at) < size || memcmp(p->at, word, size) != 0)
        return false;
    p->at += size;
    return true;
}

/* Digits behind `value`, of which there are *digits already. */
static inline uint64_t take_digits(place *p, uint64_t value, unsigned *digits)
{
    for (; p->at < p->end && (unsigned char)(*p->at - '0') < 10; p->at++, ++*digits)
        value = value * 10 + (uint64_t)(*p->at - '0');
    return value;
}

static inline char *put_number(char *out, place *p)
{
    bool negative = *p->at == '-';
    unsigned digits = 0, whole;
    p->at += negative;
    uint64_t value = take_digits(p, 0, &digits);
    whole = digits;
    if (p->at < p->end && *p->at == '.') {
        p->at++;
        value = take_digits(p, value, &digits);
    }
    bool integer = digits == whole && p->at[-1] != '.';
    if (!whole || digits > (integer ? 18 : 15) || p->at == p->end || (*p->at | 32) == 'e')
        return NULL;
    if (integer)
        return put_small(out, KE_PF_VALUE_INT, negative ? 0 - value : value);
    double d = (double)value / ke_pf_powers[digits - whole];
    return put_double(out, negative ? -d : d);
}

static char *put_value(char *out, place *p, uint32_t depth);

/* Behind an item: true if there is another one. *ok false: neither comma nor bracket. */
static inline bool more(place *p, char close, bool *ok)
{
    char c = peek(p);
    *ok = c == ',' || c == close;
    p->at += *ok;
    return c == ',';
}

static char *put_items(char *out, place *p, uint32_t depth)
{
    const char *begin = p->at;
    char open = *p->at++, close = open == '[' ? ']' : '}';
    bool ok = depth < MOST_DEPTH;
    if (ok && peek(p) == close) /* a text, like null */
        return put_text(out, KE_PF_VALUE_STRING, begin, (size_t)(++p->at - begin));
    for (bool any = ok; any; any = ok && more(p, close, &ok)) {
        kineto_string key;
        *out++ = TAG(open == '[' ? KE_PF_VALUE_ITEM : KE_PF_VALUE_ENTRY, KE_WIRE_BYTES);
        char *length = out++;
        if (open == '{') {
            if (!take_string(p, &key) || peek(p) != ':')
                return NULL;
            p->at++;
            out = put_text(out, KE_PF_VALUE_KEY_TEXT, key.data, key.size);
        }
        if (!out || !(out = put_value(out, p, depth + 1)))
            return NULL;
        out = close_message(length, out);
    }
    return ok ? out : NULL;
}

static char *put_value(char *out, place *p, uint32_t depth)
{
    kineto_string text;
    switch (peek(p)) {
    case '"':
        return take_string(p, &text) ? put_text(out, KE_PF_VALUE_STRING, text.data, text.size)
                                     : NULL;
    case 't':
        return take_word(p, "true", 4) ? put_small(out, KE_PF_VALUE_BOOL, 1) : NULL;
    case 'f':
        return take_word(p, "false", 5) ? put_small(out, KE_PF_VALUE_BOOL, 0) : NULL;
    case 'n':
        return take_word(p, "null", 4) ? put_text(out, KE_PF_VALUE_STRING, "null", 4) : NULL;
    case '[':
    case '{':
        return put_items(out, p, depth);
    case '\0':
        return NULL;
    default:
        return put_number(out, p);
    }
}

/* Is the value of a key that repeats a column a plain id? Steps over it. */
static inline bool skip_id(place *p)
{
    unsigned digits = 0;
    peek(p);
    take_digits(p, 0, &digits);
    char behind = peek(p);
    return digits > 0 && digits < 18 && (behind == ',' || behind == '}');
}

/* The key that is expected, with its quotes. Steps over it. */
static inline bool take_key(place *p, const ke_pf_slot *slot)
{
    size_t size = slot->raw.size;
    if (peek(p) != '"' || (size_t)(p->end - p->at) < size + 2 || p->at[size + 1] != '"' ||
        !same_bytes(p->at + 1, slot->raw.data, size))
        return false;
    p->at += size + 2;
    return true;
}

/* Slot of the next key; NULL: it has none. *after knows what to expect, and learns. */
static inline const ke_pf_slot *next_slot(const ke_perfetto *w, place *p, uint8_t *after)
{
    kineto_string key;
    const ke_pf_slot *slot = &w->slots[*after];
    if (KINETO_LIKELY(slot->index && take_key(p, slot)))
        return slot;
    if (!take_string(p, &key))
        return NULL;
    slot = ke_pf_slot_of(w, key);
    if (KINETO_UNLIKELY(!slot->index || !kb_string_equal(slot->raw, key)))
        return NULL;
    *after = (uint8_t)(slot - w->slots);
    return slot;
}

static inline char *put_member(ke_perfetto *w, char *out, place *p, uint8_t **after,
                               uint8_t *after_slots)
{
    char *length;
    const ke_pf_slot *slot = next_slot(w, p, *after);
    if (!slot || peek(p) != ':')
        return NULL;
    p->at++;
    *after = &after_slots[slot - w->slots];
    if (slot->column != KE_PF_NO_COLUMN)
        return slot->column == KE_PF_ID_COLUMN && skip_id(p) ? out : NULL;
    out = open_annotation(w, out, slot->index, &length);
    if (!out || !(out = put_value(out, p, 0)))
        return NULL;
    return close_message(length, out);
}

static char *put_verbatim(ke_perfetto *w, char *out, kineto_string text, uint32_t kind)
{
    place p = {text.data, text.data + text.size};
    uint8_t *after_slots = w->slot_after[KB_MIN(kind, KINETO_KIND_COUNT - 1u)];
    uint8_t *after = &after_slots[KE_PF_SLOTS];
    bool ok = true;
    if (peek(&p) != '{')
        return NULL;
    p.at++;
    for (bool any = peek(&p) != '}'; any; any = ok && more(&p, '}', &ok))
        if (!(out = put_member(w, out, &p, &after, after_slots)))
            return NULL;
    return ok ? out : NULL;
}

/* ---- events ------------------------------------------------------------------------------------ */

static inline char *put_column(const ke_perfetto *w, char *out, uint32_t key, uint64_t value)
{
    char *length;
    out = open_annotation(w, out, KE_PF_OWN_INDEX(key), &length);
    return out ? close_message(length, put_small(out, KE_PF_VALUE_UINT, value)) : NULL;
}

static char *put_all_args(ke_perfetto *w, char *out, const kt_block *b, uint32_t i, kineto_row row)
{
    kt_args_form form = kt_args_form_of(b, i);
    if (b->external_id[i])
        out = put_column(w, out, KE_PF_OWN_EXTERNAL, b->external_id[i]);
    if (out && b->correlation_id[i])
        out = put_column(w, out, KE_PF_OWN_CORRELATION, b->correlation_id[i]);
    if (!out || form == KT_ARGS_NONE)
        return out;
    if (form == KT_ARGS_PACKED) {
        kt_args args = kt_args_of(w->trace, b, i);
        bool fits = kt_args_bytes(&args) <= MOST_ARGS_BYTES;
        return fits ? put_packed(w, out, b, i) : NULL;
    }
    kineto_string text = kt_args_text(w->trace, row);
    return text.size <= MOST_ARGS_BYTES ? put_verbatim(w, out, text, b->kind[i]) : NULL;
}

static inline char *put_flows(const ke_perfetto *w, char *out, kineto_row row)
{
    uint32_t first = w->flow_first[row], end = w->flow_first[row + 1];
    if (end - first > MOST_FLOWS)
        return NULL;
    for (; first < end; first++) {
        uint64_t flow = w->flow_ends[first], number = (flow >> 1) + 1;
        uint32_t field = flow & 1 ? KE_PF_EVENT_FLOW_END : KE_PF_EVENT_FLOW;
        out = ke_proto_put_varint(out, (uint64_t)field << 3 | KE_WIRE_FIXED64);
        for (int i = 0; i < 8; i++)
            *out++ = (char)(number >> 8 * i);
    }
    return out;
}

bool ke_pf_put_fast(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row, uint32_t type)
{
    uint32_t name = known(w, &w->names, b->name[i]);
    uint32_t category = known(w, &w->categories, b->category[i]);
    bool plain = b->form[i] != KINETO_FORM_ASYNC && !(b->flags[i] & 0xff);
    if (!name || !category || !plain || !ke_proto_reserve(&w->packets, ROOM))
        return false;
    char *packet = w->packets.data + w->packets.count + 1, *out = packet + 1;
    int64_t time = ke_pf_time(b->start_ns[i]);
    packet[-1] = TAG(KE_PF_TRACE_PACKET, KE_WIRE_BYTES);
    out = put_small(out, KE_PF_PACKET_TIMESTAMP, (uint64_t)time - (uint64_t)w->last_ns);
    out = put_small(out, KE_PF_PACKET_SEQUENCE, w->sequence);
    out = put_small(out, KE_PF_PACKET_FLAGS, KE_PF_STATE_NEEDED);
    *out++ = TAG(KE_PF_PACKET_TRACK_EVENT, KE_WIRE_BYTES);
    char *event = out++;
    out = put_small(out, KE_PF_EVENT_TYPE, type);
    out = put_small(out, KE_PF_EVENT_NAME, name);
    out = put_small(out, KE_PF_EVENT_CATEGORY, category);
    out = put_all_args(w, out, b, i, row);
    if (out && w->flow_first)
        out = put_flows(w, out, row);
    if (!out)
        return false;
    out = close_message(packet, close_message(event, out));
    w->packets.count = (size_t)(out - w->packets.data);
    w->last_ns = time;
    return true;
}

/* Stage two of parsing JSON (see scan.h): windows of positions, and values that are checked
 * and skipped. Zeros after the text make all loops end: no function here tests for the end
 * of the text. */
#include "trace/read/scan.h"

/* ---- windows --------------------------------------------------------------------------------- */

void kt_cursor_start(kt_cursor *c, kt_input *input, size_t offset)
{
    c->input = input;
    c->at = c->end = c->positions;
    c->window = input->base + offset;
    c->bad = c->problem = c->problem_at = NULL;
    c->next = c->checked = c->begun = offset;
    c->index = c->index ? c->index : kt_index_best();
    c->state = (kt_index_state){0};
}

/* Checks UTF-8 up to `to`. A sequence that may continue in the next window (`last` is
 * false) is checked then. */
static void check_window_utf8(kt_cursor *c, size_t to, bool last)
{
    const char *base = c->input->base;
    size_t from = c->checked;
    KB_ASSERT(from <= to);
    from += kb_utf8_valid_prefix(base + from, to - from);
    bool cut = !last && to - from < 4;
    if (from < to && !cut && (!c->bad || c->bad > base + from))
        c->bad = base + from;
    c->checked = cut ? from : to;
}

/* True if the text that this reader holds in memory is longer than the limit for one item. */
static bool cursor_exceeds_limit(const kt_cursor *c)
{
    size_t most = kb_load_relaxed(&c->input->most_ahead);
    size_t from = most ? kb_max_u64(c->begun, kb_load_relaxed(&c->input->passed)) : 0;
    return most && c->next > from && c->next - from > most;
}

bool kt_cursor_refill(kt_cursor *c)
{
    do {
        if (KINETO_UNLIKELY(cursor_exceeds_limit(c))) {
            kt_input_fail_item_limit(c->input);
            return false;
        }
        size_t want = c->next + KT_WINDOW_BYTES + 64;
        size_t ready = kt_input_ready(c->input, want);
        size_t left = ready > c->next ? ready - c->next : 0;
        if (!left)
            return false;
        bool last = left <= KT_WINDOW_BYTES;
        size_t bytes = last ? left : KT_WINDOW_BYTES;
        size_t blocks = bytes / 64 + (bytes % 64 != 0); /* the last one includes zeros */
        const char *text = c->input->base + c->next;
        kt_index_result found = c->index(text, blocks, &c->state, c->positions);
        KB_ASSERT(found.count <= KT_WINDOW_BYTES);
        while (last && found.count && c->positions[found.count - 1] >= bytes)
            found.count--;
        if (found.bad && found.bad < text + bytes && !c->bad)
            c->bad = found.bad;
        if (KINETO_UNLIKELY(found.non_ascii || c->checked < c->next))
            check_window_utf8(c, c->next + bytes, last);
        else
            c->checked = c->next + bytes;
        c->window = text;
        c->next += bytes;
        c->at = c->positions;
        c->end = c->positions + found.count;
    } while (c->at == c->end);
    return true;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static bool is_scalar_end(char c)
{
    return c == ',' || c == '}' || c == ']' || kt_is_space(c) || c == '\0';
}

static const char *skip_number_digits(const char *p)
{
    while (kb_is_digit(*p))
        p++;
    return p;
}

/* The end of a number (RFC 8259, section 6); NULL: not a number. */
static const char *skip_json_number(const char *p)
{
    const char *digits = p += *p == '-';
    p = skip_number_digits(p);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return NULL;
    if (*p == '.') {
        const char *fraction = ++p;
        p = skip_number_digits(p);
        if (p == fraction)
            return NULL;
    }
    if ((*p | 32) == 'e') {
        p++;
        p += *p == '+' || *p == '-';
        const char *exponent = p;
        p = skip_number_digits(p);
        if (p == exponent)
            return NULL;
    }
    return p;
}

/* The end of true, false or null; NULL: another word. */
static const char *skip_json_word(const char *p)
{
    if (memcmp(p, "true", 4) == 0 || memcmp(p, "null", 4) == 0)
        return p + 4;
    return memcmp(p, "false", 5) == 0 ? p + 5 : NULL;
}

/* The end of a number or word; NULL: not a value. */
static inline const char *find_scalar_end(const char *p)
{
    const char *end = kb_is_digit(*p) || *p == '-' ? skip_json_number(p) : skip_json_word(p);
    return end && is_scalar_end(*end) ? end : NULL;
}

/* At least 64 bytes after a window are ready: waits for the rest of a longer number, and
 * returns its end. */
static KB_COLD const char *find_scalar_end_waiting(kt_cursor *c, const char *p)
{
    size_t offset = kt_cursor_offset(c, p);
    for (size_t bytes = 128; bytes < SIZE_MAX / 4; bytes *= 2) {
        size_t ready = kt_input_ready(c->input, offset + bytes);
        size_t length = 0;
        while (offset + length < ready && !is_scalar_end(p[length]))
            length++;
        if (offset + length < ready || ready < offset + bytes)
            break; /* it ends, here or with the text */
    }
    return find_scalar_end(p);
}

/* Skips a number or word, which may be cut by the end of the text that is ready. */
static const char *skip_json_scalar(kt_cursor *c, const char *p)
{
    const char *end = find_scalar_end(p);
    if (KINETO_LIKELY(end && *end))
        return end;
    end = find_scalar_end_waiting(c, p);
    if (end)
        return end;
    kt_cursor_fail(c, p, *p ? "expected a value" : "the text ends early");
    return NULL;
}

/* ---- containers ------------------------------------------------------------------------------ */

/* The stack of open brackets, one bit each: 1 for an object. */
typedef struct nesting {
    uint64_t object[KT_JSON_MAX_DEPTH / 64 + 1];
    unsigned depth;
} nesting;

/* Pushes a bracket; false: nested too deeply. */
static bool push_bracket(nesting *n, bool object)
{
    if (n->depth == KT_JSON_MAX_DEPTH)
        return false;
    uint64_t bit = UINT64_C(1) << n->depth % 64, *word = &n->object[n->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    n->depth++;
    return true;
}

static inline bool is_in_object(const nesting *n)
{
    KB_ASSERT(n->depth > 0);
    unsigned top = n->depth - 1;
    return n->object[top / 64] >> top % 64 & 1;
}

/* Skips a value that is not a container; `p` may be the first character of anything. */
static inline bool skip_simple_value(kt_cursor *c, const char *p)
{
    if (kt_skip_digits(p))
        return true;
    if (*p == '"')
        return kt_string_end(p, kt_cursor_peek(c)) || kt_cursor_fail(c, p, "unterminated string");
    return skip_json_scalar(c, p) != NULL;
}

static bool skip_object_key(kt_cursor *c, const char *p)
{
    kineto_string key;
    return kt_take_key(c, p, &key);
}

/* Skips a container without recursion; `open` is its bracket. Returns the position after
 * the closing one. */
static const char *skip_container(kt_cursor *c, const char *open)
{
    nesting n = {.depth = 0};
    const char *p = open;
    push_bracket(&n, *open == '{');
    for (bool first = true;; first = false) {
        p = kt_cursor_next(c);
        bool closes = *p == (is_in_object(&n) ? '}' : ']');
        if (closes) {
            if (--n.depth == 0)
                return p + 1;
            continue;
        }
        if (!first && *p != ',')
            return kt_cursor_fail(c, p,
                                  is_in_object(&n) ? "expected ',' or '}'" : "expected ',' or ']'"),
                   NULL;
        p = first ? p : kt_cursor_next(c);
        if (is_in_object(&n)) {
            if (!skip_object_key(c, p))
                return NULL;
            p = kt_cursor_next(c);
        }
        while (*p == '{' || *p == '[') {
            if (!push_bracket(&n, *p == '{'))
                return kt_cursor_fail(c, p, "nested too deep"), NULL;
            p = kt_cursor_next(c);
            if (*p == (is_in_object(&n) ? '}' : ']')) {
                n.depth--;
                p = NULL;
                break;
            }
            if (is_in_object(&n)) {
                if (!skip_object_key(c, p))
                    return NULL;
                p = kt_cursor_next(c);
            }
        }
        if (p && !skip_simple_value(c, p))
            return NULL;
    }
}

const char *kt_skip_value(kt_cursor *c, const char *p)
{
    if (*p == '{' || *p == '[')
        return skip_container(c, p);
    if (*p == '"') {
        const char *end = kt_string_end(p, kt_cursor_peek(c));
        if (!end)
            kt_cursor_fail(c, p, "unterminated string");
        return end ? end + 1 : NULL;
    }
    return skip_json_scalar(c, p);
}

/* Look-ahead in broken text: what may follow a value, where an event begins, where a damaged member
 * ends. Every search is bounded, except those over bytes that the caller consumes afterwards.
 * Nothing is changed but ran_out, which records that the answer depends on text that is not there
 * yet. */
#include "trace/repair/repair_impl.h"

#define KEY_REACH     128u  /* longest key that is recognised */
#define COMMENT_REACH 1024u /* longest comment */
#define EVENT_REACH   512u  /* an event has its phase within these bytes */

/* ---- white space and keys -------------------------------------------------------------------- */

size_t kt_peek_comment_end(kt_fix *f, size_t at)
{
    int kind = kt_fix_byte(f, at + 1);
    if (kind != '/' && kind != '*')
        return at;
    for (size_t i = at + 2; i < at + COMMENT_REACH; i++) {
        int c = kt_fix_byte(f, i);
        if (kind == '/' && (c == '\n' || c < 0))
            return i;
        if (c < 0)
            return at;
        if (kind == '*' && c == '*' && kt_fix_byte(f, i + 1) == '/')
            return i + 2;
    }
    return at;
}

size_t kt_peek_space_end(kt_fix *f, size_t at)
{
    for (;; at++) {
        int c = kt_fix_byte(f, at);
        if (c == '/') {
            size_t end = kt_peek_comment_end(f, at);
            if (end == at)
                return at;
            at = end - 1;
        } else if (c < 0 || c > ' ') {
            return at;
        }
    }
}

/* Reads the key in quotes at `at`; false: there is none within KEY_REACH. *cut: the text ends
 * inside it. */
static bool peek_quoted_key(kt_fix *f, size_t at, kineto_string *key, bool *cut)
{
    int quote = kt_fix_byte(f, at);
    *cut = false;
    if (quote != '"' && quote != '\'')
        return false;
    for (size_t i = at + 1; i <= at + KEY_REACH; i++) {
        int c = kt_fix_byte(f, i);
        if (c == quote) {
            *key = (kineto_string){f->text + at + 1, i - at - 1};
            return true;
        }
        *cut = c < 0;
        if (c < ' ')
            return false;
        i += c == '\\';
    }
    return false;
}

/* A key without quotes counts only if it is known. */
static bool peek_bare_key(kt_fix *f, size_t at, kt_level level, kineto_string *key)
{
    size_t i = at;
    while (i < at + KEY_REACH && kt_bare_char(kt_fix_byte(f, i), i == at))
        i++;
    *key = (kineto_string){f->text + at, i - at};
    return i > at && kt_known_member(level, *key) >= 0;
}

static bool is_any_quote(int c) { return c == '"' || c == '\''; }

size_t kt_peek_half_quoted(kt_fix *f, size_t at, kt_level level, kineto_string *key)
{
    bool first = is_any_quote(kt_fix_byte(f, at));
    if (!peek_bare_key(f, at + first, level, key))
        return 0;
    size_t end = at + first + key->size;
    bool last = is_any_quote(kt_fix_byte(f, end));
    end += last;
    return first != last && kt_fix_byte(f, kt_peek_space_end(f, end)) == ':' ? end : 0;
}

/* How certain a key makes the end of the value before it. A member that the event has already may
 * also be part of a string. */
static kt_certainty certainty_of_key(const kt_fix *f, kineto_string key, kt_level level,
                                     bool quoted)
{
    int known = kt_known_member(level, key);
    if (known < 0 || !quoted)
        return KT_POSSIBLE;
    return level == KT_LEVEL_EVENT && f->event.seen >> known & 1 ? KT_POSSIBLE : KT_CERTAIN;
}

kt_certainty kt_peek_key(kt_fix *f, size_t at, kt_level level)
{
    kineto_string key;
    bool cut, quoted = peek_quoted_key(f, at, &key, &cut);
    if (cut)
        return KT_POSSIBLE;
    if (quoted || peek_bare_key(f, at, level, &key)) {
        int c = kt_fix_byte(f, kt_peek_space_end(f, at + key.size + (quoted ? 2 : 0)));
        if (c == ':')
            return certainty_of_key(f, key, level, quoted);
        if (c < 0)
            return KT_POSSIBLE;
    }
    return kt_peek_half_quoted(f, at, level, &key) ? KT_POSSIBLE : KT_IMPOSSIBLE;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* True if an object at `at` begins with a known member of an event. */
static bool begins_known_member(kt_fix *f, size_t at, kineto_string *key)
{
    bool cut;
    if (kt_fix_byte(f, at) != '{')
        return false;
    size_t first = kt_peek_space_end(f, at + 1);
    return peek_quoted_key(f, first, key, &cut) && kt_known_member(KT_LEVEL_EVENT, *key) >= 0 &&
           kt_fix_byte(f, kt_peek_space_end(f, first + key->size + 2)) == ':';
}

bool kt_peek_event_start(kt_fix *f, size_t at)
{
    kineto_string key;
    return begins_known_member(f, at, &key) &&
           (kb_string_equal(key, kb_string("ph")) || kt_peek_event(f, at));
}

/* True if `"ph": "X"` stands at `at`, whose key has been read. */
static bool is_phase_member(kt_fix *f, size_t at, kineto_string key)
{
    bool cut;
    if (key.size != 2 || memcmp(key.data, "ph", 2) != 0)
        return false;
    size_t colon = kt_peek_space_end(f, at + 4);
    if (kt_fix_byte(f, colon) != ':' ||
        !peek_quoted_key(f, kt_peek_space_end(f, colon + 1), &key, &cut))
        return false;
    return key.size == 1;
}

/* Its phase has to follow within EVENT_REACH, outside of nested brackets: a string may hold half an
 * event. */
bool kt_peek_event(kt_fix *f, size_t at)
{
    uint32_t nested = 0;
    kineto_string first;
    if (!begins_known_member(f, at, &first))
        return false;
    for (size_t i = at + 1; i < at + EVENT_REACH; i++) {
        int c = kt_fix_byte(f, i);
        kineto_string key;
        bool cut;
        if (c < 0 || (!nested && (c == '}' || c == ']')))
            return false;
        nested += c == '{' || c == '[';
        nested -= c == '}' || c == ']';
        if (c != '"' && c != '\'')
            continue;
        if (!peek_quoted_key(f, i, &key, &cut))
            return false;
        if (!nested && is_phase_member(f, i, key))
            return true;
        i += key.size + 1;
    }
    return false;
}

bool kt_peek_array_end(kt_fix *f, size_t at)
{
    size_t next = kt_peek_space_end(f, at + 1);
    int c = kt_fix_byte(f, next);
    if (c == ',')
        return kt_peek_key(f, kt_peek_space_end(f, next + 1), KT_LEVEL_HEADER) == KT_CERTAIN;
    if (c == '}')
        c = kt_fix_byte(f, kt_peek_space_end(f, next + 1));
    return c < 0;
}

/* ---- what may follow a value ----------------------------------------------------------------- */

static char closing_bracket(char open) { return open == '{' ? '}' : ']'; }

static bool can_begin_value(int c)
{
    return c == '{' || c == '[' || c == '-' || kb_is_digit((char)c) || c == 't' || c == 'f' ||
           c == 'n' || c == 'N' || c == 'I' || c == 'T' || c == 'F';
}

/* After a comma: whether an item of the innermost of `depth` brackets follows. */
static kt_certainty check_next_item(kt_fix *f, size_t at, uint32_t depth)
{
    KB_ASSERT(depth > 0 && depth <= f->depth);
    int c = kt_fix_byte(f, at);
    if (c < 0)
        return KT_POSSIBLE;
    if (f->open[depth - 1] == '[')
        return c == '"' || c == '\'' ? KT_POSSIBLE
               : can_begin_value(c)  ? KT_CERTAIN
                                     : KT_IMPOSSIBLE;
    if (c == '{')
        return kt_peek_event(f, at) ? KT_POSSIBLE : KT_IMPOSSIBLE;
    return kt_peek_key(f, at, (kt_level)f->level[depth - 1]);
}

/* After the last open bracket: the next element, or the end of the array, makes the end certain. */
static kt_certainty check_after_element(kt_fix *f, size_t at)
{
    int c = kt_fix_byte(f, at);
    bool comma = c == ',';
    if (comma) {
        at = kt_peek_space_end(f, at + 1);
        c = kt_fix_byte(f, at);
    }
    bool sure = c < 0 || kt_peek_event_start(f, at);
    if (f->level[0] != KT_LEVEL_HEADER)
        sure = sure || (comma && c == ',') || (c == ']' && kt_peek_array_end(f, at)) ||
               kt_peek_key(f, at, KT_LEVEL_HEADER) == KT_CERTAIN;
    return sure ? KT_CERTAIN : KT_POSSIBLE;
}

/* Follows closing brackets and commas until a key, an item or the end of the element decides. */
kt_certainty kt_peek_value_end(kt_fix *f, size_t at, uint32_t depth)
{
    bool closed = false;
    for (;;) {
        size_t gap = at;
        at = kt_peek_space_end(f, at);
        gap = at - gap;
        int c = kt_fix_byte(f, at);
        if (c < 0)
            return KT_POSSIBLE;
        if (c == ',') {
            size_t next = at;
            while (kt_fix_byte(f, next) == ',')
                next = kt_peek_space_end(f, next + 1);
            if (kt_fix_byte(f, next) != closing_bracket(f->open[depth - 1]))
                return check_next_item(f, next, depth);
            at = next;
            continue;
        }
        if (c == closing_bracket(f->open[depth - 1])) {
            at++;
            closed = true;
            if (--depth == 0)
                return check_after_element(f, kt_peek_space_end(f, at));
            continue;
        }
        if (c == '{')
            return kt_peek_event(f, at) ? KT_POSSIBLE : KT_IMPOSSIBLE;
        if (c != '"' || f->open[depth - 1] == '[')
            return KT_IMPOSSIBLE;
        kt_certainty sure = kt_peek_key(f, at, (kt_level)f->level[depth - 1]);
        return sure == KT_CERTAIN || closed || gap ? sure : KT_IMPOSSIBLE;
    }
}

/* ---- balanced text --------------------------------------------------------------------------- */

/* The position after the string at `at`; 0: it does not end before `limit`. */
static size_t peek_string_end(kt_fix *f, size_t at, size_t limit)
{
    int quote = kt_fix_byte(f, at);
    for (size_t i = at + 1; i < limit; i++) {
        int c = kt_fix_byte(f, i);
        if (c == quote)
            return i + 1;
        if (c < 0)
            return 0;
        i += c == '\\';
    }
    return 0;
}

size_t kt_peek_balanced_end(kt_fix *f, size_t at)
{
    char open[KT_FIX_DEPTH];
    uint32_t depth = 0;
    size_t limit = at + KT_REPAIR_REACH_BYTES;
    while (at < limit) {
        int c = kt_fix_byte(f, at);
        if (c < 0)
            return 0;
        if (c == '"') {
            at = peek_string_end(f, at, limit);
            if (!at)
                return 0;
            continue;
        }
        at++;
        if (c == '{' || c == '[') {
            if (depth == KT_FIX_DEPTH)
                return 0;
            open[depth++] = (char)c;
        } else if (c == '}' || c == ']') {
            if (c != closing_bracket(open[--depth]))
                return 0;
            if (!depth)
                return at;
        }
    }
    return 0;
}

/* ---- after a damaged member ------------------------------------------------------------------ */

/* Brackets that seem to be open inside a damaged member. */
typedef struct bracket_nest {
    char open[KT_FIX_DEPTH];
    uint32_t depth;
} bracket_nest;

static void open_nested(bracket_nest *n, int c)
{
    if (n->depth < KT_FIX_DEPTH)
        n->open[n->depth++] = (char)c;
}

/* True if a closing bracket belongs to one inside the member; brackets that it leaves open were
 * never closed. */
static bool close_nested(bracket_nest *n, int c)
{
    uint32_t depth = n->depth;
    while (depth > 0 && closing_bracket(n->open[depth - 1]) != c)
        depth--;
    bool inside = depth > 0;
    n->depth = inside ? depth - 1 : n->depth;
    return inside;
}

/* One pass of kt_peek_resume; brackets inside the damaged member count if `nesting`. */
static bool search_resume(kt_fix *f, size_t from, size_t limit, bool nesting, size_t *to)
{
    KB_ASSERT(f->depth > 0);
    char closer = closing_bracket(f->open[f->depth - 1]);
    kt_level level = (kt_level)f->level[f->depth - 1];
    bracket_nest inside = {.depth = 0};
    for (*to = from; *to < limit; ++*to) {
        int c = kt_fix_byte(f, *to);
        if (c < 0)
            return false;
        if (c == ',' && !inside.depth) {
            if (kt_peek_key(f, kt_peek_space_end(f, *to + 1), level) == KT_CERTAIN)
                return true;
        } else if (c == '{' || c == '[') {
            if (kt_peek_event(f, *to))
                return false;
            if (nesting)
                open_nested(&inside, c);
        } else if (c == '}' || c == ']') {
            if (!close_nested(&inside, c) && c == closer &&
                kt_peek_value_end(f, *to, f->depth) == KT_CERTAIN)
                return true;
        }
    }
    return false;
}

bool kt_peek_resume(kt_fix *f, size_t from, size_t *to)
{
    size_t limit = KB_MAX(from, f->at) + KT_REPAIR_REACH_BYTES;
    bool found = search_resume(f, from, limit, true, to);
    size_t stop = *to;
    if (!found && f->level[f->depth - 1] <= KT_LEVEL_EVENT)
        found = search_resume(f, from, stop, false, to);
    if (!found)
        *to = stop;
    return found;
}

/* Looking ahead in broken text: what may follow a value, where an event begins, where a damaged
 * member is over. Every look is bounded, but for those that step over what they looked at. */
#include "trace/repair/repair_impl.h"

#define KEY_REACH     128u /* longest key that is recognised */
#define COMMENT_REACH 1024u
#define EVENT_REACH   512u /* where an event must have its phase */

/* ---- white space and keys -------------------------------------------------------------------- */

size_t kt_look_comment(kt_fix *f, size_t at)
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

size_t kt_look_space(kt_fix *f, size_t at)
{
    for (;; at++) {
        int c = kt_fix_byte(f, at);
        if (c == '/') {
            size_t end = kt_look_comment(f, at);
            if (end == at)
                return at;
            at = end - 1;
        } else if (c < 0 || c > ' ') {
            return at;
        }
    }
}

/* The text between quotes at `at`, as far as a key may reach; false if there is none. *cut: the
 * text ends inside. */
static bool key_text(kt_fix *f, size_t at, kineto_string *key, bool *cut)
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
static bool bare_key(kt_fix *f, size_t at, kt_level level, kineto_string *key)
{
    size_t i = at;
    while (i < at + KEY_REACH && kt_bare_char(kt_fix_byte(f, i), i == at))
        i++;
    *key = (kineto_string){f->text + at, i - at};
    return i > at && kt_known(level, *key) >= 0;
}

static bool is_quote(int c) { return c == '"' || c == '\''; }

size_t kt_look_half_quoted(kt_fix *f, size_t at, kt_level level, kineto_string *key)
{
    bool first = is_quote(kt_fix_byte(f, at));
    if (!bare_key(f, at + first, level, key))
        return 0;
    size_t end = at + first + key->size;
    bool last = is_quote(kt_fix_byte(f, end));
    end += last;
    return first != last && kt_fix_byte(f, kt_look_space(f, end)) == ':' ? end : 0;
}

/* What a key says of what is before it. */
static kt_sure sure_of(const kt_fix *f, kineto_string key, kt_level level, bool quoted)
{
    int known = kt_known(level, key);
    if (known < 0 || !quoted)
        return KT_MAYBE;
    return level == KT_LEVEL_EVENT && f->event.seen >> known & 1 ? KT_MAYBE : KT_SURE;
}

kt_sure kt_look_key(kt_fix *f, size_t at, kt_level level)
{
    kineto_string key;
    bool cut, quoted = key_text(f, at, &key, &cut);
    if (cut)
        return KT_MAYBE;
    if (quoted || bare_key(f, at, level, &key)) {
        int c = kt_fix_byte(f, kt_look_space(f, at + key.size + (quoted ? 2 : 0)));
        if (c == ':')
            return sure_of(f, key, level, quoted);
        if (c < 0)
            return KT_MAYBE;
    }
    return kt_look_half_quoted(f, at, level, &key) ? KT_MAYBE : KT_NO;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Does an object at `at` begin with a known member of an event? */
static bool begins_known(kt_fix *f, size_t at, kineto_string *key)
{
    bool cut;
    if (kt_fix_byte(f, at) != '{')
        return false;
    size_t first = kt_look_space(f, at + 1);
    return key_text(f, first, key, &cut) && kt_known(KT_LEVEL_EVENT, *key) >= 0 &&
           kt_fix_byte(f, kt_look_space(f, first + key->size + 2)) == ':';
}

bool kt_look_start(kt_fix *f, size_t at)
{
    kineto_string key;
    return begins_known(f, at, &key) &&
           (kb_string_equal(key, kb_string("ph")) || kt_look_event(f, at));
}

/* "ph": "X" */
static bool look_phase(kt_fix *f, size_t at, kineto_string key)
{
    bool cut;
    if (key.size != 2 || memcmp(key.data, "ph", 2) != 0)
        return false;
    size_t colon = kt_look_space(f, at + 4);
    if (kt_fix_byte(f, colon) != ':' || !key_text(f, kt_look_space(f, colon + 1), &key, &cut))
        return false;
    return key.size == 1;
}

bool kt_look_event(kt_fix *f, size_t at)
{
    uint32_t nested = 0;
    kineto_string first;
    if (!begins_known(f, at, &first))
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
        if (!key_text(f, i, &key, &cut))
            return false;
        if (!nested && look_phase(f, i, key))
            return true;
        i += key.size + 1;
    }
    return false;
}

bool kt_look_array_end(kt_fix *f, size_t at)
{
    size_t next = kt_look_space(f, at + 1);
    int c = kt_fix_byte(f, next);
    if (c == ',')
        return kt_look_key(f, kt_look_space(f, next + 1), KT_LEVEL_HEADER) == KT_SURE;
    if (c == '}')
        c = kt_fix_byte(f, kt_look_space(f, next + 1));
    return c < 0;
}

/* ---- what may follow a value ----------------------------------------------------------------- */

static char closer_of(char open) { return open == '{' ? '}' : ']'; }

static bool begins_value(int c)
{
    return c == '{' || c == '[' || c == '-' || (c >= '0' && c <= '9') || c == 't' || c == 'f' ||
           c == 'n' || c == 'N' || c == 'I' || c == 'T' || c == 'F';
}

/* Behind a comma. */
static kt_sure look_item(kt_fix *f, size_t at, uint32_t depth)
{
    int c = kt_fix_byte(f, at);
    if (c < 0)
        return KT_MAYBE;
    if (f->open[depth - 1] == '[')
        return c == '"' || c == '\'' ? KT_MAYBE : begins_value(c) ? KT_SURE : KT_NO;
    if (c == '{')
        return kt_look_event(f, at) ? KT_MAYBE : KT_NO;
    return kt_look_key(f, at, (kt_level)f->level[depth - 1]);
}

/* Behind all that was open. */
static kt_sure look_after_all(kt_fix *f, size_t at)
{
    int c = kt_fix_byte(f, at);
    bool comma = c == ',';
    if (comma) {
        at = kt_look_space(f, at + 1);
        c = kt_fix_byte(f, at);
    }
    bool sure = c < 0 || kt_look_start(f, at);
    if (f->level[0] != KT_LEVEL_HEADER)
        sure = sure || (comma && c == ',') || (c == ']' && kt_look_array_end(f, at)) ||
               kt_look_key(f, at, KT_LEVEL_HEADER) == KT_SURE;
    return sure ? KT_SURE : KT_MAYBE;
}

kt_sure kt_look_end(kt_fix *f, size_t at, uint32_t depth)
{
    bool closed = false;
    for (;;) {
        size_t gap = at;
        at = kt_look_space(f, at);
        gap = at - gap;
        int c = kt_fix_byte(f, at);
        if (c < 0)
            return KT_MAYBE;
        if (c == ',') {
            size_t next = at;
            while (kt_fix_byte(f, next) == ',')
                next = kt_look_space(f, next + 1);
            if (kt_fix_byte(f, next) != closer_of(f->open[depth - 1]))
                return look_item(f, next, depth);
            at = next;
            continue;
        }
        if (c == closer_of(f->open[depth - 1])) {
            at++;
            closed = true;
            if (--depth == 0)
                return look_after_all(f, kt_look_space(f, at));
            continue;
        }
        if (c == '{')
            return kt_look_event(f, at) ? KT_MAYBE : KT_NO;
        if (c != '"' || f->open[depth - 1] == '[')
            return KT_NO;
        kt_sure sure = kt_look_key(f, at, (kt_level)f->level[depth - 1]);
        return sure == KT_SURE || closed || gap ? sure : KT_NO;
    }
}

/* ---- balanced text --------------------------------------------------------------------------- */

/* Behind the string at `at`; 0 if it has no end before `limit`. */
static size_t skip_string(kt_fix *f, size_t at, size_t limit)
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

size_t kt_look_balanced(kt_fix *f, size_t at)
{
    char open[KT_FIX_DEPTH];
    uint32_t depth = 0;
    size_t limit = at + KT_REPAIR_REACH_BYTES;
    while (at < limit) {
        int c = kt_fix_byte(f, at);
        if (c < 0)
            return 0;
        if (c == '"') {
            at = skip_string(f, at, limit);
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
            if (c != closer_of(open[--depth]))
                return 0;
            if (!depth)
                return at;
        }
    }
    return 0;
}

/* ---- behind a damaged member ----------------------------------------------------------------- */

/* Brackets inside a damaged member, as far as they can be told. */
typedef struct nest {
    char open[KT_FIX_DEPTH];
    uint32_t depth;
} nest;

static void nest_open(nest *n, int c)
{
    if (n->depth < KT_FIX_DEPTH)
        n->open[n->depth++] = (char)c;
}

/* Does a closing bracket belong to one inside? Those that it leaves open were never closed. */
static bool nest_close(nest *n, int c)
{
    uint32_t depth = n->depth;
    while (depth > 0 && closer_of(n->open[depth - 1]) != c)
        depth--;
    bool inside = depth > 0;
    n->depth = inside ? depth - 1 : n->depth;
    return inside;
}

/* One pass; brackets inside the damaged member count if `nesting`. */
static bool resume_in(kt_fix *f, size_t from, size_t limit, bool nesting, size_t *to)
{
    char closer = closer_of(f->open[f->depth - 1]);
    kt_level level = (kt_level)f->level[f->depth - 1];
    nest inside = {.depth = 0};
    for (*to = from; *to < limit; ++*to) {
        int c = kt_fix_byte(f, *to);
        if (c < 0)
            return false;
        if (c == ',' && !inside.depth) {
            if (kt_look_key(f, kt_look_space(f, *to + 1), level) == KT_SURE)
                return true;
        } else if (c == '{' || c == '[') {
            if (kt_look_event(f, *to))
                return false;
            if (nesting)
                nest_open(&inside, c);
        } else if (c == '}' || c == ']') {
            if (!nest_close(&inside, c) && c == closer && kt_look_end(f, *to, f->depth) == KT_SURE)
                return true;
        }
    }
    return false;
}

bool kt_look_resume(kt_fix *f, size_t from, size_t *to)
{
    size_t limit = KB_MAX(from, f->at) + KT_REPAIR_REACH_BYTES;
    bool found = resume_in(f, from, limit, true, to);
    size_t stop = *to;
    if (!found && f->level[f->depth - 1] <= KT_LEVEL_EVENT)
        found = resume_in(f, from, stop, false, to);
    if (!found)
        *to = stop;
    return found;
}

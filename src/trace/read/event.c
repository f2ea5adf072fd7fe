/* Parses one event object of a Chrome trace (Trace Event Format): its members, in any
 * order, strictly checked. Times become integer nanoseconds without floating point.
 *
 * This is the hottest code of the reader. Each member has a fast path for the spelling of
 * Kineto (read_usual_…), which returns NULL for any other spelling, and a general path that
 * also reports problems. Both rely on the positions of structural characters from
 * scan_index.c, and on at least 8 readable bytes after the text. */
#include "trace/read/batch.h"

/* ---- numbers --------------------------------------------------------------------------------- */

/* Parses eight digits at once (SWAR): pairs, then fours, then all. False: not all are digits. */
KB_INLINE bool parse_eight_digits(const char *p, uint64_t *value)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t v;
    memcpy(&v, p, 8);
    uint64_t low = v - 0x3030303030303030u, high = v + 0x4646464646464646u;
    if ((low | high) & 0x8080808080808080u)
        return false;
    low = low * 10 + (low >> 8);
    *value = ((low & 0x000000ff000000ffu) * (100 + (UINT64_C(1000000) << 32)) +
              (low >> 16 & 0x000000ff000000ffu) * (1 + (UINT64_C(10000) << 32))) >>
             32;
    return true;
#else
    (void)p;
    (void)value;
    return false;
#endif
}

/* Parses the digits from `p` to at most `limit` (18 digits). Returns the position after them. */
KB_INLINE const char *parse_digits(const char *p, const char *limit, uint64_t *value)
{
    uint64_t v = 0, eight;
    while (p + 8 <= limit && parse_eight_digits(p, &eight)) {
        v = v * 100000000 + eight;
        p += 8;
    }
    for (; p < limit && kb_is_digit(*p); p++)
        v = v * 10 + (uint64_t)(*p - '0');
    *value = v;
    return p;
}

/* Fast path for a time in microseconds with up to three decimals, as ns. Returns its end;
 * NULL: another form. */
KB_INLINE const char *parse_microseconds(const char *p, int64_t *ns)
{
    bool minus = *p == '-';
    uint64_t whole, part = 0;
    p += minus;
    const char *digits = p;
    p = parse_digits(p, p + 16, &whole);
    if (p == digits || kb_is_digit(*p) || (*digits == '0' && p - digits > 1) ||
        whole >= INT64_MAX / 1000)
        return NULL;
    if (*p == '.') {
        static const uint64_t scale[] = {0, 100, 10, 1};
        const char *fraction = ++p;
        p = parse_digits(p, p + 3, &part);
        part *= scale[p - fraction];
        if (p == fraction || kb_is_digit(*p))
            return NULL;
    }
    if ((*p | 32) == 'e')
        return NULL;
    int64_t value = (int64_t)(whole * 1000 + part);
    *ns = minus ? -value : value;
    return p;
}

/* A time in any form, in the unit of the file. False: a problem in the cursor. */
static bool read_time(kt_cursor *c, const char *p, int64_t *ns)
{
    const char *end = c->unit_shift ? NULL : parse_microseconds(p, ns);
    if (KINETO_LIKELY(end && (*end == ',' || *end == '}' || kt_is_space(*end))))
        return true;
    end = kt_skip_value(c, p);
    if (!end)
        return false;
    if (kt_json_scaled((kineto_string){p, (size_t)(end - p)}, 3 + c->unit_shift, ns))
        return true;
    return kt_cursor_fail(c, p, "a time is not a number or out of range");
}

bool kt_event_number(kineto_string raw, int64_t *number)
{
    if (!kt_json_is_string(raw))
        return kt_json_int(raw, number);
    kineto_string s = kt_json_inside(raw);
    if (s.size > 7 && memcmp(s.data, "stream ", 7) == 0)
        s = (kineto_string){s.data + 7, s.size - 7};
    return kt_json_int(kt_json_whole_part(s), number);
}

/* Parses 0x or 0X and up to 16 hexadecimal digits; false: something else. */
static bool parse_hex_id(kineto_string s, uint64_t *id)
{
    if (s.size <= 2 || s.size > 18 || s.data[0] != '0' || (s.data[1] | 32) != 'x')
        return false;
    *id = 0;
    for (size_t i = 2; i < s.size; i++) {
        int digit = kb_hex_value(s.data[i]);
        if (digit < 0)
            return false;
        *id = *id << 4 | (uint64_t)digit;
    }
    return true;
}

/* Raw value of a member of "id2"; data NULL: it has none. */
static kineto_string find_id2_member(kineto_string object, const char *name)
{
    kineto_string found = {NULL, 0}, key, value;
    kt_scan scan = kt_scan_of(object);
    bool first = true;
    for (bool ok = kt_scan_open(&scan, '{'); ok && kt_scan_more(&scan, &first, '{');) {
        if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
            break;
        if (kt_json_is_key(key, name))
            found = value;
    }
    return found;
}

bool kt_event_id_is_local(const kt_event *e)
{
    return e->has & KT_HAS_ID2 && find_id2_member(e->id2, "local").size;
}

/* The raw value that identifies the event: of "id2" or "id"; data NULL: none. */
static kineto_string raw_event_id(const kt_event *e)
{
    if (!(e->has & KT_HAS_ID2))
        return e->has & KT_HAS_ID ? e->id : (kineto_string){NULL, 0};
    return find_id2_member(e->id2, kt_event_id_is_local(e) ? "local" : "global");
}

/* The number of an id in any spelling (7, 7.0, "7", "0x7", "0X07"), or the hash of another text. */
static uint64_t parse_event_id(kineto_string raw)
{
    uint64_t id = 0;
    if (!raw.size || kt_json_uint(raw, &id))
        return id;
    kineto_string s = kt_json_whole_part(kt_json_is_string(raw) ? kt_json_inside(raw) : raw);
    if (kt_json_uint(s, &id) || parse_hex_id(s, &id))
        return id;
    return kb_hash(s.data, s.size);
}

uint64_t kt_event_bind_id(const kt_event *e) { return parse_event_id(e->bind_id); }

uint64_t kt_event_id(const kt_event *e)
{
    uint64_t id = parse_event_id(raw_event_id(e));
    if (!(e->has & KT_HAS_SCOPE))
        return id;
    uint64_t key[] = {id, kb_hash(e->scope.data, e->scope.size)};
    return kb_hash(key, sizeof key);
}

/* ---- args ------------------------------------------------------------------------------------ */

static bool arg_is(kineto_string s,
                   const char *text) { return kb_string_equal(s, kb_string(text)); }

/* Parses a number of digits only. Numbers of up to 18 digits that do not begin with 0 are fast. */
static bool parse_plain_uint(kineto_string raw, uint64_t *value)
{
    if (raw.size == 0 || raw.size > 18 || raw.data[0] == '0')
        return kt_json_uint(raw, value);
    return parse_digits(raw.data, raw.data + raw.size, value) == raw.data + raw.size;
}

/* Parses an unsigned number without sign, fraction or exponent, also in quotes. False:
 * *value is 0. */
static bool parse_uint_arg(kineto_string raw, uint64_t *value)
{
    bool is_number = parse_plain_uint(raw, value);
    int64_t quoted;
    if (!is_number && kt_json_is_string(raw) && kt_value_whole(raw, &quoted) && quoted >= 0) {
        *value = (uint64_t)quoted;
        return true;
    }
    *value = is_number ? *value : 0;
    return is_number;
}

/* Stores an arg that is a column or flag of the row. True: the arg contains nothing else.
 * The keys and values are those of kt_args_member_is_column. */
static bool store_arg_column(kt_event *e, kineto_string key, kineto_string value)
{
    switch (key.data[0]) {
    case 'c':
        return arg_is(key, "correlation") && parse_uint_arg(value, &e->correlation_id) &&
               e->correlation_id;
    case 'E':
        return arg_is(key, "External id") && parse_uint_arg(value, &e->external_id) &&
               e->external_id;
    case 'e': {
        uint64_t id;
        if (arg_is(key, "external id") && !e->external_id && parse_uint_arg(value, &id))
            e->external_id = id;
        return false; /* kept as an arg: the column would be written with another spelling */
    }
    case 'f':
        if (!arg_is(key, "finished") || !arg_is(value, "false"))
            return false;
        e->flags |= KINETO_ACTIVITY_OPEN_END;
        return true;
    case 's':
        if (!arg_is(key, "started") || !arg_is(value, "false"))
            return false;
        e->flags |= KINETO_ACTIVITY_OPEN_START;
        return true;
    case 'a':
        if (!arg_is(key, "arguments lost") || !arg_is(value, "true"))
            return false;
        e->flags |= KINETO_ACTIVITY_ARGS_LOST;
        return true;
    default:
        return false;
    }
}

/* A filter by first letter and size, before the comparison of whole keys. */
static bool may_be_arg_column(kineto_string key)
{
    static const uint8_t sizes[128] = {
        ['c'] = 11, ['E'] = 11, ['e'] = 11, ['f'] = 8, ['s'] = 7, ['a'] = 14};
    return key.size && (unsigned char)key.data[0] < 128 &&
           sizes[(unsigned char)key.data[0]] == key.size;
}

/* As take_column, for a key with escapes. */
static KB_COLD bool store_escaped_column(kt_event *e, kineto_string key, kineto_string value)
{
    char text[128];
    uint64_t replaced = 0;
    if (key.size > sizeof text)
        return false;
    char *end = kt_json_unescape(text, key, &replaced);
    kineto_string plain = {text, (size_t)(end - text)};
    return may_be_arg_column(plain) && store_arg_column(e, plain, value);
}

/* True if the text has a backslash, eight bytes at a time (SWAR). */
KB_INLINE bool has_backslash(kineto_string s)
{
    uint64_t found = 0;
    for (size_t i = 0; i < s.size; i += 8) {
        uint64_t word = kt_word(s.data + i) ^ 0x5c5c5c5c5c5c5c5cu;
        word &= s.size - i >= 8 ? UINT64_MAX : kt_first_bytes(s.size - i);
        word |= s.size - i >= 8 ? 0 : ~kt_first_bytes(s.size - i);
        found |= (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
    }
    return found != 0;
}

/* Handles one arg: as a column, or as one that stays in the text. */
static void scan_arg(kt_event *e, kineto_string key, kineto_string value)
{
    bool column = may_be_arg_column(key) && store_arg_column(e, key, value);
    if (KINETO_UNLIKELY(!column && has_backslash(key)))
        column = store_escaped_column(e, key, value);
    e->other_args |= !column;
}

/* Fast path for a string or short number: steps over it and returns the structural
 * character after it. NULL: another value, and the cursor has not moved. Needs two
 * positions ahead. */
KB_INLINE const char *step_over_usual_value(kt_cursor *c, kineto_string *value)
{
    KB_ASSERT(kt_cursor_ahead(c) >= 2);
    const char *p = c->window + c->at[0], *next = c->window + c->at[1];
    const char *end = *p == '"' ? kt_string_end(p, next) : kt_skip_digits(p);
    if (KINETO_UNLIKELY(!end))
        return NULL;
    *value = (kineto_string){p, (size_t)(end - p) + (*p == '"')};
    c->at += 2;
    return next;
}

/* Steps over any value and returns the structural character after it. NULL: a problem in
 * the cursor. */
static const char *step_over_value(kt_cursor *c, kineto_string *value)
{
    const char *p = kt_cursor_next(c), *end = kt_skip_value(c, p);
    *value = (kineto_string){p, end ? (size_t)(end - p) : 0};
    return end ? kt_cursor_next(c) : NULL;
}

/* Parses the args object, whose bracket the cursor returned last. Columns are stored, other
 * args are checked only. Returns its end; NULL: a problem in the cursor. */
static const char *scan_event_args(kt_cursor *c, kt_event *e)
{
    e->correlation_id = e->external_id = 0;
    e->flags = 0;
    e->other_args = false;
    const char *p = kt_cursor_next(c);
    if (*p == '}')
        return p + 1;
    for (kineto_string key, value;; p = kt_cursor_next(c)) {
        if (!kt_take_key(c, p, &key))
            return NULL;
        p = KINETO_LIKELY(kt_cursor_ahead(c) >= 2) ? step_over_usual_value(c, &value) : NULL;
        if (!p && !(p = step_over_value(c, &value)))
            return NULL;
        scan_arg(e, key, value);
        if (*p == '}')
            return p + 1;
        if (*p != ',')
            return kt_cursor_fail(c, p, "expected ',' or '}'"), NULL;
    }
}

/* ---- members --------------------------------------------------------------------------------- */

/* Members of an event, in the order of the bits KT_HAS_… OTHER: unknown to this reader. */
typedef enum member {
    PH,
    NAME,
    CAT,
    PID,
    TID,
    TS,
    DUR,
    ARGS,
    ID,
    ID2,
    S,
    SCOPE,
    BP,
    BIND_ID,
    FLOW_IN,
    FLOW_OUT,
    OTHER
} member;
_Static_assert(1 << PH == KT_HAS_PH && 1 << ARGS == KT_HAS_ARGS && 1 << BP == KT_HAS_BP &&
               1 << FLOW_OUT == KT_HAS_FLOW_OUT,
               "KT_HAS_… are the bits of enum member");

/* Keys as Kineto writes them, with quotes and colon, in a perfect hash table by their first
 * two letters. */
#define PLACE_OF(first, second) (((unsigned char)(first) + 3u * (unsigned char)(second)) & 15u)
static const struct {
    char text[9];
    uint8_t size, member;
} usual[16] = {
    [PLACE_OF('p', 'h')] = {"\"ph\":", 5, PH},   [PLACE_OF('n', 'a')] = {"\"name\":", 7, NAME},
    [PLACE_OF('c', 'a')] = {"\"cat\":", 6, CAT}, [PLACE_OF('p', 'i')] = {"\"pid\":", 6, PID},
    [PLACE_OF('t', 'i')] = {"\"tid\":", 6, TID}, [PLACE_OF('t', 's')] = {"\"ts\":", 5, TS},
    [PLACE_OF('d', 'u')] = {"\"dur\":", 6, DUR}, [PLACE_OF('a', 'r')] = {"\"args\":", 7, ARGS},
    [PLACE_OF('i', 'd')] = {"\"id\":", 5, ID},   [PLACE_OF('s', '"')] = {"\"s\":", 4, S},
};

/* The member with this key, which has no escapes. */
static member find_member(kineto_string key)
{
    static const kineto_string names[] = {
        {"ph", 2},  {"name", 4}, {"cat", 3}, {"pid", 3},   {"tid", 3}, {"ts", 2},
        {"dur", 3}, {"args", 4}, {"id", 2},  {"id2", 3},   {"s", 1},   {"scope", 5},
        {"bp", 2},  {"bind_id", 7},          {"flow_in", 7}, {"flow_out", 8}};
    for (unsigned m = 0; m < OTHER; m++)
        if (key.size == names[m].size && memcmp(key.data, names[m].data, key.size) == 0)
            return (member)m;
    return OTHER;
}

/* A key that member_of does not know as it is spelled: resolves escapes, and records
 * unknown keys. */
static KB_COLD member resolve_other_member(kt_cursor *c, kineto_string key)
{
    char room[KT_PLAIN_KEY_BYTES];
    member m = find_member(kt_json_plain_key(key, room));
    if (m == OTHER && c->other_count < KT_OTHER_MEMBERS)
        c->others[c->other_count++] = key;
    return m;
}

/* Parses the key at `p` and its colon. False: a problem in the cursor. */
KB_INLINE bool read_member_key(kt_cursor *c, const char *p, member *m)
{
    unsigned place = PLACE_OF(p[1], p[2]);
    uint64_t differs = kt_word(p) ^ kt_word(usual[place].text);
    if (KINETO_LIKELY(usual[place].size && !(differs & kt_first_bytes(usual[place].size)))) {
        *m = (member)usual[place].member;
        (void)kt_cursor_next(c); /* the colon */
        return true;
    }
    kineto_string key;
    if (!kt_take_key(c, p, &key))
        return false;
    *m = find_member(key);
    if (KINETO_UNLIKELY(*m == OTHER))
        *m = resolve_other_member(c, key);
    return true;
}

/* The raw text of any value. False: a problem in the cursor. */
static bool read_raw_value(kt_cursor *c, const char *p, kineto_string *raw)
{
    const char *end = kt_skip_value(c, p);
    *raw = (kineto_string){p, end ? (size_t)(end - p) : 0};
    return end != NULL;
}

/* A string without its quotes. False: a problem in the cursor. */
KB_INLINE bool read_string_value(kt_cursor *c, const char *p, kineto_string *inside)
{
    const char *end = kt_string_end(p, kt_cursor_peek(c));
    if (KINETO_UNLIKELY(!end))
        return kt_cursor_fail(c, p, "unterminated string");
    *inside = (kineto_string){p + 1, (size_t)(end - p - 1)};
    return true;
}

/* A "pid" or "tid": an integer or short text. */
KB_INLINE bool read_pid_or_tid(kt_cursor *c, const char *p, kineto_string *raw)
{
    const char *end = kt_skip_digits(p);
    if (KINETO_LIKELY(end != NULL)) {
        *raw = (kineto_string){p, (size_t)(end - p)};
        return true;
    }
    if (!read_raw_value(c, p, raw))
        return false;
    int64_t value;
    if ((*p == '"' && raw->size <= 1024) || kt_json_int(*raw, &value))
        return true;
    return kt_cursor_fail(c, p, "\"pid\" and \"tid\" must be integers or short texts");
}

/* A "ph": a text of one character; anything longer is '\0', which dispatch_other refuses. */
static bool read_phase(kt_cursor *c, const char *p, kt_event *e)
{
    kineto_string ph;
    char room[KT_PLAIN_KEY_BYTES];
    if (*p != '"')
        return kt_cursor_fail(c, e->at, "\"ph\" and \"cat\" must be texts");
    if (!read_string_value(c, p, &ph))
        return false;
    ph = kt_json_plain_key(ph, room);
    e->ph = ph.size == 1 ? ph.data[0] : '\0';
    return true;
}

/* An id: a number or a text; null counts as a missing member. */
static bool read_id(kt_cursor *c, const char *p, kineto_string *raw, kt_event *e, uint32_t bit)
{
    if (!read_raw_value(c, p, raw))
        return false;
    if (*p == 'n')
        e->has &= ~bit;
    return *p == '"' || *p == '-' || kb_is_digit(*p) || *p == 'n' ||
           kt_cursor_fail(c, p, "an id must be a number or a text");
}

/* A member that is a flag: true, "true" or 1; other values count as a missing member. */
static bool read_flag(kt_cursor *c, const char *p, kt_event *e, uint32_t bit)
{
    kineto_string raw;
    if (!read_raw_value(c, p, &raw))
        return false;
    kineto_string s = kt_json_is_string(raw) ? kt_json_inside(raw) : raw;
    if (!kb_string_is_ignoring_case(s, "true") && !kb_string_equal(s, kb_string("1")))
        e->has &= ~bit;
    return true;
}

/* A text as duration: "nan" and the like count as no duration; anything else is for repair. */
static bool read_odd_duration(kt_cursor *c, const char *p, kt_event *e)
{
    kineto_string raw;
    if (!read_raw_value(c, p, &raw))
        return false;
    if (!c->lenient || !kt_json_is_not_finite(kt_json_inside(raw)))
        return kt_cursor_fail(c, p, "a time is not a number or out of range");
    e->has = (e->has & ~(uint32_t)KT_HAS_DUR) | KT_HAS_ODD_DUR;
    return true;
}

static bool read_args(kt_cursor *c, const char *p, kt_event *e)
{
    if (*p != '{')
        return kt_cursor_fail(c, p, "\"args\" must be an object");
    const char *end = scan_event_args(c, e);
    e->args = (kineto_string){p, end ? (size_t)(end - p) : 0};
    return end != NULL;
}

/* A value that is checked and skipped. */
static bool skip_member_value(kt_cursor *c, const char *p) { return kt_skip_value(c, p) != NULL; }

/* Parses the value at `p` of a member, in any valid form. False: a problem in the cursor. */
KB_INLINE bool read_any_value(kt_cursor *c, const char *p, member m, kt_event *e)
{
    switch (m) {
    case PH:
        return read_phase(c, p, e);
    case NAME:
        if (*p == 'n') {
            e->has &= ~(uint32_t)KT_HAS_NAME;
            return skip_member_value(c, p);
        }
        if (*p != '"')
            return kt_cursor_fail(c, p, "\"name\" must be a text");
        return read_string_value(c, p, &e->name);
    case CAT:
        if (*p != '"')
            return kt_cursor_fail(c, e->at, "\"ph\" and \"cat\" must be texts");
        return read_string_value(c, p, &e->cat);
    case PID:
        return read_pid_or_tid(c, p, &e->pid);
    case TID:
        return read_pid_or_tid(c, p, &e->tid);
    case TS:
        return read_time(c, p, &e->ts_ns);
    case DUR:
        return *p == '"' ? read_odd_duration(c, p, e) : read_time(c, p, &e->dur_ns);
    case ARGS:
        return read_args(c, p, e);
    case ID:
        return read_id(c, p, &e->id, e, KT_HAS_ID);
    case ID2:
        return *p == '{' ? read_raw_value(c, p, &e->id2)
                         : kt_cursor_fail(c, p, "\"id2\" must be an object");
    case S:
        return read_raw_value(c, p, &e->s);
    case SCOPE:
        return read_raw_value(c, p, &e->scope);
    case BP:
        return read_raw_value(c, p, &e->bp);
    case BIND_ID:
        return read_id(c, p, &e->bind_id, e, KT_HAS_BIND_ID);
    case FLOW_IN:
        return read_flag(c, p, e, KT_HAS_FLOW_IN);
    case FLOW_OUT:
        return read_flag(c, p, e, KT_HAS_FLOW_OUT);
    default:
        return skip_member_value(c, p);
    }
}

/* Fast path: a string at `p`, without its quotes; `next` is the structural character after it. */
KB_INLINE bool read_usual_string(const char *p, const char *next, kineto_string *inside)
{
    const char *quote = *p == '"' ? kt_string_end(p, next) : NULL;
    if (KINETO_UNLIKELY(!quote))
        return false;
    *inside = (kineto_string){p + 1, (size_t)(quote - p - 1)};
    return true;
}

/* Fast path: a phase of one character. */
KB_INLINE bool read_usual_phase(const char *p, const char *next, char *phase)
{
    const char *quote = *p == '"' ? kt_string_end(p, next) : NULL;
    if (KINETO_UNLIKELY(quote != p + 2))
        return false;
    *phase = p[1];
    return true;
}

/* Fast path: a number of up to seven digits. */
KB_INLINE bool read_usual_number(const char *p, kineto_string *raw)
{
    const char *end = kt_skip_digits(p);
    if (KINETO_UNLIKELY(!end))
        return false;
    *raw = (kineto_string){p, (size_t)(end - p)};
    return true;
}

/* Fast path: a time in microseconds, directly followed by ',' or '}'. */
KB_INLINE bool read_usual_time(const kt_cursor *c, const char *p, int64_t *ns)
{
    if (KINETO_UNLIKELY(c->unit_shift != 0))
        return false;
    const char *end = parse_microseconds(p, ns);
    return KINETO_LIKELY(end && (*end == ',' || *end == '}'));
}

/* Fast path: reads the next value in the form that Kineto writes for this member, and
 * returns the structural character after it. NULL: another form or member, and the cursor
 * has not moved. Needs two positions ahead. */
KB_INLINE const char *read_usual_value(kt_cursor *c, member m, kt_event *e)
{
    KB_ASSERT(kt_cursor_ahead(c) >= 2);
    const char *p = c->window + c->at[0], *next = c->window + c->at[1];
    bool is_usual;
    switch (m) {
    case PH:
        is_usual = read_usual_phase(p, next, &e->ph);
        break;
    case NAME:
        is_usual = read_usual_string(p, next, &e->name);
        break;
    case CAT:
        is_usual = read_usual_string(p, next, &e->cat);
        break;
    case PID:
        is_usual = read_usual_number(p, &e->pid);
        break;
    case TID:
        is_usual = read_usual_number(p, &e->tid);
        break;
    case ID:
        is_usual = read_usual_number(p, &e->id);
        break;
    case TS:
        is_usual = read_usual_time(c, p, &e->ts_ns);
        break;
    case DUR:
        is_usual = read_usual_time(c, p, &e->dur_ns);
        break;
    default:
        return NULL;
    }
    if (KINETO_UNLIKELY(!is_usual))
        return NULL;
    c->at += 2;
    return next;
}

/* Reads the next value, by the fast path if possible, and returns the structural character
 * after it. NULL: a problem in the cursor. */
KB_INLINE const char *read_member_value(kt_cursor *c, member m, kt_event *e)
{
    const char *after = KINETO_LIKELY(kt_cursor_ahead(c) >= 2) ? read_usual_value(c, m, e) : NULL;
    if (KINETO_LIKELY(after != NULL))
        return after;
    return read_any_value(c, kt_cursor_next(c), m, e) ? kt_cursor_next(c) : NULL;
}

/* Marks a member as present, and counts repeated ones: the last value counts. */
KB_INLINE void mark_member(kt_event *e, member m)
{
    uint32_t bit = m == OTHER ? 0 : UINT32_C(1) << m;
    e->repeats += (e->has & bit) != 0;
    e->has |= bit;
}

const char *kt_event_scan(kt_cursor *c, const char *p, kt_event *e)
{
    KB_ASSERT(*p == '{' || !*p); /* zero: the file became shorter since the caller looked */
    e->at = p;
    e->has = e->repeats = e->flags = 0;
    c->other_count = 0;
    e->correlation_id = e->external_id = 0;
    e->other_args = false;
    p = kt_cursor_next(c);
    if (*p == '}')
        return p + 1;
    for (;;) {
        member m = OTHER;
        if (!read_member_key(c, p, &m))
            return NULL;
        mark_member(e, m);
        p = read_member_value(c, m, e);
        if (!p)
            return NULL;
        if (*p == '}')
            return p + 1;
        if (KINETO_UNLIKELY(*p != ','))
            return kt_cursor_fail(c, p, *p ? "expected ',' or '}'" : "the text ends early"), NULL;
        p = kt_cursor_next(c);
    }
}

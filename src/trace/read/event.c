/* One event of a Chrome trace: its members, in any order, checked. Times are parsed as integers. */
#include "trace/read/batch.h"

/* ---- numbers --------------------------------------------------------------------------------- */

static inline bool is_digit(char c) { return (unsigned char)(c - '0') < 10; }

/* Eight digits at once: pairs, then fours, then all. False: not all are digits. */
KB_INLINE bool eight_digits(const char *p, uint64_t *value)
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

/* Digits of a number below 10^18; behind them. */
KB_INLINE const char *take_digits(const char *p, const char *most, uint64_t *value)
{
    uint64_t v = 0, eight;
    while (p + 8 <= most && eight_digits(p, &eight)) {
        v = v * 100000000 + eight;
        p += 8;
    }
    for (; p < most && is_digit(*p); p++)
        v = v * 10 + (uint64_t)(*p - '0');
    *value = v;
    return p;
}

/* Microseconds → ns; the usual forms without a detour. NULL: it has another form. */
KB_INLINE const char *take_us(const char *p, int64_t *ns)
{
    bool minus = *p == '-';
    uint64_t whole, part = 0;
    p += minus;
    const char *digits = p;
    p = take_digits(p, p + 16, &whole);
    if (p == digits || is_digit(*p) || (*digits == '0' && p - digits > 1) ||
        whole >= INT64_MAX / 1000)
        return NULL;
    if (*p == '.') {
        static const uint64_t scale[] = {0, 100, 10, 1};
        const char *fraction = ++p;
        p = take_digits(p, p + 3, &part);
        part *= scale[p - fraction];
        if (p == fraction || is_digit(*p))
            return NULL;
    }
    if ((*p | 32) == 'e')
        return NULL;
    int64_t value = (int64_t)(whole * 1000 + part);
    *ns = minus ? -value : value;
    return p;
}

static bool take_time(kt_cursor *c, const char *p, int64_t *ns)
{
    const char *end = c->unit_shift ? NULL : take_us(p, ns);
    if (KINETO_LIKELY(end && (*end == ',' || *end == '}' || kt_is_space(*end))))
        return true;
    end = kt_skip_value(c, p);
    if (!end)
        return false;
    if (kt_json_scaled((kineto_string){p, (size_t)(end - p)}, 3 + c->unit_shift, ns))
        return true;
    return kt_object(c, p, "a time that is no number or does not fit");
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

/* 0x or 0X and digits; false: something else. */
static bool hex_id(kineto_string s, uint64_t *id)
{
    static const char digits[] = "0123456789abcdef";
    if (s.size <= 2 || s.size > 18 || s.data[0] != '0' || (s.data[1] | 32) != 'x')
        return false;
    *id = 0;
    for (size_t i = 2; i < s.size; i++) {
        char lower = (char)(s.data[i] | (s.data[i] >= 'A' ? 32 : 0));
        const char *digit = lower ? strchr(digits, lower) : NULL;
        if (!digit)
            return false;
        *id = *id << 4 | (uint64_t)(digit - digits);
    }
    return true;
}

static kineto_string id2_member(kineto_string object, const char *name)
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
    return e->has & KT_HAS_ID2 && id2_member(e->id2, "local").size;
}

static kineto_string raw_id(const kt_event *e)
{
    if (!(e->has & KT_HAS_ID2))
        return e->has & KT_HAS_ID ? e->id : (kineto_string){NULL, 0};
    return id2_member(e->id2, kt_event_id_is_local(e) ? "local" : "global");
}

/* One number in all its spellings: 7, 7.0, "7", "0x7", "0X07". */
static uint64_t id_without_scope(kineto_string raw)
{
    uint64_t id = 0;
    if (!raw.size || kt_json_uint(raw, &id))
        return id;
    kineto_string s = kt_json_whole_part(kt_json_is_string(raw) ? kt_json_inside(raw) : raw);
    if (kt_json_uint(s, &id) || hex_id(s, &id))
        return id;
    return kb_hash(s.data, s.size);
}

uint64_t kt_event_bind_id(const kt_event *e) { return id_without_scope(e->bind_id); }

uint64_t kt_event_id(const kt_event *e)
{
    uint64_t id = id_without_scope(raw_id(e));
    if (!(e->has & KT_HAS_SCOPE))
        return id;
    uint64_t key[] = {id, kb_hash(e->scope.data, e->scope.size)};
    return kb_hash(key, sizeof key);
}

/* ---- args ------------------------------------------------------------------------------------ */

static bool is(kineto_string s, const char *text) { return kb_string_equal(s, kb_string(text)); }

static bool is_uint(kineto_string raw, uint64_t *value)
{
    if (raw.size == 0 || raw.size > 18 || raw.data[0] == '0')
        return kt_json_uint(raw, value);
    return take_digits(raw.data, raw.data + raw.size, value) == raw.data + raw.size;
}

/* An unsigned number without sign, fraction or exponent, also in quotes; 0 if it is none. */
static bool take_uint(kineto_string raw, uint64_t *value)
{
    bool is_number = is_uint(raw, value);
    int64_t quoted;
    if (!is_number && kt_json_is_string(raw) && kt_value_whole(raw, &quoted) && quoted >= 0) {
        *value = (uint64_t)quoted;
        return true;
    }
    *value = is_number ? *value : 0;
    return is_number;
}

/* Take what is a column or flag of its row. True: the member says nothing that this does not. */
static bool take_column(kt_event *e, kineto_string key, kineto_string value)
{
    switch (key.data[0]) {
    case 'c':
        return is(key, "correlation") && take_uint(value, &e->correlation_id) && e->correlation_id;
    case 'E':
        return is(key, "External id") && take_uint(value, &e->external_id) && e->external_id;
    case 'e': {
        uint64_t id;
        if (is(key, "external id") && !e->external_id && take_uint(value, &id))
            e->external_id = id;
        return false; /* the column has another spelling */
    }
    case 'f':
        if (!is(key, "finished") || !is(value, "false"))
            return false;
        e->flags |= KINETO_ACTIVITY_OPEN_END;
        return true;
    case 's':
        if (!is(key, "started") || !is(value, "false"))
            return false;
        e->flags |= KINETO_ACTIVITY_OPEN_START;
        return true;
    case 'a':
        if (!is(key, "arguments lost") || !is(value, "true"))
            return false;
        e->flags |= KINETO_ACTIVITY_ARGS_LOST;
        return true;
    default:
        return false;
    }
}

static bool may_be_column(kineto_string key)
{
    static const uint8_t sizes[128] = {
        ['c'] = 11, ['E'] = 11, ['e'] = 11, ['f'] = 8, ['s'] = 7, ['a'] = 14};
    return key.size && (unsigned char)key.data[0] < 128 &&
           sizes[(unsigned char)key.data[0]] == key.size;
}

/* Keys with escapes are compared by what they mean. */
static KB_COLD bool take_escaped_column(kt_event *e, kineto_string key, kineto_string value)
{
    char text[128];
    uint64_t replaced = 0;
    if (key.size > sizeof text)
        return false;
    char *end = kt_json_unescape(text, key, &replaced);
    kineto_string plain = {text, (size_t)(end - text)};
    return may_be_column(plain) && take_column(e, plain, value);
}

/* Is there a backslash? */
KB_INLINE bool has_escape(kineto_string s)
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

static void take_arg(kt_event *e, kineto_string key, kineto_string value)
{
    bool column = may_be_column(key) && take_column(e, key, value);
    if (KINETO_UNLIKELY(!column && has_escape(key)))
        column = take_escaped_column(e, key, value);
    e->other_args |= !column;
}

/* A text or short number, and a step onto what follows it, which it returns. NULL: some other
 * value; no step was made. */
KB_INLINE const char *step_over_simple(kt_cursor *c, kineto_string *value)
{
    const char *p = c->window + c->at[0], *behind = c->window + c->at[1];
    const char *end = *p == '"' ? kt_string_end(p, behind) : kt_skip_digits(p);
    if (KINETO_UNLIKELY(!end))
        return NULL;
    *value = (kineto_string){p, (size_t)(end - p) + (*p == '"')};
    c->at += 2;
    return behind;
}

/* The same of any value. */
static const char *step_over(kt_cursor *c, kineto_string *value)
{
    const char *p = kt_next(c), *end = kt_skip_value(c, p);
    *value = (kineto_string){p, end ? (size_t)(end - p) : 0};
    return end ? kt_next(c) : NULL;
}

/* The object whose bracket was stepped onto: columns out of it, the rest only checked. */
static const char *scan_args(kt_cursor *c, kt_event *e)
{
    e->correlation_id = e->external_id = 0;
    e->flags = 0;
    e->other_args = false;
    const char *p = kt_next(c);
    if (*p == '}')
        return p + 1;
    for (kineto_string key, value;; p = kt_next(c)) {
        if (!kt_take_key(c, p, &key))
            return NULL;
        p = KINETO_LIKELY(kt_ahead(c) >= 2) ? step_over_simple(c, &value) : NULL;
        if (!p && !(p = step_over(c, &value)))
            return NULL;
        take_arg(e, key, value);
        if (*p == '}')
            return p + 1;
        if (*p != ',')
            return kt_object(c, p, "expected ',' or '}'"), NULL;
    }
}

/* ---- members --------------------------------------------------------------------------------- */

/* In the order of the bits KT_HAS_… */
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
               "bits");

/* The members as Kineto writes them, with quotes and colon, where a hash of their first two letters
 * finds them. "id2" shares its place with "id". */
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

static member member_of(kineto_string key)
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

/* A key that is none of those as it stands: one with escapes may be, any other is noted. */
static KB_COLD member other_member(kt_cursor *c, kineto_string key)
{
    char room[KT_PLAIN_KEY_BYTES];
    member m = member_of(kt_json_plain_key(key, room));
    if (m == OTHER && c->other_count < KT_OTHER_MEMBERS)
        c->others[c->other_count++] = key;
    return m;
}

/* The key at `p` and its colon. False, with a problem. */
KB_INLINE bool take_member_key(kt_cursor *c, const char *p, member *m)
{
    unsigned place = PLACE_OF(p[1], p[2]);
    uint64_t differs = kt_word(p) ^ kt_word(usual[place].text);
    if (KINETO_LIKELY(usual[place].size && !(differs & kt_first_bytes(usual[place].size)))) {
        *m = (member)usual[place].member;
        (void)kt_next(c); /* the colon */
        return true;
    }
    kineto_string key;
    if (!kt_take_key(c, p, &key))
        return false;
    *m = member_of(key);
    if (KINETO_UNLIKELY(*m == OTHER))
        *m = other_member(c, key);
    return true;
}

/* Raw text of any value. */
static bool take_raw(kt_cursor *c, const char *p, kineto_string *raw)
{
    const char *end = kt_skip_value(c, p);
    *raw = (kineto_string){p, end ? (size_t)(end - p) : 0};
    return end != NULL;
}

KB_INLINE bool take_string(kt_cursor *c, const char *p, kineto_string *inside)
{
    const char *end = kt_string_end(p, kt_peek(c));
    if (KINETO_UNLIKELY(!end))
        return kt_object(c, p, "a string that does not end");
    *inside = (kineto_string){p + 1, (size_t)(end - p - 1)};
    return true;
}

/* A short number or text. */
KB_INLINE bool take_place(kt_cursor *c, const char *p, kineto_string *raw)
{
    const char *end = kt_skip_digits(p);
    if (KINETO_LIKELY(end != NULL)) {
        *raw = (kineto_string){p, (size_t)(end - p)};
        return true;
    }
    if (!take_raw(c, p, raw))
        return false;
    int64_t value;
    if ((*p == '"' && raw->size <= 1024) || kt_json_int(*raw, &value))
        return true;
    return kt_object(c, p, "\"pid\" and \"tid\" must be integers or short texts");
}

static bool take_phase(kt_cursor *c, const char *p, kt_event *e)
{
    kineto_string ph;
    char room[KT_PLAIN_KEY_BYTES];
    if (*p != '"')
        return kt_object(c, e->at, "\"ph\" and \"cat\" must be texts");
    if (!take_string(c, p, &ph))
        return false;
    ph = kt_json_plain_key(ph, room);
    e->ph = ph.size == 1 ? ph.data[0] : '\0';
    return true;
}

/* A number or a text; null is none. */
static bool take_id(kt_cursor *c, const char *p, kineto_string *raw, kt_event *e, uint32_t bit)
{
    if (!take_raw(c, p, raw))
        return false;
    if (*p == 'n')
        e->has &= ~bit;
    return *p == '"' || *p == '-' || is_digit(*p) || *p == 'n' ||
           kt_object(c, p, "an id must be a number or a text");
}

/* true, or what other writers have for it. */
static bool take_truth(kt_cursor *c, const char *p, kt_event *e, uint32_t bit)
{
    kineto_string raw;
    if (!take_raw(c, p, &raw))
        return false;
    kineto_string s = kt_json_is_string(raw) ? kt_json_inside(raw) : raw;
    if (!kb_string_is_word(s, "true") && !kb_string_equal(s, kb_string("1")))
        e->has &= ~bit;
    return true;
}

/* A text in place of a length: as good as none if it says so, else for repair. */
static bool take_odd_length(kt_cursor *c, const char *p, kt_event *e)
{
    kineto_string raw;
    if (!take_raw(c, p, &raw))
        return false;
    if (!c->lenient || !kt_json_is_not_finite(kt_json_inside(raw)))
        return kt_object(c, p, "a time that is no number or does not fit");
    e->has = (e->has & ~(uint32_t)KT_HAS_DUR) | KT_HAS_ODD_DUR;
    return true;
}

static bool take_args(kt_cursor *c, const char *p, kt_event *e)
{
    if (*p != '{')
        return kt_object(c, p, "\"args\" must be an object");
    const char *end = scan_args(c, e);
    e->args = (kineto_string){p, end ? (size_t)(end - p) : 0};
    return end != NULL;
}

static bool take_other(kt_cursor *c, const char *p) { return kt_skip_value(c, p) != NULL; }

KB_INLINE bool take_member(kt_cursor *c, const char *p, member m, kt_event *e)
{
    switch (m) {
    case PH:
        return take_phase(c, p, e);
    case NAME:
        if (*p == 'n') {
            e->has &= ~(uint32_t)KT_HAS_NAME;
            return take_other(c, p);
        }
        if (*p != '"')
            return kt_object(c, p, "\"name\" must be a text");
        return take_string(c, p, &e->name);
    case CAT:
        if (*p != '"')
            return kt_object(c, e->at, "\"ph\" and \"cat\" must be texts");
        return take_string(c, p, &e->cat);
    case PID:
        return take_place(c, p, &e->pid);
    case TID:
        return take_place(c, p, &e->tid);
    case TS:
        return take_time(c, p, &e->ts_ns);
    case DUR:
        return *p == '"' ? take_odd_length(c, p, e) : take_time(c, p, &e->dur_ns);
    case ARGS:
        return take_args(c, p, e);
    case ID:
        return take_id(c, p, &e->id, e, KT_HAS_ID);
    case ID2:
        return *p == '{' ? take_raw(c, p, &e->id2)
                         : kt_object(c, p, "\"id2\" must be an object");
    case S:
        return take_raw(c, p, &e->s);
    case SCOPE:
        return take_raw(c, p, &e->scope);
    case BP:
        return take_raw(c, p, &e->bp);
    case BIND_ID:
        return take_id(c, p, &e->bind_id, e, KT_HAS_BIND_ID);
    case FLOW_IN:
        return take_truth(c, p, e, KT_HAS_FLOW_IN);
    case FLOW_OUT:
        return take_truth(c, p, e, KT_HAS_FLOW_OUT);
    default:
        return take_other(c, p);
    }
}

/* Usual values, and a step onto what follows, which it returns. NULL: some other form; no step was
 * made. Needs two places ahead. */
KB_INLINE const char *take_usual(kt_cursor *c, member m, kt_event *e)
{
    const char *p = c->window + c->at[0], *behind = c->window + c->at[1], *end;
    switch (m) {
    case PH:
        end = *p == '"' ? kt_string_end(p, behind) : NULL;
        if (KINETO_UNLIKELY(end != p + 2))
            return NULL;
        e->ph = p[1];
        break;
    case NAME:
    case CAT:
        end = *p == '"' ? kt_string_end(p, behind) : NULL;
        if (KINETO_UNLIKELY(!end))
            return NULL;
        *(m == NAME ? &e->name : &e->cat) = (kineto_string){p + 1, (size_t)(end - p - 1)};
        break;
    case PID:
    case TID:
    case ID:
        end = kt_skip_digits(p);
        if (KINETO_UNLIKELY(!end))
            return NULL;
        *(m == PID ? &e->pid : m == TID ? &e->tid : &e->id) = (kineto_string){p, (size_t)(end - p)};
        break;
    case TS:
    case DUR:
        end = KINETO_UNLIKELY(c->unit_shift != 0)
                  ? NULL
                  : take_us(p, m == TS ? &e->ts_ns : &e->dur_ns);
        if (KINETO_UNLIKELY(!end || (*end != ',' && *end != '}')))
            return NULL;
        break;
    default:
        return NULL;
    }
    c->at += 2;
    return behind;
}

KB_INLINE void note_member(kt_event *e, member m)
{
    uint32_t bit = m == OTHER ? 0 : UINT32_C(1) << m;
    e->repeats += (e->has & bit) != 0;
    e->has |= bit;
}

const char *kt_event_scan(kt_cursor *c, const char *p, kt_event *e)
{
    e->at = p;
    e->has = e->repeats = e->flags = 0;
    c->other_count = 0;
    e->correlation_id = e->external_id = 0;
    e->other_args = false;
    p = kt_next(c);
    if (*p == '}')
        return p + 1;
    for (member m = PH /* not every compiler sees that it is taken */;; p = kt_next(c)) {
        if (!take_member_key(c, p, &m))
            return NULL;
        note_member(e, m);
        p = KINETO_LIKELY(kt_ahead(c) >= 2) ? take_usual(c, m, e) : NULL;
        if (!p) {
            if (!take_member(c, kt_next(c), m, e))
                return NULL;
            p = kt_next(c);
        }
        if (*p == '}')
            return p + 1;
        if (KINETO_UNLIKELY(*p != ','))
            return kt_object(c, p, *p ? "expected ',' or '}'" : "the text ends early"), NULL;
    }
}

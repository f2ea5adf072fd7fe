/* The parser of requests and configuration files, driven by the table of keys (request_keys.def),
 * and the rules for merging and completing requests. Input is untrusted: messages show it through
 * ko_request_show only. */
#include "ondemand/request/request.h"

#include <stdarg.h>
#include <stddef.h>

/* ---- the table ------------------------------------------------------------------------------- */

typedef enum read_as { BOOL, INT32, INT64, POSITIVE, TEXT, KINDS, IGNORED } read_as;
typedef enum store_as { AS_BOOL, AS_INT32, AS_INT64, AS_MASK, AS_TEXT } store_as;

/* clang-format off */
#define STORE_AS(field)                                                                            \
    _Generic(((ko_request *)0)->field, bool: AS_BOOL, int32_t: AS_INT32, int64_t: AS_INT64,         \
             uint64_t: AS_MASK, char *: AS_TEXT)
/* clang-format on */

typedef struct key_row {
    read_as read;
    store_as store;
    size_t offset, size; /* in ko_request */
    int64_t factor;
    size_t name_bytes, alias_bytes;
} key_row;

static const key_row rows[] = {
#define X(name, alias, read, field, factor, file_only, values, initial, text)                      \
    {read,                                                                                         \
     STORE_AS(field),                                                                              \
     offsetof(ko_request, field),                                                                  \
     sizeof(((ko_request *)0)->field),                                                             \
     factor,                                                                                       \
     sizeof #name - 1,                                                                             \
     sizeof alias - 1},
#include "ondemand/request/request_keys.def"
#undef X
};

static const ko_request_key keys[] = {
#define X(name, alias, read, field, factor, file_only, values, initial, text)                      \
    {#name, alias, values, initial, text, file_only},
#include "ondemand/request/request_keys.def"
#undef X
};

enum {
#define X(name, ...) KEY_##name,
#include "ondemand/request/request_keys.def"
#undef X
    KEY_COUNT
};
_Static_assert(KEY_COUNT <= 64, "`given` has a bit for each key");

#define BIT(name) (UINT64_C(1) << KEY_##name)
#define TIME_KEYS                                                                                  \
    (BIT(ACTIVITIES_DURATION_SECS) | BIT(ACTIVITIES_DURATION_MSECS) | BIT(PROFILE_START_TIME))
#define ITERATION_KEYS                                                                             \
    (BIT(ACTIVITIES_ITERATIONS) | BIT(PROFILE_START_ITERATION) |                                   \
     BIT(PROFILE_START_ITERATION_ROUNDUP))
/* Each of these keys requests a trace, whatever ACTIVITIES_ENABLED is. */
#define ASKING_KEYS                                                                                \
    (BIT(ACTIVITIES_DURATION_SECS) | BIT(ACTIVITIES_DURATION_MSECS) | BIT(ACTIVITIES_ITERATIONS) | \
     BIT(ACTIVITIES_LOG_FILE))

const ko_request_key *ko_request_keys(size_t *count)
{
    *count = KEY_COUNT;
    return keys;
}

#define SHORTEST_KEY 13u /* bytes of the shortest name in the table */

/* Row of a key or of its older name; KEY_COUNT: unknown. */
static uint32_t find_key(kineto_string name)
{
    for (uint32_t i = 0; i < KEY_COUNT && name.size >= SHORTEST_KEY; i++) {
        if ((rows[i].name_bytes == name.size && !memcmp(name.data, keys[i].name, name.size)) ||
            (rows[i].alias_bytes == name.size && !memcmp(name.data, keys[i].alias, name.size)))
            return i;
    }
    return KEY_COUNT;
}

void ko_request_init(ko_request *r)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < KEY_COUNT; i++) {
        int64_t none = -1;
        if (rows[i].store == AS_INT64 || rows[i].store == AS_INT32) /* all bits are set in both */
            memcpy((char *)r + rows[i].offset, &none, rows[i].size);
    }
    r->enabled = true;
}

/* ---- messages -------------------------------------------------------------------------------- */

void ko_request_show(kineto_string text, char *out, size_t size)
{
    static const char cut[] = "…";
    size_t used = 0;
    for (kineto_string rest = text; rest.size > 0;) {
        size_t n = kb_utf8_length(rest.data, rest.size), skip = n;
        if (n == 0)
            skip = kb_utf8_bad_length(rest.data, rest.size);
        bool plain = n > 1
                         ? (unsigned char)rest.data[0] != 0xc2 || (unsigned char)rest.data[1] > 0x9f
                         : n == 1 && rest.data[0] >= ' ' && rest.data[0] != 0x7f;
        if (used + (plain ? n : 1) + sizeof cut > size) {
            memcpy(out + used, cut, sizeof cut - 1);
            used += sizeof cut - 1;
            break;
        }
        memcpy(out + used, plain ? rest.data : "?", plain ? n : 1);
        used += plain ? n : 1;
        rest = (kineto_string){rest.data + skip, rest.size - skip};
    }
    out[used] = '\0';
}

typedef struct reader {
    ko_request *r;
    ko_request_source source;
    uint32_t line;
    size_t offset; /* of the line */
    uint64_t given;
    kb_text unknown;
    uint32_t unknown_count;
    kineto_error *err;
} reader;

/* Fails with the number of the line, and its offset in err. */
KINETO_PRINTF(3, 4)
static kineto_status fail_line(const reader *in, kineto_status code, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    kb_fail(in->err, code, "line %u: %s", in->line, text);
    if (in->err)
        in->err->offset = in->offset;
    return code;
}

static kineto_status fail_value(const reader *in, uint32_t key, kineto_string value)
{
    char shown[80];
    ko_request_show(value, shown, sizeof shown);
    return fail_line(in, KINETO_E_ARGUMENT, "%s wants %s, not '%s'", keys[key].name,
                     keys[key].values, shown);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* 1, 0, or -1: not a boolean. Words alternate false and true. */
static int parse_bool(kineto_string s)
{
    static const char *const words[] = {"n", "y", "no", "yes", "f", "t", "false", "true", "0", "1"};
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_is_ignoring_case(s, words[i]))
            return (int)(i & 1);
    return -1;
}

/* A decimal number from 0 to `most`, optionally signed; -1: not one. */
static int64_t parse_decimal(kineto_string s, int64_t most)
{
    int64_t value = 0;
    bool negative = s.size > 1 && s.data[0] == '-';
    if (negative || (s.size > 1 && s.data[0] == '+'))
        s.data++, s.size--;
    if (s.size == 0)
        return -1;
    for (size_t i = 0; i < s.size; i++) {
        int digit = s.data[i] - '0';
        if (digit < 0 || digit > 9 || value > (most - digit) / 10)
            return -1;
        value = value * 10 + digit;
    }
    return negative && value > 0 ? -1 : value;
}

/* -1: not a valid value for this key. */
static int64_t parse_number_value(uint32_t key, kineto_string value)
{
    const key_row *row = &rows[key];
    int64_t most = row->read == INT64 ? INT64_MAX / row->factor : INT32_MAX;
    if (row->read == BOOL)
        return parse_bool(value);
    int64_t number = parse_decimal(value, most);
    return row->read == POSITIVE && number == 0 ? -1 : number;
}

/* Writes to the member of the row, in its type; only int64_t members are scaled. */
static void store_number(ko_request *r, const key_row *row, int64_t number)
{
    void *at = (char *)r + row->offset;
    if (row->store == AS_BOOL)
        *(bool *)at = number != 0;
    else if (row->store == AS_INT32)
        *(int32_t *)at = (int32_t)number;
    else
        *(int64_t *)at = number * row->factor;
}

/* An empty list selects the default kinds. */
static kineto_status store_kinds(const reader *in, uint32_t key, kineto_string value)
{
    char list[2048];
    kineto_error why;
    if (value.size >= sizeof list)
        return fail_line(in, KINETO_E_LIMIT, "%s is longer than %zu bytes", keys[key].name,
                         sizeof list - 1);
    memcpy(list, value.data, value.size);
    list[value.size] = '\0';
    in->r->kinds = 0;
    if (list[strspn(list, ", \t\r")] == '\0') /* none named: the usual */
        return KINETO_OK;
    if (kineto_kinds_parse(list, &in->r->kinds, &why) == KINETO_OK)
        return KINETO_OK;
    char shown[300];
    ko_request_show(kb_string(why.message), shown, sizeof shown);
    return fail_line(in, KINETO_E_ARGUMENT, "%s: %s", keys[key].name, shown);
}

/* The rest of the member is zeroed, so that requests can be compared. */
static kineto_status store_text(const reader *in, uint32_t key, kineto_string value)
{
    char *at = (char *)in->r + rows[key].offset;
    if (value.size >= rows[key].size)
        return fail_line(in, KINETO_E_LIMIT, "%s is longer than %zu bytes", keys[key].name,
                         rows[key].size - 1);
    memset(at, 0, rows[key].size);
    memcpy(at, value.data, value.size);
    return KINETO_OK;
}

/* ---- keys for plug-ins: lines ---------------------------------------------------------------- */

/* The line of a key in `custom`, with its newline; empty: not there. */
static kineto_string find_custom_line(const char *custom, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = custom; *at;) {
        const char *end = strchr(at, '\n') + 1;
        if (strncmp(at, name, size) == 0 && at[size] == '=')
            return (kineto_string){at, (size_t)(end - at)};
        at = end;
    }
    return (kineto_string){custom + strlen(custom), 0};
}

/* Replaces the key's line, or appends one; false: it does not fit. */
static bool put_custom_line(char *custom, const char *name, kineto_string value)
{
    kineto_string old = find_custom_line(custom, name);
    size_t used = strlen(custom) - old.size, size = strlen(name) + value.size + 2;
    if (value.size >= KO_REQUEST_CUSTOM_BYTES || used + size >= KO_REQUEST_CUSTOM_BYTES)
        return false;
    char *hole = custom + (old.data - custom), *end = custom + strlen(custom);
    memmove(hole, hole + old.size, (size_t)(end - hole) - old.size + 1);
    KB_ASSERT(used + size < KO_REQUEST_CUSTOM_BYTES);
    memset(custom + used, 0, KO_REQUEST_CUSTOM_BYTES - used);
    size_t name_bytes = strlen(name);
    memcpy(custom + used, name, name_bytes);
    custom[used + name_bytes] = '=';
    memcpy(custom + used + name_bytes + 1, value.data, value.size);
    custom[used + size - 1] = '\n';
    return true;
}

/* Keys for plug-ins are kept as lines KEY=VALUE in `custom`. */
static kineto_status store_custom(const reader *in, uint32_t key, kineto_string value)
{
    if (rows[key].read == BOOL)
        value = kb_string(parse_bool(value) ? "true" : "false");
    if (put_custom_line(in->r->custom, keys[key].name, value))
        return KINETO_OK;
    return fail_line(in, KINETO_E_LIMIT,
                     "no room for %s: the keys for plug-ins have %u bytes together", keys[key].name,
                     KO_REQUEST_CUSTOM_BYTES);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Copies a quoted value without its quotes to `out`; only a comment may follow it. */
static kineto_status read_quoted_value(const reader *in, uint32_t key, kineto_string text,
                                       char *out, size_t size, kineto_string *value)
{
    size_t used = 0, i = 1;
    for (; i < text.size && text.data[i] != '"'; i++) {
        char c = text.data[i];
        if (c == '\\' && i + 1 < text.size) {
            c = text.data[++i];
            if (c != '"' && c != '\\')
                return fail_line(in, KINETO_E_ARGUMENT,
                                 "%s: in quotes a backslash is written \\\\ and a quote \\\"",
                                 keys[key].name);
        }
        if (used == size)
            return fail_line(in, KINETO_E_LIMIT, "%s is longer than %zu bytes", keys[key].name,
                             size);
        out[used++] = c;
    }
    if (i >= text.size)
        return fail_line(in, KINETO_E_ARGUMENT, "%s: the closing quote is missing", keys[key].name);
    kineto_string tail = kb_string_trimmed((kineto_string){text.data + i + 1, text.size - i - 1});
    if (tail.size > 0 && tail.data[0] != '#')
        return fail_line(in, KINETO_E_ARGUMENT, "%s: unexpected text after the closing quote",
                         keys[key].name);
    *value = (kineto_string){out, used};
    return KINETO_OK;
}

/* Stores a value by the type of its key. */
static kineto_status store_value(reader *in, uint32_t key, kineto_string value)
{
    KB_ASSERT(key < KEY_COUNT);
    const key_row *row = &rows[key];
    int64_t number = 0;
    in->given |= UINT64_C(1) << key;
    if (row->read == IGNORED)
        return KINETO_OK;
    if (row->read == KINDS)
        return store_kinds(in, key, value);
    if (row->read != TEXT && (number = parse_number_value(key, value)) < 0)
        return fail_value(in, key, value);
    if (row->offset == offsetof(ko_request, custom))
        return store_custom(in, key, value);
    if (row->read == TEXT)
        return store_text(in, key, value);
    if (key == KEY_PROFILE_START_ITERATION_ROUNDUP && number == 0)
        number = -1;
    store_number(in->r, row, number);
    return KINETO_OK;
}

/* Only the first name is kept. */
static void count_unknown(reader *in, kineto_string name)
{
    if (in->unknown_count == 0)
        ko_request_show(name, in->unknown.s, sizeof in->unknown.s);
    if (in->unknown_count < UINT32_MAX)
        in->unknown_count++;
}

/* Blank lines and comments are skipped. A quoted value may contain "#", an unquoted one ends
 * there. */
static kineto_status parse_request_line(reader *in, kineto_string line)
{
    char unquoted[2048], shown[80];
    size_t at = 0;
    line = kb_string_trimmed(line);
    while (at < line.size && line.data[at] != '=' && line.data[at] != '#')
        at++;
    kineto_string name = kb_string_trimmed((kineto_string){line.data, at});
    if (at == line.size || line.data[at] == '#') {
        ko_request_show(name, shown, sizeof shown);
        return name.size == 0 ? KINETO_OK
                              : fail_line(in, KINETO_E_ARGUMENT, "'%s' is not KEY=VALUE", shown);
    }
    if (name.size == 0)
        return fail_line(in, KINETO_E_ARGUMENT, "no key before '='");
    uint32_t key = find_key(name);
    if (key == KEY_COUNT || (keys[key].file_only && in->source == KO_FROM_REQUEST)) {
        count_unknown(in, name);
        return KINETO_OK;
    }
    kineto_string value =
        kb_string_trimmed((kineto_string){line.data + at + 1, line.size - at - 1});
    if (value.size > 0 && value.data[0] == '"') {
        kineto_status status = read_quoted_value(in, key, value, unquoted, sizeof unquoted, &value);
        return status ? status : store_value(in, key, value);
    }
    const char *comment = value.size ? memchr(value.data, '#', value.size) : NULL;
    if (comment)
        value.size = (size_t)(comment - value.data);
    return store_value(in, key, kb_string_trimmed(value));
}

/* Stops at the first error. */
static kineto_status parse_request_lines(reader *in, kineto_string text)
{
    while (in->offset < text.size) {
        const char *line = text.data + in->offset;
        size_t rest = text.size - in->offset;
        const char *end = memchr(line, '\n', rest);
        size_t size = end ? (size_t)(end - line) : rest;
        in->line++;
        if (memchr(line, '\0', size))
            return fail_line(in, KINETO_E_ARGUMENT, "NUL byte: not a text");
        kineto_status status = parse_request_line(in, (kineto_string){line, size});
        if (status != KINETO_OK)
            return status;
        in->offset += size + 1;
    }
    return KINETO_OK;
}

kineto_status ko_request_parse(ko_request *r, kineto_string text, ko_request_source source,
                               kb_text *unknown, uint32_t *unknown_count, kineto_error *err)
{
    ko_request next = *r;
    reader in = {.r = &next, .source = source, .err = err};
    kineto_status status =
        text.size > KO_REQUEST_TEXT_BYTES
            ? kb_fail(err, KINETO_E_LIMIT, "the text has %zu bytes, more than %u", text.size,
                      KO_REQUEST_TEXT_BYTES)
            : parse_request_lines(&in, text);
    if (unknown)
        *unknown = in.unknown;
    if (unknown_count)
        *unknown_count = in.unknown_count;
    if (status != KINETO_OK)
        return status;
    next.given |= in.given;
    if (in.given & ASKING_KEYS)
        next.enabled = true;
    *r = next;
    return KINETO_OK;
}

/* ---- merging and completing ------------------------------------------------------------------ */

/* Keys of the lower layer that contradict the upper one: time and iterations exclude each other. */
static uint64_t keys_overridden_by(uint64_t given)
{
    if (given & ITERATION_KEYS)
        return TIME_KEYS;
    return given & TIME_KEYS ? ITERATION_KEYS : 0;
}

/* Lines of the lower layer for keys that the upper one lacks. */
static void layer_custom(ko_request *over, const ko_request *under)
{
    for (uint32_t i = 0; i < KEY_COUNT; i++) {
        if (rows[i].offset != offsetof(ko_request, custom) || rows[i].read == IGNORED ||
            find_custom_line(over->custom, keys[i].name).size > 0)
            continue;
        kineto_string line = find_custom_line(under->custom, keys[i].name);
        size_t name = strlen(keys[i].name) + 1;
        if (line.size > 0 && /* if both together are too long, the lower layer's line is dropped */
            !put_custom_line(over->custom, keys[i].name,
                             (kineto_string){line.data + name, line.size - name - 1}))
            kb_log(KINETO_LOG_WARNING, "no room for %s of the configuration file", keys[i].name);
    }
}

void ko_request_layer(ko_request *over, const ko_request *under)
{
    uint64_t taken = under->given & ~over->given & ~keys_overridden_by(over->given);
    for (uint32_t i = 0; i < KEY_COUNT;
         i++) { /* a member that the upper layer set by another key, as SECS and MSECS */
        for (uint32_t j = 0; j < KEY_COUNT && rows[i].offset != offsetof(ko_request, custom); j++)
            if (rows[i].offset == rows[j].offset && over->given >> j & 1)
                taken &= ~(UINT64_C(1) << i);
    }
    for (uint32_t i = 0; i < KEY_COUNT; i++)
        if (taken >> i & 1 && rows[i].offset != offsetof(ko_request, custom))
            memcpy((char *)over + rows[i].offset, (const char *)under + rows[i].offset,
                   rows[i].size);
    layer_custom(over, under);
    if (over->given & ASKING_KEYS)
        over->enabled = true;
    else if (!(over->given & BIT(ACTIVITIES_ENABLED)))
        over->enabled = under->enabled;
    over->given |= taken;
}

static void put_default(int64_t *value, int64_t initial)
{
    if (*value < 0)
        *value = initial;
}

/* Only for requests by time. */
static kineto_status check_start(const ko_request *r, int64_t now_ns, kineto_error *err)
{
    static const int64_t most_age_ns = INT64_C(10000000000),
                         most_ahead_ns = INT64_C(86400000000000);
    int64_t ahead = kb_length_ns(now_ns, r->start_time_ns);
    if (r->start_time_ns <= 0)
        return KINETO_OK;
    if (ahead < -most_age_ns)
        return kb_fail(err, KINETO_E_ARGUMENT, "PROFILE_START_TIME was %s ago",
                       kb_duration(ahead == INT64_MIN ? INT64_MAX : -ahead).s);
    if (ahead > most_ahead_ns)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "PROFILE_START_TIME is %s ahead; it is counted in ms since 1970",
                       kb_duration(ahead).s);
    return KINETO_OK;
}

/* Contradictions within the request. */
static kineto_status check_request(const ko_request *r, int64_t now_ns, kineto_error *err)
{
    bool by_iteration = r->iterations > 0;
    if (!r->enabled && !r->memory_snapshot)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "ACTIVITIES_ENABLED is off, and neither a length nor a file is asked for");
    if (r->memory_snapshot && r->memory_snapshot_ns == 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "PROFILE_MEMORY_DURATION_MSECS is 0");
    if (r->duration_ns == 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "the duration is 0: give ACTIVITIES_DURATION_MSECS more than that");
    if (!by_iteration && r->start_iteration >= 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "PROFILE_START_ITERATION needs ACTIVITIES_ITERATIONS above 0");
    if (by_iteration && r->start_iteration < 0 && r->start_time_ns > 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "ACTIVITIES_ITERATIONS needs PROFILE_START_ITERATION in place of "
                       "PROFILE_START_TIME");
    return by_iteration ? KINETO_OK : check_start(r, now_ns, err);
}

kineto_status ko_request_complete(ko_request *r, int64_t now_ns, kineto_error *err)
{
    kineto_status status = check_request(r, now_ns, err);
    if (status != KINETO_OK)
        return status;
    put_default(&r->iterations, 0);
    put_default(&r->start_time_ns, 0);
    if (r->iterations > 0) { /* a duration bounds them only if it was given */
        put_default(&r->start_iteration, 0);
        r->start_time_ns = 0;
    } else
        put_default(&r->duration_ns, INT64_C(500000000));
    put_default(&r->warmup_ns, INT64_C(5000000000));
    put_default(&r->warmup_iterations, 0);
    put_default(&r->max_buffer_bytes, INT64_C(128) << 20);
    put_default(&r->memory_snapshot_ns, INT64_C(1000000000));
    put_default(&r->poll_interval_ns, INT64_C(5000000000));
    if (r->kinds == 0)
        r->kinds = KINETO_KINDS_DEFAULT;
    KB_ASSERT(r->iterations > 0 || r->duration_ns > 0 || r->memory_snapshot);
    KB_ASSERT(!(r->iterations > 0 && r->start_time_ns));
    return KINETO_OK;
}

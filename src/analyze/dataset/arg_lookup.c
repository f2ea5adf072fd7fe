/* Finds single arguments of many rows in the JSON text they came with. A scan for quotes that
 * open one of the wanted keys replaces parsing, 16 bytes at a time with SSE2; texts with \u
 * escapes, which may spell a key, take the slow path. Rows whose arguments are packed
 * (kt_args_form_of) are walked argument by argument. Values are views into the text, or into
 * rooms of json_value.h. */
#include "analyze/dataset/attribution.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- where values end ----------------------------------------------------------------------------- */

static size_t skip_json_space(kineto_string s, size_t at)
{
    while (at < s.size &&
           (s.data[at] == ' ' || s.data[at] == '\n' || s.data[at] == '\t' || s.data[at] == '\r'))
        at++;
    return at;
}

/* Past the quote that ends the string at `at`: one with an even number of backslashes before it.
 */
static size_t string_end(kineto_string s, size_t at)
{
    const char *quote;
    for (size_t from = at + 1;
         from < s.size && (quote = memchr(s.data + from, '"', s.size - from)) != NULL;) {
        size_t end = (size_t)(quote - s.data), slashes = 0;
        while (end - slashes > at + 1 && s.data[end - slashes - 1] == '\\')
            slashes++;
        if (slashes % 2 == 0)
            return end + 1;
        from = end + 1;
    }
    return s.size;
}

/* Where a list or object has been walked to. */
typedef struct nesting {
    size_t depth;
    bool quoted;
} nesting;

/* Past a quote or bracket: was it the last one? [ ] and { } differ in bit 5 only. */
static inline bool step_past(nesting *n, char c)
{
    if (c == '"')
        n->quoted = !n->quoted;
    else if (!n->quoted && (c | 0x20) == '{')
        n->depth++;
    else if (!n->quoted)
        return --n->depth == 0;
    return false;
}

#ifdef __SSE2__
/* Quotes and brackets of 16 bytes; false: there is a backslash among them. */
static inline bool brackets_of(const char *at, uint32_t *bits)
{
    __m128i text = _mm_loadu_si128((const __m128i *)at);
    __m128i low = _mm_or_si128(text, _mm_set1_epi8(0x20));
    __m128i any = _mm_or_si128(_mm_cmpeq_epi8(low, _mm_set1_epi8('{')),
                               _mm_cmpeq_epi8(low, _mm_set1_epi8('}')));
    any = _mm_or_si128(any, _mm_cmpeq_epi8(text, _mm_set1_epi8('"')));
    *bits = (uint32_t)_mm_movemask_epi8(any);
    return !_mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8('\\')));
}

/* Walk whole vectors without backslashes. True: the value ended, *at is past its end. */
static bool walk_vectors(kineto_string s, size_t *at, nesting *n)
{
    uint32_t bits;
    for (; *at + 16 <= s.size && brackets_of(s.data + *at, &bits); *at += 16)
        for (; bits; bits &= bits - 1) {
            size_t i = *at + (size_t)__builtin_ctz(bits);
            if (step_past(n, s.data[i])) {
                *at = i + 1;
                return true;
            }
        }
    return false;
}
#else
static bool walk_vectors(kineto_string s, size_t *at, nesting *n)
{
    (void)s, (void)at, (void)n;
    return false;
}
#endif

/* Of a list or an object. */
static size_t list_end(kineto_string s, size_t at)
{
    nesting n = {0, false};
    if (walk_vectors(s, &at, &n))
        return at;
    for (; at < s.size; at++) {
        char c = s.data[at];
        if (c == '\\' && n.quoted)
            at++;
        else if ((c == '"' || (c | 0x20) == '{' || (c | 0x20) == '}') && step_past(&n, c))
            return at + 1;
    }
    return s.size;
}

static bool ends_scalar(char c)
{
    return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Index past the value that begins at `at`. */
static size_t value_end(kineto_string s, size_t at)
{
    char first = at < s.size ? s.data[at] : '\0';
    if (first == '[' || first == '{')
        return list_end(s, at);
    if (first == '"')
        return string_end(s, at);
    while (at < s.size && !ends_scalar(s.data[at]))
        at++;
    return at;
}

/* ---- members of an object ------------------------------------------------------------------------- */

static inline bool is_first(const ka_keys *keys, char c)
{
    return c == keys->firsts[0] || c == keys->firsts[1] || c == keys->firsts[2] ||
           c == keys->firsts[3];
}

#ifdef __SSE2__
/* Which of 16 bytes are quotes followed by the first letter of a key? Reads 17 bytes. */
static inline uint32_t find_key_quotes(const char *at, const ka_keys *keys)
{
    __m128i quotes = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), _mm_set1_epi8('"'));
    __m128i next = _mm_loadu_si128((const __m128i *)(at + 1));
    __m128i some = _mm_or_si128(_mm_cmpeq_epi8(next, _mm_set1_epi8(keys->firsts[0])),
                                _mm_cmpeq_epi8(next, _mm_set1_epi8(keys->firsts[1])));
    __m128i others = _mm_or_si128(_mm_cmpeq_epi8(next, _mm_set1_epi8(keys->firsts[2])),
                                  _mm_cmpeq_epi8(next, _mm_set1_epi8(keys->firsts[3])));
    return (uint32_t)_mm_movemask_epi8(_mm_and_si128(quotes, _mm_or_si128(some, others)));
}

/* The first one from `at` on; the end: there is none. */
static size_t next_opening(kineto_string s, size_t at, const ka_keys *keys)
{
    uint32_t bits;
    for (; at + 17 <= s.size; at += 16)
        if ((bits = find_key_quotes(s.data + at, keys)) != 0)
            return at + (size_t)__builtin_ctz(bits);
    if (s.size >= 17 && at < s.size) { /* the rest, together with bytes that were scanned already */
        size_t last = s.size - 17;
        bits = find_key_quotes(s.data + last, keys) >> (at - last);
        return bits ? at + (size_t)__builtin_ctz(bits) : s.size;
    }
    while (at + 1 < s.size && !(s.data[at] == '"' && is_first(keys, s.data[at + 1])))
        at++;
    return at + 1 < s.size ? at : s.size;
}
#else
static size_t next_opening(kineto_string s, size_t at, const ka_keys *keys)
{
    const char *quote;
    for (; at + 1 < s.size && (quote = memchr(s.data + at, '"', s.size - at - 1)) != NULL; at++) {
        at = (size_t)(quote - s.data);
        if (is_first(keys, s.data[at + 1]))
            return at;
    }
    return s.size;
}
#endif

/* Does the text begin with the key and its closing quote? */
static inline bool is_key_at(const char *text, size_t left, kineto_string key)
{
    return key.size < left && text[key.size] == '"' &&
           text[key.size - 1] == key.data[key.size - 1] && memcmp(text, key.data, key.size) == 0;
}

/* Which key stands in the quotes that open at `quote`; their count: none. In a text the quotes of a
 * value are escaped: what has no backslash before it is the key itself. */
static uint32_t key_at(kineto_string object, size_t quote, const ka_keys *keys)
{
    const char *text = object.data + quote + 1;
    uint32_t k = 0;
    if (quote > 0 && text[-2] == '\\')
        return keys->count;
    while (k < keys->count && !is_key_at(text, object.size - quote - 1, keys->key[k]))
        k++;
    return k;
}

/* Where the value begins of the key that ends before `at`; 0: it is not a key. */
static size_t value_behind(kineto_string object, size_t at)
{
    at = skip_json_space(object, at);
    return at < object.size && object.data[at] == ':' ? skip_json_space(object, at + 1) : 0;
}

/* \uXXXX may stand for a letter of a key; no key has a letter with another escape. */
static bool may_escape_keys(kineto_string s)
{
    const char *at = s.data, *end = s.data + s.size;
    while (at < end && (at = memchr(at, '\\', (size_t)(end - at))) && at + 1 < end && at[1] != 'u')
        at += 2;
    return at && at + 1 < end;
}

/* Parses the members one by one, for texts in which an escape may stand for a letter of a key. */
static KB_COLD void walk_members(kineto_string object, const ka_keys *keys, kineto_string *values)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true;
    if (!kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        for (uint32_t k = 0; k < keys->count; k++)
            if (!values[k].size && kt_text_is(key, keys->key[k]))
                values[k] = value;
}

void ka_json_members(kineto_string object, const ka_keys *keys, kineto_string *values)
{
    uint32_t found = 0;
    KB_ASSERT(keys->count <= KA_MAX_KEYS);
    for (uint32_t k = 0; k < keys->count; k++)
        values[k] = (kineto_string){"", 0};
    if (object.size && may_escape_keys(object)) {
        walk_members(object, keys, values);
        return;
    }
    for (size_t at = 0;
         found < keys->count && (at = next_opening(object, at, keys)) < object.size;) {
        uint32_t k = key_at(object, at, keys);
        bool is_new = k < keys->count && !values[k].size;
        size_t value = is_new ? value_behind(object, at + keys->key[k].size + 2) : 0;
        size_t end = value ? value_end(object, value) : 0;
        if (value)
            values[k] = (kineto_string){object.data + value, end - value};
        found += value != 0;
        at = KB_MAX(end, at + 1);
    }
}

/* A set of one key. All four first letters are the same, which the scan allows. */
static ka_keys keys_of(const char *key)
{
    return (ka_keys){1, {key[0], key[0], key[0], key[0]}, {kb_string(key)}};
}

kineto_string ka_json_member(kineto_string object, const char *key)
{
    ka_keys keys = keys_of(key);
    kineto_string value;
    ka_json_members(object, &keys, &value);
    return value;
}

/* ---- arguments of a row --------------------------------------------------------------------------- */

/* Are the arguments of the row still JSON text? */
static bool is_verbatim(const kineto_trace *t, kineto_row row)
{
    return kt_args_form_of(kt_block_at(t, row / KT_BLOCK_ROWS), row % KT_BLOCK_ROWS) ==
           KT_ARGS_JSON;
}

/* Receives the first argument with key number k. */
typedef void take_arg(const kineto_arg *arg, uint32_t k, void *context);

/* Calls `take` for the first argument of each wanted key, until all keys are found. */
static void walk_packed(const kineto_trace *t, kineto_row row, const ka_keys *keys, take_arg *take,
                        void *context)
{
    kineto_args_iterator it;
    kineto_arg arg;
    uint32_t found = 0, all = (1u << keys->count) - 1;
    kineto_args_begin(t, row, &it);
    while (found != all && kineto_args_next(&it, &arg))
        for (uint32_t k = 0; k < keys->count; k++)
            if (!(found >> k & 1) && kb_string_equal(arg.key, keys->key[k])) {
                found |= 1u << k;
                take(&arg, k, context);
            }
}

/* A JSON value as text: strings without quotes and escapes, all else as it is spelled. */
static kineto_string unescape_value(kineto_string raw)
{
    bool escaped = kt_json_is_string(raw) && memchr(raw.data, '\\', raw.size);
    return kt_value_text(raw, escaped ? kt_text_room(raw.size) : NULL);
}

/* Stores the argument as text in context[k]; numbers are formatted as JSON has them. */
static void store_text(const kineto_arg *arg, uint32_t k, void *context)
{
    char number[32], *end = number;
    kineto_string text = arg->text;
    if (arg->type <= KINETO_ARG_DOUBLE) {
        end = arg->type == KINETO_ARG_INT    ? kb_json_format_int(number, arg->i)
              : arg->type == KINETO_ARG_UINT ? kb_json_format_uint(number, arg->u)
                                             : kb_json_format_double(number, arg->d);
        text = (kineto_string){kt_text_room(sizeof number), (size_t)(end - number)};
        if (!text.data)
            return;
        memcpy((char *)text.data, number, text.size);
    }
    ((kineto_string *)context)[k] = text;
}

void ka_arg_texts(const kineto_trace *t, kineto_row row, const ka_keys *keys, kineto_string *values)
{
    if (!is_verbatim(t, row)) {
        for (uint32_t k = 0; k < keys->count; k++)
            values[k] = (kineto_string){"", 0};
        walk_packed(t, row, keys, store_text, values);
        return;
    }
    ka_json_members(kt_args_text(t, row), keys, values);
    for (uint32_t k = 0; k < keys->count; k++)
        values[k] = unescape_value(values[k]);
}

kineto_string ka_arg_text(const kineto_trace *t, kineto_row row, const char *key)
{
    ka_keys keys = keys_of(key);
    kineto_string value;
    ka_arg_texts(t, row, &keys, &value);
    return value;
}

kineto_string ka_json_text(kineto_string object, const char *key)
{
    return unescape_value(ka_json_member(object, key));
}

kineto_string ka_sizes_text(kineto_string raw)
{
    char *room = raw.size ? kt_text_room(2 * raw.size) : NULL;
    return (kineto_string){room ? room : "", room ? kt_sizes_text(raw, room) : 0};
}

kineto_string ka_input_sizes(const kineto_trace *t, kineto_row row)
{
    kineto_string raw[2];
    static const ka_keys keys = {
        2, {'I', 'I', 'I', 'I'}, {KA_KEY("Input Dims"), KA_KEY("Input dims")}};
    ka_arg_texts(t, row, &keys, raw);
    return ka_sizes_text(raw[0].size ? raw[0] : raw[1]);
}

/* ---- numbers -------------------------------------------------------------------------------------- */

/* The number of a text; false for text that is no number, and for NaN and infinities. */
static bool finite_number(kineto_string text, double *out)
{
    return kt_value_number(text, out) && *out - *out == 0;
}

typedef struct numbers {
    double *out;
    uint32_t known; /* bits of keys */
} numbers;

/* Stores a finite number and its bit in `known`. */
static void store_number(const kineto_arg *arg, uint32_t k, void *context)
{
    numbers *n = context;
    double value = arg->type == KINETO_ARG_INT    ? (double)arg->i
                   : arg->type == KINETO_ARG_UINT ? (double)arg->u
                                                  : arg->d;
    bool is = arg->type == KINETO_ARG_STRING ? finite_number(arg->text, &value)
                                             : arg->type <= KINETO_ARG_DOUBLE && value - value == 0;
    n->out[k] = value;
    n->known |= (uint32_t)is << k;
}

uint32_t ka_arg_numbers(const kineto_trace *t, kineto_row row, const ka_keys *keys, double *out)
{
    numbers n = {out, 0};
    kineto_string texts[KA_MAX_KEYS];
    if (is_verbatim(t, row)) {
        ka_json_members(kt_args_text(t, row), keys, texts);
        for (uint32_t k = 0; k < keys->count; k++)
            n.known |= (uint32_t)finite_number(texts[k], &out[k]) << k;
    } else {
        walk_packed(t, row, keys, store_number, &n);
    }
    return n.known;
}

typedef struct whole_numbers {
    int64_t *out;
    uint32_t known;
} whole_numbers;

/* Stores a whole number and its bit in `known`; unsigned values saturate at INT64_MAX. */
static void store_int(const kineto_arg *arg, uint32_t k, void *context)
{
    whole_numbers *n = context;
    int64_t value =
        arg->type == KINETO_ARG_UINT ? (int64_t)KB_MIN(arg->u, (uint64_t)INT64_MAX) : arg->i;
    bool is = arg->type == KINETO_ARG_STRING
                  ? kt_value_whole(arg->text, &value)
                  : arg->type == KINETO_ARG_INT || arg->type == KINETO_ARG_UINT;
    if (is)
        n->out[k] = value;
    n->known |= (uint32_t)is << k;
}

uint32_t ka_arg_ints(const kineto_trace *t, kineto_row row, const ka_keys *keys, int64_t *out)
{
    whole_numbers n = {out, 0};
    kineto_string texts[KA_MAX_KEYS];
    if (is_verbatim(t, row)) {
        ka_json_members(kt_args_text(t, row), keys, texts);
        for (uint32_t k = 0; k < keys->count; k++)
            n.known |= (uint32_t)kt_value_whole(texts[k], &out[k]) << k;
    } else {
        walk_packed(t, row, keys, store_int, &n);
    }
    return n.known;
}

bool ka_arg_int(const kineto_trace *t, kineto_row row, const char *key, int64_t *out)
{
    ka_keys keys = keys_of(key);
    return ka_arg_ints(t, row, &keys, out);
}

/* ---- bytes of tensors ------------------------------------------------------------------------------ */

/* Product of two sizes; 0 if one is negative, INT64_MAX on overflow. */
static int64_t saturating_product(int64_t a, int64_t b)
{
    int64_t product;
    if (a < 0 || b < 0)
        return 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Of a list of sizes, or of all tensors of a list of such lists: an empty list is a scalar's. */
static int64_t count_elements(kineto_string list)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    int64_t sum = 0, product;
    if (!kt_value_is_list(kt_item_at(list, 0)))
        return kt_sizes_product(list, &product) ? product : 0;
    while (kt_items_next(&items, &item))
        sum = ka_add_ns(sum, count_elements(item));
    return sum;
}

const ka_keys ka_dims_and_types = {
    2, {'I', 'I', 'I', 'I'}, {KA_KEY("Input Dims"), KA_KEY("Input type")}};

int64_t ka_input_bytes(const kineto_trace *t, kineto_row row, bool with_scalars)
{
    kineto_string texts[2], list, type;
    ka_arg_texts(t, row, &ka_dims_and_types, texts);
    kt_items lists = kt_items_of(texts[0]), types = kt_items_of(texts[1]);
    int64_t sum = 0;
    while (kt_items_next(&lists, &list) && kt_items_next(&types, &type)) {
        int64_t bytes = ka_dtype_of(type).bytes;
        if (bytes && (with_scalars || kt_item_at(list, 0).size))
            sum = ka_add_ns(sum, saturating_product(count_elements(list), bytes));
    }
    return sum;
}

int64_t ka_message_bytes(const kineto_trace *t, kineto_row row)
{
    int64_t count;
    if (!ka_arg_int(t, row, "In msg nelems", &count))
        return -1;
    return saturating_product(count, ka_dtype_of(ka_arg_text(t, row, "dtype")).bytes);
}

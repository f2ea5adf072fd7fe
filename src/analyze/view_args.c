/* Single arguments of many rows: looked for in the text a row came with, since walking over all of
 * them costs more. */
#include "analyze/view.h"

#include "trace/text/json_text.h"

/* ---- a member of an object ------------------------------------------------------------------------ */

static size_t skip_space(kineto_string s, size_t at)
{
    while (at < s.size &&
           (s.data[at] == ' ' || s.data[at] == '\n' || s.data[at] == '\t' || s.data[at] == '\r'))
        at++;
    return at;
}

/* Behind the quote that ends the string at `at`: one with an even number of backslashes before it.
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

static size_t value_end(kineto_string s, size_t at)
{
    size_t depth = 0;
    while (at < s.size) {
        char c = s.data[at];
        if (c == '"') {
            at = string_end(s, at);
            if (!depth)
                return at;
            continue;
        }
        if (!depth && (c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n'))
            return at;
        depth += c == '[' || c == '{';
        at++;
        if ((c == ']' || c == '}') && depth && --depth == 0)
            return at;
    }
    return at;
}

/* Which character of a key is the rarest in arguments: it is the one to look for. */
static size_t rarest(const char *key, size_t size)
{
    static const char rare[] = "kygbwxzv%.";
    for (size_t i = 0; i < size; i++)
        if (key[i] >= 'A' && key[i] <= 'Z')
            return i;
    for (const char *c = rare; *c; c++) {
        const char *at = memchr(key, *c, size);
        if (at)
            return (size_t)(at - key);
    }
    return 0;
}

/* Where the value of the key at `start` begins; 0: this is no key. In a text the quotes of a value
 * are escaped: what has none before it is the key itself. */
static size_t value_of_key(kineto_string object, size_t start, const char *key, size_t size)
{
    if (start < 1 || start + size >= object.size || object.data[start - 1] != '"' ||
        object.data[start + size] != '"' || memcmp(object.data + start, key, size) != 0 ||
        (start > 1 && object.data[start - 2] == '\\'))
        return 0;
    size_t at = skip_space(object, start + size + 1);
    return at < object.size && object.data[at] == ':' ? skip_space(object, at + 1) : 0;
}

kineto_string ka_json_member(kineto_string object, const char *key)
{
    size_t size = strlen(key), rare = rarest(key, size), at = 0;
    for (const char *hit; at < object.size &&
                          (hit = memchr(object.data + at, key[rare], object.size - at)) != NULL;) {
        size_t place = (size_t)(hit - object.data);
        size_t value = place >= rare ? value_of_key(object, place - rare, key, size) : 0;
        if (value)
            return (kineto_string){object.data + value, value_end(object, value) - value};
        at = place + 1;
    }
    return (kineto_string){"", 0};
}

static bool is_verbatim(const kineto_trace *t, kineto_row row)
{
    return kt_args_form_of(kt_block_at(t, row / KT_BLOCK_ROWS), row % KT_BLOCK_ROWS) ==
           KT_ARGS_JSON;
}

kineto_string ka_arg_text(const kineto_trace *t, kineto_row row, const char *key)
{
    kineto_arg arg;
    if (is_verbatim(t, row))
        return ka_json_member(kt_args_text(t, row), key);
    if (kineto_args_find(t, row, key, &arg) && arg.type >= KINETO_ARG_STRING)
        return arg.text;
    return (kineto_string){"", 0};
}

static bool number_of(kineto_string text, double *out)
{
    char copy[48], *end;
    if (text.size && text.data[0] == '"')
        text = kt_json_inside(text);
    if (!text.size || text.size >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *out = strtod(copy, &end);
    return *end == '\0' && *out - *out == 0;
}

bool ka_arg_number(const kineto_trace *t, kineto_row row, const char *key, double *out)
{
    kineto_arg arg;
    if (is_verbatim(t, row))
        return number_of(ka_json_member(kt_args_text(t, row), key), out);
    if (!kineto_args_find(t, row, key, &arg))
        return false;
    if (arg.type == KINETO_ARG_STRING)
        return number_of(arg.text, out);
    *out = arg.type == KINETO_ARG_INT    ? (double)arg.i
           : arg.type == KINETO_ARG_UINT ? (double)arg.u
                                         : arg.d;
    return arg.type <= KINETO_ARG_DOUBLE && *out - *out == 0;
}

bool ka_arg_int(const kineto_trace *t, kineto_row row, const char *key, int64_t *out)
{
    kineto_arg arg;
    if (is_verbatim(t, row)) {
        kineto_string text = ka_json_member(kt_args_text(t, row), key);
        if (text.size > 2 && text.data[0] == '"')
            text = kt_json_inside(text);
        return kt_json_int(text, out);
    }
    if (!kineto_args_find(t, row, key, &arg))
        return false;
    if (arg.type == KINETO_ARG_STRING)
        return kt_json_int(arg.text, out);
    *out = arg.type == KINETO_ARG_UINT ? (int64_t)KB_MIN(arg.u, (uint64_t)INT64_MAX) : arg.i;
    return arg.type == KINETO_ARG_INT || arg.type == KINETO_ARG_UINT;
}

/* ---- bytes of tensors ------------------------------------------------------------------------------ */

static int64_t type_bytes(kineto_string type)
{
    static const struct {
        const char *name;
        uint8_t bytes;
    } types[] = {{"float", 4},
                 {"double", 8},
                 {"int", 4},
                 {"long int", 8},
                 {"long", 8},
                 {"short", 2},
                 {"short int", 2},
                 {"c10::Half", 2},
                 {"half", 2},
                 {"c10::BFloat16", 2},
                 {"bfloat16", 2},
                 {"bool", 1},
                 {"unsigned char", 1},
                 {"signed char", 1},
                 {"char", 1},
                 {"byte", 1},
                 {"c10::complex<float>", 8},
                 {"c10::complex<double>", 16},
                 {"Float", 4},
                 {"Double", 8},
                 {"Int", 4},
                 {"Long", 8},
                 {"Half", 2},
                 {"BFloat16", 2},
                 {"Byte", 1},
                 {"Char", 1},
                 {"Bool", 1},
                 {"Short", 2},
                 {"Float8_e4m3fn", 1},
                 {"c10::Float8_e4m3fn", 1},
                 {"Float8_e5m2", 1},
                 {"c10::Float8_e5m2", 1}};
    for (size_t i = 0; i < KB_COUNT(types); i++)
        if (kb_string_equal(type, kb_string(types[i].name)))
            return types[i].bytes;
    return 0;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    if (a < 0 || b < 0)
        return 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Elements of a list of sizes, or of all tensors of a list of such lists: those of an empty list
 * are one, a scalar's. */
static int64_t elements(kineto_string list)
{
    kt_scan scan = kt_scan_of(list);
    kineto_string item;
    bool first = true, nested = false;
    int64_t product = 1, sum = 0, size;
    if (!kt_scan_open(&scan, '['))
        return 0;
    while (kt_scan_more(&scan, &first, '[') && kt_scan_value(&scan, &item))
        if (item.size && item.data[0] == '[') {
            nested = true;
            sum = ka_add_ns(sum, elements(item));
        } else if (kt_json_int(item, &size)) {
            product = times(product, size);
        }
    return nested ? sum : product;
}

int64_t ka_input_bytes(const kineto_trace *t, kineto_row row, bool as_plugin)
{
    kineto_string dims = ka_arg_text(t, row, "Input Dims"),
                  types = ka_arg_text(t, row, "Input type"), list, type;
    kt_scan a = kt_scan_of(dims), b = kt_scan_of(types);
    bool a_first = true, b_first = true;
    int64_t sum = 0;
    if (!dims.size || !types.size || !kt_scan_open(&a, '[') || !kt_scan_open(&b, '['))
        return 0;
    while (kt_scan_more(&a, &a_first, '[') && kt_scan_more(&b, &b_first, '[') &&
           kt_scan_value(&a, &list) && kt_scan_value(&b, &type)) {
        int64_t bytes = kt_json_is_string(type) ? type_bytes(kt_json_inside(type)) : 0;
        if (bytes && (as_plugin || list.size > 2))
            sum = ka_add_ns(sum, times(elements(list), bytes));
    }
    return sum;
}

int64_t ka_message_bytes(const kineto_trace *t, kineto_row row)
{
    int64_t count;
    kineto_string type;
    if (!ka_arg_int(t, row, "In msg nelems", &count))
        return -1;
    type = ka_arg_text(t, row, "dtype");
    if (type.size > 2 && type.data[0] == '"')
        type = kt_json_inside(type);
    return times(count, type_bytes(type));
}

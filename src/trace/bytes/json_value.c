/* Tolerant access to JSON values (see json_value.h), on top of the strict parser of
 * json_text.h. Nothing is allocated; results are spans of the argument or of the caller's
 * buffer. */
#include "trace/bytes/json_value.h"

/* ---- lists ----------------------------------------------------------------------------------- */

kt_items kt_items_of(kineto_string list)
{
    kt_items items = {kt_scan_of(list), true, list.size > 0};
    items.is_list = items.is_list && kt_scan_open(&items.scan, '[');
    return items;
}

bool kt_items_next(kt_items *items, kineto_string *item)
{
    return items->is_list && kt_scan_more(&items->scan, &items->first, '[') &&
           kt_scan_value(&items->scan, item);
}

kineto_string kt_item_at(kineto_string list, uint32_t index)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    while (kt_items_next(&items, &item))
        if (index-- == 0)
            return item;
    return (kineto_string){"", 0};
}

/* ---- members --------------------------------------------------------------------------------- */

kineto_string kt_member_of(kineto_string object, const char *wanted)
{
    kt_scan scan = kt_scan_of(object);
    bool first = true;
    kineto_string key, value, found = {"", 0}, name = kb_string(wanted);
    if (!object.size || !kt_scan_open(&scan, '{'))
        return found;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        if (kt_text_is(key, name))
            found = value;
    return found;
}

bool kt_may_have_member(kineto_string object, const char *key)
{
    return object.size &&
           (kb_string_contains(object, key) || memchr(object.data, '\\', object.size));
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Fast path of kt_value_number: a number without exponent and with at most 15 digits. Both
 * sides of the division are exact then, and the result equals strtod's. False: not such a
 * number. */
static bool parse_short_number(kineto_string text, double *out)
{
    static const double tens[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    uint64_t digits = 0;
    uint32_t count = 0, places = 0;
    bool negative = text.data[0] == '-', point = false;
    for (size_t i = negative; i < text.size; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (text.data[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (digit > 9 || count == 15)
            return false;
        digits = digits * 10 + digit;
        places += point;
        count++;
    }
    *out = negative ? -((double)digits / tens[places]) : (double)digits / tens[places];
    return count > 0;
}

bool kt_value_number(kineto_string raw, double *value)
{
    char copy[64], unescaped[64], *end;
    kineto_string text = kt_value_text(raw, raw.size <= sizeof unescaped ? unescaped : NULL);
    if (!text.size || text.size >= sizeof copy || !memchr("-+.0123456789ni", text.data[0], 15))
        return false;
    if (parse_short_number(text, value))
        return true;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *value = kb_strtod(copy, &end);
    return *end == '\0';
}

bool kt_value_whole(kineto_string raw, int64_t *value)
{
    char unescaped[64];
    return kt_json_int(kt_value_text(raw, raw.size <= sizeof unescaped ? unescaped : NULL), value);
}

/* ---- texts ----------------------------------------------------------------------------------- */

kineto_string kt_value_text(kineto_string raw, char *room)
{
    uint64_t replaced = 0;
    if (raw.size < 2 || !kt_json_is_string(raw))
        return raw;
    kineto_string inside = kt_json_inside(raw);
    if (!room || !inside.size || !memchr(inside.data, '\\', inside.size))
        return inside;
    char *end = kt_json_unescape(room, inside, &replaced);
    return (kineto_string){room, (size_t)(end - room)};
}

/* ---- sizes ----------------------------------------------------------------------------------- */

bool kt_sizes_product(kineto_string list, int64_t *product)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    bool is_empty = false; /* however large the others are */
    *product = 1;
    while (kt_items_next(&items, &item)) {
        int64_t size;
        if (!kt_value_whole(item, &size) || size < 0)
            return false;
        is_empty |= size == 0;
        if (__builtin_mul_overflow(*product, size, product))
            *product = INT64_MAX;
    }
    *product = is_empty ? 0 : *product;
    return kt_items_are_over(&items);
}

size_t kt_sizes_text(kineto_string raw, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < raw.size; i++) {
        char c = raw.data[i];
        if (c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '"')
            continue;
        out[used++] = c;
        if (c == ',')
            out[used++] = ' ';
    }
    return used;
}

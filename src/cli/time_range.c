/* Durations such as "1.5ms", and ranges of times and numbers. No floating point takes part in times. */
#include "cli/time_range.h"
#include "trace/bytes/json_text.h"

/* The text [from, to). */
static kineto_string make_time_text(const char *from, const char *to)
{
    return (kineto_string){from, (size_t)(to - from)};
}

/* True only if something is before the suffix. */
static bool has_unit(kineto_string s, const char *suffix)
{
    size_t size = strlen(suffix);
    return s.size > size && memcmp(s.data + s.size - size, suffix, size) == 0;
}

/* "1.5ms" in nanoseconds, exactly: no floating point is involved. Without a unit: nanoseconds.
 * Only digits may begin it. */
bool kc_parse_duration(kineto_string text, int64_t *ns)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}};
    int shift = 0;
    for (size_t i = 0; i < KB_COUNT(units); i++) {
        if (has_unit(text, units[i].unit)) {
            shift = units[i].shift;
            text.size -= strlen(units[i].unit);
            break;
        }
    }
    return text.size && kb_is_digit(text.data[0]) && kt_json_scaled(text, shift, ns);
}

/* A share of the window, to a millionth of a percent. */
static bool parse_percent(kineto_string text, int64_t start, int64_t end, int64_t *ns)
{
    int64_t share, length;
    if (!text.size || !kt_json_scaled(text, 6, &share) || share < 0 || share > 100000000 ||
        __builtin_sub_overflow(end, start, &length))
        return false;
    *ns = start + (int64_t)((long double)length * (long double)share / 1e8L);
    return true;
}

/* One end of --time in nanoseconds; `none` if the text is empty, also for 0 % and 100 %: these
 * do not cut off what reaches beyond the window. */
static bool parse_time_edge(kineto_string text, int64_t start, int64_t end, int64_t none,
                            int64_t *ns)
{
    *ns = none;
    if (!text.size)
        return true;
    if (text.data[text.size - 1] == '%') {
        kineto_string number = {text.data, text.size - 1};
        bool whole = kb_string_equal(number, kb_string(none == INT64_MAX ? "100" : "0"));
        return whole || parse_percent(number, start, end, ns);
    }
    kineto_string rest = {text.data + 1, text.size - 1};
    int64_t distance;
    if (text.data[0] == '+')
        return kc_parse_duration(rest, &distance) && !__builtin_add_overflow(start, distance, ns);
    if (text.data[0] == '-')
        return kc_parse_duration(rest, &distance) && !__builtin_sub_overflow(end, distance, ns);
    return kc_parse_duration(text, ns);
}

bool kc_parse_time_range(const char *text, const kineto_trace *trace, int64_t *from_ns, int64_t *to_ns)
{
    int64_t start, end;
    const char *colon = strchr(text, ':'), *last = text + strlen(text);
    kineto_trace_window(trace, &start, &end);
    return colon && !strchr(colon + 1, ':') &&
           parse_time_edge(make_time_text(text, colon), start, end, INT64_MIN, from_ns) &&
           parse_time_edge(make_time_text(colon + 1, last), start, end, INT64_MAX, to_ns);
}

bool kc_parse_number_range(const char *text, uint64_t *first, uint64_t *last)
{
    const char *dots = strstr(text, ".."), *end = text + strlen(text);
    kineto_string one = make_time_text(text, dots ? dots : end);
    kineto_string other = dots ? make_time_text(dots + 2, end) : one;
    return kt_json_uint(one, first) && kt_json_uint(other, last) && *last >= *first;
}

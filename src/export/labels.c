/* Names for processes, tracks and types that may have none, the parts of names of Python functions,
 * and the units in keys of counters. */
#include "export/export.h"

/* Appends as many whole characters as fit. */
static void append_label_text(ke_label *l, kineto_string s)
{
    s = kb_utf8_cut(s, sizeof l->text - l->size);
    if (s.size > 0)
        memcpy(l->text + l->size, s.data, s.size);
    KB_ASSERT(l->size + s.size <= sizeof l->text);
    l->size += s.size;
}

/* Leaves room for the number after the name. */
static void append_label_name(ke_label *l, kineto_string name)
{
    append_label_text(l, kb_utf8_cut(name, sizeof l->text - 32));
}

/* "name (id)", or the name alone if the id is in it. */
static void append_name_with_id(ke_label *l, kineto_string name, int64_t id)
{
    char number[32];
    append_label_name(l, name);
    snprintf(number, sizeof number, "%lld", (long long)id);
    if (kb_string_contains(name, number))
        return;
    snprintf(number, sizeof number, " (%lld)", (long long)id);
    append_label_text(l, kb_string(number));
}

static void append_type_with_id(ke_label *l, const char *what, int64_t id)
{
    l->size += (size_t)snprintf(l->text, sizeof l->text, "%s %lld", what, (long long)id);
}

ke_label ke_process_label(const kineto_trace *trace, uint32_t process)
{
    ke_label l = {.size = 0};
    kineto_process p;
    kineto_trace_process(trace, process, &p);
    kineto_string text = kt_process_text_of(trace, process);
    if (text.data)
        append_label_name(&l, text);
    else if (p.is_device && p.label.size)
        append_name_with_id(&l, p.label, p.pid);
    else if (p.is_device)
        append_type_with_id(&l, "device", p.pid);
    else if (p.name.size)
        append_name_with_id(&l, p.name, p.pid);
    else
        append_type_with_id(&l, "process", p.pid);
    return l;
}

ke_label ke_track_label(const kineto_trace *trace, uint32_t track)
{
    ke_label l = {.size = 0};
    kineto_track t;
    kineto_trace_track(trace, track, &t);
    kineto_string text = kt_track_text_of(trace, track);
    if (text.data)
        append_label_name(&l, text);
    else if (t.name.size)
        append_name_with_id(&l, t.name, t.id);
    else if (t.type == KINETO_TRACK_COUNTER || t.type == KINETO_TRACK_ASYNC)
        append_label_text(&l,
                          kb_string(t.type == KINETO_TRACK_ASYNC ? "asynchronous" : "counters"));
    else
        append_type_with_id(&l, t.type == KINETO_TRACK_OTHER ? "track" : ke_track_type_name(t.type),
                            t.id);
    return l;
}

const char *ke_track_type_name(uint32_t type)
{
    static const char *const names[] = {"thread", "stream", "counter", "async", "other"};
    return type < KB_COUNT(names) ? names[type] : "other";
}

const char *ke_form_name(uint32_t form)
{
    static const char *const names[] = {"slice", "async", "instant", "counter"};
    return form < KB_COUNT(names) ? names[form] : "unknown";
}

const char *ke_flow_type_name(uint32_t type)
{
    static const char *const names[] = {"unknown", "fwdbwd", "ac2g", "user"};
    return type < KB_COUNT(names) ? names[type] : "other";
}

/* Finds "(digits): " in a name; SIZE_MAX: there is none. *after: the offset of the text after
 * it. */
static size_t find_python_line(kineto_string name, uint32_t *line, size_t *after)
{
    for (size_t at = 1; at + 4 <= name.size; at++) {
        uint64_t n = 0;
        size_t end = at + 1;
        if (name.data[at] != '(')
            continue;
        for (; end < name.size && kb_is_digit(name.data[end]); end++)
            n = KB_MIN(n * 10 + (uint64_t)(name.data[end] - '0'), (uint64_t)UINT32_MAX);
        if (end == at + 1 || end + 3 > name.size || memcmp(name.data + end, "): ", 3) != 0)
            continue;
        *line = (uint32_t)n;
        *after = end + 3;
        return at;
    }
    return SIZE_MAX;
}

bool ke_parse_python_name(kineto_string name, kineto_string *file, uint32_t *line,
                          kineto_string *function)
{
    size_t after, at = find_python_line(name, line, &after);
    if (at == SIZE_MAX || after == name.size)
        return false;
    *file = (kineto_string){name.data, at};
    *function = (kineto_string){name.data + after, name.size - after};
    return true;
}

/* ---- units of counters ----------------------------------------------------------------------- */

/* Units stand in brackets at the end of a series' key: "power [W]". */
void ke_split_unit(kineto_string key, kineto_string *series, kineto_string *unit)
{
    size_t size = key.size, open = size;
    *series = key;
    *unit = (kineto_string){"", 0};
    if (size < 3 || key.data[size - 1] != ']')
        return;
    while (open > 0 && key.data[open - 1] != '[')
        open--;
    if (open == 0 || open + 1 == size)
        return;
    *unit = (kineto_string){key.data + open, size - open - 1};
    series->size = open - 1;
    while (series->size > 0 && key.data[series->size - 1] == ' ')
        series->size--;
}

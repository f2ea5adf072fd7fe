/* What differs between two runs besides their times: device, number of ranks, versions, the shape of a batch, and
 * what was recorded of threads.
 * A comparison of different conditions says so first. */
#include "analyze/diff/diff.h"

#define MAX_TEXT 200u

/* A short text with its end. */
typedef struct line {
    char s[MAX_TEXT + 1];
} line;

/* Cut at MAX_TEXT bytes, never inside of a UTF-8 sequence. */
static void append_to_line(line *to, kineto_string text)
{
    size_t used = strlen(to->s);
    kineto_string rest = {text.data, KB_MIN(text.size, MAX_TEXT - used)};
    if (rest.size)
        memcpy(to->s + used, rest.data, kb_utf8_valid_prefix(rest.data, rest.size));
}

/* Names of devices, each once and in the order of the trace, and how many there are. */
static line devices_of(const kineto_trace *t)
{
    line devices = {""};
    uint32_t count = 0;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        kineto_trace_process(t, i, &p);
        kineto_string name = ka_json_text(p.properties_json, "name");
        if (!kt_is_described_device(&p) || !name.size)
            continue;
        count++;
        if (count > 1 && memmem(devices.s, strlen(devices.s), name.data, name.size))
            continue;
        append_to_line(&devices, kb_string(devices.s[0] ? ", " : ""));
        append_to_line(&devices, name);
    }
    if (count > 1) {
        char text[24];
        (void)snprintf(text, sizeof text, " (%u)", count);
        append_to_line(&devices, kb_string(text));
    }
    return devices;
}

/* The value of a member of the trace's header; "": it has none. */
static line metadata_of(const kineto_trace *t, const char *key)
{
    line found = {""};
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string name, value;
        kineto_trace_metadata(t, i, &name, &value);
        if (kb_string_equal(name, kb_string(key)))
            append_to_line(&found, kt_value_text(value, kt_text_room(value.size)));
    }
    return found;
}

/* World size by the header; "": not given. */
static line world_of(const kineto_trace *t)
{
    line found = {""};
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string name, value;
        kineto_trace_metadata(t, i, &name, &value);
        if (kb_string_equal(name, kb_string("distributedInfo")) && !found.s[0])
            append_to_line(&found, ka_json_text(value, "world_size"));
    }
    return found;
}

/* Sizes of the batch that an operator applies weights to; empty: it does not, or has no sizes. */
static kineto_string find_batch_sizes(const ka_dataset *s, const ka_slice *slice)
{
    static const struct {
        const char *op;
        uint32_t input; /* which one is the batch */
    } ops[] = {{"aten::conv2d", 0}, {"aten::conv1d", 0},      {"aten::conv3d", 0},
               {"aten::linear", 0}, {"aten::convolution", 0}, {"aten::embedding", 1},
               {"aten::addmm", 1},  {"aten::mm", 0}};
    for (size_t k = 0; k < KB_COUNT(ops); k++)
        if (kb_string_equal(ka_name(s, slice->name), kb_string(ops[k].op)))
            return kt_item_at(ka_input_sizes(s->trace, slice->row), ops[k].input);
    return kb_string("");
}

/* The batch of the operator that comes first in time. Slices are sorted by thread, and the thread of the backward
 * pass may come before that of the forward pass. */
static line batch_of(const ka_dataset *s)
{
    line found = {""};
    const ka_slice *first = NULL;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        if (slice->kind != KINETO_KIND_CPU_OP || (s->step_count && slice->step < 0) ||
            (first && slice->start_ns >= first->start_ns))
            continue;
        kineto_string sizes = find_batch_sizes(s, slice);
        if (!sizes.size)
            continue;
        first = slice;
        found.s[0] = '\0';
        append_to_line(&found, sizes);
    }
    return found;
}

/* A row, if the two sides differ. */
static void put_condition(ka_table *t, const char *what, line before, line after)
{
    if (strcmp(before.s, after.s) == 0)
        return;
    ka_put_text(t, kb_string(what));
    ka_put_text(t, kb_string(before.s[0] ? before.s : "not given"));
    ka_put_text(t, kb_string(after.s[0] ? after.s : "not given"));
}

/* Members of the header that name versions of software. */
static bool is_version(kineto_string key)
{
    return kb_string_contains(key, "version") && !kb_string_equal(key, kb_string("schemaVersion"));
}

/* Versions that either trace gives: those of the second only where the first has none. */
static void put_versions(ka_table *t, const kineto_trace *a, const kineto_trace *b, bool of_b)
{
    const kineto_trace *from = of_b ? b : a;
    for (uint32_t i = 0; i < kineto_trace_metadata_count(from); i++) {
        kineto_string name, value;
        char key[64];
        kineto_trace_metadata(from, i, &name, &value);
        if (!is_version(name) || name.size >= sizeof key)
            continue;
        memcpy(key, name.data, name.size);
        key[name.size] = '\0';
        line before = metadata_of(a, key), after = metadata_of(b, key);
        if (!of_b || !before.s[0])
            put_condition(t, key, before, after);
    }
}

/* What was recorded of threads; nothing if neither trace has threads. */
static line recorded_of(const ka_side *side, ka_threads_family family)
{
    line text = {""};
    if (side->known_families)
        append_to_line(&text, kb_string(side->known_families >> family & 1 ? "recorded" : "not recorded"));
    return text;
}

/* Of what one trace does not have, the differences are not known. */
static void put_recorded(ka_diff *d, ka_table *t)
{
    static const struct {
        const char *what;
        ka_threads_family family;
    } parts[] = {{"CPU samples", KA_THREADS_FUNCTION}, {"blocking calls", KA_THREADS_CALL}};
    for (size_t i = 0; i < KB_COUNT(parts); i++)
        put_condition(t, parts[i].what, recorded_of(&d->before, parts[i].family),
                      recorded_of(&d->after, parts[i].family));
}

/* Rows are only for conditions that differ; versions of both traces are compared once. */
void ka_diff_put_conditions(ka_diff *d)
{
    const ka_dataset *before = &d->before.m.dataset, *after = &d->after.m.dataset;
    ka_table *t = &d->facts->tables[KA_TABLE_diff_conditions];
    put_condition(t, "device", devices_of(before->trace), devices_of(after->trace));
    put_condition(t, "world size", world_of(before->trace), world_of(after->trace));
    put_versions(t, before->trace, after->trace, false);
    put_versions(t, before->trace, after->trace, true);
    put_condition(t, "batch shape", batch_of(before), batch_of(after));
    put_recorded(d, t);
    if (!ka_table_rows(t))
        ka_note(t, "device, world size, versions and batch shape are the same");
}

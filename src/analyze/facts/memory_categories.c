/* Curves of memory by what it is for, from what PyTorch's export_memory_timeline writes as raw: a
 * list of [time in ns, what happened, bytes, category]. What was there before has the time -1. */
#include "analyze/facts/analyses.h"

#include "trace/bytes/input.h"
#include "trace/bytes/json_text.h"

#include <ckineto/summary.h>

/* One entry of the list. `order` is its place in the file: changes of one moment stay in it. */
typedef struct change {
    int64_t ns, bytes;
    uint32_t category, order;
} change;

typedef KB_VEC(change) change_list;

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads [time, action, bytes, category]. The action is not needed: bytes are signed. An
 * unknown category counts as KINETO_MEMORY_UNKNOWN. False: the entry is malformed. */
static bool read_change(kt_scan *scan, change *c)
{
    int64_t numbers[4] = {0};
    kineto_string raw;
    bool first = true;
    size_t count = 0;
    if (!kt_scan_open(scan, '['))
        return false;
    for (; kt_scan_more(scan, &first, '['); count++)
        if (count >= KB_COUNT(numbers) || !kt_scan_value(scan, &raw) ||
            !kt_json_int(raw, &numbers[count]))
            return false;
    c->ns = numbers[0];
    c->bytes = numbers[2];
    c->category = numbers[3] >= 0 && numbers[3] < KINETO_MEMORY_CATEGORY_COUNT
                      ? (uint32_t)numbers[3]
                      : KINETO_MEMORY_UNKNOWN;
    return !scan->problem && count == KB_COUNT(numbers);
}

/* `text` is the decompressed file; `path` is for messages. */
static kineto_status read_changes(kineto_string text, const char *path, change_list *out,
                                  kineto_error *err)
{
    kt_scan scan = kt_scan_of(text);
    bool first = true, good = kt_scan_open(&scan, '[');
    while (good && kt_scan_more(&scan, &first, '[')) {
        change c = {.order = (uint32_t)out->count};
        good = read_change(&scan, &c) && out->count < UINT32_MAX;
        if (good && !kb_vec_push(out, c))
            return kb_fail_memory(err, "memory over time");
    }
    if (good && !scan.problem && kt_scan_end(&scan))
        return KINETO_OK;
    return kb_fail(err, KINETO_E_FORMAT,
                   "%s: byte %zu is not of a list of [time, action, bytes, category], as PyTorch's "
                   "export_memory_timeline writes to files that end with .raw.json.gz",
                   path, (size_t)(scan.at - scan.begin));
}

/* An error of the input (a damaged archive, for example) takes precedence over that of the
 * format, which is only its consequence. */
static kineto_status read_timeline_file(const char *path, change_list *out, kineto_error *err)
{
    kt_input *input = NULL;
    kineto_status status = kt_input_open(path, &input, err);
    if (status)
        return status;
    kineto_string text = {input->base, kt_input_wait(input, SIZE_MAX)};
    status = input->status;
    if (!status)
        status = read_changes(text, path, out, err);
    else if (err)
        *err = input->error;
    if (!input->status && kt_input_check(input, NULL))
        status = kt_input_check(input, err);
    kt_input_release(input);
    return status;
}

/* ---- curves ---------------------------------------------------------------------------------- */

static int compare_category_changes(const void *left, const void *right)
{
    const change *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Sorts by time. What existed before the recording has the time -1, and is dated to its first
 * moment. */
static void sort_changes(change_list *changes)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < changes->count; i++)
        if (changes->data[i].ns >= 0)
            first = KB_MIN(first, changes->data[i].ns);
    for (size_t i = 0; i < changes->count; i++)
        if (changes->data[i].ns < 0)
            changes->data[i].ns = first == INT64_MAX ? 0 : first;
    if (changes->count)
        qsort(changes->data, changes->count, sizeof *changes->data, compare_category_changes);
}

/* Rows of one moment; `changed` has a bit for each category, `now` is in bytes. */
static void put_moment(ka_table *t, int64_t ns, const int64_t *now, uint32_t changed)
{
    for (uint32_t c = 0; c < KINETO_MEMORY_CATEGORY_COUNT; c++) {
        if (!(changed >> c & 1))
            continue;
        ka_put_ns(t, ns);
        ka_put_text(t, kb_string(kineto_memory_category_name(c)));
        ka_put_int(t, now[c]);
    }
}

/* A row for each category that a moment changed, with what there is of it from then on. */
static void put_curves(ka_table *t, const change_list *changes)
{
    int64_t now[KINETO_MEMORY_CATEGORY_COUNT] = {0};
    uint32_t changed = 0;
    for (size_t i = 0; i < changes->count; i++) {
        const change *c = &changes->data[i];
        now[c->category] = KB_MAX(ka_add_ns(now[c->category], c->bytes), -INT64_MAX);
        changed |= 1u << c->category;
        if (i + 1 < changes->count && changes->data[i + 1].ns == c->ns)
            continue;
        put_moment(t, c->ns, now, changed);
        changed = 0;
    }
    if (!changes->count)
        ka_note(t, "the list of allocations is empty");
}

/* Table memory_timeline, from the file options->memory_timeline; the trace is not read. */
kineto_status ka_analyze_memory_categories(const ka_dataset *s, kineto_analysis *a,
                                           kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_memory_timeline);
    change_list changes = {0};
    if (!s->options->memory_timeline) {
        ka_note(t, "no file was named: --memory-timeline FILE.raw.json.gz, as PyTorch's "
                   "export_memory_timeline writes it");
        return KINETO_OK;
    }
    kineto_status status = read_timeline_file(s->options->memory_timeline, &changes, err);
    if (!status) {
        sort_changes(&changes);
        put_curves(t, &changes);
    }
    kb_vec_free(&changes);
    return status;
}

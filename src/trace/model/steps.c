/* Which ranges are steps: those that PyTorch's profiler marks, those that match a pattern, or those
 * that inference servers are known to mark, or that repeat like steps. The list is in the order of rows, so that a row is
 * found by binary search. */
#include "trace/model/steps.h"

#include "trace/model/model.h"
#include "trace/model/repeated_ranges.h"

/* ---- names ----------------------------------------------------------------------------------- */

bool kt_step_number(kineto_string name, uint64_t *number)
{
    static const char start[] = "ProfilerStep";
    size_t at = sizeof start - 1;
    if (name.size <= at || memcmp(name.data, start, at) != 0)
        return false;
    while (at < name.size && name.data[at] == ' ')
        at++;
    if (at == name.size || name.data[at++] != '#')
        return false;
    while (at < name.size && name.data[at] == ' ')
        at++;
    uint64_t value = 0;
    size_t first = at;
    for (; at < name.size && kb_is_digit(name.data[at]); at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(name.data[at] - '0'), &value))
            return false;
    *number = value;
    return at > first && at == name.size;
}

/* True if the name contains the parts between '*' one after the other, the first one at its start.
 * Taking the first occurrence of each part is sufficient: a later one only leaves less text for the
 * rest. */
static bool matches_alternative(kineto_string name, kineto_string pattern)
{
    bool anchored = true;
    while (pattern.size) {
        const char *star = memchr(pattern.data, '*', pattern.size);
        size_t size = star ? (size_t)(star - pattern.data) : pattern.size;
        const char *at = memmem(name.data, name.size, pattern.data, size);
        if (!at || (anchored && at != name.data))
            return false;
        name = kb_string_skip(name, (size_t)(at - name.data) + size);
        pattern = kb_string_skip(pattern, size + (star != NULL));
        anchored = false;
    }
    return true;
}

bool kt_step_matches(kineto_string name, const char *pattern)
{
    if (!name.size)
        return false;
    while (*pattern) {
        size_t size = strcspn(pattern, "|");
        if (size && matches_alternative(name, (kineto_string){pattern, size}))
            return true;
        pattern += size + (pattern[size] == '|');
    }
    return false;
}

/* Sets is_name of all strings that match the pattern, or that are ProfilerStep#N if it is NULL.
 * *any: at least one does. */
static void mark_step_names(const kineto_trace *t, const char *pattern, kt_step_list *list,
                            bool *any)
{
    uint32_t count = kineto_trace_string_count(t);
    uint64_t number;
    *any = false;
    for (uint32_t i = 0; i < count; i++) {
        kineto_string name = kineto_trace_string(t, i);
        list->is_name[i] = pattern ? kt_step_matches(name, pattern) : kt_step_number(name, &number);
        *any |= list->is_name[i];
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Steps are ranges of the host; their copies on devices (gpu_user_annotation) would count twice. */
static bool is_step_candidate(const kt_block *b, uint32_t i, uint64_t kinds)
{
    uint32_t kind = b->kind[i];
    return b->form[i] == KINETO_FORM_SLICE && kinds >> kind & 1 && !kt_kind_is_device(kind) &&
           kind != KINETO_KIND_GPU_USER_ANNOTATION;
}

/* Appends the rows of `kinds` that have a marked name, in the order of rows. False: out of
 * memory. */
static bool collect_step_rows(const kineto_trace *t, uint64_t kinds, kt_step_list *list)
{
    for (size_t n = 0; n < t->blocks.count; n++) {
        const kt_block *b = t->blocks.data[n];
        for (uint32_t i = 0; i < b->count; i++) {
            if (!list->is_name[b->name[i]] || !is_step_candidate(b, i, kinds))
                continue;
            KB_ASSERT(b->track[i] < t->tracks.count);
            kt_step_row step = {.row = (kineto_row)(n * KT_BLOCK_ROWS + i),
                                .process = t->tracks.data[b->track[i]].process,
                                .start_ns = b->start_ns[i],
                                .end_ns = b->end_ns[i]};
            kineto_string name = kineto_trace_string(t, b->name[i]);
            (void)kt_step_number(name, &step.number);
            if (!kb_vec_push(&list->rows, step))
                return false;
        }
    }
    return true;
}

/* ---- numbers of steps found by a pattern ----------------------------------------------------- */

/* By process, then start; an enclosing range sorts before the ranges in it. */
static int compare_step_times(const void *left, const void *right)
{
    const kt_step_row *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static int compare_step_rows(const void *left, const void *right)
{
    const kt_step_row *a = left, *b = right;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Of nested ranges of one process only the outermost is a step. The rows are in the order of
 * compare_step_times. */
static void drop_nested_steps(kt_step_list *list)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->rows.count; i++) {
        kt_step_row s = list->rows.data[i], *last = kept ? &list->rows.data[kept - 1] : NULL;
        if (!last || last->process != s.process || s.end_ns > last->end_ns)
            list->rows.data[kept++] = s;
    }
    list->rows.count = kept;
}

/* Reads the digits at the end of a name. False: there are none, or more than 18, which may not
 * fit. */
static bool parse_trailing_number(kineto_string name, uint64_t *number)
{
    size_t at = name.size;
    *number = 0;
    while (at > 0 && kb_is_digit(name.data[at - 1]))
        at--;
    if (at == name.size || name.size - at > 18)
        return false;
    for (; at < name.size; at++)
        *number = *number * 10 + (uint64_t)(name.data[at] - '0');
    return true;
}

/* Uses the numbers at the ends of the names if every name has one and they ascend in each process;
 * otherwise numbers the steps of each process from 0. The rows are in the order of
 * compare_step_times. */
static void number_steps(const kineto_trace *t, kt_step_list *list)
{
    kt_step_row *rows = list->rows.data;
    bool by_name = true;
    for (size_t i = 0; i < list->rows.count; i++) {
        const kt_block *b = kt_block_of(t, rows[i].row);
        kineto_string name = kineto_trace_string(t, b->name[rows[i].row % KT_BLOCK_ROWS]);
        by_name =
            by_name && parse_trailing_number(name, &rows[i].number) &&
            !(i && rows[i].process == rows[i - 1].process && rows[i].number <= rows[i - 1].number);
    }
    for (size_t i = 0; !by_name && i < list->rows.count; i++)
        rows[i].number = i && rows[i].process == rows[i - 1].process ? rows[i - 1].number + 1 : 0;
}

/* Unnests and numbers the steps, and restores the order of rows. */
static void finish_pattern_steps(const kineto_trace *t, kt_step_list *list)
{
    if (!list->rows.count)
        return;
    qsort(list->rows.data, list->rows.count, sizeof *list->rows.data, compare_step_times);
    drop_nested_steps(list);
    number_steps(t, list);
    qsort(list->rows.data, list->rows.count, sizeof *list->rows.data, compare_step_rows);
}

/* ---- remainders of a step at profiler stop --------------------------------------------------- */

/* The profiler closes the step that is open when it is stopped. A last step shorter than this share
 * of its process' mean step, with nothing in it, is such a remainder. */
#define REMAINDER_PERCENT 5

typedef struct last_step {
    int64_t start_ns, end_ns;
    double sum_ns; /* the lengths of all steps of the process */
    uint32_t count;
    bool is_remainder;
} last_step;

/* Fills `of` (by process) and marks last steps that are far shorter than the mean as remainders.
 * False: there are none. */
static bool find_short_last_steps(const kt_step_list *list, last_step *of, size_t processes)
{
    bool any = false;
    for (size_t i = 0; i < list->rows.count; i++) {
        const kt_step_row *s = &list->rows.data[i];
        KB_ASSERT(s->process < processes);
        last_step *last = &of[s->process];
        if (!last->count++ || s->start_ns > last->start_ns) {
            last->start_ns = s->start_ns;
            last->end_ns = s->end_ns;
        }
        last->sum_ns += (double)s->end_ns - (double)s->start_ns;
    }
    for (size_t p = 0; p < processes; p++) {
        double length = (double)of[p].end_ns - (double)of[p].start_ns;
        of[p].is_remainder = 100 * length * of[p].count < REMAINDER_PERCENT * of[p].sum_ns;
        any |= of[p].is_remainder;
    }
    return any;
}

/* Unmarks a last step if an activity other than a step or a Python function begins in it: then it
 * was a step of the program. */
static void keep_last_steps_in_use(const kineto_trace *t, const kt_step_list *list, last_step *of)
{
    for (size_t n = 0; n < t->blocks.count; n++) {
        const kt_block *b = t->blocks.data[n];
        for (uint32_t i = 0; i < b->count; i++) {
            last_step *last = &of[t->tracks.data[b->track[i]].process];
            if (last->is_remainder && b->start_ns[i] >= last->start_ns &&
                b->start_ns[i] < last->end_ns && b->form[i] == KINETO_FORM_SLICE &&
                !list->is_name[b->name[i]] && b->kind[i] != KINETO_KIND_PYTHON_FUNCTION)
                last->is_remainder = false;
        }
    }
}

/* Removes the marked last steps. False: out of memory. */
static bool drop_step_remainders(const kineto_trace *t, kt_step_list *list)
{
    size_t kept = 0, processes = (size_t)kineto_trace_process_count(t);
    last_step *of = calloc(processes + 1, sizeof *of);
    if (!of)
        return false;
    if (find_short_last_steps(list, of, processes)) {
        keep_last_steps_in_use(t, list, of);
        for (size_t i = 0; i < list->rows.count; i++) {
            kt_step_row s = list->rows.data[i];
            if (!of[s.process].is_remainder || s.start_ns < of[s.process].start_ns)
                list->rows.data[kept++] = s;
        }
        list->rows.count = kept;
    }
    free(of);
    return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

kineto_status kt_fail_no_steps(const char *pattern, kineto_error *err)
{
    if (pattern)
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "the trace has no steps (ranges with names like '%s')", pattern);
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "the trace has no steps (ranges with names like ProfilerStep#3); --step-pattern "
                   "names others");
}

kb_text kt_format_step_range(uint64_t first, uint64_t last)
{
    kb_text text;
    KB_ASSERT(first <= last);
    if (first == last)
        (void)snprintf(text.s, sizeof text.s, "step %llu", (unsigned long long)first);
    else
        (void)snprintf(text.s, sizeof text.s, "steps %llu..%llu", (unsigned long long)first,
                       (unsigned long long)last);
    return text;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Annotations that inference servers put around each step, one server per line. The first pattern
 * with a match is used. */
static const char *const known_patterns[] = {
    /* SGLang: step[DECODE bs=32], step[EXTEND bs=2 toks=800]. */
    "step[* bs=",
    "execute_context_*_generation_|execute_*_context_*_generation_|execute_new_*_"
    "cached_",                /* vLLM */
    "prefill[bs=|decode[bs=", /* ATOM */
};

/* Ranges that repeat like steps. False: out of memory. */
static bool collect_repeated_ranges(const kineto_trace *t, kt_step_list *out)
{
    if (!kt_find_repeated_ranges(t, &out->repeated_name))
        return false;
    if (out->repeated_name == KB_INTERN_NONE)
        return true;
    memset(out->is_name, 0, (size_t)kineto_trace_string_count(t) + 1);
    out->is_name[out->repeated_name] = 1;
    if (!collect_step_rows(t, KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION), out))
        return false;
    finish_pattern_steps(t, out);
    return true;
}

bool kt_step_list_make(const kineto_trace *t, const char *pattern, bool known, kt_step_list *out)
{
    const uint64_t annotations =
        KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION) | KINETO_KIND_BIT(KINETO_KIND_CPU_OP);
    bool any, ok = true;
    *out = (kt_step_list){.is_name = calloc((size_t)kineto_trace_string_count(t) + 1, 1),
                          .repeated_name = KB_INTERN_NONE};
    if (!out->is_name)
        return false;
    mark_step_names(t, pattern, out, &any);
    ok = !any || collect_step_rows(t, UINT64_MAX, out);
    if (ok && known && !pattern && out->rows.count)
        ok = drop_step_remainders(t, out);
    for (size_t i = 0; ok && !pattern && known && !out->rows.count && i < KB_COUNT(known_patterns);
         i++) {
        mark_step_names(t, known_patterns[i], out, &any);
        ok = !any || collect_step_rows(t, annotations, out);
        if (ok)
            finish_pattern_steps(t, out);
    }
    if (ok && pattern)
        finish_pattern_steps(t, out);
    if (ok && !pattern && known && !out->rows.count)
        ok = collect_repeated_ranges(t, out);
    return ok;
}

void kt_step_list_free(kt_step_list *list)
{
    kb_vec_free(&list->rows);
    free(list->is_name);
    *list = (kt_step_list){0};
}

/* Lower bound by row. */
const kt_step_row *kt_step_list_find(const kt_step_list *list, kineto_row row, uint32_t name)
{
    size_t i = 0, count = list->rows.count;
    if (!count || !list->is_name[name])
        return NULL;
    KB_LOWER_BOUND(i, count, list->rows.data[i].row < row);
    return i < count && list->rows.data[i].row == row ? &list->rows.data[i] : NULL;
}

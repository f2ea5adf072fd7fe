/* Counters of kernels, as a profiler of ranges read them, by the operator that launched the kernel.
 *
 * Such ranges know neither operator nor launch; but with them kernels run one by one, so that the
 * n-th range is that of the n-th launch. */
#include "analyze/facts/analyses.h"

typedef KB_VEC(uint32_t) index_list;
typedef KB_VEC(kineto_row) row_list;

/* ---- ranges and launches --------------------------------------------------------------------- */

static int compare_ranges(const void *left, const void *right, void *context)
{
    kineto_row a = *(const kineto_row *)left, b = *(const kineto_row *)right;
    const kineto_trace *t = context;
    kineto_activity x, y;
    kineto_trace_get(t, a, &x);
    kineto_trace_get(t, b, &y);
    if (x.start_ns != y.start_ns)
        return x.start_ns < y.start_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool find_ranges(const ka_dataset *s, row_list *out)
{
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(s->trace); b++) {
        const kt_block *block = kt_block_at(s->trace, b);
        if (block->kinds & KINETO_KIND_BIT(KINETO_KIND_CUDA_PROFILER_RANGE))
            for (uint32_t i = 0; i < block->count; i++)
                if (block->kind[i] == KINETO_KIND_CUDA_PROFILER_RANGE &&
                    block->form[i] == KINETO_FORM_SLICE && !kb_vec_push(out, row + i))
                    return false;
        row += block->count;
    }
    if (out->count)
        qsort_r(out->data, out->count, sizeof *out->data, compare_ranges,
                (void *)(uintptr_t)s->trace);
    return true;
}

/* By name, as there is nothing that they are known to have launched: cudaLaunchKernel,
 * cuLaunchKernelEx, cudaLaunchCooperativeKernel, hipExtModuleLaunchKernel … */
static bool is_counted_launch(const ka_dataset *s, const ka_slice *slice)
{
    if (slice->kind != KINETO_KIND_RUNTIME && slice->kind != KINETO_KIND_DRIVER)
        return false;
    kineto_string name = ka_name(s, slice->name);
    if (s->definitions->is_kernel_launch)
        return s->definitions->is_kernel_launch(name);
    const char *launch = memmem(name.data, name.size, "Launch", 6);
    return launch && memmem(launch, name.size - (size_t)(launch - name.data), "Kernel", 6);
}

/* A launch may be a call of the driver within one of the runtime: the outer one counts. */
static bool find_launches(const ka_dataset *s, index_list *out)
{
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        if (!is_counted_launch(s, slice) ||
            (slice->parent != KA_NONE && is_counted_launch(s, &s->slices[slice->parent])))
            continue;
        if (!kb_vec_push(out, i))
            return false;
    }
    if (out->count)
        qsort_r(out->data, out->count, sizeof *out->data, ka_compare_starts,
                (void *)(uintptr_t)s->slices);
    return true;
}

/* ---- operators around a launch --------------------------------------------------------------- */

typedef struct around {
    kineto_string innermost, outermost; /* empty: none */
} around;

/* The innermost and the outermost operator around a launch. */
static around operators_of(const ka_dataset *s, uint32_t launch)
{
    around a = {0};
    for (uint32_t i = launch; i != KA_NONE; i = s->slices[i].around) {
        if (s->slices[i].kind != KINETO_KIND_CPU_OP)
            continue;
        a.outermost = ka_name(s, s->slices[i].name);
        if (!a.innermost.size)
            a.innermost = a.outermost;
    }
    return a;
}

/* ---- counters -------------------------------------------------------------------------------- */

/* Operations of one executed instruction: smsp__sass_thread_inst_executed_op_ffma_pred_on.sum has
 * two. 0: it counts something else. */
static int flops_each(kineto_string counter)
{
    static const char start[] = "smsp__sass_thread_inst_executed_op_";
    size_t at = sizeof start - 1;
    if (counter.size < at + 4 || memcmp(counter.data, start, at) != 0 ||
        !strchr("hfd", counter.data[at]))
        return 0;
    const char *what = counter.data + at + 1;
    return memcmp(what, "fma", 3) == 0   ? 2
           : memcmp(what, "add", 3) == 0 ? 1
           : memcmp(what, "mul", 3) == 0 ? 1
                                         : 0;
}

#define MAX_NAME 256u

static int compare_texts(kineto_string a, kineto_string b)
{
    int order = memcmp(a.data, b.data, KB_MIN(a.size, b.size));
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static bool read_counter(const kineto_arg *arg, double *value)
{
    return arg->type != KINETO_ARG_BOOL && kt_arg_number(arg, value);
}

static void put_text_or_none(ka_table *t, kineto_string text)
{
    if (text.size)
        ka_put_text(t, text);
    else
        ka_put_none(t);
}

static void put_counter(const ka_dataset *s, ka_table *t, kineto_string range, around ops,
                        kineto_string counter, double value)
{
    int each = flops_each(counter);
    ka_put_int(t, s->rank);
    ka_put_text(t, range);
    put_text_or_none(t, ops.innermost);
    put_text_or_none(t, ops.outermost);
    ka_put_text(t, counter);
    ka_put_number(t, value);
    if (each)
        ka_put_number(t, each * value);
    else
        ka_put_none(t);
}

/* The first counter of a range after another one in the order of names, in which they come
 * whatever order the trace has. */
static bool next_counter(const ka_dataset *s, kineto_row row, kineto_string after, char *name,
                         kineto_string *found, double *value)
{
    kineto_args_iterator it;
    kineto_arg arg;
    double number;
    bool any = false;
    for (kineto_args_begin(s->trace, row, &it); kineto_args_next(&it, &arg);) {
        if (!read_counter(&arg, &number) || arg.key.size >= MAX_NAME ||
            compare_texts(arg.key, after) <= 0 || (any && compare_texts(arg.key, *found) >= 0))
            continue;
        memcpy(name, arg.key.data, arg.key.size);
        *found = (kineto_string){name, arg.key.size};
        *value = number;
        any = true;
    }
    return any;
}

static void put_range(const ka_dataset *s, ka_table *t, kineto_row row, around ops)
{
    char names[2][MAX_NAME];
    kineto_string last = {"", 0}, next = {"", 0};
    kineto_activity range;
    double value;
    kineto_trace_get(s->trace, row, &range);
    for (uint32_t i = 0; next_counter(s, row, last, names[i & 1], &next, &value); i++) {
        put_counter(s, t, range.name, ops, next, value);
        last = next;
    }
}

static void put_counters(const ka_dataset *s, ka_table *t, const row_list *ranges,
                         const index_list *launched)
{
    bool fit = ranges->count == launched->count;
    for (size_t i = 0; i < ranges->count; i++) {
        around none = {0};
        put_range(s, t, ranges->data[i], fit ? operators_of(s, launched->data[i]) : none);
    }
    if (!ranges->count)
        ka_note(t, "no ranges with counters in the trace (kind cuda_profiler_range)");
    else if (!fit)
        ka_note(
            t, "%zu ranges with counters, but %zu launches: which operator each is of is not known",
            ranges->count, launched->count);
}

/* Table counters: values of the range profiler with the operators around the launch. */
kineto_status ka_analyze_counters_ops(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    row_list ranges = {0};
    index_list launched = {0};
    bool ok = find_ranges(s, &ranges);
    if (ok && ranges.count)
        ok = find_launches(s, &launched);
    if (ok)
        put_counters(s, ka_table_of(a, KA_TABLE_counters), &ranges, &launched);
    kb_vec_free(&ranges);
    kb_vec_free(&launched);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

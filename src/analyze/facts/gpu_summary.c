/* The table gpu_summary, and the list of kernels for kernel_use and kernel_operators: the share
 * of time in which any kernel ran, blocks per multiprocessor, occupancy, and time on tensor
 * cores.
 *
 * SM efficiency is the mean of min(1, sum of blocks per SM) over time: a sweep over starts and
 * ends of kernels. */
#include "analyze/facts/analyses.h"

/* ---- what kernels say of themselves ---------------------------------------------------------- */

/* Id of the text "grid|block|registers|shared memory" of a kernel; each value is cut at 48
 * bytes, which longer ones only a broken trace has. */
static uint32_t launch_of(ka_kernels *kernels, const kineto_trace *t, kineto_row row)
{
    static const ka_keys keys = {
        4,
        {'g', 'b', 'r', 's'},
        {KA_KEY("grid"), KA_KEY("block"), KA_KEY("registers per thread"), KA_KEY("shared memory")}};
    kineto_string values[4];
    char text[256];
    size_t n = 0;
    ka_arg_texts(t, row, &keys, values);
    for (uint32_t i = 0; i < keys.count; i++) {
        kineto_string value = ka_sizes_text(values[i]);
        value.size = KB_MIN(value.size, (size_t)48);
        if (value.size)
            memcpy(text + n, value.data, value.size);
        n += value.size;
        text[n++] = '|';
    }
    return kb_intern_id(&kernels->launches, (kineto_string){text, n - 1});
}

/* `launches`: the launch text is needed, too. Negative values mean not recorded. */
static void read_kernel(ka_kernels *kernels, ka_kernel *k, const kineto_trace *t, bool launches)
{
    static const ka_keys keys = {
        2, {'b', 'e', 'b', 'e'}, {KA_KEY("blocks per SM"), KA_KEY("est. achieved occupancy %")}};
    double values[2];
    uint32_t known = ka_arg_numbers(t, k->work->row, &keys, values);
    k->blocks = known & 1 && values[0] >= 0 ? values[0] : KA_NOT_RECORDED;
    k->occupancy = known & 2 && values[1] >= 0 ? values[1] : KA_NOT_RECORDED;
    kernels->any_blocks |= k->blocks >= 0;
    kernels->any_occupancy |= k->occupancy >= 0;
    if (launches)
        k->launch = launch_of(kernels, t, k->work->row);
}

/* Lists kernels in the order of work, but reads their arguments in the order of rows: blocks
 * of compressed files are then decompressed once. False: out of memory. */
static bool read_kernels(const ka_attribution *v, ka_kernels *kernels, bool launches)
{
    const kineto_trace *t = v->dataset->trace;
    size_t rows = (size_t)kineto_trace_count(t);
    uint32_t *kernel_of = malloc((rows + 1) * sizeof *kernel_of);
    bool ok = kernel_of && kb_intern_id(&kernels->launches, kb_string("")) == 0;
    if (kernel_of)
        memset(kernel_of, 0xff, rows * sizeof *kernel_of);
    for (size_t i = 0; i < v->work.count && ok; i++) {
        const ka_attributed_work *d = &v->work.data[i];
        if (d->kind != KINETO_KIND_CONCURRENT_KERNEL)
            continue;
        kernel_of[d->row] = (uint32_t)kernels->list.count;
        ok = kb_vec_push(&kernels->list, (ka_kernel){.work = d});
    }
    for (size_t row = 0; row < rows && ok; row++)
        if (kernel_of[row] != KA_NONE)
            read_kernel(kernels, &kernels->list.data[kernel_of[row]], t, launches);
    free(kernel_of);
    return ok;
}

/* ---- one device ------------------------------------------------------------------------------ */

/* A start (change > 0) or end of a kernel, by its blocks per multiprocessor. */
typedef struct edge {
    int64_t ns;
    double change;
} edge;
typedef KB_VEC(edge) edge_list;

typedef struct use {
    int64_t start_ns, end_ns; /* the selected time */
    ka_spans busy;
    edge_list starts, ends, edges; /* of blocks per multiprocessor; both in order */
    double occupancy, occupancy_ns;
    int64_t tensor_ns, attached_ns;
    bool no_memory;
} use;

/* Adds a kernel to its device. Shares of tensor cores are over whole durations; all else is
 * clipped to the time of the steps. */
static void use_kernel(use *u, const ka_attribution *v, const ka_kernel *k)
{
    const ka_attributed_work *d = k->work;
    ka_span span = ka_row_span(v->dataset->trace, d->row);
    int64_t start = KB_MAX(span.start_ns, u->start_ns), end = KB_MIN(span.end_ns, u->end_ns);
    if (!v->dataset->definitions->shares_of_operators_only || d->op != KA_NONE) {
        u->attached_ns = ka_add_ns(u->attached_ns, kb_length_ns(span.start_ns, span.end_ns));
        if (d->tensor)
            u->tensor_ns = ka_add_ns(u->tensor_ns, kb_length_ns(span.start_ns, span.end_ns));
    }
    if (start >= end)
        return;
    u->no_memory |= !kb_vec_push(&u->busy, (ka_span){start, end});
    if (k->blocks > 0)
        u->no_memory |= !kb_vec_push(&u->starts, (edge){start, k->blocks}) ||
                        !kb_vec_push(&u->ends, (edge){end, -k->blocks});
    if (k->occupancy >= 0) {
        u->occupancy += k->occupancy * (double)kb_length_ns(start, end);
        u->occupancy_ns += (double)kb_length_ns(start, end);
    }
}

static int compare_edges(const void *left, const void *right)
{
    const edge *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->change > b->change) - (a->change < b->change);
}

/* Edges of a single stream are in order already. */
static void sort_edges(edge *edges, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (compare_edges(&edges[i - 1], &edges[i]) > 0) {
            qsort(edges, count, sizeof *edges, compare_edges);
            return;
        }
}

/* Merges starts and ends; ends come first at the same moment, so that kernels in succession do
 * not overlap. False: out of memory. */
static bool merge_edges(use *u)
{
    edge_list all = {0};
    bool ok = kb_vec_reserve(&all, u->starts.count + u->ends.count + 1);
    sort_edges(u->starts.data, u->starts.count);
    sort_edges(u->ends.data, u->ends.count);
    for (size_t s = 0, e = 0; ok && (s < u->starts.count || e < u->ends.count);) {
        bool start = e >= u->ends.count ||
                     (s < u->starts.count && u->starts.data[s].ns < u->ends.data[e].ns);
        all.data[all.count++] = start ? u->starts.data[s++] : u->ends.data[e++];
    }
    u->edges = all;
    return ok;
}

/* SM efficiency times the span: the integral of min(1, blocks per multiprocessor) over time. */
static double covered_ns(use *u)
{
    double sum = 0, now = 0;
    uint64_t open = 0;
    u->no_memory |= !merge_edges(u);
    for (size_t i = 0; i + 1 < u->edges.count; i++) {
        KB_ASSERT(u->edges.data[i].ns <= u->edges.data[i + 1].ns);
        open += u->edges.data[i].change > 0 ? 1 : (uint64_t)-1;
        now = open ? now + u->edges.data[i].change : 0; /* errors of rounding end with it */
        sum += KB_MIN(KB_MAX(now, 0), 1) *
               (double)kb_length_ns(u->edges.data[i].ns, u->edges.data[i + 1].ns);
    }
    return sum;
}

/* Processes that are devices, by id: the first of each. */
static bool names_of(const kineto_trace *t, kb_map *names)
{
    bool ok = true;
    for (uint32_t i = 0; i < kineto_trace_process_count(t) && ok; i++) {
        kineto_process p;
        kineto_trace_process(t, i, &p);
        ok = !p.is_device || kb_map_insert(names, (uint64_t)p.pid, i, NULL);
    }
    return ok;
}

/* The name in the device's properties, else that of its process row; empty: unknown. */
static kineto_string device_name(const kineto_trace *t, const kb_map *names, int64_t device)
{
    const uint64_t *process = kb_map_find(names, (uint64_t)device);
    kineto_process p;
    if (!process)
        return (kineto_string){"", 0};
    kineto_trace_process(t, (uint32_t)*process, &p);
    kineto_string name = ka_json_text(p.properties_json, "name");
    return name.size ? name : p.name;
}

static void put_or_none(ka_table *t, bool is_known, double value)
{
    if (is_known)
        ka_put_number(t, value);
    else
        ka_put_none(t);
}

/* The row of one device; unites u->busy and sorts its edges. */
static void put_device(const ka_attribution *v, const ka_kernels *kernels, const kb_map *names,
                       int64_t device, use *u, ka_table *t)
{
    double span = (double)kb_length_ns(u->start_ns, u->end_ns);
    ka_spans_unite(&u->busy);
    ka_put_int(t, v->dataset->rank);
    ka_put_int(t, device);
    ka_put_text(t, device_name(v->dataset->trace, names, device));
    ka_put_number(t, ka_percent((double)ka_spans_ns(&u->busy), span));
    put_or_none(t, kernels->any_blocks, ka_percent(covered_ns(u), span));
    put_or_none(t, u->occupancy_ns > 0, u->occupancy / u->occupancy_ns);
    put_or_none(t, u->attached_ns > 0, ka_percent((double)u->tensor_ns, (double)u->attached_ns));
}

/* By device, of each as they came. */
static int compare_devices(const void *left, const void *right)
{
    const ka_kernel *a = *(const ka_kernel *const *)left, *b = *(const ka_kernel *const *)right;
    if (a->work->device != b->work->device)
        return a->work->device < b->work->device ? -1 : 1;
    return (a > b) - (a < b);
}

/* Writes the row of the device of sorted[0]; returns how many of `sorted` are of that device. */
static size_t put_kernels(const ka_attribution *v, const ka_kernels *kernels, const kb_map *names,
                          const ka_kernel *const *sorted, size_t count, ka_table *t)
{
    use u = {.start_ns = v->windows.data[0].start_ns, .end_ns = ka_attribution_end_ns(v)};
    int64_t device = sorted[0]->work->device;
    size_t n = 0;
    while (n < count && sorted[n]->work->device == device)
        use_kernel(&u, v, sorted[n++]);
    if (!u.no_memory)
        put_device(v, kernels, names, device, &u, t);
    t->no_memory |= u.no_memory;
    kb_vec_free(&u.busy);
    kb_vec_free(&u.starts);
    kb_vec_free(&u.ends);
    kb_vec_free(&u.edges);
    return n;
}

static bool put_devices(const ka_attribution *v, const ka_kernels *kernels, ka_table *t)
{
    kb_map names = {0};
    size_t count = kernels->list.count;
    const ka_kernel **sorted = malloc((count + 1) * sizeof *sorted);
    bool ok = sorted && names_of(v->dataset->trace, &names);
    for (size_t i = 0; i < count && ok; i++)
        sorted[i] = &kernels->list.data[i];
    if (ok)
        qsort(sorted, count, sizeof *sorted, compare_devices);
    for (size_t i = 0; i < count && ok; ok = !t->no_memory)
        i += put_kernels(v, kernels, &names, sorted + i, count - i, t);
    kb_map_free(&names);
    free(sorted);
    return ok;
}

/* Tables gpu_summary, kernel_use and kernel_operators, which share the list of kernels with
 * blocks and occupancy. */
kineto_status ka_analyze_gpu_summary(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *summary = ka_table_of(a, KA_TABLE_gpu_summary),
             *uses = ka_table_of(a, KA_TABLE_kernel_use),
             *operators = ka_table_of(a, KA_TABLE_kernel_operators);
    ka_attribution v;
    ka_kernels kernels = {0};
    kineto_status status = ka_attribution_get(
        s, KA_ATTRIBUTION_WORK | (operators ? KA_ATTRIBUTION_OPERATORS : 0), &v, err);
    bool ok = !status && read_kernels(&v, &kernels, operators != NULL);
    if (ok && !kernels.list.count) {
        ka_note_no_device(summary);
        ka_note_no_device(uses);
        ka_note_no_device(operators);
    } else if (ok) {
        ok = (!summary || !v.windows.count || put_devices(&v, &kernels, summary)) &&
             (!uses || ka_put_kernel_use(&v, &kernels, uses)) &&
             (!operators || ka_put_kernel_operators(&v, &kernels, operators));
    }
    kb_vec_free(&kernels.list);
    kb_intern_free(&kernels.launches);
    return status ? status : ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

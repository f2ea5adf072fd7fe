/* Savings if work and ranges took another time (ka_factors), sizes of operators' inputs, and
 * the matrix units of devices: what the rules about kernels and programs share. find_work.h has
 * the contracts. */
#include "analyze/findings/find_work.h"

#include <math.h>

/* ---- other times ----------------------------------------------------------------------------- */

/* An array of 1; NULL: out of memory. */
static double *alloc_factors(size_t count)
{
    double *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; x && i < count; i++)
        x[i] = 1;
    return x;
}

bool ka_factors_make(ka_finder *f, ka_factors *x)
{
    *x = (ka_factors){alloc_factors(f->s->work_count), alloc_factors(f->s->slice_count), 1};
    f->no_memory |= !x->work || !x->slices;
    return !f->no_memory;
}

void ka_factors_free(ka_factors *x)
{
    free(x->work);
    free(x->slices);
}

/* `inside` has the times of the slices right inside each slice. */
static double own_slice_ns(const ka_dataset *s, uint32_t slice, const double *inside)
{
    return (double)ka_slice_ns(&s->slices[slice]) - inside[slice];
}

/* The sum of what all pieces are shorter by, each with its own time only, as ranges contain
 * those inside them. No schedule can save more. */
static double max_savings_ns(ka_finder *f, const ka_factors *x)
{
    const ka_dataset *s = f->s;
    double sum = 0, *inside = calloc((size_t)s->slice_count + 1, sizeof *inside);
    f->no_memory |= !inside;
    if (!inside)
        return 0;
    for (uint32_t i = 0; i < s->work_count; i++)
        if (x->work[i] < 1 && ka_is_in_steps(f, s->work[i].step))
            sum += (1 - x->work[i]) * (double)ka_work_ns(&s->work[i]);
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].parent != KA_NONE)
            inside[s->slices[i].parent] += (double)ka_slice_ns(&s->slices[i]);
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (x->slices[i] < 1 && ka_is_in_steps(f, s->slices[i].step))
            sum += (1 - x->slices[i]) * kb_max_double(own_slice_ns(s, i, inside), 0);
    free(inside);
    return sum;
}

/* Weight of an edge with the factors; pieces outside of steps keep theirs. */
static int64_t scaled_weight(const ka_finder *f, const ka_factors *x, const ka_edge *e)
{
    double factor = 1;
    if (e->of == KA_OF_WORK && ka_is_in_steps(f, f->s->work[e->owner].step))
        factor = x->work[e->owner];
    else if (e->of == KA_OF_SLICE && ka_is_in_steps(f, f->s->slices[e->owner].step))
        factor = x->slices[e->owner];
    if (e->class == KA_PATH_GAP)
        factor = x->gaps;
    return factor == 1 ? e->ns : (int64_t)llround((double)e->ns * KB_MAX(factor, 0));
}

/* By how much the critical path is shorter with scaled weights. f->path exists. 0 after a
 * failed allocation, which f knows. */
static int64_t savings_on_path(ka_finder *f, const ka_factors *x)
{
    const ka_path *p = f->path;
    int64_t *weights = malloc((p->edges.count + 1) * sizeof *weights),
            *times = malloc((p->nodes.count + 1) * sizeof *times), after = 0;
    f->no_memory |= !weights || !times;
    for (size_t i = 0; !f->no_memory && i < p->edges.count; i++)
        weights[i] = scaled_weight(f, x, &p->edges.data[i]);
    if (!f->no_memory)
        ka_path_times(p, weights, times);
    if (!f->no_memory)
        after = ka_path_length(p, times);
    free(weights);
    free(times);
    return p->length_ns - after;
}

int64_t ka_saved_with(ka_finder *f, const ka_factors *x)
{
    KB_ASSERT(x->work != NULL && x->slices != NULL);
    double most = max_savings_ns(f, x);
    int64_t limit = most >= 9.2e18 || x->gaps < 1 ? INT64_MAX : (int64_t)most;
    if (limit <= f->whole_ns / 1000) /* too little for anyone to ask where it would come from */
        return limit;
    if (ka_saved_by(f, NULL, 0) == KA_NO_SAVINGS || !f->path) /* makes the path */
        return KA_NO_SAVINGS;
    return kb_min_i64(limit, savings_on_path(f, x));
}

/* ---- evidence -------------------------------------------------------------------------------- */

typedef struct by_name {
    int64_t ns;
    uint64_t count;
    uint32_t longest; /* index of work */
} by_name;

static int compare_shown_names(const void *left, const void *right)
{
    const by_name *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return (a->longest > b->longest) - (a->longest < b->longest);
}

/* Evidence for one name: its longest piece with its operator, shapes and stack, weighed by the
 * sum of the name. */
static void show_longest_of_names(ka_finder *f, ka_found *x, const by_name *n)
{
    const ka_dataset *s = f->s;
    const ka_work *w = &s->work[n->longest];
    uint32_t op = ka_operator_of(s, w->call);
    ka_shapes in = {0};
    kineto_string stack = ka_stack_of(f, op);
    kb_text name = {""};
    if (op != KA_NONE) {
        (void)ka_shapes_of(s->trace, s->slices[op].row, &in);
        name = ka_short_name(ka_name(s, s->slices[op].name));
    }
    kb_text shapes = ka_shapes_text(&in), ns = kb_duration(n->ns);
    ka_show_row(f, x, w->row, n->ns, "%llu of this name take %s%s%s%s%s%s%.*s",
                (unsigned long long)n->count, ns.s, op == KA_NONE ? "" : "; for ", name.s,
                shapes.s[0] ? " " : "", shapes.s, stack.size ? ", called by " : "", (int)stack.size,
                stack.data);
}

void ka_show_work(ka_finder *f, ka_found *x, const uint8_t *chosen, uint8_t which)
{
    const ka_dataset *s = f->s;
    by_name *names = x ? calloc((size_t)s->name_count + 1, sizeof *names) : NULL;
    if (!names) {
        f->no_memory |= x != NULL;
        return;
    }
    for (uint32_t i = 0; i < s->work_count; i++) {
        by_name *n = &names[s->work[i].name];
        if (chosen[i] != which || !ka_is_in_steps(f, s->work[i].step))
            continue;
        if (!n->count++ || ka_work_ns(&s->work[i]) > ka_work_ns(&s->work[n->longest]))
            n->longest = i;
        n->ns = ka_add_ns(n->ns, ka_work_ns(&s->work[i]));
    }
    qsort(names, s->name_count, sizeof *names, compare_shown_names);
    for (uint32_t i = 0; i < KB_MIN(s->name_count, f->evidence_limit) && names[i].count; i++)
        show_longest_of_names(f, x, &names[i]);
    free(names);
}

/* ---- names ----------------------------------------------------------------------------------- */

bool ka_answers_make(ka_finder *f, ka_answers *a)
{
    a->of = calloc((size_t)kineto_trace_string_count(f->s->trace) + 1, 1);
    f->no_memory |= !a->of;
    return a->of != NULL;
}

/* ---- sizes of inputs ------------------------------------------------------------------------- */

/* Sets rank 0 for a list with more than KA_MAX_DIMS dimensions, or with anything but sizes. */
static void read_shape_dims(kineto_string list, ka_shape *out)
{
    kt_items items = kt_items_of(list);
    kineto_string item;
    uint32_t rank = 0;
    while (kt_items_next(&items, &item)) {
        int64_t size;
        if (rank == KA_MAX_DIMS || !kt_value_whole(item, &size) || size < 0)
            return;
        out->dims[rank++] = size;
    }
    out->rank = kt_items_are_over(&items) ? rank : 0;
}

/* Bytes of a floating type as PyTorch names it ("c10::BFloat16", "float"); 0: of another type.
 * Order matters: "BFloat16" contains "Float". */
static uint32_t float_type_bytes(kineto_string raw)
{
    char room[128];
    kineto_string type = kt_value_text(raw, raw.size <= sizeof room ? room : NULL);
    static const struct {
        const char *part;
        uint32_t bytes;
    } types[] = {{"BFloat16", 2}, {"bfloat16", 2}, {"Half", 2},  {"half", 2},
                 {"Float8", 1},   {"float8", 1},   {"float", 4}, {"Float", 4}};
    for (size_t i = 0; i < KB_COUNT(types); i++)
        if (kb_string_contains(type, types[i].part))
            return kb_string_contains(type, "complex") ? 0 : types[i].bytes;
    return 0;
}

/* Reads the dimensions, or with `types` the element sizes, of the first KA_MAX_INPUTS inputs;
 * returns how many there were. */
static uint32_t read_shape_items(kineto_string json, ka_shapes *out, bool types)
{
    kt_items items = kt_items_of(json);
    kineto_string item;
    uint32_t n = 0;
    while (n < KA_MAX_INPUTS && kt_items_next(&items, &item)) {
        if (types)
            out->of[n].bytes = float_type_bytes(item);
        else
            read_shape_dims(item, &out->of[n]);
        n++;
    }
    return n;
}

bool ka_shapes_of(const kineto_trace *t, kineto_row row, ka_shapes *out)
{
    kineto_string values[2];
    memset(out, 0, sizeof *out); /* others hash it, with what is between its members */
    ka_arg_texts(t, row, &ka_dims_and_types, values);
    out->count = read_shape_items(values[0], out, false);
    if (out->count)
        (void)read_shape_items(values[1], out, true);
    return out->count > 0;
}

kb_text ka_shapes_text(const ka_shapes *in)
{
    kb_text text = {""};
    size_t n = 0, room = sizeof text.s;
    for (uint32_t i = 0; i < in->count && n + 12 < room; i++) {
        if (!in->of[i].rank)
            continue;
        n += (size_t)snprintf(text.s + n, room - n, "%s[", n ? ", " : "");
        for (uint32_t d = 0; d < in->of[i].rank && n + 24 < room; d++)
            n += (size_t)snprintf(text.s + n, room - n, "%s%lld", d ? ", " : "",
                                  (long long)in->of[i].dims[d]);
        n += (size_t)snprintf(text.s + n, room - n, "]");
    }
    return text;
}

/* ---- devices --------------------------------------------------------------------------------- */

static bool is_amd_device(kineto_string name)
{
    return kb_string_contains(name, "AMD") || kb_string_contains(name, "Radeon") ||
           kb_string_contains(name, "Instinct") || kb_string_contains(name, "gfx");
}

/* gfx906 reports 9.0 as gfx908 and gfx90a do; only it has at most 64 compute units. RDNA 3
 * (11.0 and later) has WMMA. */
static bool has_mfma(const kineto_trace *t, int64_t device)
{
    double major = ka_device_number(t, device, "computeMajor"),
           units = ka_device_number(t, device, "numSms");
    return major >= 11 || (major >= 9 && major < 10 && units > 64);
}

static bool has_xmx(kineto_string name)
{
    return kb_string_contains(name, "Max") || kb_string_contains(name, "Arc") ||
           kb_string_contains(name, "Flex");
}

ka_matrix_unit ka_matrix_unit_of(const kineto_trace *t, int64_t device)
{
    kineto_string name = ka_device_text(t, device, "name");
    if (is_amd_device(name))
        return has_mfma(t, device) ? KA_MATRIX_MFMA : KA_MATRIX_NONE;
    if (kb_string_contains(name, "Intel"))
        return has_xmx(name) ? KA_MATRIX_XMX : KA_MATRIX_NONE;
    return ka_device_number(t, device, "computeMajor") >= 7 ? KA_MATRIX_TENSOR : KA_MATRIX_NONE;
}

const char *ka_matrix_unit_name(ka_matrix_unit unit)
{
    static const char *const names[] = {"tensor cores", "tensor cores", "matrix cores (MFMA)",
                                        "matrix engines (XMX)"};
    return names[unit];
}

bool ka_has_tf32(const kineto_trace *t, int64_t device)
{
    return ka_matrix_unit_of(t, device) == KA_MATRIX_TENSOR &&
           ka_device_number(t, device, "computeMajor") >= 8;
}

int64_t ka_busiest_device(const ka_dataset *s)
{
    uint32_t busiest = 0;
    for (uint32_t i = 1; i < s->stream_count; i++)
        if (s->streams[i].count > s->streams[busiest].count)
            busiest = i;
    return s->stream_count ? s->streams[busiest].device : -1;
}

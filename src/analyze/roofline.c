/* Operators against what the device can do, from the shapes of their inputs; and how much of the
 * device's arithmetic each step used. */
#include "analyze/device_peaks.h"
#include "analyze/view.h"

#include "profiler/flops.h"

/* Below this share of both peaks an operator is bound by neither. */
#define LEAST_BOUND_PERCENT 10.0

/* What an operator's calls did, all together. */
typedef struct sums {
    uint32_t name;
    int64_t calls, device_ns;
    double flops, bytes;
    int64_t ns_of[KA_PRECISION_COUNT];
} sums;

typedef struct roofline {
    const ka_scope *s;
    uint64_t *flops;    /* by slice: its own, less what is counted inside */
    uint32_t *owner;    /* by slice: the operator that its work counts for */
    uint8_t *precision; /* by slice, of owners */
    int64_t *device_ns; /* by slice, of owners */
    uint8_t *known;     /* by name: 0 not asked, 1 nobody counts it, 2 somebody does */
    KB_VEC(sums) all;
    kb_map index;      /* of a name */
    uint64_t unusable; /* calls that somebody counts, whose inputs do not say enough */
    bool any_flops, no_memory;
} roofline;

/* ---- operations ----------------------------------------------------------------------------- */

static uint64_t count_flops(roofline *r, const ka_slice *s)
{
    uint64_t flops = 0;
    if (s->kind != KINETO_KIND_CPU_OP || r->known[s->name] == 1)
        return 0;
    kp_flops_answer answer = kp_flops_row(r->s->trace, s->row, &flops);
    r->known[s->name] = answer == KP_FLOPS_UNKNOWN ? 1 : 2;
    r->unusable += answer == KP_FLOPS_UNUSABLE;
    return flops;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* From behind, each slice comes after all inside it; `below` holds what was counted there. */
static bool count_own_flops(roofline *r)
{
    uint64_t *below = calloc((size_t)r->s->slice_count + 1, sizeof *below);
    for (uint32_t i = r->s->slice_count; below && i-- > 0;) {
        uint64_t all = count_flops(r, &r->s->slices[i]);
        r->flops[i] = all > below[i] ? all - below[i] : 0;
        r->any_flops |= all > 0;
        uint32_t parent = r->s->slices[i].parent;
        if (parent != KA_NONE)
            below[parent] = plus(below[parent], KB_MAX(all, below[i]));
    }
    free(below);
    return below != NULL;
}

/* Operators inside one that is counted are how it does its work. */
static void find_owners(roofline *r)
{
    for (uint32_t i = 0; i < r->s->slice_count; i++) {
        const ka_slice *s = &r->s->slices[i];
        uint32_t around = s->parent == KA_NONE ? KA_NONE : r->owner[s->parent];
        bool is_own = s->kind == KINETO_KIND_CPU_OP &&
                      (around == KA_NONE || r->flops[i] || !r->flops[around]);
        r->owner[i] = is_own ? i : around;
    }
}

/* ---- bytes ---------------------------------------------------------------------------------- */

typedef struct type_size {
    const char *begins;
    uint8_t bytes, precision;
} type_size;

/* Types as PyTorch writes them, in quotes. */
static const type_size *type_of(kineto_string type)
{
    static const type_size types[] = {{"float", 4, KA_PRECISION_FP32},
                                      {"long", 8, KA_PRECISION_UNKNOWN},
                                      {"int", 4, KA_PRECISION_UNKNOWN},
                                      {"BFloat16", 2, KA_PRECISION_BF16},
                                      {"Half", 2, KA_PRECISION_FP16},
                                      {"double", 8, KA_PRECISION_FP64},
                                      {"bool", 1, KA_PRECISION_UNKNOWN},
                                      {"Float8", 1, KA_PRECISION_FP8},
                                      {"complex<double>", 16, KA_PRECISION_FP64},
                                      {"complex<float>", 8, KA_PRECISION_FP32},
                                      {"short", 2, KA_PRECISION_UNKNOWN},
                                      {"unsigned char", 1, KA_PRECISION_UNKNOWN},
                                      {"signed char", 1, KA_PRECISION_UNKNOWN}};
    size_t skip = type.size > 0 && type.data[0] == '"';
    skip += type.size > skip + 5 && memcmp(type.data + skip, "c10::", 5) == 0 ? 5 : 0;
    for (size_t i = 0; i < KB_COUNT(types); i++)
        if (type.size - skip >= strlen(types[i].begins) &&
            memcmp(type.data + skip, types[i].begins, strlen(types[i].begins)) == 0)
            return &types[i];
    return NULL;
}

/* The next member of a list in JSON's text; a list or a text as one. */
static kineto_string next_member(kineto_string *rest)
{
    size_t from = 0, depth = 0, i;
    bool quoted = false;
    while (from < rest->size && (rest->data[from] == ' ' || rest->data[from] == ','))
        from++;
    for (i = from; i < rest->size; i++) {
        char c = rest->data[i];
        quoted ^= c == '"';
        depth += !quoted && c == '[';
        if (!quoted && (c == ']' || c == ',') && depth == 0)
            break;
        depth -= !quoted && c == ']';
    }
    kineto_string member = {rest->data + from, i - from};
    *rest = (kineto_string){rest->data + i, rest->size - i};
    return member;
}

static kineto_string inside_list(kineto_string json)
{
    return json.size > 2 && json.data[0] == '[' ? (kineto_string){json.data + 1, json.size - 2}
                                                : (kineto_string){"", 0};
}

/* Elements of a tensor's sizes "[2, 3]"; 0: it is none. */
static double elements_of(kineto_string dims)
{
    kineto_string rest = inside_list(dims);
    double elements = 1;
    if (!rest.size || rest.data[0] == '[')
        return 0;
    for (kineto_string d = next_member(&rest); d.size; d = next_member(&rest)) {
        double n = 0;
        for (size_t i = 0; i < d.size; i++) {
            if (d.data[i] < '0' || d.data[i] > '9')
                return 0;
            n = n * 10 + (d.data[i] - '0');
        }
        elements *= n;
    }
    return elements;
}

static double bytes_of(kineto_string dims, kineto_string types, uint8_t *precision)
{
    kineto_string dims_left = inside_list(dims), types_left = inside_list(types);
    double sum = 0;
    for (kineto_string type = next_member(&types_left); type.size;
         type = next_member(&types_left)) {
        double elements = elements_of(next_member(&dims_left));
        const type_size *size = elements > 0 ? type_of(type) : NULL;
        if (!size)
            continue;
        sum += elements * size->bytes;
        if (*precision == KA_PRECISION_UNKNOWN)
            *precision = size->precision;
    }
    return sum;
}

static double input_bytes(const roofline *r, uint32_t slice, uint8_t *precision)
{
    const kineto_trace *t = r->s->trace;
    kineto_row row = r->s->slices[slice].row;
    kineto_string dims = ka_arg_text(t, row, "Input Dims");
    char copy[2000];
    if (!dims.size || dims.size > sizeof copy)
        return 0;
    /* The text of an argument stays only until the next one is looked for. */
    memcpy(copy, dims.data, dims.size);
    return bytes_of((kineto_string){copy, dims.size}, ka_arg_text(t, row, "Input type"), precision);
}

/* ---- device time ---------------------------------------------------------------------------- */

static bool multiplies(const ka_class *c)
{
    return c->family == KA_FAMILY_GEMM || c->family == KA_FAMILY_CONVOLUTION ||
           c->family == KA_FAMILY_ATTENTION;
}

static void take_work(roofline *r)
{
    const ka_scope *s = r->s;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        uint32_t owner = w->call == KA_NONE ? KA_NONE : r->owner[w->call];
        const ka_class *c = &s->class_of[w->name];
        if (owner == KA_NONE || w->kind != KINETO_KIND_CONCURRENT_KERNEL ||
            w->type == KA_TYPE_COMMUNICATION)
            continue;
        r->device_ns[owner] = ka_add_ns(r->device_ns[owner], ka_work_ns(w));
        if (c->precision != KA_PRECISION_UNKNOWN &&
            (multiplies(c) || r->precision[owner] == KA_PRECISION_UNKNOWN))
            r->precision[owner] = c->precision;
    }
}

static void add_operator(roofline *r, uint32_t slice, bool want_bytes)
{
    uint32_t name = r->s->slices[slice].name;
    bool created;
    uint64_t *at = kb_map_insert(&r->index, name, r->all.count, &created);
    if (!at || (created && !kb_vec_push(&r->all, (sums){.name = name}))) {
        r->no_memory = true;
        return;
    }
    sums *to = &r->all.data[*at];
    uint8_t stated = KA_PRECISION_UNKNOWN;
    if (want_bytes || r->precision[slice] == KA_PRECISION_UNKNOWN)
        to->bytes += input_bytes(r, slice, &stated);
    if (r->precision[slice] == KA_PRECISION_UNKNOWN)
        r->precision[slice] = stated;
    to->calls++;
    to->device_ns = ka_add_ns(to->device_ns, r->device_ns[slice]);
    to->flops += (double)r->flops[slice];
    int64_t *ns = &to->ns_of[r->precision[slice]];
    *ns = ka_add_ns(*ns, r->device_ns[slice]);
}

/* ---- tables --------------------------------------------------------------------------------- */

static uint32_t longest(const int64_t *ns)
{
    uint32_t best = KA_PRECISION_UNKNOWN;
    for (uint32_t p = 0; p < KA_PRECISION_COUNT; p++)
        if (ns[p] > ns[best] || (ns[p] > 0 && best == KA_PRECISION_UNKNOWN))
            best = p;
    return best;
}

static void put_or_none(ka_table *t, double v, bool is_known)
{
    if (is_known)
        ka_put_number(t, v);
    else
        ka_put_none(t);
}

static const char *bound_by(double flops_pct, double bytes_pct, bool is_known)
{
    return !is_known                                                            ? "unknown"
           : flops_pct < LEAST_BOUND_PERCENT && bytes_pct < LEAST_BOUND_PERCENT ? "neither"
           : flops_pct >= bytes_pct                                             ? "compute"
                                                                                : "memory";
}

static void put_operator(const roofline *r, const ka_peaks *peaks, const sums *o, ka_table *t)
{
    double ns = (double)o->device_ns, peak = ka_peak_tflops(peaks, longest(o->ns_of));
    double tflops = ns > 0 ? o->flops / ns / 1000 : 0, gbps = ns > 0 ? o->bytes / ns : 0;
    double flops_pct = ka_percent(tflops, peak), bytes_pct = ka_percent(gbps, peaks->memory_gbps);
    if (!(o->flops > 0) && !(o->bytes > 0))
        return;
    ka_put_int(t, r->s->rank);
    ka_put_text(t, ka_name(r->s, o->name));
    ka_put_int(t, o->calls);
    ka_put_ns(t, o->device_ns);
    ka_put_number(t, o->flops);
    ka_put_number(t, o->bytes);
    ka_put_number(t, tflops);
    ka_put_number(t, gbps);
    put_or_none(t, flops_pct, peak > 0);
    put_or_none(t, bytes_pct, peaks->memory_gbps > 0);
    ka_put_text(t, kb_string(bound_by(flops_pct, bytes_pct, peaks->memory_gbps > 0)));
}

typedef struct step_sums {
    double flops;
    double flops_of[KA_PRECISION_COUNT];
} step_sums;

static uint32_t most_used(const step_sums *step)
{
    uint32_t best = KA_PRECISION_UNKNOWN;
    for (uint32_t p = 0; p < KA_PRECISION_COUNT; p++)
        if (p != KA_PRECISION_UNKNOWN && step->flops_of[p] > 0 &&
            (best == KA_PRECISION_UNKNOWN || step->flops_of[p] > step->flops_of[best]))
            best = p;
    return best;
}

static void put_step(const roofline *r, const ka_peaks *peaks, uint32_t devices, uint32_t index,
                     const step_sums *sum, ka_table *t)
{
    const ka_step *step = &r->s->steps[index];
    char text[32];
    uint32_t precision = most_used(sum);
    double peak = ka_peak_tflops(peaks, precision) * devices;
    int64_t ns = kb_length_ns(step->start_ns, step->end_ns);
    snprintf(text, sizeof text, "%llu", (unsigned long long)step->number);
    ka_put_int(t, r->s->rank);
    ka_put_text(t, kb_string(text));
    ka_put_ns(t, ns);
    ka_put_number(t, sum->flops);
    put_or_none(t, ns > 0 ? 100 * sum->flops / ((double)ns * 1000 * peak) : 0, peak > 0 && ns > 0);
    put_or_none(t, peak, peak > 0);
    ka_put_text(t, kb_string(ka_precision_name(precision)));
}

static bool put_steps(const roofline *r, const ka_peaks *peaks, uint32_t devices, ka_table *t)
{
    const ka_scope *s = r->s;
    step_sums *sum = calloc((size_t)s->step_count + 1, sizeof *sum);
    for (uint32_t i = 0; sum && i < s->slice_count; i++)
        if (s->slices[i].step >= 0 && r->flops[i] && r->owner[i] == i && r->device_ns[i] > 0) {
            step_sums *of = &sum[s->slices[i].step];
            of->flops += (double)r->flops[i];
            of->flops_of[r->precision[i]] += (double)r->flops[i];
        }
    for (uint32_t i = 0; sum && i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE)
            put_step(r, peaks, devices, i, &sum[i], t);
    free(sum);
    return sum != NULL;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static bool measure(roofline *r, bool want_bytes)
{
    size_t slices = (size_t)r->s->slice_count + 1;
    r->flops = calloc(slices, sizeof *r->flops);
    r->owner = malloc(slices * sizeof *r->owner);
    r->precision = calloc(slices, 1);
    r->device_ns = calloc(slices, sizeof *r->device_ns);
    r->known = calloc((size_t)r->s->name_count + 1, 1);
    if (!r->flops || !r->owner || !r->precision || !r->device_ns || !r->known ||
        !count_own_flops(r))
        return false;
    find_owners(r);
    take_work(r);
    for (uint32_t i = 0; i < r->s->slice_count && !r->no_memory; i++)
        if (r->owner[i] == i && r->device_ns[i] > 0 && (want_bytes || r->flops[i]))
            add_operator(r, i, want_bytes);
    return !r->no_memory;
}

static void roofline_free(roofline *r)
{
    free(r->flops);
    free(r->owner);
    free(r->precision);
    free(r->device_ns);
    free(r->known);
    kb_vec_free(&r->all);
    kb_map_free(&r->index);
}

static void note(const ka_scope *s, const ka_peaks *peaks, kineto_string device, bool any,
                 ka_table *t)
{
    if (!t)
        return;
    if (!s->work_count)
        ka_note_no_device(t);
    else if (!any)
        ka_note(t, "no operator with work on a device tells its shapes: record with record_shapes");
    else if (!peaks->words && device.size)
        ka_note(t, "what %.*s can do is not in the table of devices", (int)KB_MIN(device.size, 60u),
                device.data);
    else if (!peaks->words)
        ka_note(t, "the trace does not name its device, so there is nothing to compare with");
}

kineto_status ka_analyze_roofline(const ka_scope *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *operators = ka_table_of(a, KA_TABLE_roofline), *mfu = ka_table_of(a, KA_TABLE_mfu);
    roofline r = {.s = s};
    kineto_string device;
    uint32_t devices;
    const ka_peaks *peaks = ka_peaks_of_scope(s, &device, &devices);
    bool ok = !s->work_count || measure(&r, operators != NULL);
    for (size_t i = 0; ok && operators && i < r.all.count; i++)
        put_operator(&r, peaks, &r.all.data[i], operators);
    if (operators)
        ka_sort(operators, (const int[]){1, -4, 2, 0});
    if (ok && mfu && r.any_flops)
        ok = put_steps(&r, peaks, devices, mfu);
    note(s, peaks, device, operators && ka_table_rows(operators), operators);
    if (mfu && r.any_flops && !ka_table_rows(mfu))
        ka_note(mfu, "the trace has no steps: mark them with ranges named ProfilerStep#N");
    note(s, peaks, device, mfu && ka_table_rows(mfu), mfu);
    if (r.unusable)
        ka_note(mfu, "too little: the inputs of %llu calls do not say how much they compute",
                (unsigned long long)r.unusable);
    roofline_free(&r);
    return ok ? KINETO_OK : kb_fail(err, KINETO_E_MEMORY, "out of memory");
}

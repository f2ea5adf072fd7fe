/* The tables roofline and mfu: FLOPs and bytes of operators per device time, as shares of the
 * device's peaks, and the model FLOPs utilisation of steps.
 *
 * FLOPs of an operator are counted from its input shapes (summary/flops.h); what is counted for
 * operators inside it is subtracted. Device time belongs to the operator that launched it, or
 * to the operator with FLOPs that encloses that one. */
#include "analyze/facts/analyses.h"

/* Below this share of both peaks an operator is bound by neither. */
#define MIN_BOUND_PERCENT 10.0

/* What an operator's calls did, all together. */
typedef struct sums {
    uint32_t name;
    int64_t calls, device_ns;
    double flops, bytes;
    int64_t ns_of[KA_PRECISION_COUNT];
} sums;

/* State of the analysis. The owner of a slice is the operator that its work counts for: the
 * innermost one around it that has FLOPs or, if none has, the innermost. */
typedef struct roofline {
    const ka_dataset *s;
    uint64_t *flops;    /* by slice: its own, less what is counted inside */
    uint32_t *owner;    /* by slice: the operator that its work counts for */
    uint8_t *precision; /* by slice, of owners */
    int64_t *device_ns; /* by slice, of owners */
    uint32_t *place;    /* by name: 0 not met, else where it is in `all` + 1 */
    KB_VEC(sums) all;
    uint64_t unusable; /* calls that have a formula, but no usable shapes */
    bool any_flops, no_memory;
} roofline;

/* ---- operations ------------------------------------------------------------------------------ */

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

bool ka_own_flops(const ka_dataset *s, const ka_operator_calls *in, uint64_t *own,
                  uint64_t *unusable)
{
    /* A slice is enclosed by slices with smaller indices: backward, all inside it come before it,
     * and inside[i] is the sum of what was counted there. */
    uint64_t *inside = kb_array_zeroed((size_t)s->slice_count + 1, sizeof *inside);
    *unusable = 0;
    for (uint32_t i = s->slice_count; inside && i-- > 0;) {
        const ka_slice *slice = &s->slices[i];
        bool is_op = slice->kind == KINETO_KIND_CPU_OP;
        uint64_t all = is_op ? in->flops[slice->row] : 0;
        *unusable += is_op && !inside[i] && in->unusable[slice->row / 64] >> slice->row % 64 & 1;
        if (!all && !inside[i])
            continue; /* pages of zeros that are not written take no memory */
        if (all > inside[i])
            own[i] = all - inside[i];
        KB_ASSERT(slice->around == KA_NONE || slice->around < i);
        if (slice->around != KA_NONE)
            inside[slice->around] =
                add_saturated(inside[slice->around], KB_MAX(all, inside[i]));
    }
    free(inside);
    return inside != NULL;
}

/* False: out of memory. Sets any_flops, without which there is nothing to show for MFU. */
static bool count_own_flops(roofline *r, const ka_operator_calls *in)
{
    if (!ka_own_flops(r->s, in, r->flops, &r->unusable))
        return false;
    for (uint32_t i = 0; i < r->s->slice_count && !r->any_flops; i++)
        r->any_flops = r->flops[i] > 0;
    return true;
}

/* An operator inside one with FLOPs is part of its implementation, unless it has FLOPs itself.
 * Slices are in an order in which what encloses comes first, so that its owner is known. */
static void find_flop_owners(roofline *r)
{
    for (uint32_t i = 0; i < r->s->slice_count; i++) {
        const ka_slice *s = &r->s->slices[i];
        uint32_t around = s->around == KA_NONE ? KA_NONE : r->owner[s->around];
        bool is_own = s->kind == KINETO_KIND_CPU_OP &&
                      (around == KA_NONE || r->flops[i] || !r->flops[around]);
        r->owner[i] = is_own ? i : around;
    }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Sum over all tensors of elements times element size, from the lists of dimensions and types.
 * *precision becomes that of the first tensor with elements, if it is not known yet. */
static double bytes_of(kineto_string dims, kineto_string types, uint8_t *precision)
{
    kt_items all_dims = kt_items_of(dims), all_types = kt_items_of(types);
    kineto_string of_one, type;
    double sum = 0;
    while (kt_items_next(&all_types, &type) && kt_items_next(&all_dims, &of_one)) {
        int64_t elements;
        ka_dtype of = ka_dtype_of(type);
        if (!of.bytes || !kt_item_at(of_one, 0).size || !kt_sizes_product(of_one, &elements))
            continue;
        sum += (double)elements * of.bytes;
        if (elements && *precision == KA_PRECISION_UNKNOWN)
            *precision = of.precision;
    }
    return sum;
}

static double input_bytes(const roofline *r, uint32_t slice, uint8_t *precision)
{
    kineto_string texts[2];
    ka_arg_texts(r->s->trace, r->s->slices[slice].row, &ka_dims_and_types, texts);
    return bytes_of(texts[0], texts[1], precision);
}

/* ---- device time ----------------------------------------------------------------------------- */

/* Families whose kernels do most of an operator's FLOPs: their precision is taken over that of
 * helper kernels (casts, reductions). */
static bool multiplies_matrices(const ka_class *c)
{
    return c->family == KA_FAMILY_GEMM || c->family == KA_FAMILY_CONVOLUTION ||
           c->family == KA_FAMILY_ATTENTION;
}

/* Adds time of kernels to their owners. Copies and communication do not compute, and would
 * lower the FLOP rate. */
static void add_device_time(roofline *r)
{
    const ka_dataset *s = r->s;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        uint32_t owner = w->call == KA_NONE ? KA_NONE : r->owner[w->call];
        const ka_class *c = &s->class_of[w->name];
        KB_ASSERT(owner == KA_NONE || owner < s->slice_count);
        if (owner == KA_NONE || w->kind != KINETO_KIND_CONCURRENT_KERNEL ||
            w->type == KA_TYPE_COMMUNICATION)
            continue;
        r->device_ns[owner] = ka_add_ns(r->device_ns[owner], ka_work_ns(w));
        if (c->precision != KA_PRECISION_UNKNOWN &&
            (multiplies_matrices(c) || r->precision[owner] == KA_PRECISION_UNKNOWN))
            r->precision[owner] = c->precision;
    }
}

/* Adds one call to the sums of its name. Reading arguments is slow: only for bytes, or if the
 * precision is not known from the kernels. */
static void add_roofline_operator(roofline *r, uint32_t slice, bool want_bytes)
{
    uint32_t name = r->s->slices[slice].name;
    if (!r->place[name]) {
        if (!kb_vec_push(&r->all, (sums){.name = name})) {
            r->no_memory = true;
            return;
        }
        r->place[name] = (uint32_t)r->all.count;
    }
    KB_ASSERT(r->place[name] <= r->all.count);
    sums *to = &r->all.data[r->place[name] - 1];
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

/* ---- tables ---------------------------------------------------------------------------------- */

/* The precision with the most time; a known one wins over KA_PRECISION_UNKNOWN at the same
 * time. */
static uint32_t longest_precision(const int64_t *ns)
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

/* Values of the column "bound": the peak that the operator comes nearest to. */
static const char *bound_by(double flops_pct, double bytes_pct, bool is_known)
{
    return !is_known                                                            ? "unknown"
           : flops_pct < MIN_BOUND_PERCENT && bytes_pct < MIN_BOUND_PERCENT ? "neither"
           : flops_pct >= bytes_pct                                             ? "compute"
                                                                                : "memory";
}

/* FLOPs per ns / 1000 are TFLOPS; bytes per ns are GB/s. Operators without both are left out. */
static void put_roofline_operator(const roofline *r, const ka_peaks *peaks, const sums *o,
                                  ka_table *t)
{
    double ns = (double)o->device_ns, peak = ka_peak_tflops(peaks, longest_precision(o->ns_of));
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

/* Precision with the most FLOPs of a step, whose peak is the step's. */
static uint32_t most_used(const step_sums *step)
{
    uint32_t best = KA_PRECISION_UNKNOWN;
    for (uint32_t p = 0; p < KA_PRECISION_COUNT; p++)
        if (p != KA_PRECISION_UNKNOWN && step->flops_of[p] > 0 &&
            (best == KA_PRECISION_UNKNOWN || step->flops_of[p] > step->flops_of[best]))
            best = p;
    return best;
}

/* MFU as in the PaLM paper (Chowdhery et al., 2022): FLOPs of the model over what the devices
 * could have done in the same time. */
static void put_mfu_step(const roofline *r, const ka_peaks *peaks, uint32_t devices, uint32_t index,
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

/* Each has steps and devices of its own then. */
static bool several_processes(const ka_dataset *s)
{
    uint32_t i = 0;
    while (i < s->step_count && s->steps[i].process == s->steps[0].process)
        i++;
    return i < s->step_count;
}

/* `devices` is their number in the trace; merged traces of several processes use the number of
 * each process. False: out of memory. */
static bool put_mfu_steps(const roofline *r, const ka_peaks *peaks, uint32_t devices, ka_table *t)
{
    const ka_dataset *s = r->s;
    step_sums *sum = calloc((size_t)s->step_count + 1, sizeof *sum);
    for (uint32_t i = 0; sum && i < s->slice_count; i++)
        if (r->flops[i] && r->owner[i] == i && r->device_ns[i] > 0 && s->slices[i].step >= 0) {
            step_sums *of = &sum[s->slices[i].step];
            of->flops += (double)r->flops[i];
            of->flops_of[r->precision[i]] += (double)r->flops[i];
        }
    uint32_t *own = calloc((size_t)kineto_trace_process_count(s->trace) + 1, sizeof *own);
    bool merged = several_processes(s),
         ok = sum && own && (!merged || ka_devices_by_process(s, own));
    for (uint32_t i = 0; ok && i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE)
            put_mfu_step(r, peaks, merged ? own[s->steps[i].process] : devices, i, &sum[i], t);
    free(sum);
    free(own);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Fills all arrays of `r`. False: out of memory, also if `in` is NULL; roofline_free is needed
 * in any case. */
static bool measure_roofline(roofline *r, const ka_operator_calls *in, bool want_bytes)
{
    size_t slices = (size_t)r->s->slice_count + 1;
    r->flops = kb_array_zeroed(slices, sizeof *r->flops);
    r->owner = kb_array(slices, sizeof *r->owner);
    r->precision = calloc(slices, 1);
    r->device_ns = kb_array_zeroed(slices, sizeof *r->device_ns);
    r->place = calloc((size_t)r->s->name_count + 1, sizeof *r->place);
    if (!in || !r->flops || !r->owner || !r->precision || !r->device_ns || !r->place ||
        !count_own_flops(r, in))
        return false;
    find_flop_owners(r);
    add_device_time(r);
    for (uint32_t i = 0; i < r->s->slice_count && !r->no_memory; i++)
        if (r->owner[i] == i && r->device_ns[i] > 0 && (want_bytes || r->flops[i]))
            add_roofline_operator(r, i, want_bytes);
    return !r->no_memory;
}

static void roofline_free(roofline *r)
{
    free(r->flops);
    free(r->owner);
    free(r->precision);
    free(r->device_ns);
    free(r->place);
    kb_vec_free(&r->all);
}

/* Notes only the first missing prerequisite: without device work, shapes cannot be missing. */
static void note_roofline(const ka_dataset *s, const ka_peaks *peaks, kineto_string device,
                          bool any, ka_table *t)
{
    if (!t)
        return;
    if (!s->work_count)
        ka_note_no_device(t);
    else if (!any)
        ka_note(t, "no operator with work on a device has shapes%s",
                ka_is_torch(s->trace) ? ": record with record_shapes" : "");
    else if (!peaks->words && device.size)
        ka_note(t, "what %.*s can do is not in the table of devices", (int)KB_MIN(device.size, 60u),
                device.data);
    else if (!peaks->words)
        ka_note(t, "the trace does not name its device, so there is nothing to compare with");
}

/* Tables roofline and mfu. Without peaks for the device the shares are empty and a note says
 * so. */
kineto_status ka_analyze_roofline(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *operators = ka_table_of(a, KA_TABLE_roofline), *mfu = ka_table_of(a, KA_TABLE_mfu);
    roofline r = {.s = s};
    kineto_string device;
    uint32_t devices;
    const ka_peaks *peaks = ka_peaks_of_dataset(s, &device, &devices);
    ka_attribution v = {.dataset = s};
    bool ok = true;
    if (s->work_count) {
        if (ka_attribution_get(s, KA_ATTRIBUTION_FLOPS, &v, err))
            return KINETO_E_MEMORY;
        ok = measure_roofline(&r, ka_operator_calls_get(&v), operators != NULL);
    }
    for (size_t i = 0; ok && operators && i < r.all.count; i++)
        put_roofline_operator(&r, peaks, &r.all.data[i], operators);
    if (operators)
        KA_SORT(operators, KA_UP(roofline, rank), KA_DOWN(roofline, device_us),
                           KA_UP(roofline, operator));
    if (ok && mfu && r.any_flops)
        ok = put_mfu_steps(&r, peaks, devices, mfu);
    note_roofline(s, peaks, device, operators && ka_table_rows(operators), operators);
    if (mfu && r.any_flops && !ka_table_rows(mfu))
        ka_note(mfu, "the trace has no steps: mark them with ranges named ProfilerStep#N");
    note_roofline(s, peaks, device, mfu && ka_table_rows(mfu), mfu);
    if (r.unusable)
        ka_note(mfu, "too little: the inputs of %llu calls do not say how much they compute",
                (unsigned long long)r.unusable);
    roofline_free(&r);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

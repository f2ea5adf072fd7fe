/* Rules about matrix units (tensor cores, MFMA, XMX): products of matrices and convolutions
 * that do not use them, fully or in part, and 32-bit products without TF32.
 *
 * Kernels are classified by name (analyze/classes); which units a device has comes from its
 * compute capability or name. The assumed speedup is the mean of 1 and the ratio of the
 * device's peaks (device_peaks.def), limited by MAX_16_BIT and the like: real kernels never
 * reach the ratio of peaks. */
#include "analyze/findings/find_work.h"

/* What a kernel is to these rules. */
enum {
    OTHER,
    USES,       /* it multiplies on tensor cores */
    TF32_COULD, /* it multiplies 32-bit matrices, and the device would round them */
    COULD       /* it multiplies without, for whatever other reason */
};

#define MIN_PERCENT 1.0
/* Below this share of multiplications the program does not use tensor cores on purpose. */
#define USED_PERCENT 1.0
/* How much faster, at most, whatever peaks promise: kernels end bound by memory. */
#define MAX_16_BIT    3.0
#define MAX_TF32      3.0
#define MAX_FROM_16   2.0
#define ON_TOP_OF_TF32 (4.0 / 3)
#define UNKNOWN_DEVICE 2.0

/* All kernels by class, and what the device can do. Times are of kernels in steps. */
typedef struct products {
    uint8_t *is;         /* by work: what it is */
    int64_t device_ns;   /* of kernels that do not communicate */
    int64_t eligible_ns; /* … of operators that may use tensor cores */
    ka_amount uses, tf32_could, could;
    int64_t narrow_ns; /* of those that could: of 16 bits already */
    ka_matrix_unit unit;
    const ka_peaks *peaks;
    int64_t device;
} products;

/* ---- what kernels are ------------------------------------------------------------------------ */

/* Families that have variants for matrix units. */
static bool is_matrix_family(const ka_class *c)
{
    return c->family == KA_FAMILY_GEMM || c->family == KA_FAMILY_CONVOLUTION ||
           c->family == KA_FAMILY_ATTENTION || c->family == KA_FAMILY_RNN;
}

/* Products with vectors are bound by memory, and sums of partial results compute nothing:
 * neither gains from matrix units. */
static uint8_t is_matrix_vector(kineto_string name)
{
    return kb_string_contains(name, "gemv") || kb_string_contains(name, "dot_kernel") ||
           kb_string_contains(name, "gemmk1") || kb_string_contains(name, "gemmSN") ||
           kb_string_contains(name, "splitKreduce") || kb_string_contains(name, "reduce_1Block");
}

/* `tf32`: the device rounds 32-bit inputs for its matrix units. Double and integer products
 * have no faster type to change to. */
static uint8_t classify_product(const ka_work *w, const ka_class *c, bool by_vector, bool tf32)
{
    if (w->kind != KINETO_KIND_CONCURRENT_KERNEL || !is_matrix_family(c))
        return OTHER;
    if (c->tensor == KA_TENSOR_YES)
        return USES;
    if (c->tensor != KA_TENSOR_NO || by_vector || c->precision == KA_PRECISION_FP64 ||
        c->precision == KA_PRECISION_INT8 || c->precision == KA_PRECISION_INT4)
        return OTHER;
    return tf32 && c->family == KA_FAMILY_GEMM && c->precision == KA_PRECISION_FP32 ? TF32_COULD
                                                                                    : COULD;
}

static uint8_t is_eligible_operator(kineto_string name) { return ka_is_eligible(name); }

/* `operators` and `kernels` cache answers about names of operators and of kernels. */
static void add_product(ka_finder *f, products *p, ka_answers *operators, ka_answers *kernels)
{
    const ka_dataset *s = f->s;
    bool tf32 = ka_has_tf32(s->trace, p->device);
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        const ka_class *c = &s->class_of[w->name];
        if (w->kind != KINETO_KIND_CONCURRENT_KERNEL || w->type == KA_TYPE_COMMUNICATION ||
            !ka_is_in_steps(f, w->step))
            continue;
        int64_t ns = ka_work_ns(w);
        uint32_t op = ka_operator_of(s, w->call);
        p->is[i] = classify_product(w, c, ka_answer(s, kernels, w->name, is_matrix_vector), tf32);
        p->device_ns = ka_add_ns(p->device_ns, ns);
        if ((op != KA_NONE && ka_answer(s, operators, s->slices[op].name, is_eligible_operator)) ||
            p->is[i] != OTHER)
            p->eligible_ns = ka_add_ns(p->eligible_ns, ns);
        if (p->is[i] == USES)
            ka_amount_add(&p->uses, ns);
        if (p->is[i] == TF32_COULD)
            ka_amount_add(&p->tf32_could, ns);
        if (p->is[i] != COULD)
            continue;
        ka_amount_add(&p->could, ns);
        if (c->precision == KA_PRECISION_FP16 || c->precision == KA_PRECISION_BF16)
            p->narrow_ns = ka_add_ns(p->narrow_ns, ns);
    }
}

/* p->is is freed by the caller. False: out of memory. */
static bool list_products(ka_finder *f, products *p)
{
    ka_answers operators = {0}, kernels = {0};
    kineto_string name;
    uint32_t devices;
    int64_t device = ka_busiest_device(f->s);
    *p = (products){.is = calloc((size_t)f->s->work_count + 1, 1),
                    .unit = ka_matrix_unit_of(f->s->trace, device),
                    .peaks = ka_peaks_of_dataset(f->s, &name, &devices),
                    .device = device};
    f->no_memory |= !p->is;
    bool ok = p->is && ka_answers_make(f, &operators) && ka_answers_make(f, &kernels);
    if (ok)
        add_product(f, p, &operators, &kernels);
    ka_answers_free(&operators);
    ka_answers_free(&kernels);
    return ok;
}

/* Matrix units of devices other than NVIDIA's, AMD's and Intel's are not known. */
static bool has_device_peaks(ka_finder *f)
{
    int64_t device = ka_busiest_device(f->s);
    kineto_string name = ka_device_text(f->s->trace, device, "name");
    if (ka_device_number(f->s->trace, device, "computeMajor") >= 0 ||
        kb_string_contains(name, "Intel"))
        return true;
    ka_skip_rule(f, "the trace does not say which units device %lld (%s) has", (long long)device,
                    name.size ? ka_short_name(name).s : "no name");
    return false;
}

/* ---- how much faster they would be ----------------------------------------------------------- */

/* The mean of 1 and the ratio of the peaks, at most `most`; an unknown ratio gives
 * UNKNOWN_DEVICE. */
static double estimate_speedup(double peak, double now, double most)
{
    double ratio = peak > 0 && now > 0 ? peak / now : 2 * UNKNOWN_DEVICE - 1;
    return KB_MIN(most, KB_MAX(1, (1 + ratio) / 2));
}

static double speedup_16_bit(const products *p)
{
    return estimate_speedup(KB_MAX(p->peaks->bf16, p->peaks->fp16), p->peaks->fp32, MAX_16_BIT);
}

static double speedup_tf32(const products *p)
{
    return estimate_speedup(p->peaks->tf32, p->peaks->fp32, MAX_TF32);
}

static bool is_narrow(const ka_dataset *s, const ka_work *w)
{
    uint8_t precision = s->class_of[w->name].precision;
    return precision == KA_PRECISION_FP16 || precision == KA_PRECISION_BF16;
}

/* How much faster kernels of 16 bits are taken to be, where others are `times`. */
static double from_16_bit(double times) { return KB_MIN(times, MAX_FROM_16); }

/* Savings if products that could use TF32 were `tf32` times as fast, and others `others` times
 * (those of 16 bits at most MAX_FROM_16 times). KA_NO_SAVINGS: not known. */
static int64_t savings_of_speedup(ka_finder *f, const products *p, double tf32, double others)
{
    ka_factors x;
    int64_t saved = KA_NO_SAVINGS;
    bool ok = ka_factors_make(f, &x);
    for (uint32_t i = 0; ok && i < f->s->work_count; i++)
        if (p->is[i] == TF32_COULD)
            x.work[i] = 1 / tf32;
        else if (p->is[i] == COULD)
            x.work[i] = 1 / (is_narrow(f->s, &f->s->work[i]) ? from_16_bit(others) : others);
    if (ok)
        saved = ka_saved_with(f, &x);
    ka_factors_free(&x);
    return saved;
}

static bool no_product_uses_tensor_cores(const products *p)
{
    int64_t all = ka_add_ns(p->uses.ns, ka_add_ns(p->tf32_could.ns, p->could.ns));
    return ka_percent((double)p->uses.ns, (double)all) < USED_PERCENT;
}

/* ---- tensor cores ---------------------------------------------------------------------------- */

/* Depends on the device: before compute capability 8.0 it has float16 only, which needs a
 * scaled loss. */
static void advise_16_bit(ka_finder *f, ka_found *x, const products *p)
{
    double major = ka_device_number(f->s->trace, p->device, "computeMajor");
    if (p->narrow_ns > p->could.ns / 2 + p->tf32_could.ns)
        ka_advise(f, x,
                  "Types have 16 bits already, so look at shapes and layouts: sizes that are "
                  "multiples of 8 and channels_last");
    else if (p->unit == KA_MATRIX_XMX)
        ka_advise(f, x,
                  "Run the forward pass and the loss under torch.autocast(\"xpu\", "
                  "dtype=torch.bfloat16)");
    else if (p->unit == KA_MATRIX_TENSOR && major < 8)
        ka_advise(f, x,
                  "Run the forward pass and the loss under torch.autocast(\"cuda\", "
                  "dtype=torch.float16) and scale the loss with torch.amp.GradScaler(\"cuda\"): "
                  "this device has no bfloat16; convolutions also want channels_last");
    else
        ka_advise(f, x,
                  "Run the forward pass and the loss under torch.autocast(\"cuda\", "
                  "dtype=torch.bfloat16)%s",
                  p->tf32_could.ns ? ", on top of torch.set_float32_matmul_precision(\"high\")"
                                   : "");
}

/* Savings of 16-bit types. On a device with TF32 the part that 32-bit products gain without
 * autocast is subtracted: precision.fp32_matmul reports it. */
static int64_t saved_by_16_bit(ka_finder *f, const products *p, double narrow, double rounded)
{
    int64_t saved = savings_of_speedup(f, p, rounded, narrow);
    if (p->tf32_could.count && saved != KA_NO_SAVINGS)
        saved -= kb_max_i64(savings_of_speedup(f, p, speedup_tf32(p), 1), 0);
    return saved;
}

/* Device time that these kernels take less, if nothing else limits the step. */
static double max_product_savings(const products *p, double narrow, double rounded)
{
    return (1 - 1 / narrow) * (double)(p->could.ns - p->narrow_ns) +
           (1 - 1 / from_16_bit(narrow)) * (double)p->narrow_ns +
           (1 - 1 / rounded) * (double)p->tf32_could.ns;
}

/* The largest of the speedups that apply to any of the kernels. */
static double max_product_time(const products *p, double narrow, double rounded)
{
    double times = p->tf32_could.count ? rounded : 1;
    return KB_MAX(times, p->narrow_ns < p->could.ns ? narrow
                         : p->could.count           ? from_16_bit(narrow)
                                                    : 1);
}

/* Reported also where steps wait for something else: it counts once that is fixed. */
static void report_tensor_cores(ka_finder *f, products *p)
{
    double narrow = speedup_16_bit(p),
           rounded = p->tf32_could.count ? speedup_tf32(p) * ON_TOP_OF_TF32 : narrow,
           most = max_product_savings(p, narrow, rounded);
    if (100 * most < MIN_PERCENT * (double)f->whole_ns)
        return;
    int64_t saved = saved_by_16_bit(f, p, narrow, rounded);
    ka_found *x = ka_open_finding(f, saved, 0.5, kb_string(""));
    if (!x)
        return;
    x->count = p->could.count + p->tf32_could.count;
    ka_say(f, x,
           "%.1f %% of kernel time is in operators that could use %s, and none of it does; the "
           "kernels that multiply without, %.1f %%, are assumed to be %.1f times as fast with%s",
           ka_percent((double)p->eligible_ns, (double)p->device_ns), ka_matrix_unit_name(p->unit),
           ka_percent((double)ka_add_ns(p->could.ns, p->tf32_could.ns), (double)p->device_ns),
           max_product_time(p, narrow, rounded),
           saved != KA_NO_SAVINGS && (double)saved < most / 4
               ? ", which would shorten steps little: they wait for other things first"
               : "");
    advise_16_bit(f, x, p);
    ka_show_work(f, x, p->is, p->could.ns >= p->tf32_could.ns ? COULD : TF32_COULD);
}

/* No product uses the matrix units, though operators could. */
void ka_find_tensor_cores(ka_finder *f)
{
    products p;
    if (!has_device_peaks(f))
        return;
    if (list_products(f, &p) && p.unit != KA_MATRIX_NONE && p.eligible_ns > 0 &&
        no_product_uses_tensor_cores(&p))
        report_tensor_cores(f, &p);
    free(p.is);
}

/* ---- TF32 ------------------------------------------------------------------------------------ */

static void report_fp32_matmul(ka_finder *f, products *p)
{
    double times = speedup_tf32(p);
    int64_t saved = savings_of_speedup(f, p, times, 1);
    if (!ka_is_significant(f, saved, MIN_PERCENT))
        return;
    ka_found *x = ka_open_finding(f, saved, 0.6, kb_string(""));
    if (!x)
        return;
    x->count = p->tf32_could.count;
    ka_say(f, x,
           "%llu products of 32-bit matrices run without tensor cores and take %.1f %% of the "
           "time of kernels that compute; with inputs rounded to TF32 they are assumed to be %.1f "
           "times as fast",
           (unsigned long long)p->tf32_could.count,
           ka_percent((double)p->tf32_could.ns, (double)p->device_ns), times);
    ka_advise(f, x,
              "torch.set_float32_matmul_precision(\"high\") at the start of the program (or "
              "torch.backends.cuda.matmul.allow_tf32 = True); inputs keep 10 bits of their "
              "mantissa, sums keep 32");
    ka_show_work(f, x, p->is, TF32_COULD);
}

/* Products of 32-bit matrices on devices with TF32, without it. */
void ka_find_fp32_matmul(ka_finder *f)
{
    products p;
    if (!has_device_peaks(f))
        return;
    if (list_products(f, &p) && p.tf32_could.count)
        report_fp32_matmul(f, &p);
    free(p.is);
}

/* ---- the rest of a model that uses them ------------------------------------------------------ */

/* Takes out 16-bit matrix products that do not use the matrix units:
 * precision.unaligned_matmul reports them. */
static void drop_narrow_products(const ka_dataset *s, products *p)
{
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (p->is[i] != COULD || s->class_of[w->name].family != KA_FAMILY_GEMM || !is_narrow(s, w))
            continue;
        p->is[i] = OTHER;
        p->could.ns -= ka_work_ns(w);
        p->narrow_ns -= ka_work_ns(w);
        p->could.count--;
    }
}

static void report_fp32_partly(ka_finder *f, products *p)
{
    drop_narrow_products(f->s, p);
    int64_t saved = savings_of_speedup(f, p, 1, speedup_16_bit(p));
    if (!ka_is_significant(f, saved, MIN_PERCENT))
        return;
    ka_found *x = ka_open_finding(f, saved, 0.4, kb_string(""));
    if (!x)
        return;
    x->count = p->could.count;
    ka_say(f, x,
           "%llu kernels that multiply matrices or convolve do so without %s and take %.1f %% of "
           "kernel time; %.1f %% use them",
           (unsigned long long)p->could.count, ka_matrix_unit_name(p->unit),
           ka_percent((double)p->could.ns, (double)p->device_ns),
           ka_percent((double)p->uses.ns, (double)p->device_ns));
    if (p->narrow_ns > p->could.ns / 2)
        ka_advise(f, x,
                  "Their types have 16 bits already: make sizes multiples of 8, use channels_last, "
                  "and look at whether another kernel can be chosen "
                  "(torch.backends.cudnn.benchmark = True)");
    else
        ka_advise(f, x,
                  "Bring these operators under torch.autocast too, or cast their inputs: look for "
                  ".float(), autocast(enabled=False) and modules kept in 32 bits around them");
    ka_show_work(f, x, p->is, COULD);
}

/* Most products use the matrix units; the others are reported. */
void ka_find_fp32_partly(ka_finder *f)
{
    products p;
    if (!has_device_peaks(f))
        return;
    if (list_products(f, &p) && p.unit != KA_MATRIX_NONE && p.could.count &&
        !no_product_uses_tensor_cores(&p))
        report_fp32_partly(f, &p);
    free(p.is);
}

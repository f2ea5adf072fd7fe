/* Rules about sizes that tensor cores and wide loads do not fit: matrices and convolutions
 * whose dimensions are not multiples of 8 (16 bits) or 4 (32 bits).
 *
 * Sizes are "Input Dims" of the operator that launched the kernel. Operators with the same name
 * and shapes are one entry; the savings are those of its kernels if the sizes were rounded up
 * and the kernel became faster by FASTER_*. */
#include "analyze/findings/find_work.h"

enum { OTHER, ALIGNED, MATMUL_16, SHAPES };

#define MIN_PERCENT  1.0
#define MIN_CHANNELS 5   /* fewer are what pictures have, or a convolution for each channel */
#define MIN_ROWS     9   /* fewer are a batch, which is not rounded up */
#define FASTER_UNUSED  2.0 /* than 16-bit products that were kept from tensor cores */
#define FASTER_USED    1.25
#define MAX_SIZES     3u

/* Operators with the same name and sizes. `padded` is the factor by which work grows if the
 * sizes are rounded up; `is` says which rule the sizes belong to. */
typedef struct shape {
    uint8_t is;
    uint32_t op; /* the first call */
    ka_amount kernels;
    double padded;                 /* times of its work if sizes were rounded up */
    int64_t sizes[MAX_SIZES];     /* those that do not fit … */
    uint32_t size_count, multiple; /* … what they should be multiples of */
} shape;

/* All entries; `of` caches the entry of each operator's call. */
typedef struct shapes {
    KB_VEC(shape) list;
    kb_map by_text;
    uint32_t *of; /* by slice: index of list + 1; 0: not asked */
    ka_answers ops;
} shapes;

/* ---- which sizes count ----------------------------------------------------------------------- */

enum { NO_PRODUCT, MM, ADDMM, CONVOLUTION, CONVOLUTION_OF_WEIGHTS };

static uint8_t classify_shape_product(kineto_string name)
{
    static const struct {
        const char *name;
        uint8_t is;
    } exact[] = {
        {"aten::mm", MM}, {"aten::bmm", MM}, {"aten::addmm", ADDMM}, {"aten::baddbmm", ADDMM}};
    for (size_t i = 0; i < KB_COUNT(exact); i++)
        if (kb_string_equal(name, kb_string(exact[i].name)))
            return exact[i].is;
    if (!kb_string_starts_with(name, "aten::") || kb_string_contains(name, "transpose"))
        return NO_PRODUCT;
    if (kb_string_contains(name, "convolution_backward_weight"))
        return CONVOLUTION_OF_WEIGHTS;
    return kb_string_contains(name, "convolution") || kb_string_starts_with(name, "aten::conv")
               ? CONVOLUTION
               : NO_PRODUCT;
}

/* Notes a size that is not a multiple; sizes below `least` are not rounded up. A size counts
 * once. */
static void want_multiple(shape *to, int64_t size, int64_t least)
{
    if (size < least || size % to->multiple == 0)
        return;
    for (uint32_t i = 0; i < to->size_count; i++)
        if (to->sizes[i] == size)
            return;
    to->padded *= (double)ka_round_up(size, to->multiple) / (double)size;
    if (to->size_count < MAX_SIZES)
        to->sizes[to->size_count++] = size;
}

/* Elements of a load of 16 bytes, the widest; 0: the element type is not known. */
static uint32_t load_multiple(const ka_shape *a)
{
    return a->bytes == 2 ? 8 : a->bytes == 4 ? 4 : 0;
}

/* Sizes M, K and N of a product of a [..., M, K] and b [..., K, N]. */
static void check_product_shape(shape *to, const ka_shape *a, const ka_shape *b)
{
    if (a->rank < 2 || b->rank < 2 || !load_multiple(a))
        return;
    to->multiple = load_multiple(a);
    want_multiple(to, a->dims[a->rank - 2], MIN_ROWS);
    want_multiple(to, a->dims[a->rank - 1], 1);
    want_multiple(to, b->dims[b->rank - 1], 1);
    to->is = to->size_count ? (a->bytes == 2 ? MATMUL_16 : SHAPES) : ALIGNED;
}

/* Activations have channels after the batch, weights the output channels before the input
 * in; weights are the last tensor that has as many dimensions. */
static void check_convolution_shape(shape *to, const ka_shapes *in, bool of_weights)
{
    uint32_t weights = KA_NONE;
    for (uint32_t i = 0; i < in->count; i++)
        if (in->of[i].rank >= 3) {
            weights = of_weights ? KA_NONE : i;
            to->multiple = load_multiple(&in->of[i]);
        }
    if (!to->multiple)
        return;
    for (uint32_t i = 0; i < in->count; i++)
        if (in->of[i].rank >= 3)
            want_multiple(to, in->of[i].dims[1], MIN_CHANNELS);
    if (weights != KA_NONE)
        want_multiple(to, in->of[weights].dims[0], MIN_CHANNELS);
    to->is = to->size_count ? SHAPES : ALIGNED;
}

/* The entry of an operator by its inputs. addmm has the tensor that is added before both
 * factors. */
static shape read_operator_shape(const ka_shapes *in, uint8_t product, uint32_t op)
{
    shape fresh = {.is = ALIGNED, .op = op, .padded = 1, .multiple = 8};
    uint32_t first = product == ADDMM;
    if (product >= CONVOLUTION)
        check_convolution_shape(&fresh, in, product == CONVOLUTION_OF_WEIGHTS);
    else if (first + 2 <= in->count)
        check_product_shape(&fresh, &in->of[first], &in->of[first + 1]);
    return fresh;
}

/* ---- which operators have them --------------------------------------------------------------- */

/* Index of the entry with the same name and inputs, so that equal calls are checked once. 0 if
 * memory ran out (f->no_memory). */
static uint32_t find_or_add_shape(ka_finder *f, shapes *all, uint32_t op, uint8_t product)
{
    const ka_slice *slice = &f->s->slices[op];
    ka_shapes in;
    bool created;
    (void)ka_shapes_of(f->s->trace, slice->row, &in); /* all zero if it does not say */
    uint64_t key = kb_hash_seeded(slice->name, &in, sizeof in);
    uint64_t *at = kb_map_insert(&all->by_text, key, all->list.count, &created);
    if (!at || (created && !kb_vec_push(&all->list, read_operator_shape(&in, product, op)))) {
        f->no_memory = true;
        return 0;
    }
    return (uint32_t)*at;
}

/* NULL: the operator is not a product, or memory ran out. */
static shape *operator_shape_at(ka_finder *f, shapes *all, uint32_t op)
{
    uint8_t product = ka_answer(f->s, &all->ops, f->s->slices[op].name, classify_shape_product);
    if (product == NO_PRODUCT)
        return NULL;
    if (!all->of[op])
        all->of[op] = find_or_add_shape(f, all, op, product) + 1;
    return f->no_memory ? NULL : &all->list.data[all->of[op] - 1];
}

/* Kernels of an operator that do not multiply (copies, reductions) do not depend on the
 * alignment. */
static bool is_product_work(const ka_dataset *s, const ka_work *w)
{
    uint8_t family = s->class_of[w->name].family;
    return w->kind == KINETO_KIND_CONCURRENT_KERNEL &&
           (family == KA_FAMILY_GEMM || family == KA_FAMILY_CONVOLUTION);
}

/* Adds the kernels of operators with the wanted sizes; in `x` they take the padded time,
 * divided by the assumed speedup. */
static void add_shape_work(ka_finder *f, shapes *all, uint8_t wanted, ka_factors *x)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->work_count && !f->no_memory; i++) {
        const ka_work *w = &s->work[i];
        uint32_t op = ka_is_in_steps(f, w->step) && is_product_work(s, w)
                          ? ka_operator_of(s, w->call)
                          : KA_NONE;
        shape *of = op == KA_NONE ? NULL : operator_shape_at(f, all, op);
        if (!of || of->is != wanted)
            continue;
        bool unused = wanted == MATMUL_16 && s->class_of[w->name].tensor == KA_TENSOR_NO;
        ka_amount_add(&of->kernels, ka_work_ns(w));
        x->work[i] = KB_MIN(1, of->padded / (unused ? FASTER_UNUSED : FASTER_USED));
    }
}

/* ---- the report ------------------------------------------------------------------------------ */

static int compare_shape_times(const void *left, const void *right)
{
    const shape *a = left, *b = right;
    if (a->kernels.ns != b->kernels.ns)
        return a->kernels.ns > b->kernels.ns ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

/* "1000 to 1008, 65 to 72": each size with the multiple above it. */
static kb_text rounding_text(const shape *of)
{
    kb_text text = {""};
    size_t n = 0;
    for (uint32_t i = 0; i < of->size_count && n < 40; i++)
        n += (size_t)snprintf(text.s + n, sizeof text.s - n, "%s%lld to %lld", i ? ", " : "",
                              (long long)of->sizes[i],
                              (long long)ka_round_up(of->sizes[i], of->multiple));
    return text;
}

static void show_shapes(ka_finder *f, ka_found *x, const shapes *all)
{
    const ka_dataset *s = f->s;
    for (size_t i = 0; i < KB_MIN(all->list.count, (size_t)f->evidence_limit); i++) {
        const shape *of = &all->list.data[i];
        ka_shapes in;
        if (!of->kernels.count)
            break;
        (void)ka_shapes_of(s->trace, s->slices[of->op].row, &in);
        kineto_string stack = ka_stack_of(f, of->op);
        ka_show_row(f, x, s->slices[of->op].row, of->kernels.ns,
                    "%s: round %s; %llu kernels, %s%s%.*s", ka_shapes_text(&in).s,
                    rounding_text(of).s, (unsigned long long)of->kernels.count,
                    kb_duration(of->kernels.ns).s, stack.size ? "; called by " : "",
                    (int)stack.size, stack.data);
    }
}

static void report_shapes(ka_finder *f, shapes *all, const char *what, int64_t saved)
{
    ka_found *x = ka_open_finding(f, saved, 0.4, kb_string(""));
    ka_amount sum = {0};
    if (!x)
        return;
    qsort(all->list.data, all->list.count, sizeof *all->list.data, compare_shape_times);
    for (size_t i = 0; i < all->list.count; i++) {
        sum.ns = ka_add_ns(sum.ns, all->list.data[i].kernels.ns);
        sum.count += all->list.data[i].kernels.count;
    }
    const shape *most = &all->list.data[0];
    ka_shapes in;
    (void)ka_shapes_of(f->s->trace, f->s->slices[most->op].row, &in);
    kb_text name = ka_short_name(ka_name(f->s, f->s->slices[most->op].name)),
            sizes = ka_shapes_text(&in);
    x->count = sum.count;
    ka_say(
        f, x,
        "%llu kernels of %s have sizes that are not multiples of %u and take %s, %.1f %% of all; "
        "most of it %s %s",
        (unsigned long long)sum.count, what, most->multiple, kb_duration(sum.ns).s,
        ka_share(f, sum.ns), name.s, sizes.s);
    ka_advise(f, x, "Round up where the model or the batch is made: %s for %s %s%s",
              rounding_text(most).s, name.s, sizes.s,
              most->multiple == 8 ? " (multiples of 64 are better still)" : "");
    show_shapes(f, x, all);
}

/* The common part of both rules; `wanted` is the class of sizes, `what` names the kernels. */
static void check_shapes(ka_finder *f, uint8_t wanted, const char *what)
{
    shapes all = {.of = calloc((size_t)f->s->slice_count + 1, sizeof *all.of)};
    ka_factors x = {0};
    f->no_memory |= !all.of;
    if (!f->no_memory && ka_answers_make(f, &all.ops) && ka_factors_make(f, &x))
        add_shape_work(f, &all, wanted, &x);
    int64_t saved = f->no_memory || !all.list.count ? 0 : ka_saved_with(f, &x);
    if (!f->no_memory && ka_is_significant(f, saved, MIN_PERCENT))
        report_shapes(f, &all, what, saved);
    ka_factors_free(&x);
    ka_answers_free(&all.ops);
    kb_vec_free(&all.list);
    kb_map_free(&all.by_text);
    free(all.of);
}

void ka_find_unaligned_matmul(ka_finder *f)
{
    check_shapes(f, MATMUL_16, "products of 16-bit matrices");
}

void ka_find_unaligned_shapes(ka_finder *f)
{
    check_shapes(f, SHAPES, "convolutions and products of 32-bit matrices");
}

/* Programs that compute on the host: operators of a trace without devices. What limits them is how
 * many cores they use, how much memory they move, and how much is done outside of large operators.
 *
 * A trace says neither how many cores there are nor how fast memory is. So rules compare with what
 * one core of any machine of today does, and say what they assume. */
#include "analyze/findings/find_time.h"
#include "analyze/dataset/attribution.h"

#define MIN_PERCENT 5.0

/* ---- operators by what they do --------------------------------------------------------------- */

/* Classes of operators: products of matrices, copies, and operators that do little with each
 * number (element-wise, normalization, softmax, sums). */
enum { OP_OTHER, OP_PRODUCT, OP_COPY, OP_ELEMENTWISE };

static bool is_name_in_list(kineto_string name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_equal(name, kb_string(list[i])))
            return true;
    return false;
}

/* Class of an operator of PyTorch by its exact name; other names are OP_OTHER. */
static uint8_t classify_host_operator(kineto_string name)
{
    static const char *const copies[] = {"copy_", "clone", "contiguous", "cat", "stack", "_to_copy",
                                         "to", "repeat", "constant_pad_nd"};
    static const char *const elementwise[] = {"add",
                                              "add_",
                                              "sub",
                                              "sub_",
                                              "rsub",
                                              "mul",
                                              "mul_",
                                              "div",
                                              "div_",
                                              "neg",
                                              "exp",
                                              "log",
                                              "sqrt",
                                              "sqrt_",
                                              "rsqrt",
                                              "pow",
                                              "abs",
                                              "relu",
                                              "relu_",
                                              "threshold_backward",
                                              "gelu",
                                              "gelu_backward",
                                              "silu",
                                              "silu_",
                                              "silu_backward",
                                              "sigmoid",
                                              "sigmoid_",
                                              "sigmoid_backward",
                                              "tanh",
                                              "tanh_",
                                              "tanh_backward",
                                              "leaky_relu",
                                              "leaky_relu_",
                                              "leaky_relu_backward",
                                              "elu",
                                              "hardtanh",
                                              "hardtanh_",
                                              "where",
                                              "masked_fill",
                                              "masked_fill_",
                                              "clamp",
                                              "clamp_",
                                              "clamp_min",
                                              "clamp_min_",
                                              "eq",
                                              "ne",
                                              "lt",
                                              "gt",
                                              "le",
                                              "ge",
                                              "addcmul",
                                              "addcmul_",
                                              "addcdiv",
                                              "addcdiv_",
                                              "lerp",
                                              "lerp_",
                                              "fill_",
                                              "zero_",
                                              "sum",
                                              "mean",
                                              "native_layer_norm",
                                              "native_layer_norm_backward",
                                              "native_batch_norm",
                                              "native_batch_norm_backward",
                                              "native_group_norm",
                                              "native_group_norm_backward",
                                              "_softmax",
                                              "_softmax_backward_data",
                                              "_log_softmax",
                                              "_log_softmax_backward_data"};
    if (!kb_string_starts_with(name, "aten::"))
        return OP_OTHER;
    if (ka_is_eligible(name))
        return OP_PRODUCT;
    name = (kineto_string){name.data + 6, name.size - 6};
    return is_name_in_list(name, copies, KB_COUNT(copies))             ? OP_COPY
           : is_name_in_list(name, elementwise, KB_COUNT(elementwise)) ? OP_ELEMENTWISE
                                                                 : OP_OTHER;
}

/* Operators in steps with their own time: without that of operators inside them. Data loaders
 * are left out. Rules scale their time in `x` to estimate savings. */
typedef struct host_operators {
    int64_t *self_ns; /* by slice; 0: not an operator that counts */
    uint8_t *kind;    /* by slice */
    ka_factors x;
} host_operators;

static void free_host_operators(host_operators *o)
{
    free(o->self_ns);
    free(o->kind);
    ka_factors_free(&o->x);
}

/* Slices are in an order in which what encloses comes first: its own time is set before the
 * operators inside reduce it. */
static void fill_host_operators(ka_finder *f, host_operators *o, ka_answers *names)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        if (slice->kind != KINETO_KIND_CPU_OP)
            continue;
        uint32_t around = ka_operator_around(s, i);
        if (around != KA_NONE)
            o->self_ns[around] = KB_MAX(o->self_ns[around] - ka_slice_ns(slice), 0);
        if (ka_is_in_steps(f, slice->step) && !ka_is_dataloader(ka_name(s, slice->name))) {
            o->self_ns[i] = KB_MAX(ka_slice_ns(slice), 0);
            o->kind[i] = ka_answer(s, names, slice->name, classify_host_operator);
        }
    }
}

/* Operators of a trace without devices. False: the trace has devices, or allocation failed. To be
 * freed in any case. */
static bool list_host_operators(ka_finder *f, host_operators *o)
{
    ka_answers names = {0};
    *o = (host_operators){0};
    if (!f->host_only)
        return false;
    o->self_ns = calloc((size_t)f->s->slice_count + 1, sizeof *o->self_ns);
    o->kind = calloc((size_t)f->s->slice_count + 1, 1);
    f->no_memory |= !o->self_ns || !o->kind;
    if (!f->no_memory && ka_answers_make(f, &names) && ka_factors_make(f, &o->x))
        fill_host_operators(f, o, &names);
    ka_answers_free(&names);
    return !f->no_memory;
}

/* Savings with the times of o->x, at most most_ns, which also stands in where the critical
 * path is not known. */
static int64_t estimate_host_savings(ka_finder *f, const host_operators *o, int64_t most_ns)
{
    int64_t saved = ka_saved_with(f, &o->x);
    return saved == KA_NO_SAVINGS ? most_ns : KB_MIN(saved, most_ns);
}

/* Evidence: of each name the longest, weighed with all of the name. `chosen` is by slice. */
typedef struct of_name {
    int64_t ns;
    uint64_t count;
    uint32_t longest; /* slice */
} of_name;

static int compare_host_names(const void *left, const void *right)
{
    const of_name *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return (a->longest > b->longest) - (a->longest < b->longest);
}

/* Shows the longest call of each chosen name, with the sum over the name; `x` may be NULL. */
static void show_operators(ka_finder *f, ka_found *x, const host_operators *o, const uint8_t *chosen
                           )
{
    const ka_dataset *s = f->s;
    size_t count = (size_t)kineto_trace_string_count(s->trace) + 1;
    of_name *names = x ? calloc(count, sizeof *names) : NULL;
    f->no_memory |= x && !names;
    for (uint32_t i = 0; names && i < s->slice_count; i++) {
        of_name *n = &names[s->slices[i].name];
        if (!chosen[i])
            continue;
        if (!n->count++ || o->self_ns[i] > o->self_ns[n->longest])
            n->longest = i;
        n->ns = ka_add_ns(n->ns, o->self_ns[i]);
    }
    if (names)
        qsort(names, count, sizeof *names, compare_host_names);
    for (uint32_t i = 0; names && i < KB_MIN(count, (size_t)f->evidence_limit) && names[i].count;
         i++) {
        ka_shapes in = {0};
        (void)ka_shapes_of(s->trace, s->slices[names[i].longest].row, &in);
        kineto_string stack = ka_stack_of(f, names[i].longest);
        kb_text shapes = ka_shapes_text(&in);
        ka_show_row(f, x, s->slices[names[i].longest].row, names[i].ns,
                    "%llu calls of this name take %s of self time%s%s%s%.*s",
                    (unsigned long long)names[i].count, kb_duration(names[i].ns).s,
                    shapes.s[0] ? "; of " : "", shapes.s, stack.size ? ", called by " : "",
                    (int)stack.size, stack.data);
    }
    free(names);
}

/* ---- cores that products of matrices use ----------------------------------------------------- */

/* Limits are of one core with AVX2 or NEON: libraries reach about 100 GFLOP/s in 32 bits at
 * most. Slower than SLOW_CORE_GFLOPS is slower than one core that works alone. */
#define MIN_FLOPS        1e6   /* of an operator: smaller ones gain nothing from several threads */
#define ONE_CORE_GFLOPS  100.0 /* in 32 bits: what one core does, at most, as libraries use it */
#define SLOW_CORE_GFLOPS 8.0   /* slower than one core at work */
#define PRODUCTS_PERCENT 10.0
#define MORE_CORES       2.0 /* what more threads are taken to make of it */

/* Operators with FLOPs; `slowest` is the one with the longest call. */
typedef struct products {
    uint8_t *chosen; /* by slice */
    double flops;
    ka_amount all;
    uint32_t slowest; /* slice */
} products;

/* Chooses operators with FLOPs of their own (ka_own_flops), and assumes in o->x that they
 * become MORE_CORES times as fast. p->chosen is freed by the caller. False: out of memory. */
static bool find_products(ka_finder *f, host_operators *o, products *p)
{
    const ka_dataset *s = f->s;
    ka_attribution view;
    kineto_error err = {0};
    const ka_operator_calls *in = NULL;
    uint64_t unusable, *own = kb_array_zeroed((size_t)s->slice_count + 1, sizeof *own);
    p->chosen = calloc((size_t)s->slice_count + 1, 1);
    f->no_memory |= !own || !p->chosen;
    if (!f->no_memory && ka_attribution_get(s, KA_ATTRIBUTION_FLOPS, &view, &err) == KINETO_OK)
        in = ka_operator_calls_get(&view);
    if (in && in->flops)
        f->no_memory |= !ka_own_flops(s, in, own, &unusable);
    for (uint32_t i = s->slice_count; in && in->flops && !f->no_memory && i-- > 0;) {
        const ka_slice *slice = &s->slices[i];
        double flops = own[i] ? (double)in->flops[slice->row] : 0;
        if (flops < MIN_FLOPS || !o->self_ns[i])
            continue;
        p->chosen[i] = 1;
        p->flops += flops;
        ka_amount_add(&p->all, ka_slice_ns(slice));
        o->x.slices[i] = 1 / MORE_CORES;
        if (!p->slowest || ka_slice_ns(slice) > ka_slice_ns(&s->slices[p->slowest]))
            p->slowest = i;
    }
    free(own);
    return !f->no_memory;
}

/* The advice depends on the speed: below one core, threads hinder one another; about one core,
 * others are unused. */
static void report_cores(ka_finder *f, const host_operators *o, const products *p, double gflops)
{
    int64_t most = (int64_t)((double)p->all.ns * (1 - 1 / MORE_CORES));
    ka_found *x = ka_open_finding(f, estimate_host_savings(f, o, most), 0.3, kb_string(""));
    bool slow = gflops < SLOW_CORE_GFLOPS;
    if (!x)
        return;
    x->count = p->all.count;
    ka_say(f, x,
           "%llu products of matrices and convolutions take %.1f %% of the time and run at %.1f "
           "GFLOP/s: %s",
           (unsigned long long)p->all.count, ka_share(f, p->all.ns), gflops,
           slow ? "one core alone does more"
                : "about what one core does; other cores are unused or missing");
    ka_advise(
        f, x, "%s",
        slow ? "Threads may wait for one another: set as many as there are cores for this "
               "process (torch.set_num_threads(N) or OMP_NUM_THREADS=N, where N is what nproc "
               "says in the same container), and no other program on these cores"
             : "Use more threads, torch.set_num_threads(N) or OMP_NUM_THREADS=N, if nproc says "
               "that there are more cores (containers and taskset leave a process fewer); "
               "larger batches make products large enough for them");
    show_operators(f, x, o, p->chosen);
}

/* Products on the host that run at the speed of one core: FLOPs by their time. */
void ka_find_cpu_threads(ka_finder *f)
{
    host_operators o;
    products p = {0};
    if (list_host_operators(f, &o) && find_products(f, &o, &p) && p.all.ns > 0) {
        double gflops = p.flops / (double)p.all.ns;
        if (gflops < ONE_CORE_GFLOPS && ka_share(f, p.all.ns) >= PRODUCTS_PERCENT)
            report_cores(f, &o, &p, gflops);
    }
    free(p.chosen);
    free_host_operators(&o);
}

/* ---- products in 32 bits --------------------------------------------------------------------- */

#define FLOAT_PERCENT  30.0
#define FLOAT_MEDIUM   50.0
#define BYTES_OF_FLOAT 4u

/* How much faster they would be depends on what the processor has, which a trace does not say. */
void ka_find_cpu_float32(ka_finder *f)
{
    host_operators o;
    ka_amount all = {0};
    if (list_host_operators(f, &o)) {
        for (uint32_t i = 0; i < f->s->slice_count; i++) {
            ka_shapes in;
            bool is = o.kind[i] == OP_PRODUCT && o.self_ns[i] > 0 &&
                      ka_shapes_of(f->s->trace, f->s->slices[i].row, &in) &&
                      in.of[0].bytes == BYTES_OF_FLOAT;
            o.kind[i] = is;
            if (is)
                ka_amount_add(&all, o.self_ns[i]);
        }
        ka_found *x = ka_share(f, all.ns) >= FLOAT_PERCENT
                          ? ka_open_finding(f, KA_NO_SAVINGS, 0.4, kb_string(""))
                          : NULL;
        if (x) {
            x->count = all.count;
            ka_set_extent(x, ka_share(f, all.ns));
            ka_set_severity(x, ka_share(f, all.ns) >= FLOAT_MEDIUM ? KINETO_FINDING_MEDIUM
                                                                  : KINETO_FINDING_LOW);
            ka_say(
                f, x,
                "%llu products of matrices, convolutions and attentions in 32 bits take %.1f %% of "
                "the time on the host",
                (unsigned long long)all.count, ka_share(f, all.ns));
            show_operators(f, x, &o, o.kind);
        }
    }
    free_host_operators(&o);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Some copies are needed: a quarter of their time is taken to remain. */
#define COPY_LEFT 0.25 /* of their time: some are needed */

void ka_find_cpu_copies(ka_finder *f)
{
    host_operators o;
    ka_amount all = {0};
    if (list_host_operators(f, &o)) {
        for (uint32_t i = 0; i < f->s->slice_count; i++) {
            o.kind[i] = o.kind[i] == OP_COPY && o.self_ns[i] > 0;
            if (!o.kind[i])
                continue;
            ka_amount_add(&all, o.self_ns[i]);
            o.x.slices[i] = COPY_LEFT;
        }
        int64_t most = (int64_t)((double)all.ns * (1 - COPY_LEFT));
        int64_t saved = ka_share(f, all.ns) >= MIN_PERCENT ? estimate_host_savings(f, &o, most) : 0;
        ka_found *x = ka_share(f, saved) >= KA_MIN_SAVINGS_PCT
                          ? ka_open_finding(f, saved, 0.4, kb_string(""))
                          : NULL;
        if (x) {
            x->count = all.count;
            ka_say(f, x,
                   "%llu operators only move data (copy_, clone, contiguous, cat, to) and take "
                   "%.1f %% "
                   "of the time on the host",
                   (unsigned long long)all.count, ka_share(f, all.ns));
            show_operators(f, x, &o, o.kind);
        }
    }
    free_host_operators(&o);
}

/* ---- operators bound by memory --------------------------------------------------------------- */

#define MIN_BYTES     (1.0 * (1 << 20)) /* moved by an operator: less may stay in caches */
#define BOUND_PERCENT 15.0
#define FUSED_LEFT    0.5

/* Bytes of the inputs, and of a result as large as the largest of them. Inputs of unknown
 * types count 0. */
static double bytes_moved(const ka_shapes *in)
{
    double sum = 0, most = 0;
    for (uint32_t i = 0; i < in->count; i++) {
        double bytes = in->of[i].rank ? in->of[i].bytes : 0;
        for (uint32_t d = 0; d < in->of[i].rank; d++)
            bytes *= (double)in->of[i].dims[d];
        sum += bytes;
        most = KB_MAX(most, bytes);
    }
    return sum + most;
}

static void report_memory_bound(ka_finder *f, const host_operators *o, const ka_amount *all,
                                double bytes)
{
    int64_t most = (int64_t)((double)all->ns * (1 - FUSED_LEFT));
    ka_found *x = ka_open_finding(f, estimate_host_savings(f, o, most), 0.3, kb_string(""));
    if (!x)
        return;
    x->count = all->count;
    ka_say(f, x,
           "%llu operators that do little with each number they read (element-wise, normalization, "
           "softmax, sums of 1 MiB and more) take %.1f %% of the time and move %.1f GB/s",
           (unsigned long long)all->count, ka_share(f, all->ns),
           bytes / (double)KB_MAX(all->ns, 1));
    show_operators(f, x, o, o->kind);
}

/* Operators on the host with large inputs that do little with each number. */
void ka_find_cpu_memory_bound(ka_finder *f)
{
    host_operators o;
    ka_amount all = {0};
    double bytes = 0;
    if (list_host_operators(f, &o)) {
        for (uint32_t i = 0; i < f->s->slice_count; i++) {
            ka_shapes in;
            bool is = o.kind[i] == OP_ELEMENTWISE && o.self_ns[i] > 0 &&
                      ka_shapes_of(f->s->trace, f->s->slices[i].row, &in) &&
                      bytes_moved(&in) >= MIN_BYTES;
            o.kind[i] = is;
            if (!is)
                continue;
            bytes += bytes_moved(&in);
            ka_amount_add(&all, o.self_ns[i]);
            o.x.slices[i] = FUSED_LEFT;
        }
        if (ka_share(f, all.ns) >= BOUND_PERCENT)
            report_memory_bound(f, &o, &all, bytes);
    }
    free_host_operators(&o);
}

/* ---- many tiny operators --------------------------------------------------------------------- */

/* Dispatch of an operator in PyTorch takes a few microseconds. */
#define TINY_OPERATOR_NS INT64_C(10000)
#define TINY_PERCENT     10.0
#define MIN_TINY         100u /* of a step */
#define TINY_LEFT        0.5

/* Operators on the host whose own time is mostly dispatch. */
void ka_find_cpu_tiny(ka_finder *f)
{
    host_operators o;
    ka_amount all = {0};
    if (list_host_operators(f, &o)) {
        for (uint32_t i = 0; i < f->s->slice_count; i++) {
            o.kind[i] = o.self_ns[i] > 0 && o.self_ns[i] < TINY_OPERATOR_NS;
            if (!o.kind[i])
                continue;
            ka_amount_add(&all, o.self_ns[i]);
            o.x.slices[i] = TINY_LEFT;
        }
        uint64_t each = all.count / KB_MAX(f->step_count, 1u);
        int64_t most = (int64_t)((double)all.ns * (1 - TINY_LEFT));
        ka_found *x =
            each >= MIN_TINY && ka_share(f, all.ns) >= TINY_PERCENT
                ? ka_open_finding(f, estimate_host_savings(f, &o, most), 0.4, kb_string(""))
                : NULL;
        if (x) {
            x->count = all.count;
            ka_say(f, x,
                   "%llu operators%s take less than %s each, without those in them, and %.1f %% of "
                   "the time together: most of "
                   "that is dispatch, not computation",
                   (unsigned long long)each, f->step_count ? " a step" : "",
                   kb_duration(TINY_OPERATOR_NS).s, ka_share(f, all.ns));
            show_operators(f, x, &o, o.kind);
        }
    }
    free_host_operators(&o);
}

/* ---- between operators ----------------------------------------------------------------------- */

/* Below a fifth of the time, gaps between operators are usual for programs on the host. */
#define BETWEEN_PERCENT 20.0

/* Collectives on the host and loaders of data are not the program's own code. */
static bool is_recorded_work(const ka_dataset *s, const ka_slice *slice)
{
    static const char *const begins[] = {"gloo:", "mpi:", "ucc:", "c10d::"};
    kineto_string name = ka_name(s, slice->name);
    if (slice->kind == KINETO_KIND_CPU_OP || ka_is_dataloader(name))
        return true;
    for (size_t i = 0; slice->kind == KINETO_KIND_USER_ANNOTATION && i < KB_COUNT(begins); i++)
        if (kb_string_starts_with(name, begins[i]))
            return true;
    return false;
}

/* Fills `between` with the selected time in which no thread is in a recorded operator; the
 * caller frees it, also on failure. False: out of memory. */
static bool find_time_between_operators(ka_finder *f, ka_spans *between)
{
    const ka_dataset *s = f->s;
    ka_spans whole = {0}, busy = {0};
    for (uint32_t i = 0; i < (f->step_count ? s->step_count : 0); i++)
        if (s->steps[i].slice != KA_NONE)
            f->no_memory |=
                !kb_vec_push(&whole, (ka_span){s->steps[i].start_ns, s->steps[i].end_ns});
    if (!f->step_count)
        f->no_memory |= !kb_vec_push(&whole, (ka_span){s->start_ns, s->end_ns});
    for (uint32_t i = 0; i < s->slice_count && !f->no_memory; i++)
        if (is_recorded_work(s, &s->slices[i]))
            f->no_memory |=
                !kb_vec_push(&busy, (ka_span){s->slices[i].start_ns, s->slices[i].end_ns});
    ka_spans_unite(&whole);
    ka_spans_unite(&busy);
    f->no_memory |= !ka_spans_without(&whole, &busy, between);
    kb_vec_free(&whole);
    kb_vec_free(&busy);
    return !f->no_memory;
}

/* Shows the longest gaps, then adds to each that was kept the operator that begins where it
 * ends: stacks are slow to make, and only few gaps are shown. */
static void show_time_between_operators(ka_finder *f, ka_found *x, const ka_spans *between)
{
    const ka_dataset *s = f->s;
    for (size_t i = 0; i < between->count; i++) {
        int64_t start = between->data[i].start_ns, end = between->data[i].end_ns;
        ka_show_span(f, x, start, end, kb_length_ns(start, end), "no operator runs");
    }
    for (uint32_t e = 0; e < x->evidence.count; e++)
        for (uint32_t i = 0; i < s->slice_count; i++) {
            if (s->slices[i].kind != KINETO_KIND_CPU_OP ||
                s->slices[i].start_ns != x->evidence.data[e].end_ns)
                continue;
            kineto_string stack = ka_stack_of(f, i);
            char text[400];
            int n = kb_snprintf(text, sizeof text, "before %s%s%.*s",
                                ka_short_name(ka_name(s, s->slices[i].name)).s,
                                stack.size ? ", called by " : "",
                                (int)KB_MIN(stack.size, (size_t)200), stack.data);
            char *copy =
                n > 0 ? kb_arena_copy(&f->out->arena, text, KB_MIN((size_t)n, sizeof text - 1))
                      : NULL;
            if (copy)
                x->evidence.data[e].text =
                    (kineto_string){copy, KB_MIN((size_t)n, sizeof text - 1)};
            break;
        }
}

/* Time in which no thread is in an operator. */
void ka_find_cpu_between(ka_finder *f)
{
    static const kineto_what_if_scale at_once[] = {{KINETO_WHAT_IF_CLASS, "host_between", 0},
                                                   {KINETO_WHAT_IF_CLASS, "host_python", 0}};
    ka_spans between = {0};
    if (f->host_only && find_time_between_operators(f, &between)) {
        int64_t ns = ka_spans_ns(&between);
        int64_t saved = ka_share(f, ns) >= BETWEEN_PERCENT
                            ? ka_min_savings(ns, ka_saved_by(f, at_once, KB_COUNT(at_once)))
                            : 0;
        ka_found *x = ka_share(f, saved) >= MIN_PERCENT
                          ? ka_open_finding(f, saved, 0.4, kb_string(""))
                          : NULL;
        if (x) {
            x->count = between.count;
            ka_say(f, x,
                   "no operator runs in %.1f %% of the time: the program runs Python, or waits "
                   "for something that was not recorded",
                   ka_share(f, ns));
            if (!(f->has & KA_NEEDS_STACKS))
                ka_advise(f, x,
                          "Record once with profile(with_stack=True) to see which Python it is; "
                          "torch.compile(model) leaves the interpreter out");
            show_time_between_operators(f, x, &between);
        }
    }
    kb_vec_free(&between);
}

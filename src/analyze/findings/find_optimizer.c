/* Rules about optimizers: parameters one by one, many small kernels, gradients filled with
 * zeros.
 *
 * The optimizer is found by the ranges that PyTorch records around its step
 * ("Optimizer.step#Adam.step") or, with stacks, by functions of torch/optim. The advice depends
 * on the class: fused=True and foreach=True exist for some optimizers only. */
#include "analyze/findings/find_work.h"

#define MIN_PERCENT 1.0
#define SMALL_NS      INT64_C(20000) /* a kernel shorter than this is bound by its launch */
#define MIN_KERNELS 20u            /* per call; fewer are not reported */
/* What fused kernels leave of the host's time, and of that of small kernels. */
#define HOST_LEFT    0.15
#define SMALL_LEFT   0.5
#define ZERO_PERCENT 0.5

/* Calls of an optimizer and the kernels they launch. host_ns is the time of all calls; in `x`
 * they take HOST_LEFT of their time, small kernels SMALL_LEFT. */
typedef struct calls {
    KB_VEC(uint32_t) list; /* slices, no one in another */
    ka_factors x;
    ka_amount kernels, small;
    int64_t host_ns;
    bool foreach; /* kernels that take many tensors at once are among them */
} calls;

static void free_optimizer_calls(calls *c)
{
    kb_vec_free(&c->list);
    ka_factors_free(&c->x);
}

/* Collectives in the optimizer's step are another rule's. */
static bool is_optimizer_kernel(const ka_work *w)
{
    return w->kind == KINETO_KIND_CONCURRENT_KERNEL && w->type != KA_TYPE_COMMUNICATION;
}

/* Adds the kernels that a slice launched itself. */
static void add_optimizer_work(ka_finder *f, calls *c, uint32_t slice)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slices[slice].work_count; i++) {
        uint32_t at = s->launched[s->slices[slice].first_work + i];
        const ka_work *w = &s->work[at];
        if (!is_optimizer_kernel(w))
            continue;
        ka_amount_add(&c->kernels, ka_work_ns(w));
        c->foreach |= kb_string_contains(ka_name(s, w->name), "multi_tensor_apply");
        if (ka_work_ns(w) >= SMALL_NS)
            continue;
        ka_amount_add(&c->small, ka_work_ns(w));
        c->x.work[at] = SMALL_LEFT;
    }
}

/* Lists the outermost ranges in steps whose name `ask` accepts, with all work inside. Freed by
 * the caller, also on failure. False: out of memory. */
static bool list_optimizer_calls(ka_finder *f, calls *c, ka_question *ask)
{
    const ka_dataset *s = f->s;
    ka_answers names = {0};
    *c = (calls){0};
    bool ok = ka_answers_make(f, &names) && ka_factors_make(f, &c->x);
    for (uint32_t i = 0; ok && i < s->slice_count;) {
        const ka_slice *slice = &s->slices[i];
        if (!ka_is_in_steps(f, slice->step) || !ka_answer(s, &names, slice->name, ask)) {
            i++;
            continue;
        }
        ok = kb_vec_push(&c->list, i);
        f->no_memory |= !ok;
        c->host_ns = ka_add_ns(c->host_ns, ka_slice_ns(slice));
        for (; i < slice->next; i++) {
            c->x.slices[i] = HOST_LEFT;
            add_optimizer_work(f, c, i);
        }
    }
    ka_answers_free(&names);
    return ok && !f->no_memory;
}

/* Evidence: each call with the number of its launches. */
static void show_optimizer_calls(ka_finder *f, ka_found *x, const calls *c)
{
    const ka_dataset *s = f->s;
    for (size_t i = 0; i < c->list.count; i++) {
        uint32_t slice = c->list.data[i];
        uint64_t launches = 0;
        for (uint32_t j = slice; j < s->slices[slice].next; j++)
            launches += s->slices[j].work_count;
        ka_show_row(f, x, s->slices[slice].row, ka_slice_ns(&s->slices[slice]),
                    "launches %llu pieces of work", (unsigned long long)launches);
    }
}

/* ---- a loop over parameters ------------------------------------------------------------------ */

/* "torch/optim/adam.py(334): _single_tensor_adam": PyTorch's loop over parameters. Nothing but
 * letters may follow the word, so that helper functions are not accepted. */
static uint8_t is_single_tensor(kineto_string name)
{
    const char *part = name.size ? memmem(name.data, name.size, "_single_tensor_", 15) : NULL;
    for (part = part ? part + 15 : NULL; part && part < name.data + name.size; part++)
        if (!kb_is_lower(*part))
            return 0;
    return part != NULL;
}

/* Class of the first call's function: "_single_tensor_adam" gives "Adam"; "Optimizer" if it is
 * not known. */
static kb_text find_optimizer_name(const ka_dataset *s, const calls *c)
{
    static const struct {
        const char *part, *name;
    } known[] = {{"_adamw", "AdamW"},       {"_adamax", "Adamax"},   {"_adam", "Adam"},
                 {"_sgd", "SGD"},           {"_rmsprop", "RMSprop"}, {"_adagrad", "Adagrad"},
                 {"_adadelta", "Adadelta"}, {"_nadam", "NAdam"},     {"_radam", "RAdam"},
                 {"_rprop", "Rprop"},       {"_asgd", "ASGD"}};
    kb_text text = {"Optimizer"};
    kineto_string name = ka_name(s, s->slices[c->list.data[0]].name);
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_ends_with(name, known[i].part)) {
            (void)snprintf(text.s, sizeof text.s, "%s", known[i].name);
            break;
        }
    return text;
}

/* Since which PyTorch an optimizer has fused=True for parameters on CUDA and ROCm devices
 * (on the host all of these have it since 2.4). */
typedef struct fused_support {
    const char *name, *on_device;
} fused_support;

/* Entry of an optimizer's class; NULL: it has no fused implementation. */
static const fused_support *fused_advice(const char *name)
{
    static const fused_support all[] = {{"Adam", "1.13"},
                                        {"AdamW", "2.0"},
                                        {"SGD", "2.3"},
                                        {"Adagrad", "2.12"}};
    for (size_t i = 0; i < KB_COUNT(all); i++)
        if (strcmp(name, all[i].name) == 0)
            return &all[i];
    return NULL;
}

/* `more` is inserted after the call of a fused optimizer; may be empty. */
static void advise_optimizer(ka_finder *f, ka_found *x, const char *name, const char *more)
{
    const fused_support *fused = fused_advice(name);
    if (fused)
        ka_advise(
            f, x,
            "torch.optim.%s(…, fused=True)%s, which needs torch >= %s for CUDA and ROCm devices; "
            "before that foreach=True",
            name, more, fused->on_device);
    else
        ka_advise(f, x, "torch.optim.%s(…, foreach=True)", name);
}

static void report_single_tensor(ka_finder *f, const calls *c, int64_t saved)
{
    kb_text name = find_optimizer_name(f->s, c);
    ka_found *x = ka_open_finding(f, saved, 0.5, kb_string(""));
    if (!x)
        return;
    x->count = c->list.count;
    ka_say(f, x,
           "%s goes over its parameters one by one: %llu kernels a call, %s each, and %s of the "
           "host in %zu call%s",
           name.s, (unsigned long long)(c->kernels.count / c->list.count),
           kb_duration(c->kernels.ns / (int64_t)KB_MAX(c->kernels.count, 1u)).s,
           kb_duration(c->host_ns).s, c->list.count, c->list.count == 1 ? "" : "s");
    advise_optimizer(f, x, name.s, "");
    show_optimizer_calls(f, x, c);
}

/* A call of the optimizer whose stack shows the loop over parameters. */
void ka_find_optimizer_single(ka_finder *f)
{
    calls c;
    if (list_optimizer_calls(f, &c, is_single_tensor) && c.kernels.count) {
        int64_t saved = ka_saved_with(f, &c.x);
        if (ka_is_significant(f, saved, MIN_PERCENT))
            report_single_tensor(f, &c, saved);
    }
    free_optimizer_calls(&c);
}

/* ---- many small kernels ---------------------------------------------------------------------- */

static uint8_t is_step(kineto_string name) { return kb_string_starts_with(name, "Optimizer.step"); }

/* "Optimizer.step#Adam.step" gives "Adam"; empty if the name has no class. */
static kb_text find_class_name(kineto_string name)
{
    kb_text text = ka_short_name(name), class = {""};
    char *from = strchr(text.s, '#'), *end = from ? strchr(from, '.') : NULL;
    if (end)
        (void)snprintf(class.s, sizeof class.s, "%.*s", (int)(end - from - 1), from + 1);
    return class;
}

static void advise_fused(ka_finder *f, ka_found *x, const calls *c)
{
    kb_text class = find_class_name(ka_name(f->s, f->s->slices[c->list.data[0]].name));
    if (fused_advice(class.s))
        advise_optimizer(f, x, class.s, c->foreach ? ", where foreach is used now" : "");
    else
        ka_advise(
            f, x,
            "%s in the optimizer, or a fused one of its kind (for CUDA and ROCm devices Adam, "
            "AdamW since torch 2.0, SGD since 2.3 and Adagrad since 2.12 have fused=True); "
            "torch.compile of its step does the same for your own",
            c->foreach ? "Fewer and larger parameters" : "foreach=True");
}

static void report_unfused(ka_finder *f, const calls *c, int64_t saved)
{
    ka_found *x = ka_open_finding(f, saved, 0.4, kb_string(""));
    if (!x)
        return;
    x->count = c->list.count;
    ka_say(f, x,
           "%s launches %llu kernels a call, %llu of them shorter than %s, and keeps the host busy "
           "for %s a call",
           ka_short_name(ka_name(f->s, f->s->slices[c->list.data[0]].name)).s,
           (unsigned long long)(c->kernels.count / c->list.count),
           (unsigned long long)(c->small.count / c->list.count), kb_duration(SMALL_NS).s,
           kb_duration(c->host_ns / (int64_t)c->list.count).s);
    advise_fused(f, x, c);
    show_optimizer_calls(f, x, c);
}

/* optimizer.single_tensor reports the cost of a loop over parameters, where stacks show it. */
void ka_find_optimizer_unfused(ka_finder *f)
{
    calls c;
    bool is_reported = f->out->verdicts[KA_FIND_optimizer_single].outcome == KINETO_RULE_FOUND;
    if (!is_reported && list_optimizer_calls(f, &c, is_step)) {
        bool many = c.list.count && c.small.count / c.list.count >= MIN_KERNELS;
        int64_t saved = many ? ka_saved_with(f, &c.x) : 0;
        if (ka_is_significant(f, saved, MIN_PERCENT))
            report_unfused(f, &c, saved);
        free_optimizer_calls(&c);
    } else if (!is_reported) {
        free_optimizer_calls(&c);
    }
}

/* ---- gradients filled with zeros ------------------------------------------------------------- */

static uint8_t is_zero_grad(kineto_string name)
{
    return kb_string_starts_with(name, "Optimizer.zero_grad") ||
           kb_string_ends_with(name, ": zero_grad");
}

static uint8_t is_zero_fill(kineto_string name)
{
    return kb_string_equal(name, kb_string("aten::zero_")) ||
           kb_string_equal(name, kb_string("aten::_foreach_zero_"));
}

/* Does the operator set an existing tensor to zero? aten::zeros makes a new one, and fills
 * that. */
static bool is_gradient_fill(const ka_dataset *s, ka_answers *names, uint32_t i)
{
    const ka_slice *slice = &s->slices[i];
    uint32_t op = slice->parent == KA_NONE ? KA_NONE : ka_operator_of(s, slice->parent);
    return slice->kind == KINETO_KIND_CPU_OP && ka_answer(s, names, slice->name, is_zero_fill) &&
           (op == KA_NONE || !kb_string_starts_with(ka_name(s, s->slices[op].name), "aten::zeros"));
}

/* The slice and all in it, with its work, take no time in c->x. */
static void mask_optimizer_slice(const ka_dataset *s, calls *c, uint32_t slice)
{
    for (uint32_t i = slice; i < s->slices[slice].next; i++) {
        c->x.slices[i] = 0;
        for (uint32_t w = 0; w < s->slices[i].work_count; w++)
            c->x.work[s->launched[s->slices[i].first_work + w]] = 0;
    }
}

/* Resets c->x to recorded times, and removes the fills in the listed calls; returns their
 * number. */
static uint64_t mask_zero_fills(ka_finder *f, calls *c)
{
    const ka_dataset *s = f->s;
    ka_answers names = {0};
    uint64_t count = 0;
    bool ok = ka_answers_make(f, &names);
    for (uint32_t i = 0; ok && i < s->slice_count; i++)
        c->x.slices[i] = 1;
    for (uint32_t i = 0; ok && i < s->work_count; i++)
        c->x.work[i] = 1;
    for (size_t k = 0; ok && k < c->list.count; k++)
        for (uint32_t i = c->list.data[k]; i < s->slices[c->list.data[k]].next;) {
            bool fills = is_gradient_fill(s, &names, i);
            if (fills)
                mask_optimizer_slice(s, c, i);
            count += fills;
            i = fills ? s->slices[i].next : i + 1;
        }
    ka_answers_free(&names);
    return count;
}

/* The advice saves more than the fills: backward writes gradients then, in place of adding. */
static void report_zero_fills(ka_finder *f, const calls *c, uint64_t count, int64_t saved)
{
    ka_found *x = ka_open_finding(f, saved, 0.6, kb_string(""));
    if (!x)
        return;
    x->count = count;
    ka_say(f, x, "zero_grad fills %llu gradients a call with zeros, in %zu call%s of %s",
           (unsigned long long)(count / c->list.count), c->list.count,
           c->list.count == 1 ? "" : "s", kb_duration(c->host_ns / (int64_t)c->list.count).s);
    ka_advise(f, x,
              "optimizer.zero_grad(set_to_none=True): then backward writes gradients instead "
              "of adding to zeros, which saves as much again");
    show_optimizer_calls(f, x, c);
}

/* Fills with zeros below Optimizer.zero_grad. */
void ka_find_zero_grad(ka_finder *f)
{
    calls c;
    bool ok = list_optimizer_calls(f, &c, is_zero_grad);
    uint64_t count = ok && c.list.count ? mask_zero_fills(f, &c) : 0;
    int64_t saved = count ? ka_saved_with(f, &c.x) : 0;
    if (count && ka_is_significant(f, saved, ZERO_PERCENT))
        report_zero_fills(f, &c, count, saved);
    free_optimizer_calls(&c);
}

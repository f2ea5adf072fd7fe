/* Rules about code of the program: tensors indexed element by element, and convolutions with a
 * bias before a batch norm.
 *
 * Loops are found as repetitions among siblings (operators with the same parent): the same
 * names in the same order, at least MIN_REPEATS times. */
#include "analyze/findings/find_work.h"

/* ---- a tensor walked element by element ------------------------------------------------------ */

#define MIN_REPEATS 10u
#define MAX_PERIOD   64u
#define LOOP_PERCENT  0.5
#define MAX_STACKS   100u

/* Operators as a tree without the ranges between them, such that functions of Python around an
 * operator do not separate it from its neighbours. */
typedef struct siblings {
    uint32_t *next;  /* by slice: the next operator with the same one around it; KA_NONE */
    uint32_t *first; /* by slice: the first one in it, KA_NONE; by thread after all slices */
} siblings;

/* Builds the lists in one pass over slices, in which what encloses comes first. Operators
 * inside of an annotation are siblings of each other only. False: out of memory. */
static bool make_sibling_lists(ka_finder *f, siblings *x)
{
    const ka_dataset *s = f->s;
    size_t heads = (size_t)s->slice_count + s->thread_count + 1;
    uint32_t *last = malloc(heads * sizeof *last), *around = malloc(heads * sizeof *around);
    *x = (siblings){malloc(heads * sizeof *x->next), malloc(heads * sizeof *x->first)};
    f->no_memory |= !last || !around || !x->next || !x->first;
    if (!f->no_memory)
        memset(x->first, 0xff, heads * sizeof *x->first);
    for (uint32_t i = 0; !f->no_memory && i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        uint32_t in =
            slice->parent == KA_NONE ? s->slice_count + slice->thread : around[slice->parent];
        bool is_op = slice->kind == KINETO_KIND_CPU_OP;
        around[i] = is_op || slice->kind == KINETO_KIND_USER_ANNOTATION ? i : in;
        if (!is_op)
            continue;
        x->next[i] = KA_NONE;
        if (x->first[in] == KA_NONE)
            x->first[in] = i;
        else
            x->next[last[in]] = i;
        last[in] = i;
    }
    free(last);
    free(around);
    return !f->no_memory;
}

/* A loop: `repeats` passes of `period` operators each. */
typedef struct loop {
    uint32_t first, last; /* slices of its first and last operator */
    uint32_t period, repeats;
} loop;

typedef struct loops {
    ka_factors x;
    ka_answers selects;
    loop longest;
    ka_amount all; /* passes, and their time on the host */
    ka_found *found;
    uint32_t shown;
} loops;

static uint8_t is_select(kineto_string name)
{
    return kb_string_equal(name, kb_string("aten::select"));
}

/* Counts passes from `at` on, if the second one begins at `after`: walks both in parallel, as
 * long as the names are the same. */
static loop count_loop_passes(const ka_dataset *s, const siblings *x, uint32_t at, uint32_t after,
                              uint32_t period)
{
    loop found = {at, at, period, 1};
    uint32_t same = 0;
    for (uint32_t before = at;
         after != KA_NONE && s->slices[before].name == s->slices[after].name;
         before = x->next[before], after = x->next[after])
        if (++same % period == 0) {
            found.repeats++;
            found.last = after;
        }
    return found;
}

/* Operators that would be left out if one pass did the work of all. */
static uint64_t masked_passes(const loop *l) { return (uint64_t)(l->repeats - 1) * l->period; }

/* The loop that begins at `at`. A pass may select several times, so each of the next selects
 * may be the beginning of the second pass: the one that leaves out most operators wins.
 * Without a loop, period is 0. */
static loop find_loop_at(const ka_dataset *s, const siblings *x, loops *l, uint32_t at)
{
    loop best = {at, at, 0, 1};
    uint32_t period = 1;
    for (uint32_t i = x->next[at]; i != KA_NONE && period <= MAX_PERIOD;
         i = x->next[i], period++) {
        if (!ka_answer(s, &l->selects, s->slices[i].name, is_select))
            continue;
        loop found = count_loop_passes(s, x, at, i, period);
        if (found.repeats >= MIN_REPEATS && masked_passes(&found) > masked_passes(&best))
            best = found;
    }
    return best;
}

/* In l->x all passes together take the time of one. */
static void add_loop(ka_finder *f, loops *l, const loop *found)
{
    const ka_dataset *s = f->s;
    int64_t ns = kb_length_ns(s->slices[found->first].start_ns, s->slices[found->last].end_ns);
    for (uint32_t i = found->first; i < s->slices[found->last].next; i++)
        l->x.slices[i] = 1.0 / found->repeats;
    l->all.count += found->repeats;
    l->all.ns = ka_add_ns(l->all.ns, ns);
    if (found->repeats > l->longest.repeats)
        l->longest = *found;
}

/* Calls `take` for each loop among the siblings from `first` on; the search continues after
 * it. */
static void find_loops_among(ka_finder *f, const siblings *x, loops *l, uint32_t first,
                             void (*take)(ka_finder *f, loops *l, const loop *found))
{
    const ka_dataset *s = f->s;
    for (uint32_t i = first; i != KA_NONE;) {
        bool is_one = ka_answer(s, &l->selects, s->slices[i].name, is_select) &&
                      ka_is_in_steps(f, s->slices[i].step);
        loop found = is_one ? find_loop_at(s, x, l, i) : (loop){i, i, 0, 0};
        if (found.repeats >= MIN_REPEATS)
            take(f, l, &found);
        i = found.repeats > 1 ? x->next[found.last] : x->next[i];
    }
}

static void walk_loop_slices(ka_finder *f, const siblings *x, loops *l,
                             void (*take)(ka_finder *f, loops *l, const loop *found))
{
    for (uint32_t i = 0; i < f->s->slice_count + f->s->thread_count; i++)
        find_loops_among(f, x, l, x->first[i], take);
}

static void show_loop(ka_finder *f, loops *l, const loop *found)
{
    const ka_dataset *s = f->s;
    const ka_slice *first = &s->slices[found->first], *last = &s->slices[found->last];
    kineto_string stack = l->shown++ < MAX_STACKS ? ka_stack_of(f, found->first) : kb_string("");
    ka_show_row(f, l->found, first->row, kb_length_ns(first->start_ns, last->end_ns),
                "%u times %u operators, %s%s%.*s", found->repeats, found->period,
                kb_duration(kb_length_ns(first->start_ns, last->end_ns)).s,
                stack.size ? "; called by " : "", (int)stack.size, stack.data);
}

static void say_loops(ka_finder *f, const siblings *x, loops *l, int64_t saved)
{
    const ka_dataset *s = f->s;
    char body[160] = "";
    size_t n = 0;
    uint32_t at = l->longest.first;
    for (uint32_t i = 0; i < KB_MIN(l->longest.period, 3u) && n < sizeof body;
         i++, at = x->next[at]) {
        kb_text name = ka_short_name(ka_name(s, s->slices[at].name));
        n += (size_t)snprintf(body + n, sizeof body - n, "%s%.40s", i ? ", " : "", name.s);
    }
    l->found = ka_open_finding(f, saved, 0.5, kb_string(""));
    if (!l->found)
        return;
    l->found->count = l->all.count;
    ka_say(f, l->found,
           "%llu passes of loops index a tensor by element and take %s of the host; the longest "
           "one does %s%s %u times over",
           (unsigned long long)l->all.count, kb_duration(l->all.ns).s, body,
           l->longest.period > 3 ? " …" : "", l->longest.repeats);
    ka_advise(f, l->found,
              "One operation for all elements: x[index_tensor], torch.gather, a mask, or the "
              "arithmetic on the whole tensor; elements that Python needs come over at once with "
              "x.tolist()");
    walk_loop_slices(f, x, l, show_loop);
}

/* Repetitions of operators with a select or index among them. */
void ka_find_loop_indexing(ka_finder *f)
{
    siblings x = {0};
    loops l = {0};
    bool ok =
        make_sibling_lists(f, &x) && ka_answers_make(f, &l.selects) && ka_factors_make(f, &l.x);
    if (ok)
        walk_loop_slices(f, &x, &l, add_loop);
    int64_t saved = ok && l.all.count ? ka_saved_with(f, &l.x) : 0;
    if (ok && ka_is_significant(f, saved, LOOP_PERCENT))
        say_loops(f, &x, &l, saved);
    ka_answers_free(&l.selects);
    ka_factors_free(&l.x);
    free(x.next);
    free(x.first);
}

/* ---- a convolution's bias before a batch norm ------------------------------------------------ */

#define BIAS_PERCENT 0.2
/* So far into a module its convolution is looked for: modules may nest as deep as a trace is long.
 */
#define MAX_INSIDE 1000u

enum { NO_MODULE, OTHER_MODULE, CONV_MODULE, NORM_MODULE };

/* Class of a module by the name that PyTorch gives its calls. */
static uint8_t find_module_of(kineto_string name)
{
    if (!kb_string_starts_with(name, "nn.Module: "))
        return NO_MODULE;
    return kb_string_contains(name, ": Conv1d") || kb_string_contains(name, ": Conv2d") ||
                   kb_string_contains(name, ": Conv3d")
               ? CONV_MODULE
           : kb_string_contains(name, ": BatchNorm") || kb_string_contains(name, ": SyncBatchNorm")
               ? NORM_MODULE
               : OTHER_MODULE;
}

static uint8_t is_convolution_name(kineto_string name)
{
    return kb_string_equal(name, kb_string("aten::conv1d")) ||
           kb_string_equal(name, kb_string("aten::conv2d")) ||
           kb_string_equal(name, kb_string("aten::conv3d"));
}

/* Modules of each slice, and convolutions whose bias is lost in the batch norm after them.
 * any_work: some bias was added by a kernel of its own, whose time can be saved. */
typedef struct biases {
    ka_answers modules, convolutions;
    uint32_t *module; /* by slice: the innermost module it is in, or is; KA_NONE */
    uint32_t *last;   /* by slice, of modules: the last module in it; KA_NONE */
    ka_factors x;
    KB_VEC(uint32_t) found; /* operators aten::conv2d */
    bool any_work;
} biases;

/* The first convolution in a call of a module, if its third input is a bias (one dimension, of
 * a floating type); KA_NONE. */
static uint32_t find_biased(ka_finder *f, biases *b, uint32_t module)
{
    const ka_dataset *s = f->s;
    uint32_t end = KB_MIN(s->slices[module].next, module + MAX_INSIDE);
    for (uint32_t i = module + 1; i < end; i++) {
        ka_shapes in;
        if (s->slices[i].kind != KINETO_KIND_CPU_OP ||
            !ka_answer(s, &b->convolutions, s->slices[i].name, is_convolution_name))
            continue;
        return ka_shapes_of(s->trace, s->slices[i].row, &in) && in.count > 2 &&
                       in.of[2].rank == 1 && in.of[2].bytes
                   ? i
                   : KA_NONE;
    }
    return KA_NONE;
}

/* Element-wise kernels inside of the convolution add the bias; they take no time in b->x. */
static void mask_bias_work(ka_finder *f, biases *b, uint32_t conv)
{
    const ka_dataset *s = f->s;
    uint32_t end = KB_MIN(s->slices[conv].next, conv + MAX_INSIDE);
    for (uint32_t i = conv; i < end; i++)
        for (uint32_t w = 0; w < s->slices[i].work_count; w++) {
            uint32_t work = s->launched[s->slices[i].first_work + w];
            if (s->class_of[s->work[work].name].family != KA_FAMILY_ELEMENTWISE)
                continue;
            b->x.work[work] = 0;
            b->x.slices[i] = 0;
            b->any_work = true;
        }
}

/* A batch norm follows a convolution if both modules are neighbours inside of the same module. */
static void find_biases(ka_finder *f, biases *b)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slice_count && !f->no_memory; i++) {
        const ka_slice *slice = &s->slices[i];
        uint32_t around = slice->parent == KA_NONE ? KA_NONE : b->module[slice->parent];
        uint8_t is = slice->kind == KINETO_KIND_PYTHON_FUNCTION
                         ? ka_answer(s, &b->modules, slice->name, find_module_of)
                         : NO_MODULE;
        b->module[i] = is == NO_MODULE ? around : i;
        b->last[i] = KA_NONE;
        if (is == NO_MODULE || around == KA_NONE)
            continue;
        uint32_t before = b->last[around];
        b->last[around] = i;
        if (is != NORM_MODULE || before == KA_NONE || !ka_is_in_steps(f, slice->step) ||
            ka_answer(s, &b->modules, s->slices[before].name, find_module_of) != CONV_MODULE)
            continue;
        uint32_t conv = find_biased(f, b, before);
        if (conv == KA_NONE)
            continue;
        f->no_memory |= !kb_vec_push(&b->found, conv);
        mask_bias_work(f, b, conv);
    }
}

static void report_biases(ka_finder *f, biases *b, int64_t saved)
{
    const ka_dataset *s = f->s;
    ka_found *x = ka_open_finding(f, saved, 0.5, kb_string(""));
    if (!x)
        return;
    x->count = b->found.count;
    kb_text module = ka_short_name(ka_name(s, s->slices[b->module[b->found.data[0]]].name));
    ka_say(f, x,
           "%zu convolutions add a bias that the batch norm after them subtracts again; the first "
           "one is in %s",
           b->found.count, module.s);
    ka_advise(
        f, x,
        "bias=False in the Conv before each BatchNorm; a trained model keeps its results if its "
        "bias is subtracted from running_mean");
    for (size_t i = 0; i < b->found.count; i++) {
        const ka_slice *conv = &s->slices[b->found.data[i]];
        ka_shapes in;
        (void)ka_shapes_of(s->trace, conv->row, &in);
        ka_show_row(f, x, conv->row, ka_slice_ns(conv), "%s in %s", ka_shapes_text(&in).s,
                    ka_short_name(ka_name(s, s->slices[b->module[b->found.data[i]]].name)).s);
    }
}

/* Convolutions with a third input, followed by a batch norm of the same parent. */
void ka_find_conv_bias(ka_finder *f)
{
    size_t slices = (size_t)f->s->slice_count + 1;
    biases b = {.module = malloc(slices * sizeof *b.module),
                .last = malloc(slices * sizeof *b.last)};
    f->no_memory |= !b.module || !b.last;
    if (!f->no_memory && ka_answers_make(f, &b.modules) && ka_answers_make(f, &b.convolutions) &&
        ka_factors_make(f, &b.x))
        find_biases(f, &b);
    int64_t saved = b.any_work && !f->no_memory ? ka_saved_with(f, &b.x) : KA_NO_SAVINGS;
    if (!f->no_memory && b.found.count &&
        (saved == KA_NO_SAVINGS || ka_is_significant(f, saved, BIAS_PERCENT)))
        report_biases(f, &b, saved);
    kb_vec_free(&b.found);
    ka_answers_free(&b.modules);
    ka_answers_free(&b.convolutions);
    ka_factors_free(&b.x);
    free(b.module);
    free(b.last);
}

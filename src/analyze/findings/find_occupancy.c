/* Rules about kernels that leave a part of the device without work: too few blocks, low
 * occupancy, or a last wave that is nearly empty.
 *
 * Blocks per multiprocessor and occupancy are arguments of kernels; without them they are
 * computed from grid, block, registers and shared memory and the limits of the device
 * (deviceProperties). Only names with a noticeable share of time are read, since arguments are
 * text. */
#include "analyze/findings/find_work.h"

#include <math.h>

#define MIN_PERCENT 1.0
/* Percent of all that kernels of a name take, or none of them is checked. */
#define MIN_NAME_SHARE 0.2
#define MIN_MEAN_NS    10000 /* shorter ones are bound by their launches */
#define FEW_OCCUPANCY    10.0  /* percent; for kernels that wait for memory */
#define FACTOR_THREADS   0.7
#define MIN_FACTOR     0.25
#define MAX_WAVES       8.0
#define MIN_LOSS       0.2    /* of the waves */
#define TAIL_COUNTS      0.5    /* blocks do not end at the same time */
#define RESERVED_SHARED  1024.0 /* of each block, since Ampere */

/* Limits of a multiprocessor, and the number of them (`units`); -1: not known. Shared memory
 * in bytes. */
typedef struct limits {
    double units, threads, registers, shared, warp, blocks, reserved;
} limits;

/* Launch sizes of a kernel: blocks, threads of a block, registers of a thread, bytes of shared
 * memory of a block, percent of occupancy. -1: not recorded. */
typedef struct launch {
    double blocks, threads, registers, shared, occupancy;
} launch;

/* State of one rule: which work is checked, how much shorter it would be (`x`), and the work
 * with the largest savings (`worst`), which the sentence describes. */
typedef struct kernels {
    uint8_t *chosen; /* by work */
    uint8_t *wanted; /* by name */
    limits *of;      /* by stream */
    ka_factors x;
    ka_amount found;
    uint64_t stated; /* kernels of which all is reported that the rule needs */
    uint64_t checked;
    uint64_t with_occupancy, without_occupancy; /* products and such have no need of it */
    uint32_t worst; /* index of work */
    double worst_ns, worst_value;
} kernels;

/* ---- devices --------------------------------------------------------------------------------- */

/* Blocks per multiprocessor by compute capability (CUDA C++ Programming Guide, "Technical
 * Specifications per Compute Capability"). */
static double max_resident_blocks(double major, double minor)
{
    if ((major == 7 && minor == 5) || (major == 8 && minor == 6))
        return 16;
    return major == 8 && minor == 9 ? 24 : 32;
}

/* Limits from the device's properties; traces of older versions name shared memory
 * differently. */
static limits find_device_limits(kineto_string device)
{
    double major = ka_property_number(device, "computeMajor"),
           shared = ka_property_number(device, "sharedMemPerMultiprocessor");
    if (shared < 0)
        shared = ka_property_number(device, "maxSharedMemoryPerMultiProcessor");
    return (limits){.units = ka_property_number(device, "numSms"),
                    .threads = ka_property_number(device, "maxThreadsPerMultiprocessor"),
                    .registers = ka_property_number(device, "regsPerMultiprocessor"),
                    .shared = shared,
                    .warp = KB_MAX(ka_property_number(device, "warpSize"), 1),
                    .blocks =
                        max_resident_blocks(major, ka_property_number(device, "computeMinor")),
                    .reserved = major >= 8 ? RESERVED_SHARED : 0};
}

/* Devices that say something of themselves, each read once, and where the first of each id is. */
typedef struct devices {
    KB_VEC(limits) list;
    kb_map by_id;
} devices;

static bool list_device_limits(const kineto_trace *t, devices *d)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        bool is_first = false;
        kineto_trace_process(t, i, &p);
        if (!kt_is_described_device(&p))
            continue;
        ok = kb_map_insert(&d->by_id, (uint64_t)p.pid, d->list.count, &is_first) != NULL;
        if (ok && is_first)
            ok = kb_vec_push(&d->list, find_device_limits(p.properties_json));
    }
    return ok;
}

/* Limits by stream; a stream without a device has those of the first. False: out of memory. */
static bool find_limits_of(const ka_dataset *s, limits *of)
{
    devices d = {.by_id = {0}};
    bool ok = list_device_limits(s->trace, &d);
    for (uint32_t i = 0; ok && i < s->stream_count; i++) {
        static const uint64_t first;
        int64_t id = s->streams[i].device;
        const uint64_t *at = id < 0 ? &first : kb_map_find(&d.by_id, (uint64_t)id);
        of[i] = at && *at < d.list.count ? d.list.data[*at] : find_device_limits(kb_string(""));
    }
    kb_vec_free(&d.list);
    kb_map_free(&d.by_id);
    return ok;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Product of "[50, 1, 1]"; -1: there is none. */
static double multiply_sizes(kineto_string list)
{
    int64_t product;
    return kt_sizes_product(list, &product) && product > 0 ? (double)product : -1;
}

static const ka_keys geometry = {2, {'g', 'b', 'g', 'b'}, {KA_KEY("grid"), KA_KEY("block")}};
enum { REGISTERS, SHARED, OCCUPANCY, PER_UNIT, NUMBERS };
static const ka_keys numbers = {NUMBERS,
                                {'r', 's', 'e', 'b'},
                                {KA_KEY("registers per thread"), KA_KEY("shared memory"),
                                 KA_KEY("est. achieved occupancy %"), KA_KEY("blocks per SM")}};

/* Without a grid the number of blocks follows from the blocks per multiprocessor. */
static launch read_launch_shape(const kineto_trace *t, kineto_row row, const limits *of)
{
    kineto_string texts[2];
    double stated[NUMBERS];
    ka_arg_texts(t, row, &geometry, texts);
    launch l = {.blocks = multiply_sizes(texts[0]), .threads = multiply_sizes(texts[1])};
    uint32_t known = ka_arg_numbers(t, row, &numbers, stated);
    for (uint32_t i = 0; i < NUMBERS; i++)
        stated[i] = known >> i & 1 && stated[i] >= 0 ? stated[i] : -1;
    l.registers = stated[REGISTERS];
    l.shared = stated[SHARED];
    l.occupancy = stated[OCCUPANCY];
    if (l.blocks < 0 && stated[PER_UNIT] >= 0 && of->units > 0)
        l.blocks = stated[PER_UNIT] * of->units;
    return l;
}

/* The lesser of `now` and what fits into `room`; `now` if one of both is not known. */
static double min_blocks(double now, double room, double each)
{
    return room > 0 && each > 0 ? KB_MIN(now, floor(room / each)) : now;
}

/* Blocks that a multiprocessor holds at once, limited by threads, registers and shared memory;
 * at least 1. Registers are given out in pieces of 256 to each warp (as in NVIDIA's occupancy
 * calculator). */
static double count_resident_blocks(const launch *l, const limits *of)
{
    double warps = ceil(l->threads / of->warp), most = of->blocks;
    most = min_blocks(most, of->threads, warps * of->warp);
    if (l->registers > 0) /* given out in pieces of 256 to each warp */
        most = min_blocks(most, of->registers, warps * 256 * ceil(l->registers * of->warp / 256));
    if (l->shared > 0)
        most = min_blocks(most, of->shared, l->shared + of->reserved);
    return KB_MAX(most, 1);
}

/* ---- which kernels --------------------------------------------------------------------------- */

static bool is_occupancy_candidate(const ka_finder *f, const ka_work *w)
{
    return w->kind == KINETO_KIND_CONCURRENT_KERNEL && w->type == KA_TYPE_COMPUTATION &&
           ka_is_in_steps(f, w->step);
}

/* Kernels of products need few threads to be busy: a low occupancy is normal for them. */
static bool is_computing_kernel(const ka_finder *f, const ka_work *w)
{
    uint8_t family = f->s->class_of[w->name].family;
    return family == KA_FAMILY_GEMM || family == KA_FAMILY_CONVOLUTION ||
           family == KA_FAMILY_ATTENTION;
}

/* Names whose kernels are long enough and take enough of all. */
static void choose_kernel_names(ka_finder *f, kernels *k, ka_amount *of)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->work_count; i++)
        if (is_occupancy_candidate(f, &s->work[i]))
            ka_amount_add(&of[s->work[i].name], ka_work_ns(&s->work[i]));
    for (uint32_t i = 0; i < s->name_count; i++)
        k->wanted[i] = of[i].count && ka_share(f, of[i].ns) >= MIN_NAME_SHARE &&
                       of[i].ns / (int64_t)of[i].count >= MIN_MEAN_NS;
}

/* Free `k` in any case. False: out of memory. */
static bool list_kernel_fills(ka_finder *f, kernels *k)
{
    const ka_dataset *s = f->s;
    ka_amount *of = calloc((size_t)s->name_count + 1, sizeof *of);
    *k = (kernels){.chosen = calloc((size_t)s->work_count + 1, 1),
                   .wanted = calloc((size_t)s->name_count + 1, 1),
                   .of = calloc((size_t)s->stream_count + 1, sizeof *k->of)};
    f->no_memory |= !of || !k->chosen || !k->wanted || !k->of;
    f->no_memory |= !f->no_memory && !find_limits_of(s, k->of);
    bool ok = !f->no_memory && ka_factors_make(f, &k->x);
    if (ok)
        choose_kernel_names(f, k, of);
    free(of);
    return ok;
}

static void free_kernel_fills(kernels *k)
{
    ka_factors_free(&k->x);
    free(k->chosen);
    free(k->wanted);
    free(k->of);
}

/* Returns the factor that the kernel's time should have, 1 if it is fine; *value is a number
 * that explains it. */
typedef double fill_factor(const ka_finder *f, const ka_work *w, const launch *l, const limits *of,
                     double *value);

/* One of both rules: its factor, its finding, and what it needs, also in words. `occupancy`: it is of use. */
typedef struct fill_rule {
    fill_factor *factor_of;
    void (*say)(ka_finder *f, const kernels *k, int64_t saved);
    bool (*is_stated)(const launch *l, const limits *of);
    const char *needed;
    bool occupancy;
} fill_rule;

static void count_occupancy(const ka_finder *f, kernels *k, const ka_work *w, const launch *l)
{
    k->with_occupancy += l->occupancy >= 0;
    k->without_occupancy += l->occupancy < 0 && !is_computing_kernel(f, w);
}

/* Applies the rule's factor to all kernels with a wanted name. */
static void measure_kernel_fill(ka_finder *f, kernels *k, const fill_rule *rule)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (!is_occupancy_candidate(f, w) || !k->wanted[w->name])
            continue;
        const limits *of = &k->of[w->stream];
        launch l = read_launch_shape(s->trace, w->row, of);
        double value = 0, factor = 1, saved;
        k->checked++;
        count_occupancy(f, k, w, &l);
        if (rule->is_stated(&l, of)) {
            k->stated++;
            factor = rule->factor_of(f, w, &l, of, &value);
        }
        if (factor >= 1)
            continue;
        saved = (1 - factor) * (double)ka_work_ns(w);
        k->x.work[i] = factor;
        k->chosen[i] = 1;
        ka_amount_add(&k->found, ka_work_ns(w));
        if (saved > k->worst_ns) {
            k->worst_ns = saved;
            k->worst = i;
            k->worst_value = value;
        }
    }
}

/* Where readers find which source reports what. */
#define WHERE " (docs/reference/devices.md: what each source reports)"

/* Skips the rule, and returns false, if kernels were checked and none says what is needed. */
static bool is_launch_known(ka_finder *f, const kernels *k, const fill_rule *rule)
{
    if (k->stated || !k->checked)
        return true;
    ka_skip_rule(f, "not reported: %s" WHERE, rule->needed);
    return false;
}

/* A rule that found nothing is no proof if it lacked half of what it looks at. */
static void say_or_skip(ka_finder *f, const kernels *k, const fill_rule *rule)
{
    int64_t saved = k->found.count ? ka_saved_with(f, &k->x) : 0;
    if (ka_is_significant(f, saved, MIN_PERCENT))
        rule->say(f, k, saved);
    else if (rule->occupancy && k->without_occupancy && !k->with_occupancy)
        ka_skip_rule(f, "not reported: est. achieved occupancy %% of kernels; only their numbers of blocks were "
                        "checked" WHERE);
}

/* The common part of both rules. */
static void find_kernels_that(ka_finder *f, const fill_rule *rule)
{
    kernels k;
    if (list_kernel_fills(f, &k)) {
        measure_kernel_fill(f, &k, rule);
        if (is_launch_known(f, &k, rule))
            say_or_skip(f, &k, rule);
    }
    free_kernel_fills(&k);
}

/* ---- too few blocks -------------------------------------------------------------------------- */

/* Fewer blocks than multiprocessors: the share that is filled, at least MIN_FACTOR, as the
 * time does not fall in proportion. *value: blocks per multiprocessor. */
static double factor_of_filling(const ka_finder *f, const ka_work *w, const launch *l,
                                const limits *of, double *value)
{
    double part = l->blocks / of->units;
    *value = part;
    if (part < 1)
        return KB_MAX(part, MIN_FACTOR);
    bool waits = !is_computing_kernel(f, w) && l->occupancy >= 0 && l->occupancy < FEW_OCCUPANCY;
    return waits ? FACTOR_THREADS : 1;
}

/* The worst one has too few blocks, else too few threads at a time. */
static kb_text fill_text(const ka_finder *f, const kernels *k)
{
    const ka_work *worst = &f->s->work[k->worst];
    launch l = read_launch_shape(f->s->trace, worst->row, &k->of[worst->stream]);
    kb_text text;
    if (k->worst_value < 1)
        kb_snprintf(text.s, sizeof text.s, "fills %.0f %% of them", 100 * k->worst_value);
    else
        kb_snprintf(text.s, sizeof text.s, "has %.0f blocks and an occupancy of %.0f %%", l.blocks,
                    l.occupancy);
    return text;
}

static void advise_low_occupancy(ka_finder *f, ka_found *x, const kernels *k)
{
    if (is_computing_kernel(f, &f->s->work[k->worst]))
        ka_advise(f, x,
                  "Give each launch %.0f times the rows: a larger batch, or several small products "
                  "as one (torch.bmm, one wide Linear instead of several)",
                  ceil(1 / KB_MAX(k->worst_value, 0.01)));
    else if (k->worst_value < 1)
        ka_advise(f, x,
                  "Let more blocks share the work: a larger batch, a reduction in two passes, "
                  "or torch.compile to put it into a kernel that fills the device; independent "
                  "ones can run side by side on streams");
    else
        ka_advise(f, x,
                  "Let more threads run at a time: torch.compile to put it into another kernel; in "
                  "kernels of your own more threads in a block, fewer registers or less shared "
                  "memory");
}

static void report_low_occupancy(ka_finder *f, const kernels *k, int64_t saved)
{
    const ka_work *worst = &f->s->work[k->worst];
    ka_found *x = ka_open_finding(f, saved, 0.3, kb_string(""));
    if (!x)
        return;
    x->count = k->found.count;
    ka_say(
        f, x,
        "%llu kernels have fewer blocks than the device has multiprocessors (%.0f), or few threads "
        "that wait for memory: they take %.1f %% of all; one of %s %s",
        (unsigned long long)k->found.count, k->of[worst->stream].units, ka_share(f, k->found.ns),
        ka_short_name(ka_name(f->s, worst->name)).s, fill_text(f, k).s);
    advise_low_occupancy(f, x, k);
    ka_show_work(f, x, k->chosen, 1);
}

static bool has_blocks(const launch *l, const limits *of) { return l->blocks > 0 && of->units > 0; }

void ka_find_low_occupancy(ka_finder *f)
{
    static const fill_rule rule = {factor_of_filling, report_low_occupancy, has_blocks,
                                   "grid of kernels, or numSms of the device", true};
    find_kernels_that(f, &rule);
}

/* ---- the last wave --------------------------------------------------------------------------- */

/* Loss of the last wave, of which TAIL_COUNTS is counted. With more than MAX_WAVES waves the
 * loss is small. *value: the number of waves. */
static double factor_of_full_waves(const ka_finder *f, const ka_work *w, const launch *l,
                                   const limits *of, double *value)
{
    (void)f;
    (void)w;
    double waves = l->blocks / (of->units * count_resident_blocks(l, of)), whole = ceil(waves);
    double loss = (whole - waves) / whole;
    *value = waves;
    return waves > 1 && waves <= MAX_WAVES && loss >= MIN_LOSS ? 1 - TAIL_COUNTS * loss : 1;
}

static void report_tail(ka_finder *f, const kernels *k, int64_t saved)
{
    const ka_work *worst = &f->s->work[k->worst];
    const limits *of = &k->of[worst->stream];
    launch l = read_launch_shape(f->s->trace, worst->row, of);
    double wave = of->units * count_resident_blocks(&l, of);
    ka_found *x = ka_open_finding(f, saved, 0.3, kb_string(""));
    if (!x)
        return;
    x->count = k->found.count;
    ka_say(f, x,
           "%llu kernels (%.1f %% of all) end with a wave that leaves much of the device without "
           "work; one of %s has %.0f blocks, %.2f waves of %.0f",
           (unsigned long long)k->found.count, ka_share(f, k->found.ns),
           ka_short_name(ka_name(f->s, worst->name)).s, l.blocks, k->worst_value, wave);
    ka_advise(
        f, x,
        "Change the batch or the tile size so that there are no more than %.0f blocks, or just "
        "under a multiple of it; kernels of your own can stay resident and take tile after "
        "tile",
        wave * floor(k->worst_value));
    ka_show_work(f, x, k->chosen, 1);
}

static bool has_waves(const launch *l, const limits *of)
{
    return has_blocks(l, of) && l->threads >= 1 && of->threads >= 1;
}

void ka_find_tail_wave(ka_finder *f)
{
    static const fill_rule rule = {factor_of_full_waves, report_tail, has_waves,
                                   "grid and block of kernels, or numSms and maxThreadsPerMultiprocessor of the device",
                                   false};
    find_kernels_that(f, &rule);
}

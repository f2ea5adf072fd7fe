/* Rules about memory of devices: near the limit, growth from step to step, fragmentation, and
 * allocations from the driver within steps.
 *
 * Sources are the tables `memory` and `memory_leaks`, and the [memory] rows of PyTorch, of
 * which a curve is read for each device. The first step warms up the allocator: it does not
 * count as growth or churn. */
#include "analyze/findings/find_work.h"
#include "analyze/summary/summary.h"

/* ---- the curve ------------------------------------------------------------------------------- */

/* One [memory] row. */
typedef struct moment {
    int64_t ns, bytes, total, reserved; /* total, reserved: -1: not recorded */
    kineto_row row;
} moment;

/* Memory of one device over time. `total` of each moment is the recorded one or, without it,
 * the sum of changes since the trace began. */
typedef struct curve {
    KB_VEC(moment) list; /* by time; total is recorded or summed up */
} curve;

static int compare_memory_moments(const void *left, const void *right)
{
    const moment *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

enum { BYTES, TYPE, INDEX, TOTAL, RESERVED, NUMBERS };
static const ka_keys keys = {NUMBERS,
                             {'B', 'D', 'T', 'B'},
                             {KA_KEY("Bytes"), KA_KEY("Device Type"), KA_KEY("Device Id"),
                              KA_KEY("Total Allocated"), KA_KEY("Total Reserved")}};

/* False: the row is of another device, or has no size. */
static bool read_moment(const kineto_trace *t, kineto_row row, int64_t type, int64_t device,
                        moment *m)
{
    int64_t stated[NUMBERS] = {[INDEX] = -1, [TOTAL] = -1, [RESERVED] = -1};
    uint32_t known = ka_arg_ints(t, row, &keys, stated);
    m->bytes = stated[BYTES];
    m->total = stated[TOTAL];
    m->reserved = stated[RESERVED];
    return known >> BYTES & 1 && stated[TYPE] == type &&
           (ka_is_host_memory(type) || stated[INDEX] == device);
}

/* Is it a track of that process? -1: of any. */
static bool is_of_process(const ka_finder *f, uint32_t track, int64_t pid)
{
    kineto_track t;
    kineto_process p;
    if (pid < 0)
        return true;
    kineto_trace_track(f->s->trace, track, &t);
    kineto_trace_process(f->s->trace, t.process, &p);
    return p.pid == pid;
}

static void read_memory_block(ka_finder *f, curve *c, const kt_block *b, kineto_row first,
                              int64_t type, int64_t device, int64_t pid)
{
    for (uint32_t i = 0; i < b->count && !f->no_memory; i++) {
        moment m = {.ns = b->start_ns[i], .row = first + i};
        if (b->kind[i] != KINETO_KIND_MEMORY || m.ns < f->s->start_ns || m.ns > f->s->end_ns ||
            !is_of_process(f, b->track[i], pid))
            continue;
        if (read_moment(f->s->trace, m.row, type, device, &m))
            f->no_memory |= !kb_vec_push(&c->list, m);
    }
}

/* Reads the [memory] rows of one device of one process. The caller frees the list, also on
 * failure. False: no rows, or out of memory. */
static bool read_memory_curve(ka_finder *f, int64_t type, int64_t device, int64_t pid, curve *c)
{
    const kineto_trace *t = f->s->trace;
    uint64_t sampling = ka_memory_sampling(t);
    int64_t now = 0;
    kineto_row row = 0;
    *c = (curve){0};
    for (uint32_t b = 0; b < kt_block_count(t) && !f->no_memory; b++) {
        const kt_block *block = kt_block_at(t, b);
        if (block->kinds >> KINETO_KIND_MEMORY & 1)
            read_memory_block(f, c, block, row, type, device, pid);
        row += block->count;
    }
    if (c->list.count)
        qsort(c->list.data, c->list.count, sizeof *c->list.data, compare_memory_moments);
    for (size_t i = 0; i < c->list.count; i++) {
        moment *m = &c->list.data[i];
        now = m->total >= 0 ? m->total : ka_add_ns(now, ka_memory_scaled(sampling, m->bytes));
        m->total = now;
    }
    return !f->no_memory && c->list.count > 0;
}

/* ---- what the table of devices says ---------------------------------------------------------- */

/* A row of the table `memory`, with what the name of the device says. */
typedef struct use {
    kineto_string name;            /* "GPU0", "CPU", "xpu1" */
    int64_t type, device;          /* KINETO_DEVICE_…; index, -1 of the host */
    int64_t pid;                   /* whose memory it is; -1: there is one process */
    int64_t peak, reserved, at_ns; /* reserved: KA_NO_INT: not recorded */
    int64_t limit;                 /* of the device's memory; -1: not known */
} use;

/* The number at the end of a name ("GPU0", "…, process 17"); -1: none. */
static int64_t parse_device_index(kineto_string name)
{
    size_t from = name.size;
    int64_t index = 0;
    while (from && kb_is_digit(name.data[from - 1]))
        from--;
    for (size_t i = from; i < name.size && i < from + 9; i++)
        index = index * 10 + (name.data[i] - '0');
    return from < name.size ? index : -1;
}

/* KINETO_DEVICE_ number of a device name as ka_memory_device writes it; 0, the host's, if it
 * is not known. */
static int64_t parse_device_type(kineto_string name)
{
    if (kb_string_starts_with(name, "GPU"))
        return KINETO_DEVICE_CUDA;
    for (uint32_t type = 0; type < 64; type++) {
        const char *word = ka_device_type_name(type);
        size_t size = word ? strlen(word) : 0;
        if (size && name.size > size && memcmp(name.data, word, size) == 0 &&
            kb_is_digit(name.data[size]))
            return type;
    }
    return 0;
}

/* -1 for what is not a size. */
static int64_t to_whole_number(double v) { return v >= 0 && v < 9e18 ? (int64_t)v : -1; }

static use read_memory_use(const ka_finder *f, uint64_t row)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_memory);
    kineto_string name = ka_text_at(t, row, KA_COL_memory_device), device = name;
    const char *of = memmem(name.data, name.size, KA_MEMORY_PROCESS, strlen(KA_MEMORY_PROCESS));
    device.size = of ? (size_t)(of - name.data) : name.size;
    use u = {.name = name,
             .type = parse_device_type(device),
             .device = parse_device_index(device),
             .pid = of ? parse_device_index(name) : -1,
             .peak = ka_fact_int(t, row, KA_COL_memory_peak_allocated_bytes),
             .reserved = ka_fact_int(t, row, KA_COL_memory_peak_reserved_bytes),
             .at_ns = ka_fact_int(t, row, KA_COL_memory_peak_at_us),
             .limit = -1};
    if (u.device >= 0)
        u.limit = to_whole_number(ka_device_number(f->s->trace, u.device, "totalGlobalMem"));
    return u;
}

/* More are of a trace that cannot be right, and each costs a walk over its rows. */
#define MAX_DEVICES UINT64_C(16)
/* Rows of the table `memory` that are checked. */
static uint64_t count_memory_uses(const ka_finder *f)
{
    return KB_MIN(ka_table_rows(ka_fact_table(f, KA_TABLE_memory)), MAX_DEVICES);
}

static double bytes_to_gib(int64_t bytes) { return (double)bytes / (1 << 30); }

/* Bytes in words, signed. */
static kb_text amount_text(double bytes)
{
    kb_text text;
    double mib = bytes / (1 << 20);
    if (mib >= 1024 || mib <= -1024)
        (void)kb_snprintf(text.s, sizeof text.s, "%.2f GiB", mib / 1024);
    else if (mib >= 0.1)
        (void)kb_snprintf(text.s, sizeof text.s, "%.1f MiB", mib);
    else
        (void)kb_snprintf(text.s, sizeof text.s, "%.0f bytes", bytes);
    return text;
}

/* ---- near the limit -------------------------------------------------------------------------- */

/* Above 90 % a larger batch or another allocator state may fail; above 97 % the next peak may. */
#define LIMIT_PERCENT   90.0
#define SERIOUS_PERCENT 97.0

/* The peak of allocated memory against the size of the device. */
void ka_find_memory_limit(ka_finder *f)
{
    for (uint64_t row = 0; row < count_memory_uses(f); row++) {
        use u = read_memory_use(f, row);
        double part = ka_percent((double)u.peak, (double)u.limit);
        if (u.limit <= 0 || part <= LIMIT_PERCENT)
            continue;
        ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.9, u.name);
        if (!x)
            return;
        ka_set_extent(x, part);
        ka_set_severity(x, part > SERIOUS_PERCENT ? KINETO_FINDING_HIGH : KINETO_FINDING_MEDIUM);
        ka_say(f, x, "%.*s has %.2f of its %.1f GiB allocated at the peak, %.1f %%",
               (int)KB_MIN(u.name.size, (size_t)40), u.name.data, bytes_to_gib(u.peak),
               bytes_to_gib(u.limit), part);
        ka_advise(
            f, x,
            "torch.utils.checkpoint around the largest blocks, 16-bit activations (autocast), "
            "sharded optimizer states (FSDP, ZeRO), or smaller batches with gradients "
            "accumulated; 'ckineto analyze --only memory_operators' lists the operators that "
            "allocate most");
        ka_show_span(f, x, u.at_ns, u.at_ns, u.peak, "%s allocated", amount_text((double)u.peak).s);
    }
}

#define WARM_UP_PART  3 /* of a trace without steps */
/* When the program should have all the memory it needs: after its first step, whether that is
 * selected or not, or after a third of what was recorded. */
static int64_t warm_from_ns(const ka_finder *f)
{
    const ka_dataset *s = f->s;
    return s->step_count ? s->steps[0].end_ns
                         : s->start_ns + kb_length_ns(s->start_ns, s->end_ns) / WARM_UP_PART;
}

/* ---- fragmentation --------------------------------------------------------------------------- */

#define UNUSED_PERCENT       20.0               /* of what is reserved */
#define UNUSED_LIMIT_PERCENT 5.0                /* … and of the device */
#define UNUSED_BYTES         ((int64_t)1 << 30) /* … where its size is not known */
#define TIGHT_PERCENT        80.0

/* The row of the peak, which knows what was reserved at that moment. */
static const moment *find_peak(const curve *c)
{
    const moment *best = NULL;
    for (size_t i = 0; i < c->list.count; i++)
        if (c->list.data[i].reserved >= 0 && (!best || c->list.data[i].total > best->total))
            best = &c->list.data[i];
    return best;
}

/* Reserved by the allocator and not allocated. */
static int64_t unused_bytes_at(const moment *m)
{
    return m->reserved > m->total ? kb_length_ns(m->total, m->reserved) : 0;
}

/* A large part of what is reserved, and of the device (or in bytes, where the size of the
 * device is not known). */
static bool is_much_unused(const use *u, int64_t unused, int64_t reserved)
{
    if (ka_percent((double)unused, (double)reserved) < UNUSED_PERCENT)
        return false;
    return u->limit > 0 ? ka_percent((double)unused, (double)u->limit) >= UNUSED_LIMIT_PERCENT
                        : unused >= UNUSED_BYTES;
}

/* Evidence that unused memory was unusable: the allocator took more from the device though it
 * held enough (`grown`), or released memory within an operator to try again (`retried`). */
typedef struct proofs {
    uint64_t grown, retried;
    int64_t grown_bytes;
} proofs;

/* Bytes by which reserved memory grew for a request that the unused memory could have held in
 * one piece; 0 if it did not, or during warm-up. */
static int64_t find_growth(const ka_finder *f, const curve *c, size_t i)
{
    const moment *m = &c->list.data[i], *before = i ? &c->list.data[i - 1] : NULL;
    if (!before || m->ns < warm_from_ns(f) || m->reserved < 0 || before->reserved < 0 ||
        m->bytes <= 0 || m->reserved <= before->reserved || unused_bytes_at(before) < m->bytes)
        return 0;
    return kb_length_ns(before->reserved, m->reserved);
}

/* A synchronous release inside of an operator, after warm-up: PyTorch's allocator does so to
 * retry a failed allocation. */
static bool is_allocation_retry(const ka_finder *f, uint32_t slice)
{
    static const char *const calls[] = {"cudaFree", "hipFree", "cuMemFree", "cuMemUnmap",
                                        "hipMemUnmap"};
    const ka_slice *s = &f->s->slices[slice];
    kineto_string name = ka_name(f->s, s->name);
    if (!kt_kind_is_launch(s->kind) || s->start_ns < warm_from_ns(f) ||
        !ka_is_in_steps(f, s->step) || kb_string_contains(name, "Async") ||
        kb_string_contains(name, "Host") || ka_operator_of(f->s, slice) == KA_NONE)
        return false;
    for (size_t i = 0; i < KB_COUNT(calls); i++)
        if (kb_string_starts_with(name, calls[i]))
            return true;
    return false;
}

static proofs find_retries(const ka_finder *f, const curve *c)
{
    proofs p = {0};
    for (size_t i = 0; i < c->list.count; i++) {
        int64_t bytes = find_growth(f, c, i);
        p.grown += bytes > 0;
        p.grown_bytes = ka_add_ns(p.grown_bytes, bytes);
    }
    for (uint32_t i = 0; i < f->s->slice_count; i++)
        p.retried += is_allocation_retry(f, i);
    return p;
}

static void show_retries(ka_finder *f, ka_found *x, const curve *c)
{
    for (size_t i = 0; i < c->list.count; i++) {
        const moment *m = &c->list.data[i];
        int64_t bytes = find_growth(f, c, i);
        if (bytes)
            ka_show_row(f, x, m->row, bytes, "%s more are requested from the device for %s, while "
                                             "%s are unused",
                        amount_text((double)bytes).s, amount_text((double)m->bytes).s,
                        amount_text((double)unused_bytes_at(m - 1)).s);
    }
    for (uint32_t i = 0; i < f->s->slice_count; i++)
        if (is_allocation_retry(f, i))
            ka_show_row(f, x, f->s->slices[i].row, ka_slice_ns(&f->s->slices[i]),
                        "memory is released within %s, to retry",
                        ka_short_name(ka_name(f->s, f->s->slices[ka_operator_of(f->s, i)].name)).s);
}

/* `m` is the moment of the peak. The severity is only medium if the device itself is nearly
 * full. */
static void report_fragmentation(ka_finder *f, const use *u, const curve *c, const moment *m,
                                 const proofs *p)
{
    int64_t unused = unused_bytes_at(m);
    bool tight = ka_percent((double)m->reserved, (double)u->limit) >= TIGHT_PERCENT;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.7, u->name);
    char what[120];
    if (!x)
        return;
    x->count = p->grown + p->retried;
    ka_set_extent(x, (double)unused);
    ka_set_severity(x, u->limit > 0 && tight ? KINETO_FINDING_MEDIUM : KINETO_FINDING_LOW);
    if (p->grown)
        kb_snprintf(what, sizeof what, "it requested %s more in %llu requests that fit into "
                                       "memory it held",
                    amount_text((double)p->grown_bytes).s, (unsigned long long)p->grown);
    else
        kb_snprintf(what, sizeof what, "it released memory %llu times within operators, to retry",
                    (unsigned long long)p->retried);
    ka_say(f, x,
           "at the peak on %.*s, with %s allocated, the allocator holds %s more, %.0f %% of what "
           "it reserved, and after the warm-up %s",
           (int)KB_MIN(u->name.size, (size_t)40), u->name.data, amount_text((double)m->total).s,
           amount_text((double)unused).s, ka_percent((double)unused, (double)m->reserved), what);
    ka_advise(
        f, x,
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment; fewer different "
        "sizes (pad sequences to a few lengths); free what is short-lived before what "
        "stays is allocated");
    show_retries(f, x, c);
}

/* Reserved and unused memory, together with requests that it could not serve. */
void ka_find_memory_fragmentation(ka_finder *f)
{
    bool any_reserved = false;
    for (uint64_t row = 0; row < count_memory_uses(f); row++) {
        use u = read_memory_use(f, row);
        curve c = {0};
        any_reserved |= u.reserved != KA_NO_INT;
        if (u.reserved == KA_NO_INT || u.device < 0 || !is_much_unused(&u, u.reserved, u.reserved))
            continue;
        const moment *m = read_memory_curve(f, u.type, u.device, u.pid, &c) ? find_peak(&c) : NULL;
        if (m && is_much_unused(&u, unused_bytes_at(m), m->reserved)) {
            proofs p = find_retries(f, &c);
            if (p.grown || p.retried)
                report_fragmentation(f, &u, &c, m, &p);
        }
        kb_vec_free(&c.list);
    }
    if (!any_reserved)
        ka_skip_rule(f, "memory events do not say what the allocator reserved");
}

/* ---- growth ---------------------------------------------------------------------------------- */

/* Limits of growth: enough steps, rising in most of them, and by a noticeable amount.
 * MAX_STEPS bounds the pairs of growth_slope, whose number is quadratic. */
#define MIN_STEPS    3u /* after the first one, which warms up */
#define MAX_STEPS     256u
#define RISING_PERCENT 80.0 /* of the pairs of neighbours */
#define GROWTH_PERCENT 1.0  /* of the level, over all steps … */
#define GROWTH_BYTES   ((double)(1 << 20))
#define STEPS_TO_LIMIT 10000.0

/* Memory at the end and at the peak of a step. */
typedef struct level {
    uint32_t step;
    double peak, end; /* bytes */
} level;

static int compare_level_numbers(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Levels of steps after the first one; at most MAX_STEPS, evenly chosen. Steps are by start. */
static uint32_t find_step_levels(const ka_finder *f, const curve *c, level *levels)
{
    const ka_dataset *s = f->s;
    uint32_t stride = f->step_count / MAX_STEPS + 1, count = 0, seen = 0;
    size_t at = 0;
    double now = 0;
    for (uint32_t i = 0; i < s->step_count; i++) {
        if (s->steps[i].slice == KA_NONE)
            continue;
        for (; at < c->list.count && c->list.data[at].ns < s->steps[i].start_ns; at++)
            now = (double)c->list.data[at].total;
        level l = {i, now, now};
        for (; at < c->list.count && c->list.data[at].ns <= s->steps[i].end_ns; at++) {
            now = (double)c->list.data[at].total;
            l.peak = KB_MAX(l.peak, now);
        }
        l.end = now;
        if (seen++ && seen % stride == 0 && count < MAX_STEPS)
            levels[count++] = l;
    }
    return count;
}

/* Median of the slopes between all pairs (Theil and Sen): one odd step does not move it. */
static double growth_slope(const level *levels, uint32_t count, bool of_peaks)
{
    double *slopes = malloc((size_t)count * count / 2 * sizeof *slopes + 1), slope = 0;
    size_t n = 0;
    for (uint32_t i = 0; slopes && i < count; i++)
        for (uint32_t j = i + 1; j < count; j++) {
            double rise =
                of_peaks ? levels[j].peak - levels[i].peak : levels[j].end - levels[i].end;
            slopes[n++] = rise / (levels[j].step - levels[i].step);
        }
    if (n) {
        qsort(slopes, n, sizeof *slopes, compare_level_numbers);
        slope = ka_quantile(slopes, n, 0.5);
    }
    free(slopes);
    return slope;
}

/* Percentage of steps that are higher than the step before. */
static double percent_of_rises(const level *levels, uint32_t count, bool of_peaks)
{
    uint32_t rising = 0;
    for (uint32_t i = 1; i < count; i++)
        rising +=
            of_peaks ? levels[i].peak > levels[i - 1].peak : levels[i].end > levels[i - 1].end;
    return 100.0 * rising / (count - 1);
}

/* *slope: bytes per step. */
static bool is_growing(const level *levels, uint32_t count, bool of_peaks, double *slope)
{
    double last = of_peaks ? levels[count - 1].peak : levels[count - 1].end;
    *slope = growth_slope(levels, count, of_peaks);
    double growth = *slope * (levels[count - 1].step - levels[0].step);
    return growth >= GROWTH_BYTES && 100 * growth >= GROWTH_PERCENT * last &&
           percent_of_rises(levels, count, of_peaks) >= RISING_PERCENT;
}

/* The operator with the most bytes that were not released and at least one such allocation in
 * every second step; empty: not known. */
static kineto_string find_keeper(const ka_finder *f, const use *u, int64_t *bytes)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_memory_leaks);
    kineto_string best = {"", 0};
    *bytes = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        int64_t left = ka_fact_int(t, row, KA_COL_memory_leaks_bytes);
        if (kb_string_equal(ka_text_at(t, row, KA_COL_memory_leaks_device), u->name) &&
            ka_fact_int(t, row, KA_COL_memory_leaks_count) >= (int64_t)f->step_count / 2 &&
            left > *bytes) {
            *bytes = left;
            best = ka_text_at(t, row, KA_COL_memory_leaks_operator);
        }
    }
    return best;
}

static void advise_growth(ka_finder *f, ka_found *x, const use *u)
{
    int64_t bytes;
    kineto_string keeper = find_keeper(f, u, &bytes);
    if (!keeper.size) {
        ka_advise(f, x,
                  "Look for what keeps tensors of a step: losses summed without .item() or "
                  ".detach(), lists of outputs, graphs kept with retain_graph=True");
        return;
    }
    ka_advise(f, x,
              "%s allocated %s that was never released: look for what keeps it (losses summed "
              "without .item() or .detach(), lists of outputs, retain_graph=True)",
              ka_short_name(keeper).s, amount_text((double)bytes).s);
}

/* The forecast of when the device is full assumes that growth stays linear. */
static void report_growth(ka_finder *f, const use *u, const level *levels, uint32_t count,
                          bool of_peaks, double slope)
{
    double last = of_peaks ? levels[count - 1].peak : levels[count - 1].end,
           left = ((double)u->limit - last) / slope;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.7, u->name);
    char full[80] = "";
    if (!x)
        return;
    ka_set_extent(x, slope);
    ka_set_severity(x, KINETO_FINDING_MEDIUM);
    if (u->limit > 0 && left >= 0 && left < STEPS_TO_LIMIT)
        (void)snprintf(full, sizeof full, "; at this rate it is full after %.0f more steps", left);
    x->count = count;
    ka_say(f, x, "%s on %.*s grows by %s a step, to %s%s",
           of_peaks ? "the peak of allocated memory" : "memory that steps leave allocated",
           (int)KB_MIN(u->name.size, (size_t)40), u->name.data, amount_text(slope).s,
           amount_text(last).s, full);
    advise_growth(f, x, u);
    for (uint32_t i = 0; i < count; i++)
        ka_show_row(f, x, f->s->slices[f->s->steps[levels[i].step].slice].row, (int64_t)i + 1,
                    "%s at its peak, %s at its end", amount_text(levels[i].peak).s,
                    amount_text(levels[i].end).s);
}

/* Memory that steps leave at their ends is checked first: growth of the peak alone may come
 * from larger inputs. */
static void check_growth(ka_finder *f, const use *u)
{
    curve c;
    level *levels = malloc(MAX_STEPS * sizeof *levels);
    f->no_memory |= !levels;
    uint32_t count = levels && read_memory_curve(f, u->type, u->device, u->pid, &c)
                         ? find_step_levels(f, &c, levels)
                         : 0;
    double slope;
    if (count >= MIN_STEPS && is_growing(levels, count, false, &slope))
        report_growth(f, u, levels, count, false, slope);
    else if (count >= MIN_STEPS && is_growing(levels, count, true, &slope))
        report_growth(f, u, levels, count, true, slope);
    if (levels)
        kb_vec_free(&c.list);
    free(levels);
}

/* Memory at the ends, or at the peaks, of steps that grows steadily (median slope). */
void ka_find_memory_growth(ka_finder *f)
{
    if (f->step_count < MIN_STEPS + 1) {
        ka_skip_rule(f, "%u steps are too few to separate growth from warm-up: record %u or more",
                        f->step_count, MIN_STEPS + 1);
        return;
    }
    for (uint64_t row = 0; row < count_memory_uses(f) && !f->no_memory; row++) {
        use u = read_memory_use(f, row);
        check_growth(f, &u);
    }
}

/* ---- allocator churn ------------------------------------------------------------------------- */

#define CHURN_PERCENT 0.5
#define MIN_CALLS   3u

/* Calls that take memory from the driver or give it back. Those of pools (…Async) do not wait. */
static uint8_t takes_driver_memory(kineto_string name)
{
    static const char *const starts[] = {
        "cudaMalloc",     "cudaFree",     "cudaHostAlloc",
        "hipMalloc",      "hipFree",      "hipHostMalloc",
        "hipHostAlloc",   "cuMemAlloc",   "cuMemFree",
        "cuMemCreate",    "cuMemMap",     "cuMemUnmap",
        "cuMemSetAccess", "cuMemRelease", "hsa_amd_memory_pool_allocate",
        "zeMemAlloc",     "zeMemFree",    "urUSM",
        "hipMemCreate",   "hipMemMap",    "hipMemUnmap"};
    if (kb_string_contains(name, "Async") || kb_string_contains(name, "async"))
        return 0;
    for (size_t i = 0; i < KB_COUNT(starts); i++)
        if (kb_string_starts_with(name, starts[i]))
            return 1;
    return 0;
}

typedef struct churn {
    ka_amount all;
    uint64_t released; /* of them, that give memory back */
    uint64_t mapped; /* of them, by pieces, as segments that grow are */
    ka_factors x;
    ka_answers names;
    int64_t from_ns;
} churn;

static bool is_churn_call(const ka_finder *f, churn *c, uint32_t i)
{
    const ka_slice *s = &f->s->slices[i];
    return kt_kind_is_launch(s->kind) && s->start_ns >= c->from_ns && ka_is_in_steps(f, s->step) &&
           ka_answer(f->s, &c->names, s->name, takes_driver_memory);
}

static bool gives_memory_back(kineto_string name)
{
    return kb_string_contains(name, "Free") || kb_string_contains(name, "Unmap") ||
           kb_string_contains(name, "Release");
}

/* A call of the driver inside one of the runtime is the same allocation, and counts once. */
static bool is_outermost_call(const ka_finder *f, churn *c, uint32_t i)
{
    uint32_t around = f->s->slices[i].parent;
    return around == KA_NONE || !is_churn_call(f, c, around);
}

static void add_churn_call(const ka_finder *f, churn *c, uint32_t i)
{
    static const char *const pieces[] = {"MemCreate", "MemMap", "MemUnmap", "MemSetAccess",
                                         "MemRelease"};
    kineto_string name = ka_name(f->s, f->s->slices[i].name);
    ka_amount_add(&c->all, ka_slice_ns(&f->s->slices[i]));
    for (size_t k = 0; k < KB_COUNT(pieces); k++)
        c->mapped += kb_string_contains(name, pieces[k]);
    c->released += gives_memory_back(name);
}

/* Evidence: each outermost call, with its operator. */
static void show_churn(ka_finder *f, ka_found *x, churn *c)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        if (!is_churn_call(f, c, i) || !is_outermost_call(f, c, i))
            continue;
        uint32_t op = ka_operator_of(s, i);
        kb_text name =
            ka_short_name(op == KA_NONE ? kb_string("") : ka_name(s, s->slices[op].name));
        ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), "%s%s",
                    op == KA_NONE ? "" : "in ", name.s);
    }
}

static void report_churn(ka_finder *f, churn *c, int64_t saved)
{
    ka_found *x = ka_open_finding(f, saved, f->step_count ? 0.8 : 0.4, kb_string(""));
    if (!x)
        return;
    x->count = c->all.count;
    ka_say(f, x,
           "memory is allocated from the driver or released %llu times %s, %s in total, %s each",
           (unsigned long long)c->all.count,
           f->step_count ? "after the first step" : "after the first third of the recording",
           kb_duration(c->all.ns).s, kb_duration(c->all.ns / (int64_t)c->all.count).s);
    if (c->mapped * 2 > c->all.count)
        ka_advise(f, x,
                  "Keep memory: no torch.cuda.empty_cache() in the loop, shapes from a small set; "
                  "segments grow already (expandable_segments): let them, to the size of the "
                  "largest step, before what is recorded");
    else
        ka_advise(f, x,
                  "Keep memory: no torch.cuda.empty_cache() in the loop, shapes from a small set, "
                  "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; in programs without PyTorch "
                  "allocate once, or use a pool (cudaMallocAsync)");
    show_churn(f, x, c);
}

/* Without steps nothing tells where the warm-up ends: only memory that is also given back is not
 * allocated for the first time. */
static bool is_repeated(const ka_finder *f, const churn *c)
{
    return c->all.count >= MIN_CALLS && (f->step_count || c->released);
}

/* cudaMalloc, cudaFree and the like after the first step. */
void ka_find_allocator_churn(ka_finder *f)
{
    const ka_dataset *s = f->s;
    churn c = {.from_ns = warm_from_ns(f)};
    bool ok = ka_answers_make(f, &c.names) && ka_factors_make(f, &c.x);
    for (uint32_t i = 0; ok && i < s->slice_count; i++)
        if (is_churn_call(f, &c, i)) {
            if (is_outermost_call(f, &c, i))
                add_churn_call(f, &c, i);
            c.x.slices[i] = 0;
        }
    int64_t saved = ok && is_repeated(f, &c) ? ka_saved_with(f, &c.x) : 0;
    if (ok && saved == KA_NO_SAVINGS)
        saved = c.all.ns;
    if (ok && ka_is_significant(f, saved, CHURN_PERCENT))
        report_churn(f, &c, saved);
    ka_answers_free(&c.names);
    ka_factors_free(&c.x);
}

/* Rules about copies: synchronous calls, pageable memory, exposed uploads, tensors that are
 * filled on the host and then copied, and copies within the device.
 *
 * The direction and the kind of memory come from the names of copies ("Memcpy HtoD (Pageable ->
 * Device)"), as CUPTI, rocprofiler and Level Zero write them. What a copy costs is the smaller
 * of three numbers: its own time, the shortening of the critical path without the wait, and the
 * idle time of devices after the wait. */
#include "analyze/findings/find_time.h"

/* ---- copies and memsets that the host waits for ---------------------------------------------- */

static void show_copy_calls(ka_finder *f, ka_found *x, const ka_waits *waits, uint8_t kind)
{
    for (size_t i = 0; i < waits->list.count; i++) {
        const ka_wait *w = &waits->list.data[i];
        kineto_row row = f->s->slices[w->call].row;
        if (w->kind == kind && w->idle_ns)
            ka_show_row(f, x, row, w->ns, "devices are idle for %s after it",
                        kb_duration(w->idle_ns).s);
        else if (w->kind == kind)
            ka_show_row(f, x, row, w->ns, NULL);
    }
}

/* Waits of one kind; `site` is the place of the longest, KA_NONE without any. */
typedef struct waited {
    uint64_t count;
    int64_t ns, idle_ns;
    uint32_t site; /* of the longest */
} waited;

/* Sums the waits of a kind, and marks their calls in `without` as not waiting. */
static waited sum_copy_waits(const ka_waits *waits, uint8_t kind, ka_what_if_mask *without)
{
    waited sum = {.site = KA_NONE};
    int64_t longest = -1;
    for (size_t i = 0; i < waits->list.count; i++) {
        const ka_wait *w = &waits->list.data[i];
        if (w->kind != kind)
            continue;
        sum.count++;
        sum.ns = ka_add_ns(sum.ns, w->ns);
        sum.idle_ns = ka_add_ns(sum.idle_ns, w->idle_ns);
        without->slices[w->call] |= KA_NO_WAIT;
        if (w->ns > longest)
            sum.site = w->site;
        longest = KB_MAX(longest, w->ns);
    }
    return sum;
}

/* Savings are the smallest of three bounds: the critical path without the waits, the time of
 * the calls, and the idle time because of the host. */
static void check_copy_calls(ka_finder *f, const ka_waits *waits, ka_what_if_mask *without)
{
    waited sum = sum_copy_waits(waits, KA_WAIT_COPY_CALL, without);
    if (!sum.count)
        return;
    int64_t saved = ka_min_savings(ka_saved_by_mask(f, without), sum.ns);
    saved = ka_min_savings(saved, ka_host_idle_ns(f));
    if (saved == KA_NO_SAVINGS || ka_share(f, saved) < KA_MIN_SAVINGS_PCT)
        return;
    ka_found *x = ka_open_finding(f, saved, 0.7, kb_string(""));
    if (!x)
        return;
    x->count = sum.count;
    kb_text name = ka_short_name(ka_name(f->s, f->s->slices[sum.site].name));
    ka_say(f, x,
           "%llu synchronous copy or memset call%s the host for %s; devices are "
           "idle for %s after them, until it has launched again%s. The longest one is in %s",
           (unsigned long long)sum.count, sum.count == 1 ? " keeps" : "s keep",
           kb_duration(sum.ns).s, kb_duration(sum.idle_ns).s, ka_later_text(saved, sum.idle_ns).s,
           name.s);
    ka_advise(f, x,
              "Call the Async form on the stream that needs the data (cudaMemcpyAsync, "
              "hipMemcpyAsync, cudaMemsetAsync), from pinned memory; in PyTorch "
              "tensor.to(device, non_blocking=True) instead of what %s does",
              name.s);
    show_copy_calls(f, x, waits, KA_WAIT_COPY_CALL);
}

/* Copy and memset calls without Async, and the idle time after them. */
void ka_find_copy_synchronous(ka_finder *f)
{
    ka_waits waits = {0};
    ka_what_if_mask without = {0};
    if (ka_waits_find(f, &waits) && ka_what_if_mask_create(f, &without, false))
        check_copy_calls(f, &waits, &without);
    ka_what_if_mask_free(&without);
    ka_waits_free(&waits);
}

/* ---- pageable memory ------------------------------------------------------------------------- */

/* Reference for pageable copies. Smaller copies than MIN_BYTES are bound by latency, and
 * measure no bandwidth. */
#define USUAL_GBPS  12.0 /* what pinned memory reaches over PCIe 3, if the trace does not say */
#define MIN_BYTES (1 << 20) /* of a copy whose bandwidth counts */

typedef struct pageable {
    uint64_t count;
    int64_t ns, excess_ns; /* of copies; longer than they would take from pinned memory */
    int64_t sized_ns;      /* of copies that say their bytes */
    double bytes;
    double gbps;
} pageable;

/* False: the copy has no size. */
static bool copy_bytes(const ka_finder *f, const ka_work *w, double *bytes)
{
    int64_t stated;
    if (!ka_arg_int(f->s->trace, w->row, "bytes", &stated) || stated < 0)
        return false;
    *bytes = (double)stated;
    return true;
}

static bool is_pageable_copy(const ka_finder *f, const ka_work *w)
{
    return w->kind == KINETO_KIND_GPU_MEMCPY && ka_is_in_steps(f, w->step) &&
           kb_string_contains(ka_name(f->s, w->name), "Pageable");
}

/* The best bandwidth of a pinned copy in the trace, at least USUAL_GBPS: bytes per ns are
 * GB/s. */
static double measured_gbps(const ka_finder *f)
{
    double best = 0, bytes;
    for (uint32_t i = 0; i < f->s->work_count; i++) {
        const ka_work *w = &f->s->work[i];
        if (w->kind != KINETO_KIND_GPU_MEMCPY ||
            !kb_string_contains(ka_name(f->s, w->name), "Pinned"))
            continue;
        if (copy_bytes(f, w, &bytes) && bytes >= MIN_BYTES && ka_work_ns(w) > 0)
            best = KB_MAX(best, bytes / (double)ka_work_ns(w));
    }
    return KB_MAX(best, USUAL_GBPS);
}

/* Adds a pageable copy; without->work_ns receives by how much a pinned one would be shorter. */
static void add_copy_rate(ka_finder *f, uint32_t work, pageable *sum, ka_what_if_mask *without)
{
    const ka_work *w = &f->s->work[work];
    double bytes = 0;
    sum->count++;
    sum->ns = ka_add_ns(sum->ns, ka_work_ns(w));
    if (!copy_bytes(f, w, &bytes))
        return;
    sum->bytes += bytes;
    sum->sized_ns = ka_add_ns(sum->sized_ns, ka_work_ns(w));
    int64_t pinned_ns = (int64_t)(bytes / sum->gbps),
            excess = bytes >= MIN_BYTES ? ka_work_ns(w) - pinned_ns : 0;
    without->work_ns[work] = KB_MAX(excess, 0);
    sum->excess_ns = ka_add_ns(sum->excess_ns, without->work_ns[work]);
}

static pageable sum_copy_rates(ka_finder *f, ka_what_if_mask *without)
{
    pageable sum = {.gbps = measured_gbps(f)};
    for (uint32_t i = 0; i < f->s->work_count; i++)
        if (is_pageable_copy(f, &f->s->work[i]))
            add_copy_rate(f, i, &sum, without);
    return sum;
}

/* Evidence: pageable copies with the operator that made them. */
static void show_copies(ka_finder *f, ka_found *x)
{
    const ka_dataset *s = f->s;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (!is_pageable_copy(f, w))
            continue;
        kineto_string site = w->call == KA_NONE
                                 ? (kineto_string){"", 0}
                                 : ka_name(s, s->slices[ka_site_of(s, w->call)].name);
        ka_show_row(f, x, w->row, ka_work_ns(w), "%s", ka_short_name(site).s);
    }
}

/* Empty if the copies are too small for a bandwidth: small copies take their latency from any
 * memory. */
static kb_text copy_rates_text(const pageable *sum)
{
    kb_text text = {""};
    if (sum->excess_ns > 0 && sum->sized_ns > 0)
        kb_snprintf(text.s, sizeof text.s, " (%.1f GB/s; pinned memory reaches %.1f)",
                    sum->bytes / (double)sum->sized_ns, sum->gbps);
    return text;
}

/* An operator that sends its indexes or sizes by itself has nothing that could be pinned. */
static void advise_upload(ka_finder *f, ka_found *x, uint32_t site)
{
    kineto_string name = ka_name(f->s, f->s->slices[site].name);
    if (kb_string_contains(name, "index"))
        ka_advise(f, x,
                  "Keep the indexes of %s on the device: make them there, or send them early with "
                  "to(device, non_blocking=True) from pinned memory",
                  ka_short_name(name).s);
    else
        ka_advise(f, x,
                  "Pin what is sent (DataLoader(pin_memory=True), tensor.pin_memory()) and do not "
                  "wait for it: batch.to(device, non_blocking=True); the longest wait is in %s",
                  ka_short_name(name).s);
}

static void check_pageable_copies(ka_finder *f, const ka_waits *waits, ka_what_if_mask *without)
{
    pageable sum = sum_copy_rates(f, without);
    if (!sum.count)
        return;
    waited upload = sum_copy_waits(waits, KA_WAIT_UPLOAD, without);
    int64_t most = ka_add_ns(sum.excess_ns, kb_min_i64(upload.ns, ka_host_idle_ns(f)));
    int64_t saved = ka_min_savings(ka_saved_by_mask(f, without), most);
    if (ka_share(f, saved) < KA_MIN_SAVINGS_PCT)
        return;
    ka_found *x = ka_open_finding(f, saved, 0.6, kb_string(""));
    if (!x)
        return;
    x->count = sum.count;
    ka_say(f, x,
           "%llu copies from or to pageable memory take %s%s; %llu call%s the host waiting for "
           "what it sends for %s, and devices are idle for %s after them%s",
           (unsigned long long)sum.count, kb_duration(sum.ns).s, copy_rates_text(&sum).s,
           (unsigned long long)upload.count, upload.count == 1 ? " keeps" : "s keep",
           kb_duration(upload.ns).s, kb_duration(upload.idle_ns).s,
           ka_later_text(saved, ka_add_ns(sum.excess_ns, upload.idle_ns)).s);
    if (upload.site != KA_NONE)
        advise_upload(f, x, upload.site);
    if (upload.ns > sum.ns)
        show_copy_calls(f, x, waits, KA_WAIT_UPLOAD);
    else
        show_copies(f, x);
}

/* Pinned memory is faster, and the host need not wait for what it sends. Waiting for what it
 * receives is reported by sync.stall. */
void ka_find_copy_pageable(ka_finder *f)
{
    ka_waits waits = {0};
    ka_what_if_mask without = {0};
    if (ka_waits_find(f, &waits) && ka_what_if_mask_create(f, &without, true))
        check_pageable_copies(f, &waits, &without);
    ka_what_if_mask_free(&without);
    ka_waits_free(&waits);
}

/* ---- copies to the device that nothing hides ------------------------------------------------- */

/* ka_select: all other work of the device hides uploads. */
static int select_upload(const ka_finder *f, const ka_work *w, void *context)
{
    (void)context;
    return w->kind == KINETO_KIND_GPU_MEMCPY && ka_is_upload(ka_name(f->s, w->name)) ? KA_SELECTED
                                                                                     : KA_HIDES;
}

static void show_exposed_uploads(ka_finder *f, uint32_t work, int64_t exposed_ns, void *context)
{
    ka_show_row(f, context, f->s->work[work].row, exposed_ns, "%s of it not overlapped",
                kb_duration(exposed_ns).s);
}

/* Sums the exposed time that pinned memory alone would save (ka_each): it is reported by
 * copy.pageable. */
typedef struct slower {
    const ka_what_if_mask *without;
    int64_t ns;
} slower;

static void add_slower_upload(ka_finder *f, uint32_t work, int64_t exposed_ns, void *context)
{
    slower *sum = context;
    (void)f;
    sum->ns = ka_add_ns(sum->ns, KB_MIN(sum->without->work_ns[work], exposed_ns));
}

/* *slower_ns is a mean of all devices, as e->exposed_ns. False: out of memory. */
static bool expose_uploads(ka_finder *f, ka_exposure *e, int64_t *slower_ns)
{
    ka_what_if_mask without = {0};
    slower sum = {&without, 0};
    bool ok = ka_what_if_mask_create(f, &without, true);
    if (ok) {
        (void)sum_copy_rates(f, &without);
        ok = ka_exposed_time(f, select_upload, add_slower_upload, &sum, e);
    }
    ka_what_if_mask_free(&without);
    *slower_ns = sum.ns / (int64_t)KB_MAX(f->device_count, 1u);
    return ok;
}

/* Uploads during which the device does nothing else; slow pageable ones are the rule above. */
void ka_find_copy_exposed(ka_finder *f)
{
    static const kineto_what_if_scale at_once[] = {{KINETO_WHAT_IF_COPY, "HtoD", 0},
                                                   {KINETO_WHAT_IF_COPY, "HostToDevice", 0},
                                                   {KINETO_WHAT_IF_COPY, "H2D", 0},
                                                   {KINETO_WHAT_IF_COPY, "M2D", 0}};
    ka_exposure e;
    int64_t slower_ns;
    if (!expose_uploads(f, &e, &slower_ns) ||
        ka_share(f, e.exposed_ns - slower_ns) < KA_MIN_SAVINGS_PCT)
        return;
    int64_t saved =
        ka_min_savings(e.exposed_ns - slower_ns, ka_saved_by(f, at_once, KB_COUNT(at_once)));
    if (ka_share(f, saved) < KA_MIN_SAVINGS_PCT)
        return;
    ka_found *x = ka_open_finding(f, saved, 0.7, kb_string(""));
    if (!x)
        return;
    x->count = e.count;
    ka_say(f, x,
           "%llu copies to the device take %s, of which %s (%.1f %% of the time) overlap no other "
           "work of the device",
           (unsigned long long)e.count, kb_duration(e.ns).s, kb_duration(e.exposed_ns).s,
           ka_share(f, e.exposed_ns));
    ka_advise(f, x,
              "Copy the next batch while this one is computed: with torch.cuda.stream(copies): "
              "batch = batch.to(device, non_blocking=True), from pinned memory, and "
              "current_stream().wait_stream(copies) before it is used");
    ka_exposed_time(f, select_upload, show_exposed_uploads, x, &e);
}

/* ---- tensors made on the host only to be copied ---------------------------------------------- */

/* Arguments of each candidate are read, which is slow. */
#define MAX_EXTRA 2048u /* candidates, whose arguments are asked for */

typedef struct extra {
    uint32_t to, fill; /* slices: aten::to; the operator that made and filled the tensor */
    uint32_t filled;   /* the innermost operator in it: what filled */
    uint32_t work;
} extra;
typedef KB_VEC(extra) extras;

static bool is_operator_named(const ka_dataset *s, uint32_t slice, const char *name)
{
    return slice != KA_NONE && s->slices[slice].kind == KINETO_KIND_CPU_OP &&
           kb_string_equal(ka_name(s, s->slices[slice].name), kb_string(name));
}

#define MAX_BACK 64u /* other ranges between two operators */

static bool fills_tensor(kineto_string name)
{
    static const char *const names[] = {"aten::fill_",    "aten::zero_",   "aten::normal_",
                                        "aten::uniform_", "aten::random_", "aten::arange"};
    return kb_string_is_one_of(name, names, KB_COUNT(names));
}

/* Was the tensor filled on the host? Not if anything inside launched work. An operator with
 * more than MAX_BACK ranges inside does more than fill. */
static bool is_host_fill(const ka_dataset *s, uint32_t fill)
{
    if (s->slices[fill].next - fill > MAX_BACK)
        return false;
    for (uint32_t i = fill; i < s->slices[fill].next; i++)
        if (s->slices[i].work_count)
            return false;
    return true;
}

/* The operator that filled a tensor right before `slice`: the outermost one that ended before
 * it. *filled is the innermost one, which names the kind of filling. KA_NONE: the operator
 * before does something else, or is too far back. */
static uint32_t find_fill_before(const ka_dataset *s, uint32_t slice, uint32_t *filled)
{
    uint32_t first = s->threads[s->slices[slice].thread].first, i = slice, steps = 0;
    while (i-- > first && steps++ < MAX_BACK) {
        if (s->slices[i].next > slice || s->slices[i].kind != KINETO_KIND_CPU_OP)
            continue;
        if (!fills_tensor(ka_name(s, s->slices[i].name)))
            return KA_NONE;
        uint32_t outer = i, around;
        while ((around = ka_operator_around(s, outer)) != KA_NONE &&
               s->slices[around].next <= slice && steps++ < MAX_BACK)
            outer = around;
        *filled = i;
        return is_host_fill(s, outer) ? outer : KA_NONE;
    }
    return KA_NONE;
}

/* Elements of an operator's first input; 0: not recorded, or not a tensor. */
static double count_elements(const ka_finder *f, uint32_t op)
{
    ka_shapes in;
    double count = 1;
    if (!ka_shapes_of(f->s->trace, f->s->slices[op].row, &in) || !in.of[0].rank)
        return 0;
    for (uint32_t d = 0; d < in.of[0].rank; d++)
        count *= (double)in.of[0].dims[d];
    return count;
}

/* True also if one of both is not known. */
static bool has_as_many_elements(const ka_finder *f, uint32_t filled, uint32_t copy)
{
    double was = count_elements(f, filled), is = count_elements(f, copy);
    return was <= 0 || is <= 0 || was == is;
}

/* Has aten::copy_ the same type on both sides? Then it does not convert. False if types were
 * not recorded. */
static bool copies_as_it_is(const ka_finder *f, uint32_t copy)
{
    kineto_string types = ka_arg_text(f->s->trace, f->s->slices[copy].row, "Input type");
    if (!types.size)
        types = ka_arg_text(f->s->trace, f->s->slices[copy].row, "Input Types");
    char rooms[2][64];
    kineto_string text[2];
    for (uint32_t i = 0; i < 2; i++) {
        kineto_string raw = kt_item_at(types, i);
        text[i] = kt_value_text(raw, raw.size <= sizeof rooms[i] ? rooms[i] : NULL);
    }
    return text[0].size && kb_string_equal(text[0], text[1]);
}

/* The pattern aten::to > (aten::_to_copy) > aten::copy_ > copy to the device, with a fill of
 * the same number of elements right before it. */
static bool is_extra(const ka_finder *f, uint32_t work, extra *out)
{
    const ka_dataset *s = f->s;
    const ka_work *w = &s->work[work];
    if (w->kind != KINETO_KIND_GPU_MEMCPY || w->call == KA_NONE || !ka_is_in_steps(f, w->step) ||
        !ka_is_upload(ka_name(s, w->name)))
        return false;
    uint32_t copy = ka_operator_around(s, w->call);
    if (!is_operator_named(s, copy, "aten::copy_"))
        return false;
    uint32_t to = ka_operator_around(s, copy);
    if (is_operator_named(s, to, "aten::_to_copy"))
        to = ka_operator_around(s, to);
    if (!is_operator_named(s, to, "aten::to"))
        return false;
    *out = (extra){.to = to, .work = work};
    out->fill = find_fill_before(s, to, &out->filled);
    return out->fill != KA_NONE && copies_as_it_is(f, copy) &&
           has_as_many_elements(f, out->filled, copy);
}

/* Operators of PyTorch's functions with an argument `device`, which could fill there. */
static bool is_made_on_device(kineto_string op)
{
    static const char *const names[] = {"aten::zeros",      "aten::ones",       "aten::full",
                                        "aten::arange",     "aten::rand",       "aten::randn",
                                        "aten::randint",    "aten::zeros_like", "aten::ones_like",
                                        "aten::full_like",  "aten::rand_like",  "aten::normal",
                                        "aten::randn_like", "aten::randperm"};
    return kb_string_is_one_of(op, names, KB_COUNT(names));
}

static void advise_extra(ka_finder *f, ka_found *x, const extra *e)
{
    kineto_string op = ka_name(f->s, f->s->slices[e->fill].name);
    kb_text name = ka_short_name(op),
            fill = ka_short_name(ka_name(f->s, f->s->slices[e->filled].name));
    if (is_made_on_device(op))
        ka_advise(f, x,
                  "Make them where they are used: torch.%s(…, device=device) instead of "
                  "torch.%s(…).to(device)",
                  name.s + 6, name.s + 6);
    else
        ka_advise(f, x,
                  "Make and fill them where they are used: torch.empty(…, device=device), and then "
                  "what %s does, instead of filling them on the host and to(device)",
                  fill.s);
}

/* Without them neither the fill, nor aten::to with its wait, nor the copy take time. The
 * operators' time on the host is an upper bound. */
static void check_extra_copies(ka_finder *f, const extras *all, ka_what_if_mask *without)
{
    int64_t host = 0;
    for (size_t i = 0; i < all->count; i++) {
        const extra *e = &all->data[i];
        without->slices[e->fill] |= KA_ZERO_COST;
        without->slices[e->to] |= KA_ZERO_COST | KA_NO_WAIT;
        without->work_ns[e->work] = INT64_MAX;
        host = ka_add_ns(host, ka_add_ns(ka_slice_ns(&f->s->slices[e->fill]),
                                         ka_slice_ns(&f->s->slices[e->to])));
    }
    int64_t saved = ka_min_savings(ka_saved_by_mask(f, without), host);
    if (ka_share(f, saved) < KA_MIN_SAVINGS_PCT)
        return;
    const ka_slice *fill = &f->s->slices[all->data[0].fill];
    ka_found *x = ka_open_finding(f, saved, 0.7, kb_string(""));
    if (!x)
        return;
    x->count = all->count;
    kb_text name = ka_short_name(ka_name(f->s, fill->name));
    ka_say(f, x,
           "%llu tensors are filled on the host (%s) and then copied to the device as they are; "
           "this takes the host %s",
           (unsigned long long)all->count, name.s, kb_duration(host).s);
    advise_extra(f, x, &all->data[0]);
    for (size_t i = 0; i < all->count && i < f->evidence_limit; i++) {
        uint32_t to = all->data[i].to;
        kineto_string stack = ka_stack_of(f, to);
        ka_show_row(f, x, f->s->slices[to].row, ka_slice_ns(&f->s->slices[to]), "%.*s",
                    (int)stack.size, stack.data);
    }
}

/* A fill on the host that is copied to the device unchanged (Extra CUDA Copy of PyTorch). */
void ka_find_copy_extra(ka_finder *f)
{
    extras all = {0};
    ka_what_if_mask without = {0};
    extra e;
    for (uint32_t i = 0; i < f->s->work_count && all.count < MAX_EXTRA && !f->no_memory; i++)
        if (is_extra(f, i, &e))
            f->no_memory |= !kb_vec_push(&all, e);
    if (all.count && !f->no_memory && ka_what_if_mask_create(f, &without, true))
        check_extra_copies(f, &all, &without);
    ka_what_if_mask_free(&without);
    kb_vec_free(&all);
}

/* ---- copying within the device --------------------------------------------------------------- */

/* Copies within the device, and kernels that only copy or change the layout. */
static bool only_moves_bytes(const ka_finder *f, const ka_work *w)
{
    if (w->kind == KINETO_KIND_GPU_MEMCPY)
        return ka_is_within_device(ka_name(f->s, w->name));
    uint8_t family = f->s->class_of[w->name].family;
    return w->kind == KINETO_KIND_CONCURRENT_KERNEL &&
           (family == KA_FAMILY_COPY || family == KA_FAMILY_LAYOUT);
}

static int select_moves(const ka_finder *f, const ka_work *w, void *context)
{
    (void)context;
    return only_moves_bytes(f, w) ? KA_SELECTED : KA_HIDES;
}

/* Device time of one operator (or kernel without a known call) that only moves bytes. */
typedef struct mover {
    uint32_t name; /* string id */
    int64_t ns;
} mover;
typedef KB_VEC(mover) movers;

static int compare_movers(const void *left, const void *right)
{
    const mover *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

static void add_mover(ka_finder *f, kb_map *at, movers *all, const ka_work *w)
{
    uint32_t name = w->call == KA_NONE ? w->name : f->s->slices[ka_site_of(f->s, w->call)].name;
    bool created;
    uint64_t *index = kb_map_insert(at, name, all->count, &created);
    if (!index || (created && !kb_vec_push(all, (mover){name, 0}))) {
        f->no_memory = true;
        return;
    }
    all->data[*index].ns = ka_add_ns(all->data[*index].ns, ka_work_ns(w));
}

/* Appends movers, the longest first, and marks their work in `without` as taking no time. */
static void list_movers(ka_finder *f, ka_what_if_mask *without, movers *all)
{
    kb_map at = {0};
    for (uint32_t i = 0; i < f->s->work_count && !f->no_memory; i++) {
        const ka_work *w = &f->s->work[i];
        if (!only_moves_bytes(f, w) || !ka_is_in_steps(f, w->step))
            continue;
        without->work_ns[i] = INT64_MAX;
        add_mover(f, &at, all, w);
    }
    if (all->count)
        qsort(all->data, all->count, sizeof *all->data, compare_movers);
    kb_map_free(&at);
}

static void show_movers(ka_finder *f, ka_found *x)
{
    for (uint32_t i = 0; i < f->s->work_count; i++) {
        const ka_work *w = &f->s->work[i];
        if (only_moves_bytes(f, w) && ka_is_in_steps(f, w->step))
            ka_show_row(f, x, w->row, ka_work_ns(w), "%s",
                        ka_short_name(ka_place_of(f->s, w->call)).s);
    }
}

/* Names the three operators that move the most. */
static void report_movers(ka_finder *f, const ka_exposure *e, int64_t saved, const movers *all)
{
    char names[240] = "";
    size_t n = 0;
    for (size_t i = 0; i < all->count && i < 3; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
                              ka_short_name(ka_name(f->s, all->data[i].name)).s);
    ka_found *x = ka_open_finding(f, saved, 0.4, kb_string(""));
    if (!x)
        return;
    x->count = e->count;
    ka_say(f, x,
           "%llu copies within the device take %s (%.1f %% of the time), of which %s are not "
           "overlapped; mostly by %s",
           (unsigned long long)e->count, kb_duration(e->ns).s, ka_share(f, e->ns),
           kb_duration(e->exposed_ns).s, names);
    ka_advise(f, x,
              "Look at %s first: one memory format (channels_last for convolutions) and one type "
              "throughout, out= or slices of a tensor instead of cat(), and no contiguous() where "
              "strides will do",
              ka_short_name(ka_name(f->s, all->data[0].name)).s);
    show_movers(f, x);
}

#define MIN_MOVES 5.0 /* percent of the time */

/* All of it is more than can be saved: an upper bound. */
void ka_find_copy_device(ka_finder *f)
{
    ka_exposure e;
    ka_what_if_mask without = {0};
    movers all = {0};
    if (!ka_exposed_time(f, select_moves, NULL, NULL, &e) || ka_share(f, e.ns) < MIN_MOVES ||
        !ka_what_if_mask_create(f, &without, true))
        return;
    list_movers(f, &without, &all);
    if (!f->no_memory && all.count) {
        int64_t saved = ka_min_savings(e.exposed_ns, ka_saved_by_mask(f, &without));
        if (ka_share(f, saved) >= 1)
            report_movers(f, &e, saved, &all);
    }
    ka_what_if_mask_free(&without);
    kb_vec_free(&all);
}

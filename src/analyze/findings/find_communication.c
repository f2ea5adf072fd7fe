/* Rules about ranks and communication: DataParallel, backends of collectives, exposed and small
 * collectives, broadcasts of buffers, and ranks that come late.
 *
 * Communication is device work of the type KA_TYPE_COMMUNICATION (NCCL, RCCL, oneCCL by kernel
 * name) or, where ranks exchange through the host, ranges of Gloo and MPI. "Exposed" is time in
 * which no computation of the same device runs (ka_exposed_time). communication.imbalance
 * compares ranks: it reads tables that have the rows of all of them, and has no dataset. */
#include "analyze/findings/find_time.h"

/* ---- how a program divides its work ---------------------------------------------------------- */

/* Copies from device to device, and kernels of NCCL. */
static bool is_between_devices(const ka_dataset *s, const ka_work *w)
{
    kineto_string name = ka_name(s, w->name);
    return w->kind == KINETO_KIND_GPU_MEMCPY
               ? kb_string_contains(name, "PtoP") || kb_string_contains(name, "P2P")
               : w->kind == KINETO_KIND_CONCURRENT_KERNEL && kb_string_contains(name, "nccl");
}

/* Savings if devices exchanged everything at once; KA_NO_SAVINGS if the critical path is not
 * known. */
static int64_t saved_by_exchange(ka_finder *f)
{
    ka_factors x;
    int64_t saved = KA_NO_SAVINGS;
    if (ka_factors_make(f, &x)) {
        for (uint32_t i = 0; i < f->s->work_count; i++)
            if (is_between_devices(f->s, &f->s->work[i]))
                x.work[i] = 0;
        saved = ka_saved_with(f, &x);
    }
    ka_factors_free(&x);
    return saved;
}

/* Replicas are copied, and gradients gathered, in every step. What their threads cost each other
 * the trace does not show. */
void ka_find_data_parallel(ka_finder *f)
{
    uint32_t range = ka_find_range(f->s, "DataParallel.forward");
    if (range == KA_NONE || f->device_count < 2)
        return;
    int64_t saved = saved_by_exchange(f);
    ka_found *x = ka_open_finding(f, saved > 0 ? saved : KA_NO_SAVINGS, 0.4, kb_string(""));
    if (!x)
        return;
    if (ka_share(f, saved) < 10)
        ka_set_severity(x, KINETO_FINDING_MEDIUM);
    ka_say(f, x, "DataParallel.forward runs the model on %u devices from threads of one process",
           f->device_count);
    ka_advise(f, x,
              "A process for each device: torchrun --nproc-per-node=%u train.py, and "
              "DistributedDataParallel(model, device_ids=[local_rank]) instead of "
              "DataParallel(model)",
              f->device_count);
    ka_show_row(f, x, f->s->slices[range].row, ka_slice_ns(&f->s->slices[range]), NULL);
}

/* "backend" of the header's distributedInfo. */
static kineto_string find_backend(const kineto_trace *t)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string key, value;
        kineto_trace_metadata(t, i, &key, &value);
        if (kb_string_equal(key, kb_string("distributedInfo")))
            return ka_json_text(value, "backend");
    }
    return (kineto_string){"", 0};
}

/* ka_select: computation hides communication; copies and memsets do not. */
static int select_communication(const ka_finder *f, const ka_work *w, void *context)
{
    (void)f;
    (void)context;
    return w->type == KA_TYPE_COMMUNICATION ? KA_SELECTED
           : w->type == KA_TYPE_COMPUTATION ? KA_HIDES
                                            : KA_IGNORE;
}

/* Does any collective run on devices, or does the header name a library for them? Then Gloo is
 * only an additional backend. */
static bool has_device_library(const ka_finder *f)
{
    static const char *const ranges[] = {"nccl:", "rccl:", "xccl:", "ccl:", "hccl:", "mccl:"};
    for (size_t i = 0; i < KB_COUNT(ranges); i++)
        if (ka_find_range(f->s, ranges[i]) != KA_NONE)
            return true;
    for (uint32_t i = 0; i < f->s->work_count; i++)
        if (f->s->work[i].type == KA_TYPE_COMMUNICATION)
            return true;
    return kb_string_contains(find_backend(f->s->trace), "ccl");
}

/* The library for the devices of the trace. */
static const char *backend_advice(const ka_finder *f)
{
    kineto_string name = ka_device_text(f->s->trace, -1, "name");
    return kb_string_contains(name, "Intel") ? "xccl" : "nccl";
}

/* Sums the ranges in steps whose name begins so, and shows each as evidence of `x`, which may
 * be NULL. */
static int64_t show_host_collectives(ka_finder *f, ka_found *x, const char *begins)
{
    int64_t ns = 0;
    for (uint32_t i = 0; i < f->s->slice_count; i++) {
        const ka_slice *slice = &f->s->slices[i];
        if ((slice->kind != KINETO_KIND_CPU_OP && slice->kind != KINETO_KIND_USER_ANNOTATION) ||
            !kb_string_starts_with(ka_name(f->s, slice->name), begins) ||
            !ka_is_in_steps(f, slice->step))
            continue;
        ns = ka_add_ns(ns, ka_slice_ns(slice));
        ka_show_row(f, x, slice->row, ka_slice_ns(slice), NULL);
    }
    return ns;
}

/* Collectives of the host often run on threads that no recorded call waits for: only a saving that
 * the path shows is one. */
void ka_find_ddp_backend(ka_finder *f)
{
    static const kineto_what_if_scale at_once[] = {{KINETO_WHAT_IF_OPERATOR, "gloo:", 0},
                                                   {KINETO_WHAT_IF_OPERATOR, "mpi:", 0}};
    kineto_string stated = find_backend(f->s->trace);
    bool by_host = ka_find_range(f->s, "gloo:") != KA_NONE ||
                   ka_find_range(f->s, "mpi:") != KA_NONE || kb_string_contains(stated, "gloo") ||
                   kb_string_contains(stated, "mpi");
    if (ka_find_range(f->s, "DistributedDataParallel.forward") == KA_NONE || !by_host ||
        has_device_library(f))
        return;
    int64_t all =
        ka_add_ns(show_host_collectives(f, NULL, "gloo:"), show_host_collectives(f, NULL, "mpi:"));
    int64_t saved = ka_min_savings(ka_saved_by(f, at_once, KB_COUNT(at_once)), all);
    ka_found *x = ka_open_finding(f, saved > 0 ? saved : KA_NO_SAVINGS, 0.5, kb_string(""));
    if (!x)
        return;
    if (ka_share(f, saved) < 10)
        ka_set_severity(x, KINETO_FINDING_MEDIUM);
    ka_say(f, x,
           "DistributedDataParallel exchanges gradients through the host: its collectives take %s",
           kb_duration(all).s);
    ka_advise(f, x, "torch.distributed.init_process_group(backend=\"%s\")", backend_advice(f));
    show_host_collectives(f, x, "gloo:");
    show_host_collectives(f, x, "mpi:");
}

/* ---- small collectives ----------------------------------------------------------------------- */

/* A collective below 64 KiB is bound by latency. Reported are ten and more per step, if
 * joining them saves a noticeable part of a step. */
#define SMALL_BYTES   INT64_C(65536) /* bound by latency; as in the table collective_groups */
#define MIN_SMALL   10.0           /* of a step */
#define MIN_PERCENT 1.0
#define SHARE_PERCENT 10.0

typedef struct small_ones {
    uint64_t count; /* per device; the times are means of all devices, too */
    int64_t ns, exposed_ns, bytes;
    int64_t saved_ns; /* if those of a step were one */
} small_ones;

/* An iterator over rows of `collectives` together with the work of each: the table has all
 * communication in the order of time, hence both advance in step. */
typedef struct collective_rows {
    const ka_finder *f;
    const ka_table *t;
    uint64_t row, count;
    uint32_t work; /* place in by_time of the next one to be checked */
} collective_rows;

static collective_rows start_collectives(const ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_collectives);
    return (collective_rows){.f = f, .t = t, .count = ka_table_rows(t)};
}

/* *row: the next collective in steps. False: there are no more. */
static bool next_collective(collective_rows *c, uint64_t *row)
{
    const ka_dataset *s = c->f->s;
    while (c->work < s->work_count && c->row < c->count) {
        const ka_work *w = &s->work[s->by_time[c->work++]];
        if (w->type != KA_TYPE_COMMUNICATION)
            continue;
        *row = c->row++;
        if (ka_is_in_steps(c->f, w->step))
            return true;
    }
    return false;
}

static const char *per_device_text(const ka_finder *f)
{
    return f->device_count > 1 ? " a device" : "";
}

/* Sums over all devices, then means of one device. The savings assume that the small ones of a
 * step become one: of N per step, (N - 1) / N of the exposed time. */
static small_ones sum_small_collectives(const ka_finder *f)
{
    collective_rows all = start_collectives(f);
    int64_t devices = KB_MAX(f->device_count, 1u);
    double steps = KB_MAX(f->step_count, 1u);
    small_ones sum = {.count = 0};
    for (uint64_t row; next_collective(&all, &row);) {
        int64_t size = ka_fact_int(all.t, row, KA_COL_collectives_bytes);
        if (size == KA_NO_INT || size >= SMALL_BYTES)
            continue;
        sum.count++;
        sum.bytes = ka_add_ns(sum.bytes, size);
        sum.ns = ka_add_ns(sum.ns, ka_fact_int(all.t, row, KA_COL_collectives_dur_us));
        sum.exposed_ns = ka_add_ns(sum.exposed_ns,
                                   ka_fact_int(all.t, row, KA_COL_collectives_exposed_us));
    }
    sum.count = (sum.count + (uint64_t)devices - 1) / (uint64_t)devices;
    sum.bytes /= devices;
    sum.ns /= devices;
    sum.exposed_ns /= devices;
    if ((double)sum.count >= MIN_SMALL * steps)
        sum.saved_ns = (int64_t)((double)sum.exposed_ns * (1 - steps / (double)sum.count));
    return sum;
}

static bool can_join_collectives(const ka_finder *f, const small_ones *sum)
{
    return sum->saved_ns > 0 && ka_share(f, sum->saved_ns) >= MIN_PERCENT;
}

/* Those of one name, in one group of ranks. */
typedef struct collective_kind {
    kineto_string name;
    uint64_t small_count;
    int64_t small_ns, exposed_ns;
} collective_kind;

typedef struct collective_kinds {
    KB_VEC(collective_kind) list;
    kb_map at; /* of name and group → index of the list */
} collective_kinds;

static void free_collective_kinds(collective_kinds *kinds)
{
    kb_vec_free(&kinds->list);
    kb_map_free(&kinds->at);
}

/* The entry, which is appended if it is new; valid until the next call. NULL: out of memory. */
static collective_kind *find_collective_kind(collective_kinds *kinds, const ka_table *t,
                                             uint64_t row)
{
    kineto_string name = ka_text_at(t, row, KA_COL_collectives_name),
                  group = ka_text_at(t, row, KA_COL_collectives_group);
    uint64_t key = kb_hash_seeded(kb_hash(group.data, group.size), name.data, name.size);
    bool created;
    uint64_t *at = kb_map_insert(&kinds->at, key, kinds->list.count, &created);
    if (!at || (created && !kb_vec_push(&kinds->list, (collective_kind){.name = name})))
        return NULL;
    return &kinds->list.data[*at];
}

/* Sums collectives in steps by name and group; collective_groups has the same sums over the
 * whole trace. `kinds` is freed by the caller, also on failure. False: out of memory. */
static bool list_collective_kinds(const ka_finder *f, collective_kinds *kinds)
{
    collective_rows all = start_collectives(f);
    for (uint64_t row; next_collective(&all, &row);) {
        collective_kind *k = find_collective_kind(kinds, all.t, row);
        int64_t size = ka_fact_int(all.t, row, KA_COL_collectives_bytes);
        if (!k)
            return false;
        k->exposed_ns =
            ka_add_ns(k->exposed_ns, ka_fact_int(all.t, row, KA_COL_collectives_exposed_us));
        if (size == KA_NO_INT || size >= SMALL_BYTES)
            continue;
        k->small_count++;
        k->small_ns = ka_add_ns(k->small_ns, ka_fact_int(all.t, row, KA_COL_collectives_dur_us));
    }
    return true;
}

static void show_small_collectives(ka_finder *f, ka_found *x)
{
    collective_kinds kinds = {0};
    f->no_memory |= !list_collective_kinds(f, &kinds);
    for (size_t i = 0; i < kinds.list.count; i++) {
        const collective_kind *k = &kinds.list.data[i];
        if (k->small_count)
            ka_show_span(f, x, 0, 0, k->small_ns, "%llu of %s below 64 KiB take %s%s",
                         (unsigned long long)k->small_count, ka_short_name(k->name).s,
                         kb_duration(k->small_ns).s, f->device_count > 1 ? ", on all devices" : "");
    }
    free_collective_kinds(&kinds);
}

/* Collectives below SMALL_BYTES; the savings assume that they are joined to one per step. */
void ka_find_communication_small(ka_finder *f)
{
    small_ones sum = sum_small_collectives(f);
    if (!can_join_collectives(f, &sum))
        return;
    ka_found *x = ka_open_finding(f, sum.saved_ns, 0.5, kb_string(""));
    if (!x)
        return;
    x->count = sum.count;
    ka_say(f, x,
           "%llu collectives%s carry less than 64 KiB each, %.0f bytes on average; they take %s, "
           "%s each, and overlap no computation for %s",
           (unsigned long long)sum.count, per_device_text(f), (double)sum.bytes / (double)sum.count,
           kb_duration(sum.ns).s, kb_duration(sum.ns / (int64_t)sum.count).s,
           kb_duration(sum.exposed_ns).s);
    if (ka_find_range(f->s, "DistributedDataParallel.forward") != KA_NONE)
        ka_advise(f, x,
                  "Larger buckets, DistributedDataParallel(model, bucket_cap_mb=100); reduce "
                  "metrics of a step as one tensor, or once in many steps");
    else
        ka_advise(f, x,
                  "Join them: one flat tensor for all, torch.distributed.all_reduce_coalesced() or "
                  "_coalescing_manager(); reduce metrics once in many steps");
    show_small_collectives(f, x);
}

/* ---- exposed collectives --------------------------------------------------------------------- */

/* ka_each: `context` is the finding. */
static void show_collective(ka_finder *f, uint32_t work, int64_t exposed_ns, void *context)
{
    const ka_work *w = &f->s->work[work];
    kineto_string place = ka_place_of(f->s, w->call);
    ka_show_row(f, context, w->row, exposed_ns, "%s%s%s not overlapped",
                ka_short_name(place).s, place.size ? ", " : "", kb_duration(exposed_ns).s);
}

/* Name of the kind of collective with the most exposed time; *ns is that time, as a mean of
 * all devices. */
static kb_text find_worst_kind(ka_finder *f, int64_t *ns)
{
    collective_kinds kinds = {0};
    kb_text worst = {""};
    *ns = 0;
    f->no_memory |= !list_collective_kinds(f, &kinds);
    for (size_t i = 0; i < kinds.list.count; i++)
        if (kinds.list.data[i].exposed_ns > *ns) {
            *ns = kinds.list.data[i].exposed_ns;
            worst = ka_short_name(kinds.list.data[i].name);
        }
    *ns /= (int64_t)KB_MAX(f->device_count, 1u);
    free_collective_kinds(&kinds);
    return worst;
}

/* By the kind of collective, else by the library that makes it (FSDP, DDP). */
static const char *overlap_advice(const ka_finder *f, const char *kind)
{
    kineto_string name = kb_string(kind);
    if (kb_string_contains(name, "all_to_all") || kb_string_contains(name, "alltoall") ||
        kb_string_contains(name, "sendrecv"))
        return "Start the exchange before work that does not need it: all_to_all_single(…, "
               "async_op=True) and wait() where it is used; exchange the next batch's inputs "
               "during this one";
    if (ka_find_range(f->s, "FullyShardedDataParallel") != KA_NONE ||
        ka_find_range(f->s, "FSDP") != KA_NONE)
        return "Prefetch parameters: FullyShardedDataParallel(…, forward_prefetch=True, "
               "backward_prefetch=BackwardPrefetch.BACKWARD_PRE, limit_all_gathers=False), or "
               "set_modules_to_forward_prefetch() of fully_shard";
    if (ka_find_range(f->s, "DistributedDataParallel.forward") != KA_NONE)
        return "Let gradients be reduced while the rest of the backward pass runs: "
               "DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True), "
               "smaller buckets begin earlier; model.no_sync() while gradients are accumulated";
    return "Start it as soon as its input is there (async_op=True) and wait() only where the "
           "result is used";
}

/* All that is exposed is more than can be hidden: an upper bound. What joining small ones saves
 * counts there. */
void ka_find_communication_exposed(ka_finder *f)
{
    static const kineto_what_if_scale at_once = {KINETO_WHAT_IF_CLASS, "device_communication", 0};
    ka_exposure e;
    small_ones small = sum_small_collectives(f);
    if (!ka_exposed_time(f, select_communication, NULL, NULL, &e))
        return;
    int64_t joined = can_join_collectives(f, &small) ? small.saved_ns : 0;
    if (ka_share(f, e.exposed_ns - joined) < MIN_PERCENT)
        return;
    int64_t saved = ka_min_savings(e.exposed_ns - joined, ka_saved_by(f, &at_once, 1));
    if (ka_share(f, saved) < MIN_PERCENT)
        return;
    int64_t worst;
    kb_text kind = find_worst_kind(f, &worst);
    ka_found *x = ka_open_finding(f, saved, 0.5, kb_string(""));
    if (!x)
        return;
    x->count = e.count;
    ka_say(f, x,
           "%llu collectives take %s%s, of which %s (%.1f %% of the time) overlap no computation; "
           "%s is exposed most, for %s",
           (unsigned long long)e.count, kb_duration(e.ns).s, per_device_text(f),
           kb_duration(e.exposed_ns).s, ka_share(f, e.exposed_ns), kind.s, kb_duration(worst).s);
    ka_advise(f, x, "%s", overlap_advice(f, kind.s));
    ka_exposed_time(f, select_communication, show_collective, x, &e);
}

/* How much of it there is; communication.exposed says what it costs. */
void ka_find_communication_share(ka_finder *f)
{
    ka_exposure e;
    if (!ka_exposed_time(f, select_communication, NULL, NULL, &e) ||
        ka_share(f, e.ns) < SHARE_PERCENT)
        return;
    ka_found *x = ka_open_finding(f, KA_NO_SAVINGS, 0.9, kb_string(""));
    if (!x)
        return;
    x->count = e.count;
    ka_set_extent(x, ka_share(f, e.exposed_ns));
    ka_set_severity(x, ka_share(f, e.exposed_ns) >= SHARE_PERCENT ? KINETO_FINDING_MEDIUM
                                                                  : KINETO_FINDING_LOW);
    ka_say(f, x,
           "a device exchanges data with others in %.1f %% of the time, in %.1f %% without any "
           "computation",
           ka_share(f, e.ns), ka_share(f, e.exposed_ns));
    ka_exposed_time(f, select_communication, show_collective, x, &e);
}

/* ---- buffers of DistributedDataParallel ------------------------------------------------------ */

#define BROADCAST_PERCENT 0.5

static uint8_t is_broadcast(kineto_string name)
{
    return (kb_string_starts_with(name, "c10d::") || kb_string_starts_with(name, "nccl:") ||
            kb_string_starts_with(name, "gloo:")) &&
           kb_string_contains(name, "broadcast");
}

static uint8_t is_parallel_forward(kineto_string name)
{
    return kb_string_starts_with(name, "DistributedDataParallel.forward");
}

typedef struct broadcasts {
    ka_factors x;
    uint8_t *chosen; /* by slice: the outermost ranges of each broadcast */
    uint64_t count;
    int64_t host_ns, device_ns;
} broadcasts;

/* The range and all in it, with its device work, take no time in b->x. */
static void mask_broadcast(const ka_dataset *s, broadcasts *b, uint32_t slice)
{
    b->chosen[slice] = 1;
    b->count++;
    b->host_ns = ka_add_ns(b->host_ns, ka_slice_ns(&s->slices[slice]));
    for (uint32_t i = slice; i < s->slices[slice].next; i++) {
        b->x.slices[i] = 0;
        for (uint32_t k = 0; k < s->slices[i].work_count; k++) {
            uint32_t work = s->launched[s->slices[i].first_work + k];
            b->x.work[work] = 0;
            b->device_ns = ka_add_ns(b->device_ns, ka_work_ns(&s->work[work]));
        }
    }
}

/* Broadcasts inside of forward passes are those of buffers, as parameters are sent once,
 * before the first pass. Of nested ranges only the outermost counts. */
static void find_broadcasts(ka_finder *f, broadcasts *b)
{
    const ka_dataset *s = f->s;
    ka_answers forwards = {0}, names = {0};
    bool ok = ka_answers_make(f, &forwards) && ka_answers_make(f, &names);
    for (uint32_t i = 0; ok && i < s->slice_count; i++) {
        if (!ka_answer(s, &forwards, s->slices[i].name, is_parallel_forward) ||
            !ka_is_in_steps(f, s->slices[i].step))
            continue;
        uint32_t end = s->slices[i].next;
        for (i++; i < end;) {
            bool found = ka_answer(s, &names, s->slices[i].name, is_broadcast);
            if (found)
                mask_broadcast(s, b, i);
            i = found ? s->slices[i].next : i + 1;
        }
        i = end - 1;
    }
    ka_answers_free(&forwards);
    ka_answers_free(&names);
}

static void say_broadcasts(ka_finder *f, const broadcasts *b, int64_t saved)
{
    const ka_dataset *s = f->s;
    ka_found *x = ka_open_finding(f, saved, 0.6, kb_string(""));
    if (!x)
        return;
    x->count = b->count;
    ka_say(f, x,
           "DistributedDataParallel broadcasts buffers %llu times in its forward passes: %s on "
           "devices and %s of the host",
           (unsigned long long)b->count, kb_duration(b->device_ns).s, kb_duration(b->host_ns).s);
    ka_advise(
        f, x, "%s",
        ka_find_range(s, "SyncBatchNorm") != KA_NONE
            ? "DistributedDataParallel(model, broadcast_buffers=False): SyncBatchNorm keeps the "
              "buffers of all ranks the same already"
            : "DistributedDataParallel(model, broadcast_buffers=False) if ranks need not have the "
              "same buffers in training; broadcast them once before evaluation and checkpoints");
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (b->chosen[i])
            ka_show_row(f, x, s->slices[i].row, ka_slice_ns(&s->slices[i]), NULL);
}

/* Broadcasts below forward passes of DDP; needs operators, since kernels do not show which
 * broadcast they belong to. */
void ka_find_buffer_broadcast(ka_finder *f)
{
    broadcasts b = {.chosen = calloc((size_t)f->s->slice_count + 1, 1)};
    f->no_memory |= !b.chosen;
    if (!f->no_memory && ka_factors_make(f, &b.x))
        find_broadcasts(f, &b);
    int64_t saved = b.count && !f->no_memory ? ka_saved_with(f, &b.x) : 0;
    if (b.count && ka_is_significant(f, saved, BROADCAST_PERCENT))
        say_broadcasts(f, &b, saved);
    ka_factors_free(&b.x);
    free(b.chosen);
}

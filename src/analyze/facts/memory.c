/* The tables memory, memory_operators and memory_leaks: the peak of each device, allocations of
 * operators, and allocations that are never released.
 *
 * Records are [memory] rows, ordered by time. An allocation belongs to the innermost operator
 * of its thread at that moment. Releases are matched to allocations by address. */
#include "analyze/facts/analyses.h"

#include "analyze/summary/summary.h"

typedef struct record {
    int64_t ns, bytes, total, reserved; /* bytes < 0: released; total, reserved: -1: not recorded */
    uint64_t address;
    kineto_row row;
    uint32_t track, device, op; /* indexes of devices, ops */
} record;

/* A device of one process: reported totals and addresses are those of the process. */
typedef struct device {
    int64_t type, index;
    uint32_t process;
} device;

typedef struct memory {
    const ka_attribution *v;
    KB_VEC(record) records; /* by (track, time), later by time */
    KB_VEC(device) devices;
    bool any_address;
    bool several_processes;
    bool no_memory;
} memory;

/* ---- records --------------------------------------------------------------------------------- */

/* Index of the device, which is appended if it is new. 256 are more than any machine has:
 * later ones of a broken trace share the last. */
static uint32_t memory_device_of(memory *m, int64_t type, int64_t index, uint32_t process)
{
    for (uint32_t i = 0; i < m->devices.count; i++) {
        const device *d = &m->devices.data[i];
        if (d->type == type && d->index == index && d->process == process)
            return i;
    }
    if (m->devices.count >= 256) /* of a trace that cannot be right: these share one */
        return 255;
    m->several_processes |= m->devices.count && m->devices.data[0].process != process;
    m->no_memory |= !kb_vec_push(&m->devices, ((device){type, index, process}));
    return (uint32_t)m->devices.count - 1;
}

static uint32_t memory_process_of(const memory *m, uint32_t track)
{
    kineto_track t;
    kineto_trace_track(m->v->dataset->trace, track, &t);
    return t.process;
}

enum { BYTES, TYPE, INDEX, TOTAL, RESERVED, ADDRESS, NUMBERS };
static const ka_keys keys = {NUMBERS,
                             {'B', 'D', 'T', 'A'},
                             {KA_KEY("Bytes"), KA_KEY("Device Type"), KA_KEY("Device Id"),
                              KA_KEY("Total Allocated"), KA_KEY("Total Reserved"), KA_KEY("Addr")}};

/* Appends the record of a row, unless it has no "Bytes". What the row does not have is -1 (0
 * for the address); sampled allocations are scaled to what they stand for. */
static void add_record(memory *m, const kt_block *block, uint32_t i, kineto_row row,
                       uint64_t sampling)
{
    int64_t stated[NUMBERS] = {[INDEX] = -1, [TOTAL] = -1, [RESERVED] = -1};
    uint32_t known = ka_arg_ints(m->v->dataset->trace, row, &keys, stated);
    if (!(known >> BYTES & 1))
        return;
    record r = {.ns = block->start_ns[i],
                .bytes = ka_memory_scaled(sampling, stated[BYTES]),
                .total = stated[TOTAL],
                .reserved = stated[RESERVED],
                .address = (uint64_t)stated[ADDRESS],
                .row = row,
                .track = block->track[i],
                .device = memory_device_of(m, stated[TYPE],
                                           ka_is_host_memory(stated[TYPE]) ? -1 : stated[INDEX],
                                           memory_process_of(m, block->track[i])),
                .op = KA_NONE};
    m->any_address |= r.address != 0;
    m->no_memory |= !kb_vec_push(&m->records, r);
}

/* Times whose records count. Only if steps were chosen are other times left out; then it is
 * the range from the first to the last chosen step. */
static void limits_of(const ka_attribution *v, int64_t *from, int64_t *until)
{
    bool chosen = false;
    *from = INT64_MIN;
    *until = INT64_MAX;
    if (v->dataset->definitions->memory_of_all_steps)
        return;
    for (uint32_t i = 0; i < v->dataset->step_count; i++)
        chosen |= v->dataset->steps[i].slice == KA_NONE;
    if (chosen && v->windows.count) {
        *from = v->windows.data[0].start_ns;
        *until = ka_attribution_end_ns(v);
    }
}

static int compare_by_track(const void *left, const void *right)
{
    const record *a = left, *b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static int compare_by_time(const void *left, const void *right)
{
    const record *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static void sort_records(memory *m, int (*compare)(const void *, const void *))
{
    if (m->records.count)
        qsort(m->records.data, m->records.count, sizeof *m->records.data, compare);
}

/* Scans all blocks; those without a memory row are skipped by their set of kinds. */
static bool collect_records(memory *m)
{
    const kineto_trace *t = m->v->dataset->trace;
    uint64_t sampling = ka_memory_sampling(t);
    int64_t from, until;
    kineto_row row = 0;
    limits_of(m->v, &from, &until);
    for (uint32_t b = 0; b < kt_block_count(t) && !m->no_memory; b++) {
        const kt_block *block = kt_block_at(t, b);
        bool any = block->kinds >> KINETO_KIND_MEMORY & 1;
        for (uint32_t i = 0; i < block->count && any; i++)
            if (block->kind[i] == KINETO_KIND_MEMORY && block->start_ns[i] >= from &&
                block->start_ns[i] <= until)
                add_record(m, block, i, row + i, sampling);
        row += block->count;
    }
    return !m->no_memory;
}

/* ---- which operator -------------------------------------------------------------------------- */

/* Operators [first, end) of one thread, in the order of starts. */
typedef struct lane {
    uint32_t track, first, end;
} lane;
typedef KB_VEC(lane) lane_list;

/* First operator after those of the thread of `first`. */
static uint32_t find_thread_end(const ka_attribution *v, uint32_t first)
{
    const ka_op *ops = v->ops.data;
    uint32_t end = first + 1;
    KB_LOWER_BOUND(end, (uint32_t)v->ops.count, ops[end].thread == ops[first].thread);
    return end;
}

static bool lanes_of(const ka_attribution *v, lane_list *lanes)
{
    for (uint32_t i = 0; i < v->ops.count; i = lanes->data[lanes->count - 1].end)
        if (!kb_vec_push(lanes, (lane){v->ops.data[i].track, i, find_thread_end(v, i)}))
            return false;
    return true;
}

/* First operator in [low, end) that begins after `ns`. Records rise in time, so the result is
 * mostly near `low`: steps double until they pass it, then a binary search follows. */
static uint32_t find_first_op_after(const ka_op *ops, uint32_t low, uint32_t end, int64_t ns)
{
    uint32_t step = 1;
    while (step < end - low && ops[low + step - 1].start_ns <= ns) {
        low += step;
        step *= 2;
    }
    KB_LOWER_BOUND(low, low + KB_MIN(step, end - low), ops[low].start_ns <= ns);
    return low;
}

/* The innermost operator of the lane at that time, KA_NONE if there is none. *after is where
 * the search begins, and becomes the first operator after `ns`, where the next one goes on. */
static uint32_t op_at(const ka_attribution *v, const lane *l, uint32_t *after, int64_t ns)
{
    const ka_op *ops = v->ops.data;
    *after = find_first_op_after(ops, *after, l->end, ns);
    uint32_t op = *after > l->first ? *after - 1 : KA_NONE;
    int64_t until = v->dataset->definitions->operators_exclude_end ? ka_add_ns(ns, 1) : ns;
    while (op != KA_NONE && ops[op].end_ns < until)
        op = ops[op].parent;
    return op != KA_NONE && ops[op].merged ? ops[op].parent : op;
}

/* Sets `op` of all records, by track. A track may be in several lanes: the operator that began
 * last wins. Leaves the records in the order of tracks. */
static bool give_operators(memory *m)
{
    lane_list lanes = {0};
    const ka_op *ops = m->v->ops.data;
    bool ok = lanes_of(m->v, &lanes);
    sort_records(m, compare_by_track);
    for (size_t l = 0; l < lanes.count && ok; l++) {
        size_t i = 0;
        KB_LOWER_BOUND(i, m->records.count, m->records.data[i].track < lanes.data[l].track);
        uint32_t after = lanes.data[l].first;
        for (; i < m->records.count && m->records.data[i].track == lanes.data[l].track; i++) {
            record *r = &m->records.data[i];
            uint32_t op = op_at(m->v, &lanes.data[l], &after, r->ns);
            if (op != KA_NONE && (r->op == KA_NONE || ops[op].start_ns > ops[r->op].start_ns))
                r->op = op;
        }
    }
    kb_vec_free(&lanes);
    return ok;
}

/* ---- peaks ----------------------------------------------------------------------------------- */

kb_text ka_memory_device(int64_t type, int64_t index)
{
    kb_text text = {"CPU"};
    const char *name = type >= 0 && type < 256 ? ka_device_type_name((uint32_t)type) : NULL;
    if (type == KINETO_DEVICE_CUDA)
        (void)snprintf(text.s, sizeof text.s, "GPU%lld", (long long)index);
    else if (!ka_is_host_memory(type))
        (void)snprintf(text.s, sizeof text.s, "%.32s%lld", name ? name : "device",
                       (long long)index);
    return text;
}

/* The device's name in tables; with the process id if several processes have memory. */
static kb_text device_text(const memory *m, uint32_t index)
{
    const device *d = &m->devices.data[index];
    kb_text text = ka_memory_device(d->type, d->index), of;
    kineto_process p;
    if (!m->several_processes)
        return text;
    kineto_trace_process(m->v->dataset->trace, d->process, &p);
    (void)snprintf(of.s, sizeof of.s, "%.40s" KA_MEMORY_PROCESS "%lld", text.s, (long long)p.pid);
    return of;
}

/* The state of one device while its records are walked in the order of time. `now` is the
 * reported total or, without one, the sum of changes since the trace began. */
typedef struct peak {
    int64_t allocated, reserved, at_ns, now, allocations, releases;
    bool any;
} peak;

static void update_peak(peak *p, const record *r)
{
    KB_ASSERT(p->any || (p->allocations == 0 && p->releases == 0));
    p->now = r->total >= 0 ? r->total : ka_add_ns(p->now, r->bytes);
    if (!p->any || p->now > p->allocated) {
        p->allocated = p->now;
        p->at_ns = r->ns;
    }
    p->reserved = p->any ? KB_MAX(p->reserved, r->reserved) : r->reserved;
    p->any = true;
    p->allocations += r->bytes > 0;
    p->releases += r->bytes < 0;
}

/* One row per device. Records must be in the order of time. */
static void put_peaks(const memory *m, ka_table *t)
{
    bool stated = false;
    for (uint32_t d = 0; d < m->devices.count; d++) {
        peak p = {0};
        for (size_t i = 0; i < m->records.count; i++) {
            if (m->records.data[i].device == d)
                update_peak(&p, &m->records.data[i]);
            stated |= m->records.data[i].total >= 0;
        }
        ka_put_int(t, m->v->dataset->rank);
        ka_put_text(t, kb_string(device_text(m, d).s));
        ka_put_int(t, p.allocated);
        if (p.reserved >= 0)
            ka_put_int(t, p.reserved);
        else
            ka_put_none(t);
        ka_put_ns(t, p.at_ns);
        ka_put_int(t, p.now);
        ka_put_int(t, p.allocations);
        ka_put_int(t, p.releases);
    }
    if (!stated)
        ka_note(t,
                "the trace does not record how much was allocated before it: numbers are more than "
                "at its beginning");
    KA_SORT(t, KA_UP(memory, device));
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Sums in bytes: allocated less released, number of allocations, and allocated only. */
typedef struct amount {
    int64_t increase, count, bytes;
} amount;

/* Amounts of all calls of an operator. `open_until` is the end (index of ops) of the last call
 * that was counted: calls inside it are part of it already. */
typedef struct by_name {
    uint32_t open_until;
    amount all, self;
} by_name;

/* Memory of one device by operator. A bit of `has_some` for each operator with an amount
 * spares walking over all of them, as few have any. */
typedef struct amounts {
    amount *of_op;      /* callees included; few operators have any */
    uint64_t *has_some; /* bits of these */
    by_name *names;
} amounts;

static void add_amount(amount *to, const amount *a)
{
    to->increase = ka_add_ns(to->increase, a->increase);
    to->count += a->count;
    to->bytes = ka_add_ns(to->bytes, a->bytes);
}

/* Adds the records of device `d` to their operators, as own amounts and as the beginning of
 * the sums with callees. */
static void sum_records(const memory *m, uint32_t d, amounts *to)
{
    const ka_op *ops = m->v->ops.data;
    for (size_t i = 0; i < m->records.count; i++) {
        const record *r = &m->records.data[i];
        if (r->device != d || r->op == KA_NONE || !ops[r->op].shown)
            continue;
        amount a = {r->bytes, r->bytes > 0, KB_MAX(r->bytes, 0)};
        add_amount(&to->names[ops[r->op].name].self, &a);
        add_amount(&to->of_op[r->op], &a);
        to->has_some[r->op / 64] |= UINT64_C(1) << r->op % 64;
    }
}

/* Adds each operator's amount to its caller's, from the last operator to the first: callers
 * come before their callees. A caller's bit that is set in the same word is lower, and
 * therefore still ahead. */
static void add_to_callers(const ka_op_list *ops, amounts *to)
{
    for (size_t w = ops->count / 64 + 1; w-- > 0;)
        for (uint64_t left = to->has_some[w], bit; left; left = to->has_some[w] & (bit - 1)) {
            bit = UINT64_C(1) << (63 - __builtin_clzll(left));
            size_t op = w * 64 + (size_t)__builtin_ctzll(bit);
            uint32_t parent = ops->data[op].parent;
            if (parent == KA_NONE)
                continue;
            add_amount(&to->of_op[parent], &to->of_op[op]);
            to->has_some[parent / 64] |= UINT64_C(1) << parent % 64;
        }
}

/* From operators to names: recursive calls count once, except under definitions that count
 * nested calls. */
static void sum_by_name(const memory *m, amounts *of)
{
    const ka_op_list *ops = &m->v->ops;
    for (size_t w = 0; w < ops->count / 64 + 1; w++)
        for (uint64_t left = of->has_some[w]; left; left &= left - 1) {
            uint32_t op = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(left);
            by_name *n = &of->names[ops->data[op].name];
            if (!ops->data[op].shown ||
                (op < n->open_until && !m->v->dataset->definitions->count_nested_calls))
                continue;
            n->open_until = ops->data[op].next;
            add_amount(&n->all, &of->of_op[op]);
        }
}

static void put_memory_operator(const memory *m, uint32_t d, uint32_t name, uint64_t calls,
                                const by_name *n, ka_table *t)
{
    ka_put_int(t, m->v->dataset->rank);
    ka_put_text(t, kb_string(device_text(m, d).s));
    ka_put_text(t, ka_name(m->v->dataset, name));
    ka_put_int(t, (int64_t)calls);
    ka_put_int(t, n->all.increase);
    ka_put_int(t, n->self.increase);
    ka_put_int(t, n->all.count);
    ka_put_int(t, n->self.count);
    ka_put_int(t, n->all.bytes);
    ka_put_int(t, n->self.bytes);
}

static bool put_device_operators(const memory *m, uint32_t d, const uint64_t *calls, ka_table *t)
{
    size_t ops = m->v->ops.count + 1, names = (size_t)m->v->dataset->name_count + 1;
    amounts of = {calloc(ops, sizeof *of.of_op), calloc(ops / 64 + 1, sizeof *of.has_some),
                  calloc(names, sizeof *of.names)};
    bool ok = of.of_op && of.has_some && of.names;
    if (ok) {
        sum_records(m, d, &of);
        add_to_callers(&m->v->ops, &of);
        sum_by_name(m, &of);
    }
    for (uint32_t i = 0; i < names && ok; i++) {
        const by_name *n = &of.names[i];
        if (n->all.count || n->all.increase || n->self.increase)
            put_memory_operator(m, d, i, calls[i], n, t);
    }
    free(of.of_op);
    free(of.has_some);
    free(of.names);
    return ok;
}

/* How often a process called each shown operator, by name; all processes together if only one
 * has memory. */
static void count_calls(const memory *m, uint32_t process, uint64_t *calls)
{
    memset(calls, 0, ((size_t)m->v->dataset->name_count + 1) * sizeof *calls);
    for (size_t i = 0; i < m->v->ops.count; i++) {
        const ka_op *op = &m->v->ops.data[i];
        if (op->shown && (!m->several_processes || memory_process_of(m, op->track) == process))
            calls[op->name]++;
    }
}

static bool put_memory_operators(const memory *m, ka_table *t)
{
    uint64_t *calls = calloc((size_t)m->v->dataset->name_count + 1, sizeof *calls);
    bool ok = calls != NULL;
    for (uint32_t d = 0; d < m->devices.count && ok; d++) {
        if (d == 0 || m->devices.data[d].process != m->devices.data[d - 1].process)
            count_calls(m, m->devices.data[d].process, calls);
        ok = put_device_operators(m, d, calls, t);
    }
    free(calls);
    KA_SORT(t, KA_UP(memory_operators, device), KA_DOWN(memory_operators, allocation_bytes),
            KA_UP(memory_operators, operator));
    return ok;
}

/* ---- what was not released ------------------------------------------------------------------- */

typedef struct leak {
    uint64_t count;
    int64_t bytes, first_ns, last_ns;
} leak;

/* by_op[0] is for records outside of operators, by_op[name + 1] for operators. `live` maps an
 * address to the record that allocated it (its index + 1), or to 0 once it was released. */
static bool find_leaks(const memory *m, uint32_t d, leak *by_op)
{
    kb_map live = {0};
    bool ok = true;
    for (size_t i = 0; i < m->records.count && ok; i++) {
        const record *r = &m->records.data[i];
        if (r->device != d || !r->address || !r->bytes)
            continue;
        uint64_t *at = kb_map_insert(&live, r->address, 0, NULL);
        ok = at != NULL;
        if (ok)
            *at = r->bytes > 0 ? i + 1 : 0;
    }
    for (size_t i = 0; i < m->records.count && ok; i++) {
        const record *r = &m->records.data[i];
        const uint64_t *at = r->device == d ? kb_map_find(&live, r->address) : NULL;
        if (!at || *at != i + 1)
            continue;
        leak *l = &by_op[r->op == KA_NONE ? 0 : m->v->ops.data[r->op].name + 1];
        l->first_ns = l->count ? l->first_ns : r->ns;
        l->last_ns = r->ns;
        l->bytes = ka_add_ns(l->bytes, r->bytes);
        l->count++;
    }
    kb_map_free(&live);
    return ok;
}

/* A row for each operator with allocations that were not released; nothing without addresses. */
static bool put_leaks(const memory *m, ka_table *t)
{
    size_t names = (size_t)m->v->dataset->name_count + 2;
    bool ok = true;
    for (uint32_t d = 0; d < m->devices.count && ok && m->any_address; d++) {
        leak *by_op = calloc(names, sizeof *by_op);
        ok = by_op && find_leaks(m, d, by_op);
        for (uint32_t i = 0; i < names && ok; i++) {
            if (!by_op[i].count)
                continue;
            ka_put_int(t, m->v->dataset->rank);
            ka_put_text(t, kb_string(device_text(m, d).s));
            ka_put_text(t, i ? ka_name(m->v->dataset, i - 1) : kb_string(""));
            ka_put_int(t, (int64_t)by_op[i].count);
            ka_put_int(t, by_op[i].bytes);
            ka_put_ns(t, by_op[i].first_ns);
            ka_put_ns(t, by_op[i].last_ns);
        }
        free(by_op);
    }
    if (!m->any_address)
        ka_note(t, "memory events have no addresses: what was released is not known");
    KA_SORT(t, KA_UP(memory_leaks, device), KA_DOWN(memory_leaks, bytes),
            KA_UP(memory_leaks, operator));
    return ok;
}

static bool has_memory(const kineto_trace *t)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++)
        if (kt_block_at(t, b)->kinds >> KINETO_KIND_MEMORY & 1)
            return true;
    return false;
}

/* Tables memory, memory_operators and memory_leaks, from one list of records. */
kineto_status ka_analyze_memory(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *peaks = ka_table_of(a, KA_TABLE_memory),
             *operators = ka_table_of(a, KA_TABLE_memory_operators),
             *leaks = ka_table_of(a, KA_TABLE_memory_leaks);
    ka_attribution v = {.dataset = s};
    memory m = {.v = &v};
    kineto_status status =
        has_memory(s->trace) ? ka_attribution_get(s, KA_ATTRIBUTION_OPERATORS, &v, err) : KINETO_OK;
    bool ok = !status && collect_records(&m);
    if (ok && !m.records.count) {
        const char *why = ka_is_torch(s->trace) ? "no memory events in the trace (profile_memory=True, or ckineto record "
                                                  "--memory, records them)"
                                                : "no memory events in the trace (ckineto record --memory records them)";
        ka_table *tables[] = {peaks, operators, leaks};
        for (size_t i = 0; i < KB_COUNT(tables); i++)
            ka_note(tables[i], "%s", why);
    } else if (ok) {
        ok = give_operators(&m);
        sort_records(&m, compare_by_time);
        if (ok && peaks)
            put_peaks(&m, peaks);
        ok = ok && (!operators || put_memory_operators(&m, operators)) &&
             (!leaks || put_leaks(&m, leaks));
    }
    kb_vec_free(&m.records);
    kb_vec_free(&m.devices);
    return status ? status : ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

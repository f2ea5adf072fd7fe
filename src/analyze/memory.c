/* Memory: the peak of each device, what operators allocated, and what was never released. */
#include "analyze/view.h"

#include "profiler/summary.h"

typedef struct record {
    int64_t ns, bytes, total, reserved; /* bytes < 0: released; total, reserved: -1 not told */
    uint64_t address;
    kineto_row row;
    uint32_t track, device, op; /* indexes of devices, ops */
} record;

typedef struct device {
    int64_t type, index;
} device;

typedef struct memory {
    const ka_view *v;
    KB_VEC(record) records; /* by (track, time), later by time */
    KB_VEC(device) devices;
    bool any_address;
    bool no_memory;
} memory;

/* ---- records -------------------------------------------------------------------------------------- */

static uint32_t device_of(memory *m, int64_t type, int64_t index)
{
    for (uint32_t i = 0; i < m->devices.count; i++)
        if (m->devices.data[i].type == type && m->devices.data[i].index == index)
            return i;
    if (m->devices.count >= 256) /* of a trace that cannot be right: these share one */
        return 255;
    m->no_memory |= !kb_vec_push(&m->devices, (device){type, index});
    return (uint32_t)m->devices.count - 1;
}

static void add_record(memory *m, const kt_block *block, uint32_t i, kineto_row row,
                       uint64_t sampling)
{
    const kineto_trace *t = m->v->scope->trace;
    int64_t type = 0, index = -1, address = 0;
    record r = {.ns = block->start_ns[i],
                .total = -1,
                .reserved = -1,
                .row = row,
                .track = block->track[i],
                .op = KA_NONE};
    if (!ka_arg_int(t, row, "Bytes", &r.bytes))
        return;
    r.bytes = kp_memory_scaled(sampling, r.bytes);
    (void)ka_arg_int(t, row, "Device Type", &type);
    (void)ka_arg_int(t, row, "Device Id", &index);
    if (!ka_arg_int(t, row, "Total Allocated", &r.total))
        r.total = -1;
    if (!ka_arg_int(t, row, "Total Reserved", &r.reserved))
        r.reserved = -1;
    m->any_address |= ka_arg_int(t, row, "Addr", &address) && address != 0;
    r.address = (uint64_t)address;
    r.device = device_of(m, type, kp_is_host_memory(type) ? -1 : index);
    m->no_memory |= !kb_vec_push(&m->records, r);
}

/* Only where steps were chosen, memory of other times is left out. */
static void limits_of(const ka_view *v, int64_t *from, int64_t *until)
{
    bool chosen = false;
    *from = INT64_MIN;
    *until = INT64_MAX;
    for (uint32_t i = 0; i < v->scope->step_count && !v->scope->hta; i++)
        chosen |= v->scope->steps[i].slice == KA_NONE;
    if (chosen && v->windows.count) {
        *from = v->windows.data[0].start_ns;
        *until = v->windows.data[v->windows.count - 1].end_ns;
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

static void sort(memory *m, int (*compare)(const void *, const void *))
{
    if (m->records.count)
        qsort(m->records.data, m->records.count, sizeof *m->records.data, compare);
}

static bool collect(memory *m)
{
    const kineto_trace *t = m->v->scope->trace;
    uint64_t sampling = kp_memory_sampling(t);
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

/* ---- which operator ---------------------------------------------------------------------------------- */

/* Operators of one thread, [first, end). */
typedef struct lane {
    uint32_t track, first, end;
} lane;
typedef KB_VEC(lane) lane_list;

static bool lanes_of(const ka_view *v, lane_list *lanes)
{
    for (uint32_t i = 0; i < v->ops.count; i++) {
        const ka_op *op = &v->ops.data[i];
        if (i && op->thread == op[-1].thread)
            lanes->data[lanes->count - 1].end = i + 1;
        else if (!kb_vec_push(lanes, (lane){op->track, i, i + 1}))
            return false;
    }
    return true;
}

/* The innermost operator of the lane at that time. */
static uint32_t op_at(const ka_view *v, const lane *l, int64_t ns)
{
    const ka_op *ops = v->ops.data;
    uint32_t low = l->first, high = l->end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ops[middle].start_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    uint32_t op = low > l->first ? low - 1 : KA_NONE;
    while (op != KA_NONE && (v->scope->hta ? ops[op].end_ns <= ns : ops[op].end_ns < ns))
        op = ops[op].parent;
    return op != KA_NONE && ops[op].merged ? ops[op].parent : op;
}

static bool give_operators(memory *m)
{
    lane_list lanes = {0};
    const ka_op *ops = m->v->ops.data;
    bool ok = lanes_of(m->v, &lanes);
    sort(m, compare_by_track);
    for (size_t l = 0; l < lanes.count && ok; l++) {
        size_t low = 0, high = m->records.count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (m->records.data[middle].track < lanes.data[l].track)
                low = middle + 1;
            else
                high = middle;
        }
        for (size_t i = low;
             i < m->records.count && m->records.data[i].track == lanes.data[l].track; i++) {
            record *r = &m->records.data[i];
            uint32_t op = op_at(m->v, &lanes.data[l], r->ns);
            if (op != KA_NONE && (r->op == KA_NONE || ops[op].start_ns > ops[r->op].start_ns))
                r->op = op;
        }
    }
    kb_vec_free(&lanes);
    return ok;
}

/* ---- peaks ---------------------------------------------------------------------------------------------- */

static kb_text device_text(const memory *m, uint32_t index)
{
    const device *d = &m->devices.data[index];
    kb_text text = {"CPU"};
    const char *name =
        d->type >= 0 && d->type < 256 ? kp_device_type_name((uint32_t)d->type) : NULL;
    if (d->type == KINETO_DEVICE_CUDA)
        (void)snprintf(text.s, sizeof text.s, "GPU%lld", (long long)d->index);
    else if (!kp_is_host_memory(d->type))
        (void)snprintf(text.s, sizeof text.s, "%.32s%lld", name ? name : "device",
                       (long long)d->index);
    return text;
}

typedef struct peak {
    int64_t allocated, reserved, at_ns, now, allocations, releases;
    bool any;
} peak;

static void see(peak *p, const record *r)
{
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

static void put_peaks(const memory *m, ka_table *t)
{
    bool told = false;
    for (uint32_t d = 0; d < m->devices.count; d++) {
        peak p = {0};
        for (size_t i = 0; i < m->records.count; i++) {
            if (m->records.data[i].device == d)
                see(&p, &m->records.data[i]);
            told |= m->records.data[i].total >= 0;
        }
        ka_put_int(t, m->v->scope->rank);
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
    if (!told)
        ka_note(t,
                "the trace does not tell how much was allocated before it: numbers are more than "
                "at its beginning");
    ka_sort(t, (const int[]){2, 0});
}

/* ---- operators ------------------------------------------------------------------------------------------- */

typedef struct amount {
    int64_t increase, count, bytes;
} amount;

typedef struct by_name {
    uint64_t calls;
    uint32_t open_until;
    amount all, self;
} by_name;

static void add_amount(amount *to, const amount *a)
{
    to->increase = ka_add_ns(to->increase, a->increase);
    to->count += a->count;
    to->bytes = ka_add_ns(to->bytes, a->bytes);
}

static void sum_up(const memory *m, uint32_t d, amount *self, amount *all, by_name *names)
{
    const ka_op_list *ops = &m->v->ops;
    for (size_t i = 0; i < m->records.count; i++) {
        const record *r = &m->records.data[i];
        if (r->device == d && r->op != KA_NONE && ops->data[r->op].shown)
            add_amount(&self[r->op], &(amount){r->bytes, r->bytes > 0, KB_MAX(r->bytes, 0)});
    }
    for (size_t i = ops->count; i-- > 0;) {
        add_amount(&all[i], &self[i]);
        if (ops->data[i].parent != KA_NONE)
            add_amount(&all[ops->data[i].parent], &all[i]);
    }
    for (uint32_t i = 0; i < ops->count; i++) {
        by_name *n = &names[ops->data[i].name];
        if (!ops->data[i].shown)
            continue;
        n->calls++;
        add_amount(&n->self, &self[i]);
        if (i < n->open_until && !m->v->scope->hta)
            continue;
        n->open_until = ops->data[i].next;
        add_amount(&n->all, &all[i]);
    }
}

static void put_operator(const memory *m, uint32_t d, uint32_t name, const by_name *n, ka_table *t)
{
    ka_put_int(t, m->v->scope->rank);
    ka_put_text(t, kb_string(device_text(m, d).s));
    ka_put_text(t, ka_name(m->v->scope, name));
    ka_put_int(t, (int64_t)n->calls);
    ka_put_int(t, n->all.increase);
    ka_put_int(t, n->self.increase);
    ka_put_int(t, n->all.count);
    ka_put_int(t, n->self.count);
    ka_put_int(t, n->all.bytes);
    ka_put_int(t, n->self.bytes);
}

static bool put_operators(const memory *m, ka_table *t)
{
    size_t count = m->v->ops.count + 1, name_count = (size_t)m->v->scope->name_count + 1;
    bool ok = true;
    for (uint32_t d = 0; d < m->devices.count && ok; d++) {
        amount *self = calloc(count, sizeof *self), *all = calloc(count, sizeof *all);
        by_name *names = calloc(name_count, sizeof *names);
        ok = self && all && names;
        if (ok)
            sum_up(m, d, self, all, names);
        for (uint32_t i = 0; i < name_count && ok; i++)
            if (names[i].all.count || names[i].all.increase || names[i].self.increase)
                put_operator(m, d, i, &names[i], t);
        free(self);
        free(all);
        free(names);
    }
    ka_sort(t, (const int[]){2, -9, 3, 0});
    return ok;
}

/* ---- what was not released ------------------------------------------------------------------------------- */

typedef struct leak {
    uint64_t count;
    int64_t bytes, first_ns, last_ns;
} leak;

/* Records of what is still there at the end are marked by their number. */
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

static bool put_leaks(const memory *m, ka_table *t)
{
    size_t names = (size_t)m->v->scope->name_count + 2;
    bool ok = true;
    for (uint32_t d = 0; d < m->devices.count && ok && m->any_address; d++) {
        leak *by_op = calloc(names, sizeof *by_op);
        ok = by_op && find_leaks(m, d, by_op);
        for (uint32_t i = 0; i < names && ok; i++) {
            if (!by_op[i].count)
                continue;
            ka_put_int(t, m->v->scope->rank);
            ka_put_text(t, kb_string(device_text(m, d).s));
            ka_put_text(t, i ? ka_name(m->v->scope, i - 1) : kb_string(""));
            ka_put_int(t, (int64_t)by_op[i].count);
            ka_put_int(t, by_op[i].bytes);
            ka_put_ns(t, by_op[i].first_ns);
            ka_put_ns(t, by_op[i].last_ns);
        }
        free(by_op);
    }
    if (!m->any_address)
        ka_note(t, "memory events have no addresses: what was released is not known");
    ka_sort(t, (const int[]){2, -5, 3, 0});
    return ok;
}

static bool has_memory(const kineto_trace *t)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++)
        if (kt_block_at(t, b)->kinds >> KINETO_KIND_MEMORY & 1)
            return true;
    return false;
}

kineto_status ka_analyze_memory(const ka_scope *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *peaks = ka_table_of(a, KA_TABLE_memory),
             *operators = ka_table_of(a, KA_TABLE_memory_operators),
             *leaks = ka_table_of(a, KA_TABLE_memory_leaks);
    ka_view v = {.scope = s};
    memory m = {.v = &v};
    kineto_status status = has_memory(s->trace) ? ka_view_get(s, KA_VIEW_OPS, &v, err) : KINETO_OK;
    bool ok = !status && collect(&m);
    if (ok && !m.records.count) {
        const char *why = "no memory events in the trace (profile_memory=True, or ckineto record "
                          "--memory, records them)";
        ka_table *tables[] = {peaks, operators, leaks};
        for (size_t i = 0; i < KB_COUNT(tables); i++)
            ka_note(tables[i], "%s", why);
    } else if (ok) {
        ok = give_operators(&m);
        sort(&m, compare_by_time);
        if (ok && peaks)
            put_peaks(&m, peaks);
        ok = ok && (!operators || put_operators(&m, operators)) && (!leaks || put_leaks(&m, leaks));
    }
    kb_vec_free(&m.records);
    kb_vec_free(&m.devices);
    return status ? status : ok ? KINETO_OK : kb_fail(err, KINETO_E_MEMORY, "out of memory");
}

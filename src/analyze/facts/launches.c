/* The tables launch_stats and op_launch: durations of launching calls and of their work, the
 * delay between both, and the same by operator and the kernels that one call of it launches. */
#include "analyze/facts/analyses.h"

/* ---- launch_stats ---------------------------------------------------------------------------- */

static bool is_counted(const ka_dataset *s, const ka_slice *call)
{
    bool (*counts)(kineto_string) = s->definitions->is_counted_launch;
    return call->work_count && (!counts || counts(ka_name(s, call->name)));
}

static int64_t correlation_of(const ka_dataset *s, kineto_row row)
{
    uint64_t id = kt_block_at(s->trace, row / KT_BLOCK_ROWS)->correlation_id[row % KT_BLOCK_ROWS];
    return id <= INT64_MAX ? (int64_t)id : INT64_MAX;
}

static void put_launch(const ka_dataset *s, ka_table *t, const ka_slice *call, const ka_work *w)
{
    ka_put_int(t, s->rank);
    ka_put_int(t, correlation_of(s, w->row));
    ka_put_ns(t, ka_slice_ns(call));
    ka_put_ns(t, ka_work_ns(w));
    ka_put_ns(t, KB_MAX(kb_length_ns(call->end_ns, w->start_ns), 0));
}

/* Table launch_stats: a row for each piece of work with a known call. */
kineto_status ka_analyze_launches(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_launch_stats);
    (void)err;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *call = &s->slices[i];
        for (uint32_t k = 0; is_counted(s, call) && k < call->work_count; k++)
            put_launch(s, t, call, &s->work[s->launched[call->first_work + k]]);
    }
    if (!s->work_count)
        ka_note_no_device(t);
    else if (!ka_table_rows(t))
        ka_note(t, "the trace does not record which host calls launched the work of devices");
    return KINETO_OK;
}

/* ---- op_launch: launches and their operators ------------------------------------------------- */

/* The innermost operator around each call, on its thread. */
static bool find_exact(const ka_dataset *s, ka_op_launches *list)
{
    bool ok = kb_vec_reserve(list, (size_t)s->work_count + 1);
    for (uint32_t i = 0; ok && i < s->slice_count; i++) {
        uint32_t op = s->slices[i].work_count ? ka_operator_around(s, i) : KA_NONE;
        if (op != KA_NONE)
            ok = kb_vec_push(list, ((ka_op_launch){op, i}));
    }
    return ok;
}

/* ---- op_launch: sequences -------------------------------------------------------------------- */

/* Operators with the same name that launched the same kernels. */
typedef struct sequence {
    uint32_t name;
    uint64_t hash;
    uint32_t first, count; /* of names */
    uint64_t times;
    double op_us, runtime_us; /* sums */
} sequence;

typedef struct sequences {
    KB_VEC(sequence) list;
    KB_VEC(uint32_t) names; /* of kernels */
    uint32_t *table;        /* index of list + 1 by hash */
    size_t mask;
    bool no_memory;
} sequences;

/* Slot of the sequence, or the free one where it belongs. The table has at least twice as many
 * slots as launches, so that there is always a free one. */
static uint32_t *slot_of(const sequences *q, const sequence *key)
{
    for (size_t i = (size_t)key->hash & q->mask;; i = (i + 1) & q->mask) {
        if (!q->table[i])
            return &q->table[i];
        const sequence *other = &q->list.data[q->table[i] - 1];
        if (other->hash == key->hash && other->name == key->name && other->count == key->count &&
            memcmp(q->names.data + other->first, q->names.data + key->first,
                   key->count * sizeof *q->names.data) == 0)
            return &q->table[i];
    }
}

/* Launches of one operator lie side by side; the delays are those of the first. */
static void add_launch_operator(const ka_dataset *s, sequences *q, const ka_op_launch *l,
                                size_t count)
{
    sequence key = {.name = s->slices[l->op].name, .first = (uint32_t)q->names.count};
    for (size_t i = 0; i < count; i++) {
        const ka_slice *call = &s->slices[l[i].call];
        uint32_t works = s->definitions->first_work_only ? 1 : call->work_count;
        for (uint32_t k = 0; k < works; k++)
            q->no_memory |=
                !kb_vec_push(&q->names, s->work[s->launched[call->first_work + k]].name);
    }
    if (q->no_memory)
        return;
    key.count = (uint32_t)q->names.count - key.first;
    key.hash = kb_hash(q->names.data + key.first, key.count * sizeof *q->names.data) ^
               key.name * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t *slot = slot_of(q, &key);
    if (*slot)
        q->names.count = key.first;
    else if (kb_vec_push(&q->list, key))
        *slot = (uint32_t)q->list.count;
    else
        q->no_memory = true;
    if (q->no_memory)
        return;
    const ka_slice *op = &s->slices[l->op], *call = &s->slices[l->call];
    const ka_work *w = &s->work[s->launched[call->first_work]];
    sequence *at = &q->list.data[*slot - 1];
    at->times++;
    at->op_us += ka_us(kb_length_ns(op->start_ns, call->start_ns));
    at->runtime_us += ka_us(s->definitions->delay_from_call_start
                                ? kb_length_ns(call->start_ns, w->start_ns)
                                : KB_MAX(kb_length_ns(call->end_ns, w->start_ns), 0));
}

static int compare_launches(const void *left, const void *right, void *context)
{
    const ka_slice *slices = context;
    const ka_op_launch *a = left, *b = right;
    if (a->op != b->op)
        return a->op < b->op ? -1 : 1;
    return ka_compare_starts(&a->call, &b->call, (void *)(uintptr_t)slices);
}

static void sort_launches(const ka_dataset *s, ka_op_launches *list)
{
    void *slices = (void *)(uintptr_t)s->slices;
    size_t i = 1;
    while (i < list->count && compare_launches(&list->data[i - 1], &list->data[i], slices) <= 0)
        i++;
    if (i < list->count)
        qsort_r(list->data, list->count, sizeof *list->data, compare_launches, slices);
}

/* A power of two, at least 2 * count. False: out of memory. */
static bool make_table(sequences *q, size_t count)
{
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    q->mask = size - 1;
    q->table = calloc(size, sizeof *q->table);
    return q->table;
}

static void add_operators(const ka_dataset *s, sequences *q, ka_op_launches *list)
{
    q->no_memory = !make_table(q, list->count);
    sort_launches(s, list);
    for (size_t i = 0, end; i < list->count && !q->no_memory; i = end) {
        for (end = i + 1; end < list->count && list->data[end].op == list->data[i].op; end++)
            ;
        add_launch_operator(s, q, list->data + i, end - i);
    }
}

/* ---- op_launch: table ------------------------------------------------------------------------ */

typedef KB_VEC(char) text;

static bool append_kernel_name(text *t, kineto_string s)
{
    if (!kb_vec_reserve(t, t->count + s.size + 1))
        return false;
    memcpy(t->data + t->count, s.data, s.size);
    t->count += s.size;
    return true;
}

/* Names of kernels have commas: hence the arrow. The first names are enough. */
#define MAX_TEXT 16384u

static void join_names(const ka_dataset *s, sequences *q, const sequence *at, text *names)
{
    names->count = 0;
    for (uint32_t i = 0; i < at->count && !q->no_memory; i++) {
        kineto_string name = ka_name(s, q->names.data[at->first + i]);
        if (names->count + (i ? strlen(" -> ") : 0) + name.size > MAX_TEXT) {
            q->no_memory |= !append_kernel_name(names, kb_string(i ? " -> ..." : "..."));
            return;
        }
        q->no_memory |= (i && !append_kernel_name(names, kb_string(" -> "))) ||
                        !append_kernel_name(names, name);
    }
}

static void put_sequence(const ka_dataset *s, ka_table *t, sequences *q, const sequence *at,
                         text *names)
{
    join_names(s, q, at, names);
    ka_put_text(t, ka_name(s, at->name));
    ka_put_text(t, (kineto_string){names->data, names->count});
    ka_put_int(t, (int64_t)at->times);
    ka_put_number(t, at->op_us / (double)at->times);
    ka_put_number(t, at->runtime_us / (double)at->times);
}

static void put_sequences(const ka_dataset *s, ka_table *t, sequences *q)
{
    text names = {0};
    for (size_t i = 0; i < q->list.count && !q->no_memory; i++)
        put_sequence(s, t, q, &q->list.data[i], &names);
    kb_vec_free(&names);
    KA_SORT(t, KA_DOWN(op_launch, count), KA_UP(op_launch, op), KA_UP(op_launch, kernels));
}

/* Table op_launch: launches are grouped by the call of their operator, then by the names of the
 * kernels. */
kineto_status ka_analyze_op_launch(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_op_launch);
    ka_op_launches list = {0};
    sequences q = {0};
    bool (*find)(const ka_dataset *, ka_op_launches *) = s->definitions->find_op_launches;
    bool ok = find ? find(s, &list) : find_exact(s, &list);
    if (ok)
        add_operators(s, &q, &list);
    if (ok && !q.no_memory)
        put_sequences(s, t, &q);
    ok &= !q.no_memory;
    if (!s->work_count)
        ka_note_no_device(t);
    else if (!list.count)
        ka_note(t, "no operator is around a call that launched work");
    kb_vec_free(&list);
    kb_vec_free(&q.list);
    kb_vec_free(&q.names);
    free(q.table);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* The table sequences: operators that launched the same kernels in the same order. The
 * reduction keeps the first few over all ranks. */
#include "analyze/facts/analyses.h"

/* Longer names of sequences are cut, and say how much of them is missing. */
#define MAX_TEXT ((size_t)64 << 10)
/* What other ranks may add to: the sequences with the most time on the device. */
#define MAX_SEQUENCES 4096u

/* Calls of operator `op` that launched the same kernels in the same order. */
typedef struct sequence {
    uint32_t op;           /* name */
    uint32_t first, count; /* of `names` */
    uint64_t times;
    int64_t gpu_ns, cpu_ns;
    uint32_t found; /* the how-manieth to be found */
} sequence;

/* State of the search. `holds` answers for sequence_operator, by name. `known` maps a hash to
 * an index of `all`; collisions are resolved by the next hash (find_sequence). */
typedef struct finding {
    const ka_dataset *s;
    uint64_t least;
    uint8_t *holds; /* by name: does it hold what was asked for? 0: not checked yet, 1 no, 2 */
    KB_VEC(uint32_t) works; /* under one operator */
    KB_VEC(uint32_t) names; /* of kernels, of all sequences */
    KB_VEC(sequence) all;
    kb_map known;               /* hash to index of `all` */
    ka_occurrence_list *places; /* NULL: not needed */
    bool no_memory;
} finding;

/* ---- which operators ------------------------------------------------------------------------- */

static bool name_holds(finding *f, uint32_t name)
{
    const char *part = f->s->options->sequence_operator;
    if (!f->holds[name]) {
        kineto_string text = ka_name(f->s, name);
        bool holds = kb_string_contains(text, part);
        f->holds[name] = holds ? 2 : 1;
    }
    return f->holds[name] == 2;
}

static bool is_asked_for(void *context, const ka_slice *slice)
{
    finding *f = context;
    if (!f->s->options->sequence_operator)
        return slice->kind == KINETO_KIND_CPU_OP;
    return name_holds(f, slice->name);
}

/* ---- what they launched ---------------------------------------------------------------------- */

/* Appends the device work that a slice launched, except what the definitions ignore. */
static void take_works(finding *f, uint32_t slice)
{
    const ka_slice *at = &f->s->slices[slice];
    for (uint32_t i = 0; i < at->work_count; i++) {
        uint32_t work = f->s->launched[at->first_work + i];
        if (ka_calls_have(f->s, &f->s->work[work]))
            f->no_memory |= !kb_vec_push(&f->works, work);
    }
}

static int compare_works(const void *left, const void *right, void *context)
{
    const ka_work *work = context, *a = &work[*(const uint32_t *)left],
                  *b = &work[*(const uint32_t *)right];
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* By start; mostly they are in order already. */
static void sort_works(finding *f)
{
    void *work = (void *)(uintptr_t)f->s->work;
    for (size_t i = 1; i < f->works.count; i++)
        if (compare_works(&f->works.data[i - 1], &f->works.data[i], work) > 0) {
            qsort_r(f->works.data, f->works.count, sizeof *f->works.data, compare_works, work);
            return;
        }
}

/* ---- the same ones --------------------------------------------------------------------------- */

static bool is_same_sequence(const finding *f, const sequence *q, uint32_t op)
{
    if (q->op != op || q->count != f->works.count)
        return false;
    for (uint32_t i = 0; i < q->count; i++)
        if (f->names.data[q->first + i] != f->s->work[f->works.data[i]].name)
            return false;
    return true;
}

static sequence *put_new(finding *f, uint32_t op)
{
    sequence q = {.op = op, .first = (uint32_t)f->names.count, .count = (uint32_t)f->works.count};
    for (size_t i = 0; i < f->works.count && !f->no_memory; i++)
        f->no_memory |= !kb_vec_push(&f->names, f->s->work[f->works.data[i]].name);
    f->no_memory |= !kb_vec_push(&f->all, q);
    return f->no_memory ? NULL : &f->all.data[f->all.count - 1];
}

/* The sequence of f->works under `op`, which is appended if it is new. Valid until the next
 * call. NULL: out of memory. */
static sequence *find_sequence(finding *f, uint32_t op)
{
    uint64_t hash = kb_hash(&op, sizeof op);
    for (size_t i = 0; i < f->works.count; i++) {
        const uint32_t *name = &f->s->work[f->works.data[i]].name;
        hash = kb_hash_seeded(hash, name, sizeof *name);
    }
    for (;; hash++) {
        bool created = false;
        uint64_t *at = kb_map_insert(&f->known, hash, f->all.count, &created);
        f->no_memory |= !at;
        if (!at)
            return NULL;
        if (created)
            return put_new(f, op);
        if (is_same_sequence(f, &f->all.data[*at], op))
            return &f->all.data[*at];
    }
}

/* Counts the sequence in f->works, of the operator `slice`, unless it is shorter than asked
 * for. */
static void add_sequence(finding *f, uint32_t slice)
{
    if (f->works.count < f->least || f->no_memory)
        return;
    sort_works(f);
    sequence *q = find_sequence(f, f->s->slices[slice].name);
    if (!q)
        return;
    if (f->places)
        f->no_memory |= !kb_vec_push(
            f->places, ((ka_occurrence){slice, (uint32_t)(q - f->all.data), q->count}));
    q->times++;
    q->cpu_ns = ka_add_ns(q->cpu_ns, ka_slice_ns(&f->s->slices[slice]));
    for (size_t i = 0; i < f->works.count; i++)
        q->gpu_ns = ka_add_ns(q->gpu_ns, ka_work_ns(&f->s->work[f->works.data[i]]));
}

/* Exact: the outermost of those that were asked for. */
static void find_outermost(finding *f)
{
    for (uint32_t i = 0; i < f->s->slice_count && !f->no_memory;) {
        const ka_slice *slice = &f->s->slices[i];
        if (!is_asked_for(f, slice)) {
            i++;
            continue;
        }
        f->works.count = 0;
        for (uint32_t k = i; k < slice->next; k++)
            take_works(f, k);
        add_sequence(f, i);
        i = slice->next;
    }
}

/* For definitions that choose the operators themselves. */
static void add_visited(void *context, uint32_t op, const uint32_t *slices, uint32_t count)
{
    finding *f = context;
    f->works.count = 0;
    for (uint32_t i = 0; i < count; i++)
        take_works(f, slices[i]);
    add_sequence(f, op);
}

/* ---- the table ------------------------------------------------------------------------------- */

static int compare_sequences(const void *left, const void *right)
{
    const sequence *a = left, *b = right;
    if (a->gpu_ns != b->gpu_ns)
        return a->gpu_ns > b->gpu_ns ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

typedef KB_VEC(char) text;

static bool append_sequence_name(text *t, kineto_string s)
{
    if (!kb_vec_reserve(t, t->count + s.size + 1))
        return false;
    if (s.size)
        memcpy(t->data + t->count, s.data, s.size);
    t->count += s.size;
    return true;
}

/* Ends a text that is too long: with the number of names left out and a hash of all names, so
 * that two long sequences with the same beginning stay different rows. */
static bool append_rest(const finding *f, const sequence *q, uint32_t from, text *t)
{
    char rest[64];
    uint64_t hash = 0; /* of names: their numbers are another rank's others */
    for (uint32_t i = 0; i < q->count; i++) {
        kineto_string name = ka_name(f->s, f->names.data[q->first + i]);
        hash = kb_hash_seeded(hash, name.data, name.size);
    }
    snprintf(rest, sizeof rest, "|… %u more, %016llx", q->count - from, (unsigned long long)hash);
    return append_sequence_name(t, kb_string(rest));
}

static void put_sequence(finding *f, ka_table *table, const sequence *q, text *t)
{
    t->count = 0;
    bool ok = append_sequence_name(t, ka_name(f->s, q->op));
    for (uint32_t i = 0; i < q->count && ok; i++) {
        kineto_string name = ka_name(f->s, f->names.data[q->first + i]);
        if (t->count + name.size > MAX_TEXT) {
            ok = append_rest(f, q, i, t);
            break;
        }
        ok = append_sequence_name(t, kb_string("|")) && append_sequence_name(t, name);
    }
    f->no_memory |= !ok;
    ka_put_text(table, (kineto_string){t->data, t->count});
    ka_put_int(table, (int64_t)q->times);
    ka_put_ns(table, q->gpu_ns);
    ka_put_ns(table, q->cpu_ns);
}

static void put_sequences(finding *f, ka_table *table)
{
    text t = {0};
    if (f->all.count)
        qsort(f->all.data, f->all.count, sizeof *f->all.data, compare_sequences);
    for (size_t i = 0; i < f->all.count && i < MAX_SEQUENCES && !f->no_memory; i++)
        put_sequence(f, table, &f->all.data[i], &t);
    kb_vec_free(&t);
    if (!f->s->work_count)
        ka_note_no_device(table);
    else if (!f->all.count)
        ka_note(table, "no %s%.80s launched %llu kernels or more",
                f->s->options->sequence_operator ? "range with a name that holds "
                                                 : "outermost operator",
                f->s->options->sequence_operator ? f->s->options->sequence_operator : "",
                (unsigned long long)f->least);
}

static bool find_sequences(finding *f)
{
    f->holds = calloc(f->s->name_count + (size_t)1, 1);
    f->no_memory |= !f->holds;
    if (!f->no_memory && f->s->definitions->visit_sequences)
        f->no_memory |= !f->s->definitions->visit_sequences(f->s, is_asked_for, add_visited, f);
    else if (!f->no_memory)
        find_outermost(f);
    return !f->no_memory;
}

static void finding_free(finding *f)
{
    free(f->holds);
    kb_vec_free(&f->works);
    kb_vec_free(&f->names);
    kb_vec_free(&f->all);
    kb_map_free(&f->known);
}

/* Table sequence_sums, from which ka_reduce_sequences makes the table sequences of all ranks. */
kineto_status ka_analyze_sequences(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_sequence_sums);
    finding f = {.s = s, .least = s->options->sequence_min};
    if (find_sequences(&f))
        put_sequences(&f, t);
    finding_free(&f);
    return f.no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}

/* ---- where they are -------------------------------------------------------------------------- */

/* Occurrences have indexes of `all` in the order of discovery; this sorts `all` by time,
 * renumbers the occurrences, and drops those beyond sequence_top. False: out of memory. */
static bool keep_first(finding *f)
{
    uint32_t *place = malloc((f->all.count + 1) * sizeof *place);
    size_t kept = 0;
    for (size_t i = 0; place && i < f->all.count; i++)
        f->all.data[i].found = (uint32_t)i;
    if (place && f->all.count)
        qsort(f->all.data, f->all.count, sizeof *f->all.data, compare_sequences);
    for (size_t i = 0; place && i < f->all.count; i++)
        place[f->all.data[i].found] = (uint32_t)i;
    for (size_t i = 0; place && i < f->places->count; i++) {
        ka_occurrence o = f->places->data[i];
        o.sequence = place[o.sequence];
        if (o.sequence < f->s->options->sequence_top)
            f->places->data[kept++] = o;
    }
    f->places->count = kept;
    bool ok = place != NULL;
    free(place);
    return ok;
}

bool ka_sequences_find(const ka_dataset *s, ka_occurrence_list *out)
{
    finding f = {.s = s, .least = s->options->sequence_min, .places = out};
    bool ok = find_sequences(&f) && keep_first(&f);
    finding_free(&f);
    return ok;
}

/* ---- of all ranks: the first few ------------------------------------------------------------- */

void ka_reduce_sequences(kineto_analysis *a)
{
    ka_table *to = ka_table_of(a, KA_TABLE_sequences),
             *from = ka_table_of(a, KA_TABLE_sequence_sums);
    if (!to || !from)
        return;
    KB_ASSERT(from->at == 0 && to->at == 0);
    if (ka_definitions_of(a->definitions)->sequences_by_count)
        KA_SORT(from, KA_DOWN(sequence_sums, count), KA_UP(sequence_sums, pattern));
    else
        KA_SORT(from, KA_DOWN(sequence_sums, gpu_us), KA_UP(sequence_sums, pattern));
    to->cells.count = 0;
    for (uint64_t r = 0; r < ka_table_rows(from) && r < a->sequence_top; r++) {
        ka_put_text(to, ka_text_at(from, r, KA_COL_sequence_sums_pattern));
        ka_put_int(to, ka_cell_at(from, r, KA_COL_sequence_sums_count).i);
        ka_put_ns(to, ka_cell_at(from, r, KA_COL_sequence_sums_gpu_us).i);
        ka_put_ns(to, ka_cell_at(from, r, KA_COL_sequence_sums_cpu_us).i);
    }
    if (!to->cells.count)
        ka_note(to, "%s", from->note);
}

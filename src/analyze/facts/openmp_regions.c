/* The table openmp_regions: parallel regions by their place in the program, the work of their threads, and
 * what the threads wait for each other.
 *
 * A region has a row "omp parallel" on the thread that began it, and on each thread of its team a row "omp
 * implicit task" with rows of waiting and of explicit tasks inside. They are joined by their process and the
 * argument "region".
 *
 * All threads of a team come to the same barriers in the same order, so the n-th barrier of each thread is
 * one barrier. What a thread waits there is waiting for the last one, less what the last one spends in it,
 * which is the cost of the barrier. A thread also waits from the end of its implicit task to the end of the
 * region: runtimes differ in whether they report that as a barrier. Explicit tasks that a thread executes
 * while it waits are work. */
#include "analyze/facts/analyses.h"
#include "analyze/facts/openmp.h"

typedef enum part_kind { OTHER, REGION, MEMBER, WAIT, TASK } part_kind;

/* A row that belongs to a run of a region. */
typedef struct part {
    uint32_t process, track;
    uint64_t region, code;
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;
    uint32_t threads; /* MEMBER */
    uint8_t kind;     /* part_kind */
} part;

typedef struct regions {
    const ka_dataset *s;
    KB_VEC(part) parts;
    KB_VEC(int64_t) waits; /* of the run under way: its threads' waits, one thread after the other */
    uint8_t *kind_of;      /* by string id: part_kind + 1; 0: not looked at */
    kb_map place_of;       /* hash of name and code → index in `out` */
    ka_openmp_regions *out;
    uint32_t cpus; /* that threads ran on; 0: not recorded */
    bool no_memory;
} regions;

/* ---- rows ------------------------------------------------------------------------------------ */

static const struct {
    const char *prefix;
    part_kind kind;
} part_names[] = {{"omp parallel", REGION},
                  {"omp implicit task", MEMBER},
                  {"omp barrier", WAIT},
                  {"omp implicit barrier", WAIT},
                  {"omp task", TASK}};

static part_kind kind_of_part_name(kineto_string name)
{
    for (size_t i = 0; i < KB_COUNT(part_names); i++) {
        size_t size = strlen(part_names[i].prefix);
        if (kb_string_starts_with(name, part_names[i].prefix) &&
            (name.size == size || name.data[size] == ' '))
            return part_names[i].kind;
    }
    return OTHER;
}

static part_kind kind_of_row(regions *r, uint32_t name)
{
    if (!r->kind_of[name])
        r->kind_of[name] = (uint8_t)(kind_of_part_name(ka_name(r->s, name)) + 1);
    return (part_kind)(r->kind_of[name] - 1);
}

enum { REGION_ID, CODE, THREADS, KEYS };
static const ka_keys keys = {
    KEYS, {'r', 'c', 't', 'r'}, {KA_KEY("region"), KA_KEY("code"), KA_KEY("threads")}};

static void add_region_part(regions *r, const kt_block *block, uint32_t i, kineto_row row)
{
    int64_t args[KEYS] = {0};
    part_kind kind = kind_of_row(r, block->name[i]);
    kineto_track track;
    if (kind == OTHER)
        return;
    (void)ka_arg_ints(r->s->trace, row, &keys, args);
    kineto_trace_track(r->s->trace, block->track[i], &track);
    part p = {.process = track.process,
              .track = block->track[i],
              .region = (uint64_t)args[REGION_ID],
              .code = (uint64_t)args[CODE],
              .start_ns = block->start_ns[i],
              .end_ns = block->end_ns[i],
              .row = row,
              .name = block->name[i],
              .threads = (uint32_t)KB_MIN(KB_MAX(args[THREADS], 0), (int64_t)UINT16_MAX),
              .kind = (uint8_t)kind};
    if (p.region)
        r->no_memory |= !kb_vec_push(&r->parts, p);
}

static void collect_region_parts(regions *r)
{
    const kineto_trace *t = r->s->trace;
    kineto_row row = 0;
    for (uint32_t b = 0; b < kt_block_count(t) && !r->no_memory; b++) {
        const kt_block *block = kt_block_at(t, b);
        bool any = block->kinds >> KINETO_KIND_OPENMP & 1;
        for (uint32_t i = 0; i < block->count && any; i++)
            if (block->kind[i] == KINETO_KIND_OPENMP && block->form[i] == KINETO_FORM_SLICE)
                add_region_part(r, block, i, row + i);
        row += block->count;
    }
}

/* Runs one after the other, each with its region first, then thread by thread by start. */
static int compare_parts(const void *left, const void *right)
{
    const part *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->region != b->region)
        return a->region < b->region ? -1 : 1;
    if ((a->kind == REGION) != (b->kind == REGION))
        return a->kind == REGION ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

bool ka_openmp_region_spans(const ka_dataset *s, ka_spans *out)
{
    bool ok = true;
    for (uint32_t b = 0; b < kt_block_count(s->trace) && ok; b++) {
        const kt_block *block = kt_block_at(s->trace, b);
        bool any = block->kinds >> KINETO_KIND_OPENMP & 1;
        for (uint32_t i = 0; i < block->count && any && ok; i++)
            if (block->kind[i] == KINETO_KIND_OPENMP && block->form[i] == KINETO_FORM_SLICE &&
                kind_of_part_name(ka_name(s, block->name[i])) == REGION)
                ok = kb_vec_push(out, ((ka_span){block->start_ns[i], block->end_ns[i]}));
    }
    ka_spans_unite(out);
    return ok;
}

bool ka_is_openmp_body(kineto_string function)
{
    return kb_string_contains(function, "._omp_fn.") || kb_string_contains(function, "omp_outlined");
}

/* ---- one run --------------------------------------------------------------------------------- */

/* The time of `outer` without the tasks in it. [first, end) are the parts of its thread. */
static int64_t length_without_tasks(const part *first, const part *end, int64_t start_ns,
                                    int64_t end_ns)
{
    int64_t ns = kb_length_ns(start_ns, end_ns), covered = start_ns;
    for (const part *p = first; p < end && p->start_ns < end_ns; p++) {
        if (p->kind != TASK || p->end_ns <= covered)
            continue;
        int64_t from = KB_MAX(p->start_ns, covered), until = KB_MIN(p->end_ns, end_ns);
        ns -= kb_length_ns(from, until);
        covered = until;
    }
    return KB_MAX(ns, 0);
}

typedef struct run {
    const part *region;
    uint32_t threads, barriers; /* barriers that all of them came to */
    int64_t work_ns, longest_ns, waiting_ns;
} run;

/* Adds a wait, clipped at the end of the region, and returns it. */
static int64_t add_barrier_wait(regions *r, const run *x, const part *first, const part *end,
                                int64_t start_ns, int64_t end_ns)
{
    int64_t ns = length_without_tasks(first, end, start_ns, KB_MIN(end_ns, x->region->end_ns));
    r->no_memory |= !kb_vec_push(&r->waits, ns);
    return ns;
}

/* Adds a thread of the team: its parts are [first, end). */
static void add_team_thread(regions *r, run *x, const part *first, const part *end)
{
    const part *member = first;
    uint32_t barriers = 0;
    int64_t waiting_ns = 0;
    while (member < end && member->kind != MEMBER)
        member++;
    if (member == end)
        return;
    for (const part *p = first; p < end; p++) {
        if (p->kind != WAIT || p->start_ns >= member->end_ns)
            continue; /* after it: the end of the region, which is added below */
        waiting_ns += add_barrier_wait(r, x, first, end, p->start_ns, p->end_ns);
        barriers++;
    }
    int64_t left_ns = KB_MIN(member->end_ns, x->region->end_ns);
    waiting_ns += add_barrier_wait(r, x, first, end, left_ns, x->region->end_ns);
    barriers++;
    int64_t ns = kb_length_ns(member->start_ns, x->region->end_ns) - waiting_ns;
    x->barriers = x->threads ? KB_MIN(x->barriers, barriers) : barriers;
    x->threads++;
    x->work_ns = ka_add_ns(x->work_ns, KB_MAX(ns, 0));
    x->longest_ns = KB_MAX(x->longest_ns, ns);
    x->waiting_ns = ka_add_ns(x->waiting_ns, waiting_ns);
}

/* However the work is divided, it takes its time on as many CPUs as there are. */
static int64_t find_most_savings(const regions *r, const run *x)
{
    int64_t ns = kb_length_ns(x->region->start_ns, x->region->end_ns);
    uint32_t at_once = r->cpus ? KB_MIN(r->cpus, x->threads) : x->threads;
    return at_once < x->threads ? KB_MAX(ns - x->work_ns / (int64_t)at_once, 0) : ns;
}

/* What the run would be shorter: for each barrier the mean of the threads' waits, less the shortest. If the
 * threads did not all come to the same number of barriers, the waits cannot be told apart by barrier. */
static int64_t find_run_savings(const regions *r, const run *x)
{
    int64_t savings_ns = 0, most_ns = find_most_savings(r, x);
    if (x->threads < 2)
        return 0;
    if (r->waits.count != (size_t)x->threads * x->barriers)
        return KB_MIN(KB_MAX(x->longest_ns - x->work_ns / x->threads, 0), most_ns);
    for (uint32_t barrier = 0; barrier < x->barriers; barrier++) {
        int64_t sum = 0, shortest = INT64_MAX;
        for (uint32_t thread = 0; thread < x->threads; thread++) {
            int64_t ns = r->waits.data[(size_t)thread * x->barriers + barrier];
            sum = ka_add_ns(sum, ns);
            shortest = KB_MIN(shortest, ns);
        }
        savings_ns = ka_add_ns(savings_ns, sum / x->threads - shortest);
    }
    return KB_MIN(savings_ns, most_ns);
}

/* Does the name have a line, "…:12)" or "…:12"? Then it tells the regions of a function from each other. */
static bool has_line(kineto_string name)
{
    size_t at = name.size && name.data[name.size - 1] == ')' ? name.size - 1 : name.size, end = at;
    while (at > 0 && name.data[at - 1] >= '0' && name.data[at - 1] <= '9')
        at--;
    return at > 0 && at < end && name.data[at - 1] == ':';
}

/* The sums of a region, added on first use; NULL: out of memory. Processes have the same code at different
 * addresses. */
static ka_openmp_region *find_region_sums(regions *r, const part *region)
{
    uint64_t about[2] = {region->name, has_line(ka_name(r->s, region->name)) ? 0 : region->code};
    bool created;
    uint64_t *index =
        kb_map_insert(&r->place_of, kb_hash(about, sizeof about), r->out->count, &created);
    ka_openmp_region fresh = {.name = region->name, .worst = region->row};
    if (!index || (created && !kb_vec_push(r->out, fresh))) {
        r->no_memory = true;
        return NULL;
    }
    return &r->out->data[*index];
}

static void add_run_sums(regions *r, const run *x)
{
    ka_openmp_region *sums = find_region_sums(r, x->region);
    int64_t savings_ns = find_run_savings(r, x);
    if (!sums)
        return;
    sums->count++;
    sums->threads = KB_MAX(sums->threads, x->threads);
    sums->ns = ka_add_ns(sums->ns, kb_length_ns(x->region->start_ns, x->region->end_ns));
    sums->mean_ns = ka_add_ns(sums->mean_ns, x->work_ns / x->threads);
    sums->longest_ns = ka_add_ns(sums->longest_ns, x->longest_ns);
    sums->waiting_ns = ka_add_ns(sums->waiting_ns, x->waiting_ns);
    sums->savings_ns = ka_add_ns(sums->savings_ns, savings_ns);
    if (savings_ns > sums->worst_ns) {
        sums->worst_ns = savings_ns;
        sums->worst = x->region->row;
    }
}

/* Adds the run with the parts [first, end). One without its region, or its threads, was not recorded as a
 * whole. */
static void add_region_run(regions *r, const part *first, const part *end)
{
    run x = {.region = first};
    if (first->kind != REGION)
        return;
    r->waits.count = 0;
    for (const part *p = first + 1; p < end && !r->no_memory;) {
        const part *thread_end = p;
        while (thread_end < end && thread_end->track == p->track)
            thread_end++;
        add_team_thread(r, &x, p, thread_end);
        p = thread_end;
    }
    if (x.threads && !r->no_memory)
        add_run_sums(r, &x);
}

/* ---- all ------------------------------------------------------------------------------------- */

kineto_string ka_openmp_place(const ka_dataset *s, uint32_t name)
{
    static const char prefix[] = "omp parallel ";
    kineto_string text = ka_name(s, name);
    size_t size = kb_string_starts_with(text, prefix) ? sizeof prefix - 1 : 0;
    return (kineto_string){text.data + size, text.size - size};
}

bool ka_openmp_regions_find(const ka_dataset *s, ka_openmp_regions *out)
{
    const ka_watched *w = ka_dataset_watched(s);
    regions r = {.s = s, .out = out, .cpus = w ? w->cpus : 0};
    r.kind_of = calloc(kineto_trace_string_count(s->trace) + 1, sizeof *r.kind_of);
    r.no_memory = !r.kind_of || !w;
    if (!r.no_memory)
        collect_region_parts(&r);
    if (r.parts.count && !r.no_memory)
        qsort(r.parts.data, r.parts.count, sizeof *r.parts.data, compare_parts);
    for (size_t first = 0, end; first < r.parts.count && !r.no_memory; first = end) {
        const part *p = r.parts.data;
        for (end = first + 1; end < r.parts.count && p[end].region == p[first].region &&
                              p[end].process == p[first].process;)
            end++;
        add_region_run(&r, p + first, p + end);
    }
    kb_vec_free(&r.parts);
    kb_vec_free(&r.waits);
    kb_map_free(&r.place_of);
    free(r.kind_of);
    return !r.no_memory;
}

kineto_status ka_analyze_openmp_regions(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_openmp_regions);
    ka_openmp_regions list = {0};
    bool ok = ka_openmp_regions_find(s, &list);
    for (size_t i = 0; ok && i < list.count; i++) {
        const ka_openmp_region *r = &list.data[i];
        ka_put_int(t, s->rank);
        ka_put_text(t, ka_openmp_place(s, r->name));
        ka_put_int(t, r->count);
        ka_put_int(t, r->threads);
        ka_put_ns(t, r->ns);
        ka_put_ns(t, r->mean_ns);
        ka_put_ns(t, r->longest_ns);
        ka_put_ns(t, r->waiting_ns);
        ka_put_number(t, ka_percent((double)(r->longest_ns - r->mean_ns), (double)r->longest_ns));
        ka_put_ns(t, r->savings_ns);
    }
    kb_vec_free(&list);
    if (!ok)
        return kb_fail_memory(err, "regions of OpenMP");
    KA_SORT(t, KA_DOWN(openmp_regions, sum_us), KA_UP(openmp_regions, region));
    if (!ka_table_rows(t))
        ka_note(t, "the trace has no parallel regions of OpenMP: record openmp, with --openmp for "
                   "programs of GCC");
    return KINETO_OK;
}

/* Which analyses run for which tables, and facts of several ranks. */
#include "analyze/facts/analyses.h"
#include "analyze/dataset/each_rank.h"

typedef struct entry {
    ka_analysis *run;
    uint64_t tables; /* bits of ka_table_id */
} entry;
_Static_assert(KA_TABLE_COUNT <= 64, "a bit for each table");

#define BIT1(a)                  (UINT64_C(1) << (a))
#define BIT2(a, b)               BIT1(a) | BIT1(b)
#define BIT3(a, b, c)            BIT2(a, b) | BIT1(c)
#define BIT4(a, b, c, d)         BIT3(a, b, c) | BIT1(d)
#define PICK(a, b, c, d, n, ...) n
#define BITS(...)                PICK(__VA_ARGS__, BIT4, BIT3, BIT2, BIT1, )(__VA_ARGS__)

static const entry entries[] = {
#define X(name, ...) {ka_analyze_##name, BITS(__VA_ARGS__)},
    KA_ANALYSES(X)
#undef X
};

typedef struct reduction {
    ka_reduction *run;
    uint64_t makes, needs;
} reduction;
static const reduction reductions[] = {
#define X(name, makes, ...) {ka_reduce_##name, BIT1(makes), BITS(__VA_ARGS__)},
    KA_REDUCTIONS(X)
#undef X
        {0}};

/* ---- what was asked for ---------------------------------------------------------------------------------- */

static bool find_table(const char *name, size_t size, ka_table_id *out)
{
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (!(ka_table_flags((ka_table_id)i) & (KA_HIDDEN | KA_DIFF)) &&
            kb_string_equal(kb_string(ka_table_name((ka_table_id)i)),
                            (kineto_string){name, size})) {
            *out = (ka_table_id)i;
            return true;
        }
    return false;
}

static void want(kineto_analysis *a, ka_table_id id)
{
    a->tables[id].wanted = a->tables[id].shown = true;
}

static kineto_status want_listed(kineto_analysis *a, const char *list, kineto_error *err)
{
    for (const char *at = list; *at;) {
        size_t size = strcspn(at, ",");
        ka_table_id id;
        if (!find_table(at, size, &id))
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "there is no table '%.*s'; 'ckineto analyze --list' has their names",
                           (int)KB_MIN(size, (size_t)80), at);
        want(a, id);
        at += size + (at[size] == ',');
    }
    return KINETO_OK;
}

/* Who names a file wants what is in it. */
static void want_named(kineto_analysis *a, const kineto_analyze_options *options)
{
    if (options->execution_trace)
        want(a, KA_TABLE_execution_trace);
    if (options->memory_timeline)
        want(a, KA_TABLE_memory_timeline);
}

static kineto_status want_tables(kineto_analysis *a, const kineto_analyze_options *options,
                                 kineto_error *err)
{
    if (options->tables) {
        kineto_status status = want_listed(a, options->tables, err);
        if (status)
            return status;
    } else {
        want_named(a, options);
    }
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++) {
        uint32_t flags = ka_table_flags((ka_table_id)i);
        if (!options->tables && !(flags & (KA_HIDDEN | KA_DIFF)) &&
            (options->series || !(flags & KA_SERIES)))
            want(a, (ka_table_id)i);
        if (a->tables[i].shown)
            a->shown[a->shown_count++] = (uint8_t)i;
    }
    return KINETO_OK;
}

static uint64_t wanted_bits(const kineto_analysis *a)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        bits |= (uint64_t)a->tables[i].wanted << i;
    return bits;
}

static void want_for_reductions(kineto_analysis *a)
{
    uint64_t bits = wanted_bits(a);
    for (const reduction *r = reductions; r->run; r++)
        if (r->makes & bits)
            for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
                a->tables[i].wanted |= r->needs >> i & 1;
}

/* ---- running ------------------------------------------------------------------------------------------------ */

typedef struct running {
    const ka_dataset *dataset;
    kineto_analysis *a;
    uint32_t next; /* entry */
    uint64_t wanted;
    kineto_status status;
    kineto_error err;
    pthread_mutex_t lock;
} running;

static void run_entry(running *r, const entry *e)
{
    kineto_error err = {0};
    kineto_status status = e->tables & r->wanted ? e->run(r->dataset, r->a, &err) : KINETO_OK;
    if (!status)
        return;
    pthread_mutex_lock(&r->lock);
    if (!r->status) {
        r->status = status;
        r->err = err;
    }
    pthread_mutex_unlock(&r->lock);
}

static void *run_all(void *context)
{
    running *r = context;
    for (uint32_t i; (i = kb_add_relaxed(&r->next, 1)) < KB_COUNT(entries);)
        run_entry(r, &entries[i]);
    return NULL;
}

#define MOST_THREADS 16u

/* Each table is filled by one analysis: how many threads run them changes nothing. */
static void run_by_threads(running *r, uint32_t asked)
{
    pthread_t threads[MOST_THREADS];
    uint32_t count = KB_MIN(asked ? asked : kb_os_cpus(), MOST_THREADS), started = 0;
    while (started + 1 < count && started + 1 < KB_COUNT(entries) &&
           kb_thread_start(&threads[started], run_all, r) == 0)
        started++;
    (void)run_all(r);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static void reduce(kineto_analysis *a)
{
    uint64_t bits = wanted_bits(a);
    for (const reduction *r = reductions; r->run; r++)
        if (r->makes & bits)
            r->run(a);
}

static kineto_status check_memory(const kineto_analysis *a, kineto_error *err)
{
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (a->tables[i].no_memory)
            return kb_fail(err, KINETO_E_MEMORY, "no memory for the facts of a trace");
    return KINETO_OK;
}

static kineto_status run(kineto_analysis *a, const ka_dataset *dataset, uint32_t threads,
                         kineto_error *err)
{
    running r = {.dataset = dataset, .a = a, .wanted = wanted_bits(a)};
    pthread_mutex_init(&r.lock, NULL);
    run_by_threads(&r, threads);
    pthread_mutex_destroy(&r.lock);
    if (r.status && err)
        *err = r.err;
    if (r.status)
        return r.status;
    reduce(a);
    return check_memory(a, err);
}

/* ---- public --------------------------------------------------------------------------------------------------- */

static kineto_status check_streams(const char *at, kineto_error *err)
{
    for (const char *list = at; at && *at;) {
        char *end;
        (void)strtoll(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "streams are numbers with commas between, as in 7,20; not '%s'", list);
        at = *end ? end + 1 : end;
    }
    return KINETO_OK;
}

kineto_status ka_options_read(const kineto_analyze_options *options, kineto_analyze_options *out,
                              kineto_error *err)
{
    *out = (kineto_analyze_options){.size = sizeof *out};
    kineto_status status =
        kb_options_read(out, sizeof *out, options, "kineto_analyze_options", err);
    if (status)
        return status;
    if (out->definitions >= ka_definitions_count || out->steps > KINETO_STEPS_RANGE)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "kineto_analyze_options: definitions %u or steps %u are no choice",
                       out->definitions, out->steps);
    return KINETO_OK;
}

kineto_status ka_options_complete(const kineto_analyze_options *options,
                                  kineto_analyze_options *out, kineto_error *err)
{
    kineto_status status = ka_options_read(options, out, err);
    if (status)
        return status;
    out->sequence_min = out->sequence_min ? out->sequence_min : 3;
    out->sequence_top = out->sequence_top ? out->sequence_top : 5;
    if (out->steps == KINETO_STEPS_USUAL)
        out->steps = ka_definitions_of(out->definitions)->usual_steps;
    return KINETO_OK;
}

kineto_status ka_measure(const kineto_trace *trace, const kineto_analyze_options *options,
                         ka_measured *m, kineto_error *err)
{
    *m = (ka_measured){0};
    if (!trace)
        return kb_fail(err, KINETO_E_ARGUMENT, "no trace to analyze");
    kineto_status status = ka_options_complete(options, &m->options, err);
    if (!status)
        status = ka_facts_create(&m->facts, err);
    if (!status)
        status = check_streams(m->options.streams, err);
    if (!status)
        status = want_tables(m->facts, &m->options, err);
    if (!status)
        status = ka_rules_create(m->options.rules, &m->rules, err);
    if (!status)
        status = ka_dataset_create(trace, &m->options, m->rules, &m->dataset, err);
    if (status)
        return status;
    m->facts->definitions = m->options.definitions;
    m->facts->sequence_top = m->options.sequence_top;
    want_for_reductions(m->facts);
    m->dataset.view_parts = ka_view_parts(m->facts);
    if (!ka_streams_missing(trace, m->options.streams, m->dataset.rank, m->facts->no_streams,
                            sizeof m->facts->no_streams) ||
        !kb_vec_push(&m->facts->seen, ((ka_seen){m->dataset.rank, m->dataset.work_count > 0})))
        return kb_fail(err, KINETO_E_MEMORY, "no memory for the facts of a trace");
    return run(m->facts, &m->dataset, m->options.threads, err);
}

void ka_measured_free(ka_measured *m)
{
    ka_dataset_free(&m->dataset);
    ka_rules_free(m->rules);
    kineto_analysis_release(m->facts);
    *m = (ka_measured){0};
}

static kineto_status analyze_rank(const kineto_trace *trace, const kineto_analyze_options *options,
                                  kineto_analysis **out, kineto_error *err)
{
    ka_measured m;
    kineto_status status = ka_measure(trace, options, &m, err);
    *out = status ? NULL : m.facts;
    if (!status)
        m.facts = NULL;
    ka_measured_free(&m);
    return status;
}

void ka_facts_defer(kineto_analysis *a) { a->deferred = true; }

kineto_status ka_facts_complete(kineto_analysis *a, kineto_error *err)
{
    if (a->deferred)
        reduce(a);
    a->deferred = false;
    return check_memory(a, err);
}

typedef struct adding {
    kineto_analyze_options options;
    kineto_analysis *sum;
} adding;

static kineto_status add_rank(void *context, const kineto_trace *part, int32_t rank,
                              const kineto_row *rows, kineto_error *err)
{
    adding *a = context;
    kineto_analysis *facts;
    (void)rows;
    a->options.rank = &rank;
    kineto_status status = analyze_rank(part, &a->options, &facts, err);
    a->options.rank = NULL;
    if (status)
        return status;
    if (!a->sum) {
        ka_facts_defer(facts);
        a->sum = facts;
        return KINETO_OK;
    }
    status = kineto_analysis_add(a->sum, facts, err);
    kineto_analysis_release(facts);
    return status;
}

void ka_note_without_rank(kineto_analysis *a, uint64_t without)
{
    static const ka_table_id of_hosts[] = {KA_TABLE_operators, KA_TABLE_annotations,
                                           KA_TABLE_steps, KA_TABLE_memory};
    for (size_t i = 0; without && i < KB_COUNT(of_hosts); i++)
        if (a->tables[of_hosts[i]].wanted)
            ka_note_also(&a->tables[of_hosts[i]],
                         "%llu activities of processes without a rank are left out",
                         (unsigned long long)without);
}

static kineto_status analyze_ranks(const kineto_trace *trace,
                                   const kineto_analyze_options *options, kineto_analysis **out,
                                   kineto_error *err)
{
    adding a = {.options = *options};
    uint64_t without;
    kineto_status status = ka_visit_ranks(trace, add_rank, &a, &without, err);
    if (!status && !a.sum) /* no rank has an activity */
        return analyze_rank(trace, options, out, err);
    if (!status)
        status = ka_facts_complete(a.sum, err);
    if (!status)
        ka_note_without_rank(a.sum, without);
    else
        kineto_analysis_release(a.sum);
    *out = status ? NULL : a.sum;
    return status;
}

kineto_status kineto_analyze(const kineto_trace *trace, const kineto_analyze_options *options,
                             kineto_analysis **out, kineto_error *err)
{
    kineto_analyze_options o;
    if (!out)
        return kb_fail(err, KINETO_E_ARGUMENT, "a place for the facts of a trace is needed");
    *out = NULL;
    kineto_status status = ka_options_read(options, &o, err);
    if (status)
        return status;
    bool of_one = o.execution_trace || o.memory_timeline;
    return trace && !of_one && ka_has_ranks(trace) ? analyze_ranks(trace, &o, out, err)
                                                   : analyze_rank(trace, &o, out, err);
}

kineto_status kineto_analysis_add(kineto_analysis *to, const kineto_analysis *from,
                                  kineto_error *err)
{
    if (to && to == from)
        return kb_fail(err, KINETO_E_ARGUMENT, "facts cannot be added to themselves");
    if (!to || !from || to->definitions != from->definitions ||
        wanted_bits(to) != wanted_bits(from))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "facts can only be added to facts with the same tables and definitions");
    uint64_t made = 0;
    for (const reduction *r = reductions; r->run; r++)
        made |= r->makes;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (to->tables[i].wanted && !(made >> i & 1))
            ka_table_add(&to->tables[i], &from->tables[i]);
    for (size_t i = 0; i < from->seen.count; i++)
        if (!kb_vec_push(&to->seen, from->seen.data[i]))
            return kb_fail(err, KINETO_E_MEMORY, "no memory for the facts of a trace");
    if (!to->deferred)
        reduce(to);
    return check_memory(to, err);
}

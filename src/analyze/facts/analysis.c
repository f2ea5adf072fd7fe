/* Runs the analyses that fill the wanted tables, and merges the facts of several ranks. tables.def
 * says which analysis or reduction makes each table. */
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/dataset/each_rank.h"

/** What makes a table: one of both, or neither (tables of two traces). */
typedef struct table_maker {
    ka_analysis *analyze;
    ka_reduction *reduce;
    ka_table_set source; /* tables that `reduce` reads */
} table_maker;

static const table_maker makers[KA_TABLE_COUNT] = {
#define ANALYSIS(name)          {.analyze = ka_analyze_##name}
#define REDUCTION(name, from)                                                                      \
    {.reduce = ka_reduce_##name, .source = KA_TABLE_BIT(KA_TABLE_##from)}
#define DIFF                    {0}
#define TABLE(id, made_by, ...) [KA_TABLE_##id] = made_by,
#include "analyze/tables/tables.def"
#undef ANALYSIS
#undef REDUCTION
#undef DIFF
};

/* ---- creation -------------------------------------------------------------------------------- */

kineto_status ka_facts_create(kineto_analysis **out, kineto_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kb_fail_memory(err, NULL);
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++) {
        ka_table *t = &(*out)->tables[i];
        t->id = (ka_table_id)i;
        const ka_table_spec *spec = ka_table_spec_of(t->id);
        t->column_count = spec->column_count;
        t->columns = spec->columns;
        t->no_streams = (*out)->no_streams;
    }
    return KINETO_OK;
}

void kineto_analysis_destroy(kineto_analysis *a)
{
    for (uint32_t i = 0; a && i < KA_TABLE_COUNT; i++) {
        kb_vec_free(&a->tables[i].cells);
        kb_vec_free(&a->tables[i].shifts);
        kb_intern_free(&a->tables[i].texts);
    }
    if (!a)
        return;
    kb_vec_free(&a->seen);
    ka_rank_set_destroy(a->ranks);
    free(a);
}

/* ---- wanted tables --------------------------------------------------------------------------- */

/* Hidden tables are the input of reductions, and KA_DIFF tables need two traces: neither can
 * be requested by name. */
static bool is_public_table(ka_table_id id)
{
    return !(ka_table_flags(id) & (KA_HIDDEN | KA_DIFF));
}

/* `name` has `size` bytes and no terminator: it is a part of a list of names. */
static bool find_table(const char *name, size_t size, ka_table_id *out)
{
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (is_public_table((ka_table_id)i) &&
            kb_string_equal(kb_string(ka_table_name((ka_table_id)i)),
                            (kineto_string){name, size})) {
            *out = (ka_table_id)i;
            return true;
        }
    return false;
}

/* Tables of a list of names with commas between, as users write it. */
static kineto_status parse_tables(const char *list, ka_table_set *set, kineto_error *err)
{
    for (const char *at = list; *at;) {
        size_t size = strcspn(at, ",");
        ka_table_id id;
        if (!find_table(at, size, &id))
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "unknown table '%.*s'; 'ckineto analyze --list' lists the tables",
                           (int)KB_MIN(size, (size_t)80), at);
        *set |= KA_TABLE_BIT(id);
        at += size + (at[size] == ',');
    }
    return KINETO_OK;
}

/* Without a choice: all tables but those with a row for each event, unless these are requested, or
 * the file that they are made of is named. */
static ka_table_set default_tables(const kineto_analysis_options *options)
{
    ka_table_set set = ~ka_tables_with(KA_HIDDEN | KA_DIFF);
    if (!options->series)
        set &= ~ka_tables_with(KA_PER_EVENT);
    if (options->execution_trace)
        set |= KA_TABLE_BIT(KA_TABLE_execution_trace);
    if (options->memory_timeline)
        set |= KA_TABLE_BIT(KA_TABLE_memory_timeline);
    return set;
}

/* @param set  chosen by the caller in addition to options->tables; may be empty. */
static kineto_status want_tables(kineto_analysis *a, const kineto_analysis_options *options,
                                 ka_table_set set, kineto_error *err)
{
    if (options->tables) {
        kineto_status status = parse_tables(options->tables, &set, err);
        if (status)
            return status;
    } else if (!set) {
        set = default_tables(options);
    }
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++) {
        a->tables[i].wanted = set >> i & 1;
        a->tables[i].shown = a->tables[i].wanted && is_public_table((ka_table_id)i);
        if (a->tables[i].shown)
            a->shown[a->shown_count++] = (uint8_t)i;
    }
    return KINETO_OK;
}

/* The set as bits by ka_table_id: kineto_analysis_add compares two of them at once. */
ka_table_set ka_wanted_tables(const kineto_analysis *a)
{
    ka_table_set set = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        set |= (ka_table_set)a->tables[i].wanted << i;
    return set;
}

/* Reductions read tables that were perhaps not requested. */
static void want_sources(kineto_analysis *a)
{
    ka_table_set sources = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        sources |= a->tables[i].wanted ? makers[i].source : 0;
    if (a->tables[KA_TABLE_stragglers].wanted && ka_definitions_of(a->definitions)->score_stragglers)
        sources |= KA_TABLE_BIT(KA_TABLE_straggler_marks); /* which these definitions score in place of rank facts */
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        a->tables[i].wanted |= sources >> i & 1;
}

ka_table_set ka_reduced_tables(void)
{
    ka_table_set set = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        set |= makers[i].reduce ? KA_TABLE_BIT(i) : 0;
    return set;
}

ka_table_set ka_reducible_tables(ka_table_set of)
{
    ka_table_set set = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        set |= makers[i].reduce && !(makers[i].source & ~of) ? KA_TABLE_BIT(i) : 0;
    return set;
}

kineto_status ka_facts_create_for(const kineto_analysis_options *options, ka_table_set tables, kineto_analysis **out,
                                  kineto_error *err)
{
    kineto_analysis_options o;
    kineto_analysis *a = NULL;
    *out = NULL;
    kineto_status status = ka_options_complete(options, &o, err);
    if (!status)
        status = ka_facts_create(&a, err);
    if (!status)
        status = want_tables(a, &o, tables, err);
    if (status) {
        kineto_analysis_destroy(a);
        return status;
    }
    a->definitions = o.definitions;
    a->sequence_top = o.sequence_top;
    want_sources(a);
    *out = a;
    return KINETO_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* One pass over the wanted analyses of a dataset. `list` and `count` do not change once
 * threads run; the threads share only `next` and, with the lock held, the first failure. */
typedef struct analysis_run {
    const ka_dataset *dataset;
    kineto_analysis *a;
    ka_analysis *list[KA_TABLE_COUNT]; /* each analysis once */
    uint32_t count;
    uint32_t next; /* index in `list`, claimed by threads with an atomic addition */
    kineto_status status; /* of the first failure; written with `lock` */
    kineto_error err;
    pthread_mutex_t lock;
} analysis_run;

static void list_analysis(analysis_run *r, ka_analysis *analyze)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->list[i] == analyze)
            return;
    KB_ASSERT(r->count < KA_TABLE_COUNT);
    r->list[r->count++] = analyze;
}

/* The analyses of wanted tables. Those that need the most memory run before the others have
 * allocated theirs. */
static void list_analyses(analysis_run *r)
{
    for (int runs_first = 1; runs_first >= 0; runs_first--)
        for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
            if (makers[i].analyze && r->a->tables[i].wanted &&
                (!runs_first || ka_table_flags((ka_table_id)i) & KA_RUN_FIRST))
                list_analysis(r, makers[i].analyze);
}

/* Runs on any thread. Only the first failure is kept; the other analyses run on, because
 * nothing can interrupt them. */
static void run_analysis(analysis_run *r, ka_analysis *analyze)
{
    kineto_error err = {0};
    kineto_status status = analyze(r->dataset, r->a, &err);
    if (!status)
        return;
    pthread_mutex_lock(&r->lock);
    if (!r->status) {
        r->status = status;
        r->err = err;
    }
    pthread_mutex_unlock(&r->lock);
}

/* Thread function: claims analyses until the list is exhausted. Relaxed order is enough, as
 * the threads exchange nothing but the index before they are joined. */
static void *run_listed(void *context)
{
    analysis_run *r = context;
    for (uint32_t i; (i = kb_add_relaxed(&r->next, 1)) < r->count;)
        run_analysis(r, r->list[i]);
    return NULL;
}

/* More threads than this find no work: few analyses take long, and each of them is one unit of
 * work. */
#define MAX_THREADS 16u

/* Each table is filled by one analysis: the number of threads does not change the facts. */
static void run_on_threads(analysis_run *r, uint32_t requested)
{
    pthread_t threads[MAX_THREADS];
    uint32_t count = KB_MIN(requested ? requested : kb_os_cpus(), MAX_THREADS), started = 0;
    while (started + 1 < count && started + 1 < r->count &&
           kb_thread_start(&threads[started], run_listed, r) == 0)
        started++;
    (void)run_listed(r);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static void reduce_ranks(kineto_analysis *a)
{
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (makers[i].reduce && a->tables[i].wanted) {
            KB_ASSERT((makers[i].source & ~ka_wanted_tables(a)) == 0);
            makers[i].reduce(a);
        }
}

static kineto_status check_memory(const kineto_analysis *a, kineto_error *err)
{
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (a->tables[i].no_memory)
            return kb_fail_memory(err, "facts of a trace");
    return KINETO_OK;
}

/* Runs all wanted analyses on `threads` threads (0: one for each processor), then the
 * reductions, which read complete tables. A table that ran out of memory is reported at the
 * end. */
static kineto_status fill_tables(kineto_analysis *a, const ka_dataset *dataset, uint32_t threads,
                                 kineto_error *err)
{
    analysis_run r = {.dataset = dataset, .a = a};
    list_analyses(&r);
    pthread_mutex_init(&r.lock, NULL);
    run_on_threads(&r, threads);
    pthread_mutex_destroy(&r.lock);
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++) /* analyses write complete rows */
        KB_ASSERT(r.status || a->tables[i].no_memory || a->tables[i].at == 0);
    if (r.status && err)
        *err = r.err;
    if (r.status)
        return r.status;
    reduce_ranks(a);
    return check_memory(a, err);
}

/* ---- public ---------------------------------------------------------------------------------- */

/* `at` is a list of stream ids with commas between, or NULL for all streams; ids may be
 * negative. */
static kineto_status check_streams(const char *at, kineto_error *err)
{
    for (const char *list = at; at && *at;) {
        char *end;
        (void)strtoll(at, &end, 10);
        if (end == at || (*end && *end != ','))
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "streams: a list of numbers is expected, as in 7,20; not '%s'", list);
        at = *end ? end + 1 : end;
    }
    return KINETO_OK;
}

kineto_status ka_options_read(const kineto_analysis_options *options, kineto_analysis_options *out,
                              kineto_error *err)
{
    *out = (kineto_analysis_options){.size = sizeof *out};
    kineto_status status =
        kb_options_read(out, sizeof *out, options, "kineto_analysis_options", err);
    if (status)
        return status;
    if (out->definitions >= ka_definitions_count || out->steps > KINETO_STEPS_RANGE)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "kineto_analysis_options: definitions %u or steps %u is out of range",
                       out->definitions, out->steps);
    return KINETO_OK;
}

kineto_status ka_options_complete(const kineto_analysis_options *options,
                                  kineto_analysis_options *out, kineto_error *err)
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

kineto_status ka_measure(const kineto_trace *trace, const kineto_analysis_options *options,
                         ka_measured *m, kineto_error *err)
{
    return ka_measure_tables(trace, options, 0, m, err);
}

static int64_t find_begin(const kineto_trace *trace)
{
    int64_t start_ns, end_ns;
    kineto_trace_window(trace, &start_ns, &end_ns);
    return start_ns;
}

kineto_status ka_measure_tables(const kineto_trace *trace, const kineto_analysis_options *options,
                                ka_table_set tables, ka_measured *m, kineto_error *err)
{
    *m = (ka_measured){0};
    kineto_status status = ka_options_complete(options, &m->options, err);
    if (!status)
        status = ka_facts_create(&m->facts, err);
    if (!status)
        status = check_streams(m->options.streams, err);
    if (!status)
        status = want_tables(m->facts, &m->options, tables, err);
    if (!status)
        status = ka_rules_create(m->options.rules, &m->rules, err);
    if (!status)
        status = ka_dataset_create(trace, &m->options, m->rules, &m->dataset, err);
    if (status)
        return status;
    m->facts->definitions = m->options.definitions;
    m->facts->sequence_top = m->options.sequence_top;
    want_sources(m->facts);
    m->dataset.attribution_parts = ka_attribution_parts(m->facts);
    if (!ka_streams_missing(trace, m->options.streams, m->dataset.rank, m->facts->no_streams,
                            sizeof m->facts->no_streams) ||
        !kb_vec_push(&m->facts->seen, ((ka_seen){m->dataset.rank, find_begin(trace), m->dataset.work_count > 0})))
        return kb_fail_memory(err, "facts of a trace");
    return fill_tables(m->facts, &m->dataset, m->options.threads, err);
}

void ka_measured_free(ka_measured *m)
{
    ka_dataset_free(&m->dataset);
    ka_rules_free(m->rules);
    kineto_analysis_destroy(m->facts);
    *m = (ka_measured){0};
}

/* Facts of a trace that is taken as one rank. The dataset is freed with everything else; only
 * the facts pass to the caller, in *out (NULL on failure). */
static kineto_status analyze_rank(const kineto_trace *trace, const kineto_analysis_options *options,
                                  ka_table_set tables, kineto_analysis **out, kineto_error *err)
{
    ka_measured m;
    kineto_status status = ka_measure_tables(trace, options, tables, &m, err);
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
        reduce_ranks(a);
    a->deferred = false;
    return check_memory(a, err);
}

/* The facts of the ranks that were visited so far. `sum` is NULL before the first rank, whose
 * facts become the sum. */
typedef struct rank_sum {
    kineto_analysis_options options;
    ka_table_set tables;
    kineto_analysis *sum;
} rank_sum;

/* Visitor of ka_visit_ranks. `part` is the trace of one rank, and lives only for this call:
 * facts copy the texts that they keep. Reductions are deferred until all ranks are added. */
static kineto_status add_rank_facts(void *context, const kineto_trace *part, int32_t rank,
                                    const kineto_row *rows, kineto_error *err)
{
    rank_sum *a = context;
    kineto_analysis *facts;
    (void)rows;
    a->options.rank = &rank;
    kineto_status status = analyze_rank(part, &a->options, a->tables, &facts, err);
    a->options.rank = NULL;
    if (status)
        return status;
    if (!a->sum) {
        ka_facts_defer(facts);
        a->sum = facts;
        return KINETO_OK;
    }
    status = kineto_analysis_add(a->sum, facts, err);
    kineto_analysis_destroy(facts);
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

/* One trace with several ranks: each rank is analysed alone, as if its trace had been given by
 * itself, and the facts are added. *out is NULL on failure. */
static kineto_status analyze_ranks(const kineto_trace *trace, const kineto_analysis_options *options,
                                   ka_table_set tables, kineto_analysis **out, kineto_error *err)
{
    rank_sum a = {.options = *options, .tables = tables};
    uint64_t without;
    kineto_status status = ka_visit_ranks(trace, add_rank_facts, &a, &without, err);
    if (!status && !a.sum) /* no rank has an activity */
        return analyze_rank(trace, options, tables, out, err);
    if (!status)
        status = ka_facts_complete(a.sum, err);
    if (!status)
        ka_note_without_rank(a.sum, without);
    else
        kineto_analysis_destroy(a.sum);
    *out = status ? NULL : a.sum;
    return status;
}

kineto_status kineto_analysis_run(const kineto_trace *trace, const kineto_analysis_options *options,
                             kineto_analysis **out, kineto_error *err)
{
    return ka_analyze_tables(trace, options, 0, out, err);
}

kineto_status ka_analyze_tables(const kineto_trace *trace, const kineto_analysis_options *options,
                                ka_table_set tables, kineto_analysis **out, kineto_error *err)
{
    kineto_analysis_options o;
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, "kineto_analysis_run", "trace, out", trace, out);
    kineto_status status = ka_options_read(options, &o, err);
    if (status)
        return status;
    bool of_one = o.execution_trace || o.memory_timeline;
    return !of_one && ka_has_ranks(trace) ? analyze_ranks(trace, &o, tables, out, err)
                                                   : analyze_rank(trace, &o, tables, out, err);
}

kineto_status kineto_analysis_add(kineto_analysis *to, const kineto_analysis *from,
                                  kineto_error *err)
{
    if (!to || !from)
        return kb_fail_null(err, __func__, "to, from", to, from);
    if (to == from)
        return kb_fail(err, KINETO_E_ARGUMENT, "facts cannot be added to themselves");
    if (to->definitions != from->definitions ||
        ka_wanted_tables(to) != ka_wanted_tables(from))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "facts can only be added to facts with the same tables and definitions");
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (to->tables[i].wanted && !makers[i].reduce)
            ka_table_add(&to->tables[i], &from->tables[i]);
    for (size_t i = 0; i < from->seen.count; i++)
        if (!kb_vec_push(&to->seen, from->seen.data[i]))
            return kb_fail_memory(err, "facts of a trace");
    if (!ka_rank_set_add(&to->ranks, from->ranks))
        return kb_fail_memory(err, "facts of a trace");
    if (!to->deferred)
        reduce_ranks(to);
    return check_memory(to, err);
}

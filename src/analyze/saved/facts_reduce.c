/* All facts of a run: traces of several files in one order, each once, and the file that they are joined to.
 *
 * The order, and which of two facts of one trace stays, depend on the facts only. So joining is associative: parts may
 * be joined first, in any order and tree, with the same bytes as a result. */
#include "analyze/saved/facts_file.h"
#include "analyze/saved/analysis_section.h"
#include "analyze/saved/facts_read.h"
#include "analyze/ranks/rank_set.h"
#include "trace/files/identity.h"

typedef struct set_entry {
    ka_facts_entry at; /* without a file: see `damage` */
    const ka_facts_source *source;
    const ka_facts_damage *damage; /* of a facts file that is damaged: it counts as a trace that could not be read */
    uint32_t digest; /* computed where two have the same source */
    bool has_error;
} set_entry;

struct kineto_facts {
    KB_VEC(ka_facts_file *) files;
    KB_VEC(ka_facts_damage *) damaged;
    KB_VEC(set_entry) entries;
    uint64_t memory_bytes; /* ka_facts_set_limit_memory */
    ka_row_reader *reader; /* of rows that stay in the files */
};

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_source_texts(kineto_string a, kineto_string b)
{
    int order = memcmp(a.data, b.data, KB_MIN(a.size, b.size));
    return order ? order : KB_COMPARE(a.size, b.size);
}

/* Later is better: of a newer file; that could be read; then by anything that differs. */
static int compare_quality(const set_entry *a, const set_entry *b)
{
    if (a->source->modified_ns != b->source->modified_ns)
        return KB_COMPARE(a->source->modified_ns, b->source->modified_ns);
    if (a->has_error != b->has_error)
        return a->has_error ? -1 : 1;
    return KB_COMPARE(a->digest, b->digest);
}

/* By path and rank, the best one last. A file that cannot be read may have lost its rank: it comes before the others. */
static int compare_sources(const void *left, const void *right)
{
    const set_entry *a = left, *b = right;
    int order = compare_source_texts(a->source->path, b->source->path);
    if (order)
        return order;
    if (a->has_error != b->has_error)
        return a->has_error ? -1 : 1;
    if (!a->has_error && a->source->rank != b->source->rank)
        return KB_COMPARE(a->source->rank, b->source->rank);
    return compare_quality(a, b);
}

/* By rank, those without one last; then by time. */
static int compare_places(const void *left, const void *right)
{
    const set_entry *a = left, *b = right;
    uint64_t rank_a = (uint64_t)a->source->rank, rank_b = (uint64_t)b->source->rank;
    if (rank_a != rank_b)
        return KB_COMPARE(rank_a, rank_b);
    if (a->source->start_ns != b->source->start_ns)
        return KB_COMPARE(a->source->start_ns, b->source->start_ns);
    int order = compare_source_texts(a->source->path, b->source->path);
    return order ? order : KB_COMPARE(a->digest, b->digest);
}

/* ---- each once ------------------------------------------------------------------------------- */

static bool is_same_path(const set_entry *a, const set_entry *b)
{
    return kb_string_equal(a->source->path, b->source->path);
}

/* Of one path, from `first` to `end`: the best of each rank, and an error if the file was changed after all of these. */
static void drop_repeated(ka_facts_set *s, size_t first, size_t end, size_t *kept)
{
    set_entry *list = s->entries.data;
    int64_t newest_ns = INT64_MIN;
    bool any = false;
    for (size_t i = first; i < end; i++)
        if (!list[i].has_error) {
            newest_ns = KB_MAX(newest_ns, list[i].source->modified_ns);
            any = true;
        }
    for (size_t i = first; i < end; i++) {
        bool is_last_of_kind = i + 1 == end || list[i + 1].has_error != list[i].has_error ||
                               (!list[i].has_error && list[i + 1].source->rank != list[i].source->rank);
        bool is_old_error = list[i].has_error && any && list[i].source->modified_ns <= newest_ns;
        if (is_last_of_kind && !is_old_error)
            list[(*kept)++] = list[i];
    }
}

static kineto_status digest_entry(set_entry *e, kineto_error *err)
{
    if (e->damage) {
        e->digest = ka_crc32c(0, e->damage->why.message, strlen(e->damage->why.message));
        return KINETO_OK;
    }
    kineto_status status = ka_facts_file_digest(e->at.file, e->at.trace, &e->digest, err);
    ka_facts_file_rest(e->at.file);
    return status;
}

static kineto_status order_entries(ka_facts_set *s, kineto_error *err)
{
    size_t kept = 0;
    set_entry *list = s->entries.data;
    size_t count = s->entries.count;
    kineto_status status = KINETO_OK;
    if (count)
        qsort(list, count, sizeof *list, compare_sources);
    for (size_t i = 0; i < count && !status; i++) { /* only where it decides */
        bool is_repeated = (i && is_same_path(&list[i - 1], &list[i])) ||
                           (i + 1 < count && is_same_path(&list[i], &list[i + 1]));
        if (is_repeated) {
            status = digest_entry(&list[i], err);
        }
    }
    if (count)
        qsort(list, count, sizeof *list, compare_sources);
    for (size_t i = 0, end; i < count && !status; i = end) {
        for (end = i + 1; end < count && is_same_path(&list[i], &list[end]);)
            end++;
        drop_repeated(s, i, end, &kept);
    }
    s->entries.count = kept;
    if (kept)
        qsort(list, kept, sizeof *list, compare_places);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Files of one trace are small: their checksums are compared here, so that damage is a row and not the end. */
static kineto_status open_checked(const char *path, ka_facts_file **out, kineto_error *err)
{
    kineto_status status = ka_facts_file_open(path, out, err);
    if (!status && !ka_facts_file_is_run(*out))
        status = ka_facts_file_check(*out, err);
    if (status && *out)
        ka_facts_file_close(*out);
    return status;
}

/* The path in the reason is the absolute one, so that the reason is the same wherever the file is opened. */
static ka_facts_damage *describe_damage(const char *path, kineto_error *why)
{
    ka_facts_file *f;
    ka_facts_damage *damage = ka_facts_damage_create(path);
    kineto_error again = *why;
    if (!damage)
        return NULL;
    if (open_checked(damage->source.path.data, &f, &again) == KINETO_OK) { /* it was replaced just now */
        ka_facts_file_close(f);
        again = *why;
    }
    damage->why = again;
    return damage;
}

/* A damaged file is an entry, under its own name, so that it is not forgotten when the set is saved. */
static kineto_status add_damaged(ka_facts_set *s, ka_facts_damage *damage, kineto_error *err)
{
    set_entry e = {.source = &damage->source, .damage = damage, .has_error = true};
    if (!kb_vec_push(&s->damaged, damage)) {
        ka_facts_damage_destroy(damage);
        return kb_fail_memory(err, NULL);
    }
    return kb_vec_push(&s->entries, e) ? KINETO_OK : kb_fail_memory(err, NULL);
}

static kineto_status add_file(ka_facts_set *s, const char *path, kineto_error *err)
{
    ka_facts_file *f = NULL;
    ka_facts_damage *damage;
    kineto_error why = {.message = ""};
    kineto_status status = open_checked(path, &f, &why);
    if (status && status != KINETO_E_MEMORY && (damage = describe_damage(path, &why)) != NULL)
        return add_damaged(s, damage, err);
    if (status)
        return kb_fail_memory(err, path);
    if (!kb_vec_push(&s->files, f)) {
        ka_facts_file_close(f);
        return kb_fail_memory(err, path);
    }
    for (uint32_t i = 0; i < ka_facts_file_trace_count(f); i++) {
        set_entry e = {.at = {f, i}, .source = ka_facts_file_source(f, i), .has_error = ka_facts_file_has_error(f, i)};
        if (!kb_vec_push(&s->entries, e))
            return kb_fail_memory(err, path);
    }
    ka_facts_file_rest(f);
    return KINETO_OK;
}

kineto_status ka_facts_set_open(const char *const *paths, size_t count, ka_facts_set **out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return kb_fail_memory(err, NULL);
    (*out)->reader = ka_row_reader_create();
    status = (*out)->reader ? KINETO_OK : kb_fail_memory(err, NULL);
    for (size_t i = 0; i < count && !status; i++)
        status = add_file(*out, paths[i], err);
    if (!status)
        status = order_entries(*out, err);
    if (status) {
        ka_facts_set_destroy(*out);
        *out = NULL;
    }
    return status;
}

void ka_facts_set_destroy(ka_facts_set *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->files.count; i++)
        ka_facts_file_close(s->files.data[i]);
    ka_row_reader_destroy(s->reader);
    kb_vec_free(&s->files);
    for (size_t i = 0; i < s->damaged.count; i++)
        ka_facts_damage_destroy(s->damaged.data[i]);
    kb_vec_free(&s->damaged);
    kb_vec_free(&s->entries);
    free(s);
}

uint32_t ka_facts_set_count(const ka_facts_set *s) { return (uint32_t)s->entries.count; }
const ka_facts_source *ka_facts_set_source(const ka_facts_set *s, uint32_t index) { return s->entries.data[index].source; }

int64_t ka_facts_set_start_ns(const ka_facts_set *s)
{
    int64_t start_ns = INT64_MAX;
    for (size_t i = 0; i < s->entries.count; i++)
        if (!s->entries.data[i].has_error)
            start_ns = KB_MIN(start_ns, s->entries.data[i].source->start_ns);
    return start_ns == INT64_MAX ? 0 : start_ns;
}

kineto_status ka_facts_set_error(const ka_facts_set *s, uint32_t index, kineto_error *message)
{
    const set_entry *e = &s->entries.data[index];
    if (e->damage) {
        *message = e->damage->why;
        return message->code;
    }
    kineto_status status = e->has_error ? ka_facts_file_error(e->at.file, e->at.trace, message) : KINETO_OK;
    ka_facts_file_rest(e->at.file);
    return status;
}

kineto_status ka_facts_set_health(const ka_facts_set *s, uint32_t index, ka_trace_health *out, kineto_error *err)
{
    const set_entry *e = &s->entries.data[index];
    kineto_status status = ka_facts_file_health(e->at.file, e->at.trace, out, err);
    ka_facts_file_rest(e->at.file);
    return status;
}

uint32_t ka_facts_set_readable(const ka_facts_set *s)
{
    uint32_t count = 0;
    for (size_t i = 0; i < s->entries.count; i++)
        count += !s->entries.data[i].has_error;
    return count;
}

/* ---- what all have --------------------------------------------------------------------------- */

kineto_status ka_facts_set_coverage(const ka_facts_set *s, const kineto_survey *survey, ka_coverage *to,
                                    kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        ka_trace_health one;
        if (e->has_error)
            continue;
        status = ka_facts_file_health(e->at.file, e->at.trace, &one, err);
        if (!status && !ka_coverage_merge(to, &one.coverage))
            status = kb_fail_memory(err, NULL);
        ka_trace_health_free(&one);
        ka_facts_file_rest(e->at.file);
    }
    if (!status && !ka_coverage_add_bad_files(to, survey))
        status = kb_fail_memory(err, NULL);
    return status;
}

/* How far the activity reaches, as it was measured; of a trace without that, its whole length. */
static kt_measured_reach read_reach(const set_entry *e)
{
    ka_trace_health health;
    int64_t length_ns = kb_length_ns(e->source->start_ns, e->source->end_ns);
    kt_measured_reach reach = {.host_ns = length_ns, .device_ns = length_ns};
    if (ka_facts_file_health(e->at.file, e->at.trace, &health, NULL) == KINETO_OK && health.coverage.traces.count) {
        const ka_covered_trace *t = &health.coverage.traces.data[0];
        reach = (kt_measured_reach){.host_ns = t->host_ns, .device_ns = t->device_ns, .is_dump = t->is_dump};
    }
    ka_trace_health_free(&health);
    ka_facts_file_rest(e->at.file);
    return reach;
}

static bool survey_entry(const set_entry *e, kineto_survey *to)
{
    kineto_error why = {.message = ""};
    kineto_identity identity;
    const ka_facts_source *s = e->source;
    ka_source_identity(s, &identity);
    if (e->damage)
        return kt_survey_add(to, s->path.data, NULL, &identity, &e->damage->why);
    if (e->has_error) {
        (void)ka_facts_file_error(e->at.file, e->at.trace, &why);
        ka_facts_file_rest(e->at.file);
        return kt_survey_add(to, s->path.data, NULL, &identity, &why);
    }
    const kineto_survey_file numbers = {.path = s->path.data,
                                        .activities = s->activities,
                                        .lost = s->lost,
                                        .window_start_ns = s->start_ns,
                                        .window_end_ns = s->end_ns,
                                        .text_bytes = s->text_bytes,
                                        .is_cut = s->is_cut};
    const kt_measured_reach reach = read_reach(e);
    return kt_survey_add_measured(to, &numbers, &identity, s->fingerprint, &reach);
}

kineto_status ka_facts_set_survey(const ka_facts_set *s, kineto_survey **out, kineto_error *err)
{
    bool ok = (*out = kt_survey_create()) != NULL;
    for (size_t i = 0; i < s->entries.count && ok; i++)
        ok = survey_entry(&s->entries.data[i], *out);
    if (ok && kt_survey_settle(*out, NULL, s->entries.count > 1))
        return KINETO_OK;
    kineto_survey_destroy(*out);
    *out = NULL;
    return kb_fail_memory(err, NULL);
}

kineto_status ka_facts_set_tables(const ka_facts_set *s, ka_table_set *out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    bool any = false;
    *out = ~(ka_table_set)0;
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        ka_table_set of_one;
        if (e->has_error)
            continue;
        status = ka_facts_file_tables(e->at.file, e->at.trace, &of_one, err);
        ka_facts_file_rest(e->at.file);
        *out &= of_one;
        any = true;
    }
    *out = any ? *out : 0;
    return status;
}

void ka_facts_set_limit_memory(ka_facts_set *s, uint64_t bytes)
{
    const uint64_t MIN_BYTES = UINT64_C(16) << 20; /* heads of ranks and buffers take this much, whatever is allowed */
    s->memory_bytes = bytes ? KB_MAX(bytes, MIN_BYTES) : 0;
}

static kineto_status count_rows(const ka_facts_set *s, uint64_t *rows, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *rows = 0;
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        uint64_t of_one;
        if (e->has_error)
            continue;
        status = ka_facts_file_row_count(e->at.file, e->at.trace, &of_one, err);
        ka_facts_file_rest(e->at.file);
        *rows += status ? 0 : of_one;
    }
    return status;
}

/* Do rows stay in the files? @param bytes  receives what is left for comparing: heads and buffers take the rest. */
static kineto_status choose_place_of_rows(const ka_facts_set *s, size_t *bytes, kineto_error *err)
{
    enum { ROW_BYTES = sizeof(ka_comm) + KA_COMPARE_ROW_BYTES, FIXED_BYTES = 8 << 20, RANK_BYTES = 18 << 10 };
    uint64_t rows, limit = s->memory_bytes ? s->memory_bytes : (uint64_t)1 << 30;
    uint64_t fixed = FIXED_BYTES + s->entries.count * RANK_BYTES;
    kineto_status status = count_rows(s, &rows, err);
    *bytes = (size_t)(limit > fixed + FIXED_BYTES ? limit - fixed : FIXED_BYTES);
    for (size_t i = 0; !status && rows * ROW_BYTES > *bytes && i < s->files.count; i++)
        ka_facts_file_keep_rows(s->files.data[i], s->reader);
    return status;
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define RESULT_TABLES                                                                                                  \
    (KA_TABLE_BIT(KA_TABLE_rank_causes) | KA_TABLE_BIT(KA_TABLE_rank_clocks) | KA_TABLE_BIT(KA_TABLE_rank_damage))

/* Are the results of one file of a run all that is wanted? */
static bool has_results(const ka_facts_set *s, const kineto_analysis *wanted)
{
    return s->files.count == 1 && ka_facts_file_has_results(s->files.data[0]) &&
           !(ka_wanted_tables(wanted) & ~(RESULT_TABLES | KA_TABLE_BIT(KA_TABLE_rank_marks)));
}

/* One trace after the other, so that the tables of only one are there twice. */
static kineto_status add_entries(const ka_facts_set *s, const kineto_analysis_options *options, ka_table_set tables,
                                 kineto_analysis *to, kineto_error *err)
{
    size_t bytes = 0;
    kineto_status status =
        to->tables[KA_TABLE_rank_marks].wanted ? choose_place_of_rows(s, &bytes, err) : KINETO_OK;
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        kineto_analysis *one;
        if (e->has_error)
            continue;
        status = ka_facts_create_for(options, tables, &one, err);
        if (status)
            return status;
        status = ka_facts_file_load(e->at.file, e->at.trace, one, err);
        ka_facts_file_rest(e->at.file);
        if (!status)
            status = kineto_analysis_add(to, one, err);
        kineto_analysis_destroy(one);
    }
    if (to->ranks)
        to->ranks->memory_bytes = bytes;
    if (status || !(status = ka_facts_complete(to, err)) || !to->ranks || !to->ranks->error.code)
        return status;
    if (err)
        *err = to->ranks->error;
    return to->ranks->error.code;
}

static kineto_status analyze_set(const ka_facts_set *s, const kineto_analysis_options *options, ka_table_set tables,
                                 bool from_results, kineto_analysis **out, kineto_error *err)
{
    kineto_status status = ka_facts_create_for(options, tables, out, err);
    if (status)
        return status;
    if (from_results && has_results(s, *out)) {
        status = ka_facts_file_load_results(s->files.data[0], *out, err);
        ka_facts_file_rest(s->files.data[0]);
    } else {
        ka_facts_defer(*out);
        status = add_entries(s, options, tables, *out, err);
    }
    if (status) {
        kineto_analysis_destroy(*out);
        *out = NULL;
    }
    return status;
}

kineto_status ka_facts_set_analyze(const ka_facts_set *s, const kineto_analysis_options *options, ka_table_set tables,
                                   kineto_analysis **out, kineto_error *err)
{
    return analyze_set(s, options, tables, true, out, err);
}

kineto_status ka_facts_set_analyze_ranks(const ka_facts_set *s, const kineto_analysis_options *options, ka_table_set tables,
                                         kineto_analysis **out, kineto_error *err)
{
    return analyze_set(s, options, tables, false, out, err);
}

kineto_status ka_facts_fail_without_tables(kineto_error *err)
{
    return kb_fail(err, KINETO_E_NOT_FOUND, "the facts have no tables; 'ckineto facts --all' keeps them");
}

/* ---- findings -------------------------------------------------------------------------------- */

bool ka_facts_set_has_overview(const ka_facts_set *s)
{
    bool has = ka_facts_set_readable(s) > 0;
    for (size_t i = 0; i < s->entries.count && has; i++)
        has = s->entries.data[i].has_error || kb_string_is(s->entries.data[i].source->options, "all");
    return has;
}

/* Takes over `one`, also on failure. */
static kineto_status add_findings(kineto_findings **to, kineto_findings *one, kineto_error *err)
{
    if (!*to) {
        *to = one;
        return KINETO_OK;
    }
    ka_findings_defer(*to);
    kineto_status status = kineto_findings_add(*to, one, err);
    kineto_findings_destroy(one);
    return status;
}

kineto_status ka_facts_set_find(const ka_facts_set *s, ka_rule_set rules, kineto_findings **out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *out = NULL;
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        kineto_findings *one;
        if (e->has_error)
            continue;
        status = ka_facts_file_findings(e->at.file, e->at.trace, rules, &one, err);
        ka_facts_file_rest(e->at.file);
        if (!status)
            status = add_findings(out, one, err);
    }
    if (!status && *out)
        status = ka_findings_complete(*out, err);
    if (!status)
        return KINETO_OK;
    kineto_findings_destroy(*out);
    *out = NULL;
    return status;
}

/* Takes over `one`, also on failure. */
static kineto_status add_overview(kineto_overview **to, kineto_overview *one, kineto_error *err)
{
    if (!*to) {
        *to = one;
        return KINETO_OK;
    }
    kineto_status status = kineto_overview_add(*to, one, err);
    kineto_overview_destroy(one);
    return status;
}

kineto_status ka_facts_set_overview(const ka_facts_set *s, ka_table_set tables, kineto_overview **out,
                                    kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *out = NULL;
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        kineto_overview *one;
        if (e->has_error)
            continue;
        status = ka_facts_file_overview(e->at.file, e->at.trace, tables, &one, err);
        ka_facts_file_rest(e->at.file);
        if (!status)
            status = add_overview(out, one, err);
    }
    if (!status)
        return KINETO_OK;
    kineto_overview_destroy(*out);
    *out = NULL;
    return status;
}

/* ---- the file of a run ----------------------------------------------------------------------- */

static kineto_status put_results(const ka_facts_set *s, ka_section_writer *w, kineto_error *err)
{
    kineto_analysis *a;
    ka_byte_writer content = {.no_memory = false};
    const kineto_analysis_options usual = {.size = sizeof usual};
    kineto_status status = ka_facts_create_for(&usual, RESULT_TABLES, &a, err);
    if (status)
        return status;
    ka_facts_defer(a);
    status = add_entries(s, &usual, RESULT_TABLES, a, err);
    if (!status) {
        ka_write_analysis(&content, a, ka_wanted_tables(a));
        ka_put_section(w, KA_SECTION_RESULTS, &content);
    }
    ka_byte_writer_free(&content);
    kineto_analysis_destroy(a);
    return status;
}

static kineto_status put_run(const ka_facts_set *s, ka_section_writer *w, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    ka_begin_sections(w, KA_FACTS_OF_RUN);
    for (size_t i = 0; i < s->entries.count && !status; i++) {
        const set_entry *e = &s->entries.data[i];
        if (e->damage) {
            ka_put_facts_damage(w, e->damage);
            continue;
        }
        status = ka_facts_file_copy(e->at.file, e->at.trace, w, err);
        ka_facts_file_rest(e->at.file);
    }
    if (!status)
        status = put_results(s, w, err);
    if (!status)
        ka_end_sections(w);
    return status;
}

kineto_status ka_facts_set_save(const ka_facts_set *s, const char *path, kineto_error *err)
{
    ka_section_writer w = {.count = 0};
    kineto_status status = kb_sink_open_file(path, KB_COMPRESS_NONE, &w.sink, err);
    if (status)
        return status;
    status = put_run(s, &w, err);
    ka_section_writer_free(&w);
    if (!status)
        return kb_sink_close(w.sink, err);
    kb_sink_abort(w.sink);
    return status;
}

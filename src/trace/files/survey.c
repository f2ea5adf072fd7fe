/* A survey: a table with one row per file, and findings about the files together (survey_rules.c).
 * Only one trace is in memory at a time. Implements kineto_survey of <ckineto/files.h>; merging
 * uses it for its ledger. Memory errors set out_of_memory, which kt_survey_settle reports. */
#include "trace/files/survey.h"
#include "trace/import/import.h"

#include "trace/model/model.h"

kineto_survey *kt_survey_create(void) { return calloc(1, sizeof(kineto_survey)); }

void kineto_survey_destroy(kineto_survey *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->rows.count; i++) {
        free((void *)(uintptr_t)s->rows.data[i]->view.path);
        free((void *)(uintptr_t)s->rows.data[i]->view.error);
        free(s->rows.data[i]);
    }
    for (size_t i = 0; i < s->findings.count; i++)
        free(s->findings.data[i]);
    kb_vec_free(&s->rows);
    kb_vec_free(&s->findings);
    kb_vec_free(&s->texts);
    free(s);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t mix_hash(uint64_t x, uint64_t y)
{
    x = (x ^ y) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 32;
}

/* Equal for the same activities of one process, whatever the order, spelling or compression of the
 * file: the sum of the rows' hashes is commutative. A rank counts only if the content states it,
 * not the name of the file. */
uint64_t kt_trace_fingerprint(const kineto_trace *t, const kineto_identity *id)
{
    bool by_content = id->rank_learned && id->rank_learned <= KINETO_LEARNED_ENVIRONMENT;
    uint64_t sum =
        mix_hash(mix_hash(t->count, (uint64_t)id->pid), by_content ? (uint64_t)id->rank : 0);
    for (size_t i = 0; i < t->blocks.count; i++) {
        const kt_block *b = t->blocks.data[i];
        for (uint32_t row = 0; row < b->count; row++)
            sum += mix_hash(
                mix_hash((uint64_t)b->start_ns[row] + b->kind[row], b->correlation_id[row]),
                (uint64_t)b->end_ns[row]);
    }
    return kt_is_of_flight_recorder(t) ? mix_hash(sum, 1) : sum;
}

kt_measured_reach kt_measure_reach(const kineto_trace *t)
{
    kt_measured_reach reach = {.is_dump = kt_is_of_flight_recorder(t)};
    int64_t start_ns, end_ns;
    kineto_trace_window(t, &start_ns, &end_ns);
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++) {
            int64_t ns = kb_length_ns(start_ns, KB_MAX(block->end_ns[i], start_ns));
            if (kt_kind_is_work(block->kind[i]))
                reach.device_ns = KB_MAX(reach.device_ns, ns);
            else if (block->kind[i] == KINETO_KIND_CPU_OP || kt_kind_is_launch(block->kind[i]))
                reach.host_ns = KB_MAX(reach.host_ns, ns);
        }
    }
    return reach;
}

static void fill_trace_columns(kt_survey_row *row, const kineto_trace *trace)
{
    kineto_survey_file *view = &row->view;
    view->activities = kineto_trace_count(trace);
    view->lost = kineto_trace_lost(trace);
    view->is_cut = kt_ledger_is_cut(trace);
    view->text_bytes = kineto_trace_text_bytes(trace);
    kineto_trace_window(trace, &view->window_start_ns, &view->window_end_ns);
    row->reach = kt_measure_reach(trace);
    row->fingerprint = kt_trace_fingerprint(trace, &row->identity);
}

/* The survey keeps copies of path and message: the file is closed when the table is read. */
bool kt_survey_add(kineto_survey *s, const char *path, const kineto_trace *trace,
                   const kineto_identity *identity, const kineto_error *error)
{
    kt_survey_row *row = calloc(1, sizeof *row);
    char *own_path = strdup(path), *reason = strdup(trace ? "" : error->message);
    if (!row || !own_path || !reason || !kb_vec_push(&s->rows, row)) {
        free(row);
        free(own_path);
        free(reason);
        return false;
    }
    *row = (kt_survey_row){.number = s->rows.count - 1};
    row->identity = (kineto_identity){.size = sizeof row->identity, .rank = -1, .pid = -1};
    if (identity)
        row->identity = *identity;
    row->view = (kineto_survey_file){.path = own_path,
                                     .name = own_path,
                                     .identity = &row->identity,
                                     .status = trace ? KINETO_OK : error->code,
                                     .error = reason};
    if (trace)
        fill_trace_columns(row, trace);
    return true;
}

bool kt_survey_add_measured(kineto_survey *s, const kineto_survey_file *numbers, const kineto_identity *identity,
                            uint64_t fingerprint, const kt_measured_reach *reach)
{
    kineto_error none = {.message = ""};
    if (!kt_survey_add(s, numbers->path, NULL, identity, &none))
        return false;
    kt_survey_row *row = s->rows.data[s->rows.count - 1];
    kineto_survey_file view = *numbers;
    view.path = row->view.path;
    view.name = row->view.name;
    view.error = row->view.error;
    view.identity = &row->identity;
    row->view = view;
    row->fingerprint = fingerprint;
    row->reach = *reach;
    return true;
}

/* Does a file before the last one have this rank? With a fingerprint: also these activities? */
static bool has_earlier_rank(const kineto_survey *s, int32_t rank, const uint64_t *fingerprint)
{
    for (size_t i = 0; i + 1 < s->rows.count; i++)
        if (s->rows.data[i]->identity.rank == rank && s->rows.data[i]->view.status == KINETO_OK &&
            (!fingerprint || s->rows.data[i]->fingerprint == *fingerprint))
            return true;
    return false;
}

/* A file without a rank may be a copy that stands for another rank. */
bool kt_survey_last_is_repeated(const kineto_survey *s, const kineto_trace *trace)
{
    const kt_survey_row *last = s->rows.count ? s->rows.data[s->rows.count - 1] : NULL;
    kt_ranks ranks = {0};
    if (!last || !trace || !last->view.activities)
        return false;
    if (last->identity.rank_count < 2)
        return last->identity.rank >= 0 && has_earlier_rank(s, last->identity.rank, &last->fingerprint);
    bool is = kt_add_trace_ranks(&ranks, trace) && ranks.count;
    for (size_t i = 0; i < ranks.count && is; i++)
        is = has_earlier_rank(s, ranks.data[i], NULL);
    kb_vec_free(&ranks);
    return is;
}

/* As unsigned numbers, so that rows without a rank (-1) sort last. */
static int compare_rows_by_rank(const void *left, const void *right)
{
    const kt_survey_row *a = *(kt_survey_row *const *)left, *b = *(kt_survey_row *const *)right;
    uint32_t rank_a = (uint32_t)a->identity.rank, rank_b = (uint32_t)b->identity.rank;
    if (rank_a != rank_b)
        return rank_a < rank_b ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Names are the paths without the directories that all have in common. */
static void set_row_names(kineto_survey *s)
{
    const char **paths = malloc((s->rows.count + 1) * sizeof *paths);
    s->out_of_memory |= !paths;
    for (size_t i = 0; paths && i < s->rows.count; i++)
        paths[i] = s->rows.data[i]->view.path;
    size_t common = paths ? kt_common_directory(paths, s->rows.count) : 0;
    for (size_t i = 0; i < s->rows.count; i++)
        s->rows.data[i]->view.name = s->rows.data[i]->view.path + common;
    free(paths);
}

/* ---- findings -------------------------------------------------------------------------------- */

static const struct {
    const char *id, *meaning;
    uint32_t severity;
} finding_kinds[] = {
#define KINETO_X(name, value, id, severity, text) [value] = {id, text, severity},
    KINETO_FILES_FINDING_MAP(KINETO_X)
#undef KINETO_X
};

static void append_sentence_text(kineto_survey *s, const char *text, size_t size)
{
    if (!kb_vec_reserve(&s->texts, s->texts.count + size)) {
        s->out_of_memory = true;
        return;
    }
    memcpy(s->texts.data + s->texts.count, text, size);
    s->texts.count += size;
}

static void append_sentence_z(kineto_survey *s, const char *text)
{
    append_sentence_text(s, text, strlen(text));
}

/* Appends ": a, b, c and 12 others". */
static void append_file_names(kineto_survey *s, const uint32_t *files, size_t count)
{
    enum { SHOWN = 6 }; /* one more is shown rather than "1 others" */
    size_t shown = count > SHOWN + 1 ? SHOWN : count;
    for (size_t i = 0; i < shown; i++) {
        append_sentence_z(s, i ? ", " : ": ");
        KB_ASSERT(files[i] < s->rows.count);
        append_sentence_z(s, s->rows.data[files[i]]->view.name);
    }
    if (shown < count) {
        char more[48];
        snprintf(more, sizeof more, " and %zu others", count - shown);
        append_sentence_z(s, more);
    }
}

void kt_survey_add_finding(kineto_survey *s, kineto_files_finding_kind kind, const uint32_t *files,
                           size_t count, const char *fmt, ...)
{
    char text[1200];
    kt_survey_finding *f = calloc(1, sizeof *f);
    KB_ASSERT((uint32_t)kind < KB_COUNT(finding_kinds));
    if (!f || !kb_vec_push(&s->findings, f)) {
        free(f);
        s->out_of_memory = true;
        return;
    }
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    f->sentence_at = s->texts.count;
    append_sentence_text(s, text, size < 0 ? 0 : KB_MIN((size_t)size, sizeof text - 1));
    if (kind != KINETO_FILES_UNREADABLE) /* its text begins with the name */
        append_file_names(s, files, count);
    f->view = (kineto_files_finding){.kind = (uint32_t)kind,
                                     .severity = finding_kinds[kind].severity,
                                     .id = finding_kinds[kind].id,
                                     .meaning = finding_kinds[kind].meaning,
                                     .files = f->files,
                                     .total = count};
    f->view.file_count = (uint32_t)KB_MIN(count, KB_COUNT(f->files));
    if (f->view.file_count)
        memcpy(f->files, files, f->view.file_count * sizeof *files);
    f->view.sentence.size = s->texts.count - f->sentence_at;
}

static int compare_findings_by_severity(const void *left, const void *right)
{
    const kt_survey_finding *a = *(kt_survey_finding *const *)left;
    const kt_survey_finding *b = *(kt_survey_finding *const *)right;
    if (a->view.severity != b->view.severity)
        return a->view.severity > b->view.severity ? -1 : 1;
    return a->sentence_at < b->sentence_at ? -1 : a->sentence_at > b->sentence_at;
}

static void report_repeated_files(kineto_survey *s, const kineto_files *files)
{
    const char *first = NULL;
    uint32_t repeated = files ? kt_files_repeated(files, &first) : 0;
    if (repeated)
        kt_survey_add_finding(s, KINETO_FILES_NAMED_TWICE, NULL, 0,
                              "%u repeated %s, read once: %.1000s%s", repeated,
                              repeated == 1 ? "file" : "files", first, repeated > 1 ? " …" : "");
}

/* The sentences get their final addresses last: s->texts moves while it grows. */
bool kt_survey_settle(kineto_survey *s, const kineto_files *files, bool whole)
{
    if (s->rows.count)
        qsort(s->rows.data, s->rows.count, sizeof(kt_survey_row *), compare_rows_by_rank);
    set_row_names(s);
    kt_survey_run_rules(s, whole);
    report_repeated_files(s, files);
    if (s->findings.count)
        qsort(s->findings.data, s->findings.count, sizeof(kt_survey_finding *),
              compare_findings_by_severity);
    for (size_t i = 0; i < s->findings.count; i++)
        s->findings.data[i]->view.sentence.data = s->texts.data + s->findings.data[i]->sentence_at;
    return !s->out_of_memory;
}

/* ---- the public view ------------------------------------------------------------------------- */

uint32_t kineto_survey_count(const kineto_survey *s) { return s ? (uint32_t)s->rows.count : 0; }

bool kineto_survey_file_at(const kineto_survey *s, uint32_t index, kineto_survey_file *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (index >= kineto_survey_count(s))
        return false;
    *out = s->rows.data[index]->view;
    return true;
}

uint32_t kineto_survey_finding_count(const kineto_survey *s)
{
    return s ? (uint32_t)s->findings.count : 0;
}

bool kineto_survey_finding(const kineto_survey *s, uint32_t index, kineto_files_finding *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (index >= kineto_survey_finding_count(s))
        return false;
    *out = s->findings.data[index]->view;
    return true;
}

/* ---- one file after the other ---------------------------------------------------------------- */

/* Opens one file, adds its row, calls the visitor. *more: the visitor wants further files. */
static kineto_status survey_file(kineto_survey *s, const kineto_files *files, uint32_t index,
                                 const kineto_survey_options *how, bool *more, kineto_error *err)
{
    kineto_error error = {.message = ""};
    kineto_identity identity = {.size = sizeof identity, .rank = -1, .pid = -1};
    kineto_trace *trace = NULL;
    const char *path = kineto_files_path(files, index);
    if (kineto_trace_open_with(path, how->open, &trace, &error) == KINETO_OK)
        kineto_trace_identity(trace, path, &identity);
    bool kept = kt_survey_add(s, path, trace, &identity, &error);
    kineto_visit view = {.index = index,
                         .count = kineto_files_count(files),
                         .path = path,
                         .trace = trace,
                         .identity = &identity,
                         .error = &error};
    *more = kept && (!how->visit || how->visit(&view, how->user));
    kineto_trace_release(trace);
    return kept ? KINETO_OK : kb_fail_memory(err, "survey of files");
}

kineto_status kineto_files_survey(const kineto_files *files, const kineto_survey_options *options,
                                  kineto_survey **out, kineto_error *err)
{
    kineto_survey_options how = {0};
    if (out)
        *out = NULL;
    if (!files)
        return kb_fail_null(err, __func__, "files", files);
    kineto_status status = kb_options_read(&how, sizeof how, options, "kineto_survey_options", err);
    if (status)
        return status;
    kineto_survey *s = kt_survey_create();
    bool more = true;
    for (uint32_t i = 0; s && more && status == KINETO_OK && i < kineto_files_count(files); i++)
        status = survey_file(s, files, i, &how, &more, err);
    if (!s || (status == KINETO_OK && !kt_survey_settle(s, files, more)))
        status = kb_fail_memory(err, "survey of files");
    if (status != KINETO_OK || !out) {
        kineto_survey_destroy(s);
        return status;
    }
    *out = s;
    return KINETO_OK;
}

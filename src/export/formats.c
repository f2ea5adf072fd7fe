/* The table of formats: which file name selects which format, and writing a trace in one of them
 * (kineto_trace_export of <ckineto/export.h>). Adding a format takes one row here and one writer. */
#include "export/export.h"

#include <sys/stat.h>

typedef struct format {
    const char *name;
    const char *const *endings;
    const char *about;
    kineto_status (*write)(ke_job *job, kineto_error *err);
    /* Instead of write: to a path. */
    kineto_status (*write_file)(ke_job *job, kineto_error *err);
    /* Indices of the trace that it needs, besides order and lanes. */
    bool nesting, links;
    bool compressible;
    kb_compression always; /* of formats that always have the same compression */
} format;

#define ENDINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static kineto_status write_sqlite_job(ke_job *job, kineto_error *err)
{
    ke_result_count_all(job);
    return ke_sqlite_write_path(job->trace, job->path, job->result, err);
}

static kineto_status write_perfetto_job(ke_job *job, kineto_error *err)
{
    return ke_perfetto_write(job->trace, job->sink, job->trace_name, job->result, err);
}

/* The first one is the default, for paths without a name of their own: a device, a FIFO. */
static const format formats[] = {
    {"chrome", ENDINGS(".json"), "Kineto's Chrome JSON: holds all, and reads back the same",
     ke_chrome_write_job, NULL, false, false, true, KB_COMPRESS_NONE},
    {"perfetto", ENDINGS(".pftrace", ".perfetto-trace"),
     "Perfetto's own format, for ui.perfetto.dev", write_perfetto_job, NULL, false, false, true,
     KB_COMPRESS_NONE},
    {"sqlite", ENDINGS(".sqlite", ".sqlite3", ".db"), "a database, for SQL", NULL, write_sqlite_job,
     true, true, false, KB_COMPRESS_NONE},
    {"jsonl", ENDINGS(".jsonl", ".ndjson"), "a JSON object on each line, for jq and scripts",
     ke_jsonl_write, NULL, true, true, true, KB_COMPRESS_NONE},
    {"csv", ENDINGS(".csv"), "a table of all activities", ke_csv_write, NULL, true, true, true,
     KB_COMPRESS_NONE},
    {"folded", ENDINGS(".folded", ".collapsed"), "stacks with their own time, for flame graphs",
     ke_folded_write, NULL, true, false, true, KB_COMPRESS_NONE},
    {"flame", ENDINGS(".svg"), "a flame graph, for a browser", ke_flame_write, NULL, true, false,
     true, KB_COMPRESS_NONE},
    {"speedscope", ENDINGS(".speedscope.json"), "timelines and flame graphs in speedscope",
     ke_speedscope_write, NULL, true, false, true, KB_COMPRESS_NONE},
    {"pprof", ENDINGS(".pb.gz", ".pprof"), "a profile for pprof and Grafana", ke_pprof_write, NULL,
     true, false, false, KB_COMPRESS_GZIP},
};

/* A format and its compression. */
typedef struct chosen_format {
    const format *format;
    kb_compression compression;
} chosen_format;

bool kineto_export_format_get(uint32_t index, kineto_export_format *out)
{
    if (index >= KB_COUNT(formats) || !out || kb_size_check(out, "", NULL))
        return false;
    const format *f = &formats[index];
    kineto_export_format all = {out->size, f->name,         f->endings,
                                f->about,  f->compressible, f->write_file != NULL};
    memcpy(out, &all, KB_MIN(out->size, sizeof all));
    return true;
}

/* ---- choosing a format ----------------------------------------------------------------------- */

/* Bytes of a name without ".gz" and ".zst". */
static size_t size_without_compression(const char *name)
{
    kb_compression c = kb_compression_of(name);
    return strlen(name) - (c == KB_COMPRESS_GZIP ? 3 : c == KB_COMPRESS_ZSTD ? 4 : 0);
}

/* Bytes of the longest ending of a format that a path of `size` bytes has. */
static size_t matching_ending_size(const format *f, const char *path, size_t size)
{
    size_t best = 0;
    for (const char *const *ending = f->endings; *ending; ending++) {
        size_t n = strlen(*ending);
        if (n > best && size > n && memcmp(path + size - n, *ending, n) == 0)
            best = n;
    }
    return best;
}

/* The format with the longest matching ending, with or without ".gz" and ".zst" counted. */
static const format *find_format_by_ending(const char *path)
{
    const format *best = NULL;
    size_t best_size = 0, whole = strlen(path), plain = size_without_compression(path);
    for (size_t i = 0; i < KB_COUNT(formats); i++) {
        size_t size = KB_MAX(matching_ending_size(&formats[i], path, plain),
                             matching_ending_size(&formats[i], path, whole));
        if (size > best_size) {
            best = &formats[i];
            best_size = size;
        }
    }
    return best;
}

/* A compression may follow the name: "jsonl.gz". */
static const format *find_format_by_name(const char *name)
{
    size_t size = size_without_compression(name);
    for (size_t i = 0; i < KB_COUNT(formats); i++)
        if (strlen(formats[i].name) == size && memcmp(formats[i].name, name, size) == 0)
            return &formats[i];
    return NULL;
}

static bool is_stdout_path(const char *path)
{
    return strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0;
}

/* A pipe, device or stdout: written in place, not replaced by a new file. */
static bool is_special_file(const char *path)
{
    struct stat st;
    return is_stdout_path(path) ||
           (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

/* Appends to a list in a message; cut if it does not fit. */
static void append_to_list(char *to, size_t size, const char *separator, const char *text)
{
    size_t used = strlen(to);
    snprintf(to + used, size - used, "%s%s", used ? separator : "", text);
}

static kineto_status fail_unknown_format(const char *name, kineto_error *err)
{
    char known[256] = "";
    for (size_t i = 0; i < KB_COUNT(formats); i++)
        append_to_list(known, sizeof known, ", ", formats[i].name);
    return kb_fail(err, KINETO_E_UNSUPPORTED, "unknown format '%.64s'; known formats are %s", name,
                   known);
}

static kineto_status fail_unknown_ending(const char *path, kineto_error *err)
{
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "unknown format of %.128s; a name may end in .json.gz, .pftrace, .csv and what 'ckineto convert "
                   "--list' lists",
                   path);
}

/* The compression by the name of the format or else by the path. */
static kineto_status choose_file_compression(const char *path, const char *name, chosen_format *c,
                                             kineto_error *err)
{
    kb_compression wanted = name ? kb_compression_of(name) : KB_COMPRESS_NONE;
    if (wanted == KB_COMPRESS_NONE)
        wanted = kb_compression_of(path);
    c->compression = c->format->compressible ? wanted : c->format->always;
    if (wanted != KB_COMPRESS_NONE && wanted != c->compression)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "%.128s: %s does not support this compression; drop %s", path,
                       c->format->name, wanted == KB_COMPRESS_GZIP ? ".gz" : ".zst");
    return KINETO_OK;
}

/* Chooses by the name of a format, or by the path's ending if `name` is NULL. */
static kineto_status choose_format(const char *path, const char *name, chosen_format *out,
                                   kineto_error *err)
{
    const format *f = name ? find_format_by_name(name) : find_format_by_ending(path);
    if (!f && name)
        return fail_unknown_format(name, err);
    if (!f && strcmp(path, "-") != 0 && is_special_file(path))
        f = &formats[0];
    if (!f)
        return fail_unknown_ending(path, err);
    if (f->write_file && is_special_file(path))
        return kb_fail(err, KINETO_E_UNSUPPORTED, "%.128s: %s needs a regular file", path, f->name);
    out->format = f;
    return choose_file_compression(path, name, out, err);
}

kineto_status ke_check_format(const char *path, const char *name, kineto_error *err)
{
    chosen_format c;
    return choose_format(path, name, &c, err);
}

kineto_status ke_check_path(const char *path, kineto_error *err)
{
    return ke_check_format(path, NULL, err);
}

const char *ke_format_by_ending(const char *name, kb_compression *compression, bool *needs_file)
{
    const format *f = find_format_by_ending(name);
    if (!f)
        f = &formats[0];
    *compression = f->compressible ? kb_compression_of(name) : f->always;
    *needs_file = f->write_file != NULL;
    return f->name;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Builds the indices that the writer reads row by row: writers could not distinguish a lack of
 * memory from a row that has no parent. */
static kineto_status begin_export(ke_job *job, const format *f, kineto_error *err)
{
    job->trace_name = job->options->trace_name ? job->options->trace_name : job->path;
    job->result->format = f->name;
    ke_census_count(job->trace, &job->census);
    ke_progress(job, 0);
    return kt_prepare(job->trace, f->nesting, f->links) ? KINETO_OK : ke_fail_memory(job, err);
}

/* Args may be read from the file that the trace came from, which may have changed meanwhile. */
static kineto_status check_args_readable(const ke_job *job, kineto_error *err)
{
    const char *lost = kt_args_lost_file(job->trace);
    return lost ? kb_fail(err, KINETO_E_IO,
                          "%s: the file has changed since it was opened, so arguments of events "
                          "cannot be read; open it again",
                          lost)
                : KINETO_OK;
}

/* Writes into the job's sink, which stays open, and records the number of bytes. */
static kineto_status write_to_job_sink(ke_job *job, const format *f, kineto_error *err)
{
    uint64_t before = kb_sink_bytes(job->sink);
    kineto_status status = begin_export(job, f, err);
    if (status == KINETO_OK)
        status = f->write(job, err);
    if (status == KINETO_OK)
        status = check_args_readable(job, err);
    job->result->bytes = kb_sink_bytes(job->sink) - before;
    if (status == KINETO_OK)
        ke_progress(job, job->census.activities);
    return status;
}

/* Opens the file, writes, and closes it; the file appears only if everything succeeded. */
static kineto_status write_to_path(ke_job *job, chosen_format c, kineto_error *err)
{
    if (c.format->write_file) {
        kineto_status status = begin_export(job, c.format, err);
        if (status == KINETO_OK)
            status = c.format->write_file(job, err);
        return status ? status : check_args_readable(job, err);
    }
    KB_ASSERT(c.format->write && !job->sink);
    kineto_status status = kb_sink_open_file(job->path, c.compression, &job->sink, err);
    if (status != KINETO_OK)
        return status;
    status = write_to_job_sink(job, c.format, err);
    if (status == KINETO_OK)
        return kb_sink_close(job->sink, err);
    kb_sink_abort(job->sink);
    return status;
}

/* Fills defaults for members that the caller's version does not have. */
static kineto_status read_export_options(const kineto_export_options *from,
                                         kineto_export_options *to, kineto_error *err)
{
    *to = (kineto_export_options){.size = sizeof *to};
    kineto_status status = kb_options_read(to, sizeof *to, from, "kineto_export_options", err);
    if (status)
        return status;
    if (to->roots > KINETO_EXPORT_MERGED)
        return kb_fail(err, KINETO_E_ARGUMENT, "unknown roots %u in kineto_export_options",
                       to->roots);
    if (to->weight > KINETO_EXPORT_WEIGHT_WALL)
        return kb_fail(err, KINETO_E_ARGUMENT, "unknown weight %llu in kineto_export_options",
                       (unsigned long long)to->weight);
    return KINETO_OK;
}

kineto_status kineto_trace_export(const kineto_trace *trace, const char *path,
                            const kineto_export_options *options, kineto_export_result *result,
                            kineto_error *err)
{
    chosen_format c;
    kineto_export_options all;
    kineto_export_result account = {.size = sizeof account};
    if (!trace || !path)
        return kb_fail_null(err, __func__, "trace, path", trace, path);
    kineto_status status = read_export_options(options, &all, err);
    if (status == KINETO_OK)
        status = kb_size_check(result, "kineto_export_result", err);
    if (status == KINETO_OK)
        status = choose_format(path, all.format, &c, err);
    if (status != KINETO_OK)
        return status;
    ke_job job = {.trace = trace, .path = path, .options = &all, .result = &account};
    status = write_to_path(&job, c, err);
    if (status == KINETO_OK)
        ke_result_copy_out(&account, result);
    return status;
}

kineto_status ke_export_to_sink(const kineto_trace *trace, kb_sink *sink,
                                const kineto_export_options *options, kineto_export_result *result,
                                kineto_error *err)
{
    kineto_export_options all;
    kineto_export_result account = {.size = sizeof account};
    kineto_status status = read_export_options(options, &all, err);
    if (status != KINETO_OK)
        return status;
    const format *f = find_format_by_name(all.format ? all.format : formats[0].name);
    if (!f)
        return fail_unknown_format(all.format, err);
    if (!f->write)
        return kb_fail(err, KINETO_E_UNSUPPORTED, "%s needs a regular file", f->name);
    ke_job job = {
        .trace = trace, .sink = sink, .path = "trace", .options = &all, .result = &account};
    status = write_to_job_sink(&job, f, err);
    if (status == KINETO_OK)
        ke_result_copy_out(&account, result);
    return status;
}

kineto_status kineto_trace_export_chrome(const kineto_trace *trace, const char *path,
                                   kineto_export_result *result, kineto_error *err)
{
    kineto_export_options options = {.size = sizeof options, .format = formats[0].name};
    if (!trace || !path)
        return kb_fail_null(err, __func__, "trace, path", trace, path);
    return kineto_trace_export(trace, path, &options, result, err);
}

kineto_status kineto_trace_save(const kineto_trace *trace, const char *path, kineto_error *err)
{
    if (!trace || !path)
        return kb_fail_null(err, __func__, "trace, path", trace, path);
    return kineto_trace_export(trace, path, NULL, NULL, err);
}

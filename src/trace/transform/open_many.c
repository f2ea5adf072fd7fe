/* Opens several files as one trace, one file after the other (for kineto_trace_open_many of <ckineto/files.h>, which
 * finds their clocks: analyze/facts/trace_clocks.c). With only_rank, files whose names state another rank stay closed; if a header
 * contradicts its name, all files are opened after all. */
#include "trace/transform/merge.h"

typedef struct many_opener {
    const kineto_files *files;
    kineto_open_many_options how;
    kt_merger merger;
    kt_open_hooks hooks;
    bool gave_up;        /* hooks.opened returned false */
    uint32_t opened;     /* traces that were added to the merger */
    bool uses_names;     /* files whose names state another rank are skipped */
    bool has_wrong_name; /* a header states another rank than its name */
    kt_ranks ranks;      /* ranks of the opened files, for the message */
    kineto_error last;   /* the last file that could not be read */
} many_opener;

/* The rank that the path states; -1: none. */
static int32_t rank_of_name(const char *path)
{
    kt_name_facts facts;
    kt_name_facts_of(path, &facts);
    return facts.rank >= 0 ? facts.rank : facts.directory_rank;
}

/* Only if every name states a rank do names decide which files are opened. */
static bool all_names_say_ranks(const kineto_files *files)
{
    for (uint32_t i = 0; i < kineto_files_count(files); i++)
        if (rank_of_name(kineto_files_path(files, i)) < 0)
            return false;
    return true;
}

/* Returns the part of the trace that was requested; *part NULL: it has none. */
static kineto_status choose_part(many_opener *o, kineto_trace *trace,
                                 const kineto_identity *identity, kineto_trace **part,
                                 kineto_error *err)
{
    *part = NULL;
    if (!(identity->rank_count > 1 ? kt_add_trace_ranks(&o->ranks, trace)
                                   : kt_add_rank(&o->ranks, identity->rank)))
        return kb_fail_memory(err, "open files");
    if (!o->how.only_rank || identity->rank == o->how.rank) {
        *part = kineto_trace_retain(trace);
        return KINETO_OK;
    }
    o->has_wrong_name |= identity->rank >= 0;
    if (identity->rank_count < 2)
        return KINETO_OK;
    kineto_selection how = {.size = sizeof how, .use = KINETO_SELECT_RANK, .rank = o->how.rank};
    kineto_status status = kineto_trace_select(trace, &how, part, err);
    if (status == KINETO_OK && !kineto_trace_count(*part)) {
        kineto_trace_release(*part);
        *part = NULL;
    }
    return status;
}

/* Adds the requested part of an opened trace to the merger. */
static kineto_status add_opened_trace(many_opener *o, kineto_trace *trace, const char *path,
                                      kineto_error *err)
{
    kineto_identity identity = {.size = sizeof identity};
    kineto_trace *part;
    kineto_trace_identity(trace, path, &identity);
    if (o->hooks.opened && !o->hooks.opened(o->hooks.context, trace, path, &identity)) {
        o->gave_up = true;
        return KINETO_OK;
    }
    kineto_status status = choose_part(o, trace, &identity, &part, err);
    if (status != KINETO_OK || !part)
        return status;
    if (part != trace)
        kineto_trace_identity(part, NULL, &identity);
    status = kt_merger_add(&o->merger, part, path, &identity, err);
    o->opened++;
    kineto_trace_release(part);
    return status;
}

/* Opens file `index`. A file found in a directory that cannot be read is recorded as a loss; one
 * that the caller named is an error, unless the caller takes the survey. */
static kineto_status open_listed_file(many_opener *o, uint32_t index, kineto_error *err)
{
    const char *path = kineto_files_path(o->files, index);
    if (o->how.progress)
        o->how.progress(index, kineto_files_count(o->files), path, o->how.user);
    kineto_trace *trace = o->hooks.reuse ? o->hooks.reuse(o->hooks.context, path) : NULL;
    kineto_status status = trace ? KINETO_OK : kineto_trace_open_with(path, o->how.open, &trace, &o->last);
    if (status == KINETO_OK) {
        status = add_opened_trace(o, trace, path, err);
        kineto_trace_release(trace);
        return status;
    }
    if (status != KINETO_E_MEMORY && (o->hooks.survey || kineto_files_was_found(o->files, index)))
        return kt_merger_add_unreadable(&o->merger, path, &o->last, err);
    if (err)
        *err = o->last;
    return status;
}

/* Explains why nothing was opened: no file of that rank, or the last file could not be read. */
static kineto_status fail_no_rank(const many_opener *o, kineto_error *err)
{
    char existing[160];
    if (!o->how.only_rank || (o->last.code && !o->ranks.count)) {
        if (err)
            *err = o->last;
        return o->last.code;
    }
    kt_format_ranks(&o->ranks, existing, sizeof existing);
    return kb_fail(err, KINETO_E_NOT_FOUND, "no trace has rank %d: %s", o->how.rank, existing);
}

/* Opens and merges the files. *out stays NULL if no file has the requested rank, or if names were
 * wrong: then the caller tries again without them. */
static kineto_status merge_listed_files(many_opener *o, kineto_trace **out, kineto_error *err)
{
    uint32_t count = kineto_files_count(o->files);
    const char **paths = malloc((count + (size_t)1) * sizeof *paths);
    if (!paths)
        return kb_fail_memory(err, "open files");
    for (uint32_t i = 0; i < count; i++)
        paths[i] = kineto_files_path(o->files, i);
    kineto_status status = kt_merger_begin(&o->merger, paths, count, err);
    o->merger.clocks = o->hooks.clocks;
    o->merger.skips_repeated = o->hooks.survey != NULL;
    for (uint32_t i = 0; status == KINETO_OK && i < count && !o->gave_up; i++)
        if (!o->uses_names || rank_of_name(paths[i]) == o->how.rank)
            status = open_listed_file(o, i, err);
    if (status == KINETO_OK && o->opened && !o->gave_up && !(o->uses_names && o->has_wrong_name))
        status = kt_merger_finish(&o->merger, o->files, !o->how.only_rank, out, err);
    bool is_over = *out || (!o->opened && !o->how.only_rank);
    if (o->hooks.survey && status == KINETO_OK && is_over) {
        *o->hooks.survey = o->merger.survey;
        o->merger.survey = NULL;
    }
    kt_merger_free(&o->merger);
    free(paths);
    return status;
}

/* Two passes at most: by names first, if all of them state a rank, then without names. */
kineto_status kt_open_many(const char *const *paths, size_t count, const kineto_open_many_options *options,
                           const kt_open_hooks *hooks, kineto_trace **out, kineto_error *err)
{
    many_opener o = {.hooks = hooks ? *hooks : (kt_open_hooks){0}};
    kineto_files *files;
    *out = NULL;
    if (o.hooks.survey)
        *o.hooks.survey = NULL;
    kineto_status status =
        kb_options_read(&o.how, sizeof o.how, options, "kineto_open_many_options", err);
    if (!status)
        status = kineto_files_find(paths, count, &files, err);
    if (status != KINETO_OK)
        return status;
    KB_ASSERT(files && !*out);
    o.files = files;
    o.uses_names = o.how.only_rank && kineto_files_count(files) > 1 && all_names_say_ranks(files);
    status = merge_listed_files(&o, out, err);
    /* A name was wrong: open all files. */
    if (status == KINETO_OK && !*out && o.uses_names && !o.gave_up) {
        o.uses_names = false;
        o.opened = 0;
        status = merge_listed_files(&o, out, err);
    }
    if (status == KINETO_OK && !*out && !o.gave_up)
        status = fail_no_rank(&o, err);
    kb_vec_free(&o.ranks);
    kineto_files_destroy(files);
    return status;
}

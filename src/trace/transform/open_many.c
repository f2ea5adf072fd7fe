/* Opening several files as one trace, one after the other. */
#include "trace/transform/merge.h"

typedef struct opener {
    const kineto_files *files;
    kineto_open_many_options how;
    kt_merger merger;
    uint32_t taken;
    bool by_name;      /* files whose names say another rank are not opened */
    bool mistaken;     /* a header said another rank than the name */
    kt_ranks ranks;    /* of those that were opened */
    kineto_error last; /* why a file could not be read */
} opener;

static int32_t rank_of_name(const char *path)
{
    kt_name_facts facts;
    kt_name_facts_of(path, &facts);
    return facts.rank >= 0 ? facts.rank : facts.directory_rank;
}

/* Names are enough to leave files closed if each of them says a rank. */
static bool all_names_say_ranks(const kineto_files *files)
{
    for (uint32_t i = 0; i < kineto_files_count(files); i++)
        if (rank_of_name(kineto_files_path(files, i)) < 0)
            return false;
    return true;
}

/* The part of the trace that was asked for; *part NULL: it has none. */
static kineto_status choose(opener *o, kineto_trace *trace, const kineto_identity *identity,
                            kineto_trace **part, kineto_error *err)
{
    *part = NULL;
    if (!(identity->rank_count > 1 ? kt_note_ranks(&o->ranks, trace)
                                   : kt_note_rank(&o->ranks, identity->rank)))
        return kb_fail(err, KINETO_E_MEMORY, "no memory to open files");
    if (!o->how.only_rank || identity->rank == o->how.rank) {
        *part = kineto_trace_retain(trace);
        return KINETO_OK;
    }
    o->mistaken |= identity->rank >= 0;
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

static kineto_status take(opener *o, kineto_trace *trace, const char *path, kineto_error *err)
{
    kineto_identity identity = {.size = sizeof identity};
    kineto_trace *part;
    kineto_trace_identity(trace, path, &identity);
    kineto_status status = choose(o, trace, &identity, &part, err);
    if (status != KINETO_OK || !part)
        return status;
    if (part != trace)
        kineto_trace_identity(part, NULL, &identity);
    status = kt_merger_add(&o->merger, part, path, &identity, err);
    o->taken++;
    kineto_trace_release(part);
    return status;
}

static kineto_status open_one(opener *o, uint32_t index, kineto_error *err)
{
    kineto_trace *trace;
    const char *path = kineto_files_path(o->files, index);
    if (o->how.progress)
        o->how.progress(index, kineto_files_count(o->files), path, o->how.user);
    kineto_status status = kineto_trace_open_with(path, o->how.open, &trace, &o->last);
    if (status == KINETO_OK) {
        status = take(o, trace, path, err);
        kineto_trace_release(trace);
        return status;
    }
    if (status != KINETO_E_MEMORY && kineto_files_was_found(o->files, index))
        return kt_merger_miss(&o->merger, path, &o->last, err);
    if (err)
        *err = o->last;
    return status;
}

static kineto_status nothing(const opener *o, kineto_error *err)
{
    char there[160];
    if (!o->how.only_rank || (o->last.code && !o->ranks.count)) {
        if (err)
            *err = o->last;
        return o->last.code;
    }
    kt_put_ranks(&o->ranks, there, sizeof there);
    return kb_fail(err, KINETO_E_NOT_FOUND, "no trace is of rank %d: %s", o->how.rank, there);
}

static kineto_status open_all(opener *o, kineto_trace **out, kineto_error *err)
{
    uint32_t count = kineto_files_count(o->files);
    const char **paths = malloc((count + (size_t)1) * sizeof *paths);
    if (!paths)
        return kb_fail(err, KINETO_E_MEMORY, "no memory to open files");
    for (uint32_t i = 0; i < count; i++)
        paths[i] = kineto_files_path(o->files, i);
    kineto_status status = kt_merger_begin(&o->merger, paths, count, err);
    for (uint32_t i = 0; status == KINETO_OK && i < count; i++)
        if (!o->by_name || rank_of_name(paths[i]) == o->how.rank)
            status = open_one(o, i, err);
    if (status == KINETO_OK && o->taken && !(o->by_name && o->mistaken))
        status = kt_merger_finish(&o->merger, o->files, !o->how.only_rank, out, err);
    kt_merger_free(&o->merger);
    free(paths);
    return status;
}

kineto_status kineto_trace_open_many(const char *const *paths, size_t count,
                                     const kineto_open_many_options *options, kineto_trace **out,
                                     kineto_error *err)
{
    opener o = {0};
    kineto_files *files;
    if (out)
        *out = NULL;
    if (!out)
        return kb_fail(err, KINETO_E_ARGUMENT, "a place for the trace is needed");
    kineto_status status =
        kb_options_read(&o.how, sizeof o.how, options, "kineto_open_many_options", err);
    if (!status)
        status = kineto_files_find(paths, count, &files, err);
    if (status != KINETO_OK)
        return status;
    o.files = files;
    o.by_name = o.how.only_rank && kineto_files_count(files) > 1 && all_names_say_ranks(files);
    status = open_all(&o, out, err);
    if (status == KINETO_OK && !*out && o.by_name) { /* names were wrong: look at all */
        o.by_name = false;
        o.taken = 0;
        status = open_all(&o, out, err);
    }
    if (status == KINETO_OK && !*out)
        status = nothing(&o, err);
    kb_vec_free(&o.ranks);
    kineto_files_release(files);
    return status;
}

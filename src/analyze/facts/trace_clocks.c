/* Opens several files as one trace on one clock: kineto_trace_open_many of <ckineto/files.h>.
 *
 * Whether there are several hosts is known only from the traces. So files are merged as they are recorded until a second
 * host is seen; then what comparing ranks needs is taken from each file, and all are merged again with the clocks that
 * were found. Traces of small files are kept meanwhile, so that these are read once. */
#include "analyze/facts/trace_clocks.h"
#include "analyze/facts/analyses.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/tables/table.h"

#include <ckineto/analyze.h>
#include <math.h>
#include <sys/stat.h>

/* Of all files whose traces are kept: more are read again. */
#define MAX_KEPT_BYTES (UINT64_C(64) << 20)

/* A kt_merge_clocks.find. Files are asked for in their order. */
static const kt_clock *find_clock(void *context, const char *path)
{
    ka_trace_clocks *c = context;
    for (size_t i = 0; i < c->files.count && !c->is_refused; i++) {
        ka_file_clock *f = &c->files.data[(c->next + i) % c->files.count];
        if (strcmp(f->path, path) != 0)
            continue;
        c->next = (c->next + i + 1) % c->files.count;
        return f->is_known ? &f->clock : NULL;
    }
    return NULL;
}

bool ka_trace_clocks_add(ka_trace_clocks *c, const char *path, int32_t rank)
{
    ka_file_clock f = {.path = strdup(path), .rank = rank};
    if (f.path && kb_vec_push(&c->files, f))
        return true;
    free(f.path);
    return false;
}

void ka_trace_clocks_set(ka_trace_clocks *c, const ka_rank_model *m)
{
    double most = 0;
    c->merge = (kt_merge_clocks){find_clock, c, c->note};
    c->is_refused = m->refused[0];
    for (size_t i = 0; i < c->files.count; i++) {
        ka_file_clock *f = &c->files.data[i];
        uint32_t rank = ka_find_rank_index(m, f->rank);
        f->is_known = rank != KA_NONE && m->clocks.count > 1;
        if (!f->is_known)
            continue;
        const ka_rank_clock *k = &m->clocks.data[m->clock_of[rank]];
        f->clock = (kt_clock){k->offset_ns, k->drift, m->origin_ns + m->middle_ns, llround(fmin(k->bar_ns, 1e15))};
        most = kb_max_double(most, k->bar_ns);
    }
    if (c->is_refused)
        kb_snprintf(c->note, sizeof c->note, "clocks are not aligned: %s; times of different hosts cannot be compared",
                    m->refused);
    else
        kb_snprintf(c->note, sizeof c->note, "clocks of %zu hosts are aligned by the ends of collectives, ± %s at most",
                    m->clocks.count, kb_duration((int64_t)most).s);
}

void ka_trace_clocks_free(ka_trace_clocks *c)
{
    for (size_t i = 0; i < c->files.count; i++)
        free(c->files.data[i].path);
    kb_vec_free(&c->files);
}

/* ---- traces that are kept -------------------------------------------------------------------- */

typedef struct kept_trace {
    char *path;
    kineto_trace *trace;
} kept_trace;

/* One call of ka_open_many. */
typedef struct aligned_opener {
    kineto_open_many_options how;
    char first_host[256]; /* as kineto_identity.host */
    bool has_several_hosts;
    KB_VEC(kept_trace) kept;
    uint64_t kept_bytes, max_kept_bytes;
    size_t next; /* of kept: the one that is probably asked for next */
    ka_trace_clocks clocks;
    ka_rank_set *ranks;
} aligned_opener;

/* Traces that do not fit are read again: running out of memory is no failure here. */
static void keep_trace(aligned_opener *o, const kineto_trace *trace, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size > o->max_kept_bytes - o->kept_bytes)
        return;
    kept_trace k = {strdup(path), kineto_trace_retain((kineto_trace *)(uintptr_t)trace)};
    if (k.path && kb_vec_push(&o->kept, k)) {
        o->kept_bytes += (uint64_t)st.st_size;
        return;
    }
    free(k.path);
    kineto_trace_release(k.trace);
}

/* A kt_open_hooks.reuse. Files come in their order. */
static kineto_trace *find_kept_trace(void *context, const char *path)
{
    aligned_opener *o = context;
    for (size_t i = 0; i < o->kept.count; i++) {
        size_t at = (o->next + i) % o->kept.count;
        if (strcmp(o->kept.data[at].path, path) != 0)
            continue;
        o->next = at + 1;
        return kineto_trace_retain(o->kept.data[at].trace);
    }
    return NULL;
}

/* A kt_open_hooks.opened: gives up at the second host. Merged traces are as they were merged. */
static bool watch_hosts(void *context, const kineto_trace *trace, const char *path, const kineto_identity *identity)
{
    aligned_opener *o = context;
    keep_trace(o, trace, path);
    if (!identity->host[0] || identity->rank_count > 1)
        return true;
    o->has_several_hosts = o->first_host[0] && strcmp(o->first_host, identity->host) != 0;
    if (!o->first_host[0])
        snprintf(o->first_host, sizeof o->first_host, "%s", identity->host);
    return !o->has_several_hosts;
}

/* ---- comparing clocks ------------------------------------------------------------------------ */

/* The rank that the trace or its path names, else the place of the file. */
static int32_t find_rank_of_file(const kineto_trace *trace, const char *path, uint32_t index)
{
    kineto_identity identity = {.size = sizeof identity};
    kineto_trace_identity(trace, path, &identity);
    return identity.rank >= 0 ? identity.rank : (int32_t)index;
}

static kineto_status add_ranks_of(aligned_opener *o, const kineto_trace *trace, const char *path, uint32_t index,
                                  kineto_error *err)
{
    int32_t rank = find_rank_of_file(trace, path, index);
    kineto_analysis_options options = {.size = sizeof options, .tables = "rank_clocks", .rank = &rank};
    kineto_analysis *facts = NULL;
    kineto_status status = kineto_analysis_run(trace, &options, &facts, err);
    if (!status && (!ka_rank_set_add(&o->ranks, facts->ranks) || !ka_trace_clocks_add(&o->clocks, path, rank)))
        status = kb_fail_memory(err, NULL);
    kineto_analysis_destroy(facts);
    return status;
}

/* Files that cannot be read are left out: the merge reports them. */
static kineto_status read_ranks_of(aligned_opener *o, const kineto_files *files, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; !status && i < kineto_files_count(files); i++) {
        kineto_error unread;
        const char *path = kineto_files_path(files, i);
        kineto_trace *trace = find_kept_trace(o, path);
        if (o->how.progress)
            o->how.progress(i, kineto_files_count(files), path, o->how.user);
        bool is_kept = trace != NULL;
        if (!is_kept && kineto_trace_open_with(path, o->how.open, &trace, &unread))
            continue;
        if (!is_kept)
            keep_trace(o, trace, path);
        status = add_ranks_of(o, trace, path, i, err);
        kineto_trace_release(trace);
    }
    return status;
}

static kineto_status compare_clocks(aligned_opener *o, const char *const *paths, size_t count, kineto_error *err)
{
    kineto_files *files = NULL;
    kineto_status status = kineto_files_find(paths, count, &files, err);
    if (!status)
        status = read_ranks_of(o, files, err);
    const ka_rank_view *view = status || !o->ranks ? NULL : ka_rank_set_view(o->ranks);
    if (view)
        ka_trace_clocks_set(&o->clocks, &view->model);
    else if (!status && o->ranks)
        status = kb_fail_memory(err, NULL);
    ka_rank_set_destroy(o->ranks);
    o->ranks = NULL;
    kineto_files_destroy(files);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void free_opener(aligned_opener *o)
{
    for (size_t i = 0; i < o->kept.count; i++) {
        free(o->kept.data[i].path);
        kineto_trace_release(o->kept.data[i].trace);
    }
    kb_vec_free(&o->kept);
    ka_trace_clocks_free(&o->clocks);
}

/* With clocks that are known. */
static kineto_status open_with_clocks(const char *const *paths, size_t count, const kineto_open_many_options *how,
                                      const ka_open_hooks *hooks, const ka_trace_clocks *clocks, kt_open_hooks *merge,
                                      kineto_trace **out, kineto_error *err)
{
    bool has_clocks = clocks && clocks->note[0];
    merge->clocks = has_clocks ? &clocks->merge : NULL;
    merge->opened = NULL;
    if (has_clocks && clocks->is_refused && hooks->refused)
        snprintf(hooks->refused, hooks->refused_bytes, "%s", clocks->note);
    return kt_open_many(paths, count, how, merge, out, err);
}

static kineto_status open_aligned(aligned_opener *o, const char *const *paths, size_t count, const ka_open_hooks *hooks,
                                  kineto_trace **out, kineto_error *err)
{
    kt_open_hooks merge = {.opened = watch_hosts, .reuse = find_kept_trace, .context = o, .survey = hooks->survey};
    kineto_open_options reading;
    kineto_status status = kb_options_read(&reading, sizeof reading, o->how.open, "kineto_open_options", err);
    if (status)
        return status;
    o->max_kept_bytes = reading.memory_bytes ? 0 : MAX_KEPT_BYTES;
    status = kt_open_many(paths, count, &o->how, &merge, out, err);
    if (status || !o->has_several_hosts)
        return status;
    status = compare_clocks(o, paths, count, err);
    return status ? status : open_with_clocks(paths, count, &o->how, hooks, &o->clocks, &merge, out, err);
}

kineto_status ka_open_many(const char *const *paths, size_t count, const kineto_open_many_options *options,
                           const ka_open_hooks *hooks, kineto_trace **out, kineto_error *err)
{
    const ka_open_hooks none = {.clocks = NULL};
    aligned_opener o = {.ranks = NULL};
    *out = NULL;
    kineto_status status = kb_options_read(&o.how, sizeof o.how, options, "kineto_open_many_options", err);
    o.how.size = sizeof o.how;
    hooks = hooks ? hooks : &none;
    if (hooks->refused)
        hooks->refused[0] = '\0';
    if (status)
        return status;
    kt_open_hooks merge = {.survey = hooks->survey};
    status = hooks->clocks || !o.how.align || o.how.only_rank
                 ? open_with_clocks(paths, count, &o.how, hooks, hooks->clocks, &merge, out, err)
                 : open_aligned(&o, paths, count, hooks, out, err);
    free_opener(&o);
    return status;
}

kineto_status kineto_trace_open_many(const char *const *paths, size_t count,
                                     const kineto_open_many_options *options, kineto_trace **out,
                                     kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!paths || !out)
        return kb_fail_null(err, __func__, "paths, out", paths, out);
    return ka_open_many(paths, count, options, NULL, out, err);
}

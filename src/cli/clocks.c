/* Finds the clocks of traces of several hosts before they are merged. */
#include "cli/clocks.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/tables/table.h"
#include "cli/open_many.h"

#include <ckineto/analyze.h>
#include <math.h>

bool kc_no_align;

/* A kt_merge_clocks.find. Files are asked for in their order. */
static const kt_clock *find_clock(void *context, const char *path)
{
    kc_clocks *c = context;
    for (size_t i = 0; i < c->files.count && !c->is_refused; i++) {
        kc_file_clock *f = &c->files.data[(c->next + i) % c->files.count];
        if (strcmp(f->path, path) != 0)
            continue;
        c->next = (c->next + i + 1) % c->files.count;
        return f->is_known ? &f->clock : NULL;
    }
    return NULL;
}

bool kc_clocks_add(kc_clocks *c, const char *path, int32_t rank)
{
    kc_file_clock f = {.path = strdup(path), .rank = rank};
    if (f.path && kb_vec_push(&c->files, f))
        return true;
    free(f.path);
    return false;
}

void kc_clocks_set(kc_clocks *c, const ka_rank_model *m)
{
    double most = 0;
    c->merge = (kt_merge_clocks){find_clock, c, c->note};
    c->is_refused = m->refused[0];
    for (size_t i = 0; i < c->files.count; i++) {
        kc_file_clock *f = &c->files.data[i];
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

/* ---- reading --------------------------------------------------------------------------------- */

static kineto_status add_facts(kc_clocks *c, ka_rank_set **set, const kineto_trace *trace, const char *path, uint32_t index,
                               kineto_error *err)
{
    int32_t rank = kc_trace_rank(trace, path, index);
    kineto_analysis_options options = {.size = sizeof options, .tables = "rank_clocks", .rank = &rank};
    kineto_analysis *facts = NULL;
    kineto_status status = kineto_analysis_run(trace, &options, &facts, err);
    if (!status && (!ka_rank_set_add(set, facts->ranks) || !kc_clocks_add(c, path, rank)))
        status = kb_fail_memory(err, NULL);
    kineto_analysis_destroy(facts);
    return status;
}

static kineto_status read_facts(kc_clocks *c, const kineto_files *files, ka_rank_set **set, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; !status && i < kineto_files_count(files); i++) {
        kineto_error unread;
        kineto_trace *trace;
        const char *path = kineto_files_path(files, i);
        kc_show_reading(i, kineto_files_count(files), path);
        if (kineto_trace_open_with(path, &kc_reading, &trace, &unread))
            continue; /* the merge reports it */
        status = add_facts(c, set, trace, path, i, err);
        kineto_trace_release(trace);
    }
    kc_show_reading(0, 0, NULL);
    return status;
}

kineto_status kc_clocks_compare(kc_clocks *c, char *const *paths, int count, kineto_error *err)
{
    kineto_files *files = NULL;
    ka_rank_set *set = NULL;
    *c = (kc_clocks){0};
    kineto_status status = kineto_files_find((const char *const *)paths, (size_t)count, &files, err);
    if (!status)
        status = read_facts(c, files, &set, err);
    const ka_rank_view *view = status || !set ? NULL : ka_rank_set_view(set);
    if (view)
        kc_clocks_set(c, &view->model);
    else if (!status && set)
        status = kb_fail_memory(err, NULL);
    ka_rank_set_destroy(set);
    kineto_files_destroy(files);
    return status;
}

void kc_clocks_free(kc_clocks *c)
{
    for (size_t i = 0; i < c->files.count; i++)
        free(c->files.data[i].path);
    kb_vec_free(&c->files);
}

/* A first pass over a run that does not fit into memory. Roles are made of all rows; clocks are fitted to an even sample
 * of the collectives that span hosts: all rows whose key has as many low bits zero as the memory asks for, so that the
 * sample has whole collectives and does not depend on the order of reading. */
#include "analyze/ranks/rank_windows.h"

#define CHUNK_ROWS 256u /* as many as sources read at once */

/* Some of the ranks, one after the other. */
typedef struct survey_lane {
    struct surveying *all;
    uint64_t mask; /* a row whose key has one of these bits is not in the sample */
    size_t count;  /* rows of the sample */
    ka_role_signer signer;
    ka_comm chunk[CHUNK_ROWS];
    kineto_status status;
    kineto_error err;
} survey_lane;

typedef struct surveying {
    const ka_rank_source *sources;
    ka_rank_model *m;
    ka_rank_facts *samples; /* by rank: as the heads, with the rows of the sample */
    uint64_t *signs;        /* by rank: of its role */
    bool *is_wanted;        /* by group */
    size_t capacity;        /* rows of the sample */
    survey_lane *lanes;
} surveying;

/* ---- which groups span hosts ----------------------------------------------------------------- */

static uint64_t host_key(const ka_rank_facts *f, uint32_t rank)
{
    kineto_string host = kb_intern_get(&f->texts, f->host);
    return host.size ? kb_hash(host.data, host.size) : kb_hash(&rank, sizeof rank);
}

/* Those that span hosts; if none does, all. */
static bool find_wanted_groups(surveying *s)
{
    const ka_rank_model *m = s->m;
    uint64_t *host = calloc(m->groups.count + 1, sizeof *host);
    bool some = false;
    for (uint32_t r = 0; host && r < m->rank_count; r++)
        for (uint32_t i = m->global_base[r]; i < m->global_base[r + 1]; i++) {
            uint64_t key = host_key(m->facts[r], r) | 1, *of = &host[m->global[i]];
            s->is_wanted[m->global[i]] |= *of && *of != key;
            some |= s->is_wanted[m->global[i]];
            *of = key;
        }
    for (size_t g = 0; !some && g < m->groups.count; g++)
        s->is_wanted[g] = true;
    free(host);
    return host != NULL;
}

/* ---- the sample ------------------------------------------------------------------------------ */

static uint32_t global_group(const ka_rank_model *m, uint32_t rank, uint32_t group)
{
    return group < m->facts[rank]->groups.count ? m->global[m->global_base[rank] + group] : KA_NONE;
}

static bool is_sampled(const surveying *s, uint64_t mask, uint32_t rank, const ka_comm *c)
{
    uint32_t group = global_group(s->m, rank, c->group);
    return group != KA_NONE && s->is_wanted[group] && !(ka_instance_key(group, c->sequence, c) & mask);
}

/* What is sampled so far of these ranks, by another mask. @return rows. */
static size_t thin_sample(surveying *s, uint64_t mask, uint32_t first, uint32_t end)
{
    size_t count = 0;
    for (uint32_t r = first; r < end; r++) {
        ka_rank_facts *f = &s->samples[r];
        size_t kept = 0;
        for (size_t i = 0; i < f->rows.count; i++)
            if (is_sampled(s, mask, r, &f->rows.data[i]))
                f->rows.data[kept++] = f->rows.data[i];
        f->rows.count = kept;
        count += kept;
    }
    return count;
}

/* The first mask by which the sample of these ranks, `count` rows by `mask`, has its size. */
static uint64_t fit_mask(surveying *s, uint64_t mask, size_t *count, uint32_t first, uint32_t end)
{
    while (*count > s->capacity && mask < UINT64_MAX / 2) {
        mask = mask * 2 + 1;
        *count = thin_sample(s, mask, first, end);
    }
    return mask;
}

/* ---- one pass over the rows ------------------------------------------------------------------ */

/* What the rows are is enough, but for those of the sample, whose times are needed. */
static kineto_status read_surveyed_rows(survey_lane *l, uint32_t lane, uint32_t rank, uint32_t at, uint32_t count, bool *has_sampled)
{
    const surveying *s = l->all;
    const ka_rank_source *source = &s->sources[rank];
    kineto_status status =
        (source->read_calls ? source->read_calls : source->read)(source->context, lane, at, count, l->chunk, &l->err);
    *has_sampled = false;
    for (uint32_t i = 0; !status && i < count; i++) {
        const ka_comm *c = &l->chunk[i];
        if (!ka_sign_row(s->m, &l->signer, rank, global_group(s->m, rank, c->group), c))
            status = kb_fail_memory(&l->err, "ranks");
        *has_sampled |= is_sampled(s, l->mask, rank, c);
    }
    if (status || !*has_sampled || !source->read_calls)
        return status;
    return source->read(source->context, lane, at, count, l->chunk, &l->err);
}

static kineto_status survey_rows(survey_lane *l, uint32_t lane, uint32_t rank, uint32_t at, uint32_t count)
{
    bool has_sampled;
    kineto_status status = read_surveyed_rows(l, lane, rank, at, count, &has_sampled);
    for (uint32_t i = 0; !status && has_sampled && i < count; i++) {
        if (!is_sampled(l->all, l->mask, rank, &l->chunk[i]))
            continue;
        l->count++;
        if (!kb_vec_push(&l->all->samples[rank].rows, l->chunk[i]))
            status = kb_fail_memory(&l->err, "ranks");
    }
    return status;
}

/* Lanes sample by their own masks. The mask of all is at least as large, so that no row of the sample is lost. */
static void survey_ranks(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    surveying *s = context;
    survey_lane *l = &s->lanes[lane];
    for (uint32_t r = first; r < end && !l->status; r++) {
        uint32_t rows = s->sources[r].row_count;
        for (uint32_t at = 0, n; at < rows && !l->status; at += n) {
            n = KB_MIN(CHUNK_ROWS, rows - at);
            l->status = survey_rows(l, lane, r, at, n);
            l->mask = fit_mask(s, l->mask, &l->count, first, r + 1);
        }
        s->signs[r] = ka_finish_sign(&l->signer);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool start_survey(surveying *s)
{
    size_t ranks = (size_t)s->m->rank_count + 1;
    s->samples = calloc(ranks, sizeof *s->samples);
    s->signs = calloc(ranks, sizeof *s->signs);
    s->is_wanted = calloc(s->m->groups.count + 1, sizeof *s->is_wanted);
    s->lanes = calloc(KA_LANES, sizeof *s->lanes);
    if (!s->samples || !s->signs || !s->is_wanted || !s->lanes)
        return false;
    for (uint32_t i = 0; i < KA_LANES; i++)
        s->lanes[i].all = s;
    for (uint32_t r = 0; r < s->m->rank_count; r++) {
        memcpy(&s->samples[r], s->m->facts[r], sizeof *s->samples);
        memset(&s->samples[r].rows, 0, sizeof s->samples[r].rows);
    }
    return find_wanted_groups(s);
}

/* Roles, and one sample of what the lanes have read: by the first mask that is enough for all rows, which does not depend
 * on how they were split. */
static kineto_status join_lanes(surveying *s, kineto_error *err)
{
    kb_map roles = {0};
    uint64_t mask = 0;
    bool ok = true;
    for (uint32_t i = 0; i < KA_LANES; i++) {
        if (s->lanes[i].status && err)
            *err = s->lanes[i].err;
        if (s->lanes[i].status)
            return s->lanes[i].status;
        mask = KB_MAX(mask, s->lanes[i].mask);
    }
    size_t count = thin_sample(s, mask, 0, s->m->rank_count);
    (void)fit_mask(s, mask, &count, 0, s->m->rank_count);
    for (uint32_t r = 0; r < s->m->rank_count && ok; r++)
        ok = ka_set_role(s->m, r, s->signs[r], &roles);
    kb_map_free(&roles);
    return ok ? KINETO_OK : kb_fail_memory(err, "ranks");
}

static bool fit_sample(surveying *s)
{
    ka_rank_model *m = s->m;
    m->has_roles = true;
    for (uint32_t r = 0; r < m->rank_count; r++)
        m->facts[r] = &s->samples[r];
    bool ok = ka_rank_model_load(m);
    ka_rank_model_unload(m);
    for (uint32_t r = 0; r < m->rank_count; r++)
        m->facts[r] = s->sources[r].head;
    return ok;
}

static void free_survey(surveying *s)
{
    for (uint32_t r = 0; s->samples && r < s->m->rank_count; r++)
        kb_vec_free(&s->samples[r].rows);
    for (uint32_t i = 0; s->lanes && i < KA_LANES; i++)
        kb_vec_free(&s->lanes[i].signer.signs);
    free(s->samples);
    free(s->signs);
    free(s->is_wanted);
    free(s->lanes);
}

kineto_status ka_survey_ranks(const ka_rank_source *sources, ka_rank_model *m, size_t rows, kineto_error *err)
{
    surveying s = {.sources = sources, .m = m, .capacity = rows};
    size_t all = 0;
    for (uint32_t r = 0; r < m->rank_count; r++)
        all += sources[r].row_count;
    bool ok = start_survey(&s);
    if (ok)
        ka_run_lanes(survey_ranks, &s, m->rank_count, all);
    kineto_status status = ok ? join_lanes(&s, err) : kb_fail_memory(err, "ranks");
    if (!status && !fit_sample(&s))
        status = kb_fail_memory(err, "ranks");
    free_survey(&s);
    return status;
}

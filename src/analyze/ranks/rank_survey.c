/* A first pass over a run that does not fit into memory. Roles are made of all rows; clocks are fitted to an even sample
 * of the collectives that span hosts: all rows whose key has as many low bits zero as the memory asks for, so that the
 * sample has whole collectives and does not depend on the order of reading. */
#include "analyze/ranks/rank_windows.h"

#define CHUNK_ROWS 4096u

typedef struct surveying {
    const ka_rank_source *sources;
    ka_rank_model *m;
    ka_rank_facts *samples; /* by rank: as the heads, with the rows of the sample */
    bool *is_wanted;        /* by group */
    size_t count, capacity; /* rows of the sample */
    uint64_t mask;
    ka_role_signer signer;
    kb_map roles;
    ka_comm *chunk;
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

static bool is_sampled(const surveying *s, uint32_t rank, const ka_comm *c)
{
    uint32_t group = global_group(s->m, rank, c->group);
    return group != KA_NONE && s->is_wanted[group] && !(ka_instance_key(group, c->sequence, c) & s->mask);
}

/* Half of what is sampled so far. */
static void thin_sample(surveying *s)
{
    s->mask = s->mask * 2 + 1;
    s->count = 0;
    for (uint32_t r = 0; r < s->m->rank_count; r++) {
        ka_rank_facts *f = &s->samples[r];
        size_t kept = 0;
        for (size_t i = 0; i < f->rows.count; i++)
            if (is_sampled(s, r, &f->rows.data[i]))
                f->rows.data[kept++] = f->rows.data[i];
        f->rows.count = kept;
        s->count += kept;
    }
}

static bool add_surveyed_row(surveying *s, uint32_t rank, const ka_comm *c)
{
    if (!ka_sign_row(s->m, &s->signer, rank, global_group(s->m, rank, c->group), c))
        return false;
    if (!is_sampled(s, rank, c))
        return true;
    while (s->count >= s->capacity && s->mask < UINT64_MAX / 2)
        thin_sample(s);
    if (!is_sampled(s, rank, c))
        return true;
    s->count++;
    return kb_vec_push(&s->samples[rank].rows, *c);
}

static kineto_status survey_rank(surveying *s, uint32_t rank, kineto_error *err)
{
    const ka_rank_source *source = &s->sources[rank];
    for (uint32_t at = 0, n; at < source->row_count; at += n) {
        n = KB_MIN(CHUNK_ROWS, source->row_count - at);
        kineto_status status = source->read(source->context, at, n, s->chunk, err);
        if (status)
            return status;
        for (uint32_t i = 0; i < n; i++)
            if (!add_surveyed_row(s, rank, &s->chunk[i]))
                return kb_fail_memory(err, "ranks");
    }
    return ka_set_role(s->m, rank, &s->signer, &s->roles) ? KINETO_OK : kb_fail_memory(err, "ranks");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool start_survey(surveying *s)
{
    s->samples = calloc((size_t)s->m->rank_count + 1, sizeof *s->samples);
    s->is_wanted = calloc(s->m->groups.count + 1, sizeof *s->is_wanted);
    s->chunk = malloc(CHUNK_ROWS * sizeof *s->chunk);
    if (!s->samples || !s->is_wanted || !s->chunk)
        return false;
    for (uint32_t r = 0; r < s->m->rank_count; r++) {
        memcpy(&s->samples[r], s->m->facts[r], sizeof *s->samples);
        memset(&s->samples[r].rows, 0, sizeof s->samples[r].rows);
    }
    return find_wanted_groups(s);
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

kineto_status ka_survey_ranks(const ka_rank_source *sources, ka_rank_model *m, size_t rows, kineto_error *err)
{
    surveying s = {.sources = sources, .m = m, .capacity = rows};
    kineto_status status = start_survey(&s) ? KINETO_OK : kb_fail_memory(err, "ranks");
    for (uint32_t r = 0; !status && r < m->rank_count; r++)
        status = survey_rank(&s, r, err);
    if (!status && !fit_sample(&s))
        status = kb_fail_memory(err, "ranks");
    for (uint32_t r = 0; s.samples && r < m->rank_count; r++)
        kb_vec_free(&s.samples[r].rows);
    free(s.samples);
    free(s.is_wanted);
    free(s.chunk);
    kb_vec_free(&s.signer.signs);
    kb_map_free(&s.roles);
    return status;
}

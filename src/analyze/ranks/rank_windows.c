/* Judges a run in windows. Each rank has a buffer of rows; a window is what all ranks have read of whole steps, or, if
 * steps are longer than the buffers, what ends before some time on the common clock. A few rows of the window before stay
 * as its context: later rows wait for them. */
#include "analyze/ranks/rank_windows.h"

#define MIN_WINDOW_ROWS 64u  /* of a rank */
#define FULL_EVERY      32u  /* windows: others are searched for large causes only */
#define CUT_MARGIN_NS   50000

/* The rows of a rank that are in memory. */
typedef struct rank_buffer {
    ka_rank_facts facts; /* as the head, with the rows of the window */
    ka_comm *rows;
    uint32_t first; /* of the source: rows[0] */
    uint32_t held, taken;
    int64_t cut_ns; /* on the common clock: up to where it has all that it does */
} rank_buffer;

typedef struct windowing {
    const ka_rank_source *sources;
    uint32_t count, capacity; /* capacity: rows of a buffer */
    ka_rank_view *v;
    rank_buffer *buffers;
    ka_window_rank *window;
    int64_t *until_ns; /* by domain: where a window is cut */
    uint32_t step;     /* … if it is cut where this one begins */
    ka_comm *rows;
    ka_cause_search causes;
    ka_damage_search damage;
    bool has_causes, has_damage; /* of the window; else there was no memory */
    kineto_error *err;
} windowing;

/* ---- one window ------------------------------------------------------------------------------ */

/* Sets what reports say of the whole run: that some collectives could be compared, and that some were matched by
 * order. */
static void note_view(ka_rank_view *v)
{
    const ka_rank_model *m = &v->model;
    for (size_t i = 0; i < m->instances.count && !v->is_compared; i++)
        v->is_compared = m->instances.data[i].count > 1 &&
                         m->instances.data[i].flags & (KA_INSTANCE_WHOLE | KA_INSTANCE_PART);
    for (size_t i = 0; i < m->instances.count && !v->is_by_order; i++)
        v->is_by_order = ka_model_row(m, m->members[m->instances.data[i].first])->flags & KA_COMM_BY_ORDER;
}

/* A ka_side_work. */
static void search_causes(void *context)
{
    windowing *w = context;
    w->has_causes = ka_cause_search_add(&w->causes, &w->v->model);
}

/* A ka_side_work. */
static void search_damage(void *context)
{
    windowing *w = context;
    w->has_damage = ka_damage_search_add(&w->damage);
}

static bool judge_window(windowing *w)
{
    if (!ka_rank_model_load(&w->v->model))
        return false;
    note_view(w->v);
    w->causes.is_sparse = w->v->window_count++ % FULL_EVERY != 0;
    ka_run_both(search_causes, search_damage, w, w->v->model.row_count);
    return w->has_causes && w->has_damage;
}

static bool start_searches(windowing *w, bool is_whole)
{
    bool ok = ka_cause_search_create(&w->causes, &w->v->model) && ka_damage_search_create(&w->damage, &w->v->model);
    w->causes.is_whole = w->v->model.is_whole = is_whole;
    return ok;
}

static bool finish_searches(windowing *w)
{
    return ka_cause_search_finish(&w->causes, &w->v->causes) && ka_damage_search_finish(&w->damage, &w->v->damage);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static bool has_more(const windowing *w, uint32_t r)
{
    return w->buffers[r].first + w->buffers[r].held < w->sources[r].row_count;
}

static size_t buffered_rows(const windowing *w) { return (size_t)w->count * w->capacity; }

typedef struct filling {
    windowing *w;
    kineto_status status[KA_LANES];
    kineto_error err[KA_LANES];
} filling;

/* A ka_lane_work: each buffer is filled as far as it goes. */
static void fill_lane(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    filling *f = context;
    for (uint32_t r = first; r < end && !f->status[lane]; r++) {
        rank_buffer *b = &f->w->buffers[r];
        const ka_rank_source *s = &f->w->sources[r];
        uint32_t at = b->first + b->held, n = KB_MIN(f->w->capacity - b->held, s->row_count - at);
        f->status[lane] = n ? s->read(s->context, lane, at, n, b->rows + b->held, &f->err[lane]) : KINETO_OK;
        b->held += n;
    }
}

static kineto_status fill_buffers(windowing *w)
{
    filling f = {.w = w};
    ka_run_lanes(fill_lane, &f, w->count, buffered_rows(w));
    for (uint32_t i = 0; i < KA_LANES; i++)
        if (f.status[i]) {
            if (w->err)
                *w->err = f.err[i];
            return f.status[i];
        }
    return KINETO_OK;
}

/* A ka_lane_work: the last rows of the window become the context of the next one. */
static void move_on(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    windowing *w = context;
    (void)lane;
    for (uint32_t r = first; r < end; r++) {
        rank_buffer *b = &w->buffers[r];
        ka_window_rank *k = &w->window[r];
        ka_numbering n = ka_first_number(&w->v->model, r);
        for (uint32_t i = k->context; i < b->taken; i++)
            (void)ka_next_number(&n, &b->rows[i]);
        uint32_t kept = KB_MIN(b->taken, KA_CONTEXT_ROWS), gone = b->taken - kept;
        b->held -= gone;
        b->first += gone;
        if (gone)
            memmove(b->rows, b->rows + gone, b->held * sizeof *b->rows);
        *k = (ka_window_rank){.first = b->first, .context = kept, .nth = n.nth + 1, .step = n.step};
    }
}

/* ---- where to cut ---------------------------------------------------------------------------- */

static uint32_t take_all(windowing *w)
{
    for (uint32_t r = 0; r < w->count; r++)
        w->buffers[r].taken = w->buffers[r].held;
    return 1;
}

static const ka_comm *last_held(const rank_buffer *b) { return &b->rows[b->held - 1]; }

/* A ka_lane_work. */
static void take_steps(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    windowing *w = context;
    (void)lane;
    for (uint32_t r = first; r < end; r++) {
        rank_buffer *b = &w->buffers[r];
        for (b->taken = w->window[r].context; b->taken < b->held && b->rows[b->taken].step < w->step;)
            b->taken++;
    }
}

/* Steps that all ranks have read to their end. @return rows; 0: there are none. Less than a fourth of what is read is
 * too little: then windows are cut by time. */
static uint32_t cut_at_step(windowing *w)
{
    uint32_t taken = 0, held = 0;
    w->step = UINT32_MAX;
    for (uint32_t r = 0; r < w->count; r++)
        if (has_more(w, r))
            w->step = KB_MIN(w->step, last_held(&w->buffers[r])->step);
    ka_run_lanes(take_steps, w, w->count, buffered_rows(w));
    for (uint32_t r = 0; r < w->count; r++) {
        taken += w->buffers[r].taken - w->window[r].context;
        held += w->buffers[r].held - w->window[r].context;
    }
    return w->step != UINT32_MAX && taken > held / 4 ? taken : 0;
}

/* Between the last row that a rank has read and what ends before it. With a margin, so that errors of the
 * clocks do not cut an instance. */
static int64_t find_cut(const windowing *w, uint32_t r)
{
    const rank_buffer *b = &w->buffers[r];
    int64_t last = last_held(b)->end_ns, before = INT64_MIN;
    for (uint32_t i = w->window[r].context; i < b->held; i++)
        if (b->rows[i].end_ns < last)
            before = KB_MAX(before, b->rows[i].end_ns);
    int64_t margin = before == INT64_MIN ? 0 : KB_MIN((last - before) / 2, CUT_MARGIN_NS);
    return ka_align_time(&w->v->model, r, last - margin);
}

/* A ka_lane_work. */
static void find_cuts(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    windowing *w = context;
    (void)lane;
    for (uint32_t r = first; r < end; r++)
        if (has_more(w, r) && w->v->model.domain[r] != KA_NONE)
            w->buffers[r].cut_ns = find_cut(w, r);
}

/* A ka_lane_work. */
static void take_until(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    windowing *w = context;
    const ka_rank_model *m = &w->v->model;
    (void)lane;
    for (uint32_t r = first; r < end; r++) {
        rank_buffer *b = &w->buffers[r];
        int64_t until = m->domain[r] == KA_NONE ? INT64_MAX : w->until_ns[m->domain[r]];
        for (b->taken = w->window[r].context; b->taken < b->held && ka_align_time(m, r, b->rows[b->taken].end_ns) < until;)
            b->taken++;
    }
}

/* What ends before the time that all ranks have read up to. @return rows; 0: there are none. */
static uint32_t cut_at_time(windowing *w)
{
    const ka_rank_model *m = &w->v->model;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < m->domain_count; i++)
        w->until_ns[i] = INT64_MAX;
    ka_run_lanes(find_cuts, w, w->count, buffered_rows(w));
    for (uint32_t r = 0; r < w->count; r++)
        if (has_more(w, r) && m->domain[r] != KA_NONE)
            w->until_ns[m->domain[r]] = KB_MIN(w->until_ns[m->domain[r]], w->buffers[r].cut_ns);
    ka_run_lanes(take_until, w, w->count, buffered_rows(w));
    for (uint32_t r = 0; r < w->count; r++)
        taken += w->buffers[r].taken - w->window[r].context;
    return taken;
}

static void cut_window(windowing *w)
{
    bool is_last = true;
    for (uint32_t r = 0; r < w->count; r++)
        is_last &= !has_more(w, r);
    if (is_last || (!cut_at_step(w) && !cut_at_time(w)))
        (void)take_all(w);
    for (uint32_t r = 0; r < w->count; r++)
        w->buffers[r].facts.rows.count = w->buffers[r].taken;
}

static bool is_done(const windowing *w)
{
    for (uint32_t r = 0; r < w->count; r++)
        if (w->buffers[r].taken < w->buffers[r].held || has_more(w, r))
            return false;
    return true;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool allocate_buffers(windowing *w)
{
    size_t n = (size_t)w->count + 1;
    w->rows = ka_allocate_large(n * w->capacity * sizeof *w->rows);
    w->buffers = calloc(n, sizeof *w->buffers);
    w->window = calloc(n, sizeof *w->window);
    w->until_ns = calloc((size_t)w->v->model.domain_count + n, sizeof *w->until_ns);
    for (uint32_t r = 0; w->rows && w->buffers && r < w->count; r++) {
        rank_buffer *b = &w->buffers[r];
        b->rows = w->rows + (size_t)r * w->capacity;
        memcpy(&b->facts, w->sources[r].head, sizeof b->facts);
        b->facts.rows.data = b->rows;
        w->v->model.facts[r] = &b->facts;
    }
    w->v->model.window = w->window;
    return w->rows && w->buffers && w->window && w->until_ns;
}

static void free_buffers(windowing *w)
{
    for (uint32_t r = 0; r < w->v->model.rank_count; r++)
        w->v->model.facts[r] = w->sources[r].head;
    w->v->model.window = NULL;
    free(w->rows);
    free(w->buffers);
    free(w->window);
    free(w->until_ns);
}

static kineto_status judge_windows(windowing *w)
{
    do {
        kineto_status status = fill_buffers(w);
        if (status)
            return status;
        cut_window(w);
        if (!judge_window(w))
            return kb_fail_memory(w->err, "ranks");
        ka_rank_model_unload(&w->v->model);
        bool done = is_done(w);
        ka_run_lanes(move_on, w, w->count, buffered_rows(w));
        if (done)
            return KINETO_OK;
    } while (true);
}

static kineto_status compare_in_windows(windowing *w, size_t rows)
{
    w->capacity = (uint32_t)KB_MAX(rows / KB_MAX(w->count, 1u), (size_t)MIN_WINDOW_ROWS);
    kineto_status status = ka_survey_ranks(w->sources, &w->v->model, rows / 2, w->err);
    if (status)
        return status;
    bool ok = start_searches(w, false) && allocate_buffers(w);
    status = ok ? judge_windows(w) : kb_fail_memory(w->err, "ranks");
    free_buffers(w);
    return status;
}

/* All rows at once: where they lie, or in one buffer. */
static kineto_status compare_at_once(windowing *w)
{
    const ka_rank_source *s = w->sources;
    bool in_memory = true;
    w->capacity = 1;
    for (uint32_t r = 0; r < w->count; r++) {
        in_memory &= ka_rank_source_rows(&s[r]) != NULL;
        w->capacity = KB_MAX(w->capacity, s[r].row_count);
    }
    if (in_memory)
        return start_searches(w, true) && judge_window(w) ? KINETO_OK : kb_fail_memory(w->err, "ranks");
    bool ok = start_searches(w, true) && allocate_buffers(w);
    kineto_status status = ok ? judge_windows(w) : kb_fail_memory(w->err, "ranks");
    free_buffers(w);
    return status;
}

static bool open_model(windowing *w)
{
    const ka_rank_facts **heads = malloc(((size_t)w->count + 1) * sizeof *heads);
    for (uint32_t r = 0; heads && r < w->count; r++)
        heads[r] = w->sources[r].head;
    bool ok = heads && ka_rank_model_open(heads, w->count, &w->v->model);
    free(heads);
    return ok;
}

kineto_status ka_compare_ranks(const ka_rank_source *sources, uint32_t count, size_t bytes, ka_rank_view *v, kineto_error *err)
{
    *v = (ka_rank_view){0};
    windowing w = {.sources = sources, .count = count, .v = v, .err = err};
    size_t all = 0, rows = (bytes ? bytes : KA_COMPARE_BYTES) / KA_COMPARE_ROW_BYTES;
    for (uint32_t r = 0; r < count; r++)
        all += sources[r].row_count;
    kineto_status status = open_model(&w) ? KINETO_OK : kb_fail_memory(err, "ranks");
    if (!status)
        status = all <= rows ? compare_at_once(&w) : compare_in_windows(&w, rows);
    if (!status && !finish_searches(&w))
        status = kb_fail_memory(err, "ranks");
    ka_cause_search_free(&w.causes);
    ka_damage_search_free(&w.damage);
    return status;
}

void ka_rank_view_free(ka_rank_view *v)
{
    ka_rank_causes_free(&v->causes);
    kb_vec_free(&v->damage);
    ka_rank_model_free(&v->model);
    kb_vec_free(&v->in_dumps);
    ka_rank_model_free(&v->dumps);
}

/* Computes the rows of a synthetic job (rank_rows.h): all times follow from the rank and the number of the row. */
#include "rank_rows.h"

#define HOST_RANKS 8u
#define LEAD_NS    200000 /* by which the host is ahead */

/* A number from 0 to 1 that depends on all four. */
static double draw(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    uint64_t x = a * 0x9e3779b97f4a7c15u ^ b * 0xc2b2ae3d27d4eb4fu ^ c * 0x165667b19e3779f9u ^ d * 0x27d4eb2f165667c5u;
    x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)(x >> 11) / 9007199254740992.0;
}

/* Work before the n-th collective of a step: the slowest member takes all of work_ns. */
static int64_t own_work(const rank_job *j, uint32_t rank, uint32_t step, uint32_t nth)
{
    uint32_t host = rank / HOST_RANKS, slowest = (uint32_t)(draw(host, step, nth, 1) * HOST_RANKS);
    if (rank == j->slow_rank)
        return j->work_ns + (int64_t)(j->slow_share * (double)j->work_ns);
    return j->work_ns - (rank % HOST_RANKS == slowest ? 0 : (int64_t)(0.06 * draw(rank, step, nth, 2) * (double)j->work_ns));
}

static int64_t slot_ns(const rank_job *j, bool of_slow_host)
{
    return j->work_ns + j->transfer_ns + (of_slow_host ? (int64_t)(j->slow_share * (double)j->work_ns) : 0);
}

static bool has_slow(const rank_job *j) { return j->slow_rank != KA_NONE; }

static int64_t step_ns(const rank_job *j) { return j->rows_of_step * slot_ns(j, has_slow(j)); }

int64_t rank_job_gain_ns(const rank_job *j)
{
    return (int64_t)j->steps * (step_ns(j) - j->rows_of_step * slot_ns(j, false));
}

/* When the n-th collective of a step ends. */
static int64_t end_of(const rank_job *j, uint32_t rank, uint32_t step, uint32_t nth)
{
    bool of_slow = has_slow(j) && rank / HOST_RANKS == j->slow_rank / HOST_RANKS;
    int64_t begin = step * step_ns(j);
    return nth + 1 == j->rows_of_step ? begin + step_ns(j) : begin + (nth + 1) * slot_ns(j, of_slow);
}

static int64_t jitter(uint32_t rank, uint32_t row) { return (int64_t)(1000 * draw(rank, row, 0, 3)); }

static int64_t on_clock(uint32_t rank, int64_t ns)
{
    uint32_t host = rank / HOST_RANKS;
    double offset = host ? (draw(host, 0, 0, 4) - 0.5) * 1e7 : 0, drift = host ? (draw(host, 0, 0, 5) - 0.5) * 1e-4 : 0;
    return 1000000000 + ns + (int64_t)(offset + drift * (double)ns);
}

static ka_comm make_row(const rank_generator *g, uint32_t row)
{
    const rank_job *j = &g->job;
    uint32_t step = row / j->rows_of_step, nth = row % j->rows_of_step, rank = g->rank;
    int64_t before = row ? end_of(j, rank, (row - 1) / j->rows_of_step, (row - 1) % j->rows_of_step) : 0;
    int64_t work = own_work(j, rank, step, nth), start = before + work;
    ka_comm c = {.start_ns = on_clock(rank, start),
                 .ready_ns = on_clock(rank, start),
                 .end_ns = on_clock(rank, end_of(j, rank, step, nth) + jitter(rank, row)),
                 .host_at_ns = on_clock(rank, start - LEAD_NS),
                 .work_ns = work,
                 .late_ns = KA_UNKNOWN_NUMBER,
                 .elements = nth + 1 == j->rows_of_step ? 1 << 24 : 1 << 20,
                 .group = nth + 1 == j->rows_of_step,
                 .sequence = nth + 1 == j->rows_of_step ? step : row - step,
                 .previous = (int32_t)row - 1,
                 .after = KA_NO_COMM,
                 .wait_row = (int32_t)row + 1,
                 .sync_row = KA_NO_COMM,
                 .step = step,
                 .op = KA_OP_ALL_REDUCE,
                 .flags = KA_COMM_WAITED | KA_COMM_NO_LAUNCH};
    uint32_t next = row + 1;
    c.wait_ns = own_work(j, rank, next / j->rows_of_step, next % j->rows_of_step) - jitter(rank, row);
    return c;
}

static kineto_status read_rows(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err)
{
    const rank_generator *g = context;
    uint32_t end = g->job.steps * g->job.rows_of_step;
    (void)lane, (void)err;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = make_row(g, first + i == end ? end - 1 : first + i);
        if (first + i + 1 == end)
            out[i].wait_row = KA_NO_COMM;
        if (first + i != end)
            continue;
        out[i].start_ns = out[i].ready_ns = out[i].host_at_ns = out[i].end_ns; /* the end of the work */
        out[i].work_ns = out[i].host_ns = 0;
        out[i].previous = (int32_t)end - 1;
        out[i].wait_row = KA_NO_COMM;
        out[i].group = UINT32_MAX;
        out[i].op = KA_OP_OTHER;
        out[i].flags = KA_COMM_LAST | KA_COMM_NO_LAUNCH;
    }
    return KINETO_OK;
}

static ka_comm_group make_group(ka_rank_facts *f, bool across, uint32_t index, uint32_t size)
{
    char name[32];
    int bytes = snprintf(name, sizeof name, "%s%u", across ? "dp" : "tp", index);
    kineto_string kind = kb_string(across ? "data" : "tensor");
    return (ka_comm_group){.id = (uint64_t)across << 32 | index,
                           .name = kb_intern_id(&f->texts, (kineto_string){name, (size_t)bytes}),
                           .description = kb_intern_id(&f->texts, kind),
                           .size = size};
}

void rank_generators_start(const rank_job *job, rank_generator *of, ka_rank_source *sources)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        rank_generator *g = &of[r];
        ka_rank_facts *f = &g->head;
        *g = (rank_generator){.job = *job, .rank = r};
        char host[32];
        int bytes = snprintf(host, sizeof host, "node%05u", r / HOST_RANKS);
        (void)kb_intern_id(&f->texts, (kineto_string){"", 0});
        f->host = kb_intern_id(&f->texts, (kineto_string){host, (size_t)bytes});
        f->rank = (int32_t)r;
        f->on_host = job->on_host;
        f->world_size = (int32_t)job->ranks;
        f->step_count = job->steps;
        f->start_ns = f->begin_ns = on_clock(r, 0);
        f->end_ns = on_clock(r, job->steps * step_ns(job));
        (void)kb_vec_push(&f->groups, make_group(f, false, r / HOST_RANKS, HOST_RANKS));
        (void)kb_vec_push(&f->groups, make_group(f, true, r % HOST_RANKS, job->ranks / HOST_RANKS));
        sources[r] = (ka_rank_source){.head = f, .row_count = job->steps * job->rows_of_step + 1, .read = read_rows, .context = g};
    }
}

void rank_generators_free(rank_generator *of, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        kb_vec_free(&of[r].head.groups);
        kb_intern_free(&of[r].head.texts);
    }
}

ka_rank_facts *rank_generator_facts(rank_generator *g)
{
    uint32_t count = g->job.steps * g->job.rows_of_step + 1;
    ka_rank_facts *f = malloc(sizeof *f);
    if (!f)
        return NULL;
    memcpy(f, &g->head, sizeof *f);
    memset(&f->rows, 0, sizeof f->rows);
    if (!kb_vec_reserve(&f->rows, count)) {
        free(f);
        return NULL;
    }
    f->rows.count = count;
    (void)read_rows(g, 0, 0, count, f->rows.data, NULL);
    return f;
}

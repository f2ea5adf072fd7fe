/* Makes the facts of a rank: its work in the order of launch, cut at collectives.
 *
 * A part is what happens between two collectives in the order of launch. Its lengths (ka_comm) are
 * chosen so that the equations of rank_facts.h give the times of the trace exactly: time that nothing
 * explains is counted as computation. */
#include "analyze/ranks/host_calls.h"
#include "analyze/ranks/only_group.h"
#include "trace/import/import.h"

#include <ckineto/files.h>

/* Times of a device and of its events agree up to this. */
#define TOLERANCE_NS 1000
/* Between the end of what was waited for and the start of what waited. */
#define WAKE_NS 20000
/* Collectives that are looked at as what computation may wait for: the last ones. */
#define MAX_RUNNING 64u

/* Computation since the last collective. */
typedef struct piece {
    int64_t launch_ns; /* KA_UNKNOWN_NUMBER: not known */
    int64_t cost_ns;   /* its time, and gaps before it that nothing explains */
} piece;

/* A collective that ended; `piece` is the first computation that may have waited for it. */
typedef struct ended_row {
    uint32_t row, piece;
} ended_row;

typedef struct mapping {
    const ka_dataset *s;
    ka_rank_facts *out;
    ka_collective_reader reader;
    ka_only_group only;
    kb_map group_at;               /* id → index of groups */
    kb_map counts;                 /* id → collectives so far, for those without numbers */
    uint32_t *order;               /* indexes of work, by launch */
    KB_VEC(piece) pieces;
    KB_VEC(ended_row) ended;           /* whose waits end in this part */
    KB_VEC(uint32_t) running;      /* rows after which no computation was seen yet */
    int32_t *last_of;              /* by stream: its last row */
    KB_VEC(uint32_t) streams;
    KB_VEC(ka_span) syncs;         /* calls that wait for the device, by end */
    size_t next_sync;
    int64_t computed_ns;           /* end of the computation so far; INT64_MIN: none */
    bool no_memory;
} mapping;

/* When the host launched a work; KA_UNKNOWN_NUMBER: no call is recorded for it. */
static int64_t launch_ns(const mapping *m, const ka_work *w)
{
    return w->call == KA_NONE ? KA_UNKNOWN_NUMBER : m->s->slices[w->call].start_ns;
}

/* By launch; where that is not known by start, and of equal ones by start and place in the trace. */
static int compare_launches(const void *left, const void *right, void *context)
{
    const mapping *m = context;
    const ka_work *a = &m->s->work[*(const uint32_t *)left], *b = &m->s->work[*(const uint32_t *)right];
    int64_t at_a = launch_ns(m, a), at_b = launch_ns(m, b);
    at_a = at_a == KA_UNKNOWN_NUMBER ? a->start_ns : at_a;
    at_b = at_b == KA_UNKNOWN_NUMBER ? b->start_ns : at_b;
    if (at_a != at_b)
        return at_a < at_b ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a > b) - (a < b);
}

/* ---- groups ---------------------------------------------------------------------------------- */

static uint32_t keep_text(mapping *m, kineto_string text)
{
    uint32_t id = kb_intern_id(&m->out->texts, text);
    m->no_memory |= id == KB_INTERN_NONE;
    return id == KB_INTERN_NONE ? 0 : id;
}

static uint32_t keep_group(mapping *m, const ka_comm_group *g)
{
    bool created;
    uint64_t *at = kb_map_insert(&m->group_at, g->id, m->out->groups.count, &created);
    if (!at || (created && !kb_vec_push(&m->out->groups, (*g)))) {
        m->no_memory = true;
        return 0;
    }
    return (uint32_t)*at;
}

static uint64_t hash_text(uint64_t seed, kineto_string text)
{
    return kb_hash_seeded(seed, text.data, text.size);
}

/* The pair of ranks in its direction. False: the peer is not known. */
static bool name_pair(const mapping *m, const ka_collective_args *c, ka_comm_group *g)
{
    int64_t pair[2] = {m->out->rank, c->destination};
    if (c->op == KA_OP_RECV || c->destination == KA_UNKNOWN_NUMBER) {
        pair[0] = c->source;
        pair[1] = m->out->rank;
    }
    if (pair[0] < 0 || pair[1] < 0)
        return false;
    g->id = kb_hash_seeded(2, pair, sizeof pair);
    g->size = 2;
    return true;
}

/* The group of a collective; its id is equal on all ranks: of the name and members that the arguments give, or of the
 * only group that the header lists. Without both, those of a stream are taken for one group's, and streams are numbered
 * as they come: that is right if all ranks use them alike. */
static ka_comm_group name_group(mapping *m, const ka_collective_args *c, uint32_t stream)
{
    const kb_intern *texts = &m->reader.texts;
    kineto_string name = kb_intern_get(texts, c->group), members = kb_intern_get(texts, c->members);
    ka_comm_group g = {.name = keep_text(m, name),
                       .members = keep_text(m, members),
                       .description = keep_text(m, kb_intern_get(texts, c->description)),
                       .size = c->ranks > 0 && c->ranks < UINT32_MAX ? (uint32_t)c->ranks : 0};
    if (ka_is_message(c->op) && name_pair(m, c, &g))
        return g;
    if (!name.size && m->only.size) {
        g.id = hash_text(4, m->only.members);
        g.name = keep_text(m, m->only.name);
        g.size = m->only.size;
        return g;
    }
    uint32_t nth = 0; /* of the streams that communicate */
    while (nth < m->streams.count && m->streams.data[nth] != stream)
        nth++;
    if (nth == m->streams.count)
        m->no_memory |= !kb_vec_push(&m->streams, stream);
    g.id = name.size ? hash_text(hash_text(1, name), members) : kb_hash_seeded(3, &nth, sizeof nth);
    return g;
}

/* The number of the collective in its group, and whether it was counted here. Messages are always
 * counted: both sides number what they send and receive together. */
static uint32_t number_comm(mapping *m, const ka_collective_args *c, const ka_comm_group *g, ka_comm *row)
{
    uint64_t key[] = {g->id, row->step};
    bool has_number = c->sequence >= 0 && c->sequence < KA_NO_SEQUENCE && !ka_is_message(c->op);
    if (has_number)
        return (uint32_t)c->sequence;
    uint64_t *count = kb_map_insert(&m->counts, kb_hash(key, sizeof key), 0, NULL);
    m->no_memory |= !count;
    row->flags |= ka_is_message(c->op) ? 0 : KA_COMM_BY_ORDER;
    return count ? (uint32_t)(*count)++ : 0;
}

/* ---- computation ----------------------------------------------------------------------------- */

/* What ended before `w` may be what it waited for; it certainly is if the device was idle until
 * then. Returns the end of that, or INT64_MIN. */
static int64_t take_waits(mapping *m, const ka_work *w, int64_t launched_ns)
{
    ka_comm *rows = m->out->rows.data;
    int64_t latest_ns = INT64_MIN;
    uint32_t latest = 0;
    for (size_t i = 0; i < m->running.count;) {
        uint32_t row = m->running.data[i];
        if (rows[row].end_ns > w->start_ns + TOLERANCE_NS) {
            i++;
            continue;
        }
        m->running.data[i] = m->running.data[--m->running.count];
        m->no_memory |= !kb_vec_push(&m->ended, ((ended_row){row, (uint32_t)m->pieces.count}));
        if (rows[row].end_ns > latest_ns) {
            latest_ns = rows[row].end_ns;
            latest = row;
        }
    }
    bool was_idle = latest_ns > m->computed_ns && latest_ns >= launched_ns;
    if (latest_ns == INT64_MIN || !was_idle || w->start_ns - latest_ns > WAKE_NS)
        return INT64_MIN;
    rows[latest].flags |= KA_COMM_WAITED;
    return latest_ns;
}

/* Its cost begins where the device was free for it, or where it was launched. */
static void see_computation(mapping *m, const ka_work *w)
{
    int64_t launch = launch_ns(m, w), begin = m->computed_ns;
    int64_t launched = launch == KA_UNKNOWN_NUMBER ? INT64_MIN : ka_add_ns(launch, m->out->latency_ns);
    int64_t waited = take_waits(m, w, launched);
    if (begin == INT64_MIN && waited == INT64_MIN)
        begin = w->start_ns;
    if (begin < w->start_ns)
        begin = KB_MIN(KB_MAX(begin, KB_MAX(waited, launched)), w->start_ns);
    piece p = {launch, w->end_ns > begin ? kb_length_ns(begin, w->end_ns) : 0};
    m->no_memory |= !kb_vec_push(&m->pieces, p);
    m->computed_ns = KB_MAX(m->computed_ns, w->end_ns);
}

/* ---- the end of a part ----------------------------------------------------------------------- */

/* Turns the cost of each piece into what is left from its begin to the end of the part. */
static void sum_rests(mapping *m)
{
    int64_t rest = 0;
    for (size_t i = m->pieces.count; i-- > 0;)
        rest = m->pieces.data[i].cost_ns = ka_add_ns(rest, m->pieces.data[i].cost_ns);
}

/* Sets, for the collectives after which computation of this part began, the row that this computation is for, and how
 * much of it was left at their end, ns. One that ended after the row was ready did not hold it up. */
static void end_waits(mapping *m, const ka_comm *row, uint32_t index)
{
    for (size_t i = 0; i < m->ended.count; i++) {
        ended_row e = m->ended.data[i];
        ka_comm *of = &m->out->rows.data[e.row];
        int64_t rest = e.piece < m->pieces.count ? m->pieces.data[e.piece].cost_ns : 0;
        if (of->end_ns > row->ready_ns)
            continue;
        of->wait_row = (int32_t)index;
        of->wait_ns = KB_MIN(rest, kb_length_ns(of->end_ns, row->ready_ns));
    }
}

/* Has the host waited for the device since the last launch of a collective, before `ns`? */
static bool synchronized_by(const mapping *m, int64_t ns)
{
    return m->next_sync < m->syncs.count && m->syncs.data[m->next_sync].end_ns <= ns;
}

/* When the part was done at the earliest by what was launched in it: the launch after which most is
 * left to do counts. */
static void set_late(mapping *m, ka_comm *row, const ka_comm *before)
{
    int64_t done = INT64_MIN, rest = 0, launch = 0;
    for (size_t i = 0; i < m->pieces.count; i++) {
        const piece *p = &m->pieces.data[i];
        if (p->launch_ns == KA_UNKNOWN_NUMBER)
            continue;
        int64_t by = ka_add_ns(ka_add_ns(p->launch_ns, m->out->latency_ns), p->cost_ns);
        rest = by > done ? p->cost_ns : rest;
        launch = by > done ? p->launch_ns : launch;
        done = KB_MAX(done, by);
    }
    row->late_ns = KA_UNKNOWN_NUMBER;
    if (!before && !(row->flags & KA_COMM_NO_LAUNCH))
        done = row->ready_ns; /* what the rank begins with moves with its launch */
    if (done == INT64_MIN || (((before ? before->flags : 0) | row->flags) & KA_COMM_NO_LAUNCH))
        return;
    row->late_rest_ns = rest;
    row->flags |= !before || synchronized_by(m, launch) ? KA_COMM_LATE_OWN : 0;
    row->late_ns = ka_add_ns(ka_add_ns(KB_MIN(done, row->ready_ns), -rest),
                             -(row->flags & KA_COMM_LATE_OWN ? row : before)->host_at_ns);
}

/* Was the row ready exactly when the computation after a collective that it waited for was done? */
static bool is_binding(const mapping *m, const ka_comm *row)
{
    for (size_t i = 0; i < m->ended.count; i++) {
        const ka_comm *of = &m->out->rows.data[m->ended.data[i].row];
        if ((of->flags & KA_COMM_WAITED) && ka_add_ns(of->end_ns, of->wait_ns) == row->ready_ns)
            return true;
    }
    return false;
}

/* The part before `row` is complete. What neither computation, launches nor waiting explains is
 * taken for computation. */
static void end_part(mapping *m, ka_comm *row, uint32_t index)
{
    const ka_comm *before = index ? &m->out->rows.data[index - 1] : NULL;
    sum_rests(m);
    end_waits(m, row, index);
    set_late(m, row, before);
    int64_t length = before ? kb_length_ns(before->ready_ns, row->ready_ns) : 0;
    int64_t work = m->pieces.count ? m->pieces.data[0].cost_ns : 0;
    bool by_host = before && row->late_ns != KA_UNKNOWN_NUMBER &&
                   (row->flags & KA_COMM_LATE_OWN ? row : before)->host_at_ns + row->late_ns + row->late_rest_ns ==
                       row->ready_ns;
    row->work_ns = by_host || is_binding(m, row) ? KB_MIN(work, length) : length;
    if (!before) /* replayed as what follows its launch */
        row->work_ns = work;
    m->pieces.count = m->ended.count = 0;
}

/* ---- the host -------------------------------------------------------------------------------- */

/* Calls of the runtime or the driver that wait have "ynchronize" in their names:
 * cudaStreamSynchronize, cuCtxSynchronize. */
static bool waits_for_device(const ka_dataset *s, const ka_slice *slice)
{
    kineto_string name = ka_name(s, slice->name);
    return (slice->kind == KINETO_KIND_RUNTIME || slice->kind == KINETO_KIND_DRIVER) &&
           memmem(name.data, name.size, "ynchronize", 10) != NULL;
}

static int compare_ends(const void *left, const void *right)
{
    const ka_span *a = left, *b = right;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* Work of each step: its last launch and its end; start_ns is INT64_MIN without any. */
static void find_step_work(const ka_dataset *s, ka_span *of)
{
    for (uint32_t i = 0; i < s->step_count; i++)
        of[i] = (ka_span){INT64_MIN, INT64_MIN};
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (w->step < 0 || w->call == KA_NONE)
            continue;
        of[w->step].start_ns = KB_MAX(of[w->step].start_ns, s->slices[w->call].start_ns);
        of[w->step].end_ns = KB_MAX(of[w->step].end_ns, w->end_ns);
    }
}

/* Steps that nearly all end just after their work: each ends with a call that waits for it, even if
 * the call was not recorded. */
#define STEP_SYNC_NS    500000 /* from the end of the last work to that of its step */
#define SYNC_SHARE 0.8         /* of the steps with work: "nearly all" */
static void list_step_ends(mapping *m)
{
    const ka_dataset *s = m->s;
    ka_span *of = malloc(((size_t)s->step_count + 1) * sizeof *of);
    uint32_t with_work = 0, ends_after = 0;
    m->no_memory |= !of;
    if (!of)
        return;
    find_step_work(s, of);
    for (uint32_t i = 0; i < s->step_count; i++) {
        int64_t after = of[i].start_ns == INT64_MIN ? -1 : s->steps[i].end_ns - of[i].end_ns;
        with_work += of[i].start_ns > INT64_MIN;
        ends_after += after >= 0 && after <= STEP_SYNC_NS;
    }
    for (uint32_t i = 0; i < s->step_count && ends_after >= SYNC_SHARE * with_work; i++)
        if (of[i].start_ns > INT64_MIN && s->steps[i].end_ns >= of[i].end_ns)
            m->no_memory |= !kb_vec_push(&m->syncs, ((ka_span){of[i].start_ns, s->steps[i].end_ns}));
    free(of);
}

/* All times in which the host waited for the device: recorded calls, and the ends of steps, by end, since each
 * belongs to the first launch after it. */
static void list_syncs(mapping *m)
{
    for (uint32_t i = 0; i < m->s->slice_count; i++) {
        const ka_slice *slice = &m->s->slices[i];
        if (waits_for_device(m->s, slice))
            m->no_memory |= !kb_vec_push(&m->syncs, ((ka_span){slice->start_ns, slice->end_ns}));
    }
    list_step_ends(m);
    if (m->syncs.count)
        qsort(m->syncs.data, m->syncs.count, sizeof *m->syncs.data, compare_ends);
}

/* The collective that ended last before `ns`; of the last 64. */
static int32_t find_last_ended(const mapping *m, uint32_t before, int64_t ns)
{
    const ka_comm *rows = m->out->rows.data;
    int32_t found = KA_NO_COMM;
    for (uint32_t i = before, left = 64; i-- > 0 && left--;)
        if (rows[i].end_ns <= ns && (found == KA_NO_COMM || rows[i].end_ns > rows[found].end_ns))
            found = (int32_t)i;
    return found;
}

/* From the launch before: the host's own time, and what it waited for. After a wait, the row that ended last before
 * (sync_row) is what was waited for, and sync_ns is from its end to this launch; host_ns is the time since the
 * launch before, without the waits. */
static void set_host(mapping *m, ka_comm *row, uint32_t index)
{
    const ka_comm *before = index ? &m->out->rows.data[index - 1] : NULL;
    int64_t waited = 0, end = INT64_MIN;
    row->sync_row = KA_NO_COMM;
    if (row->flags & KA_COMM_NO_LAUNCH)
        return;
    for (; m->next_sync < m->syncs.count && m->syncs.data[m->next_sync].end_ns <= row->host_at_ns; m->next_sync++) {
        ka_span sync = m->syncs.data[m->next_sync];
        int64_t from = before ? KB_MAX(sync.start_ns, before->host_at_ns) : sync.start_ns;
        waited = sync.end_ns > from ? ka_add_ns(waited, kb_length_ns(from, sync.end_ns)) : waited;
        end = sync.end_ns;
    }
    if (!before) {
        row->host_ns = row->host_at_ns > m->out->begin_ns ? kb_length_ns(m->out->begin_ns, row->host_at_ns) : 0;
        return;
    }
    if (before->flags & KA_COMM_NO_LAUNCH)
        return;
    int64_t length = row->host_at_ns > before->host_at_ns ? kb_length_ns(before->host_at_ns, row->host_at_ns) : 0;
    row->host_ns = length;
    row->sync_row = end > INT64_MIN ? find_last_ended(m, index, end) : KA_NO_COMM;
    if (row->sync_row == KA_NO_COMM)
        return;
    row->sync_ns = kb_length_ns(m->out->rows.data[row->sync_row].end_ns, row->host_at_ns);
    row->host_ns = KB_MAX(length - waited, 0);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Ends the part before a row, and appends it.
 * @param stream of it; KA_NONE: it is the end of the rank. */
static void append_row(mapping *m, ka_comm *row, uint32_t stream)
{
    ka_rank_facts *f = m->out;
    uint32_t index = (uint32_t)f->rows.count;
    row->wait_row = KA_NO_COMM;
    end_part(m, row, index);
    set_host(m, row, index);
    if (m->running.count == MAX_RUNNING) {
        m->running.count--;
        memmove(m->running.data, m->running.data + 1, m->running.count * sizeof *m->running.data);
    }
    m->no_memory |= !kb_vec_push(&f->rows, (*row)) || !kb_vec_push(&m->running, index);
    if (stream != KA_NONE)
        m->last_of[stream] = (int32_t)index;
}

/* A collective that began as one of another stream ended waited for that. Of the last 64. */
static int32_t find_after(const mapping *m, const ka_comm *row)
{
    const ka_comm *rows = m->out->rows.data;
    int64_t free_ns = row->previous == KA_NO_COMM ? INT64_MIN : rows[row->previous].end_ns;
    if (!(row->flags & KA_COMM_FREE))
        free_ns = KB_MAX(free_ns, row->ready_ns);
    for (uint32_t j = (uint32_t)m->out->rows.count, left = 64; j-- > 0 && left--;)
        if ((int32_t)j != row->previous && !(rows[j].flags & KA_COMM_PART) && rows[j].end_ns > free_ns &&
            rows[j].end_ns <= row->start_ns + TOLERANCE_NS && row->start_ns - rows[j].end_ns <= WAKE_NS)
            return (int32_t)j;
    return KA_NO_COMM;
}

static uint32_t step_number(const ka_dataset *s, int32_t step)
{
    return step < 0 ? UINT32_MAX : (uint32_t)KB_MIN(s->steps[step].number, UINT32_MAX - 1);
}

/* Times of a collective before its part is ended. One that begins before the computation launched before it is done did
 * not wait for it (KA_COMM_FREE), as of another stream. */
static ka_comm begin_comm(const mapping *m, const ka_work *w)
{
    int64_t launch = launch_ns(m, w);
    bool known = launch != KA_UNKNOWN_NUMBER && launch <= w->start_ns;
    size_t rows = m->out->rows.count;
    int64_t computed = m->computed_ns;
    if (computed == INT64_MIN) /* nothing was computed yet */
        computed = rows ? m->out->rows.data[rows - 1].ready_ns : w->start_ns;
    bool is_free = m->computed_ns == INT64_MIN || computed > w->start_ns + TOLERANCE_NS;
    return (ka_comm){.start_ns = w->start_ns,
                     .end_ns = w->end_ns,
                     .ready_ns = is_free ? computed : KB_MIN(computed, w->start_ns),
                     .host_at_ns = known ? launch : w->start_ns,
                     .previous = m->last_of[w->stream],
                     .after = KA_NO_COMM,
                     .wait_row = KA_NO_COMM,
                     .sync_row = KA_NO_COMM,
                     .step = step_number(m->s, w->step),
                     .flags = (uint8_t)((known ? 0 : KA_COMM_NO_LAUNCH) | (is_free ? KA_COMM_FREE : 0))};
}

/* Group, number and size of one collective or message of a kernel. */
static void name_comm(mapping *m, const ka_collective_args *args, uint32_t stream, ka_comm *row)
{
    ka_comm_group g = name_group(m, args, stream);
    row->op = (uint8_t)args->op;
    row->elements = (uint64_t)KB_MAX(KB_MAX(args->in, args->out), 0);
    row->received = (uint64_t)KB_MAX(args->out, 0);
    row->sequence = number_comm(m, args, &g, row);
    row->group = keep_group(m, &g);
}

/* A further message of the kernel of the last row. */
static void append_part(mapping *m, const ka_collective_args *args, uint32_t stream)
{
    ka_comm row = m->out->rows.data[m->out->rows.count - 1];
    row.flags = (uint8_t)((row.flags & KA_COMM_NO_LAUNCH) | KA_COMM_PART);
    row.work_ns = row.host_ns = row.sync_ns = row.wait_ns = row.late_rest_ns = 0;
    row.late_ns = KA_UNKNOWN_NUMBER;
    row.wait_row = row.sync_row = KA_NO_COMM;
    name_comm(m, args, stream, &row);
    m->no_memory |= !kb_vec_push(&m->out->rows, row);
}

/* A collective, or the messages of a kernel: the first one has the times of the kernel, the others are parts of it. */
#define MAX_MESSAGES 32
static void see_collective(mapping *m, const ka_work *w)
{
    ka_collective_args all[MAX_MESSAGES];
    uint32_t count = ka_read_messages(&m->reader, w, all, MAX_MESSAGES);
    if (!count)
        all[count++] = ka_read_collective(&m->reader, w);
    ka_comm row = begin_comm(m, w);
    name_comm(m, &all[0], w->stream, &row);
    row.after = find_after(m, &row);
    append_row(m, &row, w->stream);
    for (uint32_t i = 1; i < count; i++)
        append_part(m, &all[i], w->stream);
}

/* The last launch of computation after the last collective; KA_UNKNOWN_NUMBER: there is none. */
static int64_t last_launch(const mapping *m)
{
    return m->pieces.count ? m->pieces.data[m->pieces.count - 1].launch_ns : KA_UNKNOWN_NUMBER;
}

/* The end of a rank's work: a row without a group (KA_COMM_LAST), ready when the computation is done. */
static void append_end(mapping *m)
{
    const ka_rank_facts *f = m->out;
    int64_t end = KB_MAX(m->computed_ns, f->start_ns), launch = last_launch(m);
    bool known = launch != KA_UNKNOWN_NUMBER && launch <= end;
    ka_comm row = {.start_ns = end,
                   .end_ns = end,
                   .ready_ns = end,
                   .host_at_ns = known ? launch : end,
                   .group = KA_NONE,
                   .sequence = KA_NO_SEQUENCE,
                   .previous = KA_NO_COMM,
                   .after = KA_NO_COMM,
                   .step = UINT32_MAX,
                   .flags = (uint8_t)(KA_COMM_LAST | (known ? 0 : KA_COMM_NO_LAUNCH))};
    append_row(m, &row, KA_NONE);
}

/* ---- all of a rank --------------------------------------------------------------------------- */

/* -1: not known, or several. */
static int64_t find_only_device(const ka_dataset *s)
{
    int64_t device = -1;
    for (uint32_t i = 0; i < s->work_count; i++) {
        int64_t of_work = s->streams[s->work[i].stream].device;
        if (of_work < 0 || (device >= 0 && of_work != device))
            return -1;
        device = of_work;
    }
    return device;
}

/* Copies on streams of their own do not belong to the chain of computation; on the main stream they do,
 * since computation waits for them. */
static bool is_computation(const ka_work *w, uint32_t main_stream)
{
    return w->type == KA_TYPE_COMPUTATION || w->stream == main_stream;
}

/* The stream with most computation. Sets begin and end of the work, and the latency of a launch: the least that any
 * work took from its launch to its start, ns. */
static uint32_t find_main_stream(const ka_dataset *s, ka_rank_facts *f)
{
    int64_t *sums = calloc((size_t)s->stream_count + 1, sizeof *sums);
    uint32_t best = 0;
    f->latency_ns = INT64_MAX;
    f->start_ns = INT64_MAX;
    f->end_ns = INT64_MIN;
    for (uint32_t i = 0; sums && i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (w->type == KA_TYPE_COMPUTATION)
            sums[w->stream] = ka_add_ns(sums[w->stream], ka_work_ns(w));
        best = sums[w->stream] > sums[best] ? w->stream : best;
        if (w->call != KA_NONE && s->slices[w->call].start_ns <= w->start_ns)
            f->latency_ns = KB_MIN(f->latency_ns, kb_length_ns(s->slices[w->call].start_ns, w->start_ns));
        f->start_ns = KB_MIN(f->start_ns, w->start_ns);
        f->end_ns = KB_MAX(f->end_ns, w->end_ns);
    }
    f->latency_ns = f->latency_ns == INT64_MAX ? 0 : f->latency_ns;
    if (!s->work_count) { /* the host's times; there are no others */
        f->start_ns = s->start_ns;
        f->end_ns = s->end_ns;
    }
    free(sums);
    return best;
}

static bool has_collectives(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->work_count; i++)
        if (s->work[i].type == KA_TYPE_COMMUNICATION)
            return true;
    return false;
}

/* Times come from files and may be anything. In a run of less than a year between these dates, sums and differences
 * of times do not overflow. */
static bool has_plausible_times(const ka_dataset *s)
{
    static const int64_t first = -(INT64_C(1) << 60), last = INT64_C(1) << 62, most = INT64_C(1) << 55;
    return s->start_ns >= first && s->end_ns <= last && s->end_ns - s->start_ns <= most;
}

static bool map_work(mapping *m)
{
    const ka_dataset *s = m->s;
    uint32_t main_stream = find_main_stream(s, m->out);
    bool is_plausible = has_plausible_times(s);
    if (!is_plausible)
        m->out->start_ns = m->out->end_ns = m->out->begin_ns = 0;
    bool on_device = is_plausible && has_collectives(s);
    if (is_plausible && !on_device && !ka_map_host(s, m->out))
        return false;
    if (m->out->on_host)
        return !m->no_memory;
    if (!on_device) { /* nothing to cut the chains at */
        m->computed_ns = m->out->end_ns;
        append_end(m);
        return !m->no_memory;
    }
    m->order = malloc(((size_t)s->work_count + 1) * sizeof *m->order);
    m->last_of = malloc(((size_t)s->stream_count + 1) * sizeof *m->last_of);
    if (!m->order || !m->last_of)
        return false;
    for (uint32_t i = 0; i < s->stream_count; i++)
        m->last_of[i] = KA_NO_COMM;
    for (uint32_t i = 0; i < s->work_count; i++)
        m->order[i] = i;
    if (s->work_count)
        qsort_r(m->order, s->work_count, sizeof *m->order, compare_launches, m);
    list_syncs(m);
    for (uint32_t i = 0; i < s->work_count && !m->no_memory; i++) {
        const ka_work *w = &s->work[m->order[i]];
        if (w->type == KA_TYPE_COMMUNICATION)
            see_collective(m, w);
        else if (is_computation(w, main_stream))
            see_computation(m, w);
    }
    append_end(m);
    return !m->no_memory && !m->reader.no_memory;
}

static void free_mapping(mapping *m)
{
    ka_collective_reader_free(&m->reader);
    kb_map_free(&m->group_at);
    kb_map_free(&m->counts);
    kb_vec_free(&m->pieces);
    kb_vec_free(&m->ended);
    kb_vec_free(&m->running);
    kb_vec_free(&m->streams);
    kb_vec_free(&m->syncs);
    free(m->order);
    free(m->last_of);
}

kineto_status ka_rank_facts_create(const ka_dataset *s, ka_rank_facts **out, kineto_error *err)
{
    kineto_identity identity = {.size = sizeof identity};
    mapping m = {.s = s, .out = calloc(1, sizeof(ka_rank_facts)), .computed_ns = INT64_MIN};
    *out = NULL;
    if (!m.out)
        return kb_fail_memory(err, NULL);
    atomic_init(&m.out->references, 1);
    kineto_trace_identity(s->trace, NULL, &identity);
    m.out->rank = s->rank;
    m.out->world_size = identity.world_size;
    m.out->device = find_only_device(s);
    m.out->is_dump = kt_is_of_flight_recorder(s->trace);
    (void)keep_text(&m, (kineto_string){"", 0});
    m.out->host = keep_text(&m, kb_string(identity.host));
    m.out->step_count = s->step_count;
    m.out->begin_ns = s->step_count ? s->steps[0].start_ns : s->start_ns;
    ka_collective_reader_create(&m.reader, s);
    m.only = ka_find_only_group(s->trace);
    bool ok = map_work(&m);
    free_mapping(&m);
    if (ok) {
        *out = m.out;
        return KINETO_OK;
    }
    ka_rank_facts_release(m.out);
    return kb_fail_memory(err, NULL);
}

ka_rank_facts *ka_rank_facts_retain(ka_rank_facts *f)
{
    atomic_fetch_add_explicit(&f->references, 1, memory_order_relaxed);
    return f;
}

void ka_rank_facts_release(ka_rank_facts *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->references, 1, memory_order_acq_rel) != 1)
        return;
    kb_vec_free(&f->groups);
    kb_vec_free(&f->rows);
    kb_intern_free(&f->texts);
    free(f);
}

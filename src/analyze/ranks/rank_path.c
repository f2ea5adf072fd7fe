/* Walks back from the last end of a run. At each moment one thing is being waited for: the transfer of a collective,
 * the computation of a rank, its launch, or its stream; the walk goes on where that began. A row is passed at most
 * once in each state, so that the walk ends whatever the traces say; the parts add up to the run in any case. */
#include "analyze/ranks/rank_path.h"
#include "analyze/ranks/rank_waits.h"

/* What the walk has come to at `row`: its end, its begin, the end of the computation before it (ready), its launch;
 * AT_START: the walk is done. "Critical path" in ranks.md says what each of them waited for. */
typedef enum walk_state { AT_END, AT_BEGIN, AT_READY, AT_HOST, AT_START } walk_state;

typedef struct walk {
    const ka_rank_model *m;
    ka_rank_path *out;
    ka_waited_rows waited;
    uint8_t *passed; /* by row: a bit for each state */
    int64_t now_ns;  /* what is later is explained */
    uint32_t row;
    walk_state state;
    bool no_memory;
} walk;

const char *ka_path_kind_name(ka_path_kind kind)
{
    static const char *const names[] = {"device", "host", "transfer", "queue", "unknown"};
    return names[kind];
}

/* Ranks of another run, and hosts that nothing connects with the others, are left out. */
static bool is_on_clock(const ka_rank_model *m, uint32_t row) { return m->domain[m->rank_of[row]] != KA_NONE; }

bool ka_find_run_window(const ka_rank_model *m, int64_t *start_ns, int64_t *end_ns)
{
    *start_ns = INT64_MAX;
    *end_ns = INT64_MIN;
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->domain[r] != KA_NONE && m->base[r + 1] > m->base[r] + 1)
            *start_ns = KB_MIN(*start_ns, ka_align_moment(m, m->base[r], m->facts[r]->start_ns));
    for (uint32_t row = 0; row < m->row_count; row++)
        if (is_on_clock(m, row))
            *end_ns = KB_MAX(*end_ns, m->end_ns[row]);
    return *start_ns < *end_ns;
}

/* ---- one step back --------------------------------------------------------------------------- */

/* Of the same rank, too. */
static bool is_same_step(const ka_rank_model *m, uint32_t row, uint32_t other)
{
    return m->rank_of[row] == m->rank_of[other] && ka_model_row(m, row)->step == ka_model_row(m, other)->step;
}

/* What is between `from_ns` and now is of this kind. */
static void explain_since(walk *w, ka_path_kind kind, int64_t from_ns, uint32_t group, bool is_ambiguous)
{
    int64_t from = KB_MAX(KB_MIN(from_ns, w->now_ns), w->out->start_ns);
    if (from == w->now_ns)
        return;
    ka_path_part *later = w->out->parts.count ? &w->out->parts.data[w->out->parts.count - 1] : NULL;
    if (later && kind != KA_PATH_TRANSFER && later->kind == kind && is_same_step(w->m, later->row, w->row)) {
        later->start_ns = w->now_ns = from;
        return;
    }
    ka_path_part part = {.start_ns = from, .end_ns = w->now_ns, .row = w->row, .rank = w->m->rank_of[w->row],
                         .group = group, .kind = kind, .is_ambiguous = is_ambiguous};
    w->no_memory |= !kb_vec_push(&w->out->parts, part);
    w->now_ns = from;
}

static void go_to(walk *w, walk_state state, uint32_t row)
{
    w->state = state;
    w->row = row;
}

/* The whole rest is of this kind: nothing before it is known. */
static void explain_all(walk *w, ka_path_kind kind)
{
    explain_since(w, kind, w->out->start_ns, KA_NONE, false);
    w->state = AT_START;
}

/* The row of any rank that ended last before now; KA_NONE. */
static uint32_t find_end_before(const walk *w)
{
    const ka_rank_model *m = w->m;
    uint32_t found = KA_NONE;
    for (uint32_t row = 0; row < m->row_count; row++)
        if (is_on_clock(m, row) && m->end_ns[row] < w->now_ns && !(ka_model_row(m, row)->flags & KA_COMM_LAST) &&
            (found == KA_NONE || m->end_ns[row] > m->end_ns[found]))
            found = row;
    return found;
}

/* The trace of the rank begins here. If others have rows before, it was cut, and the walk goes on with these. */
static void pass_first(walk *w, ka_path_kind kind)
{
    const ka_rank_model *m = w->m;
    uint32_t rank = m->rank_of[w->row];
    explain_since(w, kind, ka_align_moment(m, m->base[rank], m->facts[rank]->start_ns), KA_NONE, false);
    uint32_t before = find_end_before(w);
    if (before == KA_NONE) {
        explain_all(w, kind);
        return;
    }
    explain_since(w, KA_PATH_UNKNOWN, m->end_ns[before], KA_NONE, false);
    go_to(w, AT_END, before);
}

/* Who arrived last at a collective. */
typedef struct last_arrival {
    int64_t ns;
    uint32_t row, group;
    bool is_ambiguous;
} last_arrival;

/* Of the instance of a row, among the ranks that are there; the row itself if its instance is not joined. */
static last_arrival find_last_arrival(const ka_rank_model *m, uint32_t row)
{
    last_arrival a = {m->start_ns[row], row, m->group_of[row], false};
    const ka_instance *x = m->instance_of[row] == KA_NONE ? NULL : &m->instances.data[m->instance_of[row]];
    if (!x || !ka_is_joined(x) || ka_leaves_early(m, row))
        return a;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t other = m->members[x->first + i];
        if (m->start_ns[other] > a.ns) {
            a.row = other;
            a.ns = m->start_ns[other];
        }
    }
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t other = m->members[x->first + i];
        a.is_ambiguous |= other != a.row && a.ns - m->start_ns[other] < ka_order_error(m, other, a.row);
    }
    return a;
}

/* A kernel with several messages waits for the latest of them. */
static void pass_end(walk *w)
{
    const ka_rank_model *m = w->m;
    uint32_t row = ka_main_row(m, w->row), end = m->base[m->rank_of[row] + 1];
    last_arrival last = find_last_arrival(m, row);
    while (++row < end && ka_model_row(m, row)->flags & KA_COMM_PART) {
        last_arrival other = find_last_arrival(m, row);
        last = other.ns > last.ns ? other : last;
    }
    w->row = ka_main_row(m, last.row);
    explain_since(w, KA_PATH_TRANSFER, last.ns, last.group, last.is_ambiguous);
    go_to(w, AT_BEGIN, w->row);
}

/* Without a device, computation is the host's. */
static ka_path_kind computation_of(const walk *w)
{
    return w->m->facts[w->m->rank_of[w->row]]->on_host ? KA_PATH_HOST : KA_PATH_DEVICE;
}

/* The latest of computation, launch and stream is what the row waited for; of equal ones the first in this order. */
static void pass_begin(walk *w)
{
    ka_begin_parts b = ka_find_begin_parts(w->m, w->row);
    if (b.ready_ns != KA_NO_MOMENT && b.ready_ns >= b.launch_ns && b.ready_ns >= b.stream_ns) {
        explain_since(w, computation_of(w), b.ready_ns, KA_NONE, false);
        go_to(w, AT_READY, w->row);
    } else if (b.launch_ns != KA_NO_MOMENT && b.launch_ns >= b.stream_ns) {
        explain_since(w, KA_PATH_HOST, ka_align_moment(w->m, w->row, ka_model_row(w->m, w->row)->host_at_ns), KA_NONE, false);
        go_to(w, AT_HOST, w->row);
    } else if (b.stream_row != KA_NONE) {
        explain_since(w, KA_PATH_QUEUE, b.stream_ns, KA_NONE, false);
        go_to(w, AT_END, b.stream_row);
    } else {
        pass_first(w, KA_PATH_UNKNOWN);
    }
}

/* Computation was done when the launch that held it up allowed it, or the result of a collective, or the computation
 * before it: the latest one decides. */
static void pass_ready(walk *w)
{
    const ka_rank_model *m = w->m;
    uint32_t row = w->row;
    bool is_first = row == m->base[m->rank_of[row]];
    ka_ready_parts r = ka_find_ready_parts(m, &w->waited, row);
    if (r.held_ns != KA_NO_MOMENT && r.held_ns >= r.chain_ns && r.held_ns >= r.waited_ns) {
        explain_since(w, computation_of(w), r.launch_ns, KA_NONE, false);
        bool is_own = is_first || ka_model_row(m, row)->flags & KA_COMM_LATE_OWN;
        uint32_t before = is_own ? row : row - 1;
        explain_since(w, KA_PATH_HOST, ka_align_moment(m, before, ka_model_row(m, before)->host_at_ns), KA_NONE, false);
        go_to(w, AT_HOST, before);
    } else if (r.waited_row != KA_NONE && r.waited_ns >= r.chain_ns) {
        explain_since(w, computation_of(w), m->end_ns[r.waited_row], KA_NONE, false);
        go_to(w, AT_END, r.waited_row);
    } else if (!is_first) {
        explain_since(w, computation_of(w), ka_align_moment(m, row - 1, ka_model_row(m, row - 1)->ready_ns), KA_NONE, false);
        go_to(w, AT_READY, row - 1);
    } else {
        pass_first(w, computation_of(w));
    }
}

/* The launch came after a wait for the device, or after the launch before it; rows without a known launch are passed
 * over. */
static void pass_host(walk *w)
{
    const ka_rank_model *m = w->m;
    const ka_comm *c = ka_model_row(m, w->row);
    uint32_t first = m->base[m->rank_of[w->row]], before = w->row;
    while (before > first && ka_model_row(m, before - 1)->flags & KA_COMM_NO_LAUNCH)
        before--;
    int64_t until = before > first ? ka_align_moment(m, before - 1, ka_model_row(m, before - 1)->host_at_ns) : KA_NO_MOMENT;
    uint32_t sync = c->sync_row == KA_NO_COMM ? KA_NONE : first + (uint32_t)c->sync_row;
    if (sync != KA_NONE && ka_add_ns(m->end_ns[sync], c->sync_ns) >= ka_add_ns(until, c->host_ns)) {
        explain_since(w, KA_PATH_HOST, m->end_ns[sync], KA_NONE, false);
        go_to(w, AT_END, sync);
    } else if (before > first) {
        explain_since(w, KA_PATH_HOST, until, KA_NONE, false);
        go_to(w, AT_HOST, before - 1);
    } else {
        pass_first(w, KA_PATH_HOST);
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The end of the rank that is done last. */
static void find_last_end(walk *w)
{
    const ka_rank_model *m = w->m;
    uint32_t found = KA_NONE;
    for (uint32_t row = 0; row < m->row_count; row++)
        if (is_on_clock(m, row) && (found == KA_NONE || m->end_ns[row] >= m->end_ns[found]))
            found = row;
    KB_ASSERT(found != KA_NONE); /* the run has a window */
    w->now_ns = m->end_ns[found];
    bool is_end = ka_model_row(m, found)->flags & KA_COMM_LAST;
    go_to(w, is_end ? AT_BEGIN : AT_END, found);
}

static void step_back(walk *w)
{
    uint8_t bit = (uint8_t)(1u << w->state);
    if (w->passed[w->row] & bit) { /* rows that wait for one another */
        explain_all(w, KA_PATH_UNKNOWN);
        return;
    }
    w->passed[w->row] |= bit;
    switch (w->state) {
    case AT_END: pass_end(w); break;
    case AT_BEGIN: pass_begin(w); break;
    case AT_READY: pass_ready(w); break;
    default: pass_host(w);
    }
}

static void reverse_parts(ka_rank_path *p)
{
    for (size_t i = 0, k = p->parts.count; i + 1 < k; i++) {
        ka_path_part part = p->parts.data[i];
        p->parts.data[i] = p->parts.data[--k];
        p->parts.data[k] = part;
    }
}

bool ka_find_rank_path(const ka_rank_model *m, ka_rank_path *p)
{
    *p = (ka_rank_path){0};
    if (m->refused[0] || !ka_find_run_window(m, &p->start_ns, &p->end_ns))
        return true;
    walk w = {.m = m, .out = p, .passed = calloc((size_t)m->row_count + 1, sizeof *w.passed)};
    if (!ka_waited_rows_create(m, &w.waited) || !w.passed)
        w.no_memory = true;
    else
        find_last_end(&w);
    while (!w.no_memory && w.state != AT_START && w.now_ns > p->start_ns)
        step_back(&w);
    reverse_parts(p);
    ka_waited_rows_free(&w.waited);
    free(w.passed);
    return !w.no_memory;
}

void ka_rank_path_free(ka_rank_path *p) { kb_vec_free(&p->parts); }

/* ---- shares ---------------------------------------------------------------------------------- */

int64_t ka_sum_path(const ka_path_share *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < KA_PATH_KINDS; i++)
        sum += s->ns[i];
    return sum;
}

static void add_path_part(ka_path_share *s, const ka_path_part *part, bool is_hop)
{
    s->ns[part->kind] += part->end_ns - part->start_ns;
    s->hops += is_hop;
    s->ambiguous += part->is_ambiguous;
}

/* Each part counts once in the run, and once for its rank and role, or for its group if it is a transfer. */
bool ka_share_rank_path(const ka_rank_model *m, const ka_rank_path *p, ka_path_shares *s)
{
    *s = (ka_path_shares){0};
    for (uint32_t r = 0; r < m->rank_count; r++)
        s->role_count = KB_MAX(s->role_count, m->role[r] + 1);
    s->rank = calloc((size_t)m->rank_count + 1, sizeof *s->rank);
    s->role = calloc((size_t)s->role_count + 1, sizeof *s->role);
    s->group = calloc(m->groups.count + 1, sizeof *s->group);
    if (!s->rank || !s->role || !s->group)
        return false;
    for (size_t i = 0; i < p->parts.count; i++) {
        const ka_path_part *part = &p->parts.data[i];
        bool is_hop = i > 0 && p->parts.data[i - 1].rank != part->rank;
        add_path_part(&s->run, part, is_hop);
        if (part->kind == KA_PATH_TRANSFER && part->group != KA_NONE) {
            add_path_part(&s->group[part->group], part, is_hop);
            continue;
        }
        add_path_part(&s->rank[part->rank], part, is_hop);
        add_path_part(&s->role[m->role[part->rank]], part, is_hop);
    }
    return true;
}

void ka_path_shares_free(ka_path_shares *s)
{
    free(s->rank);
    free(s->role);
    free(s->group);
    *s = (ka_path_shares){0};
}

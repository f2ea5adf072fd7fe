/* What differs between two runs across their ranks: who or what makes the run longer (a straggler that moved, a link
 * that became slow), the work of each role, transfers of each group, ranks without a trace, and clocks that cannot be
 * aligned. Needs only what was kept of each rank (ka_rank_set), not their traces. docs/reference/diff.md has the rules. */
#include "analyze/diff/diff.h"

#include "analyze/dataset/each_rank.h"
#include "analyze/ranks/rank_names.h"
#include "analyze/ranks/rank_set.h"

#define MIN_SHARE       0.0025 /* of the run: causes that differ by less are not listed */
#define MIN_PART        0.005  /* of the run: parts that differ by less are not listed … */
#define MIN_CHANGE      0.03   /* … nor those that differ by less of themselves */
#define MIN_TRANSFER    0.2    /* transfers have more noise */
#define MIN_TRANSFER_NS 2000
#define MAX_MOVE        2.0    /* causes that differ by more than this factor are not the same one elsewhere */

/* A row; numbers of ranks that it has none of are KA_NO_INT. */
typedef struct difference {
    const char *what, *kind;
    int64_t ranks[2];
    kineto_string group;
    double ns[2];
    double confidence; /* of causes, and of what explains as much as one */
    double explained_ns; /* of the change of the run by causes, of a step by transfers */
    char sentence[320];
} difference;
typedef KB_VEC(difference) difference_list;

#define MIN_STEP_CHANGE 0.02 /* of a step: a smaller change needs no origin */
#define MIN_ORIGIN      0.5  /* of the change of a step */

typedef struct sides {
    const ka_rank_view *v[2];
    ka_table *t;
    double length_ns; /* of the longer run */
    difference_list causes, transfers;
    bool has_causes; /* rows of causes, which come first */
    bool no_memory;
} sides;

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_difference(const sides *s, const difference *d)
{
    ka_put_text(s->t, kb_string(d->what));
    ka_put_text(s->t, kb_string(d->kind));
    ka_put_int(s->t, d->ranks[0]);
    ka_put_int(s->t, d->ranks[1]);
    ka_put_text(s->t, d->group);
    ka_put_ns(s->t, (int64_t)d->ns[0]);
    ka_put_ns(s->t, (int64_t)d->ns[1]);
    ka_put_ns(s->t, (int64_t)(d->ns[1] - d->ns[0]));
    ka_put_text(s->t, kb_string(d->sentence));
    if (d->confidence > 0)
        ka_put_number(s->t, d->confidence);
    else
        ka_put_none(s->t);
}

static const char *const side_names[] = {"before", "after"};

/* ---- causes ---------------------------------------------------------------------------------- */

static int64_t rank_of_cause(const ka_rank_view *v, const ka_rank_cause *c)
{
    return c->rank == KA_NONE ? KA_NO_INT : v->model.facts[c->rank]->rank;
}

/* Ids of groups may differ from run to run: by name and members. */
static const ka_rank_group *group_of_cause(const ka_rank_view *v, const ka_rank_cause *c)
{
    return c->group == KA_NONE ? NULL : &v->model.groups.data[c->group];
}

static bool is_same_group(const ka_rank_group *a, const ka_rank_group *b)
{
    return a->size == b->size && kb_string_equal(a->name, b->name) && kb_string_equal(a->description, b->description);
}

static bool is_same_cause(const ka_rank_view *v, const ka_rank_cause *a, const ka_rank_view *w, const ka_rank_cause *b)
{
    const ka_rank_group *g = group_of_cause(v, a), *h = group_of_cause(w, b);
    if (a->kind != b->kind || !g != !h)
        return false;
    if (!g)
        return rank_of_cause(v, a) == rank_of_cause(w, b);
    bool of_hosts = a->clock != KA_NONE;
    return a->place == b->place && of_hosts == (b->clock != KA_NONE) &&
           (of_hosts ? !strcmp(ka_name_link(&v->model, a).s, ka_name_link(&w->model, b).s) : is_same_group(g, h));
}

/* "rank 21 (host node005, GPU 5)", "group 18 (dp)" */
static ka_link_text name_cause(const ka_rank_view *v, const ka_rank_cause *c)
{
    ka_link_text text;
    if (c->group != KA_NONE)
        return ka_name_link(&v->model, c);
    kb_snprintf(text.s, sizeof text.s, "%s", ka_name_rank(&v->model, c->rank).s);
    return text;
}

/* What the other side would not list by itself: its causes may be just below that. */
static double hidden_ns(const ka_rank_view *v)
{
    return fmax(0.005 * (double)v->causes.length_ns, 3 * (double)v->causes.noise_ns);
}

/* Is each rank there, with all of its collectives? What waits for one that is not there hides causes. */
static bool has_whole_ranks(const ka_rank_view *v)
{
    for (size_t i = 0; i < v->damage.count; i++)
        if (v->damage.data[i].kind <= KA_DAMAGE_RING_CUT)
            return false;
    return true;
}

/* Causes are rows when all are known: the one that explains most of the difference is the first. */
static void add_cause(sides *s, difference *d)
{
    d->confidence = KB_MIN(ka_cause_confidence(s->v[0]), ka_cause_confidence(s->v[1]));
    d->explained_ns = d->ns[1] - d->ns[0];
    s->no_memory |= !kb_vec_push(&s->causes, *d);
}

static int compare_explained(const void *left, const void *right)
{
    const difference *a = left, *b = right;
    double by_a = fabs(a->explained_ns), by_b = fabs(b->explained_ns);
    return by_a != by_b ? KB_COMPARE(by_b, by_a) : strcmp(a->sentence, b->sentence);
}

/* Puts the rows, those that explain most first, and frees the list. */
static void put_explained(const sides *s, difference_list *list)
{
    if (list->count)
        qsort(list->data, list->count, sizeof *list->data, compare_explained);
    for (size_t i = 0; i < list->count; i++)
        put_difference(s, &list->data[i]);
    kb_vec_free(list);
}

/* A cause of one side only. */
static void add_lone_cause(sides *s, uint32_t side, const ka_rank_cause *c)
{
    const ka_rank_view *v = s->v[side];
    if (!has_whole_ranks(s->v[!side]) || (double)c->saved_ns - hidden_ns(s->v[!side]) < MIN_SHARE * s->length_ns)
        return;
    const ka_rank_group *g = group_of_cause(v, c);
    difference d = {.what = side ? "new" : "gone",
                    .kind = ka_cause_kind_name(c->kind),
                    .ranks = {KA_NO_INT, KA_NO_INT},
                    .group = g ? g->name : kb_string("")};
    d.ranks[side] = rank_of_cause(v, c);
    d.ns[side] = (double)c->saved_ns;
    kb_snprintf(d.sentence, sizeof d.sentence, "%s: %s %s; without that the run would be %s shorter",
                side ? "only after" : "only before", name_cause(v, c).s, ka_describe_fault(c).s, kb_duration(c->saved_ns).s);
    add_cause(s, &d);
}

/* The same cause at another rank or group. */
static void add_moved_cause(sides *s, const ka_rank_cause *a, const ka_rank_cause *b)
{
    const ka_rank_group *g = group_of_cause(s->v[1], b);
    difference d = {.what = "moved",
                    .kind = ka_cause_kind_name(a->kind),
                    .ranks = {rank_of_cause(s->v[0], a), rank_of_cause(s->v[1], b)},
                    .group = g ? g->name : kb_string(""),
                    .ns = {(double)a->saved_ns, (double)b->saved_ns}};
    if (g)
        kb_snprintf(d.sentence, sizeof d.sentence, "the slow link moved from %s to %s: it costs the run %s before, %s after",
                    name_cause(s->v[0], a).s, name_cause(s->v[1], b).s, kb_duration(a->saved_ns).s,
                    kb_duration(b->saved_ns).s);
    else
        kb_snprintf(d.sentence, sizeof d.sentence, "the slow rank moved from %lld to %lld: it %s, which costs "
                    "the run %s before, %s after", (long long)d.ranks[0], (long long)d.ranks[1], ka_describe_fault(b).s,
                    kb_duration(a->saved_ns).s, kb_duration(b->saved_ns).s);
    add_cause(s, &d);
}

static void add_changed_cause(sides *s, const ka_rank_cause *a, const ka_rank_cause *b)
{
    double by = (double)b->saved_ns - (double)a->saved_ns;
    if (fabs(by) < MIN_PART * s->length_ns || fabs(by) < 0.25 * (double)KB_MAX(a->saved_ns, b->saved_ns))
        return;
    const ka_rank_group *g = group_of_cause(s->v[1], b);
    difference d = {.what = "changed",
                    .kind = ka_cause_kind_name(a->kind),
                    .ranks = {rank_of_cause(s->v[0], a), rank_of_cause(s->v[1], b)},
                    .group = g ? g->name : kb_string(""),
                    .ns = {(double)a->saved_ns, (double)b->saved_ns}};
    kb_snprintf(d.sentence, sizeof d.sentence, "%s %s in both runs: it costs %s before, %s after",
                name_cause(s->v[1], b).s, ka_describe_fault(b).s, kb_duration(a->saved_ns).s, kb_duration(b->saved_ns).s);
    add_cause(s, &d);
}

/* The index of the first cause of the other side that satisfies the question; SIZE_MAX: there is none. */
static size_t find_partner(const sides *s, const ka_rank_cause *a, const bool *used, bool moved)
{
    const ka_rank_causes *other = &s->v[1]->causes;
    for (size_t i = 0; i < other->list.count; i++) {
        const ka_rank_cause *b = &other->list.data[i];
        double ratio = (double)b->saved_ns / (double)KB_MAX(a->saved_ns, 1);
        bool alike = a->kind == b->kind && ratio < MAX_MOVE && ratio > 1 / MAX_MOVE;
        if (!used[i] && (moved ? alike : is_same_cause(s->v[0], a, s->v[1], b)))
            return i;
    }
    return SIZE_MAX;
}

/* Pairs causes at the same place first, then those that moved; what is left is of one side only. */
static bool compare_causes(sides *s)
{
    const ka_rank_causes *a = &s->v[0]->causes, *b = &s->v[1]->causes;
    bool *used = calloc(b->list.count + 1, sizeof *used), *known = calloc(a->list.count + 1, sizeof *known);
    size_t *same = malloc((a->list.count + 1) * sizeof *same);
    bool ok = used && known && same;
    for (size_t i = 0; ok && i < a->list.count; i++)
        if ((same[i] = find_partner(s, &a->list.data[i], used, false)) != SIZE_MAX)
            used[same[i]] = known[i] = true;
    for (size_t i = 0; ok && i < a->list.count; i++) {
        size_t to = known[i] ? SIZE_MAX : find_partner(s, &a->list.data[i], used, true);
        if (to == SIZE_MAX)
            continue;
        used[to] = known[i] = true;
        add_moved_cause(s, &a->list.data[i], &b->list.data[to]);
    }
    for (size_t i = 0; ok && i < b->list.count; i++)
        if (!used[i])
            add_lone_cause(s, 1, &b->list.data[i]);
    for (size_t i = 0; ok && i < a->list.count; i++)
        if (!known[i])
            add_lone_cause(s, 0, &a->list.data[i]);
        else if (same[i] != SIZE_MAX)
            add_changed_cause(s, &a->list.data[i], &b->list.data[same[i]]);
    free(used);
    free(known);
    free(same);
    put_explained(s, &s->causes);
    return ok && !s->no_memory;
}

/* ---- parts of roles -------------------------------------------------------------------------- */

/* Per step: computation, and time of the host between launches. */
static double measure_part(const ka_rank_facts *f, bool of_host)
{
    double sum = 0;
    for (size_t i = 0; i < f->rows.count; i++) {
        const ka_comm *c = &f->rows.data[i];
        int64_t ns = !of_host ? c->work_ns : f->on_host ? 0 : c->host_ns;
        sum += ns == KA_UNKNOWN_NUMBER || ns < 0 ? 0 : (double)ns;
    }
    return sum / KB_MAX(f->step_count, 1u);
}

/* Medians over the ranks of a role that are in both runs. */
typedef struct role_part {
    uint32_t ranks;
    double middle, spread;
} role_part;

/* `room`: as many numbers as there are ranks. Roles are those of the first run. */
static role_part describe_part(const sides *s, uint32_t side, uint32_t role, bool of_host, double *room)
{
    const ka_rank_model *roles = &s->v[0]->model, *m = &s->v[side]->model;
    role_part p = {0};
    for (uint32_t r = 0; r < roles->rank_count; r++) {
        uint32_t own = roles->role[r] == role ? ka_find_rank_index(m, roles->facts[r]->rank) : KA_NONE;
        if (own != KA_NONE)
            room[p.ranks++] = measure_part(m->facts[own], of_host);
    }
    if (!p.ranks)
        return p;
    p.middle = ka_median(room, p.ranks);
    for (uint32_t i = 0; i < p.ranks; i++)
        room[i] = fabs(room[i] - p.middle);
    p.spread = 1.4826 * ka_median(room, p.ranks);
    return p;
}

static void compare_role(const sides *s, uint32_t role, int32_t first_rank, double step_ns, double *room)
{
    for (int of_host = 0; of_host < 2; of_host++) {
        role_part a = describe_part(s, 0, role, of_host, room), b = describe_part(s, 1, role, of_host, room);
        double by = b.middle - a.middle, noise = 3 * (a.spread + b.spread) / sqrt(KB_MAX(a.ranks, 1u));
        if (!a.ranks || !b.ranks || fabs(by) < MIN_PART * step_ns || fabs(by) < MIN_CHANGE * a.middle || fabs(by) < noise)
            continue;
        difference d = {.what = "role",
                        .kind = ka_cause_kind_name(of_host ? KA_CAUSE_HOST : KA_CAUSE_DEVICE),
                        .ranks = {first_rank, first_rank},
                        .group = kb_string(""),
                        .ns = {a.middle, b.middle}};
        kb_snprintf(d.sentence, sizeof d.sentence, "%u %s with the role of rank %d: %s of a step takes %s before, %s after "
                    "(median of ranks)", a.ranks, a.ranks == 1 ? "rank" : "ranks", first_rank,
                    of_host ? "work of the host" : "computation", kb_duration((int64_t)a.middle).s,
                    kb_duration((int64_t)b.middle).s);
        put_difference(s, &d);
    }
}

static bool compare_roles(const sides *s)
{
    const ka_rank_model *m = &s->v[0]->model;
    double *room = malloc(((size_t)m->rank_count + 1) * sizeof *room);
    kb_map seen = {0};
    bool ok = room != NULL;
    for (uint32_t r = 0; ok && r < m->rank_count; r++) {
        bool is_new = false;
        ok = kb_map_insert(&seen, m->role[r], 1, &is_new) != NULL;
        if (ok && is_new)
            compare_role(s, m->role[r], m->facts[r]->rank, s->length_ns / KB_MAX(m->facts[r]->step_count, 1u), room);
    }
    kb_map_free(&seen);
    free(room);
    return ok;
}

/* ---- transfers of kinds of groups ------------------------------------------------------------- */

/* Transfers of whole instances of groups with one description and size. */
typedef struct transfer_times {
    double median_ns; /* 0: there is none */
    double step_ns;   /* in a step of one of these groups */
} transfer_times;

static uint32_t count_run_steps(const ka_rank_model *m)
{
    uint32_t steps = 1;
    for (uint32_t r = 0; r < m->rank_count; r++)
        steps = KB_MAX(steps, m->facts[r]->step_count);
    return steps;
}

static transfer_times measure_transfers(const ka_rank_model *m, const ka_rank_group *like, double *room)
{
    size_t count = 0, groups = 0;
    double sum = 0;
    for (size_t g = 0; g < m->groups.count; g++)
        groups += m->groups.data[g].size == like->size && kb_string_equal(m->groups.data[g].description, like->description);
    for (size_t i = 0; i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        const ka_rank_group *g = &m->groups.data[x->group];
        if (x->flags & KA_INSTANCE_WHOLE && g->size == like->size && kb_string_equal(g->description, like->description))
            sum += room[count++] = (double)KB_MAX(x->end_ns - x->arrival_ns, 0);
    }
    return (transfer_times){count ? ka_median(room, count) : 0, sum / (double)KB_MAX(groups, (size_t)1) / count_run_steps(m)};
}

/* Do these transfers change by half or more of what a step does? Then they are its origin, as far as causes are known: groups that are all
 * slow have no like in their own run. */
static bool explains_step(const sides *s, double by_ns)
{
    double step_ns[2];
    for (uint32_t side = 0; side < 2; side++)
        step_ns[side] = (double)s->v[side]->causes.length_ns / count_run_steps(&s->v[side]->model);
    double change = step_ns[1] - step_ns[0];
    return fabs(change) >= MIN_STEP_CHANGE * step_ns[0] && by_ns / change >= MIN_ORIGIN;
}

static void compare_transfers_of(sides *s, const ka_rank_group *g, double *room)
{
    transfer_times before = measure_transfers(&s->v[0]->model, g, room), after = measure_transfers(&s->v[1]->model, g, room);
    double a = before.median_ns, b = after.median_ns, by_ns = after.step_ns - before.step_ns;
    if (!(a > 0) || !(b > 0) || fabs(b - a) < MIN_TRANSFER * a || fabs(b - a) < MIN_TRANSFER_NS)
        return;
    kineto_string name = g->description.size ? g->description : g->name;
    difference d = {.what = "transfers",
                    .kind = "link",
                    .ranks = {KA_NO_INT, KA_NO_INT},
                    .group = name,
                    .ns = {a, b},
                    .explained_ns = by_ns};
    if (!s->has_causes && explains_step(s, by_ns))
        d.confidence = KB_MIN(ka_cause_confidence(s->v[0]), ka_cause_confidence(s->v[1]));
    kb_snprintf(d.sentence, sizeof d.sentence, "transfers in groups %s%.*s of %u ranks take %s before, %s after (median)",
                name.size ? "" : "without a name", (int)KB_MIN(name.size, (size_t)60), name.data, g->size, kb_duration((int64_t)a).s,
                kb_duration((int64_t)b).s);
    s->no_memory |= !kb_vec_push(&s->transfers, d);
}

static bool compare_transfers(sides *s)
{
    const ka_rank_model *m = &s->v[0]->model;
    double *room = malloc((KB_MAX(m->instances.count, s->v[1]->model.instances.count) + 1) * sizeof *room);
    kb_map seen = {0};
    bool ok = room != NULL;
    for (size_t i = 0; ok && i < m->groups.count; i++) {
        bool is_new = false;
        ok = kb_map_insert(&seen, m->groups.data[i].kind, 1, &is_new) != NULL;
        if (ok && is_new)
            compare_transfers_of(s, &m->groups.data[i], room);
    }
    kb_map_free(&seen);
    free(room);
    put_explained(s, &s->transfers);
    return ok && !s->no_memory;
}

/* ---- damage and clocks ------------------------------------------------------------------------ */

static bool has_damage(const ka_rank_view *v, const ka_rank_damage *like)
{
    for (size_t i = 0; i < v->damage.count; i++)
        if (v->damage.data[i].kind == like->kind && v->damage.data[i].rank == like->rank)
            return true;
    return false;
}

static void put_damage(const sides *s, uint32_t side)
{
    for (size_t i = 0; i < s->v[side]->damage.count; i++) {
        const ka_rank_damage *x = &s->v[side]->damage.data[i];
        if (has_damage(s->v[!side], x))
            continue;
        difference d = {.what = x->kind == KA_DAMAGE_MISSING ? "missing" : "damage",
                        .kind = ka_damage_name(x->kind),
                        .ranks = {KA_NO_INT, KA_NO_INT},
                        .group = x->group == KA_NONE ? kb_string("") : s->v[side]->model.groups.data[x->group].name};
        d.ranks[side] = x->rank;
        if (x->kind == KA_DAMAGE_MISSING)
            kb_snprintf(d.sentence, sizeof d.sentence, "rank %lld has no trace %s", (long long)x->rank, side_names[side]);
        else
            kb_snprintf(d.sentence, sizeof d.sentence, "rank %lld has damage %s only: %s", (long long)x->rank,
                        side_names[side], ka_damage_name(x->kind));
        put_difference(s, &d);
    }
}

/* A rank of one run that the other has no trace of, where its size is not known. */
static void put_absent_ranks(const sides *s, uint32_t side)
{
    const ka_rank_model *m = &s->v[!side]->model;
    for (uint32_t r = 0; r < m->rank_count; r++) {
        ka_rank_damage missing = {.kind = KA_DAMAGE_MISSING, .rank = m->facts[r]->rank};
        if (ka_find_rank_index(&s->v[side]->model, m->facts[r]->rank) != KA_NONE || has_damage(s->v[side], &missing))
            continue;
        difference d = {.what = "missing", .kind = "missing", .ranks = {KA_NO_INT, KA_NO_INT}, .group = kb_string("")};
        d.ranks[side] = m->facts[r]->rank;
        kb_snprintf(d.sentence, sizeof d.sentence, "rank %d has no trace %s", m->facts[r]->rank, side_names[side]);
        put_difference(s, &d);
    }
}

static const char *reason_of(const ka_rank_view *v)
{
    return v->model.refused[0] ? v->model.refused : v->causes.refused;
}

static void compare_refusals(const sides *s)
{
    for (uint32_t side = 0; side < 2; side++) {
        const char *why = reason_of(s->v[side]);
        if (!*why || *reason_of(s->v[!side]))
            continue;
        difference d = {.what = "refused", .kind = "clocks", .ranks = {KA_NO_INT, KA_NO_INT}, .group = kb_string("")};
        kb_snprintf(d.sentence, sizeof d.sentence, "ranks cannot be compared with each other %s only: %s", side_names[side],
                    why);
        put_difference(s, &d);
    }
}

/* ---- both ------------------------------------------------------------------------------------- */

kineto_status ka_diff_put_ranks(kineto_analysis *facts, ka_rank_set *before, ka_rank_set *after, kineto_error *err)
{
    sides s = {.t = &facts->tables[KA_TABLE_diff_ranks]};
    if (!before || !after || before->ranks.count < 2 || after->ranks.count < 2)
        return KINETO_OK;
    s.v[0] = ka_rank_set_view(before);
    s.v[1] = ka_rank_set_view(after);
    if (!s.v[0] || !s.v[1])
        return kb_fail_memory(err, "compare ranks");
    s.length_ns = (double)KB_MAX(s.v[0]->causes.length_ns, s.v[1]->causes.length_ns);
    bool both = !*reason_of(s.v[0]) && !*reason_of(s.v[1]), ok = true;
    bool has_rows = s.v[0]->window_count < 2 && s.v[1]->window_count < 2;
    if (both)
        ok = compare_causes(&s);
    s.has_causes = ka_table_rows(s.t) > 0;
    if (both && has_rows)
        ok = compare_transfers(&s) && ok;
    for (uint32_t side = 0; side < 2; side++) {
        put_damage(&s, side);
        put_absent_ranks(&s, side);
    }
    compare_refusals(&s);
    ok = ok && (!has_rows || compare_roles(&s));
    if (!has_rows)
        ka_note(s.t, "roles and transfers are not compared: the rows of the run do not fit into memory (--mem)");
    else if (!ka_table_rows(s.t))
        ka_note(s.t, "ranks, roles and groups differ by no more than noise");
    return ok ? KINETO_OK : kb_fail_memory(err, "compare ranks");
}

kineto_status ka_diff_rank_sets(ka_rank_set *before, ka_rank_set *after, kineto_analysis **out, kineto_error *err)
{
    kineto_status status = ka_facts_create(out, err);
    if (status)
        return status;
    kineto_analysis *a = *out;
    a->tables[KA_TABLE_diff_ranks].wanted = a->tables[KA_TABLE_diff_ranks].shown = true;
    a->shown[a->shown_count++] = (uint8_t)KA_TABLE_diff_ranks;
    return ka_diff_put_ranks(a, before, after, err);
}

/* Only what comparing ranks needs is kept of each. */
static kineto_status read_ranks(const kineto_trace *trace, const kineto_analysis_options *how, kineto_analysis **out,
                                kineto_error *err)
{
    kineto_analysis_options its = *how;
    its.tables = NULL;
    its.rank = NULL;
    return ka_analyze_tables(trace, &its, KA_TABLE_BIT(KA_TABLE_rank_causes), out, err);
}

kineto_status ka_diff_ranks_of_traces(kineto_analysis *facts, const kineto_trace *before, const kineto_trace *after,
                                      const kineto_analysis_options *how, kineto_error *err)
{
    kineto_analysis *ranks[2] = {NULL, NULL};
    kineto_status status = KINETO_OK;
    if (!ka_has_ranks(before) || !ka_has_ranks(after))
        return KINETO_OK;
    status = read_ranks(before, how, &ranks[0], err);
    if (!status)
        status = read_ranks(after, how, &ranks[1], err);
    if (!status)
        status = ka_diff_put_ranks(facts, ranks[0]->ranks, ranks[1]->ranks, err);
    kineto_analysis_destroy(ranks[0]);
    kineto_analysis_destroy(ranks[1]);
    return status;
}

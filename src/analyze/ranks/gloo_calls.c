/* Reads the collectives and messages of PyTorch without a device, as gloo executes them.
 *
 * The program's thread issues one with an operator ("c10d::allreduce_"); a thread of its process group executes
 * it, in the order of issue, with an annotation ("gloo:all_reduce"). Nothing is recorded of waiting for it: the
 * program waited if it was in no operator when it ended, until then. The annotation does not name the group;
 * each group has threads of its own, made with it, and the header lists the groups in that order.
 *
 * What is made of each annotation is a ka_host_call: when it was issued, when it ran, and from when to when the program
 * waited for it ("Without a device" in ranks.md). Where the group or the peer cannot be told, the call has no group,
 * and ka_rank_facts.unmatched says why. */
#include "analyze/ranks/host_calls.h"
#include "analyze/ranks/only_group.h"

#include "analyze/dataset/arg_lookup.h"

#define MAX_GROUPS        64u
#define THREADS_OF_GROUP  2u /* as gloo's process group starts */
#define MIN_THREAD_STRIDE 4  /* threads of two groups have ids that differ by more than those of one group, by this factor */

#define MAX_AHEAD         8u /* operators among which that of an annotation is */
#define MAX_WAKE_NS       2000000 /* from waking the program to the end of the annotation … */
#define WAKE_PARTS        4       /* … and it is such a part of the annotation at most */

typedef struct gloo_reading {
    ka_host_calls *h;
    ka_collective_reader reader;
    ka_only_group groups[MAX_GROUPS]; /* that a collective may be of */
    uint32_t group_count;
    uint32_t *group_of_thread;        /* index of groups; KA_NONE: not known */
    bool *is_caller;                  /* by thread: the program's own */
    int64_t caller_id;                /* of the first of them */
    KB_VEC(uint32_t) issues[KA_OP_COUNT]; /* slices by kind and start */
    size_t next_issue[KA_OP_COUNT];
    KB_VEC(uint32_t) runs;            /* slices: annotations, by start */
    ka_spans busy;                    /* of the program's threads: in operators */
} gloo_reading;

static bool is_run(const ka_dataset *s, const ka_slice *slice)
{
    return slice->kind == KINETO_KIND_USER_ANNOTATION && kb_string_starts_with(ka_name(s, slice->name), "gloo:");
}

static bool is_issue(const ka_dataset *s, const ka_slice *slice)
{
    kineto_string name = ka_name(s, slice->name);
    return slice->kind == KINETO_KIND_CPU_OP && kb_string_starts_with(name, "c10d::") &&
           ka_collective_op_of(name) != KA_OP_OTHER;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Threads that issue collectives are the program's; without any, those with operators. */
static void find_callers(gloo_reading *r)
{
    const ka_dataset *s = r->h->s;
    bool has_issues = false;
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (is_issue(s, &s->slices[i]))
            r->is_caller[s->slices[i].thread] = has_issues = true;
    for (uint32_t i = 0; i < s->slice_count && !has_issues; i++)
        r->is_caller[s->slices[i].thread] |= s->slices[i].kind == KINETO_KIND_CPU_OP;
    r->caller_id = INT64_MIN;
    for (uint32_t t = s->thread_count; t-- > 0;)
        r->caller_id = r->is_caller[t] ? s->threads[t].id : r->caller_id;
}

/* Lists what the program's threads do: outermost operators that compute are `busy`, and pieces of typical work
 * (host_pieces.c); calls that issue a collective are `apart`, since the thread that executes it may take the
 * processor. False: out of memory. */
static bool list_busy(gloo_reading *r)
{
    const ka_dataset *s = r->h->s;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        bool is_outermost = slice->kind == KINETO_KIND_CPU_OP && slice->around == KA_NONE && r->is_caller[slice->thread];
        /* to issue a message may mean to wait */
        if (is_outermost && !is_issue(s, slice) && !kb_string_contains(ka_name(s, slice->name), "wait") &&
            (!kb_vec_push(&r->busy, ((ka_span){slice->start_ns, slice->end_ns})) ||
             !kb_vec_push(&r->h->operators, ((ka_host_operator){slice->start_ns, slice->end_ns, slice->name}))))
            return false;
        if (is_issue(s, slice) && r->is_caller[slice->thread] &&
            !kb_vec_push(&r->h->apart, ((ka_span){slice->start_ns, slice->end_ns})))
            return false;
    }
    ka_spans_unite(&r->busy);
    return true;
}

/* Ids rise with the start of threads, and begin anew at the kernel's limit: those below the program's own thread
 * are later than those above. */
#define MAX_THREAD_ID (INT64_C(1) << 22)
static int64_t order_of_thread(const gloo_reading *r, uint32_t thread)
{
    int64_t id = r->h->s->threads[thread].id;
    return id < r->caller_id ? id + MAX_THREAD_ID : id;
}

static int compare_threads(const void *left, const void *right, void *context)
{
    int64_t a = order_of_thread(context, *(const uint32_t *)left), b = order_of_thread(context, *(const uint32_t *)right);
    return (a > b) - (a < b);
}

static int64_t thread_distance(const gloo_reading *r, const uint32_t *threads, uint32_t at)
{
    return order_of_thread(r, threads[at]) - order_of_thread(r, threads[at - 1]);
}

/* Does a group's first thread come at `at`? The `count` - 1 largest distances of ids are between groups. */
static bool is_first_of_group(const gloo_reading *r, const uint32_t *threads, uint32_t count, uint32_t at, int64_t *least)
{
    uint32_t larger = 0;
    int64_t own = thread_distance(r, threads, at);
    for (uint32_t i = 1; i < count; i++) {
        int64_t other = thread_distance(r, threads, i);
        larger += other > own || (other == own && i < at);
    }
    *least = own;
    return larger + 1 < r->group_count;
}

/* Threads in the order of their ids, which is that of their groups. False: which is whose is not clear. */
static bool assign_threads(gloo_reading *r, const uint32_t *threads, uint32_t count)
{
    int64_t within = 1, between = INT64_MAX, distance;
    uint32_t group = 0, of_group = 0;
    bool are_all = count == r->group_count * THREADS_OF_GROUP;
    for (uint32_t i = 0; i < count; i++) {
        bool is_first = i && (are_all ? i % THREADS_OF_GROUP == 0 : is_first_of_group(r, threads, count, i, &distance));
        if (i && !are_all && is_first)
            between = KB_MIN(between, distance);
        else if (i && !are_all)
            within = KB_MAX(within, distance);
        group += is_first;
        of_group = is_first ? 1 : of_group + 1;
        r->group_of_thread[threads[i]] = group;
        if (of_group > THREADS_OF_GROUP)
            return false;
    }
    return group + 1 == r->group_count && (are_all || between / MIN_THREAD_STRIDE >= within);
}

/* Threads that execute collectives, in the order of their start. */
static uint32_t list_workers(const gloo_reading *r, uint32_t *threads)
{
    const ka_dataset *s = r->h->s;
    uint32_t count = 0;
    for (uint32_t t = 0; t < s->thread_count; t++) {
        bool is_worker = false;
        for (uint32_t i = s->threads[t].first; i < s->threads[t].first + s->threads[t].count && !r->is_caller[t]; i++)
            is_worker |= is_run(s, &s->slices[i]);
        if (is_worker)
            threads[count++] = t;
    }
    if (count)
        qsort_r(threads, count, sizeof *threads, compare_threads, (void *)r);
    return count;
}

/* Groups of the same ranks once: one of them may never be used. */
static void remove_same_members(gloo_reading *r)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->group_count; i++) {
        bool is_new = true;
        for (uint32_t k = 0; k < kept && is_new; k++)
            is_new = !kb_string_equal(r->groups[k].members, r->groups[i].members);
        if (is_new)
            r->groups[kept++] = r->groups[i];
    }
    r->group_count = kept;
}

/* Which group each thread that executes collectives is of. */
static bool find_thread_groups(gloo_reading *r)
{
    const ka_dataset *s = r->h->s;
    uint32_t *threads = malloc(((size_t)s->thread_count + 1) * sizeof *threads);
    if (!threads)
        return false;
    uint32_t count = list_workers(r, threads);
    bool is_clear = r->group_count > 1 && count && assign_threads(r, threads, count);
    if (!is_clear) {
        remove_same_members(r);
        is_clear = r->group_count > 1 && count && assign_threads(r, threads, count);
    }
    for (uint32_t t = 0; t < s->thread_count && !is_clear; t++)
        r->group_of_thread[t] = r->group_count == 1 ? 0 : KA_NONE;
    free(threads);
    return true;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static int compare_slice_starts(const void *left, const void *right, void *context)
{
    return ka_compare_starts(left, right, context);
}

static void sort_slices(const ka_dataset *s, uint32_t *list, size_t count)
{
    if (count)
        qsort_r(list, count, sizeof *list, compare_slice_starts, (void *)s->slices);
}

static bool list_runs(gloo_reading *r)
{
    const ka_dataset *s = r->h->s;
    bool ok = true;
    for (uint32_t i = 0; i < s->slice_count && ok; i++) {
        const ka_slice *slice = &s->slices[i];
        if (is_run(s, slice))
            ok = kb_vec_push(&r->runs, i);
        else if (is_issue(s, slice))
            ok = kb_vec_push(&r->issues[ka_collective_op_of(ka_name(s, slice->name))], i);
    }
    sort_slices(s, r->runs.data, r->runs.count);
    for (size_t op = 0; op < KA_OP_COUNT; op++)
        sort_slices(s, r->issues[op].data, r->issues[op].count);
    return ok;
}

/* Elements of the first tensor of "[[[2, 3]], []]", or of "[[2, 3]]"; 0: not known. */
static int64_t read_elements(const ka_dataset *s, const ka_slice *slice)
{
    kineto_arg arg;
    int64_t elements = 0;
    if (!kineto_args_find(s->trace, slice->row, "Input Dims", &arg))
        return 0;
    kineto_string dims = arg.text;
    for (kineto_string first = kt_item_at(dims, 0); kt_value_is_list(first); first = kt_item_at(dims, 0))
        dims = first;
    return kt_item_at(dims, 0).size && kt_sizes_product(dims, &elements) ? elements : 0;
}

/* The operator that issued an annotation: the first one of its kind and size that none before was of.
 * Threads take their work in the order of issue, but may begin in another one. The one taken moves to the
 * front of those that are left, so that each is taken once. Without one of equal size the first of its kind
 * is taken. NULL: none was issued before. */
static const ka_slice *take_issue(gloo_reading *r, const ka_slice *run, uint8_t op)
{
    const ka_dataset *s = r->h->s;
    uint32_t *list = r->issues[op].data;
    size_t next = r->next_issue[op], found = SIZE_MAX;
    int64_t elements = read_elements(s, run);
    for (size_t i = next; i < r->issues[op].count && i < next + MAX_AHEAD; i++) {
        if (s->slices[list[i]].start_ns > run->start_ns)
            break;
        found = found == SIZE_MAX ? i : found;
        if (read_elements(s, &s->slices[list[i]]) != elements)
            continue;
        found = i;
        break;
    }
    if (found == SIZE_MAX)
        return NULL;
    uint32_t taken = list[found];
    memmove(&list[next + 1], &list[next], (found - next) * sizeof *list);
    list[next] = taken;
    r->next_issue[op]++;
    return &s->slices[taken];
}

/* The first of the program's operators that begins after `ns`. */
static size_t find_next_busy(const gloo_reading *r, int64_t ns)
{
    size_t low = 0, high = r->busy.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->busy.data[middle].start_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The time between two operators in which the program waited for what ended at `ns`. The thread that executed
 * it may end its annotation only after it has woken the program: so the longest such time that ends just before
 * counts, too. */
static ka_span find_idle(const gloo_reading *r, int64_t ns)
{
    size_t next = find_next_busy(r, ns);
    ka_span found = {next ? KB_MIN(r->busy.data[next - 1].end_ns, ns) : INT64_MIN, ns};
    for (size_t i = next; next && --i > 0 && r->busy.data[i].start_ns > ns - MAX_WAKE_NS;)
        if (r->busy.data[i].start_ns - r->busy.data[i - 1].end_ns > found.end_ns - found.start_ns)
            found = (ka_span){r->busy.data[i - 1].end_ns, r->busy.data[i].start_ns};
    return found;
}

/* Sets from when to when the program waited, if that was long enough to be a wait (KA_MIN_HOST_WAIT_NS). A wait that
 * ends before the annotation counts only if the rest of the annotation is a fourth of both together, or less. */
static void set_wait(const gloo_reading *r, ka_host_call *c)
{
    ka_span idle = find_idle(r, c->end_ns);
    int64_t from = KB_MAX(idle.start_ns, c->issued_ns), to = idle.end_ns;
    bool is_long = from < to && to - from >= KA_MIN_HOST_WAIT_NS;
    bool is_late = to < c->end_ns; /* then it must have waited for most of it */
    if (!is_long || (is_late && WAKE_PARTS * (c->end_ns - to) > kb_length_ns(KB_MAX(from, c->start_ns), c->end_ns)))
        return;
    c->waited_from_ns = from;
    c->waited_to_ns = to;
}

/* The id is made of what the headers of all ranks list alike. The seed of the hash (7) keeps it apart from the other
 * kinds of ids: 1 to 4 are of rank_map.c, 5 and 6 of mpi_calls.c, 8 of pairs below. */
static uint32_t keep_header_group(gloo_reading *r, uint32_t which)
{
    const ka_only_group *of = &r->groups[which];
    uint64_t id = kb_hash_seeded(kb_hash_seeded(7, of->name.data, of->name.size), of->members.data, of->members.size);
    ka_comm_group g = {.id = id,
                       .name = ka_keep_host_text(r->h, of->name),
                       .description = ka_keep_host_text(r->h, of->description),
                       .members = ka_keep_host_text(r->h, of->members),
                       .size = of->size};
    return ka_keep_host_group(r->h, &g);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The peer's rank and the tag are arguments of the operator: c10d::send(tensors, group, rank, tag). The rank is
 * the one in its group, which is not named: it is taken for the group of all ranks. */
static bool read_peer(const gloo_reading *r, const ka_slice *issue, int64_t *peer, int64_t *tag)
{
    kineto_string inputs = issue ? ka_arg_text(r->h->s->trace, issue->row, "Concrete Inputs") : (kineto_string){"", 0};
    char room[32];
    int64_t *to[] = {peer, tag};
    for (uint32_t i = 0; i < 2; i++) {
        kineto_string raw = kt_item_at(inputs, 2 + i);
        if (!raw.size || raw.size > sizeof room || !kt_value_whole(kt_value_text(raw, room), to[i]))
            return false;
    }
    return *peer >= 0 && *peer != r->h->out->rank;
}

/* A message's group is the pair of ranks in its direction, with the tag: equal on the side that sends and on the other
 * one. */
static uint32_t keep_pair(gloo_reading *r, const ka_slice *issue, uint8_t op)
{
    int64_t peer, tag;
    if (!read_peer(r, issue, &peer, &tag)) {
        r->h->out->unmatched = KA_UNMATCHED_PEER;
        return KA_NONE;
    }
    bool is_sent = op == KA_OP_SEND;
    int64_t rank = r->h->out->rank, key[] = {is_sent ? rank : peer, is_sent ? peer : rank, tag};
    kb_text name;
    kb_snprintf(name.s, sizeof name.s, "%lld to %lld", (long long)key[0], (long long)key[1]);
    ka_comm_group g = {.id = kb_hash_seeded(8, key, sizeof key), .name = ka_keep_host_text(r->h, kb_string(name.s)), .size = 2};
    return ka_keep_host_group(r->h, &g);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static uint32_t find_run_group(gloo_reading *r, const ka_slice *run, const ka_slice *issue, uint8_t op)
{
    if (ka_is_message(op))
        return keep_pair(r, issue, op);
    uint32_t which = r->group_of_thread[run->thread];
    if (which == KA_NONE)
        r->h->out->unmatched = KA_UNMATCHED_GROUP;
    return which == KA_NONE ? KA_NONE : keep_header_group(r, which);
}

/* Appends the call of an annotation. Sizes of gather, scatter and all-to-all differ between ranks by design, so they
 * are left unknown (0). Annotations have no numbers: ka_map_host counts the calls of each step. */
static void put_run(gloo_reading *r, const ka_slice *run)
{
    ka_collective_args a = ka_read_collective_call(&r->reader, run);
    const ka_slice *issue = take_issue(r, run, (uint8_t)a.op);
    bool by_root = a.op == KA_OP_GATHER || a.op == KA_OP_SCATTER || a.op == KA_OP_ALL_TO_ALL;
    ka_host_call c = {.issued_ns = issue ? issue->start_ns : run->start_ns,
                      .start_ns = run->start_ns,
                      .end_ns = run->end_ns,
                      .waited_from_ns = INT64_MAX,
                      .waited_to_ns = INT64_MIN,
                      .elements = by_root ? 0 : (uint64_t)KB_MAX(a.in, 0),
                      .thread = r->is_caller[run->thread] ? KA_NONE : run->thread,
                      .group = find_run_group(r, run, issue, (uint8_t)a.op),
                      .sequence = KA_NO_SEQUENCE,
                      .op = (uint8_t)a.op,
                      .flags = KA_COMM_BY_ORDER};
    set_wait(r, &c);
    ka_put_host_call(r->h, &c);
}

static bool read_gloo(gloo_reading *r)
{
    const ka_dataset *s = r->h->s;
    r->group_of_thread = malloc(((size_t)s->thread_count + 1) * sizeof *r->group_of_thread);
    r->is_caller = calloc((size_t)s->thread_count + 1, sizeof *r->is_caller);
    for (uint32_t t = 0; r->group_of_thread && t < s->thread_count; t++)
        r->group_of_thread[t] = KA_NONE;
    if (!r->group_of_thread || !r->is_caller || !list_runs(r))
        return false;
    if (!r->runs.count)
        return true;
    r->group_count = ka_list_header_groups(s->trace, r->groups, MAX_GROUPS);
    find_callers(r);
    if (!list_busy(r) || !find_thread_groups(r))
        return false;
    for (size_t i = 0; i < r->runs.count && !r->h->no_memory; i++)
        put_run(r, &s->slices[r->runs.data[i]]);
    return !r->reader.no_memory;
}

void ka_list_gloo_calls(ka_host_calls *h)
{
    gloo_reading r = {.h = h};
    ka_collective_reader_create(&r.reader, h->s);
    h->no_memory |= !read_gloo(&r);
    ka_collective_reader_free(&r.reader);
    for (size_t op = 0; op < KA_OP_COUNT; op++)
        kb_vec_free(&r.issues[op]);
    kb_vec_free(&r.runs);
    kb_vec_free(&r.busy);
    free(r.group_of_thread);
    free(r.is_caller);
}

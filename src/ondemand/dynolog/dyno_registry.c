/* The processes that poll, and the texts that wait for them. One sorted list, in the order in which
 * triggers are distributed: by job, then by the set of the process and its ancestors (lowest pid
 * first), then by user. All numbers of entries and bytes have limits, also per user. */
#include "ondemand/dynolog/dyno.h"

#include <time.h>

#define MAX_PROCESSES           8192u
#define MAX_OF_ONE_USER         2048u
#define MAX_CONTEXTS            8192u
#define MAX_TRIGGER_PIDS        4096u
#define MAX_TEXT_BYTES          200000u /* of one text: an answer must fit into a socket buffer */
#define MAX_WAITING             ((size_t)32 << 20) /* bytes of all waiting texts */
#define MAX_WAITING_OF_ONE_USER ((size_t)8 << 20)
#define SILENCE_NS              UINT64_C(60000000000)
#define ID_BYTES                64u /* added around a text */

typedef struct process {
    int64_t job;
    uint64_t seen_ns;
    char *text; /* waits; NULL: none */
    size_t text_bytes;
    uint32_t user;
    int32_t leaf;
    uint32_t pid_count;
    int32_t pids[]; /* ascending, each once */
} process;

typedef struct gpu_user {
    int64_t job;
    int32_t gpu, pid;
    uint64_t seen_ns;
} gpu_user;

struct ko_dyno_registry {
    KB_VEC(process *) all; /* in order */
    KB_VEC(gpu_user) contexts;
    size_t waiting_bytes;
    uint64_t triggers;    /* a counter that makes ids unique */
    ko_dyno_offer *offer; /* NULL: none */
    void *offer_context;
    char host[64];
};

/* ---- sets of pids ---------------------------------------------------------------------------- */

typedef struct pid_set {
    const int32_t *pids;
    uint32_t count;
} pid_set;

static int compare_pids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts and removes duplicates in place. */
static pid_set make_pid_set(int32_t *pids, uint32_t count)
{
    uint32_t kept = 0;
    if (count)
        qsort(pids, count, sizeof *pids, compare_pids);
    for (uint32_t i = 0; i < count; i++)
        if (!kept || pids[i] != pids[kept - 1])
            pids[kept++] = pids[i];
    return (pid_set){pids, kept};
}

static bool set_has(pid_set s, int32_t pid)
{
    return s.count && bsearch(&pid, s.pids, s.count, sizeof pid, compare_pids);
}

/* Lexicographic; a prefix comes first. */
static int compare_sets(pid_set a, pid_set b)
{
    for (uint32_t i = 0; i < a.count && i < b.count; i++)
        if (a.pids[i] != b.pids[i])
            return a.pids[i] < b.pids[i] ? -1 : 1;
    return (a.count > b.count) - (a.count < b.count);
}

/* ---- the list -------------------------------------------------------------------------------- */

typedef struct process_key {
    int64_t job;
    pid_set set;
    uint32_t user;
} process_key;

/* The order of the list. */
static int compare_key(const process *p, const process_key *key)
{
    if (p->job != key->job)
        return p->job < key->job ? -1 : 1;
    int by_set = compare_sets((pid_set){p->pids, p->pid_count}, key->set);
    return by_set ? by_set : KB_COMPARE(p->user, key->user);
}

/* Index of the first process that is not before the key. */
static size_t find_process_index(const ko_dyno_registry *r, const process_key *key)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, r->all.count, compare_key(r->all.data[i], key) < 0);
    return i;
}

static size_t first_index_of_job(const ko_dyno_registry *r, int64_t job)
{
    return find_process_index(r, &(process_key){.job = job});
}

/* NULL: not registered. */
static process *find_process(const ko_dyno_registry *r, const process_key *key)
{
    size_t at = find_process_index(r, key);
    bool there = at < r->all.count && compare_key(r->all.data[at], key) == 0;
    return there ? r->all.data[at] : NULL;
}

/* Removes the waiting text; the caller owns it. */
static char *take_waiting_text(ko_dyno_registry *r, process *p)
{
    char *text = p->text;
    KB_ASSERT(r->waiting_bytes >= p->text_bytes);
    r->waiting_bytes -= p->text_bytes;
    p->text_bytes = 0;
    p->text = NULL;
    return text;
}

/* Replaces a waiting text. Takes ownership. */
static void set_waiting_text(ko_dyno_registry *r, process *p, char *text)
{
    free(take_waiting_text(r, p));
    KB_ASSERT(text && !p->text);
    p->text = text;
    p->text_bytes = strlen(text);
    r->waiting_bytes += p->text_bytes;
}

static void free_process(ko_dyno_registry *r, process *p)
{
    free(take_waiting_text(r, p));
    free(p);
}

/* Keeps the order. */
static void remove_process_at(ko_dyno_registry *r, size_t at)
{
    free_process(r, r->all.data[at]);
    r->all.count--;
    memmove(r->all.data + at, r->all.data + at + 1, (r->all.count - at) * sizeof *r->all.data);
}

/* Evicts the process that was silent the longest, of one user or of all, but none with a waiting
 * text. A live process is registered again by its next poll. False: none could be evicted. */
static bool evict_idle_process(ko_dyno_registry *r, bool of_one, uint32_t user)
{
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < r->all.count; i++) {
        const process *p = r->all.data[i];
        if (p->text || (of_one && p->user != user))
            continue;
        if (found == SIZE_MAX || p->seen_ns < r->all.data[found]->seen_ns)
            found = i;
    }
    if (found != SIZE_MAX)
        remove_process_at(r, found);
    return found != SIZE_MAX;
}

/* Evicts within the user's own limit first, so that one user cannot evict another's processes by
 * registering many. */
static bool make_process_room(ko_dyno_registry *r, uint32_t user)
{
    size_t of_user = 0;
    for (size_t i = 0; i < r->all.count; i++)
        of_user += r->all.data[i]->user == user;
    if (of_user >= MAX_OF_ONE_USER)
        return evict_idle_process(r, true, user);
    return r->all.count < MAX_PROCESSES || evict_idle_process(r, false, 0);
}

/* NULL: out of memory. Copies the pids of the key. */
static process *create_process(const process_key *key, int32_t leaf)
{
    size_t pid_bytes = key->set.count * sizeof(int32_t);
    process *p = malloc(sizeof *p + pid_bytes);
    if (!p)
        return NULL;
    *p = (process){.job = key->job, .user = key->user, .leaf = leaf, .pid_count = key->set.count};
    memcpy(p->pids, key->set.pids, pid_bytes);
    return p;
}

/* At its place in the order. NULL: no room, or out of memory. */
static process *insert_process(ko_dyno_registry *r, const process_key *key, int32_t leaf)
{
    if (!make_process_room(r, key->user) || !kb_vec_reserve(&r->all, r->all.count + 1))
        return NULL;
    process *p = create_process(key, leaf);
    if (!p)
        return NULL;
    size_t at = find_process_index(r, key);
    memmove(r->all.data + at + 1, r->all.data + at, (r->all.count - at) * sizeof *r->all.data);
    r->all.data[at] = p;
    r->all.count++;
    KB_ASSERT(r->all.count <= MAX_PROCESSES);
    KB_ASSERT(at == 0 || compare_key(r->all.data[at - 1], key) < 0);
    return p;
}

ko_dyno_registry *ko_dyno_registry_create(void)
{
    ko_dyno_registry *r = calloc(1, sizeof *r);
    if (r)
        (void)kb_os_host_name(r->host, sizeof r->host);
    return r;
}

void ko_dyno_registry_destroy(ko_dyno_registry *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->all.count; i++)
        free_process(r, r->all.data[i]);
    kb_vec_free(&r->all);
    kb_vec_free(&r->contexts);
    free(r);
}

/* ---- polls ----------------------------------------------------------------------------------- */

static process_key key_of_message(const ko_dyno_message *m, uint32_t user,
                                  int32_t pids[KO_DYNO_MAX_PIDS])
{
    uint32_t count = KB_MIN(m->pid_count, KO_DYNO_MAX_PIDS);
    memcpy(pids, m->pids, count * sizeof *pids);
    return (process_key){.job = m->job, .set = make_pid_set(pids, count), .user = user};
}

/* Borrows from the process; valid until the registry changes. */
static ko_dyno_process public_view(const process *p)
{
    return (ko_dyno_process){.job = p->job,
                             .user = p->user,
                             .pid = p->leaf,
                             .pids = p->pids,
                             .pid_count = p->pid_count,
                             .seen_ns = p->seen_ns,
                             .waits = p->text != NULL};
}

void ko_dyno_registry_offer(ko_dyno_registry *r, ko_dyno_offer *offer, void *context)
{
    r->offer = offer;
    r->offer_context = context;
}

/* Asks the hook for a text. If the process does not want one, the text is freed. */
static char *ask_for_offer(const ko_dyno_registry *r, const process *p, int32_t wants)
{
    ko_dyno_process asks = public_view(p);
    char *text = r->offer ? r->offer(r->offer_context, &asks, wants) : NULL;
    if (wants & KO_DYNO_WANTS_ACTIVITIES)
        return text;
    free(text);
    return NULL;
}

char *ko_dyno_registry_poll(ko_dyno_registry *r, const ko_dyno_message *m, uint32_t user,
                           uint64_t now_ns)
{
    int32_t pids[KO_DYNO_MAX_PIDS];
    if (m->type != KO_DYNO_REQUEST || m->pid_count < 1)
        return NULL;
    process_key key = key_of_message(m, user, pids);
    process *p = find_process(r, &key);
    if (!p)
        p = insert_process(r, &key, m->pids[0]);
    if (!p)
        return NULL;
    p->seen_ns = now_ns;
    if (!p->text)
        return ask_for_offer(r, p, m->wants);
    return m->wants & KO_DYNO_WANTS_ACTIVITIES ? take_waiting_text(r, p) : NULL;
}

void ko_dyno_registry_give_back(ko_dyno_registry *r, const ko_dyno_message *m, uint32_t user,
                                char *text)
{
    int32_t pids[KO_DYNO_MAX_PIDS];
    process_key key = key_of_message(m, user, pids);
    process *p = find_process(r, &key);
    if (p && !p->text)
        set_waiting_text(r, p, text);
    else
        free(text);
}

int32_t ko_dyno_registry_context(ko_dyno_registry *r, const ko_dyno_message *m, uint64_t now_ns)
{
    int32_t count = 0;
    bool known = false;
    for (size_t i = 0; i < r->contexts.count; i++) {
        gpu_user *c = &r->contexts.data[i];
        if (c->job != m->job || c->gpu != m->gpu)
            continue;
        count++;
        if (c->pid == m->pid) {
            c->seen_ns = now_ns;
            known = true;
        }
    }
    if (known)
        return count;
    gpu_user fresh = {.job = m->job, .gpu = m->gpu, .pid = m->pid, .seen_ns = now_ns};
    bool added = r->contexts.count < MAX_CONTEXTS && kb_vec_push(&r->contexts, fresh);
    return added ? count + 1 : -1;
}

/* ---- triggers -------------------------------------------------------------------------------- */

/* The text as Dynolog sends it: indented, with a REQUEST_TRACE_ID. */
static char *format_config_text(ko_dyno_registry *r, const process *p, kineto_string config)
{
    char whose[128];
    int n = snprintf(whose, sizeof whose, "%s:%d:%llu:%llu", r->host, p->leaf,
                     (unsigned long long)kb_clock_ns(CLOCK_REALTIME),
                     (unsigned long long)++r->triggers);
    size_t size = config.size + ID_BYTES;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "\n    %.*s\n    REQUEST_TRACE_ID=%llu\n", (int)config.size,
                 config.data, (unsigned long long)kb_hash(whose, (size_t)KB_MAX(n, 0)));
    return text;
}

/* Planned assignments of texts; processes change only after everything succeeded. */
typedef struct gift {
    process *to;
    char *text;
} gift;
typedef KB_VEC(gift) gifts;

/* Texts that were handed over are NULL by then. */
static void free_gifts(gifts *g)
{
    for (size_t i = 0; i < g->count; i++)
        free(g->data[i].text);
    kb_vec_free(g);
}

/* No pids, or only the pid 0, select all processes of the job. */
static bool means_all_processes(pid_set s)
{
    return s.count == 0 || (s.count == 1 && s.pids[0] == 0);
}

static bool matches_trigger(const process *p, const ko_dyno_trigger *t, pid_set wanted)
{
    if (t->one_user && p->user != t->user)
        return false;
    if (means_all_processes(wanted))
        return true;
    for (uint32_t i = 0; i < p->pid_count; i++)
        if (set_has(wanted, p->pids[i]))
            return true;
    return false;
}

/* Counts a match; plans a text for it unless the limit is reached or one is waiting already.
 * False: out of memory. */
static bool consider_process(process *p, int32_t limit, ko_dyno_matches *out, gifts *g)
{
    if (!kb_vec_push(&out->matched, p->leaf))
        return false;
    if (limit >= 0 && g->count >= (size_t)limit)
        return true;
    if (p->text) {
        out->busy++;
        return true;
    }
    return kb_vec_push(g, (gift){.to = p});
}

/* All processes of the job that match, in order. */
static kineto_status select_processes(ko_dyno_registry *r, const ko_dyno_trigger *t, pid_set wanted,
                                      ko_dyno_matches *out, gifts *g, kineto_error *err)
{
    for (size_t i = first_index_of_job(r, t->job); i < r->all.count; i++) {
        process *p = r->all.data[i];
        if (p->job != t->job)
            break;
        if (matches_trigger(p, t, wanted) && !consider_process(p, t->limit, out, g))
            return kb_fail_memory(err, "processes of a trigger");
    }
    return KINETO_OK;
}

/* Bytes that would wait for processes of one user. */
typedef struct share {
    uint32_t user;
    size_t bytes;
} share;
typedef KB_VEC(share) shares;

/* NULL: out of memory. */
static share *share_of(shares *all, uint32_t user)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->data[i].user == user)
            return &all->data[i];
    return kb_vec_push(all, (share){.user = user}) ? &all->data[all->count - 1] : NULL;
}

/* Bytes that would wait per user: planned texts and those that wait already. False: out of
 * memory. */
static bool sum_shares(const ko_dyno_registry *r, const gifts *g, size_t text_bytes, shares *all)
{
    for (size_t i = 0; i < g->count; i++) {
        share *s = share_of(all, g->data[i].to->user);
        if (!s)
            return false;
        s->bytes += text_bytes;
    }
    for (size_t i = 0; i < r->all.count; i++) {
        share *s = r->all.data[i]->text ? share_of(all, r->all.data[i]->user) : NULL;
        if (r->all.data[i]->text && !s)
            return false;
        if (s)
            s->bytes += r->all.data[i]->text_bytes;
    }
    return true;
}

/* Users over their limit get no texts; the processes of other users still do. */
static void skip_users_over_limit(shares *all, gifts *g, ko_dyno_matches *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (share_of(all, g->data[i].to->user)->bytes <= MAX_WAITING_OF_ONE_USER)
            g->data[kept++] = g->data[i];
        else
            out->busy++;
    }
    g->count = kept;
}

/* Fails only if no process at all is left. */
static kineto_status check_user_shares(const ko_dyno_registry *r, size_t text_bytes, gifts *g,
                                       ko_dyno_matches *out, kineto_error *err)
{
    shares all = {0};
    size_t wanted = g->count;
    uint32_t user = wanted ? g->data[0].to->user : 0;
    bool added = sum_shares(r, g, text_bytes, &all);
    if (added)
        skip_users_over_limit(&all, g, out);
    kb_vec_free(&all);
    if (!added)
        return kb_fail_memory(err, "processes of a trigger");
    if (!wanted || g->count)
        return KINETO_OK;
    return kb_fail(
        err, KINETO_E_LIMIT,
        "more than %zu MiB of configurations would wait for processes of user %u, "
        "%zu of them in this request; request fewer, or wait until they have fetched theirs",
        MAX_WAITING_OF_ONE_USER >> 20, user, wanted);
}

/* Makes the texts of all planned assignments, within the total limit. */
static kineto_status write_texts(ko_dyno_registry *r, kineto_string config, gifts *g,
                                 ko_dyno_matches *out, kineto_error *err)
{
    size_t room = MAX_WAITING - KB_MIN(r->waiting_bytes, MAX_WAITING);
    if (g->count > room / (config.size + ID_BYTES))
        return kb_fail(err, KINETO_E_LIMIT,
                       "more than %zu MiB of configurations would wait for %zu processes",
                       MAX_WAITING >> 20, g->count);
    for (size_t i = 0; i < g->count; i++) {
        g->data[i].text = format_config_text(r, g->data[i].to, config);
        if (!g->data[i].text || !kb_vec_push(&out->triggered, g->data[i].to->leaf))
            return kb_fail_memory(err, "texts of a trigger");
    }
    return KINETO_OK;
}

/* Limits of a trigger that do not depend on the registry. */
static kineto_status check_trigger(const ko_dyno_trigger *t, kineto_error *err)
{
    if (t->config.size > MAX_TEXT_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "a configuration has at most %u bytes, not %zu",
                       MAX_TEXT_BYTES, t->config.size);
    if (t->config.size && memchr(t->config.data, 0, t->config.size))
        return kb_fail(err, KINETO_E_ARGUMENT, "a configuration is text: no NUL in it");
    if (t->pid_count > MAX_TRIGGER_PIDS)
        return kb_fail(err, KINETO_E_LIMIT, "at most %u pids in one trigger, not %u",
                       MAX_TRIGGER_PIDS, t->pid_count);
    return KINETO_OK;
}

/* Selects, checks limits, makes all texts, and only then assigns them. */
static kineto_status trigger_processes(ko_dyno_registry *r, const ko_dyno_trigger *t,
                                       pid_set wanted, ko_dyno_matches *out, kineto_error *err)
{
    gifts g = {0};
    kineto_string config = t->config.size ? t->config : kb_string("");
    kineto_status status = select_processes(r, t, wanted, out, &g, err);
    if (status == KINETO_OK)
        status = check_user_shares(r, config.size + ID_BYTES, &g, out, err);
    if (status == KINETO_OK)
        status = write_texts(r, config, &g, out, err);
    for (size_t i = 0; status == KINETO_OK && i < g.count; i++) {
        set_waiting_text(r, g.data[i].to, g.data[i].text);
        g.data[i].text = NULL;
    }
    free_gifts(&g);
    return status;
}

kineto_status ko_dyno_registry_trigger(ko_dyno_registry *r, const ko_dyno_trigger *t,
                                       uint64_t now_ns, ko_dyno_matches *out, kineto_error *err)
{
    *out = (ko_dyno_matches){0};
    kineto_status status = check_trigger(t, err);
    if (status != KINETO_OK)
        return status;
    int32_t *pids = malloc(KB_MAX(t->pid_count, 1u) * sizeof *pids);
    if (!pids)
        return kb_fail(err, KINETO_E_MEMORY, "%u pids: out of memory", t->pid_count);
    if (t->pid_count)
        memcpy(pids, t->pids, t->pid_count * sizeof *pids);
    ko_dyno_registry_age(r, now_ns);
    status = trigger_processes(r, t, make_pid_set(pids, t->pid_count), out, err);
    free(pids);
    if (status != KINETO_OK)
        ko_dyno_matches_free(out);
    return status;
}

void ko_dyno_matches_free(ko_dyno_matches *m)
{
    kb_vec_free(&m->matched);
    kb_vec_free(&m->triggered);
    m->busy = 0;
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool is_silent(uint64_t seen_ns, uint64_t now_ns)
{
    return now_ns > seen_ns && now_ns - seen_ns > SILENCE_NS;
}

static bool has_processes(const ko_dyno_registry *r, int64_t job)
{
    size_t at = first_index_of_job(r, job);
    return at < r->all.count && r->all.data[at]->job == job;
}

void ko_dyno_registry_age(ko_dyno_registry *r, uint64_t now_ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->all.count; i++) {
        process *p = r->all.data[i];
        if (is_silent(p->seen_ns, now_ns))
            free_process(r, p);
        else
            r->all.data[kept++] = p;
    }
    r->all.count = kept;
    kept = 0;
    /* A process reports its GPU only once: it counts as long as its job has processes. */
    for (size_t i = 0; i < r->contexts.count; i++) {
        gpu_user c = r->contexts.data[i];
        if (!is_silent(c.seen_ns, now_ns) || has_processes(r, c.job))
            r->contexts.data[kept++] = c;
    }
    r->contexts.count = kept;
}

void ko_dyno_registry_each(const ko_dyno_registry *r, ko_dyno_visit *visit, void *context)
{
    for (size_t i = 0; i < r->all.count; i++) {
        ko_dyno_process p = public_view(r->all.data[i]);
        visit(context, &p);
    }
}

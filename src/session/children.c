/* The descendants of the recorded process. Recording enters a program through interfaces that the
 * program loads itself, so some processes never attach: they are sampled from outside through /proc
 * and become lines of the ledger. A process image is identified by pid, start time and exec: a
 * process that attached, and then executed a program that could not, has a line of its own.
 */
#include "session/process_image.h"
#include "session/self_cost.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#define MAX_IMAGES    4096u
#define MAX_READS     512u /* files read in one sample, to bound its cost */
#define MAX_EXAMPLES  5u
#define MIN_UNSEEN_NS UINT64_C(1000000) /* a process that ends at once takes about 1 ms */
#define SOURCE        KT_SOURCE_UNRECORDED
#define NOT_LOOKED_AT "more processes than are looked at"

struct ks_children {
    uint32_t root;
    KB_VEC(ks_image) all;
    kb_map by_pid;   /* pid → index of its image now */
    uint64_t beyond; /* images that did not fit */
    uint32_t reads, pass;
    ks_surroundings surroundings;
};

ks_children *ks_children_create(uint32_t root_pid, const ks_collector_options *options,
                                const char *pool_path, uint64_t pool_bytes)
{
    ks_children *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->root = root_pid;
    ks_surroundings_init(&c->surroundings, pool_path, pool_bytes);
    c->surroundings.python_left_out = options->python_left_out;
    c->surroundings.python_functions = options->python_functions;
    return c;
}

void ks_children_destroy(ks_children *c)
{
    if (!c)
        return;
    kb_vec_free(&c->all);
    kb_map_free(&c->by_pid);
    free(c);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* The current image of a process, added if it is new; NULL: the process is gone, or the table is
 * full. */
static ks_image *find_image(ks_children *c, uint32_t pid)
{
    uint64_t start_time = kb_os_start_time(pid);
    uint64_t *at = kb_map_insert(&c->by_pid, pid, UINT64_MAX, NULL);
    ks_image *it = at && *at < c->all.count ? &c->all.data[*at] : NULL;
    if (it && it->start_time == start_time && ks_image_is_current(it))
        return it;
    if (it) {
        it->replaced = it->start_time == start_time;
        it->gone = !it->replaced;
    }
    if (!at || !start_time)
        return NULL;
    *at = UINT64_MAX;
    ks_image fresh = {.pid = pid, .start_time = start_time, .why = KS_UNRECORDED_BRIEF};
    if (c->all.count >= MAX_IMAGES || !kb_vec_push(&c->all, fresh)) {
        c->beyond++;
        return NULL;
    }
    KB_ASSERT(c->all.count <= MAX_IMAGES);
    *at = c->all.count - 1;
    return &c->all.data[*at];
}

/* Examines a process. False: it was already examined in this pass. */
static bool look_at_process(ks_children *c, uint32_t pid)
{
    ks_image *it = find_image(c, pid);
    if (!it)
        return true;
    if (it->pass == c->pass)
        return false;
    it->pass = c->pass;
    ks_image_examine(&c->surroundings, it);
    return true;
}

typedef KB_VEC(uint32_t) pid_list;

/* Appends the children of one thread (/proc/PID/task/TID/children) to the queue. */
static void add_children_of(ks_children *c, uint32_t pid, const char *tid, pid_list *queue)
{
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%u/task/%s/children", pid, tid);
    c->reads++;
    if (!kb_os_read_file(path, text, sizeof text))
        return;
    char *at = text, *end;
    for (;; at = end) {
        unsigned long n = strtoul(at, &end, 10);
        if (end == at)
            return;
        if (n > 0 && n <= INT_MAX && queue->count < MAX_READS)
            (void)kb_vec_push(queue, (uint32_t)n);
    }
}

static void list_process_children(ks_children *c, uint32_t pid, pid_list *queue)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return;
    for (struct dirent *d; c->reads < MAX_READS && (d = readdir(tasks));)
        if (d->d_name[0] != '.')
            add_children_of(c, pid, d->d_name, queue);
    closedir(tasks);
}

/* Breadth first; examines each process once per pass. */
static void look_at_process_tree(ks_children *c, uint32_t root)
{
    pid_list queue = {0};
    (void)kb_vec_push(&queue, root);
    for (size_t i = 0; i < queue.count && c->reads < MAX_READS; i++)
        if (look_at_process(c, queue.data[i]))
            list_process_children(c, queue.data[i], &queue);
    kb_vec_free(&queue);
}

/* Samples the descendants of the root, and those of processes seen earlier: a daemon has been
 * reparented and is no longer below the root. */
void ks_children_sample(ks_children *c)
{
    if (!kb_os_proc_is_ours())
        return;
    c->reads = 0;
    c->pass++;
    look_at_process_tree(c, c->root);
    for (size_t i = 0; i < c->all.count && c->reads < MAX_READS; i++) {
        ks_image *it = &c->all.data[i];
        if (it->replaced || it->gone || it->pass == c->pass)
            continue;
        it->gone = !kb_os_alive(it->pid, it->start_time);
        if (!it->gone)
            look_at_process_tree(c, it->pid);
    }
}

void ks_children_attached(ks_children *c, uint32_t pid)
{
    if (kb_map_find(&c->by_pid, pid) == NULL)
        (void)find_image(c, pid);
}

uint32_t ks_children_pids(uint32_t root_pid, uint32_t *pids, uint32_t room)
{
    ks_children c = {.root = root_pid};
    pid_list queue = {0};
    uint32_t count = 0;
    (void)kb_vec_push(&queue, root_pid);
    for (size_t i = 0; i < queue.count && c.reads < MAX_READS && count < room; i++) {
        pids[count++] = queue.data[i];
        list_process_children(&c, queue.data[i], &queue);
    }
    kb_vec_free(&queue);
    return count;
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Sets of attached processes, by three keys: pid and start time; exec; all three. */
typedef struct attached {
    kb_map processes, execs, images;
} attached;

static uint64_t image_key(uint32_t pid, uint64_t start_time, uint64_t exec_id)
{
    uint64_t key[3] = {pid, start_time, exec_id};
    return kb_hash(key, sizeof key);
}

/* ks_process_visit. False: out of memory. */
static bool note_attached_process(void *context, const kf_process_entry *p, kineto_string name)
{
    attached *a = context;
    (void)name;
    return kb_map_insert(&a->processes, image_key(p->pid, p->start_time, 0), 1, NULL) &&
           kb_map_insert(&a->execs, p->exec_id, 1, NULL) &&
           kb_map_insert(&a->images, image_key(p->pid, p->start_time, p->exec_id), 1, NULL);
}

static void free_attached(attached *a)
{
    kb_map_free(&a->processes);
    kb_map_free(&a->execs);
    kb_map_free(&a->images);
}

/* Without a readable exec id, any image of the process that attached counts. */
static bool did_attach(const attached *a, const ks_image *it)
{
    return it->exec_id
               ? kb_map_find(&a->images, image_key(it->pid, it->start_time, it->exec_id)) != NULL
               : kb_map_find(&a->processes, image_key(it->pid, it->start_time, 0)) != NULL;
}

/* Why an image is not recorded. A fork's child attaches with its first record: a child of an
 * attached exec that did not attach has nothing to record, whatever else would prevent it. */
static ks_unrecorded unrecorded_reason(const ks_surroundings *s, const attached *a,
                                       const ks_image *it)
{
    if (it->exec_id && kb_map_find(&a->execs, it->exec_id))
        return KS_UNRECORDED_UNUSED;
    if (s->python_functions && it->is_python &&
        (it->why == KS_UNRECORDED_UNUSED || it->why == KS_UNRECORDED_TORCH))
        return KS_UNRECORDED_PYTHON;
    return it->why == KS_UNRECORDED_UNUSED && it->has_recorder ? KS_UNRECORDED_NOT_ATTACHED
                                                               : it->why;
}

typedef struct group {
    uint64_t count;
    char examples[256];
} group;

/* Counts a process; the first MAX_EXAMPLES are named. */
static void add_to_group(group *g, kineto_string name, uint32_t pid)
{
    size_t used = strlen(g->examples), size = sizeof g->examples - used;
    if (g->count++ < MAX_EXAMPLES)
        snprintf(g->examples + used, size, "%s%.*s (%u)", used ? ", " : "",
                 (int)KB_MIN(name.size, (size_t)32), name.size ? name.data : "pid", pid);
    else if (g->count == MAX_EXAMPLES + 1)
        snprintf(g->examples + used, size, " …");
}

/* Images that have the recorder loaded would have recorded: their events are lost (HAS_EVENTS). */
enum { MAY_HAVE_EVENTS, HAS_EVENTS, GROUPS };

/* Processes with a library of another version append a line "PID NAME" after the end of the pool.
 */
static void add_other_versions(const ks_surroundings *s, kb_map *pids, group *g)
{
    char text[4096], *name;
    int fd = open(s->pool_path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, (off_t)s->pool_bytes) : 0;
    if (fd >= 0)
        close(fd);
    text[KB_MAX(n, 0)] = 0;
    for (char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        bool created = false;
        uint32_t pid = (uint32_t)strtoul(at, &name, 10);
        *end = 0;
        if (*name == ' ' && kb_map_insert(pids, pid, 1, &created) && created)
            add_to_group(g, kb_string(name + 1), pid);
    }
}

/* One line per reason and group, with examples. That a program has used nothing that is recorded is no
 * news of one that is watched from outside. */
static void report_unrecorded(const ks_children *c, const kf_pool *pool, const attached *a,
                              const attached *watched, uint64_t ticks)
{
    group groups[KS_UNRECORDED_COUNT][GROUPS] = {0};
    kb_map others = {0};
    add_other_versions(&c->surroundings, &others, &groups[KS_UNRECORDED_OTHER_VERSION][HAS_EVENTS]);
    for (size_t i = 0; i < c->all.count; i++) {
        const ks_image *it = &c->all.data[i];
        if (ks_image_is_transient(it) || kb_map_find(&others, it->pid))
            continue;
        bool is_attached = did_attach(a, it);
        if (is_attached && !ks_image_lacks_functions(&c->surroundings, it))
            continue;
        ks_unrecorded why =
            is_attached ? KS_UNRECORDED_PYTHON : unrecorded_reason(&c->surroundings, a, it);
        KB_ASSERT(why < KS_UNRECORDED_COUNT);
        if (why == KS_UNRECORDED_UNUSED && did_attach(watched, it))
            continue;
        bool lost = it->has_recorder && why != KS_UNRECORDED_UNUSED && !is_attached;
        add_to_group(&groups[why][lost ? HAS_EVENTS : MAY_HAVE_EVENTS], kb_string(it->name),
                     it->pid);
    }
    for (uint32_t why = 0; why < KS_UNRECORDED_COUNT; why++)
        for (uint32_t kind = 0; kind < GROUPS; kind++)
            if (groups[why][kind].count)
                ks_pool_note_at(pool, SOURCE, ks_unrecorded_text(why), groups[why][kind].count,
                                kind == HAS_EVENTS, groups[why][kind].examples, ticks);
    kb_map_free(&others);
    if (c->beyond)
        ks_pool_note_at(pool, SOURCE, NOT_LOOKED_AT, c->beyond, false, "", ticks);
}

void ks_pool_note_steps(const kf_pool *pool)
{
    group begun = {0};
    for (uint32_t i = 0; i < KF_STEP_SLOTS; i++) {
        const kf_steps *s = &pool->control->steps[i];
        uint64_t count = kb_load_acquire(&s->count);
        char name[40];
        snprintf(name, sizeof name, "ProfilerStep#%llu", (unsigned long long)count - 1);
        if (count)
            add_to_group(&begun, kb_string(name), kb_load_relaxed(&s->pid));
    }
    if (begun.count)
        ks_pool_note(pool, KT_SOURCE_STEPS, "had begun when the recording ended", begun.count,
                     false, begun.examples);
}

/* Attached processes that still run; `known` removes duplicates of the pool's list. */
typedef struct running {
    group group;
    kb_map known;
} running;

/* ks_process_visit. */
static bool add_running(void *context, const kf_process_entry *p, kineto_string name)
{
    running *r = context;
    bool created = false;
    if (!kb_map_insert(&r->known, image_key(p->pid, p->start_time, 0), 1, &created))
        return false;
    if (created && kb_os_alive(p->pid, p->start_time))
        add_to_group(&r->group, name, p->pid);
    return true;
}

void ks_children_report(const ks_children *c, const kf_pool *pool, uint64_t ticks)
{
    attached a = {0}, watched = {0};
    running r = {0};
    if (!kb_os_proc_is_ours())
        ks_pool_note_at(
            pool, SOURCE, "could not be looked at", 1, false,
            "/proc is not mounted, or belongs to another pid namespace: programs that were not "
            "recorded are not named, nor those that go on",
            ticks);
    ks_pool_processes(pool, false, note_attached_process, &a);
    ks_pool_processes(pool, true, note_attached_process, &watched);
    report_unrecorded(c, pool, &a, &watched, ticks);
    free_attached(&a);
    free_attached(&watched);
    if (ticks)
        return;
    ks_pool_note_steps(pool);
    ks_pool_processes(pool, false, add_running, &r);
    if (r.group.count)
        ks_pool_note(pool, KT_SOURCE_RUNNING, "still running when the recording ended",
                     r.group.count, true, r.group.examples);
    kb_map_free(&r.known);
}

/* CPU time that the kernel counted for all ended children, less that of the ones that were sampled.
 * An upper bound: sampled children may have run on for a moment after their last sample. */
void ks_children_report_unseen(const ks_children *c, const kf_pool *pool, uint64_t waited_ns)
{
    uint64_t seen_ns = 0;
    char detail[400];
    for (size_t i = 0; i < c->all.count; i++)
        if (c->all.data[i].pid != c->root && !c->all.data[i].replaced &&
            !ks_process_cpu_ns(c->all.data[i].pid))
            seen_ns += c->all.data[i].cpu_ns;
    if (waited_ns < seen_ns + MIN_UNSEEN_NS)
        return;
    snprintf(detail, sizeof detail,
             "children that ended took %s of CPU time, those that were examined %s up to a tenth of a "
             "second before they ended; shorter ones have threads and samples only where the kernel's "
             "events are allowed",
             kb_duration((int64_t)waited_ns).s, kb_duration((int64_t)seen_ns).s);
    ks_pool_note(pool, SOURCE, "CPU time of children that ended before they were examined, at most [us]",
                 (waited_ns - seen_ns) / 1000, false, detail);
}

bool ks_children_has_unrecorded(const kineto_trace *trace)
{
    for (ks_unrecorded r = KS_UNRECORDED_TORCH; r < KS_UNRECORDED_BRIEF; r++)
        if (kt_ledger_has(trace, SOURCE, ks_unrecorded_text(r)))
            return true;
    return kt_ledger_has(trace, SOURCE, NOT_LOOKED_AT);
}

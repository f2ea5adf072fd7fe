/* The processes below the recorded one. Recording enters a program through interfaces that it loads
 * itself, so some processes can never be seen from inside: those are told from outside, by looking
 * at the tree from time to time, and become lines of the ledger.
 */
#include "session/self_cost.h"
#include "session/session.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CHILDREN    4096u
#define MAX_LOOKS       512u /* files read in one sample: a bound on its cost */
#define MAX_EXAMPLES    5u
#define LEAST_UNSEEN_NS UINT64_C(1000000) /* a process that ends at once takes as much */
#define SOURCE          "processes not recorded"

#if defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#elif defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#else
#define OUR_MACHINE EM_NONE
#endif

/* X(NAME, text of the ledger) */
#define REASON_MAP(X)                                                                              \
    X(UNUSED, "used no recorded interface")                                                        \
    X(TORCH, "runs PyTorch, and Python did not import ckineto's package (python -I, -E or -S, "        \
             "TORCH_DEVICE_BACKEND_AUTOLOAD=0, a PYTHONPATH that was replaced): run it without these, " \
             "or install ckineto by pip and import it in the program")                                 \
    X(TORCH_LEFT_OUT, "runs PyTorch, and --no-torch or CKINETO_TORCH=0 leaves it out")                                    \
    X(STATIC, "statically linked: nothing can be loaded into it")                                  \
    X(WORD_SIZE, "of another word size or architecture")                                           \
    X(SET_ID, "runs with raised privileges (set-uid or set-gid)")                                  \
    X(NAMESPACE, "in another pid or mount namespace")                                              \
    X(HIDDEN, "belongs to another user: cannot be looked at")                                      \
    X(BRIEF, "ended too soon to be looked at")
typedef enum reason {
#define X(name, text) REASON_##name,
    REASON_MAP(X)
#undef X
        REASON_COUNT
} reason;

static const char *const reason_texts[] = {
#define X(name, text) text,
    REASON_MAP(X)
#undef X
};

typedef struct child {
    uint32_t pid;
    reason why;
    dev_t device; /* of the program file: exec makes a pid another program */
    ino_t inode;
    uint64_t cpu_ns; /* at the last look */
    uint64_t next_search_ns; /* CPU time at which its libraries are searched again */
    char name[32];
} child;

struct ks_children {
    uint32_t root;
    bool python_left_out; /* by the command: nothing is wrong with Python's processes */
    KB_VEC(child) all;
    kb_map by_pid; /* pid → index */
    uint32_t looks;
    char pid_namespace[64], mount_namespace[64];
};

static void read_namespace(uint32_t pid, const char *which, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/ns/%s", pid, which);
    ssize_t n = readlink(path, buf, size - 1);
    buf[n > 0 ? n : 0] = 0;
}

ks_children *ks_children_create(uint32_t root_pid, bool python_left_out)
{
    ks_children *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->root = root_pid;
    c->python_left_out = python_left_out;
    uint32_t self = kb_os_pid();
    read_namespace(self, "pid", c->pid_namespace, sizeof c->pid_namespace);
    read_namespace(self, "mnt", c->mount_namespace, sizeof c->mount_namespace);
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

/* ---- what kind of program it is ------------------------------------------------------------------ */

static bool has_interpreter(int fd, const Elf64_Ehdr *h)
{
    Elf64_Phdr p;
    for (uint32_t i = 0; i < h->e_phnum; i++) {
        off_t at = (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize);
        if (pread(fd, &p, sizeof p, at) != (ssize_t)sizeof p)
            return true; /* odd, but no proof */
        if (p.p_type == PT_INTERP)
            return true;
    }
    return false;
}

static reason classify_file(int fd)
{
    Elf64_Ehdr h;
    if (pread(fd, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        return REASON_UNUSED;
    if (h.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        (OUR_MACHINE != EM_NONE && h.e_machine != OUR_MACHINE))
        return REASON_WORD_SIZE;
    if (h.e_ident[EI_CLASS] == ELFCLASS64 && !has_interpreter(fd, &h))
        return REASON_STATIC;
    return REASON_UNUSED;
}

static bool raises_privileges(const struct stat *st)
{
    return ((st->st_mode & S_ISUID) && st->st_uid != geteuid()) ||
           ((st->st_mode & S_ISGID) && st->st_gid != getegid());
}

static bool other_namespace(const ks_children *c, uint32_t pid)
{
    char pid_ns[64], mount_ns[64];
    read_namespace(pid, "pid", pid_ns, sizeof pid_ns);
    read_namespace(pid, "mnt", mount_ns, sizeof mount_ns);
    return (pid_ns[0] && strcmp(pid_ns, c->pid_namespace) != 0) ||
           (mount_ns[0] && strcmp(mount_ns, c->mount_namespace) != 0);
}

/* What could be looked at before and cannot any more has become a program of raised privileges. */
static void look_from_afar(child *it)
{
    if (errno != EACCES)
        return; /* it has ended */
    it->why = REASON_HIDDEN;
    (void)kb_os_process_name(it->pid, it->name, sizeof it->name);
}

/* Of interpreters of Python: is PyTorch loaded? Searched when the process has taken half a second of CPU
 * time, and each time that doubled, since it is loaded late and maps are long. */
#define FIRST_SEARCH_NS UINT64_C(500000000)

static void search_torch(const ks_children *c, child *it)
{
    char path[64], line[4096];
    bool may_change = it->why == REASON_UNUSED || it->why == REASON_TORCH;
    if (!may_change || strncmp(it->name, "python", 6) != 0 ||
        it->cpu_ns < KB_MAX(it->next_search_ns, FIRST_SEARCH_NS))
        return;
    it->next_search_ns = 2 * it->cpu_ns;
    snprintf(path, sizeof path, "/proc/%u/maps", it->pid);
    FILE *maps = fopen(path, "re");
    if (!maps)
        return;
    bool torch = false, ours = false;
    while (!ours && fgets(line, sizeof line, maps)) {
        torch |= strstr(line, "/libtorch_cpu.so") != NULL;
        ours = strstr(line, "/libckineto-rt.so") != NULL;
    }
    fclose(maps);
    if (ours) /* our package is imported at the end of PyTorch's import */
        it->why = REASON_UNUSED;
    else if (torch)
        it->why = c->python_left_out ? REASON_TORCH_LEFT_OUT : REASON_TORCH;
}

/* Look again only when the program file is another one. */
static void look_at(ks_children *c, child *it)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "/proc/%u/exe", it->pid);
    if (stat(path, &st) != 0) {
        look_from_afar(it);
        return;
    }
    if (st.st_dev == it->device && st.st_ino == it->inode)
        return;
    it->device = st.st_dev;
    it->inode = st.st_ino;
    (void)kb_os_process_name(it->pid, it->name, sizeof it->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    it->why = fd >= 0 ? classify_file(fd) : REASON_HIDDEN;
    if (fd >= 0)
        close(fd);
    if (raises_privileges(&st))
        it->why = REASON_SET_ID;
    else if (other_namespace(c, it->pid))
        it->why = REASON_NAMESPACE;
}

/* ---- the tree -------------------------------------------------------------------------------------- */

static void see(ks_children *c, uint32_t pid)
{
    bool created = false;
    uint64_t *at = kb_map_insert(&c->by_pid, pid, c->all.count, &created);
    if (!at)
        return;
    if (created) {
        child fresh = {.pid = pid, .why = REASON_BRIEF};
        if (c->all.count >= MAX_CHILDREN || !kb_vec_push(&c->all, fresh)) {
            *at = UINT64_MAX;
            return;
        }
    }
    if (*at >= c->all.count)
        return;
    child *it = &c->all.data[*at];
    look_at(c, it);
    it->cpu_ns = KB_MAX(it->cpu_ns, ks_process_cpu_ns(pid));
    search_torch(c, it);
}

typedef KB_VEC(uint32_t) pid_list;

static void add_children_of(ks_children *c, uint32_t pid, const char *tid, pid_list *queue)
{
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%u/task/%s/children", pid, tid);
    c->looks++;
    if (!kb_os_read_file(path, text, sizeof text))
        return;
    char *at = text, *end;
    for (;; at = end) {
        unsigned long n = strtoul(at, &end, 10);
        if (end == at)
            return;
        if (n > 0 && n <= INT_MAX && queue->count < MAX_LOOKS)
            (void)kb_vec_push(queue, (uint32_t)n);
    }
}

static void look_below(ks_children *c, uint32_t pid, pid_list *queue)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return;
    for (struct dirent *d; c->looks < MAX_LOOKS && (d = readdir(tasks));)
        if (d->d_name[0] != '.')
            add_children_of(c, pid, d->d_name, queue);
    closedir(tasks);
}

void ks_children_sample(ks_children *c)
{
    pid_list queue = {0};
    c->looks = 0;
    (void)kb_vec_push(&queue, c->root);
    for (size_t i = 0; i < queue.count && c->looks < MAX_LOOKS; i++) {
        see(c, queue.data[i]);
        look_below(c, queue.data[i], &queue);
    }
    kb_vec_free(&queue);
}

uint32_t ks_children_pids(uint32_t root_pid, uint32_t *pids, uint32_t room)
{
    ks_children c = {.root = root_pid};
    pid_list queue = {0};
    uint32_t count = 0;
    (void)kb_vec_push(&queue, root_pid);
    for (size_t i = 0; i < queue.count && c.looks < MAX_LOOKS && count < room; i++) {
        pids[count++] = queue.data[i];
        look_below(&c, queue.data[i], &queue);
    }
    kb_vec_free(&queue);
    return count;
}

/* ---- the account ------------------------------------------------------------------------------------ */

static bool on_attached(void *context, const kf_process_entry *p, kineto_string name)
{
    (void)name;
    uint64_t *start = kb_map_insert(context, p->pid, p->start_time, NULL);
    if (start)
        *start = p->start_time;
    return true;
}

typedef struct group {
    uint64_t count;
    char examples[256];
} group;

static void group_add(group *g, const child *it)
{
    size_t used = strlen(g->examples), size = sizeof g->examples - used;
    if (g->count++ < MAX_EXAMPLES)
        snprintf(g->examples + used, size, "%s%s (%u)", used ? ", " : "",
                 it->name[0] ? it->name : "pid", it->pid);
    else if (g->count == MAX_EXAMPLES + 1)
        snprintf(g->examples + used, size, " …");
}

void ks_children_report(const ks_children *c, const kf_pool *pool, uint64_t ticks)
{
    group groups[REASON_COUNT] = {0}, running = {0};
    kb_map attached = {0}; /* pid → start time */
    ks_pool_processes(pool, on_attached, &attached);
    for (size_t i = 0; i < c->all.count; i++) {
        const child *it = &c->all.data[i];
        const uint64_t *start_time = kb_map_find(&attached, it->pid);
        if (!start_time)
            group_add(&groups[it->why], it);
        else if (kb_os_alive(it->pid, *start_time))
            group_add(&running, it);
    }
    for (uint32_t r = 0; r < REASON_COUNT; r++)
        if (groups[r].count)
            ks_pool_note_at(pool, SOURCE, reason_texts[r], groups[r].count, false,
                            groups[r].examples, ticks);
    if (running.count && !ticks)
        ks_pool_note(pool, "processes", "still running when the recording ended", running.count,
                     true, running.examples);
    kb_map_free(&attached);
}

/* What the kernel says of all who ended, without those that were seen: these may have gone on for a
 * moment after they were looked at last. */
void ks_children_report_unseen(const ks_children *c, const kf_pool *pool, uint64_t waited_ns)
{
    uint64_t seen_ns = 0;
    char detail[400];
    for (size_t i = 0; i < c->all.count; i++)
        if (c->all.data[i].pid != c->root && !ks_process_cpu_ns(c->all.data[i].pid))
            seen_ns += c->all.data[i].cpu_ns;
    if (waited_ns < seen_ns + LEAST_UNSEEN_NS)
        return;
    snprintf(detail, sizeof detail,
             "children that ended took %s of CPU time, those that were seen %s up to a tenth of a "
             "second "
             "before they ended; shorter ones are not seen",
             kb_duration((int64_t)waited_ns).s, kb_duration((int64_t)seen_ns).s);
    ks_pool_note(pool, SOURCE, "CPU time of children that were not seen, at most [us]",
                 (waited_ns - seen_ns) / 1000, false, detail);
}

bool ks_children_could_not(const kineto_trace *trace)
{
    for (reason r = REASON_TORCH; r < REASON_BRIEF; r++)
        if (kt_ledger_has(trace, SOURCE, reason_texts[r]))
            return true;
    return false;
}

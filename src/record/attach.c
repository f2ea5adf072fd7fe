/* This process and its pool: attaching once, registering the process, its names and metadata.
 *
 * A process attaches when the library is loaded (the environment names a pool file) or when a
 * session of the program adopts a mapping; then it never changes. Readers find the pool without a
 * lock: kr_pool.control is published last (kr_pool_get). */
#include "record/host.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

kf_pool kr_pool;

KINETO_API const kf_pool *kineto_rt_pool(void) { return kr_pool_get(); }

/* ---- the process ----------------------------------------------------------------------------- */

enum { SELF_UNKNOWN = 0, SELF_REGISTERING = 1, SELF_REGISTERED = 2 };
enum { PLACE_UNKNOWN = 0, PLACE_SAME_NAMESPACE = 1, PLACE_OTHER_NAMESPACE = 2 };

/* In a page that a fork's child sees zeroed: the child registers itself. */
typedef struct kr_self {
    uint32_t state; /* SELF_…; one thread registers the process */
    uint32_t id;    /* dictionary id of the PROCESS entry; 0: table full */
    uint32_t place; /* PLACE_…: the recorder's pid namespace or another one */
    /* The name of its first thread at that time, as long as the system stores it. */
    char name[KB_OS_THREAD_NAME_BYTES];
} kr_self;
static kr_self *kr_self_page;

/* Is this process in another pid namespace than the recorder? The recorder would take its pids for
 * those of other or dead processes. */
static bool is_in_other_pid_namespace(const kf_control *control)
{
    uint64_t own[2];
    const uint64_t *its = control->pid_namespace;
    if (!its[0] && !its[1])
        return false;
    kb_os_pid_namespace(own);
    return (own[0] || own[1]) && (own[0] != its[0] || own[1] != its[1]);
}

bool kr_process_is_foreign(void)
{
    const kf_pool *pool = kr_pool_get();
    kr_self *self = kr_self_page;
    if (!pool || !self)
        return false;
    if (!kb_load_acquire(&self->place))
        kb_store_release(&self->place, (uint32_t)(is_in_other_pid_namespace(pool->control)
                                                      ? PLACE_OTHER_NAMESPACE
                                                      : PLACE_SAME_NAMESPACE));
    bool foreign = kb_load_relaxed(&self->place) == PLACE_OTHER_NAMESPACE;
    if (foreign)
        kb_store_release(&kineto_gate, &kr_closed_gate);
    return foreign;
}

void kr_process_forget(void)
{
    if (kr_self_page)
        *kr_self_page = (kr_self){.state = SELF_UNKNOWN};
}

/* Add the PROCESS entry; `kept` receives the process' short name. In a fork's child this is part of
 * its first record call, so errno is preserved. */
static uint32_t add_process_entry(const kf_pool *pool, char kept[KB_OS_THREAD_NAME_BYTES])
{
    int saved = errno;
    char name[64], command[1024];
    uint32_t pid = kb_os_pid();
    kf_process_entry entry = {.pid = pid,
                              .ppid = kb_os_parent(pid),
                              .start_time = kb_os_start_time(pid),
                              .exec_id = kb_os_exec_id(),
                              .ticks = kb_ticks(kb_ticks_clock())};
    uint32_t name_size = (uint32_t)kb_os_process_name(pid, name, sizeof name);
    uint32_t command_size = (uint32_t)kb_os_command_line(pid, command, sizeof command);
    memcpy(kept, name, KB_MIN(name_size, KB_OS_THREAD_NAME_BYTES - 1));
    kf_part parts[] = {{&entry, sizeof entry},
                       {&name_size, sizeof name_size},
                       {name, name_size},
                       {&command_size, sizeof command_size},
                       {command, command_size}};
    uint32_t id = kf_dictionary_add(pool, KF_ENTRY_PROCESS, parts, KB_COUNT(parts));
    if (!id)
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
    errno = saved;
    return id;
}

KINETO_API uint32_t kineto_rt_process(void)
{
    const kf_pool *pool = kr_pool_get();
    kr_self *self = kr_self_page;
    if (!pool || !self)
        return 0;
    uint32_t state = SELF_UNKNOWN;
    if (kb_load_acquire(&self->state) == SELF_REGISTERED)
        return self->id;
    if (kr_process_is_foreign())
        return 0;
    if (!kb_cas_acqrel(&self->state, &state, (uint32_t)SELF_REGISTERING))
        return 0; /* another thread is registering it; keyframes hold the pid as well */
    self->id = add_process_entry(pool, self->name);
    KB_ASSERT(kb_load_relaxed(&self->state) == SELF_REGISTERING);
    kb_store_release(&self->state, (uint32_t)SELF_REGISTERED);
    return self->id;
}

bool kr_process_has_name(const char *name, size_t size)
{
    const kr_self *self = kr_self_page;
    return self && kb_load_acquire(&self->state) == SELF_REGISTERED && strlen(self->name) == size &&
           memcmp(self->name, name, size) == 0;
}

/* ---- attaching ------------------------------------------------------------------------------- */

static void add_kept_names(void);

/* The control page last: other threads read it without a lock. */
static void publish_pool(const kf_pool *pool)
{
    KB_ASSERT(!kr_pool.control && pool->control && pool->chunk_count);
    kr_pool.descriptors = pool->descriptors;
    kr_pool.free_map = pool->free_map;
    kr_pool.partial_map = pool->partial_map;
    kr_pool.dictionary = pool->dictionary;
    kr_pool.chunks = pool->chunks;
    kr_pool.bytes = pool->bytes;
    kr_pool.chunk_count = pool->chunk_count;
    kr_pool.dictionary_words = pool->dictionary_words;
    kb_store_release(&kr_pool.control, pool->control);
    kb_store_release(&kineto_gate, (const uint64_t *)&pool->control->gate);
}

KINETO_API kineto_status kineto_rt_adopt(void *map, size_t bytes, kineto_error *err)
{
    static kb_lock lock;
    kineto_status status = KINETO_OK;
    (void)kr_lock_take(&lock);
    if (kr_pool_get()) {
        status = kb_fail(err, KINETO_E_STATE, "this process records into a pool already");
        goto done;
    }
    kf_pool pool;
    status = kf_pool_open(map, bytes, &pool, err);
    if (status)
        goto done;
    if (pool.control->ticks_clock != kb_ticks_clock()) {
        status = kb_fail(err, KINETO_E_UNSUPPORTED,
                         "the pool was made for another clock (%u) than this process reads (%u)",
                         pool.control->ticks_clock, kb_ticks_clock());
        goto done;
    }
    kr_self_page = kb_os_map_wiped_on_fork(sizeof *kr_self_page);
    kr_cost_calibrate(pool.control);
    publish_pool(&pool);
    kr_types_adopted();
    (void)kineto_rt_process();
    add_kept_names();
done:
    kb_lock_drop(&lock);
    return status;
}

/* Refuse a pool whose collector has ended: nothing would be read from it. */
static kineto_status check_collector(kf_control *control, kineto_error *err)
{
    if (is_in_other_pid_namespace(control))
        return kb_fail(err, KINETO_E_NOT_FOUND, "the recorder is in another pid namespace");
    if (kb_os_alive(control->collector_pid, control->collector_start_time))
        return KINETO_OK;
    kb_add_relaxed(&control->counters[KF_SOURCE_API][KF_REASON_NO_RECORDER], 1);
    return kb_fail(err, KINETO_E_NOT_FOUND, "the recorder (process %u) has ended",
                   control->collector_pid);
}

/* A file that this library cannot read may be a pool of another layout version. No layout stores
 * anything after the pool's end, so a recorder of any version finds there, in lines "PID NAME",
 * which processes are not recorded. */
static void append_unreadable_note(const char *path, const void *map, size_t bytes)
{
    char line[96], name[64] = "";
    uint32_t pid = kb_os_pid();
    if (bytes < sizeof(uint64_t) || kb_load_acquire((const uint64_t *)map) != KF_MAGIC)
        return;
    (void)kb_os_process_name(pid, name, sizeof name);
    int n = snprintf(line, sizeof line, "%u %s\n", pid, name);
    int fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)kb_os_write_quiet(fd, line, (size_t)n);
    close(fd);
}

KINETO_API kineto_status kineto_rt_attach(const char *path, kineto_error *err)
{
    size_t bytes = 0;
    kf_pool pool;
    kineto_error why = {.code = KINETO_E_IO};
    void *map = kb_os_map_open(path, &bytes, &why);
    kineto_status status = map ? kf_pool_open(map, bytes, &pool, &why) : why.code;
    if (map && status)
        append_unreadable_note(path, map, bytes);
    if (!status)
        status = check_collector(pool.control, &why);
    if (!status)
        status = kineto_rt_adopt(map, bytes, &why);
    if (!status) {
        (void)kineto_rt_process();
        return KINETO_OK;
    }
    if (map)
        kb_os_unmap(map, bytes);
    return kb_fail(err, status, "%s: %s", path, why.message);
}

/* Once, when the library is loaded. A process that cannot attach runs on unrecorded; the collector
 * sees that it never attached. */
__attribute__((constructor)) static void attach_from_environment(void)
{
    int saved = errno;
    uint64_t begun_ns = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    (void)kr_threads_init();
    const char *path = kb_os_getenv("CKINETO_SESSION");
    if (path && *path) {
        kineto_error err = {0};
        kineto_status status = kineto_rt_attach(path, &err);
        /* At level INFO only: the recorder reports it in the ledger, and the program's stderr does
         * not change. */
        if (status)
            kb_log(KINETO_LOG_INFO, "not recorded: %s", err.message);
        else
            kb_log(KINETO_LOG_INFO, "recording into %s", path);
        if (!status) {
            kf_follow_forget(kr_pool_get()->control, kb_os_pid());
            kr_loader_attached();
            (void)kineto_privateuse1_init();
            kr_cost_add(KF_COST_ATTACH, kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun_ns, 1);
        }
    }
    kr_control_open();
    errno = saved;
}

/* ---- names, metadata, notes ---------------------------------------------------------------------
 * Without a pool they are kept in a list, and added to the dictionary when there is one. */

/* A dictionary entry that waits for a pool. Its payload begins with the process' id, which is
 * filled in then. */
typedef struct kr_kept {
    struct kr_kept *next;
    kf_entry_type type;
    uint32_t size;
    uint8_t payload[];
} kr_kept;
static kr_kept *kr_kept_entries;
static kb_lock kr_names_lock;
static char kr_process_name[256];

/* False: this thread, interrupted by a signal handler, holds the lock already. The handler goes on
 * without it, and must not drop it. */
static bool lock_names(void) { return kr_lock_take(&kr_names_lock); }
static void unlock_names(bool taken)
{
    if (taken)
        kb_lock_drop(&kr_names_lock);
}

/* Add an entry: `head`, whose first word receives the process' id, then the texts, each after its
 * size. @return its id; 0: the dictionary is full (counted). */
static uint32_t add_entry_with_texts(kf_entry_type type, void *head, size_t head_bytes,
                                     const char *const *texts, uint32_t count)
{
    enum { MAX_TEXTS = 3 };
    uint32_t sizes[MAX_TEXTS], n = 1, process = kineto_rt_process();
    kf_part parts[1 + 2 * MAX_TEXTS] = {{head, head_bytes}};
    KB_ASSERT(count <= MAX_TEXTS && head_bytes >= sizeof process);
    memcpy(head, &process, sizeof process);
    for (uint32_t i = 0; i < count && i < MAX_TEXTS; i++) {
        sizes[i] = (uint32_t)strlen(texts[i]);
        parts[n++] = (kf_part){&sizes[i], sizeof sizes[i]};
        parts[n++] = (kf_part){texts[i], sizes[i]};
    }
    uint32_t id = kf_dictionary_add(kr_pool_get(), type, parts, n);
    if (!id)
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
    return id;
}

/* The same payload in the heap. NULL: out of memory. */
static kr_kept *make_kept_entry(kf_entry_type type, const void *head, size_t head_bytes,
                                const char *const *texts, uint32_t count)
{
    size_t size = head_bytes;
    for (uint32_t i = 0; i < count; i++)
        size += sizeof(uint32_t) + strlen(texts[i]);
    kr_kept *kept = malloc(sizeof *kept + size);
    if (!kept)
        return NULL;
    *kept = (kr_kept){.type = type, .size = (uint32_t)size};
    uint8_t *at = kept->payload;
    memcpy(at, head, head_bytes);
    at += head_bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bytes = (uint32_t)strlen(texts[i]);
        memcpy(at, &bytes, sizeof bytes);
        memcpy(at + sizeof bytes, texts[i], bytes);
        at += sizeof bytes + bytes;
    }
    return kept;
}

/* Append to the list of entries that wait. False: the process has attached meanwhile, and the list
 * was added to the pool; the entry is still the caller's. */
static bool keep_entry(kr_kept *kept)
{
    bool taken = lock_names(), keep = !kr_pool_get();
    kr_kept **last = &kr_kept_entries;
    while (keep && *last)
        last = &(*last)->next;
    if (keep)
        *last = kept;
    unlock_names(taken);
    return keep;
}

static kineto_status add_or_keep_entry(kf_entry_type type, void *head, size_t head_bytes,
                                       const char *const *texts, uint32_t count)
{
    if (!kr_pool_get()) {
        kr_kept *kept = make_kept_entry(type, head, head_bytes, texts, count);
        if (!kept)
            return KINETO_E_MEMORY;
        if (keep_entry(kept))
            return KINETO_OK;
        free(kept);
    }
    return add_entry_with_texts(type, head, head_bytes, texts, count) ? KINETO_OK : KINETO_E_LIMIT;
}

static void add_kept_entries(void)
{
    uint32_t process = kineto_rt_process();
    for (kr_kept *k = kr_kept_entries; k; k = k->next) {
        kf_part part = {k->payload, k->size};
        memcpy(k->payload, &process, sizeof process);
        if (!kf_dictionary_add(kr_pool_get(), k->type, &part, 1))
            kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
    }
}

static void add_process_name(void)
{
    uint32_t head;
    const char *name = kr_process_name;
    (void)add_entry_with_texts(KF_ENTRY_PROCESS_NAME, &head, sizeof head, &name, 1);
}

static void add_kept_names(void)
{
    bool taken = lock_names();
    if (kr_process_name[0])
        add_process_name();
    add_kept_entries();
    unlock_names(taken);
}

void kineto_process_set_name(const char *name)
{
    if (!name)
        name = "";
    bool taken = lock_names();
    size_t n = KB_MIN(strlen(name), sizeof kr_process_name - 1);
    memcpy(kr_process_name, name, n);
    kr_process_name[n] = 0;
    if (kr_pool_get())
        add_process_name();
    unlock_names(taken);
}

static kineto_status add_metadata_entry(const char *key, const char *json_value, uint64_t ticks)
{
    kf_meta_entry entry = {.ticks = ticks};
    const char *texts[] = {key, json_value};
    return add_or_keep_entry(KF_ENTRY_META, &entry, sizeof entry, texts, 2);
}

kineto_status kineto_metadata_add(const char *key, const char *json_value)
{
    bool has = key && json_value;
    return has ? add_metadata_entry(key, json_value, kb_ticks(kb_ticks_clock()))
               : KINETO_E_ARGUMENT;
}

kineto_status kineto_process_set_metadata(const char *key, const char *json_value)
{
    return key && json_value ? add_metadata_entry(key, json_value, 0) : KINETO_E_ARGUMENT;
}

static kineto_status add_ledger_entry(const char *source, const char *reason, uint64_t count,
                                      bool is_loss, const char *detail, uint64_t ticks)
{
    kf_ledger_entry entry = {0, is_loss, count, ticks};
    const char *texts[] = {source, reason, detail ? detail : ""};
    return add_or_keep_entry(KF_ENTRY_LEDGER, &entry, sizeof entry, texts, 3);
}

bool kr_note(const char *source, const char *reason, uint64_t count, bool is_loss,
             const char *detail, uint64_t ticks)
{
    return add_ledger_entry(source, reason, count, is_loss, detail, ticks) == KINETO_OK;
}

kineto_status kineto_ledger_add(const char *source, const char *reason, uint64_t count,
                                bool is_loss, const char *detail)
{
    /* A loss concerns the windows that record at that time; other lines concern the whole
     * process. */
    uint64_t ticks = is_loss ? kb_ticks(kb_ticks_clock()) : 0;
    return source && reason ? add_ledger_entry(source, reason, count, is_loss, detail, ticks)
                            : KINETO_E_ARGUMENT;
}

KINETO_API void kineto_rt_note(const char *source, const char *reason, uint64_t count, bool is_loss,
                               const char *detail)
{
    (void)kr_note(source, reason, count, is_loss, detail, 0);
}

/* This process and its pool: attaching once, saying who we are, names and metadata. */
#include "record/cursor.h"

#include <errno.h>

kf_pool kr_pool;

KINETO_API const kf_pool *kineto_rt_pool(void) { return kr_pool_get(); }

/* ---- who we are ------------------------------------------------------------------------------ */

/* In a page that a fork's child sees zeroed: the child says anew who it is. */
typedef struct kr_self {
    uint32_t state; /* 0 nothing, 1 in progress, 2 done */
    uint32_t id;    /* dictionary id of the PROCESS entry; 0: table full */
} kr_self;
static kr_self *kr_self_page;

static uint32_t process_register(const kf_pool *pool)
{
    char name[64], command[1024];
    uint32_t pid = kb_os_pid();
    kf_process_entry entry = {.pid = pid,
                              .ppid = kb_os_parent(pid),
                              .start_time = kb_os_start_time(pid),
                              .exec_id = kb_os_exec_id(),
                              .ticks = kb_ticks(kb_ticks_clock())};
    uint32_t name_size = (uint32_t)kb_os_process_name(pid, name, sizeof name);
    uint32_t command_size = (uint32_t)kb_os_command_line(pid, command, sizeof command);
    kf_part parts[] = {{&entry, sizeof entry},
                       {&name_size, sizeof name_size},
                       {name, name_size},
                       {&command_size, sizeof command_size},
                       {command, command_size}};
    uint32_t id = kf_dictionary_add(pool, KF_ENTRY_PROCESS, parts, KB_COUNT(parts));
    if (!id)
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
    return id;
}

KINETO_API uint32_t kineto_rt_process(void)
{
    const kf_pool *pool = kr_pool_get();
    kr_self *self = kr_self_page;
    if (!pool || !self)
        return 0;
    uint32_t state = 0;
    if (kb_load_acquire(&self->state) == 2)
        return self->id;
    if (!kb_cas_acqrel(&self->state, &state, 1))
        return 0; /* another thread is at it; segments carry the pid as well */
    self->id = process_register(pool);
    kb_store_release(&self->state, 2);
    return self->id;
}

/* ---- attaching ------------------------------------------------------------------------------- */

static void replay_names(void);

/* The control page last: other threads look for it without a lock. */
static void pool_publish(const kf_pool *pool)
{
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
    pool_publish(&pool);
    (void)kineto_rt_process();
    replay_names();
done:
    kb_lock_drop(&lock);
    return status;
}

/* A pool that nobody collects from (its recorder is gone, or lives in another pid name space) is
 * not worth filling. */
static kineto_status check_collector(kf_control *control, kineto_error *err)
{
    if (kb_os_alive(control->collector_pid, control->collector_start_time))
        return KINETO_OK;
    kb_add_relaxed(&control->counters[KF_SOURCE_API][KF_REASON_NO_RECORDER], 1);
    return kb_fail(err, KINETO_E_NOT_FOUND, "its recorder (process %u) is not there any more",
                   control->collector_pid);
}

KINETO_API kineto_status kineto_rt_attach(const char *path, kineto_error *err)
{
    size_t bytes = 0;
    kf_pool pool;
    kineto_error why = {.code = KINETO_E_IO};
    void *map = kb_os_map_open(path, &bytes, &why);
    kineto_status status = map ? kf_pool_open(map, bytes, &pool, &why) : why.code;
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

/* Early and once: when the library is loaded. A process that cannot attach runs on unrecorded; the
 * collector sees that it never did. */
__attribute__((constructor)) static void attach_from_environment(void)
{
    int saved = errno;
    (void)kr_threads_init();
    const char *path = kb_os_getenv("CKINETO_SESSION");
    if (path && *path) {
        kineto_error err = {0};
        kineto_status status = kineto_rt_attach(path, &err);
        /* A recording that is over is nothing to tell the user of a program that outlived it. */
        bool over = status == KINETO_E_NOT_FOUND;
        if (status)
            kb_log(over ? KINETO_LOG_INFO : KINETO_LOG_WARNING, "not recorded: %s", err.message);
        else
            kb_log(KINETO_LOG_INFO, "recording into %s", path);
    }
    errno = saved;
}

/* ---- names and metadata -------------------------------------------------------------------------
 * What is said while there is no pool is kept and said again when there is one. */

typedef struct kr_meta {
    struct kr_meta *next;
    char *value; /* behind key, in the same block */
    char key[];
} kr_meta;
static kr_meta *kr_metas;
static kb_lock kr_names_lock;
static char kr_process_name[256];

static uint32_t add_text_entry(kf_entry_type type, const char *a, const char *b)
{
    const kf_pool *pool = kr_pool_get();
    uint32_t process = kineto_rt_process();
    uint32_t a_size = (uint32_t)strlen(a), b_size = b ? (uint32_t)strlen(b) : 0;
    kf_part parts[] = {{&process, sizeof process},
                       {&a_size, sizeof a_size},
                       {a, a_size},
                       {&b_size, sizeof b_size},
                       {b, b_size}};
    uint32_t id = kf_dictionary_add(pool, type, parts, b ? 5 : 3);
    if (!id)
        kr_count(KF_SOURCE_API, KF_REASON_DICTIONARY_FULL, 1);
    return id;
}

/* A handler that interrupts its own thread here goes on without the lock: it may not drop it. */
static bool names_lock(void) { return kr_lock_take(&kr_names_lock); }
static void names_unlock(bool taken)
{
    if (taken)
        kb_lock_drop(&kr_names_lock);
}

static void replay_names(void)
{
    bool taken = names_lock();
    if (kr_process_name[0])
        (void)add_text_entry(KF_ENTRY_PROCESS_NAME, kr_process_name, NULL);
    for (kr_meta *m = kr_metas; m; m = m->next)
        (void)add_text_entry(KF_ENTRY_META, m->key, m->value);
    names_unlock(taken);
}

void kineto_process_set_name(const char *name)
{
    if (!name)
        name = "";
    bool taken = names_lock();
    size_t n = KB_MIN(strlen(name), sizeof kr_process_name - 1);
    memcpy(kr_process_name, name, n);
    kr_process_name[n] = 0;
    if (kr_pool_get())
        (void)add_text_entry(KF_ENTRY_PROCESS_NAME, name, NULL);
    names_unlock(taken);
}

static kr_meta *meta_make(const char *key, const char *value)
{
    size_t key_bytes = strlen(key) + 1, value_bytes = strlen(value) + 1;
    kr_meta *m = malloc(sizeof *m + key_bytes + value_bytes);
    if (!m)
        return NULL;
    memcpy(m->key, key, key_bytes);
    m->value = m->key + key_bytes;
    memcpy(m->value, value, value_bytes);
    m->next = NULL;
    return m;
}

/* False: there is a pool by now, and what was kept has been said. */
static bool meta_keep(kr_meta *m)
{
    bool taken = names_lock(), keep = !kr_pool_get();
    kr_meta **last = &kr_metas;
    while (keep && *last)
        last = &(*last)->next;
    if (keep)
        *last = m;
    names_unlock(taken);
    return keep;
}

kineto_status kineto_metadata_add(const char *key, const char *json_value)
{
    if (!key || !json_value)
        return KINETO_E_ARGUMENT;
    if (!kr_pool_get()) {
        kr_meta *m = meta_make(key, json_value);
        if (!m)
            return KINETO_E_MEMORY;
        if (meta_keep(m))
            return KINETO_OK;
        free(m);
    }
    return add_text_entry(KF_ENTRY_META, key, json_value) ? KINETO_OK : KINETO_E_LIMIT;
}

/* Names that threads have in the system (pthread_setname_np, prctl): recorded for a thread that
 * ends, and at the end of a session or of the process for all threads that have cursors. A recorder
 * in another process reads those of running threads itself (session/running_thread_names.c).
 *
 * A thread starts with the name of the thread that created it, so the first thread's name on
 * another thread does not count as that thread's own. */
#include "record/cursor.h"

static size_t read_first_thread_name(char buf[KB_OS_THREAD_NAME_BYTES])
{
    uint32_t pid = kb_os_pid();
    return kb_os_thread_name(pid, pid, buf, KB_OS_THREAD_NAME_BYTES);
}

/* FNV-1a; never 0. */
static uint32_t hash_thread_name(const char *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)name[i]) * 16777619u;
    return hash | 1u;
}

void kr_thread_name_at_exit(kr_cursor *c)
{
    char own[KB_OS_THREAD_NAME_BYTES], first[KB_OS_THREAD_NAME_BYTES];
    const kf_pool *pool = kr_pool_get();
    if (!pool || c->name[0] || c->chunk == KR_NO_CHUNK || !c->at || c->limit - c->at < 2)
        return;
    size_t size = kb_os_own_thread_name(own);
    if (!size || hash_thread_name(own, size) == kb_load_relaxed(&c->system_name) ||
        kr_process_has_name(own, size))
        return;
    if (c->tid != c->pid && read_first_thread_name(first) == size && memcmp(own, first, size) == 0)
        return;
    uint32_t id = kf_dictionary_has_room(pool) ? kr_intern(own, size) : 0;
    if (!id)
        return;
    c->at[1] = kr_ticks(c);
    kr_commit(c, c->at, kf_header(KF_THREAD_NAME, 2, KF_NAME_OF_SYSTEM, id), 2);
}

typedef struct walk {
    const kf_pool *pool;
    char first[KB_OS_THREAD_NAME_BYTES];
    size_t first_size;
} walk;

/* Add a THREAD_NAME entry if the thread has a name of its own that was not recorded yet. */
static void add_thread_name(kr_cursor *c, void *context)
{
    const walk *w = context;
    char name[KB_OS_THREAD_NAME_BYTES];
    kf_thread_entry entry = {kb_load_relaxed(&c->pid), kb_load_relaxed(&c->tid)};
    uint32_t size = (uint32_t)kb_os_thread_name(entry.pid, entry.tid, name, sizeof name);
    bool is_first = size == w->first_size && memcmp(name, w->first, size) == 0;
    uint32_t hash = hash_thread_name(name, size);
    if (!size || kb_load_relaxed(&c->system_name) == hash || kr_process_has_name(name, size) ||
        (is_first && entry.tid != entry.pid) || !kf_dictionary_has_room(w->pool))
        return;
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {name, size}};
    if (kf_dictionary_add(w->pool, KF_ENTRY_THREAD_NAME, parts, KB_COUNT(parts)))
        kb_store_relaxed(&c->system_name, hash);
}

KINETO_API void kineto_rt_thread_names(void)
{
    walk w = {.pool = kr_pool_get()};
    if (!w.pool || kr_process_is_foreign())
        return;
    w.first_size = read_first_thread_name(w.first);
    kr_cursors_each(add_thread_name, &w);
}

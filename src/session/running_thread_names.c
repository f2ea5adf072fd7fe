/* Names of recorded threads, read from outside through /proc.
 *
 * A thread that ends writes its name itself (record/own_thread_names.c). For threads that run on, and
 * for killed processes, the last name that was read counts. Reading it is free where the collector
 * checks whether the thread is alive: the same file holds both. The first few names of a thread are
 * written when they are seen, so that a recovered recording has them; later ones at the end of the
 * recording or window. */
#include "session/collector.h"

#include <pthread.h>

#define MAX_THREADS 65536u
#define SOON_WRITES 4u /* names of a thread that are written as soon as they are seen */

typedef struct seen_thread {
    uint64_t owner; /* pid << 32 | tid */
    char name[KB_OS_THREAD_NAME_BYTES];
    uint32_t writes;
    bool is_news; /* not written yet */
} seen_thread;

struct ks_thread_names {
    pthread_mutex_t lock; /* traces of windows are built on other threads */
    KB_VEC(seen_thread) all;
    kb_map by_owner; /* owner → index */
};

ks_thread_names *ks_thread_names_create(void)
{
    ks_thread_names *n = calloc(1, sizeof *n);
    if (n && pthread_mutex_init(&n->lock, NULL) != 0) {
        free(n);
        return NULL;
    }
    return n;
}

void ks_thread_names_destroy(ks_thread_names *n)
{
    if (!n)
        return;
    (void)pthread_mutex_destroy(&n->lock);
    kb_vec_free(&n->all);
    kb_map_free(&n->by_owner);
    free(n);
}

/* Parses "PID (NAME) S …"; the name may contain any character, also parentheses. */
static bool parse_stat_name(const char *stat, char name[KB_OS_THREAD_NAME_BYTES])
{
    const char *begin = strchr(stat, '('), *end = strrchr(stat, ')');
    if (!begin || !end || end - begin < 2 || end - begin > (ptrdiff_t)KB_OS_THREAD_NAME_BYTES)
        return false;
    size_t size = (size_t)(end - begin) - 1;
    memcpy(name, begin + 1, size);
    name[size] = 0;
    return true;
}

/* Called with the lock. Adds the thread if it is new; NULL: the table is full. */
static seen_thread *find_seen_thread(ks_thread_names *n, uint64_t owner)
{
    const uint64_t *known = kb_map_find(&n->by_owner, owner);
    if (known)
        return &n->all.data[*known];
    seen_thread fresh = {.owner = owner};
    if (n->all.count >= MAX_THREADS || !kb_map_insert(&n->by_owner, owner, n->all.count, NULL) ||
        !kb_vec_push(&n->all, fresh))
        return NULL;
    return &n->all.data[n->all.count - 1];
}

/* A new thread inherits the name of its creator: the name of the main thread says nothing about
 * others. */
static bool is_inherited_name(uint64_t owner, const char *name)
{
    char first[KB_OS_THREAD_NAME_BYTES];
    uint32_t pid = (uint32_t)(owner >> 32);
    return pid != (uint32_t)owner && kb_os_thread_name(pid, pid, first, sizeof first) &&
           strcmp(first, name) == 0;
}

/* Called with the lock. */
static void write_name(seen_thread *t, const kf_pool *pool)
{
    kf_thread_entry entry = {(uint32_t)(t->owner >> 32), (uint32_t)t->owner};
    uint32_t size = (uint32_t)strlen(t->name);
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {t->name, size}};
    KB_ASSERT(t->is_news);
    t->is_news = false;
    t->writes++;
    /* When the dictionary gets full, thread names are the first to be omitted. */
    if (kb_load_relaxed(&pool->control->dictionary_used) < pool->dictionary_words / 4 * 3)
        (void)kf_dictionary_add(pool, KF_ENTRY_THREAD_NAME, parts, KB_COUNT(parts));
}

/* Called with the lock. */
static void update_thread_name(ks_thread_names *n, const kf_pool *pool, uint64_t owner,
                               const char *name)
{
    seen_thread *t = find_seen_thread(n, owner);
    if (!t || strcmp(t->name, name) == 0)
        return;
    memcpy(t->name, name, KB_OS_THREAD_NAME_BYTES);
    t->is_news = !is_inherited_name(owner, name);
    if (t->is_news && t->writes < SOON_WRITES)
        write_name(t, pool);
}

void ks_thread_names_note(ks_thread_names *n, const kf_pool *pool, uint64_t owner, const char *stat)
{
    char name[KB_OS_THREAD_NAME_BYTES] = "";
    if (!n || !parse_stat_name(stat, name))
        return;
    (void)pthread_mutex_lock(&n->lock);
    update_thread_name(n, pool, owner, name);
    (void)pthread_mutex_unlock(&n->lock);
}

void ks_thread_names_read(ks_thread_names *n, const kf_pool *pool)
{
    char path[64], stat[1024];
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        uint64_t claim = kf_chunk_claim_of(pool, i), owner = kf_claim_owner(claim);
        if (kf_claim_state(claim) != KF_CHUNK_LIVE || !owner)
            continue;
        snprintf(path, sizeof path, "/proc/%u/task/%u/stat", (uint32_t)(owner >> 32),
                 (uint32_t)owner);
        if (kb_os_read_file(path, stat, sizeof stat))
            ks_thread_names_note(n, pool, owner, stat);
    }
}

void ks_thread_names_finish(ks_thread_names *n, const kf_pool *pool)
{
    if (!n)
        return;
    ks_thread_names_read(n, pool);
    (void)pthread_mutex_lock(&n->lock);
    for (size_t i = 0; i < n->all.count; i++)
        if (n->all.data[i].is_news)
            write_name(&n->all.data[i], pool);
    (void)pthread_mutex_unlock(&n->lock);
}

/* A block for each thread. Blocks are never unmapped: threads of a team may still refer to a region of a
 * thread that has ended. They are used again by later threads. */
#include "openmp.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#define MAX_THREADS 65536u

__thread ct_thread *ct_this_thread CT_TLS;
static _Atomic(ct_thread *) thread_blocks[MAX_THREADS];
static atomic_uint block_count; /* all blocks before it exist, or are being made */
static atomic_uint worker_count;
static pthread_key_t block_key;
static bool has_block_key;

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A block of an ended thread; NULL: there is none. */
static ct_thread *reuse_thread_block(void)
{
    uint32_t count = atomic_load(&block_count);
    for (uint32_t i = 0; i < count && i < MAX_THREADS; i++) {
        ct_thread *t = atomic_load_explicit(&thread_blocks[i], memory_order_acquire);
        bool is_free = false;
        if (t && !atomic_load_explicit(&t->in_use, memory_order_relaxed) &&
            atomic_compare_exchange_strong(&t->in_use, &is_free, true))
            return t;
    }
    return NULL;
}

/* Zeroed pages, of which only the used ones take memory; errno is unchanged. */
static ct_thread *map_thread_block(void)
{
    int saved = errno;
    void *map = mmap(NULL, sizeof(ct_thread), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    errno = saved;
    if (map == MAP_FAILED)
        return NULL;
    ct_thread *t = map;
    uint32_t place = atomic_fetch_add(&block_count, 1);
    atomic_store(&t->in_use, true);
    if (place < MAX_THREADS)
        atomic_store_explicit(&thread_blocks[place], t, memory_order_release);
    return t;
}

CT_COLD ct_thread *ct_attach_thread(void)
{
    ct_thread *t = reuse_thread_block();
    if (!t)
        t = map_thread_block();
    if (!t) {
        ct_count(CT_TALLY_NO_THREAD);
        return NULL;
    }
    t->count = 0;
    t->region = t->left = NULL;
    t->named = false;
    if (has_block_key)
        (void)pthread_setspecific(block_key, t);
    ct_this_thread = t;
    return t;
}

/* What the thread did not leave, it leaves now. */
static void release_thread_block(void *block)
{
    ct_thread *t = block;
    while (t->count)
        if (t->open[--t->count].what == CT_IMPLICIT_TASK && t->open[t->count].region)
            ct_release_region(t->open[t->count].region);
    if (t->left)
        ct_release_region(t->left);
    t->left = NULL;
    ct_this_thread = NULL;
    atomic_store(&t->in_use, false);
}

void ct_name_worker(ct_thread *t)
{
    char name[32];
    if (t->named)
        return;
    t->named = true;
    (void)snprintf(name, sizeof name, "OpenMP worker %u", atomic_fetch_add(&worker_count, 1) + 1);
    kineto_thread_set_name(name);
}

/* ---- regions --------------------------------------------------------------------------------- */

ct_region *ct_claim_region(ct_thread *t)
{
    for (uint32_t i = 1; i <= CT_MAX_REGIONS; i++) {
        uint32_t place = (t->last_region + i) % CT_MAX_REGIONS;
        ct_region *r = &t->regions[place];
        if (atomic_load_explicit(&r->users, memory_order_acquire) != 0)
            continue;
        atomic_store_explicit(&r->users, 1, memory_order_relaxed);
        /* While teams are left in time, the same few regions are used again and again. */
        t->last_region = place % 8 == 7 ? CT_MAX_REGIONS - 1 : place;
        return r;
    }
    ct_count(CT_TALLY_NO_REGION);
    return NULL;
}

void ct_release_region(ct_region *region)
{
    atomic_fetch_sub_explicit(&region->users, 1, memory_order_release);
}

/* ---- forks ----------------------------------------------------------------------------------- */

/* In the child the other threads do not exist, and what is open was begun by the parent: it is closed
 * without a record. */
static void forget_parent(void)
{
    ct_thread *mine = ct_this_thread;
    uint32_t count = atomic_load(&block_count);
    ct_tally_forked();
    for (uint32_t i = 0; i < count && i < MAX_THREADS; i++) {
        ct_thread *t = atomic_load(&thread_blocks[i]);
        if (t && t != mine)
            atomic_store(&t->in_use, false);
    }
    if (!mine)
        return;
    for (uint32_t i = 0; i < mine->count; i++)
        mine->open[i].began = 0;
    for (uint32_t i = 0; i < CT_MAX_REGIONS; i++)
        mine->regions[i].range = 0;
    mine->left = NULL;
}

#ifdef __GLIBC__
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));
#endif

/* glibc links pthread_atfork statically, by a name that musl does not have. A library that is preloaded must not
 * need it: there, the child of a fork keeps what its parent had open. */
void ct_register_fork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
#ifdef __GLIBC__
    if (__register_atfork)
        (void)__register_atfork(before, parent, child, __dso_handle);
#else
    (void)pthread_atfork(before, parent, child);
#endif
}

__attribute__((constructor)) static void start_openmp_source(void)
{
    has_block_key = pthread_key_create(&block_key, release_thread_block) == 0;
    ct_register_fork(NULL, NULL, forget_parent);
}

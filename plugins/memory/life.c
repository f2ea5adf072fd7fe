/* Start, threads, forks, and what the ledger says. */
#include "memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __GLIBC__
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *)
    __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));
#endif

#define SOURCE "memory"
/* glibc keeps the first 32 keys of a thread inline: setting one allocates nothing. */
#define INLINE_KEYS 32u

static pthread_key_t key;
static bool key_usable;
static uint64_t starting_calls;

/* ---- what was missed ---------------------------------------------------------------------------- */

static const struct {
    bool is_loss;
    const char *reason, *detail;
} misses[] = {
#define CM_X(name, is_loss, reason, detail) {is_loss, reason, detail},
    CM_MISS_MAP(CM_X)
#undef CM_X
};
static atomic_ullong missed[CM_MISS_COUNT], told[CM_MISS_COUNT];

static void tell_miss(cm_miss what, uint64_t count)
{
    atomic_fetch_add(&told[what], count);
    (void)kineto_ledger_add(SOURCE, misses[what].reason, count, misses[what].is_loss,
                            misses[what].detail);
}

/* A process may be killed: that something was lost is known from then on. */
CM_COLD void cm_missed(cm_miss what)
{
    int saved = errno;
    if (atomic_fetch_add_explicit(&missed[what], 1, memory_order_relaxed) == 0 &&
        misses[what].is_loss)
        tell_miss(what, 1);
    errno = saved;
}

__attribute__((destructor)) static void tell_rest(void)
{
    if (atomic_load(&cm_state) != CM_ON)
        return;
    for (cm_miss what = 0; what < CM_MISS_COUNT; what++) {
        uint64_t rest = atomic_load(&missed[what]) - atomic_load(&told[what]);
        if (rest)
            tell_miss(what, rest);
    }
}

/* ---- threads and forks -------------------------------------------------------------------------- */

static uint64_t fresh_seed(const cm_thread *me)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t x = (uint64_t)(uintptr_t)me ^ (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x ? x : 1;
}

void cm_thread_begins(cm_thread *me)
{
    int saved = errno;
    me->begun = 1;
    me->random = fresh_seed(me);
    me->countdown_bytes = cm_gap(&me->random, cm_interval_bytes);
    if (key_usable && pthread_setspecific(key, me) == 0)
        me->pending_limit = CM_PENDING_BYTES;
    errno = saved;
}

/* Other destructors may release memory after this one: so it comes again, and again. In the last
 * round the recorder has taken leave of the thread, just before us, and must not come back. */
static void thread_ends(void *value)
{
    cm_thread *me = value;
    me->pending_limit = 0;
    (void)cm_flush(me);
    if (++me->endings < CM_ENDINGS)
        (void)pthread_setspecific(key, me);
}

/* What the parent missed is the parent's to tell, and chance goes another way. */
static void in_child(void)
{
    for (cm_miss what = 0; what < CM_MISS_COUNT; what++)
        atomic_store(&told[what], atomic_load(&missed[what]));
    cm_me.random = fresh_seed(&cm_me) ^ cm_me.random << 1;
    cm_me.random |= cm_me.random == 0;
}

/* ---- start -------------------------------------------------------------------------------------- */

void cm_starting_call(void) { starting_calls++; }

/* Does what the program calls malloc reach us? Another library may stand in front and pass it on.
 */
static bool is_seen(void)
{
    void *(*allocate)(size_t);
    void (*release)(void *);
    void *address = dlsym(RTLD_DEFAULT, "malloc");
    memcpy(&allocate, &address, sizeof allocate);
    address = dlsym(RTLD_DEFAULT, "free");
    memcpy(&release, &address, sizeof release);
    if (!allocate || !release)
        return true;
    uint64_t before = starting_calls;
    release(allocate(64));
    return starting_calls != before;
}

static void tell_how(void)
{
    char number[32];
    if (!cm_sizes_known())
        (void)kineto_ledger_add(SOURCE, "totals are of recorded blocks", 1, false,
                                "the program's allocator does not tell the sizes of its blocks");
    /* Else whoever started the program has said it once for all processes. */
    const char *session = secure_getenv("CKINETO_SESSION");
    if (session && *session)
        return;
    snprintf(number, sizeof number, "%llu", (unsigned long long)cm_interval_bytes);
    (void)kineto_process_set_metadata("ckineto_memory_sampling_bytes", number);
    (void)kineto_ledger_add(SOURCE, "mean bytes between sampled allocations", cm_interval_bytes,
                            false, "totals count from the first session of the process");
}

void cm_switch_on(void)
{
    cm_mode idle = CM_IDLE;
    int saved = errno;
    cm_follow_prepare();
    if (atomic_compare_exchange_strong(&cm_state, &idle, CM_ON))
        tell_how();
    errno = saved;
}

static void read_settings(void)
{
    const char *text = secure_getenv("CKINETO_MEMORY_SAMPLING");
    if (text)
        cm_interval_bytes = cm_interval_of(text);
}

/* A library that calls glibc's pthread_atfork carries a part of glibc, which needs what musl does not have;
 * this one is loaded into programs of either. */
static void watch_forks(void (*handler)(void))
{
#ifdef __GLIBC__
    int (*of_musl)(void (*)(void), void (*)(void), void (*)(void));
    if (__register_atfork) {
        (void)__register_atfork(NULL, NULL, handler, __dso_handle);
        return;
    }
    *(void **)&of_musl = dlsym(RTLD_DEFAULT, "pthread_atfork");
    if (of_musl)
        (void)of_musl(NULL, NULL, handler);
#else
    (void)pthread_atfork(NULL, NULL, handler);
#endif
}

/* The recorder's own constructor has run: we need its library. */
__attribute__((constructor)) static void start(void)
{
    int saved = errno;
    read_settings();
    key_usable = pthread_key_create(&key, thread_ends) == 0;
    if (key_usable && key >= INLINE_KEYS) {
        (void)pthread_key_delete(key);
        key_usable = false;
    }
    watch_forks(in_child);
    bool seen = is_seen();
    cm_thread_begins(&cm_me);
    if (atomic_load(&cm_state) == CM_UNRESOLVED)
        cm_resolve();
    bool on = kineto_enabled(KINETO_KIND_MEMORY);
    if (on) {
        cm_follow_prepare();
        tell_how();
        if (!seen)
            (void)kineto_ledger_add(SOURCE, "processes whose allocator is their own", 1, false,
                                    "malloc is part of the program itself: no call of it is seen");
    }
    atomic_store(&cm_state, on ? CM_ON : CM_IDLE);
    errno = saved;
}

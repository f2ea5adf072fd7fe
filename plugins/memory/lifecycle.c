/* The life of the memory source: its start within the program's, the begin and end of threads,
 * forks, and the notes that it writes to the ledger. */
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

static pthread_key_t thread_key;
static bool key_usable;
static uint64_t starting_calls;

/* ---- calls that were not recorded ------------------------------------------------------------ */

static const struct {
    bool is_loss;
    const char *reason, *detail;
} misses[] = {
#define CM_X(name, is_loss, reason, detail) {is_loss, reason, detail},
    CM_MISS_MAP(CM_X)
#undef CM_X
};
static atomic_ullong missed[CM_MISS_COUNT], reported[CM_MISS_COUNT];

/* Writes `count` misses of one kind to the ledger. */
static void report_miss(cm_miss what, uint64_t count)
{
    atomic_fetch_add(&reported[what], count);
    (void)kineto_ledger_add(SOURCE, misses[what].reason, count, misses[what].is_loss,
                            misses[what].detail);
}

/* The first loss is reported at once, because the process may be killed. */
CM_COLD void cm_count_miss(cm_miss what)
{
    int saved = errno;
    if (atomic_fetch_add_explicit(&missed[what], 1, memory_order_relaxed) == 0 &&
        misses[what].is_loss)
        report_miss(what, 1);
    errno = saved;
}

/* At exit; a source that never recorded reports nothing. */
__attribute__((destructor)) static void report_remaining_misses(void)
{
    if (atomic_load(&cm_state) != CM_ON)
        return;
    for (cm_miss what = 0; what < CM_MISS_COUNT; what++) {
        uint64_t rest = atomic_load(&missed[what]) - atomic_load(&reported[what]);
        if (rest)
            report_miss(what, rest);
    }
}

/* ---- threads and forks ----------------------------------------------------------------------- */

/* A seed that differs between threads and moments, never 0 (splitmix64 over address and time). */
static uint64_t make_seed(const cm_thread *me)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t x = (uint64_t)(uintptr_t)me ^ (uint64_t)t.tv_nsec << 32 ^ (uint64_t)t.tv_sec;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x ? x : 1;
}

/* Initialises the state of a thread. Pending bytes are only allowed if the destructor will flush
 * them. */
void cm_thread_init(cm_thread *me)
{
    int saved = errno;
    me->begun = 1;
    me->random = make_seed(me);
    me->countdown_bytes = cm_draw_gap(&me->random, cm_interval_bytes);
    if (key_usable && pthread_setspecific(thread_key, me) == 0)
        me->pending_limit = CM_PENDING_BYTES;
    errno = saved;
}

/* Other destructors may release memory after this one, so it asks for the next round again and
 * again. In the last round the recorder has already left the thread, and recording would bring it
 * back. */
static void on_thread_exit(void *value)
{
    cm_thread *me = value;
    me->pending_limit = 0;
    (void)cm_flush_pending(me);
    if (++me->endings < CM_MAX_DESTRUCTOR_CALLS)
        (void)pthread_setspecific(thread_key, me);
}

/* After a fork, in the child: the parent reports its own misses, and the child draws other random
 * numbers. */
static void reset_in_child(void)
{
    for (cm_miss what = 0; what < CM_MISS_COUNT; what++)
        atomic_store(&reported[what], atomic_load(&missed[what]));
    cm_me.random = make_seed(&cm_me) ^ cm_me.random << 1;
    cm_me.random |= cm_me.random == 0;
}

/* ---- start ----------------------------------------------------------------------------------- */

void cm_count_early_call(void) { starting_calls++; }

/* True if the program's malloc reaches this library, directly or through another one that passes it
 * on. */
static bool is_malloc_interposed(void)
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

/* Notes the sampling distance and its consequences, once per process or once per session. */
static void report_sampling(void)
{
    char number[32];
    if (!cm_has_block_sizes())
        (void)kineto_ledger_add(SOURCE, "totals are of recorded blocks", 1, false,
                                "the program's allocator does not report the sizes of its blocks");
    /* Within a session, `ckineto record` has noted the distance for all processes. */
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
    cm_track_prepare();
    if (atomic_compare_exchange_strong(&cm_state, &idle, CM_ON))
        report_sampling();
    errno = saved;
}

static void read_settings(void)
{
    const char *text = secure_getenv("CKINETO_MEMORY_SAMPLING");
    if (text)
        cm_interval_bytes = cm_parse_interval(text);
}

/* pthread_atfork of glibc is linked statically and needs symbols that musl does not have, but this
 * library is loaded into programs of either libc. So it is called by the name that each libc
 * exports. */
static void register_fork_handler(void (*handler)(void))
{
#ifdef __GLIBC__
    int (*register_in_musl)(void (*)(void), void (*)(void), void (*)(void));
    if (__register_atfork) {
        (void)__register_atfork(NULL, NULL, handler, __dso_handle);
        return;
    }
    *(void **)&register_in_musl = dlsym(RTLD_DEFAULT, "pthread_atfork");
    if (register_in_musl)
        (void)register_in_musl(NULL, NULL, handler);
#else
    (void)pthread_atfork(NULL, NULL, handler);
#endif
}

/* The recorder's own constructor has run: we need its library. */
__attribute__((constructor)) static void start_memory_source(void)
{
    int saved = errno;
    read_settings();
    key_usable = pthread_key_create(&thread_key, on_thread_exit) == 0;
    if (key_usable && thread_key >= INLINE_KEYS) {
        (void)pthread_key_delete(thread_key);
        key_usable = false;
    }
    register_fork_handler(reset_in_child);
    bool interposed = is_malloc_interposed();
    cm_thread_init(&cm_me);
    if (atomic_load(&cm_state) == CM_UNRESOLVED)
        cm_resolve();
    bool on = kineto_enabled(KINETO_KIND_MEMORY);
    if (on) {
        cm_track_prepare();
        report_sampling();
        if (!interposed)
            (void)kineto_ledger_add(
                SOURCE, "processes whose allocator is their own", 1, false,
                "malloc is part of the program itself; its calls cannot be interposed");
    }
    atomic_store(&cm_state, on ? CM_ON : CM_IDLE);
    errno = saved;
}

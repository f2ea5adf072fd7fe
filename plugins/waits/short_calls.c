/* Calls below the threshold, counted by function: how many, their time, their bytes. A program that
 * writes byte by byte waits in none of its calls, but in all of them together.
 *
 * Threads count in shards, so that they rarely share a cache line. The shards are in a page that is
 * zero in a child of fork, which counts its own. Once a second, and at the end of the process, the
 * sums are written as counters: rows "write below the threshold" of the process. */
#include "waits.h"

#include <sys/mman.h>

#define SHARDS        16u
#define WRITE_EVERY_NS UINT64_C(1000000000)

typedef struct short_calls {
    _Atomic(uint64_t) calls, ns, bytes;
} short_calls;
typedef struct call_shards {
    _Atomic(uint64_t) written_ns; /* CLOCK_MONOTONIC; 0: not yet */
    short_calls of[SHARDS][CW_SITE_COUNT];
} call_shards;
static _Atomic(call_shards *) shards;

static const kineto_arg_desc short_args[] = {
    {"calls", KINETO_ARG_UINT}, {"time [us]", KINETO_ARG_DOUBLE}, {"moved [bytes]", KINETO_ARG_UINT}};
static kineto_site counters[CW_SITE_COUNT] = {
#define CW_X(name, args)                                                                           \
    {0, KINETO_KIND_COUNTER, KINETO_SCOPE_FUNCTION, 3, 0, #name " below the threshold", short_args},
    CW_SITE_MAP(CW_X)
#undef CW_X
};

void cw_short_calls_start(void)
{
    void *page = mmap(NULL, sizeof(call_shards), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
#ifdef MADV_WIPEONFORK
    (void)madvise(page, sizeof(call_shards), MADV_WIPEONFORK);
#endif
    atomic_store_explicit(&shards, page, memory_order_release);
}

/* Threads are spread by the address of a variable of theirs. */
static uint32_t choose_shard(void)
{
    static __thread char mine CW_TLS;
    return (uint32_t)((uintptr_t)&mine >> 12) * 2654435761u >> 28;
}
_Static_assert(SHARDS == 16, "choose_shard returns 4 bits");

void cw_count_short_call(cw_site site, uint64_t ns, int64_t bytes, uint64_t now_ns)
{
    call_shards *all = atomic_load_explicit(&shards, memory_order_acquire);
    if (!all)
        return;
    short_calls *c = &all->of[choose_shard()][site];
    atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->ns, ns, memory_order_relaxed);
    if (bytes > 0)
        atomic_fetch_add_explicit(&c->bytes, (uint64_t)bytes, memory_order_relaxed);
    uint64_t written = atomic_load_explicit(&all->written_ns, memory_order_relaxed);
    if (KINETO_UNLIKELY(now_ns - written > WRITE_EVERY_NS) &&
        atomic_compare_exchange_strong(&all->written_ns, &written, now_ns) && written)
        cw_write_short_calls();
}

static void write_short_calls_of(call_shards *all, cw_site site)
{
    uint64_t calls = 0, ns = 0, bytes = 0;
    for (uint32_t i = 0; i < SHARDS; i++) {
        short_calls *c = &all->of[i][site];
        calls += atomic_load_explicit(&c->calls, memory_order_relaxed);
        ns += atomic_load_explicit(&c->ns, memory_order_relaxed);
        bytes += atomic_load_explicit(&c->bytes, memory_order_relaxed);
    }
    kineto_value values[] = {{.u = calls}, {.d = (double)ns / 1000}, {.u = bytes}};
    if (calls)
        kineto_counter_sample(&counters[site], values);
}

void cw_write_short_calls(void)
{
    call_shards *all = atomic_load_explicit(&shards, memory_order_acquire);
    for (cw_site site = 0; all && site < CW_SITE_COUNT; site++)
        write_short_calls_of(all, site);
}

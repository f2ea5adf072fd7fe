/* Chooses the allocations that are recorded and keeps the totals.
 *
 * Each thread counts the bytes that it allocates down from a random number. The allocation that
 * reaches zero is recorded, and a new number is drawn: exponential with the mean R that the user
 * chose. Exponential numbers are memoryless, so a block of s bytes is recorded with the probability
 * 1 - exp(-s / R), independent of what came before, and represents 1 / (1 - exp(-s / R)) blocks of
 * its size.
 *
 * The totals are exact: the allocator's size of each block is added when it is allocated and
 * subtracted when it is released, sampled or not. A thread holds back up to CM_PENDING_BYTES.
 */
#include "memory.h"

#include <errno.h>
#include <string.h>

__thread cm_thread cm_me CM_TLS;
uint64_t cm_interval_bytes = CM_INTERVAL_BYTES;
static _Atomic(int64_t) total_bytes;

/* ---- the setting ----------------------------------------------------------------------------- */

/* Gaps between samples are up to 37 times as long and must fit into int64_t. */
#define MAX_INTERVAL_BYTES (UINT64_C(1) << 50)

uint64_t cm_parse_interval(const char *text)
{
    static const char letters[] = "KMGT";
    uint64_t bytes = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        bytes =
            bytes < MAX_INTERVAL_BYTES ? bytes * 10 + (uint64_t)(*at - '0') : MAX_INTERVAL_BYTES;
    if (at == text)
        return CM_INTERVAL_BYTES;
    const char *letter = *at ? strchr(letters, *at & ~32) : NULL;
    unsigned shift = letter && *letter ? 10 * (unsigned)(letter - letters + 1) : 0;
    at += shift != 0;
    if (*at && strcmp(at, "B") != 0 && strcmp(at, "iB") != 0)
        return CM_INTERVAL_BYTES;
    bytes = bytes < MAX_INTERVAL_BYTES >> shift ? bytes << shift : MAX_INTERVAL_BYTES;
    return bytes ? bytes : 1;
}

/* ---- chance ---------------------------------------------------------------------------------- */

/* u = m * 2^e with m near 1, and ln m = 2 artanh((m - 1) / (m + 1)), |argument| < 0.172. The
 * omitted terms of the series are below 1e-13. Written out to avoid libm. */
double cm_minus_ln(double u)
{
    union {
        double d;
        uint64_t bits;
    } m = {.d = u};
    int exponent = (int)(m.bits >> 52) - 1023;
    m.bits = (m.bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
    if (m.d > 1.4142135623730951) {
        m.d *= 0.5;
        exponent++;
    }
    double z = (m.d - 1) / (m.d + 1), square = z * z, series = 0;
    for (int n = 15; n >= 1; n -= 2)
        series = series * square + 1.0 / n;
    return -(2 * z * series + exponent * 0.69314718055994530942);
}

/* xorshift64*: fast, and of sufficient quality for sampling. */
static uint64_t draw_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t cm_draw_gap(uint64_t *random, uint64_t mean_bytes)
{
    if (mean_bytes <= 1)
        return 0;
    double u = (double)((draw_random(random) >> 11) + 1) * 0x1p-53; /* 0 < u <= 1 */
    return (int64_t)(cm_minus_ln(u) * (double)mean_bytes);
}

/* ---- totals ---------------------------------------------------------------------------------- */

static int64_t add_total(int64_t bytes)
{
    return atomic_fetch_add_explicit(&total_bytes, bytes, memory_order_relaxed) + bytes;
}

int64_t cm_flush_pending(cm_thread *me)
{
    int64_t bytes = me->pending_bytes;
    me->pending_bytes = 0;
    return add_total(bytes);
}

/* The total after a change. Without sizes from the allocator it counts only the recorded blocks. */
static int64_t update_total(cm_thread *me, int64_t bytes)
{
    return cm_has_block_sizes() ? cm_flush_pending(me) : add_total(bytes);
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Writes a memory event. The bytes reserved from the system stay 0, as for the CPU in PyTorch:
 * finding them takes a system call. */
static void record_block(const void *block, int64_t bytes, int64_t total)
{
    kineto_memory_event event = {.size = sizeof event,
                                 .address = (uint64_t)(uintptr_t)block,
                                 .bytes = bytes,
                                 .total_allocated_bytes = total > 0 ? (uint64_t)total : 0,
                                 .device_type = 0,
                                 .device_index = -1};
    int saved = errno;
    kineto_memory_report(&event);
    errno = saved;
}

/* Records one chosen block, if the thread and the table still allow it. */
static void sample_block(cm_thread *me, void *block, uint64_t bytes)
{
    if (me->endings >= CM_MAX_DESTRUCTOR_CALLS)
        cm_count_miss(CM_MISS_THREAD_END);
    else if (!cm_track_block(block, bytes))
        cm_count_miss(CM_MISS_TABLE_FULL);
    else
        record_block(block, (int64_t)bytes, update_total(me, (int64_t)bytes));
}

/* The rare part of counting an allocation: the thread's first, a sample, or a full pending
 * count. */
CM_COLD void cm_count_allocation_slow(cm_thread *me, void *block, uint64_t bytes)
{
    if (!me->begun) {
        cm_thread_init(me);
        me->countdown_bytes -= (int64_t)bytes;
    }
    if (me->countdown_bytes < 0) {
        /* A new gap is drawn also while nothing records, so that the chances stay independent. */
        me->countdown_bytes = cm_draw_gap(&me->random, cm_interval_bytes);
        if (atomic_load_explicit(&cm_state, memory_order_relaxed) == CM_ON &&
            kineto_enabled(KINETO_KIND_MEMORY))
            sample_block(me, block, bytes);
    }
    if (me->pending_bytes > me->pending_limit)
        (void)cm_flush_pending(me);
}

/* The same for a release: of a recorded block, or with a full pending count. */
CM_COLD uint64_t cm_count_release_slow(cm_thread *me, void *block)
{
    if (!me->begun)
        cm_thread_init(me);
    uint64_t bytes = cm_is_maybe_tracked(block) ? cm_untrack_block(block) : 0;
    if (bytes) {
        int64_t total = update_total(me, -(int64_t)bytes);
        if (me->endings < CM_MAX_DESTRUCTOR_CALLS)
            record_block(block, -(int64_t)bytes, total);
        else if (kineto_enabled(KINETO_KIND_MEMORY))
            cm_count_miss(CM_MISS_THREAD_END);
    }
    if (me->pending_bytes < -me->pending_limit)
        (void)cm_flush_pending(me);
    return bytes;
}

CM_COLD void cm_undo_release(cm_thread *me, void *block, uint64_t followed)
{
    me->pending_bytes += (int64_t)cm_next.size_of(block);
    if (followed)
        sample_block(me, block, followed);
}

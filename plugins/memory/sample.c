/* Which allocations are recorded, and the totals.
 *
 * Each thread counts the bytes that it allocates down from a random number. The allocation that
 * reaches zero is recorded, and a new number is drawn: exponential with the mean R that the user
 * chose. Such numbers have no memory, so a block of s bytes is recorded with the probability
 * 1 - exp(-s / R), whatever came before, and stands for 1 / (1 - exp(-s / R)) blocks of its size.
 *
 * The totals are exact: what the allocator says that a block has is added when it is taken and
 * subtracted when it is released, sampled or not. A thread keeps up to CM_PENDING_BYTES to itself.
 */
#include "memory.h"

#include <errno.h>
#include <string.h>

__thread cm_thread cm_me CM_TLS;
uint64_t cm_interval_bytes = CM_INTERVAL_BYTES;
static _Atomic(int64_t) total_bytes;

/* ---- the setting ------------------------------------------------------------------------------- */

/* Gaps are up to 37 times as long, and must fit into a signed number. */
#define MOST_BYTES (UINT64_C(1) << 50)

uint64_t cm_interval_of(const char *text)
{
    static const char letters[] = "KMGT";
    uint64_t bytes = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        bytes = bytes < MOST_BYTES ? bytes * 10 + (uint64_t)(*at - '0') : MOST_BYTES;
    if (at == text)
        return CM_INTERVAL_BYTES;
    const char *letter = *at ? strchr(letters, *at & ~32) : NULL;
    unsigned shift = letter && *letter ? 10 * (unsigned)(letter - letters + 1) : 0;
    at += shift != 0;
    if (*at && strcmp(at, "B") != 0 && strcmp(at, "iB") != 0)
        return CM_INTERVAL_BYTES;
    bytes = bytes < MOST_BYTES >> shift ? bytes << shift : MOST_BYTES;
    return bytes ? bytes : 1;
}

/* ---- chance ------------------------------------------------------------------------------------ */

/* u = m * 2^e with m near 1, and ln m = 2 artanh((m - 1) / (m + 1)), |argument| < 0.172. What is
 * left out of the series is below 1e-13. Saves us libm. */
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

/* xorshift64*: quick, and good enough to choose by. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

int64_t cm_gap(uint64_t *random, uint64_t mean_bytes)
{
    if (mean_bytes <= 1)
        return 0;
    double u = (double)((next_random(random) >> 11) + 1) * 0x1p-53; /* 0 < u <= 1 */
    return (int64_t)(cm_minus_ln(u) * (double)mean_bytes);
}

/* ---- totals ------------------------------------------------------------------------------------- */

static int64_t add_to_total(int64_t bytes)
{
    return atomic_fetch_add_explicit(&total_bytes, bytes, memory_order_relaxed) + bytes;
}

int64_t cm_flush(cm_thread *me)
{
    int64_t bytes = me->pending_bytes;
    me->pending_bytes = 0;
    return add_to_total(bytes);
}

/* An allocator that tells no sizes leaves us with those of the blocks that we follow. */
static int64_t total_with(cm_thread *me, int64_t bytes)
{
    return cm_sizes_known() ? cm_flush(me) : add_to_total(bytes);
}

/* ---- recording ---------------------------------------------------------------------------------- */

/* What the process holds of the system, nobody says without a system call: as for the CPU in
 * PyTorch, it stays 0. */
static void record(const void *block, int64_t bytes, int64_t total)
{
    kineto_memory_event event = {.size = sizeof event,
                                 .address = (uint64_t)(uintptr_t)block,
                                 .bytes = bytes,
                                 .total_allocated_bytes = total > 0 ? (uint64_t)total : 0,
                                 .device_type = 0,
                                 .device_index = -1};
    int saved = errno;
    kineto_memory(&event);
    errno = saved;
}

static void sample(cm_thread *me, void *block, uint64_t bytes)
{
    if (me->endings >= CM_ENDINGS)
        cm_missed(CM_MISS_THREAD_END);
    else if (!cm_follow(block, bytes))
        cm_missed(CM_MISS_TABLE_FULL);
    else
        record(block, (int64_t)bytes, total_with(me, (int64_t)bytes));
}

CM_COLD void cm_took_slow(cm_thread *me, void *block, uint64_t bytes)
{
    if (!me->begun) {
        cm_thread_begins(me);
        me->countdown_bytes -= (int64_t)bytes;
    }
    if (me->countdown_bytes < 0) {
        me->countdown_bytes = cm_gap(&me->random, cm_interval_bytes);
        if (atomic_load_explicit(&cm_state, memory_order_relaxed) == CM_ON &&
            kineto_enabled(KINETO_KIND_MEMORY))
            sample(me, block, bytes);
    }
    if (me->pending_bytes > me->pending_limit)
        (void)cm_flush(me);
}

CM_COLD uint64_t cm_gives_slow(cm_thread *me, void *block)
{
    if (!me->begun)
        cm_thread_begins(me);
    uint64_t bytes = cm_maybe_followed(block) ? cm_forget(block) : 0;
    if (bytes) {
        int64_t total = total_with(me, -(int64_t)bytes);
        if (me->endings < CM_ENDINGS)
            record(block, -(int64_t)bytes, total);
        else if (kineto_enabled(KINETO_KIND_MEMORY))
            cm_missed(CM_MISS_THREAD_END);
    }
    if (me->pending_bytes < -me->pending_limit)
        (void)cm_flush(me);
    return bytes;
}

CM_COLD void cm_keeps(cm_thread *me, void *block, uint64_t followed)
{
    me->pending_bytes += (int64_t)cm_next.size_of(block);
    if (followed)
        sample(me, block, followed);
}

/* What the program calls instead of its allocator. The result is always the next allocator's, and
 * so is errno. */
#include "memory.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Not in every libc's headers. */
KINETO_API void *pvalloc(size_t bytes);
KINETO_API void *reallocarray(void *block, size_t count, size_t each);

/* Nobody records, and nobody has: the call is passed on. All that it costs then. */
static inline bool passes(void)
{
    return atomic_load_explicit(&cm_state, memory_order_relaxed) == CM_IDLE &&
           KINETO_LIKELY(!kineto_enabled(KINETO_KIND_MEMORY));
}

static inline bool unresolved(void)
{
    return atomic_load_explicit(&cm_state, memory_order_acquire) == CM_UNRESOLVED;
}

static CM_COLD void enter_slow(void)
{
    if (unresolved())
        cm_resolve();
    if (atomic_load(&cm_state) == CM_STARTING)
        cm_starting_call();
    else if (kineto_enabled(KINETO_KIND_MEMORY))
        cm_switch_on();
}

/* NULL: this thread is in one of our calls already. */
static inline cm_thread *enter(void)
{
    cm_thread *me = &cm_me;
    if (KINETO_UNLIKELY(me->inside))
        return NULL;
    me->inside = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (KINETO_UNLIKELY(atomic_load_explicit(&cm_state, memory_order_acquire) != CM_ON))
        enter_slow();
    return me;
}

static inline void leave(cm_thread *me)
{
    atomic_signal_fence(memory_order_seq_cst);
    me->inside = 0;
}

/* A call inside of another: is it from looking for the next allocator? */
static CM_COLD bool is_early(void)
{
    if (unresolved())
        return true;
    cm_missed(CM_MISS_NESTED);
    return false;
}

/* Those that return a block. What is done while somebody records stands apart, so that passing a
 * call on saves no registers. */
#define ALLOCATOR(name, parameters, arguments, early, asked)                                       \
    static CM_APART void *watched_##name parameters                                                \
    {                                                                                              \
        cm_thread *me = enter();                                                                   \
        if (KINETO_UNLIKELY(!me))                                                                  \
            return is_early() ? early : cm_next.name arguments;                                    \
        void *block = cm_next.name arguments;                                                      \
        if (KINETO_LIKELY(block != NULL))                                                          \
            cm_took(me, block, asked);                                                             \
        leave(me);                                                                                 \
        return block;                                                                              \
    }                                                                                              \
    KINETO_API void *name parameters                                                               \
    {                                                                                              \
        return passes() ? cm_next.name arguments : watched_##name arguments;                       \
    }

static void *early_calloc(size_t count, size_t each)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, each, &bytes))
        return cm_early_alloc(bytes, 0);
    errno = ENOMEM;
    return NULL;
}

#define PAGE_BYTES 4096u /* for calls while we look for the allocator only */

ALLOCATOR(malloc, (size_t bytes), (bytes), cm_early_alloc(bytes, 0), bytes)
/* The product fits, if there is a block. */
ALLOCATOR(calloc, (size_t count, size_t each), (count, each), early_calloc(count, each),
          count *each)
ALLOCATOR(aligned_alloc, (size_t align, size_t bytes), (align, bytes), cm_early_alloc(bytes, align),
          bytes)
ALLOCATOR(memalign, (size_t align, size_t bytes), (align, bytes), cm_early_alloc(bytes, align),
          bytes)
ALLOCATOR(valloc, (size_t bytes), (bytes), cm_early_alloc(bytes, PAGE_BYTES), bytes)
ALLOCATOR(pvalloc, (size_t bytes), (bytes), cm_early_alloc(bytes, PAGE_BYTES), bytes)

static int early_memalign(void **out, size_t align, size_t bytes)
{
    void *block = cm_early_alloc(bytes, align);
    if (block)
        *out = block;
    return block ? 0 : ENOMEM;
}

KINETO_API int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (passes())
        return cm_next.posix_memalign(out, align, bytes);
    cm_thread *me = enter();
    if (!me)
        return is_early() ? early_memalign(out, align, bytes)
                          : cm_next.posix_memalign(out, align, bytes);
    int status = cm_next.posix_memalign(out, align, bytes);
    if (status == 0 && *out)
        cm_took(me, *out, bytes);
    leave(me);
    return status;
}

static CM_APART void watched_free(void *block)
{
    if (!block)
        return;
    cm_thread *me = enter();
    if (KINETO_UNLIKELY(!me)) {
        if (is_early())
            return;
        if (cm_maybe_followed(block)) /* its address will be another block's */
            (void)cm_forget(block);
        cm_next.free(block);
        return;
    }
    (void)cm_gives(me, block);
    cm_next.free(block);
    leave(me);
}

KINETO_API void free(void *block)
{
    if (KINETO_UNLIKELY(cm_is_early(block)))
        return;
    if (passes())
        cm_next.free(block);
    else
        watched_free(block);
}

/* A block of ours becomes one of the allocator's, if that is known by now. */
static CM_COLD void *move_early(void *block, size_t bytes)
{
    size_t old = cm_early_size(block);
    void *moved = malloc(bytes);
    if (moved)
        memcpy(moved, block, old < bytes ? old : bytes);
    return moved;
}

/* As a release and an allocation. The release is told first: another thread may have the old place
 * before the allocator returns to us. */
static CM_APART void *watched_realloc(void *block, size_t bytes)
{
    if (cm_is_early(block))
        return move_early(block, bytes);
    cm_thread *me = enter();
    if (KINETO_UNLIKELY(!me)) {
        if (is_early())
            return cm_early_alloc(bytes, 0);
        if (block && cm_maybe_followed(block)) /* as in watched_free */
            (void)cm_forget(block);
        return cm_next.realloc(block, bytes);
    }
    uint64_t followed = block ? cm_gives(me, block) : 0;
    void *moved = cm_next.realloc(block, bytes);
    if (moved)
        cm_took(me, moved, bytes);
    else if (block && bytes) /* it failed, and the block is as it was */
        cm_keeps(me, block, followed);
    leave(me);
    return moved;
}

KINETO_API void *realloc(void *block, size_t bytes)
{
    return passes() && !cm_is_early(block) ? cm_next.realloc(block, bytes)
                                           : watched_realloc(block, bytes);
}

KINETO_API void *reallocarray(void *block, size_t count, size_t each)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, each, &bytes))
        return realloc(block, bytes);
    errno = ENOMEM;
    return NULL;
}

KINETO_API size_t malloc_usable_size(void *block)
{
    if (cm_is_early(block))
        return cm_early_size(block);
    if (unresolved())
        cm_resolve();
    return cm_next.malloc_usable_size(block);
}

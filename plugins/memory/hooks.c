/* The functions that the program calls instead of its allocator's. Result and errno are always
 * those of the next allocator. While no session records and none has, a call costs two loads. */
#include "memory.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Not in every libc's headers. */
KINETO_API void *pvalloc(size_t bytes);
KINETO_API void *reallocarray(void *block, size_t count, size_t each);

/* True while no session records memory and none has before: the call goes to the next allocator. */
static inline bool is_passed_on(void)
{
    return atomic_load_explicit(&cm_state, memory_order_relaxed) == CM_IDLE &&
           KINETO_LIKELY(!kineto_enabled(KINETO_KIND_MEMORY));
}

static inline bool is_unresolved(void)
{
    return atomic_load_explicit(&cm_state, memory_order_acquire) == CM_UNRESOLVED;
}

/* The rare part of enter_hook: finds the allocator, counts early calls, switches on. */
static CM_COLD void enter_hook_slow(void)
{
    if (is_unresolved())
        cm_resolve();
    if (atomic_load(&cm_state) == CM_STARTING)
        cm_count_early_call();
    else if (kineto_enabled(KINETO_KIND_MEMORY))
        cm_switch_on();
}

/* Marks the thread as being inside; NULL: it already is. The fence keeps the compiler from moving
 * calls of the allocator before the mark. */
static inline cm_thread *enter_hook(void)
{
    cm_thread *me = &cm_me;
    if (KINETO_UNLIKELY(me->inside))
        return NULL;
    me->inside = 1;
    atomic_signal_fence(memory_order_seq_cst);
    if (KINETO_UNLIKELY(atomic_load_explicit(&cm_state, memory_order_acquire) != CM_ON))
        enter_hook_slow();
    return me;
}

static inline void leave_hook(cm_thread *me)
{
    atomic_signal_fence(memory_order_seq_cst);
    me->inside = 0;
}

/* For a call inside of another: true if it comes from finding the next allocator. Else it is
 * counted. */
static CM_COLD bool is_during_resolution(void)
{
    if (is_unresolved())
        return true;
    cm_count_miss(CM_MISS_NESTED);
    return false;
}

/* Functions that return a block. The recording part is a function of its own, so that the short
 * path needs no stack frame. */
#define ALLOCATOR(name, parameters, arguments, early, asked)                                       \
    static CM_NOINLINE void *record_##name parameters                                              \
    {                                                                                              \
        cm_thread *me = enter_hook();                                                              \
        if (KINETO_UNLIKELY(!me))                                                                  \
            return is_during_resolution() ? early : cm_next.name arguments;                        \
        void *block = cm_next.name arguments;                                                      \
        if (KINETO_LIKELY(block != NULL))                                                          \
            cm_count_allocation(me, block, asked);                                                 \
        leave_hook(me);                                                                            \
        return block;                                                                              \
    }                                                                                              \
    KINETO_API void *name parameters                                                               \
    {                                                                                              \
        return is_passed_on() ? cm_next.name arguments : record_##name arguments;                  \
    }

/* calloc from early memory, which is zeroed. */
static void *calloc_early(size_t count, size_t each)
{
    size_t bytes;
    if (!__builtin_mul_overflow(count, each, &bytes))
        return cm_early_alloc(bytes, 0);
    errno = ENOMEM;
    return NULL;
}

/* Alignment of valloc for calls during resolution. */
#define PAGE_BYTES 4096u

ALLOCATOR(malloc, (size_t bytes), (bytes), cm_early_alloc(bytes, 0), bytes)
/* The product does not overflow if there is a block. */
ALLOCATOR(calloc, (size_t count, size_t each), (count, each), calloc_early(count, each),
          count *each)
ALLOCATOR(aligned_alloc, (size_t align, size_t bytes), (align, bytes), cm_early_alloc(bytes, align),
          bytes)
ALLOCATOR(memalign, (size_t align, size_t bytes), (align, bytes), cm_early_alloc(bytes, align),
          bytes)
ALLOCATOR(valloc, (size_t bytes), (bytes), cm_early_alloc(bytes, PAGE_BYTES), bytes)
ALLOCATOR(pvalloc, (size_t bytes), (bytes), cm_early_alloc(bytes, PAGE_BYTES), bytes)

static int memalign_early(void **out, size_t align, size_t bytes)
{
    void *block = cm_early_alloc(bytes, align);
    if (block)
        *out = block;
    return block ? 0 : ENOMEM;
}

KINETO_API int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (is_passed_on())
        return cm_next.posix_memalign(out, align, bytes);
    cm_thread *me = enter_hook();
    if (!me)
        return is_during_resolution() ? memalign_early(out, align, bytes)
                                      : cm_next.posix_memalign(out, align, bytes);
    int status = cm_next.posix_memalign(out, align, bytes);
    if (status == 0 && *out)
        cm_count_allocation(me, *out, bytes);
    leave_hook(me);
    return status;
}

/* free while a session records, or after one did. */
static CM_NOINLINE void record_free(void *block)
{
    if (!block)
        return;
    cm_thread *me = enter_hook();
    if (KINETO_UNLIKELY(!me)) {
        if (is_during_resolution())
            return;
        if (cm_is_maybe_tracked(block)) /* the address may be reused for another block */
            (void)cm_untrack_block(block);
        cm_next.free(block);
        return;
    }
    (void)cm_count_release(me, block);
    cm_next.free(block);
    leave_hook(me);
}

KINETO_API void free(void *block)
{
    if (KINETO_UNLIKELY(cm_is_early(block)))
        return;
    if (is_passed_on())
        cm_next.free(block);
    else
        record_free(block);
}

/* realloc of early memory: the block is copied to the allocator, or to more early memory. */
static CM_COLD void *move_early_block(void *block, size_t bytes)
{
    size_t old = cm_early_size(block);
    void *moved = malloc(bytes);
    if (moved)
        memcpy(moved, block, old < bytes ? old : bytes);
    return moved;
}

/* Recorded as a release and an allocation. The release comes first: another thread may get the old
 * address before the allocator returns. */
static CM_NOINLINE void *record_realloc(void *block, size_t bytes)
{
    if (cm_is_early(block))
        return move_early_block(block, bytes);
    cm_thread *me = enter_hook();
    if (KINETO_UNLIKELY(!me)) {
        if (is_during_resolution())
            return cm_early_alloc(bytes, 0);
        if (block && cm_is_maybe_tracked(block)) /* as in record_free */
            (void)cm_untrack_block(block);
        return cm_next.realloc(block, bytes);
    }
    uint64_t followed = block ? cm_count_release(me, block) : 0;
    void *moved = cm_next.realloc(block, bytes);
    if (moved)
        cm_count_allocation(me, moved, bytes);
    else if (block && bytes) /* it failed: the block still exists */
        cm_undo_release(me, block, followed);
    leave_hook(me);
    return moved;
}

KINETO_API void *realloc(void *block, size_t bytes)
{
    return is_passed_on() && !cm_is_early(block) ? cm_next.realloc(block, bytes)
                                                 : record_realloc(block, bytes);
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
    if (is_unresolved())
        cm_resolve();
    return cm_next.malloc_usable_size(block);
}

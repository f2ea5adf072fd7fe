/* The hooks of longjmp and its variants: a signal handler may leave a wait with a jump. The thread goes on
 * then, and the call that it was in is no longer open.
 *
 * <setjmp.h> is not included: with _FORTIFY_SOURCE it gives these functions other names. */
#include "waits.h"

#include <dlfcn.h>

typedef void jump_function(void *buffer, int value);

/* Never returns. Without a next function, which does not happen, there is no way on. */
static _Noreturn void jump_on(_Atomic(jump_function *) *next, const char *name, void *buffer,
                              int value)
{
    static const kineto_blocking none;
    jump_function *jump = atomic_load_explicit(next, memory_order_relaxed);
    if (!jump) {
        *(void **)&jump = dlsym(RTLD_NEXT, name);
        atomic_store_explicit(next, jump, memory_order_relaxed);
    }
    if (cw_is_recording())
        kineto_blocking_end(&none);
    if (jump)
        jump(buffer, value);
    __builtin_trap();
}

#define JUMP_HOOK(name)                                                                            \
    static _Atomic(jump_function *) next_##name;                                                   \
    KINETO_API _Noreturn void name(void *buffer, int value);                                       \
    KINETO_API _Noreturn void name(void *buffer, int value)                                        \
    {                                                                                              \
        jump_on(&next_##name, #name, buffer, value);                                               \
    }

JUMP_HOOK(longjmp)
JUMP_HOOK(_longjmp)
JUMP_HOOK(siglongjmp)
JUMP_HOOK(__longjmp_chk)

/* Looking them up is not possible in a signal handler. */
void cw_find_jumps(void)
{
#define FIND(name)                                                                                 \
    {                                                                                              \
        jump_function *found;                                                                      \
        *(void **)&found = dlsym(RTLD_NEXT, #name);                                                \
        atomic_store_explicit(&next_##name, found, memory_order_relaxed);                          \
    }
    FIND(longjmp)
    FIND(_longjmp)
    FIND(siglongjmp)
    FIND(__longjmp_chk)
#undef FIND
}

/* The hooks of syscall and prctl.
 *
 * Rust's standard library, C++20's std::atomic::wait, TBB, libomp and abseil wait by futexes, for
 * which libc has no function: they call syscall(SYS_futex, ...), and are recorded as "futex".
 *
 * A process that confines itself with seccomp says so with prctl or syscall, first. From then on it
 * makes no system call because of us. */
#include "waits.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

static atomic_bool confined;

bool cw_is_confined(void) { return atomic_load_explicit(&confined, memory_order_relaxed); }

static bool is_futex_wait(long operation)
{
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
    case FUTEX_WAIT_REQUEUE_PI:
        return true;
    default:
        return false;
    }
}

/* errno of a wait: EAGAIN if the value had changed already. */
static CW_COLD void record_futex(const cw_call *call, const void *address, long result)
{
    int saved = errno;
    if (cw_is_long(CW_futex, call, 0)) {
        cw_note_address(address);
        kineto_value values[] = {{.u = (uintptr_t)address}, {.i = result == -1 ? saved : 0}};
        cw_record(CW_futex, call, values);
    }
    errno = saved;
}

/* Six arguments are read whether they were passed or not, as libc itself does. */
KINETO_API long syscall(long number, ...)
{
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (KINETO_UNLIKELY(number == SYS_seccomp))
        atomic_store(&confined, true);
    if (KINETO_LIKELY(number != SYS_futex || !cw_is_recording() || !is_futex_wait(a[1])))
        return cw_next.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    cw_call call = cw_begin(CW_futex, (uint64_t)a[0], 0, __builtin_return_address(0));
    long result = cw_next.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    record_futex(&call, (const void *)a[0], result);
    return result;
}

KINETO_API int prctl(int option, ...)
{
    va_list list;
    unsigned long a[4];
    va_start(list, option);
    for (int i = 0; i < 4; i++)
        a[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP || option == PR_SET_NO_NEW_PRIVS)
        atomic_store(&confined, true);
    return cw_next.prctl(option, a[0], a[1], a[2], a[3]);
}

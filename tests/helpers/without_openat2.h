/* A process to which the kernel says that it has no openat2. */
#ifndef CKINETO_TESTS_WITHOUT_OPENAT2_H
#define CKINETO_TESTS_WITHOUT_OPENAT2_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

#if __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

/* This process, for ever: to be called in a child. False: not possible here. */
static bool deny_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static bool deny_openat2(void) { return false; }
#endif
#endif

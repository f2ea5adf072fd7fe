/* A program that would be killed for a look-up of a descriptor: it prints ten lines. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KILL_FOR(number)                                                                           \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                             \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

int main(int argc, char **argv)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        KILL_FOR(SYS_readlinkat),
#ifdef SYS_readlink
        KILL_FOR(SYS_readlink),
#endif
        KILL_FOR(SYS_getpeername),
        KILL_FOR(SYS_getsockname),
        KILL_FOR(SYS_getsockopt),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    int by_number = argc > 1 && strcmp(argv[1], "syscall") == 0; /* needs root, without the first prctl */
    if (by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                  : prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 77;
    for (int i = 0; i < 10; i++)
        if (write(1, "line 1\n", 7) != 7)
            return 2;
    return 0;
}

/* How a daemon goes on in the background: its parent ends when it is ready, or as it ended. */
#include "cli/ondemand/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the parent: one byte says that all is ready; an end without one, that the child is gone. */
static _Noreturn void end_as(pid_t child, int said)
{
    char ready;
    int status;
    ssize_t n;
    do
        n = read(said, &ready, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        _exit(0);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(1); /* whoever started us had made us ignore ends of children */
    _exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

kineto_status kc_background_begin(int *waits, kineto_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return kb_fail_os(err, errno, "cannot go on in the background");
    pid_t child = fork();
    if (child > 0) {
        close(ends[1]);
        end_as(child, ends[0]);
    }
    close(ends[0]);
    *waits = ends[1];
    if (child == 0) {
        (void)setsid();
        return KINETO_OK;
    }
    int why = errno;
    close(ends[1]);
    return kb_fail_os(err, why, "cannot go on in the background");
}

kineto_status kc_background_ready(int waits, kineto_error *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return kb_fail_os(err, errno, "cannot leave the terminal: '/dev/null'");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
    (void)send(waits, "", 1, MSG_NOSIGNAL); /* whoever waited may have been killed */
    close(waits);
    return KINETO_OK;
}

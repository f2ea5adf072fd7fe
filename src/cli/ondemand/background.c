/* How `ckineto daemon --background` detaches: the command forks, and its parent waits on a socket
 * until the child is ready, so that the exit status and the messages of a failed start reach the
 * shell. */
#include "cli/ondemand/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the parent: a byte on ready_fd means that the child is ready; end of file, that it has ended.
 * Exits with 0 or with the status of the child. */
static _Noreturn void exit_like_child(pid_t child, int ready_fd)
{
    char ready;
    int status;
    ssize_t n;
    do
        n = read(ready_fd, &ready, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        _exit(0);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            _exit(1); /* SIGCHLD was ignored by the process that started us: the status is lost */
    _exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

/* A socket pair instead of a pipe, so that writing to a parent that was killed fails without
 * SIGPIPE. */
kineto_status kc_background_begin(int *waits, kineto_error *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return kb_fail_os(err, errno, "cannot move to the background");
    pid_t child = fork();
    if (child > 0) {
        close(ends[1]);
        exit_like_child(child, ends[0]);
    }
    close(ends[0]);
    *waits = ends[1];
    if (child == 0) {
        (void)setsid();
        return KINETO_OK;
    }
    int why = errno;
    close(ends[1]);
    return kb_fail_os(err, why, "cannot move to the background");
}

/* The standard streams go to /dev/null first, so that the shell does not wait for them. */
kineto_status kc_background_ready(int waits, kineto_error *err)
{
    KB_ASSERT(waits >= 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return kb_fail_os(err, errno, "cannot leave the terminal: '/dev/null'");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        (void)dup2(null, fd);
    if (null > STDERR_FILENO)
        close(null);
    (void)send(waits, "", 1, MSG_NOSIGNAL); /* the parent may have been killed */
    close(waits);
    return KINETO_OK;
}

/* The pid file of a daemon. The lock on it, not its existence, says whether that daemon lives: the
 * kernel drops the lock when the process ends, in whatever way. An old daemon may remove the file
 * between our open and our lock, so the name is checked afterwards and the open is repeated. */
#include "cli/ondemand/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_TRIES 100 /* each lost to a process that removed the file meanwhile */

/* Does the path still lead to the open file? */
static bool is_file_at(const char *path, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

/* KINETO_E_BUSY: another process holds the lock. */
static kineto_status lock_pid_file(const char *path, int fd, kineto_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot read the state of '%s'", path);
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is not a regular file", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return KINETO_OK;
    return errno == EWOULDBLOCK
               ? kb_fail(err, KINETO_E_BUSY, "the daemon that wrote '%s' still runs", path)
               : kb_fail_os(err, errno, "cannot lock '%s'", path);
}

/* One attempt. *fd is -1 with KINETO_OK if the name leads to another file by now: try again. */
static kineto_status try_open_pid_file(const char *path, int *fd, kineto_error *err)
{
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
    if (*fd < 0)
        return kb_fail_os(err, errno, "cannot write '%s'", path);
    kineto_status status = lock_pid_file(path, *fd, err);
    if (status == KINETO_OK && is_file_at(path, *fd))
        return KINETO_OK;
    close(*fd);
    *fd = -1;
    return status;
}

/* Each failed attempt means that another process replaced the file; the number of attempts is
 * bounded. */
kineto_status kc_pid_file_open(const char *path, int *fd, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *fd = -1;
    for (int i = 0; i < MAX_TRIES && *fd < 0 && status == KINETO_OK; i++)
        status = try_open_pid_file(path, fd, err);
    if (status != KINETO_OK)
        return status;
    if (*fd < 0)
        return kb_fail(err, KINETO_E_BUSY, "'%s' is replaced again and again", path);
    /* The pid of an ended daemon may belong to another process by now. */
    if (ftruncate(*fd, 0) == 0)
        return KINETO_OK;
    status = kb_fail_os(err, errno, "cannot write '%s'", path);
    close(*fd);
    *fd = -1;
    return status;
}

/* At offset 0 of a file that was emptied when it was locked. */
kineto_status kc_pid_file_write(int fd, const char *path, kineto_error *err)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (fd < 0)
        return KINETO_OK;
    ssize_t written = pwrite(fd, text, (size_t)n, 0);
    if (written == n)
        return KINETO_OK;
    return kb_fail_os(err, written < 0 ? errno : ENOSPC, "cannot write '%s'", path);
}

/* Removed while it is locked, so that it cannot be the file of another daemon. */
void kc_pid_file_close(int fd, const char *path)
{
    if (fd < 0)
        return;
    if (is_file_at(path, fd))
        (void)unlink(path);
    close(fd);
}

/* The file with the pid of a daemon. Its lock says whether that daemon lives, not its being there.
 */
#include "cli/ondemand/daemon_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TRIES 100 /* each lost to somebody else who removed the file */

/* The one before may have removed it after we had opened it. */
static bool is_at(const char *path, int fd)
{
    struct stat ours, there;
    return fstat(fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
           ours.st_ino == there.st_ino;
}

static kineto_status lock(const char *path, int fd, kineto_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot look at '%s'", path);
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is no regular file", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return KINETO_OK;
    return errno == EWOULDBLOCK
               ? kb_fail(err, KINETO_E_BUSY, "the daemon that wrote '%s' still runs", path)
               : kb_fail_os(err, errno, "cannot lock '%s'", path);
}

/* Once; -1 and KINETO_OK: it is another file by now. */
static kineto_status try_to_open(const char *path, int *fd, kineto_error *err)
{
    *fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
    if (*fd < 0)
        return kb_fail_os(err, errno, "cannot write '%s'", path);
    kineto_status status = lock(path, *fd, err);
    if (status == KINETO_OK && is_at(path, *fd))
        return KINETO_OK;
    close(*fd);
    *fd = -1;
    return status;
}

kineto_status kc_pid_file_open(const char *path, int *fd, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    *fd = -1;
    for (int i = 0; i < MOST_TRIES && *fd < 0 && status == KINETO_OK; i++)
        status = try_to_open(path, fd, err);
    if (status != KINETO_OK)
        return status;
    if (*fd < 0)
        return kb_fail(err, KINETO_E_BUSY, "'%s' is replaced again and again", path);
    /* The pid of one that is gone may be anybody's. */
    if (ftruncate(*fd, 0) == 0)
        return KINETO_OK;
    status = kb_fail_os(err, errno, "cannot write '%s'", path);
    close(*fd);
    *fd = -1;
    return status;
}

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

/* Removed while it is still locked: it cannot be another daemon's. */
void kc_pid_file_close(int fd, const char *path)
{
    if (fd < 0)
        return;
    if (is_at(path, fd))
        (void)unlink(path);
    close(fd);
}

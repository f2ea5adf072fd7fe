/* File descriptors that the host program may close or reuse at any time: see guarded_fd.h. */
#include "base/guarded_fd.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

bool kb_fd_adopt(kb_guarded_fd *o, int fd)
{
    struct stat st;
    o->fd = -1;
    fd = kb_os_clear_of_standard(fd);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return false;
    }
    o->device = st.st_dev;
    o->inode = st.st_ino;
    kb_store_release(&o->fd, fd);
    return true;
}

bool kb_fd_still_ours(const kb_guarded_fd *o)
{
    struct stat st;
    int fd = kb_load_acquire(&o->fd);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == o->device && st.st_ino == o->inode;
}

void kb_fd_close(kb_guarded_fd *o)
{
    int fd = o->fd;
    bool ours = kb_fd_still_ours(o);
    kb_store_release(&o->fd, -1);
    if (ours)
        close(fd);
}

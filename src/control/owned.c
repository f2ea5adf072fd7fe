/* Descriptors that may be taken from us, and waking a thread through two of them. */
#include "control/owned.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool ko_owned_take(ko_owned *o, int fd)
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

bool ko_owned_is_ours(const ko_owned *o)
{
    struct stat st;
    int fd = kb_load_acquire(&o->fd);
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == o->device && st.st_ino == o->inode;
}

void ko_owned_close(ko_owned *o)
{
    int fd = o->fd;
    bool ours = ko_owned_is_ours(o);
    kb_store_release(&o->fd, -1);
    if (ours)
        close(fd);
}

kineto_status ko_wake_open(ko_wake *w, kineto_error *err)
{
    int ends[2];
    *w = KO_WAKE_CLOSED;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return kb_fail_os(err, errno, "cannot open a pair of sockets");
    bool both = ko_owned_take(&w->reads, ends[0]);
    int why = errno;
    if (!ko_owned_take(&w->writes, ends[1])) {
        why = both ? errno : why;
        both = false;
    }
    if (both)
        return KINETO_OK;
    ko_wake_close(w);
    return kb_fail_os(err, why, "cannot open a pair of sockets");
}

int ko_wake_fd(const ko_wake *w) { return kb_load_acquire(&w->reads.fd); }

/* One that is full is readable as it is. */
void ko_wake_ring(const ko_wake *w)
{
    int saved = errno;
    if (ko_owned_is_ours(&w->writes))
        (void)send(w->writes.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    errno = saved;
}

uint32_t ko_wake_take(const ko_wake *w)
{
    char bytes[1024];
    uint32_t count = 0;
    while (ko_owned_is_ours(&w->reads)) {
        ssize_t n = recv(w->reads.fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n > 0)
            count += (uint32_t)n;
        if (n < (ssize_t)sizeof bytes)
            break;
    }
    return count;
}

bool ko_wake_is_ours(const ko_wake *w)
{
    return ko_owned_is_ours(&w->reads) && ko_owned_is_ours(&w->writes);
}

void ko_wake_close(ko_wake *w)
{
    ko_owned_close(&w->writes);
    ko_owned_close(&w->reads);
}

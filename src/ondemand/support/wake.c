/* Wakes a polling thread through a pair of connected sockets: one byte per wake-up. */
#include "ondemand/support/wake.h"

#include <errno.h>
#include <sys/socket.h>

kineto_status ko_wake_open(ko_wake *w, kineto_error *err)
{
    int ends[2];
    *w = KO_WAKE_CLOSED;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return kb_fail_os(err, errno, "cannot open a pair of sockets");
    bool both = kb_fd_adopt(&w->reads, ends[0]);
    int why = errno;
    if (!kb_fd_adopt(&w->writes, ends[1])) {
        why = both ? errno : why;
        both = false;
    }
    if (both)
        return KINETO_OK;
    ko_wake_close(w);
    return kb_fail_os(err, why, "cannot open a pair of sockets");
}

int ko_wake_fd(const ko_wake *w) { return kb_load_acquire(&w->reads.fd); }

/* A full buffer needs no further byte: it is readable already. */
void ko_wake_ring(const ko_wake *w)
{
    int saved = errno;
    if (kb_fd_still_ours(&w->writes))
        (void)send(w->writes.fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    errno = saved;
}

uint32_t ko_wake_take(const ko_wake *w)
{
    char bytes[1024];
    uint32_t count = 0;
    while (kb_fd_still_ours(&w->reads)) {
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
    return kb_fd_still_ours(&w->reads) && kb_fd_still_ours(&w->writes);
}

void ko_wake_close(ko_wake *w)
{
    kb_fd_close(&w->writes);
    kb_fd_close(&w->reads);
}

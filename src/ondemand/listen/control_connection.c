/* One connection of a control socket: packets are sent at once, or queued until the peer reads. The
 * queue is also used for notes. While packets are queued, the connection is polled for EPOLLOUT
 * (polls_out). */
#include "ondemand/listen/control_socket_impl.h"

#include <errno.h>
#include <sys/epoll.h>

bool ko_queue_put(ko_queue *q, uint64_t ticket, uint32_t stage, const void *data, size_t bytes)
{
    ko_queued *item = malloc(sizeof *item + bytes);
    if (!item)
        return false;
    *item = (ko_queued){.ticket = ticket, .stage = stage, .bytes = bytes};
    memcpy(item->data, data, bytes);
    if (!q->first)
        q->last = &q->first;
    *q->last = item;
    q->last = &item->next;
    q->count++;
    return true;
}

ko_queued *ko_queue_take(ko_queue *q)
{
    ko_queued *item = q->first;
    if (!item)
        return NULL;
    KB_ASSERT(q->count > 0);
    q->first = item->next;
    q->count--;
    KB_ASSERT((q->first == NULL) == (q->count == 0));
    return item;
}

void ko_queue_free(ko_queue *q)
{
    for (ko_queued *item; (item = ko_queue_take(q)) != NULL;)
        free(item);
}

/* Adds or modifies the connection in the epoll set; `out`: also for EPOLLOUT. Its event carries
 * generation and slot, so that events of an earlier connection in the slot are recognised. */
static bool poll_connection(ko_control_socket *s, uint32_t slot, int what, bool out)
{
    ko_connection *c = s->connections[slot];
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (out ? (uint32_t)EPOLLOUT : 0u),
                            .data.u64 = (uint64_t)c->generation << 32 | slot};
    if (epoll_ctl(s->epoll, what, c->socket.fd, &e) != 0)
        return false;
    c->polls_out = out;
    return true;
}

bool ko_connection_open(ko_control_socket *s, uint32_t slot)
{
    return poll_connection(s, slot, EPOLL_CTL_ADD, false);
}

/* @return 0; EAGAIN: try later; another errno: broken. */
static int send_packet_now(ko_connection *c, const void *data, size_t bytes)
{
    ssize_t n = -1;
    for (int tries = 0; n < 0 && tries < 3; tries++) {
        n = send(c->socket.fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return errno == EWOULDBLOCK || errno == ENOBUFS ? EAGAIN : errno;
    }
    return n < 0 ? EAGAIN : 0;
}

void ko_connection_send(ko_control_socket *s, uint32_t slot, const void *data, size_t bytes)
{
    ko_connection *c = s->connections[slot];
    if (c->broken || !kb_fd_still_ours(&c->socket)) {
        c->broken = true;
        return;
    }
    KB_ASSERT(c->queue.count <= KO_MAX_QUEUED);
    int why = c->queue.count > 0 ? EAGAIN : send_packet_now(c, data, bytes);
    if (why == 0)
        return;
    c->broken = why != EAGAIN || c->queue.count >= KO_MAX_QUEUED ||
                !ko_queue_put(&c->queue, 0, 0, data, bytes) ||
                (!c->polls_out && !poll_connection(s, slot, EPOLL_CTL_MOD, true));
}

void ko_connection_flush(ko_control_socket *s, uint32_t slot)
{
    ko_connection *c = s->connections[slot];
    while (c->queue.first && !c->broken) {
        int why = send_packet_now(c, c->queue.first->data, c->queue.first->bytes);
        if (why == EAGAIN)
            return;
        c->broken = why != 0;
        free(ko_queue_take(&c->queue));
    }
    if (!c->broken)
        c->broken = !poll_connection(s, slot, EPOLL_CTL_MOD, false);
}

/* A fork's child may still have the socket open, so that closing would neither notify the peer nor
 * remove it from the epoll set: both are done explicitly, except in the child itself. */
static void shut_down_connection(ko_control_socket *s, kb_guarded_fd *socket)
{
    if (!s->in_child && kb_fd_still_ours(socket)) {
        (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, socket->fd, NULL);
        (void)shutdown(socket->fd, SHUT_RDWR);
    }
    kb_fd_close(socket);
}

void ko_connection_close(ko_control_socket *s, uint32_t slot)
{
    ko_connection *c = s->connections[slot];
    if (!c)
        return;
    s->connections[slot] = NULL;
    KB_ASSERT(c->ticket_count <= KO_MAX_TICKETS);
    (void)kb_sub_relaxed(&s->wanted, c->ticket_count);
    shut_down_connection(s, &c->socket);
    ko_queue_free(&c->queue);
    free(c);
}

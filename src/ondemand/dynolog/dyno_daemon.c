/* The daemon's loop: a local socket for datagrams of processes, and a TCP socket for the RPC.
 * Nothing blocks, so that a slow peer does not delay the others. Connections and their time limits
 * are in dyno_connection.c. One thread uses a daemon. */
#include "ondemand/dynolog/dyno_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG     1024 /* connections; beyond that, TCP retries after a second */
#define MAX_AT_ONCE 128u /* datagrams in one round */
#define SEND_BYTES  (32 << 20)
#define SHORT_BYTES 1024u /* of an answer: an empty one, a count, an ordinary request */
#define TURN_NS     UINT64_C(10000000) /* for connections in one round */
#define AGE_NS      UINT64_C(1000000000)
#define COMPLAIN_NS UINT64_C(10000000000)

/* Rate-limited log message about peers: they must not flood the log. */
typedef struct complaint {
    uint64_t count, said_ns; /* since then */
    char why[128];           /* of the last one */
} complaint;

struct ko_dyno_daemon {
    char *directory;                   /* NULL: abstract */
    char path[KO_DYNO_NAME_BYTES + 1]; /* of the socket that is ours to remove; or empty */
    dev_t path_device;
    ino_t path_inode;
    int datagrams; /* socket */
    int listener;  /* -1: no RPC */
    uint16_t port;
    uint32_t user;
    ko_dyno_registry *registry;
    ko_dyno_connections connections;
    uint64_t aged_ns;
    complaint ignored, refused; /* messages, questions */
    char *token;                /* NULL: none */
    char answer[KO_DYNO_HEAD_BYTES + KO_DYNO_MAX_BYTES];
};

/* ---- opening --------------------------------------------------------------------------------- */

/* Also true if connecting fails for another reason (permission, socket type): the name is in use.
 */
static bool is_address_in_use(const ko_dyno_address *a)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    int why = connect(fd, (const struct sockaddr *)&a->address, a->size) == 0 ? 0 : errno;
    close(fd);
    return why != ECONNREFUSED && why != ENOENT;
}

/* Removes the socket file of a daemon that has ended, nothing else. */
static kineto_status remove_stale_path(const ko_dyno_address *a, kineto_error *err)
{
    const char *path = a->address.sun_path;
    struct stat st;
    if (lstat(path, &st) != 0)
        return KINETO_OK; /* bind reports the error */
    if (!S_ISSOCK(st.st_mode))
        return kb_fail(
            err, KINETO_E_BUSY,
            "'%s' exists and is not a socket; remove it, or use another directory (--socket-dir)",
            path);
    if (is_address_in_use(a))
        return ko_dyno_explain_bind_error(path, err);
    if (unlink(path) != 0 && errno != ENOENT)
        return kb_fail_os(err, errno, "cannot remove the stale socket '%s'", path);
    return KINETO_OK;
}

/* Sets the mode of the socket file: writable by all users if root serves them. Through a
 * descriptor, so that the path cannot be replaced by a link meanwhile. */
static void claim_socket_path(ko_dyno_daemon *d, const ko_dyno_address *a)
{
    char through[32];
    struct stat st;
    int fd = open(a->address.sun_path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode)) {
        snprintf(through, sizeof through, "/proc/self/fd/%d", fd);
        if (chmod(through, d->user == 0 ? 0666 : 0600) != 0)
            kb_log(KINETO_LOG_WARNING, "cannot change the mode of '%s'", a->address.sun_path);
        memcpy(d->path, a->address.sun_path, sizeof d->path);
        d->path_device = st.st_dev;
        d->path_inode = st.st_ino;
    }
    if (fd >= 0)
        close(fd);
}

/* With a directory, also removes a stale socket file and sets the mode of the new one. */
static kineto_status bind_datagrams(ko_dyno_daemon *d, const ko_dyno_address *a, kineto_error *err)
{
    const char *shown = d->directory ? a->address.sun_path : "@" KO_DYNO_DAEMON "@";
    kineto_status status = d->directory ? remove_stale_path(a, err) : KINETO_OK;
    if (status != KINETO_OK)
        return status;
    if (bind(d->datagrams, (const struct sockaddr *)&a->address, a->size) != 0)
        return errno == EADDRINUSE ? ko_dyno_explain_bind_error(shown, err)
                                   : kb_fail_os(err, errno, "cannot bind the socket %s", shown);
    if (d->directory)
        claim_socket_path(d, a);
    return KINETO_OK;
}

static kineto_status open_datagrams(ko_dyno_daemon *d, kineto_error *err)
{
    const int on = 1, room = SEND_BYTES;
    ko_dyno_address a;
    kineto_status status = ko_dyno_address_of(KO_DYNO_DAEMON, d->directory, &a, err);
    if (status != KINETO_OK)
        return status;
    d->datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->datagrams < 0 || setsockopt(d->datagrams, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0)
        return kb_fail_os(err, errno, "cannot open a local socket");
    /* Answers that receivers have not read yet occupy this buffer. */
    if (setsockopt(d->datagrams, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) != 0)
        (void)setsockopt(d->datagrams, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    return bind_datagrams(d, &a, err);
}

/* The port that the system chose for 0. */
static uint16_t bound_port(int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t size = sizeof a;
    if (getsockname(fd, (struct sockaddr *)&a, &size) != 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

static kineto_status listen_on_address(ko_dyno_daemon *d, const struct addrinfo *at,
                                       const char *host, uint16_t port, kineto_error *err)
{
    const int on = 1;
    d->listener = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->listener < 0)
        return kb_fail_os(err, errno, "cannot open a socket for %s", host);
    (void)setsockopt(d->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(d->listener, at->ai_addr, at->ai_addrlen) != 0 || listen(d->listener, BACKLOG) != 0)
        return errno == EADDRINUSE
                   ? kb_fail(err, KINETO_E_BUSY,
                             "port %u of %s is in use, perhaps by another daemon or dynologd", port,
                             host)
                   : kb_fail_os(err, errno, "cannot listen at %s, port %u", host, port);
    d->port = bound_port(d->listener);
    return KINETO_OK;
}

/* 127.0.0.0/8, ::1, and IPv4-mapped forms of the former. */
static bool is_loopback_address(const struct sockaddr *a)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)a;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)a)->sin6_addr;
    if (a->sa_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return a->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) ||
            (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET));
}

/* Numeric addresses only: resolving names could block. Others than loopback require a token. */
static kineto_status open_rpc_listener(ko_dyno_daemon *d, const char *host, uint16_t port,
                                       kineto_error *err)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *at = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", port);
    if (getaddrinfo(host, service, &hints, &at) != 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "'%s' is not a numeric address to listen at, for example 127.0.0.1", host);
    kineto_status status = !d->token && !is_loopback_address(at->ai_addr)
                               ? kb_fail(err, KINETO_E_ARGUMENT,
                                         "%s is reachable from other machines, whose requests "
                                         "write files here; set a token, "
                                         "or listen at 127.0.0.1",
                                         host)
                               : listen_on_address(d, at, host, port, err);
    freeaddrinfo(at);
    return status;
}

/* On failure the caller destroys the daemon, which closes what was opened. */
static kineto_status open_daemon(ko_dyno_daemon *d, const ko_dyno_daemon_options *o,
                                 kineto_error *err)
{
    d->datagrams = d->listener = -1;
    d->user = (uint32_t)geteuid();
    d->registry = ko_dyno_registry_create();
    bool has_directory = o->directory && *o->directory;
    if (has_directory)
        d->directory = strdup(o->directory);
    if (o->token)
        d->token = strdup(o->token);
    if (!d->registry || (has_directory && !d->directory) || (o->token && !d->token))
        return kb_fail_memory(err, "daemon");
    kineto_status status = open_datagrams(d, err);
    if (status != KINETO_OK || o->no_rpc)
        return status;
    return open_rpc_listener(d, o->host ? o->host : "127.0.0.1", o->port, err);
}

kineto_status ko_dyno_daemon_create(const ko_dyno_daemon_options *o, ko_dyno_daemon **out,
                                    kineto_error *err)
{
    ko_dyno_daemon *d = calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return kb_fail_memory(err, "daemon");
    kineto_status status = open_daemon(d, o, err);
    if (status == KINETO_OK)
        *out = d;
    else
        ko_dyno_daemon_destroy(d);
    return status;
}

uint16_t ko_dyno_daemon_port(const ko_dyno_daemon *d) { return d->port; }
ko_dyno_registry *ko_dyno_daemon_registry(ko_dyno_daemon *d) { return d->registry; }

/* ---- datagrams ------------------------------------------------------------------------------- */

static void add_complaint(complaint *c, const char *why)
{
    c->count++;
    snprintf(c->why, sizeof c->why, "%.*s", (int)sizeof c->why - 1, why);
}

static void ignore_message(ko_dyno_daemon *d, const char *why) { add_complaint(&d->ignored, why); }

/* Unread long texts may occupy half of the send buffer; the rest is reserved for short answers, so
 * that other processes are still answered. */
static bool is_crowded(const ko_dyno_daemon *d)
{
    int unread = 0, room = 0;
    socklen_t size = sizeof room;
    return ioctl(d->datagrams, SIOCOUTQ, &unread) == 0 &&
           getsockopt(d->datagrams, SOL_SOCKET, SO_SNDBUF, &room, &size) == 0 && unread > room / 2;
}

/* One attempt: a receiver whose queue is full polls again. @return 0 or an errno. */
static int send_answer(ko_dyno_daemon *d, const ko_dyno_address *to, ko_dyno_type type,
                       kineto_string payload)
{
    size_t n = ko_dyno_encode_answer(type, payload, d->answer, sizeof d->answer);
    if (n > SHORT_BYTES && is_crowded(d))
        return EAGAIN;
    ssize_t sent = sendto(d->datagrams, d->answer, n, MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&to->address, to->size);
    return sent < 0 ? errno : 0;
}

/* A text that could not be sent goes back to the registry, unless it can never be sent. */
static void answer_request(ko_dyno_daemon *d, const ko_dyno_message *m, uint32_t user,
                           const ko_dyno_address *from, uint64_t now_ns)
{
    char *text = ko_dyno_registry_poll(d->registry, m, user, now_ns);
    int failed = send_answer(d, from, KO_DYNO_REQUEST, kb_string(text));
    if (failed == EMSGSIZE) /* it will never fit */
        kb_log(KINETO_LOG_ERROR, "a configuration of %zu bytes does not fit into a local socket",
               text ? strlen(text) : 0);
    if (failed && failed != EMSGSIZE && text)
        ko_dyno_registry_give_back(d->registry, m, user, text);
    else
        free(text);
}

/* Answered with the number of processes on that GPU; failures of sending are ignored. */
static void answer_context(ko_dyno_daemon *d, const ko_dyno_message *m, const ko_dyno_address *from,
                           uint64_t now_ns)
{
    int32_t count = ko_dyno_registry_context(d->registry, m, now_ns);
    (void)send_answer(d, from, KO_DYNO_CONTEXT,
                      (kineto_string){(const char *)&count, sizeof count});
}

/* Dispatches a datagram after checking its user, sender and format. */
static void handle_message(ko_dyno_daemon *d, kineto_string bytes, const ko_dyno_address *from,
                           uint32_t user, uint64_t now_ns)
{
    char name[KO_DYNO_NAME_BYTES + 1];
    ko_dyno_message m;
    const char *why = "";
    if (d->user != 0 && user != d->user)
        ignore_message(d, "it came from another user; only a daemon of root serves all users");
    else if (!ko_dyno_address_name(from, d->directory, name))
        ignore_message(d, "its sender has no name to reply to");
    else if (!ko_dyno_decode(bytes.data, bytes.size, &m, &why))
        ignore_message(d, why);
    else if (m.type == KO_DYNO_CONTEXT)
        answer_context(d, &m, from, now_ns);
    else
        answer_request(d, &m, user, from, now_ns);
}

/* The sender's user from its credentials. There is no room for other control messages: the kernel
 * closes file descriptors that are sent along. */
static uint32_t sender_user(struct msghdr *head)
{
    struct ucred sender = {.uid = UINT32_MAX};
    const struct cmsghdr *c = CMSG_FIRSTHDR(head);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
        c->cmsg_len == CMSG_LEN(sizeof sender))
        memcpy(&sender, CMSG_DATA(c), sizeof sender);
    return (uint32_t)sender.uid;
}

/* Receives and handles one datagram. False: the queue is empty. */
static bool handle_datagram(ko_dyno_daemon *d, uint64_t now_ns)
{
    char bytes[1024]; /* more than any message has */
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control = {0};
    ko_dyno_address from = {0};
    struct iovec to = {bytes, sizeof bytes};
    struct msghdr head = {.msg_name = &from.address,
                          .msg_namelen = sizeof from.address,
                          .msg_iov = &to,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes};
    ssize_t n = recvmsg(d->datagrams, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EINTR;
    from.size = head.msg_namelen;
    if (head.msg_flags & MSG_TRUNC)
        ignore_message(d, "it is too long");
    else
        handle_message(d, (kineto_string){bytes, (size_t)n}, &from, sender_user(&head), now_ns);
    return true;
}

/* ---- RPC ------------------------------------------------------------------------------------- */

/* False: the connection was closed, and index `i` now holds the next one. */
static bool serve_connection(ko_dyno_daemon *d, uint32_t i, uint64_t now_ns)
{
    kineto_error refused = {0};
    bool goes_on =
        ko_dyno_connection_serve(&d->connections.items[i], d->registry, now_ns, &refused);
    if (refused.code)
        add_complaint(&d->refused, refused.message);
    if (!goes_on)
        ko_dyno_connections_drop(&d->connections, i);
    return goes_on;
}

/* The permissions of a new connection. Without a token the user decides, which the kernel knows
 * while the peer has its end open. */
static ko_dyno_caller caller_at(const ko_dyno_daemon *d, int fd)
{
    ko_dyno_caller c = {.token = d->token};
    if (d->token)
        return c;
    if (!ko_dyno_peer_user(fd, &c.user))
        c.denied = "the user of this connection is not known; give the daemon a token";
    else if (d->user != 0 && c.user != 0 && c.user != d->user)
        c.denied = "this daemon belongs to another user";
    c.one_user = d->user == 0 && c.user != 0;
    return c;
}

/* @return whether another connection may be pending. */
static bool accept_one(ko_dyno_daemon *d, uint64_t now_ns)
{
    if (ko_dyno_connections_room_ns(&d->connections) > now_ns)
        return false;
    int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            return ko_dyno_connections_free_fd(&d->connections, now_ns);
        return errno == EINTR || errno == ECONNABORTED;
    }
    ko_dyno_caller caller = caller_at(d, fd);
    (void)serve_connection(d, ko_dyno_connections_add(&d->connections, fd, &caller, now_ns),
                           now_ns);
    return true;
}

/* ---- the loop -------------------------------------------------------------------------------- */

enum { STOP, DATAGRAMS, LISTENER, CONNECTIONS, MAX_POLLED = CONNECTIONS + KO_DYNO_MAX_CONNECTIONS };

/* Fixed entries first, then one per connection. The listener is left out while no connection can
 * be accepted. */
static nfds_t fill_poll_set(const ko_dyno_daemon *d, int stop, uint64_t now_ns,
                            struct pollfd *polled)
{
    bool listens = ko_dyno_connections_room_ns(&d->connections) <= now_ns;
    polled[STOP] = (struct pollfd){.fd = stop, .events = POLLIN};
    polled[DATAGRAMS] = (struct pollfd){.fd = d->datagrams, .events = POLLIN};
    polled[LISTENER] = (struct pollfd){.fd = listens ? d->listener : -1, .events = POLLIN};
    for (uint32_t i = 0; i < d->connections.count; i++) {
        const ko_dyno_connection *c = &d->connections.items[i];
        polled[CONNECTIONS + i] =
            (struct pollfd){.fd = c->fd, .events = c->answer ? POLLOUT : POLLIN};
    }
    KB_ASSERT(CONNECTIONS + d->connections.count <= MAX_POLLED);
    return CONNECTIONS + d->connections.count;
}

/* The timeout for poll(2): until something is due, at most `wait_ms` (negative: no limit of the
 * caller's). -1: wait for events only. Rounded up, so that the time has passed when poll returns.
 */
static int poll_timeout_ms(const ko_dyno_daemon *d, int64_t wait_ms, uint64_t now_ns)
{
    uint64_t due_ns = ko_dyno_connections_due_ns(&d->connections, now_ns);
    if (due_ns == UINT64_MAX && wait_ms < 0)
        return -1;
    int64_t ms = INT32_MAX;
    if (due_ns <= now_ns)
        ms = 0;
    else if (due_ns != UINT64_MAX)
        ms = (int64_t)((due_ns - now_ns + 999999) / 1000000);
    if (wait_ms >= 0)
        ms = KB_MIN(ms, wait_ms);
    return (int)KB_MIN(ms, INT32_MAX);
}

/* Connections that are not served in this round follow after the next datagrams. */
static bool is_time_slice_over(uint64_t since_ns) { return kb_monotonic_ns() - since_ns > TURN_NS; }

static void serve_connections(ko_dyno_daemon *d, const struct pollfd *polled, uint32_t count,
                              uint64_t now_ns)
{
    uint32_t at = 0; /* index of connection i, after those before it were dropped */
    for (uint32_t i = 0; i < count && !is_time_slice_over(now_ns); i++) {
        at += !polled[i].revents || serve_connection(d, at, now_ns);
    }
}

/* Datagrams, connections, then new connections; each part is bounded, so that none starves the
 * others. */
static void serve_ready(ko_dyno_daemon *d, const struct pollfd *polled, nfds_t count,
                        uint64_t now_ns)
{
    if (polled[DATAGRAMS].revents)
        for (uint32_t i = 0; i < MAX_AT_ONCE && handle_datagram(d, now_ns); i++)
            continue;
    serve_connections(d, polled + CONNECTIONS, (uint32_t)count - CONNECTIONS, now_ns);
    if (polled[LISTENER].revents)
        while (!is_time_slice_over(now_ns) && accept_one(d, now_ns))
            continue;
}

static void log_complaint(complaint *c, const char *what, uint64_t now_ns)
{
    if (!c->count || now_ns - c->said_ns < COMPLAIN_NS)
        return;
    kb_log(KINETO_LOG_WARNING, "%llu %s; of the last one: %s", (unsigned long long)c->count, what,
           c->why);
    c->said_ns = now_ns;
    c->count = 0;
}

/* Closes connections that took too long, ages the registry, logs complaints. */
static void expire_and_report(ko_dyno_daemon *d, uint64_t now_ns)
{
    ko_dyno_connections_expire(&d->connections, now_ns);
    if (now_ns - d->aged_ns >= AGE_NS) {
        ko_dyno_registry_age(d->registry, now_ns);
        d->aged_ns = now_ns;
    }
    log_complaint(&d->ignored, "messages ignored", now_ns);
    log_complaint(&d->refused, "requests over TCP refused", now_ns);
}

kineto_status ko_dyno_daemon_run(ko_dyno_daemon *d, int64_t wait_ms, int stop, kineto_error *err)
{
    struct pollfd polled[MAX_POLLED];
    uint64_t before_ns = kb_monotonic_ns();
    nfds_t count = fill_poll_set(d, stop, before_ns, polled);
    int n = poll(polled, count, poll_timeout_ms(d, wait_ms, before_ns));
    if (n < 0 && errno != EINTR)
        return kb_fail_os(err, errno, "cannot wait for messages");
    uint64_t now_ns = kb_monotonic_ns();
    if (n > 0)
        serve_ready(d, polled, count, now_ns);
    expire_and_report(d, now_ns);
    return KINETO_OK;
}

/* Unless the path belongs to another daemon by now. */
static void remove_path(const ko_dyno_daemon *d)
{
    struct stat st;
    if (d->path[0] && lstat(d->path, &st) == 0 && st.st_dev == d->path_device &&
        st.st_ino == d->path_inode)
        (void)unlink(d->path);
}

void ko_dyno_daemon_destroy(ko_dyno_daemon *d)
{
    if (!d)
        return;
    ko_dyno_connections_close(&d->connections);
    remove_path(d);
    if (d->datagrams >= 0)
        close(d->datagrams);
    if (d->listener >= 0)
        close(d->listener);
    ko_dyno_registry_destroy(d->registry);
    free(d->directory);
    free(d->token);
    free(d);
}

/* The control socket of a process, to which `ckineto trigger` and `ckineto ps` connect. The
 * controller polls one epoll descriptor, which covers the socket, its connections, the inotify
 * watch of its file, and a bell that is rung when notes wait for connections. Nothing blocks. All
 * descriptors may be closed by the program at any time; is_intact detects that, and everything is
 * opened again. */
#include "ondemand/listen/control_socket_impl.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 128
#define ACCEPT_AT_ONCE                                                                             \
    16u /* fewer than there are slots: no connection is evicted before it was read */
#define DEAF_NS         UINT64_C(50000000)
#define RETRY_NS        UINT64_C(10000000000)
#define COMPLAIN_NS     UINT64_C(60000000000)
#define EVENT_OF_SOCKET UINT64_MAX
#define EVENT_OF_BELL   (UINT64_MAX - 1)
#define EVENT_OF_WATCH  (UINT64_MAX - 2)

/* ---- opening --------------------------------------------------------------------------------- */

/* Is the name in use: by a process with our pid in another container, or by this process? */
static kineto_status check_name_is_free(const ko_control_socket *s, kineto_error *err)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open a control socket");
    bool taken = connect(fd, (const struct sockaddr *)&s->at, sizeof s->at) == 0 ||
                 errno == EAGAIN || errno == EPROTOTYPE;
    close(fd);
    return taken
               ? kb_fail(err, KINETO_E_BUSY,
                         "'%s' is in use: by this process, or by one with the same pid in another "
                         "container",
                         s->at.sun_path)
               : KINETO_OK;
}

/* Binds a temporary name, listens, and then renames: clients never see a socket that does not
 * listen, and a stale file of an earlier process with this pid is replaced. */
static kineto_status bind_and_listen(ko_control_socket *s, kineto_error *err)
{
    struct sockaddr_un unborn;
    struct stat st;
    kineto_status status = ko_control_address(s->directory, s->pid, true, &unborn, err);
    if (status == KINETO_OK)
        status = check_name_is_free(s, err);
    if (status != KINETO_OK)
        return status;
    (void)unlink(unborn.sun_path);
    if (fchmod(s->socket.fd, S_IRUSR | S_IWUSR) != 0 ||
        bind(s->socket.fd, (const struct sockaddr *)&unborn, sizeof unborn) != 0)
        return kb_fail_os(err, errno, "cannot make the control socket '%s'", unborn.sun_path);
    if (listen(s->socket.fd, BACKLOG) != 0 || lstat(unborn.sun_path, &st) != 0 ||
        rename(unborn.sun_path, s->at.sun_path) != 0) {
        int why = errno;
        (void)unlink(unborn.sun_path);
        return kb_fail_os(err, why, "cannot listen at the control socket '%s'", s->at.sun_path);
    }
    s->file_device = st.st_dev;
    s->file_inode = st.st_ino;
    return KINETO_OK;
}

/* Adds or modifies a descriptor; `in` false: keep it without events. */
static bool set_epoll_events(const ko_control_socket *s, int how, int fd, uint64_t which, bool in)
{
    struct epoll_event e = {.events = in ? (uint32_t)EPOLLIN : 0u, .data.u64 = which};
    return epoll_ctl(s->epoll, how, fd, &e) == 0;
}

/* An epoll descriptor has no identity that could be queried: ours is recognised by the descriptors
 * that it contains, which EPOLL_CTL_MOD tests. */
static bool epoll_knows_socket(const ko_control_socket *s)
{
    return s->epoll >= 0 && s->socket.fd >= 0 &&
           set_epoll_events(s, EPOLL_CTL_MOD, s->socket.fd, EVENT_OF_SOCKET, s->deaf_until_ns == 0);
}

static bool epoll_knows_bell(const ko_control_socket *s)
{
    int bell = ko_wake_fd(&s->wake);
    return s->epoll >= 0 && bell >= 0 &&
           set_epoll_events(s, EPOLL_CTL_MOD, bell, EVENT_OF_BELL, true);
}

static bool epoll_knows_watch(const ko_control_socket *s)
{
    return s->epoll >= 0 && s->watch >= 0 &&
           set_epoll_events(s, EPOLL_CTL_MOD, s->watch, EVENT_OF_WATCH, true);
}

/* Watches for removal of the socket's file. Without a watch: see is_check_due. */
static void watch_socket_file(ko_control_socket *s)
{
    s->watch = kb_os_clear_of_standard(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (s->watch < 0)
        return;
    if (inotify_add_watch(s->watch, s->at.sun_path, IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF) <
            0 ||
        !set_epoll_events(s, EPOLL_CTL_ADD, s->watch, EVENT_OF_WATCH, true)) {
        close(s->watch);
        s->watch = -1;
    }
}

static kineto_status cannot_poll(int why, kineto_error *err)
{
    return kb_fail_os(err, why, "cannot prepare a control socket");
}

/* The bell and the epoll set; on failure both may be partly open, and destroying closes them. */
static kineto_status open_epoll(ko_control_socket *s, kineto_error *err)
{
    kineto_status status = ko_wake_open(&s->wake, err);
    if (status != KINETO_OK)
        return status;
    s->epoll = kb_os_clear_of_standard(epoll_create1(EPOLL_CLOEXEC));
    if (s->epoll < 0)
        return cannot_poll(errno, err);
    if (!set_epoll_events(s, EPOLL_CTL_ADD, ko_wake_fd(&s->wake), EVENT_OF_BELL, true)) {
        int why = errno;
        close(s->epoll);
        s->epoll = -1;
        return cannot_poll(why, err);
    }
    s->listener.fd = s->epoll;
    return KINETO_OK;
}

/* Directory, address, socket, binding, and the watch of its file. */
static kineto_status open_listening_socket(ko_control_socket *s, kineto_error *err)
{
    kineto_status status = ko_control_directory(true, s->directory, err);
    if (status == KINETO_OK)
        status = ko_control_address(s->directory, s->pid, false, &s->at, err);
    if (status != KINETO_OK)
        return status;
    if (!kb_fd_adopt(&s->socket,
                       socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)))
        return kb_fail_os(err, errno, "cannot open a control socket");
    status = bind_and_listen(s, err);
    if (status == KINETO_OK &&
        !set_epoll_events(s, EPOLL_CTL_ADD, s->socket.fd, EVENT_OF_SOCKET, true))
        status = cannot_poll(errno, err);
    if (status == KINETO_OK)
        watch_socket_file(s);
    return status;
}

/* ---- closing --------------------------------------------------------------------------------- */

static bool file_is_ours(const ko_control_socket *s)
{
    struct stat st;
    return s->file_inode != 0 && lstat(s->at.sun_path, &st) == 0 && st.st_dev == s->file_device &&
           st.st_ino == s->file_inode;
}

static void remove_socket_file(ko_control_socket *s)
{
    if (file_is_ours(s))
        (void)unlink(s->at.sun_path);
    s->file_inode = 0;
}

/* In a fork's child socket and file belong to the parent, which goes on using them. */
static void close_listening_socket(ko_control_socket *s)
{
    if (!s->in_child) {
        remove_socket_file(s);
        if (kb_fd_still_ours(&s->socket)) { /* a child may still have it open */
            (void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, s->socket.fd, NULL);
            (void)shutdown(s->socket.fd, SHUT_RDWR);
        }
    }
    kb_fd_close(&s->socket);
    if (epoll_knows_watch(s))
        close(s->watch);
    s->watch = -1;
}

/* Everything, also connections. The epoll descriptor is closed only if it is recognised as ours. */
static void close_control_socket(ko_control_socket *s)
{
    bool ours = epoll_knows_socket(s) || epoll_knows_bell(s);
    for (uint32_t i = 0; i < KO_MAX_CONNECTIONS; i++)
        ko_connection_close(s, i);
    close_listening_socket(s);
    ko_wake_close(&s->wake);
    if (ours)
        close(s->epoll);
    s->epoll = s->listener.fd = -1;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void log_rejected_peer(ko_control_socket *s, uint64_t now_ns, const char *what,
                              unsigned number)
{
    if (s->complained_ns && now_ns - s->complained_ns < COMPLAIN_NS)
        return;
    s->complained_ns = now_ns;
    kb_log(KINETO_LOG_WARNING, "on-demand tracing: control socket: %s %u", what, number);
}

/* The slot of the connection that was idle the longest and has no unfinished request. */
static uint32_t oldest_idle(const ko_control_socket *s)
{
    uint32_t oldest = KO_MAX_CONNECTIONS;
    for (uint32_t i = 0; i < KO_MAX_CONNECTIONS; i++) {
        const ko_connection *c = s->connections[i];
        if (c && c->ticket_count == 0 &&
            (oldest == KO_MAX_CONNECTIONS || c->active_ns < s->connections[oldest]->active_ns))
            oldest = i;
    }
    return oldest;
}

/* A free slot, if need be by evicting an idle connection; KO_MAX_CONNECTIONS: all have unfinished
 * requests. */
static uint32_t find_connection_slot(ko_control_socket *s)
{
    for (uint32_t i = 0; i < KO_MAX_CONNECTIONS; i++)
        if (!s->connections[i])
            return i;
    uint32_t slot = oldest_idle(s);
    if (slot < KO_MAX_CONNECTIONS) {
        ko_control_reply_text(s, slot, "closed",
                              "closed for other connections, because this one was idle");
        ko_connection_close(s, slot);
    }
    return slot;
}

/* This user and root may connect. *pid: the peer, for messages. */
static bool may_connect(ko_control_socket *s, int fd, uint32_t *pid, uint64_t now_ns)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && size == sizeof peer;
    if (known && (peer.uid == 0 || peer.uid == geteuid())) {
        *pid = (uint32_t)KB_MAX(peer.pid, 0);
        return true;
    }
    log_rejected_peer(s, now_ns, "closed a connection from user", (unsigned)peer.uid);
    return false;
}

/* Tells the peer why, as far as it can be sent at once. */
static void close_crowded(int fd)
{
    ko_packet p;
    ko_packet_begin(&p, "closed");
    ko_packet_put(&p, "text", "too many connections wait for their traces");
    (void)send(fd, p.data, p.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

/* Takes `fd`: closed if the peer may not connect or there is no slot. */
static void admit_connection(ko_control_socket *s, int fd, uint64_t now_ns)
{
    uint32_t pid = 0;
    if (!may_connect(s, fd, &pid, now_ns)) {
        close(fd);
        return;
    }
    uint32_t slot = find_connection_slot(s);
    ko_connection *c = slot < KO_MAX_CONNECTIONS ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        close_crowded(fd);
        return;
    }
    if (!kb_fd_adopt(&c->socket, fd)) {
        free(c);
        return;
    }
    s->generation = (s->generation + 1) & INT32_MAX;
    c->generation = s->generation;
    c->pid = pid;
    c->active_ns = now_ns;
    KB_ASSERT(slot < KO_MAX_CONNECTIONS && !s->connections[slot]);
    s->connections[slot] = c;
    if (!ko_connection_open(s, slot))
        ko_connection_close(s, slot);
}

/* Pauses for DEAF_NS when the process is out of file descriptors. */
static void accept_connections(ko_control_socket *s, uint64_t now_ns)
{
    for (uint32_t i = 0; i < ACCEPT_AT_ONCE; i++) {
        int fd = accept4(s->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            admit_connection(s, fd, now_ns);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            s->deaf_until_ns = now_ns + DEAF_NS;
            (void)epoll_knows_socket(s); /* updates the epoll set */
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* Receives one packet per round. An empty packet and the end of the connection both give 0 bytes:
 * only with a hang-up event is it the end. */
static void receive_packet(ko_control_socket *s, uint32_t slot, uint32_t events, uint64_t now_ns)
{
    ko_connection *c = s->connections[slot];
    KB_ASSERT(c && !c->broken);
    ssize_t n = recv(c->socket.fd, s->buffer, sizeof s->buffer, MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (n < 0 || (n == 0 && (events & (EPOLLRDHUP | EPOLLHUP)))) {
        c->broken = true;
        return;
    }
    c->active_ns = now_ns;
    ko_control_answer_packet(s, slot, (size_t)n);
}

/* Events of connections that were replaced meanwhile are recognised by their generation. */
static void serve_connection_event(ko_control_socket *s, const struct epoll_event *e,
                                   uint64_t now_ns)
{
    uint32_t slot = (uint32_t)e->data.u64, generation = (uint32_t)(e->data.u64 >> 32);
    ko_connection *c = slot < KO_MAX_CONNECTIONS ? s->connections[slot] : NULL;
    if (!c || c->generation != generation)
        return;
    if (!kb_fd_still_ours(&c->socket))
        c->broken = true;
    if (!c->broken && (e->events & EPOLLOUT))
        ko_connection_flush(s, slot);
    if (!c->broken && (e->events & EPOLLIN))
        receive_packet(s, slot, e->events, now_ns);
    else if (e->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->broken = true;
}

/* After each round: connections are never closed while events are being handled. */
static void close_broken(ko_control_socket *s)
{
    for (uint32_t i = 0; i < KO_MAX_CONNECTIONS; i++)
        if (s->connections[i] && s->connections[i]->broken)
            ko_connection_close(s, i);
}

/* ---- the listener ---------------------------------------------------------------------------- */

/* Are all descriptors still ours? If not, the program has closed them, and other files may have
 * their numbers. While the socket itself is closed (reopen_control_socket), only the bell is
 * checked. */
static bool is_intact(const ko_control_socket *s)
{
    return epoll_knows_bell(s) && (s->socket.fd < 0 || epoll_knows_socket(s));
}

/* If only the socket's file is gone, existing connections stay open. */
static void reopen_control_socket(ko_control_socket *s, uint64_t now_ns)
{
    kineto_error err;
    kineto_status status = KINETO_OK;
    if (is_intact(s)) {
        close_listening_socket(s);
    } else {
        pthread_mutex_lock(&s->lock);
        close_control_socket(s);
        status = open_epoll(s, &err);
        pthread_mutex_unlock(&s->lock);
    }
    if (status == KINETO_OK)
        status = open_listening_socket(s, &err);
    if (status == KINETO_OK) {
        s->retry_ns = 0;
        return;
    }
    close_listening_socket(s);
    if (s->retry_ns == 0)
        kb_log(KINETO_LOG_WARNING,
               "on-demand tracing: control socket: it is closed and will be reopened later: %s",
               err.message);
    s->retry_ns = now_ns + RETRY_NS;
}

/* When a user logs out, the system removes the contents of XDG_RUNTIME_DIR, while programs may go
 * on. */
static void handle_file_changes(ko_control_socket *s, uint64_t now_ns)
{
    char events[1024];
    while (epoll_knows_watch(s) && read(s->watch, events, sizeof events) > 0)
        continue;
    if (!file_is_ours(s))
        reopen_control_socket(s, now_ns);
}

/* At the first turn: the controller is not known before. */
static void watch_controller(ko_control_socket *s, ko_controller *c)
{
    if (s->controller)
        return;
    if (!ko_controller_watch(c, ko_control_queue_note, s))
        kb_log(KINETO_LOG_WARNING,
               "on-demand tracing: control socket: too many watchers; its clients will not be "
               "notified");
    s->controller = c;
}

/* The system may have no more watches to give (fs.inotify.max_user_instances): then the file is looked
 * for from time to time, until there is one. @return whether it is time. */
static bool is_check_due(ko_control_socket *s, uint64_t now_ns)
{
    if (s->watch >= 0 || s->socket.fd < 0 || now_ns < s->check_ns)
        return false;
    s->check_ns = now_ns + RETRY_NS;
    watch_socket_file(s);
    return true;
}

/* Sets wake_ns, and ends a pause of accepting. */
static void plan_next_turn(ko_control_socket *s, uint64_t now_ns)
{
    if (s->deaf_until_ns && now_ns >= s->deaf_until_ns)
        s->deaf_until_ns = 0; /* the next turn updates the epoll set */
    s->listener.wake_ns = s->retry_ns        ? s->retry_ns
                          : s->deaf_until_ns ? s->deaf_until_ns
                          : s->watch < 0     ? s->check_ns
                                             : UINT64_MAX;
}

/* ko_listener.turn. Order: events, notes, broken connections, then new connections. */
static void turn_control_socket(ko_listener *l, ko_controller *c, uint64_t now_ns)
{
    ko_control_socket *s = (ko_control_socket *)l;
    struct epoll_event events[KO_MAX_CONNECTIONS + 3];
    bool crowd = false, changed = false;
    if (s->in_child)
        return;
    watch_controller(s, c);
    plan_next_turn(s, now_ns);
    bool lost = s->epoll >= 0 && !is_intact(s);
    if (lost || (s->retry_ns && now_ns >= s->retry_ns))
        reopen_control_socket(s, now_ns);
    if (!is_intact(s)) {
        plan_next_turn(s, now_ns);
        return;
    }
    int n = epoll_wait(s->epoll, events, (int)KB_COUNT(events), 0);
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == EVENT_OF_SOCKET)
            crowd = true;
        else if (events[i].data.u64 == EVENT_OF_BELL)
            (void)ko_wake_take(&s->wake);
        else if (events[i].data.u64 == EVENT_OF_WATCH)
            changed = true;
        else
            serve_connection_event(s, &events[i], now_ns);
    }
    ko_control_deliver_notes(s);
    close_broken(s);
    if (crowd)
        accept_connections(s, now_ns);
    if (changed || is_check_due(s, now_ns))
        handle_file_changes(s, now_ns);
    plan_next_turn(s, now_ns);
}

/* The parent's threads may have held the lock while changing `heard`: both are reset. */
static void forget_parent_socket(ko_listener *l)
{
    ko_control_socket *s = (ko_control_socket *)l;
    s->in_child = true;
    pthread_mutex_init(&s->lock, NULL);
    s->heard = (ko_queue){0};
    close_control_socket(s);
    s->controller = NULL;
    l->wake_ns = UINT64_MAX;
}

/* Sends the remaining notes, as far as peers read them at once. */
static void destroy_control_socket(ko_listener *l)
{
    ko_control_socket *s = (ko_control_socket *)l;
    if (s->controller)
        ko_controller_unwatch(s->controller, ko_control_queue_note, s);
    if (!s->in_child)
        ko_control_deliver_notes(s);
    close_control_socket(s);
    ko_queue_free(&s->heard);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

ko_listener *ko_control_socket_create(uint32_t pid, kineto_error *err)
{
    ko_control_socket *s = calloc(1, sizeof *s);
    if (!s || pthread_mutex_init(&s->lock, NULL) != 0) {
        free(s);
        kb_fail_memory(err, "control socket");
        return NULL;
    }
    s->listener = (ko_listener){.name = "control socket",
                                .fd = -1,
                                .events = POLLIN,
                                .wake_ns = UINT64_MAX,
                                .turn = turn_control_socket,
                                .forked = forget_parent_socket,
                                .destroy = destroy_control_socket};
    s->pid = pid;
    s->epoll = s->watch = -1;
    s->socket = (kb_guarded_fd)KB_GUARDED_FD_NONE;
    s->wake = KO_WAKE_CLOSED;
    if (open_epoll(s, err) != KINETO_OK || open_listening_socket(s, err) != KINETO_OK) {
        destroy_control_socket(&s->listener);
        return NULL;
    }
    return &s->listener;
}

void ko_control_socket_set_pids(ko_listener *l, ko_list_pids *list, void *context)
{
    ko_control_socket *s = (ko_control_socket *)l;
    s->list_context = context;
    s->list = list;
}

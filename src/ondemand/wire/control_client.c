/* The client of control sockets, for commands: connects to a process, sends packets, receives
 * packets. Nothing blocks, except connecting, for up to CONNECT_MS. Replies are untrusted: texts
 * are sanitised for terminals. */
#include "ondemand/request/request.h"
#include "ondemand/wire/control_wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

/* Waits this long if the backlog is full. A stopped process fills its backlog in silence. */
#define CONNECT_MS 500

struct ko_control_peer {
    int fd;
    uint32_t pid;
    char buffer[KO_CONTROL_MAX_BYTES];
};

/* ---- connecting ------------------------------------------------------------------------------ */

static int open_peer_socket(void)
{
    const struct timeval limit = {.tv_usec = CONNECT_MS * 1000};
    const int room = 2 * (int)KO_CONTROL_MAX_BYTES;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    return fd;
}

/* @return 0 or an errno. */
static int connect_peer(int fd, const struct sockaddr_un *to)
{
    while (connect(fd, (const struct sockaddr *)to, sizeof *to) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static kineto_status report_no_socket(uint32_t pid, const char *path, kineto_error *err)
{
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "process %u has no control socket ('%s'); it may belong to another user, or "
                   "was started without CKINETO_CONTROL",
                   pid, path);
}

/* The process has ended and left its socket file. */
static void remove_stale(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0 && S_ISSOCK(st.st_mode))
        (void)unlink(path);
}

static kineto_status cannot_connect(int why, uint32_t pid, const char *path, kineto_error *err)
{
    if (why == ECONNREFUSED)
        remove_stale(path);
    if (why == ECONNREFUSED || why == ENOENT)
        return report_no_socket(pid, path, err);
    if (why == EAGAIN || why == EINPROGRESS || why == ETIMEDOUT)
        return kb_fail(err, KINETO_E_BUSY,
                       "process %u accepts no connection at '%s'; it is stopped, or has too many "
                       "connections",
                       pid, path);
    return kb_fail_os(err, why, "cannot connect to process %u at '%s'", pid, path);
}

/* The peer must be the process that the socket file is named after, seen from our pid namespace. */
static kineto_status check_peer(int fd, uint32_t pid, uid_t owner, kineto_error *err)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || size != sizeof peer)
        return kb_fail_os(err, errno, "cannot find the owner of the socket of process %u", pid);
    if (peer.uid != 0 && peer.uid != owner)
        return kb_fail(err, KINETO_E_PERMISSION, "the socket of process %u is that of user %u", pid,
                       (unsigned)peer.uid);
    if (peer.pid == 0)
        return kb_fail(
            err, KINETO_E_PERMISSION,
            "the socket of process %u belongs to a process outside of this container; run "
            "the command outside of it",
            pid);
    if ((uint32_t)peer.pid != pid)
        return kb_fail(
            err, KINETO_E_PERMISSION,
            "the socket of process %u belongs to process %u, which has that pid inside a "
            "container; run the command inside of it",
            pid, (unsigned)peer.pid);
    return KINETO_OK;
}

/* Connects and checks the peer; non-blocking afterwards. */
static kineto_status open_peer(const struct sockaddr_un *to, uint32_t pid, uid_t owner, int *out,
                               kineto_error *err)
{
    int fd = open_peer_socket();
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open a socket to process %u", pid);
    int why = connect_peer(fd, to);
    kineto_status status =
        why ? cannot_connect(why, pid, to->sun_path, err) : check_peer(fd, pid, owner, err);
    if (status == KINETO_OK && fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        status = kb_fail_os(err, errno, "cannot prepare a socket to process %u", pid);
    if (status == KINETO_OK)
        *out = fd;
    else
        close(fd);
    return status;
}

kineto_status ko_control_connect(uint32_t pid, ko_control_peer **out, kineto_error *err)
{
    char directory[KO_REQUEST_PATH_BYTES];
    struct sockaddr_un to;
    int fd = -1;
    *out = NULL;
    kineto_status status = ko_control_directory(false, directory, err);
    if (status == KINETO_OK)
        status = ko_control_address(directory, pid, false, &to, err);
    if (status == KINETO_OK)
        status = open_peer(&to, pid, geteuid(), &fd, err);
    if (status != KINETO_OK)
        return status;
    ko_control_peer *p = malloc(sizeof *p);
    if (!p) {
        close(fd);
        return kb_fail(err, KINETO_E_MEMORY, "connection to process %u: out of memory", pid);
    }
    p->fd = fd;
    p->pid = pid;
    *out = p;
    return KINETO_OK;
}

int ko_control_fd(const ko_control_peer *p) { return p->fd; }
uint32_t ko_control_peer_pid(const ko_control_peer *p) { return p->pid; }

void ko_control_close(ko_control_peer *p)
{
    if (!p)
        return;
    close(p->fd);
    free(p);
}

/* ---- sending --------------------------------------------------------------------------------- */

kineto_status ko_control_send(ko_control_peer *p, const char *verb, kineto_string text,
                              kineto_error *err)
{
    ko_packet head;
    ko_packet_begin(&head, verb);
    size_t bytes = head.bytes + 1 + text.size;
    if (text.size >= KO_CONTROL_MAX_BYTES || bytes > KO_CONTROL_MAX_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "a request of %zu bytes is too long: %u at most",
                       text.size, KO_CONTROL_MAX_BYTES - (uint32_t)head.bytes - 1);
    struct iovec parts[] = {
        {head.data, head.bytes}, {(char[]){'\n'}, 1}, {(void *)(uintptr_t)text.data, text.size}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = text.size > 0 ? 3 : 1};
    ssize_t sent;
    do
        sent = sendmsg(p->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return KINETO_OK;
    if (errno == EAGAIN || errno == ENOBUFS)
        return kb_fail(err, KINETO_E_BUSY, "process %u accepts no messages; it may be stopped",
                       p->pid);
    if (errno == EPIPE || errno == ECONNRESET)
        return kb_fail(err, KINETO_E_NOT_FOUND, "process %u has closed the connection", p->pid);
    return kb_fail_os(err, errno, "cannot send to process %u", p->pid);
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void take_answer_pids(ko_control_answer *a, kineto_string value)
{
    while (value.size > 0 && a->pid_count < KB_COUNT(a->pids)) {
        const char *comma = memchr(value.data, ',', value.size);
        size_t size = comma ? (size_t)(comma - value.data) : value.size;
        int64_t pid;
        if (ko_packet_number((kineto_string){value.data, size}, &pid) && pid > 0 &&
            pid <= INT32_MAX)
            a->pids[a->pid_count++] = (uint32_t)pid;
        size += comma ? 1 : 0;
        value = (kineto_string){value.data + size, value.size - size};
    }
}

/* Texts, sanitised for a terminal. False: not one of these keys. */
static bool take_answer_text(ko_control_answer *a, kineto_string key, kineto_string value)
{
    const struct {
        const char *key;
        char *out;
        size_t size;
    } texts[] = {{"text", a->text, sizeof a->text},
                 {"path", a->path, sizeof a->path},
                 {"name", a->process_name, sizeof a->process_name},
                 {"version", a->version, sizeof a->version},
                 {"state", a->state_name, sizeof a->state_name},
                 {"host", a->host, sizeof a->host},
                 {"daemon-client", a->daemon_client, sizeof a->daemon_client},
                 {"trace-id", a->trace_id, sizeof a->trace_id}};
    char plain[2048];
    for (size_t i = 0; i < KB_COUNT(texts); i++) {
        if (!kb_string_equal(key, kb_string(texts[i].key)))
            continue;
        ko_packet_unescape(value, plain, sizeof plain);
        ko_request_show(kb_string(plain), texts[i].out, texts[i].size);
        return true;
    }
    return false;
}

/* Numbers out of range are ignored. */
static void take_answer_number(ko_control_answer *a, kineto_string key, int64_t n)
{
    ko_controller_status *s = &a->status;
    const struct {
        const char *key;
        int64_t *i64;
        uint64_t *u64;
        uint32_t *u32;
        bool *flag;
    } numbers[] = {{"pid", .u32 = &s->pid},
                   {"state-number", .u32 = &s->state},
                   {"uid", .u32 = &a->uid},
                   {"iteration", .i64 = &s->iteration},
                   {"start-ns", .i64 = &s->start_ns},
                   {"end-ns", .i64 = &s->end_ns},
                   {"time-ns", .i64 = &a->time_ns},
                   {"traces", .u64 = &s->traces},
                   {"ticket", .u64 = &a->ticket},
                   {"bytes", .u64 = &a->bytes},
                   {"ring", .flag = &s->ring},
                   {"by-iteration", .flag = &s->by_iteration},
                   {"preempted", .flag = &s->preempted}};
    if (kb_string_equal(key, kb_string("code")) && n >= INT32_MIN && n <= INT32_MAX)
        a->code = (int32_t)n;
    for (size_t i = 0; i < KB_COUNT(numbers); i++) {
        if (!kb_string_equal(key, kb_string(numbers[i].key)))
            continue;
        if (numbers[i].i64)
            *numbers[i].i64 = n;
        else if (numbers[i].u64 && n >= 0)
            *numbers[i].u64 = (uint64_t)n;
        else if (numbers[i].u32 && n >= 0 && n <= UINT32_MAX)
            *numbers[i].u32 = (uint32_t)n;
        else if (numbers[i].flag)
            *numbers[i].flag = n != 0;
    }
}

/* Unknown keys are ignored: later versions may add some. */
static void take_answer_lines(ko_control_answer *a, kineto_string lines)
{
    kineto_string key, value;
    int64_t number;
    while (ko_packet_next(&lines, &key, &value)) {
        if (kb_string_equal(key, kb_string("pids")))
            take_answer_pids(a, value);
        else if (!take_answer_text(a, key, value) && ko_packet_number(value, &number))
            take_answer_number(a, key, number);
    }
    a->status.ticket = a->ticket;
    a->status.host = a->host;
}

/* Packets are never empty: 0 bytes mean that the process has closed the connection. */
kineto_status ko_control_receive(ko_control_peer *p, ko_control_answer *out, kineto_error *err)
{
    ko_packet_view view;
    const char *why = NULL;
    ssize_t n = -1;
    /* ECONNRESET is reported once, before the packets that were sent earlier. */
    for (int tries = 0; n < 0 && tries < 3; tries++) {
        n = recv(p->fd, p->buffer, sizeof p->buffer, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && errno != EINTR && errno != ECONNRESET)
            break;
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return kb_fail(err, KINETO_E_BUSY, "process %u has sent nothing yet", p->pid);
    if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EINTR)))
        return kb_fail(err, KINETO_E_NOT_FOUND, "process %u has closed the connection", p->pid);
    if (n < 0)
        return kb_fail_os(err, errno, "cannot receive from process %u", p->pid);
    if ((size_t)n > sizeof p->buffer)
        why = "it is too long";
    if (why || !ko_packet_read(p->buffer, (size_t)n, &view, &why))
        return kb_fail(err, KINETO_E_FORMAT, "malformed reply from process %u: %s", p->pid, why);
    memset(out, 0, sizeof *out);
    out->status.iteration = -1;
    memcpy(out->verb, view.verb, sizeof out->verb);
    take_answer_lines(out, view.lines);
    return KINETO_OK;
}

/* ---- listing processes ----------------------------------------------------------------------- */

/* The pid in "4711.sock"; 0: another name. */
static uint32_t pid_of_socket_name(const char *name)
{
    char expected[32];
    unsigned long pid = kb_is_digit(name[0]) ? strtoul(name, NULL, 10) : 0;
    if (pid == 0 || pid > INT32_MAX)
        return 0;
    snprintf(expected, sizeof expected, "%lu.sock", pid);
    return strcmp(name, expected) == 0 ? (uint32_t)pid : 0;
}

/* Does a process listen, even if it is too busy to accept? Removes the file of one that does not.
 */
static bool is_listening(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true; /* unknown: keep it */
    int why = connect_peer(fd, at);
    close(fd);
    if (why == ECONNREFUSED)
        remove_stale(at->sun_path);
    return why != ECONNREFUSED && why != ENOENT;
}

typedef KB_VEC(uint32_t) pid_list;

/* All sockets of the directory on which a process listens. */
static kineto_status collect_listening_pids(DIR *all, const char *directory, pid_list *found,
                                            kineto_error *err)
{
    struct sockaddr_un at;
    for (struct dirent *e; (e = readdir(all));) {
        uint32_t pid = pid_of_socket_name(e->d_name);
        if (pid == 0 || ko_control_address(directory, pid, false, &at, NULL) != KINETO_OK ||
            !is_listening(&at))
            continue;
        if (!kb_vec_push(found, pid))
            return kb_fail_memory(err, "list of processes");
    }
    return KINETO_OK;
}

static int compare_pids(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

uint32_t ko_control_list(uint32_t **pids, kineto_error *err)
{
    char directory[KO_REQUEST_PATH_BYTES];
    pid_list found = {0};
    kineto_error why;
    *pids = NULL;
    kineto_status status = ko_control_directory(false, directory, &why);
    DIR *all = status == KINETO_OK ? opendir(directory) : NULL;
    if (status == KINETO_OK && !all)
        status = kb_fail_os(&why, errno, "cannot list '%s'", directory);
    if (all) {
        status = collect_listening_pids(all, directory, &found, &why);
        closedir(all);
    }
    if (status != KINETO_OK && status != KINETO_E_NOT_FOUND && err)
        *err = why;
    if (found.count > 1)
        qsort(found.data, found.count, sizeof *found.data, compare_pids);
    *pids = found.data;
    return (uint32_t)found.count;
}

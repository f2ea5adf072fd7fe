/* The client that polls Dynolog, every few seconds, for requests for this process.
 *
 * It runs inside arbitrary programs: nothing blocks, a missing daemon costs one failing call now
 * and then, and messages from other senders are read and ignored. Answers are not matched to polls:
 * the daemon forgets a configuration once it has sent it, so a late answer must be used, too. One
 * thread uses a client. */
#include "base/guarded_fd.h"
#include "ondemand/dynolog/dyno.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIN_INTERVAL_NS (10 * KB_MILLISECOND_NS)
#define MAX_INTERVAL_NS                                                                            \
    (45 * KB_SECOND_NS) /* the daemon forgets a process after a minute of silence */
#define MAX_BACK_OFF_NS                                                                            \
    (10 * KB_SECOND_NS) /* Kineto itself may take as long to find a new daemon */
#define FULL_WAIT_NS     (10 * KB_MILLISECOND_NS)
#define FULL_TRIES       3u /* after 10, 20 and 40 ms */
#define LAST_ANSWER_NS   (30 * KB_MILLISECOND_NS)
#define REFUSED_EVERY_NS KB_MINUTE_NS
#define MAX_AT_ONCE      32u /* datagrams; a queue usually holds 11 */
#define MAX_NAMES        4u
#define BUFFER_BYTES     ((size_t)KO_DYNO_HEAD_BYTES + KO_DYNO_MAX_BYTES)
#define MAX_ASKING_BYTES (KO_DYNO_HEAD_BYTES + 16u + 4u * KO_DYNO_MAX_PIDS)

/* The state of the daemon as it was last logged: each change makes one line in the log. */
typedef enum daemon_state {
    TOLD_NOTHING,
    TOLD_ANSWERS,
    TOLD_ABSENT,
    TOLD_SILENT,
    TOLD_FULL,
    TOLD_STRANGE,
    TOLD_NO_SOCKET
} daemon_state;

struct ko_dyno_client {
    ko_dyno_address daemon, own;
    char directory[KO_DYNO_NAME_BYTES + 1]; /* "": abstract sockets */
    kb_guarded_fd socket;
    dev_t file_device; /* of its file */
    ino_t file_inode;
    uint32_t pid; /* of the process that this state is of */
    int64_t job;
    int32_t pids[KO_DYNO_MAX_PIDS];
    uint32_t pid_count;
    uint64_t random;
    uint64_t next_ns;    /* the next try */
    uint32_t full_tries; /* of this poll */
    uint32_t failures;   /* polls in a row */
    bool awaits;         /* a poll was sent and not answered yet */
    bool known;          /* the daemon has answered before */
    daemon_state state;  /* as the log last reported it */
    uint64_t refused, refused_said_ns;
    char *buffer;
};

static kineto_string empty_text(void) { return (kineto_string){"", 0}; }

/* ---- the log --------------------------------------------------------------------------------- */

static void report_daemon_state(ko_dyno_client *c, daemon_state what, kineto_log_level level,
                                const char *detail)
{
    static const char *const texts[] = {
        [TOLD_NOTHING] = "",
        [TOLD_ANSWERS] = "answers",
        [TOLD_ABSENT] = "%s; it is asked again",
        [TOLD_SILENT] = "does not answer: it is asked again",
        [TOLD_FULL] = "takes no more messages: it is asked again",
        [TOLD_STRANGE] = "belongs to %s: it is not asked",
        [TOLD_NO_SOCKET] = "cannot be asked: %s",
    };
    char text[sizeof((kineto_error *)NULL)->message + 64];
    if (c->state == what)
        return;
    c->state = what;
    const char *hole = strstr(texts[what], "%s");
    if (hole)
        snprintf(text, sizeof text, "%.*s%s%s", (int)(hole - texts[what]), texts[what], detail,
                 hole + 2);
    else
        snprintf(text, sizeof text, "%s", texts[what]);
    kb_log(level, "on-demand tracing: Dynolog at %s%s %s", *c->directory ? c->directory : "@",
           *c->directory ? "/" KO_DYNO_DAEMON : KO_DYNO_DAEMON, text);
}

/* Any process may send any number of messages: they must not flood the log. */
static void note_refused(ko_dyno_client *c, uint64_t now_ns, const char *why)
{
    c->refused++;
    if (c->refused > 1 && now_ns - c->refused_said_ns < REFUSED_EVERY_NS)
        return;
    c->refused_said_ns = now_ns;
    kb_log(KINETO_LOG_WARNING, "on-demand tracing: messages ignored so far: %llu; the last one: %s",
           (unsigned long long)c->refused, why);
}

/* ---- the socket ------------------------------------------------------------------------------ */

static uint64_t next_client_random(ko_dyno_client *c)
{
    uint64_t z = (c->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void seed_client_random(ko_dyno_client *c)
{
    if (getrandom(&c->random, sizeof c->random, GRND_NONBLOCK) != (ssize_t)sizeof c->random)
        c->random = kb_monotonic_ns() ^ (uint64_t)c->pid << 32;
}

/* "dynoconfigclient" and a random UUID, as Kineto's. */
static kineto_status choose_client_name(ko_dyno_client *c, kineto_error *err)
{
    char name[KO_DYNO_NAME_BYTES + 1];
    uint64_t high = next_client_random(c), low = next_client_random(c);
    snprintf(name, sizeof name, KO_DYNO_CLIENT "%08x-%04x-4%03x-%04x-%04x%08x",
             (uint32_t)(high >> 32), (uint32_t)(high >> 16 & 0xffff), (uint32_t)(high & 0xfff),
             (uint32_t)(low >> 48 & 0x3fff) | 0x8000, (uint32_t)(low >> 32 & 0xffff),
             (uint32_t)low);
    return ko_dyno_address_of(name, c->directory, &c->own, err);
}

static bool owns_socket_file(const ko_dyno_client *c)
{
    struct stat st;
    return lstat(c->own.address.sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
           st.st_dev == c->file_device && st.st_ino == c->file_inode;
}

static bool identify_socket_file(ko_dyno_client *c)
{
    struct stat st;
    if (!*c->directory)
        return true;
    if (lstat(c->own.address.sun_path, &st) != 0)
        return false;
    c->file_device = st.st_dev;
    c->file_inode = st.st_ino;
    return true;
}

/* Every message carries credentials from now on; a socket file is writable by this user only. */
static bool prepare_datagram_socket(const ko_dyno_client *c, int fd)
{
    int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
           (!*c->directory || fchmod(fd, S_IRUSR | S_IWUSR) == 0);
}

/* Tries other random names if one is in use. */
static kineto_status bind_client_socket(ko_dyno_client *c, int fd, kineto_error *err)
{
    for (uint32_t i = 0; i < MAX_NAMES; i++) {
        kineto_status status = choose_client_name(c, err);
        if (status != KINETO_OK)
            return status;
        if (bind(fd, (const struct sockaddr *)&c->own.address, c->own.size) == 0)
            return KINETO_OK;
        if (errno != EADDRINUSE)
            break;
    }
    return kb_fail_os(err, errno, "cannot open a socket%s%s", *c->directory ? " in " : "",
                      c->directory);
}

static kineto_status open_client_socket(ko_dyno_client *c, kineto_error *err)
{
    seed_client_random(c);
    if (c->pid_count == 0)
        c->pid_count = ko_dyno_ancestors(c->pid, c->pids);
    if (!kb_fd_adopt(&c->socket, socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)))
        return kb_fail_os(err, errno, "cannot open a socket");
    int fd = c->socket.fd;
    kineto_status status = prepare_datagram_socket(c, fd)
                               ? bind_client_socket(c, fd, err)
                               : kb_fail_os(err, errno, "cannot prepare a socket");
    if (status == KINETO_OK && !identify_socket_file(c))
        status = kb_fail_os(err, errno, "cannot find the socket that was just opened");
    if (status != KINETO_OK)
        kb_fd_close(&c->socket);
    return status;
}

/* In a fork's child the file belongs to the parent and stays. */
static void close_client_socket(ko_dyno_client *c, bool remove_file)
{
    if (c->socket.fd < 0)
        return;
    if (remove_file && *c->directory && owns_socket_file(c))
        unlink(c->own.address.sun_path);
    kb_fd_close(&c->socket);
    c->awaits = false;
}

/* False also if the socket's file was removed, so that the daemon cannot reach it. */
static bool can_be_answered(const ko_dyno_client *c)
{
    return kb_fd_still_ours(&c->socket) && (!*c->directory || owns_socket_file(c));
}

/* ---- receiving ------------------------------------------------------------------------------- */

typedef struct received {
    ko_dyno_address from;
    bool has_uid, cut;
    uid_t uid;
    size_t size;
} received;

/* Room for credentials only: file descriptors in a message are not received. */
typedef union control {
    char bytes[CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr aligned;
} control;

/* The sender's uid from SCM_CREDENTIALS, which the kernel fills in. */
static void find_uid(struct msghdr *m, received *r)
{
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        struct ucred sender;
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_CREDENTIALS ||
            h->cmsg_len < CMSG_LEN(sizeof sender))
            continue;
        memcpy(&sender, CMSG_DATA(h), sizeof sender);
        r->uid = sender.uid;
        r->has_uid = true;
    }
}

/* Receives one datagram of any kind. False: the queue is empty. */
static bool receive_datagram(ko_dyno_client *c, received *r)
{
    control room;
    struct iovec part = {c->buffer, BUFFER_BYTES};
    memset(r, 0, sizeof *r);
    memset(&room, 0, sizeof room);
    struct msghdr m = {.msg_name = &r->from.address,
                       .msg_namelen = sizeof r->from.address,
                       .msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = room.bytes,
                       .msg_controllen = sizeof room.bytes};
    ssize_t n = recvmsg(c->socket.fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0)
        return false;
    r->from.size = m.msg_namelen;
    r->cut = (m.msg_flags & MSG_TRUNC) != 0;
    r->size = (size_t)n;
    find_uid(&m, r);
    return true;
}

/* Why the sender is not the daemon; NULL: it is. */
static const char *find_sender_fault(const ko_dyno_client *c, const received *r)
{
    char name[KO_DYNO_NAME_BYTES + 1];
    if (!r->has_uid || (r->uid != 0 && r->uid != geteuid()))
        return "it came from a process of another user";
    if (!ko_dyno_address_name(&r->from, c->directory, name) || strcmp(name, KO_DYNO_DAEMON) != 0)
        return "it came from another socket than the daemon's";
    return r->cut ? "it is too large" : NULL;
}

/* Is the datagram a valid answer? *text: its configuration, possibly empty. */
static bool check_answer(ko_dyno_client *c, const received *r, uint64_t now_ns, kineto_string *text)
{
    ko_dyno_type type = KO_DYNO_REQUEST;
    const char *why = find_sender_fault(c, r);
    if (!why && ko_dyno_decode_answer(c->buffer, r->size, &type, text, &why) &&
        type != KO_DYNO_REQUEST)
        why = "it answers what was not asked";
    if (!why)
        return true;
    *text = empty_text();
    note_refused(c, now_ns, why);
    return false;
}

static void note_answer(ko_dyno_client *c)
{
    KB_ASSERT(c->socket.fd >= 0);
    c->awaits = false;
    c->known = true;
    c->failures = 0;
    report_daemon_state(c, TOLD_ANSWERS, KINETO_LOG_INFO, "");
}

/* Receives answers up to the first with a text, which stays in the buffer. False: the queue is
 * empty. */
static bool receive_answers(ko_dyno_client *c, uint64_t now_ns, kineto_string *text)
{
    received r;
    if (c->socket.fd < 0)
        return false;
    for (uint32_t i = 0; i < MAX_AT_ONCE; i++) {
        if (!receive_datagram(c, &r))
            return false;
        if (!check_answer(c, &r, now_ns, text))
            continue;
        note_answer(c);
        if (text->size > 0)
            return true;
    }
    return true;
}

/* ---- polling --------------------------------------------------------------------------------- */

static uint64_t clamp_interval(uint64_t interval_ns)
{
    return KB_MAX(KB_MIN(interval_ns, MAX_INTERVAL_NS), MIN_INTERVAL_NS);
}

/* Two, then four intervals while there is no answer, up to 10 s. */
static uint64_t back_off(const ko_dyno_client *c, uint64_t interval_ns)
{
    uint32_t doublings = c->failures > 1 ? KB_MIN(c->failures - 1, 2u) : 0;
    return KB_MAX(interval_ns, KB_MIN(interval_ns << doublings, MAX_BACK_OFF_NS));
}

/* A random tenth sooner or later, so that many processes do not poll at once. */
static void plan_poll(ko_dyno_client *c, uint64_t now_ns, uint64_t interval_ns)
{
    KB_ASSERT(interval_ns >= MIN_INTERVAL_NS && interval_ns <= MAX_INTERVAL_NS);
    uint64_t wait = back_off(c, interval_ns);
    c->full_tries = 0;
    c->next_ns = now_ns + wait - wait / 10 + next_client_random(c) % (wait / 5 + 1);
}

/* @return 0 or an errno. */
static int send_request(ko_dyno_client *c, bool busy)
{
    char bytes[MAX_ASKING_BYTES];
    ko_dyno_message m = {.type = KO_DYNO_REQUEST,
                         .job = c->job,
                         .wants = busy ? KO_DYNO_WANTS_NOTHING : KO_DYNO_WANTS_ACTIVITIES,
                         .pid_count = c->pid_count};
    memcpy(m.pids, c->pids, sizeof m.pids);
    size_t n = ko_dyno_encode(&m, bytes, sizeof bytes);
    KB_ASSERT(n > 0 && c->pid_count > 0);
    ssize_t sent = sendto(c->socket.fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL,
                          (const struct sockaddr *)&c->daemon.address, c->daemon.size);
    return sent >= 0 ? 0 : errno;
}

static bool is_queue_full(int why)
{
    return why == EAGAIN || why == EWOULDBLOCK || why == ENOBUFS || why == EINTR;
}

/* Counts it, which lengthens the interval, and logs a change of state. */
static void note_poll_failure(ko_dyno_client *c, daemon_state what, const char *detail)
{
    c->failures += c->failures < UINT32_MAX;
    /* Without a daemon from the start, none is expected: not a warning. */
    report_daemon_state(
        c, what, c->known || what != TOLD_ABSENT ? KINETO_LOG_WARNING : KINETO_LOG_INFO, detail);
}

/* Another user may have taken the daemon's name: then nothing is sent. */
static bool is_foreign_daemon(ko_dyno_client *c)
{
    char text[32];
    uint32_t user;
    if (!ko_dyno_owner_is_foreign(&c->daemon, &user))
        return false;
    snprintf(text, sizeof text, "user %u", user);
    note_poll_failure(c, TOLD_STRANGE, text);
    return true;
}

/* Sends one poll. If the daemon's queue is full, it is retried soon, a few times. */
static void send_poll(ko_dyno_client *c, uint64_t now_ns, bool busy, uint64_t interval_ns)
{
    kineto_error err;
    if (c->awaits && c->full_tries == 0)
        note_poll_failure(c, TOLD_SILENT, "");
    if (is_foreign_daemon(c)) {
        c->awaits = false;
        plan_poll(c, now_ns, interval_ns);
        return;
    }
    int why = send_request(c, busy);
    if (is_queue_full(why) && c->full_tries < FULL_TRIES) {
        c->next_ns = now_ns + (FULL_WAIT_NS << c->full_tries++);
        return;
    }
    if (why == 0) {
        c->awaits = true;
    } else if (is_queue_full(why)) {
        note_poll_failure(c, TOLD_FULL, "");
    } else {
        c->awaits = false; /* polls that it had not read are lost with it */
        kb_fail_os(&err, why, "is not there");
        note_poll_failure(c, TOLD_ABSENT, err.message);
    }
    plan_poll(c, now_ns, interval_ns);
}

/* Opens the socket if need be, then polls. Errors of opening are retried with the next poll. */
static kineto_status poll_daemon(ko_dyno_client *c, uint64_t now_ns, bool busy,
                                 uint64_t interval_ns, kineto_error *err)
{
    kineto_error why;
    if (!can_be_answered(c))
        close_client_socket(c, true);
    kineto_status status = c->socket.fd >= 0 ? KINETO_OK : open_client_socket(c, &why);
    if (status == KINETO_OK) {
        send_poll(c, now_ns, busy, interval_ns);
        return KINETO_OK;
    }
    note_poll_failure(c, TOLD_NO_SOCKET, why.message);
    plan_poll(c, now_ns, interval_ns);
    if (err)
        *err = why;
    return status;
}

/* ---- the client ------------------------------------------------------------------------------ */

/* SLURM_JOB_ID, 0 where there is none, as Kineto has it. */
static int64_t job_id(void)
{
    const char *text = kb_setting("SLURM_JOB_ID");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Makes the longest path that will be needed, so that an unusable directory fails at once. */
static kineto_status check_directory(ko_dyno_client *c, const char *directory, kineto_error *err)
{
    size_t n = directory ? strlen(directory) : 0;
    kineto_status status = ko_dyno_address_of(KO_DYNO_DAEMON, directory, &c->daemon, err);
    if (status == KINETO_OK)
        status = ko_dyno_address_of(KO_DYNO_CLIENT "01234567-89ab-4cde-8f01-23456789abcd",
                                    directory, &c->own, err);
    if (status == KINETO_OK && n > 0)
        memcpy(c->directory, directory, n + 1);
    return status;
}

kineto_status ko_dyno_client_create(const char *directory, ko_dyno_client **out, kineto_error *err)
{
    ko_dyno_client *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c || !(c->buffer = malloc(BUFFER_BYTES))) {
        free(c);
        return kb_fail_memory(err, "Dynolog client");
    }
    c->socket = (kb_guarded_fd)KB_GUARDED_FD_NONE;
    c->pid = kb_os_pid();
    c->job = job_id();
    kineto_status status = check_directory(c, directory, err);
    if (status != KINETO_OK) {
        ko_dyno_client_destroy(c);
        return status;
    }
    *out = c;
    return KINETO_OK;
}

int ko_dyno_client_fd(const ko_dyno_client *c) { return c->socket.fd; }

kineto_status ko_dyno_client_run(ko_dyno_client *c, uint64_t now_ns, bool busy,
                                 uint64_t poll_interval_ns, kineto_string *text, uint64_t *wake_ns,
                                 kineto_error *err)
{
    kineto_status status = KINETO_OK;
    uint64_t interval_ns = clamp_interval(poll_interval_ns);
    *text = empty_text();
    if (c->pid != kb_os_pid())
        ko_dyno_client_forked(c);
    if (c->socket.fd >= 0 && !kb_fd_still_ours(&c->socket)) {
        close_client_socket(c, true);
        c->next_ns = now_ns;
    }
    bool more = receive_answers(c, now_ns, text);
    /* An interval that became shorter, or a daemon that answered late, ends a long wait. */
    c->next_ns = KB_MIN(c->next_ns, now_ns + back_off(c, interval_ns) / 10 * 11);
    if (text->size == 0 && now_ns >= c->next_ns)
        status = poll_daemon(c, now_ns, busy, interval_ns, err);
    *wake_ns = more ? now_ns : c->next_ns;
    return status;
}

void ko_dyno_client_for(ko_dyno_client *c, uint32_t pid)
{
    c->pid_count = ko_dyno_ancestors(pid, c->pids);
}

void ko_dyno_client_forked(ko_dyno_client *c)
{
    close_client_socket(c, false);
    c->pid = kb_os_pid();
    c->pid_count = 0;
    c->next_ns = 0;
    c->full_tries = 0;
    c->failures = 0;
    c->awaits = false;
    c->known = false;
    c->state = TOLD_NOTHING;
}

/* Waits briefly for an answer under way: Dynolog would retry for 10 s to send it to a closed
 * socket. */
static void wait_for_answer(ko_dyno_client *c)
{
    uint64_t begin = kb_monotonic_ns(), now = begin;
    while (c->awaits && now - begin < LAST_ANSWER_NS) {
        struct pollfd ready = {c->socket.fd, POLLIN, 0};
        kineto_string text = empty_text();
        if (poll(&ready, 1, (int)((LAST_ANSWER_NS - (now - begin)) / KB_MILLISECOND_NS) + 1) > 0)
            (void)receive_answers(c, c->refused_said_ns, &text);
        if (text.size > 0)
            kb_log(KINETO_LOG_WARNING,
                   "on-demand tracing: a request came as tracing ended: dropped");
        now = kb_monotonic_ns();
    }
}

void ko_dyno_client_destroy(ko_dyno_client *c)
{
    if (!c)
        return;
    bool is_own = c->pid == kb_os_pid();
    if (is_own && c->failures == 0 && can_be_answered(c))
        wait_for_answer(c);
    close_client_socket(c, is_own);
    free(c->buffer);
    free(c);
}

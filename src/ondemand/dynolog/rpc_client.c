/* The transport of calls to a daemon over TCP: its address, its token, and one frame each way
 * within a timeout. The reply is untrusted: its length is bounded, and memory grows with the bytes
 * received. */
#include "ondemand/dynolog/rpc_client.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_ANSWER_BYTES ((size_t)16 << 20) /* a list of 8192 processes has about 6 MiB */
#define MIN_TOKEN        16u

/* ---- the address ----------------------------------------------------------------------------- */

static kineto_status fail_address(const char *text, kineto_error *err)
{
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "invalid daemon address '%.200s'; use HOST, HOST:PORT or [IPV6]:PORT", text);
}

/* False: not a decimal number up to 65535. */
static bool read_port(const char *text, uint16_t *port)
{
    char *end = NULL;
    unsigned long n = strtoul(text, &end, 10);
    *port = (uint16_t)n;
    return kb_is_digit(*text) && !*end && n <= UINT16_MAX;
}

kineto_status ko_rpc_parse_address(const char *text, ko_rpc_daemon *out, kineto_error *err)
{
    const char *host = text, *colon = strrchr(text, ':'), *end = colon;
    uint16_t port = out->port ? out->port : KO_RPC_PORT;
    if (*text == '[') {
        host = text + 1;
        end = strchr(host, ']');
        if (!end || (end[1] && end + 1 != colon))
            return fail_address(text, err);
        colon = end[1] ? colon : NULL;
    } else if (!colon || strchr(text, ':') != colon) { /* none, or an IPv6 address alone */
        end = text + strlen(text);
        colon = NULL;
    }
    size_t n = (size_t)(end - host);
    if (n >= sizeof out->host || !*text || (colon && !read_port(colon + 1, &port)))
        return fail_address(text, err);
    memcpy(out->host, host, n);
    out->host[n] = '\0';
    out->port = port;
    return KINETO_OK;
}

static const char *daemon_host(const ko_rpc_daemon *d) { return *d->host ? d->host : "127.0.0.1"; }
static uint16_t daemon_port(const ko_rpc_daemon *d) { return d->port ? d->port : KO_RPC_PORT; }

/* ---- the token ------------------------------------------------------------------------------- */

static kineto_status check_token_owner(const char *path, int fd, kineto_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot examine '%s'", path);
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s': not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s' belongs to user %u; a file with a token must belong to this user",
                       path, (unsigned)st.st_uid);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return kb_fail(
            err, KINETO_E_PERMISSION,
            "'%s' is accessible to other users (mode %03o); chmod 600 it, and change the token",
            path, (unsigned)st.st_mode & 0777u);
    return KINETO_OK;
}

/* Visible ASCII characters only, within the limits of length. */
static kineto_status check_token_text(const char *path, const char *token, kineto_error *err)
{
    size_t n = 0;
    while (isgraph((unsigned char)token[n]) && (unsigned char)token[n] < 0x80)
        n++;
    if (token[n] || n < MIN_TOKEN || n >= KO_RPC_TOKEN_BYTES)
        return kb_fail(
            err, KINETO_E_FORMAT,
            "'%s' has no token in its first line; it has %u to %u visible ASCII characters, "
            "such as 'openssl rand -hex 32' prints",
            path, MIN_TOKEN, KO_RPC_TOKEN_BYTES - 1);
    return KINETO_OK;
}

kineto_status ko_rpc_read_token(const char *path, char token[KO_RPC_TOKEN_BYTES], kineto_error *err)
{
    char text[KO_RPC_TOKEN_BYTES + 1] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot read the token in '%s'", path);
    kineto_status status = check_token_owner(path, fd, err);
    ssize_t n = status == KINETO_OK ? read(fd, text, sizeof text - 1) : 0;
    if (n < 0)
        status = kb_fail_os(err, errno, "cannot read the token in '%s'", path);
    close(fd);
    if (status != KINETO_OK)
        return status;
    text[strcspn(text, "\r\n")] = '\0';
    status = check_token_text(path, text, err);
    if (status == KINETO_OK)
        memcpy(token, text, strlen(text) + 1);
    return status;
}

/* ---- the connection -------------------------------------------------------------------------- */

typedef struct exchange {
    const ko_rpc_daemon *daemon;
    uint64_t end_ns; /* CLOCK_MONOTONIC */
    int fd;
} exchange;

static kineto_status fail_timeout(const exchange *x, kineto_error *err)
{
    const ko_rpc_daemon *d = x->daemon;
    return kb_fail(err, KINETO_E_BUSY, "%s, port %u: no answer within %u ms", daemon_host(d),
                   daemon_port(d), d->limit_ms ? d->limit_ms : KO_RPC_LIMIT_MS);
}

static kineto_status fail_connection(const exchange *x, int why, kineto_error *err)
{
    return kb_fail_os(err, why, "%s, port %u", daemon_host(x->daemon), daemon_port(x->daemon));
}

/* Waits for poll events until the deadline of the call. */
static kineto_status wait_for_events(const exchange *x, short events, kineto_error *err)
{
    for (;;) {
        uint64_t now_ns = kb_monotonic_ns();
        if (now_ns >= x->end_ns)
            return fail_timeout(x, err);
        struct pollfd p = {.fd = x->fd, .events = events};
        int n = poll(&p, 1, (int)((x->end_ns - now_ns) / 1000000) + 1);
        if (n > 0)
            return KINETO_OK;
        if (n < 0 && errno != EINTR)
            return fail_connection(x, errno, err);
    }
}

static bool is_retryable(int why) { return why == EAGAIN || why == EWOULDBLOCK || why == EINTR; }

/* Non-blocking connect within the deadline. On failure x->fd may be open; the caller closes it. */
static kineto_status connect_address(exchange *x, const struct addrinfo *at, kineto_error *err)
{
    int why = 0, on = 1;
    socklen_t size = sizeof why;
    x->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (x->fd < 0)
        return fail_connection(x, errno, err);
    (void)setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(x->fd, at->ai_addr, at->ai_addrlen) != 0) {
        if (errno != EINPROGRESS && errno != EINTR)
            return fail_connection(x, errno, err);
        kineto_status status = wait_for_events(x, POLLOUT, err);
        if (status != KINETO_OK)
            return status;
        if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &why, &size) != 0)
            why = errno;
    }
    return why ? fail_connection(x, why, err) : KINETO_OK;
}

static kineto_status fail_not_listening(const exchange *x, kineto_error *err)
{
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "no daemon listens at %s, port %u; start 'ckineto daemon' or dynologd there",
                   daemon_host(x->daemon), daemon_port(x->daemon));
}

/* A name may have several addresses, of which a daemon serves one. */
static kineto_status connect_daemon(exchange *x, const struct addrinfo *all, kineto_error *err)
{
    kineto_error why = {0};
    kineto_status status = KINETO_E_NOT_FOUND;
    for (const struct addrinfo *at = all; at; at = at->ai_next) {
        status = connect_address(x, at, &why);
        if (status == KINETO_OK || status == KINETO_E_BUSY)
            break;
        if (x->fd >= 0)
            close(x->fd);
        x->fd = -1;
    }
    if (status == KINETO_OK)
        return KINETO_OK;
    if (why.os_error == ECONNREFUSED)
        return fail_not_listening(x, err);
    return kb_fail(err, status, "%s", why.message);
}

/* The deadline starts after the name was resolved: getaddrinfo has its own timeouts. */
static kineto_status open_connection(exchange *x, kineto_error *err)
{
    const ko_rpc_daemon *d = x->daemon;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *all = NULL;
    char service[8];
    snprintf(service, sizeof service, "%u", daemon_port(d));
    int why = getaddrinfo(daemon_host(d), service, &hints, &all);
    if (why)
        return kb_fail(err, KINETO_E_NOT_FOUND, "cannot resolve host '%s': %s", daemon_host(d),
                       gai_strerror(why));
    uint32_t limit_ms = d->limit_ms ? d->limit_ms : KO_RPC_LIMIT_MS;
    x->end_ns = kb_monotonic_ns() + limit_ms * UINT64_C(1000000);
    kineto_status status = connect_daemon(x, all, err);
    freeaddrinfo(all);
    return status;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static kineto_status send_all(const exchange *x, kineto_string bytes, kineto_error *err)
{
    while (bytes.size) {
        ssize_t n = send(x->fd, bytes.data, bytes.size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && !is_retryable(errno))
            return fail_connection(x, errno, err);
        if (n > 0)
            bytes = (kineto_string){bytes.data + n, bytes.size - (size_t)n};
        kineto_status status = bytes.size ? wait_for_events(x, POLLOUT, err) : KINETO_OK;
        if (status != KINETO_OK)
            return status;
    }
    return KINETO_OK;
}

static kineto_status fail_closed(const exchange *x, size_t have, kineto_error *err)
{
    return kb_fail(err, have ? KINETO_E_FORMAT : KINETO_E_UNSUPPORTED,
                   have
                       ? "%s, port %u closed the connection in the middle of its reply"
                       : "%s, port %u closed the connection without a reply: it does not know this "
                         "function",
                   daemon_host(x->daemon), daemon_port(x->daemon));
}

/* Exactly `size` bytes; `before`: bytes of the reply that were received earlier, for the
 * message. */
static kineto_status receive_all(const exchange *x, char *to, size_t size, size_t before,
                                 kineto_error *err)
{
    size_t have = 0;
    KB_ASSERT(x->fd >= 0 && x->end_ns);
    while (have < size) {
        ssize_t n = recv(x->fd, to + have, size - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return fail_closed(x, before + have, err);
        if (n < 0 && !is_retryable(errno))
            return fail_connection(x, errno, err);
        if (n > 0)
            have += (size_t)n;
        kineto_status status = have < size ? wait_for_events(x, POLLIN, err) : KINETO_OK;
        if (status != KINETO_OK)
            return status;
    }
    return KINETO_OK;
}

/* Head and text are sent together: Dynolog expects them in one piece. */
static kineto_status send_frame(const exchange *x, kineto_string text, kineto_error *err)
{
    int32_t size = (int32_t)text.size;
    char *frame = malloc(sizeof size + text.size);
    if (!frame)
        return kb_fail_memory(err, "ask a daemon");
    memcpy(frame, &size, sizeof size);
    memcpy(frame + sizeof size, text.data, text.size);
    kineto_status status = send_all(x, (kineto_string){frame, sizeof size + text.size}, err);
    free(frame);
    return status;
}

/* The buffer doubles as data arrives, up to `size`. */
static kineto_status receive_text(const exchange *x, size_t size, char **out, kineto_error *err)
{
    enum { FIRST_BYTES = 4096 };
    char *text = NULL;
    kineto_status status = KINETO_OK;
    for (size_t have = 0, room = 0; status == KINETO_OK && have < size; have = room) {
        room = KB_MIN(KB_MAX(2 * have, (size_t)FIRST_BYTES), size);
        char *grown = realloc(text, room + 1);
        text = grown ? grown : text;
        status = grown ? receive_all(x, text + have, room - have, 1, err)
                       : kb_fail_memory(err, "daemon's answer");
    }
    if (status != KINETO_OK) {
        free(text);
        return status;
    }
    text[size] = '\0';
    *out = text;
    return KINETO_OK;
}

/* Checks the announced size before anything is allocated. */
static kineto_status receive_frame(const exchange *x, char **out, size_t *bytes, kineto_error *err)
{
    int32_t size = 0;
    kineto_status status = receive_all(x, (char *)&size, sizeof size, 0, err);
    if (status != KINETO_OK)
        return status;
    if (size <= 0 || (size_t)size > MAX_ANSWER_BYTES)
        return kb_fail(err, KINETO_E_FORMAT, "%s, port %u: malformed reply: a length of %d bytes",
                       daemon_host(x->daemon), daemon_port(x->daemon), size);
    *bytes = (size_t)size;
    return receive_text(x, *bytes, out, err);
}

kineto_status ko_rpc_exchange(const ko_rpc_daemon *d, kineto_string question, char **answer,
                              size_t *bytes, kineto_error *err)
{
    exchange x = {.daemon = d, .fd = -1};
    *answer = NULL;
    *bytes = 0;
    if (question.size > KO_RPC_MAX_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "a request to a daemon has at most %u bytes, not %zu",
                       KO_RPC_MAX_BYTES, question.size);
    kineto_status status = open_connection(&x, err);
    if (status == KINETO_OK)
        status = send_frame(&x, question, err);
    if (status == KINETO_OK)
        status = receive_frame(&x, answer, bytes, err);
    if (x.fd >= 0)
        close(x.fd);
    return status;
}

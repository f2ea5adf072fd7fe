/* A web server for one user: GET and HEAD of a few files, for browsers on this machine only.
 *
 * Clients that know the random token in the path may read. A request must have this machine in
 * Host, so that another web page cannot reach the server under its own name (DNS rebinding). One
 * thread polls all connections. */
#include "cli/report/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CONNECTIONS 32u
#define REQUEST_BYTES   8192u
#define IDLE_TIMEOUT_NS (UINT64_C(20) * 1000000000)

/* Phases follow each other in this order. A connection is read, answered, and then drained until
 * the peer has closed: closing it with unread bytes would reset it, and the answer could
 * be lost. */
typedef enum phase { PHASE_READING, PHASE_ANSWERING, PHASE_ENDING } phase;

/* One connection, with its request and the head of its answer; the body is sent from `file` by
 * the kernel. */
typedef struct connection {
    int socket, file; /* -1: none */
    phase phase;
    /* when the phase began, or a part of the answer was sent */
    uint64_t last_ns;
    off_t at, end; /* of the file */
    size_t got, head_at, head_size;
    /* the request was HEAD */
    bool is_head;
    char request[REQUEST_BYTES + 1];
    char head[1024];
} connection;

/* ---- answers --------------------------------------------------------------------------------- */

/* Format the head; the body is the file of the connection, if any. @param more further header
 * lines. */
static void begin_answer(connection *c, const char *status, const char *type, off_t size,
                         const char *more)
{
    KB_ASSERT(c->phase == PHASE_READING);
    int n = snprintf(c->head, sizeof c->head,
                     "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %lld\r\n"
                     "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                     "Referrer-Policy: no-referrer\r\nConnection: close\r\n%s\r\n",
                     status, type, (long long)size, more);
    c->head_size = KB_MIN((size_t)n, sizeof c->head - 1);
    c->head_at = 0;
    c->phase = PHASE_ANSWERING;
}

static void answer_error(connection *c, const char *status)
{
    begin_answer(c, status, "text/plain", 0, "");
}

/* The value of a header; empty if it is missing, or occurs more than once. */
static kineto_string find_header(const char *request, const char *name)
{
    size_t size = strlen(name), count = 0;
    kineto_string value = {"", 0};
    for (const char *line = strstr(request, "\r\n"); line && strncmp(line + 2, "\r\n", 2) != 0;
         line = strstr(line + 2, "\r\n")) {
        const char *at = line + 2;
        if (strncasecmp(at, name, size) != 0 || at[size] != ':')
            continue;
        at += size + 1;
        at += strspn(at, " \t");
        value = (kineto_string){at, strcspn(at, "\r\n")};
        while (value.size && strchr(" \t", value.data[value.size - 1]))
            value.size--;
        count++;
    }
    return count == 1 ? value : (kineto_string){"", 0};
}

/* "METHOD PATH HTTP/1.x"; the path ends before a query. False: malformed. */
static bool parse_request_line(const char *request, kineto_string *method, kineto_string *path)
{
    size_t size = strcspn(request, "\r\n"), at = strcspn(request, " \r\n");
    *method = (kineto_string){request, at};
    if (!at || request[at] != ' ')
        return false;
    const char *target = request + at + 1;
    size_t length = strcspn(target, " \r\n");
    *path = (kineto_string){target, strcspn(target, "?# \r\n")};
    const char *version = target + length;
    return target[0] == '/' && request + size - version == 9 &&
           strncmp(version, " HTTP/1.", 8) == 0 && (version[8] == '0' || version[8] == '1');
}

/* The names by which a browser on this machine reaches the server, with its port. */
static bool is_host_ours(const kc_server *server, kineto_string host)
{
    char want[2][32];
    snprintf(want[0], sizeof want[0], "127.0.0.1:%u", server->port);
    snprintf(want[1], sizeof want[1], "localhost:%u", server->port);
    return kb_string_equal(host, kb_string(want[0])) || kb_string_equal(host, kb_string(want[1]));
}

/* By the whole path, which includes the token; NULL: none. */
static const kc_document *find_document(const kc_server *server, kineto_string path)
{
    for (size_t i = 0; i < server->count; i++)
        if (kb_string_equal(path, kb_string(server->documents[i].path)))
            return &server->documents[i];
    return NULL;
}

/* Headers that let pages of the origin of the document read it, also public ones (which browsers
 * query first). */
static const char *format_cors_headers(const kc_document *d, char *out, size_t size)
{
    out[0] = '\0';
    if (d->origin)
        snprintf(out, size,
                 "Access-Control-Allow-Origin: %s\r\nAccess-Control-Allow-Private-Network: true\r\n"
                 "Access-Control-Allow-Methods: GET, HEAD\r\nVary: Origin\r\n",
                 d->origin);
    return out;
}

/* 404 if the file does not exist any more. */
static void send_document(connection *c, const kc_document *d)
{
    struct stat st;
    char more[400];
    c->file = open(d->file, O_RDONLY | O_CLOEXEC);
    if (c->file < 0 || fstat(c->file, &st) || !S_ISREG(st.st_mode)) {
        answer_error(c, "404 Not Found");
        return;
    }
    c->end = c->is_head ? 0 : st.st_size;
    begin_answer(c, "200 OK", d->type, st.st_size, format_cors_headers(d, more, sizeof more));
}

/* Checks in this order: syntax, method, Host, path. */
static void answer_http_request(const kc_server *server, connection *c)
{
    kineto_string method, path;
    if (!parse_request_line(c->request, &method, &path)) {
        answer_error(c, "400 Bad Request");
        return;
    }
    bool is_get = kb_string_equal(method, kb_string("GET"));
    bool is_options = kb_string_equal(method, kb_string("OPTIONS"));
    c->is_head = kb_string_equal(method, kb_string("HEAD"));
    const kc_document *d = find_document(server, path);
    char more[400];
    if (!is_get && !c->is_head && !is_options)
        begin_answer(c, "405 Method Not Allowed", "text/plain", 0, "Allow: GET, HEAD, OPTIONS\r\n");
    else if (!is_host_ours(server, find_header(c->request, "Host")))
        answer_error(c, "403 Forbidden");
    else if (!d)
        answer_error(c, "404 Not Found");
    else if (is_options)
        begin_answer(c, "200 OK", d->type, 0, format_cors_headers(d, more, sizeof more));
    else
        send_document(c, d);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* Also closes the file. Safe to repeat. */
static void close_connection(connection *c)
{
    if (c->socket >= 0)
        close(c->socket);
    if (c->file >= 0)
        close(c->file);
    c->socket = c->file = -1;
}

/* This and the following functions return false if the connection is to be closed. */
static bool read_request(const kc_server *server, connection *c)
{
    ssize_t n = recv(c->socket, c->request + c->got, REQUEST_BYTES - c->got, 0);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    c->got += (size_t)n;
    c->request[c->got] = '\0';
    if (strstr(c->request, "\r\n\r\n"))
        answer_http_request(server, c);
    else if (c->got == REQUEST_BYTES || strlen(c->request) < c->got)
        answer_error(c, "431 Request Header Fields Too Large");
    return true;
}

/* The head, then parts of the file. False: the connection is broken. */
static bool send_part(connection *c)
{
    KB_ASSERT(c->phase == PHASE_ANSWERING && c->head_at <= c->head_size);
    ssize_t n;
    if (c->head_at < c->head_size) {
        n = send(c->socket, c->head + c->head_at, c->head_size - c->head_at, MSG_NOSIGNAL);
        c->head_at += n > 0 ? (size_t)n : 0;
    } else {
        n = sendfile(c->socket, c->file, &c->at, (size_t)KB_MIN(c->end - c->at, 1 << 20));
        if (n == 0) /* the file has become shorter: the peer sees that the answer is incomplete */
            return false;
    }
    return n >= 0 || errno == EAGAIN || errno == EINTR;
}

/* After the last byte the connection is drained. */
static bool continue_answer(connection *c)
{
    if (!send_part(c))
        return false;
    if (c->head_at == c->head_size && (c->file < 0 || c->at >= c->end)) {
        shutdown(c->socket, SHUT_WR);
        c->phase = PHASE_ENDING;
    }
    return true;
}

static bool discard_input(connection *c)
{
    ssize_t n = recv(c->socket, c->request, REQUEST_BYTES, 0);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Requests, and the end of a connection, must come within IDLE_TIMEOUT_NS; an answer may take
 * longer as long as it makes progress. */
static void serve_connection(const kc_server *server, connection *c, short events, uint64_t now)
{
    phase before = c->phase;
    bool is_open = !(events & (POLLERR | POLLNVAL));
    if (is_open && events && before == PHASE_READING)
        is_open = read_request(server, c);
    else if (is_open && events && before == PHASE_ANSWERING)
        is_open = events & POLLOUT && continue_answer(c);
    else if (is_open && events)
        is_open = discard_input(c);
    if (c->phase != before || (events && before == PHASE_ANSWERING))
        c->last_ns = now;
    if (!is_open || now - c->last_ns > IDLE_TIMEOUT_NS)
        close_connection(c);
}

/* A free entry; else the one that has been silent longest, which is closed: browsers open
 * connections in advance. NULL: all are being answered. */
static connection *find_free_connection(connection *all)
{
    connection *stalest = NULL;
    for (size_t i = 0; i < MAX_CONNECTIONS; i++) {
        if (all[i].socket < 0)
            return &all[i];
        if (all[i].phase != PHASE_ANSWERING && (!stalest || all[i].last_ns < stalest->last_ns))
            stalest = &all[i];
    }
    if (stalest)
        close_connection(stalest);
    return stalest;
}

/* A new connection is refused if all entries are being answered. */
static void accept_connection(const kc_server *server, connection *all, uint64_t now)
{
    connection *c = find_free_connection(all);
    int socket = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0)
        return;
    if (!c) {
        close(socket);
        return;
    }
    memset(c, 0, sizeof *c);
    c->socket = socket;
    c->file = -1;
    c->last_ns = now;
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Until `stop` is readable. */
static void serve_until(const kc_server *server, connection *all, int stop)
{
    struct pollfd polled[MAX_CONNECTIONS + 2];
    for (;;) {
        polled[0] = (struct pollfd){.fd = stop, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = server->listener, .events = POLLIN};
        for (size_t i = 0; i < MAX_CONNECTIONS; i++)
            polled[i + 2] = (struct pollfd){
                .fd = all[i].socket, .events = all[i].phase == PHASE_ANSWERING ? POLLOUT : POLLIN};
        if (poll(polled, KB_COUNT(polled), 5000) < 0 && errno != EINTR)
            return;
        if (polled[0].revents)
            return;
        uint64_t now = kb_monotonic_ns();
        for (size_t i = 0; i < MAX_CONNECTIONS; i++)
            if (all[i].socket >= 0)
                serve_connection(server, &all[i], polled[i + 2].revents, now);
        if (polled[1].revents)
            accept_connection(server, all, now);
    }
}

/* Signals are read from a descriptor that the loop polls. */
kineto_status kc_server_run(kc_server *server, kineto_error *err)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    int stop = signalfd(-1, &signals, SFD_CLOEXEC);
    connection *all = calloc(MAX_CONNECTIONS, sizeof *all);
    if (stop < 0 || !all) {
        free(all);
        if (stop >= 0)
            close(stop);
        return kb_fail_memory(err, "server");
    }
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        all[i].socket = all[i].file = -1;
    serve_until(server, all, stop);
    for (size_t i = 0; i < MAX_CONNECTIONS; i++)
        close_connection(&all[i]);
    free(all);
    close(stop);
    return KINETO_OK;
}

/* Only on the loopback address. SO_REUSEADDR allows a restart while old connections time out. */
kineto_status kc_server_open(kc_server *server, uint16_t port, kineto_error *err)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int yes = 1;
    signal(SIGPIPE, SIG_IGN); /* sendfile to a closed connection */
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (server->listener < 0)
        return kb_fail_os(err, errno, "cannot make a socket");
    setsockopt(server->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(server->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(server->listener, 16) ||
        getsockname(server->listener, (struct sockaddr *)&address, &size)) {
        int why = errno;
        close(server->listener);
        server->listener = -1;
        if (why == EADDRINUSE)
            return kb_fail(err, KINETO_E_BUSY, "port %u of 127.0.0.1 is in use by another program",
                           port);
        return kb_fail_os(err, why, "cannot listen on 127.0.0.1:%u", port);
    }
    server->port = ntohs(address.sin_port);
    return KINETO_OK;
}

void kc_server_close(kc_server *server)
{
    if (server->listener >= 0)
        close(server->listener);
    server->listener = -1;
}

/* 128 random bits: the token is the only protection against other users of this machine. */
kineto_status kc_server_make_token(char token[33], kineto_error *err)
{
    uint8_t random[16];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return kb_fail_os(err, errno, "no random numbers are available");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return KINETO_OK;
}

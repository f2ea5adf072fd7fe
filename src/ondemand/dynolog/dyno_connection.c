/* Connections of the daemon's RPC. A request frame arrives in pieces of any size; its answer is
 * sent as fast as the peer reads. Nothing blocks. The peer is untrusted: memory grows with the
 * bytes received, not with the announced length, and every connection has a time limit. */
#include "ondemand/dynolog/dyno_connection.h"

#include <errno.h>
#include <unistd.h>

#define LIFETIME_NS     UINT64_C(5000000000) /* of one connection */
#define MIN_LIFETIME_NS UINT64_C(20000000)   /* before it may be evicted for another one */

/* Result of one attempt: wait for the socket, go on with the next step, or close. */
typedef enum progress { MORE = 0, DONE = 1, OVER = 2 } progress;

static progress progress_after_error(ssize_t n)
{
    bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return later ? MORE : OVER;
}

/* Fills the buffer up to `room` bytes. DONE: it is full. */
static progress receive_bytes(int fd, char *to, size_t room, size_t *have)
{
    KB_ASSERT(*have <= room);
    while (*have < room) {
        ssize_t n = recv(fd, to + *have, room - *have, MSG_DONTWAIT);
        if (n <= 0)
            return progress_after_error(n);
        *have += (size_t)n;
    }
    return DONE;
}

/* The announced size must be within KO_DYNO_MAX_BYTES. */
static progress read_frame_head(ko_dyno_connection *c)
{
    int32_t size;
    progress p = receive_bytes(c->fd, c->head, sizeof c->head, &c->head_bytes);
    if (p != DONE || c->body_size)
        return p;
    memcpy(&size, c->head, sizeof size);
    if (size <= 0 || (uint32_t)size > KO_DYNO_MAX_BYTES)
        return OVER;
    c->body_size = (size_t)size;
    return DONE;
}

/* The buffer doubles as data arrives, up to the announced size. */
static progress read_frame_body(ko_dyno_connection *c)
{
    enum { FIRST_BYTES = 4096 };
    progress p;
    do {
        if (c->body_bytes == c->body_room) {
            size_t room = KB_MIN(KB_MAX(2 * c->body_room, (size_t)FIRST_BYTES), c->body_size);
            char *grown = realloc(c->body, room);
            if (!grown)
                return OVER;
            c->body = grown;
            c->body_room = room;
        }
        p = receive_bytes(c->fd, c->body, c->body_room, &c->body_bytes);
    } while (p == DONE && c->body_bytes < c->body_size);
    return p;
}

/* OVER if the request is not answered, as for unknown functions, or if memory is short. */
static progress make_frame_answer(ko_dyno_connection *c, ko_dyno_registry *r, uint64_t now_ns,
                                  kineto_error *refused)
{
    char *text = NULL;
    size_t bytes = 0;
    KB_ASSERT(c->body_bytes == c->body_size && !c->answer);
    (void)ko_dyno_rpc(r, &c->caller, (kineto_string){c->body, c->body_size}, now_ns, &text, &bytes,
                      refused);
    int32_t size = (int32_t)bytes;
    c->answer = text ? malloc(sizeof size + bytes) : NULL;
    if (c->answer) {
        memcpy(c->answer, &size, sizeof size);
        memcpy(c->answer + sizeof size, text, bytes);
        c->answer_bytes = sizeof size + bytes;
    }
    free(text);
    return c->answer ? DONE : OVER;
}

static progress write_frame_answer(ko_dyno_connection *c)
{
    KB_ASSERT(c->answer && c->sent <= c->answer_bytes);
    while (c->sent < c->answer_bytes) {
        ssize_t n = send(c->fd, c->answer + c->sent, c->answer_bytes - c->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            return progress_after_error(n);
        c->sent += (size_t)n;
    }
    /* Closing with unread input sends a reset, which could discard the answer. */
    char rest[4096];
    (void)recv(c->fd, rest, sizeof rest, MSG_DONTWAIT);
    return OVER;
}

bool ko_dyno_connection_serve(ko_dyno_connection *c, ko_dyno_registry *r, uint64_t now_ns,
                              kineto_error *refused)
{
    progress p = DONE;
    if (!c->answer) {
        p = read_frame_head(c);
        if (p == DONE)
            p = read_frame_body(c);
        if (p == DONE)
            p = make_frame_answer(c, r, now_ns, refused);
    }
    return (p == DONE ? write_frame_answer(c) : p) != OVER;
}

void ko_dyno_connection_close(ko_dyno_connection *c)
{
    close(c->fd);
    free(c->body);
    free(c->answer);
}

/* ---- the table ------------------------------------------------------------------------------- */

uint32_t ko_dyno_connections_add(ko_dyno_connections *t, int fd, const ko_dyno_caller *caller,
                                 uint64_t now_ns)
{
    if (t->count == KO_DYNO_MAX_CONNECTIONS)
        ko_dyno_connections_drop(t, 0);
    KB_ASSERT(t->count < KO_DYNO_MAX_CONNECTIONS);
    KB_ASSERT(!t->count || t->items[t->count - 1].since_ns <= now_ns);
    t->items[t->count] = (ko_dyno_connection){.fd = fd, .since_ns = now_ns, .caller = *caller};
    return t->count++;
}

void ko_dyno_connections_drop(ko_dyno_connections *t, uint32_t i)
{
    KB_ASSERT(i < t->count);
    ko_dyno_connection *c = &t->items[i];
    ko_dyno_connection_close(c);
    t->count--;
    memmove(c, c + 1, (t->count - i) * sizeof *c);
}

void ko_dyno_connections_expire(ko_dyno_connections *t, uint64_t now_ns)
{
    for (uint32_t i = t->count; i-- > 0;)
        if (now_ns > t->items[i].since_ns + LIFETIME_NS)
            ko_dyno_connections_drop(t, i);
}

void ko_dyno_connections_close(ko_dyno_connections *t)
{
    while (t->count)
        ko_dyno_connections_drop(t, t->count - 1);
}

bool ko_dyno_connections_free_fd(ko_dyno_connections *t, uint64_t now_ns)
{
    if (t->count && now_ns >= t->items[0].since_ns + MIN_LIFETIME_NS) {
        ko_dyno_connections_drop(t, 0);
        return true;
    }
    t->paused_until_ns = now_ns + MIN_LIFETIME_NS;
    return false;
}

uint64_t ko_dyno_connections_room_ns(const ko_dyno_connections *t)
{
    uint64_t room = 0;
    if (t->count == KO_DYNO_MAX_CONNECTIONS)
        room = t->items[0].since_ns + MIN_LIFETIME_NS;
    return KB_MAX(room, t->paused_until_ns);
}

uint64_t ko_dyno_connections_due_ns(const ko_dyno_connections *t, uint64_t now_ns)
{
    uint64_t room = ko_dyno_connections_room_ns(t), due = room > now_ns ? room : UINT64_MAX;
    return t->count ? KB_MIN(due, t->items[0].since_ns + LIFETIME_NS) : due;
}

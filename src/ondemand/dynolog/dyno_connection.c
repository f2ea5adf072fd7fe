/* One connection of the RPC: a frame comes in, in pieces of any size, and its answer goes out as
 * fast as the other side takes it. Nothing here waits. */
#include "ondemand/dynolog/dyno_connection.h"

#include <errno.h>
#include <unistd.h>

typedef enum progress { MORE = 0, DONE = 1, OVER = 2 } progress;

static progress progress_after_error(ssize_t n)
{
    bool later = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    return later ? MORE : OVER;
}

static progress receive_bytes(int fd, char *to, size_t room, size_t *have)
{
    while (*have < room) {
        ssize_t n = recv(fd, to + *have, room - *have, MSG_DONTWAIT);
        if (n <= 0)
            return progress_after_error(n);
        *have += (size_t)n;
    }
    return DONE;
}

static progress read_frame_head(ko_dyno_connection *c)
{
    int32_t size;
    progress p = receive_bytes(c->fd, c->head, sizeof c->head, &c->head_bytes);
    if (p != DONE || c->body_size)
        return p;
    memcpy(&size, c->head, sizeof size);
    if (size <= 0 || (uint32_t)size > KO_DYNO_MOST_BYTES)
        return OVER;
    c->body_size = (size_t)size;
    return DONE;
}

/* Memory follows what has come, not what was announced. */
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

static progress make_frame_answer(ko_dyno_connection *c, ko_dyno_registry *r, uint64_t now_ns,
                            kineto_error *refused)
{
    char *text = NULL;
    size_t bytes = 0;
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
    while (c->sent < c->answer_bytes) {
        ssize_t n = send(c->fd, c->answer + c->sent, c->answer_bytes - c->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            return progress_after_error(n);
        c->sent += (size_t)n;
    }
    /* What is still unread would make the system take the answer back. */
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

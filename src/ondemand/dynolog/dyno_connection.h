/* TCP connections of the daemon's RPC: one connection (a frame in, a frame out), and the table of
 * all of them with its time limits. Private to dyno_daemon.c and dyno_connection.c; nothing here
 * blocks, and one thread uses a table. */
#ifndef KO_DYNO_CONNECTION_H
#define KO_DYNO_CONNECTION_H

#include "ondemand/dynolog/dyno.h"

#define KO_DYNO_MAX_CONNECTIONS 256u

/* State is in the buffers: head incomplete → body incomplete → answer being sent. */
typedef struct ko_dyno_connection {
    int fd;
    uint64_t since_ns; /* when it was accepted; CLOCK_MONOTONIC */
    ko_dyno_caller caller;
    char head[4]; /* int32 length in the byte order of this machine */
    size_t head_bytes;
    /* What has been received so far; the buffer grows with it. body_size: the announced length. */
    char *body;
    size_t body_bytes, body_room, body_size;
    char *answer; /* with its head; NULL: still reading */
    size_t answer_bytes, sent;
} ko_dyno_connection;
/** Read, answer and write as far as possible without blocking.
 *  @param refused  filled if the request is denied or malformed.
 *  @return false: finished or failed, close it. */
bool ko_dyno_connection_serve(ko_dyno_connection *c, ko_dyno_registry *r, uint64_t now_ns,
                              kineto_error *refused);
void ko_dyno_connection_close(ko_dyno_connection *c);

/* Ordered by age, oldest first: timeouts and evictions start at index 0. */
typedef struct ko_dyno_connections {
    ko_dyno_connection items[KO_DYNO_MAX_CONNECTIONS];
    uint32_t count;
    uint64_t paused_until_ns; /* accept failed for lack of file descriptors */
} ko_dyno_connections;
/** Append a connection; if the table is full, the oldest one is closed first. Takes `fd`.
 *  @return its index. */
uint32_t ko_dyno_connections_add(ko_dyno_connections *t, int fd, const ko_dyno_caller *caller,
                                 uint64_t now_ns);
/** Close connection `i`; the next one moves to its index. */
void ko_dyno_connections_drop(ko_dyno_connections *t, uint32_t i);
/** Close those whose time is up. */
void ko_dyno_connections_expire(ko_dyno_connections *t, uint64_t now_ns);
void ko_dyno_connections_close(ko_dyno_connections *t);
/** The process is out of file descriptors: close the oldest connection if it has had its minimum
 *  time, otherwise pause accepting. @return whether to try again at once. */
bool ko_dyno_connections_free_fd(ko_dyno_connections *t, uint64_t now_ns);
/** Earliest time at which another connection may be accepted; 0: now. */
uint64_t ko_dyno_connections_room_ns(const ko_dyno_connections *t);
/** Earliest time at which something is due (a timeout, or accepting again); UINT64_MAX: none. */
uint64_t ko_dyno_connections_due_ns(const ko_dyno_connections *t, uint64_t now_ns);
#endif

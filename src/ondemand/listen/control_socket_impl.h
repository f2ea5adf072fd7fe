/* Internals of the control socket of a process. All of it runs on the controller's thread, except
 * ko_control_queue_note: `lock` guards `heard` and the bell, `wanted` is atomic.
 *
 *     control_socket.c       the listener: descriptors, accepting and closing connections
 *     control_connection.c   one connection: sending packets, or queueing them
 *     control_answer.c       requests and their answers, notes about stages */
#ifndef KO_CONTROL_SOCKET_IMPL_H
#define KO_CONTROL_SOCKET_IMPL_H

#include "ondemand/listen/listeners.h"
#include "ondemand/support/wake.h"
#include "ondemand/wire/control_wire.h"

#define KO_MAX_CONNECTIONS   32u
#define KO_MAX_QUEUED        64u  /* packets for a peer that does not read; then it is closed */
#define KO_MAX_TICKETS       8u   /* unfinished requests of one connection */
#define KO_MAX_PENDING_NOTES 512u /* notes between two turns */

/* A packet that waits to be sent, or a note that waits to be delivered. */
typedef struct ko_queued {
    struct ko_queued *next;
    uint64_t ticket; /* of a note; 0: none */
    uint32_t stage;
    size_t bytes;
    char data[];
} ko_queued;
typedef struct ko_queue {
    ko_queued *first, **last;
    uint32_t count;
} ko_queue;

typedef struct ko_connection {
    kb_guarded_fd socket;
    uint32_t generation; /* distinguishes it from earlier connections in the same slot */
    uint32_t pid;        /* of the other side */
    uint64_t active_ns;  /* when its last packet arrived */
    uint64_t tickets[KO_MAX_TICKETS];
    uint32_t ticket_count;
    ko_queue queue;
    bool polls_out, broken;
} ko_connection;

typedef struct ko_control_socket {
    ko_listener listener; /* first */
    uint32_t pid;
    char directory[KO_REQUEST_PATH_BYTES];
    struct sockaddr_un at;
    dev_t file_device; /* of the socket's file */
    ino_t file_inode;
    int epoll;
    int watch; /* inotify on the socket's file, which may be removed by others; -1: none */
    kb_guarded_fd socket;
    ko_wake wake;
    ko_connection *connections[KO_MAX_CONNECTIONS];
    uint32_t generation;
    uint64_t deaf_until_ns; /* no new connections until then: out of file descriptors */
    uint64_t check_ns;      /* without a watch: when to look for the socket's file again */
    uint64_t retry_ns;      /* when to reopen the socket; 0: it is open */
    uint64_t complained_ns;
    bool in_child;             /* of a fork: everything open belongs to the parent */
    ko_controller *controller; /* that is watched */
    ko_list_pids *list;
    void *list_context;
    /* Shared with threads that report stages. */
    pthread_mutex_t lock;
    ko_queue heard;
    uint32_t wanted; /* atomic: tickets of all connections, plus requests being made */
    char buffer[KO_CONTROL_MAX_BYTES];
} ko_control_socket;

/* ---- control_connection.c -------------------------------------------------------------------- */
bool ko_queue_put(ko_queue *q, uint64_t ticket, uint32_t stage, const void *data, size_t bytes);
ko_queued *ko_queue_take(ko_queue *q);
void ko_queue_free(ko_queue *q);
/** Send now, or queue it. A peer that never reads is marked broken in the end. */
void ko_connection_send(ko_control_socket *s, uint32_t slot, const void *data, size_t bytes);
/** Send queued packets, as many as possible. */
void ko_connection_flush(ko_control_socket *s, uint32_t slot);
/** Add the connection in this slot to the epoll descriptor. */
bool ko_connection_open(ko_control_socket *s, uint32_t slot);
void ko_connection_close(ko_control_socket *s, uint32_t slot);

/* ---- control_answer.c ------------------------------------------------------------------------ */
/** Handle a packet of `bytes` bytes in the buffer; more than its size: it was truncated. */
void ko_control_answer_packet(ko_control_socket *s, uint32_t slot, size_t bytes);
/** Send a packet with this verb, and a text unless it is empty. */
void ko_control_reply_text(ko_control_socket *s, uint32_t slot, const char *verb, const char *text);
/** ko_watch: queues notes that connections wait for. threads: any. */
void ko_control_queue_note(void *context, const ko_stage_note *note);
/** Deliver the queued notes to their connections. */
void ko_control_deliver_notes(ko_control_socket *s);
#endif

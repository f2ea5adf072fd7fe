/* The parts of a process' control socket.
 *
 *     control_socket.c       the listener: what it polls, who may connect
 *     control_connection.c   one connection: packets that leave it, and those that wait to
 *     control_answer.c       what is asked, and what is answered */
#ifndef KO_CONTROL_SOCKET_IMPL_H
#define KO_CONTROL_SOCKET_IMPL_H

#include "ondemand/listen/listeners.h"
#include "ondemand/support/wake.h"
#include "ondemand/wire/control_wire.h"

#define KO_MAX_CONNECTIONS   32u
#define KO_MAX_QUEUED        64u  /* packets for one that does not read; then it is closed */
#define KO_MAX_TICKETS       8u   /* requests of one connection that have not ended */
#define KO_MAX_PENDING_NOTES 512u /* notes between two turns */

/* A packet that waits. */
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
    kb_owned socket;
    uint32_t generation; /* tells it from those that had its place before */
    uint32_t pid;        /* of the other side */
    uint64_t active_ns;  /* when it last said something */
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
    int watch; /* of the socket's file: somebody may tidy up; -1: there is none */
    kb_owned socket;
    ko_wake wake;
    ko_connection *connections[KO_MAX_CONNECTIONS];
    uint32_t generation;
    uint64_t deaf_until_ns; /* no descriptors are left for another connection */
    uint64_t retry_ns;      /* when the socket is opened again; 0: it is open */
    uint64_t complained_ns;
    bool in_child;             /* of a fork: what is open is the parent's */
    ko_controller *controller; /* that is watched */
    ko_list_pids *list;
    void *list_context;
    /* Of threads that tell what becomes of requests. */
    pthread_mutex_t lock;
    ko_queue heard;
    uint32_t wanted; /* tickets of all connections, and requests that are being made; atomic */
    char buffer[KO_CONTROL_MOST_BYTES];
} ko_control_socket;

/* ---- control_connection.c -------------------------------------------------------------------------- */
bool ko_queue_put(ko_queue *q, uint64_t ticket, uint32_t stage, const void *data, size_t bytes);
ko_queued *ko_queue_take(ko_queue *q);
void ko_queue_free(ko_queue *q);
/** Now, or as soon as it can be. One that does not read is broken in the end. */
void ko_connection_send(ko_control_socket *s, uint32_t slot, const void *data, size_t bytes);
/** What waits, as far as it goes. */
void ko_connection_flush(ko_control_socket *s, uint32_t slot);
/** Polled for, once it is there; its number in the epoll descriptor. */
bool ko_connection_open(ko_control_socket *s, uint32_t slot);
void ko_connection_close(ko_control_socket *s, uint32_t slot);

/* ---- control_answer.c ------------------------------------------------------------------------------ */
/** A packet of so many bytes has come into the buffer; more than fit: it was cut. */
void ko_control_answer_packet(ko_control_socket *s, uint32_t slot, size_t bytes);
/** "verb", with a text. */
void ko_control_reply_text(ko_control_socket *s, uint32_t slot, const char *verb, const char *text);
/** Watches: keeps what connections want to hear. threads: any. */
void ko_control_queue_note(void *context, const ko_stage_note *note);
/** Give connections what was heard. */
void ko_control_deliver_notes(ko_control_socket *s);
#endif

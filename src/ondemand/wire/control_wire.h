/* The protocol of control sockets, between a process and `ckineto trigger` or `ckineto ps`. The
 * socket is $XDG_RUNTIME_DIR/ckineto/PID.sock (or in /run/user/UID, or /tmp/ckineto-UID), of type
 * SOCK_SEQPACKET, in a directory with mode 0700; both sides accept peers of the same user or root
 * only (SO_PEERCRED). A message is one packet: a verb, and lines KEY=VALUE;
 * docs/how-to/on-demand.md has it line by line.
 *
 *   → status                       ← status: pid, host, state, iteration, ring, traces, name, pids
 *   → trace, the config text       ← accepted | refused, then the stages of this ticket
 *   → dump, the config text        ← accepted | refused, then written | failed
 *   → cancel                       ← cancelled */
#ifndef KO_CONTROL_WIRE_H
#define KO_CONTROL_WIRE_H

#include "ondemand/controller/controller.h"

#include <sys/socket.h>
#include <sys/un.h>

#define KO_CONTROL_MAX_BYTES (128u << 10) /* of a packet, either way */
#define KO_CONTROL_VERSION    1

/* ---- control_wire.c: addresses of sockets, format of packets --------------------------------- */
/** The directory of control sockets; created (0700) if `make`. KINETO_E_PERMISSION if other users
 *  can access it; KINETO_E_NOT_FOUND if it does not exist and `make` is false. */
kineto_status ko_control_directory(bool make, char path[KO_REQUEST_PATH_BYTES], kineto_error *err);
/** The address of a process' socket in it, or of one that does not listen yet.
 *  @return KINETO_E_LIMIT for a path that is too long for a socket. */
kineto_status ko_control_address(const char *directory, uint32_t pid, bool unborn,
                                 struct sockaddr_un *out, kineto_error *err);

/** A packet being written: a verb and lines, without a configuration text. */
typedef struct ko_packet {
    char data[6144];
    size_t bytes;
} ko_packet;
/** Lines that do not fit are omitted, values are truncated. */
void ko_packet_begin(ko_packet *p, const char *verb);
void ko_packet_put(ko_packet *p, const char *key, const char *value);
void ko_packet_put_int(ko_packet *p, const char *key, int64_t value);
/** A packet that was read; everything is borrowed from its bytes. */
typedef struct ko_packet_view {
    char verb[24];
    kineto_string lines, text; /* KEY=VALUE; what follows the empty line, as it is */
} ko_packet_view;
/** Parse untrusted bytes. False, with *why, if they are not a packet. */
bool ko_packet_read(const void *data, size_t bytes, ko_packet_view *out, const char **why);
/** Take the next line off `lines`; the value is still escaped. False: no more lines. */
bool ko_packet_next(kineto_string *lines, kineto_string *key, kineto_string *value);
/** Unescape a value; truncated to what fits, NUL-terminated. */
void ko_packet_unescape(kineto_string value, char *out, size_t size);
/** A decimal number. */
bool ko_packet_number(kineto_string value, int64_t *out);

/* ---- control_client.c: the client, for commands ---------------------------------------------- */
typedef struct ko_control_peer ko_control_peer;
/** Connect to the socket of a process. KINETO_E_NOT_FOUND: it has none; a stale file is removed. */
kineto_status ko_control_connect(uint32_t pid, ko_control_peer **out, kineto_error *err);
int ko_control_fd(const ko_control_peer *p);
uint32_t ko_control_peer_pid(const ko_control_peer *p);
kineto_status ko_control_send(ko_control_peer *p, const char *verb, kineto_string text,
                              kineto_error *err);
typedef struct ko_control_answer {
    char verb[24];               /* "status", "accepted", a name of a stage … */
    ko_controller_status status; /* of "status"; its host points to the one below */
    char process_name[64], version[24], state_name[24], trace_id[KO_REQUEST_ID_BYTES];
    char host[16], daemon_client[48]; /* the latter: another client of Dynolog in the process */
    int32_t code;                     /* kineto_status of "refused" */
    uint32_t uid;
    uint32_t pids[64], pid_count; /* processes that a request may name, itself first */
    int64_t time_ns;
    uint64_t ticket, bytes;
    char path[KO_REQUEST_PATH_BYTES], text[512];
} ko_control_answer;
/** Receive a packet without waiting. KINETO_E_BUSY: none has arrived; KINETO_E_NOT_FOUND: the
 *  process has closed the connection. */
kineto_status ko_control_receive(ko_control_peer *p, ko_control_answer *out, kineto_error *err);
void ko_control_close(ko_control_peer *p);
/** pids that have a socket here, in order, to be freed; sockets of processes that are gone are
 *  removed. No directory means none. @param err  written on failure only: set its code to KINETO_OK
 *  before. */
uint32_t ko_control_list(uint32_t **pids, kineto_error *err);
#endif

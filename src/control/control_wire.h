/* What `ckineto trigger`, `ckineto ps` and a process say to each other over its control socket:
 * $XDG_RUNTIME_DIR/ckineto/PID.sock (or /run/user/UID, or /tmp/ckineto-UID), SOCK_SEQPACKET, directory 0700, peers of
 * the same user or root only (SO_PEERCRED, both sides). A message is one packet, a verb and lines
 * KEY=VALUE; docs/on-demand.md has it line by line.
 *
 *   → status                        ← status, with pid, host, state, iteration, ring, traces, name, pids
 *   → trace, then the config text   ← accepted | refused, then the stages of this ticket as they come
 *   → dump, then the config text    ← accepted | refused, then written | failed
 *   → cancel                        ← cancelled */
#ifndef KO_CONTROL_WIRE_H
#define KO_CONTROL_WIRE_H

#include "control/controller.h"

#define KO_CONTROL_MOST_BYTES (128u << 10)
/** The directory; made (0700) if `make`. KINETO_E_PERMISSION if it is not ours alone. */
kineto_status ko_control_directory(bool make, char path[KS_REQUEST_PATH_BYTES], kineto_error *err);

/* ---- control_client.c: the other end, for commands ----------------------------------------------- */
typedef struct ko_control_peer ko_control_peer;
/** Connect to a process' socket. KINETO_E_NOT_FOUND: it has none; a stale file is removed. */
kineto_status ko_control_connect(uint32_t pid, ko_control_peer **out, kineto_error *err);
int ko_control_fd(const ko_control_peer *p);
uint32_t ko_control_peer_pid(const ko_control_peer *p);
kineto_status ko_control_send(ko_control_peer *p, const char *verb, kineto_string text,
                              kineto_error *err);
typedef struct ko_control_answer {
    char verb[24];                    /* "status", "accepted", a name of a stage … */
    ko_controller_status status;      /* of "status"; state by number; host is a copy of ours */
    char process_name[64];
    uint32_t pids[64], pid_count;     /* whom a request to it may name */
    int64_t time_ns;
    uint64_t ticket, bytes;
    char path[KS_REQUEST_PATH_BYTES], text[512];
} ko_control_answer;
/** Take a packet. KINETO_E_BUSY: none is there yet; KINETO_E_NOT_FOUND: the other side has closed. */
kineto_status ko_control_receive(ko_control_peer *p, ko_control_answer *out, kineto_error *err);
void ko_control_close(ko_control_peer *p);
/** pids that have a socket here; those of processes that are gone are removed. To be freed. */
uint32_t ko_control_list(uint32_t **pids, kineto_error *err);
#endif

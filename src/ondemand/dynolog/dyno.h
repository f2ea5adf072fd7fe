/* Dynolog's protocol, both ends: datagrams over a local socket between traceable processes and the
 * daemon, and the JSON-RPC over TCP by which dyno asks the daemon for traces.
 * docs/how-to/on-demand.md describes the bytes. The daemon of `ckineto daemon` is made of these
 * parts: dyno_daemon.c (its loop) over dyno_connection.c (TCP connections), dyno_rpc.c (calls) and
 * dyno_registry.c (known processes and waiting requests). */
#ifndef KO_DYNO_H
#define KO_DYNO_H

#include "base/base.h"

#include <sys/socket.h>
#include <sys/un.h>

#define KO_DYNO_HEAD_BYTES 40u
#define KO_DYNO_MAX_PIDS  64u
#define KO_DYNO_MAX_BYTES (1u << 20) /* of a payload */
#define KO_DYNO_NAME_BYTES 107u
#define KO_DYNO_DAEMON     "dynolog"
#define KO_DYNO_CLIENT     "dynoconfigclient"

/* ---- dyno_wire.c: messages, without a socket ------------------------------------------------- */
typedef enum ko_dyno_type { KO_DYNO_CONTEXT = 0, KO_DYNO_REQUEST = 1 } ko_dyno_type;
enum { KO_DYNO_WANTS_NOTHING = 0, KO_DYNO_WANTS_EVENTS = 1, KO_DYNO_WANTS_ACTIVITIES = 2 };

/** A message to the daemon. */
typedef struct ko_dyno_message {
    ko_dyno_type type;
    int64_t job;
    int32_t gpu, pid;   /* CONTEXT */
    int32_t wants;      /* REQUEST: KO_DYNO_WANTS_… */
    uint32_t pid_count; /* REQUEST: the process, its parent, … */
    int32_t pids[KO_DYNO_MAX_PIDS];
} ko_dyno_message;

/** Bytes written, 0 if `size` is too small. */
size_t ko_dyno_encode(const ko_dyno_message *m, void *out, size_t size);
/** An answer of the daemon: a configuration text (REQUEST; empty: nothing), or a count (CONTEXT).
 */
size_t ko_dyno_encode_answer(ko_dyno_type type, kineto_string payload, void *out, size_t size);
/** Decode untrusted bytes. False, with *why, if they are malformed: too short, wrong length or
 *  type, no pids or too many. */
bool ko_dyno_decode(const void *data, size_t size, ko_dyno_message *out, const char **why);
bool ko_dyno_decode_answer(const void *data, size_t size, ko_dyno_type *type, kineto_string *payload,
                         const char **why);

/* ---- dyno_address.c: addresses of sockets ---------------------------------------------------- */
typedef struct ko_dyno_address {
    struct sockaddr_un address;
    socklen_t size;
} ko_dyno_address;
/** Abstract, with the NUL at its end that is part of the name; or a path in KINETO_IPC_SOCKET_DIR.
 */
kineto_status ko_dyno_address_of(const char *name, const char *directory, ko_dyno_address *out,
                                 kineto_error *err);
/** The name of a sender, without the directory; false if it does not have the form of our names. */
bool ko_dyno_address_name(const ko_dyno_address *a, const char *directory,
                          char name[KO_DYNO_NAME_BYTES + 1]);
/** The process and its ancestors, from /proc, up to 11; the pid 1 only if it is the process. */
uint32_t ko_dyno_ancestors(uint32_t pid, int32_t pids[KO_DYNO_MAX_PIDS]);

/* ---- dyno_client.c: a process that polls the daemon for requests ----------------------------- */
typedef struct ko_dyno_client ko_dyno_client;
/** Opens nothing yet. @param directory  NULL: abstract sockets. */
kineto_status ko_dyno_client_create(const char *directory, ko_dyno_client **out, kineto_error *err);
/** Descriptor to poll(2) for POLLIN; -1: no socket is open. */
int ko_dyno_client_fd(const ko_dyno_client *c);
/** Send what is due and receive what has arrived; never blocks. Call at *wake_ns (CLOCK_MONOTONIC)
 *  at the latest, and when the descriptor is readable.
 *  @param busy  the process cannot take a request: it polls without asking for one, to stay
 *               registered.
 *  @param text  receives a configuration to act upon, valid until the next call; empty: none.
 *  @return errors of opening the socket, which are also logged and retried; a missing daemon is not
 *           an error. */
kineto_status ko_dyno_client_run(ko_dyno_client *c, uint64_t now_ns, bool busy,
                                 uint64_t poll_interval_ns, kineto_string *text, uint64_t *wake_ns,
                                 kineto_error *err);
/** Poll on behalf of another process: requests may name it and its ancestors. Before the first run.
 */
void ko_dyno_client_for(ko_dyno_client *c, uint32_t pid);
/** After fork, in the child: the parent's socket is closed, a new one with the child's pids
 * follows. */
void ko_dyno_client_forked(ko_dyno_client *c);
/** Closes, removes a socket file of its own. NULL is fine. */
void ko_dyno_client_destroy(ko_dyno_client *c);

/* ---- dyno_registry.c: the daemon's data, without sockets ------------------------------------- */
typedef struct ko_dyno_registry ko_dyno_registry;
ko_dyno_registry *ko_dyno_registry_create(void);
void ko_dyno_registry_destroy(ko_dyno_registry *r);
/** A process of this user polled (REQUEST); users do not see each other's processes.
 *  @return the text that waits for it, to be freed by the caller and gone from the registry, or
 *          NULL. */
char *ko_dyno_registry_poll(ko_dyno_registry *r, const ko_dyno_message *m, uint32_t user,
                           uint64_t now_ns);
/** The text could not be sent and waits again. Takes ownership of it. */
void ko_dyno_registry_give_back(ko_dyno_registry *r, const ko_dyno_message *m, uint32_t user,
                                char *text);
/** A process reported its GPU (CONTEXT). @return how many processes of the job use that GPU; -1:
 *  the table is full. */
int32_t ko_dyno_registry_context(ko_dyno_registry *r, const ko_dyno_message *m, uint64_t now_ns);
typedef struct ko_dyno_trigger {
    int64_t job;
    const int32_t *pids; /* of a process or one of its ancestors; none, or 0: all of the job */
    uint32_t pid_count;
    int32_t limit; /* of processes to trigger; negative: none */
    kineto_string config;
    bool one_user; /* only processes of `user` */
    uint32_t user;
} ko_dyno_trigger;
typedef struct ko_dyno_matches {
    KB_VEC(int32_t) matched, triggered; /* the processes themselves */
    uint32_t busy;                      /* they have not fetched the last one yet */
} ko_dyno_matches;
/** A text for the processes that match. */
kineto_status ko_dyno_registry_trigger(ko_dyno_registry *r, const ko_dyno_trigger *t,
                                       uint64_t now_ns, ko_dyno_matches *out, kineto_error *err);
void ko_dyno_matches_free(ko_dyno_matches *m);
/** Forget processes that have not polled for a minute. */
void ko_dyno_registry_age(ko_dyno_registry *r, uint64_t now_ns);
/** Each process that is known. */
typedef struct ko_dyno_process {
    int64_t job;
    uint32_t user;
    int32_t pid;         /* the process itself: the first pid of its message */
    const int32_t *pids; /* with its ancestors, in order */
    uint32_t pid_count;
    uint64_t seen_ns;
    bool waits; /* a text waits for it */
} ko_dyno_process;
typedef void ko_dyno_visit(void *context, const ko_dyno_process *process);
/** Called whenever a process polls and no text waits for it, so that it can get one at its first
 *  poll. Must not change the registry.
 *  @param wants  KO_DYNO_WANTS_…: with NOTHING the result is ignored.
 *  @return a text for it (malloc), or NULL. */
typedef char *ko_dyno_offer(void *context, const ko_dyno_process *process, int32_t wants);
void ko_dyno_registry_offer(ko_dyno_registry *r, ko_dyno_offer *offer, void *context);
void ko_dyno_registry_each(const ko_dyno_registry *r, ko_dyno_visit *visit, void *context);

/* ---- dyno_rpc.c: dyno's JSON-RPC, without a socket ------------------------------------------- */
/** Build a JSON object with the members that `fill` writes. @param text  receives it, to be freed.
 */
typedef void ko_dyno_fill(kb_json *j, const void *context);
kineto_status ko_dyno_object(ko_dyno_fill *fill, const void *context, char **text, size_t *bytes,
                             kineto_error *err);
/** A caller and its permissions; all zero: everything is allowed. */
typedef struct ko_dyno_caller {
    const char *token;  /* required from the caller; NULL: none */
    const char *denied; /* why all its calls are refused; NULL: allowed */
    bool one_user;      /* it reaches processes of `user` only */
    uint32_t user;
} ko_dyno_caller;
/** Answer one request. @param answer  receives JSON to be freed; NULL: close without an answer, as
 * Dynolog does for what it does not understand.
 *  @return KINETO_E_PERMISSION if the call is refused; then there is an answer that says so. */
kineto_status ko_dyno_rpc(ko_dyno_registry *r, const ko_dyno_caller *caller, kineto_string request,
                          uint64_t now_ns, char **answer, size_t *answer_bytes, kineto_error *err);

/* ---- dyno_owner.c ---------------------------------------------------------------------------- */
/** Does the socket with this address belong to a user other than root and this one? A check at one
 *  moment only; unknown owners count as no. */
bool ko_dyno_owner_is_foreign(const ko_dyno_address *a, uint32_t *user);

/* ---- dyno_peer.c ----------------------------------------------------------------------------- */
/** The user at the other end of a TCP connection within this machine. False: unknown, or closed. */
bool ko_dyno_peer_user(int fd, uint32_t *user);

/* ---- dyno_bind_error.c ----------------------------------------------------------------------- */
/** A socket name is in use: fails with KINETO_E_BUSY, and the owner where it is visible.
 *  @param shown  the name as /proc/net/unix shows it. */
kineto_status ko_dyno_explain_bind_error(const char *shown, kineto_error *err);

/* ---- dyno_daemon.c: both sockets of the daemon in one loop --------------------------------------
 * It serves processes of its own user; run by root, those of all users. Callers over TCP: with a
 * token, every holder of it may trace all of them. Without a token, on loopback only, its own user
 * and root may trace all of them, and other users their own processes if root runs the daemon. */
typedef struct ko_dyno_daemon_options {
    const char *directory; /* of sockets; NULL: abstract */
    const char *host;      /* of the RPC; NULL: 127.0.0.1; others than loopback need a token */
    uint16_t port;         /* 0: any */
    bool no_rpc;
    const char *token; /* NULL: none; copied */
} ko_dyno_daemon_options;
typedef struct ko_dyno_daemon ko_dyno_daemon;
/** @return KINETO_E_BUSY if an address is in use, with its owner; KINETO_E_ARGUMENT for an address
 *           that other machines reach, without a token. */
kineto_status ko_dyno_daemon_create(const ko_dyno_daemon_options *o, ko_dyno_daemon **out,
                                    kineto_error *err);
uint16_t ko_dyno_daemon_port(const ko_dyno_daemon *d);
ko_dyno_registry *ko_dyno_daemon_registry(ko_dyno_daemon *d);
/** One round of the loop: wait up to wait_ms (negative: no limit) for messages, or until `stop` (a
 *  descriptor; -1: none) is readable, and serve them. */
kineto_status ko_dyno_daemon_run(ko_dyno_daemon *d, int64_t wait_ms, int stop, kineto_error *err);
void ko_dyno_daemon_destroy(ko_dyno_daemon *d);
#endif

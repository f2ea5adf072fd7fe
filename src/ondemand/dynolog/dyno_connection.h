/* What the files of the daemon share: its loop (dyno_daemon.c), a connection of the RPC
 * (dyno_connection.c), and who has a name that it wants (dyno_taken.c). */
#ifndef KO_DYNO_PARTS_H
#define KO_DYNO_PARTS_H

#include "ondemand/dynolog/dyno.h"

typedef struct ko_dyno_connection {
    int fd;
    uint64_t since_ns;
    ko_dyno_caller caller;
    char head[4]; /* i32, in the order of this machine */
    size_t head_bytes;
    char *body; /* as much as has come, in a buffer that grows with it */
    size_t body_bytes, body_room, body_size;
    char *answer; /* with its head; NULL: still reading */
    size_t answer_bytes, sent;
} ko_dyno_connection;
/** Read, answer and write as far as the other side lets us. False: it is over, close it.
 *  @param refused  filled if it asked what it may not, or nothing that we understand. */
bool ko_dyno_connection_serve(ko_dyno_connection *c, ko_dyno_registry *r, uint64_t now_ns,
                              kineto_error *refused);
void ko_dyno_connection_close(ko_dyno_connection *c);

/** KINETO_E_BUSY, with who has it. @param shown  as /proc/net/unix shows the name. */
kineto_status ko_dyno_name_is_taken(const char *shown, kineto_error *err);
#endif

/* Wakes a polling thread, also from signal handlers. Built for programs that may close or reuse any
 * file descriptor: see base/guarded_fd.h. */
#ifndef KO_WAKE_H
#define KO_WAKE_H

#include "base/guarded_fd.h"

typedef struct ko_wake {
    kb_guarded_fd reads, writes; /* a pair of sockets: a pipe would raise SIGPIPE */
} ko_wake;
#define KO_WAKE_CLOSED                                                                             \
    (ko_wake) { .reads = KB_GUARDED_FD_NONE, .writes = KB_GUARDED_FD_NONE }

kineto_status ko_wake_open(ko_wake *w, kineto_error *err);
/** To poll for POLLIN; -1: closed. */
int ko_wake_fd(const ko_wake *w);
/** Makes it readable. threads: any; async-signal-safe, keeps errno. */
void ko_wake_ring(const ko_wake *w);
/** Consume pending wake-ups. @return how many; fewer than were sent if the socket buffer was full.
 */
uint32_t ko_wake_take(const ko_wake *w);
/** Are both still ours? */
bool ko_wake_is_ours(const ko_wake *w);
void ko_wake_close(ko_wake *w);
#endif

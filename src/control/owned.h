/* Descriptors in other people's programs. Those close descriptors that they did not open, and open
 * others in their place: before anything is read from, written to or closed, it is looked at
 * whether it is still the socket that we opened. */
#ifndef KO_OWNED_H
#define KO_OWNED_H

#include "base/base.h"

typedef struct ko_owned {
    int fd; /* atomic; -1: closed */
    dev_t device;
    ino_t inode;
} ko_owned;
#define KO_OWNED_NONE                                                                              \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/** Takes a socket; clear of the first three descriptors.
 *  @param fd  -1 with errno set is passed on. False: it is closed, errno says why. */
bool ko_owned_take(ko_owned *o, int fd);
/** threads: any; async-signal-safe. */
bool ko_owned_is_ours(const ko_owned *o);
void ko_owned_close(ko_owned *o);

/* ---- waking a thread that polls ------------------------------------------------------------------ */
typedef struct ko_wake {
    ko_owned reads, writes; /* a pair of sockets: a pipe would raise SIGPIPE */
} ko_wake;
#define KO_WAKE_CLOSED                                                                             \
    (ko_wake) { .reads = KO_OWNED_NONE, .writes = KO_OWNED_NONE }

kineto_status ko_wake_open(ko_wake *w, kineto_error *err);
/** To poll for POLLIN; -1: closed. */
int ko_wake_fd(const ko_wake *w);
/** Makes it readable. threads: any; async-signal-safe, keeps errno. */
void ko_wake_ring(const ko_wake *w);
/** Take what was rung. @return how often; after some hundred that nobody took, less than that. */
uint32_t ko_wake_take(const ko_wake *w);
/** Are both still ours? */
bool ko_wake_is_ours(const ko_wake *w);
void ko_wake_close(ko_wake *w);
#endif

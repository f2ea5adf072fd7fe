/* Descriptors in other people's programs. Those close descriptors that they did not open, and open
 * others in their place: before anything is read from, written to or closed, it is looked at
 * whether it is still what we opened. Not for epoll descriptors, timers and the like, which have
 * one inode together. */
#ifndef KB_OWNED_H
#define KB_OWNED_H
#include "base/base.h"

typedef struct kb_owned {
    int fd; /* atomic; -1: closed */
    dev_t device;
    ino_t inode;
} kb_owned;
#define KB_OWNED_NONE                                                                              \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/** Takes a descriptor; clear of the first three.
 *  @param fd  -1 with errno set is passed on. False: it is closed, errno says why. */
bool kb_owned_take(kb_owned *o, int fd);
/** threads: any; async-signal-safe. */
bool kb_owned_is_ours(const kb_owned *o);
/** Only if it is ours still. */
void kb_owned_close(kb_owned *o);
#endif

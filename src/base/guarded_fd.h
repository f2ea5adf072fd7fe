/* File descriptors that the host program may close or reuse at any time. Some programs close all
 * descriptors that they do not know, and open others with the same numbers. So before every read,
 * write or close the library checks by device and inode that the descriptor still is the file that
 * it opened. Not for epoll descriptors, timers and the like, which share one inode. */
#ifndef KB_GUARDED_FD_H
#define KB_GUARDED_FD_H
#include "base/base.h"

typedef struct kb_guarded_fd {
    int fd; /* atomic; -1: closed */
    dev_t device;
    ino_t inode;
} kb_guarded_fd;
#define KB_GUARDED_FD_NONE                                                                              \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/** Take ownership of a descriptor, moved above the first three numbers.
 *  @param fd  may be -1 with errno set. False: it was closed, errno has the reason. */
bool kb_fd_adopt(kb_guarded_fd *o, int fd);
/** Is it still the file that was taken? threads: any; async-signal-safe. */
bool kb_fd_still_ours(const kb_guarded_fd *o);
/** Close it if it still is that file. */
void kb_fd_close(kb_guarded_fd *o);
#endif

/* The process of `ckineto daemon`: its pid file (pid_file.c), and how it moves to the background
 * (background.c). */
#ifndef KC_DAEMON_PROCESS_H
#define KC_DAEMON_PROCESS_H

#include "base/base.h"

/** Open the pid file and lock it for the life of the daemon; it is empty until the pid is written.
 * A file without a lock is stale and is reused. KINETO_E_BUSY: its daemon still runs. */
kineto_status kc_pid_file_open(const char *path, int *fd, kineto_error *err);
/** @param fd  -1: no pid file, as below. */
kineto_status kc_pid_file_write(int fd, const char *path, kineto_error *err);
/** Remove the file, if `path` still names this one. */
void kc_pid_file_close(int fd, const char *path);

/** Fork, and return in the child. The parent waits until the child is ready or has ended, and exits
 *  with the same status; the child reports errors on the streams that both share.
 *  @param waits  receives the descriptor for kc_background_ready. */
kineto_status kc_background_begin(int *waits, kineto_error *err);
/** Detach from the terminal, and let the parent exit with 0. */
kineto_status kc_background_ready(int waits, kineto_error *err);
#endif

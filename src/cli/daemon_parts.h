/* The process around the daemon: the file with its pid (pid_file.c), and how it goes on in the
 * background (background.c). */
#ifndef KC_DAEMON_PARTS_H
#define KC_DAEMON_PARTS_H

#include "base/base.h"

/** The file is locked while its daemon lives, so that one that was left behind is no obstacle, and
 * empty until the pid is written. KINETO_E_BUSY: its daemon still runs. */
kineto_status kc_pid_file_open(const char *path, int *fd, kineto_error *err);
/** @param fd  -1: there is none, as below. */
kineto_status kc_pid_file_write(int fd, const char *path, kineto_error *err);
/** Removes it, if it is still the one under this name. */
void kc_pid_file_close(int fd, const char *path);

/** Returns in the child. The parent stays until the child is ready or has ended, and ends as it
 * did; what is wrong the child itself says, where the parent would have.
 *  @param waits  receives where the parent hears of us. */
kineto_status kc_background_begin(int *waits, kineto_error *err);
/** Leaves the terminal, and lets the parent end well. */
kineto_status kc_background_ready(int waits, kineto_error *err);
#endif

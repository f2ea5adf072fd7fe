/* The listeners: sources of requests for a controller. Each constructor returns a ko_listener that
 * ko_controller_listen takes over; NULL on failure, with `err` filled. How a listener behaves is
 * described with struct ko_listener in controller.h. */
#ifndef KO_LISTENERS_H
#define KO_LISTENERS_H

#include "ondemand/controller/controller.h"

/* ---- dyno_listener.c: polls Dynolog ---------------------------------------------------------- */
/** @param poll_interval_ns  0: 5 s */
ko_listener *ko_dyno_listener_create(uint64_t poll_interval_ns, kineto_error *err);
/** Poll on behalf of another process (a recorder's program). Before the first turn. */
void ko_dyno_listener_for(ko_listener *l, uint32_t pid);

/* ---- control_socket.c: the control socket of this process, for `ckineto trigger` and `ps` ---- */
ko_listener *ko_control_socket_create(uint32_t pid, kineto_error *err);
/** Lists the processes besides this one that a request may name (a recorder's programs). Called
 *  during turns.
 *  @return number of pids written, at most `room`. */
typedef uint32_t ko_list_pids(void *context, uint32_t *pids, uint32_t room);
void ko_control_socket_set_pids(ko_listener *l, ko_list_pids *list, void *context);

/* ---- trigger_signal.c: a signal requests a trace by the configuration file ------------------- */
/** One per process. @param signal  SIGUSR1 … */
ko_listener *ko_signal_listener_create(int signal, kineto_error *err);
/** Parse "USR2", "SIGUSR2", "RTMIN+1" or "12". KINETO_E_ARGUMENT for unknown names, and for signals
 *  that programs and the system need for themselves. */
kineto_status ko_signal_parse(const char *text, int *signal, kineto_error *err);

/* ---- trigger_file.c: writing or touching a file requests what the file contains -------------- */
ko_listener *ko_file_listener_create(const char *path, kineto_error *err);
#endif

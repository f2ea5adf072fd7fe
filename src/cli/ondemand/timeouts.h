/* How long `trigger`, `ps` and `record` wait for other processes: how soon each has to answer, or to
 * write its trace. */
#ifndef KC_TIMEOUTS_H
#define KC_TIMEOUTS_H

#include "base/base.h"

/* Control sockets of this machine. The status goes into a list, which should not wait for a process
 * that is stopped; the reply to a request decides whether it was accepted. */
#define KC_LIST_TIMEOUT_NS   (KB_SECOND_NS / 2)
#define KC_STATUS_TIMEOUT_NS (2 * KB_SECOND_NS)
#define KC_REPLY_TIMEOUT_NS  (5 * KB_SECOND_NS)

/* Each call of a daemon: of this machine, of the address given to `ps`, of the hosts of a job. */
#define KC_LOCAL_DAEMON_TIMEOUT_MS 1000u
#define KC_PS_DAEMON_TIMEOUT_MS    2000
#define KC_HOST_DAEMON_TIMEOUT_MS  3000u

/* The command that prints the hosts of a job. */
#define KC_HOSTS_COMMAND_TIMEOUT_NS (15 * KB_SECOND_NS)

/* After the end of the window, unless --wait names a time: traces are built and written. */
#define KC_WRITE_TIMEOUT_NS KB_MINUTE_NS
/* A file may still appear this long after its process stopped being busy. */
#define KC_APPEAR_TIMEOUT_NS (10 * KB_SECOND_NS)
#endif

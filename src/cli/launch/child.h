/* The recorded program as a child process: starting it, waiting for its end, forwarding signals,
 * and its exit status; or a program that runs already. Only one per process: signal state is global. */
#ifndef KC_CHILD_H
#define KC_CHILD_H

#include "base/base.h"

#include <sys/types.h>

typedef struct kc_child {
    pid_t pid;
    bool is_attached; /* not started here: signals end the waiting, and its exit status is not known */
    uint64_t start_time; /* is_attached: tells it from a later process with this pid */
    /* as from waitpid; valid when done */
    int status;
    bool done;
    /* Set by the caller: where the program writes instead of the terminal; -1: nowhere else. Its standard
     * input is empty then. */
    int output_fd;
    /* set by the caller: done means that all its descendants have ended, too */
    bool with_children;
    /* the program itself has ended */
    bool ended;
    /* Called once when the program has ended and is still a zombie, whose times can be read. */
    void (*ending)(void *context, pid_t pid);
    void *context;
    /* Called once in this process when the child exists, before it executes the program; NULL: no. */
    void (*forked)(void *context, pid_t pid);
    void *forked_context;
} kc_child;

/** Ignore and block the signals that end the program, so that the recorder outlives it. Call it
 *  before the first thread is started. */
void kc_prepare_signals(void);
/** @return KINETO_OK; else err->os_error is the error of exec. */
kineto_status kc_child_start(char **argv, kc_child *child, kineto_error *err);
/** Wait for a program that runs already. Ctrl-C, SIGTERM and SIGHUP end the waiting: done.
 *  @return KINETO_E_NOT_FOUND: there is no such process. */
kineto_status kc_child_attach(uint32_t pid, kc_child *child, kineto_error *err);
/** Wait at most `ns`; signals that arrive are forwarded to the program. */
void kc_child_wait(kc_child *child, uint64_t ns);
/** For event loops: a descriptor that is readable when kc_child_reap has something to do.
 *  @return -1 with the reason in err. */
int kc_child_signals(kineto_error *err);
void kc_child_reap(kc_child *child, int signals);
/** "the program was killed by signal 11 (…)", "… ended with status 1", "the program ended". */
#define KC_CHILD_END_BYTES 128u
void kc_child_describe_end(const kc_child *child, char text[KC_CHILD_END_BYTES]);
/** The status that a shell reports: 0..255, 128 + signal. */
int kc_child_exit_status(const kc_child *child);
#endif

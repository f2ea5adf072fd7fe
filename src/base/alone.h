/* A program whose main thread ends by pthread_exit lives until its last thread ends: threads of
 * ours must not be that one, no signal would end them. */
#ifndef KB_ALONE_H
#define KB_ALONE_H
#include "base/base.h"

/** Names of the library's threads that stay for as long as the process lives. */
#define KB_THREAD_CONTROL "ckineto-control"
#define KB_THREAD_FOLLOW  "ckineto"

/** `told` is called when the main thread ends by pthread_exit.
 *  @return false: this is not the main thread, nobody will be told. */
bool kb_main_watch(void (*told)(void));
bool kb_main_ended(void);
/** Are only threads of those names left, and none of the program? Reads /proc. */
bool kb_threads_only_own(void);
#endif

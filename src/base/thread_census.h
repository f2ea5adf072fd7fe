/* Detects when only the library's own threads are left. A program whose main thread ends by
 * pthread_exit lives until its last thread ends; a permanent thread of the library must not be that
 * one, because it blocks all signals and would never end. */
#ifndef KB_ALONE_H
#define KB_ALONE_H
#include "base/base.h"

/** Names of the library's permanent threads, which run until the process ends. */
#define KB_THREAD_CONTROL "ckineto-control"
#define KB_THREAD_FOLLOW  "ckineto"

/** `on_end` is called when the main thread ends by pthread_exit.
 *  @return false: this is not the main thread, on_end will not be called. */
bool kb_main_thread_watch(void (*on_end)(void));
bool kb_main_thread_ended(void);
/** Are all threads that still run permanent threads of the library? Reads /proc. */
bool kb_only_library_threads_left(void);
#endif

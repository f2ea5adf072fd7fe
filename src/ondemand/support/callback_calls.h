/* Calls to the program's callbacks that are in progress. Tables of callbacks (outputs, observers,
 * the client) share this lock: they release it while they call, and before a callback is
 * unregistered they wait here until no thread is calling it. */
#ifndef KO_CALLS_H
#define KO_CALLS_H

#include "base/base.h"

/* One call in progress; lives on the caller's stack from ko_calls_begin to ko_calls_end. */
typedef struct ko_call {
    const void *slot; /* the callback's slot in its table */
    pthread_t thread;
    struct ko_call *next;
} ko_call;

/** Guards the tables. Never held while callbacks run. In a fork's child the lock is free and no
 *  call is in progress. */
void ko_calls_lock(void);
void ko_calls_unlock(void);
/** With the lock: a call begins; the lock may be released afterwards. */
void ko_calls_begin(ko_call *call, const void *slot);
/** Without the lock: the call is over. */
void ko_calls_end(ko_call *call);
/** With the lock: is any thread calling it? */
bool ko_calls_any(const void *slot);
/** With the lock, which is released while waiting: wait until no other thread is calling it. */
void ko_calls_wait(const void *slot);
#endif

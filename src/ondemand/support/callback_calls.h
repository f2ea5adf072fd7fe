/* Calls into the program that go on now: tables of its callbacks share this lock, drop it while they
 * call, and wait here before they forget a callback. */
#ifndef KO_CALLS_H
#define KO_CALLS_H

#include "base/base.h"

/* On the caller's stack. */
typedef struct ko_call {
    const void *whom; /* the callback's place in its table */
    pthread_t thread;
    struct ko_call *next;
} ko_call;

/** Guards the tables. Never held while anything outside of them is called. In a fork's child it is free,
 *  and nothing is called. */
void ko_calls_lock(void);
void ko_calls_unlock(void);
/** With the lock: a call to it begins; the lock may be dropped then. */
void ko_calls_begin(ko_call *call, const void *whom);
/** Without: it is over. */
void ko_calls_end(ko_call *call);
/** With the lock: is it called by any thread? */
bool ko_calls_any(const void *whom);
/** With the lock, which is dropped meanwhile: until no other thread calls it. */
void ko_calls_wait(const void *whom);
#endif

/* A live view of a recording (record --live, top): once in an interval it shows what the program did
 * since the last time, from the buffer of the recording, which goes on. */
#ifndef KC_LIVE_H
#define KC_LIVE_H

#include "cli/live/view.h"
#include "session/session.h"

typedef struct kc_live_options {
    const char *title;    /* the program; borrowed */
    const char *on_quit;  /* what the key q does, for the line of keys */
    uint64_t interval_ns;
    uint64_t lag_ns;      /* so long after a moment everything about it is in the buffer */
    uint64_t screens;     /* after so many it ends; 0: no limit */
    kc_view_sort sort;
    bool is_batch;        /* plain text on the standard output, no terminal and no keys */
} kc_live_options;

typedef struct kc_live kc_live;
/** @return KINETO_E_UNSUPPORTED: there is no terminal. */
kineto_status kc_live_open(const kc_live_options *options, kc_live **out, kineto_error *err);
/** Handle keys, and show the next interval if it is over. To be called about ten times a second.
 *  @return nanoseconds until it is to be called again. */
uint64_t kc_live_turn(kc_live *l, ks_collector *c);
/** Did the user ask to end it, or were all screens shown? */
bool kc_live_is_over(const kc_live *l);
/** Give the terminal back. NULL is fine. */
void kc_live_close(kc_live *l);
#endif

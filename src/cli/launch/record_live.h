/* A live view beside a recording (see record_live.c). */
#ifndef KC_RECORD_LIVE_H
#define KC_RECORD_LIVE_H

#include "cli/launch/child.h"
#include "cli/launch/watch.h"
#include "cli/live/live.h"

typedef struct kc_record_live {
    bool is_wanted;
    bool is_top; /* without a trace */
    const char *interval, *sort_key; /* options as given; NULL */
    kc_live_options options;
    kc_live *view;    /* NULL: none is shown (any more) */
    ks_window *whole; /* the recording; NULL: there is none */
} kc_record_live;

/** Check the options, and set those of the collector and the cpu source that a view needs.
 *  @return KINETO_E_ARGUMENT after the mistake was explained. */
kineto_status kc_record_live_parse(kc_record_live *l, const char *verb, bool is_attached,
                                   ks_collector_options *c, kc_watch *watch);
/** When the collector has started. @param title  of the program; borrowed. */
kineto_status kc_record_live_start(kc_record_live *l, ks_collector *c,
                                   const ks_collector_options *of_collector, const char *title,
                                   kineto_error *err);
/** Handle keys, show what is due; at its end, end the program if the user wants that.
 *  @return nanoseconds until the next time. */
uint64_t kc_record_live_show(kc_record_live *l, ks_collector *c, kc_child *child);
void kc_record_live_close(kc_record_live *l); /* twice is fine */
/** What the program writes to the terminal would disturb the view: it is kept in a file without a name.
 *  @return -1: it writes nothing to a terminal, or there is no room for a file. */
int kc_record_live_open_output(void);
/** Print it, and close the file; -1 is fine. */
void kc_record_live_show_output(int fd);
#endif

/* Writing and reporting a recording (see record_result.c). */
#ifndef KC_RECORD_RESULT_H
#define KC_RECORD_RESULT_H

#include "cli/launch/child.h"
#include "cli/launch/plugins.h"
#include "session/session.h"

/* What the report depends on. */
typedef struct kc_record_report {
    const char *output; /* where the trace goes; another path if that is not possible */
    bool quiet, no_summary, verbose;
    bool keeps_old;      /* a trace that is there already becomes NAME.old */
    bool memory, python; /* the options were given */
    bool is_attached;    /* the program was not started by this command */
    uint32_t remedies;   /* see remedies.h */
    char *const *program; /* its command line; NULL: attached */
    const kc_plugins *plugins; /* those that the program was to load */
} kc_record_report;

/** Can a trace be written there? A mistake in the name must be reported before the program runs. */
kineto_status kc_record_check_output(const char *path, kineto_error *err);
/** The same, after missing directories were created, which is reported unless `quiet`. */
kineto_status kc_record_prepare_output(const char *path, bool quiet, kineto_error *err);
/** Print a signal or an exit status other than 0. */
void kc_record_report_end(const kc_child *child, bool one_trace);
/** Put how the program ended into the header of the next trace, as ckineto_dump_reason. */
void kc_record_note_end(ks_collector *c, const kc_child *child);
/** Build the trace, write it and report.
 *  @param whole  the window that is the recording, which is released; NULL: everything is.
 *  @param keep   set if the raw recording is still needed.
 *  @return the exit status of the command. */
int kc_record_write(kc_record_report *r, ks_collector *c, ks_window **whole, const kc_child *child,
                    bool *keep);
#endif

/* What a verb says about the trace that it has written: where it is, how large, and what to type next; and which names
 * of such files are refused. */
#ifndef KC_WRITTEN_H
#define KC_WRITTEN_H

#include "cli/cli.h"

/** Is it the name of a page (.html, .htm)? */
bool kc_is_page_name(const char *path);
/** Before a trace is read: may `verb` write one to this path? Pages are written by 'ckineto report', which the message
 *  names. */
kineto_status kc_check_trace_name(const char *verb, const char *path);
/** Has the file, by its name, a format that ckineto reads? The others are for other tools. */
bool kc_can_be_read(const char *path);
/** On stderr: the path with its size and number of activities, and the command that continues. */
void kc_print_written_trace(const char *path, uint64_t activities);
/** The same of a page. */
void kc_print_written_page(const char *path);
#endif

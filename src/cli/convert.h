/* Writing a trace in another format and accounting for it: shared by `convert` and `export`. */
#ifndef KC_CONVERT_H
#define KC_CONVERT_H

#include "cli/open_many.h"

#include <ckineto/export.h>

/** Open the trace to convert; a terminal shows that it is being read. */
kineto_status kc_convert_open(const char *verb, char *const *paths, int count, int32_t rank,
                              kineto_trace **out, kineto_error *err);
/** Write a trace, with progress on a terminal, then print the account on stderr unless quiet.
 *  @return the exit status: failure also if not every activity is accounted for. */
int kc_convert_write(const char *verb, const kineto_trace *trace, const char *path,
                     kineto_export_options *options, bool quiet);
/** The table of formats, on stdout. */
void kc_print_formats(void);
#endif

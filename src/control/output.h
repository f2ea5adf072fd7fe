/* Where traces of requests go: files that are opened safely, and other protocols. */
#ifndef KO_OUTPUT_H
#define KO_OUTPUT_H

#include "session/request.h"
#include <ckineto/trace.h>

/** Write a trace to what a path or URL says: "file:…" or a path; "fd:N"; "exec:COMMAND" (the trace
 *  goes to its standard input, /bin/sh runs it); those that were registered (kineto_output_register).
 *  The format follows the name's extension; Chrome JSON where there is none.
 *  @param source  KS_FROM_REQUEST: only files beneath the allowed directory (output_path.c), opened
 *                 relative to it without following any link: O_EXCL and 0600 for the temporary one,
 *                 renamed when complete; and registered protocols that allow requests.
 *  @param bytes   receives how many were written; may be NULL.
 *  @return KINETO_E_PERMISSION, KINETO_E_ARGUMENT, and what writing met, with the path. */
kineto_status ko_output_write(const kineto_trace *trace, ks_request_source source, const char *path,
                              uint64_t *bytes, kineto_error *err);
/** Does it name a protocol ("exec:", "s3://…")? A path never does. */
bool ko_output_is_url(const char *path);
/** The same for bytes that somebody else makes (memory snapshots): a sink, to be closed. */
kineto_status ko_output_open(ks_request_source source, const char *path, kb_sink **out,
                             kineto_error *err);
#endif

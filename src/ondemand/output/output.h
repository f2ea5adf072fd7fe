/* Destinations of requested traces: files that are opened safely, descriptors, commands, and
 * protocols that the program registered. All functions may be called by any thread. */
#ifndef KO_OUTPUT_H
#define KO_OUTPUT_H

#include "ondemand/request/request.h"
#include <ckineto/trace.h>

/* Order of use: before a request is accepted, ko_output_path checks and resolves its destination.
 * Later that result goes to ko_output_write, or for anything but traces to ko_output_open or a
 * ko_staging_file. */

/** Does it name a protocol ("exec:…", "s3://…")? An absolute path never does. */
bool ko_output_is_url(const char *path);
/** ko_request_output_path for URLs as well: the place of this process' trace. "file:…" becomes a
 *  path; URLs of registered protocols get the pid as paths do if they end in a file's name.
 *  Checked, as by ko_output_check. threads: any.
 *  @return KINETO_E_PERMISSION, KINETO_E_ARGUMENT, with the path and why. */
kineto_status ko_output_path(const ko_request *r, ko_request_source source, uint32_t pid,
                             char out[KO_REQUEST_PATH_BYTES], kineto_error *err);
/** May this source write to `path`? Changes nothing. threads: any.
 *  @return KINETO_E_PERMISSION for what requests must not name ("exec:", "fd:", which configuration
 *           files must not, either; protocols that are not for requests, or not registered; paths
 *           elsewhere than beneath the allowed directory); KINETO_E_ARGUMENT for what cannot be. */
kineto_status ko_output_check(ko_request_source source, const char *path, kineto_error *err);

/** Write a trace to what a path or URL says: "file:…" or a path; "fd:N"; "exec:COMMAND" (the trace
 *  goes to its standard input, /bin/sh runs it); those that were registered
 *  (kineto_output_register). The format follows the name's extension; Chrome JSON where there is
 *  none.
 *  @param source  KO_FROM_REQUEST: only files beneath the allowed directory (output_path.c), opened
 *                 relative to it without following any link: O_EXCL and 0600 for the temporary one,
 *                 renamed when complete; and registered protocols that allow requests.
 *  @param bytes   receives how many were written, after compression; 0 for registered protocols,
 *                 which do not report it; may be NULL.
 *  @return KINETO_E_PERMISSION, KINETO_E_ARGUMENT, and what writing met, with the path. */
kineto_status ko_output_write(const kineto_trace *trace, ko_request_source source, const char *path,
                              uint64_t *bytes, kineto_error *err);

/** The same for bytes of the caller's (memory snapshots): a sink, to be closed. If it is aborted
 *  instead, no file appears. Compressed if the extension says so.
 *  @return KINETO_E_UNSUPPORTED for registered protocols: they take traces. */
kineto_status ko_output_open(ko_request_source source, const char *path, kb_sink **out,
                             kineto_error *err);

/* A staging file, for writers that need a path: an empty file in a new directory that only this
 * user can enter. They write to `path`; ko_staging_file_deliver copies the result to its
 * destination. */
typedef struct ko_staging_file {
    char path[KO_REQUEST_PATH_BYTES];
    uint32_t directory_bytes; /* of the path; 0: not created, or removed */
} ko_staging_file;
/** @param name  the final name or path: its last component is used, for writers that choose a
 *               format by the extension. */
kineto_status ko_staging_file_create(ko_staging_file *f, const char *name, kineto_error *err);
/** Copy it unchanged to its destination, opened as by ko_output_open. @param bytes  may be NULL. */
kineto_status ko_staging_file_deliver(const ko_staging_file *f, ko_request_source source,
                                      const char *path, uint64_t *bytes, kineto_error *err);
/** Remove file and directory, with all that is in it; once. */
void ko_staging_file_remove(ko_staging_file *f);
#endif

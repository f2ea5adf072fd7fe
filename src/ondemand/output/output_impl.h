/* Internals shared by the files of the output module. */
#ifndef KO_OUTPUT_IMPL_H
#define KO_OUTPUT_IMPL_H

#include "ondemand/output/output.h"

#define KO_PROTOCOL_BYTES 32u

/** ko_output_open with a compression. */
kineto_status ko_output_sink(ko_request_source source, const char *path, kb_compression compression,
                             kb_sink **out, kineto_error *err);

/* ---- output_pipe.c: descriptors and commands ------------------------------------------------- */
/** Write to a descriptor of the program: to a duplicate, which is closed with the sink.
 *  @param url  for messages. @return KINETO_E_ARGUMENT if it is not open for writing. */
kineto_status ko_pipe_to_fd(int fd, const char *url, kb_sink **out, kineto_error *err);
/** Is it open for writing? */
kineto_status ko_pipe_check_fd(int fd, const char *url, kineto_error *err);
/** Run a command and write to its standard input. Closing the sink waits for it: it fails if the
 *  command does, takes nothing or does not end (CKINETO_EXEC_TIMEOUT); then it is killed, and what
 *  it began with it. */
kineto_status ko_pipe_to_command(const char *command, const char *url, kb_sink **out,
                                 kineto_error *err);

/* ---- output_registry.c ----------------------------------------------------------------------- */
/** May this protocol, in lower case, be named? @return as ko_output_check. */
kineto_status ko_registry_check(const char *protocol, ko_request_source source, kineto_error *err);
/** Pass the trace to the function that is registered for the protocol. */
kineto_status ko_registry_write(const char *protocol, const kineto_trace *trace, const char *url,
                                kineto_error *err);
#endif

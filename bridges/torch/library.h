/* Functions of libckineto that the seat and the guest use. The bridge is not linked with it, since
 * a process that is recorded from outside does not need it: it is opened by its path when one of
 * them is attached. */
#ifndef CKINETO_TORCH_LIBRARY_H
#define CKINETO_TORCH_LIBRARY_H

#include "bridge.h"

#include <ckineto/builder.h>
#include <ckineto/control.h>
#include <ckineto/export.h>
#include <ckineto/session.h>
#include <ckineto/trace.h>

#define CKT_LIBRARY_FUNCTIONS(X)                                                                   \
  X(kineto_args_begin)                                                                             \
  X(kineto_args_next)                                                                              \
  X(kineto_builder_add)                                                                            \
  X(kineto_builder_append)                                                                         \
  X(kineto_builder_arg)                                                                            \
  X(kineto_builder_args)                                                                           \
  X(kineto_builder_create)                                                                         \
  X(kineto_builder_destroy)                                                                        \
  X(kineto_builder_finish)                                                                         \
  X(kineto_builder_flow)                                                                           \
  X(kineto_builder_ledger)                                                                         \
  X(kineto_builder_metadata)                                                                       \
  X(kineto_builder_named_track)                                                                    \
  X(kineto_builder_process)                                                                        \
  X(kineto_builder_project)                                                                        \
  X(kineto_builder_string)                                                                         \
  X(kineto_builder_track)                                                                          \
  X(kineto_builder_window)                                                                         \
  X(kineto_trace_export_chrome)                                                                          \
  X(kineto_control_request)                                                                        \
  X(kineto_output_save)                                                                            \
  X(kineto_session_destroy)                                                                        \
  X(kineto_session_create)                                                                        \
  X(kineto_session_start)                                                                          \
  X(kineto_session_stop)                                                                           \
  X(kineto_session_pause)                                                                         \
  X(kineto_session_warm_up)                                                                        \
  X(kineto_trace_count)                                                                            \
  X(kineto_trace_get)                                                                              \
  X(kineto_trace_process)                                                                          \
  X(kineto_trace_process_count)                                                                    \
  X(kineto_trace_release)                                                                          \
  X(kineto_trace_string)                                                                           \
  X(kineto_trace_track)                                                                            \
  X(kineto_trace_track_count)                                                                      \
  X(kineto_trace_window)

namespace ckt {

struct Library {
#define CKT_MEMBER(name) decltype(&::name) name;
  CKT_LIBRARY_FUNCTIONS(CKT_MEMBER)
#undef CKT_MEMBER
};

/** Valid once open_library succeeded. */
extern Library lib;

/** Open libckineto and resolve its functions; once. False: *text is the reason. */
bool open_library(const char *path, char *text, size_t text_bytes);

}  // namespace ckt
#endif

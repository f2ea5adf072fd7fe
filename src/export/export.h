/* The export room for the command line: writers into sinks. */
#ifndef KE_EXPORT_H
#define KE_EXPORT_H

#include "base/base.h"
#include <ckineto/export.h>

/** Does the name of this file (or its being a device or FIFO: Chrome JSON then) say how to write
 *  it? @return KINETO_E_UNSUPPORTED, naming the endings that do. */
kineto_status ke_check_path(const char *path, kineto_error *err);

/** Chrome JSON into any sink (which stays open). `trace_name` becomes "traceName". */
kineto_status ke_chrome_write(const kineto_trace *trace, kb_sink *sink, const char *trace_name,
                              kineto_export_result *result, kineto_error *err);
#endif

/* Names of Python functions for sampled stacks: Python writes them to /tmp/perf-PID.map when
 * PYTHONPERFSUPPORT is set (option --python-perf), and leaves the files there. */
#ifndef KC_PERF_MAPS_H
#define KC_PERF_MAPS_H

#include "trace/trace.h"

/** Request the files from the program that is started next. Not if the user has done so already:
 *  then the files are the user's. */
kineto_status kc_perf_maps_request(kineto_error *err);
/** Remove the files of the trace's processes, after it was written. Has no effect on files that were
 *  not requested here, or that another user owns. */
void kc_perf_maps_remove(const kineto_trace *trace);
#endif

/* The report of `ckineto plugin check`, as text and as JSON. */
#ifndef KC_PLUGIN_CHECK_PRINT_H
#define KC_PLUGIN_CHECK_PRINT_H

#include "plugincheck/plugincheck.h"

/** @param verbose  also the rules that hold. */
void kc_check_report_print(const kv_check_report *r, bool verbose);
kineto_status kc_check_report_json(const kv_check_report *r, kineto_error *err);
/** The report of a process with PyTorch that did not survive. @param seen  how it ended. */
void kc_torch_crash_print(const char *plugin, const char *seen);
kineto_status kc_torch_crash_json(const char *plugin, const char *seen, kineto_error *err);
#endif

#include "trace/import/import.h"
bool kt_is_uftrace_dump(kineto_string head) { (void)head; return false; }
kineto_status kt_import_uftrace_dump(kineto_string bytes, kineto_trace **out, kineto_error *err)
{ (void)bytes; (void)out; return kb_fail(err, KINETO_E_UNSUPPORTED, "x"); }

/** @file
 *  Writers: a trace in other people's formats.
 */
#ifndef CKINETO_EXPORT_H
#define CKINETO_EXPORT_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a writer did. */
typedef struct kineto_export_result {
    size_t size;                /**< sizeof(kineto_export_result), set by the caller */
    uint64_t activities;        /**< written */
    uint64_t bytes;             /**< before compression */
    uint64_t replaced_bytes;    /**< how often invalid UTF-8 became U+FFFD */
} kineto_export_result;

/** Write Kineto's Chrome JSON (schemaVersion 1). `path` as in kineto_trace_save.
 *  @param result  may be NULL; filled on success.
 *  @return as kineto_trace_save. threads: any. */
KINETO_API kineto_status kineto_export_chrome(const kineto_trace *trace, const char *path,
                                              kineto_export_result *result, kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif

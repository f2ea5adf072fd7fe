/* What fragments of the documents take for granted: names whose meaning a reader knows. */
#ifndef CKINETO_TESTS_DOCS_FRAME_H
#define CKINETO_TESTS_DOCS_FRAME_H

#include <ckineto/ckineto.h>

#include <inttypes.h>
#include <stdio.h>

static kineto_error err;

/* recorded, and read */
static kineto_session *session;
static kineto_trace *trace, *before, *after;
static const char *path, *name;

/* profiled */
static kineto_profiler_config config;
static kineto_profiler_result *result;
static kineto_profile_run *profile;
static int steps;
static int64_t rows;
void train(void);

#ifdef __cplusplus
#include <ckineto/ckineto.hpp>

static const kineto::tensor b(KINETO_DTYPE_FLOAT, {32, 64});
void complain(const char *message);
#else
static kineto_tensor a, b;
static kineto_finding finding;
#endif

/* of a device: <ckineto/stubs.h> */
kineto_status my_record(void *context, int32_t *device, void **event, int64_t *cpu_ns, kineto_error *error);
kineto_status my_elapsed_ns(void *context, void *start, void *end, int64_t *elapsed_ns, kineto_error *error);
void my_release(void *context, void *event);

#endif

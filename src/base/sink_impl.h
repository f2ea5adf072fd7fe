/* What the files of the sink share: the target of a sink's buffer, and the compressors. */
#ifndef KB_SINK_IMPL_H
#define KB_SINK_IMPL_H

#include "base/base.h"

/** The destination of finished bytes. Every function except `drop` may fail and fills err. */
typedef struct kb_target_ops {
    kineto_status (*put)(void *target, const char *data, size_t bytes, kineto_error *err);
    /** All bytes were put: make the output visible. */
    kineto_status (*finish)(void *target, kineto_error *err);
    /** Free; an output that was not finished must not remain. */
    void (*drop)(void *target);
} kb_target_ops;

/** A sink over a target; owns the target from now on, also when it fails. */
kineto_status kb_sink_over(const kb_target_ops *ops, void *target, kb_compression c, kb_sink **out,
                           kineto_error *err);

typedef struct kb_compressor kb_compressor;
typedef kineto_status (*kb_put_fn)(void *target, const char *data, size_t bytes, kineto_error *err);
kineto_status kb_compressor_open(kb_compression c, kb_compressor **out, kineto_error *err);
/** Compress data and hand the result to put; `last` ends the stream. */
kineto_status kb_compressor_run(kb_compressor *z, const char *data, size_t bytes, bool last,
                                kb_put_fn put, void *target, kineto_error *err);
void kb_compressor_close(kb_compressor *z);

#endif

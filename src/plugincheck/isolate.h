/* Running code of others in a child process: whatever it does, the command goes on and can say what
 * happened. */
#ifndef KV_ISOLATE_H
#define KV_ISOLATE_H

#include "base/base.h"

typedef enum kv_ending {
    KV_RETURNED, /* the function came back */
    KV_EXITED,   /* something in it ended the process: `code` is the exit status */
    KV_KILLED,   /* `code` is the signal */
    KV_TIMED_OUT
} kv_ending;

typedef struct kv_isolation {
    uint32_t limit_ms;      /* 0: one minute */
    size_t most_data_bytes; /* what is kept of what the function writes; 0: 1 MiB */
    size_t
        most_text_bytes; /* what is kept of its stdout and stderr; 0: nothing, they are silenced */
} kv_isolation;

/* What came of it. Both texts are NUL-terminated behind their size, never NULL. */
typedef struct kv_outcome {
    kv_ending ending;
    int code;
    char *data, *text;
    size_t data_bytes, text_bytes;
    bool data_cut, text_cut;
} kv_outcome;

/** Runs in the child. What it writes to `to` (kv_isolated_write) is the outcome's data, also when
 * it does not come back. */
typedef void kv_isolated(void *context, int to);

/** Run `function(context, …)` in a child: a process group of its own that is killed as a whole when
 *  the child has ended or the time is over; stdin is empty, signals are as a program finds them, no
 *  core is dumped, and it dies with us. The calling process must have one thread.
 *  @param how  NULL: defaults. @param out  to be freed with kv_outcome_free if KINETO_OK.
 *  @return not KINETO_OK only where no child could be made. */
kineto_status kv_isolate(const kv_isolation *how, kv_isolated *function, void *context,
                         kv_outcome *out, kineto_error *err);
/** All bytes, or false (errno is set): nobody reads any more. */
bool kv_isolated_write(int to, const void *data, size_t bytes);
void kv_outcome_free(kv_outcome *o);
/** "signal 11 (Segmentation fault)", "exit status 3", "no answer within 5 s", "ok". */
const char *kv_outcome_text(const kv_outcome *o, const kv_isolation *how, char *buf, size_t size);
#endif

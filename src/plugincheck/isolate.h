/* Running foreign code in a child process with a time limit: whether it crashes, hangs or ends the
 * process, the caller continues and gets a description of what happened. */
#ifndef KV_ISOLATE_H
#define KV_ISOLATE_H

#include "base/base.h"

typedef enum kv_ending {
    KV_RETURNED, /* the function returned */
    KV_EXITED,   /* the process exited in the function: `code` is the exit status */
    KV_KILLED,   /* `code` is the signal */
    KV_TIMED_OUT
} kv_ending;

typedef struct kv_isolation {
    uint32_t limit_ms; /* 0: one minute */
    /* kept of the data that the function writes; 0: 1 MiB */
    size_t max_data_bytes;
    /* kept of its stdout and stderr; 0: they go to /dev/null */
    size_t max_text_bytes;
} kv_isolation;

/* The result of a child. Both texts are never NULL, and NUL-terminated after their size. */
typedef struct kv_outcome {
    kv_ending ending;
    int code;
    char *data, *text;
    size_t data_bytes, text_bytes;
    bool data_cut, text_cut;
} kv_outcome;

/** Runs in the child. Data that it writes to `to` (kv_isolated_write) is in the outcome even if it
 *  does not return. */
typedef void kv_isolated(void *context, int to);

/** Run `function(context, …)` in a child. The child is the leader of a process group, which is
 * killed when the child has ended or its time is over; stdin is empty, signals have their
 * defaults, no core is dumped, and the child dies with its parent. The calling process must have
 * one thread.
 *  @param how  NULL: defaults. @param out  to be freed with kv_outcome_free if KINETO_OK.
 *  @return not KINETO_OK only if no child could be made. */
kineto_status kv_isolate(const kv_isolation *how, kv_isolated *function, void *context,
                         kv_outcome *out, kineto_error *err);
/** Write all bytes. False: the reader has closed the pipe (errno is set). */
bool kv_isolated_write(int to, const void *data, size_t bytes);
void kv_outcome_free(kv_outcome *o);
/** The last line of its stdout and stderr, whose trailing line breaks are cut off; "": none. */
const char *kv_outcome_last_line(kv_outcome *o);
/** "signal 11 (Segmentation fault)", "exit status 3", "no answer within 5 s", "ok". */
const char *kv_outcome_text(const kv_outcome *o, const kv_isolation *how, char *buf, size_t size);
#endif

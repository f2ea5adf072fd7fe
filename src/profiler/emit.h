/* Emission: the ranges of a program shown to a tool that observes it from within the process:
 * NVIDIA's by NVTX, or one with Intel's ITT interface. An environment variable names the tool's
 * library. We are the client of both interfaces and declare them ourselves (nvtx.h, itt.h). Pushing
 * and popping may be called by any thread; they take no lock, and allocate nothing after the first
 * use of a name. */
#ifndef KP_EMIT_H
#define KP_EMIT_H

#include "base/base.h"

#include <ckineto/function.h>

/** One of the two interfaces, as a profiler uses it. */
typedef struct kp_emitter {
    const char *name;     /* "NVTX" */
    const char *variable; /* the environment variable that names the tool's library */
    /** Find and initialise the tool, once in a process, also when several threads call at once. A
     * forked child inherits the open tool. KINETO_E_NOT_FOUND: no tool is named;
     * KINETO_E_PERMISSION: one is, but the program runs with raised privileges; KINETO_E_PLUGIN,
     * KINETO_E_FORMAT, KINETO_E_UNSUPPORTED: the tool failed. A call after a failure tries
     * again. */
    kineto_status (*open)(kineto_error *err);
    /** Begin a range on this thread. @return true: the tool got it, call pop at its end. False also
     * before open. `text` is UTF-8 and borrowed for the call. */
    bool (*push)(const char *text);
    /** End the innermost range of this thread. Does nothing before open. */
    void (*pop)(void);
    /** A moment, without a duration. */
    void (*mark)(const char *text);
} kp_emitter;

extern const kp_emitter kp_nvtx_emitter, kp_itt_emitter;

/* ---- emit_tool.c: a library that the environment names -------------------------------------------- */

typedef struct kp_tool {
    const char *name, *variable;
    const char *start; /* advice how to run under such a tool, for messages */
    /** Find the library's functions and initialise it. *entered: code of the library has run, so
     * that it must not be unloaded. The lock is held. */
    kineto_status (*attach)(void *library, const char *path, bool *entered, kineto_error *err);
    uint32_t is_open; /* atomic */
    kb_lock lock;
} kp_tool;

/** As kp_emitter.open. */
kineto_status kp_tool_open(kp_tool *tool, kineto_error *err);
/** Is it open? True implies that all writes of attach are visible (release/acquire on is_open). */
KB_INLINE bool kp_tool_is_open(const kp_tool *tool) { return kb_load_acquire(&tool->is_open) != 0; }

/* ---- emit_text.c: names of ranges ------------------------------------------------------------ */

/** The operator that made an input, and which of its outputs it was; {0, -1} unknown. */
typedef struct kp_producer {
    uint64_t op_id;
    int32_t output;
} kp_producer;

typedef struct kp_range_info {
    const char *name;
    int64_t sequence_number;    /* negative: none */
    uint64_t op_id;             /* 0: none */
    const kineto_input *inputs; /* their sizes are listed; lists of tensors one by one */
    const kp_producer *producers;
    uint32_t input_count, producer_count;
} kp_range_info;

/** "NAME[, seq = N][, op_id = H][, sizes = [[2, 3], []]][, input_op_ids = [(H,0), (0,-1)]]", as
 *  PyTorch calls ranges, into `bytes` bytes; NUL-terminated if there are any. What does not fit is
 *  cut off, not within a UTF-8 sequence. @return bytes written without the NUL. */
size_t kp_range_text(char *out, size_t bytes, const kp_range_info *info);

/* ---- emit_observer.c: operators as ranges ---------------------------------------------------- */

/** Callbacks that show operators to an emitter. One may serve several threads. */
typedef struct kp_emission kp_emission;

/** @param shapes show sizes of inputs and their producers (NVTX only: ITT gets the name). The
 * callback then needs inputs, outputs and ids. @return errors of kp_emitter.open;
 * KINETO_E_MEMORY. */
kineto_status kp_emission_open(const kp_emitter *emitter, bool shapes, kp_emission **out,
                               kineto_error *err);
/** The callback to be added for all threads or for one; free the emission after it is removed. */
kineto_function_callback kp_emission_callback(kp_emission *emission, uint32_t scopes);
void kp_emission_free(kp_emission *emission);

#endif

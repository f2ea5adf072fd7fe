/* What the files about operators share: function.c (recording one), function_part.c (its part in a
 * record), function_extras.c (stacks, counters), callbacks.c, operators.c and throttle.c. */
#ifndef KR_FUNCTION_H
#define KR_FUNCTION_H

#include "record/encode.h"
#include "record/perf.h"
#include "record/unwind.h"

/* kineto_function.state */
#define KR_FUNCTION_RECORDED 1u
#define KR_FUNCTION_PUSHED   2u   /* its id was passed on to plug-ins */
#define KR_FUNCTION_USER 4u   /* on the stack of the user's ids */
#define KR_FUNCTION_ASYNC 8u
#define KR_FUNCTION_CALLS    16u /* callbacks have to run at its end */
#define KR_FUNCTION_COUNTED 32u /* hardware counters were read when it began */

#define KR_FUNCTION_IDS 1024u /* ids that a thread reserves at a time */

/** A new id, unique in the recording. c is the thread's own cursor. */
uint64_t kr_function_ids_refill(kr_cursor *c);
KB_INLINE uint64_t kr_function_id(kr_cursor *c)
{
    if (KINETO_LIKELY(c->function_next != c->function_end))
        return c->function_next++;
    return kr_function_ids_refill(c);
}

/** Recompute c->functions_fast after a change of number, tsc or functions_off. */
void kr_functions_update(kr_cursor *c);
/** Number of the thread, assigned at the first call. */
uint32_t kr_thread_number_new(kr_cursor *c);
KB_INLINE uint32_t kr_thread_number(kr_cursor *c)
{
    return KINETO_LIKELY(c->number) ? c->number : kr_thread_number_new(c);
}

/* An operator to be recorded. */
typedef struct kr_operator {
    kineto_function_info info;
    const uint64_t *stack; /* return addresses, innermost first */
    uint32_t stack_count;
} kr_operator;

/** First word of a tensor. */
KB_INLINE uint64_t kr_tensor_word(const kineto_tensor *t, uint32_t flags)
{
    return kf_input_word(KINETO_INPUT_TENSOR, flags, t->rank) | (uint64_t)t->dtype << 32 |
           (uint64_t)t->device_type << 40 | (uint64_t)(uint16_t)t->device_index << 48;
}

/* ---- function_part.c: NULL when it would pass `limit` ---- */
uint64_t *kr_inputs_write(uint64_t *at, const uint64_t *limit, const kineto_input *inputs,
                          uint32_t count, uint32_t wants);
/** The whole part of an operator. */
uint64_t *kr_part_write(kr_cursor *c, uint64_t *at, const uint64_t *limit, const kr_operator *op,
                        uint32_t wants);
/** Loose args; texts that are empty, and keys without room in the dictionary, are omitted. */
uint64_t *kr_loose_int_write(uint64_t *at, const uint64_t *limit, const char *key, int64_t value);
uint64_t *kr_loose_text_write(uint64_t *at, const uint64_t *limit, const char *key,
                              const char *text);
uint64_t *kr_counters_write(uint64_t *at, const uint64_t *limit, const kr_perf_plan *plan,
                            const kr_perf_values *values);

/* ---- function.c ---- */
/** Where an operator was called: a frame of the recorder, and the return address into the program.
 *  Between them there is at most one more frame of the recorder. */
typedef struct kr_place {
    const void *frame, *caller;
} kr_place;
#define KR_CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/** Record its beginning, if a window wants that. */
void kr_function_record(kineto_function *f, kineto_site *site, const kineto_function_info *info,
                        const kr_place *place);

/** Record the outputs of a running operator, if ids of tensors are wanted. */
void kr_function_outputs(const kineto_function *f, const kineto_input *outputs, size_t count);
/** Does a window record operators of this scope, on this thread? */
bool kr_function_recorded(uint32_t scope);
/** A new id, when no record call is in progress; 0: this thread cannot have one. */
uint64_t kr_function_id_slow(void);

/* ---- function_extras.c ---- */
/** Capture the stack above an operator into op->stack; `room` holds KR_STACK_MAX addresses. */
void kr_stack_take(kr_operator *op, const kr_place *place, uint64_t *room);
/** Read hardware counters for a range that was just opened; record the differences and end it. */
void kr_counters_begin(kineto_function *f);
void kr_counters_end(kineto_function *f);
/** The thread with this cursor ends. */
void kr_extras_thread_exit(kr_cursor *c);

/* ---- callbacks.c ---- */
/** Run the callbacks and record the operator; the same at its end. */
void kr_callbacks_begin(kineto_function *f, kineto_site *site, const kineto_function_info *info,
                        const kr_place *place);
void kr_callbacks_end(kineto_function *f);
/** The thread with this cursor ends. */
void kr_callbacks_thread_exit(kr_cursor *c);
#endif

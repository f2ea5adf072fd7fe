/* Native call stacks of the calling thread, and the modules that their addresses lie in.
 *
 * How a caller is found is a property of each return address: by the frame pointer, if the code
 * keeps one; otherwise mostly at a constant distance from the stack pointer, which the unwinder's
 * tables contain. The unwinder itself is correct but slow. So, by default, a stack with an unknown
 * address is captured by the unwinder, and for each of its addresses the recorder learns how the
 * caller could have been found; from then on a frame takes some nanoseconds. */
#ifndef KR_STACK_H
#define KR_STACK_H

#include "base/base.h"

#define KR_STACK_MAX 128u /* addresses of one stack */

typedef enum kr_stack_by {
    KR_STACK_AUTO = 0,
    KR_STACK_FRAMES = 1, /* frame pointers only: callers in code without them are missing */
    KR_STACK_TABLES = 2  /* the unwinder only */
} kr_stack_by;

/** Bounds of a thread's stack as far as they are known; zeroed at first. One per thread, owned by
 *  the caller. */
typedef struct kr_stack_thread {
    uint64_t low, high;
} kr_stack_thread;

/** "auto", "frames", "tables"; false for another word. threads: hot. */
bool kr_stack_by_parse(const char *word, kr_stack_by *by);
/** The value of CKINETO_STACK_BY; AUTO if it is not set. threads: hot. */
kr_stack_by kr_stack_by_setting(void);
/** Before the first stack: load the unwinder (libgcc_s, of the compiler) and list the modules. AUTO
 *  without an unwinder becomes FRAMES. May be called again.
 *  @return KINETO_E_UNSUPPORTED for TABLES where there is no unwinder, KINETO_E_MEMORY. threads:
 * any. */
kineto_status kr_stack_prepare(kr_stack_by by, kineto_error *err);
/** How stacks are captured, once prepared. threads: hot. */
kr_stack_by kr_stack_is_by(void);

/** Return addresses above a function, innermost first: where it was called, and so on outwards;
 * the callers of main or of a thread's function are omitted after one address of the C library.
 *  @param frame  __builtin_frame_address(0) of that function; it must be one of the callers of
 * this.
 *  @return how many; at most limit and KR_STACK_MAX. 0 before kr_stack_prepare. threads: hot. */
uint32_t kr_stack_capture(kr_stack_thread *thread, const void *frame, uint64_t *addresses,
                          uint32_t limit);

/* ---- unwind_cfi.c ---------------------------------------------------------------------------- */

/** Where the caller's frame is, for code without a frame pointer. */
typedef struct kr_frame_size {
    uint64_t bytes;    /* from its stack pointer to its caller's */
    uint64_t frame_at; /* where it keeps its caller's frame pointer, below its caller's stack
                          pointer; 0: it is not changed */
} kr_frame_size;
/** For the code at `address`; `entry` is its FDE in .eh_frame, `start` its first address. False:
 *  the distance is not constant, or this processor is not supported. threads: hot. */
bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out);

/* ---- modules.c ------------------------------------------------------------------------------- */

#define KR_BUILD_ID_BYTES 32u
/** A piece of code: an executable mapping. */
typedef struct kr_module {
    uint64_t start, end;
    uint64_t file_offset;    /* of start */
    uint32_t build_id_bytes; /* 0: unknown */
    uint8_t build_id[KR_BUILD_ID_BYTES];
    const char *path; /* "[vdso]"; "" for code that was generated in memory */
    bool is_gone;     /* the file at path was replaced or removed since it was mapped */
} kr_module;
typedef void (*kr_module_visit)(void *context, const kr_module *module);

/** Visit all executable mappings in the order of addresses, and store their ranges.
 *  @param visit  NULL: only store the ranges for stacks; kr_modules_are_stale stays as it is.
 * threads: any; not in a signal handler. */
kineto_status kr_modules_note(kr_module_visit visit, void *context, kineto_error *err);
/** Was a stack captured with an address outside all modules noted so far? Then a library was opened
 *  since, and they have to be noted again. threads: hot. */
bool kr_modules_are_stale(void);

/* For unwind.c: */
typedef enum kr_module_is { KR_MODULE_UNKNOWN, KR_MODULE_CODE, KR_MODULE_RUNTIME } kr_module_is;
/** Of a noted module; RUNTIME: the C library and those that start threads. threads: hot. */
kr_module_is kr_module_of(uint64_t address);
void kr_modules_set_stale(void);
/** unwind.c: forget what was learned about return addresses. */
void kr_stack_forget(void);
/** The mapping that holds an address. False: none, or the list cannot be read. threads: hot. */
bool kr_mapping_of(uint64_t address, uint64_t *start, uint64_t *end);
#endif

/* Generated traces with the text that libkineto writes: shared by the files of bench/gen.
 *
 * The program is simulated step by step: threads that run operators, streams that run kernels. Both
 * ends of the file (host rows first, device rows after them) come from the same simulation, which
 * is run once for each section instead of being kept: so a trace of any size takes little memory.
 */
#ifndef GEN_H
#define GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gen_layout { GEN_TORCH1_8, GEN_TORCH1_13, GEN_TORCH2 } gen_layout;

/* splitmix64 instead of random(), so that a seed gives the same trace on every system. */
typedef struct gen_random {
    uint64_t state;
} gen_random;

static inline uint64_t gen_next(gen_random *r)
{
    uint64_t x = r->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
/* 0 … n-1 */
static inline uint32_t gen_below(gen_random *r, uint32_t n)
{
    return (uint32_t)(((gen_next(r) >> 32) * n) >> 32);
}
/* 0 … n-1, small ones far more often, as names in real traces. */
static inline uint32_t gen_skewed(gen_random *r, uint32_t n)
{
    uint64_t u = gen_next(r) >> 44, squared = (u * u) >> 20; /* 20 bits */
    return (uint32_t)(((squared * squared) >> 20) * n >> 20);
}
static inline bool gen_chance(gen_random *r, uint32_t permille)
{
    return gen_below(r, 1000) < permille;
}

/* ---- names.c: all texts ------------------------------------------------------------------------ */

typedef struct gen_text {
    const char *data; /* escaped for JSON */
    uint32_t size;
} gen_text;

typedef enum gen_family {
    GEN_ELEMENTWISE,
    GEN_REDUCE,
    GEN_GEMM,
    GEN_CONV,
    GEN_FUSED,
    GEN_NCCL,
    GEN_MEMCPY,
    GEN_MEMSET,
    GEN_FAMILIES
} gen_family;

typedef struct gen_range {
    uint32_t first, count;
} gen_range;

/* Inputs of an operator, as the text after each key. */
typedef struct gen_inputs {
    gen_text dims, types, concrete;
} gen_inputs;

/* One operator of a call tree: the operators that it calls, and the kernels that it launches. */
typedef struct gen_node {
    uint32_t name;
    int32_t child, next; /* -1: none */
    uint8_t launches[4]; /* families */
    uint8_t launch_count;
    bool allocates;
} gen_node;

/* An operator of the model: forward and backward. */
typedef struct gen_call {
    uint32_t weight;
    int32_t forward, backward;   /* nodes */
    uint32_t evaluate, gradient; /* names of the autograd nodes */
    uint32_t module, function;   /* names of Python frames */
} gen_call;

typedef struct gen_names {
    gen_text *texts;
    uint32_t count, capacity;
    gen_node *nodes;
    int32_t node_count, node_capacity;
    gen_call calls[32];
    uint32_t call_count, weight_sum;
    gen_range kernels[GEN_FAMILIES];
    gen_range annotations, frames, builtins, modules;
    int32_t optimizer, accumulate, all_reduce, copy_in, pin; /* nodes */
    uint32_t backward, forward, optimizer_step, zero_grad, next_batch, pad, bucket;
    gen_inputs *inputs;
    gen_text *stacks; /* "Call stack" of the first layout */
    bool failed;      /* out of memory */
} gen_names;

#define GEN_INPUTS 512u
#define GEN_STACKS 160u

bool gen_names_make(gen_names *names, gen_layout layout, uint64_t seed);
void gen_names_free(gen_names *names);

/* ---- step.c: the events of a step -------------------------------------------------------------- */

typedef enum gen_kind {
    GEN_OPERATOR,
    GEN_ANNOTATION,
    GEN_FRAME,   /* Python function */
    GEN_MODULE,  /* Python frame of a module */
    GEN_MEMORY,  /* allocation or release */
    GEN_RUNTIME, /* call without work on a device */
    GEN_LAUNCH,  /* call, with the work it starts */
    GEN_SYNC     /* call that waits, with the row that shows it */
} gen_kind;

enum { GEN_MAIN, GEN_AUTOGRAD, GEN_LOADER, GEN_THREADS };
enum { GEN_COMPUTE, GEN_COLLECTIVE, GEN_COPY, GEN_WAITING, GEN_STREAMS };

typedef struct gen_event {
    uint8_t kind, thread, stream, family;
    uint32_t name;  /* GEN_RUNTIME, GEN_LAUNCH: row of gen_runtime */
    uint32_t work;  /* GEN_LAUNCH: name of the kernel; GEN_FRAME: Python id */
    uint32_t shape; /* which inputs, grid, call stack … */
    int64_t start_ns, end_ns, work_start_ns, work_end_ns;
    int64_t sequence; /* -1: none */
    uint64_t correlation, external;
    int64_t bytes;
    uint32_t flow;   /* forward to backward, 0 none */
    uint32_t parent; /* Python id of the parent, 0 none */
    bool flow_ends;
} gen_event;

typedef struct gen_runtime_call {
    const char *name;
    uint32_t cbid;
} gen_runtime_call;
extern const gen_runtime_call gen_runtime[];

typedef struct gen_list {
    gen_event *data;
    uint32_t count, capacity;
} gen_list;

typedef struct gen_step {
    const gen_names *names;
    gen_layout layout;
    gen_random random;
    gen_list host, device; /* of this step */
    uint32_t number;
    uint64_t events, budget; /* JSON events of this step: so far, and wanted */
    int64_t start_ns, now_ns[GEN_THREADS], free_ns[GEN_STREAMS];
    int64_t first_ns[GEN_STREAMS], last_ns[GEN_STREAMS]; /* busy in this step; 0: not */
    uint64_t correlation, external;
    int64_t sequence;
    uint32_t flow, python, python_parent;
    int64_t allocated;
    uint32_t forward[1024]; /* host events that have a backward */
    uint8_t forward_call[1024];
    uint32_t forward_count;
    bool failed; /* out of memory */
} gen_step;

void gen_step_init(gen_step *step, const gen_names *names, gen_layout layout, uint64_t seed);
/* Simulate the next step so that it has exactly `budget` JSON events. */
void gen_step_run(gen_step *step, uint64_t budget);
void gen_step_free(gen_step *step);

/* ---- write.c: the text of a layout --------------------------------------------------------------- */

typedef struct gen_writer {
    int fd; /* -1: count only */
    gen_layout layout;
    const gen_names *names;
    char *buffer, *at;
    uint64_t events, bytes, index; /* index: "Ev Idx" */
    bool failed;
    int error;
} gen_writer;

bool gen_writer_init(gen_writer *w, int fd, gen_layout layout, const gen_names *names);
/* Write the buffered text to the file. */
void gen_writer_flush(gen_writer *w);
void gen_writer_free(gen_writer *w);

void gen_write_header(gen_writer *w);
/* Host rows of one thread, or of all (-1). */
void gen_write_host(gen_writer *w, const gen_step *step, int thread);
/* The first layout keeps memory events apart. */
void gen_write_memory(gen_writer *w, const gen_step *step);
void gen_write_device(gen_writer *w, const gen_step *step);
void gen_write_device_annotations(gen_writer *w, const gen_step *step);
/* Rows' names and the end of the file. */
void gen_write_rows(gen_writer *w, int64_t start_ns, int64_t end_ns);
void gen_write_footer(gen_writer *w);

#define GEN_START_NS INT64_C(1683564901548591000)

#endif

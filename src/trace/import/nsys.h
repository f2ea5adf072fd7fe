/* An export of Nsight Systems that is being read (nsys export --type sqlite). */
#ifndef KT_NSYS_H
#define KT_NSYS_H

#include "trace/import/database.h"

enum {
    NSYS_CONTEXT,
    NSYS_REGISTERS,
    NSYS_SHARED,
    NSYS_BLOCKS_PER_SM,
    NSYS_WARPS_PER_SM,
    NSYS_GRID,
    NSYS_BLOCK,
    NSYS_GRAPH,
    NSYS_GRAPH_NODE,
    NSYS_BYTES,
    NSYS_BANDWIDTH,
    NSYS_SYNC_KIND,
    NSYS_WAIT_STREAM,
    NSYS_WAIT_RECORD,
    NSYS_WAIT_EVENT,
    NSYS_STREAM,
    NSYS_DEVICE,
    NSYS_RETURNS,
    NSYS_DOMAIN,
    NSYS_CATEGORY,
    NSYS_PAYLOAD,
    NSYS_SIZE,
    NSYS_PEER,
    NSYS_TAG,
    NSYS_VALUE,
    NSYS_ADDRESS,
    NSYS_DEVICE_TYPE,
    NSYS_DEVICE_ID,
    NSYS_MEMORY_BYTES,
    NSYS_KEYS
};

typedef struct nsys {
    kt_database *d;
    kt_import m;
    kt_texts texts, copy_kinds, memory_kinds;
    kb_map gpus;         /* pid << 32 | CUDA's number of a device → number in the machine + 1 */
    kb_map multiprocessors; /* device → how many */
    kb_map kernel_args;  /* hash of sizes → set of arguments */
    kb_map plain_names;  /* string id of "cudaLaunchKernel_v7000" → id without the version */
    int64_t base_ns;     /* of the machine's clock, since 1970 */
    int64_t last_ns;     /* the latest end of an event so far */
    uint32_t keys[NSYS_KEYS];
    uint64_t bad;        /* rows with a value of a wrong type */
} nsys;

/* The first columns of every list of columns of a table with ranges. */
#define NSYS_SPAN "!start", "!end"
enum { NSYS_START, NSYS_END, NSYS_FIRST };

static inline int64_t nsys_pid(int64_t global_id) { return (int64_t)((uint64_t)global_id >> 24 & 0xffffff); }
static inline int64_t nsys_tid(int64_t global_id) { return (int64_t)((uint64_t)global_id & 0xffffff); }

/** Sets start and end from the first two columns; false: the row is left out. A range without an end gets that
 *  of the last event so far, flagged. */
bool nsys_read_span(nsys *n, kt_rows *rows, kt_row *row);
/** Number in the machine of a device of a process. */
int64_t nsys_find_device(const nsys *n, int64_t pid, int64_t device);
/** Appends the row with the staged arguments. */
kineto_row nsys_append(nsys *n, const kt_row *row);

/** Kernels, copies, fills, waits, graphs, memory and metrics of devices. */
void nsys_read_device_tables(nsys *n);
/** Calls of CUDA, of libraries and of the system; ranges. */
void nsys_read_host_tables(nsys *n);
#endif

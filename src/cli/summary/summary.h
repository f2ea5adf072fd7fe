/* A trace in numbers, for `info`, `record` and the verbs that report losses: totals by name, busy
 * devices, the ledger (summary.c), counters (counters.c) and memory (memory.c). Each kc_…_make
 * reads the trace once; its result is freed with kc_…_free, which also accepts a zeroed one.
 * Names are string ids of the trace, which must outlive the result. */
#ifndef KC_SUMMARY_H
#define KC_SUMMARY_H

#include "analyze/dataset/watched_threads.h"
#include "base/base.h"
#include <ckineto/trace.h>

#include <stdio.h>

/* ---- summary.c: totals, devices, ledger ------------------------------------------------------ */
#define KC_TOP 10u /* rows of each table, unless there is less room */
/** Rows shown of each table: KC_TOP or fewer. */
extern uint32_t kc_shown_rows;

/** The head of a table of four columns, after an empty line. */
void kc_put_table_head(FILE *out, const char *title, const char *a, const char *b, const char *c);
/** "… and N more" rows. */
void kc_put_more(FILE *out, uint64_t count);

/* Activities of one name. */
typedef struct kc_stat {
    uint32_t name_id;
    uint64_t count;
    int64_t total_ns, min_ns, max_ns;
} kc_stat;
typedef KB_VEC(kc_stat) kc_stat_list;

/* One device. Its busy time is the union of its work: kernels, copies and memsets, the kinds that
 * analyses count as work. */
typedef struct kc_device {
    uint32_t process;
    /* activities of such work */
    uint64_t count;
    int64_t busy_ns, busy_until_ns;
    /* The interval that busy_ns is a share of: the window of its trace and all of its work. */
    int64_t from_ns, to_ns;
} kc_device;

/* A category that does not name a kind: one of a plug-in, or of another tool. */
typedef struct kc_category {
    uint32_t name_id;
    uint64_t count;
} kc_category;

/* ---- processes.c: processes that have one line together ---- */
typedef struct kc_folded {
    uint8_t *is_folded; /* by process; NULL: none is */
    uint32_t count;
    int64_t ns; /* CPU time of all of them */
} kc_folded;
/** Finds processes that recorded nothing but states, samples and waits, and used 1 % of all CPU time at
 *  most, if there are several. False: out of memory. */
bool kc_folded_make(const kineto_trace *trace, const ka_watched *w, kc_folded *out);
void kc_folded_free(kc_folded *f);
static inline bool kc_is_folded(const kc_folded *f, uint32_t process)
{
    return f->is_folded && f->is_folded[process];
}
/** "7 more processes (bash, env) took 12 ms of CPU time"; nothing without any. */
void kc_folded_print(const kc_folded *f, const kineto_trace *trace, const char *indent, FILE *out);

typedef struct kc_summary {
    int64_t start_ns, end_ns; /* the window */
    /* The window and all activities: some reach beyond the window. */
    int64_t first_ns, last_ns;
    uint64_t activities, steps, kinds[KINETO_KIND_COUNT + 1], flows[8], dangling_flows;
    /* longest total first */
    kc_stat_list host, kernels, other_device;
    /* the same, by self time */
    kc_stat_list python;
    ka_watched watched; /* threads, and functions that were sampled */
    kc_folded folded;
    KB_VEC(kc_device) devices;
    KB_VEC(kc_category) categories;
} kc_summary;

/** Saturating sum: times come from files and may have any value. */
static inline int64_t kc_sum_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

kineto_status kc_summary_make(const kineto_trace *trace, kc_summary *out, kineto_error *err);
/** The mean, rounded to the nearest nanosecond. */
int64_t kc_mean_ns(const kc_stat *s);
void kc_summary_free(kc_summary *s);
/** Its tables and devices. */
void kc_summary_tables(const kc_summary *s, const kineto_trace *trace, FILE *out);
/** Ledger lines; unless `all`, only those that report losses or trouble. */
void kc_ledger_print(const kineto_trace *trace, bool all, FILE *out);
/** How much of the requested time a ring kept, and how many events were overwritten, as the ledger of its trace has
 *  it: one line each, which begins with `before`. Nothing of a ring that is whole, and of other traces. */
void kc_ring_print(const kineto_trace *trace, const char *before, FILE *out);
/** That the clocks of several hosts were aligned, as the ledger of a merged trace has it: a line that begins with `before`. */
void kc_clocks_print(const kineto_trace *trace, const char *before, FILE *out);
/** Only lines that count losses. */
void kc_ledger_print_losses(const kineto_trace *trace, FILE *out);
/** The same if events, or those of whole processes, are missing; else nothing. */
void kc_losses_print(const kineto_trace *trace, FILE *out);
/** "device 0 python (GPU 0), rank 1". */
void kc_put_process(FILE *out, const kineto_trace *trace, uint32_t process);
double kc_busy_percent(const kc_device *device);

/* ---- threads.c: states of threads, sampled functions ----------------------------------------- */
void kc_threads_print(const ka_watched *w, const kc_folded *folded, FILE *out);
void kc_threads_json(const ka_watched *w, kb_json *j);

/* ---- locks.c: locks that threads waited for --------------------------------------------------- */
/** Nothing if there are none. */
void kc_locks_print(const kineto_trace *trace, FILE *out);

/* ---- counters.c: sampled counters ------------------------------------------------------------ */
/* One series of one counter of one process or device. */
typedef struct kc_counter {
    uint32_t process, name_id;
    /* order of appearance */
    size_t number;
    /* key "power [W]": series "power", unit "W" */
    kineto_string key, series, unit;
    uint64_t samples; /* numeric ones */
    /* min, max and mean: of the finite samples */
    double min, max, mean, last;
    uint64_t finite;
} kc_counter;
typedef struct kc_counters {
    KB_VEC(kc_counter) list; /* by process, then by number */
    kb_map by_key;
    kb_arena keys;
} kc_counters;
kineto_status kc_counters_make(const kineto_trace *trace, kc_counters *out, kineto_error *err);
void kc_counters_free(kc_counters *c);
void kc_counters_print(const kc_counters *c, const kineto_trace *trace, FILE *out);
void kc_counters_json(const kc_counters *c, const kineto_trace *trace, kb_json *j);

/* ---- memory.c: allocations ------------------------------------------------------------------- */
/* The memory of one device (or the CPU's), as one process used it. If the events are a sample, the
 * estimates are what they represent; else they equal the sums. */
typedef struct kc_memory_device {
    uint32_t process;
    /* PyTorch's numbers; -1: the only one */
    int64_t device_type, device;
    uint64_t allocations, releases, largest_bytes;
    double allocated_bytes, released_bytes;
    double allocations_estimate, allocated_bytes_estimate;
    double releases_estimate, released_bytes_estimate;
    bool has_totals;
    int64_t peak_bytes, last_total_bytes;
} kc_memory_device;
typedef struct kc_memory {
    KB_VEC(kc_memory_device) devices; /* in the order of appearance */
    kb_map by_key;
    /* 0 or 1: not sampled */
    uint64_t sampling_bytes;
} kc_memory;
kineto_status kc_memory_make(const kineto_trace *trace, kc_memory *out, kineto_error *err);
void kc_memory_free(kc_memory *m);
void kc_memory_print(const kc_memory *m, const kineto_trace *trace, FILE *out);
void kc_memory_json(const kc_memory *m, const kineto_trace *trace, kb_json *j);
#endif

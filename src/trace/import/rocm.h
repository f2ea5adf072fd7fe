/* What databases of rocpd and the JSON of rocprofv3 have in common: the words of rocprofiler-sdk. */
#ifndef KT_ROCM_H
#define KT_ROCM_H

#include "trace/import/activities.h"

typedef struct kt_rocm {
    kt_import m;
    kb_map kernel_args; /* hash of sizes → set of arguments */
    kb_map allocations; /* address → bytes, of memory of devices that is in use */
    uint32_t grid, block, shared, queue, bytes, bandwidth, type, id, address, size, name;
    uint64_t bad; /* rows with a value that is missing or of a wrong type */
} kt_rocm;

kineto_status kt_rocm_begin(kt_rocm *r, const kt_import_source *source, const char *tool, kineto_error *err);
void kt_rocm_free(kt_rocm *r);

/** Kind and category of a call or range, by the name of its domain: "HIP_RUNTIME_API". Markers are ranges of the
 *  user. */
void kt_rocm_classify(kt_rocm *r, kineto_string domain, kt_row *row);
bool kt_rocm_is_marker(kineto_string domain);

/** A launch: sizes in work items, as ROCm counts. */
typedef struct kt_rocm_launch {
    int64_t grid[3], block[3], shared;
} kt_rocm_launch;
/** Stages the arguments of a kernel, with Kineto's names: the grid in blocks. */
void kt_rocm_put_launch(kt_rocm *r, const kt_rocm_launch *launch);

/** "Memcpy HtoD (Host -> Device)" of "MEMORY_COPY_HOST_TO_DEVICE". */
uint32_t kt_rocm_copy_name(kt_rocm *r, kineto_string operation);
/** Stages bytes and bandwidth of a copy. */
void kt_rocm_put_copy(kt_rocm *r, int64_t bytes, const kt_row *row);

/** An allocation or a release on a thread, as Kineto writes them. Returns false: a release of what is not known.
 *  @param bytes  of a release: 0, they are those of the allocation */
bool kt_rocm_append_memory(kt_rocm *r, const kt_row *at, int64_t device, int64_t address, int64_t bytes,
                           bool is_release);

/** Appends {"id": 0, "name": …, "numSms": …} of a device; compute_units 0: unknown. */
void kt_rocm_describe(kt_rocm *r, int64_t device, kineto_string name, int64_t compute_units);
/** What is the same in all files: the recorder, and that times count from the start of the machine. */
void kt_rocm_put_header(kt_rocm *r, const char *recorder);
#endif

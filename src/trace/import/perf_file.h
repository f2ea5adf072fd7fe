/* A file of `perf record` (perf.data): its events (attributes), features and records. The file is
 * untrusted; every position in it is checked before it is used. Layouts: perf_event_open(2), and
 * tools/perf/Documentation/perf.data-file-format.txt of the kernel. `perf record --threads` writes
 * several files into a directory: one as above, and others that have only records.
 *
 * perf_file.c reads header and features and lists the records in order of time; perf_sample.c reads
 * one record. All texts and addresses point into the file, or into what was decompressed from it. */
#ifndef KT_PERF_FILE_H
#define KT_PERF_FILE_H

#include "trace/model/model.h"

#include <linux/perf_event.h>

/* One event that was recorded: `perf record -e`. */
typedef struct kt_perf_attr {
    uint32_t type, branch_has_index;
    uint64_t config, period; /* period: a frequency if is_freq */
    uint64_t sample_type, read_format, registers; /* registers: mask of those that are copied */
    int32_t clock;                                /* CLOCK_…; -1: the scheduler's clock */
    bool is_freq, has_sample_id, has_switches, has_branch_counters;
    kineto_string name;
} kt_perf_attr;

/* The bits of features in the header (HEADER_… of perf). */
typedef enum kt_perf_feature {
    KT_PERF_TRACING_DATA = 1,
    KT_PERF_BUILD_ID = 2,
    KT_PERF_HOSTNAME = 3,
    KT_PERF_OSRELEASE = 4,
    KT_PERF_VERSION = 5,
    KT_PERF_ARCH = 6,
    KT_PERF_CMDLINE = 11,
    KT_PERF_EVENT_DESC = 12,
    KT_PERF_DIR_FORMAT = 24,
    KT_PERF_COMPRESSED = 27,
    KT_PERF_CLOCK_DATA = 29,
    KT_PERF_FEATURES = 64
} kt_perf_feature;

typedef struct kt_perf_record {
    uint64_t time_ns; /* 0: none was recorded */
    const uint8_t *at;
} kt_perf_record;

typedef struct kt_perf_build_id {
    kineto_string path, id;
} kt_perf_build_id;

/* A file of a recording. */
typedef struct kt_perf_part {
    kineto_string bytes;
    const char *name; /* for messages; NULL: it is the only one */
} kt_perf_part;

typedef struct kt_perf_file {
    const uint8_t *base; /* of the file with the header */
    size_t size;
    KB_VEC(kt_perf_attr) attrs;
    kb_map attr_of_id;                        /* id of an event → index of its attribute */
    kineto_string features[KT_PERF_FEATURES]; /* by kt_perf_feature; empty: absent */
    KB_VEC(kt_perf_build_id) build_ids;
    kb_map build_id_of_path; /* hash of the path → index */
    KB_VEC(kt_perf_record) records; /* by time */
    uint8_t *decompressed;
    size_t decompressed_bytes, decompressed_capacity;
    KB_VEC(size_t) decompressed_ends; /* of the records of each file */
    bool is_cut;                     /* it ends inside a record */
    bool is_unfinished;              /* perf record did not finish the header */
    uint64_t aux_bytes;              /* hardware traces, which are not read */
    uint64_t bad_records;
} kt_perf_file;

/** Reads everything but the content of records. The first part has the header; there is at least that
 *  one. KINETO_E_FORMAT with the offset; KINETO_E_MEMORY, KINETO_E_UNSUPPORTED, KINETO_E_LIMIT. Free the
 *  file in any case. */
kineto_status kt_perf_file_read(const kt_perf_part *parts, size_t count, kt_perf_file *file,
                                kineto_error *err);
void kt_perf_file_free(kt_perf_file *file);
/** The text of a feature that is one string; empty: absent. */
kineto_string kt_perf_file_text(const kt_perf_file *file, kt_perf_feature feature);
/** The build id of the file at `path`; empty: unknown. */
kineto_string kt_perf_file_build_id(const kt_perf_file *file, kineto_string path);
/** States the build id of a path, unless one is known. False: out of memory. */
bool kt_perf_file_add_build_id(kt_perf_file *file, kineto_string path, kineto_string id);
/** The process runs on a machine of the type of the recording's. */
bool kt_perf_file_is_of_this_arch(const kt_perf_file *file);

/* ---- bounded reading ------------------------------------------------------------------------- */

/* A position that never passes `end`. */
typedef struct kt_perf_cursor {
    const uint8_t *at, *end;
    bool failed; /* something was not there; what was read then is 0 */
} kt_perf_cursor;
static inline const uint8_t *kt_perf_take(kt_perf_cursor *c, uint64_t bytes)
{
    const uint8_t *at = c->at;
    if (c->failed || bytes > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        return NULL;
    }
    c->at += bytes;
    return at;
}
static inline uint64_t kt_perf_u64(kt_perf_cursor *c)
{
    uint64_t value = 0;
    const uint8_t *at = kt_perf_take(c, sizeof value);
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}
static inline uint32_t kt_perf_u32(kt_perf_cursor *c)
{
    uint32_t value = 0;
    const uint8_t *at = kt_perf_take(c, sizeof value);
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}
/** The rest as a text that ends at its first zero. */
static inline kineto_string kt_perf_rest_text(const kt_perf_cursor *c)
{
    const char *text = (const char *)c->at;
    return (kineto_string){text, strnlen(text, (size_t)(c->end - c->at))};
}

/* ---- perf_sample.c: one record --------------------------------------------------------------- */

typedef struct kt_perf_sample {
    uint32_t pid, tid, cpu, attr;
    uint64_t ip, time_ns, period;
    const uint8_t *chain; /* words of 8 bytes, unaligned */
    uint64_t chain_count;
    const uint8_t *raw;
    uint32_t raw_bytes;
    uint64_t registers_abi;   /* PERF_SAMPLE_REGS_ABI_… */
    const uint8_t *registers; /* one for each bit of the attribute's mask */
    const uint8_t *stack;
    uint64_t stack_bytes;
} kt_perf_sample;

/* What records other than samples end with, where sample_id_all is set. */
typedef struct kt_perf_id {
    uint32_t pid, tid, cpu;
    uint64_t time_ns;
    size_t bytes; /* of it */
} kt_perf_id;

static inline struct perf_event_header kt_perf_header(const uint8_t *record)
{
    struct perf_event_header header;
    memcpy(&header, record, sizeof header);
    return header;
}
/** False: malformed. `attr` is that of its id. */
bool kt_perf_sample_read(const kt_perf_file *file, const uint8_t *record, kt_perf_sample *out);
/** The id at the end of a record; all 0: it has none. */
kt_perf_id kt_perf_id_read(const kt_perf_file *file, const uint8_t *record);
#endif

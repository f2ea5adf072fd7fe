/* Reading Chrome JSON: what its parts share. */
#ifndef KT_READ_H
#define KT_READ_H

#include "trace/json_text.h"
#include "trace/model.h"

/* A begin that waits for its end; stacks of them, linked by `below`. */
typedef struct kt_pending {
    kineto_row row;
    uint64_t below; /* index + 1 */
    bool closed;
    bool open_end; /* its args say that it had not ended */
} kt_pending;

/* A flow end whose row is found once all rows are known. */
typedef struct kt_late_flow {
    uint32_t track;
    int64_t ts_ns;
    size_t end; /* index into ends */
} kt_late_flow;

typedef struct kt_reader {
    kt_builder *b;
    kineto_error *err;
    kineto_string text;
    int64_t base_ns;

    kineto_row last_row; /* of the previous event, if it was a row */
    uint32_t last_track;
    int64_t last_start_ns;
    bool last_open_end;

    kb_map open; /* hash of what an end is matched by → index + 1 of its innermost begin */
    KB_VEC(kt_pending) pending;
    KB_VEC(kt_flow_end) ends;
    KB_VEC(kt_late_flow) late;
    KB_VEC(kineto_row) host_counters; /* that say they are; others are what their process is */

    bool has_window_end, has_window;
    int64_t window_start_ns, window_end_ns;
    /* for the ledger */
    uint64_t other_phases, other_metadata, unmatched_ends, end_args, unclosed, lone_surrogates;
} kt_reader;

/** Fail at a place of the text. */
kineto_status kt_read_fail(kt_reader *r, const char *at, const char *problem);
/** Raw JSON string → interned id of its bytes. */
uint32_t kt_read_string(kt_reader *r, kineto_string raw);

/* ---- read_events.c ---- */
kineto_status kt_read_events(kt_reader *r, kineto_string array);

/* ---- read_header.c ---- */
/** One key of the header that is not traceEvents. */
kineto_status kt_read_header(kt_reader *r, kineto_string raw_key, kineto_string value);
/** Own kinds, which the events refer to. */
void kt_read_own_kinds(kt_reader *r, kineto_string own);
/** Devices, tracks and processes as the header describes them. */
void kt_read_apply(kt_reader *r, kineto_string devices, kineto_string own);

/** A member of an object by its key; size 0 if absent. */
kineto_string kt_read_member(kineto_string object, const char *key);

/* ---- inflate.c ---- */
/** A whole file, decompressed by what its first bytes say. The caller frees *data. */
kineto_status kt_read_file(const char *path, char **data, size_t *size, kineto_error *err);
#endif

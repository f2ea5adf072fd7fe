/* The parts of a merged trace: what the list "mergedTraces" of its header says of one rank. */
#ifndef KT_MERGED_PART_H
#define KT_MERGED_PART_H

#include "trace/trace.h"

typedef struct kt_merged_part {
    kineto_string header; /* an object: members that the other traces do not have alike; or empty */
    int64_t start_ns, end_ns;
} kt_merged_part;

/** The trace that was rank `rank`. False: none was, or several. */
bool kt_merged_part_of(const kineto_trace *t, int32_t rank, kt_merged_part *out);
/** A member of the trace's header, as JSON; empty: it has none. */
kineto_string kt_header_member(const kineto_trace *t, const char *key);
#endif

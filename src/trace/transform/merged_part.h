/* Parts of a merged trace: entries of the list "mergedTraces" in its header, which merge_header.c
 * writes, and the header of the trace that a selection of one rank produces. */
#ifndef KT_MERGED_PART_H
#define KT_MERGED_PART_H

#include "trace/model/model.h"

typedef struct kt_merged_part {
    kineto_string
        header; /* JSON object of the members that differ between the traces; may be empty */
    int64_t start_ns, end_ns;
} kt_merged_part;

/** The entry of rank `rank`. False: no entry, or several, have this rank, or its window is not
 *  valid. */
bool kt_merged_part_of(const kineto_trace *t, int32_t rank, kt_merged_part *out);
/** A member of the trace's header as JSON; the last one of several; empty: none. */
kineto_string kt_header_member(const kineto_trace *t, const char *key);
/** Writes the header of a selected rank: the members of its own trace, if it was merged (`part`, or
 *  NULL), and "distributedInfo" with that rank. Other members are the caller's. False: out of
 *  memory. */
bool kt_put_rank_header(const kineto_trace *t, int32_t rank, const kt_merged_part *part,
                        kt_builder *b);
#endif

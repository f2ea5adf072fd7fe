/* Making one trace of several, one after the other: what merging, its header and opening share. */
#ifndef KT_MERGE_H
#define KT_MERGE_H

#include "trace/transform/copy.h"
#include "trace/files/identity.h"

/* One of the traces, after it was copied. */
typedef struct kt_merge_source {
    kineto_identity identity;
    char *path;
    const char *name;                    /* in the path, without the directories that all share */
    char label[128];                     /* "rank 3", or the name */
    uint32_t first_process, end_process; /* of the builder */
    uint64_t activities, flows, first_id;
    int64_t window_start_ns, window_end_ns;
    size_t first_snapshot, snapshot_count; /* of the merger */
} kt_merge_source;

/* A member of a source's header. */
typedef struct kt_merge_member {
    uint32_t source, key, value; /* texts of the merger */
} kt_merge_member;

typedef struct kt_merger {
    kt_builder *b;
    size_t common; /* bytes of the paths that are the directories of all */
    KB_VEC(kt_merge_source) sources;
    KB_VEC(kt_merge_member) members;
    KB_VEC(kb_clock_snapshot) snapshots;
    kb_intern texts; /* keys and values of headers */
    kineto_survey *survey;
    kineto_trace *only; /* the first one, until there is a second */
    uint64_t next_id, kind_conflicts;
    bool out_of_memory;
} kt_merger;

/** Start. `paths` are those of all traces, to find out what they share; count may be 0. */
kineto_status kt_merger_begin(kt_merger *m, const char *const *paths, size_t count,
                              kineto_error *err);
/** Add a trace, which may be released then. */
kineto_status kt_merger_add(kt_merger *m, kineto_trace *trace, const char *path,
                            const kineto_identity *identity, kineto_error *err);
/** A file that could not be read: a loss. */
kineto_status kt_merger_miss(kt_merger *m, const char *path, const kineto_error *why,
                             kineto_error *err);
/** The trace: what was added, if that was one and nothing was missed.
 *  @param files  for what the list itself has to tell; NULL.
 *  @param whole  it is about all ranks, so that some may be missing. */
kineto_status kt_merger_finish(kt_merger *m, const kineto_files *files, bool whole,
                               kineto_trace **out, kineto_error *err);
void kt_merger_free(kt_merger *m);

/* ---- merge_header.c ---- */
/** Keep the members of a trace's header, and its clock snapshots, for the end. */
bool kt_merge_keep_header(kt_merger *m, uint32_t source, const kineto_trace *trace);
/** Put what all share into the builder, and what they do not into one member. */
kineto_status kt_merge_put_header(kt_merger *m, kineto_error *err);
#endif

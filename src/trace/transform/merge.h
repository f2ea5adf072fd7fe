/* Merging several traces into one, one after the other. Used by kineto_trace_merge, and by
 * kineto_trace_open_many, which opens one file at a time so that only one source and the result are
 * in memory. */
#ifndef KT_MERGE_H
#define KT_MERGE_H

#include "trace/files/identity.h"
#include "trace/model/messages.h"
#include "trace/transform/copy.h"

/* Clocks of the sources, as the caller compared them. */
typedef struct kt_merge_clocks {
    const kt_clock *(*find)(void *context, const char *path); /* NULL: as recorded */
    void *context;
    const char *note; /* for header and ledger: how they are aligned, or why they are not */
} kt_merge_clocks;

/* One source; its trace is released once it is copied. */
typedef struct kt_merge_source {
    kineto_identity identity;
    const kt_clock *clock; /* borrowed from the caller; NULL: as recorded */
    char *path;
    /* The path without the directories that all have in common. */
    const char *name;
    /* "rank 3", or the name if the rank is unknown. */
    char label[128];
    /* Its processes in the builder: [first, end) */
    uint32_t first_process, end_process;
    uint64_t activities, flows, first_id;
    int64_t window_start_ns, window_end_ns;
    size_t first_snapshot, snapshot_count; /* its range of merger.snapshots */
} kt_merge_source;

/* A member of a source's header. */
typedef struct kt_merge_member {
    uint32_t source, key, value; /* key, value: ids in merger.texts */
} kt_merge_member;

typedef struct kt_merger {
    kt_builder *b;
    size_t common; /* bytes of the directories that all paths have in common */
    KB_VEC(kt_merge_source) sources;
    KB_VEC(kt_merge_member) members; /* ascending by source */
    KB_VEC(kb_clock_snapshot) snapshots;
    kb_intern texts; /* keys and values of headers */
    const kt_merge_clocks *clocks; /* NULL: as recorded */
    kineto_survey *survey;
    kineto_trace *only; /* the first source, until a second one comes */
    uint64_t next_id;   /* ids of the next source are shifted by this */
    uint64_t kind_conflicts;
    bool skips_repeated;      /* of files with the same rank and activities only the first is copied */
    kt_message_ends messages; /* of all sources, by rows of the builder */
    bool out_of_memory;
} kt_merger;

/** Starts a merge. `paths`: those of all sources, for their common directories; count may be 0. */
kineto_status kt_merger_begin(kt_merger *m, const char *const *paths, size_t count,
                              kineto_error *err);
/** Adds a trace, which the caller may release afterwards. */
kineto_status kt_merger_add(kt_merger *m, kineto_trace *trace, const char *path,
                            const kineto_identity *identity, kineto_error *err);
/** Records a file that could not be read as a loss. */
kineto_status kt_merger_add_unreadable(kt_merger *m, const char *path, const kineto_error *why,
                             kineto_error *err);
/** Returns the merged trace. A single trace is returned unchanged if no file was missed.
 *  @param files  reports repeated files; may be NULL.
 *  @param whole  the sources are meant to be all ranks, so missing ones are reported. */
kineto_status kt_merger_finish(kt_merger *m, const kineto_files *files, bool whole,
                               kineto_trace **out, kineto_error *err);
void kt_merger_free(kt_merger *m);

/* ---- open_many.c ----------------------------------------------------------------------------- */
/** What kineto_trace_open_many does with its files. */
typedef struct kt_open_hooks {
    const kt_merge_clocks *clocks; /* NULL: times are those of each file */
    /* Called for each trace that was opened. False: give up; *out stays NULL, and the status is KINETO_OK. */
    bool (*opened)(void *context, const kineto_trace *trace, const char *path, const kineto_identity *identity);
    /* A trace to release that was read before, so that the file is not opened; NULL: it is. NULL: no such trace. */
    kineto_trace *(*reuse)(void *context, const char *path);
    void *context;
    /* Receives the survey of all files, to destroy; on failure without findings, or NULL. Then named files that cannot be read are losses, too,
     * and of files with the same rank and activities only one is read. NULL: such files are errors. */
    kineto_survey **survey;
} kt_open_hooks;
/** kineto_trace_open_many with hooks; NULL: none. options->align is left to the caller. */
kineto_status kt_open_many(const char *const *paths, size_t count, const kineto_open_many_options *options,
                           const kt_open_hooks *hooks, kineto_trace **out, kineto_error *err);

/* ---- merge_header.c -------------------------------------------------------------------------- */
/** Keeps the members of a trace's header, and its clock snapshots, until all sources are known. */
bool kt_merge_keep_header(kt_merger *m, uint32_t source, const kineto_trace *trace);
/** Writes members that all sources have alike, and the list "mergedTraces" with the others. */
kineto_status kt_merge_put_header(kt_merger *m, kineto_error *err);
#endif

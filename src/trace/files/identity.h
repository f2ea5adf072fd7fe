/* Identity of traces (rank, process, host), names of trace files, and sets of traces. Shared by the
 * list of files, surveys, merging and the selection by rank. */
#ifndef KT_IDENTITY_H
#define KT_IDENTITY_H

#include "base/base.h"

#include <ckineto/files.h>

/* Values found in the name of a file. Numbers are -1 and the host is empty if they are absent. */
typedef struct kt_name_facts {
    int32_t rank, directory_rank;
    kineto_string host;
    int64_t pid;
    /* A number stands where some writers put the process id. It counts only if the trace has that
     * process. */
    bool pid_is_guess;
} kt_name_facts;

/* ---- identity_name.c ------------------------------------------------------------------------- */
/** Parses a path; `host` points into it. */
void kt_name_facts_of(const char *path, kt_name_facts *out);
/** Natural order of names: digits compare as numbers, "rank2" is before "rank10". */
int kt_compare_names(const char *a, const char *b);
/** Bytes of the directories that all paths have in common, including the last slash. */
size_t kt_common_directory(const char *const *paths, size_t count);

/* ---- identity.c ------------------------------------------------------------------------------ */
/** Writes the known members of the identity into an open object: rank, world_size, host, pid,
 *  backend. */
void kt_put_identity(kb_json *j, const kineto_identity *id);
/** The rank that the header of a trace states; -1: none. */
int32_t kt_header_rank(const kineto_trace *trace);

/** Ranks in ascending order, without repetitions. */
typedef KB_VEC(int32_t) kt_ranks;
/** Adds a rank; -1 is ignored. False: out of memory. */
bool kt_add_rank(kt_ranks *ranks, int32_t rank);
/** Adds the ranks of all rows of processes and devices. False: out of memory. */
bool kt_add_trace_ranks(kt_ranks *ranks, const kineto_trace *trace);
/** Writes "there are ranks 0 to 3, 7", as much as fits; "none states its rank" for an empty set. */
void kt_format_ranks(const kt_ranks *ranks, char *text, size_t size);

/* ---- files.c --------------------------------------------------------------------------------- */
/** Has a file of a directory the name of a trace? Hidden ones have not. */
bool kt_is_trace_name(const char *name);
/** The number of repeated files that were dropped; *first: path of the first one. */
uint32_t kt_files_repeated(const kineto_files *files, const char **first);

/* ---- survey.c: a table of files, and findings about it --------------------------------------- */
kineto_survey *kt_survey_create(void); /* NULL: out of memory */
/** Adds a file; `trace` is NULL if it could not be read, with the reason in `error`. False: no
 *  memory. */
bool kt_survey_add(kineto_survey *s, const char *path, const kineto_trace *trace,
                   const kineto_identity *identity, const kineto_error *error);
/** How far the activity of a trace reaches. */
typedef struct kt_measured_reach {
    int64_t host_ns, device_ns; /* from its start to the end of the last activity of the host, and of devices;
                                   without ranges of the user, which may be written before what is in them */
    bool is_dump; /* of a flight recorder: a second source of a rank, of another time */
} kt_measured_reach;
kt_measured_reach kt_measure_reach(const kineto_trace *trace);
/** Adds a file that was measured before: `numbers` has its window and its sums. False: out of memory. */
bool kt_survey_add_measured(kineto_survey *s, const kineto_survey_file *numbers, const kineto_identity *identity,
                            uint64_t fingerprint, const kt_measured_reach *reach);
/** Equal for the same activities of one process, in any file. */
uint64_t kt_trace_fingerprint(const kineto_trace *trace, const kineto_identity *identity);
/** Is the last file repeated by earlier ones: has one its rank and activities, or, if it holds several ranks, have they
 *  all of these? @param trace  of the last file; NULL: it could not be read. */
bool kt_survey_last_is_repeated(const kineto_survey *s, const kineto_trace *trace);
/** Ends the survey: orders the files and runs the rules. `files` may be NULL. `whole`: the files
 *  are meant to be all ranks, so missing ones are reported. False: out of memory. */
bool kt_survey_settle(kineto_survey *s, const kineto_files *files, bool whole);

/* ---- windows.c: which traces were recorded at the same time ----------------------------------- */
typedef struct kt_time_window {
    int64_t start_ns, end_ns;
} kt_time_window;
/** Have more than half of the windows, at least two, an instant in common? Then *majority is from the first start to
 *  the last end of those. False also if memory runs out. */
bool kt_find_majority_window(const kt_time_window *windows, size_t count, kt_time_window *majority);
/** Is this window of another run than the majority: a minute or more before or after it, which is more than clocks of
 *  hosts of one job differ? */
bool kt_window_is_of_other_run(const kt_time_window *window, const kt_time_window *majority);
#endif

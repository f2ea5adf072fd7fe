/** @file
 *  Traces of several processes: identify rank and process of a trace, find files, survey them in the memory of one,
 *  merge several traces. See docs/how-to/several-traces.md.
 */
#ifndef CKINETO_FILES_H
#define CKINETO_FILES_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Sources of the identity of a trace, by priority. */
typedef enum kineto_learned {
    KINETO_LEARNED_NOWHERE = 0,
    KINETO_LEARNED_HEADER = 1,      /**< distributedInfo and other keys of the header */
    KINETO_LEARNED_PROCESS = 2,     /**< a process row of the trace */
    KINETO_LEARNED_ENVIRONMENT = 3, /**< environment of the program, kept in the header */
    KINETO_LEARNED_FILE_NAME = 4,
    KINETO_LEARNED_DIRECTORY = 5 /**< name of a directory above the file */
} kineto_learned;

/** "header", "process row" … Static storage. threads: hot. */
KINETO_API const char *kineto_learned_name(uint32_t learned);

/** The rank, process and host of a trace. Nothing in it is borrowed. */
typedef struct kineto_identity {
    size_t size;         /**< sizeof(kineto_identity): set by kineto_identity_init */
    int32_t rank;        /**< -1: unknown, or the trace has several */
    int32_t world_size;  /**< 0: unknown */
    int64_t pid;         /**< of the process with the most activities; -1: none */
    uint32_t rank_count; /**< number of different ranks of its process rows */
    uint8_t rank_learned, world_size_learned, pid_learned, host_learned; /**< kineto_learned */
    uint8_t backend_learned;
    char host[256];     /**< bytes as in the file, perhaps not UTF-8; "": unknown */
    char backend[64];   /**< "nccl"; "": unknown */
    char conflict[512]; /**< sentences about sources that disagree; "": none do */
} kineto_identity;
KINETO_INIT_FUNCTION(kineto_identity)

/** Identify a trace by its header, its process rows and the name of its file.
 *  @param path  NULL: unknown, or to be ignored. The file is not opened. threads: any. */
KINETO_API void kineto_trace_identity(const kineto_trace *trace, const char *path,
                                      kineto_identity *out);

/* ---- finding files ----------------------------------------------------------------------------- */

/** A list of files, ordered by the rank in their names, then by name with numbers compared as numbers. */
typedef struct kineto_files kineto_files;

/** List the given files, and the traces directly in the given directories: those that end in .json, .json.gz or
 *  .json.zst. A file that is given twice, also under different names, is listed once.
 *  @param paths  "-" is standard input. Files are not checked for existence.
 *  @param out    receives a list to destroy. NULL on failure.
 *  @return KINETO_E_NOT_FOUND for a directory without traces, or an error of reading a directory. threads: any. */
KINETO_API kineto_status kineto_files_find(const char *const *paths, size_t count,
                                           kineto_files **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_files_destroy(kineto_files *files);
/** Number of files. threads: any. */
KINETO_API uint32_t kineto_files_count(const kineto_files *files);
/** Borrowed; NULL for an index out of range. threads: any. */
KINETO_API const char *kineto_files_path(const kineto_files *files, uint32_t index);
/** True if the file was found in a directory, false if it was given. threads: any. */
KINETO_API bool kineto_files_was_found(const kineto_files *files, uint32_t index);
/** Number of other entries of the directories, which were ignored. threads: any. */
KINETO_API uint64_t kineto_files_skipped(const kineto_files *files);

/* ---- survey of all files -------------------------------------------------------------------------- */

/** Findings about several traces: X(NAME, value, "id", severity as in <ckineto/analyze.h>,
 *  what it means). Ids stay; append only. */
#define KINETO_FILES_FINDING_MAP(X)                                                                \
    X(UNREADABLE, 0, "file.unreadable", 2, "a file cannot be read as a trace")                     \
    X(IDENTITY, 1, "identity.conflict", 1, "sources in one file disagree about whose it is")       \
    X(WORLD_SIZE, 2, "world.conflict", 2, "files disagree about the number of ranks")              \
    X(RANK_REPEATED, 3, "rank.repeated", 2, "several processes say that they are the same rank")   \
    X(RANK_MISSING, 4, "rank.missing", 1, "there is no file of a rank")                            \
    X(RANK_UNKNOWN, 5, "rank.unknown", 1, "some files have a rank, others do not")                 \
    X(SAME_CONTENT, 6, "file.same", 2, "two files have the same activities")                       \
    X(NAMED_TWICE, 7, "file.repeated", 0, "a file was named more than once; it is read once")      \
    X(PID_SHARED, 8, "pid.shared", 0, "different processes have the same number")                  \
    X(SEVERAL_RANKS, 9, "file.merged", 1, "a file among others holds several ranks itself")        \
    X(SEVERAL_WINDOWS, 10, "rank.windows", 0, "a rank has several windows, one after the other")   \
    X(WINDOWS_APART, 11, "window.apart", 1, "there is no time that all windows have in common")    \
    X(CUT, 12, "file.cut", 1, "the end of a file is missing")                                      \
    X(OTHER_RUN, 13, "file.other_run", 1, "a file is of another run")

typedef enum kineto_files_finding_kind {
#define KINETO_X(name, value, id, severity, text) KINETO_FILES_##name = (value),
    KINETO_FILES_FINDING_MAP(KINETO_X)
#undef KINETO_X
} kineto_files_finding_kind;

/** One finding, as a view that borrows from the survey. */
typedef struct kineto_files_finding {
    uint32_t kind;          /**< kineto_files_finding_kind */
    uint32_t severity;      /**< kineto_severity: 0 note, 1 warning, 2 error */
    const char *id;         /**< static storage */
    const char *meaning;    /**< static storage */
    kineto_string sentence; /**< with the names of the files */
    const uint32_t *files;  /**< the first of those that it is about, in the survey's order */
    uint32_t file_count;    /**< number of `files`, at most 64 */
    uint64_t total;         /**< number of all files that it is about */
} kineto_files_finding;

/** One file, as a view that borrows from the survey. */
typedef struct kineto_survey_file {
    const char *path, *name; /**< name: the path without the directories common to all files */
    const kineto_identity *identity;
    uint64_t activities, lost;
    int64_t window_start_ns, window_end_ns;
    uint64_t text_bytes;  /**< decompressed */
    kineto_status status; /**< of opening it; on failure the members above are 0 */
    const char *error;    /**< message of the failure; "" on success */
    bool is_cut;          /**< the end of the file is missing: `lost` is not known */
} kineto_survey_file;

typedef struct kineto_survey kineto_survey;

/** One opened file of a list, as passed to a visitor. */
typedef struct kineto_visit {
    uint32_t index, count; /**< in the list of files */
    const char *path;
    const kineto_trace *trace; /**< NULL: it cannot be read. Retain it to keep it. */
    const kineto_identity *identity;
    const kineto_error *error; /**< the error if `trace` is NULL */
} kineto_visit;

/** All zero but the size is fine. */
typedef struct kineto_survey_options {
    size_t size;                     /**< sizeof(kineto_survey_options) */
    const kineto_open_options *open; /**< how to read each; NULL: the defaults */
    /** Called for each file by the calling thread; may be NULL. The trace is released after the call, so that there
     *  is never more than one. Returns false to end the survey early. */
    bool (*visit)(const kineto_visit *visit, void *user);
    void *user;
} kineto_survey_options;
KINETO_INIT_FUNCTION(kineto_survey_options)

/** Open one file after the other and summarise each. A file that cannot be read is a finding, not a failure.
 *  @param options  may be NULL.
 *  @param out      receives a survey to destroy; may be NULL. It does not refer to the list.
 *  @return KINETO_OK, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_files_survey(const kineto_files *files,
                                             const kineto_survey_options *options,
                                             kineto_survey **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_survey_destroy(kineto_survey *survey);
/** Files by rank, those without one last. threads: any. */
KINETO_API uint32_t kineto_survey_count(const kineto_survey *survey);
/** False for an index out of range, and an all-zero *out. threads: any. */
KINETO_API bool kineto_survey_file_at(const kineto_survey *survey, uint32_t index,
                                      kineto_survey_file *out);
/** Findings, the worst first. threads: any. */
KINETO_API uint32_t kineto_survey_finding_count(const kineto_survey *survey);
/** False for an index out of range, and an all-zero *out. threads: any. */
KINETO_API bool kineto_survey_finding(const kineto_survey *survey, uint32_t index,
                                      kineto_files_finding *out);

/* ---- one trace of several --------------------------------------------------------------------------- */

/** All zero but the size is fine. Arrays are by trace. */
typedef struct kineto_merge_options {
    size_t size;                       /**< sizeof(kineto_merge_options) */
    /** NULL: identified from the traces and paths. All have the same `size` */
    const kineto_identity *identities;
    const char *const *paths;          /**< of their files; NULL */
} kineto_merge_options;
KINETO_INIT_FUNCTION(kineto_merge_options)

/** One trace with the activities of several, in their order. Their processes stay apart, also those
 *  with the same number; process rows have rank and host. Ids that join rows (correlations, flows) are renumbered so
 *  that those of different traces do not collide. Header members with the same value in all traces stay; the others
 *  are listed by trace in the member "mergedTraces". Clocks are not aligned. Arguments in files are shared with the
 *  sources.
 *  @param count    at least 1; of one trace the result is that trace.
 *  @param options  may be NULL.
 *  @param out      receives a trace to release. NULL on failure.
 *  @return KINETO_OK, KINETO_E_ARGUMENT, KINETO_E_MEMORY, KINETO_E_LIMIT. threads: any. */
KINETO_API kineto_status kineto_trace_merge(const kineto_trace *const *traces, size_t count,
                                            const kineto_merge_options *options, kineto_trace **out,
                                            kineto_error *err);

/** All zero but the size is fine. */
typedef struct kineto_open_many_options {
    size_t size;                     /**< sizeof(kineto_open_many_options) */
    const kineto_open_options *open; /**< how to read each; NULL: the defaults */
    bool only_rank;                  /**< read files of one rank only, */
    int32_t rank;                    /**< this one */
    /** Called before each file is opened, by the calling thread; NULL. */
    void (*progress)(uint32_t index, uint32_t count, const char *path, void *user);
    void *user;
    /** Put traces of several hosts on one clock, by the ends of collectives that they have in common; the ledger, source
     *  "merge", says how well, or why not. Larger files are read twice then. Has no effect with only_rank. */
    bool align;
} kineto_open_many_options;
KINETO_INIT_FUNCTION(kineto_open_many_options)

/** kineto_files_find, then kineto_trace_open of each file and kineto_trace_merge, with the columns of at most one
 *  source in memory, and with `align` of files of 64 MiB in all. Findings of a survey are in the ledger, source "merge". A file that was given must be readable;
 *  an unreadable file of a directory is a loss in the ledger, unless it is the only one.
 *  @param options  may be NULL.
 *  @param out      receives a trace to release; of a single file, as kineto_trace_open gives it.
 *  @return as kineto_files_find, kineto_trace_open, kineto_trace_merge; KINETO_E_NOT_FOUND if no file is of the
 *          rank; the message lists the ranks. threads: any. */
KINETO_API kineto_status kineto_trace_open_many(const char *const *paths, size_t count,
                                                const kineto_open_many_options *options,
                                                kineto_trace **out, kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_FILES_DECLARED
#include <ckineto/deprecated.h>
#endif

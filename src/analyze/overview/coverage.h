/* Which ranks of a job some traces cover: how many are there, which are missing, and which files are cut off. The
 * overview, `analyze`, `verify` and `info` describe it in the same sentence. */
#ifndef KA_COVERAGE_H
#define KA_COVERAGE_H

#include "trace/files/identity.h"

#include <ckineto/files.h>

/** A trace of a job. */
typedef struct ka_covered_trace {
    int64_t rank; /* -1: it has several */
    int64_t start_ns, end_ns;
    int64_t host_ns, device_ns; /* from its start to the end of the last activity of the host, and of devices;
                                   without ranges of the user, which may be written before what is in them */
    uint64_t activities;
    bool is_dump; /* of a flight recorder, which records at another time than a trace */
    bool is_cut; /* the end of its file is missing */
} ka_covered_trace;

/** A file that is damaged, or that is not in the answer. */
typedef struct ka_bad_file {
    const char *problem; /* the id of the finding, as of KINETO_FILES_FINDING_MAP */
    char *name, *reason;
} ka_bad_file;

/** All zero: no trace yet. */
typedef struct ka_coverage {
    KB_VEC(ka_covered_trace) traces;
    KB_VEC(ka_bad_file) bad_files;
    kt_ranks ranks; /* of the traces */
    uint32_t rank_count, world_size;
    uint32_t facts_left_out; /* facts files in directories of traces, which are not read there */
    uint32_t unreadable; /* files that could not be read: none of the traces */
} ka_coverage;

/** @param rank  of the trace, if it has only one; NULL: as the trace says. @return false: out of memory. */
bool ka_coverage_add(ka_coverage *c, const kineto_trace *trace, const int32_t *rank);
/** Adds the traces of another one. @return false: out of memory. */
bool ka_coverage_merge(ka_coverage *to, const ka_coverage *from);
/** The traces of a survey, for those who have not added them. @return false: out of memory. */
bool ka_coverage_add_surveyed(ka_coverage *c, const kineto_survey *survey);
/** The files of a survey that are damaged or not in the answer. @return false: out of memory. */
bool ka_coverage_add_bad_files(ka_coverage *c, const kineto_survey *survey);
/** A file that cannot be read, for those who have no survey. @return false: out of memory. */
bool ka_coverage_add_unreadable(ka_coverage *c, const char *path, const char *reason);
/** The damaged files of another one, and the size of its job. @return false: out of memory. */
bool ka_coverage_copy_bad_files(ka_coverage *to, const ka_coverage *from);
/** Does this finding name files that are damaged or not in the answer? */
bool ka_is_bad_files_finding(const kineto_files_finding *finding, const kineto_survey *survey);
void ka_coverage_free(ka_coverage *c);
/** Is the file of this rank cut off, and that of another rank not? */
bool ka_coverage_is_cut(const ka_coverage *c, int64_t rank);
/** Are some of the files cut off, and others not? */
bool ka_coverage_has_cut(const ka_coverage *c);
/** Is no rank missing, and no file damaged? */
bool ka_coverage_is_whole(const ka_coverage *c);
/** How many ranks are missing of a job whose size is known. */
uint32_t ka_coverage_missing(const ka_coverage *c);
/** The first missing rank from this one on; -1: there is none. */
int64_t ka_coverage_next_missing(const ka_coverage *c, int64_t rank);
/** The longest window of all traces. */
int64_t ka_coverage_longest_ns(const ka_coverage *c);
/** "62 of 64 ranks; missing: 41; unreadable: 12 (rank12.json); 50 is cut off after 49 % of the time (51 % of the
 *  activities)."; empty for one whole trace. */
void ka_coverage_describe(const ka_coverage *c, char *text, size_t size);
#endif

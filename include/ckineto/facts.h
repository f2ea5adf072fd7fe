/** @file
 *  Facts files: what comparing ranks needs of traces, in small files that `ckineto facts` and `ckineto reduce` write
 *  (docs/reference/facts-files.md). They give the same tables, findings and overview as their traces, as far as these
 *  were kept.
 *
 *      kineto_facts *facts;
 *      kineto_analysis *analysis;
 *      kineto_facts_open((const char *const[]){"run.facts"}, 1, 0, &facts, &err);
 *      kineto_facts_analyze(facts, "rank_causes", &analysis, &err);
 *      kineto_facts_destroy(facts);
 */
#ifndef CKINETO_FACTS_H
#define CKINETO_FACTS_H

#include <ckineto/files.h>
#include <ckineto/overview.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The facts of a run: those of several traces. One thread at a time. */
typedef struct kineto_facts kineto_facts;

/** Is this a facts file, or a directory that has such and no traces? threads: any. */
KINETO_API bool kineto_facts_are_at(const char *path);

/** Open facts files, files of runs, and directories of both. Files that are damaged are left out, see
 *  kineto_facts_survey; each trace counts once.
 *  @param memory_bytes  how much memory comparing ranks may need, about; less than 16 MiB counts as that; 0: 1 GiB.
 *  @param out  receives facts to destroy. NULL on failure.
 *  @return KINETO_E_NOT_FOUND: there are none; KINETO_E_ARGUMENT: some paths are traces, or the memory is too little;
 *          KINETO_E_IO, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_facts_open(const char *const *paths, size_t count, uint64_t memory_bytes,
                                           kineto_facts **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_facts_destroy(kineto_facts *facts);

/** Which traces the facts are of, which could not be read, and what does not fit together.
 *  @param out  receives a survey to destroy. NULL on failure. @return KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_facts_survey(kineto_facts *facts, kineto_survey **out, kineto_error *err);
/** Tables of facts, as kineto_analysis_run makes them of the traces.
 *  @param tables  names with commas between; NULL: all that were kept, and those that compare ranks.
 *  @param out     receives an analysis to destroy, which does not refer to the facts. NULL on failure.
 *  @return KINETO_E_NOT_FOUND: one was not kept; the message names the option that keeps it. KINETO_E_ARGUMENT: unknown
 *          table; KINETO_E_FORMAT: damaged; KINETO_E_IO, KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_facts_analyze(kineto_facts *facts, const char *tables, kineto_analysis **out,
                                              kineto_error *err);
/** Findings, as kineto_findings_find and kineto_findings_add make them of the traces. Rules whose findings were not kept
 *  of each trace are skipped, with the option that keeps them as the reason.
 *  @param rules  ids or first words of ids with commas between; NULL: all.
 *  @param out    receives findings to destroy, which do not refer to the facts. NULL on failure.
 *  @return KINETO_E_NOT_FOUND: none were kept; KINETO_E_ARGUMENT: unknown rule; KINETO_E_FORMAT: damaged; KINETO_E_IO,
 *          KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_facts_find(kineto_facts *facts, const char *rules, kineto_findings **out,
                                           kineto_error *err);
/** The overview of all traces. @param out  receives an overview to destroy. NULL on failure.
 *  @return KINETO_E_NOT_FOUND: it was not kept; KINETO_E_FORMAT: damaged; KINETO_E_IO, KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_facts_overview(kineto_facts *facts, kineto_overview **out, kineto_error *err);
/** What differs between two runs across their ranks: the table diff_ranks of kineto_diff_run. What names operators and
 *  kernels, and gates, need the traces.
 *  @param out  receives an analysis to destroy. NULL on failure.
 *  @return KINETO_E_FORMAT: damaged; KINETO_E_IO, KINETO_E_MEMORY. threads: owner of both. */
KINETO_API kineto_status kineto_facts_diff(kineto_facts *before, kineto_facts *after, kineto_analysis **out,
                                           kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif

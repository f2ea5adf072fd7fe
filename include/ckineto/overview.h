/** @file
 *  The first answer about one trace or many: a headline, a few key numbers, small tables, and the findings. It is
 *  made of the tables of <ckineto/analyze.h> and of the rules of <ckineto/findings.h>; `ckineto analyze`, the report
 *  and notebooks show it (docs/reference/overview.md).
 *
 *      kineto_overview *overview;
 *      kineto_overview_create(trace, NULL, &overview, &err);
 *      puts(kineto_overview_headline(overview));
 *      kineto_overview_destroy(overview);
 */
#ifndef CKINETO_OVERVIEW_H
#define CKINETO_OVERVIEW_H

#include <ckineto/findings.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_overview kineto_overview;

/** Make the overview of a trace.
 *  @param analyze  steps, streams, rules for names and rank, as for kineto_analysis_run; NULL: defaults. With `tables`
 *                  only those, and those that the overview reads itself, are computed.
 *  @param out      receives an overview to destroy, which does not refer to the trace. NULL on failure.
 *  @return KINETO_E_NOT_FOUND if the trace has none of the steps, KINETO_E_ARGUMENT, KINETO_E_MEMORY; for rules:
 *          an error of reading the file, KINETO_E_FORMAT with the line. threads: any. */
KINETO_API kineto_status kineto_overview_create(const kineto_trace *trace, const kineto_analysis_options *analyze,
                                                kineto_overview **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_overview_destroy(kineto_overview *overview);
/** Add the overview of another rank. What was got from `to` before is not valid any more.
 *  @return KINETO_E_ARGUMENT, or KINETO_E_MEMORY: `to` is then unusable but for destroying it.
 *          threads: owner of `to`. */
KINETO_API kineto_status kineto_overview_add(kineto_overview *to, const kineto_overview *from, kineto_error *err);

/** One or two sentences: how much was recorded, how busy the devices or processors were, and what most of the
 *  remaining time waits for. Borrowed. threads: owner. */
KINETO_API const char *kineto_overview_headline(kineto_overview *overview);

/** A key number. Texts are borrowed. */
typedef struct kineto_overview_tile {
    const char *label;  /**< "GPU utilization" */
    const char *value;  /**< "55.5 %" */
    const char *detail; /**< "time in which a kernel runs, of the time of the steps"; may be empty */
} kineto_overview_tile;
/** Key numbers, at most four. @return false past the end, and an all-zero *out. threads: owner. */
KINETO_API bool kineto_overview_tile_get(kineto_overview *overview, uint32_t index, kineto_overview_tile *out);

/** Small tables: steps or ranges, what takes most time, why it waits, ranks or devices.
 *  `name` is the table of facts that a table is made of: `ckineto analyze --only NAME` shows all of it.
 *  @return false past the end, and an all-zero *out. threads: owner. */
KINETO_API bool kineto_overview_table(kineto_overview *overview, uint32_t table, kineto_fact_table *out);
/** @return false for an index out of range, and an all-zero *out. threads: owner. */
KINETO_API bool kineto_overview_column(kineto_overview *overview, uint32_t table, uint32_t column,
                                       kineto_fact_column *out);
/** Cells are the largest rows, at most ten; a column "at_us" is relative to the begin of the trace.
 *  @return false for an index out of range, and an all-zero *out. threads: owner. */
KINETO_API bool kineto_overview_fact(kineto_overview *overview, uint32_t table, uint64_t row, uint32_t column,
                                     kineto_fact *out);
/** Number of rows that the table of facts has beside those shown. threads: owner. */
KINETO_API uint64_t kineto_overview_rows_left_out(kineto_overview *overview, uint32_t table);

/** The facts that it is made of: all tables but those with one row per event, or those that were asked for, of all ranks. Borrowed. threads: owner. */
KINETO_API const kineto_analysis *kineto_overview_facts(kineto_overview *overview);
/** The findings, of all ranks. Borrowed. threads: owner. */
KINETO_API const kineto_findings *kineto_overview_findings(kineto_overview *overview);

#ifdef __cplusplus
}
#endif
#endif

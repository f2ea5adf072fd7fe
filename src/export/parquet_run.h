/* A run as a data set of Parquet files: DIRECTORY/TABLE/run=RUN/rank=N/part.parquet, and for tables that
 * are of all ranks DIRECTORY/TABLE/run=RUN/part.parquet. One rank is in memory at a time.
 * docs/reference/parquet.md describes the tables. */
#ifndef KE_PARQUET_RUN_H
#define KE_PARQUET_RUN_H

#include "export/parquet.h"

#include "analyze/tables/table.h"

#include <ckineto/analyze.h>
#include <ckineto/trace.h>

/** What was written. */
typedef struct ke_parquet_account {
    uint64_t files, rows, bytes, activities;
    uint32_t ranks;
} ke_parquet_account;

typedef struct ke_parquet_run ke_parquet_run;

/** @param directory, run  outlive it. @param tables  of analyses, see ke_parquet_tables. */
kineto_status ke_parquet_run_open(const char *directory, const char *run, ka_table_set tables, bool activities,
                                  ke_parquet_run **out, kineto_error *err);
/** Write the files of a rank, or of each rank of a merged trace.
 *  @param rank  of the trace.
 *  @return KINETO_E_ARGUMENT for a rank that is there already. */
kineto_status ke_parquet_run_add(ke_parquet_run *r, const kineto_trace *trace, int32_t rank, kineto_error *err);
/** Write the tables of all ranks. */
kineto_status ke_parquet_run_finish(ke_parquet_run *r, kineto_error *err);
const ke_parquet_account *ke_parquet_run_account(const ke_parquet_run *r);
void ke_parquet_run_free(ke_parquet_run *r);

/** All tables that can be written. */
ka_table_set ke_parquet_tables(void);
/** May this be the value of a partition: neither empty nor with characters that paths or readers of them
 *  give a meaning? */
bool ke_is_partition_value(const char *value);

/* parquet_tables.c: one table of an analysis, without the column `rank` if the path has it.
 * @param rows, bytes  are added to. */
kineto_status ke_parquet_save_table(const ka_table *t, const char *path, bool without_rank, ke_parquet_account *account,
                                    kineto_error *err);
/* parquet_activities.c */
kineto_status ke_parquet_save_activities(const kineto_trace *trace, const char *path, ke_parquet_account *account,
                                         kineto_error *err);
/* Key-value metadata of every file: version, table, definition, and the columns with their units. */
void ke_parquet_describe(ke_parquet *w, const char *table, const char *definition, const ke_parquet_spec *specs,
                         uint32_t count);
#endif

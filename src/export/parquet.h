/* A writer of Parquet files: flat tables of optional or required columns, in row groups of bounded
 * size, so that memory is bounded too. Pages are compressed with zstd where it is built in.
 * docs/reference/parquet.md describes what is written. A writer belongs to one thread. */
#ifndef KE_PARQUET_H
#define KE_PARQUET_H

#include "base/base.h"

typedef enum ke_parquet_type {
    KE_PARQUET_BOOL,
    KE_PARQUET_INT32,
    KE_PARQUET_INT64,
    KE_PARQUET_TIME_NS, /* INT64: ns since the Unix epoch, as a timestamp in UTC */
    KE_PARQUET_DOUBLE,
    KE_PARQUET_TEXT, /* UTF-8; other bytes become U+FFFD */
    KE_PARQUET_JSON  /* a text without statistics, since nothing compares it */
} ke_parquet_type;

/** A column; the texts outlive the writer. */
typedef struct ke_parquet_spec {
    const char *name;
    uint8_t type; /* ke_parquet_type */
    bool is_optional;
    const char *unit;  /* "ns", "us", "bytes", …; NULL: none */
    const char *about; /* NULL: nothing */
} ke_parquet_spec;

/** Sizes; 0: the usual ones. A row group ends at either limit. */
typedef struct ke_parquet_sizes {
    uint32_t group_rows;  /* 131,072 */
    uint32_t group_bytes; /* of texts: 64 MiB */
    uint32_t page_rows;   /* 20,000 */
} ke_parquet_sizes;

typedef struct ke_parquet ke_parquet;

/** Begin a file, which appears complete or not at all when it is closed.
 *  @param specs  outlive the writer. */
kineto_status ke_parquet_open(const char *path, const ke_parquet_spec *specs, uint32_t count,
                              const ke_parquet_sizes *sizes, ke_parquet **out, kineto_error *err);
/** Key and value of the file's metadata, both copied; before ke_parquet_close. */
void ke_parquet_add_metadata(ke_parquet *w, const char *key, kineto_string value);
/** One cell of each column, in any order, then ke_parquet_end_row. Errors stick until the file is closed. The
 *  value of an optional column that gets none is null. */
void ke_parquet_put_int(ke_parquet *w, uint32_t column, int64_t value); /* BOOL, INT32, INT64, TIME_NS */
void ke_parquet_put_double(ke_parquet *w, uint32_t column, double value);
void ke_parquet_put_text(ke_parquet *w, uint32_t column, kineto_string value);
void ke_parquet_end_row(ke_parquet *w);
/** Can nothing be written any more? For loops that would go on in vain. */
bool ke_parquet_failed(const ke_parquet *w);
/** Write the rest and the footer. Frees in any case; on failure there is no file.
 *  @param rows   receive the rows and the bytes of the file; may be NULL. */
kineto_status ke_parquet_close(ke_parquet *w, uint64_t *rows, uint64_t *bytes, kineto_error *err);
void ke_parquet_abort(ke_parquet *w);
#endif

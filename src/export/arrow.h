/* Arrow C data interface over the tables of a trace: columns that are filled batch by batch, and
 * the arrays that are made of them. <ckineto/arrow.h> has the public call; the layout follows
 * Arrow's columnar format. */
#ifndef KE_ARROW_H
#define KE_ARROW_H

#include "export/export.h"
#include <ckineto/arrow.h>

#define KE_ARROW_MAX_COLUMNS 16u

/* Dictionaries shared by all batches of a stream. */
enum {
    KE_ARROW_NO_DICTIONARY,
    KE_ARROW_STRINGS, /* index: string id */
    KE_ARROW_CATEGORIES,
    KE_ARROW_KINDS,
    KE_ARROW_FORMS,
    KE_ARROW_DICTIONARIES
};

/* `format` is Arrow's format string; with a dictionary, that of the index. */
typedef struct ke_arrow_spec {
    const char *name, *format;
    bool nullable;
    uint8_t dictionary;
} ke_arrow_spec;

/* A column that is being filled; zero-initialised. */
typedef struct ke_arrow_column {
    ke_text values;
    ke_text offsets; /* of texts: 4 or 8 bytes each, one more than rows */
    /* A bit per row, least significant first; empty: no nulls. */
    ke_text validity;
    const void *borrowed; /* memory of the trace, used instead of values */
    int64_t count, nulls;
} ke_arrow_column;

/* Shared, reference counted and constant: trace, table and dictionaries of a stream and its
 * batches. */
typedef struct ke_arrow_shared {
    uint32_t references;
    kineto_trace *trace;
    const struct ke_arrow_table *table;
    ke_arrow_column dictionaries[KE_ARROW_DICTIONARIES];
    /* "u": 32-bit offsets; "U": 64-bit. */
    const char *text_format[KE_ARROW_DICTIONARIES];
} ke_arrow_shared;

/* A batch that is being filled. */
typedef struct ke_arrow_batch {
    const ke_arrow_shared *shared;
    const kineto_trace *trace;
    ke_arrow_column columns[KE_ARROW_MAX_COLUMNS];
    int64_t count;
    ke_text text; /* scratch for one value */
    bool failed;  /* out of memory, or 2 GiB of text in one column */
} ke_arrow_batch;

/** A table. `fill` fills a batch from position *next, which it advances; *done: no more rows. */
typedef struct ke_arrow_table {
    const char *name;
    uint32_t column_count;
    const ke_arrow_spec *columns;
    void (*fill)(ke_arrow_batch *batch, uint64_t *next, bool *done);
    bool dictionaries; /* columns use dictionaries */
} ke_arrow_table;

/* ---- arrow_tables.c -------------------------------------------------------------------------- */
/** The tables in order; NULL after the last one. */
const ke_arrow_table *ke_arrow_table_at(size_t index);

/* ---- arrow_columns.c ------------------------------------------------------------------------- */
/** Append one value to a column. */
void ke_arrow_put_bytes(ke_arrow_batch *b, uint32_t column, const void *value, size_t bytes);
void ke_arrow_put_bool(ke_arrow_batch *b, uint32_t column, bool value);
void ke_arrow_put_text(ke_arrow_batch *b, uint32_t column, kineto_string text);
/** Appends a null. */
void ke_arrow_put_null(ke_arrow_batch *b, uint32_t column);
/** Makes the column refer to `count` values in memory of the trace, without a copy. */
void ke_arrow_borrow(ke_arrow_batch *b, uint32_t column, const void *values, int64_t count);
#define KE_ARROW_PUT(type, suffix)                                                                 \
    static inline void ke_arrow_put_##suffix(ke_arrow_batch *b, uint32_t column, type value)       \
    {                                                                                              \
        ke_arrow_put_bytes(b, column, &value, sizeof value);                                       \
    }
KE_ARROW_PUT(int64_t, i64)
KE_ARROW_PUT(uint64_t, u64)
KE_ARROW_PUT(int32_t, i32)
KE_ARROW_PUT(uint32_t, u32)
KE_ARROW_PUT(uint8_t, u8)
KE_ARROW_PUT(double, f64)

/** Append a text to a column of texts whose offsets have `wide` (8) or 4 bytes. */
bool ke_arrow_append_text(ke_arrow_column *c, kineto_string text, bool wide);
void ke_arrow_column_free(ke_arrow_column *c);

/* ---- arrow_arrays.c: export of schemas and arrays -------------------------------------------- */
/** Drops a reference; the last one frees. */
void ke_arrow_release(ke_arrow_shared *s);
/** The table's schema. False: out of memory. */
bool ke_arrow_make_schema(const ke_arrow_shared *s, struct ArrowSchema *out);
/** Makes a struct array of the batch's columns and takes over their memory. False: out of
 *  memory. */
bool ke_arrow_make_array(ke_arrow_shared *s, ke_arrow_batch *b, struct ArrowArray *out);
#endif

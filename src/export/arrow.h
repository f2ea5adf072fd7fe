/* Inside of the Arrow stream: columns, and what fills them. */
#ifndef KE_ARROW_H
#define KE_ARROW_H

#include "export/export.h"
#include <ckineto/arrow.h>

#define KE_ARROW_MOST_COLUMNS 16u

/* Dictionaries of a trace's own texts. */
enum {
    KE_ARROW_NO_DICTIONARY,
    KE_ARROW_STRINGS, /* index: string id */
    KE_ARROW_CATEGORIES,
    KE_ARROW_KINDS,
    KE_ARROW_FORMS,
    KE_ARROW_DICTIONARIES
};

/* `format` is Arrow's: of the index where there is a dictionary. */
typedef struct ke_arrow_spec {
    const char *name, *format;
    bool nullable;
    uint8_t dictionary;
} ke_arrow_spec;

/* A column being filled. Zero to begin with. */
typedef struct ke_arrow_column {
    ke_text values;
    ke_text offsets;      /* of texts: of 4 or 8 bytes, one more than there are rows */
    ke_text validity;     /* a bit per row, least significant first; empty: no nulls */
    const void *borrowed; /* instead of values: memory of the trace */
    int64_t count, nulls;
} ke_arrow_column;

/* What the stream, its batches and their dictionaries look at. */
typedef struct ke_arrow_shared {
    uint32_t references;
    kineto_trace *trace;
    const struct ke_arrow_table *table;
    ke_arrow_column dictionaries[KE_ARROW_DICTIONARIES];
    const char *text_format[KE_ARROW_DICTIONARIES]; /* "u", or "U" for 2 GiB and more */
} ke_arrow_shared;

/* One batch being filled. */
typedef struct ke_arrow_batch {
    const ke_arrow_shared *shared;
    const kineto_trace *trace;
    ke_arrow_column columns[KE_ARROW_MOST_COLUMNS];
    int64_t count;
    ke_text text; /* for one value */
    bool failed;  /* out of memory, or 2 GiB of text in one column */
} ke_arrow_batch;

/** Fill a batch; *next is where to go on, and `done` when there is nothing more. */
typedef struct ke_arrow_table {
    const char *name;
    uint32_t column_count;
    const ke_arrow_spec *columns;
    void (*fill)(ke_arrow_batch *batch, uint64_t *next, bool *done);
    bool dictionaries;
} ke_arrow_table;

/* ---- arrow_tables.c ---- */
/** NULL past the end. */
const ke_arrow_table *ke_arrow_table_at(size_t index);

/* ---- arrow_columns.c ---- */
void ke_arrow_put_bytes(ke_arrow_batch *b, uint32_t column, const void *value, size_t bytes);
void ke_arrow_put_bool(ke_arrow_batch *b, uint32_t column, bool value);
void ke_arrow_put_text(ke_arrow_batch *b, uint32_t column, kineto_string text);
/** No value. */
void ke_arrow_put_null(ke_arrow_batch *b, uint32_t column);
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

/* ---- arrow_arrays.c: handing over ---- */
void ke_arrow_release(ke_arrow_shared *s);
/** The table's schema. False: out of memory. */
bool ke_arrow_make_schema(const ke_arrow_shared *s, struct ArrowSchema *out);
/** A struct array of the batch's columns, whose memory it takes. False: out of memory. */
bool ke_arrow_make_array(ke_arrow_shared *s, ke_arrow_batch *b, struct ArrowArray *out);
#endif

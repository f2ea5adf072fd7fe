/* What the files of the Parquet writer share: bytes that grow, Thrift's compact protocol, encodings,
 * and the columns of a row group. */
#ifndef KE_PARQUET_IMPL_H
#define KE_PARQUET_IMPL_H

#include "export/parquet.h"

/* Numbers of parquet.thrift. */
enum {
    KE_PARQUET_PHYSICAL_BOOLEAN = 0,
    KE_PARQUET_PHYSICAL_INT32 = 1,
    KE_PARQUET_PHYSICAL_INT64 = 2,
    KE_PARQUET_PHYSICAL_DOUBLE = 5,
    KE_PARQUET_PHYSICAL_BYTE_ARRAY = 6
};
enum {
    KE_PARQUET_PLAIN = 0,
    KE_PARQUET_RLE = 3,
    KE_PARQUET_DELTA_BINARY_PACKED = 5,
    KE_PARQUET_RLE_DICTIONARY = 8
};

/* ---- bytes that grow; a lack of memory sticks ------------------------------------------------- */
typedef struct ke_bytes {
    char *data;
    size_t count, capacity;
    bool failed;
} ke_bytes;

/** Room for `bytes` more at the end, which the caller adds to `count`; NULL: out of memory. */
static inline char *ke_bytes_reserve(ke_bytes *b, size_t bytes)
{
    if (b->failed || bytes > SIZE_MAX / 2 - b->count || !kb_vec_reserve(b, b->count + bytes)) {
        b->failed = true;
        return NULL;
    }
    return b->data + b->count;
}
static inline void ke_bytes_put(ke_bytes *b, const void *data, size_t bytes)
{
    char *at = ke_bytes_reserve(b, bytes);
    if (at && bytes)
        memcpy(at, data, bytes);
    if (at)
        b->count += bytes;
}
static inline void ke_bytes_put_byte(ke_bytes *b, uint8_t byte) { ke_bytes_put(b, &byte, 1); }
/** The low `bytes` bytes of a number, the lowest first. */
void ke_bytes_put_low(ke_bytes *b, uint64_t value, size_t bytes);
void ke_bytes_put_varint(ke_bytes *b, uint64_t value);
static inline uint64_t ke_zigzag(int64_t v) { return (uint64_t)v << 1 ^ (uint64_t)(v >> 63); }

/* ---- parquet_thrift.c: the compact protocol ------------------------------------------------- */
typedef struct ke_thrift {
    ke_bytes *out;
    int16_t last[12]; /* field of each open struct */
    uint32_t depth;
} ke_thrift;
enum { KE_THRIFT_I32 = 5, KE_THRIFT_I64 = 6, KE_THRIFT_BINARY = 8, KE_THRIFT_LIST = 9, KE_THRIFT_STRUCT = 12 };
void ke_thrift_bool(ke_thrift *t, int16_t field, bool value);
void ke_thrift_i8(ke_thrift *t, int16_t field, int8_t value);
void ke_thrift_i32(ke_thrift *t, int16_t field, int32_t value);
void ke_thrift_i64(ke_thrift *t, int16_t field, int64_t value);
void ke_thrift_text(ke_thrift *t, int16_t field, kineto_string value);
/** A struct that is a field, or with field 0 an item of a list, or the whole. */
void ke_thrift_begin(ke_thrift *t, int16_t field);
void ke_thrift_end(ke_thrift *t);
/** A list, whose items follow. @param type  KE_THRIFT_… of the items; 1: booleans, a byte 1 or 2 each. */
void ke_thrift_list(ke_thrift *t, int16_t field, uint8_t type, size_t count);
/** Items of a list. */
void ke_thrift_item_i32(ke_thrift *t, int32_t value);
void ke_thrift_item_i64(ke_thrift *t, int64_t value);
void ke_thrift_item_text(ke_thrift *t, kineto_string value);

/* ---- parquet_encode.c ------------------------------------------------------------------------- */
/** Bits of the largest of values; at least 1. */
uint32_t ke_bit_width(uint64_t largest);
/** Runs and bit-packed groups of values of `width` <= 32 bits. */
void ke_encode_hybrid(ke_bytes *out, const int64_t *values, size_t count, uint32_t width);
/** DELTA_BINARY_PACKED. @param is_narrow  values are of 32 bits. @return bits of the widest difference. */
uint32_t ke_encode_delta(ke_bytes *out, const int64_t *values, size_t count, bool is_narrow);
/** The values as `bytes` bytes each, the lowest first; with 0 as bits. */
void ke_encode_plain(ke_bytes *out, const int64_t *values, size_t count, size_t bytes);

/* ---- columns ---------------------------------------------------------------------------------- */
/* Smallest and largest value, as PLAIN has them but texts without their length. */
typedef struct ke_parquet_range {
    bool is_known;
    bool is_min_exact, is_max_exact;
    kineto_string min, max; /* in the arena of the writer */
} ke_parquet_range;

typedef struct ke_parquet_page {
    uint64_t offset, first_row; /* of the file; of the row group */
    uint32_t size;              /* header and body in the file */
    uint32_t rows, nulls;
    ke_parquet_range range;
} ke_parquet_page;

/* A column chunk that is in the file: what the footer and the page index say of it. */
typedef struct ke_parquet_chunk {
    uint64_t offset, data_offset; /* of the first page, and of the first page of data */
    uint64_t stored_bytes, plain_bytes;
    uint64_t rows, nulls;
    uint8_t encoding;
    bool has_dictionary;
    ke_parquet_range range;
    KB_VEC(ke_parquet_page) pages;
    uint64_t column_index_offset, offset_index_offset;
    uint32_t column_index_size, offset_index_size; /* 0: there is none */
} ke_parquet_chunk;

/* A column of the row group that is being filled. Values are integers, bits of doubles, or ids of
 * texts; nulls have none. */
typedef struct ke_parquet_column {
    const ke_parquet_spec *spec;
    KB_VEC(int64_t) values;
    KB_VEC(uint8_t) present; /* of optional columns: a byte per row */
    kb_intern texts;
    uint64_t text_bytes; /* of all values, with their lengths */
    bool has_cell;       /* in the current row */
} ke_parquet_column;

struct ke_parquet {
    kb_sink *sink;
    char *path;
    const ke_parquet_spec *specs;
    ke_parquet_column *columns;
    uint32_t column_count;
    ke_parquet_sizes sizes;
    kb_block_compressor *compressor; /* NULL: pages are stored as they are */
    uint64_t group_rows, rows;       /* of the current row group; of those before it */
    uint64_t group_text_bytes;
    KB_VEC(ke_parquet_chunk) chunks; /* row group by row group */
    KB_VEC(uint64_t) rows_of_groups;
    KB_VEC(kineto_string) metadata; /* key, value, … in the arena */
    kb_arena arena;                 /* of ranges and metadata */
    ke_bytes page, packed, header; /* room for one page */
    bool failed;
    kineto_error error;
};

/** Let the writer fail; the first reason stays. */
void ke_parquet_fail(ke_parquet *w, kineto_status code, const char *fmt, ...) KINETO_PRINTF(3, 4);
static inline void ke_parquet_fail_memory(ke_parquet *w)
{
    ke_parquet_fail(w, KINETO_E_MEMORY, "%s: out of memory", w->path);
}
uint8_t ke_parquet_physical_type(uint8_t type);

/* parquet_column.c: writes the pages of a column and empties it. */
void ke_parquet_write_chunk(ke_parquet *w, ke_parquet_column *c, ke_parquet_chunk *chunk);
/* parquet_range.c: the smallest and largest of values. */
void ke_parquet_find_range(ke_parquet *w, const ke_parquet_column *c, const int64_t *values, size_t count,
                           ke_parquet_range *out);
void ke_parquet_widen_range(const ke_parquet_column *c, ke_parquet_range *range, const ke_parquet_range *more);
/** -1, 0, 1: the order of two encoded values of a column. */
int ke_parquet_compare(const ke_parquet_column *c, kineto_string a, kineto_string b);
/* parquet_footer.c: page index, footer. */
void ke_parquet_write_page_index(ke_parquet *w);
void ke_parquet_write_footer(ke_parquet *w);
#endif

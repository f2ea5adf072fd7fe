/* The end of a Parquet file: the page index, by which readers find the pages that a query needs, and
 * the footer with schema, row groups and metadata. Numbers of fields are those of parquet.thrift. */
#include "export/parquet_impl.h"

enum { CODEC_NONE = 0, CODEC_ZSTD = 6 };

/* ---- page index ------------------------------------------------------------------------------- */

/* 1: minima and maxima ascend, 2: they descend, 0: neither. Pages of nulls only do not count. */
static int32_t find_page_order(const ke_parquet_column *c, const ke_parquet_chunk *chunk)
{
    const ke_parquet_range *last = NULL;
    bool ascends = true, descends = true;
    for (size_t i = 0; i < chunk->pages.count; i++) {
        const ke_parquet_range *range = &chunk->pages.data[i].range;
        if (!range->is_known)
            continue;
        int min = last ? ke_parquet_compare(c, range->min, last->min) : 0;
        int max = last ? ke_parquet_compare(c, range->max, last->max) : 0;
        ascends &= min >= 0 && max >= 0;
        descends &= min <= 0 && max <= 0;
        last = range;
    }
    return ascends ? 1 : descends ? 2 : 0;
}

/* Every page with a value has a range, or else there is no index of the chunk. */
static bool has_column_index(const ke_parquet_chunk *chunk)
{
    for (size_t i = 0; i < chunk->pages.count; i++)
        if (!chunk->pages.data[i].range.is_known && chunk->pages.data[i].nulls < chunk->pages.data[i].rows)
            return false;
    return chunk->pages.count > 0;
}

static void put_column_index(ke_thrift *t, const ke_parquet_column *c, const ke_parquet_chunk *chunk)
{
    size_t count = chunk->pages.count;
    const ke_parquet_page *pages = chunk->pages.data;
    ke_thrift_begin(t, 0);
    ke_thrift_list(t, 1, 1, count);
    for (size_t i = 0; i < count; i++)
        ke_bytes_put_byte(t->out, pages[i].range.is_known ? 2 : 1);
    ke_thrift_list(t, 2, KE_THRIFT_BINARY, count);
    for (size_t i = 0; i < count; i++)
        ke_thrift_item_text(t, pages[i].range.min);
    ke_thrift_list(t, 3, KE_THRIFT_BINARY, count);
    for (size_t i = 0; i < count; i++)
        ke_thrift_item_text(t, pages[i].range.max);
    ke_thrift_i32(t, 4, find_page_order(c, chunk));
    ke_thrift_list(t, 5, KE_THRIFT_I64, count);
    for (size_t i = 0; i < count; i++)
        ke_thrift_item_i64(t, pages[i].nulls);
    ke_thrift_end(t);
}

static void put_offset_index(ke_thrift *t, const ke_parquet_chunk *chunk)
{
    ke_thrift_begin(t, 0);
    ke_thrift_list(t, 1, KE_THRIFT_STRUCT, chunk->pages.count);
    for (size_t i = 0; i < chunk->pages.count; i++) {
        const ke_parquet_page *page = &chunk->pages.data[i];
        ke_thrift_begin(t, 0);
        ke_thrift_i64(t, 1, (int64_t)page->offset);
        ke_thrift_i32(t, 2, (int32_t)page->size);
        ke_thrift_i64(t, 3, (int64_t)page->first_row);
        ke_thrift_end(t);
    }
    ke_thrift_end(t);
}

/* Writes what was put into w->header. @return its offset. */
static uint64_t write_index(ke_parquet *w, uint32_t *size)
{
    uint64_t offset = kb_sink_bytes(w->sink);
    if (w->header.failed || w->header.count > INT32_MAX)
        ke_parquet_fail_memory(w);
    else
        kb_sink_write(w->sink, w->header.data, w->header.count);
    *size = (uint32_t)w->header.count;
    w->header.count = 0;
    return offset;
}

/* All column indices, then all offset indices, as readers expect to find them: close together. */
void ke_parquet_write_page_index(ke_parquet *w)
{
    w->header.count = 0;
    for (size_t i = 0; i < w->chunks.count && !w->failed; i++) {
        ke_parquet_chunk *chunk = &w->chunks.data[i];
        ke_thrift t = {.out = &w->header};
        if (!has_column_index(chunk))
            continue;
        put_column_index(&t, &w->columns[i % w->column_count], chunk);
        chunk->column_index_offset = write_index(w, &chunk->column_index_size);
    }
    for (size_t i = 0; i < w->chunks.count && !w->failed; i++) {
        ke_parquet_chunk *chunk = &w->chunks.data[i];
        ke_thrift t = {.out = &w->header};
        put_offset_index(&t, chunk);
        chunk->offset_index_offset = write_index(w, &chunk->offset_index_size);
    }
}

/* ---- schema ----------------------------------------------------------------------------------- */

/* ConvertedType and LogicalType. */
static void put_logical_type(ke_thrift *t, uint8_t type)
{
    enum { CONVERTED_UTF8 = 0, LOGICAL_STRING = 1, LOGICAL_TIMESTAMP = 8 };
    bool is_text = type == KE_PARQUET_TEXT || type == KE_PARQUET_JSON; /* polars has bytes for the type JSON */
    if (is_text)
        ke_thrift_i32(t, 6, CONVERTED_UTF8);
    if (!is_text && type != KE_PARQUET_TIME_NS)
        return;
    ke_thrift_begin(t, 10);
    ke_thrift_begin(t, is_text ? LOGICAL_STRING : LOGICAL_TIMESTAMP);
    if (type == KE_PARQUET_TIME_NS) {
        ke_thrift_bool(t, 1, true);
        ke_thrift_begin(t, 2);
        ke_thrift_begin(t, 3);
        ke_thrift_end(t);
        ke_thrift_end(t);
    }
    ke_thrift_end(t);
    ke_thrift_end(t);
}

static void put_schema(ke_parquet *w, ke_thrift *t)
{
    ke_thrift_list(t, 2, KE_THRIFT_STRUCT, w->column_count + (size_t)1);
    ke_thrift_begin(t, 0);
    ke_thrift_text(t, 4, kb_string("schema"));
    ke_thrift_i32(t, 5, (int32_t)w->column_count);
    ke_thrift_end(t);
    for (uint32_t i = 0; i < w->column_count; i++) {
        const ke_parquet_spec *spec = &w->specs[i];
        ke_thrift_begin(t, 0);
        ke_thrift_i32(t, 1, ke_parquet_physical_type(spec->type));
        ke_thrift_i32(t, 3, spec->is_optional);
        ke_thrift_text(t, 4, kb_string(spec->name));
        put_logical_type(t, spec->type);
        ke_thrift_end(t);
    }
}

/* ---- row groups ------------------------------------------------------------------------------- */

static void put_statistics(ke_thrift *t, const ke_parquet_chunk *chunk)
{
    const ke_parquet_range *range = &chunk->range;
    ke_thrift_begin(t, 12);
    ke_thrift_i64(t, 3, (int64_t)chunk->nulls);
    if (range->is_known) {
        ke_thrift_text(t, 5, range->max);
        ke_thrift_text(t, 6, range->min);
        ke_thrift_bool(t, 7, range->is_max_exact);
        ke_thrift_bool(t, 8, range->is_min_exact);
    }
    ke_thrift_end(t);
}

static void put_column_metadata(const ke_parquet *w, ke_thrift *t, const ke_parquet_spec *spec,
                                const ke_parquet_chunk *chunk)
{
    bool plain_too = chunk->has_dictionary; /* of the dictionary itself */
    ke_thrift_begin(t, 3);
    ke_thrift_i32(t, 1, ke_parquet_physical_type(spec->type));
    ke_thrift_list(t, 2, KE_THRIFT_I32, plain_too ? 3 : 2);
    ke_thrift_item_i32(t, chunk->encoding);
    ke_thrift_item_i32(t, KE_PARQUET_RLE);
    if (plain_too)
        ke_thrift_item_i32(t, KE_PARQUET_PLAIN);
    ke_thrift_list(t, 3, KE_THRIFT_BINARY, 1);
    ke_thrift_item_text(t, kb_string(spec->name));
    ke_thrift_i32(t, 4, w->compressor ? CODEC_ZSTD : CODEC_NONE);
    ke_thrift_i64(t, 5, (int64_t)chunk->rows);
    ke_thrift_i64(t, 6, (int64_t)chunk->plain_bytes);
    ke_thrift_i64(t, 7, (int64_t)chunk->stored_bytes);
    ke_thrift_i64(t, 9, (int64_t)chunk->data_offset);
    if (chunk->has_dictionary)
        ke_thrift_i64(t, 11, (int64_t)chunk->offset);
    put_statistics(t, chunk);
    ke_thrift_end(t);
}

static void put_chunk(const ke_parquet *w, ke_thrift *t, const ke_parquet_spec *spec, const ke_parquet_chunk *chunk)
{
    ke_thrift_begin(t, 0);
    ke_thrift_i64(t, 2, 0);
    put_column_metadata(w, t, spec, chunk);
    ke_thrift_i64(t, 4, (int64_t)chunk->offset_index_offset);
    ke_thrift_i32(t, 5, (int32_t)chunk->offset_index_size);
    if (chunk->column_index_size) {
        ke_thrift_i64(t, 6, (int64_t)chunk->column_index_offset);
        ke_thrift_i32(t, 7, (int32_t)chunk->column_index_size);
    }
    ke_thrift_end(t);
}

static void put_row_group(const ke_parquet *w, ke_thrift *t, size_t group)
{
    const ke_parquet_chunk *chunks = w->chunks.data + group * w->column_count;
    uint64_t plain = 0, stored = 0;
    ke_thrift_begin(t, 0);
    ke_thrift_list(t, 1, KE_THRIFT_STRUCT, w->column_count);
    for (uint32_t i = 0; i < w->column_count; i++) {
        put_chunk(w, t, &w->specs[i], &chunks[i]);
        plain += chunks[i].plain_bytes;
        stored += chunks[i].stored_bytes;
    }
    ke_thrift_i64(t, 2, (int64_t)plain);
    ke_thrift_i64(t, 3, (int64_t)w->rows_of_groups.data[group]);
    ke_thrift_i64(t, 5, (int64_t)chunks[0].offset);
    ke_thrift_i64(t, 6, (int64_t)stored);
    ke_thrift_end(t);
}

static void put_file_metadata(const ke_parquet *w, ke_thrift *t)
{
    ke_thrift_list(t, 5, KE_THRIFT_STRUCT, w->metadata.count / 2);
    for (size_t i = 0; i + 1 < w->metadata.count; i += 2) {
        ke_thrift_begin(t, 0);
        ke_thrift_text(t, 1, w->metadata.data[i]);
        ke_thrift_text(t, 2, w->metadata.data[i + 1]);
        ke_thrift_end(t);
    }
}

void ke_parquet_write_footer(ke_parquet *w)
{
    ke_thrift t = {.out = &w->header};
    char creator[64];
    uint32_t size;
    snprintf(creator, sizeof creator, "ckineto version %s", kineto_version());
    w->header.count = 0;
    ke_thrift_begin(&t, 0);
    ke_thrift_i32(&t, 1, 2);
    put_schema(w, &t);
    ke_thrift_i64(&t, 3, (int64_t)w->rows);
    ke_thrift_list(&t, 4, KE_THRIFT_STRUCT, w->rows_of_groups.count);
    for (size_t i = 0; i < w->rows_of_groups.count; i++)
        put_row_group(w, &t, i);
    if (w->metadata.count)
        put_file_metadata(w, &t);
    ke_thrift_text(&t, 6, kb_string(creator));
    ke_thrift_list(&t, 7, KE_THRIFT_STRUCT, w->column_count); /* columns are ordered as their types are */
    for (uint32_t i = 0; i < w->column_count; i++) {
        ke_thrift_begin(&t, 0);
        ke_thrift_begin(&t, 1);
        ke_thrift_end(&t);
        ke_thrift_end(&t);
    }
    ke_thrift_end(&t);
    write_index(w, &size);
    ke_bytes_put_low(&w->header, size, 4);
    kb_sink_write(w->sink, w->header.data, w->header.count);
    kb_sink_write(w->sink, "PAR1", 4);
}

/* A column chunk of a Parquet file: which encoding its values get, its pages, and what they add to
 * the page index. Data pages are of version 1, which every reader knows. */
#include "export/parquet_impl.h"

/* Integers and doubles with more different values than this get no dictionary. */
#define MAX_DICTIONARY_VALUES 4096u
/* Wider differences are stored as plain values: fastparquet 2026.9 reads those of 40 bits wrongly. */
#define MAX_DELTA_BITS 32u
/* Readers load a dictionary whole: one of texts is at most as large as this. */
#define MAX_DICTIONARY_BYTES ((uint64_t)1 << 20)
/* A page of texts ends after this. */
#define MAX_PAGE_BYTES ((uint64_t)1 << 20)

typedef struct chunk_writer {
    ke_parquet *w;
    ke_parquet_column *c;
    ke_parquet_chunk *chunk;
    KB_VEC(int64_t) distinct; /* of the dictionary: values, or ids of texts */
    KB_VEC(int64_t) indices;  /* into it, of each value */
    KB_VEC(int64_t) levels;   /* of a page */
} chunk_writer;

uint8_t ke_parquet_physical_type(uint8_t type)
{
    switch (type) {
    case KE_PARQUET_BOOL:
        return KE_PARQUET_PHYSICAL_BOOLEAN;
    case KE_PARQUET_INT32:
        return KE_PARQUET_PHYSICAL_INT32;
    case KE_PARQUET_DOUBLE:
        return KE_PARQUET_PHYSICAL_DOUBLE;
    case KE_PARQUET_TEXT:
    case KE_PARQUET_JSON:
        return KE_PARQUET_PHYSICAL_BYTE_ARRAY;
    default:
        return KE_PARQUET_PHYSICAL_INT64;
    }
}

static bool has_texts(const ke_parquet_column *c) { return c->spec->type >= KE_PARQUET_TEXT; }

/* Bytes of a value in PLAIN; 0: a bit. */
static size_t value_bytes(const ke_parquet_column *c)
{
    return c->spec->type == KE_PARQUET_BOOL ? 0 : c->spec->type == KE_PARQUET_INT32 ? 4 : 8;
}

/* ---- choosing an encoding ------------------------------------------------------------------------- */

/* Numbers the different values in the order in which they come. False: too many, or no memory. */
static bool make_dictionary(chunk_writer *cw, size_t most)
{
    kb_map numbers = {0};
    bool ok = kb_vec_reserve(&cw->indices, cw->c->values.count);
    for (size_t i = 0; ok && i < cw->c->values.count; i++) {
        int64_t value = cw->c->values.data[i];
        bool created = false;
        uint64_t *number = kb_map_insert(&numbers, (uint64_t)value, cw->distinct.count, &created);
        ok = number && (!created || (cw->distinct.count < most && kb_vec_push(&cw->distinct, value)));
        if (ok)
            cw->indices.data[cw->indices.count++] = (int64_t)*number;
    }
    kb_map_free(&numbers);
    return ok;
}

static uint64_t dictionary_bytes(const chunk_writer *cw)
{
    uint64_t bytes = 0;
    if (!has_texts(cw->c))
        return cw->distinct.count * 8;
    for (size_t i = 0; i < cw->distinct.count; i++)
        bytes += 4 + kb_intern_get(&cw->c->texts, (uint32_t)cw->distinct.data[i]).size;
    return bytes;
}

/* UINT64_MAX: some differences are too wide for this encoding. */
static uint64_t encoded_delta_bytes(chunk_writer *cw)
{
    ke_bytes *out = &cw->w->page;
    out->count = 0;
    uint32_t widest = ke_encode_delta(out, cw->c->values.data, cw->c->values.count, cw->c->spec->type == KE_PARQUET_INT32);
    return widest > MAX_DELTA_BITS ? UINT64_MAX : out->count;
}

/* The encoding with the fewest bytes before compression. */
static uint8_t choose_encoding(chunk_writer *cw)
{
    const ke_parquet_column *c = cw->c;
    uint64_t count = c->values.count;
    uint64_t plain = has_texts(c) ? c->text_bytes : count * 8;
    uint64_t delta = UINT64_MAX;
    if (!count || c->spec->type == KE_PARQUET_BOOL)
        return KE_PARQUET_PLAIN;
    if (c->spec->type != KE_PARQUET_DOUBLE && !has_texts(c))
        delta = encoded_delta_bytes(cw);
    if (make_dictionary(cw, has_texts(c) ? count : MAX_DICTIONARY_VALUES)) {
        uint64_t bytes = dictionary_bytes(cw);
        uint64_t whole = bytes + count * ke_bit_width(cw->distinct.count - 1) / 8;
        if (bytes <= MAX_DICTIONARY_BYTES && whole < plain && whole <= delta)
            return KE_PARQUET_RLE_DICTIONARY;
    }
    return delta < plain ? KE_PARQUET_DELTA_BINARY_PACKED : KE_PARQUET_PLAIN;
}

/* ---- pages ------------------------------------------------------------------------------------ */

/* The body of w->page, compressed if there is zstd. */
static ke_bytes *pack_page(ke_parquet *w)
{
    w->packed.count = 0;
    if (!w->compressor)
        return &w->page;
    size_t room = kb_block_bound(w->page.count);
    char *at = ke_bytes_reserve(&w->packed, room);
    size_t size = at ? kb_block_compress(w->compressor, at, room, w->page.data, w->page.count) : 0;
    if (!size) {
        ke_parquet_fail(w, KINETO_E_MEMORY, "%s: cannot compress a page: out of memory", w->path);
        return NULL;
    }
    w->packed.count = size;
    return &w->packed;
}

/* PageHeader: its type, sizes, and the header of its type. @param type  0: data, 2: dictionary. */
static void put_page_header(ke_parquet *w, int32_t type, size_t stored, uint64_t values, uint8_t encoding)
{
    ke_thrift t = {.out = &w->header};
    w->header.count = 0;
    ke_thrift_begin(&t, 0);
    ke_thrift_i32(&t, 1, type);
    ke_thrift_i32(&t, 2, (int32_t)w->page.count);
    ke_thrift_i32(&t, 3, (int32_t)stored);
    ke_thrift_begin(&t, type ? 7 : 5);
    ke_thrift_i32(&t, 1, (int32_t)values);
    ke_thrift_i32(&t, 2, encoding);
    if (!type) {
        ke_thrift_i32(&t, 3, KE_PARQUET_RLE);
        ke_thrift_i32(&t, 4, KE_PARQUET_RLE);
    }
    ke_thrift_end(&t);
    ke_thrift_end(&t);
}

/* Writes w->page with its header. @return the bytes in the file; 0: it failed. */
static uint32_t write_page(chunk_writer *cw, int32_t type, uint64_t values, uint8_t encoding)
{
    ke_parquet *w = cw->w;
    if (w->page.failed)
        ke_parquet_fail_memory(w);
    if (!w->failed && w->page.count > (uint64_t)INT32_MAX / 2)
        ke_parquet_fail(w, KINETO_E_UNSUPPORTED, "%s: a text of column %s is larger than 1 GiB; Parquet has no room for it",
                        w->path, cw->c->spec->name);
    ke_bytes *body = w->failed ? NULL : pack_page(w);
    if (!body)
        return 0;
    put_page_header(w, type, body->count, values, encoding);
    if (w->header.failed)
        ke_parquet_fail_memory(w);
    kb_sink_write(w->sink, w->header.data, w->header.count);
    kb_sink_write(w->sink, body->data, body->count);
    cw->chunk->stored_bytes += w->header.count + body->count;
    cw->chunk->plain_bytes += w->header.count + w->page.count;
    return (uint32_t)(w->header.count + body->count);
}

static void put_plain_text(ke_bytes *out, kineto_string text)
{
    ke_bytes_put_low(out, text.size, 4);
    ke_bytes_put(out, text.data, text.size);
}

static void put_plain(chunk_writer *cw, const int64_t *values, size_t count)
{
    ke_bytes *out = &cw->w->page;
    if (!has_texts(cw->c)) {
        ke_encode_plain(out, values, count, value_bytes(cw->c));
        return;
    }
    for (size_t i = 0; i < count; i++)
        put_plain_text(out, kb_intern_get(&cw->c->texts, (uint32_t)values[i]));
}

static void write_dictionary(chunk_writer *cw)
{
    cw->w->page.count = 0;
    put_plain(cw, cw->distinct.data, cw->distinct.count);
    write_page(cw, 2, cw->distinct.count, KE_PARQUET_PLAIN);
    cw->chunk->has_dictionary = true;
}

/* Definition levels, 1 where there is a value, after their length. @return the rows with a value. */
static size_t put_levels(chunk_writer *cw, size_t first, size_t rows)
{
    ke_bytes *out = &cw->w->page;
    const uint8_t *present = cw->c->present.data + first;
    size_t values = 0, begin = out->count;
    if (!kb_vec_reserve(&cw->levels, rows)) {
        ke_parquet_fail_memory(cw->w);
        return 0;
    }
    for (size_t i = 0; i < rows; i++)
        values += (size_t)(cw->levels.data[i] = present[i]);
    ke_bytes_put_low(out, 0, 4);
    ke_encode_hybrid(out, cw->levels.data, rows, 1);
    uint32_t size = (uint32_t)(out->count - begin - 4);
    if (!out->failed)
        memcpy(out->data + begin, &size, sizeof size);
    return values;
}

/* Values of a page, in the encoding of the chunk. @param first  the first of them. */
static void put_values(chunk_writer *cw, size_t first, size_t count)
{
    ke_bytes *out = &cw->w->page;
    const int64_t *values = cw->c->values.data + first;
    uint32_t width = ke_bit_width(cw->distinct.count ? cw->distinct.count - 1 : 0);
    switch (cw->chunk->encoding) {
    case KE_PARQUET_DELTA_BINARY_PACKED:
        ke_encode_delta(out, values, count, cw->c->spec->type == KE_PARQUET_INT32);
        break;
    case KE_PARQUET_RLE_DICTIONARY:
        ke_bytes_put_byte(out, (uint8_t)width);
        ke_encode_hybrid(out, cw->indices.data + first, count, width);
        break;
    default:
        put_plain(cw, values, count);
    }
}

/* The rows of the next page: as many as a page has, but of texts that are not in a dictionary only some bytes. */
static size_t count_page_rows(const chunk_writer *cw, size_t row, size_t value)
{
    const ke_parquet_column *c = cw->c;
    size_t rows = KB_MIN(cw->w->group_rows - row, (uint64_t)cw->w->sizes.page_rows);
    uint64_t bytes = 0;
    if (!has_texts(c) || cw->chunk->encoding != KE_PARQUET_PLAIN)
        return rows;
    for (size_t i = 0; i < rows; i++) {
        if (c->spec->is_optional && !c->present.data[row + i])
            continue;
        bytes += 4 + kb_intern_get(&c->texts, (uint32_t)c->values.data[value++]).size;
        if (bytes > MAX_PAGE_BYTES && i)
            return i;
    }
    return rows;
}

/* @return the number of values, that is of rows that are not null. */
static size_t write_data_page(chunk_writer *cw, size_t row, size_t rows, size_t first)
{
    ke_parquet *w = cw->w;
    ke_parquet_page page = {.offset = kb_sink_bytes(w->sink), .first_row = row, .rows = (uint32_t)rows};
    w->page.count = 0;
    size_t values = cw->c->spec->is_optional ? put_levels(cw, row, rows) : rows;
    put_values(cw, first, values);
    page.size = write_page(cw, 0, rows, cw->chunk->encoding);
    page.nulls = (uint32_t)(rows - values);
    ke_parquet_find_range(w, cw->c, cw->c->values.data + first, values, &page.range);
    ke_parquet_widen_range(cw->c, &cw->chunk->range, &page.range);
    cw->chunk->nulls += page.nulls;
    if (!kb_vec_push(&cw->chunk->pages, page))
        ke_parquet_fail_memory(w);
    return values;
}

static void empty_column(ke_parquet_column *c)
{
    c->values.count = c->present.count = 0;
    c->text_bytes = 0;
    kb_intern_free(&c->texts);
    c->texts = (kb_intern){0};
}

void ke_parquet_write_chunk(ke_parquet *w, ke_parquet_column *c, ke_parquet_chunk *chunk)
{
    chunk_writer cw = {.w = w, .c = c, .chunk = chunk};
    *chunk = (ke_parquet_chunk){.offset = kb_sink_bytes(w->sink), .rows = w->group_rows};
    chunk->encoding = choose_encoding(&cw);
    if (chunk->encoding == KE_PARQUET_RLE_DICTIONARY)
        write_dictionary(&cw);
    chunk->data_offset = kb_sink_bytes(w->sink);
    for (size_t row = 0, value = 0; row < w->group_rows && !w->failed;) {
        size_t rows = count_page_rows(&cw, row, value);
        value += write_data_page(&cw, row, rows, value);
        row += rows;
    }
    kb_vec_free(&cw.distinct);
    kb_vec_free(&cw.indices);
    kb_vec_free(&cw.levels);
    empty_column(c);
}

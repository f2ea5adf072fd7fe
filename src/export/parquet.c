/* The Parquet writer: cells are collected column by column until a row group is full, which is then
 * written chunk by chunk. The first error sticks, and closing the file reports it. */
#include "export/parquet_impl.h"

#define GROUP_ROWS  131072u
#define GROUP_BYTES (64u << 20)
#define PAGE_ROWS   20000u

void ke_parquet_fail(ke_parquet *w, kineto_status code, const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (w->failed)
        return;
    va_start(args, fmt);
    (void)kb_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)kb_fail(&w->error, code, "%s", text);
    w->failed = true;
}

bool ke_parquet_failed(const ke_parquet *w) { return w->failed || kb_sink_failed(w->sink); }

static void free_parquet(ke_parquet *w)
{
    for (uint32_t i = 0; w->columns && i < w->column_count; i++) {
        kb_vec_free(&w->columns[i].values);
        kb_vec_free(&w->columns[i].present);
        kb_intern_free(&w->columns[i].texts);
    }
    for (size_t i = 0; i < w->chunks.count; i++)
        kb_vec_free(&w->chunks.data[i].pages);
    kb_vec_free(&w->chunks);
    kb_vec_free(&w->rows_of_groups);
    kb_vec_free(&w->metadata);
    kb_vec_free(&w->page);
    kb_vec_free(&w->packed);
    kb_vec_free(&w->header);
    kb_arena_free(&w->arena);
    kb_block_compressor_close(w->compressor);
    free(w->columns);
    free(w->path);
    free(w);
}

static ke_parquet *make_parquet(const char *path, const ke_parquet_spec *specs, uint32_t count)
{
    ke_parquet *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->path = strdup(path);
    w->specs = specs;
    w->columns = calloc(count, sizeof *w->columns);
    w->compressor = kb_block_compressor_open();
    if (!w->path || !w->columns || (kb_has_block_compressor() && !w->compressor)) {
        free_parquet(w);
        return NULL;
    }
    w->column_count = count;
    for (uint32_t i = 0; i < count; i++)
        w->columns[i].spec = &specs[i];
    return w;
}

kineto_status ke_parquet_open(const char *path, const ke_parquet_spec *specs, uint32_t count,
                              const ke_parquet_sizes *sizes, ke_parquet **out, kineto_error *err)
{
    ke_parquet *w = count ? make_parquet(path, specs, count) : NULL;
    if (!w)
        return kb_fail_memory(err, path);
    w->sizes = sizes ? *sizes : (ke_parquet_sizes){0};
    w->sizes.group_rows = w->sizes.group_rows ? w->sizes.group_rows : GROUP_ROWS;
    w->sizes.group_bytes = w->sizes.group_bytes ? w->sizes.group_bytes : GROUP_BYTES;
    w->sizes.page_rows = w->sizes.page_rows ? w->sizes.page_rows : PAGE_ROWS;
    kineto_status status = kb_sink_open_file(path, KB_COMPRESS_NONE, &w->sink, err);
    if (status) {
        free_parquet(w);
        return status;
    }
    kb_sink_write(w->sink, "PAR1", 4);
    *out = w;
    return KINETO_OK;
}

void ke_parquet_add_metadata(ke_parquet *w, const char *key, kineto_string value)
{
    char *key_copy = kb_arena_copy(&w->arena, key, strlen(key));
    char *copy = kb_arena_copy(&w->arena, value.data, value.size);
    if (!key_copy || !copy || !kb_vec_reserve(&w->metadata, w->metadata.count + 2)) {
        ke_parquet_fail_memory(w);
        return;
    }
    w->metadata.data[w->metadata.count++] = kb_string(key_copy);
    w->metadata.data[w->metadata.count++] = (kineto_string){copy, value.size};
}

/* ---- cells ------------------------------------------------------------------------------------ */

static void put_cell(ke_parquet *w, ke_parquet_column *c, int64_t value)
{
    KB_ASSERT(!c->has_cell);
    c->has_cell = true;
    if (!kb_vec_push(&c->values, value))
        ke_parquet_fail_memory(w);
}

void ke_parquet_put_int(ke_parquet *w, uint32_t column, int64_t value)
{
    KB_ASSERT(column < w->column_count);
    if (w->specs[column].type == KE_PARQUET_INT32 && value != (int32_t)value)
        ke_parquet_fail(w, KINETO_E_UNSUPPORTED, "%s: column %s: %lld does not fit into 32 bits", w->path,
                        w->specs[column].name, (long long)value);
    put_cell(w, &w->columns[column], value);
}

void ke_parquet_put_double(ke_parquet *w, uint32_t column, double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_cell(w, &w->columns[column], bits);
}

/* Invalid bytes become U+FFFD. */
static uint32_t intern_clean(ke_parquet_column *c, kineto_string text)
{
    char *clean = malloc(3 * text.size + 1);
    if (!clean)
        return KB_INTERN_NONE;
    char *end = kb_utf8_clean(clean, text, NULL);
    uint32_t id = kb_intern_id(&c->texts, (kineto_string){clean, (size_t)(end - clean)});
    free(clean);
    return id;
}

void ke_parquet_put_text(ke_parquet *w, uint32_t column, kineto_string value)
{
    ke_parquet_column *c = &w->columns[column];
    bool is_valid = kb_utf8_valid_prefix(value.data, value.size) == value.size;
    uint32_t id = is_valid ? kb_intern_id(&c->texts, value) : intern_clean(c, value);
    uint64_t bytes = 4 + kb_intern_get(&c->texts, id).size;
    if (id == KB_INTERN_NONE)
        ke_parquet_fail_memory(w);
    c->text_bytes += bytes;
    w->group_text_bytes += bytes;
    put_cell(w, c, id);
}

/* ---- row groups ------------------------------------------------------------------------------- */

static void write_row_group(ke_parquet *w)
{
    for (uint32_t i = 0; i < w->column_count && !ke_parquet_failed(w); i++) {
        ke_parquet_chunk chunk;
        ke_parquet_write_chunk(w, &w->columns[i], &chunk);
        if (!kb_vec_push(&w->chunks, chunk)) {
            kb_vec_free(&chunk.pages);
            ke_parquet_fail_memory(w);
        }
    }
    if (!kb_vec_push(&w->rows_of_groups, w->group_rows))
        ke_parquet_fail_memory(w);
    w->rows += w->group_rows;
    w->group_rows = w->group_text_bytes = 0;
}

void ke_parquet_end_row(ke_parquet *w)
{
    for (uint32_t i = 0; i < w->column_count; i++) {
        ke_parquet_column *c = &w->columns[i];
        KB_ASSERT(c->has_cell || c->spec->is_optional);
        if (c->spec->is_optional && !kb_vec_push(&c->present, c->has_cell))
            ke_parquet_fail_memory(w);
        c->has_cell = false;
    }
    w->group_rows++;
    if (!w->failed && (w->group_rows >= w->sizes.group_rows || w->group_text_bytes >= w->sizes.group_bytes))
        write_row_group(w);
}

/* ---- the end ---------------------------------------------------------------------------------- */

void ke_parquet_abort(ke_parquet *w)
{
    if (!w)
        return;
    kb_sink_abort(w->sink);
    free_parquet(w);
}

kineto_status ke_parquet_close(ke_parquet *w, uint64_t *rows, uint64_t *bytes, kineto_error *err)
{
    if (!w->failed && w->group_rows)
        write_row_group(w);
    if (!w->failed)
        ke_parquet_write_page_index(w);
    if (!w->failed)
        ke_parquet_write_footer(w);
    if (w->failed) {
        kineto_status status = kb_fail(err, w->error.code, "%s", w->error.message);
        ke_parquet_abort(w);
        return status;
    }
    uint64_t written;
    kineto_status status = kb_sink_close_counted(w->sink, &written, err);
    if (rows)
        *rows = w->rows;
    if (bytes)
        *bytes = written;
    free_parquet(w);
    return status;
}

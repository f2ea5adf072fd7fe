/* Heads of sections, their checksums and their compression. */
#include "analyze/saved/sections.h"

#if defined(KB_WITH_ZSTD)
#include <zstd.h>
#endif

/* As in PNG: a byte that is no text, and line ends that a transfer as text would change. */
static const char magic[8] = {'\x93', 'C', 'K', 'F', '\r', '\n', '\x1a', '\n'};

/* ---- packing --------------------------------------------------------------------------------- */

/* Below this many bytes compression gains nothing. */
#define MIN_PACKED_BYTES 64u

#if defined(KB_WITH_ZSTD)
enum { LEVEL = 3 };

static size_t compress_section(ka_section_packer *p, const void *data, size_t size)
{
    size_t room = ZSTD_compressBound(size);
    p->zstd = p->zstd ? p->zstd : ZSTD_createCCtx();
    if (!p->zstd || !kb_vec_reserve(&p->packed.bytes, room))
        return 0;
    size_t made = ZSTD_compressCCtx(p->zstd, p->packed.bytes.data, room, data, size, LEVEL);
    return ZSTD_isError(made) ? 0 : made;
}

bool ka_unpack_section(ka_section_unpacker *u, const void *stored, size_t stored_bytes, void *data, size_t size,
                       kineto_status *status)
{
    *status = KINETO_OK;
    if (!u)
        return ZSTD_decompress(data, size, stored, stored_bytes) == size;
    u->zstd = u->zstd ? u->zstd : ZSTD_createDCtx();
    *status = u->zstd ? KINETO_OK : KINETO_E_MEMORY;
    return u->zstd && ZSTD_decompressDCtx(u->zstd, data, size, stored, stored_bytes) == size;
}

void ka_section_unpacker_free(ka_section_unpacker *u) { ZSTD_freeDCtx(u->zstd); }

void ka_section_packer_free(ka_section_packer *p)
{
    ZSTD_freeCCtx(p->zstd);
    ka_byte_writer_free(&p->packed);
}
#else
static size_t compress_section(ka_section_packer *p, const void *data, size_t size)
{
    (void)p, (void)data, (void)size;
    return 0;
}

bool ka_unpack_section(ka_section_unpacker *u, const void *stored, size_t stored_bytes, void *data, size_t size,
                       kineto_status *status)
{
    (void)u, (void)stored, (void)stored_bytes, (void)data, (void)size;
    *status = KINETO_E_UNSUPPORTED;
    return false;
}

void ka_section_unpacker_free(ka_section_unpacker *u) { (void)u; }
void ka_section_packer_free(ka_section_packer *p) { ka_byte_writer_free(&p->packed); }
#endif

const void *ka_pack_section(ka_section_packer *p, const void *data, size_t size, size_t *stored, bool *is_compressed)
{
    size_t made = size < MIN_PACKED_BYTES ? 0 : compress_section(p, data, size);
    *is_compressed = made && made < size;
    *stored = *is_compressed ? made : size;
    return *is_compressed ? p->packed.bytes.data : data;
}

/* ---- heads ----------------------------------------------------------------------------------- */

void ka_write_section_head(const ka_section_head *head, ka_byte_writer *w)
{
    size_t from = w->bytes.count;
    ka_write_fixed(w, head->id, 4);
    ka_write_fixed(w, head->version, 2);
    ka_write_fixed(w, head->is_compressed, 2);
    ka_write_fixed(w, head->stored_bytes, 8);
    ka_write_fixed(w, head->bytes, 8);
    ka_write_fixed(w, head->crc, 4);
    if (!w->no_memory)
        ka_write_fixed(w, ka_crc32c(0, w->bytes.data + from, KA_SECTION_HEAD_BYTES - 4), 4);
}

bool ka_read_section_head(const void *bytes, ka_section_head *head)
{
    ka_byte_reader r = ka_read_from(bytes, KA_SECTION_HEAD_BYTES);
    head->id = (uint32_t)ka_read_fixed(&r, 4);
    head->version = (uint16_t)ka_read_fixed(&r, 2);
    head->is_compressed = (uint16_t)ka_read_fixed(&r, 2);
    head->stored_bytes = ka_read_fixed(&r, 8);
    head->bytes = ka_read_fixed(&r, 8);
    head->crc = (uint32_t)ka_read_fixed(&r, 4);
    return ka_read_fixed(&r, 4) == ka_crc32c(0, bytes, KA_SECTION_HEAD_BYTES - 4);
}

bool ka_has_facts_magic(const void *bytes, size_t size)
{
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

kineto_status ka_read_file_head(const void *bytes, const char *path, ka_facts_kind *kind, kineto_error *err)
{
    ka_byte_reader r = ka_read_from((const uint8_t *)bytes + sizeof magic, KA_FILE_HEAD_BYTES - sizeof magic);
    uint16_t version = (uint16_t)ka_read_fixed(&r, 2), number = (uint16_t)ka_read_fixed(&r, 2);
    uint32_t crc = (uint32_t)ka_read_fixed(&r, 4);
    if (!ka_has_facts_magic(bytes, KA_FILE_HEAD_BYTES))
        return kb_fail(err, KINETO_E_FORMAT, "%s: not a facts file", path);
    if (crc != ka_crc32c(0, bytes, KA_FILE_HEAD_BYTES - 4))
        return kb_fail(err, KINETO_E_FORMAT, "%s: damaged facts file: the checksum of its head is wrong", path);
    if (version > KA_FACTS_VERSION || number < KA_FACTS_OF_TRACE || number > KA_FACTS_OF_RUN)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "%s: facts file of format %u; this ckineto " KINETO_VERSION
                       " reads format %u: use the ckineto that wrote it, or a newer one",
                       path, version, KA_FACTS_VERSION);
    *kind = (ka_facts_kind)number;
    return KINETO_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

void ka_begin_sections(ka_section_writer *w, ka_facts_kind kind)
{
    ka_byte_writer head = {.no_memory = false};
    ka_write_bytes(&head, magic, sizeof magic);
    ka_write_fixed(&head, KA_FACTS_VERSION, 2);
    ka_write_fixed(&head, kind, 2);
    if (!head.no_memory)
        ka_write_fixed(&head, ka_crc32c(0, head.bytes.data, head.bytes.count), 4);
    if (head.no_memory)
        kb_sink_fail(w->sink, KINETO_E_MEMORY, "facts file: out of memory");
    else
        kb_sink_write(w->sink, head.bytes.data, head.bytes.count);
    ka_byte_writer_free(&head);
}

static void put_section(ka_section_writer *w, ka_section_id id, const ka_byte_writer *content, bool may_compress)
{
    ka_section_head h = {.id = id, .version = 1, .bytes = content->bytes.count};
    ka_byte_writer head = {.no_memory = content->no_memory};
    size_t stored = content->bytes.count;
    bool is_compressed = false;
    const void *data = content->bytes.data;
    if (may_compress)
        data = ka_pack_section(&w->packer, data, stored, &stored, &is_compressed);
    h.is_compressed = is_compressed;
    h.stored_bytes = stored;
    h.crc = ka_crc32c(0, data, stored);
    ka_write_section_head(&h, &head);
    if (head.no_memory) {
        kb_sink_fail(w->sink, KINETO_E_MEMORY, "facts file: out of memory");
    } else {
        kb_sink_write(w->sink, head.bytes.data, head.bytes.count);
        kb_sink_write(w->sink, data, stored);
        w->count++;
    }
    ka_byte_writer_free(&head);
}

void ka_put_section(ka_section_writer *w, ka_section_id id, const ka_byte_writer *content)
{
    put_section(w, id, content, true);
}

void ka_put_stored_section(ka_section_writer *w, ka_section_id id, const ka_byte_writer *content)
{
    put_section(w, id, content, false);
}

void ka_end_sections(ka_section_writer *w)
{
    ka_byte_writer end = {.no_memory = false};
    ka_write_varint(&end, w->count);
    ka_put_section(w, KA_SECTION_END, &end);
    ka_byte_writer_free(&end);
}

void ka_section_writer_free(ka_section_writer *w) { ka_section_packer_free(&w->packer); }

/* Sections as they are, for those who join files: copied, compared, checked.
 *
 * Nothing is decoded or decompressed: a section of a version that is not known is copied like any other. */
#include "analyze/saved/facts_sections.h"

/* The content of a section as it is in the file. @param to  NULL: only its checksum is compared. */
static kineto_status copy_content(ka_facts_file *f, uint64_t at, const ka_section_head *head, kb_sink *to,
                                  kineto_error *err)
{
    enum { PIECE_BYTES = 1 << 16 };
    uint64_t left = head->stored_bytes;
    uint32_t crc = 0;
    if (!kb_vec_reserve(&f->stored, PIECE_BYTES))
        return kb_fail_memory(err, f->path);
    while (left) {
        size_t piece = (size_t)KB_MIN(left, (uint64_t)PIECE_BYTES);
        kineto_status status = ka_read_file_bytes(f, at, f->stored.data, piece, err);
        if (status)
            return status;
        crc = ka_crc32c(crc, f->stored.data, piece);
        if (to)
            kb_sink_write(to, f->stored.data, piece);
        at += piece;
        left -= piece;
    }
    return crc == head->crc ? KINETO_OK : ka_fail_damaged(f, "the checksum of a section is wrong", at, err);
}

kineto_status ka_facts_file_copy(ka_facts_file *f, uint32_t trace, ka_section_writer *to, kineto_error *err)
{
    const ka_stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    for (uint64_t at = t->at; at < t->end && !status; to->count++) {
        ka_section_head head;
        uint8_t bytes[KA_SECTION_HEAD_BYTES];
        status = ka_read_head_at(f, at, &head, err);
        if (!status)
            status = ka_read_file_bytes(f, at, bytes, sizeof bytes, err);
        if (status)
            return status;
        kb_sink_write(to->sink, bytes, sizeof bytes);
        status = copy_content(f, at + sizeof bytes, &head, to->sink, err);
        at += sizeof bytes + head.stored_bytes;
    }
    return status;
}

kineto_status ka_facts_file_digest(ka_facts_file *f, uint32_t trace, uint32_t *digest, kineto_error *err)
{
    const ka_stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    *digest = 0;
    for (uint64_t at = t->at; at < t->end && !status;) {
        ka_section_head head;
        status = ka_read_head_at(f, at, &head, err);
        if (status)
            return status;
        *digest = ka_crc32c(*digest, &head.crc, sizeof head.crc);
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
    }
    return status;
}

kineto_status ka_facts_file_check(ka_facts_file *f, kineto_error *err)
{
    uint64_t at = KA_FILE_HEAD_BYTES;
    for (;;) {
        ka_section_head head;
        kineto_status status = ka_read_head_at(f, at, &head, err);
        if (!status)
            status = copy_content(f, at + KA_SECTION_HEAD_BYTES, &head, NULL, err);
        if (status || head.id == KA_SECTION_END)
            return status;
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
    }
}

/* Reads the bytes of facts files, and their sections.
 *
 * All that is decoded passes ka_decode_section: head, version, size and checksum are checked there, and so is that the
 * decoder could read the content. Messages name the file and the byte at which the section begins. */
#include "analyze/saved/facts_sections.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

kineto_status ka_fail_damaged(const ka_facts_file *f, const char *what, uint64_t at, kineto_error *err)
{
    return kb_fail(err, KINETO_E_FORMAT, "%s: damaged facts file: %s at byte %llu; run 'ckineto facts' again", f->path,
                   what, (unsigned long long)at);
}

kineto_status ka_read_descriptor(const ka_facts_file *f, int fd, uint64_t at, void *out, size_t size, kineto_error *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(fd, (char *)out + done, size - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kb_fail_os(err, errno, "cannot read %s", f->path);
        if (!got)
            return kb_fail(err, KINETO_E_FORMAT, "%s: the facts file is cut off after %llu bytes; run 'ckineto facts' again",
                           f->path, (unsigned long long)(at + done));
        done += (size_t)got;
    }
    return KINETO_OK;
}

kineto_status ka_read_file_bytes(ka_facts_file *f, uint64_t at, void *out, size_t size, kineto_error *err)
{
    if (f->fd < 0)
        f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    return f->fd < 0 ? kb_fail_os(err, errno, "cannot open %s", f->path)
                     : ka_read_descriptor(f, f->fd, at, out, size, err);
}

/* Is the section within the file, and in reason? */
kineto_status ka_read_head_at(ka_facts_file *f, uint64_t at, ka_section_head *head, kineto_error *err)
{
    uint8_t bytes[KA_SECTION_HEAD_BYTES];
    kineto_status status = ka_read_file_bytes(f, at, bytes, sizeof bytes, err);
    if (status)
        return status;
    if (!ka_read_section_head(bytes, head))
        return ka_fail_damaged(f, "the checksum of a section head is wrong", at, err);
    if (head->stored_bytes > f->bytes - at - sizeof bytes)
        return kb_fail(err, KINETO_E_FORMAT, "%s: the facts file is cut off after %llu bytes; run 'ckineto facts' again",
                       f->path, (unsigned long long)f->bytes);
    return KINETO_OK;
}

kineto_status ka_unpack_part(const ka_facts_file *f, ka_section_unpacker *u, const ka_packed_part *part, void *out,
                             kineto_error *err)
{
    kineto_status status;
    if (ka_unpack_section(u, part->stored, part->stored_bytes, out, part->bytes, &status))
        return KINETO_OK;
    if (status == KINETO_E_MEMORY)
        return kb_fail_memory(err, f->path);
    return status ? kb_fail(err, status, "%s: this ckineto is built without zstd, and cannot read it", f->path)
                  : ka_fail_damaged(f, "a section cannot be decompressed", part->at, err);
}

kineto_status ka_check_section_version(ka_facts_file *f, const ka_section_head *head, kineto_error *err)
{
    size_t trace = f->traces.count;
    if (head->version <= 1)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "%s: section %.4s has version %u; this ckineto " KINETO_VERSION
                   " reads version 1: use ckineto %s or newer",
                   f->path, (const char *)&(uint32_t){head->id}, head->version,
                   trace ? f->traces.data[trace - 1].source.version.data : "that wrote it");
}

/* The bytes of a section as they are in the file, in f->stored, if their checksum is right. */
static kineto_status read_stored(ka_facts_file *f, uint64_t at, const ka_section_head *head, kineto_error *err)
{
    if (head->bytes > KA_MAX_SECTION_BYTES || head->is_compressed > 1 ||
        (!head->is_compressed && head->bytes != head->stored_bytes))
        return ka_fail_damaged(f, "impossible section", at, err);
    if (!kb_vec_reserve(&f->stored, head->stored_bytes + 1))
        return kb_fail_memory(err, f->path);
    kineto_status status = ka_read_file_bytes(f, at + KA_SECTION_HEAD_BYTES, f->stored.data, head->stored_bytes, err);
    if (!status && ka_crc32c(0, f->stored.data, head->stored_bytes) != head->crc)
        status = ka_fail_damaged(f, "the checksum of a section is wrong", at, err);
    return status;
}

/* The content of a section, in buffers of the file until the next one is read. */
static kineto_status load_section(ka_facts_file *f, uint64_t at, ka_byte_reader *out, kineto_error *err)
{
    ka_section_head head;
    kineto_status status = ka_read_head_at(f, at, &head, err);
    if (!status)
        status = ka_check_section_version(f, &head, err);
    if (!status)
        status = read_stored(f, at, &head, err);
    if (!status && head.is_compressed) {
        const ka_packed_part part = {f->stored.data, head.stored_bytes, head.bytes, at};
        status = kb_vec_reserve(&f->buffer, head.bytes + 1) ? ka_unpack_part(f, NULL, &part, f->buffer.data, err)
                                                            : kb_fail_memory(err, f->path);
    }
    if (!status)
        *out = ka_read_from(head.is_compressed ? f->buffer.data : f->stored.data, head.bytes);
    return status;
}

kineto_status ka_decode_section(ka_facts_file *f, uint64_t at, ka_section_decoder decode, void *context,
                                kineto_error *err)
{
    ka_byte_reader r;
    kineto_status status = at ? load_section(f, at, &r, err) : KINETO_OK;
    if (!at || status)
        return status;
    bool ok = decode(&r, context);
    if (r.is_bad)
        return ka_fail_damaged(f, "a section makes no sense", at, err);
    return ok ? KINETO_OK : kb_fail_memory(err, f->path);
}

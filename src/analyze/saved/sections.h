/* Facts files as a list of sections, each with a head, a checksum, and perhaps compressed. A head has 32 bytes:
 *
 *   0 id (4 letters)   4 version   6 1: zstd   8 stored bytes   16 bytes   24 CRC-32C of what is stored
 *   28 CRC-32C of the 28 bytes before
 *
 * The last section, END, says how many there are before it. docs/reference/facts-files.md has the whole format. */
#ifndef KA_SECTIONS_H
#define KA_SECTIONS_H

#include "analyze/saved/byte_coding.h"

#define KA_FACTS_VERSION     1u
#define KA_FILE_HEAD_BYTES    16u
#define KA_SECTION_HEAD_BYTES 32u
/* Sections that are decoded as a whole; more is taken for damage. */
#define KA_MAX_SECTION_BYTES ((uint64_t)1 << 31)

#define KA_SECTION_ID(a, b, c, d) ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
typedef enum ka_section_id {
    KA_SECTION_SOURCE = KA_SECTION_ID('S', 'R', 'C', 'E'),   /* a trace begins */
    KA_SECTION_ERROR = KA_SECTION_ID('E', 'R', 'R', ' '),    /* it cannot be read */
    KA_SECTION_HEALTH = KA_SECTION_ID('H', 'L', 'T', 'H'),   /* coverage, losses, what verify finds */
    KA_SECTION_RANK = KA_SECTION_ID('R', 'A', 'N', 'K'),     /* head of ka_rank_facts, and where its blocks are */
    KA_SECTION_ROWS = KA_SECTION_ID('R', 'O', 'W', 'S'),     /* blocks of the rank before */
    KA_SECTION_TABLES = KA_SECTION_ID('T', 'A', 'B', 'L'),   /* kineto_analysis */
    KA_SECTION_FINDINGS = KA_SECTION_ID('F', 'I', 'N', 'D'), /* kineto_findings */
    KA_SECTION_RESULTS = KA_SECTION_ID('R', 'S', 'L', 'T'),  /* of a run: kineto_analysis of all ranks */
    KA_SECTION_END = KA_SECTION_ID('E', 'N', 'D', ' ')
} ka_section_id;

/* After the blocks in KA_SECTION_RANK. */
enum { KA_RANK_ON_HOST = 1, KA_RANK_IS_DUMP = 2 };

typedef struct ka_section_head {
    uint32_t id, crc;
    uint16_t version, is_compressed;
    uint64_t stored_bytes, bytes;
} ka_section_head;

typedef enum ka_facts_kind { KA_FACTS_OF_TRACE = 1, KA_FACTS_OF_RUN = 2 } ka_facts_kind;

/* ---- packing --------------------------------------------------------------------------------- */

/** Compresses what gets smaller by it; one thread at a time. */
typedef struct ka_section_packer {
    void *zstd; /* NULL: no context yet, or a build without zstd */
    ka_byte_writer packed;
} ka_section_packer;
void ka_section_packer_free(ka_section_packer *p);
/** The bytes to store, borrowed from the packer or from `data`. @param is_compressed  receives which. */
const void *ka_pack_section(ka_section_packer *p, const void *data, size_t size, size_t *stored, bool *is_compressed);
/** Keeps what decompressing needs from one section to the next; one thread at a time. */
typedef struct ka_section_unpacker {
    void *zstd; /* NULL: no context yet */
} ka_section_unpacker;
void ka_section_unpacker_free(ka_section_unpacker *u);
/** The inverse, into exactly `size` bytes. @param u  NULL: nothing is kept. False: damage. In *status else:
 *  KINETO_E_UNSUPPORTED: no zstd in this build; KINETO_E_MEMORY. */
bool ka_unpack_section(ka_section_unpacker *u, const void *stored, size_t stored_bytes, void *data, size_t size,
                       kineto_status *status);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct ka_section_writer {
    kb_sink *sink;
    ka_section_packer packer;
    uint64_t count; /* of sections so far */
} ka_section_writer;

/** Head of the file, sections, then the end. Failures of writing stick in the sink; no memory makes it fail. */
void ka_begin_sections(ka_section_writer *w, ka_facts_kind kind);
void ka_put_section(ka_section_writer *w, ka_section_id id, const ka_byte_writer *content);
/** One that stays as it is: its parts are compressed already. */
void ka_put_stored_section(ka_section_writer *w, ka_section_id id, const ka_byte_writer *content);
void ka_end_sections(ka_section_writer *w);
void ka_section_writer_free(ka_section_writer *w);

/* ---- reading --------------------------------------------------------------------------------- */

/** @param bytes  KA_FILE_HEAD_BYTES of the file. KINETO_E_FORMAT; KINETO_E_UNSUPPORTED: a newer version. */
kineto_status ka_read_file_head(const void *bytes, const char *path, ka_facts_kind *kind, kineto_error *err);
/** Is this how such a file begins? Of any version. */
bool ka_has_facts_magic(const void *bytes, size_t size);
/** @param bytes  KA_SECTION_HEAD_BYTES. False: damaged. */
bool ka_read_section_head(const void *bytes, ka_section_head *head);
void ka_write_section_head(const ka_section_head *head, ka_byte_writer *w);
#endif

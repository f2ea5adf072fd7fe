/* An open facts file, and how its sections are read: for the files that read them. */
#ifndef KA_FACTS_SECTIONS_H
#define KA_FACTS_SECTIONS_H

#include "analyze/ranks/rank_source.h"
#include "analyze/saved/facts_read.h"
#include "analyze/saved/packed_rows.h"
#include "analyze/saved/row_blocks.h"

/** Where a block of rows is: in the section, from its begin. */
typedef struct ka_stored_block {
    uint64_t at;
    uint32_t stored_bytes, bytes, crc; /* bytes: decompressed; 0: it is not compressed */
} ka_stored_block;
/* More than any block has. */
#define KA_MAX_BLOCK_BYTES (1u << 17)
/* Less than any block has. */
#define KA_MIN_BLOCK_BYTES 16u

/** A rank of the file, and where its blocks are. */
typedef struct ka_stored_rank {
    uint64_t head_at, rows_at; /* heads of its sections; rows_at 0: none */
    uint32_t trace;
    bool is_read;              /* the members below are there */
    ka_row_coding coding;
    uint32_t row_count, group_count;
    KB_VEC(ka_stored_block) blocks;
    ka_packed_rows ahead; /* rows that were decoded with those that its source was asked for last */
    ka_facts_file *file;
} ka_stored_rank;

typedef struct ka_stored_trace {
    ka_facts_source source;
    uint64_t at, end; /* its sections */
    uint64_t error_at, health_at, tables_at, findings_at; /* 0: none */
    uint32_t first_rank, rank_count;
} ka_stored_trace;

struct ka_facts_file {
    char *path;
    int fd; /* -1: opened again when it is needed */
    uint64_t bytes, results_at;
    ka_facts_kind kind;
    kb_arena arena;
    KB_VEC(ka_stored_trace) traces;
    KB_VEC(ka_stored_rank) ranks;
    KB_VEC(uint8_t) buffer, stored; /* a section, and as it is in the file */
    ka_row_reader *reader; /* NULL: none yet */
    bool keeps_rows;       /* ka_facts_file_keep_rows: the reader is the caller's */
};

/* ---- facts_sections.c -------------------------------------------------------------------------- */

/** KINETO_E_FORMAT, with the path and the place. */
kineto_status ka_fail_damaged(const ka_facts_file *f, const char *what, uint64_t at, kineto_error *err);
/** By a descriptor of the file. */
kineto_status ka_read_descriptor(const ka_facts_file *f, int fd, uint64_t at, void *out, size_t size, kineto_error *err);
kineto_status ka_read_file_bytes(ka_facts_file *f, uint64_t at, void *out, size_t size, kineto_error *err);
/** The section is within the file. */
kineto_status ka_read_head_at(ka_facts_file *f, uint64_t at, ka_section_head *head, kineto_error *err);
kineto_status ka_check_section_version(ka_facts_file *f, const ka_section_head *head, kineto_error *err);

/** Compressed bytes of the file. */
typedef struct ka_packed_part {
    const void *stored;
    size_t stored_bytes, bytes; /* bytes: decompressed */
    uint64_t at;                /* in the file, for errors */
} ka_packed_part;
/** @param u  NULL: none is kept. @param out  room for part->bytes. */
kineto_status ka_unpack_part(const ka_facts_file *f, ka_section_unpacker *u, const ka_packed_part *part, void *out,
                             kineto_error *err);

/** Takes what it needs of a section: texts are gone when the next one is read. False: out of memory, or r->is_bad. */
typedef bool (*ka_section_decoder)(ka_byte_reader *r, void *context);
/** Decode the section whose head is there; 0: there is none, and nothing is done. A section that makes no sense is
 *  damage. */
kineto_status ka_decode_section(ka_facts_file *f, uint64_t at, ka_section_decoder decode, void *context,
                                kineto_error *err);

/* ---- facts_ranks.c ----------------------------------------------------------------------------- */

/** Add the ranks of a trace to `to`. */
kineto_status ka_load_ranks(ka_facts_file *f, uint32_t trace, kineto_analysis *to, kineto_error *err);
/** Where the blocks of a rank are is read once. */
kineto_status ka_find_blocks(ka_facts_file *f, uint32_t rank_index, kineto_error *err);

/* ---- row_reader.c ------------------------------------------------------------------------------ */

/** Of a rank whose blocks were found; both must outlive the source. Reads by the reader of the file. */
ka_rank_source ka_rank_source_of_file(ka_stored_rank *rank, const ka_rank_facts *head);
/** The file is closed. */
void ka_forget_rows(ka_facts_file *f);
#endif

/* The text of one input file as one range of addresses, filled from its beginning on.
 *
 * A plain file is memory-mapped. A compressed file or a pipe is read and decompressed by a
 * producer thread, while other threads already parse the part that is ready. At least a
 * page of zeros follows the text, so that parsers may read past its end.
 *
 * Memory that all readers have passed is released to the system, and the producer stays at
 * most KT_AHEAD_BYTES ahead of them. When the file has been parsed, the address range of a
 * decompressed text is unmapped, and later reads of parts of it (arguments of events)
 * decompress the chunk that holds them (seek_index.h, decompressed_cache.c). A reader that never
 * calls kt_input_mark_passed keeps the whole text mapped.
 *
 * Life: kt_input_open, kt_input_wait/_ready and kt_input_mark_passed by any readers,
 * kt_input_finish, kt_input_seal, then kt_input_text by any threads until the last
 * kt_input_release. */
#ifndef KT_INPUT_H
#define KT_INPUT_H

#include "base/base.h"
#include "trace/bytes/seek_index.h"

#include <pthread.h>

/* How far the producer runs ahead of the slowest reader, in bytes of text; more if a reader
 * waits. */
#define KT_AHEAD_BYTES ((size_t)8 << 20)
/* Text before the slowest reader that is not released: repair reads backwards. */
#define KT_BACK_BYTES ((size_t)64 << 10)
/* The unit of release: a huge page. */
#define KT_GIVE_BYTES ((size_t)2 << 20)

/* Resident parts of a large mapped file after parsing: only the parts that were read most
 * recently stay in the memory of the process. The others are released with madvise and
 * fault in again, out of the system's page cache, when they are read. */
#ifndef KT_PART_BYTES
#define KT_PART_BYTES ((size_t)2 << 20)
#endif
#define KT_PARTS 32u   /* resident parts of all files together, as long as the files are few */
#ifndef KT_LARGE_BYTES /* smaller files stay resident: repeated page faults would take time */
#define KT_LARGE_BYTES ((size_t)384 << 20)
#endif
typedef struct kt_resident_parts {
    uint8_t *here;           /* by part, 1: resident; NULL: parts are not released */
    uint32_t last[KT_PARTS]; /* a ring of the numbers of resident parts, oldest first */
    uint32_t first, count;   /* of the ring */
} kt_resident_parts;

typedef struct kt_input {
    uint32_t references;
    char *path;
    const char *base;
    size_t reserved_bytes; /* of address space */
    uint64_t file_bytes;   /* size of the file on disk (compressed), 0: unknown */
    size_t ready_bytes;    /* text that may be read; only grows; stored with release */
    uint32_t complete;     /* 1: ready_bytes is final; stored with release */
    bool mapped;           /* `base` is a mapping of the file itself */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t producer;
    bool has_producer;
    /* Invariant under the mutex: given <= passed <= ready_bytes. */
    bool stop;        /* the producer ends: no reader needs more text */
    size_t wanted;    /* a reader waits until this much text is ready */
    size_t passed;    /* no reader reads text before this offset; also loaded without the mutex */
    size_t given;     /* text before this offset has been released */
    size_t spares[8]; /* offsets of released pieces of KT_GIVE_BYTES that the producer may reuse */
    uint32_t spare_count;
    bool all_passed; /* also text that is not ready yet: it is read and dropped */
    bool away;       /* the text is no longer at `base`: it is reloaded through `index` */
    kt_seek_index index;
    uint64_t number; /* unique in the process: the key of the chunk cache */

    kt_resident_parts parts;
    uint32_t cut;      /* 1: the mapped file was truncated, its lost pages read as zeros */
    size_t most_ahead; /* limit for text that one item may hold in memory, in bytes; 0: none */

    struct kt_inflate *source;
    kineto_status status; /* why the text ends where it does; written under the mutex */
    kineto_error error;
} kt_input;

/** Opens a file and begins to read it; "-" is stdin. The caller releases it. */
kineto_status kt_input_open(const char *path, kt_input **out, kineto_error *err);
kt_input *kt_input_retain(kt_input *in);
void kt_input_release(kt_input *in);
/** All text that is needed has been read: stops and joins the producer. Text that is ready
 *  stays. */
void kt_input_finish(kt_input *in);
/** No thread reads the text before `offset` any more, except through kt_input_text after
 *  kt_input_seal; SIZE_MAX: none of the text, including text that is not ready yet. Any
 *  thread. */
void kt_input_mark_passed(kt_input *in, size_t offset);
/** After kt_input_finish, if kt_input_mark_passed was called: releases the rest of the text. No
 *  other thread may read the text during the call. KINETO_E_MEMORY: the seek index is
 *  incomplete. */
kineto_status kt_input_seal(kt_input *in, kineto_error *err);
/** Releases memory that can be had again: pages of a mapped file, or chunks in the cache.
 *  Any thread. */
void kt_input_trim(kt_input *in);
/** Limits the text in memory that no reader has passed: one item longer than `most_ahead`
 *  bytes ends the text with KINETO_E_LIMIT. */
void kt_input_set_item_limit(kt_input *in, size_t most_ahead);
/** Called by a reader that needs more of one item than the limit allows: ends the text with
 *  an error. */
void kt_input_fail_item_limit(kt_input *in);
/** After parsing: KINETO_E_IO if the file was truncated meanwhile. */
kineto_status kt_input_check(kt_input *in, kineto_error *err);
/** True if some text that was requested could not be reloaded. */
bool kt_input_has_lost_text(kt_input *in);
/** Why the text ends where it does. Any thread; `error` belongs to it. */
static inline kineto_status kt_input_status(const kt_input *in)
{
    return kb_load_acquire(&in->status);
}
/** Waits until `bytes` of text are ready, or all of it. @return bytes that are ready. */
size_t kt_input_wait(kt_input *in, size_t bytes);
static inline size_t kt_input_ready(kt_input *in, size_t bytes)
{
    size_t ready = kb_load_acquire(&in->ready_bytes);
    return ready >= bytes ? ready : kt_input_wait(in, bytes);
}

/* ---- decompressed_cache.c: text that is no longer at its addresses ---------------------------------- */
#ifndef KT_CHUNK_CACHE_BYTES
#define KT_CHUNK_CACHE_BYTES ((size_t)16 << 20) /* of chunks in the cache; each thread holds one more */
#endif
/** Loads `bytes` of text at `offset` into a copy that 64 zeros follow. Valid until this
 *  thread has loaded KT_ARGS_TEXT_VIEWS other parts. Empty: the text cannot be reloaded. */
kineto_string kt_chunk_cache_read(kt_input *in, uint64_t offset, size_t bytes);
/** Drops the chunks of this input from the cache. */
void kt_chunk_cache_drop(kt_input *in);

/* ---- mapped_pages.c: memory of large mapped files ------------------------------------------ */
/** Begins to limit the resident parts of a large mapped file; does nothing for other inputs. */
void kt_resident_parts_begin(kt_input *in);
/** Before a read from a part that is not resident: enters it, and releases the oldest ones. */
void kt_resident_parts_enter(kt_input *in, size_t part);
void kt_resident_parts_end(kt_input *in);

/** Part of a text after kt_input_seal. If it had to be reloaded, valid as long as by
 *  kt_chunk_cache_read. */
static inline kineto_string kt_input_text(kt_input *in, uint64_t offset, size_t bytes)
{
    const uint8_t *here = in->parts.here;
    if (KINETO_UNLIKELY(in->away))
        return kt_chunk_cache_read(in, offset, bytes);
    if (here && KINETO_UNLIKELY(!kb_load_relaxed(&here[offset / KT_PART_BYTES])))
        kt_resident_parts_enter(in, offset / KT_PART_BYTES);
    return (kineto_string){in->base + offset, bytes};
}

/* ---- guard.c: mapped files that are truncated ------------------------------------------------ */
/** From here to kt_guard_end, pages that the file lost read as zeros, and set `cut` to 1. */
void kt_guard_begin(kt_input *in, size_t bytes);
void kt_guard_end(const kt_input *in);
/** Path of the first mapped file that was truncated while this process read it; NULL: none. */
const char *kt_guard_cut_file(void);

/* ---- inflate.c: bytes of a file or pipe, decompressed ---------------------------------------- */
typedef struct kt_inflate kt_inflate;
/** Takes ownership of the descriptor, also on failure. The format (plain, gzip, zstd)
 *  follows from the first bytes. `path` is borrowed, for messages. */
kineto_status kt_inflate_open(int fd, const char *path, kt_inflate **out, kineto_error *err);
void kt_inflate_close(kt_inflate *s);
bool kt_inflate_is_compressed(const kt_inflate *s);
/** True if the regular file is now shorter than `bytes`. */
bool kt_inflate_is_shorter(const kt_inflate *s, size_t bytes);
/** Reads up to `room` bytes of text; *got 0: the end. Damaged data: KINETO_E_FORMAT. */
kineto_status kt_inflate_read(kt_inflate *s, char *out, size_t room, size_t *got,
                              kineto_error *err);
/* A place in a gzip file with the decoder's state, from which decompression can continue. */
typedef struct kt_seek_point kt_seek_point;
bool kt_inflate_can_resume(const kt_inflate *s);
/** A point from which the following text can be decompressed again; NULL: out of memory. */
kt_seek_point *kt_inflate_mark(kt_inflate *s, kt_packer *packer);
void kt_seek_point_free(kt_seek_point *point);
/** Takes the descriptor from the source, which has been read. The caller closes it. */
int kt_inflate_take_file(kt_inflate *s);
/** Decompresses exactly `bytes` of text from a point on. Thread-safe. False: damaged or
 *  unreadable. */
bool kt_inflate_resume(int fd, const kt_seek_point *point, char *out, size_t bytes);
#endif

/* The seek index of a decompressed text whose addresses were released: any part of it can
 * be loaded again.
 *
 * The text is cut into chunks of equal size. Of a gzip file, a chunk is a seek point: a
 * position in the file and the state of the decoder there. Of an input that cannot be read
 * twice (a pipe) or not from the middle (zstd), it is the text itself, compressed. The
 * producer and the parsers fill the index while they read (read_ahead.c); decompressed_cache.c loads
 * chunks from it afterwards. */
#ifndef KT_SEEK_INDEX_H
#define KT_SEEK_INDEX_H

#include "base/base.h"

#include <pthread.h>

#ifndef KT_SEEK_POINT_BYTES /* fuzzing sets smaller ones, so that short texts have several */
#define KT_SEEK_POINT_BYTES ((size_t)2 << 20) /* of text between two seek points */
#endif
#ifndef KT_PACKED_CHUNK_BYTES
#define KT_PACKED_CHUNK_BYTES ((size_t)512 << 10) /* of text in a packed chunk */
#endif
#define KT_IDLE_PACKERS 8u

struct kt_inflate;

/* ---- chunk_codec.c: compressed chunks -------------------------------------------------------- */
typedef struct kt_packed {
    char *data;
    size_t bytes; /* of data; == size: stored without compression */
    size_t size;  /* of the text */
} kt_packed;
typedef struct kt_packer kt_packer;
/** NULL: out of memory. */
kt_packer *kt_packer_create(void);
void kt_packer_free(kt_packer *p);
/** Compresses at most KT_SEEK_POINT_BYTES into out, whose data the caller frees; false: out of
 *  memory. */
bool kt_pack(kt_packer *p, const void *bytes, size_t size, kt_packed *out);
/** Decompresses into `out`, which has packed->size bytes; false: out of memory, or damaged data. */
bool kt_unpack(const kt_packed *packed, void *out);

/* ---- seek_index.c ---------------------------------------------------------------------------- */
typedef struct kt_chunk {
    struct kt_seek_point *point; /* where to decompress from; NULL: the text is in `packed` */
    kt_packed packed;
    uint32_t lost; /* 1: it could not be loaded, and will not be tried again; relaxed */
} kt_chunk;

typedef struct kt_seek_index {
    pthread_mutex_t mutex;
    size_t chunk_bytes; /* 0: no index, the text stays at its addresses */
    bool by_points;     /* chunks are seek points, else compressed text */
    int fd;             /* by points: the compressed file; else -1 */
    /* Size and modification time of the file when it had been read: a chunk is lost if they
     * changed. */
    int64_t file_bytes;
    int64_t changed_s, changed_ns;
    bool out_of_memory;
    KB_VEC(kt_chunk) chunks;
    /* Invariant under the mutex, unless by points: packed <= claimed == chunks.count. */
    size_t claimed; /* chunks that a thread compresses, or has compressed */
    size_t packed;  /* the chunks before this one are all compressed */
    kt_packer *idle[KT_IDLE_PACKERS];
    uint32_t idle_count;
} kt_seek_index;

void kt_seek_index_init(kt_seek_index *k);
void kt_seek_index_free(kt_seek_index *k);
/** The source is at the beginning of the next chunk: adds a seek point. By the producer only. */
void kt_seek_index_add_point(kt_seek_index *k, struct kt_inflate *source);
/** Compresses all chunks that end at or before `end`. Threads that call it at once share
 *  the chunks. */
void kt_seek_index_pack(kt_seek_index *k, const char *base, size_t end);
/** All `size` bytes were read: compresses the remaining chunks. `damaged`: the file ended
 *  with an error, so that the last chunk cannot be decompressed again and is stored as
 *  text. */
kineto_status kt_seek_index_close(kt_seek_index *k, const char *base, size_t size, bool damaged,
                                  kineto_error *err);
/** Bytes of the text, from its beginning on, that the index can reload; at most `ready`. */
size_t kt_seek_index_bytes(kt_seek_index *k, size_t ready);
/** Loads the text of a chunk, `size` bytes. Any thread. False: it is lost. */
bool kt_seek_index_load(kt_seek_index *k, size_t chunk, char *out, size_t size);
bool kt_seek_index_has_lost(kt_seek_index *k);
#endif

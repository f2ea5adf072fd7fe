/* What is kept of a text that is no longer at its addresses, so that any part of it can be had
 * again.
 *
 * The text is cut into chunks of equal size. For gzip files a chunk is a place in the file and the
 * state of the decoder there; of what cannot be read twice, or not from the middle, it is the text
 * itself, packed. */
#ifndef KT_KEEP_H
#define KT_KEEP_H

#include "base/base.h"

#include <pthread.h>

#ifndef KT_POINT_BYTES /* fuzzing has smaller ones, so that short texts have several */
#define KT_POINT_BYTES ((size_t)2 << 20) /* of text between two places to go on from */
#endif
#ifndef KT_PACK_BYTES
#define KT_PACK_BYTES ((size_t)512 << 10) /* of text in a packed chunk */
#endif
#define KT_IDLE_PACKERS 8u

struct kt_source;

/* ---- pack.c: bytes, compressed fast -------------------------------------------------------------- */
typedef struct kt_packed {
    char *data;
    size_t bytes; /* of data; == size: as they were */
    size_t size;  /* unpacked */
} kt_packed;
typedef struct kt_packer kt_packer;
/** NULL: out of memory. */
kt_packer *kt_packer_create(void);
void kt_packer_free(kt_packer *p);
/** At most KT_POINT_BYTES; false: out of memory. */
bool kt_pack(kt_packer *p, const void *bytes, size_t size, kt_packed *out);
/** Into out->size bytes; false: out of memory, or they are damaged. */
bool kt_unpack(const kt_packed *packed, void *out);

/* ---- keep.c -------------------------------------------------------------------------------------- */
typedef struct kt_chunk {
    struct kt_point *point; /* of the source; NULL: packed */
    kt_packed packed;
    uint32_t lost; /* could not be had again; relaxed */
} kt_chunk;

typedef struct kt_keep {
    pthread_mutex_t mutex;
    size_t chunk_bytes; /* 0: nothing is kept, the text stays where it is */
    bool by_points;
    int fd;             /* points: the compressed file; else -1 */
    int64_t file_bytes; /* as it was when it had been read */
    int64_t changed_s, changed_ns;
    bool out_of_memory;
    KB_VEC(kt_chunk) chunks;
    size_t claimed; /* chunks that somebody packs, or has */
    size_t packed;  /* of these, all before are there */
    kt_packer *idle[KT_IDLE_PACKERS];
    uint32_t idle_count;
} kt_keep;

void kt_keep_init(kt_keep *k);
void kt_keep_free(kt_keep *k);
/** The source is at the beginning of the next chunk: it can be taken up here. By one thread. */
void kt_keep_point(kt_keep *k, struct kt_source *source);
/** Pack all chunks that end at or before `end`, together with whoever else does. */
void kt_keep_pack(kt_keep *k, const char *base, size_t end);
/** All `size` bytes were read; what is still to be packed, is. `damaged`: the last chunk cannot be
 *  had from the file in the same way again. */
kineto_status kt_keep_close(kt_keep *k, const char *base, size_t size, bool damaged,
                            kineto_error *err);
/** How much of the text is kept for certain, from its beginning on. */
size_t kt_keep_bytes(kt_keep *k, size_t ready);
/** The text of a chunk, `size` bytes. Any thread. False: it cannot be had any more. */
bool kt_keep_load(kt_keep *k, size_t chunk, char *out, size_t size);
bool kt_keep_has_lost(kt_keep *k);
#endif

/* Text to read: one range of addresses, in which the text of a file appears from its beginning on.
 *
 * A plain file is mapped. What is compressed, or comes through a pipe, is put there by a thread of
 * its own while others already scan. Behind the text there is always a page of zeros. */
#ifndef KT_INPUT_H
#define KT_INPUT_H

#include "base/base.h"

#include <pthread.h>

typedef struct kt_input {
    uint32_t references;
    const char *base;
    size_t reserved_bytes; /* of address space */
    uint64_t file_bytes;   /* as it lies on the disk, 0 unknown */
    size_t ready_bytes;    /* grows; stored with release */
    uint32_t complete;     /* no more will come; stored with release */
    bool mapped;           /* the file itself */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t producer;
    bool has_producer;
    bool stop; /* nobody needs more */

    struct kt_source *source;
    kineto_status status; /* why the text ends where it does; set before complete */
    kineto_error error;
} kt_input;

/** Begin to read a file; "-" is stdin. The caller releases it. */
kineto_status kt_input_open(const char *path, kt_input **out, kineto_error *err);
/** Text that is in memory already, copied. */
kineto_status kt_input_of_text(kineto_string text, kt_input **out, kineto_error *err);
kt_input *kt_input_retain(kt_input *in);
void kt_input_release(kt_input *in);
/** The text is read: ends the thread that brought it. What is there stays. */
void kt_input_finish(kt_input *in);
/** Wait until this much of the text is there, or all. @return how much there is. */
size_t kt_input_wait(kt_input *in, size_t bytes);
static inline size_t kt_input_ready(kt_input *in, size_t bytes)
{
    size_t ready = kb_load_acquire(&in->ready_bytes);
    return ready >= bytes ? ready : kt_input_wait(in, bytes);
}

/* ---- source.c: bytes, decompressed by what the first of them say ---------------------------------- */
typedef struct kt_source kt_source;
/** Takes the descriptor. */
kineto_status kt_source_open(int fd, const char *path, kt_source **out, kineto_error *err);
void kt_source_close(kt_source *s);
bool kt_source_is_compressed(const kt_source *s);
/** Up to `room` bytes of text; *got 0: the end. What is wrong with the data is the status. */
kineto_status kt_source_read(kt_source *s, char *out, size_t room, size_t *got, kineto_error *err);
#endif

/* Text to read: one range of addresses, in which the text of a file appears from its beginning on.
 *
 * A plain file is mapped. What is compressed, or comes through a pipe, is put there by a thread of
 * its own while others already scan. Behind the text there is always a page of zeros.
 *
 * What all readers have passed is given back, and the thread that brings text does not run far
 * ahead of them; once the text is read, its addresses are gone, and parts of it are had from what
 * was kept (keep.h). Who never says how far it has read keeps all of it. */
#ifndef KT_INPUT_H
#define KT_INPUT_H

#include "base/base.h"
#include "trace/bytes/keep.h"

#include <pthread.h>

#define KT_AHEAD_BYTES                                                                             \
    ((size_t)8 << 20) /* of text, before the slowest reader; more if one waits                     \
                       */
#define KT_BEHIND_BYTES ((size_t)64 << 10) /* repair looks back */
#define KT_GIVE_BYTES   ((size_t)2 << 20)  /* given back at a time: a huge page */

/* Of a large mapped file that has been read: its parts that were looked at last. All others are
 * given back, and come again, out of the system's cache, when they are looked at. */
#ifndef KT_PART_BYTES
#define KT_PART_BYTES ((size_t)2 << 20)
#endif
#define KT_PARTS 32u   /* of all files together, as long as these are few */
#ifndef KT_LARGE_BYTES /* what is smaller stays: to bring its pages again and again takes time */
#define KT_LARGE_BYTES ((size_t)384 << 20)
#endif
typedef struct kt_parts {
    uint8_t *here;           /* by part; NULL: none is given back */
    uint32_t last[KT_PARTS]; /* a ring: which are here */
    uint32_t first, count;
} kt_parts;

typedef struct kt_input {
    uint32_t references;
    char *path;
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
    bool stop;        /* nobody needs more */
    size_t wanted;    /* somebody waits for this much */
    size_t passed;    /* no reader looks at what is before; readers load it without the mutex */
    size_t given;     /* back to the system, from the beginning on */
    size_t spares[8]; /* of that, KT_GIVE_BYTES each, not yet with the system */
    uint32_t spare_count;
    bool all_passed; /* also what is still to come */
    bool away;       /* the text is not at `base` any more: see keep */
    kt_keep keep;
    uint64_t number; /* no other input has it */

    kt_parts parts;
    uint32_t cut;      /* a mapped file became shorter: what is missing reads as zeros */
    size_t most_ahead; /* of text that is held for one item; 0: no limit */

    struct kt_source *source;
    kineto_status status; /* why the text ends where it does; written under the mutex */
    kineto_error error;
} kt_input;

/** Begin to read a file; "-" is stdin. The caller releases it. */
kineto_status kt_input_open(const char *path, kt_input **out, kineto_error *err);
kt_input *kt_input_retain(kt_input *in);
void kt_input_release(kt_input *in);
/** The text is read: ends the thread that brought it. What is there stays. */
void kt_input_finish(kt_input *in);
/** Nobody looks at the text before `offset` any more, except through kt_input_text when all is
 * read; SIZE_MAX: at none of it. Any thread that reads. */
void kt_input_passed(kt_input *in, size_t offset);
/** After kt_input_finish, if kt_input_passed was called: what is left of the text goes away. Nobody
 *  else may look at it meanwhile. */
kineto_status kt_input_settle(kt_input *in, kineto_error *err);
/** Give back what memory can be given back: of a mapped file its pages, else what was loaded to be
 *  looked at again. Any thread. */
void kt_input_trim(kt_input *in);
/** Hold so many bytes of text at most that no reader has passed: one item that is longer ends the text with
 *  KINETO_E_LIMIT. */
void kt_input_limit(kt_input *in, size_t most_ahead);
/** A reader wants to hold more of one item than the limit allows: the text ends for it. */
void kt_input_exceed(kt_input *in);
/** After all was read: KINETO_E_IO if the file became shorter meanwhile. */
kineto_status kt_input_check(kt_input *in, kineto_error *err);
/** Could some of the text that was asked for not be had any more? */
bool kt_input_has_lost(kt_input *in);
/** Why the text ends where it does. Any thread; `error` belongs to it. */
static inline kineto_status kt_input_status(const kt_input *in)
{
    return kb_load_acquire(&in->status);
}
/** Wait until this much of the text is there, or all. @return how much there is. */
size_t kt_input_wait(kt_input *in, size_t bytes);
static inline size_t kt_input_ready(kt_input *in, size_t bytes)
{
    size_t ready = kb_load_acquire(&in->ready_bytes);
    return ready >= bytes ? ready : kt_input_wait(in, bytes);
}

/* ---- recall.c: parts of texts that are away ------------------------------------------------------- */
#ifndef KT_RECALL_BYTES
#define KT_RECALL_BYTES ((size_t)16 << 20) /* of loaded chunks, in all; a thread holds one more */
#endif
/** A part of the text; 64 zeros follow it. It stays until this thread has asked for KT_TEXT_VIEWS
 *  others. Empty: it cannot be had any more. */
kineto_string kt_recall(kt_input *in, uint64_t offset, size_t bytes);
/** What is loaded of it is no longer needed. */
void kt_recall_forget(kt_input *in);

/* ---- parts.c ---------------------------------------------------------------------------------------- */
/** Begin to give back. */
void kt_parts_begin(kt_input *in);
/** A part is looked at that is not here. */
void kt_parts_enter(kt_input *in, size_t part);
void kt_parts_end(kt_input *in);

/** Part of a text that has been read. Where it is not at its addresses, valid as by kt_recall. */
static inline kineto_string kt_input_text(kt_input *in, uint64_t offset, size_t bytes)
{
    const uint8_t *here = in->parts.here;
    if (KINETO_UNLIKELY(in->away))
        return kt_recall(in, offset, bytes);
    if (here && KINETO_UNLIKELY(!kb_load_relaxed(&here[offset / KT_PART_BYTES])))
        kt_parts_enter(in, offset / KT_PART_BYTES);
    return (kineto_string){in->base + offset, bytes};
}

/* ---- guard.c: mapped files that become shorter ------------------------------------------------------ */
/** Until the end: what the file no longer has reads as zeros, and `cut` becomes 1. */
void kt_guard_begin(kt_input *in, size_t bytes);
void kt_guard_end(const kt_input *in);
/** The first file of this process that became shorter while it was looked at; NULL: none did. */
const char *kt_guard_cut_file(void);

/* ---- source.c: bytes, decompressed by what the first of them say ---------------------------------- */
typedef struct kt_source kt_source;
/** Takes the descriptor. */
kineto_status kt_source_open(int fd, const char *path, kt_source **out, kineto_error *err);
void kt_source_close(kt_source *s);
bool kt_source_is_compressed(const kt_source *s);
/** Is the regular file shorter than that now? */
bool kt_source_is_shorter(const kt_source *s, size_t bytes);
/** Up to `room` bytes of text; *got 0: the end. What is wrong with the data is the status. */
kineto_status kt_source_read(kt_source *s, char *out, size_t room, size_t *got, kineto_error *err);
/* Where a gzip file can be gone on with. */
typedef struct kt_point kt_point;
bool kt_source_can_resume(const kt_source *s);
/** What comes next can be had again from here; NULL: out of memory. */
kt_point *kt_source_mark(kt_source *s, kt_packer *packer);
void kt_point_free(kt_point *point);
/** Take the file away from the source, which has been read. The caller closes it. */
int kt_source_take_file(kt_source *s);
/** Exactly so many bytes from a point on; any number of threads. */
bool kt_source_resume(int fd, const kt_point *point, char *out, size_t bytes);
#endif

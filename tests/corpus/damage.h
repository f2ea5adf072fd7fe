/* Files that are damaged on purpose: what test_damage and its parts share. */
#ifndef TESTS_CORPUS_DAMAGE_H
#define TESTS_CORPUS_DAMAGE_H

#include <ckineto/trace.h>

#include <stddef.h>
#include <stdint.h>

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

/* An event of the text, as a reader sees it that knows nothing but strings and brackets. */
typedef struct element {
    size_t begin, end;
    bool is_row; /* it becomes an activity */
} element;

typedef struct outline {
    element *elements; /* those of "traceEvents", or of the bare array */
    size_t count;
} outline;

/* ---- forms.c ---- */
/** A whole file; data NULL if it cannot be read. */
bytes load_file(const char *path);
/** Of gzip data with any number of members, as much text as there is; other bytes are copied. */
bytes inflate_all(bytes file);
bytes deflate_all(bytes text);
/** data NULL if this build has no zstd. */
bytes zstd_all(bytes text);

/* ---- outline.c ---- */
/** The events of a sound text. False if there is no memory. */
bool outline_of(bytes text, outline *out);
/** How many rows come of the events that are complete before an offset; *inside: the offset is in
 *  the middle of another event. */
size_t rows_before(const outline *o, size_t offset, bool *inside);
#endif

/* What the fuzz targets of the reader share: texts become files, traces are looked at and compared.
 */
#ifndef TESTS_FUZZ_READ_H
#define TESTS_FUZZ_READ_H

#include "base/base.h"
#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- read_file.c ---- */
enum { FUZZ_IN, FUZZ_PLAIN, FUZZ_AGAIN, FUZZ_FILES };
/** Bytes that can be opened by a path, until the next call with this `file`; what was opened before
 * must not be used any more. */
const char *fuzz_file(unsigned file, const void *data, size_t size);
/** NULL: refused, and `err` says why. Anything but a matter of format ends the process. */
kineto_trace *fuzz_open(const char *path, uint32_t threads, bool strict, kineto_error *err);
/** End the process with a word about what is wrong, unless it is `right`. */
void fuzz_check(bool right, const char *what);

/* ---- read_compare.c ---- */
/** Look at all of a trace: rows, args, derived columns, flows, ledger, header. */
void fuzz_visit(const kineto_trace *t);
/** Everything that can be seen of two traces is the same, numbers of texts and tracks too. */
void fuzz_same(const kineto_trace *a, const kineto_trace *b);
/** Written as Chrome JSON and read again: the same activities. */
void fuzz_write_again(const kineto_trace *t);

/* ---- read_mutate.c ---- */
/** Change what JSON and traces are made of: words, values, events, blanks. @return the new size. */
size_t fuzz_mutate_json(uint8_t *data, size_t size, size_t most, unsigned seed);

/* ---- read_peer.cpp, if simdjson is there ---- */
/** What an independent parser makes of a text.
 *  @param trace  what was read in strict mode; NULL: refused with `message`.
 *  @return NULL: they agree; else what is different. */
const char *fuzz_peer(const char *text, size_t size, const kineto_trace *trace,
                      const char *message);

#ifdef __cplusplus
}
#endif
#endif

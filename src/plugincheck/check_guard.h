/* Guarded memory: everything that a plug-in receives ends at a page that cannot be accessed, so
 * that reading too far crashes; and memory of the plug-in is read so that bad pointers cannot
 * crash us. */
#ifndef KV_CHECK_GUARD_H
#define KV_CHECK_GUARD_H

#include "plugincheck/check_notes.h"

/** Reserve the pages and install the fault handlers. False: no memory. Once per process. */
bool kv_guard_init(kv_crash_site *site);
#define KV_NO_MEMORY 99 /* exit status of a child without memory */
/** Zeroed memory of `bytes`, rounded up to 8, whose end is the end of accessible memory. Blocks
 * form a ring: reused after 64 more, or after 192 with `keep`. Never NULL: without memory the
 * child ends with KV_NO_MEMORY. @param what  static text for the report. */
void *kv_guard_new(size_t bytes, const char *what, bool keep);
/** Make the block inaccessible, so that a later access is detected. */
void kv_guard_close(void *p, size_t bytes);
/** Copy from memory of the plug-in; false: it cannot be read. */
bool kv_copy_in(void *to, const void *from, size_t bytes);
bool kv_readable(const void *from, size_t bytes);
/** Bytes before the NUL; SIZE_MAX: it cannot be read, or `max` bytes contain no NUL. */
size_t kv_text_size(const char *text, size_t max);
/** The text in buf, cut, with non-printable bytes escaped, for a message. */
const char *kv_quote(const char *text, char *buf, size_t size);
#endif

/* Recognises files of other formats that users pass by mistake (pictures, archives,
 * databases, UTF-16 text) by their first bytes. The reader (read/open.c) puts the answer
 * into its error message. */
#ifndef KT_FOREIGN_H
#define KT_FOREIGN_H

#include "base/base.h"

/** The problem with a file that begins with `head`, and its remedy; NULL: no known foreign
 *  format. */
const char *kt_foreign_format_problem(kineto_string head);
/** What a file with this name is, and its remedy; NULL: no known format. For files whose first bytes do
 *  not tell. */
const char *kt_foreign_name_problem(kineto_string name);
/** The same for an entry of a directory: what the directory has. */
const char *kt_foreign_entry_problem(kineto_string name);
/** True for UTF-16 and UTF-32, by the byte order mark or by zero bytes at every other place. */
bool kt_is_utf16_or_utf32(kineto_string head);
#endif

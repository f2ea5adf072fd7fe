/* Files that are mistaken for traces: what they are, by their first bytes. */
#ifndef KT_FOREIGN_H
#define KT_FOREIGN_H

#include "base/base.h"

/** What is wrong with a text that begins so, and what to do; NULL: nothing that is known. */
const char *kt_text_foreign(kineto_string head);
/** Has each character two bytes or four, in UTF-16 or UTF-32? */
bool kt_text_is_wide(kineto_string head);
#endif

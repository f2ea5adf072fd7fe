/* Advice for a recording without activities of the program: from the libraries that it had in memory. */
#ifndef KC_REMEDIES_H
#define KC_REMEDIES_H

#include "base/base.h"

#include <stdio.h>

#define KC_REMEDIES 16u

/** Is a file in memory whose name begins like this? */
typedef bool kc_has_file(const void *context, const char *beginning);
/** Which remedies apply: a mask. */
uint32_t kc_remedies_find(kc_has_file *has_file, const void *context);
/** Print those whose kinds were not recorded, wrapped. @param kinds  that have activities. */
void kc_remedies_print(uint32_t found, uint64_t kinds, size_t width, FILE *out);
/** Their options of 'ckineto record', each after a space. */
void kc_remedies_options(uint32_t found, uint64_t kinds, char *text, size_t size);
#endif

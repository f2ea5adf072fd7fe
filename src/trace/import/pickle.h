/* Pickled values of Python as JSON: numbers, texts, lists, tuples and dictionaries only, as dumps of PyTorch's flight
 * recorder have them. Anything that would make Python look up or call something is refused: no code is run. */
#ifndef KT_PICKLE_H
#define KT_PICKLE_H

#include "base/base.h"

/** Does a pickle (protocol 2 and later) begin so? */
bool kt_is_pickle(kineto_string head);
/** @param json  receives text to free, of *size bytes. KINETO_E_FORMAT: no such pickle, with the byte. threads: any. */
kineto_status kt_pickle_to_json(kineto_string bytes, char **json, size_t *size, kineto_error *err);
#endif

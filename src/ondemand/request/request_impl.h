/* What the files about requests share. */
#ifndef KO_REQUEST_IMPL_H
#define KO_REQUEST_IMPL_H

#include "ondemand/request/request.h"

/** A piece of a text from outside as messages show it: valid UTF-8, nothing that moves a terminal's
 *  cursor, "…" where it is cut. Ends with NUL. @param size  at least 8. */
void ko_request_show(kineto_string text, char *out, size_t size);
#endif

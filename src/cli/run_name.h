/* Names of runs, as they are in the paths of a data set: run=NAME. */
#ifndef KC_RUN_NAME_H
#define KC_RUN_NAME_H

#include "cli/cli.h"

#define KC_RUN_NAME_BYTES 256u

/** The name that is given, or else the last part of the path without the endings of traces. A name that cannot be
 *  part of a path is reported. */
kineto_status kc_choose_run_name(const char *verb, const char *given, const char *path, char name[KC_RUN_NAME_BYTES]);
#endif

/** @file
 *  The name that <ckineto/profile_run.h> had in version 0.1. It goes away in version 0.3.
 */
#ifndef CKINETO_PROFILE_H
#define CKINETO_PROFILE_H

#include <ckineto/profile_run.h>

#ifndef KINETO_NO_OLD_NAMES
#pragma message("<ckineto/profile.h> is deprecated: include <ckineto/profile_run.h>")
#endif

#endif

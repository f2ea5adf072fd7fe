/* Where the files of ckineto's installation are. The functions return false if the file is not
 * found or its path does not fit. */
#ifndef KC_INSTALL_PATHS_H
#define KC_INSTALL_PATHS_H

#include "base/base.h"

/** Absolute path of a plug-in (or of a file below the plug-ins) by its name. */
bool kc_find_plugin(const char *file, char *buf, size_t size);
/** Absolute path of libckineto-rt.so. */
bool kc_find_rt(char *buf, size_t size);
/** The directory of plug-ins that other packages install; it need not exist. */
bool kc_plugins_directory(char *buf, size_t size);
#endif

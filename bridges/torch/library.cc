/* Opens libckineto and resolves the functions of library.h, when the seat or the guest is
 * attached. */
#include "library.h"

#include <cstdio>
#include <dlfcn.h>

namespace ckt {

Library lib;

bool open_library(const char *path, char *text, size_t text_bytes)
{
  static void *handle;
  if (handle)
    return true;
  void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    std::snprintf(text, text_bytes, "%s cannot be opened: %s", path, dlerror());
    return false;
  }
#define CKT_LOOK_UP(name)                                                                          \
  lib.name = (decltype(&::name))dlsym(opened, #name);                                              \
  if (!lib.name) {                                                                                 \
    std::snprintf(text, text_bytes, "%s has no %s: it is of another version", path, #name);        \
    return false;                                                                                  \
  }
  CKT_LIBRARY_FUNCTIONS(CKT_LOOK_UP)
#undef CKT_LOOK_UP
  handle = opened;
  return true;
}

}  // namespace ckt

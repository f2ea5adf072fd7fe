/* A library that is loaded later: it sees the same as the program. */
#include <ckineto/host.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const KinetoPlugin_Registry *other_registry(void);
EXPORTED bool other_has_profiler(void);

const KinetoPlugin_Registry *other_registry(void) { return kineto_plugin_registry(); }
bool other_has_profiler(void) { return kineto_privateuse1_has_profiler(); }

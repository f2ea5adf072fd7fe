/** @file
 *  The host of plug-ins, for programs: load plug-ins, list them, register the backend that a framework calls
 *  PrivateUse1. Plug-ins themselves need <ckineto/plugin.h> only.
 *
 *  Plug-ins come into a process in four ways:
 *    - `ckineto record --plugin FILE` and the directories below: loaded when the program starts;
 *    - the first kineto_session_create of a program that is not recorded from outside loads the
 *      directories of KINETO_PLUGIN_LIB_DIR_PATH, then `ckineto/plugins` next to the library;
 *    - kineto_plugin_load();
 *    - a profiler that is part of the program: kineto_plugin_registry()->registerProfiler(…).
 *  Directories are read in the order given, files that end in ".so" in the order of their names'
 *  bytes. A file is loaded once, under whatever name it comes again.
 */
#ifndef CKINETO_HOST_H
#define CKINETO_HOST_H

#include <ckineto/base.h>
#include <ckineto/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Load a plug-in.
 *  @param path     a library that exports KinetoPlugin_register.
 *  @param options  NULL, or "rev=early", "rev=a" or "rev=b": the revision of the interface that it
 *                  was built for, where the host cannot detect it. "b" (the default) serves the last
 *                  revision, the first one (0) and everything built from <ckineto/plugin.h>.
 *  @return KINETO_E_NOT_FOUND (no such file), KINETO_E_FORMAT (no library, or no such symbol),
 *          KINETO_E_PLUGIN (it refused), KINETO_E_STATE (loaded already, or just being loaded),
 *          KINETO_E_PERMISSION, KINETO_E_LIMIT (64 are loaded), KINETO_E_ARGUMENT.
 *  threads: any; runs the library's constructors. */
KINETO_API kineto_status kineto_plugin_load(const char *path, const char *options,
                                            kineto_error *err);

/** Load every plug-in of a list of directories separated by ':', each followed by ",rev=…" if needed. Failures are
 *  no error of the call; kineto_plugin_info_get lists them.
 *  @return the number of plug-ins that were loaded. threads: any. */
KINETO_API uint32_t kineto_plugin_load_directories(const char *list);

/** Unregister all profilers of a loaded plug-in and unload it.
 *  @return KINETO_E_NOT_FOUND; KINETO_E_STATE when called by a plug-in. threads: any. */
KINETO_API kineto_status kineto_plugin_unload(const char *path, kineto_error *err);

typedef enum kineto_plugin_state {
    KINETO_PLUGIN_LOADED = 0,
    KINETO_PLUGIN_REFUSED = 1, /**< loading or registering failed: see `reason` */
    KINETO_PLUGIN_SKIPPED = 2, /**< not a plug-in, or loaded under another name */
    KINETO_PLUGIN_UNLOADED = 3,
    KINETO_PLUGIN_BUILT_IN = 4 /**< registered by the program, or by a library of it */
} kineto_plugin_state;

#define KINETO_PLUGIN_MAX_TYPES 64

/** One profiler, or a file that registered none. Strings are copies. */
typedef struct kineto_plugin_info {
    size_t size;        /**< sizeof(kineto_plugin_info); set before the call */
    uint32_t state;     /**< kineto_plugin_state */
    uint32_t type_count;
    uint64_t kinds;     /**< mask of KINETO_KIND_BIT, own kinds included */
    char name[32];      /**< of the profiler; empty if there is none */
    char vendor[32];    /**< as it named itself; may be empty */
    char path[1024];    /**< empty for BUILT_IN */
    char revision[8];   /**< "b", "a", "early" */
    char reason[256];   /**< why it was not loaded; empty if it was */
    int32_t types[KINETO_PLUGIN_MAX_TYPES]; /**< supported, in the plug-in's numbers */
} kineto_plugin_info;
KINETO_INIT_FUNCTION(kineto_plugin_info)

/** Number of entries: files in the order of loading, then built-in profilers. threads: any. */
KINETO_API uint32_t kineto_plugin_count(void);
/** One entry. @return false for an index out of range; *info is then zero but for its size. threads: any. */
KINETO_API bool kineto_plugin_info_get(uint32_t index, kineto_plugin_info *info);

/** Name, as a category of the trace, of one of `types` above; NULL for an unknown number. 8 and 9 are
 *  "runtime" and "driver": how they are spelled in a trace depends on the vendor. Static storage.
 *  threads: any. */
KINETO_API const char *kineto_plugin_type_name(int32_t type);

/* ---- PrivateUse1: the one backend that a framework leaves room for ------------------------------
 *
 * A registered profiler is forwarded to the host when recording is initialised (kineto_privateuse1_init, called by
 * kineto_session_create and when attaching to a recorder), exactly once, whether that is before or after its
 * registration. A second registration replaces the first with a warning; a running session ends with the old
 * profiler, which must stay valid until then, and the next one uses the new. The profiler itself must not call any
 * of these functions. */

/** Register the profiler.
 *  @return KINETO_E_ARGUMENT for an interface that lacks functions; KINETO_E_PLUGIN if forwarding it failed: a
 *          profiler that it would have replaced stays; a first one stays registered and is forwarded again with the
 *          next session. threads: any; works before main. */
KINETO_API kineto_status
kineto_privateuse1_register(const KinetoPlugin_ProfilerInterface *profiler);
/** Unregister the profiler; its part of a running session ends. KINETO_E_NOT_FOUND if none is registered.
 *  threads: any. */
KINETO_API kineto_status kineto_privateuse1_unregister(void);
/** True if a profiler is registered (has_profiler), and if it was forwarded to the host (is_registered).
 *  threads: any. */
KINETO_API bool kineto_privateuse1_has_profiler(void);
KINETO_API bool kineto_privateuse1_is_registered(void);
/** Initialise recording: forward the registered profiler, and later ones when they are registered.
 *  @return KINETO_E_PLUGIN if forwarding failed, KINETO_E_STATE if called by the profiler itself.
 *  threads: any. */
KINETO_API kineto_status kineto_privateuse1_init(void);

/* The type of what is registered is checked when it is compiled. */
#if defined(__cplusplus)
static inline const KinetoPlugin_ProfilerInterface *
kineto__privateuse1_check(const KinetoPlugin_ProfilerInterface *profiler)
{
    return profiler;
}
#define KINETO_PRIVATEUSE1_CHECK(interface_pointer) kineto__privateuse1_check(interface_pointer)
#else
#define KINETO_PRIVATEUSE1_CHECK(interface_pointer)                                                \
    (_Generic((interface_pointer),                                                                 \
        const KinetoPlugin_ProfilerInterface *: (interface_pointer),                               \
        KinetoPlugin_ProfilerInterface *: (interface_pointer)))
#endif

/** At namespace scope: register a `const KinetoPlugin_ProfilerInterface *` when the library or
 *  program is loaded. Needs GCC or Clang. */
#if defined(__GNUC__)
#define KINETO_PRIVATEUSE1_CONCAT_(a, b) a##b
#define KINETO_PRIVATEUSE1_CONCAT(a, b) KINETO_PRIVATEUSE1_CONCAT_(a, b)
#define KINETO_REGISTER_PRIVATEUSE1_PROFILER(interface_pointer)                                    \
    __attribute__((constructor)) static void KINETO_PRIVATEUSE1_CONCAT(kineto_privateuse1_at_,     \
                                                                       __LINE__)(void)             \
    {                                                                                              \
        (void)kineto_privateuse1_register(KINETO_PRIVATEUSE1_CHECK(interface_pointer));            \
    }                                                                                              \
    struct kineto_privateuse1_semicolon
#ifdef KINETO_UPSTREAM_NAMES /* opt in: the macro's name in PyTorch */
#define REGISTER_PRIVATEUSE1_PROFILER(interface_pointer)                                           \
    KINETO_REGISTER_PRIVATEUSE1_PROFILER(interface_pointer)
#endif
#endif

#ifdef __cplusplus
}
#endif

#define CKINETO_HOST_DECLARED
#include <ckineto/deprecated.h>
#endif

/** @file
 *  The host of plug-ins, for programs: loading plug-ins, seeing what was loaded, the backend that a
 *  framework calls PrivateUse1. Plug-ins themselves need <ckineto/plugin.h> only.
 *
 *  Plug-ins come into a process in four ways:
 *    - `ckineto record --plugin FILE` and the directories below: loaded when the program starts;
 *    - the first kineto_session_prepare of a program that is not recorded from outside loads the
 *      directories of KINETO_PLUGIN_LIB_DIR_PATH, then `ckineto/plugins` beside the library;
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
 *                  was built for, where the host cannot tell. "b" (the default) serves the last
 *                  revision, the first one (0) and everything built from <ckineto/plugin.h>.
 *  @return KINETO_E_NOT_FOUND (no such file), KINETO_E_FORMAT (no library, or no such symbol),
 *          KINETO_E_PLUGIN (it refused), KINETO_E_STATE (loaded already, or just being loaded),
 *          KINETO_E_PERMISSION, KINETO_E_LIMIT (64 are loaded), KINETO_E_ARGUMENT.
 *  threads: any; runs the library's constructors. */
KINETO_API kineto_status kineto_plugin_load(const char *path, const char *options,
                                            kineto_error *err);

/** Load every plug-in of a list of directories separated by ':', each with ",rev=…" behind it if it
 *  needs that. What fails is in the table below, and no error.
 *  @return how many were loaded. threads: any. */
KINETO_API uint32_t kineto_plugin_load_directories(const char *list);

/** Withdraw all profilers of a loaded plug-in, and close it. KINETO_E_NOT_FOUND; KINETO_E_STATE when
 *  called from inside a plug-in. threads: any. */
KINETO_API kineto_status kineto_plugin_unload(const char *path, kineto_error *err);

typedef enum kineto_plugin_state {
    KINETO_PLUGIN_LOADED = 0,
    KINETO_PLUGIN_REFUSED = 1, /**< it failed, or refused: `reason` says why */
    KINETO_PLUGIN_SKIPPED = 2, /**< no plug-in, or loaded under another name */
    KINETO_PLUGIN_UNLOADED = 3,
    KINETO_PLUGIN_BUILT_IN = 4 /**< registered by the program, or by a library of it */
} kineto_plugin_state;

#define KINETO_PLUGIN_MAX_TYPES 64

/** One profiler, or a file that gave none. Strings are copies. */
typedef struct kineto_plugin_info {
    size_t size;        /**< sizeof(kineto_plugin_info); set before the call */
    uint32_t state;     /**< kineto_plugin_state */
    uint32_t type_count;
    uint64_t kinds;     /**< mask of KINETO_KIND_BIT, own kinds included */
    char name[32];      /**< of the profiler; empty if there is none */
    char vendor[32];    /**< as it named itself; may be empty */
    char path[1024];    /**< empty for BUILT_IN */
    char revision[8];   /**< "b", "a", "early" */
    char reason[256];   /**< why it is not there; empty if it is */
    int32_t types[KINETO_PLUGIN_MAX_TYPES]; /**< supported, in the plug-in's numbers */
} kineto_plugin_info;

/** How many entries the table has: files in the order of loading, then built-in profilers.
 *  threads: any. */
KINETO_API uint32_t kineto_plugin_count(void);
/** @return KINETO_E_NOT_FOUND past the end. threads: any. */
KINETO_API kineto_status kineto_plugin_get(uint32_t index, kineto_plugin_info *info);

/** Name, as a category of the trace, of one of `types` above; NULL for an unknown number. 8 and 9 are
 *  "runtime" and "driver": how they are spelled in a trace depends on the vendor. Static storage.
 *  threads: any. */
KINETO_API const char *kineto_plugin_type_name(int32_t type);

/* ---- PrivateUse1: the one backend that a framework leaves room for ------------------------------
 *
 * Registering is not yet taking part: the profiler is forwarded to the host when recording is
 * initialised (kineto_privateuse1_init, which kineto_session_prepare and attaching to a recorder
 * call), exactly once, before or after registration. A second registration replaces the first with
 * a warning; if a session is running, it ends with the old one and the next begins with the new: the
 * old one must stay valid until then. None of these may be called by the profiler itself. */

/** @return KINETO_E_ARGUMENT for an interface that lacks functions; KINETO_E_PLUGIN if it was to be
 *          forwarded at once and failed: the one that it was to replace stays, the first one stays
 *          registered and is forwarded again with the next session. threads: any; works before main. */
KINETO_API kineto_status
kineto_privateuse1_register(const KinetoPlugin_ProfilerInterface *profiler);
/** KINETO_E_NOT_FOUND if there is none. Ends its part in a running session. threads: any. */
KINETO_API kineto_status kineto_privateuse1_unregister(void);
/** Is a profiler registered; is it forwarded to the host. threads: any. */
KINETO_API bool kineto_privateuse1_has_profiler(void);
KINETO_API bool kineto_privateuse1_is_registered(void);
/** Recording is initialised: forward what is registered, now and from now on.
 *  @return KINETO_E_PLUGIN if it was refused, KINETO_E_STATE if called by the profiler itself.
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
#endif

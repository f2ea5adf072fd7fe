/* Plug-ins as the command sees them: where they are found (plugins.c), the result of loading each
 * in a process of its own (plugin_probe.c), and their use by `record` (plugin_record.c). */
#ifndef KC_PLUGINS_H
#define KC_PLUGINS_H

#include "base/base.h"
#include "cli/launch/environment.h"
#include "cli/options.h"
#include "format/format.h"
#include <ckineto/host.h>

#include <sys/types.h>

typedef enum kc_plugin_state {
    KC_PLUGIN_UNKNOWN, /* not probed */
    KC_PLUGIN_LOADED,
    KC_PLUGIN_REFUSED,  /* not a library, or its registration failed */
    KC_PLUGIN_SKIPPED,  /* not a plug-in */
    KC_PLUGIN_REPEATED, /* the same file as an earlier entry */
    KC_PLUGIN_CRASHED,  /* it ended the process that loaded it */
    KC_PLUGIN_TIMED_OUT
} kc_plugin_state;

/* How it was found. */
typedef enum kc_plugin_origin {
    KC_PLUGIN_GIVEN,       /* named by the user */
    KC_PLUGIN_DIRECTORY,   /* in a directory that the user named */
    KC_PLUGIN_ENVIRONMENT, /* KINETO_PLUGIN_LIB_DIR_PATH */
    KC_PLUGIN_INSTALLED,   /* lib/ckineto/plugins */
    KC_PLUGIN_INTERFACE    /* a library of ours that a tool interface loads: see kc_interfaces */
} kc_plugin_origin;

typedef struct kc_plugin_type {
    int32_t number; /* the plug-in's */
    /* neutral: the kind itself, or the one that an own kind resembles */
    uint8_t kind;
    bool own;
    char name[KF_OWN_NAME];
} kc_plugin_type;

typedef struct kc_plugin_profiler {
    char name[32], vendor[32], revision[8];
    uint32_t type_count;
    kc_plugin_type types[KINETO_PLUGIN_MAX_TYPES];
} kc_plugin_profiler;

typedef struct kc_plugin_file {
    char *path; /* absolute */
    /* requested; "": none */
    char revision[8];
    kc_plugin_origin origin;
    kc_plugin_state state;
    dev_t device;
    ino_t inode;
    /* INTERFACE: its environment variable */
    const char *interface;
    /* why it was not loaded */
    char reason[512];
    KB_VEC(kc_plugin_profiler) profilers;
    uint32_t own_count;
    /* kinds that it announced */
    kf_own_kind own[KINETO_KIND_OWN_COUNT];
} kc_plugin_file;

typedef struct kc_plugins {
    KB_VEC(kc_plugin_file) list; /* in the order of loading */
} kc_plugins;

/* ---- plugins.c ------------------------------------------------------------------------------- */
/* A file or directory that cannot be read becomes an entry with a reason. These functions return
 * KINETO_OK or KINETO_E_MEMORY. */

/** "path" or "path,rev=…". */
kineto_status kc_plugins_add_file(kc_plugins *p, const char *given, kc_plugin_origin origin,
                                  kineto_error *err);
/** A list as the library reads it: "directory" or "directory,rev=…", separated by ':'. */
kineto_status kc_plugins_add_directories(kc_plugins *p, const char *list, kc_plugin_origin origin,
                                         kineto_error *err);
/** KINETO_PLUGIN_LIB_DIR_PATH and the installation's directory. */
kineto_status kc_plugins_add_default(kc_plugins *p, kineto_error *err);
/** ckineto's own libraries, which tool interfaces load. */
kineto_status kc_plugins_add_interfaces(kc_plugins *p, kineto_error *err);
/** Is this a failure? A file that the user named must be a plug-in; others may be other
 * libraries. */
bool kc_plugin_failed(const kc_plugin_file *p);
const char *kc_plugin_state_name(kc_plugin_state state);
const char *kc_plugin_origin_name(kc_plugin_origin origin);
void kc_plugins_free(kc_plugins *p);

/* ---- plugin_probe.c -------------------------------------------------------------------------- */

#define KC_PLUGIN_TIMEOUT_MS 30000u

/** Load each entry that was not probed yet in a process of its own, and store the result.
 *  @return not KINETO_OK if no process could be made. */
kineto_status kc_plugins_probe(kc_plugins *p, uint32_t limit_ms, kineto_error *err);

/* ---- plugin_record.c ------------------------------------------------------------------------- */

/** Find and probe the given plug-ins and, unless only_given, those of the default directories.
 *  @return KINETO_E_PLUGIN if a given one cannot be loaded. */
kineto_status kc_plugins_for_record(kc_plugins *p, const kc_texts *given, bool only_given,
                                    kineto_error *err);
/** Register the kinds of loaded plug-ins, so that --kinds can name them. */
void kc_plugins_announce(const kc_plugins *p);
/** Neutral kinds that loaded plug-ins announced. */
uint64_t kc_plugins_kinds(const kc_plugins *p);
/** Names of the kinds that they announced, for the user: "a, b"; "": none. */
void kc_plugins_own_names(const kc_plugins *p, char *buf, size_t size);
/** The loaded ones as the value of CKINETO_PLUGINS, to be freed; NULL: out of memory. */
char *kc_plugins_environment(const kc_plugins *p);
/** Log and note the plug-ins that were not loaded. */
void kc_plugins_report(const kc_plugins *p, kc_entry_note *note, void *context);
#endif

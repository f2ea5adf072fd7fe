/* The ITT interface, version 3, from the program's side: the structures that it shares with a
 * collector. Written from the facts of the interface; tests/peers compares them with Intel's
 * header.
 *
 * The collector's library exports __itt_api_init(global, groups). The global has a list of
 * functions by name, each with the address of a pointer; the collector overwrites the pointers of
 * those that it provides. Older collectors export the functions themselves. Domains and names of
 * tasks are objects in lists of the global; a collector may make them itself. A domain whose flags
 * are 0 is off. */
#ifndef KP_ITT_H
#define KP_ITT_H

#include <pthread.h>
#include <stdint.h>

#define KP_ITT_VARIABLE   "INTEL_LIBITTNOTIFY64"
#define KP_ITT_INITIALIZE "__itt_api_init"
#define KP_ITT_MAGIC      {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30}
enum { KP_ITT_MAJOR = 3, KP_ITT_MINOR = 0, KP_ITT_BUILD = 20180723 };
/* Groups of functions that a collector may provide or not. */
enum { KP_ITT_GROUP_ALL = -1, KP_ITT_GROUP_STRUCTURE = 1 << 12 };
enum { KP_ITT_SCOPE_TRACK = 3 };

typedef struct kp_itt_domain {
    /* 0: off; the collector may change it. */
    volatile int flags;
    const char *name;
    void *wide_name;
    int extra1;
    void *extra2;
    struct kp_itt_domain *next;
} kp_itt_domain;

typedef struct kp_itt_string {
    const char *text;
    void *wide_text;
    int extra1;
    void *extra2;
    struct kp_itt_string *next;
} kp_itt_string;

/** Passed by value. */
typedef struct kp_itt_id {
    unsigned long long d1, d2, d3;
} kp_itt_id;

typedef void (*kp_itt_function)(void);
typedef struct kp_itt_api {
    const char *name; /* "__itt_task_begin"; NULL ends the list */
    /* To be overwritten. */
    kp_itt_function *pointer;
    /* Its value before the collector writes it. */
    kp_itt_function initial;
    /* Its value if the collector does not provide the function; may be NULL. */
    kp_itt_function absent;
    int group;
} kp_itt_api;

/* The structure by which collectors recognise a client; the layout of all versions 3. */
typedef struct kp_itt_global {
    unsigned char magic[8];
    unsigned long version_major, version_minor, version_build;
    volatile long api_initialized, mutex_initialized, atomic_counter;
    pthread_mutex_t mutex;
    void *library;
    void *error_handler;
    const char **library_path;
    kp_itt_api *api_list;
    struct kp_itt_global *next;
    void *thread_list;
    kp_itt_domain *domain_list;
    kp_itt_string *string_list;
    int state;
    void *counter_list;
    unsigned int ipt_collect_events;
    void *histogram_list;
    void *counter_metadata_list;
} kp_itt_global;

typedef void (*kp_itt_initialize)(kp_itt_global *global, int groups);
typedef kp_itt_domain *(*kp_itt_domain_create)(const char *name);
typedef kp_itt_string *(*kp_itt_string_create)(const char *text);
typedef void (*kp_itt_task_begin)(const kp_itt_domain *domain, kp_itt_id task, kp_itt_id parent,
                                  kp_itt_string *name);
typedef void (*kp_itt_task_end)(const kp_itt_domain *domain);
typedef void (*kp_itt_marker)(const kp_itt_domain *domain, kp_itt_id id, kp_itt_string *name,
                              int scope);

#endif

/* The ITT interface, version 3, from the collector's side: the structures that it shares with a
 * program. Written from the facts of the interface.
 *
 * Each copy of ITT's static part in a process (one for each library or program that uses it) loads
 * the library that INTEL_LIBITTNOTIFY64 names at its first call, and calls __itt_api_init of it with
 * a structure of its own. That has a list of functions by name, each with the address of a pointer,
 * which the collector sets: NULL for functions that it does not provide, whose calls then do nothing. The
 * collector makes domains and strings; programs read their members.
 */
#ifndef CI_ABI_H
#define CI_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define CI_MAGIC {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30}
/* Up to this build the elements of the list of functions were shorter. */
enum { CI_VERSION_MAJOR = 3, CI_LAST_SHORT_BUILD = 20101001 };

/** Calls with a domain whose flags are 0 end in the program. */
typedef struct ci_domain {
    volatile int flags;
    const char *name;
    void *wide_name;
    /* For the collector. */
    int extra1;
    void *extra2;
    struct ci_domain *next;
} ci_domain;

typedef struct ci_string {
    const char *text;
    void *wide_text;
    int extra1;
    void *extra2;
    struct ci_string *next;
} ci_string;

/** Passed by value; all zero: none. d1 mostly is an address, d2 a number that makes it unique. */
typedef struct ci_id {
    unsigned long long d1, d2, d3;
} ci_id;

/** Types of metadata and counters: X(NAME, number, type in C, KINETO_ARG_…, member of kineto_value). */
#define CI_TYPE_MAP(X)                                                                             \
    X(U64, 1, uint64_t, UINT, u)                                                                   \
    X(S64, 2, int64_t, INT, i)                                                                     \
    X(U32, 3, uint32_t, UINT, u)                                                                   \
    X(S32, 4, int32_t, INT, i)                                                                     \
    X(U16, 5, uint16_t, UINT, u)                                                                   \
    X(S16, 6, int16_t, INT, i)                                                                     \
    X(FLOAT, 7, float, DOUBLE, d)                                                                  \
    X(DOUBLE, 8, double, DOUBLE, d)

typedef enum ci_type {
    CI_TYPE_UNKNOWN,
#define CI_X(name, number, type, arg, member) CI_TYPE_##name = (number),
    CI_TYPE_MAP(CI_X)
#undef CI_X
} ci_type;

enum { CI_RELATION_COUNT = 8 };

typedef struct ci_histogram {
    const ci_domain *domain;
    const char *name;
    void *wide_name;
    int x_type, y_type;
    int extra1;
    void *extra2;
    struct ci_histogram *next;
} ci_histogram;

typedef void (*ci_function)(void);
typedef struct ci_api {
    const char *name; /* "__itt_task_begin"; NULL ends the list */
    /* To be set. */
    ci_function *pointer;
    ci_function initial, absent;
    int group;
} ci_api;

/** What a program's static part passes; later versions have more members. */
typedef struct ci_global {
    unsigned char magic[8];
    unsigned long version_major, version_minor, version_build;
    volatile long api_initialized, mutex_initialized, atomic_counter;
    pthread_mutex_t mutex;
    void *library, *error_handler;
    const char **library_path;
    ci_api *api_list;
} ci_global;

#if defined(__x86_64__)
_Static_assert(sizeof(ci_domain) == 48 && sizeof(ci_string) == 40, "layout of ITT");
_Static_assert(sizeof(ci_id) == 24 && sizeof(ci_api) == 40, "layout of ITT");
_Static_assert(offsetof(ci_global, api_list) == 120, "layout of ITT");
#endif

#endif

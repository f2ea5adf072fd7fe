/* The program's side of ITT, as Intel's static part has it: a list of functions by name, and pointers
 * that the collector sets. */
#ifndef TESTS_ITT_STATIC_PART_H
#define TESTS_ITT_STATIC_PART_H

#include "../../plugins/itt/abi.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* X(name, result, parameters) */
#define ITT_MAP(X)                                                                                 \
    X(domain_create, ci_domain *, (const char *))                                                  \
    X(string_handle_create, ci_string *, (const char *))                                           \
    X(api_version, const char *, (void))                                                           \
    X(get_timestamp, unsigned long long, (void))                                                   \
    X(pause, void, (void))                                                                         \
    X(resume, void, (void))                                                                        \
    X(detach, void, (void))                                                                        \
    X(thread_set_name, void, (const char *))                                                       \
    X(task_begin, void, (const ci_domain *, ci_id, ci_id, ci_string *))                            \
    X(task_begin_fn, void, (const ci_domain *, ci_id, ci_id, void *))                              \
    X(task_begin_ex, void,                                                                         \
      (const ci_domain *, void *, unsigned long long, ci_id, ci_id, ci_string *))                  \
    X(task_end, void, (const ci_domain *))                                                         \
    X(task_group, void, (const ci_domain *, ci_id, ci_id, ci_string *))                            \
    X(task_begin_overlapped, void, (const ci_domain *, ci_id, ci_id, ci_string *))                 \
    X(task_end_overlapped, void, (const ci_domain *, ci_id))                                       \
    X(region_begin, void, (const ci_domain *, ci_id, ci_id, ci_string *))                          \
    X(region_end, void, (const ci_domain *, ci_id))                                                \
    X(frame_begin_v3, void, (const ci_domain *, ci_id *))                                          \
    X(frame_end_v3, void, (const ci_domain *, ci_id *))                                            \
    X(frame_submit_v3, void, (const ci_domain *, ci_id *, unsigned long long, unsigned long long)) \
    X(marker, void, (const ci_domain *, ci_id, ci_string *, int))                                  \
    X(event_create, int, (const char *, int))                                                      \
    X(event_start, int, (int))                                                                     \
    X(event_end, int, (int))                                                                       \
    X(mark_create, int, (const char *))                                                            \
    X(mark, int, (int, const char *))                                                              \
    X(metadata_add, void, (const ci_domain *, ci_id, ci_string *, int, size_t, void *))            \
    X(metadata_str_add, void, (const ci_domain *, ci_id, ci_string *, const char *, size_t))       \
    X(formatted_metadata_add, void, (const ci_domain *, ci_string *, ...))                         \
    X(relation_add_to_current, void, (const ci_domain *, int, ci_id))                              \
    X(counter_create, void *, (const char *, const char *))                                        \
    X(counter_create_typed, void *, (const char *, const char *, int))                             \
    X(counter_create_v3, void *, (const ci_domain *, const char *, int))                           \
    X(counter_inc, void, (void *))                                                                 \
    X(counter_inc_delta, void, (void *, unsigned long long))                                       \
    X(counter_dec_delta, void, (void *, unsigned long long))                                       \
    X(counter_set_value, void, (void *, void *))                                                   \
    X(counter_set_value_v3, void, (void *, void *))                                                \
    X(counter_inc_delta_v3, void, (const ci_domain *, ci_string *, unsigned long long))            \
    X(histogram_create, ci_histogram *, (const ci_domain *, const char *, int, int))               \
    X(histogram_submit, void, (ci_histogram *, size_t, void *, void *))                            \
    X(sync_create, void, (void *, const char *, const char *, int))                                \
    X(sync_destroy, void, (void *))                                                                \
    X(sync_prepare, void, (void *))                                                                \
    X(sync_cancel, void, (void *))                                                                 \
    X(sync_acquired, void, (void *))                                                               \
    X(heap_function_create, void *, (const char *, const char *))

#define ITT_X(name, result, parameters) static result(*itt_##name) parameters;
ITT_MAP(ITT_X)
#undef ITT_X

static ci_api itt_api_list[] = {
#define ITT_X(name, result, parameters)                                                            \
    {"__itt_" #name, (ci_function *)(void *)&itt_##name, 0, 0, 1},
    ITT_MAP(ITT_X)
#undef ITT_X
        {NULL, NULL, NULL, NULL, 0}};

static ci_global itt_global = {
    .magic = CI_MAGIC, .version_major = 3, .version_build = 20180723, .api_list = itt_api_list};

/* Loads the collector that the environment names. 0: there is none. */
static inline int itt_load(const char *path)
{
    void (*initialize)(ci_global *, int) = NULL;
    itt_global.library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void *symbol = itt_global.library ? dlsym(itt_global.library, "__itt_api_init") : NULL;
    if (!symbol)
        return 0;
    memcpy(&initialize, &symbol, sizeof initialize);
    initialize(&itt_global, -1);
    return 1;
}

static const ci_id no_id;
static inline ci_id make_id(unsigned long long d1, unsigned long long d2)
{
    return (ci_id){d1, d2, 0};
}
#endif

/* What the tests of loading share: a plug-in that must load, the table of what was loaded, texts
 * that a plug-in's library keeps about what happened to it. */
#ifndef TESTS_PLUGIN_TESTS_H
#define TESTS_PLUGIN_TESTS_H

#include "../unit/unit.h"

#include "../helpers/recording.h"

#include <ckineto/host.h>

#include <dlfcn.h>

static inline void load(const char *path, const char *options)
{
    kineto_error err = {0};
    if (kineto_plugin_load(path, options, &err))
        fail_msg("not loaded: %s", err.message);
}

static inline void unload(const char *path)
{
    kineto_error err = {0};
    if (kineto_plugin_unload(path, &err))
        fail_msg("not unloaded: %s", err.message);
}

static inline kineto_plugin_info info_at(uint32_t index)
{
    kineto_plugin_info info = {.size = sizeof info};
    assert_true(kineto_plugin_info_get(index, &info));
    return info;
}

/* The entry of a file, the last one if it stands there more than once; state UINT32_MAX: none. */
static inline kineto_plugin_info info_of(const char *path)
{
    kineto_plugin_info found = {.state = UINT32_MAX};
    for (uint32_t i = 0; i < kineto_plugin_count(); i++) {
        kineto_plugin_info info = info_at(i);
        if (strcmp(info.path, path) == 0)
            found = info;
    }
    return found;
}

/* Teardown: whatever a test that failed left over does not fail the next one. */
static inline int unload_all(void **state)
{
    (void)state;
    for (uint32_t i = kineto_plugin_count(); i-- > 0;) {
        kineto_plugin_info info = {.size = sizeof info};
        if (kineto_plugin_info_get(i, &info) && info.state == KINETO_PLUGIN_LOADED)
            (void)kineto_plugin_unload(info.path, NULL);
    }
    return 0;
}

static inline bool has_detail(const kineto_trace *trace, const char *reason, const char *part)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line l;
        kineto_trace_ledger(trace, i, &l);
        if (text_is(l.source, "plug-ins") && text_is(l.reason, reason) && !l.is_loss &&
            memmem(l.detail.data, l.detail.size, part, strlen(part)))
            return true;
    }
    return false;
}

/* A function of a library that is loaded. */
static inline void *function_of(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD), *symbol;
    if (!library)
        fail_msg("%s is not in this process", path);
    symbol = dlsym(library, name);
    assert_non_null(symbol);
    dlclose(library);
    return symbol;
}

static inline bool is_in_process(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (library)
        dlclose(library);
    return library != NULL;
}

#endif

/* Loads and initialises the tool that an environment variable names, for emit_nvtx.c and
 * emit_itt.c. Libraries of tools are never unloaded once their code has run: they may have started
 * threads. */
#include "profiler/emit.h"

#include <dlfcn.h>
#include <sys/stat.h>

/* Longest time that one thread waits for another that initialises the tool. */
#define KP_TOOL_WAIT_MS 30000u

/* The error when no library is named, or when the name is ignored in a setuid program. */
static kineto_status fail_no_tool(const kp_tool *tool, kineto_error *err)
{
    if (getenv(tool->variable) && !kb_os_getenv(tool->variable))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "%s: %s is ignored because the program runs with raised privileges",
                       tool->name, tool->variable);
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "%s: no tool is attached; %s, or set %s to the path of its library", tool->name,
                   tool->start, tool->variable);
}

/* Refuses files that would crash or block dlopen: pipes, devices, truncated libraries. Names
 * without a directory are left to the search of the dynamic linker. */
static kineto_status check_tool_file(const kp_tool *tool, const char *path, kineto_error *err)
{
    struct stat st;
    if (!strchr(path, '/') || stat(path, &st) != 0)
        return KINETO_OK;
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_FORMAT, "%s: %s: %s is not a regular file", tool->name,
                       tool->variable, path);
    if (kb_os_library_is_cut_off(path))
        return kb_fail(err, KINETO_E_FORMAT, "%s: %s: %s ends early; copy it again", tool->name,
                       tool->variable, path);
    return KINETO_OK;
}

static kineto_status load_tool(const kp_tool *tool, const char *path, void **library,
                               kineto_error *err)
{
    kineto_status status = check_tool_file(tool, path, err);
    if (status != KINETO_OK)
        return status;
    *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (*library)
        return KINETO_OK;
    const char *text = dlerror();
    return kb_fail(err, KINETO_E_PLUGIN, "%s: cannot load the library of %s: %s", tool->name,
                   tool->variable, text ? text : path);
}

/* Loads and initialises the tool. The caller holds tool->lock. */
static kineto_status attach_named_tool(kp_tool *tool, kineto_error *err)
{
    KB_ASSERT(kb_load_relaxed(&tool->lock.owner) == kb_os_self() && !kp_tool_is_open(tool));
    const char *path = kb_setting(tool->variable);
    void *library = NULL;
    bool entered = false;
    if (!path)
        return fail_no_tool(tool, err);
    kineto_status status = load_tool(tool, path, &library, err);
    if (status != KINETO_OK)
        return status;
    status = tool->attach(library, path, &entered, err);
    if (status == KINETO_OK)
        kb_store_release(&tool->is_open, 1);
    else if (!entered)
        (void)dlclose(library);
    return status;
}

kineto_status kp_tool_open(kp_tool *tool, kineto_error *err)
{
    if (kp_tool_is_open(tool))
        return KINETO_OK;
    uint64_t self = kb_os_self();
    if (kb_load_acquire(&tool->lock.owner) == self)
        return kb_fail(err, KINETO_E_STATE, "%s: called from within the initialisation of the tool",
                       tool->name);
    if (!kb_lock_take_within(&tool->lock, self, KP_TOOL_WAIT_MS))
        return kb_fail(err, KINETO_E_BUSY,
                       "%s: another thread has been initialising the tool for "
                       "%u s",
                       tool->name, KP_TOOL_WAIT_MS / 1000);
    kineto_status status = kp_tool_is_open(tool) ? KINETO_OK : attach_named_tool(tool, err);
    kb_lock_drop(&tool->lock);
    return status;
}

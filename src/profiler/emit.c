/* Finding and initialising the tool that an environment variable names. */
#include "profiler/emit.h"

#include <dlfcn.h>
#include <sys/stat.h>

/* A tool may take long to begin, never as long as this. */
#define KP_TOOL_WAIT_MS 30000u

static kineto_status nobody(const kp_tool *tool, kineto_error *err)
{
    if (getenv(tool->variable) && !kb_os_getenv(tool->variable))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "%s: the program runs with raised privileges: %s is ignored", tool->name,
                       tool->variable);
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "%s: no tool listens: %s, or set %s to the path of its library", tool->name,
                   tool->start, tool->variable);
}

/* What would kill or hold us in dlopen. Names without a directory are the dynamic linker's. */
static kineto_status check_file(const kp_tool *tool, const char *path, kineto_error *err)
{
    struct stat st;
    if (!strchr(path, '/') || stat(path, &st) != 0)
        return KINETO_OK;
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_FORMAT, "%s: %s: %s is no library but another kind of file",
                       tool->name, tool->variable, path);
    if (kb_os_library_is_cut_off(path))
        return kb_fail(err, KINETO_E_FORMAT, "%s: %s: %s ends early: copy it again", tool->name,
                       tool->variable, path);
    return KINETO_OK;
}

static kineto_status load(const kp_tool *tool, const char *path, void **library, kineto_error *err)
{
    kineto_status status = check_file(tool, path, err);
    if (status != KINETO_OK)
        return status;
    *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (*library)
        return KINETO_OK;
    const char *text = dlerror();
    return kb_fail(err, KINETO_E_PLUGIN, "%s: the library of %s cannot be opened: %s", tool->name,
                   tool->variable, text ? text : path);
}

/* Under the lock. */
static kineto_status find_and_attach(kp_tool *tool, kineto_error *err)
{
    const char *path = kb_setting(tool->variable);
    void *library = NULL;
    bool entered = false;
    if (!path)
        return nobody(tool, err);
    kineto_status status = load(tool, path, &library, err);
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
        return kb_fail(err, KINETO_E_STATE, "%s: called by the tool that is being initialised",
                       tool->name);
    if (!kb_lock_take_within(&tool->lock, self, KP_TOOL_WAIT_MS))
        return kb_fail(err, KINETO_E_BUSY,
                       "%s: another thread has been initialising the tool for "
                       "%u s",
                       tool->name, KP_TOOL_WAIT_MS / 1000);
    kineto_status status = kp_tool_is_open(tool) ? KINETO_OK : find_and_attach(tool, err);
    kb_lock_drop(&tool->lock);
    return status;
}

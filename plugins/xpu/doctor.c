/* The check of `ckineto doctor`: would recording work on this machine? The command finds
 * ckineto_xpu_look by name in the plug-in, in a process of its own: PTI starts Level Zero to answer. */
#include "xpu.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_USABLE = 0, LOOK_ABSENT = 1, LOOK_BROKEN = 2 };

/* CKINETO_XPU_ROOT: the folder in which sys/ and dev/ are. */
static const char *get_device_root(void)
{
    const char *root = secure_getenv("CKINETO_XPU_ROOT");
    return root ? root : "";
}

static bool is_intel_node(const char *name)
{
    char path[PATH_MAX], text[16] = "";
    snprintf(path, sizeof path, "%s/sys/class/drm/%s/device/vendor", get_device_root(), name);
    FILE *file = fopen(path, "re");
    bool is_intel = file && fgets(text, sizeof text, file) && strncmp(text, "0x8086", 6) == 0;
    if (file)
        fclose(file);
    return is_intel;
}

/* The file of the first Intel GPU, which each program with Level Zero opens. */
static bool find_render_node(char *path, size_t size)
{
    char folder[PATH_MAX];
    bool found = false;
    snprintf(folder, sizeof folder, "%s/sys/class/drm", get_device_root());
    DIR *list = opendir(folder);
    for (struct dirent *e; list && !found && (e = readdir(list)) != NULL;) {
        found = strncmp(e->d_name, "renderD", 7) == 0 && is_intel_node(e->d_name);
        if (found)
            snprintf(path, size, "%s/dev/dri/%s", get_device_root(), e->d_name);
    }
    if (list)
        closedir(list);
    return found;
}

static int check_render_node(char *text, size_t size)
{
    char path[PATH_MAX];
    if (!find_render_node(path, sizeof path)) {
        snprintf(text, size, "no Intel GPU: no render node of the i915 or xe kernel driver was found");
        return LOOK_ABSENT;
    }
    if (access(path, R_OK | W_OK) == 0)
        return LOOK_USABLE;
    if (errno == EACCES || errno == EPERM)
        snprintf(text, size,
                 "no permission for %.200s; add this user to the group render, or give the container its "
                 "devices",
                 path);
    else
        snprintf(text, size, "%.200s is missing; give the container its devices (--device /dev/dri)", path);
    return LOOK_BROKEN;
}

__attribute__((visibility("default"))) int ckineto_xpu_look(char *text, size_t size);

/** @return 0: usable, 1: not installed, 2: broken; `text` gets a message for the user. */
int ckineto_xpu_look(char *text, size_t size)
{
    char why[CP_TEXT_BYTES];
    int state = check_render_node(text, size);
    if (state != LOOK_USABLE)
        return state;
    if (!xp_libs_open(why)) {
        snprintf(text, size, "%s", why);
        return LOOK_ABSENT;
    }
    xp_version v = xp_pti.version();
    bool has_gpu = !xp_pti.local_available || xp_pti.local_available() != XP_NOT_IMPLEMENTED;
    snprintf(text, size,
             has_gpu ? "PTI %u.%u.%u; tested against a stand-in, untested on hardware"
                     : "PTI %u.%u.%u finds no GPU: install Level Zero's loader and Intel's driver for it "
                       "(libze1, libze-intel-gpu1)",
             v.major, v.minor, v.patch);
    return has_gpu ? LOOK_USABLE : LOOK_BROKEN;
}

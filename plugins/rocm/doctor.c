/* The check of `ckineto doctor`: would recording work on this machine? The command finds
 * ckineto_rocm_look by name in the plug-in. Nothing of AMD is started: the kernel driver's file and the
 * SDK's library are looked at. */
#include "libs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_USABLE = 0, LOOK_ABSENT = 1, LOOK_BROKEN = 2 };

/* The file of AMD's kernel driver, which each program with HIP opens. */
static const char *get_driver_path(void)
{
    const char *path = secure_getenv("CKINETO_KFD_PATH");
    return path && *path ? path : "/dev/kfd";
}

static int check_kernel_driver(char *text, size_t size)
{
    const char *path = get_driver_path();
    if (access(path, R_OK | W_OK) == 0)
        return LOOK_USABLE;
    if (errno == EACCES || errno == EPERM) {
        snprintf(text, size,
                 "no permission for %s; add this user to the groups render and video, or give the "
                 "container its devices",
                 path);
        return LOOK_BROKEN;
    }
    snprintf(text, size, "no AMD GPU: %s of the amdgpu kernel driver was not found", path);
    return LOOK_ABSENT;
}

__attribute__((visibility("default"))) int ckineto_rocm_look(char *text, size_t size);

/** @return 0: usable, 1: not installed, 2: broken; `text` gets a message for the user. */
int ckineto_rocm_look(char *text, size_t size)
{
    char why[CP_TEXT_BYTES];
    const char *tools = secure_getenv("ROCP_TOOL_LIBRARIES");
    int state = check_kernel_driver(text, size);
    if (state != LOOK_USABLE)
        return state;
    if (!rp_libs_open(NULL, why)) {
        snprintf(text, size, "%s", why);
        return LOOK_ABSENT;
    }
    uint32_t v = rp_sdk_version();
    snprintf(text, size, "rocprofiler-sdk %u.%u.%u; tested against a stand-in, untested on hardware%s%s",
             v / 10000, v / 100 % 100, v % 100,
             tools && *tools ? "; it stands aside for the tool of ROCP_TOOL_LIBRARIES: " : "",
             tools && *tools ? tools : "");
    return LOOK_USABLE;
}

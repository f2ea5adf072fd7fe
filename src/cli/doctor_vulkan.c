/* The probe of Vulkan: loads the loader with our layer in its environment, as a recorded program would. The
 * types are those of Vulkan's ABI, so that no header of Vulkan is needed.
 *
 * A device without timestamps is a note: its commands are recorded with the host's times. Without a device the
 * loader opens no layers, so that nothing is known about the layer then. A device file that exists and may not be
 * opened is the usual reason why a driver finds no device. */
#include "cli/doctor_probes.h"
#include "cli/install_paths.h"
#include "cli/launch/environment.h"
#include "cli/print.h"

#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <unistd.h>

#define MAX_DEVICES  16u
#define MAX_FAMILIES 16u
#define VERSION_1_1  (UINT32_C(1) << 22 | UINT32_C(1) << 12)

typedef struct application_info {
    int32_t type;
    const void *next;
    const char *name;
    uint32_t version;
    const char *engine;
    uint32_t engine_version, api_version;
} application_info;

typedef struct instance_info {
    int32_t type;
    const void *next;
    uint32_t flags;
    const application_info *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
} instance_info;

/* VkPhysicalDeviceProperties, of which the limits are not read: 824 bytes in all. */
typedef struct device_properties {
    uint32_t api_version, driver_version, vendor, device, type;
    char name[256];
    uint64_t rest[128];
} device_properties;

typedef struct family_properties {
    uint32_t flags, count, timestamp_bits, granularity[3];
} family_properties;

typedef struct vulkan_api {
    int32_t (*create_instance)(const instance_info *, const void *, void **);
    int32_t (*devices)(void *, uint32_t *, void **);
    void (*properties)(void *, device_properties *);
    void (*families)(void *, uint32_t *, family_properties *);
} vulkan_api;

/* memcpy, because ISO C does not convert object pointers to function pointers. */
static bool load_vulkan_function(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* A device file that this user may not open; "": none. */
static void find_closed_device(char *path, size_t size)
{
    glob_t found;
    path[0] = 0;
    if (glob("/dev/dri/renderD*", 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc && !path[0]; i++)
        if (access(found.gl_pathv[i], R_OK | W_OK) != 0 && errno == EACCES)
            snprintf(path, size, "%s", found.gl_pathv[i]);
    globfree(&found);
}

/* The layer itself records whether an instance was created through it. */
static const char *describe_layer(const char *plugin, bool *works)
{
    void *library = plugin[0] ? dlopen(plugin, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*started)(void);
    *works = false;
    if (!plugin[0])
        return "ckineto was built without Vulkan (CKINETO_VULKAN=OFF, or without libvulkan-dev)";
    if (!library || !load_vulkan_function(library, "ckineto_vulkan_started", &started))
        return "the loader does not read VK_ADD_LAYER_PATH: programs that use it are not recorded";
    *works = started() != 0;
    return *works ? "the loader starts ckineto's layer"
                  : "the loader opens ckineto's layer and does not start it";
}

/* Does a queue family for compute work have timestamps? */
static bool has_timestamps(const vulkan_api *api, void *device)
{
    family_properties families[MAX_FAMILIES];
    uint32_t count = MAX_FAMILIES;
    api->families(device, &count, families);
    for (uint32_t i = 0; i < count; i++)
        if ((families[i].flags & 2) && families[i].timestamp_bits)
            return true;
    return false;
}

static void report_no_device(kc_probe_result *f, int32_t status)
{
    char closed[64];
    find_closed_device(closed, sizeof closed);
    if (closed[0])
        kc_probe_answer(f, KC_PROBE_ABSENT,
                        "no device: %s may not be opened by this user; join its group (mostly "
                        "'render')",
                        closed);
    else
        kc_probe_answer(f, KC_PROBE_ABSENT,
                        "no device (status %d): install a driver, mesa-vulkan-drivers for "
                        "instance",
                        status);
}

/* Creates an instance through the layer, and lists the devices. */
static void report_devices(kc_probe_result *f, const vulkan_api *api, const char *plugin)
{
    application_info application = {.api_version = VERSION_1_1};
    instance_info info = {.type = 1, .application = &application};
    void *instance = NULL, *devices[MAX_DEVICES];
    uint32_t count = MAX_DEVICES, timed = 0;
    char names[280] = "";
    bool works;
    int32_t status = api->create_instance(&info, NULL, &instance);
    if (status == 0)
        status = api->devices(instance, &count, devices);
    if (status < 0 || count == 0) { /* the loader opens layers only if there is a driver */
        report_no_device(f, status);
        return;
    }
    const char *layer = describe_layer(plugin, &works);
    for (uint32_t i = 0; i < count; i++) {
        device_properties p = {.type = 0};
        size_t used = strlen(names);
        api->properties(devices[i], &p);
        bool has = has_timestamps(api, devices[i]);
        timed += has;
        snprintf(names + used, sizeof names - used, "%s%.80s%s", i ? ", " : "", p.name,
                 has ? "" : " (without timestamps: times of the host)");
    }
    kc_probe_answer(f, !works ? KC_PROBE_BROKEN : timed == count ? KC_PROBE_OK : KC_PROBE_NOTE,
                    "%u %s: %s; %s", count, kc_noun(count, "device", "devices"), names, layer);
}

void kc_probe_vulkan(kc_probe_result *f)
{
    vulkan_api api;
    kineto_error err;
    char plugin[PATH_MAX] = "", folder[PATH_MAX];
    if (kc_find_plugin(KC_VULKAN_PLUGIN, plugin, sizeof plugin)) {
        snprintf(folder, sizeof folder, "%s", plugin);
        *strrchr(folder, '/') = 0;
        if (kc_add_vulkan_layer(folder, &err)) {
            kc_probe_answer(f, KC_PROBE_BROKEN, "%.400s", err.message);
            return;
        }
    }
    void *library = dlopen("libvulkan.so.1", RTLD_NOW);
    if (!library) {
        kc_probe_answer(f, KC_PROBE_ABSENT, "no Vulkan loader: %.380s; install libvulkan1", dlerror());
        return;
    }
    if (load_vulkan_function(library, "vkCreateInstance", &api.create_instance) &&
        load_vulkan_function(library, "vkEnumeratePhysicalDevices", &api.devices) &&
        load_vulkan_function(library, "vkGetPhysicalDeviceProperties", &api.properties) &&
        load_vulkan_function(library, "vkGetPhysicalDeviceQueueFamilyProperties", &api.families))
        report_devices(f, &api, plugin);
    else
        kc_probe_answer(f, KC_PROBE_BROKEN, "libvulkan.so.1 lacks functions of Vulkan");
}

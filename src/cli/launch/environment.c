/* The environment of a recorded program. A table lists the tool interfaces; the preloaded recorder,
 * plug-ins, the memory hook and Python have functions of their own. A list that the user has set is
 * extended, and a slot that another tool has set is left to it. */
#include "cli/launch/environment.h"
#include "cli/install_paths.h"
#include "format/timers.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <unistd.h>

const kc_interface kc_interfaces[] = {
    {"opencl", "OPENCL_LAYERS", "ckineto-opencl.so", KC_ENTRY_LIST, ':', KC_BUILT_WITH_OPENCL},
    {"cuda", "CUDA_INJECTION64_PATH", "ckineto-cuda.so", KC_ENTRY_SLOT, 0, true},
    {"rocm", "ROCP_TOOL_LIBRARIES", "ckineto-rocm.so", KC_ENTRY_LIST, ':', true},
    {"nvtx", "NVTX_INJECTION64_PATH", "ckineto-nvtx.so", KC_ENTRY_SLOT, 0, true},
    {"itt", "INTEL_LIBITTNOTIFY64", "ckineto-itt.so", KC_ENTRY_SLOT, 0, true},
    {"openmp", "OMP_TOOL_LIBRARIES", "ckineto-openmp.so", KC_ENTRY_LIST, ':', true},
};
const size_t kc_interface_count = KB_COUNT(kc_interfaces);

static kineto_status set_environment_variable(const char *name, const char *value,
                                              kineto_error *err)
{
    if (setenv(name, value, 1) != 0)
        return kb_fail_os(err, errno, "cannot set %s for the program", name);
    return KINETO_OK;
}

/* Is `item` an element of the list? */
static bool is_in_list(const char *list, const char *item, char separator)
{
    size_t size = strlen(item);
    for (const char *at = list; at; at = strchr(at, separator)) {
        at += *at == separator;
        if (strncmp(at, item, size) == 0 && (at[size] == separator || at[size] == 0))
            return true;
    }
    return false;
}

/* Add an item to a list, unless it is there already. */
static kineto_status extend_variable(const char *name, const char *item, char separator,
                                     bool prepend, kineto_error *err)
{
    const char *old = getenv(name);
    if (!old || !*old)
        return set_environment_variable(name, item, err);
    if (is_in_list(old, item, separator))
        return KINETO_OK;
    size_t size = strlen(old) + strlen(item) + 2;
    char *joined = malloc(size);
    if (!joined)
        return kb_fail_memory(err, NULL);
    snprintf(joined, size, "%s%c%s", prepend ? item : old, separator, prepend ? old : item);
    kineto_status status = set_environment_variable(name, joined, err);
    free(joined);
    return status;
}

/* What keeps our library out of an interface is noted, and is not an error. */
static kineto_status enter_interface(const kc_interface *i, kc_entry_note *note, void *context,
                                     kineto_error *err)
{
    char path[PATH_MAX], detail[PATH_MAX + 128];
    if (!kc_find_plugin(i->plugin, path, sizeof path)) {
        if (!i->is_built)
            return KINETO_OK;
        snprintf(detail, sizeof detail,
                 "%s was not found: set CKINETO_PLUGIN_DIR, or see 'ckineto doctor'", i->plugin);
        note(context, i->source, "plug-in not found", detail);
        return KINETO_OK;
    }
    if (i->shape == KC_ENTRY_LIST && strchr(path, i->separator)) {
        snprintf(detail, sizeof detail, "%s cannot name %s: a '%c' in the path", i->variable, path,
                 i->separator);
        note(context, i->source, "plug-in not usable", detail);
        return KINETO_OK;
    }
    const char *owner = getenv(i->variable);
    if (i->shape == KC_ENTRY_SLOT && owner && *owner && strcmp(owner, path) != 0) {
        snprintf(detail, sizeof detail, "%s is taken by %.200s", i->variable, owner);
        note(context, i->source, "stood aside", detail);
        return KINETO_OK;
    }
    return i->shape == KC_ENTRY_SLOT ? set_environment_variable(i->variable, path, err)
                                     : extend_variable(i->variable, path, i->separator, false, err);
}

/* ---- NCCL, which loads one profiler plug-in ----------------------------------------------------- */

#define NCCL_LONGEST_NAME 254 /* NCCL cuts longer ones */

static bool is_our_nccl_plugin(const char *name)
{
    return strcmp(name, "ckineto") == 0 || kb_string_ends_with(kb_string(name), "libnccl-profiler-ckineto.so");
}

/* The plug-in that the user has set is loaded by ours, which passes every call on to it. NULL: ours can be set. */
static const char *find_nccl_obstacle(const char *path, const char *owner)
{
    if (strlen(path) > NCCL_LONGEST_NAME)
        return "the path of libnccl-profiler-ckineto.so is longer than the 254 bytes that NCCL reads";
    if (owner && strcasecmp(owner, "none") == 0)
        return "NCCL_PROFILER_PLUGIN=none in the environment";
    return NULL;
}

/* NCCL and RCCL read the same variable. */
static kineto_status enter_nccl(kc_entry_note *note, void *context, kineto_error *err)
{
    char path[PATH_MAX];
    const char *owner = getenv("NCCL_PROFILER_PLUGIN");
    if (!kc_find_plugin("libnccl-profiler-ckineto.so", path, sizeof path)) {
        note(context, "nccl", "plug-in not found",
             "libnccl-profiler-ckineto.so was not found: set CKINETO_PLUGIN_DIR, or see 'ckineto doctor'");
        return KINETO_OK;
    }
    const char *obstacle = find_nccl_obstacle(path, owner);
    if (obstacle) {
        note(context, "nccl", "stood aside", obstacle);
        return KINETO_OK;
    }
    kineto_status status = KINETO_OK;
    if (owner && *owner && !is_our_nccl_plugin(owner))
        status = set_environment_variable("CKINETO_NCCL_NEXT", owner, err);
    return status ? status : set_environment_variable("NCCL_PROFILER_PLUGIN", path, err);
}

/* ---- Vulkan, whose loader has a list of folders and a list of layers -------------------------- */

/* VK_LAYER_PATH hides VK_ADD_LAYER_PATH. The last variable enables a layer that is installed as an
 * implicit one, which loaders before 1.3.207 need. */
kineto_status kc_add_vulkan_layer(const char *folder, kineto_error *err)
{
    const char *only = getenv("VK_LAYER_PATH");
    kineto_status status = extend_variable("VK_ADD_LAYER_PATH", folder, ':', false, err);
    if (status == KINETO_OK && only && *only)
        status = extend_variable("VK_LAYER_PATH", folder, ':', false, err);
    if (status == KINETO_OK)
        status = extend_variable("VK_INSTANCE_LAYERS", KC_VULKAN_LAYER, ':', false, err);
    return status ? status : set_environment_variable("ENABLE_VK_LAYER_CKINETO", "1", err);
}

/* The manifest is next to the library. */
static kineto_status enter_vulkan(kc_entry_note *note, void *context, kineto_error *err)
{
    char path[PATH_MAX], detail[PATH_MAX + 128];
    if (!kc_find_plugin(KC_VULKAN_PLUGIN, path, sizeof path)) {
        if (KC_BUILT_WITH_VULKAN)
            note(context, "vulkan", "plug-in not found",
                 KC_VULKAN_PLUGIN " was not found: set CKINETO_PLUGIN_DIR, or see 'ckineto doctor'");
        return KINETO_OK;
    }
    char *slash = strrchr(path, '/');
    if (!slash || strchr(path, ':')) {
        snprintf(detail, sizeof detail, "VK_ADD_LAYER_PATH cannot name %s: a ':' in the path", path);
        note(context, "vulkan", "plug-in not usable", detail);
        return KINETO_OK;
    }
    *slash = 0;
    return kc_add_vulkan_layer(path, err);
}

/* LD_PRELOAD is separated by blanks and colons, which a path therefore cannot contain. */
static kineto_status append_preload(const char *path, bool prepend, kineto_error *err)
{
    if (strpbrk(path, ": "))
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "LD_PRELOAD cannot name %s: a ' ' or ':' in the path", path);
    return extend_variable("LD_PRELOAD", path, ':', prepend, err);
}

/* Appended: libraries that the user preloads come first. */
static kineto_status preload_recorder(kineto_error *err)
{
    char path[PATH_MAX];
    if (!kc_find_rt(path, sizeof path))
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "libckineto-rt.so was not found next to the command or in %s",
                       CKINETO_LIBDIR);
    return append_preload(path, false, err);
}

/* A library of ours that the option needs. */
static kineto_status preload_library(const char *option, const char *file, bool prepend,
                                     kineto_error *err)
{
    char path[PATH_MAX];
    if (!kc_find_plugin(file, path, sizeof path))
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "%s: %s was not found: set CKINETO_PLUGIN_DIR, or see 'ckineto doctor'", option,
                       file);
    return append_preload(path, prepend, err);
}

/* The hook contains the recorder. It comes before an allocator that the user preloads, which would
 * be called instead of it otherwise. */
static kineto_status preload_memory_hook(uint64_t bytes, kineto_error *err)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)bytes);
    kineto_status status = set_environment_variable("CKINETO_MEMORY_SAMPLING", number, err);
    return status ? status : preload_library("--memory", "libckineto-memory.so", true, err);
}

/* Without the option, what prevents it is noted only. */
static kineto_status preload_mpi(const kc_entry_options *o, kc_entry_note *note, void *context,
                                 kineto_error *err)
{
    kineto_error why;
    kineto_status status = preload_library("--mpi", "libckineto-mpi.so", false, &why);
    if (status && o->mpi_required)
        return kb_fail(err, why.code, "%s", why.message);
    if (status)
        note(context, "MPI", "cannot be interposed", why.message);
    return KINETO_OK;
}

/* ---- ROCTX, whose library is replaced ---------------------------------------------------------- */

static bool is_rocm_installed(void)
{
    static const char *const names[] = {"libroctx64.so.4", "librocprofiler-sdk-roctx.so.1"};
    const char *folder = kb_setting("ROCM_PATH");
    char path[PATH_MAX];
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/lib/%s", folder ? folder : "/opt/rocm", names[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* Does the variable name our tool, and no other? */
static bool is_own_tool(const char *value)
{
    char path[PATH_MAX];
    return kc_find_plugin("ckineto-rocm.so", path, sizeof path) && strcmp(value, path) == 0;
}

/* The variable that names a profiler of AMD's; NULL: none is set. */
static const char *find_amd_tool(void)
{
    static const char *const names[] = {"ROCP_TOOL_LIBRARIES", "HSA_TOOLS_LIB"};
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        const char *value = kb_setting(names[i]);
        if (value && !is_own_tool(value))
            return names[i];
    }
    return NULL;
}

/* A program that opens ROCTX's library by its name finds ours first, in a folder that has all names.
 * AMD's library is not loaded then, which a profiler of AMD's would need. */
static kineto_status add_roctx_folder(const char *library, kc_entry_note *note, void *context,
                                      kineto_error *err)
{
    char text[PATH_MAX + 128];
    const char *tool = find_amd_tool();
    if (tool) {
        snprintf(text, sizeof text,
                 "%s is set: ROCTX of programs that open its library by name "
                 "is left to that tool",
                 tool);
        note(context, "roctx", "stood aside", text);
        return KINETO_OK;
    }
    snprintf(text, sizeof text, "%.*s/roctx", (int)(strrchr(library, '/') - library), library);
    return extend_variable("LD_LIBRARY_PATH", text, ':', true, err);
}

/* Preloaded, our library passes each call on to AMD's. Without the option this is done where ROCm is
 * installed, and what prevents it is noted only. */
static kineto_status enter_roctx(const kc_entry_options *o, kc_entry_note *note, void *context,
                                 kineto_error *err)
{
    char path[PATH_MAX];
    kineto_error why;
    kineto_status status;
    if (!o->roctx && !is_rocm_installed())
        return KINETO_OK;
    status = preload_library("--roctx", "libckineto-roctx.so", false, &why);
    if (status == KINETO_OK && kc_find_plugin("libckineto-roctx.so", path, sizeof path))
        return o->roctx ? add_roctx_folder(path, note, context, err) : KINETO_OK;
    if (o->roctx)
        return kb_fail(err, why.code, "%s", why.message);
    note(context, "roctx", "cannot be loaded into the program", why.message);
    return KINETO_OK;
}

/* ---- Intel GPUs, whose PTI has no variable that names a tool --------------------------------- */

static bool is_intel_render_node(const char *folder, const char *name)
{
    char path[2 * PATH_MAX], text[16] = "";
    snprintf(path, sizeof path, "%s/%s/device/vendor", folder, name);
    FILE *file = strncmp(name, "renderD", 7) == 0 ? fopen(path, "re") : NULL;
    bool is_intel = file && fgets(text, sizeof text, file) && strncmp(text, "0x8086", 6) == 0;
    if (file)
        fclose(file);
    return is_intel;
}

static bool has_intel_gpu(void)
{
    const char *root = kb_setting("CKINETO_XPU_ROOT");
    char folder[PATH_MAX];
    bool found = false;
    snprintf(folder, sizeof folder, "%s/sys/class/drm", root ? root : "");
    DIR *list = opendir(folder);
    for (struct dirent *e; list && !found && (e = readdir(list)) != NULL;)
        found = is_intel_render_node(folder, e->d_name);
    if (list)
        closedir(list);
    return found;
}

/* Done where there is a GPU; what prevents it is noted only. */
static void preload_xpu(kc_entry_note *note, void *context)
{
    kineto_error why;
    if (has_intel_gpu() &&
        preload_library("Intel GPUs", "ckineto-xpu.so", false, &why) != KINETO_OK)
        note(context, "xpu", "cannot be loaded into the program", why.message);
}

/* What keeps OpenMP's runtimes from loading our tool, or from using it. */
static void note_openmp_tools(const char *libraries, kc_entry_note *note, void *context)
{
    const char *tool = getenv("OMP_TOOL");
    char detail[256];
    if (tool && strcmp(tool, "disabled") == 0)
        note(context, "openmp", "stood aside", "OMP_TOOL=disabled in the environment");
    if (libraries && *libraries && !strstr(libraries, "ckineto-openmp.so")) {
        snprintf(detail, sizeof detail,
                 "OMP_TOOL_LIBRARIES names %.160s, which is used instead if it accepts the runtime",
                 libraries);
        note(context, "openmp", "another tool comes first", detail);
    }
}

/* Before libraries of the user that wrap the same functions, as the memory hook is. */
static kineto_status preload_waits(uint64_t threshold_us, kineto_error *err)
{
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)threshold_us);
    kineto_status status = set_environment_variable("CKINETO_WAITS_US", number, err);
    return status ? status : preload_library("--waits", "libckineto-waits.so", true, err);
}

/* Before other libraries that create threads or set signals. */
static kineto_status preload_timers(const char *path, kineto_error *err)
{
    kineto_status status = set_environment_variable(KF_TIMERS_VARIABLE, path, err);
    return status ? status : preload_library("--cpu-timers", "libckineto-timers.so", true, err);
}

/* The recorder loads the plug-ins, so it must be in the program. The variable is set even if it is
 * empty: a program that records itself must not load plug-ins that were excluded here. */
static kineto_status set_plugins(const kc_entry_options *o, kc_entry_note *note, void *context,
                                 kineto_error *err)
{
    kineto_error why;
    kineto_status status =
        set_environment_variable("CKINETO_PLUGINS", o->plugins ? o->plugins : "", err);
    if (status || (!o->preload && (!o->plugins || !o->plugins[0])))
        return status;
    status = preload_recorder(&why);
    if (status == KINETO_OK)
        return status;
    if (o->preload || o->plugins_required)
        return kb_fail(err, why.code, "%s", why.message);
    note(context, "plug-ins", "cannot be loaded into the program", why.message);
    kb_log(KINETO_LOG_WARNING, "no plug-in is loaded: %s", why.message);
    return KINETO_OK;
}

/* The folder with our Python packages, and the package in it whose sitecustomize attaches to
 * PyTorch before 2.5; later versions use an entry point of the first. */
#define PYTHON_PACKAGE "python/ckineto_attach/autoload.py"
#define PYTHON_SITE    "ckineto_attach/site"

/* The folder with our Python packages. A path with a colon cannot be used in PYTHONPATH. */
static bool find_python_folder(char *buf, size_t size)
{
    if (!kc_find_plugin(PYTHON_PACKAGE, buf, size))
        return false;
    for (int levels = 0; levels < 2; levels++) {
        char *slash = strrchr(buf, '/');
        if (!slash)
            return false;
        *slash = 0;
    }
    return strchr(buf, ':') == NULL;
}

bool kc_is_module_list(const char *list)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (const char *at = list;; at++) {
        size_t size = 0;
        while (at[size] && (strchr(letters, at[size]) || (unsigned char)at[size] >= 0x80))
            size++;
        at += size;
        if (size == 0 || (*at && *at != '.' && *at != ','))
            return false;
        if (!*at)
            return true;
    }
}

/* What our sitecustomize reads. */
static kineto_status request_python_functions(const kc_entry_options *o, kineto_error *err)
{
    if (!o->python_functions)
        return KINETO_OK;
    kineto_status status = set_environment_variable("CKINETO_PYTHON", "1", err);
    if (status == KINETO_OK && o->python_only)
        status = set_environment_variable("CKINETO_PYTHON_ONLY", o->python_only, err);
    return status;
}

/* Python finds our packages first, and the sitecustomize in PYTHON_SITE. */
static kineto_status set_python_path(const kc_entry_options *o, kc_entry_note *note, void *context,
                                     kineto_error *err)
{
    char folder[PATH_MAX], site[PATH_MAX + sizeof PYTHON_SITE + 1];
    if (!o->python) /* also turns off the entry point of a package installed with pip */
        return set_environment_variable("CKINETO_TORCH", "0", err);
    if (!find_python_folder(folder, sizeof folder)) {
        note(context, KC_NO_PYTHON, "Python programs cannot be recorded",
             "the Python package of ckineto is not installed next to its plug-ins");
        return KINETO_OK;
    }
    snprintf(site, sizeof site, "%s/%s", folder, PYTHON_SITE);
    kineto_status status = extend_variable("PYTHONPATH", site, ':', true, err);
    if (status == KINETO_OK)
        status = extend_variable("PYTHONPATH", folder, ':', true, err);
    return status ? status : request_python_functions(o, err);
}

/* Libraries in the program write to the same log, whose path is made absolute. */
static kineto_status set_log_variables(const kc_entry_options *o, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    char path[2 * PATH_MAX], here[PATH_MAX] = "";
    if (o->log_level >= 0) {
        char digit[2] = {(char)('0' + o->log_level % 10), 0};
        status = set_environment_variable("KINETO_LOG_LEVEL", digit, err);
    }
    if (status || !o->log_file)
        return status;
    if (o->log_file[0] != '/' && !getcwd(here, sizeof here))
        return kb_fail_os(err, errno, "cannot read the current directory");
    snprintf(path, sizeof path, "%s%s%s", here, here[0] ? "/" : "", o->log_file);
    return set_environment_variable("KINETO_LOG_FILE", path, err);
}

/* The pool comes first: the other variables have no effect without it. A recording around this one
 * is noted, since the program cannot be in both. */
kineto_status kc_enter(const kc_entry_options *options, kc_entry_note *note, void *context,
                       kineto_error *err)
{
    const char *outer = getenv("CKINETO_SESSION");
    if (outer && *outer)
        note(context, "recorder", "recording inside a recording",
             "this program is recorded by this recorder, and not by the outer one");
    kineto_status status = set_environment_variable("CKINETO_SESSION", options->pool_path, err);
    note_openmp_tools(getenv("OMP_TOOL_LIBRARIES"), note, context);
    for (size_t i = 0; i < kc_interface_count && status == KINETO_OK; i++)
        status = enter_interface(&kc_interfaces[i], note, context, err);
    if (status == KINETO_OK)
        status = enter_nccl(note, context, err);
    if (status == KINETO_OK)
        status = enter_vulkan(note, context, err);
    if (status == KINETO_OK)
        status = set_plugins(options, note, context, err);
    if (status == KINETO_OK)
        status = set_python_path(options, note, context, err);
    if (status == KINETO_OK)
        status = enter_roctx(options, note, context, err);
    if (status == KINETO_OK)
        preload_xpu(note, context);
    if (status == KINETO_OK && options->memory)
        status = preload_memory_hook(options->memory_bytes, err);
    if (status == KINETO_OK && options->openmp)
        status = preload_library("--openmp", "libckineto-gomp.so", false, err);
    if (status == KINETO_OK && options->mpi)
        status = preload_mpi(options, note, context, err);
    if (status == KINETO_OK && options->waits)
        status = preload_waits(options->waits_us, err);
    if (status == KINETO_OK && options->timers_path)
        status = preload_timers(options->timers_path, err);
    return status ? status : set_log_variables(options, err);
}

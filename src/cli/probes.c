/* The table of probes, and what each of them tries. */
#include "cli/probes.h"
#include "cli/cli.h"
#include "cli/plugins.h"
#include "record/perf.h"
#include "session/session.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <unistd.h>

void kc_find(kc_finding *f, kc_verdict verdict, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    f->verdict = verdict;
    vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
}

/* ---- what recording needs --------------------------------------------------------------------- */

static void ask_clock(kc_finding *f)
{
    switch (kb_ticks_clock()) {
    case KB_TICKS_TSC:
        kc_find(f, KC_OK, "invariant time-stamp counter, read without the kernel");
        return;
    case KB_TICKS_CNTVCT:
        kc_find(f, KC_OK, "generic timer of the processor, read without the kernel");
        return;
    default:
        kc_find(f, KC_NOTE,
                "no invariant time-stamp counter that the kernel trusts: CLOCK_MONOTONIC_RAW is "
                "used, each event costs more");
    }
}

static void ask_buffer(kc_finding *f)
{
    char path[KS_PATH_BYTES];
    kf_pool pool;
    kineto_error err;
    if (ks_pool_file_create(KS_BUFFER_BYTES, KS_DICTIONARY_BYTES, path, &pool, &err)) {
        kc_find(f, KC_BROKEN, "%.*s", (int)sizeof f->text - 1, err.message);
        return;
    }
    struct statvfs st;
    bool known = statvfs(path, &st) == 0;
    kb_os_unmap(pool.control, pool.bytes);
    unlink(path);
    *strrchr(path, '/') = 0;
    uint64_t free_bytes = known ? (uint64_t)st.f_bavail * st.f_frsize : 0;
    bool in_memory = strcmp(path, "/dev/shm") == 0;
    kc_find(f, in_memory ? KC_OK : KC_NOTE, "the buffer of %u MiB fits into %.200s (%s free%s)",
            KS_BUFFER_BYTES >> 20, path, kc_bytes(free_bytes).s,
            in_memory ? "" : "; /dev/shm would be better: it is memory");
}

static void ask_processes(kc_finding *f)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/children", kb_os_tid());
    if (access(path, R_OK) == 0)
        kc_find(f, KC_OK, "child processes can be listed");
    else
        kc_find(f, KC_NOTE,
                "/proc has no lists of children: processes that cannot be recorded "
                "will not be named");
    if (!kb_os_read_file("/proc/self/stat", text, sizeof text))
        kc_find(f, KC_BROKEN, "/proc is not mounted");
}

/* ---- sources ------------------------------------------------------------------------------------ */

static void ask_plugin(kc_finding *f, const char *file)
{
    char path[PATH_MAX];
    if (!kc_find_plugin(file, path, sizeof path)) {
        kc_find(f, KC_BROKEN, "%s was not found beside the command or in %s%s", file,
                CKINETO_PLUGINDIR,
                kb_setting("CKINETO_PLUGIN_DIR") ? " (CKINETO_PLUGIN_DIR is set)" : "");
        return;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        kc_find(f, KC_OK, "%.400s", path);
    else
        kc_find(f, KC_BROKEN, "%.400s", dlerror());
}

static void ask_opencl_plugin(kc_finding *f) { ask_plugin(f, "ckineto-opencl.so"); }

/* Those that recording would load. */
static void ask_plugins(kc_finding *f)
{
    kc_plugins p = {0};
    kineto_error err;
    char names[240] = "", trouble[200] = "", installed[PATH_MAX] = "";
    size_t loaded = 0, failed = 0, used = 0;
    kineto_status status = kc_plugins_add_usual(&p, &err);
    if (status == KINETO_OK)
        status = kc_plugins_probe(&p, KC_PLUGIN_PATIENCE_MS, &err);
    for (size_t i = 0; i < p.list.count; i++) {
        const kc_plugin_file *plugin = &p.list.data[i];
        const char *name = plugin->profilers.count ? plugin->profilers.data[0].name : "";
        if (plugin->state == KC_PLUGIN_LOADED && used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", loaded ? ", " : "",
                                     name);
        loaded += plugin->state == KC_PLUGIN_LOADED;
        if (kc_plugin_failed(plugin) && failed++ == 0)
            snprintf(trouble, sizeof trouble, "%.90s %s: %.90s", strrchr(plugin->path, '/') + 1,
                     kc_plugin_state_name(plugin->state), plugin->reason);
    }
    kc_plugins_free(&p);
    (void)kc_plugins_directory(installed, sizeof installed);
    if (status)
        kc_find(f, KC_BROKEN, "%.*s", (int)sizeof f->text - 1, err.message);
    else if (failed)
        kc_find(f, KC_BROKEN, "%zu loaded%s%s, %zu cannot be loaded: %s; see 'ckineto plugin list'",
                loaded, loaded ? ": " : "", names, failed, trouble);
    else if (loaded)
        kc_find(f, KC_OK, "%zu: %s; see 'ckineto plugin list'", loaded, names);
    else
        kc_find(f, KC_ABSENT, "none in KINETO_PLUGIN_LIB_DIR_PATH%s and %.300s",
                kb_setting("KINETO_PLUGIN_LIB_DIR_PATH") ? "" : " (not set)", installed);
}

static void ask_rt(kc_finding *f)
{
    char path[PATH_MAX];
    if (kc_find_rt(path, sizeof path))
        kc_find(f, KC_OK, "%.400s", path);
    else
        kc_find(f, KC_NOTE, "libckineto-rt.so was not found: --preload and plug-ins will not work");
}

static void ask_memory(kc_finding *f)
{
    char path[PATH_MAX];
    if (kc_find_plugin("libckineto-memory.so", path, sizeof path))
        kc_find(f, KC_OK, "%.400s", path);
    else
        kc_find(f, KC_NOTE, "libckineto-memory.so was not found: --memory will not work");
}

/* The few calls of OpenCL that are needed to ask who is there; types as its ABI has them. */
typedef struct opencl_api {
    int32_t (*platforms)(uint32_t, void **, uint32_t *);
    int32_t (*platform_info)(void *, uint32_t, size_t, void *, size_t *);
    int32_t (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
    const char *path; /* of the loader */
} opencl_api;

static bool load_symbol(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

typedef enum layer_state { LAYER_MISSING, LAYER_IGNORED, LAYER_REFUSED, LAYER_STARTED } layer_state;

/* The layer itself knows whether a loader has started it. It stays in memory when a loader that wants
 * other entry points has closed it, so that it is there says nothing. */
static layer_state ask_layer(const char *plugin)
{
    void *library = plugin[0] ? dlopen(plugin, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*started)(void);
    if (!plugin[0])
        return LAYER_MISSING;
    if (!library || !load_symbol(library, "ckineto_opencl_started", &started))
        return LAYER_IGNORED;
    return started() ? LAYER_STARTED : LAYER_REFUSED;
}

static const char *const layer_texts[] = {
    "whether it starts layers is unknown without the plug-in",
    "it does not read OPENCL_LAYERS: programs that use it are not recorded",
    "it opens ckineto's layer and does not start it: programs that use it are not recorded",
    "it starts ckineto's layer",
};

/* The file that the loader is in. */
static const char *path_of_function(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "libOpenCL.so.1";
}

static void describe_platforms(kc_finding *f, const opencl_api *cl, const char *plugin)
{
    void *platforms[16];
    uint32_t count = 0, devices = 0;
    char names[256] = "";
    int32_t status = cl->platforms(KB_COUNT(platforms), platforms, &count);
    layer_state layer = ask_layer(plugin);
    bool useless = layer == LAYER_IGNORED || layer == LAYER_REFUSED;
    if (status != 0 || count == 0) {
        kc_find(f, KC_ABSENT,
                "no platform (status %d): install a driver, pocl-opencl-icd for instance; loader "
                "%.200s: %s",
                status, cl->path, layer_texts[layer]);
        return;
    }
    for (uint32_t i = 0; i < KB_MIN(count, KB_COUNT(platforms)); i++) {
        const uint32_t platform_name = 0x0902;
        const uint64_t any_type = 0xffffffff;
        char name[96] = "?";
        uint32_t n = 0;
        size_t used = strlen(names);
        (void)cl->platform_info(platforms[i], platform_name, sizeof name - 1, name, NULL);
        if (cl->devices(platforms[i], any_type, 0, NULL, &n) == 0)
            devices += n;
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    kc_find(f,
            useless   ? KC_BROKEN
            : devices ? KC_OK
                      : KC_ABSENT,
            "%u %s (%s), %u %s; loader %.200s: %s", count, kc_noun(count, "platform", "platforms"),
            names, devices, kc_noun(devices, "device", "devices"), cl->path, layer_texts[layer]);
}

static void ask_opencl(kc_finding *f)
{
    opencl_api cl;
    char plugin[PATH_MAX] = "";
    if (kc_find_plugin("ckineto-opencl.so", plugin, sizeof plugin))
        setenv("OPENCL_LAYERS", plugin, 1);
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    if (!library) {
        kc_find(f, KC_ABSENT, "no OpenCL loader: %.380s; install ocl-icd-libopencl1", dlerror());
        return;
    }
    if (load_symbol(library, "clGetPlatformIDs", &cl.platforms) &&
        load_symbol(library, "clGetPlatformInfo", &cl.platform_info) &&
        load_symbol(library, "clGetDeviceIDs", &cl.devices)) {
        cl.path = path_of_function(dlsym(library, "clGetPlatformIDs"));
        describe_platforms(f, &cl, plugin);
    } else {
        kc_find(f, KC_BROKEN, "libOpenCL.so.1 lacks the calls of OpenCL");
    }
}

/* Sources of other vendors: what would be there, for a version that can use it. */
static void ask_libraries(kc_finding *f, const char *const *names, const char *without)
{
    char found[200] = "", missing[200] = "";
    for (; *names; names++) {
        char *list = dlopen(*names, RTLD_LAZY | RTLD_LOCAL) ? found : missing;
        size_t used = strlen(list);
        snprintf(list + used, sizeof found - used, "%s%s", used ? ", " : "", *names);
    }
    if (missing[0])
        kc_find(f, KC_ABSENT, "not found: %s%s%s", missing, found[0] ? "; found: " : "", found);
    else
        kc_find(f, KC_NOTE, "found: %s; %s", found, without);
}

/* The plug-in knows best: what it would find when a recording starts. */
static void ask_cuda(kc_finding *f)
{
    char path[PATH_MAX], text[400] = "";
    if (!kc_find_plugin("ckineto-cuda.so", path, sizeof path)) {
        kc_find(f, KC_BROKEN, "ckineto-cuda.so was not found beside the command or in %s",
                CKINETO_PLUGINDIR);
        return;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "ckineto_cuda_look") : NULL;
    int (*look)(char *, size_t);
    memcpy(&look, &address, sizeof look);
    if (!address) {
        kc_find(f, KC_BROKEN, "%.390s", dlerror());
        return;
    }
    static const kc_verdict states[] = {KC_OK, KC_ABSENT, KC_BROKEN};
    int state = look(text, sizeof text);
    kc_find(f, state >= 0 && state < 3 ? states[state] : KC_BROKEN, "%s", text);
}

static void ask_rocm(kc_finding *f)
{
    static const char *const names[] = {"libamdhip64.so", "librocprofiler-sdk.so", NULL};
    ask_libraries(f, names, "this version has no source for ROCm");
}

static void ask_nvtx(kc_finding *f) { ask_plugin(f, "ckineto-nvtx.so"); }

/* What operators can carry, see docs/reference/stacks.md. */
static void ask_perf(kc_finding *f)
{
    static const char *const names[] = {"cycles", "instructions", "task-clock", "page-faults"};
    kr_perf_plan plan;
    kineto_error absent = {0}, err;
    if (kr_perf_prepare(names, KB_COUNT(names), &plan, &absent, &err))
        kc_find(f, KC_ABSENT, "%.400s", err.message);
    else if (absent.message[0])
        kc_find(f, KC_NOTE, "%.400s", absent.message);
    else
        kc_find(f, KC_OK, "operators can have counters of the processor and of the kernel");
}

/* The first Python of the PATH answers for its PyTorch: one line, "ok: …", "absent: …" or "note: …". */
static void ask_torch(kc_finding *f)
{
    static const struct {
        const char *word;
        kc_verdict verdict;
    } words[] = {{"ok: ", KC_OK}, {"absent: ", KC_ABSENT}, {"note: ", KC_NOTE}};
    char path[PATH_MAX], command[2 * PATH_MAX], line[400] = "";
    if (!kc_find_plugin("python/ckineto_attach/doctor.py", path, sizeof path) ||
        strchr(path, '\'')) {
        kc_find(f, KC_ABSENT, "the Python package of ckineto is not installed next to its plug-ins");
        return;
    }
    snprintf(command, sizeof command, "exec python3 '%s' 2>/dev/null", path);
    FILE *answer = popen(command, "re");
    bool answered = answer && fgets(line, sizeof line, answer);
    if (answer)
        pclose(answer);
    line[strcspn(line, "\n")] = 0;
    for (size_t i = 0; answered && i < KB_COUNT(words); i++) {
        size_t size = strlen(words[i].word);
        if (strncmp(line, words[i].word, size) == 0) {
            kc_find(f, words[i].verdict, "%s", line + size);
            return;
        }
    }
    kc_find(f, KC_ABSENT, "there is no python3 in the PATH");
}

const kc_probe kc_probes[] = {
    {"clock", ask_clock, true, false},         {"buffer", ask_buffer, true, false},
    {"processes", ask_processes, true, false}, {"opencl plug-in", ask_opencl_plugin, false, true},
    {"opencl", ask_opencl, false, true},       {"plug-ins", ask_plugins, false, false},
    {"preload", ask_rt, false, false},         {"memory hook", ask_memory, false, false},
    {"cuda", ask_cuda, false, true},           {"rocm", ask_rocm, false, true},
    {"nvtx", ask_nvtx, false, false},          {"perf events", ask_perf, false, false},
    {"pytorch", ask_torch, false, true},
};
const size_t kc_probe_count = KB_COUNT(kc_probes);

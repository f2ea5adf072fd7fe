/* The table of probes. A probe reports what recording would find; it changes nothing on the
 * machine. Probes that load drivers or plug-ins run in a child process (cmd_doctor.c). */
#include "cli/doctor_probes.h"
#include "cli/install_paths.h"
#include "cli/launch/environment.h"
#include "cli/launch/plugins.h"
#include "cli/print.h"
#include "cpu/source.h"
#include "record/perf.h"
#include "session/session.h"
#include "trace/from_recording/symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The text is cut to the size of the result. */
void kc_probe_answer(kc_probe_result *f, kc_probe_verdict verdict, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    f->verdict = verdict;
    vsnprintf(f->text, sizeof f->text, fmt, args);
    va_end(args);
}

/* ---- what recording needs -------------------------------------------------------------------- */

/* Which clock stamps the events: a counter that is read without the kernel, or a system call. */
static void probe_clock(kc_probe_result *f)
{
    switch (kb_ticks_clock()) {
    case KB_TICKS_TSC:
        kc_probe_answer(f, KC_PROBE_OK, "invariant time-stamp counter, read without the kernel");
        return;
    case KB_TICKS_CNTVCT:
        kc_probe_answer(f, KC_PROBE_OK, "generic timer of the processor, read without the kernel");
        return;
    default:
        kc_probe_answer(
            f, KC_PROBE_NOTE,
            "no invariant time-stamp counter that the kernel trusts: CLOCK_MONOTONIC_RAW is "
            "used, each event costs more");
    }
}

/* Creates and removes a buffer of the default size, to report errors and the kind of memory. */
static void probe_buffer(kc_probe_result *f)
{
    char path[KS_PATH_BYTES];
    kf_pool pool;
    kineto_error err;
    if (ks_pool_file_create(KS_DEFAULT_BUFFER_BYTES, KS_DICTIONARY_BYTES, path, &pool, &err)) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "%.*s", (int)sizeof f->text - 1, err.message);
        return;
    }
    struct statvfs st;
    bool known = statvfs(path, &st) == 0;
    kb_os_unmap(pool.control, pool.bytes);
    unlink(path);
    *strrchr(path, '/') = 0;
    uint64_t free_bytes = known ? (uint64_t)st.f_bavail * st.f_frsize : 0;
    bool in_memory = strcmp(path, "/dev/shm") == 0;
    kc_probe_answer(f, in_memory ? KC_PROBE_OK : KC_PROBE_NOTE,
                    "the buffer of %u MiB fits into %.200s (%s free%s)",
                    KS_DEFAULT_BUFFER_BYTES >> 20, path, kb_bytes(free_bytes).s,
                    in_memory ? "" : "; /dev/shm is faster: it is memory");
}

/* /proc, with the lists of child processes. */
static void probe_processes(kc_probe_result *f)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/self/task/%u/children", kb_os_tid());
    if (access(path, R_OK) == 0)
        kc_probe_answer(f, KC_PROBE_OK, "child processes can be listed");
    else
        kc_probe_answer(f, KC_PROBE_NOTE,
                        "/proc has no lists of children: processes that cannot be recorded "
                        "will not be named");
    if (!kb_os_read_file("/proc/self/stat", text, sizeof text))
        kc_probe_answer(f, KC_PROBE_BROKEN, "/proc is not mounted");
}

/* ---- sources --------------------------------------------------------------------------------- */

/* Can this library of the installation be loaded? */
static void probe_library(kc_probe_result *f, const char *file)
{
    char path[PATH_MAX];
    if (!kc_find_plugin(file, path, sizeof path)) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "%s was not found next to the command or in %s%s", file,
                        CKINETO_PLUGINDIR,
                        kb_setting("CKINETO_PLUGIN_DIR") ? " (CKINETO_PLUGIN_DIR is set)" : "");
        return;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        kc_probe_answer(f, KC_PROBE_OK, "%.400s", path);
    else
        kc_probe_answer(f, KC_PROBE_BROKEN, "%.400s", dlerror());
}

/* The OpenCL layer can be loaded; `opencl` shows whether the loader starts it. */
static void probe_opencl_layer(kc_probe_result *f)
{
    char path[PATH_MAX];
    if (!KC_BUILT_WITH_OPENCL && !kc_find_plugin("ckineto-opencl.so", path, sizeof path))
        kc_probe_answer(f, KC_PROBE_ABSENT,
                        "ckineto was built without OpenCL (CKINETO_OPENCL=OFF, or without opencl-headers)");
    else
        probe_library(f, "ckineto-opencl.so");
}

/* The plug-ins that recording would load. */
static void probe_plugins(kc_probe_result *f)
{
    kc_plugins p = {0};
    kineto_error err;
    char names[240] = "", trouble[200] = "", installed[PATH_MAX] = "";
    size_t loaded = 0, failed = 0, used = 0;
    kineto_status status = kc_plugins_add_default(&p, &err);
    if (status == KINETO_OK)
        status = kc_plugins_probe(&p, KC_PLUGIN_TIMEOUT_MS, &err);
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
        kc_probe_answer(f, KC_PROBE_BROKEN, "%.*s", (int)sizeof f->text - 1, err.message);
    else if (failed)
        kc_probe_answer(f, KC_PROBE_BROKEN,
                        "%zu loaded%s%s, %zu cannot be loaded: %s; see 'ckineto plugin list'",
                        loaded, loaded ? ": " : "", names, failed, trouble);
    else if (loaded)
        kc_probe_answer(f, KC_PROBE_OK, "%zu: %s; see 'ckineto plugin list'", loaded, names);
    else
        kc_probe_answer(f, KC_PROBE_ABSENT, "none in KINETO_PLUGIN_LIB_DIR_PATH%s and %.300s",
                        kb_setting("KINETO_PLUGIN_LIB_DIR_PATH") ? "" : " (not set)", installed);
}

/* Needed for --preload and for plug-ins. */
static void probe_preload(kc_probe_result *f)
{
    char path[PATH_MAX];
    if (kc_find_rt(path, sizeof path))
        kc_probe_answer(f, KC_PROBE_OK, "%.400s", path);
    else
        kc_probe_answer(f, KC_PROBE_NOTE,
                        "libckineto-rt.so was not found: --preload and plug-ins will not work");
}

/* A library that `record` preloads for some programs. @param without  what does not work then. */
static void probe_preloaded(kc_probe_result *f, const char *file, const char *when, const char *without)
{
    char path[PATH_MAX];
    if (kc_find_plugin(file, path, sizeof path))
        kc_probe_answer(f, KC_PROBE_OK, "%.400s%s", path, when);
    else
        kc_probe_answer(f, KC_PROBE_NOTE, "%s was not found: %s", file, without);
}

static void probe_memory_hook(kc_probe_result *f)
{
    probe_preloaded(f, "libckineto-memory.so", "", "--memory will not work");
}

static void probe_mpi_hook(kc_probe_result *f)
{
    probe_preloaded(f, "libckineto-mpi.so", "; loaded by 'ckineto record --mpi on|auto'",
                    "MPI programs are not recorded");
}

static void probe_timers(kc_probe_result *f)
{
    probe_preloaded(f, "libckineto-timers.so", "", "--cpu-timers will not work");
}

static void probe_waits_hook(kc_probe_result *f)
{
    probe_preloaded(f, "libckineto-waits.so", "", "--waits will not work");
}

/* The functions of OpenCL that list platforms and devices, with the types of its ABI. */
#define CL_PLATFORM_NAME   0x0902u
#define CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)
typedef struct opencl_api {
    int32_t (*platforms)(uint32_t, void **, uint32_t *);
    int32_t (*platform_info)(void *, uint32_t, size_t, void *, size_t *);
    int32_t (*devices)(void *, uint64_t, uint32_t, void **, uint32_t *);
    const char *path; /* of the loader */
} opencl_api;

/* memcpy, because ISO C does not convert object pointers to function pointers. */
static bool load_function(void *library, const char *name, void *function_pointer)
{
    void *symbol = dlsym(library, name);
    memcpy(function_pointer, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* What became of our OpenCL layer: no plug-in, not opened by the loader, opened and not
 * started, started. Indexes of layer_texts. */
typedef enum layer_state { LAYER_MISSING, LAYER_IGNORED, LAYER_REFUSED, LAYER_STARTED } layer_state;

/* The layer itself records whether a loader has started it. Its presence proves nothing: it stays
 * in memory after a loader that needs other entry points has closed it. */
static layer_state probe_layer_state(const char *plugin)
{
    void *library = plugin[0] ? dlopen(plugin, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*started)(void);
    if (!plugin[0])
        return LAYER_MISSING;
    if (!library || !load_function(library, "ckineto_opencl_started", &started))
        return LAYER_IGNORED;
    return started() ? LAYER_STARTED : LAYER_REFUSED;
}

static const char *const layer_texts[] = {
    "whether it starts layers is unknown without the plug-in",
    "it does not read OPENCL_LAYERS: programs that use it are not recorded",
    "it opens ckineto's layer and does not start it: programs that use it are not recorded",
    "it starts ckineto's layer",
};

/* The file of the loader. */
static const char *find_path_of_function(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "libOpenCL.so.1";
}

/* Platforms, devices, and whether the loader starts our layer: without that nothing is
 * recorded, which is a broken probe. */
static void report_opencl_platforms(kc_probe_result *f, const opencl_api *cl, const char *plugin)
{
    void *platforms[16];
    uint32_t count = 0, devices = 0;
    char names[256] = "";
    int32_t status = cl->platforms(KB_COUNT(platforms), platforms, &count);
    layer_state layer = probe_layer_state(plugin);
    bool useless = layer == LAYER_IGNORED || layer == LAYER_REFUSED;
    if (status != 0 || count == 0) {
        kc_probe_answer(
            f, KC_PROBE_ABSENT,
            "no platform (status %d): install a driver, pocl-opencl-icd for instance; loader "
            "%.200s: %s",
            status, cl->path, layer_texts[layer]);
        return;
    }
    for (uint32_t i = 0; i < KB_MIN(count, KB_COUNT(platforms)); i++) {
        char name[96] = "?";
        uint32_t n = 0;
        size_t used = strlen(names);
        (void)cl->platform_info(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (cl->devices(platforms[i], CL_DEVICE_TYPE_ALL, 0, NULL, &n) == 0)
            devices += n;
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    kc_probe_answer(f,
                    useless   ? KC_PROBE_BROKEN
                    : devices ? KC_PROBE_OK
                              : KC_PROBE_ABSENT,
                    "%u %s (%s), %u %s; loader %.200s: %s", count,
                    kc_noun(count, "platform", "platforms"), names, devices,
                    kc_noun(devices, "device", "devices"), cl->path, layer_texts[layer]);
}

/* Loads the OpenCL loader with our layer in its environment, as a recorded program would. Runs
 * in a child, whose environment may be changed. */
static void probe_opencl(kc_probe_result *f)
{
    opencl_api cl;
    char plugin[PATH_MAX] = "";
    if (kc_find_plugin("ckineto-opencl.so", plugin, sizeof plugin))
        setenv("OPENCL_LAYERS", plugin, 1);
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    if (!library) {
        kc_probe_answer(f, KC_PROBE_ABSENT, "no OpenCL loader: %.380s; install ocl-icd-libopencl1",
                        dlerror());
        return;
    }
    if (load_function(library, "clGetPlatformIDs", &cl.platforms) &&
        load_function(library, "clGetPlatformInfo", &cl.platform_info) &&
        load_function(library, "clGetDeviceIDs", &cl.devices)) {
        cl.path = find_path_of_function(dlsym(library, "clGetPlatformIDs"));
        report_opencl_platforms(f, &cl, plugin);
    } else {
        kc_probe_answer(f, KC_PROBE_BROKEN, "libOpenCL.so.1 lacks functions of OpenCL");
    }
}

/* Asks a plug-in of ours what it would find when a recording starts: its function returns an index of states.
 * @param found  the verdict where it found all: a note if the source has not been tested on hardware. */
static void ask_plugin(kc_probe_result *f, const char *file, const char *function, kc_probe_verdict found)
{
    const kc_probe_verdict states[] = {found, KC_PROBE_ABSENT, KC_PROBE_BROKEN, KC_PROBE_NOTE};
    char path[PATH_MAX], text[400] = "";
    int (*inspect)(char *, size_t);
    if (!kc_find_plugin(file, path, sizeof path)) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "%s was not found next to the command or in %s", file, CKINETO_PLUGINDIR);
        return;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library || !load_function(library, function, &inspect)) {
        kc_probe_answer(f, KC_PROBE_BROKEN, "%.390s", dlerror());
        return;
    }
    int state = inspect(text, sizeof text);
    kc_probe_answer(f, state >= 0 && state < (int)KB_COUNT(states) ? states[state] : KC_PROBE_BROKEN, "%s", text);
}

static void probe_cuda(kc_probe_result *f) { ask_plugin(f, "ckineto-cuda.so", "ckineto_cuda_look", KC_PROBE_OK); }
static void probe_nccl(kc_probe_result *f)
{
    ask_plugin(f, "libnccl-profiler-ckineto.so", "ckineto_nccl_look", KC_PROBE_OK);
}
static void probe_rocm(kc_probe_result *f) { ask_plugin(f, "ckineto-rocm.so", "ckineto_rocm_look", KC_PROBE_NOTE); }
static void probe_xpu(kc_probe_result *f) { ask_plugin(f, "ckineto-xpu.so", "ckineto_xpu_look", KC_PROBE_NOTE); }

static void probe_nvtx(kc_probe_result *f) { probe_library(f, "ckineto-nvtx.so"); }
static void probe_itt(kc_probe_result *f) { probe_library(f, "ckineto-itt.so"); }
static void probe_roctx(kc_probe_result *f) { probe_library(f, "libckineto-roctx.so"); }

/* The tool for LLVM's and Intel's runtimes, and the library for GCC's. */
static void probe_openmp(kc_probe_result *f)
{
    char tool[PATH_MAX], gomp[PATH_MAX];
    const char *mode = getenv("OMP_TOOL"), *others = getenv("OMP_TOOL_LIBRARIES");
    bool has_tool = kc_find_plugin("ckineto-openmp.so", tool, sizeof tool);
    if (!has_tool || !kc_find_plugin("libckineto-gomp.so", gomp, sizeof gomp))
        kc_probe_answer(f, KC_PROBE_NOTE, "%s was not found: %s",
                        has_tool ? "libckineto-gomp.so" : "ckineto-openmp.so",
                        has_tool ? "--openmp will not work" : "OpenMP is not recorded");
    else if (mode && strcmp(mode, "disabled") == 0)
        kc_probe_answer(f, KC_PROBE_NOTE,
                        "OMP_TOOL=disabled: LLVM's and Intel's runtimes are not recorded");
    else if (others && *others)
        kc_probe_answer(f, KC_PROBE_NOTE, "OMP_TOOL_LIBRARIES names %.300s, which comes first",
                        others);
    else
        kc_probe_answer(f, KC_PROBE_OK, "LLVM's and Intel's runtimes; GCC's with --openmp");
}

/* The source that watches programs from outside. */
static void probe_threads(kc_probe_result *f)
{
    kineto_error err;
    bool sees_kernel = false;
    if (ku_source_probe(&sees_kernel, &err))
        kc_probe_answer(f, KC_PROBE_ABSENT,
                        "no sampled stacks without --cpu-timers (timers in the program); states of "
                        "threads, if at all, from counters: %.400s",
                        err.message);
    else
        kc_probe_answer(f, KC_PROBE_OK, "states of threads and sampled stacks, %s%s",
                        sees_kernel ? "also inside the kernel"
                                    : "of the program's own code; inside the kernel with CAP_PERFMON",
                        kt_dwarf_is_read() ? "" : "; without inlined functions (built without libdw)");
}

/* Counters that operators can carry, see docs/reference/stacks.md. */
static void probe_perf_events(kc_probe_result *f)
{
    static const char *const names[] = {"cycles", "instructions", "task-clock", "page-faults"};
    kr_perf_plan plan;
    kineto_error absent = {0}, err;
    if (kr_perf_prepare(names, KB_COUNT(names), &plan, &absent, &err))
        kc_probe_answer(f, KC_PROBE_ABSENT, "%.400s", err.message);
    else if (absent.message[0])
        kc_probe_answer(f, KC_PROBE_NOTE, "%.400s", absent.message);
    else
        kc_probe_answer(f, KC_PROBE_OK,
                        "operators can have counters of the processor and of the kernel");
}

/* The first python3 in the PATH reports on this subject in one line: "ok: …", "absent: …" or "note:
 * …". */
static void ask_python(kc_probe_result *f, const char *subject)
{
    static const struct {
        const char *word;
        kc_probe_verdict verdict;
    } words[] = {{"ok: ", KC_PROBE_OK}, {"absent: ", KC_PROBE_ABSENT}, {"note: ", KC_PROBE_NOTE}};
    char path[PATH_MAX], command[2 * PATH_MAX], line[400] = "";
    if (!kc_find_plugin("python/ckineto_attach/doctor.py", path, sizeof path) ||
        strchr(path, '\'')) {
        kc_probe_answer(f, KC_PROBE_ABSENT,
                        "the Python package of ckineto is not installed next to its plug-ins");
        return;
    }
    snprintf(command, sizeof command, "exec python3 '%s' %s 2>/dev/null", path, subject);
    FILE *answer = popen(command, "re");
    bool answered = answer && fgets(line, sizeof line, answer);
    if (answer)
        pclose(answer);
    line[strcspn(line, "\n")] = 0;
    for (size_t i = 0; answered && i < KB_COUNT(words); i++) {
        size_t size = strlen(words[i].word);
        if (strncmp(line, words[i].word, size) == 0) {
            kc_probe_answer(f, words[i].verdict, "%s", line + size);
            return;
        }
    }
    kc_probe_answer(f, KC_PROBE_ABSENT, "no python3 in the PATH");
}

static void probe_python(kc_probe_result *f) { ask_python(f, "functions"); }
static void probe_pytorch(kc_probe_result *f) { ask_python(f, "pytorch"); }

const kc_probe kc_probes[] = {
    {"clock", probe_clock, true, false},
    {"buffer", probe_buffer, true, false},
    {"processes", probe_processes, true, false},
    {"threads", probe_threads, false, false},
    {"opencl plug-in", probe_opencl_layer, false, true},
    {"opencl", probe_opencl, false, true},
    {"vulkan", kc_probe_vulkan, false, true},
    {"plug-ins", probe_plugins, false, false},
    {"preload", probe_preload, false, false},
    {"memory hook", probe_memory_hook, false, false},
    {"mpi", probe_mpi_hook, false, false},
    {"waits hook", probe_waits_hook, false, false},
    {"cpu timers", probe_timers, false, false},
    {"cuda", probe_cuda, false, true},
    {"nccl", probe_nccl, false, true},
    {"rocm", probe_rocm, false, true},
    {"xpu", probe_xpu, false, true},
    {"nvtx", probe_nvtx, false, false},
    {"itt", probe_itt, false, false},
    {"roctx", probe_roctx, false, false},
    {"openmp", probe_openmp, false, false},
    {"perf events", probe_perf_events, false, false},
    {"python", probe_python, false, false},
    {"pytorch", probe_pytorch, false, true},
};
const size_t kc_probe_count = KB_COUNT(kc_probes);

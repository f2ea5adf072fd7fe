/* How recording gets into a program: environment variables that tool interfaces of libraries, the
 * dynamic linker and Python read when the program starts. */
#ifndef KC_ENVIRONMENT_H
#define KC_ENVIRONMENT_H

#include "base/base.h"

#ifdef KC_WITH_OPENCL
#define KC_BUILT_WITH_OPENCL true
#else
#define KC_BUILT_WITH_OPENCL false
#endif

#ifdef KC_WITH_VULKAN
#define KC_BUILT_WITH_VULKAN true
#else
#define KC_BUILT_WITH_VULKAN false
#endif
#define KC_VULKAN_PLUGIN "ckineto-vulkan.so"
#define KC_VULKAN_LAYER  "VK_LAYER_CKINETO_record"

/* How a variable names our library. */
typedef enum kc_entry_shape {
    KC_ENTRY_LIST, /* a list: ours is appended */
    KC_ENTRY_SLOT  /* one value: another tool that has set it keeps it */
} kc_entry_shape;

typedef struct kc_interface {
    const char *source, *variable, *plugin;
    kc_entry_shape shape;
    char separator; /* of a list */
    bool is_built;  /* else its plug-in is not missed, and used where it is found */
} kc_interface;
extern const kc_interface kc_interfaces[];
extern const size_t kc_interface_count;

typedef struct kc_entry_options {
    const char *pool_path, *log_file;
    /* < 0: leave it as it is */
    int log_level;
    bool preload;
    /* import our Python package: PyTorch's operators, modules */
    bool python;
    /* record Python functions, too */
    bool python_functions;
    /* of these packages and modules; NULL: of all */
    const char *python_only;
    /* the allocator hook */
    bool memory;
    /* mean bytes between its samples */
    uint64_t memory_bytes;
    /* ROCTX also of programs that open its library by name */
    bool roctx;
    /* functions of GCC's OpenMP runtime */
    bool openmp;
    /* interpose MPI; failing to do so is an error if the user wants it */
    bool mpi, mpi_required;
    /* the hook for calls in which threads wait */
    bool waits;
    /* shorter ones are only counted */
    uint64_t waits_us;
    /* the memory for samples of timers; NULL: no timers */
    const char *timers_path;
    /* Plug-ins that the program loads: lines "path" or "path,rev=…"; "": none. */
    const char *plugins;
    /* the user named them: failing to load them is an error */
    bool plugins_required;
} kc_entry_options;

/** Is it a list of dotted names of Python's modules, separated by commas? */
bool kc_is_module_list(const char *list);

#define KC_NO_PYTHON "ckineto's Python package" /* source of a ledger line */
/** Make Vulkan loaders insert our layer, whose manifest is in this folder. */
kineto_status kc_add_vulkan_layer(const char *folder, kineto_error *err);
/** Called for each source that cannot enter the program. */
typedef void kc_entry_note(void *context, const char *source, const char *reason,
                           const char *detail);
/** Set the environment that the program will inherit. Values of the user are never lost. */
kineto_status kc_enter(const kc_entry_options *options, kc_entry_note *note, void *context,
                       kineto_error *err);
#endif

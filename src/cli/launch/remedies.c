/* One row for each library that tells what a program is: what records it, and what that needs. */
#include "cli/launch/remedies.h"

#define K(kind) KINETO_KIND_BIT(KINETO_KIND_##kind)
#define CALLS   (K(RUNTIME) | K(DRIVER) | K(CONCURRENT_KERNEL))

typedef struct remedy {
    const char *file;  /* how its name begins */
    uint64_t kinds;    /* if one of them was recorded, there is nothing to do */
    const char *text;
} remedy;

#define PYTHON_OPTIONS                                                                             \
    "--python records its functions; samples of the CPU name them with --python-perf (3.12 and newer)"

static const remedy remedies[] = {
    {"libtorch_cpu.so", K(CPU_OP),
     "PyTorch was loaded, and none of its operators were recorded: see docs/how-to/pytorch.md"},
    {"python3", K(PYTHON_FUNCTION), "it runs Python: " PYTHON_OPTIONS},
    {"libpython3", K(PYTHON_FUNCTION), "it contains Python: " PYTHON_OPTIONS},
    {"libgomp", K(OPENMP), "it uses OpenMP with GCC's library: --openmp records regions and barriers"},
    {"libomp", K(OPENMP), "it uses OpenMP with LLVM's library: see 'ckineto doctor', line openmp"},
    {"libiomp5", K(OPENMP), "it uses OpenMP with Intel's library: see 'ckineto doctor', line openmp"},
    {"libmpi", K(MPI) | K(COLLECTIVE_COMM), "it uses MPI: --mpi on records its calls"},
    {"libOpenCL.so", CALLS, "it uses OpenCL, and the loader has not loaded ckineto's layer: see "
                            "'ckineto doctor', line opencl"},
    {"libcuda.so", CALLS, "it uses CUDA, and nothing of it was recorded: see 'ckineto doctor', line cuda"},
    {"libamdhip64.so", CALLS, "it uses ROCm, for which this version has no source"},
    {"libze_loader.so", CALLS, "it uses Level Zero, for which this version has no source"},
    {"libvulkan.so", CALLS, "it uses Vulkan, for which this version has no source"},
};
_Static_assert(KB_COUNT(remedies) <= KC_REMEDIES, "a mask holds all");

uint32_t kc_remedies_find(kc_has_file *has_file, const void *context)
{
    uint32_t found = 0;
    for (size_t i = 0; i < KB_COUNT(remedies); i++)
        found |= has_file(context, remedies[i].file) ? UINT32_C(1) << i : 0;
    return found;
}

uint32_t kc_remedies_print(uint32_t found, uint64_t kinds, FILE *out)
{
    uint32_t printed = 0;
    for (size_t i = 0; i < KB_COUNT(remedies); i++) {
        const remedy *r = &remedies[i];
        if (!(found & UINT32_C(1) << i) || kinds & r->kinds)
            continue;
        fprintf(out, "  - %s\n", r->text);
        kinds |= r->kinds; /* said once */
        printed++;
    }
    return printed;
}

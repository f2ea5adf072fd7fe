/* One row for each library that tells what a program is: what records it, and what that needs. */
#include "cli/launch/remedies.h"
#include "cli/print.h"

#define K(kind) KINETO_KIND_BIT(KINETO_KIND_##kind)
#define CALLS   (K(RUNTIME) | K(DRIVER) | K(CONCURRENT_KERNEL))

typedef struct remedy {
    const char *file;  /* how its name begins */
    uint64_t kinds;    /* if one of them was recorded, there is nothing to do */
    const char *option; /* of 'ckineto record' that records it; NULL: none does */
    const char *text;
} remedy;

static const remedy remedies[] = {
    {"libtorch_cpu.so", K(CPU_OP), NULL,
     "PyTorch was loaded, and none of its operators were recorded: see docs/how-to/pytorch.md"},
    {"python3", K(PYTHON_FUNCTION), "--python",
     "it runs Python: --python records its functions, --python-perf names them in samples (3.12 and newer)"},
    {"libpython3", K(PYTHON_FUNCTION), "--python",
     "it contains Python: --python records its functions, --python-perf names them in samples (3.12 and newer)"},
    {"libgomp", K(OPENMP), "--openmp", "it uses OpenMP with GCC's library: --openmp records regions and barriers"},
    {"libomp", K(OPENMP), NULL, "it uses OpenMP with LLVM's library: see 'ckineto doctor', line openmp"},
    {"libiomp5", K(OPENMP), NULL, "it uses OpenMP with Intel's library: see 'ckineto doctor', line openmp"},
    {"libmpi", K(MPI) | K(COLLECTIVE_COMM), "--mpi on", "it uses MPI: --mpi on records its calls"},
    {"libOpenCL.so", CALLS, NULL,
     "it uses OpenCL, and the loader has not loaded ckineto's layer: see 'ckineto doctor', line opencl"},
    {"libcuda.so", CALLS, NULL, "it uses CUDA, and nothing of it was recorded: see 'ckineto doctor', line cuda"},
    {"libamdhip64.so", CALLS, NULL, "it uses ROCm, and nothing of it was recorded: see 'ckineto doctor', line rocm"},
    {"libze_loader.so", CALLS, NULL, "it uses Level Zero, and nothing of it was recorded: see 'ckineto doctor', line xpu"},
    {"libvulkan.so", CALLS, NULL,
     "it uses Vulkan, and nothing of it was recorded: see 'ckineto doctor', line vulkan"},
};
_Static_assert(KB_COUNT(remedies) <= KC_REMEDIES, "a mask holds all");

uint32_t kc_remedies_find(kc_has_file *has_file, const void *context)
{
    uint32_t found = 0;
    for (size_t i = 0; i < KB_COUNT(remedies); i++)
        found |= has_file(context, remedies[i].file) ? UINT32_C(1) << i : 0;
    return found;
}

/* Does it apply? Kinds that are said already are added to `kinds`, so that each is said once. */
static bool take_remedy(uint32_t found, size_t i, uint64_t *kinds)
{
    if (!(found & UINT32_C(1) << i) || *kinds & remedies[i].kinds)
        return false;
    *kinds |= remedies[i].kinds;
    return true;
}

void kc_remedies_print(uint32_t found, uint64_t kinds, size_t width, FILE *out)
{
    for (size_t i = 0; i < KB_COUNT(remedies); i++)
        if (take_remedy(found, i, &kinds))
            kc_put_wrapped(out, width, "  - ", "    ", 0, kb_string(remedies[i].text));
}

void kc_remedies_options(uint32_t found, uint64_t kinds, char *text, size_t size)
{
    size_t at = 0;
    *text = '\0';
    for (size_t i = 0; i < KB_COUNT(remedies) && at < size; i++)
        if (take_remedy(found, i, &kinds) && remedies[i].option)
            at += (size_t)kb_snprintf(text + at, size - at, " %s", remedies[i].option);
}

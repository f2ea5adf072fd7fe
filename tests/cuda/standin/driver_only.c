/* A program that uses CUDA's driver alone, and links nothing of CUDA. */
#include <dlfcn.h>
#include <stddef.h>

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
    return init ? init(0) : 2;
}

/* Included before everything (-include) where a bridge to PyTorch is compiled for a wheel: these functions are
 * wanted as glibc 2.28 has them, not in the version that they have since they moved into libc.so. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define OLDEST_GETNAME "GLIBC_2.12"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define OLDEST_GETNAME "GLIBC_2.17"
#else
#error "unknown processor: add the version that its first glibc had"
#endif
__asm__(".symver dlopen, dlopen@" OLDEST);
__asm__(".symver dlsym, dlsym@" OLDEST);
__asm__(".symver dlerror, dlerror@" OLDEST);
__asm__(".symver dladdr, dladdr@" OLDEST);
__asm__(".symver pthread_getname_np, pthread_getname_np@" OLDEST_GETNAME);

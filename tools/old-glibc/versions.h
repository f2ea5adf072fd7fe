/* Included before everything (-include) where a bridge to PyTorch is compiled for a wheel: these functions are
 * wanted as glibc 2.28 has them, not in the version that they have since they moved into libc.so. */
#if defined(__x86_64__)
#define OLDEST "GLIBC_2.2.5"
#define OLDEST_GETNAME "GLIBC_2.12"
#define OLDEST_TIMEDJOIN "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define OLDEST "GLIBC_2.17"
#define OLDEST_GETNAME "GLIBC_2.17"
#define OLDEST_TIMEDJOIN "GLIBC_2.17"
#else
#error "unknown processor: add the version that its first glibc had"
#endif
__asm__(".symver dlopen, dlopen@" OLDEST);
__asm__(".symver dlsym, dlsym@" OLDEST);
__asm__(".symver dlerror, dlerror@" OLDEST);
__asm__(".symver dladdr, dladdr@" OLDEST);
__asm__(".symver dlclose, dlclose@" OLDEST);
__asm__(".symver pthread_create, pthread_create@" OLDEST);
__asm__(".symver pthread_join, pthread_join@" OLDEST);
__asm__(".symver pthread_once, pthread_once@" OLDEST);
__asm__(".symver pthread_setname_np, pthread_setname_np@" OLDEST_GETNAME);
__asm__(".symver pthread_timedjoin_np, pthread_timedjoin_np@" OLDEST_TIMEDJOIN);
__asm__(".symver pthread_getname_np, pthread_getname_np@" OLDEST_GETNAME);

/* A program with ROCTX, linked with its library, or opening it by the name that is the argument. Prints
 * what the functions returned. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef CLIENT_LINKED
void roctxMarkA(const char *message);
int roctxRangePushA(const char *message);
int roctxRangePop(void);
uint64_t roctxRangeStartA(const char *message);
void roctxRangeStop(uint64_t id);
int roctxNameOsThread(const char *name);
#define FUNCTION(name) name
static int open_library(const char *name) { return name == NULL || *name; }
#else
static void (*p_roctxMarkA)(const char *);
static int (*p_roctxRangePushA)(const char *);
static int (*p_roctxRangePop)(void);
static uint64_t (*p_roctxRangeStartA)(const char *);
static void (*p_roctxRangeStop)(uint64_t);
static int (*p_roctxNameOsThread)(const char *);
#define FUNCTION(name) p_##name

static int open_library(const char *name)
{
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
#define GET(function)                                                                              \
    do {                                                                                           \
        void *symbol = library ? dlsym(library, #function) : NULL;                                 \
        memcpy(&p_##function, &symbol, sizeof symbol);                                             \
        if (!symbol)                                                                               \
            return 0;                                                                              \
    } while (0)
    GET(roctxMarkA);
    GET(roctxRangePushA);
    GET(roctxRangePop);
    GET(roctxRangeStartA);
    GET(roctxRangeStop);
    GET(roctxNameOsThread);
    return 1;
}
#endif

static void *stop_range(void *id)
{
    (void)FUNCTION(roctxNameOsThread)("stopper");
    (void)FUNCTION(roctxRangePushA)("on a thread");
    (void)FUNCTION(roctxRangePop)();
    FUNCTION(roctxRangeStop)(*(uint64_t *)id);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (!open_library(argc > 1 ? argv[1] : NULL)) {
        printf("no library\n");
        return 3;
    }
    int outer = FUNCTION(roctxRangePushA)("outer");
    for (int i = 0; i < 100; i++) {
        (void)FUNCTION(roctxRangePushA)("inner");
        (void)FUNCTION(roctxRangePop)();
    }
    FUNCTION(roctxMarkA)("mark");
    uint64_t id = FUNCTION(roctxRangeStartA)("from thread to thread");
    if (pthread_create(&thread, NULL, stop_range, &id) || pthread_join(thread, NULL))
        return 4;
    int last = FUNCTION(roctxRangePop)(), name = FUNCTION(roctxNameOsThread)("main");
    printf("results %d %d %llu %d\n", outer, last, (unsigned long long)id, name);
    return 0;
}

/* A program that speaks NVTX by our own declarations and loads the tool as a header would: what
 * runs under the recorder where there are no headers. */
#include "emitter.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 5000 };

static emitter_initialize initialize;
static emitter_extend extend;

static void *entry_of(void *library, const char *name) { return dlsym(library, name); }

static int load(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
    void *first = library ? entry_of(library, "InitializeInjectionNvtx2") : NULL;
    void *second = library ? entry_of(library, "InitializeInjectionNvtxExtension") : NULL;
    memcpy(&initialize, &first, sizeof initialize);
    memcpy(&extend, &second, sizeof extend);
    return initialize && extend;
}

static void *body(void *argument)
{
    emitter e;
    char name[32];
    if (!emitter_init(&e, initialize) || !emitter_extensions(&e, extend))
        return NULL;
    snprintf(name, sizeof name, "thread %d", *(int *)argument);
    cn_handle domain = domain_create(&e, name);
    cn_attributes a = message("in a domain");
    for (int i = 0; i < COUNT; i++) {
        push(&e, "work");
        a.payload_type = CN_PAYLOAD_INT32;
        a.payload.i32 = i;
        domain_push(&e, domain, &a);
        domain_pop(&e, domain);
        pop(&e);
    }
    pop(&e); /* one too many */
    return argument;
}

static void open_at_exit(void)
{
    emitter e;
    if (!emitter_init(&e, initialize))
        return;
    push(&e, "at exit");
    mark(&e, "last words");
}

int main(void)
{
    int numbers[] = {1, 2};
    pthread_t threads[2];
    if (!load())
        return 2;
    atexit(open_at_exit);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, body, &numbers[i]))
            return 3;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        int third = 3;
        _exit(body(&third) ? 0 : 4);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}

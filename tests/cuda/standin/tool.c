/* A tool as small as can be, to test the stand-in alone: tool KIND,KIND,… WAY [N]
 * Loads libcupti as tools do, and prints each record in a line of layouts' words. */
#include "client.h"
#include "standin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *library;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long filled, empty;
static size_t buffer_bytes = 1 << 16;
static uint32_t version;

static int32_t call(const char *name, uintptr_t a, uintptr_t b, uintptr_t c)
{
    int32_t (*f)(uintptr_t, uintptr_t, uintptr_t);
    void *symbol = dlsym(library, name);
    if (!symbol) {
        printf("missing %s\n", name);
        return -1;
    }
    memcpy(&f, &symbol, sizeof f);
    int32_t result = f(a, b, c);
    if (result && result != 12)
        printf("result %s %d\n", name, result);
    return result;
}

static void request(uint8_t **buffer, size_t *size, size_t *max_records)
{
    *max_records = 0;
    *size = buffer_bytes;
    *buffer = getenv("TOOL_NO_BUFFERS") ? NULL : aligned_alloc(8, buffer_bytes);
}

static void print_field(const uint8_t *record, const si_layout *layout, const si_field *f)
{
    uint64_t value = si_get(record, layout, f->name);
    if (f->is_text)
        printf(" %s=%s", f->name, value ? (const char *)(uintptr_t)value : "null");
    else
        printf(" %s=%llu", f->name, (unsigned long long)value);
}

static void print_record(const uint8_t *record)
{
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    const si_layout *layout = si_layout_for(kind, version);
    printf("record %s", layout ? layout->name : "?");
    if (!layout)
        printf(" kind=%u", kind);
    for (uint32_t i = 0; layout && i < layout->field_count; i++)
        print_field(record, layout, &layout->fields[i]);
    putchar('\n');
}

static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    uint8_t *record = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    filled++;
    empty += valid == 0;
    while (call("cuptiActivityGetNextRecord", (uintptr_t)buffer, valid, (uintptr_t)&record) == 0)
        print_record(record);
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static uint64_t now(void) { return 3 * si_now_ns() + 17; }

static int switch_on(char *kinds)
{
    int32_t result =
        call("cuptiActivityRegisterCallbacks", (uintptr_t)request, (uintptr_t)complete, 0);
    uint8_t on = 1;
    size_t size = 1;
    call("cuptiGetVersion", (uintptr_t)&version, 0, 0);
    call("cuptiSetThreadIdType", 1, 0, 0);
    if (getenv("TOOL_PER_THREAD"))
        call("cuptiActivitySetAttribute", 9, (uintptr_t)&size, (uintptr_t)&on);
    call("cuptiActivityRegisterTimestampCallback", (uintptr_t)now, 0, 0);
    for (char *kind = strtok(kinds, ","); kind; kind = strtok(NULL, ","))
        result |= call("cuptiActivityEnable", (uintptr_t)atoi(kind), 0, 0);
    return result;
}

int main(int argc, char **argv)
{
    size_t dropped = 0;
    const char *bytes = getenv("TOOL_BUFFER_BYTES"), *name = getenv("TOOL_CUPTI");
    buffer_bytes = bytes ? (size_t)atol(bytes) : buffer_bytes;
    library = dlopen(name ? name : "libcupti.so.12", RTLD_NOW);
    if (!library || argc < 3)
        return puts("no library"), 77;
    switch_on(argv[1]);
    uint64_t begin = now();
    call("cuptiActivityPushExternalCorrelationId", 3, 77, 0);
    int status = client_run(argc - 2, argv + 2);
    call("cuptiActivityPopExternalCorrelationId", 3, 0, 0);
    call("cuptiActivityFlushAll", 1, 0, 0);
    call("cuptiActivityGetNumDroppedRecords", 0, 0, (uintptr_t)&dropped);
    pthread_mutex_lock(&lock);
    printf("begin %llu end %llu\n", (unsigned long long)begin, (unsigned long long)now());
    printf("buffers %lu empty %lu dropped %zu version %u\n", filled, empty, dropped, version);
    printf("sum %lu\n", client_sum);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    return status;
}

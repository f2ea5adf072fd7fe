/* A program with NVIDIA's own header, and libraries that have copies of their own: run under the
 * recorder, see test_record.py. Built as the program and, with CLIENT_LIBRARY, as the library. */
#include <nvtx3/nvToolsExt.h>
#ifdef CLIENT_PAYLOADS
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtMem.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef CLIENT_LIBRARY

__attribute__((visibility("default"))) void client_library(const char *name);
void client_library(const char *name)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA(name);
    nvtxEventAttributes_t a = {0};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = nvtxDomainRegisterStringA(domain, "library call");
    nvtxDomainRangePushEx(domain, &a);
    nvtxRangePushA("inside a library");
    nvtxRangePop();
    nvtxDomainRangePop(domain);
}

#else

static nvtxRangeId_t begun;

static void *on_a_thread(void *argument)
{
    (void)argument;
    nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "worker");
    for (int i = 0; i < 100; i++) {
        nvtxRangePushA("on a thread");
        nvtxRangePop();
    }
    nvtxRangeEnd(begun);
    return NULL;
}

static void attributes(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateW(L"B\u00fccher");
    nvtxDomainNameCategoryA(domain, 7, "read");
    nvtxEventAttributes_t a = {0};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.category = 7;
    a.colorType = NVTX_COLOR_ARGB;
    a.color = 0x8000ff00;
    a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    a.payload.llValue = -77;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "with attributes";
    nvtxDomainRangePushEx(domain, &a);
    a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
    a.payload.fValue = 0.25f;
    nvtxDomainMarkEx(domain, &a);
    nvtxDomainRangePop(domain);
    nvtxDomainDestroy(domain);
}

static void plain(void)
{
    pthread_t thread;
    nvtxRangePushA("outer");
    nvtxRangePushW(L"wide \u2713");
    nvtxMarkA("moment");
    nvtxRangePop();
    begun = nvtxRangeStartA("from thread to thread");
    pthread_create(&thread, NULL, on_a_thread, NULL);
    pthread_join(thread, NULL);
    nvtxRangePop();
    nvtxRangePop(); /* one too many */
}

#ifdef CLIENT_PAYLOADS
typedef struct sample {
    uint32_t size;
    double share;
    char text[12];
} sample;

static void payloads(void)
{
    static const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "size", NULL, 0, offsetof(sample, size), NULL, NULL},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "share", NULL, 0, offsetof(sample, share), NULL, NULL},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "text", NULL, 12, offsetof(sample, text), NULL, NULL}};
    nvtxPayloadSchemaAttr_t schema = {0};
    schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                       NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
    schema.name = "sample";
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = 3;
    schema.payloadStaticSize = sizeof(sample);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
    uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);
    sample value = {4096, 0.5, "hello"};
    nvtxPayloadData_t data = {id, sizeof value, &value};
    nvtxEventAttributes_t a = {0};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "with a payload";
    NVTX_PAYLOAD_EVTATTR_SET_DATA(a, &data, id, &value, sizeof value)
    nvtxDomainRangePushEx(domain, &a);
    nvtxDomainRangePop(domain);
    printf("enabled %d\n", nvtxDomainIsEnabled(domain));
}

static void counters(void)
{
    nvtxSemanticsCounter_t semantics = {0};
    semantics.header.structSize = sizeof semantics;
    semantics.header.semanticId = NVTX_SEMANTIC_ID_COUNTERS_V1;
    semantics.header.version = NVTX_COUNTER_SEMANTIC_VERSION;
    semantics.unit = "jobs";
    nvtxCounterAttr_t a = {0};
    a.structSize = sizeof a;
    a.schemaId = NVTX_PAYLOAD_ENTRY_TYPE_INT64;
    a.name = "queue";
    a.semantics = &semantics.header;
    uint64_t id = nvtxCounterRegister(NULL, &a);
    for (int i = 0; i < 5; i++)
        nvtxCounterSampleInt64(NULL, id, i * i);
    nvtxMemHeapReset(NULL, NULL); /* no tool listens */
}
#endif

int main(int count, char **arguments)
{
    plain();
    attributes();
#ifdef CLIENT_PAYLOADS
    payloads();
    counters();
#endif
    for (int i = 1; i < count; i++) {
        void *library = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL);
        void (*call)(const char *) = NULL;
        void *symbol = library ? dlsym(library, "client_library") : NULL;
        memcpy(&call, &symbol, sizeof call);
        if (!call)
            return 2;
        char name[16];
        snprintf(name, sizeof name, "library %d", i);
        call(name);
        dlclose(library);
    }
    return 0;
}
#endif

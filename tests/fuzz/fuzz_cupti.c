/* Buffers of records as CUPTI hands them over, with anything in them: every record is read within
 * the buffer, and the host receives nothing unsound.
 *
 * The first byte chooses CUPTI's version, the second counts bytes of a kernel's name, which follow;
 * then records, as they lie in a buffer, in two buffers. */
#include "../helpers/cuda_records.h"

#include <stdlib.h>
#include <string.h>

/* The plug-in opens the vendor's library; here it is this file. */
cp_cupti_api cp_cupti;
static char name[256];
static uint32_t version;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
    if (!right)
        abort();
}

static volatile uint64_t sum;
static void touch(const void *data, size_t size)
{
    const unsigned char *at = data;
    while (size--)
        sum += *at++;
}

/* ---- CUPTI ----------------------------------------------------------------------------------------- */

/* The ninth device is one that the driver does not know. */
const cp_device *cp_device_of(uint32_t id) { return id < 9 ? &cuda_a100 : NULL; }

static cp_result next_record(uint8_t *buffer, size_t valid, uint8_t **record)
{
    if (cuda_next_record(version, buffer, valid, record) != CP_SUCCESS)
        return CP_ERROR_MAX_LIMIT_REACHED;
    size_t rest = valid - (size_t)(*record - buffer);
    uint32_t kind = cp_record_kind(*record);
    bool kernel = kind == CP_KIND_KERNEL || kind == CP_KIND_CONCURRENT_KERNEL;
    if (kernel && cp_record_bytes(kind, version) <= rest)
        put_kernel_name(*record, name); /* the only address in a record that is followed */
    return CP_SUCCESS;
}

static cp_result callback_name(uint32_t domain, uint32_t cbid, const char **text)
{
    *text = domain == CP_DOMAIN_RUNTIME ? "cudaLaunchKernel_v7000" : "cuLaunchKernel";
    return cbid < 1000 ? CP_SUCCESS : CP_ERROR_MAX_LIMIT_REACHED;
}

/* ---- host ------------------------------------------------------------------------------------------ */

static void check_values(const KinetoPlugin_Metadata *items, size_t count)
{
    check(count <= CP_MAX_VALUES);
    for (size_t i = 0; i < count; i++) {
        touch(items[i].pKey, strlen(items[i].pKey));
        if (items[i].valueType == KINETO_PLUGIN_VALUE_JSON ||
            items[i].valueType == KINETO_PLUGIN_VALUE_STRING)
            touch(items[i].pointer, items[i].count);
        if (items[i].valueType == KINETO_PLUGIN_VALUE_INTS)
            touch(items[i].pointer, items[i].count * sizeof(int64_t));
    }
}

static int emit(KinetoPlugin_TraceBuilderHandle *handle, const KinetoPlugin_Activity *a)
{
    (void)handle;
    check(a->pName != NULL);
    touch(a->pName, a->nameSize ? a->nameSize : strlen(a->pName));
    check_values(a->pMetadata, a->metadataCount);
    return a->event.startTimeUtcNs > a->event.endTimeUtcNs;
}

static int add_row(KinetoPlugin_TraceBuilderHandle *handle,
                   const KinetoPlugin_ProfileResourceInfo *info)
{
    (void)handle;
    touch(info->pName, strlen(info->pName));
    return 0;
}

static int add_device(KinetoPlugin_TraceBuilderHandle *handle,
                      const KinetoPlugin_ProfileDeviceInfo *info)
{
    (void)handle;
    touch(info->pName, strlen(info->pName));
    return 0;
}

static uint64_t host_ticks(KinetoPlugin_TraceBuilderHandle *handle)
{
    (void)handle;
    return 1;
}

static int add_counts(KinetoPlugin_TraceBuilderHandle *handle, const KinetoPlugin_Counts *counts)
{
    (void)handle;
    check(counts->dropped <= counts->requested);
    return 0;
}

static int register_set(KinetoPlugin_TraceBuilderHandle *handle, const KinetoPlugin_Metadata *items,
                        size_t count, uint32_t *set)
{
    static uint32_t sets;
    (void)handle;
    check_values(items, count);
    *set = ++sets;
    return sets % 64 == 0; /* now and then there is no room */
}

static int add_line(KinetoPlugin_TraceBuilderHandle *handle, const char *reason, uint64_t count,
                    int32_t is_loss, const char *detail)
{
    (void)handle;
    (void)count;
    check(is_loss == 0 || is_loss == 1);
    touch(reason, strlen(reason));
    if (detail)
        touch(detail, strlen(detail));
    return 0;
}

static const KinetoPlugin_TraceBuilder host = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addLedgerLine),
    .addDeviceInfo = add_device,
    .addResourceInfo = add_row,
    .emit = emit,
    .hostTicks = host_ticks,
    .addCounts = add_counts,
    .registerMetadataSet = register_set,
    .addLedgerLine = add_line};

/* ---- a session --------------------------------------------------------------------------------------- */

/* In memory of just this size, so that a sanitizer sees reads past it. */
static void read_buffer(cp_decoder *d, const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return;
    memcpy(copy, data, size);
    cp_decoder_read(d, copy, size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t versions[] = {13, 14, 15, 16,     17,     18,    21,
                                        22, 24, 26, 130000, 130100, 130202};
    cp_decoder d;
    if (size < 2 || size - 2 < data[1])
        return 0;
    size_t name_bytes = data[1], rest = size - 2 - name_bytes;
    const uint8_t *records = data + 2 + name_bytes;
    memset(name, 0, sizeof name);
    memcpy(name, data + 2, name_bytes);
    version = versions[data[0] % CP_COUNT(versions)];
    cp_cupti.next_record = next_record;
    cp_cupti.callback_name = callback_name;
    if (!cp_decoder_init(&d, &host, UINT64_MAX, version, KINETO_PLUGIN_CLOCK_UTC))
        return 0;
    read_buffer(&d, records, rest / 2);
    read_buffer(&d, records + rest / 2, rest - rest / 2);
    cp_decoder_finish(&d);
    cp_decoder_free(&d);
    return 0;
}

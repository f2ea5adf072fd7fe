/* Records of all kinds and versions as CUPTI writes them, and a host that stores what it
 * receives. */
#include "written.h"

cp_cupti_api cp_cupti;
static keeping_host host;
static const written *being_read;

/* ---- what the decoder asks -------------------------------------------------------------------------- */

/* Device 9 is one that the driver does not know. */
const cp_device *cp_device_of(uint32_t id) { return id < 9 ? &cuda_a100 : NULL; }

void cp_devices_announce_once(cp_decoder *d) { (void)d; }

static cp_result callback_name(uint32_t domain, uint32_t cbid, const char **name)
{
    static const struct {
        uint32_t domain, cbid;
        const char *name;
    } all[] = {{CP_DOMAIN_RUNTIME, 211, "cudaLaunchKernel_v7000"},
               {CP_DOMAIN_RUNTIME, 214, "cudaLaunchKernel_ptsz_v7000"},
               {CP_DOMAIN_RUNTIME, 505, "__cudaLaunchKernel_v13000"},
               {CP_DOMAIN_RUNTIME, 17, "cudaGetDevice_v3020"},
               {CP_DOMAIN_RUNTIME, 165, "cudaDeviceSynchronize_v3020"},
               {CP_DOMAIN_DRIVER, 307, "cuLaunchKernel"},
               {CP_DOMAIN_DRIVER, 5, "cuDeviceGet"},
               {CP_DOMAIN_DRIVER, 277, "cuMemcpyHtoDAsync_v2"},
               {CP_DOMAIN_DRIVER, 551, "cuMemMap"}};
    for (size_t i = 0; i < CP_COUNT(all); i++)
        if (all[i].domain == domain && all[i].cbid == cbid) {
            *name = all[i].name;
            return CP_SUCCESS;
        }
    return CP_ERROR_INVALID_PARAMETER;
}

static cp_result next_record(uint8_t *buffer, size_t valid, uint8_t **record)
{
    return cuda_next_record(being_read->version, buffer, valid, record);
}

/* ---- buffers ------------------------------------------------------------------------------------------ */

written *written_new(uint32_t version)
{
    static written one;
    memset(&one, 0, sizeof one);
    one.version = version;
    being_read = &one;
    cp_cupti.next_record = next_record;
    cp_cupti.callback_name = callback_name;
    return &one;
}

uint8_t *written_add(written *w, uint32_t kind)
{
    uint32_t bytes = cuda_record_bytes(kind, w->version);
    uint8_t *at = w->bytes + w->used;
    assert_true(w->used + bytes <= sizeof w->bytes);
    memset(at, 0, bytes);
    memcpy(at, &kind, sizeof kind);
    w->used += bytes;
    return at;
}

/* In memory of just this size, so that a sanitizer sees reads past it. */
void written_read(written *w, cp_decoder *d)
{
    uint8_t *copy = malloc(w->used + 1);
    assert_non_null(copy);
    memcpy(copy, w->bytes, w->used);
    cp_decoder_read(d, copy, w->used);
    free(copy);
    w->used = 0;
}

uint8_t *write_kernel(written *w, const char *name, uint32_t correlation, uint32_t stream)
{
    uint8_t *r = written_add(w, CP_KIND_CONCURRENT_KERNEL);
    put_kernel_name(r, name);
    put_kernel_registers(r, 122);
    put_kernel_start(r, 1000 + correlation * 10);
    put_kernel_end(r, 1005 + correlation * 10);
    put_kernel_context(r, 1);
    put_kernel_stream(r, stream);
    put_kernel_grid_x(r, 8);
    put_kernel_grid_y(r, 16);
    put_kernel_grid_z(r, 5);
    put_kernel_block_x(r, 128);
    put_kernel_block_y(r, 1);
    put_kernel_block_z(r, 1);
    put_kernel_shared_static(r, 512);
    put_kernel_shared_dynamic(r, 12032);
    put_kernel_correlation(r, correlation);
    return r;
}

uint8_t *write_call(written *w, uint32_t kind, uint32_t cbid, uint32_t correlation)
{
    uint8_t *r = written_add(w, kind);
    put_call_cbid(r, cbid);
    put_call_start(r, 900 + correlation * 10);
    put_call_end(r, 903 + correlation * 10);
    put_call_process(r, 4711);
    put_call_thread(r, 4712);
    put_call_correlation(r, correlation);
    return r;
}

void write_operator(written *w, uint32_t correlation, uint64_t id)
{
    uint8_t *r = written_add(w, CP_KIND_EXTERNAL_CORRELATION);
    put_external_kind(r, CP_EXTERNAL_CUSTOM0);
    put_external_correlation(r, correlation);
    put_external_id(r, id);
}

/* ---- host --------------------------------------------------------------------------------------------- */

static int print_value(char *to, size_t size, const KinetoPlugin_Metadata *m)
{
    const int64_t *ints = m->pointer;
    switch (m->valueType) {
    case KINETO_PLUGIN_VALUE_INT:
        return snprintf(to, size, "%lld", (long long)m->i);
    case KINETO_PLUGIN_VALUE_UINT:
        return snprintf(to, size, "%llu", (unsigned long long)m->u);
    case KINETO_PLUGIN_VALUE_DOUBLE:
        return snprintf(to, size, "%.6g", m->d);
    case KINETO_PLUGIN_VALUE_INTS:
        assert_int_equal(m->count, 3);
        return snprintf(to, size, "[%lld,%lld,%lld]", (long long)ints[0], (long long)ints[1],
                        (long long)ints[2]);
    default:
        return snprintf(to, size, "%.*s", (int)m->count, (const char *)m->pointer);
    }
}

/* " |key=value" each. */
static char *print_all(const char *before, const KinetoPlugin_Metadata *list, size_t count)
{
    char text[ARGS_BYTES];
    size_t n = (size_t)snprintf(text, sizeof text, "%s", before);
    for (size_t i = 0; i < count; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, " |%s=", list[i].pKey);
        n += (size_t)print_value(text + n, sizeof text - n, &list[i]);
        assert_in_range(n, 1, sizeof text - 100);
    }
    return strdup(text);
}

static int emit(KinetoPlugin_TraceBuilderHandle *handle, const KinetoPlugin_Activity *a)
{
    (void)handle;
    if (host.refuses)
        return 1;
    assert_true(KINETO_PLUGIN_HAS(a, KinetoPlugin_Activity, metadataSet));
    assert_in_range(a->metadataSet, 0, host.set_count);
    assert_in_range(host.count, 0, KEPT_MOST - 1);
    kept *k = &host.list[host.count++];
    k->a = *a;
    snprintf(k->name, sizeof k->name, "%.*s", (int)a->nameSize, a->pName);
    k->args = print_all(a->metadataSet ? host.sets[a->metadataSet - 1] : "", a->pMetadata,
                        a->metadataCount);
    return 0;
}

static int register_set(KinetoPlugin_TraceBuilderHandle *handle, const KinetoPlugin_Metadata *list,
                        size_t count, uint32_t *set)
{
    (void)handle;
    host.sets_asked++;
    if (host.has_no_sets || host.set_count == SETS_MOST)
        return 1;
    host.sets[host.set_count++] = print_all("", list, count);
    *set = host.set_count;
    return 0;
}

static int add_line(KinetoPlugin_TraceBuilderHandle *handle, const char *reason, uint64_t count,
                    int32_t is_loss, const char *detail)
{
    (void)handle;
    line *l = &host.lines[host.line_count++];
    snprintf(l->reason, sizeof l->reason, "%s", reason);
    snprintf(l->detail, sizeof l->detail, "%s", detail ? detail : "");
    l->count = count;
    l->is_loss = is_loss;
    return 0;
}

static int add_resource(KinetoPlugin_TraceBuilderHandle *handle,
                        const KinetoPlugin_ProfileResourceInfo *info)
{
    (void)handle;
    snprintf(host.rows[host.row_count++], sizeof host.rows[0], "%d/%d %s", info->deviceId,
             info->resourceId, info->pName);
    return 0;
}

static int add_device(KinetoPlugin_TraceBuilderHandle *handle,
                      const KinetoPlugin_ProfileDeviceInfo *info)
{
    (void)handle;
    snprintf(host.rows[host.row_count++], sizeof host.rows[0], "%d %s", (int)info->deviceId,
             info->pName);
    return 0;
}

static int add_counts(KinetoPlugin_TraceBuilderHandle *handle, const KinetoPlugin_Counts *counts)
{
    (void)handle;
    host.requested += counts->requested;
    host.dropped += counts->dropped;
    return 0;
}

static uint64_t host_ticks(KinetoPlugin_TraceBuilderHandle *handle)
{
    struct timespec t;
    (void)handle;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) * 3; /* three in a ns */
}

void host_free(void)
{
    for (uint32_t i = 0; i < host.count; i++)
        free(host.list[i].args);
    for (uint32_t i = 0; i < host.set_count; i++)
        free(host.sets[i]);
    free(host.list);
    memset(&host, 0, sizeof host);
}

keeping_host *host_new(void)
{
    host_free();
    host.list = calloc(KEPT_MOST, sizeof *host.list);
    host.builder = (KinetoPlugin_TraceBuilder){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addLedgerLine),
        .addDeviceInfo = add_device,
        .addResourceInfo = add_resource,
        .emit = emit,
        .hostTicks = host_ticks,
        .addCounts = add_counts,
        .registerMetadataSet = register_set,
        .addLedgerLine = add_line};
    return &host;
}

const kept *host_find(const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < host.count; i++)
        if (strcmp(host.list[i].name, name) == 0 && n-- == 0)
            return &host.list[i];
    return NULL;
}

uint32_t host_count(const char *name)
{
    uint32_t n = 0;
    while (host_find(name, n))
        n++;
    return n;
}

const char *arg(const kept *k, const char *key)
{
    static char value[ARGS_BYTES];
    char sought[80];
    assert_non_null(k);
    snprintf(sought, sizeof sought, " |%s=", key);
    const char *at = strstr(k->args, sought);
    if (!at)
        return "";
    at += strlen(sought);
    const char *end = strstr(at, " |");
    snprintf(value, sizeof value, "%.*s", (int)(end ? (size_t)(end - at) : strlen(at)), at);
    return value;
}

const char *host_line_detail(const char *reason)
{
    for (uint32_t i = 0; i < host.line_count; i++)
        if (strcmp(host.lines[i].reason, reason) == 0)
            return host.lines[i].detail;
    return "";
}

uint64_t host_line(const char *reason)
{
    for (uint32_t i = 0; i < host.line_count; i++)
        if (strcmp(host.lines[i].reason, reason) == 0)
            return host.lines[i].count;
    return 0;
}

bool host_has_row(const char *row)
{
    for (uint32_t i = 0; i < host.row_count; i++)
        if (strcmp(host.rows[i], row) == 0)
            return true;
    return false;
}

void decoder_new(cp_decoder *d, uint32_t version)
{
    assert_true(cp_decoder_init(d, &host.builder, UINT64_MAX, version, KINETO_PLUGIN_CLOCK_UTC));
}

/* Entering: each copy of NVTX's header calls us once, and each extension of it once more. They are
 * all given the same functions; nothing is kept of any of them. */
#include "nvtx.h"

#define CN_EXPORT __attribute__((visibility("default")))

/* ---- functions that only name something -------------------------------------------------------- */

static void category_a(uint32_t category, const char *name)
{
    cn_category_set(NULL, category, name);
}
static void category_w(uint32_t category, const wchar_t *name)
{
    cn_category_set_wide(NULL, category, name);
}
static void resource_destroy(cn_handle resource) { (void)resource; }
static void initialize(const void *reserved) { (void)reserved; }

#define NAMES(function, what, type, number)                                                        \
    static void function##_a(type id, const char *name) { cn_resource_name(what, number, name); }  \
    static void function##_w(type id, const wchar_t *name)                                         \
    {                                                                                              \
        cn_resource_name_wide(what, number, name);                                                 \
    }
NAMES(device, "device", int, (uint64_t)(uint32_t)id)
NAMES(context, "context", void *, (uint64_t)(uintptr_t)id)
NAMES(stream, "stream", void *, (uint64_t)(uintptr_t)id)
#undef NAMES

/* ---- functions of extensions ------------------------------------------------------------------- */

static uint64_t scope_register(cn_handle domain, const cn_scope_attributes *attributes)
{
    static atomic_uint_fast64_t next = CN_SCHEMA_DYNAMIC_FIRST;
    (void)domain;
    if (attributes && attributes->struct_size >= sizeof *attributes && attributes->scope_id)
        return attributes->scope_id;
    return atomic_fetch_add(&next, 1);
}

static void event_submit(cn_handle domain, const cn_payload *payloads, size_t count)
{
    (void)domain, (void)payloads, (void)count;
    if (cn_recording())
        cn_count(CN_TALLY_DEFERRED);
}

static void event_batch_submit(cn_handle domain, const cn_event_batch *batch)
{
    (void)domain, (void)batch;
    if (cn_recording())
        cn_count(CN_TALLY_DEFERRED);
}

/* ---- tables ------------------------------------------------------------------------------------ */

typedef struct entry {
    unsigned number;
    cn_function function;
} entry;
#define ENTRY(name, function)                                                                      \
    {                                                                                              \
        CN_##name, (cn_function)(function)                                                         \
    }

/* Functions of many types in one table: each is called as what its number says. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wcast-function-type"
#endif

static const entry core[] = {
    ENTRY(MarkEx, cn_mark_ex),
    ENTRY(MarkA, cn_mark),
    ENTRY(MarkW, cn_mark_wide),
    ENTRY(RangeStartEx, cn_range_start_ex),
    ENTRY(RangeStartA, cn_range_start),
    ENTRY(RangeStartW, cn_range_start_wide),
    ENTRY(RangeEnd, cn_range_end),
    ENTRY(RangePushEx, cn_range_push_ex),
    ENTRY(RangePushA, cn_range_push),
    ENTRY(RangePushW, cn_range_push_wide),
    ENTRY(RangePop, cn_range_pop),
    ENTRY(NameCategoryA, category_a),
    ENTRY(NameCategoryW, category_w),
    ENTRY(NameOsThreadA, cn_thread_name),
    ENTRY(NameOsThreadW, cn_thread_name_wide),
};
static const entry core2[] = {
    ENTRY(DomainMarkEx, cn_domain_mark),
    ENTRY(DomainRangeStartEx, cn_domain_start),
    ENTRY(DomainRangeEnd, cn_domain_end),
    ENTRY(DomainRangePushEx, cn_domain_push),
    ENTRY(DomainRangePop, cn_domain_pop),
    ENTRY(DomainResourceCreate, cn_resource_create),
    ENTRY(DomainResourceDestroy, resource_destroy),
    ENTRY(DomainNameCategoryA, cn_category_set),
    ENTRY(DomainNameCategoryW, cn_category_set_wide),
    ENTRY(DomainRegisterStringA, cn_string_register),
    ENTRY(DomainRegisterStringW, cn_string_register_wide),
    ENTRY(DomainCreateA, cn_domain_create),
    ENTRY(DomainCreateW, cn_domain_create_wide),
    ENTRY(DomainDestroy, cn_domain_destroy),
    ENTRY(Initialize, initialize),
};
static const entry cuda[] = {
    ENTRY(NameCuDeviceA, device_a),   ENTRY(NameCuDeviceW, device_w),
    ENTRY(NameCuContextA, context_a), ENTRY(NameCuContextW, context_w),
    ENTRY(NameCuStreamA, stream_a),   ENTRY(NameCuStreamW, stream_w),
};
static const entry cudart[] = {
    ENTRY(NameCudaDeviceA, device_a),
    ENTRY(NameCudaDeviceW, device_w),
    ENTRY(NameCudaStreamA, stream_a),
    ENTRY(NameCudaStreamW, stream_w),
};

enum {
#define CN_X(name, number) CN_##name = (number),
    CN_PAYLOAD_FUNCTION_MAP(CN_X) CN_COUNTER_FUNCTION_MAP(CN_X)
#undef CN_X
};
static const entry payload[] = {
    ENTRY(PayloadSchemaRegister, cn_schema_register),
    ENTRY(PayloadEnumRegister, cn_enum_register),
    ENTRY(MarkPayload, cn_payload_mark),
    ENTRY(RangePushPayload, cn_payload_push),
    ENTRY(RangePopPayload, cn_payload_pop),
    ENTRY(RangeStartPayload, cn_payload_start),
    ENTRY(RangeEndPayload, cn_payload_end),
    ENTRY(ScopeRegister, scope_register),
    ENTRY(EventSubmit, event_submit),
    ENTRY(EventBatchSubmit, event_batch_submit),
};
static const entry counters[] = {
    ENTRY(CounterRegister, cn_counter_register),
    ENTRY(CounterSampleInt64, cn_counter_int),
    ENTRY(CounterSampleFloat64, cn_counter_double),
    ENTRY(CounterSample, cn_counter_sample),
    ENTRY(CounterSampleNoValue, cn_counter_no_value),
    ENTRY(CounterBatchSubmit, cn_counter_batch_submit),
};

/* ---- entering ---------------------------------------------------------------------------------- */

static bool fill(const cn_callbacks *callbacks, int module, const entry *entries, size_t count)
{
    cn_function **table = NULL;
    unsigned size = 0;
    if (!callbacks->module_table(module, &table, &size) || !table)
        return false;
    for (size_t i = 0; i < count; i++)
        if (entries[i].number < size && table[entries[i].number])
            *table[entries[i].number] = entries[i].function;
    return true;
}

CN_EXPORT int InitializeInjectionNvtx2(cn_export_table get);
CN_EXPORT int InitializeInjectionNvtxExtension(cn_extension *extension);

int InitializeInjectionNvtx2(cn_export_table get)
{
    const cn_callbacks *callbacks = get ? get(CN_TABLE_CALLBACKS) : NULL;
    if (!callbacks || callbacks->struct_size < sizeof *callbacks || !callbacks->module_table)
        return 0;
    const cn_versions *versions = get(CN_TABLE_VERSION);
    if (versions && versions->struct_size >= sizeof *versions && versions->set_injection_version)
        versions->set_injection_version(CN_NVTX_VERSION);
    bool entered = fill(callbacks, CN_MODULE_CORE, core, CN_COUNT(core));
    entered |= fill(callbacks, CN_MODULE_CORE2, core2, CN_COUNT(core2));
    (void)fill(callbacks, CN_MODULE_CUDA, cuda, CN_COUNT(cuda));
    (void)fill(callbacks, CN_MODULE_CUDART, cudart, CN_COUNT(cudart));
    return entered;
}

static void fill_slots(const cn_extension *x, const entry *entries, size_t count)
{
    const cn_segment *segment = x->segments;
    for (size_t i = 0; i < count; i++)
        if (entries[i].number < segment->slot_count)
            segment->slots[entries[i].number] = (intptr_t)entries[i].function;
}

/* Returns 1 also where nothing is filled in: those functions then do nothing. */
int InitializeInjectionNvtxExtension(cn_extension *x)
{
    if (!x || x->struct_size < offsetof(cn_extension, export_function))
        return 0;
    if (!x->segment_count || !x->segments || !x->segments->slots ||
        x->module == CN_EXTENSION_MEMORY)
        return 1;
    bool known = x->compat >> 8 == 1;
    if (known && x->module == CN_EXTENSION_PAYLOAD)
        fill_slots(x, payload, CN_COUNT(payload));
    else if (known && x->module == CN_EXTENSION_COUNTERS)
        fill_slots(x, counters, CN_COUNT(counters));
    else
        cn_count(CN_TALLY_EXTENSION);
    return 1;
}

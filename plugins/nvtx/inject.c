/* Entry points: each copy of NVTX's header calls us once, and each extension of it once more. All
 * copies get the same functions; nothing is stored about any of them. */
#include "nvtx.h"

#define CN_EXPORT __attribute__((visibility("default")))

static const cn_tally_kind nvtx_tallies[] = {
#define CN_X(name, loss, reason, detail)                                                           \
    [CN_TALLY_##name - CN_TALLY_FRONT_COUNT] = {(loss) != 0, (reason), (detail)},
    CN_NVTX_TALLY_MAP(CN_X)
#undef CN_X
};
_Static_assert((int)CN_TALLY_COUNT <= (int)CN_MAX_TALLIES, "counters of notes");
const cn_source cn_this_source = {.name = "nvtx",
                                  .site_name = "NVTX",
                                  .tallies = nvtx_tallies,
                                  .tally_count = CN_COUNT(nvtx_tallies),
                                  .describe_payload = cn_describe_schema};

/* ---- functions that only name something ------------------------------------------------------ */

static void name_category(uint32_t category, const char *name)
{
    cn_category_set(NULL, category, name);
}
static void name_category_wide(uint32_t category, const wchar_t *name)
{
    cn_category_set_wide(NULL, category, name);
}
/* Resources have no state, and nothing has to be initialised. */
static void destroy_resource(cn_handle resource) { (void)resource; }
static void ignore_initialize(const void *reserved) { (void)reserved; }

/* A pair of functions that name a resource of CUDA: for char and for wchar_t. */
#define NAMES(function, what, type, number)                                                        \
    static void function##_a(type id, const char *name) { cn_resource_name(what, number, name); }  \
    static void function##_w(type id, const wchar_t *name)                                         \
    {                                                                                              \
        cn_resource_name_wide(what, number, name);                                                 \
    }
NAMES(name_device, "device", int, (uint64_t)(uint32_t)id)
NAMES(name_context, "context", void *, (uint64_t)(uintptr_t)id)
NAMES(name_stream, "stream", void *, (uint64_t)(uintptr_t)id)
#undef NAMES

/* ---- functions of extensions ----------------------------------------------------------------- */

/* Scopes are not recorded, but programs need a distinct id for each: the one that they ask for, or
 * the next free one. */
static uint64_t register_scope(cn_handle domain, const cn_scope_attributes *attributes)
{
    static atomic_uint_fast64_t next = CN_SCHEMA_DYNAMIC_FIRST;
    (void)domain;
    if (attributes && attributes->struct_size >= sizeof *attributes && attributes->scope_id)
        return attributes->scope_id;
    return atomic_fetch_add(&next, 1);
}

/* Events that were measured earlier and are submitted later are not supported: they are counted. */
static void count_deferred_event(cn_handle domain, const cn_payload *payloads, size_t count)
{
    (void)domain, (void)payloads, (void)count;
    if (cn_recording())
        cn_count(CN_TALLY_DEFERRED);
}

static void count_deferred_batch(cn_handle domain, const cn_event_batch *batch)
{
    (void)domain, (void)batch;
    if (cn_recording())
        cn_count(CN_TALLY_DEFERRED);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* NVTX numbers the functions of a module; the program's header has a table of pointers by these
 * numbers, which an injection library fills. */
typedef struct table_entry {
    unsigned number;
    cn_function function;
} table_entry;
#define ENTRY(name, function) {CN_##name, (cn_function)(function)}

/* Functions of many types in one table: each number implies the type with which it is called. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wcast-function-type"
#endif

static const table_entry core_functions[] = {
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
    ENTRY(NameCategoryA, name_category),
    ENTRY(NameCategoryW, name_category_wide),
    ENTRY(NameOsThreadA, cn_thread_name),
    ENTRY(NameOsThreadW, cn_thread_name_wide),
};
static const table_entry core2_functions[] = {
    ENTRY(DomainMarkEx, cn_domain_mark),
    ENTRY(DomainRangeStartEx, cn_domain_start),
    ENTRY(DomainRangeEnd, cn_domain_end),
    ENTRY(DomainRangePushEx, cn_domain_push),
    ENTRY(DomainRangePop, cn_domain_pop),
    ENTRY(DomainResourceCreate, cn_resource_create),
    ENTRY(DomainResourceDestroy, destroy_resource),
    ENTRY(DomainNameCategoryA, cn_category_set),
    ENTRY(DomainNameCategoryW, cn_category_set_wide),
    ENTRY(DomainRegisterStringA, cn_string_register),
    ENTRY(DomainRegisterStringW, cn_string_register_wide),
    ENTRY(DomainCreateA, cn_domain_create),
    ENTRY(DomainCreateW, cn_domain_create_wide),
    ENTRY(DomainDestroy, cn_domain_destroy),
    ENTRY(Initialize, ignore_initialize),
};
static const table_entry cuda_functions[] = {
    ENTRY(NameCuDeviceA, name_device_a),   ENTRY(NameCuDeviceW, name_device_w),
    ENTRY(NameCuContextA, name_context_a), ENTRY(NameCuContextW, name_context_w),
    ENTRY(NameCuStreamA, name_stream_a),   ENTRY(NameCuStreamW, name_stream_w),
};
static const table_entry cudart_functions[] = {
    ENTRY(NameCudaDeviceA, name_device_a),
    ENTRY(NameCudaDeviceW, name_device_w),
    ENTRY(NameCudaStreamA, name_stream_a),
    ENTRY(NameCudaStreamW, name_stream_w),
};

enum {
#define CN_X(name, number) CN_##name = (number),
    CN_PAYLOAD_FUNCTION_MAP(CN_X) CN_COUNTER_FUNCTION_MAP(CN_X)
#undef CN_X
};
static const table_entry payload_functions[] = {
    ENTRY(PayloadSchemaRegister, cn_schema_register),
    ENTRY(PayloadEnumRegister, cn_enum_register),
    ENTRY(MarkPayload, cn_payload_mark),
    ENTRY(RangePushPayload, cn_payload_push),
    ENTRY(RangePopPayload, cn_payload_pop),
    ENTRY(RangeStartPayload, cn_payload_start),
    ENTRY(RangeEndPayload, cn_payload_end),
    ENTRY(ScopeRegister, register_scope),
    ENTRY(EventSubmit, count_deferred_event),
    ENTRY(EventBatchSubmit, count_deferred_batch),
};
static const table_entry counter_functions[] = {
    ENTRY(CounterRegister, cn_counter_register),
    ENTRY(CounterSampleInt64, cn_counter_int),
    ENTRY(CounterSampleFloat64, cn_counter_double),
    ENTRY(CounterSample, cn_counter_sample),
    ENTRY(CounterSampleNoValue, cn_counter_no_value),
    ENTRY(CounterBatchSubmit, cn_counter_batch_submit),
};

/* ---- entry points ---------------------------------------------------------------------------- */

/* Fills the slots that the program's header has for a module. False: it does not have the
 * module. */
static bool fill_module_table(const cn_callbacks *callbacks, int module, const table_entry *entries,
                              size_t count)
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

/* The header calls it once, at the program's first call of NVTX. Returns 1 if the functions for
 * ranges and marks are filled in; 0 makes the header drop all calls. */
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
    bool is_filled =
        fill_module_table(callbacks, CN_MODULE_CORE, core_functions, CN_COUNT(core_functions));
    is_filled |=
        fill_module_table(callbacks, CN_MODULE_CORE2, core2_functions, CN_COUNT(core2_functions));
    (void)fill_module_table(callbacks, CN_MODULE_CUDA, cuda_functions, CN_COUNT(cuda_functions));
    (void)fill_module_table(callbacks, CN_MODULE_CUDART, cudart_functions,
                            CN_COUNT(cudart_functions));
    return is_filled;
}

/* The same for an extension: the first segment has all functions. */
static void fill_extension_slots(const cn_extension *x, const table_entry *entries, size_t count)
{
    const cn_segment *segment = x->segments;
    for (size_t i = 0; i < count; i++)
        if (entries[i].number < segment->slot_count)
            segment->slots[entries[i].number] = (intptr_t)entries[i].function;
}

/* Returns 1 also if nothing is filled in: the functions of that extension then do nothing. */
int InitializeInjectionNvtxExtension(cn_extension *x)
{
    if (!x || x->struct_size < offsetof(cn_extension, export_function))
        return 0;
    if (!x->segment_count || !x->segments || !x->segments->slots ||
        x->module == CN_EXTENSION_MEMORY)
        return 1;
    bool known = x->compat >> 8 == 1;
    if (known && x->module == CN_EXTENSION_PAYLOAD)
        fill_extension_slots(x, payload_functions, CN_COUNT(payload_functions));
    else if (known && x->module == CN_EXTENSION_COUNTERS)
        fill_extension_slots(x, counter_functions, CN_COUNT(counter_functions));
    else
        cn_count(CN_TALLY_EXTENSION);
    return 1;
}

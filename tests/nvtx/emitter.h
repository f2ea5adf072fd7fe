/* The program's side of NVTX, from our own declarations: what a copy of the header is. Several
 * emitters are several copies. */
#ifndef TESTS_NVTX_EMITTER_H
#define TESTS_NVTX_EMITTER_H

#include "abi.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EMITTER_SLOTS 63

typedef int (*emitter_initialize)(cn_export_table get);
typedef int (*emitter_extend)(cn_extension *extension);

typedef struct emitter {
    cn_function core[CN_CORE_COUNT], core2[CN_CORE2_COUNT], cuda[9], cudart[7];
    intptr_t payload[EMITTER_SLOTS], counters[EMITTER_SLOTS], memory[EMITTER_SLOTS];
} emitter;

static _Thread_local cn_function *emitter_tables[7][17];
static _Thread_local unsigned emitter_sizes[7];
static _Atomic(uint32_t) emitter_version_set;

static int emitter_module_table(int module, cn_function ***table, unsigned *count)
{
    if (module <= 0 || module >= 7 || !emitter_sizes[module])
        return 0;
    *table = emitter_tables[module];
    *count = emitter_sizes[module];
    return 1;
}

static void emitter_set_version(uint32_t version) { emitter_version_set = version; }

static const void *emitter_export(uint32_t table)
{
    static const cn_callbacks callbacks = {sizeof callbacks, emitter_module_table};
    static const cn_versions versions = {sizeof versions, CN_NVTX_VERSION, 0, emitter_set_version};
    return table == CN_TABLE_CALLBACKS ? (const void *)&callbacks
           : table == CN_TABLE_VERSION ? (const void *)&versions
                                       : NULL;
}

static void emitter_module(int module, cn_function *slots, unsigned count)
{
    emitter_sizes[module] = count;
    for (unsigned i = 0; i < count; i++)
        emitter_tables[module][i] = i ? &slots[i] : NULL;
}

static int emitter_init(emitter *e, emitter_initialize initialize)
{
    memset(e, 0, sizeof *e);
    memset(emitter_sizes, 0, sizeof emitter_sizes);
    emitter_module(CN_MODULE_CORE, e->core, CN_CORE_COUNT);
    emitter_module(CN_MODULE_CORE2, e->core2, CN_CORE2_COUNT);
    emitter_module(CN_MODULE_CUDA, e->cuda, 9);
    emitter_module(CN_MODULE_CUDART, e->cudart, 7);
    return initialize(emitter_export);
}

static inline int emitter_add(intptr_t *slots, uint16_t module, uint16_t compat,
                              emitter_extend extend)
{
    cn_segment segment = {0, EMITTER_SLOTS, slots};
    cn_extension x = {CN_NVTX_VERSION, sizeof x, module, compat, 1, &segment, NULL, NULL};
    return extend(&x);
}

static inline int emitter_extensions(emitter *e, emitter_extend extend)
{
    return emitter_add(e->memory, CN_EXTENSION_MEMORY, 0x0102, extend) &&
           emitter_add(e->payload, CN_EXTENSION_PAYLOAD, 0x0104, extend) &&
           emitter_add(e->counters, CN_EXTENSION_COUNTERS, 0x0102, extend);
}

/* CALL(e, core2, DomainCreateA, cn_handle, (const char *), ("name")) */
#define CALL(e, module, name, result, types, arguments)                                            \
    (((result(*) types)(e)->module[CN_##name])arguments)

static inline int push(emitter *e, const char *text)
{
    return CALL(e, core, RangePushA, int, (const char *), (text));
}
static inline int pop(emitter *e) { return CALL(e, core, RangePop, int, (void), ()); }
static inline void mark(emitter *e, const char *text)
{
    CALL(e, core, MarkA, void, (const char *), (text));
}
static inline uint64_t start(emitter *e, const char *text)
{
    return CALL(e, core, RangeStartA, uint64_t, (const char *), (text));
}
static inline void end(emitter *e, uint64_t id) { CALL(e, core, RangeEnd, void, (uint64_t), (id)); }
static inline cn_handle domain_create(emitter *e, const char *name)
{
    return CALL(e, core2, DomainCreateA, cn_handle, (const char *), (name));
}
static inline int domain_push(emitter *e, cn_handle domain, const cn_attributes *a)
{
    return CALL(e, core2, DomainRangePushEx, int, (cn_handle, const cn_attributes *), (domain, a));
}
static inline int domain_pop(emitter *e, cn_handle domain)
{
    return CALL(e, core2, DomainRangePop, int, (cn_handle), (domain));
}
static inline void domain_mark(emitter *e, cn_handle domain, const cn_attributes *a)
{
    CALL(e, core2, DomainMarkEx, void, (cn_handle, const cn_attributes *), (domain, a));
}
static inline cn_handle string_register(emitter *e, cn_handle domain, const char *text)
{
    return CALL(e, core2, DomainRegisterStringA, cn_handle, (cn_handle, const char *),
                (domain, text));
}

static inline cn_attributes message(const char *text)
{
    return (cn_attributes){.version = CN_NVTX_VERSION,
                           .size = sizeof(cn_attributes),
                           .message_type = CN_MESSAGE_ASCII,
                           .message.ascii = text};
}

#define SCHEMA_MASK(with_id)                                                                       \
    (1u << CN_FIELD_NAME | 1u << CN_FIELD_TYPE | 1u << CN_FIELD_ENTRIES |                          \
     1u << CN_FIELD_ENTRY_COUNT | (with_id ? 1u << CN_FIELD_SCHEMA_ID : 0))
enum {
#define CN_X(name, number) CN_##name = (number),
    CN_PAYLOAD_FUNCTION_MAP(CN_X) CN_COUNTER_FUNCTION_MAP(CN_X)
#undef CN_X
};
static inline uint64_t schema_register(emitter *e, cn_handle domain,
                                       const cn_schema_attributes *attributes)
{
    return CALL(e, payload, PayloadSchemaRegister, uint64_t,
                (cn_handle, const cn_schema_attributes *), (domain, attributes));
}
static inline uint64_t schema_of(emitter *e, const char *name, uint64_t type,
                                 const cn_entry *entries, size_t count)
{
    cn_schema_attributes a = {.field_mask = SCHEMA_MASK(0),
                              .name = name,
                              .type = type,
                              .entries = entries,
                              .entry_count = count};
    return schema_register(e, NULL, &a);
}
static inline void mark_with(emitter *e, const char *name, const cn_payload *payloads,
                             uint32_t count)
{
    cn_attributes a = message(name);
    a.payload_type = CN_PAYLOAD_EXTENDED;
    a.reserved = (int32_t)count;
    a.payload.u64 = (uint64_t)(uintptr_t)payloads;
    domain_mark(e, NULL, &a);
}

#endif

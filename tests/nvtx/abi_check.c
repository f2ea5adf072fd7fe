/* Our declarations of NVTX compared with NVIDIA's: compiled, not run. */
#include <nvtx3/nvToolsExt.h>
#include <stddef.h>
#ifdef CLIENT_PAYLOADS
#include <nvtx3/nvToolsExtCounters.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <nvtx3/nvToolsExtSemanticsCounters.h>
#endif

#include "abi.h"

#define SAME(ours, theirs)      _Static_assert((ours) == (theirs), #theirs)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_AT(ours, a, theirs, b)                                                                \
    _Static_assert(offsetof(ours, a) == offsetof(theirs, b), #theirs "." #b)

SAME(CN_NVTX_VERSION, NVTX_VERSION);
SAME(CN_NO_TRACKING, NVTX_NO_PUSH_POP_TRACKING);
SAME(CN_TABLE_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(CN_TABLE_VERSION, NVTX_ETID_VERSIONINFO);
SAME(CN_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(CN_MODULE_CUDA, NVTX_CB_MODULE_CUDA);
SAME(CN_MODULE_CUDART, NVTX_CB_MODULE_CUDART);
SAME(CN_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
#define X(name, number) SAME(CN_##name, NVTX_CBID_CORE_##name);
CN_CORE_MAP(X)
#undef X
#define X(name, number) SAME(CN_##name, NVTX_CBID_CORE2_##name);
CN_CORE2_MAP(X)
#undef X
#define X(name, number) SAME(CN_##name, NVTX_CBID_CUDA_##name);
CN_CUDA_MAP(X)
#undef X
#define X(name, number) SAME(CN_##name, NVTX_CBID_CUDART_##name);
CN_CUDART_MAP(X)
#undef X
SAME_SIZE(cn_callbacks, NvtxExportTableCallbacks);
SAME_AT(cn_callbacks, module_table, NvtxExportTableCallbacks, GetModuleFunctionTable);
SAME_SIZE(cn_versions, NvtxExportTableVersionInfo);
SAME_AT(cn_versions, set_injection_version, NvtxExportTableVersionInfo, SetInjectionNvtxVersion);
SAME_SIZE(cn_attributes, nvtxEventAttributes_t);
SAME_AT(cn_attributes, category, nvtxEventAttributes_t, category);
SAME_AT(cn_attributes, color_type, nvtxEventAttributes_t, colorType);
SAME_AT(cn_attributes, color, nvtxEventAttributes_t, color);
SAME_AT(cn_attributes, payload_type, nvtxEventAttributes_t, payloadType);
SAME_AT(cn_attributes, reserved, nvtxEventAttributes_t, reserved0);
SAME_AT(cn_attributes, payload, nvtxEventAttributes_t, payload);
SAME_AT(cn_attributes, message_type, nvtxEventAttributes_t, messageType);
SAME_AT(cn_attributes, message, nvtxEventAttributes_t, message);
SAME(CN_COLOR_ARGB, NVTX_COLOR_ARGB);
SAME(CN_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(CN_MESSAGE_WIDE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(CN_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(CN_PAYLOAD_UINT64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(CN_PAYLOAD_INT64, NVTX_PAYLOAD_TYPE_INT64);
SAME(CN_PAYLOAD_DOUBLE, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(CN_PAYLOAD_UINT32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(CN_PAYLOAD_INT32, NVTX_PAYLOAD_TYPE_INT32);
SAME(CN_PAYLOAD_FLOAT, NVTX_PAYLOAD_TYPE_FLOAT);
SAME_SIZE(cn_resource, nvtxResourceAttributes_t);
SAME_AT(cn_resource, identifier, nvtxResourceAttributes_t, identifier);
SAME_AT(cn_resource, message, nvtxResourceAttributes_t, message);
SAME(CN_RESOURCE_THREAD_NATIVE, NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE);
SAME(CN_RESOURCE_THREAD_POSIX, NVTX_RESOURCE_TYPE_GENERIC_THREAD_POSIX);

#ifdef CLIENT_PAYLOADS
SAME(CN_EXTENSION_PAYLOAD, NVTX_EXT_PAYLOAD_MODULEID);
SAME(CN_EXTENSION_COUNTERS, NVTX_EXT_COUNTERS_MODULEID);
SAME(CN_PAYLOAD_EXTENDED, NVTX_PAYLOAD_TYPE_EXT);
SAME_SIZE(cn_segment, nvtxExtModuleSegment_t);
SAME_SIZE(cn_extension, nvtxExtModuleInfo_t);
SAME_AT(cn_extension, compat, nvtxExtModuleInfo_t, compatId);
SAME_AT(cn_extension, segments, nvtxExtModuleInfo_t, segments);
enum {
#define X(name, number) OURS_##name = (number),
    CN_PAYLOAD_FUNCTION_MAP(X) CN_COUNTER_FUNCTION_MAP(X)
#undef X
};
#define X(name, number) SAME(OURS_##name, NVTX3EXT_CBID_nvtx##name);
CN_PAYLOAD_FUNCTION_MAP(X)
CN_COUNTER_FUNCTION_MAP(X)
#undef X
#define X(name, number) SAME(CN_TYPE_##name, NVTX_PAYLOAD_ENTRY_TYPE_##name);
CN_TYPE_MAP(X)
#undef X
SAME(CN_SCHEMA_REFERENCED, NVTX_TYPE_PAYLOAD_SCHEMA_REFERENCED);
SAME(CN_SCHEMA_RAW, NVTX_TYPE_PAYLOAD_SCHEMA_RAW);
SAME(CN_SCHEMA_STATIC_FIRST, NVTX_PAYLOAD_SCHEMA_ID_STATIC_START);
SAME(CN_SCHEMA_DYNAMIC_FIRST, NVTX_PAYLOAD_SCHEMA_ID_DYNAMIC_START);
SAME(CN_SCHEMA_STATIC, NVTX_PAYLOAD_SCHEMA_TYPE_STATIC);
SAME(CN_SCHEMA_DYNAMIC, NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC);
SAME(CN_SCHEMA_UNION, NVTX_PAYLOAD_SCHEMA_TYPE_UNION);
SAME(CN_SCHEMA_UNION_SELECTED, NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR);
SAME(CN_ENTRY_POINTER, NVTX_PAYLOAD_ENTRY_FLAG_POINTER);
SAME(CN_ENTRY_OFFSETS,
     NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE | NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE);
SAME(CN_ENTRY_EVENT_MESSAGE, NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE);
SAME(CN_ENTRY_TIMESTAMP, NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP);
SAME(CN_ENTRY_ARRAY(NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE), CN_ARRAY_FIXED);
SAME(CN_ENTRY_ARRAY(NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED), CN_ARRAY_ZERO_TERMINATED);
SAME(CN_ENTRY_ARRAY(NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX), CN_ARRAY_LENGTH_INDEX);
#define MASK(ours, theirs) SAME(1 << CN_##ours, NVTX_PAYLOAD_##theirs)
MASK(FIELD_NAME, SCHEMA_ATTR_FIELD_NAME);
MASK(FIELD_TYPE, SCHEMA_ATTR_FIELD_TYPE);
MASK(FIELD_FLAGS, SCHEMA_ATTR_FIELD_FLAGS);
MASK(FIELD_ENTRIES, SCHEMA_ATTR_FIELD_ENTRIES);
MASK(FIELD_ENTRY_COUNT, SCHEMA_ATTR_FIELD_NUM_ENTRIES);
MASK(FIELD_STATIC_SIZE, SCHEMA_ATTR_FIELD_STATIC_SIZE);
MASK(FIELD_ALIGNMENT, SCHEMA_ATTR_FIELD_ALIGNMENT);
MASK(FIELD_SCHEMA_ID, SCHEMA_ATTR_FIELD_SCHEMA_ID);
MASK(ENUM_FIELD_ENTRIES, ENUM_ATTR_FIELD_ENTRIES);
MASK(ENUM_FIELD_ENTRY_COUNT, ENUM_ATTR_FIELD_NUM_ENTRIES);
MASK(ENUM_FIELD_SIZE, ENUM_ATTR_FIELD_SIZE);
MASK(ENUM_FIELD_SCHEMA_ID, ENUM_ATTR_FIELD_SCHEMA_ID);
SAME_SIZE(cn_payload, nvtxPayloadData_t);
SAME_AT(cn_payload, data, nvtxPayloadData_t, payload);
SAME_SIZE(cn_semantics, nvtxSemanticsHeader_t);
SAME_AT(cn_semantics, next, nvtxSemanticsHeader_t, next);
SAME_SIZE(cn_counter_semantics, nvtxSemanticsCounter_t);
SAME_AT(cn_counter_semantics, unit, nvtxSemanticsCounter_t, unit);
SAME(CN_SEMANTICS_COUNTER, NVTX_SEMANTIC_ID_COUNTERS_V1);
SAME_SIZE(cn_entry, nvtxPayloadSchemaEntry_t);
SAME_AT(cn_entry, detail, nvtxPayloadSchemaEntry_t, arrayOrUnionDetail);
SAME_AT(cn_entry, offset, nvtxPayloadSchemaEntry_t, offset);
SAME_SIZE(cn_schema_attributes, nvtxPayloadSchemaAttr_t);
SAME_AT(cn_schema_attributes, entries, nvtxPayloadSchemaAttr_t, entries);
SAME_AT(cn_schema_attributes, schema_id, nvtxPayloadSchemaAttr_t, schemaId);
SAME_SIZE(cn_enum_entry, nvtxPayloadEnum_t);
SAME_AT(cn_enum_entry, is_flag, nvtxPayloadEnum_t, isFlag);
SAME_SIZE(cn_enum_attributes, nvtxPayloadEnumAttr_t);
SAME_AT(cn_enum_attributes, size_of_enum, nvtxPayloadEnumAttr_t, sizeOfEnum);
SAME_SIZE(cn_scope_attributes, nvtxScopeAttr_t);
SAME_AT(cn_scope_attributes, scope_id, nvtxScopeAttr_t, scopeId);
SAME_SIZE(cn_counter_attributes, nvtxCounterAttr_t);
SAME_AT(cn_counter_attributes, name, nvtxCounterAttr_t, name);
SAME_AT(cn_counter_attributes, semantics, nvtxCounterAttr_t, semantics);
SAME_SIZE(cn_counter_batch, nvtxCounterBatch_t);
SAME_AT(cn_counter_batch, timestamps, nvtxCounterBatch_t, timestamps);
SAME_SIZE(cn_event_batch, nvtxEventBatch_t);
#endif

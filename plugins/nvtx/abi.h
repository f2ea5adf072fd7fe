/* The NVTX interface, version 3, from the tool's side: the structures that it shares with a
 * program. Written from the facts of the interface; tests/nvtx compares them with NVIDIA's headers
 * if those are installed.
 *
 * Each copy of NVTX's header in a process (one for each library or program that uses it) loads the
 * tool's library and calls one function of it with a way to reach tables of function pointers,
 * which the tool fills in. Extensions (payloads, counters, memory) call a second function, each for
 * itself, with slots to fill in. Handles are the tool's: programs only hand them back.
 */
#ifndef CN_ABI_H
#define CN_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define CN_NVTX_VERSION 3
/* Result of push and pop if levels are not tracked. */
#define CN_NO_TRACKING (-2)

typedef void (*cn_function)(void);
/* Of a domain, a registered string or a resource. */
typedef void *cn_handle;

/* ---- tables of the program ------------------------------------------------------------------- */

/* Tables that the program's header exports, and modules of its functions. */
enum { CN_TABLE_CALLBACKS = 1, CN_TABLE_VERSION = 3 };
enum { CN_MODULE_CORE = 1, CN_MODULE_CUDA = 2, CN_MODULE_CUDART = 4, CN_MODULE_CORE2 = 5 };

typedef struct cn_callbacks {
    size_t struct_size;
    /* Returns 0 for an unknown module. The table has `count` addresses of function pointers. */
    int (*module_table)(int module, cn_function ***table, unsigned *count);
} cn_callbacks;

typedef struct cn_versions {
    size_t struct_size;
    uint32_t version, reserved;
    void (*set_injection_version)(uint32_t version);
} cn_versions;

typedef const void *(*cn_export_table)(uint32_t table);

/** Functions of a module: X(NAME, number). Those in CORE2 have a domain. */
#define CN_CORE_MAP(X)                                                                             \
    X(MarkEx, 1)                                                                                   \
    X(MarkA, 2)                                                                                    \
    X(MarkW, 3)                                                                                    \
    X(RangeStartEx, 4)                                                                             \
    X(RangeStartA, 5)                                                                              \
    X(RangeStartW, 6)                                                                              \
    X(RangeEnd, 7)                                                                                 \
    X(RangePushEx, 8)                                                                              \
    X(RangePushA, 9)                                                                               \
    X(RangePushW, 10)                                                                              \
    X(RangePop, 11)                                                                                \
    X(NameCategoryA, 12)                                                                           \
    X(NameCategoryW, 13)                                                                           \
    X(NameOsThreadA, 14)                                                                           \
    X(NameOsThreadW, 15)
#define CN_CORE2_MAP(X)                                                                            \
    X(DomainMarkEx, 1)                                                                             \
    X(DomainRangeStartEx, 2)                                                                       \
    X(DomainRangeEnd, 3)                                                                           \
    X(DomainRangePushEx, 4)                                                                        \
    X(DomainRangePop, 5)                                                                           \
    X(DomainResourceCreate, 6)                                                                     \
    X(DomainResourceDestroy, 7)                                                                    \
    X(DomainNameCategoryA, 8)                                                                      \
    X(DomainNameCategoryW, 9)                                                                      \
    X(DomainRegisterStringA, 10)                                                                   \
    X(DomainRegisterStringW, 11)                                                                   \
    X(DomainCreateA, 12)                                                                           \
    X(DomainCreateW, 13)                                                                           \
    X(DomainDestroy, 14)                                                                           \
    X(Initialize, 15)
#define CN_CUDA_MAP(X)                                                                             \
    X(NameCuDeviceA, 1)                                                                            \
    X(NameCuDeviceW, 2)                                                                            \
    X(NameCuContextA, 3)                                                                           \
    X(NameCuContextW, 4)                                                                           \
    X(NameCuStreamA, 5)                                                                            \
    X(NameCuStreamW, 6)
#define CN_CUDART_MAP(X)                                                                           \
    X(NameCudaDeviceA, 1)                                                                          \
    X(NameCudaDeviceW, 2)                                                                          \
    X(NameCudaStreamA, 3)                                                                          \
    X(NameCudaStreamW, 4)

#define CN_NUMBER(name, number) CN_##name = (number),
enum { CN_CORE_MAP(CN_NUMBER) CN_CORE_COUNT };
enum { CN_CORE2_MAP(CN_NUMBER) CN_CORE2_COUNT };
enum { CN_CUDA_MAP(CN_NUMBER) CN_CUDA_COUNT };
enum { CN_CUDART_MAP(CN_NUMBER) CN_CUDART_COUNT };
#undef CN_NUMBER

/* ---- events ---------------------------------------------------------------------------------- */

/* Types of the color, the message and the payload of cn_attributes; 0: none. */
enum { CN_COLOR_ARGB = 1 };
enum { CN_MESSAGE_ASCII = 1, CN_MESSAGE_WIDE = 2, CN_MESSAGE_REGISTERED = 3 };
enum {
    CN_PAYLOAD_UINT64 = 1,
    CN_PAYLOAD_INT64 = 2,
    CN_PAYLOAD_DOUBLE = 3,
    CN_PAYLOAD_UINT32 = 4,
    CN_PAYLOAD_INT32 = 5,
    CN_PAYLOAD_FLOAT = 6
};
/* The payload is the address of `reserved` descriptions of binary payloads. */
#define CN_PAYLOAD_EXTENDED ((int32_t)0xDFBD0009)

typedef union cn_message {
    const char *ascii; /* UTF-8 in fact */
    const wchar_t *wide;
    cn_handle registered;
} cn_message;

/* Attributes of an event. `size` is that of the program's header, which may be older or newer. */
typedef struct cn_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union {
        uint64_t u64;
        int64_t i64;
        double f64;
        uint32_t u32;
        int32_t i32;
        float f32;
    } payload;
    int32_t message_type;
    cn_message message;
} cn_attributes;

enum { CN_RESOURCE_THREAD_NATIVE = 0x10003, CN_RESOURCE_THREAD_POSIX = 0x10004 };

typedef struct cn_resource {
    uint16_t version, size;
    int32_t identifier_type;
    uint64_t identifier;
    int32_t message_type;
    cn_message message;
} cn_resource;

/* ---- extensions ------------------------------------------------------------------------------ */

enum { CN_EXTENSION_MEMORY = 1, CN_EXTENSION_PAYLOAD = 2, CN_EXTENSION_COUNTERS = 4 };

/* An extension has segments of slots for its functions, at the numbers of the maps below. */
typedef struct cn_segment {
    size_t id, slot_count;
    intptr_t *slots; /* 0: to be filled in */
} cn_segment;

typedef struct cn_extension {
    uint16_t nvtx_version, struct_size, module, compat;
    size_t segment_count;
    cn_segment *segments;
    intptr_t (*export_function)(uint32_t id);
    const void *info;
} cn_extension;

#define CN_PAYLOAD_FUNCTION_MAP(X)                                                                 \
    X(PayloadSchemaRegister, 0)                                                                    \
    X(PayloadEnumRegister, 1)                                                                      \
    X(MarkPayload, 2)                                                                              \
    X(RangePushPayload, 3)                                                                         \
    X(RangePopPayload, 4)                                                                          \
    X(RangeStartPayload, 5)                                                                        \
    X(RangeEndPayload, 6)                                                                          \
    X(ScopeRegister, 12)                                                                           \
    X(EventSubmit, 16)                                                                             \
    X(EventBatchSubmit, 17)
#define CN_COUNTER_FUNCTION_MAP(X)                                                                 \
    X(CounterRegister, 0)                                                                          \
    X(CounterSampleInt64, 1)                                                                       \
    X(CounterSampleFloat64, 2)                                                                     \
    X(CounterSample, 3)                                                                            \
    X(CounterSampleNoValue, 4)                                                                     \
    X(CounterBatchSubmit, 5)

/** One binary payload. `size` may be SIZE_MAX: the schema determines it. */
typedef struct cn_payload {
    uint64_t schema;
    size_t size;
    const void *data;
} cn_payload;

/* The header of a semantic extension; they form a list, and unknown ones are skipped by their
 * id. */
typedef struct cn_semantics {
    uint32_t struct_size;
    uint16_t id, version;
    const struct cn_semantics *next;
} cn_semantics;

#define CN_SEMANTICS_COUNTER 5
typedef struct cn_counter_semantics {
    cn_semantics header;
    uint64_t flags;
    const char *unit;
    uint64_t unit_numerator, unit_denominator;
    int64_t limit_type;
    uint64_t min, max;
} cn_counter_semantics;

/* Flags of an entry. Those of arrays are a number in three bits. */
#define CN_ENTRY_POINTER       UINT64_C(0x002)
#define CN_ENTRY_OFFSETS       UINT64_C(0x00c) /* from the base, or from here */
#define CN_ENTRY_ARRAY(flags)  ((uint32_t)((flags) >> 4 & 7))
#define CN_ENTRY_EVENT_MESSAGE UINT64_C(0x400)
#define CN_ENTRY_TIMESTAMP     UINT64_C(0x800)
enum { CN_ARRAY_NONE, CN_ARRAY_FIXED, CN_ARRAY_ZERO_TERMINATED, CN_ARRAY_LENGTH_INDEX };

/** Predefined types: X(NAME, number). Numbers below CN_TYPE_LIMIT never stand for schemas. */
#define CN_TYPE_MAP(X)                                                                             \
    X(CHAR, 1)                                                                                     \
    X(UCHAR, 2)                                                                                    \
    X(SHORT, 3)                                                                                    \
    X(USHORT, 4)                                                                                   \
    X(INT, 5)                                                                                      \
    X(UINT, 6)                                                                                     \
    X(LONG, 7)                                                                                     \
    X(ULONG, 8)                                                                                    \
    X(LONGLONG, 9)                                                                                 \
    X(ULONGLONG, 10)                                                                               \
    X(INT8, 11)                                                                                    \
    X(UINT8, 12)                                                                                   \
    X(INT16, 13)                                                                                   \
    X(UINT16, 14)                                                                                  \
    X(INT32, 15)                                                                                   \
    X(UINT32, 16)                                                                                  \
    X(INT64, 17)                                                                                   \
    X(UINT64, 18)                                                                                  \
    X(FLOAT, 19)                                                                                   \
    X(DOUBLE, 20)                                                                                  \
    X(LONGDOUBLE, 21)                                                                              \
    X(SIZE, 22)                                                                                    \
    X(ADDRESS, 23)                                                                                 \
    X(WCHAR, 24)                                                                                   \
    X(CHAR8, 25)                                                                                   \
    X(CHAR16, 26)                                                                                  \
    X(CHAR32, 27)                                                                                  \
    X(BYTE, 32)                                                                                    \
    X(FLOAT16, 42)                                                                                 \
    X(FLOAT32, 43)                                                                                 \
    X(FLOAT64, 44)                                                                                 \
    X(BF16, 50)                                                                                    \
    X(CATEGORY, 68)                                                                                \
    X(COLOR_ARGB, 69)                                                                              \
    X(SCOPE_ID, 70)                                                                                \
    X(PID_UINT32, 71)                                                                              \
    X(PID_UINT64, 72)                                                                              \
    X(TID_UINT32, 73)                                                                              \
    X(TID_UINT64, 74)                                                                              \
    X(CSTRING, 75)                                                                                 \
    X(CSTRING_UTF8, 76)                                                                            \
    X(CSTRING_UTF16, 77)                                                                           \
    X(CSTRING_UTF32, 78)                                                                           \
    X(NVTX_REGISTERED_STRING_HANDLE, 80)                                                           \
    X(UNION_SELECTOR, 100)
enum {
#define CN_X(name, number) CN_TYPE_##name = (number),
    CN_TYPE_MAP(CN_X)
#undef CN_X
        CN_TYPE_LIMIT = 128
};
#define CN_SCHEMA_REFERENCED    1022 /* others point into it */
#define CN_SCHEMA_RAW           1023
#define CN_SCHEMA_STATIC_FIRST  (UINT64_C(1) << 24) /* chosen by the program */
#define CN_SCHEMA_DYNAMIC_FIRST (UINT64_C(1) << 32) /* given by the tool */

/* A member of a schema: its type (predefined, or the id of another schema), and its place. */
typedef struct cn_entry {
    uint64_t flags, type;
    const char *name, *description;
    /* Length, or index of the entry that holds it, or selects a union's member. */
    uint64_t detail;
    uint64_t offset;
    const cn_semantics *semantics;
    const void *reserved;
} cn_entry;

enum {
    CN_SCHEMA_STATIC = 1,
    CN_SCHEMA_DYNAMIC = 2,
    CN_SCHEMA_UNION = 3,
    CN_SCHEMA_UNION_SELECTED = 4 /* the union contains its own selector */
};

/* Bit numbers of field_mask in the next two structs: the members that are set. */
enum {
    CN_FIELD_NAME = 1,
    CN_FIELD_TYPE = 2,
    CN_FIELD_FLAGS = 3,
    CN_FIELD_ENTRIES = 4,
    CN_FIELD_ENTRY_COUNT = 5,
    CN_FIELD_STATIC_SIZE = 6,
    CN_FIELD_ALIGNMENT = 7,
    CN_FIELD_SCHEMA_ID = 8,
    CN_ENUM_FIELD_ENTRIES = 2,
    CN_ENUM_FIELD_ENTRY_COUNT = 3,
    CN_ENUM_FIELD_SIZE = 4,
    CN_ENUM_FIELD_SCHEMA_ID = 5
};

/* Registers a layout of payloads. schema_id 0: the tool chooses the id. */
typedef struct cn_schema_attributes {
    uint64_t field_mask;
    const char *name;
    uint64_t type, flags;
    const cn_entry *entries;
    size_t entry_count, static_size, pack_align;
    uint64_t schema_id;
    void *extension;
} cn_schema_attributes;

typedef struct cn_enum_entry {
    const char *name;
    uint64_t value;
    int8_t is_flag;
} cn_enum_entry;

typedef struct cn_enum_attributes {
    uint64_t field_mask;
    const char *name;
    const cn_enum_entry *entries;
    size_t entry_count, size_of_enum;
    uint64_t schema_id;
    void *extension;
} cn_enum_attributes;

typedef struct cn_scope_attributes {
    size_t struct_size;
    const char *path;
    uint64_t parent_scope, scope_id;
} cn_scope_attributes;

typedef struct cn_counter_attributes {
    size_t struct_size;
    uint64_t schema_id;
    const char *name, *description;
    uint64_t scope_id;
    const cn_semantics *semantics;
    uint64_t counter_id;
} cn_counter_attributes;

typedef struct cn_counter_batch {
    uint64_t counter_id;
    const void *counters;
    size_t counters_size;
    uint64_t flags;
    const int64_t *timestamps;
    size_t timestamps_size;
} cn_counter_batch;

/* Events that the program has measured before and submits together. */
typedef struct cn_event_batch {
    uint64_t schema_id;
    size_t size;
    const void *events;
    uint64_t scope, flags;
    const void *flexible;
    size_t flexible_size, flexible_offset;
} cn_event_batch;

#endif

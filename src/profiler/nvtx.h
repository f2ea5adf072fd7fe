/* The NVTX interface, version 3, from the program's side: the structures that it shares with a tool.
 * Written from the facts of the interface; tests/peers compares them with NVIDIA's header.
 *
 * The tool's library exports InitializeInjectionNvtx2(get). It calls get(id) for tables; the one of
 * callbacks gives it, for each module, an array of addresses of function pointers, which it fills
 * in with functions of its own, by number. A pointer that stays NULL is a function that the tool
 * does not provide. */
#ifndef KP_NVTX_H
#define KP_NVTX_H

#include <stddef.h>
#include <stdint.h>

#define KP_NVTX_VARIABLE   "NVTX_INJECTION64_PATH"
#define KP_NVTX_INITIALIZE "InitializeInjectionNvtx2"
#define KP_NVTX_VERSION    3

typedef void (*kp_nvtx_function)(void);

/** Numbers of the tables that the tool may request. */
enum { KP_NVTX_TABLE_CALLBACKS = 1, KP_NVTX_TABLE_VERSION = 3 };

/** Modules: X(NAME, number, slots of the table; number 0 is unused). */
#define KP_NVTX_MODULE_MAP(X)                                                                      \
    X(CORE, 1, 16)                                                                                 \
    X(CUDA, 2, 9)                                                                                  \
    X(OPENCL, 3, 15)                                                                               \
    X(CUDART, 4, 7)                                                                                \
    X(CORE2, 5, 16)                                                                                \
    X(SYNC, 6, 7)
enum {
#define X(name, number, count) KP_NVTX_MODULE_##name = (number),
    KP_NVTX_MODULE_MAP(X)
#undef X
        KP_NVTX_MODULES = 7
};

/** Numbers of the functions that we call; those with a domain are in CORE2, the others in CORE. */
enum {
    KP_NVTX_MARK_EX = 1,
    KP_NVTX_MARK_A = 2,
    KP_NVTX_RANGE_PUSH_EX = 8,
    KP_NVTX_RANGE_PUSH_A = 9,
    KP_NVTX_RANGE_POP = 11,
    KP_NVTX_DOMAIN_MARK_EX = 1,
    KP_NVTX_DOMAIN_RANGE_PUSH_EX = 4,
    KP_NVTX_DOMAIN_RANGE_POP = 5,
    KP_NVTX_DOMAIN_CREATE_A = 12
};

typedef int (*kp_nvtx_module_table)(int module, kp_nvtx_function ***table, unsigned *count);
typedef struct kp_nvtx_callbacks {
    size_t struct_size;
    kp_nvtx_module_table module_table; /* returns 1, or 0: no such module */
} kp_nvtx_callbacks;

typedef struct kp_nvtx_versions {
    size_t struct_size;
    uint32_t version; /* of the program's side */
    uint32_t reserved;
    void (*set_injection_version)(uint32_t version);
} kp_nvtx_versions;

typedef const void *(*kp_nvtx_export_table)(uint32_t table);
/** Returns 0 if the tool refuses or fails. */
typedef int (*kp_nvtx_initialize)(kp_nvtx_export_table get);

#define KP_NVTX_MESSAGE_ASCII 1 /* UTF-8 in fact */

/** nvtxEventAttributes_t. */
typedef struct kp_nvtx_attributes {
    uint16_t version, size; /* KP_NVTX_VERSION, sizeof */
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
} kp_nvtx_attributes;

typedef int (*kp_nvtx_push_a)(const char *text);
typedef int (*kp_nvtx_push_ex)(const kp_nvtx_attributes *range);
typedef int (*kp_nvtx_pop)(void);
typedef void (*kp_nvtx_mark_a)(const char *text);
typedef void (*kp_nvtx_mark_ex)(const kp_nvtx_attributes *mark);
typedef void *(*kp_nvtx_domain_create)(const char *name);
typedef int (*kp_nvtx_domain_push)(void *domain, const kp_nvtx_attributes *range);
typedef int (*kp_nvtx_domain_pop)(void *domain);
typedef void (*kp_nvtx_domain_mark)(void *domain, const kp_nvtx_attributes *mark);

#endif

/* What the proposed plug-in interface looks like in memory, for code of its time: written from the
 * table of offsets alone, for C and C++, and independent of the project's headers. Names are ours.
 */
#ifndef FOREIGN_LAYOUT_H
#define FOREIGN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* The first member of every struct: the offset of the last member and its size. */
#define KP_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Numbers of event types that are used here. */
enum {
    KP_KERNEL = 6,
    KP_CUDA_RUNTIME = 8,
    KP_CPU_INSTANT = 10,
    KP_GPU_PM_COUNTER = 22,
    KP_EARLY_CUDA_SYNC = 13, /* in the first review's numbering */
    KP_EARLY_GPU_PM_COUNTER = 14
};
enum { KP_FLOW_ASYNC = 2 };

typedef struct kp_event {
    size_t size;
    int32_t type;
    int64_t start_ns, end_ns;
    int64_t id;
    int32_t device;   /* or process */
    int32_t resource; /* or thread */
} kp_event;
#define KP_EVENT_SIZE 48u

typedef struct kp_flow {
    size_t size;
    int32_t type;
    uint32_t id;
    uint8_t is_start; /* a C++ bool */
} kp_flow;
#define KP_FLOW_SIZE 17u

typedef struct kp_device {
    size_t size;
    int64_t id, sort_index;
    const char *name, *label;
} kp_device;
#define KP_DEVICE_SIZE 40u

typedef struct kp_resource {
    size_t size;
    int32_t device;   /* or process */
    int32_t resource; /* or thread */
    int32_t display_order;
    const char *name;
} kp_resource;
#define KP_RESOURCE_SIZE 32u

typedef struct kp_builder {
    size_t size;
    void *self;
    int (*add_event)(void *, const kp_event *);
    int (*set_name)(void *, const char *);
    int (*set_flow)(void *, const kp_flow *);
    int (*add_metadata)(void *, const char *key, const char *json);
    int (*add_device)(void *, const kp_device *);
    int (*add_resource)(void *, const kp_resource *);
} kp_builder;
#define KP_BUILDER_SIZE 64u

/* create of the last revision (B); before it ended with the handle. */
typedef struct kp_create {
    size_t size;
    void *handle; /* out */
    const int32_t *types;
    size_t type_count;
} kp_create;
#define KP_CREATE_SIZE   32u
#define KP_CREATE_SIZE_0 16u

/* destroy, stop, start of revisions 0 and B, pop */
typedef struct kp_handle {
    size_t size;
    void *handle;
} kp_handle;
#define KP_HANDLE_SIZE 16u

/* start of revision A */
typedef struct kp_start_a {
    size_t size;
    const int32_t *types;
    size_t type_count;
    void *handle;
} kp_start_a;
#define KP_START_A_SIZE 32u

typedef struct kp_query {
    size_t size;
    void *handle;
    char *name;
    size_t name_max; /* without the NUL */
    int32_t *types;
    size_t type_max;
} kp_query;
#define KP_QUERY_SIZE 48u

typedef struct kp_push {
    size_t size;
    uint64_t id;
    void *handle;
} kp_push;
#define KP_PUSH_SIZE 24u

typedef struct kp_process {
    size_t size;
    void *handle;
    const kp_builder *builder;
} kp_process;
#define KP_PROCESS_SIZE 24u

typedef struct kp_interface {
    size_t size;
    int (*create)(kp_create *);
    int (*destroy)(kp_handle *);
    int (*query)(kp_query *);
    int (*start)(kp_handle *);
    int (*stop)(kp_handle *);
    int (*push)(kp_push *);
    int (*pop)(kp_handle *);
    int (*push_user)(kp_push *);
    int (*pop_user)(kp_handle *);
    int (*process)(kp_process *);
} kp_interface;
#define KP_INTERFACE_SIZE 88u

typedef struct kp_registry {
    size_t size;
    void *self;
    int (*add)(void *, const kp_interface *);
} kp_registry;
#define KP_REGISTRY_SIZE 24u

#define KP_ENTRY "KinetoPlugin_register"
typedef int (*kp_entry)(const kp_registry *);

#ifdef __cplusplus
#define KP_ASSERT static_assert
#else
#define KP_ASSERT _Static_assert
#endif
KP_ASSERT(KP_SIZE(kp_event, resource) == KP_EVENT_SIZE, "event");
KP_ASSERT(KP_SIZE(kp_flow, is_start) == KP_FLOW_SIZE, "flow");
KP_ASSERT(KP_SIZE(kp_device, label) == KP_DEVICE_SIZE, "device");
KP_ASSERT(KP_SIZE(kp_resource, name) == KP_RESOURCE_SIZE, "resource");
KP_ASSERT(KP_SIZE(kp_builder, add_resource) == KP_BUILDER_SIZE, "builder");
KP_ASSERT(KP_SIZE(kp_create, type_count) == KP_CREATE_SIZE, "create");
KP_ASSERT(KP_SIZE(kp_create, handle) == KP_CREATE_SIZE_0, "create, revision 0");
KP_ASSERT(KP_SIZE(kp_handle, handle) == KP_HANDLE_SIZE, "handle");
KP_ASSERT(KP_SIZE(kp_start_a, handle) == KP_START_A_SIZE, "start, revision A");
KP_ASSERT(KP_SIZE(kp_query, type_max) == KP_QUERY_SIZE, "query");
KP_ASSERT(KP_SIZE(kp_push, handle) == KP_PUSH_SIZE, "push");
KP_ASSERT(KP_SIZE(kp_process, builder) == KP_PROCESS_SIZE, "process");
KP_ASSERT(KP_SIZE(kp_interface, process) == KP_INTERFACE_SIZE, "interface");
KP_ASSERT(KP_SIZE(kp_registry, add) == KP_REGISTRY_SIZE, "registry");
#endif

/* Activities of kernels, with Kineto's names of values. Values that are the same for all launches of a
 * kernel on a queue are registered with the host as one set. */
#include "xpu.h"

#include "../common/demangle.h"

#include <stdlib.h>

/* Words of the key of a set. */
enum { DEVICE = 1, CONTEXT, SYCL_QUEUE = CONTEXT + 2, QUEUE = SYCL_QUEUE + 2, FILE_NAME = QUEUE + 2,
       LINE = FILE_NAME + 2, KEY_END = LINE + 1 };
_Static_assert(KEY_END <= sizeof(cp_set_key) / sizeof(uint32_t), "a key holds all words");

typedef struct kernel_scratch {
    char context[24], queue[24];
} kernel_scratch;

/* Kineto's order. */
static void describe_kernel(const cp_set_key *key, const xp_kernel_record *r, cp_values *out,
                            kernel_scratch *scratch)
{
    cp_value_uint(out, "device", key->words[DEVICE]);
    xp_value_handle(out, "context", xp_get_key(key, CONTEXT), scratch->context);
    cp_value_uint(out, "sycl queue", xp_get_key(key, SYCL_QUEUE));
    xp_value_handle(out, "l0 queue", xp_get_key(key, QUEUE), scratch->queue);
    if (!r->source_file || !*r->source_file)
        return;
    cp_value_bytes(out, "source_file_name", KINETO_PLUGIN_VALUE_STRING, r->source_file,
                   strlen(r->source_file));
    cp_value_uint(out, "source_line_number", r->source_line);
}

static cp_set_key make_kernel_key(const xp_kernel_record *r, int32_t device)
{
    cp_set_key key = {{XP_SET_KERNEL, [DEVICE] = (uint32_t)device, [LINE] = (uint32_t)r->source_line}};
    xp_put_key(&key, CONTEXT, (uintptr_t)r->context);
    xp_put_key(&key, SYCL_QUEUE, r->sycl_queue);
    xp_put_key(&key, QUEUE, (uintptr_t)r->queue);
    xp_put_key(&key, FILE_NAME, xp_hash_text(r->source_file));
    return key;
}

/* Microseconds before the start, as Kineto has them; 0: PTI does not know. */
static void add_launch_time(cp_values *v, const char *key, uint64_t time, uint64_t start)
{
    if (time)
        cp_value_double(v, key, (double)(int64_t)(time - start) / 1000.0);
}

static void add_launch_times(cp_values *v, const xp_kernel_record *r)
{
    add_launch_time(v, "appended_rel_to_start", r->appended, r->start);
    add_launch_time(v, "submitted_rel_to_start", r->submitted, r->start);
    add_launch_time(v, "sycl_task_begin_rel_to_start", r->task_begin, r->start);
    add_launch_time(v, "sycl_enqk_begin_rel_to_start", r->enqueue_begin, r->start);
}

/* PTI demangles names, unless it cannot; a kernel of SYCL is named by a type. @return the name;
 * *to_free must be freed. */
static const char *get_readable_name(const char *name, char **to_free)
{
    static const char prefix[] = "typeinfo name for ";
    int status = -1;
    *to_free = NULL;
    if (name && strncmp(name, "_Z", 2) == 0) {
        plugin_demangler demangle = plugin_get_demangler();
        *to_free = demangle ? demangle(name, NULL, NULL, &status) : NULL;
        name = *to_free ? *to_free : name;
    }
    return name && strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

void xp_read_kernel(xp_decoder *d, const xp_kernel_record *r)
{
    KinetoPlugin_Activity a;
    cp_values v;
    kernel_scratch scratch;
    char *to_free;
    if (!xp_begin_activity(d, &a, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, r->start, r->end))
        return;
    int32_t device = xp_device_of(d, r->uuid);
    cp_set_key key = make_kernel_key(r, device);
    v.count = 0;
    a.metadataSet = cp_sets_find(d->sets, &key);
    if (!a.metadataSet) {
        describe_kernel(&key, r, &v, &scratch);
        a.metadataSet = cp_sets_add(d->sets, d->builder, &key, &v);
    }
    cp_value_uint(&v, "kernel_id", r->kernel_id);
    cp_value_uint(&v, "sycl_node_id", r->node);
    cp_value_uint(&v, "sycl_invocation_id", r->invocation);
    if (d->times)
        add_launch_times(&v, r);
    xp_name_activity(d, &a, get_readable_name(r->name, &to_free), "(unknown kernel)");
    xp_place_on_device(d, &a, device, xp_stream_of(d, r->sycl_queue, r->queue), r->correlation);
    xp_deliver_activity(d, &a, &v);
    free(to_free);
}

/* The allocator that keeps what is given back and reports it; tensors as counted views. */
#include "tensor.h"
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------ */

/* What is free is kept by its size, so that a training loop comes to need nothing new. The lists do
 * not lie in that memory: the device may still work on what the program has given back. What gets
 * it next is queued behind that. */
enum { GRANULE = 512, BUCKETS = 64 };
typedef struct block {
    struct block *next;
    void *data; /* NULL: an entry without memory */
    size_t bytes;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *cached[BUCKETS], *spare;
static memory_statistics statistics;

static size_t rounded(size_t bytes) { return (bytes + GRANULE) / GRANULE * GRANULE; }

static block **bucket_of(size_t bytes) { return &cached[bytes / GRANULE % BUCKETS]; }

static void out_of_memory(void)
{
    fprintf(stderr, "transformer: out of memory\n");
    exit(1);
}

void *zeroed(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (!memory)
        out_of_memory();
    return memory;
}

static kineto_memory_event event_of(const void *data, int64_t bytes)
{
    return (kineto_memory_event){
        .size = sizeof(kineto_memory_event),
        .address = (uint64_t)(uintptr_t)data,
        .bytes = bytes,
        .total_allocated_bytes = statistics.allocated_bytes,
        .total_reserved_bytes = statistics.reserved_bytes,
        .device_type = device_is_sim() ? KINETO_DEVICE_PRIVATEUSE1 : KINETO_DEVICE_CPU,
        .device_index = device_is_sim() ? 0 : -1,
    };
}

static void *take_cached(size_t bytes)
{
    for (block **at = bucket_of(bytes); *at; at = &(*at)->next)
        if ((*at)->bytes == bytes) {
            block *found = *at;
            void *data = found->data;
            *at = found->next;
            *found = (block){spare, NULL, 0};
            spare = found;
            return data;
        }
    return NULL;
}

static void cache(void *data, size_t bytes)
{
    block *entry = spare ? spare : zeroed(1, sizeof *entry);
    if (spare)
        spare = entry->next;
    *entry = (block){*bucket_of(bytes), data, bytes};
    *bucket_of(bytes) = entry;
}

void *memory_allocate(size_t bytes)
{
    bytes = rounded(bytes);
    pthread_mutex_lock(&lock);
    void *data = take_cached(bytes);
    if (!data) {
        data = aligned_alloc(64, bytes);
        statistics.reserved_bytes += data ? bytes : 0;
    }
    if (data) {
        statistics.allocated_bytes += bytes;
        if (statistics.allocated_bytes > statistics.peak_bytes)
            statistics.peak_bytes = statistics.allocated_bytes;
    }
    kineto_memory_event event = event_of(data, (int64_t)bytes);
    if (data)
        kineto_memory(&event);
    else
        kineto_out_of_memory(&event);
    pthread_mutex_unlock(&lock);
    if (!data)
        out_of_memory();
    return data;
}

void memory_free(void *data, size_t bytes)
{
    bytes = rounded(bytes);
    pthread_mutex_lock(&lock);
    statistics.allocated_bytes -= bytes;
    kineto_memory_event event = event_of(data, -(int64_t)bytes);
    kineto_memory(&event);
    cache(data, bytes);
    pthread_mutex_unlock(&lock);
}

memory_statistics memory_get_statistics(void)
{
    pthread_mutex_lock(&lock);
    memory_statistics result = statistics;
    pthread_mutex_unlock(&lock);
    return result;
}

static void drop(block **list)
{
    while (*list) {
        block *first = *list;
        *list = first->next;
        statistics.reserved_bytes -= first->bytes;
        free(first->data);
        free(first);
    }
}

void memory_empty_cache(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++)
        drop(&cached[i]);
    drop(&spare);
    pthread_mutex_unlock(&lock);
}

/* ---- tensors ----------------------------------------------------------------------------------- */

static size_t dtype_bytes(uint32_t dtype)
{
    return dtype == KINETO_DTYPE_INT64 ? 8 : dtype == KINETO_DTYPE_BOOL ? 1 : 4;
}

static tensor *make(storage *memory, uint32_t dtype, uint32_t rank, const int64_t *sizes,
                    const int64_t *strides, int64_t offset)
{
    static uint64_t last_id;
    tensor *x = zeroed(1, sizeof *x);
    int64_t stride = 1;
    for (uint32_t i = rank; i-- > 0;) {
        x->sizes[i] = sizes[i];
        x->strides[i] = strides ? strides[i] : stride;
        stride *= sizes[i];
    }
    x->memory = memory;
    x->references = 1;
    x->meta = (kineto_tensor){
        .sizes = x->sizes,
        .strides = x->strides,
        .rank = rank,
        .dtype = (uint8_t)dtype,
        .device_type = device_is_sim() ? KINETO_DEVICE_PRIVATEUSE1 : KINETO_DEVICE_CPU,
        .device_index = device_is_sim() ? 0 : -1,
        .id = ++last_id, /* threads that make tensors take turns */
        .storage_id = (uint64_t)(uintptr_t)memory->data,
        .storage_offset = offset,
    };
    return x;
}

tensor *tensor_new(kineto_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    storage *memory = zeroed(1, sizeof *memory);
    memory->references = 1;
    memory->bytes = dtype_bytes(dtype);
    for (uint32_t i = 0; i < rank; i++)
        memory->bytes *= (size_t)sizes[i];
    memory->data = memory_allocate(memory->bytes);
    return make(memory, dtype, rank, sizes, NULL, 0);
}

tensor *tensor_like(const tensor *x)
{
    return tensor_new((kineto_dtype)x->meta.dtype, x->meta.rank, x->sizes);
}

tensor *tensor_alias(const tensor *x, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                     int64_t offset)
{
    x->memory->references++;
    return make(x->memory, x->meta.dtype, rank, sizes, strides, x->meta.storage_offset + offset);
}

tensor *tensor_retain(tensor *x)
{
    x->references++;
    return x;
}

void tensor_release(tensor *x)
{
    if (!x || --x->references)
        return;
    tensor_release(x->grad);
    if (--x->memory->references == 0) {
        memory_free(x->memory->data, x->memory->bytes);
        free(x->memory);
    }
    free(x);
}

tensor *then(tensor *old, tensor *result)
{
    tensor_release(old);
    return result;
}

int64_t tensor_count(const tensor *x)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < x->meta.rank; i++)
        count *= x->sizes[i];
    return count;
}

size_t tensor_bytes(const tensor *x)
{
    return (size_t)tensor_count(x) * dtype_bytes(x->meta.dtype);
}

bool tensor_is_contiguous(const tensor *x)
{
    int64_t stride = 1;
    for (uint32_t i = x->meta.rank; i-- > 0; stride *= x->sizes[i])
        if (x->sizes[i] != 1 && x->strides[i] != stride)
            return false;
    return true;
}

void *tensor_data(const tensor *x)
{
    return (char *)x->memory->data + (size_t)x->meta.storage_offset * dtype_bytes(x->meta.dtype);
}

/* The caching allocator, which reports to profilers; tensors as counted views. */
#include "tensor.h"
#include "device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

/* Released memory is cached by size, so that a training loop soon allocates nothing new. The lists
 * are outside of that memory, because the device may still use memory that the program has
 * released; later users of it are queued after that work. */
enum { GRANULE = 512, BUCKETS = 64 };
typedef struct block {
    struct block *next;
    /* NULL: an entry without memory. */
    void *data;
    size_t bytes;
} block;

static pthread_mutex_t allocator_lock = PTHREAD_MUTEX_INITIALIZER;
static block *cached[BUCKETS], *spare;
static memory_statistics statistics;

static size_t round_up_bytes(size_t bytes) { return (bytes + GRANULE) / GRANULE * GRANULE; }

static block **get_bucket(size_t bytes) { return &cached[bytes / GRANULE % BUCKETS]; }

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

/* A change of the memory in use. The lock is held, so that totals are consistent. */
static kineto_memory_event make_memory_event(const void *data, int64_t bytes)
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

/* Takes memory of exactly this size from the cache; NULL: there is none. The lock is held. */
static void *take_cached(size_t bytes)
{
    for (block **at = get_bucket(bytes); *at; at = &(*at)->next)
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

/* Puts memory into the cache. The lock is held. */
static void cache_block(void *data, size_t bytes)
{
    block *entry = spare ? spare : zeroed(1, sizeof *entry);
    if (spare)
        spare = entry->next;
    *entry = (block){*get_bucket(bytes), data, bytes};
    *get_bucket(bytes) = entry;
}

/* Cached memory of the same size if there is any. The event is reported under the lock, so that
 * events are in the order of changes. */
void *memory_allocate(size_t bytes)
{
    bytes = round_up_bytes(bytes);
    pthread_mutex_lock(&allocator_lock);
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
    kineto_memory_event event = make_memory_event(data, (int64_t)bytes);
    if (data)
        kineto_memory_report(&event);
    else
        kineto_memory_report_failure(&event);
    pthread_mutex_unlock(&allocator_lock);
    if (!data)
        out_of_memory();
    return data;
}

/* The memory goes to the cache: kernels that are queued may still use it. */
void memory_free(void *data, size_t bytes)
{
    bytes = round_up_bytes(bytes);
    pthread_mutex_lock(&allocator_lock);
    statistics.allocated_bytes -= bytes;
    kineto_memory_event event = make_memory_event(data, -(int64_t)bytes);
    kineto_memory_report(&event);
    cache_block(data, bytes);
    pthread_mutex_unlock(&allocator_lock);
}

memory_statistics memory_get_statistics(void)
{
    pthread_mutex_lock(&allocator_lock);
    memory_statistics result = statistics;
    pthread_mutex_unlock(&allocator_lock);
    return result;
}

/* Frees cached memory and the entries. The lock is held. */
static void free_block_list(block **list)
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
    pthread_mutex_lock(&allocator_lock);
    for (int i = 0; i < BUCKETS; i++)
        free_block_list(&cached[i]);
    free_block_list(&spare);
    pthread_mutex_unlock(&allocator_lock);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static size_t dtype_bytes(uint32_t dtype)
{
    if (dtype == KINETO_DTYPE_INT64)
        return 8;
    return dtype == KINETO_DTYPE_BOOL ? 1 : 4;
}

/* A tensor over `memory`, whose reference it takes over. */
static tensor *create_view(storage *memory, uint32_t dtype, uint32_t rank, const int64_t *sizes,
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
        .id = ++last_id, /* without a lock: threads create tensors one at a time */
        .storage_id = (uint64_t)(uintptr_t)memory->data,
        .storage_offset = offset,
    };
    return x;
}

/* The memory is owned by the first view. */
tensor *tensor_new(kineto_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    storage *memory = zeroed(1, sizeof *memory);
    memory->references = 1;
    memory->bytes = dtype_bytes(dtype);
    for (uint32_t i = 0; i < rank; i++)
        memory->bytes *= (size_t)sizes[i];
    memory->data = memory_allocate(memory->bytes);
    return create_view(memory, dtype, rank, sizes, NULL, 0);
}

tensor *tensor_like(const tensor *x)
{
    return tensor_new((kineto_dtype)x->meta.dtype, x->meta.rank, x->sizes);
}

tensor *tensor_alias(const tensor *x, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                     int64_t offset)
{
    x->memory->references++;
    return create_view(x->memory, x->meta.dtype, rank, sizes, strides,
                       x->meta.storage_offset + offset);
}

tensor *tensor_retain(tensor *x)
{
    x->references++;
    return x;
}

/* The last view frees the memory. */
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

/* Dimensions of size 1 may have any stride. */
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

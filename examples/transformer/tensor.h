/* Tensors: reference-counted views of memory from an allocator that caches released memory and
 * reports allocations to profilers, as PyTorch's allocators do. */
#ifndef TRANSFORMER_TENSOR_H
#define TRANSFORMER_TENSOR_H

#include <ckineto/function.h>

#include <stddef.h>

#define MAX_RANK 5

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct memory_statistics {
    uint64_t allocated_bytes, reserved_bytes, peak_bytes;
} memory_statistics;

void *memory_allocate(size_t bytes);
void memory_free(void *data, size_t bytes);
memory_statistics memory_get_statistics(void);
/* Return cached memory to the system. */
void memory_empty_cache(void);

/* calloc that exits the program if out of memory. */
void *zeroed(size_t count, size_t bytes);

/* ---- tensors --------------------------------------------------------------------------------- */

typedef struct storage {
    void *data;
    size_t bytes;
    uint32_t references;
} storage;

struct node;

typedef struct tensor {
    /* What profilers see; points into this tensor. */
    kineto_tensor meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    storage *memory;
    uint32_t references;
    bool requires_grad;
    /* The operator that computed it, owned by the tape; NULL: a leaf. */
    struct node *grad_node;
    uint32_t grad_output;
    struct tensor *grad; /* of a leaf */
} tensor;

/* A new tensor with uninitialised memory of its own. */
tensor *tensor_new(kineto_dtype dtype, uint32_t rank, const int64_t *sizes);
tensor *tensor_like(const tensor *x);
/* Another view of the same memory; strides NULL: contiguous. The offset is in elements. */
tensor *tensor_alias(const tensor *x, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                     int64_t offset);
tensor *tensor_retain(tensor *x);
/* NULL is ignored. */
void tensor_release(tensor *x);
/* Release the first, return the second: x = then(x, gelu(x)). */
tensor *then(tensor *old, tensor *result);

int64_t tensor_count(const tensor *x);
size_t tensor_bytes(const tensor *x);
bool tensor_is_contiguous(const tensor *x);
void *tensor_data(const tensor *x);
static inline float *floats(const tensor *x) { return tensor_data(x); }
/* The tensor as an input that profilers record. */
static inline kineto_input in_tensor(const tensor *x)
{
    return kineto_input_tensor(x ? &x->meta : NULL);
}

#endif

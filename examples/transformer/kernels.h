/* Kernels for one item of a grid, and functions that launch them. Grids and the order of additions
 * are the same on all devices, so that results are the same to the last bit. */
#ifndef TRANSFORMER_KERNELS_H
#define TRANSFORMER_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Threads of a matrix product; the library that computes it. */
void kernels_set_threads(int count);
const char *kernels_product_by(void);

/* ---- products: c = a · b (+ bias on each row), for each matrix of a batch -------------------- */

typedef struct product {
    const float *a, *b, *bias; /* bias may be NULL */
    float *c;
    int64_t m, n, k;
    /* From row to row, or if transposed from column to column. */
    int64_t lda, ldb;
    bool transpose_a, transpose_b;
    int64_t step_a, step_b, step_c; /* from matrix to matrix */
    int64_t batch;
} product;
void launch_product(const char *name, const product *p);

/* ---- element by element ---------------------------------------------------------------------- */

typedef enum elementwise_op {
    ELEMENT_ADD,       /* a + b */
    ELEMENT_SCALE,     /* a · value */
    ELEMENT_FILL,      /* value */
    ELEMENT_MASK,      /* b != 0 ? value : a; b has bytes */
    ELEMENT_GELU,      /* gelu(a) */
    ELEMENT_GELU_GRAD, /* a · gelu'(b) */
    ELEMENT_LERP,      /* a + value · (b - a) */
    ELEMENT_ADDCMUL,   /* out + value · a · b */
    ELEMENT_SQRT,      /* √a */
    ELEMENT_ADD_VALUE, /* a + value */
    ELEMENT_ADDCDIV,   /* out + value · a / b */
    ELEMENT_OPS
} elementwise_op;
/* b repeats every `period` elements; 0: it is as long as out. */
void launch_elementwise(elementwise_op op, float *out, const float *a, const void *b, float value,
                        int64_t count, int64_t period);

/* ---- copies with strides, of elements of 4 or 8 bytes ---------------------------------------- */

typedef struct strided {
    void *to;
    const void *from;
    uint32_t rank, bytes;
    /* Of `from`; `to` is contiguous. */
    int64_t sizes[5], strides[5];
} strided;
void launch_copy(const char *name, const strided *copy);

/* ---- rows of `width` ------------------------------------------------------------------------- */

void launch_sum_rows(float *out, const float *x, int64_t rows, int64_t width);
void launch_layer_norm(float *out, float *mean, float *scale, const float *x, const float *weight,
                       const float *bias, float epsilon, int64_t rows, int64_t width);
void launch_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dout,
                            const float *x, const float *mean, const float *scale,
                            const float *weight, int64_t rows, int64_t width);
void launch_softmax(float *out, const float *x, bool logarithm, int64_t rows, int64_t width);
void launch_softmax_grad(float *dx, const float *dout, const float *out, bool logarithm,
                         int64_t rows, int64_t width);
void launch_embedding(float *out, const float *weight, const int64_t *indices, int64_t rows,
                      int64_t width);
void launch_embedding_grad(float *dweight, const float *dout, const int64_t *indices, int64_t rows,
                           int64_t width, int64_t words);
void launch_nll_loss(float *loss, const float *x, const int64_t *targets, int64_t rows,
                     int64_t width);
void launch_nll_loss_grad(float *dx, const float *dloss, const int64_t *targets, int64_t rows,
                          int64_t width);

#endif

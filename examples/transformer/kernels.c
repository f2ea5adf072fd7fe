/* Kernels of matrix products, element-wise operations and strided copies. */
#include "kernels.h"
#include "device.h"

#include <math.h>
#include <string.h>

#ifdef TRANSFORMER_WITH_OPENBLAS
#include <cblas.h>
#endif

/* ---- products -------------------------------------------------------------------------------- */

/* Rows of the result per item: the same on all devices, so that rounding is the same. */
enum { PRODUCT_ROWS = 64 };

#ifdef TRANSFORMER_WITH_OPENBLAS

void kernels_set_threads(int count) { openblas_set_num_threads(count); }
const char *kernels_product_by(void) { return "OpenBLAS"; }

static void multiply_rows(const product *p, const float *a, const float *b, float *c, int64_t rows)
{
    cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans,
                p->transpose_b ? CblasTrans : CblasNoTrans, (blasint)rows, (blasint)p->n,
                (blasint)p->k, 1, a, (blasint)p->lda, b, (blasint)p->ldb, 1, c, (blasint)p->n);
}

#else

void kernels_set_threads(int count) { (void)count; }
const char *kernels_product_by(void) { return "a plain loop"; }

/* Four partial sums, so that additions do not wait for each other. */
static float dot_product(const float *a, int64_t step, const float *b, int64_t count)
{
    float sums[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int64_t j = 0; j < 4; j++)
            sums[j] += a[(i + j) * step] * b[i + j];
    for (; i < count; i++)
        sums[0] += a[i * step] * b[i];
    return sums[0] + sums[1] + (sums[2] + sums[3]);
}

/* c += factor · b */
static void add_scaled_row(float *c, float factor, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        c[i] += factor * b[i];
}

/* A block of rows of the product; the loops follow the order of b in memory. */
static void multiply_rows(const product *p, const float *a, const float *b, float *c, int64_t rows)
{
    int64_t a_row = p->transpose_a ? 1 : p->lda, a_column = p->transpose_a ? p->lda : 1;
    for (int64_t i = 0; i < rows; i++, a += a_row, c += p->n) {
        for (int64_t j = 0; p->transpose_b && j < p->n; j++)
            c[j] += dot_product(a, a_column, b + j * p->ldb, p->k);
        for (int64_t k = 0; !p->transpose_b && k < p->k; k++)
            add_scaled_row(c, a[k * a_column], b + k * p->ldb, p->n);
    }
}

#endif

static uint32_t count_blocks(const product *p)
{
    return (uint32_t)((p->m + PRODUCT_ROWS - 1) / PRODUCT_ROWS);
}

/* A block of rows of one matrix of the batch. */
static void product_kernel(void *arguments, uint32_t item)
{
    const product *p = arguments;
    int64_t matrix = item / count_blocks(p), row = (int64_t)(item % count_blocks(p)) * PRODUCT_ROWS;
    int64_t rows = p->m - row < PRODUCT_ROWS ? p->m - row : PRODUCT_ROWS;
    const float *a = p->a + matrix * p->step_a + row * (p->transpose_a ? 1 : p->lda);
    float *c = p->c + matrix * p->step_c + row * p->n;
    for (int64_t i = 0; i < rows; i++)
        if (p->bias)
            memcpy(c + i * p->n, p->bias, (size_t)p->n * sizeof *c);
        else
            memset(c + i * p->n, 0, (size_t)p->n * sizeof *c);
    multiply_rows(p, a, p->b + matrix * p->step_b, c, rows);
}

void launch_product(const char *name, const product *p)
{
    device_launch(name, count_blocks(p) * (uint32_t)p->batch, product_kernel, p, sizeof *p);
}

/* ---- element by element ---------------------------------------------------------------------- */

enum { CHUNK = 4096 };
typedef struct elementwise {
    elementwise_op op;
    float *out;
    const float *a;
    const void *b;
    float value;
    int64_t count, period;
} elementwise;

static float gelu(float x) { return 0.5f * x * (1 + erff(x * 0.70710678f)); }
static float gelu_slope(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f)) + x * 0.39894228f * expf(-0.5f * x * x);
}

/* Operations with one operand, on a range of elements. */
static void map_one(const elementwise *e, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        switch (e->op) {
        case ELEMENT_SCALE:
            e->out[i] = e->a[i] * e->value;
            break;
        case ELEMENT_FILL:
            e->out[i] = e->value;
            break;
        case ELEMENT_GELU:
            e->out[i] = gelu(e->a[i]);
            break;
        case ELEMENT_SQRT:
            e->out[i] = sqrtf(e->a[i]);
            break;
        default:
            e->out[i] = e->a[i] + e->value;
            break;
        }
}

/* Operations with two operands; the second may repeat. */
static void map_two(const elementwise *e, int64_t begin, int64_t end)
{
    const float *b = e->b;
    const uint8_t *mask = e->b;
    for (int64_t i = begin; i < end; i++) {
        int64_t j = e->period ? i % e->period : i;
        switch (e->op) {
        case ELEMENT_ADD:
            e->out[i] = e->a[i] + b[j];
            break;
        case ELEMENT_MASK:
            e->out[i] = mask[j] ? e->value : e->a[i];
            break;
        case ELEMENT_GELU_GRAD:
            e->out[i] = e->a[i] * gelu_slope(b[j]);
            break;
        case ELEMENT_LERP:
            e->out[i] = e->a[i] + e->value * (b[j] - e->a[i]);
            break;
        case ELEMENT_ADDCMUL:
            e->out[i] += e->value * e->a[i] * b[j];
            break;
        default:
            e->out[i] += e->value * e->a[i] / b[j];
            break;
        }
    }
}

/* One item is a range of elements of fixed length. */
static void elementwise_kernel(void *arguments, uint32_t item)
{
    const elementwise *e = arguments;
    int64_t begin = (int64_t)item * CHUNK;
    int64_t end = e->count - begin < CHUNK ? e->count : begin + CHUNK;
    if (e->b)
        map_two(e, begin, end);
    else
        map_one(e, begin, end);
}

/* The name of the kernel is that of the operation. */
void launch_elementwise(elementwise_op op, float *out, const float *a, const void *b, float value,
                        int64_t count, int64_t period)
{
    static const char *const names[ELEMENT_OPS] = {
        "add_f32",  "scale_f32",   "fill_f32", "masked_fill_f32", "gelu_f32",   "gelu_backward_f32",
        "lerp_f32", "addcmul_f32", "sqrt_f32", "add_scalar_f32",  "addcdiv_f32"};
    elementwise e = {op, out, a, b, value, count, period};
    device_launch(names[op], (uint32_t)((count + CHUNK - 1) / CHUNK), elementwise_kernel, &e,
                  sizeof e);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Copies the innermost dimension. */
static void copy_row(const strided *s, char *to, const char *from, int64_t count, int64_t stride)
{
    if (stride == 1) {
        memcpy(to, from, (size_t)count * s->bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (s->bytes == 4)
            memcpy(to + 4 * i, from + 4 * i * stride, 4);
        else
            memcpy(to + 8 * i, from + 8 * i * stride, 8);
}

/* Copies one index of the first dimension, which is the grid. The dimensions between it and the
 * last count like an odometer. */
static void copy_kernel(void *arguments, uint32_t item)
{
    const strided *s = arguments;
    uint32_t last = s->rank > 1 ? s->rank - 1 : 0;
    int64_t width = last ? s->sizes[last] : 1, rows = 1, index[5] = {0};
    for (uint32_t d = 1; d < last; d++)
        rows *= s->sizes[d];
    char *to = (char *)s->to + item * rows * width * s->bytes;
    int64_t from = s->rank ? item * s->strides[0] : 0;
    for (int64_t i = 0; i < rows; i++, to += width * s->bytes) {
        copy_row(s, to, (const char *)s->from + from * s->bytes, width, s->strides[last]);
        for (uint32_t d = last; d-- > 1;) {
            from += s->strides[d];
            if (++index[d] < s->sizes[d])
                break;
            from -= s->strides[d] * s->sizes[d];
            index[d] = 0;
        }
    }
}

void launch_copy(const char *name, const strided *copy)
{
    device_launch(name, copy->rank ? (uint32_t)copy->sizes[0] : 1, copy_kernel, copy, sizeof *copy);
}

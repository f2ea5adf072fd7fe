/* Kernels that work row by row: norms, softmax, embeddings, the loss. An item of a grid computes
 * several rows. */
#include "device.h"
#include "kernels.h"

#include <math.h>
#include <string.h>

enum { ROWS = 32, COLUMNS = 16 }; /* of an item */
typedef struct rows_arguments {
    float *out, *out2, *out3;
    const float *a, *b, *c, *d, *e;
    const int64_t *indices;
    int64_t rows, width, words;
    float value;
    bool logarithm;
} rows_arguments;

static void launch_rows(const char *name, int64_t items, int64_t of_each, device_kernel kernel,
                        const rows_arguments *r)
{
    device_launch(name, (uint32_t)((items + of_each - 1) / of_each), kernel, r, sizeof *r);
}

/* The first row of an item; *end is the row after its last. */
static int64_t get_first_row(const rows_arguments *r, uint32_t item, int64_t *end)
{
    int64_t begin = (int64_t)item * ROWS;
    *end = r->rows - begin < ROWS ? r->rows : begin + ROWS;
    return begin;
}

/* ---- sums over rows -------------------------------------------------------------------------- */

/* Sums over rows, for a block of columns. */
static void sum_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t begin = (int64_t)item * COLUMNS;
    int64_t end = r->width - begin < COLUMNS ? r->width : begin + COLUMNS;
    for (int64_t column = begin; column < end; column++)
        r->out[column] = 0;
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t column = begin; column < end; column++)
            r->out[column] += r->a[row * r->width + column];
}

void launch_sum_rows(float *out, const float *x, int64_t rows, int64_t width)
{
    rows_arguments r = {.out = out, .a = x, .rows = rows, .width = width};
    launch_rows("reduce_sum_f32", width, COLUMNS, sum_kernel, &r);
}

/* ---- layer norm ------------------------------------------------------------------------------ */

/* Layer norm of a block of rows; keeps mean and scale for the gradient. */
static void norm_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t end, width = r->width;
    for (int64_t row = get_first_row(r, item, &end); row < end; row++) {
        const float *x = r->a + row * width;
        float mean = 0, square = 0;
        for (int64_t i = 0; i < width; i++)
            mean += x[i];
        mean /= (float)width;
        for (int64_t i = 0; i < width; i++)
            square += (x[i] - mean) * (x[i] - mean);
        float scale = 1 / sqrtf(square / (float)width + r->value);
        for (int64_t i = 0; i < width; i++)
            r->out[row * width + i] = (x[i] - mean) * scale * r->b[i] + r->c[i];
        r->out2[row] = mean;
        r->out3[row] = scale;
    }
}

/* Mean and scale of each row are outputs, because the gradient needs them. */
void launch_layer_norm(float *out, float *mean, float *scale, const float *x, const float *weight,
                       const float *bias, float epsilon, int64_t rows, int64_t width)
{
    rows_arguments r = {.out = out,
                        .out2 = mean,
                        .out3 = scale,
                        .a = x,
                        .b = weight,
                        .c = bias,
                        .rows = rows,
                        .width = width,
                        .value = epsilon};
    launch_rows("layer_norm_f32", rows, ROWS, norm_kernel, &r);
}

/* Gradient of the input. a: gradient of the output, b: x, c: mean, d: scale, e: weight. */
static void norm_grad_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t end, width = r->width;
    for (int64_t row = get_first_row(r, item, &end); row < end; row++) {
        const float *x = r->b + row * width, *dout = r->a + row * width;
        float mean = r->c[row], scale = r->d[row], sum = 0, product_sum = 0;
        for (int64_t i = 0; i < width; i++) {
            sum += dout[i] * r->e[i];
            product_sum += dout[i] * r->e[i] * (x[i] - mean) * scale;
        }
        sum /= (float)width;
        product_sum /= (float)width;
        for (int64_t i = 0; i < width; i++)
            r->out[row * width + i] =
                scale * (dout[i] * r->e[i] - sum - (x[i] - mean) * scale * product_sum);
    }
}

/* Gradients of weight and bias, for a block of columns. */
static void norm_weight_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t begin = (int64_t)item * COLUMNS;
    int64_t end = r->width - begin < COLUMNS ? r->width : begin + COLUMNS;
    for (int64_t i = begin; i < end; i++)
        r->out2[i] = r->out3[i] = 0;
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t i = begin; i < end; i++) {
            float dout = r->a[row * r->width + i];
            r->out2[i] += dout * (r->b[row * r->width + i] - r->c[row]) * r->d[row];
            r->out3[i] += dout;
        }
}

/* Two kernels: by rows for the input, by columns for weight and bias. */
void launch_layer_norm_grad(float *dx, float *dweight, float *dbias, const float *dout,
                            const float *x, const float *mean, const float *scale,
                            const float *weight, int64_t rows, int64_t width)
{
    rows_arguments r = {.out = dx,
                        .out2 = dweight,
                        .out3 = dbias,
                        .a = dout,
                        .b = x,
                        .c = mean,
                        .d = scale,
                        .e = weight,
                        .rows = rows,
                        .width = width};
    launch_rows("layer_norm_backward_f32", rows, ROWS, norm_grad_kernel, &r);
    launch_rows("layer_norm_weights_backward_f32", width, COLUMNS, norm_weight_kernel, &r);
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* Softmax or its logarithm; the maximum is subtracted first, so that exp does not overflow. */
static void softmax_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t end, width = r->width;
    for (int64_t row = get_first_row(r, item, &end); row < end; row++) {
        const float *x = r->a + row * width;
        float *out = r->out + row * width, largest = x[0], sum = 0;
        for (int64_t i = 1; i < width; i++)
            largest = x[i] > largest ? x[i] : largest;
        for (int64_t i = 0; i < width; i++)
            sum += out[i] = expf(x[i] - largest);
        for (int64_t i = 0; i < width; i++)
            out[i] = r->logarithm ? x[i] - largest - logf(sum) : out[i] / sum;
    }
}

void launch_softmax(float *out, const float *x, bool logarithm, int64_t rows, int64_t width)
{
    rows_arguments r = {.out = out, .a = x, .rows = rows, .width = width, .logarithm = logarithm};
    launch_rows(logarithm ? "log_softmax_f32" : "softmax_f32", rows, ROWS, softmax_kernel, &r);
}

/* Gradient of the softmax, from its result. */
static void softmax_grad_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t end, width = r->width;
    for (int64_t row = get_first_row(r, item, &end); row < end; row++) {
        const float *dout = r->a + row * width, *out = r->b + row * width;
        float *dx = r->out + row * width, sum = 0;
        for (int64_t i = 0; i < width; i++)
            sum += r->logarithm ? dout[i] : dout[i] * out[i];
        for (int64_t i = 0; i < width; i++)
            dx[i] = r->logarithm ? dout[i] - expf(out[i]) * sum : (dout[i] - sum) * out[i];
    }
}

void launch_softmax_grad(float *dx, const float *dout, const float *out, bool logarithm,
                         int64_t rows, int64_t width)
{
    rows_arguments r = {
        .out = dx, .a = dout, .b = out, .rows = rows, .width = width, .logarithm = logarithm};
    launch_rows(logarithm ? "log_softmax_backward_f32" : "softmax_backward_f32", rows, ROWS,
                softmax_grad_kernel, &r);
}

/* ---- embeddings ------------------------------------------------------------------------------ */

/* Copies the row of each index. */
static void embedding_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t end;
    for (int64_t row = get_first_row(r, item, &end); row < end; row++)
        memcpy(r->out + row * r->width, r->a + r->indices[row] * r->width,
               (size_t)r->width * sizeof *r->out);
}

void launch_embedding(float *out, const float *weight, const int64_t *indices, int64_t rows,
                      int64_t width)
{
    rows_arguments r = {.out = out, .a = weight, .indices = indices, .rows = rows, .width = width};
    launch_rows("embedding_f32", rows, ROWS, embedding_kernel, &r);
}

/* One item for all rows, because several of them may add to the same row of the result. */
static void embedding_grad_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    (void)item;
    memset(r->out, 0, (size_t)(r->words * r->width) * sizeof *r->out);
    for (int64_t row = 0; row < r->rows; row++)
        for (int64_t i = 0; i < r->width; i++)
            r->out[r->indices[row] * r->width + i] += r->a[row * r->width + i];
}

void launch_embedding_grad(float *dweight, const float *dout, const int64_t *indices, int64_t rows,
                           int64_t width, int64_t words)
{
    rows_arguments r = {.out = dweight,
                        .a = dout,
                        .indices = indices,
                        .rows = rows,
                        .width = width,
                        .words = words};
    launch_rows("embedding_backward_f32", 1, 1, embedding_grad_kernel, &r);
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* The mean negative logarithm of the targets' probabilities. */
static void loss_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    double sum = 0;
    (void)item;
    for (int64_t row = 0; row < r->rows; row++)
        sum -= r->a[row * r->width + r->indices[row]];
    *r->out = (float)(sum / (double)r->rows);
}

void launch_nll_loss(float *loss, const float *x, const int64_t *targets, int64_t rows,
                     int64_t width)
{
    rows_arguments r = {.out = loss, .a = x, .indices = targets, .rows = rows, .width = width};
    launch_rows("nll_loss_f32", 1, 1, loss_kernel, &r);
}

/* The gradient of the loss: -1 / rows at each target. */
static void loss_grad_kernel(void *arguments, uint32_t item)
{
    const rows_arguments *r = arguments;
    int64_t end;
    for (int64_t row = get_first_row(r, item, &end); row < end; row++) {
        memset(r->out + row * r->width, 0, (size_t)r->width * sizeof *r->out);
        r->out[row * r->width + r->indices[row]] = -*r->a / (float)r->rows;
    }
}

void launch_nll_loss_grad(float *dx, const float *dloss, const int64_t *targets, int64_t rows,
                          int64_t width)
{
    rows_arguments r = {.out = dx, .a = dloss, .indices = targets, .rows = rows, .width = width};
    launch_rows("nll_loss_backward_f32", rows, ROWS, loss_grad_kernel, &r);
}

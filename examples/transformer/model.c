/* The model: a decoder-only transformer with pre-norm blocks. Its parameters, and the forward pass,
 * which names modules as PyTorch does. */
#include "model.h"
#include "device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ------------------------------------------------------------------------------ */

/* Adds a parameter with random numbers up to `range`; with range 0 all are `value`. */
static tensor *add_parameter(model *m, uint64_t *random, uint32_t rank, const int64_t *sizes,
                             float range, float value)
{
    tensor *x = tensor_new(KINETO_DTYPE_FLOAT, rank, sizes);
    for (int64_t i = 0; i < tensor_count(x); i++)
        floats(x)[i] = range > 0 ? range * random_uniform(random) : value;
    x->requires_grad = true;
    m->parameters[m->parameter_count++] = x;
    return x;
}

/* A linear layer with random weights, and a bias of 0 if it has one. */
static linear make_linear(model *m, uint64_t *random, int64_t out, int64_t in, bool bias)
{
    const int64_t sizes[] = {out, in};
    float range = 1 / sqrtf((float)in);
    linear l = {add_parameter(m, random, 2, sizes, range, 0), NULL};
    if (bias)
        l.bias = add_parameter(m, random, 1, sizes, 0, 0);
    return l;
}

/* A layer norm: weight 1, bias 0. */
static linear make_norm(model *m, int64_t width)
{
    linear l = {add_parameter(m, NULL, 1, &width, 0, 1), NULL};
    l.bias = add_parameter(m, NULL, 1, &width, 0, 0);
    return l;
}

/* An embedding has small random weights and no bias. */
static linear make_embedding(model *m, uint64_t *random, int64_t words, int64_t width)
{
    const int64_t sizes[] = {words, width};
    return (linear){add_parameter(m, random, 2, sizes, 0.1f, 0), NULL};
}

/* The parameters of one block, in the order of PyTorch's modules. */
static void make_block(model *m, uint64_t *random, int64_t layer)
{
    block *b = &m->blocks[layer];
    int64_t width = m->config.width;
    snprintf(b->name, sizeof b->name, "Block_%d", (int)layer);
    b->norm1 = make_norm(m, width);
    b->qkv = make_linear(m, random, 3 * width, width, true);
    b->projection = make_linear(m, random, width, width, true);
    b->norm2 = make_norm(m, width);
    b->up = make_linear(m, random, 4 * width, width, true);
    b->down = make_linear(m, random, width, 4 * width, true);
}

/* The causal mask and the positions, which have no gradients. */
static void make_constants(model *m)
{
    int64_t context = m->config.context, sizes[] = {context, context};
    m->mask = tensor_new(KINETO_DTYPE_BOOL, 2, sizes);
    m->places = tensor_new(KINETO_DTYPE_INT64, 1, sizes);
    uint8_t *mask = tensor_data(m->mask);
    int64_t *places = tensor_data(m->places);
    for (int64_t i = 0; i < context; i++) {
        places[i] = i;
        for (int64_t j = 0; j < context; j++)
            mask[i * context + j] = j > i;
    }
}

/* The order of parameters is that of PyTorch's model.parameters(). */
model *model_new(const model_config *config, uint64_t seed)
{
    model *m = zeroed(1, sizeof *m);
    m->config = *config;
    m->tokens = make_embedding(m, &seed, config->vocabulary, config->width);
    m->positions = make_embedding(m, &seed, config->context, config->width);
    for (int64_t i = 0; i < config->layers; i++)
        make_block(m, &seed, i);
    m->norm = make_norm(m, config->width);
    m->head = make_linear(m, &seed, config->vocabulary, config->width, false);
    make_constants(m);
    return m;
}

void model_free(model *m)
{
    for (uint32_t i = 0; i < m->parameter_count; i++)
        tensor_release(m->parameters[i]);
    tensor_release(m->mask);
    tensor_release(m->places);
    free(m);
}

int64_t model_parameter_count(const model *m)
{
    int64_t count = 0;
    for (uint32_t i = 0; i < m->parameter_count; i++)
        count += tensor_count(m->parameters[i]);
    return count;
}

/* ---- forward --------------------------------------------------------------------------------- */

/* Layers run within a module, whose name profilers show. */
static tensor *forward_linear(const char *name, const linear *l, tensor *x)
{
    module_enter(name);
    tensor *out = op_linear(x, l->weight, l->bias);
    module_leave();
    return out;
}

static tensor *forward_norm(const char *name, const linear *l, tensor *x)
{
    module_enter(name);
    tensor *out = op_layer_norm(x, l->weight, l->bias, 1e-5);
    module_leave();
    return out;
}

static tensor *forward_embedding(const char *name, const linear *l, tensor *indices)
{
    module_enter(name);
    tensor *out = op_embedding(l->weight, indices);
    module_leave();
    return out;
}

/* Splits [tokens, 3 · width] into queries, keys and values, each [batch · heads, context, head]. */
static void split_heads(const model_config *c, tensor *qkv, tensor **parts)
{
    static const int64_t order[] = {2, 0, 3, 1, 4};
    const int64_t apart[] = {c->batch, c->context, 3, c->heads, c->width / c->heads};
    const int64_t joined[] = {3, c->batch * c->heads, c->context, c->width / c->heads};
    tensor *x = op_view(qkv, 5, apart);
    x = then(x, op_permute(x, order));
    x = then(x, op_contiguous(x));
    x = then(x, op_view(x, 4, joined));
    op_unbind(x, parts);
    tensor_release(x);
}

/* The inverse of split_heads for one tensor. Releases `x`. */
static tensor *merge_heads(const model_config *c, tensor *x)
{
    static const int64_t order[] = {0, 2, 1, 3};
    const int64_t apart[] = {c->batch, c->heads, c->context, c->width / c->heads};
    const int64_t joined[] = {c->batch * c->context, c->width};
    x = then(x, op_view(x, 4, apart));
    x = then(x, op_permute(x, order));
    x = then(x, op_contiguous(x));
    return then(x, op_view(x, 2, joined));
}

/* Masked self-attention of all heads. */
static tensor *forward_attention(model *m, const block *b, tensor *x)
{
    const model_config *c = &m->config;
    const int64_t head = c->width / c->heads;
    tensor *parts[3], *weights, *keys;
    module_enter("Attention_0");
    tensor *qkv = forward_linear("Linear_0", &b->qkv, x);
    split_heads(c, qkv, parts);
    tensor_release(qkv);
    keys = op_transpose(parts[1], 1, 2);
    weights = op_bmm(parts[0], keys);
    weights = then(weights, op_scale(weights, 1 / sqrt((double)head)));
    weights = then(weights, op_masked_fill(weights, m->mask, -1e9));
    weights = then(weights, op_softmax(weights));
    tensor *out = merge_heads(c, op_bmm(weights, parts[2]));
    out = then(out, forward_linear("Linear_1", &b->projection, out));
    tensor_release(weights);
    tensor_release(keys);
    for (int i = 0; i < 3; i++)
        tensor_release(parts[i]);
    module_leave();
    return out;
}

/* The two linear layers of a block with GELU between them. */
static tensor *forward_mlp(const block *b, tensor *x)
{
    module_enter("MLP_0");
    tensor *h = forward_linear("Linear_0", &b->up, x);
    h = then(h, op_gelu(h));
    h = then(h, forward_linear("Linear_1", &b->down, h));
    module_leave();
    return h;
}

/* Attention and MLP, each with a norm before and a residual after it. */
static tensor *forward_block(model *m, const block *b, tensor *x)
{
    module_enter(b->name);
    tensor *h = forward_norm("LayerNorm_0", &b->norm1, x);
    h = then(h, forward_attention(m, b, h));
    x = then(h, op_add(x, h));
    h = forward_norm("LayerNorm_1", &b->norm2, x);
    h = then(h, forward_mlp(b, h));
    tensor *out = then(h, op_add(x, h));
    tensor_release(x);
    module_leave();
    return out;
}

/* Token and position embeddings, the blocks, a norm and the head. */
tensor *model_forward(model *m, tensor *tokens)
{
    const model_config *c = &m->config;
    const int64_t rows[] = {c->batch * c->context, c->width};
    module_enter("Transformer_0");
    tensor *x = forward_embedding("Embedding_0", &m->tokens, tokens);
    tensor *places = forward_embedding("Embedding_1", &m->positions, m->places);
    x = then(x, op_add(x, places));
    tensor_release(places);
    x = then(x, op_view(x, 2, rows));
    for (int64_t i = 0; i < c->layers; i++)
        x = then(x, forward_block(m, &m->blocks[i], x));
    x = then(x, forward_norm("LayerNorm_0", &m->norm, x));
    x = then(x, forward_linear("Linear_0", &m->head, x));
    module_leave();
    return x;
}

/* A decoder-only transformer over characters, its optimizer and its text. */
#ifndef TRANSFORMER_MODEL_H
#define TRANSFORMER_MODEL_H

#include "ops.h"

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct model_config {
    int64_t vocabulary, context, batch, width, heads, layers;
} model_config;

typedef struct linear {
    tensor *weight, *bias;
} linear;

typedef struct block {
    char name[24];
    linear norm1, qkv, projection, norm2, up, down;
} block;

enum { MAX_LAYERS = 16, MAX_PARAMETERS = 5 + 12 * MAX_LAYERS };

typedef struct model {
    model_config config;
    linear tokens, positions, norm, head;
    block blocks[MAX_LAYERS];
    /* True for later positions; 0 … context - 1. */
    tensor *mask, *places;
    tensor *parameters[MAX_PARAMETERS];
    uint32_t parameter_count;
} model;

model *model_new(const model_config *config, uint64_t seed);
void model_free(model *m);
int64_t model_parameter_count(const model *m);
/* [batch, context] tokens to [batch · context, vocabulary] logits. */
tensor *model_forward(model *m, tensor *tokens);

/* Compare the gradients of all parameters with measured ones and print them. False: some are
 * wrong. */
bool model_check_gradients(model *m, tensor *tokens, tensor *targets);

/* ---- Adam ------------------------------------------------------------------------------------ */

typedef struct adam {
    model *model;
    tensor *mean[MAX_PARAMETERS], *square[MAX_PARAMETERS];
    double rate;
    int64_t steps;
} adam;

adam *adam_new(model *m, double rate);
void adam_free(adam *a);
void adam_step(adam *a);
/* Release the gradients of the last step. */
void adam_zero_grad(adam *a);

/* ---- text ------------------------------------------------------------------------------------ */

/* Sentences of a small grammar; characters are numbered 0 … DATA_VOCABULARY - 1. */
enum { DATA_VOCABULARY = 28 };
typedef struct data {
    uint64_t random;
    char sentence[128];
    size_t position;
} data;

void data_init(data *d, uint64_t seed);
/* `batch` pieces of text of length context: the characters, and the one that follows each. */
void data_batch(data *d, int64_t batch, int64_t context, int64_t *tokens, int64_t *targets);
char data_character(int64_t token);

uint64_t random_next(uint64_t *state);
/* -1 … 1 */
float random_uniform(uint64_t *state);

#endif

/* Training text: sentences of a small grammar as sequences of character numbers, so that a tiny
 * model can learn them in seconds. splitmix64 makes the same text for the same seed everywhere. */
#include "model.h"

#include <stdio.h>
#include <string.h>

/* splitmix64. */
uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

float random_uniform(uint64_t *state)
{
    return (float)(random_next(state) >> 40) / (float)(1 << 23) - 1;
}

void data_init(data *d, uint64_t seed) { *d = (data){.random = seed}; }

static const char *pick_word(data *d, const char *const *words, size_t count)
{
    return words[random_next(&d->random) % count];
}
#define PICK(d, words) pick_word(d, words, sizeof words / sizeof words[0])

/* Makes the next sentence: adjective, noun and verb at random. */
static void next_sentence(data *d)
{
    static const char *const adjectives[] = {"small", "old", "quick", "green", "quiet", "brave"};
    static const char *const nouns[] = {"cat", "dog", "bird", "river", "king", "boat", "clock"};
    static const char *const verbs[] = {"sees", "finds", "likes", "follows", "hears", "paints"};
    snprintf(d->sentence, sizeof d->sentence, "the %s %s %s the %s %s.", PICK(d, adjectives),
             PICK(d, nouns), PICK(d, verbs), PICK(d, adjectives), PICK(d, nouns));
    d->position = 0;
}

/* The next character: 0 to 25 are letters, 26 is a blank, 27 a full stop. */
static int64_t next_token(data *d)
{
    if (!d->sentence[d->position])
        next_sentence(d);
    char c = d->sentence[d->position++];
    if (c == '.')
        return 27;
    return c == ' ' ? 26 : c - 'a';
}

char data_character(int64_t token)
{
    if (token == 27)
        return '.';
    return token == 26 ? ' ' : (char)('a' + token);
}

/* The text goes on where the last batch ended; targets are the tokens one position later. */
void data_batch(data *d, int64_t batch, int64_t context, int64_t *tokens, int64_t *targets)
{
    for (int64_t b = 0; b < batch; b++) {
        int64_t next = next_token(d);
        for (int64_t t = 0; t < context; t++) {
            tokens[b * context + t] = next;
            targets[b * context + t] = next = next_token(d);
        }
    }
}

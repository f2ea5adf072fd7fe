/* A block of a size that no other code allocates, large enough to be sampled always. */
#define MARKER 67108881u

/* A block that nobody else allocates, large enough to be sampled always. */
#define MARKER 67108881u

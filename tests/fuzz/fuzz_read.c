/* The reader of Chrome traces on any text: it ends, nothing is read out of bounds, any number of
 * threads reads the same, what it read can be written and read again; where the text is sound, an
 * independent parser sees the same in it, and where it is not, strict reading refuses it.
 *
 * The reader is compiled here with small windows and batches, so that short texts have many. */
#include "read.h"

#include <string.h>

/* Of a refusal: the words, and the place. */
static void same_refusal(const kineto_error *a, const kineto_error *b)
{
    fuzz_check(strcmp(a->message, b->message) == 0 && a->offset == b->offset,
               "refused in different ways");
}

static void read_lenient(const char *path, const kineto_trace *strict)
{
    kineto_error err, other;
    kineto_trace *one = fuzz_open(path, 1, false, &err);
    kineto_trace *three = fuzz_open(path, 3, false, &other);
    fuzz_check((one == NULL) == (three == NULL), "one thread reads what three do not, or they do");
    fuzz_check(one || !strict, "strict reading takes what is refused else");
    if (!one) {
        same_refusal(&err, &other);
        return;
    }
    fuzz_visit(one);
    fuzz_same(one, three);
    if (strict) {
        fuzz_same(one, strict);
        fuzz_check(kineto_trace_repair_total(one) == 0, "a sound text was repaired");
    }
    kineto_trace_release(three);
    fuzz_write_again(one);
    kineto_trace_release(one);
}

static kineto_trace *read_strict(const char *path, size_t size, kineto_error *err)
{
    kineto_error other;
    kineto_trace *one = fuzz_open(path, 1, true, err);
    if (size % 4) /* threads cost more than all the rest */
        return one;
    kineto_trace *three = fuzz_open(path, 3, true, &other);
    fuzz_check((one == NULL) == (three == NULL), "one thread takes what three do not, or they do");
    if (!one)
        same_refusal(err, &other);
    else
        fuzz_same(one, three);
    kineto_trace_release(three);
    return one;
}

static bool is_compressed(const uint8_t *data, size_t size)
{
    return size > 3 &&
           (memcmp(data, "\x1f\x8b", 2) == 0 || memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kineto_error err;
    if (is_compressed(data, size)) /* those have a target of their own */
        return 0;
    const char *path = fuzz_file(FUZZ_IN, data, size);
    kineto_trace *strict = read_strict(path, size, &err);
#if defined(WITH_PEER)
    const char *problem = fuzz_peer((const char *)data, size, strict, err.message);
    fuzz_check(!problem, problem);
#endif
    read_lenient(path, strict);
    kineto_trace_release(strict);
    return 0;
}

#if defined(WITH_FUZZER)
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return seed % 4 ? fuzz_mutate_json(data, size, most, seed) : LLVMFuzzerMutate(data, size, most);
}
#endif

/* Files of rules for names of kernels: any text is read, or refused with its line; and with the
 * rules that were read any name has a class. Names follow after a NUL. */
#include "analyze/classes/classes.h"
#include "analyze/compat/compat.h"
#include "read.h"

#include <string.h>

static void check_class(ka_class c)
{
    fuzz_check(c.type < KA_TYPE_COUNT && c.family < KA_FAMILY_COUNT &&
                   c.precision < KA_PRECISION_COUNT && c.tensor < KA_TENSOR_COUNT &&
                   c.library < KA_LIBRARY_COUNT,
               "a class that is none");
}

static void classify_lines(const ka_rules *rules, const char *text, size_t size)
{
    while (size) {
        const char *end = memchr(text, '\n', size);
        size_t n = end ? (size_t)(end - text) : size;
        char *name = malloc(n + 1); /* its end is watched */
        if (!name)
            return;
        memcpy(name, text, n);
        char *exact = realloc(name, n ? n : 1);
        kineto_string s = {exact ? exact : name, n};
        check_class(ka_classify(rules, KINETO_KIND_CONCURRENT_KERNEL, s));
        (void)ka_type_hta(s);
        free(exact ? exact : name);
        text += n + (end != NULL);
        size -= n + (end != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t n = end ? (size_t)(end - data) : size;
    ka_rules *rules = NULL;
    kineto_error err = {.message = ""};
    kineto_status status = ka_rules_create(fuzz_file(FUZZ_IN, data, n), &rules, &err);
    fuzz_check((status == KINETO_OK) == (rules != NULL), "status and rules do not agree");
    fuzz_check(rules || err.message[0], "refused without a word");
    if (rules) {
        classify_lines(rules, (const char *)data, n);
        if (end)
            classify_lines(rules, (const char *)end + 1, size - n - 1);
    }
    ka_rules_free(rules);
    return 0;
}

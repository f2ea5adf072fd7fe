/* Single members of an object's text: what is found is what was written, wherever the text ends. */
#include "unit.h"

#include "analyze/dataset/attribution.h"

typedef struct text {
    char data[4096];
    size_t size;
} text;

static void put(text *t, const char *s)
{
    size_t n = strlen(s);
    memcpy(t->data + t->size, s, n);
    t->size += n;
}

static const char *pick(uint64_t *state, const char *const *list, size_t count)
{
    return list[next_random(state) % count];
}

/* A value, as a trace may have it: lists in lists, texts with what looks like the end of one. */
static void put_value(text *t, uint64_t *state, uint32_t depth)
{
    static const char *const plain[] = {"12",
                                        "-3.5e7",
                                        "\"\"",
                                        "\"float\"",
                                        "null",
                                        "\"c10::Half\"",
                                        "\"a \\\"quoted\\\" ] } , text\"",
                                        "\"ends in \\\\\"",
                                        "\"torch/nn/modules/module.py(1099): _call_impl;x\"",
                                        "true",
                                        "\"\\\\\\\"[[{\"",
                                        "[]",
                                        "{}"};
    if (depth == 3 || next_random(state) % 3) {
        put(t, pick(state, plain, KB_COUNT(plain)));
        return;
    }
    put(t, "[");
    for (uint64_t n = next_random(state) % 9; n > 0; n--) {
        put_value(t, state, depth + 1);
        put(t, n > 1 ? next_random(state) % 2 ? ", " : "," : "");
    }
    put(t, "]");
}

enum { KEYS = 5 };
static const char *const keys[KEYS] = {"Input Dims", "Input type", "Concrete Inputs", "Call stack",
                                       "k"};

typedef struct written {
    text object, values[KEYS];
} written;

/* Some of the keys, in any order, between others that are like them. */
static void write_object(written *w, uint64_t *state)
{
    static const char *const others[] = {"External id", "Input Dims ", "nput Dims", "Call",
                                         "Ev Idx"};
    bool done[KEYS] = {false};
    memset(w, 0, sizeof *w);
    put(&w->object, "{");
    for (uint64_t n = next_random(state) % 8; n > 0; n--) {
        uint64_t key = next_random(state) % (2 * KEYS);
        text value = {.size = 0};
        put_value(&value, state, 0);
        bool is_ours = key < KEYS && !done[key];
        if (is_ours) {
            done[key] = true;
            w->values[key] = value;
        }
        put(&w->object, w->object.size > 1 ? ", \"" : next_random(state) % 2 ? "\"" : " \"");
        put(&w->object, is_ours ? keys[key] : others[key % KEYS]);
        put(&w->object, next_random(state) % 2 ? "\":" : "\" : ");
        memcpy(w->object.data + w->object.size, value.data, value.size);
        w->object.size += value.size;
    }
    put(&w->object, "}");
}

static void assert_same(kineto_string found, const text *expected, const text *object)
{
    if (found.size != expected->size || memcmp(found.data, expected->data, found.size) != 0)
        fail_msg("of %.*s came %.*s, not %.*s", (int)object->size, object->data, (int)found.size,
                 found.data, (int)expected->size, expected->data);
}

/* The copy ends where the text does: a read past it is seen by a sanitizer. */
static void what_was_written_is_found(void **unused)
{
    (void)unused;
    static written w;
    uint64_t state = 7;
    for (int round = 0; round < 20000; round++) {
        write_object(&w, &state);
        char *copy = malloc(w.object.size);
        assert_non_null(copy);
        memcpy(copy, w.object.data, w.object.size);
        kineto_string object = {copy, w.object.size}, both[KA_MAX_KEYS];
        for (int k = 0; k < KEYS; k++)
            assert_same(ka_json_member(object, keys[k]), &w.values[k], &w.object);
        ka_json_members(object, &ka_dims_and_types, both);
        assert_same(both[0], &w.values[0], &w.object);
        assert_same(both[1], &w.values[1], &w.object);
        free(copy);
    }
}

/* A text that was cut anywhere: no read past its end, and nothing that was not in it. */
static void nothing_is_read_after_a_cut(void **unused)
{
    (void)unused;
    static written w;
    uint64_t state = 11;
    for (int round = 0; round < 300; round++) {
        write_object(&w, &state);
        for (size_t size = 0; size <= KB_MIN(w.object.size, (size_t)400); size++) {
            char *copy = malloc(size + 1);
            assert_non_null(copy);
            kineto_string object = {memcpy(copy + 1, w.object.data, size), size},
                          both[KA_MAX_KEYS];
            ka_json_members(object, &ka_dims_and_types, both);
            for (int k = 0; k < 2; k++)
                if (both[k].size)
                    assert_true(both[k].data >= object.data &&
                                both[k].data + both[k].size <= object.data + size);
            free(copy);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_written_is_found),
                                       cmocka_unit_test(nothing_is_read_after_a_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What every unit test includes, and small helpers. */
#ifndef CKINETO_TESTS_UNIT_H
#define CKINETO_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../helpers/sanitizers.h"

#define RUN_TESTS(tests) cmocka_run_group_tests(tests, NULL, NULL)

/* A stream of numbers that is the same in every run. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A fresh directory; the test removes what it puts there and then the directory. */
static inline char *make_directory(char *buf, size_t size)
{
    const char *base = getenv("TMPDIR");
    snprintf(buf, size, "%s/ckineto-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(buf);
}

static inline size_t read_whole(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    size_t n = fread(buf, 1, size - 1, f);
    buf[n] = '\0';
    fclose(f);
    return n;
}

#endif

/* What tests of outputs share: a place to write to, and a trace. */
#ifndef CKINETO_TESTS_OUTPUT_FIXTURE_H
#define CKINETO_TESTS_OUTPUT_FIXTURE_H

#include "../unit/unit.h"

#include "ondemand/output/output.h"

#include <ckineto/control.h>
#include <ckineto/export.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define SAMPLE      CKINETO_SOURCE_DIR "/tests/data/torch-2.15.0/flops.json.gz"
#define PLACE_BYTES 200

/* Requests may write beneath `allowed`. */
static char root[100], allowed[PLACE_BYTES], outside[PLACE_BYTES];
static kineto_trace *sample;
static kineto_error err;

typedef struct path {
    char s[400];
} path;

KINETO_PRINTF(1, 2)
static inline path at(const char *fmt, ...)
{
    path p;
    va_list args;
    va_start(args, fmt);
    vsnprintf(p.s, sizeof p.s, fmt, args);
    va_end(args);
    return p;
}

static inline void remove_tree(const char *directory)
{
    DIR *all = opendir(directory);
    for (struct dirent *e; all && (e = readdir(all));) {
        path p = at("%s/%s", directory, e->d_name);
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || lstat(p.s, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            remove_tree(p.s);
        else
            unlink(p.s);
    }
    if (all)
        closedir(all);
    rmdir(directory);
}

static inline int entries(const char *directory)
{
    int count = 0;
    DIR *all = opendir(directory);
    for (struct dirent *e; all && (e = readdir(all));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (all)
        closedir(all);
    return count;
}

/* As cmocka wants them. */
static inline int begin(void **state)
{
    (void)state;
    assert_non_null(make_directory(root, sizeof root));
    snprintf(allowed, sizeof allowed, "%s/allowed", root);
    snprintf(outside, sizeof outside, "%s/outside", root);
    assert_int_equal(mkdir(allowed, 0700), 0);
    assert_int_equal(mkdir(outside, 0700), 0);
    setenv("KINETO_ONDEMAND_TRACE_DIR", allowed, 1);
    setenv("TMPDIR", root, 1);
    if (kineto_trace_open(SAMPLE, &sample, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    kineto_trace_release(sample);
    remove_tree(root);
    return 0;
}

static inline uint64_t size_of(const char *file)
{
    struct stat st;
    return lstat(file, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* Is the sample in it? */
static inline void assert_is_sample(const char *file)
{
    kineto_trace *t;
    if (kineto_trace_open(file, &t, &err) != KINETO_OK)
        fail_msg("%s: %s", file, err.message);
    assert_int_equal(kineto_trace_count(t), kineto_trace_count(sample));
    kineto_trace_release(t);
}

static inline void assert_fails(kineto_status got, kineto_status expected, const char *says)
{
    if (got != expected || err.code != expected || !strstr(err.message, says))
        fail_msg("%s: '%s', not %s with '%s'", kineto_status_name(got), err.message,
                 kineto_status_name(expected), says);
}

static inline void assert_works(kineto_status got)
{
    if (got != KINETO_OK)
        fail_msg("%s: %s", kineto_status_name(got), err.message);
}

static inline int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
#endif

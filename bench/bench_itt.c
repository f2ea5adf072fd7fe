/* Benchmark of tasks that ckineto-itt.so records, and of ranges of libckineto-roctx.so: begin and end, compared with a range of ckineto and
 * with a collector that does nothing, in the same rounds; all against the floor of two reads of the
 * clock and a 32-byte store; and the same while no session records. */
#include "bench_pairs.h"

#include "../tests/itt/static_part.h"
#include "record/record.h"
#include "session/session.h"

#include <libgen.h>
#include <limits.h>
#include <unistd.h>

KINETO_SITE(site_plain, KINETO_KIND_USER_ANNOTATION, "pair");

static ci_domain *domain;
static ci_string *name, *key;
static int (*roctx_push)(const char *);
static int (*roctx_pop)(void);

/* The path of a library next to the programs. */
static bool find_library(const char *file, char *path, size_t size)
{
    char self[PATH_MAX - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return false;
    self[n] = 0;
    return snprintf(path, size, "%s/../lib/ckineto/%s", dirname(self), file) < (int)size;
}

static bool initialize_roctx(void)
{
    char path[PATH_MAX];
    void *library =
        find_library("libckineto-roctx.so", path, sizeof path) ? dlopen(path, RTLD_NOW) : NULL;
    void *push = library ? dlsym(library, "roctxRangePushA") : NULL;
    void *pop = library ? dlsym(library, "roctxRangePop") : NULL;
    memcpy(&roctx_push, &push, sizeof push);
    memcpy(&roctx_pop, &pop, sizeof pop);
    return push && pop;
}

static bool initialize_itt(void)
{
    char path[PATH_MAX];
    if (!find_library("ckineto-itt.so", path, sizeof path) || !itt_load(path))
        return false;
    domain = itt_domain_create("library");
    name = itt_string_handle_create("pair");
    key = itt_string_handle_create("number");
    return true;
}

/* ---- timed functions ---------------------------------------------------------------------------- */

static void run_own(void)
{
    for (long i = 0; i < PAIRS; i++) {
        kineto_range r = kineto_range_begin(&site_plain);
        BENCH_BARRIER();
        kineto_range_end(r);
        BENCH_BARRIER();
    }
}

/* A collector whose functions return at once, called as a program calls one: through pointers. */
static void ignore_begin(const ci_domain *d, ci_id id, ci_id parent, ci_string *n)
{
    (void)d, (void)id, (void)parent, (void)n;
}
static void ignore_end(const ci_domain *d) { (void)d; }
static void (*volatile empty_begin)(const ci_domain *, ci_id, ci_id, ci_string *) = ignore_begin;
static void (*volatile empty_end)(const ci_domain *) = ignore_end;

static void run_empty(void)
{
    for (long i = 0; i < PAIRS; i++) {
        empty_begin(domain, no_id, no_id, name);
        empty_end(domain);
    }
}

static void run_task(void)
{
    for (long i = 0; i < PAIRS; i++) {
        itt_task_begin(domain, no_id, no_id, name);
        itt_task_end(domain);
    }
}

static void run_task_with_id(void)
{
    for (long i = 0; i < PAIRS; i++) {
        itt_task_begin(domain, make_id((unsigned long long)i, 1), no_id, name);
        itt_task_end(domain);
    }
}

static void run_task_with_metadata(void)
{
    for (long i = 0; i < PAIRS; i++) {
        int64_t number = i;
        itt_task_begin(domain, no_id, no_id, name);
        itt_metadata_add(domain, no_id, key, CI_TYPE_S64, 1, &number);
        itt_task_end(domain);
    }
}

static void run_roctx(void)
{
    for (long i = 0; i < PAIRS; i++) {
        (void)roctx_push("a range of the program");
        (void)roctx_pop();
    }
}

int main(void)
{
    kineto_error err = {0};
    ks_collector *collector = NULL;
    ks_collector_options options = {.kinds = KINETO_KINDS_DEFAULT,
                                    .buffer_bytes = 16u << 20,
                                    .output_path = "/dev/shm/ckineto-bench-itt.json"};
    static const contender idle[] = {
        {"empty_collector", run_empty}, {"itt_idle", run_task}, {"roctx_idle", run_roctx}};
    static const contender busy[] = {{"empty_collector", run_empty},
                                     {"range_pair", run_own},
                                     {"itt_task", run_task},
                                     {"itt_task_id", run_task_with_id},
                                     {"itt_task_metadata", run_task_with_metadata},
                                     {"roctx_literal", run_roctx}};
    if (!initialize_itt() || !initialize_roctx()) {
        fprintf(stderr, "bench_itt: skipped: the libraries are not next to the programs\n");
        return 77;
    }
    compare_contenders(idle, 3, false);
    if (ks_collector_create(&options, &collector, &err) || ks_collector_start(collector, &err) ||
        kineto_rt_attach(ks_collector_pool_path(collector), &err)) {
        fprintf(stderr, "bench_itt: %s\n", err.message);
        return 1;
    }
    compare_contenders(busy, 6, false);
    ks_collector_destroy(collector, false);
    return 0;
}

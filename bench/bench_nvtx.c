/* Benchmark of NVTX ranges that ckineto-nvtx.so records: push and pop, compared with a range of
 * ckineto in the same rounds, both against the floor of two reads of the clock and a 32-byte store;
 * and the same while no session records. */
#include "bench_pairs.h"

#include "../plugins/nvtx/abi.h"
#include "record/record.h"
#include "session/session.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <unistd.h>

KINETO_SITE(site_plain, KINETO_KIND_USER_ANNOTATION, "pair");

/* ---- the program's side of NVTX ---------------------------------------------------------------- */

static cn_function core[CN_CORE_COUNT], core2[CN_CORE2_COUNT];

static int module_table(int module, cn_function ***table, unsigned *count)
{
    static cn_function *tables[2][CN_CORE_COUNT];
    if (module != CN_MODULE_CORE && module != CN_MODULE_CORE2)
        return 0;
    int which = module == CN_MODULE_CORE2;
    for (int i = 1; i < CN_CORE_COUNT; i++)
        tables[which][i] = which ? &core2[i] : &core[i];
    *table = tables[which];
    *count = CN_CORE_COUNT;
    return 1;
}

static const void *export_table(uint32_t table)
{
    static const cn_callbacks callbacks = {sizeof callbacks, module_table};
    return table == CN_TABLE_CALLBACKS ? &callbacks : NULL;
}

static int (*push_a)(const char *text);
static int (*pop)(void);
static int (*domain_push)(cn_handle domain, const cn_attributes *attributes);
static int (*domain_pop)(cn_handle domain);
static cn_handle domain, name;

static bool initialize_nvtx(void)
{
    char self[PATH_MAX - 64], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return false;
    self[n] = 0;
    (void)snprintf(path, sizeof path, "%s/../lib/ckineto/ckineto-nvtx.so", dirname(self));
    void *library = dlopen(path, RTLD_NOW);
    void *symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    int (*initialize)(cn_export_table) = NULL;
    memcpy(&initialize, &symbol, sizeof initialize);
    if (!initialize || !initialize(export_table))
        return false;
    cn_handle (*create)(const char *) = (cn_handle(*)(const char *))core2[CN_DomainCreateA];
    cn_handle (*keep)(cn_handle, const char *) =
        (cn_handle(*)(cn_handle, const char *))core2[CN_DomainRegisterStringA];
    push_a = (int (*)(const char *))core[CN_RangePushA];
    pop = (int (*)(void))core[CN_RangePop];
    domain_push = (int (*)(cn_handle, const cn_attributes *))core2[CN_DomainRangePushEx];
    domain_pop = (int (*)(cn_handle))core2[CN_DomainRangePop];
    domain = create("library");
    name = keep(domain, "pair");
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

static void run_literal(void)
{
    for (long i = 0; i < PAIRS; i++) {
        (void)push_a("a range of the program");
        (void)pop();
    }
}

/* A different text at each call, so that no cache of texts helps. */
static void run_made(void)
{
    char text[] = "step 00000000";
    for (long i = 0; i < PAIRS; i++) {
        for (long k = 12, n = i; k > 4; k--, n /= 10)
            text[k] = (char)('0' + n % 10);
        (void)push_a(text);
        (void)pop();
    }
}

static void run_domain(void)
{
    cn_attributes a = {.version = CN_NVTX_VERSION, .size = sizeof a};
    a.message_type = CN_MESSAGE_REGISTERED;
    a.message.registered = name;
    a.payload_type = CN_PAYLOAD_INT64;
    for (long i = 0; i < PAIRS; i++) {
        a.payload.i64 = i;
        (void)domain_push(domain, &a);
        (void)domain_pop(domain);
    }
}

int main(void)
{
    kineto_error err = {0};
    ks_collector *collector = NULL;
    ks_collector_options options = {.kinds = KINETO_KINDS_DEFAULT,
                                    .buffer_bytes = 16u << 20,
                                    .output_path = "/dev/shm/ckineto-bench-nvtx.json"};
    static const contender idle[] = {{"range_idle", run_own}, {"nvtx_idle", run_literal}};
    static const contender busy[] = {{"range_pair", run_own},
                                     {"nvtx_literal", run_literal},
                                     {"nvtx_made", run_made},
                                     {"nvtx_domain_payload", run_domain}};
    if (!initialize_nvtx()) {
        fprintf(stderr, "bench_nvtx: skipped: no ckineto-nvtx.so next to the programs\n");
        return 77;
    }
    compare_contenders(idle, 2, true);
    if (ks_collector_create(&options, &collector, &err) || ks_collector_start(collector, &err) ||
        kineto_rt_attach(ks_collector_pool_path(collector), &err)) {
        fprintf(stderr, "bench_nvtx: %s\n", err.message);
        return 1;
    }
    compare_contenders(busy, 4, true);
    ks_collector_destroy(collector, false);
    return 0;
}

/* What records of each kind and version become: decoded from batches that the test writes with the
 * offsets of the vendor's headers (standin/layouts.h), delivered to a host that stores what it gets. */
#include "../unit/unit.h"

#include "rocm.h"

#include "standin/layouts.h"

#include <stdio.h>

/* ---- what the decoder asks --------------------------------------------------------------------- */

static int test_version;

static const char *name_of(uint32_t n)
{
    if (test_version >= 10300 && n == 33)
        return "HIP_GRAPH";
    if (test_version >= 10000)
        return n < CP_COUNT(kinds_1_0) ? kinds_1_0[n] : NULL;
    return n < CP_COUNT(kinds_0_5) ? kinds_0_5[n] : NULL;
}

static uint32_t number_of(const char *name)
{
    for (uint32_t n = 1; n < 64; n++)
        if (name_of(n) && strcmp(name_of(n), name) == 0)
            return n;
    return 0;
}

static rp_status give_kind_name(uint32_t n, const char **name, uint64_t *size)
{
    (void)size;
    *name = name_of(n);
    return *name ? RP_SUCCESS : 4;
}

static rp_status give_callback_kind(uint32_t n, const char **name, uint64_t *size)
{
    (void)size;
    *name = n < CP_COUNT(callback_kinds) ? callback_kinds[n] : NULL;
    return *name ? RP_SUCCESS : 4;
}

static rp_status give_operation(uint32_t kind, int32_t operation, const char **name, uint64_t *size)
{
    (void)kind;
    (void)size;
    *name = operation == 7 ? "hipLaunchKernel" : NULL;
    return RP_SUCCESS;
}

static rp_status give_context(rp_context *c)
{
    static uint64_t last;
    c->handle = ++last;
    return RP_SUCCESS;
}
static rp_status take_context(rp_context c)
{
    (void)c;
    return RP_SUCCESS;
}
static rp_status give_buffer(rp_context c, size_t size, size_t mark, int policy, rp_buffer_fn fn, void *data,
                             rp_buffer *out)
{
    (void)c, (void)size, (void)mark, (void)policy, (void)fn, (void)data;
    out->handle = 1;
    return RP_SUCCESS;
}
static rp_status take_service(rp_context c, uint32_t kind, const int32_t *list, size_t n, rp_buffer b)
{
    (void)c, (void)kind, (void)list, (void)n, (void)b;
    return RP_SUCCESS;
}
static rp_status take_callback(rp_context c, uint32_t kind, const int32_t *list, size_t n, rp_callback_fn fn,
                               void *data)
{
    (void)c, (void)kind, (void)list, (void)n, (void)fn, (void)data;
    return RP_SUCCESS;
}
static rp_status give_operations(uint32_t kind, rp_operation_fn fn, void *data)
{
    (void)kind, (void)fn, (void)data;
    return RP_SUCCESS;
}

static rp_status give_agents(int version, rp_agents_fn fn, size_t size, void *data)
{
    static uint8_t structs[2][312];
    const void *list[2] = {structs[0], structs[1]};
    for (uint32_t i = 0; i < 2; i++) {
        put8(structs[i], 0, 312);
        put8(structs[i], 8, 500 + i);
        put4(structs[i], 16, 2);
        put4(structs[i], 280, 9 - i); /* the later one comes first */
        put4(structs[i], 100, 90010);
        put_pointer(structs[i], 264, i ? "AMD Instinct MI250X" : NULL);
    }
    assert_true(size <= 312);
    return fn(version, list, 2, data);
}

/* ---- a host ------------------------------------------------------------------------------------ */

typedef struct kept_activity {
    KinetoPlugin_Activity a;
    char name[64], values[512];
} kept_activity;
static kept_activity kept[64];
static uint32_t kept_count, set_count;
static char sets[32][512];

static void write_values(char *text, size_t size, const KinetoPlugin_Metadata *m, size_t count)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < count && n < size; i++) {
        const int64_t *list = m[i].pointer;
        n += (size_t)snprintf(text + n, size - n, "|%s=", m[i].pKey);
        if (m[i].valueType == KINETO_PLUGIN_VALUE_INTS)
            n += (size_t)snprintf(text + n, size - n, "%lld,%lld,%lld", (long long)list[0],
                                  (long long)list[1], (long long)list[2]);
        else if (m[i].valueType == KINETO_PLUGIN_VALUE_STRING)
            n += (size_t)snprintf(text + n, size - n, "%s", (const char *)m[i].pointer);
        else if (m[i].valueType == KINETO_PLUGIN_VALUE_DOUBLE)
            n += (size_t)snprintf(text + n, size - n, "%g", m[i].d);
        else
            n += (size_t)snprintf(text + n, size - n, "%lld", (long long)m[i].i);
    }
}

static int keep(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Activity *a)
{
    kept_activity *k = &kept[kept_count++ % 64];
    (void)h;
    k->a = *a;
    snprintf(k->name, sizeof k->name, "%.*s", (int)a->nameSize, a->pName);
    snprintf(k->values, sizeof k->values, "%s", a->metadataSet ? sets[a->metadataSet] : "");
    write_values(k->values, sizeof k->values, a->pMetadata, a->metadataCount);
    return 0;
}
static int keep_set(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Metadata *m, size_t n, uint32_t *set)
{
    (void)h;
    *set = ++set_count;
    sets[*set][0] = 0;
    write_values(sets[*set], sizeof sets[0], m, n);
    return 0;
}
static int ignore_row(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_ProfileDeviceInfo *d)
{
    (void)h, (void)d;
    return 0;
}
static int ignore_counts(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Counts *c)
{
    (void)h, (void)c;
    return 0;
}
static int register_kinds(KinetoPlugin_RegistryHandle *h, KinetoPlugin_RegisterActivityTypes_Params *p)
{
    (void)h;
    p->firstEventType = 1000;
    return 0;
}

static KinetoPlugin_TraceBuilder builder = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, registerMetadataSet),
    .addDeviceInfo = ignore_row,
    .emit = keep,
    .addCounts = ignore_counts,
    .registerMetadataSet = keep_set};

/* ---- a test ------------------------------------------------------------------------------------ */

static rp_decoder d;

static void begin(int version)
{
    char why[CP_TEXT_BYTES];
    rp_options options = {.types = UINT64_MAX, .memory = true};
    KinetoPlugin_Registry registry = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Registry, registerActivityTypes),
        .registerActivityTypes = register_kinds};
    test_version = version;
    rp_sdk = (rp_sdk_api){.buffer_kind_name = give_kind_name,
                          .callback_kind_name = give_callback_kind,
                          .operation_name = give_operation,
                          .create_context = give_context,
                          .start_context = take_context,
                          .create_buffer = give_buffer,
                          .buffer_service = take_service,
                          .callback_service = take_callback,
                          .operations = give_operations,
                          .query_agents = give_agents};
    rp_memory_announce(&registry);
    assert_true(rp_tracing_create(&options, why));
    rp_agents_load();
    kept_count = set_count = 0;
    assert_true(rp_decoder_init(&d, &builder, &options, (uint32_t)version, KINETO_PLUGIN_CLOCK_BOOTTIME));
}

static void end(void)
{
    rp_decoder_finish(&d);
    rp_decoder_free(&d);
}

/* In memory of just the record's size, so that a sanitizer sees reads past it. */
static const kept_activity *read_one(const char *kind, const uint8_t *record, size_t size)
{
    uint8_t *copy = malloc(size);
    memcpy(copy, record, size);
    rp_header header = {RP_CATEGORY_TRACING, number_of(kind), copy}, *list[] = {&header, NULL};
    uint32_t before = kept_count;
    rp_decoder_read(&d, list, 2);
    free(copy);
    return kept_count > before ? &kept[before % 64] : NULL;
}

static void make_kernel(uint8_t *r, uint64_t kernel, size_t size)
{
    put_head(r, size, number_of("KERNEL_DISPATCH"), 2, 77, 12, 0);
    put8(r, 40, 1000);
    put8(r, 48, 1500);
    put8(r, 64, 501);
    put8(r, 72, 0xbeef);
    put8(r, 80, kernel);
    put4(r, 96, 24);
    put4(r, 100, 4096);
    put4(r, 104, 256);
    put4(r, 108, 1);
    put4(r, 112, 1);
    put4(r, 116, 1000);
    put4(r, 120, 3);
    put4(r, 124, 1);
}

static const int versions[] = {500, 600, 10000, 10300};

static void a_kernel_has_the_values_of_cuda(void **state)
{
    uint8_t r[MAX_RECORD];
    rp_kernel_symbol symbol = {.size = sizeof symbol, .kernel = 5, .name = "_Z3addPfS_.kd",
                               .scalar_registers = 48, .vector_registers = 96};
    (void)state;
    for (size_t i = 0; i < CP_COUNT(versions); i++) {
        begin(versions[i]);
        rp_symbols_add(&symbol);
        make_kernel(r, 5, versions[i] >= 10300 ? 192 : 184);
        const kept_activity *k = read_one("KERNEL_DISPATCH", r, 192);
        assert_non_null(k);
        assert_string_equal(k->name, "add(float*, float*)");
        assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
        assert_int_equal(k->a.event.startTimeUtcNs, 1000);
        assert_int_equal(k->a.event.endTimeUtcNs, 1500);
        assert_int_equal(k->a.event.deviceId, 0);
        assert_int_equal(k->a.event.eventId, 77);
        assert_int_equal(k->a.externalId, 12);
        assert_int_equal(k->a.flowId, 77);
        assert_int_equal(k->a.clock, KINETO_PLUGIN_CLOCK_BOOTTIME);
        assert_string_equal(k->values, "|device=0|stream=1|registers per thread=96|scalar registers=48"
                                       "|shared memory=4096|private memory per thread=24|grid=4,3,1"
                                       "|block=256,1,1");
        make_kernel(r, 5, 184);
        assert_string_equal(read_one("KERNEL_DISPATCH", r, 192)->values, k->values);
        assert_int_equal(set_count, 1);
        end();
    }
}

static void calls_of_both_lengths_are_read(void **state)
{
    uint8_t r[MAX_RECORD];
    (void)state;
    for (size_t i = 0; i < CP_COUNT(versions); i++) {
        for (int is_long = 0; is_long < 2; is_long++) {
            begin(versions[i]);
            size_t size = is_long ? 64 : 56;
            size_t at = put_head(r, size, number_of("HIP_RUNTIME_API"), 7, 9, 4, is_long);
            put8(r, at, 100);
            put8(r, at + 8, 250);
            put8(r, at + 16, 4711);
            const kept_activity *k = read_one("HIP_RUNTIME_API", r, size);
            assert_non_null(k);
            assert_string_equal(k->name, "hipLaunchKernel");
            assert_int_equal(k->a.event.threadId, 4711);
            assert_int_equal(k->a.event.startTimeUtcNs, 100);
            assert_int_equal(k->a.event.endTimeUtcNs, 250);
            assert_int_equal(k->a.externalId, 4);
            assert_string_equal(k->values, "|cid=7");
            end();
        }
    }
}

static void a_copy_names_both_sides(void **state)
{
    uint8_t r[MAX_RECORD];
    (void)state;
    begin(10000);
    put_head(r, 96, number_of("MEMORY_COPY"), 4, 3, 0, 0);
    put8(r, 40, 100);
    put8(r, 48, 200);
    put8(r, 56, 500); /* to GPU 1 */
    put8(r, 64, 501);
    put8(r, 72, 5000);
    const kept_activity *k = read_one("MEMORY_COPY", r, 96);
    assert_string_equal(k->name, "Memcpy DtoD (Device -> Device)");
    assert_int_equal(k->a.event.deviceId, 1);
    assert_string_equal(k->values, "|device=1|stream=0|kind=DtoD|fromDevice=0|toDevice=1|bytes=5000"
                                   "|memory bandwidth (GB/s)=50");
    put4(r, 12, 77); /* an operation that is unknown */
    assert_string_equal(read_one("MEMORY_COPY", r, 96)->name, "Memcpy <unknown> (? -> ?)");
    end();
}

static const kept_activity *change_memory(int32_t operation, uint64_t address, uint64_t bytes, int is_long)
{
    uint8_t r[MAX_RECORD];
    size_t at = put_head(r, is_long ? 88 : 80, number_of("MEMORY_ALLOCATION"), operation, 3, 0, is_long);
    put8(r, at + 8, 100);
    put8(r, at + 16, 200);
    put8(r, at + 24, operation == 1 ? 501 : 0);
    put8(r, at + 32, address);
    put8(r, at + 40, bytes);
    return read_one("MEMORY_ALLOCATION", r, is_long ? 88 : 80);
}

static void a_release_has_the_size_of_its_allocation(void **state)
{
    (void)state;
    for (int is_long = 0; is_long < 2; is_long++) {
        begin(10000);
        for (uint64_t i = 1; i <= 1000; i++)
            (void)change_memory(1, i << 12, i, is_long);
        const kept_activity *k = NULL;
        for (uint64_t i = 1; i <= 1000; i++)
            k = change_memory(3, i << 12, 0, is_long);
        assert_string_equal(k->name, "Memory release");
        assert_string_equal(k->values, "|Addr=4096000|Bytes=-1000|allocated since start=0|device=0");
        assert_null(change_memory(3, 1 << 12, 0, is_long)); /* it is no longer there */
        end();
    }
}

static void scratch_memory_is_overhead(void **state)
{
    static const size_t sizes[] = {80, 88, 96};
    uint8_t r[MAX_RECORD];
    (void)state;
    for (size_t i = 0; i < CP_COUNT(sizes); i++) {
        begin(i ? 10000 : 500);
        size_t at = put_head(r, sizes[i], number_of("SCRATCH_MEMORY"), 1, 3, 0, i > 0);
        put8(r, at, 501);
        put8(r, at + 8, 0xbeef);
        put8(r, at + 24, 100);
        put8(r, at + 32, 200);
        if (sizes[i] == 96)
            put8(r, at + 48, 65536);
        const kept_activity *k = read_one("SCRATCH_MEMORY", r, sizes[i]);
        assert_string_equal(k->name, "Scratch memory allocation");
        assert_string_equal(k->values,
                            sizes[i] == 96 ? "|device=0|stream=1|bytes=65536" : "|device=0|stream=1");
        end();
    }
}

static void kernels_of_a_graph_name_it(void **state)
{
    uint8_t r[MAX_RECORD];
    (void)state;
    begin(10300);
    size_t at = put_head(r, 96, 33, 3, 77, 0, 1);
    put8(r, at + 40, 6);
    assert_null(read_one("HIP_GRAPH", r, 96));
    make_kernel(r, 999, 184);
    const kept_activity *k = read_one("KERNEL_DISPATCH", r, 184);
    assert_non_null(strstr(k->values, "|graph id=6"));
    assert_string_equal(k->name, "(unknown kernel)");
    assert_int_equal(d.tally[RP_TALLY_NO_NAME], 1);
    end();
}

static void what_cannot_be_read_is_counted(void **state)
{
    uint8_t r[MAX_RECORD];
    (void)state;
    begin(10000);
    for (size_t size = 0; size < 128; size++) { /* a size that the record says, and has */
        make_kernel(r, 5, size);
        assert_null(read_one("KERNEL_DISPATCH", r, size < 8 ? 8 : size));
    }
    assert_int_equal(d.tally[RP_TALLY_CUT_SHORT], 128);
    for (size_t size = 32; size < 64; size++) {
        put_head(r, size, 5, 7, 1, 0, 1);
        if (size != 56)
            assert_null(read_one("HIP_RUNTIME_API", r, size));
    }
    assert_int_equal(d.tally[RP_TALLY_CUT_SHORT], 128 + 31);
    make_kernel(r, 5, 184);
    put8(r, 48, 999); /* ends before it starts */
    assert_null(read_one("KERNEL_DISPATCH", r, 184));
    assert_int_equal(d.tally[RP_TALLY_NO_TIME], 1);
    make_kernel(r, 5, 184);
    assert_null(read_one("OMPT", r, 184));
    assert_null(read_one("no such kind", r, 184));
    assert_int_equal(d.tally[RP_TALLY_UNKNOWN_KIND], 2);
    put8(r, 64, 4242); /* a device that is not listed */
    assert_int_equal(read_one("KERNEL_DISPATCH", r, 184)->a.event.deviceId, -1);
    rp_header none = {RP_CATEGORY_TRACING, 11, NULL}, *list[] = {&none};
    rp_decoder_read(&d, list, 1);
    assert_int_equal(d.tally[RP_TALLY_CUT_SHORT], 128 + 32);
    end();
}

static void a_longer_record_of_a_later_version_is_read(void **state)
{
    uint8_t r[MAX_RECORD];
    (void)state;
    begin(10900);
    size_t at = put_head(r, 120, 5, 7, 9, 4, 1);
    put8(r, at, 100);
    put8(r, at + 8, 250);
    put8(r, at + 16, 4711);
    assert_int_equal(read_one("HIP_RUNTIME_API", r, 120)->a.event.threadId, 4711);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_has_the_values_of_cuda),
        cmocka_unit_test(calls_of_both_lengths_are_read),
        cmocka_unit_test(a_copy_names_both_sides),
        cmocka_unit_test(a_release_has_the_size_of_its_allocation),
        cmocka_unit_test(scratch_memory_is_overhead),
        cmocka_unit_test(kernels_of_a_graph_name_it),
        cmocka_unit_test(what_cannot_be_read_is_counted),
        cmocka_unit_test(a_longer_record_of_a_later_version_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

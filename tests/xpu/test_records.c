/* The reader of PTI's records: any bytes, operators that come late, records of several versions. */
#include "xpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- a PTI that walks by the sizes of the test, and a host that counts ---------------------------- */

static size_t kernel_bytes = 168;
static bool walks_wildly;
static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static size_t size_of(const unsigned char *r)
{
    uint32_t kind;
    static const size_t sizes[XP_VIEW_COUNT] = {
        [XP_VIEW_DRIVER] = 48, [XP_VIEW_OVERHEAD] = 56, [XP_VIEW_RUNTIME] = 48, [XP_VIEW_EXTERNAL] = 24,
        [XP_VIEW_COPY] = 136,  [XP_VIEW_FILL] = 136,    [XP_VIEW_COPY_P2P] = 168, [XP_VIEW_SYNC] = 72,
        [XP_VIEW_COMMS] = 64};
    memcpy(&kind, r, sizeof kind);
    if (kind == XP_VIEW_KERNEL)
        return kernel_bytes;
    return kind < XP_VIEW_COUNT && sizes[kind] ? sizes[kind] : 8;
}

static xp_status walk(unsigned char *buffer, size_t used, unsigned char **record)
{
    if (!*record) {
        *record = buffer;
        return used ? XP_SUCCESS : XP_END_OF_BUFFER;
    }
    if (walks_wildly) {
        static const ptrdiff_t steps[] = {256, 512, 0, -256, 1 << 20, 4};
        *record += steps[next_random() % CP_COUNT(steps)];
        return XP_SUCCESS;
    }
    unsigned char *next = *record + size_of(*record);
    if (next >= buffer + used)
        return XP_END_OF_BUFFER;
    *record = next;
    return XP_SUCCESS;
}

static xp_status name_call(int group, uint32_t api, const char **name)
{
    *name = group == XP_GROUP_SYCL && api == 1 ? "urEnqueueKernelLaunch" : NULL;
    return *name ? XP_SUCCESS : XP_BAD_ARGUMENT;
}

static struct {
    unsigned emitted, notes, sets;
    uint64_t losses;
    KinetoPlugin_Activity last;
    char name[128];
} host;

static int emit(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Activity *a)
{
    (void)h;
    host.emitted++;
    host.last = *a;
    size_t size = a->nameSize < sizeof host.name - 1 ? a->nameSize : sizeof host.name - 1;
    memcpy(host.name, a->pName, size);
    host.name[size] = '\0';
    return 0;
}
static int add_device(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_ProfileDeviceInfo *i)
{
    (void)h;
    (void)i;
    return 0;
}
static int add_header(KinetoPlugin_TraceBuilderHandle *h, const char *key, const char *value)
{
    (void)h;
    (void)key;
    (void)value;
    return 0;
}
static int add_counts(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Counts *c)
{
    (void)h;
    (void)c;
    return 0;
}
static int add_set(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Metadata *m, size_t n, uint32_t *set)
{
    (void)h;
    (void)m;
    (void)n;
    *set = ++host.sets;
    return 0;
}
static int add_line(KinetoPlugin_TraceBuilderHandle *h, const char *reason, uint64_t count, int32_t is_loss,
                    const char *detail)
{
    (void)h;
    (void)reason;
    (void)detail;
    host.notes++;
    host.losses += is_loss ? count : 0;
    return 0;
}
static const KinetoPlugin_TraceBuilder builder = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addLedgerLine),
    .emit = emit, .addDeviceInfo = add_device, .addHeaderMetadata = add_header, .addCounts = add_counts,
    .registerMetadataSet = add_set, .addLedgerLine = add_line};

static xp_decoder d;

static void begin_decoding(uint32_t version)
{
    const xp_options options = {.types = UINT64_MAX};
    memset(&host, 0, sizeof host);
    xp_pti.next_record = walk;
    xp_pti.api_name = name_call;
    walks_wildly = false;
    kernel_bytes = 168;
    assert_true(xp_decoder_init(&d, &builder, &options, version, KINETO_PLUGIN_CLOCK_UTC));
}

static void end_decoding(void)
{
    xp_decoder_finish(&d);
    xp_decoder_free(&d);
}

/* ---- tests ----------------------------------------------------------------------------------------- */

static xp_kernel_record make_kernel(uint32_t correlation)
{
    return (xp_kernel_record){.kind = XP_VIEW_KERNEL, .name = "k", .correlation = correlation, .start = 100,
                              .end = 200, .sycl_queue = 4};
}

static void an_operator_after_its_kernel_is_found(void **state)
{
    struct {
        xp_kernel_record kernel;
        xp_external_record operator;
    } b = {make_kernel(9), {XP_VIEW_EXTERNAL, 9, 1234, 5}};
    (void)state;
    begin_decoding(XP_VERSION(0u, 12u));
    xp_decoder_read(&d, (unsigned char *)&b, sizeof b);
    assert_int_equal(host.emitted, 1);
    assert_int_equal(host.last.externalId, 1234);
    assert_int_equal(host.last.event.resourceId, 4);
    end_decoding();
    assert_int_equal(host.losses, 0);
}

static void longer_records_are_read_and_shorter_ones_are_counted(void **state)
{
    static _Alignas(8) unsigned char b[184 * 3];
    (void)state;
    for (kernel_bytes = 160; kernel_bytes <= 184; kernel_bytes += 8) {
        size_t bytes = kernel_bytes;
        xp_kernel_record kernel = make_kernel(1);
        begin_decoding(XP_VERSION(1u, 0u));
        kernel_bytes = bytes;
        memset(b, 0, sizeof b);
        for (size_t i = 0; i < 3; i++)
            memcpy(b + i * bytes, &kernel, bytes < sizeof kernel ? bytes : sizeof kernel);
        xp_decoder_read(&d, b, 3 * bytes);
        assert_int_equal(host.emitted, bytes >= 168 ? 3 : 0);
        end_decoding();
        assert_int_equal(host.losses, bytes >= 168 ? 0 : 3);
    }
}

static void calls_are_named_by_version(void **state)
{
    xp_api_record call = {.kind = XP_VIEW_RUNTIME, .start = 1, .end = 2, .group = XP_GROUP_SYCL, .api = 1};
    xp_named_call_record named = {.kind = XP_VIEW_RUNTIME, .name = "piEnqueueKernelLaunch", .start = 1, .end = 2};
    (void)state;
    begin_decoding(XP_VERSION(0u, 11u));
    xp_decoder_read(&d, (unsigned char *)&call, sizeof call);
    assert_string_equal(host.name, "urEnqueueKernelLaunch");
    call.api = 77;
    xp_decoder_read(&d, (unsigned char *)&call, sizeof call);
    assert_string_equal(host.name, "(call 77 of group 3)");
    end_decoding();
    begin_decoding(XP_VERSION(0u, 10u));
    xp_decoder_read(&d, (unsigned char *)&named, sizeof named);
    assert_string_equal(host.name, "piEnqueueKernelLaunch");
    end_decoding();
}

/* Pointers to text are NULL: what PTI writes there is not checked. */
static void clear_texts(unsigned char *b, size_t used)
{
    unsigned char *r = NULL;
    while (walk(b, used, &r) == XP_SUCCESS) {
        uint32_t kind;
        memcpy(&kind, r, 4);
        size_t at = kind == XP_VIEW_COPY || kind == XP_VIEW_COPY_P2P ? 32 : kind == XP_VIEW_COMMS ? 56 : 24;
        bool has_text = kind == XP_VIEW_KERNEL || kind == XP_VIEW_COPY || kind == XP_VIEW_COPY_P2P ||
                        kind == XP_VIEW_FILL || kind == XP_VIEW_COMMS;
        if (has_text && (size_t)(b + used - r) >= at + 8)
            memset(r + at, 0, (size_t)(b + used - r) >= at + 16 && kind == XP_VIEW_KERNEL ? 16 : 8);
    }
}

/* Records of all kinds, the last one cut. */
static void write_random_records(unsigned char *b, size_t size, size_t used)
{
    static const uint64_t values[] = {0, 1, 5, UINT64_MAX, UINT64_MAX - 1, 0x8000000000000000u, 77};
    for (size_t i = 0; i + 8 <= size; i += 8)
        memcpy(b + i, &values[next_random() % CP_COUNT(values)], 8);
    for (size_t at = 0; at + 8 <= used; at += size_of(b + at)) {
        uint32_t kind = (uint32_t)(next_random() % 14);
        memcpy(b + at, &kind, 4);
    }
    clear_texts(b, used);
}

static void any_values_are_survived(void **state)
{
    static _Alignas(8) unsigned char b[4096];
    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        size_t used = next_random() % sizeof b;
        begin_decoding(XP_VERSION(1u, 2u));
        write_random_records(b, sizeof b, used);
        xp_decoder_read(&d, b, used);
        (void)xp_count_records(b, used);
        end_decoding();
    }
}

/* Positions that PTI gives are checked: backwards, outside, not aligned. */
static void any_positions_are_survived(void **state)
{
    static _Alignas(8) unsigned char b[4096];
    xp_kernel_record kernel = make_kernel(1);
    (void)state;
    for (size_t at = 0; at < sizeof b; at += 256)
        memcpy(b + at, &kernel, sizeof kernel);
    for (unsigned round = 0; round < 3000; round++) {
        begin_decoding(XP_VERSION(1u, 2u));
        walks_wildly = true;
        xp_decoder_read(&d, b, next_random() % sizeof b);
        end_decoding();
    }
}

static void buffers_beyond_the_bound_are_counted(void **state)
{
    const xp_options options = {.types = UINT64_MAX, .buffer_bytes = 4096, .bound_bytes = 8192};
    xp_kernel_record kernel = make_kernel(1);
    unsigned char *memory[4];
    size_t size;
    (void)state;
    begin_decoding(XP_VERSION(1u, 0u));
    xp_buffers_attach(&d, &options);
    for (size_t i = 0; i < 4; i++) {
        xp_buffers_request(&memory[i], &size);
        assert_true(memory[i] && size >= XP_MAX_RECORD_BYTES);
        memcpy(memory[i], &kernel, sizeof kernel);
    }
    for (size_t i = 0; i < 3; i++)
        xp_buffers_complete(memory[i], size, sizeof kernel);
    xp_buffers_complete((unsigned char *)&kernel, sizeof kernel, sizeof kernel); /* of another user */
    xp_buffer_stats stats = xp_buffers_detach();
    assert_int_equal(host.emitted, 2);
    assert_int_equal(stats.dropped, 1);
    assert_int_equal(stats.kept, 1);
    xp_buffers_complete(memory[3], size, sizeof kernel);
    end_decoding();
}

static void options_are_checked(void **state)
{
    xp_options o;
    char why[CP_TEXT_BYTES];
    (void)state;
    assert_true(xp_options_read("xpu.buffer_bytes=1MiB xpu.driver=on cuda.x=1 xpu.runtime=all", &o, why));
    assert_true(o.buffer_bytes == 1048576 && o.driver && o.all_runtime_calls);
    assert_false(xp_options_read("xpu.buffer_bytes=1", &o, why));
    assert_non_null(strstr(why, "xpu.buffer_bytes"));
    assert_false(xp_options_read("xpu.nothing=1", &o, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operator_after_its_kernel_is_found),
        cmocka_unit_test(longer_records_are_read_and_shorter_ones_are_counted),
        cmocka_unit_test(calls_are_named_by_version),
        cmocka_unit_test(any_values_are_survived),
        cmocka_unit_test(any_positions_are_survived),
        cmocka_unit_test(buffers_beyond_the_bound_are_counted),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

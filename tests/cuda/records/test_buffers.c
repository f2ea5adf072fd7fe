/* Buffers as CUPTI hands them over, sound or not; and allocations. */
#include "begun.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void write_memory(uint32_t operation, uint64_t bytes)
{
    uint8_t *r = written_add(w, CP_KIND_MEMORY2);
    put_memory_operation(r, operation);
    put_memory_memory_kind(r, 3);
    put_memory_address(r, 0x7f0000);
    put_memory_bytes(r, bytes);
    put_memory_time(r, 500);
    put_memory_device(r, 1);
    put_memory_context(r, 2);
    put_memory_stream(r, 7);
}

static void allocations_are_moments_with_a_running_sum(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_memory_type = 1024;
    write_memory(1, 1000);
    write_memory(1, 500);
    write_memory(2, 1000);
    written_read(w, &d);
    const kept *k = host_find("Memory release", 0);
    assert_non_null(k);
    assert_string_equal(k->args, " |Addr=8323072 |Bytes=-1000 |kind=Device"
                                 " |allocated since start=500 |device=1 |context=2");
    assert_arg(host_find("Memory allocation", 1), "allocated since start", "1500");
    assert_int_equal(k->a.event.eventType, 1024);
    assert_int_equal(k->a.event.resourceId, -1);
    cp_memory_type = 0;
    write_memory(1, 1000);
    written_read(w, &d);
    assert_int_equal(host->count, 3);
    end();
}

static void allocations_in_a_streams_order_are_on_the_stream(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_memory_type = 1024;
    write_memory(1, 1000);
    put_memory_is_async(w->bytes, 1);
    put_memory_pool_type(w->bytes, 1);
    put_memory_pool(w->bytes, 77);
    written_read(w, &d);
    assert_int_equal(host->list[0].a.event.resourceId, 7);
    assert_arg(&host->list[0], "pool", "77");
    assert_arg(&host->list[0], "stream", "7");
    cp_memory_type = 0;
    end();
}

/* ---- buffers --------------------------------------------------------------------------------------------------- */

static void kinds_that_are_not_known_are_counted(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    written_add(w, CP_KIND_COUNT - 1);
    written_add(w, 100000);
    written_add(w, CP_KIND_DEVICE);
    written_add(w, CP_KIND_STREAM);
    write_kernel(w, "a", 1, 7);
    written_read(w, &d);
    assert_int_equal(host->count, 1);
    cp_decoder_finish(&d);
    assert_int_equal(host_line("records of a kind that is not known here"), 2);
    end();
}

static void a_record_that_a_buffer_ends_in_is_not_read(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_kernel(w, "a", 1, 7);
    size_t read = w->used;
    write_kernel(w, "a", 2, 7);
    w->used -= 1;
    size_t unread = w->used - read;
    char text[32];
    written_read(w, &d);
    assert_int_equal(host->count, 1);
    cp_decoder_finish(&d);
    assert_int_equal(host_line("records that a buffer ends in"), 1);
    snprintf(text, sizeof text, " %zu bytes", unread);
    assert_non_null(strstr(host_line_detail("records that a buffer ends in"), text));
    end();
}

static cp_result stands_still(uint8_t *buffer, size_t valid, uint8_t **record)
{
    (void)valid;
    *record = buffer;
    return CP_SUCCESS;
}

static cp_result goes_astray(uint8_t *buffer, size_t valid, uint8_t **record)
{
    *record = buffer + valid + 64;
    return CP_SUCCESS;
}

static cp_result gives_up(uint8_t *buffer, size_t valid, uint8_t **record)
{
    (void)buffer, (void)valid, (void)record;
    return CP_ERROR_UNKNOWN;
}

static void a_cupti_that_finds_no_end_does_not_hold_us(void **state)
{
    cp_result (*const walks[])(uint8_t *, size_t, uint8_t **) = {stands_still, goes_astray,
                                                                 gives_up};
    const uint32_t delivered[] = {1, 0, 0};
    (void)state;
    for (size_t i = 0; i < CP_COUNT(walks); i++) {
        begin(CUDA_12_4);
        cp_cupti.next_record = walks[i];
        write_kernel(w, "a", 1, 7);
        written_read(w, &d);
        assert_int_equal(host->count, delivered[i]);
        cp_decoder_finish(&d);
        assert_int_equal(host_line("records that a buffer ends in"), 1);
        end();
    }
}

static uint8_t *requested(void)
{
    uint8_t *memory;
    size_t size, most;
    cp_buffers_request(&memory, &size, &most);
    return memory;
}

static uint32_t walked;

/* Another session asks for another size while late records are counted. */
static cp_result resized_meanwhile(uint8_t *memory, size_t valid, uint8_t **record)
{
    char why[CP_TEXT_BYTES];
    assert_true(cp_buffers_create(4 * CP_BUFFER_BYTES, why));
    memory[valid - 1] = 1; /* it is still there */
    *record = *record ? *record + 64 : memory;
    return walked++ < 3 ? CP_SUCCESS : CP_ERROR_UNKNOWN;
}

/* Nor while late ones are counted. */
static void buffers_that_cupti_has_stay_where_they_are(void **state)
{
    (void)state;
    char why[CP_TEXT_BYTES];
    begin(CUDA_12_4);
    assert_true(cp_buffers_create(2 * CP_BUFFER_BYTES, why));
    uint8_t *first = requested();
    assert_non_null(first);
    assert_true(cp_buffers_create(4 * CP_BUFFER_BYTES, why));
    memset(first, 0, CP_BUFFER_BYTES);
    assert_ptr_not_equal(requested(), NULL);
    assert_null(requested()); /* the same two */
    uint64_t late = cp_buffers_stats().late;
    cp_cupti.next_record = resized_meanwhile;
    cp_buffers_complete(NULL, 0, first, CP_BUFFER_BYTES, 4096);
    assert_int_equal(cp_buffers_stats().late - late, 3);
    assert_ptr_equal(requested(), first);
    cp_buffers_complete(NULL, 0, first, CP_BUFFER_BYTES, 0);
    end();
}

static atomic_uint flushes;

static cp_result count_flushes(uint32_t flags)
{
    (void)flags;
    flushes++;
    return CP_SUCCESS;
}

/* Twenty times: at the usual pace that would take ten seconds. */
static void when_none_is_left_they_are_asked_for_soon(void **state)
{
    (void)state;
    char why[CP_TEXT_BYTES];
    begin(CUDA_12_4);
    cp_cupti.flush_all = count_flushes;
    assert_true(cp_buffers_create(2 * CP_BUFFER_BYTES, why));
    assert_true(cp_buffers_attach(&d, why));
    int64_t began = cp_monotonic_ns();
    while (requested())
        ;
    for (unsigned i = 0; i < 20; i++) {
        unsigned before = flushes;
        assert_null(requested());
        while (flushes == before)
            usleep(100);
    }
    assert_true(cp_monotonic_ns() - began < INT64_C(5000000000));
    cp_buffers_detach();
    cp_buffers_after_fork(); /* the buffers that were taken are free again */
    end();
}

/* Of the pool whose first buffer this is: bytes that have pages. */
static size_t resident_bytes(uint8_t *first, size_t bytes)
{
    static unsigned char in_memory[64u * 256u];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    assert_true(bytes / page <= sizeof in_memory);
    assert_int_equal(mincore(first, bytes, in_memory), 0);
    for (size_t i = 0; i < bytes / page; i++)
        count += in_memory[i] & 1u;
    return count * page;
}

/* Short programs do not pay for all of the buffers; the reader thread prepares them ahead of need. */
static void pages_of_buffers_are_allocated_ahead_of_need(void **state)
{
    const size_t bytes = 64 * CP_BUFFER_BYTES;
    char why[CP_TEXT_BYTES];
    (void)state;
    begin(CUDA_12_4);
    cp_cupti.flush_all = count_flushes;
    assert_true(cp_buffers_create(bytes, why));
    uint8_t *first = requested();
    size_t before = resident_bytes(first, bytes);
    assert_in_range(before, CP_BUFFER_BYTES, 8 * CP_BUFFER_BYTES);
    assert_true(cp_buffers_attach(&d, why));
    int64_t began = cp_monotonic_ns();
    while (resident_bytes(first, bytes) <= before)
        assert_true(cp_monotonic_ns() - began < INT64_C(10000000000));
    size_t count = 1;
    for (uint8_t *memory; (memory = requested()) != NULL; count++)
        memset(memory, 0, CP_BUFFER_BYTES);
    assert_int_equal(count, 64); /* also faster than the thread prepares them */
    assert_int_equal(resident_bytes(first, bytes), bytes);
    cp_buffers_detach();
    cp_buffers_after_fork(); /* the buffers that were taken are free again */
    end();
}

static void a_buffer_that_does_not_come_back_is_reported_once(void **state)
{
    (void)state;
    char why[CP_TEXT_BYTES];
    begin(CUDA_12_4);
    cp_cupti.flush_all = count_flushes;
    assert_true(cp_buffers_create(2 * CP_BUFFER_BYTES, why));
    assert_true(cp_buffers_attach(&d, why));
    uint8_t *one = requested(), *other = requested();
    one[0] = CP_KIND_KERNEL; /* in the other there is nothing */
    cp_buffers_detach();
    assert_int_equal(cp_buffers_stats().kept, 1);
    assert_true(cp_buffers_attach(&d, why));
    cp_buffers_complete(NULL, 0, other, CP_BUFFER_BYTES, 0);
    cp_buffers_detach();
    assert_int_equal(cp_buffers_stats().kept, 0);
    cp_buffers_complete(NULL, 0, one, CP_BUFFER_BYTES, 0);
    end();
}

static void late_records_without_an_end_do_not_hold_us(void **state)
{
    (void)state;
    char why[CP_TEXT_BYTES];
    begin(CUDA_12_4);
    assert_true(cp_buffers_create(2 * CP_BUFFER_BYTES, why));
    uint8_t *memory = requested();
    uint64_t late = cp_buffers_stats().late;
    cp_cupti.next_record = stands_still;
    cp_buffers_complete(NULL, 0, memory, CP_BUFFER_BYTES, 4096);
    assert_int_equal(cp_buffers_stats().late - late, 1);
    end();
}

static void what_the_host_does_not_take_was_requested(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    host->refuses = true;
    write_kernel(w, "a", 1, 7);
    written_read(w, &d);
    host->refuses = false;
    write_kernel(w, "a", 2, 7);
    written_read(w, &d);
    cp_decoder_finish(&d);
    assert_int_equal(host->requested, 2); /* what it refused, it knows */
    assert_int_equal(host->dropped, 0);
    assert_int_equal(host->line_count, 0);
    end();
}

static void unwanted_kinds_are_not_delivered(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    d.types = UINT64_C(1) << KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET;
    write_kernel(w, "a", 1, 7);
    write_call(w, CP_KIND_RUNTIME, 211, 1);
    for (uint32_t kind = CP_KIND_MEMCPY; kind <= CP_KIND_MEMSET; kind++) {
        uint8_t *r = written_add(w, kind);
        put_memset_start(r, 1);
        put_memset_end(r, 2);
    }
    written_read(w, &d);
    assert_int_equal(host->count, 1);
    assert_string_equal(host->list[0].name, "Memset (Unknown)");
    end();
}

/* All kinds, all versions, bytes of chance. */
static void bytes_of_chance_do_no_harm(void **state)
{
    static const uint32_t versions[] = {1,  13, 14, 15,     17,     18,
                                        22, 26, 28, 130000, 130202, UINT32_MAX};
    uint64_t seed = 99;
    (void)state;
    for (size_t v = 0; v < CP_COUNT(versions) * 20; v++) {
        uint32_t version = versions[v % CP_COUNT(versions)];
        begin(version);
        cp_memory_type = 1024;
        for (int i = 0; i < 300; i++) {
            uint32_t kind = (uint32_t)next_random(&seed) % (CP_KIND_COUNT + 1);
            uint8_t *r = written_add(w, kind);
            uint32_t bytes = (uint32_t)(w->bytes + w->used - r);
            for (uint32_t n = 4; n < bytes; n++)
                r[n] = next_random(&seed) & 1 ? (uint8_t)next_random(&seed) : 0;
            if (kind == CP_KIND_KERNEL || kind == CP_KIND_CONCURRENT_KERNEL)
                put_kernel_name(r, next_random(&seed) & 1 ? "_Z1fIiEvT_" : NULL);
        }
        written_read(w, &d);
        cp_memory_type = 0;
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_moments_with_a_running_sum),
        cmocka_unit_test(allocations_in_a_streams_order_are_on_the_stream),
        cmocka_unit_test(kinds_that_are_not_known_are_counted),
        cmocka_unit_test(a_record_that_a_buffer_ends_in_is_not_read),
        cmocka_unit_test(a_cupti_that_finds_no_end_does_not_hold_us),
        cmocka_unit_test(late_records_without_an_end_do_not_hold_us),
        cmocka_unit_test(when_none_is_left_they_are_asked_for_soon),
        cmocka_unit_test(pages_of_buffers_are_allocated_ahead_of_need),
        cmocka_unit_test(a_buffer_that_does_not_come_back_is_reported_once),
        cmocka_unit_test(buffers_that_cupti_has_stay_where_they_are),
        cmocka_unit_test(what_the_host_does_not_take_was_requested),
        cmocka_unit_test(unwanted_kinds_are_not_delivered),
        cmocka_unit_test(bytes_of_chance_do_no_harm),
    };
    return RUN_TESTS(tests);
}

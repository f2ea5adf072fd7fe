/* Records that need others which may come later: launches and their operators, waits and what is
 * waited for. */
#include "begun.h"

/* ---- operators --------------------------------------------------------------------------------------- */

static void work_and_its_call_belong_to_the_operator(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_operator(w, 5, 900);
    write_call(w, CP_KIND_RUNTIME, 211, 5);
    write_kernel(w, "a", 5, 7);
    written_read(w, &d);
    assert_int_equal(host->count, 2);
    assert_int_equal(host->list[0].a.externalId, 900);
    assert_int_equal(host->list[1].a.externalId, 900);
    end();
}

static void a_program_without_operators_waits_for_nothing(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_kernel(w, "a", 5, 7);
    write_call(w, CP_KIND_RUNTIME, 211, 6);
    written_read(w, &d);
    assert_int_equal(host->count, 2);
    assert_string_equal(host->list[0].name, "a");
    end();
}

static void an_operator_that_is_delivered_after_its_launch_is_found(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_operators_pushed();
    write_kernel(w, "a", 5, 7);
    write_call(w, CP_KIND_RUNTIME, 211, 5);
    write_operator(w, 5, 900);
    written_read(w, &d);
    assert_int_equal(host->count, 2);
    assert_int_equal(host_find("a", 0)->a.externalId, 900);
    assert_int_equal(host_find("cudaLaunchKernel", 0)->a.externalId, 900);
    end();
}

static void an_operator_may_come_a_buffer_later_than_its_kernel(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_operators_pushed();
    write_kernel(w, "a", 5, 7);
    written_read(w, &d);
    assert_int_equal(host->count, 0);
    write_operator(w, 5, 900);
    write_call(w, CP_KIND_RUNTIME, 211, 5);
    written_read(w, &d);
    assert_int_equal(host->count, 2);
    assert_int_equal(host_find("a", 0)->a.externalId, 900);
    cp_decoder_finish(&d);
    assert_int_equal(host->line_count, 0);
    end();
}

static void work_of_a_call_outside_of_operators_waits_for_the_call_only(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_operators_pushed();
    write_kernel(w, "a", 5, 7);
    written_read(w, &d);
    assert_int_equal(host->count, 0);
    write_call(w, CP_KIND_RUNTIME, 211, 5);
    written_read(w, &d);
    assert_int_equal(host->count, 2);
    assert_int_equal(host_find("a", 0)->a.externalId, 0);
    write_kernel(w, "b", 5, 7); /* more work of the same call */
    written_read(w, &d);
    assert_int_equal(host->count, 3);
    cp_decoder_finish(&d);
    assert_int_equal(host->line_count, 0);
    end();
}

static void work_whose_call_never_comes_is_delivered_after_some_buffers(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_operators_pushed();
    write_kernel(w, "a", 5, 7);
    for (uint32_t i = 0; i < 32; i++) {
        write_operator(w, 100 + i, 1);
        written_read(w, &d);
    }
    assert_int_equal(host->count, 1);
    cp_decoder_finish(&d);
    assert_int_equal(host_line("activities whose operator was reported too late"), 1);
    end();
}

static void what_waits_at_the_end_is_delivered(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    cp_operators_pushed();
    for (uint32_t i = 1; i <= 300; i++)
        write_kernel(w, "a", i, 7);
    written_read(w, &d);
    assert_int_equal(host->count, 0);
    cp_decoder_finish(&d);
    assert_int_equal(host->count, 300);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(host->list[i].a.event.eventId, i + 1);
    assert_int_equal(host_line("activities whose operator was reported too late"), 300);
    end();
}

static void the_list_of_what_waits_is_bounded(void **state)
{
    enum { KERNELS = 40000 };
    (void)state;
    begin(CUDA_12_4);
    cp_operators_pushed();
    for (uint32_t i = 1; i <= KERNELS; i++) {
        write_kernel(w, "a", i, 7);
        if (i % 4000 == 0) {
            uint32_t before = host->count;
            written_read(w, &d);
            assert_true(host->count >= before);
        }
    }
    assert_true(host->count > KERNELS / 2);
    cp_decoder_finish(&d);
    assert_int_equal(host->count, KERNELS);
    end();
}

static void annotations_of_users_are_no_operators(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_operator(w, 5, 900);
    put_external_kind(w->bytes, CP_EXTERNAL_CUSTOM1);
    write_kernel(w, "a", 5, 7);
    written_read(w, &d);
    assert_int_equal(host->list[0].a.externalId, 0);
    end();
}

static void old_launches_make_room_for_new_ones(void **state)
{
    (void)state;
    cp_correlations *c = cp_correlations_create();
    for (uint32_t i = 1; i < 3000000; i += 2)
        cp_correlations_put(c, i, i * 10);
    assert_int_equal(cp_correlations_get(c, 2999998), 0);
    assert_int_equal(cp_correlations_get(c, 2999999), 29999990);
    assert_int_equal(cp_correlations_get(c, 2000001), 20000010);
    assert_int_equal(cp_correlations_forgotten(c), 0);
    assert_int_equal(cp_correlations_get(c, 1), 0);
    assert_int_equal(cp_correlations_forgotten(c), 1);
    cp_correlations_put(c, 1, 5); /* too late, and in no slot */
    assert_int_equal(cp_correlations_get(c, 1), 0);
    cp_correlations_destroy(c);
}

static void ids_of_launches_may_wrap(void **state)
{
    (void)state;
    cp_correlations *c = cp_correlations_create();
    for (uint32_t i = UINT32_MAX - 2000000; i > 1000000 || i < 1000; i++)
        cp_correlations_put(c, i, (uint64_t)i + 1);
    assert_int_equal(cp_correlations_get(c, 999), 1000);
    assert_int_equal(cp_correlations_get(c, UINT32_MAX), UINT64_C(1) << 32);
    assert_int_equal(cp_correlations_get(c, UINT32_MAX - 2000000), 0);
    cp_correlations_put(c, 999, CP_NO_OPERATOR); /* what is known stays */
    assert_int_equal(cp_correlations_get(c, 999), 1000);
    cp_correlations_destroy(c);
}

/* ---- synchronisation ---------------------------------------------------------------------------------- */

static uint8_t *write_sync(uint32_t type, uint32_t correlation, uint32_t stream, uint32_t event)
{
    uint8_t *r = written_add(w, CP_KIND_SYNCHRONIZATION);
    put_sync_type(r, type);
    put_sync_start(r, 100);
    put_sync_end(r, 200);
    put_sync_correlation(r, correlation);
    put_sync_context(r, 1);
    put_sync_stream(r, stream);
    put_sync_event(r, event);
    return r;
}

static uint8_t *write_event(uint32_t correlation, uint32_t stream, uint32_t event)
{
    uint8_t *r = written_add(w, CP_KIND_CUDA_EVENT);
    put_event_correlation(r, correlation);
    put_event_context(r, 1);
    put_event_stream(r, stream);
    put_event_event(r, event);
    return r;
}

static void a_stream_that_is_waited_for_has_a_row_next_to_it(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    put_kernel_device(write_kernel(w, "a", 1, 7), 3);
    write_sync(3, 2, 7, UINT32_MAX);
    write_sync(3, 3, 7, UINT32_MAX);
    written_read(w, &d);
    const kept *k = host_find("Stream Sync", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC);
    assert_int_equal(k->a.event.deviceId, 3);
    assert_int_equal(k->a.event.resourceId, 1000007);
    assert_string_equal(k->args, " |cuda_sync_kind=Stream Sync |stream=7 |device=3 |context=1");
    assert_int_equal(host->row_count, 1);
    assert_true(host_has_row("3/1000007 stream 7 (sync)"));
    end();
}

static void waits_for_a_context_are_on_the_devices_row(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    uint8_t *r = written_add(w, CP_KIND_CONTEXT);
    put_context_context(r, 1);
    put_context_device(r, 2);
    write_sync(4, 3, UINT32_MAX, UINT32_MAX);
    write_sync(77, 4, UINT32_MAX, UINT32_MAX);
    written_read(w, &d);
    const kept *k = host_find("Context Sync", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.deviceId, 2);
    assert_int_equal(k->a.event.resourceId, -1);
    assert_string_equal(k->args, " |cuda_sync_kind=Context Sync |stream=-1 |device=2 |context=1");
    assert_true(host_has_row("2/-1 Device 2"));
    assert_int_equal(host_count("Unknown Sync"), 1);
    end();
}

static void a_wait_names_the_last_recording_before_it(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_kernel(w, "a", 1, 20);
    write_event(10, 7, 4);
    write_event(20, 8, 4);
    write_event(30, 9, 4);
    write_event(22, 5, 3);
    write_sync(2, 25, 20, 4);
    written_read(w, &d);
    const kept *k = host_find("Stream Wait Event", 0);
    assert_non_null(k);
    assert_string_equal(k->args, " |cuda_sync_kind=Stream Wait Event |wait_on_stream=8"
                                 " |wait_on_cuda_event_record_corr_id=20 |wait_on_cuda_event_id=4"
                                 " |stream=20 |device=0 |context=1");
    assert_int_equal(k->a.event.resourceId, 20);
    end();
}

static void where_cupti_names_the_recording_it_is_believed(void **state)
{
    (void)state;
    begin(CUDA_12_8);
    put_event_event_sync(write_event(10, 7, 4), 501);
    put_event_event_sync(write_event(20, 8, 4), 502);
    put_sync_event_sync(write_sync(1, 25, UINT32_MAX, 4), 501);
    put_sync_event_sync(write_sync(1, 26, UINT32_MAX, 4), UINT32_MAX);
    written_read(w, &d);
    assert_arg(host_find("Event Sync", 0), "wait_on_stream", "7");
    assert_arg(host_find("Event Sync", 0), "wait_on_cuda_event_record_corr_id", "10");
    assert_arg(host_find("Event Sync", 1), "wait_on_stream", "8");
    end();
}

static void a_recording_may_come_later_in_the_buffer_than_the_wait(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_sync(1, 25, UINT32_MAX, 4);
    write_event(20, 8, 4);
    written_read(w, &d);
    assert_arg(host_find("Event Sync", 0), "wait_on_stream", "8");
    end();
}

static void a_recording_may_come_a_buffer_later_than_the_wait(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_sync(1, 25, UINT32_MAX, 4);
    write_sync(1, 26, UINT32_MAX, 5);
    written_read(w, &d);
    assert_int_equal(host->count, 0);
    write_event(20, 8, 4);
    written_read(w, &d);
    assert_arg(host_find("Event Sync", 0), "wait_on_stream", "8");
    for (uint32_t i = 0; i < 32; i++) { /* no wait is endless */
        write_event(100 + i, 8, 9);
        written_read(w, &d);
    }
    assert_arg(host_find("Event Sync", 1), "wait_on_stream", "-1");
    end();
}

static void an_event_that_is_recorded_over_and_over_is_distinguished(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    for (uint32_t i = 1; i <= 20; i++)
        write_sync(1, i * 10 + 1, UINT32_MAX, 4);
    written_read(w, &d);
    for (uint32_t i = 1; i <= 20; i++)
        write_event(i * 10, i, 4);
    written_read(w, &d);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(atoi(arg(host_find("Event Sync", i), "wait_on_stream")), i + 1);
    end();
}

static void a_wait_for_unrecorded_work_says_so(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_sync(1, 25, UINT32_MAX, 9);
    write_event(30, 8, 9); /* after it */
    written_read(w, &d);
    cp_decoder_finish(&d);
    assert_arg(host_find("Event Sync", 0), "wait_on_stream", "-1");
    assert_arg(host_find("Event Sync", 0), "wait_on_cuda_event_record_corr_id", "-1");
    assert_arg(host_find("Event Sync", 0), "wait_on_cuda_event_id", "9");
    assert_arg(host_find("Event Sync", 0), "stream", "-1");
    end();
}

static void waits_of_streams_that_do_nothing_are_not_shown(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    write_event(10, 7, 4);
    write_sync(2, 25, 20, 4);
    write_sync(2, 26, 21, 4);
    written_read(w, &d);
    assert_int_equal(host->count, 0);
    write_kernel(w, "a", 30, 20); /* one of them does something, later */
    written_read(w, &d);
    assert_int_equal(host_count("Stream Wait Event"), 1);
    assert_arg(host_find("Stream Wait Event", 0), "wait_on_stream", "7");
    cp_decoder_finish(&d);
    assert_int_equal(host_count("Stream Wait Event"), 1);
    assert_int_equal(host_line("waits of streams that nothing ran on"), 1);
    end();
}

static void waits_of_streams_can_be_left_out(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    d.show_waits = false;
    write_kernel(w, "a", 1, 20);
    write_sync(2, 25, 20, 4);
    write_sync(1, 26, UINT32_MAX, 4);
    written_read(w, &d);
    cp_decoder_finish(&d);
    assert_int_equal(host_count("Stream Wait Event"), 0);
    assert_int_equal(host_count("Event Sync"), 1);
    end();
}

static void thousands_of_events_and_streams_are_bounded(void **state)
{
    (void)state;
    begin(CUDA_12_4);
    for (uint32_t i = 1; i <= 60000; i++) {
        write_event(i, i, i);
        write_kernel(w, "a", i, i);
        if (i % 1000 == 0)
            written_read(w, &d);
    }
    write_sync(2, 60001, 60000, 60000);
    write_sync(2, 60002, 99999, 60000);
    written_read(w, &d);
    assert_arg(host_find("Stream Wait Event", 0), "wait_on_stream", "60000");
    assert_int_equal(host_count("Stream Wait Event"), 2);
    end();
}

static void an_event_is_an_activity_where_its_time_is_known(void **state)
{
    (void)state;
    begin(CUDA_12_8);
    uint8_t *r = write_event(10, 7, 4);
    put_event_time(r, 5000);
    put_event_device(r, 3);
    write_event(11, 7, 4);
    written_read(w, &d);
    assert_int_equal(host->count, 1);
    const kept *k = host_find("CUDA event", 0);
    assert_non_null(k);
    assert_int_equal(k->a.event.eventType, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT);
    assert_int_equal(k->a.event.startTimeUtcNs, 5000);
    assert_int_equal(k->a.event.endTimeUtcNs, 5001);
    assert_string_equal(k->args, " |event_id=4 |stream=7 |device=3 |context=1");
    cp_decoder_finish(&d);
    assert_int_equal(host_line("CUDA events without a time of the device"), 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_and_its_call_belong_to_the_operator),
        cmocka_unit_test(a_program_without_operators_waits_for_nothing),
        cmocka_unit_test(an_operator_that_is_delivered_after_its_launch_is_found),
        cmocka_unit_test(an_operator_may_come_a_buffer_later_than_its_kernel),
        cmocka_unit_test(work_of_a_call_outside_of_operators_waits_for_the_call_only),
        cmocka_unit_test(work_whose_call_never_comes_is_delivered_after_some_buffers),
        cmocka_unit_test(what_waits_at_the_end_is_delivered),
        cmocka_unit_test(the_list_of_what_waits_is_bounded),
        cmocka_unit_test(annotations_of_users_are_no_operators),
        cmocka_unit_test(old_launches_make_room_for_new_ones),
        cmocka_unit_test(ids_of_launches_may_wrap),
        cmocka_unit_test(a_stream_that_is_waited_for_has_a_row_next_to_it),
        cmocka_unit_test(waits_for_a_context_are_on_the_devices_row),
        cmocka_unit_test(a_wait_names_the_last_recording_before_it),
        cmocka_unit_test(where_cupti_names_the_recording_it_is_believed),
        cmocka_unit_test(a_recording_may_come_later_in_the_buffer_than_the_wait),
        cmocka_unit_test(a_recording_may_come_a_buffer_later_than_the_wait),
        cmocka_unit_test(an_event_that_is_recorded_over_and_over_is_distinguished),
        cmocka_unit_test(a_wait_for_unrecorded_work_says_so),
        cmocka_unit_test(waits_of_streams_that_do_nothing_are_not_shown),
        cmocka_unit_test(waits_of_streams_can_be_left_out),
        cmocka_unit_test(thousands_of_events_and_streams_are_bounded),
        cmocka_unit_test(an_event_is_an_activity_where_its_time_is_known),
    };
    return RUN_TESTS(tests);
}

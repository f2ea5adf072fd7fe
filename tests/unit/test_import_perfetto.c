/* Perfetto traces of other writers, written here field by field: clocks, tracks, interned texts, slices, flows,
 * counters, the scheduler's events, work of GPUs; and files that are damaged or made to harm. What ckineto writes
 * itself and reads back: tests/import/test_round_trip.py. */
#include "trace/trace.h"

#include "../helpers/wire_write.h"
#include "unit.h"

#include <zlib.h>

static char directory[200], file[256];
static ww w;

/* One file, written again by each test. */
static int setup(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof directory))
        return -1;
    snprintf(file, sizeof file, "%s/trace.pftrace", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(directory);
}

/* The reader takes a file, so that the bytes become one. */
static kineto_status open_bytes(const void *data, size_t size, kineto_trace **t, kineto_error *err)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    return kineto_trace_open(file, t, err);
}

/* What was written so far, which has to be readable. */
static kineto_trace *open_written(void)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    if (open_bytes(w.data, w.size, &t, &err))
        fail_msg("%s", err.message);
    return t;
}

/* ---- writing ---------------------------------------------------------------------------------- */

enum { BEGIN = 1, END = 2, INSTANT = 3, COUNTER = 4 };
#define UNIX   INT64_C(1700000000000000000)
#define UPTIME UINT64_C(5000000000)

/* A reading; a unit of 0 is not stated. */
static void put_clock(uint32_t id, uint64_t time, bool is_incremental, uint64_t unit)
{
    size_t m = ww_open(&w, 1);
    ww_uint(&w, 1, id);
    ww_uint(&w, 2, time);
    if (is_incremental)
        ww_uint(&w, 3, 1);
    if (unit)
        ww_uint(&w, 4, unit);
    ww_close(&w, m);
}

/* BOOTTIME and the time of day, as the recorder of a system writes them. */
static void put_system_clocks(void)
{
    size_t packet = ww_open(&w, 1), clocks;
    ww_uint(&w, 10, 1);
    clocks = ww_open(&w, 6);
    put_clock(6, UPTIME, false, 0);
    put_clock(1, (uint64_t)UNIX, false, 0);
    put_clock(3, UPTIME - 1000000, false, 0);
    ww_uint(&w, 2, 6);
    ww_close(&w, clocks);
    ww_close(&w, packet);
}

/* A packet at a time on the clock of the system, which no field names: it is the default. */
static size_t open_packet(uint64_t since, uint32_t sequence)
{
    size_t packet = ww_open(&w, 1);
    ww_uint(&w, 8, UPTIME + since);
    ww_uint(&w, 10, sequence);
    return packet;
}

/* An event of a type; track 0: that of its sequence. */
static size_t open_event(uint32_t type, uint64_t track)
{
    size_t event = ww_open(&w, 11);
    ww_uint(&w, 9, type);
    if (track)
        ww_uint(&w, 11, track);
    return event;
}

/* A whole packet with an event; NULL: no name, no category. */
static void put_event(uint64_t since, uint32_t type, uint64_t track, const char *name, const char *category)
{
    size_t packet = open_packet(since, 1), event = open_event(type, track);
    if (name)
        ww_text(&w, 23, name);
    if (category)
        ww_text(&w, 22, category);
    ww_close(&w, event);
    ww_close(&w, packet);
}

/* A description, which the caller may extend. Closing it closes the packet too. */
static size_t open_track(uint64_t uuid, uint64_t parent, const char *name, size_t *packet)
{
    *packet = ww_open(&w, 1);
    size_t track = ww_open(&w, 60);
    ww_uint(&w, 1, uuid);
    if (parent)
        ww_uint(&w, 5, parent);
    if (name)
        ww_text(&w, 2, name);
    return track;
}

/* A track that is neither a process nor a thread. */
static void put_track(uint64_t uuid, uint64_t parent, const char *name)
{
    size_t packet, track = open_track(uuid, parent, name, &packet);
    ww_close(&w, track);
    ww_close(&w, packet);
}

/* The track of a process. */
static void put_process(uint64_t uuid, int32_t pid, const char *name)
{
    size_t packet, track = open_track(uuid, 0, NULL, &packet), process = ww_open(&w, 3);
    ww_uint(&w, 1, (uint64_t)pid);
    ww_text(&w, 6, name);
    ww_close(&w, process);
    ww_close(&w, track);
    ww_close(&w, packet);
}

/* The track of a thread; its process is known by its pid only. */
static void put_thread(uint64_t uuid, int32_t pid, int32_t tid, const char *name)
{
    size_t packet, track = open_track(uuid, 0, NULL, &packet), thread = ww_open(&w, 4);
    ww_uint(&w, 1, (uint64_t)pid);
    ww_uint(&w, 2, (uint64_t)tid);
    ww_text(&w, 5, name);
    ww_close(&w, thread);
    ww_close(&w, track);
    ww_close(&w, packet);
}

/* Clocks, and the thread on which most events are. */
static void begin_file(void)
{
    w.size = 0;
    put_system_clocks();
    put_process(1, 100, "program");
    put_thread(2, 100, 101, "main");
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* The first activity of this name, which has to be there. */
static kineto_row find_row(const kineto_trace *t, const char *name, kineto_activity *a)
{
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_trace_get(t, row, a);
        if (kb_string_is(kineto_trace_string(t, a->name_id), name))
            return row;
    }
    fail_msg("no activity %s", name);
    return KINETO_NO_ROW;
}

/* Times are those of the packets, moved to the time of day. */
static void expect_times(const kineto_trace *t, const char *name, uint64_t since, uint64_t until)
{
    kineto_activity a;
    find_row(t, name, &a);
    assert_int_equal(a.start_ns, UNIX + (int64_t)since);
    assert_int_equal(a.end_ns, UNIX + (int64_t)until);
}

/* The sum of the lines whose reason has this part. */
static uint64_t ledger_count(const kineto_trace *t, const char *part)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        count += kb_string_contains(line.reason, part) ? line.count : 0;
    }
    return count;
}

/* An argument that is a text. */
static void expect_arg(const kineto_trace *t, const char *name, const char *key, const char *text)
{
    kineto_activity a;
    kineto_arg arg;
    assert_true(kineto_args_find(t, find_row(t, name, &a), key, &arg));
    assert_true(kb_string_is(arg.text, text));
}

/* ---- slices and tracks ------------------------------------------------------------------------ */

/* Nesting, ends without begins and begins without ends, and packets in no order. */
static void test_slices(void **state)
{
    (void)state;
    kineto_activity a;
    kineto_track track;
    kineto_process process;
    begin_file();
    put_event(100, BEGIN, 2, "outer", "user");
    put_event(200, BEGIN, 2, "inner", "kernel_dispatch");
    put_event(300, END, 2, NULL, NULL);
    put_event(500, END, 2, NULL, NULL);
    put_event(600, INSTANT, 2, "moment", NULL);
    put_event(700, BEGIN, 2, "open", NULL);
    put_event(50, BEGIN, 1, "late in the file", NULL); /* another track, out of order */
    put_event(60, END, 1, NULL, NULL);
    put_event(40, END, 1, NULL, NULL);
    kineto_trace *t = open_written();
    assert_int_equal(kineto_trace_count(t), 5);
    expect_times(t, "outer", 100, 500);
    expect_times(t, "inner", 200, 300);
    expect_times(t, "moment", 600, 600);
    expect_times(t, "late in the file", 50, 60);
    find_row(t, "open", &a);
    assert_true(a.flags & KINETO_ACTIVITY_OPEN_END);
    assert_int_equal(ledger_count(t, "ends without a begin"), 1);
    assert_int_equal(ledger_count(t, "slices without an end"), 1);
    find_row(t, "outer", &a);
    kineto_trace_track(t, a.track, &track);
    kineto_trace_process(t, track.process, &process);
    assert_int_equal(track.type, KINETO_TRACK_THREAD);
    assert_int_equal(track.id, 101);
    assert_int_equal(process.pid, 100);
    assert_true(kb_string_is(track.name, "main") && kb_string_is(process.name, "program"));
    find_row(t, "inner", &a);
    assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
    kineto_trace_release(t);
}

/* A sequence with an incremental clock of microseconds, interned texts and a default track. */
static void test_incremental_state(void **state)
{
    (void)state;
    begin_file();
    size_t packet = ww_open(&w, 1), m;
    ww_uint(&w, 10, 7);
    ww_uint(&w, 13, 1);
    m = ww_open(&w, 59);
    size_t defaults = ww_open(&w, 11);
    ww_uint(&w, 11, 2);
    ww_close(&w, defaults);
    ww_uint(&w, 58, 64);
    ww_close(&w, m);
    m = ww_open(&w, 6);
    put_clock(64, 10, true, 1000);
    put_clock(6, UPTIME, false, 0);
    ww_close(&w, m);
    ww_close(&w, packet);
    for (uint32_t i = 0; i < 2; i++) {
        packet = ww_open(&w, 1);
        ww_uint(&w, 8, 3); /* 3 us after the packet before */
        ww_uint(&w, 10, 7);
        m = ww_open(&w, 11);
        ww_uint(&w, 9, i ? END : BEGIN);
        if (!i) {
            ww_uint(&w, 10, 70000); /* a large number */
            size_t note = ww_open(&w, 4);
            ww_uint(&w, 1, 5);
            ww_uint(&w, 17, 9);
            ww_close(&w, note);
        }
        ww_close(&w, m);
        if (!i) {
            m = ww_open(&w, 12);
            size_t entry = ww_open(&w, 2);
            ww_uint(&w, 1, 70000);
            ww_text(&w, 2, "interned");
            ww_close(&w, entry);
            entry = ww_open(&w, 3);
            ww_uint(&w, 1, 5);
            ww_text(&w, 2, "key");
            ww_close(&w, entry);
            entry = ww_open(&w, 29);
            ww_uint(&w, 1, 9);
            ww_text(&w, 2, "text");
            ww_close(&w, entry);
            ww_close(&w, m);
        }
        ww_close(&w, packet);
    }
    kineto_trace *t = open_written();
    expect_times(t, "interned", 3000, 6000);
    expect_arg(t, "interned", "key", "text");
    kineto_trace_release(t);
}

/* An argument with its key in place. */
static void put_text_note(const char *key, const char *text)
{
    size_t note = ww_open(&w, 4);
    ww_text(&w, 10, key);
    ww_text(&w, 6, text);
    ww_close(&w, note);
}

/* Lists, dictionaries, pointers, a column, and an argument of the end. */
static void test_arguments(void **state)
{
    (void)state;
    kineto_arg arg;
    kineto_activity a;
    begin_file();
    size_t packet = open_packet(100, 1), event = open_event(BEGIN, 2), note, entry, item;
    ww_text(&w, 23, "range");
    put_text_note("text", "a\"b");
    note = ww_open(&w, 4);
    ww_text(&w, 10, "dictionary");
    entry = ww_open(&w, 11);
    ww_text(&w, 10, "list");
    item = ww_open(&w, 12);
    ww_uint(&w, 4, (uint64_t)-7);
    ww_close(&w, item);
    item = ww_open(&w, 12);
    ww_double(&w, 5, 0.5);
    ww_close(&w, item);
    ww_close(&w, entry);
    entry = ww_open(&w, 11);
    ww_text(&w, 10, "pointer");
    ww_uint(&w, 7, 0xabc);
    ww_close(&w, entry);
    ww_close(&w, note);
    note = ww_open(&w, 4);
    ww_text(&w, 10, "correlation");
    ww_uint(&w, 3, 77);
    ww_close(&w, note);
    ww_close(&w, event);
    ww_close(&w, packet);
    packet = open_packet(200, 1);
    event = open_event(END, 2);
    put_text_note("at the end", "x");
    ww_close(&w, event);
    ww_close(&w, packet);
    kineto_trace *t = open_written();
    expect_arg(t, "range", "text", "a\"b");
    expect_arg(t, "range", "at the end", "x");
    kineto_row row = find_row(t, "range", &a);
    assert_int_equal(a.correlation_id, 77);
    assert_true(kineto_args_find(t, row, "dictionary", &arg));
    assert_true(kb_string_is(arg.text, "{\"list\":[-7,0.5],\"pointer\":\"0xabc\"}"));
    kineto_trace_release(t);
}

/* A child of a process, a child of a child, and the streams of rocprofv3. */
static void test_plain_tracks(void **state)
{
    (void)state;
    kineto_activity a;
    kineto_track track;
    kineto_process process;
    begin_file();
    put_event(100, BEGIN, 5, "in a child", NULL);
    put_event(110, END, 5, NULL, NULL);
    put_event(100, BEGIN, 6, "on a device", "kernel_dispatch");
    put_event(120, END, 6, NULL, NULL);
    put_track(5, 4, "requests"); /* described after its events */
    put_track(4, 1, "server");
    put_track(6, 0, "COMPUTE GPU [3] STREAM [8] (GPU)");
    kineto_trace *t = open_written();
    find_row(t, "in a child", &a);
    kineto_trace_track(t, a.track, &track);
    kineto_trace_process(t, track.process, &process);
    assert_true(kb_string_is(track.name, "requests") || kb_string_is(kt_track_text_of(t, a.track), "requests"));
    assert_int_equal(process.pid, 100);
    find_row(t, "on a device", &a);
    kineto_trace_track(t, a.track, &track);
    kineto_trace_process(t, track.process, &process);
    assert_true(process.is_device && process.pid == 3 && track.id == 8 && track.type == KINETO_TRACK_STREAM);
    kineto_trace_release(t);
}

/* ---- flows ------------------------------------------------------------------------------------ */

/* A moment with one end of an arrow. */
static void put_flow_event(uint64_t since, const char *name, uint32_t field, uint64_t id)
{
    size_t packet = open_packet(since, 1), event = open_event(INSTANT, 2);
    ww_text(&w, 23, name);
    ww_fixed64(&w, field, id);
    ww_close(&w, event);
    ww_close(&w, packet);
}

/* An arrow with a step between, whatever the order of the packets; and an end of nothing. */
static void test_flows(void **state)
{
    (void)state;
    kineto_activity a;
    kineto_flow f;
    begin_file();
    put_flow_event(300, "last", 48, 9);
    put_flow_event(100, "first", 47, 9);
    put_flow_event(200, "step", 47, 9);
    put_flow_event(400, "alone", 48, 10);
    kineto_trace *t = open_written();
    assert_int_equal(kineto_trace_flow_count(t), 2);
    kineto_trace_flow(t, 0, &f);
    assert_int_equal(f.from, find_row(t, "first", &a));
    assert_int_equal(f.to, find_row(t, "step", &a));
    kineto_trace_flow(t, 1, &f);
    assert_int_equal(f.from, find_row(t, "step", &a));
    assert_int_equal(f.to, find_row(t, "last", &a));
    assert_int_equal(ledger_count(t, "arrows with one end"), 1);
    kineto_trace_release(t);
}

/* ---- counters --------------------------------------------------------------------------------- */

/* Differences in units of 1024 bytes. */
static void test_counters(void **state)
{
    (void)state;
    kineto_arg arg;
    begin_file();
    size_t packet, track = open_track(9, 1, "memory", &packet), counter = ww_open(&w, 8), event;
    ww_uint(&w, 3, 3);    /* bytes */
    ww_uint(&w, 4, 1024); /* of this unit */
    ww_uint(&w, 5, 1);    /* differences */
    ww_close(&w, counter);
    ww_close(&w, track);
    ww_close(&w, packet);
    for (uint64_t i = 1; i <= 2; i++) {
        packet = open_packet(100 * i, 1);
        event = open_event(COUNTER, 9);
        ww_uint(&w, 30, 2 * i);
        ww_close(&w, event);
        ww_close(&w, packet);
    }
    kineto_trace *t = open_written();
    assert_int_equal(kineto_trace_count(t), 2);
    assert_true(kineto_args_find(t, 1, "value [bytes]", &arg));
    assert_int_equal(arg.i, 6 * 1024);
    kineto_trace_release(t);
}

/* ---- events of older programs ----------------------------------------------------------------- */

/* An event with a phase; 0: no length, no id. */
static void put_legacy(uint64_t since, char phase, const char *name, uint64_t duration_us, uint64_t id)
{
    size_t packet = open_packet(since, 1), event = ww_open(&w, 11), legacy;
    ww_text(&w, 23, name);
    ww_uint(&w, 11, 2);
    legacy = ww_open(&w, 6);
    ww_uint(&w, 2, (uint64_t)phase);
    if (duration_us)
        ww_uint(&w, 3, duration_us);
    if (id)
        ww_uint(&w, 6, id);
    ww_close(&w, legacy);
    ww_close(&w, event);
    ww_close(&w, packet);
}

/* Two ranges of one name that overlap, told apart by their ids. */
static void test_legacy_events(void **state)
{
    (void)state;
    kineto_activity a;
    begin_file();
    put_legacy(100, 'X', "complete", 2, 0);
    put_legacy(100, 'b', "async", 0, 4);
    put_legacy(150, 'b', "async", 0, 5);
    put_legacy(300, 'e', "async", 0, 4);
    put_legacy(500, 'e', "async", 0, 5);
    put_legacy(600, 'O', "object", 0, 0);
    kineto_trace *t = open_written();
    expect_times(t, "complete", 100, 2100);
    expect_times(t, "async", 100, 300);
    find_row(t, "async", &a);
    assert_int_equal(a.form, KINETO_FORM_ASYNC);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_int_equal(ledger_count(t, "phase O not read"), 1);
    kineto_trace_release(t);
}

/* ---- the scheduler ---------------------------------------------------------------------------- */

/* A CPU changes from one thread to another. */
static void put_switch(uint64_t since, int32_t prev, uint64_t state, int32_t next, const char *next_name)
{
    size_t event = ww_open(&w, 2), m;
    ww_uint(&w, 1, UPTIME + since);
    ww_uint(&w, 2, (uint64_t)prev);
    m = ww_open(&w, 4);
    ww_uint(&w, 2, (uint64_t)prev);
    ww_uint(&w, 4, state);
    ww_text(&w, 5, next_name);
    ww_uint(&w, 6, (uint64_t)next);
    ww_close(&w, m);
    ww_close(&w, event);
}

/* A thread is woken by another one. */
static void put_waking(uint64_t since, int32_t waker, int32_t pid)
{
    size_t event = ww_open(&w, 2), m;
    ww_uint(&w, 1, UPTIME + since);
    ww_uint(&w, 2, (uint64_t)waker);
    m = ww_open(&w, 20);
    ww_uint(&w, 2, (uint64_t)pid);
    ww_close(&w, m);
    ww_close(&w, event);
}

/* A state with exactly these times, of any thread. */
static void expect_state(const kineto_trace *t, const char *state, uint64_t since, uint64_t until)
{
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        if (a.kind == KINETO_KIND_THREAD_STATE && kb_string_is(kineto_trace_string(t, a.name_id), state) &&
            a.start_ns == UNIX + (int64_t)since && a.end_ns == UNIX + (int64_t)until)
            return;
    }
    fail_msg("no state %s from %llu to %llu", state, (unsigned long long)since, (unsigned long long)until);
}

/* Blocked, woken, preempted, ended: each time between two switches has its state. */
static void test_scheduler(void **state)
{
    (void)state;
    begin_file();
    size_t packet = ww_open(&w, 1), bundle = ww_open(&w, 1);
    ww_uint(&w, 1, 2);
    put_switch(100, 0, 0, 101, "main");
    put_switch(200, 101, 1, 0, "swapper"); /* blocked */
    put_waking(300, 55, 101);
    put_switch(350, 0, 0, 101, "main");
    put_switch(400, 101, 0x100, 55, "other"); /* preempted */
    put_switch(500, 55, 1, 101, "main");
    put_switch(600, 101, 0x10, 0, "swapper"); /* ended */
    ww_close(&w, bundle);
    ww_close(&w, packet);
    kineto_trace *t = open_written();
    expect_state(t, "running", 100, 200);
    expect_state(t, "blocked", 200, 300);
    expect_state(t, "waiting for a CPU", 300, 350);
    expect_state(t, "running", 350, 400);
    expect_state(t, "waiting for a CPU", 400, 500);
    expect_state(t, "running", 500, 600);
    expect_state(t, "running", 400, 500);
    assert_int_equal(kineto_trace_count(t), 7);
    kineto_trace_release(t);
}

/* A list of numbers without tags. */
static void put_packed(uint32_t field, const uint64_t *values, size_t count)
{
    size_t list = ww_open(&w, field);
    for (size_t i = 0; i < count; i++)
        ww_varint(&w, values[i]);
    ww_close(&w, list);
}

/* The compact form, in a packet that is compressed. */
static void test_compact_scheduler(void **state)
{
    (void)state;
    begin_file();
    size_t before = w.size, packet = ww_open(&w, 1), bundle = ww_open(&w, 1), m;
    ww_uint(&w, 1, 3);
    m = ww_open(&w, 4);
    put_packed(1, (uint64_t[]){UPTIME + 100, 100, 50}, 3);
    put_packed(2, (uint64_t[]){0, 1, 0}, 3);
    put_packed(3, (uint64_t[]){101, 0, 101}, 3);
    ww_text(&w, 5, "main");
    ww_text(&w, 5, "swapper");
    put_packed(6, (uint64_t[]){0, 1, 0}, 3);
    ww_close(&w, m);
    ww_close(&w, bundle);
    ww_close(&w, packet);
    uint8_t packed[4096];
    uLongf size = sizeof packed;
    assert_int_equal(compress(packed, &size, w.data + before, w.size - before), Z_OK);
    w.size = before;
    packet = ww_open(&w, 1);
    ww_bytes(&w, 50, packed, size);
    ww_close(&w, packet);
    kineto_trace *t = open_written();
    expect_state(t, "running", 100, 200);
    expect_state(t, "blocked", 200, 250);
    kineto_trace_release(t);
}

/* ---- GPUs ------------------------------------------------------------------------------------- */

/* Names of queue and stage are interned in a packet before. */
static void test_gpu_work(void **state)
{
    (void)state;
    kineto_activity a;
    kineto_track track;
    begin_file();
    size_t packet = ww_open(&w, 1), m = ww_open(&w, 12), entry = ww_open(&w, 24);
    ww_uint(&w, 1, 4);
    ww_text(&w, 2, "queue");
    ww_close(&w, entry);
    entry = ww_open(&w, 24);
    ww_uint(&w, 1, 5);
    ww_text(&w, 2, "compute");
    ww_close(&w, entry);
    ww_close(&w, m);
    ww_uint(&w, 10, 3);
    ww_close(&w, packet);
    packet = open_packet(1000, 3);
    m = ww_open(&w, 53);
    ww_uint(&w, 1, 1);
    ww_uint(&w, 2, 500);
    ww_uint(&w, 13, 4);
    ww_uint(&w, 14, 5);
    ww_uint(&w, 11, 1);
    ww_close(&w, m);
    ww_close(&w, packet);
    kineto_trace *t = open_written();
    expect_times(t, "compute", 1000, 1500);
    find_row(t, "compute", &a);
    kineto_trace_track(t, a.track, &track);
    assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
    assert_true(kb_string_is(track.name, "queue"));
    kineto_trace_release(t);
}

/* ---- what is not read, and damage ------------------------------------------------------------- */

/* Packets of Android are counted by name. */
static void test_ledger(void **state)
{
    (void)state;
    begin_file();
    for (int i = 0; i < 3; i++) {
        size_t packet = open_packet(10, 1), m = ww_open(&w, 39);
        ww_close(&w, m);
        ww_close(&w, packet);
    }
    put_event(100, INSTANT, 2, "moment", NULL);
    kineto_trace *t = open_written();
    assert_int_equal(ledger_count(t, "packets not read: android_log"), 3);
    kineto_trace_release(t);
}

/* One file with most of what is read, for damaging it. */
static void write_everything(void)
{
    begin_file();
    put_event(100, BEGIN, 2, "outer", "user");
    put_flow_event(150, "first", 47, 9);
    put_flow_event(160, "last", 48, 9);
    put_event(500, END, 2, NULL, NULL);
    put_legacy(600, 'X', "complete", 2, 0);
    size_t packet = ww_open(&w, 1), bundle = ww_open(&w, 1);
    ww_uint(&w, 1, 2);
    put_switch(100, 0, 0, 101, "main");
    put_switch(200, 101, 1, 0, "swapper");
    ww_close(&w, bundle);
    ww_close(&w, packet);
}

/* Every prefix, and files with changed bytes, are read or refused. */
static void test_damage(void **state)
{
    (void)state;
    uint64_t seed = 1;
    static uint8_t changed[sizeof w.data];
    write_everything();
    size_t rounds = FEWER(3000, 600);
    for (size_t i = 0; i < rounds; i++) {
        kineto_trace *t = NULL;
        kineto_error err = {.message = ""};
        size_t size = i < w.size ? i : w.size;
        memcpy(changed, w.data, w.size);
        for (size_t k = 0; i >= w.size && k < 1 + i % 4; k++)
            changed[next_random(&seed) % size] = (uint8_t)next_random(&seed);
        kineto_status status = open_bytes(changed, size, &t, &err);
        assert_true((status == KINETO_OK) == (t != NULL));
        assert_true(t || err.message[0]);
        kineto_trace_release(t);
    }
}

/* The packets before the cut are read, and the cut is reported. */
static void test_truncated(void **state)
{
    (void)state;
    begin_file();
    put_event(100, INSTANT, 2, "moment", NULL);
    size_t whole = w.size;
    put_event(200, INSTANT, 2, "cut", NULL);
    w.size = whole + 5;
    kineto_trace *t = open_written();
    expect_times(t, "moment", 100, 100);
    assert_int_equal(ledger_count(t, "the file ends early"), 1);
    kineto_trace_release(t);
}

/* Tracks that are each other's parents, values nested without end, lengths that do not fit. */
static void test_hostile(void **state)
{
    (void)state;
    begin_file();
    put_track(20, 21, "a");
    put_track(21, 20, "b");
    put_track(22, 22, "c");
    put_event(100, INSTANT, 20, "in a circle", NULL);
    put_event(100, INSTANT, 22, "in itself", NULL);
    size_t packet = open_packet(200, 1), event = open_event(INSTANT, 2), marks[900], depth = 0;
    ww_text(&w, 23, "deep");
    marks[depth++] = ww_open(&w, 4);
    ww_text(&w, 10, "key");
    while (depth < 900)
        marks[depth++] = ww_open(&w, 12);
    ww_uint(&w, 3, 1);
    while (depth)
        ww_close(&w, marks[--depth]);
    ww_close(&w, event);
    ww_close(&w, packet);
    packet = open_packet(300, 1);
    ww_varint(&w, 11 << 3 | 2);
    ww_varint(&w, UINT64_MAX); /* a length */
    ww_close(&w, packet);
    put_event(400, INSTANT, 2, "after it", NULL);
    kineto_trace *t = open_written();
    expect_times(t, "in a circle", 100, 100);
    expect_times(t, "in itself", 100, 100);
    expect_times(t, "after it", 400, 400);
    assert_int_equal(ledger_count(t, "values nested too deep"), 1);
    assert_int_equal(ledger_count(t, "packets that cannot be read"), 1);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slices),         cmocka_unit_test(test_incremental_state),
        cmocka_unit_test(test_arguments),      cmocka_unit_test(test_plain_tracks),
        cmocka_unit_test(test_flows),          cmocka_unit_test(test_counters),
        cmocka_unit_test(test_legacy_events),  cmocka_unit_test(test_scheduler),
        cmocka_unit_test(test_compact_scheduler), cmocka_unit_test(test_gpu_work),
        cmocka_unit_test(test_ledger),         cmocka_unit_test(test_damage),
        cmocka_unit_test(test_truncated),      cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

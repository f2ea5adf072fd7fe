/* Everything that a plug-in may get wrong when it delivers: sizes, pointers, numbers, times, texts,
 * and calls outside its session. It costs the plug-in's own data, is counted under its name, and
 * the trace stays sound. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"
#include "export/export.h"

#include "../helpers/plugins.h"

static const char bad_event[] = "invalid event from a plug-in";

/* The trace in its file form is JSON, whatever is in it. */
static void assert_written_soundly(const kineto_trace *t)
{
    kb_sink *sink;
    char *data;
    size_t bytes;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    assert_int_equal(ke_chrome_write(t, sink, "trace", NULL, NULL), KINETO_OK);
    assert_int_equal(kb_sink_take(sink, &data, &bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
    assert_true(kb_json_valid((kineto_string){data, bytes}));
    free(data);
}

static kineto_trace *finish_soundly(kineto_session *s)
{
    kineto_trace *t = finish(s);
    verify(t);
    assert_written_soundly(t);
    return t;
}

/* ---- sizes ------------------------------------------------------------------------------------------ */

static const char *const series_names[] = {"a", "b"};

static KinetoPlugin_CounterSet counter_set(const char *name)
{
    return (KinetoPlugin_CounterSet){.unpaddedStructSize = SIZE_TO(CounterSet, pUnits),
                                     .pName = name,
                                     .eventType = TYPE(GPU_PM_COUNTER),
                                     .deviceId = 3,
                                     .valueType = KINETO_PLUGIN_VALUE_INT,
                                     .seriesCount = 2,
                                     .pSeriesNames = series_names};
}

/* Every struct that goes to the host, sized by `more` too much or, if negative, too little. */
static int call_all_with_size(const builder *b, int64_t ns, int more)
{
    handle *h = b->pTraceBuilderHandle;
    const int64_t values[2] = {1, 2};
    int32_t set = 0;
    int refused = 0;
    size_t size = (size_t)(int64_t)more;
    KinetoPlugin_ProfileEvent e = event_of(TYPE(CONCURRENT_KERNEL), ns, ns + 1);
    KinetoPlugin_ProfileEventFlow flow = {SIZE_TO(ProfileEventFlow, isStartPoint) + size, 1, 2, 1};
    KinetoPlugin_ProfileDeviceInfo device = {SIZE_TO(ProfileDeviceInfo, pLabel) + size, 3, 1, "d",
                                             "l"};
    KinetoPlugin_ProfileResourceInfo resource = {
        SIZE_TO(ProfileResourceInfo, pName) + size, {3}, {7}, 1, "r"};
    KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), "a");
    KinetoPlugin_Activity inner = a;
    KinetoPlugin_Counts counts = {SIZE_TO(Counts, dropped) + size, 1, 0};
    KinetoPlugin_CounterSet cs = counter_set("good");
    assert_int_equal(b->registerCounters(h, &cs, &set), 0);
    cs.pName = "sized";
    cs.unpaddedStructSize += size;
    KinetoPlugin_CounterSamples samples = {
        SIZE_TO(CounterSamples, pValues) + size, set, 0, 1, &ns, values};
    assert_int_equal(b->addEvent(h, &e), 0);
    refused += b->setLastEventFlow(h, &flow) != 0;
    e.unpaddedStructSize += size;
    a.unpaddedStructSize += size;
    inner.event.unpaddedStructSize += size;
    refused += b->addEvent(h, &e) != 0;
    refused += b->emit(h, &a) != 0;
    refused += b->emit(h, &inner) != 0;
    refused += b->addDeviceInfo(h, &device) != 0;
    refused += b->addResourceInfo(h, &resource) != 0;
    refused += b->addCounts(h, &counts) != 0;
    refused += b->registerCounters(h, &cs, &set) != 0;
    refused += b->addCounterSamples(h, &samples) != 0;
    return refused;
}

static void structs_that_are_too_small_are_refused_and_larger_ones_are_not(void **state)
{
    (void)state;
    fake *f = make_fake(0, "sizes", 0);
    f->types[3] = TYPE(GPU_PM_COUNTER);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = record();
    assert_int_equal(call_all_with_size(f->live, f->started_ns, -1), 9);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_int_equal(ledger(t, "sizes", bad_event), 8); /* counts are not events */
    assert_int_equal(kineto_trace_process_count(t), 1); /* its kernel's device */
    kineto_trace_release(t);
    s = record();
    assert_int_equal(call_all_with_size(f->live, f->started_ns, 1000), 0);
    t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 5);
    assert_nothing_lost(t);
    kineto_trace_release(t);
    leave(0);
}

static void sizes_of_zero_and_of_everything_are_met_with_calm(void **state)
{
    (void)state;
    static const KinetoPlugin_ProfilerInterface nothing;
    fake *f = make_fake(0, "sizes", 0);
    assert_int_not_equal(register_interface(&nothing), 0);
    interfaces[0].unpaddedStructSize = SIZE_TO(ProfilerInterface, profilerProcessEvents) - 1;
    assert_int_not_equal(register_interface(&interfaces[0]), 0);
    /* cut inside an appended member: it is not there */
    (void)make_fake(0, "sizes", TOGGLES);
    interfaces[0].unpaddedStructSize = SIZE_TO(ProfilerInterface, profilerToggleCollection) - 1;
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = record();
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    assert_string_equal(f->calls, "qcstpd");
    kineto_trace_release(finish(s));
    leave(0);
    (void)make_fake(0, "sizes", 0);
    interfaces[0].unpaddedStructSize = SIZE_MAX;
    assert_int_equal(register_interface(&interfaces[0]), 0);
    s = record();
    KinetoPlugin_ProfileEvent e = event_of(TYPE(CONCURRENT_KERNEL), f->started_ns, f->started_ns);
    e.unpaddedStructSize = 0;
    assert_int_not_equal(f->live->addEvent(f->live->pTraceBuilderHandle, &e), 0);
    e.unpaddedStructSize = SIZE_MAX;
    assert_int_equal(f->live->addEvent(f->live->pTraceBuilderHandle, &e), 0);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 1);
    kineto_trace_release(t);
    leave(0);
}

static void without_a_handle_or_an_argument_calls_are_refused(void **state)
{
    (void)state;
    fake *f = make_fake(0, "nulls", 0);
    f->types[3] = TYPE(GPU_PM_COUNTER);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = record();
    for (int pass = 0; pass < 2; pass++) {
        const builder *b = f->live;
        handle *h = pass ? b->pTraceBuilderHandle : NULL;
        int32_t number = 0;
        KinetoPlugin_CounterSet set = counter_set("nulls");
        assert_int_not_equal(b->setLastEventIds(h, 1, 2), 0); /* no event */
        assert_int_not_equal(b->addEvent(h, NULL), 0);
        assert_int_not_equal(b->setLastEventName(h, NULL), 0);
        assert_int_not_equal(b->setLastEventFlow(h, NULL), 0);
        assert_int_not_equal(b->addLastEventMetadata(h, NULL, NULL), 0);
        assert_int_not_equal(b->addLastEventValues(h, NULL, 3), 0);
        assert_int_not_equal(b->addDeviceInfo(h, NULL), 0);
        assert_int_not_equal(b->addResourceInfo(h, NULL), 0);
        assert_int_not_equal(b->emit(h, NULL), 0);
        assert_int_not_equal(b->addDeviceProperties(h, 0, NULL, 1), 0);
        assert_int_not_equal(b->registerClock(h, "x", NULL), 0);
        assert_int_not_equal(b->addClockSample(h, -1, 0, 0, 0), 0);
        assert_int_not_equal(b->addCounts(h, NULL), 0);
        assert_int_not_equal(b->addHeaderMetadata(h, NULL, NULL), 0);
        assert_int_not_equal(b->registerCounters(h, NULL, &number), 0);
        assert_int_not_equal(b->registerCounters(h, &set, NULL), 0);
        assert_int_not_equal(b->addCounterSamples(h, NULL), 0);
        assert_int_not_equal(b->registerMetadataSet(h, NULL, 3, (uint32_t *)&number), 0);
        assert_int_not_equal(b->addLedgerLine(h, NULL, 1, 0, NULL), 0);
    }
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 0);
    kineto_trace_release(t);
    leave(0);
}

/* ---- numbers ---------------------------------------------------------------------------------------- */

static void extreme_and_unordered_times_in_every_clock_leave_a_sound_trace(void **state)
{
    (void)state;
    static const int64_t times[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    fake *f = enter(0, "times");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    int32_t device = 0, wild = 0, number;
    assert_int_equal(b->registerClock(h, "steady", &device), 0);
    assert_int_equal(b->registerClock(h, "wild", &wild), 0);
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        uint64_t ticks = b->hostTicks(h);
        assert_int_equal(b->addClockSample(h, wild, times[i], ticks, ticks + 5), 0);
        (void)b->addClockSample(h, wild, times[i], UINT64_MAX, 0);
        (void)b->addClockSample(h, wild, times[i], 0, UINT64_MAX);
        assert_int_equal(b->addClockSample(h, device, (int64_t)i * 1000, ticks, ticks + 5), 0);
    }
    uint64_t events = 0;
    for (int32_t clock = 0; clock <= wild; clock++)
        for (size_t i = 0; i < COUNT_OF(times) * COUNT_OF(times); i++) {
            KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), "far");
            a.event.startTimeUtcNs = times[i / COUNT_OF(times)];
            a.event.endTimeUtcNs = times[i % COUNT_OF(times)];
            a.clock = clock;
            assert_int_equal(b->emit(h, &a), 0);
            events++;
        }
    for (number = 0; number < 100; number++) /* each before the one that was delivered before it */
        assert_int_equal(add_named(b, f->started_ns + 100 - number, "unordered"), 0);
    usleep(100);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(count_named(t, "unordered"), 100);
    const kineto_row *order = kineto_trace_time_order(t);
    for (kineto_row r = 1; r < kineto_trace_count(t); r++)
        assert_true(row_at(t, order[r - 1]).start_ns <= row_at(t, order[r]).start_ns);
    assert_int_equal(ledger(t, "times", "delivered"), events + 100);
    assert_int_equal(count_named(t, "far") + ledger(t, "times", "outside the window") +
                         ledger(t, "recording", "events of a device clock that was never compared"),
                     events);
    kineto_trace_release(t);
    leave(0);
}

static void numbers_out_of_range_are_refused_or_kept_but_never_wrapped(void **state)
{
    (void)state;
    static const int32_t extremes[] = {INT32_MIN, -1, 0, INT32_MAX};
    fake *f = enter(0, "numbers");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    for (size_t i = 0; i < COUNT_OF(extremes); i++) {
        KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), "placed");
        a.event.deviceId = extremes[i];
        a.event.resourceId = extremes[COUNT_OF(extremes) - 1 - i];
        a.event.eventId = i ? INT64_MIN + (int64_t)i : -1;
        a.externalId = UINT64_MAX - i;
        assert_int_equal(b->emit(h, &a), 0);
    }
    static const int32_t flows[] = {3, 255, 256, 257, 258, -1, INT32_MIN};
    for (size_t i = 0; i < COUNT_OF(flows); i++) {
        KinetoPlugin_ProfileEventFlow flow = {SIZE_TO(ProfileEventFlow, isStartPoint), flows[i], 5,
                                              i & 1};
        assert_int_equal(add_named(b, f->started_ns, "flowing"), 0);
        (void)b->setLastEventFlow(h, &flow);
        KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), "flowing too");
        a.flowType = flows[i];
        a.flowId = 5;
        a.flowIsStart = i & 1;
        (void)b->emit(h, &a);
    }
    usleep(100);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(count_named(t, "placed"), COUNT_OF(extremes));
    for (uint64_t i = 0; i < COUNT_OF(extremes); i++) {
        kineto_row row = find_nth(t, "placed", i).row;
        assert_int_equal(process_of(t, row).pid, extremes[i]);
        assert_int_equal(track_of(t, row).id, extremes[COUNT_OF(extremes) - 1 - i]);
    }
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_flow flow; /* 257 and 258 are no other names of 1 and 2 */
        kineto_trace_flow(t, i, &flow);
        assert_int_not_equal(flow.type, KINETO_FLOW_FWD_BWD);
        assert_int_not_equal(flow.type, KINETO_FLOW_ASYNC_CPU_GPU);
    }
    kineto_trace_release(t);
    leave(0);
}

static void numbers_of_clocks_and_sets_are_of_no_use_to_others(void **state)
{
    (void)state;
    fake *a = make_fake(0, "owner", 0), *b = make_fake(1, "thief", 0);
    a->types[3] = b->types[3] = TYPE(GPU_PM_COUNTER);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    assert_int_equal(register_interface(&interfaces[1]), 0);
    kineto_session *s = record();
    handle *ha = a->live->pTraceBuilderHandle, *hb = b->live->pTraceBuilderHandle;
    int32_t clock = 0, set = 0;
    int64_t zero = 0, values[2] = {0, 0};
    KinetoPlugin_CounterSet cs = counter_set("owned");
    assert_int_equal(a->live->registerClock(ha, "owned", &clock), 0);
    assert_int_equal(a->live->registerCounters(ha, &cs, &set), 0);
    uint64_t ticks = a->live->hostTicks(ha);
    int64_t origin = now_ns();
    assert_int_equal(a->live->addClockSample(ha, clock, 0, ticks, ticks + 1), 0);
    /* would move the other's events by hours */
    (void)b->live->addClockSample(hb, clock, INT64_C(3600000000000), ticks, ticks);
    (void)b->live->addClockSample(hb, clock, INT64_C(-3600000000000), ticks, ticks);
    KinetoPlugin_CounterSamples samples = {
        SIZE_TO(CounterSamples, pValues), set, 0, 1, &zero, values};
    assert_int_not_equal(b->live->addCounterSamples(hb, &samples), 0);
    KinetoPlugin_Activity k = activity_of(TYPE(CONCURRENT_KERNEL), "ticked");
    k.event.startTimeUtcNs = k.event.endTimeUtcNs = 1000;
    k.clock = clock;
    assert_int_equal(a->live->emit(ha, &k), 0);
    usleep(2000);
    kineto_trace *t = finish_soundly(s);
    int64_t off = find_only(t, "ticked").start_ns - origin;
    assert_in_range(off + 1000000000, 0, 2000000000); /* a second: the machine may be busy */
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

/* ---- texts ------------------------------------------------------------------------------------------- */

static void metadata_that_is_not_json_is_quoted_and_counted_under_its_source(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        " ",         "{",    "[1,",  "nul",  "NaN",       "Infinity", "-",    "01",
        "1.",      ".5",        "+1",   "1e",   "'x'",  "\"",        "\"\\x\"",  "tru",  "[1 2]",
        "{\"a\"}", "{a:1}",     "[1,]", "{,}",  "\xff", "\"\xff",    "1 2",      "/**/", "\"a\nb\"",
        "]",       "\"\\ud800", "--1",  "0x10", "1,2",  "undefined", "{\"a\":}", "\\"};
    static const char *const good[] = {"0",
                                       "-0",
                                       "1e5",
                                       "\"x\"",
                                       "[]",
                                       "{}",
                                       " [1] ",
                                       "true",
                                       "null",
                                       "-12.50",
                                       "9223372036854775808"};
    fake *f = enter(0, "texts");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    for (size_t i = 0; i < COUNT_OF(bad) + COUNT_OF(good); i++) {
        const char *value = i < COUNT_OF(bad) ? bad[i] : good[i - COUNT_OF(bad)];
        assert_int_equal(add_named(b, f->started_ns, "json"), 0);
        assert_int_equal(b->addLastEventMetadata(h, "key \xfe\"", value), 0);
        KinetoPlugin_Metadata m = {
            "typed", KINETO_PLUGIN_VALUE_JSON, (uint32_t)strlen(value), {.pointer = value}};
        assert_int_equal(b->addLastEventValues(h, &m, 1), 0);
    }
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(count_named(t, "json"), COUNT_OF(bad) + COUNT_OF(good));
    assert_int_equal(ledger(t, "texts", "metadata was not JSON, quoted"), 2 * COUNT_OF(bad));
    for (kineto_row r = 0; r < COUNT_OF(bad); r++) {
        assert_int_equal(arg_of(t, r, "typed").type, KINETO_ARG_STRING);
        assert_text(arg_of(t, r, "typed").text, bad[r]);
        assert_text(arg_of(t, r, "key \xfe\"").text, bad[r]);
    }
    assert_nothing_lost(t);
    kineto_trace_release(t);
    leave(0);
}

static void a_profilers_name_is_any_bytes_up_to_its_end(void **state)
{
    (void)state;
    static const char long_name[] = "a name of more than thirty-one bytes \xc3\xa9";
    const char *const names[] = {long_name, "", "\xff\xfe\"\\\n", "%s%n"};
    const char *const shown[] = {"a name of more than thirty-one ", "unnamed plug-in",
                                 "\xff\xfe\"\\\n", "%s%n"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        fake *f = enter(0, names[i]);
        kineto_session *s = record();
        assert_int_equal(emit_named(f->live, "event"), 0);
        kineto_trace *t = finish_soundly(s);
        assert_int_equal(ledger(t, shown[i], "delivered"), 1);
        assert_text(process_of(t, 0).name, shown[i]);
        kineto_trace_release(t);
        leave(0);
    }
}

static char *text_of(size_t bytes, char c)
{
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    memset(text, c, bytes);
    text[bytes] = 0;
    return text;
}

static void long_texts_arrive_whole_or_are_counted(void **state)
{
    (void)state;
    static const size_t sizes[] = {1023, 1024, 1025, 2047, 2048, 2049, 8000, 8192, 20000, 200000};
    fake *f = enter(0, "long");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char *text = text_of(sizes[i], (char)('a' + i));
        assert_int_equal(add_named(b, f->started_ns, text), 0);
        assert_int_equal(b->addLastEventMetadata(h, text, "1"), 0);
        assert_int_equal(b->addLastEventMetadata(h, "as text", text), 0);
        KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), text);
        KinetoPlugin_Metadata m = {
            text, KINETO_PLUGIN_VALUE_STRING, (uint32_t)sizes[i], {.pointer = text}};
        a.pMetadata = &m;
        a.metadataCount = 1;
        assert_int_equal(b->emit(h, &a), 0);
        free(text);
    }
    usleep(100);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 2 * COUNT_OF(sizes));
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        char *text = text_of(sizes[r / 2], (char)('a' + r / 2));
        assert_text(row_at(t, r).name, text);
        assert_int_equal(arg_of(t, r, text).type, r & 1 ? KINETO_ARG_STRING : KINETO_ARG_INT);
        assert_int_equal(arg_of(t, r, r & 1 ? text : "as text").text.size, sizes[r / 2]);
        free(text);
    }
    kineto_trace_release(t);
    leave(0);
}

static void metadata_beyond_a_record_is_counted_and_the_event_stays(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    static int64_t ints[MANY];
    static const char *strings[MANY];
    fake *f = enter(0, "much");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    for (int i = 0; i < MANY; i++)
        strings[i] = i & 1 ? NULL : "x";
    assert_int_equal(add_named(b, f->started_ns, "much"), 0);
    int refused = 0;
    for (int i = 0; i < MANY; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i % 700);
        refused += b->addLastEventMetadata(h, key, "1") != 0;
    }
    assert_in_range(refused, 1, MANY - 400);
    KinetoPlugin_Metadata lists[] = {
        {"ints", KINETO_PLUGIN_VALUE_INTS, MANY, {.pointer = ints}},
        {"strings", KINETO_PLUGIN_VALUE_STRINGS, MANY, {.pointer = strings}},
        {"no ints", KINETO_PLUGIN_VALUE_INTS, 0, {.pointer = NULL}},
        {"after", KINETO_PLUGIN_VALUE_INT, 0, {.i = 7}}};
    KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), "lists");
    a.pMetadata = lists;
    a.metadataCount = COUNT_OF(lists);
    assert_int_equal(b->emit(h, &a), 0);
    assert_int_equal(b->addDeviceProperties(h, 3, lists, COUNT_OF(lists)), 0);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 2);
    assert_int_equal(arg_of(t, find_only(t, "lists").row, "after").i, 7);
    assert_text(arg_of(t, find_only(t, "lists").row, "no ints").text, "[]");
    assert_int_equal(ledger(t, "much", "text shortened"), refused + 4);
    kineto_trace_release(t);
    leave(0);
}

/* The name table is for all: what a plug-in does to it is said of the plug-in. */
static void names_without_end_are_the_plug_ins_shame(void **state)
{
    (void)state;
    pid_t pid = fork(); /* the table is shared, but not who tells */
    if (pid == 0) {
        char name[256];
        memset(name, 'n', sizeof name - 1);
        fake *f = enter(0, "wordy");
        kineto_session *s = session_of(KINETO_KINDS_ALL, 16 << 20, KINETO_RETAIN_OLDEST);
        for (int i = 0; i < 40000; i++) {
            name[snprintf(name, 16, "%d", i)] = '.';
            name[sizeof name - 1] = 0;
            (void)emit_named(f->live, name);
        }
        kineto_trace *t = finish(s);
        bool said = ledger(t, "wordy", "name table full") > 0 &&
                    ledger(t, "program", "name table full") == 0 &&
                    ledger(t, "wordy", "delivered") == 40000;
        if (!said)
            print_ledger(t);
        _exit(!said);
    }
    assert_exit(pid, 0);
}

/* ---- how many ---------------------------------------------------------------------------------------- */

enum { MILLION = FEWER(1000000, 100000) };

static void deliver_a_million(fake *f, char letter, const builder *b)
{
    handle *h = b ? b->pTraceBuilderHandle : NULL;
    for (int i = 0; letter == 'p' && i < MILLION; i++) {
        KinetoPlugin_ProfileEvent e =
            event_of(TYPE(CONCURRENT_KERNEL), f->started_ns + i, f->started_ns + i + 1);
        if (b->addEvent(h, &e) || b->setLastEventName(h, i & 1 ? "odd" : "even"))
            return;
    }
}

static void a_million_events_or_none_are_both_fine(void **state)
{
    (void)state;
    fake *f = enter(0, "many"), *none = enter(1, "none");
    f->at = deliver_a_million;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 96u << 20, KINETO_RETAIN_OLDEST);
    usleep(2000);
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), MILLION);
    assert_int_equal(ledger(t, "many", "delivered"), MILLION);
    assert_int_equal(ledger(t, "none", "delivered"), 0);
    assert_string_equal(none->calls, "cstpd");
    for (kineto_row r = 0; r < MILLION; r += 999)
        assert_text(row_at(t, r).name, r & 1 ? "odd" : "even");
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

static void more_than_the_buffer_holds_is_the_plug_ins_loss_to_the_last_event(void **state)
{
    (void)state;
    KINETO_SITE(mine, KINETO_KIND_CPU_OP, "mine");
    fake *f = enter(0, "many");
    kineto_session *s = session_of(KINETO_KINDS_ALL, 256 << 10, KINETO_RETAIN_OLDEST);
    kineto_range r = kineto_range_begin(&mine);
    usleep(100);
    deliver_a_million(f, 'p', f->live);
    kineto_range_end(r);
    uint64_t until = 0;
    for (; until < MILLION / 10; until++) /* the loop above ended at the first refusal */
        (void)emit_named(f->live, "more");
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(count_named(t, "mine"), 1);
    assert_true(ledger(t, "many", "buffer full") > 0);
    assert_int_equal(ledger(t, "many", "delivered"), kineto_trace_count(t) - 1);
    assert_int_equal(ledger(t, "program", "buffer full"), 0);
    kineto_trace_release(t);
    leave(0);
}

/* ---- out of time ------------------------------------------------------------------------------------- */

static int call_everything(const builder *b)
{
    handle *h = b->pTraceBuilderHandle;
    int64_t ns = now_ns();
    int32_t number = 0;
    int taken = 0;
    KinetoPlugin_ProfileEvent e = event_of(TYPE(CONCURRENT_KERNEL), ns, ns);
    KinetoPlugin_ProfileEventFlow flow = {SIZE_TO(ProfileEventFlow, isStartPoint), 1, 2, 1};
    KinetoPlugin_ProfileDeviceInfo device = {SIZE_TO(ProfileDeviceInfo, pLabel), 3, 1, "late", ""};
    KinetoPlugin_ProfileResourceInfo resource = {
        SIZE_TO(ProfileResourceInfo, pName), {3}, {7}, 1, "late"};
    KinetoPlugin_Metadata m = {"late", KINETO_PLUGIN_VALUE_INT, 0, {.i = 1}};
    KinetoPlugin_CounterSet set = counter_set("late");
    const int64_t values[2] = {0, 0};
    KinetoPlugin_CounterSamples samples = {SIZE_TO(CounterSamples, pValues), 0, 0, 1, &ns, values};
    taken += b->addEvent(h, &e) == 0;
    taken += b->setLastEventName(h, "late") == 0;
    taken += b->setLastEventFlow(h, &flow) == 0;
    taken += b->addLastEventMetadata(h, "late", "1") == 0;
    taken += b->addLastEventValues(h, &m, 1) == 0;
    taken += b->setLastEventIds(h, 1, 1) == 0;
    taken += b->addDeviceInfo(h, &device) == 0;
    taken += b->addResourceInfo(h, &resource) == 0;
    taken += emit_named(b, "late") == 0;
    taken += b->addDeviceProperties(h, 3, &m, 1) == 0;
    taken += b->registerClock(h, "late", &number) == 0;
    taken += b->addClockSample(h, 5, 0, 1, 2) == 0;
    taken += b->addHeaderMetadata(h, "late", "1") == 0;
    taken += b->registerCounters(h, &set, &number) == 0;
    taken += b->addCounterSamples(h, &samples) == 0;
    taken += b->registerMetadataSet(h, &m, 1, (uint32_t *)&number) == 0;
    taken += b->addLedgerLine(h, "late", 1, 1, NULL) == 0;
    assert_true(b->hostTicks(h) > 0);
    return taken;
}

static void *call_everything_on_a_thread(void *argument)
{
    return (void *)(intptr_t)call_everything(argument);
}

static void calls_after_the_session_are_refused_and_seen_by_who_records_then(void **state)
{
    (void)state;
    fake *f = make_fake(0, "late", 0);
    f->types[3] = TYPE(GPU_PM_COUNTER);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_trace_release(finish(record()));
    const builder *b = f->live;
    void *taken;
    assert_int_equal(call_everything(b), 0);
    assert_int_equal(pthread_join(start_thread(call_everything_on_a_thread, (void *)b), &taken), 0);
    assert_ptr_equal(taken, NULL);
    /* a session without its kinds: it has none itself, but its attempts are reported */
    kineto_session *s = session_of(BIT(CPU_OP), 1 << 20, KINETO_RETAIN_OLDEST);
    assert_int_equal(call_everything(b), 0);
    kineto_trace *t = finish_soundly(s);
    assert_int_equal(kineto_trace_count(t), 0);
    assert_int_equal(ledger(t, "late", "delivered when the session was over"), 3);
    assert_int_equal(ledger(t, "late", "plug-in call failed"), 14);
    assert_int_equal(kineto_trace_lost(t), 3);
    kineto_trace_release(t);
    leave(0);
    assert_int_equal(call_everything(b), 0); /* withdrawn */
}

static void deliver_while_it_ends(fake *f, char letter, const builder *b)
{
    if (letter == 't')
        assert_int_equal(add_named(b, f->started_ns, "in stop"), 0);
    if (letter == 'p')
        assert_int_equal(
            emit_named(f->live, "live in process") | add_named(b, f->started_ns, "in process"), 0);
    if (letter == 'd')
        assert_int_not_equal(add_named(b, f->started_ns, "in destroy"), 0);
}

static void the_builder_works_until_the_events_are_processed(void **state)
{
    (void)state;
    fake *f = enter(0, "ends");
    f->at = deliver_while_it_ends;
    kineto_trace *t = finish_soundly(record());
    assert_int_equal(count_named(t, "in stop"), 1);
    assert_int_equal(count_named(t, "in process"), 1);
    assert_int_equal(count_named(t, "in destroy"), 0);
    kineto_trace_release(t);
    leave(0);
}

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_that_are_too_small_are_refused_and_larger_ones_are_not),
        cmocka_unit_test(sizes_of_zero_and_of_everything_are_met_with_calm),
        cmocka_unit_test(without_a_handle_or_an_argument_calls_are_refused),
        cmocka_unit_test(numbers_out_of_range_are_refused_or_kept_but_never_wrapped),
        cmocka_unit_test(numbers_of_clocks_and_sets_are_of_no_use_to_others),
        cmocka_unit_test(metadata_that_is_not_json_is_quoted_and_counted_under_its_source),
        cmocka_unit_test(a_profilers_name_is_any_bytes_up_to_its_end),
        cmocka_unit_test(long_texts_arrive_whole_or_are_counted),
        cmocka_unit_test(metadata_beyond_a_record_is_counted_and_the_event_stays),
        cmocka_unit_test(a_million_events_or_none_are_both_fine),
        cmocka_unit_test(more_than_the_buffer_holds_is_the_plug_ins_loss_to_the_last_event),
        cmocka_unit_test(calls_after_the_session_are_refused_and_seen_by_who_records_then),
        cmocka_unit_test(the_builder_works_until_the_events_are_processed),
        /* last: what could not be placed stays in a chunk that later sessions look at */
        cmocka_unit_test(extreme_and_unordered_times_in_every_clock_leave_a_sound_trace),
        cmocka_unit_test(names_without_end_are_the_plug_ins_shame), /* the name table stays full */
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}

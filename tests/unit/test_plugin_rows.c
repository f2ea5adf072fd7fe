/* What a plug-in says of devices, queues, counters, kinds of its own and the header, read back from
 * the trace file by another JSON parser. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"
#include "record/record.h"

#include "../helpers/plugins.h"

/* ---- reading back -------------------------------------------------------------------------------------- */

static char shown[1 << 16]; /* what show_rows.py prints */

static void show(const kineto_trace *t)
{
    char directory[200], path[256], command[1024];
    kineto_error err = {0};
    if (system("python3 -c '' 2>/dev/null") != 0) {
        print_message("skipped: no python3\n");
        skip();
    }
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/rows.json", directory);
    if (kineto_trace_save(t, path, &err))
        fail_msg("%s", err.message);
    snprintf(command, sizeof command,
             "PYTHONIOENCODING=utf-8 python3 %s/tests/unit/show_rows.py %s", CKINETO_SOURCE_DIR,
             path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(shown + 1, 1, sizeof shown - 2, f);
    shown[0] = '\n';
    shown[n + 1] = 0;
    assert_int_equal(pclose(f), 0);
    unlink(path);
    rmdir(directory);
}

static size_t lines_with(const char *text)
{
    size_t count = 0;
    for (const char *at = shown; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void assert_shown(const char *line)
{
    char whole[2000];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    if (!strstr(shown, whole))
        fail_msg("no line '%s' in:%s", line, shown);
}

static void assert_not_shown(const char *text)
{
    if (strstr(shown, text))
        fail_msg("'%s' is in:%s", text, shown);
}

/* ---- devices and queues --------------------------------------------------------------------------------- */

static void say_device(const builder *b, int64_t id, int64_t sort, const char *name,
                       const char *label)
{
    KinetoPlugin_ProfileDeviceInfo d = {SIZE_TO(ProfileDeviceInfo, pLabel), id, sort, name, label};
    assert_int_equal(b->addDeviceInfo(b->pTraceBuilderHandle, &d), 0);
}

static void say_resource(const builder *b, int32_t device, int32_t id, int32_t order,
                         const char *name)
{
    KinetoPlugin_ProfileResourceInfo r = {
        SIZE_TO(ProfileResourceInfo, pName), {device}, {id}, order, name};
    assert_int_equal(b->addResourceInfo(b->pTraceBuilderHandle, &r), 0);
}

static void emit_at(const builder *b, int32_t type, int32_t device, int32_t resource,
                    const char *name)
{
    KinetoPlugin_Activity a = activity_of(type, name);
    a.event.deviceId = device;
    a.event.resourceId = resource;
    assert_int_equal(b->emit(b->pTraceBuilderHandle, &a), 0);
}

static void devices_and_queues_are_rows_with_name_label_and_order(void **state)
{
    (void)state;
    fake *f = enter(0, "rows");
    kineto_session *s = record();
    char ephemeral[32] = "Accel \"X\" \xc3\xa9\n";
    say_device(f->live, 0, 11, "first said", "to be replaced");
    say_device(f->live, 0, 12, ephemeral, "ACC 0");
    say_device(f->live, 1, -5, "Accel \xff", NULL);
    say_device(f->live, 2, 0, NULL, NULL);
    snprintf(ephemeral, sizeof ephemeral, "compute queue");
    say_resource(f->live, 0, 7, 3, ephemeral);
    snprintf(ephemeral, sizeof ephemeral, "copy queue");
    say_resource(f->live, 0, 8, -2, ephemeral);
    memset(ephemeral, '#', sizeof ephemeral);
    for (int32_t queue = 7; queue <= 9; queue++)
        emit_at(f->live, TYPE(CONCURRENT_KERNEL), 0, queue, "k");
    emit_at(f->live, TYPE(CONCURRENT_KERNEL), 1, 7, "k");
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    show(t);
    assert_shown("process 0 {\"labels\": \"ACC 0\", \"name\": \"Accel \\\"X\\\" \\u00e9\\n\", "
                 "\"sort_index\": 12}");
    assert_shown("process 1 {\"labels\": \"device 1\", \"name\": \"Accel \\ufffd\", "
                 "\"sort_index\": -5}");
    assert_shown("thread 0 7 {\"name\": \"compute queue\", \"sort_index\": 3}");
    assert_shown("thread 0 8 {\"name\": \"copy queue\", \"sort_index\": -2}");
    assert_shown("thread 0 9 {\"name\": \"stream 9\", \"sort_index\": 9}");
    assert_shown("thread 1 7 {\"name\": \"stream 7\", \"sort_index\": 7}");
    assert_not_shown("to be replaced");
    assert_not_shown("#");
    kineto_trace_release(t);
    leave(0);
}

static void the_same_numbers_of_two_plug_ins_are_two_devices(void **state)
{
    (void)state;
    fake *a = enter(0, "vendor a"), *b = enter(1, "vendor b");
    kineto_session *s = record();
    say_device(a->live, 40, 1, "of a", "A");
    say_device(b->live, 40, 2, "of b", "B");
    say_resource(a->live, 40, 7, 5, "queue of a");
    say_resource(b->live, 40, 7, 6, "queue of b");
    emit_at(a->live, TYPE(CONCURRENT_KERNEL), 40, 7, "ka");
    emit_at(b->live, TYPE(CONCURRENT_KERNEL), 40, 7, "kb");
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    show(t);
    assert_shown("process 40 {\"labels\": \"A\", \"name\": \"of a\", \"sort_index\": 1}");
    assert_shown("thread 40 7 {\"name\": \"queue of a\", \"sort_index\": 5}");
    assert_int_equal(lines_with(" 7 {\"name\": \"queue of b\", \"sort_index\": 6}"), 1);
    assert_int_equal(lines_with("\"labels\": \"B\", \"name\": \"of b\", \"sort_index\": 2}"), 1);
    assert_int_equal(lines_with("cat=kernel \"ka\""), 1);
    assert_int_equal(lines_with("slice pid=40 "), 1);
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

static void rows_of_processes_and_threads_may_be_named_too(void **state)
{
    (void)state;
    KINETO_SITE(op, KINETO_KIND_CPU_OP, "op");
    char line[300];
    fake *f = make_fake(0, "host rows", 0);
    f->types[3] = TYPE(CPU_OP);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    int32_t pid = getpid(), tid = pid + 100000;
    kineto_session *s = record();
    kineto_range_end(kineto_range_begin(&op));
    say_resource(f->live, pid, tid, 4, "runtime worker");
    emit_at(f->live, TYPE(CPU_OP), pid, tid, "reported");
    emit_at(f->live, TYPE(PRIVATEUSE1_RUNTIME), pid, tid, "launch");
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    show(t);
    snprintf(line, sizeof line, "slice pid=%d tid=%d cat=cpu_op \"reported\" {}", pid, tid);
    assert_shown(line);
    snprintf(line, sizeof line, "slice pid=%d tid=%d cat=privateuse1_runtime \"launch\" {}", pid,
             tid);
    assert_shown(line);
    snprintf(line, sizeof line,
             "\nthread %d %d {\"name\": \"thread %d (runtime worker)\", \"sort_index\": 4}", pid,
             tid, tid);
    assert_int_equal(lines_with(line), 1);
    kineto_trace_release(t);
    leave(0);
}

static void names_of_rows_are_long_if_they_are(void **state)
{
    (void)state;
    char name[2001], line[2200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    fake *f = enter(0, "long rows");
    kineto_session *s = record();
    say_device(f->live, 60, 1, name, "l");
    emit_at(f->live, TYPE(CONCURRENT_KERNEL), 60, 7, "k");
    usleep(100);
    kineto_trace *t = finish(s);
    show(t);
    snprintf(line, sizeof line, "\"name\": \"%s\"", name);
    assert_true(lines_with(line) > 0);
    kineto_trace_release(t);
    leave(0);
}

static uint32_t words_used(void) { return kineto_rt_pool()->control->dictionary_used; }

static void what_is_said_again_in_every_session_takes_no_room(void **state)
{
    (void)state;
    const KinetoPlugin_Metadata cores[] = {{"cores", KINETO_PLUGIN_VALUE_INT, 0, {.i = 8}}};
    uint32_t used = 0;
    fake *f = enter(0, "repeats");
    for (int round = 0; round < 20; round++) {
        bool other = round == 10; /* said otherwise once, and back */
        kineto_session *s = record();
        say_device(f->live, 90, 1, other ? "renamed" : "same", "l");
        say_device(f->live, 91, 1, "same", "l");
        assert_int_equal(f->live->addDeviceProperties(f->live->pTraceBuilderHandle, 90, cores, 1),
                         0);
        for (int32_t queue = 0; queue < 100; queue++)
            say_resource(f->live, 90, queue, 0, other ? "renamed" : "queue");
        emit_at(f->live, TYPE(CONCURRENT_KERNEL), 90, 7, "k");
        usleep(100);
        kineto_trace *t = finish(s);
        assert_text(process_of(t, 0).name, other ? "renamed" : "same");
        assert_text(track_of(t, 0).name, other ? "renamed" : "queue");
        kineto_trace_release(t);
        if (round == 0)
            used = words_used();
        if (round == 9)
            assert_int_equal(words_used(), used);
    }
    leave(0);
}

/* ---- header ------------------------------------------------------------------------------------------------ */

static void properties_and_header_entries_are_in_the_header(void **state)
{
    (void)state;
    const int64_t ints[] = {1, INT64_MIN};
    const char *const strings[] = {"a", "\"b\""};
    const KinetoPlugin_Metadata properties[] = {
        {"memory", KINETO_PLUGIN_VALUE_UINT, 0, {.u = UINT64_MAX}},
        {"clock", KINETO_PLUGIN_VALUE_DOUBLE, 0, {.d = 1.5}},
        {"clock", KINETO_PLUGIN_VALUE_DOUBLE, 0, {.d = 2.5}},
        {"ecc", KINETO_PLUGIN_VALUE_BOOL, 0, {.u = 1}},
        {"ints", KINETO_PLUGIN_VALUE_INTS, 2, {.pointer = ints}},
        {"strings", KINETO_PLUGIN_VALUE_STRINGS, 2, {.pointer = strings}},
        {"nan", KINETO_PLUGIN_VALUE_DOUBLE, 0, {.d = __builtin_nan("")}},
        {"id", KINETO_PLUGIN_VALUE_INT, 0, {.i = 99}},
        {"bad", KINETO_PLUGIN_VALUE_JSON, 5, {.pointer = "{\"a\":"}}};
    fake *f = enter(0, "header");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    say_device(b, 70, 1, "d", "l");
    assert_int_equal(b->addDeviceProperties(h, 70, properties, COUNT_OF(properties)), 0);
    assert_int_equal(b->addDeviceProperties(h, 71, NULL, 0), 0);
    assert_int_equal(b->addHeaderMetadata(h, "driver \"v\"", "[1,{\"x\":null}]"), 0);
    assert_int_equal(b->addHeaderMetadata(h, "traceEvents", "\"mine\""), 0);
    assert_int_equal(b->addHeaderMetadata(h, "broken", "{"), 0);
    kineto_trace *t = finish(s);
    show(t);
    assert_shown("header \"driver \\\"v\\\"\" [1, {\"x\": null}]");
    assert_shown("header \"traceEvents (2)\" \"mine\"");
    assert_shown("header \"broken\" \"{\"");
    assert_int_equal(lines_with("\"id\": 70"), 1);
    assert_int_equal(lines_with("\"memory\": 18446744073709551615"), 1);
    assert_int_equal(lines_with("\"clock\": 1.5"), 1);
    assert_int_equal(lines_with("\"ecc\": true"), 1);
    assert_int_equal(lines_with("\"ints\": [1, -9223372036854775808]"), 1);
    assert_int_equal(lines_with("\"strings\": [\"a\", \"\\\"b\\\"\"]"), 1);
    assert_int_equal(lines_with("\"bad\": \"{\\\"a\\\":\""), 1);
    kineto_trace_release(t);
    leave(0);
}

/* ---- counters ----------------------------------------------------------------------------------------------- */

static const char *const watt_celsius[] = {"power", "temperature"};
static const char *const units[] = {"W", NULL};

static KinetoPlugin_CounterSet set_of(const char *name, int32_t value_type)
{
    return (KinetoPlugin_CounterSet){.unpaddedStructSize = SIZE_TO(CounterSet, pUnits),
                                     .pName = name,
                                     .eventType = TYPE(GPU_PM_COUNTER),
                                     .deviceId = 80,
                                     .valueType = value_type,
                                     .seriesCount = 2,
                                     .pSeriesNames = watt_celsius,
                                     .pUnits = units};
}

static fake *enter_counting(int n, const char *name)
{
    fake *f = make_fake(n, name, 0);
    f->types[3] = TYPE(GPU_PM_COUNTER);
    assert_int_equal(register_interface(&interfaces[n]), 0);
    return f;
}

static void samples_of_sets_are_counters_with_unit_and_device(void **state)
{
    (void)state;
    fake *f = enter_counting(0, "counters");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    KinetoPlugin_CounterSet doubles = set_of("board", KINETO_PLUGIN_VALUE_DOUBLE),
                            ints = set_of("ints", KINETO_PLUGIN_VALUE_INT),
                            uints = set_of("uints", KINETO_PLUGIN_VALUE_UINT);
    int32_t set[3];
    assert_int_equal(b->registerCounters(h, &doubles, &set[0]), 0);
    assert_int_equal(b->registerCounters(h, &ints, &set[1]), 0);
    assert_int_equal(b->registerCounters(h, &uints, &set[2]), 0);
    assert_true(set[0] != set[1] && set[1] != set[2]);
    int64_t times[] = {f->started_ns + 3, f->started_ns + 1, f->started_ns + 2};
    const double d[] = {1.5, 60, 2.5, -1e300, __builtin_nan(""), __builtin_inf()};
    const int64_t i[] = {INT64_MIN, -1, 0, 1, INT64_MAX, 42};
    const uint64_t u[] = {0, UINT64_MAX};
    KinetoPlugin_CounterSamples samples = {
        SIZE_TO(CounterSamples, pValues), set[0], 0, 3, times, d};
    assert_int_equal(b->addCounterSamples(h, &samples), 0);
    samples.set = set[1];
    samples.pValues = i;
    assert_int_equal(b->addCounterSamples(h, &samples), 0);
    samples.set = set[2];
    samples.pValues = u;
    samples.count = 1;
    assert_int_equal(b->addCounterSamples(h, &samples), 0);
    samples.count = 0;
    samples.pTimes = NULL;
    samples.pValues = NULL;
    assert_int_equal(b->addCounterSamples(h, &samples), 0);
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 7);
    assert_int_equal(ledger(t, "counters", "delivered"), 7);
    show(t);
    assert_shown("counter pid=80 cat=None \"board\" {\"power [W]\": 1.5, \"temperature\": 60.0}");
    assert_shown("counter pid=80 cat=None \"ints\" {\"power [W]\": -9223372036854775808, "
                 "\"temperature\": -1}");
    assert_shown("counter pid=80 cat=None \"uints\" {\"power [W]\": 0, "
                 "\"temperature\": 18446744073709551615}");
    assert_int_equal(lines_with("counter pid=80"), 7);
    kineto_trace_release(t);
    leave(0);
}

static void an_event_of_a_counter_kind_is_a_counter_of_its_metadata(void **state)
{
    (void)state;
    fake *f = enter_counting(0, "counters");
    kineto_session *s = record();
    const builder *b = f->live;
    KinetoPlugin_ProfileEvent e =
        event_of(TYPE(GPU_PM_COUNTER), f->started_ns, f->started_ns + 1000);
    assert_int_equal(b->addEvent(b->pTraceBuilderHandle, &e), 0);
    assert_int_equal(b->setLastEventName(b->pTraceBuilderHandle, "ctr"), 0);
    assert_int_equal(b->addLastEventMetadata(b->pTraceBuilderHandle, "my_counter", "42"), 0);
    kineto_trace *t = finish(s);
    show(t);
    assert_shown("counter pid=3 cat=None \"ctr\" {\"my_counter\": 42}");
    assert_not_shown("slice");
    kineto_trace_release(t);
    leave(0);
}

static void the_same_set_keeps_its_number_over_sessions(void **state)
{
    (void)state;
    fake *f = enter_counting(0, "counters");
    int32_t first = -1, again = -1, other = -1;
    for (int round = 0; round < 3; round++) {
        kineto_session *s = record();
        const builder *b = f->live;
        handle *h = b->pTraceBuilderHandle;
        KinetoPlugin_CounterSet set = set_of("kept", KINETO_PLUGIN_VALUE_INT);
        assert_int_equal(b->registerCounters(h, &set, &again), 0);
        first = round ? first : again;
        assert_int_equal(again, first);
        set.deviceId = 81; /* each of these makes it another one */
        assert_int_equal(b->registerCounters(h, &set, &other), 0);
        assert_int_not_equal(other, first);
        set = set_of("kept", KINETO_PLUGIN_VALUE_INT);
        set.pUnits = NULL;
        assert_int_equal(b->registerCounters(h, &set, &other), 0);
        assert_int_not_equal(other, first);
        set = set_of("kept", KINETO_PLUGIN_VALUE_INT);
        set.seriesCount = 1;
        assert_int_equal(b->registerCounters(h, &set, &other), 0);
        assert_int_not_equal(other, first);
        kineto_trace_release(finish(s));
    }
    leave(0);
}

static void sets_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *many[65];
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = "s";
    const char *const hole[] = {"a", NULL};
    fake *f = enter_counting(0, "counters");
    kineto_session *s = record();
    const builder *b = f->live;
    handle *h = b->pTraceBuilderHandle;
    const KinetoPlugin_CounterSet good = set_of("good", KINETO_PLUGIN_VALUE_INT);
    KinetoPlugin_CounterSet bad[10];
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        bad[i] = good;
    bad[0].pName = NULL;
    bad[1].seriesCount = 0;
    bad[2].seriesCount = 65;
    bad[2].pSeriesNames = many;
    bad[2].pUnits = NULL;
    bad[3].seriesCount = UINT32_MAX;
    bad[4].pSeriesNames = NULL;
    bad[5].pSeriesNames = hole;
    bad[6].valueType = KINETO_PLUGIN_VALUE_STRING;
    bad[7].valueType = 0;
    bad[8].eventType = TYPE(CONCURRENT_KERNEL); /* enabled, but not like a counter */
    bad[9].eventType = 12345;
    int32_t number = -5;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (b->registerCounters(h, &bad[i], &number) == 0)
            fail_msg("set %zu was taken", i);
    assert_int_equal(number, -5);
    KinetoPlugin_CounterSet most = good;
    most.seriesCount = 64;
    char names[64][8];
    for (size_t i = 0; i < 64; i++) {
        snprintf(names[i], sizeof names[i], "s%zu", i);
        many[i] = names[i];
    }
    most.pSeriesNames = many;
    most.pUnits = NULL;
    assert_int_equal(b->registerCounters(h, &most, &number), 0);
    int64_t time = f->started_ns, values[64] = {0};
    KinetoPlugin_CounterSamples samples = {
        SIZE_TO(CounterSamples, pValues), number, 0, 1, &time, values};
    assert_int_equal(b->addCounterSamples(h, &samples), 0);
    KinetoPlugin_CounterSamples wrong[] = {samples, samples, samples, samples, samples, samples};
    wrong[0].set = -1;
    wrong[1].set = number + 1;
    wrong[2].set = INT32_MAX;
    wrong[3].clock = 16;
    wrong[4].pTimes = NULL;
    wrong[5].pValues = NULL;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_not_equal(b->addCounterSamples(h, &wrong[i]), 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_int_equal(ledger(t, "counters", "invalid event from a plug-in"), 10 + 6);
    kineto_trace_release(t);
    int taken = 0; /* more sets than there are */
    s = record();
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "set %d", i);
        KinetoPlugin_CounterSet set = set_of(name, KINETO_PLUGIN_VALUE_INT);
        taken += f->live->registerCounters(f->live->pTraceBuilderHandle, &set, &number) == 0;
    }
    assert_in_range(taken, 32, 99);
    kineto_trace_release(finish(s));
    leave(0);
}

/* ---- kinds of a plug-in's own --------------------------------------------------------------------------------- */

static int announce(const KinetoPlugin_ActivityTypeInfo *types, size_t count, int32_t *first)
{
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    KinetoPlugin_RegisterActivityTypes_Params p = {
        SIZE_TO(RegisterActivityTypes_Params, firstEventType), types, count, -1};
    int result = r->registerActivityTypes(r->pRegistryHandle, &p);
    *first = p.firstEventType;
    return result;
}

static void own_kinds_appear_as_categories_and_are_chosen_by_name(void **state)
{
    (void)state;
    const KinetoPlugin_ActivityTypeInfo types[] = {{"acme_dma", TYPE(GPU_MEMCPY), 1},
                                                   {"acme_secret", TYPE(CONCURRENT_KERNEL), 0},
                                                   {"acme_load", TYPE(GPU_PM_COUNTER), 1},
                                                   {"xpu_driver", TYPE(CUDA_DRIVER), 1}};
    int32_t first = 0, again = 0;
    uint64_t secret = 0;
    assert_int_equal(announce(types, COUNT_OF(types), &first), 0);
    assert_true(first >= TYPE(OWN_FIRST));
    assert_int_equal(announce(types, COUNT_OF(types), &again), 0);
    assert_int_equal(again, first);
    assert_int_equal(announce(types + 1, 1, &again), 0);
    assert_int_equal(again, first + 1);
    assert_string_equal(kineto_plugin_type_name(first + 2), "acme_load");
    assert_int_equal(kineto_kinds_parse("ACME_SECRET", &secret, NULL), KINETO_OK);
    fake *f = make_fake(0, "acme", 0);
    for (int i = 0; i < 4; i++)
        f->types[3 + i] = first + i;
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = session_of(0, 1 << 20, KINETO_RETAIN_OLDEST); /* the defaults */
    assert_int_equal(f->enabled_count, 3 + 3);
    KinetoPlugin_CounterSet set = set_of("load", KINETO_PLUGIN_VALUE_INT);
    int32_t number;
    int64_t time = now_ns(), values[2] = {5, 6};
    set.eventType = first + 2;
    assert_int_equal(f->live->registerCounters(f->live->pTraceBuilderHandle, &set, &number), 0);
    KinetoPlugin_CounterSamples samples = {
        SIZE_TO(CounterSamples, pValues), number, 0, 1, &time, values};
    assert_int_equal(f->live->addCounterSamples(f->live->pTraceBuilderHandle, &samples), 0);
    emit_at(f->live, first, 3, 7, "copy");
    emit_at(f->live, first + 3, 3, 7, "call");
    KinetoPlugin_Activity a = activity_of(first + 1, "secret");
    assert_int_not_equal(f->live->emit(f->live->pTraceBuilderHandle, &a), 0);
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(ledger(t, "acme", "kind not enabled"), 1);
    show(t);
    assert_int_equal(lines_with("cat=acme_dma \"copy\""), 1);
    assert_int_equal(lines_with("cat=xpu_driver \"call\""), 1);
    assert_int_equal(lines_with("counter pid=80 cat=acme_load \"load\""), 1);
    kineto_trace_release(t);
    s = session_of(secret, 1 << 20, KINETO_RETAIN_OLDEST);
    assert_int_equal(f->enabled_count, 1);
    assert_int_equal(f->enabled[0], first + 1);
    emit_at(f->live, first + 1, 3, 7, "secret");
    usleep(100);
    t = finish(s);
    assert_int_equal(find_only(t, "secret").kind, KINETO_KIND_CONCURRENT_KERNEL);
    kineto_trace_release(t);
    leave(0);
}

static void own_kinds_that_are_none_are_refused(void **state)
{
    (void)state;
    static const KinetoPlugin_ActivityTypeInfo bad[] = {
        {NULL, 6, 1},
        {"", 6, 1},
        {"Upper", 6, 1},
        {"sp ace", 6, 1},
        {"dot.", 6, 1},
        {"\xc3\xa9", 6, 1},
        {"all", 6, 1},
        {"default", 6, 1},
        {"forty_bytes_forty_bytes_forty_bytes_4444", 6, 1},
        {"like_nothing", 0, 1},
        {"like_too_much", 26, 1},
        {"like_itself", 1024, 1},
        {"like_less", -1, 1}};
    int32_t first;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (announce(&bad[i], 1, &first) == 0)
            fail_msg("kind %zu was taken", i);
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    KinetoPlugin_ActivityTypeInfo good = {"thirty_nine_bytes_thirty_nine_bytes_393", 6, 1};
    KinetoPlugin_ActivityTypeInfo some[2] = {{"never_taken", 6, 1}, {"never taken", 6, 1}};
    KinetoPlugin_RegisterActivityTypes_Params p = {
        SIZE_TO(RegisterActivityTypes_Params, firstEventType) - 1, &good, 1, 0};
    assert_int_not_equal(r->registerActivityTypes(r->pRegistryHandle, &p), 0);
    assert_int_not_equal(r->registerActivityTypes(r->pRegistryHandle, NULL), 0);
    assert_int_not_equal(announce(NULL, 1, &first), 0);
    assert_int_not_equal(announce(&good, 0, &first), 0);
    assert_int_not_equal(announce(&good, SIZE_MAX, &first), 0);
    assert_int_not_equal(announce(some, 2, &first), 0); /* one bad: none */
    uint64_t mask;
    assert_int_equal(kineto_kinds_parse("never_taken", &mask, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(announce(&good, 1, &first), 0);
}

/* Last: numbers of kinds are not given back. */
static void more_own_kinds_than_there_are_numbers_are_refused(void **state)
{
    (void)state;
    int taken = 0;
    int32_t first;
    for (int i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "many_%d", i);
        KinetoPlugin_ActivityTypeInfo type = {name, TYPE(CONCURRENT_KERNEL), 1};
        taken += announce(&type, 1, &first) == 0;
        if (i == 0)
            assert_string_equal(kineto_plugin_type_name(first), "many_0");
    }
    assert_in_range(taken, 8, 32);
    assert_null(kineto_plugin_type_name(TYPE(OWN_FIRST) + 32));
    assert_null(kineto_plugin_type_name(INT32_MAX));
    assert_null(kineto_plugin_type_name(INT32_MIN));
}

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_and_queues_are_rows_with_name_label_and_order),
        cmocka_unit_test(the_same_numbers_of_two_plug_ins_are_two_devices),
        cmocka_unit_test(rows_of_processes_and_threads_may_be_named_too),
        cmocka_unit_test(names_of_rows_are_long_if_they_are),
        cmocka_unit_test(what_is_said_again_in_every_session_takes_no_room),
        cmocka_unit_test(properties_and_header_entries_are_in_the_header),
        cmocka_unit_test(samples_of_sets_are_counters_with_unit_and_device),
        cmocka_unit_test(an_event_of_a_counter_kind_is_a_counter_of_its_metadata),
        cmocka_unit_test(the_same_set_keeps_its_number_over_sessions),
        cmocka_unit_test(sets_that_are_none_are_refused),
        cmocka_unit_test(own_kinds_appear_as_categories_and_are_chosen_by_name),
        cmocka_unit_test(own_kinds_that_are_none_are_refused),
        cmocka_unit_test(more_own_kinds_than_there_are_numbers_are_refused),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}

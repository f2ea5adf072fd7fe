/* Counters and plug-ins' own kinds from a recording through the file and back. */
#include "export/export.h"
#include "trace/trace.h"

#include "unit.h"

#include "../helpers/kf_write.h"
#include "../helpers/sessions.h"
#include <ckineto/ckineto.h>

#include <time.h>

#define T(n) (KW_TICKS + (n))

typedef struct fixture {
    kw_recording w;
    uint32_t process;
} fixture;

static fixture make(void)
{
    fixture f;
    assert_true(kw_create(&f.w, 1, 65536));
    f.process = kw_process(&f.w, 10, "prog", "/usr/bin/prog");
    kf_source_entry s = {f.process, 1};
    kf_device_entry d = {f.process, 1, 3, 0};
    kw_entry(&f.w, KF_ENTRY_SOURCE, &s, sizeof s, "sim", NULL, NULL);
    kw_entry(&f.w, KF_ENTRY_DEVICE, &d, sizeof d, "Sim 3", NULL, NULL);
    kw_segment(&f.w, 1, 0, f.process, 10, 10, T(0), 0);
    return f;
}

static kineto_trace *build_kinds(fixture *f, uint64_t kinds, uint64_t end_ticks)
{
    kt_build_options o = {
        .kinds = kinds, .start_ticks = end_ticks ? T(0) : 0, .end_ticks = end_ticks};
    kineto_trace *t = NULL;
    kineto_error err = {.code = KINETO_OK};
    if (kt_build(&f->w.input, f->w.pool.control, &o, &t, &err))
        fail_msg("%s", err.message);
    return t;
}

static kineto_trace *build(fixture *f) { return build_kinds(f, KINETO_KINDS_ALL, 0); }

static char *written(const kineto_trace *t)
{
    kb_sink *sink;
    char *data;
    size_t bytes;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    assert_int_equal(ke_chrome_write(t, sink, "trace", NULL, NULL), KINETO_OK);
    assert_int_equal(kb_sink_take(sink, &data, &bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
    assert_true(kb_json_valid((kineto_string){data, bytes}));
    return data;
}

static kineto_trace *read_text(const char *data)
{
    char path[] = "/tmp/ckineto-counters-XXXXXX";
    kineto_trace *t = NULL;
    kineto_error err = {.code = KINETO_OK};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, strlen(data)), strlen(data));
    close(fd);
    if (kineto_trace_open(path, &t, &err))
        fail_msg("%s", err.message);
    unlink(path);
    return t;
}

/* Written, and read again. */
static kineto_trace *through_a_file(const kineto_trace *t)
{
    char *data = written(t);
    kineto_trace *again = read_text(data);
    free(data);
    return again;
}

static kineto_activity row_named(const kineto_trace *t, const char *name)
{
    kineto_activity a;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_trace_get(t, r, &a);
        if (kb_string_equal(a.name, kb_string(name)))
            return a;
    }
    fail_msg("no row %s", name);
    return a;
}

static kineto_process process_of(const kineto_trace *t, const kineto_activity *a)
{
    kineto_track track;
    kineto_process p;
    kineto_trace_track(t, a->track, &track);
    assert_int_equal(track.type, KINETO_TRACK_COUNTER);
    kineto_trace_process(t, track.process, &p);
    return p;
}

static bool category_is(const kineto_trace *t, const kineto_activity *a, const char *text)
{
    return kb_string_equal(kineto_trace_string(t, a->category), kb_string(text));
}

static int64_t ledger(const kineto_trace *t, const char *source, const char *reason)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (kb_string_equal(line.source, kb_string(source)) &&
            kb_string_equal(line.reason, kb_string(reason)))
            return (int64_t)line.count;
    }
    return -1;
}

/* ---- the golden event ---- */

/* Is there an event of exactly these bytes, whatever its time? */
static void assert_golden(const char *data, int64_t pid)
{
    char start[100];
    static const char end[] = ",\"args\":{\"my_counter\":42}}";
    snprintf(start, sizeof start,
             "\n{\"ph\":\"C\",\"name\":\"ctr\",\"pid\":%lld,\"ts\":", (long long)pid);
    const char *at = strstr(data, start);
    if (!at)
        fail_msg("no counter event:\n%s", data);
    at += strlen(start);
    size_t time = strspn(at, "0123456789.");
    assert_true(time > 0);
    assert_memory_equal(at + time, end, sizeof end - 1);
}

static void a_plugins_event_with_metadata_becomes_the_golden_counter(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t loose[8];
    uint32_t n = kw_loose_text(loose, kw_string(&f.w, "my_counter"), KINETO_ARG_JSON, "42");
    kw_device d = {.kind = KINETO_KIND_GPU_PM_COUNTER,
                   .name = kw_string(&f.w, "ctr"),
                   .source = 1,
                   .device = 3,
                   .start = (uint64_t)KW_EPOCH + 7000,
                   .end = (uint64_t)KW_EPOCH + 8000};
    kw_device_record(&f.w, &d, loose, n);
    kineto_trace *t = build(&f);
    char *data = written(t);
    assert_golden(data, 3);
    free(data);
    kineto_trace *again = through_a_file(t);
    kineto_activity a = row_named(again, "ctr");
    kineto_arg arg;
    assert_int_equal(a.kind, KINETO_KIND_GPU_PM_COUNTER);
    assert_int_equal(a.form, KINETO_FORM_COUNTER);
    assert_true(category_is(again, &a, "gpu_pm_counter"));
    assert_int_equal(a.start_ns, KW_EPOCH + 7000);
    assert_int_equal(a.end_ns, a.start_ns);
    assert_true(kineto_args_find(again, a.row, "my_counter", &arg));
    assert_int_equal(arg.type, KINETO_ARG_INT);
    assert_int_equal(arg.i, 42);
    assert_true(process_of(again, &a).is_device);
    kineto_trace_release(again);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_counter_of_the_program_becomes_the_golden_counter(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(site, KINETO_KIND_COUNTER, "ctr", {"my_counter", KINETO_ARG_INT});
    kineto_value value = {.i = 42};
    kineto_session *s;
    kineto_trace *t;
    assert_int_equal(begin_session(NULL, &s, NULL), KINETO_OK);
    kineto_counter_sample(&site, &value);
    assert_int_equal(end_session(s, &t, NULL), KINETO_OK);
    char *data = written(t);
    assert_golden(data, getpid());
    free(data);
    kineto_trace *again = through_a_file(t);
    kineto_activity a = row_named(again, "ctr");
    assert_int_equal(a.kind, KINETO_KIND_COUNTER);
    assert_false(process_of(again, &a).is_device);
    kineto_trace_release(again);
    kineto_trace_release(t);
}

/* ---- the same through the host ---- */

static int64_t meter_time; /* when it took its samples */
static struct KinetoPlugin_ProfilerHandle {
    int unused;
} the_profiler;

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = &the_profiler;
    return 0;
}
static int destroy(KinetoPlugin_ProfilerDestroy_Params *p) { return p->pProfilerHandle == NULL; }
static int start(KinetoPlugin_ProfilerStart_Params *p) { return p->pProfilerHandle == NULL; }
static int stop(KinetoPlugin_ProfilerStop_Params *p) { return p->pProfilerHandle == NULL; }

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    if (p->pSupportedActivityTypes && p->supportedActivityTypesMaxLen)
        p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER;
    if (p->pProfilerName && p->profilerNameMaxLen > 5)
        strcpy(p->pProfilerName, "meter");
    return 0;
}

/* One counter in the way of the proposal, one announced with its unit. */
static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    KinetoPlugin_TraceBuilderHandle *h = b->pTraceBuilderHandle;
    const char *const series[] = {"power", "count"}, *const units[] = {"W", NULL};
    const uint64_t values[] = {250, 7};
    KinetoPlugin_ProfileEvent e = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                                   .startTimeUtcNs = meter_time,
                                   .endTimeUtcNs = meter_time,
                                   .deviceId = 3};
    KinetoPlugin_CounterSet set = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSet, pUnits),
                                   .pName = "board",
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                                   .deviceId = 3,
                                   .valueType = KINETO_PLUGIN_VALUE_UINT,
                                   .seriesCount = 2,
                                   .pSeriesNames = series,
                                   .pUnits = units};
    KinetoPlugin_CounterSamples samples = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues),
        .clock = KINETO_PLUGIN_CLOCK_UTC,
        .count = 1,
        .pTimes = &meter_time,
        .pValues = values};
    return b->addEvent(h, &e) || b->setLastEventName(h, "ctr") ||
           b->addLastEventMetadata(h, "my_counter", "42") ||
           b->registerCounters(h, &set, &samples.set) || b->addCounterSamples(h, &samples);
}

static const KinetoPlugin_ProfilerInterface meter = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerProcessEvents = process};

static void counters_of_a_plugin_go_through_the_host_into_the_file(void **state)
{
    (void)state;
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    kineto_session_options o;
    kineto_session *s;
    kineto_trace *t;
    kineto_session_options_init(&o);
    o.kinds = KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER);
    assert_int_equal(r->registerProfiler(r->pRegistryHandle, &meter), 0);
    assert_int_equal(begin_session(&o, &s, NULL), KINETO_OK);
    meter_time = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    assert_int_equal(end_session(s, &t, NULL), KINETO_OK);
    assert_int_equal(kineto_plugin_unregister(&meter), 0);
    assert_int_equal(ledger(t, "meter", "delivered"), 2);
    char *data = written(t);
    assert_golden(data, 3);
    assert_non_null(strstr(data, "\"args\":{\"power [W]\":250,\"count\":7}}"));
    free(data);
    kineto_activity a = row_named(t, "board");
    assert_int_equal(a.track, row_named(t, "ctr").track);
    assert_true(process_of(t, &a).is_device);
    kineto_trace_release(t);
}

/* ---- sets ---- */

static void samples_of_a_set_are_one_event_with_all_series_in_the_row_of_the_device(void **state)
{
    (void)state;
    fixture f = make();
    kf_site_entry e = {KINETO_KIND_GPU_PM_COUNTER, 0, 2, 0};
    uint8_t types[] = {KINETO_ARG_DOUBLE, KINETO_ARG_DOUBLE};
    const char *names[] = {"board", "power [W]", "temperature [°C]"};
    uint32_t sizes[3];
    kf_part parts[8] = {{&e, sizeof e}, {types, sizeof types}};
    for (uint32_t i = 0; i < 3; i++) {
        sizes[i] = (uint32_t)strlen(names[i]);
        parts[2 + 2 * i] = (kf_part){&sizes[i], sizeof sizes[i]};
        parts[3 + 2 * i] = (kf_part){names[i], sizes[i]};
    }
    uint32_t site = kf_dictionary_add(&f.w.pool, KF_ENTRY_SITE, parts, 8);
    for (uint32_t i = 0; i < 3; i++) {
        double values[] = {100.5 + i, 60 + i};
        uint64_t words[2];
        memcpy(words, values, sizeof words);
        kw_device d = {.kind = KINETO_KIND_GPU_PM_COUNTER,
                       .clock = KINETO_PLUGIN_CLOCK_TICKS,
                       .name = site,
                       .source = 1,
                       .device = 3,
                       .start = T(1000 * i),
                       .end = T(1000 * i),
                       .site = true};
        kw_device_record(&f.w, &d, words, 2);
    }
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_int_equal(kineto_trace_track_count(t), 1);
    char *data = written(t);
    assert_non_null(strstr(data, "\"args\":{\"power [W]\":101.5,\"temperature [°C]\":61.0}}"));
    kineto_trace *again = read_text(data);
    kineto_activity a = row_named(again, "board");
    kineto_arg arg;
    assert_int_equal(process_of(again, &a).pid, 3);
    assert_true(kineto_args_find(again, a.row, "power [W]", &arg));
    assert_true(arg.type == KINETO_ARG_DOUBLE && arg.d == 100.5);
    free(data);
    kineto_trace_release(again);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- kinds of plug-ins' own ---- */

static void own_kinds_keep_name_and_meaning_through_a_file(void **state)
{
    (void)state;
    fixture f = make();
    kf_own_kind *table = f.w.pool.control->own_kinds;
    uint32_t copy = kf_own_kind_add(table, kb_string("sim_dma"), KINETO_KIND_GPU_MEMCPY, true);
    uint32_t count =
        kf_own_kind_add(table, kb_string("sim_load"), KINETO_KIND_GPU_PM_COUNTER, false);
    uint32_t unused = kf_own_kind_add(table, kb_string("sim_never"), KINETO_KIND_RUNTIME, true);
    const uint8_t types[] = {KINETO_ARG_UINT};
    uint64_t value = 5;
    kw_device d = {.kind = copy,
                   .clock = KINETO_PLUGIN_CLOCK_TICKS,
                   .name = kw_string(&f.w, "copy"),
                   .source = 1,
                   .device = 3,
                   .resource = 2,
                   .start = T(10),
                   .end = T(20),
                   .correlation = 4};
    kw_device_record(&f.w, &d, NULL, 0);
    d.kind = count;
    d.name = kw_site(&f.w, "load", (kineto_kind)count, types, 1);
    d.site = true;
    kw_device_record(&f.w, &d, &value, 1);
    assert_true(unused > count);
    kineto_trace *t = build(&f);
    for (int pass = 0; pass < 2; pass++) {
        kineto_activity a = row_named(t, "copy"), c = row_named(t, "load");
        kineto_process p;
        kineto_track track;
        assert_int_equal(a.kind, KINETO_KIND_GPU_MEMCPY);
        assert_true(category_is(t, &a, "sim_dma"));
        kineto_trace_track(t, a.track, &track);
        assert_int_equal(track.type, KINETO_TRACK_STREAM);
        assert_int_equal(c.kind, KINETO_KIND_GPU_PM_COUNTER);
        assert_int_equal(c.form, KINETO_FORM_COUNTER);
        assert_true(category_is(t, &c, "sim_load"));
        p = process_of(t, &c);
        assert_true(p.is_device);
        kineto_trace *again = through_a_file(t);
        kineto_trace_release(t);
        t = again;
    }
    char *data = written(t);
    assert_non_null(
        strstr(data, "\"kinds\":{\"sim_dma\":\"gpu_memcpy\",\"sim_load\":\"gpu_pm_counter\"}"));
    free(data);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void own_kinds_are_chosen_by_name_by_default_or_all(void **state)
{
    (void)state;
    fixture f = make();
    kf_own_kind *table = f.w.pool.control->own_kinds;
    uint32_t on = kf_own_kind_add(table, kb_string("on"), KINETO_KIND_GPU_MEMCPY, true);
    uint32_t off = kf_own_kind_add(table, kb_string("off"), KINETO_KIND_GPU_MEMCPY, false);
    kw_device d = {.clock = KINETO_PLUGIN_CLOCK_TICKS, .source = 1, .start = T(1), .end = T(2)};
    const uint32_t kinds[] = {on, off, off + 1}; /* the last one belongs to no counter */
    for (int i = 0; i < 3; i++) {
        d.kind = kinds[i];
        d.name = kw_string(&f.w, "x");
        kw_device_record(&f.w, &d, NULL, 0);
    }
    const struct {
        uint64_t mask, count;
    } expected[] = {{KINETO_KINDS_DEFAULT, 1},
                    {KINETO_KINDS_NEUTRAL, 0},
                    {KINETO_KIND_BIT(off), 1},
                    {KINETO_KIND_BIT(KINETO_KIND_GPU_MEMCPY), 0},
                    {KINETO_KINDS_ALL, 3}};
    for (size_t i = 0; i < KB_COUNT(expected); i++) {
        kineto_trace *t = build_kinds(&f, expected[i].mask, 0);
        assert_int_equal(kineto_trace_count(t), expected[i].count);
        kineto_trace_release(t);
    }
    kw_free(&f.w);
}

static void a_vendors_spelling_is_the_category_if_it_is_one_of_the_kind(void **state)
{
    (void)state;
    fixture f = make();
    uint32_t xpu = 0, kernel = 0;
    for (uint32_t i = 0; i < kb_kind_alias_count; i++) {
        xpu = strcmp(kb_kind_aliases[i].name, "xpu_runtime") ? xpu : i + 1;
        kernel = strcmp(kb_kind_aliases[i].name, "kernel") ? kernel : i + 1;
    }
    const struct {
        uint32_t spelling;
        const char *name, *category;
    } calls[] = {{xpu, "a", "xpu_runtime"}, {kernel, "b", "runtime"}, {0, "c", "runtime"}};
    for (size_t i = 0; i < KB_COUNT(calls); i++) {
        kw_device d = {.kind = KINETO_KIND_RUNTIME,
                       .clock = KINETO_PLUGIN_CLOCK_TICKS,
                       .name = kw_string(&f.w, calls[i].name),
                       .source = 1,
                       .start = T(1),
                       .end = T(2),
                       .spelling = calls[i].spelling};
        kw_device_record(&f.w, &d, NULL, 0);
    }
    kineto_trace *t = build(&f), *again = through_a_file(t);
    for (size_t i = 0; i < KB_COUNT(calls); i++) {
        kineto_activity a = row_named(again, calls[i].name);
        assert_int_equal(a.kind, KINETO_KIND_RUNTIME);
        assert_true(category_is(again, &a, calls[i].category));
    }
    kineto_trace_release(again);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- what a plug-in may get wrong ---- */

static void wrong_times_cost_their_event_only_and_name_the_plugin(void **state)
{
    (void)state;
    fixture f = make();
    const int64_t hour = INT64_C(3600000000000);
    const struct {
        const char *name;
        int64_t start, end;
    } events[] = {{"backwards", KW_EPOCH + 50, KW_EPOCH + 20},
                  {"endless", KW_EPOCH + 50, INT64_MAX},
                  {"from the beginning of time", INT64_MIN, KW_EPOCH + 70},
                  {"always", INT64_MIN, INT64_MAX},
                  {"negative", -5, -1},
                  {"long before", KW_EPOCH - 3 * hour, KW_EPOCH - 2 * hour},
                  {"right", KW_EPOCH + 10, KW_EPOCH + 20}};
    for (size_t i = 0; i < KB_COUNT(events); i++) {
        kw_device d = {.kind = KINETO_KIND_CONCURRENT_KERNEL,
                       .name = kw_string(&f.w, events[i].name),
                       .source = 1,
                       .start = (uint64_t)events[i].start,
                       .end = (uint64_t)events[i].end};
        kw_device_record(&f.w, &d, NULL, 0);
    }
    kineto_trace *t = build_kinds(&f, KINETO_KINDS_ALL, T(1000));
    assert_int_equal(kineto_trace_count(t), 5);
    kineto_activity a = row_named(t, "backwards");
    assert_true(a.start_ns == KW_EPOCH + 50 && a.end_ns == a.start_ns);
    a = row_named(t, "right");
    assert_true(a.start_ns == KW_EPOCH + 10 && a.end_ns == KW_EPOCH + 20);
    assert_int_equal(row_named(t, "endless").flags, KINETO_ACTIVITY_OPEN_END);
    a = row_named(t, "always");
    assert_int_equal(a.flags, KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END);
    assert_true(a.end_ns - a.start_ns < 50 * hour);
    assert_int_equal(ledger(t, "sim", "ended before it began, shown without length"), 1);
    assert_int_equal(ledger(t, "sim", "days outside the window, cut"), 3);
    assert_int_equal(ledger(t, "sim", "outside the window"), 2);
    kineto_trace_release(t);
    t = build(&f); /* without a window nothing says what is far; still nothing overflows */
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_trace_get(t, r, &a);
        assert_true(a.end_ns >= a.start_ns && kineto_trace_self_ns(t, r) >= 0);
    }
    kineto_trace *again = through_a_file(t);
    assert_int_equal(kineto_trace_count(again), kineto_trace_count(t));
    kineto_trace_release(again);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void metadata_that_is_not_json_is_quoted_and_counted_for_its_plugin(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t loose[16];
    uint32_t n = kw_loose_text(loose, kw_string(&f.w, "good"), KINETO_ARG_JSON, "[1]");
    n += kw_loose_text(loose + n, kw_string(&f.w, "bad"), KINETO_ARG_JSON, "{no");
    kw_device d = {.kind = KINETO_KIND_CONCURRENT_KERNEL,
                   .name = kw_string(&f.w, "k"),
                   .source = 1,
                   .start = (uint64_t)KW_EPOCH,
                   .end = (uint64_t)KW_EPOCH};
    kw_device_record(&f.w, &d, loose, n);
    f.w.pool.control->counters[1][KF_REASON_BAD_JSON] = 2; /* the host met others */
    kineto_trace *t = build(&f);
    kineto_arg arg;
    assert_true(kineto_args_find(t, row_named(t, "k").row, "bad", &arg));
    assert_int_equal(arg.type, KINETO_ARG_STRING);
    assert_true(kb_string_equal(arg.text, kb_string("{no")));
    assert_int_equal(ledger(t, "sim", "metadata was not JSON, quoted"), 3);
    assert_int_equal(ledger(t, "recording", "arguments were not JSON, quoted"), -1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void ledger_entries_are_reported_in_windows_that_reach_them(void **state)
{
    (void)state;
    fixture f = make();
    const struct {
        const char *reason;
        uint64_t ticks;
    } lines[] = {{"always", 0}, {"early", T(0) - 5}, {"now", T(500)}, {"late", T(1001)}};
    for (size_t i = 0; i < KB_COUNT(lines); i++) {
        kf_ledger_entry e = {f.process, 0, 1, lines[i].ticks};
        kw_entry(&f.w, KF_ENTRY_LEDGER, &e, sizeof e, "sim", lines[i].reason, "");
    }
    kineto_trace *t = build_kinds(&f, KINETO_KINDS_ALL, T(1000));
    assert_int_equal(ledger(t, "sim", "always"), 1);
    assert_int_equal(ledger(t, "sim", "early"), -1);
    assert_int_equal(ledger(t, "sim", "now"), 1);
    assert_int_equal(ledger(t, "sim", "late"), -1);
    kineto_trace_release(t);
    t = build(&f);
    assert_int_equal(ledger(t, "sim", "early"), 1);
    assert_int_equal(ledger(t, "sim", "late"), 1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- other writers' counters ---- */

static void the_shapes_of_other_writers_are_read(void **state)
{
    (void)state;
    kineto_trace *t = read_text(
        "{\"traceEvents\":["
        "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"ts\":0,"
        "\"args\":{\"labels\":\"GPU 0\"}},"
        "{\"ph\":\"C\",\"name\":\"sm__cycles\",\"pid\":\"GPU 0 Counters\",\"tid\":\"\",\"ts\":1,"
        "\"args\":{\"\":12.5}},"
        "{\"ph\":\"C\",\"cat\":\"mtia_counters\",\"name\":\"chip\",\"pid\":0,\"tid\":0,\"ts\":2,"
        "\"args\":{\"reads\":1,\"writes\":2,\"busy\":0.25}},"
        "{\"ph\":\"C\",\"name\":\"ctr\",\"pid\":0,\"ts\":3,\"args\":{\"my_counter\":42}},"
        "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":77,\"ts\":3,\"args\":{\"length\":4}}]}");
    for (int pass = 0; pass < 2; pass++) {
        kineto_arg arg;
        kineto_activity a = row_named(t, "sm__cycles");
        assert_int_equal(a.kind, KINETO_KIND_GPU_PM_COUNTER);
        assert_true(kb_string_equal(process_of(t, &a).name, kb_string("GPU 0 Counters")));
        assert_true(kineto_args_find(t, a.row, "", &arg) && arg.d == 12.5);
        a = row_named(t, "chip");
        assert_int_equal(a.kind, KINETO_KIND_GPU_PM_COUNTER);
        assert_true(category_is(t, &a, "mtia_counters"));
        assert_true(kineto_args_find(t, a.row, "reads", &arg) && arg.i == 1);
        assert_true(kineto_args_find(t, a.row, "busy", &arg) && arg.d == 0.25);
        assert_true(process_of(t, &a).is_device);
        a = row_named(t, "ctr");
        assert_int_equal(a.kind, KINETO_KIND_GPU_PM_COUNTER);
        assert_int_equal(a.track, row_named(t, "chip").track);
        a = row_named(t, "queue");
        assert_int_equal(a.kind, KINETO_KIND_COUNTER);
        assert_true(category_is(t, &a, ""));
        kineto_trace *again = through_a_file(t);
        kineto_trace_release(t);
        t = again;
    }
    kineto_trace_release(t);
}

static void a_file_cannot_make_kinds_out_of_nonsense(void **state)
{
    (void)state;
    static const char *const kinds[] = {"[]", "{\"x\":3}", "{\"x\":\"no kind\"}",
                                        "{\"\":\"kernel\"}",
                                        "{\"x\":\"kernel\",\"x\":\"gpu_memcpy\"}"};
    for (size_t i = 0; i < KB_COUNT(kinds); i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"x\",\"name\":\"n\",\"pid\":1,\"tid\":1,"
                 "\"ts\":1,\"dur\":1}],\"ckineto\":{\"kinds\":%s}}",
                 kinds[i]);
        kineto_trace *t = read_text(text);
        assert_int_equal(row_named(t, "n").kind,
                         i == 4 ? KINETO_KIND_CONCURRENT_KERNEL : KINETO_KIND_USER_ANNOTATION);
        kineto_trace_release(t);
    }
}

static void arguments_are_numbers_also_where_they_are_texts(void **state)
{
    (void)state;
    const struct {
        kineto_arg arg;
        bool is, is_whole;
        double number;
        int64_t whole;
    } cases[] = {
        {{.type = KINETO_ARG_INT, .i = -3}, true, true, -3, -3},
        {{.type = KINETO_ARG_UINT, .u = UINT64_MAX}, true, false, 18446744073709551615.0, 0},
        {{.type = KINETO_ARG_DOUBLE, .d = 2.5}, true, true, 2.5, 2},
        {{.type = KINETO_ARG_DOUBLE, .d = 1e300}, true, false, 1e300, 0},
        {{.type = KINETO_ARG_STRING, .text = {"12", 2}}, true, true, 12, 12},
        {{.type = KINETO_ARG_STRING, .text = {"1.5e3", 5}}, true, false, 1500, 0},
        {{.type = KINETO_ARG_STRING, .text = {"12 GB", 5}}, false, false, 0, 0},
        {{.type = KINETO_ARG_STRING, .text = {"", 0}}, false, false, 0, 0},
        {{.type = KINETO_ARG_JSON, .text = {"null", 4}}, false, false, 0, 0},
        {{.type = KINETO_ARG_INTS, .text = {"[1]", 3}}, false, false, 0, 0}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        double number = 0;
        int64_t whole = 0;
        assert_int_equal(kt_arg_number(&cases[i].arg, &number), cases[i].is);
        assert_int_equal(kt_arg_whole(&cases[i].arg, &whole), cases[i].is_whole);
        assert_true(!cases[i].is || number == cases[i].number);
        assert_true(!cases[i].is_whole || whole == cases[i].whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_numbers_also_where_they_are_texts),
        cmocka_unit_test(a_plugins_event_with_metadata_becomes_the_golden_counter),
        cmocka_unit_test(a_counter_of_the_program_becomes_the_golden_counter),
        cmocka_unit_test(counters_of_a_plugin_go_through_the_host_into_the_file),
        cmocka_unit_test(samples_of_a_set_are_one_event_with_all_series_in_the_row_of_the_device),
        cmocka_unit_test(own_kinds_keep_name_and_meaning_through_a_file),
        cmocka_unit_test(own_kinds_are_chosen_by_name_by_default_or_all),
        cmocka_unit_test(a_vendors_spelling_is_the_category_if_it_is_one_of_the_kind),
        cmocka_unit_test(wrong_times_cost_their_event_only_and_name_the_plugin),
        cmocka_unit_test(metadata_that_is_not_json_is_quoted_and_counted_for_its_plugin),
        cmocka_unit_test(ledger_entries_are_reported_in_windows_that_reach_them),
        cmocka_unit_test(the_shapes_of_other_writers_are_read),
        cmocka_unit_test(a_file_cannot_make_kinds_out_of_nonsense),
    };
    return RUN_TESTS(tests);
}

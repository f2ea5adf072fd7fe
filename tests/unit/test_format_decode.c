/* The decoder: pairing, segments, every record, and input that lies. */
#include "unit.h"

#include "../helpers/kf_write.h"

#define T(n) (KW_TICKS + (n))

/* What the decoder called back with, as text: one line each. */
typedef struct log {
    char text[16384];
    size_t used;
    const kf_input *input;
    uint32_t events;
} log;

static void say(log *l, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void say(log *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(l->text + l->used, sizeof l->text - l->used, fmt, args);
    va_end(args);
    l->used = KB_MIN(l->used + (size_t)n, sizeof l->text - 1);
}

static void say_args(log *l, const kf_args *args)
{
    kf_args_iterator it;
    kf_arg a;
    kf_args_begin(&it, args, l->input);
    while (kf_args_next(&it, &a)) {
        const uint64_t *at = a.value;
        say(l, " %.*s:%u", (int)a.name.size, a.name.data, a.type);
        if (a.type == KINETO_ARG_STRING || a.type == KINETO_ARG_JSON) {
            kineto_string s = kf_text(l->input, &at);
            say(l, "=%.*s", (int)KB_MIN(s.size, (size_t)40), s.data);
        } else {
            say(l, "=%lld", (long long)a.value[0]);
        }
        if (a.word_count > 1)
            say(l, "/%u", a.word_count);
    }
}

static int64_t from_start(uint64_t ticks) { return (int64_t)(ticks - KW_TICKS); }

static kineto_status on_event(void *context, const kf_event *e)
{
    static const char *const forms[] = {"range", "async", "instant", "counter", "memory", "device"};
    log *l = context;
    l->events++;
    bool ticks = e->clock == KINETO_PLUGIN_CLOCK_TICKS;
    say(l, "%s %.*s %lld..%lld", forms[e->form], (int)KB_MIN(e->name.size, (size_t)40),
        e->name.data, (long long)(ticks ? from_start(e->start) : (int64_t)e->start),
        (long long)(ticks ? from_start(e->end) : (int64_t)e->end));
    if (e->flags)
        say(l, " flags=%u", e->flags);
    if (e->correlation_id)
        say(l, " corr=%llu", (unsigned long long)e->correlation_id);
    if (e->external_id)
        say(l, " ext=%llu", (unsigned long long)e->external_id);
    if (e->form == KF_FORM_DEVICE)
        say(l, " kind=%u clock=%u dev=%d.%d src=%u flow=%u:%u%c", e->kind, e->clock, e->device,
            e->resource, e->source, e->flow_type, e->flow_id, e->flow_start ? 's' : 'f');
    if (e->form == KF_FORM_ASYNC)
        say(l, " id=%llu tid=%u", (unsigned long long)e->async_id, e->tid);
    if (e->args.words)
        say_args(l, &e->args);
    for (uint32_t i = 0; i < e->more_count; i++)
        say_args(l, &e->more_args[i]);
    for (uint32_t i = 0; i < e->flow_count; i++)
        say(l, " flow=%u:%llu%c@%lld", e->flows[i].type, (unsigned long long)e->flows[i].id,
            e->flows[i].start ? 's' : 'f', (long long)from_start(e->flows[i].ticks));
    say(l, "\n");
    return KINETO_OK;
}

static kineto_status on_name(void *context, uint32_t process, uint32_t pid, uint32_t tid,
                             kineto_string name, bool of_system)
{
    assert_false(of_system);
    say(context, "name %u %u %u %.*s\n", process, pid, tid, (int)name.size, name.data);
    return KINETO_OK;
}

static kineto_status on_sample(void *context, const kf_clock_sample *s)
{
    say(context, "sample %u %lld %lld %lld\n", s->clock, (long long)from_start(s->ticks_before),
        (long long)from_start(s->ticks_after), (long long)s->device_time);
    return KINETO_OK;
}

static kf_decode_result decode(kw_recording *w, log *l)
{
    kf_decode_result result;
    memset(l, 0, sizeof *l);
    l->input = &w->input;
    kf_visitor v = {
        .context = l, .event = on_event, .thread_name = on_name, .clock_sample = on_sample};
    assert_int_equal(kf_decode(&w->input, &v, &result, NULL), KINETO_OK);
    return result;
}

static void expect(kw_recording *w, const char *text)
{
    static log l;
    decode(w, &l);
    assert_string_equal(l.text, text);
}

typedef struct fixture {
    kw_recording w;
    uint32_t a, b, c, process; /* sites, process */
} fixture;

static fixture make(uint32_t chunks)
{
    fixture f;
    assert_true(kw_create(&f.w, chunks, 65536));
    f.process = kw_process(&f.w, 10, "prog", "/bin/prog x");
    f.a = kw_site(&f.w, "a", KINETO_KIND_CPU_OP, NULL, 0);
    f.b = kw_site(&f.w, "b", KINETO_KIND_CPU_OP, NULL, 0);
    f.c = kw_site(&f.w, "c", KINETO_KIND_USER_ANNOTATION, NULL, 0);
    return f;
}

static void start(fixture *f, uint32_t cursor, uint32_t seq, uint64_t ticks, uint32_t reopens)
{
    kw_segment(&f->w, cursor, seq, f->process, 10, 10 + cursor, ticks, reopens);
}

/* ---- pairing ---- */

static void ranges_nest_and_repeat(void **state)
{
    (void)state;
    fixture f = make(1);
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_begin(&f.w, 1, f.b, T(2));
    kw_end(&f.w, 1, T(3));
    kw_begin(&f.w, 1, f.c, T(4));
    kw_end(&f.w, 1, T(5));
    kw_end(&f.w, 0, T(6));
    expect(&f.w, "range b 2..3\nrange c 4..5\nrange a 1..6\n");
    kw_free(&f.w);
}

static void an_end_closes_what_was_left_open_inside(void **state)
{
    (void)state;
    fixture f = make(1);
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_begin(&f.w, 1, f.b, T(2));
    kw_begin(&f.w, 2, f.c, T(3));
    kw_end(&f.w, 0, T(9));
    kw_end(&f.w, 0, T(10));
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_string_equal(l.text, "range c 3..9\nrange b 2..9\nrange a 1..9\n");
    assert_int_equal(r.unmatched_ends, 1);
    kw_free(&f.w);
}

/* It crosses what it likes, closes nothing, and the ticks of ends go on from its own end. */
static void a_range_in_one_record_is_paired_with_nothing(void **state)
{
    (void)state;
    fixture f = make(1);
    uint64_t words[8] = {T(5)};
    uint32_t n = 1 + kw_text(words + 1, "step 1");
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(4));
    kw_record(&f.w, KF_RANGE, KF_PROP_NAME << 8, f.c, T(1), words, n);
    kw_record(&f.w, KF_RANGE, 0, f.b, T(5), words, 1);
    words[0] = T(2);
    kw_record(&f.w, KF_RANGE, 0, f.b, T(6), words, 1); /* ends before it begins */
    kw_end(&f.w, 0, T(7));
    expect(&f.w, "range step 1 1..5\nrange b 5..5\nrange b 6..6\nrange a 4..7\n");
    kw_free(&f.w);
}

static void short_ticks_of_ends_are_completed_across_a_wrap_and_against_jitter(void **state)
{
    (void)state;
    fixture f = make(1);
    uint64_t base = (UINT64_C(5) << 48) - 100; /* 48 bits are about to wrap */
    start(&f, 1, 0, base, 0);
    kw_begin(&f.w, 0, f.a, base + 50);
    kw_end(&f.w, 0, base + 150);
    kw_begin(&f.w, 0, f.a, base + 200);
    kw_end(&f.w, 0, base + 190); /* read on another core, a little late: never negative */
    kw_begin(&f.w, 0, f.a, base + 300);
    kw_end(&f.w, 0, base + 300 + (UINT64_C(1) << 47) + 5); /* hours without any record */
    char text[300];
    int64_t b = from_start(base);
    snprintf(text, sizeof text, "range a %lld..%lld\nrange a %lld..%lld\nrange a %lld..%lld\n",
             (long long)b + 50, (long long)b + 150, (long long)b + 200, (long long)b + 200,
             (long long)b + 300, (long long)(b + 305 + (INT64_C(1) << 47)));
    expect(&f.w, text);
    kw_free(&f.w);
}

/* What recorders write before an END that is a day after the record before it. */
static void an_end_after_empty_args_may_be_days_later(void **state)
{
    (void)state;
    fixture f = make(1);
    uint64_t days = UINT64_C(7) << 47;
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_record(&f.w, KF_ARGS, 0, 0, T(2) + days, NULL, 0);
    kw_end(&f.w, 0, T(2) + days);
    char text[100];
    snprintf(text, sizeof text, "range a 1..%llu\n", (unsigned long long)days + 2);
    expect(&f.w, text);
    kw_free(&f.w);
}

/* What a source says of its clock may be anything. */
static void a_clock_sample_moves_no_other_time(void **state)
{
    (void)state;
    fixture f = make(1);
    uint64_t base = UINT64_C(7) << 48, wrong[] = {UINT64_MAX, 1};
    start(&f, 1, 0, base, 0);
    kw_begin(&f.w, 0, f.a, base + 1);
    kw_record(&f.w, KF_CLOCK_SAMPLE, 0, 5, 0, wrong, 2);
    kw_end(&f.w, 0, base + 2);
    kw_begin(&f.w, 0, f.b, base + 3);
    kw_record(&f.w, KF_CLOCK_SAMPLE, 0, 5, UINT64_MAX, wrong, 2);
    char text[100];
    int64_t b = from_start(base);
    snprintf(text, sizeof text, "\nrange a %lld..%lld\n", (long long)b + 1, (long long)b + 2);
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_int_equal(r.last_ticks, base + 3);
    assert_non_null(strstr(l.text, text));
    kw_free(&f.w);
}

static void depth_goes_to_the_limit(void **state)
{
    (void)state;
    fixture f = make(1);
    start(&f, 1, 0, T(0), 0);
    for (uint32_t d = 0; d < KF_MAX_DEPTH; d++)
        kw_begin(&f.w, d, f.a, T(d));
    for (uint32_t d = KF_MAX_DEPTH; d > 0; d--)
        kw_end(&f.w, d - 1, T(1000));
    static log l;
    decode(&f.w, &l);
    assert_int_equal(l.events, KF_MAX_DEPTH);
    kw_free(&f.w);
}

/* ---- segments ---- */

static void a_range_goes_on_in_the_next_chunk_with_all_that_was_said_about_it(void **state)
{
    (void)state;
    fixture f = make(2);
    const uint8_t types[] = {KINETO_ARG_INT, KINETO_ARG_STRING};
    uint32_t site = kw_site(&f.w, "s", KINETO_KIND_CPU_OP, types, 2);
    uint32_t more = kw_site(&f.w, "m", KINETO_KIND_CPU_OP, types, 1);
    uint64_t value = 5, flow = 9;
    uint64_t packed[20] = {31};
    uint32_t n = 1 + kw_text(packed + 1, "name it"); /* correlation, name, int, string */
    packed[n++] = 77;
    n += kw_text(packed + n, "hello");
    kw_chunk(&f.w, 1); /* chunks are in no order */
    start(&f, 1, 0, T(0), 0);
    kw_begin_args(&f.w, 0, site, T(1), KF_PROP_CORRELATION | KF_PROP_NAME | KF_PROP_ARGS, packed,
                  n);
    kw_record(&f.w, KF_FLOW, 2 | 0x100, 0, T(2), &flow, 1);
    kw_record(&f.w, KF_ARGS, 0, more, T(3), &value, 1);
    kw_chunk(&f.w, 0);
    start(&f, 1, 1, T(4), 1);
    kw_record(&f.w, KF_REOPEN, 0 | KF_PROP_ARGS_LOST << 8, site, T(1), NULL, 0);
    value = 6, flow = 10;
    kw_record(&f.w, KF_ARGS, 0, more, T(5), &value, 1);
    kw_record(&f.w, KF_FLOW, 1, 0, T(6), &flow, 1);
    kw_end(&f.w, 0, T(7));
    expect(&f.w, "range name it 1..7 corr=31 a0:1=77 a1:5=hello/2 a0:1=5 a0:1=6 flow=2:9s@2 "
                 "flow=1:10f@6\n");
    kw_free(&f.w);
}

static void a_segment_decodes_alone(void **state)
{
    (void)state;
    fixture f = make(1);
    start(&f, 1, 7, T(100), 2); /* the ones before were overwritten */
    kw_reopen(&f.w, 0, f.a, T(1));
    kw_reopen(&f.w, 1, f.b, T(2));
    kw_end(&f.w, 1, T(101));
    kw_end(&f.w, 0, T(102));
    expect(&f.w, "range b 2..101\nrange a 1..102\n");
    kw_free(&f.w);
}

static void a_missing_segment_does_not_cut_what_is_reopened_and_ends_the_rest(void **state)
{
    (void)state;
    fixture f = make(2);
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_begin(&f.w, 1, f.b, T(2));
    kw_chunk(&f.w, 1);
    start(&f, 1, 3, T(50), 2);
    kw_reopen(&f.w, 0, f.a, T(1));
    kw_reopen(&f.w, 1, f.c, T(40)); /* b ended meanwhile, c began */
    kw_end(&f.w, 1, T(60));
    kw_end(&f.w, 0, T(61));
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_string_equal(l.text, "range b 2..2 flags=2\nrange c 40..60\nrange a 1..61\n");
    assert_int_equal(r.missing_segments, 2);
    assert_int_equal(r.open_ranges, 1);
    kw_free(&f.w);
}

static void a_range_that_is_not_reopened_ends_at_the_last_known_moment(void **state)
{
    (void)state;
    fixture f = make(2);
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_begin(&f.w, 1, f.b, T(5));
    kw_chunk(&f.w, 1);
    start(&f, 1, 1, T(50), 1);
    kw_reopen(&f.w, 0, f.a, T(1));
    kw_begin(&f.w, 1, f.c, T(51));
    kw_end(&f.w, 1, T(52));
    kw_end(&f.w, 0, T(53));
    expect(&f.w, "range b 5..5 flags=2\nrange c 51..52\nrange a 1..53\n");
    kw_free(&f.w);
}

static void ranges_open_at_the_end_are_flagged_and_those_of_an_ended_thread_differ(void **state)
{
    (void)state;
    fixture f = make(2);
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_begin(&f.w, 1, f.b, T(4));
    kw_record(&f.w, KF_THREAD_EXIT, 0, 0, T(8), NULL, 0);
    start(&f, 2, 0, T(9), 0); /* another thread goes on in the chunk */
    kw_begin(&f.w, 0, f.c, T(11));
    expect(&f.w, "range b 4..8 flags=2\nrange a 1..8 flags=2\nrange c 11..11 flags=10\n");
    kw_free(&f.w);
}

static void cursors_do_not_mix_whatever_the_order_of_chunks(void **state)
{
    (void)state;
    const char *expected = "range a 1..21\nrange b 2..22\n";
    for (uint32_t swap = 0; swap < 24; swap++) {
        fixture f = make(4);
        uint32_t order[4] = {0, 1, 2, 3}, left = swap;
        for (uint32_t i = 4; i > 1; i--) {
            uint32_t k = left % i, t = order[k];
            left /= i;
            order[k] = order[i - 1];
            order[i - 1] = t;
        }
        for (uint32_t cursor = 1; cursor <= 2; cursor++) {
            uint32_t site = cursor == 1 ? f.a : f.b;
            kw_chunk(&f.w, order[cursor * 2 - 2]);
            start(&f, cursor, 0, T(0), 0);
            kw_begin(&f.w, 0, site, T(cursor));
            kw_chunk(&f.w, order[cursor * 2 - 1]);
            start(&f, cursor, 1, T(10), 1);
            kw_reopen(&f.w, 0, site, T(cursor));
            kw_end(&f.w, 0, T(20 + cursor));
        }
        expect(&f.w, expected);
        kw_free(&f.w);
    }
}

static void a_chunk_that_comes_twice_counts_once_and_the_longer_copy_wins(void **state)
{
    (void)state;
    fixture f = make(3);
    for (uint32_t copy = 0; copy < 3; copy++) {
        kw_chunk(&f.w, copy);
        start(&f, 1, 0, T(0), 0);
        kw_begin(&f.w, 0, f.a, T(1));
        if (copy == 1) { /* copied later than the others */
            kw_end(&f.w, 0, T(2));
            kw_begin(&f.w, 0, f.b, T(3));
            kw_end(&f.w, 0, T(4));
        }
    }
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_string_equal(l.text, "range a 1..2\nrange b 3..4\n");
    assert_int_equal(r.segments, 1);
    kw_free(&f.w);
}

/* A cursor that changes chunks as a writer does: a keyframe, then a copy of each open range. */
typedef struct cut_writer {
    fixture f;
    uint32_t seq, depth, chunk;
    uint64_t begun[16], ticks;
} cut_writer;

static void cut(cut_writer *c)
{
    kw_chunk(&c->f.w, c->chunk++);
    start(&c->f, 1, c->seq++, c->ticks, c->depth);
    for (uint32_t d = 0; d < c->depth; d++)
        kw_reopen(&c->f.w, d, c->f.a, c->begun[d]);
}

/* The same begins and ends, cut into chunks at other places. */
static void write_random(cut_writer *c, uint64_t seed, uint64_t cut_seed, uint32_t one_in)
{
    *c = (cut_writer){.f = make(200), .ticks = T(0)};
    cut(c);
    for (int i = 0; i < 2000; i++) {
        c->ticks += 1 + next_random(&seed) % 50;
        uint64_t r = next_random(&seed);
        if (c->depth < 16 && (c->depth == 0 || r % 2)) {
            c->begun[c->depth] = c->ticks;
            kw_begin(&c->f.w, c->depth++, c->f.a, c->ticks);
        } else {
            c->depth = r % 8 ? c->depth - 1 : (uint32_t)(r >> 8) % c->depth; /* several at once */
            kw_end(&c->f.w, c->depth, c->ticks);
        }
        if ((next_random(&cut_seed) % one_in == 0 && c->chunk < 199) ||
            c->f.w.at + 8 > KF_CHUNK_WORDS)
            cut(c);
    }
    kw_end(&c->f.w, 0, ++c->ticks);
}

static kineto_status sum_up(void *context, const kf_event *e)
{
    uint64_t *sums = context;
    assert_int_equal(e->flags, 0);
    sums[0]++;
    sums[1] = sums[1] * 31 + e->start * 7 + e->end; /* the order counts, too */
    return KINETO_OK;
}

static void where_a_cursor_changes_chunks_makes_no_difference(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t whole[2] = {0}, pieces[2] = {0};
        kf_visitor v = {.context = whole, .event = sum_up};
        kf_decode_result r;
        cut_writer c;
        write_random(&c, seed, seed, 1000000);
        assert_int_equal(kf_decode(&c.f.w.input, &v, &r, NULL), KINETO_OK);
        kw_free(&c.f.w);
        write_random(&c, seed, seed + 99, 12);
        v.context = pieces;
        assert_int_equal(kf_decode(&c.f.w.input, &v, &r, NULL), KINETO_OK);
        kw_free(&c.f.w);
        assert_true(whole[0] > 500 && whole[0] == pieces[0] && whole[1] == pieces[1]);
        assert_int_equal(r.bad_records + r.missing_segments + r.open_ranges, 0);
    }
}

/* ---- other records ---- */

static void every_kind_of_record_arrives(void **state)
{
    (void)state;
    fixture f = make(1);
    const uint8_t two[] = {KINETO_ARG_INT, KINETO_ARG_DOUBLE};
    uint32_t counter = kw_site(&f.w, "load", KINETO_KIND_COUNTER, two, 2);
    uint32_t name = kw_string(&f.w, "kernel <x>"), thread = kw_string(&f.w, "worker");
    uint32_t key = kw_string(&f.w, "bytes");
    uint64_t values[] = {3, 0}, memory[] = {0xabc, 64, 100, 200, kf_pair(1, 0)};
    uint64_t sample[] = {T(9), 12345}, loose[] = {kf_loose_word(key, KINETO_ARG_UINT, 0), 4096};
    start(&f, 1, 0, T(0), 0);
    kw_record(&f.w, KF_INSTANT, 0, f.a, T(1), NULL, 0);
    kw_record(&f.w, KF_COUNTER, 0, counter, T(2), values, 2);
    kw_record(&f.w, KF_MEMORY, 0, 0, T(3), memory, 5);
    kw_record(&f.w, KF_CLOCK_SAMPLE, 0, 5, T(4), sample, 2);
    kw_record(&f.w, KF_THREAD_NAME, 0, thread, T(5), NULL, 0);
    kw_device_record(&f.w,
                     &(kw_device){.kind = KINETO_KIND_CONCURRENT_KERNEL,
                                  .clock = KINETO_PLUGIN_CLOCK_MONOTONIC_RAW,
                                  .name = name,
                                  .source = 2,
                                  .start = 500,
                                  .end = 600,
                                  .correlation = 42,
                                  .device = -1,
                                  .resource = 7,
                                  .flow_type = 2,
                                  .flow_id = 9},
                     loose, 2);
    char text[400];
    snprintf(text, sizeof text,
             "instant a 1..1\ncounter load 2..2 a0:1=3 a1:3=0\nmemory  3..3\nsample 5 4 9 12345\n"
             "name %u 10 11 worker\ndevice kernel <x> 500..600 corr=42 kind=5 clock=2 dev=-1.7 "
             "src=2 flow=2:9f bytes:2=4096\n",
             f.process);
    expect(&f.w, text);
    kw_free(&f.w);
}

static void texts_of_loose_args_are_given_whichever_way_they_are_stored(void **state)
{
    (void)state;
    fixture f = make(1);
    uint32_t key = kw_string(&f.w, "k"), stored = kw_string(&f.w, "of the dictionary");
    uint64_t loose[40];
    uint32_t n = kw_loose_text(loose, key, KINETO_ARG_STRING, "eight by");
    n += kw_loose_text(loose + n, key, KINETO_ARG_JSON, "[1,2,3,4]");
    n += kw_loose_text(loose + n, key, KINETO_ARG_STRING, "");
    loose[n++] = kf_loose_word(key, KINETO_ARG_STRING, 0);
    n += kw_text(loose + n, "with a word");
    loose[n++] = kf_loose_word(key, KINETO_ARG_JSON, 0);
    loose[n++] = kf_text_word(17, stored);
    loose[n++] = kf_loose_word(key, KINETO_ARG_INT, 0);
    loose[n++] = 7;
    static const char *const texts[] = {"eight by",    "[1,2,3,4]",         "",
                                        "with a word", "of the dictionary", ""};
    kf_args args = {loose, n, NULL};
    kf_args_iterator it;
    kf_arg arg;
    kf_args_begin(&it, &args, &f.w.input);
    for (size_t i = 0; i < KB_COUNT(texts); i++) {
        assert_true(kf_args_next(&it, &arg));
        assert_true(kb_string_equal(arg.text, kb_string(texts[i])));
        assert_true(kb_string_equal(arg.name, kb_string("k")));
    }
    assert_int_equal(arg.value[0], 7);
    assert_false(kf_args_next(&it, &arg));
    args.word_count = 1; /* nothing after the word: the walk ends */
    kf_args_begin(&it, &args, &f.w.input);
    assert_false(kf_args_next(&it, &arg));
    kw_free(&f.w);
}

static kineto_status keep_event(void *context, const kf_event *e)
{
    *(kf_event *)context = *e;
    return KINETO_OK;
}

static void a_device_event_may_be_of_a_site_of_an_own_kind_and_of_a_spelling(void **state)
{
    (void)state;
    fixture f = make(1);
    const uint8_t types[] = {KINETO_ARG_DOUBLE, KINETO_ARG_UINT};
    uint64_t values[] = {0, 77};
    kw_device d = {.kind = KINETO_KIND_OWN_FIRST + 31,
                   .name = kw_site(&f.w, "power", KINETO_KIND_GPU_PM_COUNTER, types, 2),
                   .source = 3,
                   .start = 5,
                   .end = 5,
                   .spelling = (uint32_t)kb_kind_alias_count,
                   .site = true};
    start(&f, 1, 0, T(0), 0);
    kw_device_record(&f.w, &d, values, 2);
    kf_event e;
    kf_visitor v = {.context = &e, .event = keep_event};
    kf_decode_result r;
    assert_int_equal(kf_decode(&f.w.input, &v, &r, NULL), KINETO_OK);
    assert_int_equal(r.bad_records, 0);
    assert_int_equal(e.form, KF_FORM_DEVICE);
    assert_int_equal(e.kind, 63);
    assert_int_equal(e.spelling, kb_kind_alias_count);
    assert_int_equal(e.args.word_count, 2);
    assert_true(kb_string_equal(e.name, kb_string("power")));
    d.name = 12345678; /* no such site: the event stays, its args are gone */
    kw_device_record(&f.w, &d, values, 2);
    assert_int_equal(kf_decode(&f.w.input, &v, &r, NULL), KINETO_OK);
    assert_int_equal(r.bad_records, 0);
    assert_int_equal(e.flags, KF_EVENT_ARGS_LOST);
    assert_null(e.args.words);
    kw_free(&f.w);
}

static void args_of_every_type_are_walked(void **state)
{
    (void)state;
    fixture f = make(1);
    const uint8_t types[] = {KINETO_ARG_INTS, KINETO_ARG_STRINGS, KINETO_ARG_SHAPES,
                             KINETO_ARG_JSON, KINETO_ARG_BOOL};
    uint32_t site = kw_site(&f.w, "s", KINETO_KIND_CPU_OP, types, 5);
    uint32_t text = kw_string(&f.w, "a string of the dictionary");
    uint64_t words[40];
    uint32_t n = 0;
    words[n++] = 2, words[n++] = 8, words[n++] = 9; /* INTS */
    words[n++] = 2;                                 /* STRINGS */
    n += kw_text(words + n, "x");
    words[n++] = kf_text_word(26, text);
    words[n++] = 5; /* SHAPES of ranks 2 0 1 0 1 */
    words[n++] = 2 | UINT64_C(1) << 32, words[n++] = 1;
    words[n++] = 3, words[n++] = 4, words[n++] = 5, words[n++] = 6;
    words[n++] = kf_text_word(26, text); /* JSON */
    words[n++] = 1;
    start(&f, 1, 0, T(0), 0);
    kw_begin_args(&f.w, 0, site, T(1), KF_PROP_ARGS, words, n);
    kw_end(&f.w, 0, T(2));
    expect(&f.w,
           "range s 1..2 a0:6=2/3 a1:7=2/4 a2:9=5/7 a3:8=a string of the dictionary a4:4=1\n");
    kw_free(&f.w);
}

static void async_ranges_pair_across_threads_first_in_first_out(void **state)
{
    (void)state;
    fixture f = make(3);
    uint64_t id = 5, other = 6;
    start(&f, 1, 0, T(0), 0);
    kw_record(&f.w, KF_ASYNC_BEGIN, 0, f.a, T(1), &id, 1);
    kw_record(&f.w, KF_ASYNC_BEGIN, 0, f.a, T(3), &id, 1);
    kw_record(&f.w, KF_ASYNC_BEGIN, 0, f.a, T(4), &other, 1);
    kw_chunk(&f.w, 1);
    start(&f, 2, 0, T(0), 0);
    kw_record(&f.w, KF_ASYNC_END, 0, f.a, T(9), &id, 1);
    kw_record(&f.w, KF_ASYNC_END, 0, f.a, T(10), &id, 1);
    kw_record(&f.w, KF_ASYNC_END, 0, f.b, T(11), &id, 1);
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_string_equal(l.text, "async a 1..9 id=5 tid=11\nasync a 3..10 id=5 tid=11\n"
                                "async a 4..11 flags=10 id=6 tid=11\n"
                                "async b 11..11 flags=1 id=5 tid=12\n");
    assert_int_equal(r.unmatched_ends, 1);
    assert_int_equal(r.open_ranges, 1);
    kw_free(&f.w);
}

static void flows_and_args_without_a_range_are_counted(void **state)
{
    (void)state;
    fixture f = make(1);
    uint64_t id = 1;
    start(&f, 1, 0, T(0), 0);
    kw_record(&f.w, KF_FLOW, 1, 0, T(1), &id, 1);
    kw_record(&f.w, KF_ARGS, 3, f.a, T(2), NULL, 0);
    kw_record(&f.w, KF_ARGS, 65535, f.a, T(2), NULL, 0);
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_string_equal(l.text, "");
    assert_int_equal(r.unmatched_parts, 3);
    kw_free(&f.w);
}

/* ---- input that lies ---- */

/* One record between two good segments: it costs its own segment's rest and nothing else. */
static void bad_record(const uint64_t *words, uint32_t count, bool rest_of_chunk)
{
    fixture f = make(2);
    start(&f, 1, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_end(&f.w, 0, T(2));
    for (uint32_t i = 0; i < count; i++)
        kw_put(&f.w, words[i]);
    kw_begin(&f.w, 0, f.b, T(3));
    kw_end(&f.w, 0, T(4));
    start(&f, 2, 0, T(5), 0);
    kw_begin(&f.w, 0, f.c, T(6));
    kw_end(&f.w, 0, T(7));
    kw_chunk(&f.w, 1);
    start(&f, 3, 0, T(8), 0);
    kw_begin(&f.w, 0, f.a, T(9));
    kw_end(&f.w, 0, T(10));
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_int_equal(r.bad_records, 1);
    assert_string_equal(l.text, rest_of_chunk ? "range a 1..2\nrange a 9..10\n"
                                              : "range a 1..2\nrange c 6..7\nrange a 9..10\n");
    kw_free(&f.w);
}

static void malformed_records_end_their_segment_only(void **state)
{
    (void)state;
    fixture f = make(1); /* for ids: they are the same in every fixture */
#define BAD(rest, n, ...)                                                                          \
    do {                                                                                           \
        const uint64_t words[] = {__VA_ARGS__};                                                    \
        bad_record(words, n, rest);                                                                \
    } while (0)
    BAD(true, 1, kf_header(63, 1, 0, 0));                   /* no such type */
    BAD(true, 1, kf_header(KF_BEGIN, 0, 0, f.a));           /* no words */
    BAD(true, 1, kf_header(KF_BEGIN, 1, 0, f.a));           /* too short */
    BAD(true, 2, kf_header(KF_DEVICE, 2, 0, 0), 1);         /* too short */
    BAD(false, 3, kf_header(KF_BEGIN, 3, 0, f.a), T(3), 1); /* more than its props */
    BAD(false, 2, kf_header(KF_BEGIN, 2, KF_PROP_CORRELATION << 8, f.a), T(3)); /* fewer */
    BAD(false, 2, kf_header(KF_INSTANT, 2, KF_PROP_NAME << 8, f.a), T(3));
    BAD(false, 3, kf_header(KF_INSTANT, 3, KF_PROP_NAME << 8, f.a), T(3), kf_text_word(9, 0));
    BAD(false, 3, kf_header(KF_INSTANT, 3, KF_PROP_NAME << 8, f.a), T(3),
        kf_text_word(UINT32_MAX, 0));
    BAD(false, 3, kf_header(KF_INSTANT, 3, KF_PROP_ARGS << 8, f.a), T(3), 5); /* it has none */
    BAD(false, 3, kf_header(KF_ASYNC_END, 3, KF_PROP_EXTERNAL << 8, f.a), T(3), 5);
    BAD(true, 2, kf_header(KF_RANGE, 2, 0, f.a), T(3));           /* too short */
    BAD(false, 4, kf_header(KF_RANGE, 4, 0, f.a), T(3), T(4), 1); /* more than its props */
    BAD(false, 3, kf_header(KF_RANGE, 3, KF_PROP_NAME << 8, f.a), T(3), T(4));
    BAD(false, 6, kf_header(KF_DEVICE, 6, kf_device_aux(25, 0, 0), 0), 1, 2, 3, 4, 5); /* kind */
    BAD(false, 6, kf_header(KF_DEVICE, 6, kf_device_aux(5, 0, 0), 0), 1, 2, 3, 4,
        UINT64_C(0xff) << 56); /* spelling */
    BAD(false, 6, kf_header(KF_DEVICE, 6, kf_device_aux(5, 0, 0), 0), 1, 2, 3, 4,
        UINT64_C(0xff) << 48); /* source */
    BAD(false, 6, kf_header(KF_DEVICE, 6, kf_device_aux(5, 0, KF_DEVICE_EXTERNAL), 0), 1, 2, 3, 4,
        0);
    BAD(false, 7, kf_header(KF_DEVICE, 7, kf_device_aux(5, 0, 0), 0), 1, 2, 3, 4, 0, 9);
    BAD(false, 7, kf_header(KF_DEVICE, 7, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_INT, 0));
    BAD(false, 8, kf_header(KF_DEVICE, 8, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_INTS, 0), UINT64_MAX);
    BAD(false, 8, kf_header(KF_DEVICE, 8, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_SHAPES, 0), UINT64_MAX / 4);
    BAD(false, 8, kf_header(KF_DEVICE, 8, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_STRINGS, 0), UINT64_MAX);
    BAD(false, 8, kf_header(KF_DEVICE, 8, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, 99, 0), 0);
    BAD(false, 8, kf_header(KF_DEVICE, 8, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_STRING, 10), 0); /* nine bytes */
    BAD(false, 7, kf_header(KF_DEVICE, 7, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_JSON, 0xffffff));
    BAD(false, 8, kf_header(KF_DEVICE, 8, kf_device_aux(5, 0, KF_DEVICE_LOOSE), 0), 1, 2, 3, 4, 0,
        kf_loose_word(1, KINETO_ARG_INT, 9), 0); /* only texts can do without a word */
    BAD(false, 7, kf_header(KF_DEVICE, 7, kf_device_aux(13, 0, KF_DEVICE_SITE), f.a), 1, 2, 3, 4, 0,
        9); /* its site has no args */
    BAD(false, 6,
        kf_header(KF_DEVICE, 6, kf_device_aux(13, 0, KF_DEVICE_SITE | KF_DEVICE_LOOSE), f.a), 1, 2,
        3, 4, 0);
#undef BAD
    kw_free(&f.w);
}

static void a_record_over_the_chunks_end_and_a_chunk_without_keyframe_are_bad(void **state)
{
    (void)state;
    fixture f = make(3);
    start(&f, 1, 0, T(0), 0);
    while (f.w.at < KF_CHUNK_WORDS - 3)
        kw_put(&f.w, kf_header(KF_PAD, 1, 0, 0));
    kw_put(&f.w, kf_header(KF_INSTANT, 4, 0, f.a));
    kw_chunk(&f.w, 1);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_chunk(&f.w, 2);
    kw_put(&f.w, kf_header(KF_PAD, 1, 0, 0));
    start(&f, 2, 0, T(0), 0);
    kw_begin(&f.w, 0, f.a, T(1));
    kw_end(&f.w, 0, T(2));
    kw_put(&f.w, 0);
    kw_begin(&f.w, 0, f.b, T(3)); /* after the end: not there yet */
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_int_equal(r.bad_records, 2);
    assert_string_equal(l.text, "range a 1..2\n");
    kw_free(&f.w);
}

static void sites_that_do_not_exist_become_placeholders(void **state)
{
    (void)state;
    fixture f = make(1);
    const uint8_t strange[] = {99};
    uint32_t bad_type = kw_site(&f.w, "x", KINETO_KIND_CPU_OP, strange, 1);
    uint32_t bad_kind = kw_site(&f.w, "x", (kineto_kind)200, NULL, 0);
    uint32_t string = kw_string(&f.w, "no site");
    const uint32_t ids[] = {0, bad_type, bad_kind, string, string + 1, 0x7fffffff, UINT32_MAX};
    uint64_t value = 4;
    start(&f, 1, 0, T(0), 0);
    for (size_t i = 0; i < KB_COUNT(ids); i++)
        kw_record(&f.w, KF_INSTANT, 0, ids[i], T(1), NULL, 0);
    kw_record(&f.w, KF_INSTANT, KF_PROP_ARGS << 8, bad_type, T(2), &value, 1);
    kw_record(&f.w, KF_COUNTER, 0, string, T(2), &value, 1);
    static log l;
    kf_decode_result r = decode(&f.w, &l);
    assert_int_equal(l.events, KB_COUNT(ids) + 2);
    assert_int_equal(r.bad_records, 0);
    assert_true(r.bad_entries >= 5);
    assert_non_null(strstr(l.text, "instant ? 2..2 flags=4\ncounter ? 2..2 flags=4\n"));
    kw_free(&f.w);
}

static void entries_over_the_dictionarys_end_are_not_followed(void **state)
{
    (void)state;
    fixture f = make(1);
    uint32_t last = f.w.pool.dictionary_words - 1;
    f.w.pool.dictionary[last] = kf_entry_header(KF_ENTRY_STRING, 1, 4000);
    f.w.pool.dictionary[last - 1] = kf_entry_header(KF_ENTRY_SITE, 100, 8);
    start(&f, 1, 0, T(0), 0);
    kw_record(&f.w, KF_THREAD_NAME, 0, last, T(1), NULL, 0);
    kw_record(&f.w, KF_THREAD_NAME, 0, UINT32_MAX, T(1), NULL, 0);
    kw_record(&f.w, KF_INSTANT, 0, last - 1, T(2), NULL, 0);
    char text[100];
    snprintf(text, sizeof text, "name %u 10 11 \nname %u 10 11 \ninstant ? 2..2\n", f.process,
             f.process);
    expect(&f.w, text);
    kw_free(&f.w);
}

static kineto_status count_entries(void *context, uint32_t id, kf_entry_type type,
                                   const uint8_t *payload, size_t size)
{
    (void)id, (void)payload, (void)size;
    assert_int_equal(type, KF_ENTRY_PROCESS);
    ++*(uint32_t *)context;
    return KINETO_OK;
}

static void table_entries_are_listed_and_a_dead_adders_is_stepped_over(void **state)
{
    (void)state;
    fixture f = make(1);
    uint32_t used = f.w.pool.control->dictionary_used, seen = 0;
    f.w.pool.dictionary[used] = kf_entry_header(KF_ENTRY_NONE, 9, 0);
    kw_process(&f.w, 11, "other", "other");
    kf_visitor v = {.context = &seen, .entry = count_entries};
    kf_decode_result r;
    assert_int_equal(kf_decode(&f.w.input, &v, &r, NULL), KINETO_OK);
    assert_int_equal(seen, 2);
    assert_int_equal(r.bad_entries, 0);
    kw_free(&f.w);
}

static kineto_status refuse(void *context, const kf_event *e)
{
    (void)context, (void)e;
    return KINETO_E_LIMIT;
}

static const uint64_t *unreadable(void *context, uint32_t index, uint32_t *words, kineto_error *err)
{
    (void)context, (void)index, (void)words;
    kb_fail(err, KINETO_E_IO, "no disk");
    return NULL;
}

static void failures_of_either_side_stop_the_decoder(void **state)
{
    (void)state;
    fixture f = make(1);
    kineto_error err;
    kf_visitor v = {.event = refuse};
    start(&f, 1, 0, T(0), 0);
    kw_record(&f.w, KF_INSTANT, 0, f.a, T(1), NULL, 0);
    assert_int_equal(kf_decode(&f.w.input, &v, NULL, NULL), KINETO_E_LIMIT);
    f.w.input.get = unreadable;
    assert_int_equal(kf_decode(&f.w.input, &v, NULL, &err), KINETO_E_IO);
    assert_non_null(strstr(err.message, "no disk"));
    kw_free(&f.w);
}

/* The chunks change between the first and the second look. */
static const uint64_t *changing(void *context, uint32_t index, uint32_t *words, kineto_error *err)
{
    static uint64_t copy[KF_CHUNK_WORDS], seed = 3;
    const uint64_t *chunk = kw_get(context, index, words, err);
    memcpy(copy, chunk, sizeof copy);
    for (int i = 0; i < 3; i++)
        copy[next_random(&seed) % 400] ^= UINT64_C(1) << next_random(&seed) % 64;
    *words = (uint32_t)(next_random(&seed) % (KF_CHUNK_WORDS + 1));
    return copy;
}

static void input_that_changes_while_it_is_read_does_no_harm(void **state)
{
    (void)state;
    fixture f = make(2);
    kf_visitor v = {0};
    for (uint32_t chunk = 0; chunk < 2; chunk++) {
        kw_chunk(&f.w, chunk);
        for (uint32_t i = 0; i < 20; i++) {
            start(&f, 1 + i % 3, i / 3 + 7 * chunk, T(i), 0);
            for (uint32_t d = 0; d < 5; d++)
                kw_begin(&f.w, d, f.a, T(i * 10 + d));
            kw_end(&f.w, i % 5, T(i * 10 + 9));
        }
    }
    f.w.input.get = changing;
    for (int i = 0; i < 3000; i++)
        assert_int_equal(kf_decode(&f.w.input, &v, NULL, NULL), KINETO_OK);
    kw_free(&f.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_nest_and_repeat),
        cmocka_unit_test(an_end_closes_what_was_left_open_inside),
        cmocka_unit_test(a_range_in_one_record_is_paired_with_nothing),
        cmocka_unit_test(short_ticks_of_ends_are_completed_across_a_wrap_and_against_jitter),
        cmocka_unit_test(an_end_after_empty_args_may_be_days_later),
        cmocka_unit_test(a_clock_sample_moves_no_other_time),
        cmocka_unit_test(depth_goes_to_the_limit),
        cmocka_unit_test(a_range_goes_on_in_the_next_chunk_with_all_that_was_said_about_it),
        cmocka_unit_test(a_segment_decodes_alone),
        cmocka_unit_test(a_missing_segment_does_not_cut_what_is_reopened_and_ends_the_rest),
        cmocka_unit_test(a_range_that_is_not_reopened_ends_at_the_last_known_moment),
        cmocka_unit_test(ranges_open_at_the_end_are_flagged_and_those_of_an_ended_thread_differ),
        cmocka_unit_test(cursors_do_not_mix_whatever_the_order_of_chunks),
        cmocka_unit_test(a_chunk_that_comes_twice_counts_once_and_the_longer_copy_wins),
        cmocka_unit_test(where_a_cursor_changes_chunks_makes_no_difference),
        cmocka_unit_test(every_kind_of_record_arrives),
        cmocka_unit_test(texts_of_loose_args_are_given_whichever_way_they_are_stored),
        cmocka_unit_test(a_device_event_may_be_of_a_site_of_an_own_kind_and_of_a_spelling),
        cmocka_unit_test(args_of_every_type_are_walked),
        cmocka_unit_test(async_ranges_pair_across_threads_first_in_first_out),
        cmocka_unit_test(flows_and_args_without_a_range_are_counted),
        cmocka_unit_test(malformed_records_end_their_segment_only),
        cmocka_unit_test(a_record_over_the_chunks_end_and_a_chunk_without_keyframe_are_bad),
        cmocka_unit_test(sites_that_do_not_exist_become_placeholders),
        cmocka_unit_test(entries_over_the_dictionarys_end_are_not_followed),
        cmocka_unit_test(table_entries_are_listed_and_a_dead_adders_is_stepped_over),
        cmocka_unit_test(failures_of_either_side_stop_the_decoder),
        cmocka_unit_test(input_that_changes_while_it_is_read_does_no_harm),
    };
    return RUN_TESTS(tests);
}

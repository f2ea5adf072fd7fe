/* Ranges, moments, domains, names: what programs say and what the trace has. */
#include "unit/unit.h"

#include "emitter.h"
#include "helpers/recording.h"
#include "nvtx.h"
#include "watch.h"

#include <ckineto/analyze.h>

#include <semaphore.h>
#include <sys/syscall.h>
#include <wchar.h>

int InitializeInjectionNvtx2(cn_export_table get);
int InitializeInjectionNvtxExtension(cn_extension *extension);

static emitter me;

static int begin(void **state)
{
    (void)state;
    if (!emitter_init(&me, InitializeInjectionNvtx2))
        return -1;
    return emitter_extensions(&me, InitializeInjectionNvtxExtension) ? 0 : -1;
}

static void assert_inside(const kineto_activity *inner, const kineto_activity *outer)
{
    assert_int_equal(inner->track, outer->track);
    assert_true(outer->start_ns <= inner->start_ns && inner->end_ns <= outer->end_ns);
}

/* ---- entering ---------------------------------------------------------------------------------- */

static const void *export_nothing(uint32_t table)
{
    (void)table;
    return NULL;
}

static void a_program_that_offers_nothing_is_not_entered(void **state)
{
    (void)state;
    assert_int_equal(InitializeInjectionNvtx2(NULL), 0);
    assert_int_equal(InitializeInjectionNvtx2(export_nothing), 0);
    assert_int_equal(InitializeInjectionNvtxExtension(NULL), 0);
}

static void every_function_of_core_is_filled_in_and_the_version_reported(void **state)
{
    (void)state;
    emitter_version_set = 0;
    emitter copy;
    assert_int_equal(emitter_init(&copy, InitializeInjectionNvtx2), 1);
    for (unsigned i = 1; i < CN_CORE_COUNT; i++)
        assert_non_null(copy.core[i]);
    for (unsigned i = 1; i < CN_CORE2_COUNT; i++)
        assert_non_null(copy.core2[i]);
    assert_int_equal(emitter_version_set, CN_NVTX_VERSION);
}

static void smaller_tables_are_not_written_past_their_end(void **state)
{
    (void)state;
    emitter copy;
    memset(&copy, 0, sizeof copy);
    memset(emitter_sizes, 0, sizeof emitter_sizes);
    emitter_module(CN_MODULE_CORE, copy.core, CN_RangePop);
    assert_int_equal(InitializeInjectionNvtx2(emitter_export), 1);
    assert_non_null(copy.core[CN_RangePushW]);
    assert_null(copy.core[CN_RangePop]);
    intptr_t slots[2] = {0};
    cn_segment segment = {0, 1, slots};
    cn_extension x = {3, sizeof x, CN_EXTENSION_PAYLOAD, 0x0104, 1, &segment, NULL, NULL};
    assert_int_equal(InitializeInjectionNvtxExtension(&x), 1);
    assert_true(slots[0] != 0);
    assert_int_equal(slots[1], 0);
}

static void extensions_that_are_not_known_are_left_alone_and_counted(void **state)
{
    (void)state;
    intptr_t slots[EMITTER_SLOTS] = {0};
    kineto_session *session = watch();
    assert_int_equal(emitter_add(slots, 77, 0x0100, InitializeInjectionNvtxExtension), 1);
    assert_int_equal(
        emitter_add(slots, CN_EXTENSION_PAYLOAD, 0x0900, InitializeInjectionNvtxExtension), 1);
    kineto_trace *trace = finish(session);
    assert_int_equal(counted("extensions that were not understood"), 2);
    for (unsigned i = 0; i < EMITTER_SLOTS; i++)
        assert_int_equal(slots[i] | me.memory[i], 0);
    kineto_trace_release(trace);
}

/* ---- ranges ------------------------------------------------------------------------------------ */

static void pushes_and_pops_nest_and_answer_their_level(void **state)
{
    (void)state;
    kineto_session *session = watch();
    assert_int_equal(push(&me, "outer"), 0);
    assert_int_equal(push(&me, "inner"), 1);
    mark(&me, "moment");
    assert_int_equal(pop(&me), 1);
    assert_int_equal(pop(&me), 0);
    kineto_trace *trace = finish(session);
    kineto_activity outer = find_only(trace, "outer"), inner = find_only(trace, "inner"),
                    moment = find_only(trace, "moment");
    assert_int_equal(outer.kind, KINETO_KIND_USER_ANNOTATION);
    assert_int_equal(moment.kind, KINETO_KIND_USER_ANNOTATION);
    assert_inside(&inner, &outer);
    assert_inside(&moment, &inner);
    assert_int_equal(moment.form, KINETO_FORM_INSTANT);
    verify(trace);
    assert_nothing_lost(trace);
    kineto_trace_release(trace);
}

static void nothing_is_kept_while_no_session_records(void **state)
{
    (void)state;
    assert_int_equal(push(&me, "before"), CN_NO_TRACKING);
    uint64_t id = start(&me, "before too");
    assert_true(id != 0);
    kineto_session *session = watch();
    end(&me, id);
    assert_int_equal(push(&me, "seen"), 0);
    kineto_trace *trace = finish(session);
    assert_int_equal(push(&me, "unseen inside"), 1);
    assert_int_equal(pop(&me), 1);
    assert_int_equal(pop(&me), 0);
    assert_int_equal(pop(&me), CN_NO_TRACKING);
    assert_int_equal(kineto_trace_count(trace), 1);
    find_only(trace, "seen");
    kineto_trace_release(trace);
}

static void pops_without_a_push_are_counted_and_change_nothing(void **state)
{
    (void)state;
    kineto_session *session = watch();
    cn_handle domain = domain_create(&me, "alone");
    assert_int_equal(pop(&me), -1);
    push(&me, "still open");
    assert_int_equal(domain_pop(&me, domain), -1);
    mark(&me, "inside");
    assert_int_equal(pop(&me), 0);
    kineto_trace *trace = finish(session);
    kineto_activity open = find_only(trace, "still open"), inside = find_only(trace, "inside");
    assert_inside(&inside, &open);
    assert_int_equal(counted("pops without a push"), 2);
    kineto_trace_release(trace);
}

static void ranges_too_deep_are_counted_and_their_pops_are_theirs(void **state)
{
    (void)state;
    kineto_session *session = watch();
    for (int i = 0; i < 300; i++)
        assert_int_equal(push(&me, i ? "deep" : "bottom"), i);
    for (int i = 299; i >= 0; i--)
        assert_int_equal(pop(&me), i);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "deep"), 255);
    assert_int_equal(count_named(trace, "bottom"), 1);
    assert_int_equal(counted("ranges nested too deeply"), 44);
    assert_int_equal(ledger(trace, "nvtx", "ranges nested too deeply"), 32); /* counted by doubling */
    kineto_trace_release(trace);
}

static void thousands_of_ranges_are_all_there_under_their_own_names(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    kineto_session *session = watch();
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "made %d", i);
        push(&me, name);
        push(&me, "literal");
        pop(&me);
        pop(&me);
    }
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "literal"), COUNT);
    for (kineto_row r = 0, i = 0; r < kineto_trace_count(trace); r++) {
        char name[32];
        kineto_activity a = row_at(trace, r);
        if (text_is(a.name, "literal"))
            continue;
        snprintf(name, sizeof name, "made %llu", (unsigned long long)i++);
        assert_text(a.name, name);
    }
    verify(trace);
    assert_nothing_lost(trace);
    kineto_trace_release(trace);
}

/* ---- names ------------------------------------------------------------------------------------- */

static void messages_without_text_are_events_without_a_name(void **state)
{
    (void)state;
    kineto_session *session = watch();
    push(&me, NULL);
    CALL(&me, core, MarkEx, void, (const cn_attributes *), (NULL));
    cn_attributes nothing = {.version = 3, .size = sizeof nothing};
    CALL(&me, core, RangePushEx, int, (const cn_attributes *), (&nothing));
    CALL(&me, core, RangePushW, int, (const wchar_t *), (NULL));
    cn_attributes registered = {.size = sizeof registered, .message_type = CN_MESSAGE_REGISTERED};
    CALL(&me, core, RangePushEx, int, (const cn_attributes *), (&registered));
    registered.message.registered = (cn_handle)(uintptr_t)0x123456789;
    CALL(&me, core, RangePushEx, int, (const cn_attributes *), (&registered));
    for (int i = 0; i < 5; i++)
        pop(&me);
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 6);
    assert_int_equal(count_named(trace, ""), 6);
    assert_int_equal(counted("invalid handles"), 1);
    kineto_trace_release(trace);
}

static void wide_messages_become_utf_8(void **state)
{
    (void)state;
    static const wchar_t odd[] = {0x41, 0xd800, 0x7fffffff, 0x1f600, 0};
    kineto_session *session = watch();
    CALL(&me, core, RangePushW, int, (const wchar_t *), (L"gr\u00fc\u00dfe \u4f60"));
    CALL(&me, core, MarkW, void, (const wchar_t *), (odd));
    pop(&me);
    kineto_trace *trace = finish(session);
    find_only(trace, "gr\xc3\xbc\xc3\x9f"
                     "e \xe4\xbd\xa0");
    find_only(trace, "A\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80");
    kineto_trace_release(trace);
}

static void bytes_that_are_no_utf_8_stay_what_they_were(void **state)
{
    (void)state;
    kineto_session *session = watch();
    mark(&me, "\xff\xfe raw");
    kineto_trace *trace = finish(session);
    find_only(trace, "\xff\xfe raw");
    kineto_trace_release(trace);
}

static void a_buffer_that_changes_between_events_gives_each_its_own_name(void **state)
{
    (void)state;
    char name[16];
    kineto_session *session = watch();
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "text %d", i / 3); /* three times, then another */
        mark(&me, name);
    }
    kineto_trace *trace = finish(session);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "text %d", i);
        assert_int_equal(count_named(trace, name), 3);
    }
    kineto_trace_release(trace);
}

static void registered_strings_name_events_of_any_domain(void **state)
{
    (void)state;
    cn_handle domain = domain_create(&me, "strings");
    cn_handle text = string_register(&me, domain, "registered");
    assert_ptr_equal(string_register(&me, NULL, "registered"), text);
    kineto_session *session = watch();
    cn_attributes a = {.version = 3, .size = sizeof a, .message_type = CN_MESSAGE_REGISTERED};
    a.message.registered = text;
    domain_mark(&me, domain, &a);
    domain_mark(&me, NULL, &a);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "registered"), 2);
    kineto_trace_release(trace);
}

/* ---- arguments --------------------------------------------------------------------------------- */

static void domain_category_colour_and_payload_are_typed_arguments(void **state)
{
    (void)state;
    cn_handle domain = domain_create(&me, "my library");
    CALL(&me, core2, DomainNameCategoryA, void, (cn_handle, uint32_t, const char *),
         (domain, 3, "io"));
    kineto_session *session = watch();
    cn_attributes a = message("all");
    a.category = 3;
    a.color_type = CN_COLOR_ARGB;
    a.color = 0xff76b900;
    a.payload_type = CN_PAYLOAD_DOUBLE;
    a.payload.f64 = 2.5;
    domain_push(&me, domain, &a);
    domain_pop(&me, domain);
    a.message.ascii = "no name";
    a.category = 4;
    domain_mark(&me, domain, &a);
    kineto_trace *trace = finish(session);
    kineto_row row = find_only(trace, "all").row;
    assert_text(arg_of(trace, row, "domain").text, "my library");
    assert_text(arg_of(trace, row, "category").text, "io");
    assert_int_equal(arg_of(trace, row, "color").u, 0xff76b900);
    assert_true(arg_of(trace, row, "payload").d == 2.5);
    assert_int_equal(arg_of(trace, find_only(trace, "no name").row, "category").u, 4);
    kineto_trace_release(trace);
}

static void payloads_keep_their_type_and_sign(void **state)
{
    (void)state;
    static const struct {
        int32_t type;
        uint64_t bits;
    } cases[] = {{CN_PAYLOAD_UINT64, UINT64_MAX},
                 {CN_PAYLOAD_INT64, (uint64_t)-5},
                 {CN_PAYLOAD_UINT32, 0xfffffff0u},
                 {CN_PAYLOAD_INT32, 0xfffffff0u},
                 {CN_PAYLOAD_FLOAT, 0x3fc00000u}};
    kineto_session *session = watch();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        cn_attributes a = message("p");
        a.payload_type = cases[i].type;
        a.payload.u64 = cases[i].bits;
        domain_mark(&me, NULL, &a);
    }
    kineto_trace *trace = finish(session);
    kineto_row row = find_nth(trace, "p", 0).row;
    assert_true(arg_of(trace, row, "payload").u == UINT64_MAX);
    assert_int_equal(arg_of(trace, row + 1, "payload").i, -5);
    assert_int_equal(arg_of(trace, row + 2, "payload").u, 0xfffffff0u);
    assert_int_equal(arg_of(trace, row + 3, "payload").i, -16);
    assert_true(arg_of(trace, row + 4, "payload").d == 1.5);
    kineto_trace_release(trace);
}

static void attributes_that_are_shorter_are_read_no_further(void **state)
{
    (void)state;
    char *exact = malloc(24); /* the sanitizer sees reads past it */
    cn_attributes a = message("never read");
    a.size = 24;
    a.category = 9;
    memcpy(exact, &a, 24);
    kineto_session *session = watch();
    domain_mark(&me, NULL, (const cn_attributes *)(void *)exact);
    kineto_trace *trace = finish(session);
    free(exact);
    assert_int_equal(arg_of(trace, find_only(trace, "").row, "category").u, 9);
    kineto_trace_release(trace);
}

/* ---- domains ----------------------------------------------------------------------------------- */

static void each_domain_has_its_own_stack(void **state)
{
    (void)state;
    cn_handle a = domain_create(&me, "A"), b = domain_create(&me, "B");
    assert_ptr_equal(domain_create(&me, "A"), a);
    cn_attributes in_a = message("in A"), in_b = message("in B");
    kineto_session *session = watch();
    assert_int_equal(domain_push(&me, a, &in_a), 0);
    assert_int_equal(domain_push(&me, b, &in_b), 0);
    assert_int_equal(domain_push(&me, a, &in_a), 1);
    assert_int_equal(domain_pop(&me, a), 1);
    assert_int_equal(domain_pop(&me, b), 0);
    assert_int_equal(domain_pop(&me, a), 0);
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 3);
    kineto_activity outer = find_nth(trace, "in A", 0), inner = find_nth(trace, "in A", 1),
                    middle = find_only(trace, "in B");
    if (outer.start_ns > inner.start_ns) {
        kineto_activity swap = outer;
        outer = inner;
        inner = swap;
    }
    assert_inside(&middle, &outer);
    assert_inside(&inner, &middle);
    assert_int_equal(counted("ranges continued as another piece"), 0);
    kineto_trace_release(trace);
}

static void ranges_of_domains_that_cross_go_on_as_another_piece(void **state)
{
    (void)state;
    char made[16] = "in B"; /* no literal: its name must be kept */
    cn_handle a = domain_create(&me, "A"), b = domain_create(&me, "B");
    cn_attributes in_a = message("in A"), in_b = message(made);
    kineto_session *session = watch();
    domain_push(&me, a, &in_a);
    domain_push(&me, b, &in_b);
    memset(made, 'x', 4);
    assert_int_equal(domain_pop(&me, a), 0);
    mark(&me, "between");
    assert_int_equal(domain_pop(&me, b), 0);
    kineto_trace *trace = finish(session);
    kineto_activity first = find_only(trace, "in A"), piece = find_nth(trace, "in B", 0),
                    rest = find_nth(trace, "in B", 1), between = find_only(trace, "between");
    if (piece.start_ns > rest.start_ns) {
        kineto_activity swap = piece;
        piece = rest;
        rest = swap;
    }
    assert_inside(&piece, &first);
    assert_true(rest.start_ns >= first.end_ns);
    assert_inside(&between, &rest);
    assert_true(arg_of(trace, rest.row, "continued").u);
    assert_text(arg_of(trace, rest.row, "domain").text, "B");
    assert_int_equal(counted("ranges continued as another piece"), 1);
    verify(trace);
    kineto_trace_release(trace);
}

/* ---- lengths ------------------------------------------------------------------------------------- */

#define MAX_DOMAINS 3u
#define MAX_LOGGED  400u
#define MAX_BEGUN   8u

/* A range by a log of our own: its length lies between the times around the calls. */
typedef struct logged_range {
    char name[24];
    uint64_t before_begin, after_begin, before_end, after_end, id;
    uint64_t gaps_ns; /* in which it may have been between two pieces */
} logged_range;

typedef struct range_log {
    logged_range all[MAX_LOGGED];
    uint32_t count;
    uint32_t open[MAX_DOMAINS][MAX_BEGUN], depth[MAX_DOMAINS]; /* indexes of all; of pushes */
    uint32_t begun[MAX_BEGUN], begun_count;                    /* of ranges with ids */
} range_log;

static uint64_t read_clock_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static logged_range *log_begin(range_log *log, const char *what)
{
    logged_range *r = &log->all[log->count];
    snprintf(r->name, sizeof r->name, "%s %u", what, log->count % 50); /* names come again */
    log->count++;
    r->before_begin = read_clock_ns();
    return r;
}

static void log_push(range_log *log, cn_handle domain, uint32_t d)
{
    logged_range *r = log_begin(log, "pushed");
    cn_attributes a = message(r->name);
    log->open[d][log->depth[d]++] = log->count - 1;
    (void)domain_push(&me, domain, &a);
    r->after_begin = read_clock_ns();
}

/* Pushed ranges of other domains may go on as another piece. */
static void log_pop(range_log *log, cn_handle domain, uint32_t d)
{
    logged_range *r = &log->all[log->open[d][--log->depth[d]]];
    r->before_end = read_clock_ns();
    (void)domain_pop(&me, domain);
    r->after_end = read_clock_ns();
    for (uint32_t other = 0; other < MAX_DOMAINS; other++)
        for (uint32_t i = 0; i < log->depth[other]; i++)
            log->all[log->open[other][i]].gaps_ns += r->after_end - r->before_end;
}

static void log_start(range_log *log)
{
    logged_range *r = log_begin(log, "started");
    log->begun[log->begun_count++] = log->count - 1;
    r->id = start(&me, r->name);
    r->after_begin = read_clock_ns();
}

static void log_end(range_log *log, uint32_t which)
{
    logged_range *r = &log->all[log->begun[which]];
    log->begun[which] = log->begun[--log->begun_count];
    r->before_end = read_clock_ns();
    end(&me, r->id);
    r->after_end = read_clock_ns();
}

/* Pushes and pops of several domains and ranges with ids, in any order, all ended. */
static void play_randomly(range_log *log, uint32_t seed)
{
    static const char *const names[MAX_DOMAINS] = {"first", "second", "third"};
    cn_handle domains[MAX_DOMAINS];
    for (uint32_t d = 0; d < MAX_DOMAINS; d++)
        domains[d] = domain_create(&me, names[d]);
    for (bool more = true; more;) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t d = (seed >> 24) % (MAX_DOMAINS + 1);
        bool begins = log->count < MAX_LOGGED && (seed >> 16 & 3) < 2;
        if (d == MAX_DOMAINS && begins && log->begun_count < MAX_BEGUN)
            log_start(log);
        else if (d == MAX_DOMAINS && !begins && log->begun_count)
            log_end(log, (seed >> 8) % log->begun_count);
        else if (d < MAX_DOMAINS && begins && log->depth[d] < MAX_BEGUN)
            log_push(log, domains[d], d);
        else if (d < MAX_DOMAINS && !begins && log->depth[d])
            log_pop(log, domains[d], d);
        more = log->count < MAX_LOGGED || log->begun_count;
        for (d = 0; d < MAX_DOMAINS; d++)
            more |= log->depth[d] != 0;
    }
}

typedef struct length_bounds {
    uint64_t count;
    int64_t least_ns, most_ns;
} length_bounds;

/* Of all ranges of this name. */
static length_bounds bounds_of_name(const range_log *log, const char *name)
{
    length_bounds sum = {0, 0, 0};
    for (uint32_t i = 0; i < log->count; i++) {
        const logged_range *r = &log->all[i];
        if (strcmp(r->name, name) != 0)
            continue;
        sum.count++;
        sum.least_ns += (int64_t)(r->before_end - r->after_begin) - (int64_t)r->gaps_ns;
        sum.most_ns += (int64_t)(r->after_end - r->before_begin);
    }
    return sum;
}

/* The clocks of recording and log are one, read to 1 ns and fitted to a line: 1 us, and 1 part in 1000. */
static void assert_within_bounds(int64_t ns, const length_bounds *b)
{
    int64_t room_ns = 1000 * (int64_t)b->count + b->most_ns / 1000;
    assert_true(ns >= b->least_ns - room_ns);
    assert_true(ns <= b->most_ns + room_ns);
}

static int64_t sum_rows_named(const kineto_trace *trace, const char *name)
{
    int64_t sum_ns = 0;
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a = row_at(trace, r);
        sum_ns += text_is(a.name, name) ? a.end_ns - a.start_ns : 0;
    }
    return sum_ns;
}

/* Columns of the table annotations. */
enum { COLUMN_NAME = 2, COLUMN_COUNT = 3, COLUMN_SUM = 4 };

static kineto_fact fact_of_name(const kineto_analysis *analysis, const char *name, uint32_t column)
{
    kineto_fact fact = {.is_none = true};
    for (uint64_t row = 0; kineto_analysis_fact(analysis, 0, row, COLUMN_NAME, &fact); row++)
        if (text_is(fact.text, name) && kineto_analysis_fact(analysis, 0, row, column, &fact))
            return fact;
    fail_msg("no row '%s'", name);
    return fact;
}

/* Property: whatever crosses what, rows and table have the lengths of an independent log, and the table
 * has each range once. */
static void lengths_are_those_of_a_log(void **state)
{
    (void)state;
    static range_log log;
    kineto_analysis_options options;
    kineto_error err;
    for (uint32_t seed = 1; seed <= 5; seed++) {
        memset(&log, 0, sizeof log);
        kineto_session *session = watch();
        play_randomly(&log, seed);
        kineto_trace *trace = finish(session);
        kineto_analysis *analysis = NULL;
        kineto_analysis_options_init(&options);
        options.tables = "annotations";
        assert_int_equal(kineto_analysis_run(trace, &options, &analysis, &err), KINETO_OK);
        assert_true(counted("ranges continued as another piece") > 10);
        for (uint32_t i = 0; i < log.count; i++) {
            const char *name = log.all[i].name;
            length_bounds bounds = bounds_of_name(&log, name);
            assert_within_bounds(sum_rows_named(trace, name), &bounds);
            assert_within_bounds(fact_of_name(analysis, name, COLUMN_SUM).i, &bounds);
            assert_int_equal(fact_of_name(analysis, name, COLUMN_COUNT).i, bounds.count);
        }
        verify(trace);
        kineto_analysis_destroy(analysis);
        kineto_trace_release(trace);
    }
}

/* Names that are kept make room for others when their ranges end, in any order. */
static void pieces_have_names_however_many_came_before(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    cn_handle outer = domain_create(&me, "O"), a = domain_create(&me, "A"),
              b = domain_create(&me, "B");
    cn_attributes lasts = message("lasts");
    kineto_session *session = watch();
    domain_push(&me, outer, &lasts);
    for (int i = 0; i < ROUNDS; i++) {
        char in_a[32], in_b[32];
        snprintf(in_a, sizeof in_a, "of A, number %d", i);
        snprintf(in_b, sizeof in_b, "of B, the number %d", i);
        cn_attributes first = message(in_a), second = message(in_b);
        domain_push(&me, a, &first);
        domain_push(&me, b, &second);
        assert_int_equal(domain_pop(&me, i % 2 ? a : b), 0);
        assert_int_equal(domain_pop(&me, i % 2 ? b : a), 0);
    }
    assert_int_equal(domain_pop(&me, outer), 0);
    kineto_trace *trace = finish(session);
    for (int i = 0; i < ROUNDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "of A, number %d", i);
        assert_int_equal(count_named(trace, name), 1);
        snprintf(name, sizeof name, "of B, the number %d", i);
        assert_int_equal(count_named(trace, name), i % 2 ? 2 : 1);
    }
    verify(trace);
    kineto_trace_release(trace);
}

static void more_domains_than_there_is_room_for_share_a_name(void **state)
{
    (void)state;
    char name[32];
    cn_handle last = NULL;
    kineto_session *session = watch();
    for (int i = 0; i < 1100; i++) {
        snprintf(name, sizeof name, "domain %d", i);
        last = domain_create(&me, name);
        assert_non_null(last);
    }
    cn_attributes a = message("late");
    domain_mark(&me, last, &a);
    domain_mark(&me, (cn_handle)(uintptr_t)0xdeadbeef, &a);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "late"), 2);
    assert_text(arg_of(trace, find_nth(trace, "late", 0).row, "domain").text, "(other domains)");
    assert_true(counted("domains without a name of their own") >= 64);
    kineto_trace_release(trace);
}

/* ---- process ranges ---------------------------------------------------------------------------- */

static void *end_elsewhere(void *id)
{
    end(&me, *(uint64_t *)id);
    return NULL;
}

static void ranges_with_ids_may_end_on_another_thread(void **state)
{
    (void)state;
    kineto_session *session = watch();
    uint64_t first = start(&me, "first"), second = start(&me, "second");
    assert_true(first && second && first != second);
    pthread_join(start_thread(end_elsewhere, &first), NULL);
    end(&me, second);
    end(&me, second);
    end(&me, UINT64_MAX);
    end(&me, 0);
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 2);
    assert_int_equal(find_only(trace, "first").form, KINETO_FORM_ASYNC);
    assert_true(find_only(trace, "second").end_ns >= find_only(trace, "first").end_ns);
    assert_int_equal(counted("ends of ranges that are not open"), 3);
    kineto_trace_release(trace);
}

static void very_many_ranges_with_ids_may_be_open(void **state)
{
    (void)state;
    enum { COUNT = 6000 }; /* more than the table of open ones has room for */
    static uint64_t ids[COUNT];
    kineto_session *session = watch();
    for (int i = 0; i < COUNT; i++)
        ids[i] = start(&me, "open");
    for (int i = 0; i < COUNT; i++)
        end(&me, ids[i]);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "open"), COUNT);
    assert_int_equal(counted("ends of ranges that are not open"), 0);
    verify(trace);
    kineto_trace_release(trace);
}

/* ---- threads, forks, copies -------------------------------------------------------------------- */

enum { THREADS = 4, PAIRS = 500 };

static void *many_pairs(void *argument)
{
    emitter *copy = argument;
    cn_handle domain = domain_create(copy, "shared");
    cn_attributes a = message("in domain");
    for (int i = 0; i < PAIRS; i++) {
        a.category = 1 + (uint32_t)i % 7;
        push(copy, "pair");
        domain_push(copy, domain, &a);
        domain_pop(copy, domain);
        pop(copy);
    }
    return NULL;
}

static void *enter_and_emit(void *argument)
{
    (void)argument;
    emitter copy; /* another copy of the header, entering at the same time */
    if (!emitter_init(&copy, InitializeInjectionNvtx2) ||
        !emitter_extensions(&copy, InitializeInjectionNvtxExtension))
        return NULL;
    return many_pairs(&copy);
}

static void copies_of_the_header_enter_from_any_thread_at_any_time(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    kineto_session *session = watch();
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(enter_and_emit, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_named(trace, "pair"), THREADS * PAIRS);
    assert_int_equal(count_named(trace, "in domain"), THREADS * PAIRS);
    verify(trace);
    assert_nothing_lost(trace);
    kineto_trace_release(trace);
}

static void a_child_goes_on_with_what_its_parent_had_open(void **state)
{
    (void)state;
    kineto_session *session = watch();
    push(&me, "of the parent");
    uint64_t id = start(&me, "with id");
    pid_t child = fork();
    if (child == 0) {
        end(&me, id); /* begun by another process */
        push(&me, "of the child");
        int level = pop(&me) == 1 && pop(&me) == 0 && pop(&me) == -1;
        _exit(level ? 0 : 1);
    }
    assert_exit(child, 0);
    end(&me, id);
    pop(&me);
    kineto_trace *trace = finish(session);
    assert_int_equal(count_of_pid(trace, "of the parent", getpid()), 1);
    assert_int_equal(count_of_pid(trace, "of the child", child), 1);
    assert_int_equal(count_named(trace, "with id"), 1);
    kineto_trace_release(trace);
}

static __thread bool forks_slowly;
static sem_t is_forking, others_forked;

/* Runs after the source's own preparation, since it was registered before that. */
static void before_a_fork(void)
{
    struct timespec limit;
    if (!forks_slowly)
        return;
    sem_post(&is_forking);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 5; /* there are libcs that let one fork at a time */
    sem_timedwait(&others_forked, &limit);
}

__attribute__((constructor(101))) static void register_first(void)
{
    sem_init(&is_forking, 0, 0);
    sem_init(&others_forked, 0, 0);
    pthread_atfork(before_a_fork, NULL, NULL);
}

static void *fork_slowly(void *argument)
{
    forks_slowly = true;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return argument;
}

static void threads_that_fork_at_once_leave_nothing_locked(void **state)
{
    (void)state;
    pthread_t thread = start_thread(fork_slowly, NULL);
    sem_wait(&is_forking);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    sem_post(&others_forked);
    pthread_join(thread, NULL);
    assert_exit(child, 0);
    assert_true(cn_tables_lock());
    assert_false(cn_tables_lock()); /* as in a signal handler */
    cn_tables_unlock();
}

static int may_go_on;

static void *named_from_elsewhere(void *tid)
{
    __atomic_store_n((uint32_t *)tid, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_go_on, __ATOMIC_ACQUIRE))
        usleep(100);
    push(&me, "of a named thread");
    pop(&me);
    return NULL;
}

static void assert_named(const kineto_trace *trace, const char *event, const char *name)
{
    kineto_string s = track_of(trace, find_only(trace, event).row).name;
    assert_non_null(memmem(s.data, s.size, name, strlen(name)));
}

static void threads_have_the_names_that_were_given_to_them(void **state)
{
    (void)state;
    uint32_t tid = 0;
    kineto_session *session = watch();
    CALL(&me, core, NameOsThreadA, void, (uint32_t, const char *),
         ((uint32_t)syscall(SYS_gettid), "tester"));
    mark(&me, "here");
    pthread_t thread = start_thread(named_from_elsewhere, &tid);
    while (!__atomic_load_n(&tid, __ATOMIC_ACQUIRE))
        usleep(100);
    CALL(&me, core, NameOsThreadW, void, (uint32_t, const wchar_t *), (tid, L"other"));
    __atomic_store_n(&may_go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    kineto_trace *trace = finish(session);
    assert_named(trace, "here", "(tester)");
    assert_named(trace, "of a named thread", "(other)");
    kineto_trace_release(trace);
}

static void more_names_than_there_is_room_for_are_recorded_all_the_same(void **state)
{
    (void)state;
    enum { COUNT = 6000 };
    static char names[COUNT][24];
    kineto_session *session = watch();
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "place %d", i);
        for (int k = 0; k < 3; k++)
            mark(&me, names[i]);
    }
    kineto_trace *trace = finish(session);
    assert_int_equal(kineto_trace_count(trace), 3 * COUNT);
    for (kineto_row r = 0; r < 3 * COUNT; r++)
        assert_text(row_at(trace, r).name, names[r / 3]);
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_that_offers_nothing_is_not_entered),
        cmocka_unit_test(every_function_of_core_is_filled_in_and_the_version_reported),
        cmocka_unit_test(smaller_tables_are_not_written_past_their_end),
        cmocka_unit_test(extensions_that_are_not_known_are_left_alone_and_counted),
        cmocka_unit_test(pushes_and_pops_nest_and_answer_their_level),
        cmocka_unit_test(nothing_is_kept_while_no_session_records),
        cmocka_unit_test(pops_without_a_push_are_counted_and_change_nothing),
        cmocka_unit_test(thousands_of_ranges_are_all_there_under_their_own_names),
        cmocka_unit_test(messages_without_text_are_events_without_a_name),
        cmocka_unit_test(wide_messages_become_utf_8),
        cmocka_unit_test(bytes_that_are_no_utf_8_stay_what_they_were),
        cmocka_unit_test(a_buffer_that_changes_between_events_gives_each_its_own_name),
        cmocka_unit_test(registered_strings_name_events_of_any_domain),
        cmocka_unit_test(domain_category_colour_and_payload_are_typed_arguments),
        cmocka_unit_test(payloads_keep_their_type_and_sign),
        cmocka_unit_test(attributes_that_are_shorter_are_read_no_further),
        cmocka_unit_test(each_domain_has_its_own_stack),
        cmocka_unit_test(ranges_of_domains_that_cross_go_on_as_another_piece),
        cmocka_unit_test(lengths_are_those_of_a_log),
        cmocka_unit_test(pieces_have_names_however_many_came_before),
        cmocka_unit_test(ranges_with_ids_may_end_on_another_thread),
        cmocka_unit_test(very_many_ranges_with_ids_may_be_open),
        cmocka_unit_test(copies_of_the_header_enter_from_any_thread_at_any_time),
        cmocka_unit_test(a_child_goes_on_with_what_its_parent_had_open),
        cmocka_unit_test(threads_that_fork_at_once_leave_nothing_locked),
        cmocka_unit_test(threads_have_the_names_that_were_given_to_them),
        cmocka_unit_test(more_domains_than_there_is_room_for_share_a_name),
        cmocka_unit_test(more_names_than_there_is_room_for_are_recorded_all_the_same),
        cmocka_unit_test(ranges_too_deep_are_counted_and_their_pops_are_theirs),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}

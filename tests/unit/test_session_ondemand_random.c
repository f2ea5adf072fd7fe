/* On-demand tracing at random: called only when it asks to be, the machine does what it does when
 * called in every unit of time, and what a slow model says, which was written from the rules of
 * docs/how-to/on-demand.md and looks at every unit instead of computing deadlines. Then anything at all,
 * with times from one end of the numbers to the other. */
#include "ondemand/controller/state_machine.h"

#include "unit.h"

#define MS   INT64_C(1000000)
#define T0   (INT64_C(1700000000) * 1000 * MS)
#define MOST 4096

/* ---- what happened ------------------------------------------------------------------------------- */

typedef struct entry {
    char what; /* accepted, Refused, prepared, dropped; window, snapshot: from, to */
    int64_t from, to;
} entry;
typedef struct history {
    entry entries[MOST];
    size_t count;
} history;

static void note(history *h, char what, int64_t from, int64_t to)
{
    assert_true(h->count < MOST);
    h->entries[h->count++] = (entry){what, from, to};
}

static void assert_same(const history *a, const history *b, uint64_t seed)
{
    for (size_t i = 0; i < KB_MAX(a->count, b->count); i++) {
        const entry none = {'-', 0, 0};
        const entry *x = i < a->count ? &a->entries[i] : &none;
        const entry *y = i < b->count ? &b->entries[i] : &none;
        if (x->what != y->what || x->from != y->from || x->to != y->to)
            fail_msg("round %llu, entry %zu: %c %lld %lld, and %c %lld %lld",
                     (unsigned long long)seed, i, x->what, (long long)x->from - T0,
                     (long long)x->to - T0, y->what, (long long)y->from - T0,
                     (long long)y->to - T0);
    }
}

/* ---- the machine, with a check that no action comes twice or without another -------------------- */

typedef struct host {
    ko_ondemand m;
    bool prepared, started, snapshot, writing;
    int64_t wake_ns;
    history *h; /* may be NULL */
} host;

static void check_begin(host *o, uint32_t actions)
{
    if (actions & KO_ACT_PREPARE) {
        assert_false(o->prepared || o->snapshot || o->writing);
        o->prepared = true;
    }
    if (actions & KO_ACT_DROP) {
        assert_true(o->prepared || o->snapshot || o->writing);
        assert_false(actions & ~(uint32_t)KO_ACT_DROP);
        o->prepared = o->started = o->snapshot = o->writing = false;
    }
    if (actions & KO_ACT_START) {
        assert_true(o->prepared && !o->started);
        o->started = true;
    }
    if (actions & KO_ACT_SNAPSHOT_START) {
        assert_false(o->prepared || o->snapshot || o->writing);
        o->snapshot = true;
    }
}

static void check_end(host *o, uint32_t actions)
{
    assert_int_equal(!!(actions & KO_ACT_STOP), !!(actions & KO_ACT_WRITE));
    if (actions & KO_ACT_STOP) {
        assert_true(o->started);
        o->prepared = o->started = false;
        o->writing = true;
    }
    if (actions & KO_ACT_SNAPSHOT_STOP) {
        assert_true(o->snapshot);
        o->snapshot = false;
        o->writing = true;
    }
    if (actions & (KO_ACT_STOP | KO_ACT_SNAPSHOT_STOP))
        assert_true(o->m.window_end_ns >= o->m.window_start_ns);
}

static void check_state(const host *o)
{
    uint32_t s = o->m.state;
    assert_int_equal(s == KO_ONDEMAND_WARMUP || s == KO_ONDEMAND_COLLECT, o->prepared);
    assert_int_equal(s == KO_ONDEMAND_COLLECT, o->started);
    assert_int_equal(s == KO_ONDEMAND_SNAPSHOT, o->snapshot);
    assert_int_equal(s == KO_ONDEMAND_PROCESS, o->writing);
}

static void write_down(host *o, uint32_t actions, int64_t now)
{
    const ko_ondemand *m = &o->m;
    if (!o->h)
        return;
    if (actions & KO_ACT_ACCEPT)
        note(o->h, 'a', now, 0);
    if (actions & KO_ACT_PREPARE)
        note(o->h, 'p', now, 0);
    if (actions & KO_ACT_DROP)
        note(o->h, 'd', now, 0);
    if (actions & (KO_ACT_STOP | KO_ACT_SNAPSHOT_STOP))
        note(o->h, actions & KO_ACT_STOP ? 'w' : 's', m->window_start_ns, m->window_end_ns);
    if (actions & KO_ACT_REFUSE)
        note(o->h, 'R', now, 0);
}

static void tell(host *o, ko_ondemand_event event, int64_t now, const ko_request *r)
{
    uint32_t before = o->m.state;
    ko_ondemand_answer a = ko_ondemand_step(&o->m, event, now, r);
    if (before == KO_ONDEMAND_PROCESS && event == KO_EVENT_PROCESSED)
        o->writing = false;
    check_begin(o, a.actions);
    check_end(o, a.actions);
    check_state(o);
    assert_true(a.wake_ns > now || a.wake_ns == INT64_MAX);
    assert_true(!(a.actions & KO_ACT_REFUSE) || a.reason[0]);
    assert_non_null(memchr(a.reason, 0, sizeof a.reason));
    o->wake_ns = a.wake_ns;
    write_down(o, a.actions, now);
}

static void begin(host *o, history *h)
{
    memset(o, 0, sizeof *o);
    ko_ondemand_init(&o->m);
    o->wake_ns = INT64_MAX;
    if (h)
        h->count = 0;
    o->h = h;
}

/* ---- the slow model ------------------------------------------------------------------------------ */

typedef enum phase { IDLE, BOOKED, READY, OPEN, WRITING } phase;
typedef struct slow {
    phase phase;
    bool counted, snapshot, own;
    bool endless; /* by iteration, without a duration */
    int64_t iteration, first, last, lead;
    int64_t opens, warm, length, quiet_since, began;
    history *h;
} slow;

static void slow_open(slow *s, int64_t t)
{
    s->phase = OPEN;
    s->began = t;
}

static void slow_close(slow *s, int64_t t)
{
    note(s->h, s->snapshot ? 's' : 'w', s->began, t);
    s->phase = WRITING;
}

static void slow_ready(slow *s, int64_t t)
{
    s->phase = READY;
    note(s->h, 'p', t, 0);
}

/* Nothing for ten minutes. */
static void slow_stalled(slow *s, int64_t t)
{
    s->counted = false;
    s->opens = s->phase == READY ? t : t + s->warm;
}

/* What holds at t, before events at t. */
static void slow_look(slow *s, int64_t t)
{
    bool stalled = t - s->quiet_since >= 600 * 1000 * MS;
    if (s->counted && stalled && (s->phase == BOOKED || s->phase == READY))
        slow_stalled(s, t);
    if (s->phase == BOOKED && !s->counted && s->snapshot && t >= s->opens)
        slow_open(s, t);
    if (s->phase == BOOKED && !s->counted && !s->snapshot &&
        (t + s->warm >= s->opens || t + 100 * MS >= s->opens))
        slow_ready(s, t);
    if (s->phase == READY && !s->counted && t >= s->opens)
        slow_open(s, t);
    if (s->phase == OPEN && (s->counted && s->endless ? stalled : t - s->began >= s->length))
        slow_close(s, t);
}

/* Try one iteration after the other. */
static int64_t slow_first(const slow *s, const ko_request *r)
{
    int64_t warm = r->warmup_iterations < 0 ? 0 : r->warmup_iterations;
    for (int64_t at = s->iteration + 1;; at++) {
        bool rounds = r->start_iteration_roundup > 1;
        if (rounds ? at >= r->start_iteration && at % r->start_iteration_roundup == 0
            : r->start_iteration > s->iteration ? at == r->start_iteration
                                                : at == s->iteration + 1 + warm)
            return at;
    }
}

static bool slow_takes(const slow *s, const ko_request *r, int64_t t)
{
    bool by_time = !s->counted && r->start_time_ns > 0;
    return !(by_time && r->start_time_ns < t);
}

static void slow_request(slow *s, const ko_request *r, int64_t t)
{
    slow was = *s;
    bool numbered = r->start_iteration >= 0 || r->start_iteration_roundup > 0;
    bool free = s->phase == IDLE && !s->own && (r->enabled || r->memory_snapshot);
    s->counted = free && !r->memory_snapshot && r->iterations > 0 &&
                 (numbered || r->start_time_ns <= 0) && s->iteration >= 0;
    if (!free || !slow_takes(s, r, t)) {
        *s = was;
        note(s->h, 'R', t, 0);
        return;
    }
    note(s->h, 'a', t, 0);
    s->phase = BOOKED;
    s->snapshot = r->memory_snapshot;
    s->warm = s->snapshot ? 0 : r->warmup_ns < 0 ? 5000 * MS : r->warmup_ns;
    s->length = r->duration_ns < 0 ? 500 * MS : r->duration_ns;
    if (s->snapshot)
        s->length = r->memory_snapshot_ns < 0 ? 1000 * MS : r->memory_snapshot_ns;
    s->endless = r->duration_ns < 0;
    s->opens = r->start_time_ns > 0 ? r->start_time_ns : t + s->warm;
    s->quiet_since = t;
    if (!s->counted)
        return;
    s->first = slow_first(s, r);
    s->last = s->first + r->iterations;
    s->lead = r->warmup_iterations > 1 ? r->warmup_iterations : 1;
    if (s->iteration + s->lead >= s->first)
        slow_ready(s, t);
}

static void slow_step(slow *s, int64_t t)
{
    s->iteration++;
    s->quiet_since = t;
    if (!s->counted)
        return;
    if (s->phase == BOOKED && s->iteration + s->lead >= s->first)
        slow_ready(s, t);
    if (s->phase == READY && s->iteration >= s->first)
        slow_open(s, t);
    else if (s->phase == OPEN && s->iteration >= s->last)
        slow_close(s, t);
}

static void slow_give_up(slow *s, int64_t t)
{
    if (s->phase != IDLE && s->phase != BOOKED)
        note(s->h, 'd', t, 0);
    s->phase = IDLE;
}

static void slow_event(slow *s, ko_ondemand_event event, int64_t t, const ko_request *r)
{
    if (event == KO_EVENT_REQUEST)
        slow_request(s, r, t);
    else if (event == KO_EVENT_STEP)
        slow_step(s, t);
    else if (event == KO_EVENT_CANCEL && s->phase == OPEN)
        slow_close(s, t);
    else if (event == KO_EVENT_CANCEL && s->phase != WRITING)
        slow_give_up(s, t);
    else if (event == KO_EVENT_PREEMPT && s->phase != WRITING)
        slow_give_up(s, t);
    else if (event == KO_EVENT_FAILED && s->phase != BOOKED)
        slow_give_up(s, t);
    else if (event == KO_EVENT_PROCESSED && s->phase == WRITING)
        s->phase = IDLE;
    if (event == KO_EVENT_PREEMPT)
        s->own = true;
    if (event == KO_EVENT_RELEASE)
        s->own = false;
    slow_look(s, t);
}

/* ---- what to tell them --------------------------------------------------------------------------- */

typedef struct happening {
    int64_t at_ns;
    ko_ondemand_event event;
    ko_request request;
} happening;

/* In units: how long a round is, how much may lie between events, and how long things take. */
typedef struct scale {
    int64_t unit_ns;
    uint32_t units, gap, length;
    bool usual; /* requests may leave out what is then a multiple of the unit */
} scale;

static int64_t up_to(uint64_t *seed, uint32_t n) { return (int64_t)(next_random(seed) % n); }
static bool one_in(uint64_t *seed, uint32_t n) { return up_to(seed, n) == 0; }

/* At least one unit where getting ready is less than a unit. */
static int64_t some_time(uint64_t *seed, const scale *s, int64_t least)
{
    if (s->usual && one_in(seed, 6))
        return -1;
    return (up_to(seed, s->length) + least) * s->unit_ns;
}

static void any_request(ko_request *r, uint64_t *seed, const scale *s, int64_t now)
{
    memset(r, 0, sizeof *r);
    r->enabled = !one_in(seed, 20);
    r->duration_ns = some_time(seed, s, 0);
    r->warmup_ns = some_time(seed, s, s->unit_ns > 100 * MS);
    r->memory_snapshot_ns = some_time(seed, s, 0);
    r->memory_snapshot = one_in(seed, 8);
    r->iterations = one_in(seed, 2) ? up_to(seed, 6) : -1;
    r->warmup_iterations = up_to(seed, 5) - 1;
    r->start_iteration = up_to(seed, 40) - 2;
    r->start_iteration_roundup = one_in(seed, 2) ? up_to(seed, 12) : -1;
    if (one_in(seed, 2))
        r->start_time_ns = now + (up_to(seed, s->length) - 2) * s->unit_ns;
    if (s->gap > 400 && one_in(seed, 2))
        r->duration_ns = -1;
}

static ko_ondemand_event any_event(uint64_t *seed)
{
    static const ko_ondemand_event others[] = {KO_EVENT_CANCEL,  KO_EVENT_PREEMPT, KO_EVENT_RELEASE,
                                               KO_EVENT_RELEASE, KO_EVENT_RELEASE, KO_EVENT_FAILED};
    int64_t which = up_to(seed, 20);
    if (which < 5)
        return KO_EVENT_REQUEST;
    if (which < 13)
        return KO_EVENT_STEP;
    if (which < 16)
        return KO_EVENT_PROCESSED;
    return which < 17 ? KO_EVENT_TICK : others[up_to(seed, KB_COUNT(others))];
}

/* Sorted by time; several may come at once. */
static size_t any_happenings(happening *out, size_t most, uint64_t *seed, const scale *s)
{
    size_t count = 0;
    for (int64_t at = 0; count < most; count++) {
        at += one_in(seed, 4) ? 0 : one_in(seed, 8) ? up_to(seed, s->gap) : up_to(seed, 6);
        if (at >= s->units)
            break;
        out[count].at_ns = T0 + at * s->unit_ns;
        out[count].event = any_event(seed);
        any_request(&out[count].request, seed, s, out[count].at_ns);
    }
    return count;
}

/* ---- three ways ---------------------------------------------------------------------------------- */

/* At the very time of another event the machine finds out by itself what is due, too. What undoes
 * or ends something is reported after it has begun, or nothing of it would be in the history. */
static bool must_wake(const host *o, int64_t next, ko_ondemand_event event)
{
    bool undoes = event != KO_EVENT_REQUEST && event != KO_EVENT_STEP;
    return o->wake_ns < next || (o->wake_ns == next && undoes);
}

static void run_on_demand(host *o, const happening *all, size_t count, int64_t until)
{
    for (size_t i = 0; i < count; i++) {
        while (must_wake(o, all[i].at_ns, all[i].event))
            tell(o, KO_EVENT_TICK, o->wake_ns, NULL);
        tell(o, all[i].event, all[i].at_ns, &all[i].request);
    }
    while (o->wake_ns < until)
        tell(o, KO_EVENT_TICK, o->wake_ns, NULL);
}

static void run_always(host *o, slow *s, const happening *all, size_t count, int64_t until,
                       int64_t unit)
{
    size_t i = 0;
    for (int64_t t = T0; t < until; t += unit) {
        tell(o, KO_EVENT_TICK, t, NULL);
        slow_look(s, t);
        for (; i < count && all[i].at_ns == t; i++) {
            tell(o, all[i].event, t, &all[i].request);
            slow_event(s, all[i].event, t, &all[i].request);
        }
    }
    assert_int_equal(i, count);
}

/* In the log, how often each kind of thing came about: a driver that never gets there proves
 * nothing. */
static void count_kinds(const history *h, size_t counts[128])
{
    for (size_t i = 0; i < h->count; i++)
        counts[(unsigned char)h->entries[i].what]++;
}

static void compare_at(const scale *s, int rounds)
{
    static happening all[1024];
    static history few, many, model;
    size_t counts[128] = {0};
    for (int round = 0; round < rounds; round++) {
        uint64_t seed = (uint64_t)round * 977 + s->units;
        size_t count = any_happenings(all, KB_COUNT(all), &seed, s);
        int64_t until = T0 + (int64_t)s->units * s->unit_ns;
        host one, two;
        slow three;
        memset(&three, 0, sizeof three);
        three.iteration = -1;
        begin(&one, &few);
        begin(&two, &many);
        model.count = 0;
        three.h = &model;
        run_on_demand(&one, all, count, until);
        run_always(&two, &three, all, count, until, s->unit_ns);
        assert_same(&few, &many, (uint64_t)round);
        assert_same(&few, &model, (uint64_t)round);
        count_kinds(&few, counts);
    }
    for (const char *kind = "aRpdws"; *kind; kind++)
        assert_true(counts[(unsigned char)*kind] > (size_t)rounds / 10);
}

static void test_called_when_it_asks_it_does_what_it_does_when_called_each_microsecond(void **state)
{
    (void)state;
    compare_at(&(scale){1000, 2000, 60, 80, false}, 400);
}

static void test_the_same_with_usual_times_and_getting_ready(void **state)
{
    (void)state;
    compare_at(&(scale){50 * MS, 3000, 60, 80, true}, 300);
}

static void test_the_same_in_programs_that_stop_stepping(void **state)
{
    (void)state;
    compare_at(&(scale){500 * MS, 30000, 1600, 40, true}, 60);
}

/* ---- anything at all ----------------------------------------------------------------------------- */

static int64_t any_number(uint64_t *seed)
{
    static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    switch (up_to(seed, 4)) {
    case 0:
        return edges[up_to(seed, KB_COUNT(edges))];
    case 1:
        return (int64_t)next_random(seed);
    default:
        return up_to(seed, 50) - 1;
    }
}

static void absurd_request(ko_request *r, uint64_t *seed)
{
    memset(r, 0, sizeof *r);
    r->enabled = !one_in(seed, 8);
    r->memory_snapshot = one_in(seed, 6);
    r->duration_ns = any_number(seed);
    r->iterations = any_number(seed);
    r->warmup_ns = any_number(seed);
    r->warmup_iterations = any_number(seed);
    r->start_time_ns = any_number(seed);
    r->start_iteration = any_number(seed);
    r->start_iteration_roundup = any_number(seed);
    r->memory_snapshot_ns = any_number(seed);
}

/* A second later, an hour before, or anywhere. */
static int64_t another_time(int64_t now, uint64_t *seed)
{
    int64_t by = up_to(seed, 12) ? up_to(seed, 60) : -up_to(seed, 3600) * 1000 * MS, to;
    if (one_in(seed, 30))
        return any_number(seed);
    return __builtin_add_overflow(now, by, &to) ? now : to;
}

static void assert_not_stuck(host o, int64_t now)
{
    ko_request r;
    memset(&r, 0, sizeof r);
    o.h = NULL;
    tell(&o, KO_EVENT_CANCEL, now, NULL);
    tell(&o, KO_EVENT_PROCESSED, now, NULL);
    tell(&o, KO_EVENT_RELEASE, now, NULL);
    tell(&o, KO_EVENT_PROCESSED, now, NULL);
    assert_true(ko_ondemand_can_accept(&o.m, NULL));
    r.enabled = true;
    tell(&o, KO_EVENT_REQUEST, now, &r);
    assert_int_not_equal(o.m.state, KO_ONDEMAND_WAIT);
}

static void test_nothing_that_is_reported_at_any_time_breaks_it(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 3000; round++) {
        uint64_t seed = round;
        int64_t now = any_number(&seed);
        host o;
        begin(&o, NULL);
        for (int i = 0; i < 100; i++) {
            ko_request r;
            absurd_request(&r, &seed);
            ko_ondemand_event event = one_in(&seed, 40) ? (ko_ondemand_event)99 : any_event(&seed);
            tell(&o, event, now, &r);
            bool wakes = one_in(&seed, 3) && o.wake_ns != INT64_MAX;
            now = wakes ? o.wake_ns : another_time(now, &seed);
        }
        assert_not_stuck(o, now);
    }
}

/* With the clock going anywhere, it still comes to an end by itself in a few calls. */
static void test_called_when_it_asks_each_window_ends(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 3000; round++) {
        uint64_t seed = round;
        scale s = {MS, 1000, 10, 50, true};
        int64_t now = T0;
        host o;
        ko_request r;
        begin(&o, NULL);
        any_request(&r, &seed, &s, now);
        for (int64_t i = up_to(&seed, 20); i > 0; i--)
            tell(&o, KO_EVENT_STEP, now, NULL);
        tell(&o, KO_EVENT_REQUEST, now, &r);
        int calls = 0;
        for (; o.wake_ns != INT64_MAX && calls < 12; calls++) {
            now = o.wake_ns;
            if (one_in(&seed, 4))
                tell(&o, KO_EVENT_TICK, now - up_to(&seed, 100) * 1000 * MS, NULL);
            tell(&o, KO_EVENT_TICK, now, NULL);
        }
        assert_true(calls < 12);
        assert_true(o.m.state == KO_ONDEMAND_WAIT || o.m.state == KO_ONDEMAND_PROCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_called_when_it_asks_it_does_what_it_does_when_called_each_microsecond),
        cmocka_unit_test(test_the_same_with_usual_times_and_getting_ready),
        cmocka_unit_test(test_the_same_in_programs_that_stop_stepping),
        cmocka_unit_test(test_nothing_that_is_reported_at_any_time_breaks_it),
        cmocka_unit_test(test_called_when_it_asks_each_window_ends),
    };
    return RUN_TESTS(tests);
}

/* Memory profiles compared with an allocator that keeps count itself: live blocks, peak, totals by
 * place; blocks of before; several threads. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

/* ---- an allocator that reports, and counts ----------------------------------------------------------- */

enum { PLACES = 5, SLOTS = 400 };
static const char *const place_names[PLACES] = {"", "aten::empty", "aten::cat", "forward",
                                                "aten::odd \"name\""};
typedef struct counts {
    int64_t live_bytes, peak_bytes;
    uint64_t allocations, releases, live_blocks;
    struct {
        uint64_t allocations, releases, allocated_bytes, live_bytes, live_blocks;
    } at[PLACES];
} counts;
typedef struct slot {
    void *block;
    int64_t bytes;
    int place;
    bool counted;
} slot;

static void report(const void *block, int64_t bytes)
{
    kineto_memory_event e = {.size = sizeof e,
                             .address = (uint64_t)(uintptr_t)block,
                             .bytes = bytes,
                             .device_index = -1};
    kineto_memory_report(&e);
}

static void take(counts *c, slot *s, int64_t bytes, int place)
{
    *s = (slot){malloc((size_t)bytes + 1), bytes, place, c != NULL};
    report(s->block, bytes);
    if (!c)
        return;
    c->allocations++;
    c->live_blocks++;
    c->live_bytes += bytes;
    c->peak_bytes = KB_MAX(c->peak_bytes, c->live_bytes);
    c->at[place].allocations++;
    c->at[place].allocated_bytes += (uint64_t)bytes;
    c->at[place].live_bytes += (uint64_t)bytes;
    c->at[place].live_blocks++;
}

static void give(counts *c, slot *s)
{
    report(s->block, -s->bytes);
    free(s->block);
    s->block = NULL;
    if (!s->counted)
        return;
    c->releases++;
    c->live_blocks--;
    c->live_bytes -= s->bytes;
    c->at[s->place].releases++;
    c->at[s->place].live_bytes -= (uint64_t)s->bytes;
    c->at[s->place].live_blocks--;
}

/* Takes and gives at random, in operators that nest. */
static void churn(counts *c, slot *slots, uint64_t *seed, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        int place = (int)(next_random(seed) % PLACES);
        kineto_function f, outer;
        kineto_site *site = kineto_function_site(
            place_names[place], NULL, place == 3 ? KINETO_SCOPE_USER_SCOPE : KINETO_SCOPE_FUNCTION);
        kineto_site *around = kineto_function_site("aten::around", NULL, KINETO_SCOPE_FUNCTION);
        f.state = outer.state = 0;
        if (place) {
            kineto_function_begin(&outer, around, NULL, 0);
            kineto_function_begin(&f, site, NULL, 0);
        }
        slot *s = &slots[next_random(seed) % SLOTS];
        if (s->block)
            give(c, s);
        else
            take(c, s, (int64_t)(1 + next_random(seed) % 5000), place);
        kineto_function_end(&f);
        kineto_function_end(&outer);
    }
}

/* ---- what was exported ------------------------------------------------------------------------------ */

static char *exported(void)
{
    static char text[1 << 20];
    char folder[256], path[300];
    assert_non_null(make_directory(folder, sizeof folder));
    (void)snprintf(path, sizeof path, "%s/memory.json", folder);
    kineto_error err = {0};
    if (kineto_memory_profile_export(path, &err))
        fail_msg("not exported: %s", err.message);
    size_t n = read_whole(path, text, sizeof text);
    assert_in_range(n, 1, sizeof text - 2);
    (void)unlink(path);
    (void)rmdir(folder);
    return text;
}

static int64_t number_after(const char *text, const char *key)
{
    char quoted[64];
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(text, quoted);
    if (!at)
        fail_msg("there is no %s in %.400s", key, text);
    return strtoll(at + strlen(quoted), NULL, 10);
}

static void check_places(const counts *c, const char *text)
{
    static const char *const escaped[PLACES] = {"", "aten::empty", "aten::cat", "forward",
                                                "aten::odd \\\"name\\\""};
    const char *places = strstr(text, "\"places\":");
    assert_non_null(places);
    for (int i = 0; i < PLACES; i++) {
        char key[64];
        (void)snprintf(key, sizeof key, "{\"name\":\"%s\",", escaped[i]);
        const char *at = strstr(places, key);
        if (!at && c->at[i].allocations == 0)
            continue;
        assert_non_null(at);
        assert_int_equal(number_after(at, "allocations"), c->at[i].allocations);
        assert_int_equal(number_after(at, "allocated_bytes"), c->at[i].allocated_bytes);
        assert_int_equal(number_after(at, "releases"), c->at[i].releases);
        assert_int_equal(number_after(at, "live_blocks"), c->at[i].live_blocks);
        assert_int_equal(number_after(at, "live_bytes"), c->at[i].live_bytes);
    }
}

/* Each live block is there, with its size and place, and no other. */
static void check_blocks(const counts *c, const char *text, const slot *slots, size_t count)
{
    const char *blocks = strstr(text, "\"live_blocks\":[");
    uint64_t n = 0;
    assert_non_null(blocks);
    for (const char *at = blocks; (at = strstr(at, "{\"address\":")) != NULL; at++)
        n++;
    assert_int_equal(n, c->live_blocks);
    for (size_t i = 0; i < count; i++) {
        char key[96];
        if (!slots[i].block || !slots[i].counted)
            continue;
        (void)snprintf(key, sizeof key, "{\"address\":%llu,\"bytes\":%lld,",
                       (unsigned long long)(uintptr_t)slots[i].block, (long long)slots[i].bytes);
        if (!strstr(blocks, key))
            fail_msg("%s is not there", key);
    }
}

static void check(const counts *c, const char *text, bool in_order)
{
    assert_int_equal(number_after(text, "live_bytes"), c->live_bytes);
    if (in_order)
        assert_int_equal(number_after(text, "peak_bytes"), c->peak_bytes);
    assert_int_equal(number_after(text, "allocations"), c->allocations);
    assert_int_equal(number_after(text, "releases"), c->releases);
    assert_int_equal(number_after(text, "events_lost"), 0);
    check_places(c, text);
}

static void drop_all(counts *c, slot *slots, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slots[i].block)
            give(c, &slots[i]);
}

static void an_export_equals_a_counting_allocator(void **state)
{
    (void)state;
    static slot slots[SLOTS];
    counts c = {0};
    uint64_t seed = 5;
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    churn(&c, slots, &seed, 5000);
    const char *text = exported(); /* as of now */
    check(&c, text, true);
    check_blocks(&c, text, slots, SLOTS);
    churn(&c, slots, &seed, 5000);
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
    text = exported(); /* as of the stop */
    check(&c, text, true);
    check_blocks(&c, text, slots, SLOTS);
    counts at_stop = c;
    drop_all(&c, slots, SLOTS);
    check(&at_stop, exported(), true);
}

static void blocks_of_before_are_counted_apart(void **state)
{
    (void)state;
    static slot before[10], slots[SLOTS];
    counts c = {0};
    int64_t bytes = 0;
    uint64_t seed = 6;
    for (int i = 0; i < 10; i++)
        take(NULL, &before[i], 100 + i, 0);
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    churn(&c, slots, &seed, 500);
    for (int i = 0; i < 7; i++) {
        bytes += before[i].bytes;
        give(&c, &before[i]);
    }
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
    const char *text = exported();
    check(&c, text, true);
    assert_int_equal(number_after(text, "releases_of_earlier_blocks"), 7);
    assert_int_equal(number_after(text, "bytes_of_earlier_blocks"), bytes);
    drop_all(&c, slots, SLOTS);
    drop_all(&c, before, 10);
}

enum { THREADS = 4 };
static counts of_thread[THREADS];
static slot slots_of[THREADS][SLOTS];
static void *churn_alone(void *which)
{
    intptr_t i = (intptr_t)which;
    uint64_t seed = 100 + (uint64_t)i;
    churn(&of_thread[i], slots_of[i], &seed, 2000);
    return NULL;
}

static void threads_add_up(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    counts sum = {0};
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    for (intptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(churn_alone, (void *)i);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
    for (int t = 0; t < THREADS; t++) {
        const counts *c = &of_thread[t];
        sum.live_bytes += c->live_bytes;
        sum.live_blocks += c->live_blocks;
        sum.allocations += c->allocations;
        sum.releases += c->releases;
        for (int i = 0; i < PLACES; i++) {
            sum.at[i].allocations += c->at[i].allocations;
            sum.at[i].releases += c->at[i].releases;
            sum.at[i].allocated_bytes += c->at[i].allocated_bytes;
            sum.at[i].live_bytes += c->at[i].live_bytes;
            sum.at[i].live_blocks += c->at[i].live_blocks;
        }
    }
    const char *text = exported();
    check(&sum, text, false);
    assert_true(number_after(text, "peak_bytes") >= sum.live_bytes);
    check_blocks(&sum, text, slots_of[0], THREADS * SLOTS);
    for (int t = 0; t < THREADS; t++)
        drop_all(&of_thread[t], slots_of[t], SLOTS);
}

/* A profile anew knows nothing of the last one; with a profiler, both see everything. */
static void profiles_begin_anew_and_share(void **state)
{
    (void)state;
    static slot slots[SLOTS];
    kineto_profiler_config p = config_of(KINETO_STATE_KINETO);
    p.profile_memory = true;
    uint64_t seed = 9;
    for (int round = 0; round < 2; round++) {
        counts c = {0};
        assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
        enable_with(&p, ONLY(CPU));
        churn(&c, slots, &seed, 300);
        kineto_profiler_result *r = disabled();
        assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
        check(&c, exported(), true);
        assert_int_equal(events_named(r, "[memory]"), c.allocations + c.releases);
        kineto_profiler_result_release(r);
        drop_all(&c, slots, SLOTS);
    }
}

static void a_release_of_a_wrong_size_and_a_block_taken_twice_do_no_harm(void **state)
{
    (void)state;
    assert_int_equal(kineto_memory_profile_start(NULL), KINETO_OK);
    report((void *)0x100, 64);
    report((void *)0x100, 32); /* the first was never seen to be released */
    report((void *)0x100, -999);
    report((void *)0x100, -32);
    report(NULL, 0);
    report((void *)0x200, INT64_MAX);
    report((void *)0x300, INT64_MAX);
    report((void *)0x300, INT64_MIN);
    assert_int_equal(kineto_memory_profile_stop(NULL), KINETO_OK);
    const char *text = exported();
    assert_int_equal(number_after(text, "releases_of_earlier_blocks"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(an_export_equals_a_counting_allocator),
        ROW(blocks_of_before_are_counted_apart),
        ROW(threads_add_up),
        ROW(profiles_begin_anew_and_share),
        ROW(a_release_of_a_wrong_size_and_a_block_taken_twice_do_no_harm),
    };
    return RUN_TESTS(tests);
}

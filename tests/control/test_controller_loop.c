/* The controller waits, is woken, is used by several threads, and is forked. */
#include "controller_fixture.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SHORT "ACTIVITIES_DURATION_MSECS=5\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"

/* How many there are when there come no more. */
static uint64_t turns_in_the_end(fixture *f)
{
    uint64_t before, turns = 0;
    do {
        before = turns;
        pause_ns(50 * MS);
        turns = kb_load_relaxed(&f->turns);
    } while (turns != before);
    return turns;
}

static void who_has_nothing_to_do_sleeps(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    fixture_turn(f);
    pause_ns(300 * MS);
    assert_int_equal(kb_load_relaxed(&f->turns), 0);
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    uint64_t turns = turns_in_the_end(f);
    assert_true(turns > 0 && turns < 12);
    for (int64_t i = 0; i < 1000; i++)
        ko_controller_step(f->controller, now_ns());
    pause_ns(50 * MS);
    assert_int_equal(kb_load_relaxed(&f->turns), turns);
    fixture_end(f);
}

/* Turns wait for a later time when the request comes. */
static void a_request_of_another_thread_is_in_time(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    fixture_turn(f);
    pause_ns(5 * MS);
    int64_t before_ns = now_ns();
    heard written = wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    assert_true(written.time_ns >= before_ns + 5 * MS);
    assert_int_equal(f->driver.end_ns - f->driver.start_ns, 5 * MS);
    int64_t late_ns = f->driver.at_ns[3] - f->driver.end_ns; /* prepare, arm, started, stop */
    assert_int_equal(f->driver.calls[3], STOP);
    assert_true(late_ns >= 0);
    if (late_ns > 2 * MS)
        print_message("stopped %.3f ms late\n", (double)late_ns / 1e6);
    fixture_end(f);
}

static void a_turn_waits_no_longer_than_it_may(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    uint64_t before_ns = kb_clock_ns(CLOCK_MONOTONIC);
    ko_controller_turn(f->controller, 10 * MS);
    assert_true(kb_clock_ns(CLOCK_MONOTONIC) - before_ns >= (uint64_t)(10 * MS));
    ko_controller_wake(f->controller);
    ko_controller_turn(f->controller, -1);
    ko_controller_turn(f->controller, 0);
    fixture_end(f);
}

/* ---- listeners ----------------------------------------------------------------------------------- */

typedef struct listener {
    ko_listener base;
    uint32_t turns, forked, destroyed;
    uint64_t every_ns;
} listener;

static void listener_turn(ko_listener *l, ko_controller *c, uint64_t monotonic_ns)
{
    listener *own = (listener *)l;
    uint64_t count;
    kb_add_relaxed(&own->turns, 1);
    if (l->fd >= 0 && read(l->fd, &count, sizeof count) > 0)
        (void)ko_controller_request(c, kb_string(SHORT), KO_FROM_ARGUMENT, NULL, NULL);
    if (own->every_ns)
        l->wake_ns = monotonic_ns + own->every_ns;
}

static void listener_forked(ko_listener *l) { ((listener *)l)->forked++; }

static void listener_destroy(ko_listener *l) { ((listener *)l)->destroyed++; }

static listener make_listener(int fd, uint64_t every_ns)
{
    return (listener){.base = {.name = "test",
                               .fd = fd,
                               .events = 1, /* POLLIN */
                               .wake_ns = every_ns ? 0 : UINT64_MAX,
                               .turn = listener_turn,
                               .forked = listener_forked,
                               .destroy = listener_destroy},
                      .every_ns = every_ns};
}

static void listeners_turn_when_ready_or_when_it_is_time(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    listener asks = make_listener(fd, 0), clock = make_listener(-1, (uint64_t)(20 * MS));
    uint64_t one = 1;
    ko_controller_listen(f->controller, &asks.base);
    ko_controller_listen(f->controller, &clock.base);
    int64_t begin_ns = now_ns();
    while (clock.turns < 3)
        ko_controller_turn(f->controller, -1);
    assert_int_equal(asks.turns, 0);
    assert_true(now_ns() - begin_ns >= 39 * MS); /* now, and after 20 ms, twice */
    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
    wait_note(f, 1, KO_STAGE_WRITTEN);
    assert_int_equal(asks.turns, 1);
    fixture_end(f);
    assert_int_equal(asks.destroyed + clock.destroyed, 2);
    assert_int_equal(asks.forked + clock.forked, 0);
    close(fd);
}

/* ---- descriptors that the program takes ----------------------------------------------------------- */

#define MOST_FDS 256

/* Puts something of the program's in place of each that was opened since, as closefrom and open do.
 * By system calls: the thread sanitizer takes it for a race of ours, which is what it is about. */
typedef struct swap {
    bool before[MOST_FDS];
    int taken[MOST_FDS], count;
    int ends[2]; /* of a pair of sockets that have nothing to say */
} swap;

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static fixture *fixture_swapped(swap *s)
{
    s->count = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->ends), 0);
    for (int fd = 0; fd < MOST_FDS; fd++)
        s->before[fd] = is_open(fd);
    return fixture_new();
}

static void take_descriptors(swap *s)
{
    for (int fd = 0; fd < MOST_FDS; fd++)
        if (!s->before[fd] && is_open(fd))
            s->taken[s->count++] = fd;
    assert_true(s->count > 0);
    for (int i = 0; i < s->count; i++)
        (void)syscall(SYS_close, s->taken[i]);
    pause_ns(20 * MS);
    for (int i = 0; i < s->count; i++)
        assert_int_equal(syscall(SYS_dup3, s->ends[i % 2], s->taken[i], 0), s->taken[i]);
}

/* Nothing was written, read or closed. */
static void end_swap(swap *s)
{
    char byte;
    for (int i = 0; i < 2; i++)
        assert_int_equal(recv(s->ends[i], &byte, 1, 0), -1);
    for (int i = 0; i < s->count; i++)
        assert_int_equal(close(s->taken[i]), 0);
    close(s->ends[0]);
    close(s->ends[1]);
}

static void asked_after_its_descriptors_were_taken(bool asleep)
{
    swap s;
    fixture *f = fixture_swapped(&s);
    listener idle = make_listener(s.ends[0], 0);
    ko_controller_listen(f->controller, &idle.base);
    if (asleep) {
        fixture_turn(f);
        pause_ns(20 * MS);
    }
    take_descriptors(&s);
    if (!asleep)
        fixture_turn(f);
    for (int64_t until_ns = now_ns() + HANG_NS; !kb_load_relaxed(&idle.turns); pause_ns(MS))
        assert_true(now_ns() < until_ns); /* its own may have been taken, too */
    assert_true(kb_load_relaxed(&f->turns) < 8);
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    fixture_end(f);
    end_swap(&s);
}

static void a_sleeper_whose_descriptors_are_taken_is_woken_all_the_same(void **state)
{
    (void)state;
    asked_after_its_descriptors_were_taken(true);
}

static void descriptors_taken_between_turns_are_left_alone(void **state)
{
    (void)state;
    asked_after_its_descriptors_were_taken(false);
}

/* A waking thread finds nothing of ours; nor does a child that forgets, or the end. */
static void what_was_taken_is_left_alone_by_the_end(void **state)
{
    (void)state;
    swap s;
    fixture *f = fixture_swapped(&s);
    take_descriptors(&s);
    ko_controller_wake(f->controller);
    pid_t child = fork();
    if (child == 0) {
        ko_controller_forked(f->controller);
        for (int i = 0; i < s.count; i++)
            if (!is_open(s.taken[i]))
                _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fixture_end(f);
    end_swap(&s);
}

/* There is no room for new ones: it looks now and then. */
static void one_that_cannot_open_others_goes_on(void **state)
{
    (void)state;
    swap s;
    struct rlimit old, none;
    fixture *f = fixture_swapped(&s);
    take_descriptors(&s);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    fixture_turn(f);
    pause_ns(20 * MS);
    assert_true(kb_load_relaxed(&f->turns) < 8);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    fixture_end(f);
    end_swap(&s);
}

static void too_many_listeners_are_sent_away(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    listener many[12];
    uint32_t destroyed = 0;
    for (size_t i = 0; i < KB_COUNT(many); i++) {
        many[i] = make_listener(-1, 0);
        ko_controller_listen(f->controller, &many[i].base);
        destroyed += many[i].destroyed;
    }
    assert_true(destroyed > 0);
    fixture_end(f);
    for (size_t i = 0; i < KB_COUNT(many); i++)
        assert_int_equal(many[i].destroyed, 1);
}

/* ---- watchers ------------------------------------------------------------------------------------ */

static void count_note(void *context, const ko_stage_note *note)
{
    (void)note;
    kb_add_relaxed((uint32_t *)context, 1);
}

static void watchers_come_and_go(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    uint32_t counts[16] = {0}, watching = 0;
    for (size_t i = 0; i < KB_COUNT(counts); i++)
        watching += ko_controller_watch(f->controller, count_note, &counts[i]);
    assert_int_equal(watching, 15); /* and the fixture */
    ko_controller_unwatch(f->controller, count_note, &counts[3]);
    assert_true(ko_controller_watch(f->controller, count_note, &counts[15]));
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    assert_int_equal(counts[0], 5);
    assert_int_equal(counts[3], 0);
    assert_int_equal(counts[15], 5);
    fixture_end(f);
}

typedef struct leaving {
    ko_controller *controller;
    uint32_t count;
} leaving;

static void leave(void *context, const ko_stage_note *note)
{
    leaving *l = context;
    (void)note;
    l->count++;
    ko_controller_unwatch(l->controller, leave, l);
}

static void a_watcher_may_leave_while_it_is_notified(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    leaving l = {.controller = f->controller};
    assert_true(ko_controller_watch(f->controller, leave, &l));
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    assert_int_equal(l.count, 1);
    fixture_end(f);
}

typedef struct slow {
    bool hold;      /* atomic */
    uint32_t count; /* atomic */
} slow;

static void hear_slowly(void *context, const ko_stage_note *note)
{
    slow *s = context;
    (void)note;
    kb_add_relaxed(&s->count, 1);
    while (kb_load_acquire(&s->hold))
        pause_ns(MS);
}

static void *ask_nonsense(void *argument)
{
    fixture *f = argument;
    (void)ko_controller_request(f->controller, kb_string("nonsense"), KO_FROM_REQUEST, NULL, NULL);
    return NULL;
}

static void refusals_do_not_pile_up(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    slow s = {.hold = true};
    pthread_t thread;
    assert_true(ko_controller_watch(f->controller, hear_slowly, &s));
    assert_int_equal(pthread_create(&thread, NULL, ask_nonsense, f), 0);
    while (kb_load_acquire(&s.count) == 0)
        pause_ns(MS);
    for (uint32_t i = 0; i < 2000; i++)
        (void)ask_nonsense(f);
    uint64_t ticket = ask(f, SHORT); /* important stages are reported all the same */
    kb_store_release(&s.hold, false);
    pthread_join(thread, NULL);
    for (int64_t until_ns = now_ns() + HANG_NS; status_of(f).traces == 0;) {
        assert_true(now_ns() < until_ns);
        ko_controller_turn(f->controller, MS);
    }
    assert_true(ticket > 2000);
    assert_true(s.count >= 5 && s.count < 1000);
    fixture_end(f);
}

/* ---- forks ----------------------------------------------------------------------------------------- */

static void *hold_lock(void *argument)
{
    (void)ask(argument, SHORT); /* its prepare blocks, with the lock held */
    return NULL;
}

static void a_forks_child_forgets_without_waiting(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    listener l = make_listener(-1, 0);
    pthread_t thread;
    int ended;
    ko_controller_listen(f->controller, &l.base);
    f->driver.block_ns[PREPARE] = 100 * MS;
    assert_int_equal(pthread_create(&thread, NULL, hold_lock, f), 0);
    while (count_calls(&f->driver, PREPARE) == 0)
        pause_ns(MS);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        ko_controller_forked(f->controller);
        _exit(l.forked == 1 && l.destroyed == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    pthread_join(thread, NULL);
    wait_note(f, 1, KO_STAGE_WRITTEN);
    assert_int_equal(l.destroyed, 0);
    fixture_end(f);
}

/* ---- several threads ----------------------------------------------------------------------------- */

#define ROUNDS 400

static void *hammer_requests(void *argument)
{
    fixture *f = argument;
    static const char *const texts[] = {
        "ACTIVITIES_DURATION_MSECS=1\nACTIVITIES_WARMUP_PERIOD_SECS=0\n",
        "ACTIVITIES_ITERATIONS=3\nACTIVITIES_WARMUP_ITERATIONS=2\n",
        "ACTIVITIES_ITERATIONS=1\nPROFILE_START_ITERATION_ROUNDUP=7\n",
        "PROFILE_MEMORY=1\nPROFILE_MEMORY_DURATION_MSECS=1\n",
        "nonsense",
    };
    for (uint32_t i = 0; i < ROUNDS; i++) {
        (void)ko_controller_request(f->controller, kb_string(texts[i % KB_COUNT(texts)]),
                                    KO_FROM_REQUEST, NULL, NULL);
        if (i % 16 == 0)
            (void)ko_controller_dump(f->controller, kb_string(""), KO_FROM_REQUEST, NULL, NULL);
        pause_ns(MS / 5);
    }
    return NULL;
}

static void *hammer_steps(void *argument)
{
    fixture *f = argument;
    for (uint32_t i = 0; i < ROUNDS * 20; i++) {
        ko_controller_step(f->controller, now_ns());
        if (i % 50 == 0)
            pause_ns(MS / 2);
    }
    return NULL;
}

static void *hammer_cancel(void *argument)
{
    fixture *f = argument;
    for (uint32_t i = 0; i < ROUNDS / 4; i++) {
        ko_controller_cancel(f->controller, "a test");
        (void)status_of(f);
        (void)ko_controller_can_accept(f->controller, NULL);
        pause_ns(MS);
    }
    return NULL;
}

static void *hammer_preempt(void *argument)
{
    fixture *f = argument;
    uint32_t heard_notes = 0;
    for (uint32_t i = 0; i < ROUNDS / 8; i++) {
        ko_controller_preempt(f->controller, true);
        ko_controller_watch(f->controller, count_note, &heard_notes);
        ko_controller_preempt(f->controller, false);
        ko_controller_unwatch(f->controller, count_note, &heard_notes);
        pause_ns(2 * MS);
    }
    return NULL;
}

/* The stages of each ticket, as letters. */
typedef struct lives {
    char stages[2 * ROUNDS][8];
} lives;

static void note_life(void *context, const ko_stage_note *note)
{
    lives *l = context;
    if (note->ticket < KB_COUNT(l->stages)) {
        char *s = l->stages[note->ticket];
        size_t n = strlen(s);
        if (n + 1 < sizeof l->stages[0])
            s[n] = "ARWCPwfc"[note->stage];
    }
}

/* Each request ends exactly once, and its stages come in order. */
static void check_lives(const lives *l, uint64_t most)
{
    static const char *const good[] = {"R", "AWCPw", "AWCc", "AWc", "Ac", "ACPw", "ACc", "Aw"};
    uint32_t written = 0;
    for (uint64_t ticket = 1; ticket <= most; ticket++) {
        const char *s = l->stages[ticket];
        bool known = false;
        for (size_t i = 0; i < KB_COUNT(good); i++)
            known = known || strcmp(s, good[i]) == 0;
        if (!known)
            fail_msg("request %u: '%s'", (unsigned)ticket, s);
        written += strchr(s, 'w') != NULL;
    }
    assert_true(written > 0);
}

static void threads_may_do_all_of_it_at_once(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    void *(*const runs[])(void *) = {hammer_requests, hammer_steps, hammer_steps, hammer_cancel,
                                     hammer_preempt};
    pthread_t threads[KB_COUNT(runs)];
    lives *l = calloc(1, sizeof *l);
    uint64_t last;
    assert_non_null(l);
    assert_true(ko_controller_watch(f->controller, note_life, l));
    fixture_turn(f);
    for (size_t i = 0; i < KB_COUNT(runs); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, runs[i], f), 0);
    for (size_t i = 0; i < KB_COUNT(runs); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(status_of(f).iteration, 2 * ROUNDS * 20 - 1);
    fixture_stop(f);
    (void)ko_controller_request(f->controller, kb_string("nonsense"), KO_FROM_REQUEST, &last, NULL);
    fixture_end(f);
    check_lives(l, last);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_has_nothing_to_do_sleeps),
        cmocka_unit_test(a_request_of_another_thread_is_in_time),
        cmocka_unit_test(a_turn_waits_no_longer_than_it_may),
        cmocka_unit_test(listeners_turn_when_ready_or_when_it_is_time),
        cmocka_unit_test(a_sleeper_whose_descriptors_are_taken_is_woken_all_the_same),
        cmocka_unit_test(descriptors_taken_between_turns_are_left_alone),
        cmocka_unit_test(what_was_taken_is_left_alone_by_the_end),
        cmocka_unit_test(one_that_cannot_open_others_goes_on),
        cmocka_unit_test(too_many_listeners_are_sent_away),
        cmocka_unit_test(watchers_come_and_go),
        cmocka_unit_test(a_watcher_may_leave_while_it_is_notified),
        cmocka_unit_test(refusals_do_not_pile_up),
        cmocka_unit_test(a_forks_child_forgets_without_waiting),
        cmocka_unit_test(threads_may_do_all_of_it_at_once),
    };
    return cmocka_run_group_tests_name("controller: threads", tests, NULL, NULL);
}

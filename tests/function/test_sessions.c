/* Operators with several sessions that want different things, with threads that join and leave,
 * across forks, under `ckineto record`, and with a plug-in that is notified which operator launches
 * what. */
#include "unit/unit.h"

#include "helpers/recording.h"

#include "base/base.h"

#include "function.h"
#include "helpers/plugins.h"

KINETO_OPERATOR(op_site, "test::op");
KINETO_OPERATOR(second_site, "test::second");
KINETO_FUNCTION_SITE(user_site, KINETO_SCOPE_USER_SCOPE, "user");
KINETO_FUNCTION_SITE(backward_site, KINETO_SCOPE_BACKWARD_FUNCTION, "backward");

static kineto_session *wanting(uint32_t what, uint32_t scopes, uint32_t threads)
{
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.buffer_bytes = 1u << 20;
    o.operators = what;
    o.scopes = scopes;
    o.threads = threads;
    return session_with(&o);
}

static const int64_t two_three[] = {2, 3};
static const kineto_tensor matrix = {.sizes = two_three, .rank = 2, .id = 5, .dtype = 6};

static void run_with_inputs(kineto_site *site)
{
    kineto_input in[] = {kineto_input_tensor(&matrix), kineto_input_int(4)};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = in;
    info.input_count = 2;
    info.stack = "frame;";
    run_info(site, &info);
}

/* ---- several at once --------------------------------------------------------------------------- */

static void each_session_has_what_it_wants_and_no_more(void **state)
{
    (void)state;
    /* one with each combination of INPUTS, VALUES, IDS, NO_TEXTS: sixteen at a time */
    kineto_session *s[16];
    for (uint32_t i = 0; i < 16; i++)
        s[i] = wanting((i & 7) | (i & 8 ? KINETO_OPERATORS_NO_TEXTS : 0), 0, 0);
    run_with_inputs(&op_site);
    for (uint32_t i = 0; i < 16; i++) {
        kineto_trace *t = finish(s[i]);
        kineto_row r = find_only(t, "test::op").row;
        bool inputs = i & 1, values = inputs && (i & 2), ids = inputs && (i & 4);
        expect_inputs(t, r, inputs ? "[[2,3],[]]" : NULL, inputs ? "[[3,1],[]]" : NULL,
                      inputs ? "[\"float\",\"Scalar\"]" : NULL, values ? "[\"\",\"4\"]" : NULL);
        assert_int_equal(has_arg(t, r, "Input Tensors"), ids);
        if (!(i & 8))
            expect_text(t, r, "Call stack", "frame;");
        else if (!inputs)
            expect_no_arg(t, r, "Call stack");
        assert_nothing_lost(t);
        kineto_trace_release(t);
        run_with_inputs(&second_site); /* in the sessions that go on */
    }
}

static void scopes_of_one_session_are_not_those_of_another(void **state)
{
    (void)state;
    kineto_session *all = wanting(0, 0, 0), *users = wanting(0, 1u << KINETO_SCOPE_USER_SCOPE, 0),
                   *backward = wanting(0, 1u << KINETO_SCOPE_BACKWARD_FUNCTION, 0);
    run(&op_site, NULL, 0);
    run(&user_site, NULL, 0);
    run(&backward_site, NULL, 0);
    kineto_trace *t = finish(all), *u = finish(users), *b = finish(backward);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_int_equal(kineto_trace_count(u), 1);
    assert_text(row_at(u, 0).name, "user");
    assert_int_equal(kineto_trace_count(b), 1);
    assert_text(row_at(b, 0).name, "backward");
    kineto_trace_release(t);
    kineto_trace_release(u);
    kineto_trace_release(b);
}

static void a_scope_without_its_kind_is_not_recorded(void **state)
{
    (void)state;
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.kinds = KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION);
    kineto_session *s = session_with(&o);
    run(&op_site, NULL, 0);
    run(&user_site, NULL, 0);
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), 1);
    kineto_trace_release(t);
}

static void an_operator_that_runs_when_a_session_starts_and_stops_is_cut(void **state)
{
    (void)state;
    kineto_function outer, inner;
    kineto_session *whole = wanting(ALL_INPUTS, 0, 0);
    kineto_input in = kineto_input_tensor(&matrix);
    kineto_function_begin(&outer, &op_site, &in, 1);
    kineto_session *part = wanting(ALL_INPUTS, 0, 0);
    kineto_function_begin(&inner, &second_site, &in, 1);
    kineto_trace *p = finish(part);
    kineto_function_end(&inner);
    kineto_function_end(&outer);
    kineto_trace *w = finish(whole);
    verify(p);
    verify(w);
    assert_int_equal(find_only(p, "test::op").flags & 3u,
                     KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END);
    assert_int_equal(find_only(p, "test::second").flags & 3u, KINETO_ACTIVITY_OPEN_END);
    expect_text(p, find_only(p, "test::second").row, "Input Dims", "[[2,3]]");
    assert_int_equal(find_only(w, "test::op").flags & 3u, 0);
    assert_int_equal(find_only(w, "test::second").flags & 3u, 0);
    kineto_trace_release(p);
    kineto_trace_release(w);
}

static void what_happens_in_a_pause_is_not_in_the_trace(void **state)
{
    (void)state;
    kineto_session *s = wanting(0, 0, 0);
    run(&op_site, NULL, 0);
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    run(&second_site, NULL, 0);
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    run(&op_site, NULL, 0);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "test::op"), 2);
    assert_int_equal(count_named(t, "test::second"), 0);
    kineto_trace_release(t);
}

/* ---- joining and leaving ----------------------------------------------------------------------- */

/* A thread that does one thing after the other, as commanded. */
typedef struct worker {
    pthread_t thread;
    pthread_barrier_t turn;
    void (*todo)(struct worker *w); /* NULL: end */
    kineto_session *session;
    kineto_status status;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    for (;;) {
        pthread_barrier_wait(&w->turn);
        if (!w->todo)
            return NULL;
        w->todo(w);
        pthread_barrier_wait(&w->turn);
    }
}

static void begin_worker(worker *w)
{
    memset(w, 0, sizeof *w);
    pthread_barrier_init(&w->turn, NULL, 2);
    w->thread = start_thread(work, w);
}

static kineto_status tell(worker *w, void (*todo)(worker *), kineto_session *session)
{
    w->todo = todo;
    w->session = session;
    pthread_barrier_wait(&w->turn);
    if (todo)
        pthread_barrier_wait(&w->turn);
    return w->status;
}

static void end_worker(worker *w)
{
    (void)tell(w, NULL, NULL);
    pthread_join(w->thread, NULL);
    pthread_barrier_destroy(&w->turn);
}

static void w_run(worker *w)
{
    (void)w;
    run(&second_site, NULL, 0);
}
static void w_join(worker *w) { w->status = kineto_session_join(w->session, NULL); }
static void w_leave(worker *w) { w->status = kineto_session_leave(w->session, NULL); }

static void threads_are_in_a_session_from_join_to_leave(void **state)
{
    (void)state;
    worker w;
    begin_worker(&w);
    kineto_session *all = wanting(0, 0, 0), *s = wanting(0, 0, KINETO_THREADS_CALLER);
    assert_int_equal(kineto_session_join(s, NULL), KINETO_E_STATE); /* it is in it */
    assert_int_equal(kineto_session_join(all, NULL), KINETO_E_STATE);
    (void)tell(&w, w_run, NULL); /* not in it */
    assert_int_equal(tell(&w, w_leave, s), KINETO_E_STATE);
    assert_int_equal(tell(&w, w_join, s), KINETO_OK);
    assert_int_equal(tell(&w, w_join, s), KINETO_E_STATE);
    (void)tell(&w, w_run, NULL);
    (void)tell(&w, w_run, NULL);
    assert_int_equal(tell(&w, w_leave, s), KINETO_OK);
    (void)tell(&w, w_run, NULL); /* no more */
    assert_int_equal(tell(&w, w_join, s), KINETO_OK);
    (void)tell(&w, w_run, NULL);
    run(&op_site, NULL, 0);
    assert_int_equal(kineto_session_leave(s, NULL), KINETO_OK);
    run(&op_site, NULL, 0); /* the starter left */
    kineto_trace *t = finish(s), *u = finish(all);
    assert_int_equal(count_named(t, "test::second"), 3);
    assert_int_equal(count_named(t, "test::op"), 1);
    assert_int_equal(count_named(u, "test::second"), 5);
    assert_int_equal(count_named(u, "test::op"), 2);
    kineto_trace_release(t);
    kineto_trace_release(u);
    end_worker(&w);
}

static void who_was_in_one_session_is_not_in_the_next(void **state)
{
    (void)state;
    worker w;
    begin_worker(&w);
    for (int round = 0; round < 40; round++) { /* more than there are windows */
        kineto_session *s = wanting(0, 0, KINETO_THREADS_CALLER);
        (void)tell(&w, w_run, NULL);
        if (round % 2) {
            assert_int_equal(tell(&w, w_leave, s), KINETO_E_STATE);
            assert_int_equal(tell(&w, w_join, s), KINETO_OK);
            (void)tell(&w, w_run, NULL);
        }
        kineto_trace *t = finish(s);
        assert_int_equal(count_named(t, "test::second"), round % 2);
        kineto_trace_release(t);
    }
    end_worker(&w);
}

static void two_sessions_of_callers_keep_their_threads_apart(void **state)
{
    (void)state;
    worker w, v;
    begin_worker(&w);
    begin_worker(&v);
    kineto_session *a = wanting(0, 0, KINETO_THREADS_CALLER),
                   *b = wanting(ALL_INPUTS, 0, KINETO_THREADS_CALLER);
    assert_int_equal(tell(&w, w_join, a), KINETO_OK);
    assert_int_equal(tell(&v, w_join, b), KINETO_OK);
    (void)tell(&w, w_run, NULL);
    (void)tell(&v, w_run, NULL);
    (void)tell(&v, w_run, NULL);
    kineto_trace *t = finish(a);
    (void)tell(&w, w_run, NULL);
    (void)tell(&v, w_run, NULL);
    kineto_trace *u = finish(b);
    assert_int_equal(count_named(t, "test::second"), 1);
    assert_int_equal(count_named(u, "test::second"), 3);
    kineto_trace_release(t);
    kineto_trace_release(u);
    end_worker(&w);
    end_worker(&v);
}

static void *join_and_run(void *argument)
{
    (void)kineto_session_join(argument, NULL);
    run(&second_site, NULL, 0);
    return NULL; /* a thread that ends has left */
}

static void many_threads_join_and_end(void **state)
{
    (void)state;
    kineto_session *s = wanting(0, 0, KINETO_THREADS_CALLER);
    for (int i = 0; i < 100; i++)
        pthread_join(start_thread(join_and_run, s), NULL);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "test::second"), 100);
    kineto_trace_release(t);
    assert_int_equal(kineto_session_join(NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_session_leave(NULL, NULL), KINETO_E_ARGUMENT);
}

/* ---- forward and backward ---------------------------------------------------------------------- */

static void node(kineto_site *site, int64_t sequence, uint64_t forward_thread)
{
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.sequence_number = sequence;
    info.forward_thread_id = forward_thread;
    run_info(site, &info);
}

static uint64_t main_number;

static void *run_backward(void *argument)
{
    (void)argument;
    for (int64_t i = 9; i >= 0; i--)
        node(&backward_site, i, main_number);
    node(&backward_site, 3, main_number);     /* a second one of the same: no link */
    node(&backward_site, 77, main_number);    /* of nothing */
    node(&backward_site, 5, main_number + 1); /* of another thread */
    return NULL;
}

static void each_backward_operator_is_linked_to_its_forward_one(void **state)
{
    (void)state;
    kineto_session *s = wanting(0, 0, 0);
    main_number = kineto_function_thread_id();
    for (int64_t i = 0; i < 10;
         i++) { /* one inside has the same number: the later start is meant */
        kineto_function_info info;
        kineto_function_info_init(&info);
        kineto_function f;
        info.sequence_number = i;
        kineto_function_begin_info(&f, &op_site, &info);
        if (i % 2)
            node(&second_site, i, 0);
        kineto_function_end(&f);
    }
    pthread_join(start_thread(run_backward, NULL), NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_flow_count(t), 10);
    bool seen[10] = {false};
    for (uint64_t i = 0; i < 10; i++) {
        kineto_flow flow;
        kineto_trace_flow(t, i, &flow);
        assert_int_equal(flow.type, KINETO_FLOW_FWD_BWD);
        assert_true(flow.id >= 1);
        kineto_activity from = row_at(t, flow.from), to = row_at(t, flow.to);
        int64_t sequence = arg_of(t, flow.from, "Sequence number").i;
        assert_int_equal(arg_of(t, flow.to, "Sequence number").i, sequence);
        assert_text(to.name, "backward");
        assert_text(from.name, sequence % 2 ? "test::second" : "test::op");
        expect_int(t, flow.to, "Fwd thread id", main_number);
        expect_int(t, flow.from, "Fwd thread id", 0);
        assert_true(from.track != to.track);
        assert_false(seen[sequence]);
        seen[sequence] = true;
    }
    kineto_trace_release(t);
}

/* ---- ids ------------------------------------------------------------------------------------------ */

enum { ID_THREADS = 6, ID_EACH = 3000 };

static void *run_many(void *argument)
{
    (void)argument;
    for (int i = 0; i < ID_EACH; i++)
        run(&op_site, NULL, 0);
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void ids_differ_over_threads_and_processes_and_sessions(void **state)
{
    (void)state;
    enum { ROUNDS = 2, PER_ROUND = (ID_THREADS + 2) * ID_EACH };
    static uint64_t ids[ROUNDS * PER_ROUND];
    uint64_t n = 0;
    for (int round = 0; round < ROUNDS; round++) {
        kineto_session_options o;
        kineto_session_options_init(&o);
        o.buffer_bytes = 8u << 20;
        kineto_session *s = session_with(&o);
        pid_t pid = fork();
        if (pid == 0) {
            (void)run_many(NULL);
            _exit(0);
        }
        (void)run_many(NULL);
        pthread_t threads[ID_THREADS];
        for (int i = 0; i < ID_THREADS; i++)
            threads[i] = start_thread(run_many, NULL);
        for (int i = 0; i < ID_THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_exit(pid, 0);
        kineto_trace *t = finish(s);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), PER_ROUND);
        for (kineto_row r = 0; r < PER_ROUND; r++)
            ids[n++] = row_at(t, r).external_id;
        kineto_trace_release(t);
    }
    qsort(ids, n, sizeof *ids, compare_ids);
    for (uint64_t i = 0; i < n; i++)
        assert_true(ids[i] != 0 && (i == 0 || ids[i] != ids[i - 1]));
}

static void *number_of_thread(void *argument)
{
    *(uint64_t *)argument = kineto_function_thread_id();
    return NULL;
}

static void threads_have_numbers_that_are_never_used_again(void **state)
{
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t number = 0;
        pthread_join(start_thread(number_of_thread, &number), NULL);
        assert_true(number > last);
        last = number;
    }
    assert_int_equal(kineto_function_thread_id(), kineto_function_thread_id());
}

/* ---- plug-ins ------------------------------------------------------------------------------------- */

static uint64_t id_of_begin(kineto_function *f, kineto_site *site)
{
    kineto_function_begin(f, site, NULL, 0);
    return kineto_function_id(f);
}

static void a_plug_in_hears_the_ids_that_the_trace_has(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listener", LISTENS | LISTENS_USER);
    kineto_session *s = record();
    kineto_function a, b, c;
    char expected[128];
    uint64_t x = id_of_begin(&a, &op_site), y = id_of_begin(&b, &user_site),
             z = id_of_begin(&c, &second_site);
    kineto_function_end(&c);
    kineto_function_end(&b);
    kineto_function_end(&a);
    kineto_trace *t = finish(s);
    snprintf(expected, sizeof expected, "%llu u%llu %llu . u. . ", (unsigned long long)x,
             (unsigned long long)y, (unsigned long long)z);
    assert_string_equal(f->heard, expected);
    assert_int_equal(find_only(t, "test::op").external_id, x);
    assert_int_equal(find_only(t, "user").external_id, y);
    assert_int_equal(find_only(t, "test::second").external_id, z);
    kineto_trace_release(t);
    leave(0);
}

static void pushes_and_pops_are_paired_when_sessions_come_and_go(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listener", LISTENS | LISTENS_USER);
    kineto_function a, b, c;
    kineto_function_begin(&a, &op_site, NULL, 0); /* before: never pushed, never popped */
    kineto_session *s = record();
    uint64_t y = id_of_begin(&b, &second_site);
    kineto_function_end(&b);
    kineto_function_end(&a);
    assert_int_equal(f->pushes, 1);
    assert_int_equal(f->pops, 1);
    assert_true(y != 0);
    kineto_function_begin(&c, &op_site, NULL, 0);
    kineto_trace_release(finish(s));
    uint64_t pushes = f->pushes, pops = f->pops;
    assert_int_equal(pushes, 2);
    s = record(); /* another session: does not hear pops of the one before */
    kineto_function_end(&c);
    assert_int_equal(f->pops, pops);
    run(&op_site, NULL, 0);
    kineto_trace_release(finish(s));
    assert_int_equal(f->pushes, pushes + 1);
    assert_int_equal(f->pops, pops + 1);
    leave(0);
}

static void asynchronous_operators_are_not_pushed(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listener", LISTENS | LISTENS_USER);
    kineto_session *s = record();
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.is_async = true;
    kineto_function a, b;
    kineto_function_begin_info(&a, &op_site, &info);
    kineto_function_begin(&b, &second_site, NULL, 0);
    kineto_function_end(&a);
    kineto_function_end(&b);
    kineto_trace *t = finish(s);
    assert_int_equal(f->pushes, f->pops);
    assert_true(f->pushes <= 2);
    assert_int_equal(find_only(t, "test::op").form, KINETO_FORM_ASYNC);
    kineto_trace_release(t);
    leave(0);
}

static void who_wants_no_correlation_has_none_unless_another_does(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listener", LISTENS);
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.operators = KINETO_OPERATORS_NO_CORRELATION;
    kineto_session *s = session_with(&o);
    run(&op_site, NULL, 0);
    assert_int_equal(f->pushes + f->pops, 0);
    kineto_session *other = record();
    run(&op_site, NULL, 0);
    assert_int_equal(f->pushes, 1);
    assert_int_equal(f->pops, 1);
    kineto_trace_release(finish(other));
    run(&op_site, NULL, 0);
    assert_int_equal(f->pushes, 1);
    kineto_trace_release(finish(s));
    leave(0);
}

/* Threads with operators in operators; each pop is of the thread's last push. */
static __thread uint64_t open_ids[64];
static __thread int open_count;
static uint32_t wrong, quit;

static void note_push(fake *f, uint64_t id)
{
    (void)f;
    if (open_count < 64)
        open_ids[open_count] = id;
    open_count++;
}
static void note_pop(fake *f)
{
    (void)f;
    if (--open_count < 0)
        kb_store_relaxed(&wrong, 1u);
}

static void *nest(void *argument)
{
    uint64_t random = (uint64_t)(uintptr_t)argument;
    while (!kb_load_relaxed(&quit)) {
        kineto_function f[8];
        int deep = 1 + (int)(next_random(&random) % 8);
        open_count = 0;
        for (int i = 0; i < deep; i++) {
            kineto_function_begin(&f[i], i % 2 ? &op_site : &second_site, NULL, 0);
            if (open_count > 0 && open_ids[open_count - 1] != kineto_function_id(&f[i]) &&
                open_count == i + 1)
                kb_store_relaxed(&wrong, 2u);
        }
        for (int i = deep; i-- > 0;)
            kineto_function_end(&f[i]);
    }
    return NULL;
}

static void pairs_hold_on_many_threads_while_sessions_come_and_go(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listener", LISTENS);
    pthread_t threads[6];
    f->at_push = note_push;
    f->at_pop = note_pop;
    for (int i = 0; i < 6; i++)
        threads[i] = start_thread(nest, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < FEWER(100, 40); i++) {
        kineto_session *s = wanting(0, 0, 0);
        usleep(100);
        kineto_trace_release(finish(s));
    }
    kb_store_relaxed(&quit, 1u);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_true(kb_load_relaxed(&f->pops) <= kb_load_relaxed(&f->pushes));
    leave(0);
}

/* ---- under `ckineto record` ------------------------------------------------------------------------ */

/* What is recorded: a session of its own, and operators before and after. */
static int be_recorded(const char *own_path)
{
    kineto_trace *t = NULL;
    run_with_inputs(&op_site);
    kineto_session *s = wanting(ALL_INPUTS, 0, 0);
    run_with_inputs(&second_site);
    if (end_session(s, &t, NULL) || kineto_trace_save(t, own_path, NULL))
        return 3;
    kineto_trace_release(t);
    run_with_inputs(&user_site);
    return 0;
}

static void a_recorded_program_may_record_itself(void **state)
{
    const char *self = *state;
    char directory[256], outer[300], own[300], line[2000];
    if (access(COMMAND, X_OK)) {
        print_message("the command was not built\n");
        skip();
    }
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(outer, sizeof outer, "%s/outer.json", directory);
    snprintf(own, sizeof own, "%s/own.json", directory);
    snprintf(line, sizeof line, "%s record -o %s -- %s --recorded %s > /dev/null 2> %s/log",
             COMMAND, outer, self, own, directory);
    assert_int_equal(system(line), 0);
    kineto_trace *t = NULL, *u = NULL;
    assert_int_equal(kineto_trace_open(outer, &t, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_open(own, &u, NULL), KINETO_OK);
    assert_int_equal(count_named(t, "test::op"), 1);
    assert_int_equal(count_named(t, "test::second"), 1);
    assert_int_equal(count_named(t, "user"), 1);
    assert_int_equal(count_named(u, "test::op") + count_named(u, "user"), 0);
    kineto_row r = find_only(u, "test::second").row;
    expect_text(u, r, "Input Dims", "[[2,3],[]]");
    assert_int_equal(find_only(u, "test::second").external_id,
                     find_only(t, "test::second").external_id);
    expect_text(t, find_only(t, "test::op").row, "Call stack", "frame;");
    kineto_trace_release(t);
    kineto_trace_release(u);
    snprintf(line, sizeof line, "rm -r %s", directory);
    assert_int_equal(system(line), 0);
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "--recorded") == 0)
        return be_recorded(arguments[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_session_has_what_it_wants_and_no_more),
        cmocka_unit_test(scopes_of_one_session_are_not_those_of_another),
        cmocka_unit_test(a_scope_without_its_kind_is_not_recorded),
        cmocka_unit_test(an_operator_that_runs_when_a_session_starts_and_stops_is_cut),
        cmocka_unit_test(what_happens_in_a_pause_is_not_in_the_trace),
        cmocka_unit_test(threads_are_in_a_session_from_join_to_leave),
        cmocka_unit_test(who_was_in_one_session_is_not_in_the_next),
        cmocka_unit_test(two_sessions_of_callers_keep_their_threads_apart),
        cmocka_unit_test(many_threads_join_and_end),
        cmocka_unit_test(each_backward_operator_is_linked_to_its_forward_one),
        cmocka_unit_test(ids_differ_over_threads_and_processes_and_sessions),
        cmocka_unit_test(threads_have_numbers_that_are_never_used_again),
        cmocka_unit_test(a_plug_in_hears_the_ids_that_the_trace_has),
        cmocka_unit_test(pushes_and_pops_are_paired_when_sessions_come_and_go),
        cmocka_unit_test(asynchronous_operators_are_not_pushed),
        cmocka_unit_test(who_wants_no_correlation_has_none_unless_another_does),
        cmocka_unit_test(pairs_hold_on_many_threads_while_sessions_come_and_go),
        cmocka_unit_test_prestate(a_recorded_program_may_record_itself, arguments[0]),
    };
    return RUN_TESTS(tests);
}

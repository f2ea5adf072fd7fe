/* Callbacks around operators: who is called when, with what, and never again once removed. */
#include "unit/unit.h"

#include "helpers/recording.h"

#include "function.h"

#include <math.h>

KINETO_OPERATOR(op_site, "test::op");
KINETO_OPERATOR(inner_site, "test::inner");
KINETO_FUNCTION_SITE(user_site, KINETO_SCOPE_USER_SCOPE, "user");

/* ---- what was called ------------------------------------------------------------------------- */

static char said[4096];

static void say(const char *what, const char *who)
{
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s%s ", what, who);
}

/* A callback with a name: "+a" at enter, "-a" at exit. Its context is its own address. */
typedef struct witness {
    const char *name;
    kineto_callback handle;
    uint64_t enters, exits;
    kineto_function_view at_enter, at_exit;
    char name_at_exit[64];
    void (*in_enter)(struct witness *w), (*in_exit)(struct witness *w);
} witness;

static void *on_enter(const kineto_function_view *f, void *user)
{
    witness *w = user;
    assert_true(f->size >= sizeof *f);
    w->enters++;
    w->at_enter = *f;
    say("+", w->name);
    if (w->in_enter)
        w->in_enter(w);
    return (char *)user + 1;
}

static void on_exit_of(const kineto_function_view *f, void *context, void *user)
{
    witness *w = user;
    assert_ptr_equal(context, (char *)user + 1);
    w->exits++;
    w->at_exit = *f;
    snprintf(w->name_at_exit, sizeof w->name_at_exit, "%s", f->name);
    say("-", w->name);
    if (w->in_exit)
        w->in_exit(w);
}

static kineto_function_callback callback_of(witness *w)
{
    kineto_function_callback c;
    kineto_function_callback_init(&c);
    c.enter = on_enter;
    c.exit = on_exit_of;
    c.user = w;
    return c;
}

static witness named(const char *name) { return (witness){.name = name}; }

static void add_global(witness *w)
{
    kineto_function_callback c = callback_of(w);
    assert_int_equal(kineto_function_add_global(&c, &w->handle, NULL), KINETO_OK);
    assert_true(w->handle != 0);
}

static void add_local(witness *w)
{
    kineto_function_callback c = callback_of(w);
    assert_int_equal(kineto_function_add_local(&c, &w->handle, NULL), KINETO_OK);
}

#define assert_said(text)                                                                          \
    do {                                                                                           \
        assert_string_equal(said, (text));                                                         \
        said[0] = '\0';                                                                            \
    } while (0)

static int nothing_left(void **state)
{
    (void)state;
    kineto_function_clear();
    (void)kineto_function_enable(true);
    said[0] = '\0';
    return 0;
}

/* ---- order, handles, clearing ---------------------------------------------------------------- */

static void those_of_all_threads_come_before_the_threads_own(void **state)
{
    (void)state;
    witness a = named("a"), b = named("b"), l = named("l");
    add_local(&l);
    add_global(&a);
    add_global(&b);
    run(&op_site, NULL, 0);
    assert_true(strncmp(said, "+a +b +l ", 9) == 0);
    assert_non_null(strstr(said, "-a"));
    assert_non_null(strstr(said, "-b"));
    assert_non_null(strstr(said, "-l"));
    assert_int_equal(strlen(said), 18);
    assert_int_equal(a.at_enter.scope, KINETO_SCOPE_FUNCTION);
    assert_string_equal(a.at_enter.name, "test::op");
    assert_string_equal(a.at_enter.overload, "");
    assert_int_equal(a.at_enter.sequence_number, -1);
    assert_int_equal(a.at_enter.debug_handle, -1);
    assert_int_equal(a.at_enter.thread_id, kineto_function_thread_id());
}

static void handles_are_never_used_again(void **state)
{
    (void)state;
    kineto_callback last = 0;
    for (int i = 0; i < 200; i++) {
        witness w = named("w");
        if (i % 2)
            add_global(&w);
        else
            add_local(&w);
        assert_true(w.handle > last);
        last = w.handle;
        assert_int_equal(kineto_function_remove(w.handle), KINETO_OK);
        assert_int_equal(kineto_function_remove(w.handle), KINETO_E_NOT_FOUND);
    }
    assert_int_equal(kineto_function_remove(0), KINETO_E_NOT_FOUND);
    assert_int_equal(kineto_function_remove(last + 1), KINETO_E_NOT_FOUND);
    assert_int_equal(kineto_function_disable(last), KINETO_E_NOT_FOUND);
    assert_int_equal(kineto_function_reenable(last), KINETO_E_NOT_FOUND);
    run(&op_site, NULL, 0);
    assert_said("");
}

static void a_callback_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    witness w = named("w");
    kineto_callback handle = 7;
    const double wrong[] = {-0.001, 1.001, -1e300, INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        kineto_error err = {0};
        kineto_function_callback bad = callback_of(&w);
        bad.probability = wrong[i];
        handle = 7;
        assert_int_equal(kineto_function_add_global(&bad, &handle, &err), KINETO_E_ARGUMENT);
        assert_int_equal(handle, 0);
        assert_true(err.message[0] != '\0');
    }
    kineto_function_callback c = callback_of(&w);
    c.scopes = 1u << KINETO_NUM_SCOPES;
    assert_int_equal(kineto_function_add_local(&c, &handle, NULL), KINETO_E_ARGUMENT);
    c = callback_of(&w);
    c.enter = NULL;
    c.exit = NULL;
    assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_function_add_global(NULL, &handle, NULL), KINETO_E_ARGUMENT);
    assert_false(kineto_function_has_callbacks());
}

static void thirty_two_fit_and_the_next_is_refused(void **state)
{
    (void)state;
    witness w[33];
    for (int local = 0; local < 2; local++) {
        for (int i = 0; i < 32; i++) {
            w[i] = named("");
            if (local)
                add_local(&w[i]);
            else
                add_global(&w[i]);
        }
        w[32] = named("");
        kineto_function_callback c = callback_of(&w[32]);
        kineto_error err = {0};
        kineto_status status = local ? kineto_function_add_local(&c, NULL, &err)
                                     : kineto_function_add_global(&c, NULL, &err);
        assert_int_equal(status, KINETO_E_LIMIT);
        assert_int_equal(err.code, KINETO_E_LIMIT);
        said[0] = '\0';
        run(&op_site, NULL, 0);
        for (int i = 0; i < 32; i++)
            assert_true(w[i].enters == 1 && w[i].exits == 1);
        assert_int_equal(kineto_function_remove(w[5].handle), KINETO_OK);
        if (local)
            add_local(&w[32]);
        else
            add_global(&w[32]);
        kineto_function_clear();
    }
}

static void there_are_some_and_then_there_are_none(void **state)
{
    (void)state;
    witness a = named("a"), l = named("l");
    assert_false(kineto_function_has_global() || kineto_function_has_local());
    add_global(&a);
    assert_true(kineto_function_has_global() && !kineto_function_has_local());
    add_local(&l);
    assert_true(kineto_function_has_local() && kineto_function_has_callbacks());
    assert_int_equal(kineto_function_disable(a.handle), KINETO_OK);
    assert_int_equal(kineto_function_disable(a.handle), KINETO_OK);
    assert_false(kineto_function_has_global());
    run(&op_site, NULL, 0);
    assert_said("+l -l ");
    assert_int_equal(kineto_function_reenable(a.handle), KINETO_OK);
    assert_int_equal(kineto_function_disable(l.handle), KINETO_OK);
    run(&op_site, NULL, 0);
    assert_said("+a -a ");
    kineto_function_clear_global();
    assert_false(kineto_function_has_callbacks());
    assert_int_equal(kineto_function_reenable(l.handle), KINETO_OK);
    run(&op_site, NULL, 0);
    assert_said("+l -l ");
    kineto_function_clear_local();
    run(&op_site, NULL, 0);
    assert_said("");
}

static void exit_without_enter(const kineto_function_view *f, void *context, void *user)
{
    assert_string_equal(f->name, "test::op");
    assert_null(context);
    ((witness *)user)->exits++;
}

static void one_of_the_two_functions_is_enough(void **state)
{
    (void)state;
    witness e = named("e"), x = named("x");
    kineto_function_callback c = callback_of(&e);
    c.exit = NULL;
    assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
    run(&op_site, NULL, 0);
    assert_said("+e ");
    kineto_function_clear();
    c = callback_of(&x);
    c.enter = NULL;
    c.exit = exit_without_enter;
    assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
    run(&op_site, NULL, 0);
    assert_int_equal(x.exits, 1);
}

/* ---- scopes, sampling, steps ----------------------------------------------------------------- */

static void each_is_shown_the_scopes_it_asked_for(void **state)
{
    (void)state;
    witness w[KINETO_NUM_SCOPES], all = named("all");
    for (int i = 0; i < KINETO_NUM_SCOPES; i++) {
        w[i] = named("");
        kineto_function_callback c = callback_of(&w[i]);
        c.scopes = 1u << i | 1u << KINETO_SCOPE_USER_SCOPE;
        assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
    }
    add_local(&all);
    for (int i = 0; i < KINETO_NUM_SCOPES; i++)
        run(kineto_function_site("of a scope", NULL, (kineto_scope)i), NULL, 0);
    for (int i = 0; i < KINETO_NUM_SCOPES; i++)
        assert_int_equal(w[i].enters, i == KINETO_SCOPE_USER_SCOPE ? 1 : 2);
    assert_int_equal(all.enters, KINETO_NUM_SCOPES);
    assert_int_equal(all.exits, KINETO_NUM_SCOPES);
}

static void about_as_many_are_shown_as_the_probability_says(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    static const double p[] = {0, 0.001, 0.1, 0.5, 0.99, 1};
    witness w[COUNT_OF(p)];
    kineto_function_seed(12345);
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        w[i] = named("");
        kineto_function_callback c = callback_of(&w[i]);
        c.probability = p[i];
        assert_int_equal(i % 2 ? kineto_function_add_global(&c, NULL, NULL)
                               : kineto_function_add_local(&c, NULL, NULL),
                         KINETO_OK);
    }
    for (int i = 0; i < MANY; i++) {
        run(&op_site, NULL, 0);
        said[0] = '\0';
    }
    for (size_t i = 0; i < COUNT_OF(p); i++) {
        double mean = p[i] * MANY, variance = mean * (1 - p[i]), d = (double)w[i].enters - mean;
        assert_true(d * d <= 6 * 6 * variance);
        assert_int_equal(w[i].enters, w[i].exits);
    }
    uint64_t seen[2] = {0, 0}; /* the same seed, the same draws */
    for (int round = 0; round < 2; round++) {
        kineto_function_seed(99);
        uint64_t before = w[3].enters;
        for (int i = 0; i < 1000; i++) {
            run(&op_site, NULL, 0);
            said[0] = '\0';
        }
        seen[round] = w[3].enters - before;
    }
    assert_int_equal(seen[0], seen[1]);
}

static void a_step_says_what_is_needed_and_calls_the_same_ones(void **state)
{
    (void)state;
    kineto_function_step step;
    kineto_function f;
    witness a = named("a"), b = named("b");
    assert_false(kineto_function_step_callbacks(KINETO_SCOPE_FUNCTION, &step));
    assert_int_equal(step.count, 0);
    kineto_function_callback c = callback_of(&a);
    c.scopes = 1u << KINETO_SCOPE_FUNCTION;
    c.needs_inputs = true;
    assert_int_equal(kineto_function_add_global(&c, &a.handle, NULL), KINETO_OK);
    c = callback_of(&b);
    c.needs_outputs = c.needs_ids = true;
    assert_int_equal(kineto_function_add_local(&c, NULL, NULL), KINETO_OK);
    assert_true(kineto_function_step_callbacks(KINETO_SCOPE_USER_SCOPE, &step));
    assert_int_equal(step.count, 1);
    assert_true(step.needs_outputs && step.needs_ids && !step.needs_inputs && !step.recorded);
    assert_true(kineto_function_step_callbacks(KINETO_SCOPE_FUNCTION, &step));
    assert_int_equal(step.count, 2);
    assert_true(step.needs_outputs && step.needs_ids && step.needs_inputs);
    kineto_function_begin_step(&f, &step, &op_site, NULL);
    kineto_function_end(&f);
    assert_int_equal(a.enters + b.enters + a.exits + b.exits, 4);
    assert_false(kineto_function_step_callbacks(KINETO_NUM_SCOPES, &step));
    said[0] = '\0';
    kineto_function_clear();
    kineto_session *s = operators(0);
    assert_true(kineto_function_step_callbacks(KINETO_SCOPE_FUNCTION, &step));
    assert_true(step.recorded && step.count == 0);
    kineto_function_begin_step(&f, &step, &op_site, NULL);
    kineto_function_end(&f);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "test::op"), 1);
    kineto_trace_release(t);
    assert_false(kineto_function_step_callbacks(KINETO_SCOPE_FUNCTION, &step));
}

/* Half of the operators are shown; the draw of a step is the one that counts. */
static void a_step_draws_once(void **state)
{
    (void)state;
    witness w = named("");
    kineto_function_callback c = callback_of(&w);
    uint64_t drawn = 0;
    c.probability = 0.5;
    assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
    for (int i = 0; i < 1000; i++) {
        kineto_function_step step;
        kineto_function f;
        bool any = kineto_function_step_callbacks(KINETO_SCOPE_FUNCTION, &step);
        assert_int_equal(any, step.count == 1);
        drawn += any;
        if (!any)
            continue;
        kineto_function_begin_step(&f, &step, &op_site, NULL);
        kineto_function_end(&f);
        said[0] = '\0';
    }
    assert_true(drawn > 300 && drawn < 700);
    assert_int_equal(w.enters, drawn);
}

/* A step is made before its operator begins: what was added meanwhile is not shown what it did not
 * ask for. */
static void a_step_shows_a_session_only_its_own_kinds(void **state)
{
    (void)state;
    witness old = named("old"), fresh = named("fresh");
    kineto_function_step step;
    kineto_function f;
    add_global(&old);
    assert_true(kineto_function_step_callbacks(KINETO_SCOPE_FUNCTION, &step));
    assert_int_equal(kineto_function_remove(old.handle), KINETO_OK);
    kineto_function_callback c = callback_of(&fresh);
    c.scopes = 1u << KINETO_SCOPE_USER_SCOPE;
    assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
    kineto_function_begin_step(&f, &step, &op_site, NULL);
    kineto_function_end(&f);
    assert_said("");
}

/* ---- what a callback sees -------------------------------------------------------------------- */

static void a_callback_sees_only_what_it_needs(void **state)
{
    (void)state;
    const int64_t sizes[] = {2, 3};
    kineto_tensor a = {.sizes = sizes, .rank = 2};
    kineto_input in[] = {kineto_input_tensor(&a), kineto_input_int(4)};
    kineto_keyword k = {"alpha", kineto_input_int(1)};
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = in, info.input_count = 2, info.keywords = &k, info.keyword_count = 1;
    info.sequence_number = 8, info.forward_thread_id = 3, info.debug_handle = 9;
    for (int needs = 0; needs < 8; needs++) {
        witness w = named("w"), other = named("o");
        kineto_function_callback c = callback_of(&w);
        c.needs_inputs = needs & 1, c.needs_outputs = needs & 2, c.needs_ids = needs & 4;
        assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
        c = callback_of(&other); /* one that wants everything changes nothing for the other */
        c.needs_inputs = c.needs_outputs = c.needs_ids = true;
        assert_int_equal(kineto_function_add_local(&c, NULL, NULL), KINETO_OK);
        kineto_function f;
        kineto_function_begin_info(&f, &op_site, &info);
        kineto_function_set_outputs(&f, in, 1);
        kineto_function_end(&f);
        assert_int_equal(w.at_enter.input_count, needs & 1 ? 2 : 0);
        assert_ptr_equal(w.at_enter.inputs, needs & 1 ? in : NULL);
        assert_int_equal(w.at_enter.keyword_count, needs & 1 ? 1 : 0);
        assert_int_equal(w.at_exit.input_count, 0); /* at enter only */
        assert_int_equal(w.at_enter.output_count, 0);
        assert_int_equal(w.at_exit.output_count, needs & 2 ? 1 : 0);
        assert_ptr_equal(w.at_exit.outputs, needs & 2 ? in : NULL);
        assert_int_equal(w.at_enter.id != 0, (needs & 4) != 0);
        assert_int_equal(w.at_exit.id, w.at_enter.id);
        assert_int_equal(w.at_enter.sequence_number, 8);
        assert_int_equal(w.at_exit.forward_thread_id, 3);
        assert_int_equal(w.at_exit.debug_handle, 9);
        assert_int_equal(other.at_enter.input_count, 2);
        assert_int_equal(other.at_exit.output_count, 1);
        kineto_function_clear();
        said[0] = '\0';
    }
}

/* The info is borrowed for the call that begins the operator; its name is still seen at the end. */
static void a_name_of_the_moment_is_seen_at_the_end_too(void **state)
{
    (void)state;
    witness w = named("w");
    add_global(&w);
    for (int length = 1; length < 5000; length += 1111) {
        kineto_function_info info;
        kineto_function_info_init(&info);
        kineto_function f;
        char *name = calloc((size_t)length + 1, 1), expected[64];
        memset(name, 'n', (size_t)length);
        snprintf(expected, sizeof expected, "%s", name);
        info.name = name;
        kineto_function_begin_info(&f, &op_site, &info);
        memset(name, '#', (size_t)length);
        free(name);
        kineto_function_end(&f);
        assert_string_equal(w.name_at_exit, expected);
        said[0] = '\0';
    }
}

static void overloads_are_shown_apart_from_the_name(void **state)
{
    (void)state;
    witness w = named("w");
    add_global(&w);
    run(kineto_function_site("aten::add", "Tensor", KINETO_SCOPE_FUNCTION), NULL, 0);
    assert_string_equal(w.at_exit.name, "aten::add");
    assert_string_equal(w.at_exit.overload, "Tensor");
}

static void ids_seen_are_those_of_the_trace(void **state)
{
    (void)state;
    witness w = named("w");
    kineto_function_callback c = callback_of(&w);
    c.needs_ids = true;
    kineto_session *s = operators(0);
    assert_int_equal(kineto_function_add_global(&c, NULL, NULL), KINETO_OK);
    run(&op_site, NULL, 0);
    kineto_trace *t = finish(s);
    assert_int_equal(find_only(t, "test::op").external_id, w.at_enter.id);
    kineto_trace_release(t);
}

/* ---- callbacks that do things ---------------------------------------------------------------- */

static witness *other_one;
static void remove_itself(witness *w)
{
    assert_int_equal(kineto_function_remove(w->handle), KINETO_OK);
}
static void remove_the_other(witness *w)
{
    (void)w;
    (void)kineto_function_remove(other_one->handle);
}
static void begin_another(witness *w)
{
    (void)w;
    run(&inner_site, NULL, 0);
}
static void add_the_other(witness *w)
{
    (void)w;
    if (!other_one->handle)
        add_global(other_one);
}

static void one_that_removes_itself_is_not_called_again(void **state)
{
    (void)state;
    for (int local = 0; local < 2; local++) {
        witness in_enter = named("a"), in_exit = named("b"), stays = named("c");
        in_enter.in_enter = remove_itself;
        in_exit.in_exit = remove_itself;
        (local ? add_local : add_global)(&in_enter);
        (local ? add_local : add_global)(&in_exit);
        (local ? add_local : add_global)(&stays);
        for (int i = 0; i < 3; i++)
            run(&op_site, NULL, 0);
        assert_int_equal(in_enter.enters, 1);
        assert_int_equal(in_enter.exits, 0);
        assert_int_equal(in_exit.enters, 1);
        assert_int_equal(in_exit.exits, 1);
        assert_int_equal(stays.enters, 3);
        assert_int_equal(stays.exits, 3);
        kineto_function_clear();
        said[0] = '\0';
    }
}

static void one_that_is_removed_meanwhile_is_not_called_any_more(void **state)
{
    (void)state;
    for (int when = 0; when < 4; when++) {
        witness first = named("a"), second = named("b");
        witness *doer = when & 1 ? &second : &first;
        other_one = when & 1 ? &first : &second;
        if (when & 2)
            doer->in_exit = remove_the_other;
        else
            doer->in_enter = remove_the_other;
        add_global(&first);
        add_global(&second);
        run(&op_site, NULL, 0);
        uint64_t enters = other_one->enters, exits = other_one->exits;
        assert_true(exits <= enters && enters <= 1);
        if (when < 2)
            assert_int_equal(exits, 0);
        run(&op_site, NULL, 0);
        assert_int_equal(other_one->enters, enters);
        assert_int_equal(other_one->exits, exits);
        assert_int_equal(doer->exits, 2);
        kineto_function_clear();
        said[0] = '\0';
    }
}

static void operators_of_callbacks_are_recorded_but_not_shown(void **state)
{
    (void)state;
    witness w = named("w");
    w.in_enter = begin_another;
    w.in_exit = begin_another;
    kineto_session *s = operators(0);
    add_global(&w);
    run(&op_site, NULL, 0);
    kineto_trace *t = finish(s);
    assert_int_equal(w.enters, 1);
    assert_said("+w -w ");
    assert_int_equal(count_named(t, "test::inner"), 2);
    assert_int_equal(count_named(t, "test::op"), 1);
    kineto_trace_release(t);
}

static void one_that_is_added_meanwhile_has_no_exit_without_enter(void **state)
{
    (void)state;
    witness w = named("w"), late = named("late");
    other_one = &late;
    w.in_enter = add_the_other;
    add_global(&w);
    run(&op_site, NULL, 0);
    assert_int_equal(late.exits, late.enters);
    run(&op_site, NULL, 0);
    assert_true(late.enters >= 1);
    assert_int_equal(late.exits, late.enters);
}

static void an_operator_entered_before_an_add_is_not_shown_to_the_new_one(void **state)
{
    (void)state;
    witness old = named("old"), fresh = named("new");
    kineto_function f;
    add_global(&old);
    kineto_function_begin(&f, &op_site, NULL, 0);
    assert_int_equal(kineto_function_remove(old.handle), KINETO_OK);
    add_global(&fresh); /* in its place */
    kineto_function_end(&f);
    assert_int_equal(old.exits, 0);
    assert_int_equal(fresh.enters + fresh.exits, 0);
    run(&op_site, NULL, 0);
    assert_int_equal(fresh.exits, 1);
    assert_int_equal(old.enters, 1);
}

static void one_that_is_disabled_meanwhile_still_gets_its_exit(void **state)
{
    (void)state;
    witness w = named("w");
    kineto_function f;
    add_global(&w);
    kineto_function_begin(&f, &op_site, NULL, 0);
    assert_int_equal(kineto_function_disable(w.handle), KINETO_OK);
    kineto_function_end(&f);
    assert_said("+w -w ");
}

static kineto_function outer_one;
static void end_the_outer_one(witness *w)
{
    if (strcmp(w->at_enter.name, "test::inner") == 0)
        kineto_function_end(&outer_one);
}

static void an_operator_that_a_callback_ends_has_its_exit(void **state)
{
    (void)state;
    witness w = named("w");
    w.in_enter = end_the_outer_one;
    add_global(&w);
    kineto_function_begin(&outer_one, &op_site, NULL, 0);
    w.at_enter.name = "";
    run(&inner_site, NULL, 0);
    assert_int_equal(w.enters, 2);
    assert_int_equal(w.exits, 2);
}

/* ---- off and on ------------------------------------------------------------------------------ */

static void a_thread_can_turn_all_of_it_off(void **state)
{
    (void)state;
    witness a = named("a"), l = named("l");
    kineto_function f;
    kineto_session *s = operators(0);
    add_global(&a);
    add_local(&l);
    assert_true(kineto_function_is_enabled());
    {
        KINETO_FUNCTIONS_DISABLED(outer);
        assert_true(outer);
        assert_false(kineto_function_is_enabled());
        run(&op_site, NULL, 0);
        {
            KINETO_FUNCTIONS_DISABLED(nested);
            assert_false(nested);
        }
        assert_false(kineto_function_is_enabled());
        assert_false(kineto_function_enable(true));
        run(&inner_site, NULL, 0);
        assert_true(kineto_function_enable(false));
    }
    assert_true(kineto_function_is_enabled());
    kineto_function_begin(&f, &user_site, NULL, 0);
    (void)kineto_function_enable(false);
    kineto_function_end(&f); /* begun before: shown and recorded to its end */
    (void)kineto_function_enable(true);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "test::op"), 0);
    assert_int_equal(count_named(t, "test::inner"), 1);
    assert_int_equal(find_only(t, "user").flags & KINETO_ACTIVITY_OPEN_END, 0);
    assert_int_equal(a.enters, 2);
    assert_int_equal(a.exits, 2);
    assert_int_equal(l.exits, 2);
    kineto_trace_release(t);
}

static void ending_twice_does_nothing(void **state)
{
    (void)state;
    witness w = named("w");
    kineto_function f;
    add_global(&w);
    kineto_session *s = operators(0);
    kineto_function_begin(&f, &op_site, NULL, 0);
    kineto_function_end(&f);
    kineto_function_end(&f);
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_said("+w -w ");
    kineto_trace_release(t);
}

static void the_number_of_the_node_is_minus_one_or_more(void **state)
{
    (void)state;
    assert_int_equal(kineto_function_node_id(), -1);
    assert_int_equal(kineto_function_set_node_id(5), KINETO_OK);
    assert_int_equal(kineto_function_set_node_id(-2), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_function_node_id(), 5);
    assert_int_equal(kineto_function_set_node_id(-1), KINETO_OK);
}

/* ---- threads and processes ------------------------------------------------------------------- */

static void *run_one(void *argument)
{
    run(argument, NULL, 0);
    return NULL;
}

static void *end_it(void *argument)
{
    kineto_function_end(argument);
    return NULL;
}

static void those_of_a_thread_see_that_thread_only_and_end_with_it(void **state)
{
    (void)state;
    witness l = named("l"), a = named("a");
    add_local(&l);
    add_global(&a);
    pthread_join(start_thread(run_one, &op_site), NULL);
    assert_said("+a -a ");
    assert_int_not_equal(a.at_enter.thread_id, kineto_function_thread_id());
    assert_int_equal(l.enters, 0);
}

static void *add_and_leave(void *argument)
{
    witness *w = argument;
    add_local(w);
    run(&op_site, NULL, 0);
    return NULL;
}

static void local_ones_of_ended_threads_are_gone(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        witness w = named("");
        pthread_join(start_thread(add_and_leave, &w), NULL);
        assert_int_equal(w.exits, 1);
        assert_int_equal(kineto_function_remove(w.handle), KINETO_E_NOT_FOUND);
    }
    said[0] = '\0';
    run(&op_site, NULL, 0);
    pthread_join(start_thread(run_one, &op_site), NULL);
    assert_said("");
    assert_int_equal(__atomic_load_n(&kineto_function_watchers, __ATOMIC_RELAXED), 0);
}

static void an_asynchronous_one_ends_on_another_thread(void **state)
{
    (void)state;
    witness a = named("a");
    kineto_function f;
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.is_async = true;
    add_global(&a);
    kineto_session *s = operators(0);
    kineto_function_begin_info(&f, &op_site, &info);
    pthread_join(start_thread(end_it, &f), NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_said("+a -a ");
    assert_true(a.at_enter.is_async);
    assert_int_equal(a.at_exit.thread_id, kineto_function_thread_id()); /* where it began */
    kineto_activity row = find_only(t, "test::op");
    assert_int_equal(row.form, KINETO_FORM_ASYNC);
    assert_int_equal(row.flags & KINETO_ACTIVITY_OPEN_END, 0);
    kineto_trace_release(t);
    witness l = named("l"); /* a thread's own are called on it only */
    kineto_function_clear();
    add_local(&l);
    kineto_function_begin_info(&f, &op_site, &info);
    pthread_join(start_thread(end_it, &f), NULL);
    assert_int_equal(l.enters, 1);
    assert_int_equal(l.exits, 0);
}

static void asynchronous_ones_overlap_and_outlive_their_thread(void **state)
{
    (void)state;
    enum { MANY = 40 };
    static kineto_function f[MANY];
    witness a = named("");
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.is_async = true;
    add_global(&a);
    kineto_session *s = operators(0);
    for (int i = 0; i < MANY; i++)
        kineto_function_begin_info(&f[i], i % 2 ? &op_site : &inner_site, &info);
    for (int i = 0; i < MANY; i++) /* in another order */
        pthread_join(start_thread(end_it, &f[i * 7 % MANY]), NULL);
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), MANY);
    for (kineto_row r = 0; r < MANY; r++)
        assert_int_equal(row_at(t, r).flags & KINETO_ACTIVITY_OPEN_END, 0);
    assert_int_equal(a.exits, MANY);
    kineto_trace_release(t);
}

static void a_forks_child_has_those_of_all_threads_only(void **state)
{
    (void)state;
    witness a = named("a"), l = named("l");
    add_global(&a);
    add_local(&l);
    said[0] = '\0';
    pid_t pid = fork();
    if (pid == 0) {
        run(&op_site, NULL, 0);
        bool right = strcmp(said, "+a -a ") == 0 && kineto_function_has_global() &&
                     !kineto_function_has_local();
        right = right && kineto_function_remove(l.handle) == KINETO_E_NOT_FOUND;
        right = right && kineto_function_remove(a.handle) == KINETO_OK;
        said[0] = '\0';
        run(&op_site, NULL, 0);
        _exit(!(right && said[0] == '\0'));
    }
    assert_exit(pid, 0);
    run(&op_site, NULL, 0);
    assert_int_equal(a.exits, 1);
    assert_int_equal(l.exits, 1);
}

static void an_operator_that_runs_across_a_fork_ends_in_both(void **state)
{
    (void)state;
    witness a = named("a");
    kineto_function f;
    add_global(&a);
    kineto_session *s = operators(0);
    kineto_function_begin(&f, &op_site, NULL, 0);
    pid_t pid = fork();
    if (pid == 0) {
        kineto_function_end(&f);
        _exit(strcmp(said, "+a -a ") != 0);
    }
    assert_exit(pid, 0);
    kineto_function_end(&f);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_of_pid(t, "test::op", getpid()), 1);
    kineto_trace_release(t);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, nothing_left, nothing_left)
    const struct CMUnitTest tests[] = {
        TEST(those_of_all_threads_come_before_the_threads_own),
        TEST(handles_are_never_used_again),
        TEST(a_callback_that_makes_no_sense_is_refused),
        TEST(thirty_two_fit_and_the_next_is_refused),
        TEST(there_are_some_and_then_there_are_none),
        TEST(one_of_the_two_functions_is_enough),
        TEST(each_is_shown_the_scopes_it_asked_for),
        TEST(about_as_many_are_shown_as_the_probability_says),
        TEST(a_step_says_what_is_needed_and_calls_the_same_ones),
        TEST(a_step_draws_once),
        TEST(a_step_shows_a_session_only_its_own_kinds),
        TEST(a_callback_sees_only_what_it_needs),
        TEST(a_name_of_the_moment_is_seen_at_the_end_too),
        TEST(overloads_are_shown_apart_from_the_name),
        TEST(ids_seen_are_those_of_the_trace),
        TEST(one_that_removes_itself_is_not_called_again),
        TEST(one_that_is_removed_meanwhile_is_not_called_any_more),
        TEST(operators_of_callbacks_are_recorded_but_not_shown),
        TEST(one_that_is_added_meanwhile_has_no_exit_without_enter),
        TEST(an_operator_entered_before_an_add_is_not_shown_to_the_new_one),
        TEST(one_that_is_disabled_meanwhile_still_gets_its_exit),
        TEST(an_operator_that_a_callback_ends_has_its_exit),
        TEST(a_thread_can_turn_all_of_it_off),
        TEST(ending_twice_does_nothing),
        TEST(the_number_of_the_node_is_minus_one_or_more),
        TEST(those_of_a_thread_see_that_thread_only_and_end_with_it),
        TEST(local_ones_of_ended_threads_are_gone),
        TEST(an_asynchronous_one_ends_on_another_thread),
        TEST(asynchronous_ones_overlap_and_outlive_their_thread),
        TEST(a_forks_child_has_those_of_all_threads_only),
        TEST(an_operator_that_runs_across_a_fork_ends_in_both),
    };
    return RUN_TESTS(tests);
}

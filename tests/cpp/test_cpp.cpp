// Every part of <ckineto/ckineto.hpp>: what it does is in the trace; and nothing is allocated while
// no session records. Compiled by several compilers, with exceptions and without.
#include <ckineto/ckineto.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

static std::uint64_t news;

void *operator new(std::size_t bytes)
{
    news++;
    void *p = std::malloc(bytes != 0 ? bytes : 1);
    if (p == nullptr)
        std::abort();
    return p;
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);    \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (false)

KINETO_OPERATOR(mm_site, "aten::mm");
KINETO_OPERATOR(all_site, "all inputs");
KINETO_SITE(range_site, KINETO_KIND_USER_ANNOTATION, "range");

static kineto_row find(const kineto::trace &t, std::string_view name)
{
    for (kineto_row r = 0; r < t.size(); r++)
        if (kineto::view(t[r].name) == name)
            return r;
    std::fprintf(stderr, "no row '%.*s'\n", static_cast<int>(name.size()), name.data());
    std::exit(1);
}

static std::uint64_t count(const kineto::trace &t, std::string_view name)
{
    std::uint64_t n = 0;
    for (kineto_row r = 0; r < t.size(); r++)
        n += kineto::view(t[r].name) == name;
    return n;
}

static std::string_view text(const kineto::trace &t, kineto_row row, const char *key)
{
    kineto_arg arg;
    return kineto_args_find(t.get(), row, key, &arg) ? kineto::view(arg.text) : "absent";
}

static kineto_session_options with_inputs()
{
    kineto_session_options o = kineto::session_options();
    o.buffer_bytes = 4 << 20;
    o.operators = KINETO_OPERATORS_INPUTS | KINETO_OPERATORS_VALUES;
    return o;
}

// ---- while no session records --------------------------------------------------------------------------

static void nothing_is_allocated_while_no_session_records()
{
    const std::vector<std::int64_t> sizes = {2, 3};
    const std::string name = "a name that is too long for a string to have within itself";
    std::uint64_t before = news;
    for (int i = 0; i < 1000; i++) {
        kineto::range r(range_site);
        kineto::range n(range_site, name);
        kineto::function f(mm_site, kineto::tensor(KINETO_DTYPE_FLOAT, {2, 3}), i, 0.5, name);
        kineto::function g(name.c_str(), kineto::tensor_view(KINETO_DTYPE_FLOAT, sizes));
        kineto::user_scope u(name.c_str());
        CHECK(!r && !n && !f && !g && !u && f.id() == 0);
        f.end();
    }
    CHECK(news == before);
}

// ---- inputs ----------------------------------------------------------------------------------------

enum class colour : short { red = -3 };

static void inputs_of_all_types_arrive()
{
    kineto::session session(with_inputs());
    CHECK(session && session.status() == KINETO_OK);
    const std::vector<std::int64_t> sizes = {70000, 3};
    const std::vector<std::int64_t> strides = {1, 70000};
    const std::array<std::int64_t, 3> fixed = {4, 5, 6};
    const std::array<bool, 2> flags = {true, false};
    const std::array<double, 1> halves = {0.5};
    const std::vector<double> doubles = {1, 2.5};
    kineto::tensor transposed(KINETO_DTYPE_INT64, {2, 3}, {1, 2});
    kineto::tensor copy = transposed;
    transposed = kineto::tensor(KINETO_DTYPE_INT64, {9, 9});
    const std::vector<kineto_tensor> list = {*copy.get(), *transposed.get()};
    {
        kineto::function f(all_site, copy, kineto::tensor_view(KINETO_DTYPE_HALF, sizes, strides),
                           kineto::tensor_view(KINETO_DTYPE_BOOL, fixed),
                           kineto::tensor(KINETO_DTYPE_DOUBLE), nullptr, kineto::none, list, 7,
                           std::uint8_t{255}, colour::red, 2.5F, true, std::int64_t{-1}, "text",
                           std::string("text"), fixed, sizes, flags, halves, doubles,
                           kineto_input_int(1));
        CHECK(f && f.id() != 0);
    }
    kineto::trace t = session.stop();
    CHECK(t && t.size() == 1);
    CHECK(text(t, 0, "Input Dims") == "[[2,3],[70000,3],[4,5,6],[],[],[],[[2,3],[9,9]],[],[],[],[],"
                                      "[],[],[],[],[],[],[],[],[],[]]");
    CHECK(text(t, 0, "Input Strides") ==
          "[[1,2],[1,70000],[30,6,1],[],[],[],[[1,2],[9,1]],[],[],[],"
          "[],[],[],[],[],[],[],[],[],[],[]]");
    CHECK(text(t, 0, "Input type") ==
          "[\"long int\",\"c10::Half\",\"bool\",\"double\",\"\",\"\",\"TensorList\",\"Scalar\","
          "\"Scalar\",\"Scalar\",\"Scalar\",\"Scalar\",\"Scalar\",\"\",\"\",\"ScalarList\","
          "\"ScalarList\",\"ScalarList\",\"ScalarList\",\"ScalarList\",\"Scalar\"]");
    CHECK(text(t, 0, "Concrete Inputs") ==
          "[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"7\",\"255\",\"-3\",\"2.5\",\"True\",\"-1\",\"\","
          "\"\",\"[4, 5, 6]\",\"[70000, 3]\",\"[True, False]\",\"[0.5]\",\"[1., 2.5]\",\"1\"]");
}

static void inputs_may_be_a_list_or_a_vector()
{
    kineto::session session(with_inputs());
    kineto::tensor a(KINETO_DTYPE_FLOAT, {2, 3});
    const std::vector<kineto_input> inputs = {kineto::input(a), kineto::input(5)};
    {
        kineto::function f(mm_site, inputs);
        kineto::function g(mm_site, {kineto::input(a), kineto::input(5)});
    }
    kineto::trace t = session.stop();
    CHECK(t.size() == 2);
    for (kineto_row r = 0; r < 2; r++)
        CHECK(text(t, r, "Input Dims") == "[[2,3],[]]");
}

// ---- operators and ranges -----------------------------------------------------------------------------

static void operators_and_ranges_end_with_their_objects()
{
    kineto::session session(with_inputs());
    {
        kineto::range outer(range_site);
        CHECK(outer);
        for (int i = 0; i < 3; i++) {
            kineto::function f(mm_site, i);
            if (i == 1)
                continue;
            kineto::range inner(range_site, std::string_view("inner!", 5));
            kineto::range moved = std::move(inner);
            CHECK(moved && !inner);
        }
    }
    {
        kineto::user_scope u("annotation");
        u.end();
        kineto::function named("by name", 4);
        kineto::function backward(KINETO_SCOPE_BACKWARD_FUNCTION, "MmBackward0");
        kineto_function_info info = kineto::function_info();
        info.sequence_number = 8;
        info.name = "renamed";
        kineto::function f(mm_site, info);
    }
    {
        kineto::functions_disabled off;
        kineto::function f(mm_site);
        CHECK(!f);
    }
    kineto::trace t = session.stop();
    CHECK(count(t, "aten::mm") == 3 && count(t, "inner") == 2 && count(t, "range") == 1);
    CHECK(kineto_trace_parent(t.get(), find(t, "inner")) != KINETO_NO_ROW);
    CHECK(t[find(t, "annotation")].kind == KINETO_KIND_USER_ANNOTATION);
    CHECK(text(t, find(t, "by name"), "Concrete Inputs") == "[\"4\"]");
    CHECK(KINETO_ACTIVITY_SCOPE(t[find(t, "MmBackward0")].flags) == KINETO_SCOPE_BACKWARD_FUNCTION);
    kineto_arg sequence;
    CHECK(kineto_args_find(t.get(), find(t, "renamed"), "Sequence number", &sequence));
    CHECK(sequence.i == 8);
}

static void outputs_are_reported()
{
    kineto_session_options o = with_inputs();
    o.operators |= KINETO_OPERATORS_IDS;
    kineto::session session(o);
    kineto::tensor a(KINETO_DTYPE_FLOAT, {2, 3});
    a.ids(5, 6, 7).device(KINETO_DEVICE_CUDA, 1);
    const std::array<kineto_input, 1> outputs = {kineto::input(a)};
    {
        kineto::function f(mm_site, a);
        f.set_outputs(outputs);
    }
    kineto::trace t = session.stop();
    CHECK(text(t, 0, "Input Tensors") == "[[5,6,7]]");
    CHECK(text(t, 0, "Output Dims") == "[[2,3]]");
}

// ---- callbacks ------------------------------------------------------------------------------------------

static int entered, exited;
static void *enter(const kineto_function_view *f, void *)
{
    entered += std::strcmp(f->name, "aten::mm") == 0;
    return nullptr;
}
static void leave(const kineto_function_view *, void *, void *) { exited++; }

static void callbacks_are_removed_with_their_objects()
{
    kineto_function_callback c = kineto::callback_options();
    c.enter = enter;
    c.exit = leave;
    {
        kineto::callback everywhere(c), here(c, kineto::callback::of::this_thread);
        CHECK(everywhere && here && everywhere.handle() != here.handle());
        kineto::function f(mm_site);
    }
    kineto::function g(mm_site);
    CHECK(entered == 2 && exited == 2);
    c.probability = 2;
    kineto::callback wrong(c);
    CHECK(!wrong && wrong.status() == KINETO_E_ARGUMENT && wrong.error().message[0] != '\0');
}

// ---- sessions, traces, profilers --------------------------------------------------------------------------

static void sessions_say_what_went_wrong()
{
    kineto_session_options o = kineto::session_options();
    o.retention = 77;
    kineto::session bad(o);
    CHECK(!bad && bad.status() == KINETO_E_ARGUMENT && bad.error().message[0] != '\0');
    CHECK(!bad.stop() && !bad.snapshot() && bad.start() == KINETO_E_ARGUMENT);
    kineto::session session;
    CHECK(session && session.start() == KINETO_E_STATE && !session);
    kineto::trace t = session.stop();
    CHECK(t && session);
    CHECK(!session.stop() && session.status() == KINETO_E_STATE);
    CHECK(session.start() == KINETO_OK); // again; discarded at the end
}

static void traces_are_shared_and_moved()
{
    kineto::session session(with_inputs());
    kineto::function(mm_site).end();
    kineto::trace half = session.snapshot(), empty;
    CHECK(half.size() == 1 && !empty && empty.size() == 0 && empty[3].name.size == 0);
    kineto::trace copy = half, moved = std::move(half);
    CHECK(!half && copy.get() == moved.get());
    empty = copy;
    copy = kineto::trace();
    CHECK(!copy && empty.size() == 1);
    char path[] = "/tmp/ckineto-cpp-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    std::string file = std::string(path) + ".json";
    kineto_error error = {};
    CHECK(moved.save(file.c_str(), &error) == KINETO_OK);
    CHECK(moved.save("/dev/null/x.json", &error) != KINETO_OK && error.message[0] != '\0');
    kineto_error why = {};
    CHECK(kineto::trace().save("x.json", &why) == KINETO_E_ARGUMENT && why.message[0] != '\0');
    kineto::trace again = kineto::trace::open(file.c_str());
    CHECK(again && again.size() == 1 && kineto::view(again[0].name) == "aten::mm");
    CHECK(!kineto::trace::open("/nonexistent/x.json", &error) && error.code == KINETO_E_NOT_FOUND);
    std::remove(file.c_str());
    std::remove(path);
}

static kineto::trace run_of_steps(int steps)
{
    kineto::session session(with_inputs());
    for (int i = 0; i < steps; i++) {
        char name[32];
        std::snprintf(name, sizeof name, "ProfilerStep#%d", i);
        kineto::range step(range_site, name);
        kineto::function(mm_site).end();
    }
    return session.stop();
}

static void runs_are_compared()
{
    std::vector<kineto::trace> before, after;
    for (int run = 0; run < 3; run++) {
        before.push_back(run_of_steps(4));
        after.push_back(run_of_steps(4));
    }
    kineto_error error = {};
    kineto::analysis of_runs = kineto::diff_runs(before, after, nullptr, &error), of_two = kineto::diff(before[0], after[0]);
    CHECK(of_runs && of_two && error.code == KINETO_OK);
    CHECK(of_runs.size("diff_runs") == 6 && of_two.size("diff_runs") == 2 && of_runs.size("kernels") == 0);
    CHECK(of_runs.fact("diff_runs", 5, "steps").i > 0 && kineto::view(of_runs.fact("diff_runs", 5, "side").text) == "after");
    CHECK(of_runs.fact("diff_runs", 6, "steps").is_none && of_runs.fact("nothing", 0, "steps").is_none);
    CHECK(of_runs.gate("step>100000%").outcome == KINETO_DIFF_PASSED);
    CHECK(of_runs.gate("nonsense", false, &error).outcome == KINETO_DIFF_SKIPPED && error.code == KINETO_E_ARGUMENT);
    kineto::analysis moved = std::move(of_runs), empty;
    CHECK(moved && !of_runs && !empty && empty.size("diff_runs") == 0 && empty.fact("diff_runs", 0, "side").is_none);
    CHECK(!kineto::diff_runs({}, after, nullptr, &error) && error.code == KINETO_E_ARGUMENT);
    CHECK(!kineto::diff_runs({kineto::trace()}, after, nullptr, &error) && error.code == KINETO_E_ARGUMENT);
    std::vector<kineto::trace> many(40, before[0]);
    CHECK(!kineto::diff_runs(many, after, nullptr, &error) && error.code == KINETO_E_ARGUMENT);
    CHECK(!kineto::diff(kineto::trace(), after[0]) && !kineto::analysis::run(kineto::trace()));
    kineto::analysis one = kineto::analysis::run(before[0]);
    CHECK(one && one.size("operators") == 1 && kineto::view(one.fact("operators", 0, "name").text) == "aten::mm");
}

static void profilers_give_results()
{
    kineto_profiler_config config = kineto::profiler_config();
    config.report_input_shapes = true;
    kineto::trace t;
    {
        kineto::profiler profiler(config);
        CHECK(profiler);
        kineto::function(mm_site, kineto::tensor(KINETO_DTYPE_FLOAT, {2, 3})).end();
        kineto::profiler_result result = profiler.stop(), other;
        kineto_error why = {};
        CHECK(result && !other && other.save("x.json", &why) == KINETO_E_ARGUMENT && !other.trace());
        CHECK(why.code == KINETO_E_ARGUMENT && why.message[0] != '\0');
        other = std::move(result);
        t = other.trace();
        CHECK(!profiler.stop() && profiler.status() == KINETO_E_STATE);
    }
    CHECK(text(t, find(t, "aten::mm"), "Input Dims") == "[[2,3]]"); // outlives the result
    config.state = 99;
    kineto::profiler wrong(config);
    CHECK(!wrong && !wrong.stop() && wrong.error().message[0] != '\0');
}

#if defined(__cpp_exceptions)
static void an_exception_ends_them_too()
{
    kineto::session session(with_inputs());
    try {
        kineto::function f(mm_site);
        kineto::range r(range_site);
        throw 1;
    } catch (int) {
    }
    kineto::trace t = session.stop();
    CHECK(t.size() == 2 && (t[find(t, "aten::mm")].flags & KINETO_ACTIVITY_OPEN_END) == 0);
}
#else
static void an_exception_ends_them_too() {}
#endif

int main()
{
    nothing_is_allocated_while_no_session_records();
    inputs_of_all_types_arrive();
    inputs_may_be_a_list_or_a_vector();
    operators_and_ranges_end_with_their_objects();
    outputs_are_reported();
    callbacks_are_removed_with_their_objects();
    sessions_say_what_went_wrong();
    traces_are_shared_and_moved();
    runs_are_compared();
    profilers_give_results();
    an_exception_ends_them_too();
    nothing_is_allocated_while_no_session_records();
    std::puts("all of ckineto.hpp works");
    return 0;
}

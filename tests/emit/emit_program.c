/* A program that shows ranges to the tool of its environment; test_emission.py looks at what
 * arrives. */
#include "profiler/emit.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#define KP_MAX_THREADS 64

static const kp_emitter *emitter;

/* ---- counting what is allocated -------------------------------------------------------------- */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t bytes);
static uint64_t allocations;
void *malloc(size_t bytes)
{
    (void)kb_add_relaxed(&allocations, 1);
    return __libc_malloc(bytes);
}
static uint64_t allocated(void) { return kb_load_relaxed(&allocations); }
#else
#define COUNTS_ALLOCATIONS 0
static uint64_t allocated(void) { return 0; }
#endif

/* ---- its commands ---------------------------------------------------------------- */

static int report(kineto_status status, const kineto_error *err)
{
    printf("%s %s\n", kineto_status_name(status), status == KINETO_OK ? "" : err->message);
    return 0;
}

static int open_it(void)
{
    kineto_error err;
    kineto_status status = emitter->open(&err);
    (void)report(status, &err);
    return status != KINETO_OK;
}

static int do_open(int argument)
{
    kineto_error err;
    (void)argument;
    (void)report(emitter->open(&err), &err);
    /* Whatever came of it, this must not harm. */
    printf("pushed %d\n", emitter->push("after"));
    emitter->pop();
    emitter->mark("after");
    return 0;
}

/* Called by a tool that is being initialised. */
__attribute__((visibility("default"))) int emit_program_again(void);
int emit_program_again(void)
{
    bool pushed = emitter->push("too early");
    emitter->pop();
    return pushed ? 1 : (int)emitter->open(NULL);
}

static int do_secure(int argument)
{
    printf("secure %d\n", getauxval(AT_SECURE) != 0);
    return do_open(argument);
}

static void *ranges(void *which)
{
    char name[64];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "outer %d", (int)(intptr_t)which);
        bool outer = emitter->push(name);
        (void)snprintf(name, sizeof name, "inner %d", i);
        bool inner = emitter->push(name);
        emitter->mark("between");
        if (inner)
            emitter->pop();
        if (outer)
            emitter->pop();
    }
    return NULL;
}

static int in_threads(int count, void *(*run)(void *))
{
    pthread_t threads[KP_MAX_THREADS];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i) != 0)
            return 1;
    for (int i = 0; i < count; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}

static int do_ranges(int threads)
{
    return open_it() || in_threads(KB_MIN(threads, KP_MAX_THREADS), ranges);
}

static void *race(void *which)
{
    if (emitter->open(NULL) == KINETO_OK)
        (void)ranges(which);
    else
        printf("failed\n");
    return NULL;
}
static int do_race(int threads) { return in_threads(KB_MIN(threads, KP_MAX_THREADS), race); }

static int do_names(int count)
{
    char name[32];
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "name %d", i);
        if (emitter->push(name))
            emitter->pop();
    }
    return 0;
}
static int do_many_names(int count) { return open_it() || do_names(count); }

/* The same names over and over: what is allocated after the first time? */
static int do_allocations(int count)
{
    if (open_it())
        return 1;
    for (int round = 0; round < 3; round++) {
        uint64_t before = allocated();
        (void)do_names(count);
        printf("allocations %d %llu\n", round, (unsigned long long)(allocated() - before));
    }
    printf("counts %d\n", COUNTS_ALLOCATIONS);
    return 0;
}

static int child_is_fine(pid_t child)
{
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static int do_fork(int argument)
{
    (void)argument;
    if (open_it())
        return 1;
    (void)emitter->push("parent");
    pid_t child = fork();
    if (child == 0) {
        bool ok = emitter->open(NULL) == KINETO_OK && emitter->push("child");
        emitter->pop();
        _exit(!ok);
    }
    emitter->pop();
    return !child_is_fine(child);
}

static void *open_slowly(void *unused)
{
    (void)emitter->open(NULL);
    return unused;
}

/* Forked while another thread was inside: it will not finish in the child. */
static int do_fork_within(int argument)
{
    pthread_t thread;
    (void)argument;
    if (pthread_create(&thread, NULL, open_slowly, NULL) != 0)
        return 1;
    (void)usleep(100000);
    pid_t child = fork();
    if (child == 0) {
        bool ok = emitter->open(NULL) == KINETO_OK && emitter->push("child");
        emitter->pop();
        _exit(!ok);
    }
    (void)pthread_join(thread, NULL);
    return !child_is_fine(child);
}

static bool tell_tool(const char *function)
{
    void *tool = dlopen(getenv(emitter->variable), RTLD_LAZY | RTLD_NOLOAD);
    void *symbol = tool ? dlsym(tool, function) : NULL;
    void (*call)(void) = NULL;
    memcpy(&call, &symbol, sizeof call);
    if (call)
        call();
    return call != NULL;
}

/* The tool takes its function away while ranges are open, or has none at first. */
static int do_change(const char *function)
{
    if (open_it())
        return 1;
    printf("pushed %d\n", emitter->push("before"));
    if (!tell_tool(function))
        return 1;
    printf("pushed %d\n", emitter->push("after"));
    emitter->pop();
    return 0;
}
static int do_withdraw(int argument)
{
    (void)argument;
    return do_change("tool_withdraw");
}
static int do_late(int argument)
{
    (void)argument;
    return do_change("tool_begin");
}

/* Operators, as a profiler shows them. */
static int do_operators(int shapes)
{
    kineto_error err;
    kp_emission *emission = NULL;
    kineto_status status = kp_emission_open(emitter, shapes != 0, &emission, &err);
    (void)report(status, &err);
    if (status != KINETO_OK)
        return 1;
    kineto_function_callback c = kp_emission_callback(emission, 1u << KINETO_SCOPE_FUNCTION);
    printf("needs %d %d %d %u\n", c.needs_ids, c.needs_inputs, c.needs_outputs, c.scopes);
    const int64_t sizes[] = {2, 3};
    kineto_tensor a = {.sizes = sizes, .rank = 2, .id = 11}, b = {.id = 12}, made = {.id = 13};
    kineto_tensor list[] = {a, made};
    kineto_input in[] = {kineto_input_tensor(&a), kineto_input_tensor(NULL), kineto_input_int(4),
                         kineto_input_tensors(list, 2)};
    kineto_input out[] = {kineto_input_int(1), kineto_input_tensor(&made)};
    kineto_function_view f = {
        .size = sizeof f, .name = "aten::first", .id = 5, .sequence_number = 8};
    f.inputs = in;
    f.input_count = KB_COUNT(in);
    void *context = c.enter(&f, c.user);
    f.outputs = out;
    f.output_count = KB_COUNT(out);
    c.exit(&f, context, c.user);
    in[1] = kineto_input_tensor(&made);
    in[0] = kineto_input_tensor(&b);
    kineto_function_view g = {.size = sizeof g, .name = "aten::second", .id = 6};
    g.sequence_number = -1;
    g.inputs = in;
    g.input_count = KB_COUNT(in);
    context = c.enter(&g, c.user);
    c.exit(&g, context, c.user);
    g.is_async = true;
    context = c.enter(&g, c.user);
    printf("async %d\n", context != NULL);
    c.exit(&g, context, c.user);
    kp_emission_free(emission);
    return 0;
}

static kineto_function_view operator_of(const char *name, uint64_t id, int64_t sequence,
                                        const kineto_input *in, uint32_t count)
{
    return (kineto_function_view){.size = sizeof(kineto_function_view),
                                  .name = name,
                                  .id = id,
                                  .sequence_number = sequence,
                                  .inputs = in,
                                  .input_count = count};
}

/* y = mm(a, b); cat([y, y], 0), with the numbers that PyTorch gives them. */
static int do_pytorch(int shapes)
{
    kp_emission *emission = NULL;
    if (kp_emission_open(emitter, shapes != 0, &emission, NULL) != KINETO_OK)
        return 1;
    kineto_function_callback c = kp_emission_callback(emission, 0);
    const int64_t sizes[][2] = {{2, 3}, {3, 4}, {2, 4}};
    kineto_tensor a = {.sizes = sizes[0], .rank = 2, .id = 1};
    kineto_tensor b = {.sizes = sizes[1], .rank = 2, .id = 2};
    kineto_tensor y = {.sizes = sizes[2], .rank = 2, .id = 3}, both[] = {y, y};
    kineto_input of_mm[] = {kineto_input_tensor(&a), kineto_input_tensor(&b)};
    kineto_input of_conj[] = {kineto_input_tensor(&y)};
    kineto_input of_cat[] = {kineto_input_tensors(both, 2), kineto_input_int(0)};
    kineto_function_view mm = operator_of("aten::mm", 1, 0, of_mm, 2);
    kineto_function_view conj = operator_of("aten::resolve_conj", 2, -1, of_conj, 1);
    kineto_function_view cat = operator_of("aten::cat", 5, 1, of_cat, 2);
    void *outer = c.enter(&mm, c.user);
    c.exit(&conj, c.enter(&conj, c.user), c.user);
    mm.outputs = of_conj;
    mm.output_count = 1;
    c.exit(&mm, outer, c.user);
    c.exit(&cat, c.enter(&cat, c.user), c.user);
    kp_emission_free(emission);
    return 0;
}

KINETO_OPERATOR(made_site, "aten::made");
KINETO_OPERATOR(used_site, "aten::used");
KINETO_FUNCTION_SITE(user_site, KINETO_SCOPE_USER_SCOPE, "step");

/* The same by the functions that programs call. */
static void *run_functions(void *user)
{
    kineto_function step, f;
    kineto_callback callback = 0;
    kp_emission *emission = user;
    kineto_function_callback c = kp_emission_callback(emission, 0);
    kineto_status status = kineto_function_add_local(&c, &callback, NULL);
    if (status != KINETO_OK)
        return NULL;
    const int64_t sizes[] = {4};
    kineto_tensor t = {.sizes = sizes, .rank = 1, .id = 99};
    kineto_input in[] = {kineto_input_tensor(&t)};
    kineto_function_begin(&step, &user_site, NULL, 0);
    kineto_function_begin(&f, &made_site, NULL, 0);
    uint64_t made = kineto_function_id(&f);
    kineto_function_set_outputs(&f, in, 1);
    kineto_function_end(&f);
    kineto_function_begin(&f, &used_site, in, 1);
    uint64_t used = kineto_function_id(&f);
    kineto_function_end(&f);
    kineto_function_end(&step);
    status = kineto_function_remove(callback);
    printf("%d %llu %llu\n", (int)status, (unsigned long long)made, (unsigned long long)used);
    return user;
}

static int do_functions(int argument)
{
    kp_emission *emission = NULL;
    pthread_t thread;
    void *done = NULL;
    (void)argument;
    if (kp_emission_open(emitter, true, &emission, NULL) != KINETO_OK ||
        pthread_create(&thread, NULL, run_functions, emission) != 0)
        return 1;
    (void)pthread_join(thread, &done);
    kp_emission_free(emission);
    return done == NULL;
}

static const struct {
    const char *name;
    int (*run)(int argument);
} actions[] = {
    {"open", do_open},
    {"secure", do_secure},
    {"ranges", do_ranges},
    {"race", do_race},
    {"fork", do_fork},
    {"fork-within", do_fork_within},
    {"allocations", do_allocations},
    {"names", do_many_names},
    {"pytorch", do_pytorch},
    {"functions", do_functions},
    {"withdraw", do_withdraw},
    {"operators", do_operators},
    {"late", do_late},
};

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    emitter = strcmp(argv[1], "itt") == 0 ? &kp_itt_emitter : &kp_nvtx_emitter;
    for (size_t i = 0; i < KB_COUNT(actions); i++)
        if (strcmp(argv[2], actions[i].name) == 0)
            return actions[i].run(argc > 3 ? atoi(argv[3]) : 0);
    return 2;
}

/* Native call stacks: by frame pointers, by tables, and by the two together; whatever is in the
 * frame pointer; in signal handlers and threads; and the modules that addresses lie in. This file
 * is compiled with frame pointers, see CMakeLists.txt. */
#include "record/unwind.h"

#include "unit.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#if defined(__clang__) || !defined(__GNUC__)
#define NO_FRAME     NOINLINE
#define HAS_NO_FRAME 0
#else
#define NO_FRAME     NOINLINE __attribute__((optimize("omit-frame-pointer")))
#define HAS_NO_FRAME 1
#endif
#ifndef HAS_FRAMES /* otherwise this file is compiled without frame pointers */
#define HAS_FRAMES 1
#endif
#define KEEP() __asm__ volatile("" ::: "memory") /* no tail call */

typedef struct stack {
    uint64_t at[KR_STACK_MAX];
    uint32_t count;
    void *reference[KR_STACK_MAX];
    int reference_count;
} stack;

static uint32_t limit = KR_STACK_MAX;

/* What an operator's function does; backtrace() of the C library says what is right. */
static NOINLINE void observed(kr_stack_thread *thread, stack *s)
{
    s->count = kr_stack_capture(thread, __builtin_frame_address(0), s->at, limit);
    s->reference_count = backtrace(s->reference, KR_STACK_MAX);
    KEEP();
}

static NOINLINE void deeper(kr_stack_thread *thread, stack *s, int depth)
{
    if (depth == 0)
        observed(thread, s);
    else
        deeper(thread, s, depth - 1);
    KEEP();
}

static NO_FRAME void without_frame(kr_stack_thread *thread, stack *s, int depth)
{
    volatile int local[8];
    for (int i = 0; i < 8; i++)
        local[i] = i;
    deeper(thread, s, depth);
    KEEP();
    (void)local[depth % 8];
}

static NOINLINE void outside(kr_stack_thread *thread, stack *s, int depth)
{
    without_frame(thread, s, depth);
    KEEP();
}

/* Where in the reference the caller of `observed` is: sanitizers have functions of their own before
 * it. */
static int reference_first(const stack *s)
{
    int first = 1;
    while (first < 4 && (uint64_t)(uintptr_t)s->reference[first] != s->at[0])
        first++;
    return first;
}

/* All but what starts the program must be as the C library has it. */
static void check_against_reference(const stack *s)
{
    assert_true(s->count > 0);
    int first = reference_first(s);
    for (uint32_t i = 0; i < s->count; i++) {
        assert_true((int)i + first < s->reference_count);
        assert_int_equal(s->at[i], (uint64_t)(uintptr_t)s->reference[(int)i + first]);
    }
    assert_true((int)s->count + first + 2 >= s->reference_count || s->count == KR_STACK_MAX);
}

static void prepared(kr_stack_by by)
{
    kineto_error err = {.message = ""};
    if (kr_stack_prepare(by, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kr_stack_is_by(), by);
}

static bool same(const stack *a, const stack *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof a->at[0]) == 0;
}

/* Same calls, twice: what the unwinder says first and what frame pointers say then. */
static void capture_twice(kr_stack_by by, void (*via)(kr_stack_thread *, stack *, int), int depth,
                          stack *first, stack *second)
{
    kr_stack_thread thread = {0, 0};
    prepared(by);
    for (volatile int i = 0; i < 2; i++) /* in one place: not unrolled */
        via(&thread, i ? second : first, depth);
}

static void nothing_is_captured_before_it_was_prepared(void **state)
{
    (void)state;
    kr_stack_thread thread = {0, 0};
    stack s;
    observed(&thread, &s);
    assert_int_equal(s.count, 0);
}

static void stacks_are_those_of_the_c_library(void **state)
{
    (void)state;
    static stack first, second;
    for (int depth = 0; depth <= 100; depth += 20) {
        capture_twice(KR_STACK_AUTO, deeper, depth, &first, &second);
        check_against_reference(&first);
        check_against_reference(&second);
        capture_twice(KR_STACK_TABLES, deeper, depth, &first, &second);
        check_against_reference(&first);
        assert_true(same(&first, &second));
    }
}

static void frame_pointers_alone_have_the_first_callers(void **state)
{
    (void)state;
    if (!HAS_FRAMES)
        skip();
    static stack first, second;
    capture_twice(KR_STACK_FRAMES, deeper, 20, &first, &second);
    assert_true(first.count >= 21);
    for (int i = 0; i < 21; i++)
        assert_int_equal(first.at[i],
                         (uint64_t)(uintptr_t)first.reference[i + reference_first(&first)]);
    assert_true(same(&first, &second));
}

static void a_caller_without_frame_pointer_is_not_left_out(void **state)
{
    (void)state;
    static stack first, second;
    for (int depth = 0; depth < 3; depth++) {
        capture_twice(KR_STACK_AUTO, outside, depth, &first, &second);
        check_against_reference(&first);
        check_against_reference(&second);
    }
    if (HAS_NO_FRAME && HAS_FRAMES) { /* while frame pointers alone leave out who called it */
        capture_twice(KR_STACK_FRAMES, outside, 1, &first, &second);
        assert_true(first.count < 4 || first.at[3] != (uint64_t)(uintptr_t)first.reference[4]);
    }
}

/* ---- any calls ----------------------------------------------------------------------------------- */

typedef struct journey {
    kr_stack_thread thread;
    stack *s;
    uint64_t seed;
    int left;
} journey;
typedef void way(journey *j);
static way *const ways[8];

static inline __attribute__((always_inline)) void go(journey *j)
{
    if (j->left-- == 0)
        observed(&j->thread, j->s);
    else
        ways[next_random(&j->seed) % KB_COUNT(ways)](j);
    KEEP();
}

#define WAY(name, how, bytes)                                                                      \
    static how void name(journey *j)                                                               \
    {                                                                                              \
        volatile char local[bytes];                                                                \
        local[(size_t)j->left % (bytes)] = 1;                                                      \
        go(j);                                                                                     \
        (void)local[(size_t)j->left % (bytes)];                                                    \
    }
WAY(small, NO_FRAME, 8)
WAY(middle, NO_FRAME, 200)
WAY(large, NO_FRAME, 5000)
WAY(huge, NO_FRAME, 20000)
WAY(framed, NOINLINE, 100)

/* What it keeps over the call it has in registers, which it saves. */
static NO_FRAME void busy(journey *j)
{
    uint64_t a = j->seed, b = a * 3, c = a ^ 5, d = a + 7, e = a - 9, f = a | 11;
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
    go(j);
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
}

static NO_FRAME void grows(journey *j)
{
    size_t bytes = 16 + next_random(&j->seed) % 3000;
    volatile char *local = __builtin_alloca(bytes);
    local[bytes - 1] = 1;
    go(j);
    (void)local[bytes - 1];
}

static void compare_numbers(journey *j) { go(j); }
static int compare_on(const void *a, const void *b)
{
    journey *const *j = a;
    (void)b;
    if ((*j)->left >= 0)
        compare_numbers(*j);
    return 0;
}

/* Through the C library. */
static NO_FRAME void sorts(journey *j)
{
    journey *both[2] = {j, j};
    qsort(both, 2, sizeof both[0], compare_on);
}

static way *const ways[8] = {small, middle, large, huge, framed, busy, grows, sorts};

static void any_calls_in_any_order_are_found(void **state)
{
    (void)state;
    static stack s;
    journey j = {.s = &s, .seed = 42};
    prepared(KR_STACK_AUTO);
    for (int i = 0; i < 3000; i++) {
        j.left = i % 40;
        go(&j);
        check_against_reference(&s);
    }
}

static void both_ways_end_at_the_same_address(void **state)
{
    (void)state;
    static stack first, second;
    capture_twice(KR_STACK_AUTO, deeper, 3, &first, &second);
    assert_int_equal(first.count, second.count);
    assert_true(same(&first, &second));
    assert_int_equal(kr_module_of(first.at[first.count - 1]), KR_MODULE_RUNTIME);
}

static void limits_are_kept(void **state)
{
    (void)state;
    static const uint32_t limits[] = {0, 1, 2, 3, 7, KR_STACK_MAX, 100000};
    static stack s;
    for (int by = KR_STACK_AUTO; by <= KR_STACK_TABLES; by++) {
        prepared((kr_stack_by)by);
        for (size_t i = 0; i < KB_COUNT(limits); i++) {
            kr_stack_thread thread = {0, 0};
            limit = limits[i];
            memset(s.at, 0xaa, sizeof s.at);
            deeper(&thread, &s, 300);
            limit = KR_STACK_MAX;
            if (HAS_FRAMES || by != KR_STACK_FRAMES)
                assert_int_equal(s.count, KB_MIN(limits[i], KR_STACK_MAX));
            for (uint32_t k = s.count; k < KR_STACK_MAX; k++)
                assert_int_equal(s.at[k], UINT64_C(0xaaaaaaaaaaaaaaaa));
        }
    }
}

static void words_name_the_ways(void **state)
{
    (void)state;
    kr_stack_by by;
    assert_true(kr_stack_by_parse("tables", &by));
    assert_int_equal(by, KR_STACK_TABLES);
    assert_true(kr_stack_by_parse("frames", &by));
    assert_int_equal(by, KR_STACK_FRAMES);
    assert_true(kr_stack_by_parse("auto", &by));
    assert_int_equal(by, KR_STACK_AUTO);
    assert_false(kr_stack_by_parse("fp", &by));
    assert_false(kr_stack_by_parse("", &by));
    assert_false(kr_stack_by_parse(NULL, &by));
}

static void a_word_that_is_none_is_said_and_not_taken(void **state)
{
    (void)state;
    char path[] = "/tmp/ckineto-stack-XXXXXX", said[400] = "";
    int file = mkstemp(path);
    assert_int_equal(kb_log_configure(-1, path, NULL), KINETO_OK);
    setenv("CKINETO_STACK_BY", "banana", 1);
    assert_int_equal(kr_stack_by_setting(), KR_STACK_AUTO);
    setenv("CKINETO_STACK_BY", "tables", 1);
    assert_int_equal(kr_stack_by_setting(), KR_STACK_TABLES);
    unsetenv("CKINETO_STACK_BY");
    assert_true(read(file, said, sizeof said - 1) > 0);
    assert_non_null(strstr(said, "CKINETO_STACK_BY: unknown value 'banana'"));
    assert_null(strstr(said, "is tables"));
    close(file);
    unlink(path);
}

/* ---- garbage --------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* Calls observed with any value as frame pointer; the tables say how to get past it. */
void call_with_frame(kr_stack_thread *thread, stack *s, uint64_t frame);
void call_observed(kr_stack_thread *thread, stack *s);
void call_observed(kr_stack_thread *thread, stack *s)
{
    observed(thread, s);
    KEEP();
}
__asm__(".text\n"
        ".globl call_with_frame\n"
        ".type call_with_frame,@function\n"
        "call_with_frame:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset rbp, 0\n"
        "mov %rdx, %rbp\n"
        "call call_observed\n"
        "pop %rbp\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore rbp\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_with_frame, .-call_with_frame\n");

static void any_value_in_the_frame_pointer_is_survived(void **state)
{
    (void)state;
    static stack s;
    uint64_t seed = 1, here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    for (int by = KR_STACK_AUTO; by <= KR_STACK_TABLES; by++) {
        prepared((kr_stack_by)by);
        kr_stack_thread thread = {0, 0};
        for (int i = 0; i < 3000; i++) {
            uint64_t value = next_random(&seed);
            switch (i % 6) {
            case 0: /* anything */
                break;
            case 1: /* on the stack, aligned or not */
                value = here - 4096 + value % 8192;
                break;
            case 2:
                value = (here - 4096 + value % 8192) & ~UINT64_C(7);
                break;
            case 3: /* beyond its end */
                value = here + (UINT64_C(1) << value % 30);
                break;
            case 4: /* at the end of what there is */
                value = thread.high - 32 + value % 40;
                break;
            default:
                value = value % 64;
            }
            call_with_frame(&thread, &s, value);
            if (by != KR_STACK_FRAMES)
                check_against_reference(&s);
            else
                assert_true(s.count >= 1);
        }
    }
}
#endif

/* Code made while the program runs: push rbp; mov rbp,rsp; mov rax,rdx; call rax; pop rbp; ret */
#if defined(__x86_64__)
static void code_made_in_memory_is_noticed_and_passed(void **state)
{
    (void)state;
    static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89,
                                   0xd0, 0xff, 0xd0, 0x5d, 0xc3};
    static stack s;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    prepared(KR_STACK_AUTO);
    kr_modules_note(NULL, NULL, NULL);
    memcpy(page, code, sizeof code);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0)
        skip();
    void (*made)(kr_stack_thread *, stack *, void (*)(kr_stack_thread *, stack *));
    *(void **)&made = page;
    kr_stack_thread thread = {0, 0};
    made(&thread, &s, call_observed);
    assert_true(kr_modules_are_stale());
    assert_true(s.count >= 3);
    assert_int_equal(s.at[1], (uint64_t)(uintptr_t)page + 9);
    Dl_info info;
    assert_true(dladdr((void *)(uintptr_t)s.at[2], &info) != 0); /* this function */
    munmap(page, 4096);
}
#endif

/* ---- signals and threads --------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SIGNAL_STACK_BYTES(usual) (sizeof other_stack + 0 * (usual))
#else
#define SIGNAL_STACK_BYTES(usual) KB_MIN(usual, sizeof other_stack)
#endif

static stack in_handler;
static kr_stack_thread handler_thread;
static NOINLINE void handler(int signal)
{
    (void)signal;
    observed(&handler_thread, &in_handler);
    KEEP();
}

static NOINLINE void interrupted(void)
{
    raise(SIGUSR1);
    KEEP();
}

static void handlers_have_the_interrupted_stack_below_them(void **state)
{
    (void)state;
    static uint8_t other_stack[1 << 18];
    size_t usual = (size_t)sysconf(_SC_SIGSTKSZ); /* what programs take; sanitizers need more */
    prepared(KR_STACK_AUTO);
    kr_stack_forget();
    for (int own = 0; own < 2; own++) {
        stack_t alternative = {.ss_sp = other_stack, .ss_size = SIGNAL_STACK_BYTES(usual)};
        struct sigaction act = {.sa_handler = handler, .sa_flags = own ? SA_ONSTACK : 0};
        assert_int_equal(sigaltstack(&alternative, NULL), 0);
        sigaction(SIGUSR1, &act, NULL);
        for (int i = 0; i < 3; i++) {
            interrupted();
            check_against_reference(&in_handler);
        }
    }
    signal(SIGUSR1, SIG_DFL);
}

static void *in_thread(void *argument)
{
    kr_stack_thread thread = {0, 0};
    stack *stacks = argument;
    for (int i = 0; i < 2; i++) {
        deeper(&thread, &stacks[i], 4);
        check_against_reference(&stacks[i]);
    }
    return NULL;
}

static void threads_have_their_own_stacks(void **state)
{
    (void)state;
    static stack stacks[4][2];
    pthread_t threads[4];
    prepared(KR_STACK_AUTO);
    kr_stack_forget();
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, in_thread, stacks[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(stacks[i][0].count, stacks[i][1].count);
        assert_int_equal(stacks[i][0].count, stacks[0][0].count);
    }
}

static int go_on;
static void *note_on(void *unused)
{
    (void)unused;
    while (__atomic_load_n(&go_on, __ATOMIC_RELAXED)) {
        kr_modules_note(NULL, NULL, NULL);
        kr_stack_forget();
    }
    return NULL;
}

static void stacks_are_right_while_modules_are_noted(void **state)
{
    (void)state;
    pthread_t threads[2];
    static stack s;
    kr_stack_thread mine = {0, 0};
    prepared(KR_STACK_AUTO);
    __atomic_store_n(&go_on, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, note_on, NULL);
    for (int i = 0; i < 2000; i++) {
        deeper(&mine, &s, i % 7);
        check_against_reference(&s);
    }
    __atomic_store_n(&go_on, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- modules --------------------------------------------------------------------------------- */

typedef struct seen {
    bool self, libc, vdso, libc_has_id, in_order;
    uint64_t last;
    uint32_t count;
} seen;

static void see(void *context, const kr_module *m)
{
    seen *s = context;
    uint64_t self = (uint64_t)(uintptr_t)&see,
             libc = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version");
    s->in_order &= m->start >= s->last && m->end > m->start;
    s->last = m->end;
    s->count++;
    if (self >= m->start && self < m->end)
        s->self = strstr(m->path, "test_record_stack") != NULL && !m->is_gone;
    if (libc >= m->start && libc < m->end) {
        s->libc = strstr(m->path, "libc") != NULL;
        s->libc_has_id = m->build_id_bytes >= 8;
    }
    s->vdso |= strcmp(m->path, "[vdso]") == 0;
}

static void modules_are_listed_with_file_and_build(void **state)
{
    (void)state;
    seen s = {.in_order = true};
    kineto_error err = {.message = ""};
    assert_int_equal(kr_modules_note(see, &s, &err), KINETO_OK);
    assert_true(s.self);
    assert_true(s.libc);
    assert_true(s.libc_has_id);
    assert_true(s.in_order);
    assert_true(s.count >= 3);
    assert_false(kr_modules_are_stale());
    assert_int_equal(kr_module_of((uint64_t)(uintptr_t)&see), KR_MODULE_CODE);
    assert_int_equal(kr_module_of((uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "gnu_get_libc_version")),
                     KR_MODULE_RUNTIME);
    assert_int_equal(kr_module_of((uint64_t)(uintptr_t)&s), KR_MODULE_UNKNOWN);
    assert_int_equal(kr_module_of(0), KR_MODULE_UNKNOWN);
    assert_int_equal(kr_module_of(UINT64_MAX), KR_MODULE_UNKNOWN);
}

static void mappings_are_found_by_address(void **state)
{
    (void)state;
    uint64_t start, end, here = (uint64_t)(uintptr_t)&start;
    assert_true(kr_mapping_of(here, &start, &end));
    assert_true(start <= here && here < end);
    assert_false(kr_mapping_of(8, &start, &end));
    assert_false(kr_mapping_of(UINT64_MAX, &start, &end));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_captured_before_it_was_prepared),
        cmocka_unit_test(stacks_are_those_of_the_c_library),
        cmocka_unit_test(frame_pointers_alone_have_the_first_callers),
        cmocka_unit_test(a_caller_without_frame_pointer_is_not_left_out),
        cmocka_unit_test(any_calls_in_any_order_are_found),
        cmocka_unit_test(both_ways_end_at_the_same_address),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(words_name_the_ways),
        cmocka_unit_test(a_word_that_is_none_is_said_and_not_taken),
#if defined(__x86_64__)
        cmocka_unit_test(any_value_in_the_frame_pointer_is_survived),
        cmocka_unit_test(code_made_in_memory_is_noticed_and_passed),
#endif
        cmocka_unit_test(handlers_have_the_interrupted_stack_below_them),
        cmocka_unit_test(threads_have_their_own_stacks),
        cmocka_unit_test(stacks_are_right_while_modules_are_noted),
        cmocka_unit_test(modules_are_listed_with_file_and_build),
        cmocka_unit_test(mappings_are_found_by_address),
    };
    return RUN_TESTS(tests);
}

/* Stacks from copies: the C library's own backtrace() of the same moment is the independent answer. */
#include "unit.h"

#include "trace/unwind/unwind.h"

#include <execinfo.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__aarch64__)
#define MAX_STACK ((size_t)64 << 10)

typedef struct two_stacks {
    void *theirs[KU_MAX_FRAMES];
    int their_count;
    uint64_t ours[KU_MAX_FRAMES];
    uint32_t our_count;
    bool is_cut;
} two_stacks;

static ku_unwinder *unwinder;
static ku_images images;
static ku_address_space space;

/* The registers of this moment, by DWARF's numbers. */
#if defined(__aarch64__)
static void copy_registers(const ucontext_t *c, ku_stack_copy *copy)
{
    for (size_t i = 0; i <= KB_CFI_LINK; i++)
        copy->registers[i] = c->uc_mcontext.regs[i];
    copy->registers[KB_CFI_STACK] = c->uc_mcontext.sp;
    copy->instruction = c->uc_mcontext.pc;
}
#else
static void copy_registers(const ucontext_t *c, ku_stack_copy *copy)
{
    static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (size_t i = 0; i < KB_COUNT(order); i++)
        copy->registers[i] = (uint64_t)c->uc_mcontext.gregs[order[i]];
    copy->instruction = copy->registers[KB_CFI_RETURN];
}
#endif

static uint64_t stack_words[MAX_STACK / 8];

/* All of it, also what a sanitizer keeps between variables. */
#if defined(__GNUC__)
__attribute__((no_sanitize("address"), noinline))
#endif
static void copy_stack(const uint64_t *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / 8; i++)
        stack_words[i] = ((const volatile uint64_t *)from)[i];
}

__attribute__((noinline)) static void capture_both(two_stacks *s, size_t bytes)
{
    ucontext_t context;
    ku_stack_copy copy = {.bytes = (const uint8_t *)stack_words};
    s->their_count = backtrace(s->theirs, KU_MAX_FRAMES);
    assert_int_equal(getcontext(&context), 0);
    copy_registers(&context, &copy);
    const uint8_t *stack = (const uint8_t *)(uintptr_t)copy.registers[KB_CFI_STACK];
    extern char **environ; /* above everything that is of interest on this stack */
    size_t all = (size_t)((const uint8_t *)environ - stack);
    copy.size = KB_MIN(KB_MIN(bytes, all), MAX_STACK) & ~(size_t)7;
    copy_stack((const uint64_t *)(uintptr_t)stack, copy.size);
    s->our_count = ku_unwind(unwinder, &images, &space, &copy, s->ours, &s->is_cut);
}

/* The callers of capture_both, as far as ours go, are the same. A sanitizer's own frame may come before
 * them in theirs. @return how many callers theirs has. */
static uint32_t assert_same_callers(const two_stacks *s)
{
    int first = 1;
    assert_true(s->our_count > 1);
    while (first < s->their_count && s->ours[1] != (uint64_t)(uintptr_t)s->theirs[first])
        first++;
    for (uint32_t i = 1; i < s->our_count; i++) {
        assert_true(first + (int)i - 1 < s->their_count);
        assert_int_equal(s->ours[i], (uint64_t)(uintptr_t)s->theirs[first + (int)i - 1]);
    }
    return (uint32_t)(s->their_count - first);
}

static void assert_whole(const two_stacks *s)
{
    assert_int_equal(assert_same_callers(s), s->our_count - 1);
}

static void this_stack_is_found_whole(void **state)
{
    (void)state;
    two_stacks s;
    capture_both(&s, MAX_STACK);
    assert_true(s.our_count > 4);
    assert_false(s.is_cut);
    assert_whole(&s);
}

__attribute__((noinline)) static int descend(two_stacks *s, int depth, size_t bytes)
{
    volatile char room[48] = {0};
    if (depth > 0)
        return descend(s, depth - 1, bytes) + room[depth % 48];
    capture_both(s, bytes);
    return room[1];
}

static void a_deep_stack_is_found_whole(void **state)
{
    (void)state;
    two_stacks s;
    assert_int_equal(descend(&s, 80, MAX_STACK), 0);
    assert_true(s.our_count > 80);
    assert_whole(&s);
}

#if defined(__aarch64__)
/* Its return addresses are signed on processors with pointer authentication. */
__attribute__((noinline, target("branch-protection=pac-ret+leaf"))) static int
descend_signed(two_stacks *s, int depth, uint64_t *seen)
{
    volatile char room[48] = {0};
    *seen |= *((const uint64_t *)__builtin_frame_address(0) + 1);
    if (depth > 0)
        return descend_signed(s, depth - 1, seen) + room[depth % 48];
    capture_both(s, MAX_STACK);
    return room[1];
}

static void signed_return_addresses(void **state)
{
    (void)state;
    two_stacks s;
    uint64_t seen = 0;
    assert_int_equal(descend_signed(&s, 20, &seen), 0);
    if (!(seen >> 48))
        skip(); /* this processor does not sign */
    assert_true(s.our_count > 20);
    assert_whole(&s);
}
#else
static void signed_return_addresses(void **state)
{
    (void)state;
    skip();
}
#endif

static void a_stack_that_was_copied_in_part_is_cut(void **state)
{
    (void)state;
    two_stacks s;
    /* The innermost frame has a context, which is large on arm64. */
    assert_int_equal(descend(&s, 80, 3072 + sizeof(ucontext_t)), 0);
    assert_true(s.is_cut);
    assert_true(s.our_count > 5 && s.our_count < 80);
    assert_true(assert_same_callers(&s) > s.our_count);
}

static two_stacks of_callback;
static int compare_with_capture(const void *a, const void *b)
{
    if (!of_callback.our_count)
        capture_both(&of_callback, MAX_STACK);
    return *(const int *)a - *(const int *)b;
}

/* Through code of the C library, and its procedure linkage. */
static void a_callback_of_the_c_library(void **state)
{
    (void)state;
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof numbers[0], compare_with_capture);
    assert_whole(&of_callback);
}

static void rubbish_ends(void **state)
{
    (void)state;
    uint64_t seed = 1, frames[KU_MAX_FRAMES];
    for (int i = 0; i < 20000; i++) {
        ku_stack_copy copy = {.bytes = (const uint8_t *)stack_words, .size = 4096};
        for (uint32_t r = 0; r < KB_CFI_REGISTERS; r++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
            copy.registers[r] = seed >> 5;
        }
        const ku_mapping *m = &space.mappings.data[seed % space.mappings.count];
        copy.instruction = m->start + (seed >> 20) % (m->end - m->start);
        copy.registers[KB_CFI_STACK] = seed & ~UINT64_C(7);
        bool is_cut;
        uint32_t count = ku_unwind(unwinder, &images, &space, &copy, frames, &is_cut);
        assert_true(count >= 1 && count <= KU_MAX_FRAMES);
    }
}

/* ---- address spaces ---- */

static void mappings_replace_what_they_overlap(void **state)
{
    (void)state;
    ku_address_space s = {.pid = 1};
    assert_true(ku_space_add(&s, 0x1000, 0x4000, 0, "/a"));
    assert_true(ku_space_add(&s, 0x2000, 0x1000, 0x100, "/b"));
    assert_string_equal(ku_space_find(&s, 0x1fff)->path, "/a");
    assert_string_equal(ku_space_find(&s, 0x2000)->path, "/b");
    assert_null(ku_space_find(&s, 0xfff));
    assert_null(ku_space_find(&s, 0x5000));
    assert_true(ku_space_add(&s, 0x0, 0x10000, 0, "/c"));
    assert_int_equal(s.mappings.count, 1);
    assert_true(ku_space_add(&s, UINT64_MAX - 10, 20, 0, "/wraps"));
    assert_int_equal(s.mappings.count, 1);
    ku_space_free(&s);
}

/* What follows the part that was replaced keeps its place in the file. */
static void the_rest_of_a_mapping_keeps_its_offset(void **state)
{
    (void)state;
    ku_address_space s = {.pid = 1};
    assert_true(ku_space_add(&s, 0x1000, 0x3000, 0x5000, "/a"));
    assert_true(ku_space_add(&s, 0x0800, 0x1000, 0, "/b"));
    const ku_mapping *m = ku_space_find(&s, 0x1800);
    assert_non_null(m);
    assert_int_equal(m->start, 0x1800);
    assert_int_equal(m->file_offset, 0x5800);
    ku_space_free(&s);
}

/* A line of /proc/PID/maps: "start-end perm offset device inode path". */
static void add_maps_line(char *line)
{
    unsigned long long start, end, offset;
    char permissions[8];
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &start, &end, permissions, &offset,
               &path_at) < 4 ||
        path_at == 0 || permissions[2] != 'x' || end <= start)
        return;
    (void)ku_space_add(&space, start, end - start, offset, line + path_at);
}

static void read_own_mappings(void)
{
    char path[64], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "/proc/%u/maps", space.pid);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &room, f) > 0)
        add_maps_line(line);
    free(line);
    if (f)
        fclose(f);
}

static int open_all(void **state)
{
    (void)state;
    unwinder = ku_unwinder_create();
    space.pid = (uint32_t)getpid();
    read_own_mappings();
    return unwinder && space.mappings.count ? 0 : 1;
}

static int close_all(void **state)
{
    (void)state;
    ku_unwinder_destroy(unwinder);
    ku_images_free(&images);
    ku_space_free(&space);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_stack_is_found_whole),
        cmocka_unit_test(a_deep_stack_is_found_whole),
        cmocka_unit_test(signed_return_addresses),
        cmocka_unit_test(a_stack_that_was_copied_in_part_is_cut),
        cmocka_unit_test(a_callback_of_the_c_library),
        cmocka_unit_test(rubbish_ends),
        cmocka_unit_test(mappings_replace_what_they_overlap),
        cmocka_unit_test(the_rest_of_a_mapping_keeps_its_offset),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
#else
int main(void) { return 77; }
#endif

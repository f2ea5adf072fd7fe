/* Operators recorded with native stacks: the first frame is what called the operator, whichever way
 * it was begun, and however often. */
#include <ckineto/function.h>

#include "unit.h"

#include "../helpers/recording.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

KINETO_OPERATOR(site, "stacked");

#if defined(__clang__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define KEEP() __asm__ volatile("" ::: "memory") /* no tail call */

static NOINLINE void starts_an_operator(void)
{
    kineto_function f = {0};
    kineto_function_record_begin(&f, &site, NULL, 0);
    kineto_function_record_end(&f);
    KEEP();
}

static NOINLINE void starts_with_info(void)
{
    kineto_function f;
    kineto_function_info info;
    kineto_function_info_init(&info);
    kineto_function_record_begin_info(&f, &site, &info);
    kineto_function_record_end(&f);
    KEEP();
}

static NOINLINE void calls_in_turn(void (*operator)(void))
{
    operator();
    KEEP();
}

static kineto_session *record_stacks(void)
{
    kineto_session_options options;
    kineto_session *session = NULL;
    kineto_error err = {0};
    kineto_session_options_init(&options);
    options.kinds = KINETO_KINDS_ALL;
    options.operators = KINETO_OPERATORS_STACK;
    if (begin_session(&options, &session, &err))
        fail_msg("no session: %s", err.message);
    return session;
}

/* Frame number `index` of a row's stack ends with the function's name. */
static bool frame_is(const kineto_trace *t, kineto_row row, uint32_t index, const char *function)
{
    kineto_arg arg;
    if (!kineto_args_find(t, row, "Call stack", &arg))
        return false;
    const char *at = arg.text.data, *end = at + arg.text.size, *stop = NULL;
    for (uint32_t i = 0; i <= index; i++) {
        at = stop ? stop + 1 : at;
        stop = at < end ? memchr(at, ';', (size_t)(end - at)) : NULL;
        if (!stop)
            return false;
    }
    size_t size = strlen(function);
    return (size_t)(stop - at) >= size && memcmp(stop - size, function, size) == 0;
}

static void check(void (*operator)(void), const char *name)
{
    kineto_session *session = record_stacks();
    for (int i = 0; i < 5; i++)
        calls_in_turn(operator);
    kineto_trace *t = finish(session);
    assert_int_equal(kineto_trace_count(t), 5);
    for (kineto_row row = 0; row < 5; row++) {
        kineto_arg arg;
        if (!frame_is(t, row, 0, name) || !frame_is(t, row, 1, "calls_in_turn")) {
            bool has = kineto_args_find(t, row, "Call stack", &arg);
            fail_msg("row %u: %.*s", row, has ? (int)arg.text.size : 4,
                     has ? arg.text.data : "none");
        }
    }
    kineto_trace_release(t);
}

static void the_caller_is_the_first_frame(void **state)
{
    (void)state;
    check(starts_an_operator, "starts_an_operator");
}

static void the_caller_with_info_is_the_first_frame(void **state)
{
    (void)state;
    check(starts_with_info, "starts_with_info");
}

/* ---- code made in memory ----------------------------------------------------------------------- */

/* A function with a frame that calls its argument. */
#if defined(__x86_64__)
static const uint8_t made_code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
#elif defined(__aarch64__)
static const uint8_t made_code[] = {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x00, 0x00,
                                    0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6};
#else
static const uint8_t made_code[] = {0};
#endif

static void name_made_code(const char *path, const void *code)
{
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_true(dprintf(fd, "%llx %zx made_in_memory\n", (unsigned long long)(uintptr_t)code,
                        sizeof made_code) > 0);
    close(fd);
}

static void code_made_in_memory_has_the_name_that_its_maker_wrote(void **state)
{
    (void)state;
    char path[64];
    void (*made)(void (*)(void));
    if (sizeof made_code == 1)
        skip();
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(code != MAP_FAILED);
    memcpy(code, made_code, sizeof made_code);
    if (mprotect(code, 4096, PROT_READ | PROT_EXEC) != 0)
        skip(); /* some systems forbid generated code */
    __builtin___clear_cache((char *)code, (char *)code + sizeof made_code);
    memcpy(&made, &code, sizeof made);
    kineto_session *session = record_stacks();
    made(starts_an_operator);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    name_made_code(path, code);
    kineto_trace *t = finish(session);
    unlink(path);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_true(frame_is(t, 0, 0, "starts_an_operator"));
    assert_true(frame_is(t, 0, 1, "made_in_memory"));
    kineto_trace_release(t);
    munmap(code, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_caller_is_the_first_frame),
        cmocka_unit_test(the_caller_with_info_is_the_first_frame),
        cmocka_unit_test(code_made_in_memory_has_the_name_that_its_maker_wrote),
    };
    return RUN_TESTS(tests);
}

/* Plug-ins of today on hosts of the proposal's time, which have none of the appended members and
 * end their structs at unmapped memory. */
#include "../unit/unit.h"

#include <stdbool.h>

static char output[1 << 20];

static void run(const char *revision, const char *file)
{
    char command[4096];
    snprintf(command, sizeof command, "'%s' %s '%s' 2>&1", OLD_HOST, revision, file);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(output, 1, sizeof output - 1, p);
    output[n] = 0;
    int status = pclose(p);
    if (status)
        fail_msg("%s: status %x: %.2000s", command, (unsigned)status, output);
}

static unsigned count(const char *start_of_line)
{
    unsigned n = 0;
    size_t size = strlen(start_of_line);
    for (const char *line = output; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        n += strncmp(line, start_of_line, size) == 0;
    }
    return n;
}

static void check_frozen(const char *file)
{
    static const char *const revisions[] = {"0", "b"};
    for (size_t i = 0; i < 2; i++) {
        run(revisions[i], file);
        assert_int_equal(count("session"), 2);
        assert_int_equal(count("query frozen\n"), 1);
        assert_int_equal(count("event 6 501\nname frozen stepwise\nflow 1 10 1\n"
                               "metadata text=\"json\"\ndevice 1 Frozen device\n"
                               "resource 1 2 frozen queue\n"),
                         2);
        assert_int_equal(count("event"), 2);
    }
}

static void what_uses_all_of_today_works_on_old_hosts(void **state)
{
    (void)state;
    check_frozen(FROZEN_TODAY);
#if defined(__x86_64__) && defined(__LP64__)
    check_frozen(FROZEN_BINARY);
#endif
}

#ifdef SIM
/* It delivers while the program runs or not at all. */
static void what_needs_a_host_of_today_refuses_old_ones_cleanly(void **state)
{
    static const char *const revisions[] = {"0", "b"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        run(revisions[i], SIM);
        assert_string_equal(output, "refused\n");
    }
}
#endif

#ifdef VENDOR
static void the_vendor_example_works_on_old_hosts(void **state)
{
    static const char *const revisions[] = {"0", "b"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        run(revisions[i], VENDOR);
        assert_int_equal(count("query Acme\n"), 1);
        assert_int_equal(count("session"), 2);
        assert_true(count("event 6 ") >= 2);
        assert_true(count("name heartbeat\n") >= 2);
        assert_true(count("metadata number=0\n") == 2);
        assert_int_equal(count("device 0 Acme 9000\n"), 2);
        assert_int_equal(count("resource 0 1 heart\n"), 2);
    }
}
#endif

static void old_plug_ins_work_there_of_course(void **state)
{
    (void)state;
#ifdef FOREIGN_DIR
    run("b", FOREIGN_DIR "/foreign-b.so");
    assert_int_equal(count("event "), 2 * 24);
    run("0", FOREIGN_DIR "/foreign-0.so");
    assert_int_equal(count("event "), 2 * 2);
#else
    puts("there is no C++ compiler");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_uses_all_of_today_works_on_old_hosts),
#ifdef SIM
        cmocka_unit_test(what_needs_a_host_of_today_refuses_old_ones_cleanly),
#endif
#ifdef VENDOR
        cmocka_unit_test(the_vendor_example_works_on_old_hosts),
#endif
        cmocka_unit_test(old_plug_ins_work_there_of_course),
    };
    return RUN_TESTS(tests);
}

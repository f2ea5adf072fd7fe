/* What the environment and the installation load into a program, each in a process of its own:
 * when, in which order, and what keeps them from it. */
#include "plugin_tests.h"

#include <limits.h>
#include <sys/stat.h>

#define SO(name) SMALL_DIR "/small-" name ".so"

static char folder[200];
static char output[65536];

static int folder_make(void **state)
{
    (void)state;
    return make_directory(folder, sizeof folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void put_directory(const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void put_link(const char *name, const char *target)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(symlink(target, path), 0);
}

/* Two directories, as in most of the tests. */
static void put_both(void)
{
    put_directory("x");
    put_directory("y");
    put_link("x/2.so", SO("two"));
    put_link("x/1.so", SO("one"));
    put_link("y/3.so", SO("three"));
}

/* Runs a command of the shell, in which $T is the folder; what it writes is in `output`. */
static void run(const char *environment, const char *command)
{
    char line[4096];
    snprintf(line, sizeof line, "T='%s'; export %s; %s", folder, environment, command);
    FILE *p = popen(line, "r");
    assert_non_null(p);
    size_t n = fread(output, 1, sizeof output - 1, p);
    output[n] = 0;
    int status = pclose(p);
    if (status)
        fail_msg("%s: status %x: %.2000s", line, (unsigned)status, output);
}

#define LOADED_ALONE LOADED " \"$T/\""
#define STATIC_ALONE LOADED_STATIC " \"$T/\""
#define NO_VARIABLE  "KINETO_LOG_LEVEL=4"
#define DIRECTORIES  "KINETO_LOG_LEVEL=4 KINETO_PLUGIN_LIB_DIR_PATH=\"$T/y:$T/x\""
#define BOTH_LOADED(when)                                                                          \
    when " loaded y/3.so three b \n" when " loaded x/1.so one b \n" when " loaded x/2.so two b \n"

static void directories_are_loaded_at_the_first_session_and_once(void **state)
{
    (void)state;
    put_both();
    run(DIRECTORIES, LOADED_ALONE);
    assert_string_equal(output, BOTH_LOADED("first") BOTH_LOADED("second"));
    run(DIRECTORIES, STATIC_ALONE);
    assert_string_equal(output, BOTH_LOADED("first") BOTH_LOADED("second"));
}

static void revisions_are_given_with_directories(void **state)
{
    (void)state;
    put_both();
    run("KINETO_LOG_LEVEL=4 KINETO_PLUGIN_LIB_DIR_PATH=\"$T/none:$T/y,rev=early\"", LOADED_ALONE);
    assert_non_null(strstr(output, "first refused none - b cannot read the directory: No such"));
    assert_non_null(strstr(output, "\nfirst loaded y/3.so three early \n"));
}

/* Who records from outside has decided what is loaded, if it is nothing. */
static void a_recorder_overrides_directories(void **state)
{
    (void)state;
    put_both();
    run(DIRECTORIES " CKINETO_PLUGINS=", LOADED_ALONE);
    assert_string_equal(output, "");
    run(DIRECTORIES " CKINETO_PLUGINS=\"$T/x/1.so\"", LOADED_ALONE); /* there is no recorder */
    assert_string_equal(output, "");
}

static void put_installation(void)
{
    put_directory("lib");
    put_directory("lib/ckineto");
    put_link("lib/libckineto.so.0", LIBRARY);
    put_link("lib/libckineto-rt.so.0", RT);
}

static void plug_ins_next_to_the_library_are_loaded_last(void **state)
{
    (void)state;
    put_both();
    put_installation();
    run(DIRECTORIES " LD_LIBRARY_PATH=\"$T/lib\"", LOADED_ALONE);
    assert_string_equal(output, BOTH_LOADED("first") BOTH_LOADED("second")); /* there are none */
    put_directory("lib/ckineto/plugins");
    put_link("lib/ckineto/plugins/4.so", SO("four"));
    put_link("lib/ckineto/plugins/3.so", SO("three"));
    run(DIRECTORIES " LD_LIBRARY_PATH=\"$T/lib\"", LOADED_ALONE);
    const char *expected =
        BOTH_LOADED("first") "first skipped lib/ckineto/plugins/3.so - b loaded already as ";
    assert_memory_equal(output, expected, strlen(expected));
    assert_non_null(strstr(output, "\nfirst loaded lib/ckineto/plugins/4.so four b \n"));
    run(NO_VARIABLE " LD_LIBRARY_PATH=\"$T/lib\"", LOADED_ALONE);
    expected = "first loaded lib/ckineto/plugins/3.so three b \n"
               "first loaded lib/ckineto/plugins/4.so four b \n";
    assert_memory_equal(output, expected, strlen(expected));
}

/* ---- recorded from outside --------------------------------------------------------------------------- */

/* The library is preloaded, its sanitizer with it. */
#define RECORD                                                                                     \
    "ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 " COMMAND                                 \
    " record -q --no-plugins -o \"$T/trace.json\" "

static uint64_t count_in_trace(const char *name)
{
    char path[PATH_MAX];
    kineto_trace *t = NULL;
    kineto_error err = {0};
    snprintf(path, sizeof path, "%s/trace.json", folder);
    if (kineto_trace_open(path, &t, &err))
        fail_msg("%s", err.message);
    uint64_t n = count_named(t, name);
    kineto_trace_release(t);
    return n;
}

/* From the start, and directories are not looked at; its own session gets the events, too. */
static void what_the_recorder_names_is_loaded_at_the_start(void **state)
{
    (void)state;
    put_both();
    run(DIRECTORIES,
        RECORD "--plugin \"$T/x/2.so\" --plugin \"$T/y/3.so,rev=early\" -- " LOADED_ALONE);
    assert_non_null(
        strstr(output, "start loaded x/2.so two b \nstart loaded y/3.so three early \n"));
    assert_null(strstr(output, "x/1.so"));
    assert_int_equal(count_in_trace("one"), 0);
    assert_true(count_in_trace("two") >= 1);
    assert_true(count_in_trace("three") >= 1);
}

/* The program's own copy of the recorder and the preloaded one would each give the plug-in a
 * session. */
static void two_copies_of_the_recorder_load_a_plug_in_once(void **state)
{
    (void)state;
    put_both();
    run(NO_VARIABLE, RECORD "--plugin \"$T/x/1.so\" -- " LOADED_STATIC);
    assert_int_equal(count_in_trace("one"), 1);
    run(NO_VARIABLE, RECORD "--plugin \"$T/x/1.so\" -- " LOADED);
    assert_int_equal(count_in_trace("one"), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directories_are_loaded_at_the_first_session_and_once),
        TEST(revisions_are_given_with_directories),
        TEST(a_recorder_overrides_directories),
        TEST(plug_ins_next_to_the_library_are_loaded_last),
        TEST(what_the_recorder_names_is_loaded_at_the_start),
        TEST(two_copies_of_the_recorder_load_a_plug_in_once),
    };
    return RUN_TESTS(tests);
}

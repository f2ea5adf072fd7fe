/* Loading and unloading: order, what is refused or skipped and why, the table of it all, and
 * loading while others record, load or unload. */
#include "plugin_tests.h"

#include <limits.h>
#include <sys/stat.h>

#define SO(name) SMALL_DIR "/small-" name ".so"

/* ---- a directory of symbolic links -------------------------------------------------------------- */

static char folder[200];

static const char *in_folder(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % COUNT_OF(paths)];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static void put_link(const char *name, const char *target)
{
    assert_int_equal(symlink(target, in_folder(name)), 0);
}

static void put_text(const char *name, const char *text)
{
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void put_directory(const char *name) { assert_int_equal(mkdir(in_folder(name), 0755), 0); }

static int folder_make(void **state)
{
    (void)state;
    return make_directory(folder, sizeof folder) ? 0 : -1;
}

static int folder_remove(void **state)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return unload_all(state) || system(command);
}

/* Names of what is loaded out of the folder, in the table's order: "one two". */
static const char *loaded(void)
{
    static char text[512];
    text[0] = 0;
    for (uint32_t i = 0; i < kineto_plugin_count(); i++) {
        kineto_plugin_info info = info_at(i);
        size_t n = strlen(text);
        if (info.state == KINETO_PLUGIN_LOADED)
            snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "",
                     info.name[0] ? info.name : "-");
    }
    return text;
}

static void expect(const char *path, uint32_t state, const char *reason)
{
    kineto_plugin_info info = info_of(path);
    if (info.state != state || !strstr(info.reason, reason))
        fail_msg("%s: state %u, reason '%s'", path, info.state, info.reason);
}

static void expect_failure(kineto_status expected, const char *path, const char *options,
                           const char *message)
{
    kineto_error err = {0};
    assert_int_equal(kineto_plugin_load(path, options, &err), expected);
    assert_int_equal(err.code, expected);
    if (!strstr(err.message, message))
        fail_msg("the message is '%s'", err.message);
}

/* ---- directories ---------------------------------------------------------------------------------- */

static void files_load_in_the_order_of_their_names_bytes(void **state)
{
    (void)state;
    put_link("a.so", SO("one"));
    put_link("_.so", SO("two"));
    put_link("B.so", SO("three"));
    put_link("9.so", SO("four"));
    put_link("10.so", SO("five"));
    put_link("other.so.1", SO("pair"));
    put_link("so", SO("pair"));
    put_text("README", "no library");
    assert_int_equal(kineto_plugin_load_directories(folder), 5);
    assert_string_equal(loaded(), "five four three two one");
    assert_int_equal(info_of(in_folder("other.so.1")).state, UINT32_MAX);
    assert_int_equal(info_of(in_folder("README")).state, UINT32_MAX);
}

static void directories_load_in_the_order_given(void **state)
{
    (void)state;
    char list[1024];
    put_directory("x");
    put_directory("y");
    put_directory("z,rev=a"); /* a directory of that name, no option */
    put_link("x/1.so", SO("one"));
    put_link("y/1.so", SO("two"));
    put_link("y/0.so", SO("three"));
    put_link("z,rev=a/0.so", SO("four"));
    snprintf(list, sizeof list, ":%s/z,rev=a::%s/y,rev=early:%s/missing:%s/x/:", folder, folder,
             folder, folder);
    assert_int_equal(kineto_plugin_load_directories(list), 4);
    assert_string_equal(loaded(), "four three two one");
    assert_string_equal(info_of(in_folder("z,rev=a/0.so")).revision, "b");
    assert_string_equal(info_of(in_folder("y/0.so")).revision, "early");
    assert_string_equal(info_of(in_folder("x//1.so")).revision, "b");
    expect(in_folder("missing"), KINETO_PLUGIN_REFUSED, "No such file");
    assert_int_equal(kineto_plugin_load_directories(NULL), 0);
    assert_int_equal(kineto_plugin_load_directories(""), 0);
    assert_int_equal(kineto_plugin_load_directories(":::"), 0);
}

/* As a copy that ran out of disk leaves it. Beyond its segments nothing is needed of a library. */
static void a_library_that_was_cut_off_is_refused(void **state)
{
    (void)state;
    char command[PATH_MAX * 2];
    const char *path = in_folder("cut.so");
    struct stat whole;
    uint32_t refused = 0, sizes = 0;
    assert_int_equal(stat(SO("one"), &whole), 0);
    for (off_t size = 0; size < whole.st_size; size += 1 + whole.st_size / 40, sizes++) {
        snprintf(command, sizeof command, "rm -f '%s' && head -c %lld '" SO("one") "' > '%s'", path,
                 (long long)size, path);
        assert_int_equal(system(command), 0);
        refused += kineto_plugin_load(path, NULL, NULL) != KINETO_OK;
        (void)kineto_plugin_unload(path, NULL);
    }
    assert_true(refused > 1 && sizes >= 20);
    snprintf(command, sizeof command, "head -c 9000 '" SO("one") "' > '%s'", path);
    assert_int_equal(system(command), 0);
    expect_failure(KINETO_E_FORMAT, path, NULL, "the file ends early");
}

static void what_is_not_a_plug_in_says_why(void **state)
{
    (void)state;
    put_text("1-text.so",
             "/* GNU ld script: it has the name of a library, and is a text. */\nGROUP ( x.so )\n");
    put_text("2-empty.so", "");
    put_link("3-part.so", SO("library"));
    put_link("4-refuses.so", SO("refuses"));
    put_link("5-fails.so", SO("fails"));
    put_directory("6-directory.so");
    assert_int_equal(mkfifo(in_folder("7-fifo.so"), 0600), 0);
    put_link("8-dangling.so", "/nowhere/at/all");
    put_link("9-good.so", SO("one"));
    assert_int_equal(kineto_plugin_load_directories(folder), 1);
    assert_string_equal(loaded(), "one");
    expect(in_folder("1-text.so"), KINETO_PLUGIN_REFUSED, "invalid ELF header");
    expect(in_folder("2-empty.so"), KINETO_PLUGIN_REFUSED, "file too short");
    expect(in_folder("3-part.so"), KINETO_PLUGIN_SKIPPED, "exports no KinetoPlugin_register");
    expect(in_folder("4-refuses.so"), KINETO_PLUGIN_REFUSED, "KinetoPlugin_register returned 7");
    expect(in_folder("5-fails.so"), KINETO_PLUGIN_REFUSED, "no device is there");
    expect(in_folder("6-directory.so"), KINETO_PLUGIN_SKIPPED, "not a regular file");
    expect(in_folder("7-fifo.so"), KINETO_PLUGIN_SKIPPED, "not a regular file");
    expect(in_folder("8-dangling.so"), KINETO_PLUGIN_REFUSED, "No such file");
    expect(in_folder("9-good.so"), KINETO_PLUGIN_LOADED, "");
    assert_false(is_in_process(SO("library")));
    assert_false(is_in_process(SO("refuses")));
    assert_false(is_in_process(SO("fails")));
    assert_null(strstr(info_of(in_folder("1-text.so")).reason, folder)); /* the path is said once */

    kineto_trace *t = finish(record());
    assert_true(has_detail(t, "loaded", "/9-good.so"));
    assert_true(has_detail(t, "refused", "1-text.so: "));
    assert_true(has_detail(t, "refused", "5-fails.so: its KinetoPlugin_register returned"));
    assert_true(has_detail(t, "skipped", "3-part.so: exports no"));
    assert_int_equal(ledger(t, "refuses", "delivered"),
                     0); /* it had registered, and was withdrawn */
    assert_int_equal(count_named(t, "one"), 1);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_nothing_lost(t);
    kineto_trace_release(t);
}

/* What one refusal said is not said of the next. */
static void reasons_are_not_carried_over(void **state)
{
    (void)state;
    put_link("1.so", SO("fails"));
    put_link("2.so", SO("refuses"));
    assert_int_equal(kineto_plugin_load_directories(folder), 0);
    expect(in_folder("1.so"), KINETO_PLUGIN_REFUSED, "no device is there");
    assert_string_equal(info_of(in_folder("2.so")).reason, "its KinetoPlugin_register returned 7");
}

/* ---- one file -------------------------------------------------------------------------------------- */

static void a_file_is_loaded_once_under_whatever_name(void **state)
{
    (void)state;
    put_link("again.so", SO("one"));
    put_directory("other");
    put_link("other/one.so", in_folder("again.so"));
    load(SO("one"), NULL);
    expect_failure(KINETO_E_STATE, in_folder("again.so"), NULL, "loaded already as " SO("one"));
    expect_failure(KINETO_E_STATE, in_folder("other/one.so"), NULL, "loaded already as");
    expect_failure(KINETO_E_STATE, SO("one"), "rev=early", "loaded already as");
    expect(in_folder("again.so"), KINETO_PLUGIN_SKIPPED, "loaded already as " SO("one"));
    assert_string_equal(loaded(), "one");
    unload(in_folder("again.so")); /* by any name */
    assert_string_equal(loaded(), "");
}

static void wrong_arguments_are_errors(void **state)
{
    (void)state;
    char longest[2000];
    memset(longest, 'x', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    uint32_t before = kineto_plugin_count();
    expect_failure(KINETO_E_ARGUMENT, NULL, NULL, "must not be NULL");
    expect_failure(KINETO_E_ARGUMENT, "", NULL, "must not be empty");
    expect_failure(KINETO_E_ARGUMENT, SO("one"), "rev=c", "'rev=c'");
    expect_failure(KINETO_E_ARGUMENT, SO("one"), "b", "'b'");
    expect_failure(KINETO_E_ARGUMENT, SO("one"), "rev=", "'rev='");
    expect_failure(KINETO_E_ARGUMENT, longest, NULL, "longer than");
    assert_int_equal(kineto_plugin_unload(NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_plugin_count(), before);
    expect_failure(KINETO_E_NOT_FOUND, in_folder("nothing.so"), NULL, "No such file");
    expect_failure(KINETO_E_NOT_FOUND, "libc.so.6", NULL, "No such file"); /* not searched for */
    expect_failure(KINETO_E_FORMAT, folder, NULL, "not a regular file");
    expect_failure(KINETO_E_FORMAT, SO("library"), NULL, "exports no KinetoPlugin_register");
    expect_failure(KINETO_E_PLUGIN, SO("refuses"), NULL, "returned 7");
    assert_int_equal(kineto_plugin_load(SO("refuses"), NULL, NULL), KINETO_E_PLUGIN);
}

static void a_path_may_be_relative(void **state)
{
    (void)state;
    char here[PATH_MAX];
    put_link("near.so", SO("one"));
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    load("near.so", NULL);
    assert_int_equal(chdir(here), 0);
    expect(in_folder("near.so"), KINETO_PLUGIN_LOADED, "");
    unload(in_folder("near.so"));
}

static void unloading_closes_and_loading_again_works(void **state)
{
    (void)state;
    put_link("kept.so", SO("one"));
    put_link("gone.so", SO("two"));
    for (int i = 0; i < 5; i++) {
        load(in_folder("gone.so"), NULL);
        load(in_folder("kept.so"), NULL);
        assert_string_equal(loaded(), "two one");
        unload(in_folder("gone.so"));
        assert_false(is_in_process(SO("two")));
        expect(in_folder("gone.so"), KINETO_PLUGIN_UNLOADED, "");
        assert_string_equal(loaded(), "one");
        kineto_trace *t = finish(record());
        assert_int_equal(count_named(t, "one"), 1);
        assert_int_equal(kineto_trace_count(t), 1);
        kineto_trace_release(t);
        assert_int_equal(kineto_plugin_unload(in_folder("gone.so"), NULL), KINETO_E_NOT_FOUND);
        unload(in_folder("kept.so"));
    }
    assert_int_equal(kineto_plugin_unload(in_folder("never.so"), NULL), KINETO_E_NOT_FOUND);
    load(in_folder("gone.so"), NULL);
    assert_int_equal(unlink(in_folder("gone.so")), 0); /* its name is enough */
    unload(in_folder("gone.so"));
    assert_false(is_in_process(SO("two")));
}

/* ---- what else a library may do ------------------------------------------------------------------- */

static void a_library_may_have_several_profilers_or_none(void **state)
{
    (void)state;
    load(SO("none"), NULL);
    load(SO("pair"), NULL);
    load(SO("one"), NULL);
    assert_string_equal(loaded(), "- pair pair one");
    assert_string_equal(info_of(SO("none")).name, "");
    kineto_trace *t = finish(record());
    assert_int_equal(count_named(t, "pair"), 2);
    kineto_trace_release(t);
    unload(SO("pair"));
    assert_string_equal(loaded(), "- one");
}

static void constructors_may_load_plug_ins(void **state)
{
    (void)state;
    load(SO("nested"), NULL);
    assert_string_equal(loaded(), "nested one");
    kineto_trace *t = finish(record());
    assert_int_equal(count_named(t, "nested"), 1);
    assert_int_equal(count_named(t, "one"), 1);
    kineto_trace_release(t);
}

/* Its profiler points into it: it cannot be closed, though it is not a plug-in. */
static void a_library_that_registers_by_itself_stays(void **state)
{
    (void)state;
    expect_failure(KINETO_E_FORMAT, SO("part"), NULL, "kept");
    expect(SO("part"), KINETO_PLUGIN_SKIPPED, "kept");
    assert_true(is_in_process(SO("part")));
    uint32_t last = kineto_plugin_count() - 1;
    assert_int_equal(info_at(last).state, KINETO_PLUGIN_BUILT_IN);
    assert_string_equal(info_at(last).name, "part");
    assert_string_equal(info_at(last).path, "");
    kineto_trace *t = finish(record());
    assert_int_equal(count_named(t, "part"), 1);
    kineto_trace_release(t);
    void (*withdraw)(void);
    *(void **)&withdraw = function_of(SO("part"), "small_withdraw");
    withdraw();
    assert_int_equal(kineto_plugin_count(), last);
}

static void a_plug_in_cannot_unload_itself_while_it_is_called(void **state)
{
    (void)state;
    load(SO("unloads"), NULL);
    kineto_trace *t = finish(record());
    int (*answer)(void);
    *(void **)&answer = function_of(SO("unloads"), "small_answer");
    assert_int_equal(answer(), KINETO_E_STATE);
    assert_int_equal(count_named(t, "unloads"), 1);
    kineto_trace_release(t);
    assert_string_equal(loaded(), "unloads");
    unload(SO("unloads"));
}

static void a_forks_child_loads_and_unloads_on_its_own(void **state)
{
    (void)state;
    load(SO("one"), NULL);
    kineto_session *s = record();
    pid_t child = fork();
    if (child == 0) {
        bool good = kineto_plugin_load(SO("two"), NULL, NULL) == KINETO_OK &&
                    kineto_plugin_unload(SO("one"), NULL) == KINETO_OK &&
                    strcmp(loaded(), "two") == 0;
        _exit(good ? 0 : 1);
    }
    assert_exit(child, 0);
    kineto_trace *t = finish(s);
    assert_int_equal(count_of_pid(t, "one", 0),
                     1); /* device 0, here: the child's end was not ours */
    kineto_trace_release(t);
    assert_string_equal(loaded(), "one");
}

/* ---- while a session runs ------------------------------------------------------------------------- */

static void plug_ins_that_come_and_go_during_a_session_take_part(void **state)
{
    (void)state;
    kineto_session *s = record();
    load(SO("one"), NULL);
    load(SO("two"), NULL);
    unload(SO("one")); /* hands over what it has */
    assert_false(is_in_process(SO("one")));
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "one"), 1);
    assert_int_equal(count_named(t, "two"), 1);
    assert_int_equal(kineto_trace_count(t), 2);
    assert_nothing_lost(t);
    assert_true(has_detail(t, "loaded", "small-one.so"));
    kineto_trace_release(t);
}

typedef struct loader_thread {
    const char *path;
    uint32_t loaded;
} loader_thread;

static void *load_and_unload(void *argument)
{
    loader_thread *me = argument;
    for (int i = 0; i < 100; i++) {
        kineto_status status = kineto_plugin_load(me->path, NULL, NULL);
        if (status == KINETO_OK) {
            me->loaded++;
            if (kineto_plugin_unload(me->path, NULL) != KINETO_OK)
                return NULL;
        } else if (status != KINETO_E_STATE) {
            return NULL;
        }
    }
    return argument;
}

/* Its constructor registers, and the linker's own lock is held meanwhile. */
static void *open_and_close(void *argument)
{
    for (int i = 0; i < 100; i++) {
        void *library = dlopen(SO("part"), RTLD_NOW);
        void (*withdraw)(void);
        if (!library)
            return NULL;
        *(void **)&withdraw = dlsym(library, "small_withdraw");
        withdraw();
        dlclose(library);
    }
    return argument;
}

static void *look(void *argument)
{
    uint32_t *stop = argument;
    kineto_plugin_info info = {.size = sizeof info};
    while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
        for (uint32_t i = kineto_plugin_count(); i-- > 0;)
            (void)kineto_plugin_info_get(i, &info);
    return argument;
}

static void threads_may_load_and_unload_at_once(void **state)
{
    (void)state;
    loader_thread threads[] = {{SO("one"), 0}, {SO("one"), 0}, {SO("two"), 0}, {SO("three"), 0}};
    pthread_t ids[COUNT_OF(threads)];
    uint32_t stop = 0, sum = 0;
    pthread_t looker = start_thread(look, &stop), opener = start_thread(open_and_close, &stop);
    void *result;
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ids[i] = start_thread(load_and_unload, &threads[i]);
    for (int i = 0; i < 20; i++)
        kineto_trace_release(finish(record()));
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(ids[i], &result), 0);
        assert_non_null(result);
        sum += threads[i].loaded;
    }
    assert_int_equal(pthread_join(opener, &result), 0);
    assert_non_null(result);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(looker, NULL), 0);
    assert_true(sum >= 200);
    assert_string_equal(loaded(), "");
}

/* ---- the table --------------------------------------------------------------------------------------- */

static void the_table_is_bounded_and_keeps_what_is_loaded(void **state)
{
    (void)state;
    char name[32];
    load(SO("one"), NULL);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "%03d.so", i);
        expect_failure(KINETO_E_NOT_FOUND, in_folder(name), NULL, "No such file");
    }
    load(SO("two"), NULL);
    assert_true(kineto_plugin_count() <= 64);
    assert_string_equal(loaded(), "one two");
    expect(in_folder("299.so"), KINETO_PLUGIN_REFUSED, "No such file");
    assert_int_equal(info_of(in_folder("000.so")).state, UINT32_MAX);
}

static void the_same_failure_again_is_one_entry(void **state)
{
    (void)state;
    expect_failure(KINETO_E_NOT_FOUND, in_folder("x.so"), NULL, "No such file");
    uint32_t count = kineto_plugin_count();
    for (int i = 0; i < 3; i++)
        expect_failure(KINETO_E_NOT_FOUND, in_folder("x.so"), NULL, "No such file");
    assert_int_equal(kineto_plugin_count(), count);
    put_link("x.so", SO("one")); /* now it is there */
    load(in_folder("x.so"), NULL);
    assert_int_equal(kineto_plugin_count(), count);
    expect(in_folder("x.so"), KINETO_PLUGIN_LOADED, "");
    assert_string_equal(info_of(in_folder("x.so")).reason, "");
}

static void entries_are_given_by_size(void **state)
{
    (void)state;
    load(SO("one"), NULL);
    uint32_t last = kineto_plugin_count() - 1;
    union {
        kineto_plugin_info info;
        unsigned char bytes[sizeof(kineto_plugin_info) + 16];
    } u;
    memset(&u, 0xee, sizeof u);
    u.info.size = offsetof(kineto_plugin_info, name);
    assert_true(kineto_plugin_info_get(last, &u.info));
    assert_int_equal(u.info.type_count, 1);
    assert_int_equal(u.bytes[offsetof(kineto_plugin_info, name)], 0xee);
    memset(&u, 0xee, sizeof u);
    u.info.size = sizeof u;
    assert_true(kineto_plugin_info_get(last, &u.info));
    assert_int_equal(u.bytes[sizeof u - 1], 0xee);
    assert_string_equal(u.info.name, "one");
    assert_int_equal(u.info.types[0], KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    assert_true(u.info.kinds == KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL));
    assert_false(kineto_plugin_info_get(last + 1, &u.info));
    u.info.size = 0;
    assert_false(kineto_plugin_info_get(last, &u.info));
    assert_false(kineto_plugin_info_get(last, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_load_in_the_order_of_their_names_bytes),
        TEST(directories_load_in_the_order_given),
        TEST(a_library_that_was_cut_off_is_refused),
        TEST(what_is_not_a_plug_in_says_why),
        TEST(reasons_are_not_carried_over),
        TEST(a_file_is_loaded_once_under_whatever_name),
        TEST(wrong_arguments_are_errors),
        TEST(a_path_may_be_relative),
        TEST(unloading_closes_and_loading_again_works),
        TEST(a_library_may_have_several_profilers_or_none),
        TEST(constructors_may_load_plug_ins),
        TEST(a_library_that_registers_by_itself_stays),
        TEST(a_plug_in_cannot_unload_itself_while_it_is_called),
        TEST(a_forks_child_loads_and_unloads_on_its_own),
        TEST(plug_ins_that_come_and_go_during_a_session_take_part),
        TEST(threads_may_load_and_unload_at_once),
        TEST(the_table_is_bounded_and_keeps_what_is_loaded),
        TEST(the_same_failure_again_is_one_entry),
        TEST(entries_are_given_by_size),
    };
    return RUN_TESTS(tests);
}

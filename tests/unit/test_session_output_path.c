/* Where requests may write, and how files are called. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../helpers/without_openat2.h"
#include "ondemand/request/request.h"

#define PID 4321u

static char allowed[200], elsewhere[200];
static char out[KO_REQUEST_PATH_BYTES];
static kineto_error err;

static kineto_status resolve(const char *log_file, ko_request_source source)
{
    ko_request r;
    ko_request_init(&r);
    assert_true(strlen(log_file) < sizeof r.log_file);
    snprintf(r.log_file, sizeof r.log_file, "%s", log_file);
    err = (kineto_error){0};
    snprintf(out, sizeof out, "untouched");
    return ko_request_output_path(&r, source, PID, out, &err);
}

/* `tail` is put after the allowed directory. */
static kineto_status request(const char *tail)
{
    char path[2048];
    snprintf(path, sizeof path, "%s%s", allowed, tail);
    return resolve(path, KO_FROM_REQUEST);
}

static void allows(const char *tail, const char *expected)
{
    char path[2048];
    if (request(tail) != KINETO_OK)
        fail_msg("%s: %s", tail, err.message);
    snprintf(path, sizeof path, "%s%s", allowed, expected);
    assert_string_equal(out, path);
}

static void refuses(const char *tail, kineto_status status, const char *says)
{
    assert_int_equal(request(tail), status);
    assert_int_equal(err.code, status);
    assert_string_equal(out, "untouched");
    if (!strstr(err.message, says))
        fail_msg("'%s' is not in '%s'", says, err.message);
}

/* ---- a place to try it ----------------------------------------------------------------------- */

static void make(const char *tail, char what, const char *target)
{
    char path[400];
    snprintf(path, sizeof path, "%s%s", allowed, tail);
    if (what == 'd')
        assert_int_equal(mkdir(path, 0700), 0);
    else if (what == 'l')
        assert_int_equal(symlink(target, path), 0);
    else if (what == 'p')
        assert_int_equal(mkfifo(path, 0600), 0);
    else
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static int begin(void **state)
{
    (void)state;
    assert_non_null(make_directory(allowed, sizeof allowed));
    assert_non_null(make_directory(elsewhere, sizeof elsewhere));
    make("/in", 'd', NULL);
    make("/in/deep", 'd', NULL);
    make("/out", 'l', elsewhere);
    make("/here", 'l', "in");
    make("/in/up", 'l', "..");
    make("/link_4321.json", 'l', "/etc/passwd");
    make("/dangling_4321.json", 'l', "nothing");
    make("/pipe_4321.json", 'p', NULL);
    make("/dir_4321.json", 'd', NULL);
    make("/old_4321.json", 'f', NULL);
    make("/a_4321=b.json", 'f', NULL);
    make("/locked", 'd', NULL);
    return setenv("KINETO_ONDEMAND_TRACE_DIR", allowed, 1);
}

static int end(void **state)
{
    (void)state;
    char command[500];
    snprintf(command, sizeof command, "rm -rf -- '%s' '%s'", allowed, elsewhere);
    return system(command);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void the_number_of_the_process_stands_where_kineto_puts_it(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"x.json", "x_4321.json"},
        {"x.pt.trace.json", "x_4321.pt.trace.json"},
        {"x.json.pt.trace.json", "x.json_4321.pt.trace.json"},
        {"x.json.json.gz", "x_4321.json.json.gz"},
        {"x", "x_4321"},
        {"x.txt", "x.txt_4321"},
        {"x.pftrace", "x_4321.pftrace"}, /* goes on saying what it is: Kineto does not know it */
        {"x.jsonl.zst", "x_4321.jsonl.zst"},
        {"x.speedscope.json", "x_4321.speedscope.json"},
        {"/tmp/d.json/x", "/tmp/d.json/x_4321"},
        {"../x.json", "../x_4321.json"},
        {".json", "_4321.json"},
    };
    for (size_t i = 0; i < KB_COUNT(names); i++)
        for (ko_request_source source = KO_FROM_FILE; source <= KO_FROM_ARGUMENT; source += 2) {
            assert_int_equal(resolve(names[i][0], source), KINETO_OK);
            assert_string_equal(out, names[i][1]);
        }
}

static void without_a_name_there_is_one(void **state)
{
    (void)state;
    char expected[300];
    ko_request r;
    ko_request_init(&r);
    for (int source = KO_FROM_FILE; source <= KO_FROM_ARGUMENT; source++) {
        r.memory_snapshot = false;
        assert_int_equal(ko_request_output_path(&r, source, PID, out, &err), KINETO_OK);
        snprintf(expected, sizeof expected, "%s/libkineto_activities_4321.json", allowed);
        assert_string_equal(out, expected);
        r.memory_snapshot = true;
        assert_int_equal(ko_request_output_path(&r, source, PID, out, &err), KINETO_OK);
        snprintf(expected, sizeof expected, "%s/memory_snapshot_4321.pickle", allowed);
        assert_string_equal(out, expected);
    }
}

static void directories_are_no_files(void **state)
{
    (void)state;
    static const char *const paths[] = {"/", "/tmp/", "x/", "x//", ".", "..", "x/..", "x/."};
    for (size_t i = 0; i < KB_COUNT(paths); i++) {
        assert_int_equal(resolve(paths[i], KO_FROM_ARGUMENT), KINETO_E_ARGUMENT);
        assert_non_null(strstr(err.message, "directory"));
    }
}

static void names_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char path[KO_REQUEST_PATH_BYTES];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(resolve(path, KO_FROM_ARGUMENT), KINETO_E_ARGUMENT);
    path[251] = '\0';
    assert_int_equal(resolve(path, KO_FROM_ARGUMENT), KINETO_E_ARGUMENT);
    path[250] = '\0'; /* and "_4321": 255 */
    assert_int_equal(resolve(path, KO_FROM_ARGUMENT), KINETO_OK);
    assert_int_equal(strlen(out), 255);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void requests_may_write_beneath_their_directory(void **state)
{
    (void)state;
    allows("/x.json", "/x_4321.json");
    allows("/in/x.json", "/in/x_4321.json");
    allows("/in/deep/x", "/in/deep/x_4321");
    allows("/in/x.sqlite", "/in/x_4321.sqlite"); /* formats that Kineto does not know */
    allows("/in/x.csv.gz", "/in/x_4321.csv.gz");
    allows("///in//./deep/.//x.json", "/in/deep/x_4321.json");
    allows("/a=b.json", "/a=b_4321.json");
    allows("/old.json", "/old_4321.json"); /* is replaced */
    allows("/..x..json", "/..x._4321.json");
}

static void paths_that_lead_elsewhere_are_refused(void **state)
{
    (void)state;
    refuses("/../x.json", KINETO_E_PERMISSION, "'..'");
    refuses("/in/../x.json", KINETO_E_PERMISSION, "'..'");
    refuses("/in/../../etc/x.json", KINETO_E_PERMISSION, "'..'");
    refuses("2/x.json", KINETO_E_PERMISSION, "only beneath");
    refuses(".json", KINETO_E_PERMISSION, "only beneath");
    refuses("", KINETO_E_PERMISSION, "only beneath");
    assert_int_equal(resolve("/etc/cron.d/x.json", KO_FROM_REQUEST), KINETO_E_PERMISSION);
    assert_int_equal(resolve("/x.json", KO_FROM_REQUEST), KINETO_E_PERMISSION);
    assert_int_equal(resolve("x.json", KO_FROM_REQUEST), KINETO_E_PERMISSION);
    assert_int_equal(resolve("../x.json", KO_FROM_REQUEST), KINETO_E_PERMISSION);
    assert_int_equal(resolve("exec:rm", KO_FROM_REQUEST), KINETO_E_PERMISSION);
}

static void links_on_the_way_or_in_the_place_are_refused(void **state)
{
    (void)state;
    refuses("/out/x.json", KINETO_E_PERMISSION, "of the path is a symbolic link");
    refuses("/here/x.json", KINETO_E_PERMISSION, "of the path is a symbolic link");
    refuses("/here/deep/x.json", KINETO_E_PERMISSION, "of the path is a symbolic link");
    refuses("/in/up/x.json", KINETO_E_PERMISSION, "of the path is a symbolic link");
    refuses("/link.json", KINETO_E_PERMISSION, "the file is a symbolic link");
    refuses("/dangling.json", KINETO_E_PERMISSION, "the file is a symbolic link");
}

static void what_cannot_be_written_is_refused_beforehand(void **state)
{
    (void)state;
    char path[400], longest[1200];
    refuses("/none/x.json", KINETO_E_ARGUMENT, "does not exist");
    refuses("/old_4321.json/x.json", KINETO_E_ARGUMENT, "does not exist");
    refuses("/dir.json", KINETO_E_ARGUMENT, "directory");
    refuses("/pipe.json", KINETO_E_PERMISSION, "not a regular file");
    refuses("/in/", KINETO_E_ARGUMENT, "directory");
    refuses("/in///", KINETO_E_ARGUMENT, "directory");
    refuses("/", KINETO_E_ARGUMENT, "directory");
    memset(longest, 'a', sizeof longest);
    snprintf(longest, 2, "/");
    longest[1] = 'a';
    snprintf(longest + 300, 10, "/x.json");
    refuses(longest, KINETO_E_ARGUMENT, "longer than 255");
    snprintf(path, sizeof path, "%s/locked", allowed);
    assert_int_equal(chmod(path, 0500), 0);
    if (getuid() != 0)
        refuses("/locked/x.json", KINETO_E_PERMISSION, "may not write");
    assert_int_equal(chmod(path, 0700), 0);
}

static void names_in_messages_are_plain_text(void **state)
{
    (void)state;
    assert_int_equal(resolve("/etc/\x1b[2J\xff\r.json", KO_FROM_REQUEST), KINETO_E_PERMISSION);
    assert_non_null(strstr(err.message, "'/etc/?[2J?"));
    assert_int_equal(kb_utf8_valid_prefix(err.message, strlen(err.message)), strlen(err.message));
}

static void the_directory_itself_is_the_owners_choice(void **state)
{
    (void)state;
    char path[500], expected[500];
    snprintf(path, sizeof path, "%s/here//", allowed); /* a link, with slashes */
    setenv("KINETO_ONDEMAND_TRACE_DIR", path, 1);
    snprintf(path, sizeof path, "%s/here/x.json", allowed);
    assert_int_equal(resolve(path, KO_FROM_REQUEST), KINETO_OK);
    snprintf(expected, sizeof expected, "%s/here/x_4321.json", allowed);
    assert_string_equal(out, expected);
    refuses("/in/x.json", KINETO_E_PERMISSION, "only beneath");
    snprintf(path, sizeof path, "%s/nothing", allowed);
    setenv("KINETO_ONDEMAND_TRACE_DIR", path, 1);
    assert_int_not_equal(request("/nothing/x.json"), KINETO_OK);
    setenv("KINETO_ONDEMAND_TRACE_DIR", "tmp", 1);
    assert_int_equal(resolve("tmp/x.json", KO_FROM_REQUEST), KINETO_E_ARGUMENT);
    setenv("KINETO_ONDEMAND_TRACE_DIR", "/", 1);
    allows("/in/x.json", "/in/x_4321.json");
    unsetenv("KINETO_ONDEMAND_TRACE_DIR");
    assert_int_equal(resolve("/tmp/ckineto-test.json", KO_FROM_REQUEST), KINETO_OK);
    assert_string_equal(out, "/tmp/ckineto-test_4321.json");
    setenv("KINETO_ONDEMAND_TRACE_DIR", allowed, 1);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    int before = open_descriptors();
    for (int i = 0; i < 100; i++) {
        (void)request("/in/deep/x.json");
        (void)request("/out/x.json");
        (void)request("/none/x.json");
        (void)request("/pipe.json");
    }
    assert_int_equal(open_descriptors(), before);
}

/* The rules again where the kernel has no openat2: in a child that is denied it. */
static void without_openat2_the_same_holds(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        if (!deny_openat2())
            _exit(77);
        requests_may_write_beneath_their_directory(state);
        paths_that_lead_elsewhere_are_refused(state);
        links_on_the_way_or_in_the_place_are_refused(state);
        what_cannot_be_written_is_refused_beforehand(state);
        no_descriptor_stays_open(state);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_the_process_stands_where_kineto_puts_it),
        cmocka_unit_test(without_a_name_there_is_one),
        cmocka_unit_test(directories_are_no_files),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(requests_may_write_beneath_their_directory),
        cmocka_unit_test(paths_that_lead_elsewhere_are_refused),
        cmocka_unit_test(links_on_the_way_or_in_the_place_are_refused),
        cmocka_unit_test(what_cannot_be_written_is_refused_beforehand),
        cmocka_unit_test(names_in_messages_are_plain_text),
        cmocka_unit_test(the_directory_itself_is_the_owners_choice),
        cmocka_unit_test(no_descriptor_stays_open),
        cmocka_unit_test(without_openat2_the_same_holds),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

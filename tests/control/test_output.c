/* Where traces of requests go: what may be named, and files that nothing leads elsewhere. */
#include "output_fixture.h"

#include "../helpers/without_openat2.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define PID 4321u

static uint64_t written;

static kineto_status request_write(const char *file)
{
    err = (kineto_error){0};
    return ko_output_write(sample, KO_FROM_REQUEST, file, &written, &err);
}

static kineto_status place_of(const char *log_file, ko_request_source source, bool snapshot,
                              char out[KO_REQUEST_PATH_BYTES])
{
    ko_request r;
    ko_request_init(&r);
    r.memory_snapshot = snapshot;
    snprintf(r.log_file, sizeof r.log_file, "%s", log_file);
    err = (kineto_error){0};
    return ko_output_path(&r, source, PID, out, &err);
}

static kineto_status ignore(const kineto_trace *trace, const char *url, void *user,
                            kineto_error *error)
{
    (void)trace, (void)url, (void)user, (void)error;
    return KINETO_OK;
}

/* ---- what is named ------------------------------------------------------------------------------- */

static void paths_and_urls_are_distinguished(void **state)
{
    (void)state;
    static const char *const urls[] = {"exec:x",   "fd:1",     "file:///x",
                                       "s3://x/y", "A+b-c.9:", "x:y"};
    static const char *const paths[] = {"",      "/x", "/x:y", "x",     "./x:y",
                                        "x/y:z", ":x", "-",    "a b:c", "ä:x"};
    for (size_t i = 0; i < KB_COUNT(urls); i++)
        assert_true(ko_output_is_url(urls[i]));
    for (size_t i = 0; i < KB_COUNT(paths); i++)
        assert_false(ko_output_is_url(paths[i]));
}

static void files_have_the_number_of_the_process_and_keep_their_format(void **state)
{
    (void)state;
    char out[KO_REQUEST_PATH_BYTES];
    static const char *const names[][2] = {
        {"x", "x_4321"},
        {"x.json", "x_4321.json"},
        {"x.json.gz", "x_4321.json.gz"},
        {"x.pt.trace.json", "x_4321.pt.trace.json"},
        {"x.sqlite", "x_4321.sqlite"},
        {"x.pftrace.zst", "x_4321.pftrace.zst"},
        {"x.speedscope.json", "x_4321.speedscope.json"},
        {"x.json.csv", "x_4321.json.csv"},
        {"x.txt", "x.txt_4321"},
    };
    static const char *const forms[] = {"%s/%s", "file:%s/%s", "file://%s/%s",
                                        "FILE://localhost%s/%s"};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        for (size_t f = 0; f < KB_COUNT(forms); f++) {
            char given[400];
            snprintf(given, sizeof given, forms[f], allowed, names[i][0]);
            assert_works(place_of(given, KO_FROM_REQUEST, false, out));
            assert_string_equal(out, at("%s/%s", allowed, names[i][1]).s);
        }
    assert_works(place_of("file:x.json", KO_FROM_ARGUMENT, false, out));
    assert_string_equal(out, "x_4321.json");
    assert_fails(place_of("file:x.json", KO_FROM_REQUEST, false, out), KINETO_E_PERMISSION,
                 "absolute path");
    assert_fails(place_of("file://host/x.json", KO_FROM_ARGUMENT, false, out), KINETO_E_ARGUMENT,
                 "file:///path");
    assert_fails(place_of("file:", KO_FROM_ARGUMENT, false, out), KINETO_E_ARGUMENT, "path");
    assert_fails(place_of("file:///etc/x.json", KO_FROM_REQUEST, false, out), KINETO_E_PERMISSION,
                 "only beneath");
}

static void protocols_have_it_in_names_of_files(void **state)
{
    (void)state;
    char out[KO_REQUEST_PATH_BYTES];
    assert_works(kineto_output_register("s3", ignore, NULL, true, &err));
    assert_works(place_of("S3://bucket/x.json.gz?a=b/c", KO_FROM_ARGUMENT, false, out));
    assert_string_equal(out, "S3://bucket/x.json.gz?a=b/c");
    assert_works(place_of("s3://bucket/x.json?a=b", KO_FROM_REQUEST, false, out));
    assert_string_equal(out, "s3://bucket/x_4321.json?a=b");
    assert_works(place_of("s3://bucket/", KO_FROM_REQUEST, false, out));
    assert_string_equal(out, "s3://bucket/");
    assert_works(place_of("s3:x.csv", KO_FROM_REQUEST, false, out));
    assert_string_equal(out, "s3:x_4321.csv");
    assert_fails(place_of("s3:x.pickle", KO_FROM_ARGUMENT, true, out), KINETO_E_UNSUPPORTED,
                 "memory snapshot");
    assert_works(place_of("exec:cat > x.json", KO_FROM_ARGUMENT, true, out));
    assert_string_equal(out, "exec:cat > x.json");
    kineto_output_unregister("s3");
}

/* ---- who may --------------------------------------------------------------------------------------- */

static void requests_may_name_files_and_what_is_open_to_them(void **state)
{
    (void)state;
    char out[KO_REQUEST_PATH_BYTES];
    static const char *const closed[] = {"exec:touch x", "EXEC:touch x",    "exec:", "fd:1", "fd:x",
                                         "none:x",       "none://x/y.json", "mine:x"};
    assert_works(kineto_output_register("mine", ignore, NULL, false, &err));
    assert_works(kineto_output_register("theirs", ignore, NULL, true, &err));
    for (size_t i = 0; i < KB_COUNT(closed); i++) {
        kb_sink *sink;
        err = (kineto_error){0};
        assert_fails(ko_output_check(KO_FROM_REQUEST, closed[i], &err), KINETO_E_PERMISSION, "'");
        assert_fails(place_of(closed[i], KO_FROM_REQUEST, false, out), KINETO_E_PERMISSION, "'");
        assert_fails(request_write(closed[i]), KINETO_E_PERMISSION, "'");
        assert_fails(ko_output_open(KO_FROM_REQUEST, closed[i], &sink, &err), KINETO_E_PERMISSION,
                     "'");
        assert_null(sink);
    }
    assert_works(ko_output_check(KO_FROM_REQUEST, "theirs:x", &err));
    assert_works(ko_output_check(KO_FROM_REQUEST, at("%s/x.json", allowed).s, &err));
    assert_works(ko_output_check(KO_FROM_ARGUMENT, "mine:x", &err));
    assert_works(ko_output_check(KO_FROM_ARGUMENT, "exec:x", &err));
    assert_works(ko_output_check(KO_FROM_FILE, "mine:x", &err));
    assert_fails(ko_output_check(KO_FROM_FILE, "exec:x", &err), KINETO_E_PERMISSION,
                 "configuration files");
    assert_fails(ko_output_check(KO_FROM_ARGUMENT, "none:x", &err), KINETO_E_ARGUMENT,
                 "is not registered");
    assert_fails(ko_output_check(KO_FROM_ARGUMENT, "exec: ", &err), KINETO_E_ARGUMENT, "command");
    kineto_output_unregister("mine");
    kineto_output_unregister("theirs");
    assert_int_equal(entries(allowed), 0);
}

/* Whatever a request says: what is accepted lies beneath the allowed directory. */
static void no_text_leads_elsewhere(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "/", "//", ".",    "..", "x", ".json",       "file:",   "fd:", "exec:",           "1", "in",
        "*", "~",  "\x80", "\n", ":", "//localhost", ".sqlite", ".gz", ".speedscope.json"};
    uint64_t seed = 9, accepted = 0;
    assert_int_equal(mkdir(at("%s/in", allowed).s, 0700), 0);
    for (int i = 0; i < 20000; i++) {
        char text[400] = "", out[KO_REQUEST_PATH_BYTES];
        uint64_t r = next_random(&seed);
        for (uint64_t n = r % 8; n > 0; n--) {
            const char *part = parts[next_random(&seed) % KB_COUNT(parts)];
            strcat(text, r & 64 && n == r % 8 ? allowed : part);
        }
        (void)ko_output_check(KO_FROM_REQUEST, text, NULL);
        if (!text[0] || place_of(text, KO_FROM_REQUEST, false, out) != KINETO_OK)
            continue;
        accepted++;
        assert_memory_equal(out, allowed, strlen(allowed));
        assert_null(strstr(out, "/../"));
        assert_works(ko_output_check(KO_FROM_REQUEST, out, &err));
    }
    assert_true(accepted > 100);
    remove_tree(at("%s/in", allowed).s);
    assert_int_equal(entries(allowed), 0);
}

/* ---- files ------------------------------------------------------------------------------------------- */

static void a_request_writes_a_file_for_its_user_only(void **state)
{
    (void)state;
    struct stat st;
    static const char *const names[] = {"x.json", "x.json.gz", "x.pftrace", "x.jsonl", "x"};
    mode_t before = umask(0);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        path p = at("%s/%s", allowed, names[i]);
        assert_works(request_write(p.s));
        assert_int_equal(lstat(p.s, &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_true(written > 0);
        assert_int_equal(st.st_size, written);
    }
    umask(before);
    assert_is_sample(at("%s/x.json", allowed).s);
    assert_is_sample(at("%s/x.json.gz", allowed).s);
    assert_is_sample(at("%s/x", allowed).s); /* Chrome JSON */
    assert_int_equal(entries(allowed), KB_COUNT(names));
    for (size_t i = 0; i < KB_COUNT(names); i++)
        unlink(at("%s/%s", allowed, names[i]).s);
}

static void databases_come_from_a_directory_of_their_own(void **state)
{
    (void)state;
    struct stat st;
    char head[32];
    path p = at("%s/x.sqlite", allowed);
    kineto_status status = request_write(p.s);
    if (status == KINETO_E_UNSUPPORTED)
        skip(); /* built without SQLite */
    assert_works(status);
    assert_true(read_whole(p.s, head, sizeof head) > 0);
    assert_memory_equal(head, "SQLite format 3", 15);
    assert_int_equal(lstat(p.s, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(written, st.st_size);
    assert_fails(request_write(at("%s/none/x.sqlite", allowed).s), KINETO_E_ARGUMENT,
                 "make it first");
    assert_int_equal(entries(root), 2); /* its directory is gone */
    assert_int_equal(entries(allowed), 1);
    unlink(p.s);
}

static void only_a_file_of_ones_own_is_replaced(void **state)
{
    (void)state;
    char text[32];
    path p = at("%s/x.json", allowed), target = at("%s/secret", outside);
    close(open(target.s, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(symlink(target.s, p.s), 0);
    assert_fails(request_write(p.s), KINETO_E_PERMISSION, "the file is a symbolic link");
    assert_fails(ko_output_check(KO_FROM_REQUEST, p.s, &err), KINETO_E_PERMISSION, "symbolic link");
    assert_int_equal(read_whole(target.s, text, sizeof text), 0);
    unlink(p.s);
    assert_int_equal(mkfifo(p.s, 0600), 0);
    assert_fails(request_write(p.s), KINETO_E_PERMISSION, "not a regular file");
    unlink(p.s);
    assert_int_equal(link(target.s, p.s),
                     0); /* a second name of a file: it is replaced, not written */
    assert_works(request_write(p.s));
    assert_int_equal(size_of(target.s), 0);
    assert_works(request_write(p.s)); /* and again */
    assert_is_sample(p.s);
    if (geteuid() == 0) {
        assert_int_equal(chown(p.s, 1, 1), 0);
        assert_fails(request_write(p.s), KINETO_E_PERMISSION, "another user");
    }
    unlink(p.s);
    unlink(target.s);
    assert_int_equal(entries(allowed), 0);
}

static void links_on_the_way_are_refused_and_directories_are_not_made(void **state)
{
    (void)state;
    path p = at("%s/link", allowed);
    assert_int_equal(symlink(outside, p.s), 0);
    assert_fails(request_write(at("%s/link/x.json", allowed).s), KINETO_E_PERMISSION,
                 "of the path is a symbolic link");
    assert_fails(request_write(at("%s/none/x.json", allowed).s), KINETO_E_ARGUMENT,
                 "does not exist: make it first");
    assert_fails(request_write(at("%s/../x.json", allowed).s), KINETO_E_PERMISSION, "'..'");
    assert_fails(request_write(at("%s/", allowed).s), KINETO_E_ARGUMENT, "directory");
    assert_fails(request_write(at("%s/.", allowed).s), KINETO_E_ARGUMENT, "directory");
    assert_fails(request_write(allowed), KINETO_E_ARGUMENT, "directory");
    assert_fails(request_write(""), KINETO_E_PERMISSION, "absolute");
    unlink(p.s);
    assert_int_equal(entries(outside), 0);
    assert_int_equal(entries(allowed), 0);
}

/* ---- who is quick -------------------------------------------------------------------------------------- */

static void a_file_goes_into_the_directory_that_was_opened(void **state)
{
    (void)state;
    kb_sink *sink;
    path inside = at("%s/in", allowed), moved = at("%s/moved", allowed);
    assert_int_equal(mkdir(inside.s, 0700), 0);
    assert_works(ko_output_open(KO_FROM_REQUEST, at("%s/in/x.pickle", allowed).s, &sink, &err));
    kb_sink_write(sink, "snapshot", 8);
    assert_int_equal(rename(inside.s, moved.s), 0);
    assert_int_equal(symlink(outside, inside.s), 0);
    assert_works(kb_sink_close(sink, &err));
    assert_int_equal(entries(outside), 0);
    assert_int_equal(size_of(at("%s/moved/x.pickle", allowed).s), 8);
    unlink(inside.s);
    remove_tree(moved.s);
}

typedef struct swapper {
    int directory;
    bool stop;
    uint64_t swaps;
} swapper;

/* "in" is a directory and a link to `outside`, in turns. */
static void *swap(void *argument)
{
    swapper *s = argument;
    while (!kb_load_relaxed(&s->stop)) {
        if (syscall(SYS_renameat2, s->directory, "in", s->directory, "link", 2u) == 0)
            (void)kb_add_relaxed(&s->swaps, UINT64_C(1));
        usleep(20);
    }
    return NULL;
}

static uint64_t race_for(uint64_t ns)
{
    uint64_t done = 0, until_ns = kb_clock_ns(CLOCK_MONOTONIC) + ns;
    path p = at("%s/in/x", allowed);
    while (kb_clock_ns(CLOCK_MONOTONIC) < until_ns) {
        kb_sink *sink;
        kineto_status status = ko_output_open(KO_FROM_REQUEST, p.s, &sink, &err);
        if (status == KINETO_OK) {
            kb_sink_write(sink, "x", 1);
            assert_works(kb_sink_close(sink, &err));
            done++;
        } else if (status !=
                   KINETO_E_ARGUMENT) { /* a link when it was opened, not when looked at */
            assert_int_equal(status, KINETO_E_PERMISSION);
        }
    }
    return done;
}

static void a_directory_that_becomes_a_link_leads_nowhere(void **state)
{
    (void)state;
    pthread_t thread;
    swapper s = {.directory = open(allowed, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    assert_int_equal(mkdir(at("%s/in", allowed).s, 0700), 0);
    assert_int_equal(symlink(outside, at("%s/link", allowed).s), 0);
    assert_int_equal(kb_thread_start(&thread, swap, &s), 0);
    uint64_t done = race_for(300000000u);
    kb_store_relaxed(&s.stop, true);
    pthread_join(thread, NULL);
    close(s.directory);
    if (s.swaps == 0)
        skip(); /* this file system cannot exchange */
    assert_true(done > 0);
    assert_int_equal(entries(outside), 0);
    unlink(at("%s/link", allowed).s);
    unlink(at("%s/in", allowed).s);
    remove_tree(at("%s/link", allowed).s);
    remove_tree(at("%s/in", allowed).s);
    assert_int_equal(entries(allowed), 0);
}

/* The same, where each part of a path is opened by itself. */
static void without_openat2_nothing_leads_elsewhere_either(void **state)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (!deny_openat2())
            _exit(77);
        links_on_the_way_are_refused_and_directories_are_not_made(state);
        a_directory_that_becomes_a_link_leads_nowhere(state);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- what goes wrong -------------------------------------------------------------------------------------- */

static void nothing_remains_of_what_does_not_fit(void **state)
{
    (void)state;
    struct rlimit before, little;
    path p = at("%s/x.json", allowed);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 512;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    kineto_status status = request_write(p.s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_not_equal(status, KINETO_OK);
    assert_non_null(strstr(err.message, p.s));
    assert_int_equal(written, 0);
    assert_int_equal(entries(allowed), 0);
}

/* A small disk at `directory`, for this process only: to be called in a child. */
static bool mount_little(const char *directory)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", directory, "tmpfs", 0, "size=64k") == 0;
}

static int fill_little(void)
{
    static const char bytes[1u << 20];
    kb_sink *sink;
    path p = at("%s/x.pickle", allowed);
    if (!mount_little(allowed))
        return 77;
    if (ko_output_open(KO_FROM_REQUEST, p.s, &sink, &err) != KINETO_OK)
        return 1;
    kb_sink_write(sink, bytes, sizeof bytes);
    if (kb_sink_close(sink, &err) != KINETO_E_IO || !strstr(err.message, p.s) ||
        !strstr(err.message, "No space") || entries(allowed) != 0)
        return 2;
    return request_write(at("%s/x.json", allowed).s) == KINETO_OK ? 0 : 3; /* there is room again */
}

static void a_disk_that_is_full_is_said_with_the_path(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(fill_little());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void no_descriptor_stays_open(void **state)
{
    (void)state;
    path good = at("%s/x.json", allowed), bad = at("%s/none/x.json", allowed);
    kb_sink *sink;
    int before = open_descriptors();
    for (int i = 0; i < 20; i++) {
        assert_works(request_write(good.s));
        assert_int_not_equal(request_write(bad.s), KINETO_OK);
        assert_works(ko_output_open(KO_FROM_REQUEST, good.s, &sink, &err));
        kb_sink_abort(sink);
    }
    assert_int_equal(open_descriptors(), before);
    unlink(good.s);
    assert_int_equal(entries(allowed), 0);
}

/* ---- the program itself --------------------------------------------------------------------------------------- */

static void the_program_itself_writes_where_it_likes(void **state)
{
    (void)state;
    path p = at("%s/x.json", outside), link = at("%s/link.json", outside);
    assert_works(ko_output_write(sample, KO_FROM_ARGUMENT, p.s, &written, &err));
    assert_int_equal(size_of(p.s), written);
    assert_int_equal(symlink(p.s, link.s), 0);
    assert_works(kineto_output_save(sample, link.s, &err)); /* followed: its own */
    assert_int_equal(size_of(link.s), 0);
    assert_works(kineto_output_save(sample, at("file://%s", p.s).s, &err));
    assert_is_sample(p.s);
    err = (kineto_error){0};
    assert_fails(kineto_output_save(sample, at("%s/x.what", outside).s, &err), KINETO_E_UNSUPPORTED,
                 "format");
    assert_fails(kineto_output_save(NULL, p.s, &err), KINETO_E_ARGUMENT, "trace");
    unlink(p.s);
    unlink(link.s);
    assert_int_equal(entries(outside), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_urls_are_distinguished),
        cmocka_unit_test(files_have_the_number_of_the_process_and_keep_their_format),
        cmocka_unit_test(protocols_have_it_in_names_of_files),
        cmocka_unit_test(requests_may_name_files_and_what_is_open_to_them),
        cmocka_unit_test(no_text_leads_elsewhere),
        cmocka_unit_test(a_request_writes_a_file_for_its_user_only),
        cmocka_unit_test(databases_come_from_a_directory_of_their_own),
        cmocka_unit_test(only_a_file_of_ones_own_is_replaced),
        cmocka_unit_test(links_on_the_way_are_refused_and_directories_are_not_made),
        cmocka_unit_test(a_file_goes_into_the_directory_that_was_opened),
        cmocka_unit_test(a_directory_that_becomes_a_link_leads_nowhere),
        cmocka_unit_test(without_openat2_nothing_leads_elsewhere_either),
        cmocka_unit_test(nothing_remains_of_what_does_not_fit),
        cmocka_unit_test(a_disk_that_is_full_is_said_with_the_path),
        cmocka_unit_test(no_descriptor_stays_open),
        cmocka_unit_test(the_program_itself_writes_where_it_likes),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

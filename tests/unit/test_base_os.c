/* The os layer: processes from /proc, shared mappings, quiet writes. */
#include "unit.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char directory[200], path[256];

static int make_place(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof(directory)))
        return -1;
    snprintf(path, sizeof(path), "%s/pool", directory);
    return 0;
}
static int remove_place(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

static void a_process_knows_itself(void **state)
{
    (void)state;
    uint64_t start = kb_os_start_time(kb_os_pid());
    assert_true(start > 0);
    assert_int_equal(kb_os_pid(), kb_os_tid());
    assert_int_equal(kb_os_parent(kb_os_pid()), (uint32_t)getppid());
    assert_true(kb_os_alive(kb_os_pid(), start));
    assert_false(kb_os_alive(kb_os_pid(), start + 1));
    assert_true(kb_os_exec_id() != 0);
    assert_int_equal(kb_os_exec_id(), kb_os_exec_id());
}

static void a_zombie_and_a_gone_process_are_not_alive(void **state)
{
    (void)state;
    int gate[2];
    char byte;
    assert_int_equal(pipe(gate), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(read(gate[0], &byte, 1) == 1 ? 0 : 1);
    uint64_t start = kb_os_start_time((uint32_t)child);
    assert_true(kb_os_alive((uint32_t)child, start));
    assert_int_equal(write(gate[1], "x", 1), 1);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_false(kb_os_alive((uint32_t)child, start));
    waitpid(child, NULL, 0);
    assert_false(kb_os_alive((uint32_t)child, start));
    assert_int_equal(kb_os_start_time((uint32_t)child), 0);
    close(gate[0]);
    close(gate[1]);
}

static void a_name_full_of_parentheses_does_not_confuse(void **state)
{
    (void)state;
    char before[64], name[64];
    uint64_t start = kb_os_start_time(kb_os_pid());
    assert_int_equal(prctl(PR_GET_NAME, before), 0);
    assert_int_equal(prctl(PR_SET_NAME, "a) S 1 (2 ) 3"), 0);
    assert_int_equal(kb_os_start_time(kb_os_pid()), start);
    assert_int_equal(kb_os_parent(kb_os_pid()), (uint32_t)getppid());
    assert_int_equal(kb_os_thread_name(kb_os_pid(), kb_os_tid(), name, sizeof(name)), 13);
    assert_string_equal(name, "a) S 1 (2 ) 3");
    prctl(PR_SET_NAME, before);
}

static void names_are_read_and_cut(void **state)
{
    (void)state;
    char text[512], small[4];
    size_t n = kb_os_process_name(kb_os_pid(), text, sizeof(text));
    assert_string_equal(text, "test_base_os");
    assert_int_equal(n, strlen(text));
    assert_int_equal(kb_os_process_name(kb_os_pid(), small, sizeof(small)), 3);
    assert_string_equal(small, "tes");
    assert_true(kb_os_command_line(kb_os_pid(), text, sizeof(text)) > 0);
    assert_non_null(strstr(text, "test_base_os"));
    assert_int_equal(kb_os_boot_id(text, sizeof(text)), 36);
    assert_true(kb_os_host_name(text, sizeof(text)) > 0);
    assert_int_equal(kb_os_process_name(0, text, sizeof(text)), 0);
    assert_int_equal(kb_os_read_file("/nonexistent", text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(kb_os_read_file("/proc/self/comm", text, 0), 0);
}

static void a_created_mapping_is_private_reserved_and_shared(void **state)
{
    (void)state;
    const size_t bytes = 1 << 20;
    struct stat st;
    kineto_error err;
    size_t opened_bytes = 0;
    char *a = kb_os_map_create(path, bytes, &err);
    assert_non_null(a);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, bytes);
    assert_true((size_t)st.st_blocks * 512 >= bytes);
    char *b = kb_os_map_open(path, &opened_bytes, &err);
    assert_non_null(b);
    assert_int_equal(opened_bytes, bytes);
    kb_os_prefault(a, bytes);
    a[bytes - 1] = 7;
    kb_os_prefault(b, bytes);
    assert_int_equal(b[bytes - 1], 7);
    assert_null(kb_os_map_create(path, bytes, &err)); /* never over an existing file */
    assert_int_equal(err.os_error, EEXIST);
    assert_int_equal(access(path, F_OK), 0);
    kb_os_unmap(a, bytes);
    kb_os_unmap(b, bytes);
}

static void a_full_disk_is_an_error_and_leaves_no_file(void **state)
{
    (void)state;
    kineto_error err = {0};
    const size_t petabyte = (size_t)1 << 50;
    assert_null(kb_os_map_create(path, petabyte, &err));
    assert_int_not_equal(err.code, KINETO_OK);
    assert_non_null(strstr(err.message, path));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_null(kb_os_map_create(path, 0, &err));
    assert_int_equal(err.code, KINETO_E_ARGUMENT);
}

static void expect_refused(kineto_status code)
{
    kineto_error err = {0};
    size_t bytes = 0;
    assert_null(kb_os_map_open(path, &bytes, &err));
    assert_int_equal(err.code, code);
    unlink(path);
}

static void only_plain_files_of_ones_own_are_mapped(void **state)
{
    (void)state;
    expect_refused(KINETO_E_NOT_FOUND);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    expect_refused(KINETO_E_PERMISSION);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(KINETO_E_PERMISSION);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    expect_refused(KINETO_E_FORMAT);
    if (geteuid() == 0) {
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        assert_int_equal(ftruncate(fd, 4096), 0);
        assert_int_equal(fchown(fd, 1, 1), 0);
        close(fd);
        expect_refused(KINETO_E_PERMISSION);
    }
}

static void pages_are_wiped_in_a_forked_child(void **state)
{
    (void)state;
    int status;
    if (!kb_os_wipe_supported())
        skip();
    char *p = kb_os_map_wiped_on_fork(4096);
    assert_non_null(p);
    p[0] = 5;
    pid_t child = fork();
    if (child == 0)
        _exit(p[0]);
    waitpid(child, &status, 0);
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(p[0], 5);
    kb_os_unmap(p, 4096);
}

static void anonymous_shared_memory_is_shared_with_children(void **state)
{
    (void)state;
    kineto_error err;
    char *p = kb_os_map_shared(8192, &err);
    assert_non_null(p);
    pid_t child = fork();
    if (child == 0) {
        p[8191] = 9;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(p[8191], 9);
    kb_os_unmap(p, 8192);
}

static void a_quiet_write_survives_a_closed_pipe(void **state)
{
    (void)state;
    int ends[2];
    sigset_t pending;
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(kb_os_write_quiet(ends[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    close(ends[1]);
}

static void a_quiet_write_survives_the_file_size_limit(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {4, 4};
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        int fd = open(path, O_CREAT | O_WRONLY, 0600);
        bool part = kb_os_write_quiet(fd, "12345678", 8) == 4;
        bool none = kb_os_write_quiet(fd, "5678", 4) == -1 && errno == EFBIG;
        _exit(part && none ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void the_environment_is_read(void **state)
{
    (void)state;
    size_t count = 0;
    const kb_setting_row *rows = kb_settings(&count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        assert_true(strlen(rows[i].text) > 10);
    setenv("CKINETO_SESSION", "/x", 1);
    assert_string_equal(kb_setting("CKINETO_SESSION"), "/x");
    setenv("CKINETO_SESSION", "", 1);
    assert_null(kb_setting("CKINETO_SESSION"));
    unsetenv("CKINETO_SESSION");
    assert_null(kb_setting("CKINETO_SESSION"));
    assert_null(kb_setting("PATH")); /* not one of ours */
}

static void every_setting_is_documented(void **state)
{
    (void)state;
#if defined(CKINETO_SOURCE_DIR)
    static char page[1 << 16];
    size_t count = 0;
    const kb_setting_row *rows = kb_settings(&count);
    if (!read_whole(CKINETO_SOURCE_DIR "/docs/reference/settings.md", page, sizeof(page)))
        skip(); /* a source tree without documents */
    for (size_t i = 0; i < count; i++) {
        char line[512];
        snprintf(line, sizeof(line), "| `%s` | %s | %s | %s |", rows[i].name, rows[i].values,
                 rows[i].initial, rows[i].text);
        assert_non_null(strstr(page, line));
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_knows_itself),
        cmocka_unit_test(a_zombie_and_a_gone_process_are_not_alive),
        cmocka_unit_test(a_name_full_of_parentheses_does_not_confuse),
        cmocka_unit_test(names_are_read_and_cut),
        cmocka_unit_test_setup_teardown(a_created_mapping_is_private_reserved_and_shared,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_full_disk_is_an_error_and_leaves_no_file, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(only_plain_files_of_ones_own_are_mapped, make_place,
                                        remove_place),
        cmocka_unit_test(pages_are_wiped_in_a_forked_child),
        cmocka_unit_test(anonymous_shared_memory_is_shared_with_children),
        cmocka_unit_test(a_quiet_write_survives_a_closed_pipe),
        cmocka_unit_test_setup_teardown(a_quiet_write_survives_the_file_size_limit, make_place,
                                        remove_place),
        cmocka_unit_test(the_environment_is_read),
        cmocka_unit_test(every_setting_is_documented),
    };
    return RUN_TESTS(tests);
}

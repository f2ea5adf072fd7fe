/* The file with the pid of a daemon, while others end and begin with the same one. */
#include "unit/unit.h"

#include "cli/ondemand/daemon_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char directory[64], path[128];
static int takeovers; /* how often another process is first */

/* In place of the C library's: between opening and locking, the one before ends, and perhaps
 * another one begins. */
int flock(int fd, int operation)
{
    if (takeovers > 0 && takeovers--) {
        unlink(path);
        if (takeovers % 2)
            close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600));
    }
    return (int)syscall(SYS_flock, fd, operation);
}

static char *text(char *into, size_t size)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : read(fd, into, size - 1);
    close(fd);
    into[n < 0 ? 0 : n] = '\0';
    return n < 0 ? NULL : into;
}

static void a_file_that_its_owner_removes_meanwhile_is_opened_again(void **state)
{
    (void)state;
    char read[32], wanted[32];
    snprintf(wanted, sizeof wanted, "%d\n", (int)getpid());
    for (int times = 0; times < 5; times++) {
        int fd, second;
        kineto_error err = {0};
        takeovers = times;
        assert_int_equal(kc_pid_file_open(path, &fd, &err), KINETO_OK);
        assert_string_equal(text(read, sizeof read), "");
        assert_int_equal(kc_pid_file_write(fd, path, &err), KINETO_OK);
        assert_string_equal(text(read, sizeof read), wanted);
        assert_int_equal(kc_pid_file_open(path, &second, &err), KINETO_E_BUSY);
        assert_int_equal(second, -1);
        kc_pid_file_close(fd, path);
        assert_null(text(read, sizeof read));
    }
}

static void one_that_always_changes_is_given_up(void **state)
{
    (void)state;
    int fd;
    kineto_error err = {0};
    takeovers = 1000000;
    assert_int_equal(kc_pid_file_open(path, &fd, &err), KINETO_E_BUSY);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(fd, -1);
    takeovers = 0;
    unlink(path);
}

static void leftovers_are_emptied_and_chunks_of_others_stay(void **state)
{
    (void)state;
    char read[32];
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(fd, "4194303\n", 8), 8);
    close(fd);
    assert_int_equal(kc_pid_file_open(path, &fd, NULL), KINETO_OK);
    assert_string_equal(text(read, sizeof read), "");
    unlink(path); /* by another process, and then another daemon began */
    close(open(path, O_CREAT | O_EXCL | O_WRONLY, 0600));
    kc_pid_file_close(fd, path);
    assert_string_equal(text(read, sizeof read), "");
    unlink(path);
    kc_pid_file_close(-1, path);
}

static void links_are_refused(void **state)
{
    (void)state;
    int fd;
    char read[32];
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_not_equal(kc_pid_file_open(path, &fd, NULL), KINETO_OK);
    assert_int_equal(fd, -1);
    assert_null(text(read, sizeof read));
    unlink(path);
}

static int open_directory(void **state)
{
    (void)state;
    bool made = make_directory(directory, sizeof directory);
    snprintf(path, sizeof path, "%s/pid", directory);
    return made ? 0 : -1;
}

static int close_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_its_owner_removes_meanwhile_is_opened_again),
        cmocka_unit_test(one_that_always_changes_is_given_up),
        cmocka_unit_test(leftovers_are_emptied_and_chunks_of_others_stay),
        cmocka_unit_test(links_are_refused),
    };
    return cmocka_run_group_tests(tests, open_directory, close_directory);
}

/* Messages: where they go, which are dropped, and that the program does not notice. */
#include "unit.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Each case runs in a child, because settings are read once per process. What it writes to stderr
 * and stdout is collected; returns its wait status. */
static char err_text[8192], out_text[8192];

static void slurp(int fd, char *buf, size_t size)
{
    size_t used = 0;
    ssize_t n;
    while ((n = read(fd, buf + used, size - 1 - used)) > 0)
        used += (size_t)n;
    buf[used] = '\0';
    close(fd);
}

static int run(void (*body)(void), const char *level, const char *path)
{
    int err_pipe[2], out_pipe[2], status = 0;
    assert_int_equal(pipe(err_pipe) | pipe(out_pipe), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(err_pipe[1], 2);
        dup2(out_pipe[1], 1);
        for (int fd = 3; fd < 32; fd++)
            close(fd);
        unsetenv("KINETO_LOG_LEVEL");
        unsetenv("KINETO_LOG_FILE");
        if (level)
            setenv("KINETO_LOG_LEVEL", level, 1);
        if (path)
            setenv("KINETO_LOG_FILE", path, 1);
        body();
        _exit(0);
    }
    close(err_pipe[1]);
    close(out_pipe[1]);
    slurp(err_pipe[0], err_text, sizeof(err_text));
    slurp(out_pipe[0], out_text, sizeof(out_text));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_string_equal(out_text, "");
    return status;
}

static void one_of_each(void)
{
    kb_log(KINETO_LOG_VERBOSE, "verbose %d", 0);
    kb_log(KINETO_LOG_INFO, "info");
    kb_log(KINETO_LOG_WARNING, "warning");
    kb_log(KINETO_LOG_STAGE, "stage");
    kb_log(KINETO_LOG_ERROR, "error");
}

static size_t lines(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += *s == '\n';
    return n;
}

static void warnings_and_above_are_shown_unless_configured(void **state)
{
    (void)state;
    assert_int_equal(run(one_of_each, NULL, NULL), 0);
    assert_int_equal(lines(err_text), 3);
    assert_int_equal(strncmp(err_text, "ckineto[", 8), 0);
    assert_non_null(strstr(err_text, "] WARNING: warning\n"));
    assert_non_null(strstr(err_text, "] STAGE: stage\n"));
    assert_non_null(strstr(err_text, "] ERROR: error\n"));
}

static void the_level_decides_what_is_shown(void **state)
{
    (void)state;
    const size_t expected[] = {5, 4, 3, 2, 1, 0};
    for (int level = 0; level <= 5; level++) {
        char text[2] = {(char)('0' + level), '\0'};
        run(one_of_each, text, NULL);
        assert_int_equal(lines(err_text), expected[level]);
    }
}

static void a_bad_level_is_one_warning_and_the_default(void **state)
{
    (void)state;
    const char *bad[] = {"6", "-1", "verbose", "2 ", "02", "1x"};
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        run(one_of_each, bad[i], NULL);
        assert_int_equal(lines(err_text), 4);
        assert_non_null(strstr(err_text, "KINETO_LOG_LEVEL"));
    }
}

static void hostile(void)
{
    errno = 77;
    kb_log(KINETO_LOG_ERROR, "name \x1b[2J\nfake\x07 end");
    if (errno != 77)
        kb_log(KINETO_LOG_ERROR, "errno changed");
    char big[4000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    kb_log(KINETO_LOG_ERROR, "%s", big);
}

static void a_message_is_one_line_without_control_bytes(void **state)
{
    (void)state;
    run(hostile, NULL, NULL);
    assert_int_equal(lines(err_text), 2);
    assert_non_null(strstr(err_text, "name ?[2J fake? end\n"));
    assert_null(strstr(err_text, "errno changed"));
    assert_int_equal(err_text[strlen(err_text) - 1], '\n');
}

static char log_file[256];

static void change_directory_and_speak(void)
{
    if (chdir("/") != 0)
        _exit(9);
    one_of_each();
}

static void messages_go_to_the_log_file_and_are_appended(void **state)
{
    (void)state;
    char directory[200], text[4096];
    struct stat st;
    assert_non_null(make_directory(directory, sizeof(directory)));
    snprintf(log_file, sizeof(log_file), "%s/log", directory);
    umask(022);
    run(one_of_each, "3", log_file);
    assert_string_equal(err_text, "");
    run(change_directory_and_speak, "4", log_file);
    assert_int_equal(lines((read_whole(log_file, text, sizeof(text)), text)), 3);
    assert_int_equal(stat(log_file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(log_file);
    rmdir(directory);
}

static void a_log_file_that_cannot_be_is_reported_on_stderr(void **state)
{
    (void)state;
    char directory[200], link_path[256];
    assert_non_null(make_directory(directory, sizeof(directory)));
    snprintf(link_path, sizeof(link_path), "%s/link", directory);
    assert_int_equal(symlink("/tmp/elsewhere-ckineto", link_path), 0);
    run(one_of_each, "4", link_path);
    assert_int_equal(lines(err_text), 1); /* the warning about it is below the level */
    run(one_of_each, "2", link_path);
    assert_non_null(strstr(err_text, "symbolic link"));
    run(one_of_each, "2", directory);
    assert_non_null(strstr(err_text, "cannot open log file"));
    assert_int_not_equal(access("/tmp/elsewhere-ckineto", F_OK), 0);
    unlink(link_path);
    rmdir(directory);
}

static void configured(void)
{
    kineto_error err;
    if (kb_log_configure(9, NULL, &err) != KINETO_E_ARGUMENT)
        _exit(1);
    if (kb_log_configure(-1, "/nonexistent/dir/log", &err) != KINETO_E_NOT_FOUND)
        _exit(2);
    if (kb_log_configure(4, NULL, &err) != KINETO_OK || kb_log_enabled(KINETO_LOG_STAGE) ||
        !kb_log_enabled(KINETO_LOG_ERROR))
        _exit(3);
    one_of_each();
}

static void a_command_line_overrides_the_environment(void **state)
{
    (void)state;
    assert_int_equal(run(configured, "0", NULL), 0);
    assert_int_equal(lines(err_text), 1);
}

static void into_a_closed_pipe(void)
{
    int ends[2];
    if (pipe(ends) != 0)
        _exit(1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
    one_of_each();
}

static void a_closed_stderr_does_not_kill_the_program(void **state)
{
    (void)state;
    assert_int_equal(run(into_a_closed_pipe, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warnings_and_above_are_shown_unless_configured),
        cmocka_unit_test(the_level_decides_what_is_shown),
        cmocka_unit_test(a_bad_level_is_one_warning_and_the_default),
        cmocka_unit_test(a_message_is_one_line_without_control_bytes),
        cmocka_unit_test(messages_go_to_the_log_file_and_are_appended),
        cmocka_unit_test(a_log_file_that_cannot_be_is_reported_on_stderr),
        cmocka_unit_test(a_command_line_overrides_the_environment),
        cmocka_unit_test(a_closed_stderr_does_not_kill_the_program),
    };
    return RUN_TESTS(tests);
}

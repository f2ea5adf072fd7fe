/* Sinks: bytes arrive whole or not at all, and errors reach the caller. */
#include "unit.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char directory[200], path[256], other[256], text[1 << 16];

static int make_place(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof(directory)))
        return -1;
    snprintf(path, sizeof(path), "%s/out.json", directory);
    snprintf(other, sizeof(other), "%s/other", directory);
    return 0;
}

/* The directory must be empty but for the two names: no temporary file may be left. */
static int remove_place(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(directory);
}

static kb_sink *open_file(kb_compression c)
{
    kb_sink *s = NULL;
    kineto_error err = {0};
    kineto_status status = kb_sink_open_file(path, c, &s, &err);
    if (status != KINETO_OK)
        print_message("%s\n", err.message);
    assert_int_equal(status, KINETO_OK);
    return s;
}

static void put(const char *file, const char *data)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(data, f);
    fclose(f);
}

static const char *content(const char *file)
{
    read_whole(file, text, sizeof(text));
    return text;
}

static void a_file_appears_only_when_it_is_closed(void **state)
{
    (void)state;
    struct stat st;
    umask(027);
    kb_sink *s = open_file(KB_COMPRESS_NONE);
    kb_sink_write(s, "hello", 5);
    kb_sink_flush(s);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(kb_sink_bytes(s), 5);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    assert_string_equal(content(path), "hello");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    umask(022);
}

static void an_old_file_stays_until_the_new_one_is_whole(void **state)
{
    (void)state;
    struct stat st;
    put(path, "old");
    chmod(path, 0600);
    kb_sink *s = open_file(KB_COMPRESS_NONE);
    kb_sink_write(s, "new", 3);
    kb_sink_flush(s);
    assert_string_equal(content(path), "old");
    kb_sink_abort(s);
    assert_string_equal(content(path), "old");
    s = open_file(KB_COMPRESS_NONE);
    kb_sink_write(s, "new", 3);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    assert_string_equal(content(path), "new");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void a_link_is_written_through(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(symlink("other", path), 0); /* relative, and nothing there yet */
    for (int i = 0; i < 2; i++) {
        kb_sink *s = open_file(KB_COMPRESS_NONE);
        kb_sink_write(s, "x", 1);
        assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
        assert_string_equal(content(other), "x");
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISLNK(st.st_mode));
    }
}

static void expect_refused(const char *name, kineto_status code, const char *word)
{
    kb_sink *s;
    kineto_error err = {0};
    assert_int_equal(kb_sink_open_file(name, KB_COMPRESS_NONE, &s, &err), code);
    assert_null(s);
    assert_non_null(strstr(err.message, word));
}

static void what_cannot_be_written_is_said_at_once(void **state)
{
    (void)state;
    char name[600];
    expect_refused(directory, KINETO_E_ARGUMENT, "is a directory");
    expect_refused("/nonexistent/a/b", KINETO_E_NOT_FOUND, "No such file");
    expect_refused("", KINETO_E_ARGUMENT, "empty");
    expect_refused(NULL, KINETO_E_ARGUMENT, "NULL");
    snprintf(name, sizeof(name), "%s/new/", directory);
    expect_refused(name, KINETO_E_ARGUMENT, "give a file name");
    snprintf(name, sizeof(name), "%s/%0*d", directory, 300, 7);
    expect_refused(name, KINETO_E_ARGUMENT, "too long");
    assert_int_equal(symlink("out.json", path), 0); /* points at itself */
    expect_refused(path, KINETO_E_IO, "Too many levels");
}

static void a_directory_without_permission_is_an_error(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        kb_sink *s;
        kineto_error err = {0};
        if (geteuid() == 0 && (chmod(directory, 0755) != 0 || setgid(65534) + setuid(65534) != 0))
            _exit(3);
        if (geteuid() != 65534)
            chmod(directory, 0500);
        bool refused = kb_sink_open_file(path, KB_COMPRESS_NONE, &s, &err) == KINETO_E_PERMISSION;
        chmod(directory, 0700);
        _exit(refused && strstr(err.message, "Permission denied") ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void a_name_as_long_as_can_be_works(void **state)
{
    (void)state;
    char name[600];
    kb_sink *s;
    snprintf(name, sizeof(name), "%s/%0*d", directory, 255, 7);
    assert_int_equal(kb_sink_open_file(name, KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    assert_int_equal(unlink(name), 0);
}

static void a_full_device_is_reported_with_its_reason(void **state)
{
    (void)state;
    kb_sink *s;
    kineto_error err;
    static char zeros[1 << 20];
    assert_int_equal(kb_sink_open_file("/dev/full", KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    for (int i = 0; i < 3; i++)
        kb_sink_write(s, zeros, sizeof(zeros));
    assert_true(kb_sink_failed(s));
    memset(kb_sink_reserve(s, KB_SINK_RESERVE_BYTES), 1, KB_SINK_RESERVE_BYTES);
    kb_sink_advance(s, KB_SINK_RESERVE_BYTES);
    assert_int_equal(kb_sink_close(s, &err), KINETO_E_IO);
    assert_int_equal(err.os_error, ENOSPC);
    assert_non_null(strstr(err.message, "/dev/full"));
    assert_non_null(strstr(err.message, "No space left"));
}

static void a_failed_file_leaves_the_old_one_and_nothing_else(void **state)
{
    (void)state;
    int status;
    put(path, "old");
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {1 << 20, 1 << 20};
        kineto_error err;
        static char data[300000];
        signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        kb_sink *s = open_file(KB_COMPRESS_NONE);
        for (int i = 0; i < 10; i++)
            kb_sink_write(s, data, sizeof(data));
        bool reported = kb_sink_close(s, &err) == KINETO_E_LIMIT && err.os_error == EFBIG;
        _exit(reported ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_string_equal(content(path), "old");
}

static void a_reader_that_goes_away_is_an_error_and_no_signal(void **state)
{
    (void)state;
    static char data[1 << 20];
    kineto_error err;
    signal(SIGPIPE, SIG_DFL);
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    kb_sink *s = open_file(KB_COMPRESS_NONE);
    close(reader);
    kb_sink_write(s, data, sizeof(data));
    assert_int_equal(kb_sink_close(s, &err), KINETO_E_IO);
    assert_int_equal(err.os_error, EPIPE);
    assert_int_equal(access(path, F_OK), 0); /* the FIFO is still there */
}

static void stdout_may_be_slow_and_non_blocking(void **state)
{
    (void)state;
    enum { BYTES = 600000 };
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        kb_sink *s;
        dup2(ends[1], 1);
        close(ends[0]);
        fcntl(1, F_SETFL, O_NONBLOCK);
        bool ok = kb_sink_open_file("-", KB_COMPRESS_NONE, &s, NULL) == KINETO_OK;
        for (int i = 0; ok && i < BYTES; i++)
            kb_sink_write(s, "x", 1);
        _exit(ok && kb_sink_close(s, NULL) == KINETO_OK && fcntl(1, F_GETFD) >= 0 ? 0 : 1);
    }
    close(ends[1]);
    size_t total = 0;
    ssize_t n;
    while ((n = read(ends[0], text, sizeof(text))) > 0)
        total += (size_t)n;
    close(ends[0]);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(total, BYTES);
}

static void a_device_is_written_and_not_replaced(void **state)
{
    (void)state;
    struct stat st;
    kb_sink *s;
    assert_int_equal(kb_sink_open_file("/dev/null", KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    kb_sink_write(s, "x", 1);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

/* ---- contents --------------------------------------------------------------------------------- */

/* Pieces of all sizes, by all ways in; returns the number of bytes. */
static size_t write_pattern(kb_sink *s, uint64_t seed)
{
    static char piece[700000];
    size_t total = 0;
    for (int i = 0; i < 300; i++) {
        uint64_t r = next_random(&seed);
        size_t n = i % 50 == 7 ? sizeof(piece) : r % 30000;
        if (i % 3 == 0 && n <= KB_SINK_RESERVE_BYTES) {
            memset(kb_sink_reserve(s, KB_SINK_RESERVE_BYTES), 'a' + i % 26, n);
            kb_sink_advance(s, n);
        } else {
            memset(piece, 'a' + i % 26, n);
            kb_sink_write(s, piece, n);
        }
        total += n;
        assert_int_equal(kb_sink_bytes(s), total);
    }
    return total;
}

static char *pattern_in_memory(size_t *bytes)
{
    kb_sink *s;
    char *data;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    size_t total = write_pattern(s, 4);
    assert_int_equal(kb_sink_take(s, &data, bytes, NULL), KINETO_OK);
    assert_int_equal(*bytes, total);
    assert_int_equal(data[total], '\0');
    kb_sink_close(s, NULL);
    return data;
}

static bool have(const char *tool)
{
    char command[100];
    snprintf(command, sizeof(command), "command -v %s >/dev/null", tool);
    return system(command) == 0;
}

static void expect_unpacks_to_pattern(const char *tool)
{
    size_t bytes;
    char command[700], *expected = pattern_in_memory(&bytes), *got = malloc(bytes + 2);
    snprintf(command, sizeof(command), "%s -dc < %s > %s", tool, path, other);
    assert_int_equal(system(command), 0);
    assert_int_equal(read_whole(other, got, bytes + 2), bytes);
    assert_memory_equal(got, expected, bytes);
    free(got);
    free(expected);
}

static void plain_gzip_and_zstd_hold_the_same_bytes(void **state)
{
    (void)state;
    const struct {
        kb_compression c;
        const char *tool;
    } cases[] = {{KB_COMPRESS_NONE, "cat"}, {KB_COMPRESS_GZIP, "gzip"}, {KB_COMPRESS_ZSTD, "zstd"}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        kb_sink *s;
        kineto_error err;
        if (cases[i].c == KB_COMPRESS_ZSTD &&
            kb_sink_open_file(path, KB_COMPRESS_ZSTD, &s, &err) == KINETO_E_UNSUPPORTED) {
            assert_non_null(strstr(err.message, "zstd"));
            continue;
        }
        if (cases[i].c != KB_COMPRESS_ZSTD)
            s = open_file(cases[i].c);
        write_pattern(s, 4);
        assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
        if (cases[i].c == KB_COMPRESS_NONE) {
            size_t bytes;
            char *expected = pattern_in_memory(&bytes), *got = malloc(bytes + 2);
            assert_int_equal(read_whole(path, got, bytes + 2), bytes);
            assert_memory_equal(got, expected, bytes);
            free(got);
            free(expected);
        } else if (have(cases[i].tool)) {
            expect_unpacks_to_pattern(cases[i].tool);
        } else {
            print_message("%s is not installed: not unpacked\n", cases[i].tool);
        }
    }
}

static void an_empty_gzip_file_is_a_gzip_file(void **state)
{
    (void)state;
    char command[700];
    assert_int_equal(kb_sink_close(open_file(KB_COMPRESS_GZIP), NULL), KINETO_OK);
    snprintf(command, sizeof(command), "gzip -t < %s", path);
    assert_int_equal(system(command), 0);
}

static void the_same_bytes_compress_to_the_same_bytes(void **state)
{
    (void)state;
    const kb_compression all[] = {KB_COMPRESS_GZIP, KB_COMPRESS_ZSTD};
    for (size_t i = 0; i < KB_COUNT(all); i++) {
        char *data[2];
        size_t bytes[2];
        for (int k = 0; k < 2; k++) {
            kb_sink *s;
            if (kb_sink_open_memory(all[i], &s, NULL) != KINETO_OK)
                return;
            write_pattern(s, 6);
            assert_int_equal(kb_sink_take(s, &data[k], &bytes[k], NULL), KINETO_OK);
            kb_sink_close(s, NULL);
        }
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(data[0], data[1], bytes[0]);
        free(data[0]);
        free(data[1]);
    }
}

static void a_discarding_sink_counts(void **state)
{
    (void)state;
    kb_sink *s;
    assert_int_equal(kb_sink_open_discard(&s, NULL), KINETO_OK);
    size_t total = write_pattern(s, 8);
    assert_int_equal(kb_sink_bytes(s), total);
    char *data;
    size_t bytes;
    assert_int_equal(kb_sink_take(s, &data, &bytes, NULL), KINETO_E_STATE);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(NULL, NULL), KINETO_OK);
    kb_sink_abort(NULL);
}

static void the_first_error_is_the_one_that_is_reported(void **state)
{
    (void)state;
    kb_sink *s = open_file(KB_COMPRESS_GZIP);
    kineto_error err;
    kb_sink_fail(s, KINETO_E_LIMIT, "first %d", 1);
    kb_sink_fail(s, KINETO_E_IO, "second");
    kb_sink_write(s, "x", 1);
    assert_int_equal(kb_sink_close(s, &err), KINETO_E_LIMIT);
    assert_string_equal(err.message, "first 1");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void the_name_says_how_to_compress(void **state)
{
    (void)state;
    assert_int_equal(kb_compression_of("a.json"), KB_COMPRESS_NONE);
    assert_int_equal(kb_compression_of("a.json.gz"), KB_COMPRESS_GZIP);
    assert_int_equal(kb_compression_of("a.zst"), KB_COMPRESS_ZSTD);
    assert_int_equal(kb_compression_of("gz"), KB_COMPRESS_NONE);
}

/* What XML and HTML hold, in text and in quotes: nothing that ends either, nothing that XML has not. */
static void text_is_written_as_xml_has_it(void **state)
{
    (void)state;
    const char in[] = "a<b c=\"&\">\x01\x7f\t\xff\xef\xbf\xbe\xef\xbf\xbd\xe2\x80\xa6 z";
    const char wanted[] = "a&lt;b c=&quot;&amp;&quot;&gt;???\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe2\x80\xa6 z";
    char *data;
    size_t bytes;
    kb_sink *s;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    kb_sink_write_xml(s, (kineto_string){in, sizeof in - 1});
    kb_sink_write_xml(s, (kineto_string){"", 0});
    assert_int_equal(kb_sink_take(s, &data, &bytes, NULL), KINETO_OK);
    kb_sink_close(s, NULL);
    assert_int_equal(bytes, sizeof wanted - 1);
    assert_memory_equal(data, wanted, bytes);
    free(data);
}

#define PLACED(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACED(a_file_appears_only_when_it_is_closed),
        PLACED(an_old_file_stays_until_the_new_one_is_whole),
        PLACED(a_link_is_written_through),
        PLACED(what_cannot_be_written_is_said_at_once),
        PLACED(a_directory_without_permission_is_an_error),
        PLACED(a_name_as_long_as_can_be_works),
        PLACED(a_full_device_is_reported_with_its_reason),
        PLACED(a_failed_file_leaves_the_old_one_and_nothing_else),
        PLACED(a_reader_that_goes_away_is_an_error_and_no_signal),
        PLACED(stdout_may_be_slow_and_non_blocking),
        PLACED(a_device_is_written_and_not_replaced),
        PLACED(plain_gzip_and_zstd_hold_the_same_bytes),
        PLACED(an_empty_gzip_file_is_a_gzip_file),
        PLACED(the_same_bytes_compress_to_the_same_bytes),
        PLACED(a_discarding_sink_counts),
        PLACED(the_first_error_is_the_one_that_is_reported),
        PLACED(the_name_says_how_to_compress),
        PLACED(text_is_written_as_xml_has_it),
    };
    return RUN_TESTS(tests);
}

/* The scanner: all its variants find the same places, and any number of threads gives the same
 * trace, also where a guess of where an event begins is wrong. */
#include "trace/read/scan_index.h"
#include "trace/trace.h"

#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { BLOCKS = 64, BYTES = BLOCKS * 64 };

/* ---- stage one ------------------------------------------------------------------------------- */

/* Places by their definition, one byte after the other. */
static size_t places_of(const char *text, uint32_t *out)
{
    size_t count = 0;
    bool in_string = false, escaped = false, in_scalar = false;
    for (uint32_t i = 0; i < BYTES; i++) {
        char c = text[i];
        if (escaped) {
            escaped = false;
            in_scalar = true;
            continue;
        }
        if (in_string) {
            escaped = c == '\\';
            in_string = c != '"';
            in_scalar = in_string;
            continue;
        }
        bool op = c && strchr("{}[]:,", c), space = c && strchr(" \t\r\n", c);
        if (op || (!space && !in_scalar)) /* a quote right after a word belongs to that */
            out[count++] = i;
        in_string = c == '"';
        in_scalar = !op && !space && c != '"';
    }
    return count;
}

/* Likely characters; backslashes only inside of strings, where they have a meaning. */
static void random_text(char *text, uint64_t *random)
{
    static const char likely[] = "\"\"{}[]:,  \n\tab12.-\x80\xff";
    bool in_string = false;
    for (size_t i = 0; i < BYTES; i++) {
        text[i] = likely[next_random(random) % (sizeof likely - 1)];
        in_string ^= text[i] == '"';
        if (in_string && i + 2 < BYTES && next_random(random) % 8 == 0) {
            text[++i] = '\\';
            text[++i] = "\"\\/bfnrt"[next_random(random) % 8];
        }
    }
}

static void every_variant_finds_the_places(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    static char text[BYTES + 64];
    static uint32_t wanted[BYTES + 8], found[BYTES + 8];
    uint64_t random = 9;
    for (int round = 0; round < FEWER(200, 50); round++) {
        random_text(text, &random);
        size_t count = places_of(text, wanted);
        const char *name;
        kt_index_fn *index;
        for (size_t i = 0; (index = kt_index_at(i, &name)) != NULL; i++) {
            kt_index_state s = {0};
            kt_index_result r = index(text, BLOCKS, &s, found);
            if (r.count != count || memcmp(found, wanted, count * sizeof *wanted) != 0)
                fail_msg("%s differs in round %d", name, round);
        }
    }
}

static void every_variant_objects_at_the_same_place(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    static char text[BYTES + 64];
    static uint32_t places[BYTES + 8];
    for (size_t at = 1; at < BYTES - 8; at += 7) {
        static const char *const wrong[] = {"\n", "\x01", "\\q", "\\u12g4"};
        const char *bad = wrong[at % KB_COUNT(wrong)], *name;
        memset(text, 'x', BYTES);
        text[0] = '"';
        memcpy(text + at, bad, strlen(bad));
        kt_index_fn *index;
        for (size_t i = 0; (index = kt_index_at(i, &name)) != NULL; i++) {
            kt_index_state s = {0};
            kt_index_result r = index(text, BLOCKS, &s, places);
            if (r.bad != text + at)
                fail_msg("%s: %td instead of %zu", name, r.bad ? r.bad - text : -1, at);
        }
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

static char directory[200], file[256], first_save[280], other_save[280];

static int setup(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof directory))
        return -1;
    snprintf(file, sizeof file, "%s/t.json", directory);
    snprintf(first_save, sizeof first_save, "%s/a.json", directory);
    snprintf(other_save, sizeof other_save, "%s/b.json", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    unlink(first_save);
    unlink(other_save);
    return rmdir(directory);
}

/* Names that look like the borders of events, args with events in them, ranges that end in another
 * batch, flows at the beginning of one: a few megabytes. */
static void write_awkward(FILE *f)
{
    fputs("{\"schemaVersion\":1,\"traceEvents\":[\n", f);
    for (unsigned i = 0; i < 24000; i++) {
        fprintf(
            f, "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"n%u }, {\\\"ph\\\":\\\"X\\\"\",\"pid\":%u,",
            i % 3 ? "cpu_op" : "kernel", i % 500, i % 4);
        fprintf(f, "\"tid\":%u,\"ts\":%u.%03u,\"dur\":3.5,\"args\":{\"a\":[{\"b\":%u},{\"ph\":1}],",
                i % 7, i * 5, i % 1000, i);
        fprintf(f, "\"correlation\":%u}},\n", i / 3 + 1);
        if (i % 5 == 0)
            fprintf(f,
                    "{\"ph\":\"%c\",\"id\":%u,\"pid\":%u,\"tid\":%u,\"ts\":%u.%03u,\"cat\":"
                    "\"ac2g\"},\n",
                    i % 2 ? 's' : 'f', i / 10, i % 4, i % 7, i * 5, i % 1000);
        if (i % 1000 == 0)
            fprintf(f, "{\"ph\":\"%c\",\"name\":\"long\",\"pid\":9,\"tid\":9,\"ts\":%u},\n",
                    i / 1000 % 2 ? 'E' : 'B', i * 5);
    }
    fputs("{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"two\"}}],\n"
          "\"baseTimeNanoseconds\":1700000000000000000}\n",
          f);
}

static void save_with(uint32_t threads, const char *path)
{
    kineto_open_options o = {.size = sizeof o, .threads = threads, .strict = true};
    kineto_trace *t;
    kineto_error err = {.message = ""};
    if (kineto_trace_open_with(file, &o, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kineto_trace_count(t), 24000 + 12);
    assert_int_equal(kineto_trace_save(t, path, &err), KINETO_OK);
    kineto_trace_release(t);
}

static bool same_but_for_the_name(const char *a, const char *b)
{
    char command[2000];
    snprintf(command, sizeof command,
             "grep -v traceName '%s' >'%s.x'; grep -v traceName '%s' | cmp -s - '%s.x'; r=$?; rm "
             "'%s.x'; "
             "exit $r",
             a, a, b, a, a);
    return system(command) == 0;
}

static void any_number_of_threads_gives_the_same_trace(void **state)
{
    (void)state;
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    write_awkward(f);
    assert_int_equal(fclose(f), 0);
    save_with(1, first_save);
    static const uint32_t counts[] = {2, 3, 7, 64};
    for (size_t i = FEWER(0, 1); i < KB_COUNT(counts); i += FEWER(1, 2)) {
        save_with(counts[i], other_save);
        assert_true(same_but_for_the_name(first_save, other_save));
    }
}

/* ---- what comes slowly --------------------------------------------------------------------------- */

enum { LONG_NUMBER = 6000 };

static void write_slowly(int fd, const char *text, size_t bytes, size_t pause_at)
{
    for (size_t done = 0; done < bytes;) {
        size_t most = done < pause_at ? pause_at - done : bytes - done;
        ssize_t n = write(fd, text + done, most);
        if (n <= 0)
            _exit(1);
        done += (size_t)n;
        if (done == pause_at)
            usleep(30000);
    }
    _exit(0);
}

/* Through a pipe that pauses inside of the number; `before` it are spaces. */
static uint64_t read_through_a_pipe(size_t before, const char *number, size_t pause_in)
{
    static char text[3000000];
    size_t bytes = (size_t)snprintf(text, sizeof text,
                                    "{\"traceEvents\":[%*s{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,"
                                    "\"tid\":1,\"ts\":1,\"dur\":",
                                    (int)before, "");
    size_t pause_at = bytes + pause_in;
    bytes += (size_t)snprintf(text + bytes, sizeof text - bytes, "%s}]}", number);
    assert_int_equal(mkfifo(file, 0600), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_slowly(open(file, O_WRONLY), text, bytes, pause_at);
    kineto_open_options o = {.size = sizeof o, .strict = true};
    kineto_trace *t;
    kineto_error err = {.message = ""};
    if (kineto_trace_open_with(file, &o, &t, &err) != KINETO_OK)
        fail_msg("%zu spaces, pause after %zu: %s", before, pause_in, err.message);
    kineto_activity a;
    kineto_trace_get(t, 0, &a);
    kineto_trace_release(t);
    waitpid(child, NULL, 0);
    unlink(file);
    return (uint64_t)(a.end_ns - a.start_ns);
}

static void a_number_may_come_in_pieces(void **state)
{
    (void)state;
    static char number[LONG_NUMBER + 1];
    memset(number, '0', LONG_NUMBER);
    memcpy(number, "7.25", 4);
    memcpy(number + LONG_NUMBER - 2, "e1", 2); /* who stops too early sees another number */
    size_t window = (size_t)140 * 16384;       /* less is waited for before reading begins */
    for (size_t before = window - 200; before < window; before += 40)
        assert_int_equal(read_through_a_pipe(before, number, 1000 + before % 300), 72500);
    assert_int_equal(read_through_a_pipe(window + 3, number, LONG_NUMBER - 1), 72500);
}

/* ---- repaired rows over more than one block ------------------------------------------------------ */

static void args_of_many_repaired_rows_are_kept(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    enum { EVENTS = 70000 };
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    fputs("{\"traceEvents\":[\n", f);
    for (unsigned i = 0; i < EVENTS; i++)
        fprintf(f,
                "%s{\"ph\":\"X\",\"name\":\"n\",\"pid\":1,\"tid\":1,\"ts\":%u,\"dur\":1,\"args\":"
                "{\"what\":\"%0*u\",}}",
                i ? ",\n" : "", i * 2, (int)(i % 90 + 1), i);
    fputs("]}\n", f);
    assert_int_equal(fclose(f), 0);
    kineto_trace *t;
    assert_int_equal(kineto_trace_open(file, &t, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), EVENTS);
    assert_int_equal(kineto_trace_repair_total(t), EVENTS);
    for (unsigned i = 0; i < EVENTS; i++) {
        kineto_arg arg;
        char wanted[120];
        snprintf(wanted, sizeof wanted, "%0*u", (int)(i % 90 + 1), i);
        assert_true(kineto_args_find(t, i, "what", &arg));
        assert_true(kb_string_equal(arg.text, kb_string(wanted)));
    }
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_finds_the_places),
        cmocka_unit_test(every_variant_objects_at_the_same_place),
        cmocka_unit_test_setup_teardown(any_number_of_threads_gives_the_same_trace, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_number_may_come_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(args_of_many_repaired_rows_are_kept, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

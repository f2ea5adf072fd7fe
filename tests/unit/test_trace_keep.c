/* Arguments of compressed traces and of pipes: not in memory, and there all the same; what a trace
 * takes of memory. */
#include "base/base.h"
#include "export/export.h"
#include "trace/bytes/input.h"
#include "trace/trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "unit.h"

static char directory[200];

/* The first three are the same trace, made once; tests write to the others. */
static const char *const names[] = {"t.json",    "t.json.gz",  "t.json.zst",  "m.json",
                                    "m.json.gz", "m.json.zst", "bad.json.gz", "member.json.gz",
                                    "out.json",  "large"};
enum { FORMS = 3 };

static const char *path_of(const char *name)
{
    static char paths[KB_COUNT(names)][300];
    size_t i = 0;
    while (i + 1 < KB_COUNT(names) && strcmp(names[i], name) != 0)
        i++;
    snprintf(paths[i], sizeof paths[i], "%s/%s", directory, name);
    return paths[i];
}

/* ---- traces that are made up ------------------------------------------------------------------ */

enum { ROWS = FEWER(40000, 8000), LONG_ROW = ROWS / 3, LONG_BYTES = 3 << 20 };

/* The text of a row's args: some long, one longer than any chunk. */
static void put_args(kb_sink *s, uint64_t row)
{
    char text[200];
    uint64_t random = row;
    int size =
        snprintf(text, sizeof text, "{\"row\": %llu, \"shape\": [[%llu, %llu], []], \"x\": \"",
                 (unsigned long long)row, (unsigned long long)(next_random(&random) % 4096),
                 (unsigned long long)(next_random(&random) % 512));
    kb_sink_write(s, text, (size_t)size);
    size_t rest = row == LONG_ROW ? LONG_BYTES : row % 1000 == 7 ? 20000 : row % 50;
    for (; rest > 16; rest -= 16) {
        size = snprintf(text, sizeof text, "%016llx", (unsigned long long)next_random(&random));
        kb_sink_write(s, text, (size_t)size);
    }
    kb_sink_write(s, "\"}", 2);
}

static bool make_trace(const char *path, uint64_t rows)
{
    kb_sink *s;
    char text[300];
    if (kb_sink_open_file(path, kb_compression_of(path), &s, NULL) != KINETO_OK)
        return false;
    kb_sink_write(s, "{\"deviceProperties\": [{\"id\": 0, \"name\": \"A\"}], \"traceEvents\": [\n",
                  65);
    for (uint64_t row = 0; row < rows; row++) {
        int size =
            snprintf(text, sizeof text,
                     "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::op_%llu\", "
                     "\"pid\": 71, \"tid\": %llu, \"ts\": %llu.250, \"dur\": 1.5, \"args\": ",
                     row ? ",\n" : "", (unsigned long long)(row % 700),
                     (unsigned long long)(71 + row % 4), (unsigned long long)(1000 + 3 * row));
        kb_sink_write(s, text, (size_t)size);
        put_args(s, row);
        kb_sink_write(s, "}", 1);
    }
    kb_sink_write(s, "\n], \"distributedInfo\": {\"rank\": 3}}\n", 36);
    return kb_sink_close(s, NULL) == KINETO_OK;
}

/* False: this build does not know the format. */
static bool pack_file(const char *from, const char *to)
{
    static char text[1 << 16];
    kb_sink *s;
    if (kb_sink_open_file(to, kb_compression_of(to), &s, NULL) != KINETO_OK)
        return false;
    FILE *in = fopen(from, "rb");
    for (size_t got; in && (got = fread(text, 1, sizeof text, in)) > 0;)
        kb_sink_write(s, text, got);
    return kb_sink_close(s, NULL) == KINETO_OK && in && fclose(in) == 0;
}

static int make_room(void **state)
{
    (void)state;
    return make_directory(directory, sizeof directory) ? 0 : -1;
}

static size_t forms; /* zstd may not be built in */

static int setup(void **state)
{
    if (make_room(state) || !make_trace(path_of("t.json"), ROWS) ||
        !pack_file(path_of("t.json"), path_of("t.json.gz")))
        return -1;
    forms = pack_file(path_of("t.json"), path_of("t.json.zst")) ? FORMS : FORMS - 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < KB_COUNT(names); i++)
        unlink(path_of(names[i]));
    return rmdir(directory);
}

static kineto_trace *open_trace(const char *path, uint32_t threads)
{
    kineto_open_options options = {.size = sizeof options, .threads = threads};
    kineto_error err = {.message = ""};
    kineto_trace *t = NULL;
    if (kineto_trace_open_with(path, &options, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return t;
}

/* A trace through a pipe, which another thread fills. */
typedef struct pipe_job {
    const char *path;
    int fd;
} pipe_job;

static void *fill_pipe(void *argument)
{
    pipe_job *job = argument;
    static char buffer[100000];
    int from = open(job->path, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; (got = read(from, buffer, sizeof buffer)) > 0;)
        for (ssize_t at = 0; at < got;) {
            ssize_t put = write(job->fd, buffer + at, (size_t)(got - at));
            if (put <= 0)
                break;
            at += put;
        }
    close(from);
    close(job->fd);
    return NULL;
}

static kineto_trace *open_pipe(const char *path)
{
    int ends[2];
    char name[40];
    pthread_t thread;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pipe_job job = {path, ends[1]};
    assert_int_equal(pthread_create(&thread, NULL, fill_pipe, &job), 0);
    snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
    kineto_trace *t = open_trace(name, 0);
    pthread_join(thread, NULL);
    close(ends[0]);
    return t;
}

static bool same_args(const kineto_trace *a, const kineto_trace *b, kineto_row row)
{
    return kb_string_equal(kt_args_text(a, row), kt_args_text(b, row));
}

static void assert_same_args(const kineto_trace *a, const kineto_trace *b)
{
    uint64_t count = kineto_trace_count(a), random = 3;
    assert_int_equal(count, kineto_trace_count(b));
    assert_int_equal(kineto_trace_text_bytes(a), kineto_trace_text_bytes(b));
    for (kineto_row row = 0; row < count; row++)
        if (!same_args(a, b, row))
            fail_msg("args of row %u differ", row);
    for (kineto_row row = (kineto_row)count; row-- > 0;)
        assert_true(same_args(a, b, row));
    for (int i = 0; i < 300; i++)
        assert_true(same_args(a, b, (kineto_row)(next_random(&random) % count)));
    assert_true(same_args(a, b, LONG_ROW));
}

/* ---- the same, wherever it is ------------------------------------------------------------------ */

static void args_are_the_same_in_every_form(void **state)
{
    (void)state;
    kineto_trace *plain = open_trace(path_of("t.json"), 1);
    assert_int_equal(kineto_trace_count(plain), ROWS);
    assert_true(kt_args_text(plain, LONG_ROW).size > LONG_BYTES - 100);
    for (uint32_t threads = 1; threads <= 4; threads += FEWER(1, 2)) {
        kineto_trace *again = open_trace(path_of("t.json"), threads);
        assert_same_args(plain, again);
        kineto_trace_release(again);
        for (size_t i = 1; i < forms; i++) {
            again = open_trace(path_of(names[i]), threads);
            assert_true(kt_block_at(again, 0)->text->away);
            assert_same_args(plain, again);
            assert_null(kt_args_lost_file(again));
            kineto_trace_release(again);
        }
    }
    for (size_t i = 0; i < forms; i++) {
        kineto_trace *again = open_pipe(path_of(names[i]));
        assert_true(kt_block_at(again, 0)->text->away);
        assert_same_args(plain, again);
        kineto_trace_release(again);
    }
    kineto_trace_release(plain);
}

static void append_file(FILE *to, const char *path, long from, long bytes)
{
    static char text[1 << 16];
    FILE *f = fopen(path, "rb");
    fseek(f, from, SEEK_SET);
    for (size_t got = 1; bytes > 0 && got > 0; bytes -= (long)got) {
        got = fread(text, 1, KB_MIN(sizeof text, (size_t)bytes), f);
        assert_int_equal(fwrite(text, 1, got, to), got);
    }
    fclose(f);
}

/* gzip data of a text that is cut into members at odd places, each three times the one before. */
static void make_members(const char *path)
{
    FILE *in = fopen(path_of("t.json"), "rb"), *out = fopen(path, "wb");
    const char *member = path_of("member.json.gz");
    for (size_t size = 1, got = 1; got; size = size * 3 + 1) {
        kb_sink *s;
        char *text = malloc(size);
        got = fread(text, 1, size, in);
        assert_int_equal(kb_sink_open_file(member, KB_COMPRESS_GZIP, &s, NULL), KINETO_OK);
        kb_sink_write(s, text, got);
        assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
        append_file(out, member, 0, LONG_MAX);
        free(text);
    }
    fclose(in);
    fclose(out);
}

static void members_of_gzip_are_one_text(void **state)
{
    (void)state;
    make_members(path_of("bad.json.gz"));
    kineto_trace *plain = open_trace(path_of("t.json"), 0);
    kineto_trace *members = open_trace(path_of("bad.json.gz"), 0);
    assert_same_args(plain, members);
    kineto_trace_release(members);
    kineto_trace_release(plain);
}

/* Cut anywhere, with a wrong sum, or with something after: what was read keeps its args. */
static void damaged_files_keep_the_args_of_what_was_read(void **state)
{
    (void)state;
    uint64_t random = 11;
    struct stat st;
    assert_int_equal(stat(path_of("t.json.gz"), &st), 0);
    kineto_trace *plain = open_trace(path_of("t.json"), 0);
    for (int i = 0; i < FEWER(12, 6); i++) {
        const char *bad = path_of("bad.json.gz");
        FILE *f = fopen(bad, "wb");
        long keep = i < 2 ? (long)st.st_size : (long)(next_random(&random) % (uint64_t)st.st_size);
        if (i == 1) { /* the sum over the text */
            append_file(f, path_of("t.json.gz"), 0, keep - 8);
            fputs("\1\2\3\4", f);
            append_file(f, path_of("t.json.gz"), keep - 4, 4);
        } else {
            append_file(f, path_of("t.json.gz"), 0, KB_MAX(keep, 200000));
        }
        fputs(i == 0 ? "no gzip data" : "", f);
        fclose(f);
        kineto_trace *t = open_trace(bad, 0);
        assert_true(kineto_trace_count(t) > 100);
        for (kineto_row row = 0; row + 1 < kineto_trace_count(t); row++)
            assert_true(same_args(plain, t, row));
        assert_null(kt_args_lost_file(t));
        assert_true(kineto_trace_lost(t) > 0);
        kineto_trace_release(t);
    }
    kineto_trace_release(plain);
}

/* Eight rows at a time, as writers and programs hold them. */
static void views_stay_while_seven_others_are_looked_at(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    uint64_t random = 5;
    kineto_trace *plain = open_trace(path_of("t.json"), 0),
                 *t = open_trace(path_of("t.json.gz"), 0);
    for (int round = 0; round < 50; round++) {
        kineto_row rows[KT_ARGS_TEXT_VIEWS];
        kineto_string views[KT_ARGS_TEXT_VIEWS];
        for (size_t i = 0; i < KT_ARGS_TEXT_VIEWS; i++) {
            rows[i] = (kineto_row)(next_random(&random) % ROWS);
            views[i] = kt_args_text(t, rows[i]);
            assert_ptr_equal(views[0].data, kt_args_text(t, rows[0]).data);
        }
        for (size_t i = 0; i < KT_ARGS_TEXT_VIEWS; i++)
            assert_true(kb_string_equal(views[i], kt_args_text(plain, rows[i])));
    }
    kineto_trace_release(t);
    kineto_trace_release(plain);
}

/* ---- files that change -------------------------------------------------------------------------- */

static void changed_files_lose_args_and_say_so(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    kineto_error err = {.message = ""};
    kineto_arg arg;
    const char *path = path_of("bad.json.gz"), *out = path_of("out.json");
    for (int how = 0; how < 3; how++) {
        assert_true(pack_file(path_of("t.json"), path));
        kineto_trace *t = open_trace(path, 0);
        assert_true(kineto_args_find(t, 1, "row", &arg));
        kt_input_trim(kt_block_at(t, 0)->text);
        struct timespec times[2] = {{1, 0}, {1, 0}};
        if (how == 0)
            assert_int_equal(truncate(path, 100000), 0);
        else if (how == 1) /* as if it had been written to */
            assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        else
            unlink(path);
        if (how == 2) { /* it is still there for who has it open */
            assert_true(kineto_args_find(t, ROWS - 1, "row", &arg));
            assert_int_equal(arg.i, ROWS - 1);
            assert_int_equal(kineto_trace_save(t, out, &err), KINETO_OK);
        } else {
            assert_false(kineto_args_find(t, ROWS - 1, "row", &arg));
            assert_string_equal(kt_args_lost_file(t), path);
            assert_int_equal(kineto_trace_save(t, out, &err), KINETO_E_IO);
            assert_non_null(strstr(err.message, path));
            assert_int_not_equal(access(out, F_OK), 0);
        }
        unlink(out);
        kineto_trace_release(t);
    }
}

static void small_texts_stay_where_they_are(void **state)
{
    (void)state;
    assert_true(make_trace(path_of("bad.json.gz"), 50));
    kineto_trace *t = open_trace(path_of("bad.json.gz"), 0);
    assert_false(kt_block_at(t, 0)->text->away);
    assert_int_equal(kt_block_at(t, 0)->text->index.fd, -1);
    assert_true(kt_block_at(t, 0)->text->reserved_bytes < 1 << 20);
    kineto_string args = kt_args_text(t, 49);
    assert_memory_equal(args.data, "{\"row\": 49,", 11);
    kineto_trace_release(t);
}

/* ---- real traces ------------------------------------------------------------------------------- */

/* Its text, as a file. */
static void inflate(const char *path, const char *to)
{
    kt_input *in;
    kb_sink *s;
    assert_int_equal(kt_input_open(path, &in, NULL), KINETO_OK);
    size_t size = kt_input_ready(in, SIZE_MAX);
    assert_int_equal(kb_sink_open_file(to, KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    kb_sink_write(s, in->base, size);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    kt_input_finish(in);
    kt_input_release(in);
}

static char *written(kineto_trace *t, size_t *bytes)
{
    kineto_export_options options = {.size = sizeof options, .trace_name = "the same"};
    char *text;
    kb_sink *s;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &s, NULL), KINETO_OK);
    assert_int_equal(ke_export_to_sink(t, s, &options, NULL, NULL), KINETO_OK);
    assert_int_equal(kb_sink_take(s, &text, bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(s, NULL), KINETO_OK);
    kineto_trace_release(t);
    return text;
}

static void check_real_trace(const char *path)
{
    size_t plain_size, size;
    inflate(path, path_of("out.json"));
    char *plain = written(open_trace(path_of("out.json"), 1), &plain_size);
    for (int from = 0; from < 2; from++) {
        char *text = written(from ? open_pipe(path) : open_trace(path, 3), &size);
        if (size != plain_size || memcmp(text, plain, size) != 0)
            fail_msg("%s is written in another way", path);
        free(text);
    }
    free(plain);
}

static void real_traces_are_written_the_same_from_every_form(void **state)
{
    (void)state;
    static const char folder[] = CKINETO_SHARED "/traces";
    DIR *d = opendir(folder);
    if (!d) {
        print_message("skipped: no folder of real traces\n");
        skip();
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[600];
        struct stat st;
        size_t size = strlen(entry->d_name);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        bool is_trace = size > 8 && strcmp(entry->d_name + size - 8, ".json.gz") == 0 &&
                        !strstr(entry->d_name, ".et.json") && stat(path, &st) == 0;
        if (is_trace && (!SANITIZED || st.st_size < 500000))
            check_real_trace(path);
    }
    closedir(d);
}

/* ---- threads --------------------------------------------------------------------------------------- */

enum { THREADS = 6 };
typedef struct walker {
    const kineto_trace *plain, *others[2];
    uint64_t seed;
    uint32_t wrong;
} walker;

/* Some forwards, some all over the place. */
static void *walk(void *argument)
{
    walker *w = argument;
    uint64_t random = w->seed;
    for (uint32_t i = 0; i < (w->seed % 2 ? 300 : ROWS); i++) {
        kineto_row row = w->seed % 2 ? (kineto_row)(next_random(&random) % ROWS) : i;
        w->wrong += !same_args(w->plain, w->others[i / 16 % 2], row);
        if (i % 5000 == 4999)
            kt_input_trim(kt_block_at(w->others[0], 0)->text);
    }
    return NULL;
}

static void threads_look_at_different_places(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    walker walkers[THREADS];
    kineto_trace *plain = open_trace(path_of("t.json"), 0);
    kineto_trace *zipped = open_trace(path_of("t.json.gz"), 0),
                 *piped = open_pipe(path_of("t.json"));
    for (size_t i = 0; i < THREADS; i++) {
        walkers[i] = (walker){plain, {zipped, piped}, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, walk, &walkers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(walkers[i].wrong, 0);
    }
    kineto_trace_release(zipped);
    kineto_trace_release(piped);
    kineto_trace_release(plain);
}

/* ---- large files ------------------------------------------------------------------------------ */

enum { LARGE_PARTS = KT_LARGE_BYTES / KT_PART_BYTES + 2 * KT_PARTS };

/* A number where each part begins, and nothing between. */
static void make_large(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (uint32_t part = 0; part < LARGE_PARTS; part++)
        assert_int_equal(
            pwrite(fd, &part, sizeof part, (off_t)part * (off_t)KT_PART_BYTES + part % 9), 4);
    assert_int_equal(ftruncate(fd, (off_t)LARGE_PARTS * (off_t)KT_PART_BYTES), 0);
    close(fd);
}

static kt_input *open_read(const char *path)
{
    kt_input *in;
    assert_int_equal(kt_input_open(path, &in, NULL), KINETO_OK);
    kt_input_finish(in);
    assert_int_equal(kt_input_seal(in, NULL), KINETO_OK);
    return in;
}

/* Looks at two places at once, as analyses do. */
static void *look_at_parts(void *input)
{
    kt_input *in = input;
    for (uint32_t i = 0; i < 2 * LARGE_PARTS; i++) {
        uint32_t part = i % 2 ? LARGE_PARTS - 1 - i / 2 : i / 2, is;
        uint64_t place = (uint64_t)part * KT_PART_BYTES + part % 9;
        memcpy(&is, kt_input_text(in, place, sizeof is).data, sizeof is);
        if (is != part)
            return in;
    }
    return NULL;
}

static uint32_t count_present(const kt_input *in)
{
    uint32_t present = 0;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    size_t page = kb_os_page_bytes();
    for (size_t part = 0; fd >= 0 && part < LARGE_PARTS; part++) {
        uint64_t entry = 0;
        off_t place = (off_t)(((uintptr_t)in->base + part * KT_PART_BYTES) / page * sizeof entry);
        if (pread(fd, &entry, sizeof entry, place) == sizeof entry)
            present += (uint32_t)(entry >> 63);
    }
    if (fd >= 0)
        close(fd);
    return present;
}

static uint32_t forks_over;

static void *read_anywhere(void *trace)
{
    uint64_t random = 5, count = kineto_trace_count(trace);
    while (!__atomic_load_n(&forks_over, __ATOMIC_RELAXED))
        (void)kt_args_text(trace, next_random(&random) % count);
    return NULL;
}

/* Other threads are in the middle of loading when the process forks; they do not come along. */
static void children_read_what_threads_of_their_parent_were_reading(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* the sanitizers do not support forks while other threads run */
#endif
    enum { READERS = 3, FORKS = 20 };
    pthread_t threads[READERS];
    kineto_trace *t = open_trace(path_of("t.json.gz"), 0);
    __atomic_store_n(&forks_over, 0u, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_anywhere, t), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            for (kineto_row row = 0; row < kineto_trace_count(t); row += ROWS / 50)
                if (!kt_args_text(t, row).size)
                    _exit(1);
            _exit(0);
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    __atomic_store_n(&forks_over, 1u, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    kineto_trace_release(t);
}

static void only_a_few_parts_of_large_files_stay(void **state)
{
    (void)state;
    make_large(path_of("large"));
    kt_input *in = open_read(path_of("large")), *other = open_read(path_of("large"));
    assert_null(look_at_parts(in));
    uint32_t present = count_present(in);
    assert_in_range(present, 1, KT_PARTS / 2);
    kt_input_release(other);
    assert_null(look_at_parts(in));
    assert_in_range(count_present(in), present, KT_PARTS);
    pthread_t thread;
    void *wrong;
    assert_int_equal(pthread_create(&thread, NULL, look_at_parts, in), 0);
    assert_null(look_at_parts(in));
    pthread_join(thread, &wrong);
    assert_null(wrong);
    assert_null(
        look_at_parts(in)); /* what one took while the other was at it goes with the next look */
    assert_in_range(count_present(in), 1, KT_PARTS);
    kt_input_release(in);
}

/* ---- packing -------------------------------------------------------------------------------------- */

static void packed_bytes_come_back(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    static char bytes[KT_SEEK_POINT_BYTES], again[KT_SEEK_POINT_BYTES];
    uint64_t random = 8;
    kt_packer *p = kt_packer_create();
    for (size_t round = 0; round < 12; round++) {
        size_t size = round == 0 ? 0 : round == 1 ? sizeof bytes : next_random(&random) % 300000;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (char)(round % 3 ? next_random(&random) % 4 : next_random(&random));
        kt_packed packed;
        assert_true(kt_pack(p, bytes, size, &packed));
        assert_true(packed.bytes <= size);
        memset(again, 0, size);
        assert_true(kt_unpack(&packed, again));
        assert_memory_equal(bytes, again, size);
        if (packed.bytes < size &&
            packed.bytes > 20) { /* damaged: refused or wrong, nothing worse */
            memset(packed.data + packed.bytes / 2, 0x5a, 9);
            (void)kt_unpack(&packed, again);
        }
        free(packed.data);
    }
    kt_packer_free(p);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

#define MOST_RESIDENT 72
#define MOST_AT_PEAK  110

static long status_kib(const char *key)
{
    char text[4096];
    read_whole("/proc/self/status", text, sizeof text);
    const char *at = strstr(text, key);
    return at ? atol(at + strlen(key)) : 0;
}

static uint64_t memory_rows = 400000;

typedef struct sizes {
    double resident, peak; /* bytes of an event */
    double packed;
} sizes;

/* In a process of its own, so that nothing else counts. */
static int measure(const char *path)
{
    kineto_trace *t;
    long before = status_kib("VmRSS:");
    if (kineto_trace_open(path, &t, NULL) != KINETO_OK)
        return 1;
    const kt_input *in = kt_block_at(t, 0)->text;
    double rows = (double)kineto_trace_count(t);
    sizes s = {(double)(status_kib("VmRSS:") - before) * 1024 / rows,
               (double)(status_kib("VmHWM:") - before) * 1024 / rows, 0};
    for (size_t i = 0; i < in->index.chunks.count; i++)
        s.packed += (double)in->index.chunks.data[i].packed.bytes / rows;
    return write(STDOUT_FILENO, &s, sizeof s) == sizeof s ? 0 : 1;
}

static sizes sizes_of(const char *path)
{
    int ends[2], status = 0;
    sizes s = {0, 0, 0};
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_trace_keep", path, (char *)NULL);
        _exit(1);
    }
    assert_int_equal(read(ends[0], &s, sizeof s), sizeof s);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    close(ends[0]);
    close(ends[1]);
    return s;
}

/* What does not grow with the trace (windows of text, batches of threads) is a constant. */
static void a_trace_takes_few_bytes_for_an_event(void **state)
{
    (void)state;
    if (SANITIZED) {
        print_message("skipped: sanitizers need memory of their own\n");
        skip();
    }
    static const char *const many[FORMS] = {"m.json", "m.json.gz", "m.json.zst"};
    assert_true(make_trace(path_of(many[0]), memory_rows));
    for (size_t i = 0; i < FORMS; i++) {
        if (i > 0 && !pack_file(path_of(many[0]), path_of(many[i])))
            continue;
        sizes s = sizes_of(path_of(many[i]));
        print_message("%-12s resident %.1f bytes an event (%.2f x of %d), of these packed %.1f; "
                      "peak %.1f (%.2f x of %d)\n",
                      many[i], s.resident, (s.resident - s.packed) / MOST_RESIDENT, MOST_RESIDENT,
                      s.packed, s.peak, (s.peak - s.packed) / MOST_AT_PEAK, MOST_AT_PEAK);
        double constant = 16e6 / (double)memory_rows;
        assert_true(s.resident - s.packed <= MOST_RESIDENT + constant / 4);
        assert_true(s.peak - s.packed <= MOST_AT_PEAK + constant);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest memory[] = {cmocka_unit_test(a_trace_takes_few_bytes_for_an_event)};
    if (argc == 2)
        return measure(argv[1]);
    if (argc == 3) {
        memory_rows = strtoull(argv[2], NULL, 10);
        return cmocka_run_group_tests(memory, make_room, teardown);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(args_are_the_same_in_every_form),
        cmocka_unit_test(members_of_gzip_are_one_text),
        cmocka_unit_test(damaged_files_keep_the_args_of_what_was_read),
        cmocka_unit_test(views_stay_while_seven_others_are_looked_at),
        cmocka_unit_test(changed_files_lose_args_and_say_so),
        cmocka_unit_test(small_texts_stay_where_they_are),
        cmocka_unit_test(real_traces_are_written_the_same_from_every_form),
        cmocka_unit_test(threads_look_at_different_places),
        cmocka_unit_test(children_read_what_threads_of_their_parent_were_reading),
        cmocka_unit_test(only_a_few_parts_of_large_files_stay),
        cmocka_unit_test(packed_bytes_come_back),
        cmocka_unit_test(a_trace_takes_few_bytes_for_an_event),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

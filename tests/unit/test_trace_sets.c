/* Args that many rows share, from the recording to every reader of them; and what operators of
 * collectives tell their kernels. */
#include "unit.h"

#include "../helpers/kf_write.h"
#include "trace/transform/merge.h"
#include "trace/trace.h"

#include <ckineto/export.h>

#define T(n) (KW_TICKS + (n))

typedef struct fixture {
    kw_recording w;
    uint32_t process, kernel; /* process, name */
} fixture;

static fixture make(void)
{
    fixture f;
    assert_true(kw_create(&f.w, 4, 65536));
    f.process = kw_process(&f.w, 10, "prog", "/usr/bin/prog");
    f.kernel = kw_string(&f.w, "kernel");
    kw_segment(&f.w, 1, 0, f.process, 10, 10, T(0), 0);
    return f;
}

static uint32_t loose_int(fixture *f, uint64_t *out, const char *key, int64_t value)
{
    out[0] = kf_loose_word(kw_string(&f->w, key), KINETO_ARG_INT, 0);
    out[1] = (uint64_t)value;
    return 2;
}

static uint32_t loose_text(fixture *f, uint64_t *out, const char *key, const char *text)
{
    return kw_loose_text(out, kw_string(&f->w, key), KINETO_ARG_STRING, text);
}

/* A set of three values. */
static uint32_t some_set(fixture *f)
{
    uint64_t words[16];
    uint32_t n = loose_int(f, words, "registers", 32);
    n += loose_text(f, words + n, "limit", "WARPS");
    n += loose_int(f, words + n, "private key", 5);
    return kw_set(&f->w, words, n);
}

static kw_device kernel_at(const fixture *f, uint64_t ns, uint32_t set)
{
    return (kw_device){.kind = KINETO_KIND_CONCURRENT_KERNEL,
                       .clock = KINETO_PLUGIN_CLOCK_TICKS,
                       .name = f->kernel,
                       .source = 1,
                       .start = T(ns),
                       .end = T(ns + 5),
                       .set = set};
}

static void put_kernel(fixture *f, uint64_t ns, uint32_t set, const uint64_t *own, uint32_t words)
{
    kw_device d = kernel_at(f, ns, set);
    kw_device_record(&f->w, &d, own, words);
}

static kineto_trace *build(fixture *f)
{
    kineto_trace *t = NULL;
    kineto_error err = {.code = KINETO_OK};
    kt_build_options all = {.kinds = KINETO_KINDS_ALL};
    if (kt_build(&f->w.input, f->w.pool.control, &all, &t, &err))
        fail_msg("%s", err.message);
    return t;
}

/* "key=value" of all args of a row, in their order. */
static const char *args_of(const kineto_trace *t, kineto_row row)
{
    static char text[4000];
    kineto_args_iterator it;
    kineto_arg arg;
    size_t n = 0;
    text[0] = 0;
    kineto_args_begin(t, row, &it);
    while (kineto_args_next(&it, &arg)) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=", n ? " " : "", (int)arg.key.size,
                              arg.key.data);
        n += arg.type < KINETO_ARG_STRING
                 ? (size_t)snprintf(text + n, sizeof text - n, "%lld", (long long)arg.i)
                 : (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)arg.text.size,
                                    arg.text.data);
    }
    return text;
}

static uint32_t set_number(const kineto_trace *t, kineto_row row)
{
    return kt_args_of(t, kt_block_at(t, row / KT_BLOCK_ROWS), row % KT_BLOCK_ROWS).set;
}

#define SHARED "registers=32 limit=WARPS private key=5"

/* ---- building ---- */

static void a_set_is_stored_once_and_comes_before_a_rows_own_args(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t own[8];
    uint32_t set = some_set(&f), n = loose_int(&f, own, "own", 1);
    n += loose_int(&f, own + n, "registers", 99); /* is there already */
    put_kernel(&f, 10, set, NULL, 0);
    put_kernel(&f, 20, set, own, n);
    put_kernel(&f, 30, 0, own, n);
    put_kernel(&f, 40, set, NULL, 0);
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_count(t), 4);
    assert_string_equal(args_of(t, 0), SHARED);
    assert_string_equal(args_of(t, 1), SHARED " own=1");
    assert_string_equal(args_of(t, 2), "own=1 registers=99");
    assert_string_equal(args_of(t, 3), SHARED);
    assert_true(set_number(t, 0) > 0);
    assert_int_equal(set_number(t, 0), set_number(t, 1));
    assert_int_equal(set_number(t, 2), 0);
    kineto_arg arg;
    assert_true(kineto_args_find(t, 1, "own", &arg));
    assert_true(kineto_args_find(t, 3, "limit", &arg));
    assert_false(kineto_args_find(t, 3, "own", &arg));
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_row_with_a_set_of_twenty_takes_at_most_twenty_bytes(void **state)
{
    (void)state;
    enum { ROWS = 200 };
    fixture f = make();
    uint64_t words[64];
    uint32_t n = 0;
    char key[16];
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "key %d", i);
        n += loose_int(&f, words + n, key, i);
    }
    uint32_t set = kw_set(&f.w, words, n);
    for (uint64_t i = 0; i < ROWS; i++)
        put_kernel(&f, 10 * i, set, NULL, 0);
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_count(t), ROWS);
    assert_in_range(kt_block_at(t, 0)->args_bytes, ROWS, ROWS * 20);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* Of texts that the recording has once the trace has one, too, whatever their type and however many
 * rows say them; they do not become args without end. */
static void a_long_text_is_stored_once_for_all_rows(void **state)
{
    (void)state;
    enum { ROWS = 100, BYTES = 20000 };
    fixture f = make();
    char *json = malloc(BYTES + 1);
    memset(json, 'x', BYTES);
    json[0] = json[BYTES - 1] = '"';
    json[BYTES] = 0;
    uint32_t plain = kw_string(&f.w, json + 1), valid = kw_string(&f.w, json);
    uint64_t own[] = {kf_loose_word(kw_string(&f.w, "plain"), KINETO_ARG_STRING, 0),
                      kf_text_word(BYTES - 1, plain),
                      kf_loose_word(kw_string(&f.w, "json"), KINETO_ARG_JSON, 0),
                      kf_text_word(BYTES, valid),
                      kf_loose_word(kw_string(&f.w, "bad"), KINETO_ARG_JSON, 0),
                      kf_text_word(BYTES - 1, plain),
                      kf_loose_word(kw_string(&f.w, "list"), KINETO_ARG_STRINGS, 0),
                      1,
                      kf_text_word(BYTES, valid)};
    for (uint64_t i = 0; i < ROWS; i++)
        put_kernel(&f, 10 * i, 0, own, sizeof own / sizeof own[0]);
    kineto_trace *t = build(&f);
    kineto_arg arg;
    assert_int_equal(kineto_trace_count(t), ROWS);
    assert_in_range(kt_block_at(t, 0)->args_bytes, ROWS, ROWS * 64);
    assert_true(kineto_args_find(t, ROWS - 1, "plain", &arg) && arg.type == KINETO_ARG_STRING);
    assert_int_equal(arg.text.size, BYTES - 1);
    assert_memory_equal(arg.text.data, json + 1, BYTES - 1);
    assert_true(kineto_args_find(t, 0, "json", &arg) && arg.type == KINETO_ARG_JSON);
    assert_int_equal(arg.text.size, BYTES);
    assert_true(kineto_args_find(t, 0, "bad", &arg) && arg.type == KINETO_ARG_STRING);
    assert_true(kineto_args_find(t, 0, "list", &arg) && arg.type == KINETO_ARG_STRINGS);
    assert_int_equal(arg.text.size, BYTES + 6); /* [" and \", \" and "] */
    kineto_trace_release(t);
    kw_free(&f.w);
    free(json);
}

static void args_of_a_row_end_where_they_would_without_sharing(void **state)
{
    (void)state;
    enum { ARGS = 20, BYTES = 1 << 20 };
    fixture f;
    assert_true(kw_create(&f.w, 4, 4u << 20));
    f.process = kw_process(&f.w, 10, "prog", "/usr/bin/prog");
    f.kernel = kw_string(&f.w, "kernel");
    kw_segment(&f.w, 1, 0, f.process, 10, 10, T(0), 0);
    char *text = calloc(1, BYTES), key[16];
    memset(text, 'x', BYTES - 1);
    uint64_t own[2 * ARGS];
    uint32_t id = kw_string(&f.w, text);
    for (uint32_t i = 0; i < ARGS; i++) {
        snprintf(key, sizeof key, "key %u", i);
        own[2 * i] = kf_loose_word(kw_string(&f.w, key), KINETO_ARG_STRING, 0);
        own[2 * i + 1] = kf_text_word(BYTES - 1, id);
    }
    put_kernel(&f, 10, 0, own, 2 * ARGS);
    put_kernel(&f, 20, 0, own, 4);
    kineto_trace *t = build(&f);
    kineto_activity a;
    kineto_arg arg;
    kineto_trace_get(t, 0, &a);
    assert_true(a.flags & KINETO_ACTIVITY_ARGS_LOST);
    assert_true(kineto_args_find(t, 0, "key 14", &arg));
    assert_false(kineto_args_find(t, 0, "key 16", &arg));
    kineto_trace_get(t, 1, &a);
    assert_false(a.flags & KINETO_ACTIVITY_ARGS_LOST);
    kineto_trace_release(t);
    kw_free(&f.w);
    free(text);
}

/* The first one of a key stays, also in rows with too many keys for a linear search. */
static void rows_with_many_keys_have_each_once(void **state)
{
    (void)state;
    enum { KEYS = 150, ROWS = 2 };
    fixture f = make();
    uint64_t set_words[2 * KEYS], own[6 * KEYS];
    uint32_t n = 0;
    char key[16];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key %d", i);
        (void)loose_int(&f, set_words + 2 * i, key, i);
    }
    uint32_t set = kw_set(&f.w, set_words, 2 * KEYS);
    for (int i = 0; i < 3 * KEYS; i++) { /* each of 50 .. 349, half of them twice */
        snprintf(key, sizeof key, "key %d", 50 + i % (2 * KEYS));
        n += loose_int(&f, own + n, key, 1000 + i);
    }
    for (uint64_t i = 0; i < ROWS; i++) /* one has what the set has */
        put_kernel(&f, 10 * i, i % 2 ? 0 : set, own, n);
    kineto_trace *t = build(&f);
    for (kineto_row row = 0; row < ROWS; row++) {
        int found[400] = {0}, count = 0;
        kineto_args_iterator it;
        kineto_arg arg;
        for (kineto_args_begin(t, row, &it); kineto_args_next(&it, &arg); count++) {
            int k = atoi(arg.key.data + 4);
            assert_int_equal(found[k]++, 0);
            assert_int_equal(arg.i, k < KEYS && row % 2 == 0 ? k : 1000 + k - 50);
        }
        assert_int_equal(count, row % 2 ? 2 * KEYS : 350);
    }
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void sets_that_are_none_flag_their_rows_and_nothing_else(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t broken[] = {kf_loose_word(kw_string(&f.w, "k"), KINETO_ARG_INTS, 0), 99};
    uint32_t good = some_set(&f);
    const uint32_t bad[] = {
        kw_set(&f.w, broken, 2), kw_set(&f.w, NULL, 0), f.kernel, f.process, good + 1, UINT32_MAX};
    for (uint64_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_kernel(&f, 10 * i, bad[i], NULL, 0);
        put_kernel(&f, 10 * i, bad[i], NULL, 0);
    }
    put_kernel(&f, 100, good, NULL, 0);
    kineto_trace *t = build(&f);
    kineto_activity a;
    assert_int_equal(kineto_trace_count(t), 13);
    for (kineto_row r = 0; r < 12; r++) {
        kineto_trace_get(t, r, &a);
        assert_string_equal(args_of(t, r), "");
        assert_true(a.flags & KINETO_ACTIVITY_ARGS_LOST);
    }
    kineto_trace_get(t, 12, &a);
    assert_false(a.flags & KINETO_ACTIVITY_ARGS_LOST);
    assert_string_equal(args_of(t, 12), SHARED);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- readers ---- */

static char *text_of(const kineto_trace *t, const char *format)
{
    char path[64] = "/tmp/test_trace_sets.XXXXXX", with[100];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    snprintf(with, sizeof with, "%s%s", path, format);
    kineto_error err = {.code = KINETO_OK};
    if (kineto_trace_save(t, with, &err))
        fail_msg("%s", err.message);
    FILE *file = fopen(with, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] ? text[i] : ' ';
    fclose(file);
    unlink(with);
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

static void every_format_writes_the_shared_args_of_every_row(void **state)
{
    (void)state;
    static const char *const formats[] = {".json", ".jsonl", ".csv"};
    fixture f = make();
    uint64_t own[8];
    uint32_t set = some_set(&f), n = loose_text(&f, own, "own", "mine");
    put_kernel(&f, 10, set, NULL, 0);
    put_kernel(&f, 20, set, own, n);
    kw_device memory = kernel_at(&f, 30, set); /* written the fast way */
    memory.kind = KINETO_KIND_OVERHEAD;
    kw_device_record(&f.w, &memory, NULL, 0);
    kineto_trace *t = build(&f);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char *text = text_of(t, formats[i]);
        assert_int_equal(count_of(text, "WARPS"), 3);
        assert_int_equal(count_of(text, "private key"), 3);
        assert_int_equal(count_of(text, "mine"), 1);
        free(text);
    }
    char *text = text_of(t, ".pftrace");
    assert_true(count_of(text, "WARPS") > 0);
    free(text);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_long_set_does_not_overrun_a_writer(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[1000];
    uint32_t n = 0;
    char key[24];
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "\"quoted\"\\ %d", i);
        n += loose_text(&f, words + n, key,
                        "\x01\x02 a text of sixty bytes that is escaped, \"so\"");
    }
    uint32_t set = kw_set(&f.w, words, n);
    kw_device d = kernel_at(&f, 30, set);
    for (uint32_t kind = 0; kind < KINETO_KIND_COUNT; kind++) {
        d.kind = kind;
        kw_device_record(&f.w, &d, NULL, 0);
    }
    kineto_trace *t = build(&f);
    static const char *const formats[] = {".json", ".jsonl", ".csv", ".pftrace"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        free(text_of(t, formats[i]));
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_selection_keeps_sets_and_stores_them_once(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t own[8];
    uint32_t set = some_set(&f), n = loose_int(&f, own, "own", 1);
    for (uint64_t i = 0; i < 10; i++)
        put_kernel(&f, 10 * i, set, own, i % 2 ? n : 0);
    kineto_trace *t = build(&f), *part;
    kineto_selection how = {.size = sizeof how,
                            .use = KINETO_SELECT_TIME,
                            .start_ns = KW_EPOCH + 38,
                            .end_ns = INT64_MAX};
    assert_int_equal(kineto_trace_select(t, &how, &part, NULL), KINETO_OK);
    assert_in_range(kineto_trace_count(part), 6, 7);
    for (kineto_row r = 0; r < kineto_trace_count(part); r++) {
        assert_true(strncmp(args_of(part, r), SHARED, strlen(SHARED)) == 0);
        assert_int_equal(set_number(part, r), set_number(part, 0));
    }
    kineto_trace_release(part);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void merged_traces_keep_the_sets_of_each(void **state)
{
    (void)state;
    fixture f = make(), g = make();
    uint64_t words[8];
    put_kernel(&f, 10, some_set(&f), NULL, 0);
    put_kernel(&g, 20, kw_set(&g.w, words, loose_int(&g, words, "other", 8)), NULL, 0);
    put_kernel(&g, 30, some_set(&g), NULL, 0);
    kineto_trace *a = build(&f), *b = build(&g), *t = NULL;
    const kineto_trace *const parts[] = {a, b};
    assert_int_equal(kineto_trace_merge(parts, 2, NULL, &t, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_string_equal(args_of(t, 0), SHARED);
    assert_string_equal(args_of(t, 1), "other=8");
    assert_string_equal(args_of(t, 2), SHARED);
    assert_int_equal(set_number(t, 0), set_number(t, 2));
    kineto_trace_release(t);
    kineto_trace_release(a);
    kineto_trace_release(b);
    kw_free(&f.w);
    kw_free(&g.w);
}

static void scrubbing_hides_what_sets_say_too(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[16];
    uint32_t n = loose_text(&f, words, "dtype", "zebra zebra");
    n += loose_text(&f, words + n, "zebra", "zebra");
    uint32_t set = kw_set(&f.w, words, n);
    put_kernel(&f, 10, set, NULL, 0);
    put_kernel(&f, 20, set, words, n);
    kineto_trace *t = build(&f), *after;
    kineto_scrub how = {
        .size = sizeof how, .what = KINETO_SCRUB_USUAL, .salt = "salt", .salt_bytes = 4};
    assert_int_equal(kineto_trace_scrub(t, &how, &after, NULL, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_count(after), 2);
    for (kineto_row r = 0; r < 2; r++) {
        assert_null(strstr(args_of(after, r), "zebra"));
        assert_non_null(strstr(args_of(after, r), "dtype="));
    }
    assert_true(set_number(after, 0) > 0);
    assert_int_equal(set_number(after, 0), set_number(after, 1));
    char *text = text_of(after, ".json");
    assert_null(strstr(text, "zebra"));
    free(text);
    kineto_trace_release(after);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- collectives ---- */

/* An operator (or annotation) with these loose args, whose id is `id`. */
static void put_operator(fixture *f, const char *name, uint64_t id, const uint64_t *args,
                         uint32_t words)
{
    uint64_t all[200] = {id};
    uint32_t site = kw_site(&f->w, name, KINETO_KIND_CPU_OP, NULL, 0);
    kw_begin_args(&f->w, 0, site, T(id), KF_PROP_EXTERNAL, all, 1);
    kw_record(&f->w, KF_ARGS, 0, 0, T(id), args, words);
    kw_end(&f->w, 0, T(id + 1));
}

static uint32_t message(fixture *f, uint64_t *out, const char *text, int64_t count)
{
    uint32_t n = loose_text(f, out, "Collective name", text);
    n += loose_int(f, out + n, "In msg nelems", count);
    n += loose_int(f, out + n, "Out msg nelems", count);
    n += loose_int(f, out + n, "Group size", 2);
    n += loose_text(f, out + n, "dtype", "Float");
    return n;
}

static uint32_t process_group(fixture *f, uint64_t *out, const char *name, const char *text)
{
    uint32_t n = loose_text(f, out, "Process Group Name", name);
    n += loose_text(f, out + n, "Process Group Description", text);
    n += loose_text(f, out + n, "Process Group Ranks", "[0, 1]");
    n += loose_int(f, out + n, "Rank", 1);
    return n;
}

static void put_launched(fixture *f, uint64_t ns, uint64_t id, uint32_t set)
{
    kw_device d = kernel_at(f, ns, set);
    d.external = id;
    kw_device_record(&f->w, &d, NULL, 0);
}

static const char *header(const kineto_trace *t, const char *key)
{
    static char text[2000];
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string k, v;
        kineto_trace_metadata(t, i, &k, &v);
        if (kb_string_equal(k, kb_string(key))) {
            snprintf(text, sizeof text, "%.*s", (int)v.size, v.data);
            return text;
        }
    }
    return "";
}

#define MESSAGE                                                                                    \
    "Collective name=allreduce In msg nelems=64 Out msg nelems=64 Group size=2 dtype=Float"
#define GROUP "Process Group Name=0 Process Group Description=default_pg Process Group Ranks=[0, 1]"

static void kernels_of_a_collective_know_what_its_operator_does(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[100];
    uint32_t n = message(&f, words, "allreduce", 64);
    n += process_group(&f, words + n, "0", "default_pg");
    n += loose_int(&f, words + n, "unrelated", 3);
    put_launched(&f, 5, 20, 0); /* before its operator */
    put_operator(&f, "record_param_comms", 20, words, n);
    put_launched(&f, 30, 20, some_set(&f));
    put_launched(&f, 40, 21, 0);
    put_launched(&f, 50, 0, 0);
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_count(t), 5);
    assert_string_equal(args_of(t, 0), MESSAGE " " GROUP);
    assert_string_equal(args_of(t, 2), SHARED " " MESSAGE " " GROUP);
    assert_string_equal(args_of(t, 3), "");
    assert_string_equal(args_of(t, 4), "");
    assert_string_equal(
        header(t, "distributedInfo"),
        "{\"backend\":\"nccl\",\"rank\":1,\"world_size\":2,\"pg_count\":1,\"pg_config\":[{"
        "\"pg_name\":\"0\",\"pg_desc\":\"default_pg\",\"backend_config\":\"cuda:nccl\","
        "\"pg_size\":2,\"ranks\":[0, 1]}],\"nccl_version\":\"unknown\"}");
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void groups_of_args_are_there_whole_or_not_at_all(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[100];
    uint32_t n = loose_text(&f, words, "Collective name", "send");
    n += loose_int(&f, words + n, "In msg nelems", 1); /* and no more of the five */
    n += loose_text(&f, words + n, "In split size", "[1]");
    n += loose_int(&f, words + n, "Dst Rank", 3);
    n += loose_int(&f, words + n, "Seq", 8);
    put_operator(&f, "record_param_comms", 20, words, n);
    put_launched(&f, 30, 20, 0);
    n = loose_text(&f, words, "In split size", "[1]");
    n += loose_text(&f, words + n, "Out split size", "[2]");
    put_operator(&f, "nccl:all_to_all", 22, words, n); /* an annotation that carries some */
    put_launched(&f, 40, 22, 0);
    put_operator(&f, "nccl:", 24, words, n);
    put_operator(&f, "record_param", 26, words, n);
    put_launched(&f, 50, 24, 0);
    put_launched(&f, 60, 26, 0);
    kineto_trace *t = build(&f);
    assert_string_equal(args_of(t, 1), "Dst Rank=3 Seq=8");
    assert_string_equal(args_of(t, 3), "In split size=[1] Out split size=[2]");
    assert_string_equal(args_of(t, 6), "");
    assert_string_equal(args_of(t, 7), "");
    assert_string_equal(header(t, "distributedInfo"), ""); /* no group was named */
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void what_the_source_or_the_program_said_itself_stays(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[100], own[8];
    uint32_t n = message(&f, words, "allreduce", 64);
    n += process_group(&f, words + n, "0", "default_pg");
    put_operator(&f, "record_param_comms", 20, words, n);
    kw_device d = kernel_at(&f, 30, 0);
    d.external = 20;
    kw_device_record(&f.w, &d, own, loose_text(&f, own, "Collective name", "mine"));
    kw_meta(&f.w, f.process, 0, "distributedInfo", "{\"rank\":7}");
    kineto_trace *t = build(&f);
    assert_string_equal(args_of(t, 1), "Collective name=mine");
    assert_string_equal(header(t, "distributedInfo"), "{\"rank\":7}");
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_recording_of_two_ranks_is_said_to_be_none(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[100];
    uint32_t n = message(&f, words, "allreduce", 64);
    n += process_group(&f, words + n, "0", "default_pg");
    put_operator(&f, "record_param_comms", 20, words, n);
    put_launched(&f, 30, 20, 0);
    uint32_t other = kw_process(&f.w, 11, "prog", "/usr/bin/prog");
    kw_segment(&f.w, 2, 0, other, 11, 11, T(0), 0);
    put_operator(&f, "record_param_comms", 20, words, n);
    put_launched(&f, 40, 20, 0);
    kineto_trace *t = build(&f);
    assert_string_equal(args_of(t, 1), MESSAGE " " GROUP);
    assert_string_equal(args_of(t, 3), MESSAGE " " GROUP);
    assert_string_equal(header(t, "distributedInfo"), "");
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void texts_of_the_program_do_not_break_the_header(void **state)
{
    (void)state;
    fixture f = make();
    uint64_t words[100];
    uint32_t n = message(&f, words, "allreduce", 64);
    n += loose_text(&f, words + n, "Process Group Name", "\"}\\\n");
    n += loose_text(&f, words + n, "Process Group Description", "\xff");
    n += loose_text(&f, words + n, "Process Group Ranks", "[0, 1, ..., 99]");
    put_operator(&f, "record_param_comms", 20, words, n);
    put_launched(&f, 30, 20, 0);
    n = message(&f, words, "allreduce", 64);
    words[n] = kf_loose_word(kw_string(&f.w, "Process Group Name"), KINETO_ARG_INTS, 3);
    words[n + 1] = 1;
    words[n + 2] = 2;
    put_operator(&f, "record_param_comms", 22, words, n + 3);
    put_launched(&f, 40, 22, 0);
    kineto_trace *t = build(&f);
    assert_true(kb_json_valid(kb_string(header(t, "distributedInfo"))));
    assert_non_null(strstr(header(t, "distributedInfo"), "\"ranks\":\"[0, 1, ..., 99]\""));
    assert_non_null(strstr(header(t, "distributedInfo"), "\"pg_count\":2"));
    kineto_trace_release(t);
    kw_free(&f.w);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_is_stored_once_and_comes_before_a_rows_own_args),
        cmocka_unit_test(a_row_with_a_set_of_twenty_takes_at_most_twenty_bytes),
        cmocka_unit_test(a_long_text_is_stored_once_for_all_rows),
        cmocka_unit_test(args_of_a_row_end_where_they_would_without_sharing),
        cmocka_unit_test(rows_with_many_keys_have_each_once),
        cmocka_unit_test(sets_that_are_none_flag_their_rows_and_nothing_else),
        cmocka_unit_test(every_format_writes_the_shared_args_of_every_row),
        cmocka_unit_test(a_long_set_does_not_overrun_a_writer),
        cmocka_unit_test(a_selection_keeps_sets_and_stores_them_once),
        cmocka_unit_test(merged_traces_keep_the_sets_of_each),
        cmocka_unit_test(scrubbing_hides_what_sets_say_too),
        cmocka_unit_test(kernels_of_a_collective_know_what_its_operator_does),
        cmocka_unit_test(groups_of_args_are_there_whole_or_not_at_all),
        cmocka_unit_test(what_the_source_or_the_program_said_itself_stays),
        cmocka_unit_test(a_recording_of_two_ranks_is_said_to_be_none),
        cmocka_unit_test(texts_of_the_program_do_not_break_the_header),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}

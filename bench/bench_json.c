/* Benchmark of writing a Kineto trace: one million cpu_op slices with 12 names, without args and
 * with four typed ones. The floor is the same number of bytes through the same kind of sink. */
#include "bench.h"

#include "export/export.h"
#include "trace/trace.h"

#include <unistd.h>

#define EVENTS 1000000
#define ROUNDS 11
#define PLAIN  "/dev/shm/ckineto-bench-json.json"
#define PACKED "/dev/shm/ckineto-bench-json.json.gz"

static const char *const names[] = {"aten::empty",
                                    "aten::add_",
                                    "aten::copy_",
                                    "aten::to",
                                    "aten::_to_copy",
                                    "aten::addmm",
                                    "aten::linear",
                                    "aten::relu",
                                    "aten::convolution",
                                    "aten::batch_norm",
                                    "aten::max_pool2d_with_indices",
                                    "aten::cross_entropy_loss"};

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_json: %s: %s\n", what, err->message);
    exit(1);
}

static kineto_trace *make_trace(int arg_count)
{
    static const char *const keys[] = {"Record function id", "Sequence number", "Fwd thread id",
                                       "Ev Idx"};
    kineto_error err;
    kt_builder *b;
    kineto_trace *t;
    uint32_t ids[KB_COUNT(names)], key_ids[KB_COUNT(keys)];
    uint64_t random = 12345;
    if (kt_builder_create(&b, &err) != KINETO_OK)
        exit_with_error("builder", &err);
    uint32_t track = kt_track(b, kt_process(b, false, 12345, 0), KINETO_TRACK_THREAD, 12345);
    for (size_t i = 0; i < KB_COUNT(names); i++)
        ids[i] = kt_string(b, kb_string(names[i]));
    for (size_t i = 0; i < KB_COUNT(keys); i++)
        key_ids[i] = kt_string(b, kb_string(keys[i]));
    int64_t now = INT64_C(1732000000000000000);
    for (int i = 0; i < EVENTS; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int64_t values[] = {0, i % 50000, 1, i};
        for (int k = 0; k < arg_count; k++)
            kt_args_put_int(b, key_ids[k], values[k]);
        int64_t start = now + (int64_t)(random >> 50),
                end = start + (int64_t)(random >> 33 & 65535);
        kt_append(b, &(kt_row){.start_ns = start,
                               .end_ns = end,
                               .name = ids[(random >> 20 & 0xfff) % KB_COUNT(names)],
                               .track = track,
                               .kind = KINETO_KIND_CPU_OP});
        now = end;
    }
    if (kt_builder_finish(b, &t, &err) != KINETO_OK)
        exit_with_error("trace", &err);
    kt_builder_destroy(b);
    return t;
}

static kb_sink *open_sink(const char *path)
{
    kineto_error err;
    kb_sink *sink;
    kineto_status status = path ? kb_sink_open_file(path, kb_compression_of(path), &sink, &err)
                                : kb_sink_open_discard(&sink, &err);
    if (status != KINETO_OK)
        exit_with_error(path ? path : "sink", &err);
    return sink;
}

static void close_sink(kb_sink *sink)
{
    kineto_error err;
    if (kb_sink_close(sink, &err) != KINETO_OK)
        exit_with_error("close", &err);
}

/* Remove the file of the last round before the clock starts: freeing its pages takes time. */
static void remove_old(const char *path)
{
    if (path)
        unlink(path);
}

/* CPU time of the whole process: the kernel's copy, and a compressor's thread if it has one. */
static double time_writer(const kineto_trace *t, const char *path, uint64_t *bytes)
{
    kineto_error err;
    remove_old(path);
    double before = bench_process_ns();
    kb_sink *sink = open_sink(path);
    if (ke_chrome_write(t, sink, "bench", NULL, &err) != KINETO_OK)
        exit_with_error("write", &err);
    *bytes = kb_sink_bytes(sink);
    close_sink(sink);
    return (bench_process_ns() - before) / EVENTS;
}

/* The same bytes from memory, in pieces of one event. */
static double time_copy(const char *text, uint64_t bytes, const char *path)
{
    size_t piece = bytes / EVENTS;
    remove_old(path);
    double before = bench_process_ns();
    kb_sink *sink = open_sink(path);
    for (uint64_t at = 0; at + piece <= bytes; at += piece)
        kb_sink_write(sink, text + at, piece);
    close_sink(sink);
    return (bench_process_ns() - before) / EVENTS;
}

/* The text as it is written, so that a compressor's floor compresses the same. */
static char *text_of(const kineto_trace *t)
{
    kineto_error err;
    kb_sink *sink;
    char *text = NULL;
    size_t bytes = 0;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, &err) != KINETO_OK ||
        ke_chrome_write(t, sink, "bench", NULL, &err) != KINETO_OK ||
        kb_sink_take(sink, &text, &bytes, &err) != KINETO_OK)
        exit_with_error("text", &err);
    close_sink(sink);
    return text;
}

static void measure_writer(const char *name, const kineto_trace *t, const char *text,
                           const char *path)
{
    bench_series writer = {.count = 0}, copy = {.count = 0};
    uint64_t bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        bench_add(&writer, time_writer(t, path, &bytes));
        bench_add(&copy, time_copy(text, bytes, path));
    }
    bench_print(name, "ns/event", &writer, &copy);
    remove_old(path);
}

/* Order and lanes, which the first writer or reader of a trace builds once. */
static void measure_first_use(const kineto_trace *t)
{
    double before = bench_process_ns();
    kineto_track track;
    kineto_trace_track(t, 0, &track);
    double ns = (bench_process_ns() - before) / EVENTS;
    bench_line("json_first_use", ns, "ns/event", 0, 1);
}

int main(void)
{
    kineto_trace *bare = make_trace(0), *full = make_trace(4);
    measure_first_use(bare);
    char *bare_text = text_of(bare), *full_text = text_of(full);
    measure_writer("json_write_0args", bare, bare_text, NULL);
    measure_writer("json_write_4args", full, full_text, NULL);
    measure_writer("json_tmpfs_0args", bare, bare_text, PLAIN);
    measure_writer("json_tmpfs_4args", full, full_text, PLAIN);
    measure_writer("json_gz_4args", full, full_text, PACKED);
    free(bare_text);
    free(full_text);
    kineto_trace_release(bare);
    kineto_trace_release(full);
    return 0;
}

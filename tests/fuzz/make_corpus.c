/* Writes the seeds of the fuzz targets: small valid recordings, one per subject, and traces.
 * make_corpus DIRECTORY */
#include "../helpers/kf_write.h"
#include "recording.h"

#include <sys/stat.h>

#define T(n)             (KW_TICKS + (n))
#define DICTIONARY_BYTES 2048u

typedef struct seed {
    kw_recording w;
    uint32_t process, op, note, launch;
    uint32_t wants; /* KF_WANT_… of who builds the trace; 0: all */
    uint32_t used[FUZZ_CHUNKS];
} seed;

static void segment(seed *s, uint32_t cursor, uint32_t seq, uint64_t ticks, uint32_t reopens)
{
    kw_segment(&s->w, cursor, seq, s->process, 10, 10 + cursor, ticks, reopens);
}

static void next_chunk(seed *s)
{
    s->used[s->w.chunk] = s->w.at;
    kw_chunk(&s->w, s->w.chunk + 1);
}

/* ---- the seeds ---- */

static void ranges(seed *s)
{
    segment(s, 1, 0, T(0), 0);
    kw_begin(&s->w, 0, s->op, T(1));
    kw_begin(&s->w, 1, s->note, T(2));
    kw_end(&s->w, 1, T(3));
    kw_begin(&s->w, 1, s->op, T(4));
    next_chunk(s);
    segment(s, 1, 1, T(5), 2);
    kw_reopen(&s->w, 0, s->op, T(1));
    kw_reopen(&s->w, 1, s->op, T(4));
    kw_end(&s->w, 1, T(6));
    kw_record(&s->w, KF_THREAD_EXIT, 0, 0, T(7), NULL, 0);
    segment(s, 2, 0, T(8), 0);
    kw_begin(&s->w, 0, s->note, T(9));
}

static void args(seed *s)
{
    const uint8_t types[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    uint32_t site = kw_site(&s->w, "args", KINETO_KIND_CPU_OP, types, 9), n = 0;
    uint64_t w[60];
    w[n++] = 31, w[n++] = 7; /* correlation, external id */
    n += kw_text(w + n, "renamed");
    w[n++] = 1, w[n++] = 2, w[n++] = UINT64_C(0x3fe0000000000000), w[n++] = 1;
    n += kw_text(w + n, "string");
    w[n++] = 2, w[n++] = 8, w[n++] = 9;
    w[n++] = 2;
    n += kw_text(w + n, "x");
    w[n++] = kf_text_word(6, kw_string(&s->w, "stored"));
    n += kw_text(w + n, "{\"k\":[1,null]}");
    w[n++] = 2, w[n++] = kf_pair(2, 0), w[n++] = 3, w[n++] = 4;
    segment(s, 1, 0, T(0), 0);
    kw_begin_args(&s->w, 0, site, T(1), 15, w, n);
    kw_record(&s->w, KF_ARGS, 0, site, T(2), w + 4, n - 4);
    kw_end(&s->w, 0, T(3));
}

static void async(seed *s)
{
    uint64_t ids[] = {5, 6};
    segment(s, 1, 0, T(0), 0);
    kw_record(&s->w, KF_ASYNC_BEGIN, 0, s->op, T(1), &ids[0], 1);
    kw_record(&s->w, KF_ASYNC_BEGIN, 0, s->op, T(2), &ids[1], 1);
    next_chunk(s);
    segment(s, 2, 0, T(3), 0);
    kw_record(&s->w, KF_ASYNC_END, 0, s->op, T(4), &ids[0], 1);
    kw_record(&s->w, KF_ASYNC_END, 0, s->note, T(5), &ids[0], 1);
    kw_record(&s->w, KF_FLOW, 1 | 0x100, 0, T(6), &ids[0], 1);
    kw_record(&s->w, KF_INSTANT, 0, s->note, T(7), NULL, 0);
}

static void device(seed *s)
{
    kf_source_entry source = {s->process, 1};
    kf_device_entry d = {s->process, 1, 0, 3};
    kf_resource_entry r = {s->process, 1, 0, 7, 1, 0};
    kf_clock_entry clock = {s->process, 5};
    uint32_t key = kw_string(&s->w, "bytes"), name = kw_string(&s->w, "kernel");
    uint32_t clock_name = kw_string(&s->w, "t");
    uint64_t loose[] = {kf_loose_word(key, KINETO_ARG_UINT, 0), 4096}, five = 5;
    kf_part props[] = {{&d, sizeof d}, {loose, sizeof loose}};
    kw_entry(&s->w, KF_ENTRY_SOURCE, &source, sizeof source, "opencl", NULL, NULL);
    kw_entry(&s->w, KF_ENTRY_DEVICE, &d, sizeof d, "dev", "label", NULL);
    kf_dictionary_add(&s->w.pool, KF_ENTRY_DEVICE_PROPS, props, 2);
    kw_entry(&s->w, KF_ENTRY_RESOURCE, &r, sizeof r, "queue", NULL, NULL);
    kw_entry(&s->w, KF_ENTRY_CLOCK, &clock, sizeof clock, "timer", NULL, NULL);
    segment(s, 1, 0, T(0), 0);
    kw_begin_args(&s->w, 0, s->launch, T(1), KF_PROP_CORRELATION, &five, 1);
    kw_end(&s->w, 0, T(2));
    for (uint32_t i = 0; i < 6; i++) {
        kw_device k = {.kind = i ? KINETO_KIND_CONCURRENT_KERNEL : KINETO_KIND_RUNTIME,
                       .clock = i,
                       .name = name,
                       .source = 1,
                       .start = T(10 * i),
                       .end = T(10 * i + 5),
                       .correlation = 5,
                       .resource = 7,
                       .flow_type = i == 3 ? 2 : 0,
                       .flow_id = 9};
        kw_device_record(&s->w, &k, loose, i % 2 * 2);
    }
    /* with texts of both ways, a spelling, a kind of its own, times that make no sense */
    uint64_t texts[16];
    uint32_t n = kw_loose_text(texts, key, KINETO_ARG_STRING, "a string");
    n += kw_loose_text(texts + n, name, KINETO_ARG_JSON, "[1,null]");
    n += kw_loose_text(texts + n, clock_name, KINETO_ARG_JSON, "");
    texts[n++] = kf_loose_word(name, KINETO_ARG_STRING, 0);
    texts[n++] = kf_text_word(5, key);
    kw_device k = {.kind = KINETO_KIND_OWN_FIRST, .name = name, .source = 1, .spelling = 22};
    kw_device_record(&s->w, &k, texts, n);
    k.kind = KINETO_KIND_RUNTIME;
    k.start = (uint64_t)KW_EPOCH;
    k.end = (uint64_t)INT64_MIN;
    kw_device_record(&s->w, &k, texts, n);
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t sample[] = {T(i * 100 + 2), i * 10};
        kw_record(&s->w, KF_CLOCK_SAMPLE, 0, 5, T(i * 100), sample, 2);
    }
}

/* Sets that events share: a good one, one that is broken, ids of no set; and a collective, whose
 * kernels get what its operator says. */
static void sets(seed *s)
{
    static const char *const keys[] = {
        "Collective name", "In msg nelems",      "Out msg nelems",           "Group size",
        "dtype",           "Process Group Name", "Process Group Description"};
    uint64_t w[64], broken[] = {kf_loose_word(1, KINETO_ARG_INTS, 0), 9}, id = 33;
    uint32_t name = kw_string(&s->w, "kernel"), n = 0;
    for (size_t i = 0; i < 7; i++)
        n += kw_loose_text(w + n, kw_string(&s->w, keys[i]), KINETO_ARG_STRING,
                           i == 6 ? "default_pg" : "[0, 1]");
    uint32_t comms = kw_site(&s->w, "record_param_comms", KINETO_KIND_CPU_OP, NULL, 0);
    segment(s, 1, 0, T(0), 0);
    kw_begin_args(&s->w, 0, comms, T(1), KF_PROP_EXTERNAL, &id, 1);
    kw_record(&s->w, KF_ARGS, 0, 0, T(2), w, n);
    kw_end(&s->w, 0, T(3));
    n = kw_loose_text(w, name, KINETO_ARG_JSON, "[1,null]");
    w[n++] = kf_loose_word(kw_string(&s->w, "bytes"), KINETO_ARG_INT, 0);
    w[n++] = 4096;
    const uint32_t ids[] = {kw_set(&s->w, w, n), kw_set(&s->w, broken, 2), name, 100000, 0};
    kw_device k = {.kind = KINETO_KIND_CONCURRENT_KERNEL,
                   .clock = KINETO_PLUGIN_CLOCK_TICKS,
                   .name = name,
                   .source = 1};
    for (uint32_t i = 0; i < 10; i++) {
        k.start = T(10 * i);
        k.end = T(10 * i + 5);
        k.set = ids[i / 2];
        k.external = i % 2 ? id : 0;
        kw_device_record(&s->w, &k, w, i % 4 == 3 ? n : 0);
    }
}

static void counters(seed *s)
{
    const uint8_t types[] = {KINETO_ARG_INT, KINETO_ARG_DOUBLE};
    uint32_t site = kw_site(&s->w, "load", KINETO_KIND_COUNTER, types, 2);
    uint64_t values[] = {1, 2}, memory[] = {1, 2, 3, 4, 5};
    kf_ledger_entry l = {0, 1, 3, 0};
    kw_entry(&s->w, KF_ENTRY_PROCESS_NAME, &s->process, 4, "named", NULL, NULL);
    kw_meta(&s->w, s->process, T(1), "key", "[1]");
    kw_entry(&s->w, KF_ENTRY_LEDGER, &l, sizeof l, "source", "reason", "detail");
    segment(s, 1, 0, T(0), 0);
    kw_record(&s->w, KF_THREAD_NAME, 0, kw_string(&s->w, "worker"), T(1), NULL, 0);
    kw_record(&s->w, KF_COUNTER, 0, site, T(2), values, 2);
    kw_record(&s->w, KF_MEMORY, 0, 0, T(3), memory, 5);
    kw_device d = {.kind = KINETO_KIND_GPU_PM_COUNTER, .name = site, .source = 1, .site = true};
    kw_device_record(&s->w, &d, values, 2);
    d.kind = KINETO_KIND_OWN_FIRST + 1;
    d.clock = KINETO_PLUGIN_CLOCK_TICKS;
    d.start = d.end = T(3);
    kw_device_record(&s->w, &d, values, 2);
    kw_put(&s->w, kf_header(KF_PAD, 3, 0, 0));
    kw_put(&s->w, 0);
    kw_put(&s->w, 0);
    kw_record(&s->w, KF_INSTANT, 0, s->op, T(4), NULL, 0);
}

/* ---- operators ---- */

static uint32_t put_tensor(uint64_t *w, uint32_t flags, uint32_t rank)
{
    uint32_t n = 0, dims = flags & KF_INPUT_SMALL ? (rank + 3) / 4 : rank;
    w[n++] = kf_input_word(KINETO_INPUT_TENSOR, flags, rank) | (uint64_t)KINETO_DTYPE_FLOAT << 32 |
             UINT64_C(0xffff) << 48;
    for (uint32_t i = 0; i < dims * (flags & KF_INPUT_STRIDES ? 2 : 1); i++)
        w[n++] = flags & KF_INPUT_SMALL ? UINT64_C(0x0005000400030002) : 70000 + i;
    for (uint32_t i = 0; i < (flags & KF_INPUT_IDS ? 3 : 0); i++)
        w[n++] = 77 + i;
    return n;
}

/* One of each; `count` receives how many. */
static uint32_t put_inputs(uint64_t *w, uint32_t ids, uint32_t *count)
{
    static const uint32_t lists[] = {KINETO_INPUT_INTS, KINETO_INPUT_DOUBLES, KINETO_INPUT_BOOLS};
    uint32_t n = put_tensor(w, KF_INPUT_SMALL | ids, 2);
    n += put_tensor(w + n, KF_INPUT_SMALL | KF_INPUT_STRIDES | ids, 5);
    n += put_tensor(w + n, KF_INPUT_STRIDES | ids, 3);
    n += put_tensor(w + n, 0, 0);
    w[n++] = kf_input_word(KINETO_INPUT_TENSORS, 0, 2);
    n += put_tensor(w + n, KF_INPUT_SMALL | ids, 1);
    w[n++] = kf_input_word(KINETO_INPUT_OTHER, 0, 0);
    w[n++] = kf_input_word(KINETO_INPUT_TENSORS, KF_INPUT_NOT_RECORDED, 0);
    for (uint32_t type = KINETO_INPUT_INT; type <= KINETO_INPUT_BOOL; type++) {
        w[n++] = kf_input_word(type, 0, 0);
        w[n++] = UINT64_C(0x3fe0000000000000);
    }
    for (uint32_t i = 0; i < 3; i++) {
        w[n++] = kf_input_word(lists[i], 0, 2);
        w[n++] = 1;
        w[n++] = UINT64_C(0xc000000000000000);
    }
    w[n++] = kf_input_word(KINETO_INPUT_INTS, KF_INPUT_NOT_RECORDED, 0);
    w[n++] = kf_input_word(KINETO_INPUT_STRING, 0, 0);
    *count = 13;
    return n;
}

static uint32_t put_part(seed *s, uint64_t *w, uint32_t parts, uint32_t ids)
{
    uint32_t n = 1, count = 0;
    if (parts & KF_FUNCTION_SEQUENCE)
        w[n++] = 12;
    if (parts & KF_FUNCTION_FORWARD)
        w[n++] = 1;
    if (parts & KF_FUNCTION_DEBUG)
        w[n++] = UINT64_MAX - 5;
    if (parts & KF_FUNCTION_STACK) {
        w[n++] = 3;
        w[n++] = 0x401010, w[n++] = 0x401020, w[n++] = 0x7f0000001234;
    }
    if (parts & KF_FUNCTION_ARGS) {
        uint32_t at = n++, from = n;
        n += kw_loose_text(w + n, kw_string(&s->w, "Call stack"), KINETO_ARG_STRING, "a;b;");
        w[n++] = kf_loose_word(kw_string(&s->w, "alpha"), KINETO_ARG_INT, 0);
        w[n++] = 3;
        w[n++] = kf_loose_word(kw_string(&s->w, "dims"), KINETO_ARG_INTS, 3);
        w[n++] = 8, w[n++] = 9;
        w[at] = n - from;
    }
    if (parts & KF_FUNCTION_INPUTS)
        n += put_inputs(w + n, ids, &count);
    w[0] = kf_function_word(parts | (ids ? KF_FUNCTION_IDS : 0), count, n, 1);
    return n;
}

static void module_entry(seed *s, uint64_t start, const char *path, const char *id)
{
    kf_module_entry e = {.process = s->process, .start = start, .end = start + 0x10000};
    kw_entry(&s->w, KF_ENTRY_MODULE, &e, sizeof e, path, id, NULL);
}

static void operators(seed *s)
{
    const uint32_t all = KF_FUNCTION_SEQUENCE | KF_FUNCTION_FORWARD | KF_FUNCTION_DEBUG |
                         KF_FUNCTION_INPUTS | KF_FUNCTION_VALUES | KF_FUNCTION_STACK |
                         KF_FUNCTION_CUT | KF_FUNCTION_ARGS;
    uint64_t w[200];
    module_entry(s, 0x400000, "/nonexistent/prog", "0123456789abcdef0123");
    module_entry(s, 0x7f0000000000, "/proc/self/exe", "");
    segment(s, 1, 0, T(0), 0);
    w[0] = 31; /* a forward operator, and its backward one */
    uint32_t n = 1 + put_part(s, w + 1, all & ~KF_FUNCTION_FORWARD, 0);
    kw_begin_args(&s->w, 0, s->op, T(1), KF_PROP_EXTERNAL | KF_PROP_FUNCTION, w, n);
    n = put_part(s, w, KF_FUNCTION_INPUTS | KF_FUNCTION_VALUES, KF_INPUT_IDS);
    kw_record(&s->w, KF_OUTPUTS, 0, 0, T(2), w, n);
    kw_end(&s->w, 0, T(3));
    w[0] = 32;
    n = 1 + kw_text(w + 1, "renamed");
    n += put_part(s, w + n, all, KF_INPUT_IDS);
    kw_begin_args(&s->w, 0, s->op, T(4), KF_PROP_EXTERNAL | KF_PROP_NAME | KF_PROP_FUNCTION, w, n);
    next_chunk(s);
    segment(s, 1, 1, T(5), 1);
    n = 1 + put_part(s, w + 1, all, 0);
    kw_record(&s->w, KF_REOPEN, 0 | (KF_PROP_EXTERNAL | KF_PROP_FUNCTION) << 8, s->op, T(4), w, n);
    kw_end(&s->w, 0, T(6));
    w[0] = w[1] = 33; /* one that is asynchronous */
    n = 2 + put_part(s, w + 2, KF_FUNCTION_SEQUENCE | KF_FUNCTION_INPUTS, 0);
    kw_record(&s->w, KF_ASYNC_BEGIN, (KF_PROP_EXTERNAL | KF_PROP_FUNCTION) << 8, s->note, T(7), w,
              n);
    kw_record(&s->w, KF_ASYNC_END, 0, s->note, T(8), w, 1);
}

static void operators_wanted(seed *s)
{
    s->wants = KF_WANT_INPUTS | KF_WANT_STACK | KF_WANT_SCOPES | KF_WANT_ALL_THREADS;
    operators(s);
}

/* ---- writing ---- */

static bool write_bytes(const char *directory, const char *target, const char *name,
                        const uint8_t *data, size_t size)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, target);
    (void)mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", directory, target, name);
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        return false;
    }
    bool written = fwrite(data, 1, size, f) == size;
    return fclose(f) == 0 && written;
}

/* The same as frames of a spool. */
static bool write_spool(seed *s, const char *directory, const char *name)
{
    static uint8_t data[1 + (FUZZ_CHUNKS + 1) * (KF_CHUNK_BYTES + sizeof(kf_frame))];
    size_t at = 1; /* nothing is changed in front of the frames */
    uint32_t words = s->w.pool.control->dictionary_used;
    for (uint32_t i = 0; i <= s->w.chunk + 1; i++) {
        uint32_t bytes = 8 * (i ? s->used[i - 1] : words - 1);
        const kf_frame frame = {i ? KF_FRAME_CHUNK : KF_FRAME_DICTIONARY, bytes, i ? i - 1 : 1, i};
        memcpy(data + at, &frame, sizeof frame);
        memcpy(data + at + sizeof frame,
               i ? kf_pool_chunk(&s->w.pool, i - 1) : s->w.pool.dictionary + 1, bytes);
        at += sizeof frame + bytes;
    }
    return write_bytes(directory, "fuzz_spool", name, data, at);
}

static bool write_seed(seed *s, const char *directory, const char *name)
{
    static uint8_t data[FUZZ_HEADER_BYTES + DICTIONARY_BYTES + FUZZ_CHUNKS * KF_CHUNK_BYTES];
    uint32_t words = s->w.pool.control->dictionary_used, chunks = s->w.chunk + 1;
    s->used[s->w.chunk] = s->w.at;
    memset(data, 0, FUZZ_HEADER_BYTES);
    data[0] = (uint8_t)(chunks - 1);
    data[2] = (uint8_t)words;
    data[3] = (uint8_t)(words >> 8);
    memcpy(data + 12, &s->wants, sizeof s->wants);
    size_t at = FUZZ_HEADER_BYTES;
    memcpy(data + at, s->w.pool.dictionary, words * 8u);
    at += words * 8u;
    for (uint32_t i = 0; i < chunks; i++) {
        data[4 + 2 * i] = (uint8_t)s->used[i];
        data[5 + 2 * i] = (uint8_t)(s->used[i] >> 8);
        memcpy(data + at, kf_pool_chunk(&s->w.pool, i), s->used[i] * 8u);
        at += s->used[i] * 8u;
    }
    return write_bytes(directory, "fuzz_decode", name, data, at) &&
           write_bytes(directory, "fuzz_build", name, data, at) && write_spool(s, directory, name);
}

static bool make_seed(const char *directory, const char *name, void (*fill)(seed *))
{
    seed s = {.process = 0};
    if (!kw_create(&s.w, FUZZ_CHUNKS, DICTIONARY_BYTES))
        return false;
    s.process = kw_process(&s.w, 10, "prog", "/bin/prog x");
    s.op = kw_site(&s.w, "op", KINETO_KIND_CPU_OP, NULL, 0);
    s.note = kw_site(&s.w, "note", KINETO_KIND_USER_ANNOTATION, NULL, 0);
    s.launch = kw_site(&s.w, "launch", KINETO_KIND_RUNTIME, NULL, 0);
    fill(&s);
    bool written = write_seed(&s, directory, name);
    kw_free(&s.w);
    return written;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fill)(seed *);
    } seeds[] = {{"ranges", ranges},       {"args", args},
                 {"async", async},         {"device", device},
                 {"operators", operators}, {"operators_wanted", operators_wanted},
                 {"counters", counters},   {"sets", sets}};
    /* Bytes of a pool that change: the state of chunk 0, the limit of chunks, a magic byte. */
    static const uint8_t pool[] = {0x80, 0x2c, 3, 0xc8, 0x08, 1, 0x01, 0x10, 9};
    if (argc != 2)
        return 2;
    (void)mkdir(argv[1], 0777);
    static const char broken[] =
        "{\"schemaVersion\": 1,\n\"traceEvents\": [{\"ph\":\"X\",\"name\":\"a \"b\" "
        "\\q\",\"ts\":1.5,"
        "\"args\":{\"k\":NaN,\"l\":[1,2,],\"c\":\"{\"a\": 1}\"}} {\"ph\":\"M\",\"name\":\"n\"},\n"
        "log {'ph':'i','name':'x','ts':-5.-10}], \"traceName\": \"x\"}{\"traceEvents\": [";
    static const char sound[] = /* after the kind of compression */
        "\x14\0\0\0{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1700000000000000000,\n"
        "\"deviceProperties\": [{\"id\": 0, \"name\": \"d\"}], \"traceEvents\": [\n"
        "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"args\":{\"labels\":\"GPU 0\"}},\n"
        "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"launch\",\"pid\":10,\"tid\":11,\"ts\":1."
        "5,"
        "\"dur\":2,\"args\":{\"correlation\":9,\"External id\":3}},\n"
        "{\"ph\":\"s\",\"id\":9,\"pid\":10,\"tid\":11,\"ts\":1.5,\"cat\":\"ac2g\",\"name\":"
        "\"ac2g\"},\n"
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\\u00e9\",\"pid\":0,\"tid\":7,\"ts\":3,"
        "\"dur\":4,"
        "\"args\":{\"stream\":7,\"correlation\":9,\"grid\":[1,2,3]}},\n"
        "{\"ph\":\"f\",\"id\":9,\"pid\":0,\"tid\":7,\"ts\":3,\"cat\":\"ac2g\",\"name\":\"ac2g\"},\n"
        "{\"ph\":\"C\",\"name\":\"c\",\"pid\":10,\"ts\":2,\"args\":{\"x\":1,\"y\":-2.5e1}},\n"
        "{\"ph\":\"b\",\"cat\":\"io\",\"id\":\"0x1f\",\"name\":\"r\",\"pid\":10,\"tid\":11,\"ts\":"
        "1},\n"
        "{\"ph\":\"e\",\"cat\":\"io\",\"id\":\"0x1f\",\"name\":\"r\",\"pid\":10,\"tid\":11,\"ts\":"
        "9},\n"
        "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"now\",\"pid\":\"10\",\"tid\":\"stream 7\",\"ts\":2}\n"
        "]}\n";
    bool written = write_bytes(argv[1], "fuzz_pool", "bytes", pool, sizeof pool);
    written =
        write_bytes(argv[1], "fuzz_packed", "sound", (const uint8_t *)sound, sizeof sound - 1) &&
        write_bytes(argv[1], "fuzz_read", "sound", (const uint8_t *)sound + 4, sizeof sound - 5) &&
        write_bytes(argv[1], "fuzz_analyze", "sound", (const uint8_t *)sound + 4,
                    sizeof sound - 5) &&
        write_bytes(argv[1], "fuzz_sql", "sound", (const uint8_t *)sound + 4, sizeof sound - 5) &&
        written;
    written =
        write_bytes(argv[1], "fuzz_repair", "broken", (const uint8_t *)broken, sizeof broken - 1) &&
        written;
    static const char status[] = "3\x12\0\0\0{\"fn\":\"getStatus\"}";
    written =
        write_bytes(argv[1], "fuzz_dyno", "status", (const uint8_t *)status, sizeof status - 1) &&
        written;
    for (size_t i = 0; i < KB_COUNT(seeds); i++)
        written = make_seed(argv[1], seeds[i].name, seeds[i].fill) && written;
    return !written;
}

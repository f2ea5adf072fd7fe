/* Writes the header and footer of a generated trace, before and after the events of the steps, and
 * implements the buffer of the writer. */
#include "gen/write.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const thread_names[GEN_THREADS] = {"python", "pt_autograd_0", "pt_data_pin"};

/* ---- the ends of the file ------------------------------------------------------------------------ */

static void put_device(gen_writer *w, int id)
{
    LITERAL(w, "    {\n      \"id\": ");
    put_int(w, id);
    LITERAL(w, ", \"name\": \"NVIDIA A100-SXM4-80GB\", \"totalGlobalMem\": 84990623744,\n"
               "      \"computeMajor\": 8, \"computeMinor\": 0,\n"
               "      \"maxThreadsPerBlock\": 1024, \"maxThreadsPerMultiprocessor\": 2048,\n");
    if (w->layout == GEN_TORCH2)
        LITERAL(w, "      \"regsPerBlock\": 65536, \"warpSize\": 32,\n"
                   "      \"sharedMemPerBlock\": 49152, \"numSms\": 108\n"
                   "    , \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": 166912, "
                   "\"sharedMemPerMultiprocessor\": 167936\n    }");
    else
        LITERAL(
            w,
            "      \"regsPerBlock\": 65536, \"regsPerMultiprocessor\": 65536, \"warpSize\": 32,\n"
            "      \"sharedMemPerBlock\": 49152, \"sharedMemPerMultiprocessor\": 167936,\n"
            "      \"numSms\": 108, \"sharedMemPerBlockOptin\": 166912\n    }");
}

void gen_write_header(gen_writer *w)
{
    if (w->layout != GEN_TORCH1_13)
        *w->at++ = '\n';
    LITERAL(w, "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n");
    for (int id = 0; id < 8; id++) {
        put_device(w, id);
        put_z(w, id < 7 ? ",\n" : "\n");
    }
    LITERAL(w, "  ],\n");
    if (w->layout == GEN_TORCH1_13)
        LITERAL(
            w,
            "  \"record_shapes\": 1,\n  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 0, "
            "\"world_size\": 8},\n");
    if (w->layout == GEN_TORCH2)
        LITERAL(
            w,
            "  \"record_shapes\": 1,\n  \"with_stack\": 1,\n  \"distributedInfo\": {\"backend\": "
            "\"nccl\", "
            "\"rank\": 0, \"world_size\": 8, \"pg_count\": 1, \"pg_config\": [{\"pg_name\": \"0\", "
            "\"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"pg_size\": 8, "
            "\"ranks\": "
            "[0, 1, 2, 3, 4, 5, 6, 7]}], \"nccl_version\": \"2.21.5\"},\n");
    LITERAL(w, "  \"traceEvents\": [\n");
}

static void begin_meta(gen_writer *w, const char *name, int64_t ns, bool on_stream, int place,
                       bool whole)
{
    begin_event(w);
    LITERAL(w, "\"name\": \"");
    put_z(w, name);
    LITERAL(w, "\", \"ph\": \"M\", \"ts\": ");
    put_time(w, ns);
    LITERAL(w, ", ");
    if (whole) {
        LITERAL(w, "\"pid\": ");
        put_int(w, place);
        LITERAL(w, ", \"tid\": 0");
    } else if (on_stream) {
        put_stream(w, place);
    } else {
        put_thread(w, place);
    }
    LITERAL(w, ",\n    \"args\": {\n      ");
}

static void meta_text(gen_writer *w, const char *key, const char *text, int64_t number,
                      const char *after)
{
    *w->at++ = '"';
    put_z(w, key);
    LITERAL(w, "\": \"");
    put_z(w, text);
    if (number >= 0)
        put_int(w, number);
    put_z(w, after);
    *w->at++ = '"';
    end_row(w);
}

static void meta_sort(gen_writer *w, int64_t index)
{
    if (w->layout == GEN_TORCH1_8)
        return;
    LITERAL(w, "\"sort_index\": ");
    put_int(w, index);
    end_row(w);
}

static void write_processes(gen_writer *w, int64_t ns)
{
    for (int i = 0; i < 9; i++) {
        int pid = i ? i - 1 : PID;
        begin_meta(w, "process_name", ns, false, pid, true);
        meta_text(w, "name", "python", -1, "");
        begin_meta(w, "process_labels", ns, false, pid, true);
        meta_text(w, "labels", i ? "GPU " : "CPU", i ? i - 1 : -1, "");
        if (w->layout != GEN_TORCH1_8) {
            begin_meta(w, "process_sort_index", ns, false, pid, true);
            meta_sort(w, i ? 16777216 + i - 1 : pid);
        }
    }
}

static void write_threads(gen_writer *w, int64_t ns)
{
    for (int i = 0; i < GEN_THREADS; i++) {
        begin_meta(w, "thread_name", ns, false, i, false);
        LITERAL(w, "\"name\": \"thread ");
        put_int(w, gen_thread_ids[i]);
        LITERAL(w, " (");
        put_z(w, thread_names[i]);
        LITERAL(w, ")\"");
        end_row(w);
        if (w->layout != GEN_TORCH1_8) {
            begin_meta(w, "thread_sort_index", ns, false, i, false);
            meta_sort(w, gen_thread_ids[i]);
        }
    }
    for (int i = 0; i < GEN_STREAMS && w->layout != GEN_TORCH1_8; i++) {
        begin_meta(w, "thread_name", ns, true, gen_stream_ids[i], false);
        meta_text(w, "name", "stream ", gen_stream_ids[i], " ");
        begin_meta(w, "thread_sort_index", ns, true, gen_stream_ids[i], false);
        meta_sort(w, gen_stream_ids[i]);
    }
}

static void write_span(gen_writer *w, int64_t start_ns, int64_t end_ns)
{
    const char *pid = w->layout == GEN_TORCH1_8 ? "Traces" : "Spans";
    begin_event(w);
    LITERAL(w, "\"ph\": \"X\", \"cat\": \"Trace\", \"ts\": ");
    put_time(w, start_ns);
    LITERAL(w, ", \"dur\": ");
    put_duration(w, start_ns, end_ns);
    LITERAL(w, ",\n    \"pid\": \"");
    put_z(w, pid);
    LITERAL(w, "\", \"tid\": \"" PROFILER "\",\n    \"name\": \"" PROFILER
               " (0)\",\n    \"args\": {\n      "
               "\"Op count\": 0");
    end_row(w);
    if (w->layout == GEN_TORCH1_8)
        return;
    begin_event(w);
    LITERAL(w, "\"name\": \"process_sort_index\", \"ph\": \"M\", \"ts\": ");
    put_time(w, start_ns);
    LITERAL(w, ",\n    \"pid\": \"Spans\", \"tid\": 0,\n    \"args\": {\n      ");
    meta_sort(w, 536870912);
}

void gen_write_rows(gen_writer *w, int64_t start_ns, int64_t end_ns)
{
    write_processes(w, start_ns);
    write_threads(w, start_ns);
    write_span(w, start_ns, end_ns);
    begin_event(w);
    LITERAL(w, "\"name\": \"Iteration Start: " PROFILER "\", \"ph\": \"i\", \"s\": \"g\",\n"
               "    \"pid\": \"Traces\", \"tid\": \"Trace " PROFILER "\", \"ts\": ");
    put_time(w, start_ns);
    LITERAL(w, "\n  },\n");
    begin_event(w);
    LITERAL(w, "\"name\": \"Record Window End\", \"ph\": \"i\", \"s\": \"g\",\n"
               "    \"pid\": \"\", \"tid\": \"\", \"ts\": ");
    put_time(w, end_ns);
    LITERAL(w, "\n  }\n");
}

void gen_write_footer(gen_writer *w)
{
    if (w->layout == GEN_TORCH1_8)
        LITERAL(w, "]}");
    else if (w->layout == GEN_TORCH1_13)
        LITERAL(w, "  ]\n}");
    else {
        LITERAL(w, "  ],\n  \"traceName\": \"/tmp/trace.json\",\n  \"displayTimeUnit\": \"ms\",\n"
                   "  \"baseTimeNanoseconds\": ");
        put_int(w, BASE_NS);
        LITERAL(w, "\n}");
    }
    gen_writer_flush(w);
}

/* ---- the buffer ---------------------------------------------------------------------------------- */

bool gen_writer_init(gen_writer *w, int fd, gen_layout layout, const gen_names *names)
{
    *w = (gen_writer){.fd = fd, .layout = layout, .names = names};
    w->buffer = w->at = malloc(BUFFER_BYTES + EVENT_BYTES);
    return w->buffer != NULL;
}

void gen_writer_flush(gen_writer *w)
{
    const char *from = w->buffer;
    w->bytes += (uint64_t)(w->at - w->buffer);
    while (w->fd >= 0 && from < w->at && !w->failed) {
        ssize_t n = write(w->fd, from, (size_t)(w->at - from));
        if (n < 0 && errno != EINTR) {
            w->failed = true;
            w->error = errno;
        }
        from += n > 0 ? n : 0;
    }
    w->at = w->buffer;
}

void gen_writer_free(gen_writer *w)
{
    free(w->buffer);
    w->buffer = w->at = NULL;
}

/* Writes the parts of rows: numbers, times, threads and streams. The buffer has room for
 * EVENT_BYTES after BUFFER_BYTES, so only begin_event checks whether it is full. */
#ifndef GEN_WRITE_H
#define GEN_WRITE_H

#include "gen/gen.h"

#include <string.h>

#define BUFFER_BYTES (1u << 20)
#define EVENT_BYTES  (64u << 10) /* more than any event takes */

#define PID      4515
#define BASE_NS  INT64_C(1683000000000000000) /* baseTimeNanoseconds of the newest layout */
#define PROFILER "PyTorch Profiler"

extern const int64_t gen_thread_ids[GEN_THREADS];
extern const int gen_stream_ids[GEN_STREAMS];

static inline void put_bytes(gen_writer *w, const char *s, size_t size)
{
    memcpy(w->at, s, size);
    w->at += size;
}
#define LITERAL(w, s) put_bytes(w, s, sizeof(s) - 1)
static inline void put_text(gen_writer *w, gen_text t) { put_bytes(w, t.data, t.size); }
static inline void put_z(gen_writer *w, const char *s) { put_bytes(w, s, strlen(s)); }

static inline void put_uint(gen_writer *w, uint64_t value)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    char digits[20], *at = digits + sizeof digits;
    for (; value >= 100; value /= 100)
        memcpy(at -= 2, pairs + value % 100 * 2, 2);
    if (value >= 10)
        memcpy(at -= 2, pairs + value * 2, 2);
    else
        *--at = (char)('0' + value);
    put_bytes(w, at, (size_t)(digits + sizeof digits - at));
}

static inline void put_int(gen_writer *w, int64_t value)
{
    if (value < 0)
        *w->at++ = '-';
    put_uint(w, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* numerator / denominator with at most `decimals` decimals, without trailing zeros. */
static inline void put_ratio(gen_writer *w, uint64_t numerator, uint64_t denominator, int decimals)
{
    put_uint(w, numerator / denominator);
    uint64_t rest = numerator % denominator;
    if (!rest)
        return;
    char *kept = w->at;
    *w->at++ = '.';
    for (int i = 0; i < decimals && rest; i++) {
        rest *= 10;
        char digit = (char)('0' + rest / denominator);
        rest %= denominator;
        *w->at++ = digit;
        if (digit != '0')
            kept = w->at;
    }
    w->at = kept;
}

/* A time in microseconds: whole ones since 1970, or with three decimals since BASE_NS. */
static inline void put_time(gen_writer *w, int64_t ns)
{
    if (w->layout != GEN_TORCH2) {
        put_uint(w, (uint64_t)ns / 1000);
        return;
    }
    uint64_t since = (uint64_t)(ns - BASE_NS), part = since % 1000;
    put_uint(w, since / 1000);
    *w->at++ = '.';
    *w->at++ = (char)('0' + part / 100);
    *w->at++ = (char)('0' + part / 10 % 10);
    *w->at++ = (char)('0' + part % 10);
}

static inline void put_duration(gen_writer *w, int64_t start_ns, int64_t end_ns)
{
    if (w->layout == GEN_TORCH2)
        put_time(w, BASE_NS + (end_ns - start_ns));
    else /* so that rows that nest still do */
        put_uint(w, (uint64_t)(end_ns / 1000 - start_ns / 1000));
}

static inline void put_thread(gen_writer *w, int thread)
{
    LITERAL(w, "\"pid\": ");
    put_uint(w, PID);
    LITERAL(w, ", \"tid\": ");
    if (w->layout == GEN_TORCH1_8)
        *w->at++ = '"';
    put_int(w, gen_thread_ids[thread]);
    if (w->layout == GEN_TORCH1_8)
        *w->at++ = '"';
}

static inline void put_stream(gen_writer *w, int stream)
{
    LITERAL(w, "\"pid\": 0, \"tid\": ");
    if (w->layout == GEN_TORCH1_8)
        LITERAL(w, "\"stream ");
    put_int(w, stream);
    if (w->layout == GEN_TORCH1_8)
        *w->at++ = '"';
}

static inline void begin_event(gen_writer *w)
{
    if (w->at > w->buffer + BUFFER_BYTES)
        gen_writer_flush(w);
    LITERAL(w, "  {\n    ");
    w->events++;
}

/* A row up to its name. */
static inline void begin_row(gen_writer *w, const char *category, gen_text name)
{
    begin_event(w);
    LITERAL(w, "\"ph\": \"X\", \"cat\": \"");
    put_z(w, category);
    if (w->layout == GEN_TORCH1_8)
        LITERAL(w, "\", \n    \"name\": \"");
    else
        LITERAL(w, "\", \"name\": \"");
    put_text(w, name);
    LITERAL(w, "\", ");
}

static inline void put_span(gen_writer *w, int64_t start_ns, int64_t end_ns)
{
    LITERAL(w, ",\n    \"ts\": ");
    put_time(w, start_ns);
    LITERAL(w, ", \"dur\": ");
    put_duration(w, start_ns, end_ns);
    LITERAL(w, ",\n    \"args\": {\n      ");
}

static inline void end_row(gen_writer *w) { LITERAL(w, "\n    }\n  },\n"); }

/* The separator of arguments; in the newest layout they are on one line. */
static inline void next_line(gen_writer *w)
{
    if (w->layout == GEN_TORCH2)
        LITERAL(w, ",      ");
    else
        LITERAL(w, ",\n      ");
}

static inline gen_text literal_text(const char *s) { return (gen_text){s, (uint32_t)strlen(s)}; }

#endif

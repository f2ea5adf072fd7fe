/* Helpers for tests that record themselves and look at the trace: sessions that must work, finding
 * rows by name, the ledger, and what every trace must hold. Include after unit.h. */
#ifndef TESTS_RECORDING_H
#define TESTS_RECORDING_H

#include <ckineto/record.h>
#include "sessions.h"
#include <ckineto/session.h>
#include <ckineto/trace.h>

#include <pthread.h>
#include <sys/wait.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- sessions ---------------------------------------------------------------------------------- */

static inline kineto_session *session_of(uint64_t kinds, size_t buffer_bytes, uint32_t retention)
{
    kineto_session_options options;
    kineto_session *session = NULL;
    kineto_error err = {0};
    kineto_session_options_init(&options);
    options.kinds = kinds;
    options.buffer_bytes = buffer_bytes;
    options.retention = retention;
    if (begin_session(&options, &session, &err))
        fail_msg("no session: %s", err.message);
    return session;
}

/* All kinds, a small buffer. */
static inline kineto_session *record(void)
{
    return session_of(KINETO_KINDS_ALL, 4u << 20, KINETO_RETAIN_OLDEST);
}

static inline kineto_trace *finish(kineto_session *session)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    if (end_session(session, &trace, &err))
        fail_msg("no trace: %s", err.message);
    return trace;
}

static inline kineto_trace *snapshot(kineto_session *session)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    if (kineto_session_snapshot(session, &trace, &err))
        fail_msg("no snapshot: %s", err.message);
    return trace;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static inline kineto_activity row_at(const kineto_trace *trace, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(trace, row, &a);
    return a;
}

static inline bool text_is(kineto_string s, const char *text)
{
    return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0;
}

static inline uint64_t count_named(const kineto_trace *trace, const char *name)
{
    uint64_t n = 0;
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++)
        n += text_is(row_at(trace, r).name, name);
    return n;
}

/* The n-th row with this name, counted from 0, in arrival order. */
static inline kineto_activity find_nth(const kineto_trace *trace, const char *name, uint64_t n)
{
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a = row_at(trace, r);
        if (text_is(a.name, name) && n-- == 0)
            return a;
    }
    fail_msg("the trace has no (further) row named '%s'", name);
    return (kineto_activity){0};
}

static inline kineto_activity find_only(const kineto_trace *trace, const char *name)
{
    uint64_t n = count_named(trace, name);
    if (n != 1)
        fail_msg("%llu rows are named '%s'", (unsigned long long)n, name);
    return find_nth(trace, name, 0);
}

static inline kineto_arg arg_of(const kineto_trace *trace, kineto_row row, const char *key)
{
    kineto_arg arg = {{NULL, 0}, 0, {0}, {NULL, 0}};
    if (!kineto_args_find(trace, row, key, &arg))
        fail_msg("row %llu has no argument '%s'", (unsigned long long)row, key);
    return arg;
}

static inline kineto_track track_of(const kineto_trace *trace, kineto_row row)
{
    kineto_track track;
    kineto_trace_track(trace, row_at(trace, row).track, &track);
    return track;
}

static inline kineto_process process_of(const kineto_trace *trace, kineto_row row)
{
    kineto_process process;
    kineto_trace_process(trace, track_of(trace, row).process, &process);
    return process;
}

static inline uint64_t count_of_pid(const kineto_trace *trace, const char *name, int64_t pid)
{
    uint64_t n = 0;
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++)
        n += text_is(row_at(trace, r).name, name) && process_of(trace, r).pid == pid;
    return n;
}

#define assert_text(string, expected)                                                              \
    do {                                                                                           \
        kineto_string text_ = (string);                                                            \
        assert_int_equal(text_.size, strlen(expected));                                            \
        assert_memory_equal(text_.data, (expected), text_.size);                                   \
    } while (0)

/* ---- the ledger -------------------------------------------------------------------------------- */

static inline uint64_t ledger(const kineto_trace *trace, const char *source, const char *reason)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (text_is(line.source, source) && text_is(line.reason, reason))
            sum += line.count;
    }
    return sum;
}

static inline void print_ledger(const kineto_trace *trace)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line l;
        kineto_trace_ledger(trace, i, &l);
        print_message("  %.*s: %.*s: %llu%s\n", (int)l.source.size, l.source.data,
                      (int)l.reason.size, l.reason.data, (unsigned long long)l.count,
                      l.is_loss ? " lost" : "");
    }
}

static inline void assert_nothing_lost(const kineto_trace *trace)
{
    if (kineto_trace_lost(trace) != 0)
        print_ledger(trace);
    assert_int_equal(kineto_trace_lost(trace), 0);
    assert_int_equal(ledger(trace, "recording", "malformed entries of the name table"), 0);
}

/* ---- the header --------------------------------------------------------------------------------- */

/* The JSON value of a key; empty if the header does not have it. */
static inline kineto_string header_of(const kineto_trace *trace, const char *wanted)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(trace, i, &key, &value);
        if (text_is(key, wanted))
            return value;
    }
    return (kineto_string){"", 0};
}

/* ---- what every trace must hold ------------------------------------------------------------------ */

/* No negative durations, nothing outside the window, parents enclose, lanes do not overlap; and the
 * decoder met nothing that it did not understand. */
static inline void verify(const kineto_trace *trace)
{
    int64_t start, end;
    kineto_trace_window(trace, &start, &end);
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a = row_at(trace, r);
        assert_true(a.end_ns >= a.start_ns);
        assert_true(a.kind < KINETO_KIND_COUNT);
        if (!process_of(trace, r).is_device) {
            assert_true(a.start_ns >= start);
            assert_true(a.end_ns <= end);
        }
        kineto_row parent = kineto_trace_parent(trace, r);
        if (parent == KINETO_NO_ROW)
            continue;
        kineto_activity p = row_at(trace, parent);
        assert_int_equal(p.track, a.track);
        assert_true(p.start_ns <= a.start_ns && a.end_ns <= p.end_ns);
        assert_true(kineto_trace_self_ns(trace, parent) >= 0);
    }
    uint64_t bad =
        ledger(trace, "recording", "malformed records, the rest of their segment was skipped");
    if (bad)
        print_ledger(trace);
    assert_int_equal(bad, 0);
}

/* ---- processes and threads ----------------------------------------------------------------------- */

/* Wait for a child that must have ended with this exit status. */
static inline void assert_exit(pid_t pid, int expected)
{
    int status = -1;
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("the child died of signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

static inline pthread_t start_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
    return thread;
}

#endif

/* Looking at all of a trace, and comparing two. */
#include "read.h"

#include "export/export.h"

#include <stdio.h>
#include <string.h>

static uint64_t seen; /* so that nothing is left out as unused */

static void see(kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        seen += (uint8_t)s.data[i];
}

static bool same_text(kineto_string a, kineto_string b)
{
    return a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}

/* ---- one trace ------------------------------------------------------------------------------- */

static void visit_row(const kineto_trace *t, kineto_row row)
{
    kineto_activity a;
    kineto_args_iterator args;
    kineto_arg arg;
    kineto_trace_get(t, row, &a);
    fuzz_check(a.row == row && a.end_ns >= a.start_ns, "an activity ends before it starts");
    fuzz_check(a.track < kineto_trace_track_count(t) && a.form <= KINETO_FORM_COUNTER,
               "an activity without a track or form");
    see(a.name);
    see(kineto_trace_string(t, a.category));
    for (kineto_args_begin(t, row, &args); kineto_args_next(&args, &arg);) {
        see(arg.key);
        see(arg.text);
    }
    (void)kineto_args_find(t, row, "stream", &arg);
    kineto_row parent = kineto_trace_parent(t, row);
    fuzz_check(parent == KINETO_NO_ROW || parent < kineto_trace_count(t), "a parent out of range");
    kineto_track track;
    kineto_trace_track(t, a.track, &track);
    fuzz_check(kineto_trace_lane(t, row) < track.lane_count, "a lane out of range");
    seen += (uint64_t)kineto_trace_self_ns(t, row) + kineto_trace_launch(t, row) +
            kineto_trace_launched(t, row);
}

static void visit_tables(const kineto_trace *t)
{
    kineto_process process;
    kineto_ledger_line line;
    kineto_flow flow;
    kineto_repair repair;
    kineto_string key, value;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_trace_process(t, i, &process);
        see(process.name);
        see(process.label);
        see(process.properties_json);
    }
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        see(line.reason);
    }
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_trace_flow(t, i, &flow);
        fuzz_check((flow.from == KINETO_NO_ROW || flow.from < kineto_trace_count(t)) &&
                       (flow.to == KINETO_NO_ROW || flow.to < kineto_trace_count(t)),
                   "a flow out of range");
    }
    for (uint32_t i = 0; i < kineto_trace_repair_count(t); i++) {
        kineto_trace_repair(t, i, &repair);
        fuzz_check(repair.offset <= kineto_trace_text_bytes(t), "a repair after the end");
        see(repair.text);
    }
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_trace_metadata(t, i, &key, &value);
        see(key);
        see(value);
        fuzz_check(kb_json_valid(value), "a header value that is not JSON");
    }
}

void fuzz_visit(const kineto_trace *t)
{
    uint64_t rows = 0;
    kineto_track track;
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        kineto_trace_track(t, i, &track);
        const kineto_row *order = kineto_trace_track_rows(t, i);
        for (uint64_t k = 0; k < track.count; k++)
            fuzz_check(order[k] < kineto_trace_count(t), "a track with a row out of range");
        rows += track.count;
        see(track.name);
    }
    fuzz_check(rows == kineto_trace_count(t), "tracks have other rows than the trace");
    fuzz_check(!rows || kineto_trace_time_order(t) != NULL, "no order");
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        visit_row(t, row);
    visit_tables(t);
}

/* ---- two traces ------------------------------------------------------------------------------ */

static void same_args(const kineto_trace *a, const kineto_trace *b, kineto_row row)
{
    kineto_args_iterator one, other;
    kineto_arg x, y;
    kineto_args_begin(a, row, &one);
    kineto_args_begin(b, row, &other);
    for (;;) {
        bool more = kineto_args_next(&one, &x);
        fuzz_check(more == kineto_args_next(&other, &y), "different number of arguments");
        if (!more)
            return;
        fuzz_check(same_text(x.key, y.key) && x.type == y.type && same_text(x.text, y.text) &&
                       (x.text.size || x.u == y.u),
                   "different arguments");
    }
}

static void same_row(const kineto_trace *a, const kineto_trace *b, kineto_row row)
{
    kineto_activity x, y;
    kineto_trace_get(a, row, &x);
    kineto_trace_get(b, row, &y);
    fuzz_check(x.start_ns == y.start_ns && x.end_ns == y.end_ns, "different times");
    fuzz_check(same_text(x.name, y.name) && x.name_id == y.name_id, "different names");
    fuzz_check(x.track == y.track && x.kind == y.kind && x.category == y.category &&
                   x.form == y.form && x.flags == y.flags,
               "different tracks, kinds or flags");
    fuzz_check(x.correlation_id == y.correlation_id && x.external_id == y.external_id &&
                   x.async_id == y.async_id,
               "different ids");
    same_args(a, b, row);
}

static void same_tables(const kineto_trace *a, const kineto_trace *b)
{
    fuzz_check(kineto_trace_process_count(a) == kineto_trace_process_count(b) &&
                   kineto_trace_track_count(a) == kineto_trace_track_count(b) &&
                   kineto_trace_string_count(a) == kineto_trace_string_count(b),
               "different numbers of processes, tracks or texts");
    fuzz_check(kineto_trace_metadata_count(a) == kineto_trace_metadata_count(b),
               "different headers");
    fuzz_check(kineto_trace_flow_count(a) == kineto_trace_flow_count(b), "different flows");
    for (uint64_t i = 0; i < kineto_trace_flow_count(a); i++) {
        kineto_flow x, y;
        kineto_trace_flow(a, i, &x);
        kineto_trace_flow(b, i, &y);
        fuzz_check(x.type == y.type && x.id == y.id && x.from == y.from && x.to == y.to,
                   "a flow is different");
    }
    fuzz_check(kineto_trace_ledger_count(a) == kineto_trace_ledger_count(b), "different ledgers");
    for (uint32_t i = 0; i < kineto_trace_ledger_count(a); i++) {
        kineto_ledger_line x, y;
        kineto_trace_ledger(a, i, &x);
        kineto_trace_ledger(b, i, &y);
        fuzz_check(x.count == y.count && same_text(x.reason, y.reason) &&
                       same_text(x.detail, y.detail),
                   "a line of the ledger is different");
    }
}

void fuzz_same(const kineto_trace *a, const kineto_trace *b)
{
    int64_t from[2], to[2];
    fuzz_check(kineto_trace_count(a) == kineto_trace_count(b), "different numbers of activities");
    for (kineto_row row = 0; row < kineto_trace_count(a); row++)
        same_row(a, b, row);
    same_tables(a, b);
    kineto_trace_window(a, &from[0], &to[0]);
    kineto_trace_window(b, &from[1], &to[1]);
    fuzz_check(from[0] == from[1] && to[0] == to[1], "different windows");
    fuzz_check(kineto_trace_repair_total(a) == kineto_trace_repair_total(b), "different repairs");
}

/* ---- written and read ------------------------------------------------------------------------- */

/* A key of a column that stands twice is written as two keys; which of them gets the plain one is
 * not settled. */
static bool row_has_clear_ids(const kineto_trace *t, kineto_row row)
{
    static const char *const keys[] = {"External id", "external id", "correlation"};
    kineto_args_iterator args;
    kineto_arg arg;
    bool clear = true;
    for (kineto_args_begin(t, row, &args); kineto_args_next(&args, &arg);)
        for (size_t i = 0; i < KB_COUNT(keys); i++)
            clear = clear && !(arg.key.size >= strlen(keys[i]) &&
                               memcmp(arg.key.data, keys[i], strlen(keys[i])) == 0);
    return clear;
}

static bool has_clear_ids(const kineto_trace *t)
{
    bool clear = true;
    for (kineto_row row = 0; clear && row < kineto_trace_count(t); row++)
        clear = row_has_clear_ids(t, row);
    return clear;
}

enum { NAMES = 1, IDS = 2 };

/* What rows say, whatever their order; names and ids only where they could be written. */
static uint64_t row_hash(const kineto_trace *t, kineto_row row, unsigned what)
{
    kineto_activity a;
    kineto_trace_get(t, row, &a);
    uint64_t facts[] = {(uint64_t)a.start_ns, (uint64_t)a.end_ns, a.form,
                        what & IDS ? a.correlation_id : 0, what & IDS ? a.external_id : 0};
    return kb_hash(facts, sizeof facts) + (what & NAMES ? kb_hash(a.name.data, a.name.size) : 0);
}

static uint64_t sum_of_rows(const kineto_trace *t, unsigned what)
{
    uint64_t sum = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        sum += row_hash(t, row, what);
    return sum;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Ends of flows, each once: a start may have many finishes, and is written once. */
static uint64_t sum_of_flows(const kineto_trace *t, unsigned what)
{
    uint64_t count = 0, sum = 0, *ends = calloc(2 * kineto_trace_flow_count(t) + 1, sizeof *ends);
    for (uint64_t i = 0; ends && i < kineto_trace_flow_count(t); i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        for (uint64_t start = 0; start < 2; start++) {
            kineto_row row = start ? f.from : f.to;
            uint64_t facts[] = {f.type, f.id, start, 0};
            if (row == KINETO_NO_ROW)
                continue;
            facts[3] = row_hash(t, row, what);
            ends[count++] = kb_hash(facts, sizeof facts);
        }
    }
    if (ends)
        qsort(ends, count, sizeof *ends, by_value);
    for (uint64_t i = 0; ends && i < count; i++)
        sum += i && ends[i] == ends[i - 1] ? 0 : ends[i];
    free(ends);
    return sum;
}

void fuzz_write_again(const kineto_trace *t)
{
    kb_sink *sink;
    char *data;
    size_t bytes;
    kineto_error err = {.message = ""};
    kineto_export_result result = {.size = sizeof result};
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL) != KINETO_OK)
        return;
    fuzz_check(ke_chrome_write(t, sink, "trace", &result, &err) == KINETO_OK, err.message);
    fuzz_check(kb_sink_take(sink, &data, &bytes, NULL) == KINETO_OK, "nothing was written");
    kb_sink_abort(sink);
    fuzz_check(kb_json_valid((kineto_string){data, bytes}), "the output is not JSON");
    kineto_trace *again = fuzz_open(fuzz_file(FUZZ_AGAIN, data, bytes), 2, true, &err);
    if (!again)
        fprintf(stderr, "%s\n%.*s\n", err.message, (int)KB_MIN(bytes, (size_t)65536), data);
    fuzz_check(again != NULL, "what was written is refused");
    unsigned what =
        (result.replaced_bytes ? 0 : NAMES) | (has_clear_ids(t) && has_clear_ids(again) ? IDS : 0);
    bool same = kineto_trace_count(t) == kineto_trace_count(again) &&
                sum_of_rows(t, what) == sum_of_rows(again, what);
    bool same_flows = sum_of_flows(t, what) == sum_of_flows(again, what);
    if (!same || !same_flows)
        fprintf(stderr, "%.*s\n", (int)KB_MIN(bytes, (size_t)65536), data);
    fuzz_check(same, "what was written reads otherwise");
    fuzz_check(same_flows, "what was written has other flows");
    free(data);
    kineto_trace_release(again);
}

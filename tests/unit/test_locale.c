/* A program that has set a locale with a decimal comma gets the same files, sentences and answers
 * as any other. */
#include "building.h"
#include "decimal_comma.h"
#include "../helpers/sessions.h"

#include <ckineto/analyze.h>
#include <ckineto/diff.h>
#include <ckineto/export.h>
#include <ckineto/findings.h>
#include <ckineto/session.h>

#include <sys/stat.h>

#define STEPS   8
#define KERNELS 40

/* ---- a trace whose numbers have fractions --------------------------------------------------------- */

static void put_event(FILE *out, const char *kind, const char *name, int tid, double from,
                      double us, const char *args)
{
    fprintf(out,
            ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, "
            "\"ts\": %.3f, \"dur\": %.3f, \"args\": {%s}}",
            kind, name, strcmp(kind, "kernel") == 0 ? 0 : 100, tid, from, us, args);
}

/* A launch of a short kernel each 20 us; they use a part of the device. */
static void put_step(FILE *out, int step, double from)
{
    char args[300];
    snprintf(args, sizeof args, "ProfilerStep#%d", step);
    put_event(out, "user_annotation", args, 100, from, 20.5 * KERNELS, "");
    for (int i = 0; i < KERNELS; i++) {
        int id = step * KERNELS + i + 1;
        double at = from + 20.5 * i;
        put_event(out, "cpu_op", "aten::mm", 100, at, 15.25, "");
        snprintf(args, sizeof args, "\"correlation\": %d", id);
        put_event(out, "cuda_runtime", "cudaLaunchKernel", 100, at + 1, 5.125 + step % 3, args);
        snprintf(args, sizeof args,
                 "\"correlation\": %d, \"device\": 0, \"stream\": 7, \"grid\": [3, 1, 1], "
                 "\"block\": [64, 1, 1], "
                 "\"blocks per SM\": \"2.5e-1\", \"est. achieved occupancy %%\": 1.5e0",
                 id);
        put_event(out, "kernel", "ampere_sgemm_32x32", 7, at + 8, 4.375 + step % 2, args);
    }
}

static kineto_trace *trace_with_fractions(const char *directory)
{
    char path[300];
    snprintf(path, sizeof path, "%s/trace.json", directory);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(
        out,
        "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA A100\", "
        "\"numSms\": 12.5, \"computeMajor\": 8, \"computeMinor\": 0, \"warpSize\": 32, "
        "\"totalGlobalMem\": 42949672960, \"maxThreadsPerMultiprocessor\": 2048}],\n"
        "\"traceEvents\": [{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 100, \"tid\": 0, "
        "\"args\": {\"name\": \"python\"}}");
    for (int step = 0; step < STEPS; step++)
        put_step(out, step, 1000.5 + 1000.25 * step);
    fprintf(out, "]}\n");
    assert_int_equal(fclose(out), 0);
    kineto_trace *trace = NULL;
    kineto_error err = {.message = ""};
    if (kineto_trace_open(path, &trace, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return trace;
}

/* ---- all that is written of it -------------------------------------------------------------------- */

static void write_findings(const kineto_trace *trace, const char *directory)
{
    char path[300];
    kineto_findings *found = NULL;
    kineto_analysis *facts = NULL;
    assert_int_equal(kineto_findings_find(trace, NULL, &found, NULL), KINETO_OK);
    assert_true(kineto_findings_count(found) > 0);
    snprintf(path, sizeof path, "%s/findings.json", directory);
    assert_int_equal(kineto_findings_save_json(found, path, NULL), KINETO_OK);
    kineto_findings_destroy(found);
    assert_int_equal(kineto_analysis_run(trace, NULL, &facts, NULL), KINETO_OK);
    snprintf(path, sizeof path, "%s/facts.json", directory);
    assert_int_equal(kineto_analysis_save_json(facts, path, NULL), KINETO_OK);
    kineto_analysis_destroy(facts);
}

static void write_all(const kineto_trace *trace, const char *directory)
{
    static const char *const names[] = {"t.json", "t.jsonl",           "t.csv",   "t.folded",
                                        "t.svg",  "t.speedscope.json", "t.pb.gz", "t.pftrace"};
    kineto_error err = {.message = ""};
    char path[300];
    assert_int_equal(mkdir(directory, 0700), 0);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        if (kineto_trace_export(trace, path, NULL, NULL, &err) != KINETO_OK)
            fail_msg("%s: %s", path, err.message);
    }
    write_findings(trace, directory);
    snprintf(path, sizeof path, "%s/report.html", directory);
    if (kineto_report_save(trace, NULL, path, &err) != KINETO_OK)
        fail_msg("%s", err.message);
}

static void files_are_the_same(void **state)
{
    (void)state;
    char directory[200], now[300], usual[300], command[900];
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(now, sizeof now, "%s/now",
             directory); /* files name the path that they were written to */
    snprintf(usual, sizeof usual, "%s/usual", directory);
    kineto_trace *trace = trace_with_fractions(directory);
    write_all(trace, now);
    assert_int_equal(rename(now, usual), 0);
    if (begin_decimal_comma()) {
        write_all(trace, now);
        end_decimal_comma();
        snprintf(command, sizeof command, "diff -rq %s %s", usual, now);
        assert_int_equal(system(command), 0);
    }
    kineto_trace_release(trace);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

/* ---- what it is asked ------------------------------------------------------------------------------ */

static void limits_of_gates_have_a_point(void **state)
{
    (void)state;
    char directory[200], command[300];
    kineto_findings *found = NULL;
    kineto_analysis *changes = NULL;
    kineto_diff_verdict verdict = {.size = sizeof verdict};
    bool passed;
    assert_non_null(make_directory(directory, sizeof directory));
    kineto_trace *trace = trace_with_fractions(directory);
    assert_int_equal(kineto_findings_find(trace, NULL, &found, NULL), KINETO_OK);
    assert_int_equal(kineto_diff_run(trace, trace, NULL, &changes, NULL), KINETO_OK);
    bool german = begin_decimal_comma();
    assert_int_equal(kineto_findings_gate(found, "all=99.5%", &passed, NULL, 0, NULL), KINETO_OK);
    assert_int_equal(kineto_diff_gate(changes, "step>0.5%", true, &verdict, NULL), KINETO_OK);
    assert_true(verdict.limit == 0.5);
    assert_null(strstr(verdict.sentence, "0,5"));
    if (german)
        end_decimal_comma();
    kineto_findings_destroy(found);
    kineto_analysis_destroy(changes);
    kineto_trace_release(trace);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    assert_int_equal(system(command), 0);
}

/* ---- what is recorded -------------------------------------------------------------------------- */

static bool has_comma_in_number(kineto_string text)
{
    for (size_t i = 1; i + 1 < text.size; i++)
        if (text.data[i] == ',' && text.data[i - 1] >= '0' && text.data[i - 1] <= '9' &&
            text.data[i + 1] >= '0' && text.data[i + 1] <= '9')
            return true;
    return false;
}

static void the_account_of_a_recording_has_points(void **state)
{
    (void)state;
    kineto_session *session = NULL;
    kineto_trace *trace = NULL;
    bool german = begin_decimal_comma(), clock = false;
    assert_int_equal(begin_session(NULL, &session, NULL), KINETO_OK);
    assert_int_equal(end_session(session, &trace, NULL), KINETO_OK);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        assert_false(has_comma_in_number(line.detail));
        clock |= kb_string_contains(line.detail, " ns per tick");
    }
    assert_true(clock);
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_string key, json;
        kineto_trace_metadata(trace, i, &key, &json);
        if (kb_string_equal(key, kb_string("ckineto_self_cost")))
            assert_int_equal(json.data[0], '{'); /* what is not JSON becomes a text */
    }
    if (german)
        end_decimal_comma();
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_the_same),
        cmocka_unit_test(limits_of_gates_have_a_point),
        cmocka_unit_test(the_account_of_a_recording_has_points),
    };
    return RUN_TESTS(tests);
}

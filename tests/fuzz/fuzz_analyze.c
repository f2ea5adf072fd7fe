/* What is done with a trace once it was read, for any trace: every table of facts by both
 * definitions, findings, rules of verify, a comparison with itself and with another, and every
 * format that is text. Nothing crashes, and what is JSON is valid. */
#include "export/export.h"
#include "read.h"

#include <ckineto/diff.h>

#define MOST_BYTES 20000 /* tables of long traces take long */

static const char other_text[] =
    "{\"traceEvents\": [\n"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":2,"
    "\"ts\":0,\"dur\":50},\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":9},\n"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":4,"
    "\"args\":{\"stream\":7,\"correlation\":9}}]}";

static void may_fail(kineto_status status, const kineto_error *err)
{
    fuzz_check(status == KINETO_OK || err->message[0], "refused without a word");
}

static void measure(const kineto_trace *t, uint32_t definitions)
{
    kineto_analysis_options how = {
        .size = sizeof how, .series = true, .definitions = definitions, .threads = 1};
    kineto_analysis *facts = NULL;
    kineto_error err = {.message = ""};
    may_fail(kineto_analysis_run(t, &how, &facts, &err), &err);
    kineto_analysis_destroy(facts);
    kineto_trace *drawn = NULL;
    may_fail(kineto_analysis_overlay(t, &how, &drawn, &err), &err);
    if (drawn)
        fuzz_visit(drawn);
    kineto_trace_release(drawn);
}

static void evaluate_all(const kineto_trace *t)
{
    kineto_findings *found = NULL;
    kineto_verify_report *report = NULL;
    kineto_critical_path *path = NULL;
    kineto_error err = {.message = ""};
    may_fail(kineto_findings_find(t, NULL, &found, &err), &err);
    kineto_findings_destroy(found);
    may_fail(kineto_verify_run(t, NULL, &report, &err), &err);
    kineto_verify_report_destroy(report);
    may_fail(kineto_critical_path_create(t, NULL, &path, &err), &err);
    kineto_critical_path_destroy(path);
}

static void compare(const kineto_trace *a, const kineto_trace *b)
{
    kineto_diff_options how = {.size = sizeof how, .draws = 20, .shapes = true, .findings = true};
    kineto_analysis *diff = NULL;
    kineto_error err = {.message = ""};
    may_fail(kineto_diff_run(a, b, &how, &diff, &err), &err);
    kineto_analysis_destroy(diff);
}

static void write_as(const kineto_trace *t, const char *format, bool is_json, uint32_t roots)
{
    kb_sink *sink;
    char *data = NULL;
    size_t bytes = 0;
    kineto_error err = {.message = ""};
    kineto_export_options options = {
        .size = sizeof options, .format = format, .trace_name = "t", .roots = roots};
    kineto_export_result result = {.size = sizeof result};
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL) != KINETO_OK)
        return;
    kineto_status status = ke_export_to_sink(t, sink, &options, &result, &err);
    may_fail(status, &err);
    if (status == KINETO_OK && kb_sink_take(sink, &data, &bytes, NULL) == KINETO_OK)
        fuzz_check(!is_json || kb_json_valid((kineto_string){data, bytes}), "the output is not JSON");
    free(data);
    kb_sink_abort(sink);
}

static void write_all(const kineto_trace *t)
{
    for (uint32_t roots = 0; roots <= KINETO_EXPORT_MERGED; roots++) {
        write_as(t, "folded", false, roots);
        write_as(t, "pprof", false, roots);
    }
    write_as(t, "speedscope", true, 0);
    write_as(t, "perfetto", false, 0);
    write_as(t, "csv", false, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static kineto_trace *other;
    kineto_error err;
    if (!other)
        other = fuzz_open(fuzz_file(FUZZ_AGAIN, other_text, sizeof other_text - 1), 1, true, &err);
    if (size > MOST_BYTES)
        return 0;
    kineto_trace *t = fuzz_open(fuzz_file(FUZZ_IN, data, size), 1, false, &err);
    if (!t)
        return 0;
    measure(t, KINETO_DEFINITIONS_EXACT);
    measure(t, KINETO_DEFINITIONS_HTA);
    evaluate_all(t);
    compare(t, t);
    compare(other, t);
    write_all(t);
    kineto_trace_release(t);
    return 0;
}

#if defined(WITH_FUZZER)
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return seed % 4 ? fuzz_mutate_json(data, size, most, seed) : LLVMFuzzerMutate(data, size, most);
}
#endif

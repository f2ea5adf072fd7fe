/* What a person types or sets in a few words: any of it is understood, or refused with a word.
 *
 * The first byte says what the rest is: '0' a gate of findings, '1' a gate of differences, '2' a
 * list of kinds, '3' a signal, '4' a list of tables to be made of a trace. */
#include "ondemand/listen/listeners.h"
#include "read.h"

#include <ckineto/analyze.h>
#include <ckineto/diff.h>
#include <ckineto/findings.h>

#include <string.h>

static const char trace_text[] =
    "{\"traceEvents\": [\n"
    "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"pid\":1,\"tid\":2,"
    "\"ts\":0,\"dur\":50},\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::item\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":"
    "9},\n"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":2,"
    "\"ts\":2,\"dur\":3,\"args\":{\"correlation\":9}},\n"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":7,\"dur\":4,"
    "\"args\":{\"stream\":7,\"correlation\":9}}]}";

static const kineto_trace *trace(void)
{
    static kineto_trace *t;
    kineto_error err;
    if (!t)
        t = fuzz_open(fuzz_file(FUZZ_IN, trace_text, sizeof trace_text - 1), 1, true, &err);
    return t;
}

static void judge_findings(const char *gate)
{
    static kineto_findings *found;
    char because[64];
    bool passed;
    kineto_error err = {.message = ""};
    if (!found)
        fuzz_check(kineto_findings_find(trace(), NULL, &found, &err) == KINETO_OK, err.message);
    memset(because, 'x', sizeof because);
    if (kineto_findings_gate(found, gate, &passed, because, sizeof because, &err) != KINETO_OK)
        fuzz_check(err.message[0], "refused without a word");
    else
        fuzz_check(passed || memchr(because, 0, sizeof because), "a reason without an end");
}

static void judge_difference(const char *gate)
{
    static kineto_analysis *diff;
    kineto_error err = {.message = ""};
    kineto_diff_verdict v = {.size = sizeof v};
    if (!diff)
        fuzz_check(kineto_diff_run(trace(), trace(), NULL, &diff, &err) == KINETO_OK, err.message);
    for (int without_noise = 0; without_noise < 2; without_noise++)
        if (kineto_diff_gate(diff, gate, without_noise, &v, &err) != KINETO_OK)
            fuzz_check(err.message[0], "refused without a word");
        else
            fuzz_check(memchr(v.sentence, 0, sizeof v.sentence) && v.sentence[0] &&
                           kineto_diff_outcome_name(v.outcome)[0],
                       "a verdict without a sentence");
}

static void read_kinds(const char *list)
{
    uint64_t kinds = 0;
    kineto_error err = {.message = ""};
    kineto_status status = kineto_kinds_parse(list, &kinds, &err);
    fuzz_check(status == KINETO_OK || err.message[0], "refused without a word");
    fuzz_check((kinds & ~KINETO_KINDS_ALL) == 0, "kinds that are none");
}

static void read_signal(const char *name)
{
    int signal = 0;
    kineto_error err = {.message = ""};
    kineto_status status = ko_signal_parse(name, &signal, &err);
    fuzz_check(status == KINETO_OK ? signal > 0 : err.message[0] != 0, "refused without a word");
}

static void make_tables(const char *list)
{
    kineto_analysis *facts = NULL;
    kineto_error err = {.message = ""};
    kineto_analysis_options how = {.size = sizeof how, .tables = list, .threads = 1};
    kineto_status status = kineto_analysis_run(trace(), &how, &facts, &err);
    fuzz_check(status == KINETO_OK || err.message[0], "refused without a word");
    kineto_analysis_destroy(facts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const takes[])(const char *) = {judge_findings, judge_difference, read_kinds,
                                                  read_signal, make_tables};
    if (size < 1)
        return 0;
    char *text = malloc(size); /* its end is watched */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] >= '0' && data[0] < '0' + (int)KB_COUNT(takes))
        takes[data[0] - '0'](text);
    free(text);
    return 0;
}

/* The account of a recording (key ckineto_self_cost of the header) has the parts of its cost; the largest
 * one decides what is advised. docs/reference/self-cost.md has the keys. */
#include "cli/launch/cost_advice.h"

#include "analyze/dataset/arg_lookup.h"
#include "base/base.h"

typedef struct cost_part {
    const char *what, *advice;
    double ns;
} cost_part;

static kineto_string find_cost_account(const kineto_trace *trace)
{
    kineto_string key, value;
    for (uint32_t i = 0; kineto_trace_metadata(trace, i, &key, &value); i++)
        if (kb_string_equal(key, kb_string("ckineto_self_cost")))
            return value;
    return (kineto_string){"", 0};
}

/* 0 without such a key. */
static double read_cost_number(kineto_string object, const char *key)
{
    double value = 0;
    return kt_value_number(ka_json_member(object, key), &value) ? value : 0;
}

/* Of an object of "timed". */
static double read_timed_ns(kineto_string account, const char *key)
{
    return read_cost_number(ka_json_member(ka_json_member(account, "timed"), key), "ns");
}

/* The largest part; what the recorder took contains the unwinding of samples and the copying of records. */
static cost_part find_largest_part(kineto_string account)
{
    const cost_part parts[] = {
        {"CPU samples", "lower --cpu", read_timed_ns(account, "interruptions for CPU samples")},
        {"call stacks of operators and calls", "record without stacks",
         read_timed_ns(account, "call stacks")},
        {"hardware counters", "record without hardware counters",
         read_timed_ns(account, "hardware counters")},
        {"attaching processes", "start fewer processes, or record one that lives longer",
         read_timed_ns(account, "attaching")},
        {"events in the program's threads",
         "record fewer kinds (--kinds), a higher threshold (--waits=US, --memory=BYTES) or fewer functions "
         "(--python-only)",
         read_cost_number(account, "in_program_estimated_ns")},
        {"the recorder's own threads", "record fewer kinds (--kinds), and lower --cpu",
         read_cost_number(account, "recorder_cpu_ns")}};
    cost_part largest = parts[0];
    for (size_t i = 1; i < KB_COUNT(parts); i++)
        if (parts[i].ns > largest.ns)
            largest = parts[i];
    return largest;
}

void kc_cost_advice_print(const kineto_trace *trace, FILE *out)
{
    double percent;
    kineto_string account = find_cost_account(trace), budget = ka_json_member(account, "budget");
    bool is_comparable = kt_value_number(ka_json_member(account, "percent"), &percent);
    if (!is_comparable || !kb_string_equal(ka_json_member(budget, "kept"), kb_string("false")))
        return;
    cost_part largest = find_largest_part(account);
    fprintf(out, "ckineto: recording took %.2f %% of the program's CPU time, more than --budget %.2f %%; most of "
                 "it was %s (%s): %s\n",
            percent, read_cost_number(budget, "percent"), largest.what,
            kb_duration((int64_t)largest.ns).s, largest.advice);
}

double kc_recording_cpu_ns(const kineto_trace *trace)
{
    kineto_string account = find_cost_account(trace);
    return read_cost_number(account, "recorder_cpu_ns") + read_cost_number(account, "in_program_estimated_ns");
}

/* A call with its return costs about so many records more: the interpreter calls the hook twice. Measured with Python 3.9 to
 * 3.13, functions of Python and of C: 1.6 to 6.5, median 4.7 (docs/reference/self-cost.md). */
#define RECORDS_PER_PYTHON_CALL 5.0

bool kc_estimate_python_cost(const kineto_trace *trace, uint64_t calls, kc_python_cost *out)
{
    kineto_string account = find_cost_account(trace);
    double record_ns = read_cost_number(ka_json_member(account, "unit_ns"), "other record");
    double program_ns = read_cost_number(account, "program_cpu_ns");
    out->ns = (double)calls * record_ns * RECORDS_PER_PYTHON_CALL;
    double own_ns = program_ns - out->ns;
    out->percent = 100 * out->ns / KB_MAX(own_ns, program_ns / 100);
    return out->ns > 0 && program_ns > 0;
}

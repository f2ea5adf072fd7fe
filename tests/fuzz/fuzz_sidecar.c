/* Files that PyTorch writes next to a trace, with anything in them: execution traces, and memory
 * over time in its raw form. The first byte says which ('0', else). */
#include "read.h"

#include <ckineto/analyze.h>

static const char trace_text[] =
    "{\"traceEvents\": [\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":9,"
    "\"args\":{\"External id\":3,\"Record function id\":4}},\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::add\",\"pid\":1,\"tid\":2,\"ts\":2,\"dur\":"
    "3,"
    "\"args\":{\"External id\":5,\"Record function id\":6}}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static kineto_trace *trace;
    kineto_error err = {.message = ""};
    kineto_analysis *facts = NULL;
    if (!trace)
        trace = fuzz_open(fuzz_file(FUZZ_AGAIN, trace_text, sizeof trace_text - 1), 1, true, &err);
    if (size < 1)
        return 0;
    bool graph = data[0] == '0';
    const char *path = fuzz_file(FUZZ_IN, data + 1, size - 1);
    kineto_analysis_options how = {.size = sizeof how,
                                  .tables = graph ? "execution_trace" : "memory_timeline",
                                  .execution_trace = graph ? path : NULL,
                                  .memory_timeline = graph ? NULL : path,
                                  .threads = 1};
    kineto_status status = kineto_analysis_run(trace, &how, &facts, &err);
    fuzz_check(status == KINETO_OK || err.message[0], "refused without a word");
    kineto_analysis_destroy(facts);
    return 0;
}

#if defined(WITH_FUZZER)
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    if (size < 2 || seed % 4 == 0)
        return LLVMFuzzerMutate(data, size, most);
    return 1 + fuzz_mutate_json(data + 1, size - 1, most - 1, seed);
}
#endif

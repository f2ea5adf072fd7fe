/* What a trace says of its own cost. Include after unit.h. */
#ifndef TESTS_COST_H
#define TESTS_COST_H

#include <ckineto/trace.h>

/* A number of the header's object, by what stands before it; it must be there. */
static inline double cost_said(const kineto_trace *trace, const char *key)
{
    char text[16384], before[64];
    kineto_string name, value;
    snprintf(before, sizeof before, "\"%s\": ", key);
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_trace_metadata(trace, i, &name, &value);
        if (name.size != strlen("ckineto_self_cost") ||
            memcmp(name.data, "ckineto_self_cost", name.size) != 0 || value.size >= sizeof text)
            continue;
        memcpy(text, value.data, value.size);
        text[value.size] = '\0';
        const char *at = strstr(text, before);
        if (at)
            return strtod(at + strlen(before), NULL);
        fail_msg("no %s in %s", before, text);
    }
    fail_msg("the trace does not state its cost");
    return -1;
}

/* Lines of the ledger about it: there are two in every trace. */
static inline uint32_t cost_lines(const kineto_trace *trace)
{
    uint32_t lines = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        lines += line.source.size == strlen("self-cost") &&
                 memcmp(line.source.data, "self-cost", line.source.size) == 0 && !line.is_loss;
    }
    return lines;
}
#endif

/* What to change where a recording took more than --budget allows. */
#ifndef KC_COST_ADVICE_H
#define KC_COST_ADVICE_H

#include <ckineto/trace.h>

#include <stdio.h>

/** One line if the trace says that the budget was exceeded; else nothing. Programs that used too little CPU
 *  time for a comparison have none. */
void kc_cost_advice_print(const kineto_trace *trace, FILE *out);
/** CPU time of recording: of the recorder, and in the program as estimated; 0: not known. */
double kc_recording_cpu_ns(const kineto_trace *trace);
/** Estimated CPU time of recording functions of Python, and that as a percentage of what the program took by itself. */
typedef struct kc_python_cost {
    double ns, percent;
} kc_python_cost;
/** @param calls  functions of Python in the trace. False: there are none, or the CPU time of the program is not known. */
bool kc_estimate_python_cost(const kineto_trace *trace, uint64_t calls, kc_python_cost *out);
#endif

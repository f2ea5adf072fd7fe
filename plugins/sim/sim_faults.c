/* Faults for tests of hosts: the one that CKINETO_SIM_FAULT names is inserted between the plug-in
 * and the host's builder. Not part of a real plug-in. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static const char *fault;
static KinetoPlugin_TraceBuilder real, between;
static KinetoPlugin_Activity last;
static bool is_fault(const char *name) { return fault && strcmp(fault, name) == 0; }

static int emit_faulty(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Activity *a)
{
    static const KinetoPlugin_Metadata bad = {"no", KINETO_PLUGIN_VALUE_JSON, 1, {.pointer = "{"}};
    KinetoPlugin_Counts lost = {KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), 0, 1};
    bool fourth = !a->flowIsStart && a->event.eventId % 4 == 0; /* piece of work */
    last = *a;
    last.pMetadata = is_fault("metadata") ? &bad : a->pMetadata;
    if (is_fault("clock-jump") && fourth)
        sim_time_jump(-1000000000);
    if (fourth && (is_fault("drop") || is_fault("drop-counted")))
        return is_fault("drop") ? 0 : real.addCounts(h, &lost);
    return real.emit(h, &last);
}

/* At start: returns the builder to use; NULL: start shall fail. At the end called with NULL. */
const KinetoPlugin_TraceBuilder *sim_faults(const KinetoPlugin_TraceBuilder *host)
{
    last.metadataCount = 0;
    if (!host && is_fault("late") && last.nameSize)
        real.emit(real.pTraceBuilderHandle, &last);
    fault = host ? secure_getenv("CKINETO_SIM_FAULT") : NULL;
    if (!fault || is_fault("error"))
        return fault ? NULL : host;
    memcpy(&real, host, host->unpaddedStructSize < sizeof real ? host->unpaddedStructSize : sizeof real);
    between = real, between.emit = emit_faulty;
    return &between;
}

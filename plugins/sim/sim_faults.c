/* Misbehaviour on demand, to test hosts with: what CKINETO_SIM_FAULT names comes between the
 * plug-in and the host's builder. No part of a real plug-in. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

static const char *fault;
static KinetoPlugin_TraceBuilder real, between;
static KinetoPlugin_Activity last;
static bool is(const char *name) { return fault && strcmp(fault, name) == 0; }

static int emit(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Activity *a)
{
    static const KinetoPlugin_Metadata bad = {"no", KINETO_PLUGIN_VALUE_JSON, 1, {.pointer = "{"}};
    KinetoPlugin_Counts lost = {KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), 0, 1};
    bool fourth = !a->flowIsStart && a->event.eventId % 4 == 0; /* piece of work */
    last = *a;
    last.pMetadata = is("metadata") ? &bad : a->pMetadata;
    if (is("clock-jump") && fourth)
        sim_time_jump(-1000000000);
    if (fourth && (is("drop") || is("drop-counted")))
        return is("drop") ? 0 : real.addCounts(h, &lost);
    return real.emit(h, &last);
}

/* At start: the builder to use, or NULL if start shall fail. At the end with NULL. */
const KinetoPlugin_TraceBuilder *sim_faults(const KinetoPlugin_TraceBuilder *host)
{
    last.metadataCount = 0;
    if (!host && is("late") && last.nameSize)
        real.emit(real.pTraceBuilderHandle, &last);
    fault = host ? secure_getenv("CKINETO_SIM_FAULT") : NULL;
    if (!fault || is("error"))
        return fault ? NULL : host;
    memcpy(&real, host, host->unpaddedStructSize < sizeof real ? host->unpaddedStructSize : sizeof real);
    between = real, between.emit = emit;
    return &between;
}

/* Misbehaviour on demand, for tests of hosts: CKINETO_SIM_FAULT is a list of
 *
 *    drop          every fourth activity of the device is lost
 *    drop-counted  the same, and counted, as it should be
 *    late          an activity comes when the session is over
 *    metadata      values of JSON are none
 *    clock-jump    the device's clock is set back, again and again
 *    error         start fails
 *
 * A builder between the plug-in and the host's does it. No part of a real plug-in. */
#include "sim.h"
#include "sim_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef KinetoPlugin_TraceBuilderHandle handle;
typedef const KinetoPlugin_TraceBuilder builder;

static const char *const names[] = {"drop",     "drop-counted", "late",
                                    "metadata", "clock-jump",   "error"};
enum { DROP = 1, DROP_COUNTED = 2, LATE = 4, METADATA = 8, CLOCK_JUMP = 16, ERROR = 32 };

static unsigned faults;
static builder *host;
static KinetoPlugin_TraceBuilder between;
static KinetoPlugin_Activity last;

static bool listed(const char *list, const char *name)
{
    char all[128], word[24];
    snprintf(all, sizeof all, ",%s,", list ? list : "");
    snprintf(word, sizeof word, ",%s,", name);
    return strstr(all, word) != NULL;
}

bool sim_faults_begin(void)
{
    faults = 0;
    host = NULL;
    last.nameSize = 0;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        faults |= (unsigned)listed(getenv("CKINETO_SIM_FAULT"), names[i]) << i;
    return !(faults & ERROR);
}

/* Called under the plug-in's lock, like the host's would be. */
static int emit(handle *h, const KinetoPlugin_Activity *a)
{
    KinetoPlugin_Metadata bad = {.pKey = "state",
                                 .valueType = KINETO_PLUGIN_VALUE_JSON,
                                 .count = sizeof "{no JSON" - 1,
                                 .pointer = "{no JSON"};
    KinetoPlugin_Counts lost = {KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), 0, 1};
    bool of_device = a->metadataCount > 0, fourth = of_device && a->event.eventId % 4 == 0;
    KinetoPlugin_Activity copy = *a;
    if (faults & CLOCK_JUMP && a->event.eventId % 4 == 0)
        sim_time_jump(-1000000000);
    if (faults & DROP_COUNTED && fourth)
        return host->addCounts(h, &lost);
    if (faults & DROP && fourth)
        return 0;
    if (faults & METADATA) {
        copy.pMetadata = &bad;
        copy.metadataCount = 1;
    }
    last = copy;
    last.pName = "late";
    last.nameSize = sizeof "late" - 1;
    last.metadataCount = 0;
    return host->emit(h, &copy);
}

builder *sim_faults_between(builder *real)
{
    host = real;
    if (!faults)
        return real;
    memcpy(&between, real, KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addCounterSamples));
    between.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addCounterSamples);
    between.emit = emit;
    return &between;
}

void sim_faults_end(void)
{
    if (faults & LATE && host && last.nameSize)
        host->emit(host->pTraceBuilderHandle, &last);
}

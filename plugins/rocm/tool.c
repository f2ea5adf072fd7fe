/* Our place among the tools of rocprofiler-sdk. The SDK calls rocprofiler_configure of each tool's
 * library once, when the program starts HIP or HSA: of those in ROCP_TOOL_LIBRARIES, and of all loaded
 * libraries that export it. What a tool records is set up in its `initialize`, and cannot be changed
 * later. If a host loads us into a program that does not use the SDK yet, we make it start.
 *
 * NOT_ASKED → (configure) → CONFIGURED → (initialize) → READY → (finalize) → OVER
 *           ↘ REFUSED: another tool came first, the SDK is too old, or setting up failed */
#include "rocm.h"

#include <stdio.h>
#include <unistd.h>

typedef enum tool_state {
    TOOL_NOT_ASKED,
    TOOL_CONFIGURED,
    TOOL_READY,
    TOOL_REFUSED,
    TOOL_OVER
} tool_state;
static _Atomic(tool_state) state;
static char refusal[CP_TEXT_BYTES]; /* written before `state` says that there is one */
static rp_options start_options;

static void refuse_tool(void) { atomic_store(&state, TOOL_REFUSED); }

static int initialize_tool(rp_finalizer finalizer, void *data)
{
    (void)finalizer;
    (void)data;
    if (!rp_tracing_create(&start_options, refusal)) {
        refuse_tool();
        rp_register_profiler(); /* its session fails, with the reason */
        return -1;
    }
    rp_agents_load();
    atomic_store(&state, TOOL_READY);
    rp_register_profiler();
    return 0;
}

/* The SDK has stopped all contexts and handed over all records. */
static void finalize_tool(void *data)
{
    (void)data;
    rp_source_finalize();
    rp_tool_end();
}

static rp_configuration configuration = {.size = sizeof configuration,
                                         .initialize = initialize_tool,
                                         .finalize = finalize_tool};

/* Whether to become a tool; fills `refusal` if not. */
static bool accept_place(const void *caller, uint32_t priority)
{
    char name[128];
    if (!rp_libs_open(caller, refusal) || !rp_options_read(NULL, &start_options, refusal))
        return false;
    if (priority == 0 || start_options.with_others)
        return true;
    rp_find_other_tool(name);
    snprintf(refusal, sizeof refusal,
             "another tool of rocprofiler-sdk comes first in this program (%s): stood aside; record "
             "without it, or set CKINETO_ROCM=rocm.others=on to record as well",
             name[0] ? name : "its name is unknown");
    return false;
}

#define RP_API __attribute__((visibility("default")))
RP_API rp_configuration *rocprofiler_configure(uint32_t version, const char *version_text,
                                               uint32_t priority, rp_client *client);

/* Called by the SDK, and once more if it finds this library in two ways. */
rp_configuration *rocprofiler_configure(uint32_t version, const char *version_text,
                                        uint32_t priority, rp_client *client)
{
    tool_state before = TOOL_NOT_ASKED;
    (void)version;
    (void)version_text;
    if (!atomic_compare_exchange_strong(&state, &before, TOOL_CONFIGURED))
        return NULL;
    if (!accept_place(__builtin_return_address(0), priority)) {
        refuse_tool();
        rp_register_profiler();
        return NULL;
    }
    if (client)
        client->name = "ckineto";
    return &configuration;
}

/* Makes the SDK start now. It calls rocprofiler_configure and initialize_tool within. */
static bool start_sdk(char why[CP_TEXT_BYTES])
{
    char name[128];
    if (!rp_libs_open(NULL, why))
        return false;
    rp_status status = rp_sdk.force_configure(rocprofiler_configure);
    if (status == RP_SUCCESS || atomic_load(&state) != TOOL_NOT_ASKED)
        return true;
    rp_explain(status, "this program's GPUs cannot be recorded", why);
    rp_find_other_tool(name);
    size_t used = strlen(why);
    if (name[0] && used < CP_TEXT_BYTES)
        snprintf(why + used, CP_TEXT_BYTES - used, " (its tool: %.100s)", name);
    return false;
}

bool rp_tool_ensure(char why[CP_TEXT_BYTES])
{
    if (atomic_load(&state) == TOOL_NOT_ASKED && !start_sdk(why))
        return false;
    switch (atomic_load(&state)) {
    case TOOL_READY:
        return true;
    case TOOL_REFUSED:
        memcpy(why, refusal, CP_TEXT_BYTES);
        return false;
    case TOOL_OVER:
        snprintf(why, CP_TEXT_BYTES,
                 "rocprofiler-sdk has ended in this process, or was in use when it was forked");
        return false;
    default:
        snprintf(why, CP_TEXT_BYTES,
                 "rocprofiler-sdk has not set this source up yet; it does when the program uses HIP");
        return false;
    }
}

bool rp_tool_is_over(void) { return atomic_load(&state) == TOOL_OVER; }
void rp_tool_end(void) { atomic_store(&state, TOOL_OVER); }

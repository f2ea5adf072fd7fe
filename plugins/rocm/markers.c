/* Ranges and marks of ROCTX, as the SDK reports them. libckineto-roctx, which is preloaded where ROCm
 * is installed, records the same calls: where it is in the program, this source leaves them to it. */
#include "rocm.h"

#include "../annotations/annotations.h"

#include <dlfcn.h>

const cn_source cn_this_source = {.name = "rocm", .site_name = "ROCTX"};

bool rp_markers_are_taken(void) { return dlsym(RTLD_DEFAULT, "roctx_ckineto_copy") != NULL; }

/* Numbers of operations differ between versions, so that calls are known by their names. */
#define MAX_MARKER_CALLS 16
typedef enum marker_call { MARK_UNKNOWN, MARK, MARK_PUSH, MARK_POP, MARK_START, MARK_STOP, MARK_OTHER } marker_call;

/* Asks the SDK for the name of a call. */
static marker_call find_marker_call(uint32_t kind, int32_t operation)
{
    static const struct {
        const char *name;
        marker_call call;
    } calls[] = {{"roctxMarkA", MARK},
                 {"roctxRangePushA", MARK_PUSH},
                 {"roctxRangePop", MARK_POP},
                 {"roctxRangeStartA", MARK_START},
                 {"roctxRangeStop", MARK_STOP}};
    const char *name = NULL;
    (void)rp_sdk.callback_operation_name(kind, operation, &name, NULL);
    for (size_t i = 0; name && i < CP_COUNT(calls); i++)
        if (strcmp(calls[i].name, name) == 0)
            return calls[i].call;
    return MARK_OTHER;
}

/* find_marker_call, cached by operation. */
static marker_call get_marker_call(uint32_t kind, int32_t operation)
{
    static _Atomic(marker_call) known[MAX_MARKER_CALLS];
    if (operation < 0 || operation >= MAX_MARKER_CALLS)
        return MARK_OTHER;
    marker_call call = atomic_load_explicit(&known[operation], memory_order_relaxed);
    if (call == MARK_UNKNOWN) {
        call = find_marker_call(kind, operation);
        atomic_store_explicit(&known[operation], call, memory_order_relaxed);
    }
    return call;
}

static uint64_t make_marker_key(uint64_t id) { return id * UINT64_C(0x9e3779b97f4a7c15) | 1; }

/* Ranges begin before the call, so that they contain what a profiler of AMD's does in it. */
static void begin_marker(marker_call what, const rp_marker_call *call)
{
    const char *text = call->argument.text ? call->argument.text : "";
    if (what == MARK)
        cn_mark(text);
    else if (what == MARK_PUSH)
        (void)cn_range_push(text);
    else if (what == MARK_STOP)
        cn_end_keyed(make_marker_key(call->argument.id));
}

/* A range of the process gets its id from the call's result. */
static void end_marker(marker_call what, const rp_marker_call *call)
{
    if (what == MARK_POP)
        (void)cn_range_pop();
    else if (what == MARK_START && cn_recording()) {
        cn_event e = {.shape = &cn_plain,
                      .text = call->argument.text ? call->argument.text : ""};
        cn_start_keyed(make_marker_key(call->result), &e);
    }
}

void rp_markers_call(uint32_t kind, int32_t operation, uint32_t phase, const rp_marker_call *call)
{
    marker_call what = get_marker_call(kind, operation);
    if (phase == RP_PHASE_ENTER)
        begin_marker(what, call);
    else if (phase == RP_PHASE_EXIT)
        end_marker(what, call);
}

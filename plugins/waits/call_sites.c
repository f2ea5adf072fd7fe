/* The records of calls that took long: a kind, a name and typed arguments for each function. */
#include "waits.h"

#include <string.h>

/* ---- arguments ------------------------------------------------------------------------------- */

/* error: an errno, of pthread functions their result; 0: none. holder: a thread (gettid); 0: not
 * known. */
static const kineto_arg_desc args_LOCK[] = {
    {"address", KINETO_ARG_UINT}, {"holder", KINETO_ARG_INT}, {"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_CONDITION[] = {
    {"address", KINETO_ARG_UINT}, {"mutex", KINETO_ARG_UINT}, {"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_ADDRESS[] = {{"address", KINETO_ARG_UINT},
                                               {"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_PLAIN[] = {{"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_TRANSFER[] = {{"file", KINETO_ARG_STRING},
                                                {"fd", KINETO_ARG_INT},
                                                {"bytes", KINETO_ARG_INT},
                                                {"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_FILE[] = {
    {"file", KINETO_ARG_STRING}, {"fd", KINETO_ARG_INT}, {"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_POLL[] = {
    {"descriptors", KINETO_ARG_UINT}, {"ready", KINETO_ARG_INT}, {"error", KINETO_ARG_INT}};
static const kineto_arg_desc args_CHILD[] = {{"pid", KINETO_ARG_INT}, {"error", KINETO_ARG_INT}};

/* What is known of a call before it ends; `pid` is the awaited one. */
static const kineto_arg_desc args_open_LOCK[] = {{"address", KINETO_ARG_UINT},
                                                 {"holder", KINETO_ARG_INT}};
static const kineto_arg_desc args_open_CONDITION[] = {{"address", KINETO_ARG_UINT},
                                                      {"mutex", KINETO_ARG_UINT}};
static const kineto_arg_desc args_open_ADDRESS[] = {{"address", KINETO_ARG_UINT}};
static const kineto_arg_desc args_open_TRANSFER[] = {{"fd", KINETO_ARG_INT}};
static const kineto_arg_desc args_open_POLL[] = {{"descriptors", KINETO_ARG_UINT}};
static const kineto_arg_desc args_open_CHILD[] = {{"pid", KINETO_ARG_INT}};
#define args_open_FILE  args_open_TRANSFER
#define args_open_PLAIN args_open_CHILD
enum {
    OPEN_LOCK = 2,
    OPEN_CONDITION = 2,
    OPEN_ADDRESS = 1,
    OPEN_PLAIN = 0,
    OPEN_TRANSFER = 1,
    OPEN_FILE = 1,
    OPEN_POLL = 1,
    OPEN_CHILD = 1
};

#define COUNT_OF(list) ((uint8_t)(sizeof(list) / sizeof((list)[0])))
static kineto_site sites[CW_SITE_COUNT] = {
#define CW_X(name, args)                                                                           \
    {0,     KINETO_KIND_BLOCKING_CALL, KINETO_SCOPE_FUNCTION, COUNT_OF(args_##args), 0,            \
     #name, args_##args},
    CW_SITE_MAP(CW_X)
#undef CW_X
};

static kineto_site open_sites[CW_SITE_COUNT] = {
#define CW_X(name, args)                                                                           \
    {0,     KINETO_KIND_BLOCKING_CALL, KINETO_SCOPE_FUNCTION, OPEN_##args, 0,                      \
     #name, args_open_##args},
    CW_SITE_MAP(CW_X)
#undef CW_X
};

/* ---- records --------------------------------------------------------------------------------- */

/* A confined process may not even ask for the number of a new thread, so nothing is announced. */
cw_call cw_begin(cw_site site, uint64_t first, uint64_t second, const void *caller)
{
    cw_call call = {.is_recorder = cw_is_recorder(caller)};
    kineto_value values[] = {{.u = first}, {.u = second}};
    int saved = errno;
    if (KINETO_UNLIKELY(call.is_recorder || cw_is_confined()))
        call.open.ticks = kineto_record_ticks();
    else
        kineto_blocking_begin(&call.open, &open_sites[site], cw_threshold_us, values);
    call.ns = cw_now_ns();
    errno = saved;
    return call;
}

/* A confined process has not announced the call, or did so before it was confined. */
static void end_announcement(const cw_call *call)
{
    if (KINETO_LIKELY(!call->is_recorder))
        kineto_blocking_end(&call->open);
}

bool cw_is_long(cw_site site, const cw_call *call, int64_t bytes)
{
    uint64_t now_ns = cw_now_ns(), ns = now_ns - call->ns;
    if (KINETO_UNLIKELY(call->is_recorder))
        return false;
    if (ns >= cw_threshold_ns)
        return true;
    end_announcement(call);
    cw_count_short_call(site, ns, bytes, now_ns);
    return false;
}

void cw_record(cw_site site, const cw_call *call, const kineto_value *values)
{
    if (cw_is_recording())
        kineto_record_past(&sites[site], call->open.ticks, values);
    end_announcement(call);
}

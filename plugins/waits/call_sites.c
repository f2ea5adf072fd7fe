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

#define COUNT_OF(list) ((uint8_t)(sizeof(list) / sizeof((list)[0])))
static kineto_site sites[CW_SITE_COUNT] = {
#define CW_X(name, args)                                                                           \
    {0,     KINETO_KIND_BLOCKING_CALL, KINETO_SCOPE_FUNCTION, COUNT_OF(args_##args), 0,            \
     #name, args_##args},
    CW_SITE_MAP(CW_X)
#undef CW_X
};

/* ---- records --------------------------------------------------------------------------------- */

bool cw_is_long(cw_site site, const cw_call *call, int64_t bytes)
{
    uint64_t now_ns = cw_now_ns(), ns = now_ns - call->ns;
    if (KINETO_UNLIKELY(cw_is_recorder(call->caller)))
        return false;
    if (ns >= cw_threshold_ns)
        return true;
    cw_count_short_call(site, ns, bytes, now_ns);
    return false;
}

void cw_record(cw_site site, const cw_call *call, const kineto_value *values)
{
    if (cw_is_recording())
        kineto_record_past(&sites[site], call->ticks, values);
}

/* Memory snapshots (PROFILE_MEMORY): by the program's client if it takes them itself, else a memory
 * profile of the requested time. Called by drivers. */
#include "ondemand/capture/observers.h"
#include "ondemand/capture/ring.h"
#include "ondemand/output/output.h"
#include "profiler/profiler.h"

/* The snapshot under way; the controller has one at a time. */
static enum { NONE, BY_CLIENT, BY_PROFILE } under_way;

kineto_status ko_snapshot_start(const ko_request *request, kineto_error *err)
{
    (void)request;
    if (ko_client_takes_snapshots()) {
        ko_client_snapshot_start();
        under_way = BY_CLIENT;
        return KINETO_OK;
    }
    kineto_status status = kineto_memory_profile_start(err);
    if (status == KINETO_OK)
        under_way = BY_PROFILE;
    return status;
}

static kineto_status profile_write(ko_request_source source, const char *path, uint64_t *bytes,
                                   kineto_error *err)
{
    kb_sink *sink;
    kineto_status status = ko_output_open(source, path, &sink, err);
    if (status)
        return status;
    status = kp_memory_profile_write(sink, err);
    if (status) {
        kb_sink_abort(sink);
        return status;
    }
    return kb_sink_close_counted(sink, bytes, err);
}

kineto_status ko_snapshot_stop(ko_request_source source, const char *path, uint64_t *bytes,
                               kineto_error *err)
{
    int by = under_way;
    under_way = NONE;
    if (by == BY_CLIENT)
        return ko_client_snapshot_stop(source, path, bytes, err);
    if (by == NONE)
        return kb_fail(err, KINETO_E_STATE, "no memory snapshot is under way");
    kineto_status status = kineto_memory_profile_stop(err);
    return status ? status : profile_write(source, path, bytes, err);
}

void ko_snapshot_drop(void)
{
    int by = under_way;
    under_way = NONE;
    if (by == BY_CLIENT)
        ko_client_snapshot_drop();
    else if (by == BY_PROFILE)
        (void)kineto_memory_profile_stop(NULL);
}

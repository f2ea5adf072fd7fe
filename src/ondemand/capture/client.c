/* The program's client (Kineto's term): callbacks that record something of the program's own during
 * a trace, and memory snapshots. Phases: IDLE → PREPARED → STARTED → IDLE; only the driver changes
 * them. */
#include "ondemand/capture/observers.h"
#include "ondemand/output/output.h"
#include "ondemand/support/callback_calls.h"

#include <ckineto/control.h>

typedef enum phase { IDLE, PREPARED, STARTED } phase;

/* The driver's calls are sequential. The client cannot be replaced between the first and the last
 * of them. */
static kineto_control_client client; /* all NULL: none */
static phase tracing;
static bool snapshot;

kineto_status kineto_control_set_client(const kineto_control_client *from, kineto_error *err)
{
    kineto_control_client all = {.size = sizeof all};
    kineto_status status = kb_size_check(from, "kineto_control_client", err);
    if (status)
        return status;
    if (from)
        memcpy(&all, from, KB_MIN(from->size, sizeof all));
    ko_calls_lock();
    bool busy = tracing != IDLE || snapshot;
    if (!busy)
        client = all;
    ko_calls_unlock();
    return busy ? kb_fail(err, KINETO_E_STATE,
                          "a trace is under way; set the client before or after it")
                : KINETO_OK;
}

/* In the driver's last call the phase becomes IDLE only after the client has returned, since from
 * then on it can be replaced. */
static void set_client_phase(phase next)
{
    KB_ASSERT(next != STARTED || tracing == PREPARED);
    ko_calls_lock();
    tracing = next;
    ko_calls_unlock();
}

/* Without the lock. Members that the client left NULL are skipped. */
static void call_client(void (*callback)(void *user))
{
    if (callback)
        callback(client.user);
}

void ko_client_prepare(const ko_request *r)
{
    if (tracing != IDLE)
        ko_report_violation("the client is prepared twice");
    if (tracing == STARTED)
        call_client(client.stop);
    set_client_phase(PREPARED);
    if (client.prepare)
        client.prepare(r->record_shapes, r->profile_memory, r->with_stack, r->with_flops,
                       r->with_modules, client.user);
}

void ko_client_start(void)
{
    if (tracing != PREPARED) {
        ko_report_violation("the client is started without being prepared");
        return;
    }
    set_client_phase(STARTED);
    call_client(client.start);
}

void ko_client_stop(void)
{
    if (tracing != STARTED)
        ko_report_violation("the client is stopped without being started");
    ko_client_drop();
}

void ko_client_drop(void)
{
    if (tracing == STARTED)
        call_client(client.stop);
    set_client_phase(IDLE);
}

/* ---- memory snapshots ------------------------------------------------------------------------ */

static void set_snapshot_under_way(bool under_way)
{
    ko_calls_lock();
    snapshot = under_way;
    ko_calls_unlock();
}

bool ko_client_takes_snapshots(void)
{
    ko_calls_lock();
    bool takes = client.memory_export != NULL;
    ko_calls_unlock();
    return takes;
}

void ko_client_snapshot_start(void)
{
    if (snapshot) {
        ko_report_violation("a memory snapshot begins during another one");
        return;
    }
    set_snapshot_under_way(true);
    call_client(client.memory_start);
}

/* The client writes to a staging file: it does not know the restrictions on paths of requests. */
static kineto_status export_snapshot(ko_request_source source, const char *path, uint64_t *bytes,
                                     kineto_error *err)
{
    ko_staging_file own;
    kineto_error failure = {0};
    kineto_status status = ko_staging_file_create(&own, path, err);
    if (status != KINETO_OK)
        return status;
    status = client.memory_export(own.path, client.user, &failure);
    if (status != KINETO_OK)
        status = kb_fail(err, status, "the program's memory_export failed: %.200s",
                         failure.message[0] ? failure.message : kineto_status_text(status));
    else
        status = ko_staging_file_deliver(&own, source, path, bytes, err);
    ko_staging_file_remove(&own);
    return status;
}

kineto_status ko_client_snapshot_stop(ko_request_source source, const char *path, uint64_t *bytes,
                                      kineto_error *err)
{
    if (!snapshot || !client.memory_export) {
        ko_report_violation("a memory snapshot ends without having begun");
        return kb_fail(err, KINETO_E_STATE, "no memory snapshot is under way");
    }
    kineto_status status = export_snapshot(source, path, bytes, err);
    ko_client_snapshot_drop();
    return status;
}

void ko_client_snapshot_drop(void)
{
    if (!snapshot)
        return;
    call_client(client.memory_stop);
    set_snapshot_under_way(false);
}

void ko_observers_forked(void)
{
    tracing = IDLE;
    snapshot = false;
}

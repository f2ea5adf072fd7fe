/* libcupti. */
#include "standin.h"
#include "vendor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The error that the script wants, or that of a child whose parent used CUDA, or of a process that
 * ends. */
#define ENTER(detail)                                                                              \
    do {                                                                                           \
        int32_t wanted = si_enter(__func__, (uint64_t)(detail));                                   \
        if (wanted || si_is_lost() || si_is_over())                                                \
            return (CUptiResult)(wanted ? wanted : NOT_INITIALIZED);                               \
    } while (0)

/* What the destructors of its objects do: they come when the library was loaded. */
__attribute__((constructor)) static void end_in_time(void) { (void)atexit(si_set_over); }

enum {
    SUCCESS,
    INVALID_PARAMETER,
    INVALID_KIND = 21,
    MAX_LIMIT_REACHED = 12,
    NOT_INITIALIZED = 15,
    QUEUE_EMPTY = 18,
    NOT_SUPPORTED = 27,
    MULTIPLE_SUBSCRIBERS = 39
};
#define GIVE(code) return (CUptiResult)(code)

CUptiResult cuptiGetVersion(uint32_t *version)
{
    ENTER(0);
    *version = si_plan.options.version;
    GIVE(SUCCESS);
}

static const struct {
    int32_t code;
    const char *text;
} results[] = {
    {0, "CUPTI_SUCCESS"},
    {1, "CUPTI_ERROR_INVALID_PARAMETER"},
    {7, "CUPTI_ERROR_INVALID_OPERATION"},
    {8, "CUPTI_ERROR_OUT_OF_MEMORY"},
    {12, "CUPTI_ERROR_MAX_LIMIT_REACHED"},
    {14, "CUPTI_ERROR_NOT_COMPATIBLE"},
    {15, "CUPTI_ERROR_NOT_INITIALIZED"},
    {18, "CUPTI_ERROR_QUEUE_EMPTY"},
    {21, "CUPTI_ERROR_INVALID_KIND"},
    {26, "CUPTI_ERROR_HARDWARE_BUSY"},
    {27, "CUPTI_ERROR_NOT_SUPPORTED"},
    {33, "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED"},
    {35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"},
    {39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"},
    {999, "CUPTI_ERROR_UNKNOWN"},
};

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    ENTER(result);
    for (size_t i = 0; i < SI_COUNT(results); i++) {
        if (results[i].code == (int32_t)result) {
            *text = results[i].text;
            GIVE(SUCCESS);
        }
    }
    GIVE(INVALID_PARAMETER);
}

/* ---- activities ----------------------------------------------------------------------------- */

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
    ENTER(0);
    if (!request || !complete)
        GIVE(INVALID_PARAMETER);
    si_writer_callbacks((si_request)request, (si_complete)(void (*)(void))complete);
    GIVE(SUCCESS);
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    ENTER(kind);
    if ((uint32_t)kind == 0 || (uint32_t)kind > 60)
        GIVE(INVALID_KIND);
    si_kind_set((uint32_t)kind, true);
    si_call_kind((uint32_t)kind);
    GIVE(SUCCESS);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    ENTER(kind);
    si_kind_set((uint32_t)kind, false);
    si_call_kind((uint32_t)kind);
    GIVE(SUCCESS);
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    int32_t wanted = si_is_lost() ? NOT_INITIALIZED : 0; /* too often to be logged */
    if (wanted || !buffer || !record)
        GIVE(wanted ? wanted : INVALID_PARAMETER);
    uint8_t *at = (uint8_t *)*record;
    if (!si_next_record(buffer, valid, &at))
        GIVE(MAX_LIMIT_REACHED);
    *record = (CUpti_Activity *)(void *)at;
    GIVE(SUCCESS);
}

#ifndef SI_OLD
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
    ENTER(stream);
    *dropped = context ? 0 : si_take_dropped();
    GIVE(SUCCESS);
}
#endif

CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
    ENTER(flags);
    si_work_collect();
    si_writer_seal();
    si_writer_settle();
    GIVE(SUCCESS);
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size, void *value)
{
    ENTER((uint64_t)attribute * 1000 + (value ? *(const uint8_t *)value : 0));
    if (!size || !value)
        GIVE(INVALID_PARAMETER);
    if ((uint32_t)attribute == 9)
        si_writer_per_thread(*(uint8_t *)value != 0);
    GIVE(SUCCESS);
}

#ifndef SI_OLD
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now)
{
    ENTER(now != NULL);
    if (!now)
        GIVE(INVALID_PARAMETER);
    si_stamp_callback((uint64_t(*)(void))now);
    GIVE(SUCCESS);
}
#endif

CUptiResult cuptiGetTimestamp(uint64_t *now)
{
    ENTER(0);
    *now = si_stamp_now();
    GIVE(SUCCESS);
}

CUptiResult cuptiActivityFlushPeriod(uint32_t ms)
{
    ENTER(ms);
    GIVE(SUCCESS);
}

/* ---- external correlation ------------------------------------------------------------------- */

#ifndef SI_OLD
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    ENTER(id);
    GIVE(si_external_push((uint32_t)kind, id) ? SUCCESS : INVALID_PARAMETER);
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t *last)
{
    uint64_t id = 0;
    ENTER(kind);
    if (!si_external_pop((uint32_t)kind, &id))
        GIVE(QUEUE_EMPTY);
    if (last)
        *last = id;
    GIVE(SUCCESS);
}
#endif

/* ---- switches ------------------------------------------------------------------------------- */

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable)
{
    ENTER(id);
    GIVE(si_call_single(SI_RUNTIME, id, enable != 0) ? SUCCESS : INVALID_PARAMETER);
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable)
{
    ENTER(id);
    GIVE(si_call_single(SI_DRIVER, id, enable != 0) ? SUCCESS : INVALID_PARAMETER);
}

CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
    ENTER(enable);
    GIVE(SUCCESS);
}

CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
    ENTER(enable);
    GIVE(SUCCESS);
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    ENTER(type);
    si_call_thread_ids((uint32_t)type == 1);
    GIVE(SUCCESS);
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char **name)
{
    ENTER(id);
    const char *found = si_callback_name((uint32_t)domain, id);
    if (!found)
        GIVE(INVALID_PARAMETER);
    *name = found;
    GIVE(SUCCESS);
}

/* ---- callbacks: of one subscriber ----------------------------------------------------------- */

static const int one_subscriber;

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user)
{
    ENTER(0);
    if (!handle || !callback)
        GIVE(INVALID_PARAMETER);
    if (!si_listen((si_listener)(void (*)(void))callback, user))
        GIVE(MULTIPLE_SUBSCRIBERS);
    *handle = (CUpti_SubscriberHandle)(uintptr_t)&one_subscriber;
    GIVE(SUCCESS);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
    ENTER(0);
    if ((uintptr_t)handle != (uintptr_t)&one_subscriber)
        GIVE(INVALID_PARAMETER);
    si_listen_end();
    GIVE(SUCCESS);
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    ENTER(id);
    if ((uintptr_t)handle != (uintptr_t)&one_subscriber ||
        !si_listen_to((uint32_t)domain, id, enable != 0))
        GIVE(INVALID_PARAMETER);
    GIVE(SUCCESS);
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
                              CUpti_CallbackDomain domain)
{
    ENTER(domain);
    if ((uintptr_t)handle != (uintptr_t)&one_subscriber)
        GIVE(INVALID_PARAMETER);
    for (uint32_t id = 0; si_listen_to((uint32_t)domain, id, enable != 0); id++)
        ;
    GIVE(SUCCESS);
}

CUptiResult cuptiFinalize(void)
{
    ENTER(0);
    si_kinds_off();
    si_stamp_callback(NULL);
    si_listen_end();
    GIVE(SUCCESS);
}

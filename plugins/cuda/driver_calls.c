/* The selection of driver calls that are recorded: those that make a device do something or wait
 * for it, so that all device work has its call also in programs without the runtime, and those that
 * map memory, as in Kineto. CUPTI does not record driver calls that the runtime makes, so nothing
 * is recorded twice. */
#include "cuda.h"

/* Ranges of CUPTI's callback ids, the same in all versions, including the variants for per-thread
 * default streams. Numbers within a range that the headers lack are variants that the driver has
 * dropped; a test compares them. */
static const struct {
    uint16_t first, last;
} call_ranges[] = {
    {307, 307},             /* cuLaunchKernel, which all versions have; first, see below */
    {442, 442}, {115, 117}, /* cuLaunch, cuLaunchGrid */
    {477, 478},             /* cuLaunchCooperativeKernel */
    {480, 480}, {514, 515}, /* cuGraphLaunch */
    {652, 653},             /* cuLaunchKernelEx */
    {43, 82},               /* cuMemcpy…, cuMemset… */
    {216, 227},             /* cuMemset…Async */
    {248, 254},             /* cuMemset…_v2 */
    {276, 293},             /* cuMemcpy…_v2 */
    {305, 306},             /* cuMemcpy, cuMemcpyAsync */
    {318, 321},             /* cuMemcpy…Peer */
    {397, 416},             /* of a default stream per thread */
    {418, 433},             /* the same, asynchronous */
    {776, 779},             /* cuMemcpyBatchAsync */
    {796, 799}, {837, 840}, /* cuMemcpyWithAttributesAsync */
    {17, 17},               /* cuCtxSynchronize */
    {800, 800}, {119, 119}, /* cuEventRecord */
    {441, 441}, {587, 588}, /* cuEventRecordWithFlags */
    {121, 121},             /* cuEventSynchronize */
    {126, 126},             /* cuStreamSynchronize */
    {440, 440}, {295, 295}, /* cuStreamWaitEvent */
    {436, 436}, {549, 552}, /* cuMemCreate, Release, Map, Unmap */
    {554, 555},             /* cuMemExportToShareableHandle, Import */
};

/* An older CUPTI refuses ids that it does not know; those results are ignored. */
static void switch_ranges(uint8_t on)
{
    for (size_t i = 0; i < CP_COUNT(call_ranges); i++)
        for (uint32_t id = call_ranges[i].first; id <= call_ranges[i].last; id++)
            (void)cp_cupti.enable_driver_api(id, on);
}

cp_result cp_driver_calls_on(void)
{
    if (!cp_cupti.enable_driver_api)
        return CP_ERROR_NOT_SUPPORTED;
    cp_result result = cp_cupti.enable_driver_api(call_ranges[0].first, 1);
    if (result == CP_SUCCESS)
        switch_ranges(1);
    return result;
}

void cp_driver_calls_off(void)
{
    if (cp_cupti.enable_driver_api)
        switch_ranges(0);
}

/* Which calls of the driver are recorded: those that have something done by a device, or waited
 * for, so that all a device did has its call in programs without the runtime too; and those that
 * map memory, as Kineto does. What the runtime calls in the driver CUPTI does not record, so
 * nothing is there twice. */
#include "cuda.h"

/* Numbers of CUPTI's callbacks, the same in all versions, with the variants for a default stream
 * per thread. A test compares them with the vendor's headers: what is in between are variants that
 * the driver has no more. */
static const struct {
    uint16_t first, last;
} ranges[] = {
    {307, 307},             /* cuLaunchKernel, which all versions know */
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

/* CUPTI knows no more of what it is asked for than there was in its time. */
static void switch_all(uint8_t on)
{
    for (size_t i = 0; i < CP_COUNT(ranges); i++)
        for (uint32_t id = ranges[i].first; id <= ranges[i].last; id++)
            (void)cp_cupti.enable_driver_api(id, on);
}

cp_result cp_driver_calls_on(void)
{
    if (!cp_cupti.enable_driver_api)
        return CP_ERROR_NOT_SUPPORTED;
    cp_result result = cp_cupti.enable_driver_api(ranges[0].first, 1);
    if (result == CP_SUCCESS)
        switch_all(1);
    return result;
}

void cp_driver_calls_off(void)
{
    if (cp_cupti.enable_driver_api)
        switch_all(0);
}

/* Names of what becomes of a request. */
#include "control/controller.h"

const char *ko_stage_name(uint32_t stage)
{
    static const char *const names[] = {"accepted", "refused", "warm-up", "collect",
                                        "process",  "written", "failed",  "cancelled"};
    return stage < KB_COUNT(names) ? names[stage] : "unknown";
}

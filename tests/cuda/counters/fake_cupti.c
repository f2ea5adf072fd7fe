/* All that a library must have besides PM sampling to be found as CUPTI. */
#include "cupti.h"

__attribute__((visibility("default"))) cp_result cuptiGetVersion(uint32_t *version);

cp_result cuptiGetVersion(uint32_t *version)
{
    *version = 130202;
    return CP_SUCCESS;
}

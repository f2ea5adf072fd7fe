/* schemas.c of the NVTX source, which can forget. */
#include "nvtx/schemas.c" /* NOLINT(bugprone-suspicious-include) */

#include "nvtx_parts.h"

void fuzz_schemas_forget(void)
{
    memset((void *)schema_table, 0, sizeof schema_table);
    memset((void *)predefined, 0, sizeof predefined);
    schema_count = 0;
    atomic_store(&next_schema_id, CN_SCHEMA_DYNAMIC_FIRST);
}

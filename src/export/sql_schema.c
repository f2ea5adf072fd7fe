/* The tables of SQL, in the order in which the help lists them. */
#include "export/sql_tables.h"

static const ke_sql_table *const tables[KE_SQL_TABLES] = {
    &ke_sql_activities, &ke_sql_args,     &ke_sql_tracks, &ke_sql_processes, &ke_sql_devices,
    &ke_sql_flows,      &ke_sql_counters, &ke_sql_steps,  &ke_sql_metadata,  &ke_sql_ledger,
};

const ke_sql_table *const *ke_sql_schema(size_t *count)
{
    *count = KE_SQL_TABLES;
    return tables;
}

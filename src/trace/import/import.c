/* The table of formats of other tools. */
#include "trace/import/import.h"

static const kt_importer importers[] = {
    {"perf.data", kt_is_perf_data, kt_import_perf_data},
    {"uftrace dump", kt_is_uftrace_dump, kt_import_uftrace_dump},
    {"perf script", kt_is_perf_script, kt_import_perf_script},
};

const kt_importer *kt_importer_find(kineto_string head)
{
    for (size_t i = 0; i < KB_COUNT(importers); i++)
        if (importers[i].recognise(head))
            return &importers[i];
    return NULL;
}

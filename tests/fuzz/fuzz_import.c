/* Recordings of other tools: perf.data files, the texts of perf script and uftrace dump. Whatever is in
 * them, reading ends, nothing outside of them is read, and what was read is a trace that can be looked at
 * and written. */
#include "read.h"
#include "trace/import/import.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    uint8_t *exact = malloc(size ? size : 1); /* its end is watched */
    if (!exact)
        return 0;
    memcpy(exact, data, size);
    kineto_string bytes = {(const char *)exact, size};
    const kt_importer *importer = kt_importer_find(bytes);
    kineto_status status = importer && !importer->streams ? importer->read(&(kt_import_source){.bytes = bytes}, &t, &err) : KINETO_E_FORMAT;
    free(exact); /* the trace has copies */
    fuzz_check((status == KINETO_OK) == (t != NULL), "status and trace do not agree");
    fuzz_check(t || !importer || err.message[0], "refused without a word");
    fuzz_check(t || status == KINETO_E_FORMAT || status == KINETO_E_LIMIT ||
                   status == KINETO_E_UNSUPPORTED,
               err.message);
    if (!t)
        return 0;
    fuzz_visit(t);
    fuzz_write_again(t);
    kineto_trace_release(t);
    return 0;
}

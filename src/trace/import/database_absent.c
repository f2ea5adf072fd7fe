/* Stands in for the reader of SQLite databases where ckineto is built without SQLite. */
#include "trace/import/import.h"

bool kt_is_database(kineto_string head) { return kb_string_starts_with(head, "SQLite format 3"); }

kineto_status kt_import_database(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    (void)source;
    (void)out;
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "an SQLite database, and this ckineto was built without SQLite; install libsqlite3-dev and build it "
                   "again, or convert the file on a machine whose ckineto has it ('ckineto convert FILE -o FILE.json')");
}

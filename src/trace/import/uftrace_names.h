/* Names of the functions of uftrace's records: which program a process executed when (task.txt), which
 * files it had mapped where (sid-*.map), and the functions of each file (*.sym).
 *
 * All texts are borrowed from the files of the directory until kt_uftrace_names_free. */
#ifndef KT_UFTRACE_NAMES_H
#define KT_UFTRACE_NAMES_H

#include "trace/from_recording/symbols.h"
#include "trace/import/directory.h"

typedef struct kt_uftrace_function {
    uint64_t offset; /* from where the file is mapped */
    kineto_string name; /* empty: what is before ends here */
} kt_uftrace_function;

/* Functions of one file, by offset. */
typedef struct kt_uftrace_table {
    kineto_string path;
    KB_VEC(kt_uftrace_function) functions;
} kt_uftrace_table;

typedef struct kt_uftrace_mapping {
    uint64_t start, end;
    uint64_t since_ns; /* of a library that was loaded later */
    kineto_string path;
    uint32_t table; /* index; UINT32_MAX: none */
} kt_uftrace_mapping;

/* The execution of a program. */
typedef struct kt_uftrace_session {
    kineto_string id, program;
    uint64_t start_ns;
    uint32_t pid;
    KB_VEC(kt_uftrace_mapping) mappings;
} kt_uftrace_session;

typedef struct kt_uftrace_names {
    KB_VEC(kt_uftrace_table) tables;
    KB_VEC(kt_uftrace_session) sessions; /* in the order of task.txt */
    kt_symbols *symbols;                 /* which demangles; it owns the names */
    char unnamed[300];
} kt_uftrace_names;

/** Reads all tables of functions. */
kineto_status kt_uftrace_tables_read(kt_uftrace_names *n, kt_directory *d, kineto_error *err);
/** Adds the execution of a program, with its mappings. */
kineto_status kt_uftrace_session_add(kt_uftrace_names *n, kt_directory *d, kt_uftrace_session session,
                                     kineto_error *err);
/** A library that a session loaded. False: out of memory. */
bool kt_uftrace_library_add(kt_uftrace_names *n, kineto_string session, uint64_t base,
                            uint64_t since_ns, kineto_string path);
/** The latest session of the process at this time; NULL: none. */
const kt_uftrace_session *kt_uftrace_session_find(const kt_uftrace_names *n, uint32_t pid,
                                                  uint64_t time_ns);
/** The mapping that contains an address at this time; NULL: none. */
const kt_uftrace_mapping *kt_uftrace_mapping_find(const kt_uftrace_session *session, uint64_t address,
                                                  uint64_t time_ns);
/** The name of a function, or "file+0x1f", or an address; valid until the next call. */
kineto_string kt_uftrace_name_find(kt_uftrace_names *n, const kt_uftrace_session *session,
                                   uint64_t address, uint64_t time_ns);
void kt_uftrace_names_free(kt_uftrace_names *n);
#endif

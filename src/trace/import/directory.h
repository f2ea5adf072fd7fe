/* A recording that is a directory: finds and opens the files in it. Files may be compressed, like all
 * input; anything but a regular file is as good as absent. */
#ifndef KT_DIRECTORY_H
#define KT_DIRECTORY_H

#include "trace/bytes/input.h"

typedef struct kt_directory {
    const char *path;
    KB_VEC(kt_input *) inputs; /* of kt_directory_read */
} kt_directory;

/** Opens a file for a caller that reads it once and releases it; *bytes is all of it.
 *  KINETO_E_NOT_FOUND: there is no such file. */
kineto_status kt_directory_open(const kt_directory *d, const char *name, kt_input **out,
                                kineto_string *bytes, kineto_error *err);
/** Ends the use of such a file; NULL is ignored. KINETO_E_IO: it was truncated while it was read. */
kineto_status kt_directory_release(kt_input *input, kineto_error *err);
/** The same for a file that stays readable until kt_directory_close. */
kineto_status kt_directory_read(kt_directory *d, const char *name, kineto_string *bytes,
                                kineto_error *err);
/** KINETO_E_IO: a file of kt_directory_read was truncated while it was read. */
kineto_status kt_directory_check(const kt_directory *d, kineto_error *err);
void kt_directory_close(kt_directory *d);

typedef struct kt_directory_names {
    KB_VEC(char *) list;
} kt_directory_names;

/** Names of files that begin and end with these texts, in order: "data.2" comes before "data.10". Free
 *  them in any case. */
kineto_status kt_directory_find(const char *path, const char *begin, const char *end,
                                kt_directory_names *out, kineto_error *err);
void kt_directory_names_free(kt_directory_names *names);
/** The number between such texts in a name; KT_NO_NUMBER (text_line.h): it is none. */
uint64_t kt_directory_number(const char *name, const char *begin, const char *end);
#endif

/* Paths of traces below directories, and of facts files among the paths that a caller names. */
#ifndef KA_FACTS_PATHS_H
#define KA_FACTS_PATHS_H

#include "analyze/saved/facts_file.h"

/** Paths, each to be freed. */
typedef struct ka_path_list {
    KB_VEC(char *) list;
} ka_path_list;
bool ka_path_list_add(ka_path_list *l, const char *path);
void ka_path_list_free(ka_path_list *l);

/** Add the path, or of a directory the files anywhere below it for which `is_wanted` is true. Links to directories are
 *  not followed. @param is_wanted  gets the path, and the name in it. */
typedef bool ka_file_test(const char *path, const char *name);
kineto_status ka_list_files(const char *path, ka_file_test *is_wanted, ka_path_list *out, kineto_error *err);
/** For ka_list_files: by the names of traces; by the first bytes of facts files. */
ka_file_test ka_is_trace_path, ka_is_facts_path;

/** Facts among the paths that are named. */
typedef enum ka_operands_kind {
    KA_OPERANDS_TRACES,
    KA_OPERANDS_FACTS, /* facts files, files of runs, or directories that have such and no traces */
    KA_OPERANDS_MIXED
} ka_operands_kind;
/** @param out  receives the facts files; may be NULL. */
kineto_status ka_find_facts(char *const *paths, int count, ka_operands_kind *kind, ka_path_list *out,
                            kineto_error *err);
/** Are there names of traces in the directory itself? Then it is one of traces, also where facts are with them: only the
 *  directory itself is searched for traces, as the verbs that read them do. */
bool ka_has_traces(const char *directory);
/** Facts files in directories of traces, which are not read there. */
uint32_t ka_count_facts_left_out(char *const *paths, int count);
/** Open all facts of the paths, which must be facts. */
kineto_status ka_facts_open_paths(char *const *paths, int count, ka_facts_set **out, kineto_error *err);
#endif

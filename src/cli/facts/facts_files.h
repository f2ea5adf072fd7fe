/* Files for the verbs of facts: traces below directories, and facts files among operands. */
#ifndef KC_FACTS_FILES_H
#define KC_FACTS_FILES_H

#include "analyze/saved/facts_file.h"
#include "cli/cli.h"

/** Paths, each to be freed. */
typedef struct kc_path_list {
    KB_VEC(char *) list;
} kc_path_list;
bool kc_path_list_add(kc_path_list *l, const char *path);
void kc_path_list_free(kc_path_list *l);

/** Add the path, or of a directory the files anywhere below it for which `is_wanted` is true. Links to directories are
 *  not followed. @param is_wanted  gets the path, and the name in it. */
typedef bool kc_file_test(const char *path, const char *name);
kineto_status kc_list_files(const char *path, kc_file_test *is_wanted, kc_path_list *out, kineto_error *err);
/** For kc_list_files: by the names of traces; by the first bytes of facts files. */
kc_file_test kc_is_trace_path, kc_is_facts_path;

/** Facts among the operands of a verb. */
typedef enum kc_operands_kind {
    KC_OPERANDS_TRACES,
    KC_OPERANDS_FACTS, /* facts files, files of runs, or directories that have such and no traces */
    KC_OPERANDS_MIXED
} kc_operands_kind;
/** @param out  receives the facts files; may be NULL. */
kineto_status kc_find_facts(char *const *paths, int count, kc_operands_kind *kind, kc_path_list *out,
                            kineto_error *err);
/** Open all facts of the operands, which must be facts. */
kineto_status kc_open_facts(char *const *paths, int count, ka_facts_set **out, kineto_error *err);
/** --mem of facts: at least 16 MiB, which all comparisons need. A mistake is an error. */
kineto_status kc_check_facts_memory(uint64_t bytes, kineto_error *err);
#endif

/* Lists of names that options take: for completion, and for "did you mean" after a typing mistake. */
#ifndef KC_NAMES_H
#define KC_NAMES_H

#include "cli/cli.h"

/** Receives one name. */
typedef void kc_name_receiver(const char *name, void *user);
/** Calls `add` for each name of a list. */
typedef void kc_name_list(kc_name_receiver *add, void *user);

kc_name_list kc_list_tables, kc_list_rules, kc_list_checks, kc_list_formats, kc_list_kinds, kc_list_metrics,
    kc_list_sql_tables, kc_list_sql_columns;

/** "; did you mean 'kernels'?"; empty if no name of the list is similar to the word. */
kb_text kc_did_you_mean(kc_name_list *list, const char *word);
/** The same for a missing file, among the files of its directory. @param text  receives it, cut to `size`. */
void kc_did_you_mean_file(const char *path, char *text, size_t size);
/** The list of an option's argument as its help calls it ("RULE[=LIMIT]"); NULL: it has none.
 *  @param several  receives whether commas may separate several names. */
kc_name_list *kc_names_of_argument(const char *argument, bool *several);
#endif

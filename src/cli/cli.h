/* What every verb includes: its options, its printing, and the table of verbs of main.c. A verb
 * gets its own argv (argv[0] is its name) and returns the exit status. */
#ifndef KC_CLI_H
#define KC_CLI_H

#include "cli/options.h"
#include "cli/print.h"

typedef struct kc_verb {
    const char *name;
    int (*run)(int argc, char **argv);
    /* its line in the help; NULL: a verb that is not listed */
    const char *about;
    /* the heading of the help that begins with this verb; NULL: none begins */
    const char *group;
} kc_verb;

int kc_record(int argc, char **argv);
int kc_bench(int argc, char **argv);
int kc_top(int argc, char **argv);
int kc_info(int argc, char **argv);
int kc_verify(int argc, char **argv);
int kc_convert(int argc, char **argv);
int kc_export(int argc, char **argv);
int kc_history_verb(int argc, char **argv);
int kc_doctor(int argc, char **argv);
int kc_recover(int argc, char **argv);
int kc_repair(int argc, char **argv);
int kc_plugin(int argc, char **argv);
int kc_slice(int argc, char **argv);
int kc_scrub(int argc, char **argv);
int kc_query(int argc, char **argv);
int kc_table(int argc, char **argv);
int kc_report(int argc, char **argv);
int kc_view(int argc, char **argv);
int kc_analyze(int argc, char **argv);
int kc_diff(int argc, char **argv);
int kc_facts(int argc, char **argv);
int kc_reduce(int argc, char **argv);
int kc_daemon(int argc, char **argv);
int kc_ps(int argc, char **argv);
int kc_mcp(int argc, char **argv);
int kc_trigger(int argc, char **argv);
/** `ckineto plugin check`: argv[0] is "check". */
int kc_plugin_check(int argc, char **argv);
/** `ckineto completion SHELL`: writes the completion of all `verbs`. */
int kc_completion(int argc, char **argv, const kc_verb *verbs, size_t count);
#endif

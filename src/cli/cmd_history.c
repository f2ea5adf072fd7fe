/* ckineto history: its three parts, each with options of its own. */
#include "cli/history/history.h"

#include "cli/style.h"

static int print_history_usage(FILE *out, int status)
{
    kc_put_styled(out, KC_BOLD, "Usage:");
    fputs(" ckineto history add RUN -d DIR [options]\n"
          "       ckineto history list -d DIR [options]\n"
          "       ckineto history regress -d DIR [options]\n\n"
          "The history of a program's step time, in a data set.\n\n"
          "  add      add a run: a directory of traces, or a trace\n"
          "  list     list the runs, in the order of time\n"
          "  regress  find the runs from which on steps take longer, and by what\n\n"
          "'ckineto history add --help' lists the options of a command.\n",
          out);
    return kc_finish_stdout("history", status);
}

int kc_history_verb(int argc, char **argv)
{
    if (argc < 2) {
        print_history_usage(stderr, 0);
        return KC_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_history_usage(stdout, 0);
    if (strcmp(argv[1], "add") == 0)
        return kc_history_add(argc - 1, argv + 1);
    if (strcmp(argv[1], "list") == 0)
        return kc_history_list(argc - 1, argv + 1);
    if (strcmp(argv[1], "regress") == 0)
        return kc_history_regress(argc - 1, argv + 1);
    (void)kc_usage_error("history", "unknown command '%s'; known are add, list and regress", argv[1]);
    return KC_EXIT_USAGE;
}

/* ckineto plugin check: does a plug-in keep the rules of the interface? */
#include "cli/cli.h"

int kc_plugin_check(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    kc_complain("plugin check: not there yet");
    return KC_EXIT_USAGE;
}

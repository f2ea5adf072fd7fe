/* Prints what was loaded into it: before its first session, after it, and after the next. Entries
 * of a folder outside of the tests (an installation) are left out. Compiled against the shared
 * libraries, and with a copy of its own.
 *   loaded PREFIX      loaded: no session, no output */
#include <ckineto/ckineto.h>
#include "../helpers/sessions.h"

#include <stdio.h>
#include <string.h>

static void print(const char *when, const char *prefix)
{
    static const char *const states[] = {"loaded", "refused", "skipped", "unloaded", "built in"};
    for (uint32_t i = 0; i < kineto_plugin_count(); i++) {
        kineto_plugin_info info = {.size = sizeof info};
        if (!kineto_plugin_info_get(i, &info) || info.state > KINETO_PLUGIN_BUILT_IN ||
            strncmp(info.path, prefix, strlen(prefix)) != 0)
            continue;
        (void)printf("%s %s %s %s %s %s\n", when, states[info.state], info.path + strlen(prefix),
                     info.name[0] ? info.name : "-", info.revision, info.reason);
    }
}

int main(int argc, char **argv)
{
    static const char *const when[] = {"first", "second"};
    if (argc != 2)
        return 0;
    const char *prefix = argv[1];
    print("start", prefix);
    for (int i = 0; i < 2; i++) {
        kineto_session *session = NULL;
        kineto_error err = {0};
        if (begin_session(NULL, &session, &err) || end_session(session, NULL, &err)) {
            (void)printf("no session: %s\n", err.message);
            return 1;
        }
        print(when[i], prefix);
    }
    return 0;
}

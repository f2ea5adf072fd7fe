/* Environment variables, from the one table settings.def, which the documentation is generated
 * from: a variable that is not in it cannot be read with kb_setting. */
#include "base/base.h"

static const kb_setting_row rows[] = {
#define X(name, values, initial, text) {#name, values, initial, text},
#include "base/settings.def"
#undef X
};

const kb_setting_row *kb_settings(size_t *count)
{
    *count = KB_COUNT(rows);
    return rows;
}

const char *kb_setting(const char *name)
{
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        if (strcmp(rows[i].name, name) != 0)
            continue;
        const char *value = kb_os_getenv(name);
        return value && *value ? value : NULL;
    }
    return NULL;
}

/* Every environment variable by name, from one table, so that none is undocumented. */
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

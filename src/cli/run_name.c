/* Names of runs, from options and paths. */
#include "cli/run_name.h"

#include "export/parquet_run.h"

/* The last part of a path, without the endings of traces. */
static void name_run(const char *path, char *name, size_t size)
{
    static const char *const endings[] = {".gz", ".zst", ".json", ".pt", ".trace"};
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *slash = memrchr(path, '/', length);
    const char *begin = slash && slash + 1 < path + length ? slash + 1 : path;
    snprintf(name, size, "%.*s", (int)(path + length - begin), begin);
    for (size_t i = 0; i < KB_COUNT(endings); i++)
        if (kb_string_ends_with(kb_string(name), endings[i]) && strlen(name) > strlen(endings[i]))
            name[strlen(name) - strlen(endings[i])] = '\0';
}

kineto_status kc_choose_run_name(const char *verb, const char *given, const char *path, char name[KC_RUN_NAME_BYTES])
{
    if (given)
        snprintf(name, KC_RUN_NAME_BYTES, "%s", given);
    else
        name_run(path, name, KC_RUN_NAME_BYTES);
    if (ke_is_partition_value(name))
        return KINETO_OK;
    return kc_usage_error(verb, "'%s' cannot be the name of a run; use letters, digits, '.', '-' and '_' with --run", name);
}

/* Writing a trace in the format that its file name asks for. */
#include "export/export.h"

#include <sys/stat.h>

typedef kineto_status ke_write(const kineto_trace *, const char *path, kineto_export_result *,
                               kineto_error *);

typedef struct writer {
    ke_write *write;
    const char *endings[4];
} writer;

/* The first is for what has no name to speak of: a device, a FIFO. */
static const writer writers[] = {{kineto_export_chrome, {".json", ".json.gz", ".json.zst"}}};

static bool ends_with(const char *path, const char *ending)
{
    size_t size = strlen(path), wanted = strlen(ending);
    return size > wanted && strcmp(path + size - wanted, ending) == 0;
}

static ke_write *find(const char *path)
{
    struct stat st;
    for (size_t i = 0; i < KB_COUNT(writers); i++)
        for (const char *const *ending = writers[i].endings; *ending; ending++)
            if (ends_with(path, *ending))
                return writers[i].write;
    bool special = stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
    return special ? writers[0].write : NULL;
}

kineto_status ke_check_path(const char *path, kineto_error *err)
{
    char known[256] = "";
    if (find(path))
        return KINETO_OK;
    for (size_t i = 0; i < KB_COUNT(writers); i++)
        for (const char *const *ending = writers[i].endings; *ending; ending++) {
            size_t used = strlen(known);
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", *ending);
        }
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "cannot tell the format of %s: its name must end in one of %s", path, known);
}

kineto_status kineto_trace_save(const kineto_trace *trace, const char *path, kineto_error *err)
{
    if (!trace || !path)
        return kb_fail(err, KINETO_E_ARGUMENT, "a trace and a path are needed to save a trace");
    kineto_status status = ke_check_path(path, err);
    return status ? status : find(path)(trace, path, NULL, err);
}

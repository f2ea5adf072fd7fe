/* Writing a trace in the format that its file name asks for. */
#include "export/export.h"

typedef struct writer {
    const char *extension;
    kineto_status (*write)(const kineto_trace *, const char *path, kineto_export_result *,
                           kineto_error *);
} writer;

static const writer writers[] = {{".json", kineto_export_chrome},
                                 {".json.gz", kineto_export_chrome},
                                 {".json.zst", kineto_export_chrome}};

static bool ends_with(const char *path, const char *extension)
{
    size_t size = strlen(path), wanted = strlen(extension);
    return size > wanted && strcmp(path + size - wanted, extension) == 0;
}

kineto_status kineto_trace_save(const kineto_trace *trace, const char *path, kineto_error *err)
{
    if (!trace || !path)
        return kb_fail(err, KINETO_E_ARGUMENT, "a trace and a path are needed to save a trace");
    for (size_t i = 0; i < KB_COUNT(writers); i++)
        if (ends_with(path, writers[i].extension))
            return writers[i].write(trace, path, NULL, err);
    char known[256] = "";
    for (size_t i = 0; i < KB_COUNT(writers); i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", writers[i].extension);
    }
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "cannot tell the format of %s: its name must end in one of %s", path, known);
}

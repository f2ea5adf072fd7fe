/* Lines about files that were written. */
#include "cli/written.h"
#include "cli/print.h"
#include "export/export.h"

#include <sys/stat.h>

static bool has_ending(const char *path, const char *ending)
{
    size_t size = strlen(path), length = strlen(ending);
    return size > length && strcmp(path + size - length, ending) == 0;
}

bool kc_is_page_name(const char *path) { return has_ending(path, ".html") || has_ending(path, ".htm"); }

kineto_status kc_check_trace_name(const char *verb, const char *path)
{
    kineto_error err;
    if (kc_is_page_name(path))
        return kc_usage_error(verb,
                              "%s would be a page, which 'ckineto report' writes; first 'ckineto %s … -o part.json', "
                              "then 'ckineto report part.json -o %s'",
                              path, verb, path);
    return ke_check_path(path, &err) ? kc_usage_error(verb, "%s", err.message) : KINETO_OK;
}

/* "1.2 MB" of a regular file. */
static kb_text format_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? kb_bytes((uint64_t)st.st_size) : (kb_text){"not a file"};
}

bool kc_can_be_read(const char *path)
{
    static const char *const readable[] = {"chrome", "perfetto", "sqlite"};
    kb_compression compression;
    bool needs_file;
    const char *format = ke_format_by_ending(path, &compression, &needs_file);
    for (size_t i = 0; format && i < KB_COUNT(readable); i++)
        if (strcmp(format, readable[i]) == 0)
            return true;
    return false;
}

/* A line about a file, wrapped where errors are. */
KINETO_PRINTF(1, 2) static void print_line(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    kc_put_message(stderr, "ckineto: ", vasprintf(&text, fmt, args) < 0 ? fmt : text);
    va_end(args);
    free(text);
}

void kc_print_written_trace(const char *path, uint64_t activities)
{
    print_line("the trace is in %s (%s, %s %s)", path, format_size(path).s, kc_count(activities).s,
               kc_noun(activities, "activity", "activities"));
    if (kc_can_be_read(path))
        print_line("next: ckineto %s", kc_command_word(path, SIZE_MAX));
}

void kc_print_written_page(const char *path)
{
    print_line("the report is in %s (%s)", path, format_size(path).s);
    print_line("next: open it in a browser");
}

/* The tables of formats of other tools.
 *
 * Text, binary files and JSON are told apart first, as most recognisers know one of them. Of those that accept a file the
 * first one reads it, so that one with a magic number or with exact names is before one that guesses. Directories are
 * told by the beginning of one of their files. */
#include "trace/import/import.h"

#include <stdio.h>
#include <sys/stat.h>

/* The first one that recognises the file reads it. */
static const kt_importer importers[] = {
    {.name = "perf.data", .recognise = kt_is_perf_data, .read = kt_import_perf_data},
    {.name = "uftrace dump", .recognise = kt_is_uftrace_dump, .read = kt_import_uftrace_dump},
    {.name = "flight recorder", .recognise = kt_is_flight_recorder_pickle, .read = kt_import_flight_recorder},
    {.name = "flight recorder", .is_json = true, .recognise = kt_is_flight_recorder_json,
     .read = kt_import_flight_recorder},
    {.name = "XLA profile", .recognise = kt_is_xplane, .read = kt_import_xplane},
    {.name = "Perfetto", .recognise = kt_is_perfetto, .read = kt_import_perfetto},
    {.name = "NCCL inspector", .is_json = true, .recognise = kt_is_nccl_inspector, .read = kt_import_nccl_inspector},
    {.name = "SQLite database", .recognise = kt_is_database, .read = kt_import_database},
    {.name = "rocprofv3 JSON", .is_json = true, .recognise = kt_is_rocprof_json, .read = kt_import_rocprof_json},
    {.name = "perf script", .recognise = kt_is_perf_script, .read = kt_import_perf_script},
};

static bool begins_as_json(kineto_string head)
{
    size_t at = 0;
    while (at < head.size && (head.data[at] == ' ' || (head.data[at] >= '\t' && head.data[at] <= '\r')))
        at++;
    return at < head.size && (head.data[at] == '{' || head.data[at] == '[');
}

const kt_importer *kt_importer_find(kineto_string head)
{
    bool is_json = begins_as_json(head);
    for (size_t i = 0; i < KB_COUNT(importers); i++)
        if (importers[i].is_json == is_json && importers[i].recognise(head))
            return &importers[i];
    return NULL;
}

static const kt_directory_importer directory_importers[] = {
    {"info", "Ftrace!", kt_import_uftrace_directory},
    {"data", "PERFILE2", kt_import_perf_directory},
};

/* The file has these first bytes. It is opened only if it is a regular one: a pipe could wait for ever. */
static bool has_file_beginning(const char *directory, const char *name, const char *begin)
{
    char path[4096], head[16];
    struct stat st;
    int size = snprintf(path, sizeof path, "%s/%s", directory, name);
    if (size < 0 || (size_t)size >= sizeof path || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    FILE *f = fopen(path, "rbe");
    size_t got = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    return kb_string_starts_with((kineto_string){head, got}, begin);
}

const kt_directory_importer *kt_directory_importer_find(const char *path)
{
    for (size_t i = 0; i < KB_COUNT(directory_importers); i++)
        if (has_file_beginning(path, directory_importers[i].file, directory_importers[i].begin))
            return &directory_importers[i];
    return NULL;
}

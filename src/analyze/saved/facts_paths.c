/* Lists files below directories, and finds out which paths are facts. */
#include "analyze/saved/facts_paths.h"
#include "trace/files/identity.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

/* Directories in one another. */
#define MAX_DEPTH 32u

bool ka_path_list_add(ka_path_list *l, const char *path)
{
    char *copy = strdup(path);
    if (copy && kb_vec_push(&l->list, copy))
        return true;
    free(copy);
    return false;
}

void ka_path_list_free(ka_path_list *l)
{
    for (size_t i = 0; i < l->list.count; i++)
        free(l->list.data[i]);
    kb_vec_free(&l->list);
}

bool ka_is_trace_path(const char *path, const char *name)
{
    (void)path;
    return kt_is_trace_name(name);
}

bool ka_is_facts_path(const char *path, const char *name)
{
    return name[0] != '.' && !kt_is_trace_name(name) && ka_is_facts_file(path);
}

static kineto_status list_directory(const char *directory, uint32_t depth, ka_file_test *is_wanted, ka_path_list *out,
                                    kineto_error *err);

/* A file, or a link that leads to no file or to a directory: reading that says what is wrong. */
static bool could_be_file(const char *path)
{
    struct stat st;
    return stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
}

/* Without a wanted file below it, a directory whose own name is wanted is listed itself, for the same reason. */
static kineto_status list_inner_directory(const char *path, const char *name, uint32_t depth, ka_file_test *is_wanted,
                                          ka_path_list *out, kineto_error *err)
{
    size_t before = out->list.count;
    kineto_status status = list_directory(path, depth + 1, is_wanted, out, err);
    if (!status && out->list.count == before && is_wanted(path, name) && !ka_path_list_add(out, path))
        status = kb_fail_memory(err, "list of files");
    return status;
}

static kineto_status list_entry(const char *directory, const char *name, uint32_t depth, ka_file_test *is_wanted,
                                ka_path_list *out, kineto_error *err)
{
    struct stat entry;
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path)
        return kb_fail_memory(err, "list of files");
    bool has_slash = directory[0] && directory[strlen(directory) - 1] == '/';
    snprintf(path, size, "%s%s%s", directory, has_slash ? "" : "/", name);
    kineto_status status = KINETO_OK;
    if (lstat(path, &entry) == 0 && S_ISDIR(entry.st_mode) && name[0] != '.')
        status = list_inner_directory(path, name, depth, is_wanted, out, err);
    else if (could_be_file(path) && is_wanted(path, name) && !ka_path_list_add(out, path))
        status = kb_fail_memory(err, "list of files");
    free(path);
    return status;
}

static kineto_status list_directory(const char *directory, uint32_t depth, ka_file_test *is_wanted, ka_path_list *out,
                                    kineto_error *err)
{
    if (depth > MAX_DEPTH)
        return kb_fail(err, KINETO_E_LIMIT, "%s: more than %u directories in one another", directory, MAX_DEPTH);
    DIR *d = opendir(directory);
    if (!d)
        return kb_fail_os(err, errno, "cannot read directory %s", directory);
    kineto_status status = KINETO_OK;
    for (struct dirent *entry; !status && (entry = readdir(d)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = list_entry(directory, entry->d_name, depth, is_wanted, out, err);
    closedir(d);
    return status;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

kineto_status ka_list_files(const char *path, ka_file_test *is_wanted, ka_path_list *out, kineto_error *err)
{
    if (is_directory(path))
        return list_directory(path, 0, is_wanted, out, err);
    return ka_path_list_add(out, path) ? KINETO_OK : kb_fail_memory(err, "list of files");
}

/* ---- facts among paths ---------------------------------------------------------------------- */

bool ka_has_traces(const char *directory)
{
    DIR *d = opendir(directory);
    bool found = false;
    for (struct dirent *entry; d && !found && (entry = readdir(d)) != NULL;)
        found = kt_is_trace_name(entry->d_name);
    if (d)
        closedir(d);
    return found;
}

kineto_status ka_find_facts(char *const *paths, int count, ka_operands_kind *kind, ka_path_list *out,
                            kineto_error *err)
{
    int with_facts = 0;
    kineto_status status = KINETO_OK;
    for (int i = 0; i < count && !status; i++) {
        ka_path_list of_one = {0};
        bool is_place = is_directory(paths[i]);
        if (is_place && !ka_has_traces(paths[i]))
            status = ka_list_files(paths[i], ka_is_facts_path, &of_one, err);
        else if (!is_place && ka_is_facts_file(paths[i]) && !ka_path_list_add(&of_one, paths[i]))
            status = kb_fail_memory(err, NULL);
        with_facts += of_one.list.count > 0;
        for (size_t k = 0; out && k < of_one.list.count && !status; k++)
            if (!ka_path_list_add(out, of_one.list.data[k]))
                status = kb_fail_memory(err, NULL);
        ka_path_list_free(&of_one);
    }
    *kind = !with_facts ? KA_OPERANDS_TRACES : with_facts == count ? KA_OPERANDS_FACTS : KA_OPERANDS_MIXED;
    return status;
}

uint32_t ka_count_facts_left_out(char *const *paths, int count)
{
    uint32_t files = 0;
    for (int i = 0; i < count; i++) {
        DIR *d = is_directory(paths[i]) && ka_has_traces(paths[i]) ? opendir(paths[i]) : NULL;
        for (struct dirent *entry; d && (entry = readdir(d)) != NULL;) {
            char path[PATH_MAX];
            int size = snprintf(path, sizeof path, "%s/%s", paths[i], entry->d_name);
            files += size > 0 && (size_t)size < sizeof path && ka_is_facts_path(path, entry->d_name);
        }
        if (d)
            closedir(d);
    }
    return files;
}

/* The first path that leads nowhere; else why facts cannot be opened. */
static kineto_status fail_paths(char *const *paths, int count, ka_operands_kind kind, kineto_error *err)
{
    struct stat st;
    for (int i = 0; i < count; i++)
        if (stat(paths[i], &st) != 0)
            return kb_fail_os(err, errno, "cannot open %s", paths[i]);
    if (kind == KA_OPERANDS_MIXED)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "traces and facts cannot be compared in one command: make facts of all of them with "
                       "'ckineto facts'");
    if (ka_count_facts_left_out(paths, 1))
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "%s: this directory has traces, so facts files in it are not read; name these themselves, or "
                       "make facts in another directory with 'ckineto facts'",
                       paths[0]);
    return kb_fail(err, KINETO_E_NOT_FOUND, "%s: no facts files there; 'ckineto facts' makes them of traces", paths[0]);
}

kineto_status ka_facts_open_paths(char *const *paths, int count, ka_facts_set **out, kineto_error *err)
{
    ka_path_list files = {0};
    ka_operands_kind kind;
    *out = NULL;
    kineto_status status = ka_find_facts(paths, count, &kind, &files, err);
    if (!status && (kind == KA_OPERANDS_MIXED || !files.list.count))
        status = fail_paths(paths, count, kind, err);
    if (!status)
        status = ka_facts_set_open((const char *const *)files.list.data, files.list.count, out, err);
    ka_path_list_free(&files);
    return status;
}

/* Finding the files of traces: as they are named, and those that lie in directories. */
#include "trace/files/identity.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

typedef struct file {
    char *path;
    int32_t rank; /* of the name; INT32_MAX: it says none */
    bool was_found, has_inode;
    dev_t device;
    ino_t inode;
    size_t number; /* as they came */
} file;

struct kineto_files {
    KB_VEC(file) list;
    uint64_t skipped, directories; /* things in directories; of them, directories */
    uint32_t repeated;
    char *first_repeated;
};

static kineto_status no_memory(kineto_error *err)
{
    return kb_fail(err, KINETO_E_MEMORY, "no memory for a list of files");
}

/* ---- one file -------------------------------------------------------------------------------- */

static int32_t rank_of(const char *path)
{
    kt_name_facts facts;
    kt_name_facts_of(path, &facts);
    int32_t rank = facts.rank >= 0 ? facts.rank : facts.directory_rank;
    return rank >= 0 ? rank : INT32_MAX;
}

static kineto_status add(kineto_files *files, const char *path, const struct stat *st, bool found,
                         kineto_error *err)
{
    file f = {.path = strdup(path), .rank = rank_of(path), .was_found = found};
    if (st && S_ISREG(st->st_mode)) {
        f.has_inode = true;
        f.device = st->st_dev;
        f.inode = st->st_ino;
    }
    f.number = files->list.count;
    if (f.path && files->list.count < UINT32_MAX && kb_vec_push(&files->list, f))
        return KINETO_OK;
    free(f.path);
    return no_memory(err);
}

/* ---- directories ----------------------------------------------------------------------------- */

static bool is_trace_name(const char *name)
{
    static const char *const endings[] = {".json", ".json.gz", ".json.zst"};
    size_t size = strlen(name);
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        size_t end = strlen(endings[i]);
        if (name[0] != '.' && size > end && strcmp(name + size - end, endings[i]) == 0)
            return true;
    }
    return false;
}

static kineto_status look_at(kineto_files *files, const char *directory, const char *name,
                             kineto_error *err)
{
    struct stat st;
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path)
        return no_memory(err);
    bool slash = directory[0] && directory[strlen(directory) - 1] == '/';
    snprintf(path, size, "%s%s%s", directory, slash ? "" : "/", name);
    kineto_status status = KINETO_OK;
    bool there = stat(path, &st) == 0;
    if (there && S_ISREG(st.st_mode) && is_trace_name(name)) {
        status = add(files, path, &st, true, err);
    } else {
        files->skipped++;
        files->directories += there && S_ISDIR(st.st_mode);
    }
    free(path);
    return status;
}

static kineto_status nothing_in(const kineto_files *files, const char *path, uint64_t skipped,
                                uint64_t directories, kineto_error *err)
{
    char inner[96] = "";
    if (directories < files->directories)
        snprintf(inner, sizeof inner, "; what is in its %llu directories was not looked at",
                 (unsigned long long)(files->directories - directories));
    unsigned long long things = files->skipped - skipped;
    if (!things)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: this directory is empty", path);
    return kb_fail(err, KINETO_E_NOT_FOUND,
                   "%s: no trace in this directory: nothing of %llu things in it is a file that "
                   "ends in .json, .json.gz or .json.zst%s",
                   path, things, inner);
}

static kineto_status read_directory(kineto_files *files, const char *path, kineto_error *err)
{
    size_t before = files->list.count;
    uint64_t skipped = files->skipped, directories = files->directories;
    DIR *d = opendir(path);
    if (!d)
        return kb_fail_os(err, errno, "cannot look into %s", path);
    kineto_status status = KINETO_OK;
    errno = 0;
    for (struct dirent *entry; status == KINETO_OK && (entry = readdir(d)) != NULL; errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = look_at(files, path, entry->d_name, err);
    if (status == KINETO_OK && errno)
        status = kb_fail_os(err, errno, "cannot look into %s", path);
    closedir(d);
    if (status == KINETO_OK && files->list.count == before)
        status = nothing_in(files, path, skipped, directories, err);
    return status;
}

/* ---- the list -------------------------------------------------------------------------------- */

static int by_file(const void *left, const void *right)
{
    const file *a = left, *b = right;
    if (a->has_inode != b->has_inode)
        return a->has_inode ? -1 : 1;
    if (a->has_inode && a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->has_inode && a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    if (a->was_found != b->was_found) /* what was named counts as named */
        return a->was_found ? 1 : -1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_rank(const void *left, const void *right)
{
    const file *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int order = kt_compare_names(a->path, b->path);
    return order ? order : (a->number < b->number ? -1 : a->number > b->number);
}

/* The same file under one name or several is one file; pipes are told apart by nobody. */
static void drop_repeated(kineto_files *files)
{
    size_t kept = 0;
    file *list = files->list.data;
    if (!list)
        return;
    qsort(list, files->list.count, sizeof *list, by_file);
    for (size_t i = 0; i < files->list.count; i++) {
        const file *last = kept ? &list[kept - 1] : NULL;
        if (last && last->has_inode && list[i].has_inode && last->device == list[i].device &&
            last->inode == list[i].inode) {
            if (files->repeated++ == 0)
                files->first_repeated = list[i].path;
            else
                free(list[i].path);
            continue;
        }
        list[kept++] = list[i];
    }
    files->list.count = kept;
    qsort(list, kept, sizeof *list, by_rank);
}

kineto_status kineto_files_find(const char *const *paths, size_t count, kineto_files **out,
                                kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!paths || !count || !out)
        return kb_fail(err, KINETO_E_ARGUMENT, "paths are needed to find files");
    kineto_files *files = calloc(1, sizeof *files);
    kineto_status status = files ? KINETO_OK : no_memory(err);
    for (size_t i = 0; status == KINETO_OK && i < count; i++) {
        struct stat st;
        if (!paths[i]) {
            status = kb_fail(err, KINETO_E_ARGUMENT, "path %zu is NULL", i + 1);
            break;
        }
        bool there = strcmp(paths[i], "-") != 0 && stat(paths[i], &st) == 0;
        if (there && S_ISDIR(st.st_mode))
            status = read_directory(files, paths[i], err);
        else
            status = add(files, paths[i], there ? &st : NULL, false, err);
    }
    if (status != KINETO_OK) {
        kineto_files_release(files);
        return status;
    }
    drop_repeated(files);
    *out = files;
    return KINETO_OK;
}

void kineto_files_release(kineto_files *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < files->list.count; i++)
        free(files->list.data[i].path);
    kb_vec_free(&files->list);
    free(files->first_repeated);
    free(files);
}

uint32_t kineto_files_count(const kineto_files *files) { return (uint32_t)files->list.count; }

const char *kineto_files_path(const kineto_files *files, uint32_t index)
{
    return index < files->list.count ? files->list.data[index].path : NULL;
}

bool kineto_files_was_found(const kineto_files *files, uint32_t index)
{
    return index < files->list.count && files->list.data[index].was_found;
}

uint64_t kineto_files_skipped(const kineto_files *files) { return files->skipped; }

uint32_t kt_files_repeated(const kineto_files *files, const char **first)
{
    *first = files->first_repeated;
    return files->repeated;
}

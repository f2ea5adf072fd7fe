/* Finds trace files: paths as they are given, and the files that end in .json, .json.gz or
 * .json.zst of given directories (not of their subdirectories). A directory that is a recording of
 * another tool counts as a file. Implements kineto_files of
 * <ckineto/files.h>; the list is in the order of ranks, then of names. A file is identified by
 * device and inode, so that it is listed once however it is named. */
#include "trace/bytes/not_a_trace.h"
#include "trace/files/identity.h"
#include "trace/import/import.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

typedef struct file {
    char *path;
    int32_t rank; /* stated by the path; INT32_MAX: none, sorts last */
    /* was_found: in a directory, as opposed to named by the caller. has_inode: a regular file;
     * pipes and missing files are never merged. */
    bool was_found, has_inode;
    dev_t device;
    ino_t inode;
    size_t number; /* position in the order of discovery */
} file;

struct kineto_files {
    KB_VEC(file) list;
    /* Directory entries that were ignored; of them, directories. */
    uint64_t skipped, directories;
    uint32_t repeated;
    char *first_repeated;
};

static kineto_status fail_list_memory(kineto_error *err)
{
    return kb_fail_memory(err, "list of files");
}

/* ---- one file -------------------------------------------------------------------------------- */

/* The rank in the name of the file, or else in that of its nearest directory. */
static int32_t rank_of_path(const char *path)
{
    kt_name_facts facts;
    kt_name_facts_of(path, &facts);
    int32_t rank = facts.rank >= 0 ? facts.rank : facts.directory_rank;
    return rank >= 0 ? rank : INT32_MAX;
}

/* Appends a copy of `path`. `st` may be NULL; `found` as in was_found. */
static kineto_status append_file(kineto_files *files, const char *path, const struct stat *st,
                                 bool found, kineto_error *err)
{
    file f = {.path = strdup(path), .rank = rank_of_path(path), .was_found = found};
    if (st && S_ISREG(st->st_mode)) {
        f.has_inode = true;
        f.device = st->st_dev;
        f.inode = st->st_ino;
    }
    f.number = files->list.count;
    if (f.path && files->list.count < UINT32_MAX && kb_vec_push(&files->list, f))
        return KINETO_OK;
    free(f.path);
    return fail_list_memory(err);
}

/* ---- directories ----------------------------------------------------------------------------- */

bool kt_is_trace_name(const char *name)
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

/* Appends an entry if it has the name of a trace; otherwise counts it. A directory or a link that leads nowhere becomes a
 * file that cannot be read; pipes and devices are no traces. */
static kineto_status add_directory_entry(kineto_files *files, const char *directory,
                                         const char *name, kineto_error *err)
{
    struct stat st;
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path)
        return fail_list_memory(err);
    bool slash = directory[0] && directory[strlen(directory) - 1] == '/';
    snprintf(path, size, "%s%s%s", directory, slash ? "" : "/", name);
    kineto_status status = KINETO_OK;
    bool there = stat(path, &st) == 0;
    bool could_be_file = !there || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
    if (could_be_file && kt_is_trace_name(name)) {
        status = append_file(files, path, there ? &st : NULL, true, err);
    } else {
        files->skipped++;
        files->directories += there && S_ISDIR(st.st_mode);
    }
    free(path);
    return status;
}

/* What another tool's directory is, and how to convert it; NULL: unknown. */
static const char *find_directory_remedy(const char *path)
{
    const char *found = NULL;
    DIR *d = opendir(path);
    if (!d)
        return NULL;
    for (struct dirent *entry; !found && (entry = readdir(d)) != NULL;)
        found = kt_foreign_entry_problem(kb_string(entry->d_name));
    closedir(d);
    return found;
}

/* Reports a directory without traces. `skipped` and `directories` are the counters from before it
 * was read. */
static kineto_status fail_empty_directory(const kineto_files *files, const char *path,
                                          uint64_t skipped, uint64_t directories, kineto_error *err)
{
    char inner[96] = "";
    if (directories < files->directories)
        snprintf(inner, sizeof inner, "; its %llu subdirectories were not searched",
                 (unsigned long long)(files->directories - directories));
    unsigned long long entries = files->skipped - skipped;
    if (!entries)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: this directory is empty", path);
    const char *remedy = find_directory_remedy(path);
    if (remedy)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: no trace in this directory: it has %s", path,
                       remedy);
    return kb_fail(
        err, KINETO_E_NOT_FOUND,
        "%s: no trace in this directory: none of its %llu entries is a file that ends in "
        ".json, .json.gz or .json.zst%s",
        path, entries, inner);
}

/* Appends the traces of a directory; it is an error if there are none, unless it has the name of a trace itself: then
 * it is a file that cannot be read. */
static kineto_status add_directory(kineto_files *files, const char *path, const struct stat *st, kineto_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t before = files->list.count;
    uint64_t skipped = files->skipped, directories = files->directories;
    DIR *d = opendir(path);
    if (!d)
        return kb_fail_os(err, errno, "cannot read directory %s", path);
    kineto_status status = KINETO_OK;
    errno = 0;
    for (struct dirent *entry; status == KINETO_OK && (entry = readdir(d)) != NULL; errno = 0)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = add_directory_entry(files, path, entry->d_name, err);
    if (status == KINETO_OK && errno)
        status = kb_fail_os(err, errno, "cannot read directory %s", path);
    closedir(d);
    if (status == KINETO_OK && files->list.count == before && kt_is_trace_name(slash ? slash + 1 : path))
        return append_file(files, path, st, false, err);
    if (status == KINETO_OK && files->list.count == before)
        status = fail_empty_directory(files, path, skipped, directories, err);
    return status;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Equal files become neighbours; a file that was named precedes the same file found in a
 * directory. */
static int compare_files_by_inode(const void *left, const void *right)
{
    const file *a = left, *b = right;
    if (a->has_inode != b->has_inode)
        return a->has_inode ? -1 : 1;
    if (a->has_inode && a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->has_inode && a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    /* Named by the caller first: that one is kept. */
    if (a->was_found != b->was_found)
        return a->was_found ? 1 : -1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* By rank, then by name; "rank2" sorts before "rank10". */
static int compare_files_by_rank(const void *left, const void *right)
{
    const file *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    int order = kt_compare_names(a->path, b->path);
    return order ? order : (a->number < b->number ? -1 : a->number > b->number);
}

/* Keeps one entry of each file and restores the order of ranks. The first path that is dropped is
 * remembered for the message about it. */
static void drop_repeated_files(kineto_files *files)
{
    size_t kept = 0;
    file *list = files->list.data;
    if (!list)
        return;
    qsort(list, files->list.count, sizeof *list, compare_files_by_inode);
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
    KB_ASSERT(kept <= files->list.count);
    files->list.count = kept;
    qsort(list, kept, sizeof *list, compare_files_by_rank);
}

kineto_status kineto_files_find(const char *const *paths, size_t count, kineto_files **out,
                                kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!paths || !out)
        return kb_fail_null(err, __func__, "paths, out", paths, out);
    if (!count)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_files_find: count must not be 0");
    kineto_files *files = calloc(1, sizeof *files);
    kineto_status status = files ? KINETO_OK : fail_list_memory(err);
    for (size_t i = 0; status == KINETO_OK && i < count; i++) {
        struct stat st;
        if (!paths[i]) {
            status = kb_fail(err, KINETO_E_ARGUMENT, "kineto_files_find: path %zu must not be NULL",
                             i + 1);
            break;
        }
        bool there = strcmp(paths[i], "-") != 0 && stat(paths[i], &st) == 0;
        if (there && S_ISDIR(st.st_mode) && !kt_directory_importer_find(paths[i]))
            status = add_directory(files, paths[i], &st, err);
        else
            status = append_file(files, paths[i], there ? &st : NULL, false, err);
    }
    if (status != KINETO_OK) {
        kineto_files_destroy(files);
        return status;
    }
    drop_repeated_files(files);
    *out = files;
    return KINETO_OK;
}

void kineto_files_destroy(kineto_files *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < files->list.count; i++)
        free(files->list.data[i].path);
    kb_vec_free(&files->list);
    free(files->first_repeated);
    free(files);
}

uint32_t kineto_files_count(const kineto_files *files)
{
    return files ? (uint32_t)files->list.count : 0;
}

const char *kineto_files_path(const kineto_files *files, uint32_t index)
{
    return index < kineto_files_count(files) ? files->list.data[index].path : NULL;
}

bool kineto_files_was_found(const kineto_files *files, uint32_t index)
{
    return index < kineto_files_count(files) && files->list.data[index].was_found;
}

uint64_t kineto_files_skipped(const kineto_files *files) { return files ? files->skipped : 0; }

uint32_t kt_files_repeated(const kineto_files *files, const char **first)
{
    *first = files->first_repeated;
    return files->repeated;
}

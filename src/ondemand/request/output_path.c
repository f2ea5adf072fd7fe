/* The path of a requested trace: the pid is inserted into its name, and a path from another process
 * is confined to one directory (KINETO_ONDEMAND_TRACE_DIR), both by its text and by the file
 * system: no "..", no symbolic links, opened with openat2 or component by component. */
#include "ondemand/request/request.h"

#include <ckineto/export.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_openat2
#define SYS_openat2 437
#endif

typedef struct wish {
    const char *path;                   /* as requested, or a default */
    char shown[160];                    /* the same for messages */
    char folder[KO_REQUEST_PATH_BYTES]; /* that requests may write below: no slash at its end, ""
                                           is the root */
    kineto_error *err;
} wish;

KINETO_PRINTF(3, 4)
static kineto_status refuse_path(const wish *w, kineto_status code, const char *fmt, ...)
{
    char text[300];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return kb_fail(w->err, code, "'%s': %s", w->shown, text);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Bytes of a name before the extension of its format; all of them if it has none. */
static size_t name_stem_bytes(const char *name)
{
    static const char snapshot[] = ".pickle";
    size_t best = 0, size = strlen(name), plain = size;
    if (size > strlen(snapshot) && strcmp(name + size - strlen(snapshot), snapshot) == 0)
        return size - strlen(snapshot);
    kb_compression c = kb_compression_of(name);
    if (c != KB_COMPRESS_NONE)
        plain -= c == KB_COMPRESS_GZIP ? strlen(".gz") : strlen(".zst");
    kineto_export_format f = {.size = sizeof f};
    for (uint32_t i = 0; kineto_export_format_get(i, &f); i++)
        for (const char *const *ending = f.endings; *ending; ending++) {
            size_t n = strlen(*ending), end = f.compressible ? plain : size;
            if (end > n && memcmp(name + end - n, *ending, n) == 0)
                best = KB_MAX(best, n + size - end);
        }
    return size - best;
}

/* Where Kineto inserts the pid, so that tools that predict file names find them; but always before
 * the extension of a format, also of one that Kineto does not know. */
size_t ko_request_output_pid_place(const char *name)
{
    const char *at = strstr(name, ".pt.trace.json");
    if (at)
        return (size_t)(at - name);
    at = strstr(name, ".json");
    size_t stem = name_stem_bytes(name);
    return at ? KB_MIN((size_t)(at - name), stem) : stem;
}

/* Inserts "_PID" into the last component. */
static kineto_status insert_pid(const wish *w, uint32_t pid, char out[KO_REQUEST_PATH_BYTES])
{
    const char *slash = strrchr(w->path, '/'), *name = slash ? slash + 1 : w->path;
    if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return refuse_path(w, KINETO_E_ARGUMENT, "this is a directory, not a file");
    size_t before = (size_t)(name - w->path) + ko_request_output_pid_place(name);
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%.*s_%u%s", (int)before, w->path, pid,
                     w->path + before);
    if (n < 0 || n >= (int)KO_REQUEST_PATH_BYTES)
        return refuse_path(w, KINETO_E_ARGUMENT, "with the number of the process it is too long");
    if (strlen(strrchr(out, '/') ? strrchr(out, '/') + 1 : out) > NAME_MAX)
        return refuse_path(w, KINETO_E_ARGUMENT, "the file's name is longer than %d bytes",
                           NAME_MAX);
    return KINETO_OK;
}

/* ---- the text of the path -------------------------------------------------------------------- */

/* The next component, without slashes; advances *path past it. Empty at the end. */
static kineto_string next_path_part(const char **path)
{
    const char *begin = *path + strspn(*path, "/");
    size_t size = strcspn(begin, "/");
    *path = begin + size;
    return (kineto_string){begin, size};
}

static bool is_path_part(kineto_string part, const char *text)
{
    return kb_string_equal(part, kb_string(text));
}

/* The rest of the path below the allowed directory; NULL: it is not below it. */
static const char *strip_folder(const char *folder, const char *path)
{
    for (;;) {
        kineto_string want = next_path_part(&folder);
        if (want.size == 0)
            return path;
        if (!kb_string_equal(want, next_path_part(&path)))
            return NULL;
    }
}

/* KINETO_ONDEMAND_TRACE_DIR, else /tmp; trailing slashes are removed. */
static kineto_status read_allowed_folder(wish *w)
{
    const char *setting = kb_setting("KINETO_ONDEMAND_TRACE_DIR");
    const char *folder = setting ? setting : "/tmp";
    size_t size = strlen(folder);
    if (folder[0] != '/')
        return refuse_path(w, KINETO_E_ARGUMENT,
                           "KINETO_ONDEMAND_TRACE_DIR is not an absolute path");
    while (size > 0 && folder[size - 1] == '/')
        size--;
    if (size >= sizeof w->folder)
        return refuse_path(w, KINETO_E_ARGUMENT, "KINETO_ONDEMAND_TRACE_DIR is too long");
    memcpy(w->folder, folder, size);
    w->folder[size] = '\0';
    return KINETO_OK;
}

/* Splits a path relative to the allowed directory into `parent`, normalised ("." for the directory
 * itself), and `name`, its last component. `parent` never gets longer than the path. */
static kineto_status split_path(const wish *w, const char *path, char parent[KO_REQUEST_PATH_BYTES],
                                const char **name)
{
    size_t used = 0;
    *name = strrchr(path, '/') + 1;
    for (kineto_string part; (part = next_path_part(&path)).size > 0;) {
        if (is_path_part(part, ".."))
            return refuse_path(w, KINETO_E_PERMISSION,
                               "'..' is not allowed in a path of a request");
        if (part.data == *name || is_path_part(part, "."))
            continue;
        if (used > 0)
            parent[used++] = '/';
        KB_ASSERT(used + part.size < KO_REQUEST_PATH_BYTES);
        memcpy(parent + used, part.data, part.size);
        used += part.size;
    }
    if (used == 0)
        parent[used++] = '.';
    parent[used] = '\0';
    return KINETO_OK;
}

/* ---- checks in the file system --------------------------------------------------------------- */

/* Component by component, for kernels without openat2 and sandboxes that forbid it.
 * @return a descriptor (O_PATH), or -1 with errno; ELOOP for a symbolic link. */
static int open_path_stepwise(int at, const char *parent)
{
    int fd = openat(at, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (kineto_string part; fd >= 0 && (part = next_path_part(&parent)).size > 0;) {
        char name[NAME_MAX + 1];
        int next = -1, os_error = ENAMETOOLONG;
        if (part.size < sizeof name) {
            memcpy(name, part.data, part.size);
            name[part.size] = '\0';
            next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            os_error = errno;
        }
        struct stat st; /* with O_DIRECTORY a link gives ENOTDIR, too: distinguish it */
        if (next < 0 && os_error == ENOTDIR && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode))
            os_error = ELOOP;
        close(fd);
        fd = next;
        errno = os_error;
    }
    return fd;
}

/* openat2 resolves everything in the kernel; older kernels and sandboxes get the stepwise
 * version. */
static int open_directory_beneath(int at, const char *parent)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, at, parent, &how, sizeof how);
    if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EINVAL || errno == EAGAIN))
        return open_path_stepwise(at, parent);
    return fd;
}

/* One message per reason why a directory cannot be opened. */
static kineto_status refuse_parent_directory(const wish *w, int os_error)
{
    switch (os_error) {
    case ELOOP:
    case EXDEV:
        return refuse_path(w, KINETO_E_PERMISSION, "a directory of the path is a symbolic link");
    case ENOENT:
    case ENOTDIR:
        return refuse_path(w, KINETO_E_ARGUMENT, "its directory does not exist: make it first");
    case ENAMETOOLONG:
        return refuse_path(w, KINETO_E_ARGUMENT, "a part of it is longer than %d bytes", NAME_MAX);
    case EACCES:
        return refuse_path(w, KINETO_E_PERMISSION, "this process may not enter its directory");
    default:
        return kb_fail_os(w->err, os_error, "cannot open the directory of '%s'", w->shown);
    }
}

/* The target may be missing, or a regular file of this user, which will be replaced. */
static kineto_status check_target(const wish *w, int parent, const char *name)
{
    struct stat st;
    if (faccessat(parent, ".", W_OK | X_OK, 0) != 0)
        return refuse_path(w, KINETO_E_PERMISSION, "this process may not write into its directory");
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? KINETO_OK
                               : kb_fail_os(w->err, errno, "cannot examine '%s'", w->shown);
    if (S_ISDIR(st.st_mode))
        return refuse_path(w, KINETO_E_ARGUMENT, "this is a directory, not a file");
    if (S_ISLNK(st.st_mode))
        return refuse_path(w, KINETO_E_PERMISSION, "the file is a symbolic link");
    if (!S_ISREG(st.st_mode))
        return refuse_path(w, KINETO_E_PERMISSION, "not a regular file");
    if (st.st_uid != geteuid())
        return refuse_path(w, KINETO_E_PERMISSION, "the file belongs to another user");
    return KINETO_OK;
}

/* Opens the directory of the file and checks the target. @param out  receives the descriptor. */
static kineto_status open_target_directory(const wish *w, const char *parent, const char *name,
                                           int *out)
{
    /* The user of this process chose this directory: symbolic links in its own path are allowed. */
    int at = open(w->folder[0] ? w->folder : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (at < 0)
        return kb_fail_os(w->err, errno, "cannot open '%s', where requests may write",
                          w->folder[0] ? w->folder : "/");
    int fd = open_directory_beneath(at, parent);
    int os_error = errno;
    close(at);
    if (fd < 0)
        return refuse_parent_directory(w, os_error);
    kineto_status status = check_target(w, fd, name);
    KB_ASSERT(fd >= 0);
    if (status == KINETO_OK)
        *out = fd;
    else
        close(fd);
    return status;
}

/* Splits an absolute path from a request; refuses paths outside the allowed directory. */
static kineto_status split_request_path(const wish *w, const char *path,
                                        char parent[KO_REQUEST_PATH_BYTES], const char **name)
{
    if (path[0] != '/')
        return refuse_path(
            w, KINETO_E_PERMISSION,
            "a request needs an absolute path, beneath '%s' (KINETO_ONDEMAND_TRACE_DIR)",
            w->folder);
    const char *rest = strip_folder(w->folder, path);
    if (!rest)
        return refuse_path(w, KINETO_E_PERMISSION,
                           "requests may write only beneath '%s' (KINETO_ONDEMAND_TRACE_DIR)",
                           w->folder);
    const char *slash = strrchr(rest, '/');
    if (!slash || slash[1] == '\0' || strcmp(slash, "/.") == 0)
        return refuse_path(w, KINETO_E_ARGUMENT, "this is a directory, not a file");
    return split_path(w, rest, parent, name);
}

/* `out` holds the path with its pid; on success it is normalised. */
static kineto_status check_request_path(const wish *w, char out[KO_REQUEST_PATH_BYTES])
{
    char parent[KO_REQUEST_PATH_BYTES], path[KO_REQUEST_PATH_BYTES];
    const char *name;
    int fd;
    snprintf(path, sizeof path, "%s", out);
    kineto_status status = split_request_path(w, path, parent, &name);
    if (status == KINETO_OK)
        status = open_target_directory(w, parent, name, &fd);
    if (status != KINETO_OK)
        return status;
    close(fd);
    bool inside = strcmp(parent, ".") != 0;
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%s/%s%s%s", w->folder, inside ? parent : "",
                     inside ? "/" : "", name);
    return n > 0 && n < (int)KO_REQUEST_PATH_BYTES
               ? KINETO_OK
               : refuse_path(w, KINETO_E_ARGUMENT, "the path is too long");
}

/* Kineto's default names, made unique by the pid. */
static kineto_status make_default_path(wish *w, bool snapshot, uint32_t pid,
                                       char out[KO_REQUEST_PATH_BYTES])
{
    int n = snprintf(out, KO_REQUEST_PATH_BYTES, "%s/%s_%u.%s", w->folder,
                     snapshot ? "memory_snapshot" : "libkineto_activities", pid,
                     snapshot ? "pickle" : "json");
    ko_request_show(kb_string(out), w->shown, sizeof w->shown);
    return n > 0 && n < (int)KO_REQUEST_PATH_BYTES
               ? KINETO_OK
               : refuse_path(w, KINETO_E_ARGUMENT, "KINETO_ONDEMAND_TRACE_DIR is too long");
}

kineto_status ko_request_output_path(const ko_request *r, ko_request_source source, uint32_t pid,
                                     char out[KO_REQUEST_PATH_BYTES], kineto_error *err)
{
    char made[KO_REQUEST_PATH_BYTES];
    wish w = {.path = r->log_file, .err = err};
    ko_request_show(kb_string(r->log_file), w.shown, sizeof w.shown);
    kineto_status status = KINETO_OK;
    if (source == KO_FROM_REQUEST || !r->log_file[0])
        status = read_allowed_folder(&w);
    if (status == KINETO_OK)
        status = r->log_file[0] ? insert_pid(&w, pid, made)
                                : make_default_path(&w, r->memory_snapshot, pid, made);
    if (status == KINETO_OK && source == KO_FROM_REQUEST)
        status = check_request_path(&w, made);
    if (status == KINETO_OK)
        snprintf(out, KO_REQUEST_PATH_BYTES, "%s", made);
    return status;
}

kineto_status ko_request_output_directory(const char *path, int *directory, const char **name,
                                          kineto_error *err)
{
    char parent[KO_REQUEST_PATH_BYTES];
    wish w = {.path = path, .err = err};
    *directory = -1;
    ko_request_show(kb_string(path), w.shown, sizeof w.shown);
    if (strlen(path) >= KO_REQUEST_PATH_BYTES)
        return refuse_path(&w, KINETO_E_ARGUMENT, "the path is too long");
    kineto_status status = read_allowed_folder(&w);
    if (status == KINETO_OK)
        status = split_request_path(&w, path, parent, name);
    if (status == KINETO_OK)
        status = open_target_directory(&w, parent, *name, directory);
    return status;
}

kineto_status ko_request_output_url(const char *url, uint32_t pid, char out[KO_REQUEST_PATH_BYTES],
                                    kineto_error *err)
{
    wish w = {.path = url, .err = err};
    const char *slash = strrchr(url, '/'), *name = slash ? slash + 1 : url;
    ko_request_show(kb_string(url), w.shown, sizeof w.shown);
    if (name[ko_request_output_pid_place(name)] != '\0')
        return insert_pid(&w, pid, out);
    if (strlen(url) >= KO_REQUEST_PATH_BYTES)
        return refuse_path(&w, KINETO_E_ARGUMENT, "it is too long");
    memcpy(out, url, strlen(url) + 1);
    return KINETO_OK;
}

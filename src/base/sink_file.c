/* File targets. A regular file appears whole or not at all: it is written under a temporary name in
 * the same directory, synced and renamed. A pipe or device is written directly, "-" is stdout.
 *
 * A symbolic link as the last part of the path is followed, by hand and before anything is written:
 * the file it points at is replaced, the link stays. The permissions of a replaced file stay, too.
 * Links and pipes that other users put into a world-writable directory, such as /tmp, are refused,
 * and files of other users do not widen permissions. Relative to a directory that is held open, no
 * link is followed. */
#include "base/sink_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct kb_atomic_file {
    int fd;
    bool close_fd;
    int directory;   /* where `final` and `temporary` begin; AT_FDCWD: they are paths */
    char *name;      /* as the caller gave it: for messages */
    char *final;     /* NULL: written directly */
    char *temporary; /* NULL: none, or renamed already */
    bool skips_sync; /* after a crash of the machine it may be empty */
} file;

static void drop_file(void *target)
{
    file *f = target;
    if (f->close_fd)
        close(f->fd);
    if (f->temporary)
        unlinkat(f->directory, f->temporary, 0);
    if (f->directory != AT_FDCWD)
        close(f->directory);
    free(f->temporary);
    free(f->final);
    free(f->name);
    free(f);
}

/* Wait for a descriptor that was made non-blocking, for example a terminal shared with a shell. */
static void wait_writable(int fd)
{
    struct pollfd p = {fd, POLLOUT, 0};
    (void)poll(&p, 1, -1);
}

static kineto_status put_to_file(void *target, const char *data, size_t bytes, kineto_error *err)
{
    file *f = target;
    while (bytes > 0) {
        ssize_t n = kb_os_write_quiet(f->fd, data, bytes);
        if (n < 0 && errno == EAGAIN)
            wait_writable(f->fd);
        else if (n < 0 && errno != EINTR)
            return f->fd == STDOUT_FILENO && !f->close_fd
                       ? kb_fail_os(err, errno, "cannot write to the standard output")
                       : kb_fail_os(err, errno, "cannot write '%s'", f->name);
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return KINETO_OK;
}

/* ---- finishing --------------------------------------------------------------------------------
 */

/* Directory part of a path, "." if it has none. The caller frees. */
static char *dup_directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* After the rename the file exists; an error in syncing its directory is ignored. */
static void sync_directory(const file *f)
{
    char *directory = dup_directory_of(f->final);
    int fd = directory ? openat(f->directory, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(directory);
    if (fd < 0)
        return;
    (void)fsync(fd);
    close(fd);
}

static bool is_sync_unsupported(int os_error)
{
    return os_error == EINVAL || os_error == ENOSYS || os_error == EOPNOTSUPP;
}

static kineto_status close_file_fd(file *f, kineto_error *err)
{
    if (!f->close_fd)
        return KINETO_OK;
    f->close_fd = false;
    if (close(f->fd) != 0 && errno != EINTR)
        return kb_fail_os(err, errno, "cannot finish '%s'", f->name);
    return KINETO_OK;
}

static kineto_status finish_file(void *target, kineto_error *err)
{
    file *f = target;
    if (f->final && !f->skips_sync && fsync(f->fd) != 0 && !is_sync_unsupported(errno))
        return kb_fail_os(err, errno, "cannot sync '%s' to disk", f->name);
    kineto_status status = close_file_fd(f, err);
    if (status != KINETO_OK || !f->final)
        return status;
    if (renameat(f->directory, f->temporary, f->directory, f->final) != 0)
        return kb_fail_os(err, errno, "cannot rename the finished file to '%s'", f->name);
    free(f->temporary);
    f->temporary = NULL;
    if (!f->skips_sync)
        sync_directory(f);
    return KINETO_OK;
}

static const kb_target_ops file_ops = {put_to_file, finish_file, drop_file};

/* ---- opening ----------------------------------------------------------------------------------
 */

/* Did another user put it into a world-writable sticky directory? The same rule as the kernel's for
 * links that it follows itself (fs.protected_symlinks), which follow_links would bypass. */
static bool is_planted(const char *path)
{
    struct stat it, around;
    char *directory = dup_directory_of(path);
    bool known = directory && lstat(path, &it) == 0 && stat(directory, &around) == 0;
    free(directory);
    return known && (around.st_mode & S_ISVTX) && (around.st_mode & S_IWOTH) &&
           it.st_uid != geteuid() && it.st_uid != around.st_uid;
}

/* The path that a chain of symbolic links ends in, also if nothing is there yet. NULL with errno.
 */
static char *follow_links(const char *path)
{
    enum { MAX_LINKS = 40 };
    char *at = strdup(path);
    for (int i = 0; at && i < MAX_LINKS; i++) {
        char text[PATH_MAX];
        ssize_t n = readlink(at, text, sizeof(text) - 1);
        if (n < 0)
            return at; /* not a link, or nothing there: opening it reports that */
        if (is_planted(at)) {
            free(at);
            errno = EACCES;
            return NULL;
        }
        text[n] = '\0';
        char *next = NULL, *slash = strrchr(at, '/');
        if (text[0] == '/' || !slash)
            next = strdup(text);
        else if (asprintf(&next, "%.*s/%s", (int)(slash - at), at, text) < 0)
            next = NULL;
        free(at);
        at = next;
    }
    if (at)
        errno = ELOOP;
    free(at);
    return NULL;
}

/* ".<name>.<pid>.<random>.tmp" in the directory of the final name. */
static char *temporary_name(const char *final)
{
    enum { KEPT_NAME_BYTES = 180 }; /* the rest must fit into NAME_MAX with it */
    const char *slash = strrchr(final, '/'), *base = slash ? slash + 1 : final;
    char *name = NULL;
    int n = asprintf(&name, "%.*s.%.*s.%u.%016llx.tmp", (int)(base - final), final, KEPT_NAME_BYTES,
                     base, kb_os_pid(), (unsigned long long)kb_os_random());
    return n < 0 ? NULL : name;
}

/* Occupy those of the first three descriptors that are free, with descriptors that cannot be
 * written: output that a program prints to a standard stream that it has closed must never get into
 * the file.
 * @return how many. */
static int hold_standard(int held[STDERR_FILENO + 1])
{
    int count = 0, fd;
    while (count <= STDERR_FILENO && (fd = open("/", O_PATH | O_CLOEXEC)) >= 0) {
        if (fd > STDERR_FILENO) {
            close(fd);
            break;
        }
        held[count++] = fd;
    }
    return count;
}

static int create_temporary(const file *f, mode_t mode)
{
    int held[STDERR_FILENO + 1], count = hold_standard(held);
    int fd = openat(f->directory, f->temporary,
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    int why = errno;
    while (count > 0)
        close(held[--count]);
    errno = why;
    return fd;
}

static kineto_status open_temporary(file *f, mode_t mode, kineto_error *err)
{
    enum { TRIES = 100 };
    for (int i = 0; i < TRIES; i++) {
        f->temporary = temporary_name(f->final);
        if (!f->temporary)
            return kb_fail_memory(err, f->name);
        f->fd = create_temporary(f, mode);
        if (f->fd >= 0) {
            f->close_fd = true;
            return KINETO_OK;
        }
        int os_error = errno;
        free(f->temporary); /* not ours: must not be unlinked */
        f->temporary = NULL;
        if (os_error != EEXIST && os_error != EINTR)
            return kb_fail_os(err, os_error, "cannot create a file in the directory of '%s'",
                              f->name);
    }
    return kb_fail(err, KINETO_E_BUSY, "no free temporary name next to '%s'", f->name);
}

/* Give the new file the permissions of the one that it replaces. If that belongs to another user,
 * they are restricted to those of a new file. */
static void keep_permissions(const file *f, const struct stat *old)
{
    struct stat fresh;
    mode_t mode = old->st_mode & 0777;
    if (old->st_uid != geteuid())
        mode = fstat(f->fd, &fresh) == 0 ? (mode | 0600) & fresh.st_mode : 0600;
    (void)fchmod(f->fd, mode); /* file systems without permissions refuse */
}

/* Open a temporary file that will replace f->name; `old` is the existing file, or NULL. */
static kineto_status open_with_temporary(file *f, const struct stat *old, kineto_error *err)
{
    f->final = follow_links(f->name);
    if (!f->final)
        return kb_fail_os(err, errno, "cannot follow the link '%s'", f->name);
    if (old && access(f->final, W_OK) != 0)
        return kb_fail_os(err, errno, "cannot replace '%s'", f->name);
    kineto_status status = open_temporary(f, 0666, err);
    if (status == KINETO_OK && old)
        keep_permissions(f, old);
    return status;
}

static kineto_status open_directly(file *f, kineto_error *err)
{
    if (is_planted(f->name))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "'%s' belongs to another user, in a world-writable directory: not written",
                       f->name);
    f->fd = kb_os_clear_of_standard(open(f->name, O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (f->fd < 0)
        return kb_fail_os(err, errno, "cannot open '%s'", f->name);
    f->close_fd = true;
    return KINETO_OK;
}

static kineto_status open_output(file *f, kineto_error *err)
{
    struct stat st;
    if (strcmp(f->name, "-") == 0 || strcmp(f->name, "/dev/stdout") == 0) {
        f->fd = STDOUT_FILENO;
        return KINETO_OK;
    }
    if (f->name[0] == '\0')
        return kb_fail(err, KINETO_E_ARGUMENT, "the name of the output file is empty");
    if (stat(f->name, &st) != 0) {
        size_t n = strlen(f->name);
        if (errno == ENOENT && f->name[n - 1] == '/')
            return kb_fail(err, KINETO_E_ARGUMENT, "'%s' names a directory: give a file name",
                           f->name);
        return errno == ENOENT ? open_with_temporary(f, NULL, err)
                               : kb_fail_os(err, errno, "cannot open '%s'", f->name);
    }
    if (S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is a directory: give a file name", f->name);
    if (S_ISREG(st.st_mode))
        return open_with_temporary(f, &st, err);
    if (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))
        return open_directly(f, err);
    return kb_fail(err, KINETO_E_UNSUPPORTED, "'%s' is not a file, pipe or character device",
                   f->name);
}

static kineto_status create_file_target(const char *name, file **out, kineto_error *err)
{
    if (!name)
        return kb_fail(err, KINETO_E_ARGUMENT, "output path must not be NULL");
    file *f = calloc(1, sizeof(*f));
    if (!f || !(f->name = strdup(name))) {
        free(f);
        return kb_fail_memory(err, name);
    }
    f->directory = AT_FDCWD;
    *out = f;
    return KINETO_OK;
}

static kineto_status make_file_sink(file *f, kineto_status opened, kb_compression c, kb_sink **out,
                                    kineto_error *err)
{
    if (opened == KINETO_OK)
        return kb_sink_over(&file_ops, f, c, out, err);
    drop_file(f);
    return opened;
}

kineto_status kb_sink_open_file(const char *path, kb_compression c, kb_sink **out,
                                kineto_error *err)
{
    file *f;
    *out = NULL;
    kineto_status status = create_file_target(path, &f, err);
    return status ? status : make_file_sink(f, open_output(f, err), c, out, err);
}

kineto_status kb_sink_open_remakeable_file(const char *path, kb_sink **out, kineto_error *err)
{
    file *f;
    *out = NULL;
    kineto_status status = create_file_target(path, &f, err);
    if (status)
        return status;
    f->skips_sync = true;
    return make_file_sink(f, open_output(f, err), KB_COMPRESS_NONE, out, err);
}

/* Keeps a copy of the directory's descriptor, because the caller may close its own. */
static kineto_status open_in_directory(file *f, int directory, const char *name, mode_t mode,
                                       kineto_error *err)
{
    int copy = fcntl(directory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0)
        return kb_fail_os(err, errno, "cannot keep the directory of '%s'", f->name);
    f->directory = copy;
    if (!(f->final = strdup(name)))
        return kb_fail_memory(err, f->name);
    return open_temporary(f, mode, err);
}

kineto_status kb_sink_open_file_at(int directory, const char *name, const char *shown, mode_t mode,
                                   kb_compression c, kb_sink **out, kineto_error *err)
{
    file *f;
    *out = NULL;
    if (!name || !name[0] || strchr(name, '/'))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is not a file name", name ? name : "");
    kineto_status status = create_file_target(shown, &f, err);
    return status
               ? status
               : make_file_sink(f, open_in_directory(f, directory, name, mode, err), c, out, err);
}

/* ---- for callers that write the temporary file themselves, such as SQLite ---------------------
 */

kineto_status kb_atomic_file_open(const char *path, kb_atomic_file **out, kineto_error *err)
{
    struct stat st;
    *out = NULL;
    if (!path)
        return kb_fail(err, KINETO_E_ARGUMENT, "output path must not be NULL");
    if (strcmp(path, "-") == 0 ||
        (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return kb_fail(err, KINETO_E_UNSUPPORTED, "'%s' is not a regular file", path);
    file *f;
    kineto_status status = create_file_target(path, &f, err);
    if (status != KINETO_OK)
        return status;
    status = open_output(f, err);
    if (status == KINETO_OK && !f->temporary)
        status = kb_fail(err, KINETO_E_UNSUPPORTED, "'%s' is not a regular file", path);
    if (status == KINETO_OK)
        *out = f;
    else
        drop_file(f);
    return status;
}

const char *kb_atomic_file_path(const kb_atomic_file *beside) { return beside->temporary; }

kineto_status kb_atomic_file_commit(kb_atomic_file *beside, kineto_error *err)
{
    kineto_status status = finish_file(beside, err);
    drop_file(beside);
    return status;
}

void kb_atomic_file_abort(kb_atomic_file *beside) { drop_file(beside); }

/* Staging files, for writers that need a path (databases, the program's exporters): in a new
 * directory that only this user can enter, so that no other user can replace the file with a link.
 */
#include "ondemand/output/output_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* An empty file, so that writers that require an existing file work, too. */
static kineto_status create_staged_file(ko_staging_file *f, const char *name, kineto_error *err)
{
    size_t room = sizeof f->path - f->directory_bytes;
    int n = snprintf(f->path + f->directory_bytes, room, "/%s", name);
    if (n < 0 || (size_t)n >= room)
        return kb_fail(err, KINETO_E_ARGUMENT, "the path '%s…' is too long", f->path);
    int fd = kb_os_create(AT_FDCWD, f->path, O_WRONLY, 0600);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot create '%s'", f->path);
    close(fd);
    return KINETO_OK;
}

kineto_status ko_staging_file_create(ko_staging_file *f, const char *name, kineto_error *err)
{
    const char *setting = kb_setting("TMPDIR"), *folder = setting ? setting : "/tmp";
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    f->directory_bytes = 0;
    int n = snprintf(f->path, sizeof f->path, "%s/ckineto-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof f->path)
        return kb_fail(err, KINETO_E_ARGUMENT, "TMPDIR is too long");
    if (kb_os_make_own_temporary(f->path) != 0)
        return kb_fail_os(err, errno, "cannot make a directory in '%s'", folder);
    f->directory_bytes = (uint32_t)n;
    kineto_status status = create_staged_file(f, last[0] ? last : "trace", err);
    if (status != KINETO_OK)
        ko_staging_file_remove(f);
    return status;
}

/* Up to the end of the file, or the first error of the sink. */
static kineto_status copy_to_sink(int fd, const ko_staging_file *f, kb_sink *sink,
                                  kineto_error *err)
{
    for (;;) {
        char *room = kb_sink_reserve(sink, KB_SINK_RESERVE_BYTES);
        ssize_t n = read(fd, room, KB_SINK_RESERVE_BYTES);
        if (n == 0 || kb_sink_failed(sink))
            return KINETO_OK; /* closing the sink reports the error */
        if (n < 0 && errno != EINTR)
            return kb_fail_os(err, errno, "cannot read '%s'", f->path);
        if (n > 0)
            kb_sink_advance(sink, (size_t)n);
    }
}

kineto_status ko_staging_file_deliver(const ko_staging_file *f, ko_request_source source,
                                      const char *path, uint64_t *bytes, kineto_error *err)
{
    kb_sink *sink;
    uint64_t written = 0;
    int fd = open(f->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot read '%s'", f->path);
    kineto_status status = ko_output_sink(source, path, KB_COMPRESS_NONE, &sink, err);
    if (status != KINETO_OK) {
        close(fd);
        return status;
    }
    status = copy_to_sink(fd, f, sink, err);
    close(fd);
    if (status == KINETO_OK)
        status = kb_sink_close_counted(sink, &written, err);
    else
        kb_sink_abort(sink);
    if (bytes)
        *bytes = status == KINETO_OK ? written : 0;
    return status;
}

/* Also removes files that a writer left next to its file. */
static void remove_directory_entries(const char *directory)
{
    DIR *all = opendir(directory);
    if (!all)
        return;
    for (struct dirent *entry; (entry = readdir(all));)
        (void)unlinkat(dirfd(all), entry->d_name, 0);
    closedir(all);
}

void ko_staging_file_remove(ko_staging_file *f)
{
    if (f->directory_bytes == 0)
        return;
    KB_ASSERT(f->directory_bytes < sizeof f->path);
    f->path[f->directory_bytes] = '\0';
    remove_directory_entries(f->path);
    (void)rmdir(f->path);
    f->directory_bytes = 0;
}

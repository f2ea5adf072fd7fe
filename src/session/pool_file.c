/* Pool files of recorders: directories, names ("ckineto-UID-PID-RANDOM.pool") and creation.
 * `ckineto recover` finds the files of dead recorders by the same rules. */
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define NAME_PREFIX "ckineto-"
#define NAME_SUFFIX ".pool"

/* File systems in memory come first: a mapped disk file that is written constantly would be flushed
 * constantly. */
bool ks_pool_directory(uint32_t n, char *buf, size_t size)
{
    const char *found[4];
    const char *wanted[] = {"/dev/shm", kb_os_getenv("XDG_RUNTIME_DIR"), kb_os_getenv("TMPDIR"),
                            "/tmp"};
    uint32_t count = 0;
    for (size_t i = 0; i < KB_COUNT(wanted); i++) {
        bool known = !wanted[i] || wanted[i][0] != '/' || strlen(wanted[i]) >= size;
        for (uint32_t k = 0; k < count && !known; k++)
            known = strcmp(found[k], wanted[i]) == 0;
        if (!known)
            found[count++] = wanted[i];
    }
    if (n >= count)
        return false;
    snprintf(buf, size, "%s", found[n]);
    return true;
}

bool ks_pool_file_name(const char *name)
{
    char prefix[32];
    int n = snprintf(prefix, sizeof prefix, NAME_PREFIX "%u-", (unsigned)geteuid());
    size_t size = strlen(name), suffix = strlen(NAME_SUFFIX);
    return n > 0 && strncmp(name, prefix, (size_t)n) == 0 && size > (size_t)n + suffix &&
           strcmp(name + size - suffix, NAME_SUFFIX) == 0;
}

static kineto_status create_pool_in(const char *directory, size_t bytes, char path[KS_PATH_BYTES],
                                    void **map, kineto_error *err)
{
    uint64_t random = kb_os_random();
    int n = snprintf(path, KS_PATH_BYTES, "%s/" NAME_PREFIX "%u-%u-%08x" NAME_SUFFIX, directory,
                     (unsigned)geteuid(), kb_os_pid(), (unsigned)(random & 0xffffffffu));
    if (n < 0 || (size_t)n >= KS_PATH_BYTES)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s': the path is too long", directory);
    kineto_error why = {0};
    *map = kb_os_map_create(path, bytes, &why);
    if (*map)
        return KINETO_OK;
    if (err)
        *err = why;
    return why.code ? why.code : KINETO_E_IO;
}

kineto_status ks_pool_file_create(size_t buffer_bytes, size_t dictionary_bytes,
                                  char path[KS_PATH_BYTES], kf_pool *pool, kineto_error *err)
{
    char directory[KS_PATH_BYTES / 2];
    size_t bytes = kf_pool_size(buffer_bytes, dictionary_bytes);
    void *map = NULL;
    kineto_status status = KINETO_E_IO;
    kineto_error first = {0}, why = {0};
    for (uint32_t i = 0; ks_pool_directory(i, directory, sizeof directory) && status; i++) {
        status = create_pool_in(directory, bytes, path, &map, &why);
        if (status && !first.code)
            first = why;
        if (status)
            kb_log(KINETO_LOG_INFO, "no room for the buffer in %s: %s", directory, why.message);
    }
    if (status)
        return kb_fail(err, first.code ? first.code : status,
                       "no place for the recording buffer of %zu MiB: %s", bytes >> 20,
                       first.message);
    kf_pool_format(map, buffer_bytes, dictionary_bytes);
    status = kf_pool_open(map, bytes, pool, err);
    if (status) {
        kb_os_unmap(map, bytes);
        unlink(path);
    }
    return status;
}

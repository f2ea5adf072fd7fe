/* The configuration file (KINETO_CONFIG, else /etc/libkineto.conf): parsed again when it changed,
 * which is decided by its stat data, and by a hash of its text if those may not show a change. */
#include "ondemand/request/request.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PATH "/etc/libkineto.conf"
#define YOUNG_NS     INT64_C(2000000000) /* some file systems have time stamps in whole seconds */

void ko_config_file_init(ko_config_file *f)
{
    const char *path = kb_setting("KINETO_CONFIG");
    memset(f, 0, sizeof *f);
    f->changed_ns = -1;
    if (!path)
        path = DEFAULT_PATH;
    size_t size = strlen(path);
    if (size < sizeof f->path) /* else it stays empty, and ko_config_file_load fails */
        memcpy(f->path, path, size);
}

/* The identity of a file's contents, from its stat data. */
static ko_config_file identify_config_file(const ko_config_file *f, const struct stat *st)
{
    ko_config_file identity = *f;
    identity.changed_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    identity.size = (uint64_t)st->st_size;
    identity.inode = (uint64_t)st->st_ino;
    int64_t now_ns = (int64_t)kb_clock_ns(CLOCK_REALTIME);
    identity.young = identity.changed_ns > now_ns - YOUNG_NS;
    return identity;
}

static bool is_same_config_file(const ko_config_file *a, const ko_config_file *b)
{
    return a->changed_ns == b->changed_ns && a->size == b->size && a->inode == b->inode;
}

/* Reads the whole file. `text` has room for one byte more than allowed, to detect longer files. */
static kineto_status read_config_file(const ko_config_file *f, int fd, char *text, size_t *size,
                                      kineto_error *err)
{
    *size = 0;
    while (*size <= KO_REQUEST_TEXT_BYTES) {
        ssize_t n = read(fd, text + *size, KO_REQUEST_TEXT_BYTES + 1 - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kb_fail_os(err, errno, "cannot read '%s'", f->path);
        if (n == 0)
            return KINETO_OK;
        *size += (size_t)n;
    }
    return kb_fail(err, KINETO_E_LIMIT, "'%s' has more than %u bytes", f->path,
                   KO_REQUEST_TEXT_BYTES);
}

static kineto_status parse_config_text(const ko_config_file *f, kineto_string text, ko_request *r,
                                       kineto_error *err)
{
    kb_text unknown;
    uint32_t count;
    kineto_error why;
    ko_request_init(r);
    kineto_status status = ko_request_parse(r, text, KO_FROM_FILE, &unknown, &count, &why);
    if (status != KINETO_OK) {
        kb_fail(err, status, "'%s', %s", f->path, why.message);
        if (err)
            err->offset = why.offset;
    } else if (count > 0)
        kb_log(KINETO_LOG_WARNING, "'%s': %u unknown keys, the first is %s", f->path, count,
               unknown.s);
    return status;
}

/* A changed and valid text replaces *r. An invalid one is remembered as well, so that it is
 * reported only once. */
static kineto_status accept_config_text(ko_config_file *f, const ko_config_file *identity,
                                        kineto_string text, ko_request *r, bool *changed,
                                        kineto_error *err)
{
    uint64_t hash = kb_hash(text.data, text.size);
    bool same = f->changed_ns != -1 && f->text_hash == hash;
    *f = *identity;
    f->text_hash = hash;
    if (same)
        return KINETO_OK;
    ko_request next;
    kineto_status status = parse_config_text(f, text, &next, err);
    if (status == KINETO_OK) {
        *r = next;
        *changed = true;
    }
    return status;
}

static kineto_status load_config_fd(ko_config_file *f, int fd, ko_request *r, bool *changed,
                                    kineto_error *err)
{
    struct stat st;
    size_t size;
    if (fstat(fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot examine '%s'", f->path);
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is not a regular file", f->path);
    ko_config_file identity = identify_config_file(f, &st);
    if (f->changed_ns != -1 && !f->young && is_same_config_file(f, &identity))
        return KINETO_OK;
    char *text = malloc(KO_REQUEST_TEXT_BYTES + 1);
    if (!text)
        return kb_fail(err, KINETO_E_MEMORY, "read '%s': out of memory", f->path);
    kineto_status status = read_config_file(f, fd, text, &size, err);
    if (status == KINETO_OK)
        status = accept_config_text(f, &identity, (kineto_string){text, size}, r, changed, err);
    free(text);
    return status;
}

kineto_status ko_config_file_load(ko_config_file *f, ko_request *r, bool *changed,
                                  kineto_error *err)
{
    *changed = false;
    if (f->path[0] == '\0')
        return kb_fail(err, KINETO_E_ARGUMENT, "the path in KINETO_CONFIG is longer than %u bytes",
                       KO_REQUEST_PATH_BYTES - 1);
    /* O_NONBLOCK: opening a FIFO in its place must not block. */
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0) {
        kineto_status status = load_config_fd(f, fd, r, changed, err);
        close(fd);
        return status;
    }
    if (errno != ENOENT && errno != ENOTDIR)
        return kb_fail_os(err, errno, "cannot open '%s'", f->path);
    if (f->changed_ns != -1) {
        f->changed_ns = -1;
        ko_request_init(r);
        *changed = true;
    }
    return KINETO_OK;
}

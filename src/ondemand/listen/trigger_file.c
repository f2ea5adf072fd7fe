/* A trigger file requests a trace when it is written, touched or moved into place; its contents are
 * the request. Its directory is watched by inotify, not the file itself, which may not exist; also
 * the directories above, but only for being moved, removed or created. Nothing is polled. */
#include "ondemand/listen/listeners.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_LEVELS 64u
#define SETTLE_NS  UINT64_C(10000000) /* writing a file causes several events: wait for the last */
#define MAX_SETTLE_NS UINT64_C(100000000) /* … but no longer than this */
#define RETRY_NS      UINT64_C(10000000000)
#define COMPLAIN_NS   UINT64_C(10000000000)
#define READS_AT_ONCE 16u

#define ABOVE_EVENTS   (IN_DELETE_SELF | IN_MOVE_SELF)
#define MISSING_EVENTS (IN_CREATE | IN_MOVED_TO) /* creation of the next directory of the path */
#define FILE_EVENTS    (IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_TO)

/* Identifies one state of the file's contents. */
typedef struct file_identity {
    bool there;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
} file_identity;

typedef struct file_listener {
    ko_listener listener; /* first */
    char path[KO_REQUEST_PATH_BYTES];
    const char *name;                 /* its last part */
    size_t level_bytes[MAX_LEVELS];   /* of the path of each directory on the way, "/" first */
    int level_watches[MAX_LEVELS];    /* -1: none */
    uint32_t level_count, level_here; /* level_here: directories that exist */
    int epoll, inotify; /* inotify is in the epoll set, by which both can be recognised as ours */
    file_identity seen;
    uint64_t touched_ns; /* when the first of some changes was seen; 0: none */
    uint64_t due_ns;     /* when it is read */
    uint64_t retry_ns;   /* watching failed; 0: it did not */
    uint64_t complained_ns;
    bool in_child;
} file_listener;

/* ---- the path -------------------------------------------------------------------------------- */

static kineto_status make_path_absolute(file_listener *f, const char *path, kineto_error *err)
{
    char here[KO_REQUEST_PATH_BYTES] = "";
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return kb_fail_os(err, errno, "cannot find the directory of the trigger file '%s'", path);
    int n = snprintf(f->path, sizeof f->path, "%s%s%s", here, path[0] == '/' ? "" : "/", path);
    if (n < 0 || n >= (int)sizeof f->path)
        return kb_fail(err, KINETO_E_LIMIT, "the path of a trigger file has %d bytes: %zu at most",
                       n, sizeof f->path - 1);
    f->name = strrchr(f->path, '/') + 1;
    if (*f->name == '\0' || strcmp(f->name, ".") == 0 || strcmp(f->name, "..") == 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "the trigger file '%s' is a directory: name a file in it", path);
    return KINETO_OK;
}

/* Records the length of each directory prefix of the path, "/" first. */
static kineto_status split_levels(file_listener *f, kineto_error *err)
{
    size_t end = (size_t)(f->name - f->path);
    for (size_t i = 0; i < end; i++) {
        if (f->path[i] != '/' || (i > 0 && f->path[i - 1] == '/'))
            continue;
        if (f->level_count == MAX_LEVELS)
            return kb_fail(err, KINETO_E_LIMIT,
                           "the trigger file '%s' lies deeper than %u directories", f->path,
                           MAX_LEVELS - 1);
        f->level_watches[f->level_count] = -1;
        f->level_bytes[f->level_count++] = i == 0 ? 1 : i;
    }
    return KINETO_OK;
}

/* lstat: a symbolic link is not followed. */
static file_identity identify_trigger_file(const file_listener *f)
{
    struct stat st;
    if (lstat(f->path, &st) != 0)
        return (file_identity){.there = false};
    return (file_identity){.there = true,
                           .device = st.st_dev,
                           .inode = st.st_ino,
                           .size = st.st_size,
                           .changed = st.st_ctim};
}

static bool is_same_identity(const file_identity *a, const file_identity *b)
{
    return a->there == b->there && a->device == b->device && a->inode == b->inode &&
           a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* ---- watching -------------------------------------------------------------------------------- */

static int watch_level(const file_listener *f, uint32_t level, bool next_is_missing)
{
    char path[KO_REQUEST_PATH_BYTES];
    bool last = level + 1 == f->level_count;
    uint32_t events = ABOVE_EVENTS | IN_ONLYDIR | (last ? FILE_EVENTS : 0u) |
                      (next_is_missing ? MISSING_EVENTS : 0u);
    memcpy(path, f->path, f->level_bytes[level]);
    path[f->level_bytes[level]] = '\0';
    return inotify_add_watch(f->inotify, path, events);
}

/* Watches one level. @return whether to go on with the next. An unreadable directory above is
 * skipped; for one that does not exist, its parent is watched for its creation. */
static bool enter_level(file_listener *f, uint32_t level)
{
    int watch = watch_level(f, level, false);
    bool last = level + 1 == f->level_count;
    if (watch < 0 && (errno == ENOENT || errno == ENOTDIR) && level > 0) {
        int above = watch_level(f, level - 1, true);
        if (above >= 0)
            f->level_watches[level - 1] = above;
        int why = above < 0 ? errno : 0;
        watch = why ? -1 : watch_level(f, level, false); /* created meanwhile? */
        if (watch < 0) {
            errno = why;
            return false;
        }
    }
    KB_ASSERT(level < f->level_count && f->level_here == level);
    f->level_watches[level] = watch;
    if (watch >= 0 || (!last && errno == EACCES)) {
        f->level_here = level + 1;
        return true;
    }
    return false;
}

static bool is_watched(const file_listener *f, int watch)
{
    for (uint32_t i = 0; i < f->level_count; i++)
        if (f->level_watches[i] == watch)
            return true;
    return false;
}

/* Watches the whole path anew and removes watches that are not needed. @return 0 or an errno. */
static int watch_levels(file_listener *f)
{
    int before[MAX_LEVELS], why = 0;
    memcpy(before, f->level_watches, sizeof before);
    for (uint32_t i = 0; i < f->level_count; i++)
        f->level_watches[i] = -1;
    f->level_here = 0;
    for (uint32_t i = 0; i < f->level_count; i++) {
        errno = 0;
        if (!enter_level(f, i)) {
            why = errno;
            break;
        }
    }
    for (uint32_t i = 0; i < f->level_count; i++)
        if (before[i] >= 0 && !is_watched(f, before[i]))
            (void)inotify_rm_watch(f->inotify, before[i]);
    return why;
}

/* Starts or extends the waiting time, up to MAX_SETTLE_NS after the first change. */
static void note_change(file_listener *f, uint64_t now_ns)
{
    if (f->touched_ns == 0)
        f->touched_ns = now_ns;
    KB_ASSERT(f->touched_ns);
    f->due_ns = KB_MIN(now_ns + SETTLE_NS, f->touched_ns + MAX_SETTLE_NS);
}

/* Directories have changed: the file may be a different one now, for which there was no event. */
static void rewatch_levels(file_listener *f, uint64_t now_ns)
{
    kineto_error err;
    int why = watch_levels(f);
    f->retry_ns = why ? now_ns + RETRY_NS : 0;
    if (why && f->complained_ns == 0) {
        kb_fail_os(&err, why, "cannot watch the directory of the trigger file '%s'", f->path);
        kb_log(KINETO_LOG_WARNING, "on-demand tracing: %s: it is tried again", err.message);
        f->complained_ns = now_ns;
    }
    file_identity now = identify_trigger_file(f);
    if (now.there && !is_same_identity(&now, &f->seen))
        note_change(f, now_ns);
}

/* @return whether directories of the path have changed. */
static bool handle_inotify_event(file_listener *f, const struct inotify_event *e, uint64_t now_ns)
{
    bool here = f->level_here == f->level_count;
    if (e->mask & IN_Q_OVERFLOW)
        return true;
    if (!is_watched(f, e->wd))
        return false;
    if (e->mask & (ABOVE_EVENTS | IN_UNMOUNT | IN_IGNORED))
        return true;
    if (!here)
        return (e->mask & MISSING_EVENTS) != 0;
    if ((e->mask & FILE_EVENTS) && e->len > 0 && strcmp(e->name, f->name) == 0 &&
        e->wd == f->level_watches[f->level_count - 1])
        note_change(f, now_ns);
    return false;
}

/* Reads all queued events, at most READS_AT_ONCE buffers. */
static void handle_inotify_events(file_listener *f, uint64_t now_ns)
{
    _Alignas(struct inotify_event) char buffer[4096];
    bool changed = false;
    for (uint32_t i = 0; i < READS_AT_ONCE; i++) {
        ssize_t n = read(f->inotify, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        for (size_t at = 0; at + sizeof(struct inotify_event) <= (size_t)n;) {
            const struct inotify_event *e = (const struct inotify_event *)(buffer + at);
            changed |= handle_inotify_event(f, e, now_ns);
            at += sizeof *e + e->len;
        }
    }
    if (changed)
        rewatch_levels(f, now_ns);
}

/* ---- reading the file ------------------------------------------------------------------------ */

static kineto_status check_trigger_file(const file_listener *f, int fd, kineto_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kb_fail_os(err, errno, "cannot examine it");
    if (!S_ISREG(st.st_mode))
        return kb_fail(err, KINETO_E_PERMISSION, "not a regular file");
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return kb_fail(err, KINETO_E_PERMISSION, "it belongs to user %u", (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return kb_fail(err, KINETO_E_PERMISSION,
                       "other users may write to it (mode %03o); chmod go-w '%s'",
                       (unsigned)st.st_mode & 0777u, f->path);
    if (st.st_size > (off_t)KO_REQUEST_TEXT_BYTES)
        return kb_fail(err, KINETO_E_LIMIT, "it has %lld bytes, more than %u",
                       (long long)st.st_size, KO_REQUEST_TEXT_BYTES);
    return KINETO_OK;
}

/* `text` has room for one byte more than allowed, to detect longer files. */
static kineto_status read_trigger_text(int fd, char *text, size_t *size, kineto_error *err)
{
    *size = 0;
    while (*size <= KO_REQUEST_TEXT_BYTES) {
        ssize_t n = read(fd, text + *size, KO_REQUEST_TEXT_BYTES + 1 - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kb_fail_os(err, errno, "cannot read it");
        if (n == 0)
            return KINETO_OK;
        *size += (size_t)n;
    }
    return kb_fail(err, KINETO_E_LIMIT, "it has more than %u bytes", KO_REQUEST_TEXT_BYTES);
}

/* Treated as a request of another process. *away: the file no longer exists. */
static kineto_status submit_trigger_file(const file_listener *f, ko_controller *c, uint64_t *ticket,
                                         bool *away, kineto_error *err)
{
    /* O_NONBLOCK: opening a FIFO in its place must not block. */
    int fd = open(f->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    size_t size = 0;
    *away = fd < 0 && errno == ENOENT;
    if (fd < 0 && errno == ELOOP)
        return kb_fail(err, KINETO_E_PERMISSION, "it is a symbolic link");
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open it");
    char *text = NULL;
    kineto_status status = check_trigger_file(f, fd, err);
    if (status == KINETO_OK && !(text = malloc(KO_REQUEST_TEXT_BYTES + 1)))
        status = kb_fail_memory(err, "read it");
    if (status == KINETO_OK)
        status = read_trigger_text(fd, text, &size, err);
    close(fd);
    if (status == KINETO_OK)
        status =
            ko_controller_request(c, (kineto_string){text, size}, KO_FROM_REQUEST, ticket, err);
    free(text);
    return status;
}

/* Permission errors are rate-limited: other users could flood the log. */
static void log_refusal(file_listener *f, const kineto_error *err, uint64_t now_ns)
{
    bool often = f->complained_ns && now_ns - f->complained_ns < COMPLAIN_NS;
    if (err->code == KINETO_E_PERMISSION && often)
        return;
    if (err->code == KINETO_E_PERMISSION)
        f->complained_ns = now_ns;
    kb_log(KINETO_LOG_WARNING,
           "on-demand tracing: refused the request of the trigger file '%s': %s", f->path,
           err->message);
}

/* Contents that were read already are not submitted again: some events arrive late. */
static void read_if_due(file_listener *f, ko_controller *c, uint64_t now_ns)
{
    kineto_error err;
    uint64_t ticket;
    bool away;
    if (f->touched_ns == 0 || now_ns < f->due_ns)
        return;
    f->touched_ns = 0;
    file_identity now = identify_trigger_file(f);
    if (!now.there || is_same_identity(&now, &f->seen))
        return;
    f->seen = now;
    if (submit_trigger_file(f, c, &ticket, &away, &err) == KINETO_OK)
        kb_log(KINETO_LOG_INFO, "on-demand tracing: request %llu came by the trigger file '%s'",
               (unsigned long long)ticket, f->path);
    else if (!away)
        log_refusal(f, &err, now_ns);
}

/* ---- the listener ---------------------------------------------------------------------------- */

static bool owns_watch_descriptors(const file_listener *f)
{
    struct epoll_event e = {.events = EPOLLIN};
    return f->epoll >= 0 && epoll_ctl(f->epoll, EPOLL_CTL_MOD, f->inotify, &e) == 0;
}

static void close_watches(file_listener *f)
{
    if (owns_watch_descriptors(f)) {
        close(f->inotify);
        close(f->epoll);
    }
    f->inotify = f->epoll = f->listener.fd = -1;
}

/* On failure nothing is open. */
static kineto_status open_watches(file_listener *f, kineto_error *err)
{
    struct epoll_event e = {.events = EPOLLIN};
    int why;
    f->inotify = kb_os_clear_of_standard(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    why = errno;
    f->epoll = f->inotify < 0 ? -1 : kb_os_clear_of_standard(epoll_create1(EPOLL_CLOEXEC));
    if (f->epoll >= 0 && epoll_ctl(f->epoll, EPOLL_CTL_ADD, f->inotify, &e) == 0) {
        f->listener.fd = f->epoll;
        return KINETO_OK;
    }
    if (f->inotify >= 0) {
        why = errno;
        close(f->inotify);
    }
    if (f->epoll >= 0)
        close(f->epoll);
    f->inotify = f->epoll = -1;
    return kb_fail_os(err, why, "cannot watch the trigger file '%s'", f->path);
}

/* The program has closed what we polled. */
static void reopen_watches(file_listener *f, uint64_t now_ns)
{
    kineto_error err;
    close_watches(f);
    for (uint32_t i = 0; i < f->level_count; i++)
        f->level_watches[i] = -1;
    if (open_watches(f, &err) == KINETO_OK) {
        rewatch_levels(f, now_ns);
        return;
    }
    f->retry_ns = now_ns + RETRY_NS;
    kb_log(KINETO_LOG_WARNING, "on-demand tracing: %s: it is tried again", err.message);
}

/* ko_listener.turn. */
static void turn_trigger_file(ko_listener *l, ko_controller *c, uint64_t now_ns)
{
    file_listener *f = (file_listener *)l;
    if (f->in_child)
        return;
    if (owns_watch_descriptors(f))
        handle_inotify_events(f, now_ns);
    else if (f->retry_ns == 0 || now_ns >= f->retry_ns)
        reopen_watches(f, now_ns);
    if (f->retry_ns && now_ns >= f->retry_ns)
        rewatch_levels(f, now_ns);
    read_if_due(f, c, now_ns);
    l->wake_ns =
        KB_MIN(f->touched_ns ? f->due_ns : UINT64_MAX, f->retry_ns ? f->retry_ns : UINT64_MAX);
}

static void forget_parent_watches(ko_listener *l)
{
    file_listener *f = (file_listener *)l;
    close_watches(f);
    f->in_child = true;
    l->wake_ns = UINT64_MAX;
}

static void destroy_trigger_file(ko_listener *l)
{
    close_watches((file_listener *)l);
    free(l);
}

/* A change between reading the state and adding the watches is detected by comparing states. */
static kineto_status prepare_trigger_file(file_listener *f, const char *path, kineto_error *err)
{
    kineto_status status = make_path_absolute(f, path, err);
    if (status == KINETO_OK)
        status = split_levels(f, err);
    if (status == KINETO_OK)
        status = open_watches(f, err);
    if (status != KINETO_OK)
        return status;
    f->seen = identify_trigger_file(f); /* existing contents are not a request, later changes are */
    int why = watch_levels(f);
    file_identity now = identify_trigger_file(f);
    if (now.there && !is_same_identity(&now, &f->seen)) {
        note_change(f, kb_monotonic_ns());
        f->listener.wake_ns = f->due_ns;
    }
    return why ? kb_fail_os(err, why, "cannot watch the directory of the trigger file '%s'",
                            f->path)
               : KINETO_OK;
}

ko_listener *ko_file_listener_create(const char *path, kineto_error *err)
{
    file_listener *f = calloc(1, sizeof *f);
    if (!f) {
        kb_fail_memory(err, "trigger file");
        return NULL;
    }
    f->listener = (ko_listener){.name = "trigger file",
                                .fd = -1,
                                .events = POLLIN,
                                .wake_ns = UINT64_MAX,
                                .turn = turn_trigger_file,
                                .forked = forget_parent_watches,
                                .destroy = destroy_trigger_file};
    f->inotify = f->epoll = -1;
    kineto_status status = prepare_trigger_file(f, path, err);
    if (status == KINETO_OK) {
        f->listener.fd = f->epoll;
        return &f->listener;
    }
    destroy_trigger_file(&f->listener);
    return NULL;
}

/* Messages to the user: stderr or a log file, never stdout. [rt]
 *
 * Runs inside other people's processes, so: one write(2) per line, errno preserved, no descriptor
 * is kept open (the program may close or reuse any number), nothing blocks on a FIFO, no SIGPIPE.
 */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

enum { LOG_UNREAD = 0, LOG_READING = 1, LOG_READY = 2 };

static uint32_t log_state = LOG_UNREAD;
static int log_level = KINETO_LOG_WARNING;
static char log_path[PATH_MAX];     /* absolute; "" is stderr */
static uint32_t log_path_ready = 0; /* released after log_path was written */

static const char *const level_names[] = {"VERBOSE", "INFO", "WARNING", "STAGE", "ERROR"};

static int open_log_file(const char *path)
{
    return open(
        path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
}

/* Absolute, because the program may change its directory. */
static bool store_log_path(const char *path)
{
    char text[PATH_MAX];
    size_t used = 0;
    if (path[0] != '/') {
        if (!getcwd(text, sizeof(text) - 1))
            return false;
        used = strlen(text);
        text[used++] = '/';
    }
    size_t n = strlen(path);
    if (used + n >= sizeof(text))
        return false;
    memcpy(text + used, path, n + 1);
    kb_store_release(&log_path_ready, 0u);
    memcpy(log_path, text, used + n + 1);
    kb_store_release(&log_path_ready, 1u);
    return true;
}

static kineto_status try_log_path(const char *path, kineto_error *err)
{
    int fd = open_log_file(path);
    if (fd < 0 && errno == ELOOP)
        return kb_fail(err, KINETO_E_PERMISSION,
                       "log file '%s' is a symbolic link: name the file itself", path);
    if (fd < 0)
        return kb_fail_os(err, errno, "cannot open log file '%s'", path);
    close(fd);
    if (!store_log_path(path))
        return kb_fail(err, KINETO_E_ARGUMENT, "log file '%s': path is too long", path);
    return KINETO_OK;
}

/* "3" → 3; anything but one number in 0..5 → -1. */
static int parse_log_level(const char *text)
{
    return text[0] >= '0' && text[0] <= '5' && text[1] == '\0' ? text[0] - '0' : -1;
}

/* The first message reads the environment; other threads use the defaults meanwhile. */
static void read_log_settings(void)
{
    uint32_t expected = LOG_UNREAD;
    if (KINETO_LIKELY(kb_load_acquire(&log_state) != LOG_UNREAD) ||
        !kb_cas_acqrel(&log_state, &expected, (uint32_t)LOG_READING))
        return;
    const char *level = kb_os_getenv("KINETO_LOG_LEVEL");
    const char *path = kb_os_getenv("KINETO_LOG_FILE");
    int parsed = level && *level ? parse_log_level(level) : KINETO_LOG_WARNING;
    if (parsed >= 0)
        kb_store_relaxed(&log_level, parsed);
    kineto_error err;
    bool path_failed = path && *path && try_log_path(path, &err) != KINETO_OK;
    kb_store_release(&log_state, (uint32_t)LOG_READY);
    if (parsed < 0)
        kb_log(KINETO_LOG_WARNING, "KINETO_LOG_LEVEL is '%.32s', not a number from 0 to 5: ignored",
               level);
    if (path_failed)
        kb_log(KINETO_LOG_WARNING, "%s: messages go to stderr", err.message);
}

bool kb_log_enabled(kineto_log_level level)
{
    read_log_settings();
    return (int)level >= kb_load_relaxed(&log_level) && level < KINETO_LOG_OFF;
}

/* In UTF-8: C1 controls, and characters that end a line or turn its direction. @return its bytes;
 * 0: none. */
static size_t format_character_at(const unsigned char *c, size_t left)
{
    if (left > 1 && c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
        return 2;
    if (left < 3 || c[0] != 0xe2)
        return 0;
    bool turns = (c[1] == 0x80 && (c[2] >= 0xa8 || (c[2] >= 0x8b && c[2] <= 0x8f)) && c[2] <= 0xae) ||
                 (c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xaf);
    return turns ? 3 : 0;
}

/* Names from untrusted sources must not control the terminal or fake a second line. */
static void replace_controls(char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char *c = (unsigned char *)text + i;
        size_t size = format_character_at(c, bytes - i);
        if (*c < 0x20 || *c == 0x7f)
            *c = *c == '\n' || *c == '\t' ? ' ' : '?';
        for (size_t k = 0; k < size; k++)
            c[k] = '?';
    }
}

static void write_log_line(const char *line, size_t bytes)
{
    int fd = -1;
    if (kb_load_acquire(&log_path_ready))
        fd = open_log_file(log_path);
    kb_os_write_quiet(fd >= 0 ? fd : STDERR_FILENO, line, bytes);
    if (fd >= 0)
        close(fd);
}

void kb_log(kineto_log_level level, const char *fmt, ...)
{
    int saved_errno = errno;
    if (!kb_log_enabled(level) || (int)level < 0)
        goto done;
    char line[1024];
    int head = snprintf(line, sizeof(line), "ckineto[%u] %s: ", kb_os_pid(), level_names[level]);
    if (head < 0)
        goto done;
    size_t room = sizeof(line) - (size_t)head - 1;
    va_list args;
    va_start(args, fmt);
    int body = vsnprintf(line + head, room, fmt, args);
    va_end(args);
    if (body < 0)
        goto done;
    size_t text = KB_MIN((size_t)body, room - 1);
    replace_controls(line + head, text);
    line[(size_t)head + text] = '\n';
    write_log_line(line, (size_t)head + text + 1);
done:
    errno = saved_errno;
}

kineto_status kb_log_configure(int level, const char *path, kineto_error *err)
{
    if (level > KINETO_LOG_OFF)
        return kb_fail(err, KINETO_E_ARGUMENT, "log level %d: must be from 0 to 5", level);
    read_log_settings();
    if (path) {
        kineto_status status = try_log_path(path, err);
        if (status != KINETO_OK)
            return status;
    }
    if (level >= 0)
        kb_store_relaxed(&log_level, level);
    return KINETO_OK;
}

void kb_assert_failed(const char *expression, const char *file, int line)
{
    char text[512];
    int size = snprintf(text, sizeof text, "ckineto: %s:%d: assertion failed: %s\n", file, line,
                        expression);
    ssize_t written = write(STDERR_FILENO, text, KB_MIN((size_t)KB_MAX(size, 0), sizeof text - 1));
    (void)written;
    abort();
}

/* Where the tools of these tests log the calls that they receive: one line for each call, appended
 * to the file that EMIT_LOG names: "PID TID CALL TEXT". */
#ifndef EMIT_TESTS_LOG_H
#define EMIT_TESTS_LOG_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int log_file = -1;

static inline void log_open(void)
{
    const char *path = getenv("EMIT_LOG");
    if (path && log_file < 0)
        log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static inline void log_line(const char *call, const char *text)
{
    char line[8192];
    int n = snprintf(line, sizeof line, "%d %ld %s %s\n", (int)getpid(), (long)syscall(SYS_gettid),
                     call, text ? text : "(null)");
    size_t size = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    if (log_file >= 0 && size > 0 && write(log_file, line, size) < 0)
        abort();
}

/* What the tool shall do: a word of EMIT_TOOL. */
static inline int tool_is(const char *word)
{
    const char *is = getenv("EMIT_TOOL");
    return is && strcmp(is, word) == 0;
}

#endif

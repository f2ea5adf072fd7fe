/* The hooks for waits for files, sockets, several descriptors and other processes. */
#include "waits.h"

#include <fcntl.h>
#include <stdarg.h>

/* ---- records --------------------------------------------------------------------------------- */

static int get_error(int64_t result) { return result == -1 ? errno : 0; }

/* The file is looked up after the call, by its descriptor. */
static CW_COLD void record_transfer(cw_site site, const cw_call *call, int fd, int64_t result)
{
    int saved = errno;
    if (cw_is_long(site, call, result > 0 ? result : 0)) {
        char file[CW_FILE_BYTES];
        cw_describe_descriptor(fd, file);
        kineto_value values[] = {{.s = file},
                                 {.i = fd},
                                 {.i = result > 0 ? result : 0},
                                 {.i = result == -1 ? saved : 0}};
        cw_record(site, call, values);
    }
    errno = saved;
}

/* `file` may be NULL: looked up; `fd` -1: none. */
static CW_COLD void record_file(cw_site site, const cw_call *call, int fd, const char *file,
                                int error)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        char text[CW_FILE_BYTES] = "";
        if (file)
            cw_copy_text(text, sizeof text, file);
        else
            cw_describe_descriptor(fd, text);
        kineto_value values[] = {{.s = text}, {.i = fd}, {.i = error}};
        cw_record(site, call, values);
    }
    errno = saved;
}

static CW_COLD void record_connect(const cw_call *call, int fd, const struct sockaddr *address,
                                   socklen_t size, int error)
{
    int saved = errno;
    if (cw_is_long(CW_connect, call, 0)) {
        char text[CW_FILE_BYTES] = "";
        if (error != EFAULT && error != EBADF)
            cw_describe_address(fd, address, size, "", text);
        kineto_value values[] = {{.s = text}, {.i = fd}, {.i = error}};
        cw_record(CW_connect, call, values);
    }
    errno = saved;
}

/* poll and select of `count` descriptors; `result`: how many are ready, or -1. */
static CW_COLD void record_poll(cw_site site, const cw_call *call, uint64_t count, int64_t result)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        kineto_value values[] = {{.u = count}, {.i = result}, {.i = result == -1 ? saved : 0}};
        cw_record(site, call, values);
    }
    errno = saved;
}

static CW_COLD void record_child(cw_site site, const cw_call *call, int64_t pid)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        kineto_value values[] = {{.i = pid}, {.i = pid == -1 ? saved : 0}};
        cw_record(site, call, values);
    }
    errno = saved;
}


/* ---- bytes of files and sockets -------------------------------------------------------------- */

/* The first parameter is fd; `site` is another one's name for variants of it. */
#define TRANSFER_HOOK(site, name, parameters, arguments)                                           \
    KINETO_API ssize_t name parameters;                                                            \
    CW_HOOK(ssize_t, name, parameters, arguments, CW_##site, (uint64_t)fd, 0,                      \
            record_transfer(CW_##site, &call, fd, result))

TRANSFER_HOOK(read, read, (int fd, void *data, size_t size), (fd, data, size))
TRANSFER_HOOK(read, __read_chk, (int fd, void *data, size_t size, size_t room),
              (fd, data, size, room))
TRANSFER_HOOK(pread, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
TRANSFER_HOOK(pread, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
TRANSFER_HOOK(pread, __pread_chk, (int fd, void *data, size_t size, off_t at, size_t room),
              (fd, data, size, at, room))
TRANSFER_HOOK(pread, __pread64_chk, (int fd, void *data, size_t size, off64_t at, size_t room),
              (fd, data, size, at, room))
TRANSFER_HOOK(readv, readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
TRANSFER_HOOK(write, write, (int fd, const void *data, size_t size), (fd, data, size))
TRANSFER_HOOK(pwrite, pwrite, (int fd, const void *data, size_t size, off_t at),
              (fd, data, size, at))
TRANSFER_HOOK(pwrite, pwrite64, (int fd, const void *data, size_t size, off64_t at),
              (fd, data, size, at))
TRANSFER_HOOK(writev, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
TRANSFER_HOOK(sendfile, sendfile, (int fd, int in, off_t *at, size_t size), (fd, in, at, size))
TRANSFER_HOOK(sendfile, sendfile64, (int fd, int in, off64_t *at, size_t size), (fd, in, at, size))
TRANSFER_HOOK(recv, recv, (int fd, void *data, size_t size, int flags), (fd, data, size, flags))
TRANSFER_HOOK(recv, __recv_chk, (int fd, void *data, size_t size, size_t room, int flags),
              (fd, data, size, room, flags))
TRANSFER_HOOK(recvfrom, recvfrom,
              (int fd, void *data, size_t size, int flags, struct sockaddr *from,
               socklen_t *from_size),
              (fd, data, size, flags, from, from_size))
TRANSFER_HOOK(recvfrom, __recvfrom_chk,
              (int fd, void *data, size_t size, size_t room, int flags, struct sockaddr *from,
               socklen_t *from_size),
              (fd, data, size, room, flags, from, from_size))
TRANSFER_HOOK(recvmsg, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
TRANSFER_HOOK(send, send, (int fd, const void *data, size_t size, int flags),
              (fd, data, size, flags))
TRANSFER_HOOK(sendto, sendto,
              (int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
               socklen_t to_size),
              (fd, data, size, flags, to, to_size))
TRANSFER_HOOK(sendmsg, sendmsg, (int fd, const struct msghdr *message, int flags),
              (fd, message, flags))

/* ---- files ----------------------------------------------------------------------------------- */

#define FILE_HOOK(name, parameters, arguments)                                                     \
    CW_HOOK(int, name, parameters, arguments, CW_##name, (uint64_t)fd, 0,                          \
            record_file(CW_##name, &call, fd, NULL, get_error(result)))

FILE_HOOK(fsync, (int fd), (fd))
FILE_HOOK(fdatasync, (int fd), (fd))
FILE_HOOK(flock, (int fd, int operation), (fd, operation))
/* Once closed, a descriptor may be another file. */
CW_HOOK(int, close, (int fd), (fd), CW_close, (uint64_t)fd, 0,
        record_file(CW_close, &call, fd, get_error(result) == EBADF ? NULL : "",
                    get_error(result)))

/* NULL for a descriptor, whose link is an absolute path. A path that the kernel could not read we
 * cannot read either. */
static const char *get_failed_path(const char *path, int result)
{
    return result >= 0 ? NULL : path && errno != EFAULT ? path : "";
}

#define NO_FD UINT64_MAX /* -1: the descriptor is not known before the call */

/* The mode is there only if a file may be created. Reading it anyway, as libc itself does, would be
 * the business of libc. */
#define OPEN_HOOK(site, name, declared, arguments)                                                 \
    KINETO_API int name declared                                                                   \
    {                                                                                              \
        mode_t mode = 0;                                                                           \
        if ((flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE) {                               \
            va_list list;                                                                          \
            va_start(list, flags);                                                                 \
            mode = va_arg(list, mode_t);                                                           \
            va_end(list);                                                                          \
        }                                                                                          \
        if (KINETO_LIKELY(!cw_is_recording()))                                                     \
            return cw_next.name arguments;                                                         \
        cw_call call = cw_begin(CW_##site, NO_FD, 0, __builtin_return_address(0));                 \
        int result = cw_next.name arguments;                                                       \
        record_file(CW_##site, &call, result, get_failed_path(path, result), get_error(result)); \
        return result;                                                                             \
    }

OPEN_HOOK(open, open, (const char *path, int flags, ...), (path, flags, mode))
OPEN_HOOK(open, open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN_HOOK(openat, openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
OPEN_HOOK(openat, openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))

/* Calls without a mode that the compiler has checked. */
#define OPEN_2_HOOK(site, name, parameters, arguments)                                             \
    KINETO_API int name parameters;                                                                \
    CW_HOOK(int, name, parameters, arguments, CW_##site, NO_FD, 0,                                 \
            record_file(CW_##site, &call, result, get_failed_path(path, result),                 \
                        get_error(result)))
OPEN_2_HOOK(open, __open_2, (const char *path, int flags), (path, flags))
OPEN_2_HOOK(open, __open64_2, (const char *path, int flags), (path, flags))
OPEN_2_HOOK(openat, __openat_2, (int dir, const char *path, int flags), (dir, path, flags))
OPEN_2_HOOK(openat, __openat64_2, (int dir, const char *path, int flags), (dir, path, flags))

/* ---- connections ----------------------------------------------------------------------------- */

CW_HOOK(int, connect, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size),
        CW_connect, (uint64_t)fd, 0,
        record_connect(&call, fd, address, size, get_error(result)))
/* The new connection, whose peer is known; else what the socket listens on. */
CW_HOOK(int, accept, (int fd, struct sockaddr *address, socklen_t *size), (fd, address, size),
        CW_accept, (uint64_t)fd, 0,
        record_file(CW_accept, &call, result >= 0 ? result : fd, NULL, get_error(result)))
CW_HOOK(int, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags),
        (fd, address, size, flags), CW_accept4, (uint64_t)fd, 0,
        record_file(CW_accept4, &call, result >= 0 ? result : fd, NULL, get_error(result)))

/* ---- several descriptors --------------------------------------------------------------------- */

#define POLL_HOOK(site, name, parameters, arguments)                                               \
    KINETO_API int name parameters;                                                                \
    CW_HOOK(int, name, parameters, arguments, CW_##site, (uint64_t)count, 0,                       \
            record_poll(CW_##site, &call, (uint64_t)count, result))

POLL_HOOK(poll, poll, (struct pollfd * list, nfds_t count, int ms), (list, count, ms))
POLL_HOOK(poll, __poll_chk, (struct pollfd * list, nfds_t count, int ms, size_t room),
          (list, count, ms, room))
POLL_HOOK(ppoll, ppoll,
          (struct pollfd * list, nfds_t count, const struct timespec *time, const sigset_t *mask),
          (list, count, time, mask))
POLL_HOOK(ppoll, __ppoll_chk,
          (struct pollfd * list, nfds_t count, const struct timespec *time, const sigset_t *mask,
           size_t room),
          (list, count, time, mask, room))
POLL_HOOK(select, select,
          (int count, fd_set *in, fd_set *out, fd_set *other, struct timeval *time),
          (count, in, out, other, time))
POLL_HOOK(pselect, pselect,
          (int count, fd_set *in, fd_set *out, fd_set *other, const struct timespec *time,
           const sigset_t *mask),
          (count, in, out, other, time, mask))
POLL_HOOK(epoll_wait, epoll_wait, (int fd, struct epoll_event *list, int count, int ms),
          (fd, list, count, ms))
POLL_HOOK(epoll_pwait, epoll_pwait,
          (int fd, struct epoll_event *list, int count, int ms, const sigset_t *mask),
          (fd, list, count, ms, mask))
POLL_HOOK(epoll_pwait2, epoll_pwait2,
          (int fd, struct epoll_event *list, int count, const struct timespec *time,
           const sigset_t *mask),
          (fd, list, count, time, mask))

/* ---- processes ------------------------------------------------------------------------------- */

#define ANY_CHILD UINT64_MAX /* -1 */

CW_HOOK(pid_t, wait, (int *status), (status), CW_wait, ANY_CHILD, 0,
        record_child(CW_wait, &call, result))
CW_HOOK(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), CW_waitpid,
        (uint64_t)pid, 0, record_child(CW_waitpid, &call, result))
CW_HOOK(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *usage),
        (pid, status, options, usage), CW_wait4, (uint64_t)pid, 0,
        record_child(CW_wait4, &call, result))
/* It tells the process in *info, which may be NULL. */
CW_HOOK(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
        (type, id, info, options), CW_waitid, type == P_PID ? (uint64_t)id : ANY_CHILD, 0,
        record_child(CW_waitid, &call, result == 0 && info ? info->si_pid : result))

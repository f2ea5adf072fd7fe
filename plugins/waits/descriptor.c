/* Which file or peer a descriptor is: by the kernel's link in /proc, and for sockets by their
 * addresses. System calls only. */
#include "waits.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

void cw_copy_text(char *out, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);
    memcpy(out, text, n);
    out[n] = 0;
}

/* Appends a text, cut to the room that there is. */
static void append_text(char text[CW_FILE_BYTES], const char *more)
{
    size_t used = strnlen(text, CW_FILE_BYTES - 1);
    cw_copy_text(text + used, CW_FILE_BYTES - used, more);
}

static void append_number(char text[CW_FILE_BYTES], unsigned number)
{
    char digits[12], *at = digits + sizeof digits;
    *--at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    append_text(text, at);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static const char *name_protocol(int fd)
{
    int type = 0;
    socklen_t size = sizeof type;
    if (!cw_is_confined())
        (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size);
    return type == SOCK_STREAM ? "tcp " : type == SOCK_DGRAM ? "udp " : "ip ";
}

static void append_unix_path(char text[CW_FILE_BYTES], const struct sockaddr *address,
                             socklen_t size)
{
    struct sockaddr_un un = {0};
    memcpy(&un, address, KINETO_LIKELY(size < sizeof un) ? size : sizeof un);
    char path[sizeof un.sun_path + 1] = "";
    memcpy(path, un.sun_path, sizeof un.sun_path);
    append_text(text, "unix ");
    if (size > offsetof(struct sockaddr_un, sun_path) && !path[0])
        path[0] = '@'; /* abstract */
    append_text(text, path[0] ? path : "without a name");
}

static void append_ip_address(char text[CW_FILE_BYTES], const struct sockaddr *address, bool is_6)
{
    char number[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    memcpy(&v4, address, sizeof v4);
    if (is_6) {
        memcpy(&v6, address, sizeof v6);
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, number, sizeof number);
        append_text(text, "[");
    } else {
        (void)inet_ntop(AF_INET, &v4.sin_addr, number, sizeof number);
    }
    append_text(text, number);
    append_text(text, is_6 ? "]:" : ":");
    append_number(text, ntohs(is_6 ? v6.sin6_port : v4.sin_port));
}

void cw_describe_address(int fd, const struct sockaddr *address, socklen_t size, const char *word,
                         char text[CW_FILE_BYTES])
{
    text[0] = 0;
    if (!address || size < sizeof address->sa_family)
        return;
    int family = address->sa_family;
    if (family == AF_UNIX) {
        append_unix_path(text, address, size);
    } else if ((family == AF_INET && size >= sizeof(struct sockaddr_in)) ||
               (family == AF_INET6 && size >= sizeof(struct sockaddr_in6))) {
        append_text(text, name_protocol(fd));
        append_text(text, word);
        append_ip_address(text, address, family == AF_INET6);
    }
}

/* The peer; without one the socket's own address. False: it is no socket of a family that we know. */
static bool describe_socket(int fd, char text[CW_FILE_BYTES])
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    const char *word = "";
    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0) {
        size = sizeof address;
        word = "at ";
        if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
            return false;
    }
    cw_describe_address(fd, (struct sockaddr *)&address, size, word, text);
    return text[0] != 0;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void read_link(const char *link, char text[CW_FILE_BYTES])
{
    ssize_t n = readlink(link, text, CW_FILE_BYTES - 1);
    text[n > 0 ? n : 0] = 0;
}

void cw_describe_descriptor(int fd, char text[CW_FILE_BYTES])
{
    char link[CW_FILE_BYTES] = "/proc/self/fd/";
    uint64_t begun = kineto_overhead_begin();
    text[0] = 0;
    if (fd < 0 || cw_is_confined())
        return;
    append_number(link, (unsigned)fd);
    read_link(link, text);
    if ((!text[0] || strncmp(text, "socket:", 7) == 0) && !describe_socket(fd, text))
        read_link(link, text); /* a socket of another family: its number */
    kineto_overhead_end(begun);
}

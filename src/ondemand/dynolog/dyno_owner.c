/* The owner of the daemon's socket. Any user may bind an abstract name first, and polls that are
 * sent to it would reveal the processes of this user. The owner comes from the kernel's list of
 * Unix sockets (netlink sock_diag), or from the socket's file. */
#include "ondemand/dynolog/dyno.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef UDIAG_SHOW_UID /* Linux 5.3 */
#define UDIAG_SHOW_UID 0x40
#define UNIX_DIAG_UID  7
#endif

typedef struct question {
    struct nlmsghdr head;
    struct unix_diag_req what;
} question;

/* Asks for all Unix sockets: a query for one name does not exist. */
static bool request_unix_sockets(int fd)
{
    question q = {.head = {.nlmsg_len = sizeof q,
                           .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                  .what = {.sdiag_family = AF_UNIX,
                           .udiag_states = UINT32_MAX,
                           .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID}};
    return send(fd, &q, sizeof q, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof q;
}

/* Reads the owner of one socket of the list, if it has this name. */
static bool read_socket_owner(const struct nlmsghdr *head, kineto_string name, uint32_t *user)
{
    const struct unix_diag_msg *m = NLMSG_DATA(head);
    size_t left = head->nlmsg_len - NLMSG_LENGTH(sizeof *m);
    bool same = false, known = false;
    if (head->nlmsg_len < NLMSG_LENGTH(sizeof *m))
        return false;
    for (const struct rtattr *a = (const struct rtattr *)(m + 1); RTA_OK(a, left);
         a = RTA_NEXT(a, left)) {
        size_t bytes = RTA_PAYLOAD(a);
        if (a->rta_type == UNIX_DIAG_NAME)
            same = bytes == name.size && memcmp(RTA_DATA(a), name.data, bytes) == 0;
        if (a->rta_type == UNIX_DIAG_UID && bytes == sizeof *user) {
            memcpy(user, RTA_DATA(a), sizeof *user);
            known = true;
        }
    }
    return same && known;
}

/* Reads one datagram of the list. @return whether there may be more. */
static bool read_socket_list(const char *part, size_t bytes, kineto_string name, uint32_t *user,
                             bool *found)
{
    const struct nlmsghdr *head = (const struct nlmsghdr *)part;
    for (size_t left = bytes; NLMSG_OK(head, left); head = NLMSG_NEXT(head, left)) {
        if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY)
            return false;
        if (read_socket_owner(head, name, user)) {
            *found = true;
            return false;
        }
    }
    return true;
}

/* Reads the list until the name is found. The kernel answers synchronously. */
static bool find_abstract_owner(kineto_string name, uint32_t *user)
{
    union {
        struct nlmsghdr head;
        char bytes[16384];
    } part;
    bool found = false;
    ssize_t n;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return false;
    if (request_unix_sockets(fd))
        while ((n = recv(fd, &part, sizeof part, MSG_DONTWAIT)) > 0 &&
               read_socket_list(part.bytes, (size_t)n, name, user, &found))
            ;
    close(fd);
    return found;
}

/* In a user namespace, users that are not mapped all appear as the overflow user: it proves
 * nothing. */
static bool is_overflow_user(uint32_t user)
{
    char text[64];
    uint32_t overflow = kb_os_read_file("/proc/sys/kernel/overflowuid", text, sizeof text)
                            ? (uint32_t)strtoul(text, NULL, 10)
                            : 65534;
    return user == overflow && kb_os_read_file("/proc/self/uid_map", text, sizeof text) &&
           !strstr(text, "4294967295");
}

bool ko_dyno_owner_is_foreign(const ko_dyno_address *a, uint32_t *user)
{
    const struct sockaddr_un *address = &a->address;
    kineto_string name = {address->sun_path, a->size - offsetof(struct sockaddr_un, sun_path)};
    struct stat st;
    bool known;
    if (address->sun_path[0]) {
        known = stat(address->sun_path, &st) == 0;
        *user = known ? st.st_uid : 0;
    } else {
        known = find_abstract_owner(name, user);
    }
    return known && *user != 0 && *user != geteuid() && !is_overflow_user(*user);
}

/* The user at the other end of a TCP connection within this machine. The kernel gives the owner of
 * any socket to any user: by a query for the one socket (netlink sock_diag), or else by the list in
 * /proc/net/tcp.
 *
 * A closed socket has owner 0, which is root's number. So an owner counts only while its socket has
 * an inode that was read after the owner. */
#include "ondemand/dynolog/dyno.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <unistd.h>

enum { STATE_SYN_SENT = 2, STATE_LISTEN = 10 }; /* the kernel's numbers */

/* Both ends as the other side sees them, in network order. */
typedef struct ends {
    sa_family_t family;
    uint16_t local_port, remote_port;
    uint32_t local[4], remote[4]; /* IPv4: the first one */
} ends;

typedef struct owner {
    uint32_t user, inode, state;
} owner;

/* ---- the connection -------------------------------------------------------------------------- */

/* An IPv4-mapped IPv6 address is an IPv4 address for the other end. */
static bool split_address(const struct sockaddr_storage *a, sa_family_t *family, uint32_t out[4],
                          uint16_t *port)
{
    static const uint32_t no_address[4] = {0};
    const struct sockaddr_in *four = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
    memcpy(out, no_address, sizeof no_address);
    *family = AF_INET;
    if (a->ss_family == AF_INET) {
        memcpy(out, &four->sin_addr, sizeof four->sin_addr);
        *port = four->sin_port;
        return true;
    }
    if (a->ss_family != AF_INET6)
        return false;
    *port = six->sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(out, six->sin6_addr.s6_addr + 12, 4);
        return true;
    }
    *family = AF_INET6;
    memcpy(out, &six->sin6_addr, sizeof six->sin6_addr);
    return true;
}

static bool read_connection_ends(int fd, ends *out)
{
    struct sockaddr_storage ours = {0}, theirs = {0};
    socklen_t ours_size = sizeof ours, theirs_size = sizeof theirs;
    sa_family_t family;
    return getsockname(fd, (struct sockaddr *)&ours, &ours_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&theirs, &theirs_size) == 0 &&
           split_address(&ours, &family, out->remote, &out->remote_port) &&
           split_address(&theirs, &out->family, out->local, &out->local_port) &&
           family == out->family;
}

/* ---- query for the one socket ---------------------------------------------------------------- */

typedef struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 what;
} question;

static bool send_diag_query(int fd, const ends *e)
{
    question q = {.head = {.nlmsg_len = sizeof q,
                           .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                           .nlmsg_flags = NLM_F_REQUEST},
                  .what = {.sdiag_family = (uint8_t)e->family,
                           .sdiag_protocol = IPPROTO_TCP,
                           .idiag_states = UINT32_MAX,
                           .id = {.idiag_sport = e->local_port,
                                  .idiag_dport = e->remote_port,
                                  .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    memcpy(q.what.id.idiag_src, e->local, sizeof e->local);
    memcpy(q.what.id.idiag_dst, e->remote, sizeof e->remote);
    return send(fd, &q, sizeof q, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof q;
}

static bool read_diag_answer(int fd, const ends *e, owner *out)
{
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer;
    struct inet_diag_msg found;
    ssize_t n = recv(fd, &answer, sizeof answer, MSG_DONTWAIT);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof found) || answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    memcpy(&found, NLMSG_DATA(&answer.head), sizeof found);
    *out = (owner){found.idiag_uid, found.idiag_inode, found.idiag_state};
    return found.id.idiag_sport == e->local_port && found.id.idiag_dport == e->remote_port;
}

/* The answer is available as soon as the query was sent: nothing waits. */
static bool query_socket_owner(const ends *e, owner *out)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return false;
    bool found = send_diag_query(fd, e) && read_diag_answer(fd, e, out);
    close(fd);
    return found;
}

/* ---- the list of all sockets ----------------------------------------------------------------- */

static bool match_proc_address(const char *text, const uint32_t wanted[4], uint16_t wanted_port)
{
    unsigned part = 0, port = 0;
    size_t parts = strcspn(text, ":") / 8;
    for (size_t i = 0; i < parts && i < 4; i++)
        if (sscanf(text + 8 * i, "%8x", &part) != 1 || part != wanted[i])
            return false;
    return sscanf(text + strcspn(text, ":"), ":%x", &port) == 1 &&
           htons((uint16_t)port) == wanted_port;
}

static bool parse_tcp_line(const char *line, const ends *e, owner *out)
{
    char local[64], remote[64];
    return sscanf(line, " %*[^:]: %63s %63s %x %*s %*s %*s %u %*s %u", local, remote, &out->state,
                  &out->user, &out->inode) == 5 &&
           match_proc_address(local, e->local, e->local_port) &&
           match_proc_address(remote, e->remote, e->remote_port);
}

static bool find_owner_in_proc(const ends *e, owner *out)
{
    char line[512];
    bool found = false;
    FILE *f = fopen(e->family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
    while (f && !found && fgets(line, sizeof line, f))
        found = parse_tcp_line(line, e, out);
    if (f)
        fclose(f);
    return found;
}

/* Within one line the inode may have been read before the owner: the second line proves that the
 * socket was still open. */
static bool find_stable_owner_in_proc(const ends *e, owner *out)
{
    owner again;
    return find_owner_in_proc(e, out) && find_owner_in_proc(e, &again) && again.inode == out->inode;
}

bool ko_dyno_peer_user(int fd, uint32_t *user)
{
    ends e;
    owner o;
    if (!read_connection_ends(fd, &e) ||
        (!query_socket_owner(&e, &o) && !find_stable_owner_in_proc(&e, &o)))
        return false;
    *user = o.user;
    return o.inode != 0 && o.state != STATE_LISTEN && o.state != STATE_SYN_SENT;
}

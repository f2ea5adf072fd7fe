/* Whose socket is at the other end of a connection: by asking for it, and by the list of all. */
#include "unit.h"

#include <sys/wait.h>

#include "../../src/ondemand/dynolog/dyno_peer.c" /* both ways, not only the one that works here */

typedef struct pair {
    int asks, serves;
} pair;

static pair connect_within(int family, const char *address, int client_family)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *at = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t size = family == AF_INET ? sizeof four : sizeof six;
    pair p = {-1, -1};
    if (family == AF_INET6)
        assert_int_equal(inet_pton(AF_INET6, address, &six.sin6_addr), 1);
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, at, size) != 0 || listen(listener, 1) != 0) {
        close(listener);
        return p; /* no IPv6 here */
    }
    assert_int_equal(getsockname(listener, at, &size), 0);
    four.sin_port = family == AF_INET ? four.sin_port : six.sin6_port;
    p.asks = socket(client_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client_family == AF_INET)
        assert_int_equal(connect(p.asks, (struct sockaddr *)&four, sizeof four), 0);
    else
        assert_int_equal(connect(p.asks, (struct sockaddr *)&six, sizeof six), 0);
    p.serves = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(p.serves >= 0);
    close(listener);
    return p;
}

static void pair_close(pair p)
{
    close(p.asks);
    close(p.serves);
}

static void expect_user(pair p, uint32_t wanted)
{
    ends e;
    owner o;
    uint32_t user = 0;
    assert_true(read_connection_ends(p.serves, &e));
    if (query_socket_owner(&e, &o)) /* not every kernel answers */
        assert_int_equal(o.user, wanted);
    else
        print_message("this system answers no questions for sockets\n");
    assert_true(find_stable_owner_in_proc(&e, &o));
    assert_int_equal(o.user, wanted);
    assert_true(ko_dyno_peer_user(p.serves, &user));
    assert_int_equal(user, wanted);
}

static void the_other_end_is_ours_by_any_address(void **state)
{
    (void)state;
    const pair all[] = {connect_within(AF_INET, "", AF_INET),
                        connect_within(AF_INET6, "::1", AF_INET6),
                        connect_within(AF_INET6, "::ffff:127.0.0.1", AF_INET)};
    for (size_t i = 0; i < KB_COUNT(all); i++) {
        if (all[i].serves < 0)
            continue;
        expect_user(all[i], (uint32_t)geteuid());
        pair_close(all[i]);
    }
}

static void another_user_is_distinguished(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    enum { OTHER = 4711 };
    int ports[2];
    uint16_t port;
    assert_int_equal(pipe(ports), 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    pid_t child = fork();
    if (child == 0) { /* stays until we have looked */
        int fd = -1;
        if (setuid(OTHER) == 0)
            fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
            _exit(1);
        close(ports[1]);
        _exit(read(ports[0], &port, sizeof port) == 0 ? 0 : 1);
    }
    pair p = {-1, accept4(listener, NULL, NULL, SOCK_CLOEXEC)};
    expect_user(p, OTHER);
    close(ports[1]);
    close(ports[0]);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(p.serves);
    close(listener);
}

/* A socket that was closed looks as if it were root's. */
static void a_closed_client_is_forgotten(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        pair p = connect_within(AF_INET, "", AF_INET);
        uint32_t user = 1;
        ends e;
        owner o;
        if (half)
            shutdown(p.asks, SHUT_WR);
        else
            close(p.asks);
        assert_int_equal(ko_dyno_peer_user(p.serves, &user), half);
        assert_true(read_connection_ends(p.serves, &e));
        if (find_owner_in_proc(&e, &o))
            assert_int_equal(o.inode != 0, half);
        if (half)
            close(p.asks);
        close(p.serves);
    }
}

static void what_is_not_a_connection_has_no_other_end(void **state)
{
    (void)state;
    uint32_t user;
    int two[2], alone = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
    assert_false(ko_dyno_peer_user(-1, &user));
    assert_false(ko_dyno_peer_user(alone, &user));
    assert_false(ko_dyno_peer_user(two[0], &user));
    close(alone);
    close(two[0]);
    close(two[1]);
}

static void lines_of_the_list_are_read_strictly(void **state)
{
    (void)state;
    const ends e = {.family = AF_INET,
                    .local = {htonl(0x7f000001)},
                    .remote = {htonl(0x7f000002)},
                    .local_port = htons(0x8001),
                    .remote_port = htons(0x06f2)};
    owner o;
    char line[256], local[32], remote[32];
    snprintf(local, sizeof local, "%08X:8001", e.local[0]);
    snprintf(remote, sizeof remote, "%08X:06F2", e.remote[0]);
    snprintf(line, sizeof line,
             "  17: %s %s 01 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0 20\n",
             local, remote);
    assert_true(parse_tcp_line(line, &e, &o));
    assert_int_equal(o.user, 1000);
    assert_int_equal(o.inode, 4242);
    assert_int_equal(o.state, 1);
    size_t full = (size_t)(strstr(line, "4242") - line);
    for (size_t n = 0; n < full; n++) { /* cut off anywhere */
        char cut[256];
        snprintf(cut, sizeof cut, "%.*s", (int)n, line);
        assert_false(parse_tcp_line(cut, &e, &o));
    }
    snprintf(line, sizeof line, "  17: %s %s 01 0:0 0:0 0  1000 0 4242\n", remote, local);
    assert_false(parse_tcp_line(line, &e, &o));
    assert_false(parse_tcp_line("  sl  local_address rem_address   st tx_queue\n", &e, &o));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_other_end_is_ours_by_any_address),
        cmocka_unit_test(another_user_is_distinguished),
        cmocka_unit_test(a_closed_client_is_forgotten),
        cmocka_unit_test(what_is_not_a_connection_has_no_other_end),
        cmocka_unit_test(lines_of_the_list_are_read_strictly),
    };
    return RUN_TESTS(tests);
}

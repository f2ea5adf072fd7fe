/* The daemon before scripted clients: every fault that stops Dynolog must stop no client here. One
 * thread plays all sides, so that each order of events is what it says. */
#include "unit.h"

#include "ondemand/dynolog/dyno.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/stat.h>

static char directory[64];
static uint64_t longest_turn_ns;

static void turn(ko_dyno_daemon *d)
{
    uint64_t before = kb_clock_ns(CLOCK_MONOTONIC);
    assert_int_equal(ko_dyno_daemon_run(d, 0, -1, NULL), KINETO_OK);
    uint64_t took = kb_clock_ns(CLOCK_MONOTONIC) - before;
    longest_turn_ns = KB_MAX(longest_turn_ns, took);
}

static ko_dyno_daemon *start(bool rpc)
{
    ko_dyno_daemon *d = NULL;
    kineto_error err = {0};
    ko_dyno_daemon_options o = {.directory = directory[0] ? directory : NULL, .no_rpc = !rpc};
    if (ko_dyno_daemon_create(&o, &d, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return d;
}

static int descriptors(void)
{
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all))
        n++;
    closedir(all);
    return n;
}

/* ---- clients that send datagrams --------------------------------------------------------------- */

typedef struct client {
    int fd;
    ko_dyno_address address;
} client;

static client client_named(const char *name)
{
    client c = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    const char *where = directory[0] ? directory : NULL;
    assert_int_equal(ko_dyno_address_of(name, where, &c.address, NULL), KINETO_OK);
    if (where)
        unlink(c.address.address.sun_path);
    assert_int_equal(bind(c.fd, (struct sockaddr *)&c.address.address, c.address.size), 0);
    return c;
}

static void client_close(client *c)
{
    close(c->fd);
    if (directory[0])
        unlink(c->address.address.sun_path);
}

static bool client_send(int fd, const void *bytes, size_t size)
{
    ko_dyno_address to;
    (void)ko_dyno_address_of(KO_DYNO_DAEMON, directory[0] ? directory : NULL, &to, NULL);
    return sendto(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to.address,
                  to.size) == (ssize_t)size;
}

static bool client_ask(client *c, int32_t pid)
{
    char bytes[512];
    ko_dyno_message m = {.type = KO_DYNO_REQUEST,
                         .wants = KO_DYNO_WANTS_ACTIVITIES,
                         .pid_count = 2,
                         .pids = {pid, 10}};
    return client_send(c->fd, bytes, ko_dyno_encode(&m, bytes, sizeof bytes));
}

/* False: nothing has come. */
static bool client_hear(client *c, char *text, size_t size)
{
    char bytes[4096];
    ko_dyno_type type;
    kineto_string payload;
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0)
        return false;
    assert_true(ko_dyno_decode_answer(bytes, (size_t)n, &type, &payload, NULL));
    assert_int_equal(type, KO_DYNO_REQUEST);
    snprintf(text, size, "%.*s", (int)payload.size, payload.data);
    return true;
}

/* One that is served shows that the daemon goes on. */
static void expect_served(ko_dyno_daemon *d)
{
    char text[256] = "?";
    client c = client_named("dynoconfigclient-good");
    assert_true(client_ask(&c, 4711));
    for (int i = 0; i < 4; i++)
        turn(d);
    assert_true(client_hear(&c, text, sizeof text));
    assert_string_equal(text, "");
    client_close(&c);
}

static ko_dyno_matches trigger(ko_dyno_daemon *d, const int32_t *pids, uint32_t count,
                               const char *config)
{
    ko_dyno_matches out;
    ko_dyno_trigger t = {
        .pids = pids, .pid_count = count, .limit = -1, .config = kb_string(config)};
    assert_int_equal(ko_dyno_registry_trigger(ko_dyno_daemon_registry(d), &t,
                                              kb_clock_ns(CLOCK_MONOTONIC), &out, NULL),
                     KINETO_OK);
    return out;
}

static void give(ko_dyno_daemon *d, int32_t pid, size_t triggered)
{
    ko_dyno_matches m = trigger(d, &pid, 1, "A=1");
    assert_int_equal(m.triggered.count, triggered);
    ko_dyno_matches_free(&m);
}

/* ---- clients of the RPC ------------------------------------------------------------------------ */

static int rpc_connect(const ko_dyno_daemon *d)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(ko_dyno_daemon_port(d)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void rpc_send(int fd, const char *json)
{
    char frame[1024];
    int32_t size = (int32_t)strlen(json);
    memcpy(frame, &size, 4);
    memcpy(frame + 4, json, (size_t)size);
    assert_int_equal(send(fd, frame, (size_t)size + 4, MSG_NOSIGNAL), size + 4);
}

/* Until the daemon closes, which it does after its answer; empty: none. */
static void rpc_hear(ko_dyno_daemon *d, int fd, char *json, size_t room)
{
    char frame[4096] = {0};
    size_t have = 0;
    for (;;) {
        assert_int_equal(ko_dyno_daemon_run(d, 1, -1, NULL), KINETO_OK);
        ssize_t n = recv(fd, frame + have, sizeof frame - 1 - have, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    int32_t size;
    memcpy(&size, frame, 4);
    assert_true(have == 0 || have == (size_t)size + 4);
    snprintf(json, room, "%s", have ? frame + 4 : "");
}

static void expect_rpc_served(ko_dyno_daemon *d)
{
    char json[256];
    int fd = rpc_connect(d);
    rpc_send(fd, "{\"fn\":\"getStatus\"}");
    rpc_hear(d, fd, json, sizeof json);
    assert_string_equal(json, "{\"status\":1}");
    close(fd);
}

/* ---- tests ------------------------------------------------------------------------------------- */

static void a_trigger_over_tcp_reaches_a_process_once(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(true);
    char text[512], json[512];
    client c = client_named("dynoconfigclient-1");
    assert_true(client_ask(&c, 100));
    turn(d);
    assert_true(client_hear(&c, text, sizeof text));
    int fd = rpc_connect(d);
    rpc_send(fd, "{\"fn\":\"setKinetOnDemandRequest\",\"config\":\"A=1\",\"pids\":[10]}");
    rpc_hear(d, fd, json, sizeof json);
    close(fd);
    assert_string_equal(json, "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[100],"
                              "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],"
                              "\"processesMatched\":[100]}");
    for (int i = 0; i < 2; i++) {
        assert_true(client_ask(&c, 100));
        turn(d);
        assert_true(client_hear(&c, text, sizeof text));
        assert_int_equal(strncmp(text, "\n    A=1\n    REQUEST_TRACE_ID=", 30) == 0, i == 0);
    }
    client_close(&c);
    ko_dyno_daemon_destroy(d);
}

static void our_own_client_gets_a_text_once(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(false);
    ko_dyno_client *c = NULL;
    uint64_t now_ns = 1, wake_ns;
    int texts = 0;
    assert_int_equal(ko_dyno_client_create(directory, &c, NULL), KINETO_OK);
    for (int i = 0; i < 40; i++) {
        kineto_string text;
        assert_int_equal(ko_dyno_client_run(c, now_ns, false, 1000000000, &text, &wake_ns, NULL),
                         KINETO_OK);
        turn(d);
        if (i == 10)
            give(d, (int32_t)getpid(), 1);
        texts += text.size > 0 && memcmp(text.data, "\n    A=1\n", 9) == 0;
        now_ns += 300000000;
    }
    assert_int_equal(texts, 1);
    ko_dyno_client_destroy(c);
    ko_dyno_daemon_destroy(d);
}

static void a_context_is_answered_with_a_count(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(false);
    client c = client_named("dynoconfigclient-1");
    char bytes[128], answer[128];
    ko_dyno_message m = {.type = KO_DYNO_CONTEXT, .gpu = 1, .pid = 5};
    assert_true(client_send(c.fd, bytes, ko_dyno_encode(&m, bytes, sizeof bytes)));
    turn(d);
    static const char wanted[44] = "\4\0\0\0\0\0\0\0ctxt\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                   "\0\0\0\0\0\0\0\1";
    assert_int_equal(recv(c.fd, answer, sizeof answer, MSG_DONTWAIT), 44);
    assert_memory_equal(answer, wanted, 44);
    client_close(&c);
    ko_dyno_daemon_destroy(d);
}

static void send_with_descriptor(int fd, int passed)
{
    ko_dyno_address to;
    (void)ko_dyno_address_of(KO_DYNO_DAEMON, directory, &to, NULL);
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec bytes = {&byte, 1};
    struct msghdr m = {.msg_name = &to.address,
                       .msg_namelen = to.size,
                       .msg_iov = &bytes,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    control.head = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof passed), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &passed, sizeof passed);
    assert_int_equal(sendmsg(fd, &m, MSG_DONTWAIT), 1);
}

static void datagrams_that_lie_are_consumed_and_the_next_one_is_served(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(false);
    client bad = client_named("dynoconfigclient-bad");
    int unbound = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), before = 0;
    char good[512], bytes[2048], text[64];
    ko_dyno_message m = {.type = KO_DYNO_REQUEST, .wants = 2, .pid_count = 2, .pids = {6, 10}};
    size_t size = ko_dyno_encode(&m, good, sizeof good);
    static const struct {
        size_t at;
        uint64_t value;
        size_t bytes;
    } lies[] = {{0, UINT64_C(1) << 62, 8},
                {0, UINT64_MAX, 8},
                {0, 0, 8},
                {0, 23, 8},
                {0, 25, 8},
                {8, UINT64_MAX, 8},
                {8, 'x', 8},
                {44, UINT32_MAX, 4},
                {44, INT32_MAX, 4},
                {44, 0, 4},
                {44, 1, 4},
                {44, 1000, 4},
                {44, 65, 4},
                {11, '-', 1},
                {44, 0x80000000u, 4}};
    for (size_t round = 0; round < 20; round++) {
        assert_true(client_send(bad.fd, "", 0));
        turn(d);
        for (size_t i = 0; i < KB_COUNT(lies); i++) {
            memcpy(bytes, good, size);
            memcpy(bytes + lies[i].at, &lies[i].value, lies[i].bytes);
            assert_true(client_send(bad.fd, bytes, size));
            turn(d);
            assert_false(client_hear(&bad, text, sizeof text));
        }
        memset(bytes, 0xff, sizeof bytes);
        assert_true(client_send(bad.fd, bytes, sizeof bytes)); /* longer than any */
        assert_true(client_send(unbound, good, size));
        assert_true(client_send(unbound, "", 0));
        turn(d);
        for (int i = 0; i < 5; i++)
            send_with_descriptor(bad.fd, STDIN_FILENO);
        turn(d);
        expect_served(d);
        before = before ? before : descriptors();
        assert_int_equal(descriptors(), before);
    }
    for (size_t n = 0; n < size; n++) { /* cut off anywhere */
        assert_true(client_send(bad.fd, good, n));
        turn(d);
        assert_false(client_hear(&bad, text, sizeof text));
    }
    close(unbound);
    client_close(&bad);
    ko_dyno_daemon_destroy(d);
}

/* By an abstract name, where others have paths. */
static void a_sender_that_is_bound_elsewhere_is_ignored(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(false);
    struct sockaddr_un where = {.sun_family = AF_UNIX};
    client c = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    assert_int_equal(bind(c.fd, (struct sockaddr *)&where, sizeof where.sun_family), 0);
    assert_true(client_ask(&c, 5));
    turn(d);
    assert_int_equal(recv(c.fd, &where, sizeof where, MSG_DONTWAIT), -1);
    expect_served(d);
    close(c.fd);
    ko_dyno_daemon_destroy(d);
}

static void a_text_that_was_not_taken_is_given_at_the_next_poll(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(false);
    char text[256];
    int texts = 0;
    client c = client_named("dynoconfigclient-1");
    for (int i = 0; i < 40; i++) { /* its queue is full of empty answers */
        assert_true(client_ask(&c, 100));
        turn(d);
    }
    give(d, 100, 1);
    assert_true(client_ask(&c, 100));
    turn(d);
    give(d, 100, 0); /* still waits */
    while (client_hear(&c, text, sizeof text))
        texts += text[0] != '\0';
    assert_int_equal(texts, 0);
    assert_true(client_ask(&c, 100));
    client_close(&c); /* before the answer */
    turn(d);
    give(d, 100, 0);
    expect_served(d);
    c = client_named("dynoconfigclient-2");
    for (int i = 0; i < 3; i++) {
        assert_true(client_ask(&c, 100));
        turn(d);
        assert_true(client_hear(&c, text, sizeof text));
        texts += text[0] != '\0';
    }
    assert_int_equal(texts, 1);
    client_close(&c);
    ko_dyno_daemon_destroy(d);
}

/* As much as the buffer holds: it is the daemon's, for all together. */
static void unread_long_texts_leave_room_for_short_answers(void **state)
{
    (void)state;
    enum { SILENT = 40, TEXT = 199000 };
    ko_dyno_daemon *d = start(false);
    client all[SILENT], c;
    char name[64], text[256], *large = calloc(1, TEXT + 1);
    memset(large, 'x', TEXT);
    for (int i = 0; i < SILENT; i++) {
        snprintf(name, sizeof name, KO_DYNO_CLIENT "-%d", i);
        all[i] = client_named(name);
    }
    for (int round = 0; round < 12; round++)
        for (int32_t i = 0; i < SILENT; i++) {
            int32_t pid = 1000 + i;
            assert_true(client_ask(&all[i], pid));
            turn(d);
            ko_dyno_matches m = trigger(d, &pid, 1, large);
            ko_dyno_matches_free(&m);
        }
    c = client_named("dynoconfigclient-good");
    for (int i = 0; i < 3; i++) {
        assert_true(client_ask(&c, 5));
        turn(d);
        assert_true(client_hear(&c, text, sizeof text));
        assert_int_equal(strncmp(text, "\n    A=1\n", 9) == 0, i > 0);
        give(d, 5, 1);
    }
    client_close(&c);
    for (int i = 0; i < SILENT; i++)
        client_close(&all[i]);
    free(large);
    ko_dyno_daemon_destroy(d);
}

static void rpc_clients_that_are_silent_or_leave_block_no_other(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(true);
    int silent[300];
    for (size_t i = 0; i < KB_COUNT(silent); i++)
        silent[i] = rpc_connect(d);
    expect_rpc_served(d); /* more than it takes at once: the silent ones make room */
    expect_served(d);
    for (size_t i = 0; i < KB_COUNT(silent); i++)
        close(silent[i]);
    for (int i = 0; i < 50; i++) { /* gone before the answer, some with a reset */
        struct linger reset = {.l_onoff = 1};
        int fd = rpc_connect(d);
        rpc_send(fd, "{\"fn\":\"getStatus\"}");
        if (i % 2)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
        turn(d);
    }
    expect_rpc_served(d);
    ko_dyno_daemon_destroy(d);
}

static void more_rpc_clients_than_are_taken_at_once_are_all_answered(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(true);
    int all[300];
    char json[64];
    for (size_t i = 0; i < KB_COUNT(all); i++) {
        all[i] = rpc_connect(d);
        rpc_send(all[i], "{\"fn\":\"getStatus\"}");
    }
    for (size_t i = KB_COUNT(all); i-- > 0;) {
        rpc_hear(d, all[i], json, sizeof json);
        assert_string_equal(json, "{\"status\":1}");
        close(all[i]);
    }
    ko_dyno_daemon_destroy(d);
}

static void rpc_lengths_that_lie_are_closed_at_once(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(true);
    static const int32_t sizes[] = {INT32_MAX, INT32_MIN, -1, 0, (1 << 20) + 1};
    char json[64];
    for (size_t i = 0; i < KB_COUNT(sizes); i++) {
        int fd = rpc_connect(d);
        assert_int_equal(send(fd, &sizes[i], 4, MSG_NOSIGNAL), 4);
        rpc_hear(d, fd, json, sizeof json);
        assert_string_equal(json, "");
        close(fd);
    }
    expect_rpc_served(d);
    ko_dyno_daemon_destroy(d);
}

static void rpc_frames_may_come_in_pieces_of_any_size(void **state)
{
    (void)state;
    ko_dyno_daemon *d = start(true);
    enum { SIZE = 1 << 20 };
    static char frame[4 + SIZE];
    int32_t size = SIZE;
    size_t sent = 0;
    char json[64];
    memcpy(frame, &size, 4);
    memset(frame + 4, ' ', SIZE);
    memcpy(frame + 4, "{\"fn\":\"getStatus\"}", 18);
    int fd = rpc_connect(d), before = descriptors();
    while (sent < sizeof frame) {
        size_t piece = sent < 30 ? 1 : KB_MIN((size_t)100000, sizeof frame - sent);
        ssize_t n = send(fd, frame + sent, piece, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        sent += (size_t)KB_MAX(n, 0);
        turn(d);
    }
    rpc_hear(d, fd, json, sizeof json);
    assert_string_equal(json, "{\"status\":1}");
    assert_int_equal(descriptors(), before); /* its side is closed, ours is open */
    close(fd);
    ko_dyno_daemon_destroy(d);
}

/* ---- many -------------------------------------------------------------------------------------- */

enum { CLIENTS = 200 };

typedef struct many {
    ko_dyno_daemon *d;
    client clients[CLIENTS];
    int waits[CLIENTS]; /* number of the trigger; 0: none */
    int triggered, received;
    uint64_t seed;
} many;

static void many_open(many *m, int i)
{
    char name[64];
    snprintf(name, sizeof name, KO_DYNO_CLIENT "-%d", i);
    m->clients[i] = client_named(name);
}

static void many_trigger(many *m, int number)
{
    int32_t pids[50];
    char config[32];
    uint32_t count = (uint32_t)(next_random(&m->seed) % KB_COUNT(pids));
    for (uint32_t i = 0; i < count; i++)
        pids[i] = 1000 + (int32_t)(next_random(&m->seed) % CLIENTS);
    snprintf(config, sizeof config, "T=%d", number);
    ko_dyno_matches got = trigger(m->d, pids, count, config);
    for (size_t i = 0; i < got.triggered.count; i++) {
        int *waits = &m->waits[got.triggered.data[i] - 1000];
        assert_int_equal(*waits, 0); /* else it were busy */
        *waits = number;
    }
    m->triggered += (int)got.triggered.count;
    ko_dyno_matches_free(&got);
}

static void many_hear(many *m, int i)
{
    char text[256];
    while (client_hear(&m->clients[i], text, sizeof text)) {
        int number = 0;
        if (!text[0])
            continue;
        assert_int_equal(sscanf(text, "\n    T=%d\n", &number), 1);
        assert_int_equal(number, m->waits[i]);
        m->waits[i] = 0;
        m->received++;
    }
}

static void many_ask(many *m, int i)
{
    while (!client_ask(&m->clients[i], 1000 + i)) /* the daemon's queue is full */
        turn(m->d);
}

/* What was delivered counts for the registry, so it is heard before the next trigger. */
static void many_round(many *m, int number)
{
    for (int i = 0; i < CLIENTS; i++) {
        uint64_t dice = next_random(&m->seed) % 16;
        if (dice == 0 && !m->waits[i]) { /* leaves with its question unanswered, and comes back */
            many_ask(m, i);
            client_close(&m->clients[i]);
            many_open(m, i);
        }
        if (dice == 1)
            (void)client_send(m->clients[i].fd, "", 0);
        for (uint64_t k = dice == 2 ? 15 : dice % 3; k > 0; k--)
            many_ask(m, i);
    }
    for (int i = 0; i < 8; i++)
        turn(m->d);
    for (int i = 0; i < CLIENTS; i++)
        many_hear(m, i);
    many_trigger(m, number);
}

static void two_hundred_processes_lose_no_text_and_get_none_twice(void **state)
{
    (void)state;
    static many m = {.seed = 9};
    m.d = start(true);
    longest_turn_ns = 0;
    for (int i = 0; i < CLIENTS; i++)
        many_open(&m, i);
    for (int number = 1; number <= FEWER(300, 100); number++)
        many_round(&m, number);
    for (int i = 0; i < CLIENTS; i++) {
        many_hear(&m, i);
        many_ask(&m, i);
        turn(m.d);
        turn(m.d);
        many_hear(&m, i);
        assert_int_equal(m.waits[i], 0);
        client_close(&m.clients[i]);
    }
    assert_int_equal(m.triggered, m.received);
    assert_true(m.received > 1000);
    print_message("%d texts; the longest turn of the daemon took %llu us\n", m.received,
                  (unsigned long long)longest_turn_ns / 1000);
    ko_dyno_daemon_destroy(m.d);
}

/* ---- beginning and end ------------------------------------------------------------------------- */

static void expect_taken(const char *part)
{
    ko_dyno_daemon *second = NULL;
    kineto_error err = {0};
    char pid[32];
    ko_dyno_daemon_options o = {.directory = directory[0] ? directory : NULL, .no_rpc = true};
    assert_int_equal(ko_dyno_daemon_create(&o, &second, &err), KINETO_E_BUSY);
    assert_null(second);
    snprintf(pid, sizeof pid, "process %d ", (int)getpid());
    if (!strstr(err.message, pid) || !strstr(err.message, part))
        fail_msg("%s", err.message);
}

static void a_name_that_is_taken_says_by_whom_and_leftovers_are_replaced(void **state)
{
    (void)state;
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/" KO_DYNO_DAEMON, directory);
    client left = client_named(KO_DYNO_DAEMON);
    close(left.fd);
    assert_int_equal(stat(path, &st), 0);
    ko_dyno_daemon *d = start(true);
    expect_taken(path);
    expect_served(d);
    kineto_error err = {0};
    ko_dyno_daemon *second = NULL;
    ko_dyno_daemon_options o = {.directory = "/nowhere/at/all"};
    assert_int_equal(ko_dyno_daemon_create(&o, &second, &err), KINETO_E_NOT_FOUND);
    ko_dyno_daemon_destroy(d);
    assert_int_not_equal(stat(path, &st), 0);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    o = (ko_dyno_daemon_options){.directory = directory};
    assert_int_equal(ko_dyno_daemon_create(&o, &second, &err), KINETO_E_BUSY);
    assert_int_equal(unlink(path), 0);
    o.host = "not an address";
    assert_int_equal(ko_dyno_daemon_create(&o, &second, &err), KINETO_E_ARGUMENT);
    assert_int_not_equal(stat(path, &st), 0); /* no file stays */
}

/* It cannot be asked whether it is left over, by datagrams; nor by other users, whom its mode
 * keeps out. */
static void a_socket_that_refuses_us_is_removed(void **state)
{
    (void)state;
    ko_dyno_address a;
    struct stat before, st;
    assert_int_equal(ko_dyno_address_of(KO_DYNO_DAEMON, directory, &a, NULL), KINETO_OK);
    int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stream, (struct sockaddr *)&a.address, a.size), 0);
    assert_int_equal(listen(stream, 1), 0);
    assert_int_equal(stat(a.address.sun_path, &before), 0);
    expect_taken(a.address.sun_path);
    assert_int_equal(stat(a.address.sun_path, &st), 0);
    assert_int_equal(st.st_ino, before.st_ino);
    close(stream); /* now it is */
    ko_dyno_daemon *d = start(false);
    expect_served(d);
    ko_dyno_daemon_destroy(d);
}

static void a_port_that_is_taken_is_said(void **state)
{
    (void)state;
    kineto_error err = {0};
    ko_dyno_daemon *d = start(true), *second = NULL;
    char other[64];
    assert_non_null(make_directory(other, sizeof other));
    ko_dyno_daemon_options o = {.directory = other, .port = ko_dyno_daemon_port(d)};
    assert_int_equal(ko_dyno_daemon_create(&o, &second, &err), KINETO_E_BUSY);
    assert_non_null(strstr(err.message, "port"));
    assert_int_equal(rmdir(other), 0);
    ko_dyno_daemon_destroy(d);
}

static void a_descriptor_ends_waiting(void **state)
{
    (void)state;
    int readable = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    ko_dyno_daemon *d = start(true);
    assert_int_equal(ko_dyno_daemon_run(d, -1, readable, NULL), KINETO_OK);
    close(readable);
    ko_dyno_daemon_destroy(d);
}

/* Last: abstract names are those of the network namespace, and this one is ours alone. */
static void abstract_names_work_and_are_reported_when_taken(void **state)
{
    (void)state;
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        skip();
    char text[64];
    rmdir(directory);
    directory[0] = '\0';
    ko_dyno_daemon *d = start(false);
    expect_served(d);
    expect_taken("@dynolog@");
    client c = {.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
    struct sockaddr_un bare = {.sun_family = AF_UNIX, .sun_path = "\0no-end"};
    assert_int_equal(bind(c.fd, (struct sockaddr *)&bare, 2 + 7), 0);
    assert_true(client_ask(&c, 5));
    turn(d);
    assert_false(client_hear(&c, text, sizeof text));
    expect_served(d);
    close(c.fd);
    ko_dyno_daemon_destroy(d);
}

static int open_directory(void **state)
{
    (void)state;
    return make_directory(directory, sizeof directory) ? 0 : -1;
}

static int close_directory(void **state)
{
    (void)state;
    return directory[0] ? rmdir(directory) : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trigger_over_tcp_reaches_a_process_once),
        cmocka_unit_test(our_own_client_gets_a_text_once),
        cmocka_unit_test(a_context_is_answered_with_a_count),
        cmocka_unit_test(datagrams_that_lie_are_consumed_and_the_next_one_is_served),
        cmocka_unit_test(a_sender_that_is_bound_elsewhere_is_ignored),
        cmocka_unit_test(a_text_that_was_not_taken_is_given_at_the_next_poll),
        cmocka_unit_test(unread_long_texts_leave_room_for_short_answers),
        cmocka_unit_test(rpc_clients_that_are_silent_or_leave_block_no_other),
        cmocka_unit_test(more_rpc_clients_than_are_taken_at_once_are_all_answered),
        cmocka_unit_test(rpc_lengths_that_lie_are_closed_at_once),
        cmocka_unit_test(rpc_frames_may_come_in_pieces_of_any_size),
        cmocka_unit_test(two_hundred_processes_lose_no_text_and_get_none_twice),
        cmocka_unit_test(a_name_that_is_taken_says_by_whom_and_leftovers_are_replaced),
        cmocka_unit_test(a_socket_that_refuses_us_is_removed),
        cmocka_unit_test(a_port_that_is_taken_is_said),
        cmocka_unit_test(a_descriptor_ends_waiting),
        cmocka_unit_test(abstract_names_work_and_are_reported_when_taken),
    };
    return cmocka_run_group_tests(tests, open_directory, close_directory);
}

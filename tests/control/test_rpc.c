/* The asking end of dyno's RPC: before our own daemon, and before servers that follow a script,
 * some of which are none. */
#include "../unit/unit.h"

#include "ondemand/dynolog/rpc_client.h"
#include "ondemand/dynolog/dyno.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

static const char token[] = "0123456789abcdef0123456789abcdef";

/* ---- addresses --------------------------------------------------------------------------------- */

static void addresses_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port; /* 1: refused */
    } cases[] = {{"127.0.0.1:1234", "127.0.0.1", 1234},
                 {"node7", "node7", KO_RPC_PORT},
                 {":0", "", 0},
                 {"[::1]:65535", "::1", 65535},
                 {"[::1]", "::1", KO_RPC_PORT},
                 {"fe80::1%eth0", "fe80::1%eth0", KO_RPC_PORT},
                 {"", "", 1},
                 {"node7:", "", 1},
                 {"node7:65536", "", 1},
                 {"node7:-1", "", 1},
                 {"node7:99999999999999999999", "", 1},
                 {"node7: 12", "", 1},
                 {"node7:12x", "", 1},
                 {"[::1", "", 1},
                 {"[::1]x", "", 1},
                 {"[::1]x:12", "", 1}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        ko_rpc_daemon d = {.token = token, .limit_ms = 7};
        kineto_error err = {0};
        kineto_status status = ko_rpc_parse_address(cases[i].text, &d, &err);
        if ((status == KINETO_OK) != (cases[i].port != 1))
            fail_msg("'%s': %s", cases[i].text, err.message);
        if (status != KINETO_OK)
            continue;
        assert_string_equal(d.host, cases[i].host);
        assert_int_equal(d.port, cases[i].port);
        assert_ptr_equal(d.token, token);
        assert_int_equal(d.limit_ms, 7);
    }
    ko_rpc_daemon elsewhere = {.port = 2000};
    assert_int_equal(ko_rpc_parse_address("::1778", &elsewhere, NULL), KINETO_OK);
    assert_string_equal(elsewhere.host, "::1778");
    assert_int_equal(elsewhere.port, 2000); /* that is the end of the address */
    assert_int_equal(ko_rpc_parse_address("node7:1778", &elsewhere, NULL), KINETO_OK);
    assert_int_equal(elsewhere.port, 1778);
    char longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(ko_rpc_parse_address(longest, &(ko_rpc_daemon){0}, NULL), KINETO_E_ARGUMENT);
}

/* ---- secrets ----------------------------------------------------------------------------------- */

static kineto_status read_token(const char *path, const char *text, size_t size, mode_t mode,
                                char out[KO_RPC_TOKEN_BYTES])
{
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, size), size);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    return ko_rpc_read_token(path, out, NULL);
}

static void a_secret_is_one_line_that_only_we_may_read(void **state)
{
    (void)state;
    char directory[64], path[96], got[KO_RPC_TOKEN_BYTES], longest[600];
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/token", directory);
    assert_int_equal(ko_rpc_read_token(path, got, NULL), KINETO_E_NOT_FOUND);
    assert_int_equal(ko_rpc_read_token(directory, got, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(read_token(path, "0123456789abcdef\r\nmore", 22, 0600, got), KINETO_OK);
    assert_string_equal(got, "0123456789abcdef");
    assert_int_equal(read_token(path, "0123456789abcdef", 16, 0400, got), KINETO_OK);
    static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0777};
    for (size_t i = 0; i < KB_COUNT(open_modes); i++)
        assert_int_equal(read_token(path, "0123456789abcdef", 16, open_modes[i], got),
                         KINETO_E_PERMISSION);
    static const char *const wrong[] = {"",
                                        "\n0123456789abcdef",
                                        "0123456789abcde",
                                        "0123456789 abcdef",
                                        "0123456789\x7f"
                                        "abcdef",
                                        "0123456789\xc3\xa4"
                                        "abcdef"};
    for (size_t i = 0; i < KB_COUNT(wrong); i++)
        assert_int_equal(read_token(path, wrong[i], strlen(wrong[i]), 0600, got), KINETO_E_FORMAT);
    assert_int_equal(read_token(path,
                                "01234567\0"
                                "89abcdef",
                                17, 0600, got),
                     KINETO_E_FORMAT);
    memset(longest, 'x', sizeof longest);
    assert_int_equal(read_token(path, longest, 512, 0600, got), KINETO_OK);
    assert_int_equal(strlen(got), 512);
    assert_int_equal(read_token(path, longest, 513, 0600, got), KINETO_E_FORMAT);
    assert_int_equal(read_token(path, longest, 600, 0600, got), KINETO_E_FORMAT);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); /* no writer */
    assert_int_equal(ko_rpc_read_token(path, got, NULL), KINETO_E_ARGUMENT);
    unlink(path);
    rmdir(directory);
}

/* ---- our own daemon ---------------------------------------------------------------------------- */

typedef struct served {
    ko_dyno_daemon *daemon;
    pthread_t thread;
    int stop;
    char directory[64];
    ko_rpc_daemon at;
} served;

static void *serve(void *argument)
{
    served *s = argument;
    uint64_t value;
    while (read(s->stop, &value, sizeof value) < 0)
        assert_int_equal(ko_dyno_daemon_run(s->daemon, -1, s->stop, NULL), KINETO_OK);
    return NULL;
}

static void served_begin(served *s, const char *secret, int32_t processes)
{
    *s = (served){.stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    kineto_error err = {0};
    assert_non_null(make_directory(s->directory, sizeof s->directory));
    ko_dyno_daemon_options o = {.directory = s->directory, .token = secret};
    if (ko_dyno_daemon_create(&o, &s->daemon, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    for (int32_t pid = 100; pid < 100 + processes; pid++) {
        ko_dyno_message m = {.type = KO_DYNO_REQUEST, .job = 3, .pid_count = 2, .pids = {pid, 10}};
        assert_null(ko_dyno_registry_poll(ko_dyno_daemon_registry(s->daemon), &m,
                                         (uint32_t)geteuid(), kb_clock_ns(CLOCK_MONOTONIC)));
    }
    s->at = (ko_rpc_daemon){.port = ko_dyno_daemon_port(s->daemon), .token = secret};
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void served_end(served *s)
{
    assert_int_equal(write(s->stop, &(uint64_t){1}, 8), 8);
    pthread_join(s->thread, NULL);
    close(s->stop);
    ko_dyno_daemon_destroy(s->daemon);
    assert_int_equal(rmdir(s->directory), 0);
}

static void our_daemon_answers_all_questions(void **state)
{
    (void)state;
    served s;
    served_begin(&s, NULL, 3);
    char version[64];
    int64_t number = 0;
    ko_rpc_list list;
    ko_rpc_result result;
    const int32_t pids[] = {101, 102};
    ko_rpc_request request = {.job = 3,
                              .pids = pids,
                              .pid_count = 2,
                              .limit = 1,
                              .config = kb_string("A=\"1\\\"\nB=\xc3\xa4")};
    assert_int_equal(ko_rpc_status(&s.at, &number, NULL), KINETO_OK);
    assert_int_equal(number, 1);
    assert_int_equal(ko_rpc_version(&s.at, version, NULL), KINETO_OK);
    assert_string_equal(version, "ckineto " KINETO_VERSION);
    for (uint64_t busy = 0; busy < 2; busy++) {
        assert_int_equal(ko_rpc_trigger(&s.at, &request, &result, NULL), KINETO_OK);
        assert_int_equal(result.matched.count, 2);
        assert_int_equal(result.matched.data[0], 101);
        assert_int_equal(result.triggered.count, 1);
        assert_int_equal(result.triggered.data[0], 101 + busy);
        assert_int_equal(result.busy, busy);
        ko_rpc_result_free(&result);
    }
    request.pid_count = 0;
    request.limit = -1;
    assert_int_equal(ko_rpc_trigger(&s.at, &request, &result, NULL), KINETO_OK);
    assert_int_equal(result.matched.count, 3);
    assert_int_equal(result.triggered.data[0], 100);
    assert_int_equal(result.busy, 2);
    ko_rpc_result_free(&result);
    assert_int_equal(ko_rpc_list_processes(&s.at, &list, NULL), KINETO_OK);
    assert_int_equal(list.processes.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const ko_rpc_process *p = &list.processes.data[i];
        assert_int_equal(p->pid, 100 + i);
        assert_int_equal(p->job, 3);
        assert_int_equal(p->user, geteuid());
        assert_int_equal(p->pid_count, 2);
        assert_int_equal(list.pids.data[p->pids_at], 10);
        assert_int_equal(list.pids.data[p->pids_at + 1], 100 + i);
        assert_true(p->seen_ms_ago < 60000);
        assert_true(p->waits);
    }
    ko_rpc_list_free(&list);
    served_end(&s);
}

static void what_the_daemon_refuses_is_reported_in_its_words(void **state)
{
    (void)state;
    served s;
    served_begin(&s, NULL, 1);
    kineto_error err = {0};
    ko_rpc_result result;
    ko_rpc_request request = {.config = kb_string("A")};
    static char large[300000];
    memset(large, 'x', sizeof large);
    request.config = (kineto_string){large, sizeof large};
    assert_int_equal(ko_rpc_trigger(&s.at, &request, &result, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "200000 bytes"));
    assert_int_equal(result.matched.count, 0);
    request.config.size = 0;
    request.pids = &(int32_t){-4};
    request.pid_count = 1;
    assert_int_equal(ko_rpc_trigger(&s.at, &request, &result, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "invalid pid -4"));
    char *huge = calloc(1, (1 << 20) + 1);
    memset(huge, 'x', 1 << 20);
    request.config = (kineto_string){huge, 1 << 20};
    assert_int_equal(ko_rpc_trigger(&s.at, &request, &result, &err), KINETO_E_LIMIT);
    free(huge);
    served_end(&s);
}

static void a_token_opens_the_daemon_and_nothing_else_does(void **state)
{
    (void)state;
    served s;
    served_begin(&s, token, 1);
    int64_t number;
    kineto_error err = {0};
    ko_rpc_daemon without = s.at, other = s.at;
    without.token = NULL;
    other.token = "0123456789abcdef0123456789abcdeF";
    assert_int_equal(ko_rpc_status(&s.at, &number, &err), KINETO_OK);
    assert_int_equal(ko_rpc_status(&without, &number, &err), KINETO_E_PERMISSION);
    assert_non_null(strstr(err.message, "requires its token"));
    assert_int_equal(ko_rpc_status(&other, &number, &err), KINETO_E_PERMISSION);
    assert_non_null(strstr(err.message, "another token"));
    served_end(&s);
}

/* ---- servers that follow a script -------------------------------------------------------------- */

typedef struct script {
    const char *frame; /* sent as it is, byte by byte if slow */
    size_t bytes;
    bool slow, silent, reset;
} script;

typedef struct server {
    script what;
    int listener;
    pthread_t thread;
    ko_rpc_daemon at;
    char heard[4096];
    size_t heard_bytes;
} server;

static void hear_question(server *s, int fd)
{
    int32_t size = 0;
    while (s->heard_bytes < sizeof s->heard) {
        ssize_t n = recv(fd, s->heard + s->heard_bytes, sizeof s->heard - s->heard_bytes, 0);
        if (n <= 0)
            return;
        s->heard_bytes += (size_t)n;
        memcpy(&size, s->heard, s->heard_bytes >= 4 ? 4 : 0);
        if (s->heard_bytes >= 4 && s->heard_bytes == (size_t)size + 4)
            return;
    }
}

static void *follow(void *argument)
{
    server *s = argument;
    char byte;
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    if (!s->what.reset)
        hear_question(s, fd);
    for (size_t i = 0; s->what.slow && i < s->what.bytes; i++) {
        (void)send(fd, s->what.frame + i, 1, MSG_NOSIGNAL);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (!s->what.slow && s->what.bytes)
        (void)send(fd, s->what.frame, s->what.bytes, MSG_NOSIGNAL);
    if (s->what.silent)
        (void)recv(fd, &byte, 1, 0); /* until it goes away */
    close(fd);
    return NULL;
}

static void server_begin(server *s, script what)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    *s = (server){.what = what, .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_int_equal(bind(s->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->listener, 4), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&at, &size), 0);
    s->at = (ko_rpc_daemon){.port = ntohs(at.sin_port)};
    assert_int_equal(pthread_create(&s->thread, NULL, follow, s), 0);
}

static void server_end(server *s)
{
    pthread_join(s->thread, NULL);
    close(s->listener);
}

#define FRAME(head, text)                                                                          \
    {                                                                                              \
        .frame = head text, .bytes = sizeof(head text) - 1                                         \
    }

/* What dyno writes but for white space, in one piece; and what Dynolog 0.6.0 answers. */
static void dynologs_own_frames_are_understood(void **state)
{
    (void)state;
    static const char answer[] =
        "\xa6\0\0\0{\"activityProfilersBusy\":2,\"activityProfilersTriggered\":[7,2147483647],"
        "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],\"processesMatched\":[7,8,"
        "2147483647,"
        "9]}";
    char frame[sizeof answer];
    int32_t size = (int32_t)sizeof answer - 5;
    memcpy(frame, answer, sizeof answer);
    memcpy(frame, &size, 4);
    for (int slow = 0; slow < 2; slow++) {
        server s;
        ko_rpc_result r;
        ko_rpc_request request = {.job = -5,
                                  .pids = (int32_t[]){1, 2},
                                  .pid_count = 2,
                                  .limit = INT64_MAX,
                                  .config = kb_string("A=\"b\"\n")};
        server_begin(&s, (script){.frame = frame, .bytes = sizeof frame - 1, .slow = slow});
        s.at.token = slow ? "secret" : NULL;
        assert_int_equal(ko_rpc_trigger(&s.at, &request, &r, NULL), KINETO_OK);
        server_end(&s);
        assert_int_equal(r.matched.count, 4);
        assert_int_equal(r.matched.data[3], 9);
        assert_int_equal(r.triggered.count, 2);
        assert_int_equal(r.triggered.data[1], INT32_MAX);
        assert_int_equal(r.busy, 2);
        ko_rpc_result_free(&r);
        s.heard[s.heard_bytes] = '\0';
        memcpy(&size, s.heard, 4);
        assert_int_equal(size, s.heard_bytes - 4);
        assert_string_equal(
            s.heard + 4, slow ? "{\"fn\":\"setKinetOnDemandRequest\",\"config\":\"A=\\\"b\\\"\\n\","
                                "\"job_id\":-5,\"pids\":[1,2],\"process_limit\":2147483647,"
                                "\"token\":\"secret\"}"
                              : "{\"fn\":\"setKinetOnDemandRequest\",\"config\":\"A=\\\"b\\\"\\n\","
                                "\"job_id\":-5,\"pids\":[1,2],\"process_limit\":2147483647}");
    }
}

static void malformed_answers_are_reported(void **state)
{
    (void)state;
    static const struct {
        script what;
        kineto_status wanted;
    } cases[] = {{FRAME("", ""), KINETO_E_UNSUPPORTED},
                 {{.reset = true}, KINETO_E_UNSUPPORTED},
                 {FRAME("\2", ""), KINETO_E_FORMAT},
                 {FRAME("\0\0\0\0", ""), KINETO_E_FORMAT},
                 {FRAME("\xff\xff\xff\xff", ""), KINETO_E_FORMAT},
                 {FRAME("\xff\xff\xff\x7f", "{"), KINETO_E_FORMAT},
                 {FRAME("\x20\0\0\0", "{\"status\":1}"), KINETO_E_FORMAT},
                 {FRAME("\xff\xff\xff\0", "{\"status\":1}"), KINETO_E_FORMAT},
                 {FRAME("\x04\0\0\0", "{]}]"), KINETO_E_FORMAT},
                 {FRAME("\x02\0\0\0", "[]"), KINETO_E_FORMAT},
                 {FRAME("\x02\0\0\0", "17"), KINETO_E_FORMAT},
                 {FRAME("\x02\0\0\0", "{}"), KINETO_E_FORMAT},
                 {FRAME("\x0d\0\0\0", "{\"status\":[]}"), KINETO_E_FORMAT},
                 {FRAME("\x13\0\0\0", "{\"status\":\"failed\"}"), KINETO_E_ARGUMENT},
                 {FRAME("\x2c\0\0\0", "{\"status\":\"failed: permission denied: no\"}  "),
                  KINETO_E_PERMISSION},
                 {FRAME("\x10\0\0\0", " \n{\"status\" : 1}"), KINETO_OK}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        server s;
        int64_t number = 0;
        kineto_error err = {0};
        server_begin(&s, cases[i].what);
        kineto_status status = ko_rpc_status(&s.at, &number, &err);
        server_end(&s);
        /* One that closes with our question unread resets the connection. */
        if (status != cases[i].wanted)
            fail_msg("case %zu: %d, %s", i, status, err.message);
    }
}

static void a_time_before_1970_is_not_an_answer(void **state)
{
    (void)state;
    static const struct {
        script what;
        int64_t wanted; /* -1: refused */
    } cases[] = {{FRAME("\x0f\0\0\0", "{\"time_ns\": -1}"), -1},
                 {FRAME("\x21\0\0\0", "{\"time_ns\": -9223372036854775808}"), -1},
                 {FRAME("\x20\0\0\0", "{\"time_ns\": 9223372036854775808}"), -1},
                 {FRAME("\x20\0\0\0", "{\"time_ns\": 9223372036854775807}"), INT64_MAX},
                 {FRAME("\x0e\0\0\0", "{\"time_ns\": 0}"), 0}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        server s;
        int64_t time_ns = -1;
        kineto_error err = {0};
        server_begin(&s, cases[i].what);
        kineto_status status = ko_rpc_time(&s.at, &time_ns, &err);
        server_end(&s);
        if (status != (cases[i].wanted < 0 ? KINETO_E_FORMAT : KINETO_OK))
            fail_msg("case %zu: %d, %s", i, status, err.message);
        if (status == KINETO_OK)
            assert_int_equal(time_ns, cases[i].wanted);
    }
}

static void a_server_that_does_not_answer_costs_the_limit_and_no_more(void **state)
{
    (void)state;
    static const script all[] = {{.silent = true}, FRAME("\x0c\0\0\0", "{\"sta")};
    for (size_t i = 0; i < KB_COUNT(all); i++) {
        server s;
        int64_t number;
        kineto_error err = {0};
        script what = all[i];
        what.silent = true;
        server_begin(&s, what);
        s.at.limit_ms = 60;
        uint64_t before = kb_clock_ns(CLOCK_MONOTONIC);
        assert_int_equal(ko_rpc_status(&s.at, &number, &err), KINETO_E_BUSY);
        uint64_t took_ms = (kb_clock_ns(CLOCK_MONOTONIC) - before) / 1000000;
        assert_true(took_ms >= 60 && took_ms < 10000);
        assert_non_null(strstr(err.message, "60 ms"));
        server_end(&s);
    }
}

static void a_socket_without_listener_is_reported(void **state)
{
    (void)state;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int64_t number;
    kineto_error err = {0};
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, but deaf */
    assert_int_equal(bind(taken, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&at, &size), 0);
    ko_rpc_daemon d = {.host = "127.0.0.1", .port = ntohs(at.sin_port)};
    assert_int_equal(ko_rpc_status(&d, &number, &err), KINETO_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "ckineto daemon"));
    close(taken);
    memset(d.host, 'x', 70); /* longer than a name in the DNS: no query */
    assert_int_equal(ko_rpc_status(&d, &number, &err), KINETO_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "cannot resolve host"));
}

/* A server may say anything in a list. */
static void lists_of_processes_are_read_strictly(void **state)
{
    (void)state;
    static const char good[] = "{\"job_id\":-9223372036854775808,\"pid\":5,\"pids\":[1,5],\"seen_"
                               "ms_ago\":18446744073709551615,"
                               "\"user\":4294967295,\"waits\":true,\"more\":{}}";
    static const char *const bad[] = {
        "1",
        "[]",
        "{}",
        "null",
        "{\"job_id\":1,\"pid\":2147483648,\"pids\":[],\"seen_ms_ago\":1,\"user\":1,\"waits\":true}",
        "{\"job_id\":1,\"pid\":1,\"pids\":{},\"seen_ms_ago\":1,\"user\":1,\"waits\":true}",
        "{\"job_id\":1,\"pid\":1,\"pids\":[\"1\"],\"seen_ms_ago\":1,\"user\":1,\"waits\":true}",
        "{\"job_id\":1,\"pid\":1,\"pids\":[],\"seen_ms_ago\":-1,\"user\":1,\"waits\":true}",
        "{\"job_id\":1,\"pid\":1,\"pids\":[],\"seen_ms_ago\":1,\"user\":-1,\"waits\":true}",
        "{\"job_id\":1,\"pid\":1,\"pids\":[],\"seen_ms_ago\":1,\"user\":1}"};
    char frame[1024];
    for (size_t i = 0; i <= KB_COUNT(bad); i++) {
        bool fine = i == KB_COUNT(bad);
        server s;
        ko_rpc_list list;
        int32_t size = snprintf(frame + 4, sizeof frame - 4, "{\"processes\":[%s,%s]}", good,
                                fine ? good : bad[i]);
        memcpy(frame, &size, 4);
        server_begin(&s, (script){.frame = frame, .bytes = (size_t)size + 4});
        kineto_status status = ko_rpc_list_processes(&s.at, &list, NULL);
        server_end(&s);
        assert_int_equal(status, fine ? KINETO_OK : KINETO_E_FORMAT);
        assert_int_equal(list.processes.count, fine ? 2 : 0);
        if (!fine)
            continue;
        assert_int_equal(list.processes.data[1].pids_at, 2);
        assert_int_equal(list.processes.data[1].user, UINT32_MAX);
        assert_true(list.processes.data[1].job == INT64_MIN);
        ko_rpc_list_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(a_secret_is_one_line_that_only_we_may_read),
        cmocka_unit_test(our_daemon_answers_all_questions),
        cmocka_unit_test(what_the_daemon_refuses_is_reported_in_its_words),
        cmocka_unit_test(a_token_opens_the_daemon_and_nothing_else_does),
        cmocka_unit_test(dynologs_own_frames_are_understood),
        cmocka_unit_test(malformed_answers_are_reported),
        cmocka_unit_test(a_time_before_1970_is_not_an_answer),
        cmocka_unit_test(a_server_that_does_not_answer_costs_the_limit_and_no_more),
        cmocka_unit_test(a_socket_without_listener_is_reported),
        cmocka_unit_test(lists_of_processes_are_read_strictly),
    };
    return RUN_TESTS(tests);
}

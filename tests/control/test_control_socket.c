/* The control socket of a process and its other end: what is asked and answered, and what hostile,
 * slow and vanished clients do not do to other clients. */
#include "control_fixture.h"

#include "ondemand/listen/control_socket_impl.h"

static int open_descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* A trace at once, to where requests may write. */
static const char *request_of(control_test *t, const char *more)
{
    static char text[512];
    snprintf(text, sizeof text,
             "ACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_LOG_FILE=%s/a.json\n%s", t->f->directory,
             more);
    return text;
}

static void status_says_everything(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    ko_controller_step(t->f->controller, now_ns());
    ko_controller_step(t->f->controller, now_ns());
    say(p, "status", "");
    ko_control_answer a = answer_of(p);
    assert_string_equal(a.verb, "status");
    assert_int_equal(a.status.pid, getpid());
    assert_int_equal(ko_control_peer_pid(p), getpid());
    assert_int_equal(a.uid, geteuid());
    assert_true(strncmp(a.process_name, "test_control_so", 15) == 0); /* the system may cut it */
    assert_string_equal(a.host, "process");
    assert_string_equal(a.state_name, "wait");
    assert_int_equal(a.status.state, KO_ONDEMAND_WAIT);
    assert_int_equal(a.status.iteration, 1);
    assert_true(a.status.ring);
    assert_false(a.status.preempted);
    assert_int_equal(a.status.traces, 0);
    assert_int_equal(a.pid_count, 1);
    assert_int_equal(a.pids[0], getpid());
    assert_string_equal(a.version, kineto_version());
    ko_control_close(p);
    control_end(t);
}

static uint32_t three_programs(void *context, uint32_t *pids, uint32_t room)
{
    assert_true(room >= 3);
    for (uint32_t i = 0; i < 3; i++)
        pids[i] = *(const uint32_t *)context + i;
    return 3;
}

static void a_recorder_names_its_programs(void **state)
{
    (void)state;
    uint32_t first = (uint32_t)getppid();
    char name[64] = "", both[130];
    assert_true(kb_os_process_name(first, name, sizeof name) > 0);
    control_test *t = control_new(false);
    ko_control_socket_set_pids(t->listener, three_programs, &first);
    fixture_turn(t->f);
    ko_control_peer *p = connected();
    say(p, "status", "");
    ko_control_answer a = answer_of(p);
    assert_int_equal(a.pid_count, 4);
    assert_int_equal(a.pids[0], getpid());
    assert_int_equal(a.pids[3], first + 2);
    snprintf(both, sizeof both, ": %s", name);
    assert_non_null(strstr(a.process_name, both));
    ko_control_close(p);
    control_end(t);
}

static void a_trace_is_followed_to_its_end(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected(), *other = connected();
    say(p, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=20\nREQUEST_TRACE_ID=t-1\n"));
    ko_control_answer a = answer_of(p);
    assert_string_equal(a.verb, "accepted");
    assert_true(a.ticket > 0);
    assert_string_equal(a.trace_id, "t-1");
    char path[128];
    snprintf(path, sizeof path, "%s/a_4321.json", t->f->directory);
    assert_string_equal(a.path, path);
    uint64_t ticket = a.ticket;
    int64_t begin = 0, end = 0;
    for (bool over = false; !over;) {
        a = answer_of(p);
        assert_int_equal(a.ticket, ticket);
        if (strcmp(a.verb, "collect") == 0)
            begin = a.time_ns;
        else if (strcmp(a.verb, "process") == 0)
            end = a.time_ns;
        over = strcmp(a.verb, "written") == 0;
        if (!over && strcmp(a.verb, "warm-up") != 0 && strcmp(a.verb, "collect") != 0 &&
            strcmp(a.verb, "process") != 0)
            fail_msg("%s: %s", a.verb, a.text);
    }
    assert_int_equal(a.bytes, 1234);
    assert_string_equal(a.path, path);
    assert_int_equal(end - begin, 20 * MS);
    say(p, "status", ""); /* it stays usable */
    a = answer_of(p);
    assert_string_equal(a.verb, "status");
    assert_int_equal(a.status.traces, 1);
    say(other, "status", ""); /* who did not ask hears nothing */
    expect(other, "status");
    ko_control_close(other);
    ko_control_close(p);
    control_end(t);
}

static void what_cannot_be_done_is_refused_with_the_reason(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    say(p, "trace", "ACTIVITIES_DURATION_MSECS=soon\n");
    ko_control_answer a = answer_of(p);
    assert_string_equal(a.verb, "refused");
    assert_int_equal(a.code, KINETO_E_ARGUMENT);
    assert_non_null(strstr(a.text, "line 1: ACTIVITIES_DURATION_MSECS wants"));
    say(p, "trace", "ACTIVITIES_LOG_FILE=/etc/passwd\n");
    a = answer_of(p);
    assert_string_equal(a.verb, "refused");
    assert_int_equal(a.code, KINETO_E_PERMISSION);
    ko_controller_preempt(t->f->controller, true);
    say(p, "trace", "");
    a = answer_of(p);
    assert_string_equal(a.verb, "refused");
    assert_int_equal(a.code, KINETO_E_BUSY);
    assert_non_null(strstr(a.text, "the program itself"));
    ko_controller_preempt(t->f->controller, false);
    say(p, "sing", "");
    a = answer_of(p);
    assert_string_equal(a.verb, "refused");
    assert_int_equal(a.code, KINETO_E_UNSUPPORTED);
    say(p, "status", "");
    expect(p, "status");
    ko_control_close(p);
    control_end(t);
}

static void of_two_requests_one_is_answered_to_retry(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *a = connected(), *b = connected();
    say(a, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=60000\n"));
    expect(a, "accepted");
    say(b, "trace", request_of(t, ""));
    ko_control_answer said = answer_of(b);
    assert_string_equal(said.verb, "refused");
    assert_int_equal(said.code, KINETO_E_BUSY);
    say(b, "cancel", "");
    expect(b, "cancelled");
    do
        said = answer_of(a);
    while (strcmp(said.verb, "written") != 0 && strcmp(said.verb, "cancelled") != 0);
    ko_control_close(a);
    ko_control_close(b);
    control_end(t);
}

static void a_dump_of_the_ring(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    say(p, "dump", "");
    expect(p, "accepted");
    ko_control_answer a = answer_of(p);
    assert_string_equal(a.verb, "written");
    assert_int_equal(a.bytes, 77);
    ko_control_close(p);
    control_end(t);
}

static void who_leaves_does_not_take_the_trace_along(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    say(p, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=20\n"));
    ko_control_answer a = answer_of(p);
    ko_control_close(p);
    (void)wait_note(t->f, a.ticket, KO_STAGE_WRITTEN);
    control_end(t);
}

static void the_end_of_the_program_is_reported(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    say(p, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=60000\n"));
    expect(p, "accepted");
    do
        say(p, "status", "");
    while (strcmp(answer_of(p).verb, "collect") != 0);
    fixture_end(t->f);
    t->f = NULL;
    ko_control_answer a = {0};
    bool written = false;
    while (next_answer(p, &a) == KINETO_OK)
        written |= strcmp(a.verb, "written") == 0;
    assert_true(written);
    assert_int_equal(ko_control_connect(kb_os_pid(), &(ko_control_peer *){NULL}, NULL),
                     KINETO_E_NOT_FOUND);
    ko_control_close(p);
    control_end(t);
}

/* ---- packets -----------------------------------------------------------------------------------
 */

static void values_keep_their_line_ends(void **state)
{
    (void)state;
    ko_packet p;
    ko_packet_view v;
    const char *why;
    char out[64];
    kineto_string key, value;
    ko_packet_begin(&p, "accepted");
    ko_packet_put(&p, "text", "two\nlines = \\ and \\n");
    ko_packet_put_int(&p, "n", INT64_MIN);
    assert_true(ko_packet_read(p.data, p.bytes, &v, &why));
    assert_string_equal(v.verb, "accepted");
    assert_int_equal(v.text.size, 0);
    assert_true(ko_packet_next(&v.lines, &key, &value)); /* v */
    assert_true(ko_packet_next(&v.lines, &key, &value));
    ko_packet_unescape(value, out, sizeof out);
    assert_string_equal(out, "two\nlines = \\ and \\n");
    ko_packet_unescape(value, out, 5);
    assert_string_equal(out, "two\n");
    int64_t n;
    assert_true(ko_packet_next(&v.lines, &key, &value));
    assert_true(ko_packet_number(value, &n));
    assert_true(n == INT64_MIN);
    assert_false(ko_packet_next(&v.lines, &key, &value));
}

static void a_value_that_does_not_fit_is_cut(void **state)
{
    (void)state;
    static char many[20000];
    ko_packet p;
    ko_packet_view v;
    const char *why;
    memset(many, '\n', sizeof many - 1);
    ko_packet_begin(&p, "refused");
    ko_packet_put(&p, "text", many);
    ko_packet_put(&p, "more", many);
    assert_true(p.bytes <= sizeof p.data);
    assert_true(ko_packet_read(p.data, p.bytes, &v, &why));
}

static void what_is_not_a_packet(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
    } bad[] = {{"", 0},
               {"\n", 1},
               {"\nstatus\n", 8},
               {"STATUS\n", 7},
               {"status\nv\n", 9},
               {"status\n=1\n", 10},
               {"status\nv=0\n", 11},
               {"status\nv=one\n", 13},
               {"status\nv=1\0\n", 12},
               {"sta\0us\n", 7},
               {"averbofmorethantwentythreeletters\n", 34}};
    ko_packet_view v;
    const char *why = NULL;
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        if (ko_packet_read(bad[i].data, bad[i].bytes, &v, &why))
            fail_msg("packet %zu was taken", i);
        assert_non_null(why);
    }
    assert_true(ko_packet_read("status", 6, &v, &why));
    assert_true(ko_packet_read("status\nv=7\nnew=thing\n", 21, &v, &why));
    assert_true(ko_packet_read("trace\n\nA=1\n\nB=2", 15, &v, &why));
    assert_int_equal(v.text.size, 8);
}

static void bad_packets_are_refused_and_the_connection_stays(void **state)
{
    (void)state;
    static char large[KO_CONTROL_MAX_BYTES + 1];
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    static const char *const bad[] = {"", "\n\n", "STATUS", "status\nnothing", "status\nv=-1"};
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        throw_bytes(p, bad[i], strlen(bad[i]));
        ko_control_answer a = answer_of(p);
        assert_string_equal(a.verb, "refused");
        assert_int_equal(a.code, KINETO_E_FORMAT);
    }
    throw_bytes(p, "trace\n\nA\0B=1\n", 13);
    expect(p, "refused");
    memset(large, 'x', sizeof large);
    throw_bytes(p, large, sizeof large);
    expect(p, "refused");
    memcpy(large, "trace\n\n#", 8); /* a comment as long as may be */
    throw_bytes(p, large, KO_CONTROL_MAX_BYTES);
    expect(p, "accepted");
    say(p, "cancel", "");
    ko_control_answer a;
    do
        a = answer_of(p);
    while (strcmp(a.verb, "cancelled") != 0);
    ko_control_close(p);
    control_end(t);
}

static void random_packets(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    uint64_t random = 88172645463325252u;
    char bytes[256];
    for (int i = 0; i < 2000; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t n = random % sizeof bytes;
        int verb = snprintf(bytes, sizeof bytes, "%s", random & 1 ? "status\n" : "dump\nv=1\n\n");
        for (size_t at = random & 2 ? (size_t)verb : 0; at < n; at++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            bytes[at] = (char)(random % 5 == 0 ? '\n' : random % 5 == 1 ? '=' : (int)random);
        }
        throw_bytes(p, bytes, n);
        ko_control_answer a;
        do
            a = answer_of(p);
        while (strcmp(a.verb, "refused") != 0 && strcmp(a.verb, "status") != 0 &&
               strcmp(a.verb, "accepted") != 0);
    }
    say(p, "status", "");
    ko_control_close(p);
    control_end(t);
}

/* What a process sends is only shown: it may hold anything. */
static void what_comes_back_is_made_fit_for_a_terminal(void **state)
{
    (void)state;
    control_test t = {0};
    struct sockaddr_un at;
    kineto_error err;
    ko_control_answer a;
    ko_control_peer *p;
    char directory[KO_REQUEST_PATH_BYTES];
    new_runtime(&t);
    assert_int_equal(ko_control_directory(true, directory, &err), KINETO_OK);
    assert_int_equal(ko_control_address(directory, kb_os_pid(), false, &at, &err), KINETO_OK);
    int server = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server, 4), 0);
    assert_int_equal(ko_control_connect(kb_os_pid(), &p, &err), KINETO_OK);
    int c = accept(server, NULL, NULL);
    static const char evil[] =
        "status\nv=1\nname=\x1b[2Jx\\ny\npids=1,,x,-4,99999999999,7\niteration=z\n"
        "state-number=-1\npath=/a\x07\nring=9\n";
    assert_true(send(c, evil, sizeof evil - 1, 0) > 0);
    assert_int_equal(next_answer(p, &a), KINETO_OK);
    assert_string_equal(a.process_name, "?[2Jx?y");
    assert_string_equal(a.path, "/a?");
    assert_int_equal(a.pid_count, 2);
    assert_int_equal(a.pids[1], 7);
    assert_int_equal(a.status.iteration, -1);
    assert_true(a.status.ring);
    assert_true(send(c, "\0\0\0", 3, 0) > 0);
    assert_int_equal(next_answer(p, &a), KINETO_E_FORMAT);
    close(c);
    assert_int_equal(next_answer(p, &a), KINETO_E_NOT_FOUND);
    ko_control_close(p);
    close(server);
    remove_tree(t.runtime);
}

/* ---- many and slow -----------------------------------------------------------------------------
 */

static void a_hundred_connections(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    control_test *t = control_new(true);
    ko_control_peer *p[COUNT];
    ko_control_answer a;
    uint32_t closed = 0;
    for (int i = 0; i < COUNT; i++) {
        p[i] = connected();
        say(p[i], "status", "");
    }
    for (int i = 0; i < COUNT; i++)
        expect(p[i], "status"); /* everybody is heard first */
    for (int i = 0; i < COUNT; i++) {
        kineto_status status = ko_control_receive(p[i], &a, NULL);
        if (status == KINETO_E_BUSY)
            continue;
        assert_int_equal(status, KINETO_OK);
        assert_string_equal(a.verb, "closed");
        assert_int_equal(next_answer(p[i], &a), KINETO_E_NOT_FOUND);
        closed++;
    }
    assert_int_equal(closed, COUNT - 32);
    for (int i = 0; i < COUNT; i++)
        ko_control_close(p[i]);
    control_end(t);
}

static void who_waits_for_a_trace_is_not_crowded_out(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *first = connected(), *p[40];
    say(first, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=60000\n"));
    expect(first, "accepted");
    for (int i = 0; i < 40; i++) {
        p[i] = connected();
        say(p[i], "status", "");
        expect(p[i], "status");
    }
    say(p[39], "cancel", "");
    ko_control_answer a;
    do
        assert_int_equal(next_answer(first, &a), KINETO_OK);
    while (strcmp(a.verb, "written") != 0 && strcmp(a.verb, "cancelled") != 0);
    for (int i = 0; i < 40; i++)
        ko_control_close(p[i]);
    ko_control_close(first);
    control_end(t);
}

static void a_client_that_does_not_read_is_closed_and_blocks_no_other(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *slow = connected(), *other = connected();
    kineto_error err;
    int64_t until_ns = now_ns() + HANG_NS;
    /* Asks and asks, until it is closed. */
    for (kineto_status status = KINETO_OK; status != KINETO_E_NOT_FOUND;) {
        status = ko_control_send(slow, "status", kb_string(""), &err);
        assert_true(status == KINETO_OK || status == KINETO_E_BUSY || status == KINETO_E_NOT_FOUND);
        if (status == KINETO_E_BUSY)
            pause_ns(MS);
        assert_true(now_ns() < until_ns);
    }
    say(other, "status", "");
    expect(other, "status");
    ko_control_close(slow);
    ko_control_close(other);
    control_end(t);
}

/* What the kernel does not take waits, and arrives. */
static void who_reads_late_misses_nothing(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    ko_control_peer *p = connected();
    const ko_control_socket *s = (const ko_control_socket *)t->listener;
    ko_control_answer a;
    uint32_t asked = 0, answered = 0;
    do {
        say(p, "status", "");
        for (int i = 0; i < 3; i++)
            ko_controller_turn(t->f->controller, 0);
        asked++;
        assert_true(asked < 100000 && s->connections[0]);
    } while (s->connections[0]->queue.count < 20);
    while (answered < asked) {
        kineto_status status = ko_control_receive(p, &a, NULL);
        assert_true(status == KINETO_OK || status == KINETO_E_BUSY);
        if (status == KINETO_OK)
            answered++;
        else
            ko_controller_turn(t->f->controller, MS);
    }
    ko_controller_turn(t->f->controller, 0);
    assert_int_equal(s->connections[0]->queue.count, 0);
    assert_false(s->connections[0]->polls_out);
    ko_control_close(p);
    control_end(t);
}

typedef struct asking {
    control_test *t;
    uint32_t number;
    uint32_t accepted, ended; /* of this one's requests */
} asking;

static bool ends_a_request(const ko_control_answer *a)
{
    return a->ticket != 0 && (strcmp(a->verb, "written") == 0 || strcmp(a->verb, "failed") == 0 ||
                              strcmp(a->verb, "cancelled") == 0);
}

static void take_answer(asking *me, ko_control_peer *p, bool *answered)
{
    ko_control_answer a;
    if (next_answer(p, &a) != KINETO_OK)
        abort();
    if (strcmp(a.verb, "accepted") == 0)
        me->accepted++;
    if (ends_a_request(&a))
        me->ended++;
    else if (a.ticket == 0 || strcmp(a.verb, "status") == 0 || strcmp(a.verb, "accepted") == 0)
        *answered = true;
}

static void *ask_often(void *argument)
{
    static const char *const verbs[] = {"trace", "status", "dump", "status", "cancel"};
    asking *me = argument;
    ko_control_peer *p = connected_in_time();
    for (uint32_t i = 0; i < 100; i++) {
        const char *verb = verbs[(i * 7 + me->number) % KB_COUNT(verbs)];
        bool answered = false;
        if (ko_control_send(p, verb,
                            kb_string(*verb == 't' ? "ACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                                                     "ACTIVITIES_DURATION_MSECS=1\n"
                                                   : ""),
                            NULL) != KINETO_OK)
            abort();
        while (!answered)
            take_answer(me, p, &answered);
    }
    while (me->ended < me->accepted)
        take_answer(me, p, &(bool){false});
    ko_control_close(p);
    return NULL;
}

static void each_request_has_one_end(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    control_test *t = control_new(true);
    asking all[COUNT] = {0};
    pthread_t threads[COUNT];
    uint32_t accepted = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i] = (asking){.t = t, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &all[i]), 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(all[i].ended, all[i].accepted);
        accepted += all[i].accepted;
    }
    assert_true(accepted > 0);
    control_end(t);
}

/* Descriptors that are sent along are not taken. */
static void descriptors_that_come_along_are_dropped(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    ko_control_peer *p = connected();
    for (int i = 0; i < 3; i++)
        ko_controller_turn(t->f->controller, MS);
    int before = open_descriptors();
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } along = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS}};
    int zero = STDIN_FILENO;
    memcpy(CMSG_DATA(&along.head), &zero, sizeof zero);
    struct iovec part = {(char[]){"status\n"}, 7};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = along.bytes,
                       .msg_controllen = sizeof along.bytes};
    assert_int_equal(sendmsg(ko_control_fd(p), &m, 0), 7);
    for (int i = 0; i < 3; i++)
        ko_controller_turn(t->f->controller, MS);
    expect(p, "status");
    assert_int_equal(open_descriptors(), before);
    ko_control_close(p);
    control_end(t);
}

/* ---- where it is -------------------------------------------------------------------------------
 */

static void expect_refused_directory(const char *what)
{
    char path[KO_REQUEST_PATH_BYTES];
    kineto_error err = {0};
    kineto_status status = ko_control_directory(true, path, &err);
    if (status != KINETO_E_PERMISSION || !strstr(err.message, what))
        fail_msg("'%s' was expected, not %d: %s", what, (int)status, err.message);
}

static void the_directory_is_ours_alone_or_refused(void **state)
{
    (void)state;
    control_test t = {0};
    struct stat st;
    kineto_error err;
    char path[KO_REQUEST_PATH_BYTES], other[128];
    mode_t before = umask(0);
    new_runtime(&t);
    assert_int_equal(ko_control_directory(false, path, &err), KINETO_E_NOT_FOUND);
    assert_int_equal(ko_control_directory(true, path, &err), KINETO_OK);
    assert_string_equal(path, t.directory);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(ko_control_directory(false, path, &err), KINETO_OK);
    chmod(path, 0710);
    expect_refused_directory("accessible to other users (mode 710)");
    chmod(path, 0777);
    expect_refused_directory("accessible to other users (mode 777)");
    rmdir(path);
    snprintf(other, sizeof other, "%s/other", t.runtime);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(other, t.directory), 0);
    expect_refused_directory("symbolic link");
    unlink(t.directory);
    close(creat(t.directory, 0600));
    expect_refused_directory("not a directory");
    unlink(t.directory);
    chmod(t.runtime, 0777);
    expect_refused_directory("can be changed by others (mode 777)");
    chmod(t.runtime, 0700);
    if (geteuid() == 0) {
        assert_int_equal(mkdir(t.directory, 0700), 0);
        assert_int_equal(chown(t.directory, 65534, 65534), 0);
        expect_refused_directory("belongs to user 65534");
        assert_int_equal(chown(t.runtime, 65534, 65534), 0);
        expect_refused_directory("belongs to user 65534");
    }
    umask(before);
    remove_tree(t.runtime);
}

static void paths_that_no_socket_can_have(void **state)
{
    (void)state;
    char path[KO_REQUEST_PATH_BYTES], longer[200];
    kineto_error err;
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    setenv("XDG_RUNTIME_DIR", longer, 1);
    assert_int_equal(ko_control_directory(true, path, &err), KINETO_E_LIMIT);
    assert_non_null(strstr(err.message, "107"));
    setenv("XDG_RUNTIME_DIR", "here", 1);
    assert_int_equal(ko_control_directory(true, path, &err), KINETO_E_ARGUMENT);
    struct sockaddr_un at;
    longer[95] = '\0';
    assert_int_equal(ko_control_address(longer, 1, false, &at, &err), KINETO_OK);
    assert_int_equal(ko_control_address(longer, 12345678, false, &at, &err), KINETO_E_LIMIT);
}

static void without_a_setting_the_directory_is_the_system_s(void **state)
{
    (void)state;
    char path[KO_REQUEST_PATH_BYTES], expected[64];
    struct stat st;
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(expected, sizeof expected, "/run/user/%u", geteuid());
    bool has = lstat(expected, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
    if (has)
        strcat(expected, "/ckineto");
    else
        snprintf(expected, sizeof expected, "/tmp/ckineto-%u", geteuid());
    kineto_error err;
    kineto_status status = ko_control_directory(false, path, &err);
    if (status == KINETO_OK)
        assert_string_equal(path, expected);
    else
        assert_non_null(strstr(err.message, expected));
}

static void the_file_is_mine_alone_and_goes_with_me(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%d.sock", t->directory, getpid());
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    kineto_error err; /* a second one in this process is refused */
    assert_null(ko_control_socket_create(kb_os_pid(), &err));
    assert_int_equal(err.code, KINETO_E_BUSY);
    assert_int_equal(lstat(path, &st), 0);
    fixture_end(t->f);
    t->f = NULL;
    assert_int_equal(lstat(path, &st), -1);
    control_end(t);
}

static void what_an_earlier_process_left_is_replaced(void **state)
{
    (void)state;
    control_test first = {0};
    struct sockaddr_un at;
    char directory[KO_REQUEST_PATH_BYTES];
    kineto_error err;
    new_runtime(&first);
    assert_int_equal(ko_control_directory(true, directory, &err), KINETO_OK);
    assert_int_equal(ko_control_address(directory, kb_os_pid(), false, &at, &err), KINETO_OK);
    int old = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(old, (struct sockaddr *)&at, sizeof at), 0);
    close(old);
    ko_listener *l = ko_control_socket_create(kb_os_pid(), &err);
    assert_non_null(l);
    l->destroy(l);
    /* A file of another program in its place is left alone at the end. */
    l = ko_control_socket_create(kb_os_pid(), &err);
    assert_non_null(l);
    unlink(at.sun_path);
    close(creat(at.sun_path, 0600));
    l->destroy(l);
    assert_int_equal(access(at.sun_path, F_OK), 0);
    remove_tree(first.runtime);
}

static void run_server(int ready)
{
    control_test t = {0};
    kineto_error err;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    listen_with(&t, ko_control_socket_create(kb_os_pid(), &err), &err);
    rmdir(t.f->directory);
    if (write(ready, "", 1) != 1)
        _exit(1);
    for (;;)
        ko_controller_turn(t.f->controller, -1);
}

static pid_t start_server(void)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0)
        run_server(ready[1]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void a_killed_process_leaves_nothing_for_long(void **state)
{
    (void)state;
    control_test t = {0};
    kineto_error err = {0};
    uint32_t *pids;
    ko_control_peer *p, *none;
    char path[128];
    new_runtime(&t);
    assert_int_equal(ko_control_list(&pids, &err), 0); /* no directory: no process */
    assert_int_equal(err.code, KINETO_OK);
    pid_t a = start_server(), b = start_server();
    assert_int_equal(ko_control_list(&pids, &err), 2);
    assert_int_equal(pids[0], KB_MIN(a, b));
    free(pids);
    assert_int_equal(ko_control_connect((uint32_t)a, &p, &err), KINETO_OK);
    kill(a, SIGKILL);
    waitpid(a, NULL, 0);
    ko_control_answer said;
    assert_int_equal(next_answer(p, &said), KINETO_E_NOT_FOUND);
    ko_control_close(p);
    snprintf(path, sizeof path, "%s/%d.sock", t.directory, a);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(ko_control_list(&pids, &err), 1);
    assert_int_equal(pids[0], b);
    free(pids);
    assert_int_equal(access(path, F_OK), -1);
    kill(b, SIGKILL);
    waitpid(b, NULL, 0);
    snprintf(path, sizeof path, "%s/%d.sock", t.directory, b);
    assert_int_equal(ko_control_connect((uint32_t)b, &none, &err), KINETO_E_NOT_FOUND);
    assert_int_equal(access(path, F_OK), -1);
    remove_tree(t.runtime);
}

static void other_names_are_no_processes(void **state)
{
    (void)state;
    static const char *const names[] = {"x.sock",  "0.sock",           "012.sock", "12.sock.old",
                                        "-3.sock", "99999999999.sock", "12"};
    control_test t = {0};
    char path[KO_REQUEST_PATH_BYTES + 64], directory[KO_REQUEST_PATH_BYTES];
    kineto_error err = {0};
    uint32_t *pids;
    new_runtime(&t);
    assert_int_equal(ko_control_directory(true, directory, &err), KINETO_OK);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        close(creat(path, 0600));
    }
    snprintf(path, sizeof path, "%s/13.sock", directory); /* no socket: it is not ours to remove */
    close(creat(path, 0600));
    assert_int_equal(ko_control_list(&pids, &err), 0);
    assert_int_equal(err.code, KINETO_OK);
    assert_int_equal(access(path, F_OK), 0);
    remove_tree(t.runtime);
}

static void a_socket_under_another_s_number_is_refused(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    char mine[128], path[128];
    ko_control_peer *p;
    kineto_error err;
    snprintf(mine, sizeof mine, "%s/%d.sock", t->directory, getpid());
    snprintf(path, sizeof path, "%s/1.sock", t->directory);
    assert_int_equal(rename(mine, path), 0);
    assert_int_equal(ko_control_connect(1, &p, &err), KINETO_E_PERMISSION);
    assert_non_null(strstr(err.message, "container"));
    control_end(t);
}

static void other_users_may_not_connect(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    control_test *t = control_new(true);
    char path[128];
    snprintf(path, sizeof path, "%s/%d.sock", t->directory, getpid());
    assert_int_equal(chmod(t->runtime, 0755) | chmod(t->directory, 0755) | chmod(path, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        char byte;
        memcpy(at.sun_path, path, strlen(path) + 1);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (setuid(65534) != 0 || connect(fd, (struct sockaddr *)&at, sizeof at) != 0)
            _exit(1);
        (void)!write(fd, "status\n", 7);
        ssize_t n = read(fd, &byte, 1);
        if (n < 0 && errno == ECONNRESET)
            n = read(fd, &byte, 1);
        _exit(n == 0 ? 0 : 2); /* closed without a word */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    control_end(t);
}

/* ---- what programs do to it --------------------------------------------------------------------
 */

static void a_child_forgets_and_the_parent_goes_on(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    ko_control_peer *p = connected();
    ko_controller_turn(t->f->controller, MS);
    pid_t child = fork();
    if (child == 0) {
        t->listener->forked(t->listener);
        bool closed = t->listener->fd == -1;
        t->listener->turn(t->listener, t->f->controller, 0);
        t->listener->destroy(t->listener);
        char path[128];
        snprintf(path, sizeof path, "%s/%d.sock", t->directory, getppid());
        _exit(closed && access(path, F_OK) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    fixture_turn(t->f);
    say(p, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=1\n"));
    ko_control_answer a;
    do
        a = answer_of(p);
    while (strcmp(a.verb, "written") != 0);
    ko_control_peer *later = connected();
    say(later, "status", "");
    expect(later, "status");
    ko_control_close(later);
    ko_control_close(p);
    control_end(t);
}

/* A child that lives on without knowing: connections end with the parent all the same. */
static void a_child_that_was_not_prepared_keeps_nothing_open(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    say(p, "status", "");
    expect(p, "status");
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    fixture_end(t->f);
    t->f = NULL;
    ko_control_answer a;
    assert_int_equal(next_answer(p, &a), KINETO_E_NOT_FOUND);
    ko_control_close(p);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    control_end(t);
}

static void a_program_that_closes_descriptors_is_heard_again(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    ko_control_peer *p = connected();
    ko_controller_turn(t->f->controller, MS);
    int pipe_ends[2];
    const ko_control_socket *s = (const ko_control_socket *)t->listener;
    int ours[] = {s->wake.reads.fd, s->wake.writes.fd, s->socket.fd, s->epoll};
    for (size_t i = 0; i < KB_COUNT(ours); i++)
        close(ours[i]);
    assert_int_equal(pipe(pipe_ends), 0);
    ko_control_close(p);
    ko_controller_turn(t->f->controller, MS);
    fixture_turn(t->f);
    ko_control_peer *later = connected_in_time();
    say(later, "status", "");
    expect(later, "status");
    ko_control_close(later);
    fixture_stop(t->f);
    assert_int_equal(write(pipe_ends[1], "x", 1), 1); /* what took their numbers was left alone */
    char byte = 0;
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    control_end(t);
}

static void turn_often(control_test *t)
{
    for (int i = 0; i < 20; i++)
        ko_controller_turn(t->f->controller, MS);
}

static void a_socket_that_was_removed_comes_again(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected(), *later;
    char path[128];
    snprintf(path, sizeof path, "%s/%d.sock", t->directory, getpid());
    say(p, "trace", request_of(t, "ACTIVITIES_DURATION_MSECS=60000\n"));
    expect(p, "accepted");
    assert_int_equal(unlink(path), 0);
    later = connected_in_time();
    say(later, "cancel", "");
    expect(later, "cancelled");
    ko_control_answer a;
    do /* who was connected stays so */
        a = answer_of(p);
    while (strcmp(a.verb, "written") != 0 && strcmp(a.verb, "cancelled") != 0);
    ko_control_close(later);
    ko_control_close(p);
    control_end(t);
}

/* The user's limit of inotify instances is reached: the file is looked for from time to time. */
static void a_socket_that_cannot_be_watched_comes_again(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    ko_control_socket *s = (ko_control_socket *)t->listener;
    turn_often(t);
    assert_true(s->watch >= 0);
    close(s->watch);
    s->watch = -1;
    s->listener.wake_ns = 1; /* it is time */
    assert_int_equal(unlink(s->at.sun_path), 0);
    turn_often(t);
    ko_control_close(connected());
    assert_true(s->watch >= 0);
    control_end(t);
}

/* As the system does it when a user logs out, and in again. */
static void a_runtime_directory_that_goes_and_comes(void **state)
{
    (void)state;
    control_test *t = control_new(false);
    ko_control_socket *s = (ko_control_socket *)t->listener;
    ko_control_peer *p = connected(), *later;
    int before = open_descriptors();
    turn_often(t);
    remove_tree(t->runtime);
    turn_often(t);
    assert_true(s->retry_ns > 0);
    say(p, "status", "");
    turn_often(t);
    expect(p, "status");
    s->retry_ns = s->listener.wake_ns = 1; /* it is time */
    turn_often(t);
    assert_true(s->retry_ns > 1);
    assert_int_equal(mkdir(t->runtime, 0700), 0);
    s->retry_ns = s->listener.wake_ns = 1; /* it is time */
    turn_often(t);
    assert_int_equal(s->retry_ns, 0);
    later = connected();
    say(later, "status", "");
    turn_often(t);
    expect(later, "status");
    ko_control_close(later);
    turn_often(t);
    assert_int_equal(open_descriptors(), before + 1); /* the one of p */
    ko_control_close(p);
    control_end(t);
}

static void nothing_is_left_open(void **state)
{
    (void)state;
    control_end(control_new(true)); /* whatever opens at first */
    int before = open_descriptors();
    control_test *t = control_new(true);
    ko_control_peer *p = connected();
    say(p, "status", "");
    expect(p, "status");
    ko_control_close(p);
    control_end(t);
    assert_int_equal(open_descriptors(), before);
}

static void no_descriptors_are_left(void **state)
{
    (void)state;
    control_test *t = control_new(true);
    ko_control_peer *p = connected(), *q = connected();
    say(p, "status", "");
    expect(p, "status");
    say(q, "status", "");
    expect(q, "status");
    struct rlimit was, none;
    getrlimit(RLIMIT_NOFILE, &was);
    struct sockaddr_un at;
    kineto_error err;
    assert_int_equal(ko_control_address(t->directory, kb_os_pid(), false, &at, &err), KINETO_OK);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    none = was;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    uint64_t turns = kb_load_relaxed(&t->f->turns);
    say(p, "status", ""); /* those that are connected are served */
    expect(p, "status");
    pause_ns(200 * MS);
    turns = kb_load_relaxed(&t->f->turns) - turns;
    setrlimit(RLIMIT_NOFILE, &was);
    assert_true(turns < 200); /* it does not spin */
    assert_int_equal(write(fd, "status\n", 7), 7);
    char bytes[4096];
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 30000), 1);
    assert_true(read(fd, bytes, sizeof bytes) > 0);
    close(fd);
    ko_control_close(p);
    ko_control_close(q);
    control_end(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_says_everything),
        cmocka_unit_test(a_recorder_names_its_programs),
        cmocka_unit_test(a_trace_is_followed_to_its_end),
        cmocka_unit_test(what_cannot_be_done_is_refused_with_the_reason),
        cmocka_unit_test(of_two_requests_one_is_answered_to_retry),
        cmocka_unit_test(a_dump_of_the_ring),
        cmocka_unit_test(who_leaves_does_not_take_the_trace_along),
        cmocka_unit_test(the_end_of_the_program_is_reported),
        cmocka_unit_test(values_keep_their_line_ends),
        cmocka_unit_test(a_value_that_does_not_fit_is_cut),
        cmocka_unit_test(what_is_not_a_packet),
        cmocka_unit_test(bad_packets_are_refused_and_the_connection_stays),
        cmocka_unit_test(random_packets),
        cmocka_unit_test(what_comes_back_is_made_fit_for_a_terminal),
        cmocka_unit_test(a_hundred_connections),
        cmocka_unit_test(who_waits_for_a_trace_is_not_crowded_out),
        cmocka_unit_test(a_client_that_does_not_read_is_closed_and_blocks_no_other),
        cmocka_unit_test(who_reads_late_misses_nothing),
        cmocka_unit_test(each_request_has_one_end),
        cmocka_unit_test(descriptors_that_come_along_are_dropped),
        cmocka_unit_test(the_directory_is_ours_alone_or_refused),
        cmocka_unit_test(paths_that_no_socket_can_have),
        cmocka_unit_test(without_a_setting_the_directory_is_the_system_s),
        cmocka_unit_test(the_file_is_mine_alone_and_goes_with_me),
        cmocka_unit_test(what_an_earlier_process_left_is_replaced),
        cmocka_unit_test(a_killed_process_leaves_nothing_for_long),
        cmocka_unit_test(other_names_are_no_processes),
        cmocka_unit_test(a_socket_under_another_s_number_is_refused),
        cmocka_unit_test(other_users_may_not_connect),
        cmocka_unit_test(a_child_forgets_and_the_parent_goes_on),
        cmocka_unit_test(a_child_that_was_not_prepared_keeps_nothing_open),
        cmocka_unit_test(a_program_that_closes_descriptors_is_heard_again),
        cmocka_unit_test(a_socket_that_was_removed_comes_again),
        cmocka_unit_test(a_socket_that_cannot_be_watched_comes_again),
        cmocka_unit_test(a_runtime_directory_that_goes_and_comes),
        cmocka_unit_test(nothing_is_left_open),
        cmocka_unit_test(no_descriptors_are_left),
    };
    setenv("KINETO_LOG_LEVEL", "4", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The client of Dynolog against a daemon of the test's own: what it asks and when, what it takes
 * for an answer, and who and what cannot disturb it. Time is the test's, except where it stops. */
#include "unit.h"

#include "ondemand/dynolog/dyno.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define MS       UINT64_C(1000000)
#define INTERVAL (5000 * MS)

typedef struct scene {
    const char *directory; /* NULL: abstract */
    ko_dyno_client *client;
    uint64_t now, wake;
    int daemon;
    ko_dyno_address from; /* who asked last */
    ko_dyno_message asked;
    char *text;
    size_t text_bytes;
} scene;

/* ---- a daemon ------------------------------------------------------------------------------------
 */

static int socket_of(const ko_dyno_address *a)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    if (a && bind(fd, (const struct sockaddr *)&a->address, a->size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int socket_named(const char *name, const char *directory)
{
    ko_dyno_address a;
    assert_int_equal(ko_dyno_address_of(name, directory, &a, NULL), KINETO_OK);
    if (directory)
        unlink(a.address.sun_path);
    return socket_of(&a);
}

static void daemon_begins(scene *s)
{
    s->daemon = socket_named(KO_DYNO_DAEMON, s->directory);
    assert_true(s->daemon >= 0);
}

static void daemon_ends(scene *s)
{
    close(s->daemon);
    s->daemon = -1;
}

static void send_bytes(const scene *s, int fd, const void *bytes, size_t size)
{
    ssize_t n = sendto(fd, bytes, size, MSG_NOSIGNAL, (const struct sockaddr *)&s->from.address,
                       s->from.size);
    assert_int_equal(n, size);
}

static void send_text(const scene *s, int fd, const char *text)
{
    static char bytes[200100];
    size_t n = ko_dyno_encode_answer(KO_DYNO_REQUEST, kb_string(text), bytes, sizeof bytes);
    assert_true(n > 0);
    send_bytes(s, fd, bytes, n);
}

static void answer(const scene *s, const char *text) { send_text(s, s->daemon, text); }

static bool daemon_hears(scene *s)
{
    char bytes[1024];
    const char *why = "";
    s->from.size = sizeof s->from.address;
    ssize_t n = recvfrom(s->daemon, bytes, sizeof bytes, 0, (struct sockaddr *)&s->from.address,
                         &s->from.size);
    if (n < 0)
        return false;
    assert_true(ko_dyno_decode(bytes, (size_t)n, &s->asked, &why));
    return true;
}

/* ---- a client ------------------------------------------------------------------------------------
 */

static kineto_status run_as(scene *s, bool busy, uint64_t interval)
{
    kineto_string text = {NULL, 9};
    kineto_error err;
    uint64_t now = s->now;
    kineto_status status =
        ko_dyno_client_run(s->client, now, busy, interval, &text, &s->wake, &err);
    free(s->text);
    s->text = strndup(text.data, text.size);
    s->text_bytes = text.size;
    assert_true(s->wake >= now);
    return status;
}

static void go(scene *s) { assert_int_equal(run_as(s, false, INTERVAL), KINETO_OK); }

static void nothing_came(scene *s)
{
    for (int i = 0; i < 3; i++) {
        go(s);
        assert_int_equal(s->text_bytes, 0);
    }
}

static void came(scene *s, const char *text)
{
    go(s);
    assert_string_equal(s->text, text);
}

/* To the next time it wants to be called. */
static void go_on(scene *s)
{
    s->now = s->wake;
    go(s);
}

static void poll_and_hear(scene *s)
{
    go_on(s);
    assert_true(daemon_hears(s));
}

static void still_served(scene *s)
{
    answer(s, "GOOD=1\n");
    came(s, "GOOD=1\n");
    nothing_came(s);
    poll_and_hear(s);
    answer(s, "");
    nothing_came(s);
}

static void scene_begins(scene *s, const char *directory)
{
    memset(s, 0, sizeof *s);
    s->directory = directory;
    s->daemon = -1;
    s->now = s->wake = 1000 * 1000 * MS;
    assert_int_equal(ko_dyno_client_create(directory, &s->client, NULL), KINETO_OK);
    assert_int_equal(ko_dyno_client_fd(s->client), -1);
}

static void scene_ends(scene *s)
{
    ko_dyno_client_destroy(s->client);
    if (s->daemon >= 0)
        daemon_ends(s);
    free(s->text);
}

static void remove_files(const char *directory)
{
    char path[512];
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        unlink(path);
    }
    closedir(d);
    rmdir(directory);
}

static int files_of_clients(const char *directory)
{
    int count = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));)
        count += strncmp(e->d_name, KO_DYNO_CLIENT, strlen(KO_DYNO_CLIENT)) == 0;
    closedir(d);
    return count;
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 512; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* The same play with abstract sockets and with files, leaving no files. */
static void in_both(void (*play)(scene *s))
{
    char directory[] = "/tmp/ckdyno-XXXXXX"; /* a path of a socket is short */
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 2; i++) {
        scene s;
        int before = open_descriptors();
        int probe = i == 0 ? socket_named(KO_DYNO_DAEMON, NULL) : -2;
        if (probe == -1) {
            print_message("another process is '%s' here\n", KO_DYNO_DAEMON);
            continue;
        }
        if (probe >= 0)
            close(probe);
        scene_begins(&s, i == 0 ? NULL : directory);
        play(&s);
        scene_ends(&s);
        assert_int_equal(open_descriptors(), before);
        assert_int_equal(files_of_clients(directory), 0);
    }
    remove_files(directory);
}

/* A client that has asked, and a daemon that has heard it. */
static void acquainted(scene *s)
{
    daemon_begins(s);
    go(s);
    assert_true(daemon_hears(s));
}

#define IN_BOTH(name)                                                                              \
    static void name##_play(scene *s);                                                             \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        in_both(name##_play);                                                                      \
    }                                                                                              \
    static void name##_play(scene *s)

/* ---- asking --------------------------------------------------------------------------------------
 */

IN_BOTH(the_first_call_asks_at_once)
{
    char name[KO_DYNO_NAME_BYTES + 1];
    int32_t pids[KO_DYNO_MAX_PIDS];
    acquainted(s);
    assert_int_equal(s->asked.type, KO_DYNO_REQUEST);
    assert_int_equal(s->asked.wants, KO_DYNO_WANTS_ACTIVITIES);
    assert_int_equal(s->asked.job, 0);
    assert_int_equal(s->asked.pid_count, ko_dyno_ancestors((uint32_t)getpid(), pids));
    assert_memory_equal(s->asked.pids, pids, s->asked.pid_count * 4);
    assert_true(ko_dyno_address_name(&s->from, s->directory, name));
    assert_int_equal(strlen(name), 52);
    assert_memory_equal(name, "dynoconfigclient", 16);
    assert_int_equal(strspn(name + 16, "0123456789abcdef-"), 36);
    assert_true(name[24] == '-' && name[29] == '-' && name[34] == '-' && name[39] == '-');
    assert_true(name[30] == '4' && strchr("89ab", name[35]));
    assert_true(ko_dyno_client_fd(s->client) > 2);
    assert_false(daemon_hears(s));
}

IN_BOTH(the_job_is_that_of_slurm)
{
    static const struct {
        const char *text;
        int64_t job;
    } jobs[] = {{"4294967297", 4294967297}, {"12_3", 12}, {"", 0}, {"none", 0}, {"-5", -5}};
    daemon_begins(s);
    for (size_t i = 0; i < KB_COUNT(jobs); i++) {
        ko_dyno_client_destroy(s->client);
        setenv("SLURM_JOB_ID", jobs[i].text, 1);
        assert_int_equal(ko_dyno_client_create(s->directory, &s->client, NULL), KINETO_OK);
        unsetenv("SLURM_JOB_ID");
        go(s);
        assert_true(daemon_hears(s));
        assert_int_equal(s->asked.job, jobs[i].job);
        answer(s, "");
        go(s);
    }
}

IN_BOTH(polls_are_about_an_interval_apart_and_not_alike)
{
    uint64_t least = UINT64_MAX, most = 0, sum = 0, count = 400;
    acquainted(s);
    for (uint64_t i = 0; i < count; i++) {
        answer(s, "");
        go(s);
        uint64_t wait = s->wake - s->now;
        s->now = s->wake - 1;
        go(s);
        assert_false(daemon_hears(s));
        poll_and_hear(s);
        least = KB_MIN(least, wait), most = KB_MAX(most, wait), sum += wait;
    }
    assert_in_range(least, INTERVAL / 10 * 9, INTERVAL / 100 * 95);
    assert_in_range(most, INTERVAL / 100 * 105, INTERVAL / 10 * 11);
    assert_in_range(sum / count, INTERVAL / 100 * 97, INTERVAL / 100 * 103);
}

IN_BOTH(who_is_busy_asks_for_nothing_and_stays_known)
{
    acquainted(s);
    answer(s, "");
    go(s);
    for (int i = 0; i < 20; i++) {
        uint64_t before = s->now;
        s->now = s->wake;
        run_as(s, true, 3600000 * MS); /* a minute of silence, and it is forgotten */
        assert_true(daemon_hears(s));
        assert_int_equal(s->asked.wants, KO_DYNO_WANTS_NOTHING);
        assert_true(s->now - before < 55000 * MS);
        answer(s, "");
        run_as(s, true, 3600000 * MS);
    }
    answer(s, "LATE=1\n"); /* the daemon has forgotten it: it is handed over all the same */
    run_as(s, true, INTERVAL);
    assert_string_equal(s->text, "LATE=1\n");
    s->now = s->wake + INTERVAL * 2;
    go(s);
    assert_true(daemon_hears(s));
    assert_int_equal(s->asked.wants, KO_DYNO_WANTS_ACTIVITIES);
}

IN_BOTH(no_interval_is_not_a_busy_loop)
{
    acquainted(s);
    answer(s, "");
    run_as(s, false, 0);
    assert_true(s->wake - s->now >= 5 * MS);
    s->now = s->wake;
    run_as(s, false, UINT64_MAX);
    assert_true(s->wake - s->now <= 60000 * MS && s->wake > s->now);
    run_as(s, false, 100 * MS); /* a shorter interval counts from now on */
    assert_true(s->wake - s->now <= 110 * MS);
}

/* ---- answers -------------------------------------------------------------------------------------
 */

IN_BOTH(a_configuration_is_handed_over_once)
{
    acquainted(s);
    answer(s, "\n    ACTIVITIES_DURATION_MSECS=5\n    REQUEST_TRACE_ID=7\n");
    came(s, "\n    ACTIVITIES_DURATION_MSECS=5\n    REQUEST_TRACE_ID=7\n");
    nothing_came(s);
    still_served(s);
}

IN_BOTH(a_late_answer_after_a_newer_one_counts)
{
    acquainted(s);
    go_on(s); /* unanswered, so it waits, and asks again */
    while (!daemon_hears(s))
        go_on(s);
    answer(s, "");
    answer(s, "LATE=1\n");
    came(s, "LATE=1\n");
    still_served(s);
}

IN_BOTH(several_configurations_come_one_by_one_before_the_next_question)
{
    acquainted(s);
    answer(s, "A=1\n");
    answer(s, "");
    answer(s, "B=2\n");
    s->now = s->wake; /* it is time to ask, but first this */
    came(s, "A=1\n");
    assert_int_equal(s->wake, s->now);
    assert_false(daemon_hears(s));
    came(s, "B=2\n");
    assert_false(daemon_hears(s));
    go(s);
    assert_true(daemon_hears(s));
    still_served(s);
}

IN_BOTH(a_large_configuration_arrives_whole)
{
    char *text = malloc(150001);
    memset(text, '#', 150000);
    text[150000] = '\0';
    acquainted(s);
    answer(s, text);
    go(s);
    assert_int_equal(s->text_bytes, 150000);
    assert_string_equal(s->text, text);
    free(text);
    still_served(s);
}

/* ---- strangers -----------------------------------------------------------------------------------
 */

IN_BOTH(who_is_not_the_daemon_is_not_heard)
{
    char made[] = "/tmp/ckdyno-XXXXXX";
    const char *other = s->directory ? NULL : mkdtemp(made);
    static const char *const names[] = {"dynolo", "dynolog2", "dynologx", "Dynolog"};
    acquainted(s);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        int fd = socket_named(names[i], s->directory);
        assert_true(fd >= 0);
        send_text(s, fd, "EVIL=1\n");
        nothing_came(s);
        close(fd);
    }
    int unbound = socket_of(NULL);
    send_text(s, unbound, "EVIL=2\n");
    nothing_came(s);
    close(unbound);
    int otherwise = socket_named("dynolog", other); /* a path, or abstract, as the client is not */
    if (otherwise >= 0) {
        send_text(s, otherwise, "EVIL=3\n");
        nothing_came(s);
        close(otherwise);
    }
    if (other)
        remove_files(other);
    still_served(s);
}

IN_BOTH(a_name_without_its_nul_is_another)
{
    ko_dyno_address a;
    acquainted(s);
    assert_int_equal(ko_dyno_address_of(KO_DYNO_DAEMON, NULL, &a, NULL), KINETO_OK);
    a.size--;
    int fd = socket_of(&a);
    if (fd >= 0) {
        send_text(s, fd, "EVIL=1\n");
        nothing_came(s);
        close(fd);
    }
    still_served(s);
}

/* In a child with another user id, with the daemon's name. */
static int send_as_nobody(scene *s)
{
    char bytes[100];
    size_t n = ko_dyno_encode_answer(KO_DYNO_REQUEST, kb_string("EVIL=1\n"), bytes, sizeof bytes);
    if (setresuid(65534, 65534, 65534) != 0)
        return 1;
    int fd = socket_named(KO_DYNO_DAEMON, s->directory);
    if (fd < 0)
        return 2;
    const struct sockaddr *to = (const struct sockaddr *)&s->from.address;
    return sendto(fd, bytes, n, 0, to, s->from.size) == (ssize_t)n ? 0 : 3;
}

IN_BOTH(another_user_is_not_heard_whatever_its_name)
{
    int status = 1;
    if (geteuid() != 0)
        return;
    acquainted(s);
    daemon_ends(s);
    if (s->directory) /* as wide open as can be */
        chmod(s->directory, 0777);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(send_as_nobody(s));
        waitpid(child, &status, 0);
        /* The mode of our file already keeps it out. */
        int expected = i == 0 && s->directory ? 3 : 0;
        if (WEXITSTATUS(status) == 2 || WEXITSTATUS(status) == 1)
            print_message("cannot change the user here\n");
        else
            assert_int_equal(WEXITSTATUS(status), expected);
        nothing_came(s);
        if (s->directory)
            chmod(s->from.address.sun_path, 0666);
    }
    daemon_begins(s);
    still_served(s);
}

IN_BOTH(descriptors_that_are_sent_along_are_not_taken)
{
    char bytes[100], room[CMSG_SPACE(8 * sizeof(int))] = {0};
    acquainted(s);
    size_t n = ko_dyno_encode_answer(KO_DYNO_REQUEST, kb_string("GOOD=1\n"), bytes, sizeof bytes);
    int before = open_descriptors();
    struct iovec part = {bytes, n};
    struct msghdr m = {&s->from.address, s->from.size, &part, 1, room, sizeof room, 0};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(8 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    for (int i = 0; i < 8; i++)
        memcpy(CMSG_DATA(h) + i * 4, &s->daemon, 4);
    assert_int_equal(sendmsg(s->daemon, &m, 0), n);
    came(s, "GOOD=1\n");
    assert_int_equal(open_descriptors(), before);
    still_served(s);
}

/* ---- what is not an answer ---------------------------------------------------------------------------
 */

IN_BOTH(a_malformed_answer_is_ignored_and_the_next_good_one_is_not)
{
    static const struct {
        uint64_t said;
        const char *type;
        size_t size;
    } bad[] = {{0, "req", 0},
               {0, "req", 1},
               {0, "req", 39},
               {UINT64_C(1) << 62, "req", 60},
               {UINT64_MAX, "req", 60},
               {21, "req", 60},
               {19, "req", 60},
               {60, "req", 60},
               {20, "whatever", 60},
               {20, "request", 60},
               {20, "", 60},
               {4, "ctxt", 44},
               {20, "ctxt", 60}};
    acquainted(s);
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        char bytes[64] = {0};
        memcpy(bytes, &bad[i].said, 8);
        strcpy(bytes + 8, bad[i].type);
        send_bytes(s, s->daemon, bytes, bad[i].size);
        answer(s, "GOOD=1\n");
        came(s, "GOOD=1\n");
        nothing_came(s);
    }
    still_served(s);
}

IN_BOTH(random_bytes_are_ignored)
{
    uint64_t random = 5;
    acquainted(s);
    for (int i = 0; i < FEWER(5000, 1000); i++) {
        unsigned char bytes[256];
        size_t size = next_random(&random) % sizeof bytes;
        for (size_t at = 0; at < size; at++)
            bytes[at] = (unsigned char)next_random(&random);
        send_bytes(s, s->daemon, bytes, size);
        go(s);
        assert_int_equal(s->text_bytes, 0);
    }
    answer(s, "GOOD=1\n");
    came(s, "GOOD=1\n");
}

IN_BOTH(more_than_a_mebibyte_is_ignored)
{
    size_t size = KO_DYNO_HEAD_BYTES + KO_DYNO_MAX_BYTES + 1;
    int room = 4 << 20;
    char *bytes = calloc(1, size);
    uint64_t said = KO_DYNO_MAX_BYTES + 1;
    memcpy(bytes, &said, 8);
    strcpy(bytes + 8, "req");
    acquainted(s);
    (void)setsockopt(s->daemon, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    for (size_t more = 0; more < 2; more++) {
        ssize_t n = sendto(s->daemon, bytes, size - more, 0,
                           (const struct sockaddr *)&s->from.address, s->from.size);
        if (n < 0)
            print_message("no message of that size can be sent here\n");
        nothing_came(s);
    }
    free(bytes);
    still_served(s);
}

IN_BOTH(a_full_queue_is_emptied_in_one_call)
{
    int count = 0;
    acquainted(s);
    int fd = socket_named("dynolog-not", s->directory);
    while (sendto(fd, "x", 1, 0, (const struct sockaddr *)&s->from.address, s->from.size) == 1)
        count++;
    assert_true(count > 0);
    go(s);
    assert_int_equal(s->text_bytes, 0);
    while (s->wake == s->now)
        go(s);
    close(fd);
    still_served(s);
}

/* ---- daemons that come and go --------------------------------------------------------------------
 */

IN_BOTH(a_daemon_that_takes_nothing_is_tried_again_soon_then_later)
{
    ko_dyno_address to;
    acquainted(s);
    answer(s, "");
    go(s);
    assert_int_equal(ko_dyno_address_of(KO_DYNO_DAEMON, s->directory, &to, NULL), KINETO_OK);
    int fd = socket_of(NULL);
    while (sendto(fd, "x", 1, 0, (const struct sockaddr *)&to.address, to.size) == 1)
        ;
    close(fd);
    go_on(s);
    for (uint64_t wait = 10 * MS; wait <= 40 * MS; wait *= 2) {
        assert_int_equal(s->wake - s->now, wait);
        go_on(s);
    }
    assert_true(s->wake - s->now > INTERVAL / 2);
    char byte;
    while (recv(s->daemon, &byte, 1, 0) >= 0)
        ;
    poll_and_hear(s);
    still_served(s);
}

IN_BOTH(a_daemon_that_is_not_there_is_asked_less_often_and_found)
{
    static const uint64_t waits[] = {1, 2, 4, 4, 4};
    uint64_t interval = 1000 * MS;
    for (size_t i = 0; i < KB_COUNT(waits); i++) {
        s->now = s->wake;
        assert_int_equal(run_as(s, false, interval), KINETO_OK);
        assert_in_range(s->wake - s->now, interval * waits[i] / 10 * 9,
                        interval * waits[i] / 10 * 11);
    }
    for (int i = 0; i < 30; i++) { /* never longer than 10 s or so */
        go_on(s);
        assert_true(s->wake - s->now <= 11000 * MS);
    }
    daemon_begins(s);
    poll_and_hear(s);
    answer(s, "GOOD=1\n");
    came(s, "GOOD=1\n");
    go(s);
    assert_true(s->wake - s->now <= INTERVAL / 10 * 11);
    still_served(s);
}

IN_BOTH(a_daemon_that_vanishes_and_comes_back_serves_on)
{
    acquainted(s);
    still_served(s);
    for (int i = 0; i < 3; i++) {
        daemon_ends(s);
        go_on(s);
        go_on(s);
        daemon_begins(s);
        poll_and_hear(s);
        daemon_ends(s); /* having read the question */
        daemon_begins(s);
        poll_and_hear(s);
        still_served(s);
    }
}

/* ---- the socket ----------------------------------------------------------------------------------
 */

IN_BOTH(a_socket_that_the_program_closed_is_replaced)
{
    acquainted(s);
    int fd = ko_dyno_client_fd(s->client), other[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, other), 0);
    assert_int_equal(dup2(other[0], fd), fd); /* and the number is something else now */
    assert_int_equal(send(other[1], "mine", 4, 0), 4);
    go(s);
    assert_true(daemon_hears(s));
    still_served(s);
    char bytes[8];
    assert_int_equal(recv(fd, bytes, sizeof bytes, 0), 4);
    assert_int_equal(close(fd), 0);
    fd = ko_dyno_client_fd(s->client);
    close(fd);
    go(s);
    assert_true(daemon_hears(s));
    still_served(s);
    close(other[0]);
    close(other[1]);
}

/* What a fork's child does: 0 if it asks for itself and leaves the parent alone. */
static int as_child(scene *s, bool informed)
{
    ko_dyno_address parent = s->from;
    int32_t parent_pid = s->asked.pids[0];
    if (informed)
        ko_dyno_client_forked(s->client);
    go(s);
    if (!daemon_hears(s) || s->asked.pids[0] != getpid() || s->asked.pids[1] != parent_pid)
        return 1;
    if (s->from.size == parent.size && memcmp(&s->from.address, &parent.address, parent.size) == 0)
        return 2;
    answer(s, "CHILD=1\n");
    go(s);
    if (strcmp(s->text, "CHILD=1\n") != 0)
        return 3;
    ko_dyno_client_destroy(s->client);
    return 0;
}

IN_BOTH(after_a_fork_both_are_served)
{
    acquainted(s);
    for (int informed = 0; informed < 2; informed++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0)
            _exit(as_child(s, informed));
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
        answer(s, "PARENT=1\n");
        came(s, "PARENT=1\n");
        child = fork(); /* one that ends at once does not take the parent's file with it */
        if (child == 0) {
            ko_dyno_client_destroy(s->client);
            _exit(0);
        }
        waitpid(child, &status, 0);
        still_served(s);
    }
}

static void a_file_that_was_tidied_up_is_made_again(void **state)
{
    (void)state;
    char directory[] = "/tmp/ckdyno-XXXXXX";
    struct stat st;
    scene s;
    assert_non_null(mkdtemp(directory));
    scene_begins(&s, directory);
    acquainted(&s);
    assert_int_equal(stat(s.from.address.sun_path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    unlink(s.from.address.sun_path);
    go_on(&s);
    while (!daemon_hears(&s))
        go_on(&s);
    still_served(&s);
    unlink(s.from.address.sun_path); /* and a file of another program is left alone */
    FILE *f = fopen(s.from.address.sun_path, "w");
    fclose(f);
    char path[KO_DYNO_NAME_BYTES + 1];
    strcpy(path, s.from.address.sun_path);
    scene_ends(&s);
    assert_int_equal(access(path, F_OK), 0);
    remove_files(directory);
}

static void a_stale_file_of_a_daemon_is_not_a_daemon(void **state)
{
    (void)state;
    char directory[] = "/tmp/ckdyno-XXXXXX";
    scene s;
    assert_non_null(mkdtemp(directory));
    scene_begins(&s, directory);
    daemon_begins(&s);
    daemon_ends(&s); /* its file stays */
    go(&s);
    go_on(&s);
    daemon_begins(&s);
    poll_and_hear(&s);
    still_served(&s);
    scene_ends(&s);
    remove_files(directory);
}

static void directories_that_cannot_be_are_errors(void **state)
{
    (void)state;
    char directory[] = "/tmp/ckdyno-XXXXXX", longest[64], longer[64], inner[64];
    ko_dyno_client *c = NULL;
    kineto_error err;
    kineto_string text;
    uint64_t wake;
    memset(longest, 'd', sizeof longest);
    longest[0] = '/';
    memcpy(longer, longest, sizeof longer);
    longest[54] = longer[55] = '\0';
    assert_int_equal(ko_dyno_client_create(longer, &c, &err), KINETO_E_ARGUMENT);
    assert_null(c);
    assert_non_null(strstr(err.message, "too long"));
    assert_int_equal(ko_dyno_client_create(longest, &c, &err), KINETO_OK);
    ko_dyno_client_destroy(c);
    assert_non_null(mkdtemp(directory));
    snprintf(inner, sizeof inner, "%s/later", directory);
    assert_int_equal(ko_dyno_client_create(inner, &c, &err), KINETO_OK);
    assert_int_equal(ko_dyno_client_run(c, 5, false, INTERVAL, &text, &wake, &err),
                     KINETO_E_NOT_FOUND);
    assert_true(wake > INTERVAL / 2);
    assert_int_equal(ko_dyno_client_fd(c), -1);
    assert_int_equal(mkdir(inner, 0700), 0); /* and then it is there */
    assert_int_equal(ko_dyno_client_run(c, wake, false, INTERVAL, &text, &wake, &err), KINETO_OK);
    assert_true(ko_dyno_client_fd(c) >= 0);
    ko_dyno_client_destroy(c);
    rmdir(inner);
    rmdir(directory);
    ko_dyno_client_destroy(NULL);
}

IN_BOTH(without_descriptors_it_waits_for_some)
{
    struct rlimit before, few;
    daemon_begins(s);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &few);
    assert_int_equal(run_as(s, false, INTERVAL), KINETO_E_LIMIT);
    assert_true(s->wake - s->now > INTERVAL / 2);
    setrlimit(RLIMIT_NOFILE, &before);
    poll_and_hear(s);
    still_served(s);
}

/* ---- stopping ------------------------------------------------------------------------------------
 */

typedef void prepare(scene *s);
static void stop_before(scene *s) { (void)s; }
static void stop_absent(scene *s) { go(s); }
static void stop_unanswered(scene *s) { acquainted(s); }
static void stop_silent(scene *s)
{
    acquainted(s);
    go_on(s);
    go_on(s);
}
static void stop_flooded(scene *s)
{
    acquainted(s);
    while (sendto(s->daemon, "", 0, 0, (const struct sockaddr *)&s->from.address, s->from.size) ==
           0)
        ;
}
static void stop_answered(scene *s)
{
    acquainted(s);
    answer(s, "");
}

/* The first of a few that is short: how long stopping has to take, not how long a busy machine kept
 * it waiting. */
static uint64_t time_to_stop(scene *s, prepare *before)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20 && best > 50 * MS; i++) {
        before(s);
        uint64_t begin = kb_clock_ns(CLOCK_MONOTONIC);
        ko_dyno_client_destroy(s->client);
        best = KB_MIN(best, kb_clock_ns(CLOCK_MONOTONIC) - begin);
        if (s->daemon >= 0)
            daemon_ends(s);
        if (s->directory) {
            ko_dyno_address a;
            ko_dyno_address_of(KO_DYNO_DAEMON, s->directory, &a, NULL);
            unlink(a.address.sun_path);
        }
        assert_int_equal(ko_dyno_client_create(s->directory, &s->client, NULL), KINETO_OK);
    }
    return best;
}

IN_BOTH(it_stops_soon_whatever_it_waits_for)
{
    static prepare *const states[] = {stop_before, stop_absent,  stop_unanswered,
                                      stop_silent, stop_flooded, stop_answered};
    for (size_t i = 0; i < KB_COUNT(states); i++) {
        uint64_t took = time_to_stop(s, states[i]);
        print_message("state %zu: stopped in %.3f ms\n", i, (double)took / 1e6);
        assert_true(took < 50 * MS);
    }
}

IN_BOTH(an_answer_on_its_way_is_waited_for)
{
    int status = 1;
    acquainted(s);
    pid_t child = fork();
    if (child == 0) { /* Dynolog takes about 10 ms */
        struct timespec soon = {0, 2000000};
        nanosleep(&soon, NULL);
        answer(s, "");
        _exit(0);
    }
    ko_dyno_client_destroy(s->client);
    s->client = NULL;
    waitpid(child, &status, 0);
    if (status != 0)
        print_message("the answer came too late, on a busy machine\n");
}

/* ---- what it says --------------------------------------------------------------------------------
 */

static int lines_about(const char *path, const char *what)
{
    static char text[65536];
    int count = 0;
    read_whole(path, text, sizeof text);
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

static void every_change_is_one_line(void **state)
{
    (void)state;
    char directory[] = "/tmp/ckdyno-XXXXXX", path[64];
    scene s;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/log", directory);
    assert_int_equal(kb_log_configure(KINETO_LOG_INFO, path, NULL), KINETO_OK);
    scene_begins(&s, directory);
    for (int i = 0; i < 50; i++)
        go_on(&s);
    assert_int_equal(lines_about(path, "is not there"), 1);
    daemon_begins(&s);
    for (int i = 0; i < 50; i++) {
        poll_and_hear(&s);
        answer(&s, "");
        go(&s);
    }
    assert_int_equal(lines_about(path, "answers"), 1);
    int stranger = socket_named("stranger", directory);
    for (int i = 0; i < 500; i++) {
        send_text(&s, stranger, "EVIL=1\n");
        go(&s);
    }
    close(stranger);
    assert_int_equal(lines_about(path, "ignored"), 1);
    daemon_ends(&s);
    for (int i = 0; i < 50; i++)
        go_on(&s);
    assert_int_equal(lines_about(path, "is not there"), 2);
    assert_int_equal(lines_about(path, "\n"), 4);
    scene_ends(&s);
    remove_files(directory);
}

/* Names without a directory are of a network: one of our own, where we may have one. */
static void be_alone(void)
{
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        print_message("the names of sockets are shared with others here\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_call_asks_at_once),
        cmocka_unit_test(the_job_is_that_of_slurm),
        cmocka_unit_test(polls_are_about_an_interval_apart_and_not_alike),
        cmocka_unit_test(who_is_busy_asks_for_nothing_and_stays_known),
        cmocka_unit_test(no_interval_is_not_a_busy_loop),
        cmocka_unit_test(a_configuration_is_handed_over_once),
        cmocka_unit_test(a_late_answer_after_a_newer_one_counts),
        cmocka_unit_test(several_configurations_come_one_by_one_before_the_next_question),
        cmocka_unit_test(a_large_configuration_arrives_whole),
        cmocka_unit_test(who_is_not_the_daemon_is_not_heard),
        cmocka_unit_test(a_name_without_its_nul_is_another),
        cmocka_unit_test(another_user_is_not_heard_whatever_its_name),
        cmocka_unit_test(descriptors_that_are_sent_along_are_not_taken),
        cmocka_unit_test(a_malformed_answer_is_ignored_and_the_next_good_one_is_not),
        cmocka_unit_test(random_bytes_are_ignored),
        cmocka_unit_test(more_than_a_mebibyte_is_ignored),
        cmocka_unit_test(a_full_queue_is_emptied_in_one_call),
        cmocka_unit_test(a_daemon_that_takes_nothing_is_tried_again_soon_then_later),
        cmocka_unit_test(a_daemon_that_is_not_there_is_asked_less_often_and_found),
        cmocka_unit_test(a_daemon_that_vanishes_and_comes_back_serves_on),
        cmocka_unit_test(a_socket_that_the_program_closed_is_replaced),
        cmocka_unit_test(after_a_fork_both_are_served),
        cmocka_unit_test(a_file_that_was_tidied_up_is_made_again),
        cmocka_unit_test(a_stale_file_of_a_daemon_is_not_a_daemon),
        cmocka_unit_test(directories_that_cannot_be_are_errors),
        cmocka_unit_test(without_descriptors_it_waits_for_some),
        cmocka_unit_test(it_stops_soon_whatever_it_waits_for),
        cmocka_unit_test(an_answer_on_its_way_is_waited_for),
        cmocka_unit_test(every_change_is_one_line),
    };
    unsetenv("SLURM_JOB_ID");
    be_alone();
    return RUN_TESTS(tests);
}

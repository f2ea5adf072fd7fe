/* What else a process listens to: a signal, a file, Dynolog. */
#include "../unit/unit.h"

#include "control_fixture.h"

#include "ondemand/dynolog/dyno.h"

/* ---- what was asked for ------------------------------------------------------------------------
 */

static uint32_t count_stage(fixture *f, ko_stage stage)
{
    uint32_t n = 0;
    pthread_mutex_lock(&f->note_lock);
    for (uint32_t i = 0; i < f->note_count; i++)
        n += f->notes[i].stage == (uint32_t)stage;
    pthread_mutex_unlock(&f->note_lock);
    return n;
}

static uint32_t asked(fixture *f)
{
    return count_stage(f, KO_STAGE_ACCEPTED) + count_stage(f, KO_STAGE_REFUSED);
}

static void turn_a_little(control_test *t) { ko_controller_turn(t->f->controller, MS); }

/* Exactly N requests in all, and no more for a while. */
static void expect_asked(control_test *t, uint32_t count)
{
    int64_t until_ns = now_ns() + HANG_NS;
    while (asked(t->f) < count) {
        turn_a_little(t);
        assert_true(now_ns() < until_ns);
    }
    for (int64_t quiet_ns = now_ns() + 30 * MS; now_ns() < quiet_ns;)
        turn_a_little(t);
    assert_int_equal(asked(t->f), count);
}

static void wait_until_idle(control_test *t)
{
    int64_t until_ns = now_ns() + HANG_NS;
    while (!ko_controller_can_accept(t->f->controller, NULL)) {
        turn_a_little(t);
        assert_true(now_ns() < until_ns);
    }
}

/* Requests that say nothing are short. */
static void usual_values(control_test *t, const char *more)
{
    char path[128];
    snprintf(path, sizeof path, "%s/kineto.conf", t->runtime);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "ACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_DURATION_MSECS=1\n%s\n", more);
    fclose(f);
    setenv("KINETO_CONFIG", path, 1);
}

static control_test *new_test(void)
{
    control_test *t = calloc(1, sizeof *t);
    assert_non_null(t);
    new_runtime(t);
    usual_values(t, "");
    return t;
}

/* ---- signals -----------------------------------------------------------------------------------
 */

static volatile sig_atomic_t handled, handled_with_info;
static void handle(int signal) { handled = handled + 1, (void)signal; }
static void handle_with_info(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    handled_with_info = handled_with_info + (info->si_pid == getpid() ? 1 : 100);
}

static control_test *signal_test(int number)
{
    control_test *t = new_test();
    kineto_error err;
    ko_listener *l = ko_signal_listener_create(number, &err);
    listen_with(t, l, &err);
    return t;
}

static void names_of_signals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int number; /* 0: refused */
    } rows[] = {{"USR2", SIGUSR2},
                {"SIGUSR2", SIGUSR2},
                {"usr1", SIGUSR1},
                {"12", 12},
                {"PWR", SIGPWR},
                {"KILL", 0},
                {"9", 0},
                {"STOP", 0},
                {"SIGSEGV", 0},
                {"11", 0},
                {"", 0},
                {"-1", 0},
                {"USR3", 0},
                {"0", 0},
                {"65", 0},
                {"12x", 0},
                {"999999999999", 0},
                {"RTMIN+x", 0},
                {"RTMIN+99", 0},
                {"RTMAX-99", 0},
                {"TERM", 0},
                {"SIG", 0}};
    kineto_error err;
    int number;
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        number = 0;
        kineto_status status = ko_signal_parse(rows[i].text, &number, &err);
        if (number != rows[i].number || (status == KINETO_OK) != (rows[i].number != 0))
            fail_msg("'%s' is %d", rows[i].text, number);
        if (status != KINETO_OK)
            assert_non_null(strstr(err.message, "USR1"));
    }
    assert_int_equal(ko_signal_parse("RTMIN+2", &number, &err), KINETO_OK);
    assert_int_equal(number, SIGRTMIN + 2);
    assert_int_equal(ko_signal_parse("SIGRTMAX-1", &number, &err), KINETO_OK);
    assert_int_equal(number, SIGRTMAX - 1);
    assert_null(ko_signal_listener_create(SIGSEGV, &err));
    assert_int_equal(err.code, KINETO_E_ARGUMENT);
}

static void a_signal_asks_for_what_the_file_says(void **state)
{
    (void)state;
    control_test *t = new_test();
    kineto_error err;
    char more[256], path[256];
    /* Where the file says, not only where requests may write. */
    snprintf(more, sizeof more, "ACTIVITIES_LOG_FILE=%s/mine.json", t->runtime);
    usual_values(t, more);
    ko_listener *l = ko_signal_listener_create(SIGUSR2, &err);
    listen_with(t, l, &err);
    raise(SIGUSR2);
    expect_asked(t, 1);
    wait_until_idle(t);
    snprintf(path, sizeof path, "%s/mine_4321.json", t->runtime);
    assert_string_equal(t->f->driver.path, path);
    assert_int_equal(t->f->driver.source, KO_FROM_FILE);
    kill(getpid(), SIGUSR2);
    expect_asked(t, 2);
    control_end(t);
}

static void what_the_program_does_with_it_goes_on(void **state)
{
    (void)state;
    struct sigaction own = {.sa_handler = handle},
                     info = {.sa_sigaction = handle_with_info, .sa_flags = SA_SIGINFO}, now;
    sigaction(SIGUSR2, &own, NULL);
    control_test *t = signal_test(SIGUSR2);
    sigaction(SIGUSR2, NULL, &now);
    assert_false(now.sa_flags & SA_RESTART); /* it wants to be woken from system calls */
    handled = handled_with_info = 0;
    raise(SIGUSR2);
    assert_int_equal(handled, 1);
    expect_asked(t, 1);
    control_end(t);
    sigaction(SIGUSR2, NULL, &now);
    assert_ptr_equal(now.sa_handler, handle); /* as it was before */
    raise(SIGUSR2);
    assert_int_equal(handled, 2);
    sigaction(SIGUSR2, &info, NULL);
    t = signal_test(SIGUSR2);
    raise(SIGUSR2);
    assert_int_equal(handled_with_info, 1);
    control_end(t);
    signal(SIGUSR2, SIG_IGN);
    t = signal_test(SIGUSR2);
    raise(SIGUSR2);
    expect_asked(t, 1);
    control_end(t);
    sigaction(SIGUSR2, NULL, &now);
    assert_ptr_equal(now.sa_handler, SIG_IGN);
    signal(SIGUSR2, SIG_DFL);
}

/* A handler that the program put on top, and that calls the one before. */
static struct sigaction below;
static void chain(int number, siginfo_t *info, void *context)
{
    handled = handled + 1;
    if (below.sa_flags & SA_SIGINFO)
        below.sa_sigaction(number, info, context);
}

static void a_handler_on_top_of_ours_stays(void **state)
{
    (void)state;
    struct sigaction top = {.sa_sigaction = chain, .sa_flags = SA_SIGINFO}, now;
    control_test *t = signal_test(SIGRTMIN + 3);
    sigaction(SIGRTMIN + 3, &top, &below);
    handled = 0;
    raise(SIGRTMIN + 3);
    expect_asked(t, 1);
    control_end(t);
    sigaction(SIGRTMIN + 3, NULL, &now);
    assert_ptr_equal(now.sa_sigaction, chain);
    raise(SIGRTMIN + 3); /* without handler */
    t = signal_test(SIGRTMIN + 3);
    raise(SIGRTMIN + 3); /* once, not for ever */
    assert_int_equal(handled, 3);
    expect_asked(t, 1);
    control_end(t);
}

static void one_signal_at_a_time(void **state)
{
    (void)state;
    control_test *t = signal_test(SIGUSR1);
    kineto_error err;
    assert_null(ko_signal_listener_create(SIGUSR2, &err));
    assert_int_equal(err.code, KINETO_E_STATE);
    raise(SIGUSR1);
    expect_asked(t, 1);
    control_end(t);
}

static void a_burst_of_signals_asks_once(void **state)
{
    (void)state;
    control_test *t = signal_test(SIGRTMIN + 1);
    errno = 4711;
    for (int i = 0; i < 5000; i++) {
        raise(SIGRTMIN + 1);
        assert_int_equal(errno, 4711);
    }
    int64_t until_ns = now_ns() + HANG_NS;
    while (asked(t->f) == 0 && now_ns() < until_ns)
        turn_a_little(t);
    assert_int_equal(count_stage(t->f, KO_STAGE_ACCEPTED), 1);
    assert_int_equal(count_stage(t->f, KO_STAGE_REFUSED), 0);
    control_end(t);
}

static void while_it_is_busy_signals_are_refused(void **state)
{
    (void)state;
    control_test *t = new_test();
    kineto_error err;
    usual_values(t, "ACTIVITIES_DURATION_MSECS=60000");
    ko_listener *l = ko_signal_listener_create(SIGUSR2, &err);
    listen_with(t, l, &err);
    raise(SIGUSR2);
    expect_asked(t, 1);
    raise(SIGUSR2);
    raise(SIGUSR2);
    expect_asked(t, 2);
    assert_int_equal(count_stage(t->f, KO_STAGE_REFUSED), 1);
    control_end(t);
}

static void a_child_does_not_ring_for_its_parent(void **state)
{
    (void)state;
    control_test *t = signal_test(SIGUSR2);
    for (int notified = 0; notified < 2; notified++) {
        pid_t child = fork();
        if (child == 0) {
            if (notified) {
                t->listener->forked(t->listener);
                t->listener->destroy(t->listener);
                struct sigaction now;
                sigaction(SIGUSR2, NULL, &now);
                _exit(now.sa_handler == SIG_DFL ? 0 : 1);
            }
            raise(SIGUSR2);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    expect_asked(t, 0);
    raise(SIGUSR2);
    expect_asked(t, 1);
    control_end(t);
}

static void a_signal_s_bell_is_taken_away(void **state)
{
    (void)state;
    control_test *t = signal_test(SIGUSR2);
    int fd = t->listener->fd, pipe_ends[2];
    char byte = 0;
    close(fd);
    close(fd + 1);
    turn_a_little(t); /* sees it */
    raise(SIGUSR2);
    expect_asked(t, 1);
    close(t->listener->fd);
    close(t->listener->fd + 1);
    assert_int_equal(pipe(pipe_ends), 0); /* in their place, it may be */
    fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
    raise(SIGUSR2);
    turn_a_little(t);
    assert_int_equal(read(pipe_ends[0], &byte, 1), -1); /* nothing was written to it */
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    control_end(t);
}

static void *raise_often(void *argument)
{
    for (int i = 0; i < 2000 && !kb_load_acquire((bool *)argument); i++)
        kill(getpid(), SIGUSR2);
    return NULL;
}

static void signals_come_as_listeners_come_and_go(void **state)
{
    (void)state;
    bool stop = false;
    pthread_t thread;
    kineto_error err;
    signal(SIGUSR2, SIG_IGN);
    assert_int_equal(pthread_create(&thread, NULL, raise_often, &stop), 0);
    for (int i = 0; i < 50; i++) {
        ko_listener *l = ko_signal_listener_create(SIGUSR2, &err);
        assert_non_null(l);
        l->destroy(l);
    }
    kb_store_release(&stop, true);
    pthread_join(thread, NULL);
    signal(SIGUSR2, SIG_DFL);
}

/* ---- files -------------------------------------------------------------------------------------
 */

typedef struct file_test {
    control_test *t;
    char directory[96], path[128], temporary[128];
} file_test;

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static file_test file_new(bool directory)
{
    file_test f = {.t = new_test()};
    kineto_error err;
    umask(022);
    snprintf(f.directory, sizeof f.directory, "%s/a/b", f.t->runtime);
    snprintf(f.path, sizeof f.path, "%s/trigger", f.directory);
    snprintf(f.temporary, sizeof f.temporary, "%s/trigger.tmp", f.directory);
    if (directory) {
        char above[96];
        snprintf(above, sizeof above, "%s/a", f.t->runtime);
        assert_int_equal(mkdir(above, 0755) | mkdir(f.directory, 0755), 0);
    }
    ko_listener *l = ko_file_listener_create(f.path, &err);
    listen_with(f.t, l, &err);
    return f;
}

static void asks(file_test *f, uint32_t count)
{
    expect_asked(f->t, count);
    wait_until_idle(f->t);
    assert_int_equal(count_stage(f->t->f, KO_STAGE_REFUSED), 0);
}

static void every_way_to_write_asks_once(void **state)
{
    (void)state;
    file_test f = file_new(true);
    put(f.path, ""); /* made */
    asks(&f, 1);
    put(f.path, "REQUEST_TRACE_ID=two\n"); /* cut to nothing and written */
    asks(&f, 2);
    assert_string_equal(f.t->f->driver.request.trace_id, "two");
    assert_int_equal(f.t->f->driver.source, KO_FROM_REQUEST);
    assert_int_equal(utimensat(AT_FDCWD, f.path, NULL, 0), 0); /* touched */
    asks(&f, 3);
    put(f.temporary, "REQUEST_TRACE_ID=three\n"); /* another one moved over it, as editors do */
    asks(&f, 3);
    assert_int_equal(rename(f.temporary, f.path), 0);
    asks(&f, 4);
    assert_string_equal(f.t->f->driver.request.trace_id, "three");
    assert_int_equal(unlink(f.path), 0);
    asks(&f, 4);
    put(f.path, "");
    asks(&f, 5);
    assert_int_equal(rename(f.path, f.temporary), 0); /* moved away and made anew, as vi does */
    put(f.path, "");
    chmod(f.path, 0600);
    unlink(f.temporary);
    asks(&f, 6);
    int fd = open(f.path, O_WRONLY | O_APPEND | O_CLOEXEC); /* piece by piece: at its end */
    for (int i = 0; i < 10; i++)
        assert_int_equal(write(fd, "#\n", 2), 2);
    asks(&f, 6);
    close(fd);
    asks(&f, 7);
    control_end(f.t);
}

static void what_is_there_at_the_start_asks_for_nothing(void **state)
{
    (void)state;
    control_test *t = new_test();
    kineto_error err;
    char path[128], here[256];
    snprintf(path, sizeof path, "%s/trigger", t->runtime);
    put(path, "");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(t->runtime), 0); /* by a relative path, and the program moves on */
    ko_listener *l = ko_file_listener_create("trigger", &err);
    assert_int_equal(chdir(here), 0);
    listen_with(t, l, &err);
    expect_asked(t, 0);
    put(path, "");
    expect_asked(t, 1);
    control_end(t);
}

static void a_directory_that_is_not_there_yet(void **state)
{
    (void)state;
    file_test f = file_new(false);
    char above[96], away[96];
    snprintf(above, sizeof above, "%s/a", f.t->runtime);
    snprintf(away, sizeof away, "%s/z", f.t->runtime);
    assert_int_equal(mkdir(above, 0755), 0);
    turn_a_little(f.t);
    assert_int_equal(mkdir(f.directory, 0755), 0);
    put(f.path, ""); /* before it could be watched */
    asks(&f, 1);
    put(f.path, "");
    asks(&f, 2);
    remove_tree(f.directory);
    turn_a_little(f.t);
    assert_int_equal(mkdir(f.directory, 0755), 0);
    asks(&f, 2);
    put(f.path, "");
    asks(&f, 3);
    assert_int_equal(rename(above, away), 0); /* one above is moved away with all that is in it */
    asks(&f, 3);
    snprintf(f.temporary, sizeof f.temporary, "%s/z/b/trigger", f.t->runtime);
    put(f.temporary, ""); /* it is not ours any more */
    asks(&f, 3);
    assert_int_equal(rename(away, above), 0); /* and back, with a file that has changed */
    asks(&f, 4);
    put(f.path, "");
    asks(&f, 5);
    control_end(f.t);
}

static void files_that_others_may_have_written_ask_for_nothing(void **state)
{
    (void)state;
    file_test f = file_new(true);
    char other[128];
    snprintf(other, sizeof other, "%s/other", f.directory);
    put(other, "");
    assert_int_equal(symlink(other, f.temporary), 0);
    assert_int_equal(rename(f.temporary, f.path), 0);
    expect_asked(f.t, 0);
    unlink(f.path);
    assert_int_equal(mkfifo(f.temporary, 0600), 0);
    assert_int_equal(rename(f.temporary, f.path), 0);
    expect_asked(f.t, 0);
    unlink(f.path);
    assert_int_equal(mkdir(f.path, 0700), 0);
    expect_asked(f.t, 0);
    rmdir(f.path);
    put(f.temporary, "");
    chmod(f.temporary, 0666);
    assert_int_equal(rename(f.temporary, f.path), 0);
    expect_asked(f.t, 0);
    chmod(f.path, 0664);
    expect_asked(f.t, 0);
    if (geteuid() == 0) {
        chmod(f.path, 0644);
        expect_asked(f.t, 1);
        assert_int_equal(chown(f.path, 65534, 65534), 0);
        expect_asked(f.t, 1);
    }
    control_end(f.t);
}

static void what_a_file_may_not_say(void **state)
{
    (void)state;
    static char many[(1 << 20) + 2];
    file_test f = file_new(true);
    memset(many, '#', sizeof many - 1);
    put(f.path, "ACTIVITIES_LOG_FILE=/etc/passwd\n"); /* it is a request: paths are restricted */
    expect_asked(f.t, 1);
    put(f.path, "no request");
    expect_asked(f.t, 2);
    assert_int_equal(count_stage(f.t->f, KO_STAGE_REFUSED), 2);
    put(f.path, many); /* too long: it is not even read */
    expect_asked(f.t, 2);
    many[1 << 20] = '\0';
    put(f.path, many);
    expect_asked(f.t, 3);
    assert_int_equal(count_stage(f.t->f, KO_STAGE_ACCEPTED), 1);
    control_end(f.t);
}

/* It is the same status as that of a trigger file that is away again, which is not news. */
static void that_the_directory_of_traces_is_missing_is_said(void **state)
{
    (void)state;
    file_test f = file_new(true);
    kineto_error err;
    char missing[128], log[128], request[200], text[4096];
    snprintf(missing, sizeof missing, "%s/none", f.t->runtime);
    snprintf(log, sizeof log, "%s/log", f.t->runtime);
    snprintf(request, sizeof request, "ACTIVITIES_LOG_FILE=%s/x.json\n", missing);
    setenv("KINETO_ONDEMAND_TRACE_DIR", missing, 1);
    assert_int_equal(kb_log_configure(KINETO_LOG_WARNING, log, &err), KINETO_OK);
    put(f.path, request);
    expect_asked(f.t, 1);
    assert_int_equal(kb_log_configure(KINETO_LOG_ERROR, NULL, &err), KINETO_OK);
    setenv("KINETO_ONDEMAND_TRACE_DIR", f.t->f->directory, 1);
    assert_true(read_whole(log, text, sizeof text) > 0);
    assert_non_null(strstr(text, "refused the request"));
    assert_int_equal(count_stage(f.t->f, KO_STAGE_ACCEPTED), 0);
    unlink(log);
    control_end(f.t);
}

static void paths_of_trigger_files(void **state)
{
    (void)state;
    static char longer[KO_REQUEST_PATH_BYTES + 8];
    static const char *const bad[] = {"/tmp/", "/", "/tmp/..", "/tmp/."};
    kineto_error err;
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        assert_null(ko_file_listener_create(bad[i], &err));
        assert_int_equal(err.code, KINETO_E_ARGUMENT);
    }
    memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    assert_null(ko_file_listener_create(longer, &err));
    assert_int_equal(err.code, KINETO_E_LIMIT);
    for (size_t i = 0; i + 1 < 200; i += 2)
        memcpy(longer + i, "/x", 2);
    longer[200] = '\0';
    assert_null(ko_file_listener_create(longer, &err));
    assert_int_equal(err.code, KINETO_E_LIMIT);
}

static void a_busy_directory_asks_for_nothing(void **state)
{
    (void)state;
    file_test f = file_new(true);
    char path[160];
    for (int i = 0; i < 20000; i++) { /* more than the queue of events holds */
        snprintf(path, sizeof path, "%s/%d", f.directory, i & 7);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        close(fd);
    }
    expect_asked(f.t, 0);
    put(f.path, "");
    asks(&f, 1);
    control_end(f.t);
}

static void a_file_s_watch_is_taken_away(void **state)
{
    (void)state;
    file_test f = file_new(true);
    int fd = f.t->listener->fd, pipe_ends[2];
    close(fd);     /* epoll */
    close(fd - 1); /* inotify */
    assert_int_equal(pipe(pipe_ends), 0);
    assert_int_equal(write(pipe_ends[1], "x", 1), 1);
    f.t->listener->wake_ns = 0;
    turn_a_little(f.t);
    char byte = 0;
    assert_int_equal(read(pipe_ends[0], &byte, 1), 1);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    put(f.path, "");
    asks(&f, 1);
    control_end(f.t);
}

static void a_child_s_trigger_file_is_its_parent_s(void **state)
{
    (void)state;
    file_test f = file_new(true);
    pid_t child = fork();
    if (child == 0) {
        f.t->listener->forked(f.t->listener);
        f.t->listener->destroy(f.t->listener);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    put(f.path, "");
    asks(&f, 1);
    control_end(f.t);
}

/* ---- Dynolog -----------------------------------------------------------------------------------
 */

typedef struct daemon_thread {
    ko_dyno_daemon *daemon;
    pthread_t thread;
    int stop[2];
} daemon_thread;

static void *serve_requests(void *argument)
{
    daemon_thread *d = argument;
    struct pollfd polled = {.fd = d->stop[0], .events = POLLIN};
    while (poll(&polled, 1, 0) == 0)
        if (ko_dyno_daemon_run(d->daemon, 1000, d->stop[0], NULL) != KINETO_OK)
            break;
    return NULL;
}

static void dynolog_asks(void **state)
{
    (void)state;
    control_test *t = new_test();
    kineto_error err;
    daemon_thread d = {0};
    setenv("KINETO_IPC_SOCKET_DIR", t->runtime, 1);
    ko_dyno_daemon_options options = {.directory = t->runtime, .no_rpc = true};
    assert_int_equal(ko_dyno_daemon_create(&options, &d.daemon, &err), KINETO_OK);
    int32_t pid = getpid();
    ko_dyno_trigger ask = {.pids = &pid, .pid_count = 1, .limit = -1};
    ko_listener *l = ko_dyno_listener_create(20000000, &err);
    listen_with(t, l, &err);
    fixture_turn(t->f);
    ko_dyno_matches m = {0};
    int64_t until_ns = now_ns() + HANG_NS;
    while (m.matched.count == 0) { /* until it has asked once */
        assert_int_equal(ko_dyno_daemon_run(d.daemon, 20, -1, &err), KINETO_OK);
        ask.config = kb_string("ACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_DURATION_MSECS=5\n"
                               "REQUEST_GROUP_TRACE_ID=dyno\n");
        ko_dyno_matches_free(&m);
        m = (ko_dyno_matches){0};
        assert_int_equal(ko_dyno_registry_trigger(ko_dyno_daemon_registry(d.daemon), &ask,
                                                  kb_clock_ns(CLOCK_MONOTONIC), &m, &err),
                         KINETO_OK);
        assert_true(now_ns() < until_ns);
    }
    ko_dyno_matches_free(&m);
    assert_int_equal(pipe(d.stop), 0);
    assert_int_equal(pthread_create(&d.thread, NULL, serve_requests, &d), 0);
    while (count_stage(t->f, KO_STAGE_WRITTEN) == 0) {
        pause_ns(MS);
        assert_true(now_ns() < until_ns);
    }
    assert_string_equal(t->f->driver.request.group_id, "dyno");
    control_end(t);
    assert_int_equal(write(d.stop[1], "", 1), 1);
    pthread_join(d.thread, NULL);
    ko_dyno_daemon_destroy(d.daemon);
    close(d.stop[0]);
    close(d.stop[1]);
    unsetenv("KINETO_IPC_SOCKET_DIR");
}

/* A daemon of a few lines, that sends what it likes when it likes. */
static void what_comes_while_it_is_busy_is_refused_aloud(void **state)
{
    (void)state;
    control_test *t = new_test();
    kineto_error err;
    ko_dyno_address at, from = {0};
    ko_dyno_message m;
    const char *why;
    char bytes[1024];
    setenv("KINETO_IPC_SOCKET_DIR", t->runtime, 1);
    assert_int_equal(ko_dyno_address_of(KO_DYNO_DAEMON, t->runtime, &at, &err), KINETO_OK);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at.address, at.size), 0);
    ko_listener *l = ko_dyno_listener_create(20000000, &err);
    listen_with(t, l, &err);
    fixture_turn(t->f);
    ko_controller_preempt(t->f->controller, true);
    do { /* while it is busy it asks for nothing */
        from.size = sizeof from.address;
        ssize_t n =
            recvfrom(fd, bytes, sizeof bytes, 0, (struct sockaddr *)&from.address, &from.size);
        assert_true(n > 0 && ko_dyno_decode(bytes, (size_t)n, &m, &why));
    } while (m.wants != KO_DYNO_WANTS_NOTHING);
    size_t n = ko_dyno_encode_answer(KO_DYNO_REQUEST, kb_string("ACTIVITIES_DURATION_MSECS=5\n"),
                                  bytes, sizeof bytes);
    assert_int_equal(sendto(fd, bytes, n, 0, (struct sockaddr *)&from.address, from.size), n);
    int64_t until_ns = now_ns() + HANG_NS;
    while (count_stage(t->f, KO_STAGE_REFUSED) == 0) {
        pause_ns(MS);
        assert_true(now_ns() < until_ns);
    }
    close(fd);
    control_end(t);
    unsetenv("KINETO_IPC_SOCKET_DIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_signals),
        cmocka_unit_test(a_signal_asks_for_what_the_file_says),
        cmocka_unit_test(what_the_program_does_with_it_goes_on),
        cmocka_unit_test(a_handler_on_top_of_ours_stays),
        cmocka_unit_test(one_signal_at_a_time),
        cmocka_unit_test(a_burst_of_signals_asks_once),
        cmocka_unit_test(while_it_is_busy_signals_are_refused),
        cmocka_unit_test(a_child_does_not_ring_for_its_parent),
        cmocka_unit_test(a_signal_s_bell_is_taken_away),
        cmocka_unit_test(signals_come_as_listeners_come_and_go),
        cmocka_unit_test(every_way_to_write_asks_once),
        cmocka_unit_test(what_is_there_at_the_start_asks_for_nothing),
        cmocka_unit_test(a_directory_that_is_not_there_yet),
        cmocka_unit_test(files_that_others_may_have_written_ask_for_nothing),
        cmocka_unit_test(what_a_file_may_not_say),
        cmocka_unit_test(that_the_directory_of_traces_is_missing_is_said),
        cmocka_unit_test(paths_of_trigger_files),
        cmocka_unit_test(a_busy_directory_asks_for_nothing),
        cmocka_unit_test(a_file_s_watch_is_taken_away),
        cmocka_unit_test(a_child_s_trigger_file_is_its_parent_s),
        cmocka_unit_test(dynolog_asks),
        cmocka_unit_test(what_comes_while_it_is_busy_is_refused_aloud),
    };
    setenv("KINETO_LOG_LEVEL", "4", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

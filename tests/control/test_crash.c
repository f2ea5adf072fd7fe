/* Programs that crash: the ring is on disk, and all that happens without it happens nevertheless.
 * Each one is a child of the test. */
#include "../unit/unit.h"

#include "../helpers/recording.h"
#include "ondemand/capture/ring.h"
#include "record/record.h"
#include "session/session.h"

#include <ckineto/control.h>
#include <dirent.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#if ADDRESS_SANITIZED
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:"
           "use_sigaltstack=0:detect_leaks=0";
}
#endif

/* What another thread does right after a signal was checked. */
static void (*when_looked)(int sig);
int __real_sigaction(int sig, const struct sigaction *a, struct sigaction *old);
int __wrap_sigaction(int sig, const struct sigaction *a, struct sigaction *old);
int __wrap_sigaction(int sig, const struct sigaction *a, struct sigaction *old)
{
    int rc = __real_sigaction(sig, a, old);
    if (!a && when_looked)
        when_looked(sig);
    return rc;
}

/* What another thread does while the ring is being written. */
static void (*when_written)(void);
ssize_t __real_pwrite(int fd, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    void (*what)(void) = when_written;
    when_written = NULL;
    if (what)
        what();
    return __real_pwrite(fd, data, bytes, at);
}

KINETO_SITE(mine, KINETO_KIND_USER_ANNOTATION, "mine");
KINETO_SITE(work, KINETO_KIND_CPU_OP, "work");
KINETO_SITE(around, KINETO_KIND_CPU_OP, "around");

static char folder[300];

static void do_work(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        kineto_range_end(kineto_range_begin(&work));
}

static uint32_t files(const char *ending, char *path, size_t bytes)
{
    uint32_t count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name), k = strlen(ending);
        if (n < k || strcmp(e->d_name + n - k, ending) != 0)
            continue;
        snprintf(path, bytes, "%s/%s", folder, e->d_name);
        count++;
    }
    if (d)
        closedir(d);
    return count;
}

static void empty_folder(void)
{
    char path[700];
    mkdir(folder, 0700);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            unlink(path);
    }
    if (d)
        closedir(d);
}

/* ---- children ---- */

static uint64_t ring_kinds = KINETO_KINDS_ALL;

static void start_with(const char *path)
{
    struct rlimit none = {0, 0};
    kineto_control_options o;
    kineto_control_options_init(&o);
    kineto_error err = {0};
    setrlimit(RLIMIT_CORE, &none);
    alarm(60);
    o.ring_seconds = 30;
    o.ring_bytes = 1 << 20;
    o.ring_kinds = ring_kinds;
    o.dump_on_crash = true;
    o.dump_path = path;
    if (kineto_control_start(&o, &err)) {
        fprintf(stderr, "%s\n", err.message);
        _exit(99);
    }
}

static void start(void) { start_with(NULL); }

/* Status of a child that does this; `said` receives its standard error. */
static char said[4096];
static int run(void (*what)(void))
{
    int pipe_fds[2], status = 0;
    empty_folder();
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipe_fds[1], STDERR_FILENO);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        for (int sig = 1; sig < 32; sig++) /* cmocka has its own */
            signal(sig, SIG_DFL);
        what();
        _exit(98);
    }
    close(pipe_fds[1]);
    size_t size = 0;
    for (ssize_t n; (n = read(pipe_fds[0], said + size, sizeof said - 1 - size)) > 0;)
        size += (size_t)n;
    said[size] = '\0';
    close(pipe_fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

#define assert_died_of(status, sig)                                                                \
    do {                                                                                           \
        int status_ = (status);                                                                    \
        if (!WIFSIGNALED(status_) || WTERMSIG(status_) != (sig))                                   \
            fail_msg("status %#x, not by signal %d; it said: %s", (unsigned)status_, (sig), said); \
    } while (0)

/* The trace of the only file there is. */
static kineto_trace *recover(void)
{
    static ks_orphan what;
    char path[700];
    struct stat st;
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    if (files(".ckpool", path, sizeof path) != 1)
        fail_msg("there is not one file; it said: %s", said);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true((uint64_t)st.st_blocks * 512 < 4u << 20);
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, "ckineto recover -o"));
    assert_null(strchr(strstr(said, "ckineto: SIG"), '\n')[1] ? "more than a line" : NULL);
    if (ks_recover(path, false, &what, &trace, &err))
        fail_msg("%s", err.message);
    assert_string_equal(what.output_path + strlen(what.output_path) - 5, ".json");
    return trace;
}

static bool has_metadata(const kineto_trace *trace, const char *key, const char *part)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_string k, v;
        kineto_trace_metadata(trace, i, &k, &v);
        if (text_is(k, key) && memmem(v.data, v.size, part, strlen(part)))
            return true;
    }
    return false;
}

/* All that was recorded before the crash is there, the signal last, on its thread. */
static void check_trace(const char *signal, uint64_t worked)
{
    kineto_trace *t = recover();
    kineto_activity s = find_only(t, signal), a = find_only(t, "around");
    assert_int_equal(count_named(t, "work"), worked);
    assert_int_equal(s.track, a.track);
    assert_true(s.start_ns >= a.start_ns && a.flags & KINETO_ACTIVITY_OPEN_END);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++)
        assert_true(row_at(t, r).start_ns <= s.start_ns);
    assert_true(has_metadata(t, "ckineto_dump_reason", signal));
    assert_nothing_lost(t);
    kineto_trace_release(t);
}

/* ---- each signal ---- */

__attribute__((no_sanitize("undefined", "address"), noinline)) static void fault(int sig)
{
    static char *volatile nowhere;
    static volatile int zero;
    if (sig == SIGSEGV)
        *nowhere = 1;
#if defined(__x86_64__)
    if (sig == SIGFPE)
        zero = 1 / zero;
    if (sig == SIGILL)
        __asm__ volatile("ud2");
#endif
    (void)zero;
    if (sig == SIGBUS) {
        FILE *f = tmpfile();
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
        *(char *volatile)page = 1;
    }
    if (sig == SIGABRT)
        abort();
    raise(sig);
}

static int wanted;

static void crash_in_work(void)
{
    do_work(100);
    (void)kineto_range_begin(&around);
    fault(wanted);
}

static void crash_by_signal(void)
{
    start();
    crash_in_work();
}

static void each_signal_leaves_the_ring_and_its_status(void **state)
{
    (void)state;
    const struct {
        int sig;
        const char *name;
    } all[] = {{SIGSEGV, "SIGSEGV"},
               {SIGBUS, "SIGBUS"},
               {SIGFPE, "SIGFPE"},
               {SIGILL, "SIGILL"},
               {SIGABRT, "SIGABRT"}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        wanted = all[i].sig;
        assert_died_of(run(crash_by_signal), wanted);
        check_trace(all[i].name, 100);
    }
}

static void *crash_thread(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "crasher");
    crash_in_work();
    return NULL;
}

static void crash_in_thread(void)
{
    pthread_t thread;
    start();
    do_work(10);
    pthread_create(&thread, NULL, crash_thread, NULL);
    pthread_join(thread, NULL);
}

static void a_thread_of_the_program_crashes(void **state)
{
    (void)state;
    wanted = SIGSEGV;
    assert_died_of(run(crash_in_thread), SIGSEGV);
    check_trace("SIGSEGV", 110);
    kineto_track track;
    kineto_trace *t = recover();
    kineto_trace_track(t, find_only(t, "SIGSEGV").track, &track);
    assert_non_null(memmem(track.name.data, track.name.size, "(crasher)", strlen("(crasher)")));
    kineto_trace_release(t);
}

static void on_usr1(int sig)
{
    (void)sig;
    crash_in_work();
}

static void crash_in_handler(void)
{
    start();
    signal(SIGUSR1, on_usr1);
    raise(SIGUSR1);
}

static void a_handler_of_the_program_crashes(void **state)
{
    (void)state;
    wanted = SIGFPE;
    assert_died_of(run(crash_in_handler), SIGFPE);
    check_trace("SIGFPE", 100);
}

static volatile int deep_enough; /* never */
__attribute__((noinline, no_sanitize("address"))) static int use_up_stack(volatile char *before)
{
    volatile char room[4096];
    room[0] = before ? before[0] : 1;
    return deep_enough ? 0 : use_up_stack(room) + room[0];
}

static void crash_of_stack(void)
{
    start();
    do_work(100);
    (void)kineto_range_begin(&around);
    (void)use_up_stack(NULL);
}

static void the_first_thread_runs_out_of_stack(void **state)
{
    (void)state;
    assert_died_of(run(crash_of_stack), SIGSEGV);
    check_trace("SIGSEGV", 100);
}

/* ---- what others do with signals ---- */

static void sees_everything(int sig, siginfo_t *info, void *context)
{
    sigset_t now;
    char path[700];
    sigprocmask(SIG_BLOCK, NULL, &now);
    bool fine = sig == SIGSEGV && info->si_code > 0 && info->si_addr == NULL && context &&
                sigismember(&now, SIGSEGV) && sigismember(&now, SIGUSR2) &&
                files(".ckpool", path, sizeof path) == 1;
    _exit(fine ? 42 : 43);
}

static void crash_with_handler(void)
{
    struct sigaction a = {.sa_sigaction = sees_everything, .sa_flags = SA_SIGINFO};
    sigaddset(&a.sa_mask, SIGUSR2);
    sigaction(SIGSEGV, &a, NULL);
    crash_by_signal();
}

static void the_programs_handler_runs_after_ours(void **state)
{
    (void)state;
    wanted = SIGSEGV;
    int status = run(crash_with_handler);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42)
        fail_msg("status %#x; it said: %s", (unsigned)status, said);
    check_trace("SIGSEGV", 100);
}

static void does_nothing(int sig) { (void)sig; }

static bool goes_on(int sig)
{
    struct sigaction now;
    sigaction(sig, NULL, &now);
    return (now.sa_flags & SA_SIGINFO) && (now.sa_flags & SA_RESTART);
}

/* A read that such a signal interrupts goes on as the program has it. */
static void look_at_flags(void)
{
    struct sigaction a = {.sa_handler = does_nothing, .sa_flags = SA_RESTART};
    sigaction(SIGFPE, &a, NULL);
    a.sa_flags = 0;
    sigaction(SIGILL, &a, NULL);
    signal(SIGBUS, SIG_IGN);
    start();
    _exit(goes_on(SIGFPE) && !goes_on(SIGILL) && goes_on(SIGBUS) ? 42 : 43);
}

static void calls_go_on_as_the_program_has_it(void **state)
{
    (void)state;
    int status = run(look_at_flags);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

/* As Python's faulthandler: what was before has its turn, too. */
static struct sigaction below;
static volatile int calls;
static void hands_on(int sig, siginfo_t *info, void *context)
{
    if (++calls > 1)
        _exit(44);
    below.sa_sigaction(sig, info, context);
}

static void put_on_top(int sig)
{
    struct sigaction a = {.sa_sigaction = hands_on, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(sig, &a, &below);
}

static void crash_in_second_ring(void)
{
    start();
    put_on_top(SIGABRT);
    kineto_control_stop();
    crash_by_signal();
}

static void one_that_calls_ours_is_called_once(void **state)
{
    (void)state;
    wanted = SIGABRT;
    assert_died_of(run(crash_in_second_ring), SIGABRT);
    check_trace("SIGABRT", 100);
}

static void ends_well(int sig)
{
    char path[700];
    (void)sig;
    _exit(files(".ckpool", path, sizeof path) == 1 ? 42 : 43);
}

static void is_installed_meanwhile(int sig)
{
    struct sigaction a = {.sa_handler = ends_well};
    if (sig == SIGABRT)
        __real_sigaction(sig, &a, NULL);
}

static void crash_after_race(void)
{
    when_looked = is_installed_meanwhile;
    start();
    when_looked = NULL;
    abort();
}

static void a_handler_that_comes_while_ours_is_installed(void **state)
{
    (void)state;
    int status = run(crash_after_race);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42)
        fail_msg("status %#x; it said: %s", (unsigned)status, said);
}

static void is_put_on_top_meanwhile(int sig)
{
    if (sig == SIGABRT)
        put_on_top(sig);
}

static void stop_after_race(void)
{
    struct sigaction now;
    start();
    when_looked = is_put_on_top_meanwhile;
    kineto_control_stop();
    when_looked = NULL;
    sigaction(SIGABRT, NULL, &now);
    if (now.sa_sigaction != hands_on)
        _exit(43);
    crash_by_signal();
}

static void a_handler_that_comes_while_ours_is_taken_away(void **state)
{
    (void)state;
    wanted = SIGABRT;
    assert_died_of(run(stop_after_race), SIGABRT);
    check_trace("SIGABRT", 100);
}

/* A child that steps has a ring of its own, with the handlers that it inherited. */
static void crash_in_stepping_child(void)
{
    int status;
    start();
    put_on_top(SIGABRT);
    pid_t pid = fork();
    for (int i = 0; pid == 0 && i < 30; i++) { /* its ring begins meanwhile */
        kineto_step_mark();
        usleep(10000);
    }
    if (pid == 0)
        abort();
    waitpid(pid, &status, 0);
    _exit(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void a_child_calls_it_once_too(void **state)
{
    (void)state;
    int status = run(crash_in_stepping_child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != SIGABRT)
        fail_msg("status %#x; it said: %s", (unsigned)status, said);
}

/* Our handler is not called any more. */
static void crash_after_default(void)
{
    start();
    signal(SIGABRT, SIG_DFL);
    kineto_control_stop();
    crash_by_signal();
}

static void a_default_in_its_place_is_not_a_handler(void **state)
{
    (void)state;
    wanted = SIGABRT;
    assert_died_of(run(crash_after_default), SIGABRT);
    check_trace("SIGABRT", 100);
}

static sigjmp_buf back;
static void jumps_back(int sig)
{
    (void)sig;
    siglongjmp(back, 1);
}

static void survive(void)
{
    signal(SIGSEGV, jumps_back);
    start();
    if (sigsetjmp(back, 1) == 0)
        crash_in_work();
    if (!kineto_enabled(KINETO_KIND_CPU_OP))
        _exit(1); /* recording goes on */
    do_work(1);
    if (kineto_control_dump(NULL, NULL))
        _exit(2);
    signal(SIGSEGV, SIG_DFL);
    fault(SIGSEGV);
}

static void a_program_that_survives_its_signal_goes_on(void **state)
{
    (void)state;
    char path[700];
    wanted = SIGSEGV;
    assert_died_of(run(survive), SIGSEGV);
    check_trace("SIGSEGV", 100);
    assert_int_equal(files(".json", path, sizeof path), 1);
}

static sem_t is_written, has_begun;
static void wait_for_session(void)
{
    sem_post(&is_written);
    sem_wait(&has_begun);
}

static void *crash_and_survive(void *unused)
{
    (void)unused;
    if (sigsetjmp(back, 1) == 0)
        raise(SIGSEGV);
    return NULL;
}

static void begin_meanwhile(void)
{
    pthread_t thread;
    sem_init(&is_written, 0, 0);
    sem_init(&has_begun, 0, 0);
    signal(SIGSEGV, jumps_back);
    ring_kinds = KINETO_KIND_BIT(KINETO_KIND_CPU_OP); /* and not what the session wants */
    start();
    when_written = wait_for_session;
    pthread_create(&thread, NULL, crash_and_survive, NULL);
    sem_wait(&is_written);
    kineto_session *s = session_of(KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION), 0, 0);
    sem_post(&has_begun);
    pthread_join(thread, NULL);
    kineto_range_end(kineto_range_begin(&mine));
    do_work(1);
    bool both = kineto_enabled(KINETO_KIND_CPU_OP);
    _exit(both && count_named(finish(s), "mine") == 1 ? 42 : 43);
}

static void a_session_that_begins_meanwhile_records(void **state)
{
    (void)state;
    int status = run(begin_meanwhile);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 42)
        fail_msg("status %#x; it said: %s", (unsigned)status, said);
}

static void ignore_and_exit(void)
{
    signal(SIGSEGV, SIG_IGN);
    start();
    raise(SIGSEGV); /* ignored as before */
    _exit(7);
}

static void what_was_ignored_stays_ignored(void **state)
{
    (void)state;
    char path[700];
    int status = run(ignore_and_exit);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    assert_int_equal(files(".ckpool", path, sizeof path), 0);
}

static void stop_and_crash(void)
{
    struct sigaction now;
    start();
    kineto_control_stop();
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_handler != SIG_DFL)
        _exit(1);
    raise(SIGSEGV);
}

static void without_a_ring_all_is_as_it_was(void **state)
{
    (void)state;
    char path[700];
    assert_died_of(run(stop_and_crash), SIGSEGV);
    assert_int_equal(files(".ckpool", path, sizeof path), 0);
    assert_string_equal(said, "");
}

static void child_crashes(void)
{
    int status;
    start();
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGSEGV);
        _exit(1);
    }
    waitpid(pid, &status, 0);
    char path[700];
    bool fine = WIFSIGNALED(status) && files(".ckpool", path, sizeof path) == 0;
    wanted = SIGSEGV;
    if (fine)
        crash_in_work();
}

static void a_child_dies_its_own_death(void **state)
{
    (void)state;
    assert_died_of(run(child_crashes), SIGSEGV);
    check_trace("SIGSEGV", 100);
}

/* ---- where it cannot be written ---- */

static void crash_of_limit(void)
{
    struct rlimit small = {65536, 65536};
    start();
    setrlimit(RLIMIT_FSIZE, &small);
    crash_in_work();
}

static void crash_without_folder(void)
{
    start();
    rmdir(folder);
    crash_in_work();
}

static void crash_without_stderr(void)
{
    start();
    close(STDERR_FILENO);
    crash_in_work();
}

static void a_file_that_cannot_be_written_changes_nothing(void **state)
{
    (void)state;
    char path[700];
    wanted = SIGSEGV;
    assert_died_of(run(crash_of_limit), SIGSEGV);
    assert_non_null(strstr(said, "could not be written"));
    assert_non_null(strstr(said, "exceeds the file size limit"));
    assert_int_equal(files(".ckpool", path, sizeof path), 0);
    assert_died_of(run(crash_without_folder), SIGSEGV);
    assert_non_null(strstr(said, "could not be written"));
    assert_died_of(run(crash_without_stderr), SIGSEGV);
    assert_string_equal(said, "");
    assert_int_equal(files(".ckpool", path, sizeof path), 1);
}

static void crash_with_damage(void)
{
    start();
    uintptr_t names = (uintptr_t)kineto_rt_pool()->dictionary; /* no other thread reads it now */
    (void)mprotect((void *)(names & ~(uintptr_t)4095), 4096, PROT_NONE);
    raise(SIGABRT);
}

static void a_ring_that_is_damaged_is_given_up(void **state)
{
    (void)state;
    assert_died_of(run(crash_with_damage), SIGABRT);
    assert_non_null(strstr(said, "damaged"));
}

/* A link in its place is not followed, and a file that is there stays. */
static void crash_among_others(void)
{
    char path[400];
    snprintf(path, sizeof path, "%s/own.json", folder);
    start_with(path);
    snprintf(path, sizeof path, "%s/own_%d.json.ckpool", folder, (int)getpid());
    (void)!symlink("/nowhere/at/all", path);
    crash_in_work();
}

static void nothing_is_overwritten(void **state)
{
    (void)state;
    char path[700];
    wanted = SIGSEGV;
    assert_died_of(run(crash_among_others), SIGSEGV);
    assert_non_null(strstr(said, ".json.1.ckpool"));
    assert_int_equal(files(".1.ckpool", path, sizeof path), 1);
}

static void close_everything(void)
{
    start();
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    for (int i = 0; i < 8; i++)
        (void)!open("/", O_RDONLY);
    crash_in_work();
}

static void a_program_that_closed_what_it_does_not_know(void **state)
{
    (void)state;
    wanted = SIGSEGV;
    assert_died_of(run(close_everything), SIGSEGV);
    check_trace("SIGSEGV", 100);
}

static void use_up_descriptors(void)
{
    struct rlimit few = {64, 64};
    setrlimit(RLIMIT_NOFILE, &few);
    while (open("/", O_RDONLY) >= 0)
        ;
    crash_in_work();
}

static void crash_without_descriptors(void)
{
    start();
    use_up_descriptors();
}

static void crash_without_any_descriptor(void)
{
    start();
    for (int fd = 3; fd < 64; fd++)
        close(fd);
    use_up_descriptors();
}

static void a_program_out_of_descriptors_leaves_its_ring(void **state)
{
    (void)state;
    wanted = SIGSEGV;
    assert_died_of(run(crash_without_descriptors), SIGSEGV);
    check_trace("SIGSEGV", 100);
    assert_died_of(run(crash_without_any_descriptor), SIGSEGV);
    assert_non_null(strstr(said, "out of file descriptors"));
}

/* ---- several at once ---- */

static pthread_barrier_t barrier;

static void *crash_together(void *unused)
{
    (void)unused;
    do_work(1000);
    pthread_barrier_wait(&barrier);
    fault(SIGSEGV);
    return NULL;
}

static void *record_on(void *unused)
{
    (void)unused;
    for (;;)
        do_work(1);
    return NULL;
}

static void crash_in_threads(void)
{
    pthread_t thread;
    start();
    pthread_barrier_init(&barrier, NULL, 4);
    pthread_create(&thread, NULL, record_on, NULL); /* it goes on while the ring is written */
    for (int i = 0; i < 4; i++)
        pthread_create(&thread, NULL, crash_together, NULL);
    pthread_join(thread, NULL);
}

static void threads_that_crash_together_leave_one_ring(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_died_of(run(crash_in_threads), SIGSEGV);
        kineto_trace *t = recover();
        assert_int_equal(count_named(t, "SIGSEGV"), 1);
        assert_int_equal(
            ledger(t, "recording", "malformed records, the rest of their segment was skipped"), 0);
        assert_true(count_named(t, "work") >= 4000);
        kineto_trace_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_signal_leaves_the_ring_and_its_status),
        cmocka_unit_test(a_thread_of_the_program_crashes),
        cmocka_unit_test(a_handler_of_the_program_crashes),
        cmocka_unit_test(the_first_thread_runs_out_of_stack),
        cmocka_unit_test(the_programs_handler_runs_after_ours),
        cmocka_unit_test(calls_go_on_as_the_program_has_it),
        cmocka_unit_test(one_that_calls_ours_is_called_once),
        cmocka_unit_test(a_child_calls_it_once_too),
        cmocka_unit_test(a_default_in_its_place_is_not_a_handler),
        cmocka_unit_test(a_handler_that_comes_while_ours_is_installed),
        cmocka_unit_test(a_handler_that_comes_while_ours_is_taken_away),
        cmocka_unit_test(a_program_that_survives_its_signal_goes_on),
        cmocka_unit_test(a_session_that_begins_meanwhile_records),
        cmocka_unit_test(what_was_ignored_stays_ignored),
        cmocka_unit_test(without_a_ring_all_is_as_it_was),
        cmocka_unit_test(a_child_dies_its_own_death),
        cmocka_unit_test(a_file_that_cannot_be_written_changes_nothing),
        cmocka_unit_test(a_ring_that_is_damaged_is_given_up),
        cmocka_unit_test(nothing_is_overwritten),
        cmocka_unit_test(a_program_that_closed_what_it_does_not_know),
        cmocka_unit_test(a_program_out_of_descriptors_leaves_its_ring),
        cmocka_unit_test(threads_that_crash_together_leave_one_ring),
    };
    if (THREAD_SANITIZED)
        return 77; /* it delivers signals when it sees fit */
    unsetenv("CKINETO_RING");
    unsetenv("CKINETO_CONTROL");
    setenv("KINETO_LOG_LEVEL", "4", 1);
    if (!make_directory(folder, sizeof folder))
        return 77;
    setenv("KINETO_ONDEMAND_TRACE_DIR", folder, 1);
    int failed = RUN_TESTS(tests);
    empty_folder();
    rmdir(folder);
    return failed;
}

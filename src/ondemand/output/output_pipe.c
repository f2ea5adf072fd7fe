/* Outputs to a reader: a descriptor of the program ("fd:N"), or the standard input of a command
 * ("exec:COMMAND"). Neither may block the process forever, nor send it a signal: all writes have a
 * timeout (CKINETO_EXEC_TIMEOUT) and are made without SIGPIPE. */
#include "base/guarded_fd.h"
#include "base/sink_impl.h"
#include "ondemand/output/output_impl.h"
#include "ondemand/request/request.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

#define SECOND_MS   1000
#define LONGEST_S   86400
#define USUAL_S     60
#define REAP_MS     5000  /* a killed process has ended by then, or hangs in the kernel */
#define PIECE_BYTES 4096u /* a pipe or socket that is writable accepts this much without blocking */
#define FIRST_SLEEP_NS 1000000
#define LAST_SLEEP_NS  50000000

typedef struct pipe_end {
    int fd;
    pid_t pid;  /* of the command; 0: none, or it has ended */
    bool whole; /* accepts writes of any size: a regular file, or non-blocking */
    int timeout_ms;
    char shown[160];
} pipe_end;

/* ---- forks of the program -------------------------------------------------------------------- */

/* A fork's child inherits our end of a command's input: it must close it, or the command would not
 * see the end of its input while the child lives. */
static kb_guarded_fd inputs[16]; /* beyond 16 at once, children keep some open */
static pthread_mutex_t inputs_lock = PTHREAD_MUTEX_INITIALIZER;

/* The thread that held the lock does not exist in the child. */
static void close_inputs_in_child(void)
{
    pthread_mutex_init(&inputs_lock, NULL);
    for (size_t i = 0; i < KB_COUNT(inputs); i++)
        kb_fd_close(&inputs[i]);
}

static void register_input_fork_handler(void)
{
    for (size_t i = 0; i < KB_COUNT(inputs); i++)
        inputs[i].fd = -1;
    (void)pthread_atfork(NULL, NULL, close_inputs_in_child);
}

/* Remembered for close_inputs_in_child; the seventeenth at once is not. */
static void remember_input(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t i = 0;
    (void)pthread_once(&once, register_input_fork_handler);
    pthread_mutex_lock(&inputs_lock);
    while (i < KB_COUNT(inputs) && inputs[i].fd >= 0)
        i++;
    if (i < KB_COUNT(inputs))
        (void)kb_fd_adopt(&inputs[i], fd);
    pthread_mutex_unlock(&inputs_lock);
}

/* Called before it is closed: its number may be reused at once. */
static void forget_input(int fd)
{
    pthread_mutex_lock(&inputs_lock);
    for (size_t i = 0; i < KB_COUNT(inputs); i++)
        if (inputs[i].fd == fd)
            kb_store_release(&inputs[i].fd, -1);
    pthread_mutex_unlock(&inputs_lock);
}

/* ---- the end of a command -------------------------------------------------------------------- */

/* Has the command ended? *known: *status is valid; false if the program itself reaped the process.
 */
static bool has_command_ended(pipe_end *p, int *status, bool *known)
{
    KB_ASSERT(p->pid > 0);
    pid_t got;
    do
        got = waitpid(p->pid, status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return false;
    *known = got == p->pid;
    p->pid = 0;
    return true;
}

/* Rounded up; 0: the time is over. */
static int64_t remaining_ms(uint64_t until_ns)
{
    uint64_t now_ns = kb_monotonic_ns();
    return now_ns >= until_ns ? 0 : (int64_t)((until_ns - now_ns) / 1000000 + 1);
}

/* Waits on the pidfd, or sleeps a little on kernels without pidfd. */
static void wait_for_exit(int process, uint64_t until_ns, long *sleep_ns)
{
    if (process >= 0) {
        struct pollfd ready = {process, POLLIN, 0};
        (void)poll(&ready, 1, (int)kb_min_i64(remaining_ms(until_ns), INT_MAX));
        return;
    }
    struct timespec t = {0, *sleep_ns};
    (void)nanosleep(&t, NULL);
    *sleep_ns = KB_MIN(*sleep_ns * 2, LAST_SLEEP_NS);
}

/* False: it did not end within the time limit. */
static bool wait_for_command(pipe_end *p, int limit_ms, int *status, bool *known)
{
    uint64_t until_ns = kb_monotonic_ns() + (uint64_t)limit_ms * 1000000u;
    int process = (int)syscall(SYS_pidfd_open, p->pid, 0);
    long sleep_ns = FIRST_SLEEP_NS;
    bool ended;
    while (!(ended = has_command_ended(p, status, known)) && remaining_ms(until_ns) > 0)
        wait_for_exit(process, until_ns, &sleep_ns);
    if (process >= 0)
        close(process);
    return ended;
}

/* Kills the process group. WNOWAIT first: as long as the process is not reaped, its pid is not
 * reused. */
static void kill_command(pipe_end *p)
{
    siginfo_t info;
    int status;
    bool known;
    if (p->pid == 0)
        return;
    if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        (void)kill(-p->pid, SIGKILL);
    (void)wait_for_command(p, REAP_MS, &status, &known);
}

/* ---- writing --------------------------------------------------------------------------------- */

static int read_timeout_ms(void)
{
    const char *text = kb_setting("CKINETO_EXEC_TIMEOUT");
    char *end;
    long seconds = text ? strtol(text, &end, 10) : USUAL_S;
    if (seconds < 1 || seconds > LONGEST_S || (text && *end != '\0')) {
        kb_log(KINETO_LOG_WARNING,
               "CKINETO_EXEC_TIMEOUT is '%.32s', not a number from 1 to %d: %d s", text ? text : "",
               LONGEST_S, USUAL_S);
        seconds = USUAL_S;
    }
    return (int)seconds * SECOND_MS;
}

/* Waits until the reader has room, at most the timeout. */
static kineto_status wait_for_room(pipe_end *p, kineto_error *err)
{
    uint64_t until_ns = kb_monotonic_ns() + (uint64_t)p->timeout_ms * 1000000u;
    for (;;) {
        struct pollfd ready = {p->fd, POLLOUT, 0};
        int n = poll(&ready, 1, (int)kb_min_i64(remaining_ms(until_ns), INT_MAX));
        if (n > 0)
            return KINETO_OK;
        if (n < 0 && errno != EINTR)
            return kb_fail_os(err, errno, "cannot wait for '%s'", p->shown);
        if (remaining_ms(until_ns) == 0)
            return kb_fail(err, KINETO_E_IO, "'%s' has taken nothing for %d s", p->shown,
                           p->timeout_ms / SECOND_MS);
    }
}

/* The result of a command that ended. The status is not known if the program reaped it, by waiting
 * for all children or ignoring SIGCHLD. */
static kineto_status check_exit_status(const pipe_end *p, int status, bool known, kineto_error *err)
{
    if (!known)
        return KINETO_OK;
    if (WIFSIGNALED(status))
        return kb_fail(err, KINETO_E_IO, "'%s' was ended by signal %d", p->shown, WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return kb_fail(err, KINETO_E_IO, "'%s' ended with status %d", p->shown,
                       WEXITSTATUS(status));
    return KINETO_OK;
}

/* After EPIPE a command is usually about to end: its exit status is the better explanation. */
static kineto_status report_write_error(pipe_end *p, int os_error, kineto_error *err)
{
    int end_status;
    bool known;
    if (os_error != EPIPE)
        return kb_fail_os(err, os_error, "cannot write to '%s'", p->shown);
    kineto_status status = KINETO_OK;
    if (p->pid && wait_for_command(p, SECOND_MS, &end_status, &known))
        status = check_exit_status(p, end_status, known, err);
    return status
               ? status
               : kb_fail(err, KINETO_E_IO, "'%s' was closed before everything was read", p->shown);
}

/* kb_target_ops: writes all of it; the timeout applies to each wait. */
static kineto_status write_to_pipe(void *target, const char *data, size_t bytes, kineto_error *err)
{
    pipe_end *p = target;
    while (bytes > 0) {
        kineto_status status = wait_for_room(p, err);
        if (status != KINETO_OK)
            return status;
        ssize_t n = kb_os_write_quiet(p->fd, data, p->whole ? bytes : KB_MIN(bytes, PIECE_BYTES));
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return report_write_error(p, errno, err);
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return KINETO_OK;
}

/* kb_target_ops: closes the command's input and waits for it to end. */
static kineto_status finish_command(void *target, kineto_error *err)
{
    pipe_end *p = target;
    int status;
    bool known = false;
    forget_input(p->fd);
    close(p->fd);
    p->fd = -1;
    if (!wait_for_command(p, p->timeout_ms, &status, &known))
        return kb_fail(err, KINETO_E_IO,
                       "'%s' did not end within %d s after its input: killed "
                       "(CKINETO_EXEC_TIMEOUT allows more)",
                       p->shown, p->timeout_ms / SECOND_MS);
    return check_exit_status(p, status, known, err);
}

static kineto_status finish_fd(void *target, kineto_error *err)
{
    (void)target, (void)err;
    return KINETO_OK;
}

/* kb_target_ops: aborted. The command is killed before its input is closed, so that it cannot take
 * half a trace for a whole one. */
static void drop_pipe(void *target)
{
    pipe_end *p = target;
    kill_command(p);
    if (p->fd >= 0) {
        forget_input(p->fd);
        close(p->fd);
    }
    free(p);
}

static kineto_status create_pipe_end(const char *url, pipe_end **out, kineto_error *err)
{
    pipe_end *p = calloc(1, sizeof *p);
    if (!p)
        return kb_fail_memory(err, "output");
    p->fd = -1;
    p->timeout_ms = read_timeout_ms();
    ko_request_show(kb_string(url), p->shown, sizeof p->shown);
    *out = p;
    return KINETO_OK;
}

/* ---- descriptors of the program -------------------------------------------------------------- */

kineto_status ko_pipe_check_fd(int fd, const char *url, kineto_error *err)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return kb_fail(err, KINETO_E_ARGUMENT, "'%.64s': this descriptor is not open", url);
    if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%.64s': this descriptor is not open for writing",
                       url);
    return KINETO_OK;
}

kineto_status ko_pipe_to_fd(int fd, const char *url, kb_sink **out, kineto_error *err)
{
    static const kb_target_ops ops = {write_to_pipe, finish_fd, drop_pipe};
    struct stat st;
    pipe_end *p;
    *out = NULL;
    kineto_status status = ko_pipe_check_fd(fd, url, err);
    if (status == KINETO_OK)
        status = create_pipe_end(url, &p, err);
    if (status != KINETO_OK)
        return status;
    p->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (p->fd < 0) {
        status = kb_fail_os(err, errno, "cannot write to '%s'", p->shown);
        drop_pipe(p);
        return status;
    }
    p->whole = fstat(p->fd, &st) == 0 && S_ISREG(st.st_mode);
    return kb_sink_over(&ops, p, KB_COMPRESS_NONE, out, err);
}

/* ---- commands -------------------------------------------------------------------------------- */

static kineto_status open_command_pipe(int ends[2], const pipe_end *p, kineto_error *err)
{
    if (pipe2(ends, O_CLOEXEC) != 0) {
        ends[0] = ends[1] = -1;
        return kb_fail_os(err, errno, "cannot make a pipe for '%s'", p->shown);
    }
    ends[0] = kb_os_clear_of_standard(ends[0]);
    ends[1] = kb_os_clear_of_standard(ends[1]);
    if (ends[0] < 0 || ends[1] < 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
        return kb_fail_os(err, errno, "cannot make a pipe for '%s'", p->shown);
    return KINETO_OK;
}

/* Variables that control this library: the command must not be traced, nor listen for requests. */
static bool is_library_variable(const char *variable)
{
    return strncmp(variable, "CKINETO_", strlen("CKINETO_")) == 0 ||
           strncmp(variable, "KINETO_USE_DAEMON=", strlen("KINETO_USE_DAEMON=")) == 0;
}

/* An array to be freed, whose strings are borrowed. NULL: out of memory. */
static char **make_command_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    char **all = calloc(count + 1, sizeof *all);
    for (size_t i = 0; all && i < count && environ[i]; i++)
        if (!is_library_variable(environ[i]))
            all[kept++] = environ[i];
    return all;
}

/* Closes files in the command that the program opened without O_CLOEXEC. @return 0 or an errno. */
static int add_close_actions(posix_spawn_file_actions_t *actions)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
#else
    DIR *all = opendir("/proc/self/fd");
    int failed = 0;
    for (struct dirent *entry; all && !failed && (entry = readdir(all));) {
        int fd = atoi(entry->d_name);
        if (fd > STDERR_FILENO && fcntl(fd, F_GETFD) == 0)
            failed = posix_spawn_file_actions_addclose(actions, fd);
    }
    if (all)
        closedir(all);
    return failed;
#endif
}

/* A process group of its own, so that its children can be killed with it; default signal handling.
 */
static int set_spawn_attributes(posix_spawnattr_t *attributes)
{
    sigset_t usual, none;
    sigemptyset(&none);
    sigemptyset(&usual);
    static const int signals[] = {SIGPIPE, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCHLD};
    for (size_t i = 0; i < KB_COUNT(signals); i++)
        sigaddset(&usual, signals[i]);
    int failed = posix_spawnattr_setsigmask(attributes, &none);
    if (!failed)
        failed = posix_spawnattr_setsigdefault(attributes, &usual);
    if (!failed)
        failed = posix_spawnattr_setpgroup(attributes, 0);
    return failed ? failed
                  : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
                                                             POSIX_SPAWN_SETSIGDEF |
                                                             POSIX_SPAWN_SETPGROUP);
}

/* @return 0 or an errno. */
static int spawn_shell(const char *command, int input, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)"--", (char *)command, NULL};
    char **variables = make_command_environment();
    if (!variables)
        return ENOMEM;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int failed = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!failed)
        failed = add_close_actions(&actions);
    if (!failed)
        failed = set_spawn_attributes(&attributes);
    if (!failed)
        failed = posix_spawn(pid, "/bin/sh", &actions, &attributes, arguments, variables);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(variables);
    return failed;
}

/* On failure p->fd may be open; drop_pipe closes it. */
static kineto_status start_command(pipe_end *p, const char *command, kineto_error *err)
{
    int ends[2];
    kineto_status status = open_command_pipe(ends, p, err);
    if (status == KINETO_OK)
        remember_input(ends[1]);
    int failed = status == KINETO_OK ? spawn_shell(command, ends[0], &p->pid) : 0;
    if (failed) {
        p->pid = 0;
        status = kb_fail_os(err, failed, "cannot run /bin/sh for '%s'", p->shown);
    }
    if (ends[0] >= 0)
        close(ends[0]);
    KB_ASSERT(p->fd < 0);
    p->fd = ends[1];
    p->whole = true; /* our own end of the pipe is non-blocking */
    return status;
}

kineto_status ko_pipe_to_command(const char *command, const char *url, kb_sink **out,
                                 kineto_error *err)
{
    static const kb_target_ops ops = {write_to_pipe, finish_command, drop_pipe};
    pipe_end *p;
    *out = NULL;
    kineto_status status = create_pipe_end(url, &p, err);
    if (status != KINETO_OK)
        return status;
    status = start_command(p, command, err);
    if (status == KINETO_OK)
        return kb_sink_over(&ops, p, KB_COMPRESS_NONE, out, err);
    drop_pipe(p);
    return status;
}

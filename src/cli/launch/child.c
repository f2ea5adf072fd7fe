/* Running the program: exec errors are reported exactly, signals are kept apart from the
 * recorder's, and the exit status is passed on. Signals that end programs are blocked and read with
 * sigtimedwait or a signalfd, so that none is lost between two waits. */
#include "cli/launch/child.h"
#include "cli/options.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Keyboard signals reach the program directly; a closed pipe or a file-size limit is an error
 * that the recorder reports. None of these may end the recording before the program ends. */
static const int ignored_signals[] = {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ};
static const int waited_signals[] = {SIGCHLD, SIGTERM, SIGHUP};

static struct sigaction saved_actions[KB_COUNT(ignored_signals)], saved_child_action;
static sigset_t saved_mask, waited_mask;

/* The original actions and mask are saved for the program. SIGCHLD, SIGTERM and SIGHUP are blocked,
 * and read by waiting. */
void kc_prepare_signals(void)
{
    struct sigaction ignore, usual;
    memset(&ignore, 0, sizeof ignore);
    memset(&usual, 0, sizeof usual);
    ignore.sa_handler = SIG_IGN;
    usual.sa_handler = SIG_DFL;
    for (size_t i = 0; i < KB_COUNT(ignored_signals); i++)
        sigaction(ignored_signals[i], &ignore, &saved_actions[i]);
    /* If the parent process ignores SIGCHLD, the kernel reaps children and waitpid finds none. */
    sigaction(SIGCHLD, &usual, &saved_child_action);
    sigemptyset(&waited_mask);
    for (size_t i = 0; i < KB_COUNT(waited_signals); i++)
        sigaddset(&waited_mask, waited_signals[i]);
    sigprocmask(SIG_BLOCK, &waited_mask, &saved_mask);
}

/* In the child before exec: the program gets the signal state that the command was started with. */
static void restore_signals(void)
{
    for (size_t i = 0; i < KB_COUNT(ignored_signals); i++)
        sigaction(ignored_signals[i], &saved_actions[i], NULL);
    sigaction(SIGCHLD, &saved_child_action, NULL);
    sigprocmask(SIG_SETMASK, &saved_mask, NULL);
}

/* In the child: wait until the parent has closed its end of the pipe. */
static void wait_for_parent(int fd)
{
    char byte;
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    close(fd);
}

/* In the child: the terminal belongs to the view. */
static void leave_terminal(int output_fd)
{
    if (output_fd < 0)
        return;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (isatty(fd))
            (void)dup2(output_fd, fd);
    int empty = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (empty >= 0)
        (void)dup2(empty, STDIN_FILENO);
}

/* In the child. An error of exec is written to `report` for the parent. */
static _Noreturn void exec_program(char **argv, int report, const int *start, int output_fd)
{
    close(start[1]);
    leave_terminal(output_fd);
    wait_for_parent(start[0]);
    restore_signals();
    execvp(argv[0], argv);
    int os_error = errno;
    ssize_t n = kb_os_write_quiet(report, &os_error, sizeof os_error);
    _exit(n == (ssize_t)sizeof os_error ? KC_EXIT_NOT_FOUND : KC_EXIT_OWN_FAILURE);
}

/* 0: exec succeeded. The write end of the pipe is closed by exec, so that end of file means
 * success. */
static int read_exec_error(int fd)
{
    int os_error = 0;
    ssize_t n;
    do
        n = read(fd, &os_error, sizeof os_error);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof os_error ? os_error : 0;
}

/* fork and exec with a pipe for the error of exec, which is closed by a successful exec. With
 * with_children this process becomes the subreaper of all descendants. */
kineto_status kc_child_start(char **argv, kc_child *child, kineto_error *err)
{
    int report[2], start[2];
    *child = (kc_child){.with_children = child->with_children,
                        .output_fd = child->output_fd,
                        .forked = child->forked,
                        .forked_context = child->forked_context};
    if (child->with_children && prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return kb_fail_os(err, errno, "cannot wait for children of children");
    if (pipe2(report, O_CLOEXEC) != 0)
        return kb_fail_os(err, errno, "cannot make a pipe");
    if (pipe2(start, O_CLOEXEC) != 0) {
        close(report[0]);
        close(report[1]);
        return kb_fail_os(err, errno, "cannot make a pipe");
    }
    fflush(NULL);
    pid_t pid = fork();
    int os_error = errno;
    if (pid == 0)
        exec_program(argv, report[1], start, child->output_fd);
    close(report[1]);
    if (pid > 0 && child->forked)
        child->forked(child->forked_context, pid);
    close(start[0]);
    close(start[1]);
    if (pid < 0) {
        close(report[0]);
        return kb_fail(err, KINETO_E_LIMIT, "cannot make a process: %s", strerror(os_error));
    }
    os_error = read_exec_error(report[0]);
    close(report[0]);
    child->pid = pid;
    if (os_error == 0)
        return KINETO_OK;
    while (waitpid(pid, &child->status, 0) < 0 && errno == EINTR)
        ;
    child->done = true;
    return kb_fail_os(err, os_error, "cannot run '%s'", argv[0]);
}

kineto_status kc_child_attach(uint32_t pid, kc_child *child, kineto_error *err)
{
    struct sigaction usual;
    memset(&usual, 0, sizeof usual);
    usual.sa_handler = SIG_DFL;
    *child = (kc_child){.pid = (pid_t)pid, .is_attached = true, .start_time = kb_os_start_time(pid)};
    if (!child->start_time || !kb_os_alive(pid, child->start_time))
        return kb_fail(err, KINETO_E_NOT_FOUND, "there is no process %u", pid);
    sigaction(SIGINT, &usual, NULL); /* blocked: it is waited for */
    sigaddset(&waited_mask, SIGINT);
    sigprocmask(SIG_BLOCK, &waited_mask, NULL);
    return KINETO_OK;
}

/* SIGTERM and SIGHUP are forwarded, except those of the terminal (SI_KERNEL), which the program
 * gets itself. If only descendants of the program are left, the signal ends the waiting for them.
 */
static void forward_signal(kc_child *child, int sig, int code)
{
    if (child->is_attached)
        child->done |= sig != SIGCHLD;
    if (child->is_attached || (sig != SIGTERM && sig != SIGHUP) || code == SI_KERNEL)
        return;
    if (child->ended)
        child->done = true;
    else
        kill(child->pid, sig);
}

/* Call `ending` while the ended program is still a zombie. */
static void notify_program_end(const kc_child *child)
{
    siginfo_t ended = {0};
    if (!child->ended && child->ending &&
        waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid)
        child->ending(child->context, child->pid);
}

/* Update ended and done. With with_children, descendants are reaped, too: this process is their
 * subreaper. */
static void reap_children(kc_child *child)
{
    int status;
    pid_t pid;
    if (child->done)
        return;
    KB_ASSERT(child->pid > 0);
    if (child->is_attached) {
        child->done = child->ended = !kb_os_alive((uint32_t)child->pid, child->start_time);
        return;
    }
    notify_program_end(child);
    while ((pid = waitpid(child->with_children ? -1 : child->pid, &status, WNOHANG)) > 0)
        if (pid == child->pid) {
            child->status = status;
            child->ended = true;
        }
    child->done = child->ended && (!child->with_children || (pid < 0 && errno == ECHILD));
}

/* Returns early when a signal arrives. */
void kc_child_wait(kc_child *child, uint64_t ns)
{
    siginfo_t info;
    struct timespec limit = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    int sig = sigtimedwait(&waited_mask, &info, &limit);
    if (sig > 0)
        forward_signal(child, sig, info.si_code);
    reap_children(child);
}

int kc_child_signals(kineto_error *err)
{
    int fd = signalfd(-1, &waited_mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        kb_fail_os(err, errno, "cannot wait for the program's end");
    return fd;
}

void kc_child_reap(kc_child *child, int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        forward_signal(child, (int)info.ssi_signo, info.ssi_code);
    reap_children(child);
}

/* For messages and for the header of a trace. */
void kc_child_describe_end(const kc_child *child, char text[KC_CHILD_END_BYTES])
{
    int sig = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0;
    if (sig)
        snprintf(text, KC_CHILD_END_BYTES, "the program was killed by signal %d (%s)", sig,
                 strsignal(sig));
    else if (WEXITSTATUS(child->status))
        snprintf(text, KC_CHILD_END_BYTES, "the program ended with status %d",
                 WEXITSTATUS(child->status));
    else
        snprintf(text, KC_CHILD_END_BYTES, "the program ended");
}

int kc_child_exit_status(const kc_child *child)
{
    KB_ASSERT(child->done);
    if (WIFSIGNALED(child->status))
        return 128 + WTERMSIG(child->status);
    return WIFEXITED(child->status) ? WEXITSTATUS(child->status) : KC_EXIT_OWN_FAILURE;
}

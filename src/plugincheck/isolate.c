/* A function in a child process with a time limit. Three pipes connect it to the parent: DATA for
 * what the function writes on purpose, TEXT for its stdout and stderr, and DONE, on which the child
 * writes one byte when the function has returned. The parent polls all three and waits with
 * waitid(WNOWAIT), so that the pid stays reserved until the whole process group has been killed. */
#include "plugincheck/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LIMIT_MS   60000u
#define DEFAULT_DATA_BYTES ((size_t)1 << 20)
#define POLL_MS            5  /* between two checks of a child that writes nothing */
#define MAX_READS          64 /* of a pipe in one turn: a child may write faster than we read */

/* DONE distinguishes a function that returned from one that called exit(0). */
enum { DATA, TEXT, DONE, PIPES };

/* The parent's end of a pipe, and what was read from it so far. */
typedef struct pipe_reader {
    int fd; /* -1: closed */
    char *bytes;
    size_t count, max, capacity;
    bool cut;
} pipe_reader;

/* ---- the child ------------------------------------------------------------------------------- */

/* All signals have their default action, and none is blocked. */
static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* fails for SIGKILL and SIGSTOP */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* stdin is empty; stdout and stderr go to the pipe, or nowhere if `text` is negative. */
static void redirect_streams(int text)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(text >= 0 ? text : null, STDOUT_FILENO);
    dup2(text >= 0 ? text : null, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
}

/* All of the child: a process group of its own, default signals, no core, redirected streams; ends
 * in the function, or with 0 and a byte on DONE. */
static _Noreturn void run_child(int ends[PIPES][2], bool keep_text, pid_t parent,
                                kv_isolated *function, void *context)
{
    const struct rlimit no_core = {0, 0};
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setrlimit(RLIMIT_CORE, &no_core);
    reset_signals();
    redirect_streams(keep_text ? ends[TEXT][1] : -1);
    for (int i = 0; i < PIPES; i++)
        close(ends[i][0]);
    close(ends[TEXT][1]);
    function(context, ends[DATA][1]);
    fflush(NULL);
    (void)kv_isolated_write(ends[DONE][1], "r", 1);
    _exit(0);
}

/* Without SIGPIPE, which has its default action in the child. */
bool kv_isolated_write(int to, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        ssize_t n = kb_os_write_quiet(to, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Append to the buffer, up to `max` bytes; the rest is dropped, and `cut` is set. The buffer stays
 * NUL-terminated. */
static void append_bytes(pipe_reader *in, const char *bytes, size_t count)
{
    size_t room = in->max - in->count;
    in->cut |= count > room;
    count = KB_MIN(count, room);
    if (in->count + count + 1 > in->capacity) {
        size_t capacity = KB_MAX(in->capacity * 2, in->count + count + 1);
        char *grown = realloc(in->bytes, capacity);
        if (!grown) {
            in->cut = true;
            return;
        }
        in->bytes = grown;
        in->capacity = capacity;
    }
    KB_ASSERT(in->count + count < in->capacity);
    memcpy(in->bytes + in->count, bytes, count);
    in->count += count;
    in->bytes[in->count] = 0;
}

static void close_reader(pipe_reader *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
}

/* Read what is available. A bounded number of reads, because a child may write faster than we read.
 */
static void drain_pipe(pipe_reader *in)
{
    char buf[16384];
    for (int turn = 0; turn < MAX_READS && in->fd >= 0; turn++) {
        ssize_t n = read(in->fd, buf, sizeof buf);
        if (n > 0)
            append_bytes(in, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_reader(in);
        else if (errno == EAGAIN)
            return;
    }
}

/* Wait for at most timeout_ms until one of the pipes is readable, then read all of them. */
static void drain_pipes(pipe_reader in[PIPES], int timeout_ms)
{
    struct pollfd polled[PIPES];
    for (int i = 0; i < PIPES; i++)
        polled[i] = (struct pollfd){.fd = in[i].fd, .events = POLLIN};
    if (poll(polled, PIPES, timeout_ms) <= 0)
        return;
    for (int i = 0; i < PIPES; i++)
        if (polled[i].revents)
            drain_pipe(&in[i]);
}

/* Leaves the child a zombie, so that its pid cannot be reused before kill_group. */
static bool is_child_over(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    int flags = WEXITED | WNOHANG | WNOWAIT;
    return waitid(P_PID, (id_t)pid, &info, flags) != 0 ? errno != EINTR : info.si_pid != 0;
}

/* Read until the child has ended. False: its time is over. */
static bool follow_child(pid_t pid, pipe_reader in[PIPES], uint64_t limit_ns)
{
    uint64_t start_ns = kb_monotonic_ns();
    while (!is_child_over(pid)) {
        if (kb_monotonic_ns() - start_ns > limit_ns)
            return false;
        drain_pipes(in, POLL_MS);
    }
    return true;
}

/* Kill and reap the child and its process group. The child still runs or is a zombie, so that its
 * pid and group id cannot belong to other processes yet. Returns the wait status. */
static int kill_group(pid_t pid)
{
    int status = 0;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* in case it has left its group */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

/* How the child ended, and the buffers, which the outcome owns from here on. */
static void fill_outcome(kv_outcome *out, bool in_time, int status, pipe_reader in[PIPES])
{
    if (!in_time) {
        out->ending = KV_TIMED_OUT;
    } else if (WIFSIGNALED(status)) {
        out->ending = KV_KILLED;
        out->code = WTERMSIG(status);
    } else {
        out->ending = in[DONE].count ? KV_RETURNED : KV_EXITED;
        out->code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    out->data = in[DATA].bytes;
    out->data_bytes = in[DATA].count;
    out->data_cut = in[DATA].cut;
    out->text = in[TEXT].bytes;
    out->text_bytes = in[TEXT].count;
    out->text_cut = in[TEXT].cut && in[TEXT].max;
}

static void close_write_ends(int ends[PIPES][2])
{
    for (int i = 0; i < PIPES; i++)
        if (ends[i][1] >= 0)
            close(ends[i][1]);
}

/* Make the pipes and the buffers. Read ends do not block. Buffers exist even if nothing is written,
 * so that the outcome always has texts. */
static kineto_status open_pipes(const kv_isolation *how, int ends[PIPES][2], pipe_reader in[PIPES],
                                kineto_error *err)
{
    const size_t max[PIPES] = {how->max_data_bytes ? how->max_data_bytes : DEFAULT_DATA_BYTES,
                               how->max_text_bytes, 1};
    for (int i = 0; i < PIPES; i++) {
        if (pipe2(ends[i], O_CLOEXEC) != 0)
            return kb_fail_os(err, errno, "cannot make a pipe to a child process");
        in[i] = (pipe_reader){.fd = ends[i][0], .max = max[i], .capacity = 256};
        if (fcntl(in[i].fd, F_SETFL, O_NONBLOCK) != 0)
            return kb_fail_os(err, errno, "cannot prepare a pipe to a child process");
        in[i].bytes = calloc(1, in[i].capacity);
        if (!in[i].bytes)
            return kb_fail_memory(err, "child process");
    }
    return KINETO_OK;
}

/* Both ends of all pipes are closed on every path. The buffers of DATA and TEXT go to the outcome.
 */
kineto_status kv_isolate(const kv_isolation *how, kv_isolated *function, void *context,
                         kv_outcome *out, kineto_error *err)
{
    const kv_isolation defaults = {0};
    int ends[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    pipe_reader in[PIPES] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    how = how ? how : &defaults;
    *out = (kv_outcome){0};
    kineto_status status = open_pipes(how, ends, in, err);
    pid_t parent = getpid(), pid = -1;
    if (!status) {
        fflush(NULL); /* else an exit() of the child would write our buffered text again */
        pid = fork();
        if (pid == 0)
            run_child(ends, how->max_text_bytes > 0, parent, function, context);
        if (pid < 0)
            status = kb_fail_os(err, errno, "cannot make a child process");
    }
    close_write_ends(ends);
    if (!status) {
        setpgid(pid, pid); /* both processes do it, because either may run first */
        uint64_t limit_ms = how->limit_ms ? how->limit_ms : DEFAULT_LIMIT_MS;
        bool in_time = follow_child(pid, in, limit_ms * 1000000u);
        int ended_as = kill_group(pid);
        drain_pipes(in, 0); /* the capacity of a pipe is less than one turn reads */
        fill_outcome(out, in_time, ended_as, in);
    }
    for (int i = 0; i < PIPES; i++) {
        close_reader(&in[i]);
        if (status || i == DONE)
            free(in[i].bytes);
    }
    return status;
}

void kv_outcome_free(kv_outcome *o)
{
    free(o->data);
    free(o->text);
    *o = (kv_outcome){0};
}

const char *kv_outcome_last_line(kv_outcome *o)
{
    KB_ASSERT(o->text);
    while (o->text_bytes && o->text[o->text_bytes - 1] == '\n')
        o->text[--o->text_bytes] = 0;
    const char *line = strrchr(o->text, '\n');
    return line ? line + 1 : o->text;
}

const char *kv_outcome_text(const kv_outcome *o, const kv_isolation *how, char *buf, size_t size)
{
    uint32_t limit_ms = how && how->limit_ms ? how->limit_ms : DEFAULT_LIMIT_MS;
    switch (o->ending) {
    case KV_RETURNED:
        snprintf(buf, size, "ok");
        break;
    case KV_EXITED:
        snprintf(buf, size, "exit status %d", o->code);
        break;
    case KV_KILLED:
        snprintf(buf, size, "signal %d (%s)", o->code, strsignal(o->code));
        break;
    case KV_TIMED_OUT:
        snprintf(buf, size, "no answer within %g s", (double)limit_ms / 1000.0);
        break;
    }
    return buf;
}

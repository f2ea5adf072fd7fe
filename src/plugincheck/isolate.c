/* A function in a child process, with a time limit; what it wrote, and how it ended. */
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
#define SLICE_MS           5 /* between two looks at a child that shows nothing */

/* DONE gets one byte when the function has come back: exit(0) in the middle is not success. */
enum { DATA, TEXT, DONE, PIPES };

typedef struct intake {
    int fd; /* -1: closed */
    char *bytes;
    size_t count, most, capacity;
    bool cut;
} intake;

/* ---- the child ---------------------------------------------------------------------------------- */

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* fails for the two that nobody can change */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void redirect_streams(int text)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(text >= 0 ? text : null, STDOUT_FILENO);
    dup2(text >= 0 ? text : null, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
}

static _Noreturn void child_main(int ends[PIPES][2], bool keep_text, pid_t parent,
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

/* ---- the parent --------------------------------------------------------------------------------- */

static void keep(intake *in, const char *bytes, size_t count)
{
    size_t room = in->most - in->count;
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
    memcpy(in->bytes + in->count, bytes, count);
    in->count += count;
    in->bytes[in->count] = 0;
}

static void close_intake(intake *in)
{
    if (in->fd >= 0)
        close(in->fd);
    in->fd = -1;
}

/* What is there now. A bounded number of turns, since a child may write faster than we read. */
static void read_some(intake *in)
{
    char buf[16384];
    for (int turn = 0; turn < 64 && in->fd >= 0; turn++) {
        ssize_t n = read(in->fd, buf, sizeof buf);
        if (n > 0)
            keep(in, buf, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_intake(in);
        else if (errno == EAGAIN)
            return;
    }
}

static void read_all(intake in[PIPES], int patience_ms)
{
    struct pollfd polled[PIPES];
    for (int i = 0; i < PIPES; i++)
        polled[i] = (struct pollfd){.fd = in[i].fd, .events = POLLIN};
    if (poll(polled, PIPES, patience_ms) <= 0)
        return;
    for (int i = 0; i < PIPES; i++)
        if (polled[i].revents)
            read_some(&in[i]);
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    int flags = WEXITED | WNOHANG | WNOWAIT;
    return waitid(P_PID, (id_t)pid, &info, flags) != 0 ? errno != EINTR : info.si_pid != 0;
}

/* Reads until the child has ended or its time is over; false: it is over. */
static bool follow(pid_t pid, intake in[PIPES], uint64_t limit_ns)
{
    uint64_t start_ns = kb_clock_ns(CLOCK_MONOTONIC);
    while (!has_ended(pid)) {
        if (kb_clock_ns(CLOCK_MONOTONIC) - start_ns > limit_ns)
            return false;
        read_all(in, SLICE_MS);
    }
    return true;
}

/* The child is a zombie or still runs: its number, and its group's, are nobody else's yet. */
static int end_group(pid_t pid)
{
    int status = 0;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* where it left its group */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static void conclude(kv_outcome *out, bool in_time, int status, intake in[PIPES])
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
    out->text_cut = in[TEXT].cut && in[TEXT].most;
}

static void close_writers(int ends[PIPES][2])
{
    for (int i = 0; i < PIPES; i++)
        if (ends[i][1] >= 0)
            close(ends[i][1]);
}

/* Our ends do not block; the buffers exist, so that there is always a text to hand out. */
static kineto_status prepare(const kv_isolation *how, int ends[PIPES][2], intake in[PIPES],
                             kineto_error *err)
{
    const size_t most[PIPES] = {how->most_data_bytes ? how->most_data_bytes : DEFAULT_DATA_BYTES,
                                how->most_text_bytes, 1};
    for (int i = 0; i < PIPES; i++) {
        if (pipe2(ends[i], O_CLOEXEC) != 0)
            return kb_fail_os(err, errno, "cannot make a pipe to a child process");
        in[i] = (intake){.fd = ends[i][0], .most = most[i], .capacity = 256};
        if (fcntl(in[i].fd, F_SETFL, O_NONBLOCK) != 0)
            return kb_fail_os(err, errno, "cannot prepare a pipe to a child process");
        in[i].bytes = calloc(1, in[i].capacity);
        if (!in[i].bytes)
            return kb_fail(err, KINETO_E_MEMORY, "out of memory for a child process");
    }
    return KINETO_OK;
}

kineto_status kv_isolate(const kv_isolation *how, kv_isolated *function, void *context,
                         kv_outcome *out, kineto_error *err)
{
    const kv_isolation defaults = {0};
    int ends[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    intake in[PIPES] = {{.fd = -1}, {.fd = -1}, {.fd = -1}};
    how = how ? how : &defaults;
    *out = (kv_outcome){0};
    kineto_status status = prepare(how, ends, in, err);
    pid_t parent = getpid(), pid = -1;
    if (!status) {
        fflush(NULL); /* or the child's exit() would write our text again */
        pid = fork();
        if (pid == 0)
            child_main(ends, how->most_text_bytes > 0, parent, function, context);
        if (pid < 0)
            status = kb_fail_os(err, errno, "cannot make a child process");
    }
    close_writers(ends);
    if (!status) {
        setpgid(pid, pid); /* both do it: whoever comes first */
        uint64_t limit_ms = how->limit_ms ? how->limit_ms : DEFAULT_LIMIT_MS;
        bool in_time = follow(pid, in, limit_ms * 1000000u);
        int ended_as = end_group(pid);
        read_all(in, 0); /* a pipe holds less than one turn takes */
        conclude(out, in_time, ended_as, in);
    }
    for (int i = 0; i < PIPES; i++) {
        close_intake(&in[i]);
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

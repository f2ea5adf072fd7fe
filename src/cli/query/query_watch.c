/* Long queries: Ctrl-C ends them, and a terminal shows that they still run. SQLite calls
 * watch_query at intervals while a statement runs. */
#include "cli/query/query.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static ke_sql *volatile running_query;
static volatile sig_atomic_t interrupted;

/* A line on stderr that is overwritten, and erased before a result is written. */
static struct {
    const kc_query_output *out;
    /* stderr is a terminal */
    bool allowed;
    /* results go to a terminal, too: they end the line */
    bool shares;
    bool shown;
    uint64_t begin_ns; /* of the statement */
    uint64_t shown_ns;
    /* of results at the first check; UINT64_MAX: not checked */
    uint64_t bytes;
} status_line;

#define QUIET_TIME_NS  UINT64_C(2000000000)
#define SHOW_PERIOD_NS UINT64_C(1000000000)

/* The handler is reset at the first signal, so that the second one ends the process. */
static void interrupt_query(int number)
{
    (void)number;
    interrupted = 1;
    if (running_query)
        ke_sql_interrupt(running_query);
}

static void clear_query_line(void)
{
    if (status_line.shown)
        fputs("\r\033[K", stderr);
    status_line.shown = false;
}

/* After QUIET_TIME_NS, once per SHOW_PERIOD_NS; not if results appear on the same terminal. */
static void show_query_time(void)
{
    uint64_t now = kb_monotonic_ns(), bytes = kb_sink_bytes(status_line.out->sink);
    if (status_line.bytes == UINT64_MAX)
        status_line.bytes = bytes;
    if (status_line.shares && bytes != status_line.bytes) {
        clear_query_line();
        return;
    }
    if (now - status_line.begin_ns < QUIET_TIME_NS || now - status_line.shown_ns < SHOW_PERIOD_NS)
        return;
    status_line.shown_ns = now;
    status_line.shown = true;
    fprintf(stderr, "\rckineto: the query has run for %llu s; Ctrl-C ends it\033[K",
            (unsigned long long)((now - status_line.begin_ns) / 1000000000));
}

/* False ends the query: an interrupt between two statements, while none runs, must not be lost. */
static bool watch_query(void *context)
{
    (void)context;
    if (status_line.allowed)
        show_query_time();
    return !interrupted;
}

/* An ignored SIGINT stays ignored. */
void kc_query_watch_begin(ke_sql *sql, const kc_query_output *out, bool to_stdout)
{
    struct sigaction action = {.sa_handler = interrupt_query, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    running_query = sql;
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
    status_line.out = out;
    status_line.allowed = isatty(STDERR_FILENO) == 1;
    status_line.shares = to_stdout && isatty(STDOUT_FILENO) == 1;
    ke_sql_watch(sql, watch_query, NULL);
}

/* The line is erased before results are written. */
void kc_query_watch_statement(bool begins)
{
    clear_query_line();
    if (!begins || !status_line.allowed)
        return;
    status_line.begin_ns = kb_monotonic_ns();
    status_line.bytes = UINT64_MAX;
}

bool kc_query_interrupted(void) { return interrupted; }

void kc_query_watch_end(void) { running_query = NULL; }

/* Ending by the signal shows shells and scripts the cause. */
int kc_query_end_as_interrupted(int exit)
{
    if (!interrupted)
        return exit;
    fflush(NULL);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    return 128 + SIGINT;
}

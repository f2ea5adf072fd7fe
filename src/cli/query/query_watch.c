/* Long queries: Ctrl-C ends them, and a terminal is told that they still run. */
#include "cli/query/query.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static ke_sql *volatile running;
static volatile sig_atomic_t interrupted;

/* What the terminal shows: a line on stderr that is written over, away before a result comes. */
static struct {
    const kc_query_output *out;
    bool allowed; /* somebody looks */
    bool shares;  /* results go to a terminal too: they end the line */
    bool shown;
    uint64_t begin_ns; /* of the statement */
    uint64_t told_ns;
    uint64_t bytes; /* of results when it was looked at first; UINT64_MAX: not yet */
} line;

#define QUIET_NS UINT64_C(2000000000)
#define AGAIN_NS UINT64_C(1000000000)

/* Once: the second time ends the program. */
static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    if (running)
        ke_sql_interrupt(running);
}

static void clear_line(void)
{
    if (line.shown)
        fputs("\r\033[K", stderr);
    line.shown = false;
}

static void tell(void)
{
    uint64_t now = kb_clock_ns(CLOCK_MONOTONIC), bytes = kb_sink_bytes(line.out->sink);
    if (line.bytes == UINT64_MAX)
        line.bytes = bytes;
    if (line.shares && bytes != line.bytes) {
        clear_line();
        return;
    }
    if (now - line.begin_ns < QUIET_NS || now - line.told_ns < AGAIN_NS)
        return;
    line.told_ns = now;
    line.shown = true;
    fprintf(stderr, "\rckineto: the query has run for %llu s; Ctrl-C ends it\033[K",
            (unsigned long long)((now - line.begin_ns) / 1000000000));
}

/* An interrupt between two statements finds none that runs, and would be forgotten. */
static bool look(void *context)
{
    (void)context;
    if (line.allowed)
        tell();
    return !interrupted;
}

void kc_query_watch_begin(ke_sql *sql, const kc_query_output *out, bool to_stdout)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;
    running = sql;
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
    line.out = out;
    line.allowed = isatty(STDERR_FILENO) == 1;
    line.shares = to_stdout && isatty(STDOUT_FILENO) == 1;
    ke_sql_watch(sql, look, NULL);
}

void kc_query_watch_statement(bool begins)
{
    clear_line();
    if (!begins || !line.allowed)
        return;
    line.begin_ns = kb_clock_ns(CLOCK_MONOTONIC);
    line.bytes = UINT64_MAX;
}

bool kc_query_interrupted(void) { return interrupted; }

void kc_query_watch_end(void) { running = NULL; }

/* So that shells and scripts see what ended it. */
int kc_query_end_as_interrupted(int exit)
{
    if (!interrupted)
        return exit;
    fflush(NULL);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    return 128 + SIGINT;
}

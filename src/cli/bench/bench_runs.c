/* Runs the commands of a benchmark. Each recorded run is a `ckineto record` of its own, so that a run cannot affect
 * the next one. The commands take turns, and the order changes every round: a drift of the machine is then in both. */
#include "cli/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MAX_ARGUMENTS 4096u
#define LOG_NAME      "output.txt"

/* ---- a process -------------------------------------------------------------------------------- */

/* Standard input is empty; the output goes to the log unless the user wants to see it. */
static int set_streams(posix_spawn_file_actions_t *to, const char *log)
{
    int failed = posix_spawn_file_actions_addopen(to, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed && log)
        failed = posix_spawn_file_actions_addopen(to, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!failed && log)
        failed = posix_spawn_file_actions_adddup2(to, STDOUT_FILENO, STDERR_FILENO);
    return failed;
}

/* Runs a program to its end. @param status  receives what waitpid gives. */
static kineto_status run_program(char *const *argv, const char *log, int *status, kineto_error *err)
{
    posix_spawn_file_actions_t streams;
    pid_t pid = 0, ended;
    int failed = posix_spawn_file_actions_init(&streams);
    if (failed)
        return kb_fail_os(err, failed, "run '%s'", argv[0]);
    failed = set_streams(&streams, log);
    if (!failed)
        failed = posix_spawnp(&pid, argv[0], &streams, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&streams);
    if (failed)
        return kb_fail_os(err, failed, "run '%s'", argv[0]);
    do
        ended = waitpid(pid, status, 0);
    while (ended < 0 && errno == EINTR);
    return ended < 0 ? kb_fail_os(err, errno, "wait for '%s'", argv[0]) : KINETO_OK;
}

/* ---- a run ------------------------------------------------------------------------------------ */

/* Of the log of the last run; NULL: output is shown. False: out of memory. */
static bool name_log(const kc_bench_runs *b, char **out)
{
    *out = NULL;
    return b->show_output || asprintf(out, "%s/" LOG_NAME, b->directory) >= 0;
}

/* "run 3 of A"; warm-up has no number. */
static void describe_run(const kc_bench_runs *b, uint32_t side, uint32_t run, bool is_warm_up, char text[64])
{
    const char *name = b->command_count > 1 ? side ? " of B" : " of A" : "";
    if (is_warm_up)
        (void)snprintf(text, 64, "warm-up run %u%s", run + 1, name);
    else
        (void)snprintf(text, 64, "run %u%s", run + 1, name);
}

/* The status of a command, as a sentence with the place of its output. */
static kineto_status check_end(const kc_bench_runs *b, const char *what, int status, kineto_error *err)
{
    bool is_killed = WIFSIGNALED(status);
    int number = is_killed ? WTERMSIG(status) : WEXITSTATUS(status);
    if (!status || b->ignore_failures)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_STATE, "%s %s %d%s%s%s; --ignore-failure continues", what,
                   is_killed ? "was killed by signal" : "ended with status", number,
                   b->show_output ? "" : ", its output is in ", b->show_output ? "" : b->directory,
                   b->show_output ? "" : "/" LOG_NAME);
}

/* The command of a recorded run: ckineto record OPTIONS -o TRACE -- COMMAND. */
static kineto_status build_record_command(const kc_bench_runs *b, uint32_t side, char *self, char *trace,
                                          char **argv, kineto_error *err)
{
    static char verb[] = "record", quiet[] = "--quiet", summary[] = "--no-summary", output[] = "-o", end[] = "--";
    char *const front[] = {self, verb, quiet, summary, output, trace};
    uint32_t count = 0;
    for (size_t i = 0; i < KB_COUNT(front); i++)
        argv[count++] = front[i];
    for (size_t i = 0; i < b->record_options->count; i++)
        argv[count++] = (char *)(uintptr_t)b->record_options->data[i];
    argv[count++] = end;
    for (char *const *word = b->commands[side]; *word; word++) {
        if (count + 1 >= MAX_ARGUMENTS)
            return kb_fail(err, KINETO_E_ARGUMENT, "the command has more than %u words", MAX_ARGUMENTS);
        argv[count++] = *word;
    }
    argv[count] = NULL;
    return KINETO_OK;
}

/* The path of this program. */
static kineto_status find_self(char path[PATH_MAX], kineto_error *err)
{
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (size < 0)
        return kb_fail_os(err, errno, "read /proc/self/exe");
    path[size] = '\0';
    return KINETO_OK;
}

/* Runs a command once, recorded or, to warm up, as it is. */
static kineto_status run_once(kc_bench_runs *b, uint32_t side, uint32_t run, bool is_warm_up, kineto_error *err)
{
    char what[64], self[PATH_MAX], *log;
    int status = 0;
    char **argv = calloc(MAX_ARGUMENTS, sizeof *argv);
    kineto_status failed = find_self(self, err);
    bool has_memory = argv && name_log(b, &log);
    describe_run(b, side, run, is_warm_up, what);
    if (!has_memory)
        failed = kb_fail_memory(err, "run a command");
    if (!failed && !is_warm_up)
        failed = build_record_command(b, side, self, b->traces[side][run], argv, err);
    if (!failed)
        failed = run_program(is_warm_up ? b->commands[side] : argv, log, &status, err);
    if (!failed)
        failed = check_end(b, what, status, err);
    if (!failed && !is_warm_up && access(b->traces[side][run], R_OK) != 0)
        failed = kb_fail(err, KINETO_E_STATE, "%s left no trace (%s)", what, b->traces[side][run]);
    if (has_memory)
        free(log);
    free(argv);
    return failed;
}

/* ---- all runs --------------------------------------------------------------------------------- */

/* a-01.json.gz, b-01.json.gz; with one command run-01.json.gz. Those of an earlier benchmark are removed. */
static kineto_status name_traces(kc_bench_runs *b, kineto_error *err)
{
    static const char *const names[] = {"a", "b", "run"};
    for (uint32_t i = 0; i < KB_COUNT(names) * KC_MAX_RUNS; i++) {
        uint32_t name = i / KC_MAX_RUNS, run = i % KC_MAX_RUNS;
        bool is_used = run < b->repeat && (b->command_count == 2 ? name < 2 : name == 2);
        char *path;
        if (asprintf(&path, "%s/%s-%02u.json.gz", b->directory, names[name], run + 1) < 0)
            return kb_fail_memory(err, "name a trace");
        (void)unlink(path);
        if (is_used)
            b->traces[name % 2][run] = path;
        else
            free(path);
    }
    return KINETO_OK;
}

/* On a terminal, in one line. */
static void show_progress(const kc_bench_runs *b, uint32_t done, uint32_t all)
{
    if (!isatty(STDERR_FILENO) || b->show_output)
        return;
    if (done < all)
        fprintf(stderr, "\rckineto: bench: run %u of %u", done + 1, all);
    else
        fprintf(stderr, "\r%40s\r", "");
}

/* The commands in turn: A B, B A, A B … */
static kineto_status run_rounds(kc_bench_runs *b, uint32_t rounds, bool is_warm_up, kineto_error *err)
{
    uint32_t all = rounds * b->command_count;
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < all && !status; i++) {
        uint32_t round = i / b->command_count, side = (i + round * (b->command_count - 1)) % b->command_count;
        if (!is_warm_up)
            show_progress(b, i, all);
        status = run_once(b, side, round, is_warm_up, err);
    }
    if (!is_warm_up)
        show_progress(b, all, all);
    return status;
}

kineto_status kc_bench_record(kc_bench_runs *b, kineto_error *err)
{
    kineto_status status = kb_os_make_directories(b->directory, err);
    if (!status)
        status = name_traces(b, err);
    if (!status)
        status = run_rounds(b, b->warm_up, true, err);
    return status ? status : run_rounds(b, b->repeat, false, err);
}

void kc_bench_free(kc_bench_runs *b)
{
    for (uint32_t i = 0; i < 2 * KC_MAX_RUNS; i++)
        free(b->traces[i / KC_MAX_RUNS][i % KC_MAX_RUNS]);
}
